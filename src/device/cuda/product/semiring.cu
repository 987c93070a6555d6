/* semiring.cu: products over max-plus, min-plus and log of f32, f64 and, but for log, i64.
 *
 * Layout  any forms, sizes and leading dimensions in 64 bits
 * Launch  a 1-D grid that strides over tiles of C of all products of a batch, see semiring.cuh:
 *         128 x 128 of f32 by 256 threads, 8 x 8 elements each, where these are enough for the
 *         chip, else smaller ones; where C has few elements, four of a row a thread; of a vector
 *         whose matrix lies along k, a warp an element
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
/* How long adding up parts takes, and how many terms a part has at least: whole steps of every
 * tile, which pieces of 16 bytes begin. */
const double SUMS_S = 4e-6;
const int64_t LEAST_PART = 64, PART_STEP = 16;
/* How many threads a multiprocessor is to have where they share nothing. */
const int64_t THREADS_EACH = 1024;

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
  const int64_t tiles = tiles_of<T>(s) * s.parts;
  const unsigned blocks = (unsigned)(tiles < MOST_BLOCKS ? tiles : MOST_BLOCKS);
  MMCI_CUDA_TRY(cudaFuncSetAttribute(semiring_tiles<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)T::SHARED_BYTES));
  MMCI_CUDA_TRY(mmci_launch(semiring_tiles<T>, dim3(blocks), dim3(T::THREADS), T::SHARED_BYTES,
                            stream, s, static_cast<typename T::Element *>(c), tiles));
  return MMC_OK;
}

inline unsigned blocks_of(int64_t threads, int64_t each) {
  const int64_t blocks = (threads + each - 1) / each;
  return (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

template <typename Ring, int COUNT>
mmc_status launch_few(cudaStream_t stream, const Shape &s, void *c, mmci_error *error) {
  enum { THREADS = 128 };
  const int64_t runs = s.batch * s.parts * s.m * ((s.n + COUNT - 1) / COUNT);
  MMCI_CUDA_TRY(mmci_launch(semiring_few<Ring, COUNT>, dim3(blocks_of(runs, THREADS)),
                            dim3(THREADS), 0, stream, s, static_cast<typename Ring::Element *>(c),
                            runs));
  return MMC_OK;
}

template <typename Ring>
mmc_status launch_dots(cudaStream_t stream, const Shape &s, void *c, mmci_error *error) {
  enum { THREADS = 128, WARP = 32 };
  const int64_t dots = s.batch * s.parts * s.m * s.n;
  MMCI_CUDA_TRY(mmci_launch(semiring_dots<Ring>, dim3(blocks_of(dots * WARP, THREADS)),
                            dim3(THREADS), 0, stream, s, static_cast<typename Ring::Element *>(c),
                            dots));
  return MMC_OK;
}

template <typename Ring>
mmc_status launch_sums(cudaStream_t stream, const Shape &s, const void *parts, void *c,
                       mmci_error *error) {
  typedef typename Ring::Element Element;
  enum { THREADS = 128, ELEMENTS = 32 /* of a block */ };
  MMCI_CUDA_TRY(mmci_launch(semiring_sums<Ring>, dim3(blocks_of(s.m * s.n * s.batch, ELEMENTS)),
                            dim3(THREADS), 0, stream, s, static_cast<const Element *>(parts),
                            static_cast<Element *>(c)));
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
enum Choice { FEW, VECTOR, DOTS, LARGE, MIDDLE, SMALL };

struct Chosen {
  Choice choice;
  double terms; /* of the busiest multiprocessor, those of large tiles */
  int64_t parts;
};

/* C of so many rows and columns at most is left to threads that share nothing. */
const int64_t FEW_SIDE = 16;

typedef mmci_cuda_semiring_room Room;

/* Returns into how many parts of at least LEAST_PART terms k is cut, of `wanted`, where the parts
 * of C have room. */
template <typename Ring>
int64_t parts_of(const Shape &s, const Room &room, int64_t wanted) {
  const double each = (double)s.m * (double)s.n * (double)s.batch * sizeof(typename Ring::Element);
  int64_t most = s.k / LEAST_PART;
  if ((double)most * each > (double)room.bytes) most = (int64_t)((double)room.bytes / each);
  const int64_t parts = wanted < most ? wanted : most;
  return parts < 2 ? 1 : parts;
}

/* Returns how many terms each of so many parts of k has, the last at most as many. */
inline int64_t part_of(int64_t k, int64_t parts) {
  const int64_t each = (k + parts - 1) / parts;
  return parts == 1 ? k : (each + PART_STEP - 1) / PART_STEP * PART_STEP;
}

/* Returns `choice` with tiles one of whose terms takes so many times as long as one of the largest:
 * k is cut where that leaves the busiest multiprocessor less to do. */
template <typename Ring, typename T>
Chosen with_tiles(const Shape &s, const Room &room, Choice choice, double slower) {
  const int64_t tiles = tiles_of<T>(s), processors = room.processors;
  const double each = (double)T::HEIGHT * T::WIDTH * slower;
  Chosen x = {choice, (double)((tiles + processors - 1) / processors) * each * (double)s.k, 1};
  const int64_t parts = parts_of<Ring>(s, room, processors * T::BLOCKS / tiles);
  if (parts == 1) return x;
  const int64_t most = (tiles * parts + processors - 1) / processors;
  const double terms =
      (double)most * each * (double)part_of(s.k, parts) + SUMS_S * Rate<Ring>::VALUE;
  return terms < x.terms ? Chosen{choice, terms, parts} : x;
}

/* C of so few rows or columns is taken for vectors: what they share is read again. */
const int64_t FEW_VECTORS = 4;
/* A small C is computed as for vectors where each element has at least so many terms. */
const int64_t LONG_VECTOR = 512;

/* Says whether the terms of every element of such a C are neighbours of its larger operand. */
inline bool is_dots(const Shape &s) {
  return s.m == s.n || (s.m < s.n ? s.b.trans : !s.a.trans);
}

template <typename Ring>
Chosen choose(const Shape &s, const Room &room) {
  typedef Tiles<Ring> Of;
  const bool is_few = (s.m <= FEW_SIDE && s.n <= FEW_SIDE) || s.k == 0;
  const bool is_vector =
      (s.m <= FEW_VECTORS || s.n <= FEW_VECTORS) && (!is_few || s.k >= LONG_VECTOR);
  if (is_few || is_vector) {
    const double terms = (double)s.batch * (double)s.m * (double)s.k * (double)s.n;
    const bool dots = is_vector && is_dots(s);
    const int64_t threads = s.batch * s.m * s.n * (dots ? 32 : 1);
    int64_t wanted = room.processors * THREADS_EACH / (threads > 0 ? threads : 1);
    while (wanted * wanted > s.k) wanted /= 2; /* adding parts up takes as long as one */
    return {dots        ? DOTS
            : is_vector ? VECTOR
                        : FEW,
            3 * terms / room.processors, parts_of<Ring>(s, room, wanted)};
  }
  const Chosen choices[] = {with_tiles<Ring, typename Of::Large>(s, room, LARGE, 1),
                            with_tiles<Ring, typename Of::Middle>(s, room, MIDDLE, 1.3),
                            with_tiles<Ring, typename Of::Small>(s, room, SMALL, 2)};
  Chosen best = choices[0];
  for (const Chosen &x : choices)
    if (x.terms < best.terms) best = x;
  return best;
}

template <typename Ring>
mmc_status launch_chosen(cudaStream_t stream, const Shape &s, Choice choice, void *c,
                         mmci_error *error) {
  typedef Tiles<Ring> Of;
  switch (choice) {
    case LARGE:
      return launch_tiles<typename Of::Large>(stream, s, c, error);
    case MIDDLE:
      return launch_tiles<typename Of::Middle>(stream, s, c, error);
    case SMALL:
      return launch_tiles<typename Of::Small>(stream, s, c, error);
    case DOTS:
      return launch_dots<Ring>(stream, s, c, error);
    case VECTOR:
      return launch_few<Ring, 1>(stream, s, c, error);
    case FEW:
      break;
  }
  return launch_few<Ring, 4>(stream, s, c, error);
}

template <typename Ring>
mmc_status launch(cudaStream_t stream, const Shape &asked, const Room &room, void *c,
                  mmci_error *error) {
  const Chosen chosen = choose<Ring>(asked, room);
  Shape s = asked;
  s.part = part_of(s.k, chosen.parts);
  s.parts = s.part > 0 ? (s.k + s.part - 1) / s.part : 1;
  if (s.parts == 1) return launch_chosen<Ring>(stream, s, chosen.choice, c, error);
  Shape parts = s;
  parts.ldc = s.n;
  parts.c_stride = s.m * s.n;
  parts.accumulate = false;
  mmc_status status = launch_chosen<Ring>(stream, parts, chosen.choice, room.memory, error);
  return status == MMC_OK ? launch_sums<Ring>(stream, s, room.memory, c, error) : status;
}

/* Returns the longer of what the terms and what the words take, with the launch. */
template <typename Ring>
double seconds_of(const Shape &s, const Room &room) {
  const double words = (double)s.m * (double)s.k + (double)s.k * (double)s.n +
                       (double)s.m * (double)s.n,
               bytes = words * (double)s.batch * sizeof(typename Ring::Element),
               moving_s = bytes / BYTES_PER_S,
               adding_s = choose<Ring>(s, room).terms / Rate<Ring>::VALUE;
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
          gemm->accumulate,
          1,
          gemm->k};
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
                                                 const mmci_cuda_semiring_room *room, const void *a,
                                                 const void *b, void *c, mmci_error *error) {
  Shape s = shape_of(gemm);
  s.a.data = a;
  s.b.data = b;
  if (s.m == 0 || s.n == 0) return MMC_OK;
  return of_ring(gemm,
                 [&](auto ring) { return launch<decltype(ring)>(stream, s, *room, c, error); });
}

extern "C" double mmci_cuda_semiring_seconds(const mmci_gemm *gemm,
                                             const mmci_cuda_semiring_room *room) {
  const Shape s = shape_of(gemm);
  return of_ring(gemm, [&](auto ring) { return seconds_of<decltype(ring)>(s, *room); });
}
