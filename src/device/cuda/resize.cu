/* resize.cu: copies matrices to others of more or fewer lines and elements of a line, zeros where
 * there is nothing to copy.
 *
 * A thread writes pieces of 16 bytes, aligned as they are to be written, of DEEP lines. It reads
 * them by elements, as they may lie anyhow, those of 16 bits two at once: its neighbours read what
 * else is fetched, so each byte goes from and to memory once. Complex numbers are two real ones.
 *
 * Launch  256 threads a block, 32 to 128 of them along a line, for all matrices */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"

namespace {

enum { THREADS = 256, LEAST_ACROSS = 32, MOST_ACROSS = 128, DEEP = 2, PIECE_BYTES = 16 };

/* One matrix of a launch; lengths and places are in real numbers. */
template <typename Real>
struct Part {
  const Real *from;
  Real *to;
  int64_t lines, length, ld, to_lines, to_length, to_ld;
  int64_t first_block, blocks_across;
  int across; /* how many threads share a line */
};

template <typename Real>
struct Parts {
  Part<Real> part[MMCI_RESIZED];
  int count;
};

template <typename Real>
constexpr int COUNT = PIECE_BYTES / sizeof(Real); /* real numbers in a piece */

struct Piece {
  uint32_t word[4];
};

template <typename Real>
__device__ __forceinline__ void put(Piece *piece, int i, Real value) {
  if (sizeof(Real) == 8) {
    piece->word[2 * i] = (uint32_t)value;
    piece->word[2 * i + 1] = (uint32_t)((uint64_t)value >> 32);
  } else if (sizeof(Real) == 4) {
    piece->word[i] = (uint32_t)value;
  } else {
    const uint32_t rest = i % 2 == 0 ? 0 : piece->word[i / 2];
    piece->word[i / 2] = rest | (uint32_t)value << (16 * (i % 2));
  }
}

template <typename Real>
__device__ __forceinline__ Real get(const Piece &piece, int i) {
  if (sizeof(Real) == 8) return (Real)((uint64_t)piece.word[2 * i + 1] << 32 | piece.word[2 * i]);
  if (sizeof(Real) == 4) return (Real)piece.word[i];
  return (Real)(piece.word[i / 2] >> (16 * (i % 2)));
}

/* Returns where in a line the piece begins: below 0 for the first piece of a line that begins in
 * the middle of 16 bytes. */
template <typename Real>
__device__ __forceinline__ int64_t start_of(const Real *line, int64_t piece) {
  return piece * COUNT<Real> - (int64_t)((uintptr_t)line / sizeof(Real) % COUNT<Real>);
}

/* Reads a piece that lies within the line. Numbers of 16 bits that begin in the middle of a word
 * are read with those beside them, where the line goes on. */
template <typename Real>
__device__ __forceinline__ void read_whole(const Real *from, bool more, Piece *out) {
  if (sizeof(Real) == 2 && (uintptr_t)from % 4 == 0) {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(from);
#pragma unroll
    for (int i = 0; i < 4; i++) out->word[i] = words[i];
    return;
  }
  if (sizeof(Real) == 2 && more) {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(from - 1);
    uint32_t word = words[0];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t next = words[i + 1];
      out->word[i] = word >> 16 | next << 16;
      word = next;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < COUNT<Real>; i++) put(out, i, from[i]);
}

template <typename Real>
__device__ __forceinline__ void read(const Part<Real> &part, int64_t line, int64_t start,
                                     Piece *out) {
  const Real *from = part.from + line * part.ld;
  const int64_t end = start + COUNT<Real>;
  if (line < part.lines && start >= 0 && end <= part.length) {
    read_whole(from + start, end < part.length, out);
    return;
  }
#pragma unroll
  for (int i = 0; i < COUNT<Real>; i++) {
    const int64_t at = start + i;
    put(out, i, line < part.lines && at >= 0 && at < part.length ? from[at] : Real(0));
  }
}

template <typename Real>
__device__ __forceinline__ void write(const Part<Real> &part, int64_t line, int64_t start,
                                      const Piece &piece) {
  if (line >= part.to_lines) return;
  Real *to = part.to + line * part.to_ld;
  if (start >= 0 && start + COUNT<Real> <= part.to_length) {
    mmci_store(to + start, piece.word);
    return;
  }
#pragma unroll
  for (int i = 0; i < COUNT<Real>; i++)
    if (start + i >= 0 && start + i < part.to_length) to[start + i] = get<Real>(piece, i);
}

template <typename Real>
__global__ void __launch_bounds__(THREADS) resize(const Parts<Real> parts) {
  int p = 0;
  while (p + 1 < parts.count && (int64_t)blockIdx.x >= parts.part[p + 1].first_block) p++;
  const Part<Real> part = parts.part[p];
  const int across = part.across, down = THREADS / across, thread = (int)threadIdx.x;
  const int64_t block = (int64_t)blockIdx.x - part.first_block;
  const int64_t number = block % part.blocks_across * across + thread % across;
  const int64_t first = block / part.blocks_across * (DEEP * down) + thread / across;
  Piece pieces[DEEP];
#pragma unroll
  for (int d = 0; d < DEEP; d++) {
    const int64_t line = first + d * down;
    read(part, line, start_of(part.to + line * part.to_ld, number), &pieces[d]);
  }
#pragma unroll
  for (int d = 0; d < DEEP; d++) {
    const int64_t line = first + d * down;
    write(part, line, start_of(part.to + line * part.to_ld, number), pieces[d]);
  }
}

template <typename Real>
mmc_status resize_all(cudaStream_t stream, const mmci_resizing *matrices, int count, int reals,
                      mmci_error *error) {
  Parts<Real> parts = {};
  int64_t blocks = 0;
  for (int i = 0; i < count; i++) {
    const mmci_resizing *x = &matrices[i];
    if (x->to_lines == 0 || x->to_length == 0) continue;
    /* A line that begins in the middle of a piece has one more. */
    const int64_t pieces = (x->to_length * reals + 2 * COUNT<Real> - 2) / COUNT<Real>;
    int across = LEAST_ACROSS;
    while (across < MOST_ACROSS && across < pieces) across *= 2;
    const int64_t blocks_across = (pieces + across - 1) / across, lines = DEEP * THREADS / across;
    parts.part[parts.count++] = {static_cast<const Real *>(x->from),
                                 static_cast<Real *>(x->to),
                                 x->lines,
                                 x->length * reals,
                                 x->ld * reals,
                                 x->to_lines,
                                 x->to_length * reals,
                                 x->to_ld * reals,
                                 blocks,
                                 blocks_across,
                                 across};
    blocks += blocks_across * ((x->to_lines + lines - 1) / lines);
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
    default:
      break;
  }
  return mmci_fail(error, MMC_E_ARG, "dtype: expected one of mmc_dtype, got %d", (int)dtype);
}
