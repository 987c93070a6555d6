/* strands.cuh: matrices of up to 16 rows in the registers of a warp, as tensor cores of doubles
 * take them, for kernels that follow factors one after the other. */
#ifndef MMCI_CUDA_STRANDS_CUH
#define MMCI_CUDA_STRANDS_CUH

#include "device/cuda/launch.cuh"

#include "device/cuda/scan/scan_kernels.h"
#include "device/cuda/tensor_f64.cuh"

namespace {

enum { PIECE_BYTES = 16, WARP = 32 };

/* Elements that are moved at once. */
template <typename Real, int COUNT>
struct alignas(COUNT * sizeof(Real) < PIECE_BYTES ? COUNT * sizeof(Real)
                                                  : (size_t)PIECE_BYTES) Some {
  Real of[COUNT];
};

/* How matrices of a stack are moved: as they lie, by neighbours where these begin at multiples of
 * so many bytes, or by elements; what is beyond n is 0. */
struct Way {
  int64_t ld;
  int n;
  bool turned, by_two, by_four;
};

template <typename Real>
__device__ __forceinline__ Way way_of(const mmci_cuda_stack &x, int64_t n) {
  const uintptr_t bits = (uintptr_t)x.data / sizeof(Real) | (uintptr_t)x.ld | (uintptr_t)x.step |
                         (uintptr_t)x.stride | (uintptr_t)n;
  return {x.ld, (int)n, x.turned, bits % 2 == 0, bits % 4 == 0};
}

/* An f32 as a double, times 2^-896: its bits stand behind one another in the same order, and so
 * no converter is needed, of which a multiprocessor has few. Of Inf and NaN it is none. */
__device__ __forceinline__ double widened(float x) {
  const unsigned bits = (unsigned)__float_as_int(x);
  const unsigned high = (bits & 0x80000000u) | (bits >> 3 & 0x0fffffffu), low = bits << 29;
  return __longlong_as_double((long long)((unsigned long long)high << 32 | low));
}

/* Matrices of up to 16 rows. Lane 4 g + t keeps of a state, in rows g and g + 8, columns 4 t to
 * 4 t + 3, and of a factor, in rows 4 t to 4 t + 3, columns 2 g and 2 g + 1. */
template <typename Real_>
struct Sixteen {
  typedef Real_ Real;
  enum { N = 16, SIZE = N * N };
  struct State {
    double of[2][4]; /* a row's columns 0, 2, 1, 3 */
  };
  struct Factor {
    Real of[4][2];
  };

  static __device__ __forceinline__ int g() { return (int)threadIdx.x % WARP / 4; }
  static __device__ __forceinline__ int t() { return (int)threadIdx.x % 4; }

  static __device__ __forceinline__ void load(const Way &way, const Real *from, Factor *out) {
    const int row = 4 * t(), col = 2 * g();
    if (!way.turned && way.by_two) {
#pragma unroll
      for (int r = 0; r < 4; r++) {
        Some<Real, 2> x = {};
        if (row + r < way.n && col < way.n)
          x = *reinterpret_cast<const Some<Real, 2> *>(from + (row + r) * way.ld + col);
        out->of[r][0] = x.of[0];
        out->of[r][1] = x.of[1];
      }
      return;
    }
    if (way.turned && way.by_four) {
#pragma unroll
      for (int c = 0; c < 2; c++) {
        Some<Real, 4> x = {};
        if (row < way.n && col + c < way.n)
          x = *reinterpret_cast<const Some<Real, 4> *>(from + (col + c) * way.ld + row);
#pragma unroll
        for (int r = 0; r < 4; r++) out->of[r][c] = x.of[r];
      }
      return;
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
      for (int c = 0; c < 2; c++) {
        const int i = row + r, j = col + c;
        out->of[r][c] =
            i < way.n && j < way.n ? from[way.turned ? j * way.ld + i : i * way.ld + j] : Real(0);
      }
  }
  static __device__ __forceinline__ void load_state(const Way &way, const Real *from, State *out) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int i = g() + 8 * h, col = 4 * t();
      Some<Real, 4> x = {};
      if (!way.turned && way.by_four) {
        if (i < way.n && col < way.n)
          x = *reinterpret_cast<const Some<Real, 4> *>(from + i * way.ld + col);
      } else {
#pragma unroll
        for (int c = 0; c < 4; c++)
          if (i < way.n && col + c < way.n)
            x.of[c] = from[way.turned ? (col + c) * way.ld + i : i * way.ld + col + c];
      }
#pragma unroll
      for (int c = 0; c < 4; c++) out->of[h][c % 2 * 2 + c / 2] = (double)x.of[c];
    }
  }
  static __device__ __forceinline__ void store(const Way &way, const State &state, Real *to) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int i = g() + 8 * h, col = 4 * t();
      Some<Real, 4> x;
#pragma unroll
      for (int c = 0; c < 4; c++) x.of[c] = (Real)state.of[h][c % 2 * 2 + c / 2];
      if (!way.turned && way.by_four) {
        if (i < way.n && col < way.n) *reinterpret_cast<Some<Real, 4> *>(to + i * way.ld + col) = x;
        continue;
      }
#pragma unroll
      for (int c = 0; c < 4; c++)
        if (i < way.n && col + c < way.n)
          to[way.turned ? (col + c) * way.ld + i : i * way.ld + col + c] = x.of[c];
    }
  }

  /* Stores the states of matrices of SIDE rows without gaps, at multiples of 16 bytes, by whole
   * pieces: left to itself, the compiler may store these element by element. */
  template <int SIDE>
  static __device__ __forceinline__ void store_whole(const State &state, Real *to) {
    enum { PIECE = PIECE_BYTES / sizeof(Real), WORDS = PIECE_BYTES / sizeof(uint32_t) };
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int i = g() + 8 * h, col = 4 * t();
      if (i >= SIDE || col >= SIDE) continue;
#pragma unroll
      for (int c = 0; c < 4; c += PIECE) {
        union {
          Real of[PIECE];
          uint32_t words[WORDS];
        } x;
#pragma unroll
        for (int e = 0; e < PIECE; e++) x.of[e] = (Real)state.of[h][(c + e) % 2 * 2 + (c + e) / 2];
        mmci_store(to + i * SIDE + col + c, x.words);
      }
    }
  }

  /* state = state M, of n rows. Of four lines of M that a lane has, the first of the tensor core's
   * eight are the even ones. What is beyond n stays 0: an infinite element times 0 is NaN there,
   * which must not come back. */
  static __device__ __forceinline__ void multiply(State *state, const double (&m)[4][2], int n) {
    multiply(state, m, n, [](int) {});
  }
  /* Multiplies too, and calls between(0) to between(3) while tensor cores are at work. */
  template <typename Between>
  static __device__ __forceinline__ void multiply(State *state, const double (&m)[4][2], int n,
                                                  const Between &between) {
    double part[2][4] = {};
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const double a[2][2] = {{state->of[0][2 * k], state->of[1][2 * k]},
                                {state->of[0][2 * k + 1], state->of[1][2 * k + 1]}};
        const double b[2] = {m[k][half], m[2 + k][half]};
        mmci_multiply_f64(part[half], a, b);
        between(2 * k + half);
      }
    State sum;
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int e = 0; e < 4; e++) sum.of[e / 2][2 * half + e % 2] = part[half][e];
    *state = sum;
    if (n == N) return;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int c = 0; c < 4; c++)
        if (g() + 8 * h >= n || 4 * t() + c >= n) state->of[h][c % 2 * 2 + c / 2] = 0;
  }
  static __device__ __forceinline__ void multiply(State *state, const Factor &factor, int n) {
    double m[4][2];
    if (sizeof(Real) == sizeof(float)) {
      float none = 0;
#pragma unroll
      for (int e = 0; e < 8; e++) none = fmaf((float)factor.of[e / 2][e % 2], 0.0f, none);
      if (__all_sync(0xffffffffu, none == 0.0f)) {
#pragma unroll
        for (int e = 0; e < 8; e++) m[e / 2][e % 2] = widened((float)factor.of[e / 2][e % 2]);
        multiply(state, m, n);
#pragma unroll
        for (int e = 0; e < 8; e++) state->of[e / 4][e % 4] *= 0x1p+896;
        return;
      }
    }
#pragma unroll
    for (int e = 0; e < 8; e++) m[e / 2][e % 2] = (double)factor.of[e / 2][e % 2];
    multiply(state, m, n);
  }

  /* Matrices of doubles, with pairs of columns in another order in every four rows, so that lanes
   * meet in few banks. */
  static __device__ __forceinline__ int place(int row, int pair) {
    return row * N + (pair ^ row / 4 * 2) % 8 * 2;
  }
  static __device__ __forceinline__ void put(double *slot, const State &state) {
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int p = 0; p < 2; p++)
        *reinterpret_cast<Some<double, 2> *>(slot + place(g() + 8 * h, 2 * t() + p)) = {
            state.of[h][p], state.of[h][2 + p]};
  }
  static __device__ __forceinline__ void get(const double *slot, State *state) {
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int p = 0; p < 2; p++) {
        const auto x =
            *reinterpret_cast<const Some<double, 2> *>(slot + place(g() + 8 * h, 2 * t() + p));
        state->of[h][p] = x.of[0];
        state->of[h][2 + p] = x.of[1];
      }
  }
  static __device__ __forceinline__ void multiply_slot(State *state, const double *slot, int n) {
    double m[4][2];
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const auto x = *reinterpret_cast<const Some<double, 2> *>(slot + place(4 * t() + r, g()));
      m[r][0] = x.of[0];
      m[r][1] = x.of[1];
    }
    multiply(state, m, n);
  }
};

}  // namespace

#endif
