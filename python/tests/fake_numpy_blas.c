/* fake_numpy_blas.c: what test_blas.py loads as the OpenBLAS of a wheel of NumPy: plain loops by
 * the names that such a wheel has, with 64-bit integers, which count how often they are called. */
#include <complex.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum { TRANS = 112, CONJ_TRANS = 113, CONJ_NO_TRANS = 114 };
enum { GEMM, GEMV, DOT, KINDS };

EXPORT int64_t fake_numpy_blas_calls(int kind);

static int64_t calls[KINDS];
static int threads = 3;

EXPORT int64_t fake_numpy_blas_calls(int kind) {
  return calls[kind];
}

/* Where element (i, j) of op of a row-major matrix lies. */
static int64_t at(int op, int64_t ld, int64_t i, int64_t j) {
  return op == TRANS || op == CONJ_TRANS ? j * ld + i : i * ld + j;
}

static int is_conj(int op) {
  return op == CONJ_TRANS || op == CONJ_NO_TRANS;
}

#define BLAS(letter, element, scalar, value, conjugate)                                           \
  EXPORT void scipy_cblas_##letter##gemm64_(int, int, int, int64_t, int64_t, int64_t, scalar,     \
                                            const element *, int64_t, const element *, int64_t,   \
                                            scalar, element *, int64_t);                          \
  EXPORT void scipy_cblas_##letter##gemv64_(int, int, int64_t, int64_t, scalar, const element *,  \
                                            int64_t, const element *, int64_t, scalar, element *, \
                                            int64_t);                                             \
  EXPORT void scipy_cblas_##letter##gemm64_(                                                      \
      int order, int ta, int tb, int64_t m, int64_t n, int64_t k, scalar alpha, const element *a, \
      int64_t lda, const element *b, int64_t ldb, scalar beta, element *c, int64_t ldc) {         \
    (void)order;                                                                                  \
    calls[GEMM]++;                                                                                \
    for (int64_t i = 0; i < m; i++)                                                               \
      for (int64_t j = 0; j < n; j++) {                                                           \
        element sum = 0;                                                                          \
        for (int64_t l = 0; l < k; l++) {                                                         \
          element x = a[at(ta, lda, i, l)], y = b[at(tb, ldb, l, j)];                             \
          sum += (is_conj(ta) ? conjugate(x) : x) * (is_conj(tb) ? conjugate(y) : y);             \
        }                                                                                         \
        element *to = &c[i * ldc + j], was = value(beta) != 0 ? value(beta) * *to : 0;            \
        *to = value(alpha) * sum + was;                                                           \
      }                                                                                           \
  }                                                                                               \
  EXPORT void scipy_cblas_##letter##gemv64_(                                                      \
      int order, int op, int64_t rows, int64_t cols, scalar alpha, const element *a, int64_t lda, \
      const element *x, int64_t incx, scalar beta, element *y, int64_t incy) {                    \
    (void)order;                                                                                  \
    calls[GEMV]++;                                                                                \
    const int turned = op == TRANS || op == CONJ_TRANS;                                           \
    const int64_t m = turned ? cols : rows, k = turned ? rows : cols;                             \
    for (int64_t i = 0; i < m; i++) {                                                             \
      element sum = 0;                                                                            \
      for (int64_t l = 0; l < k; l++) {                                                           \
        element e = a[at(op, lda, i, l)];                                                         \
        sum += (is_conj(op) ? conjugate(e) : e) * x[l * incx];                                    \
      }                                                                                           \
      element *to = &y[i * incy], was = value(beta) != 0 ? value(beta) * *to : 0;                 \
      *to = value(alpha) * sum + was;                                                             \
    }                                                                                             \
  }

#define REAL_DOT(letter, element)                                                                 \
  EXPORT element scipy_cblas_##letter##dot64_(int64_t, const element *, int64_t, const element *, \
                                              int64_t);                                           \
  EXPORT element scipy_cblas_##letter##dot64_(int64_t n, const element *x, int64_t incx,          \
                                              const element *y, int64_t incy) {                   \
    element sum = 0;                                                                              \
    calls[DOT]++;                                                                                 \
    for (int64_t i = 0; i < n; i++) sum += x[i * incx] * y[i * incy];                             \
    return sum;                                                                                   \
  }

#define ITSELF(x) (x)
#define POINTED_AT_F(x) (*(const float complex *)(x))
#define POINTED_AT_D(x) (*(const double complex *)(x))

BLAS(s, float, float, ITSELF, ITSELF)
BLAS(d, double, double, ITSELF, ITSELF)
BLAS(c, float complex, const void *, POINTED_AT_F, conjf)
BLAS(z, double complex, const void *, POINTED_AT_D, conj)
REAL_DOT(s, float)
REAL_DOT(d, double)

EXPORT int scipy_openblas_get_num_threads64_(void);
EXPORT int scipy_openblas_get_num_threads64_(void) {
  return threads;
}

EXPORT void scipy_openblas_set_num_threads64_(int count);
EXPORT void scipy_openblas_set_num_threads64_(int count) {
  threads = count;
}

#ifndef FAKE_INCOMPLETE
EXPORT char *scipy_openblas_get_config64_(void);
EXPORT char *scipy_openblas_get_config64_(void) {
  static char text[] = "plain loops";
  return text;
}
#endif
