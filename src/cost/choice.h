/* choice.h: how one product is best computed, as measured or predicted, and what that is worth. */
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
  double spread;      /* of seconds: how far its bounds are from it, relative */
  mmci_estimate gain; /* plain seconds by the recipe's; all 1 for the plain call */
} mmci_choice;

#endif
