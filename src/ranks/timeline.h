/* timeline.h: predicts the seconds of a program: every lane of every rank does its deeds one after
 * the other, each as soon as what it waits for is done. */
#ifndef MMCI_RANKS_TIMELINE_H
#define MMCI_RANKS_TIMELINE_H

#include "cost/roofline.h"
#include "ranks/cards_program.h"

/* What ranks and the links between them take. */
typedef struct mmci_timeline_rates {
  mmci_roofline product;   /* products of one rank */
  double link_bytes_per_s; /* bytes that a rank gets from others */
  double host_bytes_per_s; /* bytes between the host and a rank */
  double deed_s;           /* seconds that a copy takes besides, with what waits for it */
} mmci_timeline_rates;

typedef struct mmci_timeline {
  double seconds;
  double products_s;      /* the most that a rank computes */
  double communication_s; /* the most that copies from other ranks take on one rank */
} mmci_timeline;

/* Returns E_NOMEM. */
mmc_status mmci_timeline_predict(const mmci_cards_program *program,
                                 const mmci_timeline_rates *rates, mmci_timeline *out,
                                 mmci_error *error);

#endif
