/* whole.h: large products of MMCI_REPRODUCIBLE_FAITHFUL, which are sums of whole numbers.
 *
 * Every row of op(A) and column of op(B) is scaled to a length that depends on the dtype, and its
 * elements are rounded to whole numbers, whose products are added up exactly; so it does not matter
 * in which order, or how the product is cut into rows and columns. What a sum stands for is rounded
 * to the dtype. Rows and columns that few numbers outweigh, or that are not finite, are left to
 * FP64: their elements of C are one chain of fused multiply-adds of doubles each, from the first k
 * to the last, and are rounded once. What is computed is that, then added to C where C is added to.
 *
 * A complex product is a real one: the real parts of a row of A, m x 2k, lie beside the imaginary
 * ones, and so do those of C, m x 2n; column 2j of B has re and -im of column j, the next one im
 * and re. rows.h says the arithmetic to the last bit. */
#ifndef MMCI_WHOLE_WHOLE_H
#define MMCI_WHOLE_WHOLE_H

#include "chain/gemm.h"
#include "device/whole/rows.h"

/* The longest sum of a real product. */
enum { MMCI_WHOLE_K = 1 << 15 };

/* A product as a real one. */
typedef struct mmci_whole {
  /* The product that is asked for, as it stands in the chain: C is transposed where it was turned,
   * of which each operand is the other one. */
  mmci_gemm gemm;
  bool turned;
  int64_t m, k, n;
  int64_t parts;  /* real numbers of an element */
  bool is_single; /* they have 32 bits */
  double peak, reach;
  mmci_moduli moduli;
  int planes;
} mmci_whole;

/* A row of op(A) or a column of op(B). */
typedef struct mmci_whole_row {
  double scale, unit[2];
  bool left; /* to FP64 */
} mmci_whole_row;

/* Says whether there are such sums: of floating-point numbers of 32 bits or more each, not too
 * many. */
bool mmci_whole_supports(const mmci_gemm *gemm);
void mmci_whole_open(mmci_whole *x, const mmci_gemm *gemm);

/* Reads `count` rows of op(A), or with `which` 1 columns of op(B), from the one numbered first on,
 * one after the other. Where the product was turned, data is that of the other operand that was
 * given. */
void mmci_whole_read(const mmci_whole *x, int which, const void *data, int64_t first, int64_t count,
                     double *lines);
/* Judges and scales one. */
mmci_whole_row mmci_whole_judge(const mmci_whole *x, const double *line);

/* Returns an element as a whole number. */
static inline int64_t mmci_whole_number(double element, const mmci_whole_row *row) {
  return llrint(element * row->scale);
}

/* Returns what the sum of products of whole numbers stands for. */
double mmci_whole_result(const mmci_whole *x, const mmci_whole_row *a, const mmci_whole_row *b,
                         mmci_i128 sum);
/* Writes an element of C, or adds it. */
void mmci_whole_write(const mmci_whole *x, void *c, int64_t i, int64_t j, double result);

#endif
