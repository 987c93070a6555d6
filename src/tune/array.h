/* array.h: the efficiency array of method 600 of US 9836434 B2: E(m, n, k) = 2mnk/t on a grid, from
 * which near-optimal two-way cuts of any size within are found without measuring.
 *
 * The array keeps the times t, of which E is made when asked. Times climb like a ladder: a device
 * that works in tiles takes as long for a part of a tile as for the whole. The grid's steps are the
 * lengths of the ladder's along m, k and n, found by measuring.
 *
 * Interpolation: a size is rounded up to a multiple of the step, and between grid values that are
 * several steps apart the time is linear in each direction. On a ladder whose grid has every step
 * that is exact. */
#ifndef MMCI_ARRAY_H
#define MMCI_ARRAY_H

#include "tune/tuner.h"

enum { MMCI_ARRAY_VALUES = 64 };
#define MMCI_ARRAY_MOST (INT64_C(1) << 40)

/* The grid along an axis: rising multiples of the step. */
typedef struct mmci_grid {
  int64_t step;
  int count;
  int64_t values[MMCI_ARRAY_VALUES];
} mmci_grid;

/* Immutable when made. */
typedef struct mmci_array {
  mmci_gemm like;    /* dtype, precision and ops; its sizes mean nothing */
  mmci_grid grid[3]; /* along m, k, n */
  double margin;     /* what a cut must be predicted to gain: the error of predictions, see below */
  double *seconds;   /* of value (i, j, l): at (i * grid[1].count + j) * grid[2].count + l */
} mmci_array;

typedef struct mmci_array_options {
  int64_t most[3]; /* MAX, by axis: sizes up to this are within; at most MMCI_ARRAY_MOST */
  int64_t reach;   /* steps are looked for among sizes up to this: 256 */
  int64_t beside;  /* the other two sizes while looking: 256, at most MAX */
  int dense;       /* multiples of a step that are all in the grid, at least 2: 8 */
  int checks;      /* random sizes on which predictions are checked: 32 */
  uint64_t seed;   /* of these */
} mmci_array_options;

/* The same MAX along all axes. */
mmci_array_options mmci_array_defaults(int64_t most);

/* Finds the step along axis: the greatest length whose multiples have three quarters of all
 * significant rises of the time behind them, three stairs at least; 1 when there is none. like
 * gives the other sizes. Returns: what mmci_tuner_ask() does. */
mmc_status mmci_find_step(mmci_tuner *tuner, const mmci_gemm *like, mmci_axis axis, int64_t reach,
                          int64_t *step, mmci_error *error);

/* Finds the steps and measures the array for products like the given one. The grid has all
 * multiples of a step up to 8 of them and is thinned above; it is thinned more when the budget asks
 * for it. The margin is what nine of ten checks have a relative error below. Returns: E_ARG,
 * E_NOMEM, and what mmci_tuner_ask() does. Free with mmci_array_destroy(). */
mmc_status mmci_tune_array(mmci_tuner *tuner, const mmci_gemm *like,
                           const mmci_array_options *options, mmci_array **out, mmci_error *error);
/* An array of grids and seconds that were kept. Checked: it may come from anywhere.
 * Returns: E_FORMAT, E_NOMEM. */
mmc_status mmci_array_restore(const mmci_gemm *like, const mmci_grid grid[3], const double *seconds,
                              double margin, mmci_array **out, mmci_error *error);
void mmci_array_destroy(mmci_array *array);

/* Values in the array. */
int64_t mmci_array_count(const mmci_array *array);
/* Predicted seconds; NaN outside of the array. */
double mmci_array_seconds(const mmci_array *array, int64_t m, int64_t k, int64_t n);
/* E(m, n, k) in flops a second, real ones: 8mnk/t for complex numbers. NaN outside. */
double mmci_array_efficiency(const mmci_array *array, int64_t m, int64_t k, int64_t n);

/* The near-optimal two-way cut along m or n (online steps 610 to 630): the one whose two parts are
 * predicted to take least time, when that gains more than the margin; else plain. False outside of
 * the array. Measures nothing, allocates nothing. */
bool mmci_array_choose(const mmci_array *array, int64_t m, int64_t k, int64_t n,
                       mmci_choice *choice);

#endif
