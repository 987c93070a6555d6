/* modular.cu: computes any product or batch of integers modulo a number P, exactly, or as it is,
 * where it says whether an element exceeds its dtype.
 *
 * Layout any forms, sizes and leading dimensions in 64 bits; edges guarded
 * Launch a 1-D grid that strides over tiles of 16 x 16 of C, a thread an element
 * Traffic mkn multiplications of 64 bits; reads mk ceil(n/16) + kn ceil(m/16) elements
 * Idea elements become residues, 0 to P - 1, on their way to shared memory, or words of 64 bits;
 * their products are added up in 192 bits and reduced once. Where a bound says that nothing
 * exceeds, the product is there already. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"

enum { TILE = 16, DEPTH = 16, THREADS = TILE * TILE };
static const int64_t MOST_BLOCKS = 1 << 20;

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

struct Operand {
  const void *data;
  int64_t ld, stride;
  bool trans, gathered;
};

struct Modular {
  Operand a, b;
  void *c;
  int64_t m, k, n, ldc, c_stride, batch;
  uint64_t modulus; /* 0: what exceeds is told */
  bool accumulate;
  const uint64_t *most; /* the greatest magnitudes of A and B, or NULL */
  int32_t *exceeds;
};

/* Returns the residue of an element, from 0. */
template <class Element>
static __device__ __forceinline__ uint64_t residue(Element x, uint64_t modulus) {
  if (Element(-1) > Element(0)) return (uint64_t)x % modulus;
  const int64_t r = (int64_t)x % (int64_t)modulus;
  return r < 0 ? (uint64_t)r + modulus : (uint64_t)r;
}

template <class Element>
static __device__ __forceinline__ constexpr bool is_signed() {
  return Element(-1) < Element(0);
}

/* Returns the greatest number of the type. */
template <class Element>
static __device__ __forceinline__ uint64_t greatest() {
  return ~(uint64_t)0 >> (64 - 8 * sizeof(Element) + is_signed<Element>());
}

/* A sum of products of two numbers, modulo 2^192. */
struct Wide {
  u128 low;
  uint64_t high;
  /* Adds a number of 128 bits, with its sign. */
  __device__ __forceinline__ void add_signed(i128 x) {
    low += (u128)x;
    high += (uint64_t)(low < (u128)x) - (uint64_t)(x < 0);
  }
  template <class Element>
  __device__ __forceinline__ void add_exact(uint64_t x, uint64_t y) {
    if (is_signed<Element>())
      add_signed((i128)(int64_t)x * (int64_t)y);
    else
      add(x, y);
  }
  template <class Element>
  __device__ __forceinline__ bool fits() const {
    const uint64_t middle = (uint64_t)(low >> 64), word = (uint64_t)low;
    if (!is_signed<Element>()) return (high | middle) == 0 && word <= greatest<Element>();
    const uint64_t sign = (uint64_t)0 - (word >> 63);
    return high == sign && middle == sign && (word ^ sign) <= greatest<Element>();
  }
  __device__ __forceinline__ void add(uint64_t x, uint64_t y) {
    const u128 product = (u128)x * y;
    low += product;
    high += low < product;
  }
  __device__ __forceinline__ uint64_t modulo(uint64_t p) const {
    const u128 upper = (u128)(high % p) << 64 | (uint64_t)(low >> 64);
    return (uint64_t)(((u128)(uint64_t)(upper % p) << 64 | (uint64_t)low) % p);
  }
};

template <class Element>
static __device__ __forceinline__ const Element *matrix(const Operand &x, int64_t i) {
  return x.gathered ? static_cast<const Element *const *>(x.data)[i]
                    : static_cast<const Element *>(x.data) + i * x.stride;
}

/* Returns the residue of element (row, col) of rows x cols, or the element where there is no
 * modulus, 0 outside. */
template <class Element>
static __device__ __forceinline__ uint64_t read(const Operand &x, const Element *from, int64_t row,
                                                int64_t col, int64_t rows, int64_t cols,
                                                uint64_t modulus) {
  if (row >= rows || col >= cols) return 0;
  const Element element = from[x.trans ? col * x.ld + row : row * x.ld + col];
  return modulus != 0 ? residue(element, modulus) : (uint64_t)element;
}

/* Says whether no sum of k products of such magnitudes exceeds the type. */
template <class Element>
static __device__ __forceinline__ bool surely_fits(const uint64_t *most, int64_t k) {
  const u128 product = (u128)most[0] * most[1];
  return product <= greatest<Element>() / (uint64_t)k;
}

template <class Element, bool CHECKED>
__global__ void __launch_bounds__(THREADS) modular_product(Modular s) {
  if (CHECKED && s.most != nullptr && surely_fits<Element>(s.most, s.k)) return;
  __shared__ uint64_t a_tile[TILE][DEPTH + 1], b_tile[DEPTH][TILE + 1];
  const int fast = (int)threadIdx.x % TILE, slow = (int)threadIdx.x / TILE;
  const int64_t across = (s.n + TILE - 1) / TILE, tiles = (s.m + TILE - 1) / TILE * across;
  for (int64_t at = blockIdx.x; at < tiles * s.batch; at += gridDim.x) {
    const int64_t i = at / tiles, first_row = at % tiles / across * TILE,
                  first_col = at % tiles % across * TILE;
    const Element *a = matrix<Element>(s.a, i), *b = matrix<Element>(s.b, i);
    Wide sum = {0, 0};
    for (int64_t depth = 0; depth < s.k; depth += DEPTH) {
      /* Neighbouring threads read neighbouring elements. */
      const int row = s.a.trans ? fast : slow, left = s.a.trans ? slow : fast;
      const int right = s.b.trans ? fast : slow, col = s.b.trans ? slow : fast;
      a_tile[row][left] = read(s.a, a, first_row + row, depth + left, s.m, s.k, s.modulus);
      b_tile[right][col] = read(s.b, b, depth + right, first_col + col, s.k, s.n, s.modulus);
      __syncthreads();
#pragma unroll
      for (int d = 0; d < DEPTH; d++) {
        if (CHECKED)
          sum.add_exact<Element>(a_tile[slow][d], b_tile[d][fast]);
        else
          sum.add(a_tile[slow][d], b_tile[d][fast]);
      }
      __syncthreads();
    }
    const int64_t r = first_row + slow, c = first_col + fast;
    if (r >= s.m || c >= s.n) continue;
    Element *to = static_cast<Element *>(s.c) + i * s.c_stride + r * s.ldc + c;
    if (CHECKED) {
      if (s.accumulate) sum.add_exact<Element>((uint64_t)*to, 1);
      if (!sum.fits<Element>()) *s.exceeds = 1;
      *to = (Element)(uint64_t)sum.low;
    } else {
      if (s.accumulate) sum.add(residue(*to, s.modulus), 1);
      *to = (Element)sum.modulo(s.modulus);
    }
  }
}

template <class Element>
static mmc_status launch_modular(cudaStream_t stream, const Modular &s, mmci_error *error) {
  const int64_t tiles = (s.m + TILE - 1) / TILE * ((s.n + TILE - 1) / TILE) * s.batch;
  if (tiles == 0) return MMC_OK;
  const dim3 grid((unsigned)(tiles < MOST_BLOCKS ? tiles : MOST_BLOCKS));
  if (s.modulus == 0)
    MMCI_CUDA_TRY(mmci_launch(modular_product<Element, true>, grid, dim3(THREADS), 0, stream, s));
  else
    MMCI_CUDA_TRY(mmci_launch(modular_product<Element, false>, grid, dim3(THREADS), 0, stream, s));
  return MMC_OK;
}

static mmc_status launch_any(cudaStream_t stream, const mmci_gemm *gemm, const uint64_t *most,
                             int32_t *exceeds, const void *a, const void *b, void *c,
                             mmci_error *error) {
  const mmci_form &x = gemm->a, &y = gemm->b;
  const Modular s = {{a, x.ld, x.stride, x.trans, x.gathered},
                     {b, y.ld, y.stride, y.trans, y.gathered},
                     c,
                     gemm->m,
                     gemm->k,
                     gemm->n,
                     gemm->ldc,
                     gemm->c_stride,
                     gemm->batch > 0 ? gemm->batch : 1,
                     gemm->rule.modulus,
                     gemm->accumulate,
                     most,
                     exceeds};
  switch (gemm->dtype) {
    case MMC_I8:
      return launch_modular<int8_t>(stream, s, error);
    case MMC_U8:
      return launch_modular<uint8_t>(stream, s, error);
    case MMC_I16:
      return launch_modular<int16_t>(stream, s, error);
    case MMC_U16:
      return launch_modular<uint16_t>(stream, s, error);
    case MMC_I32:
      return launch_modular<int32_t>(stream, s, error);
    case MMC_U32:
      return launch_modular<uint32_t>(stream, s, error);
    case MMC_I64:
      return launch_modular<int64_t>(stream, s, error);
    case MMC_U64:
      return launch_modular<uint64_t>(stream, s, error);
    default:
      break;
  }
  return mmci_fail(error, MMC_E_ARG, "dtype: expected integers, got %d", (int)gemm->dtype);
}

extern "C" mmc_status mmci_cuda_modular_product(cudaStream_t stream, const mmci_gemm *gemm,
                                                const void *a, const void *b, void *c,
                                                mmci_error *error) {
  return launch_any(stream, gemm, nullptr, nullptr, a, b, c, error);
}

extern "C" mmc_status mmci_cuda_checked_product(cudaStream_t stream, const mmci_gemm *gemm,
                                                const uint64_t *most, int32_t *exceeds,
                                                const void *a, const void *b, void *c,
                                                mmci_error *error) {
  return launch_any(stream, gemm, most, exceeds, a, b, c, error);
}
