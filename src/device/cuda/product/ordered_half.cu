/* ordered_half.cu: computes any product or batch of f16 or bf16 by tensor cores in one order: each
 * element of C is a chain of their sums of 16 products in f32, from the first k to the last, and is
 * rounded once. What follows after the last k is zero times zero.
 *
 * Layout any forms, sizes and leading dimensions in 64 bits; edges guarded
 * Launch a 1-D grid of as many blocks as multiprocessors hold, 128 threads; a block goes on from
 *        tile to tile of 64 x 64, and loads STAGES - 1 pieces of DEPTH terms ahead, those of its
 *        next tile among them; a warp has 32 x 32
 * Traffic 2mkn flops; reads mk ceil(n/64) + kn ceil(m/64) elements
 * Idea   operands lie in shared memory as they are stored, and ldmatrix turns them. They are copied
 *        past registers, as many bytes at once as lines are multiples of; lines of odd elements are
 *        read into registers before a piece is multiplied and written after it */
#include "device/cuda/group/tensor_math.cuh"

#include "device/cuda/cuda_kernels.h"
#include "device/cuda/product/ordered_tiles.cuh"

enum {
  TILE = 64,
  DEPTH = 32,
  STAGES = 3,
  WARP = 32,
  THREADS = 128,
  BLOCKS = 4,
  WARP_TILE = 32,
  STEP = 16, /* terms, rows and columns that are read at once */
  HALF = 8,
  PARTS = WARP_TILE / STEP,
  GAP = 8, /* elements between lines, so that they begin in different banks */
  OPERAND = TILE * (DEPTH + GAP),
  PAIRS = TILE * DEPTH / 2 / THREADS /* that a thread brings of an operand */
};
static_assert(OPERAND >= DEPTH * (TILE + GAP), "an operand fits in either form");

/* An operand: how it is stored, and how many elements of its lines may be copied at once. Lines are
 * terms of a product where it is A and transposed, or B and not. */
struct HalfOperand {
  int64_t ld, stride;
  int word;
  bool has_terms, gathered;
};

struct HalfShape {
  int64_t m, k, n, ldc, batch, c_stride, tiles, across;
  HalfOperand a, b;
  bool accumulate, has_pairs; /* C is written two elements at once */
  mmci_spans spans;           /* batch counts them all */
};

/* ---- pieces of operands ------------------------------------------------------------------------
 */

/* TILE x DEPTH elements of an operand, in lines as it is stored, of which so many are there. */
struct Piece {
  const uint16_t *from;
  int64_t ld;
  int lines, length;
  bool has_terms;
};

static __device__ __forceinline__ int at_most(int64_t count, int most) {
  return count < most ? (int)count : most;
}

/* Returns the piece that begins at an element of C's rows or columns, of so many, and at a term. */
static __device__ __forceinline__ Piece piece_of(const HalfOperand &x, const void *data, int64_t i,
                                                 int64_t first, int64_t side, int64_t term,
                                                 int64_t terms) {
  const uint16_t *matrix = mmci_matrix_of<uint16_t>(data, i, x.stride, x.gathered);
  const int sides_there = at_most(side - first, TILE), terms_there = at_most(terms - term, DEPTH);
  if (x.has_terms) return {matrix + term * x.ld + first, x.ld, terms_there, sides_there, true};
  return {matrix + first * x.ld + term, x.ld, sides_there, terms_there, false};
}

/* Returns how many elements lines of a piece have, and how far they are apart in shared memory. */
static __device__ __forceinline__ int width_of(bool has_terms) {
  return has_terms ? TILE : DEPTH;
}
static __device__ __forceinline__ int pitch_of(bool has_terms) {
  return width_of(has_terms) + GAP;
}

/* The place of a thread's words in a piece: all are as far along their lines. */
struct Words {
  int line, at, step; /* step: lines from one word to the next */

  __device__ __forceinline__ Words(bool has_terms, int word) {
    const int first = (int)threadIdx.x * word;
    line = has_terms ? first / TILE : first / DEPTH;
    at = first - line * width_of(has_terms);
    step = has_terms ? THREADS * word / TILE : THREADS * word / DEPTH;
  }
};

template <int WORD>
static __device__ __forceinline__ void copy_words(const Piece &p, uint16_t *to) {
  Words w(p.has_terms, WORD);
  const uint16_t *from = p.from + w.line * p.ld + w.at;
  const int64_t next = w.step * p.ld;
  const int pitch = pitch_of(p.has_terms), last = w.at < p.length ? p.lines : 0;
  to += w.line * pitch + w.at;
#pragma unroll
  for (int e = 0; e < TILE * DEPTH / WORD / THREADS; e++) {
    const bool there = w.line < last;
    mmci_copy_async_or_zero<2 * WORD>(to, there ? from : p.from, there);
    w.line += w.step;
    from += next;
    to += w.step * pitch;
  }
}

static __device__ __forceinline__ void copy_piece(const Piece &p, int word, uint16_t *to) {
  if (word == 8)
    copy_words<8>(p, to);
  else if (word == 4)
    copy_words<4>(p, to);
  else
    copy_words<2>(p, to);
}

/* What a thread holds of a piece between its reading and its writing. */
struct Held {
  uint16_t x[PAIRS][2];

  __device__ __forceinline__ void read(const Piece &p) {
    Words w(p.has_terms, 2);
    const uint16_t *from = p.from + w.line * p.ld + w.at;
    const int64_t next = w.step * p.ld;
#pragma unroll
    for (int e = 0; e < PAIRS; e++) {
      x[e][0] = w.line < p.lines && w.at < p.length ? from[0] : (uint16_t)0;
      x[e][1] = w.line < p.lines && w.at + 1 < p.length ? from[1] : (uint16_t)0;
      w.line += w.step;
      from += next;
    }
  }
  __device__ __forceinline__ void write(bool has_terms, uint16_t *to) const {
    const Words w(has_terms, 2);
    const int pitch = pitch_of(has_terms);
    to += w.line * pitch + w.at;
#pragma unroll
    for (int e = 0; e < PAIRS; e++)
      *reinterpret_cast<uint32_t *>(to + e * w.step * pitch) = (uint32_t)x[e][0] | (uint32_t)x[e][1]
                                                                                       << 16;
  }
};

/* ---- sums of a warp ----------------------------------------------------------------------------
 */

/* Where a lane reads a warp's part of an operand: so many elements on to the next 16 rows of A or
 * columns of B, and to the next 16 terms. */
struct Side {
  mmci_tile_row row;
  int step, k_step;

  /* B is read turned round beside A. */
  __device__ __forceinline__ Side(const uint16_t *piece, bool has_terms, bool is_b, int first) {
    const int lane = (int)threadIdx.x % WARP, pitch = pitch_of(has_terms), second = lane / HALF % 2,
              third = lane / STEP;
    const bool lines_first = is_b == has_terms;
    const int down = lines_first ? second : third, right = lines_first ? third : second;
    row = mmci_tile_row_of(piece + (has_terms ? first : first * pitch) +
                           (lane % HALF + down * HALF) * pitch + right * HALF);
    step = has_terms ? STEP : STEP * pitch;
    k_step = has_terms ? STEP * pitch : STEP;
  }
};

template <typename Element>
struct HalfSums {
  float sum[PARTS][PARTS][2][4];

  /* Adds 16 terms. */
  __device__ __forceinline__ void add(const Side &a, const Side &b, bool a_turned, bool b_turned) {
    uint32_t left[PARTS][4], right[PARTS][4];
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
      if (a_turned)
        mmci_load_tiles<true>(left[p], a.row + (uint32_t)(p * a.step));
      else
        mmci_load_tiles<false>(left[p], a.row + (uint32_t)(p * a.step));
      if (b_turned)
        mmci_load_tiles<true>(right[p], b.row + (uint32_t)(p * b.step));
      else
        mmci_load_tiles<false>(right[p], b.row + (uint32_t)(p * b.step));
    }
#pragma unroll
    for (int p = 0; p < PARTS; p++)
#pragma unroll
      for (int q = 0; q < PARTS; q++) {
        mmci_multiply_tiles<Element>(sum[p][q][0], left[p], right[q][0], right[q][1]);
        mmci_multiply_tiles<Element>(sum[p][q][1], left[p], right[q][2], right[q][3]);
      }
  }

  /* Calls do(row, col, two sums of neighbouring columns) for all. */
  template <typename Do>
  __device__ __forceinline__ void each(Do what) {
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int p = 0; p < PARTS; p++)
#pragma unroll
      for (int q = 0; q < PARTS; q++)
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
          for (int r = 0; r < 2; r++)
            what(STEP * p + lane / 4 + HALF * r, STEP * q + HALF * h + 2 * (lane % 4),
                 sum[p][q][h][2 * r], sum[p][q][h][2 * r + 1]);
  }
};

/* ---- products ----------------------------------------------------------------------------------
 */

/* Write two neighbouring results, or the first of them: rounded elements, or sums as they are. */
template <typename Element>
static __device__ __forceinline__ void write_results(uint16_t *to, float x, float y, bool pairs,
                                                     bool is_second) {
  const uint32_t pair = mmci_pair<Element>(x, y);
  const uint16_t low = mmci_settled_half<Element>((uint16_t)pair),
                 high = mmci_settled_half<Element>((uint16_t)(pair >> 16));
  if (pairs && is_second) {
    *reinterpret_cast<uint32_t *>(to) = (uint32_t)low | (uint32_t)high << 16;
  } else {
    to[0] = low;
    if (is_second) to[1] = high;
  }
}
template <typename Element>
static __device__ __forceinline__ void write_results(float *to, float x, float y, bool,
                                                     bool is_second) {
  to[0] = x;
  if (is_second) to[1] = y;
}

/* HELD says that an operand has lines of odd elements; results are elements, or sums in f32. */
template <typename Element, bool HELD, typename Result>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    ordered_half(const __grid_constant__ HalfShape s, const void *all_a, const void *all_b,
                 Result *all_c) {
  __shared__ __align__(16) uint16_t stages[STAGES][2][OPERAND];
  const int warp = (int)threadIdx.x / WARP, top = warp / 2 * WARP_TILE, left = warp % 2 * WARP_TILE;
  const int64_t all = s.tiles * s.batch;
  /* What is loaded next, and what is held of it. */
  int64_t coming = blockIdx.x, depth = 0;
  Held a_held, b_held;
  auto fetch_piece = [&](int stage) {
    if (coming < all) {
      const mmci_spot spot = mmci_spot_of<TILE, TILE>(s.tiles, s.across, coming);
      const mmci_span span = mmci_span_of(s.spans, s.k, spot.i);
      const int64_t term = span.begin + depth;
      const Piece a = piece_of(s.a, all_a, span.product, spot.row, s.m, term, span.end),
                  b = piece_of(s.b, all_b, span.product, spot.col, s.n, term, span.end);
      if (HELD) {
        a_held.read(a);
        b_held.read(b);
      } else {
        copy_piece(a, s.a.word, stages[stage][0]);
        copy_piece(b, s.b.word, stages[stage][1]);
      }
      depth += DEPTH;
      if (span.begin + depth >= span.end) {
        depth = 0;
        coming += gridDim.x;
      }
    }
    mmci_copy_async_commit();
  };
  auto write_held = [&](int stage) {
    if (!HELD) return;
    a_held.write(s.a.has_terms, stages[stage][0]);
    b_held.write(s.b.has_terms, stages[stage][1]);
  };
  for (int stage = 0; stage < STAGES - 1; stage++) {
    fetch_piece(stage);
    write_held(stage);
  }
  int stage = 0;
  for (int64_t at = blockIdx.x; at < all; at += gridDim.x) {
    const mmci_spot mine = mmci_spot_of<TILE, TILE>(s.tiles, s.across, at);
    const int64_t rows = s.m - mine.row - top, cols = s.n - mine.col - left;
    const mmci_span span = mmci_span_of(s.spans, s.k, mine.i);
    Result *c = all_c + mine.i * s.c_stride + (mine.row + top) * s.ldc + mine.col + left;
    HalfSums<Element> sums = {};
    if (s.accumulate)
      sums.each([&](int row, int col, float &x, float &y) {
        if (row < rows && col < cols) x = Element::read((uint16_t)c[row * s.ldc + col], false);
        if (row < rows && col + 1 < cols)
          y = Element::read((uint16_t)c[row * s.ldc + col + 1], false);
      });
    for (int64_t rest = span.end - span.begin; rest > 0; rest -= DEPTH) {
      const int next = stage == 0 ? STAGES - 1 : stage - 1;
      mmci_copy_async_wait<STAGES - 2>();
      __syncthreads();
      fetch_piece(next);
      if (rows > 0 && cols > 0) {
        Side a(stages[stage][0], s.a.has_terms, false, top),
            b(stages[stage][1], s.b.has_terms, true, left);
#pragma unroll
        for (int d = 0; d < DEPTH; d += STEP) {
          if (d >= rest) break;
          sums.add(a, b, s.a.has_terms, s.b.has_terms);
          a.row = a.row + (uint32_t)a.k_step;
          b.row = b.row + (uint32_t)b.k_step;
        }
      }
      write_held(next);
      stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
    sums.each([&](int row, int col, float &x, float &y) {
      if (row >= rows || col >= cols) return;
      write_results<Element>(c + row * s.ldc + col, x, y, s.has_pairs, col + 1 < cols);
    });
  }
}

/* ---- launches ----------------------------------------------------------------------------------
 */

/* Returns how many elements of lines may be copied at once; arrays of addresses may hold any. */
static int word_of(int64_t places, bool gathered, const void *data) {
  int word = gathered ? 1 : 8;
  while (word > 1 && (places % word != 0 || (uintptr_t)data % (uintptr_t)(2 * word) != 0))
    word /= 2;
  return word;
}

static HalfOperand operand_of(const mmci_form &form, int64_t rows, int64_t cols, int64_t batch,
                              bool is_b, const void *data) {
  const int64_t places =
      (form.trans ? rows : cols) | form.ld | (batch > 1 && !form.gathered ? form.stride : 0);
  return {form.ld, form.stride, word_of(places, form.gathered, data), form.trans != is_b,
          form.gathered};
}

template <typename Element, typename Result>
static mmc_status launch(cudaStream_t stream, const HalfShape &s, const void *a, const void *b,
                         Result *c, mmci_error *error) {
  int device = 0, multiprocessors = 0;
  MMCI_CUDA_TRY(cudaGetDevice(&device));
  MMCI_CUDA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const int64_t all = s.tiles * s.batch, most = (int64_t)multiprocessors * BLOCKS;
  const dim3 grid((unsigned)(all < most ? all : most));
  if (s.a.word == 1 || s.b.word == 1)
    MMCI_CUDA_TRY(mmci_launch(ordered_half<Element, true, Result>, grid, dim3(THREADS), 0, stream,
                              s, a, b, c));
  else
    MMCI_CUDA_TRY(mmci_launch(ordered_half<Element, false, Result>, grid, dim3(THREADS), 0, stream,
                              s, a, b, c));
  return MMC_OK;
}

static HalfShape shape_of(const mmci_gemm *gemm, const mmci_spans &spans, const void *a,
                          const void *b, const void *c) {
  HalfShape s = {};
  const int64_t batch = gemm->batch > 0 ? gemm->batch : 1;
  s.m = gemm->m;
  s.k = gemm->k;
  s.n = gemm->n;
  s.ldc = gemm->ldc;
  s.batch = batch * spans.count;
  s.c_stride = gemm->c_stride;
  s.across = (s.n + TILE - 1) / TILE;
  s.tiles = (s.m + TILE - 1) / TILE * s.across;
  s.a = operand_of(gemm->a, s.m, s.k, batch, false, a);
  s.b = operand_of(gemm->b, s.k, s.n, batch, true, b);
  s.accumulate = gemm->accumulate;
  s.has_pairs = word_of(s.ldc | (s.batch > 1 ? s.c_stride : 0), false, c) > 1;
  s.spans = spans;
  return s;
}

extern "C" mmc_status mmci_cuda_ordered_half(cudaStream_t stream, const mmci_gemm *gemm,
                                             const void *a, const void *b, void *c,
                                             mmci_error *error) {
  const HalfShape s = shape_of(gemm, mmci_all_terms(gemm->k), a, b, c);
  uint16_t *to = static_cast<uint16_t *>(c);
  if (s.tiles == 0) return MMC_OK;
  return gemm->dtype == MMC_BF16 ? launch<mmci_bf16_element>(stream, s, a, b, to, error)
                                 : launch<mmci_f16_element>(stream, s, a, b, to, error);
}

static mmc_status launch_sums(cudaStream_t stream, const mmci_gemm *gemm, const mmci_spans &spans,
                              const void *a, const void *b, float *c, mmci_error *error) {
  const HalfShape s = shape_of(gemm, spans, a, b, c);
  if (s.tiles == 0) return MMC_OK;
  return gemm->dtype == MMC_BF16 ? launch<mmci_bf16_element>(stream, s, a, b, c, error)
                                 : launch<mmci_f16_element>(stream, s, a, b, c, error);
}

extern "C" mmc_status mmci_cuda_ordered_half_sums(cudaStream_t stream, const mmci_gemm *gemm,
                                                  const void *a, const void *b, float *c,
                                                  mmci_error *error) {
  return launch_sums(stream, gemm, mmci_all_terms(gemm->k), a, b, c, error);
}

extern "C" mmc_status mmci_cuda_ordered_half_pieces(cudaStream_t stream, const mmci_gemm *gemm,
                                                    const mmci_piece_range *range, const void *a,
                                                    const void *b, float *parts,
                                                    mmci_error *error) {
  mmci_gemm piece = *gemm; /* whose results are parts */
  piece.ldc = gemm->n;
  piece.c_stride = gemm->m * gemm->n;
  piece.accumulate = false;
  return launch_sums(stream, &piece, {range->first, range->count, MMCI_PIECE_TERMS}, a, b, parts,
                     error);
}
