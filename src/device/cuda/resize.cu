/* resize.cu: copies matrices to others of more or fewer lines and elements of a line, zeros where
 * there is nothing to copy.
 *
 * A thread writes 16 bytes of DEEP lines at once, aligned as they are to be written; it reads them
 * one by one, as they may lie anyhow, and its neighbours read the rest of what is fetched. So each
 * byte goes from and to memory once. Complex numbers are two real ones.
 *
 * Launch  a block of 32 x 8 threads for every 512 bytes x 32 lines, of all matrices */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"

namespace {

enum { ACROSS = 32, DOWN = 8, THREADS = ACROSS * DOWN, DEEP = 4, STORE_BYTES = 16 };

/* In real numbers. */
template <typename Real>
struct Part {
  const Real *from;
  Real *to;
  int64_t lines, length, ld, to_lines, to_length, to_ld;
  int64_t first_block, blocks_across;
};

template <typename Real>
struct Parts {
  Part<Real> part[MMCI_RESIZED];
  int count;
};

template <typename Real>
struct alignas(STORE_BYTES) Wide {
  enum { COUNT = STORE_BYTES / sizeof(Real) };
  Real real[COUNT];
};

/* Where in a line the thread's piece begins: before 0 in the first of a line that begins in the
 * middle of what is written at once. */
template <typename Real>
__device__ __forceinline__ int64_t start_of(const Real *line, int64_t piece) {
  constexpr int64_t COUNT = Wide<Real>::COUNT;
  return piece * COUNT - (int64_t)((uintptr_t)line / sizeof(Real) % COUNT);
}

template <typename Real>
__device__ __forceinline__ void read(const Part<Real> &part, int64_t line, int64_t start,
                                     Wide<Real> *out) {
  const Real *from = part.from + line * part.ld;
#pragma unroll
  for (int i = 0; i < Wide<Real>::COUNT; i++) {
    const int64_t at = start + i;
    out->real[i] = line < part.lines && at >= 0 && at < part.length ? from[at] : Real(0);
  }
}

template <typename Real>
__device__ __forceinline__ void write(const Part<Real> &part, int64_t line, int64_t start,
                                      const Wide<Real> &wide) {
  if (line >= part.to_lines) return;
  Real *to = part.to + line * part.to_ld;
  if (start >= 0 && start + Wide<Real>::COUNT <= part.to_length) {
    *reinterpret_cast<Wide<Real> *>(to + start) = wide;
    return;
  }
#pragma unroll
  for (int i = 0; i < Wide<Real>::COUNT; i++)
    if (start + i >= 0 && start + i < part.to_length) to[start + i] = wide.real[i];
}

template <typename Real>
__global__ void __launch_bounds__(THREADS) resize(const Parts<Real> parts) {
  int p = 0;
  while (p + 1 < parts.count && (int64_t)blockIdx.x >= parts.part[p + 1].first_block) p++;
  const Part<Real> part = parts.part[p];
  const int64_t block = (int64_t)blockIdx.x - part.first_block;
  const int64_t piece = block % part.blocks_across * ACROSS + threadIdx.x % ACROSS;
  const int64_t first = block / part.blocks_across * (DEEP * DOWN) + threadIdx.x / ACROSS;
  Wide<Real> wide[DEEP];
#pragma unroll
  for (int d = 0; d < DEEP; d++) {
    const int64_t line = first + d * DOWN;
    read(part, line, start_of(part.to + line * part.to_ld, piece), &wide[d]);
  }
#pragma unroll
  for (int d = 0; d < DEEP; d++) {
    const int64_t line = first + d * DOWN;
    write(part, line, start_of(part.to + line * part.to_ld, piece), wide[d]);
  }
}

template <typename Real>
mmc_status resize_all(cudaStream_t stream, const mmci_resizing *matrices, int count, int reals,
                      mmci_error *error) {
  constexpr int64_t COUNT = Wide<Real>::COUNT;
  Parts<Real> parts = {};
  int64_t blocks = 0;
  for (int i = 0; i < count; i++) {
    const mmci_resizing *x = &matrices[i];
    if (x->to_lines == 0 || x->to_length == 0) continue;
    /* A line that begins in the middle of a piece has one more. */
    const int64_t pieces = (x->to_length * reals + 2 * COUNT - 2) / COUNT;
    const int64_t across = (pieces + ACROSS - 1) / ACROSS;
    parts.part[parts.count++] = {static_cast<const Real *>(x->from),
                                 static_cast<Real *>(x->to),
                                 x->lines,
                                 x->length * reals,
                                 x->ld * reals,
                                 x->to_lines,
                                 x->to_length * reals,
                                 x->to_ld * reals,
                                 blocks,
                                 across};
    blocks += across * ((x->to_lines + DEEP * DOWN - 1) / (DEEP * DOWN));
  }
  if (blocks == 0) return MMC_OK;
  MMCI_CUDA_TRY(mmci_launch(resize<Real>, dim3((unsigned)blocks), dim3(THREADS), 0, stream, parts));
  return MMC_OK;
}

}  // namespace

extern "C" mmc_status mmci_cuda_resize(cudaStream_t stream, mmc_dtype dtype,
                                       const mmci_resizing *matrices, int count,
                                       mmci_error *error) {
  switch (dtype) {
    case MMC_F16:
    case MMC_BF16:
      return resize_all<uint16_t>(stream, matrices, count, 1, error);
    case MMC_F32:
      return resize_all<uint32_t>(stream, matrices, count, 1, error);
    case MMC_F64:
      return resize_all<uint64_t>(stream, matrices, count, 1, error);
    case MMC_C64:
      return resize_all<uint32_t>(stream, matrices, count, 2, error);
    case MMC_C128:
      return resize_all<uint64_t>(stream, matrices, count, 2, error);
  }
  return mmci_fail(error, MMC_E_ARG, "dtype: expected one of mmc_dtype, got %d", (int)dtype);
}
