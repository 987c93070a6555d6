/* test_gradients.c: the gradients of random chains against P^H G S^H, the product of all factors
 * before one and all behind it by definition; how much memory they take; what is wrong is an
 * error. The same by a device that computes levels of trees, and nothing else.
 *
 *     test_gradients [MODULE]
 *
 * Where MODULE, mmchain-cuda.so, is given, they are computed by the GPU; exit status 77: there is
 * none. */
#include <complex.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../how_many.h"
#include "../random.h"
#include "api/api.h"
#include "chain/copy.h"
#include "mmchain.h"

typedef double complex number;

enum { MOST = 24, SIDE = 12, BATCH = 3 };

/* A matrix of the reference. */
typedef struct table {
  int64_t rows, cols;
  number at[SIDE * SIDE];
} table;

/* The same of absolute values, which bound what rounding can do. */
static void multiply(const table *a, const table *b, table *c) {
  *c = (table){.rows = a->rows, .cols = b->cols};
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t j = 0; j < b->cols; j++)
      for (int64_t k = 0; k < a->cols; k++)
        c->at[i * c->cols + j] += a->at[i * a->cols + k] * b->at[k * b->cols + j];
}

static void turn(const table *a, bool conjugates, table *out) {
  *out = (table){.rows = a->cols, .cols = a->rows};
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t j = 0; j < a->cols; j++) {
      const number x = a->at[i * a->cols + j];
      out->at[j * a->rows + i] = conjugates ? conj(x) : x;
    }
}

static void absolute(table *a) {
  for (int64_t e = 0; e < a->rows * a->cols; e++) a->at[e] = cabs(a->at[e]);
}

/* ---- a device that computes levels of trees ------------------------------------------------ */

/* It works at once, in the host's memory. */
static mmc_status levels_open(mmci_device *device, mmci_queue **out, mmci_error *error) {
  (void)error;
  *out = (mmci_queue *)device;
  return MMC_OK;
}
static void levels_close(mmci_queue *queue) {
  (void)queue;
}
static mmc_status levels_enqueue(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                                 const void *b, void *c, mmci_error *error) {
  (void)queue, (void)kernel, (void)a, (void)b, (void)c, (void)error;
  fail_msg("a product was asked for");
  return MMC_E_DEVICE;
}
static mmc_status levels_sync(mmci_queue *queue, mmci_error *error) {
  (void)queue, (void)error;
  return MMC_OK;
}
static mmc_status levels_alloc(mmci_device *device, size_t size_bytes, void **out,
                               mmci_error *error) {
  (void)device, (void)error;
  *out = malloc(size_bytes);
  assert_non_null(*out);
  return MMC_OK;
}
static void levels_dealloc(mmci_device *device, void *memory) {
  (void)device;
  free(memory);
}
static void levels_attach(mmci_queue *queue, void *stream) {
  (void)queue, (void)stream;
}
static mmc_status levels_upload(mmci_queue *queue, const mmci_transfer *t, mmci_error *error) {
  (void)queue, (void)error;
  assert_int_equal(t->lines, 1);
  memcpy(t->to, t->from, (size_t)t->line_bytes);
  return MMC_OK;
}
static mmc_status levels_copy(mmci_queue *queue, mmc_dtype dtype, int64_t rows, int64_t cols,
                              const void *from, const mmci_form *form, void *to, int64_t to_ld,
                              bool to_trans, mmci_error *error) {
  (void)queue, (void)error;
  mmci_copy(dtype, rows, cols, from, form, to, to_ld, to_trans);
  return MMC_OK;
}
static mmc_status levels_event(mmci_device *device, mmci_event **out, mmci_error *error) {
  (void)error;
  *out = (mmci_event *)device;
  return MMC_OK;
}
static void levels_forget(mmci_event *event) {
  (void)event;
}
static mmc_status levels_mark(mmci_queue *queue, mmci_event *event, mmci_error *error) {
  (void)queue, (void)event, (void)error;
  return MMC_OK;
}
static bool levels_capturing(mmci_device *device, void *stream) {
  (void)device, (void)stream;
  return false;
}

static number read_element(mmc_dtype dtype, const void *at);
static void write_element(mmc_dtype dtype, void *at, number x);

static char *address(mmc_dtype dtype, const mmci_node_matrix *x, int64_t t, int64_t r, int64_t c) {
  const int64_t at = t * x->stride + (x->trans ? c * x->ld + r : r * x->ld + c);
  return (char *)x->data + (size_t)at * mmc_dtype_size(dtype);
}
static number read_node(mmc_dtype dtype, const mmci_node_matrix *x, int64_t t, int64_t r,
                        int64_t c) {
  const number value = read_element(dtype, address(dtype, x, t, r, c));
  return x->conj ? conj(value) : value;
}

/* Two matrices of different nodes of a level: what one writes, the other neither reads nor
 * writes. Places in the memory are rows without gaps. */
static void expect_apart(mmc_dtype dtype, const mmci_node_matrix *written, int64_t rows,
                         int64_t cols, int64_t batch, const mmci_node_matrix *other,
                         int64_t other_rows, int64_t other_cols) {
  if (written->data == NULL || other->data == NULL || rows * cols == 0 ||
      other_rows * other_cols == 0)
    return;
  const char *a = written->data, *a_end = address(dtype, written, batch - 1, rows - 1, cols - 1);
  const char *b = other->data,
             *b_end = address(dtype, other, batch - 1, other_rows - 1, other_cols - 1);
  assert_true(a_end < b || b_end < a);
}

static void expect_nodes_apart(mmc_dtype dtype, const mmci_tree_node *x, const mmci_tree_node *y,
                               int64_t batch, bool back) {
  const mmci_node_matrix *reads[] = {&y->a, &y->b, &y->c, &y->da, &y->db};
  const int64_t rows[] = {y->m, y->k, y->m, y->m, y->k}, cols[] = {y->k, y->n, y->n, y->k, y->n};
  for (int i = 0; i < 5; i++) {
    if (!back) expect_apart(dtype, &x->c, x->m, x->n, batch, reads[i], rows[i], cols[i]);
    if (back) expect_apart(dtype, &x->da, x->m, x->k, batch, reads[i], rows[i], cols[i]);
    if (back) expect_apart(dtype, &x->db, x->k, x->n, batch, reads[i], rows[i], cols[i]);
  }
}

enum { NODE_CELLS = SIDE * SIDE };

static void read_all(mmc_dtype dtype, const mmci_node_matrix *x, int64_t t, int64_t rows,
                     int64_t cols, number *out) {
  for (int64_t e = 0; e < rows * cols; e++) out[e] = read_node(dtype, x, t, e / cols, e % cols);
}

/* to = the sum over d of a(r, d) b(d, c), where a is read by (r, d) and so on, perhaps turned. */
static void write_sum(mmc_dtype dtype, const mmci_node_matrix *to, int64_t t, int64_t rows,
                      int64_t cols, int64_t depth, const number *a, bool turns_a, const number *b,
                      bool turns_b) {
  if (to->data == NULL) return;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      number sum = 0;
      for (int64_t d = 0; d < depth; d++)
        sum += (turns_a ? conj(a[d * rows + r]) : a[r * depth + d]) *
               (turns_b ? conj(b[c * depth + d]) : b[d * cols + c]);
      write_element(dtype, address(dtype, to, t, r, c), to->conj ? conj(sum) : sum);
    }
}

static int64_t levels_counted;

static mmc_status levels_nodes(mmci_queue *queue, mmc_dtype dtype, int side,
                               const mmci_tree_node *nodes, int64_t count, int64_t batch, bool back,
                               mmci_error *error) {
  (void)queue, (void)error;
  levels_counted++;
  for (int64_t i = 0; i < count; i++)
    for (int64_t j = 0; j < count; j++)
      if (i != j) expect_nodes_apart(dtype, &nodes[i], &nodes[j], batch, back);
  for (int64_t i = count - 1; i >= 0; i--) {
    const mmci_tree_node *x = &nodes[i];
    const int64_t m = x->m, k = x->k, n = x->n;
    assert_true(m <= side && k <= side && n <= side);
    for (int64_t t = 0; t < batch; t++) {
      number a[NODE_CELLS], b[NODE_CELLS], c[NODE_CELLS];
      read_all(dtype, &x->a, t, m, k, a);
      read_all(dtype, &x->b, t, k, n, b);
      if (!back) write_sum(dtype, &x->c, t, m, n, k, a, false, b, false);
      if (!back) continue;
      read_all(dtype, &x->c, t, m, n, c);
      write_sum(dtype, &x->da, t, m, k, n, c, false, b, true);
      write_sum(dtype, &x->db, t, k, n, m, a, true, c, false);
    }
  }
  return MMC_OK;
}

static const mmci_device_async levels_async = {
    .queues = 1,
    .queue_attach = levels_attach,
    .queue_detach = levels_close,
    .upload = levels_upload,
    .copy = levels_copy,
    .event_create = levels_event,
    .event_destroy = levels_forget,
    .event_record = levels_mark,
    .event_wait = levels_mark,
    .is_capturing = levels_capturing,
};
static const mmci_device_ops levels_ops = {
    .name = "levels",
    .queue_open = levels_open,
    .queue_close = levels_close,
    .enqueue = levels_enqueue,
    .sync = levels_sync,
    .alloc = levels_alloc,
    .dealloc = levels_dealloc,
    .async = &levels_async,
    .nodes_enqueue = levels_nodes,
};

/* ---- one chain ----------------------------------------------------------------------------- */

/* A matrix of the caller's, in a buffer with guards around it and gaps between its lines. */
typedef struct lying {
  mmc_matrix matrix;
  unsigned char *bytes;
  size_t size;
} lying;

enum { GUARD = 64, POISON = 0xA5 };

typedef struct problem {
  uint64_t seed, state;
  mmc_context *context;
  mmc_dtype dtype;
  int64_t n, batch, dims[MOST + 1];
  mmc_op ops[MOST];
  bool wanted[MOST];
  table factors[BATCH][MOST], cotangent[BATCH]; /* after ops */
  lying given[MOST], out, dc, copies[MOST];
  uint64_t share; /* sixteenths of the memory that it takes without a limit; 0: no limit */
  int limited;    /* how many limits were kept */
  bool in_a_row;  /* from left to right */
} problem;

static number read_element(mmc_dtype dtype, const void *at) {
  const float *f = at;
  const double *d = at;
  switch (dtype) {
    case MMC_F32:
      return (double)f[0];
    case MMC_C64:
      return (double)f[0] + I * (double)f[1];
    case MMC_C128:
      return d[0] + I * d[1];
    default:
      return d[0];
  }
}

static void write_element(mmc_dtype dtype, void *at, number x) {
  float *f = at;
  double *d = at;
  const bool is_float = dtype == MMC_F32 || dtype == MMC_C64;
  if (is_float) f[0] = (float)creal(x);
  if (!is_float) d[0] = creal(x);
  if (dtype == MMC_C64) f[1] = (float)cimag(x);
  if (dtype == MMC_C128) d[1] = cimag(x);
}

static lying lay(problem *p, int64_t rows, int64_t cols) {
  lying x = {.matrix = {.rows = rows, .cols = cols}};
  const size_t element = mmc_dtype_size(p->dtype);
  x.matrix.layout = random_below(&p->state, 2) ? MMC_COL_MAJOR : MMC_ROW_MAJOR;
  const int64_t length = x.matrix.layout == MMC_COL_MAJOR ? rows : cols;
  const int64_t lines = x.matrix.layout == MMC_COL_MAJOR ? cols : rows;
  x.matrix.ld = length + random_below(&p->state, 2) * random_below(&p->state, 4);
  if (x.matrix.ld == 0) x.matrix.ld = 1;
  x.matrix.stride = lines * x.matrix.ld + random_below(&p->state, 3);
  x.size = (size_t)(p->batch * x.matrix.stride) * element + 2 * GUARD;
  x.bytes = aligned_alloc(64, (x.size + 63) / 64 * 64);
  assert_non_null(x.bytes);
  memset(x.bytes, POISON, x.size);
  x.matrix.data = x.bytes + GUARD;
  return x;
}

static unsigned char *place(const problem *p, const lying *x, int64_t t, int64_t r, int64_t c) {
  const int64_t at =
      x->matrix.layout == MMC_COL_MAJOR ? c * x->matrix.ld + r : r * x->matrix.ld + c;
  return (unsigned char *)x->matrix.data +
         (size_t)(t * x->matrix.stride + at) * mmc_dtype_size(p->dtype);
}

static void fill(problem *p, const lying *x, int64_t t, const table *from) {
  for (int64_t r = 0; r < from->rows; r++)
    for (int64_t c = 0; c < from->cols; c++)
      write_element(p->dtype, place(p, x, t, r, c), from->at[r * from->cols + c]);
}

static void draw(problem *p, int64_t rows, int64_t cols, table *out) {
  *out = (table){.rows = rows, .cols = cols};
  const bool is_complex = p->dtype == MMC_C64 || p->dtype == MMC_C128;
  for (int64_t e = 0; e < rows * cols; e++) {
    /* As a float has it, so that nothing is rounded on the way. */
    out->at[e] = (double)(float)random_unit(&p->state);
    if (is_complex) out->at[e] += I * (double)(float)random_unit(&p->state);
  }
}

static void draw_problem(problem *p, bool is_square) {
  static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128};
  p->dtype = dtypes[random_below(&p->state, 4)];
  p->n = 1 + random_below(&p->state, MOST);
  p->batch = random_below(&p->state, 3) ? 1 : 2 + random_below(&p->state, BATCH - 1);
  const int64_t side = 1 + random_below(&p->state, SIDE);
  for (int64_t i = 0; i <= p->n; i++)
    p->dims[i] = is_square                          ? side
                 : random_below(&p->state, 40) == 0 ? 0
                                                    : 1 + random_below(&p->state, SIDE);
  for (int64_t i = 0; i < p->n; i++) {
    p->ops[i] =
        is_square && random_below(&p->state, 4) ? MMC_OP_N : (mmc_op)random_below(&p->state, 3);
    p->wanted[i] = random_below(&p->state, 4) > 0;
    const bool turned = p->ops[i] != MMC_OP_N;
    p->given[i] = lay(p, p->dims[i + turned], p->dims[i + !turned]);
    p->copies[i] = lay(p, p->dims[i + turned], p->dims[i + !turned]);
    for (int64_t t = 0; t < p->batch; t++) {
      table stored;
      draw(p, p->dims[i + turned], p->dims[i + !turned], &stored);
      fill(p, &p->given[i], t, &stored);
      p->factors[t][i] = stored;
      if (turned) turn(&stored, p->ops[i] == MMC_OP_H, &p->factors[t][i]);
    }
  }
  p->out = lay(p, p->dims[0], p->dims[p->n]);
  p->dc = lay(p, p->dims[0], p->dims[p->n]);
  for (int64_t t = 0; t < p->batch; t++) {
    draw(p, p->dims[0], p->dims[p->n], &p->cotangent[t]);
    fill(p, &p->dc, t, &p->cotangent[t]);
  }
}

static void free_problem(problem *p) {
  for (int64_t i = 0; i < p->n; i++) {
    free(p->given[i].bytes);
    free(p->copies[i].bytes);
  }
  free(p->out.bytes);
  free(p->dc.bytes);
}

/* Factor i's gradient as stored, by definition, of the numbers or of their absolute values. */
static void expect_gradient(const problem *p, int64_t t, int64_t i, bool absolutes, table *out) {
  table product = {.rows = p->dims[i], .cols = p->dims[i]}, next, factor, turned;
  for (int64_t e = 0; e < product.rows; e++) product.at[e * (product.cols + 1)] = 1;
  for (int64_t j = i - 1; j >= 0; j--) {
    turn(&p->factors[t][j], true, &turned);
    if (absolutes) absolute(&turned);
    multiply(&product, &turned, &next);
    product = next;
  }
  factor = p->cotangent[t];
  if (absolutes) absolute(&factor);
  multiply(&product, &factor, &next);
  product = next;
  for (int64_t j = p->n - 1; j > i; j--) {
    turn(&p->factors[t][j], true, &turned);
    if (absolutes) absolute(&turned);
    multiply(&product, &turned, &next);
    product = next;
  }
  *out = product;
  if (p->ops[i] != MMC_OP_N) turn(&product, p->ops[i] == MMC_OP_H, out);
}

static void expect_product(const problem *p, int64_t t, bool absolutes, table *out) {
  table next, factor;
  *out = p->factors[t][0];
  if (absolutes) absolute(out);
  for (int64_t j = 1; j < p->n; j++) {
    factor = p->factors[t][j];
    if (absolutes) absolute(&factor);
    multiply(out, &factor, &next);
    *out = next;
  }
}

/* Every product of k terms adds k roundings, and four times as many of complex ones. */
static double rounding(const problem *p) {
  double terms = 0;
  for (int64_t i = 0; i <= p->n; i++) terms += (double)p->dims[i] + 2;
  return 4 * terms *
         (p->dtype == MMC_F32 || p->dtype == MMC_C64 ? (double)FLT_EPSILON : DBL_EPSILON);
}

static void compare(const problem *p, const char *what, int64_t i, number got, number want,
                    number bound) {
  const double error = cabs(got - want);
  if (!(error <= rounding(p) * creal(bound) + 1e-30))
    fail_msg("%s %" PRId64 " of %" PRId64 ": off by %g, at most %g (seed %" PRIu64 ")", what, i,
             p->n, error, rounding(p) * creal(bound), p->seed);
}

/* Elements between lines and around the matrix are as they were. */
static void check_guards(const problem *p, const lying *x) {
  const size_t element = mmc_dtype_size(p->dtype);
  unsigned char *touched = calloc(x->size + 1, 1);
  assert_non_null(touched);
  for (int64_t t = 0; t < p->batch; t++)
    for (int64_t r = 0; r < x->matrix.rows; r++)
      for (int64_t c = 0; c < x->matrix.cols; c++)
        memset(touched + (place(p, x, t, r, c) - x->bytes), 1, element);
  for (size_t b = 0; b < x->size; b++)
    if (!touched[b]) assert_int_equal(x->bytes[b], POISON);
  free(touched);
}

static void check_results(const problem *p, const mmc_gradients *gradients,
                          const unsigned char *memory) {
  table want, bound;
  const size_t element = mmc_dtype_size(p->dtype);
  check_guards(p, &p->out);
  for (int64_t t = 0; t < p->batch; t++) {
    expect_product(p, t, false, &want);
    expect_product(p, t, true, &bound);
    for (int64_t e = 0; e < want.rows * want.cols; e++)
      compare(p, "product", t,
              read_element(p->dtype, place(p, &p->out, t, e / want.cols, e % want.cols)),
              want.at[e], bound.at[e]);
  }
  for (int64_t i = 0; i < p->n; i++) {
    const uint64_t offset = mmc_gradients_offset(gradients, i);
    if (!p->wanted[i]) {
      assert_true(offset == UINT64_MAX);
      lying untouched = p->copies[i];
      untouched.matrix.rows = 0;
      check_guards(p, &untouched);
      continue;
    }
    check_guards(p, &p->copies[i]);
    for (int64_t t = 0; t < p->batch; t++) {
      expect_gradient(p, t, i, false, &want);
      expect_gradient(p, t, i, true, &bound);
      const int64_t count = want.rows * want.cols;
      for (int64_t e = 0; e < count; e++) {
        const unsigned char *copy = place(p, &p->copies[i], t, e / want.cols, e % want.cols);
        const unsigned char *own = memory + offset + (size_t)(t * count + e) * element;
        compare(p, "gradient", i, read_element(p->dtype, copy), want.at[e], bound.at[e]);
        assert_memory_equal(copy, own, element);
      }
    }
  }
}

/* Whose gradients: the host's, those of the device above, or the GPU's. */
typedef enum whose { HOST, LEVELS, GPU } whose;

static const char *module; /* NULL without a GPU */

/* Memory of the device in place of a buffer of the host's, with the same in it. */
static mmc_memory *to_gpu(mmc_context *context, const void *bytes, size_t size) {
  mmc_memory *memory;
  assert_int_equal(mmc_memory_create(context, "cuda", size, &memory), MMC_OK);
  assert_int_equal(mmc_memory_write(memory, 0, bytes, size), MMC_OK);
  return memory;
}

static void fill_gaps(const lying *x) {
  memset(x->bytes, POISON, x->size);
}

/* Goes both ways on a GPU with the problem's matrices, and brings results back. */
static void go_on_gpu(problem *p, mmc_gradients *gradients, unsigned char *memory, size_t bytes) {
  lying *all[2 * MOST + 2];
  mmc_memory *there[2 * MOST + 3];
  mmc_matrix moved[2 * MOST + 2];
  int64_t count = 0;
  for (int64_t i = 0; i < p->n; i++) all[count++] = &p->given[i];
  for (int64_t i = 0; i < p->n; i++) all[count++] = &p->copies[i];
  all[count++] = &p->out;
  all[count++] = &p->dc;
  for (int64_t i = 0; i < count; i++) {
    there[i] = to_gpu(p->context, all[i]->bytes, all[i]->size);
    moved[i] = all[i]->matrix;
    moved[i].data = (unsigned char *)mmc_memory_address(there[i]) + GUARD;
    moved[i].location = MMC_DEVICE;
  }
  there[count] = to_gpu(p->context, memory, bytes);
  void *work = mmc_memory_address(there[count]);
  for (int twice = 0; twice < 2; twice++) {
    assert_int_equal(mmc_gradients_forward(gradients, moved, work, &moved[count - 2]), MMC_OK);
    assert_int_equal(
        mmc_gradients_backward(gradients, moved, work, &moved[count - 1], moved + p->n), MMC_OK);
  }
  for (int64_t i = p->n; i < count; i++)
    assert_int_equal(mmc_memory_read(there[i], 0, all[i]->bytes, all[i]->size), MMC_OK);
  assert_int_equal(mmc_memory_read(there[count], 0, memory, bytes), MMC_OK);
  for (int64_t i = 0; i <= count; i++) mmc_memory_destroy(there[i]);
}

static void run_problem_on(problem *p, whose by) {
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_gradients *gradients;
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  options.batch = p->batch;
  assert_int_equal(
      mmc_chain_create_batch(p->context, p->dtype, p->n, p->dims, p->ops, &options, &chain),
      MMC_OK);
  mmc_plan_options plan_options = MMC_PLAN_OPTIONS_INIT;
  char order[16 * MOST] = "";
  if (p->in_a_row && p->n > 1) {
    for (int64_t i = 1; i < p->n; i++) strcat(order, "(");
    strcat(order, "A1");
    for (int64_t i = 2; i <= p->n; i++) snprintf(order + strlen(order), 16, " A%d)", (int)i);
    plan_options.order = order;
  }
  if (by == GPU) plan_options.device = "cuda";
  assert_int_equal(mmc_plan_create(p->context, chain, &plan_options, &plan), MMC_OK);
  if (by == LEVELS) {
    plan->on.ops = &levels_ops;
    plan->on.device = (mmci_device *)(void *)p;
  }
  assert_int_equal(mmc_gradients_create(plan, p->wanted, &gradients), MMC_OK);
  if (p->share > 0 && by == HOST) {
    const uint64_t limit = mmc_gradients_bytes(gradients) * p->share / 16;
    mmc_gradients_destroy(gradients);
    const mmc_status status = mmc_gradients_create_within(plan, p->wanted, limit, &gradients);
    if (status != MMC_OK) {
      assert_int_equal(status, MMC_E_MEMORY_LIMIT);
      mmc_plan_destroy(plan);
      mmc_chain_destroy(chain);
      return;
    }
    if (mmc_gradients_bytes(gradients) > limit)
      fail_msg("%llu bytes, at most %llu (seed %" PRIu64 ")",
               (unsigned long long)mmc_gradients_bytes(gradients), (unsigned long long)limit,
               p->seed);
    p->limited++;
  }
  mmc_matrix factors[MOST], copies[MOST], out = p->out.matrix, dc = p->dc.matrix;
  for (int64_t i = 0; i < p->n; i++) {
    factors[i] = p->given[i].matrix;
    copies[i] = p->copies[i].matrix;
    if (by != HOST) factors[i].location = copies[i].location = MMC_DEVICE;
    fill_gaps(&p->copies[i]);
  }
  if (by != HOST) out.location = dc.location = MMC_DEVICE;
  fill_gaps(&p->out);
  const size_t bytes = (size_t)mmc_gradients_bytes(gradients);
  unsigned char *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
  assert_non_null(memory);
  memset(memory, POISON, (bytes + 127) / 64 * 64);
  if (by == GPU) go_on_gpu(p, gradients, memory, bytes);
  for (int twice = 0; twice < 2 && by != GPU; twice++) {
    assert_int_equal(mmc_gradients_forward(gradients, factors, memory, &out), MMC_OK);
    assert_int_equal(mmc_gradients_backward(gradients, factors, memory, &dc, copies), MMC_OK);
  }
  for (size_t b = bytes; b < (bytes + 127) / 64 * 64; b++) assert_int_equal(memory[b], POISON);
  check_results(p, gradients, memory);
  free(memory);
  mmc_gradients_destroy(gradients);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
}

static void run_problem(problem *p) {
  if (module == NULL) run_problem_on(p, HOST);
  run_problem_on(p, module == NULL ? LEVELS : GPU);
}

/* ---- tests --------------------------------------------------------------------------------- */

static mmc_context *open_context(void) {
  mmc_context *context;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "";
  char directory[4096];
  if (module != NULL) {
    snprintf(directory, sizeof directory, "%s", module);
    char *end = strrchr(directory, '/');
    if (end != NULL) *end = '\0';
    options.module_dir = directory;
  }
  assert_int_equal(mmc_context_create(&options, &context), MMC_OK);
  return context;
}

static void random_chains(void **state) {
  (void)state;
  const uint64_t first = seed_or(20261123);
  mmc_context *context = open_context();
  problem *p = calloc(1, sizeof *p);
  assert_non_null(p);
  for (uint64_t i = 0; i < 400; i++) {
    p->seed = p->state = first + i;
    p->context = context;
    draw_problem(p, i % 3 == 0);
    run_problem(p);
    free_problem(p);
  }
  free(p);
  mmc_context_destroy(context);
}

/* Random chains whose memory is limited, many of them in an order from left to right and with few
 * factors that want gradients. */
static void limited_chains(void **state) {
  (void)state;
  const uint64_t first = seed_or(20261124);
  mmc_context *context = open_context();
  problem *p = calloc(1, sizeof *p);
  assert_non_null(p);
  int limited = 0;
  for (uint64_t i = 0; i < 80; i++) {
    p->seed = p->state = first + i;
    p->context = context;
    draw_problem(p, i % 3 == 0);
    p->in_a_row = i % 2 == 0;
    for (p->share = 15; p->share > 0; p->share -= p->share > 4 ? 4 : p->share) {
      p->limited = 0;
      run_problem_on(p, HOST);
      limited += p->limited;
    }
    p->in_a_row = false;
    free_problem(p);
  }
  if (limited < 30) fail_msg("only %d limits could be kept (seed %" PRIu64 ")", limited, first);
  free(p);
  mmc_context_destroy(context);
}

/* One gradient of many takes the places of a path through the tree, whatever the order; a limit
 * below the gradients themselves is an error. */
static void little_for_one(void **state) {
  (void)state;
  enum { N = 300, ONE = 16 * 16 * 8 };
  mmc_context *context = open_context();
  int64_t dims[N + 1];
  bool wanted[N] = {[N - 1] = true};
  for (int64_t i = 0; i <= N; i++) dims[i] = 16;
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_gradients *gradients;
  assert_int_equal(mmc_chain_create(context, MMC_F64, N, dims, NULL, &chain), MMC_OK);
  assert_int_equal(mmc_plan_create(context, chain, NULL, &plan), MMC_OK);
  assert_int_equal(mmc_gradients_create(plan, wanted, &gradients), MMC_OK);
  assert_true(mmc_gradients_bytes(gradients) > (uint64_t)100 * ONE);
  mmc_gradients_destroy(gradients);
  assert_int_equal(mmc_gradients_create_within(plan, wanted, (uint64_t)24 * ONE, &gradients),
                   MMC_OK);
  assert_true(mmc_gradients_bytes(gradients) <= (uint64_t)24 * ONE);
  mmc_gradients_destroy(gradients);
  assert_int_equal(mmc_gradients_create_within(plan, wanted, ONE - 1, &gradients),
                   MMC_E_MEMORY_LIMIT);
  assert_int_equal(mmc_gradients_create_within(plan, NULL, (uint64_t)(N + 6) * ONE, &gradients),
                   MMC_OK);
  mmc_gradients_destroy(gradients);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
}

/* The memory of n square factors is that of n gradients, and a few places; where the factors are
 * small, of half as many. */
static void check_memory(mmc_context *context, int64_t n, int64_t side) {
  int64_t dims[301];
  for (int64_t i = 0; i <= n; i++) dims[i] = side;
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_gradients *gradients;
  assert_int_equal(mmc_chain_create(context, MMC_F64, n, dims, NULL, &chain), MMC_OK);
  assert_int_equal(mmc_plan_create(context, chain, NULL, &plan), MMC_OK);
  assert_int_equal(mmc_gradients_create(plan, NULL, &gradients), MMC_OK);
  const uint64_t one = (uint64_t)(side * side) * sizeof(double);
  const uint64_t places = mmc_gradients_bytes(gradients) / one;
  if (places > (uint64_t)(n + 8 + n / (side > 100 ? 8 : 2)))
    fail_msg("%" PRId64 " factors of side %" PRId64 " take %" PRIu64 " places", n, side, places);
  /* No two gradients overlap. */
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++) {
      const uint64_t a = mmc_gradients_offset(gradients, i);
      const uint64_t b = mmc_gradients_offset(gradients, j);
      assert_true(a + one <= b || b + one <= a);
    }
  mmc_gradients_destroy(gradients);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
}

/* On a device that computes levels, n factors take the memory of n gradients, and no more. */
static void levels_take_no_more(void **state) {
  (void)state;
  mmc_context *context = open_context();
  for (int64_t n = 2; n <= 300; n += n < 10 ? 1 : 29) {
    int64_t dims[301];
    for (int64_t i = 0; i <= n; i++) dims[i] = 8;
    mmc_chain *chain;
    mmc_plan *plan;
    mmc_gradients *gradients;
    assert_int_equal(mmc_chain_create(context, MMC_F64, n, dims, NULL, &chain), MMC_OK);
    assert_int_equal(mmc_plan_create(context, chain, NULL, &plan), MMC_OK);
    plan->on.ops = &levels_ops;
    assert_int_equal(mmc_gradients_create(plan, NULL, &gradients), MMC_OK);
    assert_true(mmc_gradients_bytes(gradients) <= (uint64_t)n * 512);
    mmc_gradients_destroy(gradients);
    mmc_plan_destroy(plan);
    mmc_chain_destroy(chain);
  }
  assert_true(levels_counted > 0);
  mmc_context_destroy(context);
}

static void little_memory(void **state) {
  (void)state;
  mmc_context *context = open_context();
  for (int64_t n = 2; n <= 300; n += n < 10 ? 1 : 29) {
    check_memory(context, n, 16);
    check_memory(context, n, 256);
  }
  mmc_context_destroy(context);
}

/* An order that was given stays: by it, the bits are those of its own products. */
static void given_order(void **state) {
  (void)state;
  mmc_context *context = open_context();
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_gradients *gradients;
  mmc_run *run;
  enum { N = 7 };
  double data[N][64], direct[64], out[64];
  uint64_t random = 7;
  mmc_matrix factors[N], to = {.data = out, .rows = 8, .cols = 8};
  for (int i = 0; i < N; i++) {
    for (int e = 0; e < 64; e++) data[i][e] = random_unit(&random);
    factors[i] = (mmc_matrix){.data = data[i], .rows = 8, .cols = 8};
  }
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.order = "(A1 (A2 (A3 (A4 (A5 (A6 A7))))))";
  options.device = "ref";
  assert_int_equal(mmc_chain_parse(context, "8x8x8x8x8x8x8x8", &chain), MMC_OK);
  assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_OK);
  assert_int_equal(mmc_run_create(plan, &run), MMC_OK);
  assert_int_equal(mmc_execute(run, factors, &to), MMC_OK);
  memcpy(direct, out, sizeof out);
  assert_int_equal(mmc_gradients_create(plan, NULL, &gradients), MMC_OK);
  void *memory = aligned_alloc(64, (size_t)mmc_gradients_bytes(gradients));
  assert_int_equal(mmc_gradients_forward(gradients, factors, memory, &to), MMC_OK);
  assert_memory_equal(direct, out, sizeof out);
  free(memory);
  mmc_gradients_destroy(gradients);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
}

static void errors(void **state) {
  (void)state;
  mmc_context *context = open_context();
  mmc_chain *chain, *power;
  mmc_plan *plan, *powers;
  mmc_gradients *gradients;
  double data[2][6] = {{0}}, out[4];
  mmc_matrix factors[] = {{.data = data[0], .rows = 2, .cols = 3},
                          {.data = data[1], .rows = 3, .cols = 2}};
  mmc_matrix to = {.data = out, .rows = 2, .cols = 2}, bad = to;
  char argument[32];
  assert_int_equal(mmc_chain_parse(context, "2x3x2", &chain), MMC_OK);
  assert_int_equal(mmc_plan_create(context, chain, NULL, &plan), MMC_OK);
  assert_int_equal(mmc_gradients_create(plan, NULL, &gradients), MMC_OK);
  void *memory = aligned_alloc(64, (size_t)mmc_gradients_bytes(gradients) + 64);
#define FAILS(call, status, name)                             \
  do {                                                        \
    assert_int_equal(call, status);                           \
    mmc_context_argument(context, argument, sizeof argument); \
    assert_string_equal(argument, name);                      \
  } while (0)
  FAILS(mmc_gradients_forward(gradients, NULL, memory, &to), MMC_E_ARG, "factors");
  FAILS(mmc_gradients_forward(gradients, factors, NULL, &to), MMC_E_ARG, "memory");
  FAILS(mmc_gradients_backward(gradients, factors, memory, NULL, NULL), MMC_E_ARG, "cotangent");
  bad.cols = 3;
  FAILS(mmc_gradients_backward(gradients, factors, memory, &bad, NULL), MMC_E_ARG, "cotangent");
  const mmc_matrix copies[] = {factors[0], factors[0]};
  FAILS(mmc_gradients_backward(gradients, factors, memory, &to, copies), MMC_E_ARG, "gradients");
  factors[1].data = NULL;
  FAILS(mmc_gradients_forward(gradients, factors, memory, &to), MMC_E_ARG, "factors");
  assert_int_equal(mmc_chain_parse(context, "4x4^30", &power), MMC_OK);
  assert_int_equal(mmc_plan_create(context, power, NULL, &powers), MMC_OK);
  mmc_gradients *none;
  FAILS(mmc_gradients_create(powers, NULL, &none), MMC_E_UNSUPPORTED, "plan");
  assert_true(mmc_gradients_offset(gradients, -1) == UINT64_MAX);
  assert_true(mmc_gradients_offset(gradients, 2) == UINT64_MAX);
  free(memory);
  mmc_gradients_destroy(gradients);
  mmc_plan_destroy(plan);
  mmc_plan_destroy(powers);
  mmc_chain_destroy(chain);
  mmc_chain_destroy(power);
  mmc_context_destroy(context);
}

/* Says whether there is a GPU. */
static bool finds_gpu(void) {
  mmc_context *context = open_context();
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = "cuda";
  const bool found = mmc_chain_parse(context, "f32:4x4", &chain) == MMC_OK &&
                     mmc_plan_create(context, chain, &options, &plan) == MMC_OK;
  char message[512];
  if (!found) printf("skipped: %s\n", mmc_context_message(context, message, sizeof message));
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return found;
}

int main(int argc, char **argv) {
  const struct CMUnitTest of_gpu[] = {cmocka_unit_test(random_chains)};
  if (argc > 1) {
    module = argv[1];
    return finds_gpu() ? cmocka_run_group_tests(of_gpu, NULL, NULL) : 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_chains),  cmocka_unit_test(levels_take_no_more),
      cmocka_unit_test(little_memory),  cmocka_unit_test(given_order),
      cmocka_unit_test(errors),         cmocka_unit_test(limited_chains),
      cmocka_unit_test(little_for_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
