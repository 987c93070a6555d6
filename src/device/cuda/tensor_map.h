/* tensor_map.h: describes tensors to the copy engine of compute capability 9.0, without linking the
 * driver. */
#ifndef MMCI_CUDA_TENSOR_MAP_H
#define MMCI_CUDA_TENSOR_MAP_H

#ifdef MMCI_EMULATE_CUDA
#include "cuda_emulation_c.h"
#else
#include <cudaTypedefs.h>
#endif

#include "base/status.h"

typedef PFN_cuTensorMapEncodeTiled_v12000 mmci_tensor_map_fn;

/* A tensor of up to five dimensions, the one along memory first, and the box of it that is copied
 * at once, with zeros past the edges. */
typedef struct mmci_tensor {
  const void *data;
  CUtensorMapDataType type;
  int dims;
  cuuint64_t sizes[5], strides[4]; /* strides in bytes, of all dimensions but the first */
  cuuint32_t box[5];
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
} mmci_tensor;

/* Finds the driver's function. Returns E_UNSUPPORTED where the driver has none, E_DEVICE. */
mmc_status mmci_tensor_map_find(mmci_tensor_map_fn *out, mmci_error *error);
/* Describes a tensor. Returns E_DEVICE. */
mmc_status mmci_tensor_map_make(mmci_tensor_map_fn encode, const mmci_tensor *tensor,
                                CUtensorMap *out, mmci_error *error);

#endif
