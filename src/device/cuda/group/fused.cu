/* fused.cu: D = (A B) C in one kernel, the intermediate T = A B in shared memory.
 *
 * A block owns ROWS rows of T: it computes them over k with sums in registers, puts them into
 * shared memory, and multiplies them by C, COLS columns of D at a time. What it reads of A, B and C
 * passes through two buffers in shared memory, the next piece on its way while one is multiplied.
 *
 * Layout  any strides of A, B, C and D in 64 bits; edges guarded; a batch in the grid's y
 * Launch  ceil(m / ROWS) blocks; shared memory (w + 2 DEPTH) rows of ROWS and 2 DEPTH of w elements
 * Traffic 2m(kw + wn) flops; A once, D once, B and C once a block, mostly from L2; T not at all */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/group/fused.h"
#include "device/cuda/group/fused_math.cuh"

enum { DEPTH = 16, MOST_STAGES = 3, MOST_THREADS = 640, SHARED_ROOM = 220 * 1024 };

template <typename Element>
struct FusedProblem {
  int64_t m, k, w, n, batch;
  mmci_fused_place a_place, b_place, c_place, d_place;
  const Element *a, *b, *c;
  Element *d;
};

/* Copies one element asynchronously; zero when there is none. */
template <typename Element>
static __device__ __forceinline__ void copy_element(Element *to, const Element *from,
                                                    bool is_there) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from),
               "n"(sizeof(Element)), "r"(is_there ? (unsigned)sizeof(Element) : 0u)
               : "memory");
}

/* Begins to copy a DEPTH x WIDTH piece to shared memory: element (k, x) goes from k * along + x *
 * across to k * ld + x, with zeros outside. Neighbouring threads read neighbouring elements: along
 * k in patches of 8 x 4 a warp, whole sectors of memory and as many banks as lanes. */
template <int WIDTH, int THREADS, bool by_depth, typename Element>
static __device__ __forceinline__ void copy_piece(Element *to, int ld, const Element *from,
                                                  int64_t along, int64_t across, int depth,
                                                  int width) {
  constexpr int COUNT = DEPTH * WIDTH / THREADS, NEXT = THREADS / (by_depth ? DEPTH : WIDTH);
  static_assert(COUNT * THREADS == DEPTH * WIDTH && THREADS % (4 * DEPTH) == 0 && WIDTH <= THREADS,
                "every thread takes as many elements, on a line");
  const int at = (int)threadIdx.x, lane = at % 32, patch = at / 32;
  const int k = by_depth ? lane % 8 + patch % (DEPTH / 8) * 8 : at / WIDTH;
  const int x = by_depth ? lane / 8 + patch / (DEPTH / 8) * 4 : at % WIDTH;
  const int left = by_depth ? (k < depth ? width - x : 0) : (x < width ? depth - k : 0);
  int64_t further = NEXT * (by_depth ? across : along);
  const Element *source = from + k * along + x * across;
  /* Without this, every element's address would stay in registers of its own from step to step. */
  asm volatile("" : "+l"(source), "+l"(further));
  to += k * ld + x;
#pragma unroll
  for (int e = 0; e < COUNT; e++) {
    const bool is_there = e * NEXT < left;
    copy_element(to + e * NEXT * (by_depth ? 1 : ld), is_there ? source : from, is_there);
    source += further;
  }
}

template <int WIDTH, int THREADS, typename Element>
static __device__ __forceinline__ void copy_piece(Element *to, int ld, const Element *from,
                                                  int64_t along, int64_t across, int64_t depth_left,
                                                  int64_t width_left) {
  constexpr int PART = WIDTH < THREADS ? WIDTH : THREADS; /* a line is no longer than the threads */
  const int depth = depth_left < DEPTH ? (int)depth_left : (int)DEPTH;
  const int width = width_left < WIDTH ? (int)width_left : WIDTH;
#pragma unroll 1
  for (int x = 0; x < width; x += PART) {
    if (along == 1)
      copy_piece<PART, THREADS, true>(to + x, ld, from + x * across, along, across, depth,
                                      width - x);
    else
      copy_piece<PART, THREADS, false>(to + x, ld, from + x * across, along, across, depth,
                                       width - x);
  }
}

/* Holds values that follow each other in D. */
template <typename Element, int COUNT>
static __device__ __forceinline__ void write_values(Element *to, int64_t left,
                                                    const Element (&values)[COUNT]) {
  struct alignas(sizeof(Element) * COUNT) Together {
    Element values[COUNT];
  };
  if (left >= COUNT && reinterpret_cast<uintptr_t>(to) % sizeof(Together) == 0) {
    Together all;
#pragma unroll
    for (int v = 0; v < COUNT; v++) all.values[v] = values[v];
    *reinterpret_cast<Together *>(to) = all;
  } else {
#pragma unroll
    for (int v = 0; v < COUNT; v++)
      if (v < left) to[v] = values[v];
  }
}

/* Describes the shared memory of a block of these two. */
template <typename First, typename Second>
struct FusedBlock {
  typedef typename First::Element Element;
  static constexpr int ROWS = First::ROWS, WIDTH = First::COLS, COLS = Second::COLS,
                       THREADS = First::THREADS;
  static_assert(Second::ROWS == ROWS && Second::THREADS == THREADS, "one block");
  static constexpr int A_LD = ROWS + First::PAD, B_LD = (WIDTH > COLS ? WIDTH : COLS) + First::PAD;
  /* The sizes are in elements: T, a column after the other; then the stages, each a piece of A and
   * one of B or C. */
  static constexpr int T_SIZE = WIDTH * A_LD, STAGE_SIZE = DEPTH * (A_LD + B_LD);
  static constexpr int bytes_with(int stages) {
    return (T_SIZE + stages * STAGE_SIZE) * (int)sizeof(Element);
  }
  static constexpr int STAGES = bytes_with(MOST_STAGES) <= SHARED_ROOM ? MOST_STAGES : 2,
                       SHARED_BYTES = bytes_with(STAGES);
  /* So many blocks share a multiprocessor: one computes while others wait for memory. */
  static constexpr int BY_MEMORY = SHARED_ROOM / SHARED_BYTES, BY_THREADS = MOST_THREADS / THREADS;
  static constexpr int FIT = BY_MEMORY < BY_THREADS ? BY_MEMORY : BY_THREADS,
                       BLOCKS = FIT < 1 ? 1 : FIT;
};

/* First computes T, ROWS x WIDTH, where WIDTH is at least w; Second computes COLS columns of D. The
 * steps of a block are those along k, with a piece of A and one of B each, then for each COLS
 * columns of D those along w, with a piece of C each; then those of its next rows. */
template <typename First, typename Second>
__global__ void __launch_bounds__(First::THREADS, (FusedBlock<First, Second>::BLOCKS))
    fused(const FusedProblem<typename First::Element> p) {
  typedef FusedBlock<First, Second> Block;
  typedef typename Block::Element Element;
  constexpr int ROWS = Block::ROWS, COLS = Block::COLS, A_LD = Block::A_LD, B_LD = Block::B_LD,
                STAGES = Block::STAGES;
  MMCI_DYNAMIC_SHARED(memory);
  Element *const t = reinterpret_cast<Element *>(memory), *const stages = t + Block::T_SIZE;

  const int64_t row_blocks = (p.m + ROWS - 1) / ROWS, tiles = row_blocks * p.batch;

  /* These say what is copied next, some stages ahead of what is computed: at `depth` along k, or,
   * from a column of D on, along w. */
  int64_t next_tile = blockIdx.x, next_depth = 0, next_col, next_rows;
  const Element *next_a, *next_b, *next_c;
  int next_stage = 0;
  auto seek = [&] {
    const int64_t chain = next_tile / row_blocks, row = next_tile % row_blocks * ROWS;
    next_a = p.a + chain * p.a_place.batch + row * p.a_place.row;
    next_b = p.b + chain * p.b_place.batch;
    next_c = p.c + chain * p.c_place.batch;
    next_rows = p.m - row;
    next_col = p.k > 0 ? -1 : 0;
  };
  auto copy_next = [&] {
    Element *const a_piece = stages + next_stage * Block::STAGE_SIZE;
    Element *const b_piece = a_piece + DEPTH * A_LD;
    if (next_tile < tiles && next_col < 0) {
      copy_piece<ROWS, Block::THREADS>(a_piece, A_LD, next_a + next_depth * p.a_place.col,
                                       p.a_place.col, p.a_place.row, p.k - next_depth, next_rows);
      copy_piece<Block::WIDTH, Block::THREADS>(b_piece, B_LD, next_b + next_depth * p.b_place.row,
                                               p.b_place.row, p.b_place.col, p.k - next_depth, p.w);
      next_depth += DEPTH;
      if (next_depth >= p.k) next_depth = next_col = 0;
    } else if (next_tile < tiles) {
      copy_piece<COLS, Block::THREADS>(
          b_piece, B_LD, next_c + next_depth * p.c_place.row + next_col * p.c_place.col,
          p.c_place.row, p.c_place.col, p.w - next_depth, p.n - next_col);
      next_depth += DEPTH;
      if (next_depth >= p.w) {
        next_depth = 0;
        next_col += COLS;
      }
      if (next_col >= p.n) {
        next_tile += gridDim.x;
        seek();
      }
    }
    mmci_copy_async_commit();
    next_stage = next_stage + 1 < STAGES ? next_stage + 1 : 0;
  };
  seek();
  for (int s = 0; s < STAGES - 1; s++) copy_next();

  int stage = 0;
  auto await_step = [&]() -> const Element * {
    mmci_copy_async_wait<STAGES - 2>();
    /* Now all copies are there, and all threads are done with the step before. */
    __syncthreads();
    copy_next();
    const Element *const pieces = stages + stage * Block::STAGE_SIZE;
    stage = stage + 1 < STAGES ? stage + 1 : 0;
    return pieces;
  };
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t row = tile % row_blocks * ROWS, rows = p.m - row;
    Element *const d = p.d + tile / row_blocks * p.d_place.batch + row * p.d_place.row;
    {
      First first;
      first.clear();
      for (int64_t depth = 0; depth < p.k; depth += DEPTH) {
        const Element *const pieces = await_step();
        first.template step<DEPTH>(pieces, pieces + DEPTH * A_LD, B_LD);
      }
      /* No thread still reads the T of the rows before: a step along k lies between, or T is zeros.
       * Infinities of A times what pads B are not part of T. */
      if (p.k == 0) __syncthreads();
      first.columns([&](int r, int c, const auto &values) {
#pragma unroll
        for (int v = 0; v < (int)(sizeof values / sizeof *values); v++)
          t[c * A_LD + r + v] = c < p.w ? values[v] : Element(0);
      });
    }
    for (int64_t col = 0; col < p.n; col += COLS) {
      Second second;
      second.clear();
      for (int64_t depth = 0; depth < p.w; depth += DEPTH) {
        const Element *const pieces = await_step();
        second.template step<DEPTH>(t + depth * A_LD, pieces + DEPTH * A_LD, B_LD);
      }
      const int64_t cols = p.n - col;
      Element *const to = d + col * p.d_place.col;
      if (p.d_place.col == 1)
        second.rows([&](int r, int c, const auto &values) {
          if (r < rows) write_values(to + r * p.d_place.row + c, cols - c, values);
        });
      else
        second.columns([&](int r, int c, const auto &values) {
          if (c < cols) write_values(to + c * p.d_place.col + r, rows - r, values);
        });
    }
  }
}

/* ---- tiles ------------------------------------------------------------------------------------
 */

template <typename First, typename Second>
struct Tile {
  typedef FusedBlock<First, Second> Block;
  typedef typename Block::Element Element;

  static mmc_status prepare(mmci_error *error) {
    MMCI_CUDA_TRY(cudaFuncSetAttribute(
        fused<First, Second>, cudaFuncAttributeMaxDynamicSharedMemorySize, Block::SHARED_BYTES));
    return MMC_OK;
  }
  static mmc_status launch(cudaStream_t stream, const mmci_fused *f, const void *const *operands,
                           void *out, mmci_error *error) {
    const FusedProblem<Element> p = {f->m,
                                     f->k,
                                     f->w,
                                     f->n,
                                     f->batch,
                                     f->place[0],
                                     f->place[1],
                                     f->place[2],
                                     f->place[3],
                                     static_cast<const Element *>(operands[f->first]),
                                     static_cast<const Element *>(operands[1]),
                                     static_cast<const Element *>(operands[f->last]),
                                     static_cast<Element *>(out)};
    const int64_t tiles = (f->m + Block::ROWS - 1) / Block::ROWS * f->batch;
    const int64_t together = (int64_t)f->multiprocessors * Block::BLOCKS;
    if (tiles == 0 || f->n == 0) return MMC_OK;
    MMCI_CUDA_TRY(mmci_launch(fused<First, Second>,
                              dim3((unsigned)(tiles < together ? tiles : together)),
                              dim3(Block::THREADS), Block::SHARED_BYTES, stream, p));
    return MMC_OK;
  }
};

typedef struct tile {
  const char *left, *right; /* names of the kernel in a left and in a right fuse */
  int rows, width;          /* rows and columns of T in a block */
  mmc_status (*prepare)(mmci_error *error);
  mmc_status (*launch)(cudaStream_t stream, const mmci_fused *f, const void *const *operands,
                       void *out, mmci_error *error);
} tile;

#define TILE(arithmetic, rows, width, ...)                                                         \
  {                                                                                                \
    "fused left " arithmetic " " #rows "x" #width, "fused right " arithmetic " " #rows "x" #width, \
        rows, width, Tile<__VA_ARGS__>::prepare, Tile<__VA_ARGS__>::launch                         \
  }

/* Narrow tiles come first; of one width those of more rows, which read B and C less often. */
static const tile F32[] = {
    TILE("f32", 128, 16, FusedFma<128, 16, 4, 4>, FusedFma<128, 16, 4, 4>),
    TILE("f32", 64, 16, FusedFma<64, 16, 4, 4>, FusedFma<64, 16, 4, 4>),
    TILE("f32", 128, 32, FusedFma<128, 32, 8, 4>, FusedFma<128, 32, 8, 4>),
    TILE("f32", 64, 32, FusedFma<64, 32, 4, 4>, FusedFma<64, 32, 4, 4>),
    TILE("f32", 128, 64, FusedFma<128, 64, 8, 4>, FusedFma<128, 64, 8, 4>),
    TILE("f32", 32, 64, FusedFma<32, 64, 4, 4>, FusedFma<32, 64, 4, 4>),
    TILE("f32", 32, 256, FusedFma<32, 256, 8, 4>, FusedFma<32, 256, 8, 4>),
    TILE("f32", 32, 512, FusedFma<32, 512, 8, 8>, FusedFma<32, 256, 8, 4>),
    TILE("f32", 16, 1024, FusedFma<16, 1024, 4, 16>, FusedFma<16, 256, 4, 4>),
};
static const tile TF32[] = {
    TILE("tf32", 128, 32, FusedMma<FusedMmaTf32, 128, 32, 4, 1>,
         FusedMma<FusedMmaTf32, 128, 32, 4, 1>),
    TILE("tf32", 32, 32, FusedMma<FusedMmaTf32, 32, 32, 2, 1>,
         FusedMma<FusedMmaTf32, 32, 32, 2, 1>),
    TILE("tf32", 128, 64, FusedMma<FusedMmaTf32, 128, 64, 4, 2>,
         FusedMma<FusedMmaTf32, 128, 64, 4, 2>),
    TILE("tf32", 32, 64, FusedMma<FusedMmaTf32, 32, 64, 2, 2>,
         FusedMma<FusedMmaTf32, 32, 64, 2, 2>),
};
static const tile F64[] = {
    TILE("f64", 128, 16, FusedMma<FusedMmaF64, 128, 16, 8, 1>,
         FusedMma<FusedMmaF64, 128, 16, 8, 1>),
    TILE("f64", 32, 16, FusedMma<FusedMmaF64, 32, 16, 4, 1>, FusedMma<FusedMmaF64, 32, 16, 4, 1>),
    TILE("f64", 128, 32, FusedMma<FusedMmaF64, 128, 32, 8, 1>,
         FusedMma<FusedMmaF64, 128, 32, 8, 1>),
    TILE("f64", 32, 32, FusedMma<FusedMmaF64, 32, 32, 4, 1>, FusedMma<FusedMmaF64, 32, 32, 4, 1>),
    TILE("f64", 64, 64, FusedMma<FusedMmaF64, 64, 64, 4, 2>, FusedMma<FusedMmaF64, 64, 64, 4, 2>),
    TILE("f64", 32, 64, FusedMma<FusedMmaF64, 32, 64, 2, 2>, FusedMma<FusedMmaF64, 32, 64, 2, 2>),
};

/* Returns, of the narrowest tiles that are wide enough, the first that gives every multiprocessor a
 * few sets of rows, else the last. */
static const tile *choose_tile(const mmci_fused *f) {
  const tile *tiles = f->dtype == MMC_F64 ? F64 : f->tf32 ? TF32 : F32, *chosen = NULL;
  size_t count = f->dtype == MMC_F64 ? sizeof F64 / sizeof *F64
                 : f->tf32           ? sizeof TF32 / sizeof *TF32
                                     : sizeof F32 / sizeof *F32;
  for (size_t t = 0; t < count; t++) {
    const tile *x = &tiles[t];
    if (x->width < f->w || (chosen != NULL && x->width > chosen->width)) continue;
    if (chosen == NULL ||
        (f->m + chosen->rows - 1) / chosen->rows * f->batch < 4 * f->multiprocessors)
      chosen = x;
  }
  return chosen;
}

/* ---- what is asked ----------------------------------------------------------------------------
 */

static mmci_fused_place place_of(const mmci_form *form, bool turned) {
  const bool by_columns = form->trans != turned;
  mmci_fused_place place = {form->ld, 1, form->stride};
  if (by_columns) place = {1, form->ld, form->stride};
  return place;
}

extern "C" bool mmci_fused_describe(const mmci_group *chain, int multiprocessors, mmci_fused *out) {
  if (chain->n != 3 || chain->count != 2 || chain->c_gathered) return false;
  if (chain->dtype != MMC_F32 && chain->dtype != MMC_F64) return false;
  for (int i = 0; i < 3; i++)
    if (chain->forms[i].gathered) return false;
  const mmci_group_product *inner = &chain->products[0], *outer = &chain->products[1];
  const bool right = inner->left == 1;
  if (inner->left != (right ? 1 : 0) || inner->right != inner->left + 1 ||
      outer->left != (right ? 0 : 3) || outer->right != (right ? 3 : 2))
    return false;
  mmci_fused f = {};
  f.dtype = chain->dtype;
  f.tf32 = chain->dtype == MMC_F32 && chain->precision == MMCI_FAST;
  f.right = right;
  f.m = right ? inner->n : inner->m;
  f.k = inner->k;
  f.w = right ? inner->m : inner->n;
  f.n = right ? outer->m : outer->n;
  f.batch = chain->batch;
  f.first = right ? 2 : 0;
  f.last = right ? 0 : 2;
  f.multiprocessors = multiprocessors;
  const mmci_form d = {chain->ldc, false, false, false, chain->c_stride};
  f.place[0] = place_of(&chain->forms[f.first], right);
  f.place[1] = place_of(&chain->forms[1], right);
  f.place[2] = place_of(&chain->forms[f.last], right);
  f.place[3] = place_of(&d, right);
  if (f.w < 1 || f.batch < 1) return false;
  *out = f;
  return choose_tile(&f) != NULL;
}

extern "C" const char *mmci_fused_name(const mmci_fused *f) {
  return f->right ? choose_tile(f)->right : choose_tile(f)->left;
}

extern "C" mmc_status mmci_fused_prepare(const mmci_fused *f, mmci_error *error) {
  return choose_tile(f)->prepare(error);
}

extern "C" mmc_status mmci_fused_enqueue(cudaStream_t stream, const mmci_fused *f,
                                         const void *const *operands, void *out,
                                         mmci_error *error) {
  return choose_tile(f)->launch(stream, f, operands, out, error);
}
