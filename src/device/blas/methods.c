/* methods.c: see methods.h, and blas.h for what others ask. */
#include "device/blas/methods.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"
#include "device/blas/cblas_table.h"
#include "device/blas/half_gemm.h"
#include "device/blas/integer_gemm.h"
#include "device/blas/ordered.h"
#include "device/blas/semiring.h"
#include "device/blas/small.h"
#include "device/blas/threads.h"
#include "device/blas/vector_loops.h"
#include "device/ref/ref.h"

static bool is_real(mmc_dtype dtype) {
  return dtype != MMC_C64 && dtype != MMC_C128;
}

bool mmci_blas_is_reproducible(const mmci_gemm *gemm) {
  return mmci_precision_is_reproducible(gemm->precision) && !mmci_gemm_is_whole(gemm) &&
         !mmci_dtype_is_integer(gemm->dtype) && gemm->rule.semiring == MMC_PLUS_TIMES;
}

static bool has_op(bool trans, bool conj) {
  return trans || !conj || mmci_blas.is_openblas;
}

/* Small kernels take their terms in the order of an upright product. LIBXSMM's are faster than
 * loops by up to a sixth where there are more terms. */
static mmci_method choose_ordered(const mmci_gemm *gemm) {
  enum { MOST_BY_LOOPS = 2048 };
  if (mmci_half_is_in_order(gemm) && (gemm->dtype == MMC_F16 || gemm->dtype == MMC_BF16))
    return MMCI_METHOD_WIDENED;
  const bool in_order = (is_real(gemm->dtype) || !gemm->turned) && gemm->sums == MMCI_SUMS_CHAIN,
             is_small = in_order && mmci_small_loops_can() && mmci_small_pays(gemm);
  if (is_small && mmci_gemm_mkn(gemm) > MOST_BY_LOOPS) return MMCI_METHOD_SMALL;
  if (mmci_vectors_pay(gemm)) return MMCI_METHOD_VECTORS;
  return is_small ? MMCI_METHOD_SMALL : MMCI_METHOD_ORDERED;
}

/* Says whether one small product is faster by OpenBLAS's threads: two of them compute complex ones
 * of 60x60 in .8 of the time that small.h takes, of 50x50 in as much. */
static bool is_worth_threads(const mmci_gemm *gemm) {
  enum { LEAST = 55 * 55 * 55 };
  return !is_real(gemm->dtype) && gemm->batch <= 1 && gemm->m * gemm->k * gemm->n >= LEAST &&
         mmci_blas_threads() > 1;
}

/* OpenBLAS gives a product of a matrix and a vector to one thread below so many terms, and one of
 * two matrices up to so many, of complex ones an eighth. */
enum { SERIAL_GEMV = 9216, SERIAL_GEMM = 64 * 64 * 64, SERIAL_COMPLEX_GEMM = SERIAL_GEMM / 8 };

static bool is_serial_gemm(const mmci_gemm *gemm) {
  const double terms = (double)gemm->m * (double)gemm->k * (double)gemm->n;
  return terms <= (is_real(gemm->dtype) ? SERIAL_GEMM : SERIAL_COMPLEX_GEMM);
}

mmci_method mmci_blas_method(const mmci_gemm *gemm) {
  int64_t m = gemm->m, k = gemm->k, n = gemm->n;
  bool real = is_real(gemm->dtype), a_conj = !real && gemm->a.conj, b_conj = !real && gemm->b.conj;
  if (m == 0 || n == 0 || (k == 0 && gemm->accumulate)) return MMCI_METHOD_NOTHING;
  if (gemm->rule.semiring != MMC_PLUS_TIMES) return MMCI_METHOD_SEMIRING;
  if (k == 0) return MMCI_METHOD_ZEROS;
  if (mmci_gemm_is_whole(gemm)) return MMCI_METHOD_WHOLE;
  if (mmci_blas_is_reproducible(gemm)) return choose_ordered(gemm);
  if (gemm->dtype == MMC_F16 || gemm->dtype == MMC_BF16)
    return mmci_half_is_small(gemm) ? MMCI_METHOD_WIDENED : MMCI_METHOD_PANELS;
  if (mmci_dtype_is_integer(gemm->dtype))
    return mmci_integer_is_direct(gemm)  ? MMCI_METHOD_DIRECT
           : mmci_integer_is_words(gemm) ? MMCI_METHOD_ORDERED
                                         : MMCI_METHOD_DIGITS;
  if ((m | k | n | gemm->a.ld | gemm->b.ld | gemm->ldc) > INT_MAX) return MMCI_METHOD_LOOPS;
  if (mmci_vectors_pay(gemm)) return MMCI_METHOD_VECTORS;
  /* Complex dot products return through conventions that differ among CBLAS builds. */
  if (m == 1 && n == 1 && real) return MMCI_METHOD_DOT;
  /* xGEMV cannot conjugate the vector. */
  if (n == 1 && !b_conj && has_op(gemm->a.trans, a_conj)) return MMCI_METHOD_MATRIX_VECTOR;
  if (m == 1 && !a_conj && has_op(!gemm->b.trans, b_conj)) return MMCI_METHOD_VECTOR_MATRIX;
  const bool has_ops = has_op(gemm->a.trans, a_conj) && has_op(gemm->b.trans, b_conj);
  if (mmci_small_pays(gemm) && !(has_ops && is_worth_threads(gemm))) return MMCI_METHOD_SMALL;
  if (mmci_blas.has_old_kernels && mmci_lines_pay(gemm) &&
      (is_serial_gemm(gemm) || mmci_blas_threads() == 1))
    return MMCI_METHOD_VECTORS;
  return has_ops ? MMCI_METHOD_MATRIX_MATRIX : MMCI_METHOD_LOOPS;
}

mmci_several_kind mmci_blas_several(const mmci_gemm *gemm) {
  switch (mmci_blas_method(gemm)) {
    case MMCI_METHOD_VECTORS:
      return MMCI_BY_VECTORS;
    case MMCI_METHOD_WIDENED:
      return MMCI_BY_HALVES;
    case MMCI_METHOD_DIRECT:
      return MMCI_BY_INTEGERS;
    default:
      return MMCI_ONE_BY_ONE;
  }
}

bool mmci_blas_is_call(const mmci_gemm *gemm) {
  return mmci_blas_method(gemm) == MMCI_METHOD_MATRIX_MATRIX;
}

bool mmci_blas_is_small(const mmci_gemm *gemm) {
  if (mmci_blas_is_reproducible(gemm)) return mmci_blas_method(gemm) == MMCI_METHOD_SMALL;
  const mmci_method how = mmci_blas_method(gemm);
  const bool is_by_threads =
      (how == MMCI_METHOD_SMALL || how == MMCI_METHOD_MATRIX_MATRIX) && !mmci_blas_is_serial(gemm);
  return (how == MMCI_METHOD_SMALL || is_by_threads) && mmci_small_can(gemm);
}

/* ---- calls --------------------------------------------------------------------------------- */

static int blas_op(bool trans, bool conj) {
  if (trans) return conj ? MMCI_CBLAS_H : MMCI_CBLAS_T;
  return conj ? MMCI_CBLAS_CONJ_N : MMCI_CBLAS_N;
}

/* Return the steps along an operand that is one column, and along one that is one row. */
static int64_t column_step(const mmci_form *x) {
  return x->trans ? 1 : x->ld;
}
static int64_t row_step(const mmci_form *x) {
  return x->trans ? x->ld : 1;
}

#define PARAMETERS const mmci_gemm *gemm, const void *a, const void *b, void *c

/* Defines xGEMM, for any operands. one and beta are pointers for complex types. */
#define GEMM(suffix, letter, one, beta)                                                          \
  static void gemm_##suffix(PARAMETERS) {                                                        \
    mmci_blas.letter##gemm(MMCI_CBLAS_ROW_MAJOR, blas_op(gemm->a.trans, gemm->a.conj),           \
                           blas_op(gemm->b.trans, gemm->b.conj), gemm->m, gemm->n, gemm->k, one, \
                           a, gemm->a.ld, b, gemm->b.ld, beta, c, gemm->ldc);                    \
  }

/* Defines xGEMV; for a vector times a matrix, it takes the transposed matrix first. */
#define GEMV(suffix, letter, one, beta)                                                         \
  static void matrix_vector_##suffix(PARAMETERS) {                                              \
    const mmci_form *x = &gemm->a;                                                              \
    int64_t m = gemm->m, k = gemm->k;                                                           \
    mmci_blas.letter##gemv(MMCI_CBLAS_ROW_MAJOR, blas_op(x->trans, x->conj), x->trans ? k : m,  \
                           x->trans ? m : k, one, a, x->ld, b, column_step(&gemm->b), beta, c,  \
                           gemm->ldc);                                                          \
  }                                                                                             \
  static void vector_matrix_##suffix(PARAMETERS) {                                              \
    const mmci_form *x = &gemm->b;                                                              \
    int64_t n = gemm->n, k = gemm->k;                                                           \
    mmci_blas.letter##gemv(MMCI_CBLAS_ROW_MAJOR, blas_op(!x->trans, x->conj), x->trans ? n : k, \
                           x->trans ? k : n, one, b, x->ld, a, row_step(&gemm->a), beta, c, 1); \
  }

#define DOT_PRODUCT(suffix, letter, type)                                                \
  static void dot_##suffix(PARAMETERS) {                                                 \
    type product =                                                                       \
        mmci_blas.letter##dot(gemm->k, a, row_step(&gemm->a), b, column_step(&gemm->b)); \
    *(type *)c = gemm->accumulate ? *(type *)c + product : product;                      \
  }

static const float c64[][2] = {{0, 0}, {1, 0}};
static const double c128[][2] = {{0, 0}, {1, 0}};

GEMM(f32, s, 1, gemm->accumulate)
GEMM(f64, d, 1, gemm->accumulate)
GEMM(c64, c, c64[1], c64[gemm->accumulate])
GEMM(c128, z, c128[1], c128[gemm->accumulate])
GEMV(f32, s, 1, gemm->accumulate)
GEMV(f64, d, 1, gemm->accumulate)
GEMV(c64, c, c64[1], c64[gemm->accumulate])
GEMV(c128, z, c128[1], c128[gemm->accumulate])
DOT_PRODUCT(f32, s, float)
DOT_PRODUCT(f64, d, double)

static void multiply_vectors(PARAMETERS) {
  const mmci_vectors x = mmci_vectors_make(gemm, 0, 0, 0);
  mmci_vectors_multiply(&x, 1, a, b, c);
}

static void write_nothing(PARAMETERS) {
  (void)gemm, (void)a, (void)b, (void)c;
}

static void write_zeros(PARAMETERS) {
  (void)a, (void)b;
  size_t size = mmc_dtype_size(gemm->dtype);
  for (int64_t i = 0; i < gemm->m; i++)
    memset((char *)c + (size_t)i * (size_t)gemm->ldc * size, 0, (size_t)gemm->n * size);
}

#define ANY_DTYPE                                                           \
  [MMCI_METHOD_NOTHING] = write_nothing, [MMCI_METHOD_ZEROS] = write_zeros, \
  [MMCI_METHOD_LOOPS] = mmci_ref_gemm
#define MATRICES(suffix)                                                                          \
  [MMCI_METHOD_VECTORS] = multiply_vectors, [MMCI_METHOD_MATRIX_VECTOR] = matrix_vector_##suffix, \
  [MMCI_METHOD_VECTOR_MATRIX] = vector_matrix_##suffix,                                           \
  [MMCI_METHOD_MATRIX_MATRIX] = gemm_##suffix

static const mmci_blas_fn calls[MMCI_DTYPES][MMCI_METHODS] = {
    [MMC_F32] = {ANY_DTYPE, [MMCI_METHOD_DOT] = dot_f32, MATRICES(f32)},
    [MMC_F64] = {ANY_DTYPE, [MMCI_METHOD_DOT] = dot_f64, MATRICES(f64)},
    [MMC_C64] = {ANY_DTYPE, MATRICES(c64)},
    [MMC_C128] = {ANY_DTYPE, MATRICES(c128)},
    [MMC_F16] = {ANY_DTYPE, [MMCI_METHOD_WIDENED] = mmci_half_small},
    [MMC_BF16] = {ANY_DTYPE, [MMCI_METHOD_WIDENED] = mmci_half_small},
};
static const mmci_blas_fn integer_calls[MMCI_METHODS] = {
    ANY_DTYPE, [MMCI_METHOD_DIRECT] = mmci_integer_direct,
    [MMCI_METHOD_ORDERED] = mmci_ordered_small};

mmci_blas_fn mmci_blas_call(mmci_gemm *gemm) {
  mmci_method method = mmci_blas_method(gemm);
  if (method == MMCI_METHOD_SEMIRING || method == MMCI_METHOD_WHOLE) return NULL;
  if (mmci_dtype_is_integer(gemm->dtype)) return integer_calls[method];
  if (method == MMCI_METHOD_ORDERED ||
      (method == MMCI_METHOD_SMALL && mmci_blas_is_reproducible(gemm)))
    return mmci_ordered_small;
  /* CBLAS has no conjugate of real numbers. */
  if (is_real(gemm->dtype)) gemm->a.conj = gemm->b.conj = false;
  return calls[gemm->dtype][method == MMCI_METHOD_SMALL ? MMCI_METHOD_MATRIX_MATRIX : method];
}

double mmci_blas_serial_s(const mmci_gemm *gemm) {
  mmci_method method = mmci_blas_method(gemm);
  if (method == MMCI_METHOD_SEMIRING) return mmci_semiring_serial_s(gemm);
  if (method == MMCI_METHOD_VECTORS && mmci_vectors_pay(gemm))
    return 4e-9 + mmci_flops(gemm->dtype, gemm->m, gemm->k, gemm->n) / 2e10;
  const double rate = method == MMCI_METHOD_LOOPS     ? 1e9
                      : method == MMCI_METHOD_DIRECT  ? 1e10
                      : method == MMCI_METHOD_WIDENED ? 7e10
                      : method == MMCI_METHOD_PANELS  ? 9e10
                                                      : 4e10;
  return 2e-8 + mmci_flops(gemm->dtype, gemm->m, gemm->k, gemm->n) / rate;
}

bool mmci_blas_has_threads(const mmci_gemm *gemm) {
  if (!mmci_blas.is_openblas || mmci_blas_threads() == 1 || mmci_blas_is_reproducible(gemm))
    return false;
  switch (mmci_blas_method(gemm)) {
    case MMCI_METHOD_MATRIX_VECTOR:
    case MMCI_METHOD_VECTOR_MATRIX:
      return !mmci_blas_is_serial(gemm);
    case MMCI_METHOD_SMALL:
    case MMCI_METHOD_MATRIX_MATRIX:
      return !is_serial_gemm(gemm);
    default:
      return false;
  }
}

bool mmci_blas_is_serial(const mmci_gemm *gemm) {
  double terms = (double)gemm->m * (double)gemm->k * (double)gemm->n;
  switch (mmci_blas_method(gemm)) {
    case MMCI_METHOD_PANELS:
    case MMCI_METHOD_DIGITS:
    case MMCI_METHOD_WHOLE:
      return false; /* their room belongs to the queue */
    case MMCI_METHOD_SEMIRING:
      return mmci_semiring_workers(gemm) == 1;
    case MMCI_METHOD_DOT:
    case MMCI_METHOD_MATRIX_VECTOR:
    case MMCI_METHOD_VECTOR_MATRIX:
      return terms < SERIAL_GEMV;
    case MMCI_METHOD_MATRIX_MATRIX:
      return is_serial_gemm(gemm);
    case MMCI_METHOD_ORDERED:
      return gemm->sums == MMCI_SUMS_PIECES ? mmci_ordered_is_short(gemm) : terms <= SERIAL_GEMM;
    default:
      return true;
  }
}
