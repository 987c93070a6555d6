/* test_variants.c: products by kernels of our own, every way of large_tile.h and of sliced_k.h on a
 * device, against sums in f64 on the host.
 *
 * All memory is 0xff where no element lies, which is NaN: beside the matrices, in the gaps of their
 * leading dimensions, and in C before it is written. Nothing of it may be read, and but for C's
 * elements nothing written. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "../random.h"
#include "gpu_elements.h"
#include "gpu_test.h"

enum { FIRST_LARGE_TILE = 25, FIRST_SLICED_K = 31, GUARD = 64, MOST_SHIFT = 4 };

static const struct {
  mmc_dtype dtype;
  int variant;
  const char *name;
  int64_t rows, cols; /* of the tile */
} ways[] = {{MMC_F32, FIRST_LARGE_TILE, "large_tile 256x192 1x2", 256, 192},
            {MMC_F32, FIRST_LARGE_TILE + 1, "large_tile 192x256 2x1", 192, 256},
            {MMC_F32, FIRST_LARGE_TILE + 2, "large_tile 256x128", 256, 128},
            {MMC_F32, FIRST_LARGE_TILE + 3, "large_tile 128x128", 128, 128},
            {MMC_F32, FIRST_LARGE_TILE + 4, "large_tile 256x192 2x1", 256, 192},
            {MMC_F32, FIRST_LARGE_TILE + 5, "large_tile 192x256 1x2", 192, 256},
            {MMC_F64, FIRST_LARGE_TILE, "large_tile 128x128", 128, 128},
            {MMC_F64, FIRST_LARGE_TILE + 1, "large_tile 128x64", 128, 64},
            {MMC_F32, FIRST_SLICED_K, "sliced_k 16x32 k8", 16, 32},
            {MMC_F32, FIRST_SLICED_K + 1, "sliced_k 16x32 k4", 16, 32},
            {MMC_F32, FIRST_SLICED_K + 2, "sliced_k 32x32 k8", 32, 32},
            {MMC_F32, FIRST_SLICED_K + 3, "sliced_k 32x32 k4", 32, 32},
            {MMC_F32, FIRST_SLICED_K + 4, "sliced_k 64x64 k2", 64, 64}};
enum { WAYS = sizeof ways / sizeof *ways };

/* ---- matrices -------------------------------------------------------------------------------- */

typedef struct matrix {
  mmc_dtype dtype;
  int64_t rows, cols; /* with its form applied */
  mmci_form form;
  size_t bytes, first;
  unsigned char *host;
  void *device;
  double *values; /* rows x cols */
} matrix;

static unsigned char *place(const matrix *x, int64_t r, int64_t c) {
  int64_t at = x->form.trans ? c * x->form.ld + r : r * x->form.ld + c;
  return x->host + x->first + (size_t)at * dtype_facts[x->dtype].size;
}

static bool matrix_create(matrix *x, const target *on, mmc_dtype dtype, int64_t rows, int64_t cols,
                          mmci_form form, int shift) {
  mmci_error error = {MMC_OK, ""};
  const size_t size = dtype_facts[dtype].size;
  *x = (matrix){.dtype = dtype, .rows = rows, .cols = cols, .form = form};
  x->first = (GUARD + (size_t)shift) * size;
  x->bytes = x->first + ((size_t)((form.trans ? cols : rows) * form.ld) + GUARD) * size;
  x->host = malloc(x->bytes);
  x->values = malloc((size_t)(rows * cols) * sizeof *x->values);
  if (x->host == NULL || x->values == NULL) return expect(false, "out of memory");
  memset(x->host, 0xff, x->bytes);
  return expect_ok(on->ops->alloc(on->device, x->bytes, &x->device, &error), &error, "alloc");
}

static void matrix_destroy(matrix *x, const target *on) {
  free(x->host);
  free(x->values);
  on->ops->dealloc(on->device, x->device);
}

static void matrix_set(matrix *x, int64_t r, int64_t c, double value) {
  element_write(x->dtype, place(x, r, c), (element){value, 0});
  x->values[r * x->cols + c] = element_read(x->dtype, place(x, r, c)).re;
}

static void matrix_fill(matrix *x, uint64_t *random) {
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++) matrix_set(x, r, c, random_unit(random));
}

static mmc_status matrix_move(const matrix *x, const target *on, mmci_queue *queue, bool up,
                              unsigned char *host, mmci_error *error) {
  const int64_t bytes = (int64_t)x->bytes;
  mmci_transfer whole = {x->device, host, bytes, bytes, 1, bytes};
  if (up) return on->ops->async->upload(queue, &whole, error);
  whole.to = host;
  whole.from = x->device;
  return on->ops->async->download(queue, &whole, error);
}

/* ---- one product ----------------------------------------------------------------------------- */

typedef struct trial {
  mmci_gemm gemm;
  int way, shifts[3];
  uint64_t seed;
  int64_t bad_row; /* -1, or A's row that holds bad */
  double bad;
} trial;

typedef struct product {
  matrix a, b, c;
  unsigned char *before, *again; /* C's buffer */
} product;

static void describe_trial(const trial *t) {
  const mmci_gemm *g = &t->gemm;
  printf("  %s %s, %" PRId64 " x %" PRId64 " x %" PRId64 ", A%s ld %" PRId64 ", B%s ld %" PRId64
         ", ldc %" PRId64 "%s, shifts %d %d %d, row %" PRId64 " with %g, seed %" PRIu64 "\n",
         dtype_facts[g->dtype].name, ways[t->way].name, g->m, g->k, g->n, g->a.trans ? "T" : "",
         g->a.ld, g->b.trans ? "T" : "", g->b.ld, g->ldc, g->accumulate ? ", accumulated" : "",
         t->shifts[0], t->shifts[1], t->shifts[2], t->bad_row, t->bad, t->seed);
}

/* One row of C, and of the sums of |a| |b|. */
static void exact_row(const product *p, int64_t r, double *exact, double *sum) {
  const int64_t k = p->a.cols, n = p->b.cols;
  for (int64_t d = 0; d < k; d++) {
    const double x = p->a.values[r * k + d];
    const double *y = p->b.values + d * n;
    for (int64_t c = 0; c < n; c++) {
      exact[c] += x * y[c];
      sum[c] += fabs(x * y[c]);
    }
  }
}

static bool row_is_right(const trial *t, const product *p, int64_t r, double *exact, double *sum) {
  const struct dtype_facts *facts = &dtype_facts[t->gemm.dtype];
  const int64_t n = t->gemm.n;
  for (int64_t c = 0; c < n; c++) {
    exact[c] = t->gemm.accumulate ? p->c.values[r * n + c] : 0;
    sum[c] = fabs(exact[c]);
  }
  exact_row(p, r, exact, sum);
  /* Errors of k roundings add up as a walk at random does; 8 stands for its tails. */
  const double epsilon = facts->sum_epsilon * (8 * sqrt((double)t->gemm.k) + 8);
  for (int64_t c = 0; c < n; c++) {
    const double got = element_read(t->gemm.dtype, place(&p->c, r, c)).re;
    if (r == t->bad_row ? (isnan(t->bad) ? isnan(got) : !isfinite(got))
                        : fabs(got - exact[c]) <= epsilon * sum[c])
      continue;
    printf("  C(%" PRId64 ", %" PRId64 ") is %.17g, not %.17g\n", r, c, got, exact[c]);
    return false;
  }
  return true;
}

static bool elements_are_right(const trial *t, const product *p) {
  double *rows = malloc(2 * (size_t)t->gemm.n * sizeof *rows);
  bool right = rows != NULL;
  for (int64_t r = 0; r < t->gemm.m && right; r++)
    right = row_is_right(t, p, r, rows, rows + t->gemm.n);
  free(rows);
  return right;
}

/* No byte but C's elements has changed. */
static bool rest_is_left_alone(const product *p) {
  const matrix *c = &p->c;
  size_t at = 0;
  for (int64_t r = 0; r <= c->rows; r++) {
    size_t from = r < c->rows ? (size_t)(place(c, r, 0) - c->host) : c->bytes;
    if (memcmp(c->host + at, p->before + at, from - at) != 0) return false;
    at = from + (size_t)c->cols * dtype_facts[c->dtype].size;
  }
  return true;
}

/* Twice: the result is the same to the last bit. */
static bool compute(const trial *t, const target *on, mmci_queue *queue, product *p) {
  mmci_error error = {MMC_OK, ""};
  mmci_kernel *kernel = NULL;
  const mmci_device_ops *ops = on->ops;
  unsigned char *const to[2] = {p->again, p->c.host};
  const unsigned char *a = (unsigned char *)p->a.device + p->a.first,
                      *b = (unsigned char *)p->b.device + p->b.first;
  mmc_status status = ops->prepare(on->device, &t->gemm, &kernel, &error);
  if (status == MMC_OK) status = matrix_move(&p->a, on, queue, true, p->a.host, &error);
  if (status == MMC_OK) status = matrix_move(&p->b, on, queue, true, p->b.host, &error);
  for (int turn = 0; turn < 2 && status == MMC_OK; turn++) {
    status = matrix_move(&p->c, on, queue, true, p->before, &error);
    if (status == MMC_OK)
      status = ops->enqueue(queue, kernel, a, b, (unsigned char *)p->c.device + p->c.first, &error);
    if (status == MMC_OK) status = matrix_move(&p->c, on, queue, false, to[turn], &error);
    if (status == MMC_OK) status = ops->sync(queue, &error);
  }
  ops->release(kernel);
  return expect_ok(status, &error, "a product");
}

static bool product_create(product *p, const trial *t, const target *on) {
  const mmci_gemm *g = &t->gemm;
  uint64_t random = t->seed;
  bool right = matrix_create(&p->a, on, g->dtype, g->m, g->k, g->a, t->shifts[0]);
  right = matrix_create(&p->b, on, g->dtype, g->k, g->n, g->b, t->shifts[1]) && right;
  right = matrix_create(&p->c, on, g->dtype, g->m, g->n, (mmci_form){.ld = g->ldc}, t->shifts[2]) &&
          right;
  p->before = malloc(p->c.bytes);
  p->again = malloc(p->c.bytes);
  right = right && p->before != NULL && p->again != NULL;
  if (!right) return false;
  matrix_fill(&p->a, &random);
  matrix_fill(&p->b, &random);
  if (t->bad_row >= 0) matrix_set(&p->a, t->bad_row, random_below(&random, g->k), t->bad);
  if (g->accumulate) matrix_fill(&p->c, &random);
  memcpy(p->before, p->c.host, p->c.bytes);
  return true;
}

static void try_product(const target *on, mmci_queue *queue, const trial *t) {
  product p = {0};
  const char *name = on->ops->kernel_name(on->device, &t->gemm);
  bool right = expect(strcmp(name, ways[t->way].name) == 0, name);
  right = expect(product_create(&p, t, on), "a product is made") && right;
  if (right)
    right = compute(t, on, queue, &p) && expect(elements_are_right(t, &p), "elements are right") &&
            expect(rest_is_left_alone(&p), "what is beside C is left alone") &&
            expect(memcmp(p.again, p.c.host, p.c.bytes) == 0, "every run gives the same");
  if (!right) describe_trial(t);
  matrix_destroy(&p.a, on);
  matrix_destroy(&p.b, on);
  matrix_destroy(&p.c, on);
  free(p.before);
  free(p.again);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static mmci_form form_of(bool trans, int64_t rows, int64_t cols, int64_t gap) {
  return (mmci_form){.ld = (trans ? rows : cols) + gap, .trans = trans};
}

/* Forms, gaps (half of them keep lines aligned), addresses and the rest at random. */
static trial random_trial(int way, int64_t m, int64_t k, int64_t n, uint64_t *random) {
  static const int64_t GAPS[] = {0, 0, 4, 8, 1, 3, 17};
  enum { GAP_COUNT = sizeof GAPS / sizeof *GAPS };
  trial t = {.way = way, .seed = random_bits(random), .bad_row = -1};
  uint64_t state = t.seed;
  mmci_gemm *g = &t.gemm;
  *g = (mmci_gemm){.dtype = ways[way].dtype, .m = m, .k = k, .n = n};
  g->variant = ways[way].variant;
  g->a = form_of(random_below(&state, 2) == 1, m, k, GAPS[random_below(&state, GAP_COUNT)]);
  g->b = form_of(random_below(&state, 2) == 1, k, n, GAPS[random_below(&state, GAP_COUNT)]);
  g->ldc = n + GAPS[random_below(&state, GAP_COUNT)];
  g->accumulate = random_below(&state, 3) == 0;
  for (int x = 0; x < 3; x++)
    if (random_below(&state, 4) == 0) t.shifts[x] = (int)random_below(&state, MOST_SHIFT + 1);
  return t;
}

static void try_random(const target *on, mmci_queue *queue, int way, int64_t m, int64_t k,
                       int64_t n, uint64_t *random) {
  trial t = random_trial(way, m, k, n, random);
  try_product(on, queue, &t);
}

static void test_forms(const target *on, mmci_queue *queue, int way, uint64_t *random) {
  const int64_t m = 132, k = on->small ? 36 : 92, n = 196;
  for (int form = 0; form < 16; form++) {
    trial t = random_trial(way, m, k, n, random);
    mmci_gemm *g = &t.gemm;
    if (on->race ? form != 2 * way % 16 : on->small && form % 3 != 0) continue;
    g->a = form_of(form % 2 == 1, m, k, form / 8 * 4);
    g->b = form_of(form / 2 % 2 == 1, k, n, form / 8 * 8);
    g->accumulate = form / 4 % 2 == 1;
    memset(t.shifts, 0, sizeof t.shifts);
    try_product(on, queue, &t);
  }
}

static void test_edges(const target *on, mmci_queue *queue, int way, uint64_t *random) {
  const int64_t rows = ways[way].rows, cols = ways[way].cols;
  const int64_t ms[] = {1, rows - 1, rows, rows + 1, 2 * rows + 3, 127, 31},
                ns[] = {1, cols - 1, cols, cols + 1, 2 * cols + 5, 131, 3},
                ks[] = {1, 2, 15, 16, 31, 32, 33, 64, 97, 257};
  enum { MS = sizeof ms / sizeof *ms, NS = sizeof ns / sizeof *ns, KS = sizeof ks / sizeof *ks };
  for (int at = 0; at < MS * NS; at++) {
    if (on->small && at % 11 != way % 11) continue;
    for (int s = 0; s < (on->small ? 1 : 3); s++)
      try_random(on, queue, way, ms[at % MS], ks[random_below(random, on->small ? 7 : KS)],
                 ns[at / MS], random);
  }
}

/* Shapes that are shared along k by many, or take more than one round. */
static void test_work(const target *on, mmci_queue *queue, int way, uint64_t *random) {
  static const int64_t SHAPES[][3] = {{5, 70001, 7},    {257, 5003, 193}, {1, 4096, 1},
                                      {600, 1009, 701}, {300, 3, 2000},   {3001, 17, 3},
                                      {8705, 33, 769},  {6145, 40, 1025}};
  for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++)
    try_random(on, queue, way, SHAPES[s][0], SHAPES[s][1], SHAPES[s][2], random);
  for (int s = 0; s < 30; s++)
    try_random(on, queue, way, 1 + random_below(random, 700), 1 + random_below(random, 700),
               1 + random_below(random, 700), random);
}

/* A NaN or an infinity of A reaches its row of C, and no other. */
static void test_not_finite(const target *on, mmci_queue *queue, int way, uint64_t *random) {
  static const double VALUES[] = {NAN, INFINITY, -INFINITY};
  for (int v = 0; v < 3; v++) {
    trial t = random_trial(way, 270, 85, 203, random);
    t.bad_row = random_below(random, t.gemm.m);
    t.bad = VALUES[v];
    try_product(on, queue, &t);
  }
}

static void test_refusals(const target *on) {
  mmci_error error = {MMC_OK, ""};
  mmci_kernel *kernel = NULL;
  mmci_gemm gemm = mmci_gemm_tight(MMC_C64, MMCI_NATIVE, 9, 9, 9, MMC_OP_N, MMC_OP_N);
  gemm.variant = FIRST_LARGE_TILE;
  expect(on->ops->prepare(on->device, &gemm, &kernel, &error) == MMC_E_UNSUPPORTED, "complex");
  gemm.variant = FIRST_SLICED_K;
  expect(on->ops->prepare(on->device, &gemm, &kernel, &error) == MMC_E_UNSUPPORTED, "complex");
  gemm.dtype = MMC_F32;
  gemm.variant = FIRST_LARGE_TILE + 1000;
  expect(on->ops->prepare(on->device, &gemm, &kernel, &error) == MMC_E_UNSUPPORTED, "no such way");
}

static void test_all(const target *on) {
  mmci_error error = {MMC_OK, ""};
  mmci_queue *queue = NULL;
  uint64_t random = 20261121;
  if (!expect_ok(on->ops->queue_open(on->device, &queue, &error), &error, "queue_open")) return;
  int tried = 0;
  for (int way = 0; way < WAYS; way++) {
    mmci_kernel *kernel = NULL;
    trial t = random_trial(way, 64, 64, 64, &random);
    if (on->ops->prepare(on->device, &t.gemm, &kernel, &error) == MMC_E_UNSUPPORTED) {
      printf("skipped: %s\n", error.text);
      continue;
    }
    on->ops->release(kernel);
    expect(on->ops->variants(on->device, &t.gemm) >= t.gemm.variant, "variants counts it");
    tried++;
    test_forms(on, queue, way, &random);
    if (!on->race) test_edges(on, queue, way, &random);
    if (!on->race) test_not_finite(on, queue, way, &random);
    if (!on->small) test_work(on, queue, way, &random);
    /* Shared along k. */
    if (on->small) try_random(on, queue, way, 65, 300, 130, &random);
    printf("%s %s: %d checks so far, %d failed\n", dtype_facts[ways[way].dtype].name,
           ways[way].name, checks, failures);
  }
  expect(tried > 0, "there is a way");
  test_refusals(on);
  on->ops->queue_close(queue);
}

int main(int argc, char **argv) {
  return gpu_test_main(argc, argv, test_all);
}
