/* layout.h: the sequence of a tree's products, and a place in the workspace for every result. */
#ifndef MMCI_LAYOUT_H
#define MMCI_LAYOUT_H

#include "plan/plan.h"

/* Fills plan->steps and workspace_bytes from its chain and tree; may be called again. When
 * parallel, sub-trees that meet in a product share no memory, so that both may be computed at the
 * same time. */
mmc_status mmci_plan_lay_out(mmci_plan *plan, bool parallel, mmci_error *error);

#endif
