/* gemm.h: one product of a chain, and how its operands lie. */
#ifndef MMCI_GEMM_H
#define MMCI_GEMM_H

#include "base/dtype.h"
#include "base/precision.h"
#include "base/wide.h"

/* How an operand lies. Element (r, c) is data[r * ld + c], or data[c * ld + r] when trans, and is
 * conjugated when conj. A column-major matrix is a transposed row-major one. ld is in elements, at
 * least 1. Matrix i of a batch begins i * stride elements after the first; with a stride of 0, all
 * share one. When gathered, data is a table of the batch's addresses instead, in memory of the
 * device. */
typedef struct mmci_form {
  int64_t ld;
  bool trans, conj, gathered;
  int64_t stride;
} mmci_form;

static inline mmci_form mmci_form_transposed(mmci_form form) {
  form.trans = !form.trans;
  return form;
}

/* Returns how many elements op's element of that row and column lies after the first. */
static inline int64_t mmci_form_place(const mmci_form *form, int64_t row, int64_t column) {
  return form->trans ? column * form->ld + row : row * form->ld + column;
}

/* Returns the letter of the op; C is one that is conjugated alone. */
static inline char mmci_form_letter(const mmci_form *form) {
  return "NTCH"[2 * form->conj + form->trans];
}

/* By which arithmetic a product is computed. What sums of integers do beyond their dtype: they wrap
 * around, are an error, or are taken modulo a number; bool knows neither. And what sums and
 * products of elements are, see mmc_semiring; products over or-and are those of bool, whose rule
 * says nothing. And how far from exact a MMCI_FAITHFUL product of numbers may be, which then need
 * not be as accurate as a native one. */
typedef struct mmci_rule {
  uint64_t modulus; /* 0 means that there is none; else 1 to 2^63 - 1, and no more than dtype has */
  bool checked;     /* enqueue returns E_OVERFLOW where an element of C exceeds the dtype */
  mmc_semiring semiring; /* MMC_PLUS_TIMES, or one that has no modulus and is not checked */
  /* What an element may be off by, as a part of the length of its row of A times that of its column
   * of B; 0 where nothing is said. */
  double tolerance;
} mmci_rule;

/* How the sums of a product of MMCI_REPRODUCIBLE or MMCI_REPRODUCIBLE_FAITHFUL are defined; sums of
 * other precisions have MMCI_SUMS_CHAIN, which says nothing about them. */
typedef enum mmci_sums {
  MMCI_SUMS_CHAIN, /* each is one chain of fused multiply-adds, which goes on from what is in C */
  /* k is cut into pieces of MMCI_PIECE_TERMS terms, the last of which may have fewer. Each piece is
   * one chain of fused multiply-adds from +0; pieces are added up in order, first to last, of f16
   * and bf16 in f32; then the sum is added to C, where it is, and rounded to the dtype. */
  MMCI_SUMS_PIECES,
  MMCI_SUMS_WHOLE /* they are of whole numbers, as device/whole/whole.h says */
} mmci_sums;

/* A product whose sums are in pieces is long: it has so many terms, and up to so many elements. */
enum { MMCI_PIECE_TERMS = 1024, MMCI_LONG_TERMS = 4096, MMCI_LONG_ELEMENTS = 1 << 18 };

/* C = A B, or C += A B when accumulate. C is m x n, row-major; A is m x k, B is k x n; all sizes
 * are >= 0. It may be a batch of such products, whose results do not overlap. */
typedef struct mmci_gemm {
  mmc_dtype dtype;
  mmci_precision precision;
  int64_t m, k, n;
  mmci_form a, b;
  int64_t ldc, c_stride;
  int64_t batch; /* products of the batch; 0 stands for 1 */
  bool accumulate;
  /* C is a transposed product of the chain: A is its right operand, B its left one. Only sums of
   * complex elements that are to have the same bits either way depend on it. */
  bool turned;
  mmci_sums sums; /* those of the product of the chain that it is, or is a part of */
  mmci_rule rule; /* zeros where numbers are added and multiplied */
  int variant;    /* 0 is the device's own choice; 1 to variants() are others for the same result;
                     prepare returns E_UNSUPPORTED where there is no such variant */
} mmci_gemm;

/* Counts the real flops of a product; a complex multiplication and addition take eight. */
static inline double mmci_flops(mmc_dtype dtype, int64_t m, int64_t k, int64_t n) {
  return (mmci_dtype_is_complex(dtype) ? 8 : 2) * mmci_mkn(m, k, n);
}

/* Returns the multiplications of one product of the batch, rounded. */
static inline double mmci_gemm_mkn(const mmci_gemm *gemm) {
  return mmci_mkn(gemm->m, gemm->k, gemm->n);
}

/* These return the flops, and the bytes of one passage over every matrix, of all the batch. */
static inline double mmci_gemm_flops(const mmci_gemm *gemm) {
  return mmci_flops(gemm->dtype, gemm->m, gemm->k, gemm->n) *
         (gemm->batch > 1 ? (double)gemm->batch : 1);
}
static inline double mmci_gemm_bytes(const mmci_gemm *gemm) {
  const double m = (double)gemm->m, k = (double)gemm->k, n = (double)gemm->n;
  return (double)mmc_dtype_size(gemm->dtype) * (m * k + k * n + m * n) *
         (gemm->batch > 1 ? (double)gemm->batch : 1);
}

/* Returns what an element of the product in its dtype's own arithmetic is off by at most, as a
 * tolerance, whatever the order of its sums; 0 for integers. A sum of k products, each of which is
 * rounded, is off by k u / (1 - k u) of the magnitudes' sum at most. Real and imaginary parts are
 * sums of twice as many. Some more are for what is added to, and for sums that are cut. */
static inline double mmci_gemm_error_bound(const mmci_gemm *gemm) {
  enum { MORE = 8 };
  if (mmci_dtype_is_integer(gemm->dtype)) return 0;
  const bool is_double = gemm->dtype == MMC_F64 || gemm->dtype == MMC_C128;
  const double u = is_double ? 0x1p-53 : 0x1p-24;
  const double k = (double)gemm->k * (mmci_dtype_is_complex(gemm->dtype) ? 2 : 1) + MORE;
  const double sum = k * u < 0.5 ? k * u / (1 - k * u) : 1;
  if (mmci_dtype_is_complex(gemm->dtype)) return 1.4143 * sum;
  if (gemm->dtype == MMC_F16) return sum + 0x1p-11 * (1 + sum);
  return gemm->dtype == MMC_BF16 ? sum + 0x1p-8 * (1 + sum) : sum;
}

/* Says whether the matrix that a column, or else a row, is multiplied by is stored by lines each of
 * which has a sum of its own, over its elements. */
static inline bool mmci_gemm_sums_lines(const mmci_gemm *gemm) {
  return gemm->n == 1 ? !gemm->a.trans : gemm->b.trans;
}

/* Says whether each element is to be one chain of fused multiply-adds. */
static inline bool mmci_gemm_is_in_order(const mmci_gemm *gemm) {
  return mmci_precision_is_reproducible(gemm->precision) && gemm->sums == MMCI_SUMS_CHAIN;
}
static inline bool mmci_gemm_is_whole(const mmci_gemm *gemm) {
  return gemm->sums == MMCI_SUMS_WHOLE;
}
/* Says whether sums must not be cut along k, since their bits would depend on the cut: those of
 * 16-bit elements are rounded to them at every cut, others are not chains that go on. */
bool mmci_gemm_keeps_k(const mmci_gemm *gemm);
/* Returns those of a reproducible product of a chain. */
mmci_sums mmci_gemm_defined_sums(const mmci_gemm *gemm);
/* Sets `sums` of a product of a chain, by its precision, dtype, rule and sizes alone, since they
 * are part of what its bits are: of whole numbers where MMCI_REPRODUCIBLE_FAITHFUL allows them and
 * they take less time than others on tensor cores, or in pieces where the product is long. */
static inline void mmci_gemm_choose_sums(mmci_gemm *gemm) {
  gemm->sums = mmci_precision_is_reproducible(gemm->precision) ? mmci_gemm_defined_sums(gemm)
                                                               : MMCI_SUMS_CHAIN;
}

/* Makes a form of a single matrix that of an operand that is rows x cols after its op, without
 * gaps. */
static inline void mmci_form_tighten(mmci_form *form, mmc_dtype dtype, int64_t rows, int64_t cols,
                                     mmc_op op) {
  const int64_t ld = op == MMC_OP_N ? cols : rows;
  form->ld = ld > 0 ? ld : 1;
  form->trans = op != MMC_OP_N;
  form->conj = op == MMC_OP_H && mmci_dtype_is_complex(dtype);
}
/* Finds the op that a form stands for; returns false when there is none: conjugated but not
 * transposed. */
static inline bool mmci_form_op(const mmci_form *form, mmc_op *out) {
  *out = !form->trans ? MMC_OP_N : form->conj ? MMC_OP_H : MMC_OP_T;
  return form->trans || !form->conj;
}

/* Returns op(A) op(B) of m x k by k x n with all matrices row-major, without gaps. */
mmci_gemm mmci_gemm_tight(mmc_dtype dtype, mmci_precision precision, int64_t m, int64_t k,
                          int64_t n, mmc_op op_a, mmc_op op_b);

/* Returns the product with zeros around its operands, so that every operand's lines and leading
 * dimensions are multiples of so many elements; an operand that has that already stays as it is.
 * Tensor cores want it: cuBLAS takes other kernels, some a quarter as fast, where a line is no
 * multiple of 16 bytes. */
mmci_gemm mmci_gemm_padded(int multiple, const mmci_gemm *gemm);
/* Says whether sizes and leading dimensions are the same. */
bool mmci_gemm_lies_as(const mmci_gemm *gemm, const mmci_gemm *other);
/* Returns the bytes for a rows x cols operand of such a product, whichever way it lies, rounded so
 * that others may follow; UINT64_MAX / 4 when that is more. */
uint64_t mmci_padded_bytes(int multiple, mmc_dtype dtype, int64_t rows, int64_t cols);

/* Returns the bytes for all operands of m x k by k x n, A, B and C in this order; UINT64_MAX / 4
 * when that is more. */
uint64_t mmci_padding_bytes(int multiple, mmc_dtype dtype, int64_t m, int64_t k, int64_t n);

/* Returns rows x cols, or 0 when that does not fit: there cannot be a second matrix of that
 * size. */
int64_t mmci_elements(int64_t rows, int64_t cols);

/* Makes gemm a batch of such products, whose matrices follow each other without gaps. */
void mmci_gemm_spread(mmci_gemm *gemm, int64_t batch);

#endif
