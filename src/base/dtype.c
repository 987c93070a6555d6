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

bool mmci_dtype_read(const char *name, size_t length, mmc_dtype *out) {
  for (int d = 0; d < MMCI_DTYPES; d++) {
    if (strlen(dtypes[d].name) != length || strncmp(name, dtypes[d].name, length) != 0) continue;
    *out = (mmc_dtype)d;
    return true;
  }
  return false;
}
