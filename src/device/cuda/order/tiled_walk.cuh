/* tiled_walk.cuh: finds the splits again in the finished table.
 *
 * A split of (i, j) is a vertex k with c[i][k] + c[k][j] + p[i] p[k] p[j] = c[i][j]. Of several,
 * the one wins that goes_before() all others, the rule that all solvers of mmchain share. With v
 * the leftmost vertex of least dim in i..j it says where to look first:
 *
 *     v = i       the greatest split: from j-1 downwards, the first match ends the search
 *     v = j       the least split: from i+1 upwards, the first match ends the search
 *     between     v itself, if it is a split; else all have to be seen
 *
 * Deep trees consist of fans: from i, the sub-chains (i, j), (i, j-1), ... whose splits are j-1,
 * j-2 and so on. A block tries the next 256 of such a run at once.
 *
 * The answer lists parents before children and right children before left ones. The j-i-1 products
 * of a sub-chain fill a run of the list: its own split, then the run of (k, j), then that of (i,
 * k). So a node's place is known before its children are. */
#ifndef MMCI_CUDA_ORDER_TILED_WALK_CUH
#define MMCI_CUDA_ORDER_TILED_WALK_CUH

#include "device/cuda/order/tiled_table.cuh"

namespace mmci_tiled {

struct Walk {
  int products;  /* n - 1 products, at least 1 */
  int4 *nodes;   /* nodes {i, j, place} that wait, in the order of their tickets, the root first */
  int *ready;    /* for each ticket, whether the node has been written */
  int *counters; /* tickets given, nodes written, splits found, sub-chains without a split */
  int *splits;
};
enum { TICKETS, WRITTEN, FOUND, FAILED, COUNTERS };
enum { WALK_THREADS = 256, WALK_AHEAD = 4, NO_SPLIT = -1 };

/* Says whether split k goes before split o of (i, j), when both tie. Of two vertices the lighter is
 * the one of smaller dim, of equal dims the one further left. Of the splits that tie, the lightest
 * wins if it is lighter than both ends; else the greatest, when i is the lighter end, or the
 * least. */
template <typename Value>
static __device__ __forceinline__ bool goes_before(const Value *dim, int i, int j, int k, int o) {
  const int end = dim[j] < dim[i] ? j : i;
  const int best = dim[k] < dim[o] || (dim[k] == dim[o] && k < o) ? k : o;
  if (dim[best] < dim[end] || (dim[best] == dim[end] && best < end)) return best == k;
  return end == i ? k > o : k < o;
}

template <typename Value>
static __device__ __forceinline__ int winner(const Value *dim, int i, int j, int k, int o) {
  if (k == NO_SPLIT || o == NO_SPLIT) return k == NO_SPLIT ? o : k;
  return goes_before(dim, i, j, k, o) ? k : o;
}

/* Returns the split of (i, j), j - i > 1, which a whole block finds; every thread gets the same
 * answer. v is the leftmost vertex of least dim. It uses one word for each warp in shared memory,
 * twice. */
template <class Number>
static __device__ __forceinline__ int find_split(const Table<Number> &table, int i, int j, int v,
                                                 int (*shared)[WALK_THREADS / WARP]) {
  typedef typename Number::Value Value;
  const int thread = (int)threadIdx.x;
  const Value target = table.entry(i, j), pq = Number::product(table.dim[i], table.dim[j]);
  auto splits = [&](int k) {
    return Number::cost(pq, table.dim[k], table.entry(i, k), table.entry(k, j)) == target;
  };
  const bool inside = v != i && v != j;
  if (inside && splits(v)) return v; /* every thread finds the same */
  int best = NO_SPLIT, side = 0;
  for (int first = 0; first < j - i - 1; first += WALK_THREADS * WALK_AHEAD, side ^= 1) {
#pragma unroll
    for (int ahead = 0; ahead < WALK_AHEAD; ahead++) {
      const int index = first + ahead * WALK_THREADS + thread;
      const int k = v == i ? j - 1 - index : i + 1 + index;
      if (index < j - i - 1 && splits(k)) best = winner(table.dim, i, j, best, k);
    }
    /* The last round decides, and any round with a match when the ends come first. */
    if (inside && first + WALK_THREADS * WALK_AHEAD < j - i - 1) continue;
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2)
      best = winner(table.dim, i, j, best, __shfl_xor_sync(ALL_LANES, best, distance));
    if (thread % WARP == 0) shared[side][thread / WARP] = best;
    __syncthreads();
    for (int warp = 0; warp < WALK_THREADS / WARP; warp++)
      best = winner(table.dim, i, j, best, shared[side][warp]);
    if (best != NO_SPLIT) break;
  }
  __syncthreads();
  return best;
}

/* Returns how many sub-chains from (i, j) on, at most 256, belong to a fan from its least vertex v,
 * i or j: (i, j), (i, j-1), ... with splits j-1, j-2, ...; or (i, j), (i+1, j), ... with i+1, i+2,
 * ... Thread t writes the split of number t. Every thread gets the same answer. */
template <class Number>
static __device__ __forceinline__ int find_fan(const Table<Number> &table, int i, int j, int v,
                                               int *splits, int *shared) {
  const int thread = (int)threadIdx.x;
  const int a = v == i ? i : i + thread, b = v == i ? j - thread : j, k = v == i ? b - 1 : a + 1;
  bool fits = false;
  if (b - a > 1)
    fits = Number::cost(Number::product(table.dim[a], table.dim[b]), table.dim[k],
                        table.entry(a, k), table.entry(k, b)) == table.entry(a, b);
  const unsigned misfits = ~__ballot_sync(ALL_LANES, fits);
  if (thread % WARP == 0)
    shared[thread / WARP] = misfits == 0 ? (int)WARP : __ffs((int)misfits) - 1;
  __syncthreads();
  int length = 0;
  for (int warp = 0; warp < WALK_THREADS / WARP && length == warp * WARP; warp++)
    length += shared[warp];
  if (thread < length) splits[thread] = k;
  __syncthreads();
  return length;
}

/* Launch   any number of blocks of 256. A block follows one child of each node and leaves the other
 *          to whoever draws its ticket; only blocks that run are waited for. */
template <class Number>
__global__ void __launch_bounds__(WALK_THREADS) find_splits(Table<Number> table, Walk walk) {
  __shared__ int4 node_shared;
  __shared__ int best_shared[2][WALK_THREADS / WARP];
  const int thread = (int)threadIdx.x;
  for (;;) {
    if (thread == 0) {
      int4 node = {0, 0, 0, 0};
      const int ticket = atomicAdd(&walk.counters[TICKETS], 1);
      if (ticket < walk.products) {
        volatile int *ready = &walk.ready[ticket], *found = &walk.counters[FOUND];
        while (*ready == 0 && *found < walk.products) __nanosleep(100);
        __threadfence();
        if (*ready != 0) node = __ldcg(&walk.nodes[ticket]);
      }
      node_shared = node;
    }
    __syncthreads();
    int i = node_shared.x, j = node_shared.y, place = node_shared.z, followed = 0;
    if (j == 0) return;
    while (j - i > 1) {
      const int v = table.least_vertex(i, j);
      if (v == i || v == j) {
        const int length = find_fan(table, i, j, v, walk.splits + place, best_shared[0]);
        if (v == i)
          j -= length;
        else
          i += length;
        place += length;
        followed += length;
        if (length > 0) continue;
      }
      int k = find_split(table, i, j, v, best_shared);
      if (k == NO_SPLIT) {
        k = i + 1;
        if (thread == 0) atomicAdd(&walk.counters[FAILED], 1);
      }
      if (thread == 0) {
        walk.splits[place] = k;
        if (k - i > 1 && j - k > 1) {
          const int4 left = {i, k, place + (j - k), 0};
          const int ticket = atomicAdd(&walk.counters[WRITTEN], 1);
          __stcg(&walk.nodes[ticket], left);
          __threadfence();
          atomicExch(&walk.ready[ticket], 1);
        }
      }
      /* The right child's run comes next; a factor's is empty. */
      if (j - k > 1)
        i = k;
      else
        j = k;
      place++;
      followed++;
    }
    if (thread == 0) atomicAdd(&walk.counters[FOUND], followed);
    __syncthreads();
  }
}

}  // namespace mmci_tiled

#endif
