/* fused_relay.cu: D = (A B) C in f16 or bf16 by Hopper's tensor cores, B in the shared memory of
 * one multiprocessor and C in that of another.
 *
 * Layout  as in fused_half.cu; sides of B and C to 256
 * Launch  clusters of two blocks, which stay for all their rows: one with B, then one with C. In
 *         each a warpgroup loads, and two multiply 64 rows each
 * Traffic 2 m w (k + n) flops; A, B and C are read once, D is written once; T goes from the first
 *         block to the second one
 * Idea    Where B and C together are larger than shared memory, a multiprocessor that multiplies by
 *         both reads them from the L2 again and again. Here each keeps one of them for good, and
 *         the cluster is a pipeline of two stages: the first block computes T, 64 rows at a time,
 *         and sends it box by box as its sums are rounded; the second one takes such boxes just as
 *         the first one takes those of A. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/group/fused_half.cuh"

enum {
  CLUSTER = 2,
  GROUPS = 2,
  THREADS = (GROUPS + 1) * WARPGROUP,
  MULTIPLIER_REGISTERS = 232,
  COLS = 4,                    /* boxes of the columns of B or C */
  TERMS = 4,                   /* boxes of their terms */
  WEIGHT_BOXES = TERMS * COLS, /* of a block: B or C */
  PLACES = 4,                  /* barriers of a ring, at most as many as it has places */
  TO_D = 1                     /* the block that computes D; block 0 computes T */
};

/* The boxes that weights leave are shared out: to each group of rows those of its left operand,
 * RING, and those of its result on their way, OUTS. */
template <bool second>
struct RelayShape {
  enum { RING = second ? 4 : 3, OUTS = second ? 2 : 3 };
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <typename Element, bool second>
struct FusedRelay {
  typedef RelayShape<second> S;
  typedef RelayShape<!second> OtherShape;
  const mmci_fused_half_job &job;
  uint32_t base, barriers; /* of shared memory */
  int matrix, first;       /* the matrix of the batch, and the first round */

  __device__ __forceinline__ int terms() const { return second ? job.w_blocks : job.k_blocks; }
  __device__ __forceinline__ uint32_t weight(int term) const {
    return base + term * COLS * BOX_BYTES;
  }
  __device__ __forceinline__ uint32_t left(int group, int i) const {
    return base + (WEIGHT_BOXES + group * S::RING + i) * BOX_BYTES;
  }
  __device__ __forceinline__ uint32_t out(int group, int i) const {
    return base + (WEIGHT_BOXES + GROUPS * S::RING + group * S::OUTS + i) * BOX_BYTES;
  }
  /* Barriers: the weights of a term are there; a box of the left operand is there, or free. */
  __device__ __forceinline__ uint32_t weight_full(int term) const { return barriers + 8 * term; }
  __device__ __forceinline__ uint32_t ring_barrier(int kind, int group, int i) const {
    return barriers + 8 * (TERMS + (kind * GROUPS + group) * PLACES + i);
  }
  __device__ __forceinline__ uint32_t left_full(int group, int i) const {
    return ring_barrier(0, group, i);
  }
  __device__ __forceinline__ uint32_t left_empty(int group, int i) const {
    return ring_barrier(1, group, i);
  }
  /* The barriers of the first block: a result is in its place; the second block has it; the second
   * block takes one. */
  __device__ __forceinline__ uint32_t ready(int group, int i) const {
    return ring_barrier(2, group, i);
  }
  __device__ __forceinline__ uint32_t landed(int group, int i) const {
    return ring_barrier(3, group, i);
  }
  __device__ __forceinline__ uint32_t granted(int group, int i) const {
    return ring_barrier(4, group, i);
  }
  enum { BARRIERS = TERMS + 5 * GROUPS * PLACES };
  __device__ __forceinline__ int row_of(int round, int group) const {
    return (round * GROUPS + group) * BOX;
  }

  __device__ __forceinline__ void open() const {
    for (int i = 0; i < TERMS; i++) mmci_barrier_init(weight_full(i), 1);
    for (int group = 0; group < GROUPS; group++)
      for (int i = 0; i < PLACES; i++) {
        mmci_barrier_init(left_full(group, i), 1);
        mmci_barrier_init(left_empty(group, i), second ? 5 : 4); /* every warp, and confirm() */
        mmci_barrier_init(ready(group, i), 1);
        mmci_barrier_init(landed(group, i), 1);
        mmci_barrier_init(granted(group, i), 1);
      }
  }

  /* ---- loading: threads for each group's rows, another one for the weights */

  __device__ __forceinline__ void load_weights(const CUtensorMap *map) const {
    const bool by_columns = second ? job.c_by_columns : job.b_by_columns,
               is_repeated = job.is_repeated[second ? 2 : 1];
    for (int k = 0; k < terms(); k++) {
      mmci_barrier_expect(weight_full(k), COLS * BOX_BYTES);
      for (int c = 0; c < COLS; c++)
        load_box(weight(k) + c * BOX_BYTES, map, weight_full(k), (by_columns ? k : c) * BOX,
                 (by_columns ? c : k) * BOX, is_repeated ? 0 : matrix);
    }
  }

  __device__ __forceinline__ void load_a(const CUtensorMap *a, int group) const {
    Ring ring = {0, 0};
    for (int round = first; round < job.rounds; round += job.blocks)
      for (int k = 0; k < terms(); k++, ring.next(S::RING)) {
        const int row = row_of(round, group), term = k * BOX;
        await(left_empty(group, ring.at), ring.odd ^ 1);
        mmci_barrier_expect(left_full(group, ring.at), BOX_BYTES);
        load_box(left(group, ring.at), a, left_full(group, ring.at), job.a_by_columns ? row : term,
                 job.a_by_columns ? term : row, job.is_repeated[0] ? 0 : matrix);
      }
  }

  /* ---- boxes of T: the second block takes those of the first one in their order. Box number i
   * lies in its place i % OUTS there and is granted by barrier i % PLACES: no more than PLACES of
   * all are granted and not sent, so that none is granted twice */

  __device__ __forceinline__ void grant(int group) const {
    Ring ring = {0, 0};
    int i = 0;
    for (int round = first; round < job.rounds; round += job.blocks)
      for (int k = 0; k < terms(); k++, i++, ring.next(S::RING)) {
        await(left_empty(group, ring.at), ring.odd ^ 1);
        mmci_barrier_expect(left_full(group, ring.at), BOX_BYTES);
        mmci_barrier_arrive(granted(group, i % PLACES), 1 - TO_D);
      }
  }

  /* Tells the first block what has come. */
  __device__ __forceinline__ void confirm(int group) const {
    Ring ring = {0, 0};
    int i = 0;
    for (int round = first; round < job.rounds; round += job.blocks)
      for (int k = 0; k < terms(); k++, i++, ring.next(S::RING)) {
        await(left_full(group, ring.at), ring.odd);
        mmci_barrier_arrive(landed(group, i % OtherShape::OUTS), 1 - TO_D);
        arrive(left_empty(group, ring.at)); /* none is granted that this has not seen */
      }
  }

  __device__ __forceinline__ void send(int group) const {
    const FusedRelay<Element, !second> other = {job, base, barriers, matrix, first};
    Ring outs = {0, 0};
    int i = 0;
    for (int round = first; round < job.rounds; round += job.blocks)
      for (int c = 0; c < job.w_blocks; c++, i++, outs.next(S::OUTS)) {
        const int at = i % OtherShape::RING;
        await(ready(group, outs.at), outs.odd);
        await(granted(group, i % PLACES), i / PLACES % 2);
        send_box(other.left(group, at), out(group, outs.at), other.left_full(group, at), TO_D);
      }
  }

  /* ---- multiplying: a warpgroup for 64 rows */

  /* The groups multiply in turns, so that one rounds and stores while the other one multiplies. */
  __device__ __forceinline__ static void take_turn(int group) {
    meet<2 * WARPGROUP>(1 + GROUPS + group);
  }
  __device__ __forceinline__ static void give_turn(int group) {
    pass<2 * WARPGROUP>(1 + GROUPS + group);
  }

  /* sums = the rows of the left operand by the weights. */
  template <bool ta, bool tb>
  __device__ __forceinline__ void product(float (&sums)[COLS * BOX / 2], int group, Ring &ring,
                                          bool is_last) const {
    int before = 0;
#pragma unroll
    for (int i = 0; i < COLS * BOX / 2; i++) sums[i] = 0;
#pragma unroll 1
    for (int k = 0; k < terms(); k++) {
      await(weight_full(k), 0);
      await(left_full(group, ring.at), ring.odd);
      const uint64_t a = box_at<ta>(left(group, ring.at)), b = box_at<!tb>(weight(k));
      mmci_products_begin();
#pragma unroll
      for (int q = 0; q < BOX / 16; q++)
        add_products<ta, !tb>(Element(), sums, a + q * step_of<ta>(), b + q * step_of<!tb>());
      mmci_products_commit();
      mmci_products_wait<1>();
      if (k > 0 && threadIdx.x % 32 == 0) arrive(left_empty(group, before));
      before = ring.at;
      ring.next(S::RING);
    }
    /* What is enqueued by now goes first. The last turn of all is nobody's. */
    if (group == 0 || !is_last) give_turn(1 - group);
    mmci_products_wait<0>();
    mmci_pin(sums);
    if (threadIdx.x % 32 == 0) arrive(left_empty(group, before));
  }

  /* Rounds the sums to T, for the second block. */
  __device__ __forceinline__ void hand_over(const float (&sums)[COLS * BOX / 2], int group,
                                            Ring &outs) const {
#pragma unroll
    for (int c = 0; c < COLS; c++) {
      const int col = c * BOX;
      if (col < job.w) {
        const uint32_t to = out(group, outs.at);
        await(landed(group, outs.at), outs.odd ^ 1);
        __syncwarp();
        if (col + BOX > job.w)
          write_box<Element, false, true>(to, &sums[c * BOX / 2], job.w - col);
        else
          write_box<Element, false, false>(to, &sums[c * BOX / 2], BOX);
        show_to_copies();
        mmci_warpgroup_sync(1 + group);
        if (threadIdx.x % WARPGROUP == 0) arrive(ready(group, outs.at));
        outs.next(S::OUTS);
      }
    }
    __syncwarp(); /* products are those of whole warps */
  }

  /* Rounds the sums to D and stores it. */
  __device__ __forceinline__ void store(const CUtensorMap *d, const float (&sums)[COLS * BOX / 2],
                                        int group, int row, Ring &outs) const {
    const bool is_first = threadIdx.x % WARPGROUP == 0;
#pragma unroll
    for (int c = 0; c < COLS; c++) {
      const int col = c * BOX;
      if (col < job.n) {
        const uint32_t to = out(group, outs.at);
        if (is_first) copies_wait_read<S::OUTS - 1>();
        mmci_warpgroup_sync(1 + group);
        if (job.d_by_columns)
          write_box<Element, true, false>(to, &sums[c * BOX / 2], BOX);
        else
          write_box<Element, false, false>(to, &sums[c * BOX / 2], BOX);
        show_to_copies();
        mmci_warpgroup_sync(1 + group);
        store_result(job, d, matrix, to, row, col);
        if (is_first) copies_commit();
        outs.next(S::OUTS);
      }
    }
    __syncwarp(); /* products are those of whole warps */
  }

  template <bool ta, bool tb>
  __device__ __forceinline__ void multiply_as(const CUtensorMap *d) const {
    const int group = (int)threadIdx.x / WARPGROUP - 1;
    Ring ring = {0, 0}, outs = {0, 0};
    if (group == 1) give_turn(0);
    for (int round = first; round < job.rounds; round += job.blocks) {
      float sums[COLS * BOX / 2];
      take_turn(group);
      product<ta, tb>(sums, group, ring, round + job.blocks >= job.rounds);
      if (second)
        store(d, sums, group, row_of(round, group), outs);
      else
        hand_over(sums, group, outs);
    }
    /* Shared memory must last until the stores have read it. */
    if (second && threadIdx.x % WARPGROUP == 0) copies_wait();
    __syncwarp();
  }

  __device__ __forceinline__ void multiply(const CUtensorMap *d) const {
    const bool ta = !second && job.a_by_columns, tb = second ? job.c_by_columns : job.b_by_columns;
    if (ta && tb)
      multiply_as<!second, true>(d);
    else if (ta)
      multiply_as<!second, false>(d);
    else if (tb)
      multiply_as<false, true>(d);
    else
      multiply_as<false, false>(d);
  }

  __device__ __forceinline__ void load(const mmci_fused_half_maps &maps) const {
    const int warp = (int)threadIdx.x / 32, group = warp % GROUPS;
    if (threadIdx.x % 32 == 0) {
      if (warp == GROUPS) load_weights(second ? &maps.c : &maps.b);
      if (warp < GROUPS) {
        if (second)
          grant(group);
        else
          load_a(&maps.a, group);
      } else if (second) {
        confirm(group);
      } else {
        send(group);
      }
    }
    __syncwarp();
  }
};

#endif

template <typename Element>
__global__ void __launch_bounds__(THREADS, 1)
    fused_relay(const __grid_constant__ mmci_fused_half_maps maps,
                const __grid_constant__ mmci_fused_half_job job) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  typedef FusedRelay<Element, false> First;
  typedef FusedRelay<Element, true> Second;
  MMCI_DYNAMIC_SHARED(memory);
  __shared__ __align__(16) uint64_t barriers[First::BARRIERS];
  const uint32_t base = (mmci_shared_address(memory) + 1023) & ~1023u,
                 at = mmci_shared_address(barriers);
  const int cluster = (int)blockIdx.x / CLUSTER, matrix = cluster / job.blocks,
            first = cluster % job.blocks;
  const First to_t = {job, base, at, matrix, first};
  const Second to_d = {job, base, at, matrix, first};
  const bool second = mmci_cluster_rank() == TO_D;
  if (threadIdx.x == 0) {
    if (second)
      to_d.open();
    else
      to_t.open();
    mmci_barrier_init_done();
  }
  __syncthreads();
  mmci_cluster_sync();
  if (threadIdx.x < WARPGROUP) {
    keep_registers<LOADER_REGISTERS>();
    if (second)
      to_d.load(maps);
    else
      to_t.load(maps);
  } else {
    take_registers<MULTIPLIER_REGISTERS>();
    if (second)
      to_d.multiply(&maps.d);
    else
      to_t.multiply(&maps.d);
  }
  mmci_cluster_sync(); /* the other block still arrives here, and copies from here */
#endif
}

const mmci_fused_half_kernel mmci_fused_relay = {
    COLS * BOX,
    COLS *BOX,
    GROUPS,
    WEIGHT_BOXES *BOX_BYTES,
    CLUSTER,
    MMCI_FUSED_BY_RELAY,
    4.85e6,
    {"fused left f16 256x256", "fused left bf16 256x256"},
    {"fused right f16 256x256", "fused right bf16 256x256"},
    {(const void *)fused_relay<mmci_f16_element>, (const void *)fused_relay<mmci_bf16_element>}};
