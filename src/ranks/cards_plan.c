/* cards_plan.c: makes programs for several cards by several rules, predicts what each takes, and
 * keeps the fastest. */
#include "ranks/cards_plan.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ranks/choose.h"

/* Predictions of programs for several cards are off by some percent: one card does it alone unless
 * several are surely faster. */
static const double SURELY = 0.95;
static const double SURELY_S = 30e-6;

/* Longer chains are for one card. */
enum { MOST_STEPS = 256 };

/* ---- where all is ---------------------------------------------------------------------------- */

static mmci_site site_on(mmci_layout layout, int32_t first) {
  return (mmci_site){layout, first};
}

/* Fills what the caller leaves open: a factor in the layout in which it is read, and one that is
 * read whole in pieces of which each makes a part of the result. */
static void spread_factors(const mmci_cards_problem *x, const mmci_step_site *sites,
                           mmci_given *factors, mmci_given *out) {
  const mmci_plan *plan = x->plan;
  const int32_t n = plan->chain->n, last = plan->step_count - 1;
  for (int32_t i = 0; i < n && x->factors != NULL; i++) factors[i] = x->factors[i];
  for (int32_t s = last; s >= 0; s--) {
    const mmci_plan_step *step = &plan->steps[s];
    const mmci_site *site = &sites[s].result;
    const int32_t ranks = site->layout.ranks;
    const mmci_layout rows = mmci_layout_rows(ranks), cols = mmci_layout_cols(ranks);
    const mmci_layout left = sites[s].inner ? cols : rows;
    const mmci_layout right = sites[s].inner ? rows : cols;
    if (step->left < n && (x->factors == NULL || x->factors[step->left].on_host))
      factors[step->left].site = site_on(left, site->first);
    if (step->right < n && (x->factors == NULL || x->factors[step->right].on_host))
      factors[step->right].site = site_on(right, site->first);
  }
  if (x->out != NULL) *out = *x->out;
  if (x->out == NULL) *out = (mmci_given){.on_host = !x->resident, .site = sites[last].result};
  for (int32_t i = 0; i < n && x->factors == NULL; i++) factors[i].on_host = !x->resident;
}

/* ---- candidates ------------------------------------------------------------------------------ */

/* A way to do it, while the fastest is looked for. */
typedef struct search {
  const mmci_cards_problem *x;
  mmci_cards_plan *best; /* sites is NULL until there is one */
  mmci_step_site *sites; /* of the candidate */
  mmci_given *factors;   /* n factors and the result */
  uint64_t least_bytes;  /* what the leanest took */
} search;

/* Makes the candidate's program, and keeps it when it is the fastest that fits. */
static mmc_status try_sites(search *f, mmci_error *error) {
  const mmci_cards_problem *x = f->x;
  const mmci_plan *plan = x->plan;
  mmci_given *out = &f->factors[plan->chain->n];
  memset(f->factors, 0, ((size_t)plan->chain->n + 1) * sizeof *f->factors);
  spread_factors(x, f->sites, f->factors, out);
  mmci_cards_program program;
  mmci_timeline timeline = {0};
  mmc_status status = mmci_cards_program_create(plan, x->precision, x->cards, x->parts_bytes,
                                                f->sites, f->factors, out, &program, error);
  if (status == MMC_E_OVERFLOW) return MMC_OK; /* too large for any machine: not this way */
  if (status != MMC_OK) return status;
  status = mmci_timeline_predict(&program, &x->rates, &timeline, error);
  const uint64_t bytes = mmci_cards_program_most_bytes(&program);
  if (bytes < f->least_bytes) f->least_bytes = bytes;
  const bool better = status == MMC_OK && bytes <= x->limit_bytes &&
                      (f->best->sites == NULL || timeline.seconds < f->best->timeline.seconds);
  if (!better) {
    mmci_cards_program_destroy(&program);
    return status;
  }
  mmci_cards_program_destroy(&f->best->program);
  mmci_step_site *spare = f->best->sites;
  f->best->sites = f->sites;
  f->best->program = program;
  f->best->timeline = timeline;
  for (int32_t i = 0; i <= plan->chain->n; i++) f->best->factors[i] = f->factors[i].site;
  f->sites = spare;
  if (spare != NULL) return MMC_OK;
  f->sites = mmci_alloc_array((size_t)plan->step_count, sizeof *f->sites);
  return f->sites != NULL ? MMC_OK
                          : mmci_fail_nomem(error, (uint64_t)plan->step_count * sizeof *f->sites);
}

/* Says where every step of the tree below one is computed. */
static void put_below(const mmci_plan *plan, int32_t s, mmci_step_site site,
                      mmci_step_site *sites) {
  for (int32_t t = s; t >= 0; t--)
    if (plan->steps[t].first >= plan->steps[s].first && plan->steps[t].last <= plan->steps[s].last)
      sites[t] = site;
}

static mmc_status try_all_alike(search *f, mmci_step_site site, mmci_error *error) {
  for (int32_t s = 0; s < f->x->plan->step_count; s++) f->sites[s] = site;
  return try_sites(f, error);
}

/* Two sub-trees of the last step, each on a part of the cards. */
static mmc_status try_parts(search *f, mmci_error *error) {
  const mmci_plan *plan = f->x->plan;
  const int32_t n = plan->chain->n, last = plan->step_count - 1, cards = f->x->cards;
  const mmci_plan_step *step = &plan->steps[last];
  if (cards < 2 || !mmci_plan_is_tree(plan) || step->left < n || step->right < n) return MMC_OK;
  const int32_t half = cards / 2;
  put_below(plan, step->left - n, (mmci_step_site){site_on(mmci_layout_rows(half), 0), false},
            f->sites);
  put_below(plan, step->right - n,
            (mmci_step_site){site_on(mmci_layout_rows(cards - half), half), false}, f->sites);
  f->sites[last] = (mmci_step_site){site_on(mmci_layout_rows(cards), 0), false};
  return try_sites(f, error);
}

/* The layouts that the table over the tree finds cheapest. */
static mmc_status try_table(search *f, mmci_ranks_goal goal, mmci_error *error) {
  const mmci_cards_problem *x = f->x;
  const mmci_plan *plan = x->plan;
  const int32_t n = plan->chain->n;
  mmci_ranks_product *products = mmci_alloc_array((size_t)plan->step_count, sizeof *products);
  mmci_layout *given = mmci_alloc_array((size_t)n, sizeof *given);
  if (products == NULL || given == NULL) {
    free(products);
    free(given);
    return mmci_fail_nomem(error, (uint64_t)plan->step_count * sizeof *products);
  }
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    products[s] = (mmci_ranks_product){step->m, step->k, step->n, step->left, step->right};
  }
  bool all_given = x->factors != NULL;
  for (int32_t i = 0; i < n && all_given; i++) {
    all_given = !x->factors[i].on_host && x->factors[i].site.first == 0 &&
                x->factors[i].site.layout.ranks == x->cards;
    given[i] = x->factors[i].site.layout;
  }
  const bool asked = x->out != NULL && !x->out->on_host && x->out->site.first == 0 &&
                     x->out->site.layout.ranks == x->cards;
  const mmci_ranks_problem problem = {
      .factor_count = n,
      .step_count = plan->step_count,
      .dims = plan->chain->dims,
      .products = products,
      .dtype = plan->chain->dtype,
      .ranks = x->cards,
      .all_ranks = true,
      .given = all_given ? given : NULL,
      .asked = asked ? &x->out->site.layout : NULL,
      .limit_bytes = UINT64_MAX,
      .goal = goal,
      .rates = {.flops_per_s = x->rates.product.flops_per_s,
                .word_bytes_s = 1 / x->rates.link_bytes_per_s,
                .message_s = x->rates.deed_s,
                .memory_bytes_s = 1 / x->rates.product.bytes_per_s}};
  mmci_ranks_plan chosen;
  mmc_status status = mmci_ranks_choose(&problem, &chosen, error);
  free(products);
  free(given);
  if (status != MMC_OK) return status;
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_way *way = &chosen.steps[s].way;
    f->sites[s] = (mmci_step_site){site_on(way->result, 0), way->algorithm == MMCI_BY_INNER};
  }
  mmci_ranks_plan_destroy(&chosen);
  return try_sites(f, error);
}

static mmc_status try_several(search *f, mmci_error *error) {
  const int32_t cards = f->x->cards;
  mmc_status status = try_table(f, MMCI_RANKS_SECONDS, error);
  if (status == MMC_OK) status = try_table(f, MMCI_RANKS_WORDS, error);
  const mmci_step_site rows = {site_on(mmci_layout_rows(cards), 0), false};
  const mmci_step_site cols = {site_on(mmci_layout_cols(cards), 0), false};
  if (status == MMC_OK) status = try_all_alike(f, rows, error);
  if (status == MMC_OK) status = try_all_alike(f, cols, error);
  if (status == MMC_OK) status = try_parts(f, error);
  return status;
}

/* ---- one card -------------------------------------------------------------------------------- */

/* Says why a plan is for one card whatever it takes; NULL where several may do it. */
static const char *only_alone(const mmci_cards_problem *x) {
  const mmci_plan *plan = x->plan;
  if (x->cards < 2) return "there is one card";
  if (plan->structure != NULL) return "plans that use the structure of factors are for one card";
  if (plan->chain->batch != 1) return "a batch is for one card";
  if (plan->step_count == 0) return "there is nothing to multiply";
  if (plan->step_count > MOST_STEPS) return "a chain of so many products is for one card";
  if (mmci_precision_is_reproducible(x->precision)) return "reproducible plans are for one card";
  if (plan->chain->rule.checked) return "checked integers are for one card";
  if (plan->chain->rule.modulus != 0) return "integers modulo a number are for one card";
  if (plan->chain->rule.semiring != MMC_PLUS_TIMES) return "semirings are for one card";
  return NULL;
}

/* Predicts one card. It has the plan's own prediction where that is for time. */
static mmc_status predict_alone(search *f, mmci_cards_plan *alone, mmci_error *error) {
  mmci_cards_plan *best = f->best;
  f->best = alone;
  const mmci_site one = site_on(mmci_layout_rows(1), 0);
  mmc_status status = try_all_alike(f, (mmci_step_site){one, false}, error);
  f->best = best;
  return status;
}

/* Says whether a matrix is where the first card alone finds it. */
static bool is_near_first(const mmci_given *x) {
  return x->on_host || (x->site.first == 0 && x->site.layout.ranks == 1);
}

/* Says whether one card can do it alone, without what others have. */
static bool may_be_alone(const mmci_cards_problem *x) {
  for (int32_t i = 0; x->factors != NULL && i < x->plan->chain->n; i++)
    if (!is_near_first(&x->factors[i])) return false;
  return x->out == NULL || is_near_first(x->out);
}

static mmc_status search_plan(search *f, mmci_cards_plan *out, mmci_error *error) {
  const mmci_cards_problem *x = f->x;
  const size_t matrices = (size_t)x->plan->chain->n + 1;
  mmci_cards_plan alone = {.factors = mmci_alloc_zeroed(matrices, sizeof *alone.factors)};
  out->factors = mmci_alloc_zeroed(matrices, sizeof *out->factors);
  if (alone.factors == NULL || out->factors == NULL) {
    free(alone.factors);
    return mmci_fail_nomem(error, matrices * sizeof *out->factors);
  }
  if (x->sites != NULL) {
    memcpy(f->sites, x->sites, (size_t)x->plan->step_count * sizeof *f->sites);
    mmci_cards_plan_destroy(&alone);
    return try_sites(f, error);
  }
  mmc_status status = predict_alone(f, &alone, error);
  if (status == MMC_OK) status = try_several(f, error);
  if (status == MMC_OK && !may_be_alone(x)) { /* as a program, since its matrices are in pieces */
    const mmci_step_site one = {site_on(mmci_layout_rows(1), 0), false};
    status = try_all_alike(f, one, error);
  }
  out->alone_s = alone.sites != NULL ? alone.timeline.seconds : (double)INFINITY;
  if (status == MMC_OK && may_be_alone(x)) {
    if (out->sites == NULL)
      out->alone = "its pieces do not fit into the cards' memory";
    else if (!(out->timeline.seconds < SURELY * out->alone_s &&
               out->timeline.seconds < out->alone_s - SURELY_S))
      out->alone = "one card is predicted to be as fast";
  } else if (status == MMC_OK && out->sites == NULL) {
    status = mmci_fail_argument(
        error, MMC_E_MEMORY_LIMIT, "device memory", "a card needs %llu bytes, and may hold %llu",
        (unsigned long long)f->least_bytes, (unsigned long long)x->limit_bytes);
  }
  mmci_cards_plan_destroy(&alone);
  return status;
}

mmc_status mmci_cards_plan_create(const mmci_cards_problem *problem, mmci_cards_plan *out,
                                  mmci_error *error) {
  *out = (mmci_cards_plan){.cards = problem->cards,
                           .alone = only_alone(problem),
                           .link_bytes_per_s = problem->rates.link_bytes_per_s};
  if (out->alone != NULL) return MMC_OK;
  const size_t steps = (size_t)problem->plan->step_count;
  const size_t matrices = (size_t)problem->plan->chain->n + 1;
  search f = {.x = problem,
              .best = out,
              .sites = mmci_alloc_zeroed(steps, sizeof *f.sites),
              .factors = mmci_alloc_zeroed(matrices, sizeof *f.factors),
              .least_bytes = UINT64_MAX};
  mmc_status status = MMC_OK;
  if (f.sites == NULL || f.factors == NULL)
    status = mmci_fail_nomem(error, matrices * sizeof *f.factors);
  if (status == MMC_OK) status = search_plan(&f, out, error);
  free(f.sites);
  free(f.factors);
  if (status != MMC_OK) mmci_cards_plan_destroy(out);
  return status;
}

void mmci_cards_plan_destroy(mmci_cards_plan *plan) {
  free(plan->sites);
  free(plan->factors);
  mmci_cards_program_destroy(&plan->program);
  plan->sites = NULL;
  plan->factors = NULL;
}
