/* strips_walk.cuh: the way of a unit of strips.cu and strips_double.cu over its chains: factors
 * come through slots, in which the result takes the last one's place. */
#ifndef MMCI_CUDA_GROUP_STRIPS_WALK_CUH
#define MMCI_CUDA_GROUP_STRIPS_WALK_CUH

#include "device/cuda/group/bulk_copies.cuh"
#include "device/cuda/group/sides.h"

/* A unit: its threads, the chains that it multiplies at once, of matrices of so many elements, and
 * the slots, each with the elements that matrices of all its chains take; and whether they lie
 * there as mmci_place_as() says, for which a slot has MMCI_PLACE_BYTES more. */
struct mmci_strips_unit {
  int threads, chains, area, slots, slot_elements;
  bool placed;
};

/* The gates stand before the slots. */
static constexpr __host__ __device__ int mmci_strips_gate_bytes(int slots) {
  return (slots * 8 + 15) / 16 * 16;
}

/* Multiplies the chains of one unit of a block. The thread works on one of a unit's chains, with
 * what `product` returns for each: read(matrix), multiply(matrix), take() of what was multiplied as
 * the next left operand, and write(matrix). load(from, matrices, to, gate) and store(to, matrices,
 * from) begin copies. */
template <typename Element, typename Product, typename Load, typename Store>
static __device__ __forceinline__ void mmci_walk_strips(const mmci_squares &e,
                                                        const mmci_strips_unit &unit,
                                                        unsigned char *memory, int chain,
                                                        Product product, Load load, Store store) {
  const int of_block = (int)threadIdx.x / unit.threads, thread = (int)threadIdx.x % unit.threads,
            n = e.n;
  mmci_counted_gate *gates = reinterpret_cast<mmci_counted_gate *>(memory);
  Element *places = reinterpret_cast<Element *>(memory + mmci_strips_gate_bytes(unit.slots));
  if (thread < unit.slots) gates[thread].open(MMCI_MATRICES_ARRIVALS);
  mmci_group_wait(of_block, unit.threads);
  mmci_follow_previous();
  const int64_t units = (e.batch - 1) / unit.chains + 1,
                stride = (int64_t)gridDim.x * ((int)blockDim.x / unit.threads);
  /* The last unit may have fewer chains. */
  const int chains_last = (int)(e.batch - (units - 1) * unit.chains);
  auto chains_of = [&](int64_t of) {
    return unit.chains == 1 || of + 1 < units ? unit.chains : chains_last;
  };
  auto is_shared = [&](int factor) { return e.stride[factor] == 0; };
  int64_t at = blockIdx.x + (int64_t)gridDim.x * of_block, coming = at;
  int coming_factor = 0, coming_slot = 0, slot = 0;
  unsigned parity = 0;
  auto factor_of = [&](int factor, int64_t of) {
    return static_cast<const Element *>(e.data[factor]) + of * unit.chains * e.stride[factor];
  };
  auto place_of = [&](int number, const Element *from) {
    Element *place = places + number * unit.slot_elements;
    return unit.placed ? mmci_place_as(place, from) : place;
  };
  auto load_next = [&]() {
    if (coming >= units) return;
    if (thread == 0) {
      const Element *from = factor_of(coming_factor, coming);
      load(from, is_shared(coming_factor) ? 1 : chains_of(coming), place_of(coming_slot, from),
           gates + coming_slot);
    }
    coming_slot = coming_slot + 1 == unit.slots ? 0 : coming_slot + 1;
    if (++coming_factor == n) {
      coming_factor = 0;
      coming += stride;
    }
  };
  /* A copy may land before words have been read that lanes have asked for. */
  auto load_next_after_reads = [&]() {
    mmci_order_bulk_copies();
    mmci_group_wait(of_block, unit.threads);
    load_next();
  };
  auto take = [&](int factor) {
    gates[slot].wait(parity);
    Element *place = place_of(slot, factor_of(factor, at));
    slot++;
    if (slot == unit.slots) {
      slot = 0;
      parity ^= 1;
    }
    return place;
  };
#pragma unroll 1
  for (int i = 0; i < unit.slots; i++) load_next();
#pragma unroll 1
  for (; at < units; at += stride) {
    const bool is_there = chain < chains_of(at);
    const Element *first = take(0) + (is_shared(0) ? 0 : chain * unit.area);
    auto strip = product();
    if (is_there) strip.read(first);
    load_next_after_reads();
    Element *last = nullptr;
#pragma unroll 1
    for (int f = 1; f < n; f++) {
      last = take(f);
      if (is_there) strip.multiply(last + (is_shared(f) ? 0 : chain * unit.area));
      if (f == n - 1) break;
      load_next_after_reads();
      if (is_there) strip.take();
    }
    /* The result takes the last factor's place, which no lane reads any more. */
    mmci_group_wait(of_block, unit.threads);
    if (is_there) strip.write(last + chain * unit.area);
    mmci_order_bulk_copies();
    mmci_group_wait(of_block, unit.threads);
    if (thread == 0) {
      store(static_cast<Element *>(e.c) + at * unit.chains * e.c_stride, chains_of(at), last);
      mmci_await_bulk_reads();
    }
    load_next();
  }
  if (thread == 0) mmci_await_bulk_stores();
}

#endif
