/* rest.cu: what bytes and FP16 parts leave of an FP32 product, by rest.cuh. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/emulated/emulated_kernels.h"
#include "device/cuda/emulated/left.cuh"
#include "device/cuda/emulated/parts.cuh"
#include "device/cuda/emulated/rest.cuh"

struct mmci_emulated_left {
  typedef float Element;
  const mmci_emulated_row *a_rows, *b_rows;
  mmci_left counts;
  __device__ __forceinline__ bool a_left(int64_t row) const {
    return a_rows[row].exponent == MMCI_PARTS_LEFT;
  }
  __device__ __forceinline__ bool b_left(int64_t col) const {
    return b_rows[col].exponent == MMCI_PARTS_LEFT;
  }
  __device__ __forceinline__ int64_t rows() const { return *counts.rows; }
  __device__ __forceinline__ int64_t cols() const { return *counts.cols; }
  __device__ __forceinline__ bool all(int64_t m, int64_t n) const {
    return mmci_left_is_most(counts, m, n);
  }
};

extern "C" mmc_status mmci_emulated_rest(cudaStream_t stream, const mmci_emulated_product *product,
                                         int multiprocessors, const float *a, const float *b,
                                         float *c, mmci_error *error) {
  const mmci_emulated_left left = {product->a.row, product->b.row, mmci_left_of(product)};
  return mmci_rest_launch(stream, left, &product->gemm, multiprocessors, a, b, c, error);
}
