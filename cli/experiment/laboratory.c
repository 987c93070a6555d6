/* laboratory.c: see laboratory.h. */
#include "laboratory.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <mmchain_commit.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double cli_unix_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Writes the device's model: its description up to the first comma. */
static void name_machine(cli_laboratory *x) {
  mmc_device_info info;
  for (int d = 0; mmc_device_describe(x->call->context, d, &info) == MMC_OK; d++) {
    size_t length = strlen(info.name);
    bool found = strcmp(info.name, x->device) == 0 ||
                 (strncmp(info.name, x->device, strlen(x->device)) == 0 && length > 2 &&
                  strcmp(info.name + length - 2, ":0") == 0) ||
                 (strcmp(x->device, "cpu") == 0 && info.available);
    if (!found) continue;
    snprintf(x->machine, sizeof x->machine, "%.*s", (int)strcspn(info.description, ","),
             info.description);
    break;
  }
  x->is_gpu = strncmp(x->device, "cuda", 4) == 0;
}

static int fail_file(cli_laboratory *x, int code) {
  return cli_fail(x->call, CLI_BAD, "-o: %s/results.jsonl: cannot write: %s", x->directory,
                  strerror(code));
}

/* Empties results.jsonl, or makes it. */
static int open_kept(cli_laboratory *x) {
  char path[4096];
  int length = snprintf(path, sizeof path, "%s/results.jsonl", x->directory);
  if (length < 0 || (size_t)length >= sizeof path) return fail_file(x, ENAMETOOLONG);
  x->kept.file = fopen(path, "we");
  return x->kept.file != NULL ? CLI_DONE : fail_file(x, errno);
}

int cli_laboratory_open(cli_laboratory *x) {
  int result = x->directory != NULL ? open_kept(x) : CLI_DONE;
  if (result != CLI_DONE) return result;
  name_machine(x);
  x->results = open_memstream(&x->lines, &x->size);
  if (x->results == NULL) return cli_fail_memory(x->call, "the results take", 1 << 16);
  x->line = (cli_stream){.file = x->results};
  x->progress = cli_progress_start(x->call);
  return CLI_DONE;
}

void cli_laboratory_close(cli_laboratory *x) {
  cli_energy_close(&x->energy);
  if (x->results != NULL) fclose(x->results);
  if (x->kept.file != NULL) fclose(x->kept.file);
  free(x->lines);
}

/* Copies the processor's model, as the kernel names it. */
static void name_processor(char *out, size_t size) {
  char line[256];
  FILE *file = fopen("/proc/cpuinfo", "re");
  snprintf(out, size, "unknown");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    const char *value = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || value == NULL) continue;
    value += 1 + strspn(value + 1, " \t");
    snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
    break;
  }
  if (file != NULL) fclose(file);
}

void cli_laboratory_tell_about(cli_laboratory *x, const char *command) {
  char when[32] = "", processor[128];
  time_t now = time(NULL);
  struct tm parts;
  if (gmtime_r(&now, &parts) != NULL) strftime(when, sizeof when, "%Y-%m-%d %H:%M UTC", &parts);
  name_processor(processor, sizeof processor);
  cli_line_begin(x, "about");
  cli_line_text(x, "processor", processor);
  cli_line_text(x, "version", mmc_version());
  cli_line_text(x, "commit", MMC_COMMIT);
  cli_line_text(x, "when", when);
  cli_line_text(x, "command", command);
  cli_line_truth(x, "quick", x->quick);
  cli_line_number(x, "window_s", x->window_s);
  cli_line_count(x, "repeats", x->repeats);
  cli_line_text(x, "meter", x->energy.idle.measured ? x->energy.idle.meter : "");
  cli_line_number(x, "idle_watts", x->energy.idle.measured ? x->energy.idle.idle_watts : NAN);
  cli_line_text(x, "joules_reason",
                x->energy.idle.measured            ? ""
                : x->energy.idle.reason[0] != '\0' ? x->energy.idle.reason
                                                   : "this experiment is about time");
  cli_line_end(x);
}

/* ---- lines ----------------------------------------------------------------------------------- */

void cli_line_begin(cli_laboratory *x, const char *part) {
  cli_print(&x->line, "{\"experiment\": \"%s\", \"part\": \"%s\"", x->experiment, part);
  cli_line_text(x, "machine", x->machine);
  cli_line_text(x, "device", x->device);
}

void cli_line_text(cli_laboratory *x, const char *name, const char *text) {
  cli_print(&x->line, ", \"%s\": ", name);
  if (text != NULL && text[0] != '\0')
    cli_print_json_string(&x->line, text);
  else
    cli_print(&x->line, "null");
}

/* Prints whole numbers with all of their digits. */
static void print_number(cli_stream *out, double value) {
  if (isfinite(value) && value == floor(value) && fabs(value) < 0x1p53)
    cli_print(out, "%.0f", value);
  else if (isfinite(value))
    cli_print(out, "%.7g", value);
  else
    cli_print(out, "null");
}

void cli_line_number(cli_laboratory *x, const char *name, double value) {
  cli_print(&x->line, ", \"%s\": ", name);
  print_number(&x->line, value);
}

void cli_line_count(cli_laboratory *x, const char *name, int64_t value) {
  cli_print(&x->line, ", \"%s\": %" PRId64, name, value);
}

void cli_line_exact(cli_laboratory *x, const char *name, mmc_count value) {
  cli_print(&x->line, ", \"%s\": ", name);
  cli_print_json_count(&x->line, value);
}

void cli_line_truth(cli_laboratory *x, const char *name, bool value) {
  cli_print(&x->line, ", \"%s\": %s", name, value ? "true" : "false");
}

void cli_line_numbers(cli_laboratory *x, const char *name, const double *values, int count) {
  cli_print(&x->line, ", \"%s\": [", name);
  for (int i = 0; i < count; i++) {
    if (i > 0) cli_print(&x->line, ", ");
    print_number(&x->line, values[i]);
  }
  cli_print(&x->line, "]");
}

void cli_line_end(cli_laboratory *x) {
  cli_print(&x->line, "}\n");
  if (fflush(x->results) != 0) return;
  const char *line = x->lines + x->told;
  const size_t size = x->size - x->told;
  x->told = x->size;
  if (x->kept.file != NULL) {
    cli_stream_write(&x->kept, line, size);
    cli_stream_flush(&x->kept);
  }
  if (!x->json) return;
  cli_progress_end(&x->progress);
  cli_stream_write(&x->call->out, line, size);
  cli_stream_flush(&x->call->out);
}

int cli_tell_orders(cli_laboratory *x, const char *text) {
  static const char *const given[] = {"((A1 A2) A3)", "(A1 (A2 A3))"};
  for (int o = 0; o < 2; o++) {
    mmc_chain *chain;
    mmc_plan *plan = NULL;
    mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
    options.order = given[o];
    options.device = x->device;
    mmc_status status = mmc_chain_parse(x->call->context, text, &chain);
    if (status != MMC_OK) return cli_fail_status(x->call, status, "");
    status = mmc_plan_create(x->call->context, chain, &options, &plan);
    mmc_chain_destroy(chain);
    if (status != MMC_OK) return cli_fail_status(x->call, status, "");
    cli_line_begin(x, "example");
    cli_line_text(x, "order", given[o]);
    cli_line_exact(x, "multiplications", mmc_plan_multiplications(plan));
    cli_line_end(x);
    mmc_plan_destroy(plan);
  }
  return CLI_DONE;
}

int cli_laboratory_save(cli_laboratory *x) {
  if (x->kept.file == NULL) return CLI_DONE;
  if (x->kept.error == 0 && fsync(fileno(x->kept.file)) != 0 && errno != EINVAL)
    x->kept.error = errno;
  return x->kept.error == 0 ? CLI_DONE : fail_file(x, x->kept.error);
}

void cli_say(cli_laboratory *x, const char *format, ...) {
  char text[1001];
  va_list args;
  if (x->json) return;
  va_start(args, format);
  if (vsnprintf(text, sizeof text, format, args) < 0) text[0] = '\0';
  va_end(args);
  cli_progress_end(&x->progress);
  cli_print(&x->call->out, "%s\n", text);
  cli_stream_flush(&x->call->out);
}

int cli_laboratory_show(cli_laboratory *x, double done, const char *words) {
  if (cli_progress_show_words(&x->progress, done, words) == 0 && !cli_interrupted())
    return CLI_DONE;
  cli_progress_end(&x->progress);
  return cli_fail(x->call, CLI_INTERRUPTED, "interrupted");
}
