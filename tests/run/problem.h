/* problem.h: chains with matrices anywhere, and what their product must be. */
#ifndef MMC_TEST_PROBLEM_H
#define MMC_TEST_PROBLEM_H

#include "fake_device.h"
#include "plan/plan.h"

enum { FACTORS_MAX = 12 };

/* Fails the test, with the seed, when the device has found a fault. */
void expect_no_fault(const char *fault, uint64_t seed);

/* ---- plans ----------------------------------------------------------------------------------- */

/* dims of n factors, at most most each; few numbers or many, and some zeros. */
void random_shape(uint64_t *random, int32_t n, int64_t most, int64_t *dims);
/* A plan of this chain with a random tree and random ops, laid out one step after the other. */
mmci_plan random_plan(uint64_t *random, mmc_dtype dtype, int32_t n, const int64_t *dims);
/* The same of a batch of chains. */
mmci_plan random_batch_plan(uint64_t *random, mmc_dtype dtype, int32_t n, const int64_t *dims,
                            int64_t batch);
mmc_dtype random_dtype(uint64_t *random);
/* Says whether its result has elements; without any, nothing is asked of a device. */
bool has_elements(const mmci_plan *plan);

/* ---- matrices -------------------------------------------------------------------------------- */

typedef enum where { ON_HOST, ON_DEVICE, ANYWHERE } where;

/* A matrix, or those of a batch, within a room, which has a band of NaN on either side of it; NaN
 * in the gaps, too. */
typedef struct held {
  mmc_matrix matrix;
  int64_t *at;      /* of every chain: where its matrix begins, in bytes of the room */
  void **addresses; /* the matrix's, or NULL */
  bool uneven;      /* addresses that are no stride */
  int64_t same;     /* the factor whose room it is in, itself for most */
  char *room;       /* as the device or the host knows it */
  size_t room_bytes;
  char *content; /* the room as it was filled */
} held;

/* The matrices of an execution. */
typedef struct matrices {
  mmci_device *device;
  const mmci_plan *plan;
  uint64_t seed;
  held held[FACTORS_MAX + 1]; /* the last is the result */
  mmc_matrix factors[FACTORS_MAX], out;
  double *want, *bound; /* a chain: rows x cols, row-major, re and im; how far off each may be */
} matrices;

/* Makes matrices of random layouts, gaps and values; factors of one shape may be one matrix.
 * Messages name the seed. */
matrices *matrices_create(const mmci_plan *plan, mmci_device *device, where where, uint64_t *random,
                          uint64_t seed);
void matrices_destroy(matrices *m);
bool matrices_are_on_device(const matrices *m);
/* Says whether any lie at addresses that are no stride. */
bool matrices_are_uneven(const matrices *m);

/* Fills the result with NaN. */
void matrices_poison(matrices *m);
/* Fails the test unless the result is right, and nothing else was written. */
void matrices_check(const matrices *m);
/* Does what matrices_check() does with a copy of the result's room. */
void matrices_check_result(const matrices *m, const char *room);

#endif
