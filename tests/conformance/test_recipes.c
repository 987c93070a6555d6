/* test_recipes.c: a product by a recipe equals the product by one call, on every host device.
 *
 * Random shapes, ops, leading dimensions with gaps of NaN, sums added to, guard bands around C.
 * Along m and n every element is the same sum; along k it is cut, so an element may be off by 2 (k
 * + 2) eps times the sum of the products' absolute values, twice the bound for any order (Higham
 * 2002, 3.1). */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../recipes.h"
#include "base/half.h"
#include "device/device.h"

static const uint64_t seed = 31337;
static const char *const devices[] = {"ref", "cpu"};
enum { GUARD = 256, POISON = 0xA5 };

static int parts(mmc_dtype dtype) {
  return dtype == MMC_C64 || dtype == MMC_C128 ? 2 : 1;
}

static double get(mmc_dtype dtype, const void *data, int64_t at) {
  if (dtype == MMC_F32 || dtype == MMC_C64) return ((const float *)data)[at];
  if (dtype == MMC_F64 || dtype == MMC_C128) return ((const double *)data)[at];
  uint16_t half = ((const uint16_t *)data)[at];
  return dtype == MMC_F16 ? mmci_f16_to_f32(half) : mmci_bf16_to_f32(half);
}

static void put(mmc_dtype dtype, void *data, int64_t at, double value) {
  if (dtype == MMC_F32 || dtype == MMC_C64)
    ((float *)data)[at] = (float)value;
  else if (dtype == MMC_F64 || dtype == MMC_C128)
    ((double *)data)[at] = value;
  else
    ((uint16_t *)data)[at] = dtype == MMC_F16 ? mmci_f16_round(value) : mmci_bf16_round(value);
}

static bool is_half(mmc_dtype dtype) {
  return dtype == MMC_F16 || dtype == MMC_BF16;
}

/* lines x ld, NaN behind the first length of each line. */
static void *make_matrix(mmc_dtype dtype, int64_t lines, int64_t length, int64_t ld, bool integers,
                         uint64_t *random) {
  void *data = malloc((size_t)(lines * ld) * mmc_dtype_size(dtype) + 1);
  assert_non_null(data);
  for (int64_t t = 0; t < lines * ld * parts(dtype); t++)
    put(dtype, data, t,
        t / parts(dtype) % ld >= length ? NAN
        : integers                      ? (double)(random_below(random, 3) - 1)
                                        : random_unit(random));
  return data;
}

static char *make_result(size_t bytes, const void *start) {
  char *memory = malloc(bytes + 2 * GUARD);
  assert_non_null(memory);
  memset(memory, POISON, bytes + 2 * GUARD);
  if (start != NULL) memcpy(memory + GUARD, start, bytes);
  return memory + GUARD;
}

static void multiply(const mmci_device_ops *ops, mmci_device *device, const mmci_gemm *gemm,
                     const char *a, const char *b, char *c) {
  mmci_queue *queue;
  mmci_kernel *kernel;
  mmci_error error = {0};
  assert_true(ops->supports(device, gemm));
  assert_int_equal(ops->queue_open(device, &queue, &error), MMC_OK);
  assert_int_equal(ops->prepare(device, gemm, &kernel, &error), MMC_OK);
  assert_int_equal(ops->enqueue(queue, kernel, a, b, c, &error), MMC_OK);
  assert_int_equal(ops->sync(queue, &error), MMC_OK);
  ops->release(kernel);
  ops->queue_close(queue);
}

/* Queues may run in any order: those with higher numbers go first here. */
static void multiply_pieces(const mmci_device_ops *ops, mmci_device *device,
                            const mmci_recipe *recipe, const mmci_gemm *gemm, const char *a,
                            const char *b, char *c) {
  mmci_recipe_piece pieces[MMCI_RECIPE_PIECES];
  int count = mmci_recipe_pieces(recipe, gemm, pieces);
  int64_t size = (int64_t)mmc_dtype_size(gemm->dtype);
  for (int queue = recipe->queues - 1; queue >= 0; queue--)
    for (int p = 0; p < count; p++)
      if (pieces[p].queue == queue)
        multiply(ops, device, &pieces[p].gemm, a + pieces[p].a * size, b + pieces[p].b * size,
                 c + pieces[p].c * size);
}

static void check_case(const mmci_device_ops *ops, mmci_device *device, mmc_dtype dtype,
                       bool integers, uint64_t *random) {
  if (is_half(dtype)) integers = true;
  mmci_gemm gemm = {.dtype = dtype,
                    .m = 1 + random_below(random, 24),
                    .k = 1 + random_below(random, 40),
                    .n = 1 + random_below(random, 24),
                    .accumulate = random_below(random, 2) != 0};
  bool is_complex = parts(dtype) == 2;
  gemm.a = (mmci_form){.trans = random_below(random, 2) != 0,
                       .conj = is_complex && random_below(random, 2) != 0};
  gemm.b = (mmci_form){.trans = random_below(random, 2) != 0,
                       .conj = is_complex && random_below(random, 2) != 0};
  int64_t a_length = gemm.a.trans ? gemm.m : gemm.k, a_lines = gemm.a.trans ? gemm.k : gemm.m;
  int64_t b_length = gemm.b.trans ? gemm.k : gemm.n, b_lines = gemm.b.trans ? gemm.n : gemm.k;
  gemm.a.ld = a_length + random_below(random, 4);
  gemm.b.ld = b_length + random_below(random, 4);
  gemm.ldc = gemm.n + random_below(random, 4);
  mmci_recipe recipe = random_recipe(random, &gemm, 0);
  recipe.pad = 0; /* padding is whose who copies: unit/test_measure.c */

  void *a = make_matrix(dtype, a_lines, a_length, gemm.a.ld, integers, random);
  void *b = make_matrix(dtype, b_lines, b_length, gemm.b.ld, integers, random);
  size_t size = mmc_dtype_size(dtype);
  size_t bytes = (size_t)((gemm.m - 1) * gemm.ldc + gemm.n) * size;
  void *start = make_matrix(dtype, gemm.m, gemm.n, gemm.ldc, integers, random);
  char *want = make_result(bytes, gemm.accumulate ? start : NULL);
  char *got = make_result(bytes, gemm.accumulate ? start : NULL);
  multiply(ops, device, &gemm, a, b, want);
  multiply_pieces(ops, device, &recipe, &gemm, a, b, got);

  /* Elements are below 1 in each part, so k products and what was there are below 2 (k + 1). */
  double epsilon = dtype == MMC_F64 || dtype == MMC_C128 ? DBL_EPSILON : (double)FLT_EPSILON;
  double bound = integers ? 0 : 2 * (double)(gemm.k + 2) * epsilon * 2 * (double)(gemm.k + 1);
  char text[MMCI_RECIPE_TEXT_SIZE];
  mmci_recipe_format(&recipe, NULL, text);
  for (int64_t i = 0; i < gemm.m; i++)
    for (int64_t j = 0; j < gemm.n * parts(dtype); j++) {
      int64_t at = i * gemm.ldc * parts(dtype) + j;
      double x = get(dtype, got, at), y = get(dtype, want, at);
      if (!(fabs(x - y) <= bound))
        fail_msg("%s %s %lldx%lldx%lld by %s: row %lld part %lld is %g, not %g; seed %llu",
                 ops->name, mmc_dtype_name(dtype), (long long)gemm.m, (long long)gemm.k,
                 (long long)gemm.n, text, (long long)i, (long long)j, x, y,
                 (unsigned long long)seed);
    }
  for (int64_t i = 0; i < gemm.m - 1; i++) {
    size_t gap = (size_t)(i * gemm.ldc + gemm.n) * size;
    assert_memory_equal(got + gap, want + gap, (size_t)(gemm.ldc - gemm.n) * size);
  }
  assert_memory_equal(got - GUARD, want - GUARD, GUARD);
  assert_memory_equal(got + bytes, want + bytes, GUARD);
  free(got - GUARD);
  free(want - GUARD);
  free(start);
  free(a);
  free(b);
}

static void recipes_multiply_right(void **state) {
  (void)state;
  uint64_t random = seed;
  mmci_registry *registry;
  mmci_error error;
  assert_int_equal(mmci_registry_create("", &registry, &error), MMC_OK);
  for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++) {
    mmci_opened opened;
    assert_int_equal(mmci_registry_open(registry, devices[d], &opened, &error), MMC_OK);
    for (mmc_dtype dtype = MMC_F32; dtype <= MMC_BF16; dtype++)
      for (int round = 0; round < 1000; round++)
        check_case(opened.ops, opened.device, dtype, round % 2 != 0, &random);
  }
  mmci_registry_destroy(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(recipes_multiply_right)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
