/* combine.cu: puts C together from its residues by the Chinese remainder theorem.
 *
 * Layout residues in the order in which gemm.cu's threads hold them; C row-major, any size
 * Launch 128 threads for every 64 x 32 elements of C, 16 elements a thread
 * Traffic reads a byte a modulus for each element, writes C
 * Idea sums of residues times fixed-point fractions that wrap around: what is behind the point of
 *         x / M needs no division. What a block's rows and columns stand for is looked up once. */
extern "C" {
#include "base/status.h"
}
#include <type_traits>

#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/residues/moduli.cuh"
#include "device/cuda/residues/residues_kernels.h"

enum {
  THREADS = 128,
  CHUNK = 16,
  CHUNKS = MMCI_PRODUCT_COLS / 2 / CHUNK, /* of a thread */
  ROWS = 64,                              /* of a block */
  COLS = 8 * (CHUNK / 4),
  AHEAD = 4, /* residues that are loaded at once */
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

/* What a row or a column of C stands for; `there` says that its elements are computed here. */
struct Unit {
  double parts[2];
  bool there;
};

/* The units of the rows and columns of a block. */
struct Units {
  Unit row[ROWS], col[COLS];
};

/* A number modulo 2^64, as that of 32 bits with a sign and 2^32 times another one. */
struct Number {
  int32_t low;
  uint32_t high;
  static __device__ __forceinline__ Number of(uint64_t number) {
    const int32_t low = (int32_t)(uint32_t)number;
    return {low, (uint32_t)((number - (uint64_t)(int64_t)low) >> 32)};
  }
};

/* Sums of bytes times such numbers: two multiply-adds each, of which no register has to wait for
 * another one. */
struct Sum {
  int64_t low = 0;
  uint32_t high = 0;
  __device__ __forceinline__ void add(int32_t byte, const Number &x) {
    low += (int64_t)byte * x.low;
    high += (uint32_t)byte * x.high;
  }
  __device__ __forceinline__ uint64_t all() const { return (uint64_t)low + ((uint64_t)high << 32); }
};

/* What a residue counts, and a smaller number beside. */
struct alignas(16) SmallShare {
  Number number;
  int32_t more;
};

/* What sums of a kind are of 16 elements: doubles by fractions, integers and floats by whole
 * numbers and turns. PLANES says how many planes there are, 0 that the compiler does not know. */
struct Fractions {
  typedef SmallShare Share;
  static constexpr bool HAS_UNITS = true;
  static constexpr int PLANES = 0;
  Sum sum[CHUNK];
  int32_t beyond[CHUNK] = {};
  static __device__ __forceinline__ Share share_of(const mmci_modulus_share &x) {
    return {Number::of(x.fraction), (int32_t)x.beyond};
  }
  __device__ __forceinline__ void add(int e, int32_t byte, const Share &share) {
    sum[e].add(byte, share.number);
    beyond[e] += byte * share.more;
  }
};

struct Wholes {
  struct Share {
    Number whole, turns;
  };
  static constexpr bool HAS_UNITS = false;
  static constexpr int PLANES = 0;
  Sum sum[CHUNK], turns[CHUNK];
  static __device__ __forceinline__ Share share_of(const mmci_modulus_share &x) {
    return {Number::of(x.whole), Number::of((uint64_t)x.turns)};
  }
  __device__ __forceinline__ void add(int e, int32_t byte, const Share &share) {
    sum[e].add(byte, share.whole);
    turns[e].add(byte, share.turns);
  }
};

/* As whole numbers, modulo a number P; quotients are of 2^48. */
struct Modular {
  struct Share {
    Wholes::Share wholes;
    Number quotient;
  };
  static constexpr bool HAS_UNITS = false;
  static constexpr int PLANES = 0;
  Wholes wholes;
  Sum quotient[CHUNK];
  static __device__ __forceinline__ Share share_of(const mmci_modulus_share &x) {
    return {Wholes::share_of(x), Number::of((uint64_t)x.quotient)};
  }
  __device__ __forceinline__ void add(int e, int32_t byte, const Share &share) {
    wholes.add(e, byte, share.wholes);
    quotient[e].add(byte, share.quotient);
  }
};

/* As floats: turns are of 2^21. Seven residues times those are off by less than 2^-12 of M, and the
 * number that is meant is below 0.499 of it. */
struct Singles {
  typedef SmallShare Share;
  static constexpr bool HAS_UNITS = true;
  static constexpr int PLANES = MMCI_WHOLE_PLANES_F32;
  enum { BITS = 21, DROPPED = 48 - BITS };
  Sum sum[CHUNK];
  int32_t turns[CHUNK] = {};
  static __device__ __forceinline__ Share share_of(const mmci_modulus_share &x) {
    return {Number::of(x.whole), (int32_t)((x.turns + (1ll << (DROPPED - 1))) >> DROPPED)};
  }
  __device__ __forceinline__ void add(int e, int32_t byte, const Share &share) {
    sum[e].add(byte, share.number);
    turns[e] += byte * share.more;
  }
};

/* Adds what 16 elements of a plane count. */
template <class Sums>
static __device__ __forceinline__ void add_plane(Sums &sums, const uint4 &bytes,
                                                 const typename Sums::Share &share) {
  const uint32_t words[CHUNK / 4] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
  for (int e = 0; e < CHUNK; e++) sums.add(e, mmci_signed_byte_of(words[e / 4], e % 4), share);
}

template <class Sums>
static __device__ __forceinline__ void add_all(Sums &sums, const uint4 *from, int64_t plane,
                                               const typename Sums::Share *shares, int planes) {
  constexpr int KNOWN = Sums::PLANES, AT_ONCE = KNOWN > 0 ? KNOWN : AHEAD;
  const int all = KNOWN > 0 ? KNOWN : planes;
#pragma unroll 1
  for (int p = 0; p < all; p += AT_ONCE) {
    uint4 next[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
      if (p + i < all) next[i] = __ldcs(from + (p + i) * plane);
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
      if (p + i < all) {
        const typename Sums::Share share = shares[p + i];
        add_plane(sums, next[i], share);
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

static __device__ __forceinline__ Unit unit_of(const mmci_residue_row *rows, int at, int count) {
  Unit unit = {{0, 0}, at < count};
  if (!unit.there) return unit;
  unit.parts[0] = rows[at].unit[0];
  unit.parts[1] = rows[at].unit[1];
  unit.there = rows[at].left == 0;
  return unit;
}

/* Looks up a block's units, from these rows and columns on; of doubles one of each pair is taken
 * times M. */
template <class Sums>
static __device__ __forceinline__ void look_up(const Combine &s, int row, int col, int planes,
                                               Units *units) {
  const int thread = (int)threadIdx.x;
  if (thread >= ROWS + COLS) return;
  const bool is_row = thread < ROWS;
  Unit unit =
      is_row ? unit_of(s.a_rows, row + thread, s.m) : unit_of(s.b_rows, col + thread - ROWS, s.n);
  if (std::is_same<Sums, Fractions>::value && is_row != s.turned)
    mmci_unit_times(unit.parts, s.moduli->product_parts[planes]);
  *(is_row ? &units->row[thread] : &units->col[thread - ROWS]) = unit;
}

/* Writes a thread's elements, of which the first is in such a place of C, and of the block. */
static __device__ __forceinline__ void write(const Combine &s, const Fractions &sums, int row,
                                             int col, int, const Unit *rows, const Unit *cols) {
#pragma unroll
  for (int j = 0; j < CHUNK / 4; j++) {
    const Unit left = cols[8 * j], right = cols[8 * j + 1];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const Unit &mine = rows[8 * r];
      if (!mine.there) continue;
      double x[2];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const int e = 4 * j + 2 * r + i;
        const mmci_fraction sum = {sums.sum[e].all(), (uint32_t)sums.beyond[e]};
        const double *parts = i == 0 ? left.parts : right.parts;
        x[i] = s.turned ? mmci_fraction_times(sum, parts, mine.parts)
                        : mmci_fraction_times(sum, mine.parts, parts);
      }
      store_pair<double>(s, row + 8 * r, col + 8 * j, x[0], x[1], left.there, right.there);
    }
  }
}

/* Returns the sum of residues as the number that is meant, which is below 2^63. */
static __device__ __forceinline__ int64_t sum_of(const Singles &sums, int e, uint64_t product) {
  const int32_t turns = (sums.turns[e] + (1 << (Singles::BITS - 1))) >> Singles::BITS;
  return (int64_t)(sums.sum[e].all() - (uint64_t)(int64_t)turns * product);
}
static __device__ __forceinline__ uint64_t sum_of(const Wholes &sums, int e, uint64_t product) {
  const int64_t turns = ((int64_t)sums.turns[e].all() + (1ll << 47)) >> 48;
  return sums.sum[e].all() - (uint64_t)turns * product;
}

static __device__ __forceinline__ void write(const Combine &s, const Singles &sums, int row,
                                             int col, int planes, const Unit *rows,
                                             const Unit *cols) {
  const uint64_t product = s.moduli->product[planes];
#pragma unroll
  for (int j = 0; j < CHUNK / 4; j++) {
    const double units[2] = {cols[8 * j].parts[0], cols[8 * j + 1].parts[0]};
#pragma unroll
    for (int r = 0; r < 2; r++) {
      if (!rows[8 * r].there) continue;
      double x[2];
#pragma unroll
      for (int i = 0; i < 2; i++)
        x[i] = mmci_sum_times(sum_of(sums, 4 * j + 2 * r + i, product), rows[8 * r].parts[0],
                              units[i]);
      store_pair<float>(s, row + 8 * r, col + 8 * j, x[0], x[1], cols[8 * j].there,
                        cols[8 * j + 1].there);
    }
  }
}

static __device__ __forceinline__ void write(const Combine &s, const Wholes &sums, int row, int col,
                                             int planes, const Unit *, const Unit *) {
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
                                             int col, int planes, const Unit *, const Unit *) {
  const uint64_t product = s.moduli->product[planes], modulus = s.moduli->sums;
  const int64_t product_quotient = s.moduli->product_quotient[planes];
#pragma unroll
  for (int e = 0; e < CHUNK; e++) {
    const int r = row + 8 * (e / 2 % 2), at = col + 8 * (e / 4) + e % 2;
    if (r >= s.m || at >= s.n) continue;
    const int64_t turns = ((int64_t)sums.wholes.turns[e].all() + (1ll << 47)) >> 48;
    const int64_t quotient = (int64_t)sums.quotient[e].all() - turns * product_quotient;
    const int64_t times = (quotient + (1ll << 47)) >> 48;
    uint64_t x = sums.wholes.sum[e].all() - (uint64_t)turns * product - (uint64_t)times * modulus;
    if ((int64_t)x < 0) x += modulus;
    uint64_t *to = static_cast<uint64_t *>(s.c) + r * s.ldc + at;
    if (s.accumulate) x += *to;
    *to = x >= modulus ? x - modulus : x;
  }
}

template <class Sums>
__global__ void __launch_bounds__(THREADS) residues_combine(Combine s) {
  __shared__ typename Sums::Share shares[MMCI_MODULI];
  __shared__ Units units;
  const int planes = s.state->planes;
  if (planes == 0) return;
  const int64_t block = blockIdx.x;
  const int chunk = (int)(block % CHUNKS), half = (int)(block / CHUNKS % 2);
  const int64_t tile = block / CHUNKS / 2;
  const int row = (int)(tile / s.across) * MMCI_PRODUCT_ROWS + ROWS * half;
  const int col = (int)(tile % s.across) * MMCI_PRODUCT_COLS + COLS * chunk;
  if ((int)threadIdx.x < planes)
    shares[threadIdx.x] = Sums::share_of(s.moduli->share[planes][threadIdx.x]);
  if (Sums::HAS_UNITS) look_up<Sums>(s, row, col, planes, &units);
  __syncthreads();
  const int thread = (int)threadIdx.x, down = thread / 4 % 8 + 16 * (thread / 32),
            right = 2 * (thread % 4);
  Sums sums;
  add_all(sums, s.residues + block * THREADS + thread, s.plane, shares, planes);
  write(s, sums, row + down, col + right, planes, units.row + down, units.col + right);
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
