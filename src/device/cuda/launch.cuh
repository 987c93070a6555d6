/* launch.cuh: how the kernels of this folder are started and the few things they use beyond CUDA
 * C++, so that one source serves nvcc and the emulation on a CPU (MMCI_EMULATE_CUDA,
 * tests/emulation).
 *
 *     mmci_launch(kernel, grid, block, shared_bytes, stream, arguments...)   returns cudaError_t
 *     mmci_launch_clusters(kernel, grid, blocks, block, shared_bytes, stream, arguments...)
 *                                          the same with so many blocks along x in a cluster
 *     mmci_cluster_rank(), mmci_cluster_sync(), mmci_cluster_at(shared, block)
 *                                          which block of its cluster this is; a barrier of all;
 *                                          the same place of another block's shared memory
 *     mmci_launch_after(kernel, early, grid, block, shared_bytes, stream, arguments...)
 *                                          when early, the kernel may start once all blocks of the
 *                                          launch before called mmci_let_next_start(), and what
 *                                          that wrote is there after mmci_await_previous()
 *     MMCI_DYNAMIC_SHARED(name)            the block's dynamic shared memory, 16-byte aligned
 *     mmci_copy_async(shared, global)      cp.async of 16 bytes; then commit, then wait
 *     mmci_copy_async_bytes<n>(shared, global)   the same of 4 or 8 bytes
 *     mmci_copy_async_part<n>(shared, global, count)   the same of 4, 8 or 16 bytes, of which only
 *                                          the first so many are read, and zeros for the rest
 *     mmci_store(global, words)            16 bytes at once, which the compiler does not take apart
 *     mmci_tell(global, letter), mmci_hear(letter, global)
 *                                          writes and reads 16 bytes for blocks that run now, each
 *                                          half as a whole
 *     mmci_gate                            in shared memory: opens for good once so many threads
 *                                          have arrived, or so many bytes were posted to it; what
 *                                          they wrote before, or what was posted, is then visible
 *     mmci_post(shared, value, gate, block)   writes 4 or 8 bytes to the same place of another
 *                                          block's shared memory, and counts them at its gate
 */
#ifndef MMCI_CUDA_LAUNCH_CUH
#define MMCI_CUDA_LAUNCH_CUH

#ifdef MMCI_EMULATE_CUDA

#include "cuda_emulation.h"

template <typename... Parameters, typename... Arguments>
static inline cudaError_t mmci_launch_after(void (*kernel)(Parameters...), bool, dim3 grid,
                                            dim3 block, size_t shared_bytes, cudaStream_t stream,
                                            Arguments... arguments) {
  return mmci_launch(kernel, grid, block, shared_bytes, stream, arguments...);
}
static inline void mmci_let_next_start() {}
static inline void mmci_await_previous() {}

#else

#include <cuda_runtime.h>

template <typename... Parameters, typename... Arguments>
static inline cudaError_t mmci_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                      size_t shared_bytes, cudaStream_t stream,
                                      Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

template <typename... Parameters, typename... Arguments>
static inline cudaError_t mmci_launch_after(void (*kernel)(Parameters...), bool early, dim3 grid,
                                            dim3 block, size_t shared_bytes, cudaStream_t stream,
                                            Arguments... arguments) {
  cudaLaunchAttribute serial = {};
  serial.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  serial.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &serial;
  config.numAttrs = early ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

static __device__ __forceinline__ void mmci_let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

static __device__ __forceinline__ void mmci_await_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <typename... Parameters, typename... Arguments>
static inline cudaError_t mmci_launch_clusters(void (*kernel)(Parameters...), dim3 grid,
                                               unsigned blocks, dim3 block, size_t shared_bytes,
                                               cudaStream_t stream, Arguments... arguments) {
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = blocks;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = blocks > 1 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

/* These do nothing for cards without clusters, for which no kernel is launched with one. */
static __device__ __forceinline__ unsigned mmci_cluster_rank() {
  unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}

static __device__ __forceinline__ void mmci_cluster_sync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
#endif
}

template <typename T>
static __device__ __forceinline__ T *mmci_cluster_at(T *shared, unsigned block) {
#if __CUDA_ARCH__ >= 900
  T *there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(block));
  return there;
#else
  return shared;
#endif
}

static __device__ __forceinline__ void mmci_store(void *global, const uint32_t words[4]) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(global)),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

static __device__ __forceinline__ void mmci_tell(void *global, const uint64_t letter[2]) {
  asm volatile(
      "st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(global)),
      "l"(letter[0]), "l"(letter[1])
      : "memory");
}

static __device__ __forceinline__ void mmci_hear(uint64_t letter[2], const void *global) {
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(letter[0]), "=l"(letter[1])
               : "l"(__cvta_generic_to_global(global))
               : "memory");
}

#define MMCI_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

static __device__ __forceinline__ void mmci_copy_async(void *shared, const void *global) {
  unsigned address = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}

template <int bytes>
static __device__ __forceinline__ void mmci_copy_async_bytes(void *shared, const void *global) {
  unsigned address = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(global), "n"(bytes)
               : "memory");
}

template <int bytes>
static __device__ __forceinline__ void mmci_copy_async_part(void *shared, const void *global,
                                                            int count) {
  unsigned address = (unsigned)__cvta_generic_to_shared(shared);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global),
                 "r"(count)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(global),
                 "n"(bytes), "r"(count)
                 : "memory");
}

static __device__ __forceinline__ void mmci_copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int left>
static __device__ __forceinline__ void mmci_copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

/* An mbarrier that is used for one phase. */
struct mmci_gate {
  unsigned long long state;
  __device__ __forceinline__ unsigned address() const {
    return (unsigned)__cvta_generic_to_shared(&state);
  }
  /* One thread calls this before a block's barrier and anything else. */
  __device__ __forceinline__ void close(unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address()), "r"(count) : "memory");
  }
  __device__ __forceinline__ void arrive() {
    asm volatile("{ .reg .b64 token; mbarrier.arrive.shared.b64 token, [%0]; }" ::"r"(address())
                 : "memory");
  }
  /* Is called instead of close(), before a barrier of the cluster. */
  __device__ __forceinline__ void close_until_posted(unsigned bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], 1;\n fence.mbarrier_init.release.cluster;\n "
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
        "r"(bytes)
        : "memory");
#endif
  }
  __device__ __forceinline__ void wait() const {
    unsigned open;
    do {
#if __CUDA_ARCH__ >= 900
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
          : "=r"(open)
          : "r"(address())
          : "memory");
#else
      asm volatile(
          "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
          : "=r"(open)
          : "r"(address())
          : "memory");
#endif
    } while (open == 0);
  }
};

template <typename T>
static __device__ __forceinline__ void mmci_post(T *shared, T value, const mmci_gate *gate,
                                                 unsigned block) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "posted are 4 or 8 bytes");
#if __CUDA_ARCH__ >= 900
  unsigned to, at;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(to)
      : "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(block));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(gate->address()), "r"(block));
  if constexpr (sizeof(T) == 4) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
        "r"(bits), "r"(at)
        : "memory");
  } else {
    unsigned long long bits;
    memcpy(&bits, &value, sizeof bits);
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(to),
        "l"(bits), "r"(at)
        : "memory");
  }
#endif
}

#endif

#endif
