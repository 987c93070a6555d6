/* triangle_strip.h: what of a triangle is multiplied by another one at once. */
#ifndef MMCI_TRIANGLE_STRIP_H
#define MMCI_TRIANGLE_STRIP_H

#include "chain/structured.h"

/* Lines of a triangle B that TRTRMM multiplies at once: its columns where S stands on the left,
 * else its rows. What is not zero of them becomes Z_in := op(S_in) B_in or B_in op(S_in), by TRMM.
 * What is zero of them becomes Z_out := op(S_out) B_in or B_in op(S_out), by GEMM, where one
 * triangle is lower and the other upper; else it stays zero. */
typedef struct mmci_triangle_strip {
  mmci_structured trmm;     /* rows x cols of Z_in */
  int64_t z_in, b_in, s_in; /* elements before these parts of Z, B and S */
  bool carries;             /* Z_out is not zero */
  int64_t m, n, k;          /* Z_out is m x n; k is of the GEMM */
  int64_t z_out, s_out;
} mmci_triangle_strip;

/* Returns the strip that begins at a line of B, with at most so many lines. B op(S) is the
 * transposed of op(S)^T B^T, of which rows of B are columns. */
static inline mmci_triangle_strip mmci_structured_strip(const mmci_structured *p, int64_t first,
                                                        int64_t most) {
  const int64_t side = p->rows, count = side - first < most ? side - first : most;
  const bool s_lower = ((p->traits & MMC_LOWER) != 0) != ((p->op != MMC_OP_N) != p->right),
             b_lower = (p->b_band.above == 0) != p->right;
  const int64_t begin = b_lower ? first : 0, end = b_lower ? side : first + count,
                out = b_lower ? 0 : end, beside = side - (end - begin);
  mmci_triangle_strip strip = {
      .trmm = *p, .s_in = begin * (p->lds + 1), .carries = s_lower != b_lower, .k = end - begin};
  strip.trmm.kernel = MMCI_STRUCTURE_TRMM;
  strip.trmm.rows = p->right ? count : strip.k;
  strip.trmm.cols = p->right ? strip.k : count;
  strip.m = p->right ? count : beside;
  strip.n = p->right ? beside : count;
  strip.z_in = p->right ? begin * p->ldz + first : first * p->ldz + begin;
  strip.b_in = p->right ? begin * p->ldb + first : first * p->ldb + begin;
  strip.z_out = p->right ? out * p->ldz + first : first * p->ldz + out;
  /* Row `out` and column `begin` of op(S), or the other way round. */
  const bool by_rows = (p->op != MMC_OP_N) != p->right;
  strip.s_out = by_rows ? out * p->lds + begin : begin * p->lds + out;
  return strip;
}

#endif
