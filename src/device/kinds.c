/* kinds.c: the list of every kind of device, in the order of `mmchain info`; "cpu" is the first
 * that is here. A line here is all that the library knows of a device beside what it tells
 * itself. */
#include "device/device.h"

const mmci_device_kind mmci_device_kinds[] = {
#ifdef MMCI_WITH_BLAS
    {.name = "blas",
     .ops = &mmci_device_blas,
     .meter = "rapl",
     .choose_library = mmci_cblas_choose},
#else
    {.name = "blas", .meter = "rapl", .absent = "built without it, by MMC_WITH_BLAS=OFF"},
#endif
    {.name = "ref", .ops = &mmci_device_ref, .meter = "rapl"},
    {.name = "cuda",
     .is_module = true,
     .meter = "nvml",
     .absent = "needs the module mmchain-cuda.so: build with the CUDA toolkit installed (Python: "
               "python/cuda13)"},
    {.name = NULL},
};
