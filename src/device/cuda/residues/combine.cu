/* combine.cu: puts C together from its residues by the Chinese remainder theorem.
 *
 * Layout residues in the order in which gemm.cu's threads hold them; C row-major, any size
 * Launch 128 threads for every 64 x 32 elements of C, 16 elements a thread
 * Traffic reads a byte a modulus for each element, writes C
 * Idea sums of residues times fixed-point fractions that wrap around: what is behind the point of
 *         x / M needs no division. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/residues/moduli.cuh"
#include "device/cuda/residues/residues_kernels.h"

enum {
  THREADS = 128,
  CHUNK = 16,
  CHUNKS = MMCI_PRODUCT_COLS / 2 / CHUNK, /* of a thread */
  AHEAD = 4,                              /* residues that are loaded at once */
};

struct Combine {
  const uint4 *residues;
  const mmci_moduli *moduli;
  const mmci_residue_state *state;
  const mmci_residue_row *a_rows, *b_rows;
  void *c;
  int64_t ldc, plane; /* plane: chunks of all threads of a plane */
  int m, n, across;
  bool accumulate, pairs;
  bool turned; /* as in mmci_gemm */
};

/* Sums of 16 elements: doubles by fractions, integers and floats by whole numbers and turns. */
struct Fractions {
  mmci_fraction sum[CHUNK];
  __device__ __forceinline__ void begin(const mmci_modulus_share *shares, int planes) {
    mmci_fraction bias = {0, 0};
    for (int p = 0; p < planes; p++) mmci_fraction_add(&bias, 128, &shares[p]);
#pragma unroll
    for (int e = 0; e < CHUNK; e++) sum[e] = {0 - bias.high, 0 - bias.low};
  }
  __device__ __forceinline__ void add(int e, uint32_t biased, const mmci_modulus_share &share) {
    mmci_fraction_add(&sum[e], biased, &share);
  }
};

struct Wholes {
  uint64_t sum[CHUNK];
  int64_t turns[CHUNK];
  __device__ __forceinline__ void begin(const mmci_modulus_share *shares, int planes) {
    uint64_t whole = 0;
    int64_t turn = 0;
    for (int p = 0; p < planes; p++) {
      whole += 128 * shares[p].whole;
      turn += 128 * shares[p].turns;
    }
#pragma unroll
    for (int e = 0; e < CHUNK; e++) {
      sum[e] = 0 - whole;
      turns[e] = -turn;
    }
  }
  __device__ __forceinline__ void add(int e, uint32_t biased, const mmci_modulus_share &share) {
    sum[e] += biased * share.whole;
    turns[e] += (int64_t)biased * share.turns;
  }
};

/* As whole numbers, modulo a number P; quotients are of 2^48. */
struct Modular {
  Wholes wholes;
  int64_t quotient[CHUNK];
  __device__ __forceinline__ void begin(const mmci_modulus_share *shares, int planes) {
    wholes.begin(shares, planes);
    int64_t all = 0;
    for (int p = 0; p < planes; p++) all += 128 * shares[p].quotient;
#pragma unroll
    for (int e = 0; e < CHUNK; e++) quotient[e] = -all;
  }
  __device__ __forceinline__ void add(int e, uint32_t biased, const mmci_modulus_share &share) {
    wholes.add(e, biased, share);
    quotient[e] += (int64_t)biased * share.quotient;
  }
};

/* Adds what a word of four elements counts. */
template <class Sums>
static __device__ __forceinline__ void add_word(Sums &sums, int first, uint32_t word,
                                                const mmci_modulus_share &share) {
  const uint32_t biased = word ^ 0x80808080u;
#pragma unroll
  for (int e = 0; e < 4; e++) sums.add(first + e, biased >> 8 * e & 0xff, share);
}

template <class Sums>
static __device__ __forceinline__ void add_all(Sums &sums, const uint4 *from, int64_t plane,
                                               const mmci_modulus_share *shares, int planes) {
  for (int p = 0; p < planes; p += AHEAD) {
    uint4 next[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      if (p + i < planes) next[i] = __ldcs(from + (p + i) * plane);
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      if (p + i < planes) {
        add_word(sums, 0, next[i].x, shares[p + i]);
        add_word(sums, 4, next[i].y, shares[p + i]);
        add_word(sums, 8, next[i].z, shares[p + i]);
        add_word(sums, 12, next[i].w, shares[p + i]);
      }
  }
}

static __device__ __forceinline__ double sum_with(double before, bool accumulate, double x) {
  return mmci_result_f64(before, accumulate, x);
}
static __device__ __forceinline__ float sum_with(float before, bool accumulate, double x) {
  return mmci_result_f32(before, accumulate, x);
}
static __device__ __forceinline__ uint64_t sum_with(uint64_t before, bool accumulate, uint64_t x) {
  return accumulate ? before + x : x;
}

/* Writes two neighbours. */
template <class Element, class Value>
static __device__ __forceinline__ void store_pair(const Combine &s, int row, int col, Value left,
                                                  Value right, bool one, bool other) {
  struct alignas(2 * sizeof(Element)) Two {
    Element x, y;
  };
  Element *to = static_cast<Element *>(s.c) + row * s.ldc + col;
  if (s.pairs && one && other) {
    const Two before = s.accumulate ? *reinterpret_cast<Two *>(to) : Two{0, 0};
    *reinterpret_cast<Two *>(to) = {sum_with(before.x, s.accumulate, left),
                                    sum_with(before.y, s.accumulate, right)};
    return;
  }
  if (one) to[0] = sum_with(s.accumulate ? to[0] : Element(0), s.accumulate, left);
  if (other) to[1] = sum_with(s.accumulate ? to[1] : Element(0), s.accumulate, right);
}

/* A row's or column's unit; `there` says that its elements of C are computed here. */
struct Unit {
  double parts[2];
  bool there;
};

static __device__ __forceinline__ Unit unit_of(const mmci_residue_row *rows, int at, int count) {
  Unit unit = {{0, 0}, at < count};
  if (!unit.there) return unit;
  unit.parts[0] = rows[at].unit[0];
  unit.parts[1] = rows[at].unit[1];
  unit.there = rows[at].left == 0;
  return unit;
}

static __device__ __forceinline__ void write(const Combine &s, const Fractions &sums, int row,
                                             int col, int planes) {
  const double(&product)[2] = s.moduli->product_parts[planes];
  Unit rows[2] = {unit_of(s.a_rows, row, s.m), unit_of(s.a_rows, row + 8, s.m)};
  if (!s.turned) {
    mmci_unit_times(rows[0].parts, product);
    mmci_unit_times(rows[1].parts, product);
  }
#pragma unroll
  for (int j = 0; j < CHUNK / 4; j++) {
    const int at = col + 8 * j;
    Unit cols[2] = {unit_of(s.b_rows, at, s.n), unit_of(s.b_rows, at + 1, s.n)};
    if (s.turned) {
      mmci_unit_times(cols[0].parts, product);
      mmci_unit_times(cols[1].parts, product);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
      if (!rows[r].there) continue;
      double x[2];
#pragma unroll
      for (int i = 0; i < 2; i++)
        x[i] = s.turned
                   ? mmci_fraction_times(sums.sum[4 * j + 2 * r + i], cols[i].parts, rows[r].parts)
                   : mmci_fraction_times(sums.sum[4 * j + 2 * r + i], rows[r].parts, cols[i].parts);
      store_pair<double>(s, row + 8 * r, at, x[0], x[1], cols[0].there, cols[1].there);
    }
  }
}

/* Returns the sum of residues as the number that is meant, which is below 2^63. */
static __device__ __forceinline__ uint64_t sum_of(const Wholes &sums, int e, uint64_t product) {
  const int64_t turns = (sums.turns[e] + (1ll << 47)) >> 48;
  return sums.sum[e] - (uint64_t)turns * product;
}

/* As floats. */
struct Singles {
  Wholes wholes;
  __device__ __forceinline__ void begin(const mmci_modulus_share *shares, int planes) {
    wholes.begin(shares, planes);
  }
  __device__ __forceinline__ void add(int e, uint32_t biased, const mmci_modulus_share &share) {
    wholes.add(e, biased, share);
  }
};

static __device__ __forceinline__ void write(const Combine &s, const Singles &sums, int row,
                                             int col, int planes) {
  const uint64_t product = s.moduli->product[planes];
  const Unit rows[2] = {unit_of(s.a_rows, row, s.m), unit_of(s.a_rows, row + 8, s.m)};
#pragma unroll
  for (int j = 0; j < CHUNK / 4; j++) {
    const int at = col + 8 * j;
    const Unit cols[2] = {unit_of(s.b_rows, at, s.n), unit_of(s.b_rows, at + 1, s.n)};
#pragma unroll
    for (int r = 0; r < 2; r++) {
      if (!rows[r].there) continue;
      double x[2];
#pragma unroll
      for (int i = 0; i < 2; i++)
        x[i] = mmci_sum_times((int64_t)sum_of(sums.wholes, 4 * j + 2 * r + i, product),
                              rows[r].parts[0], cols[i].parts[0]);
      store_pair<float>(s, row + 8 * r, at, x[0], x[1], cols[0].there, cols[1].there);
    }
  }
}

static __device__ __forceinline__ void write(const Combine &s, const Wholes &sums, int row, int col,
                                             int planes) {
  const uint64_t product = s.moduli->product[planes];
#pragma unroll
  for (int e = 0; e < CHUNK; e += 2) {
    const int r = row + 8 * (e / 2 % 2), at = col + 8 * (e / 4);
    uint64_t x[2];
#pragma unroll
    for (int i = 0; i < 2; i++) x[i] = sum_of(sums, e + i, product);
    if (r < s.m) store_pair<uint64_t>(s, r, at, x[0], x[1], at < s.n, at + 1 < s.n);
  }
}

/* The sum of residues is within 2^12 P of 0, and so is what is subtracted to make it the number
 * that is meant, so that quotients of 2^48 say how often P is in it, and what is left is nearest to
 * 0. */
static __device__ __forceinline__ void write(const Combine &s, const Modular &sums, int row,
                                             int col, int planes) {
  const uint64_t product = s.moduli->product[planes], modulus = s.moduli->sums;
  const int64_t product_quotient = s.moduli->product_quotient[planes];
#pragma unroll
  for (int e = 0; e < CHUNK; e++) {
    const int r = row + 8 * (e / 2 % 2), at = col + 8 * (e / 4) + e % 2;
    if (r >= s.m || at >= s.n) continue;
    const int64_t turns = (sums.wholes.turns[e] + (1ll << 47)) >> 48;
    const int64_t times = (sums.quotient[e] - turns * product_quotient + (1ll << 47)) >> 48;
    uint64_t x = sums.wholes.sum[e] - (uint64_t)turns * product - (uint64_t)times * modulus;
    if ((int64_t)x < 0) x += modulus;
    uint64_t *to = static_cast<uint64_t *>(s.c) + r * s.ldc + at;
    if (s.accumulate) x += *to;
    *to = x >= modulus ? x - modulus : x;
  }
}

template <class Sums>
__global__ void __launch_bounds__(THREADS) residues_combine(Combine s) {
  __shared__ mmci_modulus_share shares[MMCI_MODULI];
  const int planes = s.state->planes;
  if (planes == 0) return;
  if ((int)threadIdx.x < planes) shares[threadIdx.x] = s.moduli->share[planes][threadIdx.x];
  __syncthreads();
  const int64_t block = blockIdx.x;
  const int chunk = (int)(block % CHUNKS), half = (int)(block / CHUNKS % 2);
  const int64_t tile = block / CHUNKS / 2;
  const int thread = (int)threadIdx.x;
  const int row =
      (int)(tile / s.across) * MMCI_PRODUCT_ROWS + 64 * half + thread / 4 % 8 + 16 * (thread / 32);
  const int col =
      (int)(tile % s.across) * MMCI_PRODUCT_COLS + 8 * (CHUNK / 4) * chunk + 2 * (thread % 4);
  Sums sums;
  sums.begin(shares, planes);
  add_all(sums, s.residues + block * THREADS + thread, s.plane, shares, planes);
  write(s, sums, row, col, planes);
}

static int64_t blocks_of(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

extern "C" mmc_status mmci_residues_combine(cudaStream_t stream,
                                            const mmci_residue_product *product, void *c,
                                            mmci_error *error) {
  const mmci_gemm *g = &product->gemm;
  const int64_t across = blocks_of(g->n, MMCI_PRODUCT_COLS),
                down = blocks_of(g->m, MMCI_PRODUCT_ROWS);
  /* Tiles are two of a cluster, so that there may be one more row of them. */
  const int64_t plane = blocks_of(g->m, 2 * MMCI_PRODUCT_ROWS) * 2 * across * 2 * CHUNKS * THREADS;
  const Combine s = {reinterpret_cast<const uint4 *>(product->residues),
                     product->moduli,
                     product->state,
                     product->a.row,
                     product->b.row,
                     c,
                     g->ldc,
                     plane,
                     (int)g->m,
                     (int)g->n,
                     (int)across,
                     g->accumulate,
                     g->ldc % 2 == 0 && reinterpret_cast<uintptr_t>(c) % 16 == 0,
                     g->turned};
  const dim3 grid((unsigned)(down * across * 2 * CHUNKS));
  MMCI_CUDA_TRY(mmci_launch(g->dtype == MMC_F64    ? residues_combine<Fractions>
                            : g->dtype == MMC_F32  ? residues_combine<Singles>
                            : g->rule.modulus != 0 ? residues_combine<Modular>
                                                   : residues_combine<Wholes>,
                            grid, dim3(THREADS), 0, stream, s));
  return MMC_OK;
}
