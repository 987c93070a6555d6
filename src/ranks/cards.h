/* cards.h: several devices of one kind in one host, which multiply a chain together. */
#ifndef MMCI_RANKS_CARDS_H
#define MMCI_RANKS_CARDS_H

#include "device/device.h"
#include "ranks/cards_plan.h"

enum { MMCI_CARDS_MAX = 64 };

typedef struct mmci_cards {
  int32_t count;
  mmci_opened opened[MMCI_CARDS_MAX];
  double link_bytes_per_s; /* the slowest link between two of them */
  /* The cards take calls from several threads at once, as devices must unless tests say so. */
  bool one_thread;
  uint64_t parts_bytes; /* see mmci_cards_program_create(); 0 stands for 32 MiB */
} mmci_cards;

/* Joins the cards, whose count and devices the caller has set. Returns E_UNSUPPORTED (they have no
 * memory of their own, or cannot be joined), E_DEVICE. */
mmc_status mmci_cards_join(mmci_cards *cards, mmci_error *error);

/* Plans for the cards' memory, of which no more than most_bytes of each may be used. factors,
 * out and sites as in mmci_cards_problem. Returns what mmci_cards_plan_create() does, and E_DEVICE.
 */
mmc_status mmci_cards_plan_for(const mmci_cards *cards, const mmci_plan *plan,
                               mmci_precision precision, uint64_t most_bytes, bool resident,
                               const mmci_given *factors, const mmci_given *out,
                               const mmci_step_site *sites, mmci_cards_plan *cards_plan,
                               mmci_error *error);

/* A run holds what executing takes on every card; it does one execution at a time. */
typedef struct mmci_cards_run mmci_cards_run;

/* Makes a run. All that is given must stay; sites as in mmci_cards_problem. Memory is taken in the
 * first execution, and again where the matrices lie otherwise than in the one before. */
mmc_status mmci_cards_run_create(const mmci_cards *cards, const mmci_plan *plan,
                                 mmci_precision precision, uint64_t most_bytes,
                                 const mmci_step_site *sites, mmci_cards_run **out,
                                 mmci_error *error);
void mmci_cards_run_destroy(mmci_cards_run *run);

/* Executes, and waits for the end. The matrices have been checked. Where the plan for them is for
 * one card, and they are on the host, *alone becomes true and nothing was done. Returns E_NOMEM,
 * E_MEMORY_LIMIT, E_DEVICE. */
mmc_status mmci_cards_run_execute(mmci_cards_run *run, const mmci_given *factors,
                                  const mmci_given *out, bool *alone, mmci_error *error);

/* Waits for what the caller's stream on the first card was given so far. */
mmc_status mmci_cards_await_stream(mmci_cards_run *run, void *stream, mmci_error *error);

#endif
