/* explain_ranks.h: says what a plan over ranks does. */
#ifndef MMCI_RANKS_EXPLAIN_H
#define MMCI_RANKS_EXPLAIN_H

#include "base/text.h"
#include "ranks/choose.h"

/* What is told. */
typedef struct mmci_ranks_account {
  const char *chain, *order, *engine;
  const mmci_ranks_problem *problem;
  const mmci_ranks_plan *plan;
  mmci_u128 multiplications;
} mmci_ranks_account;

void mmci_ranks_put_text(const mmci_ranks_account *account, mmci_text *text);
void mmci_ranks_put_json(const mmci_ranks_account *account, mmci_text *text);

#endif
