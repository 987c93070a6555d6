/* cublas_wrapper.c: cublas?gemm() in pieces, where wisdom has it that they are faster so.
 *
 * Pieces go to the same handle, thus to the same stream, one after the other. Nothing new is looked
 * up while the handle's stream is captured, because opening a device there would spoil the capture.
 * Declared without the headers of CUDA, so that the wrapper needs none: handles and streams are
 * addresses, enumerations are integers. */
#include <stdatomic.h>
#include <string.h>

#include "choice.h"

enum { OP_N = 0, OP_T = 1, OP_C = 2, POINTER_MODE_HOST = 0 };

/* A function of the program's CUDA, looked for when it is first needed. */
typedef struct behind {
  const char *name;
  _Atomic(void *) found;
  atomic_bool looked;
} behind;

static behind get_device = {.name = "cudaGetDevice"}, get_stream = {.name = "cublasGetStream_v2"},
              capturing = {.name = "cudaStreamIsCapturing"},
              pointer_mode = {.name = "cublasGetPointerMode_v2"};

/* Points *function at the one that `caller` would call; false when there is none. */
static bool find(behind *x, const void *caller, void *function) {
  if (!x->looked) {
    x->found = mmcw_next(x->name, NULL, caller);
    x->looked = true;
  }
  void *found = x->found;
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

static int current_device(const void *caller) {
  int (*function)(int *), device = 0;
  return find(&get_device, caller, &function) && function(&device) == 0 ? device : 0;
}

static bool is_capturing(void *handle, const void *caller) {
  int (*stream_of)(void *, void **), (*is)(void *, int *), status = 0;
  void *stream = NULL;
  if (!find(&get_stream, caller, &stream_of)) return false;
  if (stream_of(handle, &stream) != 0) return true;
  return find(&capturing, caller, &is) && (is(stream, &status) != 0 || status != 0);
}

static bool has_host_scalars(void *handle, const void *caller) {
  int (*mode_of)(void *, int *), mode = POINTER_MODE_HOST;
  if (!find(&pointer_mode, caller, &mode_of)) return true;
  return mode_of(handle, &mode) == 0 && mode == POINTER_MODE_HOST;
}

static bool op_of(int trans, bool complex_too, mmc_op *op) {
  if (trans != OP_N && trans != OP_T && trans != OP_C) return false;
  *op = trans == OP_N ? MMC_OP_N : trans == OP_C && complex_too ? MMC_OP_H : MMC_OP_T;
  return true;
}

static const float one_f32[2] = {1, 0};
static const double one_f64[2] = {1, 0};

/* Column-major A (m x k) B (k x n) is the row-major product of B' (n x k) and A' (k x m): its rows
 * are the columns here. */
static const mmcw_choice *choose(void *handle, mmc_dtype dtype, int trans_a, int trans_b, int64_t m,
                                 int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                                 bool complex_too, const void *caller) {
  if (mmcw_is_off() || mmcw_is_own(caller)) return NULL;
  /* A call that cuBLAS refuses is passed on whole, since it might take the pieces. */
  if (lda < (trans_a == OP_N ? m : k) || ldb < (trans_b == OP_N ? k : n) || ldc < m) return NULL;
  mmcw_call call = {.dtype = dtype, .m = n, .k = k, .n = m, .device = current_device(caller)};
  if (!op_of(trans_b, complex_too, &call.op_a) || !op_of(trans_a, complex_too, &call.op_b))
    return NULL;
  const mmcw_choice *choice = mmcw_choose(&call, !is_capturing(handle, caller));
  if (choice == NULL || choice->count == 0) return NULL;
  for (int i = 0; i < choice->count; i++)
    if (choice->pieces[i].depth > 0 && !has_host_scalars(handle, caller)) return NULL;
  return choice;
}

/* Where element (row, col) of op(X) lies, X column-major. */
static const char *corner(const void *x, int64_t row, int64_t col, int64_t ld, int trans,
                          size_t element) {
  return (const char *)x + (size_t)(trans == OP_N ? col * ld + row : row * ld + col) * element;
}

#define GEMM(name, integer, dtype, one, complex_too, bytes)                                       \
  typedef int (*fn_##name)(void *, int, int, integer, integer, integer, const void *,             \
                           const void *, integer, const void *, integer, const void *, void *,    \
                           integer);                                                              \
  int name(void *handle, int trans_a, int trans_b, integer m, integer n, integer k,               \
           const void *alpha, const void *a, integer lda, const void *b, integer ldb,             \
           const void *beta, void *c, integer ldc);                                               \
  __attribute__((visibility("default"))) int name(                                                \
      void *handle, int trans_a, int trans_b, integer m, integer n, integer k, const void *alpha, \
      const void *a, integer lda, const void *b, integer ldb, const void *beta, void *c,          \
      integer ldc) {                                                                              \
    /* For the program, and for mmchain, whose cuBLAS may be another. */                          \
    static _Atomic(fn_##name) next[2];                                                            \
    const void *caller = __builtin_return_address(0);                                             \
    const bool is_own = mmcw_is_own(caller);                                                      \
    fn_##name call = next[is_own];                                                                \
    if (call == NULL) {                                                                           \
      void (*own)(void) = (void (*)(void))name;                                                   \
      void *address, *found;                                                                      \
      memcpy(&address, &own, sizeof address);                                                     \
      found = mmcw_next(#name, address, caller);                                                  \
      if (found == NULL) return 1; /* CUBLAS_STATUS_NOT_INITIALIZED */                            \
      memcpy(&call, &found, sizeof call);                                                         \
      next[is_own] = call;                                                                        \
    }                                                                                             \
    const mmcw_choice *choice =                                                                   \
        choose(handle, dtype, trans_a, trans_b, m, n, k, lda, ldb, ldc, complex_too, caller);     \
    if (choice == NULL)                                                                           \
      return call(handle, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);        \
    int status = 0;                                                                               \
    for (int i = 0; i < choice->count && status == 0; i++) {                                      \
      const mmcw_piece *q = &choice->pieces[i]; /* its rows are columns here */                   \
      status = call(handle, trans_a, trans_b, (integer)q->n, (integer)q->m, (integer)q->k, alpha, \
                    corner(a, q->col, q->depth, lda, trans_a, bytes), lda,                        \
                    corner(b, q->depth, q->row, ldb, trans_b, bytes), ldb,                        \
                    q->depth > 0 ? (const void *)(one) : beta,                                    \
                    (char *)c + (size_t)(q->row * ldc + q->col) * (bytes), ldc);                  \
    }                                                                                             \
    return status;                                                                                \
  }

#define ALL(suffix, integer)                                        \
  GEMM(cublasSgemm_v2##suffix, integer, MMC_F32, one_f32, false, 4) \
  GEMM(cublasDgemm_v2##suffix, integer, MMC_F64, one_f64, false, 8) \
  GEMM(cublasCgemm_v2##suffix, integer, MMC_C64, one_f32, true, 8)  \
  GEMM(cublasZgemm_v2##suffix, integer, MMC_C128, one_f64, true, 16)

ALL(, int)
ALL(_64, int64_t)
