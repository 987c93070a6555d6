#include "device/blas/vector_loops.h"

#include <math.h>

#include "base/dtype.h"

/* The bounds were measured beside OpenBLAS 0.3.21, which is faster for longer vectors or takes
 * several threads, and beside LIBXSMM for complex matrices, which it needs packed. */
enum {
  MOST_TERMS = 9215,
  MOST_PACKED = 250000,
  MOST_DOUBLES = 84000, /* elements of A, which more threads read faster than one if it is larger */
  MOST_COMPLEX = 600,
  MOST_SHORT = 16,
  MOST_APART = 8,
  LEAST_SUMS = 16,
  MOST_ORDERED = 9215,
  MOST_ORDERED_WIDE = 64 * 64 * 64, /* by AVX-512; threads share more */
  MOST_ORDERED_COMPLEX = 1 << 22    /* by a vector; ordered.c packs the matrix, to read it once */
};

/* Which loops compute a product: of lines, or of sums; and whether of the transposed one. */
typedef enum way { NONE, LINES, SUMS, LINES_SWAPPED, SUMS_SWAPPED } way;

/* Returns the steps from one row of an operand to the next, and from one column to the next. */
static int64_t down(const mmci_form *x) {
  return x->trans ? 1 : x->ld;
}
static int64_t along(const mmci_form *x) {
  return x->trans ? x->ld : 1;
}

/* Says whether lines of C are too short for vectors, and its sums long enough to be worth packing
 * the columns of B. */
static bool is_packed(const mmci_gemm *x) {
  const bool is_short = x->dtype != MMC_C128 && (x->n == 2 || x->n == 3);
  return is_short && along(&x->a) == 1 && x->k >= LEAST_SUMS &&
         (size_t)(x->k * x->n) * mmc_dtype_size(x->dtype) <= MMCI_VECTORS_PACKED;
}

static way choose_way(const mmci_gemm *x) {
  const bool lines_of_b = x->n == 1 || along(&x->b) == 1;
  const bool sums_of_a = x->k == 1 || along(&x->a) == 1;
  const bool sums_of_b = x->k == 1 || down(&x->b) == 1;
  const bool lines_of_a = (x->m == 1 || down(&x->a) == 1) && (x->m == 1 || x->ldc == 1);
  if (x->n == 1 && x->k > 1 && sums_of_a && sums_of_b) return SUMS;
  if (x->n == 1 && x->m > 1 && lines_of_a) return LINES_SWAPPED;
  if (x->m == 1 && x->n > 1 && !lines_of_b && sums_of_a && sums_of_b) return SUMS_SWAPPED;
  /* A column whose elements lie apart is one short line after the other. */
  if (x->n == 1 && x->k > MOST_APART) return NONE;
  if (is_packed(x)) return lines_of_b ? SUMS : NONE;
  return lines_of_b ? LINES : NONE;
}

/* Says whether elements are to be chains in the order of k. */
static bool is_ordered(const mmci_gemm *x) {
  return mmci_precision_is_reproducible(x->precision);
}

/* Loops in order have lines alone; a column is one of lines of one element. */
static way choose_ordered_way(const mmci_gemm *x) {
  const bool lines_of_b = x->n == 1 || along(&x->b) == 1;
  const bool lines_of_a = (x->m == 1 || down(&x->a) == 1) && (x->m == 1 || x->ldc == 1);
  if ((x->n == 1 && x->m > 1 && lines_of_a) || (x->m == 1 && !lines_of_b)) return LINES_SWAPPED;
  return lines_of_b ? LINES : NONE;
}

static bool has_fma(void) {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

static bool has_avx512(void) {
#if defined(__x86_64__)
  return has_fma() && __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

/* Says whether lines of C are real ones that the loops for lines by AVX-512 take. */
static bool is_one_vector(const mmci_gemm *x) {
  enum { VECTOR_BYTES = 64 };
  return (x->dtype == MMC_F32 || x->dtype == MMC_F64) && x->n > 1 &&
         (size_t)x->n * mmc_dtype_size(x->dtype) <= VECTOR_BYTES && has_avx512();
}

/* Says whether they are too few for LIBXSMM, which then keeps several sums of an element, so that
 * its code is not used (xsmm.h). */
static bool has_few_lines(const mmci_gemm *x) {
  enum { ROWS = 12 };
  return is_one_vector(x) && x->m < ROWS;
}

/* Returns how many terms make a product too large. Lines of half a vector or a whole one are
 * computed as fast as vectors; those of LIBXSMM are cut from longer ones. */
static double most_terms(const mmci_gemm *x) {
  const size_t bytes = (size_t)x->n * mmc_dtype_size(x->dtype);
  if (x->m == 1 || x->k == 1 || x->n == 1) return MOST_TERMS;
  if (is_packed(x))
    return x->dtype == MMC_F64 ? fmin(MOST_PACKED, (double)x->n * MOST_DOUBLES) : MOST_PACKED;
  if (has_few_lines(x) || (x->n <= 4 && bytes >= 16 && bytes <= 32)) return MOST_TERMS;
  return mmci_dtype_is_complex(x->dtype) ? MOST_COMPLEX : x->n < 4 ? MOST_SHORT : 0;
}

/* Says whether there are loops for such elements, and something to do for them. */
static bool has_loops(const mmci_gemm *x) {
  const bool is_float = x->dtype == MMC_F32 || x->dtype == MMC_F64;
  return (is_float || mmci_dtype_is_complex(x->dtype)) && x->m > 0 && x->k > 0 && x->n > 0 &&
         !x->accumulate && x->rule.semiring == MMC_PLUS_TIMES;
}

/* Says whether the loops for short lines and sums are for a native product. */
static bool is_short(const mmci_gemm *x) {
  return mmci_gemm_mkn(x) <= most_terms(x) && choose_way(x) != NONE;
}

static double most_ordered(const mmci_gemm *x) {
  if (mmci_dtype_is_complex(x->dtype) && (x->m == 1 || x->n == 1)) return MOST_ORDERED_COMPLEX;
  return has_avx512() ? MOST_ORDERED_WIDE : MOST_ORDERED;
}

bool mmci_vectors_pay(const mmci_gemm *x) {
  if (!has_loops(x)) return false;
  if (!is_ordered(x)) return is_short(x);
  return mmci_gemm_is_in_order(x) && has_fma() && mmci_gemm_mkn(x) <= most_ordered(x) &&
         choose_ordered_way(x) != NONE;
}

bool mmci_lines_pay(const mmci_gemm *x) {
  return has_loops(x) && x->m > 1 && x->n > 1 && has_avx512() &&
         mmci_gemm_mkn(x) <= MOST_ORDERED_WIDE && choose_ordered_way(x) == LINES;
}

static const mmci_vectors_set *loops_here(void) {
#if defined(__x86_64__)
  if (has_fma()) return &mmci_vectors_avx2;
#endif
  return &mmci_vectors_portable;
}

/* Returns the loops for products of this shape, in order, by sums or by lines. */
static mmci_vectors_fn loops_of(const mmci_gemm *x, bool in_order, bool by_sums) {
  const bool is_complex = mmci_dtype_is_complex(x->dtype);
  const bool is_double = x->dtype == MMC_F64 || x->dtype == MMC_C128;
  const int type = 2 * is_complex + is_double;
#if defined(__x86_64__)
  enum { LEAST_BYTES = 64, LEAST_ROWS = 2 };
  if (in_order) return (has_avx512() ? mmci_ordered_lines_avx512 : mmci_ordered_lines_avx2)[type];
  /* A complex sum is added up in more steps than few terms take. */
  const bool has_terms = !is_complex || (size_t)x->k * mmc_dtype_size(x->dtype) >= LEAST_BYTES;
  if (by_sums && has_terms && (x->m >= 2 || x->n >= 2) && has_avx512())
    return mmci_vectors_sums_avx512[type];
  if (!by_sums && x->m >= LEAST_ROWS && is_one_vector(x)) return mmci_vectors_lines_avx512[type];
#endif
  return by_sums ? loops_here()->sums[type] : loops_here()->lines[type];
}

mmci_vectors mmci_vectors_make(const mmci_gemm *gemm, int64_t a_step, int64_t b_step,
                               int64_t c_step) {
  const bool is_complex = mmci_dtype_is_complex(gemm->dtype);
  const int64_t parts = is_complex ? 2 : 1;
  const bool in_order = is_ordered(gemm) || !is_short(gemm);
  const way way = in_order ? choose_ordered_way(gemm) : choose_way(gemm);
  const bool swapped = way == LINES_SWAPPED || way == SUMS_SWAPPED;
  const bool by_sums = way == SUMS || way == SUMS_SWAPPED;
  mmci_gemm x = *gemm;
  if (swapped) {
    x.m = gemm->n;
    x.n = gemm->m;
    x.a = gemm->b;
    x.b = gemm->a;
    x.a.trans = !gemm->b.trans;
    x.b.trans = !gemm->a.trans;
  }
  /* Transposed, C goes down where it went along. It is one line or one column then. */
  const int64_t c_down = swapped ? 1 : gemm->ldc;
  return (mmci_vectors){.m = x.m,
                        .k = x.k,
                        .n = by_sums ? x.n : x.n * parts,
                        .a_down = down(&x.a) * parts,
                        .a_along = along(&x.a) * parts,
                        .b_down = down(&x.b) * parts,
                        .c_down = c_down * parts,
                        .a_step = swapped ? b_step : a_step,
                        .b_step = swapped ? a_step : b_step,
                        .c_step = c_step,
                        .sign_a = is_complex && x.a.conj ? -1 : 1,
                        .sign_b = is_complex && x.b.conj ? -1 : 1,
                        .swapped = swapped,
                        .turned = gemm->turned != swapped,
                        .multiply = loops_of(&x, in_order, by_sums)};
}
