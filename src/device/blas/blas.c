/* blas.c: the device "blas": products by any CBLAS, in the caller's process and threads.
 *
 * Matrices go to xGEMM, vectors to xGEMV and xDOT. What this CBLAS cannot express goes to the plain
 * loops of ref: sizes beyond its 32-bit integers, and conjugation without transposition where it
 * lacks OpenBLAS's extension for that. */
#include <cblas.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "device/host.h"
#include "device/ref/ref.h"

#ifdef MMCI_OPENBLAS
enum { HAS_CONJ_NO_TRANS = 1, CONJ_NO_TRANS = CblasConjNoTrans };
#else
enum { HAS_CONJ_NO_TRANS = 0, CONJ_NO_TRANS = CblasNoTrans };
#endif

/* How a product is computed, by its shape alone. */
typedef enum method {
  NOTHING,       /* C has no elements */
  ZEROS,         /* k = 0: C is a sum of nothing */
  DOT,           /* row times column */
  MATRIX_VECTOR, /* n = 1 */
  VECTOR_MATRIX, /* m = 1 */
  MATRIX_MATRIX,
  LOOPS /* sizes that do not fit CBLAS's integers */
} method;

struct mmci_kernel {
  mmci_gemm gemm;
  method method;
};

static method choose(const mmci_gemm *gemm) {
  if (gemm->m == 0 || gemm->n == 0) return NOTHING;
  if (gemm->k == 0) return ZEROS;
  if (gemm->m > INT_MAX || gemm->k > INT_MAX || gemm->n > INT_MAX) return LOOPS;
  /* Complex dot products return through conventions that differ among CBLAS builds. */
  bool is_real = gemm->dtype == MMC_F32 || gemm->dtype == MMC_F64;
  if (gemm->m == 1 && gemm->n == 1 && is_real) return DOT;
  if (gemm->n == 1) return MATRIX_VECTOR;
  if (gemm->m == 1) return VECTOR_MATRIX;
  return MATRIX_MATRIX;
}

/* ---- calls --------------------------------------------------------------------------------- */

static CBLAS_TRANSPOSE blas_op(bool trans, bool conj) {
  if (trans) return conj ? CblasConjTrans : CblasTrans;
  return conj ? (CBLAS_TRANSPOSE)CONJ_NO_TRANS : CblasNoTrans;
}

/* Steps along an operand that is one column, and one row. */
static int column_step(const mmci_operand *x) {
  return x->trans ? 1 : (int)x->ld;
}
static int row_step(const mmci_operand *x) {
  return x->trans ? (int)x->ld : 1;
}

/* The rows and columns of a stored k x n or m x k operand, for a GEMV that takes it as matrix. */
static int stored_rows(const mmci_operand *x, int64_t rows, int64_t columns) {
  return (int)(x->trans ? columns : rows);
}

#define REAL_CALLS(suffix, type, letter)                                                           \
  static void multiply_##suffix(const mmci_kernel *kernel, const mmci_operand *a,                  \
                                const mmci_operand *b, type *c, int ldc) {                         \
    int m = (int)kernel->gemm.m, k = (int)kernel->gemm.k, n = (int)kernel->gemm.n;                 \
    switch (kernel->method) {                                                                      \
      case DOT:                                                                                    \
        *c = cblas_##letter##dot(k, a->data, row_step(a), b->data, column_step(b));                \
        break;                                                                                     \
      case MATRIX_VECTOR:                                                                          \
        cblas_##letter##gemv(CblasRowMajor, blas_op(a->trans, false), stored_rows(a, m, k),        \
                             stored_rows(a, k, m), 1, a->data, (int)a->ld, b->data,                \
                             column_step(b), 0, c, ldc);                                           \
        break;                                                                                     \
      case VECTOR_MATRIX:                                                                          \
        cblas_##letter##gemv(CblasRowMajor, blas_op(!b->trans, false), stored_rows(b, k, n),       \
                             stored_rows(b, n, k), 1, b->data, (int)b->ld, a->data, row_step(a),   \
                             0, c, 1);                                                             \
        break;                                                                                     \
      default:                                                                                     \
        cblas_##letter##gemm(CblasRowMajor, blas_op(a->trans, false), blas_op(b->trans, false), m, \
                             n, k, 1, a->data, (int)a->ld, b->data, (int)b->ld, 0, c, ldc);        \
    }                                                                                              \
  }

/* A vector operand cannot be conjugated in GEMV, so those that must be go to GEMM. */
#define COMPLEX_CALLS(suffix, type, letter)                                                       \
  static void multiply_##suffix(const mmci_kernel *kernel, const mmci_operand *a,                 \
                                const mmci_operand *b, type *c, int ldc) {                        \
    const type one[2] = {1, 0}, zero[2] = {0, 0};                                                 \
    int m = (int)kernel->gemm.m, k = (int)kernel->gemm.k, n = (int)kernel->gemm.n;                \
    if (kernel->method == MATRIX_VECTOR && !b->conj) {                                            \
      cblas_##letter##gemv(CblasRowMajor, blas_op(a->trans, a->conj), stored_rows(a, m, k),       \
                           stored_rows(a, k, m), one, a->data, (int)a->ld, b->data,               \
                           column_step(b), zero, c, ldc);                                         \
    } else if (kernel->method == VECTOR_MATRIX && !a->conj) {                                     \
      cblas_##letter##gemv(CblasRowMajor, blas_op(!b->trans, b->conj), stored_rows(b, k, n),      \
                           stored_rows(b, n, k), one, b->data, (int)b->ld, a->data, row_step(a),  \
                           zero, c, 1);                                                           \
    } else {                                                                                      \
      cblas_##letter##gemm(CblasRowMajor, blas_op(a->trans, a->conj), blas_op(b->trans, b->conj), \
                           m, n, k, one, a->data, (int)a->ld, b->data, (int)b->ld, zero, c, ldc); \
    }                                                                                             \
  }

REAL_CALLS(f32, float, s)
REAL_CALLS(f64, double, d)
COMPLEX_CALLS(c64, float, c)
COMPLEX_CALLS(c128, double, z)

static void write_zeros(const mmci_gemm *gemm, char *c, int64_t ldc) {
  size_t size = mmc_dtype_size(gemm->dtype);
  for (int64_t i = 0; i < gemm->m; i++)
    memset(c + (size_t)i * (size_t)ldc * size, 0, (size_t)gemm->n * size);
}

/* Whether this CBLAS cannot express the operands, whatever the shape. */
static bool needs_loops(const mmci_kernel *kernel, const mmci_operand *a, const mmci_operand *b,
                        int64_t ldc) {
  if (kernel->method == LOOPS || a->ld > INT_MAX || b->ld > INT_MAX || ldc > INT_MAX) return true;
  if (HAS_CONJ_NO_TRANS || kernel->gemm.dtype == MMC_F32 || kernel->gemm.dtype == MMC_F64)
    return false;
  /* VECTOR_MATRIX takes b transposed. */
  bool b_trans = kernel->method == VECTOR_MATRIX && !a->conj ? !b->trans : b->trans;
  return (a->conj && !a->trans) || (b->conj && !b_trans);
}

static mmc_status enqueue(mmci_queue *queue, const mmci_kernel *kernel, const mmci_operand *a,
                          const mmci_operand *b, void *c, int64_t ldc, mmci_error *error) {
  (void)queue, (void)error;
  if (kernel->method == NOTHING) return MMC_OK;
  if (kernel->method == ZEROS) {
    write_zeros(&kernel->gemm, c, ldc);
    return MMC_OK;
  }
  if (needs_loops(kernel, a, b, ldc)) {
    mmci_ref_gemm(&kernel->gemm, a, b, c, ldc);
    return MMC_OK;
  }
  switch (kernel->gemm.dtype) {
    case MMC_F32:
      multiply_f32(kernel, a, b, c, (int)ldc);
      break;
    case MMC_F64:
      multiply_f64(kernel, a, b, c, (int)ldc);
      break;
    case MMC_C64:
      multiply_c64(kernel, a, b, c, (int)ldc);
      break;
    case MMC_C128:
      multiply_c128(kernel, a, b, c, (int)ldc);
      break;
  }
  return MMC_OK;
}

/* ---- the device ---------------------------------------------------------------------------- */

static mmc_status probe(int *count, mmci_error *error) {
  (void)error;
  *count = 1;
  return MMC_OK;
}

static void describe(const mmci_device *device, char *text, size_t size) {
  (void)device;
#ifdef MMCI_OPENBLAS
  snprintf(text, size, "%s, %d threads", openblas_get_config(), openblas_get_num_threads());
#else
  snprintf(text, size, "a CBLAS that does not say which");
#endif
}

static bool supports(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device, (void)gemm;
  return true;
}

static const char *kernel_name(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device;
  switch (choose(gemm)) {
    case NOTHING:
      return "nothing";
    case ZEROS:
      return "zeros";
    case DOT:
      return "dot";
    case MATRIX_VECTOR:
    case VECTOR_MATRIX:
      return "gemv";
    case MATRIX_MATRIX:
      return "gemm";
    case LOOPS:
      break;
  }
  return "loops";
}

static mmc_status prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                          mmci_error *error) {
  (void)device;
  mmci_kernel *kernel = malloc(sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  *kernel = (mmci_kernel){.gemm = *gemm, .method = choose(gemm)};
  *out = kernel;
  return MMC_OK;
}

static void release(mmci_kernel *kernel) {
  free(kernel);
}

const mmci_device_ops mmci_device_blas = {
    .abi = MMCI_DEVICE_ABI,
    .size = sizeof(mmci_device_ops),
    .name = "blas",
    .probe = probe,
    .open = mmci_host_open,
    .close = mmci_host_close,
    .describe = describe,
    .supports = supports,
    .kernel_name = kernel_name,
    .prepare = prepare,
    .release = release,
    .queue_open = mmci_host_queue_open,
    .queue_close = mmci_host_queue_close,
    .enqueue = enqueue,
    .sync = mmci_host_sync,
    .alloc = mmci_host_alloc,
    .dealloc = mmci_host_dealloc,
};
