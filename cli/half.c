#include "half.h"

#include <math.h>

enum { MAGNITUDE = 0x7fff, SIGN = 0x8000 };

/* Returns the bits of the fraction; IEEE 754 has a sign, the exponent and its bias, and the
 * fraction. */
static int fraction_bits_of(mmc_dtype dtype) {
  return dtype == MMC_F16 ? 10 : 7;
}
static int bias_of(mmc_dtype dtype) {
  return dtype == MMC_F16 ? 15 : 127;
}

bool cli_is_half(mmc_dtype dtype) {
  return dtype == MMC_F16 || dtype == MMC_BF16;
}

double cli_half_epsilon(mmc_dtype dtype) {
  return ldexp(1, -fraction_bits_of(dtype));
}

double cli_half_load(mmc_dtype dtype, uint16_t half) {
  int bits = fraction_bits_of(dtype), bias = bias_of(dtype);
  int exponent = (half & MAGNITUDE) >> bits, fraction = half & ((1 << bits) - 1);
  double magnitude;
  if (exponent > 2 * bias)
    magnitude = fraction == 0 ? (double)INFINITY : (double)NAN;
  else if (exponent == 0)
    magnitude = ldexp(fraction, 1 - bias - bits);
  else
    magnitude = ldexp(fraction + (1 << bits), exponent - bias - bits);
  return half & SIGN ? -magnitude : magnitude;
}

uint16_t cli_half_round(mmc_dtype dtype, double value) {
  int bits = fraction_bits_of(dtype), bias = bias_of(dtype);
  int code = (2 * bias + 1) << bits, exponent;
  if (isnan(value)) {
    code |= 1 << (bits - 1);
  } else if (fabs(value) < ldexp(1, bias + 1)) {
    frexp(value, &exponent);
    /* The number is rounded in last places of its size; a carry goes into the exponent by
     * itself. */
    exponent = exponent - 1 > 1 - bias ? exponent - 1 : 1 - bias;
    int places = (int)nearbyint(ldexp(fabs(value), bits - exponent));
    code = places + ((exponent + bias - 1) << bits);
  }
  return (uint16_t)(code | (signbit(value) ? SIGN : 0));
}
