/* wgmma.cuh: what gemm.cu uses of Hopper beyond CUDA C++, as PTX of sm_90a: barriers in shared
 * memory, tensor copies, and a warpgroup's products of 64 x 128 x 16 16-bit numbers with sums in
 * FP32. */
#ifndef MMCI_CUDA_EMULATED_WGMMA_CUH
#define MMCI_CUDA_EMULATED_WGMMA_CUH

#include <stdint.h>

#include "device/cuda/launch.cuh"

#ifdef MMCI_EMULATE_CUDA

#include "hopper_emulation.h"

#else

#include <cuda.h>

static __device__ __forceinline__ uint32_t mmci_shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- barriers ----------------------------------------------------------------------------------
 */

static __device__ __forceinline__ void mmci_barrier_init(uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

static __device__ __forceinline__ void mmci_barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ __forceinline__ void mmci_barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

/* Arrives at the barrier in the same place of another block's shared memory. Reads of tensor cores
 * are over by then, so it needs no fence; .release.cluster would become a fence of the whole
 * chip. */
static __device__ __forceinline__ void mmci_barrier_arrive(uint32_t barrier, uint32_t block) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(barrier), "r"(block));
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}

/* Waits at a barrier for some time and says whether it has been reached. */
static __device__ __forceinline__ bool mmci_barrier_try(uint32_t barrier, uint32_t phase) {
  uint32_t done;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
      "selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(barrier), "r"(phase)
      : "memory");
  return done != 0;
}

enum { MMCI_BARRIER_TRIES = 1 << 24 };

/* Waits at a barrier. An arrival that is missing ends as an error, not as a hang. */
static __device__ __forceinline__ void mmci_barrier_wait(uint32_t barrier, uint32_t phase) {
  for (int tries = 0; !mmci_barrier_try(barrier, phase); tries++)
    if (tries > MMCI_BARRIER_TRIES) __trap();
}

/* ---- tensor copies -----------------------------------------------------------------------------
 */

/* Copies a box of a map of lines (FP16 numbers, row of 32, line, block of 32 rows) to shared
 * memory. */
static __device__ __forceinline__ void mmci_tensor_load(uint32_t to, const CUtensorMap *map,
                                                        uint32_t barrier, int line, int rows32) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%5, %5, %3, %4}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(line), "r"(rows32), "r"(0)
      : "memory");
}

/* Copies it to the same place of every block of the cluster that `blocks` has a bit for. */
static __device__ __forceinline__ void mmci_tensor_load_all(uint32_t to, const CUtensorMap *map,
                                                            uint32_t barrier, int line, int rows32,
                                                            uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%6, %6, %3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(line), "r"(rows32), "h"(blocks), "r"(0)
      : "memory");
}

/* Copies a box of a map of planes (k, row, plane). */
static __device__ __forceinline__ void mmci_plane_load(uint32_t to, const CUtensorMap *map,
                                                       uint32_t barrier, int k, int row,
                                                       int plane) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(k), "r"(row), "r"(plane)
      : "memory");
}

/* Copies it to the same place of every block of the cluster that `blocks` has a bit for. */
static __device__ __forceinline__ void mmci_plane_load_all(uint32_t to, const CUtensorMap *map,
                                                           uint32_t barrier, int k, int row,
                                                           int plane, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(k), "r"(row), "r"(plane), "h"(blocks)
      : "memory");
}

/* ---- products ----------------------------------------------------------------------------------
 */

static __device__ __forceinline__ void mmci_products_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void mmci_products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int left>
static __device__ __forceinline__ void mmci_products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

/* Keeps the compiler from moving uses of sums across this point. */
template <int count>
static __device__ __forceinline__ void mmci_pin(float (&sums)[count]) {
#pragma unroll
  for (int i = 0; i < count; i++) asm volatile("" : "+f"(sums[i])::"memory");
}
template <int count>
static __device__ __forceinline__ void mmci_pin(int (&sums)[count]) {
#pragma unroll
  for (int i = 0; i < count; i++) asm volatile("" : "+r"(sums[i])::"memory");
}

/* Returns the descriptor of rows of 128 bytes with k along them, in 128-byte swizzle; the address
 * is a multiple of 1024. Adding 2 moves 16 FP16 numbers along k. */
static __device__ __forceinline__ uint64_t mmci_matrix_at(uint32_t address) {
  return (uint64_t)((address & 0x3FFFF) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

/* Returns the descriptor of rows of 64 bytes, in 64-byte swizzle; adding 2 moves 32 bytes along
 * k. */
static __device__ __forceinline__ uint64_t mmci_byte_matrix_at(uint32_t address) {
  return (uint64_t)((address & 0x3FFFF) >> 4) | (1ull << 16) | (32ull << 32) | (2ull << 62);
}

#define MMCI_R8(a, b, c, d, e, f, g, h) \
  "%" #a ",%" #b ",%" #c ",%" #d ",%" #e ",%" #f ",%" #g ",%" #h
#define MMCI_D8(d, i)                                                                         \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define MMCI_R64                                                                                  \
  MMCI_R8(0, 1, 2, 3, 4, 5, 6, 7)                                                                 \
  "," MMCI_R8(8, 9, 10, 11, 12, 13, 14, 15) "," MMCI_R8(                                          \
      16, 17, 18, 19, 20, 21, 22,                                                                 \
      23) "," MMCI_R8(24, 25, 26, 27, 28, 29, 30,                                                 \
                      31) "," MMCI_R8(32, 33, 34, 35, 36, 37, 38,                                 \
                                      39) "," MMCI_R8(40, 41, 42, 43, 44, 45, 46,                 \
                                                      47) "," MMCI_R8(48, 49, 50, 51, 52, 53, 54, \
                                                                      55) "," MMCI_R8(56, 57, 58, \
                                                                                      59, 60, 61, \
                                                                                      62, 63)
#define MMCI_D64(d)                                                                             \
  MMCI_D8(d, 0), MMCI_D8(d, 8), MMCI_D8(d, 16), MMCI_D8(d, 24), MMCI_D8(d, 32), MMCI_D8(d, 40), \
      MMCI_D8(d, 48), MMCI_D8(d, 56)

/* Computes d = a b^T, or += with keep: a is 64 x 16, b is 128 x 16. */
static __device__ __forceinline__ void mmci_half_products_add(float (&d)[64], uint64_t a,
                                                              uint64_t b, int keep) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %66, 0; "
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" MMCI_R64
      "}, %64, %65, p, 1, 1, 0, 0; }"
      : MMCI_D64(d)
      : "l"(a), "l"(b), "r"(keep));
}

#define MMCI_I8(d, i)                                                                         \
  "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), \
      "+r"(d[i + 6]), "+r"(d[i + 7])

/* Adds products of bytes with exact sums: a is 64 x 32, b is 128 x 32. */
static __device__ __forceinline__ void mmci_byte_products_add(int (&d)[64], uint64_t a, uint64_t b,
                                                              int keep) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %66, 0; "
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" MMCI_R64 "}, %64, %65, p; }"
      : MMCI_I8(d, 0), MMCI_I8(d, 8), MMCI_I8(d, 16), MMCI_I8(d, 24), MMCI_I8(d, 32),
        MMCI_I8(d, 40), MMCI_I8(d, 48), MMCI_I8(d, 56)
      : "l"(a), "l"(b), "r"(keep));
}

#define MMCI_R128_REST                                                                             \
  MMCI_R8(64, 65, 66, 67, 68, 69, 70, 71)                                                          \
  "," MMCI_R8(72, 73, 74, 75, 76, 77, 78, 79) "," MMCI_R8(                                         \
      80, 81, 82, 83, 84, 85, 86,                                                                  \
      87) "," MMCI_R8(88, 89, 90, 91, 92, 93, 94,                                                  \
                      95) "," MMCI_R8(96, 97, 98, 99, 100, 101, 102,                               \
                                      103) "," MMCI_R8(104, 105, 106, 107, 108, 109, 110,          \
                                                       111) "," MMCI_R8(112, 113, 114, 115, 116,   \
                                                                        117, 118,                  \
                                                                        119) "," MMCI_R8(120, 121, \
                                                                                         122, 123, \
                                                                                         124, 125, \
                                                                                         126, 127)

/* Adds products of bytes with sums that wrap around: a is 64 x 32, b is 256 x 32. */
static __device__ __forceinline__ void mmci_wide_byte_products_add(int (&d)[128], uint64_t a,
                                                                   uint64_t b, int keep) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %130, 0; "
      "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {" MMCI_R64 "," MMCI_R128_REST
      "}, %128, %129, p; }"
      : MMCI_I8(d, 0), MMCI_I8(d, 8), MMCI_I8(d, 16), MMCI_I8(d, 24), MMCI_I8(d, 32),
        MMCI_I8(d, 40), MMCI_I8(d, 48), MMCI_I8(d, 56), MMCI_I8(d, 64), MMCI_I8(d, 72),
        MMCI_I8(d, 80), MMCI_I8(d, 88), MMCI_I8(d, 96), MMCI_I8(d, 104), MMCI_I8(d, 112),
        MMCI_I8(d, 120)
      : "l"(a), "l"(b), "r"(keep));
}

/* Waits for the other threads of a warpgroup, by a barrier that is its own. */
static __device__ __forceinline__ void mmci_warpgroup_sync(int barrier) {
  asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
}

/* ---- a block that copies and multiplies
 * ----------------------------------------------------------
 */

/* Makes the barriers of a ring of stages, those that say that one is full and, behind them, that it
 * may be overwritten. In each of `blocks` blocks of the cluster the warps of two warpgroups arrive.
 */
static __device__ __forceinline__ void mmci_ring_open(uint32_t full, int stages, int blocks) {
  enum { WARPS = 2 * 4, BARRIER_BYTES = 8 };
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; s++) {
      mmci_barrier_init(full + BARRIER_BYTES * s, 1);
      mmci_barrier_init(full + BARRIER_BYTES * (stages + s), blocks * WARPS);
    }
    mmci_barrier_init_done();
  }
  __syncthreads();
  mmci_cluster_sync();
}

/* Lets the first thread copy, and two warpgroups multiply: registers go from the one to the
 * others. */
template <class Kernel>
static __device__ __forceinline__ void mmci_copy_and_multiply(Kernel &kernel, const CUtensorMap *a,
                                                              const CUtensorMap *b) {
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) kernel.copy(a, b);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    kernel.multiply();
  }
}

#endif

#endif
