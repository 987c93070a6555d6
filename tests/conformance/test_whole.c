/* test_whole.c: products whose sums are of whole numbers have the bits of plain loops, on every
 * device, by any form, added to what is there or not, in a batch, from left or from right; and
 * those loops are as near to exact sums as whole.h promises. */
#include <float.h>
#include <inttypes.h>
#include <stdio.h>

#include "../../bench/faithful_data.h"
#include "../how_many.h"
#include "../random.h"
#include "device/blas/integer_gemm.h"
#include "device/ref/ref_whole.h"
#include "device/whole/whole.h"
#include "device_stacks.h"
#include "product_case.h"

static const uint64_t seed = 20261128;

/* Elements by kinds of data, and in some rows of op(A) and columns of op(B) what cannot be scaled,
 * or what few elements outweigh. */
static void fill(stack *x, bool by_columns, faithful_data data, uint64_t *random) {
  for (int64_t i = 0; i < x->batch; i++)
    for (int64_t r = 0; r < x->rows; r++)
      for (int64_t c = 0; c < x->cols; c++) {
        const int64_t line = by_columns ? c : r, at = by_columns ? r : c;
        const double grade = line % 11 == 3 ? 0x1p-60 : 1;
        element value = {faithful_draw(data, random) * grade, faithful_draw(data, random) * grade};
        if (line % 13 == 5 && at % 2 == 0) value = (element){0, -0.0};
        if (line % 17 == 6 && at % 3 != 0) value = (element){0, 0};
        if (line % 19 == 7 && at == 0) value.re = line % 2 == 0 ? (double)INFINITY : (double)NAN;
        if (line % 23 == 8 && at == 0) value.im = x->dtype == MMC_C128 ? 1e300 : 1e37;
        if (line % 29 == 9) value = (element){ldexp(value.re, -140), value.im * 1e-44};
        if (line % 7 == 1) value = (element){rint(8 * value.re), rint(3 * value.im)};
        if (line % 31 == 10) value = (element){0, 0};
        element_write(x->dtype, x->host + place(x, i, r, c), value);
      }
}

static unsigned char *copy_of(const stack *x) {
  unsigned char *copy = malloc(x->bytes);
  if (copy != NULL) memcpy(copy, x->host, x->bytes);
  return copy;
}

static void show(const mmci_gemm *g, faithful_data data) {
  printf("  %s %" PRId64 "x%" PRId64 "x%" PRId64 " @%" PRId64
         ", %s, forms %d%d %d%d, added %d, turned %d\n",
         mmc_dtype_name(g->dtype), g->m, g->k, g->n, g->batch, faithful_data_name(data), g->a.trans,
         g->a.conj, g->b.trans, g->b.conj, g->accumulate, g->turned);
}

/* Multiplies on the device and by plain loops, and compares all bytes. */
static void compare(const subject *on, const mmci_gemm *gemm, const stack *a, const stack *b,
                    stack *c, faithful_data data) {
  mmci_error error = {0};
  mmci_kernel *kernel = NULL;
  unsigned char *expected = copy_of(c);
  if (!expect(expected != NULL, "memory")) return;
  mmc_status status = on->ops->prepare(on->device, gemm, &kernel, &error);
  if (status == MMC_OK) status = device_stack_upload(a, on, on->queue, &error);
  if (status == MMC_OK) status = device_stack_upload(b, on, on->queue, &error);
  if (status == MMC_OK) status = device_stack_upload(c, on, on->queue, &error);
  if (status == MMC_OK)
    status = on->ops->enqueue(on->queue, kernel, device_stack_argument(a), device_stack_argument(b),
                              device_stack_argument(c), &error);
  if (status == MMC_OK) status = device_stack_download(c, on, on->queue, &error);
  for (int64_t i = 0; i < c->batch && status == MMC_OK; i++)
    status = mmci_ref_whole(gemm, a->host + place(a, i, 0, 0), b->host + place(b, i, 0, 0),
                            expected + place(c, i, 0, 0), &error);
  if (expect_ok(status, &error, "a product of whole numbers") &&
      !expect(memcmp(expected, c->host, c->bytes) == 0, "bits"))
    show(gemm, data);
  if (kernel != NULL) on->ops->release(kernel);
  free(expected);
}

static void try_one(const subject *on, mmc_dtype dtype, const int64_t *size, faithful_data data,
                    uint64_t *random) {
  const int64_t m = size[0], k = size[1], n = size[2];
  const int forms = mmci_dtype_is_complex(dtype) ? 4 : 2, gap = (int)random_below(random, 3);
  mmci_gemm gemm = mmci_gemm_tight(dtype, MMCI_REPRODUCIBLE_FAITHFUL, m, k, n, MMC_OP_N, MMC_OP_N);
  gemm.sums = MMCI_SUMS_WHOLE;
  gemm.a = form_of((int)random_below(random, forms), m, k, gap);
  gemm.b = form_of((int)random_below(random, forms), k, n, 2 * gap);
  gemm.batch = random_below(random, 4) == 0 ? 3 : 1;
  /* What takes plain loops long is real and no batch in short. */
  const int64_t most = is_in_full() ? INT64_MAX : 1200000;
  if (m * k * n * (mmci_dtype_is_complex(dtype) ? 4 : 1) > most) return;
  if (m * k * n * gemm.batch > most) gemm.batch = 1;
  gemm.a.stride = gemm.a.ld * (gemm.a.trans ? k : m);
  gemm.b.stride = random_below(random, 2) == 0 ? 0 : gemm.b.ld * (gemm.b.trans ? n : k);
  gemm.ldc = n + 3 * gap;
  gemm.c_stride = gemm.ldc * m;
  gemm.accumulate = random_below(random, 3) == 0;
  gemm.turned = random_below(random, 2) == 0;
  if (!on->ops->supports(on->device, &gemm)) gemm.batch = 1;
  if (!on->ops->supports(on->device, &gemm)) return;
  stack a, b, c;
  const int shift = (int)random_below(random, 2);
  const bool has_a = device_stack_create(&a, on, dtype, m, k, gemm.batch, gemm.a, shift);
  const bool has_b = device_stack_create(&b, on, dtype, k, n, gemm.batch, gemm.b, shift);
  const bool has_c = device_stack_create(&c, on, dtype, m, n, gemm.batch,
                                         (mmci_form){.ld = gemm.ldc, .stride = gemm.c_stride}, 0);
  if (expect(has_a && has_b && has_c, "memory")) {
    fill(&a, false, data, random);
    fill(&b, true, data, random);
    if (gemm.accumulate) stack_fill(&c, false, random);
    compare(on, &gemm, &a, &b, &c, data);
  }
  device_stack_destroy(&a, on);
  device_stack_destroy(&b, on);
  device_stack_destroy(&c, on);
}

static bool has_whole(const subject *on) {
  return on->is_cuda || on->is_blas || strcmp(on->name, "ref") == 0;
}

/* Plain loops look at a row for every element, which takes long: in short, the CPU has a third of
 * the cases by what is chosen, and the others by each of its ways. */
static void test_some_bits(const subject *on, int part) {
  static const int64_t sizes[][3] = {{1, 1, 1},     {1, 40, 1},   {5, 1, 7},     {33, 130, 65},
                                     {70, 200, 3},  {2, 300, 90}, {40, 257, 41}, {129, 64, 130},
                                     {17, 1100, 9}, {3, 4000, 5}, {16, 16, 16}};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  uint64_t random = seed;
  printf("seed %" PRIu64 "\n", seed);
  if (!has_whole(on)) return;
  for (int t = 0; t < SIZES * 4 * (on->small || !is_in_full() ? 1 : 5); t++) {
    static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128};
    const faithful_data data = (faithful_data)random_below(&random, FAITHFUL_DATA);
    if (on->small && t % 5 != 0) continue;
    if (on->is_blas && !is_in_full() && (t + t / 4) % 3 != part) continue;
    try_one(on, dtypes[t % 4], sizes[t / 4 % SIZES], data, &random);
  }
}

static void test_bits(const subject *on) {
  test_some_bits(on, 0);
}

/* A product that is turned has the elements of one that is not. */
static void test_turned(const subject *on) {
  enum { M = 23, K = 70, N = 31, SIZE = 16 };
  static unsigned char a[M * K * SIZE], b[K * N * SIZE], c[M * N * SIZE], turned[M * N * SIZE];
  uint64_t random = seed + 3;
  if (strcmp(on->name, "ref") != 0) return;
  for (int t = 0; t < 4 * FAITHFUL_DATA; t++) {
    static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128};
    const mmc_dtype dtype = dtypes[t % 4];
    const size_t size = mmc_dtype_size(dtype);
    stack left, right;
    mmci_error error = {0};
    mmci_gemm gemm =
        mmci_gemm_tight(dtype, MMCI_REPRODUCIBLE_FAITHFUL, M, K, N, MMC_OP_N, MMC_OP_N);
    gemm.sums = MMCI_SUMS_WHOLE;
    const bool has_left = device_stack_create(&left, on, dtype, M, K, 1, gemm.a, 0);
    const bool has_right = device_stack_create(&right, on, dtype, K, N, 1, gemm.b, 0);
    if (expect(has_left && has_right, "memory")) {
      fill(&left, false, (faithful_data)(t / 4), &random);
      fill(&right, true, (faithful_data)(t / 4), &random);
      memcpy(a, left.host + place(&left, 0, 0, 0), M * K * size);
      memcpy(b, right.host + place(&right, 0, 0, 0), K * N * size);
      expect_ok(mmci_ref_whole(&gemm, a, b, c, &error), &error, "upright");
      mmci_gemm other =
          mmci_gemm_tight(dtype, MMCI_REPRODUCIBLE_FAITHFUL, N, K, M, MMC_OP_T, MMC_OP_T);
      other.a.conj = other.b.conj = false;
      other.sums = MMCI_SUMS_WHOLE;
      other.turned = true;
      expect_ok(mmci_ref_whole(&other, b, a, turned, &error), &error, "turned");
      bool same = true;
      for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++)
          same = same && memcmp(c + (i * N + j) * size, turned + (j * M + i) * size, size) == 0;
      if (!expect(same, "bits of turned products")) show(&gemm, (faithful_data)(t / 4));
    }
    device_stack_destroy(&left, on);
    device_stack_destroy(&right, on);
  }
}

/* More rows and columns than a block of the CPU's has, of which some are left to FP64. */
static void test_blocks(const subject *on) {
  static const int64_t sizes[][3] = {{1030, 12, 70}, {7, 9, 2060}, {1030, 12, 1050}};
  uint64_t random = seed + 1;
  if (!has_whole(on) || on->small) return;
  for (int t = 0; t < how_many(4, 6); t++)
    try_one(on, t % 2 == 0 ? MMC_F32 : MMC_C128, sizes[t / 2], FAITHFUL_NORMAL, &random);
}

/* The CPU multiplies words, or doubles, by what processors do faster. */
static void test_both_ways(const subject *on) {
#ifdef MMCI_WITH_BLAS
  static const mmci_word_prices prices[] = {{0.1, 0.1, 0.1},
                                            {(double)INFINITY, (double)INFINITY, (double)INFINITY}};
  for (int p = 0; p < 2 && on->is_blas; p++) {
    mmci_integer_prices_of_test = &prices[p];
    test_some_bits(on, 1 + p);
    test_blocks(on);
  }
  mmci_integer_prices_of_test = NULL;
#else
  (void)on;
#endif
}

/* Groups of products have no such sums. */
static void test_groups(const subject *on) {
  static const mmci_form forms[] = {{.ld = 12000}, {.ld = 1000}};
  static const mmci_group_product product = {520, 12000, 1000, 0, 1};
  const mmci_group group = {.dtype = MMC_F32,
                            .precision = MMCI_REPRODUCIBLE_FAITHFUL,
                            .batch = 2,
                            .n = 2,
                            .count = 1,
                            .forms = forms,
                            .products = &product,
                            .ldc = 1000};
  if (on->ops->group_supports == NULL) return;
  expect(!on->ops->group_supports(on->device, &group), "no group has sums of whole numbers");
}

/* ---- the arithmetic -------------------------------------------------------------------------- */

/* Says how far sums of whole numbers are off, and those of the dtype's own chain, in norm. */
static void errors_of(mmc_dtype dtype, int64_t k, faithful_data data, uint64_t *random,
                      double *whole, double *native) {
  enum { SIDE = 12 };
  mmci_gemm gemm =
      mmci_gemm_tight(dtype, MMCI_REPRODUCIBLE_FAITHFUL, SIDE, k, SIDE, MMC_OP_N, MMC_OP_T);
  mmci_error error = {0};
  const size_t size = mmc_dtype_size(dtype), count = (size_t)(SIDE * k);
  unsigned char *a = malloc(count * size), *b = malloc(count * size), c[SIDE * SIDE * 8];
  *whole = *native = 0;
  if (!expect(a != NULL && b != NULL, "memory")) return;
  for (size_t at = 0; at < count; at++) {
    element_write(dtype, a + at * size, (element){faithful_draw(data, random), 0});
    element_write(dtype, b + at * size, (element){faithful_draw(data, random), 0});
  }
  gemm.sums = MMCI_SUMS_WHOLE;
  expect_ok(mmci_ref_whole(&gemm, a, b, c, &error), &error, "whole numbers");
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++) {
      long double sum = 0;
      float single = 0;
      double chain = 0;
      for (int64_t d = 0; d < k; d++) {
        const double x = element_read(dtype, a + (size_t)(i * k + d) * size).re,
                     y = element_read(dtype, b + (size_t)(j * k + d) * size).re;
        sum += (long double)x * (long double)y;
        single = fmaf((float)x, (float)y, single);
        chain = fma(x, y, chain);
      }
      const double got = element_read(dtype, c + (size_t)(i * SIDE + j) * size).re;
      const long double off = got - sum,
                        by_chain = (dtype == MMC_F32 ? (double)single : chain) - sum;
      *whole += (double)(off * off);
      *native += (double)(by_chain * by_chain);
    }
  free(a);
  free(b);
}

/* Chains of sums, which are what native arithmetic is, are off by more. */
static void test_errors(const subject *on) {
  uint64_t random = seed + 2;
  if (strcmp(on->name, "ref") != 0 || on->small) return;
  for (int t = 0; t < 2 * FAITHFUL_DATA; t++) {
    const faithful_data data = (faithful_data)(t / 2);
    const mmc_dtype dtype = t % 2 == 0 ? MMC_F32 : MMC_F64;
    double whole, native;
    errors_of(dtype, 4096, data, &random, &whole, &native);
    if (!expect(whole <= native, "no less accurate than a chain of sums"))
      printf("  %s %s: %g, chain %g\n", mmc_dtype_name(dtype), faithful_data_name(data),
             sqrt(whole), sqrt(native));
  }
}

int main(int argc, char **argv) {
  static const conformance_test tests[] = {
      {"bits", test_bits, true},
      {"groups", test_groups, true},
      {"turned", test_turned, false},
      {"blocks", test_blocks, false},
      {"both ways of the CPU", test_both_ways, false},
      {"errors", test_errors, false},
      {.name = NULL},
  };
  return conformance_main(argc, argv, tests);
}
