/* api_groups.c: a device that takes several products as one call, as the planner knows it; and the
 * calls that a planner asks it about. */
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "plan/group_problem.h"
#include "plan/plan_time.h"
#include "tune/groups.h"

/* ---- the device ---------------------------------------------------------------------------- */

/* More than any product takes: groups that were asked for by name are taken where they can be. */
static const double HANDICAP_S = 1e9;

static mmc_status takes_group(const void *user, const mmci_plan *plan, const mmci_plan_group *group,
                              bool *out, mmci_error *error) {
  const mmci_taker *x = user;
  mmci_group_problem call;
  mmc_status status = mmci_group_problem_create(plan, group, x->precision, &call, error);
  if (status != MMC_OK) return status;
  *out = x->on->ops->group_supports(x->on->device, &call.group);
  if (*out && x->kernel != NULL)
    *out = mmci_kernel_is_called(x->on->ops->group_name(x->on->device, &call.group), x->kernel);
  mmci_group_problem_destroy(&call);
  return MMC_OK;
}

/* Calls of more products are measured only where they are all of a chain. */
enum { MOST_PRODUCTS = 64 };

static bool is_measurable(const mmci_plan *plan, const mmci_plan_group *group) {
  return group->step_count <= MOST_PRODUCTS || group->step_count == plan->step_count;
}

static mmc_status group_measured(const void *user, const mmci_plan *plan,
                                 const mmci_plan_group *group, mmci_group_time *out,
                                 mmci_error *error) {
  const mmci_taker *x = user;
  mmci_group_problem call;
  if (!is_measurable(plan, group)) return MMC_OK;
  mmc_status status = mmci_group_problem_create(plan, group, x->precision, &call, error);
  if (status != MMC_OK) return status;
  char name[MMCI_GROUP_NAME_SIZE];
  mmci_group_name(&call.group, name);
  out->known = mmci_wisdom_pricing_group(x->wisdom, name, &out->seconds, &out->error);
  mmci_group_problem_destroy(&call);
  return MMC_OK;
}

bool mmci_group_machine_of(const mmci_taker *x, const mmci_pricing *pricing,
                           const mmci_roofline *roofline, mmci_group_machine *out) {
  if (x->on->ops->group_supports == NULL) return false;
  mmci_facts facts;
  x->on->ops->facts(x->on->device, x->dtype, x->precision, &facts);
  bool knows_groups = x->wisdom != NULL && mmci_wisdom_pricing_knows_groups(x->wisdom);
  *out = (mmci_group_machine){.user = x,
                              .supports = takes_group,
                              .measured = knows_groups ? group_measured : NULL,
                              .side = x->on->ops->group_side,
                              .facts = mmci_chain_facts_of(&facts, roofline),
                              .pricing = pricing,
                              .roofline = roofline,
                              .precision = x->precision,
                              .handicap_s = x->kernel != NULL ? HANDICAP_S : 0};
  return true;
}

/* ---- what is asked about ------------------------------------------------------------------- */

/* Hears every question of the planner. */
typedef struct listener {
  mmci_taker taker; /* first: questions are passed on to it */
  const mmci_pricing *pricing;
  mmci_group_list *calls;
  mmc_status status; /* of price(), which cannot fail */
  mmci_error *error;
} listener;

void mmci_group_list_destroy(mmci_group_list *calls) {
  for (int c = 0; c < calls->count; c++) free(calls->heard[c].chain);
  free(calls->heard);
  *calls = (mmci_group_list){0};
}

static bool has_call(const mmci_group_list *calls, mmc_dtype dtype, const char *name) {
  for (int c = 0; c < calls->count; c++)
    if (calls->heard[c].chain->dtype == dtype && strcmp(calls->heard[c].name, name) == 0)
      return true;
  return false;
}

static mmc_status add_call(mmci_group_list *calls, const mmci_group *call, mmci_error *error) {
  mmci_group_entry heard;
  mmci_group_name(call, heard.name);
  if (has_call(calls, call->dtype, heard.name)) return MMC_OK;
  if (calls->count == calls->capacity) {
    size_t capacity = 2 * (size_t)calls->capacity + 64;
    mmci_group_entry *grown = realloc(calls->heard, capacity * sizeof *grown);
    if (grown == NULL) return mmci_fail_nomem(error, capacity * sizeof *grown);
    calls->heard = grown;
    calls->capacity = (int)capacity;
  }
  heard.chain = mmci_group_copy(call);
  if (heard.chain == NULL) return mmci_fail_nomem(error, sizeof *call);
  calls->heard[calls->count++] = heard;
  return MMC_OK;
}

/* With the matrices of a batch one behind the other. */
static void spread(mmci_group_problem *call) {
  mmci_group *x = &call->group;
  if (x->batch <= 1) return;
  for (int32_t p = 0; p < x->count; p++) {
    const mmci_group_product *step = &x->products[p];
    if (step->left < x->n) call->forms[step->left].stride = mmci_elements(step->m, step->k);
    if (step->right < x->n) call->forms[step->right].stride = mmci_elements(step->k, step->n);
    x->c_stride = mmci_elements(step->m, step->n);
  }
}

static mmc_status hear_group(const void *user, const mmci_plan *plan, const mmci_plan_group *group,
                             mmci_group_time *out, mmci_error *error) {
  const listener *x = user;
  mmci_group_problem call;
  (void)out; /* as if it were not known */
  if (!is_measurable(plan, group)) return MMC_OK;
  mmc_status status = mmci_group_problem_create(plan, group, x->taker.precision, &call, error);
  if (status != MMC_OK) return status;
  spread(&call);
  status = add_call(x->calls, &call.group, error);
  mmci_group_problem_destroy(&call);
  return status;
}

/* Products of a batch. */
static void hear_product(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  listener *x = (listener *)user;
  x->pricing->price(x->pricing->user, gemm, out);
  if (gemm->batch <= 1 || x->status != MMC_OK) return;
  mmci_gemm all = *gemm;
  mmci_gemm_spread(&all, gemm->batch);
  const mmci_form forms[] = {all.a, all.b};
  const mmci_group_product product = {all.m, all.k, all.n, 0, 1};
  const mmci_group call = {.dtype = all.dtype,
                           .precision = all.precision,
                           .batch = all.batch,
                           .n = 2,
                           .count = 1,
                           .forms = forms,
                           .products = &product,
                           .ldc = all.ldc,
                           .c_stride = all.c_stride};
  x->status = add_call(x->calls, &call, x->error);
}

mmc_status mmci_groups_of_chain(const mmci_opened *on, mmci_precision precision,
                                const mmc_chain *chain, const mmci_pricing *pricing,
                                const mmci_roofline *roofline, mmci_group_list *calls,
                                mmci_error *error) {
  listener x = {.taker = {.on = on, .dtype = chain->dtype, .precision = precision},
                .pricing = pricing,
                .calls = calls,
                .error = error};
  const mmci_pricing heard = {.user = &x, .price = hear_product};
  mmci_group_machine machine;
  if (!mmci_group_machine_of(&x.taker, &heard, roofline, &machine)) return MMC_OK;
  machine.measured = hear_group;
  const mmci_time_request request = {
      .pricing = pricing, .precision = precision, .notice = "", .machine = &machine};
  mmci_plan plan;
  mmc_status status = mmci_plan_create_timed(chain, "auto", UINT64_MAX, &request, &plan, error);
  if (status != MMC_OK) return status;
  mmci_cover cover;
  status = mmci_plan_cover(&plan, &machine, &cover, error); /* what is not ordered was not asked */
  if (status == MMC_OK) mmci_cover_destroy(&cover);
  mmci_plan_destroy(&plan);
  return status == MMC_OK ? x.status : status;
}
