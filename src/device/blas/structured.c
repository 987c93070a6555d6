#include "device/blas/structured.h"

#include <limits.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "chain/triangle_strip.h"
#include "device/blas/blas.h"
#include "device/blas/lapack_table.h"
#include "device/blas/structured_band.h"

/* ---- what there is --------------------------------------------------------------------------- */

/* Finds the first routine that is missing; NULL when all are there. */
static const char *missing(const mmci_structured *ask) {
  const mmci_lapack *x = mmci_lapack_of(ask->dtype);
  const bool hermitian = mmci_dtype_is_complex(ask->dtype);
  const bool solves = ask->kernel >= MMCI_STRUCTURE_TRSM && ask->kernel <= MMCI_STRUCTURE_GESV,
             multiplies =
                 ask->kernel == MMCI_STRUCTURE_TRMM || ask->kernel == MMCI_STRUCTURE_TRTRMM;
  const struct {
    bool wanted, there;
    const char *name;
  } routines[] = {
      {multiplies, x->trmm != NULL, "trmm"},
      {ask->kernel == MMCI_STRUCTURE_TRTRMM, x->gemm != NULL, "gemm"},
      {solves, x->trsm != NULL, "trsm"},
      {ask->kernel == MMCI_STRUCTURE_SYMV && !hermitian, x->symv != NULL, "symv"},
      {ask->kernel == MMCI_STRUCTURE_SYMV && hermitian, x->hemv != NULL, "hemv"},
      {ask->kernel == MMCI_STRUCTURE_SYMM && !hermitian, x->symm != NULL, "symm"},
      {ask->kernel == MMCI_STRUCTURE_SYMM && hermitian, x->hemm != NULL, "hemm"},
      {ask->kernel == MMCI_STRUCTURE_BLOCKS, x->gemm != NULL, "gemm"},
      {ask->kernel == MMCI_STRUCTURE_TBSV, x->tbtrs != NULL, "tbtrs"},
      {ask->kernel == MMCI_STRUCTURE_PBSV, x->pbtrf != NULL, "pbtrf"},
      {ask->kernel == MMCI_STRUCTURE_PBSV, x->pbtrs != NULL, "pbtrs"},
      {ask->kernel == MMCI_STRUCTURE_GTSV, x->gtsv != NULL, "gtsv"},
      {ask->kernel == MMCI_STRUCTURE_GTSV, x->gttrf != NULL, "gttrf"},
      {ask->kernel == MMCI_STRUCTURE_GBSV, x->gbtrf != NULL, "gbtrf"},
      {ask->kernel == MMCI_STRUCTURE_GBSV, x->gbtrs != NULL, "gbtrs"},
      {ask->kernel == MMCI_STRUCTURE_SYRK, x->syrk != NULL, "syrk"},
      {ask->kernel == MMCI_STRUCTURE_SYRK && hermitian, x->herk != NULL, "herk"},
      {ask->kernel == MMCI_STRUCTURE_POSV || ask->inverts, x->potrf != NULL, "potrf"},
      {ask->kernel == MMCI_STRUCTURE_GESV || ask->inverts, x->getrf != NULL, "getrf"},
      {ask->kernel == MMCI_STRUCTURE_GESV, x->getrs != NULL, "getrs"},
      {ask->kernel == MMCI_STRUCTURE_SYSV || ask->inverts, x->sytrf != NULL, "sytrf"},
      {ask->kernel == MMCI_STRUCTURE_SYSV, x->sytrs != NULL, "sytrs"},
      {ask->kernel == MMCI_STRUCTURE_SYSV && hermitian, x->hetrs != NULL, "hetrs"},
      {(ask->kernel == MMCI_STRUCTURE_SYSV || ask->inverts) && hermitian, x->hetrf != NULL,
       "hetrf"},
      {ask->inverts, x->potri != NULL, "potri"},
      {ask->inverts, x->getri != NULL, "getri"},
      {ask->inverts, x->sytri != NULL, "sytri"},
      {ask->inverts && hermitian, x->hetri != NULL, "hetri"},
      {ask->inverts, x->trtri != NULL, "trtri"},
  };
  for (size_t r = 0; r < sizeof routines / sizeof routines[0]; r++)
    if (routines[r].wanted && !routines[r].there) return routines[r].name;
  return NULL;
}

mmc_status mmci_blas_structured_check(mmci_device *device, const mmci_structured *ask,
                                      mmci_error *error) {
  (void)device;
  const char *name = missing(ask);
  if (name == NULL) return MMC_OK;
  return mmci_fail(error, MMC_E_UNSUPPORTED,
                   "device 'blas': the BLAS that is used has no LAPACK: %s of %s is missing; an "
                   "OpenBLAS has all of it, see MMCHAIN_BLAS",
                   name, mmc_dtype_name(ask->dtype));
}

/* ---- halves ---------------------------------------------------------------------------------- */

/* Copies the lower half of a column-major matrix to the upper one. */
#define MIRROR(name, type, conjugate)                                            \
  static void name(type *z, int64_t n, int64_t ld, bool hermitian) {             \
    enum { SQUARE = 32 };                                                        \
    for (int64_t c0 = 0; c0 < n; c0 += SQUARE)                                   \
      for (int64_t r0 = c0; r0 < n; r0 += SQUARE)                                \
        for (int64_t c = c0; c < n && c < c0 + SQUARE; c++)                      \
          for (int64_t r = r0 > c ? r0 : c + 1; r < n && r < r0 + SQUARE; r++) { \
            type value = z[c * ld + r];                                          \
            conjugate;                                                           \
            z[r * ld + c] = value;                                               \
          }                                                                      \
    (void)hermitian;                                                             \
  }
typedef struct single_complex {
  float re, im;
} single_complex;
typedef struct double_complex {
  double re, im;
} double_complex;
MIRROR(mirror_f32, float, )
MIRROR(mirror_f64, double, )
MIRROR(mirror_c64, single_complex, if (hermitian) value.im = -value.im)
MIRROR(mirror_c128, double_complex, if (hermitian) value.im = -value.im)

static void mirror(mmc_dtype dtype, void *z, int64_t n, int64_t ld, bool hermitian) {
  if (dtype == MMC_F32) mirror_f32(z, n, ld, hermitian);
  if (dtype == MMC_F64) mirror_f64(z, n, ld, hermitian);
  if (dtype == MMC_C64) mirror_c64(z, n, ld, hermitian);
  if (dtype == MMC_C128) mirror_c128(z, n, ld, hermitian);
}

/* ---- multiplying ----------------------------------------------------------------------------- */

/* Returns the op by which a vector on the left of op(S) stands on its right; NULL for conj(S),
 * which there is not. */
static mmci_letter turned_op(mmci_letter op, bool is_complex) {
  if (*op == 'N') return "T";
  return *op == 'T' || !is_complex ? "N" : NULL;
}

/* Computes Z := op(S) Z or Z op(S), of a triangular S or its inverse. Vectors have routines of
 * their own, which take a quarter of the time of those for matrices. */
static void apply_triangle(const mmci_structured *p, void *z, const void *s, mmci_letter half,
                           mmci_letter op, mmci_letter diagonal, bool solves) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  const mmci_letter vector_op = p->right ? turned_op(op, mmci_dtype_is_complex(p->dtype)) : op;
  const int64_t one = 1;
  if ((p->right ? p->rows : p->cols) == 1 && vector_op != NULL &&
      (solves ? x->trsv : x->trmv) != NULL)
    (solves ? x->trsv : x->trmv)(half, vector_op, diagonal, p->right ? &p->cols : &p->rows, s,
                                 &p->lds, z, p->right ? &p->ldz : &one, 1, 1, 1);
  else
    (solves ? x->trsm : x->trmm)(p->right ? "R" : "L", half, op, diagonal, &p->rows, &p->cols,
                                 mmci_lapack_one_of(p->dtype), s, &p->lds, z, &p->ldz, 1, 1, 1, 1);
}

static void multiply_triangular(const mmci_structured *p, void *z, const void *s, bool solves) {
  apply_triangle(p, z, s, mmci_lapack_half_of(p->traits), mmci_lapack_letter_of(p->op),
                 mmci_lapack_diagonal_of(p->traits), solves);
}

/* Strips of so many parts of a triangle, and no narrower ones than that, are the fastest, or nearly
 * so, in f32 and f64, of sides from 48 to 1500 (docs/structure.md). */
enum { STRIPS = 8, NARROWEST = 48 };

/* Computes Z := op(S) Z or Z op(S), of which Z is triangular too. */
static void multiply_triangles(const mmci_structured *p, void *z, const void *s) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  const int64_t size = (int64_t)mmc_dtype_size(p->dtype), part = (p->rows + STRIPS - 1) / STRIPS,
                most = part > NARROWEST ? part : NARROWEST;
  const mmci_letter op = mmci_lapack_letter_of(p->op);
  for (int64_t first = 0; first < p->rows; first += most) {
    const mmci_triangle_strip strip = mmci_structured_strip(p, first, most);
    void *z_in = mmci_address(z, strip.z_in * size), *z_out = mmci_address(z, strip.z_out * size);
    const void *s_out = mmci_address(s, strip.s_out * size);
    if (strip.carries && strip.m > 0 && strip.n > 0)
      x->gemm(p->right ? "N" : op, p->right ? op : "N", &strip.m, &strip.n, &strip.k,
              mmci_lapack_one_of(p->dtype), p->right ? z_in : s_out, p->right ? &p->ldz : &p->lds,
              p->right ? s_out : z_in, p->right ? &p->lds : &p->ldz, mmci_lapack_zero_of(p->dtype),
              z_out, &p->ldz, 1, 1);
    multiply_triangular(&strip.trmm, z_in, mmci_address(s, strip.s_in * size), false);
  }
}

static void multiply_mirrored(const mmci_structured *p, void *z, const void *s) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  const bool hermitian = p->hermitian && mmci_dtype_is_complex(p->dtype);
  mmci_letter op = p->op == MMC_OP_N ? "N" : hermitian ? "C" : "T";
  (hermitian ? x->herk : x->syrk)("L", op, &p->rows, &p->depth, mmci_lapack_one_of(p->dtype), s,
                                  &p->lds, mmci_lapack_zero_of(p->dtype), z, &p->ldz, 1, 1);
  mirror(p->dtype, z, p->rows, p->ldz, hermitian);
}

/* ---- solving --------------------------------------------------------------------------------- */

/* Returns the first row, from 1, whose element on the diagonal is zero; 0 when there is none. */
static int64_t zero_on_diagonal(const mmci_structured *p, const void *s, int64_t side) {
  static const char zeros[16] = {0};
  const size_t size = mmc_dtype_size(p->dtype),
               part = mmci_dtype_is_complex(p->dtype) ? size / 2 : size;
  if ((p->traits & MMC_UNIT) != 0) return 0;
  for (int64_t i = 0; i < side; i++) {
    char element[16];
    memcpy(element, (const char *)s + (size_t)(i * p->lds + i) * size, size);
    element[part - 1] &= 0x7f; /* a negative zero is one too */
    element[size - 1] &= 0x7f;
    if (memcmp(element, zeros, size) == 0) return i + 1;
  }
  return 0;
}

/* Work arrays of a factorisation. */
typedef struct work {
  void *pivots, *memory;
  int64_t length;
} work;

static mmc_status take_work(const mmci_structured *p, int64_t side, bool needs_memory, work *out,
                            mmci_error *error) {
  const size_t n = (size_t)(side > 0 ? side : 1), size = mmc_dtype_size(p->dtype);
  *out = (work){.length = (int64_t)n * 64};
  size_t bytes = n * sizeof(int64_t) + (needs_memory ? n * 64 * size : 0);
  out->pivots = mmci_alloc_zeroed(bytes, 1);
  if (out->pivots == NULL) return mmci_fail_nomem(error, bytes);
  out->memory = (char *)out->pivots + n * sizeof(int64_t);
  return MMC_OK;
}

static void solve_definite(const mmci_structured *p, void *z, void *s, int64_t *pivot) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  const int64_t side = p->right ? p->cols : p->rows;
  int64_t info = 0;
  x->potrf("L", &side, s, &p->lds, &info, 1);
  *pivot = mmci_lapack_row_of(info);
  if (*pivot != 0) return;
  apply_triangle(p, z, s, "L", p->right ? "C" : "N", "N", true);
  apply_triangle(p, z, s, "L", p->right ? "N" : "C", "N", true);
}

static int64_t pivot_at(const work *w, int64_t i) {
  if (mmci_lapack_is_narrow()) return ((const int32_t *)w->pivots)[i];
  return ((const int64_t *)w->pivots)[i];
}

/* Exchanges columns as the pivots say, from the last to the first: Z := Z P^T. */
static void exchange_columns(const mmci_structured *p, void *z, const work *w) {
  const size_t size = mmc_dtype_size(p->dtype), length = (size_t)p->rows * size;
  char piece[1024];
  for (int64_t i = p->cols; i-- > 0;) {
    int64_t other = pivot_at(w, i) - 1;
    char *a = (char *)z + (size_t)(i * p->ldz) * size,
         *b = (char *)z + (size_t)(other * p->ldz) * size;
    for (size_t at = 0; at < length && other != i; at += sizeof piece) {
      size_t bytes = length - at < sizeof piece ? length - at : sizeof piece;
      memcpy(piece, a + at, bytes);
      memcpy(a + at, b + at, bytes);
      memcpy(b + at, piece, bytes);
    }
  }
}

static mmc_status solve_general(const mmci_structured *p, void *z, void *s, int64_t *pivot,
                                mmci_error *error) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  const int64_t side = p->right ? p->cols : p->rows;
  int64_t info = 0;
  work w;
  mmc_status status = take_work(p, side, false, &w, error);
  if (status != MMC_OK) return status;
  x->getrf(&side, &side, s, &p->lds, w.pivots, &info);
  *pivot = mmci_lapack_row_of(info);
  if (*pivot == 0 && p->right) {
    apply_triangle(p, z, s, "U", "N", "N", true);
    apply_triangle(p, z, s, "L", "N", "U", true);
    exchange_columns(p, z, &w);
  } else if (*pivot == 0) {
    x->getrs("N", &p->rows, &p->cols, s, &p->lds, w.pivots, z, &p->ldz, &info, 1);
  }
  free(w.pivots);
  return MMC_OK;
}

/* S stands on the left. sytrs goes over all of B for every pivot; sytrs2 turns the factors into
 * triangles first, and solves with these as trsm does, which gains from the third column on. */
static mmc_status solve_symmetric(const mmci_structured *p, void *z, void *s, int64_t *pivot,
                                  mmci_error *error) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  const bool hermitian = p->hermitian && mmci_dtype_is_complex(p->dtype);
  int64_t info = 0;
  work w;
  mmc_status status = take_work(p, p->rows, true, &w, error);
  if (status != MMC_OK) return status;
  (hermitian ? x->hetrf : x->sytrf)("L", &p->rows, s, &p->lds, w.pivots, w.memory, &w.length, &info,
                                    1);
  *pivot = mmci_lapack_row_of(info);
  if (*pivot == 0 && p->cols > 2 && (hermitian ? x->hetrs2 : x->sytrs2) != NULL)
    (hermitian ? x->hetrs2 : x->sytrs2)("L", &p->rows, &p->cols, s, &p->lds, w.pivots, z, &p->ldz,
                                        w.memory, &info, 1);
  else if (*pivot == 0)
    (hermitian ? x->hetrs : x->sytrs)("L", &p->rows, &p->cols, s, &p->lds, w.pivots, z, &p->ldz,
                                      &info, 1);
  free(w.pivots);
  return MMC_OK;
}

/* ---- inverses -------------------------------------------------------------------------------- */

static int64_t invert_mirrored(const mmci_structured *p, void *z, work *w) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  const bool definite = (p->traits & MMC_POSITIVE_DEFINITE) != 0;
  const bool hermitian = mmci_dtype_is_complex(p->dtype) && (p->traits & MMC_HERMITIAN) != 0;
  int64_t info = 0;
  if (definite) {
    x->potrf("L", &p->rows, z, &p->ldz, &info, 1);
    if (mmci_lapack_row_of(info) == 0) x->potri("L", &p->rows, z, &p->ldz, &info, 1);
  } else {
    (hermitian ? x->hetrf : x->sytrf)("L", &p->rows, z, &p->ldz, w->pivots, w->memory, &w->length,
                                      &info, 1);
    if (mmci_lapack_row_of(info) == 0)
      (hermitian ? x->hetri : x->sytri)("L", &p->rows, z, &p->ldz, w->pivots, w->memory, &info, 1);
  }
  if (mmci_lapack_row_of(info) == 0) mirror(p->dtype, z, p->rows, p->ldz, hermitian);
  return mmci_lapack_row_of(info);
}

static int64_t invert_general(const mmci_structured *p, void *z, work *w) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  int64_t info = 0;
  x->getrf(&p->rows, &p->rows, z, &p->ldz, w->pivots, &info);
  if (mmci_lapack_row_of(info) == 0)
    x->getri(&p->rows, z, &p->ldz, w->pivots, w->memory, &w->length, &info);
  return mmci_lapack_row_of(info);
}

static mmc_status invert(const mmci_structured *p, void *z, int64_t *pivot, mmci_error *error) {
  const mmci_lapack *x = mmci_lapack_of(p->dtype);
  if ((p->traits & (MMC_LOWER | MMC_UPPER)) != 0) {
    int64_t info = 0;
    x->trtri(mmci_lapack_half_of(p->traits), mmci_lapack_diagonal_of(p->traits), &p->rows, z,
             &p->ldz, &info, 1, 1);
    *pivot = mmci_lapack_row_of(info);
    return MMC_OK;
  }
  work w;
  mmc_status status = take_work(p, p->rows, true, &w, error);
  if (status != MMC_OK) return status;
  *pivot = mmci_traits_mirrored(p->traits) ? invert_mirrored(p, z, &w) : invert_general(p, z, &w);
  free(w.pivots);
  return MMC_OK;
}

/* ---- one product ----------------------------------------------------------------------------- */

mmc_status mmci_blas_structured(mmci_device *device, const mmci_structured *product, void *z,
                                void *s, int64_t *pivot, mmci_error *error) {
  const mmci_structured *p = product;
  (void)device;
  *pivot = 0;
  if (mmci_lapack_is_narrow() && (p->rows > INT_MAX || p->cols > INT_MAX || p->depth > INT_MAX ||
                                  p->ldz > INT_MAX || p->lds > INT_MAX))
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "device 'blas': the BLAS that is used takes sizes of at most %d", INT_MAX);
  if (p->rows == 0 || p->cols == 0) return MMC_OK;
  if (p->inverts) return invert(p, z, pivot, error);
  switch (p->kernel) {
    case MMCI_STRUCTURE_TRMM:
      multiply_triangular(p, z, s, false);
      return MMC_OK;
    case MMCI_STRUCTURE_TRTRMM:
      multiply_triangles(p, z, s);
      return MMC_OK;
    case MMCI_STRUCTURE_TRSM:
      *pivot = zero_on_diagonal(p, s, p->right ? p->cols : p->rows);
      if (*pivot == 0) multiply_triangular(p, z, s, true);
      return MMC_OK;
    case MMCI_STRUCTURE_SYRK:
      multiply_mirrored(p, z, s);
      return MMC_OK;
    case MMCI_STRUCTURE_POSV:
      solve_definite(p, z, s, pivot);
      return MMC_OK;
    case MMCI_STRUCTURE_SYSV:
      return solve_symmetric(p, z, s, pivot, error);
    case MMCI_STRUCTURE_GESV:
      return solve_general(p, z, s, pivot, error);
    default:
      return mmci_blas_banded(p, z, s, pivot, error);
  }
}
