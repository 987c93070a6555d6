/* rings.cu: batches of chains of small factors in f32, any tree: a warp takes one chain after the
 * other, and its factors arrive by bulk copies, each as a whole, while it multiplies those before.
 *
 * Layout   factors and the result without gaps. A warp has two slots for factors, which it takes
 *          in turn; they lie there as they are stored, at their address modulo 128 bytes. Places
 *          for intermediates, whose rows are an odd number of 16-byte words long, lie behind them
 * Launch   a block a multiprocessor, of as many warps as take the least time; a warp strides over
 *          the batch
 * Traffic  each factor is read once, the result is written once
 * Idea     over tiles.cu: no lane computes addresses of what is loaded, odd lines cost no more than
 *          even ones, and factors of the next chain arrive while this one is multiplied. What lies
 *          beside a matrix in the warp's memory is multiplied too, but only into sums that nobody
 *          stores. A product that would fill little of a large tile goes by small ones
 */
#include "device/cuda/group/bulk_copies.cuh"

enum { WARP = 32, SLOTS = 2, ENDS = 8 /* lanes that copy what is no whole word */ };

/* A lane has HEIGHT rows, DOWN apart, and WIDTH columns in pieces of WORD, ACROSS * WORD apart. */
template <int HEIGHT_, int WIDTH_, int DOWN_, int WORD_>
struct RingsTile {
  static constexpr int HEIGHT = HEIGHT_, WIDTH = WIDTH_, DOWN = DOWN_, WORD = WORD_,
                       ACROSS = WARP / DOWN, ROWS = HEIGHT * DOWN, COLS = WIDTH * ACROSS;
  static_assert(WIDTH % WORD == 0 && (DOWN == 4 || DOWN == 8), "whole pieces");
};

/* A product is computed by tiles of one size or, where they take less, by small ones. Factors have
 * whole words of so many elements. */
template <int HEIGHT, int WIDTH, int DOWN, int WORD_, int WARPS_>
struct RingsShape {
  static constexpr int WORD = WORD_, WARPS = WARPS_;
  typedef RingsTile<HEIGHT, WIDTH, DOWN, WORD> Tile;
  typedef RingsTile<2, 4, 8, WORD> Small;
  static constexpr bool ONLY_SMALL = HEIGHT == 2 && WIDTH == 4 && DOWN == 8;
};

/* Adds terms begin to end, of which STEP are read from a row of the left operand at once. */
template <typename Tile, int STEP>
static __device__ __forceinline__ void add_terms(const float *a, int a_pitch, const float *b,
                                                 int b_pitch, int begin, int end,
                                                 float (&sums)[Tile::HEIGHT][Tile::WIDTH]) {
  constexpr int HEIGHT = Tile::HEIGHT, WIDTH = Tile::WIDTH, WORD = Tile::WORD;
#pragma unroll(STEP == 4 ? 1 : 4 / STEP)
  for (int k = begin; k < end; k += STEP) {
    alignas(16) float left[HEIGHT][STEP];
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
      mmci_copy_word<STEP>(left[i], a + i * Tile::DOWN * a_pitch + k);
#pragma unroll
    for (int d = 0; d < STEP; d++) {
      alignas(16) float right[WIDTH];
#pragma unroll
      for (int j = 0; j < WIDTH; j += WORD)
        mmci_copy_word<WORD>(right + j, b + (k + d) * b_pitch + j * Tile::ACROSS);
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
#pragma unroll
        for (int at = 0; at < WIDTH; at++) {
          /* Rows go to and fro: the last column of one is the first of the next. */
          const int j = i % 2 == 0 ? at : WIDTH - 1 - at;
          sums[i][j] += left[i][d] * right[j];
        }
    }
  }
}

template <typename Tile>
static __device__ __forceinline__ void add_all_terms(const float *a, const float *b,
                                                     const mmci_rings_product &p,
                                                     float (&sums)[Tile::HEIGHT][Tile::WIDTH]) {
  const int k = p.k, a_pitch = p.a_pitch, b_pitch = p.b_pitch;
  if (Tile::WORD < 4 && p.a_load >= 0)
    return add_terms<Tile, Tile::WORD>(a, a_pitch, b, b_pitch, 0, k, sums);
  const int whole = k & ~3;
  add_terms<Tile, 4>(a, a_pitch, b, b_pitch, 0, whole, sums);
  if constexpr (Tile::WORD < 4) {
#pragma unroll 1
    for (int d = whole; d < k; d += Tile::WORD)
      add_terms<Tile, Tile::WORD>(a, a_pitch, b, b_pitch, d, d + Tile::WORD, sums);
  }
}

static __device__ __forceinline__ const float *matrix_of(const mmci_rings_load &l, int64_t chain) {
  return static_cast<const float *>(l.data) + chain * l.stride;
}

/* Begins to copy a matrix to its place: whole words at once, and the ends by a lane each. */
template <int WORD>
static __device__ __forceinline__ void load_matrix(const mmci_rings_load &l, const float *from,
                                                   float *to, mmci_counted_gate *gate,
                                                   unsigned lane) {
  const unsigned all = l.elements;
  if constexpr (WORD == 4) {
    if (lane == 0) gate->expect(all * sizeof(float));
    if (l.by_rows) {
      __syncwarp();
      for (unsigned r = lane; r < l.rows; r += WARP)
        gate->copy(to + r * l.pitch, from + r * l.cols, l.cols * (unsigned)sizeof(float));
    } else if (lane == 0) {
      gate->copy(to, from, all * sizeof(float));
    }
  } else {
    const unsigned before = -(unsigned)((uintptr_t)from / sizeof(float)) & 3,
                   head = before < all ? before : all, body = (all - head) & ~3u;
    if (lane == 0) {
      gate->expect(body * sizeof(float));
      if (body > 0) gate->copy(to + head, from + head, body * sizeof(float));
    }
    if (lane < ENDS) {
      const unsigned at = lane < 4 ? lane : head + body + lane - 4;
      if (at < (lane < 4 ? head : all))
        mmci_copy_async_or_zero<sizeof(float)>(to + at, from + at, true);
      gate->arrive_after_copies();
    }
  }
}

/* Computes a product tile by tile; has_read(), once all tiles have been summed up, may overwrite
 * what was loaded of it. */
template <typename Tile, typename Call>
static __device__ __forceinline__ void multiply(const float *a, const float *b,
                                                const mmci_rings_product &p, unsigned lane,
                                                float *to, int64_t to_pitch, Call has_read) {
  constexpr int WORD = Tile::WORD, HEIGHT = Tile::HEIGHT, WIDTH = Tile::WIDTH, DOWN = Tile::DOWN,
                ACROSS = Tile::ACROSS;
  const int m = p.m, n = p.n;
  /* A lane's neighbours read the same words of either operand. */
  const unsigned pair = (lane & 1) | ((lane >> 1) & 2), high = (lane >> 1) & 1;
  const int col = (int)(DOWN == 8 ? pair : pair | ((lane >> 2) & 4)),
            row = (int)(DOWN == 8 ? high | ((lane >> 2) & 6) : high | ((lane >> 2) & 2));
#pragma unroll 1
  for (int r = 0; r < m; r += Tile::ROWS)
#pragma unroll 1
    for (int q = 0; q < n; q += Tile::COLS) {
      alignas(16) float sums[HEIGHT][WIDTH];
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
#pragma unroll
        for (int j = 0; j < WIDTH; j++) sums[i][j] = 0;
      add_all_terms<Tile>(a + (r + row) * p.a_pitch, b + q + col * WORD, p, sums);
      const bool is_read = r + Tile::ROWS >= m && q + Tile::COLS >= n;
      if (is_read) mmci_order_bulk_copies();
      __syncwarp();
      if (is_read) has_read();
#pragma unroll
      for (int i = 0; i < HEIGHT; i++)
#pragma unroll
        for (int j = 0; j < WIDTH; j += WORD) {
          const int x = r + row + i * DOWN, y = q + col * WORD + j * ACROSS;
          if (x < m && y < n) mmci_copy_word<WORD>(to + x * to_pitch + y, &sums[i][j]);
        }
    }
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::WARPS *WARP, 1)
    multiply_in_rings(const __grid_constant__ mmci_rings e) {
  constexpr int WORD = Shape::WORD;
  MMCI_DYNAMIC_SHARED(memory);
  const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  mmci_counted_gate *gates = reinterpret_cast<mmci_counted_gate *>(memory + warp * e.warp_bytes);
  float *slots = reinterpret_cast<float *>(gates + SLOTS), *places = slots + e.places;
  if (lane < SLOTS) gates[lane].open(WORD == 4 ? 1 : 1 + ENDS);
  __syncwarp();
  mmci_follow_previous();
  const int64_t stride = (int64_t)gridDim.x * (blockDim.x / WARP), batch = e.batch;
  int64_t chain = blockIdx.x + (int64_t)gridDim.x * warp, coming = chain;
  unsigned coming_load = 0, coming_slot = 0, taken = 0;
  auto load_next = [&]() {
    if (coming >= batch) return;
    const mmci_rings_load &l = e.loads[coming_load];
    const float *from = matrix_of(l, coming);
    load_matrix<WORD>(l, from, mmci_place_as(slots + coming_slot * e.slot, from),
                      gates + coming_slot, lane);
    coming_slot = (coming_slot + 1) % SLOTS;
    if (++coming_load == e.n) {
      coming_load = 0;
      coming += stride;
    }
  };
  auto take = [&](int load) -> const float * {
    const unsigned slot = taken % SLOTS;
    gates[slot].wait(taken / SLOTS % 2);
    taken++;
    return mmci_place_as(slots + slot * e.slot, matrix_of(e.loads[load], chain));
  };
  for (int i = 0; i < SLOTS; i++) load_next();
  for (; chain < batch; chain += stride) {
#pragma unroll 1
    for (int s = 0; s < e.count; s++) {
      const mmci_rings_product &p = e.products[s];
      const float *a = p.a_load >= 0 ? take(p.a_load) : places + p.a;
      const float *b = p.b_load >= 0 ? take(p.b_load) : places + p.b;
      const int used = (p.a_load >= 0) + (p.b_load >= 0);
      const bool is_last = s == e.count - 1, is_stored = WORD == 4 && is_last;
      float *to = is_stored ? static_cast<float *>(e.c) + chain * e.c_stride : places + p.to;
      const int64_t to_pitch = is_stored ? e.ldc : p.to_pitch;
      auto has_read = [&]() {
        for (int i = 0; i < used; i++) load_next();
      };
      if (Shape::ONLY_SMALL || p.is_small)
        multiply<typename Shape::Small>(a, b, p, lane, to, to_pitch, has_read);
      else
        multiply<typename Shape::Tile>(a, b, p, lane, to, to_pitch, has_read);
      __syncwarp();
      if (WORD < 4 && is_last) {
        const unsigned words = (unsigned)(p.m * p.n) / WORD;
        const float *from = places + p.to;
        float *result = static_cast<float *>(e.c) + chain * e.c_stride;
#pragma unroll 4
        for (unsigned w = lane; w < words; w += WARP)
          mmci_copy_word<WORD>(result + w * WORD, from + w * WORD);
        __syncwarp();
      }
    }
  }
}

/* ---- on the host ----------------------------------------------------------------------------- */

typedef void (*kernel_fn)(mmci_rings);

/* The kernels are in the order of the sizes of rings.c. */
static const kernel_fn KERNELS[] = {
    multiply_in_rings<RingsShape<2, 4, 8, 4, 32>>, multiply_in_rings<RingsShape<8, 4, 4, 4, 16>>,
    multiply_in_rings<RingsShape<8, 4, 4, 2, 16>>, multiply_in_rings<RingsShape<5, 3, 4, 1, 28>>,
    multiply_in_rings<RingsShape<8, 4, 4, 1, 16>>, multiply_in_rings<RingsShape<9, 5, 4, 1, 12>>,
};

static int shared_bytes_of(const mmci_rings *rings) {
  return (int)(rings->warps * rings->warp_bytes);
}

extern "C" mmc_status mmci_rings_prepare(const mmci_rings *rings, mmci_error *error) {
  /* The limit is raised above any before, so that kernels prepared earlier still fit. */
  const kernel_fn kernel = KERNELS[rings->size];
  cudaFuncAttributes facts;
  MMCI_CUDA_TRY(cudaFuncGetAttributes(&facts, kernel));
  const int bytes = shared_bytes_of(rings);
  if (bytes > facts.maxDynamicSharedSizeBytes)
    MMCI_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  return MMC_OK;
}

extern "C" mmc_status mmci_rings_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                        const mmci_rings *rings, mmci_error *error) {
  const int64_t blocks =
      rings->batch < limits->multiprocessors ? rings->batch : limits->multiprocessors;
  MMCI_CUDA_TRY(mmci_launch_overlapped(
      KERNELS[rings->size], limits->overlap, dim3((unsigned)blocks),
      dim3((unsigned)(rings->warps * WARP)), (size_t)shared_bytes_of(rings), stream, *rings));
  return MMC_OK;
}
