/* picture.h: draws a plan as SVG. */
#ifndef MMCI_PICTURE_H
#define MMCI_PICTURE_H

#include "base/text.h"
#include "plan/plan.h"

/* Writes a picture of the plan, a whole SVG document without a declaration, so that it can also
 * stand within HTML. It is at most 2000 pixels wide, and its size is bounded whatever the length of
 * the chain. Returns E_NOMEM. */
mmc_status mmci_plan_draw(const mmci_plan *plan, mmci_text *text, mmci_error *error);

#endif
