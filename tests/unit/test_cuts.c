/* test_cuts.c: what an array predicts for its own sizes, proven on machines that are formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../synthetic.h"
#include "tune/array.h"
#include "tune/cuts.h"

static const uint64_t seed = 909;

/* What was told of products. */
enum { MOST_TOLD = 8192 };
static struct told {
  int count, cut;
  mmci_gemm gemms[MOST_TOLD];
  mmci_choice choices[MOST_TOLD];
} told;

static mmc_status decided(void *user, const mmci_gemm *gemm, const mmci_choice *choice,
                          mmci_error *error) {
  (void)user, (void)error;
  assert_true(told.count < MOST_TOLD);
  told.gemms[told.count] = *gemm;
  told.choices[told.count++] = *choice;
  told.cut += choice->recipe.count > 1;
  return MMC_OK;
}

static bool knows_even; /* what has an even number of rows */

static bool even_is_known(void *user, const mmci_gemm *gemm) {
  (void)user;
  return knows_even && gemm->m % 2 == 0;
}

typedef struct stop {
  int64_t calls, at;
} stop;

static int stops(void *user, const char *unit, int64_t decided_count, int64_t count) {
  stop *s = user;
  assert_true(decided_count >= 0 && decided_count < count && unit[0] != '\0');
  return ++s->calls == s->at;
}

/* Sizes up to 8 steps of each axis, as the machine is. */
static mmci_array *measured_array(mmci_tuner *tuner, const tiles *t) {
  mmci_array_options options = mmci_array_defaults(1);
  for (int i = 0; i < 3; i++) options.most[i] = 8 * t->step[i];
  mmci_gemm like = synthetic_gemm(1, 1, 1);
  mmci_array *array;
  mmci_error error = {0};
  if (mmci_tune_array(tuner, &like, &options, &array, &error) != MMC_OK) fail_msg("%s", error.text);
  return array;
}

/* A machine with bad numbers of tiles; what is left of budget_s for cuts is used. */
static mmc_status tune(synthetic *s, double budget_s, stop *stopping, int64_t *cut) {
  mmci_tune_options options = mmci_tune_defaults();
  options.journal.decided = decided;
  options.journal.known = even_is_known;
  options.budget_s = budget_s;
  if (stopping != NULL) {
    options.progress = stops;
    options.progress_user = stopping;
  }
  mmci_machine machine = synthetic_machine(s);
  mmci_tuner *tuner;
  mmci_error error = {0};
  memset(&told, 0, sizeof told);
  assert_int_equal(mmci_tuner_create(&machine, &options, &tuner, &error), MMC_OK);
  mmci_array *array = measured_array(tuner, s->user);
  if (stopping != NULL) stopping->at = stopping->calls + 10;
  mmc_status status = mmci_tune_cuts(tuner, array, cut, &error);
  mmci_array_destroy(array);
  mmci_tuner_destroy(tuner);
  return status;
}

static double true_gain(const synthetic *s, int at) {
  mmci_recipe whole = mmci_recipe_whole(0);
  return synthetic_truth(s, &told.gemms[at], &whole) /
         synthetic_truth(s, &told.gemms[at], &told.choices[at].recipe);
}

/* Without noise every promise is kept, and the best of all are among those that were tried. */
static void promises_are_proven(void **state) {
  (void)state;
  uint64_t random = seed;
  int cut_in_all = 0;
  for (int round = 0; round < 20; round++) {
    tiles t = random_tiles(&random, 0.3);
    synthetic s = {.seconds = tiled_seconds, .user = &t, .random = random_bits(&random)};
    int64_t cut;
    assert_int_equal(tune(&s, (double)INFINITY, NULL, &cut), MMC_OK);
    assert_int_equal(cut, told.cut);
    assert_true(told.count <= 64);
    for (int i = 0; i < told.count; i++) {
      const mmci_choice *choice = &told.choices[i];
      if (choice->recipe.count == 1 || !(fabs(choice->gain.value - true_gain(&s, i)) <= 1e-9) ||
          !(choice->gain.value >= 1.01))
        fail_msg("gain %g, in truth %g; round %d, seed %llu", choice->gain.value, true_gain(&s, i),
                 round, (unsigned long long)seed);
      if (i > 0) assert_true(choice->gain.value <= told.choices[i - 1].gain.value + 1e-9);
    }
    cut_in_all += told.cut;
  }
  assert_true(cut_in_all > 200);
}

/* Of a noisy machine's promises most are luck: what is chosen is faster all the same. */
static void luck_is_not_chosen(void **state) {
  (void)state;
  uint64_t random = seed + 1;
  int tried = 0, cut_in_all = 0, slower = 0;
  for (int round = 0; round < 20; round++) {
    tiles t = random_tiles(&random, 0.1);
    synthetic s = {.seconds = tiled_seconds,
                   .user = &t,
                   .noise = 0.05,
                   .drift = 0.01,
                   .random = random_bits(&random)};
    int64_t cut;
    assert_int_equal(tune(&s, (double)INFINITY, NULL, &cut), MMC_OK);
    tried += told.count;
    cut_in_all += told.cut;
    for (int i = 0; i < told.count; i++)
      slower += told.choices[i].recipe.count > 1 && !(true_gain(&s, i) >= 1);
  }
  printf("%d tried, %d cut, %d slower\n", tried, cut_in_all, slower);
  assert_true(cut_in_all > 20 && cut_in_all < tried);
  assert_int_equal(slower, 0);
}

/* A budget buys more of them, is kept, and is no failure when it ends. */
static void budgets(void **state) {
  (void)state;
  uint64_t random = seed + 2;
  int more = 0;
  for (int round = 0; round < 10; round++) {
    tiles t = random_tiles(&random, 0.3);
    synthetic s = {.seconds = tiled_seconds, .user = &t, .random = random_bits(&random)}, again = s;
    int64_t cut;
    assert_int_equal(tune(&s, (double)INFINITY, NULL, &cut), MMC_OK);
    double unhurried_s = s.clock_s;
    int unhurried = told.count;
    assert_int_equal(tune(&again, 3 * unhurried_s, NULL, &cut), MMC_OK);
    assert_true(again.clock_s <= 3.3 * unhurried_s);
    more += told.count > unhurried;
  }
  assert_true(more >= 5);
}

/* What a search has chosen, which has more candidates, stays. */
static void what_is_known_is_left(void **state) {
  (void)state;
  uint64_t random = seed + 4;
  int odd = 0;
  for (int round = 0; round < 10; round++) {
    tiles t = random_tiles(&random, 0.3);
    t.step[0] = 1;
    synthetic s = {.seconds = tiled_seconds, .user = &t, .random = random_bits(&random)};
    int64_t cut;
    knows_even = true;
    assert_int_equal(tune(&s, (double)INFINITY, NULL, &cut), MMC_OK);
    knows_even = false;
    for (int i = 0; i < told.count; i++) assert_int_equal(told.gemms[i].m % 2, 1);
    odd += told.count;
  }
  assert_true(odd > 50);
}

static void stopped(void **state) {
  (void)state;
  uint64_t random = seed + 3;
  tiles t = random_tiles(&random, 0.3);
  synthetic s = {.seconds = tiled_seconds, .user = &t, .random = random_bits(&random)};
  stop stopping = {.at = INT64_MAX};
  int64_t cut;
  assert_int_equal(tune(&s, (double)INFINITY, &stopping, &cut), MMC_E_INTERRUPTED);
  assert_int_equal(stopping.calls, stopping.at);
  assert_true(told.count > 0 && told.count < 10 && cut == told.cut);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(promises_are_proven),
      cmocka_unit_test(luck_is_not_chosen),
      cmocka_unit_test(budgets),
      cmocka_unit_test(what_is_known_is_left),
      cmocka_unit_test(stopped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
