/* efficiency.h: the efficiency array of method 600 of US 9836434 B2: E(m, n, k) = 2mnk/t on a grid,
 * from which near-optimal two-way cuts of any size within are found without measuring. tune/array.h
 * measures it.
 *
 * The array keeps the times t, of which E is made when asked. Times climb like a ladder: a device
 * that works in tiles takes as long for a part of a tile as for the whole. The grid's steps are the
 * lengths of the ladder's along m, k and n, found by measuring.
 *
 * Interpolation: a size is rounded up to a multiple of the step, and between grid values that are
 * several steps apart the time is linear in each direction. On a ladder whose grid has every step
 * that is exact. Where a cut is in question, the whole is taken to be as efficient as the best of
 * the grid values around it. */
#ifndef MMCI_EFFICIENCY_H
#define MMCI_EFFICIENCY_H

#include "cost/choice.h"
#include "cost/pricing.h"

enum { MMCI_ARRAY_VALUES = 64 };
#define MMCI_ARRAY_MOST (INT64_C(1) << 40)

/* The grid along an axis holds rising multiples of the step. */
typedef struct mmci_grid {
  int64_t step;
  int count;
  int64_t values[MMCI_ARRAY_VALUES];
} mmci_grid;

/* These numbers say how far an array is to be believed. They were found by trying what it predicts.
 * Times of grid values were measured; others lie between them. */
typedef struct mmci_trust {
  double margin;  /* a cut must be predicted to gain this share when it has grid values alone */
  double between; /* any other cut must be predicted to gain this share */
  double error;   /* most predicted times are off by less than this share */
} mmci_trust;

/* Where a size lies along an axis: it has gone this share of the way from one grid value to the
 * next, which are the same where the share is 0. */
typedef struct mmci_grid_place {
  uint32_t at[2]; /* how far the points of the two values are behind that of the first value */
  double share;
  double larger[2]; /* how many times the size is larger than the two values */
} mmci_grid_place;

/* An array does not change once it is made. */
typedef struct mmci_array {
  mmci_gemm like;    /* dtype, precision and ops; its sizes mean nothing */
  mmci_grid grid[3]; /* along m, k, n */
  mmci_trust trust;
  /* Seconds of a product; that of grid values (i, j, l) is at (i * grid[1].count + j) *
   * grid[2].count + l. */
  double *seconds;
  /* At the same places, of restored arrays: the least seconds for a row of all sizes up to this one
   * along m, and for a column along n; no more than that. NULL: not known. */
  float *floors[2];
  /* At the same places, of restored arrays: no product between this point and the ones before along
   * every axis is to be cut, whatever its sizes. NULL: not known. */
  bool *is_whole;
  /* The places of sizes 1 to placed along m, k and n, of restored arrays: prices look the same ones
   * up again and again. */
  mmci_grid_place *places[3];
  int32_t placed[3];
} mmci_array;

/* Makes an array whose seconds the caller fills in. Returns E_NOMEM. */
mmc_status mmci_array_create(const mmci_gemm *like, const mmci_grid grid[3], mmci_array **out,
                             mmci_error *error);
/* Makes an array of grids and seconds that were kept, and checks them, as they may come from
 * anywhere. Returns E_FORMAT, E_NOMEM. */
mmc_status mmci_array_restore(const mmci_gemm *like, const mmci_grid grid[3], const double *seconds,
                              const mmci_trust *trust, mmci_array **out, mmci_error *error);
void mmci_array_destroy(mmci_array *array);

/* Makes one array of two of the same ops, of which one may reach further: on the lines of both,
 * with what was measured last; between them, the times of the one of the smaller range that holds
 * the point. Its margins and its error are the larger ones. *out is NULL where the lines of both
 * are too many, or some point is in neither. Returns E_NOMEM. */
mmc_status mmci_array_join(const mmci_array *kept, const mmci_array *fresh, mmci_array **out,
                           mmci_error *error);

/* Counts the values in the array. */
int64_t mmci_array_count(const mmci_array *array);
/* Predicts the seconds of a product; NaN outside of the array. */
double mmci_array_seconds(const mmci_array *array, int64_t m, int64_t k, int64_t n);

/* Finds the near-optimal two-way cut along m or n (online steps 610 to 630): of the cuts that gain
 * more than their margin it is the one whose two parts are predicted to take least time. Where no
 * cut does, the choice is the plain call. Returns false outside of the array. The function measures
 * nothing and allocates nothing. */
bool mmci_array_choose(const mmci_array *array, int64_t m, int64_t k, int64_t n,
                       mmci_choice *choice);
/* Tells the same as a price. */
bool mmci_array_price(const mmci_array *array, int64_t m, int64_t k, int64_t n, mmci_price *out);

#endif
