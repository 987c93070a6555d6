/* test_reproducible.c: reproducible products on a device have the bits of plain loops on the host,
 * whatever their size, layouts and batch, added to what is there or not; those of 16 bits have the
 * bits of each row alone. Of large results some rows are compared. Chains as one call have those of
 * their products, by every kernel for them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "../random.h"
#include "base/dtype.h"
#include "base/half.h"
#include "device/ref/ref_ordered.h"
#include "gpu_test.h"

/* A matrix, or a batch of them, on the host and on the device. */
typedef struct matrix {
  mmci_form form;
  size_t bytes;
  unsigned char *host;
  void *device;
} matrix;

static double draw(uint64_t *random) {
  static const double odd[] = {0.0, -0.0, 1e-310, -1e-41, 3e38, 6e-8, 1};
  return random_below(random, 50) == 0 ? odd[random_below(random, 7)] : random_unit(random);
}

static void fill(mmc_dtype dtype, size_t bytes, uint64_t *random, unsigned char *to) {
  const size_t size = mmc_dtype_size(dtype), real = mmci_dtype_is_complex(dtype) ? size / 2 : size;
  for (size_t at = 0; at + real <= bytes; at += real) {
    const double x = draw(random);
    const float single = (float)x;
    const uint16_t half = dtype == MMC_F16 ? mmci_f16_round(x) : mmci_bf16_round(x);
    memcpy(to + at, real == 8 ? (const void *)&x : real == 4 ? (const void *)&single : &half, real);
  }
}

static bool make(const target *on, mmc_dtype dtype, int64_t rows, int64_t cols, int64_t batch,
                 bool trans, int64_t gap, uint64_t *random, matrix *x) {
  mmci_error error = {0};
  x->form = (mmci_form){.ld = (trans ? rows : cols) + gap, .trans = trans};
  x->form.stride = (trans ? cols : rows) * x->form.ld;
  x->form.conj = random_below(random, 2) == 1;
  x->bytes = (size_t)(x->form.stride * batch) * mmc_dtype_size(dtype);
  x->host = malloc(x->bytes + 1);
  if (!expect(x->host != NULL, "host memory")) return false;
  fill(dtype, x->bytes, random, x->host);
  return expect_ok(on->ops->alloc(on->device, x->bytes + 1, &x->device, &error), &error, "alloc");
}

static bool copy(const target *on, mmci_queue *queue, const matrix *x, bool to_device) {
  mmci_error error = {0};
  const mmci_transfer transfer = {.to = to_device ? x->device : x->host,
                                  .from = to_device ? (const void *)x->host : x->device,
                                  .to_pitch = (int64_t)x->bytes,
                                  .from_pitch = (int64_t)x->bytes,
                                  .lines = 1,
                                  .line_bytes = (int64_t)x->bytes};
  mmc_status status =
      (to_device ? on->ops->async->upload : on->ops->async->download)(queue, &transfer, &error);
  if (status == MMC_OK) status = on->ops->sync(queue, &error);
  return expect_ok(status, &error, "a copy");
}

static void release(const target *on, matrix *x) {
  free(x->host);
  if (x->device != NULL) on->ops->dealloc(on->device, x->device);
}

/* Compares a row of result number i with plain loops, where C was `before`. */
static bool row_is_right(const mmci_gemm *gemm, const matrix *a, const matrix *b, const matrix *c,
                         const unsigned char *before, int64_t i, int64_t row) {
  const size_t size = mmc_dtype_size(gemm->dtype), line = (size_t)gemm->n * size;
  const size_t at = (size_t)(i * gemm->c_stride + row * gemm->ldc) * size;
  mmci_gemm one = *gemm;
  one.m = 1;
  unsigned char *expected = malloc(line + 1);
  if (expected == NULL) return false;
  memcpy(expected, before + at, line);
  mmci_ref_ordered(
      &one, a->host + (size_t)(i * gemm->a.stride + row * (gemm->a.trans ? 1 : gemm->a.ld)) * size,
      b->host + (size_t)(i * gemm->b.stride) * size, expected);
  const bool same = memcmp(expected, c->host + at, line) == 0;
  free(expected);
  return same;
}

static double element(mmc_dtype dtype, const unsigned char *at) {
  uint16_t half;
  memcpy(&half, at, sizeof half);
  return (double)(dtype == MMC_F16 ? mmci_f16_to_f32(half) : mmci_bf16_to_f32(half));
}

/* Says whether the elements of a row of f16 or bf16 are as near to exact ones as they have to be.
 * Where C was added to, or a number is not finite, nothing is said. */
static bool row_is_near(const mmci_gemm *gemm, const unsigned char *row_of_a,
                        const unsigned char *row_of_b, const unsigned char *c) {
  const int64_t a_step = gemm->a.trans ? gemm->a.ld : 1, b_step = gemm->b.trans ? 1 : gemm->b.ld,
                b_next = gemm->b.trans ? gemm->b.ld : 1;
  for (int64_t j = 0; j < gemm->n && !gemm->accumulate; j++) {
    double sum = 0, left = 0, right = 0;
    for (int64_t k = 0; k < gemm->k; k++) {
      const double x = element(gemm->dtype, row_of_a + 2 * k * a_step),
                   y = element(gemm->dtype, row_of_b + 2 * (k * b_step + j * b_next));
      sum += x * y;
      left += x * x;
      right += y * y;
    }
    const double length = sqrt(left * right);
    if (!isfinite(length) || length > 6e4) continue;
    const double bound = 4 * mmci_gemm_error_bound(gemm) * length + 0x1p-24;
    if (!(fabs(element(gemm->dtype, c + 2 * j) - sum) <= bound)) return false;
  }
  return true;
}

/* Compares a row of result number i of f16 or bf16, whose bits depend on the device, with a product
 * of that row alone, which the device computes otherwise. */
static bool row_is_that_alone(const target *on, mmci_queue *queue, const mmci_gemm *gemm,
                              const matrix *a, const matrix *b, const matrix *c,
                              const unsigned char *before, int64_t i, int64_t row) {
  const size_t line = (size_t)gemm->n * 2, at = (size_t)(i * gemm->c_stride + row * gemm->ldc) * 2,
               a_at = (size_t)(i * gemm->a.stride + row * (gemm->a.trans ? 1 : gemm->a.ld)) * 2,
               b_at = (size_t)(i * gemm->b.stride) * 2;
  mmci_gemm one = *gemm;
  mmci_error error = {0};
  mmci_kernel *kernel = NULL;
  matrix result = {.bytes = line, .host = malloc(line)};
  one.m = one.batch = 1;
  bool fine =
      result.host != NULL && on->ops->alloc(on->device, line, &result.device, &error) == MMC_OK;
  if (fine) memcpy(result.host, before + at, line);
  fine = fine && copy(on, queue, &result, true) &&
         expect_ok(on->ops->prepare(on->device, &one, &kernel, &error), &error, "prepare") &&
         expect_ok(on->ops->enqueue(queue, kernel, (char *)a->device + a_at,
                                    (char *)b->device + b_at, result.device, &error),
                   &error, "enqueue") &&
         copy(on, queue, &result, false) && memcmp(result.host, c->host + at, line) == 0 &&
         row_is_near(gemm, a->host + a_at, b->host + b_at, c->host + at);
  if (kernel != NULL) on->ops->release(kernel);
  release(on, &result);
  return fine;
}

static void try_product(const target *on, mmci_queue *queue, mmci_gemm gemm, int64_t rows,
                        uint64_t *random) {
  const int64_t batch = gemm.batch > 1 ? gemm.batch : 1, gap = random_below(random, 3) * 4;
  matrix a = {0}, b = {0}, c = {0};
  mmci_error error = {0};
  mmci_kernel *kernel = NULL;
  gemm.precision = MMCI_REPRODUCIBLE;
  mmci_gemm_choose_sums(&gemm);
  bool fine =
      make(on, gemm.dtype, gemm.m, gemm.k, batch, random_below(random, 2), gap, random, &a) &&
      make(on, gemm.dtype, gemm.k, gemm.n, batch, random_below(random, 2), gap, random, &b) &&
      make(on, gemm.dtype, gemm.m, gemm.n, batch, false, gap, random, &c);
  unsigned char *before = malloc(c.bytes + 1);
  fine = fine && before != NULL;
  if (fine) memcpy(before, c.host, c.bytes);
  gemm.a = a.form;
  gemm.b = b.form;
  gemm.ldc = c.form.ld;
  gemm.c_stride = c.form.stride;
  if (!mmci_dtype_is_complex(gemm.dtype)) gemm.a.conj = gemm.b.conj = false;
  fine =
      fine && copy(on, queue, &a, true) && copy(on, queue, &b, true) && copy(on, queue, &c, true);
  fine = fine && expect_ok(on->ops->prepare(on->device, &gemm, &kernel, &error), &error, "prepare");
  fine = fine && expect_ok(on->ops->enqueue(queue, kernel, a.device, b.device, c.device, &error),
                           &error, "enqueue");
  fine = fine && copy(on, queue, &c, false);
  for (int64_t r = 0; r < rows && fine; r++) {
    const int64_t i = random_below(random, batch), row = random_below(random, gemm.m);
    const bool same = mmc_dtype_size(gemm.dtype) == 2
                          ? row_is_that_alone(on, queue, &gemm, &a, &b, &c, before, i, row)
                          : row_is_right(&gemm, &a, &b, &c, before, i, row);
    if (!expect(same, "bits")) {
      printf("  %s %" PRId64 " x %" PRId64 " x %" PRId64 " @%" PRId64 ", %d %d, added %d\n",
             mmc_dtype_name(gemm.dtype), gemm.m, gemm.k, gemm.n, batch, gemm.a.trans, gemm.b.trans,
             gemm.accumulate);
      fine = false;
    }
  }
  if (kernel != NULL) on->ops->release(kernel);
  release(on, &a);
  release(on, &b);
  release(on, &c);
  free(before);
}

/* ---- chains as one call -------------------------------------------------------------------- */

enum { FACTORS_MOST = 5, NODES_MOST = 2 * FACTORS_MOST - 1 };

typedef struct chain {
  mmci_group group;
  mmci_form forms[FACTORS_MOST];
  mmci_group_product products[FACTORS_MOST - 1];
  matrix nodes[NODES_MOST]; /* factors, then results; that of the last product is the group's */
} chain;

/* Computes a product of one chain: of 16 bits on the device, whose bits they are, by the kernels
 * for single products; others by plain loops. */
static bool compute_alone(const target *on, mmci_queue *queue, const mmci_gemm *gemm,
                          const matrix *a, const matrix *b, matrix *to) {
  if (mmc_dtype_size(gemm->dtype) != 2) {
    mmci_ref_ordered(gemm, a->host, b->host, to->host);
    return true;
  }
  mmci_error error = {0};
  mmci_kernel *kernel = NULL;
  const bool fine =
      expect_ok(on->ops->prepare(on->device, gemm, &kernel, &error), &error, "prepare") &&
      expect_ok(on->ops->enqueue(queue, kernel, a->device, b->device, to->device, &error), &error,
                "enqueue") &&
      copy(on, queue, to, false);
  if (kernel != NULL) on->ops->release(kernel);
  return fine;
}

/* Computes chain number i product by product, and compares all of its result. */
static bool chain_is_right(const target *on, mmci_queue *queue, const chain *x, int64_t i,
                           uint64_t *random) {
  const mmc_dtype dtype = x->group.dtype;
  const size_t size = mmc_dtype_size(dtype);
  const int32_t n = x->group.n, last = n + x->group.count - 1;
  matrix own[NODES_MOST] = {0};
  bool fine = true;
  for (int32_t p = 0; p < x->group.count && fine; p++) {
    const mmci_group_product *step = &x->products[p];
    const int32_t sides[] = {step->left, step->right};
    matrix operands[2];
    for (int t = 0; t < 2; t++) {
      operands[t] = sides[t] < n ? x->nodes[sides[t]] : own[sides[t]];
      const size_t offset = sides[t] < n ? (size_t)(i * x->forms[sides[t]].stride) * size : 0;
      operands[t].host += offset;
      operands[t].device = (char *)operands[t].device + offset;
    }
    const mmci_gemm gemm = {.dtype = dtype,
                            .precision = MMCI_REPRODUCIBLE,
                            .m = step->m,
                            .k = step->k,
                            .n = step->n,
                            .a = operands[0].form,
                            .b = operands[1].form,
                            .ldc = step->n,
                            .batch = 1};
    fine = make(on, dtype, step->m, step->n, 1, false, 0, random, &own[n + p]);
    own[n + p].form.conj = false;
    fine = fine && compute_alone(on, queue, &gemm, &operands[0], &operands[1], &own[n + p]);
  }
  const int64_t rows = x->products[last - n].m, cols = x->products[last - n].n;
  for (int64_t r = 0; r < rows && fine; r++)
    fine = memcmp(x->nodes[last].host + (size_t)(i * x->group.c_stride + r * x->group.ldc) * size,
                  own[last].host + (size_t)(r * cols) * size, (size_t)cols * size) == 0;
  for (int32_t p = n; p <= last; p++) release(on, &own[p]);
  return fine;
}

/* Draws a chain from left to right that the kernel of a variant takes; squares have sides that have
 * a kernel of their own. */
static bool draw_chain(const target *on, mmc_dtype dtype, int variant, uint64_t *random, chain *x) {
  enum { SQUARES = 6, TILES = 7, BY_SIDE = 9, PANELS = 11 };
  static const int64_t SIDES[] = {4, 8, 12, 16, 32, 64};
  const int32_t n = (int32_t)(2 + random_below(random, FACTORS_MOST - 1));
  const int64_t side = variant == BY_SIDE  ? 2 + random_below(random, 47)
                       : variant == PANELS ? 65 + random_below(random, 100)
                                           : SIDES[random_below(random, 6)],
                batch = 2 + random_below(random, 300),
                most = random_below(random, 2) == 0 ? 20 : 60;
  const bool square = variant == SQUARES || variant == BY_SIDE || variant == PANELS,
             tight = square || variant == TILES;
  int64_t dims[FACTORS_MOST + 1];
  for (int32_t d = 0; d <= n; d++) dims[d] = square ? side : 1 + random_below(random, most);
  bool fine = true;
  for (int32_t f = 0; f < n && fine; f++) {
    fine = make(on, dtype, dims[f], dims[f + 1], batch, !tight && random_below(random, 2) == 1,
                tight ? 0 : random_below(random, 3), random, &x->nodes[f]);
    if (!mmci_dtype_is_complex(dtype)) x->nodes[f].form.conj = false;
    x->forms[f] = x->nodes[f].form;
    if (f > 0)
      x->products[f - 1] =
          (mmci_group_product){dims[0], dims[f], dims[f + 1], f == 1 ? 0 : n + f - 2, f};
  }
  matrix *c = &x->nodes[2 * n - 2];
  fine = fine && make(on, dtype, dims[0], dims[n], batch, false,
                      tight ? 0 : random_below(random, 3), random, c);
  x->group = (mmci_group){.dtype = dtype,
                          .precision = MMCI_REPRODUCIBLE,
                          .batch = batch,
                          .n = n,
                          .count = n - 1,
                          .forms = x->forms,
                          .products = x->products,
                          .ldc = c->form.ld,
                          .c_stride = c->form.stride,
                          .variant = variant};
  return fine;
}

/* Says whether the kernel took the chain. */
static bool try_chain(const target *on, mmci_queue *queue, mmc_dtype dtype, int variant,
                      uint64_t *random) {
  chain x = {0};
  mmci_error error = {0};
  mmci_group_kernel *kernel = NULL;
  bool fine = draw_chain(on, dtype, variant, random, &x);
  const int32_t n = x.group.n, last = 2 * n - 2;
  const bool taken = fine && on->ops->group_supports(on->device, &x.group);
  const void *operands[FACTORS_MOST] = {NULL};
  for (int32_t f = 0; f < n && fine; f++) {
    operands[f] = x.nodes[f].device;
    fine = copy(on, queue, &x.nodes[f], true);
  }
  if (taken && fine) {
    fine = expect_ok(on->ops->group_prepare(on->device, &x.group, &kernel, &error), &error,
                     "group_prepare") &&
           expect_ok(on->ops->group_enqueue(queue, kernel, operands, x.nodes[last].device, &error),
                     &error, "group_enqueue") &&
           copy(on, queue, &x.nodes[last], false);
    for (int64_t i = 0; i < x.group.batch && fine; i += 1 + random_below(random, 100))
      if (!expect(chain_is_right(on, queue, &x, i, random), "bits of a chain")) {
        printf("  %s, %d products, variant %d, chain %" PRId64 "\n", mmc_dtype_name(dtype),
               x.group.count, variant, i);
        fine = false;
      }
  }
  if (kernel != NULL) on->ops->group_release(kernel);
  for (int t = 0; t < NODES_MOST; t++) release(on, &x.nodes[t]);
  return taken;
}

static void try_chains(const target *on, mmci_queue *queue, uint64_t *random) {
  enum {
    ANY,
    GENERAL,
    TENSOR = 4,
    PACKS,
    SQUARES,
    TILES,
    BY_SIDE = 9,
    PANELS = 11,
    NONE,
    VARIANTS_MOST = 7
  };
  static const struct {
    mmc_dtype dtype;
    int variants[VARIANTS_MOST];
  } KINDS[] = {{MMC_F32, {GENERAL, PACKS, SQUARES, TILES, BY_SIDE, PANELS, ANY}},
               {MMC_F64, {GENERAL, PACKS, BY_SIDE, ANY, NONE}},
               {MMC_C64, {GENERAL, PACKS, BY_SIDE, ANY, NONE}},
               {MMC_C128, {GENERAL, PACKS, BY_SIDE, ANY, NONE}},
               {MMC_F16, {TENSOR, ANY, NONE}},
               {MMC_BF16, {TENSOR, ANY, NONE}}};
  for (size_t t = 0; t < sizeof KINDS / sizeof *KINDS; t++)
    for (int v = 0; v < VARIANTS_MOST && KINDS[t].variants[v] != NONE; v++) {
      const int rounds = on->small ? 4 : 20;
      int taken = 0;
      for (int round = 0; round < rounds; round++)
        taken += try_chain(on, queue, KINDS[t].dtype, KINDS[t].variants[v], random);
      /* Those of 16 bits need tensor cores, those by side and by panels Hopper. */
      if (mmc_dtype_size(KINDS[t].dtype) != 2 && KINDS[t].variants[v] != BY_SIDE &&
          KINDS[t].variants[v] != PANELS)
        expect(2 * taken >= rounds, "chains that a kernel takes");
    }
}

/* Long products: dots, rows, few elements, as many as are long at most, whose pieces come in
 * rounds, a last piece of one term, and batches. */
static void try_long(const target *on, mmci_queue *queue, uint64_t *random) {
  static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128, MMC_F16, MMC_BF16};
  static const int64_t sizes[][4] = {{1, 100000, 1, 1},  {64, 20000, 64, 1},   {16, 8192, 16, 1},
                                     {3, 50000, 5, 1},   {500, 10000, 500, 1}, {512, 20481, 512, 1},
                                     {1, 4096, 4000, 1}, {300, 4097, 1, 1},    {8, 4096, 8, 200},
                                     {1, 8192, 1, 3000}, {128, 5120, 256, 12}, {64, 16384, 64, 3}};
  enum { SIZES = sizeof sizes / sizeof *sizes, SMALL_SIZES = 4 };
  for (int t = 0; t < 6 * (on->small ? SMALL_SIZES : SIZES); t++) {
    const int64_t *size = sizes[t / 6];
    mmci_gemm gemm = {.dtype = dtypes[t % 6],
                      .m = size[0],
                      .k = size[1],
                      .n = size[2],
                      .batch = size[3],
                      .accumulate = random_below(random, 4) == 0,
                      .turned = random_below(random, 2) == 0};
    try_product(on, queue, gemm, 4, random);
  }
  for (int t = 0; t < (on->small ? 6 : 60); t++) {
    mmci_gemm gemm = {.dtype = dtypes[t % 6],
                      .m = 1 + random_below(random, 300),
                      .k = 4096 + random_below(random, 6000),
                      .n = 1 + random_below(random, 300),
                      .batch = random_below(random, 3) == 0 ? 1 + random_below(random, 5) : 1,
                      .accumulate = random_below(random, 4) == 0,
                      .turned = random_below(random, 2) == 0};
    try_product(on, queue, gemm, 3, random);
  }
}

static void tests(const target *on) {
  static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128, MMC_F16, MMC_BF16};
  mmci_queue *queue = NULL;
  mmci_error error = {0};
  uint64_t random = 20261125;
  if (!expect_ok(on->ops->queue_open(on->device, &queue, &error), &error, "queue_open")) return;
  for (int round = 0; round < (on->small ? 30 : 150); round++) {
    mmci_gemm gemm = {.dtype = dtypes[round % 6],
                      .m = 1 + random_below(&random, 200),
                      .k = 1 + random_below(&random, 300),
                      .n = 1 + random_below(&random, 200),
                      .batch = random_below(&random, 3) == 0 ? 1 + random_below(&random, 5) : 1};
    gemm.accumulate = random_below(&random, 4) == 0;
    gemm.turned = random_below(&random, 2) == 0;
    try_product(on, queue, gemm, 5, &random);
  }
  /* Complex batches of few and of many tiles, and lines that are no multiples of 16 bytes. */
  for (int round = 0; round < (on->small ? 8 : 60); round++) {
    mmci_gemm gemm = {.dtype = round % 2 == 0 ? MMC_C64 : MMC_C128,
                      .m = 1 + random_below(&random, 140),
                      .k = 1 + random_below(&random, 100),
                      .n = 1 + random_below(&random, 140),
                      .batch = 1 + random_below(&random, on->small ? 10 : 400)};
    gemm.accumulate = random_below(&random, 4) == 0;
    gemm.turned = random_below(&random, 2) == 0;
    try_product(on, queue, gemm, 8, &random);
  }
  /* These are large enough for every kernel that takes part. */
  for (int round = 0; round < (on->small ? 0 : 16); round++) {
    const mmci_gemm gemm = {.dtype = dtypes[round % 5 == 4 ? 4 + round / 5 % 2 : round % 5],
                            .m = 3000 + random_below(&random, 600),
                            .k = 128 + random_below(&random, 700),
                            .n = 3000 + random_below(&random, 600)};
    try_product(on, queue, gemm, 3, &random);
  }
  /* Shapes that a library has many algorithms for. */
  for (int round = 0; round < (on->small ? 6 : 60); round++) {
    const mmci_gemm gemm = {
        .dtype = dtypes[round % 6],
        .m = 8 * (1 + random_below(&random, 160)),
        .k = 8 * (1 + random_below(&random, 500)),
        .n = 8 * (1 + random_below(&random, 160)),
        .batch = random_below(&random, 3) == 0 ? 2 + random_below(&random, 6) : 1};
    try_product(on, queue, gemm, 3, &random);
  }
  try_long(on, queue, &random);
  try_chains(on, queue, &random);
  on->ops->queue_close(queue);
}

int main(int argc, char **argv) {
  return gpu_test_main(argc, argv, tests);
}
