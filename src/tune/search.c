/* search.c: decides products in four phases: predict, measure, confirm, and ask again later.
 *
 * Predict: every size along an axis that a cut at the grid can leave is timed alone, with leading
 * dimensions of its own so that products share the times. A table then finds the best composition
 * of the whole axis, in any number of parts; its parts are cut along the other axes in the same
 * manner, until nothing improves.
 *
 * Measure: the recipes predicted to be best are run as they will be, in place, in turns with the
 * plain call.
 *
 * Confirm: the winner is measured against the plain call once more, in other circumstances where
 * the machine has some, because the first comparison chose the luckiest of several.
 *
 * Later: when all products are decided, each choice is measured twice more, because what else a
 * machine does changes within seconds and lasts longer than a comparison. The smallest of its gains
 * is kept as the gain; a recipe that does not gain each time, and by more than gains change, is not
 * chosen. */
#include "tune/search.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tune/estimate.h"

enum {
  MOST_CANDIDATES = 64,
  PIECE_VARIANTS = 2, /* the fastest variants of the whole, which are tried on pieces too */
  LEAST_POINTS = 4,   /* sizes tried along an axis at least, however short the budget is */
  CONFIRMATIONS = 3,  /* winners that may fail to be confirmed */
  TWO_WAY = 2,        /* two-way cuts of an axis that are compared in any case */
  NEIGHBOURS = 9,     /* products that tell how much gains change */
};
/* Cuts that are predicted to lose by less are compared, because pieces that follow each other may
 * share what they have in the caches. */
static const double worth_comparing = 1.05;
/* Variants of the whole that are slower by a larger factor are not tried on pieces. */
static const double worth_cutting = 1.05;
/* A product with a share of the budget looks for candidates in the first part of it and compares
 * them in the second. The rest is for confirming the winner. */
static const double looking_share = 0.6, comparing_share = 0.9;
/* A ladder that is not filled after this part of the share is left. */
static const double filling_share = 0.75;
/* A point on all axes costs so many times the time of the whole product, for each variant: half for
 * m and for n each, one for k, whose parts are timed twice, and what cutting the parts again
 * adds. */
static const double point_price = 3;
/* Asking again takes at most this share of the budget. */
static const double most_later = 0.25;
/* A further piece must gain so many least gains: of recipes that only noise tells apart the one
 * with fewer pieces is taken, and many small calls suffer most from what else a machine does. */
static const double piece_price = 0.3;

typedef struct candidate {
  mmci_recipe recipe;
  double predicted_s;
  double worth; /* the gain, less what the pieces must gain */
  mmci_measured compared;
} candidate;

typedef struct search {
  mmci_tuner *tuner;
  const mmci_tune_options *options;
  mmci_gemm gemm;
  const mmci_recipe *given; /* the only candidate; NULL when they are looked for */
  /* Seconds of the budget: this product's share, and all that was left when its search began. */
  double share_s, left_s;
  int points; /* how many sizes are tried along an axis */
  int variants[PIECE_VARIANTS], variant_count;
  candidate candidates[MOST_CANDIDATES];
  int count;
  mmci_error *error;
} search;

/* A part of the product, with the best recipe that is known for it. */
typedef struct part {
  mmci_recipe recipe;
  double seconds;
} part;

/* Says whether that part of the product's share is spent; it never is without a budget. */
static bool is_spent(const search *s, double part) {
  return isfinite(s->share_s) && s->left_s - mmci_tuner_left_s(s->tuner) > part * s->share_s;
}

static int64_t at_least_1(int64_t value) {
  return value > 1 ? value : 1;
}

/* Returns the product with its matrices alone in memory. */
static mmci_gemm tight(const mmci_gemm *gemm) {
  mmci_gemm alone = *gemm;
  alone.a.ld = at_least_1(gemm->a.trans ? gemm->m : gemm->k);
  alone.b.ld = at_least_1(gemm->b.trans ? gemm->k : gemm->n);
  alone.ldc = at_least_1(gemm->n);
  return alone;
}

static mmc_status ask_whole(search *s, const mmci_gemm *gemm, int variant, mmci_measured *out) {
  mmci_gemm alone = tight(gemm);
  mmci_recipe recipe = mmci_recipe_whole(variant);
  return mmci_tuner_ask(s->tuner, MMCI_ASK_TIME, &alone, &recipe, out, s->error);
}

static mmc_status time_whole(search *s, const mmci_gemm *gemm, int variant, double *seconds) {
  mmci_measured measured;
  mmc_status status = ask_whole(s, gemm, variant, &measured);
  if (status == MMC_OK) *seconds = measured.seconds.value;
  return status;
}

/* Finds the best call of a part, among the variants that are tried on pieces. */
static mmc_status find_leaf(search *s, const mmci_gemm *gemm, part *out) {
  out->seconds = (double)INFINITY;
  for (int v = 0; v < s->variant_count; v++) {
    double seconds;
    mmc_status status = time_whole(s, gemm, s->variants[v], &seconds);
    if (status != MMC_OK) return status;
    if (v > 0 && !(seconds < out->seconds)) continue;
    *out = (part){.recipe = mmci_recipe_whole(s->variants[v]), .seconds = seconds};
  }
  return MMC_OK;
}

/* ---- one axis ------------------------------------------------------------------------------ */

/* Sizes along an axis are multiples of the grid, and those that contain the end of it, which has
 * the rest. Along k, all parts but the first add to C, which takes another time. */
enum { ON_GRID, WITH_REST, FAMILIES };
enum { AS_PRODUCT, ADDING, STATES };

/* One size: its time as one call, and composed. */
typedef struct cell {
  double whole_s, seconds;
  int cut; /* the first part, in grid steps; 0 when one call is best */
  int pieces;
} cell;

typedef struct ladder {
  mmci_gemm gemm;
  mmci_axis axis;
  int64_t grid, rest;
  int count; /* how many whole grid steps the axis has */
  bool is_filled;
  cell cells[FAMILIES][STATES][MMCI_TUNE_POINTS + 1];
} ladder;

/* Returns the grid of an axis, thinned so that at most points sizes are tried. Grids of any two
 * numbers of points are nested, so that products and calls share what is measured. */
static ladder ladder_of(const mmci_tune_options *options, int points, const mmci_gemm *gemm,
                        mmci_axis axis) {
  int64_t size = mmci_gemm_size(gemm, axis), grid = at_least_1(options->grid[axis - MMCI_AXIS_M]);
  while (size / grid > points) grid *= 2;
  return (ladder){
      .gemm = *gemm, .axis = axis, .grid = grid, .rest = size % grid, .count = (int)(size / grid)};
}

static int last_family(const ladder *l) {
  return l->rest > 0 ? WITH_REST : ON_GRID;
}
static int last_state(const ladder *l) {
  return l->axis == MMCI_AXIS_K && !l->gemm.accumulate ? ADDING : AS_PRODUCT;
}

/* Says whether a composition can contain the size in that state: along k the first part is on the
 * grid and all others add. */
static bool is_needed(const ladder *l, int family, int state, int i) {
  if (last_state(l) == AS_PRODUCT) return state == AS_PRODUCT;
  if (family == last_family(l) && i == l->count) return state == AS_PRODUCT;
  return family == ON_GRID || state == ADDING;
}

static mmci_gemm sized(const ladder *l, int family, int state, int i) {
  int64_t size = i * l->grid + (family == WITH_REST ? l->rest : 0);
  mmci_gemm gemm = mmci_gemm_resized(&l->gemm, l->axis, size);
  if (state == ADDING) gemm.accumulate = true;
  return gemm;
}

/* Finds the best composition of a cell of which all smaller ones are known. */
static void compose(const search *s, ladder *l, int family, int state, int i) {
  cell *whole = &l->cells[family][state][i];
  whole->seconds = whole->whole_s;
  whole->pieces = 1;
  double best = whole->whole_s * (1 - s->options->least_gain);
  int rest_state = l->axis == MMCI_AXIS_K ? last_state(l) : state;
  for (int j = 1; j <= i - (family == ON_GRID); j++) {
    const cell *first = &l->cells[ON_GRID][state][j];
    const cell *second = &l->cells[family][rest_state][i - j];
    double seconds = first->seconds + second->seconds;
    if (!(seconds < best) || first->pieces + second->pieces > MMCI_RECIPE_PIECES) continue;
    best = whole->seconds = seconds;
    whole->pieces = first->pieces + second->pieces;
    whole->cut = j;
  }
}

static mmc_status fill_ladder(search *s, ladder *l) {
  for (int family = ON_GRID; family <= last_family(l); family++)
    for (int i = family == ON_GRID ? 1 : 0; i <= l->count; i++)
      for (int state = AS_PRODUCT; state <= last_state(l); state++) {
        if (!is_needed(l, family, state, i)) continue;
        if (is_spent(s, filling_share)) return MMC_OK;
        mmci_gemm gemm = sized(l, family, state, i);
        part leaf;
        mmc_status status = find_leaf(s, &gemm, &leaf);
        if (status != MMC_OK) return status;
        l->cells[family][state][i].whole_s = leaf.seconds;
        compose(s, l, family, state, i);
      }
  l->is_filled = true;
  return MMC_OK;
}

/* ---- all axes ------------------------------------------------------------------------------ */

/* Returns the axes that a product is cut along, a set of bits. Products of 16-bit elements are not
 * cut along k, where each part of their sums would be rounded. */
static int axes_of(const mmci_gemm *gemm) {
  bool half = gemm->dtype == MMC_F16 || gemm->dtype == MMC_BF16;
  return 1 << MMCI_AXIS_M | 1 << MMCI_AXIS_N | (half ? 0 : 1 << MMCI_AXIS_K);
}

static mmc_status improve_part(search *s, const mmci_gemm *gemm, int axes, part *out);

/* Builds the recipe of a cell; its parts are cut along the other axes. */
static mmc_status build(search *s, const ladder *l, int family, int state, int i, int axes,
                        part *out) {
  const cell *whole = &l->cells[family][state][i];
  mmci_gemm gemm = sized(l, family, state, i);
  if (whole->cut == 0) return improve_part(s, &gemm, axes, out);
  part parts[2];
  int rest_state = l->axis == MMCI_AXIS_K ? last_state(l) : state;
  mmc_status status = build(s, l, ON_GRID, state, whole->cut, axes, &parts[0]);
  if (status == MMC_OK) status = build(s, l, family, rest_state, i - whole->cut, axes, &parts[1]);
  if (status != MMC_OK) return status;
  int64_t first = whole->cut * l->grid;
  int64_t sizes[2] = {first, mmci_gemm_size(&gemm, l->axis) - first};
  if (!mmci_recipe_split(l->axis, sizes, &parts[0].recipe, &parts[1].recipe, &out->recipe))
    return find_leaf(s, &gemm, out); /* there are too many pieces */
  out->seconds = parts[0].seconds + parts[1].seconds;
  return MMC_OK;
}

/* Improves the part by the best composition along one axis; leaves it when none is better. */
static mmc_status improve_along(search *s, ladder *l, int axes, part *out) {
  mmc_status status = fill_ladder(s, l);
  if (status != MMC_OK || !l->is_filled) return status;
  if (l->cells[last_family(l)][AS_PRODUCT][l->count].cut == 0) return MMC_OK;
  part made;
  int others = axes & ~(1 << l->axis);
  status = build(s, l, last_family(l), AS_PRODUCT, l->count, others, &made);
  if (status == MMC_OK && made.seconds < out->seconds) *out = made;
  return status;
}

/* Finds the best recipe for a part by cuts along axes, a set of bits. */
static mmc_status improve_part(search *s, const mmci_gemm *gemm, int axes, part *out) {
  mmc_status status = find_leaf(s, gemm, out);
  for (mmci_axis axis = MMCI_AXIS_M; status == MMC_OK && axis <= MMCI_AXIS_N; axis++) {
    if ((axes >> axis & 1) == 0 || is_spent(s, looking_share)) continue;
    ladder l = ladder_of(s->options, s->points, gemm, axis);
    status = improve_along(s, &l, axes, out);
  }
  return status;
}

/* ---- candidates ---------------------------------------------------------------------------- */

static void add_candidate(search *s, const mmci_recipe *recipe, double predicted_s) {
  if (s->count == MOST_CANDIDATES || !isfinite(predicted_s)) return;
  for (int c = 0; c < s->count; c++)
    if (mmci_recipe_equal(recipe, &s->candidates[c].recipe)) return;
  s->candidates[s->count++] = (candidate){.recipe = *recipe, .predicted_s = predicted_s};
}

/* Adds the pieces on several queues at once, predicted as if they did not hinder each other. Along
 * k that gains nothing. */
static void add_concurrent(search *s, const mmci_recipe *recipe, double predicted_s) {
  int queues = mmci_tuner_machine(s->tuner)->queues, pieces = mmci_recipe_count(recipe);
  if (queues > pieces) queues = pieces;
  if (queues < 2) return;
  mmci_recipe concurrent = *recipe;
  concurrent.queues = queues;
  add_candidate(s, &concurrent, predicted_s / queues);
}

static void add_part(search *s, const part *p) {
  add_candidate(s, &p->recipe, p->seconds);
  add_concurrent(s, &p->recipe, p->seconds);
}

/* Cuts the axis after first grid steps, each part by one call. */
static mmc_status cut_in_two(search *s, const ladder *l, int first, part *out) {
  int rest_state = l->axis == MMCI_AXIS_K ? last_state(l) : AS_PRODUCT;
  mmci_gemm gemms[2] = {sized(l, ON_GRID, AS_PRODUCT, first),
                        sized(l, last_family(l), rest_state, l->count - first)};
  part leaves[2];
  for (int i = 0; i < 2; i++) {
    mmc_status status = find_leaf(s, &gemms[i], &leaves[i]);
    if (status != MMC_OK) return status;
  }
  int64_t sizes[2] = {mmci_gemm_size(&gemms[0], l->axis), mmci_gemm_size(&gemms[1], l->axis)};
  mmci_recipe_split(l->axis, sizes, &leaves[0].recipe, &leaves[1].recipe, &out->recipe);
  out->seconds = leaves[0].seconds + leaves[1].seconds;
  return MMC_OK;
}

/* Adds the best two-way cuts of a filled ladder, and the middle one for pieces at once. */
static mmc_status add_two_way(search *s, const ladder *l, double whole_s) {
  int best[TWO_WAY] = {0};
  double best_s[TWO_WAY] = {(double)INFINITY, (double)INFINITY};
  int family = last_family(l), last = l->count - (family == ON_GRID);
  int rest_state = l->axis == MMCI_AXIS_K ? last_state(l) : AS_PRODUCT;
  for (int j = 1; j <= last; j++) {
    double seconds = l->cells[ON_GRID][AS_PRODUCT][j].whole_s +
                     l->cells[family][rest_state][l->count - j].whole_s;
    int t = TWO_WAY;
    for (; t > 0 && seconds < best_s[t - 1]; t--)
      if (t < TWO_WAY) best[t] = best[t - 1], best_s[t] = best_s[t - 1];
    if (t < TWO_WAY) best[t] = j, best_s[t] = seconds;
  }
  for (int t = 0; t < TWO_WAY && best[t] != 0; t++) {
    part cut;
    mmc_status status = cut_in_two(s, l, best[t], &cut);
    if (status != MMC_OK) return status;
    if (cut.seconds < worth_comparing * whole_s) add_part(s, &cut);
  }
  int middle = (l->count + 1) / 2;
  if (middle < 1 || middle > last || l->axis == MMCI_AXIS_K) return MMC_OK;
  part cut;
  mmc_status status = cut_in_two(s, l, middle, &cut);
  if (status == MMC_OK) add_concurrent(s, &cut.recipe, cut.seconds);
  return status;
}

static mmc_status add_cuts(search *s, mmci_axis axis) {
  if ((axes_of(&s->gemm) >> axis & 1) == 0 || is_spent(s, looking_share)) return MMC_OK;
  part whole;
  mmc_status status = find_leaf(s, &s->gemm, &whole);
  if (status != MMC_OK) return status;
  ladder l = ladder_of(s->options, s->points, &s->gemm, axis);
  part best = whole;
  status = improve_along(s, &l, axes_of(&s->gemm), &best);
  if (status != MMC_OK) return status;
  if (!l.is_filled) return MMC_OK;
  if (best.recipe.count > 1) add_part(s, &best);
  return add_two_way(s, &l, whole.seconds);
}

/* Ranks a variant of the whole by its seconds among the fastest. */
static void rank_variant(search *s, double best_s[PIECE_VARIANTS], int variant, double seconds) {
  int t = s->variant_count < PIECE_VARIANTS ? s->variant_count++ : PIECE_VARIANTS;
  for (; t > 0 && seconds < best_s[t - 1]; t--)
    if (t < PIECE_VARIANTS) s->variants[t] = s->variants[t - 1], best_s[t] = best_s[t - 1];
  if (t < PIECE_VARIANTS) s->variants[t] = variant, best_s[t] = seconds;
}

/* Returns how many points the share of the budget is thought to allow. */
static int points_of(const search *s, double cost_s) {
  double points = looking_share * s->share_s / (point_price * s->variant_count * cost_s);
  return (int)fmin(s->options->most_points, fmax(LEAST_POINTS, points));
}

/* Times the whole product by every variant; the fastest are tried on pieces. */
static mmc_status add_variants(search *s) {
  const mmci_machine *machine = mmci_tuner_machine(s->tuner);
  int count = machine->variants(machine->user, &s->gemm);
  double best_s[PIECE_VARIANTS], cost_s = 0;
  s->variant_count = 0;
  for (int v = 0; v <= count && v <= MMCI_RECIPE_MOST; v++) {
    mmci_measured measured;
    mmc_status status = ask_whole(s, &s->gemm, v, &measured);
    if (status != MMC_OK) return status;
    mmci_recipe recipe = mmci_recipe_whole(v);
    if (v > 0) add_candidate(s, &recipe, measured.seconds.value);
    if (v == 0) cost_s = measured.cost_s;
    rank_variant(s, best_s, v, measured.seconds.value);
  }
  while (s->variant_count > 1 && !(best_s[s->variant_count - 1] < worth_cutting * best_s[0]))
    s->variant_count--;
  s->points = points_of(s, cost_s);
  return MMC_OK;
}

/* Adds copies with zeros around, where lines are not multiples already, by every variant that these
 * have. */
static mmc_status add_padding(search *s) {
  const mmci_machine *machine = mmci_tuner_machine(s->tuner);
  const mmci_gemm *gemm = &s->gemm;
  int pad = machine->pad;
  if (pad < 2) return MMC_OK;
  mmci_recipe recipe = mmci_recipe_whole(0);
  recipe.pad = pad;
  const mmci_gemm padded = mmci_recipe_padded(&recipe, gemm);
  if (mmci_gemm_lies_as(gemm, &padded)) return MMC_OK;
  int count = machine->variants(machine->user, &padded);
  for (int v = 0; v <= count && v <= MMCI_RECIPE_MOST && !is_spent(s, looking_share); v++) {
    mmci_measured measured;
    recipe.nodes[0].variant = v;
    mmc_status status = mmci_tuner_ask(s->tuner, MMCI_ASK_TIME, gemm, &recipe, &measured, s->error);
    if (status != MMC_OK) return status;
    add_candidate(s, &recipe, measured.seconds.value);
  }
  return MMC_OK;
}

/* ---- the decision -------------------------------------------------------------------------- */

static int by_prediction(const void *a, const void *b) {
  double x = ((const candidate *)a)->predicted_s, y = ((const candidate *)b)->predicted_s;
  return (x > y) - (x < y);
}

static int by_worth(const void *a, const void *b) {
  double x = ((const candidate *)a)->worth, y = ((const candidate *)b)->worth;
  return (x < y) - (x > y);
}

static bool is_enough(const mmci_tuner *tuner, const mmci_measured *measured) {
  return measured->gain.value >= 1 + mmci_tuner_options(tuner)->least_gain &&
         measured->plain_s - measured->seconds.value >= mmci_tuner_machine(tuner)->least_s;
}

/* Says whether a recipe is surely faster, and by enough. */
static bool is_worth_it(const mmci_tuner *tuner, const mmci_measured *measured) {
  return measured->gain.low > 1 && is_enough(tuner, measured);
}

/* Says whether a candidate is compared; those before it were asked about. */
static bool is_finalist(const search *s, const candidate *c, int compared[2]) {
  return compared[c->recipe.queues > 1]++ < s->options->finalists;
}

/* Compares the best predictions; those of pieces at once are of another kind and have places of
 * their own. Leaves in candidates those that are surely faster, the best first. */
static mmc_status compare_candidates(search *s) {
  qsort(s->candidates, (size_t)s->count, sizeof s->candidates[0], by_prediction);
  int compared[2] = {0, 0}, kept = 0;
  for (int c = 0; c < s->count; c++) {
    candidate finalist = s->candidates[c];
    if (is_spent(s, comparing_share) || !is_finalist(s, &finalist, compared)) continue;
    mmci_measured measured;
    mmc_status status =
        mmci_tuner_ask(s->tuner, MMCI_ASK_COMPARE, &s->gemm, &finalist.recipe, &measured, s->error);
    if (status != MMC_OK) return status;
    if (!is_worth_it(s->tuner, &measured)) continue;
    finalist.worth = measured.gain.value - piece_price * s->options->least_gain *
                                               (mmci_recipe_count(&finalist.recipe) - 1);
    if (!(finalist.worth >= 1 + s->options->least_gain)) continue;
    finalist.compared = measured;
    s->candidates[kept++] = finalist;
  }
  s->count = kept;
  qsort(s->candidates, (size_t)s->count, sizeof s->candidates[0], by_worth);
  return MMC_OK;
}

static mmc_status confirm(search *s, mmci_choice *choice) {
  mmci_gemm alone = tight(&s->gemm);
  mmci_recipe plain = mmci_recipe_whole(0);
  mmci_measured measured;
  mmc_status status = mmci_tuner_ask(s->tuner, MMCI_ASK_TIME, &alone, &plain, &measured, s->error);
  if (status != MMC_OK) return status;
  *choice = (mmci_choice){.recipe = plain,
                          .plain_s = measured.seconds.value,
                          .seconds = measured.seconds.value,
                          .spread = mmci_estimate_spread(&measured.seconds),
                          .gain = {1, 1, 1}};
  for (int c = 0; c < s->count && c < CONFIRMATIONS; c++) {
    const mmci_recipe *recipe = &s->candidates[c].recipe;
    status = mmci_tuner_ask(s->tuner, MMCI_ASK_CONFIRM, &s->gemm, recipe, &measured, s->error);
    if (status != MMC_OK) return status;
    if (!is_worth_it(s->tuner, &measured)) continue;
    const mmci_measured *compared = &s->candidates[c].compared;
    bool less = measured.gain.value < compared->gain.value;
    *choice = (mmci_choice){.recipe = *recipe,
                            .plain_s = compared->plain_s,
                            .seconds = compared->seconds.value,
                            .spread = mmci_estimate_spread(&compared->seconds),
                            .gain = less ? measured.gain : compared->gain};
    break;
  }
  return MMC_OK;
}

static mmc_status look_for_cuts(search *s) {
  static const mmci_axis likeliest_first[] = {MMCI_AXIS_N, MMCI_AXIS_M, MMCI_AXIS_K};
  mmc_status status = add_variants(s);
  if (status == MMC_OK) status = add_padding(s);
  for (int i = 0; status == MMC_OK && i < 3; i++) status = add_cuts(s, likeliest_first[i]);
  return status;
}

static mmc_status decide(search *s, mmci_choice *choice) {
  mmc_status status = MMC_OK;
  if (s->given != NULL)
    add_candidate(s, s->given, 0);
  else
    status = look_for_cuts(s);
  if (status == MMC_OK) status = compare_candidates(s);
  if (status == MMC_OK) status = confirm(s, choice);
  return status;
}

/* Decides a product within about share_s, or in the time it takes when that is infinite. */
static mmc_status tune_one(mmci_tuner *tuner, const mmci_gemm *gemm, const mmci_recipe *given,
                           double share_s, mmci_choice *choice, mmci_error *error) {
  if (gemm->m == 0 || gemm->k == 0 || gemm->n == 0) {
    *choice = (mmci_choice){.recipe = mmci_recipe_whole(0), .gain = {1, 1, 1}};
    return MMC_OK;
  }
  search *s = malloc(sizeof *s);
  if (s == NULL) return mmci_fail_nomem(error, sizeof *s);
  *s = (search){.tuner = tuner,
                .options = mmci_tuner_options(tuner),
                .gemm = *gemm,
                .given = given,
                .share_s = share_s,
                .left_s = mmci_tuner_left_s(tuner),
                .error = error};
  mmc_status status = decide(s, choice);
  free(s);
  return status;
}

/* ---- later --------------------------------------------------------------------------------- */

static void choose_plain(mmci_choice *choice) {
  *choice = (mmci_choice){.recipe = mmci_recipe_whole(0),
                          .plain_s = choice->plain_s,
                          .seconds = choice->plain_s,
                          .spread = choice->spread,
                          .gain = {1, 1, 1}};
}

/* The largest change of a choice's gain between two comparisons, as a logarithm. */
typedef struct drift {
  int64_t product;
  double plain_s, most;
} drift;

/* Asks again, and leaves the plain call where the choice does not hold. That it is faster was
 * proven: a comparison that something else on the machine blurs is no proof that it is not. */
static mmc_status ask_later(mmci_tuner *tuner, mmci_question question, const mmci_gemm *gemm,
                            mmci_choice *choice, drift *seen, mmci_error *error) {
  mmci_measured measured;
  mmc_status status = mmci_tuner_ask(tuner, question, gemm, &choice->recipe, &measured, error);
  if (status != MMC_OK) return status;
  const mmci_estimate *now = &measured.gain, before = choice->gain;
  seen->most = fmax(seen->most, fabs(log(now->value / before.value)));
  if (!is_enough(tuner, &measured))
    choose_plain(choice);
  else if (now->value < before.value)
    choice->gain = (mmci_estimate){now->value, fmin(before.low, now->value), now->high};
  return MMC_OK;
}

static int by_plain_time(const void *a, const void *b) {
  double x = ((const drift *)a)->plain_s, y = ((const drift *)b)->plain_s;
  return (x > y) - (x < y);
}

/* Drops choices whose gain may be chance. What else a machine does changes gains from one second to
 * the next, those of some products more than those of others: a choice must gain more than the
 * median change that was seen in the gains of products that take about as long. */
static void judge_drifts(drift *drifts, int64_t count, mmci_choice *choices) {
  const int64_t near = count < NEIGHBOURS ? count : NEIGHBOURS;
  qsort(drifts, (size_t)count, sizeof *drifts, by_plain_time);
  for (int64_t d = 0; d < count; d++) {
    mmci_choice *choice = &choices[drifts[d].product];
    int64_t first = d - near / 2 < 0 ? 0 : d - near / 2;
    if (first > count - near) first = count - near;
    double most[NEIGHBOURS];
    for (int64_t i = 0; i < near; i++) most[i] = drifts[first + i].most;
    double change = mmci_estimate_median(most, (int)near, 0).value;
    if (!mmci_recipe_is_plain(&choice->recipe) && log(choice->gain.value) < change)
      choose_plain(choice);
  }
}

/* Asks again about what was chosen for all products, one after the other, so that time passes
 * between two questions about one product; as far as the budget goes. */
static mmc_status ask_all_later(mmci_tuner *tuner, const mmci_gemm *gemms, int64_t count,
                                mmci_choice *choices, mmci_error *error) {
  int64_t chosen = 0;
  drift *drifts = mmci_alloc_array((size_t)count + 1, sizeof *drifts);
  if (drifts == NULL) return mmci_fail_nomem(error, ((uint64_t)count + 1) * sizeof *drifts);
  for (int64_t g = 0; g < count; g++)
    if (!mmci_recipe_is_plain(&choices[g].recipe))
      drifts[chosen++] = (drift){.product = g, .plain_s = choices[g].plain_s};
  mmc_status status = MMC_OK;
  for (int q = MMCI_ASK_LATER; status == MMC_OK && q <= MMCI_ASK_LATEST; q++) {
    for (int64_t d = 0; status == MMC_OK && d < chosen && !mmci_tuner_spent(tuner); d++) {
      int64_t g = drifts[d].product;
      if (mmci_recipe_is_plain(&choices[g].recipe)) continue;
      mmci_tuner_reached(tuner, "confirmations", (q - MMCI_ASK_LATER) * chosen + d, 2 * chosen);
      status = ask_later(tuner, (mmci_question)q, &gemms[g], &choices[g], &drifts[d], error);
    }
  }
  if (status == MMC_OK) judge_drifts(drifts, chosen, choices);
  free(drifts);
  return status;
}

static mmc_status keep_choice(mmci_tuner *tuner, const mmci_gemm *gemm, const mmci_choice *choice,
                              mmci_error *error) {
  const mmci_journal *journal = &mmci_tuner_options(tuner)->journal;
  return journal->choose != NULL ? journal->choose(journal->user, gemm, choice, error) : MMC_OK;
}

/* Tells all choices, and keeps those that differ from the first ones, whose gain is now the
 * smallest measured. It does so whatever else has failed, which error then tells. */
static mmc_status tell_all(mmci_tuner *tuner, const mmci_gemm *gemms, int64_t count,
                           const mmci_choice *choices, const double *first, mmc_status so_far,
                           mmci_error *error) {
  const mmci_journal *journal = &mmci_tuner_options(tuner)->journal;
  mmci_error ignored, *told = so_far == MMC_OK ? error : &ignored;
  mmc_status status = MMC_OK;
  for (int64_t g = 0; status == MMC_OK && g < count; g++) {
    if (choices[g].gain.value != first[g])
      status = keep_choice(tuner, &gemms[g], &choices[g], told);
    if (status == MMC_OK && journal->decided != NULL)
      status = journal->decided(journal->user, &gemms[g], &choices[g], told);
  }
  return so_far == MMC_OK ? status : so_far;
}

/* The products that are asked about again when all are decided: how many, the sum of their mkn. */
typedef struct again {
  double count, mkn;
} again;

static void add_again(again *x, const mmci_gemm *gemm, double times) {
  x->count += times;
  x->mkn = fmax(0, x->mkn + times * mmci_gemm_mkn(gemm));
}

/* Returns a product's share of the budget, in seconds, where count are left; a part is kept for
 * what is asked again. */
static double share_of(const mmci_tuner *tuner, const again *x, int64_t count) {
  double left_s = mmci_tuner_left_s(tuner), later_s = 0;
  for (int q = MMCI_ASK_LATER; q <= MMCI_ASK_LATEST; q++)
    later_s += mmci_tuner_turns_s(tuner, (mmci_question)q, x->count, x->mkn);
  return (left_s - fmin(later_s, most_later * left_s)) / (double)count;
}

mmc_status mmci_tune_given(mmci_tuner *tuner, const mmci_gemm *gemms, const mmci_recipe *given,
                           int64_t count, mmci_choice *choices, int64_t *decided,
                           mmci_error *error) {
  *decided = 0;
  for (int64_t g = 0; g < count; g++)
    if (gemms[g].variant != 0)
      return mmci_fail(error, MMC_E_ARG, "product: expected variant 0, got %d", gemms[g].variant);
  double *first = mmci_alloc_array((size_t)count + 1, sizeof *first);
  if (first == NULL) return mmci_fail_nomem(error, ((uint64_t)count + 1) * sizeof *first);
  again later = {0};
  for (int64_t g = 0; g < count; g++) add_again(&later, &gemms[g], 1);
  mmc_status status = MMC_OK;
  for (int64_t g = 0; status == MMC_OK && g < count; g++) {
    double share_s = share_of(tuner, &later, count - g);
    const mmci_recipe *recipe = given != NULL ? &given[g] : NULL;
    mmci_tuner_reached(tuner, given != NULL ? "cuts" : "products", g, count);
    status = tune_one(tuner, &gemms[g], recipe, share_s, &choices[g], error);
    if (status != MMC_OK) break;
    ++*decided;
    first[g] = choices[g].gain.value;
    /* The choice is kept at once, since the process may be killed. */
    status = keep_choice(tuner, &gemms[g], &choices[g], error);
    if (mmci_recipe_is_plain(&choices[g].recipe)) add_again(&later, &gemms[g], -1);
  }
  if (status == MMC_OK) status = ask_all_later(tuner, gemms, count, choices, error);
  status = tell_all(tuner, gemms, *decided, choices, first, status, error);
  free(first);
  return status;
}

mmc_status mmci_tune_set(mmci_tuner *tuner, const mmci_gemm *gemms, int64_t count,
                         mmci_choice *choices, int64_t *decided, mmci_error *error) {
  return mmci_tune_given(tuner, gemms, NULL, count, choices, decided, error);
}
