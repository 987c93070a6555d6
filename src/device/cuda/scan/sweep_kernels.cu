/* sweep_kernels.cu: running products of small square matrices, see scan_kernels.h.
 *
 * A block of threads keeps a tile of factors in shared memory, so that factors are read once. A
 * chain is a few lanes that take a run of the tile's factors. A row of a state depends on no other
 * row of the states before, so each lane keeps rows in registers and reads the factors from shared
 * memory. Every chain multiplies its factors; a tree joins the chains' products (Blelloch 1990);
 * the tile's product is published, and the state before the tile is found by looking back at what
 * blocks before have published (Merrill and Garland 2016): the products of the tiles of its group,
 * of the groups of its row of groups, and the state before the row. So the order of the products is
 * the same whatever block is first, and only rows wait for one another. Then every chain goes
 * through its factors again and puts each state in the place of its factor, from where the tile
 * leaves in whole lines.
 *
 * Pieces of 16 bytes of a row lie in another order in every other row, and chains lie apart by 16
 * bytes more than their factors, so that lanes meet in few banks.
 *
 * Launch  a block of THREADS threads for every tile of every scan; a tile's number is drawn when
 *         its block starts, so that it waits for blocks that have started before it */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/scan/scan_kernels.h"

namespace {

enum { PIECE_BYTES = 16, LINE_BYTES = 128 };
/* Groups of a row, and slots for what is looked at together: these, the state before them, and the
 * tiles of a group. */
enum { ROW = 16, WINDOW = ROW + 1 };
/* The words before the flags: the next tile, tiles that are done, executions that are done. */
enum { TICKET, DONE, EPOCH, CONTROL };

template <typename Real, int SIDE, int OWN_ROWS, int BLOCK, int TILES>
struct Shape {
  enum {
    N = SIDE,
    ROWS = OWN_ROWS, /* of a lane */
    THREADS = BLOCK,
    GROUP = TILES, /* at most ROW */
    LANES = N / ROWS,
    CHAINS = THREADS / LANES,
    PIECE = PIECE_BYTES / sizeof(Real), /* elements in 16 bytes */
    PIECES = N / PIECE,                 /* of a row */
    SIZE = N * N,
    SLOT = SIZE + PIECE,                    /* of a matrix that is not in a run */
    EACH = N * PIECES,                      /* pieces of a matrix */
    TEAM = EACH < THREADS ? EACH : THREADS, /* threads that move a matrix */
    TEAMS = THREADS / TEAM,
    SLOTS = CHAINS + WINDOW
  };
};

/* Returns how many elements of shared memory a tile takes. */
template <typename S>
__host__ __device__ constexpr size_t shared_elements(int64_t run) {
  return (size_t)S::CHAINS * (size_t)(run * S::SIZE + S::PIECE) + (size_t)S::SLOTS * S::SLOT;
}

template <typename Real, typename S>
struct Tile {
  struct alignas(PIECE_BYTES) Piece {
    Real of[S::PIECE];
  };
  /* The rows lane, lane + LANES, ... of a state. */
  struct Rows {
    Real of[S::ROWS][S::N];
  };

  const mmci_cuda_sweep &pass;
  Real *factors, *products, *window;
  int lane, chain, pitch, run;
  int64_t b, tile, first; /* the first factor */
  int count, own;         /* factors of the tile, and of the chain */
  bool has_before;        /* something is before the tile */

  __device__ __forceinline__ Tile(const mmci_cuda_sweep &p, Real *shared, int64_t number)
      : pass(p),
        lane((int)threadIdx.x % S::LANES),
        chain((int)threadIdx.x / S::LANES),
        run((int)p.run) {
    pitch = run * S::SIZE + S::PIECE;
    factors = shared;
    products = shared + S::CHAINS * pitch;
    window = products + S::CHAINS * S::SLOT;
    b = number % p.batch;
    tile = number / p.batch;
    first = tile * S::CHAINS * run;
    const int64_t left = p.length - first;
    count = left < S::CHAINS * run ? (int)left : S::CHAINS * run;
    const int rest = count - chain * run;
    own = rest < 0 ? 0 : rest < run ? rest : run;
    has_before = tile > 0 || p.initial.data != nullptr;
  }

  /* Returns in which place of its row piece v lies. */
  static __device__ __forceinline__ int place(int row, int v) {
    enum { TOGETHER = LINE_BYTES / PIECE_BYTES / S::PIECES }; /* rows of a line */
    return S::PIECES == 1 ? v : v ^ (row / TOGETHER & (S::PIECES - 1));
  }
  static __device__ __forceinline__ Piece *piece_at(Real *matrix, int row, int v) {
    return reinterpret_cast<Piece *>(matrix + row * S::N) + place(row, v);
  }
  static __device__ __forceinline__ Real *element_at(Real *matrix, int row, int col) {
    return &piece_at(matrix, row, col / S::PIECE)->of[col % S::PIECE];
  }
  __device__ __forceinline__ Real *factor(int f) const {
    return factors + f / run * pitch + f % run * S::SIZE;
  }
  /* Calls move(number, factor) for the tile's factors that this thread's team moves. */
  template <typename Move>
  __device__ __forceinline__ void each_factor(const Move &move) const {
    int f = (int)threadIdx.x / S::TEAM, in_run = f;
    Real *to = factors;
    for (; f < count; f += S::TEAMS, in_run += S::TEAMS) {
      for (; in_run >= run; in_run -= run) to += pitch;
      move(f, to + in_run * S::SIZE);
    }
  }
  __device__ __forceinline__ Real *own_factor(int i) const {
    return factors + chain * pitch + i * S::SIZE;
  }

  /* Pieces can be moved where every line begins at a multiple of 16 bytes, and with them whole
   * matrices where these have no gaps. */
  __device__ __forceinline__ bool has_pieces(const mmci_cuda_stack &x) const {
    return pass.n % S::PIECE == 0 && x.ld % S::PIECE == 0 && !x.turned &&
           (uintptr_t)x.data % PIECE_BYTES == 0 && x.step % S::PIECE == 0 &&
           x.stride % S::PIECE == 0;
  }
  __device__ __forceinline__ bool is_whole(const mmci_cuda_stack &x) const {
    return pass.n == S::N && x.ld == S::N && !x.turned && (uintptr_t)x.data % PIECE_BYTES == 0 &&
           x.step % S::PIECE == 0 && x.stride % S::PIECE == 0;
  }

  /* ---- between the chip's memory and shared memory ---- */

  /* Brings the tile's factors; what is beyond n is 0. */
  __device__ __forceinline__ void bring() const {
    const mmci_cuda_stack &x = pass.factors;
    const Real *from = static_cast<const Real *>(x.data) + b * x.stride + first * x.step;
    if (is_whole(x)) {
      each_factor([&](int f, Real *slot) {
#pragma unroll
        for (int in = (int)threadIdx.x % S::TEAM; in < S::EACH; in += S::TEAM)
          mmci_copy_async(piece_at(slot, in / S::PIECES, in % S::PIECES),
                          from + f * x.step + in * S::PIECE);
      });
      mmci_copy_async_commit();
      mmci_copy_async_wait<0>();
      return;
    }
    if (has_pieces(x)) {
      each_factor([&](int f, Real *slot) {
        for (int in = (int)threadIdx.x % S::TEAM; in < S::EACH; in += S::TEAM) {
          const int row = in / S::PIECES, v = in % S::PIECES;
          if (row < pass.n && v * S::PIECE < pass.n)
            mmci_copy_async(piece_at(slot, row, v), from + f * x.step + row * x.ld + v * S::PIECE);
          else
            *piece_at(slot, row, v) = Piece();
        }
      });
      mmci_copy_async_commit();
      mmci_copy_async_wait<0>();
      return;
    }
    for (int q = (int)threadIdx.x; q < count * S::SIZE; q += S::THREADS) {
      const int f = q / S::SIZE, line = q % S::SIZE / S::N, at = q % S::N;
      const bool is_there = line < pass.n && at < pass.n;
      Real *to = x.turned ? element_at(factor(f), at, line) : element_at(factor(f), line, at);
      *to = is_there ? from[f * x.step + line * x.ld + at] : Real(0);
    }
  }

  /* Writes the states that are in the places of factors. */
  __device__ __forceinline__ void leave() const {
    const mmci_cuda_stack &x = pass.states;
    Real *to = static_cast<Real *>(const_cast<void *>(x.data)) + b * x.stride + first * x.step;
    if (is_whole(x)) {
      each_factor([&](int f, Real *slot) {
#pragma unroll
        for (int in = (int)threadIdx.x % S::TEAM; in < S::EACH; in += S::TEAM)
          *reinterpret_cast<Piece *>(to + f * x.step + in * S::PIECE) =
              *piece_at(slot, in / S::PIECES, in % S::PIECES);
      });
      return;
    }
    if (has_pieces(x)) {
      each_factor([&](int f, Real *slot) {
        for (int in = (int)threadIdx.x % S::TEAM; in < S::EACH; in += S::TEAM) {
          const int row = in / S::PIECES, v = in % S::PIECES;
          if (row < pass.n && v * S::PIECE < pass.n)
            *reinterpret_cast<Piece *>(to + f * x.step + row * x.ld + v * S::PIECE) =
                *piece_at(slot, row, v);
        }
      });
      return;
    }
    for (int q = (int)threadIdx.x; q < count * S::SIZE; q += S::THREADS) {
      const int f = q / S::SIZE, line = q % S::SIZE / S::N, at = q % S::N;
      if (line >= pass.n || at >= pass.n) continue;
      to[f * x.step + line * x.ld + at] =
          x.turned ? *element_at(factor(f), at, line) : *element_at(factor(f), line, at);
    }
  }

  /* ---- rows in registers ---- */

  __device__ __forceinline__ void get(Real *matrix, Rows *rows) const {
#pragma unroll
    for (int r = 0; r < S::ROWS; r++)
#pragma unroll
      for (int v = 0; v < S::PIECES; v++) {
        const Piece piece = *piece_at(matrix, lane + r * S::LANES, v);
#pragma unroll
        for (int e = 0; e < S::PIECE; e++) rows->of[r][v * S::PIECE + e] = piece.of[e];
      }
  }
  __device__ __forceinline__ void put(Real *matrix, const Rows &rows) const {
#pragma unroll
    for (int r = 0; r < S::ROWS; r++)
#pragma unroll
      for (int v = 0; v < S::PIECES; v++) {
        Piece piece;
#pragma unroll
        for (int e = 0; e < S::PIECE; e++) piece.of[e] = rows.of[r][v * S::PIECE + e];
        *piece_at(matrix, lane + r * S::LANES, v) = piece;
      }
  }
  /* Zeros what is beyond n of a row's piece, or of rows: an infinite element times 0 is NaN there,
   * which must not come back. */
  __device__ __forceinline__ void clear_beyond(Piece *piece, int row, int v) const {
    if (pass.n == S::N) return;
#pragma unroll
    for (int e = 0; e < S::PIECE; e++)
      if (row >= pass.n || v * S::PIECE + e >= pass.n) piece->of[e] = 0;
  }
  __device__ __forceinline__ void clear_beyond(Rows *rows) const {
    if (pass.n == S::N) return;
#pragma unroll
    for (int r = 0; r < S::ROWS; r++)
#pragma unroll
      for (int j = 0; j < S::N; j++)
        if (lane + r * S::LANES >= pass.n || j >= pass.n) rows->of[r][j] = 0;
  }

  /* rows = rows M */
  __device__ __forceinline__ void multiply(Rows *rows, Real *matrix) const {
    Rows sum;
#pragma unroll
    for (int r = 0; r < S::ROWS; r++)
#pragma unroll
      for (int j = 0; j < S::N; j++) sum.of[r][j] = 0;
#pragma unroll
    for (int k = 0; k < S::N; k++)
#pragma unroll
      for (int v = 0; v < S::PIECES; v++) {
        const Piece piece = *piece_at(matrix, k, v);
#pragma unroll
        for (int r = 0; r < S::ROWS; r++)
#pragma unroll
          for (int e = 0; e < S::PIECE; e++)
            sum.of[r][v * S::PIECE + e] += rows->of[r][k] * piece.of[e];
      }
    clear_beyond(&sum);
    *rows = sum;
  }

  /* Leaves the product of each chain in its slot. */
  __device__ __forceinline__ void reduce() const {
    if (own == 0) return;
    Rows rows;
    get(own_factor(0), &rows);
    for (int i = 1; i < own; i++) multiply(&rows, own_factor(i));
    put(products + chain * S::SLOT, rows);
  }

  /* Puts states in the places of factors, from the state before each chain in its slot. */
  __device__ __forceinline__ void finish() const {
    Rows rows;
    const bool follows = has_before || chain > 0;
    if (own > 0) get(follows ? products + chain * S::SLOT : own_factor(0), &rows);
    for (int i = 0; i < run; i++) {
      if (i < own && (i > 0 || follows)) multiply(&rows, own_factor(i));
      __syncwarp();
      if (i < own) put(own_factor(i), rows);
    }
  }

  /* ---- products that all threads share ---- */

  /* Multiplies pairs of matrices in slots: first + p * step and so on of pair p. The product goes
   * to slot out, and the left operand to slot keep where it is not below 0. Pair 0 is only a right
   * operand that is copied, where is_alone says so. */
  struct Pairs {
    int count, step, left, right, out, keep;
    bool is_alone;
  };
  template <int MOST>
  __device__ __forceinline__ void multiply_pairs(Real *slots, const Pairs &x) const {
    enum { EACH = S::EACH, ITEMS = (MOST * EACH + S::THREADS - 1) / S::THREADS };
    Piece sums[ITEMS] = {}, kept[ITEMS] = {};
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      const int q = (int)threadIdx.x + i * S::THREADS, p = q / EACH;
      const int row = q % EACH / S::PIECES, v = q % S::PIECES;
      if (p >= x.count) continue;
      Real *left = slots + (x.left + p * x.step) * S::SLOT;
      Real *right = slots + (x.right + p * x.step) * S::SLOT;
      if (x.keep >= 0) kept[i] = *piece_at(left, row, v);
      if (x.is_alone && p == 0) {
        sums[i] = *piece_at(right, row, v);
        continue;
      }
#pragma unroll
      for (int u = 0; u < S::PIECES; u++) {
        const Piece a = *piece_at(left, row, u);
#pragma unroll
        for (int k = 0; k < S::PIECE; k++) {
          const Piece m = *piece_at(right, u * S::PIECE + k, v);
#pragma unroll
          for (int e = 0; e < S::PIECE; e++) sums[i].of[e] += a.of[k] * m.of[e];
        }
      }
      clear_beyond(&sums[i], row, v);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      const int q = (int)threadIdx.x + i * S::THREADS, p = q / EACH;
      const int row = q % EACH / S::PIECES, v = q % S::PIECES;
      if (p >= x.count) continue;
      *piece_at(slots + (x.out + p * x.step) * S::SLOT, row, v) = sums[i];
      if (x.keep >= 0) *piece_at(slots + (x.keep + p * x.step) * S::SLOT, row, v) = kept[i];
    }
    __syncthreads();
  }

  /* Copies a matrix between slots, or the chip's memory, where it is in order. */
  static __device__ __forceinline__ void copy(Real *from, Real *to) {
    for (int q = (int)threadIdx.x; q < S::EACH; q += S::THREADS)
      *piece_at(to, q / S::PIECES, q % S::PIECES) = *piece_at(from, q / S::PIECES, q % S::PIECES);
  }

  /* Makes of the chains' products those of nodes of a tree: the last is the tile's. */
  __device__ __forceinline__ void go_up() const {
    for (int apart = 1; apart < S::CHAINS; apart *= 2)
      multiply_pairs<(S::CHAINS + 1) / 2>(products, {S::CHAINS / (2 * apart), 2 * apart, apart - 1,
                                                     2 * apart - 1, 2 * apart - 1, -1, false});
  }
  /* Makes of the nodes, the last of which is the state before the tile, states before chains. */
  __device__ __forceinline__ void go_down() const {
    for (int apart = S::CHAINS / 2; apart > 0; apart /= 2)
      multiply_pairs<(S::CHAINS + 1) / 2>(
          products, {S::CHAINS / (2 * apart), 2 * apart, 2 * apart - 1, apart - 1, 2 * apart - 1,
                     apart - 1, !has_before});
  }
  /* Multiplies the first matrices of the window, from left to right; the product is the first. */
  __device__ __forceinline__ void join(int matrices) const {
    for (int apart = 1; apart < matrices; apart *= 2)
      multiply_pairs<(WINDOW + 1) / 2>(window, {(matrices - apart + 2 * apart - 1) / (2 * apart),
                                                2 * apart, 0, apart, 0, -1, false});
  }

  /* ---- what other blocks know ---- */

  __device__ __forceinline__ int64_t groups() const {
    return (pass.tiles + S::GROUP - 1) / S::GROUP;
  }
  __device__ __forceinline__ int64_t rows() const {
    return (groups() + ROW - 1) / ROW;
  }
  __device__ __forceinline__ Real *shared_matrix(int64_t number) const {
    return static_cast<Real *>(pass.work) + number * S::SIZE;
  }
  /* Return the numbers of what tiles, groups and rows tell, and of its flag. */
  __device__ __forceinline__ int64_t of_tile(int64_t t) const {
    return b * pass.tiles + t;
  }
  __device__ __forceinline__ int64_t of_group(int64_t g) const {
    return pass.batch * pass.tiles + b * groups() + g;
  }
  __device__ __forceinline__ int64_t of_row(int64_t r) const {
    return pass.batch * (pass.tiles + groups()) + b * rows() + r;
  }
  __device__ __forceinline__ unsigned *flag_of(int64_t number) const {
    return pass.flags + CONTROL + number;
  }

  /* Writes a matrix for other blocks and then its flag. */
  __device__ __forceinline__ void publish(Real *from, int64_t number, unsigned value) const {
    Real *to = shared_matrix(number);
    for (int q = (int)threadIdx.x; q < S::EACH; q += S::THREADS)
      reinterpret_cast<Piece *>(to)[q] = *piece_at(from, q / S::PIECES, q % S::PIECES);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicExch(flag_of(number), value);
  }
  /* Reads what another block wrote to a slot, by threads of which this one is number q. */
  static __device__ __forceinline__ void read(const Real *from, Real *slot, int q, int threads) {
    for (; q < S::EACH; q += threads) {
      const uint4 words = __ldcg(reinterpret_cast<const uint4 *>(from) + q);
      *reinterpret_cast<uint4 *>(piece_at(slot, q / S::PIECES, q % S::PIECES)) = words;
    }
  }

  /* Puts the product of the tiles of the group before this one in the first slot of the window.
   * Returns whether there are such. */
  __device__ __forceinline__ bool look_at_tiles(unsigned epoch) const {
    const int before = (int)(tile % S::GROUP);
    if (before == 0) return false;
    if ((int)threadIdx.x < before) {
      const volatile unsigned *flag = flag_of(of_tile(tile - before + (int)threadIdx.x));
      while (*flag != epoch + 1) {
      }
      __threadfence();
    }
    __syncthreads();
    for (int q = (int)threadIdx.x; q < before * S::EACH; q += S::THREADS) {
      const int t = q / (S::EACH), in = q % (S::EACH);
      read(shared_matrix(of_tile(tile - before + t)), window + t * S::SLOT, in, S::EACH);
    }
    __syncthreads();
    join(before);
    return true;
  }

  /* Reads the initial state to a slot. */
  __device__ __forceinline__ void read_initial(Real *slot) const {
    const mmci_cuda_stack &x = pass.initial;
    const Real *from = static_cast<const Real *>(x.data) + b * x.stride;
    for (int q = (int)threadIdx.x; q < S::SIZE; q += S::THREADS) {
      const int row = q / S::N, col = q % S::N;
      const bool is_there = row < pass.n && col < pass.n;
      *element_at(slot, row, col) = !is_there  ? Real(0)
                                    : x.turned ? from[col * x.ld + row]
                                               : from[row * x.ld + col];
    }
  }

  /* Puts the state before the tile in the first slot of the window, where there is one; there is
   * the product of the tiles of the group before it, if there are such. */
  __device__ __forceinline__ void look_at_groups(unsigned epoch, bool has_tiles) const {
    const int64_t group = tile / S::GROUP, row = group / ROW;
    const int before = (int)(group % ROW);
    const bool starts = row > 0 || pass.initial.data != nullptr;
    const int all = before + (starts ? 1 : 0);
    if (all == 0) return;
    if ((int)threadIdx.x < all) {
      const int64_t g = row * ROW + (int)threadIdx.x;
      const volatile unsigned *flag =
          (int)threadIdx.x < before ? flag_of(of_group(g)) : flag_of(of_row(row - 1));
      const bool is_known = (int)threadIdx.x == before && row == 0; /* the initial state */
      while (!is_known && *flag != epoch + 1) {
      }
      __threadfence();
    }
    __syncthreads();
    if (has_tiles) copy(window, window + all * S::SLOT);
    __syncthreads();
    if (starts && row == 0) read_initial(window);
    const int first = all - before; /* the slot of the first product */
    for (int q = (int)threadIdx.x; q < all * S::EACH; q += S::THREADS) {
      const int m = q / S::EACH;
      if (m >= first)
        read(shared_matrix(of_group(row * ROW + m - first)), window + m * S::SLOT, q % S::EACH,
             S::EACH);
      else if (row > 0)
        read(shared_matrix(of_row(row - 1)), window, q % S::EACH, S::EACH);
    }
    __syncthreads();
    join(all + (has_tiles ? 1 : 0));
  }
};

template <typename Real, typename S>
__global__ void __launch_bounds__(S::THREADS) sweep(const mmci_cuda_sweep pass) {
  MMCI_DYNAMIC_SHARED(memory);
  __shared__ unsigned ticket, epoch;
  if (threadIdx.x == 0) {
    epoch = *(volatile unsigned *)&pass.flags[EPOCH];
    ticket = atomicAdd(&pass.flags[TICKET], 1u);
  }
  __syncthreads();
  const Tile<Real, S> t(pass, reinterpret_cast<Real *>(memory), (int64_t)ticket);
  t.bring();
  __syncthreads();
  t.reduce();
  __syncthreads();
  t.go_up();
  Real *own = t.products + (S::CHAINS - 1) * S::SLOT;
  const bool is_last = t.tile == pass.tiles - 1, ends_group = t.tile % S::GROUP == S::GROUP - 1;
  const int64_t group = t.tile / S::GROUP;
  const bool ends_row = ends_group && group % ROW == ROW - 1;
  if (!is_last && !ends_group) t.publish(own, t.of_tile(t.tile), epoch + 1);
  const bool has_tiles = t.look_at_tiles(epoch);
  if (!is_last && ends_group && !ends_row) {
    /* Of the window the first slot is kept, and the second takes the group's product. */
    Tile<Real, S>::copy(own, t.window + S::SLOT);
    __syncthreads();
    t.template multiply_pairs<1>(t.window, {1, 0, 0, 1, 1, -1, !has_tiles});
    t.publish(t.window + S::SLOT, t.of_group(group), epoch + 1);
  }
  t.look_at_groups(epoch, has_tiles);
  if (!is_last && ends_row) {
    Tile<Real, S>::copy(own, t.window + S::SLOT);
    __syncthreads();
    t.template multiply_pairs<1>(t.window, {1, 0, 0, 1, 1, -1, false});
    t.publish(t.window + S::SLOT, t.of_row(group / ROW), epoch + 1);
  }
  __syncthreads();
  if (t.has_before) Tile<Real, S>::copy(t.window, own);
  __syncthreads();
  t.go_down();
  t.finish();
  __syncthreads();
  t.leave();
  if (threadIdx.x != 0) return;
  const unsigned blocks = (unsigned)(pass.tiles * pass.batch);
  if (atomicAdd(&pass.flags[DONE], 1u) + 1 < blocks) return;
  pass.flags[TICKET] = pass.flags[DONE] = 0;
  pass.flags[EPOCH] = epoch + 1;
}

template <typename Real, typename S>
mmc_status launch(cudaStream_t stream, const mmci_cuda_sweep *pass, mmci_error *error) {
  const auto kernel = sweep<Real, S>;
  const size_t shared = shared_elements<S>(pass->run) * sizeof(Real);
  const unsigned blocks = (unsigned)(pass->tiles * pass->batch);
  MMCI_CUDA_TRY(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  MMCI_CUDA_TRY(mmci_launch(kernel, dim3(blocks), dim3(S::THREADS), shared, stream, *pass));
  return MMC_OK;
}

/* The shape of blocks that measured best on an H200. */
template <typename Real, int N>
struct Chosen {
  enum { ROWS = N == 4 ? 4 : sizeof(Real) == 4 || N == 8 ? 2 : 1, THREADS = N == 4 ? 128 : 256 };
  typedef Shape<Real, N, ROWS, THREADS, ROW> shape;
};

/* Calls what.template call<Real, Shape>() for the shape that a scan has. */
template <typename Real, typename What>
auto with_side(int64_t n, const What &what) {
  if (n <= 4) return what.template call<Real, typename Chosen<Real, 4>::shape>();
  if (n <= 8) return what.template call<Real, typename Chosen<Real, 8>::shape>();
  return what.template call<Real, typename Chosen<Real, 16>::shape>();
}
template <typename What>
auto with_shape(mmc_dtype dtype, int64_t n, const What &what) {
  return dtype == MMC_F32 ? with_side<float>(n, what) : with_side<double>(n, what);
}

struct Launching {
  cudaStream_t stream;
  const mmci_cuda_sweep *pass;
  mmci_error *error;
  template <typename Real, typename S>
  mmc_status call() const {
    return launch<Real, S>(stream, pass, error);
  }
};

struct Counting {
  template <typename Real, typename S>
  mmci_cuda_sweep_shape call() const {
    const int64_t run_bytes = (int64_t)(shared_elements<S>(1) - shared_elements<S>(0)),
                  fixed = (int64_t)shared_elements<S>(0);
    return {S::CHAINS, S::GROUP, run_bytes * (int64_t)sizeof(Real), fixed * (int64_t)sizeof(Real)};
  }
};

}  // namespace

extern "C" bool mmci_cuda_sweep_can(mmc_dtype dtype, int64_t n) {
  return (dtype == MMC_F32 || dtype == MMC_F64) && n >= 1 && n <= MMCI_CUDA_SWEEP_SIDE;
}

extern "C" mmci_cuda_sweep_shape mmci_cuda_sweep_shape_of(mmc_dtype dtype, int64_t n) {
  return with_shape(dtype, n, Counting());
}

extern "C" void mmci_cuda_sweep_room(const mmci_cuda_sweep *pass, size_t *work_bytes,
                                     size_t *flags) {
  const mmci_cuda_sweep_shape shape = mmci_cuda_sweep_shape_of(pass->dtype, pass->n);
  const int64_t groups = (pass->tiles + shape.group - 1) / shape.group;
  const int64_t matrices = pass->batch * (pass->tiles + groups + (groups + ROW - 1) / ROW);
  *work_bytes = (size_t)(matrices * shape.run_bytes / shape.chains);
  *flags = (size_t)(CONTROL + matrices);
}

extern "C" mmc_status mmci_cuda_sweep_run(cudaStream_t stream, const mmci_cuda_sweep *pass,
                                          mmci_error *error) {
  return with_shape(pass->dtype, pass->n, Launching{stream, pass, error});
}
