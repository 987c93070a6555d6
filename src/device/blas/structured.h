/* structured.h: products whose operands have structure, solves and inverses, by LAPACK. */
#ifndef MMCI_BLAS_STRUCTURED_H
#define MMCI_BLAS_STRUCTURED_H

#include "device/device.h"

/* These are the slots of device.h. */
mmc_status mmci_blas_structured_check(mmci_device *device, const mmci_structured *ask,
                                      mmci_error *error);
mmc_status mmci_blas_structured(mmci_device *device, const mmci_structured *product, void *z,
                                void *s, int64_t *pivot, mmci_error *error);

#endif
