/* test_ranges.c: products of ranges of a row that changes, against the same products from left to
 * right; how many products they take; what is wrong is an error.
 *
 * Factors are orthogonal, so that a product of any length has elements of the size of 1 and every
 * factor counts. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "mmchain.h"

enum { MOST = 4096, SIDE = 5, BATCH = 3 };

/* A row as it should be. */
typedef struct mirror {
  mmc_context *context;
  mmc_ranges *ranges;
  int64_t side, batch, length;
  double *factors; /* MOST times batch matrices */
  uint64_t state, seed;
} mirror;

static int64_t elements(const mirror *x) {
  return x->side * x->side * x->batch;
}

static double *factor(const mirror *x, int64_t i) {
  return x->factors + i * elements(x);
}

/* An orthogonal matrix: rotations of each pair of neighbours in turn. */
static void rotate(mirror *x, double *out) {
  const int64_t n = x->side;
  for (int64_t e = 0; e < n * n; e++) out[e] = e % (n + 1) == 0;
  for (int64_t r = 0; r + 1 < n; r++) {
    const double angle = 3 * random_unit(&x->state), c = cos(angle), s = sin(angle);
    for (int64_t j = 0; j < n; j++) {
      const double a = out[r * n + j], b = out[(r + 1) * n + j];
      out[r * n + j] = c * a - s * b;
      out[(r + 1) * n + j] = s * a + c * b;
    }
  }
}

static void draw(mirror *x, int64_t i) {
  for (int64_t t = 0; t < x->batch; t++) rotate(x, factor(x, i) + t * x->side * x->side);
}

static mmc_matrix matrix_of(const mirror *x, double *data) {
  return (mmc_matrix){.data = data, .rows = x->side, .cols = x->side, .stride = x->side * x->side};
}

static mirror open_mirror(int64_t side, int64_t batch, uint64_t limit) {
  mirror x = {.side = side, .batch = batch, .seed = 20261123};
  const char *seed = getenv("MMCHAIN_TEST_SEED");
  if (seed != NULL) x.seed = strtoull(seed, NULL, 10);
  x.state = x.seed;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "";
  assert_int_equal(mmc_context_create(&options, &x.context), MMC_OK);
  mmc_ranges_options with = MMC_RANGES_OPTIONS_INIT;
  with.batch = batch;
  with.memory_limit_bytes = limit;
  assert_int_equal(mmc_ranges_create(x.context, MMC_F64, side, &with, &x.ranges), MMC_OK);
  x.factors = calloc((size_t)(MOST * elements(&x)) + 1, sizeof *x.factors);
  assert_non_null(x.factors);
  return x;
}

static void close_mirror(mirror *x) {
  mmc_ranges_destroy(x->ranges);
  mmc_context_destroy(x->context);
  free(x->factors);
}

static void append(mirror *x, int64_t count) {
  mmc_matrix *added = calloc((size_t)count + 1, sizeof *added);
  assert_non_null(added);
  assert_true(x->length + count <= MOST);
  for (int64_t i = 0; i < count; i++) {
    draw(x, x->length + i);
    added[i] = matrix_of(x, factor(x, x->length + i));
  }
  assert_int_equal(mmc_ranges_append(x->ranges, count, added), MMC_OK);
  x->length += count;
  free(added);
}

static void pop(mirror *x, int64_t count) {
  assert_int_equal(mmc_ranges_pop_front(x->ranges, count), MMC_OK);
  x->length -= count;
  memmove(factor(x, 0), factor(x, count), (size_t)(x->length * elements(x)) * sizeof(double));
}

static void update(mirror *x, int64_t count) {
  int64_t *indices = calloc((size_t)count + 1, sizeof *indices);
  mmc_matrix *changed = calloc((size_t)count + 1, sizeof *changed);
  assert_true(indices != NULL && changed != NULL);
  for (int64_t i = 0; i < count; i++) {
    indices[i] = random_below(&x->state, x->length);
    draw(x, indices[i]);
    changed[i] = matrix_of(x, factor(x, indices[i]));
  }
  assert_int_equal(mmc_ranges_update(x->ranges, count, indices, changed), MMC_OK);
  free(indices);
  free(changed);
}

static mmc_ranges_info info_of(const mirror *x) {
  mmc_ranges_info info;
  assert_int_equal(mmc_ranges_describe(x->ranges, &info), MMC_OK);
  return info;
}

/* From left to right. */
static void multiply(const mirror *x, int64_t first, int64_t end, int64_t t, double *out) {
  const int64_t n = x->side;
  double next[64 * 64];
  for (int64_t e = 0; e < n * n; e++) out[e] = e % (n + 1) == 0;
  for (int64_t i = first; i < end; i++) {
    const double *a = factor(x, i) + t * n * n;
    for (int64_t r = 0; r < n; r++)
      for (int64_t c = 0; c < n; c++) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++) sum += out[r * n + k] * a[k * n + c];
        next[r * n + c] = sum;
      }
    memcpy(out, next, (size_t)(n * n) * sizeof *out);
  }
}

/* Rounding n terms a product in each of two orders. */
static double tolerance(const mirror *x, int64_t count) {
  return 2 * (double)(count + 1) * (double)x->side * sqrt((double)x->side) * DBL_EPSILON;
}

static void check(const mirror *x, int64_t first, int64_t end) {
  double got[BATCH * 64 * 64], want[64 * 64];
  const mmc_matrix out = matrix_of(x, got);
  for (int64_t e = 0; e < elements(x); e++) got[e] = NAN;
  assert_int_equal(mmc_ranges_product(x->ranges, first, end, &out), MMC_OK);
  for (int64_t t = 0; t < x->batch; t++) {
    multiply(x, first, end, t, want);
    for (int64_t e = 0; e < x->side * x->side; e++) {
      const double error = fabs(got[t * x->side * x->side + e] - want[e]);
      if (!(error <= tolerance(x, end - first)))
        fail_msg("%" PRId64 " to %" PRId64 " of %" PRId64 ", chain %" PRId64 ", element %" PRId64
                 ": off by %g (seed %" PRIu64 ")",
                 first, end, x->length, t, e, error, x->seed);
    }
  }
}

static void check_some(mirror *x) {
  const int64_t first = random_below(&x->state, x->length + 1);
  check(x, first, first + random_below(&x->state, x->length - first + 1));
}

/* ---- tests --------------------------------------------------------------------------------- */

/* Every range of short rows, whole ranges of lengths around powers of two. */
static void lengths(void **state) {
  (void)state;
  static const int64_t longer[] = {63, 64, 65, 127, 128, 129, 255, 257, 511, 512, 513, 1025};
  for (int64_t length = 0; length <= 20; length++) {
    mirror x = open_mirror(SIDE, 1, MMC_NO_LIMIT);
    append(&x, length);
    for (int64_t i = 0; i <= length; i++)
      for (int64_t j = i; j <= length; j++) check(&x, i, j);
    assert_int_equal(info_of(&x).length, length);
    close_mirror(&x);
  }
  for (int l = 0; l < 12; l++) {
    mirror x = open_mirror(SIDE, 1, MMC_NO_LIMIT);
    append(&x, longer[l]);
    check(&x, 0, longer[l]);
    for (int i = 0; i < 20; i++) check_some(&x);
    close_mirror(&x);
  }
}

/* One step in random order: changes, appending and cutting, one or many, and products. */
static void step(mirror *x, int64_t most) {
  switch (random_below(&x->state, 8)) {
    case 0:
    case 1:
      if (x->length > 0) update(x, 1);
      break;
    case 2:
      if (x->length > 0) update(x, random_below(&x->state, 2 * x->length));
      break;
    case 3:
      if (x->length < most) append(x, 1);
      break;
    case 4:
      append(x, random_below(&x->state, most - x->length + 1) / 3);
      break;
    case 5:
      pop(x, x->length > 0);
      break;
    case 6:
      pop(x, random_below(&x->state, x->length + 1) / 3);
      break;
    default:
      check(x, 0, x->length);
  }
  check_some(x);
}

static void random_order(void **state) {
  (void)state;
  mirror x = open_mirror(SIDE, 1, MMC_NO_LIMIT);
  for (int i = 0; i < 10000; i++) step(&x, 150);
  close_mirror(&x);
}

/* Of a batch; with blocks of several sizes; larger matrices than are multiplied together. */
static void random_kinds(void **state) {
  (void)state;
  static const struct {
    int64_t side, batch, most;
    int limit_percent; /* of what a row of that length takes without a limit */
    int steps;
  } kinds[] = {{4, BATCH, 60, 0, 1000}, {SIDE, 1, 100, 70, 1500}, {SIDE, 1, 100, 57, 1500},
               {3, BATCH, 90, 62, 800}, {1, 1, 40, 0, 500},       {64, 1, 12, 0, 60},
               {0, 1, 10, 0, 100},      {33, 2, 20, 70, 100}};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    uint64_t limit = MMC_NO_LIMIT;
    if (kinds[k].limit_percent > 0) {
      mirror whole = open_mirror(kinds[k].side, kinds[k].batch, MMC_NO_LIMIT);
      append(&whole, kinds[k].most);
      limit = info_of(&whole).bytes * (uint64_t)kinds[k].limit_percent / 100;
      close_mirror(&whole);
    }
    mirror x = open_mirror(kinds[k].side, kinds[k].batch, limit);
    int64_t largest = 0;
    for (int i = 0; i < kinds[k].steps; i++) {
      step(&x, kinds[k].most);
      mmc_ranges_info info = info_of(&x);
      assert_true(info.bytes <= limit);
      if (info.block > largest) largest = info.block;
    }
    assert_true(limit == MMC_NO_LIMIT ? largest == 2 : largest > 2);
    close_mirror(&x);
  }
}

/* One of 1000 factors changed takes at most 11 products, wherever the row begins. */
static void few_products(void **state) {
  (void)state;
  mirror x = open_mirror(2, 1, MMC_NO_LIMIT);
  append(&x, 1000);
  check(&x, 0, 1000);
  assert_true(info_of(&x).products <= 1000);
  for (int i = 0; i < 300; i++) {
    update(&x, 1);
    int64_t before = info_of(&x).products;
    check(&x, 0, 1000);
    int64_t all = info_of(&x).products;
    assert_in_range(all - before, 1, 11);
    check(&x, 0, 1000); /* which is kept */
    assert_true(info_of(&x).products <= all + 1);
    check_some(&x);
    assert_true(info_of(&x).products <= all + 1 + 21);
    append(&x, 1);
    pop(&x, 1);
    check(&x, 0, 1000);
  }
  /* Many changes are computed once for each node above them. */
  update(&x, 1000);
  const int64_t before = info_of(&x).products;
  check(&x, 0, 1000);
  assert_true(info_of(&x).products - before < 1000);
  close_mirror(&x);
}

/* A NaN is in the ranges that hold its factor, and in no other. */
static void poison(void **state) {
  (void)state;
  enum { LENGTH = 21 };
  mirror x = open_mirror(3, 1, MMC_NO_LIMIT);
  append(&x, LENGTH);
  check(&x, 0, LENGTH);
  for (int64_t p = 0; p < LENGTH; p++) {
    double nan[9], out[9];
    for (int e = 0; e < 9; e++) nan[e] = NAN;
    const mmc_matrix bad = matrix_of(&x, nan), good = matrix_of(&x, factor(&x, p));
    const mmc_matrix to = matrix_of(&x, out);
    assert_int_equal(mmc_ranges_update(x.ranges, 1, &p, &bad), MMC_OK);
    for (int64_t i = 0; i <= LENGTH; i++)
      for (int64_t j = i; j <= LENGTH; j++) {
        if (p < i || p >= j) {
          check(&x, i, j);
          continue;
        }
        assert_int_equal(mmc_ranges_product(x.ranges, i, j, &to), MMC_OK);
        for (int e = 0; e < 9; e++) assert_true(isnan(out[e]));
      }
    assert_int_equal(mmc_ranges_update(x.ranges, 1, &p, &good), MMC_OK);
  }
  check(&x, 0, LENGTH);
  close_mirror(&x);
}

/* The bits of a range do not depend on what was asked for before. */
static void same_bits(void **state) {
  (void)state;
  mirror x = open_mirror(SIDE, 1, MMC_NO_LIMIT), y = open_mirror(SIDE, 1, MMC_NO_LIMIT);
  double a[SIDE * SIDE], b[SIDE * SIDE];
  append(&x, 100);
  append(&y, 37); /* of the same seed */
  for (int i = 0; i < 63; i++) {
    check_some(&x);
    append(&y, 1);
    check(&y, 0, y.length);
  }
  assert_memory_equal(factor(&y, 0), factor(&x, 0), sizeof a);
  const mmc_matrix to_a = matrix_of(&x, a), to_b = matrix_of(&y, b);
  for (int64_t i = 0; i < 100; i += 7)
    for (int64_t j = i; j <= 37; j += 3) {
      assert_int_equal(mmc_ranges_product(x.ranges, i, j, &to_a), MMC_OK);
      assert_int_equal(mmc_ranges_product(y.ranges, i, j, &to_b), MMC_OK);
      assert_memory_equal(a, b, sizeof a);
    }
  close_mirror(&x);
  close_mirror(&y);
}

/* Factors and results lie as they like; every dtype has its identity. */
static void layouts(void **state) {
  (void)state;
  mirror x = open_mirror(3, 2, MMC_NO_LIMIT);
  double by_columns[2][3 * 4], first[9], second[9], out[2 * 20];
  append(&x, 1);
  draw(&x, 1);
  void *at[] = {by_columns[1], by_columns[0]}, *to[] = {out + 20, out};
  for (int t = 0; t < 2; t++)
    for (int r = 0; r < 3; r++)
      for (int c = 0; c < 3; c++) by_columns[1 - t][c * 4 + r] = factor(&x, 1)[t * 9 + r * 3 + c];
  const mmc_matrix columns = {
      .rows = 3, .cols = 3, .ld = 4, .layout = MMC_COL_MAJOR, .addresses = at};
  const mmc_matrix result = {
      .rows = 3, .cols = 3, .ld = 6, .layout = MMC_COL_MAJOR, .addresses = to};
  assert_int_equal(mmc_ranges_append(x.ranges, 1, &columns), MMC_OK);
  for (int e = 0; e < 40; e++) out[e] = -7;
  assert_int_equal(mmc_ranges_product(x.ranges, 0, 2, &result), MMC_OK);
  multiply(&x, 0, 2, 0, first);
  multiply(&x, 0, 2, 1, second);
  for (int c = 0; c < 3; c++)
    for (int r = 0; r < 6; r++)
      if (r < 3) {
        assert_true(fabs(out[20 + c * 6 + r] - first[r * 3 + c]) <= 1e-14);
        assert_true(fabs(out[c * 6 + r] - second[r * 3 + c]) <= 1e-14);
      } else if (c < 2) {
        assert_true(out[20 + c * 6 + r] == -7 && out[c * 6 + r] == -7);
      }
  static const unsigned char ones[][16] = {
      [MMC_F32] = {0, 0, 0x80, 0x3F}, [MMC_F64] = {0, 0, 0, 0, 0, 0, 0xF0, 0x3F},
      [MMC_C64] = {0, 0, 0x80, 0x3F}, [MMC_C128] = {0, 0, 0, 0, 0, 0, 0xF0, 0x3F},
      [MMC_F16] = {0, 0x3C},          [MMC_BF16] = {0x80, 0x3F}};
  for (int d = MMC_F32; d <= MMC_BF16; d++) {
    mmc_ranges *one;
    unsigned char got[16];
    const mmc_matrix scalar = {.data = got, .rows = 1, .cols = 1};
    assert_int_equal(mmc_ranges_create(x.context, (mmc_dtype)d, 1, NULL, &one), MMC_OK);
    assert_int_equal(mmc_ranges_product(one, 0, 0, &scalar), MMC_OK);
    assert_memory_equal(got, ones[d], mmc_dtype_size((mmc_dtype)d));
    mmc_ranges_destroy(one);
  }
  close_mirror(&x);
}

/* What is wrong is named, and changes nothing. */
static void errors(void **state) {
  (void)state;
  mirror x = open_mirror(3, 1, MMC_NO_LIMIT);
  double data[9] = {0}, out[9];
  append(&x, 6);
  mmc_matrix good = matrix_of(&x, data), wide = good, null = good, to = matrix_of(&x, out);
  wide.cols = 4;
  null.data = NULL;
  const mmc_matrix one_bad[] = {good, wide};
  const int64_t beyond[] = {1, 6}, negative[] = {1, -1}, fine[] = {0, 1};
#define FAILS(call, status, name)                               \
  do {                                                          \
    char argument[32];                                          \
    assert_int_equal(call, status);                             \
    mmc_context_argument(x.context, argument, sizeof argument); \
    assert_string_equal(argument, name);                        \
  } while (0)
  FAILS(mmc_ranges_product(x.ranges, -1, 2, &to), MMC_E_ARG, "first");
  FAILS(mmc_ranges_product(x.ranges, 7, 7, &to), MMC_E_ARG, "first");
  FAILS(mmc_ranges_product(x.ranges, 3, 2, &to), MMC_E_ARG, "end");
  FAILS(mmc_ranges_product(x.ranges, 3, 7, &to), MMC_E_ARG, "end");
  FAILS(mmc_ranges_product(x.ranges, 0, 6, &wide), MMC_E_ARG, "out");
  FAILS(mmc_ranges_product(x.ranges, 0, 6, &null), MMC_E_ARG, "out");
  const mmc_matrix two[] = {good, good};
  FAILS(mmc_ranges_update(x.ranges, 2, beyond, two), MMC_E_ARG, "indices");
  FAILS(mmc_ranges_update(x.ranges, 2, negative, two), MMC_E_ARG, "indices");
  FAILS(mmc_ranges_update(x.ranges, 2, NULL, two), MMC_E_ARG, "indices");
  FAILS(mmc_ranges_update(x.ranges, 2, fine, one_bad), MMC_E_ARG, "factors");
  FAILS(mmc_ranges_update(x.ranges, -1, fine, two), MMC_E_ARG, "count");
  FAILS(mmc_ranges_append(x.ranges, 2, one_bad), MMC_E_ARG, "factors");
  FAILS(mmc_ranges_append(x.ranges, -2, two), MMC_E_ARG, "count");
  FAILS(mmc_ranges_pop_front(x.ranges, 7), MMC_E_ARG, "count");
  FAILS(mmc_ranges_pop_front(x.ranges, -1), MMC_E_ARG, "count");
  check(&x, 0, 6);
  mmc_ranges *none;
  mmc_ranges_options options = MMC_RANGES_OPTIONS_INIT;
  options.batch = 0;
  FAILS(mmc_ranges_create(x.context, MMC_F64, 3, &options, &none), MMC_E_ARG, "batch");
  FAILS(mmc_ranges_create(x.context, MMC_F64, -3, NULL, &none), MMC_E_ARG, "n");
  FAILS(mmc_ranges_create(x.context, (mmc_dtype)99, 3, NULL, &none), MMC_E_ARG, "dtype");
  options.batch = INT64_MAX;
  FAILS(mmc_ranges_create(x.context, MMC_F64, 3, &options, &none), MMC_E_OVERFLOW, "batch");
  FAILS(mmc_ranges_create(x.context, MMC_F64, INT64_C(1) << 31, NULL, &none), MMC_E_OVERFLOW, "n");
  /* A limit that holds six factors and little more. */
  close_mirror(&x);
  x = open_mirror(3, 1, 2000);
  append(&x, 6);
  mmc_matrix *many = calloc(40, sizeof *many);
  assert_non_null(many);
  for (int i = 0; i < 40; i++) many[i] = good;
  FAILS(mmc_ranges_append(x.ranges, 40, many), MMC_E_MEMORY_LIMIT, "memory limit");
  free(many);
  check(&x, 0, 6);
  close_mirror(&x);
}

/* Where matrices lie is checked as it is for a chain: what no memory can hold is read from nowhere,
 * and results of a batch lie apart. */
static void places(void **state) {
  (void)state;
  mirror x = open_mirror(3, 2, MMC_NO_LIMIT);
  double data[20] = {0}, out[20];
  append(&x, 2);
  mmc_matrix good = matrix_of(&x, data), beyond = good, odd = good, to = matrix_of(&x, out);
  beyond.stride = INT64_MAX;
  odd.data = (char *)data + 1;
  FAILS(mmc_ranges_append(x.ranges, 1, &beyond), MMC_E_ARG, "factors");
  FAILS(mmc_ranges_append(x.ranges, 1, &odd), MMC_E_ARG, "factors");
  const int64_t first[] = {0};
  FAILS(mmc_ranges_update(x.ranges, 1, first, &beyond), MMC_E_ARG, "factors");
  to.stride = 0;
  FAILS(mmc_ranges_product(x.ranges, 0, 2, &to), MMC_E_ARG, "out");
  to.stride = 8;
  FAILS(mmc_ranges_product(x.ranges, 0, 2, &to), MMC_E_ARG, "out");
  to.data = (char *)out + 4;
  to.stride = 9;
  FAILS(mmc_ranges_product(x.ranges, 0, 2, &to), MMC_E_ARG, "out");
  void *one_place[] = {out, out + 4};
  to.data = NULL;
  to.addresses = one_place;
  FAILS(mmc_ranges_product(x.ranges, 0, 2, &to), MMC_E_ARG, "out");
  check(&x, 0, 2);
  close_mirror(&x);
}

/* Writes c = a b of 4 x 4 matrices over max-plus. */
static void greatest_sums(const double *a, const double *b, double *c) {
  double out[16];
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      out[4 * i + j] = -INFINITY;
      for (int k = 0; k < 4; k++)
        out[4 * i + j] = fmax(out[4 * i + j], a[4 * i + k] + b[4 * k + j]);
    }
  memcpy(c, out, sizeof out);
}

/* Products over max-plus of whole numbers, which are exact, while the row changes. */
static void semirings(void **state) {
  (void)state;
  enum { N = 4, ROOM = 600 };
  mirror x = open_mirror(N, 1, MMC_NO_LIMIT);
  mmc_ranges_options options = MMC_RANGES_OPTIONS_INIT;
  mmc_ranges *row;
  options.semiring = MMC_MAX_PLUS;
  assert_int_equal(mmc_ranges_create(x.context, MMC_F64, N, &options, &row), MMC_OK);
  double expected[N * N], got[N * N];
  mmc_matrix out = matrix_of(&x, got);
  int64_t first = 0, length = 0;
  for (int round = 0; round < 300; round++) {
    for (int append = 0; append < 2; append++, length++) {
      double *at = factor(&x, first + length);
      for (int e = 0; e < N * N; e++) at[e] = floor(200 * random_unit(&x.state)) - 100;
      if (round % 7 == 0) at[round % 16] = -INFINITY;
      const mmc_matrix one = matrix_of(&x, at);
      assert_int_equal(mmc_ranges_append(row, 1, &one), MMC_OK);
    }
    const int64_t i = random_below(&x.state, length);
    factor(&x, first + i)[round % 16] += 50;
    const mmc_matrix one = matrix_of(&x, factor(&x, first + i));
    assert_int_equal(mmc_ranges_update(row, 1, &i, &one), MMC_OK);
    if (round % 3 == 0) {
      assert_int_equal(mmc_ranges_pop_front(row, 1), MMC_OK);
      first++;
      length--;
    }
    const int64_t begin = random_below(&x.state, length + 1);
    const int64_t end = begin + random_below(&x.state, length - begin + 1);
    for (int e = 0; e < N * N; e++) expected[e] = e % (N + 1) == 0 ? 0 : -INFINITY;
    for (int64_t t = begin; t < end; t++) greatest_sums(expected, factor(&x, first + t), expected);
    assert_int_equal(mmc_ranges_product(row, begin, end, &out), MMC_OK);
    for (int e = 0; e < N * N; e++)
      if (!(got[e] == expected[e]))
        fail_msg("seed %" PRIu64 ", round %d, factors %" PRId64 " to %" PRId64
                 ", element %d: %g, not %g",
                 x.seed, round, begin, end, e, got[e], expected[e]);
  }
  mmc_ranges_destroy(row);
  FAILS(mmc_ranges_create(x.context, MMC_C64, N, &options, &row), MMC_E_ARG, "semiring");
  options.scaled = true;
  FAILS(mmc_ranges_create(x.context, MMC_F64, N, &options, &row), MMC_E_ARG, "scaled");
  close_mirror(&x);
}

/* However many matrices without elements there are, they take no time. */
static void no_elements(void **state) {
  (void)state;
  mmc_context *context;
  mmc_ranges *row;
  const mmc_matrix empty = {.data = NULL};
  mmc_ranges_options options = MMC_RANGES_OPTIONS_INIT;
  options.batch = INT64_C(1) << 62;
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  assert_int_equal(mmc_ranges_create(context, MMC_F64, 0, &options, &row), MMC_OK);
  for (int t = 0; t < 3; t++) assert_int_equal(mmc_ranges_append(row, 1, &empty), MMC_OK);
  assert_int_equal(mmc_ranges_product(row, 0, 3, &empty), MMC_OK);
  assert_int_equal(mmc_ranges_product(row, 1, 1, &empty), MMC_OK);
  mmc_ranges_destroy(row);
  mmc_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lengths),      cmocka_unit_test(random_order),
      cmocka_unit_test(random_kinds), cmocka_unit_test(few_products),
      cmocka_unit_test(poison),       cmocka_unit_test(same_bits),
      cmocka_unit_test(layouts),      cmocka_unit_test(errors),
      cmocka_unit_test(places),       cmocka_unit_test(semirings),
      cmocka_unit_test(no_elements),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
