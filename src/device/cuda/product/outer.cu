/* outer.cu: products of f16 and bf16 of few terms, which are bound by what they write. A block
 * computes a tile of C by tensor cores, and writes it from shared memory 16 bytes at a time,
 * wherever its rows begin. cuBLAS takes five to ten times what the writing takes, most of all where
 * lines are no multiples of 16 bytes.
 *
 * Layout operands of any forms and leading dimensions, read up to 16 bytes at a time, as lines
 *   allow, and kept with zeros up to a multiple of 16 terms; C by rows
 * Launch 1-D, a block of 32 to 128 threads for each tile of each product of the batch
 * Order  16 terms at a time, from the first k to the last
 * Traffic 2mkn flops; writes C once, reads A for every tile across, of 128 columns and more where
 *   there are so many, and B for every tile down, of up to four bands of rows, mostly from caches
 */
extern "C" {
#include "base/status.h"
#include "device/cuda/product/outer.h"
}
#include "device/cuda/group/tensor_math.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_kernels.h"

namespace {

enum {
  WARP = 32,
  TERMS = 16, /* of one multiplication by tensor cores */
  TILE_ROWS = 16,
  TILE_COLS = 8,
  WIDTH = 4, /* pairs of tiles that a warp multiplies a strip of rows by at a time */
  GROUP_COLS = 2 * WIDTH * TILE_COLS,
  WORD = 8,    /* elements in 16 bytes */
  NARROW = 64, /* columns whose rows leave most threads idle that have one each */
};

/* A line of an operand is a row of A or a column of B. Term k of line i lies at i * across +
 * k * along; `together` terms, 8, 2 or 1, can be read at once, or where by_terms 8 lines. */
struct Lines {
  const uint16_t *data;
  int64_t across, along, stride;
  int together;
  bool by_terms;
};

struct Outer {
  uint32_t m, k, n, tiles, tiles_across, bands, rows, cols, pitch, words, magic;
  Lines a, b;
  uint16_t *c;
  int64_t ldc, c_stride;
  bool packed, by_words; /* by_words: rows of C follow one another, or begin and end at words */
};

/* Where a tile's lines lie in shared memory, `most` of them at most: each with its terms together,
 * or each term with its lines together. Those that are read at once begin in other banks. */
template <int COUNT>
struct Stage {
  static __device__ __forceinline__ uint32_t pitch_of(const Lines &x, uint32_t most) {
    return x.by_terms ? mmci_outer_pitch(most) : (uint32_t)(COUNT + WORD);
  }

  /* Copies a line, with zeros up to COUNT terms. */
  static __device__ __forceinline__ void load_line(const Lines &x, const uint16_t *from,
                                                   uint32_t terms, uint16_t *to) {
    uint4 *words = reinterpret_cast<uint4 *>(to);
    if (x.together == WORD) {
#pragma unroll
      for (uint32_t w = 0; w < COUNT / WORD; w++)
        words[w] = w * WORD < terms ? reinterpret_cast<const uint4 *>(from)[w] : uint4{0, 0, 0, 0};
      return;
    }
    uint32_t pairs[COUNT / 2];
    if (x.together == 2) {
#pragma unroll
      for (uint32_t p = 0; p < COUNT / 2; p++)
        pairs[p] = 2 * p < terms ? reinterpret_cast<const uint32_t *>(from)[p] : 0;
    } else {
      const int64_t along = x.along;
#pragma unroll
      for (uint32_t p = 0; p < COUNT / 2; p++) {
        pairs[p] = 2 * p < terms ? from[0] : 0;
        if (2 * p + 1 < terms) pairs[p] |= (uint32_t)from[along] << 16;
        from += 2 * along;
      }
    }
#pragma unroll
    for (uint32_t w = 0; w < COUNT / WORD; w++)
      words[w] = uint4{pairs[4 * w], pairs[4 * w + 1], pairs[4 * w + 2], pairs[4 * w + 3]};
  }

  /* Copies lines; the thread is one of as many as the block has. */
  static __device__ __forceinline__ void load(const Lines &x, const uint16_t *from, uint32_t lines,
                                              uint32_t terms, uint32_t most, uint32_t thread,
                                              uint16_t *to) {
    if (!x.by_terms) {
      for (uint32_t i = thread; i < lines; i += blockDim.x)
        load_line(x, from + i * x.across, terms, to + i * (COUNT + WORD));
      return;
    }
    const uint32_t pitch = mmci_outer_pitch(most), words = (lines + WORD - 1) / WORD;
    for (uint32_t i = thread; i < words * COUNT; i += blockDim.x) {
      const uint32_t term = i % COUNT, word = i / COUNT;
      *reinterpret_cast<uint4 *>(to + term * pitch + word * WORD) =
          term < terms ? *reinterpret_cast<const uint4 *>(from + term * x.along + word * WORD)
                       : uint4{0, 0, 0, 0};
    }
  }
};

__device__ __forceinline__ uint32_t phase_of(const uint16_t *line) {
  return (uint32_t)(reinterpret_cast<uintptr_t>(line) / 2) % WORD;
}

__device__ __forceinline__ void copy_word(uint16_t *to, const uint16_t *from) {
  *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
}

/* Writes the first and the last elements of a line that are no whole words of memory: of 16 threads
 * one each. In shared memory the line begins `phase` elements after a word. */
struct Ends {
  bool there;
  uint32_t at;

  __device__ __forceinline__ Ends(uint32_t phase, uint32_t length, uint32_t thread) {
    const uint32_t end = phase + length, last = end / WORD * WORD, e = thread % WORD;
    const bool is_head = thread < WORD, is_whole = phase == 0 && end >= WORD;
    at = is_head ? e : last + e;
    there = at >= phase && at < end && (is_head ? !is_whole : last > 0);
  }
};

/* Writes a tile without gaps, or one whose rows begin at words, from shared memory. */
__device__ __forceinline__ void write_words(const Outer &x, const uint16_t *stage, uint16_t *c,
                                            uint32_t rows, uint32_t cols) {
  if (x.packed) {
    const uint32_t length = rows * cols, phase = phase_of(c), end = phase + length;
    for (uint32_t at = threadIdx.x * WORD; at + WORD <= end; at += blockDim.x * WORD)
      if (at >= phase) copy_word(c + at - phase, stage + at);
    const Ends ends(phase, length, threadIdx.x % 16);
    if (threadIdx.x < 16 && ends.there) c[ends.at - phase] = stage[ends.at];
    return;
  }
  for (uint32_t w = threadIdx.x; w < rows * x.words; w += blockDim.x) {
    const uint32_t row = x.magic != 0 ? __umulhi(w, x.magic) : w, at = (w - row * x.words) * WORD;
    copy_word(c + row * x.ldc + at, stage + row * x.pitch + at);
  }
}

/* Writes a tile of up to 16 words a row, each row by 16 threads. Rows that a thread writes in turn
 * are 8 rows apart, so that all begin at the same place of a word. Where that is so of all rows, a
 * row may end in shared memory where the next one begins. */
__device__ __forceinline__ void write_rows(const Outer &x, const uint16_t *stage, uint16_t *c,
                                           uint32_t rows, uint32_t cols) {
  const uint32_t thread = threadIdx.x % 16, at = thread * WORD;
  for (uint32_t first = threadIdx.x / 16; first < WORD; first += blockDim.x / 16) {
    uint16_t *to = c + first * x.ldc;
    const uint16_t *from = stage + first * x.pitch;
    const uint32_t phase = phase_of(to);
    const bool is_whole = at >= phase && at + WORD <= phase + cols;
    const Ends ends(phase, cols, thread);
    to -= phase;
    for (uint32_t row = first; row < rows; row += WORD) {
      if (is_whole) copy_word(to + at, from + at);
      if (ends.there) to[ends.at] = from[ends.at];
      to += WORD * x.ldc;
      from += WORD * x.pitch;
    }
  }
}

/* STEPS times TERMS terms at most. Where PAIRS, rows of C begin at even places of memory, and two
 * of its elements are written to shared memory at once. */
template <typename Element, int STEPS, bool PAIRS>
__global__ void __launch_bounds__(128) outer(const __grid_constant__ Outer x) {
  enum { COUNT = STEPS * TERMS };
  typedef Stage<COUNT> S;
  MMCI_DYNAMIC_SHARED(memory);
  const int64_t product = (int64_t)(blockIdx.x / x.tiles);
  const uint32_t tile = blockIdx.x % x.tiles, down = tile / x.tiles_across,
                 begin_row = down * x.bands * x.rows,
                 end_row = min(begin_row + x.bands * x.rows, x.m),
                 first_col = (tile - down * x.tiles_across) * x.cols,
                 cols = min(x.cols, x.n - first_col);
  uint16_t *a_lines = reinterpret_cast<uint16_t *>(memory),
           *b_lines = a_lines + mmci_outer_lines(x.rows, COUNT),
           *stage = b_lines + mmci_outer_lines(x.cols, COUNT);
  const uint16_t *a = x.a.data + product * x.a.stride,
                 *b = x.b.data + product * x.b.stride + first_col * x.b.across;
  const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP,
                 line = lane / 4, pair = lane % 4 * 2;
  /* From the last thread on, so that all load about as many lines. */
  const auto load_a = [&](uint32_t row) {
    S::load(x.a, a + row * x.a.across, min(x.rows, end_row - row), x.k, x.rows,
            blockDim.x - 1 - threadIdx.x, a_lines);
  };
  S::load(x.b, b, cols, x.k, x.cols, threadIdx.x, b_lines);
  load_a(begin_row);
  const uint32_t a_pitch = S::pitch_of(x.a, x.rows), b_pitch = S::pitch_of(x.b, x.cols);
  const uint32_t eight = lane / WORD % 2 * WORD, sixteen = lane / TERMS * WORD;
  /* The second tile of A is 8 rows on, that of B 8 terms; the third the other way. */
  const mmci_tile_row a_at = mmci_tile_row_of(
                          a_lines + (x.a.by_terms ? (lane % WORD + sixteen) * a_pitch + eight
                                                  : (lane % WORD + eight) * a_pitch + sixteen)),
                      b_at = mmci_tile_row_of(
                          b_lines + (x.b.by_terms ? (lane % WORD + eight) * b_pitch + sixteen
                                                  : (lane % WORD + sixteen) * b_pitch + eight));
  const uint32_t a_next = x.a.by_terms ? 1 : a_pitch, a_step = TERMS * (x.a.by_terms ? a_pitch : 1),
                 b_next = x.b.by_terms ? 1 : b_pitch, b_step = TERMS * (x.b.by_terms ? b_pitch : 1);
  uint32_t right[WIDTH][STEPS][4], had = UINT32_MAX;
  for (uint32_t first_row = begin_row; first_row < end_row; first_row += x.rows) {
    const uint32_t rows = min(x.rows, end_row - first_row);
    uint16_t *c = x.c + product * x.c_stride + first_row * x.ldc + first_col;
    const auto phase_of_row = [&](uint32_t row) {
      return phase_of(x.packed ? c : c + row * x.ldc);
    };
    __syncthreads();
    const uint32_t strips = (rows + TILE_ROWS - 1) / TILE_ROWS,
                   units = strips * ((cols + GROUP_COLS - 1) / GROUP_COLS),
                   last = (warp + 1) * units / warps;
    for (uint32_t unit = warp * units / warps; unit < last; unit++) {
      const uint32_t group = unit / strips, first = (unit - group * strips) * TILE_ROWS,
                     col = group * GROUP_COLS;
      if (group != had) {
#pragma unroll
        for (int j = 0; j < WIDTH; j++)
#pragma unroll
          for (int s = 0; s < STEPS; s++) {
            const uint32_t at = col + j * 2 * TILE_COLS;
            if (at >= cols) continue;
            if (x.b.by_terms)
              mmci_load_tiles<true>(right[j][s], b_at + (at * b_next + s * b_step));
            else
              mmci_load_tiles<false>(right[j][s], b_at + (at * b_next + s * b_step));
          }
        had = group;
      }
      uint32_t left[STEPS][4];
#pragma unroll
      for (int s = 0; s < STEPS; s++)
        if (x.a.by_terms)
          mmci_load_tiles<true>(left[s], a_at + (first * a_next + s * a_step));
        else
          mmci_load_tiles<false>(left[s], a_at + (first * a_next + s * a_step));
      const bool is_whole = col + GROUP_COLS <= cols, has_both = first + TILE_ROWS / 2 < rows;
      uint16_t *upper = stage + (first + line) * x.pitch + phase_of_row(first + line) + col + pair,
               *lower = stage + (first + line + TILE_ROWS / 2) * x.pitch +
                        phase_of_row(first + line + TILE_ROWS / 2) + col + pair;
#pragma unroll
      for (int j = 0; j < 2 * WIDTH; j++) {
        const uint32_t at = col + j * TILE_COLS;
        if (!is_whole && at >= cols) break;
        float sums[4] = {};
#pragma unroll
        for (int s = 0; s < STEPS; s++)
          mmci_multiply_tiles<Element>(sums, left[s], right[j / 2][s][j % 2 * 2],
                                       right[j / 2][s][j % 2 * 2 + 1]);
        const auto put = [&](uint16_t *to, uint32_t both) {
          to += j * TILE_COLS;
          if (PAIRS) {
            if (is_whole || at + pair < cols) *reinterpret_cast<uint32_t *>(to) = both;
          } else {
            if (is_whole || at + pair < cols) to[0] = (uint16_t)both;
            if (is_whole || at + pair + 1 < cols) to[1] = (uint16_t)(both >> 16);
          }
        };
        put(upper, mmci_pair<Element>(sums[0], sums[1]));
        if (has_both) put(lower, mmci_pair<Element>(sums[2], sums[3]));
      }
    }
    __syncthreads();
    if (first_row + x.rows < end_row) load_a(first_row + x.rows);
    if (x.by_words)
      write_words(x, stage, c, rows, cols);
    else
      write_rows(x, stage, c, rows, cols);
  }
}

/* Returns a number by which the upper 32 bits of a product are the quotient of any factor below
 * 2^16; 0 for a divisor of 1. */
uint32_t magic_of(uint32_t divisor) {
  return divisor == 1 ? 0 : (uint32_t)(((uint64_t)1 << 32) / divisor + 1);
}

/* Says whether so many elements are all multiples of so many. */
bool all_are_multiples(int64_t of, int64_t x, int64_t y, int64_t z) {
  return x % of == 0 && y % of == 0 && z % of == 0;
}

Lines lines_of(const mmci_form &x, const void *data, bool terms_follow, int64_t k, int64_t lines,
               int64_t batch) {
  const int64_t first = (int64_t)(reinterpret_cast<uintptr_t>(data) / 2 % WORD),
                stride = batch > 1 ? x.stride : 0;
  int together = terms_follow ? WORD : 1;
  while (together > 1 && !(k % together == 0 && all_are_multiples(together, first, x.ld, stride)))
    together = together == WORD ? 2 : 1;
  return {static_cast<const uint16_t *>(data),
          terms_follow ? x.ld : 1,
          terms_follow ? 1 : x.ld,
          x.stride,
          together,
          !terms_follow && lines % WORD == 0 && all_are_multiples(WORD, first, x.ld, stride)};
}

template <typename Element, int STEPS>
mmc_status launch_steps(cudaStream_t stream, const Outer &x, const mmci_outer_cut &cut,
                        int64_t batch, bool pairs, mmci_error *error) {
  const dim3 grid((unsigned)(cut.tiles * batch)), block((unsigned)cut.threads);
  MMCI_CUDA_TRY(mmci_launch(pairs ? outer<Element, STEPS, true> : outer<Element, STEPS, false>,
                            grid, block, (size_t)cut.shared_bytes, stream, x));
  return MMC_OK;
}

template <typename Element>
mmc_status launch(cudaStream_t stream, const mmci_gemm &g, const void *a, const void *b, void *c,
                  mmci_error *error) {
  const mmci_outer_cut cut = mmci_outer_cut_of(&g);
  const int64_t batch = g.batch > 0 ? g.batch : 1, c_stride = batch > 1 ? g.c_stride : 0,
                first = (int64_t)(reinterpret_cast<uintptr_t>(c) / 2 % WORD);
  Outer x = {};
  x.m = (uint32_t)g.m;
  x.k = (uint32_t)g.k;
  x.n = (uint32_t)g.n;
  x.tiles = (uint32_t)cut.tiles;
  x.tiles_across = (uint32_t)((g.n + cut.cols - 1) / cut.cols);
  x.bands = (uint32_t)cut.bands;
  x.rows = (uint32_t)cut.rows;
  x.cols = (uint32_t)cut.cols;
  x.pitch = (uint32_t)cut.pitch;
  x.words = (uint32_t)((cut.cols + WORD - 1) / WORD);
  x.by_words = cut.packed || (cut.cols <= NARROW && g.n % WORD == 0 &&
                              all_are_multiples(WORD, first, g.ldc, c_stride));
  x.magic = magic_of(x.words);
  x.a = lines_of(g.a, a, !g.a.trans, g.k, g.m, batch);
  x.b = lines_of(g.b, b, g.b.trans, g.k, g.n, batch);
  x.c = static_cast<uint16_t *>(c);
  x.ldc = g.ldc;
  x.c_stride = g.c_stride;
  x.packed = cut.packed;
  const bool pairs = all_are_multiples(2, first, g.ldc, c_stride);
  return g.k <= TERMS ? launch_steps<Element, 1>(stream, x, cut, batch, pairs, error)
                      : launch_steps<Element, 2>(stream, x, cut, batch, pairs, error);
}

}  // namespace

extern "C" mmc_status mmci_cuda_outer_product(cudaStream_t stream, const mmci_gemm *gemm,
                                              const void *a, const void *b, void *c,
                                              mmci_error *error) {
  return gemm->dtype == MMC_BF16 ? launch<mmci_bf16_element>(stream, *gemm, a, b, c, error)
                                 : launch<mmci_f16_element>(stream, *gemm, a, b, c, error);
}
