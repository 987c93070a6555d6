/* tensor_walk_kernels.cu: running products of matrices of 17 to 64 rows of f32 on tensor cores of
 * doubles, see scan_kernels.h.
 *
 * A block goes from factor to factor with rows of a state in registers, in doubles, while the next
 * factors arrive in shared memory. Where there are many tiles a block takes all rows of one, a warp
 * sixteen of them: what a product leaves on a lane is what the lane gives to the next product,
 * because columns of the state and lines of the factor stand in the order that the tensor core
 * wants. Where there are few tiles a block takes eight rows, a warp sixteen columns of them, and
 * warps exchange their columns through shared memory.
 *
 * Matrices of N rows without gaps have kernels of their own, where addresses are constants. A
 * factor becomes doubles once there, not once for every warp, as converting takes as long as
 * multiplying: each thread converts, while a factor is multiplied, its part of the next one, and
 * stores its part of the state before.
 *
 * What is beyond n is 0. An infinite element times 0 is NaN there, which must not come back:
 * columns of a state beyond n are cleared after a product.
 *
 * Launch  a block for every tile of every scan, or for every eight rows of one; 2 N threads */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/scan/scan_kernels.h"
#include "device/cuda/tensor_f64.cuh"

namespace {

enum { WARP = 32, PIECE_BYTES = 16, PIECE = PIECE_BYTES / sizeof(float), STAGES = 3, EIGHT = 8 };

struct alignas(PIECE_BYTES) Four {
  float of[PIECE];
};
struct alignas(2 * sizeof(float)) Two {
  float of[2];
};
struct alignas(2 * sizeof(double)) Pair {
  double of[2];
};

/* A matrix of n rows in the chip's memory. Four elements of a row are read and written from column
 * col on; col and n are multiples of four. Where SIDE is not 0, it has so many rows without gaps,
 * at a multiple of 16 bytes. */
template <int SIDE>
struct Matrix {
  float *data; /* NULL when there is none */
  int64_t ld;
  int n;
  bool turned, by_four; /* by_four: all are at multiples of 16 bytes */

  __device__ __forceinline__ Matrix(const void *at, int64_t ld_, int64_t n_, bool turned_)
      : data(static_cast<float *>(const_cast<void *>(at))),
        ld(SIDE > 0 ? (int64_t)SIDE : ld_),
        n(SIDE > 0 ? SIDE : (int)n_),
        turned(SIDE == 0 && turned_),
        by_four(SIDE > 0 || (!turned_ && (uintptr_t)at % PIECE_BYTES == 0 && ld_ % PIECE == 0)) {}

  __device__ __forceinline__ Four read(int row, int col) const {
    Four out = {};
    if (row >= n || col >= n) return out;
    if (by_four) return *reinterpret_cast<const Four *>(data + row * ld + col);
#pragma unroll
    for (int e = 0; e < PIECE; e++)
      out.of[e] = data[turned ? (col + e) * ld + row : row * ld + col + e];
    return out;
  }
  /* Of matrices that can be written so, all of them by four. */
  __device__ __forceinline__ void write(int row, int col, const Four &four) const {
    if (SIDE > 0) {
      uint32_t words[PIECE];
#pragma unroll
      for (int e = 0; e < PIECE; e++) words[e] = (uint32_t)__float_as_int(four.of[e]);
      mmci_store(data + row * ld + col, words);
    } else if (row < n && col < n) {
      *reinterpret_cast<Four *>(data + row * ld + col) = four;
    }
  }
};

/* How lines of a factor lie in shared memory, so that the lanes of a warp meet all banks: piece p
 * of line r is at p ^ turn(r). */
struct LinesByFour {
  static __device__ __forceinline__ int turn(int line) { return line / 4 % 4; }
};
struct LinesByTwo {
  static __device__ __forceinline__ int turn(int line) { return line / 2 % 4 * 2; }
};

/* A tile's factors, on their way through a ring in shared memory. */
template <int N, typename Lines, int SIDE>
struct Ring {
  enum { THREADS = 2 * N, SIZE = N * N, PIECES = N / PIECE };
  const mmci_cuda_walk &walk;
  float *slots;
  int64_t b, tile, begin, count;

  __device__ __forceinline__ Ring(const mmci_cuda_walk &w, void *shared, int64_t number)
      : walk(w), slots(static_cast<float *>(shared)) {
    b = number / walk.tiles;
    tile = number % walk.tiles;
    begin = tile * walk.run;
    count = walk.length - begin < walk.run ? walk.length - begin : walk.run;
    /* Pieces beyond n are never written again. */
    for (int e = (int)threadIdx.x; n() < N && e < STAGES * SIZE; e += THREADS) slots[e] = 0;
    if (n() < N) __syncthreads();
    for (int64_t t = 0; t < STAGES - 1; t++) bring(t);
  }

  __device__ __forceinline__ int n() const { return SIDE > 0 ? SIDE : (int)walk.n; }
  static __device__ __forceinline__ int place(int line, int piece) {
    return line * N + (piece ^ Lines::turn(line)) * PIECE;
  }

  /* Brings a factor of the tile, if there is such; all threads take part. */
  __device__ __forceinline__ void bring(int64_t t) const {
    if (t < count) {
      const mmci_cuda_stack &x = walk.factors;
      const float *from = static_cast<const float *>(x.data) + b * x.stride + (begin + t) * x.step;
      enum { LINES = THREADS / PIECES };
      const int first = (int)threadIdx.x / PIECES, piece = (int)threadIdx.x % PIECES;
      float *to = slots + t % STAGES * SIZE;
      const int64_t ld = SIDE > 0 ? (int64_t)SIDE : x.ld;
      from += first * ld + piece * PIECE;
      if (piece * PIECE < n())
#pragma unroll
        for (int k = 0; k < N; k += LINES, from += LINES * ld)
          if (first + k < n()) mmci_copy_async(to + place(first + k, piece), from);
    }
    mmci_copy_async_commit();
  }
  /* Waits for factor t, sends for a later one and returns where factor t is. */
  __device__ __forceinline__ const float *next(int64_t t) const {
    mmci_copy_async_wait<STAGES - 2>();
    __syncthreads();
    bring(t + STAGES - 1);
    return slots + t % STAGES * SIZE;
  }

  /* Return matrices: the state before the tile, without data where there is none; the first factor;
   * where the state after factor t goes; where the product of the tile goes. */
  __device__ __forceinline__ Matrix<0> before() const {
    const mmci_cuda_stack &x = walk.initial;
    if (!walk.finishes) return {nullptr, 0, 0, false};
    if (tile > 0 && walk.carries == nullptr) return {nullptr, 0, 0, false};
    if (tile > 0) return of_tile<0>(walk.carries, tile - 1);
    if (x.data == nullptr) return {nullptr, 0, 0, false};
    return of_stack<0>(x, 0);
  }
  __device__ __forceinline__ Matrix<SIDE> first_factor() const {
    return of_stack<SIDE>(walk.factors, begin);
  }
  __device__ __forceinline__ Matrix<SIDE> state(int64_t t) const {
    return of_stack<SIDE>(walk.states, begin + t);
  }
  __device__ __forceinline__ Matrix<SIDE> total() const {
    return of_tile<SIDE>(walk.totals, tile);
  }

 private:
  template <int ROWS>
  __device__ __forceinline__ Matrix<ROWS> of_stack(const mmci_cuda_stack &x, int64_t t) const {
    return {static_cast<const float *>(x.data) + b * x.stride + t * x.step, x.ld, walk.n, x.turned};
  }
  template <int ROWS>
  __device__ __forceinline__ Matrix<ROWS> of_tile(const void *matrices, int64_t number) const {
    return {static_cast<const float *>(matrices) + (b * walk.tiles + number) * walk.n * walk.n,
            walk.n, walk.n, false};
  }
};

/* Sixteen rows of a state of N columns. Lane 4 g + t holds of rows g + 8 h the columns 32 a + 16 j
 * + 4 t + e, in of[4 a + e][2 h + j]: column 4 a + e of the tensor core's products of eight lines.
 */
template <int N>
struct Rows {
  enum { BLOCKS = N / 8, PARTS = BLOCKS /* of four elements, of a lane */ };
  double of[BLOCKS][4];

  static __device__ __forceinline__ int row(int h) {
    return (int)threadIdx.x / WARP * 16 + (int)threadIdx.x % WARP / 4 + 8 * h;
  }
  static __device__ __forceinline__ int col(int a, int j) {
    return 32 * a + 16 * j + 4 * ((int)threadIdx.x % 4);
  }
  /* Calls what(h, a, j, four elements) for what the lane holds. */
  template <typename What>
  __device__ __forceinline__ void each(const What &what) {
#pragma unroll
    for (int a = 0; a < BLOCKS / 4; a++)
#pragma unroll
      for (int j = 0; j < 2; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          double *const four[] = {&of[4 * a][2 * h + j], &of[4 * a + 1][2 * h + j],
                                  &of[4 * a + 2][2 * h + j], &of[4 * a + 3][2 * h + j]};
          what(h, a, j, four);
        }
  }
  template <int SIDE>
  __device__ __forceinline__ void read(const Matrix<SIDE> &x) {
    each([&](int h, int a, int j, double *const *four) {
      const Four in = x.read(row(h), col(a, j));
#pragma unroll
      for (int e = 0; e < PIECE; e++) *four[e] = (double)in.of[e];
    });
  }
  template <int SIDE>
  __device__ __forceinline__ void write(const Matrix<SIDE> &x) {
    each([&](int h, int a, int j, double *const *four) {
      x.write(row(h), col(a, j),
              {{(float)*four[0], (float)*four[1], (float)*four[2], (float)*four[3]}});
    });
  }
  /* Writes one of the parts, if `writes`; `part` is known when this is compiled. */
  template <int SIDE>
  __device__ __forceinline__ void write_part(const Matrix<SIDE> &x, int part, bool writes) const {
    const int h = part % 2, j = part / 2 % 2, a = part / 4;
    Four out;
#pragma unroll
    for (int e = 0; e < PIECE; e++) out.of[e] = (float)of[4 * a + e][2 * h + j];
    if (writes) x.write(row(h), col(a, j), out);
  }
  template <typename Lines>
  __device__ __forceinline__ void multiply(const float *matrix, int64_t n) {
    typedef Ring<N, Lines, 0> R;
    const int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    double sum[BLOCKS][4] = {};
#pragma unroll
    for (int k = 0; k < BLOCKS; k++) {
      const int line = 32 * (k / 4) + 4 * t + k % 4;
      const double a[2][2] = {{of[k][0], of[k][2]}, {of[k][1], of[k][3]}};
#pragma unroll
      for (int part = 0; part < BLOCKS / 4; part++) {
        const int piece = 8 * part + 4 * (g % 2) + g / 2;
        const Four x = *reinterpret_cast<const Four *>(matrix + R::place(line, piece));
        const Four y = *reinterpret_cast<const Four *>(matrix + R::place(line + 16, piece));
#pragma unroll
        for (int e = 0; e < PIECE; e++) {
          const double b[2] = {(double)x.of[e], (double)y.of[e]};
          mmci_multiply_f64(sum[4 * part + e], a, b);
        }
      }
    }
#pragma unroll
    for (int k = 0; k < BLOCKS; k++)
#pragma unroll
      for (int e = 0; e < 4; e++) of[k][e] = sum[k][e];
    if (n == N) return;
    each([&](int, int a, int j, double *const *four) {
#pragma unroll
      for (int e = 0; e < PIECE; e++)
        if (col(a, j) >= n) *four[e] = 0;
    });
  }
};

template <int N>
__global__ void __launch_bounds__(2 * N) follow_tiles(const mmci_cuda_walk walk) {
  typedef LinesByFour Lines;
  MMCI_DYNAMIC_SHARED(memory);
  const Ring<N, Lines, 0> ring(walk, memory, (int64_t)blockIdx.x);
  const Matrix<0> before = ring.before();
  const bool follows = before.data != nullptr;
  Rows<N> state;
  state.read(follows ? before : ring.first_factor());
  for (int64_t t = 0; t < ring.count; t++) {
    const float *factor = ring.next(t);
    if (t > 0 || follows) state.template multiply<Lines>(factor, walk.n);
    if (walk.finishes) state.write(ring.state(t));
  }
  if (!walk.finishes) state.write(ring.total());
}

/* A tile of matrices of N rows without gaps. The factors that are followed are its own; where the
 * state before it is that before a group of tiles times a product, this product is one more, the
 * first. Threads read no pieces of floats but those that they brought, so only doubles are waited
 * for. */
template <int N>
struct Whole {
  enum {
    THREADS = 2 * N,
    SIZE = N * N,
    PIECES = N / PIECE,
    OWN = SIZE / PIECE / THREADS, /* pieces of a thread */
    SHARED_BYTES = SIZE * (STAGES * (int)sizeof(float) + 2 * (int)sizeof(double))
  };
  typedef Rows<N> State;

  const mmci_cuda_walk &walk;
  float *slots;
  double *doubles; /* two factors */
  const float *factors, *extra;
  float *states;
  int64_t number, step; /* of the tile; from a factor to the next */
  int count;            /* of factors that are followed */
  bool has_extra;
  mmci_cuda_stack before; /* the state before; without data where there is none */

  __device__ __forceinline__ Whole(const mmci_cuda_walk &w, void *shared)
      : walk(w),
        slots(static_cast<float *>(shared)),
        doubles(reinterpret_cast<double *>(slots + STAGES * SIZE)),
        extra(nullptr),
        number((int64_t)blockIdx.x),
        step(w.factors.step),
        before() {
    const int64_t b = number / walk.tiles, tile = number % walk.tiles, begin = tile * walk.run;
    count = (int)(walk.length - begin < walk.run ? walk.length - begin : walk.run);
    factors = static_cast<const float *>(walk.factors.data) + b * walk.factors.stride +
              begin * walk.factors.step;
    states = static_cast<float *>(const_cast<void *>(walk.states.data)) + b * walk.states.stride +
             begin * walk.states.step;
    before.ld = N;
    if (walk.finishes && tile == 0 && walk.initial.data != nullptr) {
      before = walk.initial;
      before.data = static_cast<const float *>(before.data) + b * before.stride;
    }
    if (walk.finishes && tile > 0 && walk.carries != nullptr) {
      const float *carry =
          static_cast<const float *>(walk.carries) + (b * walk.tiles + tile - 1) * SIZE;
      before.data = carry;
      if (walk.group > 0 && tile > walk.group) {
        const int64_t groups = (walk.tiles + walk.group - 1) / walk.group;
        const int64_t whole = tile / walk.group; /* groups before the tile */
        if (tile % walk.group > 0) extra = carry;
        before.data =
            static_cast<const float *>(walk.group_carries) + (b * groups + whole - 1) * SIZE;
      }
    }
    has_extra = extra != nullptr;
    if (has_extra) count++;
  }

  /* Brings the thread's pieces of factor i to a slot, if there is such a factor. */
  __device__ __forceinline__ void bring(int i, int slot) const {
    if (i < count) {
      const int at = (int)threadIdx.x * PIECE;
      const float *from =
          at + (has_extra && i == 0 ? extra : factors + (i - (has_extra ? 1 : 0)) * step);
      float *to = slots + slot * SIZE + at;
#pragma unroll
      for (int k = 0; k < OWN; k++)
        mmci_copy_async(to + k * THREADS * PIECE, from + k * THREADS * PIECE);
    }
    mmci_copy_async_commit();
  }

  /* Pair p of a line of doubles is at p ^ turn(line) ^ (p / 8 % 2): so lanes meet all banks, both
   * those that read, of four lines that are four apart, and those that write. */
  static __device__ __forceinline__ int turn(int line) {
    return line / 4 % 4 * 2;
  }

  /* Converts piece k of the thread's in a slot, for factor i. */
  __device__ __forceinline__ void convert(int i, int slot, int k) const {
    enum { LINES = THREADS / PIECES };
    static_assert(LINES == 8, "lines of pieces of a thread are eight apart");
    const int piece = (int)threadIdx.x % PIECES, line = (int)threadIdx.x / PIECES;
    const Four x = *reinterpret_cast<const Four *>(slots + slot * SIZE +
                                                   ((int)threadIdx.x + k * THREADS) * PIECE);
    const int first = 2 * piece ^ turn(line) ^ piece / 4 % 2;
    double *to = doubles + i % 2 * SIZE + line * N + k * LINES * N;
#pragma unroll
    for (int p = 0; p < 2; p++)
      *reinterpret_cast<Pair *>(to + 2 * (first ^ p ^ turn(k * LINES))) = {(double)x.of[2 * p],
                                                                           (double)x.of[2 * p + 1]};
  }

  /* state = state M, factor i; calls between(k) N / 8 times on the way. */
  template <typename Between>
  __device__ __forceinline__ void multiply(State *state, int i, const Between &between) const {
    const int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    /* Lines 4 t, of columns 16 (g % 2) + 4 (g / 2) on. */
    const int pair = (8 * (g % 2) + g / 2 * 2) ^ turn(4 * t) ^ g % 2;
    const double *matrix = doubles + i % 2 * SIZE + 4 * t * N;
    const double *const from[] = {matrix + 2 * pair, matrix + 2 * (pair ^ 1)};
    enum { QUARTERS = State::BLOCKS / 4 };
    double sum[State::BLOCKS][4] = {};
    Pair next[QUARTERS][2][2];
    const auto load = [&](int k) {
      const int line = 32 * (k / 4) + k % 4;
#pragma unroll
      for (int part = 0; part < QUARTERS; part++)
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
          for (int p = 0; p < 2; p++)
            next[part][half][p] =
                *reinterpret_cast<const Pair *>(from[p] + (line + 16 * half) * N + 32 * part);
    };
    load(0);
#pragma unroll
    for (int k = 0; k < State::BLOCKS; k++) {
      const double a[2][2] = {{state->of[k][0], state->of[k][2]},
                              {state->of[k][1], state->of[k][3]}};
      double b[QUARTERS][PIECE][2];
#pragma unroll
      for (int e = 0; e < QUARTERS * PIECE * 2; e++)
        b[e / 8][e / 2 % PIECE][e % 2] = next[e / 8][e % 2][e / 4 % 2].of[e / 2 % 2];
      if (k + 1 < State::BLOCKS) load(k + 1);
#pragma unroll
      for (int part = 0; part < QUARTERS; part++) {
#pragma unroll
        for (int e = 0; e < PIECE; e++) mmci_multiply_f64(sum[4 * part + e], a, b[part][e]);
        if (part == 0) between(k);
      }
    }
#pragma unroll
    for (int k = 0; k < State::BLOCKS; k++)
#pragma unroll
      for (int e = 0; e < 4; e++) state->of[k][e] = sum[k][e];
  }

  template <bool FINISHES>
  __device__ __forceinline__ void follow() const {
    static_assert((int)OWN == State::BLOCKS && (int)OWN == State::PARTS, "one a step of a product");
    State state;
    const bool follows = before.data != nullptr;
    if (follows)
      state.read(Matrix<0>(before.data, before.ld, N, before.turned));
    else
      state.read(Matrix<N>(factors, N, N, false));
    const int first = follows ? 0 : 1;
    for (int d = 0; d < STAGES; d++) bring(first + d, d);
    mmci_copy_async_wait<STAGES - 1>();
    for (int k = 0; k < OWN && first < count; k++) convert(first, 0, k);
    float *to = states;
    int slot = 0;
    for (int i = first; i < count; i++) {
      const int next = slot + 1 == STAGES ? 0 : slot + 1;
      mmci_copy_async_wait<STAGES - 2>();
      __syncthreads();
      bring(i + STAGES, slot);
      const bool writes = FINISHES && i > (has_extra ? 1 : 0);
      const Matrix<N> last(to, N, N, false);
      /* What is converted behind the last factor is not read. */
      multiply(&state, i, [&](int k) {
        convert(i + 1, next, k);
        if (FINISHES) state.write_part(last, k, writes);
      });
      if (writes) to += walk.states.step;
      slot = next;
    }
    if (FINISHES)
      state.write(Matrix<N>(to, N, N, false));
    else
      state.write(Matrix<N>(static_cast<float *>(walk.totals) + number * SIZE, N, N, false));
  }
};

template <int N, bool FINISHES>
__global__ void __launch_bounds__(2 * N, 2) follow_whole(const mmci_cuda_walk walk) {
  MMCI_DYNAMIC_SHARED(memory);
  const Whole<N> tile(walk, memory);
  tile.template follow<FINISHES>();
}

/* Lane 4 g + t of a warp holds of row g the columns 16 warp + 4 t to 16 warp + 4 t + 3. Of eight
 * columns of a product by the tensor core, these are every other one: of the first the even ones.
 */
template <int N, int SIDE>
__global__ void __launch_bounds__(2 * N) follow_rows(const mmci_cuda_walk walk) {
  typedef LinesByTwo Lines;
  typedef Ring<N, Lines, SIDE> R;
  enum { PITCH = N + 2, STATE = EIGHT * PITCH };
  MMCI_DYNAMIC_SHARED(memory);
  const R ring(walk, memory, (int64_t)blockIdx.x / (N / EIGHT));
  double *const states = reinterpret_cast<double *>(ring.slots + STAGES * R::SIZE);
  const int first = (int)((int64_t)blockIdx.x % (N / EIGHT)) * EIGHT;
  const int warp = (int)threadIdx.x / WARP, g = (int)threadIdx.x % WARP / 4,
            t = (int)threadIdx.x % 4, col = 16 * warp + 4 * t;
  const Matrix<0> before = ring.before();
  const bool follows = before.data != nullptr;
  double own[4] = {};
  const auto keep = [&](int64_t turn) {
    double *to = states + turn % 2 * STATE + g * PITCH + col;
    reinterpret_cast<Pair *>(to)[0] = {own[0], own[1]};
    reinterpret_cast<Pair *>(to)[1] = {own[2], own[3]};
  };
  const auto write = [&](const Matrix<SIDE> &to) {
    to.write(first + g, col, {{(float)own[0], (float)own[1], (float)own[2], (float)own[3]}});
  };
  const Four start =
      follows ? before.read(first + g, col) : ring.first_factor().read(first + g, col);
#pragma unroll
  for (int e = 0; e < 4; e++) own[e] = (double)start.of[e];
  keep(0);
  for (int64_t i = 0; i < ring.count; i++) {
    const float *factor = ring.next(i);
    if (i > 0 || follows) {
      const double *state = states + i % 2 * STATE + g * PITCH;
      double sum[2][2][2] = {}; /* of even and odd columns, twice, for even and odd lines */
#pragma unroll
      for (int k = 0; k < N / 8; k++) {
        const Pair a = *reinterpret_cast<const Pair *>(state + 8 * k + 2 * t);
        const int line = 8 * k + 2 * t, piece = 4 * warp + g / 2, in = g % 2 * 2;
        const Two x = *reinterpret_cast<const Two *>(factor + R::place(line, piece) + in);
        const Two y = *reinterpret_cast<const Two *>(factor + R::place(line + 1, piece) + in);
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
          mmci_multiply_f64(sum[odd][0], a.of[0], (double)x.of[odd]);
          mmci_multiply_f64(sum[odd][1], a.of[1], (double)y.of[odd]);
        }
      }
#pragma unroll
      for (int e = 0; e < 4; e++)
        own[e] = col < ring.n() ? sum[e % 2][0][e / 2] + sum[e % 2][1][e / 2] : 0;
    }
    if (i + 1 < ring.count) keep(i + 1);
    if (walk.finishes) write(ring.state(i));
  }
  if (!walk.finishes) write(ring.total());
}

/* Says whether matrices are of N rows, without gaps and not turned, at multiples of 16 bytes. */
template <int N>
bool is_whole(const mmci_cuda_stack &x, int64_t n) {
  return n == N && !x.turned && x.ld == N && (x.step | x.stride) % PIECE == 0 &&
         (uintptr_t)x.data % PIECE_BYTES == 0;
}

template <int N>
bool is_whole(const mmci_cuda_walk *walk) {
  return is_whole<N>(walk->factors, walk->n) &&
         (!walk->finishes || is_whole<N>(walk->states, walk->n));
}

template <int N>
mmc_status launch(cudaStream_t stream, const mmci_cuda_walk *walk, mmci_error *error) {
  const bool splits = walk->splits_rows;
  /* Where every scan of 32 rows is a tile, converting once is no faster. */
  const bool whole = is_whole<N>(walk) && (splits || N > 32 || walk->tiles > 1);
  const size_t ring = STAGES * N * N * sizeof(float);
  const size_t shared = splits  ? ring + 2 * EIGHT * (N + 2) * sizeof(double)
                        : whole ? (size_t)Whole<N>::SHARED_BYTES
                                : ring;
  const auto kernel = splits           ? whole ? follow_rows<N, N> : follow_rows<N, 0>
                                : !whole ? follow_tiles<N>
                      : walk->finishes ? follow_whole<N, true>
                                       : follow_whole<N, false>;
  const unsigned blocks = (unsigned)(walk->tiles * walk->batch * (splits ? N / EIGHT : 1));
  MMCI_CUDA_TRY(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  MMCI_CUDA_TRY(mmci_launch(kernel, dim3(blocks), dim3(2 * N), shared, stream, *walk));
  return MMC_OK;
}

bool is_by_four(const mmci_cuda_stack &x, int64_t n) {
  return !x.turned && (n | x.ld | x.step | x.stride) % PIECE == 0 &&
         (uintptr_t)x.data % PIECE_BYTES == 0;
}

}  // namespace

extern "C" bool mmci_cuda_tensor_walk_can(int major, int minor, const mmci_cuda_walk *walk) {
  /* The other chips have hardly any arithmetic of doubles. */
  const bool has_doubles = (major == 8 || major == 9) && minor == 0;
  return has_doubles && walk->dtype == MMC_F32 && mmci_cuda_walk_can(walk->dtype, walk->n) &&
         is_by_four(walk->factors, walk->n) &&
         (!walk->finishes || is_by_four(walk->states, walk->n));
}

extern "C" bool mmci_cuda_tensor_walk_groups(const mmci_cuda_walk *walk) {
  return !walk->splits_rows && (walk->n <= 32 ? is_whole<32>(walk) : is_whole<64>(walk));
}

extern "C" mmc_status mmci_cuda_tensor_walk_run(cudaStream_t stream, const mmci_cuda_walk *walk,
                                                mmci_error *error) {
  return walk->n <= 32 ? launch<32>(stream, walk, error) : launch<64>(stream, walk, error);
}
