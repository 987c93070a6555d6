/* fused_tf32.cu: D = (A B) C in f32 by Hopper's tensor cores in TF32, with A B in registers.
 *
 * Layout  A by rows or by columns, in lines of whole 16 bytes; any strides of B, C and D; any m, k,
 *         n; A B of at most WIDTH columns; B and C fit in shared memory, edges filled with zeros
 * Launch  one block a multiprocessor, which stays for all its rows: one warpgroup loads A, GROUPS
 *         multiply 64 rows each
 * Traffic 2 m w (k + n) flops; reads A once and writes D once; every block reads B and C once
 * Idea    The tensor cores read TF32 from shared memory only with the terms along the lines. B and
 *         C are laid out so when they are copied, whichever way they lie, and A passes through
 *         registers, where it is rounded too. The sums of A B lie in registers as the tensor cores
 *         want the left operand of the next product but for the order of the terms within eight,
 *         in which the rows of C are laid out therefore. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/group/fused_half.cuh"
#include "device/cuda/group/fused_tf32.h"

enum { TERMS = MMCI_FUSED_TF32_TERMS, STAGE_BYTES = MMCI_FUSED_TF32_STAGE_BYTES, LINE_BYTES = 128 };

template <int WIDTH_, int CHUNK_, int GROUPS_>
struct FusedTf32Shape {
  enum {
    WIDTH = WIDTH_,
    CHUNK = CHUNK_,
    GROUPS = GROUPS_,
    THREADS = (GROUPS + 1) * WARPGROUP,
    EVEN = 65536 / THREADS / 8 * 8,
    REGISTERS = (EVEN * (GROUPS + 1) - LOADER_REGISTERS) / GROUPS / 8 * 8
  };
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* sums += A B for 64 rows and 8 terms, A in registers, columns of B as lines of shared memory. */
#define TF32_PRODUCTS(cols, sums, list, D, R0, R1, R2, R3, RB)                                \
  static __device__ __forceinline__ void add_terms(float(&d)[sums], const uint32_t *a,        \
                                                   uint64_t b) {                              \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" cols "k8.f32.tf32.tf32 {" list "}, {" R0 \
                 ", " R1 ", " R2 ", " R3 "}, " RB ", 1, 1, 1;"                                \
                 : D(d)                                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                       \
  }
TF32_PRODUCTS("64", 32, R32, D32, "%32", "%33", "%34", "%35", "%36")
TF32_PRODUCTS("128", 64, MMCI_R64, MMCI_D64, "%64", "%65", "%66", "%67", "%68")
TF32_PRODUCTS("256", 128, R128, D128, "%128", "%129", "%130", "%131", "%132")

static __device__ __forceinline__ uint32_t to_tf32(float x) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

static __device__ __forceinline__ uint32_t read_tf32(uint32_t at) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");
  return to_tf32(x);
}

template <typename S>
struct FusedTf32 {
  const mmci_fused_tf32_job &job;
  uint32_t base, barriers; /* of shared memory */
  int matrix, first;       /* the matrix of the batch, and the first round */

  __device__ __forceinline__ uint32_t b_terms(int k) const {
    return base + k * S::WIDTH * LINE_BYTES;
  }
  __device__ __forceinline__ uint32_t c_terms(int w, int chunk) const {
    return b_terms(job.k_blocks) + (w * job.chunks + chunk) * S::CHUNK * LINE_BYTES;
  }
  __device__ __forceinline__ uint32_t stage(int group, int i) const {
    return c_terms(job.w_blocks, 0) + (group * job.stages + i) * STAGE_BYTES;
  }
  __device__ __forceinline__ uint32_t full(int group, int i) const {
    return barriers + 16 * (group * job.stages + i);
  }
  __device__ __forceinline__ uint32_t empty(int group, int i) const { return full(group, i) + 8; }
  __device__ __forceinline__ int row_of(int round, int group) const {
    return (round * S::GROUPS + group) * BOX;
  }

  /* ---- loading */

  /* Lays out blocks of 32 terms of a matrix of so many terms and columns, a line for each column,
   * by all threads: those that follow each other read elements that do. The terms of the next
   * product come in the order of its left operand when turned. */
  template <bool turned>
  __device__ __forceinline__ void lay_out(uint32_t to, const float *from,
                                          const mmci_fused_tf32_place &place, int blocks, int terms,
                                          int all_cols, int cols) const {
    enum { TOGETHER = 8 }; /* loads on their way */
    from += matrix * place.batch;
    const int count = blocks * TERMS * all_cols;
    const bool along_terms = place.row == 1;
    for (int first = (int)threadIdx.x; first < count; first += TOGETHER * S::THREADS) {
      float x[TOGETHER];
      uint32_t at[TOGETHER];
#pragma unroll
      for (int e = 0; e < TOGETHER; e++) {
        const int i = first + e * S::THREADS,
                  inside = along_terms ? i % TERMS : i / all_cols % TERMS,
                  col = along_terms ? i / TERMS % all_cols : i % all_cols,
                  block = i / (TERMS * all_cols), term = block * TERMS + inside;
        const int place_of_it = turned ? inside / 8 * 8 + inside % 2 * 4 + inside % 8 / 2 : inside;
        x[e] = term < terms && col < cols ? __ldg(&from[term * place.row + col * place.col]) : 0.0f;
        at[e] = to + (uint32_t)(block * all_cols + col) * LINE_BYTES +
                ((place_of_it / 4 ^ col % 8) << 4) + place_of_it % 4 * 4;
      }
#pragma unroll
      for (int e = 0; e < TOGETHER; e++)
        if (first + e * S::THREADS < count)
          asm volatile("st.shared.u32 [%0], %1;" ::"r"(at[e]), "r"(to_tf32(x[e])) : "memory");
    }
  }

  __device__ __forceinline__ void load_a(const CUtensorMap *a) const {
    Ring ring = {0, 0};
    for (int round = first; round < job.rounds; round += job.blocks)
      for (int k = 0; k < job.k_blocks; k++, ring.next(job.stages))
        for (int group = 0; group < S::GROUPS; group++) {
          const int term = k * TERMS;
          await(empty(group, ring.at), ring.odd ^ 1);
          mmci_barrier_expect(full(group, ring.at), STAGE_BYTES);
#pragma unroll
          for (int half = 0; half < 2; half++) {
            const int row = row_of(round, group) + half * TERMS;
            load_box(stage(group, ring.at) + half * (STAGE_BYTES / 2), a, full(group, ring.at),
                     job.a_by_columns ? row : term, job.a_by_columns ? term : row,
                     job.a_is_repeated ? 0 : matrix);
          }
        }
  }

  /* ---- multiplying: a warpgroup for 64 rows */

  /* Reads 32 terms of a group's rows as the tensor cores want them of this thread. */
  __device__ __forceinline__ void read_a(uint32_t (&x)[16], uint32_t from) const {
    const int warp = (int)threadIdx.x % WARPGROUP / 32, lane = (int)threadIdx.x % 32,
              row = warp * 16 + lane / 4, term = lane % 4;
    from += row / TERMS * (STAGE_BYTES / 2);
    const int line = row % TERMS;
    if (job.a_by_columns) {
#pragma unroll
      for (int q = 0; q < TERMS / 8; q++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const int k = 8 * q + i / 2 * 4 + term, r = line + i % 2 * 8;
          x[4 * q + i] = read_tf32(from + k * LINE_BYTES + ((r / 4 ^ k % 8) << 4) + r % 4 * 4);
        }
    } else {
#pragma unroll
      for (int q = 0; q < TERMS / 8; q++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          x[4 * q + i] = read_tf32(from + (line + i % 2 * 8) * LINE_BYTES +
                                   ((2 * q + i / 2 ^ line % 8) << 4) + term * 4);
    }
  }

  template <int count>
  __device__ __forceinline__ static void add_block(float (&sums)[count], const uint32_t (&x)[16],
                                                   uint32_t terms) {
    const uint64_t b = mmci_matrix_at(terms);
    mmci_products_begin();
#pragma unroll
    for (int q = 0; q < TERMS / 8; q++) add_terms(sums, &x[4 * q], b + 2 * q);
    mmci_products_commit();
  }

  __device__ __forceinline__ void take_a(uint32_t (&x)[16], int group, Ring &ring) const {
    await(full(group, ring.at), ring.odd);
    read_a(x, stage(group, ring.at));
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(empty(group, ring.at));
    ring.next(job.stages);
  }

  /* sums = A B, by blocks of terms that are in registers two by two. */
  __device__ __forceinline__ void first_product(float (&sums)[S::WIDTH / 2], int group,
                                                Ring &ring) const {
#pragma unroll
    for (int i = 0; i < S::WIDTH / 2; i++) sums[i] = 0;
#pragma unroll 1
    for (int k = 0; k < job.k_blocks; k += 2) {
      uint32_t x[16], y[16];
      take_a(x, group, ring);
      add_block(sums, x, b_terms(k));
      if (k + 1 < job.k_blocks) {
        take_a(y, group, ring);
        add_block(sums, y, b_terms(k + 1));
      }
      mmci_products_wait<0>();
    }
    mmci_pin(sums);
  }

  /* Rounds T to the left operand of the next product. Columns past the edge become zeros: what lies
   * there are zeros times what A holds, infinities as well. */
  __device__ __forceinline__ void round_sums(const float (&sums)[S::WIDTH / 2],
                                             uint32_t (&t)[S::WIDTH / 2]) const {
    const int left = job.w - 2 * ((int)threadIdx.x % 4);
#pragma unroll
    for (int j = 0; j < S::WIDTH / 8; j++) {
      t[4 * j] = to_tf32(8 * j < left ? sums[4 * j] : 0.0f);
      t[4 * j + 1] = to_tf32(8 * j < left ? sums[4 * j + 2] : 0.0f);
      t[4 * j + 2] = to_tf32(8 * j + 1 < left ? sums[4 * j + 1] : 0.0f);
      t[4 * j + 3] = to_tf32(8 * j + 1 < left ? sums[4 * j + 3] : 0.0f);
    }
  }

  __device__ __forceinline__ void second_product(float (&sums)[S::CHUNK / 2],
                                                 const uint32_t (&t)[S::WIDTH / 2],
                                                 int chunk) const {
#pragma unroll
    for (int i = 0; i < S::CHUNK / 2; i++) sums[i] = 0;
    mmci_products_begin();
#pragma unroll
    for (int w = 0; w < S::WIDTH / TERMS; w++)
      if (w < job.w_blocks) {
        const uint64_t c = mmci_matrix_at(c_terms(w, chunk));
#pragma unroll
        for (int q = 0; q < TERMS / 8; q++) add_terms(sums, &t[w * (TERMS / 2) + 4 * q], c + 2 * q);
      }
    mmci_products_commit();
    mmci_products_wait<0>();
    mmci_pin(sums);
  }

  __device__ __forceinline__ void store(const float (&sums)[S::CHUNK / 2], int row0,
                                        int col0) const {
    const int lane = (int)threadIdx.x % 32,
              row = row0 + (int)threadIdx.x % WARPGROUP / 32 * 16 + lane / 4,
              col = col0 + lane % 4 * 2;
    float *to = job.d + matrix * job.d_place.batch + row * job.d_place.row + col * job.d_place.col;
    const int64_t down = 8 * job.d_place.row, next = job.d_place.col, further = 8 * next;
#pragma unroll
    for (int j = 0; j < S::CHUNK / 8; j++, to += further) {
      const int left = job.n - col - 8 * j;
#pragma unroll
      for (int h = 0; h < 2; h++) {
        if (row + 8 * h >= job.m) continue;
        float *const at = to + h * down;
        if (job.in_pairs && left > 1) {
          *reinterpret_cast<float2 *>(at) =
              make_float2(sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]);
        } else {
          if (left > 0) at[0] = sums[4 * j + 2 * h];
          if (left > 1) at[next] = sums[4 * j + 2 * h + 1];
        }
      }
    }
    __syncwarp(); /* products are those of whole warps */
  }

  __device__ __forceinline__ void multiply() const {
    const int group = (int)threadIdx.x / WARPGROUP - 1;
    Ring ring = {0, 0};
    for (int round = first; round < job.rounds; round += job.blocks) {
      uint32_t t[S::WIDTH / 2];
      {
        float sums[S::WIDTH / 2];
        first_product(sums, group, ring);
        round_sums(sums, t);
      }
#pragma unroll 1
      for (int chunk = 0; chunk < job.chunks; chunk++) {
        float sums[S::CHUNK / 2];
        second_product(sums, t, chunk);
        store(sums, row_of(round, group), chunk * S::CHUNK);
      }
    }
  }
};

#endif

template <typename S>
__global__ void __launch_bounds__(S::THREADS, 1)
    fused_tf32(const __grid_constant__ CUtensorMap a,
               const __grid_constant__ mmci_fused_tf32_job job) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  MMCI_DYNAMIC_SHARED(memory);
  __shared__ __align__(16) uint64_t barriers[2 * MMCI_FUSED_TF32_STAGES];
  const uint32_t base = (mmci_shared_address(memory) + 1023) & ~1023u;
  const FusedTf32<S> kernel = {job, base, mmci_shared_address(barriers),
                               (int)blockIdx.x / job.blocks, (int)blockIdx.x % job.blocks};
  if (threadIdx.x == 0) {
    for (int group = 0; group < S::GROUPS; group++)
      for (int i = 0; i < job.stages; i++) {
        mmci_barrier_init(kernel.full(group, i), 1);
        mmci_barrier_init(kernel.empty(group, i), 4); /* every warp arrives */
      }
    mmci_barrier_init_done();
  }
  kernel.template lay_out<false>(kernel.b_terms(0), job.b, job.b_place, job.k_blocks, job.k,
                                 S::WIDTH, job.w);
  kernel.template lay_out<true>(kernel.c_terms(0, 0), job.c, job.c_place, job.w_blocks, job.w,
                                job.chunks * S::CHUNK, job.n);
  show_to_copies();
  __syncthreads();
  if (threadIdx.x < WARPGROUP) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"((int)LOADER_REGISTERS));
    if (threadIdx.x == 0) kernel.load_a(&a);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"((int)S::REGISTERS));
    kernel.multiply();
  }
#endif
}

/* ---- the table --------------------------------------------------------------------------------
 */

#define KERNEL(width, chunk, groups, flops)                                  \
  {                                                                          \
    width, chunk, groups, flops, "fused left tf32 wgmma " #width "x" #chunk, \
        "fused right tf32 wgmma " #width "x" #chunk,                         \
        (const void *)fused_tf32<FusedTf32Shape<width, chunk, groups>>       \
  }

const mmci_fused_tf32_kernel mmci_fused_tf32_kernels[MMCI_FUSED_TF32_KERNELS] = {
    KERNEL(64, 64, 3, 2.2e6), KERNEL(128, 64, 3, 2.2e6), KERNEL(256, 64, 2, 1.48e6)};
