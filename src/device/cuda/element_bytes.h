/* element_bytes.h: the size of an element, because the module has none of the library's
 * functions. */
#ifndef MMCI_CUDA_ELEMENT_BYTES_H
#define MMCI_CUDA_ELEMENT_BYTES_H

#include <stddef.h>

#include "mmchain.h"

static inline size_t mmci_cuda_element_bytes(mmc_dtype dtype) {
  static const unsigned char BYTES[] = {
      [MMC_F32] = 4,  [MMC_F64] = 8, [MMC_C64] = 8, [MMC_C128] = 16, [MMC_F16] = 2,
      [MMC_BF16] = 2, [MMC_I8] = 1,  [MMC_I16] = 2, [MMC_I32] = 4,   [MMC_I64] = 8,
      [MMC_U8] = 1,   [MMC_U16] = 2, [MMC_U32] = 4, [MMC_U64] = 8,   [MMC_BOOL] = 1};
  return BYTES[dtype];
}

#endif
