/* fused_half.cu: D = (A B) C in f16 or bf16 by Hopper's tensor cores, with A B in registers.
 *
 * Layout  every matrix by rows or by columns, in lines of whole 16 bytes; any m, k, n, edges filled
 *         with zeros by tensor maps; A B of at most WIDTH columns
 * Launch  one block a multiprocessor, which stays for all its rows: one warpgroup loads, GROUPS
 *         multiply 64 rows each
 * Traffic 2 m w (k + n) flops; reads A once and writes D once; B and C stay in shared memory as far
 *         as there is room, the rest is read again from the L2 for every 64 GROUPS rows
 * Idea    The sums of A B, rounded in pairs, lie in registers exactly as the tensor cores want the
 *         left operand of the next product, so T never leaves them. Everything that is loaded or
 *         stored is a box of 64 x 64 elements in swizzled lines of 128 bytes, whichever way the
 *         matrix lies: the tensor cores read either. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/group/fused_half.cuh"

template <int WIDTH_, int CHUNK_, int GROUPS_>
struct FusedHalfShape {
  enum {
    WIDTH = WIDTH_,
    CHUNK = CHUNK_,
    GROUPS = GROUPS_,
    THREADS = (GROUPS + 1) * WARPGROUP,
    /* Registers of a thread, in eights, at first and of those that multiply: what the block has
     * less what those that load keep. More would never come. */
    EVEN = 65536 / THREADS / 8 * 8,
    REGISTERS = (EVEN * (GROUPS + 1) - LOADER_REGISTERS) / GROUPS / 8 * 8,
    PIECE = WIDTH < 128 ? WIDTH : 128, /* columns of B that one instruction takes */
    PIECES = WIDTH / PIECE,
    SLOT_BYTES = (PIECE > CHUNK ? PIECE : CHUNK) / BOX * BOX_BYTES,
    OUT_BYTES = CHUNK / BOX * BOX_BYTES /* what a group of rows stores at once */
  };
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- the kernel's parts -----------------------------------------------------------------------
 */

template <typename Element, typename S>
struct FusedHalf {
  const mmci_fused_half_job &job;
  uint32_t base, barriers; /* of shared memory */
  int matrix, first;       /* the matrix of the batch, and the first round */

  __device__ __forceinline__ uint32_t slot(int i) const { return base + i * S::SLOT_BYTES; }
  __device__ __forceinline__ uint32_t a_stage(int i) const {
    return slot(job.slots) + i * BOX_BYTES;
  }
  __device__ __forceinline__ uint32_t out(int group, int i) const {
    return a_stage(job.a_stages) + (group * job.outs + i) * S::OUT_BYTES;
  }
  __device__ __forceinline__ uint32_t slot_full(int i) const { return barriers + 16 * i; }
  __device__ __forceinline__ uint32_t slot_empty(int i) const { return slot_full(i) + 8; }
  __device__ __forceinline__ uint32_t a_full(int i) const {
    return slot_full(MMCI_FUSED_HALF_BOXES + i);
  }
  __device__ __forceinline__ uint32_t a_empty(int i) const { return a_full(i) + 8; }
  __device__ __forceinline__ int row_of(int round, int group) const {
    return (round * S::GROUPS + group) * BOX;
  }

  /* ---- loading: a thread for A, another one for B and C */

  __device__ __forceinline__ void load_a(const CUtensorMap *a) const {
    Ring ring = {0, 0};
    for (int round = first; round < job.rounds; round += job.blocks)
      for (int k = 0; k < job.k_blocks; k++)
        for (int group = 0; group < S::GROUPS; group++, ring.next(job.a_stages)) {
          const int row = row_of(round, group), term = k * BOX;
          await(a_empty(ring.at), ring.odd ^ 1);
          mmci_barrier_expect(a_full(ring.at), BOX_BYTES);
          load_box(a_stage(ring.at), a, a_full(ring.at), job.a_by_columns ? row : term,
                   job.a_by_columns ? term : row, job.is_repeated[0] ? 0 : matrix);
        }
  }

  __device__ __forceinline__ void load_piece(const CUtensorMap *map, bool by_columns,
                                             bool is_repeated, int at, int term, int col,
                                             int cols) const {
    mmci_barrier_expect(slot_full(at), cols / BOX * BOX_BYTES);
    for (int c = 0; c < cols; c += BOX)
      load_box(slot(at) + c / BOX * BOX_BYTES, map, slot_full(at), by_columns ? term : col + c,
               by_columns ? col + c : term, is_repeated ? 0 : matrix);
  }

  /* Loads piece number s of B and C to a place. */
  __device__ __forceinline__ void load_stage(const CUtensorMap *b, const CUtensorMap *c, int s,
                                             int at) const {
    const int of_b = job.k_blocks * S::PIECES;
    if (s < of_b)
      load_piece(b, job.b_by_columns, job.is_repeated[1], at, s / S::PIECES * BOX,
                 s % S::PIECES * S::PIECE, S::PIECE);
    else
      load_piece(c, job.c_by_columns, job.is_repeated[2], at, (s - of_b) % job.w_blocks * BOX,
                 (s - of_b) / job.w_blocks * S::CHUNK, S::CHUNK);
  }

  __device__ __forceinline__ void load_rest(const CUtensorMap *b, const CUtensorMap *c) const {
    for (int s = 0; s < job.kept; s++) load_stage(b, c, s, s);
    if (job.kept == job.stages) return;
    Ring ring = {0, 0};
    for (int round = first; round < job.rounds; round += job.blocks)
      for (int s = job.kept; s < job.stages; s++, ring.next(job.slots - job.kept)) {
        const int at = job.kept + ring.at;
        await(slot_empty(at), ring.odd ^ 1);
        load_stage(b, c, s, at);
      }
  }

  /* ---- multiplying: a warpgroup for 64 rows */

  /* Waits for piece s and returns its place. */
  __device__ __forceinline__ int take(int s, Ring &ring) const {
    int at = s, odd = 0;
    if (s >= job.kept) {
      at = job.kept + ring.at;
      odd = ring.odd;
      ring.next(job.slots - job.kept);
    }
    await(slot_full(at), odd);
    return at;
  }
  __device__ __forceinline__ void give_back(int at) const {
    if (at >= job.kept && threadIdx.x % 32 == 0) arrive(slot_empty(at));
  }

  /* sums = A B, for which a block of A is loaded once. */
  template <bool ta, bool tb>
  __device__ __forceinline__ void first_product(float (&sums)[S::PIECES][S::PIECE / 2], int group,
                                                Ring &a_ring, Ring &ring) const {
    int before[S::PIECES] = {}, a_before = 0;
#pragma unroll
    for (int piece = 0; piece < S::PIECES; piece++)
#pragma unroll
      for (int i = 0; i < S::PIECE / 2; i++) sums[piece][i] = 0;
#pragma unroll 1
    for (int k = 0; k < job.k_blocks; k++) {
      /* The ring holds the blocks of all groups, k by k. */
      for (int g = 0; g < group; g++) a_ring.next(job.a_stages);
      const int a_now = a_ring.at, a_odd = a_ring.odd;
      for (int g = group; g < S::GROUPS; g++) a_ring.next(job.a_stages);
      await(a_full(a_now), a_odd);
      int now[S::PIECES];
      const uint64_t a = box_at<ta>(a_stage(a_now));
#pragma unroll
      for (int piece = 0; piece < S::PIECES; piece++) {
        now[piece] = take(k * S::PIECES + piece, ring);
        const uint64_t b = box_at<!tb>(slot(now[piece]));
        mmci_products_begin();
#pragma unroll
        for (int q = 0; q < BOX / 16; q++)
          add_products<ta, !tb>(Element(), sums[piece], a + q * step_of<ta>(),
                                b + q * step_of<!tb>());
      }
      mmci_products_commit();
      mmci_products_wait<1>();
      if (k > 0) {
#pragma unroll
        for (int piece = 0; piece < S::PIECES; piece++) give_back(before[piece]);
        if (threadIdx.x % 32 == 0) arrive(a_empty(a_before));
      }
#pragma unroll
      for (int piece = 0; piece < S::PIECES; piece++) before[piece] = now[piece];
      a_before = a_now;
    }
    mmci_products_wait<0>();
#pragma unroll
    for (int piece = 0; piece < S::PIECES; piece++) {
      mmci_pin(sums[piece]);
      give_back(before[piece]);
    }
    if (threadIdx.x % 32 == 0) arrive(a_empty(a_before));
  }

  /* Rounds T to the left operand of the next product. Columns past the edge become zeros: what lies
   * there are zeros times what A holds, infinities as well. */
  __device__ __forceinline__ void round_sums(const float (&sums)[S::PIECE / 2],
                                             uint32_t (&t)[S::PIECE / 16][4], int piece) const {
#pragma unroll
    for (int i = 0; i < S::PIECE / 8; i++) {
      const float *x = &sums[4 * i];
      t[i / 2][i % 2 * 2] = pair_of(Element(), x[0], x[1]);
      t[i / 2][i % 2 * 2 + 1] = pair_of(Element(), x[2], x[3]);
    }
    if (job.w == S::WIDTH) return;
    /* How many of the columns that are multiples of eight further are left. */
    int left = job.w - piece * S::PIECE - 2 * ((int)threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < S::PIECE / 8; i++) {
      const uint32_t keep = left > 1 ? 0xffffffffu : left > 0 ? 0xffffu : 0;
      t[i / 2][i % 2 * 2] &= keep;
      t[i / 2][i % 2 * 2 + 1] &= keep;
      left -= 8;
      asm volatile("" : "+r"(left)); /* masks are not worth registers */
    }
  }

  /* sums = T C for a chunk of the columns of C. */
  template <bool tc>
  __device__ __forceinline__ void second_product(float (&sums)[S::CHUNK / 2],
                                                 const uint32_t (&t)[S::PIECES][S::PIECE / 16][4],
                                                 int chunk, Ring &ring) const {
    const int begin = job.k_blocks * S::PIECES + chunk * job.w_blocks;
    int before = 0;
#pragma unroll
    for (int i = 0; i < S::CHUNK / 2; i++) sums[i] = 0;
#pragma unroll
    for (int i = 0; i < S::WIDTH / BOX; i++) {
      if (i < job.w_blocks) {
        const int now = take(begin + i, ring);
        const uint64_t c = box_at<!tc>(slot(now));
        mmci_products_begin();
#pragma unroll
        for (int q = 0; q < BOX / 16; q++)
          add_products<!tc>(Element(), sums, t[i * BOX / S::PIECE][i * BOX % S::PIECE / 16 + q],
                            c + q * step_of<!tc>());
        mmci_products_commit();
        mmci_products_wait<1>();
        if (i > 0) give_back(before);
        before = now;
      }
    }
    mmci_products_wait<0>();
    mmci_pin(sums);
    give_back(before);
  }

  /* Writes sums to shared memory, in lines as D has them, and from there to D. */
  __device__ __forceinline__ void store(const CUtensorMap *d, const float (&sums)[S::CHUNK / 2],
                                        int group, int turn, int row, int col) const {
    const bool is_first = threadIdx.x % WARPGROUP == 0;
    const uint32_t to = out(group, turn & (job.outs - 1));
    if (is_first) {
      if (job.outs == 2)
        copies_wait_read<1>();
      else
        copies_wait_read<0>();
    }
    mmci_warpgroup_sync(1 + group);
    if (job.d_by_columns) {
#pragma unroll
      for (int c = 0; c < S::CHUNK / BOX; c++)
        write_box<Element, true, false>(to + c * BOX_BYTES, &sums[c * BOX / 2], BOX);
    } else {
#pragma unroll
      for (int c = 0; c < S::CHUNK / BOX; c++)
        write_box<Element, false, false>(to + c * BOX_BYTES, &sums[c * BOX / 2], BOX);
    }
    show_to_copies();
    mmci_warpgroup_sync(1 + group);
    for (int c = 0; c < S::CHUNK / BOX; c++)
      store_result(job, d, matrix, to + c * BOX_BYTES, row, col + c * BOX);
    if (is_first) copies_commit();
    __syncwarp(); /* products are those of whole warps */
  }

  __device__ __forceinline__ void multiply(const CUtensorMap *d) const {
    const int group = (int)threadIdx.x / WARPGROUP - 1;
    Ring a_ring = {0, 0}, ring = {0, 0};
    int turn = 0;
    for (int round = first; round < job.rounds; round += job.blocks) {
      uint32_t t[S::PIECES][S::PIECE / 16][4];
      {
        float sums[S::PIECES][S::PIECE / 2];
        if (job.a_by_columns && job.b_by_columns)
          first_product<true, true>(sums, group, a_ring, ring);
        else if (job.a_by_columns)
          first_product<true, false>(sums, group, a_ring, ring);
        else if (job.b_by_columns)
          first_product<false, true>(sums, group, a_ring, ring);
        else
          first_product<false, false>(sums, group, a_ring, ring);
#pragma unroll
        for (int piece = 0; piece < S::PIECES; piece++) round_sums(sums[piece], t[piece], piece);
      }
#pragma unroll 1
      for (int chunk = 0; chunk < job.chunks; chunk++) {
        float sums[S::CHUNK / 2];
        if (job.c_by_columns)
          second_product<true>(sums, t, chunk, ring);
        else
          second_product<false>(sums, t, chunk, ring);
        store(d, sums, group, turn++, row_of(round, group), chunk * S::CHUNK);
      }
    }
    /* Shared memory must last until the stores have read it. */
    if (threadIdx.x % WARPGROUP == 0) copies_wait();
  }
};

#endif

template <typename Element, typename S>
__global__ void __launch_bounds__(S::THREADS, 1)
    fused_half(const __grid_constant__ mmci_fused_half_maps maps,
               const __grid_constant__ mmci_fused_half_job job) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  MMCI_DYNAMIC_SHARED(memory);
  __shared__ __align__(16) uint64_t barriers[4 * MMCI_FUSED_HALF_BOXES];
  const uint32_t base = (mmci_shared_address(memory) + 1023) & ~1023u;
  const FusedHalf<Element, S> kernel = {job, base, mmci_shared_address(barriers),
                                        (int)blockIdx.x / job.blocks, (int)blockIdx.x % job.blocks};
  if (threadIdx.x == 0) {
    for (int s = 0; s < job.slots; s++) {
      mmci_barrier_init(kernel.slot_full(s), 1);
      mmci_barrier_init(kernel.slot_empty(s), S::GROUPS * 4); /* every warp arrives */
    }
    for (int s = 0; s < job.a_stages; s++) {
      mmci_barrier_init(kernel.a_full(s), 1);
      mmci_barrier_init(kernel.a_empty(s), 4);
    }
    mmci_barrier_init_done();
  }
  __syncthreads();
  if (threadIdx.x < WARPGROUP) {
    keep_registers<LOADER_REGISTERS>();
    if (threadIdx.x == 0) kernel.load_a(&maps.a);
    if (threadIdx.x == 32) kernel.load_rest(&maps.b, &maps.c);
  } else {
    take_registers<S::REGISTERS>();
    kernel.multiply(&maps.d);
  }
#endif
}

/* ---- the table --------------------------------------------------------------------------------
 */

#define KERNEL(width, chunk, groups)                                                              \
  {                                                                                               \
    width, chunk, groups, FusedHalfShape<width, chunk, groups>::SLOT_BYTES, 1, MMCI_FUSED_BY_ONE, \
        3.9e6, {"fused left f16 " #width "x" #chunk, "fused left bf16 " #width "x" #chunk},       \
        {"fused right f16 " #width "x" #chunk, "fused right bf16 " #width "x" #chunk}, {          \
      (const void *)fused_half<mmci_f16_element, FusedHalfShape<width, chunk, groups>>,           \
          (const void *)fused_half<mmci_bf16_element, FusedHalfShape<width, chunk, groups>>       \
    }                                                                                             \
  }

const mmci_fused_half_kernel mmci_fused_half_kernels[MMCI_FUSED_HALF_KERNELS] = {
    KERNEL(64, 64, 4),   KERNEL(64, 128, 3),  KERNEL(128, 64, 3),
    KERNEL(128, 128, 3), KERNEL(256, 128, 2),
};
