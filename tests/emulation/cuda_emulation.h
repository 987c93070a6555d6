/* cuda_emulation.h: the part of CUDA C++ that the kernels use, on one CPU core.
 *
 * A .cu file compiled with g++ -x c++ -std=c++17 -DMMCI_EMULATE_CUDA finds here threads, barriers,
 * shuffles, votes, atomics, asynchronous copies and the runtime API. Every thread of a block is a
 * fiber; at every synchronisation the scheduler picks the next fiber at random, and blocks run one
 * after another in random order, so that a missing barrier or an order assumed between blocks shows
 * as a wrong result. A barrier that can never open ends the program with a message.
 *
 * Device memory and dynamic shared memory start poisoned (0xA5, a large negative number in every
 * type; 0xFF, a NaN); asynchronous copies land at once or when they are waited for, at random.
 * Streams run at once, in the order of the host's calls.
 *
 * mmci_emulation() holds the knobs: memory to be had, a runtime call to fail, what is still held.
 * What no kernel needs to see is in cuda_emulation.cpp, which is compiled once for all kernels.
 */
#ifndef MMCI_CUDA_EMULATION_H
#define MMCI_CUDA_EMULATION_H

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "cuda_emulation_c.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static
#define __restrict__ __restrict
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

using std::max;
using std::min;

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
static inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
struct alignas(16) double2 {
  double x, y;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

/* ---- fibers and barriers ------------------------------------------------------------------- */

struct mmci_emulation_barrier {
  int arrived = 0;
  uint64_t opened = 0;
};

struct mmci_emulation_copy {
  void *to;
  const void *from; /* NULL: zeros */
  size_t bytes;
};

struct mmci_emulation_fiber {
  void *at; /* the stack pointer while the fiber does not run */
  std::unique_ptr<char[]> stack;
  bool done;
  uint3 thread;
  unsigned block;                                       /* of its cluster */
  std::vector<std::vector<mmci_emulation_copy>> copies; /* groups of copies in flight */
  std::vector<mmci_emulation_copy> stores;              /* bulk copies to global memory */
};

struct mmci_emulation_block {
  std::vector<unsigned char> shared;
  unsigned char *shared_start = nullptr;
  mmci_emulation_barrier barrier;
  int live = 0;
};

struct mmci_emulation_machine {
  /* knobs */
  size_t memory_bytes = (size_t)4 << 30; /* device memory to be had */
  long fail_call = -1;                   /* this runtime call, counted from 0, fails */
  uint64_t seed = 1;                     /* of the schedule */
  int multiprocessors = 2;
  std::map<const void *, int>
      shared_most;                  /* dynamic shared memory that kernels were given leave for */
  std::map<const void *, int> wide; /* whether they were given leave for clusters of 16 blocks */
  /* what happened */
  long calls = 0;
  std::map<void *, size_t> memory; /* device and pinned memory still held */
  size_t memory_used = 0;
  int handles = 0; /* streams and events still held */
  /* the running block */
  std::vector<mmci_emulation_fiber> fibers;
  mmci_emulation_fiber *current = nullptr;
  void *scheduler = nullptr;            /* its stack pointer while a fiber runs */
  void (*call)(const void *) = nullptr; /* runs the kernel with its arguments */
  const void *arguments = nullptr;
  /* of the running cluster, which is one block but for mmci_launch_clusters() */
  std::vector<mmci_emulation_block> blocks;
  mmci_emulation_barrier cluster_barrier, named_barriers[16];
  std::vector<mmci_emulation_barrier> warp_barriers;
  std::vector<uint64_t> exchange; /* one word a thread, for shuffles and votes */
  int cluster_live = 0, votes[3];
  std::vector<int> warp_live;
  uint64_t progress = 0;
  unsigned first_block = 0; /* of the cluster, along x */
};

extern mmci_emulation_machine mmci_emulation_the_machine;
static inline mmci_emulation_machine &mmci_emulation() {
  return mmci_emulation_the_machine;
}

static inline uint64_t mmci_emulation_random() {
  uint64_t &s = mmci_emulation().seed;
  s = s * 6364136223846793005u + 1442695040888963407u;
  return s >> 33;
}

[[noreturn]] void mmci_emulation_stop(const char *what);

/* Pushes the registers that a function keeps for its caller, leaves the stack pointer in *from, and
 * goes on where the stack `to` was left. It is called as any function, so that every compiler knows
 * what it may change; setjmp() and longjmp() within one function are not defined, and swapcontext()
 * calls the system. */
extern "C" void mmci_emulation_switch(void **from, void *to);

static inline void mmci_emulation_yield() {
  mmci_emulation_machine &m = mmci_emulation();
  mmci_emulation_switch(&m.current->at, m.scheduler);
}

/* The number of the thread in the cluster. */
static inline unsigned mmci_emulation_rank() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z) +
         mmci_emulation().current->block * blockDim.x * blockDim.y * blockDim.z;
}

static inline mmci_emulation_block &mmci_emulation_own() {
  mmci_emulation_machine &m = mmci_emulation();
  return m.blocks[m.current->block];
}

/* Opens when all that live have arrived; live may shrink while others wait. */
void mmci_emulation_wait(mmci_emulation_barrier &barrier, const int &live);

static inline void __syncthreads() {
  mmci_emulation_block &block = mmci_emulation_own();
  mmci_emulation_wait(block.barrier, block.live);
}

/* bar.sync: so many threads meet, in whole warps; barrier 0 is __syncthreads(). */
void mmci_emulation_named_wait(int barrier, int threads);

static inline int __syncthreads_count(int predicate) {
  mmci_emulation_machine &m = mmci_emulation();
  m.votes[0] = 0;
  __syncthreads();
  if (predicate) m.votes[0]++;
  __syncthreads();
  int count = m.votes[0];
  __syncthreads();
  return count;
}

static inline int __syncthreads_or(int predicate) {
  return __syncthreads_count(predicate) != 0;
}

/* Lanes named by the mask meet; all of a warp's lanes that still run must be named. */
void mmci_emulation_warp_wait(unsigned mask);

static inline void __syncwarp(unsigned mask = 0xffffffffu) {
  mmci_emulation_warp_wait(mask);
}

template <typename T>
static inline T mmci_emulation_exchange(unsigned mask, T value, int from) {
  static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
  mmci_emulation_machine &m = mmci_emulation();
  unsigned rank = mmci_emulation_rank(), warp = rank & ~31u;
  memcpy(&m.exchange[rank], &value, sizeof value);
  mmci_emulation_warp_wait(mask);
  T result;
  memcpy(&result, &m.exchange[warp + (unsigned)from], sizeof result);
  mmci_emulation_warp_wait(mask);
  return result;
}

template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  int lane = (int)(mmci_emulation_rank() & 31);
  return mmci_emulation_exchange(mask, value, (lane & ~(width - 1)) | (from & (width - 1)));
}

template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32) {
  int lane = (int)(mmci_emulation_rank() & 31), from = lane ^ distance;
  return mmci_emulation_exchange(mask, value,
                                 (from & ~(width - 1)) == (lane & ~(width - 1)) ? from : lane);
}

template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, int distance, int width = 32) {
  int lane = (int)(mmci_emulation_rank() & 31), in = lane & (width - 1);
  return mmci_emulation_exchange(mask, value, in >= distance ? lane - distance : lane);
}

unsigned __ballot_sync(unsigned mask, int predicate);

static inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = max(value, __shfl_xor_sync(mask, value, distance));
  return value;
}

static inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0;
}

static inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, !predicate) == 0;
}

static inline void __nanosleep(unsigned) {
  mmci_emulation_yield();
}
static inline void __threadfence() {}

/* ---- atomics, loads, arithmetic ------------------------------------------------------------ */

template <typename T>
static inline T atomicAdd(T *p, T v) {
  T old = *p;
  *p = (T)(old + v);
  return old;
}
template <typename T>
static inline T atomicMin(T *p, T v) {
  T old = *p;
  if (v < old) *p = v;
  return old;
}
template <typename T>
static inline T atomicMax(T *p, T v) {
  T old = *p;
  if (old < v) *p = v;
  return old;
}
template <typename T>
static inline T atomicExch(T *p, T v) {
  T old = *p;
  *p = v;
  return old;
}

template <typename T>
static inline T __ldg(const T *p) {
  return *p;
}
template <typename T>
static inline T __ldcg(const T *p) {
  return *p;
}
template <typename T>
static inline T __ldcs(const T *p) {
  return *p;
}
template <typename T>
static inline void __stcg(T *p, T v) {
  *p = v;
}

static inline long long __double_as_longlong(double v) {
  long long r;
  memcpy(&r, &v, 8);
  return r;
}
static inline double __longlong_as_double(long long v) {
  double r;
  memcpy(&r, &v, 8);
  return r;
}
static inline int __float_as_int(float v) {
  int r;
  memcpy(&r, &v, 4);
  return r;
}
static inline float __int_as_float(int v) {
  float r;
  memcpy(&r, &v, 4);
  return r;
}
static inline int __ffs(int v) {
  return __builtin_ffs(v);
}
static inline int __popc(unsigned v) {
  return __builtin_popcount(v);
}
static inline int __clz(int v) {
  return v ? __builtin_clz((unsigned)v) : 32;
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((unsigned long long)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ typedef unsigned __int128 wide;
  return (unsigned long long)((wide)a * b >> 64);
}
static inline unsigned __viaddmin_u32(unsigned a, unsigned b, unsigned c) {
  return min(a + b, c);
}

/* Directed rounding: computed in double under the same direction, whose second rounding to float
 * cannot cross the first. */
float mmci_emulation_round(int direction, double a, double b, double c);
static inline float __fmaf_rd(float a, float b, float c) {
  return mmci_emulation_round(FE_DOWNWARD, a, b, c);
}
static inline float __fmul_rd(float a, float b) {
  return mmci_emulation_round(FE_DOWNWARD, a, b, 0);
}
static inline float __fadd_rd(float a, float b) {
  return mmci_emulation_round(FE_DOWNWARD, a, 1, b);
}
static inline float __double2float_rd(double v) {
  return mmci_emulation_round(FE_DOWNWARD, v, 1, 0);
}
static inline float __double2float_ru(double v) {
  return mmci_emulation_round(FE_UPWARD, v, 1, 0);
}
float mmci_emulation_convert(int direction, long long v);
static inline float __ll2float_rd(long long v) {
  return mmci_emulation_convert(FE_DOWNWARD, v);
}
static inline float __ll2float_ru(long long v) {
  return mmci_emulation_convert(FE_UPWARD, v);
}

/* ---- shared memory, asynchronous copies, launches ------------------------------------------ */

#define MMCI_DYNAMIC_SHARED(name) unsigned char *name = mmci_emulation_own().shared_start

static inline unsigned mmci_cluster_rank() {
  return mmci_emulation().current->block;
}

static inline void mmci_cluster_sync() {
  mmci_emulation_machine &m = mmci_emulation();
  mmci_emulation_wait(m.cluster_barrier, m.cluster_live);
}

template <typename T>
static inline T *mmci_cluster_at(T *shared, unsigned block) {
  mmci_emulation_machine &m = mmci_emulation();
  if (block >= m.blocks.size()) mmci_emulation_stop("a block that the cluster lacks");
  if (m.blocks[block].live == 0) mmci_emulation_stop("shared memory of a block that has ended");
  return (T *)(m.blocks[block].shared_start +
               ((char *)shared - (char *)mmci_emulation_own().shared_start));
}

/* Copies the first so many of the bytes, and zeros. */
void mmci_emulation_copy_async(void *shared, const void *global, size_t bytes, size_t count);

static inline void mmci_store(void *global, const uint32_t words[4]) {
  if ((uintptr_t)global % 16 != 0) abort();
  memcpy(global, words, 16);
}

static inline void mmci_tell(void *global, const uint64_t letter[2]) {
  if ((uintptr_t)global % 16 != 0) abort();
  memcpy(global, letter, 16);
}

static inline void mmci_hear(uint64_t letter[2], const void *global) {
  if ((uintptr_t)global % 16 != 0) abort();
  memcpy(letter, global, 16);
}

static inline void mmci_copy_async(void *shared, const void *global) {
  mmci_emulation_copy_async(shared, global, 16, 16);
}

template <int bytes>
static inline void mmci_copy_async_bytes(void *shared, const void *global) {
  mmci_emulation_copy_async(shared, global, bytes, bytes);
}

template <int bytes>
static inline void mmci_copy_async_part(void *shared, const void *global, int count) {
  if (count < 0 || count > bytes) mmci_emulation_stop("copy of more than there is room for");
  mmci_emulation_copy_async(shared, global, bytes, (size_t)count);
}

void mmci_copy_async_commit();

/* At most left of the committed groups stay in flight; the last entry is the open group. */
void mmci_emulation_wait_for_copies(int left);
template <int left>
static inline void mmci_copy_async_wait() {
  mmci_emulation_wait_for_copies(left);
}

/* A counted gate of bulk_copies.cuh; copies land only when somebody waits. */
struct mmci_counted_gate {
  uint64_t state;
  void open(unsigned arrivals);
  void arrive();
  void expect(unsigned bytes);
  void arrive_after_copies();
  void copy(void *shared, const void *global, unsigned bytes);
  void wait(unsigned parity) const;
};

static inline void mmci_order_bulk_copies() {}

/* Bulk copies to global memory land when they are waited for, if not at once; only then is shared
 * memory read. */
void mmci_bulk_store(void *global, const void *shared, unsigned bytes);
static inline void mmci_bulk_stores_commit() {}
void mmci_await_bulk_stores();
static inline void mmci_await_bulk_reads() {
  mmci_await_bulk_stores();
}

/* Opens for good when so many threads have arrived, or so many bytes were posted. */
struct mmci_gate {
  uint64_t awaited;
  void close(unsigned count) { awaited = count; }
  void close_until_posted(unsigned bytes) { awaited = bytes; }
  void arrive(unsigned count = 1) {
    if (awaited < count) mmci_emulation_stop("more arrive at a gate than it waits for");
    awaited -= count;
    mmci_emulation().progress++;
  }
  void wait() const {
    while (*(const volatile uint64_t *)&awaited != 0) mmci_emulation_yield();
  }
};

template <typename T>
static inline void mmci_post(T *shared, T value, mmci_gate *gate, unsigned block) {
  *mmci_cluster_at(shared, block) = value;
  mmci_cluster_at(gate, block)->arrive((unsigned)sizeof value);
}

enum { MMCI_EMULATED_SHARED = 48 * 1024 }; /* of a block that did not ask for more */

/* Counts a call of the runtime and fails it when the knob says so. */
static inline bool mmci_emulation_failure() {
  mmci_emulation_machine &m = mmci_emulation();
  return m.calls++ == m.fail_call;
}

/* Runs a kernel by what calls it with its arguments. Clusters are of blocks along x; a cluster of
 * several is of whole warps. */
cudaError_t mmci_emulation_launch(const void *kernel, dim3 grid, unsigned in_cluster, dim3 block,
                                  size_t shared_bytes, void (*call)(const void *),
                                  const void *arguments);

template <typename... Parameters, typename... Arguments>
static inline cudaError_t mmci_launch_clusters(void (*kernel)(Parameters...), dim3 grid,
                                               unsigned in_cluster, dim3 block, size_t shared_bytes,
                                               struct mmci_emulation_stream *,
                                               Arguments... arguments) {
  const auto body = [&] { kernel(static_cast<Parameters>(arguments)...); };
  return mmci_emulation_launch((const void *)kernel, grid, in_cluster, block, shared_bytes,
                               [](const void *what) { (*static_cast<decltype(body) *>(what))(); },
                               &body);
}

template <typename... Parameters, typename... Arguments>
static inline cudaError_t mmci_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                      size_t shared_bytes, struct mmci_emulation_stream *stream,
                                      Arguments... arguments) {
  return mmci_launch_clusters(kernel, grid, 1, block, shared_bytes, stream, arguments...);
}

/* ---- the runtime API ------------------------------------------------------------------------ */

typedef struct mmci_emulation_event *cudaEvent_t;
struct mmci_emulation_stream {
  int unused;
};
struct mmci_emulation_event {
  int unused;
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 13
};
enum { cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2 };

static inline const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "a failure of the emulation";
}
static inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
static inline cudaError_t mmci_emulation_call() {
  return mmci_emulation_failure() ? cudaErrorInvalidValue : cudaSuccess;
}
static inline cudaError_t cudaGetDeviceCount(int *count) {
  return *count = 1, mmci_emulation_call();
}
static inline cudaError_t cudaGetDevice(int *device) {
  return *device = 0, mmci_emulation_call();
}
static inline cudaError_t cudaSetDevice(int) {
  return mmci_emulation_call();
}
static inline cudaError_t cudaDeviceSynchronize() {
  return mmci_emulation_call();
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);

cudaError_t mmci_emulation_allocate(void **out, size_t size_bytes);
cudaError_t mmci_emulation_release(void *memory);
template <typename T>
static inline cudaError_t cudaMalloc(T **out, size_t size_bytes) {
  return mmci_emulation_allocate((void **)out, size_bytes);
}
static inline cudaError_t cudaFree(void *memory) {
  return mmci_emulation_release(memory);
}
static inline cudaError_t cudaFreeHost(void *memory) {
  return mmci_emulation_release(memory);
}

static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t size_bytes,
                                     cudaMemcpyKind) {
  if (mmci_emulation_failure()) return cudaErrorInvalidValue;
  memcpy(to, from, size_bytes);
  return cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size_bytes,
                                          cudaMemcpyKind kind, cudaStream_t = nullptr) {
  return cudaMemcpy(to, from, size_bytes, kind);
}
static inline cudaError_t cudaMemset(void *to, int value, size_t size_bytes) {
  if (mmci_emulation_failure()) return cudaErrorInvalidValue;
  memset(to, value, size_bytes);
  return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *to, int value, size_t size_bytes,
                                          cudaStream_t = nullptr) {
  return cudaMemset(to, value, size_bytes);
}

template <typename Handle>
static inline cudaError_t mmci_emulation_open(Handle *out) {
  if (mmci_emulation_failure()) return cudaErrorInvalidValue;
  *out = (Handle)calloc(1, sizeof **out);
  mmci_emulation().handles++;
  return cudaSuccess;
}
template <typename Handle>
static inline cudaError_t mmci_emulation_close(Handle handle) {
  if (handle == nullptr) mmci_emulation_stop("a handle closed that is not open");
  free(handle);
  mmci_emulation().handles--;
  return cudaSuccess;
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned) {
  return mmci_emulation_open(out);
}
static inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned, int) {
  return mmci_emulation_open(out);
}
static inline cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = *greatest = 0;
  return mmci_emulation_call();
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return mmci_emulation_close(stream);
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return mmci_emulation_call();
}
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) {
  return mmci_emulation_call();
}
static inline cudaError_t cudaEventCreate(cudaEvent_t *out) {
  return mmci_emulation_open(out);
}
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned) {
  return mmci_emulation_open(out);
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return mmci_emulation_close(event);
}
static inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = nullptr) {
  return mmci_emulation_call();
}
static inline cudaError_t cudaEventQuery(cudaEvent_t) {
  return mmci_emulation_call();
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return mmci_emulation_call();
}
static inline cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t) {
  return *milliseconds = 1, mmci_emulation_call();
}
struct cudaFuncAttributes {
  int maxDynamicSharedSizeBytes;
};
cudaError_t mmci_emulation_get_attributes(cudaFuncAttributes *out, const void *kernel);
template <typename Kernel>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, Kernel *kernel) {
  return mmci_emulation_get_attributes(out, (const void *)kernel);
}
cudaError_t mmci_emulation_set_attribute(const void *kernel, cudaFuncAttribute attribute,
                                         int value);
template <typename Kernel>
static inline cudaError_t cudaFuncSetAttribute(Kernel *kernel, cudaFuncAttribute attribute,
                                               int value) {
  return mmci_emulation_set_attribute((const void *)kernel, attribute, value);
}
template <typename Kernel>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel, int,
                                                                        size_t) {
  return *blocks = 2, mmci_emulation_call();
}

#endif
