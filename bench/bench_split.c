/* bench_split.c: products by chosen recipes against plain calls, one JSON line a size.
 *
 *     bench_split [DEVICE [SECONDS]]       DEVICE: cpu, ref, blas; SECONDS: to spend tuning a
 * series
 *
 * Series of skinny f64 products, row-major, n from 4 on in steps of 4. Every size is tuned (methods
 * 300 and 400), and what was chosen is then measured afresh against the plain call, in turns.
 * Held-out sizes between them are not tuned: an efficiency array over the series' range (method
 * 600) chooses. Where plain is chosen the ratio is 1: it is the same call. Quote ratios of a quiet
 * machine. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tune/array.h"
#include "tune/measure.h"
#include "tune/search.h"

typedef struct series {
  int64_t m, k, most_n;
} series;

static const series all_series[] = {{4, 4096, 128}, {8, 1024, 256}};
enum { STEP = 4, MOST_SIZES = 64, HELD_OUT = 16 };

static void check(mmc_status status, const mmci_error *error) {
  if (status == MMC_OK) return;
  fprintf(stderr, "bench_split: %s\n", error->text);
  exit(1);
}

static mmci_gemm product(const series *s, int64_t n) {
  return (mmci_gemm){
      .dtype = MMC_F64, .m = s->m, .k = s->k, .n = n, .a = {.ld = s->k}, .b = {.ld = n}, .ldc = n};
}

/* What the sizes of one series and method came to. */
typedef struct tally {
  const char *method;
  int sizes, cut;
  double logs, least, most;
} tally;

static void report(const char *device, const mmci_machine *machine, const mmci_gemm *gemm,
                   const mmci_choice *choice, tally *t) {
  mmci_measured now = {.seconds = {choice->plain_s, choice->plain_s, choice->plain_s},
                       .gain = {1, 1, 1},
                       .plain_s = choice->plain_s};
  mmci_error error;
  bool plain = mmci_recipe_is_plain(&choice->recipe);
  if (!plain) check(machine->compare(machine->user, gemm, &choice->recipe, &now, &error), &error);
  char text[MMCI_RECIPE_TEXT_SIZE];
  mmci_recipe_format(&choice->recipe, text);
  printf("{\"bench\":\"split\",\"device\":\"%s\",\"method\":\"%s\",\"m\":%" PRId64 ",\"k\":%" PRId64
         ",\"n\":%" PRId64
         ",\"recipe\":\"%s\",\"promised\":%.4f,\"plain_s\":%.4g,\"chosen_s\":%.4g,"
         "\"ratio\":%.4f,\"low\":%.4f,\"high\":%.4f}\n",
         device, t->method, gemm->m, gemm->k, gemm->n, text, choice->gain.value, now.plain_s,
         now.seconds.value, now.gain.value, now.gain.low, now.gain.high);
  fflush(stdout);
  t->sizes++;
  t->cut += !plain;
  t->logs += log(now.gain.value);
  t->least = fmin(t->least, now.gain.value);
  t->most = fmax(t->most, now.gain.value);
}

static void summarise(const char *device, const series *s, const tally *t) {
  if (t->sizes == 0) return;
  printf("{\"bench\":\"split\",\"device\":\"%s\",\"method\":\"%s\",\"series\":\"f64 m=%" PRId64
         " k=%" PRId64 " n=4..%" PRId64
         "\",\"sizes\":%d,\"not_plain\":%d,\"geomean\":%.4f,"
         "\"least\":%.4f,\"most\":%.4f}\n",
         device, t->method, s->m, s->k, s->most_n, t->sizes, t->cut, exp(t->logs / t->sizes),
         t->least, t->most);
}

static tally tally_of(const char *method) {
  return (tally){.method = method, .least = (double)INFINITY};
}

static mmci_tuner *open_tuner(const mmci_machine *machine, double seconds) {
  mmci_tune_options options = mmci_tune_defaults();
  options.budget_s = seconds;
  mmci_tuner *tuner;
  mmci_error error;
  check(mmci_tuner_create(machine, &options, &tuner, &error), &error);
  return tuner;
}

static void finish(mmci_tuner *tuner, mmc_status status, const mmci_error *error) {
  if (status != MMC_E_INTERRUPTED) check(status, error);
  fprintf(stderr, "bench_split: %" PRId64 " measurements%s\n", mmci_tuner_measurements(tuner),
          status == MMC_OK ? "" : ", the seconds are spent: some sizes are missing");
  mmci_tuner_destroy(tuner);
}

static void tuned_sizes(const char *device, const mmci_machine *machine, const series *s,
                        double seconds) {
  static mmci_gemm gemms[MOST_SIZES];
  static mmci_choice choices[MOST_SIZES];
  int64_t count = s->most_n / STEP, decided;
  for (int64_t i = 0; i < count; i++) gemms[i] = product(s, STEP * (i + 1));
  mmci_tuner *tuner = open_tuner(machine, seconds);
  mmci_error error;
  mmc_status status = mmci_tune_set(tuner, gemms, count, choices, &decided, &error);
  finish(tuner, status, &error);
  tally t = tally_of("set");
  for (int64_t i = 0; i < decided; i++) report(device, machine, &gemms[i], &choices[i], &t);
  summarise(device, s, &t);
}

/* Seconds of one online choice. */
static double choice_s(const mmci_machine *machine, const mmci_array *array, const series *s) {
  enum { CHOICES = 20000 };
  mmci_choice choice;
  double start_s = machine->now_s(machine->user);
  for (int i = 0; i < CHOICES; i++)
    mmci_array_choose(array, s->m, s->k, 1 + i % s->most_n, &choice);
  return (machine->now_s(machine->user) - start_s) / CHOICES;
}

/* n = STEP i + 1, 2 or 3, spread over the series. */
static void held_out_sizes(const char *device, const mmci_machine *machine, const series *s,
                           double seconds) {
  mmci_array_options options = mmci_array_defaults(1);
  options.most[0] = s->m;
  options.most[1] = s->k;
  options.most[2] = s->most_n;
  mmci_gemm like = product(s, 1);
  mmci_array *array;
  mmci_tuner *tuner = open_tuner(machine, seconds);
  mmci_error error;
  mmc_status status = mmci_tune_array(tuner, &like, &options, &array, &error);
  finish(tuner, status, &error);
  if (status != MMC_OK) return;
  printf("{\"bench\":\"split\",\"device\":\"%s\",\"method\":\"array\",\"steps\":[%" PRId64
         ",%" PRId64 ",%" PRId64 "],\"values\":[%d,%d,%d],\"margin\":%.4f,\"choice_s\":%.3g}\n",
         device, array->grid[0].step, array->grid[1].step, array->grid[2].step,
         array->grid[0].count, array->grid[1].count, array->grid[2].count, array->margin,
         choice_s(machine, array, s));
  tally t = tally_of("array, held out");
  for (int64_t i = 0; i < HELD_OUT; i++) {
    mmci_gemm gemm = product(s, s->most_n / HELD_OUT * i / STEP * STEP + STEP + 1 + i % 3);
    mmci_choice choice;
    if (mmci_array_choose(array, gemm.m, gemm.k, gemm.n, &choice))
      report(device, machine, &gemm, &choice, &t);
  }
  summarise(device, s, &t);
  mmci_array_destroy(array);
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "cpu";
  double seconds = argc > 2 ? strtod(argv[2], NULL) : (double)INFINITY;
  mmci_registry *registry;
  mmci_opened opened;
  mmci_bench *bench;
  mmci_error error;
  mmci_measure_options options = mmci_measure_defaults();
  check(mmci_registry_create("", &registry, &error), &error);
  check(mmci_registry_open(registry, name, &opened, &error), &error);
  check(mmci_bench_open(opened.ops, opened.device, &options, &bench, &error), &error);
  mmci_machine machine = mmci_bench_machine(bench);
  for (size_t i = 0; i < sizeof all_series / sizeof all_series[0]; i++) {
    tuned_sizes(opened.name, &machine, &all_series[i], seconds);
    held_out_sizes(opened.name, &machine, &all_series[i], seconds);
  }
  mmci_bench_close(bench);
  mmci_registry_destroy(registry);
  return 0;
}
