/* fused_half.cuh: what the kernels of two products of f16 or bf16 have in common: Hopper's
 * instructions on boxes of 64 x 64 elements in swizzled lines of 128 bytes, and how sums of
 * products become such a box. */
#ifndef MMCI_CUDA_GROUP_FUSED_HALF_CUH
#define MMCI_CUDA_GROUP_FUSED_HALF_CUH

#include "device/cuda/elements.cuh"
#include "device/cuda/emulated/wgmma.cuh"
#include "device/cuda/group/fused_half.h"

enum {
  BOX = MMCI_FUSED_HALF_BOX,
  BOX_BYTES = BOX * BOX * 2,
  WARPGROUP = 128,
  LOADER_REGISTERS = 40
};

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

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- Hopper's instructions --------------------------------------------------------------------
 */

#ifndef MMCI_EMULATE_CUDA /* tests/emulation/hopper_emulation.h has all of them, too */

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
  for (int tries = 0; !mmci_barrier_try(barrier, phase); tries++)
    if (tries > MMCI_BARRIER_TRIES)
      asm volatile("st.global.u32 [%0], %1;" ::"l"(0ull), "r"(0) : "memory");
}

static __device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

#define R32                                              \
  MMCI_R8(0, 1, 2, 3, 4, 5, 6, 7)                        \
  "," MMCI_R8(8, 9, 10, 11, 12, 13, 14, 15) "," MMCI_R8( \
      16, 17, 18, 19, 20, 21, 22, 23) "," MMCI_R8(24, 25, 26, 27, 28, 29, 30, 31)
#define D32(d) MMCI_D8(d, 0), MMCI_D8(d, 8), MMCI_D8(d, 16), MMCI_D8(d, 24)
#define R128 MMCI_R64 "," MMCI_R128_REST
#define D128(d)                                                                                \
  MMCI_D64(d), MMCI_D8(d, 64), MMCI_D8(d, 72), MMCI_D8(d, 80), MMCI_D8(d, 88), MMCI_D8(d, 96), \
      MMCI_D8(d, 104), MMCI_D8(d, 112), MMCI_D8(d, 120)

/* d += A B for 64 rows, 64, 128 or 256 columns and 16 terms, A in shared memory or in registers. */
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
              "%65", "%66", "%67", "%68", "%69")                                                  \
  PRODUCTS_OF(Element, type, "256", 128, R128, D128, "%128", "%129", "%130", "%131", "%128",      \
              "%129", "%130", "%131", "%132", "%133")

PRODUCTS(mmci_f16_element, "f16")
PRODUCTS(mmci_bf16_element, "bf16")

/* d = A B for 64 rows, 256 columns and 16 terms, or d += A B where keep. */
#define SET_PRODUCTS(Element, type)                                                        \
  template <bool ta, bool tb>                                                              \
  static __device__ __forceinline__ void set_products(Element, float(&d)[128], uint64_t a, \
                                                      uint64_t b, int keep) {              \
    asm volatile(                                                                          \
        "{ .reg .pred p; setp.ne.b32 p, %130, 0; "                                         \
        "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" R128             \
        "}, %128, %129, p, 1, 1, %131, %132; }"                                            \
        : D128(d)                                                                          \
        : "l"(a), "l"(b), "r"(keep), "n"((int)ta), "n"((int)tb));                          \
  }

SET_PRODUCTS(mmci_f16_element, "f16")
SET_PRODUCTS(mmci_bf16_element, "bf16")

static __device__ __forceinline__ uint32_t pair_of(mmci_f16_element, float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&pair);
}
static __device__ __forceinline__ uint32_t pair_of(mmci_bf16_element, float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&pair);
}

/* Writes four tiles of 8 x 8, each line of which goes to the address of a lane. */
template <bool turned>
static __device__ __forceinline__ void store_tiles(uint32_t at, const uint32_t (&words)[4]) {
  if (turned)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

/* Turns a tile of 8 x 8, of which a lane has two elements of row lane / 4, and then of column
 * lane / 4. */
static __device__ __forceinline__ uint32_t turn_tile(uint32_t word) {
  uint32_t turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(word));
  return turned;
}

/* Lets tensor copies see what this thread has written to shared memory. */
static __device__ __forceinline__ void show_to_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Copies a box to the shared memory of another block of the cluster, whose barrier counts it. */
static __device__ __forceinline__ void send_box(uint32_t to, uint32_t from, uint32_t barrier,
                                                uint32_t block) {
  asm volatile(
      "{ .reg .b32 there, then;\n"
      "mapa.shared::cluster.u32 there, %0, %4;\n"
      "mapa.shared::cluster.u32 then, %2, %4;\n"
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
      "[there], [%1], %3, [then]; }" ::"r"(to),
      "r"(from), "r"(barrier), "r"((int)BOX_BYTES), "r"(block)
      : "memory");
}

/* Waits at a barrier of so many threads, or arrives there and goes on. */
template <int threads>
static __device__ __forceinline__ void meet(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(threads) : "memory");
}
template <int threads>
static __device__ __forceinline__ void pass(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(threads) : "memory");
}

static __device__ __forceinline__ uint16_t read_half(uint32_t at) {
  uint16_t bits;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(at) : "memory");
  return bits;
}

/* Ends a group of the copies to global memory that this thread has begun. */
static __device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* Waits until all but so many groups have read shared memory, or until all are done. */
template <int left>
static __device__ __forceinline__ void copies_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(left) : "memory");
}
static __device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Gives registers of a warpgroup's threads up, or takes what others gave. */
template <int count>
static __device__ __forceinline__ void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
static __device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

#endif

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

/* ---- boxes of results -------------------------------------------------------------------------
 */

/* Writes the sums of a warpgroup, 64 rows and 64 columns, as a box of lines of rows, or of columns
 * when turned. Columns from cols on become zeros where is_cut: what lies there are zeros times
 * what the left operand holds, infinities as well. */
template <typename Element, bool turned, bool is_cut>
static __device__ __forceinline__ void write_box(uint32_t to, const float *sums, int cols) {
  const int warp = (int)threadIdx.x % WARPGROUP / 32, lane = (int)threadIdx.x % 32, tile = lane / 8,
            line = lane % 8;
  const uint32_t at =
      turned ? to + (tile / 2 * 8 + line) * 128 + (((2 * warp + tile % 2) ^ line) << 4)
             : to + (16 * warp + tile % 2 * 8 + line) * 128 + (((tile / 2) ^ line) << 4);
#pragma unroll
  for (int q = 0; q < BOX / 16; q++) {
    const float *x = &sums[8 * q];
    uint32_t words[4] = {pair_of(Element(), x[0], x[1]), pair_of(Element(), x[2], x[3]),
                         pair_of(Element(), x[4], x[5]), pair_of(Element(), x[6], x[7])};
    if (is_cut) {
      const int left = cols - 16 * q - lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int more = left - i / 2 * 8;
        words[i] &= more > 1 ? 0xffffffffu : more > 0 ? 0xffffu : 0;
      }
    }
    store_tiles<turned>(turned ? at + q * 2048 : at ^ q * 32, words);
  }
}

/* Writes what D has of a box: element x and so on of line y and so on. */
static __device__ __forceinline__ void store_edge(const mmci_fused_half_job &job, int matrix,
                                                  uint32_t from, int x, int y) {
  const int thread = (int)threadIdx.x % WARPGROUP, line = thread / 2, half = thread % 2 * (BOX / 2);
  if (y + line >= job.d_lines) return;
  uint16_t *to = (uint16_t *)job.d + matrix * job.d_stride + (y + line) * job.d_ld + x;
#pragma unroll 1
  for (int e = half; e < half + BOX / 2 && x + e < job.d_length; e++)
    to[e] = read_half(from + line * 128 + ((e / 8 ^ line % 8) << 4) + e % 8 * 2);
}

/* Stores the box at row and col of D, all threads of a warpgroup together. */
static __device__ __forceinline__ void store_result(const mmci_fused_half_job &job,
                                                    const CUtensorMap *d, int matrix, uint32_t from,
                                                    int row, int col) {
  if (row >= job.m || col >= job.n) return;
  const int x = job.d_by_columns ? row : col, y = job.d_by_columns ? col : row;
  if (job.d_ragged && x + BOX > job.d_length)
    store_edge(job, matrix, from, x, y);
  else if (threadIdx.x % WARPGROUP == 0)
    store_box(d, from, x, y, matrix);
}

#endif

#endif
