/* api_plan.c: plans and runs. */
#include <math.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "plan/group_problem.h"
#include "plan/plan_energy.h"
#include "plan/plan_traffic.h"
#include "run/scratch.h"

/* Which kernel the device will run for every step, for whom the plan is explained to; of a step in
 * pieces, that of the plain call. */
static mmc_status name_kernels(mmc_plan *plan, mmci_error *error) {
  for (int32_t s = 0; s < plan->plan.step_count; s++) {
    mmci_plan_step *step = &plan->plan.steps[s];
    mmci_gemm gemm = mmci_step_gemm(&plan->plan, &plan->on, plan->precision, s);
    const mmci_recipe *recipe = mmci_plan_recipe(step);
    if (recipe != NULL && mmci_recipe_count(recipe) == 1) {
      gemm = mmci_recipe_padded(recipe, &gemm);
      gemm.variant = recipe->nodes[0].variant;
    }
    step->kernel = plan->on.ops->kernel_name(plan->on.device, &gemm);
  }
  for (int32_t g = 0; g < plan->plan.group_count; g++) {
    mmci_plan_group *group = &plan->plan.groups[g];
    mmci_group_problem call;
    mmc_status status =
        mmci_group_problem_create(&plan->plan, group, plan->precision, &call, error);
    if (status != MMC_OK) return status;
    group->kernel = plan->on.ops->group_name(plan->on.device, &call.group);
    for (int32_t i = 0; i < group->step_count; i++)
      plan->plan.steps[group->steps[i]].kernel = group->kernel;
    mmci_group_problem_destroy(&call);
  }
  return MMC_OK;
}

/* ---- options ------------------------------------------------------------------------------- */

static mmc_status check_options(const mmc_plan_options *options, mmci_error *error) {
  if (options->size != sizeof *options)
    return mmci_fail(error, MMC_E_ARG, "options: expected size %zu, got %zu", sizeof *options,
                     options->size);
  if (options->location != MMC_HOST && options->location != MMC_DEVICE)
    return mmci_fail(error, MMC_E_ARG, "location: expected MMC_HOST or MMC_DEVICE, got number %d",
                     (int)options->location);
  return MMC_OK;
}

typedef enum objective { FLOPS, TRAFFIC, TIME, ENERGY, OBJECTIVES } objective;

static mmc_status read_objective(const char *name, objective *out, mmci_error *error) {
  static const char *const names[] = {
      [FLOPS] = "flops", [TRAFFIC] = "traffic", [TIME] = "time", [ENERGY] = "energy"};
  for (objective o = FLOPS; o < OBJECTIVES; o = (objective)(o + 1)) {
    if (name != NULL && strcmp(name, names[o]) != 0) continue;
    *out = o;
    return MMC_OK;
  }
  return mmci_fail(error, MMC_E_ARG, "objective: expected flops, traffic, time or energy, got '%s'",
                   name);
}

/* Reads what options say of the objective and of fusion, which goes with traffic only. */
static mmc_status read_request(const mmc_plan_options *options, objective *out,
                               mmci_traffic_request *request, mmci_error *error) {
  mmc_status status = read_objective(options->objective, out, error);
  if (status != MMC_OK) return status;
  if (*out != TRAFFIC && options->fuse != NULL)
    return mmci_fail(error, MMC_E_ARG, "fuse: expected objective traffic with it");
  if (options->kernel != NULL && *out != FLOPS && *out != TRAFFIC)
    return mmci_fail(error, MMC_E_ARG, "kernel: expected objective flops or traffic with it");
  if (*out != TRAFFIC && options->on_chip_words != 0)
    return mmci_fail(error, MMC_E_ARG, "on_chip_words: expected objective traffic with it");
  double slowdown = options->max_slowdown;
  if (slowdown != 0 && !(slowdown >= 1 && isfinite(slowdown)))
    return mmci_fail(error, MMC_E_ARG,
                     "max_slowdown: expected a number from 1, or 0 for no bound, got %g", slowdown);
  if (*out != ENERGY && slowdown != 0)
    return mmci_fail(error, MMC_E_ARG, "max_slowdown: expected objective energy with it");
  status = mmci_traffic_request_read(options->fuse, options->on_chip_words, request, error);
  if (status == MMC_OK && request->joint && options->solver != NULL &&
      strcmp(options->solver, "auto") != 0)
    return mmci_fail(error, MMC_E_ARG, "solver: expected auto with fuse joint, got '%s'",
                     options->solver);
  return status;
}

/* ---- groups -------------------------------------------------------------------------------- */

/* On host memory a batch without intermediates in memory need not be cut. */
static void uncut(mmc_plan *plan) {
  if (plan->on.ops->async == NULL && plan->plan.workspace_bytes == 0)
    plan->plan.chunk = plan->plan.chain->batch;
}

static mmc_status group_for(mmc_plan *plan, const mmci_group_machine *machine, uint64_t limit_bytes,
                            mmci_error *error) {
  mmc_status status = mmci_plan_choose_groups(&plan->plan, machine, limit_bytes, error);
  if (status == MMC_OK) uncut(plan);
  return status;
}

/* Of the arithmetic's time: groups that save less are not worth a workspace laid out anew. */
static const double least_group_gain = 0.01;

/* Groups by the model alone: what is not planned for time does not depend on what was measured. */
static mmc_status choose_groups(mmc_plan *plan, uint64_t limit_bytes, mmci_error *error) {
  mmci_facts facts;
  const mmc_dtype dtype = plan->plan.chain->dtype;
  mmc_status status = mmci_opened_facts(&plan->on, dtype, plan->precision, &facts, error);
  if (status != MMC_OK) return status;
  mmci_roofline roofline = mmci_roofline_assumed(&facts);
  mmci_pricing pricing = mmci_roofline_pricing(&roofline);
  const mmci_taker x = {
      .on = &plan->on, .dtype = dtype, .precision = plan->precision, .kernel = plan->kernel};
  mmci_group_machine machine;
  if (!mmci_group_machine_of(&x, &pricing, &roofline, &machine)) return MMC_OK;
  if (plan->kernel == NULL && plan->plan.traffic == NULL) machine.least_gain = least_group_gain;
  return group_for(plan, &machine, limit_bytes, error);
}

/* Every step by the kernel of that name or, where that computes none, groups by it. */
static mmc_status take_kernel(mmc_plan *plan, uint64_t limit_bytes, mmci_error *error) {
  bool found;
  mmc_status status =
      mmci_plan_by_kernel(&plan->plan, &plan->on, plan->precision, plan->kernel, &found, error);
  if (status != MMC_OK || found) return status;
  status = choose_groups(plan, limit_bytes, error);
  if (status != MMC_OK || plan->plan.group_count > 0) return status;
  return mmci_fail(error, MMC_E_UNSUPPORTED,
                   "kernel: device '%s' has none called '%s' for these products", plan->on.name,
                   plan->kernel);
}

/* ---- plans --------------------------------------------------------------------------------- */

/* On host memory, intermediates of a batch that are more than this are read from memory again and
 * not from a cache. */
static const uint64_t host_chunk_bytes = 1 << 20;

/* What a device with memory of its own can hold. */
typedef struct room {
  mmci_scratch_user scratch;
  mmci_plan_machine machine; /* points at scratch */
} room;

/* Some of what is free is left to the device's libraries. */
static mmc_status fit(mmc_plan *plan, const mmc_plan_options *options, room *out,
                      mmci_error *error) {
  const mmci_device_async *async = plan->on.ops->async;
  *out = (room){.scratch = {.ops = plan->on.ops,
                            .device = plan->on.device,
                            .precision = plan->precision,
                            .staged = options->location == MMC_HOST}};
  if (async == NULL) return mmci_plan_shrink(&plan->plan, host_chunk_bytes, error);
  uint64_t free_bytes, total_bytes;
  mmc_status status = async->memory(plan->on.device, &free_bytes, &total_bytes, error);
  if (status != MMC_OK) return status;
  out->machine = (mmci_plan_machine){.queues = async->queues,
                                     .memory_bytes = free_bytes - free_bytes / 16,
                                     .staged = out->scratch.staged,
                                     .scratch_bytes = mmci_step_scratch_bytes,
                                     .user = &out->scratch};
  if (options->device_memory_bytes < out->machine.memory_bytes)
    out->machine.memory_bytes = options->device_memory_bytes;
  return mmci_plan_fit(&plan->plan, &out->machine, options->memory_limit_bytes, error);
}

/* Order, steps, places, and after these, as they number the steps, what is fused. */
static mmc_status make_plan(const mmc_chain *chain, const mmc_plan_options *options, mmc_plan *plan,
                            const mmci_traffic_request *traffic, mmci_error *error) {
  uint64_t limit_bytes = options->memory_limit_bytes;
  const char *solver = options->solver != NULL ? options->solver : "auto";
  mmc_status status =
      traffic != NULL && traffic->joint
          ? mmci_plan_create_joint(chain, traffic->on_chip_words, limit_bytes, &plan->plan, error)
          : (traffic != NULL ? mmci_plan_create_tree : mmci_plan_create)(chain, solver, limit_bytes,
                                                                         &plan->plan, error);
  if (status != MMC_OK) return status;
  room room;
  status = fit(plan, options, &room, error);
  if (status == MMC_OK && traffic != NULL) status = mmci_plan_fuse(&plan->plan, traffic, error);
  if (status == MMC_OK)
    status = (plan->kernel != NULL ? take_kernel : choose_groups)(plan, limit_bytes, error);
  if (status != MMC_OK) mmci_plan_destroy(&plan->plan);
  return status;
}

/* The same by what wisdom knows of this device. */
static mmc_status make_timed_plan(const mmc_chain *chain, const mmc_plan_options *options,
                                  mmc_plan *plan, mmci_error *error) {
  mmci_wisdom_pricing *wisdom;
  mmc_status status = mmci_context_pricing(plan->context, plan->on.name, chain->dtype,
                                           plan->precision, &wisdom, error);
  if (status != MMC_OK) return status;
  mmci_pricing pricing = mmci_wisdom_pricing_of(wisdom);
  mmci_time_request request = {.pricing = &pricing,
                               .precision = plan->precision,
                               .notice = mmci_wisdom_pricing_notice(wisdom)};
  const mmci_taker x = {
      .on = &plan->on, .dtype = chain->dtype, .precision = plan->precision, .wisdom = wisdom};
  const mmci_roofline *roofline = mmci_wisdom_pricing_roofline(wisdom);
  mmci_group_machine machine;
  if (mmci_group_machine_of(&x, &pricing, roofline, &machine)) request.machine = &machine;
  const mmci_device_async *async = plan->on.ops->async;
  if (async != NULL && async->queues > 1) request.shared_flops_per_s = roofline->flops_per_s;
  const char *solver = options->solver != NULL ? options->solver : "auto";
  status = mmci_plan_create_timed(chain, solver, options->memory_limit_bytes, &request, &plan->plan,
                                  error);
  if (status == MMC_OK) {
    room room;
    status = fit(plan, options, &room, error);
    if (status == MMC_OK && request.machine != NULL)
      status = group_for(plan, &machine, options->memory_limit_bytes, error);
    if (status == MMC_OK) status = mmci_plan_price(&plan->plan, &request, error);
    if (status == MMC_OK)
      mmci_plan_fit_recipes(&plan->plan, &room.machine, options->memory_limit_bytes);
    else
      mmci_plan_destroy(&plan->plan);
  }
  mmci_wisdom_pricing_destroy(wisdom);
  return status;
}

/* The same by what wisdom knows of its energy, in any precision that is no less exact than the one
 * asked for. */
static mmc_status plan_for_energy(const mmc_chain *chain, const mmc_plan_options *options,
                                  mmc_plan *plan, mmci_wisdom_energy *const *known, int count,
                                  mmci_error *error) {
  const mmci_wisdom_pricing *time = mmci_wisdom_energy_time(known[0]);
  mmci_pricing pricing = mmci_wisdom_pricing_of(time);
  mmci_energy_request request = {.count = count,
                                 .time = {.pricing = &pricing,
                                          .precision = plan->precision,
                                          .notice = mmci_wisdom_pricing_notice(time)},
                                 .max_slowdown = options->max_slowdown};
  mmci_taker takers[MMCI_ENERGY_PRECISIONS];
  mmci_group_machine machines[MMCI_ENERGY_PRECISIONS];
  for (int o = 0; o < count; o++) {
    mmci_precision precision = (mmci_precision)(plan->precision - o);
    request.offers[o] = (mmci_energy_offer){.precision = precision,
                                            .name = mmci_precision_name(precision),
                                            .pricing = mmci_wisdom_energy_of(known[o])};
    const mmci_wisdom_pricing *timed = mmci_wisdom_energy_time(known[o]);
    takers[o] = (mmci_taker){
        .on = &plan->on, .dtype = chain->dtype, .precision = precision, .wisdom = timed};
    const mmci_roofline *roofline = mmci_wisdom_pricing_roofline(timed);
    if (mmci_group_machine_of(&takers[o], &pricing, roofline, &machines[o]))
      request.offers[o].machine = &machines[o];
  }
  request.time.machine = request.offers[0].machine;
  const char *solver = options->solver != NULL ? options->solver : "auto";
  mmc_status status = mmci_plan_create_energetic(chain, solver, options->memory_limit_bytes,
                                                 &request, &plan->plan, &plan->precision, error);
  if (status != MMC_OK) return status;
  room room;
  status = fit(plan, options, &room, error);
  if (status == MMC_OK)
    status = mmci_plan_group_for_energy(&plan->plan, &request, options->memory_limit_bytes, error);
  if (status == MMC_OK) uncut(plan);
  if (status == MMC_OK) status = mmci_plan_energize(&plan->plan, &request, error);
  if (status == MMC_OK)
    mmci_plan_fit_recipes(&plan->plan, &room.machine, options->memory_limit_bytes);
  else
    mmci_plan_destroy(&plan->plan);
  return status;
}

static mmc_status make_energetic_plan(const mmc_chain *chain, const mmc_plan_options *options,
                                      mmc_plan *plan, mmci_error *error) {
  mmci_wisdom_energy *known[MMCI_ENERGY_PRECISIONS] = {NULL};
  int count = 0;
  mmc_status status = MMC_OK;
  for (; status == MMC_OK && count <= (int)plan->precision; count++)
    status = mmci_context_energy(plan->context, plan->on.name, chain->dtype,
                                 (mmci_precision)(plan->precision - count), &known[count], error);
  if (status == MMC_OK) status = plan_for_energy(chain, options, plan, known, count, error);
  for (int o = 0; o < MMCI_ENERGY_PRECISIONS; o++) mmci_wisdom_energy_destroy(known[o]);
  return status;
}

typedef struct asked {
  objective objective;
  mmci_traffic_request traffic;
} asked;

static mmc_status make(const mmc_chain *chain, const mmc_plan_options *options, const asked *wish,
                       mmc_plan *plan, mmci_error *error) {
  if (wish->objective == TIME) return make_timed_plan(chain, options, plan, error);
  if (wish->objective == ENERGY) return make_energetic_plan(chain, options, plan, error);
  return make_plan(chain, options, plan, wish->objective == TRAFFIC ? &wish->traffic : NULL, error);
}

/* Other arithmetic is allowed, never asked for: where what its products hold has no room, the plan
 * is a native one. */
static mmc_status make_with_room(const mmc_chain *chain, const mmc_plan_options *options,
                                 const asked *wish, mmc_plan *plan, mmci_error *error) {
  mmc_status status = make(chain, options, wish, plan, error);
  if (status != MMC_OK || !plan->plan.crowded || plan->precision == MMCI_NATIVE) return status;
  mmci_plan_destroy(&plan->plan);
  plan->precision = MMCI_NATIVE;
  return make(chain, options, wish, plan, error);
}

static mmc_status create_plan(mmc_context *context, const mmc_chain *chain,
                              const mmc_plan_options *options, mmc_plan **out, mmci_error *error) {
  if (chain == NULL) return mmci_fail(error, MMC_E_ARG, "chain: expected a chain, got NULL");
  if (out == NULL) return mmci_fail(error, MMC_E_ARG, "out: expected an address, got NULL");
  mmc_plan_options defaults = MMC_PLAN_OPTIONS_INIT;
  if (options == NULL) options = &defaults;
  mmc_status status = check_options(options, error);
  if (status != MMC_OK) return status;
  const char *device = options->device != NULL ? options->device : "cpu";

  mmc_plan *plan = malloc(sizeof *plan);
  if (plan == NULL) return mmci_fail_nomem(error, sizeof *plan);
  plan->context = context;
  plan->kernel = options->kernel;
  status = mmci_context_open_device(context, device, &plan->on, error);
  if (status == MMC_OK && plan->on.ops->enqueue == NULL)
    status = mmci_fail(error, MMC_E_UNSUPPORTED, "device '%s' cannot multiply", device);
  asked asked;
  if (status == MMC_OK) status = read_request(options, &asked.objective, &asked.traffic, error);
  if (status == MMC_OK) status = mmci_precision_read(options->precision, &plan->precision, error);
  if (status == MMC_OK) status = make_with_room(chain, options, &asked, plan, error);
  if (status != MMC_OK) {
    free(plan);
    return status;
  }
  plan->plan.device = plan->on.name;
  plan->plan.precision = mmci_precision_name(plan->precision);
  plan->kernel = NULL; /* the caller's text */
  status = name_kernels(plan, error);
  if (status == MMC_OK)
    *out = plan;
  else
    mmc_plan_destroy(plan);
  return status;
}

mmc_status mmc_plan_create(mmc_context *context, const mmc_chain *chain,
                           const mmc_plan_options *options, mmc_plan **out) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(context, create_plan(context, chain, options, out, &error), &error);
}

void mmc_plan_destroy(mmc_plan *plan) {
  if (plan == NULL) return;
  mmci_plan_destroy(&plan->plan);
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

uint64_t mmc_plan_workspace_bytes(const mmc_plan *plan) {
  return plan != NULL ? plan->plan.workspace_bytes : 0;
}

const char *mmc_plan_device(const mmc_plan *plan) {
  return plan != NULL ? plan->plan.device : "";
}

int64_t mmc_plan_step_count(const mmc_plan *plan) {
  return plan != NULL ? plan->plan.step_count : 0;
}

mmc_status mmc_plan_step(const mmc_plan *plan, int64_t index, mmc_step *out) {
  if (plan == NULL || out == NULL) return MMC_E_ARG;
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

const char *mmc_plan_step_kernel(const mmc_plan *plan, int64_t index) {
  if (plan == NULL || index < 0 || index >= mmc_plan_step_count(plan)) return "";
  return plan->plan.steps[index].kernel;
}

double mmc_plan_predicted_seconds(const mmc_plan *plan) {
  return plan != NULL && plan->plan.time != NULL ? plan->plan.time->predicted_s : (double)NAN;
}

mmc_status mmc_plan_step_time(const mmc_plan *plan, int64_t index, mmc_step_time *out) {
  if (plan == NULL || out == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  if (plan->plan.time == NULL)
    return mmci_report(
        plan->context,
        mmci_fail(&error, MMC_E_ARG, "plan: expected one for objective time or energy"), &error);
  if (index < 0 || index >= mmc_plan_step_count(plan))
    return mmci_report(
        plan->context,
        mmci_fail(&error, MMC_E_ARG, "index: the plan has no step %lld", (long long)index), &error);
  const mmci_plan_step *step = &plan->plan.steps[index];
  mmc_step_time time = {.predicted_s = step->predicted_s,
                        .source = mmci_provenance_name(step->source)};
  if (mmci_plan_recipe(step) != NULL) mmci_recipe_format(step->recipe, time.split);
  *out = time;
  return MMC_OK;
}

double mmc_plan_predicted_joules(const mmc_plan *plan) {
  return plan != NULL && plan->plan.energy != NULL ? plan->plan.energy->joules : (double)NAN;
}

mmc_status mmc_plan_step_energy(const mmc_plan *plan, int64_t index, mmc_step_energy *out) {
  if (plan == NULL || out == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  if (plan->plan.energy == NULL)
    return mmci_report(plan->context,
                       mmci_fail(&error, MMC_E_ARG, "plan: expected one for objective energy"),
                       &error);
  if (index < 0 || index >= mmc_plan_step_count(plan))
    return mmci_report(
        plan->context,
        mmci_fail(&error, MMC_E_ARG, "index: the plan has no step %lld", (long long)index), &error);
  const mmci_plan_step *step = &plan->plan.steps[index];
  *out = (mmc_step_energy){.predicted_j = step->predicted_j,
                           .source = mmci_provenance_name(step->joules_source)};
  return MMC_OK;
}

mmc_count mmc_plan_traffic_words(const mmc_plan *plan) {
  return mmci_count(plan != NULL && plan->plan.traffic != NULL ? plan->plan.traffic->words : 0);
}

mmc_status mmc_plan_step_traffic(const mmc_plan *plan, int64_t index, mmc_step_traffic *out) {
  if (plan == NULL || out == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  if (plan->plan.traffic == NULL)
    return mmci_report(plan->context,
                       mmci_fail(&error, MMC_E_ARG, "plan: expected one for objective traffic"),
                       &error);
  if (index < 0 || index >= mmc_plan_step_count(plan))
    return mmci_report(
        plan->context,
        mmci_fail(&error, MMC_E_ARG, "index: the plan has no step %lld", (long long)index), &error);
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

/* ---- runs ---------------------------------------------------------------------------------- */

mmc_status mmc_run_create(const mmc_plan *plan, mmc_run **out) {
  if (plan == NULL || out == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_run *run = malloc(sizeof *run);
  if (run == NULL) return mmci_report(plan->context, mmci_fail_nomem(&error, sizeof *run), &error);
  run->plan = plan;
  mmc_status status = mmci_run_create(&plan->plan, plan->on.ops, plan->on.device, plan->precision,
                                      &run->run, &error);
  if (status != MMC_OK) {
    free(run);
    return mmci_report(plan->context, status, &error);
  }
  *out = run;
  return MMC_OK;
}

void mmc_run_destroy(mmc_run *run) {
  if (run == NULL) return;
  mmci_run_destroy(run->run);
  free(run);
}

mmc_status mmc_execute(mmc_run *run, const mmc_matrix *factors, const mmc_matrix *out) {
  if (run == NULL) return MMC_E_ARG;
  mmci_error error;
  mmc_status status = mmci_run_execute(run->run, factors, out, &error);
  return status == MMC_OK ? MMC_OK : mmci_report(run->plan->context, status, &error);
}

mmc_status mmc_enqueue(mmc_run *run, void *stream, const mmc_matrix *factors,
                       const mmc_matrix *out) {
  if (run == NULL) return MMC_E_ARG;
  mmci_error error;
  mmc_status status = mmci_run_enqueue(run->run, stream, factors, out, &error);
  return status == MMC_OK ? MMC_OK : mmci_report(run->plan->context, status, &error);
}

mmc_status mmc_wait(mmc_run *run) {
  if (run == NULL) return MMC_E_ARG;
  mmci_error error;
  mmc_status status = mmci_run_wait(run->run, &error);
  return status == MMC_OK ? MMC_OK : mmci_report(run->plan->context, status, &error);
}
