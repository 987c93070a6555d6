/* copy_tiles.cu: copies a matrix within the device's memory, transposed or conjugated on the way.
 * One 32 x 32 tile per block; a transposed one turns around in shared memory, so that reads and
 * writes are both of lines.
 *
 * Elements are moved as bits: a conjugated one has its sign bit flipped, so NaNs stay what they
 * are. Truths become 0 or 1.
 *
 * Launch  a 1-D grid that strides over the tiles, 256 threads, 4 elements each */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"

enum { TILE = 32, LINES = 8, THREADS = TILE * LINES };
static const int64_t MOST_BLOCKS = 1 << 20;

template <typename Bits>
struct Pair {
  Bits re, im;
};

struct Truth {
  uint8_t byte;
};

template <typename Bits>
static __device__ __forceinline__ Bits copied(Bits real, bool) {
  return real;
}
template <typename Bits>
static __device__ __forceinline__ Pair<Bits> copied(Pair<Bits> value, bool conj) {
  if (conj) value.im ^= (Bits)1 << (8 * sizeof(Bits) - 1);
  return value;
}
static __device__ __forceinline__ Truth copied(Truth value, bool) {
  value.byte = value.byte != 0;
  return value;
}

/* Copies to[r * to_ld + c] = from[r * ld + c], or from[c * ld + r] when trans. */
template <typename Element>
__global__ void __launch_bounds__(THREADS)
    copy_tiles(int64_t rows, int64_t cols, const Element *from, int64_t ld, bool trans, bool conj,
               Element *to, int64_t to_ld) {
  /* The odd width spreads columns over the banks. */
  __shared__ Element tile[TILE][TILE + 1];
  const int across = (int)threadIdx.x % TILE, down = (int)threadIdx.x / TILE;
  const int64_t tiles_across = (cols + TILE - 1) / TILE;
  const int64_t tiles = (rows + TILE - 1) / TILE * tiles_across;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t first_row = t / tiles_across * TILE, first_col = t % tiles_across * TILE;
    if (!trans) {
#pragma unroll
      for (int d = 0; d < TILE; d += LINES) {
        int64_t r = first_row + down + d, c = first_col + across;
        if (r < rows && c < cols) to[r * to_ld + c] = copied(from[r * ld + c], conj);
      }
      continue;
    }
#pragma unroll
    for (int d = 0; d < TILE; d += LINES) {
      int64_t c = first_col + down + d, r = first_row + across;
      if (r < rows && c < cols) tile[down + d][across] = from[c * ld + r];
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < TILE; d += LINES) {
      int64_t r = first_row + down + d, c = first_col + across;
      if (r < rows && c < cols) to[r * to_ld + c] = copied(tile[across][down + d], conj);
    }
    __syncthreads();
  }
}

template <typename Element>
static mmc_status copy_matrix(cudaStream_t stream, int64_t rows, int64_t cols, const void *from,
                              int64_t ld, bool trans, bool conj, void *to, int64_t to_ld,
                              mmci_error *error) {
  int64_t tiles = (rows + TILE - 1) / TILE * ((cols + TILE - 1) / TILE);
  if (tiles == 0) return MMC_OK;
  unsigned blocks = (unsigned)(tiles < MOST_BLOCKS ? tiles : MOST_BLOCKS);
  MMCI_CUDA_TRY(mmci_launch(copy_tiles<Element>, dim3(blocks), dim3(THREADS), 0, stream, rows, cols,
                            static_cast<const Element *>(from), ld, trans, conj,
                            static_cast<Element *>(to), to_ld));
  return MMC_OK;
}

extern "C" mmc_status mmci_cuda_copy_tiles(cudaStream_t stream, mmc_dtype dtype, int64_t rows,
                                           int64_t cols, const void *from, const mmci_form *form,
                                           void *to, int64_t to_ld, bool to_trans,
                                           mmci_error *error) {
  /* The result is written row-major; when it is not, the transposed matrices are copied. */
  const bool trans = form->trans != to_trans, conj = form->conj;
  const int64_t lines = to_trans ? cols : rows, length = to_trans ? rows : cols, ld = form->ld;
  switch (dtype) {
    case MMC_I8:
    case MMC_U8:
      return copy_matrix<uint8_t>(stream, lines, length, from, ld, trans, conj, to, to_ld, error);
    case MMC_I16:
    case MMC_U16:
    case MMC_F16:
    case MMC_BF16:
      return copy_matrix<uint16_t>(stream, lines, length, from, ld, trans, conj, to, to_ld, error);
    case MMC_I32:
    case MMC_U32:
    case MMC_F32:
      return copy_matrix<uint32_t>(stream, lines, length, from, ld, trans, conj, to, to_ld, error);
    case MMC_I64:
    case MMC_U64:
    case MMC_F64:
      return copy_matrix<uint64_t>(stream, lines, length, from, ld, trans, conj, to, to_ld, error);
    case MMC_C64:
      return copy_matrix<Pair<uint32_t>>(stream, lines, length, from, ld, trans, conj, to, to_ld,
                                         error);
    case MMC_C128:
      return copy_matrix<Pair<uint64_t>>(stream, lines, length, from, ld, trans, conj, to, to_ld,
                                         error);
    case MMC_BOOL:
      return copy_matrix<Truth>(stream, lines, length, from, ld, trans, conj, to, to_ld, error);
    default:
      break;
  }
  return mmci_fail(error, MMC_E_ARG, "dtype: expected one of mmc_dtype, got %d", (int)dtype);
}
