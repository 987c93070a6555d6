/* joules.h: measures which recipe of a product takes the fewest joules, and the facts of the model
 * of energy.
 *
 * Measuring the joules of a recipe takes a window of two seconds, so few recipes are measured: the
 * plain call, and the fastest few of those that take at most 1.3 times as long as the fastest.
 * Those that took fewer joules than the plain call are measured once more, in turns with it, and
 * one is chosen only when all that was measured of it, with what ticks may have added, lies below
 * all that was measured of the plain call. */
#ifndef MMCI_JOULES_H
#define MMCI_JOULES_H

#include "cost/energy.h"
#include "tune/tuner.h"

/* What was decided about a product. */
typedef struct mmci_saving {
  mmci_recipe recipe;
  double plain_s, seconds;            /* seconds of the plain call, and of the recipe; each alone */
  mmci_estimate plain_joules, joules; /* joules of the plain call, and of the recipe */
  mmci_estimate gain;    /* plain joules divided by the recipe's; all 1 for the plain call */
  double fastest_joules; /* joules of the fastest recipe; NaN when not measured */
} mmci_saving;

/* Decides a product, whose gemm has variant 0. fastest is the recipe that is known to be fastest,
 * or NULL. The machine must have joules. Returns: what mmci_tuner_ask() does. */
mmc_status mmci_tune_joules(mmci_tuner *tuner, const mmci_gemm *gemm, const mmci_recipe *fastest,
                            mmci_saving *out, mmci_error *error);

/* Measures some products, large, small and skinny, but none that takes long by these prices, and
 * fits the model to them. Returns: what mmci_tuner_ask() does. */
mmc_status mmci_calibrate_joules(mmci_tuner *tuner, mmc_dtype dtype, mmci_precision precision,
                                 const mmci_pricing *pricing, mmci_energy_model *out,
                                 mmci_error *error);

#endif
