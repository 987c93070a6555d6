#include "base/dtype.h"

#include <string.h>

static const struct {
  const char *name;
  size_t size;
} dtypes[MMCI_DTYPES] = {
    [MMC_F32] = {"f32", 4},    [MMC_F64] = {"f64", 8}, [MMC_C64] = {"c64", 8},
    [MMC_C128] = {"c128", 16}, [MMC_F16] = {"f16", 2}, [MMC_BF16] = {"bf16", 2},
    [MMC_I8] = {"i8", 1},      [MMC_I16] = {"i16", 2}, [MMC_I32] = {"i32", 4},
    [MMC_I64] = {"i64", 8},    [MMC_U8] = {"u8", 1},   [MMC_U16] = {"u16", 2},
    [MMC_U32] = {"u32", 4},    [MMC_U64] = {"u64", 8}, [MMC_BOOL] = {"bool", 1},
};

const char *mmc_dtype_name(mmc_dtype dtype) {
  return (unsigned)dtype < MMCI_DTYPES ? dtypes[dtype].name : NULL;
}

size_t mmc_dtype_size(mmc_dtype dtype) {
  return (unsigned)dtype < MMCI_DTYPES ? dtypes[dtype].size : 0;
}

static const char *const semirings[] = {[MMC_PLUS_TIMES] = "plus-times",
                                        [MMC_MAX_PLUS] = "max-plus",
                                        [MMC_MIN_PLUS] = "min-plus",
                                        [MMC_LOG_SUM_EXP] = "log",
                                        [MMC_OR_AND] = "or-and"};

const char *mmc_semiring_name(mmc_semiring semiring) {
  return (unsigned)semiring <= MMC_OR_AND ? semirings[semiring] : NULL;
}

bool mmci_semiring_read(const char *name, size_t length, mmc_semiring *out) {
  for (int s = 0; s <= MMC_OR_AND; s++) {
    if (strlen(semirings[s]) != length || strncmp(name, semirings[s], length) != 0) continue;
    *out = (mmc_semiring)s;
    return true;
  }
  return false;
}

mmc_status mmci_semiring_check(mmc_dtype dtype, mmc_semiring semiring, mmci_error *error) {
  const bool is_real = dtype == MMC_F32 || dtype == MMC_F64;
  const char *expected = NULL;
  if ((unsigned)semiring > MMC_OR_AND)
    return mmci_fail_argument(error, MMC_E_ARG, "semiring", "expected one, got number %d",
                              (int)semiring);
  if ((semiring == MMC_MAX_PLUS || semiring == MMC_MIN_PLUS) && !is_real && dtype != MMC_I64)
    expected = "f32, f64 or i64";
  if (semiring == MMC_LOG_SUM_EXP && !is_real) expected = "f32 or f64";
  if (semiring == MMC_OR_AND && dtype != MMC_BOOL) expected = "bool";
  if (expected == NULL) return MMC_OK;
  return mmci_fail_argument(error, MMC_E_ARG, "semiring", "%s expects dtype %s, got %s",
                            semirings[semiring], expected, mmc_dtype_name(dtype));
}

bool mmci_dtype_read(const char *name, size_t length, mmc_dtype *out) {
  for (int d = 0; d < MMCI_DTYPES; d++) {
    if (strlen(dtypes[d].name) != length || strncmp(name, dtypes[d].name, length) != 0) continue;
    *out = (mmc_dtype)d;
    return true;
  }
  return false;
}
