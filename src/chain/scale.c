#include "chain/scale.h"

#include <math.h>

#include "base/dtype.h"

mmc_status mmci_scale_check(mmc_dtype dtype, mmci_error *error) {
  if (dtype == MMC_F32 || dtype == MMC_F64 || mmci_dtype_is_complex(dtype)) return MMC_OK;
  return mmci_fail_argument(error, MMC_E_ARG, "scaled", "expected f32, f64, c64 or c128, got %s",
                            mmc_dtype_name(dtype) != NULL ? mmc_dtype_name(dtype) : "no dtype");
}

static bool is_single(mmc_dtype dtype) {
  return dtype == MMC_F32 || dtype == MMC_C64;
}

static int64_t reals_of(mmc_dtype dtype, int64_t elements) {
  return elements * (mmci_dtype_is_complex(dtype) ? 2 : 1);
}

/* A quarter of the exponents of the dtype. */
static int most_exponent(mmc_dtype dtype) {
  return is_single(dtype) ? 32 : 256;
}

enum { LANES = 16 };

/* Returns the greatest absolute value of a line, and of what was seen before; NaN is passed over,
 * and infinity where only_finite is set. */
#define GREATEST(suffix, type, absolute)                                                           \
  static type greatest_##suffix(int64_t length, const type *line, bool only_finite, type before) { \
    type most[LANES];                                                                              \
    int64_t i = 0;                                                                                 \
    for (int l = 0; l < LANES; l++) most[l] = before;                                              \
    for (; i + LANES <= length && !only_finite; i += LANES)                                        \
      for (int l = 0; l < LANES; l++) {                                                            \
        const type x = absolute(line[i + l]);                                                      \
        most[l] = x > most[l] ? x : most[l];                                                       \
      }                                                                                            \
    for (; i < length; i++) {                                                                      \
      const type x = absolute(line[i]);                                                            \
      most[0] = x > most[0] && !(only_finite && isinf(x)) ? x : most[0];                           \
    }                                                                                              \
    for (int l = 1; l < LANES; l++) most[0] = most[l] > most[0] ? most[l] : most[0];               \
    return most[0];                                                                                \
  }

GREATEST(f32, float, fabsf)
GREATEST(f64, double, fabs)

static double greatest(mmc_dtype dtype, int64_t lines, int64_t length, const void *data, int64_t ld,
                       bool only_finite) {
  const int64_t count = reals_of(dtype, length), pitch = reals_of(dtype, ld);
  float f32 = 0;
  double f64 = 0;
  for (int64_t l = 0; l < lines && count > 0; l++)
    if (is_single(dtype))
      f32 = greatest_f32(count, (const float *)data + l * pitch, only_finite, f32);
    else
      f64 = greatest_f64(count, (const double *)data + l * pitch, only_finite, f64);
  return is_single(dtype) ? (double)f32 : f64;
}

/* Makes one line of those that lie without gaps, as the elements of a vector do. */
static void join_lines(int64_t *lines, int64_t *length, int64_t ld) {
  if (ld != *length) return;
  *length *= *lines;
  *lines = 1;
}

int mmci_scale_needed(mmc_dtype dtype, int64_t lines, int64_t length, const void *data,
                      int64_t ld) {
  join_lines(&lines, &length, ld);
  double most = greatest(dtype, lines, length, data, ld, false);
  if (isinf(most)) most = greatest(dtype, lines, length, data, ld, true);
  int exponent = 0;
  if (most > 0) frexp(most, &exponent);
  const int end = most_exponent(dtype);
  return exponent > end || exponent <= -end ? exponent : 0;
}

/* A power of two may exceed the dtype where the product does not, so it is taken in two parts, the
 * first of which rounds nothing: it moves towards 1. */
#define SCALE(suffix, type, power)                                                      \
  static void scale_##suffix(int64_t count, type *line, int exponent) {                 \
    const int half = exponent / 2;                                                      \
    const type first = power((type)1, -half), second = power((type)1, half - exponent); \
    for (int64_t i = 0; i < count; i++) line[i] = line[i] * first * second;             \
  }

SCALE(f32, float, ldexpf)
SCALE(f64, double, ldexp)

void mmci_scale_by(mmc_dtype dtype, int64_t lines, int64_t length, void *data, int64_t ld,
                   int exponent) {
  join_lines(&lines, &length, ld);
  const int64_t count = reals_of(dtype, length), pitch = reals_of(dtype, ld);
  for (int64_t l = 0; l < lines && count > 0; l++)
    if (is_single(dtype))
      scale_f32(count, (float *)data + l * pitch, exponent);
    else
      scale_f64(count, (double *)data + l * pitch, exponent);
}
