/* test_plan.c: a plan's steps, where its intermediates lie, and how it fits a device's memory. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../how_many.h"
#include "../random.h"
#include "order/workspace.h"
#include "plan/layout.h"
#include "plan/panels.h"
#include "plan/plan.h"
#include "planner/fewest.h"
#include "planner/fit.h"
#include "planner/traffic_fusion.h"

static const uint64_t seed = 99;

static mmci_plan make_plan(const char *text, uint64_t limit_bytes) {
  mmc_chain *chain;
  mmci_plan plan;
  mmci_error error;
  assert_int_equal(mmci_chain_parse(text, &chain, &error), MMC_OK);
  if (mmci_plan_create(chain, "auto", mmci_within(limit_bytes), &plan, &error) != MMC_OK)
    fail_msg("%s", error.text);
  mmc_chain_destroy(chain);
  return plan;
}

static void steps_follow_the_order(void **state) {
  (void)state;
  mmci_plan plan = make_plan("f64:30x35x15x5x10x20x25", UINT64_MAX);
  static const struct {
    int64_t m, k, n;
    int32_t left, right, first, last;
  } expected[] = {
      {35, 15, 5, 1, 2, 1, 2}, {30, 35, 5, 0, 6, 0, 2}, {5, 10, 20, 3, 4, 3, 4},
      {5, 20, 25, 8, 5, 3, 5}, {30, 5, 25, 7, 9, 0, 5},
  };
  for (int s = 0; s < 5; s++) {
    assert_int_equal(plan.steps[s].m, expected[s].m);
    assert_int_equal(plan.steps[s].k, expected[s].k);
    assert_int_equal(plan.steps[s].n, expected[s].n);
    assert_int_equal(plan.steps[s].left, expected[s].left);
    assert_int_equal(plan.steps[s].right, expected[s].right);
    assert_int_equal(plan.steps[s].first, expected[s].first);
    assert_int_equal(plan.steps[s].last, expected[s].last);
  }
  /* T2 30x5, T3 5x20 and T4 5x25 live together: 1216 + 832 + 1024 bytes. */
  assert_int_equal(plan.workspace_bytes, 3072);
  mmci_plan_destroy(&plan);
}

/* Follows every result from the step that writes it to the one that reads it: in bounds, aligned,
 * apart from all that live with it, read once; and at some step the workspace is full. */
static void check_lifetimes(const mmci_plan *plan) {
  int32_t n = plan->chain->n;
  uint64_t begin[64], end[64], most = 0;
  bool alive[64] = {false}, factor_read[64] = {false};
  for (int32_t s = 0; s < n - 1; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    begin[s] = step->offset_bytes;
    end[s] = begin[s] + mmci_result_bytes(step->m, step->n, mmc_dtype_size(plan->chain->dtype));
    bool last = s == n - 2;
    uint64_t live = last ? 0 : end[s] - begin[s];
    for (int32_t t = 0; t < s; t++) {
      if (!alive[t]) continue;
      live += end[t] - begin[t];
      assert_true(last || end[t] <= begin[s] || end[s] <= begin[t]);
    }
    if (live > most) most = live;
    assert_true(last || end[s] <= plan->workspace_bytes);
    assert_int_equal(begin[s] % 64, 0);
    int32_t operands[] = {step->left, step->right};
    for (int o = 0; o < 2; o++) {
      bool *unread = operands[o] < n ? &factor_read[operands[o]] : &alive[operands[o] - n];
      assert_true(operands[o] < n + s);
      assert_true(*unread == (operands[o] >= n));
      *unread = operands[o] < n;
    }
    alive[s] = true;
  }
  for (int32_t i = 0; i < n && n > 1; i++) assert_true(factor_read[i]);
  assert_true(most == plan->workspace_bytes);
}

static void results_never_collide(void **state) {
  (void)state;
  uint64_t random = seed;
  for (int round = 0; round < 20000; round++) {
    int64_t dims[48];
    int32_t n = 1 + (int32_t)random_below(&random, 40);
    random_dims(&random, round % 12, n, dims);
    mmc_chain *chain;
    mmci_plan plan;
    mmci_error error;
    assert_int_equal(mmci_chain_create((mmc_dtype)(round % 4), n, dims, NULL, &chain, &error),
                     MMC_OK);
    const char *solver = round % 3 == 0 ? "left-to-right" : "hu-shing";
    assert_int_equal(mmci_plan_create(chain, solver, mmci_within(UINT64_MAX), &plan, &error),
                     MMC_OK);
    check_lifetimes(&plan);
    if (n <= 12 && plan.workspace_bytes > 64) {
      mmci_plan smaller;
      uint64_t limit = plan.workspace_bytes - 64;
      if (mmci_plan_create(chain, solver, mmci_within(limit), &smaller, &error) == MMC_OK) {
        assert_true(smaller.workspace_bytes <= limit);
        assert_true(smaller.limited);
        check_lifetimes(&smaller);
        mmci_plan_destroy(&smaller);
      }
    }
    mmci_plan_destroy(&plan);
    mmc_chain_destroy(chain);
  }
}

static void memory_limits_are_kept(void **state) {
  (void)state;
  mmci_plan plan = make_plan("f64:28x6x13x5x15", 1408);
  assert_false(plan.limited);
  assert_true(plan.multiplications == 3330);
  mmci_plan_destroy(&plan);
  plan = make_plan("f64:28x6x13x5x15", 1407);
  assert_true(plan.limited);
  assert_true(plan.multiplications == 3360 && plan.workspace_bytes == 1024);
  assert_true(plan.unlimited_multiplications == 3330 && plan.unlimited_bytes == 1408);
  mmci_plan_destroy(&plan);

  mmc_chain *chain;
  mmci_error error;
  assert_int_equal(mmci_chain_parse("f64:28x6x13x5x15", &chain, &error), MMC_OK);
  assert_int_equal(mmci_plan_create(chain, "auto", mmci_within(1), &plan, &error),
                   MMC_E_MEMORY_LIMIT);
  assert_string_equal(error.text,
                      "memory limit: no order fits in 1 bytes of workspace; the leanest needs "
                      "1024, the cheapest 1408");
  mmc_chain_destroy(chain);
}

/* A chain that many orders suit, and a limit that some of them keep. */
static mmc_chain *long_chain(int32_t n, int64_t least, int64_t most) {
  uint64_t random = seed + 5;
  int64_t dims[1001];
  for (int32_t i = 0; i <= n; i++) dims[i] = least + random_below(&random, most - least);
  mmc_chain *chain;
  mmci_error error;
  assert_int_equal(mmci_chain_create(MMC_F64, n, dims, NULL, &chain, &error), MMC_OK);
  return chain;
}

typedef struct asked {
  int times, stop_at;
  double done;
} asked;

static int count_up(void *user, double done) {
  asked *a = user;
  assert_true(done >= a->done && done <= 1);
  a->done = done;
  return ++a->times == a->stop_at;
}

/* Factors of about 100 rows: of 300, the cheapest order takes 359488 bytes or so, the leanest half.
 */
static void planning_within_a_limit_is_interrupted(void **state) {
  (void)state;
  mmc_chain *chain = long_chain(how_many(200, 300), 90, 110);
  mmci_plan plan;
  mmci_error error;
  assert_int_equal(mmci_plan_create(chain, "auto", mmci_within(UINT64_MAX), &plan, &error), MMC_OK);
  mmci_bounds bounds = mmci_within(plan.workspace_bytes - 64);
  mmci_u128 fewest = plan.multiplications;
  mmci_plan_destroy(&plan);
  asked all = {0};
  bounds.progress = count_up;
  bounds.progress_user = &all;
  assert_int_equal(mmci_plan_create(chain, "auto", bounds, &plan, &error), MMC_OK);
  assert_true(plan.limited && plan.workspace_bytes <= bounds.limit_bytes);
  assert_true(plan.multiplications >= fewest && plan.multiplications < fewest + fewest / 10);
  mmci_plan_destroy(&plan);
  assert_true(all.times > 2);
  for (int stop = 1; stop <= all.times; stop += 1 + all.times / 4) {
    asked some = {.stop_at = stop};
    bounds.progress_user = &some;
    assert_int_equal(mmci_plan_create(chain, "auto", bounds, &plan, &error), MMC_E_INTERRUPTED);
    assert_int_equal(some.times, stop);
  }
  mmc_chain_destroy(chain);
}

typedef mmc_status planning(const mmc_chain *chain, mmci_bounds bounds, mmci_plan *out,
                            mmci_error *error);

static mmc_status plan_with_repeats(const mmc_chain *chain, mmci_bounds bounds, mmci_plan *out,
                                    mmci_error *error) {
  return mmci_plan_create(chain, "auto", bounds, out, error);
}

static mmc_status plan_joint(const mmc_chain *chain, mmci_bounds bounds, mmci_plan *out,
                             mmci_error *error) {
  return mmci_plan_create_joint(chain, 100, bounds, out, error);
}

/* The callback is asked more than twice, and each of five answers of it ends the search. */
static void expect_interruptions(const mmc_chain *chain, planning *plan_it) {
  mmci_plan plan;
  mmci_error error;
  asked all = {0};
  mmci_bounds bounds = mmci_within(UINT64_MAX);
  bounds.progress = count_up;
  bounds.progress_user = &all;
  assert_int_equal(plan_it(chain, bounds, &plan, &error), MMC_OK);
  mmci_plan_destroy(&plan);
  assert_true(all.times > 2);
  for (int stop = 1; stop <= all.times; stop += 1 + all.times / 4) {
    asked some = {.stop_at = stop};
    bounds.progress_user = &some;
    assert_int_equal(plan_it(chain, bounds, &plan, &error), MMC_E_INTERRUPTED);
    assert_int_equal(some.times, stop);
  }
}

static void searches_without_a_limit_are_interrupted(void **state) {
  (void)state;
  mmc_chain *chain;
  mmci_error error;
  assert_int_equal(mmci_chain_parse("f64:8x8^30000", &chain, &error), MMC_OK);
  expect_interruptions(chain, plan_with_repeats);
  mmc_chain_destroy(chain);
  chain = long_chain(MMCI_JOINT_MOST_FACTORS / 2, 10, 1000);
  expect_interruptions(chain, plan_joint);
  mmc_chain_destroy(chain);
}

static void absurd_sizes_are_errors(void **state) {
  (void)state;
  mmc_chain *chain;
  mmci_plan plan;
  mmci_error error;
  assert_int_equal(mmci_chain_parse("f64:4000000000x1x4000000000x4000000000x1", &chain, &error),
                   MMC_OK);
  assert_int_equal(mmci_plan_create(chain, "left-to-right", mmci_within(UINT64_MAX), &plan, &error),
                   MMC_E_OVERFLOW);
  assert_int_equal(mmci_plan_create(chain, "auto", mmci_within(UINT64_MAX), &plan, &error), MMC_OK);
  mmci_plan_destroy(&plan);
  mmc_chain_destroy(chain);
}

/* ---- sub-trees side by side ------------------------------------------------------------------ */

static int32_t random_split(void *user, int32_t i, int32_t j) {
  return i + 1 + (int32_t)random_below(user, j - i - 1);
}

/* Any tree at all, laid out one step after the other. */
static mmci_plan random_plan(uint64_t *random, int family, int32_t n) {
  int64_t dims[64];
  mmc_chain *chain;
  mmci_tree tree;
  mmci_plan plan;
  mmci_error error;
  random_dims(random, family, n, dims);
  mmc_dtype dtype = (mmc_dtype)random_below(random, 6);
  assert_int_equal(mmci_chain_create(dtype, n, dims, NULL, &chain, &error), MMC_OK);
  assert_int_equal(mmci_tree_create(n, &tree, &error), MMC_OK);
  assert_int_equal(mmci_tree_from_splits(&tree, random_split, random, &error), MMC_OK);
  assert_int_equal(mmci_plan_from_tree(chain, &tree, &plan, &error), MMC_OK);
  mmc_chain_destroy(chain);
  return plan;
}

/* All that is known of the order of two steps is that operands are there before they are read. So
 * two results may share memory only if the step that reads the one comes before the step that
 * writes the other in every execution: it computes a part of what that one reads. */
static void check_parallel(const mmci_plan *plan) {
  int32_t n = plan->chain->n, reader[64];
  bool before[64][64] = {{false}}; /* [s][t]: s comes before t, always */
  uint64_t begin[64], end[64], most = 0;
  for (int32_t s = 0; s < n - 1; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    int32_t operands[] = {step->left, step->right};
    for (int o = 0; o < 2; o++) {
      int32_t t = operands[o] - n;
      if (t < 0) continue;
      assert_true(t < s);
      reader[t] = s;
      before[t][s] = true;
      for (int32_t u = 0; u < t; u++) before[u][s] = before[u][s] || before[u][t];
    }
    begin[s] = step->offset_bytes;
    end[s] = begin[s] + mmci_result_bytes(step->m, step->n, mmc_dtype_size(plan->chain->dtype));
    if (s == n - 2) continue;
    assert_true(end[s] <= plan->workspace_bytes && begin[s] % 64 == 0);
    if (end[s] > most) most = end[s];
  }
  assert_true(most == plan->workspace_bytes);
  for (int32_t s = 0; s < n - 2; s++)
    for (int32_t t = 0; t < s; t++)
      if (begin[s] < end[t] && begin[t] < end[s] && begin[s] < end[s] && begin[t] < end[t])
        assert_true(before[reader[s]][t] || before[reader[t]][s]);
}

static void parallel_results_never_collide(void **state) {
  (void)state;
  uint64_t random = seed + 1;
  for (int round = 0; round < 20000; round++) {
    mmci_error error;
    int32_t n = 1 + (int32_t)random_below(&random, 40);
    mmci_plan plan = random_plan(&random, round % 12, n);
    uint64_t serial = plan.workspace_bytes;
    assert_int_equal(mmci_plan_lay_out(&plan, true, &error), MMC_OK);
    assert_true(plan.parallel && serial <= plan.workspace_bytes);
    check_parallel(&plan);
    assert_int_equal(mmci_plan_lay_out(&plan, false, &error), MMC_OK);
    assert_true(!plan.parallel && serial == plan.workspace_bytes);
    check_lifetimes(&plan);
    mmci_plan_destroy(&plan);
  }
}

/* ---- a device's memory ----------------------------------------------------------------------- */

/* What fitting the plan anew gives. */
static mmc_status refit(mmci_plan *plan, int queues, uint64_t memory_bytes, bool staged,
                        uint64_t limit_bytes, mmci_error *error) {
  mmci_plan_machine machine = {.queues = queues, .memory_bytes = memory_bytes, .staged = staged};
  plan->streamed = false;
  assert_int_equal(mmci_plan_lay_out(plan, false, error), MMC_OK);
  return mmci_plan_fit(plan, &machine, limit_bytes, error);
}

static void expect_fit(mmci_plan *plan, int queues, uint64_t memory_bytes, bool staged,
                       uint64_t limit_bytes, bool parallel, uint64_t resident_bytes) {
  mmci_error error;
  assert_int_equal(refit(plan, queues, memory_bytes, staged, limit_bytes, &error), MMC_OK);
  assert_int_equal(plan->parallel, parallel);
  assert_false(plan->streamed);
  assert_true(plan->resident_bytes == resident_bytes);
  assert_true(plan->device_bytes == memory_bytes);
}

/* The most that a product needs in its smallest panels, and which. */
static uint64_t least_panels(const mmci_plan *plan, uint64_t budget_bytes, int32_t *first) {
  size_t size = mmc_dtype_size(plan->chain->dtype);
  uint64_t most = 0;
  *first = -1;
  for (int32_t s = 0; s < plan->chain->n - 1; s++) {
    const mmci_plan_step *x = &plan->steps[s];
    uint64_t bytes = 0;
    int64_t e[3] = {x->m, x->k, x->n};
    for (int i = 0; i < 3; i++)
      bytes += 2 * mmci_result_bytes(e[i] < 64 ? e[i] : 64,
                                     e[(i + 1) % 3] < 64 ? e[(i + 1) % 3] : 64, size);
    if (bytes > budget_bytes && *first < 0) *first = s;
    if (bytes > most) most = bytes;
  }
  return most;
}

static void expect_too_small(const mmci_plan *plan, const mmci_error *error, uint64_t bytes) {
  int32_t s;
  (void)least_panels(plan, bytes, &s);
  assert_true(s >= 0);
  const mmci_plan_step *x = &plan->steps[s];
  char start[160];
  uint64_t need = 0, may = 0, missing = 0;
  snprintf(start, sizeof start,
           "device memory: the smallest panels of a %" PRId64 "x%" PRId64 " by %" PRId64 "x%" PRId64
           " product need ",
           x->m, x->k, x->k, x->n);
  assert_memory_equal(error->text, start, strlen(start));
  assert_int_equal(sscanf(error->text + strlen(start),
                          "%" SCNu64 " bytes; %" SCNu64 " may be used, %" SCNu64 " are missing",
                          &need, &may, &missing),
                   3);
  assert_true(may == bytes && need == may + missing && missing > 0);
}

static void plans_fit_to_the_byte(void **state) {
  (void)state;
  uint64_t random = seed + 2;
  for (int round = 0; round < 3000; round++) {
    mmci_error error;
    mmci_plan plan = random_plan(&random, round % 12, 2 + (int32_t)random_below(&random, 11));
    size_t size = mmc_dtype_size(plan.chain->dtype);
    bool staged = random_below(&random, 2) == 0;
    uint64_t outside = 0, serial = plan.workspace_bytes;
    const int64_t *dims = plan.chain->dims;
    if (staged) outside = mmci_result_bytes(dims[0], dims[plan.chain->n], size);
    for (int32_t i = 0; i < plan.chain->n && staged; i++)
      outside += mmci_result_bytes(dims[i], dims[i + 1], size);
    assert_int_equal(mmci_plan_lay_out(&plan, true, &error), MMC_OK);
    uint64_t parallel = plan.workspace_bytes, all = UINT64_MAX;

    expect_fit(&plan, 2, outside + parallel, staged, all, true, outside + parallel);
    expect_fit(&plan, 2, all, staged, parallel, true, outside + parallel);
    expect_fit(&plan, 1, all, staged, all, false, outside + serial);
    if (parallel > serial) {
      expect_fit(&plan, 2, outside + parallel - 1, staged, all, false, outside + serial);
      expect_fit(&plan, 2, all, staged, parallel - 1, false, outside + serial);
    }
    expect_fit(&plan, 1, outside + serial, staged, all, false, outside + serial);

    int32_t first;
    uint64_t resident = outside + serial, least = least_panels(&plan, 0, &first);
    if (resident > 0 && least <= resident - 1) {
      assert_int_equal(refit(&plan, 4, resident - 1, staged, all, &error), MMC_OK);
      assert_true(plan.streamed && !plan.parallel && plan.workspace_bytes == serial);
      assert_int_equal(refit(&plan, 4, least, staged, all, &error), MMC_OK);
      assert_true(plan.streamed);
    }
    if (least > 0 && least - 1 < resident) {
      assert_int_equal(refit(&plan, 4, least - 1, staged, all, &error), MMC_E_MEMORY_LIMIT);
      expect_too_small(&plan, &error, least - 1);
    }
    mmci_plan_destroy(&plan);
  }
}

/* A single factor needs no panels, however little there is. */
static void one_factor_always_fits(void **state) {
  (void)state;
  uint64_t random = seed + 3;
  mmci_error error;
  mmci_plan plan = random_plan(&random, 0, 1);
  for (int queues = 1; queues < 3; queues++) {
    assert_int_equal(refit(&plan, queues, 0, true, UINT64_MAX, &error), MMC_OK);
    assert_false(plan.streamed);
  }
  mmci_plan_destroy(&plan);
}

/* ---- panels ---------------------------------------------------------------------------------- */

static mmci_u128 rounded_bytes(int64_t rows, int64_t cols, size_t size) {
  return ((mmci_u128)(uint64_t)rows * (uint64_t)cols * size + 63) / 64 * 64;
}

/* Whole where that fits, else of whole tiles; never nothing of something. */
static void check_edge(int64_t panel, int64_t edge) {
  assert_true(panel == edge || (panel < edge && panel > 0 && panel % 64 == 0));
}

static void check_panels(int64_t m, int64_t k, int64_t n, size_t size, uint64_t budget_bytes) {
  mmci_panels p, mirrored;
  bool fits = mmci_panels_choose(m, k, n, size, false, budget_bytes, &p);
  uint64_t bytes = mmci_panels_bytes(&p, size);
  mmci_u128 exact = 2 * (rounded_bytes(p.m, p.k, size) + rounded_bytes(p.k, p.n, size) +
                         rounded_bytes(p.m, p.n, size));
  if (bytes != UINT64_MAX) assert_true(bytes == exact);
  check_edge(p.m, m);
  check_edge(p.k, k);
  check_edge(p.n, n);
  assert_true(fits == (bytes <= budget_bytes));
  if (!fits) assert_true(p.m <= 64 && p.k <= 64 && p.n <= 64);
  mmci_panels whole = {m, k, n};
  if (mmci_panels_bytes(&whole, size) <= budget_bytes)
    assert_true(p.m == m && p.k == k && p.n == n);
  /* The transposed product of a result by columns takes the same room. */
  assert_true(mmci_panels_choose(n, k, m, size, false, budget_bytes, &mirrored) == fits);
  assert_true(mmci_panels_bytes(&mirrored, size) == bytes);
  mmci_panels long_sums;
  fits = mmci_panels_choose(m, k, n, size, true, budget_bytes, &long_sums);
  assert_true(long_sums.k == k);
  assert_true(fits == (mmci_panels_bytes(&long_sums, size) <= budget_bytes));
  if (!fits) assert_true(long_sums.m <= 64 && long_sums.n <= 64);
}

/* Sums of long products are never cut, nor are those of 16 bits and of whole numbers. */
static void reproducible_sums_keep_k(void **state) {
  (void)state;
  static const struct {
    mmc_dtype dtype;
    const char *precision;
    int64_t m, k, n;
    bool keeps;
  } cases[] = {{MMC_F64, "reproducible", 64, 4096, 64, true},
               {MMC_F64, "reproducible", 64, 4095, 64, false},
               {MMC_F64, "native", 64, 4096, 64, false},
               {MMC_F64, "reproducible", 3000, 4096, 3000, false},
               {MMC_F32, "reproducible+faithful", 3000, 4096, 3000, true},
               {MMC_F32, "reproducible+faithful", 300, 400, 300, false},
               {MMC_BF16, "reproducible", 3000, 40, 3000, true},
               {MMC_BF16, "native", 3000, 40, 3000, false}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    mmc_chain chain = {.dtype = cases[c].dtype};
    const mmci_plan plan = {.chain = &chain, .precision = cases[c].precision};
    assert_true(mmci_plan_keeps_k(&plan, cases[c].m, cases[c].k, cases[c].n) == cases[c].keeps);
  }
}

static void panels_fit_and_cover(void **state) {
  (void)state;
  uint64_t random = seed + 4;
  static const size_t sizes[] = {2, 4, 8, 16};
  for (int round = 0; round < 100000; round++) {
    int64_t edges[3];
    for (int i = 0; i < 3; i++) {
      edges[i] = random_below(&random, INT64_C(1) << random_below(&random, 63));
      if (random_below(&random, 10) == 0) edges[i] = MMCI_MAX_DIM;
      if (random_below(&random, 10) == 0) edges[i] = 64 * random_below(&random, 4);
      if (i > 0 && random_below(&random, 5) == 0) edges[i] = edges[0];
    }
    uint64_t budget = random_bits(&random) >> random_below(&random, 64);
    check_panels(edges[0], edges[1], edges[2], sizes[round % 4], budget - (budget == UINT64_MAX));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_follow_the_order),
      cmocka_unit_test(results_never_collide),
      cmocka_unit_test(memory_limits_are_kept),
      cmocka_unit_test(absurd_sizes_are_errors),
      cmocka_unit_test(planning_within_a_limit_is_interrupted),
      cmocka_unit_test(searches_without_a_limit_are_interrupted),
      cmocka_unit_test(parallel_results_never_collide),
      cmocka_unit_test(plans_fit_to_the_byte),
      cmocka_unit_test(one_factor_always_fits),
      cmocka_unit_test(panels_fit_and_cover),
      cmocka_unit_test(reproducible_sums_keep_k),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
