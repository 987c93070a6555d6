#include "plan/plan_energy.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

/* ---- ways ---------------------------------------------------------------------------------- */

/* What a way takes, and nothing else of it. */
typedef struct point {
  double seconds, joules;
} point;

static double weigh(mmci_weights w, point p) {
  return w.seconds * p.seconds + (w.joules > 0 ? w.joules * p.joules : 0);
}

/* The way of least weighted sum, of equals the first; for time alone the plan for time's. */
static int pick(mmci_weights w, const point *points, int count) {
  double bound_s = w.max_slowdown > 0 ? w.max_slowdown * points[0].seconds : (double)INFINITY;
  int best = 0;
  for (int i = 1; i < count && w.joules > 0; i++)
    if (points[i].seconds <= bound_s && weigh(w, points[i]) < weigh(w, points[best])) best = i;
  return best;
}

static int ways_of(const mmc_chain *chain, const mmci_energy_offer *offer, mmci_range r,
                   mmci_way ways[MMCI_WAYS], point points[MMCI_WAYS]) {
  mmci_gemm gemm = mmci_chain_product(chain, offer->precision, r.first, r.split, r.last);
  int count = offer->pricing.ways(offer->pricing.user, &gemm, ways);
  for (int i = 0; i < count; i++) points[i] = (point){ways[i].time.seconds, ways[i].joules};
  return count;
}

/* How a product is computed for some weights: the number of the way. */
static int way_of(const mmc_chain *chain, const mmci_energy_offer *offer, mmci_weights weights,
                  mmci_range r, mmci_way *out) {
  mmci_way ways[MMCI_WAYS];
  point points[MMCI_WAYS];
  int count = ways_of(chain, offer, r, ways, points), best = pick(weights, points, count);
  *out = ways[best];
  return best;
}

/* ---- a search ------------------------------------------------------------------------------ */

typedef struct candidate {
  mmci_plan plan;
  mmci_energy_choice choice; /* its tree is the plan's */
} candidate;

/* The points of a product's ways. */
typedef struct product {
  int count;
  point points[MMCI_WAYS];
} product;

typedef struct search {
  const mmc_chain *chain;
  const char *solver;
  uint64_t limit_bytes;
  const mmci_energy_request *request;
  const mmci_energy_offer *offer; /* whose choices are looked for, */
  mmci_weights weights;           /* by these */
  product *products;              /* of all orders, see at(); NULL: the order is given */
  candidate candidates[MMCI_ENERGY_CANDIDATES];
  int count;
  mmci_error *error;
} search;

static bool orders_are_free(const search *s) {
  return strcmp(s->solver, "auto") == 0 && s->chain->n <= MMCI_TIME_MOST_FACTORS;
}

/* Products (i, k, j), i < k < j, by the combinatorial number system. */
static size_t at(int64_t i, int64_t k, int64_t j) {
  return (size_t)(j * (j - 1) * (j - 2) / 6 + k * (k - 1) / 2 + i);
}

static void fill_products(search *s) {
  mmci_way ways[MMCI_WAYS];
  for (int32_t j = 2; j <= s->chain->n; j++)
    for (int32_t k = 1; k < j; k++)
      for (int32_t i = 0; i < k; i++) {
        product *p = &s->products[at(i, k, j)];
        p->count = ways_of(s->chain, s->offer, (mmci_range){i, k, j}, ways, p->points);
      }
}

static double price(void *user, int64_t i, int64_t k, int64_t j) {
  const search *s = user;
  const product *p = &s->products[at(i, k, j)];
  return weigh(s->weights, p->points[pick(s->weights, p->points, p->count)]);
}

/* ---- what a choice takes ------------------------------------------------------------------- */

static mmc_status ranges_of(const mmci_plan *plan, mmci_range **out, mmci_error *error) {
  size_t count = (size_t)plan->chain->n; /* one more than products, never 0 */
  *out = mmci_alloc_array(count, sizeof **out);
  if (*out == NULL) return mmci_fail_nomem(error, count * sizeof **out);
  mmci_tree_ranges(&plan->tree, *out);
  return MMC_OK;
}

static int doubt(const char *source) {
  return strcmp(source, "measured") == 0 ? 0 : strcmp(source, "model") == 0 ? 1 : 2;
}

static mmc_status sum_up(const search *s, candidate *c) {
  mmci_energy_choice *choice = &c->choice;
  mmci_range *ranges;
  mmc_status status = ranges_of(&c->plan, &ranges, s->error);
  if (status != MMC_OK) return status;
  choice->source = "measured";
  choice->precision = s->request->offers[choice->offer].name;
  for (int32_t t = 0; t < s->chain->n - 1; t++) {
    mmci_way way;
    way_of(s->chain, &s->request->offers[choice->offer], choice->weights, ranges[t], &way);
    choice->seconds += way.time.seconds;
    choice->joules += way.joules;
    choice->recipes += !mmci_recipe_is_plain(&way.time.recipe);
    if (doubt(way.source) > doubt(choice->source)) choice->source = way.source;
  }
  free(ranges);
  return MMC_OK;
}

/* The sum of joules of products that one choice has and the other has not, and of their errors:
 * those of measurements are independent, those of one model are not. */
typedef struct total {
  double joules, squares, modelled;
} total;

static bool same_range(mmci_range a, mmci_range b) {
  return a.first == b.first && a.split == b.split && a.last == b.last;
}

/* Product t, or the place of the same one in ranges; -1 where there is none. Of a given order every
 * choice has each product in the same place. */
static int32_t find_range(const mmci_range *ranges, int32_t count, mmci_range r, int32_t t) {
  if (same_range(ranges[t], r)) return t;
  for (int32_t u = 0; u < count; u++)
    if (same_range(ranges[u], r)) return u;
  return -1;
}

static total total_of(const search *s, const mmci_energy_choice *mine, const mmci_range *my_ranges,
                      const mmci_energy_choice *other, const mmci_range *others) {
  int32_t count = s->chain->n - 1;
  total sum = {0};
  for (int32_t t = 0; t < count; t++) {
    mmci_way way, same;
    int number =
        way_of(s->chain, &s->request->offers[mine->offer], mine->weights, my_ranges[t], &way);
    if (mine->offer == other->offer && find_range(others, count, my_ranges[t], t) >= 0 &&
        way_of(s->chain, &s->request->offers[other->offer], other->weights, my_ranges[t], &same) ==
            number)
      continue;
    double error_j = way.joules * way.error;
    sum.joules += way.joules;
    if (way.modelled)
      sum.modelled += error_j;
    else
      sum.squares += error_j * error_j;
  }
  return sum;
}

/* Whether b surely takes fewer joules than a. */
static mmc_status compare(const search *s, const candidate *a, const candidate *b, bool *surely) {
  mmci_range *before_ranges, *after_ranges;
  mmc_status status = ranges_of(&a->plan, &before_ranges, s->error);
  if (status != MMC_OK) return status;
  status = ranges_of(&b->plan, &after_ranges, s->error);
  if (status == MMC_OK) {
    total before = total_of(s, &a->choice, before_ranges, &b->choice, after_ranges);
    total after = total_of(s, &b->choice, after_ranges, &a->choice, before_ranges);
    double error_j = sqrt(before.squares + after.squares) + before.modelled + after.modelled;
    *surely = before.joules - after.joules > error_j;
    free(after_ranges);
  }
  free(before_ranges);
  return status;
}

/* ---- the front ----------------------------------------------------------------------------- */

/* The choice of least weighted sum. *made is false where its memory cannot be addressed. */
static mmc_status choose_by(search *s, mmci_weights weights, candidate *out, bool *made) {
  candidate c = {.choice = {.offer = (int)(s->offer - s->request->offers), .weights = weights}};
  s->weights = weights;
  mmc_status status =
      s->products != NULL
          ? mmci_plan_by_price(s->chain, price, s, s->limit_bytes, &c.plan, s->error)
          : mmci_plan_create(s->chain, s->solver, s->limit_bytes, &c.plan, s->error);
  if (status != MMC_OK) return status;
  *made = c.plan.workspace_bytes != UINT64_MAX && c.plan.multiplications != MMCI_U128_MAX;
  if (*made) status = sum_up(s, &c);
  if (status == MMC_OK && *made)
    *out = c;
  else
    mmci_plan_destroy(&c.plan);
  return status;
}

static point point_of(const candidate *c) {
  return (point){c->choice.seconds, c->choice.joules};
}

/* The corner of the hull between candidates pair and pair + 1, put there. *found: there is one. */
static mmc_status cut_corner(search *s, int pair, bool *found) {
  point a = point_of(&s->candidates[pair]), b = point_of(&s->candidates[pair + 1]);
  mmci_weights weights = {.seconds = a.joules - b.joules,
                          .joules = b.seconds - a.seconds,
                          .max_slowdown = s->candidates[pair].choice.weights.max_slowdown};
  *found = weights.seconds > 0 && weights.joules > 0;
  if (!*found) return MMC_OK;
  candidate c;
  mmc_status status = choose_by(s, weights, &c, found);
  if (status != MMC_OK || !*found) return status;
  *found = weigh(weights, point_of(&c)) < weigh(weights, a) * (1 - 1e-9);
  if (!*found) {
    mmci_plan_destroy(&c.plan);
    return MMC_OK;
  }
  memmove(&s->candidates[pair + 2], &s->candidates[pair + 1],
          (size_t)(s->count - pair - 1) * sizeof c);
  s->candidates[pair + 1] = c;
  s->count++;
  return MMC_OK;
}

/* The corners of the hull of one precision's front, by seconds, of ways within a bound. */
static mmc_status add_front(search *s, double max_slowdown) {
  int first = s->count;
  mmc_status status = MMC_OK;
  for (int end = 0; status == MMC_OK && end < 2; end++) {
    bool made = false;
    mmci_weights weights = {.seconds = end == 0, .joules = end, .max_slowdown = max_slowdown};
    status = choose_by(s, weights, &s->candidates[s->count], &made);
    s->count += status == MMC_OK && made;
  }
  /* Of a chain that is too long for that, the ends have to do. */
  if (s->count - first < 2 || s->chain->n > MMCI_TIME_MOST_FACTORS) return status;
  for (int c = first; status == MMC_OK && c + 1 < s->count;) {
    bool found = false;
    if (s->count - first < MMCI_ENERGY_CHOICES) status = cut_corner(s, c, &found);
    if (!found) c++;
  }
  return status;
}

static mmc_status add_fronts(search *s) {
  if (s->chain->n < 2) return MMC_OK;
  if (orders_are_free(s)) {
    size_t count = at(0, 0, s->chain->n + 1);
    s->products = mmci_alloc_array(count, sizeof *s->products);
    if (s->products == NULL) return mmci_fail_nomem(s->error, count * sizeof *s->products);
  }
  mmc_status status = MMC_OK;
  for (int o = 0; status == MMC_OK && o < s->request->count; o++) {
    s->offer = &s->request->offers[o];
    if (s->products != NULL) fill_products(s);
    status = add_front(s, 0);
    if (status == MMC_OK && s->request->max_slowdown > 0)
      status = add_front(s, s->request->max_slowdown);
  }
  free(s->products);
  s->products = NULL;
  return status;
}

/* ---- the choice ---------------------------------------------------------------------------- */

/* Candidate 0 is the plan for time. */
static mmc_status choose(const search *s, int *chosen, const char **kept) {
  const mmci_energy_choice *fastest = &s->candidates[0].choice;
  double bound = s->request->max_slowdown > 0 ? s->request->max_slowdown : (double)INFINITY;
  bool fewer = false, beyond = false; /* choices of fewer joules, within the bound and not */
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
    mmc_status status = compare(s, &s->candidates[0], &s->candidates[c], &surely);
    if (status != MMC_OK) return status;
    if (surely) *chosen = c;
  }
  *kept = *chosen > 0 ? ""
          : fewer     ? "no other choice is predicted to take surely fewer joules"
          : beyond    ? "no choice within the bound on the time is predicted to take fewer joules"
                      : "no choice is predicted to take fewer joules";
  return MMC_OK;
}

/* Whether a candidate is no slower and takes no more joules; of equals the first beats the second.
 */
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

/* The next candidate after the choice last kept: by seconds, then by number. */
static int next_of(const search *s, const bool *wanted) {
  int next = -1;
  for (int c = 0; c < s->count; c++)
    if (wanted[c] &&
        (next < 0 || s->candidates[c].choice.seconds < s->candidates[next].choice.seconds))
      next = c;
  return next;
}

static mmc_status copy_tree(const mmci_tree *from, mmci_tree *to, mmci_error *error) {
  mmc_status status = mmci_tree_create(from->n, to, error);
  if (status == MMC_OK && from->n > 1)
    memcpy(to->products, from->products, ((size_t)from->n - 1) * sizeof *to->products);
  return status;
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
  mmc_status status = choose(s, &chosen, &energy->kept);
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
    plan->time->kept = "";
  }
  plan->energy = energy;
  *precision = offer->precision;
  *out = *plan;
  s->candidates[chosen] = s->candidates[--s->count];
  return MMC_OK;
}

mmc_status mmci_plan_create_energetic(const mmc_chain *chain, const char *solver,
                                      uint64_t limit_bytes, const mmci_energy_request *request,
                                      mmci_plan *out, mmci_precision *precision,
                                      mmci_error *error) {
  search *s = mmci_alloc_zeroed(1, sizeof *s);
  if (s == NULL) return mmci_fail_nomem(error, sizeof *s);
  s->chain = chain;
  s->solver = solver;
  s->limit_bytes = limit_bytes;
  s->request = request;
  s->error = error;
  candidate *fastest = &s->candidates[0];
  fastest->choice.weights.seconds = 1;
  mmc_status status =
      mmci_plan_create_timed(chain, solver, limit_bytes, &request->time, &fastest->plan, error);
  if (status == MMC_OK) {
    s->count = 1;
    status = sum_up(s, fastest);
  }
  if (status == MMC_OK) status = add_fronts(s);
  if (status == MMC_OK) status = take_best(s, out, precision);
  for (int c = 0; c < s->count; c++) mmci_plan_destroy(&s->candidates[c].plan);
  free(s);
  return status;
}

/* ---- the steps ----------------------------------------------------------------------------- */

static void way_of_step(const mmci_plan *plan, const mmci_energy_request *request,
                        const mmci_plan_step *step, mmci_way *out) {
  const mmci_energy_choice *choice = &plan->energy->choices[plan->energy->chosen];
  int32_t n = plan->chain->n;
  int32_t split = step->left < n ? step->left + 1 : plan->steps[step->left - n].last + 1;
  way_of(plan->chain, &request->offers[choice->offer], choice->weights,
         (mmci_range){step->first, split, step->last + 1}, out);
}

mmc_status mmci_plan_energize(mmci_plan *plan, const mmci_energy_request *request,
                              mmci_error *error) {
  mmci_energy_choice *choice = &plan->energy->choices[plan->energy->chosen];
  size_t recipes = (size_t)choice->recipes + 1; /* never 0 */
  mmci_recipe *recipe = plan->time->recipes = mmci_alloc_array(recipes, sizeof *recipe);
  if (recipe == NULL) return mmci_fail_nomem(error, recipes * sizeof *recipe);
  choice->seconds = choice->joules = 0; /* again, in the order of the steps */
  for (int32_t t = 0; t < plan->chain->n - 1; t++) {
    mmci_plan_step *step = &plan->steps[t];
    mmci_way way;
    way_of_step(plan, request, step, &way);
    step->predicted_s = way.time.seconds;
    step->source = way.time.source;
    step->predicted_j = way.joules;
    step->joules_source = way.source;
    choice->seconds += way.time.seconds;
    choice->joules += way.joules;
    if (mmci_recipe_is_plain(&way.time.recipe)) continue;
    *recipe = way.time.recipe;
    step->recipe = recipe++;
  }
  plan->time->predicted_s = choice->seconds;
  plan->energy->joules = choice->joules;
  return MMC_OK;
}
