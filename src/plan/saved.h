/* saved.h: reads what MMC_JSON writes of a plan, as far as it says how to plan the same again. */
#ifndef MMCI_SAVED_H
#define MMCI_SAVED_H

#include "plan/plan.h"

/* One step, as strings to which the plan's text is compared: "T1 = A2 A3". */
typedef struct mmci_saved_step {
  char *product, *kernel, *split; /* split is "" for one plain call */
} mmci_saved_step;

typedef struct mmci_saved {
  char *chain, *objective, *device, *precision, *order; /* never NULL */
  mmci_saved_step *steps;
  int64_t step_count;
} mmci_saved;

/* Reads a text of size bytes, with or without a NUL. Returns E_FORMAT (the message says where and
 * what was expected), E_NOMEM. */
mmc_status mmci_saved_read(const char *text, size_t size, mmci_saved *out, mmci_error *error);
void mmci_saved_free(mmci_saved *saved);

#endif
