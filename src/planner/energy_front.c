#include "planner/energy_front.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/explain.h"
#include "plan/layout.h"
#include "planner/fewest.h"
#include "planner/fit.h"

/* ---- ways ---------------------------------------------------------------------------------- */

/* The seconds and joules of a way. */
typedef struct point {
  double seconds, joules;
} point;

static double weigh(mmci_weights w, point p) {
  return w.seconds * p.seconds + (w.joules > 0 ? w.joules * p.joules : 0);
}

/* Returns the way of least weighted sum, of equals the first; for time alone, that of the plan for
 * time. */
static int pick(mmci_weights w, const point *points, int count) {
  double bound_s = w.max_slowdown > 0 ? w.max_slowdown * points[0].seconds : (double)INFINITY;
  int best = 0;
  for (int i = 1; i < count && w.joules > 0; i++)
    if (points[i].seconds <= bound_s && weigh(w, points[i]) < weigh(w, points[best])) best = i;
  return best;
}

static int ways_of_gemm(const mmci_energy_offer *offer, const mmci_gemm *gemm,
                        mmci_way ways[MMCI_WAYS], point points[MMCI_WAYS]) {
  int count = offer->pricing.ways(offer->pricing.user, gemm, ways);
  for (int i = 0; i < count; i++) points[i] = (point){ways[i].time.seconds, ways[i].joules};
  return count;
}

/* Lists the ways of a product that is computed so often, as one call. */
static int ways_of(const mmc_chain *chain, const mmci_energy_offer *offer, mmci_range r,
                   int64_t times, mmci_way ways[MMCI_WAYS], point points[MMCI_WAYS]) {
  mmci_gemm gemm;
  mmci_chain_product(chain, offer->precision, r.first, r.split, r.last, &gemm);
  gemm.batch = times;
  int count = ways_of_gemm(offer, &gemm, ways, points);
  for (int i = 0; i < count && times == 0; i++)
    points[i].seconds = points[i].joules = ways[i].time.seconds = ways[i].joules = 0;
  return count;
}

/* Returns the number of the way in which a product is computed so often for some weights. */
static int way_of(const mmc_chain *chain, const mmci_energy_offer *offer, mmci_weights weights,
                  mmci_range r, int64_t times, mmci_way *out) {
  mmci_way ways[MMCI_WAYS];
  point points[MMCI_WAYS];
  int count = ways_of(chain, offer, r, times, ways, points), best = pick(weights, points, count);
  *out = ways[best];
  return best;
}

/* ---- groups -------------------------------------------------------------------------------- */

/* An offer, whose prices and weights decide about groups. */
typedef struct weighed_offer {
  const mmci_energy_offer *offer;
  mmci_weights weights;
} weighed_offer;

static void price_alone(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  const weighed_offer *x = user;
  mmci_way ways[MMCI_WAYS];
  point points[MMCI_WAYS];
  int count = ways_of_gemm(x->offer, gemm, ways, points);
  *out = ways[pick(x->weights, points, count)].time;
}

/* Returns the bytes that a group reads and writes, for all chains. */
static double group_bytes(const mmci_plan *plan, const mmci_plan_group *group) {
  const mmc_chain *chain = plan->chain;
  const mmci_plan_step *last = &plan->steps[group->steps[group->step_count - 1]];
  double elements = (double)last->m * (double)last->n;
  for (int32_t o = 0; o < group->operand_count; o++) {
    int32_t number = group->operands[o], step = number - chain->n;
    elements += step < 0 ? (double)chain->dims[number] * (double)chain->dims[number + 1]
                         : (double)plan->steps[step].m * (double)plan->steps[step].n;
  }
  return elements * (double)mmc_dtype_size(chain->dtype) * (double)chain->batch;
}

static bool joules_allow(const void *user, const mmci_plan *plan, const mmci_plan_group *group,
                         double seconds, double share, double *joules) {
  const weighed_offer *x = user;
  const mmc_chain *chain = plan->chain;
  const mmci_energy_model *model = &x->offer->pricing.model;
  /* The group computes all for every chain; separate products of shared factors take less. */
  double flops = 0, all_j = 0, separate_j = 0, measured_j = 0, model_j = 0;
  for (int32_t i = 0; i < group->step_count; i++) {
    const mmci_plan_step *step = &plan->steps[group->steps[i]];
    const mmci_range r = mmci_plan_range(plan, step);
    mmci_way way, alone;
    way_of(chain, x->offer, x->weights, r, chain->batch, &way);
    way_of(chain, x->offer, x->weights, r, mmci_chain_product_batch(chain, r.first, r.last),
           &alone);
    flops += mmci_flops(chain->dtype, step->m, step->k, step->n) * (double)chain->batch;
    all_j += way.joules;
    separate_j += alone.joules;
    if (way.modelled) continue;
    mmci_gemm gemm = {
        .dtype = chain->dtype, .m = step->m, .k = step->k, .n = step->n, .batch = chain->batch};
    measured_j += way.joules;
    model_j += mmci_energy_joules(model, &gemm, way.time.seconds);
  }
  if (isfinite(share)) {
    *joules = all_j * share;
    return true;
  }
  *joules = mmci_energy_of_work(model, seconds, flops, group_bytes(plan, group));
  /* When the model gives too few joules for the products of a group, it gives too few for the
   * group. */
  if (measured_j > model_j && model_j > 0) *joules *= measured_j / model_j;
  return x->weights.joules <= 0 || measured_j <= 0 || *joules * (1 + model->error) < separate_j;
}

/* Describes the device of an offer, which has one, for these weights. All that is pointed at must
 * stay. */
static mmci_group_machine machine_of(const weighed_offer *x, mmci_pricing *pricing) {
  *pricing = (mmci_pricing){.user = x, .price = price_alone};
  mmci_group_machine machine = *x->offer->machine;
  machine.pricing = pricing;
  machine.joules_allow = joules_allow;
  machine.joules_user = x;
  return machine;
}

/* ---- a search ------------------------------------------------------------------------------ */

/* What a step takes; a step of a group has its share of the call. */
typedef struct taken {
  int way;
  double seconds, joules;
  double error; /* relative error of joules, see mmci_way */
  bool modelled;
  mmci_provenance source;
} taken;

typedef struct candidate {
  mmci_plan plan;
  mmci_energy_choice choice; /* its tree is the plan's */
  taken *steps;
} candidate;

static void destroy_candidate(candidate *c) {
  mmci_plan_destroy(&c->plan);
  free(c->steps);
}

/* The points of a product's ways. */
typedef struct product {
  int count;
  point points[MMCI_WAYS];
} product;

typedef struct search {
  const mmc_chain *chain;
  const char *solver;
  mmci_bounds bounds;
  const mmci_energy_request *request;
  const mmci_energy_offer *offer; /* the offer whose choices are looked for */
  mmci_weights weights;           /* weights of seconds and joules in the sum that is made least */
  /* Products of all orders, see product_number(); NULL when the order is given. */
  product *products;
  candidate candidates[MMCI_ENERGY_CANDIDATES];
  int count;
  mmci_error *error;
} search;

static bool orders_are_free(const search *s) {
  return strcmp(s->solver, "auto") == 0 && s->chain->n <= MMCI_TIME_MOST_FACTORS;
}

/* Numbers the products (i, k, j), i < k < j, by the combinatorial number system. */
static size_t product_number(int64_t i, int64_t k, int64_t j) {
  return (size_t)(j * (j - 1) * (j - 2) / 6 + k * (k - 1) / 2 + i);
}

static void fill_products(search *s) {
  mmci_way ways[MMCI_WAYS];
  for (int32_t j = 2; j <= s->chain->n; j++)
    for (int32_t k = 1; k < j; k++)
      for (int32_t i = 0; i < k; i++) {
        product *p = &s->products[product_number(i, k, j)];
        p->count = ways_of(s->chain, s->offer, (mmci_range){i, k, j},
                           mmci_chain_product_batch(s->chain, i, j), ways, p->points);
      }
}

static double price(void *user, int64_t i, int64_t k, int64_t j) {
  const search *s = user;
  const product *p = &s->products[product_number(i, k, j)];
  return weigh(s->weights, p->points[pick(s->weights, p->points, p->count)]);
}

/* ---- what a choice takes ------------------------------------------------------------------- */

/* Gives the steps of a group their shares of its call. */
static void share_out(candidate *c, const mmci_plan_group *group, const mmci_energy_model *model) {
  double seconds = 0, joules = 0;
  for (int32_t i = 0; i < group->step_count; i++) {
    seconds += c->steps[group->steps[i]].seconds;
    joules += c->steps[group->steps[i]].joules;
  }
  for (int32_t i = 0; i < group->step_count; i++) {
    taken *step = &c->steps[group->steps[i]];
    if (seconds > 0) step->seconds *= group->predicted_s / seconds;
    if (joules > 0) step->joules *= group->predicted_j / joules;
    step->error = model->error;
    step->modelled = true;
    step->source = mmci_provenance_of_model(model->calibrated);
  }
}

/* Forms the groups that the candidate would have, notes what they take, and disbands them: they are
 * formed again when it is known where every result lies. */
static mmc_status group_up(const search *s, candidate *c) {
  const weighed_offer x = {&s->request->offers[c->choice.offer], c->choice.weights};
  if (x.offer->machine == NULL) return MMC_OK;
  mmci_pricing pricing;
  mmci_group_machine machine = machine_of(&x, &pricing);
  mmc_status status = mmci_plan_choose_groups(&c->plan, &machine, s->bounds.limit_bytes, s->error);
  if (status != MMC_OK || c->plan.group_count == 0) return status;
  for (int32_t g = 0; g < c->plan.group_count; g++)
    share_out(c, &c->plan.groups[g], &x.offer->pricing.model);
  mmci_plan_disband(&c->plan);
  return mmci_plan_lay_out(&c->plan, false, s->error);
}

static mmc_status sum_up(const search *s, candidate *c) {
  mmci_energy_choice *choice = &c->choice;
  const mmci_energy_offer *offer = &s->request->offers[choice->offer];
  const size_t count = (size_t)c->plan.step_count;
  mmci_range *ranges;
  mmc_status status = mmci_plan_ranges(&c->plan, &ranges, s->error);
  if (status != MMC_OK) return status;
  c->steps = mmci_alloc_array(count, sizeof *c->steps);
  if (c->steps == NULL) status = mmci_fail_nomem(s->error, count * sizeof *c->steps);
  choice->source = MMCI_MEASURED;
  choice->precision = offer->name;
  for (size_t t = 0; t < count && status == MMC_OK; t++) {
    mmci_way way;
    const int64_t times = mmci_chain_product_batch(s->chain, ranges[t].first, ranges[t].last);
    int number = way_of(s->chain, offer, choice->weights, ranges[t], times, &way);
    c->steps[t] =
        (taken){number, way.time.seconds, way.joules, way.error, way.modelled, way.source};
    choice->recipes += !mmci_recipe_is_plain(&way.time.recipe);
  }
  free(ranges);
  if (status == MMC_OK) status = group_up(s, c);
  for (size_t t = 0; t < count && status == MMC_OK; t++) {
    const taken *step = &c->steps[t];
    choice->seconds += step->seconds;
    choice->joules += step->joules;
    if (step->source > choice->source) choice->source = step->source;
  }
  return status;
}

/* The joules of the products that one choice has and the other has not, and their errors: those of
 * measurements are independent, those of one model are not. */
typedef struct total {
  double joules, squares, modelled;
} total;

static bool same_range(mmci_range a, mmci_range b) {
  return a.first == b.first && a.split == b.split && a.last == b.last;
}

/* Finds product t, or the place of the same one in ranges; returns -1 where there is none. In a
 * given order every choice has each product in the same place. */
static int32_t find_range(const mmci_range *ranges, int32_t count, mmci_range r, int32_t t) {
  if (t < count && same_range(ranges[t], r)) return t;
  for (int32_t u = 0; u < count; u++)
    if (same_range(ranges[u], r)) return u;
  return -1;
}

/* Adds up what differs. Steps that take as much by the same recipe are the same, alone or in a
 * call. */
static total total_of(const candidate *a, const mmci_range *my_ranges, const candidate *b,
                      const mmci_range *others) {
  total sum = {0};
  for (int32_t t = 0; t < a->plan.step_count; t++) {
    const taken *mine = &a->steps[t];
    int32_t same = a->choice.offer == b->choice.offer
                       ? find_range(others, b->plan.step_count, my_ranges[t], t)
                       : -1;
    if (same >= 0 && b->steps[same].way == mine->way && b->steps[same].joules == mine->joules)
      continue;
    double error_j = mine->joules * mine->error;
    sum.joules += mine->joules;
    if (mine->modelled)
      sum.modelled += error_j;
    else
      sum.squares += error_j * error_j;
  }
  return sum;
}

/* Says whether b surely takes fewer joules than a. */
static mmc_status compare_joules(const search *s, const candidate *a, const candidate *b,
                                 bool *surely) {
  mmci_range *before_ranges, *after_ranges;
  mmc_status status = mmci_plan_ranges(&a->plan, &before_ranges, s->error);
  if (status != MMC_OK) return status;
  status = mmci_plan_ranges(&b->plan, &after_ranges, s->error);
  if (status == MMC_OK) {
    total before = total_of(a, before_ranges, b, after_ranges);
    total after = total_of(b, after_ranges, a, before_ranges);
    double error_j = sqrt(before.squares + after.squares) + before.modelled + after.modelled;
    *surely = before.joules - after.joules > error_j;
    free(after_ranges);
  }
  free(before_ranges);
  return status;
}

/* ---- the front ----------------------------------------------------------------------------- */

/* Makes the choice of least weighted sum, in the order of fewest multiplications where it is given
 * or `fewest` is set. *made is false where its memory cannot be addressed. */
static mmc_status choose_by(search *s, mmci_weights weights, bool fewest, candidate *out,
                            bool *made) {
  candidate c = {.choice = {.offer = (int)(s->offer - s->request->offers), .weights = weights}};
  s->weights = weights;
  mmc_status status = s->products != NULL && !fewest
                          ? mmci_plan_by_price(s->chain, price, s, s->bounds, &c.plan, s->error)
                          : mmci_plan_create(s->chain, s->solver, s->bounds, &c.plan, s->error);
  if (status != MMC_OK) return status;
  *made = c.plan.workspace_bytes != UINT64_MAX && c.plan.multiplications != MMCI_U128_MAX;
  if (*made) status = sum_up(s, &c);
  if (status == MMC_OK && *made)
    *out = c;
  else
    destroy_candidate(&c);
  return status;
}

static point point_of(const candidate *c) {
  return (point){c->choice.seconds, c->choice.joules};
}

/* Finds the corner of the hull between candidates pair and pair + 1 and inserts it there. *found
 * says whether there is one. */
static mmc_status cut_corner(search *s, int pair, bool *found) {
  point a = point_of(&s->candidates[pair]), b = point_of(&s->candidates[pair + 1]);
  mmci_weights weights = {.seconds = a.joules - b.joules,
                          .joules = b.seconds - a.seconds,
                          .max_slowdown = s->candidates[pair].choice.weights.max_slowdown};
  *found = weights.seconds > 0 && weights.joules > 0;
  if (!*found) return MMC_OK;
  candidate c;
  mmc_status status = choose_by(s, weights, false, &c, found);
  if (status != MMC_OK || !*found) return status;
  *found = weigh(weights, point_of(&c)) < weigh(weights, a) * (1 - 1e-9);
  if (!*found) {
    destroy_candidate(&c);
    return MMC_OK;
  }
  memmove(&s->candidates[pair + 2], &s->candidates[pair + 1],
          (size_t)(s->count - pair - 1) * sizeof c);
  s->candidates[pair + 1] = c;
  s->count++;
  return MMC_OK;
}

/* Adds the corners of the hull of one precision's front, by seconds, of ways within a bound. */
static mmc_status add_front(search *s, double max_slowdown) {
  int first = s->count;
  mmc_status status = MMC_OK;
  for (int end = 0; status == MMC_OK && end < 2; end++) {
    bool made = false;
    mmci_weights weights = {.seconds = end == 0, .joules = end, .max_slowdown = max_slowdown};
    status = choose_by(s, weights, false, &s->candidates[s->count], &made);
    s->count += status == MMC_OK && made;
  }
  /* A chain that is too long for corners has the two ends alone. */
  if (s->count - first < 2 || s->chain->n > MMCI_TIME_MOST_FACTORS) return status;
  for (int c = first; status == MMC_OK && c + 1 < s->count;) {
    bool found = false;
    if (s->count - first < MMCI_ENERGY_CHOICES) status = cut_corner(s, c, &found);
    if (!found) c++;
  }
  return status;
}

/* Adds the plan in which what repeats is computed once, by the ways of fewest joules, because no
 * tree of the front is that plan. */
static mmc_status add_shared(search *s, double max_slowdown) {
  if (s->products == NULL || s->chain->same == NULL) return MMC_OK;
  candidate *c = &s->candidates[s->count];
  bool made = false;
  mmci_weights weights = {.joules = 1, .max_slowdown = max_slowdown};
  mmc_status status = choose_by(s, weights, true, c, &made);
  if (status != MMC_OK || !made) return status;
  if (mmci_plan_is_tree(&c->plan))
    destroy_candidate(c);
  else
    s->count++;
  return MMC_OK;
}

static mmc_status add_fronts(search *s) {
  if (s->chain->n < 2) return MMC_OK;
  if (orders_are_free(s)) {
    size_t count = product_number(0, 0, s->chain->n + 1);
    s->products = mmci_alloc_array(count, sizeof *s->products);
    if (s->products == NULL) return mmci_fail_nomem(s->error, count * sizeof *s->products);
  }
  mmc_status status = MMC_OK;
  for (int o = 0; status == MMC_OK && o < s->request->count; o++) {
    s->offer = &s->request->offers[o];
    if (s->products != NULL) fill_products(s);
    /* A bound on the plan bounds its ways in a second search, since the best plan within it may lie
     * above the hull of the first. Without that search 43 of 2016 random chains of 2 to 9 factors
     * with made-up prices, and bounds of up to 1.1, 1.5 and 3, had other plans, which took up to
     * 39 % more joules. */
    const double bounds[] = {0, s->request->max_slowdown};
    for (int b = 0; status == MMC_OK && b < (bounds[1] > 0 ? 2 : 1); b++) {
      status = add_front(s, bounds[b]);
      if (status == MMC_OK) status = add_shared(s, bounds[b]);
    }
  }
  free(s->products);
  s->products = NULL;
  return status;
}

static mmc_status copy_tree(const mmci_tree *from, mmci_tree *to, mmci_error *error) {
  mmc_status status = mmci_tree_create(from->n, to, error);
  if (status == MMC_OK && from->n > 1)
    memcpy(to->products, from->products, ((size_t)from->n - 1) * sizeof *to->products);
  return status;
}

/* Adds the tree of the plan for time, without the groups that measured joules speak against. */
static mmc_status add_spared(search *s) {
  const mmci_plan *fastest = &s->candidates[0].plan;
  if (s->request->offers[0].machine == NULL || !mmci_plan_is_tree(fastest)) return MMC_OK;
  /* The weight of a joule is next to nothing: it decides among ways, but does not keep joules from
   * being looked at. */
  candidate c = {.choice = {.weights = {.seconds = 1, .joules = 1e-30}}};
  mmci_tree tree;
  mmc_status status = copy_tree(&fastest->tree, &tree, s->error);
  if (status == MMC_OK) status = mmci_plan_from_tree(s->chain, &tree, &c.plan, s->error);
  if (status != MMC_OK) return status;
  c.plan.solver = fastest->solver;
  c.plan.limited = fastest->limited;
  c.plan.limit_bytes = fastest->limit_bytes;
  c.plan.unlimited_bytes = fastest->unlimited_bytes;
  c.plan.unlimited_multiplications = fastest->unlimited_multiplications;
  status = mmci_plan_shrink(&c.plan, s->bounds.limit_bytes, s->error);
  if (status == MMC_OK) status = sum_up(s, &c);
  if (status == MMC_OK && c.choice.joules < s->candidates[0].choice.joules)
    s->candidates[s->count++] = c;
  else
    destroy_candidate(&c);
  return status;
}

/* ---- the choice ---------------------------------------------------------------------------- */

/* Chooses among the candidates, of which number 0 is the plan for time. */
static mmc_status choose_candidate(const search *s, int *chosen, const char **kept) {
  const mmci_energy_choice *fastest = &s->candidates[0].choice;
  double bound = s->request->max_slowdown > 0 ? s->request->max_slowdown : (double)INFINITY;
  bool fewer = false, beyond = false; /* choices of fewer joules, within the bound and beyond it */
  *chosen = 0;
  for (int c = 1; c < s->count; c++) {
    const mmci_energy_choice *choice = &s->candidates[c].choice;
    if (!(choice->joules < fastest->joules)) continue;
    bool within = choice->seconds <= bound * fastest->seconds;
    fewer = fewer || within;
    beyond = beyond || !within;
    if (!within) continue;
    if (!(choice->joules < s->candidates[*chosen].choice.joules)) continue;
    bool surely;
    mmc_status status = compare_joules(s, &s->candidates[0], &s->candidates[c], &surely);
    if (status != MMC_OK) return status;
    if (surely) *chosen = c;
  }
  *kept = *chosen > 0 ? ""
          : fewer     ? "no other choice is predicted to take surely fewer joules"
          : beyond    ? "no choice within the bound on the time is predicted to take fewer joules"
                      : "no choice is predicted to take fewer joules";
  return MMC_OK;
}

/* Says whether candidate a is no slower than b and takes no more joules; of equals the first beats
 * the second. */
static bool beats(const search *s, int a, int b) {
  point x = point_of(&s->candidates[a]), y = point_of(&s->candidates[b]);
  if (x.seconds == y.seconds && x.joules == y.joules) return a < b;
  return x.seconds <= y.seconds && x.joules <= y.joules;
}

static bool is_on_front(const search *s, int c) {
  for (int other = 0; other < s->count; other++)
    if (other != c && beats(s, other, c)) return false;
  return true;
}

/* Returns the next candidate after the choice that was kept last: by seconds, then by number. */
static int next_of(const search *s, const bool *wanted) {
  int next = -1;
  for (int c = 0; c < s->count; c++)
    if (wanted[c] &&
        (next < 0 || s->candidates[c].choice.seconds < s->candidates[next].choice.seconds))
      next = c;
  return next;
}

/* Keeps the front and the chosen one, sorted by seconds. The chosen candidate keeps its plan. */
static mmc_status keep_choices(search *s, int chosen, mmci_plan_energy *energy) {
  bool wanted[MMCI_ENERGY_CANDIDATES];
  for (int c = 0; c < s->count; c++) wanted[c] = c == chosen || is_on_front(s, c);
  for (int c; (c = next_of(s, wanted)) >= 0;) {
    mmci_energy_choice *kept = &energy->choices[energy->count];
    *kept = s->candidates[c].choice;
    mmc_status status = copy_tree(&s->candidates[c].plan.tree, &kept->tree, s->error);
    if (status != MMC_OK) return status;
    if (c == chosen) energy->chosen = energy->count;
    energy->count++;
    wanted[c] = false;
  }
  return MMC_OK;
}

void mmci_plan_energy_destroy(mmci_plan_energy *energy) {
  if (energy == NULL) return;
  for (int c = 0; c < energy->count; c++) mmci_tree_destroy(&energy->choices[c].tree);
  free(energy);
}

/* Takes the chosen candidate's plan out of the search. */
static mmc_status take_best(search *s, mmci_plan *out, mmci_precision *precision) {
  mmci_plan_energy *energy = mmci_alloc_zeroed(1, sizeof *energy);
  if (energy == NULL) return mmci_fail_nomem(s->error, sizeof *energy);
  const mmci_energy_choice *fastest = &s->candidates[0].choice;
  int chosen = 0;
  mmc_status status = choose_candidate(s, &chosen, &energy->kept);
  if (status == MMC_OK) status = keep_choices(s, chosen, energy);
  if (status != MMC_OK) {
    mmci_plan_energy_destroy(energy);
    return status;
  }
  const mmci_energy_offer *offer = &s->request->offers[s->candidates[chosen].choice.offer];
  energy->time_seconds = fastest->seconds;
  energy->time_joules = fastest->joules;
  energy->max_slowdown = s->request->max_slowdown;
  energy->model = offer->pricing.model;
  mmci_plan *plan = &s->candidates[chosen].plan, *timed = &s->candidates[0].plan;
  if (chosen > 0) {
    plan->time = timed->time;
    timed->time = NULL;
    plan->time->by_time = false;
    plan->time->segments = 0;
    plan->time->kept = "";
  }
  plan->energy = energy;
  plan->explainer = &mmci_explain_energy;
  *precision = offer->precision;
  *out = *plan;
  free(s->candidates[chosen].steps);
  s->candidates[chosen] = s->candidates[--s->count];
  return MMC_OK;
}

mmc_status mmci_plan_create_energetic(const mmc_chain *chain, const char *solver,
                                      mmci_bounds bounds, const mmci_energy_request *request,
                                      mmci_plan *out, mmci_precision *precision,
                                      mmci_error *error) {
  search *s = mmci_alloc_zeroed(1, sizeof *s);
  if (s == NULL) return mmci_fail_nomem(error, sizeof *s);
  s->chain = chain;
  s->solver = solver;
  s->bounds = bounds;
  s->request = request;
  s->error = error;
  candidate *fastest = &s->candidates[0];
  fastest->choice.weights.seconds = 1;
  mmc_status status =
      mmci_plan_create_timed(chain, solver, bounds, &request->time, &fastest->plan, error);
  if (status == MMC_OK) {
    s->count = 1;
    status = sum_up(s, fastest);
  }
  if (status == MMC_OK) status = add_spared(s);
  if (status == MMC_OK) status = add_fronts(s);
  if (status == MMC_OK) status = take_best(s, out, precision);
  for (int c = 0; c < s->count; c++) destroy_candidate(&s->candidates[c]);
  free(s);
  return status;
}

/* ---- the steps ----------------------------------------------------------------------------- */

static void way_of_step(const mmci_plan *plan, const mmci_energy_request *request,
                        const mmci_plan_step *step, mmci_way *out) {
  const mmci_energy_choice *choice = &plan->energy->choices[plan->energy->chosen];
  way_of(plan->chain, &request->offers[choice->offer], choice->weights, mmci_plan_range(plan, step),
         mmci_plan_step_batch(plan, step), out);
}

/* Prices the plain call of a step, for all chains. */
static void price_plain(const mmci_plan *plan, const mmci_energy_request *request,
                        mmci_plan_step *step) {
  const mmci_energy_choice *choice = &plan->energy->choices[plan->energy->chosen];
  const mmci_energy_offer *offer = &request->offers[choice->offer];
  const mmci_range r = mmci_plan_range(plan, step);
  mmci_way ways[MMCI_WAYS];
  point points[MMCI_WAYS];
  const int64_t times = mmci_plan_step_batch(plan, step);
  int count = ways_of(plan->chain, offer, r, times, ways, points), w = 0;
  while (w < count && !mmci_recipe_is_plain(&ways[w].time.recipe)) w++;
  if (w < count) {
    step->plain_s = points[w].seconds;
    step->plain_j = points[w].joules;
    return;
  }
  mmci_gemm gemm;
  mmci_chain_product(plan->chain, offer->precision, r.first, r.split, r.last, &gemm);
  gemm.batch = times;
  step->plain_s = ways[0].time.plain_s;
  step->plain_j = mmci_energy_joules(&offer->pricing.model, &gemm, step->plain_s);
}

mmc_status mmci_plan_group_for_energy(mmci_plan *plan, const mmci_energy_request *request,
                                      uint64_t limit_bytes, mmci_error *error) {
  const mmci_energy_choice *choice = &plan->energy->choices[plan->energy->chosen];
  const weighed_offer x = {&request->offers[choice->offer], choice->weights};
  if (x.offer->machine == NULL) return MMC_OK;
  mmci_pricing pricing;
  mmci_group_machine machine = machine_of(&x, &pricing);
  return mmci_plan_choose_groups(plan, &machine, limit_bytes, error);
}

/* Gives the steps of a group their shares of what its call takes. */
static void share_out_group(mmci_plan *plan, const mmci_plan_group *group) {
  double seconds = 0, joules = 0;
  for (int32_t i = 0; i < group->step_count; i++) {
    seconds += plan->steps[group->steps[i]].predicted_s;
    joules += plan->steps[group->steps[i]].predicted_j;
  }
  for (int32_t i = 0; i < group->step_count; i++) {
    mmci_plan_step *step = &plan->steps[group->steps[i]];
    if (seconds > 0) step->predicted_s *= group->predicted_s / seconds;
    if (joules > 0) step->predicted_j *= group->predicted_j / joules;
    if (group->source == MMCI_MEASURED || !mmci_provenance_is_model(step->source))
      step->source = group->source;
    step->joules_source = mmci_provenance_of_model(plan->energy->model.calibrated);
  }
}

mmc_status mmci_plan_price_energy(mmci_plan *plan, const mmci_energy_request *request,
                                  mmci_error *error) {
  mmci_energy_choice *choice = &plan->energy->choices[plan->energy->chosen];
  size_t recipes = (size_t)choice->recipes + 1; /* one more, so that the size is never 0 */
  mmci_recipe *recipe = plan->time->recipes = mmci_alloc_array(recipes, sizeof *recipe);
  if (recipe == NULL) return mmci_fail_nomem(error, recipes * sizeof *recipe);
  for (int32_t t = 0; t < plan->step_count; t++) {
    mmci_plan_step *step = &plan->steps[t];
    mmci_way way;
    way_of_step(plan, request, step, &way);
    step->predicted_s = way.time.seconds;
    step->source = way.time.source;
    step->predicted_j = way.joules;
    step->joules_source = way.source;
    if (mmci_recipe_is_plain(&way.time.recipe)) continue;
    *recipe = way.time.recipe;
    step->recipe = recipe++;
    price_plain(plan, request, step);
    mmci_plan_place_padding(plan, step);
  }
  choice->seconds = choice->joules = 0; /* summed again, in the order of the steps */
  for (int32_t g = 0; g < plan->group_count; g++) share_out_group(plan, &plan->groups[g]);
  for (int32_t t = 0; t < plan->step_count; t++) {
    choice->seconds += plan->steps[t].predicted_s;
    choice->joules += plan->steps[t].predicted_j;
  }
  plan->time->predicted_s = choice->seconds;
  plan->energy->joules = choice->joules;
  return MMC_OK;
}
