/* sliced_k.cu: the kernels sliced_k, in FP32.
 *
 * Layout   A and B as stored or transposed, C row-major; zeros past the edges
 * Launch   parts blocks a tile of C, side by side in a cluster; in a block, warps down and across
 *          the tile and WK of them behind one another: each has its own slice of a step along k
 * Idea     Latency is what such products take: many loads are under way at once, and chains of
 *          sums are short. Steps come by cp.async, STAGES - 1 ahead, with lines as they lie:
 *          transposing would cost registers and time. Sums of the slices are added in shared
 *          memory; those of the parts are sent to the block that writes the element, so that the
 *          cluster waits for itself once. */
#include <stdint.h>

#include <cuda_runtime.h>

#include "device/cuda/launch.cuh"
#include "device/cuda/product/sliced_k_kernels.h"

/* ---- shapes ---------------------------------------------------------------------------------- */

/* A warp has 4 lanes down and 8 across. Neighbours of a pair have the same row, those of the next
 * level the same column, so that shared memory serves half a warp at once. */
enum {
  SLICED_DOWN = 4,
  SLICED_ACROSS = 8,
  SLICED_SLICE = 8, /* lines of k in a warp's slice of a step */
  SLICED_GROUP = 8, /* rows of tiles side by side */
  SLICED_EACH = 4   /* elements of a vector of 16 bytes */
};

template <int N>
struct alignas(N * sizeof(float)) SlicedVector {
  float e[N];
};

/* GM and GN count groups of a lane's rows and columns, of 16 bytes each. */
template <int GM_, int GN_, int WM_, int WN_, int WK_, int STAGES_, int BLOCKS_, int CHUNK_,
          bool A_TRANS_, bool B_TRANS_>
struct SlicedShape {
  static constexpr bool A_TRANS = A_TRANS_, B_TRANS = B_TRANS_;
  static constexpr int EACH = SLICED_EACH;
  static constexpr int GM = GM_, GN = GN_, WM = WM_, WN = WN_, WK = WK_, STAGES = STAGES_;
  static constexpr int BLOCKS = BLOCKS_, /* blocks on a multiprocessor */
      CHUNK = CHUNK_;                    /* lines of k in registers */
  static constexpr int LANE_ROWS = GM * EACH, LANE_COLS = GN * EACH;
  static constexpr int WARP_ROWS = LANE_ROWS * SLICED_DOWN, WARP_COLS = LANE_COLS * SLICED_ACROSS;
  static constexpr int ROWS = WM * WARP_ROWS, COLS = WN * WARP_COLS, DEPTH = WK * SLICED_SLICE;
  static constexpr int THREADS = 32 * WM * WN * WK;
  /* Lines of k need no padding; the others are read by lanes on different lines. */
  static constexpr int A_LD = A_TRANS ? ROWS : DEPTH + EACH, B_LD = B_TRANS ? DEPTH + EACH : COLS;
  static constexpr int A_SIZE = A_LD * (A_TRANS ? DEPTH : ROWS),
                       B_SIZE = B_LD * (B_TRANS ? COLS : DEPTH), STAGE = A_SIZE + B_SIZE;
  /* Sums replace the stages. */
  static constexpr int SUM_LD = COLS + EACH, SUMS = ROWS * SUM_LD;
  static constexpr int IN_STAGES = STAGES * STAGE, IN_SUMS = WK * SUMS;
  static constexpr int ELEMENTS = IN_STAGES > IN_SUMS ? IN_STAGES : IN_SUMS;
  static constexpr int VECTORS = ROWS * COLS / EACH; /* vectors of the tile */
  static constexpr int SHARED_BYTES = ELEMENTS * (int)sizeof(float),
                       SHARED_BY_PARTS = ROWS * COLS * (int)sizeof(float);
  static_assert(SLICED_SLICE % CHUNK == 0, "a slice is whole chunks");
};

/* ---- loads ----------------------------------------------------------------------------------- */

template <int BYTES>
static __device__ __forceinline__ void sliced_copy(unsigned to, const void *from, int bytes) {
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES),
                 "r"(bytes)
                 : "memory");
}

/* Loads a thread's share of the steps of an operand: LINES lines of LENGTH elements, LD apart in
 * shared memory. OF_K says that the lines are those of k. */
template <int LINES, int LENGTH, int LD, int THREADS, int DEPTH, bool OF_K>
struct SlicedLoader {
  const float *base, *from; /* base is some address that can be read */
  int64_t ld;
  int line, lines, left; /* left: elements from here to the end of the line */
  unsigned to;
  bool vectors;

  /* Begins at the tile's first row or column of length in all, and its first k. */
  __device__ __forceinline__ SlicedLoader(const mmci_sliced_k_operand &x, int first, int length,
                                          int first_k, int k) {
    const int each = x.vectors ? SLICED_EACH : 1, across = LENGTH / each;
    const int l = (int)threadIdx.x / across, e = (int)threadIdx.x % across * each;
    line = (OF_K ? first_k : first) + l;
    lines = OF_K ? k : length;
    const int at = (OF_K ? first : first_k) + e;
    left = (OF_K ? length : k) - at;
    base = (const float *)x.data;
    ld = x.ld;
    from = base + (int64_t)line * ld + at;
    to = (unsigned)((l * LD + e) * (int)sizeof(float));
    vectors = x.vectors;
  }
  template <int EACH>
  __device__ __forceinline__ void load_by(unsigned stage) const {
    constexpr int SIZE = (int)sizeof(float), MOST = EACH * SIZE;
    constexpr int BETWEEN = THREADS / (LENGTH / EACH);
    static_assert(THREADS % (LENGTH / EACH) == 0 && LINES % BETWEEN == 0, "all copy as much");
    const int there = left >= EACH ? MOST : left > 0 ? left * SIZE : 0;
#pragma unroll
    for (int i = 0; i < LINES; i += BETWEEN) {
      const int bytes = line + i < lines ? there : 0;
      sliced_copy<MOST>(stage + to + (unsigned)(i * LD * SIZE), bytes > 0 ? from + i * ld : base,
                        bytes);
    }
  }
  /* Loads the next step. */
  __device__ __forceinline__ void load(unsigned stage) {
    if (vectors)
      load_by<SLICED_EACH>(stage);
    else
      load_by<1>(stage);
    if (OF_K)
      line += DEPTH;
    else
      left -= DEPTH;
    from += OF_K ? DEPTH * ld : DEPTH;
  }
};

/* ---- sums ------------------------------------------------------------------------------------ */

/* Returns the i-th of a lane's elements, as rows or columns of the warp's. Lines of k are read by
 * vectors; of the others neighbouring lanes have neighbouring lines. */
template <bool OF_K, int LANES>
static __device__ __forceinline__ int sliced_place(int lane, int i) {
  constexpr int EACH = SLICED_EACH;
  return OF_K ? i / EACH * EACH * LANES + lane * EACH + i % EACH : lane + i * LANES;
}

/* Loads CHUNK lines of k of a lane's COUNT elements. */
template <bool OF_K, int COUNT, int LANES, int LD, int CHUNK>
static __device__ __forceinline__ void sliced_take(float (&x)[CHUNK][COUNT], const float *from,
                                                   int lane) {
  constexpr int EACH = SLICED_EACH;
  if (OF_K) {
#pragma unroll
    for (int d = 0; d < CHUNK; d++)
#pragma unroll
      for (int i = 0; i < COUNT; i += EACH) {
        const auto v = *reinterpret_cast<const SlicedVector<EACH> *>(
            from + d * LD + sliced_place<true, LANES>(lane, i));
#pragma unroll
        for (int e = 0; e < EACH; e++) x[d][i + e] = v.e[e];
      }
  } else {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      const auto v = *reinterpret_cast<const SlicedVector<CHUNK> *>(from + (lane + i * LANES) * LD);
#pragma unroll
      for (int d = 0; d < CHUNK; d++) x[d][i] = v.e[d];
    }
  }
}

/* Adds a warp's slice of a step. */
template <typename S>
static __device__ __forceinline__ void sliced_step(float (&sum)[S::LANE_ROWS][S::LANE_COLS],
                                                   const float *a, const float *b, int down,
                                                   int across) {
#pragma unroll
  for (int k = 0; k < SLICED_SLICE; k += S::CHUNK) {
    float x[S::CHUNK][S::LANE_ROWS], y[S::CHUNK][S::LANE_COLS];
    sliced_take<S::A_TRANS, S::LANE_ROWS, SLICED_DOWN, S::A_LD>(
        x, a + (S::A_TRANS ? k * S::A_LD : k), down);
    sliced_take<!S::B_TRANS, S::LANE_COLS, SLICED_ACROSS, S::B_LD>(
        y, b + (S::B_TRANS ? k : k * S::B_LD), across);
#pragma unroll
    for (int d = 0; d < S::CHUNK; d++)
#pragma unroll
      for (int r = 0; r < S::LANE_ROWS; r++)
#pragma unroll
        for (int c = 0; c < S::LANE_COLS; c++) sum[r][c] = fmaf(x[d][r], y[d][c], sum[r][c]);
  }
}

/* ---- what becomes of them -------------------------------------------------------------------- */

template <int N>
static __device__ __forceinline__ void sliced_add(SlicedVector<N> &sum, const SlicedVector<N> &x) {
#pragma unroll
  for (int e = 0; e < N; e++) sum.e[e] += x.e[e];
}

/* Writes neighbours of a row to C. */
template <int N>
static __device__ __forceinline__ void sliced_write(const mmci_sliced_k_job &job, int row, int col,
                                                    SlicedVector<N> v) {
  if (row >= job.m) return;
  float *to = (float *)job.c + row * job.ldc + col;
  if (job.vectors && col + N <= job.n) {
    auto *place = reinterpret_cast<SlicedVector<N> *>(to);
    if (job.accumulate) sliced_add(v, *place);
    *place = v;
    return;
  }
#pragma unroll
  for (int e = 0; e < N; e++)
    if (col + e < job.n) to[e] = v.e[e] + (job.accumulate ? to[e] : 0.f);
}

/* These are for clusters; without them there is one part. What was written before is seen by those
 * who wait after. */
static __device__ __forceinline__ void sliced_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

static __device__ __forceinline__ void sliced_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* Writes 16 bytes to the same address of shared memory as ours in another block of the cluster. */
static __device__ __forceinline__ void sliced_send(unsigned address, int block,
                                                   const SlicedVector<SLICED_EACH> &v) {
#if __CUDA_ARCH__ >= 900
  const uint4 words = *reinterpret_cast<const uint4 *>(&v);
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "st.shared::cluster.v4.u32 [there], {%2, %3, %4, %5};\n}" ::"r"(address),
      "r"(block), "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
      : "memory");
#endif
}

/* Writes a lane's sums to its warp's place in shared memory. */
template <typename S>
static __device__ __forceinline__ void sliced_leave(const float (&sum)[S::LANE_ROWS][S::LANE_COLS],
                                                    float *place, int down, int across) {
#pragma unroll
  for (int r = 0; r < S::LANE_ROWS; r++) {
    float *line = place + sliced_place<S::A_TRANS, SLICED_DOWN>(down, r) * S::SUM_LD;
#pragma unroll
    for (int c = 0; c < S::LANE_COLS; c += S::EACH) {
      if (S::B_TRANS) {
#pragma unroll
        for (int e = 0; e < S::EACH; e++)
          line[sliced_place<false, SLICED_ACROSS>(across, c + e)] = sum[r][c + e];
      } else {
        SlicedVector<S::EACH> v;
#pragma unroll
        for (int e = 0; e < S::EACH; e++) v.e[e] = sum[r][c + e];
        *reinterpret_cast<SlicedVector<S::EACH> *>(
            line + sliced_place<true, SLICED_ACROSS>(across, c)) = v;
      }
    }
  }
}

/* Adds up the sums of the block's slices and writes them to C. */
template <typename S>
static __device__ __forceinline__ void sliced_finish(const mmci_sliced_k_job &job, float *shared,
                                                     int rank, int row, int col) {
  typedef SlicedVector<S::EACH> Vector;
  constexpr int ACROSS = S::COLS / S::EACH;
  float *received = shared + S::ELEMENTS;
  const unsigned address = (unsigned)__cvta_generic_to_shared(received);
  const int each = S::VECTORS / job.parts;
  if (job.parts > 1) sliced_wait(); /* waits until all parts are there */
#pragma unroll
  for (int at = (int)threadIdx.x; at < S::VECTORS; at += S::THREADS) {
    const int r = at / ACROSS, c = at % ACROSS * S::EACH;
    const float *from = shared + r * S::SUM_LD + c;
    Vector v = *reinterpret_cast<const Vector *>(from);
#pragma unroll
    for (int s = 1; s < S::WK; s++)
      sliced_add(v, *reinterpret_cast<const Vector *>(from + s * S::SUMS));
    if (job.parts == 1) {
      sliced_write(job, row + r, col + c, v);
    } else {
      const int owner = at / each;
      sliced_send(address + 16u * (unsigned)(rank * each + at - owner * each), owner, v);
    }
  }
  if (job.parts == 1) return;
  sliced_arrive();
  sliced_wait();
  for (int i = (int)threadIdx.x; i < each; i += S::THREADS) {
    const int at = rank * each + i;
    const Vector *from = reinterpret_cast<const Vector *>(received) + i;
    Vector v = from[0];
    for (int part = 1; part < job.parts; part++) sliced_add(v, from[part * each]);
    sliced_write(job, row + at / ACROSS, col + at % ACROSS * S::EACH, v);
  }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

template <typename S>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    sliced_k(const __grid_constant__ mmci_sliced_k_job job) {
  MMCI_DYNAMIC_SHARED(bytes);
  float *shared = reinterpret_cast<float *>(bytes);
  const unsigned stages = (unsigned)__cvta_generic_to_shared(bytes);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int across = (lane & 1) | (lane >> 1 & 6), down = (lane >> 1 & 1) | (lane >> 4) << 1;
  const int slice = warp / (S::WM * S::WN);
  const int warp_row = warp % S::WM * S::WARP_ROWS, warp_col = warp / S::WM % S::WN * S::WARP_COLS;
  const int rank = (int)blockIdx.x % job.parts, tile = (int)blockIdx.x / job.parts;
  if (job.parts > 1) sliced_arrive();
  /* Rows of tiles are taken in groups, so that neighbours share operands in L2. */
  const int group = tile / (SLICED_GROUP * job.across) * SLICED_GROUP;
  const int rows = min(SLICED_GROUP, job.down - group), rest = tile - group * job.across;
  const int row = (group + rest % rows) * S::ROWS, col = rest / rows * S::COLS;
  const int steps = (job.k - 1) / S::DEPTH + 1;
  const int begin = (int)((int64_t)steps * rank / job.parts);
  const int count = (int)((int64_t)steps * (rank + 1) / job.parts) - begin;

  SlicedLoader<S::A_TRANS ? S::DEPTH : S::ROWS, S::A_TRANS ? S::ROWS : S::DEPTH, S::A_LD,
               S::THREADS, S::DEPTH, S::A_TRANS>
      load_a(job.a, row, job.m, begin * S::DEPTH, job.k);
  SlicedLoader<S::B_TRANS ? S::COLS : S::DEPTH, S::B_TRANS ? S::DEPTH : S::COLS, S::B_LD,
               S::THREADS, S::DEPTH, !S::B_TRANS>
      load_b(job.b, col, job.n, begin * S::DEPTH, job.k);
#pragma unroll 1
  for (int s = 0; s < S::STAGES - 1; s++) {
    const unsigned stage = stages + (unsigned)(s * S::STAGE * (int)sizeof(float));
    if (s < count) {
      load_a.load(stage);
      load_b.load(stage + (unsigned)(S::A_SIZE * (int)sizeof(float)));
    }
    mmci_copy_async_commit();
  }
  float sum[S::LANE_ROWS][S::LANE_COLS];
#pragma unroll
  for (int r = 0; r < S::LANE_ROWS; r++)
#pragma unroll
    for (int c = 0; c < S::LANE_COLS; c++) sum[r][c] = 0;
  const float *a = shared + (S::A_TRANS ? slice * SLICED_SLICE * S::A_LD + warp_row
                                        : warp_row * S::A_LD + slice * SLICED_SLICE);
  const float *b = shared + S::A_SIZE +
                   (S::B_TRANS ? warp_col * S::B_LD + slice * SLICED_SLICE
                               : slice * SLICED_SLICE * S::B_LD + warp_col);
  int now = 0, ahead = S::STAGES - 1;
#pragma unroll 1
  for (int step = 0; step < count; step++) {
    mmci_copy_async_wait<S::STAGES - 2>();
    __syncthreads();
    if (step + S::STAGES - 1 < count) {
      const unsigned stage = stages + (unsigned)(ahead * S::STAGE * (int)sizeof(float));
      load_a.load(stage);
      load_b.load(stage + (unsigned)(S::A_SIZE * (int)sizeof(float)));
    }
    mmci_copy_async_commit();
    sliced_step<S>(sum, a + now * S::STAGE, b + now * S::STAGE, down, across);
    ahead = now;
    now = now + 1 == S::STAGES ? 0 : now + 1;
  }
  mmci_copy_async_wait<0>();
  __syncthreads();
  sliced_leave<S>(sum, shared + slice * S::SUMS + warp_row * S::SUM_LD + warp_col, down, across);
  __syncthreads();
  sliced_finish<S>(job, shared, rank, row, col);
}

/* ---- the table ------------------------------------------------------------------------------- */

template <int GM, int GN, int WM, int WN, int WK, int STAGES, int BLOCKS, int CHUNK>
static mmci_sliced_k_kernel sliced_kernel() {
  typedef SlicedShape<GM, GN, WM, WN, WK, STAGES, BLOCKS, CHUNK, false, false> NN;
  typedef SlicedShape<GM, GN, WM, WN, WK, STAGES, BLOCKS, CHUNK, false, true> NT;
  typedef SlicedShape<GM, GN, WM, WN, WK, STAGES, BLOCKS, CHUNK, true, false> TN;
  typedef SlicedShape<GM, GN, WM, WN, WK, STAGES, BLOCKS, CHUNK, true, true> TT;
  /* Padding is only for lines that are not lines of k. */
  static_assert(NT::SHARED_BYTES >= NN::SHARED_BYTES && NT::SHARED_BYTES >= TN::SHARED_BYTES &&
                    NT::SHARED_BYTES >= TT::SHARED_BYTES,
                "what the largest takes is enough");
  return {{{(const void *)sliced_k<NN>, (const void *)sliced_k<NT>},
           {(const void *)sliced_k<TN>, (const void *)sliced_k<TT>}},
          NN::ROWS,
          NN::COLS,
          NN::DEPTH,
          NN::THREADS,
          NT::SHARED_BYTES,
          NN::SHARED_BY_PARTS};
}

/* The numbers are groups of a lane, down and across; warps down, across and behind one another;
 * stages; blocks of a multiprocessor; lines of k in registers. */
const mmci_sliced_k_kernel mmci_sliced_k_f32[] = {
    sliced_kernel<1, 1, 1, 1, 8, 4, 2, 4>(), sliced_kernel<1, 1, 1, 1, 4, 4, 4, 4>(),
    sliced_kernel<2, 1, 1, 1, 8, 4, 2, 4>(), sliced_kernel<2, 1, 1, 1, 4, 4, 4, 4>(),
    sliced_kernel<2, 2, 2, 1, 2, 4, 4, 2>(),
};
