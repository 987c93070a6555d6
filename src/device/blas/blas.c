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
  LOOPS,         /* sizes that do not fit CBLAS's integers */
  DOT,           /* row times column */
  MATRIX_VECTOR, /* n = 1 */
  VECTOR_MATRIX, /* m = 1 */
  MATRIX_MATRIX,
  METHOD_COUNT
} method;

typedef void (*multiply_fn)(const mmci_gemm *gemm, const mmci_operand *a, const mmci_operand *b,
                            void *c, int ldc);

struct mmci_kernel {
  mmci_gemm gemm;
  method method;
  multiply_fn multiply; /* NULL: method needs no CBLAS */
};

static bool is_real(mmc_dtype dtype) {
  return dtype == MMC_F32 || dtype == MMC_F64;
}

static method choose(const mmci_gemm *gemm) {
  if (gemm->m == 0 || gemm->n == 0) return NOTHING;
  if (gemm->k == 0) return ZEROS;
  if (gemm->m > INT_MAX || gemm->k > INT_MAX || gemm->n > INT_MAX) return LOOPS;
  /* Complex dot products return through conventions that differ among CBLAS builds. */
  if (gemm->m == 1 && gemm->n == 1 && is_real(gemm->dtype)) return DOT;
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

#define PARAMETERS \
  const mmci_gemm *gemm, const mmci_operand *a, const mmci_operand *b, void *c, int ldc

/* xGEMM, for any operands. One and zero are pointers for complex types. */
#define GEMM(suffix, letter, one, zero)                                                         \
  static void gemm_##suffix(PARAMETERS) {                                                       \
    cblas_##letter##gemm(CblasRowMajor, blas_op(a->trans, a->conj), blas_op(b->trans, b->conj), \
                         (int)gemm->m, (int)gemm->n, (int)gemm->k, one, a->data, (int)a->ld,    \
                         b->data, (int)b->ld, zero, c, ldc);                                    \
  }

/* xGEMV. A vector operand cannot be conjugated there, so those that must be go to xGEMM. */
#define GEMV(suffix, letter, one, zero)                                                            \
  static void matrix_vector_##suffix(PARAMETERS) {                                                 \
    int m = (int)gemm->m, k = (int)gemm->k;                                                        \
    if (b->conj)                                                                                   \
      gemm_##suffix(gemm, a, b, c, ldc);                                                           \
    else                                                                                           \
      cblas_##letter##gemv(CblasRowMajor, blas_op(a->trans, a->conj), a->trans ? k : m,            \
                           a->trans ? m : k, one, a->data, (int)a->ld, b->data, column_step(b),    \
                           zero, c, ldc);                                                          \
  }                                                                                                \
  static void vector_matrix_##suffix(PARAMETERS) {                                                 \
    int n = (int)gemm->n, k = (int)gemm->k;                                                        \
    if (a->conj)                                                                                   \
      gemm_##suffix(gemm, a, b, c, ldc);                                                           \
    else                                                                                           \
      cblas_##letter##gemv(CblasRowMajor, blas_op(!b->trans, b->conj), b->trans ? n : k,           \
                           b->trans ? k : n, one, b->data, (int)b->ld, a->data, row_step(a), zero, \
                           c, 1);                                                                  \
  }

#define DOT_PRODUCT(suffix, letter, type)                                                          \
  static void dot_##suffix(PARAMETERS) {                                                           \
    (void)ldc;                                                                                     \
    *(type *)c = cblas_##letter##dot((int)gemm->k, a->data, row_step(a), b->data, column_step(b)); \
  }

static const float one_c64[2] = {1, 0}, zero_c64[2] = {0, 0};
static const double one_c128[2] = {1, 0}, zero_c128[2] = {0, 0};

GEMM(f32, s, 1, 0)
GEMM(f64, d, 1, 0)
GEMM(c64, c, one_c64, zero_c64)
GEMM(c128, z, one_c128, zero_c128)
GEMV(f32, s, 1, 0)
GEMV(f64, d, 1, 0)
GEMV(c64, c, one_c64, zero_c64)
GEMV(c128, z, one_c128, zero_c128)
DOT_PRODUCT(f32, s, float)
DOT_PRODUCT(f64, d, double)

static const multiply_fn calls[][METHOD_COUNT] = {
    [MMC_F32] = {[DOT] = dot_f32,
                 [MATRIX_VECTOR] = matrix_vector_f32,
                 [VECTOR_MATRIX] = vector_matrix_f32,
                 [MATRIX_MATRIX] = gemm_f32},
    [MMC_F64] = {[DOT] = dot_f64,
                 [MATRIX_VECTOR] = matrix_vector_f64,
                 [VECTOR_MATRIX] = vector_matrix_f64,
                 [MATRIX_MATRIX] = gemm_f64},
    [MMC_C64] = {[MATRIX_VECTOR] = matrix_vector_c64,
                 [VECTOR_MATRIX] = vector_matrix_c64,
                 [MATRIX_MATRIX] = gemm_c64},
    [MMC_C128] = {[MATRIX_VECTOR] = matrix_vector_c128,
                  [VECTOR_MATRIX] = vector_matrix_c128,
                  [MATRIX_MATRIX] = gemm_c128},
};

static void write_zeros(const mmci_gemm *gemm, char *c, int64_t ldc) {
  size_t size = mmc_dtype_size(gemm->dtype);
  for (int64_t i = 0; i < gemm->m; i++)
    memset(c + (size_t)i * (size_t)ldc * size, 0, (size_t)gemm->n * size);
}

/* Whether this CBLAS cannot express the operands. */
static bool needs_loops(const mmci_kernel *kernel, const mmci_operand *a, const mmci_operand *b,
                        int64_t ldc) {
  if ((a->ld | b->ld | ldc) > INT_MAX) return true;
  if (HAS_CONJ_NO_TRANS || is_real(kernel->gemm.dtype)) return false;
  /* VECTOR_MATRIX takes b transposed. */
  bool b_trans = kernel->method == VECTOR_MATRIX && !a->conj ? !b->trans : b->trans;
  return (a->conj && !a->trans) || (b->conj && !b_trans);
}

static mmc_status enqueue(mmci_queue *queue, const mmci_kernel *kernel, const mmci_operand *a,
                          const mmci_operand *b, void *c, int64_t ldc, mmci_error *error) {
  (void)queue, (void)error;
  if (kernel->multiply != NULL && !needs_loops(kernel, a, b, ldc))
    kernel->multiply(&kernel->gemm, a, b, c, (int)ldc);
  else if (kernel->method == ZEROS)
    write_zeros(&kernel->gemm, c, ldc);
  else if (kernel->method != NOTHING)
    mmci_ref_gemm(&kernel->gemm, a, b, c, ldc);
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

static void identify(const mmci_device *device, mmci_identity *out) {
  *out = (mmci_identity){0};
  mmci_host_model(out->model, sizeof out->model);
  describe(device, out->blas, sizeof out->blas);
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
    case METHOD_COUNT:
      break;
  }
  return "loops";
}

static mmc_status prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                          mmci_error *error) {
  (void)device;
  mmci_kernel *kernel = malloc(sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  method chosen = choose(gemm);
  *kernel = (mmci_kernel){.gemm = *gemm, .method = chosen, .multiply = calls[gemm->dtype][chosen]};
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
    .identify = identify,
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
