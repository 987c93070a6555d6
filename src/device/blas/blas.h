/* blas.h: one product by one call of the CBLAS, for those who have many. */
#ifndef MMCI_BLAS_H
#define MMCI_BLAS_H

#include "device/device.h"

typedef void (*mmci_blas_fn)(const mmci_gemm *gemm, const void *a, const void *b, void *c);

/* The call for such a product (not for its batch), which takes gemm as this leaves it; NULL for f16
 * and bf16, unless there is nothing to multiply. */
mmci_blas_fn mmci_blas_call(mmci_gemm *gemm);

/* About what such a product takes on one thread, for deciding how many are worth it. */
double mmci_blas_serial_s(const mmci_gemm *gemm);

/* Whether that call stays on the thread that makes it, so that several threads may. */
bool mmci_blas_is_serial(const mmci_gemm *gemm);

#endif
