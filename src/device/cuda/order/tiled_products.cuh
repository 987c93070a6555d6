/* tiled_products.cuh: products of tiles that pass over what cannot win.
 *
 * A product of tiles (I, K) and (K, J) holds 64 candidates for every entry of tile (I, J). Most are
 * far above the entry's present value, and that is cheap to prove for many at once: with the least
 * excesses and the least dim of 16 vertices v,
 *
 *     (p[a] min p[v]) p[b]  +  min low[a][v]  +  min low[v][b]  >=  c[a][b] - (W[b] - W[a]),
 *
 * all rounded down on the left and up on the right, says that none of the 16 lowers c[a][b]; all 64
 * are tried first. Where that fails for one entry of 32 x 64, the 16 costs of all of them are
 * computed. So every candidate is computed or proven to be no improvement. On random dims 1-3% of
 * the groups of 16 are computed. Candidates that tie pass as long as single precision holds them
 * exactly, which W and dividing the dims by their common factor make likely; at worst all are
 * computed, and most diagonals are then not tested.
 *
 * Four kernels a diagonal: seed_tiles gives every entry a value to start from; test_tiles tests
 * tiles and groups and lists those that are not decided; compute_undecided does these; outer_tiles
 * does both for the two outermost tiles K, which are known last. */
#ifndef MMCI_CUDA_ORDER_TILED_PRODUCTS_CUH
#define MMCI_CUDA_ORDER_TILED_PRODUCTS_CUH

#include "device/cuda/order/tiled_table.cuh"

namespace mmci_tiled {

/* ---- starting values ------------------------------------------------------------------------ */

/* The entries of the tiles of diagonal d take the exact costs at three vertices of tiles
 * I+skip..J-skip: the least dim of all, of the first tile and of the last.
 * Launch   four blocks of 256 a tile, 4 entries of a row a thread. */
enum { SEED_THREADS = 256, SEED_PARTS = TILE_ENTRIES / (4 * SEED_THREADS) };
template <class Number>
__global__ void __launch_bounds__(SEED_THREADS) seed_tiles(Table<Number> table, int d, int skip) {
  typedef typename Number::Value Value;
  const int I = (int)blockIdx.x / SEED_PARTS, J = I + d;
  const int first = (I + skip) * TILE, last = (J - skip + 1) * TILE - 1;
  const int e = ((int)blockIdx.x % SEED_PARTS * SEED_THREADS + (int)threadIdx.x) * 4;
  const int row = e / TILE, column = e % TILE;
  const int vertices[3] = {table.least_vertex(first, last),
                           table.least_vertex(first, first + TILE - 1),
                           table.least_vertex(last - TILE + 1, last)};
  Value x[4], q[4], base[4];
  load_words<4>(q, table.dim + J * TILE + column);
  load_words<4>(base, table.base + J * TILE + column);
#pragma unroll
  for (int s = 0; s < 3; s++) {
    const int K = vertices[s] / TILE, k = vertices[s] % TILE;
    const Value a = table.cost_tile(I, K)[row * TILE + k];
    const Value pq = Number::product(table.dim[I * TILE + row], table.dim[vertices[s]]);
    Value b[4];
    load_words<4>(b, table.cost_tile(K, J) + k * TILE + column);
#pragma unroll
    for (int c = 0; c < 4; c++) {
      const Value cost = Number::cost(pq, q[c], a, b[c]);
      x[c] = s == 0 ? cost : least(x[c], cost);
    }
  }
  const Value row_base = table.base[I * TILE + row];
  float limit[4];
#pragma unroll
  for (int c = 0; c < 4; c++) limit[c] = Number::excess_up(x[c], base[c] - row_base);
  store_words<4>(table.cost_tile(I, J) + e, x);
  /* Nobody tests before d = 4, whose limits are written while diagonal 3 is seeded. */
  if (d >= 4) store_words<4>(table.limit + (size_t)I * TILE_ENTRIES + e, limit);
}

/* ---- bounds --------------------------------------------------------------------------------- */

/* Holds a warp's bounds on 4 ROWS rows of tile (I, J). A thread has ROWS of them, below each other,
 * and two runs of four columns, 32 apart, so that the warp reads whole lines. */
template <class Number, int ROWS>
struct Bounds {
  typedef typename Number::Value Value;
  struct Group { /* the operands of one test */
    float rows[ROWS], columns[8], dim;
  };
  int row, column;
  float limit[ROWS][8]; /* no candidate of this excess or more matters */
  float row_dim[ROWS], column_dim[8];

  __device__ __forceinline__ Bounds(const Table<Number> &table, int I, int J, int first_row) {
    const int lane = (int)(threadIdx.x % WARP);
    row = first_row + lane / 8 * ROWS;
    column = lane % 8 * 4;
    load_words<4>(column_dim, table.dim_low + J * TILE + column);
    load_words<4>(column_dim + 4, table.dim_low + J * TILE + 32 + column);
    load_words<ROWS>(row_dim, table.dim_low + I * TILE + row);
  }

  /* Loads the limits that seed_tiles left. */
  __device__ __forceinline__ void load_limits(const Table<Number> &table, int I) {
    const float *tile = table.limit + (size_t)I * TILE_ENTRIES + row * TILE + column;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      load_words<4>(limit[r], tile + r * TILE);
      load_words<4>(limit[r] + 4, tile + r * TILE + 32);
    }
  }

  /* Computes limits from the present costs. */
  __device__ __forceinline__ void compute_limits(const Table<Number> &table, int I, int J) {
    const Value *tile = table.cost_tile(I, J) + row * TILE + column;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      Value base[4];
      load_values<4>(base, table.base + J * TILE + 32 * half + column);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        Value present[4], row_base = table.base[I * TILE + row + r];
        load_values<4>(present, tile + r * TILE + 32 * half);
#pragma unroll
        for (int c = 0; c < 4; c++)
          limit[r][4 * half + c] = Number::excess_up(present[c], base[c] - row_base);
      }
    }
  }

  /* Loads the operands of vertices of tile K: rows from the bounds of (I, K), columns from (K,
   * J). */
  __device__ __forceinline__ void load(Group &group, const float *rows, const float *columns,
                                       float dim) const {
    load_words<ROWS>(group.rows, rows + row);
    load_words<4>(group.columns, columns + column);
    load_words<4>(group.columns + 4, columns + 32 + column);
    group.dim = dim;
  }

  /* Says whether some entry of this thread may be lowered by a vertex of the group. */
  __device__ __forceinline__ bool undecided(const Group &group) const {
    bool any = false;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const float pq = __fmul_rd(row_dim[r], group.dim);
#pragma unroll
      for (int c = 0; c < 8; c++)
        any |=
            __fadd_rd(__fmaf_rd(pq, column_dim[c], group.rows[r]), group.columns[c]) < limit[r][c];
    }
    return any;
  }
};

/* Every SAMPLED_DIAGONALS-th diagonal is tested whatever happens; when it leaves more than
 * MOSTLY_UNDECIDED 16ths of its groups, those up to the next are computed without tests. */
enum { SAMPLED_DIAGONALS = 16, MOSTLY_UNDECIDED = 15 };
template <class Number>
__device__ __forceinline__ bool tests_pay(const Table<Number> &table, int d) {
  const int sampled = d / SAMPLED_DIAGONALS * SAMPLED_DIAGONALS;
  if (sampled < 4 || sampled == d) return true;
  const long long groups = (long long)(table.tiles - sampled) * (sampled - 3) * 2 * GROUPS;
  return table.undecided_count[sampled] * 16ll <= groups * MOSTLY_UNDECIDED;
}

/* Lists every group of the vertices of tiles I+2..J-2, d >= 4, those of half a tile together. */
template <class Number>
__device__ __forceinline__ void list_all(const Table<Number> &table, int d) {
  const int per_half = (d - 3) * GROUPS;
  const unsigned count = (unsigned)((table.tiles - d) * 2 * per_half);
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned i = thread; i < count; i += gridDim.x * blockDim.x) {
    const int tile_half = (int)i / per_half;
    const Undecided item = {tile_half, GROUPS * (tile_half / 2 + 2) + (int)i % per_half};
    table.undecided[i] = item;
  }
  if (thread == 0) table.undecided_count[d] = count;
}

/* Tests the vertices of tiles I+2..J-2 for the tiles of diagonal d, d >= 4.
 * Launch   any number of blocks of 128; every warp takes an equal share of the sequence
 *          (half of a tile, tile K).
 * Traffic  192 instructions a thread for 32 x 64 x 64 candidates (multiply-add, addition,
 *          comparison) when the whole tile is decided, as 9 in 10 are; 400 bytes read a warp. No
 *          shared memory, no barriers.
 * Bound    issue slots: 0.05 to 0.1 a candidate of a warp, where computing takes 6 of the FP64
 * pipe. */
enum { TEST_THREADS = 128, TEST_ROWS = 8 };
template <class Number>
__global__ void __launch_bounds__(TEST_THREADS, 3) test_tiles(Table<Number> table, int d) {
  typedef Bounds<Number, TEST_ROWS> Test;
  if (!tests_pay(table, d)) {
    list_all(table, d);
    return;
  }
  const int tiles = d - 3;
  const long long work = (long long)(table.tiles - d) * 2 * tiles;
  const long long warps = (long long)gridDim.x * (TEST_THREADS / WARP);
  const long long warp = (long long)blockIdx.x * (TEST_THREADS / WARP) + threadIdx.x / WARP;
  const long long end = work * (warp + 1) / warps;
  for (long long begin = work * warp / warps; begin < end;) {
    const int tile_half = (int)(begin / tiles), I = tile_half / 2, J = I + d;
    const int first = (int)(begin % tiles);
    const int count = (int)least<long long>(tiles - first, end - begin);
    begin += count;
    Test test(table, I, J, tile_half % 2 * HALF);
    test.load_limits(table, I);
    auto load_tile = [&](typename Test::Group &group, int K) {
      test.load(group, table.bounds(I, K, false), table.bounds(K, J, true), table.dim_tile[K]);
    };
    /* Goes through the pairs; the next one's operands are fetched while one is tested. */
    const int K_end = I + 2 + first + count;
    for (int K = K_end - count; K < K_end; K += 2) {
      typename Test::Group even, odd;
      bool even_left, odd_left;
      load_tile(even, K);
      load_tile(odd, K + 1 < K_end ? K + 1 : K);
#pragma unroll 1
      for (;;) {
        const int next = K + 2 < K_end ? K + 2 : K, after = next + 1 < K_end ? next + 1 : next;
        even_left = test.undecided(even);
        load_tile(even, next);
        odd_left = test.undecided(odd);
        load_tile(odd, after);
        if (__any_sync(ALL_LANES, even_left || odd_left) || next == K) break;
        K = next;
      }
      /* Lists the groups of those tiles that are not decided. */
      const bool left[2] = {__any_sync(ALL_LANES, even_left) != 0,
                            __any_sync(ALL_LANES, odd_left) != 0 && K + 1 < K_end};
      unsigned groups = 0;
#pragma unroll 1
      for (int i = 0; i < 2 * GROUPS; i++) {
        const int tile = K + i / GROUPS, g = i % GROUPS;
        if (!(i < GROUPS ? left[0] : left[1])) continue;
        typename Test::Group group;
        test.load(group, table.bounds(I, tile, false) + (1 + g) * TILE,
                  table.bounds(tile, J, true) + (1 + g) * TILE, table.dim_group[tile * GROUPS + g]);
        if (__any_sync(ALL_LANES, test.undecided(group))) groups |= 1u << i;
      }
      const int lane = (int)(threadIdx.x % WARP);
      unsigned place = 0;
      if (lane == 0 && groups != 0)
        place = atomicAdd(&table.undecided_count[d], (unsigned)__popc(groups));
      place = __shfl_sync(ALL_LANES, place, 0);
      if (lane < 2 * GROUPS && (groups >> lane & 1) != 0) {
        const Undecided item = {tile_half, GROUPS * K + lane};
        table.undecided[place + (unsigned)__popc(groups & ((1u << lane) - 1))] = item;
      }
    }
  }
}

/* ---- exact costs ---------------------------------------------------------------------------- */

enum { COMPUTE_THREADS = 64, COMPUTE_BLOCKS = 6, COMPUTE_ROWS = 8, COMPUTE_COLUMNS = 4 };
/* Items that a block takes at a time, as test_tiles lists them. */
enum { COMPUTE_RUN = 2 * GROUPS };

template <class Number>
struct Operands {
  typedef typename Number::Value Value;
  Value a[GROUP][HALF + 4];  /* c[row][v] */
  Value pq[GROUP][HALF + 4]; /* p[row] p[v] */
  Value b[GROUP][TILE];      /* c[v][column] */
};

/* Computes the costs at the 16 vertices of a group for half a tile of diagonal d. A thread of the
 * block has 8 x 4 entries in registers: begin() and finish() are called for every half tile, and
 * between them for every group fetch(), stage(), a barrier, run() and another barrier before the
 * next stage(). */
template <class Number>
struct Computation {
  typedef typename Number::Value Value;
  enum {
    PER_WORD = 16 / (int)sizeof(Value), /* values in 16 bytes */
    ACROSS = TILE / COMPUTE_COLUMNS,    /* threads across a tile */
    RUN_STEP = ACROSS * PER_WORD, /* a thread's columns lie in runs of 16 bytes, so far apart */
    LAZY_ROWS = 4,                /* rows whose minima are taken together */
    FETCH_A = GROUP * HALF / COMPUTE_THREADS,
    FETCH_B = GROUP * TILE / COMPUTE_THREADS
  };
  const Table<Number> &table;
  Operands<Number> &shared;
  const int d, thread, row, column;
  Value x[COMPUTE_ROWS][COMPUTE_COLUMNS], q[COMPUTE_COLUMNS];
  Value fetched_a[FETCH_A], fetched_b[FETCH_B];

  __device__ __forceinline__ Computation(const Table<Number> &table_, Operands<Number> &shared_,
                                         int d_)
      : table(table_),
        shared(shared_),
        d(d_),
        thread((int)threadIdx.x),
        row(thread / ACROSS * COMPUTE_ROWS),
        column(thread % ACROSS * PER_WORD) {}

  __device__ __forceinline__ Value *tile(int tile_half) const {
    const int I = tile_half / 2;
    return table.cost_tile(I, I + d) + (tile_half % 2 * HALF + row) * TILE + column;
  }

  __device__ __forceinline__ void begin(int tile_half) {
    const Value *dims = table.dim + (tile_half / 2 + d) * TILE + column;
#pragma unroll
    for (int c = 0; c < COMPUTE_COLUMNS; c += PER_WORD)
      load_words<PER_WORD>(q + c, dims + c / PER_WORD * RUN_STEP);
    load(x, tile(tile_half));
  }

  __device__ __forceinline__ void load(Value (&to)[COMPUTE_ROWS][COMPUTE_COLUMNS],
                                       const Value *entries) const {
#pragma unroll
    for (int r = 0; r < COMPUTE_ROWS; r++)
#pragma unroll
      for (int c = 0; c < COMPUTE_COLUMNS; c += PER_WORD)
        load_values<PER_WORD>(&to[r][c], entries + r * TILE + c / PER_WORD * RUN_STEP);
  }

  /* Copies global memory to registers: half a row of the left operand, words of the right one. */
  __device__ __forceinline__ void fetch(Undecided item) {
    const int I = item.tile_half / 2, K = item.tile_group / GROUPS;
    const int v0 = item.tile_group % GROUPS * GROUP;
    const int left_row = item.tile_half % 2 * HALF + thread % HALF;
    load_words<FETCH_A>(fetched_a,
                        table.cost_tile(I, K) + left_row * TILE + v0 + thread / HALF * FETCH_A);
    const Value *right = table.cost_tile(K, I + d) + v0 * TILE + thread * PER_WORD;
#pragma unroll
    for (int i = 0; i < FETCH_B; i += PER_WORD)
      load_words<PER_WORD>(fetched_b + i, right + i * COMPUTE_THREADS);
  }

  /* Copies registers to shared memory, the left operand transposed. */
  __device__ __forceinline__ void stage(Undecided item) {
    const int first = thread / HALF * FETCH_A, left_row = thread % HALF;
    const Value row_dim = table.dim[item.tile_half * HALF + left_row];
    const Value *v_dims = table.dim + item.tile_group * GROUP;
#pragma unroll
    for (int i = 0; i < FETCH_A; i++) {
      shared.a[first + i][left_row] = fetched_a[i];
      shared.pq[first + i][left_row] = Number::product(row_dim, v_dims[first + i]);
    }
#pragma unroll
    for (int i = 0; i < FETCH_B; i += PER_WORD)
      store_words<PER_WORD>(&shared.b[0][0] + i * COMPUTE_THREADS + thread * PER_WORD,
                            fetched_b + i);
  }

  __device__ __forceinline__ void run() {
#pragma unroll 1
    for (int v = 0; v < GROUP; v++) {
      Value a[COMPUTE_ROWS], pq[COMPUTE_ROWS], b[COMPUTE_COLUMNS];
#pragma unroll
      for (int c = 0; c < COMPUTE_COLUMNS; c += PER_WORD)
        load_words<PER_WORD>(b + c, &shared.b[v][c / PER_WORD * RUN_STEP + column]);
      load_words<COMPUTE_ROWS>(a, &shared.a[v][row]);
      load_words<COMPUTE_ROWS>(pq, &shared.pq[v][row]);
#pragma unroll
      for (int r = 0; r < COMPUTE_ROWS; r += LAZY_ROWS) {
        if (!Number::MINIMUM_IS_DEAR) {
#pragma unroll
          for (int i = 0; i < LAZY_ROWS; i++)
#pragma unroll
            for (int c = 0; c < COMPUTE_COLUMNS; c++)
              relax<Number>(x[r + i][c], pq[r + i], q[c], a[r + i], b[c]);
          continue;
        }
        /* Few candidates are lower, which is found out without taking the minimum. */
        Value cost[LAZY_ROWS][COMPUTE_COLUMNS];
        bool lower = false;
#pragma unroll
        for (int i = 0; i < LAZY_ROWS; i++)
#pragma unroll
          for (int c = 0; c < COMPUTE_COLUMNS; c++) {
            cost[i][c] = Number::cost(pq[r + i], q[c], a[r + i], b[c]);
            lower |= cost[i][c] < x[r + i][c];
          }
        if (!__any_sync(ALL_LANES, lower)) continue;
#pragma unroll
        for (int i = 0; i < LAZY_ROWS; i++)
#pragma unroll
          for (int c = 0; c < COMPUTE_COLUMNS; c++) x[r + i][c] = least(x[r + i][c], cost[i][c]);
      }
    }
  }

  /* Lowers the entries of the table that were beaten. They are read all at once, because atomics
   * would keep the reads apart. */
  __device__ __forceinline__ void finish(int tile_half) {
    Value *entries = tile(tile_half), present[COMPUTE_ROWS][COMPUTE_COLUMNS];
    load(present, entries);
#pragma unroll
    for (int r = 0; r < COMPUTE_ROWS; r++)
#pragma unroll
      for (int c = 0; c < COMPUTE_COLUMNS; c++)
        if (x[r][c] < present[r][c])
          Number::lower(entries + r * TILE + c / PER_WORD * RUN_STEP + c % PER_WORD, x[r][c]);
  }
};

/* Computes what test_tiles left undecided.
 * Launch   any number of blocks of 64. Each takes runs of the list in turn; groups of one half tile
 *          that follow each other share its entries in registers.
 * Traffic  32 x 64 x 16 candidates for 12 KB read (FP64), a group ahead.
 * Bound    FP64: multiply-add, addition and comparison, 2 cycles each a warp and quarter. */
template <class Number>
__global__ void __launch_bounds__(COMPUTE_THREADS, COMPUTE_BLOCKS)
    compute_undecided(Table<Number> table, int d) {
  __shared__ __align__(16) unsigned char memory[sizeof(Operands<Number>)];
  Computation<Number> computation(table, *(Operands<Number> *)memory, d);
  const unsigned count = table.undecided_count[d];
  const unsigned run = least<unsigned>(COMPUTE_RUN, count / (2 * gridDim.x) + 1);
  auto after = [&](unsigned item) {
    return (item + 1) % run != 0 ? item + 1 : item + 1 + (gridDim.x - 1) * run;
  };
  unsigned item = blockIdx.x * run;
  if (item >= count) return;
  Undecided now = table.undecided[item], next = now;
  computation.begin(now.tile_half);
  computation.fetch(now);
  if (after(item) < count) next = table.undecided[after(item)];
  for (;;) {
    computation.stage(now);
    const int tile_half = now.tile_half;
    const bool last = (item = after(item)) >= count;
    if (!last) {
      now = next;
      computation.fetch(now);
      if (after(item) < count) next = table.undecided[after(item)];
    }
    __syncthreads();
    computation.run();
    if (last || now.tile_half != tile_half) {
      computation.finish(tile_half);
      if (last) return;
      computation.begin(now.tile_half);
    }
    __syncthreads();
  }
}

/* The vertices of tiles I+1 and J-1 for the tiles of diagonal d, d >= 2.
 * Launch   one block of 64 a half of a tile and group: 2 * 4 * (1 or 2) of them a tile. Its two
 * warps test 16 rows each, and both compute the group when one of them leaves it undecided. */
template <class Number>
__global__ void __launch_bounds__(COMPUTE_THREADS, COMPUTE_BLOCKS)
    outer_tiles(Table<Number> table, int d) {
  __shared__ __align__(16) unsigned char memory[sizeof(Operands<Number>)];
  const int units = 2 * GROUPS * (d == 2 ? 1 : 2), I = (int)blockIdx.x / units, J = I + d;
  const int unit = (int)blockIdx.x % units, half = unit % 2, g = unit / 2 % GROUPS;
  const int K = unit < 2 * GROUPS ? I + 1 : J - 1;
  typedef Bounds<Number, 4> Test;
  Test test(table, I, J, half * HALF + (int)threadIdx.x / WARP * (HALF / 2));
  typename Test::Group group;
  test.load(group, table.bounds(I, K, false) + (1 + g) * TILE,
            table.bounds(K, J, true) + (1 + g) * TILE, table.dim_group[K * GROUPS + g]);
  test.compute_limits(table, I, J);
  if (__syncthreads_or(test.undecided(group))) {
    const Undecided item = {2 * I + half, GROUPS * K + g};
    Computation<Number> computation(table, *(Operands<Number> *)memory, d);
    computation.fetch(item);
    computation.begin(item.tile_half);
    computation.stage(item);
    __syncthreads();
    computation.run();
    computation.finish(item.tile_half);
  }
}

}  // namespace mmci_tiled

#endif
