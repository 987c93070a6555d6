/* bench_split.c: products by chosen recipes against plain calls, one JSON line a size.
 *
 *     bench_split [--on DEVICE] [--seconds S] [--array S] [--passes P] [SERIES ...]
 *
 * A series is tuned within S seconds (methods 300 and 400), its sizes one after the other; those
 * that are not decided then stay plain. What was chosen is then measured afresh against the plain
 * call, in turns, in P passes over all sizes (5 on the host, 1 elsewhere): the ratio is the median
 * of the passes, low and high the least and the largest of them ("ratio" of one pass has the bounds
 * of its turns). The plain call against itself in the same passes, "same", tells what the machine
 * makes of a ratio of 1. Held-out sizes of a line of sizes are not tuned: an efficiency array over
 * the series' range (method 600), measured within --array seconds more (S, 0: none), chooses. Where
 * plain is chosen the ratio is 1: it is the same call. Quote ratios of a quiet machine. Modules are
 * looked for in MMCHAIN_MODULE_DIR. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "device/device.h"
#include "inside.h"
#include "tune/array.h"
#include "tune/measure.h"
#include "tune/search.h"

/* ---- series -------------------------------------------------------------------------------- */

/* A line has n = first, first + step, ... to most; others have their sizes from elsewhere. */
typedef struct series {
  const char *name;
  bool host; /* what of: the host by default, or else a device with memory of its own */
  mmc_dtype dtype;
  mmci_precision precision;
  int64_t m, k, first, step, most; /* step 0: random sizes; most of them */
} series;

static const series all_series[] = {
    {"f64-4x4096", true, MMC_F64, MMCI_NATIVE, 4, 4096, 4, 4, 128},
    {"f64-8x1024", true, MMC_F64, MMCI_NATIVE, 8, 1024, 4, 4, 256},
    {"f32-4096", false, MMC_F32, MMCI_NATIVE, 4096, 4096, 64, 128, 4096},
    {"tf32-4096", false, MMC_F32, MMCI_FAST, 4096, 4096, 64, 128, 4096},
    {"f32-random", false, MMC_F32, MMCI_NATIVE, 0, 0, 0, 0, 60},
    {"tf32-random", false, MMC_F32, MMCI_FAST, 0, 0, 0, 0, 60},
    {"bf16-random", false, MMC_BF16, MMCI_NATIVE, 0, 0, 0, 0, 60},
    {"f64-random", false, MMC_F64, MMCI_NATIVE, 0, 0, 0, 0, 60},
    {"f32-patent", false, MMC_F32, MMCI_NATIVE, 256, 3072, 2048, 1, 2048},
    {"tf32-patent", false, MMC_F32, MMCI_FAST, 256, 3072, 2048, 1, 2048},
};
enum {
  SERIES = sizeof all_series / sizeof all_series[0],
  MOST_SIZES = 64,
  HELD_OUT = 16,
  MOST_PASSES = 64
};

static mmci_gemm product(const series *s, int64_t m, int64_t k, int64_t n) {
  return mmci_gemm_tight(s->dtype, s->precision, m, k, n, MMC_OP_N, MMC_OP_N);
}

/* Log-uniform from 64 to 8192, a multiple of unit. */
static int64_t random_size(uint64_t *state, int64_t unit) {
  double share = (double)(mmci_random_bits(state) >> 11) * 0x1p-53;
  int64_t size = llround(64 * exp(share * log(128))), rounded = (size + unit / 2) / unit * unit;
  return rounded > unit ? rounded : unit;
}

static double flops_of(const mmci_gemm *gemm) {
  return mmci_flops(gemm->dtype, gemm->m, gemm->k, gemm->n);
}

static int by_flops(const void *a, const void *b) {
  double x = flops_of(a), y = flops_of(b);
  return (x > y) - (x < y);
}

/* The sizes of a series, the smallest first. */
static int sizes_of(const series *s, mmci_gemm gemms[MOST_SIZES]) {
  int count = 0;
  uint64_t random = 20240917;
  if (s->step == 0)
    for (; count < s->most; count++) { /* a third each: multiples of 64, of 8, any */
      int64_t unit = count % 3 == 0 ? 64 : count % 3 == 1 ? 8 : 1;
      int64_t m = random_size(&random, unit), k = random_size(&random, unit);
      gemms[count] = product(s, m, k, random_size(&random, unit));
    }
  else
    for (int64_t n = s->first; n <= s->most && count < MOST_SIZES; n += s->step)
      gemms[count++] = product(s, s->m, s->k, n);
  qsort(gemms, (size_t)count, sizeof gemms[0], by_flops);
  return count;
}

/* ---- what is reported ---------------------------------------------------------------------- */

/* What is measured on: while tuning, and with other samples afterwards. */
typedef struct machines {
  const char *device;
  bool host;
  mmci_bench *quick_bench, *careful_bench;
  mmci_machine quick, careful;
  double seconds, array_s;
  int passes;
} machines;

/* What the sizes of one series and method came to. */
typedef struct tally {
  const char *method;
  int sizes, cut, wins, undecided;
  double seconds; /* that tuning took */
  int64_t measurements;
  double logs, least, most, same_least;
} tally;

static tally tally_of(const char *method) {
  return (tally){.method = method, .least = (double)INFINITY, .same_least = 1};
}

/* A gain in each of the passes: the median, and the least and the largest. */
static mmci_estimate over_passes(const mmci_estimate *gains, int passes) {
  double values[MOST_PASSES];
  if (passes == 1) return gains[0];
  for (int p = 0; p < passes; p++) values[p] = gains[p].value;
  return mmci_estimate_median(values, passes, 0);
}

/* One size as it is tried: the choice against the plain call, and the plain call against itself. */
typedef struct tried {
  mmci_gemm gemm;
  mmci_choice choice;
  mmci_measured now;
  mmci_estimate gains[MOST_PASSES], same[MOST_PASSES];
} tried;

static void try_once(const machines *m, tried *x, int pass) {
  mmci_recipe plain = mmci_recipe_whole(0);
  mmci_measured same;
  mmci_error error;
  if (mmci_recipe_is_plain(&x->choice.recipe)) return;
  check(m->careful.compare(m->careful.user, &x->gemm, &x->choice.recipe, &x->now, &error), &error);
  check(m->careful.compare(m->careful.user, &x->gemm, &plain, &same, &error), &error);
  x->gains[pass] = x->now.gain;
  x->same[pass] = same.gain;
}

static void report(const machines *m, const series *s, const tried *x, tally *t) {
  bool plain = mmci_recipe_is_plain(&x->choice.recipe);
  mmci_estimate gain = {1, 1, 1}, same = {1, 1, 1};
  if (!plain) {
    gain = over_passes(x->gains, m->passes);
    same = over_passes(x->same, m->passes);
  }
  char text[MMCI_RECIPE_TEXT_SIZE];
  mmci_recipe_format(&x->choice.recipe, NULL, text);
  printf("{\"bench\":\"split\",\"device\":\"%s\",\"series\":\"%s\",\"method\":\"%s\",\"m\":%" PRId64
         ",\"k\":%" PRId64 ",\"n\":%" PRId64
         ",\"recipe\":\"%s\",\"promised\":%.4f,\"plain_s\":%.4g,\"chosen_s\":%.4g,"
         "\"ratio\":%.4f,\"low\":%.4f,\"high\":%.4f,\"same\":%.4f,\"same_low\":%.4f,"
         "\"same_high\":%.4f}\n",
         m->device, s->name, t->method, x->gemm.m, x->gemm.k, x->gemm.n, text, x->choice.gain.value,
         x->now.plain_s, x->now.seconds.value, gain.value, gain.low, gain.high, same.value,
         same.low, same.high);
  fflush(stdout);
  t->sizes++;
  t->cut += !plain;
  t->wins += gain.value > 1.01;
  t->logs += log(gain.value);
  t->least = fmin(t->least, gain.value);
  t->most = fmax(t->most, gain.value);
  t->same_least = fmin(t->same_least, same.value);
}

static void report_all(const machines *m, const series *s, tried *sizes, int count, tally *t) {
  for (int i = 0; i < count; i++)
    sizes[i].now = (mmci_measured){.seconds.value = sizes[i].choice.plain_s,
                                   .plain_s = sizes[i].choice.plain_s};
  for (int pass = 0; pass < m->passes; pass++)
    for (int i = 0; i < count; i++) try_once(m, &sizes[i], pass);
  for (int i = 0; i < count; i++) report(m, s, &sizes[i], t);
}

static void summarise(const machines *m, const series *s, const tally *t) {
  if (t->sizes == 0) return;
  printf(
      "{\"bench\":\"split\",\"device\":\"%s\",\"series\":\"%s\",\"method\":\"%s\",\"sizes\":%d,"
      "\"tuning_s\":%.1f,\"measurements\":%" PRId64
      ",\"undecided\":%d,\"not_plain\":%d,\"wins\":%.3f,\"geomean\":%.4f,\"least\":%.4f,"
      "\"most\":%.4f,\"same_least\":%.4f}\n",
      m->device, s->name, t->method, t->sizes, t->seconds, t->measurements, t->undecided, t->cut,
      (double)t->wins / t->sizes, exp(t->logs / t->sizes), t->least, t->most, t->same_least);
  fflush(stdout);
}

/* ---- tuned sizes --------------------------------------------------------------------------- */

static mmci_tuner *open_tuner(const mmci_machine *machine, const mmci_journal *journal,
                              double seconds) {
  mmci_tune_options options = mmci_tune_defaults();
  options.budget_s = seconds;
  options.journal = *journal;
  mmci_tuner *tuner;
  mmci_error error;
  check(mmci_tuner_create(machine, &options, &tuner, &error), &error);
  return tuner;
}

/* The plain call, for a size that the seconds did not suffice for. */
static mmci_choice plain_choice(const mmci_machine *machine, const mmci_gemm *gemm) {
  mmci_recipe plain = mmci_recipe_whole(0);
  mmci_measured measured;
  mmci_error error;
  check(machine->measure(machine->user, gemm, &plain, &measured, &error), &error);
  return (mmci_choice){.recipe = plain,
                       .plain_s = measured.seconds.value,
                       .seconds = measured.seconds.value,
                       .gain = {1, 1, 1}};
}

static void tuned_sizes(const machines *m, const series *s) {
  static mmci_gemm gemms[MOST_SIZES];
  static mmci_choice choices[MOST_SIZES];
  static tried sizes[MOST_SIZES];
  int count = sizes_of(s, gemms);
  mmci_tuner *tuner = open_tuner(&m->quick, &(mmci_journal){0}, m->seconds);
  mmci_error error;
  int64_t decided;
  double start_s = m->quick.now_s(m->quick.user);
  mmc_status status = mmci_tune_set(tuner, gemms, count, choices, &decided, &error);
  if (status != MMC_E_INTERRUPTED) check(status, &error);
  tally t = tally_of("set");
  t.undecided = count - (int)decided;
  t.seconds = m->quick.now_s(m->quick.user) - start_s;
  t.measurements = mmci_tuner_measurements(tuner);
  mmci_tuner_destroy(tuner);
  for (int i = (int)decided; i < count; i++) choices[i] = plain_choice(&m->quick, &gemms[i]);
  for (int i = 0; i < count; i++) sizes[i] = (tried){.gemm = gemms[i], .choice = choices[i]};
  report_all(m, s, sizes, count, &t);
  summarise(m, s, &t);
}

/* ---- held-out sizes ------------------------------------------------------------------------ */

/* Seconds of one online choice. */
static double choice_s(const mmci_machine *machine, const mmci_array *array, const series *s) {
  enum { CHOICES = 20000 };
  mmci_choice choice;
  double start_s = machine->now_s(machine->user);
  for (int i = 0; i < CHOICES; i++) mmci_array_choose(array, s->m, s->k, 1 + i % s->most, &choice);
  return (machine->now_s(machine->user) - start_s) / CHOICES;
}

/* Between the tuned ones, spread over the series. */
static int64_t held_out_n(const series *s, int i) {
  int64_t count = (s->most - s->first) / s->step, steps = count * i / HELD_OUT;
  return s->first + s->step * steps + (s->step > 8 ? s->step / 2 : 1 + i % (s->step - 1));
}

static void held_out_sizes(const machines *m, const series *s) {
  mmci_array_options options = mmci_array_defaults(1);
  options.most[0] = s->m;
  options.most[1] = s->k;
  options.most[2] = s->most;
  mmci_gemm like = product(s, 1, 1, 1);
  mmci_array *array;
  mmci_tuner *tuner = open_tuner(&m->quick, &(mmci_journal){0}, m->array_s);
  mmci_error error;
  double start_s = m->quick.now_s(m->quick.user);
  mmc_status status = mmci_tune_array(tuner, &like, &options, &array, &error);
  int64_t measurements = mmci_tuner_measurements(tuner);
  mmci_tuner_destroy(tuner);
  double seconds = m->quick.now_s(m->quick.user) - start_s;
  if (status != MMC_E_INTERRUPTED) check(status, &error);
  if (status != MMC_OK) {
    fprintf(stderr, "bench_split: %s: the seconds are spent after %" PRId64 " measurements\n",
            s->name, measurements);
    return;
  }
  printf(
      "{\"bench\":\"split\",\"device\":\"%s\",\"series\":\"%s\",\"method\":\"array\",\"steps\":["
      "%" PRId64 ",%" PRId64 ",%" PRId64
      "],\"values\":[%d,%d,%d],\"margin\":%.4f,\"between\":%.4f,\"error\":%.4f,\"measurements\":"
      "%" PRId64 ",\"choice_s\":%.3g}\n",
      m->device, s->name, array->grid[0].step, array->grid[1].step, array->grid[2].step,
      array->grid[0].count, array->grid[1].count, array->grid[2].count, array->trust.margin,
      array->trust.between, array->trust.error, measurements, choice_s(&m->careful, array, s));
  tally t = tally_of("array, held out");
  t.seconds = seconds;
  t.measurements = measurements;
  static tried sizes[HELD_OUT];
  int count = 0;
  for (int i = 0; i < HELD_OUT; i++) {
    tried *x = &sizes[count];
    *x = (tried){.gemm = product(s, s->m, s->k, held_out_n(s, i))};
    count += mmci_array_choose(array, x->gemm.m, x->gemm.k, x->gemm.n, &x->choice);
  }
  report_all(m, s, sizes, count, &t);
  summarise(m, s, &t);
  mmci_array_destroy(array);
}

/* ---- the program --------------------------------------------------------------------------- */

static void run_series(const machines *m, const series *s) {
  tuned_sizes(m, s);
  if (s->step > 1 && m->array_s > 0) held_out_sizes(m, s);
}

static mmci_bench *open_bench(const mmci_opened *on, const mmci_measure_options *options,
                              mmci_machine *machine) {
  mmci_bench *bench;
  mmci_error error;
  check(mmci_bench_open(on->ops, on->device, options, &bench, &error), &error);
  *machine = mmci_bench_machine(bench);
  return bench;
}

static machines open_machines(const mmci_opened *on, double seconds, double array_s, int passes) {
  machines m = {
      .device = on->name, .host = on->ops->async == NULL, .seconds = seconds, .array_s = array_s};
  m.passes = passes > 0 ? passes : m.host ? 5 : 1;
  mmci_measure_options options = mmci_measure_defaults();
  options.least_gain = -1; /* no recipe is given up */
  m.careful_bench = open_bench(on, &options, &m.careful);
  options = mmci_measure_defaults();
  m.quick_bench = open_bench(on, &options, &m.quick);
  return m;
}

static const series *find_series(const char *name) {
  for (int i = 0; i < SERIES; i++)
    if (strcmp(all_series[i].name, name) == 0) return &all_series[i];
  fprintf(stderr, "bench_split: expected a series (");
  for (int i = 0; i < SERIES; i++)
    fprintf(stderr, "%s%s", all_series[i].name, i + 1 < SERIES ? ", " : ")");
  fprintf(stderr, ", got '%s'\n", name);
  exit(2);
}

int main(int argc, char **argv) {
  const char *device = "cpu", *directory = getenv("MMCHAIN_MODULE_DIR");
  double seconds = 75, array_s = -1;
  int at = 1, passes = 0;
  for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
    if (strcmp(argv[at], "--on") == 0) device = argv[at + 1];
    if (strcmp(argv[at], "--seconds") == 0) seconds = strtod(argv[at + 1], NULL);
    if (strcmp(argv[at], "--array") == 0) array_s = strtod(argv[at + 1], NULL);
    if (strcmp(argv[at], "--passes") == 0) passes = (int)strtol(argv[at + 1], NULL, 10);
  }
  if (passes < 0 || passes > MOST_PASSES) {
    fprintf(stderr, "bench_split: --passes: expected 1 to %d, got %d\n", MOST_PASSES, passes);
    return 2;
  }
  for (int i = at; i < argc; i++) find_series(argv[i]);
  mmci_registry *registry;
  mmci_opened on;
  mmci_error error;
  check(mmci_registry_create(directory != NULL ? directory : "", &registry, &error), &error);
  check(mmci_registry_open(registry, device, &on, &error), &error);
  machines m = open_machines(&on, seconds, array_s >= 0 ? array_s : seconds, passes);
  for (int i = at; i < argc; i++) run_series(&m, find_series(argv[i]));
  for (int i = 0; i < SERIES && at == argc; i++)
    if (all_series[i].host == m.host) run_series(&m, &all_series[i]);
  mmci_bench_close(m.quick_bench);
  mmci_bench_close(m.careful_bench);
  mmci_registry_destroy(registry);
  return 0;
}
