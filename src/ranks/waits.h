/* waits.h: finds what has to be done before what, from the memory that deeds touch. */
#ifndef MMCI_RANKS_WAITS_H
#define MMCI_RANKS_WAITS_H

#include "ranks/cards_program.h"

/* Bytes of a rank's memory that a deed reads or writes. */
typedef struct mmci_touch {
  mmci_spot spot;
  uint64_t bytes;
  bool writes;
} mmci_touch;

enum { MMCI_TOUCHES = 3 };

typedef struct mmci_waits mmci_waits;

mmc_status mmci_waits_create(int32_t ranks, mmci_waits **out, mmci_error *error);
/* Writes what the program's last deed waits for: the last deed of every other lane of every rank
 * that touches the same bytes, where one of the two writes. */
mmc_status mmci_waits_add(mmci_waits *waits, mmci_cards_program *program,
                          const mmci_touch touches[MMCI_TOUCHES], mmci_error *error);
void mmci_waits_destroy(mmci_waits *waits);

#endif
