#include "planner/cover.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/group_problem.h"
#include "plan/layout.h"
#include "plan/predictions.h"

/* ---- prices -------------------------------------------------------------------------------- */

typedef enum choice { ALONE, WITH_LEFT, WITH_RIGHT, WHOLE } choice;

/* What is known of a step while the cheapest cover is looked for. */
typedef struct covered {
  /* The step's own call takes alone_s seconds, and all_s where it computes the product of every
   * chain, as groups do; a call for each step of its sub-tree takes sum_s. */
  double alone_s, all_s, sum_s;
  double best_s; /* seconds of its sub-tree by the cheapest calls found */
  /* Seconds of its sub-tree with each call's doubt added; the calls that make this least are
   * chosen. */
  double judged_s;
  double call_s, call_j; /* seconds and joules of the call that ends here */
  double call_error;     /* relative error of call_s when it was measured or is shipped */
  /* These are for every chain, too: */
  double plain_s;    /* seconds of the step as a plain call */
  double modelled_s; /* seconds of the step's own call by the model */
  int32_t size;      /* steps of its sub-tree, which are the last ones up to this */
  /* Steps of the largest sub-tree in it that the device was asked to take as one call. */
  int32_t asked;
  choice choice;
  mmci_provenance source; /* source of call_s, as in mmci_cover */
  bool taken;             /* the device takes its sub-tree as one call */
  bool is_measured;       /* all_s was measured */
  /* Seconds for every chain by what the device's facts assume; NAN until they are asked for. */
  double assumed_s;
  uint64_t hash; /* of the shape of its sub-tree, see hash_of_tree() */
} covered;

/* Long chains ask the same again and again: what products of a shape take, and whether a device
 * takes groups of one. Answers are kept by hashes of 64 bits of what was asked. */
enum { KEPT = 256 };

typedef struct kept_price {
  uint64_t hash; /* 0 where nothing is kept */
  covered price;
} kept_price;

typedef struct kept_answer {
  uint64_t hash;
  bool taken, timed; /* timed: what group_seconds() says is kept as well */
  double told_s, told_doubt, seconds, doubt, joules_share;
} kept_answer;

typedef struct search {
  const mmci_plan *plan;
  const mmci_group_machine *machine;
  covered *steps;
  mmci_group_part *parts;
  mmci_plan_group group;      /* the call at hand; it has room for all steps and operands */
  mmci_group_problem problem; /* the problem of group, which lies in room */
  double told_s;              /* seconds of group as the device tells them; NAN when it does not */
  double told_doubt;          /* the share that these may be off by */
  kept_price *prices;         /* KEPT; NULL where none are kept */
  kept_answer *answers;       /* KEPT */
  kept_answer *answer;        /* about group; NULL where it is not kept */
  int64_t *places;
  void *room, *scratch;
  mmc_status status; /* what the device answered last */
  mmci_error *error;
} search;

/* The finalizer of splitmix64 (Steele, Lea and Flood 2014) mixes all bits. It is never 0. */
static uint64_t mix(uint64_t hash, uint64_t number) {
  hash = (hash ^ number) + UINT64_C(0x9E3779B97F4A7C15);
  hash = (hash ^ hash >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  hash = (hash ^ hash >> 27) * UINT64_C(0x94D049BB133111EB);
  return (hash ^ hash >> 31) | 1;
}

/* Says whether a step is computed once for all chains by a call of its own. */
static bool is_common(const search *x, const mmci_plan_step *step) {
  const mmc_chain *chain = x->plan->chain;
  return mmci_chain_product_batch(chain, step->first, step->last + 1) < chain->batch;
}

/* Says how an operand lies: as a factor with its op, or as a result; of every chain or of all. */
static uint64_t kind_of_operand(const search *x, int32_t number) {
  const mmc_chain *chain = x->plan->chain;
  if (number < chain->n)
    return 2 + 2 * (uint64_t)chain->ops[number] + mmci_chain_shares(chain, number);
  return is_common(x, &x->plan->steps[number - chain->n]);
}

/* Returns the hash of all that the price of a step depends on, and the device's answer about it. */
static uint64_t hash_of_step(const search *x, const mmci_plan_step *step) {
  const uint64_t begin = is_common(x, step) ? 3 : 1;
  const uint64_t hash =
      mix(mix(mix(begin, (uint64_t)step->m), (uint64_t)step->k), (uint64_t)step->n);
  return mix(hash, kind_of_operand(x, step->left) << 8 | kind_of_operand(x, step->right));
}

/* Returns the same of the sub-tree of a step, whose operands have these. */
static uint64_t hash_of_tree(const search *x, const mmci_plan_step *step, const covered *left,
                             const covered *right) {
  const uint64_t hash = mix(hash_of_step(x, step), left != NULL ? left->hash : 0);
  return mix(hash, right != NULL ? right->hash : 0);
}

/* Tells what the step's own call takes, by its price. */
static void set_alone(const mmci_price *price, double seconds, covered *out) {
  out->alone_s = out->call_s = seconds;
  out->call_error = price->error;
  out->source = !price->modelled                ? MMCI_MEASURED
                : price->source == MMCI_SHIPPED ? MMCI_SHIPPED
                                                : MMCI_MODELLED;
}

/* Makes the product that a step is for every chain. */
static void make_product(const search *x, const mmci_plan_step *step, mmci_gemm *out) {
  const mmci_range r = mmci_plan_range(x->plan, step);
  mmci_chain_product(x->plan->chain, x->machine->precision, r.first, r.split, r.last, out);
  out->batch = x->plan->chain->batch;
}

static double assumed_of(const search *x, const mmci_plan_step *step, covered *known) {
  mmci_gemm gemm;
  mmci_price price;
  if (!isnan(known->assumed_s)) return known->assumed_s;
  make_product(x, step, &gemm);
  mmci_roofline_price(&x->machine->assumed, &gemm, &price);
  return known->assumed_s = price.seconds;
}

/* Prices a step as a call of its own. */
static covered price_step(const search *x, const mmci_plan_step *step) {
  const mmci_group_machine *machine = x->machine;
  const mmci_pricing *pricing = machine->pricing;
  mmci_gemm gemm;
  mmci_price price;
  make_product(x, step, &gemm);
  pricing->price(pricing->user, &gemm, &price);
  const double seconds = gemm.batch > 0 ? price.seconds : 0;
  covered out = {.all_s = seconds,
                 .plain_s = fmax(price.plain_s, seconds),
                 .modelled_s = seconds,
                 .is_measured = !price.modelled,
                 .assumed_s = price.source == MMCI_ASSUMED ? seconds : (double)NAN};
  set_alone(&price, seconds, &out);
  if (!price.modelled && machine->roofline != NULL) {
    mmci_roofline_price(machine->roofline, &gemm, &price);
    out.modelled_s = price.seconds;
  }
  if (!is_common(x, step)) return out;
  gemm.batch = 1;
  pricing->price(pricing->user, &gemm, &price);
  set_alone(&price, price.seconds, &out);
  return out;
}

static covered price_alone(const search *x, const mmci_plan_step *step) {
  if (x->prices == NULL) return price_step(x, step);
  const uint64_t hash = hash_of_step(x, step);
  kept_price *kept = &x->prices[hash / 2 % KEPT];
  if (kept->hash != hash) *kept = (kept_price){hash, price_step(x, step)};
  return kept->price;
}

/* Returns which part of the group a number is, or -1. */
static int32_t part_of(const search *x, int32_t number) {
  return mmci_plan_group_place(&x->group, number - x->plan->chain->n);
}

/* Returns the seconds of a call by the model. A call for which the model does not hold is taken to
 * be slower than its steps on their own, by as much as the model may be wrong. *doubt is the share
 * of consider(). What is computed once on its own takes no time where the call computes it once,
 * too; where it does so for every chain, it must be faster by what the model may be wrong. */
static double group_seconds(search *x, double *doubt) {
  const mmci_plan *plan = x->plan;
  const mmci_group_machine *machine = x->machine;
  const int64_t batch = plan->chain->batch;
  double all_s = 0, common_s = 0, modelled_s = 0, assumed_s = 0;
  bool all_measured = true;
  for (int32_t i = 0; i < x->group.step_count; i++) {
    const mmci_plan_step *s = &plan->steps[x->group.steps[i]];
    const covered *step = &x->steps[x->group.steps[i]];
    x->parts[i] = (mmci_group_part){s->m, s->k, s->n, part_of(x, s->left), part_of(x, s->right)};
    all_measured = all_measured && step->is_measured;
    if (is_common(x, s)) common_s += step->all_s;
    all_s += step->all_s;
    modelled_s += step->modelled_s;
  }
  if (isfinite(x->told_s)) {
    *doubt = x->told_doubt;
    return x->told_s;
  }
  if (!mmci_group_gains(&machine->facts, batch, x->parts, x->group.step_count))
    return all_s * (1 + machine->facts.error);
  const double kept = machine->facts.keeps_common && all_s > 0 ? 1 - common_s / all_s : 1;
  if (common_s > 0 && kept == 1) *doubt = machine->facts.error;
  /* What was measured ends by no assumption; a model that was calibrated by products on their own
   * knows nothing of groups, so that a group saves the share that the device's facts say. */
  for (int32_t i = 0; i < x->group.step_count && machine->is_assumed && !all_measured; i++)
    assumed_s += assumed_of(x, &plan->steps[x->group.steps[i]], &x->steps[x->group.steps[i]]);
  const bool by_share = assumed_s > 0;
  const double seconds =
      kept * mmci_group_seconds(by_share ? &machine->assumed_facts : &machine->facts,
                                plan->chain->dtype, batch, x->parts, x->group.step_count,
                                x->scratch);
  if (by_share) return seconds * (all_s / assumed_s);
  return all_s > modelled_s && modelled_s > 0 ? seconds * (all_s / modelled_s) : seconds;
}

static bool is_in_group(const void *user, int32_t step) {
  const search *x = user;
  return part_of(x, x->plan->chain->n + step) >= 0;
}

/* Asks the device about the group, whose hash is 0 where the answer is not kept. */
static bool is_supported(search *x, uint64_t hash) {
  const mmci_group_machine *machine = x->machine;
  bool taken = false;
  if (x->status != MMC_OK) return false;
  /* What was measured is looked for by the problem, which is written for each. */
  kept_answer *kept = NULL;
  if (x->answers != NULL && hash != 0 && machine->measured == NULL)
    kept = &x->answers[hash / 2 % KEPT];
  x->answer = kept;
  if (kept != NULL && kept->hash == hash) {
    x->told_s = kept->told_s;
    x->told_doubt = kept->told_doubt;
    return kept->taken;
  }
  mmci_group_problem_write(x->plan, &x->group, machine->precision, x->room, &x->problem);
  x->told_doubt = machine->doubt;
  x->status = machine->supports(machine->user, &x->problem.group, &taken, &x->told_s,
                                &x->told_doubt, x->error);
  if (x->status != MMC_OK) return false;
  if (kept != NULL)
    *kept = (kept_answer){
        .hash = hash, .told_s = x->told_s, .told_doubt = x->told_doubt, .taken = taken};
  return taken;
}

/* Calls of more products are measured only where they are all products of a chain. */
enum { MOST_PRODUCTS = 64 };

static bool is_measurable(const search *x) {
  return x->group.step_count <= MOST_PRODUCTS || x->group.step_count == x->plan->step_count;
}

/* Says whether the device tells the share that a call takes of its steps, and then its seconds. The
 * share is the most; where the device's formula gives less, that is nearer. */
static bool price_by_share(const search *x, double *seconds, double *joules_share) {
  const mmci_group_machine *machine = x->machine;
  mmci_group_share share;
  if (machine->share == NULL || !machine->share(machine->user, &x->problem.group, &share))
    return false;
  *seconds = 0;
  for (int32_t i = 0; i < x->group.step_count; i++)
    *seconds += x->steps[x->group.steps[i]].plain_s * share.time;
  *seconds = fmin(*seconds, x->told_s); /* of NAN and a number it is the number */
  *joules_share = share.joules;
  return true;
}

/* Returns the seconds of a call that the device takes. */
static mmci_group_time group_time(search *x, double *doubt, double *joules_share) {
  const mmci_group_machine *machine = x->machine;
  mmci_group_time time = {.known = false};
  *doubt = 0;
  *joules_share = (double)NAN;
  if (machine->measured != NULL && x->status == MMC_OK && is_measurable(x))
    x->status = machine->measured(machine->user, &x->problem.group, &time, x->error);
  if (time.known) return time;
  kept_answer *kept = x->answer;
  if (kept == NULL || !kept->timed) {
    if (!price_by_share(x, &time.seconds, joules_share)) time.seconds = group_seconds(x, doubt);
    if (kept != NULL) {
      kept->timed = true;
      kept->seconds = time.seconds;
      kept->doubt = *doubt;
      kept->joules_share = *joules_share;
    }
  } else {
    time.seconds = kept->seconds;
    *doubt = kept->doubt;
    *joules_share = kept->joules_share;
  }
  return time;
}

/* ---- the cheapest cover --------------------------------------------------------------------- */

static const covered *operand_of(const search *x, int32_t number) {
  return number < x->plan->chain->n ? NULL : &x->steps[number - x->plan->chain->n];
}

static double best_of(const search *x, int32_t number) {
  const covered *operand = operand_of(x, number);
  return operand != NULL ? operand->best_s : 0;
}

static double judged_of(const search *x, int32_t number) {
  const covered *operand = operand_of(x, number);
  return operand != NULL ? operand->judged_s : 0;
}

/* What else is to be computed for a call, by the cheapest calls. */
typedef struct rest {
  double seconds, judged_s;
} rest;

static void add_rest(const search *x, int32_t number, rest *out) {
  out->seconds += best_of(x, number);
  out->judged_s += judged_of(x, number);
}

static void consider(search *x, covered *at, choice choice, const rest *rest) {
  /* A call that was not measured must be faster by that share, whether or not its products were, so
   * that to tune one does not end a group. The same holds for calls in the rest, or a call of a
   * part of the steps would keep out one of all. */
  double doubt, joules_share;
  const mmci_group_time time = group_time(x, &doubt, &joules_share);
  const double call_s = time.seconds;
  const double judged_s = call_s * (1 + doubt) + rest->judged_s;
  if (!(judged_s < at->judged_s)) return;
  const mmci_group_machine *machine = x->machine;
  double call_j = NAN;
  if (machine->joules_allow != NULL &&
      !machine->joules_allow(machine->joules_user, x->plan, &x->group, call_s, joules_share,
                             &call_j))
    return;
  at->best_s = call_s + rest->seconds;
  at->judged_s = judged_s;
  at->call_s = call_s;
  const bool by_share = isfinite(joules_share), told = by_share || isfinite(x->told_s);
  at->call_error = time.known ? time.error : by_share ? machine->doubt : doubt;
  at->source = time.known ? MMCI_MEASURED : told ? MMCI_SHIPPED : MMCI_MODELLED;
  at->call_j = call_j;
  at->choice = choice;
}

/* Says whether the device may take the step in a call of several, as far as its size says. */
static bool may_take(const search *x, const mmci_plan_step *step) {
  const int64_t side = x->machine->side;
  return side == 0 || (step->m <= side && step->k <= side && step->n <= side);
}

/* Tries the step together with the one that computes its left or right operand. No group ends with
 * a step that is computed once on its own, which would leave a result for every chain. */
static void try_pair(search *x, int32_t s, choice side) {
  const mmci_plan_step *step = &x->plan->steps[s];
  int32_t n = x->plan->chain->n, with = (side == WITH_LEFT ? step->left : step->right) - n;
  int32_t other = side == WITH_LEFT ? step->right : step->left;
  if (with < 0 || is_common(x, step) || !may_take(x, step) || !may_take(x, &x->plan->steps[with]))
    return;
  const mmci_plan_step *child = &x->plan->steps[with];
  const int32_t pair[] = {with, s}, left[] = {child->left, child->right, other},
                right[] = {other, child->left, child->right};
  memcpy(x->group.steps, pair, sizeof pair);
  memcpy(x->group.operands, side == WITH_LEFT ? left : right, sizeof left);
  x->group.step_count = 2;
  x->group.operand_count = 3;
  uint64_t hash = 0;
  if (x->answers != NULL) hash = mix(mix(hash_of_step(x, step), hash_of_step(x, child)), side);
  if (!is_supported(x, hash)) return;
  rest rest = {0};
  for (int o = 0; o < 3; o++) add_rest(x, left[o], &rest);
  consider(x, &x->steps[s], side, &rest);
}

/* The device is asked about all sub-trees of up to so many steps, and of larger ones about those of
 * twice the size of the last. */
enum { EVERY_SIZE = 64 };

static int32_t most_asked(const covered *left, const covered *right) {
  const int32_t a = left != NULL ? left->asked : 0, b = right != NULL ? right->asked : 0;
  return a > b ? a : b;
}

/* Tries the sub-tree of the step, whose steps stand in a row and whose operands are factors in a
 * row. */
static void try_whole(search *x, int32_t s, covered *at) {
  const mmci_plan_step *step = &x->plan->steps[s];
  const covered *left = operand_of(x, step->left), *right = operand_of(x, step->right);
  if (!may_take(x, step)) return;
  if ((left != NULL && left->size > 1 && !left->taken) ||
      (right != NULL && right->size > 1 && !right->taken))
    return;
  const int32_t size = step->last - step->first;
  at->asked = most_asked(left, right);
  at->taken = true;
  /* Asking about every sub-tree of a long chain would take time quadratic in its length. */
  if (size > EVERY_SIZE && size < 2 * at->asked && s < x->plan->step_count - 1) return;
  at->asked = size;
  x->group.step_count = size;
  for (int32_t i = 0; i < size; i++) x->group.steps[i] = s - size + 1 + i;
  x->group.operand_count = step->last - step->first + 1;
  for (int32_t i = 0; i < x->group.operand_count; i++) x->group.operands[i] = step->first + i;
  at->taken = is_supported(x, at->hash);
  if (at->taken && !is_common(x, step)) consider(x, at, WHOLE, &(rest){0});
}

/* A pair of two factors and one is the sub-tree of its step, which is tried as such. */
static bool is_candidate(const search *x, int32_t s, choice choice) {
  const mmci_plan_traffic *traffic = x->plan->traffic;
  if (traffic == NULL) return choice == WHOLE || x->steps[s].size > 2;
  const mmci_step_traffic *step = &traffic->steps[s];
  return step->choice.partner >= 0 && step->choice.partner < s &&
         choice == (step->fusion == MMC_FUSION_LEFT ? WITH_LEFT : WITH_RIGHT);
}

static void cover_tree(search *x) {
  for (int32_t s = 0; s < x->plan->step_count; s++) {
    const mmci_plan_step *step = &x->plan->steps[s];
    const covered *left = operand_of(x, step->left), *right = operand_of(x, step->right);
    covered *at = &x->steps[s];
    *at = price_alone(x, step);
    if (x->answers != NULL) at->hash = hash_of_tree(x, step, left, right);
    at->size = step->last - step->first;
    at->sum_s = at->alone_s + (left != NULL ? left->sum_s : 0) + (right != NULL ? right->sum_s : 0);
    at->best_s =
        at->alone_s + x->machine->handicap_s + best_of(x, step->left) + best_of(x, step->right);
    at->judged_s =
        at->alone_s + x->machine->handicap_s + judged_of(x, step->left) + judged_of(x, step->right);
    if (at->size == 1) continue;
    if (is_candidate(x, s, WITH_LEFT)) try_pair(x, s, WITH_LEFT);
    if (is_candidate(x, s, WITH_RIGHT)) try_pair(x, s, WITH_RIGHT);
    if (is_candidate(x, s, WHOLE)) try_whole(x, s, at);
  }
}

/* Covers a plan whose results are read several times: by one call, or by single steps. */
static void cover_whole(search *x) {
  const mmci_plan *plan = x->plan;
  int32_t last = plan->step_count - 1;
  covered *at = &x->steps[last];
  x->group.step_count = plan->step_count;
  double sum_s = 0;
  for (int32_t s = 0; s <= last; s++) {
    x->steps[s] = price_alone(x, &plan->steps[s]);
    x->group.steps[s] = s;
    sum_s += x->steps[s].alone_s;
  }
  at->sum_s = sum_s;
  at->best_s = at->judged_s = sum_s + (double)plan->step_count * x->machine->handicap_s;
  mmci_plan_find_operands(plan, &x->group, is_in_group, x, x->places);
  if (last > 0 && is_supported(x, 0)) consider(x, at, WHOLE, &(rest){0});
}

/* Reads the calls off the choices, parents before children. */
static void label(const search *x, mmci_cover *out) {
  int32_t n = x->plan->chain->n;
  bool tree = mmci_plan_is_tree(x->plan);
  for (int32_t s = x->plan->step_count - 1; s >= 0; s--) {
    const covered *at = &x->steps[s];
    const mmci_plan_step *step = &x->plan->steps[s];
    out->alone_s[s] = at->alone_s;
    if (out->group_of[s] >= 0) continue;
    out->call_s[s] = at->call_s;
    out->call_j[s] = at->call_j;
    out->source[s] = at->source;
    const double error_s = at->call_s * at->call_error;
    if (at->source == MMCI_MEASURED)
      out->squares += error_s * error_s;
    else
      out->modelled += at->call_s * mmci_doubt_of(at->source, at->source == MMCI_SHIPPED
                                                                  ? at->call_error
                                                                  : x->machine->facts.error);
    if (at->choice == ALONE) continue;
    out->group_of[s] = out->groups;
    int32_t size = tree ? at->size : s + 1;
    if (at->choice == WHOLE)
      for (int32_t i = 1; i < size; i++) out->group_of[s - i] = out->groups;
    else
      out->group_of[(at->choice == WITH_LEFT ? step->left : step->right) - n] = out->groups;
    out->groups++;
  }
  /* The groups were found from the last to the first. */
  for (int32_t s = 0; s < x->plan->step_count; s++)
    if (out->group_of[s] >= 0) out->group_of[s] = out->groups - 1 - out->group_of[s];
}

void mmci_cover_destroy(mmci_cover *cover) {
  free(cover->alone_s);
  *cover = (mmci_cover){0};
}

/* Says whether answers are worth keeping. */
static bool is_long(const mmci_plan *plan) {
  return plan->step_count >= 16;
}

/* Room for the arrays of short plans, as allocating so much takes as long as a price or two. */
typedef struct short_room {
  _Alignas(int64_t) char bytes[4096];
} short_room;

/* Gives the search its arrays, in room or in memory that close_search() frees. Returns false when
 * there is none. */
static bool open_search(search *x, short_room *room) {
  const size_t count = (size_t)x->plan->step_count;
  size_t bytes[] = {count * sizeof *x->steps,
                    mmci_group_problem_bytes(2 * count, count),
                    2 * count * sizeof *x->places,
                    mmci_group_scratch_bytes(&x->machine->facts, x->plan->step_count),
                    count * sizeof *x->parts,
                    3 * count * sizeof *x->group.steps,
                    is_long(x->plan) ? KEPT * sizeof *x->prices : 0,
                    is_long(x->plan) ? KEPT * sizeof *x->answers : 0};
  enum { ARRAYS = sizeof bytes / sizeof bytes[0], WORD = sizeof(int64_t) };
  size_t begin[ARRAYS], all = 0;
  for (int a = 0; a < ARRAYS; a++) {
    begin[a] = all;
    all += (bytes[a] + WORD - 1) / WORD * WORD;
  }
  char *memory = all <= sizeof room->bytes ? room->bytes : mmci_alloc_array(1, all);
  if (memory == NULL) return false;
  x->steps = (covered *)(void *)memory;
  x->room = memory + begin[1];
  x->places = (int64_t *)(void *)(memory + begin[2]);
  x->scratch = memory + begin[3];
  x->parts = (mmci_group_part *)(void *)(memory + begin[4]);
  x->group.steps = (int32_t *)(void *)(memory + begin[5]);
  x->group.operands = x->group.steps + count;
  if (is_long(x->plan)) {
    x->prices = (kept_price *)(void *)(memory + begin[6]);
    x->answers = (kept_answer *)(void *)(memory + begin[7]);
    for (int i = 0; i < KEPT; i++) x->prices[i].hash = x->answers[i].hash = 0;
  }
  return true;
}

static void close_search(search *x, const short_room *room) {
  if ((const void *)x->steps != room->bytes) free(x->steps); /* which lie first */
}

mmc_status mmci_plan_cover(const mmci_plan *plan, const mmci_group_machine *machine,
                           mmci_cover *out, mmci_error *error) {
  size_t count = (size_t)plan->step_count;
  mmci_cover cover = {
      .alone_s = mmci_alloc_zeroed(
          count, 3 * sizeof *cover.alone_s + sizeof *cover.group_of + sizeof *cover.source)};
  if (cover.alone_s == NULL) return mmci_fail_nomem(error, 3 * count * sizeof *cover.alone_s);
  cover.call_s = cover.alone_s + count;
  cover.call_j = cover.call_s + count;
  cover.group_of = (int32_t *)(cover.call_j + count);
  cover.source = (mmci_provenance *)(cover.group_of + count);
  for (size_t s = 0; s < count; s++) cover.group_of[s] = -1;
  if (count == 0 || count > MMCI_GROUPS_MOST_STEPS) {
    *out = cover;
    return MMC_OK;
  }
  search x = {.plan = plan, .machine = machine, .error = error};
  short_room room;
  if (!open_search(&x, &room))
    x.status = mmci_fail_nomem(error, count * (sizeof *x.steps + sizeof *x.parts));
  else if (mmci_plan_is_tree(plan))
    cover_tree(&x);
  else
    cover_whole(&x);
  if (x.status == MMC_OK) {
    label(&x, &cover);
    cover.seconds = x.steps[count - 1].best_s;
    cover.separate_s = x.steps[count - 1].sum_s;
    *out = cover;
  } else {
    mmci_cover_destroy(&cover);
  }
  close_search(&x, &room);
  return x.status;
}

/* ---- taken --------------------------------------------------------------------------------- */

/* Forms the groups of the cover; *fits says whether there is room for what they need. */
static mmc_status take_cover(mmci_plan *plan, const mmci_cover *cover, uint64_t limit_bytes,
                             bool *fits, mmci_error *error) {
  uint64_t other_bytes = plan->resident_bytes - plan->workspace_bytes;
  mmc_status status = mmci_plan_group_steps(plan, cover->group_of, error);
  if (status != MMC_OK) return status;
  uint64_t resident_bytes = mmci_bytes_add(other_bytes, plan->workspace_bytes);
  *fits = mmci_bytes_add(plan->workspace_bytes, plan->scratch_bytes) <= limit_bytes &&
          plan->workspace_bytes != UINT64_MAX;
  if (plan->device_bytes > 0) {
    *fits = *fits && resident_bytes <= plan->device_bytes;
    plan->resident_bytes = resident_bytes;
  }
  for (int32_t g = 0; g < plan->group_count; g++) {
    mmci_plan_group *group = &plan->groups[g];
    const int32_t last = group->steps[group->step_count - 1];
    group->predicted_s = cover->call_s[last];
    group->predicted_j = cover->call_j[last];
    group->source = cover->source[last];
    group->separate_s = 0;
    for (int32_t i = 0; i < group->step_count; i++)
      group->separate_s += cover->alone_s[group->steps[i]];
  }
  return MMC_OK;
}

/* Returns the seconds that groups must save in all. */
static double least_saved_s(const mmci_plan *plan, const mmci_group_machine *machine) {
  if (!(machine->least_gain > 0)) return 0;
  const double multiplications = mmci_u128_to_double(plan->multiplications);
  return machine->least_gain * multiplications * mmci_flops(plan->chain->dtype, 1, 1, 1) /
         machine->roofline->flops_per_s;
}

/* Says whether a cover could save so much: none saves more than the calls that it replaces, which
 * are few where most steps do not fit. */
static bool may_save(const mmci_plan *plan, const mmci_group_machine *machine, double least_s) {
  const search x = {.plan = plan, .machine = machine};
  const int32_t n = plan->chain->n;
  double most_s = 0;
  for (int32_t s = 0; s < plan->step_count && most_s < least_s; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    const int32_t reads[] = {step->left, step->right};
    for (int o = 0; o < 2; o++)
      if (reads[o] >= n && may_take(&x, step) && may_take(&x, &plan->steps[reads[o] - n]))
        most_s +=
            price_alone(&x, step).alone_s + price_alone(&x, &plan->steps[reads[o] - n]).alone_s;
  }
  return most_s >= least_s;
}

mmc_status mmci_plan_choose_groups(mmci_plan *plan, const mmci_group_machine *machine,
                                   uint64_t limit_bytes, mmci_error *error) {
  if (plan->streamed || plan->step_count < 2) return MMC_OK;
  const double least_s = least_saved_s(plan, machine);
  if (!may_save(plan, machine, least_s)) return MMC_OK;
  mmci_cover cover;
  mmc_status status = mmci_plan_cover(plan, machine, &cover, error);
  if (status != MMC_OK) return status;
  uint64_t resident_bytes = plan->resident_bytes;
  bool fits = true;
  if (cover.groups > 0 && (!(least_s > 0) || cover.separate_s - cover.seconds >= least_s))
    status = take_cover(plan, &cover, limit_bytes, &fits, error);
  if (status == MMC_OK && !fits) {
    mmci_plan_disband(plan);
    plan->resident_bytes = resident_bytes;
    status = mmci_plan_lay_out(plan, plan->parallel, error);
  }
  mmci_cover_destroy(&cover);
  return status;
}
