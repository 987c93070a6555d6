/* test_integers.c: products of integers against sums of 192 bits, wherever operands lie, on every
 * device of the host; and the loops of every kind of vectors against each other. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka.h wants the three above. */
#include <cmocka.h>

#include "../how_many.h"
#include "../random.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "base/wide.h"
#include "device/device.h"
#include "mmchain.h"
#ifdef MMCI_WITH_BLAS
#include "device/blas/integer_gemm.h"
#include "device/blas/integer_loops.h"
#include "device/blas/ordered_tiles.h"
#endif

static const uint64_t seed = 20261123;
enum { GUARD = 0x5a, SIDE = 90 };

/* ---- numbers ------------------------------------------------------------------------------- */

static mmci_i128 read_number(mmc_dtype dtype, const unsigned char *at) {
  uint64_t bits = 0;
  const size_t size = mmc_dtype_size(dtype);
  memcpy(&bits, at, size);
  if (dtype == MMC_BOOL) return bits != 0;
  if (!mmci_dtype_is_signed(dtype)) return bits;
  unsigned unused = 64 - 8 * (unsigned)size;
  return (int64_t)(bits << unused) >> unused;
}

/* Draws from the whole range, its ends, or below some number of bits. */
static uint64_t draw(mmc_dtype dtype, int kind, uint64_t *random) {
  const uint64_t bits = random_bits(random), most = mmci_dtype_most(dtype);
  if (dtype == MMC_BOOL) return bits % 4 == 0;
  if (kind == 0) return bits;
  if (kind == 1) return bits % 3 == 0 ? most : bits % 3 == 1 ? most + 1 : bits % 5;
  if (kind == 2) return mmci_dtype_is_signed(dtype) ? most + 1 : most;
  uint64_t few = bits & (most >> (random_bits(random) % 8 * mmc_dtype_size(dtype)));
  return mmci_dtype_is_signed(dtype) && bits >> 63 ? 0 - few : few;
}

/* ---- one product --------------------------------------------------------------------------- */

typedef struct operand {
  unsigned char *memory;
  mmc_matrix matrix;
  size_t bytes;
} operand;

/* Makes `batch` matrices with gaps between lines and matrices, all of which hold GUARD. */
static operand make(mmc_dtype dtype, int64_t rows, int64_t cols, int64_t batch, uint64_t *random) {
  operand x = {.matrix = {.rows = rows,
                          .cols = cols,
                          .layout = random_below(random, 2) ? MMC_ROW_MAJOR : MMC_COL_MAJOR}};
  int64_t line = x.matrix.layout == MMC_ROW_MAJOR ? cols : rows;
  int64_t lines = x.matrix.layout == MMC_ROW_MAJOR ? rows : cols;
  x.matrix.ld = line + random_below(random, 3) + (line == 0);
  x.matrix.stride = lines * x.matrix.ld + random_below(random, 5);
  x.bytes = (size_t)(batch * x.matrix.stride + 8) * mmc_dtype_size(dtype);
  x.memory = malloc(x.bytes);
  assert_non_null(x.memory);
  memset(x.memory, GUARD, x.bytes);
  x.matrix.data = x.memory;
  return x;
}

static unsigned char *element(mmc_dtype dtype, const operand *x, int64_t b, int64_t r, int64_t c) {
  const mmc_matrix *m = &x->matrix;
  int64_t at = m->layout == MMC_ROW_MAJOR ? r * m->ld + c : c * m->ld + r;
  return x->memory + (size_t)(b * m->stride + at) * mmc_dtype_size(dtype);
}

static void fill(mmc_dtype dtype, operand *x, int64_t batch, int kind, uint64_t *random) {
  for (int64_t b = 0; b < batch; b++)
    for (int64_t r = 0; r < x->matrix.rows; r++)
      for (int64_t c = 0; c < x->matrix.cols; c++) {
        uint64_t value = draw(dtype, kind, random);
        memcpy(element(dtype, x, b, r, c), &value, mmc_dtype_size(dtype));
      }
}

typedef struct problem {
  const char *device;
  mmc_dtype dtype;
  int64_t m, k, n, batch;
  mmc_op op_a, op_b;
  uint64_t modulus;
  bool checked;
} problem;

/* The exact sum of an element, high * 2^64 + low. */
typedef struct sum {
  mmci_i128 high, low;
} sum;

static sum sum_of(const problem *p, const operand *a, const operand *b, int64_t entry, int64_t i,
                  int64_t j) {
  sum s = {0, 0};
  for (int64_t l = 0; l < p->k; l++) {
    bool a_turned = p->op_a != MMC_OP_N, b_turned = p->op_b != MMC_OP_N;
    mmci_i128 x = read_number(
        p->dtype, a_turned ? element(p->dtype, a, entry, l, i) : element(p->dtype, a, entry, i, l));
    mmci_i128 y = read_number(
        p->dtype, b_turned ? element(p->dtype, b, entry, j, l) : element(p->dtype, b, entry, l, j));
    /* y = upper * 2^32 + lower, so that either product has at most 97 bits. */
    mmci_i128 lower = y & UINT32_MAX, upper = y >> 32, part = x * upper;
    s.low += (uint64_t)(x * lower);
    s.high += (x * lower) >> 64;
    s.low += (mmci_i128)(part & UINT32_MAX) << 32;
    s.high += part >> 32;
  }
  s.high += s.low >> 64;
  s.low &= UINT64_MAX;
  return s;
}

static bool holds(mmc_dtype dtype, sum s) {
  mmci_i128 value = (mmci_i128)(((mmci_u128)s.high << 64) + (mmci_u128)s.low);
  if (s.high < -2 || s.high > 2) return false;
  mmci_i128 most = mmci_dtype_most(dtype);
  return value <= most && value >= (mmci_dtype_is_signed(dtype) ? -most - 1 : 0);
}

static uint64_t residue(sum s, uint64_t p) {
  mmci_i128 r = s.high % (mmci_i128)p;
  for (int bit = 0; bit < 64; bit++) r = r * 2 % (mmci_i128)p;
  r = (r + s.low % (mmci_i128)p) % (mmci_i128)p;
  return (uint64_t)(r < 0 ? r + (mmci_i128)p : r);
}

static void check_element(const problem *p, sum s, const unsigned char *got) {
  uint64_t want = p->dtype == MMC_BOOL ? s.high != 0 || s.low != 0
                  : p->modulus != 0    ? residue(s, p->modulus)
                                       : (uint64_t)s.low;
  if (memcmp(got, &want, mmc_dtype_size(p->dtype)) != 0)
    fail_msg("%s on %s, %" PRId64 "x%" PRId64 "x%" PRId64 " @%" PRId64 " %%%" PRIu64
             ": the lowest bits of %016" PRIx64 " were expected; seed %" PRIu64,
             mmc_dtype_name(p->dtype), p->device, p->m, p->k, p->n, p->batch, p->modulus, want,
             seed);
}

/* Checks results, and that nothing was written between them. Returns whether all fit. */
static bool check(const problem *p, const operand *a, const operand *b, operand *c, bool written) {
  bool fit = true;
  for (int64_t e = 0; e < p->batch; e++)
    for (int64_t i = 0; i < p->m; i++)
      for (int64_t j = 0; j < p->n; j++) {
        sum s = sum_of(p, a, b, e, i, j);
        fit = fit && holds(p->dtype, s);
        if (written) check_element(p, s, element(p->dtype, c, e, i, j));
        memset(element(p->dtype, c, e, i, j), GUARD, mmc_dtype_size(p->dtype));
      }
  for (size_t i = 0; i < c->bytes; i++) assert_int_equal(c->memory[i], GUARD);
  return fit;
}

static mmc_status execute(const problem *p, const operand *a, const operand *b, operand *c) {
  mmc_context *context;
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_run *run;
  const int64_t dims[] = {p->m, p->k, p->n};
  const mmc_op ops[] = {p->op_a, p->op_b};
  mmc_chain_options of_chain = MMC_CHAIN_OPTIONS_INIT;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  of_chain.batch = p->batch;
  of_chain.modulus = p->modulus;
  of_chain.checked = p->checked;
  options.device = p->device;
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  assert_int_equal(mmc_chain_create_batch(context, p->dtype, 2, dims, ops, &of_chain, &chain),
                   MMC_OK);
  assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_OK);
  assert_int_equal(mmc_run_create(plan, &run), MMC_OK);
  const mmc_matrix factors[] = {a->matrix, b->matrix};
  mmc_status status = mmc_execute(run, factors, &c->matrix);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return status;
}

static void try_product(const problem *p, int kind, uint64_t *random) {
  bool a_turned = p->op_a != MMC_OP_N, b_turned = p->op_b != MMC_OP_N;
  operand a = make(p->dtype, a_turned ? p->k : p->m, a_turned ? p->m : p->k, p->batch, random);
  operand b = make(p->dtype, b_turned ? p->n : p->k, b_turned ? p->k : p->n, p->batch, random);
  operand c = make(p->dtype, p->m, p->n, p->batch, random);
  fill(p->dtype, &a, p->batch, kind, random);
  fill(p->dtype, &b, p->batch, kind, random);
  mmc_status status = execute(p, &a, &b, &c);
  if (status != MMC_OK) assert_int_equal(status, MMC_E_OVERFLOW);
  if (status != MMC_OK) memset(c.memory, GUARD, c.bytes);
  bool fit = check(p, &a, &b, &c, status == MMC_OK);
  if (p->checked && p->dtype != MMC_BOOL) assert_int_equal(status, fit ? MMC_OK : MMC_E_OVERFLOW);
  if (!p->checked) assert_int_equal(status, MMC_OK);
  free(a.memory);
  free(b.memory);
  free(c.memory);
}

static const char *const devices[] = {"cpu", "ref"};

/* Lets "cpu" multiply as the processor would have it, by words, or by digits. */
static void choose_way(int way) {
#ifdef MMCI_WITH_BLAS
  static const mmci_word_prices words = {0, 0, 0}, digits = {INFINITY, INFINITY, 1};
  mmci_integer_prices_of_test = way == 0 ? NULL : way == 1 ? &words : &digits;
#else
  (void)way;
#endif
}
enum { WAYS = 3 };

static problem random_problem(int64_t largest, uint64_t *random) {
  problem p = {.device = devices[random_below(random, 2)],
               .dtype = (mmc_dtype)(MMC_I8 + random_below(random, 9)),
               .m = random_below(random, largest),
               .k = random_below(random, largest),
               .n = random_below(random, 4) == 0 ? 1 : random_below(random, largest),
               .batch = random_below(random, 4) == 0 ? random_below(random, 5) : 1,
               .op_a = (mmc_op)random_below(random, 3),
               .op_b = (mmc_op)random_below(random, 3)};
  int rule = (int)random_below(random, 3);
  uint64_t most = mmci_dtype_most(p.dtype), bits = random_bits(random);
  if (most >= INT64_MAX) most = INT64_MAX - 1;
  static const uint64_t moduli[] = {1, 2, 3, 251, 65521, 998244353, INT64_MAX - 24, INT64_MAX};
  uint64_t modulus = bits % 2 ? moduli[bits / 2 % 8] : 1 + bits % (most + 1);
  p.checked = rule == 1;
  if (rule == 2 && p.dtype != MMC_BOOL) p.modulus = modulus <= most + 1 ? modulus : most + 1;
  return p;
}

static void products_are_exact(void **state) {
  (void)state;
  uint64_t random = seed;
  for (int t = 0; t < how_many(700, 1500); t++) {
    problem p = random_problem(t % 10 == 0 ? SIDE : 12, &random);
    choose_way(t / 10 % WAYS);
    try_product(&p, (int)random_below(&random, 5), &random);
  }
  choose_way(0);
}

/* Several blocks along every dimension, and sums beyond what one double holds. */
static void blocks_join(void **state) {
  (void)state;
  uint64_t random = seed + 1;
  const int64_t shapes[][3] = {{1030, 20, 9}, {9, 2100, 11}, {8, 70, 1100}};
  for (mmc_dtype dtype = MMC_I8; dtype <= MMC_BOOL; dtype = (mmc_dtype)(dtype + 1))
    for (int t = 0; t < 9 * (WAYS - 1); t++) {
      choose_way(1 + t / 9);
      problem p = {
          "cpu",    dtype, shapes[t % 3][0], shapes[t % 3][1], shapes[t % 3][2], 1, MMC_OP_N,
          MMC_OP_T, 0,     t / 3 % 3 == 1};
      if (t / 3 % 3 == 2 && dtype != MMC_BOOL)
        p.modulus = mmci_dtype_most(dtype) < INT64_MAX ? mmci_dtype_most(dtype) : INT64_MAX - 24;
      try_product(&p, t / 3 % 3 == 1 ? 2 : 0, &random);
    }
  choose_way(0);
}

/* Elements that are no more than half the modulus, whose digits have signs all the same. */
static void small_elements_of_a_large_modulus(void **state) {
  (void)state;
  uint64_t random = seed + 3;
  for (uint64_t modulus = (uint64_t)INT64_MAX - 24; modulus > 1 << 20; modulus >>= 1)
    for (int t = 0; t < 4 * (WAYS - 1); t++) {
      problem p = {"cpu", t % 2 ? MMC_U64 : MMC_I64, 6, 1024, 5, 1, MMC_OP_N, MMC_OP_N, modulus,
                   false};
      choose_way(1 + t / 4);
      operand a = make(p.dtype, p.m, p.k, 1, &random), b = make(p.dtype, p.k, p.n, 1, &random);
      operand c = make(p.dtype, p.m, p.n, 1, &random);
      for (int64_t l = 0; l < p.k; l++) {
        uint64_t of_a = modulus / 2 - random_bits(&random) % (t % 4 < 2 ? 4 : modulus / 2);
        uint64_t of_b = modulus / 2 - random_bits(&random) % 4;
        for (int64_t i = 0; i < p.m; i++) memcpy(element(p.dtype, &a, 0, i, l), &of_a, 8);
        for (int64_t j = 0; j < p.n; j++) memcpy(element(p.dtype, &b, 0, l, j), &of_b, 8);
      }
      assert_int_equal(execute(&p, &a, &b, &c), MMC_OK);
      check(&p, &a, &b, &c, true);
      free(a.memory);
      free(b.memory);
      free(c.memory);
    }
  choose_way(0);
}

/* Sums that are as far from those of doubles as they get: of elements that are all the greatest,
 * or the least, in every number of terms about those that words know at a time. */
static void extremes_are_exact(void **state) {
  (void)state;
  uint64_t random = seed + 4;
  for (mmc_dtype dtype = MMC_I32; dtype <= MMC_U64; dtype = (mmc_dtype)(dtype + 1)) {
    if (mmc_dtype_size(dtype) < 4) continue;
    for (int64_t k = 64; k <= 1024; k *= 2)
      for (int t = 0; t < 9; t++) {
        problem p = {"cpu", dtype, 3, k + t % 3 - 1, 2, 1, MMC_OP_N, MMC_OP_N, 0, t < 6};
        if (t >= 6) p.modulus = mmci_dtype_most(dtype) / 2 - (uint64_t)t;
        choose_way(1);
        try_product(&p, t % 2 == 0 ? 1 : 2, &random);
      }
  }
  choose_way(0);
}

/* ---- vectors ------------------------------------------------------------------------------- */

#ifdef MMCI_WITH_BLAS
/* Splits numbers into digits and joins these, which must give them back. */
static void check_digits(const mmci_integer_loops *loops, mmc_dtype dtype, int count, int bits,
                         const unsigned char *from) {
  enum { N = 600 };
  static double digits[MMCI_DIGITS][N];
  static int64_t sums[MMCI_DIGITS][N];
  static unsigned char out[N * 8];
  void *places[MMCI_DIGITS];
  mmci_integer_split split = {
      .dtype = dtype, .is_unsigned = dtype == MMC_U64, .count = count, .bits = bits};
  mmci_integer_join join = {.dtype = dtype, .classes = count, .bits = bits, .rule.checked = true};
  for (int d = 0; d < count; d++) places[d] = digits[d];
  loops->split(&split, from, N, places);
  for (int d = 0; d < count; d++) {
    for (int i = 0; i < N; i++) assert_true(d == count - 1 || fabs(digits[d][i]) < ldexp(1, bits));
    loops->gather(false, digits[d], N, true, sums[d]);
    join.sums[d] = sums[d];
  }
  assert_true(loops->join(&join, 0, N, out));
  assert_memory_equal(out, from, N * mmc_dtype_size(dtype));
  for (int d = 0; d < count; d++) loops->gather(false, digits[d], N, false, sums[d]);
  loops->join(&join, 0, N, out);
  for (int i = 0; i < N; i++) {
    const size_t size = mmc_dtype_size(dtype);
    uint64_t twice = 2 * (uint64_t)read_number(dtype, from + (size_t)i * size);
    assert_memory_equal(out + (size_t)i * size, &twice, size);
  }
}

static void find_loops(const mmci_integer_loops *all[3]) {
  all[0] = &mmci_integer_loops_portable;
  all[1] = all[2] = NULL;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) all[1] = &mmci_integer_loops_avx2;
  if (mmci_integer_loops_here() == &mmci_integer_loops_avx512) all[2] = &mmci_integer_loops_avx512;
#endif
}

/* Several products at once, with as many columns as loops are written for and more, whose operands
 * and results have gaps: every set of loops, all layouts. Truths may be any byte but 0. */
static void several_products(void **state) {
  (void)state;
  enum { MOST = 3, SIDES = 80, ROOM = MOST * 100 * 100 };
  static uint64_t a[ROOM], b[ROOM], c[ROOM], before[ROOM];
  const mmci_integer_loops *all[3];
  uint64_t random = seed + 3;
  find_loops(all);
  for (int round = 0; round < 500; round++) {
    const mmc_dtype dtype = (mmc_dtype)(MMC_I8 + random_below(&random, MMC_BOOL - MMC_I8 + 1));
    const size_t size = mmc_dtype_size(dtype);
    const int64_t most = round % 3 == 0 ? SIDES : 12, count = 1 + random_below(&random, MOST);
    mmci_gemm x = {.dtype = dtype,
                   .m = 1 + random_below(&random, most),
                   .k = 1 + random_below(&random, most),
                   .n = 1 + random_below(&random, most),
                   .a.trans = random_below(&random, 2),
                   .b.trans = random_below(&random, 2),
                   .accumulate = random_below(&random, 2)};
    if (round % 25 == 0) { /* long sums */
      x.m = 1 + round / 25 % 3;
      x.k = 490 + random_below(&random, 80);
      x.n = 9 + random_below(&random, 4);
    }
    x.a.ld = (x.a.trans ? x.m : x.k) + 1 + random_below(&random, 3);
    x.b.ld = (x.b.trans ? x.k : x.n) + 1 + random_below(&random, 3);
    x.ldc = x.n + random_below(&random, 3);
    const int64_t lines_a = x.a.trans ? x.k : x.m, lines_b = x.b.trans ? x.n : x.k;
    const int64_t a_each = lines_a * x.a.ld, b_each = lines_b * x.b.ld, c_each = x.m * x.ldc + 1;
    const mmci_integer_steps steps = {a_each * (int64_t)size, b_each * (int64_t)size,
                                      c_each * (int64_t)size};
    const int rare = 1 + (int)random_below(&random, 40);
    unsigned char *bytes[] = {(unsigned char *)a, (unsigned char *)b, (unsigned char *)before};
    for (int o = 0; o < 3; o++)
      for (size_t i = 0; i < ROOM; i++)
        bytes[o][i] = dtype == MMC_BOOL && random_below(&random, rare) != 0
                          ? 0
                          : (unsigned char)random_bits(&random);
    for (int set = 0; set < 3; set++) {
      if (all[set] == NULL) continue;
      memcpy(c, before, sizeof c);
      all[set]->multiply(&x, &steps, count, a, b, c);
      const unsigned char *is = (unsigned char *)c, *was = (unsigned char *)before;
      for (int64_t at = 0; at < count * c_each; at++) {
        const int64_t p = at / c_each, i = at % c_each / x.ldc, j = at % c_each % x.ldc;
        if (i >= x.m || j >= x.n) {
          assert_memory_equal(is + (size_t)at * size, was + (size_t)at * size, size);
          continue;
        }
        uint64_t sum = x.accumulate ? (uint64_t)read_number(dtype, was + (size_t)at * size) : 0;
        for (int64_t l = 0; l < x.k; l++) {
          const int64_t of_a = p * a_each + (x.a.trans ? l * x.a.ld + i : i * x.a.ld + l),
                        of_b = p * b_each + (x.b.trans ? j * x.b.ld + l : l * x.b.ld + j);
          sum += (uint64_t)read_number(dtype, bytes[0] + (size_t)of_a * size) *
                 (uint64_t)read_number(dtype, bytes[1] + (size_t)of_b * size);
        }
        if (dtype == MMC_BOOL) sum = sum != 0;
        if (memcmp(is + (size_t)at * size, &sum, size) != 0)
          fail_msg("set %d dtype %d: %d x %d x %d, a%d b%d, +%d, product %d (%d, %d)", set,
                   (int)dtype, (int)x.m, (int)x.k, (int)x.n, x.a.trans, x.b.trans, x.accumulate,
                   (int)p, (int)i, (int)j);
      }
    }
  }
}

/* Sums of so many bits are known by what is nearly as large, off by as much as may be, and by two
 * remainders. */
static void words_say_the_sum(void **state) {
  (void)state;
  enum { N = 700 };
  const mmci_integer_loops *all[3];
  find_loops(all);
  uint64_t random = seed + 5;
  static int64_t word[N], residue[N], sums[4][N];
  static double nearly[N];
  static mmci_i128 upper[N];
  int64_t *const to[] = {sums[0], sums[1], sums[2], sums[3]};
  for (int words = 1; words <= MMCI_WORDS; words++)
    for (int bits = words == 1 ? 0 : 1; bits < (words == 1 ? 1 : words == 2 ? 50 : 74); bits++) {
      for (int i = 0; i < N; i++) {
        word[i] = (int64_t)random_bits(&random) >> (random_below(&random, 60) + (words == 1) * 2);
        upper[i] = ((mmci_i128)(int64_t)random_bits(&random) * (1 << 20)) >> (84 - bits);
        const int64_t half = MMCI_WORD_PRIME / 2;
        double off = words == 3 ? (double)(half - 16) - ldexp(1, bits - 51) : 0.25;
        off *= (double)random_below(&random, 3) - 1;
        nearly[i] = ((double)upper[i] + off) * 0x1p64 + (double)word[i];
        mmci_i128 rest = upper[i] % MMCI_WORD_PRIME * ((((mmci_i128)1) << 64) % MMCI_WORD_PRIME);
        residue[i] = (int64_t)((rest + word[i]) % MMCI_WORD_PRIME);
      }
      const void *const products[] = {word, nearly, residue};
      for (int v = 0; v < 3; v++) {
        if (all[v] == NULL) continue;
        all[v]->gather_words(words, products, N, true, to);
        all[v]->gather_words(words, products, N, false, to);
        for (int i = 0; i < N; i++) {
          mmci_i128 high = words == 1 ? 0 : sums[2][i] + sums[3][i] * ((mmci_i128)1 << 32);
          mmci_i128 low = words == 1 ? sums[0][i] : sums[0][i] + sums[1][i] * ((mmci_i128)1 << 32);
          if (low != 2 * (mmci_i128)word[i] || (words > 1 && high != 2 * upper[i]))
            fail_msg("%d words, %d bits, loops %d: sum %d; seed %" PRIu64, words, bits, v, i, seed);
        }
      }
    }
}

/* Tiles of every kind of vectors, of words. */
static void tiles_wrap_around(void **state) {
  (void)state;
  enum { MOST = 8 * 3 * 16, K = 37 };
  static _Alignas(64) uint64_t a[K * MOST], b[K * MOST], sums[MOST];
  const mmci_ordered_tiles *all[] = {&mmci_ordered_tiles_portable, NULL, NULL};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    all[1] = &mmci_ordered_tiles_avx2;
  if (mmci_ordered_tiles_here() == &mmci_ordered_tiles_avx512) all[2] = &mmci_ordered_tiles_avx512;
#endif
  uint64_t random = seed + 6;
  for (int v = 0; v < 3; v++)
    for (int wide = 0; all[v] != NULL && wide < 2; wide++) {
      const mmci_ordered_tile *tile = wide ? &all[v]->u64 : &all[v]->u32;
      for (int vectors = 1; vectors <= tile->vectors; vectors++) {
        const int rows = tile->rows, cols = vectors * tile->width;
        for (int i = 0; i < K * MOST; i++) {
          a[i] = random_bits(&random);
          b[i] = random_bits(&random);
        }
        memset(sums, 0, sizeof sums);
        for (int pass = 0; pass < 2; pass++) tile->multiply[vectors - 1](K, a, b, sums, false);
        for (int r = 0; r < rows; r++)
          for (int c = 0; c < cols; c++) {
            uint64_t want = 0;
            for (int p = 0; p < K; p++)
              want += wide ? 2 * a[p * rows + r] * b[p * cols + c]
                           : 2 * (uint64_t)((uint32_t *)a)[p * rows + r] *
                                 ((uint32_t *)b)[p * cols + c];
            if (wide)
              assert_int_equal(sums[r * cols + c], want);
            else
              assert_int_equal(((uint32_t *)sums)[r * cols + c], (uint32_t)want);
          }
      }
    }
}

static void digits_are_those_of_the_numbers(void **state) {
  (void)state;
  const mmci_integer_loops *all[3];
  find_loops(all);
  uint64_t random = seed + 2;
  static unsigned char from[600 * 8];
  for (mmc_dtype dtype = MMC_I8; dtype <= MMC_U64; dtype = (mmc_dtype)(dtype + 1))
    for (int kind = 0; kind < 5; kind++) {
      for (size_t i = 0; i < 600; i++) {
        uint64_t value = draw(dtype, kind, &random);
        memcpy(from + i * mmc_dtype_size(dtype), &value, mmc_dtype_size(dtype));
      }
      for (int v = 0; v < 3; v++)
        for (int bits = 16; all[v] != NULL && bits <= 33; bits++)
          check_digits(all[v], dtype, bits < 22 ? 4 : 3, bits, from);
    }
}
#endif

/* ---- rules --------------------------------------------------------------------------------- */

static void rules_are_refused(void **state) {
  (void)state;
  const char *const texts[] = {"f64%7:2x2",
                               "bool%2:2x2",
                               "i8%129:2x2",
                               "u8%257:2x2",
                               "i64%0:2x2",
                               "i64%x:2x2",
                               "i64%9223372036854775808:2x2",
                               "i64%7!:2x2",
                               "f64!:2x2",
                               "i64!7:2x2",
                               "%7:2x2",
                               "i65:2x2"};
  mmc_chain *chain;
  for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
    assert_int_equal(mmc_chain_parse(NULL, texts[t], &chain), MMC_E_ARG);
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  options.modulus = 7;
  options.checked = true;
  assert_int_equal(
      mmc_chain_create_batch(NULL, MMC_I64, 1, (int64_t[]){2, 2}, NULL, &options, &chain),
      MMC_E_ARG);
}

static int append(void *user, const char *bytes, size_t size) {
  strncat(user, bytes, size);
  return 0;
}

static void rules_are_written(void **state) {
  (void)state;
  const char *const texts[] = {"i64%9223372036854775807:2x3x2", "u8!:2x3x2@4", "i8%128:4x4^9:T",
                               "bool:2x3", "u64%1:3x3"};
  for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
    mmc_chain *chain;
    char text[64] = "";
    assert_int_equal(mmc_chain_parse(NULL, texts[t], &chain), MMC_OK);
    assert_int_equal(mmc_chain_write(chain, append, text), MMC_OK);
    assert_string_equal(text, texts[t]);
    assert_int_equal(mmc_chain_checked(chain), strchr(texts[t], '!') != NULL);
    assert_int_equal(mmc_chain_modulus(chain) != 0, strchr(texts[t], '%') != NULL);
    mmc_chain_destroy(chain);
  }
}

/* One factor is copied; its residues are taken all the same. */
static void one_factor_has_residues(void **state) {
  (void)state;
  for (size_t d = 0; d < 2; d++) {
    mmc_context *context;
    mmc_chain *chain;
    mmc_plan *plan;
    mmc_run *run;
    int64_t from[] = {-1, 5, INT64_MIN, INT64_MAX, 7, 12}, to[6];
    mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
    options.device = devices[d];
    assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
    assert_int_equal(mmc_chain_parse(context, "i64%7:2x3:T", &chain), MMC_OK);
    assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_OK);
    assert_int_equal(mmc_run_create(plan, &run), MMC_OK);
    const mmc_matrix factor = {.data = from, .rows = 3, .cols = 2},
                     out = {.data = to, .rows = 2, .cols = 3};
    assert_int_equal(mmc_execute(run, &factor, &out), MMC_OK);
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 3; j++) {
        int64_t x = from[2 * j + i] % 7;
        assert_int_equal(to[3 * i + j], x < 0 ? x + 7 : x);
      }
    mmc_run_destroy(run);
    mmc_plan_destroy(plan);
    mmc_chain_destroy(chain);
    mmc_context_destroy(context);
  }
}

/* Of bool it is copied as 0 or 1, whatever byte stands for true and however it lies. */
static void one_factor_has_truths(void **state) {
  (void)state;
  const unsigned char from[] = {0, 1, 2, 128, 0, 255};
  for (int t = 0; t < 8; t++) {
    const mmc_op op = t & 1 ? MMC_OP_T : MMC_OP_N;
    const int64_t dims[] = {t & 1 ? 2 : 3, t & 1 ? 3 : 2};
    unsigned char to[6];
    mmc_context *context;
    mmc_chain *chain;
    mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
    options.device = devices[t >> 2];
    assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
    assert_int_equal(mmc_chain_create(context, MMC_BOOL, 1, dims, &op, &chain), MMC_OK);
    const mmc_matrix factor = {.data = (void *)from, .rows = 3, .cols = 2},
                     out = {.data = to,
                            .rows = dims[0],
                            .cols = dims[1],
                            .layout = t & 2 ? MMC_COL_MAJOR : MMC_ROW_MAJOR};
    assert_int_equal(mmc_multiply(context, chain, &options, &factor, &out), MMC_OK);
    for (int64_t i = 0; i < 3; i++)
      for (int64_t j = 0; j < 2; j++) {
        const int64_t row = t & 1 ? j : i, col = t & 1 ? i : j;
        assert_int_equal(to[t & 2 ? col * dims[0] + row : row * dims[1] + col],
                         from[2 * i + j] != 0);
      }
    mmc_chain_destroy(chain);
    mmc_context_destroy(context);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_are_exact),
      cmocka_unit_test(blocks_join),
      cmocka_unit_test(small_elements_of_a_large_modulus),
      cmocka_unit_test(extremes_are_exact),
#ifdef MMCI_WITH_BLAS
      cmocka_unit_test(digits_are_those_of_the_numbers),
      cmocka_unit_test(words_say_the_sum),
      cmocka_unit_test(several_products),
      cmocka_unit_test(tiles_wrap_around),
#endif
      cmocka_unit_test(rules_are_refused),
      cmocka_unit_test(rules_are_written),
      cmocka_unit_test(one_factor_has_residues),
      cmocka_unit_test(one_factor_has_truths),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
