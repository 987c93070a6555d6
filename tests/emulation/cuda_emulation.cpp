/* cuda_emulation.cpp: what cuda_emulation.h and cuda_emulation_c.h declare. */
#include "cuda_emulation.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
mmci_emulation_machine mmci_emulation_the_machine;

void mmci_emulation_stop(const char *what) {
  fprintf(stderr, "cuda emulation: %s (block %u,%u thread %u,%u)\n", what, blockIdx.x, blockIdx.y,
          threadIdx.x, threadIdx.y);
  exit(3);
}

/* ---- fibers and barriers ------------------------------------------------------------------- */

#if defined(__x86_64__)
enum {
  MMCI_EMULATION_KEPT = 8,
  MMCI_EMULATION_RETURN = 6
}; /* words, and which of them is returned to */
__asm__(R"(
  .pushsection .text
  .globl mmci_emulation_switch
  .type mmci_emulation_switch, %function
mmci_emulation_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
  .size mmci_emulation_switch, . - mmci_emulation_switch
  .popsection
)");
#elif defined(__aarch64__)
enum { MMCI_EMULATION_KEPT = 20, MMCI_EMULATION_RETURN = 11 };
__asm__(R"(
  .pushsection .text
  .globl mmci_emulation_switch
  .type mmci_emulation_switch, %function
mmci_emulation_switch:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size mmci_emulation_switch, . - mmci_emulation_switch
  .popsection
)");
#else
#error "the emulation switches stacks on x86-64 and AArch64, where CUDA is"
#endif

[[noreturn]] static void mmci_emulation_entry() {
  mmci_emulation_machine &m = mmci_emulation();
  m.call(m.arguments);
  m.current->done = true;
  mmci_emulation_yield();
  abort();
}

/* Makes a stack that, when it is switched to, is at the first instruction of
 * mmci_emulation_entry(). */
static void mmci_emulation_prepare(mmci_emulation_fiber &fiber) {
  enum { STACK_BYTES = 256 * 1024 };
  if (!fiber.stack) fiber.stack.reset(new char[STACK_BYTES]);
  uintptr_t top = ((uintptr_t)fiber.stack.get() + STACK_BYTES) / 16 * 16;
  void **kept = (void **)top - MMCI_EMULATION_KEPT;
  std::fill(kept, (void **)top, nullptr);
  kept[MMCI_EMULATION_RETURN] = (void *)mmci_emulation_entry;
  fiber.at = kept;
  fiber.done = false;
}

static void mmci_emulation_resume(mmci_emulation_fiber &fiber) {
  mmci_emulation_machine &m = mmci_emulation();
  m.current = &fiber;
  threadIdx = fiber.thread;
  blockIdx.x = m.first_block + fiber.block;
  mmci_emulation_switch(&m.scheduler, fiber.at);
}

void mmci_emulation_wait(mmci_emulation_barrier &barrier, const int &live) {
  uint64_t opened = barrier.opened;
  barrier.arrived++;
  mmci_emulation().progress++;
  while (barrier.opened == opened) {
    if (barrier.arrived >= live) {
      barrier.arrived = 0;
      barrier.opened++;
      mmci_emulation().progress++;
    } else {
      mmci_emulation_yield();
    }
  }
}

void mmci_emulation_named_wait(int barrier, int threads) {
  if (barrier < 1 || barrier > 15 || threads % 32 != 0)
    mmci_emulation_stop("a named barrier that there is not, or of parts of warps");
  mmci_emulation_wait(mmci_emulation().named_barriers[barrier], threads);
}

void mmci_emulation_warp_wait(unsigned mask) {
  mmci_emulation_machine &m = mmci_emulation();
  unsigned warp = mmci_emulation_rank() / 32;
  int named = __builtin_popcount(mask);
  if (named > m.warp_live[warp])
    mmci_emulation_wait(m.warp_barriers[warp], m.warp_live[warp]);
  else
    mmci_emulation_wait(m.warp_barriers[warp], named);
}

unsigned __ballot_sync(unsigned mask, int predicate) {
  mmci_emulation_machine &m = mmci_emulation();
  unsigned rank = mmci_emulation_rank(), warp = rank & ~31u, votes = 0;
  m.exchange[rank] = predicate != 0;
  mmci_emulation_warp_wait(mask);
  for (unsigned lane = 0; lane < 32 && warp + lane < m.fibers.size(); lane++)
    if (mask >> lane & 1 && !m.fibers[warp + lane].done && m.exchange[warp + lane] != 0)
      votes |= 1u << lane;
  mmci_emulation_warp_wait(mask);
  return votes;
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

float mmci_emulation_round(int direction, double a, double b, double c) {
  int before = fegetround();
  fesetround(direction);
  volatile double x = a, y = b, z = c;
  volatile double product = x * y;
  volatile double sum = product + z;
  volatile float result = (float)sum;
  fesetround(before);
  return result;
}

float mmci_emulation_convert(int direction, long long v) {
  int before = fegetround();
  fesetround(direction);
  volatile long long x = v;
  volatile float result = (float)x;
  fesetround(before);
  return result;
}

/* ---- asynchronous copies -------------------------------------------------------------------- */

static void mmci_emulation_land(const mmci_emulation_copy &copy) {
  if (copy.from != nullptr)
    memcpy(copy.to, copy.from, copy.bytes);
  else
    memset(copy.to, 0, copy.bytes);
}

void mmci_emulation_copy_async(void *shared, const void *global, size_t bytes, size_t count) {
  if (((uintptr_t)shared | (uintptr_t)global) % bytes) mmci_emulation_stop("misaligned copy");
  const mmci_emulation_copy parts[2] = {{shared, global, count},
                                        {(char *)shared + count, nullptr, bytes - count}};
  const bool now = mmci_emulation_random() & 1;
  auto &copies = mmci_emulation().current->copies;
  if (copies.empty()) copies.emplace_back();
  for (const mmci_emulation_copy &copy : parts) {
    if (copy.bytes == 0) continue;
    if (now)
      mmci_emulation_land(copy);
    else
      copies.back().push_back(copy);
  }
}

void mmci_copy_async_commit() {
  auto &copies = mmci_emulation().current->copies;
  if (copies.empty()) copies.emplace_back();
  copies.emplace_back();
}

void mmci_emulation_wait_for_copies(int left) {
  auto &copies = mmci_emulation().current->copies;
  while ((int)copies.size() > left + 1) {
    for (const mmci_emulation_copy &copy : copies.front()) mmci_emulation_land(copy);
    copies.erase(copies.begin());
  }
}

/* What a counted gate waits for. */
struct mmci_emulation_phase {
  unsigned arrivals, arrived;
  uint64_t expected, copied, ended;
  std::vector<mmci_emulation_copy> copies;
};

static mmci_emulation_phase &phase_of(const void *gate) {
  static std::map<const void *, mmci_emulation_phase> phases;
  return phases[gate];
}

void mmci_counted_gate::open(unsigned arrivals) {
  phase_of(this) = mmci_emulation_phase{arrivals, 0, 0, 0, 0, {}};
}

void mmci_counted_gate::arrive() {
  if (phase_of(this).arrived++ == phase_of(this).arrivals)
    mmci_emulation_stop("more threads arrive at a counted gate than it waits for");
  mmci_emulation().progress++;
}

void mmci_counted_gate::expect(unsigned bytes) {
  phase_of(this).expected += bytes;
  arrive();
}

void mmci_counted_gate::arrive_after_copies() {
  auto &mine = mmci_emulation().current->copies;
  for (auto &group : mine)
    phase_of(this).copies.insert(phase_of(this).copies.end(), group.begin(), group.end());
  mine.clear();
  arrive();
}

void mmci_counted_gate::copy(void *shared, const void *global, unsigned bytes) {
  if (((uintptr_t)shared | (uintptr_t)global | bytes) % 16 != 0)
    mmci_emulation_stop("misaligned bulk copy");
  phase_of(this).copies.push_back({shared, global, bytes});
  phase_of(this).copied += bytes;
}

void mmci_counted_gate::wait(unsigned parity) const {
  mmci_emulation_phase &p = phase_of(this);
  while (p.ended % 2 == parity) {
    if (p.arrived < p.arrivals || p.copied < p.expected) {
      mmci_emulation_yield();
      continue;
    }
    if (p.copied > p.expected) mmci_emulation_stop("more bytes are copied than are expected");
    for (const mmci_emulation_copy &copy : p.copies) mmci_emulation_land(copy);
    p.copies.clear();
    p.arrived = 0;
    p.expected = p.copied = 0;
    p.ended++;
    mmci_emulation().progress++;
  }
}

void mmci_bulk_store(void *global, const void *shared, unsigned bytes) {
  if (((uintptr_t)shared | (uintptr_t)global | bytes) % 16 != 0)
    mmci_emulation_stop("misaligned bulk copy");
  const mmci_emulation_copy copy = {global, shared, bytes};
  if (mmci_emulation_random() & 1) return mmci_emulation_land(copy);
  mmci_emulation().current->stores.push_back(copy);
}

void mmci_await_bulk_stores() {
  for (const mmci_emulation_copy &copy : mmci_emulation().current->stores)
    mmci_emulation_land(copy);
  mmci_emulation().current->stores.clear();
}

/* ---- launches ------------------------------------------------------------------------------- */

/* Runs the blocks of a cluster, of so many threads each, beside each other. */
static void mmci_emulation_run_blocks(unsigned block_threads, size_t shared_bytes) {
  mmci_emulation_machine &m = mmci_emulation();
  const unsigned threads = block_threads * (unsigned)m.blocks.size();
  if (m.fibers.size() < threads) m.fibers.resize(threads);
  for (size_t t = threads; t < m.fibers.size(); t++) m.fibers[t].done = true;
  for (mmci_emulation_block &block : m.blocks) {
    block.shared.assign(shared_bytes + 128, 0xff);
    block.shared_start = block.shared.data() + (128 - (uintptr_t)block.shared.data() % 128) % 128;
    block.barrier = mmci_emulation_barrier();
    block.live = (int)block_threads;
  }
  m.cluster_barrier = mmci_emulation_barrier();
  for (mmci_emulation_barrier &barrier : m.named_barriers) barrier = mmci_emulation_barrier();
  m.warp_barriers.assign((threads + 31) / 32, mmci_emulation_barrier());
  m.warp_live.assign((threads + 31) / 32, 0);
  m.exchange.assign((threads + 31) / 32 * 32, 0);
  m.cluster_live = (int)threads;
  std::vector<unsigned> runnable(threads);
  for (unsigned t = 0; t < threads; t++) {
    mmci_emulation_fiber &fiber = m.fibers[t];
    mmci_emulation_prepare(fiber);
    fiber.copies.clear();
    fiber.stores.clear();
    fiber.block = t / block_threads;
    fiber.thread.x = t % blockDim.x;
    fiber.thread.y = t / blockDim.x % blockDim.y;
    fiber.thread.z = t % block_threads / blockDim.x / blockDim.y;
    m.warp_live[t / 32]++;
    runnable[t] = t;
  }
  int idle_rounds = 0;
  uint64_t stalled = 0; /* blocks of several that get no turn for a while */
  while (!runnable.empty()) {
    if (m.blocks.size() > 1 && mmci_emulation_random() % 16 == 0)
      stalled = mmci_emulation_random() & mmci_emulation_random();
    for (size_t i = runnable.size() - 1; i > 0; i--)
      std::swap(runnable[i], runnable[mmci_emulation_random() % (i + 1)]);
    uint64_t before = m.progress;
    for (size_t i = 0; i < runnable.size();) {
      unsigned t = runnable[i];
      if (stalled >> m.fibers[t].block & 1) {
        i++;
        continue;
      }
      mmci_emulation_resume(m.fibers[t]);
      if (m.fibers[t].done) {
        m.blocks[m.fibers[t].block].live--;
        m.cluster_live--;
        m.warp_live[t / 32]--;
        m.progress++;
        runnable[i] = runnable.back();
        runnable.pop_back();
      } else {
        i++;
      }
    }
    idle_rounds = m.progress == before ? idle_rounds + 1 : 0;
    if (idle_rounds > 1000) mmci_emulation_stop("threads wait for each other forever");
  }
}

cudaError_t mmci_emulation_launch(const void *kernel, dim3 grid, unsigned in_cluster, dim3 block,
                                  size_t shared_bytes, void (*call)(const void *),
                                  const void *arguments) {
  mmci_emulation_machine &m = mmci_emulation();
  if (mmci_emulation_failure()) return cudaErrorInvalidValue;
  unsigned threads = block.x * block.y * block.z;
  size_t blocks = (size_t)grid.x * grid.y * grid.z;
  const auto leave = m.shared_most.find(kernel);
  const size_t shared_most = leave == m.shared_most.end() ? MMCI_EMULATED_SHARED : leave->second;
  if (threads == 0 || threads > 1024 || blocks == 0 || shared_bytes > shared_most)
    return cudaErrorInvalidValue;
  if (in_cluster == 0 || in_cluster > (m.wide[kernel] != 0 ? 16 : 8) || grid.x % in_cluster != 0 ||
      (in_cluster > 1 && threads % 32 != 0))
    return cudaErrorInvalidValue;
  m.blocks.resize(in_cluster);
  gridDim = grid;
  blockDim = block;
  m.call = call;
  m.arguments = arguments;
  const size_t clusters = blocks / in_cluster, across = grid.x / in_cluster;
  std::vector<size_t> order(clusters);
  for (size_t b = 0; b < clusters; b++) order[b] = b;
  for (size_t b = clusters - 1; b > 0; b--)
    std::swap(order[b], order[mmci_emulation_random() % (b + 1)]);
  for (size_t b : order) {
    m.first_block = (unsigned)(b % across) * in_cluster;
    blockIdx.y = (unsigned)(b / across % grid.y);
    blockIdx.z = (unsigned)(b / across / grid.y);
    mmci_emulation_run_blocks(threads, shared_bytes);
  }
  return cudaSuccess;
}

/* ---- the runtime API ------------------------------------------------------------------------ */

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = mmci_emulation().multiprocessors;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 227 * 1024;
      break;
  }
  return mmci_emulation_call();
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  mmci_emulation_machine &m = mmci_emulation();
  *total_bytes = m.memory_bytes;
  *free_bytes = m.memory_bytes - min(m.memory_bytes, m.memory_used);
  return mmci_emulation_call();
}

cudaError_t mmci_emulation_allocate(void **out, size_t size_bytes) {
  mmci_emulation_machine &m = mmci_emulation();
  if (mmci_emulation_failure()) return cudaErrorMemoryAllocation;
  if (m.memory_used + size_bytes > m.memory_bytes) return cudaErrorMemoryAllocation;
  void *memory = aligned_alloc(256, (size_bytes + 511) / 256 * 256);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  memset(memory, 0xa5, size_bytes);
  m.memory[memory] = size_bytes;
  m.memory_used += size_bytes;
  *out = memory;
  return cudaSuccess;
}

cudaError_t mmci_emulation_release(void *memory) {
  mmci_emulation_machine &m = mmci_emulation();
  if (memory == nullptr) return cudaSuccess;
  auto held = m.memory.find(memory);
  if (held == m.memory.end()) mmci_emulation_stop("memory released that is not held");
  m.memory_used -= held->second;
  m.memory.erase(held);
  free(memory);
  return cudaSuccess;
}

cudaError_t mmci_emulation_get_attributes(cudaFuncAttributes *out, const void *kernel) {
  const auto &most = mmci_emulation().shared_most;
  const auto leave = most.find(kernel);
  out->maxDynamicSharedSizeBytes = leave == most.end() ? MMCI_EMULATED_SHARED : leave->second;
  return mmci_emulation_call();
}

cudaError_t mmci_emulation_set_attribute(const void *kernel, cudaFuncAttribute attribute,
                                         int value) {
  if (mmci_emulation_failure()) return cudaErrorInvalidValue;
  if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed)
    mmci_emulation().wide[kernel] = value;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value > 227 * 1024) return cudaErrorInvalidValue;
  mmci_emulation().shared_most[kernel] = value;
  return cudaSuccess;
}

cudaError_t mmci_emulation_c_malloc(void **out, size_t size_bytes) {
  return cudaMalloc(out, size_bytes);
}
cudaError_t mmci_emulation_c_free(void *memory) {
  return cudaFree(memory);
}
cudaError_t mmci_emulation_c_memset(void *to, int value, size_t size_bytes) {
  return cudaMemset(to, value, size_bytes);
}
cudaError_t mmci_emulation_c_memcpy(void *to, const void *from, size_t size_bytes,
                                    cudaMemcpyKind kind) {
  return cudaMemcpy(to, from, size_bytes, kind);
}
cudaError_t mmci_emulation_c_synchronize(cudaStream_t stream) {
  return cudaStreamSynchronize(stream);
}
cudaError_t mmci_emulation_c_last_error(void) {
  return cudaGetLastError();
}
const char *mmci_emulation_c_error_string(cudaError_t error) {
  return cudaGetErrorString(error);
}
cudaError_t mmci_emulation_c_shared_most(const void *kernel, int bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}
