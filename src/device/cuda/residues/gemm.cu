/* gemm.cu: multiplies planes of bytes on Hopper's tensor cores, with exact sums.
 *
 * Layout planes as residues_kernels.h says; C of digits is row-major, any size, edges guarded
 * Launch as many clusters of two blocks as there is room for; 384 threads: one warpgroup copies,
 *         two multiply 64 x 256 each. The blocks of a cluster have tiles one below the other and
 *         share B
 * Traffic 2mkn operations a plane, or a pair of digits; reads mk ceil(n/256) + kn ceil(m/256)
 * bytes, writes mn bytes Idea sums stay in registers over all of k. Of residues they are reduced
 * there, so that a byte of each is written, in the order in which threads hold them. Digits are
 * multiplied by falling weight: between two weights sums are multiplied by 256, and what wraps
 * around is not wanted. Tiles are taken in groups of 16 rows of tiles, so that operands stay in L2.
 */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/element_bytes.h"
#include "device/cuda/emulated/wgmma.cuh"
#include "device/cuda/residues/residues_kernels.h"

enum {
  BLOCKS = 2, /* blocks in a cluster */
  WARPGROUP = 128,
  THREADS = 3 * WARPGROUP,
  GROUP_ROWS = 16, /* rows of tiles that are worked on before the next ones */
  STAGES = 4,
  SUMS = MMCI_PRODUCT_COLS / 2,
  CHUNK = 16, /* bytes of residues that a thread writes at once */
  A_BYTES = MMCI_PRODUCT_ROWS * MMCI_LINE,
  B_BYTES = MMCI_PRODUCT_COLS * MMCI_LINE,
  STAGE_BYTES = A_BYTES + B_BYTES,
  BARRIERS = STAGES * STAGE_BYTES,
  SHARED_BYTES = BARRIERS + STAGES * 16 + 1024, /* 1024 bytes to align with */
};

/* The argument of the kernel. */
struct Job {
  const mmci_moduli *moduli; /* NULL for digits */
  const mmci_residue_state *state;
  int8_t *residues;
  void *c;
  int64_t ldc;
  int m, n, lines, bytes;
  bool accumulate, pairs; /* pairs: two neighbours of C may be written as one */
  bool eights;            /* C is of bytes, and eight neighbours may be written as one */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Counts through the stages of shared memory; phase is what the next wait is for. */
struct Ring {
  int stage;
  uint32_t phase;
  __device__ __forceinline__ void next() {
    if (++stage == STAGES) {
      stage = 0;
      phase ^= 1;
    }
  }
};

/* A tile of a plane, or of all pairs of digits. */
struct Place {
  int plane, row, col;
};

template <bool DIGITS>
struct Kernel {
  const Job &job;
  uint32_t base, rank;
  int down, across, planes; /* tiles of clusters */

  __device__ __forceinline__ uint32_t full(int stage) const { return base + BARRIERS + 8 * stage; }
  __device__ __forceinline__ uint32_t empty(int stage) const { return full(stage) + 8 * STAGES; }

  __device__ __forceinline__ Place place(int t) const {
    Place at;
    at.plane = t / (down * across);
    t -= at.plane * down * across;
    const int group = t / (GROUP_ROWS / BLOCKS * across), first = group * (GROUP_ROWS / BLOCKS);
    const int rows = min(down - first, GROUP_ROWS / BLOCKS), within = t - first * across;
    at.row = ((first + within % rows) * BLOCKS + (int)rank) * MMCI_PRODUCT_ROWS;
    at.col = within / rows * MMCI_PRODUCT_COLS;
    return at;
  }
  __device__ __forceinline__ int first_tile() const { return (int)blockIdx.x / BLOCKS; }
  __device__ __forceinline__ int clusters() const { return (int)gridDim.x / BLOCKS; }
  __device__ __forceinline__ int tiles() const { return down * across * planes; }

  /* ---- copying: one thread
   * ----------------------------------------------------------------------- */

  __device__ __forceinline__ void copy_lines(const CUtensorMap *a, const CUtensorMap *b, Ring &ring,
                                             const Place &at, int a_plane, int b_plane) const {
    for (int line = 0; line < job.lines; line++, ring.next()) {
      const uint32_t to = base + ring.stage * STAGE_BYTES, barrier = full(ring.stage);
      mmci_barrier_wait(empty(ring.stage), ring.phase);
      mmci_barrier_expect(barrier, STAGE_BYTES);
      mmci_plane_load(to, a, barrier, line * MMCI_LINE, at.row, a_plane);
      mmci_plane_load_all(to + A_BYTES + rank * (B_BYTES / BLOCKS), b, barrier, line * MMCI_LINE,
                          at.col + (int)rank * (MMCI_PRODUCT_COLS / BLOCKS), b_plane,
                          (1 << BLOCKS) - 1);
    }
  }

  __device__ __forceinline__ void copy(const CUtensorMap *a, const CUtensorMap *b) const {
    Ring ring = {0, 1};
    for (int t = first_tile(); t < tiles(); t += clusters()) {
      const Place at = place(t);
      if constexpr (DIGITS) {
        for (int weight = top(); weight >= 0; weight--)
          for (int i = first(weight); i <= last(weight); i++)
            copy_lines(a, b, ring, at, i, weight - i);
      } else {
        copy_lines(a, b, ring, at, at.plane, at.plane);
      }
    }
    /* Waits until nobody will arrive at this block's barriers any more. */
    for (int s = 0; s < STAGES; s++, ring.next()) mmci_barrier_wait(empty(ring.stage), ring.phase);
  }

  /* The digits of a of a weight, with those of b that there are: first to last. */
  __device__ __forceinline__ int a_digits() const { return job.state->digits[0]; }
  __device__ __forceinline__ int b_digits() const { return job.state->digits[1]; }
  __device__ __forceinline__ int top() const {
    return min(a_digits() + b_digits() - 2, job.bytes - 1);
  }
  __device__ __forceinline__ int first(int weight) const { return max(weight - b_digits() + 1, 0); }
  __device__ __forceinline__ int last(int weight) const { return min(weight, a_digits() - 1); }

  /* ---- multiplying: two warpgroups
   * --------------------------------------------------------------- */

  /* A stage may be overwritten, by either block, when both are done with it. */
  __device__ __forceinline__ void release(int stage) const {
    const uint32_t lane = threadIdx.x % 32;
    if (lane < BLOCKS) mmci_barrier_arrive(empty(stage), lane);
  }

  /* Adds the products of so many lines; `keep` says that there are sums. */
  __device__ __forceinline__ void add_lines(Ring &ring, int half, int (&sum)[SUMS], int lines,
                                            int keep) const {
    int before = 0;
    for (int line = 0; line < lines; line++) {
      const uint32_t at = base + ring.stage * STAGE_BYTES;
      const uint64_t a = mmci_matrix_at(at + half * (A_BYTES / 2)),
                     b = mmci_matrix_at(at + A_BYTES);
      mmci_barrier_wait(full(ring.stage), ring.phase);
      mmci_products_begin();
      mmci_wide_byte_products_add(sum, a, b, keep | line);
      mmci_wide_byte_products_add(sum, a + 2, b + 2, 1);
      mmci_wide_byte_products_add(sum, a + 4, b + 4, 1);
      mmci_wide_byte_products_add(sum, a + 6, b + 6, 1);
      mmci_products_commit();
      mmci_products_wait<1>();
      if (line > 0) release(before);
      before = ring.stage;
      ring.next();
    }
    mmci_products_wait<0>();
    mmci_pin(sum);
    release(before);
  }

  /* Returns the residue of the sum of least magnitude, of an even modulus the lesser one. Sums are
   * below 2^30, so that the quotient is off by less than half of a modulus' part. */
  static __device__ __forceinline__ int residue(int sum, int modulus, int reciprocal) {
    const int high = (int)(((long long)sum * reciprocal + (1ll << 37)) >> 32);
    return sum - (high >> 6) * modulus;
  }

  __device__ __forceinline__ void write_residues(const int (&sum)[SUMS], int half,
                                                 const Place &at) const {
    const int modulus = job.moduli->modulus[at.plane].modulus,
              reciprocal = job.moduli->modulus[at.plane].reciprocal;
    const int64_t tile = (int64_t)(at.plane * down * BLOCKS + at.row / MMCI_PRODUCT_ROWS) * across +
                         at.col / MMCI_PRODUCT_COLS;
    uint4 *to = reinterpret_cast<uint4 *>(job.residues) +
                (2 * tile + half) * (SUMS / CHUNK) * WARPGROUP + threadIdx.x % WARPGROUP;
#pragma unroll
    for (int q = 0; q < SUMS / CHUNK; q++) {
      uint32_t words[4];
#pragma unroll
      for (int w = 0; w < 4; w++) {
        uint32_t four[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
          four[e] = (uint32_t)residue(sum[CHUNK * q + 4 * w + e], modulus, reciprocal);
        words[w] = __byte_perm(__byte_perm(four[0], four[1], 0x0040),
                               __byte_perm(four[2], four[3], 0x0040), 0x5410);
      }
      __stcs(to + q * WARPGROUP, make_uint4(words[0], words[1], words[2], words[3]));
    }
  }

  template <class Element>
  __device__ __forceinline__ void store_pair(int row, int col, int left, int right) const {
    struct alignas(2 * sizeof(Element)) Two {
      Element x, y;
    };
    if (row >= job.m || col >= job.n) return;
    Element *to = static_cast<Element *>(job.c) + row * job.ldc + col;
    if (job.pairs && !job.accumulate && col + 1 < job.n) {
      *reinterpret_cast<Two *>(to) = {(Element)left, (Element)right};
      return;
    }
    to[0] = (Element)(job.accumulate ? to[0] + left : left);
    if (col + 1 < job.n) to[1] = (Element)(job.accumulate ? to[1] + right : right);
  }

  template <class Element>
  __device__ __forceinline__ void write_sums(const int (&sum)[SUMS], int half,
                                             const Place &at) const {
    const int thread = (int)threadIdx.x % WARPGROUP;
    const int row = at.row + 64 * half + thread / 4 % 8 + 16 * (thread / 32);
    const int col = at.col + 2 * (thread % 4);
#pragma unroll
    for (int j = 0; j < SUMS / 4; j++) {
      store_pair<Element>(row, col + 8 * j, sum[4 * j], sum[4 * j + 1]);
      store_pair<Element>(row + 8, col + 8 * j, sum[4 * j + 2], sum[4 * j + 3]);
    }
  }

  /* Writes bytes, eight neighbours a thread. The four lanes of a row have two of every eight, and
   * turn four times eight among them, so that they write a whole sector at once. */
  __device__ __forceinline__ void write_bytes(const int (&sum)[SUMS], int half,
                                              const Place &at) const {
    const int thread = (int)threadIdx.x % WARPGROUP, lane = thread % 4;
    const int row = at.row + 64 * half + thread / 4 % 8 + 16 * (thread / 32);
    const int col = at.col + 8 * lane;
    const bool is_right = (lane & 2) != 0, is_odd = (lane & 1) != 0;
#pragma unroll
    for (int q = 0; q < SUMS / 16; q++)
#pragma unroll
      for (int r = 0; r < 2; r++) {
        uint32_t word[2];
#pragma unroll
        for (int p = 0; p < 2; p++) {
          const int *from = sum + 16 * q + 8 * p + 2 * r;
          word[p] = __byte_perm(__byte_perm((uint32_t)from[0], (uint32_t)from[1], 0x0040),
                                __byte_perm((uint32_t)from[4], (uint32_t)from[5], 0x0040), 0x5410);
        }
        const uint32_t far = __shfl_xor_sync(~0u, is_right ? word[0] : word[1], 2);
        const uint32_t left = is_right ? far : word[0], right = is_right ? word[1] : far;
        const uint32_t lows = __byte_perm(left, right, 0x5410),
                       highs = __byte_perm(left, right, 0x7632);
        const uint32_t near = __shfl_xor_sync(~0u, is_odd ? lows : highs, 1);
        const uint32_t even = is_odd ? near : lows, odd = is_odd ? highs : near;
        if (row + 8 * r < job.m && col + 32 * q < job.n)
          *reinterpret_cast<uint2 *>(static_cast<int8_t *>(job.c) + (row + 8 * r) * job.ldc + col +
                                     32 * q) =
              make_uint2(__byte_perm(even, odd, 0x5410), __byte_perm(even, odd, 0x7632));
      }
  }

  __device__ __forceinline__ void multiply_digits(Ring &ring, int half, const Place &at) const {
    int sum[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++) sum[i] = 0;
    for (int weight = top(); weight >= 0; weight--) {
#pragma unroll
      for (int i = 0; i < SUMS; i++) sum[i] = (int)((uint32_t)sum[i] << 8);
      mmci_pin(sum);
      add_lines(ring, half, sum, (last(weight) - first(weight) + 1) * job.lines, 1);
    }
    if (job.bytes == 4)
      write_sums<int>(sum, half, at);
    else if (job.bytes == 2)
      write_sums<int16_t>(sum, half, at);
    else if (job.eights)
      write_bytes(sum, half, at);
    else
      write_sums<int8_t>(sum, half, at);
  }

  __device__ __forceinline__ void multiply() const {
    const int half = (int)threadIdx.x / WARPGROUP - 1;
    Ring ring = {0, 0};
    for (int t = first_tile(); t < tiles(); t += clusters()) {
      const Place at = place(t);
      if constexpr (DIGITS) {
        multiply_digits(ring, half, at);
      } else {
        int sum[SUMS];
        add_lines(ring, half, sum, job.lines, 0);
        write_residues(sum, half, at);
      }
    }
  }
};

#endif

template <bool DIGITS>
__global__ void __launch_bounds__(THREADS, 1)
    residues_gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                  const __grid_constant__ Job job) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  MMCI_DYNAMIC_SHARED(memory);
  const uint32_t begins = mmci_shared_address(memory), base = (begins + 1023) & ~1023u;
  const Kernel<DIGITS> kernel = {
      job,
      base,
      mmci_cluster_rank(),
      (job.m + BLOCKS * MMCI_PRODUCT_ROWS - 1) / (BLOCKS * MMCI_PRODUCT_ROWS),
      (job.n + MMCI_PRODUCT_COLS - 1) / MMCI_PRODUCT_COLS,
      DIGITS ? 1 : job.state->planes};
  mmci_ring_open(kernel.full(0), STAGES, BLOCKS);
  mmci_copy_and_multiply(kernel, &a, &b);
#endif
}

static int blocks_of(int64_t count, int64_t each) {
  return (int)((count + each - 1) / each);
}

template <bool DIGITS>
static mmc_status launch_gemm(cudaStream_t stream, const Job &job, int64_t tiles,
                              const CUtensorMap *a, const CUtensorMap *b, int multiprocessors,
                              mmci_error *error) {
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = BLOCKS;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  const int64_t clusters = multiprocessors / BLOCKS;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((unsigned)(BLOCKS * (tiles < clusters ? tiles : clusters)));
  config.blockDim = dim3(THREADS);
  config.dynamicSmemBytes = SHARED_BYTES;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  MMCI_CUDA_TRY(cudaFuncSetAttribute(residues_gemm<DIGITS>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
  MMCI_CUDA_TRY(cudaLaunchKernelEx(&config, residues_gemm<DIGITS>, *a, *b, job));
  return MMC_OK;
}

extern "C" mmc_status mmci_residues_multiply(cudaStream_t stream,
                                             const mmci_residue_product *product,
                                             const CUtensorMap *a, const CUtensorMap *b,
                                             int multiprocessors, void *c, mmci_error *error) {
  const mmci_gemm *g = &product->gemm;
  const bool digits = product->moduli == NULL;
  const Job job = {
      product->moduli,
      product->state,
      product->residues,
      c,
      g->ldc,
      (int)g->m,
      (int)g->n,
      (int)product->a.lines,
      (int)mmci_cuda_element_bytes(g->dtype),
      g->accumulate,
      g->ldc % 2 == 0 &&
          reinterpret_cast<uintptr_t>(c) % (2 * mmci_cuda_element_bytes(g->dtype)) == 0,
      !g->accumulate && g->n % 8 == 0 && g->ldc % 8 == 0 &&
          reinterpret_cast<uintptr_t>(c) % 8 == 0};
  const int64_t tiles = (int64_t)blocks_of(g->m, BLOCKS * MMCI_PRODUCT_ROWS) *
                        blocks_of(g->n, MMCI_PRODUCT_COLS) * (digits ? 1 : product->planes);
  return digits ? launch_gemm<true>(stream, job, tiles, a, b, multiprocessors, error)
                : launch_gemm<false>(stream, job, tiles, a, b, multiprocessors, error);
}
