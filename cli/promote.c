#include "promote.h"

#include "half.h"

static bool is_complex(mmc_dtype dtype) {
  return dtype == MMC_C64 || dtype == MMC_C128;
}

/* Returns the dtype of the real and imaginary parts. */
static mmc_dtype real_of(mmc_dtype dtype) {
  if (dtype == MMC_C64) return MMC_F32;
  return dtype == MMC_C128 ? MMC_F64 : dtype;
}

mmc_dtype cli_promoted(mmc_dtype a, mmc_dtype b) {
  if (a == b) return a;
  bool is_double = real_of(a) == MMC_F64 || real_of(b) == MMC_F64;
  if (is_complex(a) || is_complex(b)) return is_double ? MMC_C128 : MMC_C64;
  return is_double ? MMC_F64 : MMC_F32;
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

void cli_promote(mmc_dtype from, const void *data, size_t count, mmc_dtype to, void *out) {
  const mmc_dtype real_from = real_of(from), real_to = real_of(to);
  const size_t parts_from = is_complex(from) ? 2 : 1, parts_to = is_complex(to) ? 2 : 1;
  for (size_t i = 0; i < count; i++) {
    store_real(real_to, out, i * parts_to, load_real(real_from, data, i * parts_from));
    if (parts_to == 2)
      store_real(real_to, out, i * 2 + 1,
                 parts_from == 2 ? load_real(real_from, data, i * 2 + 1) : 0);
  }
}
