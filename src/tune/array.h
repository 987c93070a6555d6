/* array.h: measures the efficiency array of cost/efficiency.h. The grid's steps are the lengths of
 * the ladder's along m, k and n, found by measuring. */
#ifndef MMCI_ARRAY_H
#define MMCI_ARRAY_H

#include "cost/efficiency.h"
#include "tune/tuner.h"

typedef struct mmci_array_options {
  int64_t most[3]; /* MAX, by axis, at most MMCI_ARRAY_MOST: the array holds sizes up to it */
  int64_t reach;   /* steps are looked for among sizes up to this; 256 */
  int64_t beside;  /* the other two sizes while looking, at most MAX; 256 */
  int dense;       /* the grid has all of a step's first multiples, so many, at least 2; 8 */
  /* With a budget, the grid has as many evenly spaced values over the whole range as the budget
   * allows, at most this many; 32. 0 means that the grid is the one without a budget. */
  int across;
  int checks;    /* random sizes on which times are checked, and as many cuts; 64 */
  uint64_t seed; /* seed of the random sizes */
} mmci_array_options;

/* Returns the defaults, with the same MAX along all axes. */
mmci_array_options mmci_array_defaults(int64_t most);

/* Finds the step along axis: the greatest length whose multiples have three quarters of all
 * significant rises of the time behind them, with three stairs at least; 1 when there is none. like
 * gives the other sizes. *took_s is the seconds that measuring took, now or in an earlier call.
 * Returns: what mmci_tuner_ask() does. */
mmc_status mmci_find_step(mmci_tuner *tuner, const mmci_gemm *like, mmci_axis axis, int64_t reach,
                          int64_t *step, double *took_s, mmci_error *error);

/* Finds the steps and measures the array for products like the given one. Without a budget the grid
 * has all multiples of a step up to 8 of them and is thinned above; with one it is as fine as the
 * budget is thought to allow. Then random sizes are measured: nine of ten times are wrong by less
 * than the error; and the cuts that are predicted for some of them are compared with the plain
 * call, which tells the margins. Returns: E_ARG, E_NOMEM, and what mmci_tuner_ask() does. Free the
 * array with mmci_array_destroy(). */
mmc_status mmci_tune_array(mmci_tuner *tuner, const mmci_gemm *like,
                           const mmci_array_options *options, mmci_array **out, mmci_error *error);
#endif
