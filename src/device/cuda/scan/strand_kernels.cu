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
#include "device/cuda/tensor_f64.cuh"

namespace {

enum { PIECE_BYTES = 16, WARP = 32 };
/* Tiles of a group, groups of a row, and slots for what is looked at together: these, and the state
 * before them. */
enum { ROW = 16, WINDOW = ROW + 1 };
/* The words before the flags: the next tile, tiles that are done, executions that are done. */
enum { TICKET, DONE, EPOCH, CONTROL };

/* Elements that are moved at once. */
template <typename Real, int COUNT>
struct alignas(COUNT * sizeof(Real) < PIECE_BYTES ? COUNT * sizeof(Real)
                                                  : (size_t)PIECE_BYTES) Some {
  Real of[COUNT];
};

/* How matrices of a stack are moved: as they lie, by neighbours where these begin at multiples of
 * so many bytes, or by elements; what is beyond n is 0. */
struct Way {
  int64_t ld;
  int n;
  bool turned, by_two, by_four;
};

template <typename Real>
__device__ __forceinline__ Way way_of(const mmci_cuda_stack &x, int64_t n) {
  const uintptr_t bits = (uintptr_t)x.data / sizeof(Real) | (uintptr_t)x.ld | (uintptr_t)x.step |
                         (uintptr_t)x.stride | (uintptr_t)n;
  return {x.ld, (int)n, x.turned, bits % 2 == 0, bits % 4 == 0};
}

/* An f32 as a double, times 2^-896: its bits stand behind one another in the same order, and so
 * no converter is needed, of which a multiprocessor has few. Of Inf and NaN it is none. */
__device__ __forceinline__ double widened(float x) {
  const unsigned bits = (unsigned)__float_as_int(x);
  const unsigned high = (bits & 0x80000000u) | (bits >> 3 & 0x0fffffffu), low = bits << 29;
  return __longlong_as_double((long long)((unsigned long long)high << 32 | low));
}

/* Matrices of up to 16 rows. Lane 4 g + t keeps of a state, in rows g and g + 8, columns 4 t to
 * 4 t + 3, and of a factor, in rows 4 t to 4 t + 3, columns 2 g and 2 g + 1. */
template <typename Real_>
struct Sixteen {
  typedef Real_ Real;
  enum { N = 16, SIZE = N * N };
  struct State {
    double of[2][4]; /* a row's columns 0, 2, 1, 3 */
  };
  struct Factor {
    Real of[4][2];
  };

  static __device__ __forceinline__ int g() { return (int)threadIdx.x % WARP / 4; }
  static __device__ __forceinline__ int t() { return (int)threadIdx.x % 4; }

  static __device__ __forceinline__ void load(const Way &way, const Real *from, Factor *out) {
    const int row = 4 * t(), col = 2 * g();
    if (!way.turned && way.by_two) {
#pragma unroll
      for (int r = 0; r < 4; r++) {
        Some<Real, 2> x = {};
        if (row + r < way.n && col < way.n)
          x = *reinterpret_cast<const Some<Real, 2> *>(from + (row + r) * way.ld + col);
        out->of[r][0] = x.of[0];
        out->of[r][1] = x.of[1];
      }
      return;
    }
    if (way.turned && way.by_four) {
#pragma unroll
      for (int c = 0; c < 2; c++) {
        Some<Real, 4> x = {};
        if (row < way.n && col + c < way.n)
          x = *reinterpret_cast<const Some<Real, 4> *>(from + (col + c) * way.ld + row);
#pragma unroll
        for (int r = 0; r < 4; r++) out->of[r][c] = x.of[r];
      }
      return;
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
      for (int c = 0; c < 2; c++) {
        const int i = row + r, j = col + c;
        out->of[r][c] =
            i < way.n && j < way.n ? from[way.turned ? j * way.ld + i : i * way.ld + j] : Real(0);
      }
  }
  static __device__ __forceinline__ void load_state(const Way &way, const Real *from, State *out) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int i = g() + 8 * h, col = 4 * t();
      Some<Real, 4> x = {};
      if (!way.turned && way.by_four) {
        if (i < way.n && col < way.n)
          x = *reinterpret_cast<const Some<Real, 4> *>(from + i * way.ld + col);
      } else {
#pragma unroll
        for (int c = 0; c < 4; c++)
          if (i < way.n && col + c < way.n)
            x.of[c] = from[way.turned ? (col + c) * way.ld + i : i * way.ld + col + c];
      }
#pragma unroll
      for (int c = 0; c < 4; c++) out->of[h][c % 2 * 2 + c / 2] = (double)x.of[c];
    }
  }
  static __device__ __forceinline__ void store(const Way &way, const State &state, Real *to) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int i = g() + 8 * h, col = 4 * t();
      Some<Real, 4> x;
#pragma unroll
      for (int c = 0; c < 4; c++) x.of[c] = (Real)state.of[h][c % 2 * 2 + c / 2];
      if (!way.turned && way.by_four) {
        if (i < way.n && col < way.n) *reinterpret_cast<Some<Real, 4> *>(to + i * way.ld + col) = x;
        continue;
      }
#pragma unroll
      for (int c = 0; c < 4; c++)
        if (i < way.n && col + c < way.n)
          to[way.turned ? (col + c) * way.ld + i : i * way.ld + col + c] = x.of[c];
    }
  }

  /* state = state M, of n rows. Of four lines of M that a lane has, the first of the tensor core's
   * eight are the even ones. What is beyond n stays 0: an infinite element times 0 is NaN there,
   * which must not come back. */
  static __device__ __forceinline__ void multiply(State *state, const double (&m)[4][2], int n) {
    State sum;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      double part[4] = {0, 0, 0, 0};
#pragma unroll
      for (int k = 0; k < 2; k++) {
        const double a[2][2] = {{state->of[0][2 * k], state->of[1][2 * k]},
                                {state->of[0][2 * k + 1], state->of[1][2 * k + 1]}};
        const double b[2] = {m[k][half], m[2 + k][half]};
        mmci_multiply_f64(part, a, b);
      }
#pragma unroll
      for (int e = 0; e < 4; e++) sum.of[e / 2][2 * half + e % 2] = part[e];
    }
    *state = sum;
    if (n == N) return;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int c = 0; c < 4; c++)
        if (g() + 8 * h >= n || 4 * t() + c >= n) state->of[h][c % 2 * 2 + c / 2] = 0;
  }
  static __device__ __forceinline__ void multiply(State *state, const Factor &factor, int n) {
    double m[4][2];
    if (sizeof(Real) == sizeof(float)) {
      float none = 0;
#pragma unroll
      for (int e = 0; e < 8; e++) none = fmaf((float)factor.of[e / 2][e % 2], 0.0f, none);
      if (__all_sync(0xffffffffu, none == 0.0f)) {
#pragma unroll
        for (int e = 0; e < 8; e++) m[e / 2][e % 2] = widened((float)factor.of[e / 2][e % 2]);
        multiply(state, m, n);
#pragma unroll
        for (int e = 0; e < 8; e++) state->of[e / 4][e % 4] *= 0x1p+896;
        return;
      }
    }
#pragma unroll
    for (int e = 0; e < 8; e++) m[e / 2][e % 2] = (double)factor.of[e / 2][e % 2];
    multiply(state, m, n);
  }

  /* Matrices of doubles, with pairs of columns in another order in every four rows, so that lanes
   * meet in few banks. */
  static __device__ __forceinline__ int place(int row, int pair) {
    return row * N + (pair ^ row / 4 * 2) % 8 * 2;
  }
  static __device__ __forceinline__ void put(double *slot, const State &state) {
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int p = 0; p < 2; p++)
        *reinterpret_cast<Some<double, 2> *>(slot + place(g() + 8 * h, 2 * t() + p)) = {
            state.of[h][p], state.of[h][2 + p]};
  }
  static __device__ __forceinline__ void get(const double *slot, State *state) {
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int p = 0; p < 2; p++) {
        const auto x =
            *reinterpret_cast<const Some<double, 2> *>(slot + place(g() + 8 * h, 2 * t() + p));
        state->of[h][p] = x.of[0];
        state->of[h][2 + p] = x.of[1];
      }
  }
  static __device__ __forceinline__ void multiply_slot(State *state, const double *slot, int n) {
    double m[4][2];
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const auto x = *reinterpret_cast<const Some<double, 2> *>(slot + place(4 * t() + r, g()));
      m[r][0] = x.of[0];
      m[r][1] = x.of[1];
    }
    multiply(state, m, n);
  }
};

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
