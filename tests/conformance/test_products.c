/* test_products.c: single products on a device: every dtype, form, edge and kind of values.
 *
 * Kernels of other numbers than 0 are test_variants.c's. What is asked of each product says
 * product_case.h. */
#include <inttypes.h>
#include <stdio.h>

#include "../how_many.h"
#include "product_case.h"

static const uint64_t seed = 20260711;

/* Shapes at the edges of what kernels block for, vectors, sizes of zero. */
static const int64_t shapes[][3] = {
    {1, 1, 1},   {1, 7, 1},   {5, 1, 7},    {1, 9, 13},   {13, 9, 1},    {1, 1, 40},  {40, 1, 1},
    {2, 3, 4},   {7, 8, 9},   {8, 8, 8},    {15, 16, 17}, {31, 33, 32},  {3, 100, 2}, {64, 64, 64},
    {65, 3, 63}, {4, 129, 5}, {127, 17, 1}, {1, 200, 65}, {97, 101, 89}, {0, 3, 4},   {3, 0, 4},
    {3, 4, 0},   {0, 0, 0},   {1, 0, 1},    {0, 5, 1},    {1, 0, 9},     {9, 0, 1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Of what is run often, a tool that checks every access takes a part, and a short run on the host
 * half: of any two whose numbers differ in one bit, one. */
static bool is_left_out(const subject *on, int64_t number, int64_t part) {
  if (on->small) return number % part != 0;
  return !on->is_cuda && !is_in_full() && __builtin_parityll((unsigned long long)number) != 0;
}

/* Every shape in every pair of forms, with and without gaps, alone and added. What forms do does
 * not depend on size: large shapes take a fifth of them. */
static void test_shapes_and_forms(const subject *on, mmc_dtype dtype, uint64_t *random) {
  const int kinds = mmci_dtype_is_complex(dtype) ? 4 : 2;
  for (int s = 0; s < SHAPES; s++)
    for (int form = 0; form < kinds * kinds; form++)
      for (int turn = 0; turn < 4; turn++) {
        const int64_t m = shapes[s][0], k = shapes[s][1], n = shapes[s][2], gap = turn % 2 * 5;
        product_case x = random_case(dtype, m, k, n, random);
        if ((m * k * n >= 30000 && form % 5 != 0) ||
            is_left_out(on, s * 7 + form * 3 + turn + (int)dtype, 41))
          continue;
        x.gemm.a = form_of(form % kinds, m, k, gap);
        x.gemm.b = form_of(form / kinds, k, n, 2 * gap);
        x.gemm.ldc = (n > 0 ? n : 1) + 3 * gap;
        x.gemm.accumulate = turn / 2 == 1;
        x.gemm.precision = MMCI_NATIVE;
        try_product(on, &x);
      }
}

/* All forms at a size of several tiles; a conjugated real operand is one as it is. */
static void test_forms(const subject *on, mmc_dtype dtype, uint64_t *random) {
  const int64_t m = 37, k = on->small ? 18 : 70, n = 66;
  for (int form = 0; form < 4 * 4 * 2 * 2; form++) {
    product_case x = random_case(dtype, m, k, n, random);
    if (is_left_out(on, form, 5)) continue;
    x.gemm.a = form_of(form % 4, m, k, form / 32 * 3);
    x.gemm.b = form_of(form / 4 % 4, k, n, form / 32 * 5);
    x.gemm.accumulate = form / 16 % 2 == 1;
    try_product(on, &x);
  }
}

static void test_edges(const subject *on, mmc_dtype dtype, uint64_t *random) {
  static const int64_t sizes[] = {0, 1, 17, 63, 64, 65, 127, 128, 129};
  enum { COUNT = sizeof sizes / sizeof *sizes };
  /* The loops of the host are slow, and at few edges different. */
  const int part = on->is_cuda ? 1 : 27;
  for (int at = 0; at < COUNT * COUNT * COUNT; at++) {
    product_case x = random_case(dtype, sizes[at % COUNT], sizes[at / COUNT % COUNT],
                                 sizes[at / COUNT / COUNT], random);
    if (on->small ? at % 41 != (int)dtype : (at + at / 9 + at / 81) % part != 0) continue;
    try_product(on, &x);
  }
}

static void test_long(const subject *on, mmc_dtype dtype, uint64_t *random) {
  static const int64_t longs[][3] = {
      {1, 300, 517}, {517, 300, 1}, {1, 1, 3000},  {3000, 1, 1},  {3, 10000, 5},   {33, 10000, 31},
      {2, 7, 3000},  {3000, 5, 2},  {1, 10000, 1}, {500, 1, 500}, {256, 256, 256}, {200, 513, 7}};
  for (size_t s = 0; s < sizeof longs / sizeof *longs; s++) {
    if (on->small ? s % 4 != 0 : !on->is_cuda && s % 3 != dtype % 3) continue;
    product_case x = random_case(dtype, longs[s][0], longs[s][1], longs[s][2], random);
    try_product(on, &x);
    x.gemm.precision = MMCI_FAST;
    x.gemm.accumulate = !x.gemm.accumulate;
    try_product(on, &x);
  }
}

static void test_random(const subject *on, mmc_dtype dtype, uint64_t *random) {
  const int few = on->is_cuda ? 100 : how_many(50, 100), count = on->small ? 3 : few,
            larger = on->small     ? 3
                     : on->is_cuda ? 150
                                   : 6;
  for (int t = 0; t < count + larger; t++) {
    const int64_t most = t >= count ? 200 : t % 12 == 0 ? 90 : 20;
    const int64_t m = random_below(random, most), n = random_below(random, most),
                  k = random_below(random, t >= count ? 400 : most);
    const product_case x = random_case(dtype, m, k, n, random);
    try_product(on, &x);
  }
}

/* Sums without cancellation, elements of many magnitudes, large terms that hide small ones. */
static void test_values(const subject *on, mmc_dtype dtype, uint64_t *random) {
  static const int64_t sizes[][3] = {{9, 17, 8}, {65, 130, 33}, {1, 400, 31}, {130, 66, 129}};
  for (int t = 0; t < 3 * 4 * 3; t++) {
    const int64_t *size = sizes[t / 3 % 4];
    product_case x = random_case(dtype, size[0], size[1], size[2], random);
    if (is_left_out(on, t, 5)) continue;
    x.values = (values)(POSITIVE + t % 3);
    try_product(on, &x);
  }
}

/* NaN and Inf come out where IEEE arithmetic puts them, zeros in the other operand or not. */
static void test_not_finite(const subject *on, mmc_dtype dtype, uint64_t *random) {
  for (int s = 0; s < SHAPES; s++)
    for (int form = 0; form < 8; form++) {
      const int64_t m = shapes[s][0], k = shapes[s][1], n = shapes[s][2];
      product_case x = random_case(dtype, m, k, n, random);
      if ((m * k * n >= 30000 && form % 5 != 0) || is_left_out(on, s * 8 + form + (int)dtype, 23))
        continue;
      x.gemm.a = form_of(form % 2 + (form >= 4 ? 2 : 0), m, k, 1);
      x.gemm.b = form_of(form / 2 % 2, k, n, 2);
      x.gemm.precision = MMCI_NATIVE;
      x.gemm.accumulate = form % 3 == 1;
      x.values = WITH_NAN;
      try_product(on, &x);
      x.gemm.accumulate = form % 3 == 2;
      x.values = WITH_INF;
      try_product(on, &x);
    }
}

static void each_dtype(const subject *on,
                       void (*test)(const subject *on, mmc_dtype dtype, uint64_t *random)) {
  uint64_t random = seed;
  for (mmc_dtype dtype = MMC_F32; dtype <= MMC_BF16; dtype++)
    if (supports_dtype(on, dtype)) test(on, dtype, &random);
}

static void shapes_and_forms(const subject *on) {
  printf("seed %" PRIu64 "\n", seed);
  each_dtype(on, test_shapes_and_forms);
}
static void all_forms(const subject *on) {
  each_dtype(on, test_forms);
}
static void edges(const subject *on) {
  each_dtype(on, test_edges);
}
static void long_ones(const subject *on) {
  each_dtype(on, test_long);
}
static void random_shapes(const subject *on) {
  each_dtype(on, test_random);
}
static void other_values(const subject *on) {
  each_dtype(on, test_values);
}
static void nan_and_inf(const subject *on) {
  each_dtype(on, test_not_finite);
}

/* More rows, columns or terms than are widened to f32 at a time. */
static void halves_in_many_panels(const subject *on) {
  static const int64_t large[][3] = {
      {1, 1100, 1}, {1025, 3, 2}, {2, 3, 1025}, {514, 600, 3}, {3, 600, 514}};
  uint64_t random = seed + 4;
  if (!supports_dtype(on, MMC_F16)) return;
  for (size_t s = 0; s < sizeof large / sizeof *large; s++)
    for (int o = 0; o < 8; o++) {
      const int64_t m = large[s][0], k = large[s][1], n = large[s][2];
      product_case x = random_case(o & 4 ? MMC_F16 : MMC_BF16, m, k, n, &random);
      if (is_left_out(on, o, 5)) continue;
      x.gemm.a = form_of(o & 1, m, k, o & 1);
      x.gemm.b = form_of(o / 2 & 1, k, n, 2 * (o & 1));
      x.gemm.accumulate = o & 2;
      try_product(on, &x);
    }
}

/* x * y + z * w. */
typedef struct rounding {
  mmc_dtype dtype;
  double x, y, z, w, want;
} rounding;

static void try_rounding(const subject *on, const rounding *r) {
  mmci_gemm gemm = mmci_gemm_tight(r->dtype, MMCI_NATIVE, 1, 2, 1, MMC_OP_N, MMC_OP_N);
  stack a, b, c;
  mmci_kernel *kernel = NULL;
  mmci_error error = {0};
  /* All are made, so that all can be destroyed. */
  const bool has_a = device_stack_create(&a, on, r->dtype, 1, 2, 1, gemm.a, 0);
  const bool has_b = device_stack_create(&b, on, r->dtype, 2, 1, 1, gemm.b, 0);
  const bool has_c = device_stack_create(&c, on, r->dtype, 1, 1, 1, (mmci_form){.ld = 1}, 0);
  const bool made = has_a && has_b && has_c;
  if (made) {
    element_write(r->dtype, a.host + place(&a, 0, 0, 0), (element){r->x, 0});
    element_write(r->dtype, a.host + place(&a, 0, 0, 1), (element){r->z, 0});
    element_write(r->dtype, b.host + place(&b, 0, 0, 0), (element){r->y, 0});
    element_write(r->dtype, b.host + place(&b, 0, 1, 0), (element){r->w, 0});
    mmc_status status = on->ops->prepare(on->device, &gemm, &kernel, &error);
    if (status == MMC_OK) status = device_stack_upload(&a, on, on->queue, &error);
    if (status == MMC_OK) status = device_stack_upload(&b, on, on->queue, &error);
    if (status == MMC_OK)
      status = on->ops->enqueue(on->queue, kernel, device_stack_argument(&a),
                                device_stack_argument(&b), device_stack_argument(&c), &error);
    if (status == MMC_OK) status = device_stack_download(&c, on, on->queue, &error);
    const double got = stack_read(&c, 0, 0, 0).re;
    if (expect_ok(status, &error, "a sum of two") && !expect(got == r->want, "halves round once"))
      printf("  %a * %a + %a * %a is %a, not %a\n", r->x, r->y, r->z, r->w, got, r->want);
    if (kernel != NULL) on->ops->release(kernel);
  }
  device_stack_destroy(&a, on);
  device_stack_destroy(&b, on);
  device_stack_destroy(&c, on);
}

/* Where the processor sums up, a half is rounded once, to the nearest even element; too large is
 * infinite, small ones are denormal. */
static void halves_round_once(const subject *on) {
  static const rounding cases[] = {
      {MMC_F16, 1, 1, 0x1p-11, 1, 1},
      {MMC_F16, 1, 1 + 0x1p-10, 0x1p-11, 1, 1 + 0x1p-9},
      {MMC_F16, 1, 1, 0x1p-11, 1 + 0x1p-10, 1 + 0x1p-10},
      {MMC_F16, -1, 1, -0x1p-11, 1 + 0x1p-10, -1 - 0x1p-10},
      {MMC_F16, 65504, 1, 15.9921875, 1, 65504},
      {MMC_F16, 65504, 1, 16, 1, (double)INFINITY},
      {MMC_F16, 256, -256, 0, 1, -(double)INFINITY},
      {MMC_F16, 300, 300, 300, -299, 300},
      {MMC_F16, 0x1p-12, 0x1p-12, 0, 1, 0x1p-24},
      {MMC_F16, 0x1p-12, 0x1p-13, 0, 1, 0},
      {MMC_F16, 0x1p-12, 0x1.8p-12, 0, 1, 0x1p-23},
      {MMC_BF16, 1, 1, 0x1p-8, 1, 1},
      {MMC_BF16, 1, 1 + 0x1p-7, 0x1p-8, 1, 1 + 0x1p-6},
      {MMC_BF16, 1, 1, 0x1p-8, 1 + 0x1p-7, 1 + 0x1p-7},
      {MMC_BF16, 300, 300, 300, -298, 600},
      {MMC_BF16, 0x1p100, 0x1p100, 0, 1, (double)INFINITY},
      {MMC_BF16, 0x1p-70, 0x1p-63, 0, 1, 0x1p-133},
  };
  if (on->is_cuda || !supports_dtype(on, MMC_F16)) return;
  for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) try_rounding(on, &cases[t]);
}

/* What blas is claimed to run is what runs: vectors do not go through the matrix kernel. */
static void kernels_by_shape(const subject *on) {
#ifdef MMCI_XSMM
  static const char small[] = "libxsmm";
#else
  static const char small[] = "gemm";
#endif
  static const struct {
    mmci_gemm gemm;
    const char *name;
  } expected[] = {
      {{.dtype = MMC_F64, .m = 65, .k = 8, .n = 8}, "gemm"},
      {{.dtype = MMC_F64, .m = 8, .k = 64, .n = 64}, small},
      {{.dtype = MMC_F32, .m = 12, .k = 4, .n = 2}, small},
      {{.dtype = MMC_F32, .m = 40, .k = 4, .n = 2}, "gemm"},
      {{.dtype = MMC_F32, .m = 40, .k = 40, .n = 3, .a = {.ld = 40}, .b = {.ld = 3}}, "vectors"},
      {{.dtype = MMC_F32, .m = 8, .k = 8, .n = 8, .b = {.ld = 8, .trans = true}}, small},
      {{.dtype = MMC_F32, .m = 16, .k = 8, .n = 8, .a = {.ld = 16, .trans = true}}, small},
      {{.dtype = MMC_C64, .m = 8, .k = 8, .n = 8}, "vectors"},
      {{.dtype = MMC_C64, .m = 9, .k = 9, .n = 9}, small},
      {{.dtype = MMC_C128, .m = 32, .k = 32, .n = 32, .b = {.ld = 32, .trans = true, .conj = true}},
       small},
      {{.dtype = MMC_C128, .m = 32, .k = 33, .n = 32}, small},
      {{.dtype = MMC_C128, .m = 32, .k = 65, .n = 32}, "gemm"},
      {{.dtype = MMC_C64, .m = 8, .k = 9, .n = 2, .a = {.ld = 8, .trans = true, .conj = true}},
       "vectors"},
      {{.dtype = MMC_C64, .m = 8, .k = 90, .n = 16, .a = {.ld = 8, .trans = true, .conj = true}},
       "gemm"},
      {{.dtype = MMC_F64, .m = 8, .k = 8, .n = 1}, "vectors"},
      {{.dtype = MMC_F64, .m = 8, .k = 1, .n = 8}, "vectors"},
      {{.dtype = MMC_F64, .m = 8, .k = 8, .n = 1, .precision = MMCI_REPRODUCIBLE},
       "lines in order"},
      {{.dtype = MMC_F64, .m = 96, .k = 96, .n = 1}, "gemv"},
      {{.dtype = MMC_F32, .m = 1, .k = 96, .n = 96}, "gemv"},
      {{.dtype = MMC_F64, .m = 1, .k = 10000, .n = 1}, "dot"},
      {{.dtype = MMC_C128, .m = 1, .k = 10000, .n = 1}, "gemv"},
      {{.dtype = MMC_C128, .m = 8, .k = 8, .n = 1, .b = {.ld = 1, .trans = true, .conj = true}},
       "vectors"},
      {{.dtype = MMC_F64, .m = 96, .k = 96, .n = 1, .b = {.ld = 1, .trans = true, .conj = true}},
       "gemv"},
      {{.dtype = MMC_F64, .m = 3, .k = 0, .n = 3}, "zeros"},
      {{.dtype = MMC_F64, .m = 3, .k = 0, .n = 3, .accumulate = true}, "nothing"},
      {{.dtype = MMC_F64, .m = 0, .k = 3, .n = 3}, "nothing"},
      {{.dtype = MMC_F64, .m = 1, .k = INT64_C(1) << 32, .n = 1}, "loops"},
      {{.dtype = MMC_F64, .m = 8, .k = 8, .n = 8, .ldc = INT64_C(1) << 32}, "loops"},
      {{.dtype = MMC_F16, .m = 8, .k = 128, .n = 8}, "widened"},
      {{.dtype = MMC_F16, .m = 8, .k = 129, .n = 8}, "panels"},
      {{.dtype = MMC_BF16, .m = 1, .k = 8, .n = 1}, "widened"},
      {{.dtype = MMC_BF16, .m = 3, .k = 0, .n = 3}, "zeros"},
  };
  if (!on->is_blas) return;
  for (size_t t = 0; t < sizeof expected / sizeof *expected; t++) {
    const char *name = on->ops->kernel_name(on->device, &expected[t].gemm);
    /* An OpenBLAS that does not know the processor computes fewer. */
    const bool is_other = strcmp(expected[t].name, "gemm") == 0 && strcmp(name, "lines") == 0;
    if (!expect(is_other || strcmp(name, expected[t].name) == 0, expected[t].name))
      printf("  case %zu is \"%s\"\n", t, name);
  }
}

int main(int argc, char **argv) {
  static const conformance_test tests[] = {
      {"forms", all_forms, true},
      {"shapes and forms", shapes_and_forms, false},
      {"edges", edges, false},
      {"long ones", long_ones, false},
      {"random shapes", random_shapes, false},
      {"other values", other_values, false},
      {"NaN and Inf", nan_and_inf, false},
      {"halves in many panels", halves_in_many_panels, false},
      {"halves round once", halves_round_once, false},
      {"kernels by shape", kernels_by_shape, false},
      {.name = NULL},
  };
  return conformance_main(argc, argv, tests);
}
