/* element_bytes.h: the size of an element, because the module has none of the library's
 * functions. */
#ifndef MMCI_CUDA_ELEMENT_BYTES_H
#define MMCI_CUDA_ELEMENT_BYTES_H

#include <stddef.h>

#include "mmchain.h"

static inline size_t mmci_cuda_element_bytes(mmc_dtype dtype) {
  static const unsigned char BYTES[] = {
      [MMC_F32] = 4, [MMC_F64] = 8, [MMC_C64] = 8, [MMC_C128] = 16, [MMC_F16] = 2, [MMC_BF16] = 2};
  return BYTES[dtype];
}

#endif
