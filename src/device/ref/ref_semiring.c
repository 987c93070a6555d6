#include "device/ref/ref_semiring.h"

#include <math.h>

/* ---- the greatest and the least of sums ------------------------------------------------------ */

/* Defines the product of two elements and the greater of two, of numbers with NaN and infinities;
 * with least, the lesser. */
#define REAL_ELEMENTS(suffix, type)                             \
  static type product_##suffix(type x, type y, bool least) {    \
    const type zero = least ? (type)INFINITY : -(type)INFINITY; \
    if (x != x || y != y) return (type)NAN;                     \
    return x == zero || y == zero ? zero : x + y;               \
  }                                                             \
  static type better_##suffix(type x, type y, bool least) {     \
    if (x != x || y != y) return (type)NAN;                     \
    return (least ? y < x : y > x) ? y : x;                     \
  }                                                             \
  static type zero_##suffix(bool least) {                       \
    return least ? (type)INFINITY : -(type)INFINITY;            \
  }

REAL_ELEMENTS(f32, float)
REAL_ELEMENTS(f64, double)

static int64_t zero_i64(bool least) {
  return least ? INT64_MAX : INT64_MIN;
}

static int64_t product_i64(int64_t x, int64_t y, bool least) {
  const int64_t zero = zero_i64(least), most = INT64_MAX - least, fewest = INT64_MIN + !least;
  int64_t sum;
  if (x == zero || y == zero) return zero;
  if (__builtin_add_overflow(x, y, &sum)) return x > 0 ? most : fewest;
  return sum > most ? most : sum < fewest ? fewest : sum;
}

static int64_t better_i64(int64_t x, int64_t y, bool least) {
  return (least ? y < x : y > x) ? y : x;
}

#define GREATEST(suffix, type)                                                                \
  static void greatest_##suffix(const mmci_gemm *gemm, const type *a, const type *b, type *c, \
                                bool least) {                                                 \
    for (int64_t i = 0; i < gemm->m; i++) /* zeros are positive */                            \
      for (int64_t j = 0; j < gemm->n; j++) {                                                 \
        type *z = c + i * gemm->ldc + j, best = gemm->accumulate ? *z : zero_##suffix(least); \
        for (int64_t l = 0; l < gemm->k; l++)                                                 \
          best = better_##suffix(best,                                                        \
                                 product_##suffix(a[mmci_form_place(&gemm->a, i, l)],         \
                                                  b[mmci_form_place(&gemm->b, l, j)], least), \
                                 least);                                                      \
        *z = best + (type)0;                                                                  \
      }                                                                                       \
  }

GREATEST(f32, float)
GREATEST(f64, double)
GREATEST(i64, int64_t)

/* ---- logarithms of sums of exponentials ------------------------------------------------------ */

/* Terms are sums of two elements in double precision; the greatest is taken out before any is
 * exponentiated, so that none overflows. */
#define LOG_SUM_EXP(suffix, type)                                                                  \
  static void log_sum_exp_##suffix(const mmci_gemm *gemm, const type *a, const type *b, type *c) { \
    for (int64_t i = 0; i < gemm->m; i++)                                                          \
      for (int64_t j = 0; j < gemm->n; j++) {                                                      \
        type *z = c + i * gemm->ldc + j;                                                           \
        const double before = gemm->accumulate ? (double)*z : -(double)INFINITY;                   \
        double most = before, sum = 0;                                                             \
        for (int64_t l = 0; l < gemm->k; l++)                                                      \
          most = better_f64(most,                                                                  \
                            product_f64((double)a[mmci_form_place(&gemm->a, i, l)],                \
                                        (double)b[mmci_form_place(&gemm->b, l, j)], false),        \
                            false);                                                                \
        *z = (type)most;                                                                           \
        if (!isfinite(most)) continue;                                                             \
        for (int64_t l = 0; l < gemm->k; l++)                                                      \
          sum += exp(product_f64((double)a[mmci_form_place(&gemm->a, i, l)],                       \
                                 (double)b[mmci_form_place(&gemm->b, l, j)], false) -              \
                     most);                                                                        \
        *z = (type)(most + log(sum + exp(before - most)));                                         \
      }                                                                                            \
  }

LOG_SUM_EXP(f32, float)
LOG_SUM_EXP(f64, double)

void mmci_ref_semiring_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  const bool least = gemm->rule.semiring == MMC_MIN_PLUS;
  if (gemm->rule.semiring == MMC_LOG_SUM_EXP && gemm->dtype == MMC_F32)
    log_sum_exp_f32(gemm, a, b, c);
  else if (gemm->rule.semiring == MMC_LOG_SUM_EXP)
    log_sum_exp_f64(gemm, a, b, c);
  else if (gemm->dtype == MMC_F32)
    greatest_f32(gemm, a, b, c, least);
  else if (gemm->dtype == MMC_F64)
    greatest_f64(gemm, a, b, c, least);
  else
    greatest_i64(gemm, a, b, c, least);
}
