/* semiring.cu: products over max-plus, min-plus and log of f32, f64 and, but for log, i64.
 *
 * Layout  any forms, sizes and leading dimensions in 64 bits
 * Launch  a 1-D grid that strides over tiles of C of all products of a batch, see semiring.cuh:
 *         128 x 128 of f32 by 256 threads, 8 x 8 elements each, where these are enough for the
 *         chip, else smaller ones; where C has few elements, four of a row a thread
 * Traffic m k n additions and as many comparisons, of f32 an instruction each; a tile reads its
 *         height and its width of elements a line of k */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/product/semiring.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"

using namespace semiring;

namespace {

const int64_t MOST_BLOCKS = 1 << 20;
const double LAUNCH_S = 4e-6, BYTES_PER_S = 2.5e12;

/* The tiles of a semiring, large to small, the fastest of those that were measured on an H200. Of
 * elements of eight bytes, and of logarithms, larger ones are no faster than the middle. */
template <typename Ring>
struct Tiles {
  typedef Tile<Ring, 2, 2, 4, 2, 16, 2, 2, 4> Large;
  typedef Large Middle;
  typedef Tile<Ring, 2, 2, 2, 1, 8, 3, 4, 4> Small;
};

template <bool LEAST>
struct Tiles<Extreme<float, LEAST>> {
  typedef Tile<Extreme<float, LEAST>, 2, 2, 4, 2, 16, 3, 1, 8> Large;
  typedef Tile<Extreme<float, LEAST>, 1, 1, 4, 2, 16, 3, 3, 8> Middle;
  typedef Tile<Extreme<float, LEAST>, 1, 1, 2, 1, 16, 3, 8, 8> Small;
};

template <>
struct Tiles<LogSum<float>> {
  typedef Tile<LogSum<float>, 1, 1, 4, 2, 16, 3, 2, 4> Large;
  typedef Large Middle;
  typedef Tile<LogSum<float>, 1, 1, 2, 1, 16, 3, 8, 4> Small;
};

template <>
struct Tiles<LogSum<double>> {
  typedef Tile<LogSum<double>, 2, 1, 4, 2, 16, 3, 2, 1> Large;
  typedef Large Middle;
  typedef Tile<LogSum<double>, 2, 2, 2, 1, 8, 3, 4, 1> Small;
};

template <typename T>
int64_t tiles_of(const Shape &s) {
  return (s.m + T::HEIGHT - 1) / T::HEIGHT * ((s.n + T::WIDTH - 1) / T::WIDTH) * s.batch;
}

template <typename T>
mmc_status launch_tiles(cudaStream_t stream, const Shape &s, void *c, mmci_error *error) {
  const int64_t tiles = tiles_of<T>(s);
  const unsigned blocks = (unsigned)(tiles < MOST_BLOCKS ? tiles : MOST_BLOCKS);
  MMCI_CUDA_TRY(cudaFuncSetAttribute(semiring_tiles<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)T::SHARED_BYTES));
  MMCI_CUDA_TRY(mmci_launch(semiring_tiles<T>, dim3(blocks), dim3(T::THREADS), T::SHARED_BYTES,
                            stream, s, static_cast<typename T::Element *>(c), tiles));
  return MMC_OK;
}

template <typename Ring>
mmc_status launch_few(cudaStream_t stream, const Shape &s, void *c, mmci_error *error) {
  enum { COUNT = 4, THREADS = 128 };
  const int64_t runs = s.batch * s.m * ((s.n + COUNT - 1) / COUNT),
                blocks = (runs + THREADS - 1) / THREADS;
  MMCI_CUDA_TRY(mmci_launch(
      semiring_few<Ring, COUNT>, dim3((unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS)),
      dim3(THREADS), 0, stream, s, static_cast<typename Ring::Element *>(c), runs));
  return MMC_OK;
}

/* How fast a multiprocessor goes through the largest tiles of a semiring, in terms a second, as
 * measured on an H200; of integers it is a guess. */
template <typename Ring>
struct Rate {
  static constexpr double VALUE = 1.5e10;
};
template <bool LEAST>
struct Rate<Extreme<float, LEAST>> {
  static constexpr double VALUE = 8e10;
};
template <bool LEAST>
struct Rate<Extreme<double, LEAST>> {
  static constexpr double VALUE = 3.1e10;
};
template <>
struct Rate<LogSum<float>> {
  static constexpr double VALUE = 2.1e10;
};
template <>
struct Rate<LogSum<double>> {
  static constexpr double VALUE = 4e9;
};

/* What is launched for a product. */
enum Choice { FEW, LARGE, MIDDLE, SMALL };

struct Chosen {
  Choice choice;
  double terms; /* of the busiest multiprocessor, those of large tiles */
};

/* C of so many rows and columns at most is left to threads that share nothing. */
const int64_t FEW_SIDE = 16;

/* Returns the terms of the tiles that a multiprocessor has at most, where one of such a tile takes
 * so many times as long as one of the largest. */
template <typename T>
double terms_of(const Shape &s, int processors, double slower) {
  const int64_t most = (tiles_of<T>(s) + processors - 1) / processors;
  return (double)most * T::HEIGHT * T::WIDTH * (double)s.k * slower;
}

template <typename Ring>
Chosen choose(const Shape &s, int processors) {
  typedef Tiles<Ring> Of;
  if ((s.m <= FEW_SIDE && s.n <= FEW_SIDE) || s.k == 0) {
    const double terms = (double)s.batch * (double)s.m * (double)s.k * (double)s.n;
    return {FEW, 3 * terms / processors};
  }
  const Chosen choices[] = {{LARGE, terms_of<typename Of::Large>(s, processors, 1)},
                            {MIDDLE, terms_of<typename Of::Middle>(s, processors, 1.3)},
                            {SMALL, terms_of<typename Of::Small>(s, processors, 2)}};
  Chosen best = choices[0];
  for (const Chosen &x : choices)
    if (x.terms < best.terms) best = x;
  return best;
}

template <typename Ring>
mmc_status launch(cudaStream_t stream, const Shape &s, int processors, void *c, mmci_error *error) {
  typedef Tiles<Ring> Of;
  switch (choose<Ring>(s, processors).choice) {
    case LARGE:
      return launch_tiles<typename Of::Large>(stream, s, c, error);
    case MIDDLE:
      return launch_tiles<typename Of::Middle>(stream, s, c, error);
    case SMALL:
      return launch_tiles<typename Of::Small>(stream, s, c, error);
    case FEW:
      break;
  }
  return launch_few<Ring>(stream, s, c, error);
}

/* Returns the longer of what the terms and what the words take, with the launch. */
template <typename Ring>
double seconds_of(const Shape &s, int processors) {
  const double words = (double)s.m * (double)s.k + (double)s.k * (double)s.n +
                       (double)s.m * (double)s.n,
               bytes = words * (double)s.batch * sizeof(typename Ring::Element),
               moving_s = bytes / BYTES_PER_S,
               adding_s = choose<Ring>(s, processors).terms / Rate<Ring>::VALUE;
  return LAUNCH_S + (adding_s > moving_s ? adding_s : moving_s);
}

Operand operand_of(const mmci_form &x) {
  return {nullptr, x.ld, x.stride, x.trans, x.gathered};
}

Shape shape_of(const mmci_gemm *gemm) {
  return {gemm->m,
          gemm->k,
          gemm->n,
          gemm->batch > 0 ? gemm->batch : 1,
          operand_of(gemm->a),
          operand_of(gemm->b),
          gemm->ldc,
          gemm->c_stride,
          gemm->accumulate};
}

}  // namespace

/* Returns what `ask` says of the semiring of a product. */
template <typename Ask>
static auto of_ring(const mmci_gemm *gemm, Ask ask) -> decltype(ask(LogSum<float>())) {
  const bool least = gemm->rule.semiring == MMC_MIN_PLUS;
  switch (gemm->dtype) {
    case MMC_F32:
      if (gemm->rule.semiring == MMC_LOG_SUM_EXP) return ask(LogSum<float>());
      return least ? ask(Extreme<float, true>()) : ask(Extreme<float, false>());
    case MMC_F64:
      if (gemm->rule.semiring == MMC_LOG_SUM_EXP) return ask(LogSum<double>());
      return least ? ask(Extreme<double, true>()) : ask(Extreme<double, false>());
    default: /* i64, which has no logarithms */
      return least ? ask(ExtremeInteger<true>()) : ask(ExtremeInteger<false>());
  }
}

extern "C" mmc_status mmci_cuda_semiring_product(cudaStream_t stream, const mmci_gemm *gemm,
                                                 int processors, const void *a, const void *b,
                                                 void *c, mmci_error *error) {
  Shape s = shape_of(gemm);
  s.a.data = a;
  s.b.data = b;
  if (s.m == 0 || s.n == 0) return MMC_OK;
  return of_ring(
      gemm, [&](auto ring) { return launch<decltype(ring)>(stream, s, processors, c, error); });
}

extern "C" double mmci_cuda_semiring_seconds(const mmci_gemm *gemm, int processors) {
  const Shape s = shape_of(gemm);
  return of_ring(gemm, [&](auto ring) { return seconds_of<decltype(ring)>(s, processors); });
}
