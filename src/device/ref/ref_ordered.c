/* ref_ordered.c: MMCI_REPRODUCIBLE as it is defined, by plain loops. */
#include "device/ref/ref_ordered.h"

#include <math.h>

#include "base/half.h"
#include "base/sizes.h"

static float settled_f32(float x) {
  return x == x ? x + 0.0F : NAN;
}
static double settled_f64(double x) {
  return x == x ? x + 0.0 : (double)NAN;
}

/* Returns how many terms one chain of fused multiply-adds has, and says whether it begins with C.
 */
static int64_t terms_of_chain(const mmci_gemm *gemm) {
  return gemm->sums == MMCI_SUMS_PIECES ? MMCI_PIECE_TERMS : gemm->k;
}
static bool begins_with_c(const mmci_gemm *gemm) {
  return gemm->accumulate && gemm->sums != MMCI_SUMS_PIECES;
}
/* Says whether the sum of a product's pieces is added to C. */
static bool ends_with_c(const mmci_gemm *gemm) {
  return gemm->accumulate && gemm->sums == MMCI_SUMS_PIECES;
}

#define ORDERED_REAL(name, type, sum_type, load, fuse, store)                      \
  static void name(const mmci_gemm *gemm, const void *a, const void *b, void *c) { \
    const type *x = a, *y = b;                                                     \
    const int64_t terms = terms_of_chain(gemm);                                    \
    for (int64_t i = 0; i < gemm->m; i++)                                          \
      for (int64_t j = 0; j < gemm->n; j++) {                                      \
        type *z = (type *)c + i * gemm->ldc + j;                                   \
        sum_type all = 0;                                                          \
        for (int64_t begin = 0; begin < gemm->k || begin == 0; begin += terms) {   \
          sum_type sum = begins_with_c(gemm) ? load(*z) : 0;                       \
          for (int64_t p = begin; p < mmci_smaller(begin + terms, gemm->k); p++)   \
            sum = fuse(load(x[mmci_form_place(&gemm->a, i, p)]),                   \
                       load(y[mmci_form_place(&gemm->b, p, j)]), sum);             \
          all = begin == 0 ? sum : all + sum;                                      \
          if (terms == 0) break;                                                   \
        }                                                                          \
        *z = store(ends_with_c(gemm) ? load(*z) + all : all);                      \
      }                                                                            \
  }

#define ORDERED_COMPLEX(name, type, fuse, settled)                                         \
  static void name(const mmci_gemm *gemm, const void *a, const void *b, void *c) {         \
    const type *x = a, *y = b;                                                             \
    const int64_t terms = terms_of_chain(gemm);                                            \
    for (int64_t i = 0; i < gemm->m; i++)                                                  \
      for (int64_t j = 0; j < gemm->n; j++) {                                              \
        type *z = (type *)c + 2 * (i * gemm->ldc + j), all[2] = {0, 0};                    \
        for (int64_t begin = 0; begin < gemm->k || begin == 0; begin += terms) {           \
          type re = begins_with_c(gemm) ? z[0] : 0, im = begins_with_c(gemm) ? z[1] : 0;   \
          for (int64_t p = begin; p < mmci_smaller(begin + terms, gemm->k); p++) {         \
            const type *u = x + 2 * mmci_form_place(&gemm->a, i, p);                       \
            const type *v = y + 2 * mmci_form_place(&gemm->b, p, j);                       \
            const type ui = gemm->a.conj ? -u[1] : u[1], vi = gemm->b.conj ? -v[1] : v[1]; \
            re = fuse(-ui, vi, fuse(u[0], v[0], re));                                      \
            im = gemm->turned ? fuse(u[0], vi, fuse(ui, v[0], im))                         \
                              : fuse(ui, v[0], fuse(u[0], vi, im));                        \
          }                                                                                \
          all[0] = begin == 0 ? re : all[0] + re;                                          \
          all[1] = begin == 0 ? im : all[1] + im;                                          \
          if (terms == 0) break;                                                           \
        }                                                                                  \
        z[0] = settled(ends_with_c(gemm) ? z[0] + all[0] : all[0]);                        \
        z[1] = settled(ends_with_c(gemm) ? z[1] + all[1] : all[1]);                        \
      }                                                                                    \
  }

#define F16_OF(x) mmci_f16_round(settled_f32(x))
#define BF16_OF(x) mmci_bf16_round(settled_f32(x))

ORDERED_REAL(ordered_f32, float, float, , fmaf, settled_f32)
ORDERED_REAL(ordered_f64, double, double, , fma, settled_f64)
ORDERED_REAL(ordered_f16, uint16_t, float, mmci_f16_to_f32, fmaf, F16_OF)
ORDERED_REAL(ordered_bf16, uint16_t, float, mmci_bf16_to_f32, fmaf, BF16_OF)
ORDERED_COMPLEX(ordered_c64, float, fmaf, settled_f32)
ORDERED_COMPLEX(ordered_c128, double, fma, settled_f64)

void mmci_ref_ordered(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  static void (*const multiply[])(const mmci_gemm *, const void *, const void *, void *) = {
      [MMC_F32] = ordered_f32,   [MMC_F64] = ordered_f64, [MMC_C64] = ordered_c64,
      [MMC_C128] = ordered_c128, [MMC_F16] = ordered_f16, [MMC_BF16] = ordered_bf16};
  multiply[gemm->dtype](gemm, a, b, c);
}
