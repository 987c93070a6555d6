/* sweep_kernels.cu: running products of small square matrices, see scan_kernels.h.
 *
 * A block of threads keeps a tile of factors in shared memory, so that factors are read once. A
 * chain is a few lanes that take a run of the tile's factors. A row of a state depends on no other
 * row of the states before, so each lane keeps rows in registers and reads the factors from shared
 * memory. Warps bring their own factors, and multiply the first while the last are on their way:
 * every factor becomes the product of its run up to it, and the last of a run that of the warp's
 * runs up to it (Kogge and Stone 1973). The warps' products are brought together, the tile's is
 * told to others, and the state before the tile is found by looking back at what blocks before have
 * told (Merrill and Garland 2016): the products of the tiles of its group, of the groups of its row
 * of groups, and the state before the row. So the order of the products is the same whatever block
 * is first, and only rows wait for one another. Then every product of a run is multiplied by the
 * state before the run, and leaves at once.
 *
 * What is told are letters of 16 bytes, half of which say in which execution they were written: one
 * that reads a letter needs no flag beside it, and one that writes waits for nothing.
 *
 * Pieces of 16 bytes of a row lie in another order in every other row, and chains lie apart by 16
 * bytes more than their factors, so that lanes meet in few banks.
 *
 * Launch  a block for every tile of every scan; a tile's number is drawn when its block starts, so
 *         that it waits for blocks that have started before it */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include <stdint.h>
#include <string.h>

#include "device/cuda/cuda_check.h"
#include "device/cuda/scan/scan_kernels.h"

namespace {

enum { PIECE_BYTES = 16, LINE_BYTES = 128, WARP = 32, LETTER_BYTES = 16 };
/* Groups of copies that a warp has on their way, and letters that a thread has. */
enum { PARTS = 4, AT_ONCE = 4 };
/* A multiprocessor's share of the bytes that an H200 reads in a nanosecond while it writes as many.
 */
enum { BYTES_PER_NS = 17 };
/* The words before the letters; the first two count the tiles that were ever drawn. */
enum { CONTROL = 4 };

/* WARPS of a block, of which BLOCKS are in a multiprocessor at once, as far as registers go; TILES
 * of a group, and groups of a row. */
template <typename Real, int SIDE, int OWN_ROWS, int WARPS_, int TILES, int BLOCKS_>
struct Shape {
  enum {
    N = SIDE,
    ROWS = OWN_ROWS, /* of a lane */
    WARPS = WARPS_,
    THREADS = WARPS * WARP,
    BLOCKS = BLOCKS_,
    GROUP = TILES,
    LANES = N / ROWS,
    OF_WARP = WARP / LANES, /* chains */
    CHAINS = WARPS * OF_WARP,
    PIECE = PIECE_BYTES / sizeof(Real), /* elements in 16 bytes */
    PIECES = N / PIECE,                 /* of a row */
    SIZE = N * N,
    SLOT = SIZE + PIECE,                                  /* of a matrix that is not in a run */
    EACH = N * PIECES,                                    /* pieces of a matrix */
    TEAM = (int)EACH < (int)WARP ? (int)EACH : (int)WARP, /* lanes that move a matrix */
    /* What is looked at together: tiles or groups, and what is beside them. */
    WINDOW = GROUP + 1,
    SLOTS = WARPS + WINDOW,
    OF_LETTER = LETTER_BYTES / 2 / sizeof(Real), /* elements */
    LETTERS = SIZE / OF_LETTER                   /* of a matrix */
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
  Real *factors, *totals, *window; /* of warps, and what is looked at */
  int lane, chain, pitch, run;     /* the chain of the warp's */
  int warp, warps;                 /* that have factors */
  unsigned epoch;
  int64_t b, tile, first; /* the warp's first factor */
  int count, own;         /* factors of the warp, and of the chain */
  bool has_before;        /* something is before the tile */

  __device__ __forceinline__ Tile(const mmci_cuda_sweep &p, Real *shared, unsigned now,
                                  unsigned number)
      : pass(p),
        lane((int)threadIdx.x % S::LANES),
        chain((int)threadIdx.x % WARP / S::LANES),
        run((int)p.run),
        warp((int)threadIdx.x / WARP),
        epoch(now) {
    const int of_warp = S::OF_WARP * run;
    pitch = run * S::SIZE + S::PIECE;
    factors = shared + warp * S::OF_WARP * pitch;
    totals = shared + S::CHAINS * pitch;
    window = totals + S::WARPS * S::SLOT;
    b = number % (unsigned)p.batch;
    tile = number / (unsigned)p.batch;
    first = tile * S::CHAINS * run;
    const int64_t left = p.length - first;
    const int all = left < S::CHAINS * run ? (int)left : S::CHAINS * run;
    warps = (all + of_warp - 1) / of_warp;
    first += warp * of_warp;
    const int rest = all - warp * of_warp;
    count = rest < 0 ? 0 : rest < of_warp ? rest : of_warp;
    own = own_of(chain);
    has_before = tile > 0 || p.initial.data != nullptr;
  }
  /* Returns how many factors a chain of the warp has. */
  __device__ __forceinline__ int own_of(int c) const {
    const int rest = count - c * run;
    return rest < 0 ? 0 : rest < run ? rest : run;
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
  /* Returns factor i of a chain of the warp. */
  __device__ __forceinline__ Real *factor(int c, int i) const {
    return factors + c * pitch + i * S::SIZE;
  }
  /* Calls move(number, factor, piece) for the pieces of the warp's factors that this lane moves,
   * where these lie behind one another. */
  template <typename Move>
  __device__ __forceinline__ void each_piece(const Move &move) const {
    const int f0 = (int)threadIdx.x % WARP / S::TEAM;
    int in_run = f0;
    Real *to = factors;
    for (int f = f0; f < count; f += WARP / S::TEAM, in_run += WARP / S::TEAM) {
      for (; in_run >= run; in_run -= run) to += pitch;
#pragma unroll
      for (int in = (int)threadIdx.x % S::TEAM; in < S::EACH; in += S::TEAM)
        move(f, to + in_run * S::SIZE, in);
    }
  }
  __device__ __forceinline__ Real *own_factor(int i) const {
    return factor(chain, i);
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

  /* Returns the first step of a part of the run. */
  static __device__ __forceinline__ int begin_of(int part, int run) {
    return part * run / PARTS;
  }

  /* Has the warp's factors come, by steps of all its chains, in PARTS groups of copies; what is
   * beyond n is 0. */
  __device__ __forceinline__ void bring() const {
    const mmci_cuda_stack &x = pass.factors;
    const Real *from = static_cast<const Real *>(x.data) + b * x.stride + first * x.step;
    const int thread = (int)threadIdx.x % WARP;
    if (is_whole(x) && S::LANES == 1) {
      each_piece([&](int f, Real *slot, int in) {
        mmci_copy_async(piece_at(slot, in / S::PIECES, in % S::PIECES),
                        from + f * x.step + in * S::PIECE);
      });
      for (int part = 0; part < PARTS; part++) mmci_copy_async_commit();
      return;
    }
    if (is_whole(x)) {
      for (int part = 0; part < PARTS; part++) {
        for (int i = begin_of(part, run); i < begin_of(part + 1, run); i++)
#pragma unroll
          for (int q = thread; q < S::OF_WARP * S::EACH; q += WARP) {
            const int c = q / S::EACH, in = q % S::EACH, f = c * run + i;
            if (f < count)
              mmci_copy_async(piece_at(factor(c, i), in / S::PIECES, in % S::PIECES),
                              from + f * x.step + in * S::PIECE);
          }
        mmci_copy_async_commit();
      }
      return;
    }
    if (has_pieces(x)) {
      each_piece([&](int f, Real *slot, int in) {
        const int row = in / S::PIECES, v = in % S::PIECES;
        if (row < pass.n && v * S::PIECE < pass.n)
          mmci_copy_async(piece_at(slot, row, v), from + f * x.step + row * x.ld + v * S::PIECE);
        else
          *piece_at(slot, row, v) = Piece();
      });
      for (int part = 0; part < PARTS; part++) mmci_copy_async_commit();
      return;
    }
    for (int q = thread; q < count * S::SIZE; q += WARP) {
      const int f = q / S::SIZE, line = q % S::SIZE / S::N, at = q % S::N;
      const bool is_there = line < pass.n && at < pass.n;
      Real *slot = factor(f / run, f % run);
      Real *to = x.turned ? element_at(slot, at, line) : element_at(slot, line, at);
      *to = is_there ? from[f * x.step + line * x.ld + at] : Real(0);
    }
  }

  /* Writes the warp's states that are in the places of factors: all, or those that are number i of
   * their chains. */
  __device__ __forceinline__ void leave_all() const {
    const mmci_cuda_stack &x = pass.states;
    if (!is_whole(x)) {
      for (int i = 0; i < run; i++) leave(i);
      return;
    }
    Real *to = static_cast<Real *>(const_cast<void *>(x.data)) + b * x.stride + first * x.step;
    each_piece([&](int f, Real *slot, int in) {
      *reinterpret_cast<Piece *>(to + f * x.step + in * S::PIECE) =
          *piece_at(slot, in / S::PIECES, in % S::PIECES);
    });
  }
  __device__ __forceinline__ void leave(int i) const {
    const mmci_cuda_stack &x = pass.states;
    Real *to = static_cast<Real *>(const_cast<void *>(x.data)) + b * x.stride + first * x.step;
    const int thread = (int)threadIdx.x % WARP;
    if (is_whole(x)) {
#pragma unroll
      for (int q = thread; q < S::OF_WARP * S::EACH; q += WARP) {
        const int c = q / S::EACH, in = q % S::EACH, f = c * run + i;
        if (f < count)
          *reinterpret_cast<Piece *>(to + f * x.step + in * S::PIECE) =
              *piece_at(factor(c, i), in / S::PIECES, in % S::PIECES);
      }
      return;
    }
    if (has_pieces(x)) {
      for (int q = thread; q < S::OF_WARP * S::EACH; q += WARP) {
        const int c = q / S::EACH, row = q % S::EACH / S::PIECES, v = q % S::PIECES;
        const int f = c * run + i;
        if (f < count && row < pass.n && v * S::PIECE < pass.n)
          *reinterpret_cast<Piece *>(to + f * x.step + row * x.ld + v * S::PIECE) =
              *piece_at(factor(c, i), row, v);
      }
      return;
    }
    for (int q = thread; q < S::OF_WARP * S::SIZE; q += WARP) {
      const int c = q / S::SIZE, line = q % S::SIZE / S::N, at = q % S::N, f = c * run + i;
      if (f >= count || line >= pass.n || at >= pass.n) continue;
      Real *slot = factor(c, i);
      to[f * x.step + line * x.ld + at] =
          x.turned ? *element_at(slot, at, line) : *element_at(slot, line, at);
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

  /* rows = rows M, where M is in a lane's rows, which are all there are. */
  __device__ __forceinline__ void multiply_whole(Rows *rows, const Rows &m) const {
    Rows sum;
#pragma unroll
    for (int r = 0; r < S::ROWS; r++)
#pragma unroll
      for (int j = 0; j < S::N; j++) {
        sum.of[r][j] = 0;
#pragma unroll
        for (int k = 0; k < S::ROWS; k++) sum.of[r][j] += rows->of[r][k] * m.of[k][j];
      }
    clear_beyond(&sum);
    *rows = sum;
  }
  /* Lanes of a chain wait for one another. */
  static __device__ __forceinline__ void meet() {
    if (S::LANES > 1) __syncwarp();
  }

  /* Makes of factors the products of their runs up to them, as they come. Returns the last of the
   * own run. */
  __device__ __forceinline__ Rows multiply_runs() const {
    Rows rows = {};
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
      if (part == 0) mmci_copy_async_wait<3>();
      if (part == 1) mmci_copy_async_wait<2>();
      if (part == 2) mmci_copy_async_wait<1>();
      if (part == 3) mmci_copy_async_wait<0>();
      __syncwarp();
      for (int i = begin_of(part, run); i < begin_of(part + 1, run); i++) {
        if (i < own && i == 0) get(own_factor(0), &rows);
        if (i < own && i > 0) multiply(&rows, own_factor(i));
        meet();
        if (i < own && i > 0) put(own_factor(i), rows);
      }
    }
    __syncwarp();
    return rows;
  }

  /* Makes of the last product of each run that of the warp's runs up to it, and puts the last of
   * these in the warp's slot. */
  __device__ __forceinline__ void join_runs(Rows rows) const {
    for (int apart = 1; apart < S::OF_WARP; apart *= 2) {
      const bool takes = chain >= apart && own > 0;
      if (S::LANES == 1) {
        Rows left;
#pragma unroll
        for (int r = 0; r < S::ROWS; r++)
#pragma unroll
          for (int j = 0; j < S::N; j++)
            left.of[r][j] = __shfl_up_sync(0xffffffffu, rows.of[r][j], apart);
        if (takes) {
          multiply_whole(&left, rows);
          rows = left;
        }
        continue;
      }
      if (takes) {
        get(factor(chain - apart, run - 1), &rows);
        multiply(&rows, own_factor(own - 1));
      }
      __syncwarp();
      if (takes) put(own_factor(own - 1), rows);
      __syncwarp();
    }
    if (own == 0) return;
    if (S::LANES == 1) put(own_factor(own - 1), rows);
    if (chain == S::OF_WARP - 1 || own_of(chain + 1) == 0) put(totals + warp * S::SLOT, rows);
  }

  /* Writes states, from the one before the warp, where there is one. */
  __device__ __forceinline__ void finish(Real *before) const {
    const bool follows = before != nullptr || chain > 0;
    Rows state = {}, last = {};
    if (own > 0) {
      get(before != nullptr ? before : own_factor(own - 1), &last);
      state = last;
      if (before != nullptr) multiply(&last, own_factor(own - 1));
      if (chain > 0 && before != nullptr) multiply(&state, factor(chain - 1, run - 1));
      if (chain > 0 && before == nullptr) get(factor(chain - 1, run - 1), &state);
    }
    __syncwarp();
    if (own > 0) put(own_factor(own - 1), last);
    for (int i = 0; i < run; i++) {
      Rows next = state;
      const bool takes = follows && i < own - 1;
      if (takes) multiply(&next, own_factor(i));
      meet();
      if (takes) put(own_factor(i), next);
      meet();
      if (S::LANES > 1) leave(i);
    }
    __syncwarp();
    if (S::LANES == 1) leave_all();
  }

  /* ---- products that all threads share ---- */

  /* Multiplies count pairs, at most MOST: left(p) by right(p), to out(p), which may be one of them
   * or of another pair's. */
  template <int MOST, typename Left, typename Right, typename Out>
  __device__ __forceinline__ void multiply_pairs(int count_of_pairs, const Left &left,
                                                 const Right &right, const Out &out) const {
    enum { ITEMS = (MOST * S::EACH + S::THREADS - 1) / S::THREADS };
    Piece sums[ITEMS] = {};
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      const int q = (int)threadIdx.x + i * S::THREADS, p = q / S::EACH;
      const int row = q % S::EACH / S::PIECES, v = q % S::PIECES;
      if (p >= count_of_pairs) continue;
#pragma unroll
      for (int u = 0; u < S::PIECES; u++) {
        const Piece a = *piece_at(left(p), row, u);
#pragma unroll
        for (int k = 0; k < S::PIECE; k++) {
          const Piece m = *piece_at(right(p), u * S::PIECE + k, v);
#pragma unroll
          for (int e = 0; e < S::PIECE; e++) sums[i].of[e] += a.of[k] * m.of[e];
        }
      }
      clear_beyond(&sums[i], row, v);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      const int q = (int)threadIdx.x + i * S::THREADS, p = q / S::EACH;
      if (p < count_of_pairs) *piece_at(out(p), q % S::EACH / S::PIECES, q % S::PIECES) = sums[i];
    }
    __syncthreads();
  }
  __device__ __forceinline__ void multiply_pair(Real *left, Real *right, Real *out) const {
    multiply_pairs<1>(
        1, [=](int) { return left; }, [=](int) { return right; }, [=](int) { return out; });
  }

  /* Copies a matrix between slots, or the chip's memory, where it is in order. */
  static __device__ __forceinline__ void copy(Real *from, Real *to) {
    for (int q = (int)threadIdx.x; q < S::EACH; q += S::THREADS)
      *piece_at(to, q / S::PIECES, q % S::PIECES) = *piece_at(from, q / S::PIECES, q % S::PIECES);
  }

  /* Makes of the warps' products those of all warps up to them. */
  __device__ __forceinline__ void join_warps() const {
    for (int apart = 1; apart < warps; apart *= 2) {
      const auto right = [&](int p) { return totals + (p + apart) * S::SLOT; };
      multiply_pairs<S::WARPS - 1>(
          warps - apart, [&](int p) { return totals + p * S::SLOT; }, right, right);
    }
  }
  /* Multiplies the first matrices of the window, from left to right; the product is the first. */
  __device__ __forceinline__ void join(int matrices) const {
    for (int apart = 1; apart < matrices; apart *= 2) {
      const auto left = [&](int p) { return window + 2 * p * apart * S::SLOT; };
      multiply_pairs<S::WINDOW / 2>((matrices + apart - 1) / (2 * apart), left,
                                    [&](int p) { return window + (2 * p + 1) * apart * S::SLOT; },
                                    left);
    }
  }
  /* Returns the state before the warp, or NULL where there is none. */
  __device__ __forceinline__ Real *find_before() const {
    if (has_before)
      multiply_pairs<S::WARPS - 1>(
          warps - 1, [&](int) { return window; }, [&](int p) { return totals + p * S::SLOT; },
          [&](int p) { return totals + p * S::SLOT; });
    if (warp > 0) return totals + (warp - 1) * S::SLOT;
    return has_before ? window : nullptr;
  }

  /* ---- what other blocks know ---- */

  __device__ __forceinline__ int64_t groups() const {
    return (pass.tiles + S::GROUP - 1) / S::GROUP;
  }
  __device__ __forceinline__ int64_t rows() const {
    return (groups() + S::GROUP - 1) / S::GROUP;
  }
  /* Return the numbers of what tiles, groups and rows tell. */
  __device__ __forceinline__ int64_t of_tile(int64_t t) const {
    return b * pass.tiles + t;
  }
  __device__ __forceinline__ int64_t of_group(int64_t g) const {
    return pass.batch * pass.tiles + b * groups() + g;
  }
  __device__ __forceinline__ int64_t of_row(int64_t r) const {
    return pass.batch * (pass.tiles + groups()) + b * rows() + r;
  }
  __device__ __forceinline__ void *letter_at(int64_t number, int letter) const {
    return pass.flags + CONTROL +
           (number * S::LETTERS + letter) * (int64_t)(LETTER_BYTES / sizeof(unsigned));
  }

  /* Tells the others a matrix in a slot. */
  __device__ __forceinline__ void tell(Real *slot, int64_t number) const {
    for (int q = (int)threadIdx.x; q < S::LETTERS; q += S::THREADS) {
      const int e = q * S::OF_LETTER;
      uint32_t words[2];
      memcpy(words, element_at(slot, e / S::N, e % S::N), sizeof words);
      const uint64_t letter[2] = {(uint64_t)epoch << 32 | words[0],
                                  (uint64_t)epoch << 32 | words[1]};
      mmci_tell(letter_at(number, q), letter);
    }
  }
  /* Waits for the matrices number, number + 1, ... that others tell, and puts them in slots. */
  __device__ __forceinline__ void hear(int64_t number, int matrices, Real *slots) const {
    const int all = matrices * S::LETTERS;
    for (int q0 = (int)threadIdx.x; q0 < all; q0 += AT_ONCE * S::THREADS) {
      uint64_t letters[AT_ONCE][2];
#pragma unroll
      for (int d = 0; d < AT_ONCE; d++)
        if (q0 + d * S::THREADS < all)
          mmci_hear(letters[d], letter_at(number, q0 + d * S::THREADS));
#pragma unroll
      for (int d = 0; d < AT_ONCE; d++) {
        const int q = q0 + d * S::THREADS, e = q % S::LETTERS * S::OF_LETTER;
        if (q >= all) continue;
        while ((unsigned)(letters[d][0] >> 32) != epoch || (unsigned)(letters[d][1] >> 32) != epoch)
          mmci_hear(letters[d], letter_at(number, q));
        const uint32_t words[2] = {(uint32_t)letters[d][0], (uint32_t)letters[d][1]};
        memcpy(element_at(slots + q / S::LETTERS * S::SLOT, e / S::N, e % S::N), words,
               sizeof words);
      }
    }
  }

  /* Puts the product of the tiles of the group before this one in the first slot of the window.
   * Returns whether there are such. */
  __device__ __forceinline__ bool look_at_tiles() const {
    const int before = (int)(tile % S::GROUP);
    if (before == 0) return false;
    hear(of_tile(tile - before), before, window);
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
  __device__ __forceinline__ void look_at_groups(bool has_tiles) const {
    const int64_t group = tile / S::GROUP, row = group / S::GROUP;
    const int before = (int)(group % S::GROUP);
    const bool starts = row > 0 || pass.initial.data != nullptr;
    const int all = before + (starts ? 1 : 0);
    if (all == 0) return;
    if (has_tiles) copy(window, window + all * S::SLOT);
    __syncthreads();
    if (starts && row == 0) read_initial(window);
    hear(of_group(row * S::GROUP), before, window + (all - before) * S::SLOT);
    if (row > 0) hear(of_row(row - 1), 1, window);
    __syncthreads();
    join(all + (has_tiles ? 1 : 0));
  }
};

/* Where there are more tiles than all multiprocessors hold at once, the first of each start one
 * after another, as far apart as all multiprocessors take to read a tile each and to write it.
 * Started together they would want the memory at the same time, and then wait for one another at
 * the same time. */
template <typename Real, typename S>
__device__ __forceinline__ void take_turns(const mmci_cuda_sweep &pass, unsigned number) {
  const int64_t at_once = S::BLOCKS * pass.processors;
  if (S::BLOCKS == 1 || (int64_t)number >= at_once || pass.tiles * pass.batch <= at_once) return;
  const unsigned turn = number / (unsigned)pass.processors;
  const unsigned bytes = (unsigned)(S::CHAINS * S::SIZE * pass.run) * (unsigned)sizeof(Real);
  for (unsigned i = 0; i < turn; i++) __nanosleep(bytes / BYTES_PER_NS);
}

template <typename Real, typename S>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS) sweep(const mmci_cuda_sweep pass) {
  typedef Tile<Real, S> T;
  MMCI_DYNAMIC_SHARED(memory);
  __shared__ unsigned number, epoch;
  if (threadIdx.x == 0) {
    const unsigned long long blocks = (unsigned long long)(pass.tiles * pass.batch);
    const unsigned long long drawn =
        atomicAdd(reinterpret_cast<unsigned long long *>(pass.flags), 1ull);
    number = (unsigned)(drawn % blocks);
    epoch = (unsigned)(drawn / blocks) + 1;
  }
  __syncthreads();
  const T t(pass, reinterpret_cast<Real *>(memory), epoch, number);
  take_turns<Real, S>(pass, number);
  t.bring();
  t.join_runs(t.multiply_runs());
  __syncthreads();
  t.join_warps();
  Real *total = t.totals + (S::WARPS - 1) * S::SLOT;
  const bool is_last = t.tile == pass.tiles - 1, ends_group = t.tile % S::GROUP == S::GROUP - 1;
  const int64_t group = t.tile / S::GROUP;
  const bool ends_row = ends_group && group % S::GROUP == S::GROUP - 1;
  if (!is_last && !ends_group) t.tell(total, t.of_tile(t.tile));
  const bool has_tiles = t.look_at_tiles();
  if (!is_last && ends_group && !ends_row) {
    /* The first slot of the window is kept, and the second takes the group's product. */
    t.multiply_pair(t.window, total, t.window + S::SLOT);
    t.tell(t.window + S::SLOT, t.of_group(group));
    __syncthreads();
  }
  t.look_at_groups(has_tiles);
  if (!is_last && ends_row) {
    t.multiply_pair(t.window, total, t.window + S::SLOT);
    t.tell(t.window + S::SLOT, t.of_row(group / S::GROUP));
  }
  t.finish(t.find_before());
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
  enum {
    IS_F32 = sizeof(Real) == sizeof(float),
    ROWS = N == 4   ? 4
           : N == 8 ? 2
                    : 1,
    WARPS = N == 4 ? 4 : 8,
    TILES = N == 16 ? 16 : 32,
    BLOCKS = N > 4    ? 1
             : IS_F32 ? 6
                      : 3
  };
  typedef Shape<Real, N, ROWS, WARPS, TILES, BLOCKS> shape;
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
    return {S::CHAINS,  S::GROUP, run_bytes * (int64_t)sizeof(Real), fixed * (int64_t)sizeof(Real),
            S::LETTERS, S::BLOCKS};
  }
};

}  // namespace

extern "C" bool mmci_cuda_sweep_can(mmc_dtype dtype, int64_t n) {
  return (dtype == MMC_F32 || dtype == MMC_F64) && n >= 1 && n <= MMCI_CUDA_SWEEP_SIDE;
}

extern "C" mmci_cuda_sweep_shape mmci_cuda_sweep_shape_of(mmc_dtype dtype, int64_t n) {
  return with_shape(dtype, n, Counting());
}

extern "C" size_t mmci_cuda_sweep_words(const mmci_cuda_sweep *pass) {
  const mmci_cuda_sweep_shape shape = mmci_cuda_sweep_shape_of(pass->dtype, pass->n);
  const int64_t groups = (pass->tiles + shape.group - 1) / shape.group;
  const int64_t rows = (groups + shape.group - 1) / shape.group;
  /* The only tile, group or row tells nothing. */
  const int64_t told =
      (pass->tiles > 1 ? pass->tiles : 0) + (groups > 1 ? groups : 0) + (rows > 1 ? rows : 0);
  const int64_t letters = pass->batch * told * shape.letters;
  return (size_t)(CONTROL + letters * LETTER_BYTES / (int64_t)sizeof(unsigned));
}

extern "C" mmc_status mmci_cuda_sweep_run(cudaStream_t stream, const mmci_cuda_sweep *pass,
                                          mmci_error *error) {
  return with_shape(pass->dtype, pass->n, Launching{stream, pass, error});
}
