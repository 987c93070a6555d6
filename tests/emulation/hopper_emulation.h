/* hopper_emulation.h: what kernels use of Hopper beyond CUDA C++ (device/cuda/emulated/wgmma.cuh,
 * device/cuda/group/fused_half.cuh), on the fibers of cuda_emulation.h: barriers in shared memory,
 * tensor copies, and warpgroups' products with sums in FP32.
 *
 * Copies land at once or some time later, at random; products are computed where they are issued or
 * not before they are waited for; stores to global memory are made when they are issued or not
 * before they are waited for. What is read too early, or overwritten too early, is then wrong.
 * Addresses in shared memory are offsets from the start of a block's dynamic shared memory;
 * barriers may lie elsewhere. */
#ifndef MMCI_HOPPER_EMULATION_H
#define MMCI_HOPPER_EMULATION_H

#include <unordered_map>

#include "cuda_emulation.h"

#define __CUDA_ARCH_FEAT_SM90_ALL 1

struct mmci_hopper_barrier {
  int count, awaited;
  long bytes; /* announced and not landed yet; below zero where they land first */
  unsigned phase;
};

/* A box on its way to shared memory, from a map or from a block of the cluster. */
struct mmci_hopper_copy {
  unsigned block;
  uint32_t to, barrier;
  const CUtensorMap *map; /* NULL: from shared memory */
  int x, y, z;
  unsigned from_block;
  uint32_t from, bytes;
};

struct mmci_hopper_store {
  const CUtensorMap *map;
  uint32_t from;
  int x, y, z, group;
};

struct mmci_hopper_product {
  float *sums;
  int columns, group;
  bool a_across, b_across, keep; /* keep: sums are added to */
  const uint32_t *registers[4];  /* A's, those of the lanes of a row; NULL: it lies at a */
  uint64_t a, b;
  const float *values; /* of elements by their bits */
};

struct mmci_hopper_thread {
  std::vector<mmci_hopper_product> products;
  std::vector<mmci_hopper_store> stores;
  int products_group = 0, stores_group = 0;
};

/* A barrier that some threads arrive at and others wait at. */
struct mmci_hopper_meeting {
  int arrived, passed, opened;
};

struct mmci_hopper_machine {
  enum { BLOCKS = 8, THREADS = 1024, NAMES = 16 };
  std::unordered_map<uint64_t, mmci_hopper_barrier> barriers;
  std::vector<mmci_hopper_copy> copies;
  unsigned delay = 8; /* of so many looks at a barrier, one lets a copy land */
  mmci_hopper_thread threads[BLOCKS][THREADS];
  mmci_hopper_meeting meetings[BLOCKS][NAMES];
};

inline mmci_hopper_machine &mmci_hopper() {
  static mmci_hopper_machine machine;
  return machine;
}

/* Forgets barriers and says whether every copy has landed; a kernel that ends before has failed. */
inline bool mmci_hopper_end() {
  mmci_hopper_machine &m = mmci_hopper();
  bool landed = m.copies.empty();
  for (auto &block : m.threads)
    for (mmci_hopper_thread &thread : block) {
      landed = landed && thread.products.empty() && thread.stores.empty();
      thread = mmci_hopper_thread();
    }
  memset(m.meetings, 0, sizeof m.meetings);
  m.copies.clear();
  m.barriers.clear();
  return landed;
}

static inline unsigned mmci_hopper_block() {
  return mmci_emulation().current->block;
}
static inline mmci_hopper_thread &mmci_hopper_thread_here() {
  return mmci_hopper().threads[mmci_hopper_block()][threadIdx.x];
}

static inline unsigned char *mmci_hopper_memory(unsigned block, uint32_t at, size_t bytes) {
  mmci_emulation_block &of = mmci_emulation().blocks[block];
  if (of.live == 0) mmci_emulation_stop("shared memory of a block that has ended");
  if (at + bytes > of.shared.size() - 128) mmci_emulation_stop("past the end of shared memory");
  return of.shared_start + at;
}

static inline uint32_t mmci_shared_address(const void *p) {
  enum { STATIC = 1 << 30 }; /* of what is not in dynamic shared memory, which barriers alone are */
  const mmci_emulation_block &own = mmci_emulation_own();
  const uintptr_t offset = (uintptr_t)p - (uintptr_t)own.shared_start;
  return offset < own.shared.size() ? (uint32_t)offset : STATIC | ((uint32_t)(uintptr_t)p >> 2);
}

/* Lines of 128 bytes have their words of 16 bytes swapped by the number of the line, and pairs of
 * lines of 64 bytes by that of the pair. */
static inline uint32_t mmci_hopper_swizzled(uint32_t at, int line_bytes = 128) {
  return at ^ (at >> 7 & (line_bytes == 64 ? 3 : 7)) << 4;
}

/* ---- barriers -------------------------------------------------------------------------------- */

static inline mmci_hopper_barrier &mmci_hopper_barrier_at(unsigned block, uint32_t at) {
  const auto found = mmci_hopper().barriers.find((uint64_t)block << 32 | at);
  if (found == mmci_hopper().barriers.end()) mmci_emulation_stop("a barrier that was not made");
  if (mmci_emulation().blocks[block].live == 0) mmci_emulation_stop("a barrier of an ended block");
  return found->second;
}

static inline void mmci_hopper_count(unsigned block, uint32_t at, int arrivals, long bytes) {
  mmci_hopper_barrier &barrier = mmci_hopper_barrier_at(block, at);
  barrier.awaited -= arrivals;
  barrier.bytes += bytes;
  mmci_emulation().progress++;
  if (barrier.awaited < 0) mmci_emulation_stop("more arrive at a barrier than it waits for");
  if (barrier.awaited > 0 || barrier.bytes != 0) return;
  barrier.awaited = barrier.count;
  barrier.phase++;
}

static inline void mmci_barrier_init(uint32_t at, int count) {
  mmci_hopper().barriers[(uint64_t)mmci_hopper_block() << 32 | at] = {count, count, 0, 0};
}
static inline void mmci_barrier_init_done() {}
static inline void mmci_barrier_expect(uint32_t at, uint32_t bytes) {
  mmci_hopper_count(mmci_hopper_block(), at, 1, bytes);
}
static inline void mmci_barrier_arrive(uint32_t at, uint32_t block) {
  mmci_hopper_count(block, at, 1, 0);
}
static inline void arrive(uint32_t at) {
  mmci_hopper_count(mmci_hopper_block(), at, 1, 0);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static inline void mmci_hopper_land(const mmci_hopper_copy &copy) {
  uint32_t bytes = copy.bytes;
  if (copy.map == nullptr) {
    memcpy(mmci_hopper_memory(copy.block, copy.to, bytes),
           mmci_hopper_memory(copy.from_block, copy.from, bytes), bytes);
  } else {
    const CUtensorMap &map = *copy.map;
    bytes = (uint32_t)(map.box[0] * map.box[1]) * 2;
    for (int j = 0; j < map.box[1]; j++)
      for (int i = 0; i < map.box[0]; i++) {
        const int64_t x = copy.x + i, y = copy.y + j;
        uint16_t bits = 0;
        if (x < map.sizes[0] && y < map.sizes[1] && copy.z < map.sizes[2])
          bits = map.data[x + y * map.strides[0] + copy.z * map.strides[1]];
        const uint32_t at = copy.to + (uint32_t)(j * map.box[0] + i) * 2,
                       to = mmci_hopper_swizzled(at, map.box[0] * 2);
        memcpy(mmci_hopper_memory(copy.block, to, 2), &bits, 2);
      }
  }
  mmci_hopper_count(copy.block, copy.barrier, 0, -(long)bytes);
}

static inline void mmci_hopper_begin(const mmci_hopper_copy &copy) {
  if (mmci_emulation_random() & 1) return mmci_hopper_land(copy);
  mmci_hopper().copies.push_back(copy);
  mmci_emulation().progress++;
}

static inline void load_box(uint32_t to, const CUtensorMap *map, uint32_t barrier, int x, int y,
                            int matrix) {
  mmci_hopper_begin({mmci_hopper_block(), to, barrier, map, x, y, matrix, 0, 0, 0});
}
/* Copies a box to the same place of every block of the cluster that blocks has a bit for. */
static inline void mmci_plane_load_all(uint32_t to, const CUtensorMap *map, uint32_t barrier, int x,
                                       int y, int matrix, uint16_t blocks) {
  for (unsigned b = 0; b < mmci_hopper_machine::BLOCKS; b++)
    if (blocks >> b & 1) mmci_hopper_begin({b, to, barrier, map, x, y, matrix, 0, 0, 0});
}
static inline void send_box(uint32_t to, uint32_t from, uint32_t barrier, uint32_t block) {
  enum { BYTES = 64 * 64 * 2 };
  mmci_hopper_begin({block, to, barrier, nullptr, 0, 0, 0, mmci_hopper_block(), from, BYTES});
}

static inline void await(uint32_t at, uint32_t parity) {
  std::vector<mmci_hopper_copy> &copies = mmci_hopper().copies;
  while ((mmci_hopper_barrier_at(mmci_hopper_block(), at).phase & 1) == parity) {
    if (!copies.empty() && mmci_emulation_random() % mmci_hopper().delay == 0) {
      const size_t i = mmci_emulation_random() % copies.size();
      const mmci_hopper_copy copy = copies[i];
      copies[i] = copies.back();
      copies.pop_back();
      mmci_hopper_land(copy);
    }
    mmci_emulation_yield();
  }
}

/* Whole words of 16 bytes are written, past the end of a line as well. */
static inline void mmci_hopper_write(const mmci_hopper_store &store) {
  enum { WORD = 8 };
  const CUtensorMap &map = *store.map;
  const int64_t length = (map.sizes[0] + WORD - 1) / WORD * WORD;
  for (int j = 0; j < map.box[1]; j++)
    for (int i = 0; i < map.box[0]; i++) {
      const int64_t x = store.x + i, y = store.y + j;
      const uint32_t at = mmci_hopper_swizzled(store.from + (uint32_t)(j * map.box[0] + i) * 2);
      if (x < length && y < map.sizes[1] && store.z < map.sizes[2])
        memcpy(map.data + x + y * map.strides[0] + store.z * map.strides[1],
               mmci_hopper_memory(mmci_hopper_block(), at, 2), 2);
    }
}
static inline void store_box(const CUtensorMap *map, uint32_t from, int x, int y, int matrix) {
  mmci_hopper_thread &own = mmci_hopper_thread_here();
  const mmci_hopper_store store = {map, from, x, y, matrix, own.stores_group};
  if (mmci_emulation_random() & 1)
    mmci_hopper_write(store);
  else
    own.stores.push_back(store);
}
static inline void copies_commit() {
  mmci_hopper_thread_here().stores_group++;
}
template <int left>
static inline void copies_wait_read() {
  mmci_hopper_thread &own = mmci_hopper_thread_here();
  size_t done = 0;
  while (done < own.stores.size() && own.stores[done].group < own.stores_group - left)
    mmci_hopper_write(own.stores[done++]);
  own.stores.erase(own.stores.begin(), own.stores.begin() + (long)done);
}
static inline void copies_wait() {
  copies_wait_read<0>();
}
static inline void show_to_copies() {}

/* ---- products -------------------------------------------------------------------------------- */

/* Returns the element of a descriptor: row or column i and term k. */
static inline uint16_t mmci_hopper_element(const mmci_emulation_block &of, uint64_t descriptor,
                                           bool across, int i, int k) {
  enum { UNIT = 16, FIELD = 0x3fff };
  const uint32_t start = (uint32_t)(descriptor & FIELD) * UNIT,
                 further = (uint32_t)(descriptor >> 16 & FIELD) * UNIT,
                 eight = (uint32_t)(descriptor >> 32 & FIELD) * UNIT, line = (uint32_t)i,
                 term = (uint32_t)k, line_bytes = descriptor >> 62 == 2 ? 64 : 128;
  if (across && line_bytes != 128) mmci_emulation_stop("a descriptor that there is not");
  const uint32_t at = mmci_hopper_swizzled(
      start + (across ? line / 64 * further + term / 8 * eight + term % 8 * 128 + line % 64 * 2
                      : line / 8 * eight + line % 8 * line_bytes + term * 2),
      (int)line_bytes);
  uint16_t bits;
  if (at + sizeof bits > of.shared.size()) mmci_emulation_stop("past the end of shared memory");
  memcpy(&bits, of.shared_start + at, sizeof bits);
  return bits;
}

/* Computes what this thread holds of the sums: rows l / 4 and 8 more of its warp's 16, and of each
 * 8 columns 2 (l % 4) and the next, where l is its lane. */
static inline void mmci_hopper_multiply(const mmci_hopper_product &x) {
  const mmci_emulation_block &own = mmci_emulation_own();
  const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % 128 / 32 * 16 + lane / 4;
  for (int i = 0; i < x.columns / 2 && !x.keep; i++) x.sums[i] = 0;
  for (int k = 0; k < 16; k++) {
    float a[2];
    for (int r = 0; r < 2; r++) {
      uint16_t bits;
      if (x.registers[0] != nullptr)
        bits = (uint16_t)(x.registers[k % 8 / 2][k / 8 * 2 + r] >> k % 2 * 16);
      else
        bits = mmci_hopper_element(own, x.a, x.a_across, row + 8 * r, k);
      a[r] = x.values[bits];
    }
    for (int c = 0; c < x.columns; c += 8)
      for (int e = 0; e < 2; e++) {
        const float b =
            x.values[mmci_hopper_element(own, x.b, x.b_across, c + lane % 4 * 2 + e, k)];
        x.sums[c / 2 + e] += a[0] * b;
        x.sums[c / 2 + 2 + e] += a[1] * b;
      }
  }
}

template <typename Element>
static inline const float *mmci_hopper_values() {
  static const std::vector<float> values = [] {
    std::vector<float> all;
    for (uint32_t bits = 0; bits < 1 << 16; bits++)
      all.push_back(Element::read((uint16_t)bits, false));
    return all;
  }();
  return values.data();
}

static inline void mmci_hopper_issue(mmci_hopper_product product) {
  mmci_hopper_thread &own = mmci_hopper_thread_here();
  product.group = own.products_group;
  own.products.push_back(product);
  __syncwarp();
  if (own.products.size() == 1 && (mmci_emulation_random() & 1)) {
    mmci_hopper_multiply(own.products[0]);
    own.products.clear();
  }
}

/* sums += A B for 64 rows and 16 terms, A in shared memory or in registers. */
template <bool ta, bool tb, typename Element, int count>
static inline void add_products(Element, float (&sums)[count], uint64_t a, uint64_t b) {
  mmci_hopper_issue({sums, count * 2, 0, ta, tb, true, {}, a, b, mmci_hopper_values<Element>()});
}
template <bool ta, bool tb, typename Element, int count>
static inline void set_products(Element, float (&sums)[count], uint64_t a, uint64_t b, bool keep) {
  mmci_hopper_issue({sums, count * 2, 0, ta, tb, keep, {}, a, b, mmci_hopper_values<Element>()});
}
template <bool tb, typename Element, int count>
static inline void add_products(Element, float (&sums)[count], const uint32_t (&a)[4], uint64_t b) {
  mmci_hopper_product x = {sums, count * 2, 0, false, tb,
                           true, {},        0, b,     mmci_hopper_values<Element>()};
  for (int lane = 0; lane < 4; lane++)
    x.registers[lane] = (const uint32_t *)__shfl_sync(0xffffffffu, (uint64_t)(uintptr_t)a, lane, 4);
  mmci_hopper_issue(x);
}

static inline void mmci_products_begin() {}
static inline void mmci_products_commit() {
  mmci_hopper_thread_here().products_group++;
}
template <int left>
static inline void mmci_products_wait() {
  mmci_hopper_thread &own = mmci_hopper_thread_here();
  size_t done = 0;
  while (done < own.products.size() && own.products[done].group < own.products_group - left)
    mmci_hopper_multiply(own.products[done++]);
  own.products.erase(own.products.begin(), own.products.begin() + (long)done);
  __syncwarp();
}
template <int count>
static inline void mmci_pin(float (&)[count]) {}

static inline uint64_t mmci_matrix_at(uint32_t address) {
  return (uint64_t)(address >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}
static inline uint64_t mmci_byte_matrix_at(uint32_t address) {
  return (uint64_t)(address >> 4) | (1ull << 16) | (32ull << 32) | (2ull << 62);
}

/* ---- the rest -------------------------------------------------------------------------------- */

template <int threads>
static inline void pass(int name) {
  mmci_hopper_meeting &meeting = mmci_hopper().meetings[mmci_hopper_block()][name];
  mmci_emulation().progress++;
  meeting.arrived++;
  if (meeting.arrived == threads) {
    meeting.arrived = meeting.passed = 0;
    meeting.opened++;
  } else if (++meeting.passed >= threads) {
    mmci_emulation_stop("a turn is given that was not taken");
  }
}
template <int threads>
static inline void meet(int name) {
  mmci_hopper_meeting &meeting = mmci_hopper().meetings[mmci_hopper_block()][name];
  const int opened = meeting.opened;
  mmci_emulation().progress++;
  if (++meeting.arrived == threads) {
    meeting.arrived = meeting.passed = 0;
    meeting.opened++;
  }
  while (meeting.opened == opened) mmci_emulation_yield();
}
static inline void mmci_warpgroup_sync(int name) {
  meet<128>(name);
}

/* Rounds two sums to a word. */
template <typename Element>
static inline uint32_t pair_of(Element, float low, float high) {
  return Element::write(low) | (uint32_t)Element::write(high) << 16;
}

/* Writes four tiles of 8 x 8, each line of which goes to the address of a lane. */
template <bool turned>
static inline void store_tiles(uint32_t at, const uint32_t (&words)[4]) {
  const int lane = (int)threadIdx.x % 32, row = lane / 4, col = lane % 4 * 2;
  for (int tile = 0; tile < 4; tile++)
    for (int e = 0; e < 2; e++) {
      const uint16_t bits = (uint16_t)(words[tile] >> 16 * e);
      const int line = turned ? col + e : row, place = turned ? row : col + e;
      const uint32_t to = __shfl_sync(0xffffffffu, at, 8 * tile + line);
      memcpy(mmci_hopper_memory(mmci_hopper_block(), to + (uint32_t)place * 2, 2), &bits, 2);
    }
}
/* Turns a tile of 8 x 8, of which a lane has two elements of row lane / 4. */
static inline uint32_t turn_tile(uint32_t word) {
  const int lane = (int)threadIdx.x % 32, line = lane / 4, from = lane % 4 * 8 + line / 2;
  const uint32_t first = __shfl_sync(0xffffffffu, word, from),
                 second = __shfl_sync(0xffffffffu, word, from + 4);
  return (first >> line % 2 * 16 & 0xffff) | (second >> line % 2 * 16) << 16;
}
static inline uint16_t read_half(uint32_t at) {
  uint16_t bits;
  memcpy(&bits, mmci_hopper_memory(mmci_hopper_block(), at, 2), 2);
  return bits;
}
template <int count>
static inline void keep_registers() {}
template <int count>
static inline void take_registers() {}

#endif
