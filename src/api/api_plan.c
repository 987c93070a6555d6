/* api_plan.c: the public calls about plans and runs. */
#include <math.h>
#include <stdlib.h>

#include "api/kept_plans.h"
#include "base/alloc.h"
#include "base/options.h"
#include "chain/scale.h"
#include "plan/explain.h"
#include "plan/predictions.h"
#include "planner/little.h"
#include "planner/objective.h"
#include "planner/planner.h"
#include "ranks/cards_explain.h"
#include "run/at_once.h"

/* ---- options ------------------------------------------------------------------------------- */

static mmc_status check_plan_options(const mmc_plan_options *options, mmci_error *error) {
  if (options->location != MMC_HOST && options->location != MMC_DEVICE)
    return mmci_fail(error, MMC_E_ARG, "location: expected MMC_HOST or MMC_DEVICE, got number %d",
                     (int)options->location);
  return MMC_OK;
}

/* ---- plans --------------------------------------------------------------------------------- */

/* Opens the device that is asked for, or the first of several. */
static mmc_status open_device(mmc_context *context, mmci_plan_asked *asked, mmci_error *error) {
  const mmc_plan_options *options = asked->options;
  const char *device = options->device != NULL ? options->device : "cpu";
  if (!mmci_device_names_several(device)) {
    if (options->ranks != 0)
      return mmci_fail_argument(error, MMC_E_ARG, "ranks",
                                "needs the device scalapack or cuda:all, and this plan is for '%s'",
                                device);
    return mmci_context_open_device(context, device, &asked->on, error);
  }
  mmc_status status = mmci_context_open_gang(context, device, options->ranks, &asked->gang, error);
  if (status == MMC_OK) asked->on = asked->gang->cards.opened[0];
  return status;
}

/* Says what each of several devices does. */
static mmc_status plan_cards(mmc_plan *plan, const mmc_plan_options *options, mmci_error *error) {
  mmc_status status = mmci_cards_plan_for(
      &plan->gang->cards, &plan->plan, plan->precision, options->device_memory_bytes,
      options->location == MMC_DEVICE, NULL, NULL, NULL, &plan->cards_plan, error);
  if (status == MMC_OK) plan->plan.note = mmci_cards_note(&plan->cards_plan);
  return status;
}

/* Checks what a plan with exponents needs. */
static mmc_status check_scaled(const mmc_chain *chain, const mmci_objective *objective,
                               const mmci_opened *on, mmci_precision precision, mmci_error *error) {
  mmc_status status = mmci_scale_check(chain->dtype, error);
  if (status != MMC_OK) return status;
  if (on->ops->async != NULL)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device",
                              "'%s' keeps no exponents: expected cpu, blas or ref with scaled",
                              on->name);
  if (objective != &mmci_objective_flops)
    return mmci_fail_argument(error, MMC_E_ARG, "objective", "expected flops with scaled, got '%s'",
                              objective->name);
  if (chain->rule.semiring != MMC_PLUS_TIMES)
    return mmci_fail_argument(error, MMC_E_ARG, "scaled", "expected semiring plus-times with it");
  if (mmci_precision_is_reproducible(precision))
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "precision",
                              "plans with exponents are not reproducible");
  bool claimed = chain->inverse_count > 0;
  for (int32_t i = 0; i < chain->n && chain->traits != NULL; i++)
    claimed = claimed || chain->traits[i] != 0;
  if (!claimed) return MMC_OK;
  return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "scaled",
                            "expected factors without traits and inverses with it");
}

/* Nothing is measured of products over semirings, so they are planned by their number. */
static mmc_status check_semiring(const mmc_chain *chain, const mmci_objective *objective,
                                 mmci_precision precision, mmci_error *error) {
  const char *name = mmc_semiring_name(chain->rule.semiring);
  if (objective != &mmci_objective_flops)
    return mmci_fail_argument(error, MMC_E_ARG, "objective",
                              "expected flops with semiring %s, got '%s'", name, objective->name);
  if (mmci_precision_is_reproducible(precision) && chain->rule.semiring == MMC_LOG_SUM_EXP)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "precision",
                              "semiring %s is not computed reproducibly", name);
  return MMC_OK;
}

/* Reads what is asked for, and checks that there may be such a plan. */
static mmc_status read_asked(mmc_context *context, mmci_plan_asked *asked, mmci_error *error) {
  const mmc_plan_options *options = asked->options;
  const mmc_chain *chain = asked->chain;
  mmc_status status = check_plan_options(options, error);
  if (status == MMC_OK) status = open_device(context, asked, error);
  if (status == MMC_OK && asked->on.ops->enqueue == NULL)
    status = mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device", "'%s' cannot multiply",
                                options->device != NULL ? options->device : "cpu");
  if (status == MMC_OK)
    status = mmci_opened_check_rule(&asked->on, chain->dtype, &chain->rule, error);
  if (status == MMC_OK) status = mmci_objective_read(options->objective, &asked->objective, error);
  if (status == MMC_OK) status = mmci_planner_check(asked->objective, options, error);
  if (status == MMC_OK)
    status = mmci_precision_read_tolerance(options->precision, &asked->precision, &asked->tolerance,
                                           error);
  if (status == MMC_OK && options->scaled)
    status = check_scaled(chain, asked->objective, &asked->on, asked->precision, error);
  if (status == MMC_OK && chain->rule.semiring != MMC_PLUS_TIMES)
    status = check_semiring(chain, asked->objective, asked->precision, error);
  return status;
}

static mmc_status make_plan(mmc_context *context, const mmci_plan_asked *asked, mmc_plan **out,
                            mmci_error *error) {
  mmc_plan *plan = malloc(sizeof *plan);
  if (plan == NULL) return mmci_fail_nomem(error, sizeof *plan);
  *plan = (mmc_plan){.references = 1,
                     .context = context,
                     .on = asked->on,
                     .precision = asked->precision,
                     .gang = asked->gang,
                     .device_memory_bytes = asked->options->device_memory_bytes};
  mmc_status status =
      mmci_planner_plan(asked->objective, asked->chain, asked->options, &plan->on,
                        plan->gang != NULL ? plan->gang->name : plan->on.name, context->wisdom,
                        &plan->precision, asked->tolerance, &plan->plan, error);
  if (status == MMC_OK && plan->gang != NULL) {
    status = plan_cards(plan, asked->options, error);
    if (status != MMC_OK) mmci_plan_destroy(&plan->plan);
  }
  if (status == MMC_OK)
    *out = plan;
  else
    free(plan);
  return status;
}

static mmc_status create_plan(mmc_context *context, const mmc_chain *chain,
                              const mmc_plan_options *options, mmc_plan **out, mmci_error *error) {
  if (chain == NULL) return mmci_fail(error, MMC_E_ARG, "chain: expected a chain, got NULL");
  if (out == NULL) return mmci_fail(error, MMC_E_ARG, "out: expected an address, got NULL");
  mmc_plan_options read = MMC_PLAN_OPTIONS_INIT;
  mmc_status status = mmci_options_read("options", options, &read, sizeof read, error);
  mmci_plan_asked asked = {.chain = chain, .options = &read};
  if (status == MMC_OK) status = read_asked(context, &asked, error);
  if (status != MMC_OK) return status;
  mmc_plan *plan, *made = NULL;
  status = mmci_kept_plans_look(context, &asked, &plan, error);
  if (status == MMC_OK && plan == NULL) status = make_plan(context, &asked, &made, error);
  mmci_kept_plans_end(context, &asked, made);
  if (status == MMC_OK) *out = plan != NULL ? plan : made;
  return status;
}

mmc_status mmc_plan_create(mmc_context *context, const mmc_chain *chain,
                           const mmc_plan_options *options, mmc_plan **out) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(context, create_plan(context, chain, options, out, &error), &error);
}

void mmc_plan_destroy(mmc_plan *plan) {
  if (plan == NULL || atomic_fetch_sub(&plan->references, 1) != 1) return;
  mmci_cards_plan_destroy(&plan->cards_plan);
  mmci_plan_destroy(&plan->plan);
  mmci_wisdom_pricing_release(plan->source.pricing);
  free(plan);
}

mmc_status mmc_plan_explain(const mmc_plan *plan, mmc_format format, mmc_write_fn write,
                            void *user) {
  if (plan == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_status status = write == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "write: expected a function, got NULL")
                          : mmci_plan_explain(&plan->plan, format, write, user, &error);
  return mmci_report(plan->context, status, &error);
}

mmc_count mmc_plan_multiplications(const mmc_plan *plan) {
  return mmci_count(plan != NULL ? plan->plan.multiplications : 0);
}

const mmc_chain *mmc_plan_chain(const mmc_plan *plan) {
  return plan != NULL ? plan->plan.chain : NULL;
}

uint64_t mmc_plan_workspace_bytes(const mmc_plan *plan) {
  return plan != NULL ? plan->plan.workspace_bytes : 0;
}

const char *mmc_plan_device(const mmc_plan *plan) {
  return plan != NULL ? plan->plan.device : "";
}

bool mmc_plan_takes_line(const mmc_plan *plan, int64_t index) {
  return plan != NULL && index >= 0 && index < plan->plan.chain->n &&
         mmci_plan_takes_line(&plan->plan, (int32_t)index);
}

int64_t mmc_plan_step_count(const mmc_plan *plan) {
  return plan != NULL ? plan->plan.step_count : 0;
}

mmc_status mmc_plan_step(const mmc_plan *plan, int64_t index, mmc_step *out) {
  if (plan == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(plan->context, "out");
  mmci_error error = {0};
  if (index < 0 || index >= mmc_plan_step_count(plan))
    return mmci_report(
        plan->context,
        mmci_fail(&error, MMC_E_ARG, "index: the plan has no step %lld", (long long)index), &error);
  const mmci_plan_step *step = &plan->plan.steps[index];
  *out = (mmc_step){
      .m = step->m,
      .k = step->k,
      .n = step->n,
      .left = step->left,
      .right = step->right,
      .first = step->first,
      .last = step->last,
  };
  return MMC_OK;
}

mmc_count mmc_plan_step_multiplications(const mmc_plan *plan, int64_t index) {
  if (plan == NULL || index < 0 || index >= plan->plan.step_count) return mmci_count(0);
  return mmci_count(mmci_plan_step_multiplications(&plan->plan, &plan->plan.steps[index]));
}

const char *mmc_plan_step_kernel(const mmc_plan *plan, int64_t index) {
  if (plan == NULL || index < 0 || index >= mmc_plan_step_count(plan)) return "";
  return plan->plan.steps[index].kernel;
}

double mmc_plan_error_bound(const mmc_plan *plan) {
  return plan != NULL && plan->plan.tolerance > 0 ? plan->plan.error_bound : (double)NAN;
}

double mmc_plan_predicted_seconds(const mmc_plan *plan) {
  if (plan == NULL) return (double)NAN;
  return plan->plan.time != NULL ? plan->plan.time->predicted_s : mmci_plan_modelled_s(&plan->plan);
}

/* Reports that a plan lacks what plans for this objective have. */
static mmc_status fail_objective(const mmc_plan *plan, const char *objective) {
  mmci_error error = {0};
  return mmci_report(plan->context,
                     mmci_fail(&error, MMC_E_ARG, "plan: expected one for objective %s", objective),
                     &error);
}

static mmc_status check_step(const mmc_plan *plan, int64_t index) {
  mmci_error error = {0};
  if (index >= 0 && index < mmc_plan_step_count(plan)) return MMC_OK;
  return mmci_report(
      plan->context,
      mmci_fail(&error, MMC_E_ARG, "index: the plan has no step %lld", (long long)index), &error);
}

mmc_status mmc_plan_roofline(const mmc_plan *plan, mmc_roofline *out) {
  if (plan == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(plan->context, "out");
  if (plan->plan.time == NULL) return fail_objective(plan, "time or energy");
  *out = plan->plan.time->roofline;
  return MMC_OK;
}

mmc_status mmc_plan_step_time(const mmc_plan *plan, int64_t index, mmc_step_time *out) {
  if (plan == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(plan->context, "out");
  if (plan->plan.time == NULL) return fail_objective(plan, "time or energy");
  mmc_status status = check_step(plan, index);
  if (status != MMC_OK) return status;
  const mmci_plan_step *step = &plan->plan.steps[index];
  mmc_step_time time = {.predicted_s = step->predicted_s,
                        .source = mmci_provenance_name(step->source)};
  if (mmci_plan_recipe(step) != NULL)
    mmci_recipe_format(step->recipe, &plan->plan.variants, time.split);
  *out = time;
  return MMC_OK;
}

double mmc_plan_predicted_joules(const mmc_plan *plan) {
  return plan != NULL && plan->plan.energy != NULL ? plan->plan.energy->joules : (double)NAN;
}

mmc_status mmc_plan_step_energy(const mmc_plan *plan, int64_t index, mmc_step_energy *out) {
  if (plan == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(plan->context, "out");
  if (plan->plan.energy == NULL) return fail_objective(plan, "energy");
  mmc_status status = check_step(plan, index);
  if (status != MMC_OK) return status;
  const mmci_plan_step *step = &plan->plan.steps[index];
  *out = (mmc_step_energy){.predicted_j = step->predicted_j,
                           .source = mmci_provenance_name(step->joules_source)};
  return MMC_OK;
}

mmc_count mmc_plan_traffic_words(const mmc_plan *plan) {
  return mmci_count(plan != NULL && plan->plan.traffic != NULL ? plan->plan.traffic->words : 0);
}

mmc_status mmc_plan_step_traffic(const mmc_plan *plan, int64_t index, mmc_step_traffic *out) {
  if (plan == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(plan->context, "out");
  if (plan->plan.traffic == NULL) return fail_objective(plan, "traffic");
  mmc_status status = check_step(plan, index);
  if (status != MMC_OK) return status;
  const mmci_step_traffic *step = &plan->plan.traffic->steps[index];
  const mmci_fusion *choice = &step->choice;
  mmc_step_traffic traffic = {
      .fusion = step->fusion,
      .partner = choice->partner,
      .tile = {step->kernel.x, step->kernel.y},
      .words = mmci_count(step->kernel.words),
      .chosen = choice->chosen,
      .chosen_tile = {choice->kernel.x, choice->kernel.y},
  };
  for (int c = 0; c < 3; c++) {
    traffic.possible[c] = choice->words[c] != MMCI_U128_MAX;
    if (traffic.possible[c]) traffic.choices[c] = mmci_count(choice->words[c]);
  }
  *out = traffic;
  return MMC_OK;
}

/* ---- at once ------------------------------------------------------------------------------- */

/* Multiplies a little chain; *done says whether it was one. */
static mmc_status multiply_little(mmc_context *context, const mmc_chain *chain,
                                  const mmc_plan_options *given, const mmc_matrix *factors,
                                  const mmc_matrix *out, bool *done, mmci_error *error) {
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  mmci_opened on;
  const mmci_objective *objective;
  mmci_product products[MMCI_LITTLE_FACTORS];
  mmci_recipe recipes[MMCI_LITTLE_FACTORS];
  bool found = false;
  *done = false;
  mmc_status status = mmci_options_read("options", given, &options, sizeof options, error);
  if (status == MMC_OK) status = check_plan_options(&options, error);
  const char *device = options.device != NULL ? options.device : "cpu";
  if (status != MMC_OK || mmci_device_names_several(device)) return status;
  if (options.scaled || chain->rule.semiring != MMC_PLUS_TIMES) return MMC_OK;
  status = mmci_context_open_device(context, device, &on, error);
  if (status == MMC_OK) status = mmci_objective_read(options.objective, &objective, error);
  if (status == MMC_OK) status = mmci_planner_check(objective, &options, error);
  if (status == MMC_OK && on.ops->at_once != NULL)
    status = mmci_little_order(objective, chain, &options, &on, context->wisdom, products, recipes,
                               &found, error);
  if (status == MMC_OK && found)
    status = mmci_multiply_at_once(on.ops, on.device, chain, products, recipes, factors, out, done,
                                   error);
  return status;
}

mmc_status mmc_multiply(mmc_context *context, const mmc_chain *chain,
                        const mmc_plan_options *options, const mmc_matrix *factors,
                        const mmc_matrix *out) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  bool done = false;
  mmc_status status = chain == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "chain: expected a chain, got NULL")
                          : multiply_little(context, chain, options, factors, out, &done, &error);
  if (status != MMC_OK || done) return mmci_report(context, status, &error);
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  status = mmc_plan_create(context, chain, options, &plan);
  if (status == MMC_OK) status = mmc_run_create(plan, &run);
  if (status == MMC_OK) status = mmc_execute(run, factors, out);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  return status;
}

/* ---- runs ---------------------------------------------------------------------------------- */

mmc_status mmc_run_create(const mmc_plan *plan, mmc_run **out) {
  if (plan == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(plan->context, "out");
  mmci_error error = {0};
  mmc_run *run = mmci_alloc_zeroed(1, sizeof *run);
  if (run == NULL) return mmci_report(plan->context, mmci_fail_nomem(&error, sizeof *run), &error);
  *run = (mmc_run){.plan = plan};
  mmc_status status = plan->gang != NULL
                          ? mmci_cards_of_run(run, &error)
                          : mmci_run_create(&plan->plan, plan->on.ops, plan->on.device,
                                            plan->precision, &run->run, &error);
  if (status != MMC_OK) {
    mmci_cards_of_run_destroy(run);
    free(run);
    return mmci_report(plan->context, status, &error);
  }
  *out = run;
  return MMC_OK;
}

void mmc_run_destroy(mmc_run *run) {
  if (run == NULL) return;
  mmci_run_destroy(run->run);
  mmci_cards_of_run_destroy(run);
  free(run);
}

mmc_status mmc_execute(mmc_run *run, const mmc_matrix *factors, const mmc_matrix *out) {
  if (run == NULL) return MMC_E_ARG;
  mmci_error error;
  mmci_interrupt *before = mmci_interrupt_begin(&run->interrupt);
  mmc_status status = run->cards != NULL ? mmci_cards_execute(run, factors, out, &error)
                                         : mmci_run_execute(run->run, factors, out, &error);
  mmci_interrupt_end(before);
  return status == MMC_OK ? MMC_OK : mmci_report(run->plan->context, status, &error);
}

mmc_status mmc_execute_scaled(mmc_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                              int64_t *exponents) {
  if (run == NULL) return MMC_E_ARG;
  mmci_error error;
  if (!run->plan->plan.scaled)
    return mmci_report(run->plan->context,
                       mmci_fail(&error, MMC_E_ARG, "plan: expected one with exponents"), &error);
  if (exponents == NULL)
    return mmci_report(
        run->plan->context,
        mmci_fail_argument(&error, MMC_E_ARG, "exponents", "expected an address, got NULL"),
        &error);
  mmci_interrupt *before = mmci_interrupt_begin(&run->interrupt);
  mmc_status status = mmci_run_execute_scaled(run->run, factors, out, exponents, &error);
  mmci_interrupt_end(before);
  return status == MMC_OK ? MMC_OK : mmci_report(run->plan->context, status, &error);
}

void mmc_run_progress(mmc_run *run, mmc_progress_fn progress, void *user) {
  if (run == NULL) return;
  run->interrupt.ask = progress;
  run->interrupt.user = user;
}

mmc_status mmc_enqueue(mmc_run *run, void *stream, const mmc_matrix *factors,
                       const mmc_matrix *out) {
  if (run == NULL) return MMC_E_ARG;
  mmci_error error;
  mmc_status status = run->cards != NULL ? mmci_cards_await_stream(run->cards, stream, &error)
                                         : mmci_run_enqueue(run->run, stream, factors, out, &error);
  if (status == MMC_OK && run->cards != NULL)
    status = mmci_cards_execute(run, factors, out, &error);
  return status == MMC_OK ? MMC_OK : mmci_report(run->plan->context, status, &error);
}

mmc_status mmc_wait(mmc_run *run) {
  if (run == NULL) return MMC_E_ARG;
  mmci_error error;
  mmc_status status = run->run != NULL ? mmci_run_wait(run->run, &error) : MMC_OK;
  return status == MMC_OK ? MMC_OK : mmci_report(run->plan->context, status, &error);
}
