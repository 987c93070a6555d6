/* bulk_copies.cuh: copies of whole matrices from global to shared memory and back that no lane
 * waits for, and the gates that say when they have landed. On devices before Hopper nothing of this
 * may be called.
 */
#ifndef MMCI_CUDA_GROUP_BULK_COPIES_CUH
#define MMCI_CUDA_GROUP_BULK_COPIES_CUH

#include "device/cuda/group/group_kernels.cuh"

#ifndef MMCI_EMULATE_CUDA

#if __CUDA_ARCH__ >= 900
#define MMCI_ON_HOPPER(...) asm volatile(__VA_ARGS__)
static constexpr bool MMCI_HAS_BULK_COPIES = true;
#else
static constexpr bool MMCI_HAS_BULK_COPIES = false;
#define MMCI_ON_HOPPER(...) __trap()
#endif

/* An mbarrier in shared memory. A phase of it ends when all arrivals have come and all bytes that
 * were expected have landed; the phases' parities are 0, 1, 0 and so on. */
struct mmci_counted_gate {
  unsigned long long state;
  __device__ __forceinline__ unsigned address() const { return mmci_shared_address(&state); }
  /* Every phase waits for so many arrivals. Other lanes see this after their next barrier. */
  __device__ __forceinline__ void open(unsigned arrivals) {
    MMCI_ON_HOPPER(
        "mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;" ::"r"(
            address()),
        "r"(arrivals)
        : "memory");
  }
  __device__ __forceinline__ void arrive() {
    MMCI_ON_HOPPER("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
  }
  /* Arrives, and lets the phase wait for so many bytes. */
  __device__ __forceinline__ void expect(unsigned bytes) {
    MMCI_ON_HOPPER("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                   "r"(bytes)
                   : "memory");
  }
  /* Arrives when what this lane copied by cp.async has landed. */
  __device__ __forceinline__ void arrive_after_copies() {
    MMCI_ON_HOPPER("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(address())
                   : "memory");
  }
  /* Copies bytes that are expected; both addresses and the bytes are multiples of 16. */
  __device__ __forceinline__ void copy(void *shared, const void *global, unsigned bytes) {
    MMCI_ON_HOPPER(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(mmci_shared_address(shared)),
        "l"(global), "r"(bytes), "r"(address())
        : "memory");
  }
  /* Waits until a phase of this parity has ended. */
  __device__ __forceinline__ void wait(unsigned parity) const {
    MMCI_ON_HOPPER(
        "{\n.reg .pred p;\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@!p bra again;\n}" ::"r"(address()),
        "r"(parity)
        : "memory");
  }
};

/* Orders what a lane read and wrote in shared memory before bulk copies to it and from it that
 * follow: a copy may land before a word has been read that a lane has asked for. */
static __device__ __forceinline__ void mmci_order_bulk_copies() {
  MMCI_ON_HOPPER("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Begins to copy bytes from shared to global memory; both addresses and the bytes are multiples of
 * 16. Copies before a commit are one group of the lane's. */
static __device__ __forceinline__ void mmci_bulk_store(void *global, const void *shared,
                                                       unsigned bytes) {
  MMCI_ON_HOPPER("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
                 "r"(mmci_shared_address(shared)), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void mmci_bulk_stores_commit() {
  MMCI_ON_HOPPER("cp.async.bulk.commit_group;" ::: "memory");
}

/* Wait until the lane's copies have read shared memory, and until they have written. */
static __device__ __forceinline__ void mmci_await_bulk_reads() {
  MMCI_ON_HOPPER("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

static __device__ __forceinline__ void mmci_await_bulk_stores() {
  MMCI_ON_HOPPER("cp.async.bulk.wait_group 0;" ::: "memory");
}

#undef MMCI_ON_HOPPER

#else

static constexpr bool MMCI_HAS_BULK_COPIES = true;

#endif

/* Returns the first place from `slot` on that lies as far behind a multiple of MMCI_LINE_BYTES as
 * what is copied to it. */
template <typename Stored>
static __device__ __forceinline__ Stored *mmci_place_as(Stored *slot, const Stored *from) {
  return slot + ((uintptr_t)from - (uintptr_t)slot) % MMCI_LINE_BYTES / sizeof(Stored);
}

enum { MMCI_MATRICES_ARRIVALS = 2 /* of mmci_load_matrices() at a gate */ };

/* Begins to copy elements that lie one behind the other, from and to a multiple of 16 bytes. Bytes
 * behind the last whole word are copied by pieces; an element of 16 bits that is left over is
 * followed by a zero. */
template <typename Stored>
static __device__ __forceinline__ void mmci_load_matrices(const Stored *from, unsigned count,
                                                          Stored *to, mmci_counted_gate *gate) {
  constexpr unsigned EACH = sizeof(Stored), PIECE = EACH < 8 ? 4 : 8;
  const unsigned all = count * EACH, whole = all & ~15u;
  gate->expect(whole);
  if (whole > 0) gate->copy(to, from, whole);
#pragma unroll 1
  for (unsigned i = whole; i < all; i += PIECE)
    mmci_copy_async_first<(int)PIECE>(reinterpret_cast<char *>(to) + i,
                                      reinterpret_cast<const char *>(from) + i,
                                      all - i < PIECE ? all - i : PIECE);
  gate->arrive_after_copies();
}

/* Begins to copy elements back. */
template <typename Stored>
static __device__ __forceinline__ void mmci_store_matrices(Stored *to, unsigned count,
                                                           const Stored *from) {
  constexpr unsigned EACH = sizeof(Stored);
  const unsigned whole = count * EACH & ~15u;
  if (whole > 0) mmci_bulk_store(to, from, whole);
#pragma unroll 1
  for (unsigned i = whole / EACH; i < count; i++) to[i] = from[i];
  mmci_bulk_stores_commit();
}

#endif
