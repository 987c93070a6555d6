/* group_kernels.cuh: what the kernels of groups have in common. */
#ifndef MMCI_CUDA_GROUP_GROUP_KERNELS_CUH
#define MMCI_CUDA_GROUP_GROUP_KERNELS_CUH

extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/group/group.h"

#ifdef MMCI_EMULATE_CUDA

static inline void mmci_follow_previous() {}

template <typename Kernel, typename... Arguments>
static inline cudaError_t mmci_launch_overlapped(Kernel kernel, bool, Arguments... arguments) {
  return mmci_launch(kernel, arguments...);
}

template <int bytes>
static inline void mmci_copy_async_or_zero(void *shared, const void *global, bool there) {
  mmci_emulation_copy_async(shared, global, bytes, there ? bytes : 0);
}

template <int bytes>
static inline void mmci_copy_async_first(void *shared, const void *global, unsigned count) {
  mmci_emulation_copy_async(shared, global, bytes, count);
}

static inline void mmci_group_wait(int group, int threads) {
  if (threads == 32)
    __syncwarp();
  else
    mmci_emulation_named_wait(group + 1, threads);
}

static inline unsigned mmci_acquire(const unsigned *counter) {
  __nanosleep(0);
  return *counter;
}

static inline void mmci_release(unsigned *counter) {
  ++*counter;
  mmci_emulation().progress++;
}

static inline void mmci_prefetch(const void *) {}

#else

/* Lets the next launch of the stream begin, then waits until the one before has ended and its
 * writes are there: before this, no global memory is touched. */
static __device__ __forceinline__ void mmci_follow_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Launches a kernel that begins with mmci_follow_previous(). */
template <typename... Parameters, typename... Arguments>
static inline cudaError_t mmci_launch_overlapped(void (*kernel)(Parameters...), bool overlap,
                                                 dim3 grid, dim3 block, size_t shared_bytes,
                                                 cudaStream_t stream, Arguments... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

static __device__ __forceinline__ unsigned mmci_shared_address(const void *shared) {
  return (unsigned)__cvta_generic_to_shared(shared);
}

/* Copies bytes from global memory, or zeros where there is nothing; 4, 8 or 16 bytes. They come
 * through the first cache, where lines of a matrix that all chains share are found again. */
template <int bytes>
static __device__ __forceinline__ void mmci_copy_async_or_zero(void *shared, const void *global,
                                                               bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(mmci_shared_address(shared)),
               "l"(global), "n"(bytes), "r"(there ? bytes : 0)
               : "memory");
}

/* Copies the first so many of 4 or 8 bytes, and zeros. */
template <int bytes>
static __device__ __forceinline__ void mmci_copy_async_first(void *shared, const void *global,
                                                             unsigned count) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(mmci_shared_address(shared)),
               "l"(global), "n"(bytes), "r"(count)
               : "memory");
}

/* Waits for the other threads of a group: a warp, or whole warps by a named barrier. */
static __device__ __forceinline__ void mmci_group_wait(int group, int threads) {
  if (threads == 32)
    __syncwarp();
  else
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "r"(threads) : "memory");
}

/* These work on a counter in global memory: what was written before a release is seen after the
 * acquire of it. */
static __device__ __forceinline__ unsigned mmci_acquire(const unsigned *counter) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

static __device__ __forceinline__ void mmci_release(unsigned *counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

/* Fetches a line into L2. */
static __device__ __forceinline__ void mmci_prefetch(const void *global) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
}

#endif

/* What a word of so many bytes is copied as; of doubles, as doubles. */
template <int BYTES, bool DOUBLES>
struct mmci_word;
template <>
struct mmci_word<4, false> {
  typedef float type;
};
template <>
struct mmci_word<8, false> {
  typedef float2 type;
};
template <>
struct mmci_word<16, false> {
  typedef float4 type;
};
template <>
struct mmci_word<8, true> {
  typedef double type;
};
template <>
struct mmci_word<16, true> {
  typedef double2 type;
};

/* Copies so many elements at once, of 4, 8 or 16 bytes together. */
template <int COUNT, typename Element>
static __device__ __forceinline__ void mmci_copy_word(Element *to, const Element *from) {
  typedef typename mmci_word<COUNT *(int)sizeof(Element), alignof(Element) == 8>::type word;
  *reinterpret_cast<word *>(to) = *reinterpret_cast<const word *>(from);
}

#endif
