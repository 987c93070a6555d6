/* cards_plan.h: how the cards of one host multiply a plan's chain together, or that one of them
 * does it faster alone. Nothing here asks a device. */
#ifndef MMCI_RANKS_CARDS_PLAN_H
#define MMCI_RANKS_CARDS_PLAN_H

#include "ranks/cards_program.h"
#include "ranks/timeline.h"

/* What is asked for. */
typedef struct mmci_cards_problem {
  const mmci_plan *plan; /* of one card */
  mmci_precision precision;
  int32_t cards;
  mmci_timeline_rates rates;
  uint64_t parts_bytes;        /* see mmci_cards_program_create() */
  uint64_t limit_bytes;        /* of each card's memory, that pieces may take */
  const mmci_given *factors;   /* NULL: on the host, or spread as is best where they are not */
  const mmci_given *out;       /* NULL likewise */
  bool resident;               /* with factors NULL: the matrices are in the cards' memory */
  const mmci_step_site *sites; /* where every step is to be computed; NULL: where it is fastest */
} mmci_cards_problem;

typedef struct mmci_cards_plan {
  int32_t cards;     /* cards that there are */
  const char *alone; /* static text: why one card does it alone; NULL when several do it */
  mmci_step_site *sites;
  mmci_site *factors;         /* where the n factors and the result are, or are first brought to */
  mmci_cards_program program; /* without deeds when alone */
  mmci_timeline timeline;
  double alone_s; /* the prediction for one card; infinity where it does not fit */
  double link_bytes_per_s;
} mmci_cards_plan;

/* Plans. out is to be destroyed. Returns E_NOMEM. */
mmc_status mmci_cards_plan_create(const mmci_cards_problem *problem, mmci_cards_plan *out,
                                  mmci_error *error);
void mmci_cards_plan_destroy(mmci_cards_plan *plan);

#endif
