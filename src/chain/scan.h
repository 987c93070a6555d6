/* scan.h: running products of one stack of square matrices, as a problem for a device.
 *
 * A state S is multiplied by one factor after the other, and every state is a result:
 *
 *     S_t = S_(t-1) A_t, rows x n by n x n      or, when left,      S_t = A_t S_(t-1) [+ B_t]
 *
 * for t = 1 to length. S_0 is given when there is an initial state; else S_1 = A_1, and states are
 * n x n. Prefixes are the first form, suffixes the second with steps that are negative, and linear
 * recurrences the second with states of few columns. */
#ifndef MMCI_SCAN_H
#define MMCI_SCAN_H

#include "chain/gemm.h"

/* Forms have the stride from one scan of the batch to the next; a step is from one matrix of a scan
 * to the next, in elements, and may be negative. */
typedef struct mmci_scan {
  mmc_dtype dtype;
  mmci_precision precision;
  mmci_rule rule;   /* the arithmetic, as in mmci_gemm */
  int64_t n, width; /* a state is width x n, or n x width when left */
  int64_t length;   /* >= 1 */
  int64_t batch;    /* >= 1 */
  bool left;
  bool has_initial, has_addend; /* an addend needs an initial state */
  mmci_form a, initial, addend;
  int64_t a_step, addend_step;
  int64_t ldc, c_step, c_stride; /* states are row-major */
} mmci_scan;

/* Where the first factor, initial state, addend and state lie; what there is none of is NULL. */
typedef struct mmci_scan_places {
  const void *a, *initial, *addend;
  void *c;
} mmci_scan_places;

/* How a device computes a scan, for people. Texts are static. */
typedef struct mmci_scan_facts {
  const char *method; /* "sequential", "blocked", "levels" */
  const char *kernel; /* "libxsmm" */
  const char *why;    /* a sentence without its full stop */
  int64_t blocks;     /* in how many parts each scan is computed side by side; 1 for sequential */
  int64_t products;   /* how many products all scans take together */
  int workers;        /* how many threads share them; 0 where that means nothing */
} mmci_scan_facts;

/* Return how many rows and columns a state has. */
static inline int64_t mmci_scan_rows(const mmci_scan *scan) {
  return scan->left ? scan->n : scan->width;
}
static inline int64_t mmci_scan_cols(const mmci_scan *scan) {
  return scan->left ? scan->width : scan->n;
}

/* Returns one product of the scan: of a state that lies as s says and a factor, or of two factors
 * where s is a factor's form. */
mmci_gemm mmci_scan_gemm(const mmci_scan *scan, const mmci_form *s, const mmci_form *a,
                         int64_t ldc);

/* Returns the form of a state without gaps. */
mmci_form mmci_scan_state(const mmci_scan *scan);

#endif
