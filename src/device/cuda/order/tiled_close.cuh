/* tiled_close.cuh: computes the first diagonal of tiles, and finishes every other tile by the
 * vertices that lie in the tile's own rows and columns. */
#ifndef MMCI_CUDA_ORDER_TILED_CLOSE_CUH
#define MMCI_CUDA_ORDER_TILED_CLOSE_CUH

#include "device/cuda/order/tiled_table.cuh"

namespace mmci_tiled {

/* The tiles on the main diagonal, from nothing, one anti-diagonal of entries after the other.
 * Launch   one block of 512 a tile; eight lanes share an entry's candidates. */
enum { FIRST_THREADS = 512 };
template <class Number>
__global__ void __launch_bounds__(FIRST_THREADS) first_tiles(Table<Number> table) {
  typedef typename Number::Value Value;
  const int lanes = FIRST_THREADS / TILE;
  MMCI_DYNAMIC_SHARED(memory);
  Value(*x)[TILE + 1] = (Value(*)[TILE + 1]) memory;
  Value *p = &x[TILE][0];
  const int thread = (int)threadIdx.x, I = (int)blockIdx.x;
  for (int e = thread; e < TILE_ENTRIES; e += FIRST_THREADS)
    x[e / TILE][e % TILE] = e % TILE == e / TILE + 1 ? (Value)0 : Number::infinity();
  if (thread < TILE) p[thread] = table.dim[I * TILE + thread];
  __syncthreads();
  const int a = thread / lanes, lane = thread % lanes;
  for (int length = 2; length < TILE; length++) {
    const int b = a + length;
    Value best = Number::infinity();
    if (b < TILE) {
      const Value pq = Number::product(p[a], p[b]);
      for (int v = a + 1 + lane; v < b; v += lanes) relax<Number>(best, pq, p[v], x[a][v], x[v][b]);
    }
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2)
      best = least(best, __shfl_xor_sync(ALL_LANES, best, distance));
    if (b < TILE && lane == 0) x[a][b] = best;
    __syncthreads();
  }
  Value *tile = table.cost_tile(I, I);
  for (int e = thread; e < TILE_ENTRIES; e += FIRST_THREADS) tile[e] = x[e / TILE][e % TILE];
}

/* A tile in shared memory, whose blocks of 4 x 4 are read row by row, 16 bytes at a time, by
 * threads whose blocks lie on one anti-diagonal, without bank conflicts. Values of 8 bytes lie in
 * two planes, the even and the odd pairs of columns, half the banks apart. */
template <typename Value>
struct SharedTile {
  enum {
    PLANES = (int)sizeof(Value) / 4,
    PER_WORD = 4 / PLANES, /* values in 16 bytes */
    PITCH = TILE / PLANES + PER_WORD,
    PLANE = TILE * PITCH + 64 / (int)sizeof(Value),
    VALUES = PLANES * PLANE
  };
  Value *values;
  __device__ __forceinline__ Value *word(int plane, int row, int C) const {
    return values + plane * PLANE + row * PITCH + C * PER_WORD;
  }
  __device__ __forceinline__ Value &at(int row, int column) const {
    return word(column % 4 / PER_WORD, row, column / 4)[column % PER_WORD];
  }
  /* Loads the four entries of a row in block column C. */
  __device__ __forceinline__ void load(Value *to, int row, int C) const {
#pragma unroll
    for (int plane = 0; plane < PLANES; plane++)
      load_words<PER_WORD>(to + plane * PER_WORD, word(plane, row, C));
  }
  __device__ __forceinline__ void store(const Value *from, int row, int C) const {
#pragma unroll
    for (int plane = 0; plane < PLANES; plane++)
      store_words<PER_WORD>(word(plane, row, C), from + plane * PER_WORD);
  }
};

/* Lets x[i][j] take the candidates of the four vertices of a block, whose dims are q: left[i][k] +
 * right[k][j]. */
template <class Number, int ROWS>
__device__ __forceinline__ void relax_block(typename Number::Value (&x)[ROWS][4],
                                            const typename Number::Value (&pq)[ROWS][4],
                                            const SharedTile<typename Number::Value> &left,
                                            const SharedTile<typename Number::Value> &right,
                                            const typename Number::Value *dims, int row, int block,
                                            int C) {
  typedef typename Number::Value Value;
  Value a[ROWS][4], q[4];
  load_words<4>(q, dims + 4 * block);
#pragma unroll
  for (int i = 0; i < ROWS; i++) left.load(a[i], row + i, block);
#pragma unroll
  for (int k = 0; k < 4; k++) {
    Value b[4];
    right.load(b, 4 * block + k, C);
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) relax<Number>(x[i][j], pq[i][j], q[k], a[i][k], b[j]);
  }
}

/* Finishes a 4 x 4 block whose candidates from other blocks are all in, by the vertices of its own
 * rows and columns, bottom left first; the operand that is ready last is used last. */
template <class Number>
__device__ __forceinline__ void finish_block(typename Number::Value (&x)[4][4],
                                             const typename Number::Value (&left)[4][4],
                                             const typename Number::Value (&right)[4][4],
                                             const typename Number::Value *row_dim,
                                             const typename Number::Value *column_dim) {
  typedef typename Number::Value Value;
  Value p[4], q[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    p[i] = row_dim[i];
    q[i] = column_dim[i];
  }
#pragma unroll
  for (int step = 0; step < 7; step++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int i = 3 - step + j;
      if (i < 0 || i > 3) continue;
      const Value pq = Number::product(p[i], q[j]);
#pragma unroll
      for (int g = 3; g > 0; g--) {
        if (i + g < 4) relax<Number>(x[i][j], pq, p[i + g], left[i][i + g], x[i + g][j]);
        if (j - g >= 0) relax<Number>(x[i][j], pq, q[j - g], right[j - g][j], x[i][j - g]);
      }
    }
}

/* Finishes the tiles of diagonal d >= 1; those of all diagonals before are finished, and tile
 * (I, J) has seen the vertices of tiles I+1..J-1.
 * Layout   the tile and the two triangles that it depends on, (I, I) and (J, J), in shared memory;
 *          two threads a block of 4 x 4 entries, which they keep in registers.
 * Launch   one block of 512 a tile; shared memory as CloseMemory.
 * Idea     blocks with the same C - R are independent. In 31 waves, from the bottom left corner,
 *          the blocks of a wave are finished by one thread each and published; then every later
 *          block takes the candidates they bring it: 4 vertices from the one below it in its
 *          column, 4 from the one left of it in its row. A wave's gate opens when its blocks are
 *          published; blocks of far waves may lag behind, so that the next wave's never wait.
 * Bound    latency: 127 anti-diagonals of entries depend on each other. */
enum { CLOSE_THREADS = 512, CLOSE_WAVES = 2 * (TILE / 4) - 1 };
template <class Number>
struct CloseMemory {
  typedef typename Number::Value Value;
  Value x[SharedTile<Value>::VALUES], left[SharedTile<Value>::VALUES],
      right[SharedTile<Value>::VALUES];
  Value row_dim[TILE], column_dim[TILE];
  mmci_gate published[CLOSE_WAVES];
};

template <class Number>
__global__ void __launch_bounds__(CLOSE_THREADS, 1) close_tiles(Table<Number> table, int d) {
  typedef typename Number::Value Value;
  MMCI_DYNAMIC_SHARED(memory);
  CloseMemory<Number> &shared = *(CloseMemory<Number> *)memory;
  const SharedTile<Value> X = {shared.x}, left = {shared.left}, right = {shared.right};
  const int thread = (int)threadIdx.x, I = (int)blockIdx.x, J = I + d;

#pragma unroll
  for (int i = 0; i < TILE_ENTRIES / CLOSE_THREADS; i++) {
    const int e = i * CLOSE_THREADS + thread, row = e / TILE, column = e % TILE;
    X.at(row, column) = d >= 2                           ? table.cost_tile(I, J)[e]
                        : row == TILE - 1 && column == 0 ? (Value)0
                                                         : Number::infinity();
    left.at(row, column) = table.cost_tile(I, I)[e];
    right.at(row, column) = table.cost_tile(J, J)[e];
  }
  if (thread == CLOSE_THREADS - 1) {
#pragma unroll 1
    for (int w = 0; w < CLOSE_WAVES; w++)
      shared.published[w].close(w > 15 ? CLOSE_WAVES - w : w + 1);
  }
  if (thread < TILE)
    shared.row_dim[thread] = table.dim[I * TILE + thread];
  else if (thread < 2 * TILE)
    shared.column_dim[thread - TILE] = table.dim[J * TILE + thread - TILE];
  __syncthreads();

  /* These are the thread's block (R, C) and its wave. Threads are sorted by wave, the last first,
   * so that warps are busy or done as a whole. */
  const int half = thread % 2;
  int wave = CLOSE_WAVES - 1, blocks = 1, rank = thread / 2;
  while (rank >= blocks) {
    rank -= blocks;
    wave--;
    blocks = wave > 15 ? CLOSE_WAVES - wave : wave + 1;
  }
  const int C = wave > 15 ? wave - 15 + rank : rank, R = C - wave + 15, row = 4 * R + 2 * half;
  Value x[2][4], pq[2][4];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    X.load(x[i], row + i, C);
#pragma unroll
    for (int j = 0; j < 4; j++)
      pq[i][j] = Number::product(shared.row_dim[row + i], shared.column_dim[4 * C + j]);
  }
  const int last_wave = __shfl_sync(ALL_LANES, wave, 0); /* the last wave of this warp */
#pragma unroll 1
  for (int w = 0; w <= last_wave; w++) {
    if (w == wave && half == 1) {
      X.store(x[0], row, C);
      X.store(x[1], row + 1, C);
    }
    __syncwarp();
    if (w == wave && half == 0) {
      Value whole[4][4], l[4][4], r[4][4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        left.load(l[i], row + i, R);
        right.load(r[i], 4 * C + i, C);
      }
      X.load(whole[2], row + 2, C);
      X.load(whole[3], row + 3, C);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        whole[0][j] = x[0][j];
        whole[1][j] = x[1][j];
      }
      finish_block<Number>(whole, l, r, shared.row_dim + row, shared.column_dim + 4 * C);
#pragma unroll
      for (int i = 0; i < 4; i++) X.store(whole[i], row + i, C);
      shared.published[w].arrive();
    }
    if (w == last_wave) break;
    shared.published[w].wait();
    /* One body serves both kinds of candidates, so that lanes with one kind each stay together. */
    const int below = C + 15 - w, beside = R - 15 + w;
    const bool takes_below = w < wave && below <= 15, takes_beside = w < wave && beside >= 0;
#pragma unroll 1
    for (int turn = 0; turn < 2; turn++) {
      const bool column = turn == 0 && takes_below;
      if (column || (takes_beside && (turn == 1) == takes_below))
        relax_block<Number, 2>(x, pq, column ? left : X, column ? X : right,
                               column ? shared.row_dim : shared.column_dim, row,
                               column ? below : beside, C);
    }
  }
  __syncthreads();

  /* Writes the costs, and the least excesses of groups. The triangles' memory is free now. */
  enum { LOW_PITCH = TILE + 4 };
  float *low = (float *)shared.left;
#pragma unroll
  for (int i = 0; i < TILE_ENTRIES / CLOSE_THREADS; i++) {
    const int e = i * CLOSE_THREADS + thread, a = e / TILE, b = e % TILE;
    const Value cost = X.at(a, b);
    table.cost_tile(I, J)[e] = cost;
    low[a * LOW_PITCH + b] =
        Number::excess_down(cost, table.base[J * TILE + b] - table.base[I * TILE + a]);
  }
  __syncthreads();
  /* thread = [over columns or rows][group][row or column] */
  const int line = thread % TILE, g = thread / TILE % GROUPS;
  const bool over_rows = thread >= GROUPS * TILE;
  const float *from =
      low + (over_rows ? g * GROUP * LOW_PITCH + line : line * LOW_PITCH + g * GROUP);
  float lowest = from[0];
#pragma unroll
  for (int i = 1; i < GROUP; i++) lowest = fminf(lowest, from[over_rows ? i * LOW_PITCH : i]);
  float *bounds = table.bounds(I, J, over_rows);
  bounds[(1 + g) * TILE + line] = lowest;
  float *lowest_of = low + TILE * LOW_PITCH; /* [over columns or rows][row or column][group] */
  lowest_of[((over_rows ? TILE : 0) + line) * GROUPS + g] = lowest;
  __syncthreads();
  if (g == 0) {
    const float *of = lowest_of + ((over_rows ? TILE : 0) + line) * GROUPS;
    bounds[line] = fminf(fminf(of[0], of[1]), fminf(of[2], of[3]));
  }
}

}  // namespace mmci_tiled

#endif
