/* left.cuh: decides how C is computed: all of it by bytes, or what is not left to rest.cu by FP16
 * parts. All kernels that write C follow it. */
#ifndef MMCI_CUDA_EMULATED_LEFT_CUH
#define MMCI_CUDA_EMULATED_LEFT_CUH

#include "device/cuda/emulated/bytes.cuh"
#include "device/cuda/emulated/emulated_kernels.h"

/* Sums in device memory and their limits; NULL where bytes are not tried. */
struct mmci_rough {
  const uint64_t *a, *b;
  uint64_t a_most, b_most;
};

static inline mmci_rough mmci_rough_of(const mmci_emulated_product *product) {
  if (!product->bytes) return {};
  return {product->a.rough, product->b.rough, MMCI_ROUGH * (uint64_t)product->a.rows,
          MMCI_ROUGH * (uint64_t)product->b.rows};
}

static __device__ __forceinline__ bool mmci_bytes_are_enough(const mmci_rough &rough) {
  return rough.a != nullptr && *rough.a <= rough.a_most && *rough.b <= rough.b_most;
}

/* Counts in device memory. */
struct mmci_left {
  const int32_t *rows, *cols;
};

static inline mmci_left mmci_left_of(const mmci_emulated_product *product) {
  return {product->a.left, product->b.left};
}

/* Says whether so much is left that all of it is. */
static __device__ __forceinline__ bool mmci_left_is_most(mmci_left left, int64_t m, int64_t n) {
  return 2 * (*left.rows * n + *left.cols * m) >= m * n;
}

#endif
