#include "promote.h"

#include "half.h"
#include "random.h"

static bool is_complex(mmc_dtype dtype) {
  return dtype == MMC_C64 || dtype == MMC_C128;
}

/* Returns the dtype of the real and imaginary parts. */
static mmc_dtype real_of(mmc_dtype dtype) {
  if (dtype == MMC_C64) return MMC_F32;
  return dtype == MMC_C128 ? MMC_F64 : dtype;
}

static int bits_of(mmc_dtype dtype) {
  return dtype == MMC_BOOL ? 0 : 8 * (int)mmc_dtype_size(dtype);
}

/* Finds the least integer dtype that holds both; u64 with signed ones has none. */
static bool promoted_integer(mmc_dtype a, mmc_dtype b, mmc_dtype *out) {
  bool is_signed = a < MMC_U8 || b < MMC_U8;
  int bits_a = bits_of(a), bits_b = bits_of(b);
  if (is_signed && a >= MMC_U8) bits_a *= 2;
  if (is_signed && b >= MMC_U8) bits_b *= 2;
  int bits = bits_a > bits_b ? bits_a : bits_b;
  for (int d = 0; d < 4; d++)
    if (bits == 8 << d) {
      *out = (mmc_dtype)((is_signed ? MMC_I8 : MMC_U8) + d);
      return true;
    }
  return false;
}

bool cli_promoted(mmc_dtype a, mmc_dtype b, mmc_dtype *out) {
  *out = a;
  if (a == b) return true;
  if (cli_dtype_is_integer(a) || cli_dtype_is_integer(b))
    return cli_dtype_is_integer(a) && cli_dtype_is_integer(b) && promoted_integer(a, b, out);
  bool is_double = real_of(a) == MMC_F64 || real_of(b) == MMC_F64;
  if (is_complex(a) || is_complex(b))
    *out = is_double ? MMC_C128 : MMC_C64;
  else
    *out = is_double ? MMC_F64 : MMC_F32;
  return true;
}

static double load_real(mmc_dtype real, const void *data, size_t i) {
  if (real == MMC_F64) return ((const double *)data)[i];
  if (real == MMC_F32) return ((const float *)data)[i];
  return cli_half_load(real, ((const uint16_t *)data)[i]);
}

static void store_real(mmc_dtype real, void *data, size_t i, double value) {
  if (real == MMC_F64)
    ((double *)data)[i] = value;
  else
    ((float *)data)[i] = (float)value;
}

/* Reads an integer; writing its lowest bits keeps it in every dtype to which it is promoted. */
static int64_t load_integer(mmc_dtype dtype, const void *data, size_t i) {
  switch (dtype) {
    case MMC_I8:
      return ((const int8_t *)data)[i];
    case MMC_I16:
      return ((const int16_t *)data)[i];
    case MMC_I32:
      return ((const int32_t *)data)[i];
    case MMC_U8:
      return ((const uint8_t *)data)[i];
    case MMC_U16:
      return ((const uint16_t *)data)[i];
    case MMC_U32:
      return ((const uint32_t *)data)[i];
    case MMC_BOOL:
      return ((const uint8_t *)data)[i] != 0;
    default:
      return ((const int64_t *)data)[i];
  }
}

static void promote_integers(mmc_dtype from, const void *data, size_t count, mmc_dtype to,
                             void *out) {
  for (size_t i = 0; i < count; i++) {
    int64_t value = load_integer(from, data, i);
    switch (mmc_dtype_size(to)) {
      case 1:
        ((uint8_t *)out)[i] = (uint8_t)value;
        break;
      case 2:
        ((uint16_t *)out)[i] = (uint16_t)value;
        break;
      case 4:
        ((uint32_t *)out)[i] = (uint32_t)value;
        break;
      default:
        ((int64_t *)out)[i] = value;
        break;
    }
  }
}

void cli_promote(mmc_dtype from, const void *data, size_t count, mmc_dtype to, void *out) {
  if (cli_dtype_is_integer(from)) {
    promote_integers(from, data, count, to, out);
    return;
  }
  const mmc_dtype real_from = real_of(from), real_to = real_of(to);
  const size_t parts_from = is_complex(from) ? 2 : 1, parts_to = is_complex(to) ? 2 : 1;
  for (size_t i = 0; i < count; i++) {
    store_real(real_to, out, i * parts_to, load_real(real_from, data, i * parts_from));
    if (parts_to == 2)
      store_real(real_to, out, i * 2 + 1,
                 parts_from == 2 ? load_real(real_from, data, i * 2 + 1) : 0);
  }
}
