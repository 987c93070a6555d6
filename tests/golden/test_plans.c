/* test_plans.c: plans of some 500 chains, objectives, devices and options, against plans.csv, so
 * that whoever moves the planner's code sees what has changed.
 *
 *     golden_plans FILE                          compares, and shows the first rows that differ
 *     golden_plans --write FILE                  writes FILE anew
 *     golden_plans --device NAME --write FILE    plans of a real device of that name, without
 *                                                wisdom, from the modules of MMCHAIN_MODULE_DIR
 *
 * Nothing depends on the machine: "ref" has no choice, "blas" is not asked for its kernels' names,
 * and cuda:N is golden_device.c. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../chains.h"
#include "../wisdom_store.h"
#include "golden_wisdom.h"
#include "mmchain.h"

static const char *const chains[] = {
    "f32:10x30x5x60",
    "f32:30x35x15x5x10x20x25",
    "f32:256x3072x2048",
    "f32:1000x1000x1000x1000",
    "f64:100x200x300x400x100",
    "f64:725x257x151x49x725",
    "f32:936x1008x552x368x1016x616x616",
    "f32:936x1008x552x368x1016x616x616:NTNTNN",
    "c64:81x1772x83x37x81:NHTN",
    "c128:3x3022x78x1598x3",
    "f16:1024x1024x64x4096x128",
    "bf16:64x4096x64x4096",
    "f32:16x16x16x16x16@10000",
    "f32:500x20x300x10@100",
    "f64:8x9x10x11x12x13@3",
    "f32:64x64^50",
    "f64:300x300^7",
    "f32:100x1",
    "f32:5x0x7x3",
    "f32:4x4x4x4x4x4x4x4x4x4x4x4x4x4x4x4x4x4x4x4x4x4x4x4x4x4",
    "f32:20000x19000x18000x17000x16000x15000x14000x13000x12000x11000x10000x9000x8000",
    "f32:128x100x90x120x64x77x128x32x128x100x90x120x64x77x128x32x128x100x90x120x64x77x128x32x128",
    NULL, /* f32 of the longest of known_chains */
};

enum { CHAINS = sizeof chains / sizeof chains[0] };

typedef struct wish {
  const char *device;
  bool wisdom;
  mmc_plan_options options; /* without size and device; a limit of 0 is none */
} wish;

static const wish wishes[] = {
#define WISH(name, with_wisdom, ...) \
  {                                  \
    name, with_wisdom, {             \
      __VA_ARGS__                    \
    }                                \
  }
    WISH("ref", false, .objective = "time"),
    WISH("blas", false, .objective = "flops"),
    WISH("blas", false, .objective = "traffic", .fuse = "joint"),
    WISH("blas", false, .objective = "traffic", .fuse = "poster", .on_chip_words = 5000),
    WISH("blas", false, .objective = "energy", .memory_limit_bytes = 100000),
    WISH("blas", false, .objective = "time"),
    WISH("cuda:0", false, .objective = "flops"),
    WISH("cuda:0", false, .objective = "flops", .solver = "left-to-right", .kernel = "golden t"),
    WISH("cuda:0", false, .objective = "traffic"),
    WISH("cuda:0", false, .objective = "traffic", .fuse = "joint"),
    WISH("cuda:0", false, .objective = "traffic", .fuse = "none", .solver = "table"),
    WISH("cuda:0", false, .objective = "time"),
    WISH("cuda:0", false, .objective = "time", .precision = "faithful", .location = MMC_DEVICE),
    WISH("cuda:0", false, .objective = "energy", .precision = "fast"),
    WISH("cuda:0", true, .objective = "time"),
    WISH("cuda:0", true, .objective = "time", .solver = "hu-shing", .memory_limit_bytes = 300000),
    WISH("cuda:0", true, .objective = "energy", .precision = "fast"),
    WISH("cuda:0", true, .objective = "energy", .max_slowdown = 1.1),
    WISH("cuda:1", false, .objective = "flops", .solver = "brute", .kernel = "golden group"),
    WISH("cuda:1", true, .objective = "time", .precision = "faithful"),
    WISH("cuda:2", false, .objective = "time", .device_memory_bytes = 1 << 23),
    WISH("cuda:2", true, .objective = "energy"),
#undef WISH
};

enum { WISHES = sizeof wishes / sizeof wishes[0] };

/* ---- text ------------------------------------------------------------------------------------ */

static void put(text_buffer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(text_buffer *out, const char *format, ...) {
  char piece[700];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(piece, sizeof piece, format, arguments);
  va_end(arguments);
  if (length >= (int)sizeof piece || text_write(out, piece, (size_t)length) != 0) abort();
}

/* Adds what is in field, which it empties; of long text only how long it is and its FNV-1a. */
static void put_field(text_buffer *out, text_buffer *field) {
  const size_t most = 600;
  uint64_t hash = UINT64_C(0xCBF29CE484222325);
  for (size_t i = 0; i < field->size; i++)
    hash = (hash ^ (unsigned char)field->bytes[i]) * UINT64_C(0x100000001B3);
  if (field->size > most)
    put(out, ",%zu bytes #%016" PRIx64, field->size, hash);
  else
    put(out, ",\"%s\"", field->size > 0 ? field->bytes : "");
  free(field->bytes);
  *field = (text_buffer){0};
}

/* Adds the value of a key of a JSON object that mmc_plan_explain() wrote: where it comes first. */
static void put_value(text_buffer *out, const text_buffer *json, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\": ", key);
  const char *at = json->bytes != NULL ? strstr(json->bytes, quoted) : NULL;
  if (at == NULL) return;
  at += strlen(quoted);
  bool is_text = *at == '"';
  at += is_text;
  if (text_write(out, at, strcspn(at, is_text ? "\"" : ",}")) != 0) abort();
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool names_kernels(const char *device) {
  return strcmp(device, "blas") != 0;
}

static void put_wish(text_buffer *out, const wish *w) {
  const mmc_plan_options *o = &w->options;
  put(out, ",\"%s%s %s", w->device, w->wisdom ? " wisdom" : "", o->objective);
  if (o->solver != NULL) put(out, " solver=%s", o->solver);
  if (o->precision != NULL) put(out, " precision=%s", o->precision);
  if (o->fuse != NULL) put(out, " fuse=%s", o->fuse);
  if (o->kernel != NULL) put(out, " kernel=%s", o->kernel);
  if (o->on_chip_words != 0) put(out, " on_chip=%" PRId64, o->on_chip_words);
  if (o->max_slowdown != 0) put(out, " max_slowdown=%g", o->max_slowdown);
  if (o->location == MMC_DEVICE) put(out, " location=device");
  if (o->memory_limit_bytes != 0) put(out, " memory_limit=%" PRIu64, o->memory_limit_bytes);
  if (o->device_memory_bytes != 0) put(out, " device_memory=%" PRIu64, o->device_memory_bytes);
  put(out, "\"");
}

static void put_cost(text_buffer *out, const mmc_plan *plan, const char *objective) {
  char text[MMC_COUNT_TEXT_SIZE];
  if (strcmp(objective, "traffic") == 0)
    put(out, "%s words", mmc_count_format(mmc_plan_traffic_words(plan), text));
  else if (strcmp(objective, "flops") == 0)
    put(out, "%s", mmc_count_format(mmc_plan_multiplications(plan), text));
  else
    put(out, "%.9g s", mmc_plan_predicted_seconds(plan));
  if (strcmp(objective, "energy") == 0) put(out, " %.9g J", mmc_plan_predicted_joules(plan));
}

/* One call of a device's other way is known by its kernel. */
static bool is_cut(const char *split) {
  return strchr(split, ':') != NULL;
}

static void put_step(text_buffer *out, const mmc_plan *plan, int64_t s, const wish *w) {
  mmc_step step;
  mmc_step_time time;
  mmc_step_energy energy;
  mmc_step_traffic traffic;
  if (mmc_plan_step(plan, s, &step) != MMC_OK) abort();
  put(out, "%s%" PRId64 "x%" PRId64 "x%" PRId64 "=%" PRId64 "*%" PRId64, s > 0 ? "; " : "", step.m,
      step.k, step.n, step.left, step.right);
  if (names_kernels(w->device)) put(out, " %s", mmc_plan_step_kernel(plan, s));
  if (mmc_plan_step_time(plan, s, &time) == MMC_OK)
    put(out, " %.9g %s%s%s", time.predicted_s, time.source, is_cut(time.split) ? " " : "",
        is_cut(time.split) ? time.split : "");
  if (mmc_plan_step_energy(plan, s, &energy) == MMC_OK)
    put(out, " %.9g %s", energy.predicted_j, energy.source);
  if (mmc_plan_step_traffic(plan, s, &traffic) == MMC_OK)
    put(out, " fusion=%d with %" PRId64 " tile=%" PRId64 "x%" PRId64, (int)traffic.fusion,
        traffic.partner, traffic.tile[0], traffic.tile[1]);
}

/* Which steps run as one call, by what, and why, as JSON has it. */
static void put_groups(text_buffer *out, const text_buffer *json, const wish *w) {
  static const char *const keys[] = {"steps",      "result", "predicted_s",
                                     "separate_s", "source", "predicted_joules"};
  const char *at = strstr(json->bytes, "\"groups\": ["), *end = strstr(json->bytes, "\"steps\": [");
  while (at != NULL && (at = strchr(at + 1, '{')) != NULL && at < end) {
    text_buffer group = {.bytes = strndup(at, strcspn(at, "}") + 1)};
    if (group.bytes == NULL) abort();
    put(out, "%s", out->size > 0 ? "; " : "");
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
      put_value(out, &group, keys[k]);
      put(out, " ");
    }
    if (names_kernels(w->device)) put_value(out, &group, "kernel");
    free(group.bytes);
  }
}

static void put_plan(text_buffer *out, const mmc_plan *plan, const wish *w) {
  static const char *const keys[] = {"solver",   "precision",           "chains_at_a_time",
                                     "streamed", "device_memory_bytes", "order"};
  text_buffer json = {0}, field = {0};
  if (mmc_plan_explain(plan, MMC_JSON, text_write, &json) != MMC_OK) abort();
  put_cost(&field, plan, w->options.objective);
  put_field(out, &field);
  put(out, ",%" PRIu64, mmc_plan_workspace_bytes(plan));
  for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
    put_value(&field, &json, keys[k]);
    put_field(out, &field);
  }
  put_groups(&field, &json, w);
  put_field(out, &field);
  for (int64_t s = 0; s < mmc_plan_step_count(plan); s++) put_step(&field, plan, s, w);
  put_field(out, &field);
  free(json.bytes);
}

/* What is in quotes stays one field. */
static void put_failure(text_buffer *out, mmc_context *context, mmc_status status) {
  char message[400];
  mmc_context_message(context, message, sizeof message);
  for (char *at = message; *at != '\0'; at++)
    if (*at == '"') *at = '\'';
  put(out, ",\"fails with %d: %s\"", (int)status, message);
}

static void put_row(text_buffer *out, mmc_context *context, const char *text, const wish *w,
                    const char *device) {
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_plan_options options = w->options;
  options.size = sizeof options;
  options.device = device;
  if (options.memory_limit_bytes == 0) options.memory_limit_bytes = MMC_NO_LIMIT;
  if (options.device_memory_bytes == 0) options.device_memory_bytes = MMC_NO_LIMIT;
  if (mmc_chain_parse(context, text, &chain) != MMC_OK) {
    put_failure(out, context, MMC_E_ARG);
    return;
  }
  put(out, "%.60s", text);
  put_wish(out, w);
  mmc_status status = mmc_plan_create(context, chain, &options, &plan);
  if (status == MMC_OK) {
    put_plan(out, plan, w);
    mmc_plan_destroy(plan);
  } else {
    put_failure(out, context, status);
  }
  put(out, "\n");
  mmc_chain_destroy(chain);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* The chain's text; longest is room for it. */
static const char *chain_text(int c, char longest[1024]) {
  if (chains[c] != NULL) return chains[c];
  const known_chain *known = &known_chains[sizeof known_chains / sizeof known_chains[0] - 1];
  snprintf(longest, 1024, "f32:%s", known->dims);
  return longest;
}

static mmc_context *open_context(const char *modules, const char *wisdom_path) {
  mmc_context *context;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.module_dir = modules;
  options.wisdom_path = wisdom_path;
  if (mmc_context_create(&options, &context) != MMC_OK) abort();
  return context;
}

static bool fill_store(mmc_context *context) {
  char text[sizeof golden_wisdom + 200], message[200];
  const char *version = mmc_version();
  snprintf(text, sizeof text, golden_wisdom, version, version, version);
  text_input input = text_of(text);
  if (mmc_wisdom_import(context, text_read, &input) == MMC_OK) return true;
  fprintf(stderr, "golden wisdom: %s\n", mmc_context_message(context, message, sizeof message));
  return false;
}

/* Every chain with every wish; of a real device those of cuda:0 without wisdom. */
static bool put_all(text_buffer *out, const char *device, const char *modules) {
  char directory[64], path[80], longest[1024];
  if (make_directory(directory) != 0) return false;
  snprintf(path, sizeof path, "%s/wisdom.db", directory);
  mmc_context *plain = open_context(modules, ""), *wise = open_context(modules, path);
  bool filled = device != NULL || fill_store(wise);
  put(out,
      "chain,wish,cost,workspace_bytes,solver,precision,chains_at_a_time,streamed,"
      "device_memory_bytes,order,groups,steps\n");
  for (int c = 0; filled && c < CHAINS; c++)
    for (int w = 0; w < WISHES; w++) {
      const wish *x = &wishes[w];
      if (device != NULL && (x->wisdom || strcmp(x->device, "cuda:0") != 0)) continue;
      put_row(out, x->wisdom ? wise : plain, chain_text(c, longest), x,
              device != NULL ? device : x->device);
    }
  mmc_context_destroy(plain);
  mmc_context_destroy(wise);
  remove_directory(directory);
  return filled;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int save(const char *path, const text_buffer *text) {
  FILE *file = fopen(path, "w");
  bool written = file != NULL && fwrite(text->bytes, 1, text->size, file) == text->size;
  if (file != NULL && fclose(file) != 0) written = false;
  if (!written) perror(path);
  return written ? 0 : 1;
}

static char *load(const char *path) {
  text_buffer text = {0};
  char piece[4096];
  FILE *file = fopen(path, "r");
  if (file == NULL) perror(path);
  for (size_t size; file != NULL && (size = fread(piece, 1, sizeof piece, file)) > 0;)
    if (text_write(&text, piece, size) != 0) abort();
  if (file != NULL) fclose(file);
  return text.bytes;
}

/* Shows the first rows that differ; how many do. */
static int show_differences(const char *want, const char *got) {
  int differ = 0;
  while (*want != '\0' || *got != '\0') {
    size_t want_size = strcspn(want, "\n"), got_size = strcspn(got, "\n");
    if (want_size != got_size || memcmp(want, got, got_size) != 0) {
      if (differ++ < 5) printf("- %.*s\n+ %.*s\n", (int)want_size, want, (int)got_size, got);
    }
    want += want_size + (want[want_size] == '\n');
    got += got_size + (got[got_size] == '\n');
  }
  return differ;
}

static int compare(const char *path, const text_buffer *text) {
  char *want = load(path);
  if (want == NULL) return 1;
  int differ = show_differences(want, text->bytes);
  bool same = strcmp(want, text->bytes) == 0;
  if (!same) printf("%d rows differ from %s\n", differ, path);
  free(want);
  return same ? 0 : 1;
}

int main(int argc, char **argv) {
  const char *device = NULL, *path = NULL;
  bool write = false;
  for (int a = 1; a < argc; a++) {
    if (strcmp(argv[a], "--write") == 0)
      write = true;
    else if (strcmp(argv[a], "--device") == 0 && a + 1 < argc)
      device = argv[++a];
    else
      path = argv[a];
  }
  if (path == NULL || (device != NULL && !write)) {
    fprintf(stderr, "usage: golden_plans [--write] FILE, or --device NAME --write FILE\n");
    return 2;
  }
  text_buffer text = {0};
  if (!put_all(&text, device, device == NULL ? GOLDEN_MODULES : NULL)) return 1;
  int result = write ? save(path, &text) : compare(path, &text);
  free(text.bytes);
  return result;
}
