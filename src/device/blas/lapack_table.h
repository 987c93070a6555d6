/* lapack_table.h: the routines of LAPACK, and of BLAS beside GEMM, that products with structure and
 * solves call.
 *
 * They are looked up by their Fortran names in the library that the CBLAS comes from, or in those
 * that it needs; an OpenBLAS has all of them. Matrices are column-major. Integers go by address and
 * have 64 bits here: where those of the library have 32, it reads the lower half, so that sizes are
 * to be at most INT_MAX and the machine little-endian. */
#ifndef MMCI_LAPACK_TABLE_H
#define MMCI_LAPACK_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

typedef const char *mmci_letter;
typedef const int64_t *mmci_size;

/* X(name, parameters): the letter of the dtype goes before the name. The lengths of letters are
 * hidden arguments at the end, as gfortran passes them. */
#define MMCI_LAPACK_ROUTINES(X)                                                                    \
  X(trmm, (mmci_letter side, mmci_letter uplo, mmci_letter op, mmci_letter diagonal, mmci_size m,  \
           mmci_size n, const void *alpha, const void *a, mmci_size lda, void *b, mmci_size ldb,   \
           size_t, size_t, size_t, size_t))                                                        \
  X(trsm, (mmci_letter side, mmci_letter uplo, mmci_letter op, mmci_letter diagonal, mmci_size m,  \
           mmci_size n, const void *alpha, const void *a, mmci_size lda, void *b, mmci_size ldb,   \
           size_t, size_t, size_t, size_t))                                                        \
  X(trmv, (mmci_letter uplo, mmci_letter op, mmci_letter diagonal, mmci_size n, const void *a,     \
           mmci_size lda, void *x, mmci_size step, size_t, size_t, size_t))                        \
  X(trsv, (mmci_letter uplo, mmci_letter op, mmci_letter diagonal, mmci_size n, const void *a,     \
           mmci_size lda, void *x, mmci_size step, size_t, size_t, size_t))                        \
  X(syrk,                                                                                          \
    (mmci_letter uplo, mmci_letter op, mmci_size n, mmci_size k, const void *alpha, const void *a, \
     mmci_size lda, const void *beta, void *c, mmci_size ldc, size_t, size_t))                     \
  X(herk,                                                                                          \
    (mmci_letter uplo, mmci_letter op, mmci_size n, mmci_size k, const void *alpha, const void *a, \
     mmci_size lda, const void *beta, void *c, mmci_size ldc, size_t, size_t))                     \
  X(potrf, (mmci_letter uplo, mmci_size n, void *a, mmci_size lda, int64_t *info, size_t))         \
  X(potri, (mmci_letter uplo, mmci_size n, void *a, mmci_size lda, int64_t *info, size_t))         \
  X(getrf, (mmci_size m, mmci_size n, void *a, mmci_size lda, void *pivots, int64_t *info))        \
  X(getrs, (mmci_letter op, mmci_size n, mmci_size count, const void *a, mmci_size lda,            \
            const void *pivots, void *b, mmci_size ldb, int64_t *info, size_t))                    \
  X(getri, (mmci_size n, void *a, mmci_size lda, const void *pivots, void *work, mmci_size lwork,  \
            int64_t *info))                                                                        \
  X(sytrf, (mmci_letter uplo, mmci_size n, void *a, mmci_size lda, void *pivots, void *work,       \
            mmci_size lwork, int64_t *info, size_t))                                               \
  X(sytrs, (mmci_letter uplo, mmci_size n, mmci_size count, const void *a, mmci_size lda,          \
            const void *pivots, void *b, mmci_size ldb, int64_t *info, size_t))                    \
  X(sytrs2, (mmci_letter uplo, mmci_size n, mmci_size count, void *a, mmci_size lda,               \
             const void *pivots, void *b, mmci_size ldb, void *work, int64_t *info, size_t))       \
  X(hetrs2, (mmci_letter uplo, mmci_size n, mmci_size count, void *a, mmci_size lda,               \
             const void *pivots, void *b, mmci_size ldb, void *work, int64_t *info, size_t))       \
  X(sytri, (mmci_letter uplo, mmci_size n, void *a, mmci_size lda, const void *pivots, void *work, \
            int64_t *info, size_t))                                                                \
  X(hetrf, (mmci_letter uplo, mmci_size n, void *a, mmci_size lda, void *pivots, void *work,       \
            mmci_size lwork, int64_t *info, size_t))                                               \
  X(hetrs, (mmci_letter uplo, mmci_size n, mmci_size count, const void *a, mmci_size lda,          \
            const void *pivots, void *b, mmci_size ldb, int64_t *info, size_t))                    \
  X(hetri, (mmci_letter uplo, mmci_size n, void *a, mmci_size lda, const void *pivots, void *work, \
            int64_t *info, size_t))                                                                \
  X(gemm, (mmci_letter op_a, mmci_letter op_b, mmci_size m, mmci_size n, mmci_size k,              \
           const void *alpha, const void *a, mmci_size lda, const void *b, mmci_size ldb,          \
           const void *beta, void *c, mmci_size ldc, size_t, size_t))                              \
  X(symv, (mmci_letter uplo, mmci_size n, const void *alpha, const void *a, mmci_size lda,         \
           const void *x, mmci_size step_x, const void *beta, void *y, mmci_size step_y, size_t))  \
  X(hemv, (mmci_letter uplo, mmci_size n, const void *alpha, const void *a, mmci_size lda,         \
           const void *x, mmci_size step_x, const void *beta, void *y, mmci_size step_y, size_t))  \
  X(symm, (mmci_letter side, mmci_letter uplo, mmci_size m, mmci_size n, const void *alpha,        \
           const void *a, mmci_size lda, const void *b, mmci_size ldb, const void *beta, void *c,  \
           mmci_size ldc, size_t, size_t))                                                         \
  X(hemm, (mmci_letter side, mmci_letter uplo, mmci_size m, mmci_size n, const void *alpha,        \
           const void *a, mmci_size lda, const void *b, mmci_size ldb, const void *beta, void *c,  \
           mmci_size ldc, size_t, size_t))                                                         \
  X(tbtrs, (mmci_letter uplo, mmci_letter op, mmci_letter diagonal, mmci_size n, mmci_size width,  \
            mmci_size count, const void *a, mmci_size lda, void *b, mmci_size ldb, int64_t *info,  \
            size_t, size_t, size_t))                                                               \
  X(pbtrf, (mmci_letter uplo, mmci_size n, mmci_size width, void *a, mmci_size lda, int64_t *info, \
            size_t))                                                                               \
  X(pbtrs, (mmci_letter uplo, mmci_size n, mmci_size width, mmci_size count, const void *a,        \
            mmci_size lda, void *b, mmci_size ldb, int64_t *info, size_t))                         \
  X(gtsv, (mmci_size n, mmci_size count, void *below, void *diagonal, void *above, void *b,        \
           mmci_size ldb, int64_t *info))                                                          \
  X(gttrf, (mmci_size n, void *below, void *diagonal, void *above, void *second, void *pivots,     \
            int64_t *info))                                                                        \
  X(gbtrf, (mmci_size m, mmci_size n, mmci_size below, mmci_size above, void *a, mmci_size lda,    \
            void *pivots, int64_t *info))                                                          \
  X(gbtrs, (mmci_letter op, mmci_size n, mmci_size below, mmci_size above, mmci_size count,        \
            const void *a, mmci_size lda, const void *pivots, void *b, mmci_size ldb,              \
            int64_t *info, size_t))                                                                \
  X(trtri, (mmci_letter uplo, mmci_letter diagonal, mmci_size n, void *a, mmci_size lda,           \
            int64_t *info, size_t, size_t))

#define MMCI_LAPACK_FIELD(name, parameters) void(*name) parameters;

/* The routines of one dtype; what the library lacks is NULL, and so are herk, hemv, hemm, hetrf,
 * hetrs, hetrs2 and hetri of real ones. */
typedef struct mmci_lapack {
  MMCI_LAPACK_ROUTINES(MMCI_LAPACK_FIELD)
} mmci_lapack;

/* Returns the routines of a dtype, after mmci_cblas_find() has succeeded. It may be called by
 * several threads. */
const mmci_lapack *mmci_lapack_of(mmc_dtype dtype);
/* Says whether the library's integers have 32 bits. */
bool mmci_lapack_is_narrow(void);

#endif
