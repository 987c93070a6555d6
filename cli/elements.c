#include "elements.h"

#include <float.h>

#include "half.h"

bool cli_elements_load(mmc_dtype dtype, bool conjugate, const void *data, int64_t index,
                       int64_t count, cli_piece *out) {
  const uint16_t *halves = data;
  const float *singles = data;
  const double *doubles = data;
  double sum = 0;
  for (int64_t e = 0; e < count; e++) {
    double re = 0, im = 0;
    int64_t at = index + e;
    switch (dtype) {
      case MMC_F32:
        re = (double)singles[at];
        break;
      case MMC_F64:
        re = doubles[at];
        break;
      case MMC_C64:
        re = (double)singles[2 * at];
        im = (double)singles[2 * at + 1];
        break;
      case MMC_C128:
        re = doubles[2 * at];
        im = doubles[2 * at + 1];
        break;
      case MMC_F16:
      case MMC_BF16:
        re = cli_half_load(dtype, halves[at]);
        break;
      default: /* integers are checked by exact.h */
        break;
    }
    out->re[e] = re;
    out->im[e] = conjugate ? -im : im;
    sum += 0 * re + 0 * im; /* becomes NaN once anything is not finite */
  }
  return sum == 0;
}

double cli_dtype_least(mmc_dtype dtype) {
  if (dtype == MMC_F64 || dtype == MMC_C128) return DBL_MIN;
  return dtype == MMC_F16 ? 0x1p-14 : (double)FLT_MIN;
}
