/* cards_explain.h: says what several cards do, in words and as JSON. */
#ifndef MMCI_RANKS_CARDS_EXPLAIN_H
#define MMCI_RANKS_CARDS_EXPLAIN_H

#include "ranks/cards_plan.h"

/* Returns what a plan says in its explanation; cards_plan must stay. */
mmci_plan_note mmci_cards_note(const mmci_cards_plan *cards_plan);

#endif
