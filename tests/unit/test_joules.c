/* test_joules.c: tuning for energy: the recipe of fewest joules on machines whose joules are known,
 * a meter's recording played to a device, and what of it is kept and found again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../facts.h"
#include "../synthetic.h"
#include "../wisdom_store.h"
#include "tune/journal.h"
#include "tune/measure.h"
#include "wisdom/wisdom_energy.h"

/* ---- a machine of known joules ------------------------------------------------------------- */

enum { VARIANTS = 8 };

/* Of variant v: seconds and joules as shares of the plain call's. */
typedef struct known {
  double seconds[VARIANTS + 1], joules[VARIANTS + 1];
  double tick_error, noise; /* noise up to this */
  int64_t windows[VARIANTS + 1];
  mmci_energy_model model; /* of the plain call */
} known;

static double seconds_of(const synthetic *s, const mmci_gemm *gemm) {
  const known *k = s->user;
  return 1e-4 * (1 + 1e-6 * (double)gemm->m * (double)gemm->k * (double)gemm->n) *
         k->seconds[gemm->variant];
}

static mmc_status joules_of(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                            mmci_measured *out, mmci_error *error) {
  synthetic *s = user;
  known *k = (known *)s->user;
  (void)error;
  int variant = recipe->count == 1 ? recipe->nodes[0].variant : 0;
  double seconds = synthetic_truth(s, gemm, recipe);
  double value = mmci_energy_joules(&k->model, gemm, seconds / k->seconds[variant]) *
                 k->joules[variant] * (1 + k->noise * random_unit(&s->random));
  k->windows[variant]++;
  s->clock_s += 2.5;
  *out =
      (mmci_measured){.seconds = {seconds, seconds, seconds},
                      .joules = {value, value * (1 - k->tick_error), value * (1 + k->tick_error)}};
  return MMC_OK;
}

static known plain_machine(void) {
  known k = {.tick_error = 0.005, .model = {80, 1e-9, 3e-8, 0, false}};
  for (int v = 0; v <= VARIANTS; v++) k.seconds[v] = k.joules[v] = 1;
  return k;
}

static mmci_saving decide(synthetic *s, known *k, const mmci_recipe *fastest) {
  s->user = k;
  s->seconds = seconds_of;
  s->variants = VARIANTS;
  mmci_machine machine = synthetic_machine(s);
  machine.joules = joules_of;
  mmci_tune_options options = mmci_tune_defaults();
  mmci_tuner *tuner;
  mmci_error error;
  mmci_gemm gemm = synthetic_gemm(100, 200, 300);
  mmci_saving saving;
  assert_int_equal(mmci_tuner_create(&machine, &options, &tuner, &error), MMC_OK);
  if (mmci_tune_joules(tuner, &gemm, fastest, &saving, &error) != MMC_OK)
    fail_msg("%s", error.text);
  mmci_tuner_destroy(tuner);
  return saving;
}

static void expect_recipe(const mmci_recipe *recipe, const char *expected) {
  char text[MMCI_RECIPE_TEXT_SIZE];
  assert_true(mmci_recipe_format(recipe, NULL, text));
  assert_string_equal(text, expected);
}

/* Variant 3 is fastest, 5 takes fewest joules, 7 fewer still but far too long. */
static void fewest_joules_within_the_slowdown(void **state) {
  (void)state;
  known k = plain_machine();
  synthetic s = {.random = 1};
  k.seconds[3] = 0.9;
  k.seconds[5] = 1.1, k.joules[5] = 0.8;
  k.joules[2] = 0.95;
  k.seconds[7] = 1.5, k.joules[7] = 0.2;
  mmci_recipe fastest = mmci_recipe_whole(3);
  mmci_saving saving = decide(&s, &k, &fastest);
  expect_recipe(&saving.recipe, "v5");
  assert_true(fabs(saving.gain.value - 1.25) <= 1e-9);
  assert_true(saving.gain.low < 1.25 && saving.gain.high > 1.25 && saving.gain.low > 1.2);
  assert_true(fabs(saving.seconds / saving.plain_s - 1.1) <= 1e-9);
  assert_true(fabs(saving.fastest_joules / saving.plain_joules.value - 1) <= 1e-9);
  assert_int_equal(k.windows[7], 0);
  assert_int_equal(k.windows[0], 2);
  assert_int_equal(k.windows[5], 2);
  int64_t windows = 0;
  for (int v = 0; v <= VARIANTS; v++) windows += k.windows[v];
  assert_true(windows <= 12); /* eight and the plain call, then two and the plain call */
}

/* What ticks may have made of a window is never taken for a saving. */
static void noise_within_the_ticks_chooses_nothing(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    known k = plain_machine();
    synthetic s = {.random = seed};
    k.tick_error = 0.02;
    k.noise = 0.02 / 1.03; /* so that the truth is within the bounds */
    mmci_saving saving = decide(&s, &k, NULL);
    if (!mmci_recipe_is_plain(&saving.recipe))
      fail_msg("seed %llu: gain %g", (unsigned long long)seed, saving.gain.value);
    assert_true(saving.gain.value == 1 && isnan(saving.fastest_joules));
  }
}

/* And what saves more than that is found. */
static void savings_beyond_the_ticks_are_found(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 100; seed++) {
    uint64_t random = seed;
    known k = plain_machine();
    synthetic s = {.random = seed};
    k.tick_error = k.noise = 0.01;
    int best = 1 + (int)random_below(&random, VARIANTS);
    k.joules[best] = 0.9;
    k.seconds[best] = 0.9 + 0.05 * random_unit(&random);
    mmci_saving saving = decide(&s, &k, NULL);
    assert_int_equal(saving.recipe.nodes[0].variant, best);
    assert_true(saving.gain.low <= 1 / 0.9 && 1 / 0.9 <= saving.gain.high);
  }
}

static void a_split_that_is_fastest_takes_part(void **state) {
  (void)state;
  known k = plain_machine();
  synthetic s = {.random = 1};
  mmci_recipe fastest;
  assert_int_equal(mmci_recipe_parse("n:100,200", 100, 200, 300, NULL, &fastest, NULL), MMC_OK);
  mmci_saving saving = decide(&s, &k, &fastest);
  expect_recipe(&saving.recipe, "whole");
  assert_true(saving.fastest_joules > 0);
  assert_int_equal(k.windows[0], 2); /* itself, and the split */
}

static void the_model_is_recovered(void **state) {
  (void)state;
  known k = plain_machine();
  synthetic s = {.random = 1, .user = &k, .seconds = seconds_of};
  mmci_machine machine = synthetic_machine(&s);
  machine.joules = joules_of;
  mmci_tune_options options = mmci_tune_defaults();
  mmci_tuner *tuner;
  mmci_error error;
  assert_int_equal(mmci_tuner_create(&machine, &options, &tuner, &error), MMC_OK);
  mmci_energy_model model;
  mmci_wisdom *none;
  mmci_wisdom_energy *prices;
  mmci_fingerprint fingerprint = test_fingerprint("here");
  assert_int_equal(mmci_wisdom_create("", &none, &error), MMC_OK);
  assert_int_equal(mmci_wisdom_energy_create(none, &fingerprint, &test_facts, MMC_F64, MMCI_NATIVE,
                                             &prices, &error),
                   MMC_OK);
  mmci_pricing pricing = mmci_wisdom_pricing_of(mmci_wisdom_energy_time(prices));
  if (mmci_calibrate_joules(tuner, MMC_F64, MMCI_NATIVE, &pricing, &model, &error) != MMC_OK)
    fail_msg("%s", error.text);
  assert_true(model.calibrated && model.error <= 1e-6);
  assert_true(fabs(model.static_w - 80) <= 1e-4 * 80);
  assert_true(fabs(model.joules_per_flop - 1e-9) <= 1e-4 * 1e-9);
  assert_true(fabs(model.joules_per_byte - 3e-8) <= 1e-3 * 3e-8);
  assert_int_equal(k.windows[0], 8);
  mmci_wisdom_energy_destroy(prices);
  mmci_wisdom_destroy(none);
  mmci_tuner_destroy(tuner);
}

/* ---- a store -------------------------------------------------------------------------------- */

typedef struct fixture {
  char directory[64], path[96];
  mmci_wisdom_journal journal;
  mmci_error error;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  if (f == NULL || make_directory(f->directory) != 0) return 1;
  snprintf(f->path, sizeof f->path, "%s/wisdom.db", f->directory);
  f->journal.fingerprint = test_fingerprint("this one");
  return mmci_wisdom_create(f->path, &f->journal.wisdom, NULL) != MMC_OK;
}

static int tear_down(void **state) {
  fixture *f = *state;
  mmci_wisdom_destroy(f->journal.wisdom);
  remove_directory(f->directory);
  free(f);
  return 0;
}

static void a_second_search_measures_nothing(void **state) {
  fixture *f = *state;
  mmci_saving first = {0};
  for (int call = 0; call < 2; call++) {
    known k = plain_machine();
    k.joules[4] = 0.7;
    synthetic s = {.random = 1, .user = &k, .seconds = seconds_of, .variants = VARIANTS};
    mmci_machine machine = synthetic_machine(&s);
    machine.joules = joules_of;
    mmci_tune_options options = mmci_tune_defaults();
    options.journal = mmci_journal_of(&f->journal);
    mmci_tuner *tuner;
    mmci_gemm gemm = synthetic_gemm(100, 200, 300);
    mmci_saving saving;
    assert_int_equal(mmci_tuner_create(&machine, &options, &tuner, &f->error), MMC_OK);
    if (mmci_tune_joules(tuner, &gemm, NULL, &saving, &f->error) != MMC_OK)
      fail_msg("%s", f->error.text);
    assert_int_equal(mmci_tuner_measurements(tuner) > 0, call == 0);
    expect_recipe(&saving.recipe, "v4");
    if (call == 0) first = saving;
    assert_true(first.joules.value == saving.joules.value && first.joules.low == saving.joules.low);
    assert_true(first.plain_joules.high == saving.plain_joules.high);
    mmci_tuner_destroy(tuner);
  }
}

static mmci_gemm product(int64_t m) {
  return mmci_gemm_tight(MMC_F32, MMCI_NATIVE, m, 20, 30, MMC_OP_N, MMC_OP_T);
}

static int ways_of(fixture *f, const mmci_gemm *gemm, mmci_way ways[MMCI_WAYS]) {
  mmci_wisdom_energy *energy;
  if (mmci_wisdom_energy_create(f->journal.wisdom, &f->journal.fingerprint, &test_facts, MMC_F32,
                                MMCI_NATIVE, &energy, &f->error) != MMC_OK)
    fail_msg("%s", f->error.text);
  mmci_energy_pricing pricing = mmci_wisdom_energy_of(energy);
  int count = pricing.ways(pricing.user, gemm, ways);
  mmci_wisdom_energy_destroy(energy);
  return count;
}

static void choose_time(fixture *f, const mmci_gemm *gemm, const char *recipe, double seconds) {
  mmci_choice choice = {.plain_s = 2e-6, .seconds = seconds, .spread = 0.01, .gain = {1, 1, 1}};
  assert_int_equal(
      mmci_recipe_parse(recipe, gemm->m, gemm->k, gemm->n, NULL, &choice.recipe, &f->error),
      MMC_OK);
  mmci_journal journal = mmci_journal_of(&f->journal);
  assert_int_equal(journal.choose(journal.user, gemm, &choice, &f->error), MMC_OK);
}

static void save(fixture *f, const mmci_gemm *gemm, const char *recipe, double fastest_joules) {
  mmci_saving saving = {.plain_s = 2e-6,
                        .seconds = 1.9e-6,
                        .plain_joules = {4e-4, 3.9e-4, 4.1e-4},
                        .joules = {2e-4, 1.96e-4, 2.02e-4},
                        .gain = {2, 1.9, 2.1},
                        .fastest_joules = fastest_joules};
  assert_int_equal(
      mmci_recipe_parse(recipe, gemm->m, gemm->k, gemm->n, NULL, &saving.recipe, &f->error),
      MMC_OK);
  if (mmci_journal_saving(&f->journal, gemm, &saving, &f->error) != MMC_OK)
    fail_msg("%s", f->error.text);
}

static void measured_goes_before_the_model(void **state) {
  fixture *f = *state;
  mmci_way ways[MMCI_WAYS];
  mmci_gemm gemm = product(10);
  assert_int_equal(ways_of(f, &gemm, ways), 1);
  assert_int_equal(ways[0].source, MMCI_ASSUMED);
  assert_true(ways[0].modelled && ways[0].error == 1);
  mmci_energy_model model = {50, 1e-10, 1e-9, 0.25, true};
  assert_int_equal(mmci_journal_energy(&f->journal, &model, &f->error), MMC_OK);
  assert_int_equal(ways_of(f, &gemm, ways), 1);
  assert_int_equal(ways[0].source, MMCI_MODELLED);
  assert_true(ways[0].error == 0.25);
  assert_true(fabs(ways[0].joules - mmci_energy_joules(&model, &gemm, ways[0].time.seconds)) <=
              1e-12 * ways[0].joules);
  /* The plain call and the recipe; and time's. */
  save(f, &gemm, "v2", (double)NAN);
  assert_int_equal(ways_of(f, &gemm, ways), 2);
  assert_true(ways[0].joules == 4e-4 && ways[1].joules == 2e-4 && !ways[0].modelled);
  assert_true(ways[0].time.seconds == 2e-6 && ways[1].time.seconds == 1.9e-6);
  assert_true(fabs(ways[1].error - 0.025) <= 1e-9);
  choose_time(f, &gemm, "n:10,20", 1e-6);
  assert_int_equal(ways_of(f, &gemm, ways), 3);
  assert_int_equal(ways[0].source, MMCI_MODELLED);
  expect_recipe(&ways[0].time.recipe, "n:10,20");
  save(f, &gemm, "v2", 3e-4);
  assert_int_equal(ways_of(f, &gemm, ways), 3);
  assert_int_equal(ways[0].source, MMCI_MEASURED);
  assert_true(ways[0].joules == 3e-4 && ways[0].time.seconds == 1e-6);
  /* The same recipe is one way. */
  save(f, &gemm, "n:10,20", 2e-4);
  assert_int_equal(ways_of(f, &gemm, ways), 2);
  assert_true(ways[0].joules == 2e-4 && ways[1].joules == 4e-4);
  /* Other sizes and ops know nothing of it. */
  gemm = product(11);
  assert_int_equal(ways_of(f, &gemm, ways), 1);
}

/* Time is tuned anew: its recipe's joules stay as long as the recipe. */
static void joules_stay_with_their_recipe(void **state) {
  fixture *f = *state;
  mmci_way ways[MMCI_WAYS];
  mmci_gemm gemm = product(10);
  mmci_recipe recipe;
  bool found;
  assert_int_equal(mmci_journal_fastest(&f->journal, &gemm, &found, &recipe, &f->error), MMC_OK);
  assert_false(found);
  choose_time(f, &gemm, "n:10,20", 1e-6);
  assert_int_equal(mmci_journal_fastest(&f->journal, &gemm, &found, &recipe, &f->error), MMC_OK);
  assert_true(found);
  expect_recipe(&recipe, "n:10,20");
  save(f, &gemm, "v2", 3e-4);
  choose_time(f, &gemm, "n:10,20", 1.1e-6);
  assert_int_equal(ways_of(f, &gemm, ways), 3);
  assert_true(ways[0].joules == 3e-4 && ways[0].time.seconds == 1.1e-6);
  choose_time(f, &gemm, "n:15,15", 0.9e-6);
  assert_int_equal(ways_of(f, &gemm, ways), 3);
  assert_true(ways[0].modelled && ways[0].time.seconds == 0.9e-6);
}

static const char *variant_name(mmc_dtype dtype, int variant) {
  static const char *const names[] = {"small tile", "big tile"};
  (void)dtype;
  return variant <= 2 ? names[variant - 1] : NULL;
}

/* A recipe that an earlier version stored is the same recipe: its joules stay, and from now on it
 * is stored by name. */
static void old_spellings_keep_their_joules(void **state) {
  fixture *f = *state;
  mmci_gemm gemm = product(10);
  choose_time(f, &gemm, "v2", 1e-6);
  save(f, &gemm, "v1", 3e-4);
  f->journal.variants = (mmci_variants){.name = variant_name, .dtype = MMC_F32};
  for (int again = 0; again < 2; again++) {
    choose_time(f, &gemm, again ? "n:10,20" : "v2", 1.1e-6);
    mmci_wisdom_table *table;
    const mmci_wisdom_key key = {10, 20, 30, MMC_OP_N, MMC_OP_T, MMCI_WISDOM_TIME};
    assert_int_equal(
        mmci_wisdom_acquire(f->journal.wisdom, &f->journal.fingerprint, &table, &f->error), MMC_OK);
    const mmci_wisdom_product *kept = mmci_wisdom_find(table, &key);
    assert_non_null(kept);
    assert_string_equal(kept->recipe, again ? "n:10,20" : "whole@big-tile");
    assert_true(again ? isnan(kept->joules) : kept->joules == 3e-4);
    mmci_wisdom_release(table);
  }
}

/* Of facts that are none, and of recipes that are none, nothing is used. */
static void what_makes_no_sense_is_not_used(void **state) {
  fixture *f = *state;
  mmci_way ways[MMCI_WAYS];
  mmci_gemm gemm = product(10);
  mmci_energy_model model = {50, 1e-10, 1e-9, 0.25, true};
  for (int n = 0; n < MMCI_ENERGY_FACTS; n++) {
    assert_int_equal(mmci_journal_energy(&f->journal, &model, &f->error), MMC_OK);
    mmci_wisdom_record fact = test_fact(&f->journal.fingerprint, mmci_energy_names[n], -1);
    assert_int_equal(mmci_wisdom_put(f->journal.wisdom, &fact, &f->error), MMC_OK);
    assert_int_equal(ways_of(f, &gemm, ways), 1);
    assert_int_equal(ways[0].source, MMCI_ASSUMED);
  }
  static const char *const bad[] = {"n:10,19", "V2", "split m 2"};
  for (int b = 0; b < 3; b++) {
    mmci_wisdom_record record = test_product(&f->journal.fingerprint, 10);
    record.product.key = (mmci_wisdom_key){10, 20, 30, MMC_OP_N, MMC_OP_T, MMCI_WISDOM_ENERGY};
    record.product.recipe = bad[b];
    record.product.joules = record.product.plain_joules = 1;
    assert_int_equal(mmci_wisdom_put(f->journal.wisdom, &record, &f->error), MMC_OK);
    assert_int_equal(ways_of(f, &gemm, ways), 1);
  }
  /* Joules that were not measured. */
  mmci_wisdom_record record = test_product(&f->journal.fingerprint, 10);
  record.product.key = (mmci_wisdom_key){10, 20, 30, MMC_OP_N, MMC_OP_T, MMCI_WISDOM_ENERGY};
  record.product.recipe = "v2";
  assert_int_equal(mmci_wisdom_put(f->journal.wisdom, &record, &f->error), MMC_OK);
  assert_int_equal(ways_of(f, &gemm, ways), 1);
}

/* ---- a recording ----------------------------------------------------------------------------- */

/* 100 W, told every 10 ms for 20 s: joules of a run are a hundred times its seconds. */
static void a_recording_gives_its_joules(void **state) {
  fixture *f = *state;
  char path[128];
  snprintf(path, sizeof path, "%s/steady", f->directory);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (int t = 0; t < 2000; t++) fprintf(file, "%.2f %d\n", 0.01 * t, t);
  fclose(file);
  mmci_device *device;
  mmci_bench *bench;
  mmci_measure_options options = mmci_measure_defaults();
  mmci_meter_source source = {.recording = path};
  options.meter_ops = &mmci_meter_replay;
  options.window_s = 0.5;
  assert_int_equal(mmci_meter_replay.open(&source, &options.meter, &f->error), MMC_OK);
  assert_int_equal(mmci_device_ref.open(0, &device, &f->error), MMC_OK);
  assert_int_equal(mmci_bench_open(&mmci_device_ref, device, &options, &bench, &f->error), MMC_OK);
  mmci_machine machine = mmci_bench_machine(bench);
  static const char *const recipes[] = {"whole", "n:13,20"};
  mmci_gemm gemm = mmci_gemm_tight(MMC_F64, MMCI_NATIVE, 31, 32, 33, MMC_OP_N, MMC_OP_N);
  for (int r = 0; r < 2; r++) {
    mmci_recipe recipe;
    mmci_measured out;
    assert_int_equal(mmci_recipe_parse(recipes[r], 31, 32, 33, NULL, &recipe, &f->error), MMC_OK);
    if (machine.joules(machine.user, &gemm, &recipe, &out, &f->error) != MMC_OK)
      fail_msg("%s", f->error.text);
    assert_true(out.joules.low <= out.joules.value && out.joules.value <= out.joules.high);
    double watts = out.joules.value / out.seconds.value;
    double error = (out.joules.high - out.joules.value) / out.joules.value;
    if (!(fabs(watts / 100 - 1) <= error + 1e-3) || !(error < 0.5))
      fail_msg("%g W, error %g", watts, error);
  }
  mmci_bench_close(bench);
  mmci_device_ref.close(device);
  mmci_meter_replay.close(options.meter);
}

/* A recording that is too short is a failure that says so. */
static void a_meter_that_fails_is_told(void **state) {
  fixture *f = *state;
  char path[128];
  snprintf(path, sizeof path, "%s/short", f->directory);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "0 0\n0.1 1\n0.2 2\n");
  fclose(file);
  mmci_device *device;
  mmci_bench *bench;
  mmci_measure_options options = mmci_measure_defaults();
  mmci_meter_source source = {.recording = path};
  options.meter_ops = &mmci_meter_replay;
  assert_int_equal(mmci_meter_replay.open(&source, &options.meter, &f->error), MMC_OK);
  assert_int_equal(mmci_device_ref.open(0, &device, &f->error), MMC_OK);
  assert_int_equal(mmci_bench_open(&mmci_device_ref, device, &options, &bench, &f->error), MMC_OK);
  mmci_machine machine = mmci_bench_machine(bench);
  mmci_gemm gemm = product(10);
  mmci_recipe plain = mmci_recipe_whole(0);
  mmci_measured out;
  assert_int_equal(machine.joules(machine.user, &gemm, &plain, &out, &f->error), MMC_E_DEVICE);
  assert_string_equal(f->error.text, "meter: no joules: the recording has ended after 0.2 s");
  mmci_bench_close(bench);
  mmci_device_ref.close(device);
  mmci_meter_replay.close(options.meter);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fewest_joules_within_the_slowdown),
      cmocka_unit_test(noise_within_the_ticks_chooses_nothing),
      cmocka_unit_test(savings_beyond_the_ticks_are_found),
      cmocka_unit_test(a_split_that_is_fastest_takes_part),
      cmocka_unit_test(the_model_is_recovered),
      TEST(a_second_search_measures_nothing),
      TEST(measured_goes_before_the_model),
      TEST(joules_stay_with_their_recipe),
      TEST(old_spellings_keep_their_joules),
      TEST(what_makes_no_sense_is_not_used),
      TEST(a_recording_gives_its_joules),
      TEST(a_meter_that_fails_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
