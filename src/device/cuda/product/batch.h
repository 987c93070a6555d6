/* batch.h: which kernels multiply a native batch of one product, by what each is predicted to take:
 * cuBLAS's strided call, kernels for groups, thin.cu, outer.cu or vectors.cu. */
#ifndef MMCI_CUDA_PRODUCT_BATCH_H
#define MMCI_CUDA_PRODUCT_BATCH_H

#include "chain/group.h"
#include "device/device.h"

/* A product as a group of one, which points into itself. */
typedef struct mmci_cuda_alone {
  mmci_form forms[2];
  mmci_group_product product;
  mmci_group group;
} mmci_cuda_alone;

void mmci_cuda_make_alone(const mmci_gemm *gemm, mmci_cuda_alone *x);
/* Returns the seconds of a batch of small products by a kernel for groups, NAN where it is not for
 * one; *error becomes the share by which nine of ten such times are off at most. */
double mmci_cuda_alone_seconds(const mmci_device *device, const mmci_gemm *gemm, double *error);

/* Returns the seconds of a native product, or a batch, by outer.cu; NAN where it is not for that.
 */
double mmci_cuda_outer_seconds(const mmci_device *device, const mmci_gemm *gemm);
/* Says whether a product without a batch is surely faster by outer.cu than by cuBLAS. */
bool mmci_cuda_goes_to_outer(const mmci_device *device, const mmci_gemm *gemm);

typedef enum mmci_cuda_batch_kind {
  MMCI_BATCH_CUBLAS,
  MMCI_BATCH_GROUP,
  MMCI_BATCH_THIN,
  MMCI_BATCH_OUTER,
  MMCI_BATCH_VECTORS
} mmci_cuda_batch_kind;

/* How a batch is multiplied, and how long that is taken to take. */
typedef struct mmci_cuda_batch {
  mmci_cuda_batch_kind kind;
  double seconds;
} mmci_cuda_batch;

/* Returns how a native batch of floating point is multiplied. Any threads may call it. */
mmci_cuda_batch mmci_cuda_way_of_batch(const mmci_device *device, const mmci_gemm *gemm);

#endif
