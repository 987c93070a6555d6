/* objective_time.c: plans of least time, by what wisdom knows of the device. */
#include "base/alloc.h"
#include "planner/objective.h"
#include "planner/time_order.h"

typedef struct known {
  mmci_wisdom_pricing *wisdom;
  mmci_pricing pricing;
  mmci_group_query query;
  mmci_group_machine machine;
  mmci_time_request request; /* points at the fields above */
} known;

static mmc_status begin(mmci_planning *p, mmci_error *error) {
  known *k = p->known = mmci_alloc_zeroed(1, sizeof *k);
  if (k == NULL) return mmci_fail_nomem(error, sizeof *k);
  const mmc_dtype dtype = p->chain->dtype;
  mmc_status status = mmci_offers_pricing(p->on, p->wisdom, dtype, p->precision, &k->wisdom, error);
  if (status != MMC_OK) return status;
  const mmci_roofline *roofline = mmci_wisdom_pricing_roofline(k->wisdom);
  k->pricing = mmci_wisdom_pricing_of(k->wisdom);
  k->query = (mmci_group_query){.on = p->on,
                                .dtype = dtype,
                                .precision = p->precision,
                                .wisdom = k->wisdom,
                                .chain = p->chain};
  k->request = (mmci_time_request){.pricing = &k->pricing,
                                   .precision = p->precision,
                                   .notice = mmci_wisdom_pricing_notice(k->wisdom),
                                   .facts = roofline->model.source};
  if (mmci_group_machine_of(&k->query, &k->pricing, roofline, &k->machine))
    k->request.machine = &k->machine;
  if (mmci_offers_queues(p->on)) k->request.shared_flops_per_s = roofline->flops_per_s;
  return MMC_OK;
}

static void end(mmci_planning *p) {
  known *k = p->known;
  if (k != NULL) mmci_wisdom_pricing_release(k->wisdom);
  free(k);
}

static mmc_status order(mmci_planning *p, mmci_error *error) {
  const known *k = p->known;
  return mmci_plan_create_timed(p->chain, p->solver, mmci_planning_bounds(p), &k->request, &p->plan,
                                error);
}

static mmc_status group(mmci_planning *p, mmci_error *error) {
  const mmci_group_machine *machine = ((const known *)p->known)->request.machine;
  if (machine == NULL) return MMC_OK;
  return mmci_plan_choose_groups(&p->plan, machine, p->options->memory_limit_bytes, error);
}

static mmc_status price(mmci_planning *p, mmci_error *error) {
  const known *k = p->known;
  p->plan.time->roofline = mmci_roofline_public(mmci_wisdom_pricing_roofline(k->wisdom));
  return mmci_plan_price(&p->plan, &k->request, error);
}

const mmci_objective mmci_objective_time = {
    .name = "time", .begin = begin, .end = end, .order = order, .group = group, .price = price};
