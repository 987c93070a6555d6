/* joules.h: the recipe of fewest joules of a product, and the facts of the model of energy, by
 * measuring.
 *
 * Joules of a recipe take a window of two seconds, so few recipes are asked for them: the plain
 * call, and of those that take at most 1.3 times as long as the fastest the fastest few. Those that
 * then took fewer joules than the plain call are measured once more, in turns with it, and one is
 * chosen only when all that was measured of it, with what ticks may have made of it, lies below all
 * that was measured of the plain call. */
#ifndef MMCI_JOULES_H
#define MMCI_JOULES_H

#include "cost/energy.h"
#include "tune/tuner.h"

/* What was decided of a product. */
typedef struct mmci_saving {
  mmci_recipe recipe;
  double plain_s, seconds;            /* each timed alone */
  mmci_estimate plain_joules, joules; /* the same for the plain call */
  mmci_estimate gain;                 /* plain joules by the recipe's; all 1 for the plain call */
  double fastest_joules;              /* of the recipe that is fastest; NaN: not asked for */
} mmci_saving;

/* Decides a product, whose gemm has variant 0. fastest: the recipe that is known to be, or NULL.
 * The machine must have joules. Returns: what mmci_tuner_ask() does. */
mmc_status mmci_tune_joules(mmci_tuner *tuner, const mmci_gemm *gemm, const mmci_recipe *fastest,
                            mmci_saving *out, mmci_error *error);

/* Adds what so many products like this one take, at first sight, to what is expected of a stage. */
void mmci_joules_expect(mmci_tuner *tuner, mmci_stage stage, const mmci_gemm *gemm, double count);

/* Measures some products, large, small and skinny, but none that takes long by these prices, and
 * fits the model to them. Returns: what mmci_tuner_ask() does. */
mmc_status mmci_calibrate_joules(mmci_tuner *tuner, mmc_dtype dtype, mmci_precision precision,
                                 const mmci_pricing *pricing, mmci_energy_model *out,
                                 mmci_error *error);

#endif
