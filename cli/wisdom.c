/* wisdom.c: `mmchain wisdom` shows what was measured, and moves it between machines and files. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "options.h"

static const char help[] =
    "usage: mmchain wisdom show [--json]\n"
    "       mmchain wisdom export [-o FILE]\n"
    "       mmchain wisdom import FILE\n"
    "       mmchain wisdom forget --all | [--on DEVICE] [--dtype TYPE] [--foreign] [--progress]\n"
    "\n"
    "Wisdom is what `mmchain tune` has measured, in one file: MMCHAIN_WISDOM, or "
    "mmchain/wisdom.db\n"
    "under XDG_CACHE_HOME or ~/.cache. Only what was measured on this very machine, with this\n"
    "BLAS, driver and version of mmchain, is used; the rest is foreign, and kept.\n"
    "\n"
    "  show           list it\n"
    "  export         write it as text, the same text for the same wisdom\n"
    "  import FILE    add what such a text holds, all or nothing; of two entries for one thing "
    "the\n"
    "                 later measured stays; - for standard input\n"
    "  forget         delete what fits every option given\n"
    "  --json         one object, or for forget the number of entries in one\n"
    "  -o FILE        the file to write; - , the default, for standard output\n"
    "  --on DEVICE    of a device: blas, ref, cuda\n"
    "  --dtype TYPE   of a dtype: f32, f64, c64, c128, f16 or bf16\n"
    "  --foreign      not of this machine\n"
    "  --progress     how far tuning is, and nothing else: it will start over\n"
    "  --all          everything\n"
    "  --no-sync      do not wait until the file of -o has reached the disk\n"
    "  -h, --help     this text\n";

enum { OPTION_DTYPE = CLI_OPTION_OWN, OPTION_FOREIGN, OPTION_PROGRESS, OPTION_ALL };

static const struct option options[] = {
    {"on", required_argument, NULL, CLI_OPTION_ON},
    {"dtype", required_argument, NULL, OPTION_DTYPE},
    {"foreign", no_argument, NULL, OPTION_FOREIGN},
    {"progress", no_argument, NULL, OPTION_PROGRESS},
    {"all", no_argument, NULL, OPTION_ALL},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"output", required_argument, NULL, CLI_OPTION_OUT},
    {"no-sync", no_argument, NULL, CLI_OPTION_NO_SYNC},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

typedef struct request {
  mmc_wisdom_filter filter;
  bool all, json;
  const char *output; /* NULL means standard output */
  const char *input;
} request;

/* Fails because of a store that cannot be read or written, which is no bad input. */
static int fail_store(cli_call *call, mmc_status status) {
  return status == MMC_E_IO ? cli_fail_write(call, status, "") : cli_fail_status(call, status, "");
}

/* ---- what can be done ------------------------------------------------------------------------ */

static int show(cli_call *call, const request *r) {
  mmc_status status =
      mmc_wisdom_write(call->context, r->json ? MMC_JSON : MMC_TEXT, cli_stream_write, &call->out);
  return status == MMC_OK || call->out.error != 0 ? CLI_DONE : fail_store(call, status);
}

static int export_to(cli_call *call, const char *path) {
  mmc_wisdom_info store;
  mmc_status described = mmc_wisdom_describe(call->context, &store);
  if (described != MMC_OK) return fail_store(call, described);
  int result = cli_note_input(call, "", "the wisdom store", store.path);
  if (result == CLI_DONE) result = cli_check_output(call, "-o", path);
  if (result != CLI_DONE) return result;
  cli_file file;
  if (cli_file_create(path, &file)) {
    mmc_status status = mmc_wisdom_export(call->context, cli_stream_write, &file.stream);
    if (status != MMC_OK && file.stream.error == 0) {
      cli_file_discard(&file);
      return fail_store(call, status);
    }
    if (cli_file_commit(&file)) return CLI_DONE;
  }
  return cli_fail(call, CLI_BAD, "-o: %s: cannot write: %s", path, strerror(errno));
}

static int export(cli_call *call, const request *r) {
  if (r->output != NULL && strcmp(r->output, "-") != 0) return export_to(call, r->output);
  mmc_status status = mmc_wisdom_export(call->context, cli_stream_write, &call->out);
  return status == MMC_OK || call->out.error != 0 ? CLI_DONE : fail_store(call, status);
}

/* Reads from a FILE, which is user. */
static ptrdiff_t read_file(void *user, char *bytes, size_t size) {
  FILE *file = user;
  errno = 0;
  size_t got = fread(bytes, 1, size, file);
  return got == 0 && ferror(file) ? -1 : (ptrdiff_t)got;
}

static int import(cli_call *call, const request *r) {
  bool standard = strcmp(r->input, "-") == 0;
  FILE *file = standard ? stdin : fopen(r->input, "re");
  if (file == NULL)
    return cli_fail(call, CLI_BAD, "%s: cannot read: %s", r->input, strerror(errno));
  mmc_status status = mmc_wisdom_import(call->context, read_file, file);
  int code = errno;
  bool unread = ferror(file) != 0;
  if (!standard) fclose(file);
  const char *name = standard ? "standard input" : r->input;
  if (unread) return cli_fail(call, CLI_BAD, "%s: cannot read: %s", name, strerror(code));
  if (status == MMC_E_IO || status == MMC_E_UNSUPPORTED) return fail_store(call, status);
  if (status != MMC_OK) {
    char where[512];
    snprintf(where, sizeof where, "%s: ", name);
    return cli_fail_status(call, status, where);
  }
  return CLI_DONE;
}

static int forget(cli_call *call, const request *r) {
  const mmc_wisdom_filter *filter = &r->filter;
  bool filtered =
      filter->device != NULL || filter->dtype != NULL || filter->foreign || filter->progress;
  if (filtered == r->all)
    return cli_fail(call, CLI_BAD,
                    "forget: expected --all, or some of --on, --dtype, --foreign and --progress");
  int64_t count = 0;
  mmc_status status = mmc_wisdom_forget(call->context, filter, &count);
  if (status != MMC_OK) return fail_store(call, status);
  if (r->json)
    cli_print(&call->out, "{\"forgotten\": %" PRId64 "}\n", count);
  else
    cli_print(&call->out, "%" PRId64 " %s forgotten\n", count, count == 1 ? "entry" : "entries");
  return CLI_DONE;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* The options that each verb takes: j --json, o -o, f those by which forget chooses, i a file to
 * read. */
static const struct {
  const char *name, *takes;
  int (*run)(cli_call *call, const request *r);
} verbs[] = {{"show", "j", show},
             {"export", "o", export},
             {"import", "i", import},
             {"forget", "jf", forget}};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

/* Takes one option and notes it in given. Returns false when it is wrong. */
static bool read_option(int code, request *r, char *given) {
  switch (code) {
    case CLI_OPTION_JSON:
      r->json = true;
      *given = 'j';
      return true;
    case CLI_OPTION_OUT:
      r->output = optarg;
      *given = 'o';
      return true;
    case CLI_OPTION_ON:
      r->filter.device = optarg;
      break;
    case OPTION_DTYPE:
      r->filter.dtype = optarg;
      break;
    case OPTION_FOREIGN:
      r->filter.foreign = true;
      break;
    case OPTION_PROGRESS:
      r->filter.progress = true;
      break;
    case OPTION_ALL:
      r->all = true;
      break;
    default:
      return false;
  }
  *given = 'f';
  return true;
}

/* Checks that a name is a kind of device, whether it is here or not. */
static int check_device(cli_call *call, const char *device) {
  char kinds[256] = "";
  const char *last = "";
  mmc_device_info info;
  for (int d = 0; mmc_device_describe(call->context, d, &info) == MMC_OK; d++) {
    size_t length = strcspn(info.name, ":"), used = strlen(kinds);
    if (strlen(device) == length && strncmp(device, info.name, length) == 0) return CLI_DONE;
    if (length == strcspn(last, ":") && strncmp(info.name, last, length) == 0) continue;
    last = info.name;
    snprintf(kinds + used, sizeof kinds - used, "%s%.*s", used > 0 ? ", " : "", (int)length,
             info.name);
  }
  const char *comma = strrchr(kinds, ',');
  return cli_fail(call, CLI_BAD, "--on: expected %.*s or%s, got '%s'", (int)(comma - kinds), kinds,
                  comma + 1, device);
}

/* Checks that --on and --dtype name what there could be: a misspelt name must not pass for an empty
 * store. */
static int check_filter(cli_call *call, const request *r) {
  const char *dtype = r->filter.dtype, *device = r->filter.device;
  if (dtype != NULL) {
    mmc_dtype d = MMC_F32;
    while (mmc_dtype_name(d) != NULL && strcmp(mmc_dtype_name(d), dtype) != 0)
      d = (mmc_dtype)(d + 1);
    if (mmc_dtype_name(d) == NULL)
      return cli_fail(call, CLI_BAD, "--dtype: expected f32, f64, c64, c128, f16 or bf16, got '%s'",
                      dtype);
  }
  return device != NULL ? check_device(call, device) : CLI_DONE;
}

static int run(cli_call *call, int argc, char **argv) {
  request r = {.filter = MMC_WISDOM_FILTER_INIT};
  char given[256] = "";
  for (int code; (code = cli_option_next(call, argc, argv, options)) != CLI_OPTION_END;) {
    if (code == CLI_OPTION_HELP) return cli_help(call);
    size_t used = strlen(given);
    if (!read_option(code, &r, &given[used < sizeof given - 1 ? used : used - 1])) return CLI_BAD;
  }
  const char *name = optind < argc ? argv[optind++] : "";
  int v = 0;
  while (v < VERB_COUNT && strcmp(verbs[v].name, name) != 0) v++;
  if (name[0] == '\0') return cli_fail(call, CLI_BAD, "expected show, export, import or forget");
  if (v == VERB_COUNT)
    return cli_fail(call, CLI_BAD, "expected show, export, import or forget, got '%s'", name);
  size_t fits = strspn(given, verbs[v].takes);
  if (given[fits] != '\0')
    return cli_fail(call, CLI_BAD, "%s: takes no %s", name,
                    given[fits] == 'j'   ? "--json"
                    : given[fits] == 'o' ? "-o"
                                         : "--all, --on, --dtype, --foreign or --progress");
  if (strchr(verbs[v].takes, 'i') != NULL) {
    if (optind == argc)
      return cli_fail(call, CLI_BAD, "%s: expected a file, or - for standard input", name);
    r.input = argv[optind++];
  }
  if (optind < argc) return cli_fail(call, CLI_BAD, "%s: expected no argument here", argv[optind]);
  int result = check_filter(call, &r);
  return result == CLI_DONE ? verbs[v].run(call, &r) : result;
}

const cli_command cli_wisdom = {
    .name = "wisdom",
    .summary = "what was measured: show, export, import, forget",
    .help = help,
    .run = run,
};
