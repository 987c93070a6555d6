/* test_batches.c: batches of products and groups of any sizes on a device, as one call and product
 * by product, against sums in float64.
 *
 * A problem is a chain, or a chain with repeats, of random sizes; its factors lie with gaps, apart
 * by odd strides, all in one place or scattered; so does the result, poisoned before and guarded
 * around. An element may be off by the bound for any order of summation (Higham 2002, section 3.1):
 * what the absolute values multiply to, times an epsilon for every term summed on the way. One
 * factor of one chain of a batch may be NaN, and no other chain may know. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../elements.h"
#include "../how_many.h"
#include "../random.h"
#include "product_case.h"

static const uint64_t seed = 515151;
enum { MOST_FACTORS = 64, MOST_BATCH = 500, GUARD = 256, POISON = 0xff };

/* What does not hold ends the test. */
__attribute__((format(printf, 1, 2), noreturn)) static void stop(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("FAILED: ");
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
  exit(1);
}

static void must(bool held, const char *what) {
  if (!expect(held, what)) stop("seed %llu", (unsigned long long)seed);
}

#define MUST(held) must(held, #held)

static void ok(mmc_status status, const mmci_error *error) {
  must(status == MMC_OK, status == MMC_OK ? "" : error->text);
}

/* ---- memory that the device sees --------------------------------------------------------------
 */

/* Bytes here and, on a device with memory of its own, there; bands of poison on either side. */
typedef struct block {
  size_t bytes; /* between the bands */
  unsigned char *host;
  unsigned char *device;
} block;

static block block_make(size_t bytes) {
  unsigned char *memory = malloc(bytes + 2 * GUARD);
  MUST(NULL != memory);
  memset(memory, POISON, bytes + 2 * GUARD);
  return (block){.bytes = bytes, .host = memory + GUARD, .device = memory + GUARD};
}

static void block_free(const subject *on, block *x) {
  if (x->device != x->host) on->ops->dealloc(on->device, x->device - GUARD);
  free(x->host - GUARD);
}

/* Sends it, or brings it back. */
static void block_move(const subject *on, mmci_queue *queue, const block *x, bool there) {
  mmci_error error;
  if (on->ops->async == NULL) return;
  int64_t bytes = (int64_t)x->bytes + 2 * GUARD;
  unsigned char *host = x->host - GUARD, *device = x->device - GUARD;
  mmci_transfer transfer = {.to = there ? device : host,
                            .from = there ? host : device,
                            .to_pitch = bytes,
                            .from_pitch = bytes,
                            .lines = 1,
                            .line_bytes = bytes};
  ok(there ? on->ops->async->upload(queue, &transfer, &error)
           : on->ops->async->download(queue, &transfer, &error),
     &error);
  ok(on->ops->sync(queue, &error), &error);
}

static void block_place(const subject *on, mmci_queue *queue, block *x) {
  mmci_error error;
  void *memory;
  if (on->ops->async == NULL) return;
  ok(on->ops->alloc(on->device, x->bytes + 2 * GUARD, &memory, &error), &error);
  x->device = (unsigned char *)memory + GUARD;
  block_move(on, queue, x, true);
}

/* ---- matrices of a batch ----------------------------------------------------------------------
 */

typedef enum layout { STRIDED, SHARED, GATHERED } layout;

/* Matrix i, as it lies, begins at places[i] elements. */
typedef struct matrices {
  int64_t rows, cols; /* as a product sees them */
  mmci_form form;
  int64_t places[MOST_BATCH];
  block data, table; /* the table of a gathered batch */
} matrices;

static int64_t lines_of(const matrices *x) {
  return x->form.trans ? x->cols : x->rows;
}
static int64_t length_of(const matrices *x) {
  return x->form.trans ? x->rows : x->cols;
}

/* All poisoned. */
static void matrices_make(mmc_dtype dtype, int64_t rows, int64_t cols, bool trans, bool conj,
                          layout layout, int64_t gap, int64_t batch, uint64_t *random,
                          matrices *out) {
  out->rows = rows;
  out->cols = cols;
  out->form = (mmci_form){.trans = trans, .conj = conj, .gathered = layout == GATHERED};
  int64_t length = length_of(out);
  out->form.ld = (length > 0 ? length : 1) + gap;
  int64_t size = lines_of(out) * out->form.ld, count = layout == SHARED ? 1 : batch;
  out->form.stride = layout == STRIDED ? size + 2 * gap + gap % 2 : 0;
  int64_t apart = layout == GATHERED ? size + 3 : out->form.stride;
  for (int64_t i = 0; i < batch; i++) out->places[i] = i * apart;
  for (int64_t i = batch - 1; layout == GATHERED && i > 0; i--) {
    int64_t j = random_below(random, i + 1), place = out->places[i];
    out->places[i] = out->places[j];
    out->places[j] = place;
  }
  int64_t elements = (count - 1) * apart + size;
  out->data = block_make((size_t)elements * mmc_dtype_size(dtype));
  out->table = block_make((size_t)batch * sizeof(void *));
}

static element *at(element *elements, const matrices *x, int64_t row, int64_t col) {
  return &elements[row * x->cols + col];
}

static int64_t element_place(const matrices *x, int64_t i, int64_t row, int64_t col) {
  return x->places[i] + (x->form.trans ? col * x->form.ld + row : row * x->form.ld + col);
}

/* So large that products become neither 0 nor Inf; near 1 over cols when nothing is to cancel, so
 * that the bound stays narrow along many factors. */
static void fill(mmc_dtype dtype, matrices *x, int64_t i, bool near_one, bool with_nan,
                 uint64_t *random) {
  size_t size = mmc_dtype_size(dtype);
  double cols = x->cols > 0 ? (double)x->cols : 1, scale = near_one ? 1 / cols : 1 / sqrt(cols);
  int64_t bad = with_nan && x->rows * x->cols > 0 ? random_below(random, x->rows * x->cols) : -1;
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++) {
      element value = {random_unit(random), random_unit(random)};
      if (near_one) value = (element){1 + 0.5 * value.re, 0.1 * value.im};
      value = (element){scale * value.re, scale * value.im};
      if (r * x->cols + c == bad) value.re = NAN;
      element_write(dtype, x->data.host + (size_t)element_place(x, i, r, c) * size, value);
    }
}

/* Matrix i as a product sees it. */
static void read_matrix(mmc_dtype dtype, const matrices *x, int64_t i, element *out) {
  size_t size = mmc_dtype_size(dtype);
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++) {
      element value = element_read(dtype, x->data.host + (size_t)element_place(x, i, r, c) * size);
      if (!mmci_dtype_is_complex(dtype)) value.im = 0;
      if (x->form.conj) value.im = -value.im;
      *at(out, x, r, c) = value;
    }
}

static void matrices_place(const subject *on, mmci_queue *queue, mmc_dtype dtype, int64_t batch,
                           matrices *x) {
  block_place(on, queue, &x->data);
  for (int64_t i = 0; i < batch; i++) {
    void *address = x->data.device + (size_t)x->places[i] * mmc_dtype_size(dtype);
    memcpy(x->table.host + (size_t)i * sizeof address, &address, sizeof address);
  }
  block_place(on, queue, &x->table);
}

static const void *matrices_address(const matrices *x) {
  return x->form.gathered ? (const void *)x->table.device : x->data.device;
}

static void matrices_free(const subject *on, matrices *x) {
  block_free(on, &x->data);
  block_free(on, &x->table);
}

/* ---- a problem ---------------------------------------------------------------------------------
 */

typedef struct problem {
  mmc_dtype dtype;
  mmci_precision precision;
  int64_t batch;
  int32_t n, count;
  matrices factors[MOST_FACTORS], result;
  mmci_group_product products[MOST_FACTORS];
  int64_t terms;     /* summed one after the other on the way to an element */
  int64_t nan_chain; /* -1: none */
} problem;

/* Which of its numbers (factors, then results) is as large as what. */
static void sizes_of(const problem *p, int32_t number, int64_t *rows, int64_t *cols) {
  *rows = number < p->n ? p->factors[number].rows : p->products[number - p->n].m;
  *cols = number < p->n ? p->factors[number].cols : p->products[number - p->n].n;
}

static void add(problem *p, int32_t left, int32_t right) {
  mmci_group_product *x = &p->products[p->count++];
  int64_t rows;
  *x = (mmci_group_product){.left = left, .right = right};
  sizes_of(p, left, &x->m, &x->k);
  sizes_of(p, right, &rows, &x->n);
  MUST(rows == x->k);
}

/* Neighbours at random. */
static void add_tree(problem *p, uint64_t *random) {
  int32_t open[MOST_FACTORS];
  for (int32_t i = 0; i < p->n; i++) open[i] = i;
  for (int32_t count = p->n; count > 1; count--) {
    int32_t i = (int32_t)random_below(random, count - 1);
    add(p, open[i], open[i + 1]);
    open[i] = p->n + p->count - 1;
    for (int32_t j = i + 1; j < count - 1; j++) open[j] = open[j + 1];
  }
}

/* Square factors; each product reads the one before, and anything. */
static void add_repeats(problem *p, int32_t count, uint64_t *random) {
  for (int32_t s = 0; s < count; s++) {
    int32_t newest = s > 0 ? p->n + s - 1 : 0, other = (int32_t)random_below(random, p->n + s);
    bool first = random_below(random, 2) != 0;
    add(p, first ? newest : other, first ? other : newest);
  }
}

/* What a device is asked for: sizes up to largest. */
typedef struct request {
  mmc_dtype dtype;
  mmci_precision precision;
  int32_t most_factors;
  int64_t largest, batch;
  bool repeats, with_nan, near_one;
} request;

static problem *problem_make(const request *q, uint64_t *random) {
  problem *p = calloc(1, sizeof *p);
  MUST(NULL != p);
  p->dtype = q->dtype;
  p->precision = q->precision;
  p->batch = q->batch;
  p->n = q->repeats ? 1 + (int32_t)random_below(random, 3)
                    : 2 + (int32_t)random_below(random, q->most_factors - 1);
  p->nan_chain = q->with_nan ? random_below(random, q->batch) : -1;
  int64_t dims[MOST_FACTORS + 1];
  for (int32_t i = 0; i <= p->n; i++)
    dims[i] = q->repeats && i > 0 ? dims[0] : 1 + random_below(random, q->largest);
  if (!q->repeats && random_below(random, 40) == 0) dims[random_below(random, p->n + 1)] = 0;
  int32_t nan_factor = (int32_t)random_below(random, p->n);
  bool complex_dtype = mmci_dtype_is_complex(q->dtype);
  for (int32_t f = 0; f < p->n; f++) {
    bool is_nan = p->nan_chain >= 0 && f == nan_factor;
    layout layout = (int)random_below(random, 3);
    if (is_nan && layout == SHARED) layout = STRIDED;
    matrices_make(q->dtype, dims[f], dims[f + 1], random_below(random, 3) == 0,
                  complex_dtype && random_below(random, 3) == 0, layout, random_below(random, 4),
                  q->batch, random, &p->factors[f]);
    for (int64_t i = 0; i < (layout == SHARED ? 1 : q->batch); i++)
      fill(q->dtype, &p->factors[f], i, q->near_one, is_nan && i == p->nan_chain, random);
  }
  if (q->repeats)
    add_repeats(p, 1 + (int32_t)random_below(random, 6), random);
  else
    add_tree(p, random);
  for (int32_t s = 0; s < p->count; s++) p->terms += p->products[s].k + 4;
  int64_t rows, cols;
  sizes_of(p, p->n + p->count - 1, &rows, &cols);
  matrices_make(q->dtype, rows, cols, false, false,
                random_below(random, 3) == 0 ? GATHERED : STRIDED, random_below(random, 4),
                q->batch, random, &p->result);
  return p;
}

static void problem_free(const subject *on, problem *p) {
  for (int32_t f = 0; f < p->n; f++) matrices_free(on, &p->factors[f]);
  matrices_free(on, &p->result);
  free(p);
}

/* ---- what is right -----------------------------------------------------------------------------
 */

/* c = a b, or the same of absolute values. */
static void multiply(const mmci_group_product *x, const element *a, const element *b, element *c) {
  for (int64_t i = 0; i < x->m; i++)
    for (int64_t j = 0; j < x->n; j++) {
      element sum = {0, 0};
      for (int64_t l = 0; l < x->k; l++) {
        element p = a[i * x->k + l], q = b[l * x->n + j];
        sum.re += p.re * q.re - p.im * q.im;
        sum.im += p.re * q.im + p.im * q.re;
      }
      c[i * x->n + j] = sum;
    }
}

static element *made(int64_t rows, int64_t cols) {
  element *elements = calloc((size_t)(rows * cols) + 1, sizeof *elements);
  MUST(NULL != elements);
  return elements;
}

/* The result of chain i, by the products' own order, and how large its terms are. */
static void solve(const problem *p, int64_t i, element **result, element **magnitude) {
  element *values[2 * MOST_FACTORS] = {NULL}, *sizes[2 * MOST_FACTORS] = {NULL};
  int32_t all = p->n + p->count;
  for (int32_t x = 0; x < all; x++) {
    int64_t rows, cols;
    sizes_of(p, x, &rows, &cols);
    values[x] = made(rows, cols);
    sizes[x] = made(rows, cols);
    if (x < p->n) {
      read_matrix(p->dtype, &p->factors[x], i, values[x]);
      for (int64_t t = 0; t < rows * cols; t++)
        sizes[x][t].re = hypot(values[x][t].re, values[x][t].im);
    } else {
      const mmci_group_product *step = &p->products[x - p->n];
      multiply(step, values[step->left], values[step->right], values[x]);
      multiply(step, sizes[step->left], sizes[step->right], sizes[x]);
    }
  }
  for (int32_t x = 0; x < all - 1; x++) {
    free(values[x]);
    free(sizes[x]);
  }
  *result = values[all - 1];
  *magnitude = sizes[all - 1];
}

static bool is_near(double got, double want, double bound) {
  return isnan(want) ? isnan(got) : fabs(got - want) <= bound;
}

/* Compares what came back, and wipes it for the next one. */
static void check_result(const subject *on, const problem *p, const char *how) {
  const matrices *c = &p->result;
  size_t size = dtype_facts[p->dtype].size;
  /* Intermediates of f16 and bf16 are rounded, and among f16 there are denormal ones. */
  double relative = 2 * (double)p->terms * dtype_facts[p->dtype].sum_epsilon +
                    2 * p->count * dtype_facts[p->dtype].epsilon;
  double least = (double)p->terms * dtype_facts[p->dtype].least;
  if (p->precision == MMCI_FAST && (p->dtype == MMC_F32 || p->dtype == MMC_C64))
    relative += p->count * 0x1p-9;
  for (int64_t i = 0; i < p->batch; i++) {
    element *want, *magnitude;
    solve(p, i, &want, &magnitude);
    for (int64_t row = 0; row < c->rows; row++)
      for (int64_t col = 0; col < c->cols; col++) {
        unsigned char *place = c->data.host + (size_t)element_place(c, i, row, col) * size;
        element got = element_read(p->dtype, place), w = want[row * c->cols + col];
        double bound = relative * magnitude[row * c->cols + col].re + least;
        bool real = !mmci_dtype_is_complex(p->dtype);
        if (!is_near(got.re, w.re, bound) || (!real && !is_near(got.im, w.im, bound)))
          stop(
              "%s %s, %s: chain %lld of %lld, %lldx%lld, element (%lld, %lld) is %g%+gi, not "
              "%g%+gi, bound %g; seed %llu",
              on->name, dtype_facts[p->dtype].name, how, (long long)i, (long long)p->batch,
              (long long)c->rows, (long long)c->cols, (long long)row, (long long)col, got.re,
              got.im, w.re, w.im, bound, (unsigned long long)seed);
        if (i != p->nan_chain) MUST(!isnan(w.re));
        memset(place, POISON, size);
      }
    free(want);
    free(magnitude);
  }
  const unsigned char *guarded = c->data.host - GUARD;
  for (size_t t = 0; t < c->data.bytes + 2 * GUARD; t++)
    if (guarded[t] != POISON)
      stop("%s %s, %s: byte %lld around the results was written; seed %llu", on->name,
           dtype_facts[p->dtype].name, how, (long long)t - GUARD, (unsigned long long)seed);
}

/* ---- as one group, and product by product ------------------------------------------------------
 */

static void run_chain(const subject *on, mmci_queue *queue, const problem *p) {
  mmci_error error;
  mmci_form forms[MOST_FACTORS];
  const void *operands[MOST_FACTORS];
  for (int32_t f = 0; f < p->n; f++) {
    forms[f] = p->factors[f].form;
    operands[f] = matrices_address(&p->factors[f]);
  }
  mmci_group chain = {.dtype = p->dtype,
                      .precision = p->precision,
                      .batch = p->batch,
                      .n = p->n,
                      .count = p->count,
                      .forms = forms,
                      .products = p->products,
                      .ldc = p->result.form.ld,
                      .c_stride = p->result.form.stride,
                      .c_gathered = p->result.form.gathered};
  if (on->ops->group_supports == NULL || !on->ops->group_supports(on->device, &chain)) return;
  for (int32_t s = 0; on->ops->group_side > 0 && s < p->count; s++)
    MUST(p->products[s].m <= on->ops->group_side && p->products[s].k <= on->ops->group_side &&
         p->products[s].n <= on->ops->group_side);
  mmci_group_kernel *kernel;
  ok(on->ops->group_prepare(on->device, &chain, &kernel, &error), &error);
  memset(forms, 0, sizeof forms); /* it need not outlive prepare */
  for (int again = 0; again < 2; again++) {
    block_move(on, queue, &p->result.data, true);
    void *c = p->result.form.gathered ? (void *)p->result.table.device : p->result.data.device;
    ok(on->ops->group_enqueue(queue, kernel, operands, c, &error), &error);
    ok(on->ops->sync(queue, &error), &error);
    block_move(on, queue, &p->result.data, false);
    check_result(on, p, again == 0 ? "as one" : "as one, again");
  }
  on->ops->group_release(kernel);
}

/* Each product for the whole batch. */
static void run_products(const subject *on, mmci_queue *queue, const problem *p) {
  mmci_error error;
  matrices *results = calloc((size_t)p->count, sizeof *results);
  mmci_kernel *kernels[MOST_FACTORS];
  uint64_t random = seed;
  if (p->result.form.gathered) { /* which products cannot write */
    free(results);
    return;
  }
  block_move(on, queue, &p->result.data, true);
  for (int32_t s = 0; s < p->count; s++) {
    const mmci_group_product *x = &p->products[s];
    matrices_make(p->dtype, x->m, x->n, false, false, STRIDED, s % 3, p->batch, &random,
                  &results[s]);
    matrices_place(on, queue, p->dtype, p->batch, &results[s]);
    const matrices *c = s == p->count - 1 ? &p->result : &results[s];
    const matrices *a = x->left < p->n ? &p->factors[x->left] : &results[x->left - p->n];
    const matrices *b = x->right < p->n ? &p->factors[x->right] : &results[x->right - p->n];
    mmci_gemm gemm = {.dtype = p->dtype,
                      .precision = p->precision,
                      .m = x->m,
                      .k = x->k,
                      .n = x->n,
                      .a = a->form,
                      .b = b->form,
                      .ldc = c->form.ld,
                      .c_stride = c->form.stride,
                      .batch = p->batch == 1 && s % 2 == 0 ? 0 : p->batch};
    if (!on->ops->supports(on->device, &gemm)) stop("%s cannot multiply a batch", on->name);
    ok(on->ops->prepare(on->device, &gemm, &kernels[s], &error), &error);
    ok(on->ops->enqueue(queue, kernels[s], matrices_address(a), matrices_address(b), c->data.device,
                        &error),
       &error);
  }
  ok(on->ops->sync(queue, &error), &error);
  block_move(on, queue, &p->result.data, false);
  check_result(on, p, "product by product");
  for (int32_t s = 0; s < p->count; s++) {
    on->ops->release(kernels[s]);
    matrices_free(on, &results[s]);
  }
  free(results);
}

static void run_both(const subject *on, mmci_queue *queue, const request *q, uint64_t *random) {
  request asked = *q;
  if (on->is_fake && asked.batch == 1) asked.batch = 2; /* a single product has no strides there */
  problem *p = problem_make(&asked, random);
  for (int32_t f = 0; f < p->n; f++) matrices_place(on, queue, p->dtype, p->batch, &p->factors[f]);
  matrices_place(on, queue, p->dtype, p->batch, &p->result);
  run_chain(on, queue, p);
  run_products(on, queue, p);
  problem_free(on, p);
}

/* ---- the tests ---------------------------------------------------------------------------------
 */

typedef void (*on_device)(const subject *on, mmci_queue *queue, uint64_t *random);

/* The toy device takes no batches. */
static void run_test(const subject *on, on_device test, uint64_t stream) {
  uint64_t random = seed + stream;
  if (strcmp(on->name, "toy") != 0) test(on, on->queue, &random);
}

/* Of so many rounds, tools that check every access take a part, and a short run a third. */
static int rounds(const subject *on, int count) {
  if (!on->small && !on->is_cuda && !is_in_full()) return (count + 2) / 3;
  return on->race ? (count + 59) / 60 : on->small ? (count + 11) / 12 : count;
}

static int64_t some_batch(uint64_t *random) {
  static const int64_t batches[] = {1, 1, 2, 3, 5, 8, 33};
  return batches[random_below(random, 7)];
}

static void small_ones(const subject *on, mmci_queue *queue, uint64_t *random) {
  for (int round = 0; round < rounds(on, 360); round++)
    run_both(on, queue,
             &(request){.dtype = (mmc_dtype)(round % DTYPES),
                        .precision = (mmci_precision)random_below(random, 3),
                        .most_factors = 6,
                        .largest = round % 4 == 0 ? 33 : 9,
                        .batch = some_batch(random),
                        .repeats = round % 5 == 0,
                        .with_nan = round % 7 == 0},
             random);
}

static void any_chain(const subject *on) {
  run_test(on, small_ones, 1);
}

static void large_ones(const subject *on, mmci_queue *queue, uint64_t *random) {
  for (int round = 0; round < rounds(on, 3 * DTYPES); round++)
    run_both(on, queue,
             &(request){.dtype = (mmc_dtype)(round % DTYPES),
                        .most_factors = 3,
                        .largest = round < 2 * DTYPES ? 129 : 70,
                        .batch = 1 + random_below(random, 3),
                        .repeats = round % 4 == 3,
                        .with_nan = round % 5 == 4},
             random);
}

static void up_to_129(const subject *on) {
  run_test(on, large_ones, 2);
}

/* Enough of them for several threads or blocks. */
static void many_ones(const subject *on, mmci_queue *queue, uint64_t *random) {
  for (int round = 0; round < rounds(on, 2 * DTYPES); round++)
    run_both(on, queue,
             &(request){.dtype = (mmc_dtype)(round % DTYPES),
                        .most_factors = 4,
                        .largest = 30,
                        .batch = MOST_BATCH - random_below(random, 3),
                        .repeats = round % 4 == 3,
                        .with_nan = round % 2 == 1},
             random);
}

static void many_chains(const subject *on) {
  run_test(on, many_ones, 3);
}

/* Small enough that the next chain's factors are asked for ahead; where there is none, nothing may
 * be read beyond. */
static void tiny_ones(const subject *on, mmci_queue *queue, uint64_t *random) {
  for (int round = 0; round < rounds(on, 10 * DTYPES); round++)
    run_both(on, queue,
             &(request){.dtype = (mmc_dtype)(round % DTYPES),
                        .most_factors = 5,
                        .largest = 2 + (int64_t)random_below(random, 9),
                        .batch = 1 + random_below(random, 70),
                        .with_nan = round % 4 == 1},
             random);
}

static void tiny_chains(const subject *on) {
  run_test(on, tiny_ones, 7);
}

/* One chain of which threads take parts. */
static void long_ones(const subject *on, mmci_queue *queue, uint64_t *random) {
  for (int round = 0; round < rounds(on, 2 * DTYPES); round++)
    run_both(on, queue,
             &(request){.dtype = (mmc_dtype)(round % DTYPES),
                        .most_factors = MOST_FACTORS,
                        .largest = 50,
                        .batch = 1 + (round >= DTYPES),
                        .near_one = true},
             random);
}

static void long_chains(const subject *on) {
  run_test(on, long_ones, 4);
}

/* Matrices gigabytes apart, in memory of which only they are touched. */
static void far_apart(const subject *on) {
  if (has_own_memory(on) || on->ops->group_supports == NULL) return;
  enum { SIDE = 8, BATCH = 3 };
  const int64_t stride = INT64_C(600000001);
  size_t bytes = (size_t)(BATCH * stride) * sizeof(float);
  float *memory[3];
  for (int x = 0; x < 3; x++) {
    memory[x] = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory[x] == MAP_FAILED) { /* nothing to test */
      while (x-- > 0) munmap(memory[x], bytes);
      return;
    }
  }
  mmci_error error = {0};
  for (int64_t i = 0; i < BATCH; i++)
    for (int64_t t = 0; t < (int64_t)SIDE * SIDE; t++) {
      memory[0][i * stride + t] = (float)(i + 1);
      memory[1][i * stride + t] = (float)(10 * i + 1);
    }
  mmci_form form = {.ld = SIDE, .stride = stride}, forms[2] = {form, form};
  mmci_group_product product = {.m = SIDE, .k = SIDE, .n = SIDE, .left = 0, .right = 1};
  for (int as_chain = 0; as_chain < 2; as_chain++) {
    for (int64_t i = 0; i < BATCH; i++)
      memset(memory[2] + i * stride, POISON, (size_t)SIDE * SIDE * sizeof(float));
    if (as_chain) {
      mmci_group chain = {.dtype = MMC_F32,
                          .batch = BATCH,
                          .n = 2,
                          .count = 1,
                          .forms = forms,
                          .products = &product,
                          .ldc = SIDE,
                          .c_stride = stride};
      const void *operands[2] = {memory[0], memory[1]};
      mmci_group_kernel *kernel;
      ok(on->ops->group_prepare(on->device, &chain, &kernel, &error), &error);
      ok(on->ops->group_enqueue(on->queue, kernel, operands, memory[2], &error), &error);
      on->ops->group_release(kernel);
    } else {
      mmci_gemm gemm = {.dtype = MMC_F32,
                        .m = SIDE,
                        .k = SIDE,
                        .n = SIDE,
                        .a = form,
                        .b = form,
                        .ldc = SIDE,
                        .c_stride = stride,
                        .batch = BATCH};
      mmci_kernel *kernel;
      ok(on->ops->prepare(on->device, &gemm, &kernel, &error), &error);
      ok(on->ops->enqueue(on->queue, kernel, memory[0], memory[1], memory[2], &error), &error);
      on->ops->release(kernel);
    }
    for (int64_t i = 0; i < BATCH; i++)
      for (int64_t t = 0; t < (int64_t)SIDE * SIDE; t++) {
        double want = SIDE * (double)(i + 1) * (double)(10 * i + 1);
        MUST((double)memory[2][i * stride + t] == want);
      }
  }
  for (int x = 0; x < 3; x++) munmap(memory[x], bytes);
}

/* Products of a batch that lie apart, share operands or are scattered, alone and added to their
 * own. */
static void batches_of_products(const subject *on) {
  uint64_t random = seed + 6;
  if (strcmp(on->name, "toy") == 0) return; /* takes no batches */
  for (int t = 0; t < rounds(on, 40 * DTYPES); t++) {
    const int64_t most = t % 2 == 0 ? 20 : 60, m = 1 + random_below(&random, most),
                  k = 1 + random_below(&random, most), n = 1 + random_below(&random, most);
    product_case x = random_case((mmc_dtype)(t % DTYPES), m, k, n, &random);
    mmci_gemm *g = &x.gemm;
    mmci_form *forms[] = {&g->a, &g->b};
    const int64_t lines[] = {g->a.trans ? k : m, g->b.trans ? n : k};
    g->batch = t % 10 == 9 ? 400 : 2 + random_below(&random, 8);
    for (int o = 0; o < 2; o++) {
      const int64_t kind = random_below(&random, 4);
      forms[o]->stride =
          lines[o] * forms[o]->ld + random_below(&random, 2) * random_below(&random, 50);
      if (kind == 0) forms[o]->stride = 0;
      forms[o]->gathered = kind == 1;
    }
    g->c_stride = m * g->ldc + random_below(&random, 2) * 3;
    if (on->is_cuda) expect(on->ops->variants(on->device, g) == 0, "a batch has no variants");
    try_product(on, &x);
  }
}

/* After threads have worked here, a child has to find its own. */
static void in_a_forked_child(const subject *on) {
  uint64_t random = seed + 5;
  const request many = {.dtype = MMC_F64, .most_factors = 3, .largest = 50, .batch = MOST_BATCH};
  if (!on->is_blas) return;
  run_both(on, on->queue, &many, &random);
  fflush(stdout);
  const pid_t child = fork();
  MUST(child >= 0);
  if (child == 0) {
    alarm(60);
    run_both(on, on->queue, &many, &random);
    _exit(0);
  }
  int status = -1;
  MUST(waitpid(child, &status, 0) == child);
  MUST(status == 0);
  run_both(on, on->queue, &many, &random);
}

int main(int argc, char **argv) {
  static const conformance_test tests[] = {
      {"any chain", any_chain, true},
      {"up to 129", up_to_129, false},
      {"many chains", many_chains, false},
      {"long chains", long_chains, false},
      {"tiny chains", tiny_chains, false},
      {"batches of products", batches_of_products, true},
      {"far apart", far_apart, false},
      {"in a forked child", in_a_forked_child, false},
      {.name = NULL},
  };
  return conformance_main(argc, argv, tests);
}
