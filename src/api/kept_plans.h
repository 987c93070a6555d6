/* kept_plans.h: plans that were asked for again lately.
 *
 * A plan never changes, so that whoever asks for the same again may be given the same plan. It is,
 * as long as all that it was made of is the same: the chain, the options, the prices or the
 * device's facts, and room in the device's memory. Most chains are planned once: only what is asked
 * for twice, with nothing else of its place in between, is kept. Plans that do not fit whole into
 * what their device surely has free, that use structure, or that are for several devices, another
 * objective than time and flops, or a given order or kernel are not kept. */
#ifndef MMCI_KEPT_PLANS_H
#define MMCI_KEPT_PLANS_H

#include "api/api.h"

/* What a plan is asked for by, beside the context; mmc_plan_create() has checked it. */
typedef struct mmci_plan_asked {
  const mmc_chain *chain;
  const mmc_plan_options *options;
  mmci_opened on;
  const mmci_gang *gang; /* NULL where the plan is for one device */
  const struct mmci_objective *objective;
  mmci_precision precision;
  double tolerance;
  bool may_keep;           /* mmci_kept_plans_look() sets this */
  mmci_plan_source source; /* and this, where it may */
} mmci_plan_asked;

/* Returns, in *out, the plan that is kept for what is asked, with one more reference, or NULL. What
 * was found out is in *asked until mmci_kept_plans_end(). Returns E_NOMEM. */
mmc_status mmci_kept_plans_look(mmc_context *context, mmci_plan_asked *asked, mmc_plan **out,
                                mmci_error *error);
/* Ends what mmci_kept_plans_look() began. made is a plan that was made since, or NULL: it is kept,
 * with a reference of its own, where it may be. */
void mmci_kept_plans_end(mmc_context *context, mmci_plan_asked *asked, mmc_plan *made);

void mmci_kept_plans_destroy(mmci_kept_plans *plans);

#endif
