/* small.h: one small product by LIBXSMM, real or complex, however its operands lie.
 *
 * A complex matrix is read as a real one of twice as many columns, real parts beside imaginary
 * ones. So read, C (m x 2n) = A (m x 2k) * [B; iB] (2k x 2n), where each row of B is followed by
 * the same times i: one real product of the very terms that BLAS adds up, after B has been packed
 * in this form. Conjugates are signs in what is packed. An operand that LIBXSMM cannot read
 * transposed is packed untransposed. */
#ifndef MMCI_SMALL_H
#define MMCI_SMALL_H

#include <stddef.h>

#include "device/blas/small_loops.h"
#include "device/blas/xsmm.h"

typedef struct mmci_small {
  mmci_gemm gemm, real; /* the product as asked for, and as a real product */
  bool can;             /* false when this machine has neither code nor loops for it */
  /* Code for the real product, or for its first columns, and for the others, of which there may be
   * none; while it is NULL, the loops compute it. */
  mmci_xsmm_fn code, code_right;
  size_t right_at;    /* bytes from the first column of B and of C to the others */
  bool tried;         /* no code will be written any more: that was tried, or its bits differ */
  int64_t executions; /* products so far without code */
  bool packs_a, packs_b;
} mmci_small;

/* Room of so many bytes is enough to pack the operands of any product that pays. Complex operands
 * that take more are no small ones. */
enum { MMCI_SMALL_ROOM = 128 << 10 };

/* Says whether there may be code for one such product, whatever its batch: no size is 0, and
 * complex operands are packed in MMCI_SMALL_ROOM. */
bool mmci_small_can(const mmci_gemm *gemm);

/* Says whether that is also faster than a CBLAS, as measured with OpenBLAS 0.3.21: where no size is
 * over 64, unless C is narrower than a vector register and its sums have many terms. */
bool mmci_small_pays(const mmci_gemm *gemm);

/* Makes a product for which mmci_small_can(). It has code where the loops cannot stand in for
 * it. */
mmci_small mmci_small_make(const mmci_gemm *gemm);

/* Takes the code where it has been written for another product, or where an execution computes this
 * one so many times that it is worth writing at once. */
void mmci_small_prepare(mmci_small *x, int64_t times);

/* Must be called before every execution, which computes so many products, by its thread; after some
 * of them it has the code written. */
void mmci_small_execute(mmci_small *x, int64_t times);

/* Returns how many bytes packing takes. */
size_t mmci_small_room_bytes(const mmci_small *x);

/* Packs the operands that need it into room, and points a and b at them. */
void mmci_small_pack(const mmci_small *x, const void **a, const void **b, void *room);

/* Multiplies; room has so many bytes, and is aligned as doubles are. */
static inline void mmci_small_multiply(const mmci_small *x, const void *a, const void *b, void *c,
                                       void *room) {
  if (x->packs_b || x->packs_a) mmci_small_pack(x, &a, &b, room);
  if (x->code == NULL) {
    mmci_small_loops(&x->real, a, b, c);
    return;
  }
  x->code(b, a, c);
  if (x->code_right != NULL)
    x->code_right((const char *)b + x->right_at, a, (char *)c + x->right_at);
}

#endif
