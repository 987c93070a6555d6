/* choice.h: the recipe by which one product is best computed, as measured or predicted, and how
 * much it gains. */
#ifndef MMCI_CHOICE_H
#define MMCI_CHOICE_H

#include "cost/recipe.h"

/* A median and two bounds around it. */
typedef struct mmci_estimate {
  double value, low, high;
} mmci_estimate;

typedef struct mmci_choice {
  mmci_recipe recipe;
  double plain_s, seconds;
  double spread;      /* the bounds of seconds are this share of them away */
  mmci_estimate gain; /* the plain call takes so many times the recipe's seconds; 1 for itself */
} mmci_choice;

#endif
