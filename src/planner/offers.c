#include "planner/offers.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "device/free_memory.h"
#include "plan/explain.h"
#include "plan/group_problem.h"
#include "plan/layout.h"
#include "plan/plan_groups.h"
#include "plan/predictions.h"
#include "planner/time_order.h"
#include "run/scratch.h"

/* ---- who the device is --------------------------------------------------------------------- */

void mmci_offers_fingerprint(const mmci_opened *on, mmc_dtype dtype, const char *precision,
                             mmci_fingerprint *out) {
  mmci_identity identity = {0};
  if (on->ops->identify != NULL) on->ops->identify(on->device, &identity);
  mmci_fingerprint_set(out, MMCI_FINGERPRINT_DEVICE, on->ops->name);
  mmci_fingerprint_set(out, MMCI_FINGERPRINT_MODEL,
                       identity.model[0] != '\0' ? identity.model : on->ops->name);
  mmci_fingerprint_set(out, MMCI_FINGERPRINT_DRIVER, identity.driver);
  mmci_fingerprint_set(out, MMCI_FINGERPRINT_BLAS, identity.blas);
  mmci_fingerprint_set(out, MMCI_FINGERPRINT_LIBRARY, mmc_version());
  mmci_fingerprint_set(out, MMCI_FINGERPRINT_DTYPE, mmc_dtype_name(dtype));
  mmci_fingerprint_set(out, MMCI_FINGERPRINT_PRECISION, precision);
}

mmc_status mmci_offers_facts(const mmci_opened *on, mmc_dtype dtype, mmci_precision precision,
                             mmci_facts *out, mmci_error *error) {
  return mmci_opened_facts(on, dtype, precision, out, error);
}

mmc_status mmci_offers_pricing(const mmci_opened *on, mmci_wisdom *wisdom, mmc_dtype dtype,
                               mmci_precision precision, mmci_wisdom_pricing **out,
                               mmci_error *error) {
  mmci_facts facts;
  mmci_fingerprint fingerprint;
  mmc_status status = mmci_opened_facts(on, dtype, precision, &facts, error);
  if (status != MMC_OK) return status;
  const mmci_pricing_owner owner = {on->ops, on->device, dtype, precision};
  if (mmci_wisdom_pricing_kept(wisdom, &owner, &facts, out)) return MMC_OK;
  mmci_offers_fingerprint(on, dtype, mmci_precision_name(precision), &fingerprint);
  status = mmci_wisdom_pricing_acquire(wisdom, &fingerprint, &facts, dtype, precision, out, error);
  if (status == MMC_OK) mmci_wisdom_pricing_keep(wisdom, *out, &owner);
  return status;
}

mmc_status mmci_offers_energy(const mmci_opened *on, mmci_wisdom *wisdom, mmc_dtype dtype,
                              mmci_precision precision, mmci_wisdom_energy **out,
                              mmci_error *error) {
  mmci_facts facts;
  mmci_fingerprint fingerprint;
  mmc_status status = mmci_opened_facts(on, dtype, precision, &facts, error);
  if (status != MMC_OK) return status;
  mmci_offers_fingerprint(on, dtype, mmci_precision_name(precision), &fingerprint);
  return mmci_wisdom_energy_create(wisdom, &fingerprint, &facts, dtype, precision, out, error);
}

bool mmci_offers_host_memory(const mmci_opened *on) {
  return on->ops->async == NULL;
}

bool mmci_offers_groups(const mmci_opened *on) {
  return on->ops->group_supports != NULL;
}

bool mmci_offers_queues(const mmci_opened *on) {
  return on->ops->async != NULL && on->ops->async->queues > 1;
}

/* ---- memory -------------------------------------------------------------------------------- */

/* On host memory, a batch is cut so that its intermediates have no more bytes than this, because
 * more would be read from memory again and not from a cache. */
static const uint64_t host_chunk_bytes = 1 << 20;

/* What is common to all chains is computed again for every part of a batch, which is to take at
 * most this share of all else, unless the intermediates would have more bytes than that. */
static const double common_share = 0.1;
static const uint64_t host_most_bytes = 256 << 20;

/* Returns the fewest chains at a time of which that is so. */
static int64_t least_chunk(const mmci_plan *plan) {
  const double batch = (double)plan->chain->batch;
  double common = 0, others = 0;
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    *(step->is_common ? &common : &others) +=
        mmci_u128_to_double(mmci_plan_step_multiplications(plan, step));
  }
  const double parts = common > 0 ? fmax(1, floor(common_share * others / common)) : batch;
  return parts < batch ? (int64_t)ceil(batch / parts) : 1;
}

/* Cuts a batch on host memory. */
static mmc_status cut_on_host(mmci_plan *plan, mmci_error *error) {
  const int64_t most = plan->chunk; /* as many as a memory limit allows */
  uint64_t common_bytes = 0;
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    if (step->is_common)
      common_bytes = mmci_bytes_add(
          common_bytes, mmci_result_bytes(step->m, step->n, mmc_dtype_size(plan->chain->dtype)));
  }
  mmc_status status = mmci_plan_shrink(plan, mmci_bytes_add(host_chunk_bytes, common_bytes), error);
  if (status != MMC_OK || common_bytes == 0) return status;
  const int64_t least = least_chunk(plan);
  if (plan->chunk >= least || plan->chunk == most) return MMC_OK;
  status = mmci_plan_set_chunk(plan, least < most ? least : most, error);
  return status == MMC_OK
             ? mmci_plan_shrink(plan, mmci_bytes_add(host_most_bytes, common_bytes), error)
             : status;
}

static uint64_t step_scratch_bytes(const void *user, const mmci_plan *plan, int32_t step) {
  const mmci_offers_memory *x = user;
  const mmci_scratch_user scratch = {
      .ops = x->on->ops, .device = x->on->device, .precision = x->precision, .staged = x->staged};
  return mmci_step_scratch_bytes(&scratch, plan, step);
}

/* Returns how much of so many free bytes a plan may take: some are left to the device's libraries.
 */
static uint64_t usable_of(uint64_t free_bytes, uint64_t most_bytes) {
  const uint64_t usable_bytes = free_bytes - free_bytes / 16;
  return most_bytes < usable_bytes ? most_bytes : usable_bytes;
}

/* Fits a plan into what is free for sure, if it fits there whole. It is as if all had been asked
 * for: more memory changes nothing of it. */
static mmc_status fit_for_sure(mmci_offers_memory *memory, uint64_t most_bytes,
                               uint64_t limit_bytes, mmci_plan *plan, bool *fits,
                               mmci_error *error) {
  mmci_plan_machine *machine = &memory->machine;
  uint64_t free_bytes;
  memory->sure_bytes = mmci_free_memory_for_sure(memory->on, &free_bytes);
  machine->memory_bytes = most_bytes < memory->sure_bytes ? most_bytes : memory->sure_bytes;
  mmc_status status = mmci_plan_fit_beside(plan, machine, limit_bytes, fits, error);
  plan->device_bytes = machine->memory_bytes = usable_of(free_bytes, most_bytes);
  return status;
}

mmc_status mmci_offers_fit(mmci_offers_memory *memory, uint64_t most_bytes, uint64_t limit_bytes,
                           mmci_plan *plan, mmci_error *error) {
  const mmci_device_async *async = memory->on->ops->async;
  memory->machine = (mmci_plan_machine){0};
  memory->sure_bytes = UINT64_MAX;
  if (async == NULL) return cut_on_host(plan, error);
  memory->machine = (mmci_plan_machine){.queues = async->queues,
                                        .staged = memory->staged,
                                        .scratch_bytes = step_scratch_bytes,
                                        .user = memory};
  bool fits = false;
  mmc_status status = MMC_OK;
  if (!memory->asks) status = fit_for_sure(memory, most_bytes, limit_bytes, plan, &fits, error);
  if (status != MMC_OK || fits) return status;
  uint64_t free_bytes;
  status = mmci_free_memory_ask(memory->on, &free_bytes, error);
  if (status != MMC_OK) return status;
  memory->sure_bytes = UINT64_MAX;
  memory->machine.memory_bytes = usable_of(free_bytes, most_bytes);
  return mmci_plan_fit(plan, &memory->machine, limit_bytes, error);
}

bool mmci_offers_fits(const mmci_offers_memory *memory, const mmci_plan *plan) {
  return plan->resident_bytes <= memory->sure_bytes;
}

/* ---- kernels ------------------------------------------------------------------------------- */

int64_t mmci_offers_group_side(const mmci_opened *on) {
  if (on->ops->group_supports == NULL) return 0;
  return on->ops->group_side > 0 ? on->ops->group_side : INT64_MAX;
}

bool mmci_offers_structure(const mmci_opened *on, mmc_dtype dtype) {
  return (on->ops->structured != NULL || on->ops->structured_prepare != NULL) &&
         (dtype == MMC_F32 || dtype == MMC_F64 || dtype == MMC_C64 || dtype == MMC_C128);
}

uint32_t mmci_offers_structure_lacks(const mmci_opened *on, mmc_dtype dtype) {
  return on->ops->structured_lacks != NULL ? on->ops->structured_lacks(on->device, dtype) : 0;
}

bool mmci_offers_device_memory(const mmci_opened *on) {
  return on->ops->async != NULL;
}

mmc_status mmci_offers_structured(const mmci_opened *on, const mmci_plan *plan, mmci_error *error) {
  const mmci_structure_steps *list = &plan->structure->steps;
  const mmc_dtype dtype = plan->chain->dtype;
  if (dtype != MMC_F32 && dtype != MMC_F64 && dtype != MMC_C64 && dtype != MMC_C128)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "dtype",
                              "expected f32, f64, c64 or c128 where factors are inverses, got %s",
                              mmc_dtype_name(dtype));
  if (!mmci_offers_structure(on, dtype))
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device",
                              "'%s' computes no inverses: expected cpu, blas or cuda", on->name);
  mmci_structured ask = {.dtype = plan->chain->dtype, .inverts = list->inverts};
  mmc_status status = on->ops->structured_check(on->device, &ask, error);
  for (int32_t s = 0; s < list->count && status == MMC_OK; s++) {
    const mmci_structure_step *step = &list->steps[s];
    ask.kernel = step->kernel;
    ask.inverts = step->inverts || step->formed[0] || step->formed[1];
    status = on->ops->structured_check(on->device, &ask, error);
  }
  return status;
}

bool mmci_kernel_is_called(const char *name, const char *asked) {
  return strncmp(name, asked, strlen(asked)) == 0;
}

mmci_gemm mmci_step_gemm(const mmci_plan *plan, const mmci_opened *on, mmci_precision precision,
                         int32_t step) {
  const mmci_plan_step *s = &plan->steps[step];
  mmci_range r = mmci_plan_range(plan, s);
  mmci_gemm gemm;
  mmci_chain_product(plan->chain, precision, r.first, r.split, r.last, &gemm);
  if (s->recipe != NULL && mmci_recipe_count(s->recipe) == 1)
    gemm.variant = s->recipe->nodes[0].variant;
  mmci_gemm_spread(&gemm, mmci_plan_step_batch(plan, s) < plan->chunk ? 1 : plan->chunk);
  if (!on->ops->supports(on->device, &gemm)) mmci_gemm_spread(&gemm, 1);
  return gemm;
}

mmc_status mmci_offers_check_sums(const mmci_plan *plan, const mmci_opened *on,
                                  mmci_precision precision, mmci_error *error) {
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_gemm gemm = mmci_step_gemm(plan, on, precision, s);
    if (gemm.sums == MMCI_SUMS_CHAIN || on->ops->supports(on->device, &gemm)) continue;
    if (gemm.sums == MMCI_SUMS_PIECES)
      return mmci_fail_argument(
          error, MMC_E_UNSUPPORTED, "precision",
          "'%s' has no sums in pieces, which reproducible products of so many "
          "terms have",
          on->name);
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "precision",
                              "'%s' has no sums of whole numbers: expected reproducible, a CPU "
                              "or a GPU of compute capability 9.0",
                              on->name);
  }
  return MMC_OK;
}

double mmci_offers_error_bound(const mmci_opened *on, const mmci_gemm *gemm) {
  return on->ops->error_bound != NULL ? on->ops->error_bound(on->device, gemm)
                                      : mmci_gemm_error_bound(gemm);
}

mmc_status mmci_offers_product(const mmci_opened *on, const mmci_gemm *gemm, bool *out,
                               mmci_error *error) {
  mmci_kernel *kernel;
  *out = false;
  if (!on->ops->supports(on->device, gemm)) return MMC_OK;
  mmc_status status = on->ops->prepare(on->device, gemm, &kernel, error);
  if (status == MMC_E_UNSUPPORTED) return MMC_OK;
  *out = status == MMC_OK;
  if (*out) on->ops->release(kernel);
  return status;
}

/* Finds the first variant of that name; *found says whether there is one. */
static mmc_status find_variant(const mmci_opened *on, mmci_gemm *gemm, const char *kernel,
                               bool *found, mmci_error *error) {
  *found = kernel[0] == '\0'; /* the device's own choice, which prepare takes whatever it is */
  if (*found) return MMC_OK;
  int count = on->ops->variants(on->device, gemm);
  mmc_status status = MMC_OK;
  for (int v = 0; v <= count && !*found && status == MMC_OK; v++) {
    gemm->variant = v;
    if (mmci_kernel_is_called(on->ops->kernel_name(on->device, gemm), kernel))
      status = mmci_offers_product(on, gemm, found, error);
  }
  return status;
}

mmc_status mmci_plan_by_kernel(mmci_plan *plan, const mmci_opened *on, mmci_precision precision,
                               const char *kernel, bool *found, mmci_error *error) {
  size_t count = (size_t)plan->step_count;
  mmci_recipe *recipes = mmci_alloc_array(count, sizeof *recipes);
  if (recipes == NULL) return mmci_fail_nomem(error, count * sizeof *recipes);
  /* Panels of streamed products are computed by the device's own choice. */
  *found = !plan->streamed || kernel[0] == '\0';
  mmc_status status = MMC_OK;
  for (size_t s = 0; s < count && *found && status == MMC_OK; s++) {
    mmci_gemm gemm = mmci_step_gemm(plan, on, precision, (int32_t)s);
    status = find_variant(on, &gemm, kernel, found, error);
    recipes[s] = mmci_recipe_whole(gemm.variant);
  }
  if (status != MMC_OK || !*found) {
    free(recipes);
    return status;
  }
  for (size_t s = 0; s < count; s++)
    if (!mmci_recipe_is_plain(&recipes[s])) plan->steps[s].recipe = &recipes[s];
  plan->kernel_recipes = recipes;
  return MMC_OK;
}

/* Tells the seconds of products over a semiring, where the device knows them and nothing else tells
 * any. */
static void predict_steps(mmci_plan *plan, const mmci_opened *on, mmci_precision precision,
                          const mmci_model *model) {
  const bool fits = plan->chain->rule.semiring != MMC_PLUS_TIMES && model->seconds != NULL &&
                    plan->explainer == &mmci_explain_flops && plan->group_count == 0;
  bool known = fits && plan->step_count > 0;
  for (int32_t s = 0; s < plan->step_count && known; s++) {
    const mmci_gemm gemm = mmci_step_gemm(plan, on, precision, s);
    const int64_t batch = gemm.batch > 1 ? gemm.batch : 1;
    const double calls = ceil((double)mmci_plan_step_batch(plan, &plan->steps[s]) / (double)batch);
    plan->steps[s].predicted_s = calls * model->seconds(model->user, &gemm);
    known = isfinite(plan->steps[s].predicted_s);
  }
  if (known) plan->explainer = &mmci_explain_modelled;
}

mmc_status mmci_plan_name_kernels(mmci_plan *plan, const mmci_opened *on, mmci_precision precision,
                                  mmci_error *error) {
  mmci_facts facts;
  mmc_status status = mmci_opened_facts(on, plan->chain->dtype, precision, &facts, error);
  if (status != MMC_OK) return status;
  plan->variants = (mmci_variants){.name = facts.variant_name, .dtype = plan->chain->dtype};
  for (int32_t s = 0; s < plan->step_count; s++) {
    mmci_plan_step *step = &plan->steps[s];
    if (step->group >= 0) continue; /* it is named after its group */
    mmci_gemm gemm = mmci_step_gemm(plan, on, precision, s);
    const mmci_recipe *recipe = mmci_plan_recipe(step);
    if (recipe != NULL && mmci_recipe_count(recipe) == 1) {
      gemm = mmci_recipe_padded(recipe, &gemm);
      gemm.variant = recipe->nodes[0].variant;
    }
    step->kernel = on->ops->kernel_name(on->device, &gemm);
    if (step->kernel != NULL) continue;
    gemm.variant = 0; /* a run takes the device's own choice where it has no such variant */
    step->kernel = on->ops->kernel_name(on->device, &gemm);
  }
  for (int32_t g = 0; g < plan->group_count; g++) {
    mmci_plan_group *group = &plan->groups[g];
    mmci_group_problem problem;
    status = mmci_group_problem_create(plan, group, precision, &problem, error);
    if (status != MMC_OK) return status;
    group->kernel = on->ops->group_name(on->device, &problem.group);
    for (int32_t i = 0; i < group->step_count; i++)
      plan->steps[group->steps[i]].kernel = group->kernel;
    mmci_group_problem_destroy(&problem);
  }
  predict_steps(plan, on, precision, &facts.model);
  return MMC_OK;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static bool is_in_pair(const void *user, int32_t step) {
  const int32_t *steps = user;
  return step == steps[0] || step == steps[1];
}

/* Asks whether the device takes two steps, the earlier first, as one call. */
static mmc_status ask_pair(const mmci_plan *plan, const mmci_opened *on, mmci_precision precision,
                           int32_t earlier, int32_t later, bool *out, mmci_error *error) {
  int32_t steps[] = {earlier, later}, operands[4];
  int64_t places[4];
  mmci_plan_group pair = {.step_count = 2, .steps = steps, .operands = operands};
  mmci_plan_find_operands(plan, &pair, is_in_pair, steps, places);
  mmci_group_problem problem;
  mmc_status status = mmci_group_problem_create(plan, &pair, precision, &problem, error);
  if (status != MMC_OK) return status;
  *out = on->ops->group_supports(on->device, &problem.group);
  mmci_group_problem_destroy(&problem);
  return MMC_OK;
}

mmc_status mmci_plan_count_pairs(mmci_plan *plan, const mmci_opened *on, mmci_precision precision,
                                 mmci_error *error) {
  mmci_plan_traffic *traffic = plan->traffic;
  mmc_status status = MMC_OK;
  for (int32_t s = 0; s < plan->step_count && status == MMC_OK; s++) {
    const int32_t partner = traffic->steps[s].choice.partner;
    if (partner <= s) continue;
    bool offered = false;
    if (plan->steps[s].group >= 0 && plan->steps[s].group == plan->steps[partner].group)
      traffic->executed++;
    else if (on->ops->group_supports != NULL)
      status = ask_pair(plan, on, precision, s, partner, &offered, error);
    traffic->offered += offered;
  }
  return status;
}

/* ---- groups -------------------------------------------------------------------------------- */

/* Steps on their own cost more seconds than any product takes, so that groups of a kernel that was
 * asked for are taken wherever they can be. */
static const double HANDICAP_S = 1e9;

/* A call must gain the share by which nine of ten of the times are off that the device tells; this
 * one where the device does not know it. */
static const double DOUBT = 0.3;

static mmc_status takes_group(const void *user, const mmci_group *group, bool *out, double *seconds,
                              double *doubt, mmci_error *error) {
  (void)error;
  const mmci_group_query *x = user;
  const mmci_device_ops *ops = x->on->ops;
  *seconds =
      ops->group_seconds != NULL ? ops->group_seconds(x->on->device, group, doubt) : (double)NAN;
  *out = isfinite(*seconds) || ops->group_supports(x->on->device, group);
  if (*out && x->kernel != NULL)
    *out = mmci_kernel_is_called(ops->group_name(x->on->device, group), x->kernel);
  return MMC_OK;
}

static bool group_share(const void *user, const mmci_group *group, mmci_group_share *out) {
  const mmci_group_query *x = user;
  return x->on->ops->group_share(x->on->device, group, out);
}

static mmc_status group_measured(const void *user, const mmci_group *group, mmci_group_time *out,
                                 mmci_error *error) {
  (void)error;
  const mmci_group_query *x = user;
  out->known = mmci_wisdom_pricing_group(x->wisdom, group, &out->seconds, &out->error);
  return MMC_OK;
}

bool mmci_group_machine_of(const mmci_group_query *x, const mmci_pricing *pricing,
                           const mmci_roofline *roofline, mmci_group_machine *out) {
  if (x->on->ops->group_supports == NULL) return false;
  mmci_facts asked;
  const mmci_facts *facts = &asked;
  if (x->wisdom != NULL)
    facts = mmci_wisdom_pricing_facts(x->wisdom);
  else
    x->on->ops->facts(x->on->device, x->dtype, x->precision, &asked);
  bool knows_groups = x->wisdom != NULL && mmci_wisdom_pricing_knows_groups(x->wisdom, x->chain);
  *out = (mmci_group_machine){.user = x,
                              .supports = takes_group,
                              .measured = knows_groups ? group_measured : NULL,
                              .share = x->on->ops->group_share != NULL ? group_share : NULL,
                              .doubt = x->on->ops->group_seconds == NULL ? 0
                                       : facts->model.group_error > 0    ? facts->model.group_error
                                                                         : DOUBT,
                              .side = x->on->ops->group_side,
                              .facts = mmci_group_facts_of(facts, roofline),
                              .pricing = pricing,
                              .roofline = roofline,
                              .precision = x->precision,
                              .handicap_s = x->kernel != NULL ? HANDICAP_S : 0,
                              .assumed = mmci_roofline_assumed(facts),
                              .is_assumed = x->on->ops->group_seconds == NULL};
  out->assumed_facts = mmci_group_facts_of(facts, &out->assumed);
  return true;
}

/* ---- what is asked about ------------------------------------------------------------------- */

/* A recorder notes every question that the planner asks. */
typedef struct recorder {
  mmci_group_query query; /* comes first: questions are passed on to it */
  const mmci_pricing *pricing;
  mmci_group_list *list;
  mmc_status status; /* the first failure of price(), which cannot return one */
  mmci_error *error;
} recorder;

void mmci_group_list_destroy(mmci_group_list *list) {
  for (int c = 0; c < list->count; c++) free(list->entries[c].group);
  free(list->entries);
  *list = (mmci_group_list){0};
}

static bool has_group(const mmci_group_list *list, mmc_dtype dtype, const char *name) {
  for (int c = 0; c < list->count; c++)
    if (list->entries[c].group->dtype == dtype && strcmp(list->entries[c].name, name) == 0)
      return true;
  return false;
}

static mmc_status add_group(mmci_group_list *list, const mmci_group *group, mmci_error *error) {
  mmci_group_entry entry;
  mmci_group_name(group, entry.name);
  if (has_group(list, group->dtype, entry.name)) return MMC_OK;
  if (list->count == list->capacity) {
    size_t capacity = 2 * (size_t)list->capacity + 64;
    mmci_group_entry *grown = realloc(list->entries, capacity * sizeof *grown);
    if (grown == NULL) return mmci_fail_nomem(error, capacity * sizeof *grown);
    list->entries = grown;
    list->capacity = (int)capacity;
  }
  entry.group = mmci_group_copy(group);
  if (entry.group == NULL) return mmci_fail_nomem(error, sizeof *group);
  list->entries[list->count++] = entry;
  return MMC_OK;
}

/* Lets the matrices of a batch follow each other. */
static void spread_batch(mmci_group *x) {
  mmci_form *forms = (mmci_form *)x->forms; /* the copy owns its forms */
  for (int32_t p = 0; p < x->count; p++) {
    const mmci_group_product *step = &x->products[p];
    if (step->left < x->n) forms[step->left].stride = mmci_elements(step->m, step->k);
    if (step->right < x->n) forms[step->right].stride = mmci_elements(step->k, step->n);
    x->c_stride = mmci_elements(step->m, step->n);
  }
}

static mmc_status record_group(const void *user, const mmci_group *group, mmci_group_time *out,
                               mmci_error *error) {
  const recorder *x = user;
  (void)out; /* the recorder answers as if the group were not known */
  if (group->batch <= 1) return add_group(x->list, group, error);
  mmci_group *all = mmci_group_copy(group);
  if (all == NULL) return mmci_fail_nomem(error, sizeof *all);
  spread_batch(all);
  mmc_status status = add_group(x->list, all, error);
  free(all);
  return status;
}

/* Records the products of a batch. */
static void record_product(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  recorder *x = (recorder *)user;
  x->pricing->price(x->pricing->user, gemm, out);
  if (gemm->batch <= 1 || x->status != MMC_OK) return;
  mmci_gemm all = *gemm;
  mmci_gemm_spread(&all, gemm->batch);
  const mmci_form forms[] = {all.a, all.b};
  const mmci_group_product product = {all.m, all.k, all.n, 0, 1};
  const mmci_group group = {.dtype = all.dtype,
                            .precision = all.precision,
                            .batch = all.batch,
                            .n = 2,
                            .count = 1,
                            .forms = forms,
                            .products = &product,
                            .ldc = all.ldc,
                            .c_stride = all.c_stride};
  x->status = add_group(x->list, &group, x->error);
}

mmc_status mmci_groups_of_chain(const mmci_opened *on, mmci_precision precision,
                                const mmc_chain *chain, const mmci_pricing *pricing,
                                const mmci_roofline *roofline, mmci_group_list *list,
                                mmci_error *error) {
  recorder x = {.query = {.on = on, .dtype = chain->dtype, .precision = precision},
                .pricing = pricing,
                .list = list,
                .error = error};
  const mmci_pricing recorded = {.user = &x, .price = record_product};
  mmci_group_machine machine;
  if (!mmci_group_machine_of(&x.query, &recorded, roofline, &machine)) return MMC_OK;
  machine.measured = record_group;
  const mmci_time_request request = {
      .pricing = pricing, .precision = precision, .notice = "", .machine = &machine};
  mmci_plan plan;
  mmc_status status =
      mmci_plan_create_timed(chain, "auto", mmci_within(UINT64_MAX), &request, &plan, error);
  if (status != MMC_OK) return status;
  mmci_cover cover;
  status = mmci_plan_cover(&plan, &machine, &cover, error); /* what is not ordered was not asked */
  if (status == MMC_OK) mmci_cover_destroy(&cover);
  mmci_plan_destroy(&plan);
  return status == MMC_OK ? x.status : status;
}
