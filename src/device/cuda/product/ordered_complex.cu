/* ordered_complex.cu: computes any complex product or batch as MMCI_REPRODUCIBLE says: the real and
 * the imaginary part of an element of C are each one chain of fused multiply-adds from the first k
 * to the last, two of every k, so that neither the tile nor the grid matters. What follows after
 * the last k is zero times zero, which changes no sum but the sign of zeros; results have +0 and
 * NaN without a payload.
 *
 * Layout any forms, sizes and leading dimensions in 64 bits; edges guarded; elements are aligned to
 *        their real type. In shared memory lie rows of A and, whatever their form, lines of equal k
 *        of B. A turned product is computed as the upright one whose result lies by columns, and
 *        conj(a) b as conj(a conj(b)), which differ by signs alone
 * Launch a 1-D grid of as many blocks as multiprocessors hold; a block goes on from tile to tile,
 *        and loads STAGES - 1 pieces of DEPTH terms ahead, those of its next tile among them
 * Traffic 8mkn flops; reads mk ceil(n/COLS) + kn ceil(m/ROWS) elements
 * Idea   c64: a lane has a few elements of C in registers. c128: tensor cores, which add up as
 *        fused multiply-adds do, take a row of A as it lies, real parts beside imaginary ones,
 *        times a column of (re, -im), which makes a real part, or of (im, re). Where a
 *        multiprocessor has many tiles, large ones share what they read; where it has one, many
 *        warps share that, and what a term takes is the latency of two fused multiply-adds */
extern "C" {
#include "base/status.h"
#include "device/cuda/product/ordered_complex.h"
}
#include "device/cuda/group/group_kernels.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/elements.cuh"
#include "device/cuda/product/ordered_tiles.cuh"
#include "device/cuda/tensor_f64.cuh"

enum { WARP = 32, WORD_BYTES = 16 };

/* C lies c_row elements from row to row and c_col from column to column. */
struct ComplexShape {
  int64_t m, k, n, lda, ldb, c_row, c_col, batch, a_stride, b_stride, c_stride, tiles, across;
  int a_word, b_word; /* bytes that may be copied at once */
  bool a_trans, a_gathered, b_trans, b_gathered, accumulate, wide_c;
  bool b_conj, c_conj; /* B, and what is stored of the sums, are conjugated */
  mmci_spans spans;    /* batch counts them all */
};

/* ---- pieces of operands ------------------------------------------------------------------------
 */

/* Copies an element, or a zero from no address, in as few words as its address allows. */
template <typename Real>
static __device__ __forceinline__ void copy_element(mmci_complex<Real> *to,
                                                    const mmci_complex<Real> *from, bool there,
                                                    bool whole) {
  constexpr int REAL = sizeof(Real);
  if (whole) {
    mmci_copy_async_or_zero<2 * REAL>(to, from, there);
  } else {
    mmci_copy_async_or_zero<REAL>(&to->re, &from->re, there);
    mmci_copy_async_or_zero<REAL>(&to->im, &from->im, there);
  }
}

/* Copies LINES x ACROSS elements, with zeros where there are none. Lines lie step apart, and their
 * elements side by side: EACH of them are copied at once. */
template <int LINES, int ACROSS, int PITCH, int THREADS, int EACH, typename Real>
static __device__ __forceinline__ void fetch_along(const mmci_complex<Real> *from, int64_t step,
                                                   int lines, int across, bool whole, int thread,
                                                   mmci_complex<Real> *to) {
  constexpr int CHUNKS = ACROSS / EACH, LINES_ONCE = THREADS > CHUNKS ? THREADS / CHUNKS : 1,
                TIMES = CHUNKS > THREADS ? CHUNKS / THREADS : 1;
  static_assert(LINES_ONCE * CHUNKS == THREADS * TIMES, "threads are whole lines or parts of one");
  const int first = TIMES > 1 ? 0 : thread / CHUNKS,
            at = EACH * (TIMES > 1 ? thread : thread % CHUNKS);
  const mmci_complex<Real> *source = from + first * step + at;
  mmci_complex<Real> *place = to + first * PITCH + at;
#pragma unroll
  for (int l = 0; l < LINES; l += LINES_ONCE) {
    const bool is_line = first + l < lines;
    if (LINES % LINES_ONCE == 0 || first + l < LINES)
#pragma unroll
      for (int e = 0; e < ACROSS; e += ACROSS / TIMES) {
        const bool there = is_line && at + e < across;
        if (EACH > 1)
          mmci_copy_async_or_zero<WORD_BYTES>(place + l * PITCH + e, source + e, there);
        else
          copy_element(place + l * PITCH + e, source + e, there, whole);
      }
    source += LINES_ONCE * step;
  }
}

/* Copies the same from where lines lie side by side, and their elements next apart. A patch of GO
 * lines and two elements is read in whole sectors, and written to different banks. */
template <int LINES, int ACROSS, int PITCH, int THREADS, typename Real>
static __device__ __forceinline__ void fetch_turned(const mmci_complex<Real> *from, int64_t next,
                                                    int lines, int across, bool whole, int thread,
                                                    mmci_complex<Real> *to) {
  constexpr int GO = 64 / (2 * (int)sizeof(Real)), PATCH = 2 * GO, PATCHES = LINES / GO,
                PATCHES_ONCE = THREADS / PATCH,
                LINES_ONCE = PATCHES_ONCE < PATCHES ? PATCHES_ONCE * GO : LINES,
                ACROSS_ONCE = PATCHES_ONCE < PATCHES ? 2 : PATCHES_ONCE / PATCHES * 2;
  static_assert(LINES % LINES_ONCE == 0 && LINES_ONCE * ACROSS_ONCE == THREADS,
                "threads are whole patches");
  const int patch = thread / PATCH, line = thread % GO + patch % (LINES_ONCE / GO) * GO,
            at = thread / GO % 2 + patch / (LINES_ONCE / GO) * 2;
  const mmci_complex<Real> *source = from + at * next + line;
  mmci_complex<Real> *place = to + line * PITCH + at;
#pragma unroll
  for (int e = 0; e < ACROSS; e += ACROSS_ONCE) {
    const bool is_across = at + e < across;
    if (ACROSS % ACROSS_ONCE == 0 || at + e < ACROSS)
#pragma unroll
      for (int l = 0; l < LINES; l += LINES_ONCE) {
        const bool there = is_across && line + l < lines;
        copy_element(place + l * PITCH + e, source + l, there, whole);
      }
    source += ACROSS_ONCE * next;
  }
}

/* Copies a piece of an operand: lines of elements, which lie ld apart, or are turned. */
template <int LINES, int ACROSS, int PITCH, int THREADS, typename Real>
static __device__ __forceinline__ void fetch(const mmci_complex<Real> *from, int64_t ld,
                                             bool is_turned, int lines, int64_t across, int word,
                                             int thread, mmci_complex<Real> *to) {
  constexpr int BYTES = 2 * sizeof(Real);
  const int there = across < ACROSS ? (int)across : ACROSS;
  if (is_turned)
    fetch_turned<LINES, ACROSS, PITCH, THREADS>(from, ld, lines, there, word >= BYTES, thread, to);
  else if (word == WORD_BYTES)
    fetch_along<LINES, ACROSS, PITCH, THREADS, WORD_BYTES / BYTES>(from, ld, lines, there, true,
                                                                   thread, to);
  else
    fetch_along<LINES, ACROSS, PITCH, THREADS, 1>(from, ld, lines, there, word >= BYTES, thread,
                                                  to);
}

/* ---- elements of C -----------------------------------------------------------------------------
 */

/* An element of those of a lane, which begin at row and col. */
struct Place {
  int row, down, col, across;
};
static __device__ __forceinline__ Place next_to(const Place &p) {
  return {p.row, p.down, p.col, p.across + 1};
}

/* What a warp has of C, from its first element on. */
template <typename Real>
struct Corner {
  typedef mmci_complex<Real> Complex;
  struct alignas(WORD_BYTES) Pair {
    Complex x[2];
  };
  Complex *c;
  int64_t row_step, col_step;
  int rows, cols; /* that there are */
  bool conj, wide;

  /* The lane's own offset is the same for all of its elements, and what lies further is known when
   * this is compiled. */
  __device__ __forceinline__ Complex *at(const Place &p) const {
    Complex *mine = c + (p.row * row_step + p.col * col_step);
    return p.row + p.down < rows && p.col + p.across < cols
               ? mine + (p.down * row_step + p.across * col_step)
               : nullptr;
  }
  __device__ __forceinline__ Real *part_at(const Place &p, int part) const {
    Complex *x = at(p);
    return x == nullptr ? nullptr : part == 0 ? &x->re : &x->im;
  }
};

/* Turns the sign where it is told. */
static __device__ __forceinline__ float signed_by(float x, bool negate) {
  return negate ? -x : x;
}
static __device__ __forceinline__ double signed_by(double x, bool negate) {
  constexpr unsigned SIGN_BIT = 63;
  return __longlong_as_double(__double_as_longlong(x) ^ ((long long)negate << SIGN_BIT));
}

/* Sums go on from what is in C. */
template <typename Real>
struct Reader {
  typedef mmci_complex<Real> Complex;
  Corner<Real> corner;

  __device__ __forceinline__ void element(const Place &p, Complex &x) const {
    const Complex *from = corner.at(p);
    if (from != nullptr) x = {from->re, signed_by(from->im, corner.conj)};
  }
  __device__ __forceinline__ void pair(const Place &p, Complex &x, Complex &y) const {
    element(p, x);
    element(next_to(p), y);
  }
  __device__ __forceinline__ void part(const Place &p, int which, Real &x) const {
    const Real *from = corner.part_at(p, which);
    if (from != nullptr) x = signed_by(*from, corner.conj && which == 1);
  }
};

template <typename Real>
struct Writer {
  typedef mmci_complex<Real> Complex;
  Corner<Real> corner;

  __device__ __forceinline__ Complex result(const Complex &x) const {
    return mmci_settled(Complex{x.re, signed_by(x.im, corner.conj)});
  }
  __device__ __forceinline__ void element(const Place &p, const Complex &x) const {
    Complex *to = corner.at(p);
    if (to != nullptr) *to = result(x);
  }
  __device__ __forceinline__ void pair(const Place &p, const Complex &x, const Complex &y) const {
    typedef typename Corner<Real>::Pair Pair;
    if (corner.wide && corner.at(next_to(p)) != nullptr) {
      *reinterpret_cast<Pair *>(corner.at(p)) = {{result(x), result(y)}};
    } else {
      element(p, x);
      element(next_to(p), y);
    }
  }
  __device__ __forceinline__ void part(const Place &p, int which, Real x) const {
    Real *to = corner.part_at(p, which);
    if (to != nullptr) *to = mmci_settled(signed_by(x, corner.conj && which == 1));
  }
};

/* ---- sums of a warp ----------------------------------------------------------------------------
 */

/* Sums of c64. A lane has HEIGHT x WIDTH of them, LANES_DOWN lanes lie below one another, and STEP
 * terms are read at once. CONJ says that B is conjugated. */
template <int HEIGHT, int WIDTH, int LANES_DOWN, int THE_STEP, bool CONJ>
struct Lanes {
  typedef float Real;
  typedef mmci_complex<float> Complex;
  enum {
    PARTS = 1,
    STEP = THE_STEP,
    LANES_ACROSS = WARP / LANES_DOWN,
    ROWS = HEIGHT * LANES_DOWN,
    COLS = WIDTH * LANES_ACROSS,
    GRAIN = WIDTH % 2 == 0 ? 2 : 1, /* columns side by side */
    TERMS_ONCE = STEP % 2 == 0 ? 2 : 1,
    A_PAD = 2,
    B_PAD = 2
  };
  struct alignas(WORD_BYTES) Pair {
    Complex x[2];
  };
  struct alignas(2 * sizeof(float)) Single {
    Complex x;
  };
  struct Operands {
    Complex a[HEIGHT][STEP], b[STEP][WIDTH];
  };
  Complex sum[HEIGHT][WIDTH];

  static __device__ __forceinline__ Place place(int i, int j) {
    return {(int)threadIdx.x % WARP / LANES_ACROSS, LANES_DOWN * i,
            GRAIN * ((int)threadIdx.x % LANES_ACROSS),
            GRAIN * LANES_ACROSS * (j / GRAIN) + j % GRAIN};
  }
  static __device__ __forceinline__ int row(int i) {
    const Place p = place(i, 0);
    return p.row + p.down;
  }
  static __device__ __forceinline__ int col(int j) {
    const Place p = place(0, j);
    return p.col + p.across;
  }
  __device__ __forceinline__ void begin(int, bool) {
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
#pragma unroll
      for (int j = 0; j < WIDTH; j++) sum[i][j] = {};
  }
  template <int A_PITCH, int B_PITCH>
  __device__ __forceinline__ void load(Operands &to, const Complex *a, const Complex *b) const {
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
#pragma unroll
      for (int d = 0; d < STEP; d += TERMS_ONCE) {
        const Complex *from = a + row(i) * A_PITCH + d;
        if (TERMS_ONCE == 2) {
          const Pair x = *reinterpret_cast<const Pair *>(from);
          to.a[i][d] = x.x[0];
          to.a[i][d + TERMS_ONCE - 1] = x.x[1];
        } else {
          to.a[i][d] = reinterpret_cast<const Single *>(from)->x;
        }
      }
#pragma unroll
    for (int d = 0; d < STEP; d++)
#pragma unroll
      for (int j = 0; j < WIDTH; j += GRAIN) {
        const Complex *from = b + d * B_PITCH + col(j);
        if (GRAIN == 2) {
          const Pair x = *reinterpret_cast<const Pair *>(from);
          to.b[d][j] = x.x[0];
          to.b[d][j + GRAIN - 1] = x.x[1];
        } else {
          to.b[d][j] = reinterpret_cast<const Single *>(from)->x;
        }
      }
  }
  /* A real number of A is multiplied by a row of B, whose parts and sums stream by. */
  __device__ __forceinline__ void add(const Operands &x) {
#pragma unroll
    for (int d = 0; d < STEP; d++)
#pragma unroll
      for (int i = 0; i < HEIGHT; i++) {
        const float re = x.a[i][d].re, im = x.a[i][d].im;
#pragma unroll
        for (int j = 0; j < WIDTH; j++) {
          mmci_fuse_product(sum[i][j].re, re, x.b[d][j].re);
          mmci_fuse_product(sum[i][j].im, CONJ ? -re : re, x.b[d][j].im);
        }
#pragma unroll
        for (int j = 0; j < WIDTH; j++) {
          mmci_fuse_product(sum[i][j].re, CONJ ? im : -im, x.b[d][j].im);
          mmci_fuse_product(sum[i][j].im, im, x.b[d][j].re);
        }
      }
  }
  template <typename Visitor>
  __device__ __forceinline__ void each(const Visitor &visitor) {
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
#pragma unroll
      for (int j = 0; j < WIDTH; j += GRAIN) {
        if (GRAIN == 2)
          visitor.pair(place(i, j), sum[i][j], sum[i][j + GRAIN - 1]);
        else
          visitor.element(place(i, j), sum[i][j]);
      }
  }
};

/* Sums of 16 DOWN x 8 RIGHT elements of c128, as tensor_f64.cuh says. Real and imaginary parts are
 * tiles of their own: a warp has both, or where THE_PARTS is 2 those of one. */
template <int DOWN, int RIGHT, int THE_PARTS>
struct Tensors {
  typedef double Real;
  typedef mmci_complex<double> Complex;
  enum {
    PARTS = THE_PARTS,
    EACH = 2 / PARTS,
    STEP = 4,
    ROWS = 16 * DOWN,
    COLS = 8 * RIGHT,
    A_PAD = 2,
    B_PAD = 4
  };
  struct Operands {
    double a[DOWN][2][2], b[RIGHT][EACH][2];
  };
  double sum[DOWN][RIGHT][EACH][4];
  bool b_conj;
  int first; /* part of the warp */

  static __device__ __forceinline__ int lane() { return (int)threadIdx.x % WARP; }
  __device__ __forceinline__ void begin(int part, bool conj) {
    b_conj = conj;
    first = part;
#pragma unroll
    for (int p = 0; p < DOWN; p++)
#pragma unroll
      for (int q = 0; q < RIGHT; q++)
#pragma unroll
        for (int e = 0; e < EACH; e++)
#pragma unroll
          for (int r = 0; r < 4; r++) sum[p][q][e][r] = 0;
  }
  template <int A_PITCH, int B_PITCH>
  __device__ __forceinline__ void load(Operands &to, const Complex *a, const Complex *b) const {
    const int g = lane() / 4, t = lane() % 4;
    const bool odd = t % 2 != 0; /* the lane's terms are those of A's imaginary parts */
    const double *reals = reinterpret_cast<const double *>(a) + g * (2 * A_PITCH) + t;
#pragma unroll
    for (int p = 0; p < DOWN; p++)
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int r = 0; r < 2; r++) to.a[p][h][r] = reals[(16 * p + 8 * r) * (2 * A_PITCH) + 4 * h];
    const Complex *column = b + t / 2 * B_PITCH + g;
    const int other = first == 1 ? !odd : odd;
#pragma unroll
    for (int q = 0; q < RIGHT; q++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const Complex *z = column + 2 * h * B_PITCH + 8 * q;
        if (EACH == 1) {
          to.b[q][0][h] = reinterpret_cast<const double *>(z)[other];
        } else {
          const double2 both = *reinterpret_cast<const double2 *>(z);
          to.b[q][0][h] = odd ? both.y : both.x;
          to.b[q][EACH - 1][h] = odd ? both.x : both.y;
        }
      }
  }
  __device__ __forceinline__ void add(const Operands &x) {
    const bool odd = lane() % 2 != 0;
#pragma unroll
    for (int q = 0; q < RIGHT; q++)
#pragma unroll
      for (int e = 0; e < EACH; e++) {
        const bool is_im = EACH == 1 ? first == 1 : e == 1;
        const bool negate = is_im ? !odd && b_conj : odd && !b_conj;
        const double b[2] = {signed_by(x.b[q][e][0], negate), signed_by(x.b[q][e][1], negate)};
#pragma unroll
        for (int p = 0; p < DOWN; p++) mmci_multiply_f64(sum[p][q][e], x.a[p], b);
      }
  }
  template <typename Visitor>
  __device__ __forceinline__ void each(const Visitor &visitor) {
    const int g = lane() / 4, t = lane() % 4;
#pragma unroll
    for (int p = 0; p < DOWN; p++)
#pragma unroll
      for (int q = 0; q < RIGHT; q++)
#pragma unroll
        for (int r = 0; r < 4; r++) {
          const Place place = {g, 16 * p + 8 * (r / 2), 2 * t, 8 * q + r % 2};
          double &x = sum[p][q][0][r], &y = sum[p][q][EACH - 1][r];
          if (EACH == 1) {
            visitor.part(place, first, x);
          } else {
            Complex z = {x, y};
            visitor.element(place, z);
            x = z.re;
            y = z.im;
          }
        }
  }
};

/* ---- products ----------------------------------------------------------------------------------
 */

/* A block of WARPS_DOWN x WARPS_ACROSS warps, each with a part of its own where sums have parts,
 * and HELPERS more that copy, where the others are not to. Where AHEAD, operands of the next terms
 * are read while some are multiplied. Pitches are in elements, so that what is read at once lies in
 * different banks. */
template <typename TheSums, int WARPS_DOWN, int WARPS_ACROSS, int THE_DEPTH, int THE_STAGES,
          int THE_BLOCKS, bool IS_AHEAD, int HELPERS = 0>
struct Block {
  typedef TheSums Sums;
  typedef typename Sums::Real Real;
  enum {
    DEPTH = THE_DEPTH,
    STAGES = THE_STAGES,
    BLOCKS = THE_BLOCKS,
    AHEAD = IS_AHEAD,
    DOWN = WARPS_DOWN,
    RIGHT = WARPS_ACROSS,
    WARPS = WARPS_DOWN * WARPS_ACROSS * Sums::PARTS,
    THREADS = WARP * (WARPS + HELPERS),
    FIRST_COPYING = HELPERS > 0 ? WARP *WARPS : 0,
    COPYING = THREADS - FIRST_COPYING,
    ROWS = Sums::ROWS * WARPS_DOWN,
    COLS = Sums::COLS * WARPS_ACROSS,
    A_PITCH = DEPTH + Sums::A_PAD,
    B_PITCH = COLS + Sums::B_PAD,
    A_ELEMENTS = ROWS * A_PITCH,
    STAGE = A_ELEMENTS + DEPTH * B_PITCH,
    SHARED_BYTES = STAGES * STAGE * 2 * sizeof(Real)
  };
  static_assert(DEPTH % (Sums::STEP * (AHEAD ? 2 : 1)) == 0, "a piece is whole steps");
};

/* What a block loads next: piece by piece, tile by tile. */
template <typename B>
struct Coming {
  typedef mmci_complex<typename B::Real> Complex;
  int64_t tile, rest; /* rest: terms of the tile that are not loaded yet */
  const Complex *a, *b;
  int rows, cols; /* of the tile, that there are */

  __device__ __forceinline__ void begin(const ComplexShape &s, const void *all_a,
                                        const void *all_b) {
    if (tile >= s.tiles * s.batch) return;
    const mmci_spot spot = mmci_spot_of<B::ROWS, B::COLS>(s.tiles, s.across, tile);
    const mmci_span span = mmci_span_of(s.spans, s.k, spot.i);
    a = mmci_matrix_of<Complex>(all_a, span.product, s.a_stride, s.a_gathered) +
        spot.row * (s.a_trans ? 1 : s.lda) + span.begin * (s.a_trans ? s.lda : 1);
    b = mmci_matrix_of<Complex>(all_b, span.product, s.b_stride, s.b_gathered) +
        spot.col * (s.b_trans ? s.ldb : 1) + span.begin * (s.b_trans ? 1 : s.ldb);
    rest = span.end - span.begin;
    rows = (int)min(s.m - spot.row, (int64_t)B::ROWS);
    cols = (int)min(s.n - spot.col, (int64_t)B::COLS);
  }
  __device__ __forceinline__ void load(const ComplexShape &s, const void *all_a, const void *all_b,
                                       Complex *to) {
    if (tile < s.tiles * s.batch) {
      const int thread = (int)threadIdx.x - B::FIRST_COPYING;
      fetch<B::ROWS, B::DEPTH, B::A_PITCH, B::COPYING>(a, s.lda, s.a_trans, rows, rest, s.a_word,
                                                       thread, to);
      fetch_b(s, rest, thread, to + B::A_ELEMENTS);
      a += B::DEPTH * (s.a_trans ? s.lda : 1);
      b += B::DEPTH * (s.b_trans ? 1 : s.ldb);
      rest -= B::DEPTH;
      if (rest <= 0) {
        tile += gridDim.x;
        begin(s, all_a, all_b);
      }
    }
    mmci_copy_async_commit();
  }
  /* Lines of B are terms. */
  __device__ __forceinline__ void fetch_b(const ComplexShape &s, int64_t rest, int thread,
                                          Complex *to) const {
    fetch<B::DEPTH, B::COLS, B::B_PITCH, B::COPYING>(b, s.ldb, s.b_trans,
                                                     rest < B::DEPTH ? (int)rest : B::DEPTH,
                                                     (int64_t)cols, s.b_word, thread, to);
  }
};

/* Adds a piece of so many terms. */
template <typename B>
static __device__ __forceinline__ void add_piece(typename B::Sums &sums,
                                                 const mmci_complex<typename B::Real> *a,
                                                 const mmci_complex<typename B::Real> *b,
                                                 int terms) {
  typedef typename B::Sums Sums;
  constexpr int STEP = Sums::STEP, B_STEP = STEP * B::B_PITCH;
  typename Sums::Operands x, y;
  if (!B::AHEAD) {
#pragma unroll 1
    for (int d = 0; d < terms; d += STEP) {
      sums.template load<B::A_PITCH, B::B_PITCH>(x, a + d, b + d * B::B_PITCH);
      sums.add(x);
    }
    return;
  }
  const mmci_complex<typename B::Real> *a_at = a, *b_at = b;
  sums.template load<B::A_PITCH, B::B_PITCH>(x, a, b);
#pragma unroll 1
  for (int d = 0; d < terms; d += 2 * STEP) {
    sums.template load<B::A_PITCH, B::B_PITCH>(y, a_at + STEP, b_at + B_STEP);
    sums.add(x);
    /* What follows the last terms is not used, so the first ones are loaded again. */
    const bool is_last = d + 2 * STEP >= terms;
    a_at = is_last ? a : a_at + 2 * STEP;
    b_at = is_last ? b : b_at + 2 * B_STEP;
    sums.template load<B::A_PITCH, B::B_PITCH>(x, a_at, b_at);
    sums.add(y);
  }
}

template <typename B>
__global__ void __launch_bounds__(B::THREADS, B::BLOCKS)
    ordered_complex(const __grid_constant__ ComplexShape s, const void *all_a, const void *all_b,
                    mmci_complex<typename B::Real> *all_c) {
  typedef typename B::Real Real;
  typedef typename B::Sums Sums;
  typedef mmci_complex<Real> Complex;
  MMCI_DYNAMIC_SHARED(memory);
  Complex *stages = reinterpret_cast<Complex *>(memory);
  const int warp = (int)threadIdx.x / WARP, place = warp / Sums::PARTS,
            top = place / B::RIGHT * Sums::ROWS, left = place % B::RIGHT * Sums::COLS;
  const bool has_sums = B::THREADS == WARP * B::WARPS || warp < B::WARPS,
             copies = B::FIRST_COPYING == 0 || !has_sums;
  const int64_t all = s.tiles * s.batch;
  Coming<B> coming;
  coming.tile = blockIdx.x;
  if (copies) {
    coming.begin(s, all_a, all_b);
    for (int stage = 0; stage < B::STAGES - 1; stage++)
      coming.load(s, all_a, all_b, stages + stage * B::STAGE);
  }
  int stage = 0;
  for (int64_t at = blockIdx.x; at < all; at += gridDim.x) {
    const mmci_spot mine = mmci_spot_of<B::ROWS, B::COLS>(s.tiles, s.across, at);
    const Corner<Real> corner = {
        all_c + mine.i * s.c_stride + (mine.row + top) * s.c_row + (mine.col + left) * s.c_col,
        s.c_row,
        s.c_col,
        (int)min(s.m - mine.row, (int64_t)B::ROWS) - top,
        (int)min(s.n - mine.col, (int64_t)B::COLS) - left,
        s.c_conj,
        s.wide_c};
    const bool is_there = has_sums && corner.rows > 0 && corner.cols > 0;
    Sums sums;
    sums.begin(warp % Sums::PARTS, s.b_conj);
    if (s.accumulate && is_there) sums.each(Reader<Real>{corner});
    const mmci_span span = mmci_span_of(s.spans, s.k, mine.i);
    int64_t rest = span.end - span.begin;
    do {
      if (copies) mmci_copy_async_wait<B::STAGES - 2>();
      __syncthreads();
      if (copies)
        coming.load(s, all_a, all_b, stages + (stage == 0 ? B::STAGES - 1 : stage - 1) * B::STAGE);
      const Complex *piece = stages + stage * B::STAGE;
      if (is_there)
        add_piece<B>(sums, piece + top * B::A_PITCH, piece + B::A_ELEMENTS + left,
                     rest < B::DEPTH ? (int)rest : B::DEPTH);
      stage = stage + 1 < B::STAGES ? stage + 1 : 0;
      rest -= B::DEPTH;
    } while (rest > 0);
    if (is_there) sums.each(Writer<Real>{corner});
  }
}

/* ---- launches ----------------------------------------------------------------------------------
 */

template <typename B>
static mmc_status launch(cudaStream_t stream, ComplexShape s, int multiprocessors, const void *a,
                         const void *b, void *c, mmci_error *error) {
  /* These are bytes: what is there without being asked for, what a block may ask for on any card
   * since Ampere, and what a multiprocessor of an H200 has, of which it takes some a block. */
  constexpr int SHARED_MOST = 48 << 10, ASKED_MOST = 99 << 10, ALL = 228 << 10, TAKEN = 1 << 10;
  static_assert((int)B::SHARED_BYTES <= ASKED_MOST, "blocks fit on any card");
  static_assert(((int)B::SHARED_BYTES + TAKEN) * (int)B::BLOCKS <= ALL, "all blocks stay");
  s.across = (s.n + B::COLS - 1) / B::COLS;
  s.tiles = (s.m + B::ROWS - 1) / B::ROWS * s.across;
  const int64_t all = s.tiles * s.batch, most = (int64_t)multiprocessors * B::BLOCKS;
  if (all == 0) return MMC_OK;
  if ((int)B::SHARED_BYTES > SHARED_MOST)
    MMCI_CUDA_TRY(cudaFuncSetAttribute(
        ordered_complex<B>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)B::SHARED_BYTES));
  MMCI_CUDA_TRY(mmci_launch(ordered_complex<B>, dim3((unsigned)(all < most ? all : most)),
                            dim3(B::THREADS), (size_t)B::SHARED_BYTES, stream, s, a, b,
                            static_cast<mmci_complex<typename B::Real> *>(c)));
  return MMC_OK;
}

/* Returns how many bytes of an operand's lines may be copied at once; arrays of addresses may hold
 * any that are aligned to the real type. */
static int word_of(const mmci_form &form, int64_t length, int64_t batch, const void *data,
                   int real_bytes) {
  int word = WORD_BYTES;
  while (word > real_bytes && (form.gathered || (uintptr_t)data % (uintptr_t)word != 0)) word /= 2;
  const bool has_halves =
      real_bytes == 4 && (length | form.ld | (batch > 1 ? form.stride : 0)) % 2 != 0;
  return word == WORD_BYTES && has_halves ? WORD_BYTES / 2 : word;
}

/* What is launched: the product, or where that is turned the upright one of op(b)^T and op(a)^T. */
struct Launched {
  ComplexShape shape;
  const void *a, *b;
};

static Launched launched_of(const mmci_gemm *gemm, const void *a, const void *b, const void *c) {
  const bool turned = gemm->turned;
  const mmci_form &x = turned ? gemm->b : gemm->a, &y = turned ? gemm->a : gemm->b;
  const int real_bytes = gemm->dtype == MMC_C64 ? 4 : 8;
  Launched to = {{}, turned ? b : a, turned ? a : b};
  ComplexShape &s = to.shape;
  s.m = turned ? gemm->n : gemm->m;
  s.k = gemm->k;
  s.n = turned ? gemm->m : gemm->n;
  s.lda = x.ld;
  s.ldb = y.ld;
  s.c_row = turned ? 1 : gemm->ldc;
  s.c_col = turned ? gemm->ldc : 1;
  s.batch = gemm->batch > 0 ? gemm->batch : 1;
  s.a_stride = x.stride;
  s.b_stride = y.stride;
  s.c_stride = gemm->c_stride;
  s.a_trans = x.trans != turned;
  s.a_gathered = x.gathered;
  s.b_trans = y.trans != turned;
  s.b_gathered = y.gathered;
  s.a_word = word_of(x, s.a_trans ? s.m : s.k, s.batch, to.a, real_bytes);
  s.b_word = word_of(y, s.b_trans ? s.k : s.n, s.batch, to.b, real_bytes);
  s.b_conj = x.conj != y.conj;
  s.c_conj = x.conj;
  s.accumulate = gemm->accumulate;
  const bool even = real_bytes == 8 || (gemm->ldc | gemm->c_stride) % 2 == 0;
  s.wide_c = !turned && even && (uintptr_t)c % WORD_BYTES == 0;
  return to;
}

/* Tiles of one dtype, in the order of ordered_complex.h. */
template <typename... Blocks>
struct Family {
  typedef mmc_status (*launcher)(cudaStream_t, ComplexShape, int, const void *, const void *,
                                 void *, mmci_error *);
  static launcher at(int tile) {
    static const launcher ALL[] = {launch<Blocks>...};
    return ALL[tile];
  }
  template <int COUNT>
  static constexpr bool is(const mmci_ordered_complex_sides (&sides)[COUNT]) {
    constexpr int OWN[][2] = {{Blocks::ROWS, Blocks::COLS}...};
    bool same = sizeof...(Blocks) == COUNT;
    for (int i = 0; same && i < COUNT; i++)
      same = OWN[i][0] == sides[i].rows && OWN[i][1] == sides[i].cols;
    return same;
  }
};

template <bool CONJ>
struct C64 : Family<Block<Lanes<1, 1, 8, 8, CONJ>, 1, 2, 128, 5, 1, true, 2>,
                    Block<Lanes<1, 1, 8, 8, CONJ>, 2, 2, 64, 5, 2, true, 4>,
                    Block<Lanes<2, 4, 8, 4, CONJ>, 2, 2, 32, 4, 3, true>,
                    Block<Lanes<4, 8, 8, 2, CONJ>, 1, 1, 16, 2, 12, true>,
                    Block<Lanes<4, 4, 8, 2, CONJ>, 2, 2, 16, 4, 3, true>,
                    Block<Lanes<8, 8, 8, 1, CONJ>, 1, 2, 16, 3, 4, true>> {};
struct C128 : Family<Block<Tensors<1, 1, 2>, 1, 1, 64, 3, 2, true, 2>,
                     Block<Tensors<1, 2, 1>, 1, 1, 8, 3, 12, false>,
                     Block<Tensors<1, 1, 1>, 1, 4, 32, 3, 2, true>,
                     Block<Tensors<2, 2, 1>, 1, 2, 8, 3, 6, false>,
                     Block<Tensors<2, 2, 1>, 2, 2, 16, 3, 2, true>,
                     Block<Tensors<2, 4, 1>, 1, 2, 8, 3, 4, false>> {};

#define SIDES(rows, cols) {rows, cols},
constexpr mmci_ordered_complex_sides C64_SIDES[] = {MMCI_ORDERED_C64_TILES(SIDES)},
                                     C128_SIDES[] = {MMCI_ORDERED_C128_TILES(SIDES)};
#undef SIDES
static_assert(C64<false>::is(C64_SIDES) && C64<true>::is(C64_SIDES) && C128::is(C128_SIDES),
              "tiles are those that are chosen from");

static mmc_status launch_spans(cudaStream_t stream, const mmci_gemm *gemm, const mmci_spans &spans,
                               int tile, const void *a, const void *b, void *c, mmci_error *error) {
  int device = 0, multiprocessors = 0;
  MMCI_CUDA_TRY(cudaGetDevice(&device));
  MMCI_CUDA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  Launched x = launched_of(gemm, a, b, c);
  x.shape.spans = spans;
  x.shape.batch *= spans.count;
  mmci_gemm like = *gemm;
  like.k = gemm->k < spans.terms ? gemm->k : spans.terms;
  like.batch = x.shape.batch;
  if (tile < 0) tile = mmci_ordered_complex_choose(&like, multiprocessors);
  const auto launcher = gemm->dtype == MMC_C128 ? C128::at(tile)
                        : x.shape.b_conj        ? C64<true>::at(tile)
                                                : C64<false>::at(tile);
  return launcher(stream, x.shape, multiprocessors, x.a, x.b, c, error);
}

extern "C" mmc_status mmci_cuda_ordered_complex_by(cudaStream_t stream, const mmci_gemm *gemm,
                                                   int tile, const void *a, const void *b, void *c,
                                                   mmci_error *error) {
  return launch_spans(stream, gemm, mmci_all_terms(gemm->k), tile, a, b, c, error);
}

extern "C" mmc_status mmci_cuda_ordered_complex_pieces(cudaStream_t stream, const mmci_gemm *piece,
                                                       const mmci_piece_range *range, int tile,
                                                       const void *a, const void *b, void *parts,
                                                       mmci_error *error) {
  return launch_spans(stream, piece, {range->first, range->count, MMCI_PIECE_TERMS}, tile, a, b,
                      parts, error);
}

extern "C" mmc_status mmci_cuda_ordered_complex(cudaStream_t stream, const mmci_gemm *gemm,
                                                const void *a, const void *b, void *c,
                                                mmci_error *error) {
  return mmci_cuda_ordered_complex_by(stream, gemm, -1, a, b, c, error);
}
