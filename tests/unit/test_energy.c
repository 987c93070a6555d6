/* test_energy.c: the model of energy, and plans for energy by ways that are made up: the choices
 * are the corners of the front that trying everything gives, bounds on the time hold, and the plan
 * for time is left only for surely fewer joules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "planner/energy_front.h"
#include "planner/fewest.h"
#include "planner/fit.h"

static bool near(double a, double b) {
  return fabs(a - b) <= 1e-9 * fabs(b);
}

/* ---- the model ----------------------------------------------------------------------------- */

enum { SAMPLES = 12 };

static mmci_energy_sample random_sample(uint64_t *random) {
  mmci_gemm gemm = mmci_gemm_tight(MMC_F32, MMCI_NATIVE, 1 + random_below(random, 5000),
                                   1 + random_below(random, 5000), 1 + random_below(random, 5000),
                                   MMC_OP_N, MMC_OP_N);
  double flops = mmci_flops(MMC_F32, gemm.m, gemm.k, gemm.n);
  return (mmci_energy_sample){.gemm = gemm,
                              .seconds = 1e-6 + flops / (1e11 * (1.5 + random_unit(random)))};
}

static mmci_energy_model random_model(uint64_t *random) {
  mmci_energy_model m = {.static_w = 1 + 100 * fabs(random_unit(random)),
                         .joules_per_flop = 1e-10 * fabs(random_unit(random)),
                         .joules_per_byte = 1e-8 * fabs(random_unit(random))};
  /* Whatever one is not there. */
  if (random_below(random, 4) == 0) m.static_w = 0;
  if (random_below(random, 4) == 0) m.joules_per_flop = 0;
  if (random_below(random, 4) == 0) m.joules_per_byte = 0;
  if (m.static_w + m.joules_per_flop + m.joules_per_byte == 0) m.static_w = 1;
  return m;
}

static void the_fit_recovers_known_constants(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    uint64_t random = seed;
    mmci_energy_model truth = random_model(&random);
    mmci_energy_sample samples[SAMPLES];
    for (int s = 0; s < SAMPLES; s++) {
      samples[s] = random_sample(&random);
      samples[s].joules = mmci_energy_joules(&truth, &samples[s].gemm, samples[s].seconds);
    }
    mmci_energy_model fit = mmci_energy_fit(samples, SAMPLES);
    if (!(fit.error <= 1e-6) || !fit.calibrated ||
        !(fabs(fit.static_w - truth.static_w) <= 1e-5 * truth.static_w + 1e-5) ||
        !(fabs(fit.joules_per_flop - truth.joules_per_flop) <=
          1e-5 * truth.joules_per_flop + 1e-15) ||
        !(fabs(fit.joules_per_byte - truth.joules_per_byte) <=
          1e-5 * truth.joules_per_byte + 1e-13))
      fail_msg("seed %llu: %g W %g %g, not %g W %g %g; error %g", (unsigned long long)seed,
               fit.static_w, fit.joules_per_flop, fit.joules_per_byte, truth.static_w,
               truth.joules_per_flop, truth.joules_per_byte, fit.error);
  }
}

static double loss_of(const mmci_energy_model *m, const mmci_energy_sample *samples, int count) {
  double loss = 0;
  for (int s = 0; s < count; s++) {
    double off =
        mmci_energy_joules(m, &samples[s].gemm, samples[s].seconds) / samples[s].joules - 1;
    loss += off * off;
  }
  return loss;
}

/* Whatever the samples, few or many, no model without a negative term fits better. */
static void no_model_fits_better(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    uint64_t random = seed;
    mmci_energy_model truth = random_model(&random);
    mmci_energy_sample samples[SAMPLES];
    int count = 1 + (int)random_below(&random, SAMPLES);
    for (int s = 0; s < count; s++) {
      samples[s] = random_sample(&random);
      samples[s].joules = mmci_energy_joules(&truth, &samples[s].gemm, samples[s].seconds) *
                          exp(0.7 * random_unit(&random));
    }
    mmci_energy_model fit = mmci_energy_fit(samples, count);
    double least = loss_of(&fit, samples, count);
    assert_true(fit.static_w >= 0 && fit.joules_per_flop >= 0 && fit.joules_per_byte >= 0);
    assert_true(fit.error >= 0 && isfinite(fit.error));
    for (int t = 0; t < 300; t++) {
      double step = pow(10, -4 * fabs(random_unit(&random)));
      mmci_energy_model other = fit;
      other.static_w = fmax(0, other.static_w + step * truth.static_w * random_unit(&random));
      other.joules_per_flop = fmax(0, other.joules_per_flop + step * 1e-10 * random_unit(&random));
      other.joules_per_byte = fmax(0, other.joules_per_byte + step * 1e-8 * random_unit(&random));
      if (loss_of(&other, samples, count) < least * (1 - 1e-6) - 1e-12)
        fail_msg("seed %llu: %g is less than %g", (unsigned long long)seed,
                 loss_of(&other, samples, count), least);
    }
  }
}

static void facts_come_back_or_are_refused(void **state) {
  (void)state;
  mmci_energy_model m = {90, 1e-11, 4e-11, 0.08, true}, back = {0};
  double facts[MMCI_ENERGY_FACTS];
  mmci_energy_facts(&m, facts);
  assert_true(mmci_energy_of_facts(facts, &back));
  assert_true(back.static_w == 90 && back.joules_per_flop == 1e-11);
  assert_true(back.joules_per_byte == 4e-11 && back.error == 0.08 && back.calibrated);
  const double bad[] = {-1, (double)NAN, (double)INFINITY};
  for (int f = 0; f < MMCI_ENERGY_FACTS; f++)
    for (int b = 0; b < 3; b++) {
      mmci_energy_facts(&m, facts);
      facts[f] = bad[b];
      assert_false(mmci_energy_of_facts(facts, &back));
    }
  const double nothing[MMCI_ENERGY_FACTS] = {0, 0, 0, 0.1};
  assert_false(mmci_energy_of_facts(nothing, &back));
}

/* ---- ways that are made up ------------------------------------------------------------------ */

typedef struct made_up {
  uint64_t seed;
  double error, factor; /* of joules: how wrong, and a factor on them */
  bool modelled;
} made_up;

/* The same for the same product, of any size: one to three ways, the first the fastest. */
static int ways(const void *user, const mmci_gemm *gemm, mmci_way out[MMCI_WAYS]) {
  const made_up *m = user;
  uint64_t hash = m->seed;
  const int64_t parts[] = {gemm->m, gemm->k, gemm->n};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    hash = random_bits(&hash) ^ (uint64_t)parts[i];
  double work = 1e-9 * (1 + (double)gemm->m * (double)gemm->k * (double)gemm->n);
  int count = 1 + (int)random_below(&hash, MMCI_WAYS);
  double seconds = work * exp(random_unit(&hash)), joules = 50 * work * exp(random_unit(&hash));
  for (int w = 0; w < count; w++) {
    out[w] = (mmci_way){
        .time = {.seconds = seconds, .source = MMCI_ARRAY, .recipe = mmci_recipe_whole(w)},
        .joules = joules * m->factor,
        .error = m->error,
        .modelled = m->modelled,
        .source = MMCI_MEASURED};
    seconds *= 1 + 0.3 * fabs(random_unit(&hash));
    joules *= 1 - 0.4 * fabs(random_unit(&hash));
  }
  return count;
}

static void price(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  mmci_way all[MMCI_WAYS];
  ways(user, gemm, all);
  *out = all[0].time;
}

typedef struct context {
  mmc_chain *chain;
  mmci_pricing pricing;
  mmci_energy_request request;
} context;

static void set_chain(context *c, const made_up *m, int64_t n, const int64_t *dims) {
  assert_int_equal(mmci_chain_create(MMC_F64, n, dims, NULL, &c->chain, NULL), MMC_OK);
  c->pricing = (mmci_pricing){.user = m, .price = price};
  c->request = (mmci_energy_request){
      .offers = {{.name = "native", .pricing = {.user = m, .ways = ways}}},
      .count = 1,
      .time = {.pricing = &c->pricing, .precision = MMCI_NATIVE, .notice = ""}};
}

static void random_chain(context *c, const made_up *m, uint64_t *random, int64_t n) {
  int64_t dims[128];
  random_dims(random, (int)random_below(random, 10), n, dims);
  set_chain(c, m, n, dims);
}

static mmci_plan plan(context *c, const char *solver, uint64_t limit) {
  mmci_plan out;
  mmci_error error;
  mmci_precision precision;
  if (mmci_plan_create_energetic(c->chain, solver, mmci_within(limit), &c->request, &out,
                                 &precision, &error) != MMC_OK ||
      mmci_plan_group_for_energy(&out, &c->request, limit, &error) != MMC_OK ||
      mmci_plan_price_energy(&out, &c->request, &error) != MMC_OK)
    fail_msg("%s", error.text);
  assert_int_equal(precision, MMCI_NATIVE);
  return out;
}

static const mmci_energy_choice *chosen_of(const mmci_plan *p) {
  return &p->energy->choices[p->energy->chosen];
}

/* ---- everything tried ---------------------------------------------------------------------- */

typedef struct everything {
  double (*points)[2];
  size_t count;
} everything;

static everything all_of(const context *c, int32_t i, int32_t j) {
  everything e = {calloc(200000, sizeof *e.points), 0};
  assert_non_null(e.points);
  if (j == i + 1) {
    e.count = 1;
    return e;
  }
  for (int32_t k = i + 1; k < j; k++) {
    everything left = all_of(c, i, k), right = all_of(c, k, j);
    mmci_way w[MMCI_WAYS];
    mmci_gemm gemm;
    mmci_chain_product(c->chain, MMCI_NATIVE, i, k, j, &gemm);
    const mmci_energy_pricing *pricing = &c->request.offers[0].pricing;
    int count = pricing->ways(pricing->user, &gemm, w);
    for (size_t l = 0; l < left.count; l++)
      for (size_t r = 0; r < right.count; r++)
        for (int t = 0; t < count; t++, e.count++) {
          assert_true(e.count < 200000);
          e.points[e.count][0] = left.points[l][0] + right.points[r][0] + w[t].time.seconds;
          e.points[e.count][1] = left.points[l][1] + right.points[r][1] + w[t].joules;
        }
    free(left.points);
    free(right.points);
  }
  return e;
}

/* For any weights the best of the choices is the best of everything, and no choice is beaten. */
static void choices_are_the_hull_of_everything(void **state) {
  (void)state;
  int several = 0;
  for (uint64_t seed = 1; seed <= 150; seed++) {
    uint64_t random = seed;
    made_up m = {.seed = seed, .factor = 1};
    context c;
    random_chain(&c, &m, &random, 2 + random_below(&random, 4));
    mmci_plan out = plan(&c, "auto", UINT64_MAX);
    const mmci_plan_energy *energy = out.energy;
    everything all = all_of(&c, 0, c.chain->n);
    for (int t = 0; t < 60; t++) {
      double weight = t == 0 ? 0 : t == 1 ? 1 : fabs(random_unit(&random));
      double s = weight, j = (1 - weight) / 50, best = (double)INFINITY, ours = (double)INFINITY;
      for (size_t p = 0; p < all.count; p++)
        best = fmin(best, s * all.points[p][0] + j * all.points[p][1]);
      for (int p = 0; p < energy->count; p++)
        ours = fmin(ours, s * energy->choices[p].seconds + j * energy->choices[p].joules);
      if (energy->count < MMCI_ENERGY_CHOICES && !(ours <= best * (1 + 1e-7)))
        fail_msg("seed %llu: %g instead of %g", (unsigned long long)seed, ours, best);
      assert_true(ours >= best * (1 - 1e-9));
    }
    for (int p = 0; p < energy->count; p++)
      for (size_t q = 0; q < all.count && energy->count < MMCI_ENERGY_CHOICES; q++)
        if (all.points[q][0] < energy->choices[p].seconds * (1 - 1e-9) &&
            all.points[q][1] < energy->choices[p].joules * (1 - 1e-9) && p != energy->chosen)
          fail_msg("seed %llu: choice %d is beaten", (unsigned long long)seed, p);
    for (int p = 1; p < energy->count; p++) {
      assert_true(energy->choices[p].seconds > energy->choices[p - 1].seconds);
      assert_true(energy->choices[p].joules < energy->choices[p - 1].joules);
    }
    several += energy->count > 2;
    free(all.points);
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
  assert_true(several > 50);
}

/* Where joules are exact, it is the least of the choices within the bound. */
static void the_bound_on_the_time_holds(void **state) {
  (void)state;
  int bounded = 0, changed = 0;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    uint64_t random = seed;
    made_up m = {.seed = seed, .factor = 1};
    context c;
    random_chain(&c, &m, &random, 2 + random_below(&random, 8));
    mmci_plan free_of = plan(&c, "auto", UINT64_MAX);
    c.request.max_slowdown = 1 + 0.5 * fabs(random_unit(&random));
    mmci_plan out = plan(&c, "auto", UINT64_MAX);
    const mmci_energy_choice *chosen = chosen_of(&out);
    double bound = c.request.max_slowdown * out.energy->time_seconds;
    if (!(chosen->seconds <= bound * (1 + 1e-12)))
      fail_msg("seed %llu: %g exceeds %g", (unsigned long long)seed, chosen->seconds, bound);
    for (int p = 0; p < out.energy->count; p++)
      if (out.energy->choices[p].seconds <= bound * (1 - 1e-12))
        assert_true(chosen->joules <= out.energy->choices[p].joules * (1 + 1e-12));
    assert_true(chosen->joules <= out.energy->time_joules * (1 + 1e-12));
    assert_true(chosen_of(&free_of)->joules <= chosen->joules * (1 + 1e-12));
    bounded += chosen_of(&free_of)->joules < chosen->joules * (1 - 1e-9);
    changed += out.energy->kept[0] == '\0';
    mmci_plan_destroy(&free_of);
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
  assert_true(bounded > 20 && changed > 50);
}

/* Of one product every way is looked at, those above the line between two others too. */
static void a_single_product_has_the_best_way_within_the_bound(void **state) {
  (void)state;
  int inside = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    uint64_t random = seed;
    made_up m = {.seed = seed, .factor = 1};
    context c;
    random_chain(&c, &m, &random, 2);
    c.request.max_slowdown = 1 + 0.3 * fabs(random_unit(&random));
    mmci_plan out = plan(&c, "auto", UINT64_MAX);
    mmci_way all[MMCI_WAYS];
    mmci_gemm gemm;
    mmci_chain_product(c.chain, MMCI_NATIVE, 0, 1, 2, &gemm);
    int count = ways(&m, &gemm, all), best = 0;
    for (int w = 1; w < count; w++)
      if (all[w].time.seconds <= c.request.max_slowdown * all[0].time.seconds &&
          all[w].joules < all[best].joules)
        best = w;
    if (out.energy->joules != all[best].joules)
      fail_msg("seed %llu: %g instead of %g", (unsigned long long)seed, out.energy->joules,
               all[best].joules);
    inside += best > 0 && best < count - 1;
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
  assert_true(inside > 20);
}

/* ---- what is known otherwise --------------------------------------------------------------- */

/* 100x1x100x1: (A1 A2) A3 makes a large intermediate of 100 x 100, A1 (A2 A3) a number. Joules go
 * by what is written, seconds the other way round. */
static int opposed_ways(const void *user, const mmci_gemm *gemm, mmci_way out[MMCI_WAYS]) {
  (void)user;
  bool wide = gemm->m * gemm->n > 1000;
  out[0] = (mmci_way){
      .time = {.seconds = wide ? 1e-3 : 3e-3, .source = MMCI_ARRAY, .recipe = mmci_recipe_whole(0)},
      .joules = wide ? 9 : 1,
      .error = 0.01,
      .source = MMCI_MEASURED};
  return 1;
}

static void opposed_price(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  mmci_way all[MMCI_WAYS];
  opposed_ways(user, gemm, all);
  *out = all[0].time;
}

static void the_optimum_differs_from_that_for_time(void **state) {
  (void)state;
  context c;
  const int64_t dims[] = {100, 1, 100, 1};
  set_chain(&c, NULL, 3, dims);
  c.pricing.price = opposed_price;
  c.request.offers[0].pricing.ways = opposed_ways;
  mmci_plan out = plan(&c, "auto", UINT64_MAX);
  assert_int_equal(out.energy->count, 2);
  assert_true(near(out.energy->time_seconds, 4e-3) && near(out.energy->time_joules, 10));
  assert_true(near(out.energy->joules, 2) && near(out.time->predicted_s, 6e-3));
  assert_string_equal(out.energy->kept, "");
  assert_int_equal(out.energy->chosen, 1);
  assert_int_equal(out.tree.products[0].left, 1); /* A2 A3 */
  mmci_plan_destroy(&out);
  c.request.max_slowdown = 1.1;
  out = plan(&c, "auto", UINT64_MAX);
  assert_true(near(out.energy->joules, 10));
  assert_string_equal(out.energy->kept,
                      "no choice within the bound on the time is predicted to take fewer joules");
  mmci_plan_destroy(&out);
  mmc_chain_destroy(c.chain);
}

/* What joules may be off by: of products that both choices have alike it does not count. */
static void only_a_sure_gain_changes_the_plan(void **state) {
  (void)state;
  int kept = 0, changed = 0;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    uint64_t random = seed;
    made_up exact = {.seed = seed, .factor = 1}, vague = exact;
    vague.error = 0.3 * fabs(random_unit(&random));
    vague.modelled = seed % 2;
    context c;
    random_chain(&c, &exact, &random, 2 + random_below(&random, 6));
    mmci_plan sure = plan(&c, "auto", UINT64_MAX);
    c.request.offers[0].pricing.user = &vague;
    mmci_plan out = plan(&c, "auto", UINT64_MAX);
    double gain = out.energy->time_joules - chosen_of(&out)->joules;
    if (out.energy->kept[0] == '\0') {
      assert_true(gain > 0);
      changed++;
    } else {
      assert_true(fabs(gain) <= 1e-9 * out.energy->time_joules);
      kept += sure.energy->kept[0] == '\0';
    }
    vague.error = 3;
    mmci_plan blind = plan(&c, "auto", UINT64_MAX);
    assert_string_not_equal(blind.energy->kept, "");
    mmci_plan_destroy(&blind);
    mmci_plan_destroy(&sure);
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
  assert_true(kept > 10 && changed > 50);
}

static void a_precision_of_fewer_joules_is_taken(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 50; seed++) {
    uint64_t random = seed;
    made_up asked = {.seed = seed, .factor = 1}, other = {.seed = seed, .factor = 0.25};
    context c;
    random_chain(&c, &asked, &random, 2 + random_below(&random, 5));
    c.request.offers[0].precision = MMCI_FAITHFUL;
    c.request.offers[1] = (mmci_energy_offer){
        .precision = MMCI_NATIVE, .name = "less", .pricing = {.user = &other, .ways = ways}};
    c.request.count = 2;
    mmci_plan out;
    mmci_precision precision;
    mmci_error error;
    assert_int_equal(mmci_plan_create_energetic(c.chain, "auto", mmci_within(UINT64_MAX),
                                                &c.request, &out, &precision, &error),
                     MMC_OK);
    assert_int_equal(precision, MMCI_NATIVE);
    assert_string_equal(chosen_of(&out)->precision, "less");
    assert_int_equal(mmci_plan_price_energy(&out, &c.request, &error), MMC_OK);
    assert_true(out.energy->joules <= 0.25 * out.energy->time_joules * (1 + 1e-12));
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
}

/* ---- steps, limits, lengths ---------------------------------------------------------------- */

static void steps_add_up(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 100; seed++) {
    uint64_t random = seed;
    made_up m = {.seed = seed, .factor = 1};
    context c;
    random_chain(&c, &m, &random, 1 + random_below(&random, 9));
    mmci_plan out = plan(&c, seed % 2 != 0 ? "auto" : "left-to-right", UINT64_MAX);
    double seconds = 0, joules = 0;
    for (int32_t s = 0; s < c.chain->n - 1; s++) {
      const mmci_plan_step *step = &out.steps[s];
      mmci_gemm gemm =
          mmci_gemm_tight(MMC_F64, MMCI_NATIVE, step->m, step->k, step->n, MMC_OP_N, MMC_OP_N);
      mmci_way all[MMCI_WAYS];
      int count = ways(&m, &gemm, all), found = -1;
      for (int w = 0; w < count; w++)
        if (all[w].joules == step->predicted_j && all[w].time.seconds == step->predicted_s)
          found = w;
      assert_true(found >= 0);
      assert_int_equal(step->recipe != NULL ? step->recipe->nodes[0].variant : 0, found);
      assert_int_equal(step->joules_source, MMCI_MEASURED);
      seconds += step->predicted_s;
      joules += step->predicted_j;
    }
    assert_true(seconds == out.time->predicted_s && joules == out.energy->joules);
    assert_true(seconds == chosen_of(&out)->seconds && joules == chosen_of(&out)->joules);
    if (seed % 2 == 0 && c.chain->n > 1) assert_int_equal(out.tree.products[0].left, 0);
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
}

/* Every product by padded copies or, when user is not NULL, by the plain call too. */
static int padded_ways(const void *user, const mmci_gemm *gemm, mmci_way out[MMCI_WAYS]) {
  (void)gemm;
  out[0] = (mmci_way){.time = {.seconds = 1e-6, .plain_s = 2e-6, .source = MMCI_MEASURED},
                      .joules = 1,
                      .source = MMCI_MEASURED};
  out[0].time.recipe = out[1].time.recipe = mmci_recipe_whole(0);
  out[0].time.recipe.pad = 8;
  if (user == NULL) return 1;
  out[1] = (mmci_way){
      .time = {.seconds = 3e-6, .source = MMCI_MEASURED}, .joules = 5, .source = MMCI_UNKNOWN};
  out[1].time.recipe = mmci_recipe_whole(0);
  return 2;
}

static void price_padded(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  mmci_way all[MMCI_WAYS];
  padded_ways(user, gemm, all);
  *out = all[0].time;
}

/* Copies have places, and where there is no room for them the step is a plain call, at its price.
 */
static void padding_has_a_place(void **state) {
  (void)state;
  const int64_t dims[] = {3, 5, 7};
  const made_up m = {0};
  for (int i = 0; i < 4; i++) {
    bool has_room = i % 2 != 0, knows_plain = i / 2 != 0;
    context c;
    set_chain(&c, &m, 2, dims);
    c.pricing = (mmci_pricing){.user = knows_plain ? &m : NULL, .price = price_padded};
    c.request.offers[0].pricing = (mmci_energy_pricing){
        .user = knows_plain ? &m : NULL, .ways = padded_ways, .model = {.static_w = 100}};
    mmci_plan out;
    mmci_error error;
    mmci_precision precision;
    assert_int_equal(mmci_plan_create_energetic(c.chain, "auto", mmci_within(UINT64_MAX),
                                                &c.request, &out, &precision, &error),
                     MMC_OK);
    mmci_plan_machine machine = {.queues = 1, .memory_bytes = has_room ? 1 << 20 : 64};
    assert_int_equal(mmci_plan_fit(&out, &machine, UINT64_MAX, &error), MMC_OK);
    assert_int_equal(mmci_plan_price_energy(&out, &c.request, &error), MMC_OK);
    const mmci_plan_step *step = &out.steps[0];
    assert_int_equal(step->recipe != NULL, has_room);
    assert_int_equal(out.padding_bytes > 0, has_room);
    double seconds = has_room ? 1e-6 : knows_plain ? 3e-6 : 2e-6;
    double joules = has_room ? 1 : knows_plain ? 5 : 100 * 2e-6;
    assert_true(near(step->predicted_s, seconds) && near(step->predicted_j, joules));
    assert_true(near(out.time->predicted_s, seconds) && near(out.energy->joules, joules));
    assert_int_equal(chosen_of(&out)->recipes, has_room);
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
}

static void a_memory_limit_holds(void **state) {
  (void)state;
  int limited = 0;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    uint64_t random = seed;
    made_up m = {.seed = seed, .factor = 1};
    context c;
    random_chain(&c, &m, &random, 3 + random_below(&random, 5));
    mmci_plan free_of = plan(&c, "auto", UINT64_MAX), out;
    uint64_t limit = free_of.workspace_bytes - free_of.workspace_bytes / (2 + seed % 5);
    mmci_error error;
    mmci_precision precision;
    mmc_status status = mmci_plan_create_energetic(c.chain, "auto", mmci_within(limit), &c.request,
                                                   &out, &precision, &error);
    if (status != MMC_E_MEMORY_LIMIT) {
      assert_int_equal(status, MMC_OK);
      assert_true(out.workspace_bytes <= limit);
      limited += out.workspace_bytes < free_of.workspace_bytes;
      mmci_plan_destroy(&out);
    }
    mmci_plan_destroy(&free_of);
    mmc_chain_destroy(c.chain);
  }
  assert_true(limited > 30);
}

/* The longest that is ordered, and longer ones, of which only how products are computed is chosen.
 */
static void long_chains_have_their_ways_chosen(void **state) {
  (void)state;
  for (int64_t n = MMCI_TIME_MOST_FACTORS; n <= MMCI_TIME_MOST_FACTORS + 20; n += 20) {
    uint64_t random = 5;
    made_up m = {.seed = 3, .factor = 1};
    int64_t dims[128];
    context c;
    random_dims(&random, 0, n, dims);
    set_chain(&c, &m, n, dims);
    mmci_plan out = plan(&c, "auto", UINT64_MAX), fewest;
    assert_int_equal(mmci_plan_create(c.chain, "auto", mmci_within(UINT64_MAX), &fewest, NULL),
                     MMC_OK);
    assert_string_equal(out.solver, n > MMCI_TIME_MOST_FACTORS ? "hu-shing" : "table");
    if (n > MMCI_TIME_MOST_FACTORS)
      assert_memory_equal(out.tree.products, fewest.tree.products,
                          (size_t)(n - 1) * sizeof *out.tree.products);
    assert_true(out.energy->joules < out.energy->time_joules);
    assert_true(out.energy->count <= MMCI_ENERGY_CHOICES + 1);
    mmci_plan_destroy(&fewest);
    mmci_plan_destroy(&out);
    mmc_chain_destroy(c.chain);
  }
}

/* ---- groups -------------------------------------------------------------------------------- */

/* A device that takes anything as one call. */
typedef struct grouping {
  context c;
  mmci_group_machine machine;
  double measured_share; /* > 0: joules are measured, so much of what the model says */
} grouping;

static const mmci_energy_model group_model = {100, 1e-11, 1e-10, 0.1, true};

static mmc_status takes(const void *user, const mmci_group *group, bool *out, double *seconds,
                        double *doubt, mmci_error *error) {
  (void)user, (void)group, (void)doubt, (void)error;
  *seconds = (double)NAN;
  *out = true;
  return MMC_OK;
}

static int one_way(const void *user, const mmci_gemm *gemm, mmci_way out[MMCI_WAYS]) {
  const grouping *g = user;
  double seconds = 5e-6 + mmci_flops(gemm->dtype, gemm->m, gemm->k, gemm->n) / 1e12;
  bool measured = g->measured_share > 0;
  out[0] = (mmci_way){.time = {.seconds = seconds, .source = MMCI_MODELLED, .modelled = true},
                      .joules = mmci_energy_joules(&group_model, gemm, seconds) *
                                (measured ? g->measured_share : 1),
                      .error = measured ? 0.01 : group_model.error,
                      .modelled = !measured,
                      .source = measured ? MMCI_MEASURED : MMCI_MODELLED};
  out[0].time.recipe = mmci_recipe_whole(0);
  return 1;
}

static void price_one(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  mmci_way way[MMCI_WAYS];
  one_way(user, gemm, way);
  *out = way[0].time;
}

/* g must stay where it is. */
static void set_grouping(grouping *g, const char *text) {
  mmci_error error;
  *g = (grouping){0};
  assert_int_equal(mmci_chain_parse(text, &g->c.chain, &error), MMC_OK);
  g->c.pricing = (mmci_pricing){.user = g, .price = price_one};
  g->machine = (mmci_group_machine){.supports = takes,
                                    .facts = {.launch_s = 5e-6,
                                              .bytes_per_s = 1e12,
                                              .flops_per_s = 1e12,
                                              .product_s = 1e-7,
                                              .handover_s = 1e-7,
                                              .width = 8,
                                              .tile = 64,
                                              .error = 0.5},
                                    .pricing = &g->c.pricing};
  g->c.request = (mmci_energy_request){
      .offers = {{.name = "native",
                  .pricing = {.user = g, .ways = one_way, .model = group_model},
                  .machine = &g->machine}},
      .count = 1,
      .time = {.pricing = &g->c.pricing, .notice = "", .machine = &g->machine}};
}

static void close_grouping(grouping *g, mmci_plan *out) {
  mmci_plan_destroy(out);
  mmc_chain_destroy(g->c.chain);
}

/* By the model a group of less time takes fewer joules, those of its time, its flops and what it
 * moves; and all of it counts in what is said of the plan. */
static void groups_are_formed_and_priced(void **state) {
  (void)state;
  for (int64_t batch = 1; batch <= 50; batch += 49) {
    grouping g;
    set_grouping(&g, batch == 1 ? "f64:24x24x24x24x24" : "f64:24x24x24x24x24@50");
    mmci_plan out = plan(&g.c, "auto", UINT64_MAX);
    assert_int_equal(out.group_count, 1);
    const mmci_plan_group *group = &out.groups[0];
    assert_int_equal(group->step_count, 3);
    double seconds = group->predicted_s, flops = 3 * 2.0 * 24 * 24 * 24 * (double)batch;
    double bytes = 5 * 24 * 24 * 8 * (double)batch;
    assert_true(near(group->predicted_j, 100 * seconds + 1e-11 * flops + 1e-10 * bytes));
    assert_true(near(out.energy->joules, group->predicted_j));
    assert_true(near(out.time->predicted_s, seconds));
    assert_true(near(out.energy->time_seconds, seconds));
    assert_true(near(chosen_of(&out)->seconds, seconds) &&
                near(chosen_of(&out)->joules, out.energy->joules));
    double step_s = 0, step_j = 0;
    for (int32_t s = 0; s < out.step_count; s++) {
      step_s += out.steps[s].predicted_s;
      step_j += out.steps[s].predicted_j;
      assert_int_equal(out.steps[s].joules_source, MMCI_MODELLED);
    }
    assert_true(near(step_s, seconds) && near(step_j, out.energy->joules));
    mmci_plan_destroy(&out);
    /* The same without such calls takes more of both. */
    g.c.request.offers[0].machine = g.c.request.time.machine = NULL;
    out = plan(&g.c, "auto", UINT64_MAX);
    assert_int_equal(out.group_count, 0);
    assert_true(out.time->predicted_s > seconds && out.energy->joules > 100 * seconds);
    close_grouping(&g, &out);
  }
}

static bool share_of_pair(const void *user, const mmci_group *group, mmci_group_share *out) {
  (void)user;
  *out = (mmci_group_share){.time = 0.98, .joules = 0.95};
  return group->count == 2;
}

/* A measured share of two products' joules is all that is known of the call, whatever the model of
 * energy says of it. */
static void measured_shares_form_groups(void **state) {
  (void)state;
  for (int with = 0; with < 2; with++) {
    grouping g;
    set_grouping(&g, "f64:24x24x24x24");
    g.measured_share = 0.05;
    g.machine.facts.modelled_side = 1;
    g.machine.share = with ? share_of_pair : NULL;
    mmci_plan out = plan(&g.c, "auto", UINT64_MAX);
    assert_int_equal(out.group_count, with);
    const mmci_gemm one = {.dtype = MMC_F64, .m = 24, .k = 24, .n = 24, .batch = 1};
    mmci_way way[MMCI_WAYS];
    one_way(&g, &one, way);
    assert_true(near(out.time->predicted_s, 2 * way[0].time.seconds * (with ? 0.98 : 1)));
    assert_true(near(out.energy->joules, 2 * way[0].joules * (with ? 0.95 : 1)));
    close_grouping(&g, &out);
  }
}

/* Where products were measured to take far fewer joules than the model says, no group is worth its
 * joules; within a bound on the time there is the plan for time, with its groups, still. */
static void measured_joules_forbid_groups(void **state) {
  (void)state;
  grouping g;
  set_grouping(&g, "f64:24x24x24x24x24");
  mmci_plan out;
  const double shares[] = {2, 0.05};
  for (int i = 0; i < 2; i++) {
    g.measured_share = shares[i];
    g.c.request.max_slowdown = 0;
    out = plan(&g.c, "auto", UINT64_MAX);
    assert_int_equal(out.group_count, shares[i] > 1);
    const double time_seconds = out.energy->time_seconds, joules = out.energy->joules;
    assert_true(joules <= out.energy->time_joules * (1 + 1e-9));
    if (shares[i] < 1) {
      assert_string_equal(out.energy->kept, "");
      assert_true(out.time->predicted_s > 2 * time_seconds);
      assert_int_equal(chosen_of(&out)->source, MMCI_MEASURED);
    }
    mmci_plan_destroy(&out);
    g.c.request.max_slowdown = 1.5;
    out = plan(&g.c, "auto", UINT64_MAX);
    assert_int_equal(out.group_count, 1);
    assert_true(near(out.energy->time_seconds, time_seconds));
    assert_true(out.time->predicted_s <= 1.5 * time_seconds);
    mmci_plan_destroy(&out);
    g.c.request.max_slowdown = 100;
    out = plan(&g.c, "auto", UINT64_MAX);
    assert_true(near(out.energy->joules, joules));
    mmci_plan_destroy(&out);
  }
  mmc_chain_destroy(g.c.chain);
}

/* Random chains: bounds hold, with groups in what is bounded and in the bound. */
static void bounds_hold_with_groups(void **state) {
  (void)state;
  int grouped = 0, ungrouped = 0;
  for (uint64_t seed = 1; seed <= 150; seed++) {
    uint64_t random = seed;
    char text[200];
    int at = snprintf(text, sizeof text, "f64:%d", 1 + (int)random_below(&random, 200));
    for (int n = 2 + (int)random_below(&random, 6); n > 0; n--)
      at +=
          snprintf(text + at, sizeof text - (size_t)at, "x%d", 1 + (int)random_below(&random, 200));
    grouping g;
    set_grouping(&g, text);
    g.measured_share = random_below(&random, 2) == 0 ? 0 : 0.05 + fabs(random_unit(&random));
    g.c.request.max_slowdown = 1 + fabs(random_unit(&random));
    mmci_plan out = plan(&g.c, "auto", UINT64_MAX), timed;
    mmci_error error;
    assert_int_equal(mmci_plan_create_timed(g.c.chain, "auto", mmci_within(UINT64_MAX),
                                            &g.c.request.time, &timed, &error),
                     MMC_OK);
    assert_int_equal(mmci_plan_choose_groups(&timed, &g.machine, UINT64_MAX, &error), MMC_OK);
    assert_int_equal(mmci_plan_price(&timed, &g.c.request.time, &error), MMC_OK);
    if (!(fabs(out.energy->time_seconds - timed.time->predicted_s) <=
          1e-9 * timed.time->predicted_s) ||
        !(out.time->predicted_s <= g.c.request.max_slowdown * timed.time->predicted_s * (1 + 1e-9)))
      fail_msg("seed %llu, %s: %g s, the plan for time %g s, said to take %g s",
               (unsigned long long)seed, text, out.time->predicted_s, timed.time->predicted_s,
               out.energy->time_seconds);
    grouped += out.group_count > 0;
    ungrouped += out.group_count == 0 && timed.group_count > 0;
    mmci_plan_destroy(&timed);
    close_grouping(&g, &out);
  }
  assert_true(grouped > 40 && ungrouped > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_fit_recovers_known_constants),
      cmocka_unit_test(no_model_fits_better),
      cmocka_unit_test(facts_come_back_or_are_refused),
      cmocka_unit_test(choices_are_the_hull_of_everything),
      cmocka_unit_test(the_bound_on_the_time_holds),
      cmocka_unit_test(a_single_product_has_the_best_way_within_the_bound),
      cmocka_unit_test(the_optimum_differs_from_that_for_time),
      cmocka_unit_test(only_a_sure_gain_changes_the_plan),
      cmocka_unit_test(a_precision_of_fewer_joules_is_taken),
      cmocka_unit_test(padding_has_a_place),
      cmocka_unit_test(steps_add_up),
      cmocka_unit_test(a_memory_limit_holds),
      cmocka_unit_test(long_chains_have_their_ways_chosen),
      cmocka_unit_test(groups_are_formed_and_priced),
      cmocka_unit_test(measured_shares_form_groups),
      cmocka_unit_test(measured_joules_forbid_groups),
      cmocka_unit_test(bounds_hold_with_groups),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
