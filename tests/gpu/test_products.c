/* test_products.c: the CUDA module's products on a device, every dtype, form, edge and variant,
 * against sums in f64 on the host.
 *
 * All memory is 0xff where no element lies, which is NaN in every dtype: beside the matrices, in
 * the gaps of their leading dimensions, and in C before it is written. Nothing of it may be read,
 * and but for C's elements nothing written. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "../random.h"
#include "gpu_elements.h"
#include "gpu_test.h"

/* ---- matrices -------------------------------------------------------------------------------- */

/* Elements beside a matrix that nobody may touch. */
enum { GUARD = 40 };
/* Variants from 1 on; those of other kernels follow. */
enum { CUBLASLT_VARIANTS = 12 };

typedef struct matrix {
  mmc_dtype dtype;
  int64_t rows, cols; /* with its form applied */
  mmci_form form;
  size_t bytes, first; /* of the buffer; where element (0, 0) lies in it */
  unsigned char *host;
  void *device;
} matrix;

static size_t place(const matrix *x, int64_t r, int64_t c) {
  int64_t at = x->form.trans ? c * x->form.ld + r : r * x->form.ld + c;
  return x->first + (size_t)at * dtype_facts[x->dtype].size;
}

static element matrix_read(const matrix *x, int64_t r, int64_t c) {
  element value = element_read(x->dtype, x->host + place(x, r, c));
  if (x->form.conj) value.im = -value.im;
  return value;
}

static void matrix_write(matrix *x, int64_t r, int64_t c, element value) {
  element_write(x->dtype, x->host + place(x, r, c), value);
}

static unsigned char *address(const matrix *x) {
  return (unsigned char *)x->device + x->first;
}

/* shift: by how many reals the first element is off what an allocation is aligned to. */
static bool matrix_create(matrix *x, const target *on, mmc_dtype dtype, int64_t rows, int64_t cols,
                          mmci_form form, int shift) {
  mmci_error error = {MMC_OK, ""};
  int64_t lines = form.trans ? cols : rows;
  *x = (matrix){.dtype = dtype, .rows = rows, .cols = cols, .form = form};
  /* 64 elements are a multiple of what allocations are aligned to. */
  x->first = 64 * dtype_facts[dtype].size + (size_t)shift * dtype_facts[dtype].real_size;
  x->bytes = x->first + ((size_t)(lines * form.ld) + GUARD) * dtype_facts[dtype].size;
  x->host = malloc(x->bytes);
  if (x->host == NULL) return expect(false, "out of memory");
  memset(x->host, 0xff, x->bytes);
  return expect_ok(on->ops->alloc(on->device, x->bytes, &x->device, &error), &error, "alloc");
}

static void matrix_destroy(matrix *x, const target *on) {
  free(x->host);
  on->ops->dealloc(on->device, x->device);
}

static void matrix_fill(matrix *x, uint64_t *random) {
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++)
      matrix_write(x, r, c, (element){random_unit(random), random_unit(random)});
}

static mmc_status matrix_move(const matrix *x, const target *on, mmci_queue *queue, bool up,
                              mmci_error *error) {
  const int64_t bytes = (int64_t)x->bytes;
  mmci_transfer whole = {x->device, x->host, bytes, bytes, 1, bytes};
  if (up) return on->ops->async->upload(queue, &whole, error);
  whole.to = x->host;
  whole.from = x->device;
  return on->ops->async->download(queue, &whole, error);
}

/* ---- one product ----------------------------------------------------------------------------- */

typedef struct trial {
  mmci_gemm gemm;
  int shift_a, shift_b, shift_c;
  const char *kernel; /* that must do it; NULL: any */
  uint64_t seed;
} trial;

static void describe_trial(const trial *t) {
  const mmci_gemm *g = &t->gemm;
  printf("  %s %" PRId64 " x %" PRId64 " x %" PRId64 ", A%s%s ld %" PRId64 ", B%s%s ld %" PRId64
         ", ldc %" PRId64 "%s, precision %d, variant %d, shifts %d %d %d, seed %" PRIu64 "\n",
         dtype_facts[g->dtype].name, g->m, g->k, g->n, g->a.trans ? " trans" : "",
         g->a.conj ? " conj" : "", g->a.ld, g->b.trans ? " trans" : "", g->b.conj ? " conj" : "",
         g->b.ld, g->ldc, g->accumulate ? ", accumulated" : "", (int)g->precision, g->variant,
         t->shift_a, t->shift_b, t->shift_c, t->seed);
}

/* The greatest distance from (re, im) that rounding explains: sum is of |a| |b|, and C's. */
static double allowed(const mmci_gemm *gemm, element exact, element before, double sum) {
  const struct dtype_facts *facts = &dtype_facts[gemm->dtype];
  /* Errors of k roundings add up as a walk at random does; 8 stands for its tails. */
  double epsilon = facts->sum_epsilon * (8 * sqrt((double)gemm->k) + 8);
  /* TF32 keeps 10 bits of a fraction: two factors, rounded or cut. */
  if (gemm->precision == MMCI_FAST && (gemm->dtype == MMC_F32 || gemm->dtype == MMC_C64))
    epsilon += 0x1p-9;
  /* Some of cuBLAS's kernels round A B before they add C. */
  double stored = fabs(exact.re) + fabs(exact.im);
  if (gemm->accumulate) stored += fabs(exact.re - before.re) + fabs(exact.im - before.im);
  return epsilon * sum + facts->epsilon * stored + facts->least;
}

/* Elements of C against sums in f64; before is C's buffer as it was. */
static bool elements_are_right(const trial *t, const matrix *a, const matrix *b, const matrix *c,
                               const matrix *before) {
  const mmci_gemm *g = &t->gemm;
  for (int64_t r = 0; r < g->m; r++)
    for (int64_t q = 0; q < g->n; q++) {
      element first = {0, 0}, got = matrix_read(c, r, q);
      if (g->accumulate) first = matrix_read(before, r, q);
      element exact = first;
      double sum = fabs(exact.re) + fabs(exact.im);
      for (int64_t d = 0; d < g->k; d++) {
        element x = matrix_read(a, r, d), y = matrix_read(b, d, q);
        exact.re += x.re * y.re - x.im * y.im;
        exact.im += x.re * y.im + x.im * y.re;
        sum += (fabs(x.re) + fabs(x.im)) * (fabs(y.re) + fabs(y.im));
      }
      double limit = allowed(g, exact, first, sum);
      if (fabs(got.re - exact.re) <= limit && fabs(got.im - exact.im) <= limit) continue;
      printf("  C(%" PRId64 ", %" PRId64
             ") is (%.17g, %.17g), not (%.17g, %.17g), off by more than %g\n",
             r, q, got.re, got.im, exact.re, exact.im, limit);
      return false;
    }
  return true;
}

/* No byte but C's elements has changed. */
static bool rest_is_left_alone(const matrix *c, const matrix *before) {
  const size_t size = dtype_facts[c->dtype].size;
  size_t at = 0;
  for (int64_t r = 0; r <= c->rows; r++) {
    size_t from = r < c->rows && c->cols > 0 ? place(c, r, 0) : c->bytes;
    if (memcmp(c->host + at, before->host + at, from - at) != 0) return false;
    if (from == c->bytes) break;
    at = from + (size_t)c->cols * size;
  }
  return true;
}

static bool compute(const trial *t, const target *on, mmci_queue *queue, const matrix *a,
                    const matrix *b, const matrix *c) {
  mmci_error error = {MMC_OK, ""};
  mmci_kernel *kernel = NULL;
  mmc_status status = on->ops->prepare(on->device, &t->gemm, &kernel, &error);
  if (status == MMC_OK) status = matrix_move(a, on, queue, true, &error);
  if (status == MMC_OK) status = matrix_move(b, on, queue, true, &error);
  if (status == MMC_OK) status = matrix_move(c, on, queue, true, &error);
  if (status == MMC_OK)
    status = on->ops->enqueue(queue, kernel, address(a), address(b), address(c), &error);
  if (status == MMC_OK) status = matrix_move(c, on, queue, false, &error);
  if (status == MMC_OK) status = on->ops->sync(queue, &error);
  on->ops->release(kernel);
  return expect_ok(status, &error, "a product");
}

static bool copy_of(matrix *copy, const matrix *x) {
  *copy = *x;
  copy->host = malloc(x->bytes);
  if (copy->host == NULL) return expect(false, "out of memory");
  memcpy(copy->host, x->host, x->bytes);
  return true;
}

static void try_product(const target *on, mmci_queue *queue, const trial *t) {
  const mmci_gemm *g = &t->gemm;
  const mmci_form plain = {.ld = g->ldc};
  uint64_t random = t->seed;
  matrix a = {0}, b = {0}, c = {0}, before = {0};
  bool right = expect(on->ops->supports(on->device, g), "a product is supported");
  const char *name = on->ops->kernel_name(on->device, g);
  if (t->kernel != NULL) right = expect(strcmp(name, t->kernel) == 0, name) && right;
  right = matrix_create(&a, on, g->dtype, g->m, g->k, g->a, t->shift_a) && right;
  right = matrix_create(&b, on, g->dtype, g->k, g->n, g->b, t->shift_b) && right;
  right = matrix_create(&c, on, g->dtype, g->m, g->n, plain, t->shift_c) && right;
  if (right) {
    matrix_fill(&a, &random);
    matrix_fill(&b, &random);
    if (g->accumulate) matrix_fill(&c, &random);
    right = copy_of(&before, &c) && compute(t, on, queue, &a, &b, &c);
    right = right && expect(elements_are_right(t, &a, &b, &c, &before), "elements are right") &&
            expect(rest_is_left_alone(&c, &before), "what is beside C is left alone");
    free(before.host);
  }
  if (!right) describe_trial(t);
  matrix_destroy(&a, on);
  matrix_destroy(&b, on);
  matrix_destroy(&c, on);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static mmci_form form_of(int kind, int64_t rows, int64_t cols, int64_t gap) {
  bool trans = kind % 2 == 1;
  int64_t length = trans ? rows : cols;
  return (mmci_form){.ld = (length > 0 ? length : 1) + gap, .trans = trans, .conj = kind / 2 == 1};
}

/* Forms, gaps, addresses and the rest at random. */
static trial random_trial(mmc_dtype dtype, int64_t m, int64_t k, int64_t n, uint64_t *random) {
  trial t = {.seed = random_bits(random)};
  uint64_t state = t.seed;
  mmci_gemm *g = &t.gemm;
  *g = (mmci_gemm){.dtype = dtype, .m = m, .k = k, .n = n};
  g->a = form_of((int)random_below(&state, 4), m, k,
                 random_below(&state, 2) * random_below(&state, 20));
  g->b = form_of((int)random_below(&state, 4), k, n,
                 random_below(&state, 2) * random_below(&state, 20));
  g->ldc = (n > 0 ? n : 1) + random_below(&state, 2) * random_below(&state, 20);
  g->precision = (mmci_precision)random_below(&state, 3);
  g->accumulate = random_below(&state, 3) == 0;
  if (random_below(&state, 3) == 0) {
    t.shift_a = (int)random_below(&state, 5);
    t.shift_b = (int)random_below(&state, 5);
    t.shift_c = (int)random_below(&state, 5);
  }
  bool unsayable =
      mmci_dtype_is_complex(dtype) && ((g->a.conj && !g->a.trans) || (g->b.conj && !g->b.trans));
  static const char *const NAMES[] = {"cublas sgemm", "cublas dgemm", "cublas cgemm",
                                      "cublas zgemm", "cublas f16",   "cublas bf16"};
  bool fast = g->precision == MMCI_FAST;
  t.kernel = m == 0 || n == 0 || (k == 0 && g->accumulate) ? "nothing"
             : k == 0                                      ? "zeros"
             : unsayable                                   ? "plain"
             : fast && dtype == MMC_F32                    ? "cublas tf32"
             : fast && dtype == MMC_C64                    ? "cublas tf32 complex"
                                                           : NAMES[dtype];
  return t;
}

static void test_forms(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t *random) {
  const int64_t m = 37, k = on->small ? 18 : 70, n = 66;
  for (int form = 0; form < 4 * 4 * 2 * 2; form++) {
    trial t = random_trial(dtype, m, k, n, random);
    mmci_gemm *g = &t.gemm;
    if (on->small && form % 5 != 0) continue;
    t.kernel = NULL;
    g->a = form_of(form % 4, m, k, form / 32 * 3);
    g->b = form_of(form / 4 % 4, k, n, form / 32 * 5);
    g->accumulate = form / 16 % 2 == 1;
    try_product(on, queue, &t);
  }
}

static void test_edges(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t *random) {
  static const int64_t SIZES[] = {0, 1, 17, 63, 64, 65, 127, 128, 129};
  enum { COUNT = sizeof SIZES / sizeof *SIZES };
  for (int at = 0; at < COUNT * COUNT * COUNT; at++) {
    const int64_t m = SIZES[at % COUNT], k = SIZES[at / COUNT % COUNT],
                  n = SIZES[at / COUNT / COUNT];
    if (on->small && at % 41 != (int)dtype) continue;
    trial t = random_trial(dtype, m, k, n, random);
    try_product(on, queue, &t);
  }
}

static void test_shapes(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t *random) {
  static const int64_t SHAPES[][3] = {
      {1, 300, 517}, {517, 300, 1}, {1, 1, 3000},  {3000, 1, 1},  {3, 10000, 5},   {33, 10000, 31},
      {2, 7, 3000},  {3000, 5, 2},  {1, 10000, 1}, {500, 1, 500}, {256, 256, 256}, {200, 513, 7}};
  for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++) {
    if (on->small && s % 4 != 0) continue;
    trial t = random_trial(dtype, SHAPES[s][0], SHAPES[s][1], SHAPES[s][2], random);
    try_product(on, queue, &t);
    t.gemm.precision = MMCI_FAST;
    t.kernel = NULL;
    try_product(on, queue, &t);
  }
  for (int s = 0; s < (on->small ? 3 : 150); s++) {
    int64_t m = random_below(random, 200), k = random_below(random, 400),
            n = random_below(random, 200);
    trial t = random_trial(dtype, m, k, n, random);
    try_product(on, queue, &t);
  }
}

/* What its largest kernel takes of the chip is known, and possible. */
static void check_facts(const target *on, const mmci_gemm *gemm) {
  mmci_kernel_facts facts = {0};
  mmci_error error = {MMC_OK, ""};
  expect(on->ops->kernel_facts(on->device, gemm, &facts, &error) == MMC_OK, error.text);
  expect(facts.registers_per_thread > 0 && facts.registers_per_thread <= 255 &&
             facts.threads_per_block > 0 && facts.threads_per_block <= 1024 &&
             facts.registers_per_thread * facts.threads_per_block <= 65536 &&
             facts.shared_bytes_per_block >= 0 && facts.shared_bytes_per_block <= 228 << 10,
         "a kernel's facts are possible");
}

static void test_variants(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t *random) {
  static const int64_t SHAPES[][3] = {
      {64, 64, 64}, {129, 300, 200}, {512, 520, 96}, {1, 40, 64}, {17, 0, 9}};
  int most = 0;
  for (size_t s = 0; s < (on->small ? 1 : sizeof SHAPES / sizeof *SHAPES); s++)
    for (int aligned = 0; aligned < 2; aligned++) {
      const int64_t m = SHAPES[s][0], k = SHAPES[s][1], n = SHAPES[s][2];
      trial t = random_trial(dtype, m, k, n, random);
      t.gemm.a = form_of((int)s % 2, m, k, 8);
      t.gemm.b = form_of((int)s / 2 % 2, k, n, 16);
      t.shift_a = t.shift_b = t.shift_c = 1 - aligned;
      t.kernel = NULL;
      int count = on->ops->variants(on->device, &t.gemm);
      most = count > most ? count : most;
      expect(count >= 0 && count <= 48 && (k > 0 || count == 0), "the count of variants is sound");
      mmci_kernel *kernel = NULL;
      mmci_error error = {MMC_OK, ""};
      for (int v = 1; v <= count; v++) {
        char name[32];
        snprintf(name, sizeof name, "cublaslt %d", v);
        t.gemm.variant = v;
        t.kernel = v <= CUBLASLT_VARIANTS ? name : NULL;
        /* Numbers stay what they are, so there may be fewer of cuBLASLt's. */
        mmc_status status = on->ops->prepare(on->device, &t.gemm, &kernel, &error);
        on->ops->release(status == MMC_OK ? kernel : NULL);
        if (status == MMC_E_UNSUPPORTED) continue;
        try_product(on, queue, &t);
        check_facts(on, &t.gemm);
      }
      t.gemm.variant = 0;
      if (k > 0) check_facts(on, &t.gemm);
      kernel = NULL;
      t.gemm.variant = count + 1;
      if (k > 0)
        expect(on->ops->prepare(on->device, &t.gemm, &kernel, &error) == MMC_E_UNSUPPORTED &&
                   kernel == NULL,
               "a variant that is none is E_UNSUPPORTED");
    }
  printf("%s: up to %d variants\n", dtype_facts[dtype].name, most);
  expect(most > 0, "there are variants");
}

/* A NaN or an infinity of A reaches its row of C, and no other. */
static void test_not_finite(const target *on, mmci_queue *queue, mmc_dtype dtype,
                            uint64_t *random) {
  static const double VALUES[] = {NAN, INFINITY, -INFINITY};
  for (int v = 0; v < 3; v++)
    for (int plain = 0; plain < 2; plain++) {
      const int64_t m = 19, k = 33, n = 21, row = 4;
      trial t = {.gemm = {.dtype = dtype, .m = m, .k = k, .n = n, .ldc = n}, .seed = *random};
      /* Complex ones go to both kernels: conjugated and not transposed is what cuBLAS cannot say.
       */
      t.gemm.a = form_of(plain * 2, m, k, 0);
      t.gemm.b = form_of(0, k, n, 0);
      matrix a = {0}, b = {0}, c = {0};
      bool right = matrix_create(&a, on, dtype, m, k, t.gemm.a, 0) &&
                   matrix_create(&b, on, dtype, k, n, t.gemm.b, 0) &&
                   matrix_create(&c, on, dtype, m, n, (mmci_form){.ld = n}, 0);
      if (right) {
        matrix_fill(&a, random);
        matrix_fill(&b, random);
        matrix_write(&a, row, 7, (element){VALUES[v], 0});
        right = compute(&t, on, queue, &a, &b, &c);
        for (int64_t r = 0; right && r < m; r++)
          for (int64_t q = 0; q < n; q++) {
            element got = matrix_read(&c, r, q);
            right = right && (isfinite(got.re) && isfinite(got.im)) == (r != row);
            if (r == row && v == 0) right = right && isnan(got.re);
          }
      }
      if (!expect(right, "NaN and infinity pass through")) describe_trial(&t);
      matrix_destroy(&a, on);
      matrix_destroy(&b, on);
      matrix_destroy(&c, on);
    }
}

/* Kernels come and go, and leave nothing. */
static void test_many(const target *on, int count) {
  mmci_error error = {MMC_OK, ""};
  mmc_status status = MMC_OK;
  uint64_t random = 3;
  for (int t = 0; t < count && status == MMC_OK; t++) {
    trial one = random_trial((mmc_dtype)(t % DTYPES), 64, 64, 64, &random);
    mmci_kernel *kernel = NULL;
    int variants = on->ops->variants(on->device, &one.gemm);
    one.gemm.variant = t % (variants + 1);
    status = on->ops->prepare(on->device, &one.gemm, &kernel, &error);
    on->ops->release(kernel);
    if (status == MMC_E_UNSUPPORTED && one.gemm.variant > 0) status = MMC_OK;
  }
  expect_ok(status, &error, "many kernels");
  on->ops->release(NULL);
}

static void test_all(const target *on) {
  mmci_error error = {MMC_OK, ""};
  mmci_queue *queue = NULL;
  uint64_t random = 20260711;
  if (!expect_ok(on->ops->queue_open(on->device, &queue, &error), &error, "queue_open")) return;
  for (int dtype = 0; dtype < DTYPES; dtype++) {
    test_forms(on, queue, (mmc_dtype)dtype, &random);
    if (on->race) continue;
    test_edges(on, queue, (mmc_dtype)dtype, &random);
    test_shapes(on, queue, (mmc_dtype)dtype, &random);
    test_variants(on, queue, (mmc_dtype)dtype, &random);
    test_not_finite(on, queue, (mmc_dtype)dtype, &random);
  }
  if (!on->race) test_many(on, 1000);
  on->ops->queue_close(queue);
}

int main(int argc, char **argv) {
  return gpu_test_main(argc, argv, test_all);
}
