/* ordered_complex.cu: computes any complex product or batch as MMCI_REPRODUCIBLE says: the real and
 * the imaginary part of an element of C are each one chain of fused multiply-adds from the first k
 * to the last, two of every k, so that neither the tile nor the grid matters. What follows after
 * the last k is zero times zero, which changes no sum but the sign of zeros; results have +0 and
 * NaN without a payload.
 *
 * Layout any forms, sizes and leading dimensions in 64 bits; edges guarded; elements are aligned to
 *        their real type
 * Launch a 1-D grid of as many blocks as multiprocessors hold; a block goes on from tile to tile,
 *        and loads STAGES - 1 pieces of DEPTH terms ahead, those of its next tile among them
 * Traffic 8mkn flops; reads mk ceil(n/COLS) + kn ceil(m/ROWS) elements
 * Idea   c64: a lane has 4 x 8 elements of C, and a warp 32 x 32. c128: tensor cores, which add up
 *        as fused multiply-adds do, take a row of A as it lies, real parts beside imaginary ones,
 *        times a column of (re, -im), which makes a real part, or of (im, re) */
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

struct ComplexShape {
  int64_t m, k, n, lda, ldb, ldc, batch, a_stride, b_stride, c_stride, tiles, across;
  int a_word, b_word; /* bytes that may be copied at once */
  bool a_trans, a_conj, a_gathered, b_trans, b_conj, b_gathered, accumulate, wide_c;
};

/* ---- pieces of operands ------------------------------------------------------------------------
 */

/* Copies LINES x ACROSS elements, with zeros where there are none. Lines lie step apart, their
 * elements next apart; neighbouring threads read neighbouring elements. */
template <int LINES, int ACROSS, int PITCH, int THREADS, typename Real>
static __device__ __forceinline__ void fetch(const mmci_complex<Real> *from, int64_t step,
                                             int64_t next, int64_t lines, int64_t across, int word,
                                             mmci_complex<Real> *to) {
  constexpr int BYTES = 2 * sizeof(Real), REAL = sizeof(Real), PAIR = WORD_BYTES / BYTES;
  const int there_lines = lines < LINES ? (int)lines : LINES,
            there_across = across < ACROSS ? (int)across : ACROSS, thread = (int)threadIdx.x;
  if (word == WORD_BYTES && next == 1) {
#pragma unroll
    for (int e = 0; e < LINES * ACROSS / PAIR; e += THREADS) {
      const int x = e + thread, line = x / (ACROSS / PAIR), at = x % (ACROSS / PAIR) * PAIR;
      const bool there = line < there_lines && at < there_across;
      if (LINES * ACROSS / PAIR % THREADS == 0 || x < LINES * ACROSS / PAIR)
        mmci_copy_async_or_zero<WORD_BYTES>(to + line * PITCH + at,
                                            there ? from + line * step + at : from, there);
    }
    return;
  }
  const bool along = next == 1;
#pragma unroll 4
  for (int x = thread; x < LINES * ACROSS; x += THREADS) {
    const int line = along ? x / ACROSS : x % LINES, at = along ? x % ACROSS : x / LINES;
    const bool there = line < there_lines && at < there_across;
    const mmci_complex<Real> *element = there ? from + line * step + at * next : from;
    mmci_complex<Real> *place = to + line * PITCH + at;
    if (word >= BYTES) {
      mmci_copy_async_or_zero<BYTES>(place, element, there);
    } else {
      mmci_copy_async_or_zero<REAL>(&place->re, &element->re, there);
      mmci_copy_async_or_zero<REAL>(&place->im, &element->im, there);
    }
  }
}

/* ---- sums of a warp ----------------------------------------------------------------------------
 */

/* Turns the sign where it is told. */
static __device__ __forceinline__ float signed_by(float x, bool negate) {
  return negate ? -x : x;
}
static __device__ __forceinline__ double signed_by(double x, bool negate) {
  return negate ? -x : x;
}

/* TURNED says that C is the transposed result, whose left operand is b. */
template <bool TURNED>
static __device__ __forceinline__ void add_term(mmci_complex<float> &sum,
                                                const mmci_complex<float> &a,
                                                const mmci_complex<float> &b) {
  mmci_fuse_product(sum.re, a.re, b.re);
  mmci_fuse_product(sum.re, -a.im, b.im);
  mmci_fuse_product(sum.im, TURNED ? a.im : a.re, TURNED ? b.re : b.im);
  mmci_fuse_product(sum.im, TURNED ? a.re : a.im, TURNED ? b.im : b.re);
}

/* Sums of 32 x 32 elements of c64. Lane 4 r + c has rows r + 8 i and columns 2 c + 8 j + q. */
template <bool TURNED, bool CONJ>
struct Lanes {
  typedef float Real;
  enum { ROWS = 32, COLS = 32, HEIGHT = 4, WIDTH = 4, STEP = 4 };
  struct alignas(WORD_BYTES) Pair {
    mmci_complex<float> x[2];
  };
  mmci_complex<float> sum[HEIGHT][WIDTH][2];

  static __device__ __forceinline__ int row(int i) { return (int)threadIdx.x % WARP / 4 + 8 * i; }
  static __device__ __forceinline__ int col(int j) { return 2 * ((int)threadIdx.x % 4) + 8 * j; }

  template <int A_PITCH, int B_PITCH>
  __device__ __forceinline__ void add(const mmci_complex<float> *a, const mmci_complex<float> *b,
                                      bool a_conj, bool b_conj) {
#pragma unroll
    for (int d = 0; d < STEP; d += 2) {
      Pair left[HEIGHT];
#pragma unroll
      for (int i = 0; i < HEIGHT; i++) {
        left[i] = *reinterpret_cast<const Pair *>(a + row(i) * A_PITCH + d);
        if (CONJ)
          for (mmci_complex<float> &x : left[i].x) x.im = signed_by(x.im, a_conj);
      }
#pragma unroll
      for (int e = 0; e < 2; e++) {
        Pair right[WIDTH];
#pragma unroll
        for (int j = 0; j < WIDTH; j++) {
          right[j] = *reinterpret_cast<const Pair *>(b + (d + e) * B_PITCH + col(j));
          if (CONJ)
            for (mmci_complex<float> &x : right[j].x) x.im = signed_by(x.im, b_conj);
        }
#pragma unroll
        for (int i = 0; i < HEIGHT; i++)
#pragma unroll
          for (int j = 0; j < WIDTH; j++)
#pragma unroll
            for (int q = 0; q < 2; q++) add_term<TURNED>(sum[i][j][q], left[i].x[e], right[j].x[q]);
      }
    }
  }

  /* Calls do(row, col, two sums of neighbouring columns) for all. */
  template <typename Do>
  __device__ __forceinline__ void each(Do what) {
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
#pragma unroll
      for (int j = 0; j < WIDTH; j++) what(row(i), col(j), sum[i][j][0], sum[i][j][1]);
  }
};

/* Sums of 16 DOWN x 8 RIGHT elements of c128, as tensor_f64.cuh says: real and imaginary parts are
 * tiles of their own. */
template <bool TURNED, int DOWN, int RIGHT>
struct Tensors {
  typedef double Real;
  enum { ROWS = 16 * DOWN, COLS = 8 * RIGHT, STEP = 4 };
  double re[DOWN][RIGHT][4], im[DOWN][RIGHT][4];

  template <int A_PITCH, int B_PITCH>
  __device__ __forceinline__ void add(const mmci_complex<double> *a, const mmci_complex<double> *b,
                                      bool a_conj, bool b_conj) {
    const int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const bool odd = t % 2 != 0; /* the lane's terms are those of A's imaginary parts */
    const bool re_sign = odd && a_conj == b_conj,
               im_sign = TURNED ? (odd ? b_conj : a_conj) : (odd ? a_conj : b_conj);
    const double *reals = reinterpret_cast<const double *>(a) + g * (2 * A_PITCH);
    double left[DOWN][2][2], swapped[DOWN][2][2];
#pragma unroll
    for (int p = 0; p < DOWN; p++)
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
          const double *line = reals + (16 * p + 8 * r) * (2 * A_PITCH) + 4 * h;
          left[p][h][r] = line[t];
          swapped[p][h][r] = TURNED ? line[t ^ 1] : left[p][h][r];
        }
#pragma unroll
    for (int q = 0; q < RIGHT; q++) {
      double of_re[2], of_im[2];
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const double2 z =
            *reinterpret_cast<const double2 *>(b + (t / 2 + 2 * h) * B_PITCH + 8 * q + g);
        of_re[h] = signed_by(odd ? z.y : z.x, re_sign);
        of_im[h] = signed_by(odd == TURNED ? z.y : z.x, im_sign);
      }
#pragma unroll
      for (int p = 0; p < DOWN; p++) {
        mmci_multiply_f64(re[p][q], left[p], of_re);
        mmci_multiply_f64(im[p][q], swapped[p], of_im);
      }
    }
  }

  template <typename Do>
  __device__ __forceinline__ void each(Do what) {
    const int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int p = 0; p < DOWN; p++)
#pragma unroll
      for (int q = 0; q < RIGHT; q++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
          mmci_complex<double> x = {re[p][q][2 * r], im[p][q][2 * r]},
                               y = {re[p][q][2 * r + 1], im[p][q][2 * r + 1]};
          what(16 * p + g + 8 * r, 8 * q + 2 * t, x, y);
          re[p][q][2 * r] = x.re;
          im[p][q][2 * r] = x.im;
          re[p][q][2 * r + 1] = y.re;
          im[p][q][2 * r + 1] = y.im;
        }
  }
};

/* ---- products ----------------------------------------------------------------------------------
 */

/* A block of WARPS_DOWN x WARPS_ACROSS warps; pitches in elements, so that what is read at once
 * lies in different banks. */
template <typename TheSums, int WARPS_DOWN, int WARPS_ACROSS, int THE_DEPTH, int THE_STAGES,
          int THE_BLOCKS>
struct Block {
  typedef TheSums Sums;
  typedef typename Sums::Real Real;
  enum {
    DEPTH = THE_DEPTH,
    STAGES = THE_STAGES,
    BLOCKS = THE_BLOCKS,
    DOWN = WARPS_DOWN,
    RIGHT = WARPS_ACROSS,
    THREADS = WARP * WARPS_DOWN * WARPS_ACROSS,
    ROWS = Sums::ROWS * WARPS_DOWN,
    COLS = Sums::COLS * WARPS_ACROSS,
    A_PITCH = DEPTH + 2,
    B_PITCH = COLS + (sizeof(Real) == 8 ? 4 : 2),
    A_ELEMENTS = ROWS * A_PITCH,
    STAGE = A_ELEMENTS + DEPTH * B_PITCH,
    SHARED_BYTES = STAGES * STAGE * 2 * sizeof(Real)
  };
};

template <typename B>
__global__ void __launch_bounds__(B::THREADS, B::BLOCKS)
    ordered_complex(const __grid_constant__ ComplexShape s, const void *all_a, const void *all_b,
                    mmci_complex<typename B::Real> *all_c) {
  typedef typename B::Real Real;
  typedef mmci_complex<Real> Complex;
  MMCI_DYNAMIC_SHARED(memory);
  Complex *stages = reinterpret_cast<Complex *>(memory);
  const int warp = (int)threadIdx.x / WARP, top = warp / B::RIGHT * B::Sums::ROWS,
            left = warp % B::RIGHT * B::Sums::COLS;
  const int64_t all = s.tiles * s.batch;
  const int64_t a_step = s.a_trans ? 1 : s.lda, a_next = s.a_trans ? s.lda : 1;
  const int64_t b_step = s.b_trans ? 1 : s.ldb, b_next = s.b_trans ? s.ldb : 1;
  /* What is loaded next. */
  int64_t coming = blockIdx.x, depth = 0;
  auto fetch_piece = [&](int stage) {
    if (coming < all) {
      const mmci_spot spot = mmci_spot_of<B::ROWS, B::COLS>(s.tiles, s.across, coming);
      const Complex *a = mmci_matrix_of<Complex>(all_a, spot.i, s.a_stride, s.a_gathered),
                    *b = mmci_matrix_of<Complex>(all_b, spot.i, s.b_stride, s.b_gathered);
      Complex *to = stages + stage * B::STAGE;
      fetch<B::ROWS, B::DEPTH, B::A_PITCH, B::THREADS>(a + spot.row * a_step + depth * a_next,
                                                       a_step, a_next, s.m - spot.row, s.k - depth,
                                                       s.a_word, to);
      fetch<B::DEPTH, B::COLS, B::B_PITCH, B::THREADS>(b + depth * b_step + spot.col * b_next,
                                                       b_step, b_next, s.k - depth, s.n - spot.col,
                                                       s.b_word, to + B::A_ELEMENTS);
      depth += B::DEPTH;
      if (depth >= s.k) {
        depth = 0;
        coming += gridDim.x;
      }
    }
    mmci_copy_async_commit();
  };
  for (int stage = 0; stage < B::STAGES - 1; stage++) fetch_piece(stage);
  int stage = 0;
  for (int64_t at = blockIdx.x; at < all; at += gridDim.x) {
    const mmci_spot mine = mmci_spot_of<B::ROWS, B::COLS>(s.tiles, s.across, at);
    const int64_t rows = s.m - mine.row - top, cols = s.n - mine.col - left;
    Complex *c = all_c + mine.i * s.c_stride + (mine.row + top) * s.ldc + mine.col + left;
    typename B::Sums sums = {};
    if (s.accumulate)
      sums.each([&](int row, int col, Complex &x, Complex &y) {
        if (row < rows && col < cols) x = c[row * s.ldc + col];
        if (row < rows && col + 1 < cols) y = c[row * s.ldc + col + 1];
      });
    int64_t rest = s.k;
    do {
      mmci_copy_async_wait<B::STAGES - 2>();
      __syncthreads();
      fetch_piece(stage == 0 ? B::STAGES - 1 : stage - 1);
      if (rows > 0 && cols > 0) {
        const Complex *a = stages + stage * B::STAGE + top * B::A_PITCH,
                      *b = stages + stage * B::STAGE + B::A_ELEMENTS + left;
        const int terms = rest < B::DEPTH ? (int)rest : B::DEPTH;
#pragma unroll 1
        for (int d = 0; d < terms; d += B::Sums::STEP)
          sums.template add<B::A_PITCH, B::B_PITCH>(a + d, b + d * B::B_PITCH, s.a_conj, s.b_conj);
      }
      stage = stage + 1 < B::STAGES ? stage + 1 : 0;
      rest -= B::DEPTH;
    } while (rest > 0);
    struct alignas(WORD_BYTES) Pair {
      Complex x[2];
    };
    sums.each([&](int row, int col, Complex &x, Complex &y) {
      if (row >= rows || col >= cols) return;
      Complex *to = c + row * s.ldc + col;
      if (s.wide_c && col + 1 < cols) {
        *reinterpret_cast<Pair *>(to) = {{mmci_settled(x), mmci_settled(y)}};
      } else {
        to[0] = mmci_settled(x);
        if (col + 1 < cols) to[1] = mmci_settled(y);
      }
    });
  }
}

/* ---- launches ----------------------------------------------------------------------------------
 */

template <typename B>
static mmc_status launch(cudaStream_t stream, ComplexShape s, int multiprocessors, const void *a,
                         const void *b, void *c, mmci_error *error) {
  constexpr int SHARED_MOST = 48 << 10;
  static_assert((int)B::SHARED_BYTES <= SHARED_MOST, "more is to be asked for");
  s.across = (s.n + B::COLS - 1) / B::COLS;
  s.tiles = (s.m + B::ROWS - 1) / B::ROWS * s.across;
  const int64_t all = s.tiles * s.batch, most = (int64_t)multiprocessors * B::BLOCKS;
  if (all == 0) return MMC_OK;
  MMCI_CUDA_TRY(mmci_launch(ordered_complex<B>, dim3((unsigned)(all < most ? all : most)),
                            dim3(B::THREADS), (size_t)B::SHARED_BYTES, stream, s, a, b,
                            static_cast<mmci_complex<typename B::Real> *>(c)));
  return MMC_OK;
}

template <bool TURNED, bool CONJ>
struct C64 {
  typedef Block<Lanes<TURNED, CONJ>, 2, 2, 16, 2, MMCI_ORDERED_C64_LARGE_BLOCKS> Large;
  typedef Block<Lanes<TURNED, CONJ>, 1, 1, 16, 2, MMCI_ORDERED_C64_SMALL_BLOCKS> Small;
  static_assert((int)Large::ROWS == MMCI_ORDERED_C64_LARGE &&
                    (int)Large::COLS == MMCI_ORDERED_C64_LARGE &&
                    (int)Small::ROWS == MMCI_ORDERED_C64_SMALL &&
                    (int)Small::COLS == MMCI_ORDERED_C64_SMALL,
                "tiles are those that are chosen from");
};
template <bool TURNED>
struct C128 {
  typedef Block<Tensors<TURNED, 2, 2>, 1, 2, 8, 2, MMCI_ORDERED_C128_LARGE_BLOCKS> Large;
  typedef Block<Tensors<TURNED, 1, 2>, 1, 1, 8, 3, MMCI_ORDERED_C128_SMALL_BLOCKS> Small;
  static_assert((int)Large::ROWS == MMCI_ORDERED_C128_LARGE &&
                    (int)Large::COLS == MMCI_ORDERED_C128_LARGE &&
                    (int)Small::ROWS == MMCI_ORDERED_C128_SMALL &&
                    (int)Small::COLS == MMCI_ORDERED_C128_SMALL,
                "tiles are those that are chosen from");
};

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

extern "C" mmc_status mmci_cuda_ordered_complex(cudaStream_t stream, const mmci_gemm *gemm,
                                                const void *a, const void *b, void *c,
                                                mmci_error *error) {
  const mmci_form &x = gemm->a, &y = gemm->b;
  const int real_bytes = gemm->dtype == MMC_C64 ? 4 : 8;
  int device = 0, multiprocessors = 0;
  MMCI_CUDA_TRY(cudaGetDevice(&device));
  MMCI_CUDA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  ComplexShape s = {};
  s.m = gemm->m;
  s.k = gemm->k;
  s.n = gemm->n;
  s.lda = x.ld;
  s.ldb = y.ld;
  s.ldc = gemm->ldc;
  s.batch = gemm->batch > 0 ? gemm->batch : 1;
  s.a_stride = x.stride;
  s.b_stride = y.stride;
  s.c_stride = gemm->c_stride;
  s.a_word = word_of(x, x.trans ? gemm->m : gemm->k, s.batch, a, real_bytes);
  s.b_word = word_of(y, y.trans ? gemm->k : gemm->n, s.batch, b, real_bytes);
  s.a_trans = x.trans;
  s.a_conj = x.conj;
  s.a_gathered = x.gathered;
  s.b_trans = y.trans;
  s.b_conj = y.conj;
  s.b_gathered = y.gathered;
  s.accumulate = gemm->accumulate;
  const bool even = real_bytes == 8 || (s.ldc | (s.batch > 1 ? s.c_stride : 0)) % 2 == 0;
  s.wide_c = even && (uintptr_t)c % WORD_BYTES == 0;
  const bool large = mmci_ordered_complex_is_large(gemm, multiprocessors);
  const auto launch_either = [&](auto tiles) {
    typedef decltype(tiles) Tiles;
    return large ? launch<typename Tiles::Large>(stream, s, multiprocessors, a, b, c, error)
                 : launch<typename Tiles::Small>(stream, s, multiprocessors, a, b, c, error);
  };
  if (gemm->dtype == MMC_C128)
    return gemm->turned ? launch_either(C128<true>{}) : launch_either(C128<false>{});
  if (gemm->turned) return launch_either(C64<true, true>{});
  return x.conj || y.conj ? launch_either(C64<false, true>{}) : launch_either(C64<false, false>{});
}
