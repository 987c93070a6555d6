/* vector_loops.h: batches of products in which a size is 1, or with few columns, of small complex
 * ones, and of reproducible ones, by loops.
 *
 * A CBLAS takes tens of nanoseconds to find out what it is asked for, which is longer than a
 * product of a few numbers takes. Here that is found out once for a batch. Lines of C are computed
 * in whole vectors; where a line is no multiple of one, the last vector begins so that it ends with
 * the line, and some elements are computed twice, with the same bits. Where C has few columns, its
 * sums run along the rows of A and the columns of B instead, which are packed. A complex product
 * keeps two sums: of the right elements times real parts of left ones, and times imaginary parts;
 * these meet after the last term, where conjugates are signs. Reproducible products have lines
 * alone, each of whose elements is one chain; where B has its columns along memory, lines run
 * across them. */
#ifndef MMCI_VECTOR_LOOPS_H
#define MMCI_VECTOR_LOOPS_H

#include "chain/gemm.h"

typedef struct mmci_vectors mmci_vectors;
struct mmci_ordered_row;

/* The columns of an operand that is packed have at most so many bytes. */
enum { MMCI_VECTORS_PACKED = 16 << 10 };

/* Computes so many products, whose matrices are so many bytes apart. */
typedef void (*mmci_vectors_fn)(const mmci_vectors *x, int64_t count, const char *a, const char *b,
                                char *c);

/* Products C = A B, or C^T = B^T A^T where that has lines along which loops can run. Element (r, p)
 * of A is at r * a_down + p * a_along, (p, c) of B at p * b_down + c * b_along, and (r, c) of C at
 * r * c_down + c * c_along; native lines have steps of one element along B and C. For sums, element
 * p of a row of A is at p; of B too where n is 1, and packed so where it is not: n counts columns
 * then. */
struct mmci_vectors {
  int64_t m, k, n;
  /* In numbers, of which a complex one is two, as n is. */
  int64_t a_down, a_along, b_down, b_along, c_down, c_along;
  int64_t a_step, b_step, c_step; /* bytes from one product to the next */
  double sign_a, sign_b;          /* -1 where an operand is conjugated */
  bool swapped;                   /* the operands have changed places */
  bool continues;                 /* loops in order go on with the chains that are in C */
  bool turned;                    /* A holds right operands of the chain, or B left ones */
  mmci_vectors_fn multiply;
};

/* Says whether loops compute such products, and faster than a CBLAS does. */
bool mmci_vectors_pay(const mmci_gemm *gemm);

/* Says whether the loops for lines in order compute a native product of two matrices in less time
 * than a CBLAS without AVX-512, where the processor has it. */
bool mmci_lines_pay(const mmci_gemm *gemm);

/* Makes products that pay, whose matrices are so many bytes apart. */
mmci_vectors mmci_vectors_make(const mmci_gemm *gemm, int64_t a_step, int64_t b_step,
                               int64_t c_step);

/* Computes count products, of which the first has these operands. */
static inline void mmci_vectors_multiply(const mmci_vectors *x, int64_t count, const void *a,
                                         const void *b, void *c) {
  if (x->swapped)
    x->multiply(x, count, b, a, c);
  else
    x->multiply(x, count, a, b, c);
}

/* Continues the chains of a row times a matrix of floating-point elements (ordered_tiles.h), by
 * loops in order; returns false where there are none. */
bool mmci_ordered_row_by_loops(mmc_dtype dtype, const struct mmci_ordered_row *row);

/* The loops for an instruction set: of lines and of sums. */
typedef struct mmci_vectors_set {
  mmci_vectors_fn lines[4], sums[4]; /* f32, f64, c64, c128 */
} mmci_vectors_set;

extern const mmci_vectors_set mmci_vectors_avx2, mmci_vectors_portable;
/* Loops by AVX-512: sums of up to three columns, of f32, f64, c64 and c128, and lines of up to 64
 * bytes, of f32 and f64. */
extern const mmci_vectors_fn mmci_vectors_sums_avx512[4], mmci_vectors_lines_avx512[2];

/* Loops for reproducible products, whose elements are chains of fused multiply-adds from the first
 * term to the last, with zeros and NaN as these have them: of lines, and of lines across those of
 * B, where B has its columns along memory, which are turned in registers. */
typedef struct mmci_ordered_set {
  mmci_vectors_fn lines[4], across[4]; /* f32, f64, c64, c128 */
} mmci_ordered_set;

extern const mmci_ordered_set mmci_ordered_lines_avx2, mmci_ordered_lines_avx512;

#endif
