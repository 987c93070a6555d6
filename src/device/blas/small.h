/* small.h: one small product by LIBXSMM, real or complex, however its operands lie.
 *
 * A complex matrix is read as a real one of twice as many columns, real parts beside imaginary
 * ones. So read, C (m x 2n) = A (m x 2k) * [B; iB] (2k x 2n), where each row of B is followed by
 * the same times i: one real product of the very terms that BLAS adds up, after B has been packed
 * so. Conjugates are signs in what is packed. An operand that LIBXSMM cannot read transposed is
 * packed upright. */
#ifndef MMCI_SMALL_H
#define MMCI_SMALL_H

#include <stddef.h>

#include "device/blas/small_loops.h"
#include "device/blas/xsmm.h"

typedef struct mmci_small {
  mmci_gemm gemm, real; /* as asked for, and the real product */
  bool can;             /* false: this machine has neither code nor loops for it */
  mmci_xsmm_fn code;    /* of the real product; NULL: none yet, the loops compute it */
  bool tried;           /* to have code written */
  int executions;       /* without code */
  bool packs_a, packs_b;
} mmci_small;

/* Room that is enough to pack the operands of any product that pays. */
enum { MMCI_SMALL_ROOM = 48 << 10 };

/* Whether there may be code for one such product, whatever its batch; none of the sizes 0, complex
 * ones of sides up to 32. */
bool mmci_small_can(const mmci_gemm *gemm);

/* Whether that is also faster than a CBLAS, as measured with OpenBLAS 0.3.21: where no size is over
 * 64, unless C is narrower than a vector register and there is much to add. */
bool mmci_small_pays(const mmci_gemm *gemm);

/* For which mmci_small_can(). Code is there where the loops cannot stand in for it. */
mmci_small mmci_small_make(const mmci_gemm *gemm);

/* Takes the code where it has been written for another product, or where an execution computes this
 * one so many times that it is worth writing at once. */
void mmci_small_prepare(mmci_small *x, int64_t times);

/* Before every execution, by its thread: after some, one has the code written. */
void mmci_small_execute(mmci_small *x);

/* What packing takes. */
size_t mmci_small_room_bytes(const mmci_small *x);

/* Packs the operands that need it into room, where they are from then on. */
void mmci_small_pack(const mmci_small *x, const void **a, const void **b, void *room);

/* room: of so many bytes, aligned as doubles. */
static inline void mmci_small_multiply(const mmci_small *x, const void *a, const void *b, void *c,
                                       void *room) {
  if (x->packs_b || x->packs_a) mmci_small_pack(x, &a, &b, room);
  if (x->code != NULL)
    x->code(b, a, c);
  else
    mmci_small_loops(&x->real, a, b, c);
}

#endif
