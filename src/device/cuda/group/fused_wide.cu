/* fused_wide.cu: D = (A B) C in f16 or bf16 by Hopper's tensor cores, T in shared memory where A
 * was.
 *
 * Layout  as in fused_half.cu; k to 512, w from 257 to 512, any n
 * Launch  clusters of two blocks, which stay for all their rows, 128 at a time in each block; there
 *         a warpgroup loads, and two multiply 64 rows each
 * Traffic 2 m w (k + n) flops; A is read once and D written once, B and C are read from the L2 once
 *         for every 256 rows
 * Idea    T is too wide for registers. A's rows lie in boxes of 64 x 64. The sums of T's first 256
 *         columns wait in registers, rounded, until A's boxes have been read for the other ones,
 *         and T takes the boxes' places. The next rows of A come to these while the last columns of
 *         D are computed. B and C come in stages of 32 terms by 256 columns, of which each block
 *         loads one half for both. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/group/fused_half.cuh"

enum {
  CLUSTER = 2,
  GROUPS = 2,
  THREADS = (GROUPS + 1) * WARPGROUP,
  MULTIPLIER_REGISTERS = 232,
  SIDE = 512,
  HALF = 256, /* columns of T or D that are worked on at once */
  BOXES = SIDE / BOX,
  HALF_BOXES = HALF / BOX,
  TERMS = MMCI_FUSED_WIDE_TERMS, /* of a stage */
  STAGES = 6,
  STRIP_BYTES = TERMS * BOX * 2, /* 64 columns of a stage */
  STRIPS = HALF / BOX / CLUSTER, /* of a stage, which a block loads */
  STAGE_BYTES = TERMS * HALF * 2,
  BARRIERS = 2 * STAGES + 2 * BOXES * GROUPS
};
static_assert(BOXES * GROUPS * BOX_BYTES + STAGES * STAGE_BYTES ==
                  MMCI_FUSED_HALF_BOXES * BOX_BYTES,
              "boxes and stages take the shared memory that fused_half.c asks for");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Returns the descriptor of a stage, and what moves it 16 along k: strips of 64 columns with k
 * across their 32 lines of 128 bytes, or a line of 64 bytes along k for every column. */
template <bool across>
static __device__ __forceinline__ uint64_t stage_at(uint32_t address) {
  return across ? (uint64_t)((address & 0x3FFFF) >> 4) | ((uint64_t)(STRIP_BYTES >> 4) << 16) |
                      (64ull << 32) | (1ull << 62)
                : mmci_byte_matrix_at(address);
}

/* Turns four words of each of four neighbours: word i of lane l becomes word l of lane i. */
static __device__ __forceinline__ void turn_quad(uint32_t (&x)[4]) {
  const bool odd = threadIdx.x % 2 != 0, high = threadIdx.x % 4 >= 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? x[i] : x[i + 1], 1);
    if (odd)
      x[i] = got;
    else
      x[i + 1] = got;
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, high ? x[i] : x[i + 2], 2);
    if (high)
      x[i] = got;
    else
      x[i + 2] = got;
  }
}

template <typename Element>
struct FusedWide {
  typedef float Sums[HALF / 2];
  typedef uint32_t Rounded[HALF / 4];
  const mmci_fused_half_job &job;
  uint32_t base, barriers; /* of shared memory */
  int rank, matrix, first; /* the block of the cluster, the matrix of the batch, the first round */

  __device__ __forceinline__ uint32_t box(int i, int group) const {
    return base + (i * GROUPS + group) * BOX_BYTES;
  }
  __device__ __forceinline__ uint32_t stage(int i) const {
    return base + BOXES * GROUPS * BOX_BYTES + i * STAGE_BYTES;
  }
  __device__ __forceinline__ uint32_t full(int i) const { return barriers + 8 * i; }
  __device__ __forceinline__ uint32_t empty(int i) const { return barriers + 8 * (STAGES + i); }
  __device__ __forceinline__ uint32_t a_full(int i, int group) const {
    return barriers + 8 * (2 * STAGES + i * GROUPS + group);
  }
  __device__ __forceinline__ uint32_t a_empty(int i, int group) const {
    return a_full(i, group) + 8 * BOXES * GROUPS;
  }
  __device__ __forceinline__ int row_of(int round, int group) const {
    return ((round * CLUSTER + rank) * GROUPS + group) * BOX;
  }

  __device__ __forceinline__ void open() const {
    for (int i = 0; i < STAGES; i++) {
      mmci_barrier_init(full(i), 1);
      mmci_barrier_init(empty(i), CLUSTER * GROUPS * 4); /* every warp of both blocks arrives */
    }
    for (int i = 0; i < BOXES; i++)
      for (int group = 0; group < GROUPS; group++) {
        mmci_barrier_init(a_full(i, group), 1);
        mmci_barrier_init(a_empty(i, group), 4);
      }
    mmci_barrier_init_done();
  }

  /* ---- loading: a thread for each group's rows, another one for B and C */

  __device__ __forceinline__ void load_pass(const CUtensorMap *map, bool by_columns,
                                            bool is_repeated, int stages, int col,
                                            Ring &ring) const {
    for (int s = 0; s < stages; s++, ring.next(STAGES)) {
      await(empty(ring.at), ring.odd ^ 1);
      mmci_barrier_expect(full(ring.at), STAGE_BYTES);
      for (int i = rank * STRIPS; i < (rank + 1) * STRIPS; i++) {
        const int term = s * TERMS, of_strip = col + i * BOX;
        mmci_plane_load_all(stage(ring.at) + i * STRIP_BYTES, map, full(ring.at),
                            by_columns ? term : of_strip, by_columns ? of_strip : term,
                            is_repeated ? 0 : matrix, (1 << CLUSTER) - 1);
      }
    }
  }

  __device__ __forceinline__ void load_weights(const mmci_fused_half_maps &maps) const {
    const int per_box = BOX / TERMS;
    Ring ring = {0, 0};
    for (int round = first; round < job.rounds; round += job.blocks) {
      for (int h = 0; h < SIDE / HALF; h++)
        load_pass(&maps.b, job.b_by_columns, job.is_repeated[1], per_box * job.k_blocks, h * HALF,
                  ring);
      for (int h = 0; h < job.chunks; h++)
        load_pass(&maps.c, job.c_by_columns, job.is_repeated[2], per_box * job.w_blocks, h * HALF,
                  ring);
    }
  }

  __device__ __forceinline__ void load_a(const CUtensorMap *a, int group) const {
    int odd = 0;
    for (int round = first; round < job.rounds; round += job.blocks, odd ^= 1)
      for (int i = 0; i < job.k_blocks; i++) {
        const int row = row_of(round, group), term = i * BOX;
        await(a_empty(i, group), odd ^ 1);
        mmci_barrier_expect(a_full(i, group), BOX_BYTES);
        load_box(box(i, group), a, a_full(i, group), job.a_by_columns ? row : term,
                 job.a_by_columns ? term : row, job.is_repeated[0] ? 0 : matrix);
      }
  }

  /* ---- multiplying: a warpgroup for 64 rows */

  __device__ __forceinline__ void give_back(int at) const {
    if ((int)threadIdx.x % 32 < CLUSTER) mmci_barrier_arrive(empty(at), threadIdx.x % 32);
  }
  __device__ __forceinline__ void give_back_a(int i, int group) const {
    if (threadIdx.x % 32 == 0 && i < job.k_blocks) arrive(a_empty(i, group));
  }

  /* Adds the product of half `part` of a box's terms by a stage, and gives the stage before back.
   * The first one of a pass ignores what sums hold. */
  template <bool ta, bool tb>
  __device__ __forceinline__ void multiply_stage(Sums &sums, uint32_t left, int part, bool is_first,
                                                 Ring &ring, int &before) const {
    await(full(ring.at), ring.odd);
    const uint64_t a = box_at<ta>(left) + part * 2 * step_of<ta>(),
                   b = stage_at<!tb>(stage(ring.at));
    mmci_products_begin();
    set_products<ta, !tb>(Element(), sums, a, b, !is_first);
    set_products<ta, !tb>(Element(), sums, a + step_of<ta>(), b + step_of<!tb>(), true);
    mmci_products_commit();
    mmci_products_wait<1>();
    if (!is_first) give_back(before);
    before = ring.at;
    ring.next(STAGES);
  }
  __device__ __forceinline__ void end_pass(Sums &sums, int before) const {
    mmci_products_wait<0>();
    mmci_pin(sums);
    give_back(before);
  }

  /* Rounds sums of so many columns of T. Further columns become zeros: what lies there are zeros
   * times what A holds, infinities as well. */
  __device__ __forceinline__ static void round_sums(const Sums &sums, Rounded &t, int left) {
#pragma unroll
    for (int i = 0; i < HALF / 4; i++) t[i] = pair_of(Element(), sums[2 * i], sums[2 * i + 1]);
    if (left >= HALF) return;
    left -= 2 * ((int)threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < HALF / 8; i++) {
      const uint32_t keep = left > 1 ? 0xffffffffu : left > 0 ? 0xffffu : 0;
      t[2 * i] &= keep;
      t[2 * i + 1] &= keep;
      left -= 8;
      asm volatile("" : "+r"(left)); /* masks are not worth registers */
    }
  }

  /* Writes box i of a half of T. */
  __device__ __forceinline__ static void write_t(uint32_t to, const Rounded &t, int i) {
    const int warp = (int)threadIdx.x % WARPGROUP / 32, lane = (int)threadIdx.x % 32,
              tile = lane / 8, line = lane % 8;
    const uint32_t at = to + (16 * warp + tile % 2 * 8 + line) * 128 + (((tile / 2) ^ line) << 4);
#pragma unroll
    for (int q = 0; q < BOX / 16; q++) {
      const uint32_t words[4] = {t[16 * i + 4 * q], t[16 * i + 4 * q + 1], t[16 * i + 4 * q + 2],
                                 t[16 * i + 4 * q + 3]};
      store_tiles<false>(at ^ q * 32, words);
    }
  }

  /* Computes T's rows, which then lie in the first w_blocks boxes. */
  template <bool ta, bool tb>
  __device__ __forceinline__ void first_product(Sums &sums, int group, int odd, Ring &ring) const {
    Rounded t;
    int before = 0;
#pragma unroll 1
    for (int s = 0; s < 2 * job.k_blocks; s++) {
      if (s % 2 == 0) await(a_full(s / 2, group), odd);
      multiply_stage<ta, tb>(sums, box(s / 2, group), s % 2, s == 0, ring, before);
    }
    end_pass(sums, before);
    round_sums(sums, t, job.w);
    int written = 0;
#pragma unroll
    for (int i = 0; i < BOXES; i++)
      if (i < job.k_blocks) {
        multiply_stage<ta, tb>(sums, box(i, group), 0, i == 0, ring, before);
        multiply_stage<ta, tb>(sums, box(i, group), 1, false, ring, before);
        if (i > 0 && i <= HALF_BOXES) {
          mmci_warpgroup_sync(1 + group); /* all its warps have read the box before */
          write_t(box(i - 1, group), t, i - 1);
          written = i;
        }
      }
    end_pass(sums, before);
    mmci_warpgroup_sync(1 + group);
#pragma unroll
    for (int i = 0; i < HALF_BOXES; i++)
      if (i >= written) write_t(box(i, group), t, i);
    round_sums(sums, t, job.w - HALF);
#pragma unroll
    for (int i = 0; i < HALF_BOXES; i++)
      if (HALF_BOXES + i < job.w_blocks) write_t(box(HALF_BOXES + i, group), t, i);
    show_to_copies();
    mmci_warpgroup_sync(1 + group);
  }

  /* ---- storing: a lane stores 16 bytes of a line of D at once */

  __device__ __forceinline__ static void store_word(uint16_t *at, const uint32_t (&x)[4],
                                                    int left) {
    if (left >= 8) {
      mmci_store(at, x);
    } else {
#pragma unroll
      for (int e = 0; e < 8; e++)
        if (e < left) at[e] = (uint16_t)(x[e / 2] >> e % 2 * 16);
    }
  }
  __device__ __forceinline__ uint16_t *result() const {
    return (uint16_t *)job.d + matrix * job.d_stride;
  }

  /* D by rows: a quad has 32 columns of a row. */
  __device__ __forceinline__ void store_rows(const Sums &sums, int row, int col) const {
    const int lane = (int)threadIdx.x % 32;
    uint16_t *to = result();
#pragma unroll
    for (int j = 0; j < HALF / 32; j++)
#pragma unroll
      for (int low = 0; low < 2; low++) {
        uint32_t x[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const float *pair = &sums[16 * j + 4 * i + 2 * low];
          x[i] = pair_of(Element(), pair[0], pair[1]);
        }
        turn_quad(x);
        const int r = row + 8 * low + lane / 4, c = col + 32 * j + 8 * (lane % 4);
        if (r < job.m && c < job.n) store_word(to + r * job.d_ld + c, x, job.n - c);
      }
  }

  /* D by columns: a quad has 16 rows of two columns. */
  __device__ __forceinline__ void store_columns(const Sums &sums, int row, int col) const {
    const int lane = (int)threadIdx.x % 32;
    uint16_t *to = result();
#pragma unroll
    for (int j = 0; j < HALF / 16; j++) {
      uint32_t x[4];
#pragma unroll
      for (int i = 0; i < 4; i++)
        x[i] = turn_tile(pair_of(Element(), sums[8 * j + 2 * i], sums[8 * j + 2 * i + 1]));
      turn_quad(x);
      const int r = row + 8 * (lane % 2), c = col + 16 * j + 8 * (lane % 4 / 2) + lane / 4;
      if (r < job.m && c < job.n) store_word(to + c * job.d_ld + r, x, job.m - r);
    }
  }

  template <bool ta, bool tb, bool tc>
  __device__ __forceinline__ void multiply() const {
    const int group = (int)threadIdx.x / WARPGROUP - 1,
              warp_row = (int)threadIdx.x % WARPGROUP / 32 * 16;
    Ring ring = {0, 0};
    int odd = 0;
    for (int round = first; round < job.rounds; round += job.blocks, odd ^= 1) {
      Sums sums;
      first_product<ta, tb>(sums, group, odd, ring);
#pragma unroll 1
      for (int h = 0; h < job.chunks; h++) {
        const bool is_last = h == job.chunks - 1;
        int before = 0;
#pragma unroll 1
        for (int s = 0; s < 2 * job.w_blocks; s++) {
          multiply_stage<false, tc>(sums, box(s / 2, group), s % 2, s == 0, ring, before);
          if (is_last && s % 2 == 0 && s > 0) give_back_a(s / 2 - 1, group);
        }
        end_pass(sums, before);
        if (is_last)
          for (int i = job.w_blocks - 1; i < job.k_blocks; i++) give_back_a(i, group);
        const int row = row_of(round, group) + warp_row;
        if (job.d_by_columns)
          store_columns(sums, row, h * HALF);
        else
          store_rows(sums, row, h * HALF);
        __syncwarp(); /* products are those of whole warps */
      }
    }
  }

  __device__ __forceinline__ void load(const mmci_fused_half_maps &maps) const {
    const int warp = (int)threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) {
      if (warp < GROUPS) load_a(&maps.a, warp);
      if (warp == GROUPS) load_weights(maps);
    }
    __syncwarp();
  }
};

#endif

/* A kernel a layout of A, B and C, by columns or not: together they would lack registers. */
template <typename Element, bool ta, bool tb, bool tc>
__global__ void __launch_bounds__(THREADS, 1)
    fused_wide(const __grid_constant__ mmci_fused_half_maps maps,
               const __grid_constant__ mmci_fused_half_job job) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  MMCI_DYNAMIC_SHARED(memory);
  __shared__ __align__(16) uint64_t barriers[BARRIERS];
  const uint32_t base = (mmci_shared_address(memory) + 1023) & ~1023u;
  const int cluster = (int)blockIdx.x / CLUSTER;
  const FusedWide<Element> kernel = {job,
                                     base,
                                     mmci_shared_address(barriers),
                                     (int)mmci_cluster_rank(),
                                     cluster / job.blocks,
                                     cluster % job.blocks};
  if (threadIdx.x == 0) kernel.open();
  __syncthreads();
  mmci_cluster_sync();
  if (threadIdx.x < WARPGROUP) {
    keep_registers<LOADER_REGISTERS>();
    kernel.load(maps);
  } else {
    take_registers<MULTIPLIER_REGISTERS>();
    kernel.template multiply<ta, tb, tc>();
  }
  mmci_cluster_sync(); /* the other block still loads to this one and arrives here */
#endif
}

#define LAYOUTS(Element)                                       \
  {                                                            \
    (const void *)fused_wide<Element, false, false, false>,    \
        (const void *)fused_wide<Element, true, false, false>, \
        (const void *)fused_wide<Element, false, true, false>, \
        (const void *)fused_wide<Element, true, true, false>,  \
        (const void *)fused_wide<Element, false, false, true>, \
        (const void *)fused_wide<Element, true, false, true>,  \
        (const void *)fused_wide<Element, false, true, true>,  \
        (const void *)fused_wide<Element, true, true, true>    \
  }

const void *const mmci_fused_wide_functions[2][MMCI_FUSED_WIDE_LAYOUTS] = {
    LAYOUTS(mmci_f16_element), LAYOUTS(mmci_bf16_element)};

const mmci_fused_half_kernel mmci_fused_wide = {
    SIDE,
    HALF,
    CLUSTER *GROUPS,
    0,
    CLUSTER,
    MMCI_FUSED_BY_WIDE,
    5.94e6,
    {"fused left f16 512x256", "fused left bf16 512x256"},
    {"fused right f16 512x256", "fused right bf16 512x256"},
    {}};
