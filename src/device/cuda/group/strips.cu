/* strips.cu: batches of R = A1 A2 ... An in f16 and bf16 from left to right, all factors side x
 * side, each side by a kernel of its own: a warp keeps strips of 16 rows of the running product in
 * registers, as the operand that tensor cores take.
 *
 * Layout   factors and result without gaps, at whole 16-byte words, or a factor that all chains
 *          share; a unit of chains, each of one warp or more, has slots for factors, which lie
 *          there as they are stored
 * Launch   a block a multiprocessor, of as many units as fit; a unit strides over the batch
 * Traffic  each factor is read once, the result is written once
 * Idea     over tensor.cu: the sums of one product are the left operand of the next where they
 *          are. Tensor cores may be given columns in any order, as long as the next factor's rows
 *          come in the same one: a lane has the columns that lie in its words. So lanes read words
 *          of factors as they are stored, whose rows begin anywhere, and no lane computes an
 *          address
 */
#include "device/cuda/group/strips_walk.cuh"
#include "device/cuda/group/tensor_math.cuh"

enum { WARP = 32, TILE = 16, HALF = 8, BANKS = 32 };

/* Columns come in groups of 16, which are two tiles of 8: of the words of two columns the first
 * tile has the lower ones, the second the upper ones. Up to eight columns that are left over are
 * one tile. */
template <typename Element_, int SIDE_, int STRIPS_, int SLOTS_, int UNITS_>
struct StripsShape {
  typedef Element_ Element;
  static constexpr int SIDE = SIDE_, STRIPS = STRIPS_, SLOTS = SLOTS_, UNITS = UNITS_,
                       AREA = SIDE * SIDE, LINES = (SIDE + TILE - 1) / TILE,
                       WARPS = (LINES + STRIPS - 1) / STRIPS, GROUPS = (SIDE + HALF - 1) / TILE,
                       HALVES = SIDE % TILE >= 1 && SIDE % TILE <= HALF,
                       TILES = 2 * GROUPS + HALVES;
  static constexpr bool BY_WORD = SIDE % 2 == 0;
  /* Matrices that begin at no whole 16-byte word are copied together. */
  static constexpr int CHAINS = SIDE % 4 == 0 ? 1
                                : BY_WORD     ? 2
                                              : 8,
                       THREADS = CHAINS * WARPS * WARP,
                       SLOT = (CHAINS * AREA + HALF - 1) / HALF * HALF,
                       BYTES = mmci_strips_gate_bytes(SLOTS) + SLOTS * SLOT * 2;
  /* Columns beyond the last matrix are read, too. */
  static constexpr int BLOCK_BYTES = UNITS * BYTES + 16;
  static_assert(UNITS * THREADS <= 1024 && BLOCK_BYTES <= 227 * 1024, "a block");
  /* Tell which word of a group's eight is at a place of its tiles: the words in their order, or
   * those of the even places first; and whether the first tile has the word's upper column there.
   */
  static constexpr __host__ __device__ int word_at(int place, bool spread) {
    return spread ? place / 2 + place % 2 * 4 : place;
  }
  static constexpr __host__ __device__ int is_turned_at(int place, bool turn) {
    return turn && place < 4;
  }
  /* Counts the words of one bank that lanes read at once of a factor, at most. */
  static constexpr int conflicts(bool spread, bool turn) {
    int most = 0;
    for (int bank = 0; bank < BANKS; bank++) {
      int count = 0, last = -1;
      for (int q = 0; q < 4; q++)
        for (int place = 0; place < HALF; place++) {
          const int row = 2 * word_at(2 * q, spread) + is_turned_at(2 * q, turn),
                    col = 2 * word_at(place, spread) + (BY_WORD ? 0 : is_turned_at(place, turn)),
                    word = (row * SIDE + col) / 2;
          count += word % BANKS == bank && word != last;
          last = word;
        }
      most = count > most ? count : most;
    }
    return most;
  }
  static constexpr int LEAST = [] {
    int least = conflicts(false, false);
    for (int way = 1; way < 4; way++) {
      const int other = conflicts(way % 2 == 1, way / 2 == 1);
      least = other < least ? other : least;
    }
    return least;
  }();
  static constexpr bool TURN = LEAST < conflicts(false, false) && LEAST < conflicts(true, false),
                        SPREAD = LEAST < conflicts(false, TURN);
  static constexpr __host__ __device__ int word_of(int place) { return word_at(place, SPREAD); }
  static constexpr __host__ __device__ int is_turned(int place) {
    return is_turned_at(place, TURN);
  }
};

/* Returns the lower halves of two words, or the upper ones. */
static __device__ __forceinline__ uint32_t halves_of(uint32_t x, uint32_t y, int upper) {
#ifdef MMCI_EMULATE_CUDA
  return upper ? x >> 16 | (y & 0xffff0000u) : (x & 0xffffu) | y << 16;
#else
  return __byte_perm(x, y, upper ? 0x7632 : 0x5410);
#endif
}

/* Returns two elements of a row, from an even column on. */
template <typename Shape>
static __device__ __forceinline__ uint32_t read_pair(const uint16_t *at) {
  if constexpr (Shape::BY_WORD) return *reinterpret_cast<const uint32_t *>(at);
  return at[0] | (uint32_t)at[1] << 16;
}

template <typename Shape>
static __device__ __forceinline__ void write_pair(uint16_t *to, uint32_t pair, int col) {
  if constexpr (Shape::BY_WORD) {
    if (col < Shape::SIDE) *reinterpret_cast<uint32_t *>(to + col) = pair;
  } else {
    if (col < Shape::SIDE) to[col] = (uint16_t)pair;
    if (col + 1 < Shape::SIDE) to[col + 1] = (uint16_t)(pair >> 16);
  }
}

/* A warp's strips of the running product from a row on, as operands, and the sums of the next one,
 * for the lane of row `line` of eight and of pair. Of each group it has four columns of two rows of
 * a strip, of a half group two columns. Columns beyond the side are 0. */
template <typename Shape>
struct Strips {
  typedef typename Shape::Element Element;
  static constexpr int SIDE = Shape::SIDE, STRIPS = Shape::STRIPS, GROUPS = Shape::GROUPS,
                       TILES = Shape::TILES, WHOLE = GROUPS * TILE;
  const int row, line, pair;
  float sums[STRIPS][TILES][4];
  uint32_t groups[STRIPS][GROUPS > 0 ? GROUPS : 1][4], halves[STRIPS][2];

  __device__ __forceinline__ Strips(int row_, int line_, int pair_)
      : row(row_), line(line_), pair(pair_) {}

  /* Returns two elements without what lies beyond the side. */
  static __device__ __forceinline__ uint32_t within(uint32_t both, int first, int second) {
    return (first < SIDE ? both & 0xffffu : 0) | (second < SIDE ? both & 0xffff0000u : 0);
  }

  __device__ __forceinline__ void read(const uint16_t *matrix) {
#pragma unroll
    for (int s = 0; s < STRIPS; s++)
#pragma unroll
      for (int below = 0; below < 2; below++) {
        const int r = row + s * TILE + below * HALF + line;
        const uint16_t *from = matrix + (r < SIDE ? r : SIDE - 1) * SIDE;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
          const int first = g * TILE + 2 * Shape::word_of(2 * pair),
                    second = g * TILE + 2 * Shape::word_of(2 * pair + 1);
          const uint32_t x = read_pair<Shape>(from + first), y = read_pair<Shape>(from + second);
#pragma unroll
          for (int u = 0; u < 2; u++) {
            const int upper = u ^ Shape::is_turned(2 * pair);
            groups[s][g][2 * u + below] =
                within(halves_of(x, y, upper), first + upper, second + upper);
          }
        }
        if constexpr (Shape::HALVES != 0) {
          const int first = WHOLE + 2 * pair;
          halves[s][below] = within(read_pair<Shape>(from + first), first, first + 1);
        }
      }
  }

  __device__ __forceinline__ void take() {
#pragma unroll
    for (int s = 0; s < STRIPS; s++) {
#pragma unroll
      for (int g = 0; g < GROUPS; g++) {
        const int first = g * TILE + 2 * Shape::word_of(2 * pair),
                  second = g * TILE + 2 * Shape::word_of(2 * pair + 1);
#pragma unroll
        for (int x = 0; x < 4; x++) {
          const int upper = x / 2 ^ Shape::is_turned(2 * pair);
          const float *of = &sums[s][2 * g + x / 2][x % 2 * 2];
          groups[s][g][x] = within(mmci_pair<Element>(of[0], of[1]), first + upper, second + upper);
        }
      }
      if constexpr (Shape::HALVES != 0) {
        const int first = WHOLE + 2 * pair;
#pragma unroll
        for (int x = 0; x < 2; x++)
          halves[s][x] =
              within(mmci_pair<Element>(sums[s][2 * GROUPS][2 * x], sums[s][2 * GROUPS][2 * x + 1]),
                     first, first + 1);
      }
    }
  }

  __device__ __forceinline__ void write(uint16_t *matrix) const {
#pragma unroll
    for (int s = 0; s < STRIPS; s++)
#pragma unroll
      for (int below = 0; below < 2; below++) {
        const int r = row + s * TILE + below * HALF + line;
        if (r >= SIDE) continue;
        uint16_t *to = matrix + r * SIDE;
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
#pragma unroll
          for (int x = 0; x < 2; x++) {
            const float one = sums[s][2 * g][2 * below + x],
                        two = sums[s][2 * g + 1][2 * below + x];
            const bool turned = Shape::is_turned(2 * pair) != 0;
            write_pair<Shape>(to, mmci_pair<Element>(turned ? two : one, turned ? one : two),
                              g * TILE + 2 * Shape::word_of(2 * pair + x));
          }
        if constexpr (Shape::HALVES != 0) {
          const float *of = &sums[s][2 * GROUPS][2 * below];
          write_pair<Shape>(to, mmci_pair<Element>(of[0], of[1]), WHOLE + 2 * pair);
        }
      }
  }

  __device__ __forceinline__ void multiply(const uint16_t *factor);
};

/* Reads a factor as the right operand: its rows from first on, of which a lane has two or four. */
template <typename Shape, int ROWS>
struct Right {
  static constexpr int SIDE = Shape::SIDE;
  /* Rows of a group, for two places [e] of two tiles [u], or of a half group. */
  const uint16_t *row[2][2];
  bool there[2][2];

  __device__ __forceinline__ Right(const uint16_t *factor, int first, int pair) {
#pragma unroll
    for (int e = 0; e < 2; e++)
#pragma unroll
      for (int u = 0; u < ROWS / 2; u++) {
        const int r =
            first + (ROWS == 4 ? 2 * Shape::word_of(2 * pair + e) + (u ^ Shape::is_turned(2 * pair))
                               : 2 * pair + e);
        there[e][u] = r < SIDE;
        row[e][u] = factor + (r < SIDE ? r : SIDE - 1) * SIDE;
      }
  }

  /* Reads the columns of a group that are at a place of its two tiles. */
  __device__ __forceinline__ void read_group(int group, int place, uint32_t (&one)[ROWS / 2],
                                             uint32_t (&two)[ROWS / 2]) const {
    const int col = group * TILE + 2 * Shape::word_of(place), turned = Shape::is_turned(place);
    if constexpr (Shape::BY_WORD) {
#pragma unroll
      for (int u = 0; u < ROWS / 2; u++) {
        uint32_t word[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
          word[e] = *reinterpret_cast<const uint32_t *>(row[e][u] + col);
          if (!there[e][u]) word[e] = 0;
        }
        one[u] = halves_of(word[0], word[1], turned);
        two[u] = halves_of(word[0], word[1], 1 - turned);
      }
    } else {
      read_column(col + turned, one);
      read_column(col + 1 - turned, two);
    }
  }

  __device__ __forceinline__ void read_column(int col, uint32_t (&out)[ROWS / 2]) const {
#pragma unroll
    for (int u = 0; u < ROWS / 2; u++)
      out[u] = (there[0][u] ? row[0][u][col] : 0) | (uint32_t)(there[1][u] ? row[1][u][col] : 0)
                                                        << 16;
  }
};

template <typename Element>
static __device__ __forceinline__ void multiply_terms(float (&sums)[4], const uint32_t (&a)[4],
                                                      const uint32_t (&b)[2]) {
  mmci_multiply_tiles<Element>(sums, a, b[0], b[1]);
}
template <typename Element>
static __device__ __forceinline__ void multiply_terms(float (&sums)[4], const uint32_t (&a)[2],
                                                      const uint32_t (&b)[1]) {
  mmci_multiply_halves<Element>(sums, a, b[0]);
}

/* Multiplies a warp's strips by the rows of a factor from first on: a group of them, or a half. */
template <typename Shape, int ROWS, typename Left>
static __device__ __forceinline__ void multiply_rows(
    const Left &left, const uint16_t *factor, int first, int line, int pair,
    float (&sums)[Shape::STRIPS][Shape::TILES][4]) {
  typedef typename Shape::Element Element;
  constexpr int GROUPS = Shape::GROUPS, STRIPS = Shape::STRIPS;
  const Right<Shape, ROWS> right(factor, first, pair);
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    uint32_t one[ROWS / 2], two[ROWS / 2];
    right.read_group(g, line, one, two);
#pragma unroll
    for (int s = 0; s < STRIPS; s++) {
      multiply_terms<Element>(sums[s][2 * g], left(s), one);
      multiply_terms<Element>(sums[s][2 * g + 1], left(s), two);
    }
  }
  if constexpr (Shape::HALVES != 0) {
    uint32_t words[ROWS / 2];
    right.read_column(GROUPS * TILE + line, words);
#pragma unroll
    for (int s = 0; s < STRIPS; s++) multiply_terms<Element>(sums[s][2 * GROUPS], left(s), words);
  }
}

template <typename Shape>
__device__ __forceinline__ void Strips<Shape>::multiply(const uint16_t *factor) {
#pragma unroll
  for (int s = 0; s < STRIPS; s++)
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
      for (int x = 0; x < 4; x++) sums[s][t][x] = 0;
#pragma unroll
  for (int g = 0; g < GROUPS; g++)
    multiply_rows<Shape, 4>([&](int s) -> const uint32_t(&)[4] { return groups[s][g]; }, factor,
                            g *TILE, line, pair, sums);
  if constexpr (Shape::HALVES != 0)
    multiply_rows<Shape, 2>([&](int s) -> const uint32_t(&)[2] { return halves[s]; }, factor,
                            GROUPS *TILE, line, pair, sums);
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::UNITS *Shape::THREADS, 1)
    multiply_strips(const __grid_constant__ mmci_squares e) {
  if constexpr (!MMCI_HAS_BULK_COPIES) return;
  constexpr int AREA = Shape::AREA, THREADS = Shape::THREADS;
  MMCI_DYNAMIC_SHARED(memory);
  const mmci_strips_unit unit = {THREADS, Shape::CHAINS, AREA, Shape::SLOTS, Shape::SLOT, false};
  const int thread = (int)threadIdx.x % THREADS, warp = thread / WARP,
            row = warp % Shape::WARPS * Shape::STRIPS * TILE, line = thread % WARP / 4,
            pair = thread % 4;
  mmci_walk_strips<uint16_t>(
      e, unit, memory + (int)threadIdx.x / THREADS * Shape::BYTES, warp / Shape::WARPS,
      [&]() { return Strips<Shape>(row, line, pair); },
      [](const uint16_t *from, int matrices, uint16_t *to, mmci_counted_gate *gate) {
        mmci_load_matrices(from, (unsigned)(matrices * AREA), to, gate);
      },
      [](uint16_t *to, int matrices, const uint16_t *from) {
        mmci_store_matrices(to, (unsigned)(matrices * AREA), from);
      });
}

/* ---- on the host ----------------------------------------------------------------------------- */

typedef void (*kernel_fn)(mmci_squares);

typedef struct variant {
  kernel_fn kernel;
  int chains, threads, units, bytes, block_bytes;
} variant;

template <typename Shape>
static constexpr variant variant_of() {
  return {multiply_strips<Shape>, Shape::CHAINS, Shape::THREADS,
          Shape::UNITS,           Shape::BYTES,  Shape::BLOCK_BYTES};
}

#define VARIANT_F16(...) variant_of<StripsShape<mmci_f16_element, __VA_ARGS__>>(),
#define VARIANT_BF16(...) variant_of<StripsShape<mmci_bf16_element, __VA_ARGS__>>(),
static const variant VARIANTS_F16[] = {MMCI_ROWS(MMCI_STRIPS_HALF, VARIANT_F16)},
                     VARIANTS_BF16[] = {MMCI_ROWS(MMCI_STRIPS_HALF, VARIANT_BF16)};

static const variant *variant_for(mmc_dtype dtype, int number) {
  return (dtype == MMC_F16 ? VARIANTS_F16 : VARIANTS_BF16) + number;
}

extern "C" mmc_status mmci_strips_prepare(mmc_dtype dtype, int number, mmci_error *error) {
  const variant *v = variant_for(dtype, number);
  MMCI_CUDA_TRY(
      cudaFuncSetAttribute(v->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, v->block_bytes));
  return MMC_OK;
}

extern "C" mmc_status mmci_strips_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                         mmc_dtype dtype, int number, const mmci_squares *squares,
                                         mmci_error *error) {
  const variant *v = variant_for(dtype, number);
  const int64_t all = (squares->batch - 1) / v->chains + 1,
                blocks = all < limits->multiprocessors ? all : limits->multiprocessors,
                asked = (all - 1) / blocks + 1, units = asked < v->units ? asked : v->units;
  MMCI_CUDA_TRY(mmci_launch_overlapped(
      v->kernel, limits->overlap, dim3((unsigned)blocks), dim3((unsigned)(units * v->threads)),
      (size_t)(v->block_bytes - (v->units - units) * v->bytes), stream, *squares));
  return MMC_OK;
}
