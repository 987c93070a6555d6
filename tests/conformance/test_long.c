/* test_long.c: long products, whose sums are in pieces of 1024 terms, have the bits of plain loops,
 * on every device, by any form, added to what is there or not, in a batch, at addresses, turned or
 * not; and those loops have the bits of the definition. What is long ends where it should. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "../how_many.h"
#include "../random.h"
#include "base/half.h"
#include "device/ref/ref_ordered.h"
#include "device_stacks.h"
#include "product_case.h"

static const uint64_t seed = 20261129;

/* Elements of both signs, in some cases with zeros, denormal and huge numbers, infinities and NaN.
 */
static void fill(stack *x, int kind, uint64_t *random) {
  static const double odd[] = {0.0, -0.0, 1e-310, -1e-41, 3e38, -1e300, 6e-8, 1};
  for (int64_t i = 0; i < x->batch; i++)
    for (int64_t r = 0; r < x->rows; r++)
      for (int64_t c = 0; c < x->cols; c++) {
        element value = {random_unit(random), random_unit(random)};
        if (kind == 1) value.re *= pow(10, (double)random_below(random, 20) - 10);
        if (kind >= 2 && random_below(random, 4) == 0) value.re = odd[random_below(random, 8)];
        if (kind >= 2 && random_below(random, 4) == 0) value.im = odd[random_below(random, 8)];
        if (kind == 3 && random_below(random, 20000) == 0) value.re = (double)NAN;
        if (kind == 3 && random_below(random, 20000) == 0) value.im = -(double)INFINITY;
        if (kind == 4) value = (element){-1e-160 * value.re * value.re, 1e-22 * value.im};
        element_write(x->dtype, x->host + place(x, i, r, c), value);
      }
}

static void show(const mmci_gemm *g, int kind) {
  printf("  %s %" PRId64 "x%" PRId64 "x%" PRId64 " @%" PRId64
         ", data %d, forms %d%d%d %d%d%d, lines %" PRId64 " %" PRId64 ", added %d, turned %d\n",
         mmc_dtype_name(g->dtype), g->m, g->k, g->n, g->batch, kind, g->a.trans, g->a.conj,
         g->a.gathered, g->b.trans, g->b.conj, g->b.gathered, g->a.ld, g->b.ld, g->accumulate,
         g->turned);
}

/* Multiplies on the device and by plain loops, and compares all bytes. */
static void compare(const subject *on, const mmci_gemm *gemm, const stack *a, const stack *b,
                    stack *c, int kind) {
  mmci_error error = {0};
  mmci_kernel *kernel = NULL;
  unsigned char *expected = malloc(c->bytes);
  if (!expect(expected != NULL, "memory")) return;
  memcpy(expected, c->host, c->bytes);
  mmc_status status = on->ops->prepare(on->device, gemm, &kernel, &error);
  if (status == MMC_OK) status = device_stack_upload(a, on, on->queue, &error);
  if (status == MMC_OK) status = device_stack_upload(b, on, on->queue, &error);
  if (status == MMC_OK) status = device_stack_upload(c, on, on->queue, &error);
  if (status == MMC_OK)
    status = on->ops->enqueue(on->queue, kernel, device_stack_argument(a), device_stack_argument(b),
                              device_stack_argument(c), &error);
  if (status == MMC_OK) status = device_stack_download(c, on, on->queue, &error);
  for (int64_t i = 0; i < c->batch && status == MMC_OK; i++)
    mmci_ref_ordered(gemm, a->host + place(a, i, 0, 0), b->host + place(b, i, 0, 0),
                     expected + place(c, i, 0, 0));
  if (expect_ok(status, &error, "a long product") &&
      !expect(memcmp(expected, c->host, c->bytes) == 0, "bits"))
    show(gemm, kind);
  if (kernel != NULL) on->ops->release(kernel);
  free(expected);
}

static mmci_form long_form(bool trans, bool conj, bool gathered, int64_t rows, int64_t cols,
                           int64_t gap) {
  mmci_form form = {.trans = trans, .conj = conj, .gathered = gathered};
  form.ld = (trans ? rows : cols) + gap;
  form.stride = form.ld * (trans ? cols : rows);
  return form;
}

static void try_one(const subject *on, mmc_dtype dtype, const int64_t *size, uint64_t *random) {
  const int64_t m = size[0], k = size[1], n = size[2];
  const int kind = (int)random_below(random, 5);
  /* A GPU's tensor cores have bits of their own in 16 bits. */
  if (on->is_cuda && mmc_dtype_size(dtype) == 2) return;
  const bool is_complex = mmci_dtype_is_complex(dtype), is_table = random_below(random, 5) == 0;
  mmci_gemm gemm = mmci_gemm_tight(dtype, MMCI_REPRODUCIBLE, m, k, n, MMC_OP_N, MMC_OP_N);
  mmci_gemm_choose_sums(&gemm);
  expect(gemm.sums == MMCI_SUMS_PIECES, "a long product");
  const int64_t gap = random_below(random, 2) * random_below(random, 9);
  gemm.a = long_form(random_below(random, 2), is_complex && random_below(random, 2),
                     is_table && random_below(random, 2), m, k, gap);
  gemm.b = long_form(random_below(random, 2), is_complex && random_below(random, 2), is_table, k, n,
                     random_below(random, 2) * gap);
  gemm.batch = is_table || random_below(random, 4) == 0 ? 1 + random_below(random, 4) : 1;
  /* What takes plain loops long is no batch in short. */
  if (!is_in_full() && m * k * n * gemm.batch * (is_complex ? 4 : 1) > 5000000) gemm.batch = 1;
  if (!gemm.b.gathered && random_below(random, 2) == 0) gemm.b.stride = 0;
  gemm.ldc = n + random_below(random, 2) * random_below(random, 4);
  gemm.c_stride = gemm.ldc * m;
  gemm.accumulate = random_below(random, 3) == 0;
  gemm.turned = random_below(random, 2) == 0;
  if (!expect(on->ops->supports(on->device, &gemm) || gemm.batch > 1, "support")) return;
  if (!on->ops->supports(on->device, &gemm)) return;
  stack a, b, c;
  const int shift = (int)random_below(random, 2);
  const bool has_a = device_stack_create(&a, on, dtype, m, k, gemm.batch, gemm.a, shift);
  const bool has_b = device_stack_create(&b, on, dtype, k, n, gemm.batch, gemm.b, shift);
  const bool has_c = device_stack_create(&c, on, dtype, m, n, gemm.batch,
                                         (mmci_form){.ld = gemm.ldc, .stride = gemm.c_stride}, 0);
  if (expect(has_a && has_b && has_c, "memory")) {
    fill(&a, kind, random);
    fill(&b, kind == 4 ? 0 : kind, random);
    fill(&c, kind, random);
    compare(on, &gemm, &a, &b, &c, kind);
  }
  device_stack_destroy(&a, on);
  device_stack_destroy(&b, on);
  device_stack_destroy(&c, on);
}

static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128, MMC_F16, MMC_BF16};

/* Other devices of tests have no reproducible products. */
static bool has_long(const subject *on) {
  return on->is_cuda || on->is_blas || strcmp(on->name, "ref") == 0;
}

/* Sizes about the bounds, a last piece of one term, and every way of the CPU: dots, rows, tiles. */
static void test_bits(const subject *on) {
  static const int64_t sizes[][3] = {{1, 4096, 1},  {1, 4097, 1},   {1, 40000, 1},  {1, 33000, 2},
                                     {2, 5000, 1},  {3, 5121, 5},   {4, 8193, 16},  {1, 17000, 40},
                                     {40, 4096, 1}, {1, 4500, 300}, {9, 4097, 33},  {16, 8192, 16},
                                     {64, 6145, 2}, {5, 4100, 13},  {70, 4097, 50}, {1, 70000, 3}};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  uint64_t random = seed;
  printf("seed %" PRIu64 "\n", seed);
  if (!has_long(on)) return;
  for (int t = 0; t < SIZES * 6 * (is_in_full() ? 10 : 1); t++) {
    if (on->small && t % 11 != 0) continue;
    /* In short a third of the dtypes, others with each size; a large one is a real number's. */
    const int64_t *size = sizes[t / 6 % SIZES];
    if (!is_in_full() && (t + t / 6) % 3 != 0) continue;
    if (!is_in_full() && size[0] * size[1] * size[2] > 10000000 && t % 6 > 1) continue;
    try_one(on, dtypes[t % 6], size, &random);
  }
  for (int t = 0; t < (on->small ? 10 : how_many(24, 1000)); t++) {
    const int64_t size[] = {1 + random_below(&random, 12), 4096 + random_below(&random, 3000),
                            1 + random_below(&random, 30)};
    try_one(on, dtypes[random_below(&random, 6)], size, &random);
  }
}

/* The greatest C, more blocks than one of the CPU's. */
static void test_large(const subject *on) {
  static const int64_t sizes[][3] = {{512, 4097, 512}, {4, 4096, 65536}, {262144, 4096, 1}};
  uint64_t random = seed + 1;
  if (!has_long(on) || on->small || !is_in_full()) return;
  for (int t = 0; t < 6; t++) try_one(on, t % 2 == 0 ? MMC_F32 : MMC_F64, sizes[t / 2], &random);
}

/* Products just beside the bounds are one chain. */
static void test_bounds(const subject *on) {
  static const struct {
    mmc_dtype dtype;
    mmci_precision precision;
    int64_t m, k, n;
    mmci_sums sums;
  } cases[] = {{MMC_F64, MMCI_REPRODUCIBLE, 1, 4095, 1, MMCI_SUMS_CHAIN},
               {MMC_F64, MMCI_REPRODUCIBLE, 1, 4096, 1, MMCI_SUMS_PIECES},
               {MMC_F64, MMCI_NATIVE, 1, 4096, 1, MMCI_SUMS_CHAIN},
               {MMC_BF16, MMCI_REPRODUCIBLE, 1 << 9, 4096, 1 << 9, MMCI_SUMS_PIECES},
               {MMC_F32, MMCI_REPRODUCIBLE, (1 << 9) + 1, 4096, 1 << 9, MMCI_SUMS_CHAIN},
               {MMC_F32, MMCI_REPRODUCIBLE, (1 << 18) + 1, 4096, 1, MMCI_SUMS_CHAIN},
               {MMC_F32, MMCI_REPRODUCIBLE, 1, 4096, 1 << 18, MMCI_SUMS_PIECES},
               {MMC_F32, MMCI_REPRODUCIBLE, INT64_MAX / 2, 4096, INT64_MAX / 2, MMCI_SUMS_CHAIN},
               {MMC_I64, MMCI_REPRODUCIBLE, 1, 100000, 1, MMCI_SUMS_CHAIN},
               {MMC_C64, MMCI_REPRODUCIBLE_FAITHFUL, 64, 20000, 64, MMCI_SUMS_PIECES},
               {MMC_F32, MMCI_REPRODUCIBLE_FAITHFUL, 512, 30000, 512, MMCI_SUMS_WHOLE},
               {MMC_F32, MMCI_REPRODUCIBLE, 512, 30000, 512, MMCI_SUMS_PIECES}};
  (void)on;
  for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
    mmci_gemm gemm = {.dtype = cases[t].dtype,
                      .precision = cases[t].precision,
                      .m = cases[t].m,
                      .k = cases[t].k,
                      .n = cases[t].n};
    mmci_gemm_choose_sums(&gemm);
    if (!expect(gemm.sums == cases[t].sums, "what is long")) printf("  case %d\n", (int)t);
  }
}

/* No group has long products. */
static void test_groups(const subject *on) {
  static const mmci_form forms[] = {{.ld = 5000}, {.ld = 3}};
  static const mmci_group_product product = {2, 5000, 3, 0, 1};
  const mmci_group group = {.dtype = MMC_F32,
                            .precision = MMCI_REPRODUCIBLE,
                            .batch = 2,
                            .n = 2,
                            .count = 1,
                            .forms = forms,
                            .products = &product,
                            .ldc = 3};
  if (!has_long(on) || on->ops->group_supports == NULL) return;
  expect(!on->ops->group_supports(on->device, &group), "no group has long products");
}

/* ---- the definition -------------------------------------------------------------------------- */

/* Plain loops of the reference are those that documentation describes. */
static void test_definition(const subject *on) {
  enum { K = 4096 + 2 * 1024 + 1 };
  static double x[K], y[K];
  static float p[K], q[K];
  static uint16_t u[K], v[K];
  uint64_t random = seed + 2;
  if (strcmp(on->name, "ref") != 0) return;
  for (int k = 0; k < K; k++) {
    x[k] = random_unit(&random);
    y[k] = random_unit(&random);
    p[k] = (float)x[k];
    q[k] = (float)y[k];
    u[k] = mmci_bf16_round(x[k]);
    v[k] = mmci_bf16_round(y[k]);
  }
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    mmci_gemm gemm = mmci_gemm_tight(MMC_F64, MMCI_REPRODUCIBLE, 1, K, 1, MMC_OP_N, MMC_OP_N);
    mmci_gemm_choose_sums(&gemm);
    gemm.accumulate = accumulate;
    double sum = 0, c = 0.3;
    float single = 0, half = 0, c_single = 0.3F;
    uint16_t c_half = mmci_bf16_round(0.3);
    for (int first = 0; first < K; first += 1024) {
      double piece = 0;
      float piece_single = 0, piece_half = 0;
      for (int k = first; k < first + 1024 && k < K; k++) {
        piece = fma(x[k], y[k], piece);
        piece_single = fmaf(p[k], q[k], piece_single);
        piece_half = fmaf(mmci_bf16_to_f32(u[k]), mmci_bf16_to_f32(v[k]), piece_half);
      }
      sum = sum + piece;
      single = single + piece_single;
      half = half + piece_half;
    }
    const double expected = accumulate ? c + sum : sum;
    const float expected_single = accumulate ? c_single + single : single;
    const uint16_t expected_half =
        mmci_bf16_round(accumulate ? mmci_bf16_to_f32(c_half) + half : half);
    mmci_ref_ordered(&gemm, x, y, &c);
    gemm.dtype = MMC_F32;
    mmci_ref_ordered(&gemm, p, q, &c_single);
    gemm.dtype = MMC_BF16;
    mmci_ref_ordered(&gemm, u, v, &c_half);
    expect(c == expected && c_single == expected_single && c_half == expected_half,
           "the definition");
  }
}

int main(int argc, char **argv) {
  static const conformance_test tests[] = {
      {"bits", test_bits, true},
      {"large", test_large, false},
      {"bounds", test_bounds, false},
      {"groups", test_groups, true},
      {"definition", test_definition, false},
      {.name = NULL},
  };
  return conformance_main(argc, argv, tests);
}
