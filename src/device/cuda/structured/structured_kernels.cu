/* structured_kernels.cu: what products with structure need beside those of cuBLAS and cuSOLVER:
 * halves that are mirrored, diagonals, permutations and narrow bands. All of it is bound by memory.
 *
 * Layout  element (l, i) at l * ld + i
 * Launch  256 threads along lines, which stride over both; squares of 32 x 32 where a matrix is
 *         transposed, as in copy_tiles.cu */
extern "C" {
#include "base/status.h"
}
#include <math.h>

#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/elements.cuh"
#include "device/cuda/structured/structured_kernels.h"

namespace {

enum { THREADS = 256, TILE = 32, LINES = 8 };
const int64_t MOST_ACROSS = 1 << 20, MOST_DOWN = 32768;

template <typename Real>
__device__ __forceinline__ Real conjugated(Real x, bool) {
  return x;
}
template <typename Real>
__device__ __forceinline__ mmci_complex<Real> conjugated(mmci_complex<Real> x, bool conj) {
  return {x.re, conj ? -x.im : x.im};
}
template <typename Real>
__device__ __forceinline__ Real times(Real x, Real y) {
  return x * y;
}
template <typename Real>
__device__ __forceinline__ mmci_complex<Real> times(mmci_complex<Real> x, mmci_complex<Real> y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
template <typename Real>
__device__ __forceinline__ Real divided(Real x, Real y) {
  return x / y;
}
/* By Smith's method (1962), whose intermediates do not overflow. */
template <typename Real>
__device__ __forceinline__ mmci_complex<Real> divided(mmci_complex<Real> x, mmci_complex<Real> y) {
  const Real re = y.re < 0 ? -y.re : y.re, im = y.im < 0 ? -y.im : y.im;
  if (re >= im) {
    const Real ratio = y.im / y.re, whole = y.re + y.im * ratio;
    return {(x.re + x.im * ratio) / whole, (x.im - x.re * ratio) / whole};
  }
  const Real ratio = y.re / y.im, whole = y.re * ratio + y.im;
  return {(x.re * ratio + x.im) / whole, (x.im * ratio - x.re) / whole};
}
template <typename Real>
__device__ __forceinline__ bool is_zero(Real x) {
  return x == 0;
}
template <typename Real>
__device__ __forceinline__ bool is_zero(mmci_complex<Real> x) {
  return x.re == 0 && x.im == 0;
}
template <typename Real>
__device__ __forceinline__ void set(Real &x, int value) {
  x = (Real)value;
}
template <typename Real>
__device__ __forceinline__ void set(mmci_complex<Real> &x, int value) {
  x = {(Real)value, 0};
}

/* ---- squares --------------------------------------------------------------------------------- */

/* Writes to tile, transposed, what is at lines first_line.. and places first_place... */
template <typename T>
__device__ __forceinline__ void load_tile(T (&tile)[TILE][TILE + 1], const T *z, int64_t n,
                                          int64_t ld, int64_t first_line, int64_t first_place) {
  const int across = (int)threadIdx.x % TILE, down = (int)threadIdx.x / TILE;
  for (int d = 0; d < TILE; d += LINES) {
    const int64_t l = first_line + down + d, i = first_place + across;
    if (l < n && i < n) tile[across][down + d] = z[l * ld + i];
  }
}

/* Block number t has the pair of squares (a, b) and (b, a), a >= b. */
__device__ __forceinline__ void find_pair(int64_t t, int64_t *a, int64_t *b) {
  int64_t row = (int64_t)((sqrt(8.0 * (double)t + 1) - 1) / 2);
  while (row * (row + 1) / 2 > t) row--;
  while ((row + 1) * (row + 2) / 2 <= t) row++;
  *a = row;
  *b = t - row * (row + 1) / 2;
}

/* Writes the half of the lines a.. with places b.. to the other one; or exchanges them. */
template <typename T>
__global__ void __launch_bounds__(THREADS) turn_squares(T *z, int64_t n, int64_t ld, int64_t pairs,
                                                        bool from_late, bool conj, bool exchanges) {
  __shared__ T late[TILE][TILE + 1], early[TILE][TILE + 1];
  const int across = (int)threadIdx.x % TILE, down = (int)threadIdx.x / TILE;
  for (int64_t t = blockIdx.x; t < pairs; t += gridDim.x) {
    int64_t a, b;
    find_pair(t, &a, &b);
    const int64_t first = a * TILE, other = b * TILE;
    if (exchanges || from_late) load_tile(late, z, n, ld, first, other);
    if (exchanges || !from_late) load_tile(early, z, n, ld, other, first);
    __syncthreads();
    for (int d = 0; d < TILE; d += LINES) {
      /* The square of late lines, at lines first.., is left where the other one is; and back. */
      const int64_t l = other + down + d, i = first + across;
      if ((exchanges || from_late) && l < n && i < n && (l < i || (exchanges && l <= i)))
        z[l * ld + i] = conjugated(late[down + d][across], conj);
      const int64_t m = first + down + d, j = other + across;
      if ((exchanges || !from_late) && m < n && j < n && m > j)
        z[m * ld + j] = conjugated(early[down + d][across], conj);
    }
    __syncthreads();
  }
}

template <typename T>
mmc_status launch_squares(cudaStream_t stream, void *z, int64_t n, int64_t ld, bool from_late,
                          bool conj, bool exchanges, mmci_error *error) {
  const int64_t squares = (n + TILE - 1) / TILE, pairs = squares * (squares + 1) / 2;
  if (n == 0) return MMC_OK;
  const unsigned blocks = (unsigned)(pairs < MOST_ACROSS ? pairs : MOST_ACROSS);
  MMCI_CUDA_TRY(mmci_launch(turn_squares<T>, dim3(blocks), dim3(THREADS), 0, stream,
                            static_cast<T *>(z), n, ld, pairs, from_late, conj, exchanges));
  return MMC_OK;
}

/* ---- lines ----------------------------------------------------------------------------------- */

dim3 grid_of(int64_t lines, int64_t length) {
  const int64_t across = (length + THREADS - 1) / THREADS;
  return dim3((unsigned)(across < MOST_ACROSS ? across : MOST_ACROSS),
              (unsigned)(lines < MOST_DOWN ? lines : MOST_DOWN));
}

#define MMCI_FOR_ELEMENTS(l, lines, i, length)                                  \
  for (int64_t l = blockIdx.y; l < (lines); l += gridDim.y)                     \
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < (length); \
         i += (int64_t)gridDim.x * THREADS)

template <typename T>
__global__ void __launch_bounds__(THREADS)
    scale_lines(T *z, int64_t lines, int64_t length, int64_t ldz, const T *b, int64_t ldb,
                const T *d, int64_t step, bool conj, bool by_line, bool divides) {
  MMCI_FOR_ELEMENTS(l, lines, i, length) {
    const T factor = conjugated(d[(by_line ? l : i) * step], conj), x = b[l * ldb + i];
    z[l * ldz + i] = divides ? divided(x, factor) : times(x, factor);
  }
}

template <typename T>
__global__ void __launch_bounds__(THREADS) set_identity(T *z, int64_t n, int64_t ld) {
  MMCI_FOR_ELEMENTS(l, n, i, n) set(z[l * ld + i], l == i ? 1 : 0);
}

template <typename T>
__global__ void __launch_bounds__(THREADS) invert_elements(T *z, int64_t n, int64_t ld) {
  MMCI_FOR_ELEMENTS(l, (int64_t)1, i, n) {
    T one;
    set(one, 1);
    z[(l + i) * (ld + 1)] = divided(one, z[(l + i) * (ld + 1)]);
  }
}

/* One block; each thread finds its first zero, and the least of them is found by halves. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    find_first_zero(const T *d, int64_t count, int64_t step, int32_t *pivot) {
  __shared__ int64_t first[THREADS];
  const int thread = (int)threadIdx.x;
  int64_t mine = count;
  for (int64_t i = thread; i < count; i += THREADS) /* no element waits for the one before */
    if (is_zero(d[i * step]) && i < mine) mine = i;
  first[thread] = mine;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half && first[thread + half] < first[thread]) first[thread] = first[thread + half];
  }
  if (thread == 0) *pivot = first[0] < count ? (int32_t)(first[0] + 1) : 0;
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    find_elements(const T *p, int64_t n, int64_t ld, bool of_places, int64_t *index) {
  MMCI_FOR_ELEMENTS(l, n, i, n) {
    if (!is_zero(p[l * ld + i])) index[of_places ? i : l] = of_places ? l : i;
  }
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    gather_lines(T *z, int64_t lines, int64_t length, int64_t ldz, const T *b, int64_t ldb,
                 const int64_t *index, bool along) {
  MMCI_FOR_ELEMENTS(l, lines, i, length) {
    const int64_t from = index[along ? i : l];
    T zero;
    set(zero, 0);
    z[l * ldz + i] = from < 0 ? zero : along ? b[l * ldb + from] : b[from * ldb + i];
  }
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    multiply_band(T *z, int64_t lines, int64_t length, int64_t ldz, const T *b, int64_t ldb,
                  const T *m, int64_t n, int64_t row_step, int64_t column_step, bool conj,
                  int64_t below, int64_t above, bool along) {
  MMCI_FOR_ELEMENTS(l, lines, i, length) {
    const int64_t row = along ? i : l;
    const int64_t first = row > below ? row - below : 0,
                  last = row + above < n - 1 ? row + above : n - 1;
    T sum;
    set(sum, 0);
    for (int64_t j = first; j <= last; j++)
      mmci_add_product(sum, conjugated(m[row * row_step + j * column_step], conj),
                       along ? b[l * ldb + j] : b[j * ldb + i]);
    z[l * ldz + i] = sum;
  }
}

/* ---- launches -------------------------------------------------------------------------------- */

template <typename Element>
struct Launch {
  typedef typename Element::Stored T;
  static mmc_status scale(cudaStream_t stream, const mmci_device_lines *z, const void *b,
                          int64_t ldb, const mmci_diagonal *d, bool divides, mmci_error *error) {
    if (z->lines == 0 || z->length == 0) return MMC_OK;
    MMCI_CUDA_TRY(mmci_launch(scale_lines<T>, grid_of(z->lines, z->length), dim3(THREADS), 0,
                              stream, static_cast<T *>(z->data), z->lines, z->length, z->ld,
                              static_cast<const T *>(b), ldb, static_cast<const T *>(d->data),
                              d->step, d->conj, d->by_line, divides));
    return MMC_OK;
  }
  static mmc_status find_zero(cudaStream_t stream, const mmci_diagonal *d, int32_t *pivot,
                              mmci_error *error) {
    MMCI_CUDA_TRY(mmci_launch(find_first_zero<T>, dim3(1), dim3(THREADS), 0, stream,
                              static_cast<const T *>(d->data), d->count, d->step, pivot));
    return MMC_OK;
  }
  static mmc_status identity(cudaStream_t stream, void *z, int64_t n, int64_t ld,
                             mmci_error *error) {
    if (n == 0) return MMC_OK;
    MMCI_CUDA_TRY(mmci_launch(set_identity<T>, grid_of(n, n), dim3(THREADS), 0, stream,
                              static_cast<T *>(z), n, ld));
    return MMC_OK;
  }
  static mmc_status invert(cudaStream_t stream, void *z, int64_t n, int64_t ld, mmci_error *error) {
    if (n == 0) return MMC_OK;
    MMCI_CUDA_TRY(mmci_launch(invert_elements<T>, grid_of(1, n), dim3(THREADS), 0, stream,
                              static_cast<T *>(z), n, ld));
    return MMC_OK;
  }
  static mmc_status find(cudaStream_t stream, const void *p, int64_t n, int64_t ld, bool of_places,
                         int64_t *index, mmci_error *error) {
    if (n == 0) return MMC_OK;
    MMCI_CUDA_TRY(mmci_launch(find_elements<T>, grid_of(n, n), dim3(THREADS), 0, stream,
                              static_cast<const T *>(p), n, ld, of_places, index));
    return MMC_OK;
  }
  static mmc_status gather(cudaStream_t stream, const mmci_device_lines *z, const void *b,
                           int64_t ldb, const int64_t *index, bool along, mmci_error *error) {
    if (z->lines == 0 || z->length == 0) return MMC_OK;
    MMCI_CUDA_TRY(mmci_launch(gather_lines<T>, grid_of(z->lines, z->length), dim3(THREADS), 0,
                              stream, static_cast<T *>(z->data), z->lines, z->length, z->ld,
                              static_cast<const T *>(b), ldb, index, along));
    return MMC_OK;
  }
  static mmc_status band(cudaStream_t stream, const mmci_device_lines *z, const void *b,
                         int64_t ldb, const mmci_device_band *m, bool along, mmci_error *error) {
    if (z->lines == 0 || z->length == 0) return MMC_OK;
    MMCI_CUDA_TRY(mmci_launch(multiply_band<T>, grid_of(z->lines, z->length), dim3(THREADS), 0,
                              stream, static_cast<T *>(z->data), z->lines, z->length, z->ld,
                              static_cast<const T *>(b), ldb, static_cast<const T *>(m->data), m->n,
                              m->row_step, m->column_step, m->conj, m->band.below, m->band.above,
                              along));
    return MMC_OK;
  }
};

/* Returns what call makes of the element of a dtype that has products with structure. */
template <typename Call>
mmc_status for_element(mmc_dtype dtype, mmci_error *error, Call call) {
#define CALL(Element) call(Element())
  switch (dtype) {
    MMCI_FULL_ELEMENT_CASES(CALL)
    default:
      return mmci_fail(error, MMC_E_ARG, "dtype: expected f32, f64, c64 or c128, got %d",
                       (int)dtype);
  }
#undef CALL
}

}  // namespace

extern "C" mmc_status mmci_cuda_mirror(cudaStream_t stream, mmc_dtype dtype, void *z, int64_t n,
                                       int64_t ld, bool from_late, bool conj, mmci_error *error) {
  return for_element(dtype, error, [&](auto element) {
    return launch_squares<typename decltype(element)::Stored>(stream, z, n, ld, from_late, conj,
                                                              false, error);
  });
}

extern "C" mmc_status mmci_cuda_transpose_square(cudaStream_t stream, mmc_dtype dtype, void *z,
                                                 int64_t n, int64_t ld, mmci_error *error) {
  return for_element(dtype, error, [&](auto element) {
    return launch_squares<typename decltype(element)::Stored>(stream, z, n, ld, true, true, true,
                                                              error);
  });
}

extern "C" mmc_status mmci_cuda_scale(cudaStream_t stream, mmc_dtype dtype,
                                      const mmci_device_lines *z, const void *b, int64_t ldb,
                                      const mmci_diagonal *diagonal, bool divides,
                                      mmci_error *error) {
  return for_element(dtype, error, [&](auto element) {
    return Launch<decltype(element)>::scale(stream, z, b, ldb, diagonal, divides, error);
  });
}

extern "C" mmc_status mmci_cuda_find_zero(cudaStream_t stream, mmc_dtype dtype,
                                          const mmci_diagonal *diagonal, int32_t *pivot,
                                          mmci_error *error) {
  return for_element(dtype, error, [&](auto element) {
    return Launch<decltype(element)>::find_zero(stream, diagonal, pivot, error);
  });
}

extern "C" mmc_status mmci_cuda_identity(cudaStream_t stream, mmc_dtype dtype, void *z, int64_t n,
                                         int64_t ld, mmci_error *error) {
  return for_element(dtype, error, [&](auto element) {
    return Launch<decltype(element)>::identity(stream, z, n, ld, error);
  });
}

extern "C" mmc_status mmci_cuda_invert_diagonal(cudaStream_t stream, mmc_dtype dtype, void *z,
                                                int64_t n, int64_t ld, mmci_error *error) {
  return for_element(dtype, error, [&](auto element) {
    return Launch<decltype(element)>::invert(stream, z, n, ld, error);
  });
}

extern "C" mmc_status mmci_cuda_find_ones(cudaStream_t stream, mmc_dtype dtype, const void *p,
                                          int64_t n, int64_t ld, bool of_places, int64_t *index,
                                          mmci_error *error) {
  return for_element(dtype, error, [&](auto element) {
    return Launch<decltype(element)>::find(stream, p, n, ld, of_places, index, error);
  });
}

extern "C" mmc_status mmci_cuda_gather(cudaStream_t stream, mmc_dtype dtype,
                                       const mmci_device_lines *z, const void *b, int64_t ldb,
                                       const int64_t *index, bool along, mmci_error *error) {
  return for_element(dtype, error, [&](auto element) {
    return Launch<decltype(element)>::gather(stream, z, b, ldb, index, along, error);
  });
}

extern "C" mmc_status mmci_cuda_band(cudaStream_t stream, mmc_dtype dtype,
                                     const mmci_device_lines *z, const void *b, int64_t ldb,
                                     const mmci_device_band *m, bool along, mmci_error *error) {
  return for_element(dtype, error, [&](auto element) {
    return Launch<decltype(element)>::band(stream, z, b, ldb, m, along, error);
  });
}
