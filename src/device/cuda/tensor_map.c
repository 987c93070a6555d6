#include "device/cuda/tensor_map.h"

#include <string.h>

#include "device/cuda/cuda_check.h"

enum { VERSION = 12000 }; /* of the driver that has the function */

mmc_status mmci_tensor_map_find(mmci_tensor_map_fn *out, mmci_error *error) {
  enum cudaDriverEntryPointQueryResult found;
  void *entry = NULL;
  MMCI_CUDA_TRY(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, VERSION,
                                                 cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || entry == NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "the driver has no cuTensorMapEncodeTiled");
  memcpy(out, &entry, sizeof entry);
  return MMC_OK;
}

mmc_status mmci_tensor_map_make(mmci_tensor_map_fn encode, const mmci_tensor *tensor,
                                CUtensorMap *out, mmci_error *error) {
  static const cuuint32_t every[] = {1, 1, 1, 1, 1};
  void *address; /* the driver's table has no const */
  memcpy(&address, &tensor->data, sizeof address);
  const CUresult code =
      encode(out, tensor->type, (cuuint32_t)tensor->dims, address, tensor->sizes, tensor->strides,
             tensor->box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, tensor->swizzle, tensor->promotion,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code == CUDA_SUCCESS) return MMC_OK;
  return mmci_fail(error, MMC_E_DEVICE, "cuTensorMapEncodeTiled: error %d", (int)code);
}
