/* vectors.cu: computes batches of matrices by vectors and of vectors by matrices, each of which is
 * read once. cuBLAS takes 1.6 to 1.75 times as long in the geometric mean, by dtype.
 *
 * Layout any forms and leading dimensions; lines are read as they lie, in words of up to 16 bytes
 *   as far as lines and addresses allow
 * Launch a 1-D grid of 256 threads. Along lines, groups of lanes have sums, whatever products these
 *   are of; across them, a block has a tile of a product, or tiles of several
 * Order a thread's terms from the first to the last, then threads by halves: the same in every run
 *   by matrices that are as aligned
 * Traffic each matrix once, the vector once for every line, mostly from caches
 * Idea 64 bytes of every thread are under way together: half of large batches with whole words read
 *   3.5 to 4.1 of an H200's 4.8 TB/s, by dtype */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/elements.cuh"
extern "C" {
#include "device/cuda/product/vectors.h"
}

namespace {

enum {
  THREADS = MMCI_VECTORS_THREADS,
  WARP = 32,
  WORD_BYTES = 16,
  /* blocks of a multiprocessor: asked for more, the compiler saves registers by loading words one
   * after the other, and memory is waited for each time */
  BLOCKS = 4
};

/* Divides numbers below 2^31: the quotient is (x * factor) >> shift. */
struct Divisor {
  uint32_t factor, shift, by;
};

Divisor divisor_of(uint32_t by) {
  uint32_t bits = 0;
  while (bits < 31 && ((uint32_t)1 << bits) < by) bits++;
  const uint64_t one = (uint64_t)1 << (31 + bits);
  return {(uint32_t)((one + by - 1) / by), 31 + bits, by};
}

__device__ __forceinline__ uint32_t quotient(uint32_t x, const Divisor &by) {
  return (uint32_t)((uint64_t)x * by.factor >> by.shift);
}

struct Vectors {
  const void *matrix, *x;
  void *y;
  int64_t stride, x_stride, y_stride, ld, y_step;
  uint32_t step_bytes, x_step_bytes; /* from term to term of the matrix, and of the vector */
  uint32_t outs, terms, products;
  bool conj, x_conj;
  uint32_t log_lanes;                    /* along */
  Divisor by_outs;                       /* along */
  Divisor by_cols, by_threads, by_tiles; /* across; by_threads: those of a product */
  uint32_t shares, together;             /* across; together: products of a block */
};

/* WORD elements that are read at once. */
template <typename Stored, int WORD>
struct alignas(WORD * sizeof(Stored)) Several {
  Stored v[WORD];
};

/* Calls add(so many, at, is_there) until a thread, number `first` of `threads`, has had every
 * so-manieth of the words, of which at(i) is one and is_there(i) says that it is not the last one
 * again: many together, and FEW where no more are left. All threads make the same calls: parted,
 * they would wait for memory once for each way. Words that are not there are loaded all the same: a
 * thread has few predicates, and loads that each want one are not under way together. */
template <int MANY, typename Add>
__device__ __forceinline__ void add_words(uint32_t first, uint32_t threads, uint32_t words,
                                          const Add &add) {
  enum { FEW = MMCI_VECTORS_FEW };
  uint32_t next = first, left = words;
#pragma unroll 1
  for (; left >= MANY * threads; left -= MANY * threads, next += MANY * threads)
    add(
        mmci_times<MANY>(), [=](int i) { return next + i * threads; }, [](int) { return true; });
  if (left == 0) return;
  const auto at = [=](int i) { return min(next + i * threads, words - 1); };
  const auto is_there = [=](int i) { return next + i * threads < words; };
  if (MANY == FEW || left <= FEW * threads)
    add(mmci_times<FEW>(), at, is_there);
  else
    add(mmci_times<MANY>(), at, is_there);
}

/* Lanes have a sum: each takes every so-manieth word of a line. */
template <typename Element, int WORD>
__global__ void __launch_bounds__(THREADS, BLOCKS) sum_along(const __grid_constant__ Vectors v) {
  typedef typename Element::Stored Stored;
  typedef typename Element::Sum Sum;
  typedef mmci_whole<Stored> Whole;
  typedef Several<Stored, WORD> Word;
  enum { BYTES = sizeof(Stored), MANY = mmci_vectors_many(WORD * BYTES) };
  __shared__ Sum parts[THREADS / WARP];
  const uint32_t lanes = 1u << v.log_lanes, lane = threadIdx.x & (lanes - 1),
                 all = v.outs * v.products,
                 number = blockIdx.x * (THREADS >> v.log_lanes) + (threadIdx.x >> v.log_lanes);
  /* Beyond the last sum it is computed again, because lanes want each other's values. */
  const uint32_t mine = number < all ? number : all - 1, product = quotient(mine, v.by_outs),
                 out = mine - product * v.outs;
  const char *from =
      static_cast<const char *>(v.matrix) + (product * v.stride + out * v.ld) * BYTES;
  const char *x = static_cast<const char *>(v.x) + product * v.x_stride * BYTES;
  Sum sum = {};
  const auto add = [&](auto times, auto at, auto is_there) {
    enum { COUNT = decltype(times)::COUNT };
    Word left[COUNT], right[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++)
      left[i] = *reinterpret_cast<const Word *>(from + (uint64_t)at(i) * (WORD * v.step_bytes));
#pragma unroll
    for (int i = 0; i < COUNT; i++)
      right[i] = *reinterpret_cast<const Word *>(x + (uint64_t)at(i) * (WORD * v.x_step_bytes));
#pragma unroll
    for (int i = 0; i < COUNT; i++)
      if (is_there(i)) {
#pragma unroll
        for (int e = 0; e < WORD; e++)
          mmci_fuse_product(sum, Element::read(left[i].v[e], v.conj),
                            Element::read(right[i].v[e], v.x_conj));
      }
  };
  add_words<MANY>(lane, lanes, v.terms / WORD, add);
  for (uint32_t bit = (lanes < WARP ? lanes : (uint32_t)WARP) / 2; bit >= 1; bit /= 2)
    sum = mmci_add(sum, mmci_from_lane(sum, (int)bit));
  if (lanes > WARP) {
    const uint32_t warp = threadIdx.x / WARP;
    if (threadIdx.x % WARP == 0) parts[warp] = sum;
    __syncthreads();
    if (lane == 0)
      for (uint32_t w = 1; w < lanes / WARP; w++) sum = mmci_add(sum, parts[warp + w]);
  }
  if (lane == 0 && number < all)
    static_cast<Whole *>(v.y)[product * v.y_stride + out * v.y_step].value = Element::write(sum);
}

/* A thread has the sums of a word, of every so-manieth line. */
template <typename Element, int WORD>
__global__ void __launch_bounds__(THREADS, BLOCKS) sum_across(const __grid_constant__ Vectors v) {
  typedef typename Element::Stored Stored;
  typedef typename Element::Sum Sum;
  typedef mmci_whole<Stored> Whole;
  typedef Several<Stored, WORD> Word;
  enum { BYTES = sizeof(Stored), MANY = mmci_vectors_many(WORD * BYTES) };
  __shared__ Sum parts[WORD * THREADS];
  const uint32_t group = quotient(blockIdx.x, v.by_tiles),
                 tile = blockIdx.x - group * v.by_tiles.by,
                 slot = quotient(threadIdx.x, v.by_threads),
                 thread = threadIdx.x - slot * v.by_threads.by, across = v.by_cols.by,
                 share = quotient(thread, v.by_cols), col = thread - share * across,
                 product = group * v.together + slot, first = (tile * across + col) * WORD;
  const bool works = slot < v.together && product < v.products && first < v.outs;
  Sum sums[WORD] = {};
  if (works) {
    const char *from = static_cast<const char *>(v.matrix) + (product * v.stride + first) * BYTES;
    const char *x = static_cast<const char *>(v.x) + product * v.x_stride * BYTES;
    const auto add = [&](auto times, auto at, auto is_there) {
      enum { COUNT = decltype(times)::COUNT };
      Word left[COUNT];
      Stored right[COUNT];
#pragma unroll
      for (int i = 0; i < COUNT; i++)
        left[i] = *reinterpret_cast<const Word *>(from + (uint64_t)at(i) * v.step_bytes);
#pragma unroll
      for (int i = 0; i < COUNT; i++)
        right[i] = reinterpret_cast<const Whole *>(x + (uint64_t)at(i) * v.x_step_bytes)->value;
#pragma unroll
      for (int i = 0; i < COUNT; i++)
        if (is_there(i)) {
#pragma unroll
          for (int e = 0; e < WORD; e++)
            mmci_fuse_product(sums[e], Element::read(left[i].v[e], v.conj),
                              Element::read(right[i], v.x_conj));
        }
    };
    add_words<MANY>(share, v.shares, v.terms, add);
  }
  if (v.shares > 1) {
#pragma unroll
    for (int e = 0; e < WORD; e++) parts[e * THREADS + threadIdx.x] = sums[e];
    for (uint32_t left = v.shares, half; left > 1; left = half) {
      half = (left + 1) / 2;
      __syncthreads();
      if (works && share + half < left) {
#pragma unroll
        for (int e = 0; e < WORD; e++) {
          sums[e] = mmci_add(sums[e], parts[e * THREADS + threadIdx.x + half * across]);
          parts[e * THREADS + threadIdx.x] = sums[e];
        }
      }
    }
  }
  if (share != 0 || !works) return;
  Whole *to = static_cast<Whole *>(v.y) + product * v.y_stride + first * v.y_step;
#pragma unroll
  for (int e = 0; e < WORD; e++) to[e * v.y_step].value = Element::write(sums[e]);
}

typedef void (*kernel_fn)(Vectors);

template <typename Element>
kernel_fn kernel_of(const mmci_vectors_cut *cut) {
  enum { MOST = WORD_BYTES / (int)sizeof(typename Element::Stored) };
#define MMCI_VECTORS_WORD(WORD) \
  if constexpr (MOST >= WORD)   \
    if (cut->word == WORD) return cut->along ? sum_along<Element, WORD> : sum_across<Element, WORD>
  MMCI_VECTORS_WORD(8);
  MMCI_VECTORS_WORD(4);
  MMCI_VECTORS_WORD(2);
#undef MMCI_VECTORS_WORD
  return cut->along ? sum_along<Element, 1> : sum_across<Element, 1>;
}

template <typename Element>
mmc_status launch_vectors(cudaStream_t stream, const mmci_gemm *gemm, const void *a, const void *b,
                          void *c, mmci_error *error) {
  enum { BYTES = sizeof(typename Element::Stored) };
  const mmci_vectors_cut cut = mmci_vectors_cut_of(gemm, a, b);
  Vectors v = {};
  v.matrix = cut.matrix_is_left ? a : b;
  v.x = cut.matrix_is_left ? b : a;
  v.y = c;
  v.ld = cut.ld;
  v.y_step = cut.y_step;
  v.stride = cut.stride;
  v.x_stride = cut.x_stride;
  v.y_stride = cut.y_stride;
  v.step_bytes = (uint32_t)((cut.along ? cut.step : cut.ld) * BYTES);
  v.x_step_bytes = (uint32_t)(cut.x_step * BYTES);
  v.outs = (uint32_t)cut.outs;
  v.terms = (uint32_t)cut.terms;
  v.products = (uint32_t)cut.products;
  v.conj = cut.conj;
  v.x_conj = cut.x_conj;
  if (cut.along) {
    v.by_outs = divisor_of(v.outs);
    for (v.log_lanes = 0; 1 << v.log_lanes < cut.lanes;) v.log_lanes++;
  } else {
    const uint32_t across = (uint32_t)cut.across, cols = across * (uint32_t)cut.word;
    v.shares = (uint32_t)cut.shares;
    v.by_cols = divisor_of(across);
    v.by_threads = divisor_of(across * v.shares);
    v.by_tiles = divisor_of((v.outs + cols - 1) / cols);
    v.together = THREADS / (across * v.shares);
  }
  MMCI_CUDA_TRY(mmci_launch(kernel_of<Element>(&cut), dim3((unsigned)cut.blocks), dim3(THREADS), 0,
                            stream, v));
  return MMC_OK;
}

}  // namespace

extern "C" mmc_status mmci_cuda_vectors_product(cudaStream_t stream, const mmci_gemm *gemm,
                                                const void *a, const void *b, void *c,
                                                mmci_error *error) {
#define MMCI_VECTORS(Element) launch_vectors<Element>(stream, gemm, a, b, c, error)
  MMCI_FOR_ELEMENT(gemm->dtype, error, MMCI_VECTORS);
#undef MMCI_VECTORS
}
