/* api_team.c: the public calls about teams and plans over ranks. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/api.h"
#include "api/team_fingerprint.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "base/options.h"
#include "chain/span.h"
#include "ranks/agree.h"
#include "ranks/calibrate_ranks.h"
#include "ranks/engines.h"
#include "ranks/explain_ranks.h"
#include "ranks/shared_file.h"
#include "ranks/walk.h"

struct mmc_team {
  mmc_context *context;
  const mmci_team_ops *ops;
  mmci_team *team;
  mmci_products products;
};

struct mmc_team_plan {
  mmc_context *context;
  const mmc_team *team; /* NULL for a plan that is not executed */
  const char *engine;   /* static text */
  mmc_plan *order;      /* the order, and the steps */
  mmci_layout *given;   /* layouts of the factors; NULL when they are free */
  mmci_layout asked;
  mmci_ranks_product *products;
  mmci_ranks_problem problem;
  mmci_ranks_plan plan;
  mmci_pool *pool; /* memory for executions */
};

static const char scalapack[] = "scalapack";

/* ---- engines --------------------------------------------------------------------------------- */

mmc_status mmc_engine_describe(mmc_context *context, int index, mmc_engine_info *out) {
  if (context == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(context, "out");
  const mmci_team_ops *ops;
  mmci_error error = {0};
  mmc_engine_info info = {.name = mmci_engine_name(index)};
  if (info.name == NULL)
    return mmci_report(
        context, mmci_fail_argument(&error, MMC_E_ARG, "index", "there is no engine %d", index),
        &error);
  mmc_status status =
      mmci_engine_load(info.name, mmci_registry_module_dir(context->registry), &ops, &error);
  if (status == MMC_OK) status = ops->probe(info.description, sizeof info.description, &error);
  info.available = status == MMC_OK;
  if (!info.available) snprintf(info.description, sizeof info.description, "%s", error.text);
  *out = info;
  return MMC_OK;
}

/* ---- teams ----------------------------------------------------------------------------------- */

/* Fails on all ranks where some have another version. */
static mmc_status check_versions(const mmc_team *team, mmci_error *error) {
  enum { VERSION_SIZE = 24 };
  const int32_t count = team->ops->count(team->team);
  char mine[VERSION_SIZE] = {0};
  snprintf(mine, sizeof mine, "%s.%d", mmc_version(), (int)MMCI_TEAM_ABI);
  mmc_status status = MMC_OK;
  char(*all)[VERSION_SIZE] =
      mmci_team_gather(team->ops, team->team, &status, mine, sizeof mine, error);
  for (int32_t r = 1; all != NULL && status == MMC_OK && r < count; r++)
    if (memcmp(all[r], all[0], VERSION_SIZE) != 0)
      status =
          mmci_fail(error, MMC_E_UNSUPPORTED, "rank %d: has mmchain %.23s, and rank 0 has %.23s",
                    (int)r, all[r], all[0]);
  free(all);
  return status;
}

/* Opens what multiplies on this rank; without the device blas that is the engine. */
static mmc_status open_products(mmc_context *context, mmc_team *team, mmci_error *error) {
  mmci_opened blas = {.ops = NULL};
  mmc_status status = mmci_context_open_device(context, "blas", &blas, error);
  if (status != MMC_OK) blas = (mmci_opened){.ops = NULL};
  if (status != MMC_E_NOMEM)
    status = mmci_products_open(team->ops, team->team, &blas, &team->products, error);
  status = mmci_team_agree(team->ops, team->team, status, error);
  if (status != MMC_OK) mmci_products_close(&team->products);
  return status;
}

static mmc_status open_team(mmc_context *context, const char *engine, const void *communicator,
                            mmc_team **out, mmci_error *error) {
  if (out == NULL) return mmci_fail(error, MMC_E_ARG, "out: expected an address, got NULL");
  if (engine == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "engine", "expected scalapack, got NULL");
  mmc_team *team = mmci_alloc_zeroed(1, sizeof *team);
  if (team == NULL) return mmci_fail_nomem(error, sizeof *team);
  team->context = context;
  mmc_status status =
      mmci_engine_load(engine, mmci_registry_module_dir(context->registry), &team->ops, error);
  if (status == MMC_OK) status = team->ops->open(communicator, &team->team, error);
  if (status == MMC_OK) {
    status = check_versions(team, error);
    if (status == MMC_OK) status = open_products(context, team, error);
    if (status != MMC_OK) team->ops->close(team->team);
  }
  if (status == MMC_OK)
    *out = team;
  else
    free(team);
  return status;
}

mmc_status mmc_team_open(mmc_context *context, const char *engine, const void *communicator,
                         mmc_team **out) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(context, open_team(context, engine, communicator, out, &error), &error);
}

void mmc_team_close(mmc_team *team) {
  if (team == NULL) return;
  mmci_products_close(&team->products);
  team->ops->close(team->team);
  free(team);
}

int mmc_team_rank(const mmc_team *team) {
  return team != NULL ? team->ops->rank(team->team) : 0;
}

int mmc_team_count(const mmc_team *team) {
  return team != NULL ? team->ops->count(team->team) : 0;
}

char *mmc_team_describe(const mmc_team *team, char *text, size_t size) {
  if (text == NULL || size == 0) return text;
  text[0] = '\0';
  if (team != NULL) team->ops->describe(team->team, text, size);
  return text;
}

mmc_status mmc_team_gather(mmc_team *team, const void *mine, size_t size, void *all) {
  if (team == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_status status = MMC_OK;
  if (mine == NULL || all == NULL)
    status = mmci_fail(&error, MMC_E_ARG, "mine and all: expected an address, got NULL");
  else if (size > INT32_MAX)
    status = mmci_fail(&error, MMC_E_ARG, "size: expected at most 2^31 - 1 bytes, got %zu", size);
  status = mmci_team_agree(team->ops, team->team, status, &error);
  if (status == MMC_OK) status = team->ops->gather(team->team, mine, size, all, &error);
  return mmci_report(team->context, status, &error);
}

mmc_status mmc_team_agree(mmc_team *team, mmc_status status, const char *message) {
  if (team == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  snprintf(error.text, sizeof error.text, "%s",
           message != NULL ? message : mmc_status_string(status));
  const mmc_status agreed = mmci_team_agree(team->ops, team->team, status, &error);
  return mmci_report(team->context, agreed, &error);
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* Finds what was measured, else what is assumed. What is wrong with the store is no failure. */
static mmc_status find_rates(mmc_context *context, const char *engine, mmc_dtype dtype,
                             mmci_ranks_rates *out, mmci_error *error) {
  *out = mmci_ranks_assumed();
  mmci_ranks_rates measured = *out;
  mmci_fingerprint fingerprint;
  mmci_wisdom_table *table;
  mmci_error found = {0};
  mmc_status status = mmci_team_fingerprint(context, engine, dtype, &fingerprint, &found);
  if (status == MMC_OK) status = mmci_wisdom_acquire(context->wisdom, &fingerprint, &table, &found);
  if (status == MMC_E_NOMEM) return mmci_fail(error, status, "%s", found.text);
  if (status != MMC_OK) return MMC_OK;
  measured.calibrated = true;
  for (int f = 0; f < MMCI_RANKS_FACTS; f++) {
    const mmci_wisdom_fact *fact = mmci_wisdom_find_fact(table, mmci_ranks_fact_names[f]);
    const bool is_there = fact != NULL && isfinite(fact->number) && fact->number > 0;
    if (is_there) mmci_ranks_set_fact(&measured, f, fact->number);
    measured.calibrated = measured.calibrated && is_there;
  }
  mmci_wisdom_release(table);
  if (measured.calibrated) *out = measured;
  return MMC_OK;
}

static mmc_status keep_rates(mmc_context *context, const char *engine, mmc_dtype dtype,
                             const mmci_ranks_rates *rates, mmci_error *error) {
  mmci_fingerprint fingerprint;
  mmc_status status = mmci_team_fingerprint(context, engine, dtype, &fingerprint, error);
  for (int f = 0; f < MMCI_RANKS_FACTS && status == MMC_OK; f++) {
    const mmci_wisdom_record record = {.kind = MMCI_WISDOM_FACT,
                                       .fingerprint = &fingerprint,
                                       .fact = {.name = mmci_ranks_fact_names[f],
                                                .number = mmci_ranks_fact(rates, f),
                                                .measured_at = (int64_t)time(NULL)}};
    status = mmci_wisdom_put(context->wisdom, &record, error);
  }
  return status;
}

/* Gives all ranks the rates that rank 0 has found: a store may be that of one host. */
static mmc_status share_rates(const mmc_team *team, mmci_ranks_rates *rates, mmci_error *error) {
  mmc_status status = MMC_OK;
  mmci_ranks_rates *all =
      mmci_team_gather(team->ops, team->team, &status, rates, sizeof *rates, error);
  if (all != NULL) *rates = all[0];
  free(all);
  return status;
}

/* Fails on all ranks where some measure another dtype. */
static mmc_status check_dtypes(const mmc_team *team, mmc_dtype dtype, mmci_error *error) {
  const int32_t count = team->ops->count(team->team);
  mmc_status status = MMC_OK;
  mmc_dtype *all = mmci_team_gather(team->ops, team->team, &status, &dtype, sizeof dtype, error);
  for (int32_t r = 1; all != NULL && status == MMC_OK && r < count; r++)
    if (all[r] != all[0])
      status = mmci_fail(error, MMC_E_ARG, "rank %d: measures %s, and rank 0 measures %s", (int)r,
                         mmc_dtype_name(all[r]), mmc_dtype_name(all[0]));
  free(all);
  return status;
}

mmc_status mmc_team_calibrate(mmc_team *team, mmc_dtype dtype) {
  if (team == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmci_ranks_rates rates = mmci_ranks_assumed();
  mmc_status status = MMC_OK;
  if (mmc_dtype_name(dtype) == NULL)
    status =
        mmci_fail_argument(&error, MMC_E_ARG, "dtype", "expected one, got number %d", (int)dtype);
  else if (dtype > MMC_C128)
    status = mmci_fail_argument(&error, MMC_E_UNSUPPORTED, "dtype",
                                "ranks multiply matrices of f32, f64, c64 and c128");
  status = mmci_team_agree(team->ops, team->team, status, &error);
  if (status == MMC_OK) status = check_dtypes(team, dtype, &error);
  if (status != MMC_OK) return mmci_report(team->context, status, &error);
  rates.replaces = mmci_products_replace(&team->products, dtype);
  status = share_rates(team, &rates, &error);
  if (status == MMC_OK) status = mmci_ranks_calibrate(&team->products, dtype, &rates, &error);
  if (status == MMC_OK && team->ops->rank(team->team) == 0)
    status = keep_rates(team->context, team->ops->name, dtype, &rates, &error);
  status = mmci_team_agree(team->ops, team->team, status, &error);
  return mmci_report(team->context, status, &error);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static mmc_status check_chain(const mmc_chain *chain, mmci_error *error) {
  if (chain == NULL) return mmci_fail(error, MMC_E_ARG, "chain: expected a chain, got NULL");
  if (chain->rule.semiring != MMC_PLUS_TIMES)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "chain",
                              "expected semiring plus-times, got %s",
                              mmc_semiring_name(chain->rule.semiring));
  if (chain->dtype > MMC_C128)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "chain",
                              "ranks multiply matrices of f32, f64, c64 and c128, not of %s",
                              mmc_dtype_name(chain->dtype));
  if (chain->batch != 1)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "chain",
                              "ranks multiply one chain, not a batch");
  if (mmci_chain_claims(chain))
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "chain",
                              "ranks multiply factors without structure and without inverses");
  return MMC_OK;
}

/* Reads a public layout. */
static mmc_status read_spread(const char *name, const mmc_spread *spread, int32_t ranks,
                              mmci_layout *out, mmci_error *error) {
  switch (spread->kind) {
    case MMC_SPREAD_ROWS:
      *out = mmci_layout_rows(ranks);
      return MMC_OK;
    case MMC_SPREAD_COLS:
      *out = mmci_layout_cols(ranks);
      if (ranks == 1) *out = mmci_layout_rows(1);
      return MMC_OK;
    case MMC_SPREAD_WHOLE:
      *out = ranks == 1 ? mmci_layout_rows(1) : mmci_layout_whole(ranks);
      return MMC_OK;
    case MMC_SPREAD_GRID:
      if (spread->grid_rows < 1 || spread->grid_cols < 1 ||
          (int64_t)spread->grid_rows * spread->grid_cols != ranks)
        return mmci_fail_argument(error, MMC_E_ARG, name, "expected a grid of %d ranks, got %dx%d",
                                  (int)ranks, (int)spread->grid_rows, (int)spread->grid_cols);
      *out = mmci_layout_grid(spread->grid_rows, spread->grid_cols);
      if (spread->grid_cols == 1)
        *out = mmci_layout_rows(ranks);
      else if (spread->grid_rows == 1)
        *out = mmci_layout_cols(ranks);
      return MMC_OK;
    default:
      return mmci_fail_argument(error, MMC_E_ARG, name,
                                "expected an mmc_spread_kind, got number %d", (int)spread->kind);
  }
}

static mmc_status read_objective(const char *objective, mmci_ranks_goal *out, mmci_error *error) {
  static const char *const names[] = {"time", "energy", "words"};
  for (int g = 0; g < 3; g++)
    if (objective == NULL || strcmp(objective, names[g]) == 0) {
      *out = (mmci_ranks_goal)g;
      return MMC_OK;
    }
  return mmci_fail_argument(error, MMC_E_ARG, "objective",
                            "expected time, energy or words, got '%.60s'", objective);
}

/* Finds the order, by the fewest multiplications of dense products: ranks make nothing of a matrix
 * that stands beside its own transposed one. */
static mmc_status find_order(mmc_context *context, const mmc_chain *chain,
                             const mmc_team_options *options, mmc_team_plan *plan,
                             mmci_error *error) {
  mmc_plan_options order = MMC_PLAN_OPTIONS_INIT;
  order.solver = options->solver;
  order.order = options->order;
  mmc_chain *dense;
  mmc_status status = mmci_chain_copy(chain, &dense, error);
  if (status != MMC_OK) return status;
  mmci_chain_forget_structure(dense);
  status = mmc_plan_create(context, dense, &order, &plan->order);
  mmc_chain_destroy(dense);
  if (status == MMC_OK) return MMC_OK;
  char message[480];
  return mmci_fail(error, status, "%s", mmc_context_message(context, message, sizeof message));
}

static mmc_status read_layouts(const mmc_chain *chain, const mmc_team_options *options,
                               mmc_team_plan *plan, mmci_error *error) {
  mmci_ranks_problem *problem = &plan->problem;
  mmc_status status = MMC_OK;
  if (options->result != NULL) {
    status = read_spread("result", options->result, problem->ranks, &plan->asked, error);
    problem->asked = &plan->asked;
  }
  if (options->factors == NULL || status != MMC_OK) return status;
  plan->given = mmci_alloc_array((size_t)chain->n, sizeof *plan->given);
  if (plan->given == NULL) return mmci_fail_nomem(error, (size_t)chain->n * sizeof *plan->given);
  for (int32_t i = 0; i < chain->n && status == MMC_OK; i++)
    status = read_spread("factors", &options->factors[i], problem->ranks, &plan->given[i], error);
  problem->given = plan->given;
  return status;
}

static mmc_status read_precision(mmc_team_plan *plan, const char *precision, mmci_error *error) {
  plan->problem.reproducible = precision != NULL && strcmp(precision, "reproducible") == 0;
  if (precision != NULL && strcmp(precision, "native") != 0 && !plan->problem.reproducible)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "precision",
                              "ranks multiply natively or reproducibly, got '%.60s'", precision);
  if (plan->problem.reproducible && plan->team != NULL && plan->team->products.queue == NULL)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "precision",
                              "reproducible products need the device blas");
  return MMC_OK;
}

/* Takes the rates that the caller tells, if any. */
static mmc_status read_rates(const mmc_team_options *options, mmci_ranks_rates *rates,
                             mmci_error *error) {
  static const char *const names[] = {"flops_per_s", "byte_s", "message_s"};
  const double told[] = {options->flops_per_s, options->byte_s, options->message_s};
  double *to[] = {&rates->flops_per_s, &rates->word_bytes_s, &rates->message_s};
  if (told[0] == 0 && told[1] == 0 && told[2] == 0) return MMC_OK;
  for (int i = 0; i < 3; i++) {
    if (!(told[i] > 0) || !isfinite(told[i]))
      return mmci_fail_argument(error, MMC_E_ARG, names[i],
                                "expected a number above 0, as of all rates or of none, got %g",
                                told[i]);
    *to[i] = told[i];
  }
  rates->calibrated = true;
  return MMC_OK;
}

static mmc_status make_problem(mmc_team_plan *plan, const mmc_team_options *options,
                               mmci_error *error) {
  const mmci_plan *order = &plan->order->plan;
  mmci_ranks_problem *problem = &plan->problem;
  plan->products = mmci_alloc_array((size_t)order->step_count, sizeof *plan->products);
  if (plan->products == NULL)
    return mmci_fail_nomem(error, (size_t)order->step_count * sizeof *plan->products);
  for (int32_t s = 0; s < order->step_count; s++) {
    const mmci_plan_step *step = &order->steps[s];
    plan->products[s] = (mmci_ranks_product){step->m, step->k, step->n, step->left, step->right};
  }
  *problem = (mmci_ranks_problem){
      .factor_count = order->chain->n,
      .step_count = order->step_count,
      .dims = order->chain->dims,
      .ops = order->chain->ops,
      .products = plan->products,
      .dtype = order->chain->dtype,
      .ranks = plan->team != NULL ? plan->team->ops->count(plan->team->team) : options->ranks,
      .all_ranks = options->all_ranks,
      .halves = true,
      .limit_bytes = options->rank_bytes,
  };
  if (problem->ranks < 1 || problem->ranks > MMCI_MAX_RANKS)
    return mmci_fail_argument(error, MMC_E_ARG, "ranks", "expected 1 to %d, got %d",
                              (int)MMCI_MAX_RANKS, (int)problem->ranks);
  mmc_status status =
      find_rates(plan->context, plan->engine, problem->dtype, &problem->rates, error);
  if (status == MMC_OK) status = read_rates(options, &problem->rates, error);
  if (status == MMC_OK && plan->team != NULL)
    problem->rates.replaces = mmci_products_replace(&plan->team->products, problem->dtype);
  if (status == MMC_OK) status = read_objective(options->objective, &problem->goal, error);
  if (status == MMC_OK) status = read_precision(plan, options->precision, error);
  if (status == MMC_OK) status = read_layouts(order->chain, options, plan, error);
  return status;
}

typedef struct hashed {
  uint64_t hash;
  char text[104]; /* the beginning, for messages */
  size_t length;
} hashed;

static int hash_text(void *user, const char *bytes, size_t size) {
  hashed *h = user;
  h->hash = mmci_hash_bytes(h->hash, bytes, size);
  for (size_t i = 0; i < size && h->length < sizeof h->text - 1; i++)
    h->text[h->length++] = bytes[i];
  return 0;
}

/* Fails on all ranks where some plan another chain, or otherwise. */
static mmc_status check_alike(const mmc_team_plan *plan, mmci_error *error) {
  const mmc_team *team = plan->team;
  const int32_t count = team->ops->count(team->team);
  hashed mine = {.hash = MMCI_HASH_START};
  mmc_status status = mmc_chain_write(plan->order->plan.chain, hash_text, &mine);
  const size_t length = mine.length;
  if (status == MMC_OK)
    status = mmci_tree_write(&plan->order->plan.tree, MMC_ORDER_TEXT, hash_text, &mine, error);
  memset(mine.text + length, 0, sizeof mine.text - length);
  mine.length = 0;
  for (int64_t i = 0; plan->given != NULL && i < plan->problem.factor_count; i++)
    mine.hash = mmci_hash_bytes(mine.hash, &plan->given[i], sizeof plan->given[i]);
  if (plan->problem.asked != NULL)
    mine.hash = mmci_hash_bytes(mine.hash, &plan->asked, sizeof plan->asked);
  mine.hash = mmci_hash_bytes(mine.hash, &plan->problem.reproducible, sizeof(bool));
  mine.hash = mmci_hash_bytes(mine.hash, &plan->problem.limit_bytes, sizeof(uint64_t));
  mine.hash = mmci_hash_bytes(mine.hash, &plan->plan.words, sizeof plan->plan.words);
  mine.hash = mmci_hash_bytes(mine.hash, &plan->plan.predicted_s, sizeof plan->plan.predicted_s);
  hashed *all = mmci_team_gather(team->ops, team->team, &status, &mine, sizeof mine, error);
  for (int32_t r = 1; all != NULL && status == MMC_OK && r < count; r++)
    if (strcmp(all[r].text, all[0].text) != 0)
      status = mmci_fail(error, MMC_E_ARG, "rank %d: has the chain %s, and rank 0 has %s", (int)r,
                         all[r].text, all[0].text);
    else if (all[r].hash != all[0].hash)
      status = mmci_fail(error, MMC_E_ARG,
                         "rank %d: has other options, or another order, than rank 0", (int)r);
  free(all);
  return status;
}

static mmci_walk walk_of(const mmc_team_plan *plan, const mmci_source *sources) {
  const mmc_team *team = plan->team;
  return (mmci_walk){.ops = team->ops,
                     .team = team->team,
                     .products = &team->products,
                     .problem = &plan->problem,
                     .plan = &plan->plan,
                     .sources = sources,
                     .pool = plan->pool};
}

static mmc_status create_plan(mmc_context *context, mmc_team *team, const mmc_chain *chain,
                              const mmc_team_options *options, mmc_team_plan *plan,
                              mmci_error *error) {
  mmc_team_options read = MMC_TEAM_OPTIONS_INIT;
  mmc_status status = mmci_options_read("options", options, &read, sizeof read, error);
  if (status == MMC_OK) status = check_chain(chain, error);
  if (status == MMC_OK && read.engine != NULL && !mmci_engine_is_known(read.engine))
    status = mmci_fail_argument(error, MMC_E_ARG, "engine", "expected scalapack, got '%.60s'",
                                read.engine);
  plan->context = context;
  plan->team = team;
  plan->engine = scalapack;
  if (status == MMC_OK) status = find_order(context, chain, &read, plan, error);
  if (status == MMC_OK) status = make_problem(plan, &read, error);
  if (team != NULL) {
    status = mmci_team_agree(team->ops, team->team, status, error);
    if (status == MMC_OK) status = share_rates(team, &plan->problem.rates, error);
  }
  if (status == MMC_OK) status = mmci_ranks_choose(&plan->problem, &plan->plan, error);
  if (status == MMC_OK) plan->pool = mmci_pool_create(read.rank_bytes == MMC_NO_LIMIT);
  if (status == MMC_OK && plan->pool == NULL) status = mmci_fail_nomem(error, sizeof plan->pool);
  return status;
}

mmc_status mmc_team_plan_create(mmc_context *context, mmc_team *team, const mmc_chain *chain,
                                const mmc_team_options *options, mmc_team_plan **out) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_team_plan *plan = mmci_alloc_zeroed(1, sizeof *plan);
  mmc_status status = plan != NULL ? MMC_OK : mmci_fail_nomem(&error, sizeof *plan);
  if (out == NULL) status = mmci_fail(&error, MMC_E_ARG, "out: expected an address, got NULL");
  if (team != NULL) status = mmci_team_agree(team->ops, team->team, status, &error);
  if (status == MMC_OK) status = create_plan(context, team, chain, options, plan, &error);
  if (team != NULL) {
    status = mmci_team_agree(team->ops, team->team, status, &error);
    if (status == MMC_OK) status = check_alike(plan, &error);
    if (status == MMC_OK) {
      const mmci_walk walk = walk_of(plan, NULL);
      mmci_walk_prepare(&walk);
    }
  }
  if (status == MMC_OK)
    *out = plan;
  else
    mmc_team_plan_destroy(plan);
  return mmci_report(context, status, &error);
}

void mmc_team_plan_destroy(mmc_team_plan *plan) {
  if (plan == NULL) return;
  mmci_ranks_plan_destroy(&plan->plan);
  mmci_pool_destroy(plan->pool);
  mmc_plan_destroy(plan->order);
  free(plan->given);
  free(plan->products);
  free(plan);
}

/* ---- what a plan says ------------------------------------------------------------------------ */

typedef struct growing {
  char *text;
  size_t length, size;
  bool failed;
} growing;

static int grow(void *user, const char *bytes, size_t size) {
  growing *g = user;
  if (g->length + size + 1 > g->size) {
    const size_t larger = 2 * (g->length + size) + 256;
    char *text = realloc(g->text, larger);
    if (text == NULL) return -1;
    g->text = text;
    g->size = larger;
  }
  memcpy(g->text + g->length, bytes, size);
  g->length += size;
  g->text[g->length] = '\0';
  return 0;
}

static mmc_status explain(const mmc_team_plan *plan, mmc_format format, mmc_write_fn write,
                          void *user, mmci_error *error) {
  if (write == NULL) return mmci_fail(error, MMC_E_ARG, "write: expected a function, got NULL");
  if (format != MMC_TEXT && format != MMC_JSON)
    return mmci_fail(error, MMC_E_ARG, "format: plans over ranks are told as text or JSON");
  const mmci_plan *order = &plan->order->plan;
  growing chain = {0}, tree = {0};
  mmc_status status = mmc_chain_write(order->chain, grow, &chain);
  if (status == MMC_OK) status = mmci_tree_write(&order->tree, MMC_ORDER_TEXT, grow, &tree, error);
  if (status == MMC_OK) {
    const mmci_ranks_account account = {.chain = chain.text,
                                        .order = tree.text,
                                        .engine = plan->engine,
                                        .problem = &plan->problem,
                                        .plan = &plan->plan,
                                        .multiplications = order->multiplications};
    mmci_text text;
    mmci_text_start(&text, write, user);
    if (format == MMC_JSON)
      mmci_ranks_put_json(&account, &text);
    else
      mmci_ranks_put_text(&account, &text);
    status = mmci_text_finish(&text, error);
  } else if (status == MMC_E_IO) {
    status = mmci_fail_nomem(error, chain.size + tree.size);
  }
  free(chain.text);
  free(tree.text);
  return status;
}

mmc_status mmc_team_plan_explain(const mmc_team_plan *plan, mmc_format format, mmc_write_fn write,
                                 void *user) {
  if (plan == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(plan->context, explain(plan, format, write, user, &error), &error);
}

mmc_count mmc_team_plan_words(const mmc_team_plan *plan) {
  return mmci_count(plan != NULL ? plan->plan.words : 0);
}

double mmc_team_plan_predicted_seconds(const mmc_team_plan *plan) {
  return plan != NULL ? plan->plan.predicted_s : (double)NAN;
}

uint64_t mmc_team_plan_rank_bytes(const mmc_team_plan *plan) {
  return plan != NULL ? plan->plan.rank_bytes : 0;
}

/* Returns the piece of an operand after its op. */
static mmci_piece piece_of(const mmc_team_plan *plan, int64_t operand, int32_t rank) {
  const mmci_ranks_problem *p = &plan->problem;
  if (operand < 0)
    return mmci_layout_piece(&plan->plan.result, p->dims[0], p->dims[p->factor_count], rank);
  return mmci_layout_piece(&plan->given[operand], p->dims[operand], p->dims[operand + 1], rank);
}

mmc_status mmc_team_plan_piece(const mmc_team_plan *plan, int64_t operand, int rank,
                               mmc_piece *out) {
  if (plan == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(plan->context, "out");
  mmci_error error = {0};
  mmc_status status = MMC_OK;
  if (operand < -1 || operand >= plan->problem.factor_count)
    status = mmci_fail(&error, MMC_E_ARG, "operand: expected -1 to %lld, got %lld",
                       (long long)plan->problem.factor_count - 1, (long long)operand);
  else if (operand >= 0 && plan->given == NULL)
    status = mmci_fail(&error, MMC_E_ARG, "operand: the factors of the plan have no layouts");
  else if (rank < 0 || rank >= plan->problem.ranks)
    status = mmci_fail(&error, MMC_E_ARG, "rank: expected 0 to %d, got %d",
                       (int)plan->problem.ranks - 1, rank);
  if (status == MMC_OK) {
    const mmci_piece piece = piece_of(plan, operand, rank);
    *out = (mmc_piece){piece.row, piece.col, piece.rows, piece.cols};
  }
  return mmci_report(plan->context, status, &error);
}

/* ---- executing ------------------------------------------------------------------------------- */

/* Checks a matrix against the shape that it should have. */
static mmc_status check_matrix(const char *name, int64_t number, const mmc_matrix *matrix,
                               int64_t rows, int64_t cols, mmci_error *error) {
  char shown[40];
  if (number >= 0)
    snprintf(shown, sizeof shown, "%s[%lld]", name, (long long)number);
  else
    snprintf(shown, sizeof shown, "%s", name);
  const bool is_empty = rows == 0 || cols == 0;
  if (matrix->layout != MMC_ROW_MAJOR && matrix->layout != MMC_COL_MAJOR)
    return mmci_fail(error, MMC_E_ARG, "%s: expected a layout, got number %d", shown,
                     (int)matrix->layout);
  if (!is_empty && (matrix->rows != rows || matrix->cols != cols))
    return mmci_fail(error, MMC_E_ARG, "%s: expected %lldx%lld, got %lldx%lld", shown,
                     (long long)rows, (long long)cols, (long long)matrix->rows,
                     (long long)matrix->cols);
  const int64_t line = matrix->layout == MMC_ROW_MAJOR ? cols : rows;
  if (!is_empty && matrix->ld != 0 && matrix->ld < line)
    return mmci_fail(error, MMC_E_ARG, "%s: expected ld of %lld or more, got %lld", shown,
                     (long long)line, (long long)matrix->ld);
  if (!is_empty && matrix->data == NULL)
    return mmci_fail(error, MMC_E_ARG, "%s: expected data, got NULL", shown);
  if (matrix->location != MMC_HOST)
    return mmci_fail(error, MMC_E_ARG, "%s: expected host memory", shown);
  if (matrix->addresses != NULL)
    return mmci_fail(error, MMC_E_ARG, "%s: expected data, got a table of addresses", shown);
  return MMC_OK;
}

static int64_t lead(const mmc_matrix *matrix) {
  if (matrix->ld != 0) return matrix->ld;
  return matrix->layout == MMC_ROW_MAJOR ? matrix->cols : matrix->rows;
}

/* Says how this rank reads a factor, after its op, which must be apart from the result's bytes. */
static mmc_status read_source(const mmc_team_plan *plan, int64_t i, const mmc_matrix *matrix,
                              mmci_span result, mmci_source *out, mmci_error *error) {
  const mmci_ranks_problem *p = &plan->problem;
  const mmc_op op = plan->order->plan.chain->ops[i];
  mmci_piece piece = {.rows = p->dims[i], .cols = p->dims[i + 1]};
  if (plan->given != NULL) piece = piece_of(plan, i, plan->team->ops->rank(plan->team->team));
  const int64_t rows = op == MMC_OP_N ? piece.rows : piece.cols;
  const int64_t cols = op == MMC_OP_N ? piece.cols : piece.rows;
  mmc_status status = check_matrix("factors", i, matrix, rows, cols, error);
  if (status != MMC_OK) return status;
  if (rows > 0 && cols > 0 && mmci_spans_meet(result, mmci_span_of_matrix(p->dtype, matrix)))
    return mmci_fail(error, MMC_E_ARG, "factors[%lld]: overlaps the result", (long long)i);
  const bool is_rows = (matrix->layout == MMC_ROW_MAJOR) == (op == MMC_OP_N);
  const bool is_complex = p->dtype == MMC_C64 || p->dtype == MMC_C128;
  *out = (mmci_source){.data = matrix->data,
                       .row_step = is_rows ? lead(matrix) : 1,
                       .col_step = is_rows ? 1 : lead(matrix),
                       .conjugated = op == MMC_OP_H && is_complex,
                       .whole = plan->given == NULL};
  return MMC_OK;
}

static mmc_status execute(const mmc_team_plan *plan, const mmc_matrix *factors,
                          const mmc_matrix *out, mmci_error *error) {
  const mmc_team *team = plan->team;
  const int64_t n = plan->problem.factor_count;
  const mmci_piece piece = piece_of(plan, -1, team->ops->rank(team->team));
  mmci_source *sources = mmci_alloc_zeroed((size_t)n, sizeof *sources);
  mmc_status status = MMC_OK;
  if (sources == NULL) status = mmci_fail_nomem(error, (uint64_t)n * sizeof *sources);
  if (status == MMC_OK && (factors == NULL || out == NULL))
    status = mmci_fail(error, MMC_E_ARG, "%s: expected matrices, got NULL",
                       factors == NULL ? "factors" : "out");
  if (status == MMC_OK) status = check_matrix("out", -1, out, piece.rows, piece.cols, error);
  const bool writes = status == MMC_OK && piece.rows > 0 && piece.cols > 0;
  const mmci_span result =
      writes ? mmci_span_of_matrix(plan->problem.dtype, out) : mmci_span_of(NULL, 0);
  for (int64_t i = 0; status == MMC_OK && i < n; i++)
    status = read_source(plan, i, &factors[i], result, &sources[i], error);
  const mmci_walk walk = walk_of(plan, sources);
  const mmc_matrix none = {0}, *to = status == MMC_OK ? out : &none;
  status = mmci_walk_run(&walk, status, to->data, lead(to), to->layout == MMC_COL_MAJOR, error);
  free(sources);
  return status;
}

mmc_status mmc_team_execute(const mmc_team_plan *plan, const mmc_matrix *factors,
                            const mmc_matrix *out) {
  if (plan == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_status status = plan->team == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "plan: expected one with a team")
                          : execute(plan, factors, out, &error);
  return mmci_report(plan->context, status, &error);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A check of the caller's. */
typedef struct checking {
  mmc_check_fn check;
  void *user;
  int64_t rows, cols;
} checking;

static mmc_status check_written(void *user, const void *data) {
  const checking *c = user;
  void *elements;
  memcpy(&elements, &data, sizeof elements); /* a matrix has no const elements */
  const mmc_matrix result = {.data = elements, .rows = c->rows, .cols = c->cols};
  return c->check(c->user, &result);
}

static mmc_status write_file(const mmc_team_plan *plan, const char *name, const mmc_matrix *piece,
                             int ndim, checking *c, mmci_error *error) {
  const mmc_team *team = plan->team;
  const mmci_piece own = piece_of(plan, -1, team->ops->rank(team->team));
  mmc_status status = MMC_OK;
  if (name == NULL || piece == NULL) {
    status =
        mmci_fail(error, MMC_E_ARG, "%s: expected one, got NULL", name == NULL ? "name" : "piece");
  } else {
    const char *format = mmc_file_format(name, NULL);
    if (format != NULL && strcmp(format, "npy") != 0)
      status =
          mmci_fail(error, MMC_E_UNSUPPORTED, "%.200s: all ranks write .npy, not %s", name, format);
  }
  if (status == MMC_OK) status = check_matrix("piece", -1, piece, own.rows, own.cols, error);
  if (status == MMC_OK && own.rows > 0 &&
      (piece->layout != MMC_ROW_MAJOR || lead(piece) != own.cols))
    status = mmci_fail(error, MMC_E_ARG, "piece: expected row-major without gaps");
  const int64_t ones = (c->rows == 1) + (c->cols == 1);
  if (status == MMC_OK && (ndim > 2 || ndim < 0 || ones < 2 - ndim))
    status = mmci_fail(error, MMC_E_ARG, "ndim: expected what the shape allows, got %d", ndim);
  status = mmci_team_agree(team->ops, team->team, status, error);
  if (status != MMC_OK) return status;
  const mmci_shared_file file = {.path = name,
                                 .dtype = plan->problem.dtype,
                                 .rows = c->rows,
                                 .cols = c->cols,
                                 .ndim = ndim,
                                 .piece = own,
                                 .data = piece->data,
                                 .check = c->check != NULL ? check_written : NULL,
                                 .user = c};
  return mmci_shared_file_write(team->ops, team->team, &file, error);
}

mmc_status mmc_team_write(const mmc_team_plan *plan, const char *name, const mmc_matrix *piece,
                          int ndim, mmc_check_fn check, void *user) {
  if (plan == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  checking c = {check, user, plan->problem.dims[0], plan->problem.dims[plan->problem.factor_count]};
  mmc_status status = plan->team == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "plan: expected one with a team")
                          : write_file(plan, name, piece, ndim, &c, &error);
  return mmci_report(plan->context, status, &error);
}
