/* info.c: `mmchain info` says what is here, what is missing, and how to get it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "programs.h"

static const char help[] =
    "usage: mmchain info [--json]\n"
    "\n"
    "Lists the version, the devices, the engines of ranks, the energy meters, the wisdom store, "
    "the\n"
    "formats of files and the programs for pictures: what is here, what is missing, and how to "
    "get\n"
    "it.\n"
    "\n"
    "  --json      one object\n"
    "  -h, --help  this text\n";

static const struct option options[] = {
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static const struct {
  const char *program, *draws, *package;
} programs[] = {
    {"gnuplot", "order --profile", "gnuplot-nox"},
};

enum { PROGRAM_COUNT = sizeof programs / sizeof programs[0] };

/* Returns the processor's model as the kernel names it, a string to free, or NULL. */
static char *processor(void) {
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (file == NULL) return NULL;
  char *line = NULL, *model = NULL;
  size_t capacity = 0;
  while (model == NULL && getline(&line, &capacity, file) >= 0) {
    if (strncmp(line, "model name", strlen("model name")) != 0) continue;
    const char *value = strchr(line, ':');
    if (value == NULL) continue;
    value += 1 + strspn(value + 1, " \t");
    model = strndup(value, strcspn(value, "\n"));
  }
  free(line);
  fclose(file);
  return model;
}

/* Describes device index; returns false past the last one. */
static bool device(cli_call *call, int index, mmc_device_info *out, int *result) {
  mmc_status status = mmc_device_describe(call->context, index, out);
  if (status != MMC_OK && status != MMC_E_ARG) *result = cli_fail_status(call, status, "");
  return status == MMC_OK;
}

/* Describes meter index; returns false past the last one. */
static bool meter(cli_call *call, int index, mmc_meter_info *out, int *result) {
  mmc_status status = mmc_meter_describe(call->context, index, out);
  if (status != MMC_OK && status != MMC_E_ARG) *result = cli_fail_status(call, status, "");
  return status == MMC_OK;
}

/* Describes format index; returns false past the last one. */
static bool format(cli_call *call, int index, mmc_file_format_info *out, int *result) {
  mmc_status status = mmc_file_format_describe(call->context, index, out);
  if (status != MMC_OK && status != MMC_E_ARG) *result = cli_fail_status(call, status, "");
  return status == MMC_OK;
}

/* Describes engine index of ranks; returns false past the last one. */
static bool engine(cli_call *call, int index, mmc_engine_info *out, int *result) {
  mmc_status status = mmc_engine_describe(call->context, index, out);
  if (status != MMC_OK && status != MMC_E_ARG) *result = cli_fail_status(call, status, "");
  return status == MMC_OK;
}

static int print_info_text(cli_call *call, const char *model, long cores) {
  int result = CLI_DONE;
  cli_stream *out = &call->out;
  cli_print(out, "mmchain %s\n\nprocessor\n  %s, %ld core%s\n\ndevices\n", mmc_version(), model,
            cores, cores == 1 ? "" : "s");
  mmc_device_info info;
  for (int i = 0; device(call, i, &info, &result); i++)
    cli_print(out, "  %-8s %-8s %s\n", info.name, info.available ? "here" : "missing",
              info.description);
  cli_print(out, "\nranks\n");
  mmc_engine_info engine_info;
  for (int i = 0; engine(call, i, &engine_info, &result); i++)
    cli_print(out, "  %-9s %-8s %s\n", engine_info.name, engine_info.available ? "here" : "missing",
              engine_info.description);
  cli_print(out, "\nmeters\n");
  mmc_meter_info meter_info;
  for (int i = 0; meter(call, i, &meter_info, &result); i++)
    cli_print(out, "  %-8s %-8s %s\n", meter_info.name, meter_info.available ? "here" : "missing",
              meter_info.description);
  mmc_wisdom_info wisdom;
  mmc_status status = mmc_wisdom_describe(call->context, &wisdom);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  cli_print(out, "\nwisdom\n  %s%s%s\n", wisdom.available ? wisdom.path : "",
            wisdom.available ? ": " : "", wisdom.description);
  cli_print(out, "\nformats\n");
  mmc_file_format_info format_info;
  for (int i = 0; format(call, i, &format_info, &result); i++)
    cli_print(out, "  %-14s %-14s %-8s %s\n", format_info.name, format_info.extensions,
              format_info.available ? "here" : "missing", format_info.description);
  cli_print(out, "\nprograms\n");
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    char path[PATH_MAX];
    if (cli_program_find(programs[p].program, path))
      cli_print(out, "  %-8s %-8s %s, for %s\n", programs[p].program, "here", path,
                programs[p].draws);
    else
      cli_print(out, "  %-8s %-8s for %s: install %s\n", programs[p].program, "missing",
                programs[p].draws, programs[p].package);
  }
  return result;
}

/* Prints element index of an array. */
static void print_described(cli_stream *out, int index, const char *name, bool available,
                            const char *description) {
  cli_print(out, "%s\n  {\"name\": ", index > 0 ? "," : "");
  cli_print_json_string(out, name);
  cli_print(out, ", \"available\": %s, \"description\": ", available ? "true" : "false");
  cli_print_json_string(out, description);
  cli_print(out, "}");
}

static int print_info_json(cli_call *call, const char *model, long cores) {
  int result = CLI_DONE;
  cli_stream *out = &call->out;
  cli_print(out, "{\"version\": \"%s\", \"processor\": {\"model\": ", mmc_version());
  cli_print_json_string(out, model);
  cli_print(out, ", \"cores\": %ld}, \"devices\": [", cores);
  mmc_device_info info;
  for (int i = 0; device(call, i, &info, &result); i++)
    print_described(out, i, info.name, info.available, info.description);
  cli_print(out, "\n], \"engines\": [");
  mmc_engine_info engine_info;
  for (int i = 0; engine(call, i, &engine_info, &result); i++)
    print_described(out, i, engine_info.name, engine_info.available, engine_info.description);
  cli_print(out, "\n], \"meters\": [");
  mmc_meter_info meter_info;
  for (int i = 0; meter(call, i, &meter_info, &result); i++)
    print_described(out, i, meter_info.name, meter_info.available, meter_info.description);
  mmc_wisdom_info wisdom;
  mmc_status status = mmc_wisdom_describe(call->context, &wisdom);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  cli_print(out, "\n], \"wisdom\": {\"path\": ");
  cli_print_json_string(out, wisdom.path);
  cli_print(out,
            ", \"available\": %s, \"entries\": %" PRId64 ", \"foreign\": %" PRId64
            ", \"damaged\": %" PRId64 ", \"description\": ",
            wisdom.available ? "true" : "false", wisdom.entries, wisdom.foreign, wisdom.damaged);
  cli_print_json_string(out, wisdom.description);
  cli_print(out, "}, \"formats\": [");
  mmc_file_format_info format_info;
  for (int i = 0; format(call, i, &format_info, &result); i++)
    print_described(out, i, format_info.name, format_info.available, format_info.description);
  cli_print(out, "\n], \"programs\": [");
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    char path[PATH_MAX];
    cli_print(out, "%s\n  {\"name\": \"%s\", \"package\": \"%s\", \"path\": ", p > 0 ? "," : "",
              programs[p].program, programs[p].package);
    if (cli_program_find(programs[p].program, path))
      cli_print_json_string(out, path);
    else
      cli_print(out, "null");
    cli_print(out, "}");
  }
  cli_print(out, "\n]}\n");
  return result;
}

static int run(cli_call *call, int argc, char **argv) {
  bool json = false;
  for (int code; (code = cli_option_next(call, argc, argv, options)) != CLI_OPTION_END;) {
    switch (code) {
      case CLI_OPTION_JSON:
        json = true;
        break;
      case CLI_OPTION_HELP:
        return cli_help(call);
      default:
        return CLI_BAD;
    }
  }
  if (optind < argc) return cli_fail(call, CLI_BAD, "%s: expected no arguments", argv[optind]);
  char *found = processor();
  const char *model = found != NULL ? found : "unknown";
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int result = json ? print_info_json(call, model, cores) : print_info_text(call, model, cores);
  free(found);
  return result;
}

const cli_command cli_info = {
    .name = "info",
    .summary =
        "devices, meters, wisdom, formats, programs: what is here, what is missing, how to get it",
    .help = help,
    .run = run,
};
