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

#include "device/cuda/elements.cuh"
#include "device/cuda/emulated/wgmma.cuh"
#include "device/cuda/group/fused_half.h"

enum {
  BOX = MMCI_FUSED_HALF_BOX,
  BOX_BYTES = BOX * BOX * 2,
  WARPGROUP = 128,
  LOADER_REGISTERS = 40
};

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

/* ---- Hopper's instructions --------------------------------------------------------------------
 */

/* Copies a box of 64 x 64 elements to shared memory. */
static __device__ __forceinline__ void load_box(uint32_t to, const CUtensorMap *map,
                                                uint32_t barrier, int x, int y, int matrix) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(matrix)
      : "memory");
}

static __device__ __forceinline__ void store_box(const CUtensorMap *map, uint32_t from, int x,
                                                 int y, int matrix) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
      "r"(from), "r"(x), "r"(y), "r"(matrix)
      : "memory");
}

/* Waits at a barrier. An arrival that is missing ends as an error, not as a hang: by a store that
 * faults, since nvcc gives registers to those that multiply only where nothing is a trap. */
static __device__ __forceinline__ void await(uint32_t barrier, uint32_t phase) {
  uint32_t done = 0;
  for (int tries = 0; done == 0; tries++) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier), "r"(phase)
        : "memory");
    if (tries > 1 << 24) asm volatile("st.global.u32 [%0], %1;" ::"l"(0ull), "r"(0) : "memory");
  }
}

static __device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Returns the descriptor of boxes in which k runs across the lines; boxes of the next 64 rows or
 * columns follow. Adding 128 moves 16 along k. */
static __device__ __forceinline__ uint64_t crosswise(uint32_t address) {
  return (uint64_t)((address & 0x3FFFF) >> 4) | ((uint64_t)(BOX_BYTES >> 4) << 16) | (64ull << 32) |
         (1ull << 62);
}

/* Returns the descriptor of boxes, and what moves it 16 along k. */
template <bool across>
static __device__ __forceinline__ uint64_t box_at(uint32_t address) {
  return across ? crosswise(address) : mmci_matrix_at(address);
}
template <bool across>
static __device__ __forceinline__ uint64_t step_of() {
  return across ? 128 : 2;
}

#define R32                                              \
  MMCI_R8(0, 1, 2, 3, 4, 5, 6, 7)                        \
  "," MMCI_R8(8, 9, 10, 11, 12, 13, 14, 15) "," MMCI_R8( \
      16, 17, 18, 19, 20, 21, 22, 23) "," MMCI_R8(24, 25, 26, 27, 28, 29, 30, 31)
#define D32(d) MMCI_D8(d, 0), MMCI_D8(d, 8), MMCI_D8(d, 16), MMCI_D8(d, 24)

/* d += A B for 64 rows and 64 or 128 columns and 16 terms, A in shared memory or in registers. */
#define PRODUCTS_OF(Element, type, cols, sums, list, D, A, B, TA, TB, R0, R1, R2, R3, RB, RT) \
  template <bool ta, bool tb>                                                                 \
  static __device__ __forceinline__ void add_products(Element, float(&d)[sums], uint64_t a,   \
                                                      uint64_t b) {                           \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" cols "k16.f32." type "." type " {" list  \
                 "}, " A ", " B ", 1, 1, 1, " TA ", " TB ";"                                  \
                 : D(d)                                                                       \
                 : "l"(a), "l"(b), "n"((int)ta), "n"((int)tb));                               \
  }                                                                                           \
  template <bool tb>                                                                          \
  static __device__ __forceinline__ void add_products(Element, float(&d)[sums],               \
                                                      const uint32_t(&a)[4], uint64_t b) {    \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" cols "k16.f32." type "." type " {" list  \
                 "}, {" R0 ", " R1 ", " R2 ", " R3 "}, " RB ", 1, 1, 1, " RT ";"              \
                 : D(d)                                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)tb));         \
  }
#define PRODUCTS(Element, type)                                                                   \
  PRODUCTS_OF(Element, type, "64", 32, R32, D32, "%32", "%33", "%34", "%35", "%32", "%33", "%34", \
              "%35", "%36", "%37")                                                                \
  PRODUCTS_OF(Element, type, "128", 64, MMCI_R64, MMCI_D64, "%64", "%65", "%66", "%67", "%64",    \
              "%65", "%66", "%67", "%68", "%69")

PRODUCTS(mmci_f16_element, "f16")
PRODUCTS(mmci_bf16_element, "bf16")

static __device__ __forceinline__ uint32_t pair_of(mmci_f16_element, float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&pair);
}
static __device__ __forceinline__ uint32_t pair_of(mmci_bf16_element, float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&pair);
}

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

  /* A place in a ring of so many, and whether its turn is an odd one. */
  struct Ring {
    int at, odd;
    __device__ __forceinline__ void next(int count) {
      if (++at == count) {
        at = 0;
        odd ^= 1;
      }
    }
  };

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

  /* Writes four tiles of 8 x 8, each line of which goes to the address of a lane. */
  template <bool turned>
  static __device__ __forceinline__ void store_tiles(uint32_t at, const float *x) {
    const uint32_t words[4] = {pair_of(Element(), x[0], x[1]), pair_of(Element(), x[2], x[3]),
                               pair_of(Element(), x[4], x[5]), pair_of(Element(), x[6], x[7])};
    if (turned)
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
          "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
          : "memory");
    else
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                   "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                   : "memory");
  }

  /* Writes what D has of a box: element x and so on of line y and so on. */
  __device__ __forceinline__ void store_edge(uint32_t from, int x, int y, int thread) const {
    const int line = thread / 2, half = thread % 2 * (BOX / 2);
    if (y + line >= job.d_lines) return;
    uint16_t *to = (uint16_t *)job.d + matrix * job.d_stride + (y + line) * job.d_ld + x;
#pragma unroll 1
    for (int e = half; e < half + BOX / 2 && x + e < job.d_length; e++)
      asm volatile("ld.shared.u16 %0, [%1];"
                   : "=h"(to[e])
                   : "r"(from + line * 128 + ((e / 8 ^ line % 8) << 4) + e % 8 * 2)
                   : "memory");
  }

  /* Writes sums to shared memory, in lines as D has them, and from there to D. */
  __device__ __forceinline__ void store(const CUtensorMap *d, const float (&sums)[S::CHUNK / 2],
                                        int group, int turn, int row, int col) const {
    const int thread = (int)threadIdx.x % WARPGROUP, warp = thread / 32, lane = thread % 32;
    const uint32_t to = out(group, turn & (job.outs - 1));
    if (thread == 0) {
      if (job.outs == 2)
        asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
      else
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    mmci_warpgroup_sync(1 + group);
    const int tile = lane / 8, line = lane % 8;
    if (job.d_by_columns) {
      const uint32_t at = to + (tile / 2 * 8 + line) * 128 + (((2 * warp + tile % 2) ^ line) << 4);
#pragma unroll
      for (int q = 0; q < S::CHUNK / 16; q++)
        store_tiles<true>(at + q / 4 * BOX_BYTES + q % 4 * 2048, &sums[8 * q]);
    } else {
      const uint32_t at = to + (16 * warp + tile % 2 * 8 + line) * 128 + (((tile / 2) ^ line) << 4);
#pragma unroll
      for (int q = 0; q < S::CHUNK / 16; q++)
        store_tiles<false>((at ^ q % 4 * 32) + q / 4 * BOX_BYTES, &sums[8 * q]);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    mmci_warpgroup_sync(1 + group);
    for (int c = 0; c < S::CHUNK && col + c < job.n && row < job.m; c += BOX) {
      const int x = job.d_by_columns ? row : col + c, y = job.d_by_columns ? col + c : row;
      if (job.d_ragged && x + BOX > job.d_length)
        store_edge(to + c / BOX * BOX_BYTES, x, y, thread);
      else if (thread == 0)
        store_box(d, to + c / BOX * BOX_BYTES, x, y, matrix);
    }
    if (thread == 0) asm volatile("cp.async.bulk.commit_group;" ::: "memory");
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
    if (threadIdx.x % WARPGROUP == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
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
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"((int)LOADER_REGISTERS));
    if (threadIdx.x == 0) kernel.load_a(&maps.a);
    if (threadIdx.x == 32) kernel.load_rest(&maps.b, &maps.c);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"((int)S::REGISTERS));
    kernel.multiply(&maps.d);
  }
#endif
}

/* ---- the table --------------------------------------------------------------------------------
 */

#define KERNEL(width, chunk, groups)                                                        \
  {                                                                                         \
    width, chunk, groups, FusedHalfShape<width, chunk, groups>::SLOT_BYTES,                 \
        {"fused left f16 " #width "x" #chunk, "fused left bf16 " #width "x" #chunk},        \
        {"fused right f16 " #width "x" #chunk, "fused right bf16 " #width "x" #chunk}, {    \
      (const void *)fused_half<mmci_f16_element, FusedHalfShape<width, chunk, groups>>,     \
          (const void *)fused_half<mmci_bf16_element, FusedHalfShape<width, chunk, groups>> \
    }                                                                                       \
  }

const mmci_fused_half_kernel mmci_fused_half_kernels[MMCI_FUSED_HALF_KERNELS] = {
    KERNEL(64, 64, 4),   KERNEL(64, 128, 3),  KERNEL(128, 64, 3),
    KERNEL(128, 128, 3), KERNEL(256, 128, 2),
};
