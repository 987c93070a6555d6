/* look.cu: looks at an operand's rows, or for the greatest of its integers, and decides by how many
 * moduli a product is computed.
 *
 * Layout any leading dimension
 * Launch rows along k: 16 a block. Rows across: 8 a block
 * Traffic reads an operand once
 * Idea many loads are on their way while what was read before is looked at; lanes that follow each
 *         other read whole sectors. */
extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_check.h"
#include "device/cuda/residues/moduli.cuh"
#include "device/cuda/residues/residues_kernels.h"

enum {
  THREADS = 256,
  WARPS = THREADS / 32,
  RANGE_ROWS = 8, /* rows across of a block */
  RANGE_THREADS = RANGE_ROWS * MMCI_ROW_LANES,
  SAMPLES = 64, /* rows of each operand by which the spread along k is told */
  SAMPLE_THREADS = 256,
  SAMPLE_WARPS = SAMPLE_THREADS / 32, /* they share the rows of 32 k's */
  FEWEST = 4,                         /* moduli of doubles */
  WHOLES = 4,                         /* which operands become whole numbers */
  WAYS = WHOLES * (MMCI_MODULI_F64 + 1 - FEWEST),
};

/* The number of elements of C from which on cuBLAS does not cut sums into pieces. */
static const double WHOLE_SUMS = 1 << 23;

/* ---- what is known of a row
 * ---------------------------------------------------------------------- */

/* Lets a float be no less than a number that is not negative, or little more. */
static __device__ __forceinline__ void raise_to(uint32_t *most, double x) {
  atomicMax(most, (uint32_t)__float_as_int((float)(x * (1 + 0x1p-18))));
}

/* What rows are judged by. */
struct Judge {
  mmci_residue_operand of;
  double peak;   /* the greatest peak of a row; infinite where rows count as they are */
  bool is_alone; /* nothing is to be known of all rows together */
};

static __device__ __forceinline__ void judge(const Judge &by, int64_t row,
                                             const mmci_row_look &look) {
  const mmci_residue_operand &of = by.of;
  mmci_residue_row *to = of.row + row;
  mmci_residue_seen *seen = of.seen;
  to->left = !mmci_row_is_whole(&look, of.k, by.peak);
  to->squares = to->left ? 0 : look.squares;
  to->grain = mmci_row_grain(&look);
  if (to->left) {
    atomicAdd(&seen->left, 1);
    return;
  }
  if (by.is_alone) return;
  const double peak = mmci_row_peak(&look, of.k);
  raise_to(&seen->peak, peak);
  if (look.most == 0) return;
  raise_to(&seen->even, 1 / peak);
  raise_to(&seen->grain, to->grain);
  if (look.signs == 3 && seen->mixed == 0) seen->mixed = 1;
}

static __device__ __forceinline__ mmci_row_look look_of(const mmci_row_look &mine, int lane) {
  return {__shfl_sync(~0u, mine.squares, lane), __shfl_sync(~0u, mine.sum, lane),
          __shfl_sync(~0u, mine.most, lane),    __shfl_sync(~0u, mine.zeros, lane),
          __shfl_sync(~0u, mine.signs, lane),   __shfl_sync(~0u, mine.down_to, lane)};
}

/* What is known of a lane of a row. */
template <class Element>
struct Look;
template <>
struct Look<double> {
  mmci_row_look row = {};
  __device__ __forceinline__ void add(double x) { mmci_row_add(&row, x); }
  __device__ __forceinline__ mmci_row_look all() const { return row; }
};

/* What mmci_row_add() makes of floats, whose magnitudes are compared as integers, but for signs,
 * which nobody asks for. What their lowest bit is worth is a float less itself without that bit. */
template <>
struct Look<float> {
  double squares = 0, sum = 0;
  uint32_t most = 0, lowest = ~0u; /* of magnitudes; of lowest bits, less 1 */
  int32_t zeros = 0;
  __device__ __forceinline__ void add(float element) {
    const double x = (double)element;
    squares = fma(x, x, squares);
    sum += fabs(x);
    const uint32_t bits = (uint32_t)mmci_float_bits_int(element) & 0x7fffffffu,
                   others = bits & (bits - 1);
    const float whole = mmci_int_bits_float((int)bits),
                least = (bits & 0x7fffffu) == 0 ? whole : whole - mmci_int_bits_float((int)others);
    const uint32_t before = (uint32_t)mmci_float_bits_int(least) - 1; /* of 0 the greatest */
    most = bits > most ? bits : most;
    lowest = before < lowest ? before : lowest;
    zeros += bits == 0;
  }
  __device__ __forceinline__ mmci_row_look all() const {
    const int32_t down_to =
        most == 0
            ? 0
            : MMCI_WHOLE_HIGHEST - mmci_lowest_bit((double)mmci_int_bits_float((int)(lowest + 1)));
    return {squares, sum, (double)mmci_int_bits_float((int)most), zeros, 0, down_to};
  }
};

/* Looks at every step-th of some elements, of which many are read while those before are looked at.
 */
template <class Element>
static __device__ __forceinline__ void look_at(Look<Element> &look, const Element *from,
                                               int64_t step, int64_t count) {
  enum { AT_ONCE = 16 };
  const int64_t times = count / AT_ONCE;
  Element next[AT_ONCE] = {};
  if (times > 0) {
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++, from += step) next[j] = *from;
  }
#pragma unroll 2
  for (int64_t t = 1; t <= times; t++) {
    Element now[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) now[j] = next[j];
    if (t < times) {
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++, from += step) next[j] = *from;
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) look.add(now[j]);
  }
  for (int64_t i = times * AT_ONCE; i < count; i++, from += step) look.add(*from);
}

/* Returns how many of k elements a lane has. */
static __device__ __forceinline__ int64_t count_of_lane(int64_t k, int lane) {
  return (k - lane + MMCI_ROW_LANES - 1) / MMCI_ROW_LANES;
}

/* MMCI_ROW_LANES lanes have a row, and read neighbours. */
template <class Element>
__global__ void __launch_bounds__(THREADS)
    residues_range_along(Judge by, const Element *x, int64_t ld) {
  const int lane = threadIdx.x % MMCI_ROW_LANES, first = threadIdx.x % 32 - lane;
  const int64_t row =
      (int64_t)blockIdx.x * (THREADS / MMCI_ROW_LANES) + threadIdx.x / MMCI_ROW_LANES;
  Look<Element> look;
  if (row < by.of.rows)
    look_at(look, x + row * ld + lane, MMCI_ROW_LANES, count_of_lane(by.of.k, lane));
  mmci_row_look mine = look.all();
  const mmci_row_look next = look_of(mine, first + (lane ^ 1));
  mmci_row_join(&mine, &next);
  mmci_row_look all = look_of(mine, first);
  for (int l = 2; l < MMCI_ROW_LANES; l += 2) {
    const mmci_row_look pair = look_of(mine, first + l);
    mmci_row_join(&all, &pair);
  }
  if (lane == 0 && row < by.of.rows) judge(by, row, all);
}

/* A block has some rows, which lie in whole sectors, and as many threads for each as there are
 * lanes. */
template <class Element>
__global__ void __launch_bounds__(RANGE_THREADS)
    residues_range_across(Judge by, const Element *x, int64_t ld) {
  __shared__ mmci_row_look all[MMCI_ROW_LANES][RANGE_ROWS];
  const int at = (int)threadIdx.x % RANGE_ROWS, lane = (int)threadIdx.x / RANGE_ROWS;
  const int64_t row = (int64_t)blockIdx.x * RANGE_ROWS + at;
  Look<Element> look;
  if (row < by.of.rows)
    look_at(look, x + lane * ld + row, MMCI_ROW_LANES * ld, count_of_lane(by.of.k, lane));
  mmci_row_look mine = look.all();
  all[lane][at] = mine;
  __syncthreads();
  if (lane != 0 || row >= by.of.rows) return;
  mmci_row_join(&mine, &all[1][at]);
  for (int l = 2; l < MMCI_ROW_LANES; l += 2) {
    mmci_row_look pair = all[l][at];
    mmci_row_join(&pair, &all[l + 1][at]);
    mmci_row_join(&mine, &pair);
  }
  judge(by, row, mine);
}

/* ---- the greatest of integers
 * --------------------------------------------------------------------- */

static __device__ __forceinline__ uint64_t magnitude_of(int64_t x) {
  return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

/* Reads `lines` lines, whichever way they lie. */
template <class Element>
__global__ void __launch_bounds__(THREADS)
    residues_most(const Element *x, int64_t ld, int64_t lines, int64_t length, uint64_t *most) {
  __shared__ uint64_t all[WARPS];
  uint64_t mine = 0;
  for (int64_t line = blockIdx.x; line < lines; line += gridDim.x) {
    const Element *from = x + line * ld;
#pragma unroll 8
    for (int64_t i = threadIdx.x; i < length; i += THREADS) {
      const uint64_t here = magnitude_of((int64_t)from[i]);
      mine = here > mine ? here : mine;
    }
  }
  for (int d = 16; d > 0; d >>= 1) {
    const uint64_t other = __shfl_xor_sync(~0u, mine, d);
    mine = other > mine ? other : mine;
  }
  if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < WARPS; w++) mine = all[w] > mine ? all[w] : mine;
  atomicMax(reinterpret_cast<unsigned long long *>(most), (unsigned long long)mine);
}

/* Returns how many signed digits of base 256 hold numbers of this magnitude, at most `bytes`. */
static __device__ __forceinline__ int digits_for(uint64_t most, int bytes) {
  int count = 1;
  for (uint64_t held = 127; count < bytes && held < most; count++) held = 256 * held + 127;
  return count;
}

/* Returns the fewest moduli that know a sum of k products of such numbers, at most `room`. */
static __device__ __forceinline__ int moduli_for(double k, const uint64_t (&most)[2], int room,
                                                 const mmci_moduli *moduli) {
  /* Digits of numbers near 2^63 stand for others that are a little greater. */
  const double bound = 1.01 * k * (double)most[0] * (double)most[1];
  for (int count = 1; count < room; count++)
    if (bound < 0.499 * moduli->product_parts[count][0]) return count;
  return room;
}

/* `residues` is the greatest magnitude of what elements become, 0 where they stay; `looked` says
 * that they were looked at. */
__global__ void residues_choose_integers(mmci_residue_state *state, const mmci_moduli *moduli,
                                         int64_t k, int room, uint64_t residues, bool looked) {
  for (int w = 0; w < 2 && residues > 0; w++)
    if (!looked || state->most[w] > residues) state->most[w] = residues;
  if (moduli == nullptr) {
    for (int w = 0; w < 2; w++) state->digits[w] = digits_for(state->most[w], room);
  } else {
    const uint64_t most[2] = {state->most[0], state->most[1]};
    state->planes = moduli_for((double)k, most, room, moduli);
  }
}

/* ---- how many moduli
 * ----------------------------------------------------------------------------- */

struct Samples {
  mmci_residue_operand of;
  const double *x;
  int64_t ld;
  bool across;
};

static __device__ __forceinline__ int sample_count(const Samples &s) {
  return s.of.rows < SAMPLES ? (int)s.of.rows : (int)SAMPLES;
}

/* Returns the row of sample i; rows are 2^22 at most. */
static __device__ __forceinline__ int64_t sample_row(const Samples &s, int i) {
  return (uint32_t)i * (uint32_t)s.of.rows / (uint32_t)sample_count(s);
}

/* Returns the sum of what k is of the squares of some rows: a warp's part of the samples. */
static __device__ __forceinline__ double share_of(const Samples &s, int64_t k, int warp) {
  const int count = sample_count(s);
  double sum = 0;
#pragma unroll 8
  for (int i = warp; i < count; i += SAMPLE_WARPS) {
    const int64_t row = sample_row(s, i);
    const double squares = s.of.row[row].squares;
    const double x = s.across ? s.x[k * s.ld + row] : s.x[row * s.ld + k];
    if (squares > 0) sum += x * x / squares;
  }
  return sum;
}

/* Returns the sum of a number of each thread, to all of them. */
static __device__ __forceinline__ double sum_of_block(double mine, double (&all)[SAMPLE_THREADS]) {
  __syncthreads();
  all[threadIdx.x] = mine;
  for (int d = SAMPLE_THREADS / 2; d > 0; d /= 2) {
    __syncthreads();
    if ((int)threadIdx.x < d) all[threadIdx.x] += all[threadIdx.x + d];
  }
  __syncthreads();
  return all[0];
}

/* Returns how many samples are not zero, to all threads. */
static __device__ __forceinline__ double sampled(const Samples &s, double (&all)[SAMPLE_THREADS]) {
  const int i = (int)threadIdx.x;
  return sum_of_block(i < sample_count(s) && s.of.row[sample_row(s, i)].squares > 0, all);
}

/* What a product of doubles is to keep. */
struct Asked {
  int32_t fixed, room; /* so many moduli, or, where that is 0, as many as it takes, up to room */
  double tolerance;    /* 0: errors are to be no more than those of FP64 */
  int32_t shared;      /* as in mmci_residue_product */
  bool alike;
  bool is_alone; /* rows are judged alone */
};

static const double MOST_REACH = 0x1.fp62; /* which digits hold */
static const double UNFIT = 0x1p1000;

/* What rows are scaled to. */
struct Reaches {
  double of[2];
  int32_t whole; /* bits 0 and 1: elements of A and B become whole numbers */
  double off;    /* an element is off by at most so much of the lengths of its row and column */
  double least;  /* of those that are rounded */
};

/* What is known of both operands together. */
struct Both {
  double k, grains[2];
  double sums[2]; /* of a row's magnitudes by its length, at most */
};

static __device__ __forceinline__ double float_of(uint32_t bits) {
  return (double)__int_as_float((int)bits);
}

/* Fills in what elements are off by, where the operands that become whole numbers have rows of the
 * length of their grains at least, and the reaches are as great as digits hold. */
static __device__ __forceinline__ void weigh(const Both &of, Reaches &to) {
  double unit[2] = {0, 0};
  bool fits = true;
  to.least = UNFIT;
  for (int w = 0; w < 2; w++) {
    fits = fits && to.of[w] <= MOST_REACH;
    if ((to.whole >> w & 1) != 0) {
      fits = fits && of.grains[w] <= to.of[w];
    } else {
      fits = fits && (to.whole == 0 || to.of[w] >= 64 * sqrt(of.k));
      unit[w] = 8.0 / 7 / to.of[w];
      to.least = fmin(to.least, to.of[w]);
    }
  }
  to.off = 0.5 * (unit[0] * of.sums[1] + unit[1] * of.sums[0]) + 0.25 * of.k * unit[0] * unit[1];
  if (fits) return;
  to.off = UNFIT;
  to.least = 0;
}

/* Says how rows of A and B may be scaled together with so many moduli, which know products of
 * lengths whose product is reach^2. */
static __device__ __forceinline__ Reaches reaches_of(const Both &of, int32_t whole, double reach) {
  Reaches to = {{fmin(reach, MOST_REACH), fmin(reach, MOST_REACH)}, whole, 0, 0};
  for (int w = 0; w < 2; w++) {
    const bool alone = whole == 1 << w;
    if (!alone && (whole != 3 || of.grains[w] <= reach)) continue;
    const double one = fmax(of.grains[w], 1.0);
    to.of[1 - w] = fmin(reach / one * reach, MOST_REACH);
    to.of[w] = fmax(of.grains[w], fmin(reach / to.of[1 - w] * reach, MOST_REACH));
  }
  weigh(of, to);
  return to;
}

/* Says the same where the residues of some operands, by bits, stay as they are. */
static __device__ __forceinline__ Reaches reaches_beside(const Both &of,
                                                         const mmci_residue_seen *const (&seen)[2],
                                                         int32_t kept, double reach) {
  Reaches to = {{0, 0}, 0, 0, 0};
  for (int w = 0; w < 2; w++) {
    if ((kept >> w & 1) == 0) continue;
    to.of[w] = seen[w]->reach;
    to.whole |= seen[w]->whole << w;
  }
  for (int w = 0; w < 2; w++) {
    if ((kept >> w & 1) != 0) continue;
    to.of[w] = fmin(reach / to.of[1 - w] * reach, MOST_REACH);
    if (of.grains[w] <= to.of[w]) to.whole |= 1 << w;
  }
  weigh(of, to);
  if (kept == 3 && to.of[0] * to.of[1] > reach * reach) {
    to.off = UNFIT;
    to.least = 0;
  }
  return to;
}

/* Returns what T of docs/faithful.md a product needs to be off by no more than FP64. The spread is
 * 1 where all k's count alike; `peak` is that of rows and columns together, 1 where all elements
 * are as large. Sums of one sign, of which FP64 is off by more, need less where cuBLAS does not cut
 * them into pieces. */
static __device__ __forceinline__ double reach_for(double spread, double peak, double k,
                                                   bool one_sign) {
  const double mixed = 2.05 * fmax(1 / sqrt(spread), 0.5 * peak);
  const double alike = 3 * peak / sqrt(k * spread);
  return 0x1p53 * (one_sign ? fmin(mixed, alike) : mixed);
}

/* How a product is computed. */
struct Way {
  int32_t planes; /* 0 where there are not enough moduli */
  int32_t kept;   /* as in mmci_residue_state */
  Reaches to;
};

static __device__ __forceinline__ bool holds(const Reaches &to, double needed, const Asked &asked) {
  return asked.tolerance > 0 ? to.off + 3 * 0x1p-52 <= asked.tolerance : to.least >= needed;
}

/* Returns what is known of both operands together. */
static __device__ __forceinline__ Both both_of(const mmci_residue_seen *const (&seen)[2],
                                               double k) {
  Both of = {k, {0, 0}, {0, 0}};
  for (int w = 0; w < 2; w++) {
    of.grains[w] = float_of(seen[w]->grain);
    of.sums[w] = sqrt(k * fmin(1.0, float_of(seen[w]->even)));
  }
  return of;
}

/* Returns the reaches of way number `at`: of four with so many moduli each, the fewest first. */
static __device__ __forceinline__ Reaches reaches_at(const Both &of, int at,
                                                     const mmci_moduli *moduli) {
  return reaches_of(of, at % WHOLES, moduli->reach[FEWEST + at / WHOLES]);
}

/* Says whether a way does. */
static __device__ __forceinline__ bool does(const Both &of, int at, double needed,
                                            const Asked &asked, const mmci_moduli *moduli) {
  const int whole = at % WHOLES;
  if (FEWEST + at / WHOLES > asked.room || (asked.alike && whole != 0 && whole != WHOLES - 1))
    return false;
  const Reaches to = reaches_at(of, at, moduli);
  /* B has no scale of its own where it is A. */
  return !(asked.alike && to.of[0] != to.of[1]) && holds(to, needed, asked);
}

/* Finds the fewest moduli that do, of the ways that each thread looked at. Residues that are there
 * are kept where that takes no more. */
static __device__ __forceinline__ Way way_for(const Both &of, const bool (&fits)[WAYS],
                                              const mmci_residue_seen *const (&seen)[2],
                                              double needed, const Asked &asked,
                                              const mmci_moduli *moduli) {
  Way way = {0, 0, {{0, 0}, 0, 0, 0}};
  for (int at = 0; at < WAYS && way.planes == 0; at++)
    if (fits[at]) way = {FEWEST + at / WHOLES, 0, reaches_at(of, at, moduli)};
  for (int32_t kept = 3; kept > 0; kept--) {
    if ((asked.shared & kept) != kept || (asked.alike && kept != 3)) continue;
    int most = way.planes > 0 ? way.planes : asked.room;
    for (int w = 0; w < 2; w++)
      if ((kept >> w & 1) != 0 && seen[w]->planes < most) most = seen[w]->planes;
    for (int count = FEWEST; count <= most; count++) {
      const Reaches beside = reaches_beside(of, seen, kept, moduli->reach[count]);
      if (holds(beside, needed, asked)) return {count, kept, beside};
    }
  }
  return way;
}

/* Decides for all: every thread of a block looks at a way, and one of them chooses. */
static __device__ __forceinline__ void decide(const Samples &a, const Samples &b,
                                              mmci_residue_state *state, const mmci_moduli *moduli,
                                              const Asked &asked, double spread,
                                              bool (&fits)[WAYS]) {
  const int64_t m = a.of.rows, n = b.of.rows;
  mmci_residue_seen *const seen[2] = {a.of.seen, b.of.seen};
  const mmci_residue_seen *const known[2] = {seen[0], seen[1]};
  const double k = (double)a.of.k, reach = moduli->reach[asked.fixed];
  const double peak = sqrt(float_of(seen[0]->peak) * float_of(seen[1]->peak));
  const bool one_sign =
      seen[0]->mixed == 0 && seen[1]->mixed == 0 && (double)m * (double)n >= WHOLE_SUMS;
  const double needed = reach_for(spread, fmax(peak, 1.0), k, one_sign);
  const Both both = both_of(known, k);
  if (threadIdx.x < WAYS)
    fits[threadIdx.x] = asked.fixed == 0 && does(both, (int)threadIdx.x, needed, asked, moduli);
  __syncthreads();
  if (threadIdx.x != 0) return;
  const bool most_left = 2 * (seen[0]->left * n + seen[1]->left * m) >= m * n;
  const int32_t there = (seen[0]->planes > 0) | (seen[1]->planes > 0) << 1,
                kept = asked.is_alone ? asked.shared & there : 0;
  Way way = {asked.fixed, kept, {{reach, reach}, 0, 0, 0}};
  if (way.planes == 0) way = way_for(both, fits, known, needed, asked, moduli);
  const bool all_left = seen[0]->left == m || seen[1]->left == n;
  if (asked.is_alone ? all_left : most_left) way.planes = 0;
  for (int w = 0; w < 2; w++) {
    if (way.planes == 0 || (way.kept >> w & 1) != 0) continue;
    seen[w]->planes = way.planes;
    seen[w]->reach = way.to.of[w];
    seen[w]->whole = way.to.whole >> w & 1;
  }
  state->rows_left = seen[0]->left;
  state->cols_left = seen[1]->left;
  state->kept = way.kept;
  state->spread = spread;
  state->planes = way.planes;
}

/* Each block adds up a part of the k's; the last one decides. */
__global__ void __launch_bounds__(SAMPLE_THREADS)
    residues_choose(Samples a, Samples b, mmci_residue_state *state, const mmci_moduli *moduli,
                    Asked asked, bool is_sampled) {
  __shared__ double all[SAMPLE_THREADS], shares[2][SAMPLE_WARPS][32];
  __shared__ bool last, fits[WAYS];
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  double mine = 0;
  for (int64_t first = (int64_t)blockIdx.x * 32; is_sampled && first < a.of.k;
       first += (int64_t)gridDim.x * 32) {
    const bool there = first + lane < a.of.k;
    shares[0][warp][lane] = there ? share_of(a, first + lane, warp) : 0;
    shares[1][warp][lane] = there ? share_of(b, first + lane, warp) : 0;
    __syncthreads();
    if (warp == 0) {
      double left = 0, right = 0;
      for (int w = 0; w < SAMPLE_WARPS; w++) {
        left += shares[0][w][lane];
        right += shares[1][w][lane];
      }
      mine += left * right;
    }
    __syncthreads();
  }
  const double part = is_sampled ? sum_of_block(mine, all) : 0;
  if (threadIdx.x == 0) {
    state->partial[blockIdx.x] = part;
    __threadfence();
    last = atomicAdd(&state->arrived, 1) == (int)gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  double spread = 1;
  if (is_sampled) {
    mine = threadIdx.x < gridDim.x ? ((volatile double *)state->partial)[threadIdx.x] : 0;
    const double sum = sum_of_block(mine, all), pairs = sampled(a, all) * sampled(b, all);
    if (pairs > 0) spread = sum * (double)a.of.k / pairs;
  }
  decide(a, b, state, moduli, asked, spread, fits);
}

/* ---- launches -----------------------------------------------------------------------------------
 */

static int64_t blocks_of(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

template <class Element>
static mmc_status launch_most(cudaStream_t stream, const void *x, int64_t ld, int64_t lines,
                              int64_t length, uint64_t *most, mmci_error *error) {
  enum { MOST_BLOCKS = 1024 };
  const int64_t blocks = lines < MOST_BLOCKS ? lines : (int64_t)MOST_BLOCKS;
  MMCI_CUDA_TRY(mmci_launch(residues_most<Element>, dim3((unsigned)blocks), dim3(THREADS), 0,
                            stream, static_cast<const Element *>(x), ld, lines, length, most));
  return MMC_OK;
}

/* Says that elements are looked at as if they had signs, which only sums that wrap around allow. */
static bool is_seen_unsigned(const mmci_gemm *gemm) {
  return gemm->dtype == MMC_U64 && gemm->rule.modulus != 0;
}

static mmc_status range_of_integers(cudaStream_t stream, const mmci_residue_product *product,
                                    const mmci_residue_operand *of, const void *x, int64_t ld,
                                    bool across, mmci_error *error) {
  uint64_t *most = &product->state->most[of == &product->b];
  if (is_seen_unsigned(&product->gemm)) return MMC_OK;
  const int64_t lines = across ? of->k : of->rows, length = across ? of->rows : of->k;
  switch (product->gemm.dtype) {
    case MMC_I64:
    case MMC_U64:
      return launch_most<int64_t>(stream, x, ld, lines, length, most, error);
    case MMC_I32:
    case MMC_U32:
      return launch_most<int32_t>(stream, x, ld, lines, length, most, error);
    case MMC_I16:
    case MMC_U16:
      return launch_most<int16_t>(stream, x, ld, lines, length, most, error);
    default:
      return MMC_OK; /* bytes have one digit */
  }
}

template <class Element>
static mmc_status launch_range(cudaStream_t stream, const Judge &by, const void *x, int64_t ld,
                               bool across, mmci_error *error) {
  enum { EACH = THREADS / MMCI_ROW_LANES }; /* rows of a block */
  const Element *from = static_cast<const Element *>(x);
  if (across)
    MMCI_CUDA_TRY(mmci_launch(residues_range_across<Element>,
                              dim3((unsigned)blocks_of(by.of.rows, RANGE_ROWS)),
                              dim3(RANGE_THREADS), 0, stream, by, from, ld));
  else
    MMCI_CUDA_TRY(mmci_launch(residues_range_along<Element>,
                              dim3((unsigned)blocks_of(by.of.rows, EACH)), dim3(THREADS), 0, stream,
                              by, from, ld));
  return MMC_OK;
}

extern "C" mmc_status mmci_residues_range(cudaStream_t stream, const mmci_residue_product *product,
                                          const mmci_residue_operand *operand, const void *x,
                                          int64_t ld, bool across, mmci_error *error) {
  static const double PEAK = 540;
  const mmc_dtype dtype = product->gemm.dtype;
  const bool is_alone = product->peak > 0, any = product->fixed > 0 || product->tolerance > 0;
  if (dtype != MMC_F64 && dtype != MMC_F32)
    return range_of_integers(stream, product, operand, x, ld, across, error);
  const Judge by = {*operand, is_alone ? product->peak : any ? (double)INFINITY : PEAK, is_alone};
  return dtype == MMC_F64 ? launch_range<double>(stream, by, x, ld, across, error)
                          : launch_range<float>(stream, by, x, ld, across, error);
}

extern "C" mmc_status mmci_residues_choose(cudaStream_t stream, const mmci_residue_product *product,
                                           const void *a, const void *b, mmci_error *error) {
  const mmci_gemm *g = &product->gemm;
  if (g->dtype != MMC_F64 && g->dtype != MMC_F32) {
    MMCI_CUDA_TRY(mmci_launch(residues_choose_integers, dim3(1), dim3(1), 0, stream, product->state,
                              product->moduli, g->k, product->planes, g->rule.modulus / 2,
                              !is_seen_unsigned(g)));
    return MMC_OK;
  }
  const Samples left = {product->a, static_cast<const double *>(a), g->a.ld, g->a.trans},
                right = {product->b, static_cast<const double *>(b), g->b.ld, !g->b.trans};
  const Asked asked = {
      product->fixed,     product->planes,
      product->tolerance, product->alike && (product->shared & 1) != 0 ? 3 : product->shared,
      product->alike,     product->peak > 0};
  const bool is_sampled = asked.fixed == 0 && asked.tolerance == 0;
  const int64_t blocks = is_sampled ? blocks_of(g->k, 32) : 1;
  const int64_t most = sizeof product->state->partial / sizeof *product->state->partial;
  MMCI_CUDA_TRY(mmci_launch(residues_choose, dim3((unsigned)(blocks < most ? blocks : most)),
                            dim3(SAMPLE_THREADS), 0, stream, left, right, product->state,
                            product->moduli, asked, is_sampled));
  return MMC_OK;
}
