/* test_array.c: steps and the efficiency array on machines that are formulas. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../synthetic.h"
#include "../told.h"
#include "tune/array.h"

static const uint64_t seed = 606;

static mmci_tuner *open_tuner(synthetic *s, const mmci_tune_options *options) {
  mmci_machine machine = synthetic_machine(s);
  mmci_tuner *tuner;
  mmci_error error = {0};
  if (mmci_tuner_create(&machine, options, &tuner, &error) != MMC_OK) fail_msg("%s", error.text);
  return tuner;
}

static mmci_array *make_array(synthetic *s, const mmci_array_options *options, double least_gain) {
  mmci_tune_options tune = mmci_tune_defaults();
  tune.least_gain = least_gain;
  mmci_tuner *tuner = open_tuner(s, &tune);
  mmci_array *array;
  mmci_error error = {0};
  mmci_gemm like = synthetic_gemm(1, 1, 1);
  if (mmci_tune_array(tuner, &like, options, &array, &error) != MMC_OK) fail_msg("%s", error.text);
  mmci_tuner_destroy(tuner);
  return array;
}

/* ---- steps --------------------------------------------------------------------------------- */

static int steps_found(uint64_t first_seed, double noise, int rounds) {
  uint64_t random = first_seed;
  int found = 0;
  for (int round = 0; round < rounds; round++) {
    tiles t = random_tiles(&random, 0);
    int axis = round % 3;
    t.step[axis] = 2 + random_below(&random, 63);
    synthetic s = {.seconds = tiled_seconds,
                   .user = &t,
                   .noise = noise,
                   .drift = noise / 10,
                   .random = random_bits(&random)};
    mmci_tune_options options = mmci_tune_defaults();
    mmci_tuner *tuner = open_tuner(&s, &options);
    mmci_gemm like = synthetic_gemm(128, 128, 128);
    int64_t step = 0;
    double took_s;
    const mmci_axis along = (mmci_axis)(MMCI_AXIS_M + axis);
    assert_int_equal(mmci_find_step(tuner, &like, along, 256, &step, &took_s, NULL), MMC_OK);
    found += step == t.step[axis];
    if (noise == 0 && step != t.step[axis])
      fail_msg("%lld, not %lld; round %d, seed %llu", (long long)step, (long long)t.step[axis],
               round, (unsigned long long)first_seed);
    mmci_tuner_destroy(tuner);
  }
  return found;
}

static void steps_of_ladders(void **state) {
  (void)state;
  assert_int_equal(steps_found(seed, 0, 200), 200);
  uint64_t noisy = seed + 1;
  int found = steps_found(noisy, 0.01, 200);
  printf("steps found in noise of 1 %%: %d of 200; seed %llu\n", found, (unsigned long long)noisy);
  assert_true(found >= 180);
}

static double slope_seconds(const synthetic *s, const mmci_gemm *gemm) {
  (void)s;
  return 1e-6 + 1e-8 * (double)gemm->n;
}
static double flat_seconds(const synthetic *s, const mmci_gemm *gemm) {
  (void)s, (void)gemm;
  return 1e-6;
}

/* Stairs of 8, and cliffs at 37 and 91 that are higher than all stairs together. */
static double cliff_seconds(const synthetic *s, const mmci_gemm *gemm) {
  (void)s;
  int64_t stairs = (gemm->n + 7) / 8;
  return 1e-6 * (double)stairs + (gemm->n > 37 ? 1e-4 : 0) + (gemm->n > 91 ? 1e-3 : 0);
}

static int64_t step_of(double (*seconds)(const synthetic *, const mmci_gemm *), int64_t reach) {
  synthetic s = {.seconds = seconds};
  mmci_tune_options options = mmci_tune_defaults();
  mmci_tuner *tuner = open_tuner(&s, &options);
  mmci_gemm like = synthetic_gemm(16, 16, 16);
  int64_t step = 0;
  double took_s;
  assert_int_equal(mmci_find_step(tuner, &like, MMCI_AXIS_N, reach, &step, &took_s, NULL), MMC_OK);
  mmci_tuner_destroy(tuner);
  return step;
}

static void steps_of_other_shapes(void **state) {
  (void)state;
  assert_int_equal(step_of(slope_seconds, 64), 1);
  assert_int_equal(step_of(flat_seconds, 64), 1);
  assert_int_equal(step_of(cliff_seconds, 128), 8);
  assert_int_equal(step_of(slope_seconds, 1), 1);
  assert_int_equal(step_of(flat_seconds, 2), 1);
}

/* ---- the array ----------------------------------------------------------------------------- */

/* The best of plain and of all two-way cuts along m and n that have a part of whole steps. */
static double best_two_way(const synthetic *s, const int64_t step[3], const mmci_gemm *gemm) {
  double best = s->seconds(s, gemm);
  for (int axis = MMCI_AXIS_M; axis <= MMCI_AXIS_N; axis += 2)
    for (int64_t first = 1; first < mmci_gemm_size(gemm, (mmci_axis)axis); first++) {
      int64_t second = mmci_gemm_size(gemm, (mmci_axis)axis) - first;
      if (first % step[axis - MMCI_AXIS_M] != 0 && second % step[axis - MMCI_AXIS_M] != 0) continue;
      mmci_gemm a = mmci_gemm_resized(gemm, (mmci_axis)axis, first);
      mmci_gemm b = mmci_gemm_resized(gemm, (mmci_axis)axis, second);
      best = fmin(best, s->seconds(s, &a) + s->seconds(s, &b));
    }
  return best;
}

/* On a ladder whose grid has every step, the array knows all times, and what it chooses is the
 * best. */
static void ladders_are_known(void **state) {
  (void)state;
  uint64_t random = seed + 2;
  int cut = 0;
  for (int round = 0; round < 30; round++) {
    tiles t = random_tiles(&random, 0.4);
    t.bad[0][1] = t.bad[1][1] = t.bad[2][1] = 1;
    synthetic s = {.seconds = tiled_seconds, .user = &t};
    mmci_array_options options = mmci_array_defaults(60);
    options.dense = 64;
    options.reach = options.beside = 60;
    mmci_array *array = make_array(&s, &options, 0);
    for (int i = 0; i < 3; i++)
      if (array->grid[i].step != t.step[i]) goto next; /* bad tiles can hide a ladder */
    for (int q = 0; q < 300; q++) {
      mmci_gemm gemm = synthetic_gemm(1 + random_below(&random, 60), 1 + random_below(&random, 60),
                                      1 + random_below(&random, 60));
      double truth = tiled_seconds(&s, &gemm);
      double known = mmci_array_seconds(array, gemm.m, gemm.k, gemm.n);
      assert_true(fabs(known - truth) <= 1e-12 * truth);
      mmci_choice choice;
      assert_true(mmci_array_choose(array, gemm.m, gemm.k, gemm.n, &choice));
      double chosen = synthetic_truth(&s, &gemm, &choice.recipe);
      double best = best_two_way(&s, t.step, &gemm);
      if (!(fabs(chosen - best) <= 1e-12 * best))
        fail_msg("chose %g, the best is %g; seed %llu, round %d", chosen, best,
                 (unsigned long long)(seed + 2), round);
      assert_true(fabs(choice.seconds - chosen) <= 1e-9 * chosen);
      cut += choice.recipe.count > 1;
    }
    assert_true(array->trust.margin <= 1e-9);
  next:
    mmci_array_destroy(array);
  }
  printf("%d cuts chosen on known ladders\n", cut);
  assert_true(cut > 1000);
}

/* A thinned grid and noise: what is chosen may be wrong, but not by much, and mostly gains. */
static void thinned_and_noisy(void **state) {
  (void)state;
  uint64_t random = seed + 3;
  int cut = 0, lost = 0;
  double gained = 0;
  for (int round = 0; round < 12; round++) {
    tiles t = random_tiles(&random, 0.3);
    synthetic s = {
        .seconds = tiled_seconds, .user = &t, .noise = 0.005, .random = random_bits(&random)};
    mmci_array_options options = mmci_array_defaults(500);
    options.beside = 64;
    options.reach = 96;
    mmci_array *array = make_array(&s, &options, 0.01);
    assert_true(array->trust.margin >= 0.01 && array->trust.between >= 0.01);
    for (int q = 0; q < 200; q++) {
      mmci_gemm gemm =
          synthetic_gemm(1 + random_below(&random, 500), 1 + random_below(&random, 500),
                         1 + random_below(&random, 500));
      mmci_choice choice;
      assert_true(mmci_array_choose(array, gemm.m, gemm.k, gemm.n, &choice));
      if (choice.recipe.count == 1) continue;
      assert_true(choice.gain.low >= 1);
      double gain = tiled_seconds(&s, &gemm) / synthetic_truth(&s, &gemm, &choice.recipe);
      cut++;
      lost += gain < 0.98;
      gained += log(gain);
    }
    mmci_array_destroy(array);
  }
  printf("thinned and noisy: %d cuts, %d lost more than 2 %%, geomean %.3f\n", cut, lost,
         exp(gained / cut));
  assert_true(cut > 50 && lost <= cut / 10 && gained > 0);
}

/* Tiles, of which parts in place take up to a half longer than alone, which no array knows. */
static double hindered_seconds(const synthetic *s, const mmci_gemm *gemm) {
  uint64_t hash = (uint64_t)(gemm->m * 1000003 + gemm->k * 10007 + gemm->n);
  bool in_place = gemm->b.ld != gemm->n || gemm->ldc != gemm->n;
  return tiled_seconds(s, gemm) * (in_place ? 1 + 0.5 * fabs(random_unit(&hash)) : 1);
}

/* What is overstated is chosen where it gains even so. */
static void overstated_cuts(void **state) {
  (void)state;
  uint64_t random = seed + 4;
  int cut = 0, lost = 0;
  for (int round = 0; round < 24; round++) {
    tiles t = random_tiles(&random, 0.3);
    t.call_s = 1e-8;
    for (int j = 0; j <= MOST_TILES; j++) t.bad[2][j] = j % 3 == 0 ? 2 + 2 * (j % 2) : 1;
    synthetic s = {.seconds = hindered_seconds, .user = &t, .random = random_bits(&random)};
    mmci_array_options options = mmci_array_defaults(64);
    options.beside = options.reach = 64;
    mmci_array *array = make_array(&s, &options, 0.01);
    for (int q = 0; q < 200; q++) {
      mmci_gemm gemm = synthetic_gemm(1 + random_below(&random, 64), 1 + random_below(&random, 64),
                                      1 + random_below(&random, 64));
      mmci_choice choice;
      assert_true(mmci_array_choose(array, gemm.m, gemm.k, gemm.n, &choice));
      if (choice.recipe.count == 1) continue;
      cut++;
      lost += tiled_seconds(&s, &gemm) / synthetic_truth(&s, &gemm, &choice.recipe) < 0.98;
    }
    mmci_array_destroy(array);
  }
  printf("overstated: %d cuts, %d lost more than 2 %%; seed %llu\n", cut, lost,
         (unsigned long long)seed + 4);
  assert_true(cut > 100 && lost <= cut / 100);
}

static void outside_is_unknown(void **state) {
  (void)state;
  tiles t = {.step = {4, 4, 4}, .adding = 1, .call_s = 1e-7};
  for (int i = 0; i < 3 * (MOST_TILES + 1); i++) (&t.bad[0][0])[i] = 1;
  synthetic s = {.seconds = tiled_seconds, .user = &t};
  mmci_array_options options = mmci_array_defaults(30);
  options.reach = options.beside = 30;
  mmci_array *array = make_array(&s, &options, 0.01);
  mmci_choice choice = {.plain_s = 77};
  /* 30 is rounded up to the step: 32 is within. */
  assert_true(mmci_array_choose(array, 32, 32, 32, &choice));
  static const int64_t outside[][3] = {{33, 4, 4}, {4, 33, 4}, {4, 4, 33}, {0, 4, 4},
                                       {4, 0, 4},  {4, 4, 0},  {-1, 4, 4}, {INT64_MAX, 1, 1}};
  for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
    const int64_t *o = outside[i];
    choice.plain_s = 77;
    assert_false(mmci_array_choose(array, o[0], o[1], o[2], &choice));
    assert_true(choice.plain_s == 77);
    assert_true(isnan(mmci_array_seconds(array, o[0], o[1], o[2])));
  }
  mmci_array_destroy(array);
  mmci_array_destroy(NULL);
}

static void kept_and_restored(void **state) {
  (void)state;
  uint64_t random = seed + 4;
  tiles t = random_tiles(&random, 0.4);
  synthetic s = {.seconds = tiled_seconds, .user = &t};
  mmci_array_options options = mmci_array_defaults(40);
  options.reach = options.beside = 40;
  mmci_array *array = make_array(&s, &options, 0), *back = NULL;
  assert_int_equal(
      mmci_array_restore(&array->like, array->grid, array->seconds, &array->trust, &back, NULL),
      MMC_OK);
  for (int q = 0; q < 500; q++) {
    int64_t m = 1 + random_below(&random, 40), k = 1 + random_below(&random, 40);
    int64_t n = 1 + random_below(&random, 40);
    mmci_choice a, b;
    assert_true(mmci_array_choose(array, m, k, n, &a) && mmci_array_choose(back, m, k, n, &b));
    assert_true(a.seconds == b.seconds && a.plain_s == b.plain_s);
  }
  mmci_array_destroy(back);

  back = NULL;
  mmci_grid bad[5][3];
  for (int i = 0; i < 5; i++) memcpy(bad[i], array->grid, sizeof bad[i]);
  bad[0][0].step = 0;
  bad[1][1].count = 0;
  bad[2][2].count = MMCI_ARRAY_VALUES + 1;
  bad[3][0].values[0] = -4;
  bad[4][1].values[1] = bad[4][1].values[0];
  for (int i = 0; i < 5; i++)
    assert_int_equal(
        mmci_array_restore(&array->like, bad[i], array->seconds, &(mmci_trust){0}, &back, NULL),
        MMC_E_FORMAT);
  static const double rubbish[] = {NAN, INFINITY, 0, -1};
  for (int i = 0; i < 4; i++) {
    int64_t at = random_below(&random, mmci_array_count(array));
    double kept = array->seconds[at];
    array->seconds[at] = rubbish[i];
    assert_int_equal(mmci_array_restore(&array->like, array->grid, array->seconds, &(mmci_trust){0},
                                        &back, NULL),
                     MMC_E_FORMAT);
    array->seconds[at] = kept;
    if (i == 2) continue; /* a margin of 0 is one */
    const mmci_trust none[] = {
        {.margin = rubbish[i]}, {.between = rubbish[i]}, {.error = rubbish[i]}};
    for (int f = 0; f < 3; f++)
      assert_int_equal(
          mmci_array_restore(&array->like, array->grid, array->seconds, &none[f], &back, NULL),
          MMC_E_FORMAT);
  }
  assert_null(back);
  mmci_array_destroy(array);
}

/* Fills a grid of random steps and values; sizes reach to its last value. */
static mmci_grid random_grid(uint64_t *random) {
  const int64_t most = random_below(random, 4) == 0 ? 500 : 5;
  mmci_grid grid = {.step = 1 + random_below(random, most),
                    .count = 1 + (int)random_below(random, 9)};
  int64_t value = 0;
  for (int i = 0; i < grid.count; i++)
    grid.values[i] = value += grid.step * (1 + random_below(random, 4));
  return grid;
}

/* Restored arrays know where sizes lie, what a size takes at least and which products are not to be
 * cut, and look no further where no cut can gain: the choice is that of an array which does not
 * know it. Times grow with the sizes and leap, so that some cuts gain much, some their margin, and
 * most nothing. */
static void floors_do_not_choose(void **state) {
  (void)state;
  uint64_t random = seed;
  int cuts = 0, wholes = 0;
  int64_t known = 0, points = 0;
  printf("seed %llu\n", (unsigned long long)seed);
  for (int round = 0; round < 300; round++) {
    const mmci_grid grid[3] = {random_grid(&random), random_grid(&random), random_grid(&random)};
    const mmci_gemm like = synthetic_gemm(1, 1, 1);
    const double leaps = fabs(random_unit(&random)), start = 1e-7 * fabs(random_unit(&random));
    mmci_array *array, *back;
    assert_int_equal(mmci_array_create(&like, grid, &array, NULL), MMC_OK);
    array->trust =
        (mmci_trust){0.1 * fabs(random_unit(&random)), 0.2 * fabs(random_unit(&random)), 0.1};
    int64_t at = 0;
    for (int i = 0; i < grid[0].count; i++)
      for (int j = 0; j < grid[1].count; j++)
        for (int l = 0; l < grid[2].count; l++)
          array->seconds[at++] =
              (start + 1e-9 * (double)(grid[0].values[i] * grid[1].values[j] * grid[2].values[l])) *
              (1 + leaps * fabs(random_unit(&random)));
    assert_int_equal(mmci_array_restore(&like, grid, array->seconds, &array->trust, &back, NULL),
                     MMC_OK);
    points += at;
    for (int64_t p = 0; p < at; p++) known += back->is_whole[p];
    for (int x = 0; x < 200; x++) {
      int64_t size[3];
      mmci_choice a, b;
      mmci_price price;
      for (int d = 0; d < 3; d++)
        size[d] = 1 + random_below(&random, grid[d].values[grid[d].count - 1]);
      assert_true(mmci_array_choose(array, size[0], size[1], size[2], &a) &&
                  mmci_array_choose(back, size[0], size[1], size[2], &b) &&
                  mmci_array_price(back, size[0], size[1], size[2], &price));
      if (!mmci_recipe_equal(&a.recipe, &b.recipe) ||
          !mmci_recipe_equal(&a.recipe, &price.recipe) || a.seconds != b.seconds ||
          a.seconds != price.seconds || a.plain_s != b.plain_s || a.plain_s != price.plain_s ||
          a.gain.value != b.gain.value || a.gain.low != b.gain.low || a.gain.high != b.gain.high)
        fail_msg("%lld x %lld x %lld: another choice, round %d", (long long)size[0],
                 (long long)size[1], (long long)size[2], round);
      cuts += a.recipe.count > 1;
      wholes += a.recipe.count == 1;
    }
    mmci_array_destroy(array);
    mmci_array_destroy(back);
  }
  assert_true(cuts > 1000 && wholes > 1000);
  assert_true(known > points / 20 && known < points);
}

/* ---- budget -------------------------------------------------------------------------------- */

enum { JOURNAL = 40000, SLOTS = 1 << 17 };
static struct {
  char *keys[JOURNAL];
  mmci_measured measured[JOURNAL];
  int count;
  int slots[SLOTS]; /* by hash, then in a row: a page's number and 1 */
} pages;

/* Where the key is, or is to be. */
static int *slot_of(const char *key) {
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (const char *c = key; *c != '\0'; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
  while (pages.slots[hash % SLOTS] != 0 &&
         strcmp(pages.keys[pages.slots[hash % SLOTS] - 1], key) != 0)
    hash++;
  return &pages.slots[hash % SLOTS];
}

static bool recall(void *user, const char *key, mmci_measured *out) {
  (void)user;
  int page = *slot_of(key);
  if (page > 0) *out = pages.measured[page - 1];
  return page > 0;
}

static mmc_status record(void *user, const char *key, const mmci_measured *measured,
                         mmci_error *error) {
  (void)user, (void)error;
  mmci_measured ignored;
  if (recall(NULL, key, &ignored)) fail_msg("measured twice: %s", key);
  assert_true(pages.count < JOURNAL);
  pages.measured[pages.count] = *measured;
  *slot_of(key) = pages.count + 1;
  pages.keys[pages.count++] = strdup(key);
  return MMC_OK;
}

static void forget(void) {
  for (int i = 0; i < pages.count; i++) free(pages.keys[i]);
  pages.count = 0;
  memset(pages.slots, 0, sizeof pages.slots);
}

/* What a budget does not reach is measured in the next session, and no more: the array is that of a
 * session without a budget when it is as dense. */
static void budgets(void **state) {
  (void)state;
  uint64_t random = seed + 5;
  tiles t = random_tiles(&random, 0.3);
  synthetic s = {.seconds = tiled_seconds, .user = &t};
  mmci_array_options options = mmci_array_defaults(100);
  options.reach = options.beside = 32;
  options.dense = 2; /* one density: budgets cannot thin it */
  options.across = 0;
  options.checks = 1;
  mmci_array *free_of_budget = make_array(&s, &options, 0.01), *array = NULL;
  double all_s = s.clock_s;
  int sessions = 0;
  for (mmc_status status = MMC_E_INTERRUPTED; status != MMC_OK; sessions++) {
    mmci_tune_options tune = mmci_tune_defaults();
    tune.budget_s = all_s / 5;
    tune.journal = (mmci_journal){.recall = recall, .record = record};
    mmci_tuner *tuner = open_tuner(&s, &tune);
    mmci_gemm like = synthetic_gemm(1, 1, 1);
    status = mmci_tune_array(tuner, &like, &options, &array, NULL);
    if (status != MMC_OK) {
      assert_int_equal(status, MMC_E_INTERRUPTED);
      assert_true(mmci_tuner_spent(tuner));
      assert_null(array);
    }
    mmci_tuner_destroy(tuner);
    assert_true(sessions < 50);
  }
  assert_true(sessions >= 4);
  assert_int_equal(mmci_array_count(array), mmci_array_count(free_of_budget));
  for (int64_t i = 0; i < mmci_array_count(array); i++)
    assert_true(array->seconds[i] == free_of_budget->seconds[i]);
  mmci_array_destroy(array);
  mmci_array_destroy(free_of_budget);
  forget();
}

/* A budget that the densest grid exceeds gets a thinner one, and is kept. */
static void budgets_thin(void **state) {
  (void)state;
  tiles t = {.step = {4, 4, 4}, .adding = 1, .call_s = 1e-7};
  for (int i = 0; i < 3 * (MOST_TILES + 1); i++) (&t.bad[0][0])[i] = 1;
  synthetic s = {.seconds = tiled_seconds, .user = &t};
  mmci_array_options options = mmci_array_defaults(256);
  options.reach = options.beside = 64;
  mmci_array *dense = make_array(&s, &options, 0.01), *thin;
  mmci_tune_options tune = mmci_tune_defaults();
  tune.budget_s = s.clock_s / 2;
  mmci_tuner *tuner = open_tuner(&s, &tune);
  mmci_gemm like = synthetic_gemm(1, 1, 1);
  assert_int_equal(mmci_tune_array(tuner, &like, &options, &thin, NULL), MMC_OK);
  assert_false(mmci_tuner_spent(tuner));
  assert_true(mmci_array_count(thin) < mmci_array_count(dense));
  for (int i = 0; i < 3; i++) { /* what is in the thin one is in the dense one */
    int j = 0;
    for (int v = 0; v < thin->grid[i].count; v++) {
      while (j < dense->grid[i].count && dense->grid[i].values[j] != thin->grid[i].values[v]) j++;
      assert_true(j < dense->grid[i].count);
    }
  }
  mmci_tuner_destroy(tuner);
  mmci_array_destroy(thin);
  mmci_array_destroy(dense);
}

/* ---- progress ------------------------------------------------------------------------------ */

/* Measures a range with the journal; false: stopped. */
static bool told_array(synthetic *s, int64_t most, double budget_s, told *t) {
  mmci_tune_options tune = mmci_tune_defaults();
  tune.budget_s = budget_s;
  tune.journal = (mmci_journal){.recall = recall, .record = record};
  tune.progress = told_listen;
  tune.progress_user = t;
  t->s = s;
  t->count = 0;
  mmci_array_options options = mmci_array_defaults(most);
  options.reach = options.beside = 64;
  mmci_tuner *tuner = open_tuner(s, &tune);
  mmci_gemm like = synthetic_gemm(1, 1, 1);
  mmci_array *array = NULL;
  mmci_error error = {0};
  mmc_status status = mmci_tune_array(tuner, &like, &options, &array, &error);
  if (status != MMC_OK && !(status == MMC_E_INTERRUPTED && !mmci_tuner_spent(tuner)))
    fail_msg("%s", error.text);
  mmci_tuner_destroy(tuner);
  mmci_array_destroy(array);
  return status == MMC_OK;
}

static told heard;

/* What is told counts the sizes along each axis, the grid's points and the trials, and a session
 * that goes on after a cut begins where that was. */
static void progress_counts(void **state) {
  (void)state;
  static const char *const units[] = {"sizes along m", "sizes along k", "sizes along n",
                                      "grid points",   "trials",        "trials between"};
  uint64_t random = seed + 6;
  for (int round = 0; round < 24; round++) {
    tiles t = random_tiles(&random, 0.3);
    for (int i = 0; i < 3; i++) t.step[i] = 4 + random_below(&random, 12);
    synthetic s = {
        .seconds = tiled_seconds, .user = &t, .noise = 0.005, .random = random_bits(&random)};
    int64_t most = 100 + random_below(&random, 100);
    heard.stop_s = 0;
    assert_true(told_array(&s, most, INFINITY, &heard));
    const double all_s = s.clock_s;
    told_expect_order(&heard, units, 6);
    told_expect_all(&heard, "sizes along m", 64);
    forget();
    heard.stop_s = s.clock_s + all_s * (0.1 + 0.2 * (round % 5));
    assert_false(told_array(&s, most, INFINITY, &heard));
    const told_report before = heard.reports[heard.count - 1];
    heard.stop_s = 0;
    assert_true(told_array(&s, most, INFINITY, &heard));
    told_expect_order(&heard, units, 6);
    assert_string_equal(heard.reports[0].unit, before.unit);
    assert_true(heard.reports[0].decided >= before.decided);
    forget();
  }
}

static void bad_ranges(void **state) {
  (void)state;
  synthetic s = {.seconds = flat_seconds};
  mmci_tune_options tune = mmci_tune_defaults();
  mmci_tuner *tuner = open_tuner(&s, &tune);
  mmci_gemm like = synthetic_gemm(1, 1, 1);
  mmci_array *array = NULL;
  mmci_array_options bad[6];
  for (int i = 0; i < 6; i++) bad[i] = mmci_array_defaults(16);
  bad[0].most[1] = 0;
  bad[1].reach = 0;
  bad[2].dense = 1;
  bad[3].checks = 0;
  bad[4].most[2] = INT64_MAX;
  bad[5].across = -1;
  for (int i = 0; i < 6; i++)
    assert_int_equal(mmci_tune_array(tuner, &like, &bad[i], &array, NULL), MMC_E_ARG);
  assert_null(array);
  mmci_tuner_destroy(tuner);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_of_ladders),  cmocka_unit_test(steps_of_other_shapes),
      cmocka_unit_test(ladders_are_known), cmocka_unit_test(thinned_and_noisy),
      cmocka_unit_test(overstated_cuts),   cmocka_unit_test(outside_is_unknown),
      cmocka_unit_test(kept_and_restored), cmocka_unit_test(floors_do_not_choose),
      cmocka_unit_test(budgets),           cmocka_unit_test(budgets_thin),
      cmocka_unit_test(progress_counts),   cmocka_unit_test(bad_ranges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
