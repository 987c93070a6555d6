/* large_tile.cuh: what the kernels large_tile share: which part of C a block works on, and the FP32
 * tile that a warp keeps in registers.
 *
 * A block, or a cluster of them, takes whole tiles of C while there are enough for all. The tiles
 * of the last, incomplete round are cut along k into equal shares: the share that begins a tile
 * writes C, every other one a slot of the scratch, and large_tile_reduce adds the slots to C in the
 * order of k. So every block works until the end, and the result is the same in every run.
 *
 * In shared memory lie lines of equal k of A (m contiguous) and of B (n contiguous). A lane keeps
 * 4 GM x 4 GN elements of C and goes through a line of k by rows: one element of A stays in the
 * operand cache while elements of B and of C stream by, one register each from the two banks of the
 * register file. That takes C's register of the other parity than B's. Registers are ptxas's
 * choice, but a vector operand takes aligned neighbours: C leaves by vectors with each pair
 * swapped. */
#ifndef MMCI_CUDA_PRODUCT_LARGE_TILE_CUH
#define MMCI_CUDA_PRODUCT_LARGE_TILE_CUH

#include <cuda_runtime.h>

extern "C" {
#include "base/status.h"
}
#include "device/cuda/product/large_tile_kernels.h"

/* ---- which part of C ------------------------------------------------------------------------- */

/* Some steps of k of one tile. */
struct LargeTileItem {
  int row, col; /* row and column of the tile, in tiles */
  int first, count;
  bool is_partial; /* the item does not begin the tile */
};

/* Places tiles side by side in groups of rows, so that tiles at work at the same time share
 * operands in L2. */
static __device__ __forceinline__ void large_tile_place(const mmci_large_tile_work &w, int tile,
                                                        LargeTileItem *item) {
  const int across = w.tiles_across, per_group = MMCI_LARGE_TILE_GROUP * across;
  const int group = tile / per_group, first = group * MMCI_LARGE_TILE_GROUP;
  const int rows = min(MMCI_LARGE_TILE_GROUP, w.tiles_down - first),
            rest = tile - group * per_group;
  item->row = first + rest % rows;
  item->col = rest / rows;
}

/* Returns the first step of a share, counted from the first of the shared tiles. */
static __device__ __forceinline__ unsigned large_tile_share_begin(const mmci_large_tile_work &w,
                                                                  unsigned share) {
  return share * w.share_steps + min(share, w.longer_shares);
}

/* Writes item number i of worker u; returns false when there are no more. */
static __device__ __forceinline__ bool large_tile_item(const mmci_large_tile_work &w, int u, int i,
                                                       LargeTileItem *item) {
  int tile = i * w.workers + u;
  item->first = 0;
  item->count = w.steps;
  item->is_partial = false;
  if (i >= w.rounds) {
    if (u >= w.sharers) return false;
    const unsigned steps = (unsigned)w.steps, share = (unsigned)u;
    const unsigned begin = large_tile_share_begin(w, share),
                   end = large_tile_share_begin(w, share + 1);
    const unsigned here = max(begin, (begin / steps + (unsigned)(i - w.rounds)) * steps);
    if (here >= end) return false;
    tile = (int)(here / steps);
    item->first = (int)(here - (unsigned)tile * steps);
    item->count = (int)min(end - here, steps - (unsigned)item->first);
    item->is_partial = item->first > 0;
    tile += w.rounds * w.workers;
  }
  large_tile_place(w, tile, item);
  return true;
}

/* ---- the FP32 tile of a warp ------------------------------------------------------------------
 */

/* A warp has 4 lanes down and 8 across. A lane's rows are 4 neighbours in every 16, its columns 4
 * in every 32. */
enum { LANES_DOWN = 4, LANES_ACROSS = 8, QUAD = 4 };

template <int GM, int GN>
struct LargeTileF32 {
  typedef float Element;
  enum {
    PAD = 0, /* elements between the lines of a step */
    ROWS = GM * LANES_DOWN * QUAD,
    COLS = GN * LANES_ACROSS * QUAD,
    STAGED_BYTES = GN * 16 /* bytes of a thread for leave() */
  };
  float4 a[GM], b[2][GN];
  float sum[4 * GM][4 * GN];

  static __device__ __forceinline__ float element(const float4 &v, int e) {
    return e == 0 ? v.x : e == 1 ? v.y : e == 2 ? v.z : v.w;
  }
  static __device__ __forceinline__ int row_of_lane(int lane) { return lane / LANES_ACROSS * QUAD; }
  static __device__ __forceinline__ int col_of_lane(int lane) { return lane % LANES_ACROSS * QUAD; }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < 4 * GM; r++)
#pragma unroll
      for (int c = 0; c < 4 * GN; c++) sum[r][c] = 0;
  }
  __device__ __forceinline__ void load_a(int g, const float *line) {
    a[g] = *reinterpret_cast<const float4 *>(line + g * LANES_DOWN * QUAD);
  }
  __device__ __forceinline__ void load_b(int turn, const float *line) {
#pragma unroll
    for (int g = 0; g < GN; g++)
      b[turn][g] = *reinterpret_cast<const float4 *>(line + g * LANES_ACROSS * QUAD);
  }
  __device__ __forceinline__ void begin(const float *a_line, const float *b_line) {
#pragma unroll
    for (int g = 0; g < GM; g++) load_a(g, a_line);
    load_b(0, b_line);
  }
  /* Multiplies one line of k, and loads its successor: A as soon as rows are done, B beside. */
  template <int turn>
  __device__ __forceinline__ void line(const float *next_a, const float *next_b) {
    load_b(turn ^ 1, next_b);
#pragma unroll
    for (int r = 0; r < 4 * GM; r++) {
#pragma unroll
      for (int at = 0; at < 4 * GN; at++) {
        /* Rows go to and fro: the last column of one is the first of the next. */
        const int c = r % 2 == 0 ? at : 4 * GN - 1 - at;
        sum[r][c] = fmaf(element(a[r / 4], r % 4), element(b[turn][c / 4], c % 4), sum[r][c]);
      }
      if (r % 4 == 3) load_a(r / 4, next_a);
    }
  }
  /* Multiplies UNROLL lines from a_line and b_line on, A's A_STRIDE elements apart; the last one is
   * followed by those at next_a and next_b. */
  template <int UNROLL, int A_STRIDE, int B_STRIDE>
  __device__ __forceinline__ void lines(const float *a_line, const float *b_line,
                                        const float *next_a, const float *next_b) {
#pragma unroll
    for (int k = 0; k < UNROLL; k += 2) {
      line<0>(a_line + (k + 1) * A_STRIDE, b_line + (k + 1) * B_STRIDE);
      if (k + 2 == UNROLL)
        line<1>(next_a, next_b);
      else
        line<1>(a_line + (k + 2) * A_STRIDE, b_line + (k + 2) * B_STRIDE);
    }
  }
  /* Multiplies a step of DEPTH lines, UNROLL at a time. */
  template <int DEPTH, int UNROLL, int A_STRIDE, int B_STRIDE>
  __device__ __forceinline__ void step(const float *a_line, const float *b_line) {
    begin(a_line, b_line);
#pragma unroll 1
    for (int k = 0; k < DEPTH; k += UNROLL) {
      /* What follows the last line is not used, so the first one is loaded again. */
      const int next = k + UNROLL < DEPTH ? UNROLL : 0;
      lines<UNROLL, A_STRIDE, B_STRIDE>(a_line, b_line, a_line + next * A_STRIDE,
                                        b_line + next * B_STRIDE);
      a_line += UNROLL * A_STRIDE;
      b_line += UNROLL * B_STRIDE;
    }
  }
  /* Writes the lane's elements to c, where its first one goes, or adds them; rows and cols are what
   * there is from there on. staged is the thread's first 16 bytes in shared memory, of which every
   * thread of the block has GN, threads side by side. */
  __device__ __forceinline__ void leave(float *c, int64_t ldc, int64_t rows, int64_t cols,
                                        bool vectors, bool add, unsigned staged, int threads) {
#pragma unroll
    for (int r = 0; r < 4 * GM; r++) {
#pragma unroll
      for (int g = 0; g < GN; g++) {
        const float *s = &sum[r][4 * g];
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(staged + g * threads * 16),
                     "f"(s[1]), "f"(s[0]), "f"(s[3]), "f"(s[2])
                     : "memory");
      }
      const int row = r / 4 * LANES_DOWN * QUAD + r % 4;
      if (row >= rows) continue;
      float *line = c + row * ldc;
#pragma unroll 1
      for (int g = 0; g < GN; g++) {
        const int col = g * LANES_ACROSS * QUAD;
        float4 v;
        asm volatile("ld.shared.v4.f32 {%1, %0, %3, %2}, [%4];"
                     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                     : "r"(staged + g * threads * 16)
                     : "memory");
        if (vectors && col + QUAD <= cols) {
          float4 *to = reinterpret_cast<float4 *>(line + col);
          if (add) {
            float4 was = *to;
            v = make_float4(was.x + v.x, was.y + v.y, was.z + v.z, was.w + v.w);
          }
          *to = v;
        } else {
#pragma unroll
          for (int e = 0; e < QUAD; e++)
            if (col + e < cols) line[col + e] = element(v, e) + (add ? line[col + e] : 0.f);
        }
      }
    }
  }
};

#endif
