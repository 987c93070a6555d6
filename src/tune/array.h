/* array.h: the efficiency array of cost/efficiency.h, measured. The grid's steps are the lengths of
 * the ladder's along m, k and n, found by measuring. */
#ifndef MMCI_ARRAY_H
#define MMCI_ARRAY_H

#include "cost/efficiency.h"
#include "tune/tuner.h"

typedef struct mmci_array_options {
  int64_t most[3]; /* MAX, by axis: sizes up to this are within; at most MMCI_ARRAY_MOST */
  int64_t reach;   /* steps are looked for among sizes up to this: 256 */
  int64_t beside;  /* the other two sizes while looking: 256, at most MAX */
  int dense;       /* multiples of a step that are all in the grid, at least 2: 8 */
  int across;      /* with a budget, evenly spaced values over the whole range, if it allows them
                      (fewer otherwise): 32; 0: as without a budget */
  int checks;      /* random sizes on which times are checked, and as many cuts: 64 */
  uint64_t seed;   /* of these */
} mmci_array_options;

/* The same MAX along all axes. */
mmci_array_options mmci_array_defaults(int64_t most);

/* Finds the step along axis: the greatest length whose multiples have three quarters of all
 * significant rises of the time behind them, three stairs at least; 1 when there is none. like
 * gives the other sizes. Returns: what mmci_tuner_ask() does. */
mmc_status mmci_find_step(mmci_tuner *tuner, const mmci_gemm *like, mmci_axis axis, int64_t reach,
                          int64_t *step, mmci_error *error);

/* Tells the tuner what mmci_tune_array() will ask for, as far as is known before. */
void mmci_array_expect(mmci_tuner *tuner, const mmci_gemm *like, const mmci_array_options *options);

/* Finds the steps and measures the array for products like the given one. Without a budget the grid
 * has all multiples of a step up to 8 of them and is thinned above; with one it is as fine as the
 * budget is thought to allow. Then random sizes are measured: nine of ten times are wrong by less
 * than the error; and the cuts that are predicted for some of them are compared with the plain
 * call, which tells the margins. Returns: E_ARG, E_NOMEM, and what mmci_tuner_ask() does. Free with
 * mmci_array_destroy(). */
mmc_status mmci_tune_array(mmci_tuner *tuner, const mmci_gemm *like,
                           const mmci_array_options *options, mmci_array **out, mmci_error *error);
#endif
