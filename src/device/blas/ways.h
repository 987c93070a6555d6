/* ways.h: how the pieces of a job are computed while other threads keep the processors busy.
 *
 * Helpers share a job, and mostly that is fastest. While threads of a CBLAS look for work
 * (crowd.h), a helper may get half of a processor, or take half of the caller's. Then it may be
 * faster that the caller works alone, or that it gives every product to the threads that look for
 * one. Which is fastest depends on the machine and on where the system lets threads run; so each
 * way is tried, the fastest taken, and the others again after a while. */
#ifndef MMCI_BLAS_WAYS_H
#define MMCI_BLAS_WAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum mmci_way {
  MMCI_SHARED,  /* helpers and the caller share the pieces */
  MMCI_ALONE,   /* the caller computes them */
  MMCI_LIBRARY, /* the caller computes them, large products by calls of a CBLAS with its threads */
  MMCI_WAY_COUNT
} mmci_way;

/* What is known about the ways of one job. One that is all zeros knows nothing. */
typedef struct mmci_ways {
  bool has_library;               /* whether the CBLAS may compute it */
  double seconds[MMCI_WAY_COUNT]; /* of a piece in a crowd; 0 before it was measured */
  mmci_way last;                  /* the way that was gone last in a crowd */
  double library_begin_s;         /* when the CBLAS began to compute without longer pauses */
  double library_end_s;           /* when it last ended */
  double rest_until_s;            /* until then its threads are to fall asleep */
  double crowd_until_s;           /* until then there is a crowd; 0 where none was seen */
} mmci_ways;

/* A job that is computed in pieces. */
typedef struct mmci_ways_job {
  int threads; /* those that want processors; there is a crowd where others leave fewer */
  int64_t pieces;
  /* Computes pieces from begin to end. */
  void (*compute)(void *user, mmci_way way, int64_t begin, int64_t end);
  void *user;
} mmci_ways_job;

/* Says whether a job of so many seconds is long enough to look whether there is a crowd. */
bool mmci_ways_pay(double serial_s);

/* Makes what mmci_ways_compute() learns in, to be freed with free(). */
mmc_status mmci_ways_create(bool has_library, mmci_ways **out, mmci_error *error);

/* Computes all pieces, and learns. Where ways is NULL, workers share them. */
void mmci_ways_compute(mmci_ways *ways, const mmci_ways_job *job);

/* Returns the way to go at a time, in a crowd or not. */
mmci_way mmci_ways_choose(const mmci_ways *ways, bool is_crowd, double now_s);

/* Notes that in a crowd pieces were computed from begin_s to end_s. */
void mmci_ways_note(mmci_ways *ways, mmci_way way, int64_t pieces, double begin_s, double end_s);

#endif
