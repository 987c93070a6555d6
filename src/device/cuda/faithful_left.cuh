/* faithful_left.cuh: how much of C is left to faithful_rest.cu. Both kernels that write C follow
 * it. */
#ifndef MMCI_CUDA_FAITHFUL_LEFT_CUH
#define MMCI_CUDA_FAITHFUL_LEFT_CUH

#include "device/cuda/faithful_kernels.h"

/* Counts in device memory. */
struct mmci_left {
  const int32_t *rows, *cols;
};

static inline mmci_left mmci_left_of(const mmci_faithful_product *product) {
  return {product->a.left, product->b.left};
}

static __device__ __forceinline__ bool mmci_left_is_nothing(mmci_left left) {
  return *left.rows == 0 && *left.cols == 0;
}

/* Then all of it is. */
static __device__ __forceinline__ bool mmci_left_is_most(mmci_left left, int64_t m, int64_t n) {
  return 2 * (*left.rows * n + *left.cols * m) >= m * n;
}

#endif
