/* strand_kernels.cu: running products of matrices of up to 16 rows on tensor cores of doubles, see
 * scan_kernels.h.
 *
 * A warp follows a strand, a run of factors one after the other, and keeps the state in registers,
 * in doubles whatever the dtype. What a product leaves on a lane is what the lane gives to the next
 * product, because columns of the state and lines of the factor stand in the order that the tensor
 * core wants: so nothing is exchanged, and every element of a factor is read once, from memory.
 *
 * A tile is the strands of a block. The block finds its product, tells it to others and, from what
 * blocks before have told (Merrill and Garland 2016), the state before the tile: the products of
 * the tiles of its group, of the groups of its row of groups, and the state before the row. So the
 * order of products is the same whatever block is first. Then every strand is followed again, from
 * the state before it, and its states are written. Factors are read twice, the second time from the
 * cache where the scan is short.
 *
 * Launch  a block of 8 or 16 warps for every tile of every scan; a tile's number is drawn when its
 *         block starts, so that it waits for blocks that have started before it */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/scan/scan_kernels.h"
#include "device/cuda/scan/strands.cuh"

namespace {

/* Tiles of a group, groups of a row, and slots for what is looked at together: these, and the state
 * before them. */
enum { ROW = 16, WINDOW = ROW + 1 };
/* The words before the flags: the next tile, tiles that are done, executions that are done. */
enum { TICKET, DONE, EPOCH, CONTROL };

/* WARPS of a block, which have AHEAD factors each on their way. */
template <typename Matrix_, int WARPS_, int AHEAD_>
struct Shape {
  typedef Matrix_ Matrix;
  enum {
    WARPS = WARPS_,
    AHEAD = AHEAD_,
    THREADS = WARPS * WARP,
    BLOCKS = MMCI_CUDA_MANY_STRANDS / WARPS, /* of a multiprocessor, for which registers are left */
    SLOT = Matrix::SIZE,
    PAIRS = SLOT / 2,
    SHARED_BYTES = (WARPS + WINDOW) * SLOT * (int)sizeof(double)
  };
};

template <typename S>
struct Block {
  typedef typename S::Matrix Matrix;
  typedef typename Matrix::Real Real;
  typedef typename Matrix::State State;
  typedef typename Matrix::Factor Factor;
  enum { AHEAD = S::AHEAD, SLOT = S::SLOT };

  const mmci_cuda_sweep &pass;
  const Way factors, states;
  double *totals, *window; /* of warps, and what is looked at */
  const int warp;
  const unsigned epoch;
  const int64_t b, tile, first; /* the scan; the tile of it; its first factor */
  int strands;                  /* that have factors */
  int64_t own;                  /* factors of the warp's */

  __device__ __forceinline__ Block(const mmci_cuda_sweep &p, double *shared, unsigned now,
                                   int64_t number)
      : pass(p),
        factors(way_of<Real>(p.factors, p.n)),
        states(way_of<Real>(p.states, p.n)),
        totals(shared),
        window(totals + S::WARPS * SLOT),
        warp((int)threadIdx.x / WARP),
        epoch(now),
        b(number % p.batch),
        tile(number / p.batch),
        first(tile * S::WARPS * p.run) {
    const int64_t whole = S::WARPS * p.run, left = p.length - first;
    const int64_t count = left < whole ? left : whole, rest = count - warp * p.run;
    strands = (int)((count + p.run - 1) / p.run);
    own = rest < 0 ? 0 : rest < p.run ? rest : p.run;
  }

  /* Follows the warp's strand from the state before it, where there is one, and writes states where
   * WRITES says so. */
  template <bool WRITES>
  __device__ __forceinline__ void follow(bool follows, State *state) const {
    const int64_t begin = first + warp * pass.run, step = pass.factors.step;
    const Real *from =
        static_cast<const Real *>(pass.factors.data) + b * pass.factors.stride + begin * step;
    Real *to = static_cast<Real *>(const_cast<void *>(pass.states.data)) + b * pass.states.stride +
               begin * pass.states.step;
    Factor next[AHEAD];
    if (!follows && own > 0) Matrix::load_state(factors, from, state);
#pragma unroll
    for (int d = 0; d < AHEAD; d++)
      if (d < own) Matrix::load(factors, from + d * step, &next[d]);
    from += AHEAD * step;
    for (int64_t i = 0; i < own; i += AHEAD)
#pragma unroll
      for (int d = 0; d < AHEAD; d++) {
        if (i + d >= own) continue;
        if (i + d > 0 || follows) Matrix::multiply(state, next[d], factors.n);
        if (i + d + AHEAD < own) Matrix::load(factors, from, &next[d]);
        from += step;
        if (WRITES) Matrix::store(states, *state, to);
        to += pass.states.step;
      }
  }

  /* ---- what blocks tell each other ---- */

  __device__ __forceinline__ int64_t groups() const {
    return (pass.tiles + ROW - 1) / ROW;
  }
  __device__ __forceinline__ int64_t rows() const {
    return (groups() + ROW - 1) / ROW;
  }
  /* Return the numbers of what tiles, groups and rows tell, and of its flag. */
  __device__ __forceinline__ int64_t of_tile(int64_t t) const {
    return b * pass.tiles + t;
  }
  __device__ __forceinline__ int64_t of_group(int64_t group) const {
    return pass.batch * pass.tiles + b * groups() + group;
  }
  __device__ __forceinline__ int64_t of_row(int64_t row) const {
    return pass.batch * (pass.tiles + groups()) + b * rows() + row;
  }
  __device__ __forceinline__ double *told(int64_t number) const {
    return static_cast<double *>(pass.work) + number * SLOT;
  }
  /* A warp tells a matrix. */
  __device__ __forceinline__ void tell(const State &state, int64_t number) const {
    Matrix::put(told(number), state);
    __threadfence();
    __syncwarp();
    if (threadIdx.x % WARP == 0) atomicExch(pass.flags + CONTROL + number, epoch + 1);
  }
  /* A thread waits until a matrix is told. */
  __device__ __forceinline__ void await(int64_t number) const {
    const volatile unsigned *flag = pass.flags + CONTROL + number;
    while (*flag != epoch + 1) {
    }
    __threadfence();
  }
  /* Reads pair `at` of what was told to a slot. */
  __device__ __forceinline__ void read(int64_t number, double *slot, int at) const {
    const uint4 words = __ldcg(reinterpret_cast<const uint4 *>(told(number)) + at);
    reinterpret_cast<uint4 *>(slot)[at] = words;
  }
  /* Multiplies the first `count` matrices of the window; the product is the first. */
  __device__ __forceinline__ void join(int count) const {
    for (int apart = 1; apart < count; apart *= 2) {
      for (int left = warp * 2 * apart; left + apart < count; left += S::WARPS * 2 * apart) {
        State state;
        Matrix::get(window + left * SLOT, &state);
        Matrix::multiply_slot(&state, window + (left + apart) * SLOT, factors.n);
        __syncwarp();
        Matrix::put(window + left * SLOT, state);
      }
      __syncthreads();
    }
  }

  /* ---- the tile ---- */

  /* Finds the product of the tile and tells it. Returns in *before what is before the warp's strand
   * in the tile, where something is. */
  __device__ __forceinline__ void reduce(State *before) const {
    State total = {};
    double *slot = totals + warp * SLOT;
    follow<false>(false, &total);
    Matrix::put(slot, total);
    /* The products of strands up to each (Kogge and Stone 1973). */
    for (int apart = 1; apart < strands; apart *= 2) {
      const bool takes = warp >= apart && warp < strands;
      __syncthreads();
      if (takes) {
        Matrix::get(slot - apart * SLOT, &total);
        Matrix::multiply_slot(&total, slot, factors.n);
      }
      __syncthreads();
      if (takes) Matrix::put(slot, total);
    }
    __syncthreads();
    if (tile < pass.tiles - 1 && warp == S::WARPS - 1) tell(total, of_tile(tile));
    if (warp > 0) Matrix::get(slot - SLOT, before);
    __syncthreads();
  }

  /* Puts the state before the tile in the first slot of the window; returns whether there is one.
   */
  __device__ __forceinline__ bool look_back() const {
    const int64_t group = tile / ROW, row = group / ROW;
    const int tiles = (int)(tile % ROW), before = (int)(group % ROW);
    const bool tells = tile < pass.tiles - 1 && tiles == ROW - 1, ends_row = before == ROW - 1;
    State near = {}; /* of the first warp: the product of the tiles before in the group */
    if (tiles > 0) {
      if ((int)threadIdx.x < tiles) await(of_tile(tile - tiles + (int)threadIdx.x));
      __syncthreads();
      for (int q = (int)threadIdx.x; q < tiles * S::PAIRS; q += S::THREADS) {
        const int t = q / S::PAIRS;
        read(of_tile(tile - tiles + t), window + t * SLOT, q % S::PAIRS);
      }
      __syncthreads();
      join(tiles);
      if (warp == 0) Matrix::get(window, &near);
    }
    State whole = near;
    if (tells && warp == 0) {
      __syncwarp();
      for (int q = (int)threadIdx.x; q < S::PAIRS; q += WARP) read(of_tile(tile), window + SLOT, q);
      __syncwarp();
      Matrix::multiply_slot(&whole, window + SLOT, factors.n);
      if (!ends_row) tell(whole, of_group(group));
    }
    const bool starts = row > 0 || pass.initial.data != nullptr;
    const int all = before + (starts ? 1 : 0), first = all - before;
    __syncthreads();
    if (all == 0) return tiles > 0;
    if ((int)threadIdx.x < before)
      await(of_group(row * ROW + (int)threadIdx.x));
    else if ((int)threadIdx.x < all && row > 0)
      await(of_row(row - 1));
    __syncthreads();
    if (starts && row == 0) {
      if (warp == 0) {
        State initial;
        const mmci_cuda_stack &from = pass.initial;
        Matrix::load_state({from.ld, (int)pass.n, from.turned, false, false},
                           static_cast<const Real *>(from.data) + b * from.stride, &initial);
        Matrix::put(window, initial);
      }
    }
    for (int q = (int)threadIdx.x; q < all * S::PAIRS; q += S::THREADS) {
      const int m = q / S::PAIRS;
      if (m >= first)
        read(of_group(row * ROW + m - first), window + m * SLOT, q % S::PAIRS);
      else if (row > 0)
        read(of_row(row - 1), window, q % S::PAIRS);
    }
    __syncthreads();
    join(all);
    if (warp == 0 && tiles > 0) {
      State carry;
      Matrix::get(window, &carry);
      Matrix::put(window + SLOT, near);
      if (tells && ends_row) Matrix::put(window + 2 * SLOT, whole);
      __syncwarp();
      State after = carry;
      Matrix::multiply_slot(&carry, window + SLOT, factors.n);
      if (tells && ends_row) {
        Matrix::multiply_slot(&after, window + 2 * SLOT, factors.n);
        tell(after, of_row(row));
      }
      __syncwarp();
      Matrix::put(window, carry);
    }
    __syncthreads();
    return true;
  }

  /* Writes the states of the tile. */
  __device__ __forceinline__ void finish(const State &before) const {
    const bool has = look_back();
    State state = before;
    if (has) {
      double *slot = totals + warp * SLOT;
      if (warp > 0) Matrix::put(slot, before);
      __syncwarp();
      Matrix::get(window, &state);
      if (warp > 0) Matrix::multiply_slot(&state, slot, factors.n);
    }
    follow<true>(has || warp > 0, &state);
  }
};

template <typename S>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS) strands(const mmci_cuda_sweep pass) {
  typedef Block<S> B;
  MMCI_DYNAMIC_SHARED(memory);
  __shared__ unsigned ticket, epoch;
  if (threadIdx.x == 0) {
    epoch = *(volatile unsigned *)&pass.flags[EPOCH];
    ticket = atomicAdd(&pass.flags[TICKET], 1u);
  }
  __syncthreads();
  const B block(pass, reinterpret_cast<double *>(memory), epoch, (int64_t)ticket);
  typename B::State before = {};
  block.reduce(&before);
  block.finish(before);
  if (threadIdx.x != 0) return;
  const unsigned blocks = (unsigned)(pass.tiles * pass.batch);
  if (atomicAdd(&pass.flags[DONE], 1u) + 1 < blocks) return;
  pass.flags[TICKET] = pass.flags[DONE] = 0;
  pass.flags[EPOCH] = epoch + 1;
}

template <typename Real, int WARPS>
mmc_status launch(cudaStream_t stream, const mmci_cuda_sweep *pass, mmci_error *error) {
  typedef Shape<Sixteen<Real>, WARPS, 2> S;
  MMCI_CUDA_TRY(cudaFuncSetAttribute(strands<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)S::SHARED_BYTES));
  MMCI_CUDA_TRY(mmci_launch(strands<S>, dim3((unsigned)(pass->tiles * pass->batch)),
                            dim3(S::THREADS), S::SHARED_BYTES, stream, *pass));
  return MMC_OK;
}

template <typename Real>
mmc_status launch_warps(cudaStream_t stream, const mmci_cuda_sweep *pass, int warps,
                        mmci_error *error) {
  return warps == MMCI_CUDA_FEW_STRANDS ? launch<Real, MMCI_CUDA_FEW_STRANDS>(stream, pass, error)
                                        : launch<Real, MMCI_CUDA_MANY_STRANDS>(stream, pass, error);
}

}  // namespace

extern "C" bool mmci_cuda_strands_can(int major, int minor, mmc_dtype dtype, int64_t n) {
  /* The other chips have hardly any arithmetic of doubles. */
  const bool has_doubles = (major == 8 || major == 9) && minor == 0;
  return has_doubles && (dtype == MMC_F32 || dtype == MMC_F64) && n > 8 && n <= Sixteen<float>::N;
}

extern "C" void mmci_cuda_strands_room(const mmci_cuda_sweep *pass, size_t *work_bytes,
                                       size_t *flags) {
  const int64_t groups = (pass->tiles + ROW - 1) / ROW;
  const int64_t matrices = pass->batch * (pass->tiles + groups + (groups + ROW - 1) / ROW);
  *work_bytes = (size_t)matrices * Sixteen<double>::SIZE * sizeof(double);
  *flags = (size_t)(CONTROL + matrices);
}

extern "C" mmc_status mmci_cuda_strands_run(cudaStream_t stream, const mmci_cuda_sweep *pass,
                                            int strands, mmci_error *error) {
  return pass->dtype == MMC_F32 ? launch_warps<float>(stream, pass, strands, error)
                                : launch_warps<double>(stream, pass, strands, error);
}
