/* scale_lines.c: see scale_lines.h. The loops are compiled for AVX2 too, whose bits are the same.
 */
#include "run/scale_lines.h"

#define LOOP static inline __attribute__((always_inline))

/* ---- elements -------------------------------------------------------------------------------- */

#define REAL(name, type, op)                                                              \
  LOOP void name(type *to, const type *from, const type *d, int64_t length, int64_t step, \
                 bool conj) {                                                             \
    (void)conj;                                                                           \
    for (int64_t i = 0; i < length; i++) to[i] = from[i] op d[i * step];                  \
  }

#define SCALE_COMPLEX(name, type)                                                              \
  LOOP void name(type *to, const type *from, const type *d, int64_t length, int64_t step,      \
                 bool conj) {                                                                  \
    for (int64_t i = 0; i < length; i++) {                                                     \
      const type re = d[2 * i * step], im = conj ? -d[2 * i * step + 1] : d[2 * i * step + 1]; \
      const type xr = from[2 * i], xi = from[2 * i + 1];                                       \
      to[2 * i] = xr * re - xi * im;                                                           \
      to[2 * i + 1] = xi * re + xr * im;                                                       \
    }                                                                                          \
  }

/* (a + ib) / (c + id) by Smith's method (1962), whose intermediates do not overflow. */
#define DIVIDE_COMPLEX(name, type)                                                             \
  LOOP void name(type *to, const type *from, const type *d, int64_t length, int64_t step,      \
                 bool conj) {                                                                  \
    for (int64_t i = 0; i < length; i++) {                                                     \
      const type re = d[2 * i * step], im = conj ? -d[2 * i * step + 1] : d[2 * i * step + 1]; \
      const type xr = from[2 * i], xi = from[2 * i + 1];                                       \
      if ((re < 0 ? -re : re) >= (im < 0 ? -im : im)) {                                        \
        const type ratio = im / re, whole = re + im * ratio;                                   \
        to[2 * i] = (xr + xi * ratio) / whole;                                                 \
        to[2 * i + 1] = (xi - xr * ratio) / whole;                                             \
      } else {                                                                                 \
        const type ratio = re / im, whole = re * ratio + im;                                   \
        to[2 * i] = (xr * ratio + xi) / whole;                                                 \
        to[2 * i + 1] = (xi * ratio - xr) / whole;                                             \
      }                                                                                        \
    }                                                                                          \
  }

REAL(scale_f32, float, *)
REAL(scale_f64, double, *)
SCALE_COMPLEX(scale_c64, float)
SCALE_COMPLEX(scale_c128, double)
REAL(divide_f32, float, /)
REAL(divide_f64, double, /)
DIVIDE_COMPLEX(divide_c64, float)
DIVIDE_COMPLEX(divide_c128, double)

/* ---- instruction sets ------------------------------------------------------------------------ */

/* Steps that are known and pointers that are the same let the compiler use vectors. */
#define LINE(name, type, set, isa)                                                             \
  isa static void name##_##set(void *to, const void *from, const void *d, int64_t length,      \
                               int64_t step, bool conj) {                                      \
    type *out = to;                                                                            \
    const type *by = d;                                                                        \
    if (to == from)                                                                            \
      step != 0 ? name(out, out, by, length, 1, conj) : name(out, out, by, length, 0, conj);   \
    else                                                                                       \
      step != 0 ? name(out, from, by, length, 1, conj) : name(out, from, by, length, 0, conj); \
  }

#define LINES(set, isa)                                   \
  LINE(scale_f32, float, set, isa)                        \
  LINE(scale_f64, double, set, isa)                       \
  LINE(scale_c64, float, set, isa)                        \
  LINE(scale_c128, double, set, isa)                      \
  LINE(divide_f32, float, set, isa)                       \
  LINE(divide_f64, double, set, isa)                      \
  LINE(divide_c64, float, set, isa)                       \
  LINE(divide_c128, double, set, isa)                     \
  static mmci_scale_line *const set[][2] = {              \
      [MMC_F32] = {scale_f32_##set, divide_f32_##set},    \
      [MMC_F64] = {scale_f64_##set, divide_f64_##set},    \
      [MMC_C64] = {scale_c64_##set, divide_c64_##set},    \
      [MMC_C128] = {scale_c128_##set, divide_c128_##set}, \
  };

LINES(portable, )
#if defined(__x86_64__)
LINES(avx2, __attribute__((target("avx2"))))
#endif

mmci_scale_line *mmci_scale_line_for(mmc_dtype dtype, bool divides) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return avx2[dtype][divides];
#endif
  return portable[dtype][divides];
}
