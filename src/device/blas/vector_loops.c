#include "device/blas/vector_loops.h"

#include <math.h>

#include "base/dtype.h"
#include "device/blas/ordered_tiles.h"

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

/* Which loops compute a product: of lines, of lines across the columns of B, or of sums; and
 * whether of the transposed one. */
typedef enum way { NONE, LINES, ACROSS, SUMS, LINES_SWAPPED, ACROSS_SWAPPED, SUMS_SWAPPED } way;

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

/* Says whether C has so few columns that lines had better run down them, across the rows of A,
 * which are turned for it where they lie along memory. Costs are 16ths of a cycle an element of A.
 */
static bool is_narrow(const mmci_gemm *x) {
  enum { LINE_BYTES = 64 };
  static const struct {
    int most, turn, column, line;
  } costs[] = {[MMC_F32] = {2, 32, 8, 128},
               [MMC_F64] = {2, 48, 16, 128},
               [MMC_C64] = {2, 80, 32, 256},
               [MMC_C128] = {1, 128, 64, 256}};
  const int64_t size = (int64_t)mmc_dtype_size(x->dtype), lanes = LINE_BYTES / size,
                turned = (x->m + lanes - 1) / lanes * lanes;
  if (x->n > costs[x->dtype].most || (x->n > 1 && x->m <= x->n)) return false;
  if (down(&x->a) == 1) return true;
  return x->k * size >= LINE_BYTES &&
         turned * (costs[x->dtype].turn + costs[x->dtype].column * x->n) <=
             x->m * costs[x->dtype].line;
}

static way choose_ordered_way(const mmci_gemm *x) {
  if (is_narrow(x)) return down(&x->a) == 1 ? LINES_SWAPPED : ACROSS_SWAPPED;
  return x->n == 1 || along(&x->b) == 1 ? LINES : ACROSS;
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
  return mmci_gemm_is_in_order(x) && has_fma() && mmci_gemm_mkn(x) <= most_ordered(x);
}

/* Says whether these take less time where B has its columns along memory, too: of c128, and of f64
 * where most of the terms are in whole cache lines. */
static bool is_worth_turning(const mmci_gemm *x) {
  enum { LEAST_TERMS = 32 };
  return x->dtype == MMC_C128 || (x->dtype == MMC_F64 && x->k >= LEAST_TERMS);
}

bool mmci_lines_pay(const mmci_gemm *x) {
  return has_loops(x) && x->m > 1 && x->n > 1 && has_avx512() &&
         mmci_gemm_mkn(x) <= MOST_ORDERED_WIDE && (along(&x->b) == 1 || is_worth_turning(x));
}

static const mmci_vectors_set *loops_here(void) {
#if defined(__x86_64__)
  if (has_fma()) return &mmci_vectors_avx2;
#endif
  return &mmci_vectors_portable;
}

/* Returns the number of a dtype among the loops of a set. */
static int type_of(mmc_dtype dtype) {
  const bool is_double = dtype == MMC_F64 || dtype == MMC_C128;
  return 2 * mmci_dtype_is_complex(dtype) + is_double;
}

/* Returns the loops in order, along the rows of B or across its columns; NULL where there are none.
 */
static mmci_vectors_fn ordered_loops(mmc_dtype dtype, bool across) {
#if defined(__x86_64__)
  const mmci_ordered_set *set = has_avx512() ? &mmci_ordered_lines_avx512
                                : has_fma()  ? &mmci_ordered_lines_avx2
                                             : NULL;
  if (set != NULL) return (across ? set->across : set->lines)[type_of(dtype)];
#else
  (void)dtype, (void)across;
#endif
  return NULL;
}

/* Returns the loops for native products of this shape, by sums or by lines. */
static mmci_vectors_fn loops_of(const mmci_gemm *x, bool by_sums) {
  const bool is_complex = mmci_dtype_is_complex(x->dtype);
  const int type = type_of(x->dtype);
#if defined(__x86_64__)
  enum { LEAST_BYTES = 64, LEAST_ROWS = 2 };
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
  const bool swapped = way == LINES_SWAPPED || way == ACROSS_SWAPPED || way == SUMS_SWAPPED;
  const bool by_sums = way == SUMS || way == SUMS_SWAPPED;
  const bool across = way == ACROSS || way == ACROSS_SWAPPED;
  mmci_gemm x = *gemm;
  if (swapped) {
    x.m = gemm->n;
    x.n = gemm->m;
    x.a = gemm->b;
    x.b = gemm->a;
    x.a.trans = !gemm->b.trans;
    x.b.trans = !gemm->a.trans;
  }
  return (mmci_vectors){
      .m = x.m,
      .k = x.k,
      .n = by_sums ? x.n : x.n * parts,
      .a_down = down(&x.a) * parts,
      .a_along = along(&x.a) * parts,
      .b_down = down(&x.b) * parts,
      .b_along = along(&x.b) * parts,
      .c_down = (swapped ? 1 : gemm->ldc) * parts,
      .c_along = (swapped ? gemm->ldc : 1) * parts,
      .a_step = swapped ? b_step : a_step,
      .b_step = swapped ? a_step : b_step,
      .c_step = c_step,
      .sign_a = is_complex && x.a.conj ? -1 : 1,
      .sign_b = is_complex && x.b.conj ? -1 : 1,
      .swapped = swapped,
      .turned = gemm->turned != swapped,
      .multiply = in_order ? ordered_loops(x.dtype, across) : loops_of(&x, by_sums)};
}

bool mmci_ordered_row_by_loops(mmc_dtype dtype, const mmci_ordered_row *row) {
  const int64_t parts = mmci_dtype_is_complex(dtype) ? 2 : 1;
  const mmci_vectors x = {.m = 1,
                          .k = row->k,
                          .n = row->n * parts,
                          .a_along = row->x_step * parts,
                          .b_down = row->down * parts,
                          .b_along = row->along * parts,
                          .c_along = row->c_step * parts,
                          .sign_a = row->x_sign,
                          .sign_b = row->b_sign,
                          .turned = row->turned,
                          .continues = true,
                          .multiply = ordered_loops(dtype, row->along != 1)};
  if (x.multiply == NULL) return false;
  x.multiply(&x, 1, row->x, row->b, row->c);
  return true;
}
