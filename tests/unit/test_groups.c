/* test_groups.c: which steps run as one call, what that is thought to take, where the other results
 * lie, and wide trees. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "../random_groups.h"
#include "base/alloc.h"
#include "device/cuda/facts.h"
#include "planner/fewest.h"
#include "planner/time_order.h"
#include "planner/traffic_fusion.h"

static const uint64_t first_seed = 4100;

/* ---- plans ----------------------------------------------------------------------------------- */

static int32_t random_split(void *user, int32_t i, int32_t j) {
  return i + 1 + (int32_t)random_below(user, j - i - 1);
}

static mmci_plan plan_of(uint64_t *random, int32_t n, const int64_t *dims) {
  mmc_chain *chain;
  mmci_tree tree;
  mmci_plan plan;
  mmci_error error;
  assert_int_equal(mmci_chain_create(MMC_F32, n, dims, NULL, &chain, &error), MMC_OK);
  assert_int_equal(mmci_tree_create(n, &tree, &error), MMC_OK);
  assert_int_equal(mmci_tree_from_splits(&tree, random_split, random, &error), MMC_OK);
  assert_int_equal(mmci_plan_from_tree(chain, &tree, &plan, &error), MMC_OK);
  mmc_chain_destroy(chain);
  return plan;
}

static mmci_plan random_plan(uint64_t *random, int32_t most, int64_t most_dim) {
  int32_t n = 3 + (int32_t)random_below(random, most - 2);
  int64_t dims[64];
  for (int32_t i = 0; i <= n; i++)
    dims[i] = random_below(random, 12) == 0 ? 0 : 1 + random_below(random, most_dim);
  return plan_of(random, n, dims);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* The step whose call step s is in. */
static int32_t call_of(const mmci_plan *plan, int32_t s) {
  int32_t group = plan->steps[s].group;
  if (group < 0) return s;
  return plan->groups[group].steps[plan->groups[group].step_count - 1];
}

/* Says whether step s, or a step of its group, reads the result of step t. */
static bool reads(const mmci_plan *plan, int32_t s, int32_t t) {
  int32_t number = plan->chain->n + t;
  for (int32_t x = 0; x < plan->step_count; x++)
    if (call_of(plan, x) == s && call_of(plan, t) != s &&
        (plan->steps[x].left == number || plan->steps[x].right == number))
      return true;
  return false;
}

/* Says whether the call of step s waits for that of step t, by what it reads. */
static bool waits(const mmci_plan *plan, int32_t s, int32_t t) {
  for (int32_t x = 0; x < s; x++)
    if (call_of(plan, x) == x && reads(plan, s, x) && (x == t || waits(plan, x, t))) return true;
  return false;
}

/* Says whether the result of step a may not be overwritten by that of a later step b. */
static bool collide(const mmci_plan *plan, int32_t a, int32_t b) {
  for (int32_t r = a + 1; r < plan->step_count; r++) {
    if (call_of(plan, r) != r || !reads(plan, r, a)) continue;
    if (plan->parallel ? !waits(plan, b, r) : r >= b) return true;
  }
  return false;
}

static uint64_t bytes_of(const mmci_plan *plan, int32_t s) {
  return mmci_result_bytes(plan->steps[s].m, plan->steps[s].n, 4);
}

static void check_places(const mmci_plan *plan, uint64_t seed) {
  for (int32_t b = 0; b < plan->step_count - 1; b++) {
    if (call_of(plan, b) != b) continue;
    uint64_t b_begin = plan->steps[b].offset_bytes, b_end = b_begin + bytes_of(plan, b);
    if (b_begin == b_end) continue;
    if (b_end > plan->workspace_bytes || b_begin % MMCI_ALIGNMENT != 0)
      fail_msg("seed %" PRIu64 ": T%d lies outside", seed, b + 1);
    for (int32_t a = 0; a < b; a++) {
      uint64_t a_begin = plan->steps[a].offset_bytes, a_end = a_begin + bytes_of(plan, a);
      if (call_of(plan, a) != a || a_begin == a_end || a_end <= b_begin || b_end <= a_begin)
        continue;
      if (collide(plan, a, b))
        fail_msg("seed %" PRIu64 ": T%d and T%d overlap", seed, a + 1, b + 1);
    }
  }
}

enum { MOST_PLACED = 6 };

/* The least workspace: some order of placing each result as low as it can lie is the best. */
static void least_bytes(const mmci_plan *plan, const int32_t *steps, int count, uint64_t *offsets,
                        bool *used, int placed, uint64_t bytes, uint64_t *least) {
  if (placed == count && bytes < *least) *least = bytes;
  for (int i = 0; i < count; i++) {
    if (used[i]) continue;
    uint64_t size = bytes_of(plan, steps[i]), at = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (int j = 0; j < count; j++) {
        if (!used[j]) continue;
        int32_t a = steps[i] < steps[j] ? steps[i] : steps[j];
        int32_t b = steps[i] < steps[j] ? steps[j] : steps[i];
        uint64_t end = offsets[j] + bytes_of(plan, steps[j]);
        if (at < end && offsets[j] < at + size && collide(plan, a, b)) {
          at = end;
          moved = true;
        }
      }
    }
    used[i] = true;
    offsets[i] = at;
    least_bytes(plan, steps, count, offsets, used, placed + 1,
                at + size > bytes ? at + size : bytes, least);
    used[i] = false;
  }
}

static void results_lie_apart_in_little_room(void **state) {
  (void)state;
  int tried = 0, best = 0;
  for (uint64_t seed = first_seed; seed < first_seed + 1500; seed++) {
    uint64_t random = seed;
    mmci_error error;
    bool shares = seed % 3 == 0, small = seed % 2 == 0;
    int64_t square[64];
    int32_t n = 3 + (int32_t)random_below(&random, small ? 7 : 20);
    for (int32_t i = 0; i <= n; i++) square[i] = 8;
    mmci_plan plan =
        shares ? plan_of(&random, n, square) : random_plan(&random, small ? 9 : 24, 60);
    assert_int_equal(mmci_plan_lay_out(&plan, random_below(&random, 2) == 0, &error), MMC_OK);
    if (shares) share_results(&random, &plan);
    group_at_random(&random, &plan);
    check_places(&plan, seed);
    int32_t steps[64];
    int count = 0;
    for (int32_t s = 0; s < plan.step_count - 1; s++)
      if (call_of(&plan, s) == s && bytes_of(&plan, s) > 0) steps[count++] = s;
    if (count <= MOST_PLACED) {
      uint64_t offsets[MOST_PLACED], least = UINT64_MAX;
      bool used[MOST_PLACED] = {false};
      least_bytes(&plan, steps, count, offsets, used, 0, 0, &least);
      if (plan.workspace_bytes < least || 2 * plan.workspace_bytes > 3 * least)
        fail_msg("seed %" PRIu64 ": %" PRIu64 " bytes, %" PRIu64 " would do", seed,
                 plan.workspace_bytes, least);
      tried++;
      best += plan.workspace_bytes == least;
    }
    mmci_plan_destroy(&plan);
  }
  assert_true(tried > 400);
  if (best < tried * 95 / 100) fail_msg("least in %d of %d", best, tried);
}

enum { MANY = 900 };

static int32_t last_split(void *user, int32_t i, int32_t j) {
  (void)user;
  (void)i;
  return j - 1;
}

/* A plan of `n` factors, whose sub-trees run side by side. */
static mmci_plan large_plan(uint64_t *random, int32_t n, int64_t most_dim, mmci_split_fn split) {
  mmc_chain *chain;
  mmci_tree tree;
  mmci_plan plan;
  mmci_error error;
  int64_t dims[MANY + 1];
  for (int32_t i = 0; i <= n; i++)
    dims[i] = random_below(random, 40) == 0 ? 0 : 1 + random_below(random, most_dim);
  assert_int_equal(mmci_chain_create(MMC_F32, n, dims, NULL, &chain, &error), MMC_OK);
  assert_int_equal(mmci_tree_create(n, &tree, &error), MMC_OK);
  assert_int_equal(mmci_tree_from_splits(&tree, split, random, &error), MMC_OK);
  assert_int_equal(mmci_plan_from_tree(chain, &tree, &plan, &error), MMC_OK);
  mmc_chain_destroy(chain);
  assert_int_equal(mmci_plan_lay_out(&plan, true, &error), MMC_OK);
  return plan;
}

/* As check_places(), of a tree: the call that reads a result must be below the call of another one
 * that lies at the same place. */
static void check_places_of_tree(const mmci_plan *plan, uint64_t seed) {
  static bool below[MANY][MANY]; /* whether the second call is below the first */
  int32_t reader[MANY], n = plan->chain->n;
  memset(below, 0, sizeof below);
  for (int32_t s = 0; s < plan->step_count; s++) {
    const int32_t own = call_of(plan, s), sides[] = {plan->steps[s].left, plan->steps[s].right};
    for (int side = 0; side < 2; side++) {
      const int32_t read = sides[side] - n;
      if (read < 0 || call_of(plan, read) == own) continue;
      reader[read] = own;
      below[own][read] = true;
      for (int32_t t = 0; t < read; t++) below[own][t] = below[own][t] || below[read][t];
    }
  }
  for (int32_t b = 0; b < plan->step_count - 1; b++) {
    uint64_t b_begin = plan->steps[b].offset_bytes, b_end = b_begin + bytes_of(plan, b);
    if (call_of(plan, b) != b || b_begin == b_end) continue;
    if (b_end > plan->workspace_bytes || b_begin % MMCI_ALIGNMENT != 0)
      fail_msg("seed %" PRIu64 ": T%d lies outside", seed, b + 1);
    for (int32_t a = 0; a < b; a++) {
      uint64_t a_begin = plan->steps[a].offset_bytes, a_end = a_begin + bytes_of(plan, a);
      if (call_of(plan, a) != a || a_end <= b_begin || b_end <= a_begin || a_begin == a_end)
        continue;
      if (!below[b][reader[a]])
        fail_msg("seed %" PRIu64 ": T%d and T%d overlap", seed, a + 1, b + 1);
    }
  }
}

static void results_of_large_trees_lie_apart(void **state) {
  (void)state;
  for (uint64_t seed = first_seed; seed < first_seed + 24; seed++) {
    uint64_t random = seed, all = 0;
    int32_t n = 400 + (int32_t)random_below(&random, MANY - 400);
    mmci_plan plan = large_plan(&random, n, 300, random_split);
    group_at_random(&random, &plan);
    check_places_of_tree(&plan, seed);
    for (int32_t s = 0; s < plan.step_count - 1; s++)
      if (call_of(&plan, s) == s) all += bytes_of(&plan, s);
    if (plan.workspace_bytes > all)
      fail_msg("seed %" PRIu64 ": more than without any place that serves twice", seed);
    mmci_plan_destroy(&plan);
  }
  /* Of products one after the other, two live at a time. */
  uint64_t random = first_seed;
  mmci_error error;
  mmci_plan plan = large_plan(&random, MANY, 1, last_split);
  assert_int_equal(mmci_plan_place(&plan, &error), MMC_OK);
  check_places_of_tree(&plan, first_seed);
  assert_int_equal(plan.workspace_bytes, 2 * MMCI_ALIGNMENT);
  mmci_plan_destroy(&plan);
}

/* Of a plan without groups, taken apart, the same steps in a workspace that serves. */
static void a_plan_can_be_taken_apart(void **state) {
  (void)state;
  for (uint64_t seed = first_seed; seed < first_seed + 200; seed++) {
    uint64_t random = seed;
    mmci_error error;
    mmci_plan plan = random_plan(&random, 20, 40), separate;
    group_at_random(&random, &plan);
    assert_int_equal(mmci_plan_separate(&plan, &separate, &error), MMC_OK);
    assert_int_equal(separate.group_count, 0);
    for (int32_t s = 0; s < plan.step_count; s++) assert_int_equal(separate.steps[s].group, -1);
    check_places(&separate, seed);
    mmci_plan_separate_destroy(&separate);
    mmci_plan_destroy(&plan);
  }
}

/* ---- covers ---------------------------------------------------------------------------------- */

/* Takes what has no dim above most; prices are any. */
typedef struct judge {
  int64_t most;
  uint64_t salt;
  mmci_pricing pricing;
  double doubt; /* of what tells_pairs() tells, unless 0 */
} judge;

static mmc_status takes(const void *user, const mmci_group *group, bool *out, double *seconds,
                        double *doubt, mmci_error *error) {
  (void)doubt, (void)error;
  const judge *j = user;
  *seconds = (double)NAN;
  *out = true;
  for (int32_t i = 0; i < group->count; i++) {
    const mmci_group_product *s = &group->products[i];
    *out = *out && s->m <= j->most && s->k <= j->most && s->n <= j->most;
  }
  return MMC_OK;
}

static void price(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  const judge *j = user;
  uint64_t state = j->salt + (uint64_t)(gemm->m * 10007 + gemm->k * 101 + gemm->n);
  *out = (mmci_price){.seconds = (random_unit(&state) + 1.1) * 1e-5,
                      .error = 0.1,
                      .modelled = true,
                      .source = MMCI_MODELLED,
                      .recipe = mmci_recipe_whole(0)};
}

static mmci_group_machine machine_of(judge *j, int32_t width) {
  j->pricing = (mmci_pricing){.user = j, .price = price};
  return (mmci_group_machine){.user = j,
                              .supports = takes,
                              .facts = {.launch_s = 4e-6,
                                        .bytes_per_s = 1e12,
                                        .flops_per_s = 1e9,
                                        .product_s = 1e-6,
                                        .handover_s = 1e-6,
                                        .width = width,
                                        .tile = 64,
                                        .error = 0.5},
                              .pricing = &j->pricing};
}

/* Of the steps marked, the last of which is the result. */
static double seconds_of(const mmci_plan *plan, const mmci_group_machine *m, const bool *marked) {
  mmci_group_part parts[64];
  int32_t place[64], count = 0, n = plan->chain->n;
  for (int32_t s = 0; s < plan->step_count; s++) {
    if (!marked[s]) continue;
    const mmci_plan_step *x = &plan->steps[s];
    bool left = x->left >= n && marked[x->left - n], right = x->right >= n && marked[x->right - n];
    parts[count] = (mmci_group_part){x->m, x->k, x->n, left ? place[x->left - n] : -1,
                                     right ? place[x->right - n] : -1};
    place[s] = count++;
  }
  char scratch[4096];
  assert_true(mmci_group_scratch_bytes(&m->facts, count) <= sizeof scratch);
  return mmci_group_seconds(&m->facts, plan->chain->dtype, 1, parts, count, scratch);
}

static void mark(const mmci_plan *plan, int32_t s, bool *marked) {
  int32_t n = plan->chain->n;
  marked[s] = true;
  if (plan->steps[s].left >= n) mark(plan, plan->steps[s].left - n, marked);
  if (plan->steps[s].right >= n) mark(plan, plan->steps[s].right - n, marked);
}

static bool taken(const mmci_plan *plan, const judge *j, const bool *marked) {
  mmci_group_product products[64];
  mmci_group group = {.products = products};
  for (int32_t s = 0; s < plan->step_count; s++)
    if (marked[s])
      products[group.count++] =
          (mmci_group_product){plan->steps[s].m, plan->steps[s].k, plan->steps[s].n, 0, 0};
  bool taken = false;
  double seconds;
  assert_int_equal(takes(j, &group, &taken, &seconds, NULL, NULL), MMC_OK);
  return taken;
}

/* The least that the sub-tree of operand `number` takes, by trying every call that may end it. */
static double least_seconds(const mmci_plan *plan, const mmci_group_machine *m, int32_t number) {
  int32_t n = plan->chain->n, s = number - n;
  if (s < 0) return 0;
  const mmci_plan_step *x = &plan->steps[s];
  mmci_gemm gemm = {.m = x->m, .k = x->k, .n = x->n};
  mmci_price alone;
  price(m->user, &gemm, &alone);
  double best = alone.seconds + least_seconds(plan, m, x->left) + least_seconds(plan, m, x->right);
  bool whole[64] = {false};
  mark(plan, s, whole);
  if (x->last - x->first > 1 && taken(plan, m->user, whole)) {
    double all = seconds_of(plan, m, whole);
    if (all < best) best = all;
  }
  for (int side = 0; side < 2; side++) {
    int32_t child = (side == 0 ? x->left : x->right) - n, other = side == 0 ? x->right : x->left;
    bool pair[64] = {false};
    if (child < 0) continue;
    pair[s] = pair[child] = true;
    if (!taken(plan, m->user, pair)) continue;
    double with = seconds_of(plan, m, pair) + least_seconds(plan, m, other) +
                  least_seconds(plan, m, plan->steps[child].left) +
                  least_seconds(plan, m, plan->steps[child].right);
    if (with < best) best = with;
  }
  return best;
}

static void covers_are_the_cheapest(void **state) {
  (void)state;
  int64_t groups = 0, whole = 0;
  for (uint64_t seed = first_seed; seed < first_seed + 600; seed++) {
    uint64_t random = seed;
    mmci_error error;
    mmci_plan plan = random_plan(&random, 9, 30);
    judge j = {.most = random_below(&random, 3) == 0 ? 100 : 5 + random_below(&random, 30),
               .salt = seed * 1000003};
    mmci_group_machine m = machine_of(&j, 1 + (int32_t)random_below(&random, 4));
    if (seed % 2 == 0) m.side = j.most; /* what it says is known without asking */
    mmci_cover cover;
    assert_int_equal(mmci_plan_cover(&plan, &m, &cover, &error), MMC_OK);
    double want = least_seconds(&plan, &m, plan.chain->n + plan.step_count - 1), sum = 0;
    if (!(fabs(cover.seconds - want) <= 1e-9 * want))
      fail_msg("seed %" PRIu64 ": %g s, not %g", seed, cover.seconds, want);
    /* What it says is a cover of that price. */
    for (int32_t s = 0; s < plan.step_count; s++) {
      bool member[64] = {false};
      int32_t size = 0, last = s;
      for (int32_t t = 0; t < plan.step_count; t++) {
        if (t != s && (cover.group_of[s] < 0 || cover.group_of[t] != cover.group_of[s])) continue;
        member[t] = true;
        size++;
        last = t;
      }
      if (last != s) continue;
      sum += cover.call_s[s];
      if (size == 1) assert_true(cover.call_s[s] == cover.alone_s[s]);
      if (size > 1) assert_true(fabs(cover.call_s[s] - seconds_of(&plan, &m, member)) < 1e-15);
      if (size > 1) assert_true(taken(&plan, &j, member));
      groups += size > 1;
      whole += size > 2;
    }
    assert_true(fabs(sum - want) <= 1e-9 * want);
    mmci_cover_destroy(&cover);
    mmci_plan_destroy(&plan);
  }
  assert_true(groups > 100 && whole > 50);
}

/* ---- measured prices ------------------------------------------------------------------------- */

/* Products were measured to take so many times what the model says; or only those of fewer rows. */
typedef struct measured {
  mmci_roofline roofline;
  double times;
  int64_t rows_below;
} measured;

static void price_measured(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  const measured *m = user;
  mmci_roofline_price(&m->roofline, gemm, out);
  if (gemm->m >= m->rows_below) return;
  out->seconds *= m->times;
  out->modelled = false;
}

/* The call of a whole chain is priced by the model, times what its steps take more than it says,
 * and never less than it; then it must be faster. On a slower machine the groups are
 * those that the model alone would form. */
static void what_is_measured_raises_the_price_of_groups(void **state) {
  (void)state;
  static const int64_t dims[] = {9, 20, 20, 20, 20};
  static const double times[] = {0.25, 0.5, 1, 2, 5, 100};
  int64_t formed = 0, not_formed = 0;
  for (uint64_t seed = 0; seed < 120; seed++) {
    uint64_t random = first_seed + seed;
    measured m = {.roofline = {.flops_per_s = 1e9, .bytes_per_s = 1e10, .launch_s = 2e-5},
                  .times = times[seed % 6],
                  .rows_below = seed / 6 % 2 == 0 ? INT64_MAX : 10};
    judge j = {.most = 1000};
    mmci_group_machine machine = machine_of(&j, 1);
    mmci_pricing pricing = {.user = &m, .price = price_measured};
    machine.pricing = &pricing;
    machine.roofline = &m.roofline;
    machine.facts.launch_s = m.roofline.launch_s;
    /* With it from less to more than the steps take. */
    machine.facts.flops_per_s = 2e8 + 1e8 * (double)random_below(&random, 12);
    mmci_plan plan = plan_of(&random, 4, dims);
    mmci_error error;
    bool all[64] = {true, true, true};
    double modelled_s = 0, sum_s = 0, slow = 1;
    for (int32_t s = 0; s < plan.step_count; s++) {
      const mmci_plan_step *x = &plan.steps[s];
      mmci_gemm gemm = {.dtype = MMC_F32, .m = x->m, .k = x->k, .n = x->n};
      double model_s = mmci_roofline_seconds(&m.roofline, &gemm);
      bool known = x->m < m.rows_below;
      sum_s += known ? m.times * model_s : model_s;
      modelled_s += model_s;
    }
    if (sum_s > modelled_s) slow = sum_s / modelled_s;
    double want = slow * seconds_of(&plan, &machine, all);
    assert_int_equal(mmci_plan_choose_groups(&plan, &machine, UINT64_MAX, &error), MMC_OK);
    bool whole = plan.group_count == 1 && plan.groups[0].step_count == 3;
    if (whole && !(fabs(plan.groups[0].predicted_s - want) <= 1e-12 * want))
      fail_msg("seed %" PRIu64 ": %g s, not %g", seed, plan.groups[0].predicted_s, want);
    if (whole && !(want < sum_s))
      fail_msg("seed %" PRIu64 ": %g s is not surely less than %g", seed, want, sum_s);
    if (plan.group_count == 0 && want < sum_s * (1 - 1e-12))
      fail_msg("seed %" PRIu64 ": %g s is surely less than %g", seed, want, sum_s);
    formed += whole && slow > 1;
    not_formed += !whole && slow > 1;
    if (slow > 1 && whole != (want / slow < modelled_s))
      fail_msg("seed %" PRIu64 ": measurements change what is formed", seed);
    mmci_plan_destroy(&plan);
  }
  printf("%" PRId64 " groups on slower machines, %" PRId64 " not formed\n", formed, not_formed);
  assert_true(formed > 5 && not_formed > 5);
}

/* ---- which are taken ------------------------------------------------------------------------- */

static mmci_plan simple_plan(const char *text) {
  mmc_chain *chain;
  mmci_plan plan;
  mmci_error error;
  assert_int_equal(mmci_chain_parse(text, &chain, &error), MMC_OK);
  assert_int_equal(mmci_plan_create(chain, "auto", mmci_within(UINT64_MAX), &plan, &error), MMC_OK);
  mmc_chain_destroy(chain);
  return plan;
}

static void groups_respect_limits(void **state) {
  (void)state;
  judge j = {.most = 10};
  mmci_error error;
  mmci_group_machine m = machine_of(&j, 4);
  /* ((A1 A2) (A3 A4)): its pairs would keep three operands where two were. */
  mmci_plan plan = simple_plan("f32:9x9x9x9x9");
  m.facts.launch_s = m.facts.product_s = m.facts.handover_s = 0;
  m.facts.flops_per_s = m.facts.bytes_per_s = 1e15;
  assert_int_equal(mmci_plan_choose_groups(&plan, &m, UINT64_MAX, &error), MMC_OK);
  assert_int_equal(plan.group_count, 1);
  assert_int_equal(plan.groups[0].step_count, 3);
  assert_int_equal(plan.groups[0].operand_count, 4);
  assert_int_equal(plan.workspace_bytes, 0);
  assert_true(plan.groups[0].predicted_s < plan.groups[0].separate_s);
  mmci_plan_destroy(&plan);

  plan = simple_plan("f32:9x9x9x9x9");
  plan.streamed = true;
  assert_int_equal(mmci_plan_choose_groups(&plan, &m, UINT64_MAX, &error), MMC_OK);
  assert_int_equal(plan.group_count, 0);
  mmci_plan_destroy(&plan);

  /* The last two products of left to right read T2, 400x9, and the first must not be in it. */
  for (int limited = 0; limited < 2; limited++) {
    static const int64_t dims[] = {400, 9, 9, 9, 9};
    uint64_t random = 1;
    plan = plan_of(&random, 4, dims);
    j.most = 1000;
    uint64_t limit = limited ? plan.workspace_bytes : UINT64_MAX;
    int32_t groups[] = {-1, 0, 0};
    uint64_t before = plan.workspace_bytes;
    assert_int_equal(mmci_plan_group_steps(&plan, groups, &error), MMC_OK);
    assert_true(plan.workspace_bytes > 0 && plan.workspace_bytes < before + 40000);
    mmci_plan_disband(&plan);
    assert_int_equal(mmci_plan_choose_groups(&plan, &m, limit, &error), MMC_OK);
    mmci_plan_destroy(&plan);
  }
}

/* Groups are formed when they save as much as they must, all or none. */
static void groups_must_save_enough(void **state) {
  (void)state;
  const mmci_roofline roofline = {.flops_per_s = 1e9, .bytes_per_s = 1e10, .launch_s = 1e-7};
  int64_t formed = 0, left = 0;
  for (uint64_t seed = first_seed; seed < first_seed + 300; seed++) {
    uint64_t random = seed;
    mmci_error error;
    judge j = {.most = 20 + random_below(&random, 60), .salt = seed};
    mmci_group_machine m = machine_of(&j, 2);
    m.roofline = &roofline;
    if (seed % 2 == 0) m.side = j.most;
    mmci_plan plan = random_plan(&random, 12, 60);
    mmci_cover cover;
    assert_int_equal(mmci_plan_cover(&plan, &m, &cover, &error), MMC_OK);
    const double saved_s = cover.separate_s - cover.seconds;
    const double arithmetic_s = 2 * mmci_u128_to_double(plan.multiplications) / 1e9;
    const bool any = cover.groups > 0 && arithmetic_s > 0;
    if (any) m.least_gain = saved_s / arithmetic_s * (seed % 3 == 0 ? 0.999 : 1.001);
    assert_int_equal(mmci_plan_choose_groups(&plan, &m, UINT64_MAX, &error), MMC_OK);
    if (any && (plan.group_count > 0) != (seed % 3 == 0))
      fail_msg("seed %" PRIu64 ": %d of %d groups that save %g s of %g", seed, plan.group_count,
               cover.groups, saved_s, arithmetic_s);
    if (plan.group_count > 0) assert_int_equal(plan.group_count, cover.groups);
    formed += plan.group_count > 0;
    left += any && plan.group_count == 0;
    mmci_cover_destroy(&cover);
    mmci_plan_destroy(&plan);
  }
  printf("%" PRId64 " plans with groups, %" PRId64 " that left them\n", formed, left);
  assert_true(formed > 30 && left > 60);
}

/* A plan for traffic runs the pairs that it fuses as one call, where that is cheaper, and no other.
 */
static void fused_pairs_are_executed(void **state) {
  (void)state;
  int64_t executed = 0;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.fuse = "exact";
  options.on_chip_words = 512;
  for (uint64_t seed = first_seed; seed < first_seed + 300; seed++) {
    uint64_t random = seed;
    mmci_error error;
    mmci_plan plan = random_plan(&random, 10, 200);
    mmci_traffic_request request;
    assert_int_equal(mmci_traffic_request_read(&options, &request, &error), MMC_OK);
    assert_int_equal(mmci_plan_fuse(&plan, &request, &error), MMC_OK);
    judge j = {.most = 150, .salt = seed};
    mmci_group_machine m = machine_of(&j, 4);
    m.facts.flops_per_s = 1e12;
    assert_int_equal(mmci_plan_choose_groups(&plan, &m, UINT64_MAX, &error), MMC_OK);
    for (int32_t g = 0; g < plan.group_count; g++) {
      const mmci_plan_group *group = &plan.groups[g];
      assert_int_equal(group->step_count, 2);
      assert_int_equal(group->operand_count, 3);
      assert_int_equal(plan.traffic->steps[group->steps[0]].choice.partner, group->steps[1]);
      assert_int_equal(plan.traffic->steps[group->steps[1]].choice.partner, group->steps[0]);
      assert_true(group->predicted_s < group->separate_s);
    }
    executed += plan.group_count;
    mmci_plan_destroy(&plan);
  }
  assert_true(executed > 30);
}

/* ---- wide trees ------------------------------------------------------------------------------ */

static int append(void *user, const char *bytes, size_t size) {
  char *text = user;
  size_t length = strlen(text);
  if (length + size >= 16384) return 0;
  memcpy(text + length, bytes, size);
  text[length + size] = '\0';
  return 0;
}

static mmci_plan wide_plan(int32_t n, const int64_t *dims, int32_t segments) {
  mmci_order_problem problem = {.n = n, .dims = dims};
  mmc_chain *chain;
  mmci_tree tree;
  mmci_plan plan;
  bool found;
  mmci_error error;
  assert_int_equal(mmci_order_wide(&problem, segments, &tree, &found, &error), MMC_OK);
  assert_true(found);
  assert_int_equal(mmci_chain_create(MMC_F32, n, dims, NULL, &chain, &error), MMC_OK);
  assert_int_equal(mmci_plan_from_tree(chain, &tree, &plan, &error), MMC_OK);
  mmc_chain_destroy(chain);
  return plan;
}

static void wide_trees_are_wide(void **state) {
  (void)state;
  int64_t dims[1001];
  for (int i = 0; i <= 1000; i++) dims[i] = 64;
  for (int32_t n = 4; n <= 1000; n = n * 3 / 2 + 1) {
    int32_t least = 0;
    while (1 << least < n) least++;
    mmci_plan plan = wide_plan(n, dims, INT32_MAX);
    assert_int_equal(plan.steps[n - 2].level, least);
    assert_true(plan.multiplications == (mmci_u128)(n - 1) * 64 * 64 * 64);
    mmci_plan_destroy(&plan);
    /* One segment is left to right; seven take a segment's length, four of them, and two. */
    plan = wide_plan(n, dims, 1);
    assert_int_equal(plan.steps[n - 2].level, n - 1);
    mmci_plan_destroy(&plan);
    plan = wide_plan(n, dims, 7);
    assert_true(plan.steps[n - 2].level <= (n + 6) / 7 - 1 + 4);
    mmci_plan_destroy(&plan);
  }
}

/* Whatever the dims: a tree of the chain, whose runs are those that are said to be. */
static void wide_trees_of_any_dims(void **state) {
  (void)state;
  int64_t many = 0;
  for (uint64_t seed = first_seed; seed < first_seed + 500; seed++) {
    uint64_t random = seed;
    int32_t n = 1 + (int32_t)random_below(&random, 40);
    int64_t dims[41];
    for (int32_t i = 0; i <= n; i++)
      dims[i] = i > 0 && random_below(&random, 8) != 0 ? dims[i - 1] + random_below(&random, 3) - 1
                                                       : 10 + random_below(&random, 90);
    mmci_order_problem problem = {.n = n, .dims = dims};
    mmci_tree tree;
    bool found;
    mmci_error error;
    int32_t segments = 1 + (int32_t)random_below(&random, 6);
    assert_int_equal(mmci_order_wide(&problem, segments, &tree, &found, &error), MMC_OK);
    if (!found) continue;
    many++;
    mmci_order_answer best;
    const mmci_solver *used;
    mmci_u128 multiplications;
    assert_int_equal(mmci_tree_multiplications(&tree, dims, &multiplications, &error), MMC_OK);
    assert_int_equal(mmci_order_solve("auto", &problem, false, &used, &best, &error), MMC_OK);
    assert_true(multiplications >= best.multiplications);
    mmci_range ranges[40];
    mmci_tree_ranges(&tree, ranges);
    assert_true(ranges[n - 2].first == 0 && ranges[n - 2].last == n);
    for (int32_t t = 0; t < n - 1; t++)
      assert_true(ranges[t].first < ranges[t].split && ranges[t].split < ranges[t].last);
    mmci_tree_destroy(&best.tree);
    mmci_tree_destroy(&tree);
  }
  assert_true(many > 100);
}

/* Many workers: a tree; one: nothing is gained, and the order stays. */
static void time_plans_take_wide_trees(void **state) {
  (void)state;
  char *text = calloc(1, 16384), dims[5000] = "f32:64";
  assert_non_null(text);
  for (int i = 0; i < 1000; i++) strcat(dims, "x64");
  for (int32_t width = 1; width <= 132; width += 131) {
    judge j = {.most = 64};
    mmci_group_machine m = machine_of(&j, width);
    m.facts.flops_per_s = 2e11 * width;
    mmci_time_request request = {.pricing = &j.pricing, .notice = "", .machine = &m};
    mmc_chain *chain;
    mmci_plan plan;
    mmci_error error;
    assert_int_equal(mmci_chain_parse(dims, &chain, &error), MMC_OK);
    assert_int_equal(
        mmci_plan_create_timed(chain, "auto", mmci_within(UINT64_MAX), &request, &plan, &error),
        MMC_OK);
    assert_int_equal(mmci_plan_choose_groups(&plan, &m, UINT64_MAX, &error), MMC_OK);
    assert_int_equal(mmci_plan_price(&plan, &request, &error), MMC_OK);
    assert_int_equal(plan.group_count, 1);
    assert_int_equal(plan.groups[0].step_count, 999);
    assert_int_equal(plan.workspace_bytes, 0);
    assert_true(plan.time->predicted_s == plan.groups[0].predicted_s);
    assert_int_equal(plan.time->segments > 0, width > 1);
    assert_true(width == 1 || plan.steps[998].level <= 16);
    text[0] = '\0';
    assert_int_equal(mmci_plan_explain(&plan, MMC_TEXT, append, text, &error), MMC_OK);
    assert_non_null(strstr(text, "one call of 999 steps"));
    assert_int_equal(strstr(text, " levels: the least predicted time") != NULL, width > 1);
    mmci_plan_destroy(&plan);
    mmc_chain_destroy(chain);
  }
  free(text);
}

/* ---- prices ---------------------------------------------------------------------------------- */

static double price_chain(const mmci_group_facts *f, int64_t batch, const mmci_group_part *parts,
                          int32_t count) {
  char scratch[16384];
  assert_true(mmci_group_scratch_bytes(f, count) <= sizeof scratch);
  return mmci_group_seconds(f, MMC_F32, batch, parts, count, scratch);
}

static bool near(double x, double y) {
  return fabs(x - y) <= 1e-12 * fabs(y);
}

static void one_call_takes_what_it_must(void **state) {
  (void)state;
  /* A product of 10x10 takes a worker 2 us of arithmetic and 1 us besides. */
  mmci_group_facts f = {.launch_s = 5e-6,
                        .bytes_per_s = 1e12,
                        .flops_per_s = 4e9,
                        .product_s = 1e-6,
                        .handover_s = 0.5e-6,
                        .width = 4,
                        .tile = 64};
  const mmci_group_part skewed[] = {{10, 10, 10, -1, -1}, {10, 10, 10, 0, -1}, {10, 10, 10, 1, -1}};
  const mmci_group_part balanced[] = {
      {10, 10, 10, -1, -1}, {10, 10, 10, -1, -1}, {10, 10, 10, 0, 1}};
  assert_true(near(price_chain(&f, 1, skewed, 3), 5e-6 + 3 * 3e-6));
  assert_true(near(price_chain(&f, 1, balanced, 3), 5e-6 + 2 * 3e-6 + 0.5e-6));
  /* Of one worker the shape does not matter. */
  mmci_group_facts one = f;
  one.width = 1;
  one.flops_per_s = 1e9;
  assert_true(near(price_chain(&one, 1, balanced, 3), price_chain(&one, 1, skewed, 3)));
  /* Nor does it in a large batch: 4 workers have 1000 chains. */
  assert_true(near(price_chain(&f, 1000, balanced, 3), 5e-6 + 250 * 9e-6));
  assert_true(near(price_chain(&f, 1000, skewed, 3), 5e-6 + 250 * 9e-6));
  assert_true(near(price_chain(&f, 0, skewed, 3), 5e-6));
  /* Memory: four operands and the result of 400 bytes. */
  f.bytes_per_s = 1e6;
  assert_true(near(price_chain(&f, 2, skewed, 3), 5e-6 + 2 * 5 * 400e-6));
  /* A product of many tiles has several workers. */
  const mmci_group_part large = {128, 10, 128, -1, -1};
  f.bytes_per_s = 1e15;
  assert_true(near(price_chain(&f, 1, &large, 1), 5e-6 + 1e-6 + 2 * 128 * 128 * 10 / 4e9));
}

/* ---- pairs that gain ------------------------------------------------------------------------- */

/* The rule that was measured on an H100: of (A B) C m x k, k x w and w x n. */
static bool pair_gains(mmc_dtype dtype, bool fast, bool right, int64_t rows, int64_t k, int64_t w,
                       int64_t n) {
  const int64_t other = k > n ? k : n;
  if (rows < 2048) return false;
  if (dtype == MMC_F64) return (w <= 16 && other <= 32) || (w <= 32 && other <= 16);
  if (fast)
    return (rows >= 131072 && w <= 32 && other <= (right ? 16 : 32)) ||
           (rows >= 65536 && w <= 256 && other <= 256);
  return w <= 16 && other <= 16;
}

static void a_gpu_gains_by_the_pairs_that_were_measured(void **state) {
  (void)state;
  static const int64_t sides[] = {1, 15, 16, 17, 31, 32, 33, 64};
  static const int64_t rows[] = {130, 2047, 2048, 65536, 131071, 131072, 400000};
  const mmci_roofline roofline = {.launch_s = 1};
  uint64_t random = first_seed;
  int64_t gaining = 0;
  for (int t = 0; t < 20000; t++) {
    const mmc_dtype dtype = random_below(&random, 2) ? MMC_F32 : MMC_F64;
    const bool fast = random_below(&random, 2), right = random_below(&random, 2);
    const mmci_facts told = mmci_cuda_facts_of(132, dtype, fast ? MMCI_FAST : MMCI_NATIVE);
    const mmci_group_facts facts = mmci_group_facts_of(&told, &roofline);
    const int64_t m = rows[random_below(&random, 7)], batch = 1 + random_below(&random, 3),
                  k = sides[random_below(&random, 8)], w = sides[random_below(&random, 8)],
                  n = sides[random_below(&random, 8)];
    const mmci_group_part left[] = {{m, k, w, -1, -1}, {m, w, n, 0, -1}},
                          mirrored[] = {{w, k, m, -1, -1}, {n, w, m, -1, 0}};
    const bool gains = mmci_group_gains(&facts, batch, right ? mirrored : left, 2);
    if (gains != pair_gains(dtype, fast && dtype == MMC_F32, right, m * batch, k, w, n))
      fail_msg("%s%s %s: %" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64 " @%" PRId64 ": %d",
               mmc_dtype_name(dtype), fast ? " fast" : "", right ? "right" : "left", m, k, w, n,
               batch, gains);
    gaining += gains;
  }
  assert_true(gaining > 500);
  /* Small groups are modelled, whatever their shape; other dtypes and more products do not gain. */
  mmci_facts told = mmci_cuda_facts_of(132, MMC_F32, MMCI_NATIVE);
  mmci_group_facts facts = mmci_group_facts_of(&told, &roofline);
  const mmci_group_part three[] = {{128, 9, 9, -1, -1}, {128, 9, 9, 0, -1}, {128, 9, 9, 1, -1}};
  const mmci_group_part tall[] = {{3000, 9, 9, -1, -1}, {3000, 9, 9, 0, -1}, {3000, 9, 9, 1, -1}};
  assert_true(mmci_group_gains(&facts, 1, three, 3));
  assert_true(mmci_group_gains(&facts, 1, tall, 2));
  assert_false(mmci_group_gains(&facts, 1, tall, 3));
  told = mmci_cuda_facts_of(132, MMC_C64, MMCI_NATIVE);
  facts = mmci_group_facts_of(&told, &roofline);
  assert_false(mmci_group_gains(&facts, 1, tall, 2));
}

static bool share_of_pairs(const void *user, const mmci_group *group, mmci_group_share *out) {
  (void)user;
  *out = (mmci_group_share){.time = 0.97, .joules = 0.9};
  return group->count == 2;
}

/* Beyond the bounds of what gains, a share that was measured is enough: pairs of it take so much of
 * their steps' time, and no doubt is added. Long chains keep what a device answered. */
static void pairs_with_a_measured_share_are_formed(void **state) {
  (void)state;
  int64_t formed = 0;
  for (uint64_t seed = first_seed; seed < first_seed + 200; seed++) {
    uint64_t random = seed;
    mmci_error error;
    judge j = {.most = 1000, .salt = seed};
    mmci_group_machine m = machine_of(&j, 4);
    m.facts.modelled_side = 1;
    m.doubt = 0.25;
    m.share = share_of_pairs;
    mmci_plan plan = random_plan(&random, seed % 2 == 0 ? 10 : 40, 60);
    assert_int_equal(mmci_plan_choose_groups(&plan, &m, UINT64_MAX, &error), MMC_OK);
    for (int32_t g = 0; g < plan.group_count; g++) {
      const mmci_plan_group *group = &plan.groups[g];
      if (group->step_count != 2) continue;
      formed++;
      assert_true(near(group->predicted_s, 0.97 * group->separate_s));
      assert_int_equal(group->source, MMCI_SHIPPED);
    }
    mmci_plan_destroy(&plan);
  }
  printf("%" PRId64 " pairs\n", formed);
  assert_true(formed > 200);
}

/* Takes pairs, and tells that they take 0.85 of their steps' time. */
static mmc_status tells_pairs(const void *user, const mmci_group *group, bool *out, double *seconds,
                              double *doubt, mmci_error *error) {
  (void)error;
  const judge *j = user;
  double alone_s = 0;
  for (int32_t i = 0; i < group->count; i++) {
    const mmci_group_product *s = &group->products[i];
    mmci_price one;
    price(user, &(mmci_gemm){.m = s->m, .k = s->k, .n = s->n}, &one);
    alone_s += one.seconds;
  }
  *out = group->count == 2;
  *seconds = 0.85 * alone_s;
  if (j->doubt > 0) *doubt = j->doubt;
  return MMC_OK;
}

/* A device may know that the times of a call are nearer than those of others, or farther off. What
 * it tells holds beyond the bounds of the model, too. */
static void a_call_has_a_doubt_of_its_own(void **state) {
  (void)state;
  static const double doubts[] = {0, 0.1, 0.3};
  int64_t formed[3] = {0};
  for (uint64_t seed = first_seed; seed < first_seed + 60; seed++)
    for (int t = 0; t < 6; t++) {
      uint64_t random = seed;
      mmci_error error;
      judge j = {.most = 1000, .salt = seed, .doubt = doubts[t % 3]};
      mmci_group_machine m = machine_of(&j, 4);
      m.supports = tells_pairs;
      m.facts.modelled_side = seed % 2 == 0 ? 1000 : 1;
      m.doubt = t < 3 ? 0.25 : 0.05;
      mmci_plan plan = random_plan(&random, 10, 60);
      assert_int_equal(mmci_plan_choose_groups(&plan, &m, UINT64_MAX, &error), MMC_OK);
      if (t < 3) formed[t] += plan.group_count;
      if (t == 3) assert_true(plan.group_count > 0);
      if (t == 5) assert_int_equal(plan.group_count, 0);
      mmci_plan_destroy(&plan);
    }
  assert_int_equal(formed[0], 0);
  assert_true(formed[1] > 60);
  assert_int_equal(formed[2], 0);
}

/* What the device can do and the model favours is not done beyond the bounds, unless it was
 * measured or is asked for. */
static void pairs_without_gain_stay_apart(void **state) {
  (void)state;
  int64_t formed = 0, asked = 0;
  for (uint64_t seed = first_seed; seed < first_seed + 200; seed++) {
    uint64_t random = seed;
    mmci_error error;
    judge j = {.most = 1000, .salt = seed};
    mmci_group_machine m = machine_of(&j, 4);
    m.facts.flops_per_s = 1e12;
    m.facts.modelled_side = 30;
    mmci_plan plan = random_plan(&random, 10, 60);
    assert_int_equal(mmci_plan_choose_groups(&plan, &m, UINT64_MAX, &error), MMC_OK);
    for (int32_t g = 0; g < plan.group_count; g++)
      for (int32_t i = 0; i < plan.groups[g].step_count; i++) {
        const mmci_plan_step *s = &plan.steps[plan.groups[g].steps[i]];
        assert_true(s->m <= 30 && s->k <= 30 && s->n <= 30);
      }
    formed += plan.group_count;
    mmci_plan_disband(&plan);
    m.handicap_s = 1e9;
    assert_int_equal(mmci_plan_choose_groups(&plan, &m, UINT64_MAX, &error), MMC_OK);
    for (int32_t g = 0; g < plan.group_count; g++)
      for (int32_t i = 0; i < plan.groups[g].step_count; i++)
        asked += plan.steps[plan.groups[g].steps[i]].m > 30;
    mmci_plan_destroy(&plan);
  }
  printf("%" PRId64 " groups, %" PRId64 " larger steps in those asked for\n", formed, asked);
  assert_true(formed > 20 && asked > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_lie_apart_in_little_room),
      cmocka_unit_test(results_of_large_trees_lie_apart),
      cmocka_unit_test(a_plan_can_be_taken_apart),
      cmocka_unit_test(covers_are_the_cheapest),
      cmocka_unit_test(what_is_measured_raises_the_price_of_groups),
      cmocka_unit_test(groups_respect_limits),
      cmocka_unit_test(groups_must_save_enough),
      cmocka_unit_test(fused_pairs_are_executed),
      cmocka_unit_test(wide_trees_are_wide),
      cmocka_unit_test(wide_trees_of_any_dims),
      cmocka_unit_test(time_plans_take_wide_trees),
      cmocka_unit_test(one_call_takes_what_it_must),
      cmocka_unit_test(a_gpu_gains_by_the_pairs_that_were_measured),
      cmocka_unit_test(pairs_with_a_measured_share_are_formed),
      cmocka_unit_test(a_call_has_a_doubt_of_its_own),
      cmocka_unit_test(pairs_without_gain_stay_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
