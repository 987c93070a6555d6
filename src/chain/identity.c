#include "chain/identity.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"

/* Writes a one of the dtype to an element whose bytes are 0. */
static void write_one(mmc_dtype dtype, char *to) {
  const float one_f32 = 1;
  const double one_f64 = 1;
  const uint16_t one_f16 = 0x3C00, one_bf16 = 0x3F80;
  if (dtype == MMC_F32 || dtype == MMC_C64) memcpy(to, &one_f32, sizeof one_f32);
  if (dtype == MMC_F64 || dtype == MMC_C128) memcpy(to, &one_f64, sizeof one_f64);
  if (dtype == MMC_F16) memcpy(to, &one_f16, sizeof one_f16);
  if (dtype == MMC_BF16) memcpy(to, &one_bf16, sizeof one_bf16);
  const bool is_last = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__; /* where the lowest byte lies */
  if (mmci_dtype_is_integer(dtype)) to[is_last ? mmc_dtype_size(dtype) - 1 : 0] = 1;
}

/* Writes the zero of a semiring whose zero is no zero of the dtype. */
static void write_zero(mmc_dtype dtype, mmc_semiring semiring, char *to) {
  const bool least = semiring == MMC_MIN_PLUS;
  const float f32 = least ? INFINITY : -INFINITY;
  const double f64 = (double)f32;
  const int64_t i64 = least ? INT64_MAX : INT64_MIN;
  if (dtype == MMC_F32) memcpy(to, &f32, sizeof f32);
  if (dtype == MMC_F64) memcpy(to, &f64, sizeof f64);
  if (dtype == MMC_I64) memcpy(to, &i64, sizeof i64);
}

void mmci_write_identity(mmc_dtype dtype, mmc_semiring semiring, int64_t n, void *to) {
  const bool plain = semiring == MMC_PLUS_TIMES || semiring == MMC_OR_AND;
  const size_t element = mmc_dtype_size(dtype), side = (size_t)n;
  char *at = to;
  memset(to, 0, side * side * element);
  /* Where the zero is an infinity, the one is 0. */
  for (size_t i = 0; i < side * side; i++)
    if (plain && i % (side + 1) == 0)
      write_one(dtype, at + i * element);
    else if (!plain && i % (side + 1) != 0)
      write_zero(dtype, semiring, at + i * element);
}
