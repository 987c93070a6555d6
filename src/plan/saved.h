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
  char *solver;          /* the solver that found the order; NULL where nothing says so */
  char *fuse;            /* the rule, given or not, of a plan for traffic; else NULL */
  int64_t on_chip_words; /* of a plan for traffic; else 0 */
  int64_t tile[2];       /* as given, or 0 and 0 */
  double max_slowdown;   /* of a plan for energy, or 0 */
  mmci_saved_step *steps;
  int64_t step_count;
} mmci_saved;

/* Reads a text of size bytes, with or without a NUL. Returns E_FORMAT (the message says where and
 * what was expected), E_NOMEM. */
mmc_status mmci_saved_read(const char *text, size_t size, mmci_saved *out, mmci_error *error);
void mmci_saved_free(mmci_saved *saved);

#endif
