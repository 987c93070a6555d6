/* tiled_table.cuh: number types and the table in device memory that the tiled kernels share.
 *
 * Vertex form: c[a][b], a < b, is the least cost of the sub-chain dims[a..b],
 *
 *     c[a][a+1] = 0,   c[a][b] = min over a < v < b of  c[a][v] + c[v][b] + p[a] p[v] p[b].
 *
 * The table is cut into tiles of 64 x 64 entries; tile (I, J), I <= J, holds a in 64I.. and b in
 * 64J.., row-major, and lies at tile_index(I, J). Vertices past the chain's last have dim 0: they
 * cost nothing and no entry of the chain depends on them.
 *
 * Beside the costs lies what lets whole groups of candidates be passed over. Let W be a running sum
 * along the chain, W[b] = sum of m p[i-1] p[i] for i <= b, m the least dim. Sums of costs along
 * a split telescope in W, so the recurrence holds for c[a][b] - (W[b] - W[a]) as it stands: the
 * excess over the price of a fan at m, a far smaller number. For every tile its least excess over
 * each 16 columns of a row, then over each 16 rows of a column, is kept in single precision,
 * rounded down: group[0][g][row], group[1][g][column]. Sums and products of such numbers, rounded
 * down, never exceed the true excess of a candidate. */
#ifndef MMCI_CUDA_ORDER_TILED_TABLE_CUH
#define MMCI_CUDA_ORDER_TILED_TABLE_CUH

#include <stdint.h>

#include "device/cuda/launch.cuh"

namespace mmci_tiled {

enum {
  TILE = 64, /* entries along the edge of a tile */
  TILE_ENTRIES = TILE * TILE,
  GROUP = 16,                        /* vertices that one coarse bound covers */
  GROUPS = TILE / GROUP,             /* groups in a tile */
  TILE_BOUNDS = (1 + GROUPS) * TILE, /* bounds of a tile's rows, or of its columns */
  HALF = TILE / 2,                   /* rows that products are split into */
  WARP = 32
};
const unsigned ALL_LANES = 0xffffffffu;

/* ---- number types -------------------------------------------------------------------------- */

/* Holds costs below 2^53. Whatever is rounded is above every cost, so minima are exact. */
struct NumberF64 {
  typedef double Value;
  static const uint64_t LIMIT = (uint64_t)1 << 53; /* costs and W stay below this */
  enum { MINIMUM_IS_DEAR = 1 };                    /* a comparison costs less than a minimum */
  static __device__ __forceinline__ Value infinity() {
    return __longlong_as_double(0x7ff0000000000000ll);
  }
  static __device__ __forceinline__ Value product(Value p, Value q) { return p * q; }
  /* Returns a + b + pq r. */
  static __device__ __forceinline__ Value cost(Value pq, Value r, Value a, Value b) {
    return fma(pq, r, a) + b;
  }
  /* Lowers an entry; non-negative doubles are in the order of their bits. */
  static __device__ __forceinline__ void lower(Value *entry, Value cost) {
    atomicMin((unsigned long long *)entry, (unsigned long long)__double_as_longlong(cost));
  }
  /* Return c - w, rounded down and up. */
  static __device__ __forceinline__ float excess_down(Value c, Value w) {
    return __double2float_rd(c - w);
  }
  static __device__ __forceinline__ float excess_up(Value c, Value w) {
    return __double2float_ru(c - w);
  }
};

/* Holds costs when every candidate is below 2^63, and dims below 2^32. */
struct NumberU64 {
  typedef unsigned long long Value;
  static const uint64_t LIMIT = (uint64_t)1 << 63;
  static const uint64_t DIM_LIMIT = UINT32_MAX;
  enum { MINIMUM_IS_DEAR = 1 };
  static __device__ __forceinline__ Value infinity() { return ~0ull; }
  static __device__ __forceinline__ Value product(Value p, Value q) {
    return (Value)(unsigned)p * (unsigned)q;
  }
  static __device__ __forceinline__ Value cost(Value pq, Value r, Value a, Value b) {
    return pq * (unsigned)r + a + b;
  }
  static __device__ __forceinline__ void lower(Value *entry, Value cost) { atomicMin(entry, cost); }
  static __device__ __forceinline__ float excess_down(Value c, Value w) {
    return __ll2float_rd((long long)(c - w));
  }
  static __device__ __forceinline__ float excess_up(Value c, Value w) {
    return c == infinity() ? (float)INFINITY : __ll2float_ru((long long)(c - w));
  }
};

/* Holds costs below 2^63; candidates that do not fit stay at the top. */
struct NumberSaturating : NumberU64 {
  static __device__ __forceinline__ Value product(Value p, Value q) {
    return __umul64hi(p, q) != 0 ? infinity() : p * q;
  }
  static __device__ __forceinline__ Value cost(Value pq, Value r, Value a, Value b) {
    Value triple = product(pq, r), both = a + b, sum = both + triple;
    return sum < triple ? infinity() : sum;
  }
};

/* Holds costs when every candidate is below 2^32. */
struct NumberU32 {
  typedef unsigned Value;
  static const uint64_t LIMIT = UINT32_MAX;
  enum { MINIMUM_IS_DEAR = 0 };
  static __device__ __forceinline__ Value infinity() { return ~0u; }
  static __device__ __forceinline__ Value product(Value p, Value q) { return p * q; }
  static __device__ __forceinline__ Value cost(Value pq, Value r, Value a, Value b) {
    return pq * r + a + b;
  }
  static __device__ __forceinline__ void lower(Value *entry, Value cost) { atomicMin(entry, cost); }
  static __device__ __forceinline__ float excess_down(Value c, Value w) {
    return __ll2float_rd((long long)c - (long long)w);
  }
  static __device__ __forceinline__ float excess_up(Value c, Value w) {
    return c == infinity() ? (float)INFINITY : __ll2float_ru((long long)c - (long long)w);
  }
};

template <typename Value>
__device__ __forceinline__ Value least(Value a, Value b) {
  return b < a ? b : a;
}

/* Computes x = min(x, a + b + pq r). */
template <class Number>
__device__ __forceinline__ void relax(typename Number::Value &x, typename Number::Value pq,
                                      typename Number::Value r, typename Number::Value a,
                                      typename Number::Value b) {
  x = least(x, Number::cost(pq, r, a, b));
}
template <>
__device__ __forceinline__ void relax<NumberU32>(unsigned &x, unsigned pq, unsigned r, unsigned a,
                                                 unsigned b) {
  x = __viaddmin_u32(pq * r + a, b, x);
}

/* Reads count values of 8 or 4 bytes, 16 bytes at a time, through the L2 cache, where other blocks'
 * atomic minima arrive. */
template <int count, typename Value>
__device__ __forceinline__ void load_values(Value *to, const Value *from) {
#pragma unroll
  for (int i = 0; i < count; i += 16 / (int)sizeof(Value)) {
    uint4 words = __ldcg((const uint4 *)(from + i));
    memcpy(to + i, &words, 16);
  }
}

/* These read count values from shared memory or through all caches, and write them back, 16
 * bytes at a time. */
template <int count, typename Value>
__device__ __forceinline__ void load_words(Value *to, const Value *from) {
#pragma unroll
  for (int i = 0; i < count; i += 16 / (int)sizeof(Value)) {
    uint4 words = *(const uint4 *)(from + i);
    memcpy(to + i, &words, 16);
  }
}
template <int count, typename Value>
__device__ __forceinline__ void store_words(Value *to, const Value *from) {
#pragma unroll
  for (int i = 0; i < count; i += 16 / (int)sizeof(Value)) {
    uint4 words;
    memcpy(&words, from + i, 16);
    *(uint4 *)(to + i) = words;
  }
}

/* ---- the table ----------------------------------------------------------------------------- */

static __host__ __device__ inline size_t tile_index(int I, int J) {
  return (size_t)J * (size_t)(J + 1) / 2 + (size_t)I;
}

/* A group of candidates that its bound does not decide: vertices 16g.. of tile K for half of the
 * rows of tile (I, I + d). */
struct Undecided {
  int tile_half;  /* 2 I + half */
  int tile_group; /* 4 K + g */
};

template <class Number>
struct Table {
  typedef typename Number::Value Value;
  int tiles; /* tiles along an edge of the table */
  Value *cost;
  float *bound;
  const Value *dim;       /* 64 dims for each tile */
  const Value *base;      /* W */
  const float *dim_low;   /* dims rounded down */
  const float *dim_tile;  /* the least dim of each tile, rounded down */
  const float *dim_group; /* the least dim of each 16 */
  const int *least_dim; /* [level][i]: the leftmost position of the least of dims i..i+2^level-1 */
  float *limit;         /* starting excesses of the tiles of the present diagonal, rounded up */
  Undecided *undecided; /* undecided groups of the present diagonal, in no order */
  unsigned *undecided_count; /* how many groups of each diagonal are undecided */

  __device__ __forceinline__ Value *cost_tile(int I, int J) const {
    return cost + tile_index(I, J) * TILE_ENTRIES;
  }
  __device__ __forceinline__ float *bounds(int I, int J, bool of_columns) const {
    return bound + (2 * tile_index(I, J) + (of_columns ? 1 : 0)) * TILE_BOUNDS;
  }
  __device__ __forceinline__ Value entry(int a, int b) const {
    return __ldcg(cost_tile(a / TILE, b / TILE) + a % TILE * TILE + b % TILE);
  }
  /* Returns the leftmost position of the least dim in first..last. */
  __device__ __forceinline__ int least_vertex(int first, int last) const {
    int level = 31 - __clz(last - first + 1);
    const int *row = least_dim + (size_t)level * (size_t)(tiles * TILE);
    int left = row[first], right = row[last + 1 - (1 << level)];
    return dim[right] < dim[left] ? right : left;
  }
};

}  // namespace mmci_tiled

#endif
