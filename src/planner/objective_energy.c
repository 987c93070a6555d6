/* objective_energy.c: plans of fewest joules, by what wisdom knows of the device, in any precision
 * that is no less exact than the one asked for. */
#include "base/alloc.h"
#include "planner/energy_front.h"
#include "planner/objective.h"

typedef struct known {
  /* What is known of each precision; the first one is the precision asked for. */
  mmci_wisdom_energy *wisdom[MMCI_ENERGY_PRECISIONS];
  mmci_pricing pricing;
  mmci_group_query queries[MMCI_ENERGY_PRECISIONS];
  mmci_group_machine machines[MMCI_ENERGY_PRECISIONS];
  mmci_energy_request request; /* points at the fields above */
} known;

/* Returns how many precisions there are from a plan's on; reproducible sums have no others. */
static int precisions_of(mmci_precision precision) {
  return mmci_precision_is_reproducible(precision) ? 1 : (int)precision + 1;
}

static mmc_status look_up(mmci_planning *p, known *k, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int o = 0; status == MMC_OK && o < precisions_of(p->precision); o++)
    status = mmci_offers_energy(p->on, p->wisdom, p->chain->dtype,
                                (mmci_precision)(p->precision - o), &k->wisdom[o], error);
  return status;
}

static void offer_precision(mmci_planning *p, known *k, int o) {
  const mmci_precision precision = (mmci_precision)(p->precision - o);
  const mmci_wisdom_pricing *time = mmci_wisdom_energy_time(k->wisdom[o]);
  const mmci_roofline *roofline = mmci_wisdom_pricing_roofline(time);
  mmci_energy_offer *out = &k->request.offers[o];
  *out = (mmci_energy_offer){.precision = precision,
                             .name = mmci_precision_name(precision),
                             .pricing = mmci_wisdom_energy_of(k->wisdom[o])};
  k->queries[o] = (mmci_group_query){.on = p->on,
                                     .dtype = p->chain->dtype,
                                     .precision = precision,
                                     .wisdom = time,
                                     .chain = p->chain};
  if (mmci_group_machine_of(&k->queries[o], &k->pricing, roofline, &k->machines[o]))
    out->machine = &k->machines[o];
}

static mmc_status begin(mmci_planning *p, mmci_error *error) {
  known *k = p->known = mmci_alloc_zeroed(1, sizeof *k);
  if (k == NULL) return mmci_fail_nomem(error, sizeof *k);
  mmc_status status = look_up(p, k, error);
  if (status != MMC_OK) return status;
  const mmci_wisdom_pricing *time = mmci_wisdom_energy_time(k->wisdom[0]);
  k->pricing = mmci_wisdom_pricing_of(time);
  k->request =
      (mmci_energy_request){.count = precisions_of(p->precision),
                            .time = {.pricing = &k->pricing,
                                     .precision = p->precision,
                                     .notice = mmci_wisdom_pricing_notice(time),
                                     .facts = mmci_wisdom_pricing_roofline(time)->model.source},
                            .max_slowdown = p->options->max_slowdown};
  for (int o = 0; o < k->request.count; o++) offer_precision(p, k, o);
  k->request.time.machine = k->request.offers[0].machine;
  return MMC_OK;
}

static void end(mmci_planning *p) {
  known *k = p->known;
  for (int o = 0; k != NULL && o < MMCI_ENERGY_PRECISIONS; o++)
    mmci_wisdom_energy_destroy(k->wisdom[o]);
  free(k);
}

static mmc_status order(mmci_planning *p, mmci_error *error) {
  const known *k = p->known;
  return mmci_plan_create_energetic(p->chain, p->solver, mmci_planning_bounds(p), &k->request,
                                    &p->plan, &p->precision, error);
}

static mmc_status group(mmci_planning *p, mmci_error *error) {
  const known *k = p->known;
  return mmci_plan_group_for_energy(&p->plan, &k->request, p->options->memory_limit_bytes, error);
}

static mmc_status price(mmci_planning *p, mmci_error *error) {
  const known *k = p->known;
  const mmci_wisdom_pricing *time =
      mmci_wisdom_energy_time(k->wisdom[k->request.count - precisions_of(p->precision)]);
  p->plan.time->roofline = mmci_roofline_public(mmci_wisdom_pricing_roofline(time));
  return mmci_plan_price_energy(&p->plan, &k->request, error);
}

const mmci_objective mmci_objective_energy = {.name = "energy",
                                              .takes_slowdown = true,
                                              .begin = begin,
                                              .end = end,
                                              .order = order,
                                              .group = group,
                                              .price = price};
