/* test_fusion.c: plans for least traffic: the TEE-ACM2 poster's table cell by cell, the words of
 * every step against loops that count them, bad options, and that such plans multiply right. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "../tiled_loops.h"
#include "mmchain.h"

static const uint64_t seed = 544616;

static int set_up(void **state) {
  mmc_context *context;
  if (mmc_context_create(NULL, &context) != MMC_OK) return 1;
  *state = context;
  return 0;
}

static int tear_down(void **state) {
  mmc_context_destroy(*state);
  return 0;
}

static mmc_plan *plan_chain(mmc_context *context, const mmc_chain *chain, const char *solver,
                            const char *fuse, int64_t on_chip_words) {
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = "traffic";
  options.solver = solver;
  options.fuse = fuse;
  options.on_chip_words = on_chip_words;
  mmc_plan *plan;
  if (mmc_plan_create(context, chain, &options, &plan) != MMC_OK) {
    char text[512];
    fail_msg("%s", mmc_context_message(context, text, sizeof text));
  }
  return plan;
}

static mmc_plan *plan_text(mmc_context *context, const char *text, const char *fuse,
                           int64_t on_chip_words) {
  mmc_chain *chain;
  assert_int_equal(mmc_chain_parse(context, text, &chain), MMC_OK);
  mmc_plan *plan = plan_chain(context, chain, NULL, fuse, on_chip_words);
  mmc_chain_destroy(chain);
  return plan;
}

/* ---- the table ----------------------------------------------------------------------------- */

/* One row: six cells, -1 where the poster has a dash. */
typedef struct row {
  int64_t first, last, no_fuse, left_fuse, right_fuse, chosen;
  mmc_fusion decision;
  int64_t tile[2];
} row;

/* The fusion decision table of the poster "TEE-ACM2" (SC22), M = 65,536, as printed, but for the
 * last size, which must be 616 where it prints 544, and row T5, whose two fuse cells are printed in
 * each other's columns (the headers say no, left, right in rows T2 and T4). Its tiles are rounded
 * down to multiples of 8. */
static const char fusion_table[] = "936x1008x552x368x1016x616x616";
static const row printed[] = {
    {2, 3, 1599696, -1, -1, 1599696, MMC_FUSION_NONE, {256, 256}},
    {1, 3, 4683168, -1, 3072693, 3072693, MMC_FUSION_RIGHT, {304, 208}},
    {4, 5, 1799336, -1, -1, 1799336, MMC_FUSION_NONE, {256, 256}},
    {4, 6, 3116960, 2942313, -1, 2942313, MMC_FUSION_LEFT, {216, 296}},
    {1, 6, 8243798, 9136171, 9364761, 8243798, MMC_FUSION_NONE, {256, 256}},
};

/* The same with right fuse as the mirror image of left fuse, computed in rational arithmetic by an
 * independent program. */
static const row mirrored[] = {
    {2, 3, 1599696, -1, -1, 1599696, MMC_FUSION_NONE, {256, 256}},
    {1, 3, 4683168, -1, 4829112, 4683168, MMC_FUSION_NONE, {256, 256}},
    {4, 5, 1799336, -1, -1, 1799336, MMC_FUSION_NONE, {256, 256}},
    {4, 6, 3116960, 2942313, -1, 2942313, MMC_FUSION_LEFT, {216, 296}},
    {1, 6, 9854273, 9136171, 9382910, 9136171, MMC_FUSION_LEFT, {216, 296}},
};

static int64_t words_of(mmc_count count) {
  assert_true(count.hi == 0 && count.lo <= INT64_MAX);
  return (int64_t)count.lo;
}

static void check_rows(mmc_context *context, const char *fuse, const row *rows) {
  mmc_plan *plan = plan_text(context, fusion_table, fuse, 0);
  int cells = 0;
  assert_int_equal(mmc_plan_step_count(plan), 5);
  for (int s = 0; s < 5; s++) {
    mmc_step step;
    mmc_step_traffic got;
    assert_int_equal(mmc_plan_step(plan, s, &step), MMC_OK);
    assert_int_equal(mmc_plan_step_traffic(plan, s, &got), MMC_OK);
    assert_int_equal(step.first + 1, rows[s].first);
    assert_int_equal(step.last + 1, rows[s].last);
    const int64_t expected[3] = {rows[s].no_fuse, rows[s].left_fuse, rows[s].right_fuse};
    for (int c = 0; c < 3; c++, cells++) {
      assert_int_equal(got.possible[c], expected[c] >= 0);
      if (got.possible[c]) assert_int_equal(words_of(got.choices[c]), expected[c]);
    }
    assert_int_equal(words_of(got.choices[got.chosen]), rows[s].chosen);
    assert_int_equal(got.chosen, rows[s].decision);
    for (int d = 0; d < 2; d++) assert_int_equal(got.chosen_tile[d] / 8 * 8, rows[s].tile[d]);
    cells += 3;
  }
  assert_int_equal(cells, 30);
  assert_int_equal(words_of(mmc_plan_traffic_words(plan)), rows[4].chosen + 936 * 616);
  mmc_plan_destroy(plan);
}

static void the_posters_table(void **state) {
  check_rows(*state, "poster", printed);
}

static void the_table_with_a_true_mirror_image(void **state) {
  check_rows(*state, "exact", mirrored);
  check_rows(*state, NULL, mirrored);
}

/* With the last size as printed, 544, none of the numbers that depend on it come out. */
static void the_printed_last_size_is_wrong(void **state) {
  mmc_plan *plan = plan_text(*state, "936x1008x552x368x1016x616x544", "poster", 65536);
  for (int s = 3; s < 5; s++) {
    mmc_step_traffic got;
    assert_int_equal(mmc_plan_step_traffic(plan, s, &got), MMC_OK);
    assert_int_not_equal(words_of(got.choices[0]), printed[s].no_fuse);
    assert_int_not_equal(words_of(got.choices[1]), printed[s].left_fuse);
  }
  mmc_plan_destroy(plan);
}

/* ---- steps --------------------------------------------------------------------------------- */

/* What the loops of the kernel that ends with step s move, and whether its tile divides. */
static int64_t run_loops(const mmc_plan *plan, int64_t factors, int64_t s,
                         const mmc_step_traffic *traffic, bool *divides) {
  mmc_step step, inner;
  assert_int_equal(mmc_plan_step(plan, s, &step), MMC_OK);
  int64_t x = traffic->tile[0], y = traffic->tile[1];
  if (traffic->partner < 0) {
    *divides = step.m % x == 0 && step.n % y == 0;
    return product_loops(step.m, step.k, step.n, x, y);
  }
  assert_int_equal(mmc_plan_step(plan, traffic->partner, &inner), MMC_OK);
  bool left = traffic->fusion == MMC_FUSION_LEFT;
  assert_int_equal(left ? step.left : step.right, factors + traffic->partner);
  *divides = inner.m % x == 0 && inner.n % y == 0;
  const int64_t p[4] = {step.m, left ? inner.k : step.k, left ? step.k : inner.k, step.n};
  return left ? left_fuse_loops(p, x, y) : right_fuse_loops(p, x, y);
}

static int check_steps(const mmc_plan *plan, const mmc_chain *chain, int64_t on_chip_words) {
  int divided = 0;
  int64_t total = 0, count = mmc_plan_step_count(plan);
  for (int64_t s = 0; s < count; s++) {
    mmc_step step;
    mmc_step_traffic traffic;
    assert_int_equal(mmc_plan_step(plan, s, &step), MMC_OK);
    assert_int_equal(mmc_plan_step_traffic(plan, s, &traffic), MMC_OK);
    int64_t words = words_of(traffic.words);
    total += words;
    assert_true(traffic.tile[0] >= 1 && traffic.tile[1] >= 1);
    assert_true(traffic.tile[0] * traffic.tile[1] <= on_chip_words);
    if (traffic.partner >= 0) { /* partners agree */
      mmc_step_traffic partner;
      assert_int_equal(mmc_plan_step_traffic(plan, traffic.partner, &partner), MMC_OK);
      assert_int_equal(partner.partner, s);
      assert_int_equal(partner.fusion, traffic.fusion);
      assert_memory_equal(partner.tile, traffic.tile, sizeof traffic.tile);
    } else {
      assert_int_equal(traffic.fusion, MMC_FUSION_NONE);
    }
    if (traffic.partner > s) {
      assert_int_equal(words, 0);
      continue;
    }
    bool divides;
    int64_t loops =
        step.m * step.n + run_loops(plan, mmc_chain_length(chain), s, &traffic, &divides);
    if (divides ? words != loops : words > loops)
      fail_msg("step %lld: %lld words, the loops %lld", (long long)s, (long long)words,
               (long long)loops);
    divided += divides;
  }
  assert_int_equal(words_of(mmc_plan_traffic_words(plan)), total);
  return divided;
}

static void steps_move_what_the_loops_move(void **state) {
  uint64_t random = seed;
  static const char *const fuses[] = {"none", "exact", "joint"};
  static const char *const solvers[] = {"auto", "left-to-right", "auto"};
  int divided = 0, fused = 0;
  for (int round = 0; round < 3000; round++) {
    int64_t n = 1 + random_below(&random, 8), dims[9], m = 1 + random_below(&random, 100);
    for (int64_t i = 0; i <= n; i++) dims[i] = 1 + random_below(&random, 20);
    mmc_chain *chain;
    assert_int_equal(mmc_chain_create(*state, MMC_F32, n, dims, NULL, &chain), MMC_OK);
    mmc_plan *plan = plan_chain(*state, chain, solvers[round % 3], fuses[round % 3], m);
    divided += check_steps(plan, chain, m);
    for (int64_t s = 0; s < n - 1; s++) {
      mmc_step_traffic traffic;
      assert_int_equal(mmc_plan_step_traffic(plan, s, &traffic), MMC_OK);
      fused += traffic.partner > s;
    }
    mmc_plan_destroy(plan);
    mmc_chain_destroy(chain);
  }
  assert_true(divided > 1000 && fused > 1000);
}

/* ---- execution ----------------------------------------------------------------------------- */

/* Fused in the cost only: the product is that of any order. */
static void such_plans_multiply(void **state) {
  static const char *const fuses[] = {"none", "poster", "exact", "joint"};
  uint64_t random = seed + 1;
  mmc_chain *chain;
  const char *text = "f64:7x9x3x8x4x6x5";
  assert_int_equal(mmc_chain_parse(*state, text, &chain), MMC_OK);
  const int64_t *dims = mmc_chain_dims(chain);
  double numbers[6][81], expected[63], left[63], out[35];
  mmc_matrix factors[6];
  for (int i = 0; i < 6; i++) {
    for (int e = 0; e < 81; e++) numbers[i][e] = random_unit(&random);
    factors[i] = (mmc_matrix){.data = numbers[i], .rows = dims[i], .cols = dims[i + 1]};
  }
  memcpy(expected, numbers[0], sizeof expected);
  for (int i = 1; i < 6; i++) {
    memcpy(left, expected, sizeof left);
    for (int64_t r = 0; r < 7; r++)
      for (int64_t c = 0; c < dims[i + 1]; c++) {
        double sum = 0;
        for (int64_t k = 0; k < dims[i]; k++)
          sum += left[r * dims[i] + k] * numbers[i][k * dims[i + 1] + c];
        expected[r * dims[i + 1] + c] = sum;
      }
  }
  for (int f = 0; f < 4; f++) {
    mmc_plan *plan = plan_chain(*state, chain, NULL, fuses[f], 20);
    mmc_run *run;
    assert_int_equal(mmc_run_create(plan, &run), MMC_OK);
    mmc_matrix result = {.data = out, .rows = 7, .cols = 5};
    assert_int_equal(mmc_execute(run, factors, &result), MMC_OK);
    for (int e = 0; e < 35; e++) {
      double error = fabs(out[e] - expected[e]);
      if (!(error <= 1e-12)) fail_msg("%s: off by %g", fuses[f], error);
    }
    mmc_run_destroy(run);
    mmc_plan_destroy(plan);
  }
  mmc_chain_destroy(chain);
}

/* ---- options ------------------------------------------------------------------------------- */

static void expect_failure(mmc_context *context, const char *text, mmc_plan_options options,
                           mmc_status status, const char *message) {
  mmc_chain *chain;
  char got[512];
  assert_int_equal(mmc_chain_parse(context, text, &chain), MMC_OK);
  mmc_plan *plan = (mmc_plan *)got;
  assert_int_equal(mmc_plan_create(context, chain, &options, &plan), status);
  assert_ptr_equal(plan, got);
  assert_string_equal(mmc_context_message(context, got, sizeof got), message);
  mmc_chain_destroy(chain);
}

static void wrong_options_are_named(void **state) {
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = "joules";
  expect_failure(*state, "2x3x4", options, MMC_E_ARG,
                 "objective: expected flops, traffic, time or energy, got 'joules'");
  options.objective = "flops";
  options.fuse = "exact";
  expect_failure(*state, "2x3x4", options, MMC_E_ARG, "fuse: expected objective traffic with it");
  options.fuse = NULL;
  options.on_chip_words = 5;
  expect_failure(*state, "2x3x4", options, MMC_E_ARG,
                 "on_chip_words: expected objective traffic with it");
  options.objective = "traffic";
  options.on_chip_words = -1;
  expect_failure(*state, "2x3x4", options, MMC_E_ARG,
                 "on_chip_words: expected 1 to 2^62 words, or 0 for 65536, got -1");
  options.on_chip_words = 0;
  options.fuse = "both";
  expect_failure(*state, "2x3x4", options, MMC_E_ARG,
                 "fuse: expected none, poster, exact or joint, got 'both'");
  options.fuse = "joint";
  options.solver = "table";
  expect_failure(*state, "2x3x4", options, MMC_E_ARG,
                 "solver: expected auto with fuse joint, got 'table'");
  options.solver = NULL;
  options.memory_limit_bytes = 100;
  mmc_device_info blas; /* the loops of ref, without it, need no workspace */
  assert_int_equal(mmc_device_describe(*state, 0, &blas), MMC_OK);
  if (blas.available)
    expect_failure(
        *state, "5120x20x400x30", options, MMC_E_MEMORY_LIMIT,
        "memory limit: the order of least traffic needs 4800 bytes of workspace, got 100; "
        "fuse 'exact' looks for orders that fit");
  options.memory_limit_bytes = MMC_NO_LIMIT;
  options.on_chip_words = 1; /* 2^127 multiplications, and twice as many words */
  expect_failure(*state, "4611686018427387904x8x4611686018427387904", options, MMC_E_OVERFLOW,
                 "dims: the words moved do not fit 128 bits");
}

static void joint_plans_have_a_limit(void **state) {
  char text[2048] = "2";
  for (int i = 0; i < 200; i++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "x%d", 1 + i * 7 % 50);
  }
  mmc_plan *plan = plan_text(*state, text, "joint", 100);
  assert_int_equal(mmc_plan_step_count(plan), 199);
  mmc_plan_destroy(plan);
  strncat(text, "x3", sizeof text - strlen(text) - 1);
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = "traffic";
  options.fuse = "joint";
  expect_failure(*state, text, options, MMC_E_ARG,
                 "fuse: 'joint' takes at most 200 factors, got 201");
}

static void a_plan_for_flops_has_no_traffic(void **state) {
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_step_traffic traffic;
  assert_int_equal(mmc_chain_parse(*state, "2x3x4", &chain), MMC_OK);
  assert_int_equal(mmc_plan_create(*state, chain, NULL, &plan), MMC_OK);
  assert_int_equal(mmc_plan_traffic_words(plan).lo, 0);
  assert_int_equal(mmc_plan_step_traffic(plan, 0, &traffic), MMC_E_ARG);
  mmc_plan_destroy(plan);
  plan = plan_chain(*state, chain, NULL, NULL, 0);
  assert_int_equal(mmc_plan_step_traffic(plan, 0, &traffic), MMC_OK);
  assert_int_equal(mmc_plan_step_traffic(plan, 1, &traffic), MMC_E_ARG);
  assert_int_equal(mmc_plan_step_traffic(plan, -1, &traffic), MMC_E_ARG);
  assert_int_equal(mmc_plan_step_traffic(NULL, 0, &traffic), MMC_E_ARG);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
}

#ifdef GOLDEN_MODULES

static int collect(void *user, const char *bytes, size_t size) {
  char *text = user;
  strncat(text, bytes, size);
  return 0;
}

/* What is said about the pairs says what the device does with them. */
static void pairs_are_told_by_device(void **state) {
  (void)state;
  static const char pair[] = "f32:10x30x5x60", wide[] = "f32:5120x20x400x30",
                    several[] = "f32:20x20x20x20x4096x16x4096x16",
                    narrow[] = "f32:20x20x20x20x128x16x128x16";
  static const struct {
    const char *device, *chain, *expected;
  } cases[] = {
      {"ref", pair, "1 pair of steps, executed in one call\n"},
      {"ref", narrow, "3 pairs of steps, each executed in one call\n"},
      {"ref", several,
       "3 pairs of steps, 1 executed in one call, 2 fused in the cost only: device ref takes none "
       "of them as one call\n"},
      {"blas", wide,
       "1 pair of steps, fused in the cost only: device blas takes no such pair as one call\n"},
      {"blas", several,
       "3 pairs of steps, 1 executed in one call, 2 fused in the cost only: device blas takes none "
       "of them as one call\n"},
      {"cuda:0", pair, "1 pair of steps, executed in one call\n"},
      {"cuda:0", several,
       "3 pairs of steps, 1 executed in one call, 2 fused in the cost only: not predicted to be "
       "faster as one call\n"},
      {"cuda:1", wide, "1 pair of steps, fused in the cost only: the plan is streamed\n"},
      {"cuda:2", pair,
       "1 pair of steps, fused in the cost only: device cuda:2 takes no such pair as one call\n"},
      {"cuda:2", several,
       "3 pairs of steps, fused in the cost only: device cuda:2 takes none of them as one call\n"},
  };
  mmc_context_options modules = MMC_CONTEXT_OPTIONS_INIT;
  mmc_context *context;
  modules.module_dir = GOLDEN_MODULES;
  assert_int_equal(mmc_context_create(&modules, &context), MMC_OK);
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    mmc_chain *chain;
    mmc_plan *plan;
    mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
    options.objective = "traffic";
    options.on_chip_words = 5000;
    options.device = cases[c].device;
    assert_int_equal(mmc_chain_parse(context, cases[c].chain, &chain), MMC_OK);
    assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_OK);
    char *text = calloc(1, 1 << 16), *line;
    assert_int_equal(mmc_plan_explain(plan, MMC_TEXT, collect, text), MMC_OK);
    line = strstr(text, "fusion           exact: ");
    assert_non_null(line);
    line += strlen("fusion           exact: ");
    line[strcspn(line, "\n") + 1] = '\0';
    assert_string_equal(line, cases[c].expected);
    free(text);
    mmc_plan_destroy(plan);
    mmc_chain_destroy(chain);
  }
  mmc_context_destroy(context);
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {
#ifdef GOLDEN_MODULES
      cmocka_unit_test(pairs_are_told_by_device),
#endif
      cmocka_unit_test_setup_teardown(the_posters_table, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_table_with_a_true_mirror_image, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_printed_last_size_is_wrong, set_up, tear_down),
      cmocka_unit_test_setup_teardown(steps_move_what_the_loops_move, set_up, tear_down),
      cmocka_unit_test_setup_teardown(such_plans_multiply, set_up, tear_down),
      cmocka_unit_test_setup_teardown(wrong_options_are_named, set_up, tear_down),
      cmocka_unit_test_setup_teardown(joint_plans_have_a_limit, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_plan_for_flops_has_no_traffic, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
