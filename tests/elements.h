/* elements.h: elements of every dtype on the host, as pairs of doubles. */
#ifndef MMC_TEST_ELEMENTS_H
#define MMC_TEST_ELEMENTS_H

#include <stdint.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "mmchain.h"

enum { DTYPES = 6 };

typedef struct element {
  double re, im;
} element;

static const struct dtype_facts {
  const char *name;
  size_t size, real_size;
  double sum_epsilon; /* of the arithmetic of sums: half the distance from 1 to the next number */
  double epsilon;     /* of what is stored */
  double least;       /* the distance between the numbers next to 0 */
} dtype_facts[DTYPES] = {
    [MMC_F32] = {"f32", 4, 4, 0x1p-24, 0x1p-24, 0x1p-149},
    [MMC_F64] = {"f64", 8, 8, 0x1p-53, 0x1p-53, 0x1p-1074},
    [MMC_C64] = {"c64", 8, 4, 0x1p-24, 0x1p-24, 0x1p-149},
    [MMC_C128] = {"c128", 16, 8, 0x1p-53, 0x1p-53, 0x1p-1074},
    [MMC_F16] = {"f16", 2, 2, 0x1p-24, 0x1p-11, 0x1p-24},
    [MMC_BF16] = {"bf16", 2, 2, 0x1p-24, 0x1p-8, 0x1p-133},
};

static inline element element_read(mmc_dtype dtype, const unsigned char *at) {
  element value = {0, 0};
  float f32[2] = {0, 0};
  uint16_t half;
  switch (dtype) {
    case MMC_F32:
    case MMC_C64:
      memcpy(f32, at, dtype_facts[dtype].size);
      value = (element){(double)f32[0], (double)f32[1]};
      break;
    case MMC_F64:
      memcpy(&value.re, at, sizeof value.re);
      break;
    case MMC_C128:
      memcpy(&value, at, sizeof value);
      break;
    case MMC_F16:
      memcpy(&half, at, sizeof half);
      value.re = (double)mmci_f16_to_f32(half);
      break;
    case MMC_BF16:
      memcpy(&half, at, sizeof half);
      value.re = (double)mmci_bf16_to_f32(half);
      break;
    default: /* integers have tests of their own */
      break;
  }
  return value;
}

static inline void element_write(mmc_dtype dtype, unsigned char *at, element value) {
  float f32[2] = {(float)value.re, (float)value.im};
  uint16_t half;
  switch (dtype) {
    case MMC_F32:
    case MMC_C64:
      memcpy(at, f32, dtype_facts[dtype].size);
      break;
    case MMC_F64:
      memcpy(at, &value.re, sizeof value.re);
      break;
    case MMC_C128:
      memcpy(at, &value, sizeof value);
      break;
    case MMC_F16:
      half = mmci_f16_round(value.re);
      memcpy(at, &half, sizeof half);
      break;
    case MMC_BF16:
      half = mmci_bf16_round(value.re);
      memcpy(at, &half, sizeof half);
      break;
    default:
      break;
  }
}

#endif
