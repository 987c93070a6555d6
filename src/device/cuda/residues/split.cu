/* split.cu: cuts an operand into residues, or integers of up to 32 bits into digits.
 *
 * Layout any leading dimension; planes as residues_kernels.h says
 * Launch rows along k: a block each. Rows across: 32 rows x 128 k's, 128 rows x 128 k's of bytes
 * Traffic reads an operand once, writes a byte a plane for each element
 * Idea both ways lanes that follow each other read whole sectors and write whole sectors at once;
 *         half a sector takes the L2 as long as several. Which k lies where within 128 k's does not
 *         matter to sums, so nothing but bytes is transposed. */
extern "C" {
#include "base/status.h"
}
#include <type_traits>

#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/residues/moduli.cuh"
#include "device/cuda/residues/residues_kernels.h"

enum {
  THREADS = 256,
  WARPS = THREADS / 32,
  SPLIT_THREADS = 128,
  ROWS = 32, /* rows across of a block */
  TURN_THREADS = 256,
  TURN_ROWS = 128, /* rows of bytes of a block */
  LINE_WORDS = MMCI_LINE / 4,
};

/* Elements as integers; doubles are scaled, others made residues around 0 of a modulus that is not
 * 0. */
template <class Element>
struct Source {
  static __device__ __forceinline__ int64_t read(Element x, double, uint64_t modulus) {
    return modulus == 0 ? (int64_t)x : mmci_residue_around_0((int64_t)x, modulus);
  }
};
template <>
struct Source<uint64_t> {
  static __device__ __forceinline__ int64_t read(uint64_t x, double, uint64_t modulus) {
    return modulus == 0 ? (int64_t)x : mmci_residue_around_0((int64_t)(x % modulus), modulus);
  }
};
template <>
struct Source<double> {
  static __device__ __forceinline__ int64_t read(double x, double scale, uint64_t) {
#ifdef MMCI_EMULATE_CUDA
    return llrint(x * scale);
#else
    return __double2ll_rn(x * scale);
#endif
  }
};
/* Floats become numbers below 2^28, as the end of a double of 2^52 and more: their product with a
 * scale has 28 bits. */
template <>
struct Source<float> {
  static __device__ __forceinline__ int32_t read(float x, double scale, uint64_t) {
    const double end = fma((double)x, scale, 0x1.8p52);
#ifdef MMCI_EMULATE_CUDA
    uint64_t bits;
    memcpy(&bits, &end, sizeof bits);
    return (int32_t)(uint32_t)bits;
#else
    return __double2loint(end);
#endif
  }
};

template <class Element>
struct DigitsOf {
  typedef uint64_t type;
};
template <>
struct DigitsOf<float> {
  typedef uint32_t type;
};

/* Returns the byte of a plane of four elements that are given by their digits. */
template <bool DIGITS, class Digits>
static __device__ __forceinline__ uint32_t word_of(const Digits (&digits)[4], int plane,
                                                   const mmci_modulus &modulus) {
  int bytes[4];
#pragma unroll
  for (int e = 0; e < 4; e++)
    bytes[e] = DIGITS ? (int)(digits[e] >> 8 * plane) : mmci_residue_of_digits(digits[e], modulus);
  return mmci_pack_bytes(bytes);
}

/* Calls write(plane, modulus) for every plane, the first of which has numbers' last digits: those
 * are residues of 256. */
template <class Write>
static __device__ __forceinline__ void for_planes(const mmci_modulus *moduli, int planes,
                                                  Write write) {
  write(std::true_type(), 0, mmci_modulus());
  for (int p = 1; p < planes; p++) {
    const mmci_modulus modulus = moduli[p];
    write(std::false_type(), p, modulus);
  }
}

struct Split {
  mmci_residue_operand to;
  const void *x;
  int64_t ld;
  const mmci_moduli *moduli;
  const mmci_residue_state *state;
  uint64_t modulus; /* 0 means that there is none */
  int which;        /* operand */
  bool is_alone;    /* its rows are scaled by what is in them alone */
};

template <bool DIGITS>
static __device__ __forceinline__ int planes_of(const Split &s) {
  return DIGITS ? s.state->digits[s.which] : s.state->planes;
}

/* Brings the moduli to shared memory. */
static __device__ __forceinline__ void load_moduli(mmci_modulus *to, const Split &s, int planes) {
  if ((int)threadIdx.x < planes) to[threadIdx.x] = s.moduli->modulus[threadIdx.x];
}

/* Returns the scale of a row, which one thread of it writes. */
template <class Element>
static __device__ __forceinline__ double scale_of(const Split &s, int64_t row, bool write) {
  if (Element(0.5) == Element(0) || row >= s.to.rows) return 0;
  mmci_residue_row *r = s.to.row + row;
  const double reach = s.to.seen->reach;
  const double scale = s.is_alone              ? mmci_row_scale(r->squares, r->grain, reach, s.to.k)
                       : s.to.seen->whole != 0 ? mmci_whole_scale(r->squares, reach)
                                               : mmci_residue_scale(r->squares, reach, s.to.k);
  if (write) {
    double unit[2];
    mmci_inverse(scale, unit);
    r->scale = scale;
    r->unit[0] = unit[0];
    r->unit[1] = unit[1];
  }
  return scale;
}

/* Returns which k's byte `at` of a word is, of the 128 of a line. Bytes keep their order, so that
 * operands that lie so already need no copy. */
template <class Element>
static __device__ __forceinline__ int k_of(int word, int at) {
  return sizeof(Element) == 1 ? 4 * word + at : 64 * (at / 2) + 2 * word + at % 2;
}

/* TWOS says that two neighbours may be read as one. */
template <class Element, bool DIGITS, bool TWOS>
__global__ void __launch_bounds__(THREADS) residues_split_along(Split s) {
  struct alignas(2 * sizeof(Element)) Two {
    Element x[2];
  };
  __shared__ mmci_modulus moduli[MMCI_MODULI];
  const int planes = planes_of<DIGITS>(s);
  if (planes == 0 || (s.state->kept >> s.which & 1) != 0) return;
  if (!DIGITS) load_moduli(moduli, s, planes);
  const int lane = threadIdx.x % 32;
  const int64_t row = blockIdx.x, stride = s.to.rows * s.to.lines * MMCI_LINE;
  const Element *from = static_cast<const Element *>(s.x) + row * s.ld;
  const double scale = scale_of<Element>(s, row, threadIdx.x == 0);
  __syncthreads();
  for (int64_t line = threadIdx.x / 32; line < s.to.lines; line += WARPS) {
    typename DigitsOf<Element>::type digits[4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int64_t k = line * MMCI_LINE + k_of<Element>(lane, 2 * i);
      Two two = {};
      if (TWOS && k + 1 < s.to.k) {
        two = *reinterpret_cast<const Two *>(from + k);
      } else {
        if (k < s.to.k) two.x[0] = from[k];
        if (k + 1 < s.to.k) two.x[1] = from[k + 1];
      }
#pragma unroll
      for (int j = 0; j < 2; j++)
        digits[2 * i + j] = mmci_digits_of(Source<Element>::read(two.x[j], scale, s.modulus));
    }
    int8_t *to = s.to.planes + (row * s.to.lines + line) * MMCI_LINE + 4 * lane;
    for_planes(moduli, planes, [&](auto last_digit, int p, const mmci_modulus &modulus) {
      constexpr bool AS_IS = DIGITS || decltype(last_digit)::value;
      *reinterpret_cast<uint32_t *>(to) = word_of<AS_IS>(digits, p, modulus);
      to += stride;
    });
  }
}

/* Four lanes share a row and write 64 bytes of it at once. */
template <class Element, bool DIGITS>
__global__ void __launch_bounds__(SPLIT_THREADS) residues_split_across(Split s) {
  enum { QUAD = 4, PARTS = 2, WARP_ROWS = 32 / QUAD }; /* a lane has two parts of four words */
  __shared__ mmci_modulus moduli[MMCI_MODULI];
  const int planes = planes_of<DIGITS>(s);
  if (planes == 0 || (s.state->kept >> s.which & 1) != 0) return;
  if (!DIGITS) load_moduli(moduli, s, planes);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = lane / WARP_ROWS;
  const int64_t row = (int64_t)blockIdx.x * ROWS + warp * WARP_ROWS + lane % WARP_ROWS,
                line = blockIdx.y;
  const int64_t stride = s.to.rows * s.to.lines * MMCI_LINE;
  const double scale = scale_of<Element>(s, row, part == 0 && line == 0);
  __syncthreads();
  if (row >= s.to.rows) return;
  const int64_t first = line * MMCI_LINE;
  const Element *from = static_cast<const Element *>(s.x) + first * s.ld + row;
  typename DigitsOf<Element>::type digits[PARTS][4][4];
#pragma unroll
  for (int i = 0; i < PARTS; i++)
#pragma unroll
    for (int w = 0; w < 4; w++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int k = k_of<Element>(LINE_WORDS / PARTS * i + 4 * part + w, e);
        const Element x = first + k < s.to.k ? from[k * s.ld] : Element(0);
        digits[i][w][e] = mmci_digits_of(Source<Element>::read(x, scale, s.modulus));
      }
  int8_t *to = s.to.planes + (row * s.to.lines + line) * MMCI_LINE + 16 * part;
  for_planes(moduli, planes, [&](auto last_digit, int p, const mmci_modulus &modulus) {
    constexpr bool AS_IS = DIGITS || decltype(last_digit)::value;
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
      uint32_t words[4];
#pragma unroll
      for (int w = 0; w < 4; w++) words[w] = word_of<AS_IS>(digits[i][w], p, modulus);
      *reinterpret_cast<uint4 *>(to + MMCI_LINE / PARTS * i) =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
    to += stride;
  });
}

/* Loads 16 bytes, zeros beyond so many; `word` says how many may be read at once: 16, 4 or 1. */
static __device__ __forceinline__ void load_bytes(const int8_t *from, int64_t there, int word,
                                                  uint32_t (&to)[4]) {
  if (word == 16 && there >= 16) {
    const uint4 all = *reinterpret_cast<const uint4 *>(from);
    to[0] = all.x;
    to[1] = all.y;
    to[2] = all.z;
    to[3] = all.w;
    return;
  }
#pragma unroll
  for (int w = 0; w < 4; w++) {
    to[w] = 0;
    if (word >= 4 && 4 * w + 4 <= there) {
      to[w] = *reinterpret_cast<const uint32_t *>(from + 4 * w);
      continue;
    }
    for (int e = 0; e < 4 && 4 * w + e < there; e++)
      to[w] |= (uint32_t)(uint8_t)from[4 * w + e] << 8 * e;
  }
}

/* Turns 128 x 128 bytes by shared memory. A thread takes four k's of 16 rows. The 16 bytes of a
 * row's k's lie there where neither writing nor reading meets other lanes in a bank. */
__global__ void __launch_bounds__(TURN_THREADS) residues_turn_bytes(Split s, int word) {
  enum { BYTES = 16, PARTS = TURN_ROWS / BYTES, LINES = TURN_THREADS / PARTS };
  __shared__ uint4 tile[TURN_ROWS][MMCI_LINE / BYTES];
  const int thread = (int)threadIdx.x, part = thread % PARTS, at = thread / PARTS;
  const int64_t row = (int64_t)blockIdx.x * TURN_ROWS, line = blockIdx.y;
  const int64_t first = line * MMCI_LINE + 4 * at, mine = row + BYTES * part;
  const int8_t *from = static_cast<const int8_t *>(s.x) + first * s.ld + mine;
  uint32_t bytes[4][4];
#pragma unroll
  for (int e = 0; e < 4; e++)
    load_bytes(from + e * s.ld, first + e < s.to.k ? s.to.rows - mine : 0, word, bytes[e]);
#pragma unroll
  for (int w = 0; w < 4; w++) {
    uint32_t four[4] = {bytes[0][w], bytes[1][w], bytes[2][w], bytes[3][w]};
    mmci_turn_bytes(four);
#pragma unroll
    for (int r = 0; r < 4; r++)
      reinterpret_cast<uint32_t *>(&tile[BYTES * part + 4 * w + r][at / 4 ^ part])[at % 4] =
          four[r];
  }
  __syncthreads();
#pragma unroll
  for (int r = at; r < TURN_ROWS; r += LINES)
    if (row + r < s.to.rows)
      *reinterpret_cast<uint4 *>(s.to.planes + ((row + r) * s.to.lines + line) * MMCI_LINE +
                                 BYTES * part) = tile[r][part ^ r / BYTES];
}

static int64_t blocks_of(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

template <class Element, bool DIGITS>
static mmc_status launch_split(cudaStream_t stream, const Split &s, bool across,
                               mmci_error *error) {
  if constexpr (sizeof(Element) == 1) {
    if (across) {
      const uint64_t places = (uint64_t)s.ld | reinterpret_cast<uintptr_t>(s.x);
      const dim3 grid((unsigned)blocks_of(s.to.rows, TURN_ROWS), (unsigned)s.to.lines);
      MMCI_CUDA_TRY(mmci_launch(residues_turn_bytes, grid, dim3(TURN_THREADS), 0, stream, s,
                                places % 16 == 0  ? 16
                                : places % 4 == 0 ? 4
                                                  : 1));
      return MMC_OK;
    }
  } else if (across) {
    const dim3 grid((unsigned)blocks_of(s.to.rows, ROWS), (unsigned)s.to.lines);
    MMCI_CUDA_TRY(mmci_launch(residues_split_across<Element, DIGITS>, grid, dim3(SPLIT_THREADS), 0,
                              stream, s));
    return MMC_OK;
  }
  const bool twos = s.ld % 2 == 0 && reinterpret_cast<uintptr_t>(s.x) % (2 * sizeof(Element)) == 0;
  MMCI_CUDA_TRY(mmci_launch(twos ? residues_split_along<Element, DIGITS, true>
                                 : residues_split_along<Element, DIGITS, false>,
                            dim3((unsigned)s.to.rows), dim3(THREADS), 0, stream, s));
  return MMC_OK;
}

extern "C" mmc_status mmci_residues_split(cudaStream_t stream, const mmci_residue_product *product,
                                          const mmci_residue_operand *operand, const void *x,
                                          int64_t ld, bool across, mmci_error *error) {
  const Split s = {*operand,
                   x,
                   ld,
                   product->moduli,
                   product->state,
                   product->gemm.rule.modulus,
                   operand == &product->b,
                   product->peak > 0};
  switch (product->gemm.dtype) {
    case MMC_F64:
      return launch_split<double, false>(stream, s, across, error);
    case MMC_F32:
      return launch_split<float, false>(stream, s, across, error);
    case MMC_I64:
      return launch_split<int64_t, false>(stream, s, across, error);
    case MMC_U64:
      return launch_split<uint64_t, false>(stream, s, across, error);
    case MMC_I32:
    case MMC_U32:
      return launch_split<int32_t, true>(stream, s, across, error);
    case MMC_I16:
    case MMC_U16:
      return launch_split<int16_t, true>(stream, s, across, error);
    default:
      return launch_split<int8_t, true>(stream, s, across, error);
  }
}
