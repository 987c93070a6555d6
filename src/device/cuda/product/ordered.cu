/* ordered.cu: computes any product or batch as MMCI_REPRODUCIBLE says: each element of C is one
 * chain of fused multiply-adds from the first k to the last, in one thread, so that neither the
 * tile nor the grid matters. What follows after the last k is +0 times +0, which changes no sum but
 * the sign of zeros; results have +0 and NaN without a payload. Complex products go on to
 * ordered_complex.cu.
 *
 * Layout any forms, sizes and leading dimensions in 64 bits; edges guarded
 * Launch a 1-D grid that strides over the tiles, 256 threads, PART x PART elements of C each, 16
 *        bytes of neighbours in a row of theirs; the next DEPTH terms are loaded while others are
 *        multiplied
 * Traffic 2mkn flops; reads mk ceil(n/TILE) + kn ceil(m/TILE) elements */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/elements.cuh"
#include "device/cuda/product/ordered_tiles.cuh"

enum { SIDE = 16, THREADS = SIDE * SIDE, QUAD = 4 };
static const int64_t MOST_BLOCKS = 1 << 20;

struct OrderedShape {
  int64_t m, k, n, lda, ldb, ldc, batch, a_stride, b_stride, c_stride;
  bool a_trans, a_gathered, b_trans, b_gathered, accumulate;
  mmci_spans spans; /* batch counts them all */
};

/* ---- sums --------------------------------------------------------------------------------------
 */

/* Rounds a sum; a NaN of 16 bits is positive and quiet, too, whatever the conversion makes of it.
 */
template <typename Element>
static __device__ __forceinline__ typename Element::Stored rounded(typename Element::Sum sum) {
  return Element::write(mmci_settled(sum));
}
template <>
__device__ __forceinline__ uint16_t rounded<mmci_f16_element>(float sum) {
  return sum == sum ? mmci_f16_element::write(sum + 0.0f) : (uint16_t)0x7e00;
}
template <>
__device__ __forceinline__ uint16_t rounded<mmci_bf16_element>(float sum) {
  return sum == sum ? mmci_bf16_element::write(sum + 0.0f) : (uint16_t)0x7fc0;
}

/* ---- tiles -------------------------------------------------------------------------------------
 */

/* Element e of the EACH that a thread brings into a tile: line (of C's rows or columns) and depth,
 * where neighbouring threads read neighbouring elements. */
template <int TILE, int DEPTH>
static __device__ __forceinline__ void spot(int e, bool along_lines, int *line, int *depth) {
  const int at = (int)threadIdx.x + e * THREADS;
  *line = along_lines ? at % TILE : at / DEPTH;
  *depth = along_lines ? at / TILE : at % DEPTH;
}

/* Loads what a thread brings, with zeros outside; step and next are those of lines and depth. */
template <typename Element, int TILE, int DEPTH>
static __device__ __forceinline__ void load_tile(const typename Element::Stored *from, int64_t step,
                                                 int64_t next, int64_t lines, int64_t k,
                                                 int64_t first, int64_t begin,
                                                 typename Element::Sum *to) {
#pragma unroll
  for (int e = 0; e < TILE * DEPTH / THREADS; e++) {
    int line, depth;
    spot<TILE, DEPTH>(e, step == 1, &line, &depth);
    typename Element::Sum value = {};
    if (first + line < lines && begin + depth < k)
      value = Element::read(from[(first + line) * step + (begin + depth) * next], false);
    to[e] = value;
  }
}

template <typename Sum, int TILE, int DEPTH>
static __device__ __forceinline__ void store_tile(const Sum *from, bool along_lines,
                                                  Sum (*tile)[TILE + QUAD]) {
#pragma unroll
  for (int e = 0; e < TILE * DEPTH / THREADS; e++) {
    int line, depth;
    spot<TILE, DEPTH>(e, along_lines, &line, &depth);
    tile[depth][line] = from[e];
  }
}

/* Returns the place in a tile of element p of the PART of a thread: as many neighbours as 16 bytes
 * have, so that what neighbouring threads read at once lies in different banks. */
template <typename Sum, int PART>
static __device__ __forceinline__ int place(int lane, int p) {
  constexpr int WORD = 16 / (int)sizeof(Sum), NEAR = WORD < PART ? WORD : PART;
  return p / NEAR * NEAR * SIDE + lane * NEAR + p % NEAR;
}

/* Results are elements, or sums that are not rounded to such. */
template <typename Element, typename Result, int PART, int DEPTH>
__global__ void __launch_bounds__(THREADS,
                                  (PART * PART * sizeof(typename Element::Sum) > 128 ? 1 : 2))
    ordered_product(OrderedShape s, const void *all_a, const void *all_b,
                    typename Result::Stored *all_c) {
  typedef typename Element::Sum Sum;
  typedef typename Element::Stored Stored;
  constexpr int TILE = SIDE * PART, EACH = TILE * DEPTH / THREADS;
  static_assert(TILE * DEPTH % THREADS == 0, "every thread brings as many elements");
  __shared__ __align__(16) Sum a_tile[DEPTH][TILE + QUAD], b_tile[DEPTH][TILE + QUAD];
  const int row = (int)threadIdx.x / SIDE, col = (int)threadIdx.x % SIDE;
  const int64_t across = (s.n + TILE - 1) / TILE, tiles = (s.m + TILE - 1) / TILE * across;
  const int64_t a_step = s.a_trans ? 1 : s.lda, a_next = s.a_trans ? s.lda : 1;
  const int64_t b_step = s.b_trans ? s.ldb : 1, b_next = s.b_trans ? 1 : s.ldb;
  for (int64_t at = blockIdx.x; at < tiles * s.batch; at += gridDim.x) {
    const int64_t tile = at % tiles, i = at / tiles, first_row = tile / across * TILE,
                  first_col = tile % across * TILE;
    const mmci_span span = mmci_span_of(s.spans, s.k, i);
    const Stored *a = mmci_matrix_of<Stored>(all_a, span.product, s.a_stride, s.a_gathered) +
                      span.begin * a_next,
                 *b = mmci_matrix_of<Stored>(all_b, span.product, s.b_stride, s.b_gathered) +
                      span.begin * b_next;
    const int64_t k = span.end - span.begin;
    typename Result::Stored *c = all_c + i * s.c_stride;
    Sum sum[PART][PART], a_next_terms[EACH], b_next_terms[EACH];
#pragma unroll
    for (int p = 0; p < PART; p++)
#pragma unroll
      for (int q = 0; q < PART; q++) {
        const int64_t r = first_row + place<Sum, PART>(row, p),
                      t = first_col + place<Sum, PART>(col, q);
        sum[p][q] = Sum{};
        if (s.accumulate && r < s.m && t < s.n) sum[p][q] = Result::read(c[r * s.ldc + t], false);
      }
    load_tile<Element, TILE, DEPTH>(a, a_step, a_next, s.m, k, first_row, 0, a_next_terms);
    load_tile<Element, TILE, DEPTH>(b, b_step, b_next, s.n, k, first_col, 0, b_next_terms);
    for (int64_t depth = 0; depth < k; depth += DEPTH) {
      store_tile<Sum, TILE, DEPTH>(a_next_terms, a_step == 1, a_tile);
      store_tile<Sum, TILE, DEPTH>(b_next_terms, b_step == 1, b_tile);
      __syncthreads();
      if (depth + DEPTH < k) {
        load_tile<Element, TILE, DEPTH>(a, a_step, a_next, s.m, k, first_row, depth + DEPTH,
                                        a_next_terms);
        load_tile<Element, TILE, DEPTH>(b, b_step, b_next, s.n, k, first_col, depth + DEPTH,
                                        b_next_terms);
      }
      /* Where a thread has few sums, terms are read well before they are multiplied. */
#pragma unroll(PART > 2 ? 2 : 16)
      for (int d = 0; d < DEPTH; d++) {
        Sum left[PART], right[PART];
#pragma unroll
        for (int p = 0; p < PART; p++) {
          left[p] = a_tile[d][place<Sum, PART>(row, p)];
          right[p] = b_tile[d][place<Sum, PART>(col, p)];
        }
#pragma unroll
        for (int p = 0; p < PART; p++)
#pragma unroll
          for (int q = 0; q < PART; q++) mmci_fuse_product(sum[p][q], left[p], right[q]);
      }
      __syncthreads();
    }
#pragma unroll
    for (int p = 0; p < PART; p++)
#pragma unroll
      for (int q = 0; q < PART; q++) {
        const int64_t r = first_row + place<Sum, PART>(row, p),
                      t = first_col + place<Sum, PART>(col, q);
        if (r < s.m && t < s.n) c[r * s.ldc + t] = rounded<Result>(sum[p][q]);
      }
  }
}

/* ---- launches ----------------------------------------------------------------------------------
 */

template <typename Element, typename Result, int PART, int DEPTH>
static mmc_status launch_ordered(cudaStream_t stream, const OrderedShape &s, const void *a,
                                 const void *b, void *c, mmci_error *error) {
  constexpr int64_t TILE = SIDE * PART;
  const int64_t tiles = (s.m + TILE - 1) / TILE * ((s.n + TILE - 1) / TILE) * s.batch;
  if (tiles == 0) return MMC_OK;
  const unsigned blocks = (unsigned)(tiles < MOST_BLOCKS ? tiles : MOST_BLOCKS);
  MMCI_CUDA_TRY(mmci_launch(ordered_product<Element, Result, PART, DEPTH>, dim3(blocks),
                            dim3(THREADS), 0, stream, s, a, b,
                            static_cast<typename Result::Stored *>(c)));
  return MMC_OK;
}

/* Takes large tiles where there are enough of them for a GPU; the result is the same. */
template <typename Element, int LARGE>
static mmc_status launch_either(cudaStream_t stream, const OrderedShape &s, const void *a,
                                const void *b, void *c, mmci_error *error) {
  enum { MANY = 1 << 21 };
  return s.batch * s.m * s.n >= MANY
             ? launch_ordered<Element, Element, LARGE, 16>(stream, s, a, b, c, error)
             : launch_ordered<Element, Element, QUAD, 16>(stream, s, a, b, c, error);
}

/* Pieces of long products: where there are few, small tiles, which bring more terms at once, so
 * that more blocks have less to wait for. */
template <typename Element, typename Result>
static mmc_status launch_pieces(cudaStream_t stream, const OrderedShape &s, const void *a,
                                const void *b, void *c, mmci_error *error) {
  enum { TILE = SIDE * QUAD, FEW = 132, SMALL = 2, DEEP = 64 };
  const int64_t tiles = (s.m + TILE - 1) / TILE * ((s.n + TILE - 1) / TILE) * s.batch;
  return tiles < FEW || (s.m <= TILE / 2 && s.n <= TILE / 2)
             ? launch_ordered<Element, Result, SMALL, DEEP>(stream, s, a, b, c, error)
             : launch_ordered<Element, Result, QUAD, 16>(stream, s, a, b, c, error);
}

static OrderedShape shape_of(const mmci_gemm *gemm, const mmci_spans &spans) {
  const mmci_form &x = gemm->a, &y = gemm->b;
  return {gemm->m,
          gemm->k,
          gemm->n,
          x.ld,
          y.ld,
          gemm->ldc,
          (gemm->batch > 0 ? gemm->batch : 1) * spans.count,
          x.stride,
          y.stride,
          gemm->c_stride,
          x.trans,
          x.gathered,
          y.trans,
          y.gathered,
          gemm->accumulate,
          spans};
}

extern "C" mmc_status mmci_cuda_ordered_product(cudaStream_t stream, const mmci_gemm *gemm,
                                                const void *a, const void *b, void *c,
                                                mmci_error *error) {
  const OrderedShape s = shape_of(gemm, mmci_all_terms(gemm->k));
  switch (gemm->dtype) {
    case MMC_F32:
      return launch_either<mmci_real_element<float>, 8>(stream, s, a, b, c, error);
    case MMC_F64:
      return launch_either<mmci_real_element<double>, 4>(stream, s, a, b, c, error);
    case MMC_C64:
    case MMC_C128:
      return mmci_cuda_ordered_complex(stream, gemm, a, b, c, error);
    case MMC_F16:
      return launch_either<mmci_f16_element, 8>(stream, s, a, b, c, error);
    case MMC_BF16:
      return launch_either<mmci_bf16_element, 8>(stream, s, a, b, c, error);
    default:
      break;
  }
  return mmci_fail(error, MMC_E_ARG, "dtype: expected one of mmc_dtype, got %d", (int)gemm->dtype);
}

extern "C" mmc_status mmci_cuda_ordered_pieces(cudaStream_t stream, const mmci_gemm *gemm,
                                               const mmci_piece_range *range, const void *a,
                                               const void *b, void *parts, mmci_error *error) {
  mmci_gemm piece = *gemm; /* whose results are parts */
  piece.ldc = gemm->n;
  piece.c_stride = gemm->m * gemm->n;
  piece.accumulate = false;
  const OrderedShape s = shape_of(&piece, {range->first, range->count, MMCI_PIECE_TERMS});
  switch (gemm->dtype) {
    case MMC_F32:
      return launch_pieces<mmci_real_element<float>, mmci_real_element<float>>(stream, s, a, b,
                                                                               parts, error);
    case MMC_F64:
      return launch_pieces<mmci_real_element<double>, mmci_real_element<double>>(stream, s, a, b,
                                                                                 parts, error);
    case MMC_F16:
      return launch_pieces<mmci_f16_element, mmci_real_element<float>>(stream, s, a, b, parts,
                                                                       error);
    case MMC_BF16:
      return launch_pieces<mmci_bf16_element, mmci_real_element<float>>(stream, s, a, b, parts,
                                                                        error);
    default:
      return mmci_cuda_ordered_complex_pieces(stream, &piece, range, -1, a, b, parts, error);
  }
}

/* ---- what other kernels have computed in this order -------------------------------------------
 */

/* Bits of zero and NaN by which a settled number differs from others of its type. suspects() says
 * whether what is in a Quick, a number or two of 16 bits, may have to be settled. */
template <typename Word>
struct Bits;
template <>
struct Bits<uint64_t> {
  typedef uint64_t Quick;
  static constexpr uint64_t INFINITY_BITS = 0x7ff0000000000000ull, QUIET = 0x7ff8000000000000ull;
  static __device__ __forceinline__ bool suspects(uint64_t x) {
    const uint32_t high = (uint32_t)(x >> 32);
    return (high & 0x7fffffffu) >= 0x7ff00000u || high == 0x80000000u;
  }
};
template <>
struct Bits<uint32_t> {
  typedef uint32_t Quick;
  static constexpr uint32_t INFINITY_BITS = 0x7f800000u, QUIET = 0x7fc00000u;
  static __device__ __forceinline__ bool suspects(uint32_t x) {
    return (x & 0x7fffffffu) > INFINITY_BITS || x == 0x80000000u;
  }
};
/* A magnitude above infinity carries into the sign when what infinity lacks of 2^15 - 1 is added,
 * and a half that is 0 borrows from its sign. */
static __device__ __forceinline__ bool suspects_halves(uint32_t x, uint32_t above_infinity) {
  const uint32_t signs = 0x80008000u, minus_zero = x ^ signs;
  return ((((x & ~signs) + above_infinity) | ((minus_zero - 0x00010001u) & ~minus_zero)) & signs) !=
         0;
}
struct F16Bits {
  typedef uint32_t Quick;
  static constexpr uint16_t INFINITY_BITS = 0x7c00, QUIET = 0x7e00;
  static __device__ __forceinline__ bool suspects(uint32_t x) {
    return suspects_halves(x, 0x03ff03ffu);
  }
};
struct Bf16Bits {
  typedef uint32_t Quick;
  static constexpr uint16_t INFINITY_BITS = 0x7f80, QUIET = 0x7fc0;
  static __device__ __forceinline__ bool suspects(uint32_t x) {
    return suspects_halves(x, 0x007f007fu);
  }
};

/* Lets zeros be +0 and NaN the positive quiet one; says whether the number has become another. */
template <typename Word, typename Type>
static __device__ __forceinline__ bool settle(Word &x) {
  constexpr Word SIGN = (Word)((Word)1 << (8 * sizeof(Word) - 1));
  const Word magnitude = (Word)(x & (Word)~SIGN), before = x;
  if (magnitude > Type::INFINITY_BITS) x = Type::QUIET;
  if (magnitude == 0) x = 0;
  return x != before;
}

enum { SETTLED = 4, PART_BYTES = 16 }; /* parts of a thread, and their bytes */

/* Matrices are batch x rows lines of cols words. What is right already is not written. A thread
 * takes as many neighbours as 16 bytes have where lines begin at multiples of 16 bytes. */
template <typename Word, typename Type, int EACH>
__global__ void __launch_bounds__(THREADS)
    settle_result(int64_t rows, int64_t cols, int64_t ld, int64_t stride, int64_t batch, Word *c) {
  struct alignas(EACH * sizeof(Word)) Part {
    Word x[EACH];
  };
  const int64_t across = cols / EACH, count = batch * rows * across;
  for (int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x; at < count;
       at += (int64_t)gridDim.x * THREADS) {
    const int64_t line = at / across;
    Part *place =
        reinterpret_cast<Part *>(c + line / rows * stride + line % rows * ld + at % across * EACH);
    Part part = *place;
    bool changed = false;
#pragma unroll
    for (int e = 0; e < EACH; e++) changed |= settle<Word, Type>(part.x[e]);
    if (changed) *place = part;
  }
}

/* Settles numbers, and writes those that have become others. */
template <typename Word, typename Type, int COUNT>
static __device__ void settle_numbers(void *place) {
  Word *numbers = static_cast<Word *>(place);
  for (int e = 0; e < COUNT; e++) {
    Word x = numbers[e];
    if (settle<Word, Type>(x)) numbers[e] = x;
  }
}

/* The same of words without gaps, with some reads of a thread under way at once, and no divisions,
 * which take longer than memory does. It begins with the last words, which are those that the
 * product wrote last and that are still in the L2. */
template <typename Word, typename Type>
__global__ void __launch_bounds__(THREADS) settle_words(int64_t count, void *c) {
  typedef typename Type::Quick Quick;
  struct alignas(PART_BYTES) Part {
    Quick x[PART_BYTES / sizeof(Quick)];
  };
  const int64_t first = (int64_t)(gridDim.x - 1 - blockIdx.x) * (SETTLED * THREADS) + threadIdx.x;
  Part *parts = static_cast<Part *>(c) + first;
  Part part[SETTLED] = {};
#pragma unroll
  for (int p = 0; p < SETTLED; p++)
    if (first + p * THREADS < count) part[p] = parts[p * THREADS];
#pragma unroll
  for (int p = 0; p < SETTLED; p++) {
    bool suspect = false;
#pragma unroll
    for (const Quick x : part[p].x) suspect |= Type::suspects(x);
    if (suspect) settle_numbers<Word, Type, PART_BYTES / sizeof(Word)>(parts + p * THREADS);
  }
}

template <typename Word, typename Type>
static mmc_status launch_settle(cudaStream_t stream, const mmci_gemm *gemm, void *c,
                                mmci_error *error) {
  constexpr int EACH = PART_BYTES / sizeof(Word);
  const int64_t most = 1 << 16;
  int64_t rows = gemm->m, cols = gemm->n, ld = gemm->ldc, batch = gemm->batch > 1 ? gemm->batch : 1;
  const int64_t stride = batch > 1 ? gemm->c_stride : 0;
  if (rows == 0 || cols == 0) return MMC_OK;
  if (batch > 1 && stride == rows * ld) {
    rows *= batch;
    batch = 1;
  }
  if (ld == cols) {
    cols *= rows;
    rows = 1;
  }
  const bool parts = cols % EACH == 0 && ld % EACH == 0 && stride % EACH == 0 &&
                     reinterpret_cast<uintptr_t>(c) % 16 == 0;
  const int64_t count = batch * rows * (parts ? cols / EACH : cols),
                blocks = (count + THREADS - 1) / THREADS;
  const dim3 grid((unsigned)(blocks < most ? blocks : most));
  Word *words = static_cast<Word *>(c);
  if (rows == 1 && batch == 1 && parts && count <= SETTLED * THREADS * (int64_t)INT32_MAX) {
    const dim3 all((unsigned)((count + SETTLED * THREADS - 1) / (SETTLED * THREADS)));
    MMCI_CUDA_TRY(mmci_launch(settle_words<Word, Type>, all, dim3(THREADS), 0, stream, count, c));
    return MMC_OK;
  }
  if (parts)
    MMCI_CUDA_TRY(mmci_launch(settle_result<Word, Type, EACH>, grid, dim3(THREADS), 0, stream, rows,
                              cols, ld, stride, batch, words));
  else
    MMCI_CUDA_TRY(mmci_launch(settle_result<Word, Type, 1>, grid, dim3(THREADS), 0, stream, rows,
                              cols, ld, stride, batch, words));
  return MMC_OK;
}

extern "C" mmc_status mmci_cuda_settle(cudaStream_t stream, const mmci_gemm *gemm, void *c,
                                       mmci_error *error) {
  if (gemm->dtype == MMC_F64)
    return launch_settle<uint64_t, Bits<uint64_t>>(stream, gemm, c, error);
  if (gemm->dtype == MMC_F32)
    return launch_settle<uint32_t, Bits<uint32_t>>(stream, gemm, c, error);
  return gemm->dtype == MMC_F16 ? launch_settle<uint16_t, F16Bits>(stream, gemm, c, error)
                                : launch_settle<uint16_t, Bf16Bits>(stream, gemm, c, error);
}

/* ---- complex products as real ones -------------------------------------------------------------
 */

/* A block takes 16 x 16 elements, which it reads along lines of B as they lie. */
template <typename Real>
__global__ void __launch_bounds__(THREADS)
    spread_rows(int64_t k, int64_t n, const mmci_complex<Real> *b, int64_t b_ld, bool trans,
                bool conj, Real *to, int64_t ld) {
  __shared__ mmci_complex<Real> tile[SIDE][SIDE + 1];
  const int fast = (int)threadIdx.x % SIDE, slow = (int)threadIdx.x / SIDE;
  const int64_t across = (n + SIDE - 1) / SIDE, tiles = (k + SIDE - 1) / SIDE * across;
  for (int64_t at = blockIdx.x; at < tiles; at += gridDim.x) {
    const int64_t row = at / across * SIDE, col = at % across * SIDE;
    const int r = trans ? fast : slow, c = trans ? slow : fast;
    if (row + r < k && col + c < n)
      tile[r][c] = b[trans ? (col + c) * b_ld + row + r : (row + r) * b_ld + col + c];
    __syncthreads();
    if (row + slow < k && col + fast < n) {
      const mmci_complex<Real> z = tile[slow][fast];
      const Real im = conj ? -z.im : z.im;
      Real *line = to + 2 * (row + slow) * ld + 2 * (col + fast);
      line[0] = z.re;
      line[1] = im;
      line[ld] = -im;
      line[ld + 1] = z.re;
    }
    __syncthreads();
  }
}

template <typename Real>
static mmc_status launch_spread(cudaStream_t stream, const mmci_gemm *gemm, const void *b, void *to,
                                int64_t ld, mmci_error *error) {
  const int64_t most = 1 << 16, tiles = (gemm->k + SIDE - 1) / SIDE * ((gemm->n + SIDE - 1) / SIDE);
  const dim3 grid((unsigned)(tiles < most ? tiles : most));
  MMCI_CUDA_TRY(mmci_launch(spread_rows<Real>, grid, dim3(THREADS), 0, stream, gemm->k, gemm->n,
                            static_cast<const mmci_complex<Real> *>(b), gemm->b.ld, gemm->b.trans,
                            gemm->b.conj, static_cast<Real *>(to), ld));
  return MMC_OK;
}

extern "C" mmc_status mmci_cuda_spread(cudaStream_t stream, const mmci_gemm *gemm, const void *b,
                                       void *to, int64_t ld, mmci_error *error) {
  return gemm->dtype == MMC_C64 ? launch_spread<float>(stream, gemm, b, to, ld, error)
                                : launch_spread<double>(stream, gemm, b, to, ld, error);
}
