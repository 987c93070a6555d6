#include "product_case.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- cases ----------------------------------------------------------------------------------- */

mmci_form form_of(int kind, int64_t rows, int64_t cols, int64_t gap) {
  const bool trans = kind % 2 == 1;
  const int64_t length = trans ? rows : cols;
  return (mmci_form){.ld = (length > 0 ? length : 1) + gap, .trans = trans, .conj = kind / 2 == 1};
}

product_case random_case(mmc_dtype dtype, int64_t m, int64_t k, int64_t n, uint64_t *random) {
  product_case x = {.seed = random_bits(random)};
  uint64_t state = x.seed;
  mmci_gemm *g = &x.gemm;
  *g = (mmci_gemm){.dtype = dtype, .m = m, .k = k, .n = n};
  g->a = form_of((int)random_below(&state, 4), m, k,
                 random_below(&state, 2) * random_below(&state, 20));
  g->b = form_of((int)random_below(&state, 4), k, n,
                 random_below(&state, 2) * random_below(&state, 20));
  g->ldc = (n > 0 ? n : 1) + random_below(&state, 2) * random_below(&state, 20);
  g->precision = (mmci_precision)random_below(&state, 3);
  g->accumulate = random_below(&state, 3) == 0;
  const bool shifted = random_below(&state, 3) == 0;
  for (int o = 0; o < 3 && shifted; o++) x.shifts[o] = (int)random_below(&state, 5);
  return x;
}

/* ---- claims ---------------------------------------------------------------------------------- */

static bool is_unsayable(mmc_dtype dtype, const mmci_form *form) {
  return mmci_dtype_is_complex(dtype) && form->conj && !form->trans;
}

/* cuBLAS does what it can say. */
static const char *cuda_kernel(const mmci_gemm *g) {
  static const char *const names[] = {"cublas sgemm", "cublas dgemm", "cublas cgemm",
                                      "cublas zgemm", "cublas f16",   "cublas bf16"};
  const bool fast = g->precision == MMCI_FAST;
  if (g->m == 0 || g->n == 0 || (g->k == 0 && g->accumulate)) return "nothing";
  if (g->k == 0) return "zeros";
  if (is_unsayable(g->dtype, &g->a) || is_unsayable(g->dtype, &g->b)) return "plain";
  if (fast && g->dtype == MMC_F32) return "cublas tf32";
  if (fast && g->dtype == MMC_C64) return "cublas tf32 complex";
  return names[g->dtype];
}

/* Says whether cuBLAS's product is one that this kernel of the module's may take: thin, for few
 * elements, or outer, for few terms of 16 bits. */
static bool may_be(const char *kernel, const mmci_gemm *g) {
  enum { MOST_ELEMENTS = 40000, MOST_TERMS = 8192, FEW_TERMS = 32 };
  const bool is_half = g->dtype == MMC_F16 || g->dtype == MMC_BF16;
  if (strncmp(cuda_kernel(g), "cublas", strlen("cublas")) != 0) return false;
  if (strcmp(kernel, "outer") == 0) return is_half && !g->accumulate && g->k <= FEW_TERMS;
  return strcmp(kernel, "thin") == 0 && g->m * g->n <= MOST_ELEMENTS && g->k <= MOST_TERMS;
}

/* Returns the kernel that the suite knows a device to run for a product, the one that runs where
 * it is one of several that may, or NULL where it knows none. */
static const char *claimed_kernel(const subject *on, const mmci_gemm *gemm, const char *runs) {
  if (gemm->batch > 1 || gemm->variant != 0) return NULL;
  if (on->is_cuda) return may_be(runs, gemm) ? runs : cuda_kernel(gemm);
  return strcmp(on->name, "ref") == 0   ? "loops"
         : strcmp(on->name, "toy") == 0 ? "toy loops"
         : on->is_fake                  ? "fake"
                                        : NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const char *const value_names[VALUES] = {"ordinary", "positive", "wide",
                                                "graded",   "with NaN", "with Inf"};

/* Two to a power that products of two and their sums can hold in the dtype. */
static double power_of_two(mmc_dtype dtype, double share) {
  const double most = dtype == MMC_F16 ? 3 : 20;
  return exp2(round(most * (2 * share - 1)));
}

static double share_of(int64_t at, int64_t count) {
  return count > 1 ? (double)at / (double)(count - 1) : 0;
}

static element special_value(values values, uint64_t *random, element ordinary) {
  if (random_below(random, 23) == 0) {
    const double sign = random_below(random, 2) != 0 ? 1 : -1;
    return (element){values == WITH_NAN ? (double)NAN : sign * (double)INFINITY, 0};
  }
  return random_below(random, 5) == 0 ? (element){0, 0} : ordinary;
}

/* Element (r, c) of x, whose columns are summed over when by_columns, else its rows. */
static element draw(const stack *x, values values, bool by_columns, int64_t r, int64_t c,
                    uint64_t *random) {
  const element one = {random_unit(random), random_unit(random)};
  const int64_t outer = by_columns ? r : c, inner = by_columns ? c : r;
  const int64_t outers = by_columns ? x->rows : x->cols, inners = by_columns ? x->cols : x->rows;
  double scale = 1;
  if (values == POSITIVE) return (element){fabs(one.re) + 0.01, fabs(one.im) + 0.01};
  if (values == WITH_NAN || values == WITH_INF) return special_value(values, random, one);
  if (values == WIDE) scale = power_of_two(x->dtype, (double)random_below(random, 1001) / 1000);
  if (values == GRADED)
    scale = power_of_two(x->dtype, (1 - share_of(outer, outers) + share_of(inner, inners)) / 2);
  return (element){scale * one.re, scale * one.im};
}

static void fill(stack *x, values values, bool by_columns, uint64_t *random) {
  const int64_t count = x->form.stride == 0 ? 1 : x->batch;
  for (int64_t i = 0; i < count; i++)
    for (int64_t r = 0; r < x->rows; r++)
      for (int64_t c = 0; c < x->cols; c++)
        element_write(x->dtype, x->host + place(x, i, r, c),
                      draw(x, values, by_columns, r, c, random));
}

/* ---- what is right --------------------------------------------------------------------------- */

/* The elements of matrix i, row by row; the caller's. */
static element *read_matrix(const stack *x, int64_t i) {
  element *out = (element *)malloc(((size_t)(x->rows * x->cols) + 1) * sizeof *out);
  for (int64_t at = 0; out != NULL && at < x->rows * x->cols; at++)
    out[at] = stack_read(x, i, at / x->cols, at % x->cols);
  return out;
}

static double size_of(element x) {
  return fabs(x.re) + fabs(x.im);
}

/* How far a part may be off: sum is of the products' absolute values and of what they are added to.
 */
static double allowed(const product_case *x, element exact, element before, double sum) {
  const mmci_gemm *g = &x->gemm;
  const struct dtype_facts *facts = &dtype_facts[g->dtype];
  double roundings = 4 * (double)g->k + 8;
  if (x->values == ORDINARY) roundings = fmin(roundings, 8 * sqrt((double)g->k) + 8);
  double epsilon = facts->sum_epsilon * roundings;
  /* TF32 keeps 10 bits of a fraction: two factors, rounded or cut. */
  if (g->precision == MMCI_FAST && (g->dtype == MMC_F32 || g->dtype == MMC_C64)) epsilon += 0x1p-9;
  /* Some of cuBLAS's kernels round A B before they add C. */
  double stored = size_of(exact);
  if (g->accumulate) stored += fabs(exact.re - before.re) + fabs(exact.im - before.im);
  return epsilon * sum + facts->epsilon * stored + facts->least;
}

static bool part_is_right(double got, double want, double limit) {
  if (isnan(want)) return isnan(got);
  return got == want || fabs(got - want) <= limit;
}

/* Whether infinite parts of complex products come out as NaN is the kernel's matter. */
static bool element_is_right(const product_case *x, element got, element want, double limit) {
  if (x->values == WITH_INF && mmci_dtype_is_complex(x->gemm.dtype) &&
      !(isfinite(want.re) && isfinite(want.im)))
    return !(isfinite(got.re) && isfinite(got.im));
  return part_is_right(got.re, want.re, limit) && part_is_right(got.im, want.im, limit);
}

/* Row r of A times column c of B, added to *sum; the absolute values to *size. */
static void add_products(const mmci_gemm *g, const element *a, const element *b, int64_t r,
                         int64_t c, element *sum, double *size) {
  const bool is_complex = mmci_dtype_is_complex(g->dtype);
  for (int64_t d = 0; d < g->k; d++) {
    const element p = a[r * g->k + d], q = b[d * g->n + c];
    *size += size_of(p) * size_of(q);
    if (is_complex) {
      sum->re += p.re * q.re - p.im * q.im;
      sum->im += p.re * q.im + p.im * q.re;
    } else {
      sum->re += p.re * q.re;
    }
  }
}

/* Matrix i of C; before is C as it was. */
static bool matrix_is_right(const product_case *x, const stack *c, int64_t i, const element *a,
                            const element *b, const element *before) {
  const mmci_gemm *g = &x->gemm;
  for (int64_t at = 0; at < g->m * g->n; at++) {
    const element first = g->accumulate ? before[at] : (element){0, 0};
    element want = first, got = stack_read(c, i, at / g->n, at % g->n);
    double size = size_of(first);
    add_products(g, a, b, at / g->n, at % g->n, &want, &size);
    const double limit = allowed(x, want, first, size);
    if (element_is_right(x, got, want, limit)) continue;
    printf("  C(%" PRId64 ", %" PRId64 ") of %" PRId64
           " is (%.17g, %.17g), not (%.17g, %.17g), off by more than %g\n",
           at / g->n, at % g->n, i, got.re, got.im, want.re, want.im, limit);
    return false;
  }
  return true;
}

static bool elements_are_right(const product_case *x, const stack *a, const stack *b,
                               const stack *c, const stack *before) {
  bool right = true;
  for (int64_t i = 0; right && i < c->batch; i++) {
    element *p = read_matrix(a, i), *q = read_matrix(b, i), *first = read_matrix(before, i);
    right = p != NULL && q != NULL && first != NULL && matrix_is_right(x, c, i, p, q, first);
    free(p);
    free(q);
    free(first);
  }
  return right;
}

/* No byte but C's elements has changed. */
static bool others_are_as_before(const stack *c, const stack *before) {
  const size_t line = (size_t)c->cols * dtype_facts[c->dtype].size;
  unsigned char *copy = (unsigned char *)malloc(c->bytes);
  if (copy == NULL) return false;
  memcpy(copy, c->host, c->bytes);
  for (int64_t i = 0; i < c->batch; i++)
    for (int64_t r = 0; r < c->rows && line > 0; r++)
      memcpy(copy + place(c, i, r, 0), before->host + place(c, i, r, 0), line);
  const bool same = memcmp(copy, before->host, c->bytes) == 0;
  free(copy);
  return same;
}

/* ---- one product ----------------------------------------------------------------------------- */

typedef struct product {
  stack a, b, c, before; /* before has memory of the host's only */
  unsigned char *first;  /* C's bytes after the first of two runs */
} product;

static void describe_case(const subject *on, const product_case *x) {
  const mmci_gemm *g = &x->gemm;
  printf("  %s: %s %" PRId64 " x %" PRId64 " x %" PRId64 ", A%s%s%s ld %" PRId64
         ", B%s%s%s ld %" PRId64 ", ldc %" PRId64 "%s, batch %" PRId64
         ", precision %d, variant %d, shifts %d %d %d, %s, seed %" PRIu64 "\n",
         on->name, dtype_facts[g->dtype].name, g->m, g->k, g->n, g->a.trans ? " trans" : "",
         g->a.conj ? " conj" : "", g->a.gathered ? " gathered" : "", g->a.ld,
         g->b.trans ? " trans" : "", g->b.conj ? " conj" : "", g->b.gathered ? " gathered" : "",
         g->b.ld, g->ldc, g->accumulate ? ", accumulated" : "", g->batch, (int)g->precision,
         g->variant, x->shifts[0], x->shifts[1], x->shifts[2], value_names[x->values], x->seed);
}

static bool create(product *p, const subject *on, const product_case *x) {
  const mmci_gemm *g = &x->gemm;
  const int64_t batch = g->batch > 1 ? g->batch : 1;
  const mmci_form plain = {.ld = g->ldc, .stride = g->c_stride};
  uint64_t random = x->seed;
  if (!device_stack_create(&p->a, on, g->dtype, g->m, g->k, batch, g->a, x->shifts[0]) ||
      !device_stack_create(&p->b, on, g->dtype, g->k, g->n, batch, g->b, x->shifts[1]) ||
      !device_stack_create(&p->c, on, g->dtype, g->m, g->n, batch, plain, x->shifts[2]) ||
      !stack_lay_out(&p->before, g->dtype, g->m, g->n, batch, plain, x->shifts[2]))
    return false;
  fill(&p->a, x->values, true, &random);
  fill(&p->b, x->values, false, &random);
  if (g->accumulate) fill(&p->c, ORDINARY, true, &random);
  memcpy(p->before.host, p->c.host, p->c.bytes);
  p->first = (unsigned char *)malloc(p->c.bytes);
  return p->first != NULL;
}

static void destroy(product *p, const subject *on) {
  device_stack_destroy(&p->a, on);
  device_stack_destroy(&p->b, on);
  device_stack_destroy(&p->c, on);
  free(p->before.host);
  free(p->first);
}

/* One run from C as it was. */
static mmc_status multiply(product *p, const subject *on, const mmci_kernel *kernel,
                           mmci_error *error) {
  memcpy(p->c.host, p->before.host, p->c.bytes);
  mmc_status status = device_stack_upload(&p->c, on, on->queue, error);
  if (status == MMC_OK)
    status = on->ops->enqueue(on->queue, kernel, device_stack_argument(&p->a),
                              device_stack_argument(&p->b), device_stack_argument(&p->c), error);
  return status == MMC_OK ? device_stack_download(&p->c, on, on->queue, error) : status;
}

static bool compute(product *p, const subject *on, const product_case *x) {
  mmci_error error = {0};
  mmci_kernel *kernel = NULL;
  mmc_status status = on->ops->prepare(on->device, &x->gemm, &kernel, &error);
  if (!expect_ok(status, &error, "prepare")) return false;
  status = device_stack_upload(&p->a, on, on->queue, &error);
  if (status == MMC_OK) status = device_stack_upload(&p->b, on, on->queue, &error);
  if (status == MMC_OK) status = multiply(p, on, kernel, &error);
  if (status == MMC_OK && x->twice) {
    memcpy(p->first, p->c.host, p->c.bytes);
    status = multiply(p, on, kernel, &error);
    expect(memcmp(p->first, p->c.host, p->c.bytes) == 0, "every run gives the same");
  }
  on->ops->release(kernel);
  return expect_ok(status, &error, "a product");
}

bool try_product(const subject *on, const product_case *x) {
  const mmci_gemm *g = &x->gemm;
  const int before = failures;
  const char *name = on->ops->kernel_name(on->device, g),
             *claimed = x->kernel != NULL ? x->kernel : claimed_kernel(on, g, name);
  product p = {.first = NULL};
  if (claimed != NULL && !expect(strcmp(name, claimed) == 0, "the kernel is the one claimed"))
    printf("  it is \"%s\", not \"%s\"\n", name, claimed);
  if (expect(on->ops->supports(on->device, g), "a product is supported") &&
      expect(create(&p, on, x), "operands are made") && compute(&p, on, x)) {
    expect(elements_are_right(x, &p.a, &p.b, &p.c, &p.before), "elements are right");
    expect(others_are_as_before(&p.c, &p.before), "what is beside C is left alone");
  }
  if (failures > before) describe_case(on, x);
  destroy(&p, on);
  return failures == before;
}
