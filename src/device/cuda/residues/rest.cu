/* rest.cu: what residues leave of a product of floating-point numbers, by rest.cuh. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/emulated/rest.cuh"
#include "device/cuda/residues/residues_kernels.h"

template <class Number>
struct mmci_residue_left {
  typedef Number Element;
  const mmci_residue_row *a_rows, *b_rows;
  const mmci_residue_state *state;
  __device__ __forceinline__ bool a_left(int64_t row) const { return a_rows[row].left != 0; }
  __device__ __forceinline__ bool b_left(int64_t col) const { return b_rows[col].left != 0; }
  __device__ __forceinline__ int64_t rows() const { return state->rows_left; }
  __device__ __forceinline__ int64_t cols() const { return state->cols_left; }
  __device__ __forceinline__ bool all(int64_t, int64_t) const { return state->planes == 0; }
};

extern "C" mmc_status mmci_residues_rest(cudaStream_t stream, const mmci_residue_product *product,
                                         int multiprocessors, const void *a, const void *b, void *c,
                                         mmci_error *error) {
  const mmci_residue_left<double> doubles = {product->a.row, product->b.row, product->state};
  const mmci_residue_left<float> floats = {product->a.row, product->b.row, product->state};
  const mmci_gemm *g = &product->gemm;
  return g->dtype == MMC_F32
             ? mmci_rest_launch(stream, floats, g, multiprocessors, a, b, c, error)
             : mmci_rest_launch(stream, doubles, g, multiprocessors, a, b, c, error);
}
