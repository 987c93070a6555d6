/* cblas_table.h: the CBLAS that the device calls: the one that the library was linked with, or one
 * that is loaded at run time.
 *
 * Both are called through one table, whose integers have 64 bits. A CBLAS of 32-bit integers stands
 * behind functions that narrow them, and its callers keep sizes within INT_MAX. The table is filled
 * once in a process, when the device is first looked for, and does not change afterwards; what was
 * loaded stays loaded. */
#ifndef MMCI_CBLAS_TABLE_H
#define MMCI_CBLAS_TABLE_H

#include <stdint.h>

#include "device/device.h"

/* Layouts and operations as every CBLAS numbers them; the last one is OpenBLAS's own. */
enum {
  MMCI_CBLAS_ROW_MAJOR = 101,
  MMCI_CBLAS_N = 111,
  MMCI_CBLAS_T = 112,
  MMCI_CBLAS_H = 113,
  MMCI_CBLAS_CONJ_N = 114
};

/* What is called: X(prefix, name, type, give, parameters, arguments), where parameters have
 * integers of type I and arguments turn them into those of type J; give is `return` where there is
 * something to return. The scalars of complex products are pointers. */
#define MMCI_CBLAS_GEMM(X, I, J, letter, scalar, element)                         \
  X(cblas_, letter##gemm, void, ,                                                 \
    (int o, int ta, int tb, I m, I n, I k, scalar alpha, const element *a, I lda, \
     const element *b, I ldb, scalar beta, element *c, I ldc),                    \
    (o, ta, tb, (J)m, (J)n, (J)k, alpha, a, (J)lda, b, (J)ldb, beta, c, (J)ldc))
#define MMCI_CBLAS_GEMV(X, I, J, letter, scalar, element)                                      \
  X(cblas_, letter##gemv, void, ,                                                              \
    (int o, int ta, I m, I n, scalar alpha, const element *a, I lda, const element *x, I incx, \
     scalar beta, element *y, I incy),                                                         \
    (o, ta, (J)m, (J)n, alpha, a, (J)lda, x, (J)incx, beta, y, (J)incy))
#define MMCI_CBLAS_DOT(X, I, J, letter, element) \
  X(cblas_, letter##dot, element, return,        \
    (I n, const element *x, I incx, const element *y, I incy), ((J)n, x, (J)incx, y, (J)incy))
#define MMCI_CBLAS_FUNCTIONS(X, I, J)             \
  MMCI_CBLAS_GEMM(X, I, J, s, float, float)       \
  MMCI_CBLAS_GEMM(X, I, J, d, double, double)     \
  MMCI_CBLAS_GEMM(X, I, J, c, const void *, void) \
  MMCI_CBLAS_GEMM(X, I, J, z, const void *, void) \
  MMCI_CBLAS_GEMV(X, I, J, s, float, float)       \
  MMCI_CBLAS_GEMV(X, I, J, d, double, double)     \
  MMCI_CBLAS_GEMV(X, I, J, c, const void *, void) \
  MMCI_CBLAS_GEMV(X, I, J, z, const void *, void) \
  MMCI_CBLAS_DOT(X, I, J, s, float)               \
  MMCI_CBLAS_DOT(X, I, J, d, double)
#define MMCI_OPENBLAS_FUNCTIONS(X)                                \
  X(openblas_, get_num_threads, int, return, (void), ())          \
  X(openblas_, set_num_threads, void, , (int threads), (threads)) \
  X(openblas_, get_config, char *, return, (void), ())

#define MMCI_CBLAS_FIELD(prefix, name, type, give, parameters, arguments) type(*name) parameters;

typedef struct mmci_cblas {
  MMCI_CBLAS_FUNCTIONS(MMCI_CBLAS_FIELD, int64_t, int64_t)
  MMCI_OPENBLAS_FUNCTIONS(MMCI_CBLAS_FIELD) /* each is NULL for a CBLAS that is no OpenBLAS */
  bool is_openblas;
  bool has_old_kernels; /* an OpenBLAS that does not know instructions of this processor */
} mmci_cblas;

/* Holds the functions after mmci_cblas_find() has succeeded. */
extern mmci_cblas mmci_blas;

/* Where the functions come from: a library that dlsym() takes, what the names in it have before and
 * after those of BLAS, and whether its integers have 64 bits. */
typedef struct mmci_cblas_origin {
  void *library;
  const char *prefix, *suffix;
  bool is_wide;
} mmci_cblas_origin;

/* Tells it, after mmci_cblas_find() has succeeded. Returns false where it is not known: the CBLAS
 * is a part of this library. */
bool mmci_cblas_origin_of(mmci_cblas_origin *out);

/* Finds a CBLAS: the one that mmci_cblas_choose() has loaded, else the one that MMCHAIN_BLAS names,
 * else the one that was linked, else an OpenBLAS that dlopen() finds. Calls after the first return
 * the same. MMCHAIN_BLAS may also say "own", the last two, or "none". Returns: E_UNSUPPORTED, where
 * there is none; E_ARG, where MMCHAIN_BLAS names what is not to be trusted. */
mmc_status mmci_cblas_find(mmci_error *error);

#endif
