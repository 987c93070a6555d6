/* test_calls.c: calls of several products, from a synthetic machine whose times are known to plans
 * that take them: names, what is measured and in which order, what a budget leaves, and that the
 * plan is the best of all orders by these times; of what was not measured the model says. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../facts.h"
#include "../random.h"
#include "plan/group_problem.h"
#include "planner/fewest.h"
#include "planner/offers.h"
#include "planner/time_order.h"
#include "tune/groups.h"

static const uint64_t first_seed = 9300;

/* ---- a device and its times ---------------------------------------------------------------- */

enum { MOST_KNOWN = 512 };

/* Takes calls without a dim above most, but for those whose hash says no. */
typedef struct machine {
  uint64_t salt;
  int64_t most;
  double clock_s, each_s; /* of a measurement */
  int asked, refused, no_memory;
  char known[MOST_KNOWN][MMCI_GROUP_NAME_SIZE]; /* what was measured, */
  double seconds[MOST_KNOWN];
  int known_count;
  char units[MOST_KNOWN][MMCI_TUNE_KEY_SIZE]; /* and the journal */
  mmci_measured measured[MOST_KNOWN];
  int unit_count;
} machine;

static machine fake; /* the device's slots have no user */

static bool takes(const mmci_device *device, const mmci_group *call) {
  (void)device;
  for (int32_t p = 0; p < call->count; p++) {
    const mmci_group_product *x = &call->products[p];
    if (x->m > fake.most || x->k > fake.most || x->n > fake.most) return false;
  }
  return true;
}

static void tell(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                 mmci_facts *out) {
  (void)device, (void)dtype, (void)precision;
  *out = test_facts;
}

static const mmci_device_ops fake_ops = {.name = "fake", .facts = tell, .group_supports = takes};
static const mmci_opened fake_device = {.ops = &fake_ops, .name = "fake"};

/* From 0 to 1, by the name. */
static double share_of(const char *name) {
  uint64_t state = fake.salt;
  for (; *name != '\0'; name++) state = random_bits(&state) ^ (unsigned char)*name;
  return fabs(random_unit(&state));
}

static double product_seconds(int64_t m, int64_t k, int64_t n, int64_t batch) {
  mmci_gemm gemm = mmci_gemm_tight(MMC_F32, MMCI_NATIVE, m, k, n, MMC_OP_N, MMC_OP_N);
  char name[MMCI_BATCH_NAME_SIZE];
  mmci_gemm_spread(&gemm, batch);
  mmci_batch_name(&gemm, name);
  return 1e-6 * (1 + share_of(name)) + 1e-9 * (double)(m * k * n);
}

/* Half of what its products take to one and a half times as much. */
static double call_seconds(const mmci_group *call) {
  double sum_s = 0;
  for (int32_t p = 0; p < call->count; p++)
    sum_s +=
        product_seconds(call->products[p].m, call->products[p].k, call->products[p].n, call->batch);
  char name[MMCI_GROUP_NAME_SIZE];
  mmci_group_name(call, name);
  return call->count == 1 ? sum_s : sum_s * (0.5 + share_of(name));
}

static double now_s(void *user) {
  return ((machine *)user)->clock_s;
}

static mmc_status answer(machine *m, double seconds, mmci_measured *out) {
  m->asked++;
  m->clock_s += m->each_s;
  *out = (mmci_measured){.seconds = {seconds, seconds, seconds}};
  return MMC_OK;
}

static mmc_status measure_group(void *user, const mmci_group *call, mmci_measured *out,
                                mmci_error *error) {
  machine *m = user;
  assert_true(call->count > 1);
  if (m->refused > 0 && m->refused-- > 0) return mmci_fail(error, MMC_E_UNSUPPORTED, "refused");
  if (m->no_memory > 0 && m->no_memory-- > 0) return mmci_fail_nomem(error, 1);
  return answer(m, call_seconds(call), out);
}

/* Of a batch of products. */
static mmc_status measure(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                          mmci_measured *out, mmci_error *error) {
  (void)error;
  assert_true(mmci_recipe_is_plain(recipe) && gemm->batch > 1);
  assert_true(gemm->a.stride == gemm->m * gemm->k && gemm->c_stride == gemm->m * gemm->n);
  return answer(user, product_seconds(gemm->m, gemm->k, gemm->n, gemm->batch), out);
}

static bool recall(void *user, const char *key, mmci_measured *out) {
  const machine *m = user;
  for (int u = 0; u < m->unit_count; u++)
    if (strcmp(m->units[u], key) == 0) {
      *out = m->measured[u];
      return true;
    }
  return false;
}

static mmc_status record(void *user, const char *key, const mmci_measured *measured,
                         mmci_error *error) {
  (void)error;
  machine *m = user;
  assert_true(m->unit_count < MOST_KNOWN);
  snprintf(m->units[m->unit_count], MMCI_TUNE_KEY_SIZE, "%s", key);
  m->measured[m->unit_count++] = *measured;
  return MMC_OK;
}

static mmc_status keep(void *user, const mmci_group *call, const mmci_estimate *seconds,
                       mmci_error *error) {
  (void)error;
  machine *m = user;
  char name[MMCI_GROUP_NAME_SIZE];
  mmci_group_name(call, name);
  assert_true(m->known_count < MOST_KNOWN);
  snprintf(m->known[m->known_count], MMCI_GROUP_NAME_SIZE, "%s", name);
  m->seconds[m->known_count++] = seconds->value;
  return MMC_OK;
}

static bool find(const char *name, double *seconds) {
  for (int k = 0; k < fake.known_count; k++)
    if (strcmp(fake.known[k], name) == 0) {
      *seconds = fake.seconds[k];
      return true;
    }
  return false;
}

static mmci_tuner *open_tuner(double budget_s) {
  mmci_machine m = {.user = &fake,
                    .queues = 1,
                    .now_s = now_s,
                    .measure = measure,
                    .measure_group = measure_group};
  mmci_tune_options options = mmci_tune_defaults();
  options.budget_s = budget_s;
  options.journal = (mmci_journal){.user = &fake, .recall = recall, .record = record, .time = keep};
  mmci_tuner *tuner;
  mmci_error error;
  assert_int_equal(mmci_tuner_create(&m, &options, &tuner, &error), MMC_OK);
  return tuner;
}

static void tune(const mmci_group_list *calls, double budget_s, mmc_status expected) {
  mmci_error error;
  mmci_tuner *tuner = open_tuner(budget_s);
  const mmci_group *list[MOST_KNOWN];
  assert_true(calls->count <= MOST_KNOWN);
  for (int c = 0; c < calls->count; c++) list[c] = calls->entries[c].group;
  assert_int_equal(mmci_tune_groups(tuner, list, calls->count, &error), expected);
  mmci_tuner_destroy(tuner);
}

/* ---- prices -------------------------------------------------------------------------------- */

/* Of products that were measured, by themselves or a batch of them together. */
static void price(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  const double *error = user;
  *out = (mmci_price){.seconds = product_seconds(gemm->m, gemm->k, gemm->n, gemm->batch),
                      .error = *error,
                      .source = MMCI_MEASURED,
                      .recipe = mmci_recipe_whole(0)};
  out->plain_s = out->seconds;
}

static mmc_status known(const void *user, const mmci_group *group, mmci_group_time *out,
                        mmci_error *error) {
  (void)user, (void)error;
  char name[MMCI_GROUP_NAME_SIZE];
  mmci_group_name(group, name);
  out->known = find(name, &out->seconds);
  return MMC_OK;
}

typedef struct planner {
  mmci_group_query taker;
  double error;
  mmci_pricing pricing;
  mmci_roofline roofline;
  mmci_group_machine machine;
} planner;

static void set_planner(planner *p) {
  *p = (planner){.taker = {.on = &fake_device}, .error = 0};
  p->pricing = (mmci_pricing){.user = &p->error, .price = price};
  p->roofline = mmci_roofline_assumed(&test_facts);
  assert_true(mmci_group_machine_of(&p->taker, &p->pricing, &p->roofline, &p->machine));
  assert_null(p->machine.measured); /* without wisdom */
  p->machine.measured = known;
}

static mmc_chain *chain_of(uint64_t *random, int32_t n, int64_t batch, int64_t most) {
  mmc_chain *chain;
  int64_t dims[16];
  mmc_op ops[16];
  for (int32_t i = 0; i <= n; i++) dims[i] = 1 + random_below(random, most);
  for (int32_t i = 0; i < n; i++) ops[i] = MMC_OP_N;
  assert_int_equal(mmci_chain_create_batch(MMC_F32, n, dims, ops, batch, NULL, &chain, NULL),
                   MMC_OK);
  return chain;
}

static mmci_plan plan_for_time(planner *p, const mmc_chain *chain) {
  mmci_time_request request = {.pricing = &p->pricing, .notice = "", .machine = &p->machine};
  mmci_plan plan;
  mmci_error error;
  assert_int_equal(
      mmci_plan_create_timed(chain, "auto", mmci_within(UINT64_MAX), &request, &plan, &error),
      MMC_OK);
  assert_int_equal(mmci_plan_choose_groups(&plan, &p->machine, UINT64_MAX, &error), MMC_OK);
  assert_int_equal(mmci_plan_price(&plan, &request, &error), MMC_OK);
  return plan;
}

/* ---- names --------------------------------------------------------------------------------- */

static void names_tell_calls_apart(void **state) {
  (void)state;
  mmci_form forms[] = {{.ld = 30}, {.ld = 30, .trans = true}, {.ld = 60}};
  mmci_group_product products[] = {{10, 30, 5, 0, 1}, {10, 5, 60, 3, 2}};
  mmci_group call = {
      .dtype = MMC_F64, .batch = 1, .n = 3, .count = 2, .forms = forms, .products = products};
  char name[MMCI_GROUP_NAME_SIZE], other[MMCI_GROUP_NAME_SIZE], key[MMCI_TUNE_KEY_SIZE];
  mmci_group_name(&call, name);
  int64_t rows = 0, cols = 0;
  assert_true(mmci_group_name_result(name, &rows, &cols));
  assert_true(rows == call.products[call.count - 1].m && cols == call.products[call.count - 1].n);
  assert_string_equal(name, "call NTN 10x30x5:0*1 10x5x60:3*2 @1");
  mmci_group_key(&call, key);
  assert_string_equal(key, "call f64 native NTN 10x30x5:0*1 10x5x60:3*2 @1");
  forms[0].ld = 100; /* where matrices lie is no part of it */
  mmci_group_name(&call, other);
  assert_string_equal(name, other);
  call.batch = 7;
  mmci_group_name(&call, other);
  assert_string_equal(other, "call NTN 10x30x5:0*1 10x5x60:3*2 @7");
  call.count = 1;
  call.n = 2;
  mmci_group_name(&call, other);
  assert_string_equal(other, "batch NT 10x30x5 @7");
}

enum { LONG = 200 };

static void long_names_are_short_and_differ(void **state) {
  (void)state;
  mmci_form forms[LONG + 1] = {{.ld = 1}};
  mmci_group_product products[LONG];
  mmci_group call = {.batch = 1, .forms = forms, .products = products};
  char names[LONG][MMCI_GROUP_NAME_SIZE];
  for (int32_t p = 0; p < LONG; p++)
    products[p] = (mmci_group_product){INT64_C(1) << 62, 1, 1, p == 0 ? 0 : LONG + p, p + 1};
  for (int v = 0; v < LONG; v++) {
    call.count = LONG - v / 2 % 2;
    call.n = call.count + 1;
    products[v % (LONG / 2)].n = 2 + v;
    mmci_group_name(&call, names[v]);
    assert_true(strlen(names[v]) < MMCI_GROUP_NAME_SIZE - 1);
    assert_int_equal(strncmp(names[v], "call ", 5), 0);
    for (int w = 0; w < v; w++) assert_string_not_equal(names[w], names[v]);
  }
  /* Up to the last letter there is room for. */
  for (call.count = 2; call.count < 20; call.count++) {
    call.n = call.count + 1;
    mmci_group_name(&call, names[0]);
    bool is_hash = strchr(names[0], '#') != NULL;
    assert_true(is_hash == (strchr(names[0], ':') == NULL));
    assert_string_equal(names[0] + strlen(names[0]) - 3, " @1");
  }
}

static void every_tree_comes_once(void **state) {
  (void)state;
  static const int catalan[] = {0, 1, 1, 2, 5, 14};
  mmci_error error;
  for (int32_t n = 1; n <= MMCI_EVERY_MOST; n++) {
    mmci_product seen[14][MMCI_EVERY_MOST];
    bool found = true;
    int count = 0;
    for (; found; count++) {
      mmci_tree tree;
      assert_int_equal(mmci_order_every(n, count, &tree, &found, &error), MMC_OK);
      if (!found) break;
      memcpy(seen[count], tree.products, ((size_t)n - 1) * sizeof *tree.products);
      mmci_tree_destroy(&tree);
      for (int t = 0; t < count; t++)
        assert_true(memcmp(seen[t], seen[count], ((size_t)n - 1) * sizeof *seen[t]) != 0);
    }
    assert_int_equal(count, catalan[n]);
  }
  mmci_tree tree;
  bool found;
  assert_int_equal(mmci_order_every(7, 1, &tree, &found, &error), MMC_OK);
  assert_true(found);
  mmci_range ranges[6];
  mmci_tree_ranges(&tree, ranges);
  for (int t = 0; t < 6; t++) assert_true(ranges[t].split == ranges[t].first + 1);
  mmci_tree_destroy(&tree);
  assert_int_equal(mmci_order_every(7, 2, &tree, &found, &error), MMC_OK);
  assert_false(found);
}

/* ---- what is measured ---------------------------------------------------------------------- */

static mmci_group_list calls_of(const mmc_chain *chain) {
  planner p;
  set_planner(&p);
  mmci_group_list calls = {0};
  mmci_error error;
  assert_int_equal(mmci_groups_of_chain(&fake_device, MMCI_NATIVE, chain, &p.pricing, &p.roofline,
                                        &calls, &error),
                   MMC_OK);
  return calls;
}

/* Of four different factors: five orders whole, the ten pairs, of which four are sub-trees; and the
 * ten products of a batch. */
static void what_plans_ask_for_is_listed(void **state) {
  (void)state;
  for (int64_t batch = 1; batch <= 9; batch += 8) {
    const int64_t dims[] = {2, 3, 5, 7, 11};
    mmc_chain *chain;
    fake = (machine){.most = 11};
    assert_int_equal(mmci_chain_create_batch(MMC_F32, 4, dims, NULL, batch, NULL, &chain, NULL),
                     MMC_OK);
    mmci_group_list calls = calls_of(chain);
    int whole = 0, pairs = 0, products = 0;
    for (int c = 0; c < calls.count; c++) {
      const mmci_group *call = calls.entries[c].group;
      whole += call->count == 3;
      pairs += call->count == 2;
      products += call->count == 1;
      assert_true(call->batch == batch);
      for (int32_t o = 0; o < call->n; o++) assert_true((call->forms[o].stride > 0) == (batch > 1));
    }
    assert_int_equal(whole, 5);
    assert_int_equal(pairs, 10);
    assert_int_equal(products, batch > 1 ? 10 : 0);
    mmci_group_list_destroy(&calls);
    fake.most = 10; /* what the device does not take is not asked for */
    calls = calls_of(chain);
    for (int c = 0; c < calls.count; c++)
      if (calls.entries[c].group->count > 1) assert_true(takes(NULL, calls.entries[c].group));
    mmci_group_list_destroy(&calls);
    mmc_chain_destroy(chain);
  }
}

/* Counts the calls that a device is asked about, and notes whether they tell it that all chains
 * share A2, 3x5, and how far apart other matrices are. */
typedef struct asked {
  int count;
  bool knows;
} asked;

static mmc_status ask(const void *user, const mmci_group *call, bool *out, double *seconds,
                      double *doubt, mmci_error *error) {
  asked *x = (asked *)user;
  (void)error;
  x->count++;
  for (int32_t s = 0; s < call->count; s++) {
    const mmci_group_product *p = &call->products[s];
    const int64_t of_right = p->k == 3 && p->n == 5 ? 0 : p->k * p->n;
    if (p->left < call->n) x->knows = x->knows && call->forms[p->left].stride == p->m * p->k;
    if (p->right < call->n) x->knows = x->knows && call->forms[p->right].stride == of_right;
    if (s == call->count - 1) x->knows = x->knows && call->c_stride == p->m * p->n;
  }
  *out = true;
  *seconds = 1e-6;
  *doubt = 0;
  return MMC_OK;
}

static void devices_know_what_is_shared(void **state) {
  (void)state;
  const int64_t dims[] = {2, 3, 5, 7};
  const bool shared[] = {false, true, false};
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  options.batch = 9;
  options.shared = shared;
  mmc_chain *chain;
  assert_int_equal(mmc_chain_create_batch(NULL, MMC_F32, 3, dims, NULL, &options, &chain), MMC_OK);
  planner p;
  set_planner(&p);
  asked x = {0, true};
  p.machine.user = &x;
  p.machine.supports = ask;
  p.machine.measured = NULL;
  const mmci_time_request request = {.pricing = &p.pricing, .notice = "", .machine = &p.machine};
  mmci_plan plan;
  mmci_cover cover;
  mmci_error error;
  assert_int_equal(
      mmci_plan_create_timed(chain, "auto", mmci_within(UINT64_MAX), &request, &plan, &error),
      MMC_OK);
  assert_int_equal(mmci_plan_cover(&plan, &p.machine, &cover, &error), MMC_OK);
  assert_true(x.count > 0);
  assert_true(x.knows);
  mmci_cover_destroy(&cover);
  mmci_plan_destroy(&plan);
  mmc_chain_destroy(chain);
}

static void nothing_is_measured_twice(void **state) {
  (void)state;
  uint64_t random = first_seed;
  fake = (machine){.salt = 1, .most = 20, .each_s = 0.01};
  mmc_chain *chain = chain_of(&random, 5, 3, 20);
  mmci_group_list calls = calls_of(chain);
  assert_true(calls.count > 30);
  /* Half of a budget that is too short, and the rest of it for other work; then what is left. */
  tune(&calls, 0.2, MMC_OK);
  assert_true(fake.asked >= 10 && fake.asked <= 11);
  assert_int_equal(fake.known_count, fake.asked);
  int before = fake.asked;
  fake.known_count = 0;
  tune(&calls, (double)INFINITY, MMC_OK);
  assert_int_equal(fake.asked, calls.count);
  assert_true(fake.asked > before);
  assert_int_equal(fake.known_count, calls.count); /* those recalled, too */
  fake.known_count = 0;
  tune(&calls, (double)INFINITY, MMC_OK);
  assert_int_equal(fake.asked, calls.count);
  tune(&calls, 0, MMC_OK); /* all of it is known */
  for (int k = 0; k < fake.known_count; k++) assert_true(fake.seconds[k] > 0);
  mmci_group_list_destroy(&calls);
  mmc_chain_destroy(chain);
}

/* What the device refuses after all. */
static void calls_that_cannot_be_made_are_passed_over(void **state) {
  (void)state;
  uint64_t random = first_seed;
  fake = (machine){.salt = 1, .most = 20, .refused = 5};
  mmc_chain *chain = chain_of(&random, 4, 1, 20);
  mmci_group_list calls = calls_of(chain);
  tune(&calls, (double)INFINITY, MMC_OK);
  assert_int_equal(fake.known_count, calls.count - 5);
  mmci_group_list_destroy(&calls);
  mmc_chain_destroy(chain);
}

/* A machine without memory has not said that it does not take a call: the next session asks again.
 */
static void out_of_memory_ends_the_session(void **state) {
  (void)state;
  uint64_t random = first_seed;
  fake = (machine){.salt = 1, .most = 20, .no_memory = 1};
  mmc_chain *chain = chain_of(&random, 4, 1, 20);
  mmci_group_list calls = calls_of(chain);
  tune(&calls, (double)INFINITY, MMC_E_NOMEM);
  assert_int_equal(fake.known_count, 0);
  tune(&calls, (double)INFINITY, MMC_OK);
  assert_int_equal(fake.known_count, calls.count);
  mmci_group_list_destroy(&calls);
  mmc_chain_destroy(chain);
}

/* ---- plans --------------------------------------------------------------------------------- */

static double call_of(const mmci_plan *plan, const int32_t *steps, int32_t count) {
  bool marked[16] = {false};
  int32_t operands[32], group_steps[16];
  mmci_plan_group group = {.steps = group_steps, .operands = operands, .step_count = count};
  for (int32_t i = 0; i < count; i++) {
    group_steps[i] = steps[i];
    marked[steps[i]] = true;
  }
  /* Operands along the chain. */
  int32_t n = plan->chain->n;
  for (int32_t f = 0; f < n; f++)
    for (int32_t i = 0; i < count; i++) {
      const mmci_plan_step *x = &plan->steps[steps[i]];
      const int32_t numbers[] = {x->left, x->right};
      for (int o = 0; o < 2; o++) {
        int32_t s = numbers[o] - n, first = s < 0 ? numbers[o] : plan->steps[s].first;
        if (first == f && (s < 0 || !marked[s])) operands[group.operand_count++] = numbers[o];
      }
    }
  mmci_group_problem call;
  mmci_error error;
  assert_int_equal(mmci_group_problem_create(plan, &group, MMCI_NATIVE, &call, &error), MMC_OK);
  double seconds = takes(NULL, &call.group) ? call_seconds(&call.group) : (double)INFINITY;
  mmci_group_problem_destroy(&call);
  return seconds;
}

/* The least that the sub-tree of a number takes, by trying every call that may end it. */
static double least_seconds(const mmci_plan *plan, int32_t number) {
  int32_t n = plan->chain->n, s = number - n;
  if (s < 0) return 0;
  const mmci_plan_step *x = &plan->steps[s];
  double best = product_seconds(x->m, x->k, x->n, plan->chain->batch) +
                least_seconds(plan, x->left) + least_seconds(plan, x->right);
  int32_t size = x->last - x->first, steps[16];
  for (int32_t i = 0; i < size; i++) steps[i] = s - size + 1 + i;
  if (size > 1) best = fmin(best, call_of(plan, steps, size));
  for (int side = 0; side < 2; side++) {
    int32_t child = (side == 0 ? x->left : x->right) - n, other = side == 0 ? x->right : x->left;
    if (child < 0) continue;
    const int32_t pair[] = {child, s};
    best = fmin(best, call_of(plan, pair, 2) + least_seconds(plan, other) +
                          least_seconds(plan, plan->steps[child].left) +
                          least_seconds(plan, plan->steps[child].right));
  }
  return best;
}

/* Of all orders. */
static double least_of_all(const mmc_chain *chain) {
  double least = (double)INFINITY;
  mmci_error error;
  bool found = true;
  for (int32_t number = 0; found; number++) {
    mmci_tree tree;
    mmci_plan plan;
    assert_int_equal(mmci_order_every(chain->n, number, &tree, &found, &error), MMC_OK);
    if (!found) break;
    assert_int_equal(mmci_plan_from_tree(chain, &tree, &plan, &error), MMC_OK);
    least = fmin(least, least_seconds(&plan, chain->n + plan.step_count - 1));
    mmci_plan_destroy(&plan);
  }
  return least;
}

/* Where every call was measured, the plan is the best of all orders and of all groups, or within
 * the percent for which orders of as many multiplications are not changed. */
static void plans_are_the_best_of_what_was_measured(void **state) {
  (void)state;
  int grouped = 0, alone = 0, changed = 0;
  for (uint64_t seed = first_seed; seed < first_seed + 300; seed++) {
    uint64_t random = seed;
    fake = (machine){.salt = seed, .most = 5 + random_below(&random, 12)};
    mmc_chain *chain = chain_of(&random, 2 + (int32_t)random_below(&random, 4),
                                1 + 999 * random_below(&random, 2), 12);
    mmci_group_list calls = calls_of(chain);
    tune(&calls, (double)INFINITY, MMC_OK);
    planner p;
    set_planner(&p);
    mmci_plan plan = plan_for_time(&p, chain);
    double least = least_of_all(chain), sum = 0;
    if (!(plan.time->predicted_s <= least * 1.011 && plan.time->predicted_s >= least * (1 - 1e-9)))
      fail_msg("seed %" PRIu64 ": %g s, not %g", seed, plan.time->predicted_s, least);
    for (int32_t s = 0; s < plan.step_count; s++) {
      sum += plan.steps[s].predicted_s;
      assert_int_equal(plan.steps[s].source, MMCI_MEASURED);
      alone += plan.steps[s].group < 0;
    }
    assert_true(fabs(sum - plan.time->predicted_s) <= 1e-9 * sum);
    for (int32_t g = 0; g < plan.group_count; g++) {
      const mmci_plan_group *group = &plan.groups[g];
      assert_int_equal(group->source, MMCI_MEASURED);
      double seconds = call_of(&plan, group->steps, group->step_count);
      assert_true(fabs(group->predicted_s - seconds) <= 1e-12 * seconds);
    }
    grouped += plan.group_count;
    changed += strcmp(plan.solver, "calls") == 0;
    mmci_plan_destroy(&plan);
    mmci_group_list_destroy(&calls);
    mmc_chain_destroy(chain);
  }
  printf("%d groups, %d products alone, %d orders changed\n", grouped, alone, changed);
  assert_true(grouped > 100 && alone > 100 && changed > 50);
}

/* Two products whose call is faster or slower by its measurement than they are, or not measured:
 * then the model says. */
static void what_is_not_measured_is_modelled(void **state) {
  (void)state;
  const int64_t dims[] = {10, 2, 10, 9}; /* one order is far better */
  mmc_chain *chain;
  mmci_error error;
  assert_int_equal(mmci_chain_create(MMC_F32, 3, dims, NULL, &chain, &error), MMC_OK);
  static const double shares[] = {0.99, 1.01, 0, 0};
  static const double modelled[] = {2, 0.1, 0.99, 1.01};
  for (int c = 0; c < 4; c++) {
    fake = (machine){.salt = 5, .most = 20};
    planner p;
    set_planner(&p);
    mmci_plan plan;
    assert_int_equal(mmci_plan_create(chain, "auto", mmci_within(UINT64_MAX), &plan, &error),
                     MMC_OK);
    double sum = 0;
    for (int32_t s = 0; s < 2; s++)
      sum += product_seconds(plan.steps[s].m, plan.steps[s].k, plan.steps[s].n, 1);
    p.machine.facts = (mmci_group_facts){.launch_s = modelled[c] * sum,
                                         .bytes_per_s = 1e30,
                                         .flops_per_s = 1e30,
                                         .width = 1,
                                         .tile = 1,
                                         .error = 0.5};
    p.machine.roofline = NULL;
    if (shares[c] > 0) {
      fake.known_count = 1;
      strcpy(fake.known[0], "call NNN 2x10x9:1*2 10x2x9:0*3 @1");
      fake.seconds[0] = shares[c] * sum;
    }
    assert_int_equal(mmci_plan_choose_groups(&plan, &p.machine, UINT64_MAX, &error), MMC_OK);
    assert_int_equal(plan.group_count, c == 0 || c == 2);
    if (plan.group_count == 1)
      assert_int_equal(plan.groups[0].source, c == 0 ? MMCI_MEASURED : MMCI_MODELLED);
    mmci_plan_destroy(&plan);
  }
  mmc_chain_destroy(chain);
}

/* A call that makes an order of more multiplications faster changes it only when it is so surely.
 */
static void only_a_sure_gain_changes_the_order(void **state) {
  (void)state;
  const int64_t dims[] = {1000, 16, 16, 16};
  mmc_chain *chain;
  mmci_error error;
  assert_int_equal(mmci_chain_create(MMC_F32, 3, dims, NULL, &chain, &error), MMC_OK);
  for (int sure = 0; sure < 2; sure++) {
    fake = (machine){.salt = 5, .most = 2000, .known_count = 2};
    planner p;
    set_planner(&p);
    p.error = sure ? 0.01 : 0.2;
    double fewest = product_seconds(16, 16, 16, 1) + product_seconds(1000, 16, 16, 1);
    strcpy(fake.known[0], "call NNN 1000x16x16:0*1 1000x16x16:3*2 @1");
    fake.seconds[0] = 0.9 * fewest;
    strcpy(fake.known[1], "call NNN 16x16x16:1*2 1000x16x16:0*3 @1");
    fake.seconds[1] = 2 * fewest;
    mmci_plan plan = plan_for_time(&p, chain);
    assert_int_equal(plan.group_count, sure);
    assert_int_equal(plan.time->by_time, sure);
    assert_string_equal(plan.solver, sure ? "calls" : "hu-shing");
    if (sure) assert_true(fabs(plan.time->gain_s - 0.1 * fewest) <= 1e-9 * fewest);
    mmci_plan_destroy(&plan);
  }
  mmc_chain_destroy(chain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_tell_calls_apart),
      cmocka_unit_test(long_names_are_short_and_differ),
      cmocka_unit_test(every_tree_comes_once),
      cmocka_unit_test(what_plans_ask_for_is_listed),
      cmocka_unit_test(devices_know_what_is_shared),
      cmocka_unit_test(nothing_is_measured_twice),
      cmocka_unit_test(calls_that_cannot_be_made_are_passed_over),
      cmocka_unit_test(out_of_memory_ends_the_session),
      cmocka_unit_test(plans_are_the_best_of_what_was_measured),
      cmocka_unit_test(what_is_not_measured_is_modelled),
      cmocka_unit_test(only_a_sure_gain_changes_the_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
