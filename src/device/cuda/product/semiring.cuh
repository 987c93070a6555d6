/* semiring.cuh: products over max-plus, min-plus and log, in tiles of C.
 *
 * Where C has too few elements for the chip, k is cut into parts, whose products are further ones
 * of the batch, and a second launch adds these up.
 *
 * A block keeps a tile of C in registers and goes along k in steps, which come by cp.async a few
 * steps ahead. In shared memory a step is so many lines of the tile's height of A, and as many of
 * its width of B, whichever way the operands lie; past their edges are zeros of the semiring.
 *
 * What the fast loops do not know, NaN, or infinities and integers whose sums are none of a
 * processor's, every thread looks for in a part of each step. A block that finds any computes its
 * tile element by element. */
#ifndef MMCI_CUDA_PRODUCT_SEMIRING_CUH
#define MMCI_CUDA_PRODUCT_SEMIRING_CUH

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>

#include "device/cuda/launch.cuh"

namespace semiring {

/* Element (i, l) of A and (l, j) of B, see mmci_form. */
struct Operand {
  const void *data;
  int64_t ld, stride;
  bool trans, gathered;
};

struct Shape {
  int64_t m, k, n, batch;
  Operand a, b;
  int64_t ldc, c_stride;
  bool accumulate;
  int64_t parts, part; /* so many parts of k, of so many terms each but the last */
};

template <typename Element>
static __device__ __forceinline__ const Element *matrix_of(const Operand &x, int64_t i) {
  return x.gathered ? static_cast<const Element *const *>(x.data)[i]
                    : static_cast<const Element *>(x.data) + i * x.stride;
}

/* The part of k that is number `number` of all products' parts: of product `i`, from term `first`
 * on. */
struct PartOfK {
  int64_t i, first, k;
  __device__ __forceinline__ PartOfK(const Shape &s, int64_t number)
      : i(s.parts == 1 ? number : number / s.parts),
        first(s.parts == 1 ? 0 : number % s.parts * s.part),
        k(s.k - first < s.part ? s.k - first : s.part) {}
};

/* Return how far a next term of k is in memory. */
static __device__ __forceinline__ int64_t a_step_of(const Shape &s) {
  return s.a.trans ? s.a.ld : 1;
}
static __device__ __forceinline__ int64_t b_step_of(const Shape &s) {
  return s.b.trans ? 1 : s.b.ld;
}

/* ---- the semirings ------------------------------------------------------------------------------
 * Each has, beside its Element and its zero:
 *
 *     is_odd     whether the fast loops do not know an element
 *     Sum        what stands for an element of C while terms are taken in
 *     packed     an operand as take() wants it
 *     sum        of two of these
 *     exact      one element of C from operands of any kind, and that which was there before
 *     value      what a Sum has become, with that which was there before
 */

/* The greatest of sums of reals, or the least. fmax() and fmin() pass over NaN, which without NaN
 * among the operands is but the sum of opposite infinities: of these one is the zero. */
template <typename Real, bool LEAST>
struct Extreme {
  typedef Real Element;
  static __device__ __forceinline__ Real zero() { return LEAST ? (Real)INFINITY : -(Real)INFINITY; }
  static __device__ __forceinline__ bool is_odd(Real x) { return x != x; }
  static __device__ __forceinline__ Real packed(Real x) { return x; }
  static __device__ __forceinline__ Real sum(Real x, Real y) { return x + y; }
  static __device__ __forceinline__ float of_two(float x, float y) {
    return LEAST ? fminf(x, y) : fmaxf(x, y);
  }
  static __device__ __forceinline__ double of_two(double x, double y) {
    return (LEAST ? y < x : y > x) ? y : x;
  }
  static __device__ __forceinline__ Real better(Real x, Real y) {
    return x != x || y != y ? (Real)NAN : (LEAST ? y < x : y > x) ? y : x;
  }
  static __device__ __forceinline__ Real product(Real x, Real y) {
    if (x != x || y != y) return (Real)NAN;
    return x == zero() || y == zero() ? zero() : x + y;
  }
  static __device__ __forceinline__ Real settled(Real best) { return best + (Real)0; }
  static __device__ __forceinline__ Real value(Real best, bool accumulate, Real before) {
    return settled(accumulate ? better(before, best) : best);
  }
};

/* The greatest or least sum of integers, whose sums saturate. Small ones are added as they are, and
 * a zero is then so far from all sums of others that what was made of one is known. */
template <bool LEAST>
struct ExtremeInteger {
  typedef int64_t Element;
  static constexpr int64_t MOST = INT64_C(1) << 60, FAR = (INT64_C(1) << 62) - 1;
  static __device__ __forceinline__ int64_t zero() { return LEAST ? INT64_MAX : INT64_MIN; }
  static __device__ __forceinline__ bool is_odd(int64_t x) {
    return x != zero() && (x > MOST || x < -MOST);
  }
  static __device__ __forceinline__ int64_t packed(int64_t x) {
    return x == zero() ? (LEAST ? FAR : -FAR) : x;
  }
  /* Wraps around where an operand is odd; what was made of it is not used. */
  static __device__ __forceinline__ int64_t sum(int64_t x, int64_t y) {
    return (int64_t)((uint64_t)x + (uint64_t)y);
  }
  static __device__ __forceinline__ int64_t of_two(int64_t x, int64_t y) {
    return (LEAST ? y < x : y > x) ? y : x;
  }
  static __device__ __forceinline__ int64_t better(int64_t x, int64_t y) { return of_two(x, y); }
  static __device__ __forceinline__ int64_t product(int64_t x, int64_t y) {
    const int64_t most = INT64_MAX - LEAST, fewest = INT64_MIN + !LEAST;
    if (x == zero() || y == zero()) return zero();
    if (x > 0 && y > most - x) return most;
    if (x < 0 && y < fewest - x) return fewest;
    return x + y;
  }
  static __device__ __forceinline__ int64_t settled(int64_t best) { return best; }
  static __device__ __forceinline__ int64_t value(int64_t best, bool accumulate, int64_t before) {
    const int64_t x = (LEAST ? best > FAR / 2 : best < -FAR / 2) ? zero() : best;
    return accumulate ? of_two(before, x) : x;
  }
};

/* The logarithm of a sum of exponentials, out of which the greatest term is taken. */
template <typename Real>
struct LogSum {
  typedef Real Element;
  static __device__ __forceinline__ Real zero() { return -(Real)INFINITY; }
  static __device__ __forceinline__ bool is_odd(Real x) { return !(x < (Real)INFINITY); }
  /* The greatest term of an empty sum, from which a zero can be subtracted. */
  static __device__ __forceinline__ Real least() {
    return sizeof(Real) == 4 ? (Real)-FLT_MAX : (Real)-DBL_MAX;
  }
  static __device__ __forceinline__ double exponential(double x) { return exp(x); }
  static __device__ __forceinline__ float exponential(float x) {
    const float power = x * 1.4426950408889634f;
#ifdef MMCI_EMULATE_CUDA
    return exp2f(power);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(power));
    return y;
#endif
  }
  static __device__ __forceinline__ Real value(Real most, Real sum, bool accumulate, Real before) {
    double of_terms = sum > 0 ? (double)most + log((double)sum) : -(double)INFINITY;
    if (most > -least()) of_terms = (double)INFINITY;
    if (!accumulate) return (Real)of_terms;
    const double was = (double)before;
    if (was != was) return (Real)was;
    const bool grew = of_terms > was;
    const double greater = grew ? of_terms : was, lesser = grew ? was : of_terms;
    if (!(greater > -(double)INFINITY && greater < (double)INFINITY)) return (Real)greater;
    return (Real)(greater + log(1 + exp(lesser - greater)));
  }
};

/* ---- one element -------------------------------------------------------------------------------
 */

/* A row of A and a column of B. */
template <typename Element>
struct Line {
  const Element *a, *b;
  int64_t a_step, b_step, k;
};

template <typename Ring>
static __device__ __noinline__ typename Ring::Element exact(
    Ring, const Line<typename Ring::Element> &line, bool accumulate,
    typename Ring::Element before) {
  typename Ring::Element best = accumulate ? before : Ring::zero();
  for (int64_t l = 0; l < line.k; l++)
    best = Ring::better(best, Ring::product(line.a[l * line.a_step], line.b[l * line.b_step]));
  return Ring::settled(best);
}

template <typename Real>
static __device__ __noinline__ Real exact(LogSum<Real>, const Line<Real> &line, bool accumulate,
                                          Real before) {
  typedef Extreme<double, false> Greatest;
  const double was = accumulate ? (double)before : Greatest::zero();
  double most = was, sum = 0;
  for (int64_t l = 0; l < line.k; l++)
    most = Greatest::better(
        most, Greatest::product((double)line.a[l * line.a_step], (double)line.b[l * line.b_step]));
  if (!(most > -(double)INFINITY && most < (double)INFINITY)) return (Real)most;
  for (int64_t l = 0; l < line.k; l++)
    sum += exp(Greatest::product((double)line.a[l * line.a_step], (double)line.b[l * line.b_step]) -
               most);
  return (Real)(most + log(sum + exp(was - most)));
}

/* ---- the tile of a warp ------------------------------------------------------------------------
 * A warp has 4 lanes down and 8 across. A lane's rows are 16 bytes of neighbours in every four such
 * pieces, its columns in every eight. */

enum { LANES_DOWN = 4, LANES_ACROSS = 8, PIECE_BYTES = 16 };

template <typename Element>
struct alignas(PIECE_BYTES) Piece {
  enum { EACH = PIECE_BYTES / sizeof(Element) };
  Element of[EACH];
};

/* Reads the lane's elements of a line of a step. */
template <int PIECES, int LANES, typename Element>
static __device__ __forceinline__ void read_line(const Element *line,
                                                 Element (&out)[PIECES * (16 / sizeof(Element))]) {
  enum { EACH = Piece<Element>::EACH };
#pragma unroll
  for (int p = 0; p < PIECES; p++) {
    const Piece<Element> piece = *reinterpret_cast<const Piece<Element> *>(line + p * LANES * EACH);
#pragma unroll
    for (int e = 0; e < EACH; e++) out[p * EACH + e] = piece.of[e];
  }
}

template <typename Ring, int DOWN, int ACROSS>
struct Part {
  typedef typename Ring::Element Element;
  enum { EACH = Piece<Element>::EACH, ROWS = DOWN * EACH, COLS = ACROSS * EACH };
  Element best[ROWS][COLS];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int c = 0; c < COLS; c++) best[r][c] = Ring::packed(Ring::zero());
  }
  template <int DEPTH, int UNROLL, int A_STRIDE, int B_STRIDE>
  __device__ __forceinline__ void step(const Element *a_lines, const Element *b_lines) {
#pragma unroll UNROLL
    for (int l = 0; l < DEPTH; l++) {
      Element a[ROWS], b[COLS];
      read_line<DOWN, LANES_DOWN>(a_lines + l * A_STRIDE, a);
      read_line<ACROSS, LANES_ACROSS>(b_lines + l * B_STRIDE, b);
#pragma unroll
      for (int r = 0; r < ROWS; r++) a[r] = Ring::packed(a[r]);
#pragma unroll
      for (int c = 0; c < COLS; c++) b[c] = Ring::packed(b[c]);
#pragma unroll
      for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLS; c++) best[r][c] = Ring::of_two(best[r][c], Ring::sum(a[r], b[c]));
    }
  }
  __device__ __forceinline__ Element value(int r, int c, bool accumulate, Element before) const {
    return Ring::value(best[r][c], accumulate, before);
  }
};

/* Of logarithms, the greatest term of all steps so far is taken out of the sum; a step is gone
 * through twice, first for the greatest term. */
template <typename Real, int DOWN, int ACROSS>
struct Part<LogSum<Real>, DOWN, ACROSS> {
  typedef Real Element;
  enum { EACH = Piece<Real>::EACH, ROWS = DOWN * EACH, COLS = ACROSS * EACH };
  Real most[ROWS][COLS], sum[ROWS][COLS];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int c = 0; c < COLS; c++) {
        most[r][c] = LogSum<Real>::least();
        sum[r][c] = 0;
      }
  }
  template <int DEPTH, int UNROLL, int A_STRIDE, int B_STRIDE>
  __device__ __forceinline__ void step(const Real *a_lines, const Real *b_lines) {
    Real greatest[ROWS][COLS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int c = 0; c < COLS; c++) greatest[r][c] = most[r][c];
#pragma unroll UNROLL
    for (int l = 0; l < DEPTH; l++) {
      Real a[ROWS], b[COLS];
      read_line<DOWN, LANES_DOWN>(a_lines + l * A_STRIDE, a);
      read_line<ACROSS, LANES_ACROSS>(b_lines + l * B_STRIDE, b);
#pragma unroll
      for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLS; c++)
          greatest[r][c] = Extreme<Real, false>::of_two(greatest[r][c], a[r] + b[c]);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int c = 0; c < COLS; c++) {
        sum[r][c] *= LogSum<Real>::exponential(most[r][c] - greatest[r][c]);
        most[r][c] = greatest[r][c];
      }
#pragma unroll UNROLL
    for (int l = 0; l < DEPTH; l++) {
      Real a[ROWS], b[COLS];
      read_line<DOWN, LANES_DOWN>(a_lines + l * A_STRIDE, a);
      read_line<ACROSS, LANES_ACROSS>(b_lines + l * B_STRIDE, b);
#pragma unroll
      for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLS; c++)
          sum[r][c] += LogSum<Real>::exponential(a[r] + b[c] - most[r][c]);
    }
  }
  __device__ __forceinline__ Real value(int r, int c, bool accumulate, Real before) const {
    return LogSum<Real>::value(most[r][c], sum[r][c], accumulate, before);
  }
};

/* ---- the tile of a block -----------------------------------------------------------------------
 */

/* WARPS_DOWN x WARPS_ACROSS warps; a step has DEPTH lines, STAGES of them are on their way. */
template <typename Ring_, int DOWN, int ACROSS, int WARPS_DOWN, int WARPS_ACROSS, int DEPTH_,
          int STAGES_, int BLOCKS_, int UNROLL_>
struct Tile {
  typedef Ring_ Ring;
  typedef typename Ring::Element Element;
  typedef Part<Ring, DOWN, ACROSS> OwnPart;
  enum {
    EACH = Piece<Element>::EACH,
    PART_HEIGHT = DOWN * EACH * LANES_DOWN, /* of a warp */
    PART_WIDTH = ACROSS * EACH * LANES_ACROSS,
    THREADS = 32 * WARPS_DOWN * WARPS_ACROSS,
    WARPS_IN_COLUMN = WARPS_DOWN,
    HEIGHT = PART_HEIGHT * WARPS_DOWN,
    WIDTH = PART_WIDTH * WARPS_ACROSS,
    DEPTH = DEPTH_,
    STAGES = STAGES_,
    BLOCKS = BLOCKS_, /* on a multiprocessor, for which registers are left */
    UNROLL = UNROLL_,
    /* Lines are 16 bytes longer than they must be, so that columns lie in other banks. */
    A_STRIDE = HEIGHT + EACH,
    B_STRIDE = WIDTH + EACH,
    STAGE = DEPTH * (A_STRIDE + B_STRIDE),
    SHARED_BYTES = STAGES * STAGE * (int)sizeof(Element)
  };
};

/* Has lines `line` on of an operand come, elements `first` on of each: SIZE of `size` by DEPTH of
 * k. Element e of line l is from[e * ld + l] when deep, and else from[l * ld + e]. */
template <typename Ring, int SIZE, int DEPTH, int STRIDE, int THREADS>
static __device__ __forceinline__ void load_lines(typename Ring::Element *to,
                                                  const typename Ring::Element *from, int64_t ld,
                                                  bool deep, bool by_pieces, int64_t size,
                                                  int64_t first, int64_t k, int64_t line) {
  typedef typename Ring::Element Element;
  enum { BYTES = sizeof(Element), EACH = PIECE_BYTES / BYTES, CHUNKS = SIZE / EACH, ALONG = 8 };
  static_assert(
      CHUNKS * DEPTH % THREADS == 0 && SIZE % (THREADS / ALONG) == 0 && DEPTH % ALONG == 0,
      "every thread copies as much");
  const int thread = (int)threadIdx.x;
  const bool whole = first + SIZE <= size && line + DEPTH <= k;
  if (deep) {
    /* Eight neighbours of a row go to as many lines, whose banks differ. */
    const int l = thread % ALONG, e = thread / ALONG;
    from += (first + e) * ld + line + l;
    to += l * STRIDE + e;
#pragma unroll
    for (int i = 0; i < SIZE / (THREADS / ALONG); i++)
#pragma unroll
      for (int j = 0; j < DEPTH / ALONG; j++) {
        Element *slot = to + j * ALONG * STRIDE + i * (THREADS / ALONG);
        if (whole || (first + e + i * (THREADS / ALONG) < size && line + l + j * ALONG < k))
          mmci_copy_async_bytes<BYTES>(slot, from + i * (THREADS / ALONG) * ld + j * ALONG);
        else
          *slot = Ring::zero();
      }
  } else if (whole && by_pieces) {
#pragma unroll
    for (int i = 0; i < CHUNKS * DEPTH / THREADS; i++) {
      const int at = thread + i * THREADS, l = at / CHUNKS, e = at % CHUNKS * EACH;
      mmci_copy_async(to + l * STRIDE + e, from + (line + l) * ld + first + e);
    }
  } else {
#pragma unroll
    for (int i = 0; i < SIZE * DEPTH / THREADS; i++) {
      const int at = thread + i * THREADS, l = at / SIZE, e = at % SIZE;
      if (whole || (first + e < size && line + l < k))
        mmci_copy_async_bytes<BYTES>(to + l * STRIDE + e, from + (line + l) * ld + first + e);
      else
        to[l * STRIDE + e] = Ring::zero();
    }
  }
}

/* Says whether the thread's share of a step has an element that the fast loops do not know. */
template <typename Ring, int SIZE, int DEPTH, int STRIDE, int THREADS>
static __device__ __forceinline__ bool has_odd(const typename Ring::Element *lines) {
  typedef typename Ring::Element Element;
  enum { EACH = Piece<Element>::EACH, CHUNKS = SIZE / EACH };
  bool odd = false;
#pragma unroll
  for (int i = 0; i < CHUNKS * DEPTH / THREADS; i++) {
    const int at = (int)threadIdx.x + i * THREADS, l = at / CHUNKS, e = at % CHUNKS * EACH;
    const Piece<Element> piece = *reinterpret_cast<const Piece<Element> *>(lines + l * STRIDE + e);
#pragma unroll
    for (int p = 0; p < EACH; p++) odd |= Ring::is_odd(piece.of[p]);
  }
  return odd;
}

/* A tile of C and its operands. */
template <typename Element>
struct Place {
  const Element *a, *b;
  Element *c;
  int64_t row, col, k;
  bool a_by_pieces, b_by_pieces;
};

/* Eight rows of tiles are gone through together, so that what they read stays in the cache. */
template <typename T>
static __device__ __forceinline__ Place<typename T::Element> place_of(const Shape &s,
                                                                      typename T::Element *all_c,
                                                                      int64_t at) {
  typedef typename T::Element Element;
  enum { TOGETHER = 8 };
  const int64_t down = (s.m + T::HEIGHT - 1) / T::HEIGHT, across = (s.n + T::WIDTH - 1) / T::WIDTH;
  const int64_t i = at / (down * across), tile = at - i * down * across;
  const int64_t band = tile / (TOGETHER * across), within = tile - band * TOGETHER * across;
  const int64_t left = down - band * TOGETHER, high = left < TOGETHER ? left : (int64_t)TOGETHER;
  const PartOfK part(s, i);
  Place<Element> x;
  x.k = part.k;
  x.a = matrix_of<Element>(s.a, part.i) + part.first * a_step_of(s);
  x.b = matrix_of<Element>(s.b, part.i) + part.first * b_step_of(s);
  x.c = all_c + i * s.c_stride;
  x.row = (band * TOGETHER + within % high) * T::HEIGHT;
  x.col = within / high * T::WIDTH;
  x.a_by_pieces = ((uintptr_t)x.a | (uintptr_t)s.a.ld * sizeof(Element)) % PIECE_BYTES == 0;
  x.b_by_pieces = ((uintptr_t)x.b | (uintptr_t)s.b.ld * sizeof(Element)) % PIECE_BYTES == 0;
  return x;
}

template <typename T>
static __device__ __forceinline__ void load_step(typename T::Element *stages, const Shape &s,
                                                 const Place<typename T::Element> &x, int steps,
                                                 int step) {
  if (step < steps) {
    const int64_t line = (int64_t)step * T::DEPTH;
    typename T::Element *to = stages + step % T::STAGES * T::STAGE;
    load_lines<typename T::Ring, T::HEIGHT, T::DEPTH, T::A_STRIDE, T::THREADS>(
        to, x.a, s.a.ld, !s.a.trans, x.a_by_pieces, s.m, x.row, x.k, line);
    load_lines<typename T::Ring, T::WIDTH, T::DEPTH, T::B_STRIDE, T::THREADS>(
        to + T::DEPTH * T::A_STRIDE, x.b, s.b.ld, s.b.trans, x.b_by_pieces, s.n, x.col, x.k, line);
  }
  mmci_copy_async_commit();
}

/* Writes the thread's elements of a tile in which something is odd. */
template <typename T>
static __device__ __noinline__ void write_exactly(const Shape &s,
                                                  const Place<typename T::Element> x, int64_t row,
                                                  int64_t col) {
  typedef typename T::Element Element;
#pragma unroll 1
  for (int r = 0; r < T::OwnPart::ROWS; r++)
#pragma unroll 1
    for (int c = 0; c < T::OwnPart::COLS; c++) {
      const int64_t i = row + r / T::EACH * LANES_DOWN * T::EACH + r % T::EACH,
                    j = col + c / T::EACH * LANES_ACROSS * T::EACH + c % T::EACH;
      if (i >= s.m || j >= s.n) continue;
      const Line<Element> line = {s.a.trans ? x.a + i : x.a + i * s.a.ld,
                                  s.b.trans ? x.b + j * s.b.ld : x.b + j, a_step_of(s),
                                  b_step_of(s), x.k};
      Element *to = x.c + i * s.ldc + j;
      *to = exact(typename T::Ring(), line, s.accumulate, s.accumulate ? *to : Element());
    }
}

template <typename T>
static __device__ __forceinline__ void write_part(const typename T::OwnPart &part, const Shape &s,
                                                  const Place<typename T::Element> x, int64_t row,
                                                  int64_t col) {
  typedef typename T::Element Element;
  const bool by_pieces =
      ((uintptr_t)x.c | (uintptr_t)s.ldc * sizeof(Element)) % PIECE_BYTES == 0 && !s.accumulate;
#pragma unroll
  for (int r = 0; r < T::OwnPart::ROWS; r++) {
    const int64_t i = row + r / T::EACH * LANES_DOWN * T::EACH + r % T::EACH;
    if (i >= s.m) continue;
#pragma unroll
    for (int p = 0; p < T::OwnPart::COLS / T::EACH; p++) {
      const int64_t j = col + p * LANES_ACROSS * T::EACH;
      Element *to = x.c + i * s.ldc + j;
      if (by_pieces && j + T::EACH <= s.n) {
        Piece<Element> piece;
#pragma unroll
        for (int e = 0; e < T::EACH; e++)
          piece.of[e] = part.value(r, p * T::EACH + e, false, Element());
        *reinterpret_cast<Piece<Element> *>(to) = piece;
        continue;
      }
#pragma unroll
      for (int e = 0; e < T::EACH; e++)
        if (j + e < s.n)
          to[e] = part.value(r, p * T::EACH + e, s.accumulate, s.accumulate ? to[e] : Element());
    }
  }
}

/* The grid strides over the tiles of all products. */
template <typename T>
__global__ void __launch_bounds__(T::THREADS, T::BLOCKS)
    semiring_tiles(const __grid_constant__ Shape s, typename T::Element *all_c, int64_t tiles) {
  typedef typename T::Element Element;
  MMCI_DYNAMIC_SHARED(shared);
  Element *stages = reinterpret_cast<Element *>(shared);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int row = warp % T::WARPS_IN_COLUMN * T::PART_HEIGHT + lane / LANES_ACROSS * T::EACH;
  const int col = warp / T::WARPS_IN_COLUMN * T::PART_WIDTH + lane % LANES_ACROSS * T::EACH;
  const int steps = (int)((s.part + T::DEPTH - 1) / T::DEPTH);
#pragma unroll 1
  for (int64_t at = blockIdx.x; at < tiles; at += gridDim.x) {
    const Place<Element> x = place_of<T>(s, all_c, at);
    typename T::OwnPart part;
    bool odd = false;
    part.clear();
    for (int step = 0; step < T::STAGES - 1; step++) load_step<T>(stages, s, x, steps, step);
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
      mmci_copy_async_wait<T::STAGES - 2>();
      __syncthreads();
      load_step<T>(stages, s, x, steps, step + T::STAGES - 1);
      const Element *a = stages + step % T::STAGES * T::STAGE, *b = a + T::DEPTH * T::A_STRIDE;
      odd |= has_odd<typename T::Ring, T::HEIGHT, T::DEPTH, T::A_STRIDE, T::THREADS>(a);
      odd |= has_odd<typename T::Ring, T::WIDTH, T::DEPTH, T::B_STRIDE, T::THREADS>(b);
      part.template step<T::DEPTH, T::UNROLL, T::A_STRIDE, T::B_STRIDE>(a + row, b + col);
    }
    mmci_copy_async_wait<0>();
    /* Nobody loads another tile's steps before all have read these. */
    if (__syncthreads_or(odd))
      write_exactly<T>(s, x, x.row + row, x.col + col);
    else
      write_part<T>(part, s, x, x.row + row, x.col + col);
  }
}

/* ---- products of few elements ------------------------------------------------------------------
 */

/* Neighbours in a row of C, from operands in memory. Says whether something was odd. */
template <typename Ring, int COUNT>
struct Neighbours {
  typedef typename Ring::Element Element;
  enum { TOGETHER = COUNT == 1 ? 8 : 4 }; /* terms on their way */
  Element best[COUNT];

  template <typename Read>
  __device__ __forceinline__ bool find(const Element *a, int64_t a_step, int64_t k, Read read) {
    bool odd = false;
#pragma unroll
    for (int e = 0; e < COUNT; e++) best[e] = Ring::packed(Ring::zero());
#pragma unroll TOGETHER
    for (int64_t l = 0; l < k; l++) {
      const Element x = a[l * a_step];
      odd |= Ring::is_odd(x);
#pragma unroll
      for (int e = 0; e < COUNT; e++) {
        const Element y = read(l, e);
        odd |= Ring::is_odd(y);
        best[e] = Ring::of_two(best[e], Ring::sum(Ring::packed(x), Ring::packed(y)));
      }
    }
    return odd;
  }
  __device__ __forceinline__ Element value(int e, bool accumulate, Element before) const {
    return Ring::value(best[e], accumulate, before);
  }
};

template <typename Real, int COUNT>
struct Neighbours<LogSum<Real>, COUNT> {
  enum { TOGETHER = COUNT == 1 ? 8 : 2 };
  Real most[COUNT], sum[COUNT];

  template <typename Read>
  __device__ __forceinline__ bool find(const Real *a, int64_t a_step, int64_t k, Read read) {
    bool odd = false;
#pragma unroll
    for (int e = 0; e < COUNT; e++) {
      most[e] = LogSum<Real>::least();
      sum[e] = 0;
    }
#pragma unroll TOGETHER
    for (int64_t l = 0; l < k; l++) {
      const Real x = a[l * a_step];
      odd |= LogSum<Real>::is_odd(x);
#pragma unroll
      for (int e = 0; e < COUNT; e++) {
        const Real y = read(l, e);
        odd |= LogSum<Real>::is_odd(y);
        most[e] = Extreme<Real, false>::of_two(most[e], x + y);
      }
    }
#pragma unroll TOGETHER
    for (int64_t l = 0; l < k; l++)
#pragma unroll
      for (int e = 0; e < COUNT; e++)
        sum[e] += LogSum<Real>::exponential(a[l * a_step] + read(l, e) - most[e]);
    return odd;
  }
  __device__ __forceinline__ Real value(int e, bool accumulate, Real before) const {
    return LogSum<Real>::value(most[e], sum[e], accumulate, before);
  }
};

/* What lanes of a warp have found of one element becomes what is in all: those that are a multiple
 * of NEAREST apart. */
template <int NEAREST, typename Ring>
static __device__ __forceinline__ void join_lanes(Neighbours<Ring, 1> *x) {
#pragma unroll
  for (int apart = 16; apart >= NEAREST; apart /= 2)
    x->best[0] = Ring::of_two(x->best[0], __shfl_xor_sync(0xffffffffu, x->best[0], apart));
}
template <int NEAREST, typename Real>
static __device__ __forceinline__ void join_lanes(Neighbours<LogSum<Real>, 1> *x) {
  Real most = x->most[0];
#pragma unroll
  for (int apart = 16; apart >= NEAREST; apart /= 2)
    most = Extreme<Real, false>::of_two(most, __shfl_xor_sync(0xffffffffu, most, apart));
  Real sum = x->sum[0] * LogSum<Real>::exponential(x->most[0] - most);
#pragma unroll
  for (int apart = 16; apart >= NEAREST; apart /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  x->most[0] = most;
  x->sum[0] = sum;
}

/* Threads take so many neighbours of a row of C each, of one product after another; the grid
 * strides over them. */
template <typename Ring, int COUNT>
__global__ void __launch_bounds__(128)
    semiring_few(const __grid_constant__ Shape s, typename Ring::Element *all_c, int64_t runs) {
  typedef typename Ring::Element Element;
  const int64_t across = (s.n + COUNT - 1) / COUNT, each = s.m * across;
  const int64_t a_step = a_step_of(s), b_step = b_step_of(s), b_next = s.b.trans ? s.b.ld : 1;
  for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < runs;
       at += (int64_t)gridDim.x * blockDim.x) {
    const int64_t i = at / each, within = at - i * each, row = within / across,
                  col = (within - row * across) * COUNT;
    const PartOfK part(s, i);
    const Element *a = matrix_of<Element>(s.a, part.i) + part.first * a_step,
                  *b = matrix_of<Element>(s.b, part.i) + part.first * b_step;
    a += s.a.trans ? row : row * s.a.ld;
    b += col * b_next;
    Neighbours<Ring, COUNT> x;
    /* What is past the edge is the last element again. */
    const int64_t last = s.n - 1 - col;
    const bool odd = x.find(a, a_step, part.k, [&](int64_t l, int e) -> Element {
      return b[l * b_step + (e < last ? (int64_t)e : last) * b_next];
    });
    Element *c = all_c + i * s.c_stride + row * s.ldc + col;
#pragma unroll
    for (int e = 0; e < COUNT; e++) {
      if (e > last) continue;
      const Element before = s.accumulate ? c[e] : Element();
      if (odd) {
        const Line<Element> line = {a, b + e * b_next, a_step, b_step, part.k};
        c[e] = exact(Ring(), line, s.accumulate, before);
      } else {
        c[e] = x.value(e, s.accumulate, before);
      }
    }
  }
}

/* Adds up matrices of C's size, parts of them, to every element of C. A warp takes eight
 * neighbours, of which four lanes share the parts; the grid strides over them. */
template <typename Ring>
__global__ void __launch_bounds__(128)
    semiring_sums(const __grid_constant__ Shape s, const typename Ring::Element *parts,
                  typename Ring::Element *all_c) {
  typedef typename Ring::Element Element;
  enum { WARP = 32, TOGETHER = 8, SHARES = WARP / TOGETHER };
  const Element one = 0;
  const int64_t size = s.m * s.n, all = size * s.batch;
  const int share = (int)threadIdx.x % WARP / TOGETHER;
  const int64_t own = s.parts > share ? (s.parts - share + SHARES - 1) / SHARES : 0;
  for (int64_t first = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP * TOGETHER;
       first < all; first += (int64_t)gridDim.x * blockDim.x / SHARES) {
    const int64_t mine = first + (int)threadIdx.x % TOGETHER, at = mine < all ? mine : all - 1;
    const int64_t i = at / size, within = at - i * size, row = within / s.n;
    const Element *from = parts + i * s.parts * size + within;
    Neighbours<Ring, 1> x;
    const bool odd = x.find(from + share * size, SHARES * size, own,
                            [&](int64_t, int) -> Element { return one; });
    const bool any_odd = __any_sync(0xffffffffu, odd) != 0;
    if (!any_odd) join_lanes<TOGETHER>(&x);
    if (mine >= all || share > 0) continue;
    Element *c = all_c + i * s.c_stride + row * s.ldc + (within - row * s.n);
    const Element before = s.accumulate ? *c : Element();
    const Line<Element> line = {from, &one, size, 0, s.parts};
    *c = any_odd ? exact(Ring(), line, s.accumulate, before) : x.value(0, s.accumulate, before);
  }
}

/* A warp takes an element of C, whose terms are neighbours in memory; the grid strides over them.
 */
template <typename Ring>
__global__ void __launch_bounds__(128)
    semiring_dots(const __grid_constant__ Shape s, typename Ring::Element *all_c, int64_t dots) {
  typedef typename Ring::Element Element;
  enum { WARP = 32 };
  const int64_t each = s.m * s.n, a_step = a_step_of(s), b_step = b_step_of(s);
  const int lane = (int)threadIdx.x % WARP;
  for (int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP; at < dots;
       at += (int64_t)gridDim.x * blockDim.x / WARP) {
    const int64_t i = at / each, within = at - i * each, row = within / s.n,
                  col = within - row * s.n;
    const PartOfK part(s, i);
    const Element *a = matrix_of<Element>(s.a, part.i) + part.first * a_step +
                       (s.a.trans ? row : row * s.a.ld),
                  *b = matrix_of<Element>(s.b, part.i) + part.first * b_step +
                       (s.b.trans ? col * s.b.ld : col);
    const int64_t own = part.k > lane ? (part.k - lane + WARP - 1) / WARP : 0;
    Neighbours<Ring, 1> x;
    const bool odd = x.find(a + lane * a_step, WARP * a_step, own, [&](int64_t l, int) -> Element {
      return b[(l * WARP + lane) * b_step];
    });
    const bool any_odd = __any_sync(0xffffffffu, odd) != 0;
    if (!any_odd) join_lanes<1>(&x);
    if (lane > 0) continue;
    Element *c = all_c + i * s.c_stride + row * s.ldc + col;
    const Element before = s.accumulate ? *c : Element();
    const Line<Element> line = {a, b, a_step, b_step, part.k};
    *c = any_odd ? exact(Ring(), line, s.accumulate, before) : x.value(0, s.accumulate, before);
  }
}

}  // namespace semiring

#endif
