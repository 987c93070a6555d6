/* order.c: `mmchain order` solves the ordering problem itself, for any number of factors. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dims.h"
#include "options.h"
#include "profile.h"
#include "programs.h"
#include "progress.h"

static const char help[] =
    "usage: mmchain order DIMS ... [options]\n"
    "       mmchain order --dims FILE [options]\n"
    "\n"
    "Finds the order of fewest multiplications for a chain of any length, on the CPU or a GPU.\n"
    "\n"
    "  DIMS                   30x35x15 or 30 35 15: two at least\n"
    "  --dims FILE            read them from a file, - for standard input: numbers separated by\n"
    "                         white space, commas or x; # begins a comment\n"
    "  --solver NAME          auto, hu-shing, table, brute (at most 12 factors) or left-to-right\n"
    "  --on DEVICE            cpu, cuda or cuda:N\n"
    "  --kernel NAME          of solver table; on the CPU auto, avx512, avx2 or portable, on CUDA\n"
    "                         auto, tiled, thread, block, blocks or paper\n"
    "  --threads N            of the CPU; 0, the default, for as many as cores\n"
    "  --threads-per-block N  kernels thread, block and blocks: 32, 64, 128 or 256; 0, the\n"
    "                         default, for the fastest\n"
    "  --blocks-per-entry N   kernel blocks: 2, 4, 8 or 16; 0, the default, for the fastest\n"
    "  --tables               print the tables m and s, for at most 40 factors\n"
    "  --json                 one object\n"
    "  -o FILE                write the order as a tree: JSON when the name ends with .json, else\n"
    "                         binary, which mmchain.h describes; - for binary on standard output\n"
    "  --profile FILE.csv     kernels thread, block, blocks and paper: the time of each kernel on\n"
    "                         each diagonal, plotted to FILE.svg when gnuplot is installed\n"
    "  --no-sync              do not wait until the file of -o has reached the disk\n"
    "  -h, --help             this text\n";

enum {
  OPTION_DIMS = CLI_OPTION_OWN,
  OPTION_KERNEL,
  OPTION_THREADS,
  OPTION_THREADS_PER_BLOCK,
  OPTION_BLOCKS_PER_ENTRY,
  OPTION_TABLES,
  OPTION_PROFILE
};

static const struct option options[] = {
    {"dims", required_argument, NULL, OPTION_DIMS},
    {"solver", required_argument, NULL, CLI_OPTION_SOLVER},
    {"on", required_argument, NULL, CLI_OPTION_ON},
    {"kernel", required_argument, NULL, OPTION_KERNEL},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"threads-per-block", required_argument, NULL, OPTION_THREADS_PER_BLOCK},
    {"blocks-per-entry", required_argument, NULL, OPTION_BLOCKS_PER_ENTRY},
    {"tables", no_argument, NULL, OPTION_TABLES},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"output", required_argument, NULL, CLI_OPTION_OUT},
    {"profile", required_argument, NULL, OPTION_PROFILE},
    {"no-sync", no_argument, NULL, CLI_OPTION_NO_SYNC},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

enum { ORDER_SHOWN = 64, TABLES_SHOWN = 40, THREADS_MAX = 4096 };

/* What is asked for, and what comes of it. */
typedef struct problem {
  mmc_order_options order_options;
  const char *dims_path, *output, *profile_path;
  bool json;
  cli_dims dims;
  mmc_order *order;
  cli_buffer profile;
} problem;

/* ---- options --------------------------------------------------------------------------------- */

static bool read_int(cli_call *call, const char *name, int most, int *out) {
  int64_t value = 0;
  if (!cli_number(call, name, optarg, 0, most, &value)) return false;
  *out = (int)value;
  return true;
}

/* Takes one option. Returns CLI_DONE, or the exit status after saying what is wrong. */
static int read_option(cli_call *call, int code, problem *p) {
  mmc_order_options *o = &p->order_options;
  switch (code) {
    case OPTION_DIMS:
      p->dims_path = optarg;
      return CLI_DONE;
    case CLI_OPTION_SOLVER:
      o->solver = optarg;
      return CLI_DONE;
    case CLI_OPTION_ON:
      o->device = optarg;
      return CLI_DONE;
    case OPTION_KERNEL:
      o->kernel = optarg;
      return CLI_DONE;
    case OPTION_THREADS:
      return read_int(call, "--threads", THREADS_MAX, &o->threads) ? CLI_DONE : CLI_BAD;
    case OPTION_THREADS_PER_BLOCK:
      return read_int(call, "--threads-per-block", 256, &o->threads_per_block) ? CLI_DONE : CLI_BAD;
    case OPTION_BLOCKS_PER_ENTRY:
      return read_int(call, "--blocks-per-entry", 16, &o->blocks_per_entry) ? CLI_DONE : CLI_BAD;
    case OPTION_TABLES:
      o->keep_table = true;
      return CLI_DONE;
    case CLI_OPTION_JSON:
      p->json = true;
      return CLI_DONE;
    case CLI_OPTION_OUT:
      p->output = optarg;
      return CLI_DONE;
    case OPTION_PROFILE:
      p->profile_path = optarg;
      return CLI_DONE;
    default:
      return CLI_BAD;
  }
}

/* Checks options that make sense only together. The library checks the value of each. */
static int check_order_options(cli_call *call, problem *p) {
  mmc_order_options *o = &p->order_options;
  bool on_device = o->device != NULL && strcmp(o->device, "cpu") != 0;
  if (!on_device && o->threads_per_block != 0)
    return cli_fail(call, CLI_BAD, "--threads-per-block: expected --on cuda with it");
  if (!on_device && o->blocks_per_entry != 0)
    return cli_fail(call, CLI_BAD, "--blocks-per-entry: expected --on cuda with it");

  const char *needs_table = o->keep_table ? "--tables" : o->kernel != NULL ? "--kernel" : NULL;
  if (needs_table != NULL && o->solver != NULL && strcmp(o->solver, "table") != 0)
    return cli_fail(call, CLI_BAD, "%s: expected --solver table with it, got '%s'", needs_table,
                    o->solver);
  if (needs_table != NULL) o->solver = "table";

  static const char profiled[] = " thread block blocks paper ";
  char word[32] = "";
  if (o->kernel != NULL) snprintf(word, sizeof word, " %s ", o->kernel);
  if (p->profile_path != NULL && (!on_device || word[0] == '\0' || strstr(profiled, word) == NULL))
    return cli_fail(call, CLI_BAD,
                    "--profile: expected --on cuda and --kernel thread, block, blocks or paper "
                    "with it");
  bool output_taken = p->output != NULL && strcmp(p->output, "-") == 0;
  if (output_taken && (p->json || o->keep_table))
    return cli_fail(call, CLI_BAD, "-o: expected a file, as standard output takes %s",
                    p->json ? "--json" : "--tables");
  int result = CLI_DONE;
  if (p->output != NULL && !output_taken) result = cli_check_output(call, "-o", p->output);
  if (result == CLI_DONE && p->profile_path != NULL)
    result = cli_profile_check(call, p->profile_path);
  return result;
}

static int read_dims(cli_call *call, int count, char **arguments, problem *p) {
  int result = CLI_DONE;
  if (p->dims_path != NULL) {
    if (count > 0)
      return cli_fail(call, CLI_BAD, "%s: expected no dims besides --dims", arguments[0]);
    result = cli_dims_read(call, p->dims_path, &p->dims);
  }
  for (int i = 0; i < count && result == CLI_DONE; i++) {
    char name[32];
    if (access(arguments[i], F_OK) == 0 &&
        strspn(arguments[i], "0123456789x, ") < strlen(arguments[i]))
      return cli_fail(call, CLI_BAD,
                      "%s: expected dims, as in 10x30x5; --dims %s reads them from the file",
                      arguments[i], arguments[i]);
    snprintf(name, sizeof name, "argument %d", i + 1);
    result = cli_dims_append(call, name, arguments[i], &p->dims);
  }
  if (result != CLI_DONE) return result;
  if (p->dims.count < 2)
    return cli_fail(call, CLI_BAD, "dims: expected two at least, got %s",
                    p->dims.count == 0 ? "none" : "one");
  if (p->order_options.keep_table && p->dims.count - 1 > TABLES_SHOWN)
    return cli_fail(call, CLI_BAD, "--tables: expected at most %d factors, got %" PRId64,
                    TABLES_SHOWN, p->dims.count - 1);
  return CLI_DONE;
}

/* ---- solving and writing --------------------------------------------------------------------- */

static int solve_problem(cli_call *call, problem *p) {
  cli_progress progress = cli_progress_start(call);
  mmc_order_options *o = &p->order_options;
  o->progress = cli_progress_show;
  o->progress_user = &progress;
  if (p->profile_path != NULL) {
    if (!cli_profile_start(&p->profile)) return cli_fail_memory(call, "the profile takes", 64);
    o->profile = cli_buffer_write;
    o->profile_user = &p->profile;
  }
  mmc_status status =
      mmc_order_create(call->context, p->dims.count - 1, p->dims.dims, o, &p->order);
  cli_progress_end(&progress);
  if (status == MMC_E_INTERRUPTED || cli_interrupted())
    return cli_fail(call, CLI_INTERRUPTED, "interrupted");
  return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, "");
}

/* Writes until it is interrupted. user is a cli_stream. */
static int write_unless_interrupted(void *user, const char *bytes, size_t size) {
  return cli_interrupted() ? EINTR : cli_stream_write(user, bytes, size);
}

static int write_tree(cli_call *call, problem *p) {
  if (strcmp(p->output, "-") == 0) {
    mmc_status status =
        mmc_order_write(p->order, MMC_ORDER_BINARY, write_unless_interrupted, &call->out);
    if (cli_interrupted()) return cli_fail(call, CLI_INTERRUPTED, "interrupted");
    return status == MMC_OK || call->out.error != 0 ? CLI_DONE : cli_fail_write(call, status, "");
  }
  size_t length = strlen(p->output);
  bool json = length >= 5 && strcasecmp(p->output + length - 5, ".json") == 0;
  cli_file file;
  int code = 0;
  if (!cli_file_create(p->output, &file)) {
    code = errno;
  } else {
    mmc_status status = mmc_order_write(p->order, json ? MMC_ORDER_JSON : MMC_ORDER_BINARY,
                                        write_unless_interrupted, &file.stream);
    if (json && status == MMC_OK) cli_print(&file.stream, "\n");
    if (cli_interrupted() || (status != MMC_OK && file.stream.error == 0)) {
      cli_file_discard(&file);
      return cli_interrupted() ? cli_fail(call, CLI_INTERRUPTED, "interrupted")
                               : cli_fail_write(call, status, "");
    }
    if (!cli_file_commit(&file)) code = errno;
  }
  if (code == 0) return CLI_DONE;
  return cli_fail(call, CLI_BAD, "-o: %s: cannot write: %s", p->output, strerror(code));
}

/* ---- printing -------------------------------------------------------------------------------- */

typedef struct table_entry {
  mmc_count m;
  int64_t s;
} table_entry;

/* Reads entry (i, j) of the tables m and s. */
static table_entry entry(const mmc_order *order, int64_t i, int64_t j) {
  table_entry e = {0};
  mmc_order_entry(order, i, j, &e.m, &e.s);
  return e;
}

static char *entry_text(const mmc_order *order, bool m, int64_t i, int64_t j,
                        char text[MMC_COUNT_TEXT_SIZE]) {
  table_entry e = entry(order, i, j);
  return mmc_count_format(m ? e.m : (mmc_count){.lo = (uint64_t)e.s}, text);
}

/* Prints a table as Figure 1 of Nishida, Ito and Nakano (2011) lays it out. */
static void print_table(cli_call *call, const mmc_order *order, bool m) {
  int64_t n = mmc_order_length(order);
  char text[MMC_COUNT_TEXT_SIZE];
  size_t width = 2;
  for (int64_t i = 1; i <= n; i++)
    for (int64_t j = i; j <= n; j++) {
      size_t length = strlen(entry_text(order, m, i, j, text));
      if (length > width) width = length;
    }
  int w = (int)width;
  cli_print(&call->out, "\n%s ", m ? "m" : "s");
  for (int64_t j = 1; j <= n; j++) cli_print(&call->out, " %*" PRId64, w, j);
  cli_print(&call->out, "\n");
  for (int64_t i = 1; i <= n; i++) {
    cli_print(&call->out, "%-2" PRId64 "%*s", i, (int)(i - 1) * (w + 1), "");
    for (int64_t j = i; j <= n; j++)
      cli_print(&call->out, " %*s", w, entry_text(order, m, i, j, text));
    cli_print(&call->out, "\n");
  }
}

static int print_order_text(cli_call *call, const problem *p) {
  const mmc_order *order = p->order;
  int64_t n = mmc_order_length(order);
  char count[MMC_COUNT_TEXT_SIZE];
  cli_stream *out = &call->out;
  cli_print(out, "order            ");
  mmc_status status = MMC_OK;
  if (n <= ORDER_SHOWN)
    status = mmc_order_write(order, MMC_ORDER_TEXT, cli_stream_write, out);
  else if (p->output != NULL)
    cli_print(out, "of %" PRId64 " factors, in %s", n, p->output);
  else
    cli_print(out, "of %" PRId64 " factors: -o FILE writes it", n);
  if (status != MMC_OK && out->error == 0) return cli_fail_write(call, status, "");
  cli_print(out, "\nmultiplications  %s\nsolver           %s\ndevice           %s\n",
            mmc_count_format(mmc_order_multiplications(order), count), mmc_order_solver(order),
            mmc_order_device(order));
  if (mmc_order_kernel(order)[0] != '\0')
    cli_print(out, "kernel           %s\n", mmc_order_kernel(order));
  cli_print(out, "seconds          %.6f\n", mmc_order_seconds(order));
  if (p->profile_path != NULL) cli_profile_print_ranges(call, &p->profile);
  if (p->order_options.keep_table) {
    print_table(call, order, true);
    print_table(call, order, false);
  }
  return CLI_DONE;
}

static void print_json_table(cli_call *call, const mmc_order *order, bool m) {
  int64_t n = mmc_order_length(order);
  cli_print(&call->out, ",\n \"%s\": [", m ? "m" : "s");
  for (int64_t i = 1; i <= n; i++) {
    cli_print(&call->out, "%s\n  [", i > 1 ? "," : "");
    for (int64_t j = i; j <= n; j++) {
      table_entry e = entry(order, i, j);
      if (j > i) cli_print(&call->out, ", ");
      if (m)
        cli_print_json_count(&call->out, e.m);
      else
        cli_print(&call->out, "%" PRId64, e.s);
    }
    cli_print(&call->out, "]");
  }
  cli_print(&call->out, "]");
}

static int print_order_json(cli_call *call, const problem *p) {
  const mmc_order *order = p->order;
  int64_t n = mmc_order_length(order);
  cli_stream *out = &call->out;
  cli_print(out, "{\"n\": %" PRId64 ", \"solver\": ", n);
  cli_print_json_string(out, mmc_order_solver(order));
  cli_print(out, ", \"device\": ");
  cli_print_json_string(out, mmc_order_device(order));
  cli_print(out, ", \"kernel\": ");
  if (mmc_order_kernel(order)[0] != '\0')
    cli_print_json_string(out, mmc_order_kernel(order));
  else
    cli_print(out, "null");
  cli_print(out, ", \"multiplications\": ");
  cli_print_json_count(out, mmc_order_multiplications(order));
  cli_print(out, ", \"seconds\": %.6g, \"order\": ", mmc_order_seconds(order));
  if (n <= ORDER_SHOWN) {
    cli_print(out, "\"");
    mmc_status status = mmc_order_write(order, MMC_ORDER_TEXT, cli_stream_write, out);
    if (status != MMC_OK && out->error == 0) return cli_fail_write(call, status, "");
    cli_print(out, "\"");
  } else {
    cli_print(out, "null");
  }
  if (p->order_options.keep_table) {
    print_json_table(call, order, true);
    print_json_table(call, order, false);
  }
  cli_print(out, "}\n");
  return CLI_DONE;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int order_dims(cli_call *call, int count, char **arguments, problem *p) {
  int result = check_order_options(call, p);
  if (result == CLI_DONE) result = read_dims(call, count, arguments, p);
  if (result == CLI_DONE) result = solve_problem(call, p);
  if (result == CLI_DONE && p->output != NULL) result = write_tree(call, p);
  if (result == CLI_DONE && p->profile_path != NULL)
    result = cli_profile_write(call, p->profile_path, &p->profile);
  if (result != CLI_DONE || (p->output != NULL && strcmp(p->output, "-") == 0)) return result;
  return p->json ? print_order_json(call, p) : print_order_text(call, p);
}

static int run(cli_call *call, int argc, char **argv) {
  problem p = {.order_options = MMC_ORDER_OPTIONS_INIT};
  for (int code; (code = cli_option_next(call, argc, argv, options)) != CLI_OPTION_END;) {
    if (code == CLI_OPTION_HELP) return cli_help(call);
    int result = read_option(call, code, &p);
    if (result != CLI_DONE) return result;
  }
  cli_interrupt_catch();
  int result = order_dims(call, argc - optind, argv + optind, &p);
  mmc_order_destroy(p.order);
  free(p.dims.dims);
  cli_buffer_free(&p.profile);
  return result;
}

const cli_command cli_order = {
    .name = "order",
    .summary = "the ordering problem itself, for any number of factors",
    .help = help,
    .run = run,
};
