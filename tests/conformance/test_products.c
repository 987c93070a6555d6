/* test_products.c: every host device against loops of the test's own, element by element.
 *
 * Shapes at the edges of what BLAS kernels block for, vectors, zero sizes; every op on either side;
 * leading dimensions with gaps; alone and added to what is there; NaN and Inf. Results are poisoned
 * before and guarded around. An element may be off by (k + 2) eps times the sum of the products'
 * absolute values, the bound for any order of summation (Higham 2002, section 3.1, with room for
 * complex products); f16 and bf16 are summed in f32 and then rounded. */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../complex_number.h"
#include "../random.h"
#include "base/dtype.h"
#include "base/half.h"
#include "device/device.h"

static const uint64_t seed = 424242;
static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128, MMC_F16, MMC_BF16};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };
static const char *const devices[] = {"ref", "cpu"};

typedef double complex element;

static element get(mmc_dtype dtype, const void *data, int64_t place) {
  switch (dtype) {
    case MMC_F32:
      return ((const float *)data)[place];
    case MMC_F64:
      return ((const double *)data)[place];
    case MMC_C64:
      return ((const float complex *)data)[place];
    case MMC_C128:
      return ((const double complex *)data)[place];
    case MMC_F16:
      return mmci_f16_to_f32(((const uint16_t *)data)[place]);
    default:
      return mmci_bf16_to_f32(((const uint16_t *)data)[place]);
  }
}

static void put(mmc_dtype dtype, void *data, int64_t place, element value) {
  switch (dtype) {
    case MMC_F32:
      ((float *)data)[place] = (float)creal(value);
      break;
    case MMC_F64:
      ((double *)data)[place] = creal(value);
      break;
    case MMC_C64:
      ((float complex *)data)[place] = (float complex)value;
      break;
    case MMC_C128:
      ((double complex *)data)[place] = value;
      break;
    case MMC_F16:
      ((uint16_t *)data)[place] = mmci_f16_round(creal(value));
      break;
    default:
      ((uint16_t *)data)[place] = mmci_bf16_round(creal(value));
      break;
  }
}

/* Of the sums, and of the elements where they are rounded after that. */
static double epsilon(mmc_dtype dtype) {
  return dtype == MMC_F64 || dtype == MMC_C128 ? DBL_EPSILON : FLT_EPSILON;
}
static double element_epsilon(mmc_dtype dtype) {
  return dtype == MMC_F16 ? 0x1p-10 : dtype == MMC_BF16 ? 0x1p-7 : 0;
}
/* f16 has denormal elements among ordinary numbers. */
static double least_step(mmc_dtype dtype) {
  return dtype == MMC_F16 ? 0x1p-24 : 0;
}

/* ---- guarded memory ------------------------------------------------------------------------ */

enum { GUARD = 256, POISON = 0xff }; /* 0xffff... is NaN in every dtype */

/* elements * size bytes with a poisoned band on either side, all poisoned. */
static char *guarded_alloc(size_t bytes) {
  char *memory = malloc(bytes + 2 * GUARD);
  assert_non_null(memory);
  memset(memory, POISON, bytes + 2 * GUARD);
  return memory + GUARD;
}

static void guarded_free(char *data) {
  free(data - GUARD);
}

static bool poisoned(const char *bytes, size_t size) {
  for (size_t t = 0; t < size; t++)
    if ((unsigned char)bytes[t] != POISON) return false;
  return true;
}

/* ---- one product --------------------------------------------------------------------------- */

typedef struct case_ {
  mmci_gemm gemm;
  void *a, *b;
} case_;

static element operand_at(mmc_dtype dtype, const void *data, const mmci_form *x, int64_t row,
                          int64_t column) {
  element value = get(dtype, data, x->trans ? column * x->ld + row : row * x->ld + column);
  return x->conj ? conj(value) : value;
}

/* Parts multiplied by hand, as BLAS does, so that NaN and Inf come out alike. */
static element times(element x, element y) {
  double re = creal(x) * creal(y) - cimag(x) * cimag(y);
  double im = creal(x) * cimag(y) + cimag(x) * creal(y);
  return CMPLX(re, im);
}

static bool close_enough(double got, double want, double bound) {
  if (isnan(want)) return isnan(got);
  if (isinf(want)) return got == want;
  return fabs(got - want) <= bound;
}

/* Runs the product into out, which holds before when there is something to add to. */
static void compute(const mmci_device_ops *ops, mmci_device *device, const case_ *c, char *out) {
  mmci_error error;
  mmci_kernel *kernel;
  mmci_queue *queue;
  assert_true(ops->supports(device, &c->gemm));
  assert_int_equal(ops->prepare(device, &c->gemm, &kernel, &error), MMC_OK);
  assert_int_equal(ops->queue_open(device, &queue, &error), MMC_OK);
  assert_int_equal(ops->enqueue(queue, kernel, c->a, c->b, out, &error), MMC_OK);
  assert_int_equal(ops->sync(queue, &error), MMC_OK);
  ops->queue_close(queue);
  ops->release(kernel);
}

static void check_product(const mmci_device_ops *ops, mmci_device *device, const case_ *c,
                          const char *what, uint64_t *random) {
  const mmci_gemm *g = &c->gemm;
  size_t size = mmc_dtype_size(g->dtype);
  size_t bytes = g->m > 0 ? (size_t)((g->m - 1) * g->ldc + g->n) * size : 0;
  char *out = guarded_alloc(bytes), *before = malloc(bytes + 1);
  assert_non_null(before);
  for (int64_t i = 0; g->accumulate && i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++)
      put(g->dtype, out, i * g->ldc + j, CMPLX(random_unit(random), random_unit(random)));
  memcpy(before, out, bytes);
  compute(ops, device, c, out);

  for (int64_t i = 0; i < g->m; i++) {
    for (int64_t j = 0; j < g->n; j++) {
      element want = g->accumulate ? get(g->dtype, before, i * g->ldc + j) : 0;
      double magnitude = cabs(want);
      for (int64_t l = 0; l < g->k; l++) {
        element x = operand_at(g->dtype, c->a, &g->a, i, l);
        element y = operand_at(g->dtype, c->b, &g->b, l, j);
        want = mmci_dtype_is_complex(g->dtype) ? want + times(x, y) : want + creal(x) * creal(y);
        magnitude += cabs(x) * cabs(y);
      }
      element got = get(g->dtype, out, i * g->ldc + j);
      double bound = 2 * (double)(g->k + 2) * epsilon(g->dtype) * magnitude +
                     element_epsilon(g->dtype) * cabs(want) + least_step(g->dtype);
      bool fine =
          close_enough(creal(got), creal(want), bound) &&
          (!mmci_dtype_is_complex(g->dtype) || close_enough(cimag(got), cimag(want), bound));
      if (!fine)
        fail_msg(
            "%s %s %s %lldx%lldx%lld a%s%s b%s%s%s: element (%lld, %lld) is %g%+gi, not "
            "%g%+gi; seed %llu",
            ops->name, what, mmc_dtype_name(g->dtype), (long long)g->m, (long long)g->k,
            (long long)g->n, g->a.trans ? " T" : "", g->a.conj ? " conj" : "",
            g->b.trans ? " T" : "", g->b.conj ? " conj" : "", g->accumulate ? " added" : "",
            (long long)i, (long long)j, creal(got), cimag(got), creal(want), cimag(want),
            (unsigned long long)seed);
    }
    if (i < g->m - 1)
      assert_true(
          poisoned(out + (size_t)(i * g->ldc + g->n) * size, (size_t)(g->ldc - g->n) * size));
  }
  assert_true(poisoned(out - GUARD, GUARD));
  assert_true(poisoned(out + bytes, GUARD));
  guarded_free(out);
  free(before);
}

typedef enum values { ORDINARY, WITH_NAN, WITH_INF } values;

/* An operand of rows x cols as the product sees it, filled, with gaps of NaN behind its lines: what
 * lies there must not be read. */
static void *make_operand(mmc_dtype dtype, int64_t rows, int64_t cols, bool trans, bool conj,
                          int64_t gap, values values, uint64_t *random, mmci_form *form) {
  int64_t lines = trans ? cols : rows, length = trans ? rows : cols;
  int64_t ld = (length > 0 ? length : 1) + gap;
  void *data = malloc((size_t)(lines * ld + 1) * mmc_dtype_size(dtype));
  assert_non_null(data);
  for (int64_t i = 0; i < lines; i++)
    for (int64_t j = 0; j < ld; j++) {
      element value = CMPLX(random_unit(random), random_unit(random));
      if (j >= length)
        value = CMPLX(NAN, NAN);
      else if (values == WITH_NAN && random_below(random, 23) == 0)
        value = NAN;
      else if (values == WITH_INF && random_below(random, 23) == 0)
        value = random_below(random, 2) != 0 ? (double)INFINITY : -(double)INFINITY;
      else if (values != ORDINARY && random_below(random, 5) == 0)
        value = 0;
      put(dtype, data, i * ld + j, value);
    }
  *form = (mmci_form){.ld = ld, .trans = trans, .conj = conj};
  return data;
}

/* Large shapes take a fifth of the ops: what ops do does not depend on size. */
static bool worth_running(const int64_t shape[3], int ops_index) {
  return shape[0] * shape[1] * shape[2] < 30000 || ops_index % 5 == 0;
}

static void run_case(const mmci_device_ops *ops, mmci_device *device, mmc_dtype dtype,
                     const int64_t shape[3], int ops_index, int64_t gap, bool accumulate,
                     values values, const char *what, uint64_t *random) {
  bool conj_a = ops_index & 4, conj_b = ops_index & 8;
  case_ c = {.gemm = {.dtype = dtype,
                      .m = shape[0],
                      .k = shape[1],
                      .n = shape[2],
                      .ldc = (shape[2] > 0 ? shape[2] : 1) + 3 * gap,
                      .accumulate = accumulate}};
  mmci_gemm *g = &c.gemm;
  c.a = make_operand(dtype, g->m, g->k, ops_index & 1, conj_a, gap, values, random, &g->a);
  c.b = make_operand(dtype, g->k, g->n, ops_index & 2, conj_b, 2 * gap, values, random, &g->b);
  for (g->variant = 0; g->variant <= ops->variants(device, g); g->variant++)
    check_product(ops, device, &c, what, random);
  free(c.a);
  free(c.b);
}

static mmci_registry *registry;

static int open_registry(void **state) {
  (void)state;
  mmci_error error;
  return mmci_registry_create("", &registry, &error) != MMC_OK;
}

static int close_registry(void **state) {
  (void)state;
  mmci_registry_destroy(registry);
  return 0;
}

static void open_device(int d, const mmci_device_ops **ops, mmci_device **device) {
  mmci_error error;
  mmci_opened opened;
  assert_int_equal(mmci_registry_open(registry, devices[d], &opened, &error), MMC_OK);
  *ops = opened.ops;
  *device = opened.device;
}

/* ---- the tests ----------------------------------------------------------------------------- */

static const int64_t shapes[][3] = {
    {1, 1, 1},   {1, 7, 1},   {5, 1, 7},    {1, 9, 13},   {13, 9, 1},    {1, 1, 40},  {40, 1, 1},
    {2, 3, 4},   {7, 8, 9},   {8, 8, 8},    {15, 16, 17}, {31, 33, 32},  {3, 100, 2}, {64, 64, 64},
    {65, 3, 63}, {4, 129, 5}, {127, 17, 1}, {1, 200, 65}, {97, 101, 89}, {0, 3, 4},   {3, 0, 4},
    {3, 4, 0},   {0, 0, 0},   {1, 0, 1},    {0, 5, 1},    {1, 0, 9},     {9, 0, 1},
};

static void every_shape_and_op(void **state) {
  (void)state;
  uint64_t random = seed;
  for (int d = 0; d < 2; d++) {
    const mmci_device_ops *ops;
    mmci_device *device;
    open_device(d, &ops, &device);
    for (size_t t = 0; t < DTYPE_COUNT; t++)
      for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int o = 0; o < (mmci_dtype_is_complex(dtypes[t]) ? 16 : 4); o++)
          for (int64_t gap = 0; gap < 6; gap += 5)
            for (int accumulate = 0; accumulate < 2; accumulate++)
              if (worth_running(shapes[s], o))
                run_case(ops, device, dtypes[t], shapes[s], o, gap, accumulate, ORDINARY, "",
                         &random);
  }
}

static void random_shapes(void **state) {
  (void)state;
  uint64_t random = seed + 1;
  for (int d = 0; d < 2; d++) {
    const mmci_device_ops *ops;
    mmci_device *device;
    open_device(d, &ops, &device);
    for (int round = 0; round < 600; round++) {
      int64_t shape[3];
      for (int i = 0; i < 3; i++) shape[i] = random_below(&random, round % 12 == 0 ? 90 : 20);
      run_case(ops, device, dtypes[round % DTYPE_COUNT], shape, (int)random_below(&random, 16),
               random_below(&random, 4), random_below(&random, 2), ORDINARY, "", &random);
    }
  }
}

/* NaN and Inf come out where IEEE arithmetic puts them, zeros in the other operand or not. */
static void nan_and_inf_pass(void **state) {
  (void)state;
  uint64_t random = seed + 2;
  for (int d = 0; d < 2; d++) {
    const mmci_device_ops *ops;
    mmci_device *device;
    open_device(d, &ops, &device);
    for (size_t t = 0; t < DTYPE_COUNT; t++)
      for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int o = 0; o < 4; o++) {
          if (!worth_running(shapes[s], o)) continue;
          run_case(ops, device, dtypes[t], shapes[s], o, 1, o & 1, WITH_NAN, "with NaN", &random);
          if (!mmci_dtype_is_complex(dtypes[t]))
            run_case(ops, device, dtypes[t], shapes[s], o, 1, o & 2, WITH_INF, "with Inf", &random);
        }
  }
}

/* What is claimed to run is what runs: vectors do not go through the matrix kernel. */
static void kernels_by_shape(void **state) {
  (void)state;
#ifdef MMCI_XSMM
  static const char small[] = "libxsmm";
#else
  static const char small[] = "gemm";
#endif
  const mmci_device_ops *ops;
  mmci_device *device;
  open_device(1, &ops, &device);
  if (strcmp(ops->name, "blas") != 0) skip();
  static const struct {
    mmci_gemm gemm;
    const char *name;
  } expected[] = {
      {{.dtype = MMC_F64, .m = 65, .k = 8, .n = 8}, "gemm"},
      {{.dtype = MMC_F64, .m = 8, .k = 64, .n = 64}, small},
      {{.dtype = MMC_F32, .m = 4, .k = 4, .n = 2}, small},
      {{.dtype = MMC_F32, .m = 40, .k = 4, .n = 2}, "gemm"},
      {{.dtype = MMC_F32, .m = 8, .k = 8, .n = 8, .b = {8, true}}, small},
      {{.dtype = MMC_F32, .m = 8, .k = 8, .n = 8, .a = {8, true}}, small},
      {{.dtype = MMC_C64, .m = 8, .k = 8, .n = 8}, small},
      {{.dtype = MMC_C128, .m = 32, .k = 32, .n = 32, .b = {32, true, true}}, small},
      {{.dtype = MMC_C128, .m = 32, .k = 33, .n = 32}, "gemm"},
      {{.dtype = MMC_C64, .m = 8, .k = 9, .n = 2, .a = {8, true, true}}, "gemm"},
      {{.dtype = MMC_F64, .m = 8, .k = 8, .n = 1}, "gemv"},
      {{.dtype = MMC_F32, .m = 1, .k = 8, .n = 8}, "gemv"},
      {{.dtype = MMC_F64, .m = 1, .k = 8, .n = 1}, "dot"},
      {{.dtype = MMC_C128, .m = 1, .k = 8, .n = 1}, "gemv"},
      {{.dtype = MMC_C128, .m = 8, .k = 8, .n = 1, .b = {1, true, true}}, small},
      {{.dtype = MMC_F64, .m = 8, .k = 8, .n = 1, .b = {1, true, true}}, "gemv"},
      {{.dtype = MMC_F64, .m = 3, .k = 0, .n = 3}, "zeros"},
      {{.dtype = MMC_F64, .m = 3, .k = 0, .n = 3, .accumulate = true}, "nothing"},
      {{.dtype = MMC_F64, .m = 0, .k = 3, .n = 3}, "nothing"},
      {{.dtype = MMC_F64, .m = 1, .k = INT64_C(1) << 32, .n = 1}, "loops"},
      {{.dtype = MMC_F64, .m = 8, .k = 8, .n = 8, .ldc = INT64_C(1) << 32}, "loops"},
      {{.dtype = MMC_F16, .m = 8, .k = 8, .n = 8}, "panels"},
      {{.dtype = MMC_BF16, .m = 1, .k = 8, .n = 1}, "panels"},
      {{.dtype = MMC_BF16, .m = 3, .k = 0, .n = 3}, "zeros"},
  };
  for (size_t t = 0; t < sizeof expected / sizeof expected[0]; t++)
    assert_string_equal(ops->kernel_name(device, &expected[t].gemm), expected[t].name);
}

/* More rows, columns or terms than are widened to f32 at a time. */
static void halves_in_many_panels(void **state) {
  (void)state;
  static const int64_t large[][3] = {
      {1, 1100, 1}, {1025, 3, 2}, {2, 3, 1025}, {514, 600, 3}, {3, 600, 514}};
  uint64_t random = seed + 4;
  for (int d = 0; d < 2; d++) {
    const mmci_device_ops *ops;
    mmci_device *device;
    open_device(d, &ops, &device);
    for (size_t s = 0; s < sizeof large / sizeof large[0]; s++)
      for (int o = 0; o < 8; o++)
        run_case(ops, device, o & 4 ? MMC_F16 : MMC_BF16, large[s], o & 3, o & 1, o & 2, ORDINARY,
                 "large", &random);
  }
}

/* x * y + z * w is rounded once, to the nearest even element; too large is infinite, small ones are
 * denormal. */
static void halves_round_once(void **state) {
  (void)state;
  static const struct {
    mmc_dtype dtype;
    double x, y, z, w, want;
  } cases[] = {
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
  for (int d = 0; d < 2; d++) {
    const mmci_device_ops *ops;
    mmci_device *device;
    open_device(d, &ops, &device);
    for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++) {
      mmc_dtype dtype = cases[t].dtype;
      element a[2], b[2], out; /* room for any dtype */
      put(dtype, a, 0, cases[t].x);
      put(dtype, a, 1, cases[t].z);
      put(dtype, b, 0, cases[t].y);
      put(dtype, b, 1, cases[t].w);
      case_ c = {
          {.dtype = dtype, .m = 1, .k = 2, .n = 1, .a = {.ld = 2}, .b = {.ld = 1}, .ldc = 1}, a, b};
      compute(ops, device, &c, (char *)&out);
      double got = creal(get(dtype, &out, 0));
      if (got != cases[t].want)
        fail_msg("%s, case %zu: %a, not %a", ops->name, t, got, cases[t].want);
    }
  }
}

/* ---- whole chains -------------------------------------------------------------------------- */

/* So that products of five do not underflow in f16. */
static double random_not_small(uint64_t *random) {
  double value = random_unit(random);
  return value + copysign(0.25, value);
}

/* Random chains through the public interface: ops, layouts, leading dimensions of every factor and
 * of the result, one factor included. */
static void chains_of_any_layout(void **state) {
  (void)state;
  uint64_t random = seed + 3;
  mmc_context *context;
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  for (int round = 0; round < 1200; round++) {
    mmc_dtype dtype = dtypes[round % DTYPE_COUNT];
    size_t size = mmc_dtype_size(dtype);
    int32_t n = 1 + (int32_t)random_below(&random, 5);
    int64_t dims[8];
    mmc_op chain_ops[8];
    mmc_matrix factors[8];
    for (int32_t i = 0; i <= n; i++) dims[i] = random_below(&random, 12) + (round % 9 != 0);
    element *product = NULL;
    double *magnitude = NULL;
    int64_t inner_sum = 0;
    for (int32_t i = 0; i < n; i++) {
      chain_ops[i] = (mmc_op)random_below(&random, 3);
      bool as_is = chain_ops[i] == MMC_OP_N;
      mmc_matrix f = {.rows = dims[as_is ? i : i + 1], .cols = dims[as_is ? i + 1 : i]};
      f.layout = random_below(&random, 2) != 0 ? MMC_COL_MAJOR : MMC_ROW_MAJOR;
      int64_t length = f.layout == MMC_ROW_MAJOR ? f.cols : f.rows;
      int64_t lines = f.layout == MMC_ROW_MAJOR ? f.rows : f.cols;
      int64_t gap = random_below(&random, 3);
      f.ld = gap == 0 ? 0 : length + gap;
      int64_t ld = f.ld != 0 ? f.ld : length;
      f.data = malloc((size_t)(lines * ld + 1) * size);
      for (int64_t t = 0; t < lines * ld; t++)
        put(dtype, f.data, t, CMPLX(random_not_small(&random), random_not_small(&random)));
      factors[i] = f;

      /* product = product * op(f), and the same of absolute values. */
      int64_t m = dims[0], k = dims[i], c = dims[i + 1];
      element *next = calloc((size_t)(m * c) + 1, sizeof *next);
      double *next_magnitude = calloc((size_t)(m * c) + 1, sizeof *next_magnitude);
      for (int64_t r = 0; r < (i == 0 ? k : m); r++)
        for (int64_t l = 0; l < (i == 0 ? 1 : k); l++)
          for (int64_t q = 0; q < c; q++) {
            int64_t row = i == 0 ? r : l;
            int64_t stored_row = as_is ? row : q, stored_column = as_is ? q : row;
            element value = get(dtype, f.data,
                                f.layout == MMC_ROW_MAJOR ? stored_row * ld + stored_column
                                                          : stored_column * ld + stored_row);
            if (chain_ops[i] == MMC_OP_H) value = conj(value);
            next[r * c + q] += i == 0 ? value : times(product[r * k + l], value);
            next_magnitude[r * c + q] += i == 0 ? cabs(value) : magnitude[r * k + l] * cabs(value);
          }
      free(product);
      free(magnitude);
      product = next;
      magnitude = next_magnitude;
      inner_sum += k + 4;
    }

    mmc_chain *chain;
    mmc_plan *plan;
    mmc_run *run;
    mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
    options.device = devices[round / DTYPE_COUNT % 2];
    assert_int_equal(mmc_chain_create(context, dtype, n, dims, chain_ops, &chain), MMC_OK);
    assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_OK);
    assert_int_equal(mmc_run_create(plan, &run), MMC_OK);

    mmc_matrix out = {.rows = dims[0], .cols = dims[n]};
    out.layout = random_below(&random, 2) != 0 ? MMC_COL_MAJOR : MMC_ROW_MAJOR;
    bool by_rows = out.layout == MMC_ROW_MAJOR;
    int64_t length = by_rows ? out.cols : out.rows, lines = by_rows ? out.rows : out.cols;
    out.ld = length + random_below(&random, 3);
    if (out.ld == 0) out.ld = 1;
    size_t bytes = lines > 0 ? (size_t)((lines - 1) * out.ld + length) * size : 0;
    char *memory = guarded_alloc(bytes);
    out.data = memory;
    assert_int_equal(mmc_execute(run, factors, &out), MMC_OK);
    for (int64_t i = 0; i < lines; i++) {
      for (int64_t j = 0; j < length; j++) {
        int64_t place = by_rows ? i * out.cols + j : j * out.cols + i;
        element got = get(dtype, memory, i * out.ld + j);
        double bound = (2 * (double)inner_sum * epsilon(dtype) + n * element_epsilon(dtype)) *
                       magnitude[place];
        if (!(cabs(got - product[place]) <= bound))
          fail_msg("chain of %d %s on %s is off by %g, bound %g, seed %llu round %d", n,
                   mmc_dtype_name(dtype), options.device, cabs(got - product[place]), bound,
                   (unsigned long long)(seed + 3), round);
      }
      if (i < lines - 1)
        assert_true(poisoned(memory + (size_t)(i * out.ld + length) * size,
                             (size_t)(out.ld - length) * size));
    }
    assert_true(poisoned(memory - GUARD, GUARD));
    assert_true(poisoned(memory + bytes, GUARD));

    guarded_free(memory);
    mmc_run_destroy(run);
    mmc_plan_destroy(plan);
    mmc_chain_destroy(chain);
    for (int32_t i = 0; i < n; i++) free(factors[i].data);
    free(product);
    free(magnitude);
  }
  mmc_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_shape_and_op),    cmocka_unit_test(random_shapes),
      cmocka_unit_test(nan_and_inf_pass),      cmocka_unit_test(kernels_by_shape),
      cmocka_unit_test(halves_in_many_panels), cmocka_unit_test(halves_round_once),
      cmocka_unit_test(chains_of_any_layout),
  };
  return cmocka_run_group_tests(tests, open_registry, close_registry);
}
