/* fake_blas.c: a CBLAS, as far as mmchain calls one, and cublas?gemm by plain loops, which count
 * their calls, for programs that libmmchain-blas.so is preloaded into or that are linked with
 * mmchain too. Ops that only OpenBLAS knows end the process, as they do in the reference CBLAS. */
#include <complex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#pragma GCC visibility push(default)

atomic_long fake_calls;

/* C = alpha op(A) op(B) + beta C, element (i, j) of C at c[i * rc + j * cc]. */
#define LOOPS(name, type, conjugate)                                                          \
  static void name(int64_t m, int64_t n, int64_t k, type alpha, const type *a, int64_t ra,    \
                   int64_t ca, int conj_a, const type *b, int64_t rb, int64_t cb, int conj_b, \
                   type beta, type *c, int64_t rc, int64_t cc) {                              \
    atomic_fetch_add(&fake_calls, 1);                                                         \
    for (int64_t i = 0; i < m; i++)                                                           \
      for (int64_t j = 0; j < n; j++) {                                                       \
        type sum = 0;                                                                         \
        for (int64_t l = 0; l < k; l++) {                                                     \
          type x = a[i * ra + l * ca], y = b[l * rb + j * cb];                                \
          sum += (conj_a ? conjugate(x) : x) * (conj_b ? conjugate(y) : y);                   \
        }                                                                                     \
        type *out = &c[i * rc + j * cc];                                                      \
        *out = alpha * sum + (beta == 0 ? 0 : beta * *out);                                   \
      }                                                                                       \
  }
#define SAME(x) (x)
LOOPS(loops_s, float, SAME)
LOOPS(loops_d, double, SAME)
LOOPS(loops_c, float complex, conjf)
LOOPS(loops_z, double complex, conj)

/* Strides of op(X) of a matrix that is stored with rows of ld elements, or with columns. */
#define ROWS(rows_lie, trans, ld) ((rows_lie) != (trans) ? (ld) : 1)
#define COLS(rows_lie, trans, ld) ((rows_lie) != (trans) ? 1 : (ld))

#define CBLAS(name, loops, type, scalar, value)                                                   \
  void name(int order, int ta, int tb, int m, int n, int k, scalar alpha, const void *a, int lda, \
            const void *b, int ldb, scalar beta, void *c, int ldc);                               \
  void name(int order, int ta, int tb, int m, int n, int k, scalar alpha, const void *a, int lda, \
            const void *b, int ldb, scalar beta, void *c, int ldc) {                              \
    int r = order == 101, xa = ta != 111, xb = tb != 111;                                         \
    if (ta > 113 || tb > 113) exit(1);                                                            \
    loops(m, n, k, value(alpha, type), a, ROWS(r, xa, lda), COLS(r, xa, lda), ta == 113, b,       \
          ROWS(r, xb, ldb), COLS(r, xb, ldb), tb == 113, value(beta, type), c, ROWS(r, 0, ldc),   \
          COLS(r, 0, ldc));                                                                       \
  }
#define BY_VALUE(x, type) (x)
#define BY_ADDRESS(x, type) (*(const type *)(x))
CBLAS(cblas_sgemm, loops_s, float, float, BY_VALUE)
CBLAS(cblas_dgemm, loops_d, double, double, BY_VALUE)
CBLAS(cblas_cgemm, loops_c, float complex, const void *, BY_ADDRESS)
CBLAS(cblas_zgemm, loops_z, double complex, const void *, BY_ADDRESS)

#define GEMV(name, loops, type, scalar, value)                                                    \
  void name(int order, int ta, int m, int n, scalar alpha, const void *a, int lda, const void *x, \
            int incx, scalar beta, void *y, int incy);                                            \
  void name(int order, int ta, int m, int n, scalar alpha, const void *a, int lda, const void *x, \
            int incx, scalar beta, void *y, int incy) {                                           \
    int r = order == 101, xa = ta != 111;                                                         \
    if (ta > 113) exit(1);                                                                        \
    loops(xa ? n : m, 1, xa ? m : n, value(alpha, type), a, ROWS(r, xa, lda), COLS(r, xa, lda),   \
          ta == 113, x, incx, 0, 0, value(beta, type), y, incy, 0);                               \
  }
GEMV(cblas_sgemv, loops_s, float, float, BY_VALUE)
GEMV(cblas_dgemv, loops_d, double, double, BY_VALUE)
GEMV(cblas_cgemv, loops_c, float complex, const void *, BY_ADDRESS)
GEMV(cblas_zgemv, loops_z, double complex, const void *, BY_ADDRESS)

#define DOT(name, loops, type)                                         \
  type name(int n, const type *x, int incx, const type *y, int incy);  \
  type name(int n, const type *x, int incx, const type *y, int incy) { \
    type sum;                                                          \
    loops(1, 1, n, 1, x, 0, incx, 0, y, incy, 0, 0, 0, &sum, 0, 0);    \
    return sum;                                                        \
  }
DOT(cblas_sdot, loops_s, float)
DOT(cblas_ddot, loops_d, double)

#define CUBLAS(name, loops, type)                                                               \
  int name(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, \
           int lda, const void *b, int ldb, const void *beta, void *c, int ldc);                \
  int name(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, \
           int lda, const void *b, int ldb, const void *beta, void *c, int ldc) {               \
    (void)handle;                                                                               \
    loops(m, n, k, BY_ADDRESS(alpha, type), a, ROWS(0, ta != 0, lda), COLS(0, ta != 0, lda),    \
          ta == 2, b, ROWS(0, tb != 0, ldb), COLS(0, tb != 0, ldb), tb == 2,                    \
          BY_ADDRESS(beta, type), c, 1, ldc);                                                   \
    return 0;                                                                                   \
  }
CUBLAS(cublasSgemm_v2, loops_s, float)
CUBLAS(cublasDgemm_v2, loops_d, double)
CUBLAS(cublasCgemm_v2, loops_c, float complex)
CUBLAS(cublasZgemm_v2, loops_z, double complex)

/* A stream of 1 is being captured. The handle is its own stream, and its pointer mode the handle's
 * bit 1. */
int cudaGetDevice(int *device);
int cudaGetDevice(int *device) {
  *device = 0;
  return 0;
}
int cublasGetStream_v2(void *handle, void **stream);
int cublasGetStream_v2(void *handle, void **stream) {
  *stream = handle;
  return 0;
}
int cudaStreamIsCapturing(void *stream, int *status);
int cudaStreamIsCapturing(void *stream, int *status) {
  *status = (int)((uintptr_t)stream & 1);
  return 0;
}
int cublasGetPointerMode_v2(void *handle, int *mode);
int cublasGetPointerMode_v2(void *handle, int *mode) {
  *mode = (int)((uintptr_t)handle >> 1 & 1);
  return 0;
}
