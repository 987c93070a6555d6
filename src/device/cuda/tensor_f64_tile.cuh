/* tensor_f64_tile.cuh: a block's tile of C in FP64 on tensor cores, from operands in global memory:
 * the main loop of kernels that compute products of doubles, or of floats as doubles.
 *
 * Layout   A as m lines of k elements (A_ALONG) or k of m, B as n lines of k (B_ALONG) or k of n,
 *          any leading dimension, zeros past the edges; lines may be listed instead of following
 *          each other
 * Launch   32 WM WN threads; a warp keeps 16 GM x 8 GN elements of C in registers
 * Idea     Steps of DEPTH k's come by cp.async, STAGES - 1 ahead. Of every 8 k's the operands are
 * in registers before those of the 8 before are multiplied, beyond the barrier of a step too, so
 * tensor cores do not wait for shared memory. Copying holds one address an operand, as the
 * registers are full.
 *
 * Every element of C is one chain of fused multiply-adds, from the first k to the last. */
#ifndef MMCI_CUDA_TENSOR_F64_TILE_CUH
#define MMCI_CUDA_TENSOR_F64_TILE_CUH

#include "device/cuda/launch.cuh"

#include "device/cuda/tensor_f64.cuh"

/* An operand: element (line, k) is data[line * ld + k] when it lies along k, else
 * data[k * ld + line]. */
template <class Element>
struct mmci_f64_operand {
  const Element *data;
  int64_t ld, lines, k;
  const int32_t *listed; /* in shared memory, for each line of the tile: which one, -1 none; NULL
                            when they follow each other */
};

/* Says whether an operand can be copied by 16 bytes. */
template <class Element>
static inline bool mmci_f64_has_vectors(const Element *data, int64_t ld) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && ld * (int64_t)sizeof(Element) % 16 == 0;
}

/* How LINES lines and DEPTH k's of an operand lie in shared memory, and how a thread copies its
 * part, EACH elements at once. PAD lets a warp's reads hit all banks. */
template <class Element, bool ALONG, int LINES, int DEPTH, int THREADS, int EACH>
struct mmci_f64_panel {
  typedef mmci_f64_operand<Element> Operand;
  enum {
    PAD = ALONG ? 4 : 32 / (int)sizeof(Element),
    STRIDE = (ALONG ? DEPTH : LINES) + PAD,
    SIZE = (ALONG ? LINES : DEPTH) * STRIDE,
    CHUNKS = (ALONG ? DEPTH : LINES) / EACH,
    ON = THREADS / CHUNKS, /* a thread's chunks are so many rows apart */
    TURNS = (ALONG ? LINES : DEPTH) / ON
  };
  static_assert(THREADS % CHUNKS == 0 && TURNS * ON == (ALONG ? LINES : DEPTH),
                "every thread copies as much");

  static __device__ __forceinline__ int64_t at(int64_t line, int64_t k, int64_t stride) {
    return ALONG ? line * stride + k : k * stride + line;
  }
  static __device__ __forceinline__ int row() { return (int)threadIdx.x / CHUNKS; }
  static __device__ __forceinline__ int col() { return (int)threadIdx.x % CHUNKS * EACH; }

  /* Returns where a thread's first chunk goes to in shared memory, and comes from. */
  static __device__ __forceinline__ int first() { return row() * STRIDE + col(); }
  static __device__ __forceinline__ const Element *first(const Operand &x, int64_t line,
                                                         int64_t k) {
    return x.data + at(line, k, x.ld) + row() * x.ld + col();
  }

  /* Copies a step that is there from `from` on, which then goes on to the next one; `to` is where
   * the thread's first chunk goes. */
  static __device__ __forceinline__ void copy(Element *to, const Element *&from, int64_t ld) {
    const Element *chunk = from;
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
      if (EACH * sizeof(Element) == 16)
        mmci_copy_async(to + turn * ON * STRIDE, chunk);
      else
        mmci_copy_async_bytes<sizeof(Element)>(to + turn * ON * STRIDE, chunk);
      chunk += ON * ld;
    }
    from += ALONG ? DEPTH : DEPTH * ld;
  }

  /* Copies what there is from line and k on, with zeros past the edges. */
  static __device__ __forceinline__ void copy_edge(Element *to, const Operand &x, int64_t line,
                                                   int64_t k) {
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
      const int down = row() + turn * ON, on = ALONG ? down : col();
      const int64_t of = x.listed != nullptr ? x.listed[on] : line + on;
      const int64_t deep = k + (ALONG ? col() : down);
      const bool some = of >= 0 && of < x.lines && deep < x.k;
      const int64_t there = !some ? 0 : ALONG ? x.k - deep : x.lines - of;
      const int count = there < EACH ? (int)there : EACH;
      mmci_copy_async_part<EACH * sizeof(Element)>(to + turn * ON * STRIDE,
                                                   some ? x.data + at(of, deep, x.ld) : x.data,
                                                   count * (int)sizeof(Element));
    }
  }
};

/* Copies an operand's steps, by 16 bytes where VECTORS, which what is listed across k cannot. */
template <class Element, bool ALONG, int LINES, int DEPTH, int THREADS, bool VECTORS>
struct mmci_f64_copies {
  typedef mmci_f64_operand<Element> Operand;
  typedef mmci_f64_panel<Element, ALONG, LINES, DEPTH, THREADS,
                         VECTORS ? 16 / (int)sizeof(Element) : 1>
      Panel;
  typedef mmci_f64_panel<Element, ALONG, LINES, DEPTH, THREADS, 1> Singles;
  enum { STRIDE = Panel::STRIDE, SIZE = Panel::SIZE };

  const Operand &x;
  const int64_t line, depth;
  const Element *from;
  int to; /* held in a register, because it takes long to find anew */

  __device__ __forceinline__ mmci_f64_copies(const Operand &x, int64_t line, int64_t depth)
      : x(x), line(line), depth(depth), from(Panel::first(x, line, depth)), to(Panel::first()) {
#ifndef MMCI_EMULATE_CUDA
    asm volatile("" : "+r"(to));
#endif
  }

  __device__ __forceinline__ void copy(Element *stage) {
    Panel::copy(stage + to, from, x.ld);
  }
  __device__ __forceinline__ void copy_edge(Element *stage, int64_t on) const {
    if (!VECTORS || ALONG || x.listed == nullptr)
      Panel::copy_edge(stage + to, x, line, depth + on);
    else
      Singles::copy_edge(stage + Singles::first(), x, line, depth + on);
  }
};

/* With VECTORS all operands are such that mmci_f64_has_vectors(). */
template <class Element_, bool A_ALONG, bool B_ALONG, bool VECTORS, int GM, int GN, int WM, int WN,
          int DEPTH_, int STAGES_>
struct mmci_f64_tile {
  typedef Element_ Element;
  typedef mmci_f64_operand<Element> Operand;
  enum {
    DEPTH = DEPTH_,
    STAGES = STAGES_,
    THREADS = 32 * WM * WN,
    WARP_ROWS = 16 * GM,
    WARP_COLS = 8 * GN,
    ROWS = WM * WARP_ROWS,
    COLS = WN * WARP_COLS,
    GROUPS = DEPTH / 8 /* of k's that tensor cores take at once */
  };
  static_assert(GROUPS % 2 == 0, "a step begins with the first of two sets of registers");
  typedef mmci_f64_copies<Element, A_ALONG, ROWS, DEPTH, THREADS, VECTORS> A;
  typedef mmci_f64_copies<Element, B_ALONG, COLS, DEPTH, THREADS, VECTORS> B;
  enum { STAGE = A::SIZE + B::SIZE, SHARED_BYTES = STAGES * STAGE * (int)sizeof(Element) };

  double sum[GM][GN][4];

  /* Where this thread's first element of C is in the tile. */
  static __device__ __forceinline__ int row() {
    const int warp = (int)threadIdx.x / 32;
    return warp % WM * WARP_ROWS + (int)threadIdx.x % 32 / 4;
  }
  static __device__ __forceinline__ int col() {
    const int warp = (int)threadIdx.x / 32;
    return warp / WM * WARP_COLS + (int)threadIdx.x % 4 * 2;
  }

  /* Computes the tile of C that begins at row and col, as the sum of so many steps from k `depth`
   * on. `shared` has SHARED_BYTES. */
  __device__ __forceinline__ void multiply(Element *shared, const Operand &a, int64_t row,
                                           const Operand &b, int64_t col, int64_t depth,
                                           int steps) {
    const int lane = (int)threadIdx.x % 32, group = lane / 4, quarter = lane % 4;
    const Element *a_read = shared + A::Panel::at(this->row(), quarter, A::STRIDE);
    const Element *b_read =
        shared + A::SIZE + B::Panel::at(this->col() - 2 * quarter + group, quarter, B::STRIDE);
    A a_copies(a, row, depth);
    B b_copies(b, col, depth);
    const bool inside = a.listed == nullptr && b.listed == nullptr && row + ROWS <= a.lines &&
                        col + COLS <= b.lines;
    const int64_t whole_most = inside ? (a.k - depth) / DEPTH : 0;
    const int whole = whole_most < steps ? (int)whole_most : steps;
    /* Of two warps that share a tensor core one copies while the other multiplies. */
    const bool early = (int)threadIdx.x / 128 % 2 == 0;
    int begun = 0, to = 0, now = 0; /* places of stages */
    auto copy_step = [&]() {
      Element *stage = shared + to;
      if (begun < whole) {
        a_copies.copy(stage);
        b_copies.copy(stage + A::SIZE);
      } else if (begun < steps) {
        a_copies.copy_edge(stage, (int64_t)begun * DEPTH);
        b_copies.copy_edge(stage + A::SIZE, (int64_t)begun * DEPTH);
      }
      mmci_copy_async_commit();
      begun++;
      to = to == (STAGES - 1) * STAGE ? 0 : to + STAGE;
    };
    /* Elements of A are in one of two sets of registers; those of a column of B are read anew as
     * soon as they are multiplied. */
    double left[2][GM][2][2], right[GN][2];
    auto read_left = [&](int set, int k) {
      const Element *x = a_read + now;
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 2 * GM; i++)
          left[set][i / 2][h][i % 2] = (double)x[A::Panel::at(8 * i, k + 4 * h, A::STRIDE)];
    };
    auto read_right = [&](int j, int k) {
#pragma unroll
      for (int h = 0; h < 2; h++)
        right[j][h] = (double)b_read[now + B::Panel::at(8 * j, k + 4 * h, B::STRIDE)];
    };
#pragma unroll
    for (int i = 0; i < GM * GN * 4; i++) (&sum[0][0][0])[i] = 0;
    __syncthreads(); /* nobody reads the tile before, and lists are there */
#pragma unroll 1
    for (int s = 0; s < STAGES - 1; s++) copy_step();
    mmci_copy_async_wait<STAGES - 2>();
    __syncthreads();
    read_left(0, 0);
#pragma unroll
    for (int j = 0; j < GN; j++) read_right(j, 0);
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
#pragma unroll
      for (int g = 0; g < GROUPS; g++) {
        const int next = (g + 1) % GROUPS;
        if (next == 0) {
          mmci_copy_async_wait<STAGES - 2>();
          __syncthreads();
          now = now == (STAGES - 1) * STAGE ? 0 : now + STAGE;
        }
        read_left((g + 1) % 2, 8 * next);
        if (g == 0 && early) copy_step();
#pragma unroll
        for (int j = 0; j < GN; j++) {
#pragma unroll
          for (int i = 0; i < GM; i++) mmci_multiply_f64(sum[i][j], left[g % 2][i], right[j]);
          read_right(j, 8 * next);
        }
        if (g == 0 && !early) copy_step();
      }
    }
    mmci_copy_async_wait<0>();
  }

  /* Calls leave(row, col, x, y) for every two neighbours of C, with their place in the tile. */
  template <class Leave>
  __device__ __forceinline__ void each(Leave leave) const {
#pragma unroll
    for (int i = 0; i < 2 * GM; i++)
#pragma unroll
      for (int j = 0; j < GN; j++)
        leave(row() + 8 * i, col() + 8 * j, sum[i / 2][j][i % 2 * 2], sum[i / 2][j][i % 2 * 2 + 1]);
  }
};

#endif
