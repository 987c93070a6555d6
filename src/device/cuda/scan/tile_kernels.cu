/* tile_kernels.cu: long scans of small square matrices in tiles, see scan_kernels.h.
 *
 * A row of a state depends on no other row of the states before. So a lane keeps one row in
 * registers, or two in f32, a few lanes are a chain, and a factor is read by all of them from
 * shared memory, where chains lie apart by 16 bytes more than a matrix, in other banks. The next
 * factor is on its way while one is multiplied. Chains of a block are brought together by
 * log2(chains) products each (Kogge and Stone 1973). States leave through shared memory, so that
 * they are written in whole lines.
 *
 * Launch  128 threads a block, a block for every tile of every scan */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/scan/scan_kernels.h"

namespace {

enum { THREADS = 128, PIECE_BYTES = 16 };

/* How many rows a lane keeps: two halve the reads of shared memory, which bound one. */
template <typename Real>
constexpr int ROWS = sizeof(Real) == 4 ? 2 : 1;

template <typename Real, int N>
struct Chain {
  enum {
    OWN = ROWS<Real>, /* rows of a lane */
    LANES = N / OWN,
    CHAINS = THREADS / LANES,
    PIECE = PIECE_BYTES / sizeof(Real), /* elements in 16 bytes */
    PIECES = N / PIECE,                 /* of a row */
    MOVES = PIECES * OWN,               /* of what a lane moves of a matrix */
    SLOT = N * N + PIECE
  };

  /* The rows lane, lane + LANES, ... of a state. */
  struct Rows {
    Real of[OWN][N];
  };

  struct alignas(PIECE_BYTES) Piece {
    Real of[PIECE];
  };

  /* A matrix on its way: pieces in the order in which they lie, or elements by columns. */
  struct Moved {
    Piece piece[MOVES];
  };

  int lane, chain;

  __device__ __forceinline__ Chain()
      : lane((int)threadIdx.x % LANES), chain((int)threadIdx.x / LANES) {}

  /* Pieces can be moved where every matrix begins at a multiple of 16 bytes and has no gaps. */
  static __device__ __forceinline__ bool is_whole(const mmci_cuda_stack &x) {
    return x.ld == N && !x.turned && (uintptr_t)x.data % PIECE_BYTES == 0 && x.step % PIECE == 0 &&
           x.stride % PIECE == 0;
  }

  __device__ __forceinline__ void load(const mmci_cuda_stack &x, bool whole, const Real *from,
                                       Moved *out) const {
#pragma unroll
    for (int v = 0; v < MOVES; v++) {
      if (whole) {
        out->piece[v] = reinterpret_cast<const Piece *>(from)[v * LANES + lane];
        continue;
      }
#pragma unroll
      for (int e = 0; e < PIECE; e++) {
        const int at = (v * PIECE + e) * LANES + lane, r = at / N, c = at % N;
        out->piece[v].of[e] = x.turned ? from[c * x.ld + r] : from[r * x.ld + c];
      }
    }
  }

  __device__ __forceinline__ void put(Real *slot, bool whole, const Moved &x) const {
#pragma unroll
    for (int v = 0; v < MOVES; v++) {
      if (whole) {
        reinterpret_cast<Piece *>(slot)[v * LANES + lane] = x.piece[v];
        continue;
      }
#pragma unroll
      for (int e = 0; e < PIECE; e++) slot[(v * PIECE + e) * LANES + lane] = x.piece[v].of[e];
    }
  }

  __device__ __forceinline__ void store(const mmci_cuda_stack &x, bool whole, const Real *slot,
                                        Real *to) const {
#pragma unroll
    for (int v = 0; v < MOVES; v++) {
      if (whole) {
        reinterpret_cast<Piece *>(to)[v * LANES + lane] =
            reinterpret_cast<const Piece *>(slot)[v * LANES + lane];
        continue;
      }
#pragma unroll
      for (int e = 0; e < PIECE; e++) {
        const int at = (v * PIECE + e) * LANES + lane, r = at / N, c = at % N;
        to[x.turned ? c * x.ld + r : r * x.ld + c] = slot[at];
      }
    }
  }

  __device__ __forceinline__ void put_rows(Real *slot, const Rows &rows) const {
#pragma unroll
    for (int r = 0; r < OWN; r++)
#pragma unroll
      for (int v = 0; v < PIECES; v++) {
        Piece piece;
#pragma unroll
        for (int e = 0; e < PIECE; e++) piece.of[e] = rows.of[r][v * PIECE + e];
        reinterpret_cast<Piece *>(slot + (lane + r * LANES) * N)[v] = piece;
      }
  }

  __device__ __forceinline__ void get_rows(const Real *slot, Rows *rows) const {
#pragma unroll
    for (int r = 0; r < OWN; r++)
#pragma unroll
      for (int v = 0; v < PIECES; v++) {
        const Piece piece = reinterpret_cast<const Piece *>(slot + (lane + r * LANES) * N)[v];
#pragma unroll
        for (int e = 0; e < PIECE; e++) rows->of[r][v * PIECE + e] = piece.of[e];
      }
  }

  /* rows = rows M, where M is in shared memory. */
  static __device__ __forceinline__ void multiply(Rows *rows, const Real *matrix) {
    Rows sum;
#pragma unroll
    for (int r = 0; r < OWN; r++)
#pragma unroll
      for (int j = 0; j < N; j++) sum.of[r][j] = 0;
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
      for (int v = 0; v < PIECES; v++) {
        const Piece piece = reinterpret_cast<const Piece *>(matrix + k * N)[v];
#pragma unroll
        for (int r = 0; r < OWN; r++)
#pragma unroll
          for (int e = 0; e < PIECE; e++) sum.of[r][v * PIECE + e] += rows->of[r][k] * piece.of[e];
      }
    *rows = sum;
  }
};

/* Multiplies rows, where there is a state before, by count factors, and writes every state where
 * states is not NULL. Lanes of a warp go through run steps together. */
template <typename Real, int N>
__device__ __forceinline__ void walk(const Chain<Real, N> &own, const mmci_cuda_tiles &pass,
                                     int64_t b, int64_t begin, int64_t count, bool has_before,
                                     typename Chain<Real, N>::Rows *rows, Real *slot,
                                     Real *out_slot) {
  typedef Chain<Real, N> C;
  const mmci_cuda_stack &factors = pass.factors, &states = pass.states;
  const bool whole = C::is_whole(factors), whole_out = C::is_whole(states);
  const Real *a =
      static_cast<const Real *>(factors.data) + b * factors.stride + begin * factors.step;
  Real *c = out_slot == nullptr ? nullptr
                                : static_cast<Real *>(const_cast<void *>(states.data)) +
                                      b * states.stride + begin * states.step;
  typename C::Moved next;
  if (count > 0) own.load(factors, whole, a, &next);
  for (int64_t i = 0; i < pass.run; i++) {
    __syncwarp();
    if (i < count) own.put(slot, whole, next);
    __syncwarp();
    if (i + 1 < count) own.load(factors, whole, a + (i + 1) * factors.step, &next);
    if (i < count) {
      if (i > 0 || has_before)
        C::multiply(rows, slot);
      else
        own.get_rows(slot, rows);
    }
    if (out_slot == nullptr) continue;
    if (i < count) own.put_rows(out_slot, *rows);
    __syncwarp();
    if (i < count) own.store(states, whole_out, out_slot, c + i * states.step);
  }
}

/* Makes of every chain's product that of all chains up to it, in registers and in slots. */
template <typename Real, int N>
__device__ __forceinline__ void join(const Chain<Real, N> &own, int64_t chains,
                                     typename Chain<Real, N>::Rows *rows, Real *slots) {
  typedef Chain<Real, N> C;
  Real *slot = slots + own.chain * C::SLOT;
  for (int apart = 1; apart < chains; apart *= 2) {
    __syncthreads();
    own.put_rows(slot, *rows);
    __syncthreads();
    if (own.chain >= apart) {
      own.get_rows(slot - apart * C::SLOT, rows);
      C::multiply(rows, slot);
    }
  }
  __syncthreads();
  own.put_rows(slot, *rows);
  __syncthreads();
}

/* The part of a tile that a chain takes. */
struct Part {
  int64_t b, tile, begin, count, chains; /* chains of the tile that have factors */
};

template <typename Real, int N>
__device__ __forceinline__ Part part_of(const Chain<Real, N> &own, const mmci_cuda_tiles &pass) {
  Part p;
  p.tile = (int64_t)blockIdx.x % pass.tiles;
  p.b = (int64_t)blockIdx.x / pass.tiles;
  const int64_t first = p.tile * Chain<Real, N>::CHAINS * pass.run;
  p.begin = first + own.chain * pass.run;
  const int64_t left = pass.length - p.begin;
  p.count = left < 0 ? 0 : left < pass.run ? left : pass.run;
  const int64_t runs = (pass.length - first + pass.run - 1) / pass.run;
  p.chains = runs < Chain<Real, N>::CHAINS ? runs : (int64_t)Chain<Real, N>::CHAINS;
  return p;
}

/* Returns where the product of a tile's first chains, up to number `chain`, is kept. */
template <typename Real, int N>
__device__ __forceinline__ Real *kept(const mmci_cuda_tiles &pass, const Part &part, int chain) {
  const int64_t tile = part.b * pass.tiles + part.tile;
  return static_cast<Real *>(pass.parts) + (tile * Chain<Real, N>::CHAINS + chain) * N * N;
}

template <typename Real, int N>
__global__ void __launch_bounds__(THREADS) reduce(const mmci_cuda_tiles pass) {
  typedef Chain<Real, N> C;
  MMCI_DYNAMIC_SHARED(memory);
  Real *slots = reinterpret_cast<Real *>(memory);
  const C own;
  const Part part = part_of(own, pass);
  typename C::Rows rows = {};
  Real *slot = slots + own.chain * C::SLOT;
  walk(own, pass, part.b, part.begin, part.count, false, &rows, slot, (Real *)nullptr);
  join(own, part.chains, &rows, slots);
  if (own.chain >= part.chains) return;
  mmci_cuda_stack tight = {};
  own.store(tight, true, slot, kept<Real, N>(pass, part, own.chain));
  if (own.chain < part.chains - 1) return;
  own.store(tight, true, slot,
            static_cast<Real *>(pass.totals) + (part.b * pass.tiles + part.tile) * N * N);
}

/* Reads the own rows of the state before a tile. Returns false where there is none. */
template <typename Real, int N>
__device__ __forceinline__ bool read_carry(const Chain<Real, N> &own, const mmci_cuda_tiles &pass,
                                           const Part &part, typename Chain<Real, N>::Rows *rows) {
  typedef Chain<Real, N> C;
  const mmci_cuda_stack &x = pass.initial;
  if (part.tile == 0 && x.data == nullptr) return false;
  const Real *carry = part.tile > 0 ? static_cast<const Real *>(pass.carries) +
                                          (part.b * pass.tiles + part.tile - 1) * N * N
                                    : static_cast<const Real *>(x.data) + part.b * x.stride;
  const int64_t ld = part.tile > 0 ? (int64_t)N : x.ld;
  const bool turned = part.tile == 0 && x.turned;
#pragma unroll
  for (int r = 0; r < C::OWN; r++)
#pragma unroll
    for (int j = 0; j < N; j++) {
      const int row = own.lane + r * C::LANES;
      rows->of[r][j] = turned ? carry[j * ld + row] : carry[row * ld + j];
    }
  return true;
}

template <typename Real, int N>
__global__ void __launch_bounds__(THREADS) finish(const mmci_cuda_tiles pass) {
  typedef Chain<Real, N> C;
  MMCI_DYNAMIC_SHARED(memory);
  Real *slots = reinterpret_cast<Real *>(memory), *out_slots = slots + C::CHAINS * C::SLOT;
  const C own;
  const Part part = part_of(own, pass);
  Real *slot = slots + own.chain * C::SLOT;
  typename C::Rows rows = {};
  if (pass.tiles == 1 && part.chains > 1) {
    walk(own, pass, part.b, part.begin, part.count, false, &rows, slot, (Real *)nullptr);
    join(own, part.chains, &rows, slots);
  } else if (own.chain > 0 && own.chain < part.chains) {
    mmci_cuda_stack tight = {};
    typename C::Moved before;
    own.load(tight, true, kept<Real, N>(pass, part, own.chain - 1), &before);
    own.put(slot - C::SLOT, true, before);
  }
  __syncthreads();
  bool has_before = read_carry(own, pass, part, &rows);
  if (own.chain > 0 && own.chain < part.chains) {
    if (has_before)
      C::multiply(&rows, slot - C::SLOT);
    else
      own.get_rows(slot - C::SLOT, &rows);
    has_before = true;
  }
  __syncthreads();
  walk(own, pass, part.b, part.begin, part.count, has_before, &rows, slot,
       out_slots + own.chain * C::SLOT);
}

template <typename Real, int N>
mmc_status launch(cudaStream_t stream, const mmci_cuda_tiles *pass, bool finishes,
                  mmci_error *error) {
  typedef Chain<Real, N> C;
  const auto kernel = finishes ? finish<Real, N> : reduce<Real, N>;
  const size_t shared = (size_t)(finishes ? 2 : 1) * C::CHAINS * C::SLOT * sizeof(Real);
  const unsigned blocks = (unsigned)(pass->tiles * pass->batch);
  MMCI_CUDA_TRY(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  MMCI_CUDA_TRY(mmci_launch(kernel, dim3(blocks), dim3(THREADS), shared, stream, *pass));
  return MMC_OK;
}

template <typename Real>
mmc_status launch_size(cudaStream_t stream, const mmci_cuda_tiles *pass, bool finishes,
                       mmci_error *error) {
  if (pass->n == 4) return launch<Real, 4>(stream, pass, finishes, error);
  if (pass->n == 8) return launch<Real, 8>(stream, pass, finishes, error);
  return launch<Real, 16>(stream, pass, finishes, error);
}

mmc_status launch_dtype(cudaStream_t stream, const mmci_cuda_tiles *pass, bool finishes,
                        mmci_error *error) {
  return pass->dtype == MMC_F32 ? launch_size<float>(stream, pass, finishes, error)
                                : launch_size<double>(stream, pass, finishes, error);
}

}  // namespace

extern "C" bool mmci_cuda_tiles_can(mmc_dtype dtype, int64_t n) {
  return (dtype == MMC_F32 || dtype == MMC_F64) && (n == 4 || n == 8 || n == 16);
}

extern "C" int64_t mmci_cuda_tiles_chains(mmc_dtype dtype, int64_t n) {
  return THREADS / n * (dtype == MMC_F32 ? ROWS<float> : ROWS<double>);
}

extern "C" mmc_status mmci_cuda_tiles_reduce(cudaStream_t stream, const mmci_cuda_tiles *pass,
                                             mmci_error *error) {
  return launch_dtype(stream, pass, false, error);
}

extern "C" mmc_status mmci_cuda_tiles_finish(cudaStream_t stream, const mmci_cuda_tiles *pass,
                                             mmci_error *error) {
  return launch_dtype(stream, pass, true, error);
}
