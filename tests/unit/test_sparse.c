/* test_sparse.c: chains with sparse factors against loops in double precision: every dtype, op,
 * kernel and way to be held, sides of 0 and 1; the order against every order; files; what is wrong
 * is an error. */
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
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../elements.h"
#include "../how_many.h"
#include "../random.h"
#include "mmchain.h"
#include "sparse/order.h"

#ifdef MMCI_ZLIB
enum { HAS_NPZ = true };
#else
enum { HAS_NPZ = false };
#endif
enum { FACTORS_MOST = 5, SIDE_MOST = 50 };

/* One matrix: its elements by rows, and as the library is given it. */
typedef struct stored {
  int64_t rows, cols;
  double complex *at;
  bool is_sparse;
  int64_t *indptr64, *indices64;
  int32_t *indptr32, *indices32;
  void *values;
  mmc_csr csr;
  mmc_matrix matrix;
} stored;

typedef struct problem {
  mmc_context *context;
  mmc_dtype dtype;
  int64_t n, dims[FACTORS_MOST + 1];
  stored of[FACTORS_MOST];
  mmc_op ops[FACTORS_MOST];
  mmc_sparse_factor factors[FACTORS_MOST];
  uint64_t state, seed;
} problem;

static uint64_t first_seed(uint64_t usual) {
  const char *seed = getenv("MMCHAIN_TEST_SEED");
  return seed != NULL ? strtoull(seed, NULL, 10) : usual;
}

static bool is_complex(mmc_dtype dtype) {
  return dtype == MMC_C64 || dtype == MMC_C128;
}

static void write_element(mmc_dtype dtype, void *values, int64_t i, double complex x) {
  element_write(dtype, (unsigned char *)values + (size_t)i * mmc_dtype_size(dtype),
                (element){creal(x), cimag(x)});
}

static double complex read_element(mmc_dtype dtype, const void *values, int64_t i) {
  element e =
      element_read(dtype, (const unsigned char *)values + (size_t)i * mmc_dtype_size(dtype));
  return e.re + e.im * I;
}

/* Draws a number that every dtype holds, so that what is read equals what was written. */
static double complex draw_element(problem *p) {
  const double re = (double)(float)random_unit(&p->state);
  return is_complex(p->dtype) ? re + (double)(float)random_unit(&p->state) * I : re;
}

/* Lists what is not zero, rows from their ends and some elements as two halves in one place. */
static void make_sparse(problem *p, stored *x) {
  const int64_t most = 2 * x->rows * x->cols + 1;
  const bool wide = random_below(&p->state, 2) == 0, backward = random_below(&p->state, 2) == 0;
  x->indptr64 = calloc((size_t)x->rows + 1, sizeof *x->indptr64);
  x->indptr32 = calloc((size_t)x->rows + 1, sizeof *x->indptr32);
  x->indices64 = calloc((size_t)most, sizeof *x->indices64);
  x->indices32 = calloc((size_t)most, sizeof *x->indices32);
  x->values = calloc((size_t)most, mmc_dtype_size(p->dtype));
  int64_t count = 0;
  for (int64_t r = 0; r < x->rows; r++) {
    for (int64_t i = 0; i < x->cols; i++) {
      const int64_t c = backward ? x->cols - 1 - i : i;
      const double complex value = x->at[r * x->cols + c];
      const int times = random_below(&p->state, 8) == 0 ? 2 : 1;
      for (int t = 0; t < times && value != 0; t++) {
        write_element(p->dtype, x->values, count, value / times);
        x->indices64[count] = c;
        x->indices32[count++] = (int32_t)c;
      }
    }
    x->indptr64[r + 1] = count;
    x->indptr32[r + 1] = (int32_t)count;
  }
  x->csr = (mmc_csr){.rows = x->rows, .cols = x->cols, .index_bytes = wide ? 8 : 4};
  x->csr.indptr = wide ? (void *)x->indptr64 : x->indptr32;
  x->csr.indices = wide ? (void *)x->indices64 : x->indices32;
  x->csr.values = x->values;
}

static void make_dense(problem *p, stored *x) {
  const bool by_columns = random_below(&p->state, 2) == 0;
  const int64_t lines = by_columns ? x->cols : x->rows, length = by_columns ? x->rows : x->cols;
  const int64_t ld = length + random_below(&p->state, 3) + (length == 0);
  x->values = calloc((size_t)(lines * ld) + 1, mmc_dtype_size(p->dtype));
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++)
      write_element(p->dtype, x->values, by_columns ? c * ld + r : r * ld + c,
                    x->at[r * x->cols + c]);
  x->matrix = (mmc_matrix){.data = x->values,
                           .rows = x->rows,
                           .cols = x->cols,
                           .ld = ld,
                           .layout = by_columns ? MMC_COL_MAJOR : MMC_ROW_MAJOR};
}

static void draw_factor(problem *p, int64_t i, bool is_sparse) {
  static const double densities[] = {0, 0.02, 0.1, 0.5, 1};
  stored *x = &p->of[i];
  const double density = densities[random_below(&p->state, 5)];
  p->ops[i] = (mmc_op)random_below(&p->state, 3);
  const bool turned = p->ops[i] != MMC_OP_N;
  *x = (stored){.rows = p->dims[turned ? i + 1 : i], .cols = p->dims[turned ? i : i + 1]};
  x->is_sparse = is_sparse;
  x->at = calloc((size_t)(x->rows * x->cols) + 1, sizeof *x->at);
  for (int64_t e = 0; e < x->rows * x->cols; e++)
    if (fabs(random_unit(&p->state)) <= density) x->at[e] = draw_element(p);
  if (is_sparse)
    make_sparse(p, x);
  else
    make_dense(p, x);
  p->factors[i] = (mmc_sparse_factor){
      .csr = is_sparse ? &x->csr : NULL, .dense = is_sparse ? NULL : &x->matrix, .op = p->ops[i]};
}

static void draw_problem(problem *p, uint64_t seed) {
  static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128};
  static const int64_t sides[] = {0, 1, 2, 7, 33, SIDE_MOST};
  p->seed = p->state = seed;
  p->dtype = dtypes[random_below(&p->state, 4)];
  p->n = 1 + random_below(&p->state, FACTORS_MOST);
  for (int64_t i = 0; i <= p->n; i++)
    p->dims[i] = random_below(&p->state, 8) == 0 ? sides[random_below(&p->state, 6)]
                                                 : 1 + random_below(&p->state, SIDE_MOST);
  const bool all = random_below(&p->state, 2) == 0;
  for (int64_t i = 0; i < p->n; i++) draw_factor(p, i, all || random_below(&p->state, 3) > 0);
}

static void free_problem(problem *p) {
  for (int64_t i = 0; i < p->n; i++) {
    stored *x = &p->of[i];
    free(x->at);
    free(x->indptr32);
    free(x->indptr64);
    free(x->indices32);
    free(x->indices64);
    free(x->values);
  }
}

static double complex value_of(const problem *p, int64_t i, int64_t r, int64_t c) {
  const stored *x = &p->of[i];
  const double complex v = p->ops[i] == MMC_OP_N ? x->at[r * x->cols + c] : x->at[c * x->cols + r];
  return p->ops[i] == MMC_OP_H ? conj(v) : v;
}

/* Returns the product from left to right, and in sizes that of absolute values. */
static double complex *multiply(const problem *p, double **sizes) {
  const int64_t m = p->dims[0];
  double complex *x = NULL;
  double *s = NULL;
  for (int64_t i = 0; i < p->n; i++) {
    const int64_t k = p->dims[i], n = p->dims[i + 1];
    double complex *y = calloc((size_t)(m * n) + 1, sizeof *y);
    double *t = calloc((size_t)(m * n) + 1, sizeof *t);
    for (int64_t r = 0; r < m; r++)
      for (int64_t q = 0; q < k; q++)
        for (int64_t c = 0; c < n; c++) {
          const double complex b = value_of(p, i, q, c);
          if (i == 0 && q != r) continue;
          y[r * n + c] += i == 0 ? b : x[r * k + q] * b;
          t[r * n + c] += i == 0 ? cabs(b) : s[r * k + q] * cabs(b);
        }
    free(x);
    free(s);
    x = y;
    s = t;
  }
  *sizes = s;
  return x;
}

static void compare(const problem *p, const double complex *found) {
  double *sizes, sum = (double)p->n;
  double complex *wanted = multiply(p, &sizes);
  for (int64_t i = 1; i < p->n; i++) sum += (double)p->dims[i];
  const double tolerance = 8 * sum * dtype_facts[p->dtype].epsilon;
  for (int64_t e = 0; e < p->dims[0] * p->dims[p->n]; e++) {
    const double apart = cabs(found[e] - wanted[e]);
    if (!(apart <= tolerance * sizes[e]))
      fail_msg("seed %" PRIu64 ", element %" PRId64 ": %g+%gi for %g+%gi", p->seed, e,
               creal(found[e]), cimag(found[e]), creal(wanted[e]), cimag(wanted[e]));
  }
  free(wanted);
  free(sizes);
}

static void take_sparse(const problem *p, const mmc_sparse *sparse) {
  const mmc_csr csr = mmc_sparse_csr(sparse);
  const int32_t *indptr = csr.indptr, *indices = csr.indices;
  double complex *found = calloc((size_t)(csr.rows * csr.cols) + 1, sizeof *found);
  assert_int_equal(csr.index_bytes, 4);
  assert_int_equal(csr.rows, p->dims[0]);
  assert_int_equal(csr.cols, p->dims[p->n]);
  assert_int_equal(mmc_sparse_dtype(sparse), p->dtype);
  assert_int_equal(indptr[0], 0);
  for (int64_t r = 0; r < csr.rows; r++)
    for (int64_t e = indptr[r]; e < indptr[r + 1]; e++) {
      assert_true(indices[e] >= 0 && indices[e] < csr.cols);
      assert_true(e == indptr[r] || indices[e] > indices[e - 1]);
      found[r * csr.cols + indices[e]] = read_element(p->dtype, csr.values, e);
    }
  compare(p, found);
  free(found);
}

static int drop(void *user, const char *bytes, size_t size) {
  (void)bytes;
  *(size_t *)user += size;
  return 0;
}

/* Executes with a dense result between guards, or a sparse one. */
static void execute(problem *p, bool by_time, bool dense, const char *device) {
  const int64_t m = p->dims[0], n = p->dims[p->n];
  mmc_sparse_options options = MMC_SPARSE_OPTIONS_INIT;
  mmc_sparse_chain *chain = NULL;
  mmc_sparse *sparse = NULL;
  options.objective = by_time ? "time" : "flops";
  options.solver = random_below(&p->state, 4) == 0 ? "left-to-right" : "auto";
  options.device = device;
  options.dense_result = dense;
  mmc_status status =
      mmc_sparse_chain_create(p->context, p->dtype, p->n, p->factors, &options, &chain);
  char message[256];
  if (status != MMC_OK)
    fail_msg("seed %" PRIu64 ": %s", p->seed, mmc_context_message(p->context, message, 256));
  size_t written = 0;
  assert_int_equal(mmc_sparse_chain_explain(chain, MMC_TEXT, drop, &written), MMC_OK);
  assert_int_equal(mmc_sparse_chain_explain(chain, MMC_JSON, drop, &written), MMC_OK);
  assert_true(written > 100 && mmc_sparse_chain_multiplications(chain) >= 0);
  for (int again = 0; again < 2 && !dense; again++) {
    assert_int_equal(mmc_sparse_chain_execute(chain, p->factors, NULL, &sparse), MMC_OK);
    take_sparse(p, sparse);
    mmc_sparse_destroy(sparse);
  }
  if (dense) {
    const bool by_columns = random_below(&p->state, 2) == 0;
    const int64_t lines = by_columns ? n : m, length = by_columns ? m : n, ld = length + 1;
    const size_t size = mmc_dtype_size(p->dtype), bytes = (size_t)(lines * ld + 1) * size;
    char *data = malloc(bytes);
    memset(data, 0x5a, bytes);
    const mmc_matrix out = {.data = data,
                            .rows = m,
                            .cols = n,
                            .ld = ld,
                            .layout = by_columns ? MMC_COL_MAJOR : MMC_ROW_MAJOR};
    assert_int_equal(mmc_sparse_chain_execute(chain, p->factors, &out, NULL), MMC_OK);
    double complex *found = calloc((size_t)(m * n) + 1, sizeof *found);
    for (int64_t r = 0; r < m; r++)
      for (int64_t c = 0; c < n; c++)
        found[r * n + c] = read_element(p->dtype, data, by_columns ? c * ld + r : r * ld + c);
    for (int64_t l = 0; l < lines; l++)
      for (size_t b = 0; b < size; b++)
        assert_int_equal(data[(size_t)(l * ld + length) * size + b], 0x5a);
    compare(p, found);
    free(found);
    free(data);
  }
  mmc_sparse_chain_destroy(chain);
}

static void multiplies(void **state) {
  problem p = {.context = *state};
  const uint64_t first = first_seed(4711);
  const int64_t count = how_many(300, 20000);
  for (int64_t t = 0; t < count; t++) {
    draw_problem(&p, first + (uint64_t)t);
    execute(&p, t % 2 == 0, t % 3 == 0, t % 5 == 0 ? "ref" : NULL);
    free_problem(&p);
  }
}

/* A product that several threads share, against the product by columns of one. */
static void multiplies_on_threads(void **state) {
  problem p = {.context = *state, .state = 5, .dtype = MMC_F64, .n = 2};
  mmc_sparse_options options = MMC_SPARSE_OPTIONS_INIT;
  const int64_t side = 400;
  for (int64_t i = 0; i <= 2; i++) p.dims[i] = side;
  for (int64_t i = 0; i < 2; i++) {
    stored *x = &p.of[i];
    *x = (stored){.rows = side, .cols = side, .is_sparse = true};
    x->at = calloc((size_t)(side * side), sizeof *x->at);
    for (int64_t r = 0; r < side; r++)
      for (int64_t e = 0; e < 40 + side / (r + 1); e++)
        x->at[r * side + random_below(&p.state, side)] = draw_element(&p);
    make_sparse(&p, x);
    p.factors[i] = (mmc_sparse_factor){.csr = &x->csr};
  }
  double complex *found = calloc((size_t)(side * side), sizeof *found);
  for (int dense = 0; dense < 2; dense++) {
    mmc_sparse_chain *chain;
    mmc_sparse *sparse = NULL;
    double *data = calloc((size_t)(side * side), sizeof *data);
    const mmc_matrix out = {.data = data, .rows = side, .cols = side};
    options.dense_result = dense != 0;
    options.objective = "time";
    assert_int_equal(mmc_sparse_chain_create(p.context, MMC_F64, 2, p.factors, &options, &chain),
                     MMC_OK);
    assert_int_equal(
        mmc_sparse_chain_execute(chain, p.factors, dense ? &out : NULL, dense ? NULL : &sparse),
        MMC_OK);
    if (dense) {
      for (int64_t e = 0; e < side * side; e++) found[e] = data[e];
      compare(&p, found);
    } else {
      take_sparse(&p, sparse);
    }
    mmc_sparse_destroy(sparse);
    mmc_sparse_chain_destroy(chain);
    free(data);
  }
  free(found);
  free_problem(&p);
}

/* ---- inverses -------------------------------------------------------------------------------- */

enum { SIDE = 9 };

/* Multiplies S D^-1 S, D^-1 S or S D^-1 with a dense D, and sees that D brings back what D^-1 took.
 */
static void solves(void **state) {
  static const uint32_t kinds[] = {
      0, MMC_LOWER, MMC_UPPER, MMC_UPPER | MMC_UNIT, MMC_POSITIVE_DEFINITE, MMC_LOWER | MMC_UPPER};
  const int64_t indptr[SIDE + 1] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
                              indices[SIDE] = {2, 0, 1, 4, 3, 8, 6, 5, 7};
  double values[SIDE], d[SIDE * SIDE], found[SIDE * SIDE];
  for (int64_t i = 0; i < SIDE; i++) values[i] = 1 + (double)i;
  const mmc_csr csr = {SIDE, SIDE, 8, indptr, indices, values};
  const mmc_matrix dense = {.data = d, .rows = SIDE, .cols = SIDE};
  const mmc_matrix out = {.data = found, .rows = SIDE, .cols = SIDE};
  const mmc_sparse_factor s = {.csr = &csr}, inverse = {.dense = &dense};
  for (size_t t = 0; t < 4 * sizeof kinds / sizeof *kinds; t++) {
    const uint32_t kind = kinds[t / 4];
    const bool right = t % 2 != 0, turned = t / 2 % 2 != 0;
    for (int64_t r = 0; r < SIDE; r++)
      for (int64_t c = 0; c < SIDE; c++) {
        const bool is_there =
            r == c || ((kind & MMC_LOWER) == 0 && c > r) || ((kind & MMC_UPPER) == 0 && r > c);
        const double beside = kind == MMC_POSITIVE_DEFINITE ? 0.1 : 0.1 + 0.01 * (double)(r - c);
        d[r * SIDE + c] = r == c && (kind & MMC_UNIT) == 0              ? 2 + (double)r
                          : r == c                                      ? 1
                          : is_there && kind != (MMC_LOWER | MMC_UPPER) ? beside
                                                                        : 0;
      }
    mmc_sparse_factor factors[2] = {right ? s : inverse, right ? inverse : s};
    const uint32_t traits[2] = {right ? 0 : kind | MMC_INVERSE, right ? kind | MMC_INVERSE : 0};
    factors[right].op = turned ? MMC_OP_T : MMC_OP_N;
    mmc_sparse_options options = MMC_SPARSE_OPTIONS_INIT;
    options.dense_result = true;
    options.traits = traits;
    options.objective = t % 3 == 0 ? "time" : "flops";
    mmc_sparse_chain *chain = NULL;
    mmc_status status = mmc_sparse_chain_create(*state, MMC_F64, 2, factors, &options, &chain);
    if (status == MMC_E_UNSUPPORTED) skip(); /* a BLAS without LAPACK */
    assert_int_equal(status, MMC_OK);
    for (int again = 0; again < 2; again++)
      assert_int_equal(mmc_sparse_chain_execute(chain, factors, &out, NULL), MMC_OK);
    for (int64_t r = 0; r < SIDE; r++)
      for (int64_t c = 0; c < SIDE; c++) {
        double sum = 0;
        for (int64_t k = 0; k < SIDE; k++) {
          const int64_t i = right ? k : r, j = right ? c : k;
          const double element = turned ? d[j * SIDE + i] : d[i * SIDE + j];
          sum += element * (right ? found[r * SIDE + k] : found[k * SIDE + c]);
        }
        const double expected = indices[r] == c ? values[r] : 0;
        if (!(fabs(sum - expected) <= 1e-12))
          fail_msg("solves %zu: (%d, %d) is %g, expected %g", t, (int)r, (int)c, sum, expected);
      }
    d[3 * SIDE + 3] = 0;
    if (kind == MMC_LOWER) {
      char message[256];
      assert_int_equal(mmc_sparse_chain_execute(chain, factors, &out, NULL), MMC_E_ARG);
      assert_non_null(strstr(mmc_context_message(*state, message, 256),
                             right ? "factor 2 is singular: pivot 4 is zero"
                                   : "factor 1 is singular: pivot 4 is zero"));
    }
    mmc_sparse_chain_destroy(chain);
  }
}

/* Nothing is said of sparse factors, and what is said of dense ones is possible. */
static void refuses_traits(void **state) {
  const int64_t indptr[] = {0, 1}, indices[] = {0};
  const double value = 2, row[2] = {1, 2};
  const mmc_csr csr = {1, 1, 8, indptr, indices, &value};
  const mmc_matrix dense = {.data = (void *)row, .rows = 1, .cols = 2};
  const mmc_sparse_factor factors[] = {{.csr = &csr}, {.dense = &dense}};
  static const uint32_t traits[2][2] = {{MMC_INVERSE, 0}, {0, MMC_INVERSE}};
  mmc_sparse_options options = MMC_SPARSE_OPTIONS_INIT;
  options.dense_result = true;
  for (int t = 0; t < 2; t++) {
    mmc_sparse_chain *chain = NULL;
    char message[256];
    options.traits = traits[t];
    assert_int_equal(mmc_sparse_chain_create(*state, MMC_F64, 2, factors, &options, &chain),
                     t == 0 ? MMC_E_UNSUPPORTED : MMC_E_ARG);
    assert_non_null(
        strstr(mmc_context_message(*state, message, 256), t == 0 ? "factors[0]" : "factors[1]"));
  }
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Returns the least multiplications of factors i to j, all held sparse, by trying every order. */
static double least(const mmci_sparse_estimate *e, const mmci_sparse_shape *shapes, int32_t i,
                    int32_t j) {
  double best = i == j ? 0 : (double)INFINITY;
  for (int32_t k = i; k < j; k++) {
    const double cost =
        mmci_sparse_count(e, shapes, i, k, j) + least(e, shapes, i, k) + least(e, shapes, k + 1, j);
    if (cost < best) best = cost;
  }
  return best;
}

static void finds_the_cheapest_order(void **state) {
  problem p = {.context = *state};
  const uint64_t first = first_seed(815);
  for (uint64_t t = 0; t < 200; t++) {
    p.seed = p.state = first + t;
    p.dtype = MMC_F64;
    p.n = 2 + random_below(&p.state, FACTORS_MOST - 1);
    for (int64_t i = 0; i <= p.n; i++) p.dims[i] = 1 + random_below(&p.state, SIDE_MOST);
    mmci_sparse_shape shapes[FACTORS_MOST];
    mmci_csr matrices[FACTORS_MOST];
    for (int64_t i = 0; i < p.n; i++) {
      draw_factor(&p, i, true);
      if (p.ops[i] != MMC_OP_N) {
        p.ops[i] = p.factors[i].op = MMC_OP_N;
        p.dims[i + 1] = p.dims[i]; /* what was drawn transposed is drawn anew */
        problem one = {.n = 1, .of = {p.of[i]}};
        free_problem(&one);
        i--;
        continue;
      }
      mmci_csr *a = &matrices[i];
      assert_int_equal(mmci_csr_read(MMC_F64, &p.of[i].csr, "a", a, NULL), MMC_OK);
      assert_int_equal(mmci_csr_settle(a, NULL), MMC_OK);
      shapes[i] = (mmci_sparse_shape){.rows = p.dims[i], .cols = p.dims[i + 1], .csr = a};
    }
    mmci_sparse_estimate estimate;
    mmci_sparse_order order;
    const mmci_sparse_prices prices = {1e11, 1e10, 1e-6, MMC_F64};
    assert_int_equal(mmci_sparse_estimate_create((int32_t)p.n, shapes, &estimate, NULL), MMC_OK);
    assert_int_equal(
        mmci_sparse_order_create((int32_t)p.n, shapes, &prices,
                                 (mmci_sparse_request){.result = MMCI_SPARSE}, &order, NULL),
        MMC_OK);
    const double wanted = least(&estimate, shapes, 0, (int32_t)p.n - 1);
    if (!(fabs(order.cost.multiplications - wanted) <= 1e-9 * wanted))
      fail_msg("seed %" PRIu64 ": %g for %g", p.seed, order.cost.multiplications, wanted);
    mmci_sparse_order_destroy(&order);
    mmci_sparse_estimate_destroy(&estimate);
    for (int64_t i = 0; i < p.n; i++) mmci_csr_release(&matrices[i]);
    free_problem(&p);
  }
}

/* ---- orders that are not looked for ---------------------------------------------------------- */

enum { STEPS = 8, NODES = 300, DEGREE = 5 };

static int keep_text(void *user, const char *bytes, size_t size) {
  strncat(user, bytes, size);
  return 0;
}

/* Multiplies v, as a column behind the steps or as a row before them, by one matrix again and
 * again.
 */
static void walks(const mmc_sparse_factor *factors, const double *a, const double *v, bool column,
                  double *out) {
  double x[NODES], y[NODES];
  memcpy(x, v, sizeof x);
  for (int s = 0; s < STEPS; s++) {
    const mmc_op op = factors[column ? STEPS - 1 - s : s + 1].op;
    for (int r = 0; r < NODES; r++) {
      y[r] = 0;
      for (int c = 0; c < NODES; c++)
        y[r] += x[c] * ((op == MMC_OP_N) == column ? a[r * NODES + c] : a[c * NODES + r]);
    }
    memcpy(x, y, sizeof x);
  }
  memcpy(out, x, sizeof x);
}

/* A vector by many steps is multiplied from its end, and nothing is sampled for it; one matrix that
 * stands in the chain many times, as it is and transposed, is read once of each. */
static void takes_vectors_at_once(void **state) {
  static double a[NODES * NODES], values[NODES * DEGREE], v[NODES], wanted[NODES], found[NODES];
  static int32_t indptr[NODES + 1], indices[NODES * DEGREE];
  static char text[1 << 14];
  uint64_t random = first_seed(31);
  for (int r = 0; r < NODES; r++) {
    v[r] = random_unit(&random);
    for (int e = 0; e < DEGREE; e++) {
      const int at = r * DEGREE + e, c = (int)random_below(&random, NODES);
      indices[at] = c;
      values[at] = random_unit(&random);
      a[r * NODES + c] += values[at];
    }
    indptr[r + 1] = (r + 1) * DEGREE;
  }
  const mmc_csr csr = {NODES, NODES, 4, indptr, indices, values};
  for (int t = 0; t < 12; t++) {
    const bool column = t % 2 == 0, by_time = t % 3 > 0, sparse_end = t > 9;
    const int32_t offsets[2] = {0, 0};
    const mmc_csr none = {1, NODES, 4, offsets, indices, values};
    const mmc_matrix vector = {.data = v, .rows = column ? NODES : 1, .cols = column ? 1 : NODES};
    mmc_matrix out = {.data = found, .rows = column ? NODES : 1, .cols = column ? 1 : NODES};
    mmc_sparse_factor factors[STEPS + 1];
    mmc_sparse_options options = MMC_SPARSE_OPTIONS_INIT;
    mmc_sparse_chain *chain = NULL;
    for (int s = 0; s <= STEPS; s++)
      factors[s] = (mmc_sparse_factor){.csr = &csr, .op = (mmc_op)((s * t) % 3 % 2)};
    mmc_sparse_factor *end = &factors[column ? STEPS : 0];
    *end = (mmc_sparse_factor){.dense = &vector};
    if (sparse_end) *end = (mmc_sparse_factor){.csr = &none, .op = column ? MMC_OP_T : MMC_OP_N};
    options.objective = by_time ? "time" : "flops";
    options.dense_result = true;
    assert_int_equal(mmc_sparse_chain_create(*state, MMC_F64, STEPS + 1, factors, &options, &chain),
                     MMC_OK);
    text[0] = 0;
    assert_int_equal(mmc_sparse_chain_explain(chain, MMC_JSON, keep_text, text), MMC_OK);
    const bool at_once = by_time && !sparse_end;
    assert_true((strstr(text, "\"solver\": \"at-once\"") != NULL) == at_once);
    assert_true((strstr(text, "\"left_to_right\": null") != NULL) == at_once);
    if (at_once)
      assert_true(mmc_sparse_chain_multiplications(chain) == (double)STEPS * NODES * DEGREE);
    assert_int_equal(mmc_sparse_chain_execute(chain, factors, &out, NULL), MMC_OK);
    walks(factors, a, v, column, wanted);
    for (int r = 0; r < NODES; r++)
      assert_true(fabs(found[r] - (sparse_end ? 0 : wanted[r])) <= 1e-10 * pow(DEGREE, STEPS));
    mmc_sparse_chain_destroy(chain);
  }
}

/* ---- estimates ------------------------------------------------------------------------------- */

enum { PATHS = 5 }; /* factors of a chain whose degrees fall as powers of their rank */

typedef struct paths {
  int64_t dims[PATHS + 1];
  mmci_csr csr[PATHS];
  mmci_sparse_shape shapes[PATHS];
  double *rows[PATHS][PATHS], *cols[PATHS][PATHS]; /* nonzeros of lines of products, counted */
} paths;

static int64_t draw_end(uint64_t *state, int64_t lines, double power) {
  const double u = (double)(random_bits(state) >> 11) * 0x1p-53;
  return (int64_t)((double)lines * pow(u, power));
}

static void draw_paths(paths *p, uint64_t *state, int64_t least, int64_t most) {
  for (int i = 0; i <= PATHS; i++) p->dims[i] = least + random_below(state, most - least + 1);
  for (int i = 0; i < PATHS; i++) {
    const int64_t rows = p->dims[i], cols = p->dims[i + 1];
    const double power[2] = {1.5 + (double)random_below(state, 5),
                             1.5 + (double)random_below(state, 5)};
    uint8_t *there = malloc((size_t)(rows * cols));
    assert_non_null(there);
    memset(there, 0, (size_t)(rows * cols));
    int64_t drawn = (rows + cols) * (1 + (int64_t)random_below(state, 3)), count = 0;
    for (; drawn > 0; drawn--) {
      const int64_t r = draw_end(state, rows, power[0]), c = draw_end(state, cols, power[1]);
      count += !there[r * cols + c];
      there[r * cols + c] = 1;
    }
    mmci_csr *a = &p->csr[i];
    assert_int_equal(mmci_csr_create(MMC_F64, rows, cols, count, a, NULL), MMC_OK);
    int64_t at = 0;
    for (int64_t r = 0; r < rows; r++) {
      a->indptr[r] = at;
      for (int64_t c = 0; c < cols; c++)
        if (there[r * cols + c]) a->indices[at++] = (int32_t)c;
    }
    a->indptr[rows] = at;
    free(there);
    p->shapes[i] = (mmci_sparse_shape){.rows = rows, .cols = cols, .csr = a};
  }
}

/* Counts the nonzeros of the lines of all products, by multiplying truth values. */
static void count_lines(paths *p) {
  for (int j = 0; j < PATHS; j++) {
    const int64_t cols = p->dims[j + 1];
    uint8_t *behind = NULL;
    for (int i = j; i >= 0; i--) {
      const mmci_csr *a = &p->csr[i];
      uint8_t *product = calloc((size_t)(a->rows * cols), 1);
      assert_non_null(product);
      for (int64_t r = 0; r < a->rows; r++)
        for (int64_t e = a->indptr[r]; e < a->indptr[r + 1]; e++) {
          const int64_t k = a->indices[e];
          for (int64_t c = 0; behind != NULL && c < cols; c++)
            product[r * cols + c] |= behind[k * cols + c];
          if (behind == NULL) product[r * cols + k] = 1;
        }
      double *of_rows = calloc((size_t)a->rows, sizeof *of_rows),
             *of_cols = calloc((size_t)cols, sizeof *of_cols);
      assert_non_null(of_rows);
      assert_non_null(of_cols);
      for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < cols; c++) {
          of_rows[r] += product[r * cols + c];
          of_cols[c] += product[r * cols + c];
        }
      p->rows[i][j] = of_rows;
      p->cols[i][j] = of_cols;
      free(behind);
      behind = product;
    }
    free(behind);
  }
}

static double counted(const paths *p, int i, int k, int j) {
  double sum = 0;
  for (int64_t c = 0; c < p->dims[k + 1]; c++) sum += p->cols[i][k][c] * p->rows[k + 1][j][c];
  return sum;
}

/* Returns the multiplications, counted, of the order of factors i to j that the estimate takes for
 * the cheapest, which is counted too where there is none; *price is what decided. */
static double count_order(const paths *p, const mmci_sparse_estimate *x, int i, int j,
                          double *price) {
  double best = 0;
  *price = i == j ? 0 : (double)INFINITY;
  for (int k = i; k < j; k++) {
    double left, right;
    const double count =
        count_order(p, x, i, k, &left) + count_order(p, x, k + 1, j, &right) + counted(p, i, k, j);
    const double one =
        left + right + (x != NULL ? mmci_sparse_count(x, p->shapes, i, k, j) : counted(p, i, k, j));
    if (!(one < *price)) continue;
    *price = one;
    best = count;
  }
  return best;
}

static void free_paths(paths *p) {
  for (int i = 0; i < PATHS; i++) {
    mmci_csr_release(&p->csr[i]);
    for (int j = i; j < PATHS; j++) {
      free(p->rows[i][j]);
      free(p->cols[i][j]);
    }
  }
}

/* Of sides no longer than a sample all is exact; of longer ones counts are near, and the order that
 * they choose takes hardly more multiplications than the best. */
static void estimates_come_near(void **state) {
  (void)state;
  const uint64_t first = first_seed(2718);
  for (uint64_t t = 0; t < (uint64_t)how_many(12, 24); t++) {
    const bool exact = t % 2 == 0;
    uint64_t random = first + t;
    paths p;
    mmci_sparse_estimate x;
    draw_paths(&p, &random, exact ? 1 : 1100, exact ? 256 : 2000);
    count_lines(&p);
    assert_int_equal(mmci_sparse_estimate_create(PATHS, p.shapes, &x, NULL), MMC_OK);
    for (int i = 0; i < PATHS; i++)
      for (int j = i; j < PATHS; j++) {
        double nonzeros = 0;
        for (int64_t r = 0; r < p.dims[i]; r++) nonzeros += p.rows[i][j][r];
        const double told = mmci_sparse_nonzeros(&x, p.shapes, i, j);
        if (!(fabs(told - nonzeros) <= (exact ? 1e-9 : 0.2) * nonzeros))
          fail_msg("seed %" PRIu64 ", %d to %d: %g nonzeros for %g", first + t, i, j, told,
                   nonzeros);
        for (int k = i; k < j; k++) {
          const double wanted = counted(&p, i, k, j),
                       found = mmci_sparse_count(&x, p.shapes, i, k, j);
          if (!(fabs(found - wanted) <= (exact ? 1e-9 : 0.3) * wanted))
            fail_msg("seed %" PRIu64 ", %d %d %d: %g for %g", first + t, i, k, j, found, wanted);
        }
      }
    double price, ours = count_order(&p, &x, 0, PATHS - 1, &price),
                  best = count_order(&p, NULL, 0, PATHS - 1, &price);
    if (!(ours <= (exact ? 1 + 1e-9 : 1.02) * best))
      fail_msg("seed %" PRIu64 ": %g multiplications, %g of the best order", first + t, ours, best);
    mmci_sparse_estimate_destroy(&x);
    free_paths(&p);
  }
}

/* ---- files ----------------------------------------------------------------------------------- */

static void keeps_what_files_hold(void **state) {
  problem p = {.context = *state};
  for (uint64_t t = 0; t < 60; t++) {
    draw_problem(&p, 99 + t);
    const stored *x = &p.of[0];
    const bool npz = HAS_NPZ && t % 2 == 1;
    const char *name = npz ? "sparse_test.npz" : "sparse_test.mtx";
    mmc_sparse *sparse;
    mmc_file *file;
    if (x->is_sparse && (npz || p.dtype == MMC_F64 || p.dtype == MMC_C128)) {
      unlink(name);
      assert_int_equal(mmc_sparse_write(p.context, name, p.dtype, &x->csr), MMC_OK);
      assert_true(mmc_sparse_is_file(p.context, name));
      assert_int_equal(mmc_sparse_open(p.context, name, &sparse), MMC_OK);
      const int64_t n = p.n;
      p.n = 1;
      p.ops[0] = MMC_OP_N;
      const int64_t dims[2] = {p.dims[0], p.dims[1]};
      p.dims[0] = x->rows;
      p.dims[1] = x->cols;
      const mmc_csr csr = mmc_sparse_csr(sparse);
      const mmc_sparse_factor factor = {.csr = &csr};
      mmc_sparse_chain *chain;
      mmc_sparse *copy;
      assert_int_equal(mmc_sparse_chain_create(p.context, p.dtype, 1, &factor, NULL, &chain),
                       MMC_OK);
      assert_int_equal(mmc_sparse_chain_execute(chain, &factor, NULL, &copy), MMC_OK);
      take_sparse(&p, copy);
      mmc_sparse_destroy(copy);
      mmc_sparse_chain_destroy(chain);
      mmc_sparse_destroy(sparse);
      assert_int_equal(mmc_file_open(p.context, name, &file), MMC_OK); /* as a dense one */
      assert_int_equal(mmc_file_matrix(file).rows, x->rows);
      mmc_file_destroy(file);
      p.n = n;
      p.dims[0] = dims[0];
      p.dims[1] = dims[1];
      unlink(name);
    }
    free_problem(&p);
  }
  assert_false(mmc_sparse_is_file(p.context, "there_is_no_such_file.mtx"));
}

/* ---- errors ---------------------------------------------------------------------------------- */

#define FAILS(call, expected_status, text)                                           \
  do {                                                                               \
    char message_[512];                                                              \
    assert_int_equal(call, expected_status);                                         \
    mmc_context_message(context, message_, sizeof message_);                         \
    if (strstr(message_, text) == NULL) fail_msg("no '%s' in '%s'", text, message_); \
  } while (0)

static void tells_what_is_wrong(void **state) {
  mmc_context *context = *state;
  const int32_t indptr[] = {0, 1, 2}, falling[] = {0, 2, 1}, late[] = {1, 1, 2}, indices[] = {0, 1},
                outside[] = {0, 2};
  const double values[] = {1, 2};
  double elements[] = {1, 2, 3, 4};
  mmc_csr good = {2, 2, 4, indptr, indices, values}, bad = good;
  mmc_matrix dense = {.data = elements, .rows = 2, .cols = 2};
  mmc_sparse_factor factors[2] = {{.csr = &good}, {.csr = &bad}};
  mmc_sparse_options options = MMC_SPARSE_OPTIONS_INIT;
  mmc_sparse_chain *chain = NULL;
  mmc_sparse *sparse = NULL;
#define CREATE(n) mmc_sparse_chain_create(context, MMC_F64, n, factors, &options, &chain)
  bad.indptr = falling;
  FAILS(CREATE(2), MMC_E_ARG, "factors[1]: expected indptr");
  bad.indptr = late;
  FAILS(CREATE(2), MMC_E_ARG, "factors[1]: expected indptr");
  bad.indptr = NULL;
  FAILS(CREATE(2), MMC_E_ARG, "indptr");
  bad = good;
  bad.indices = outside;
  FAILS(CREATE(2), MMC_E_ARG, "factors[1]: expected indices from 0 to 1, got 2 at 1");
  bad = good;
  bad.values = NULL;
  FAILS(CREATE(2), MMC_E_ARG, "values");
  bad = good;
  bad.index_bytes = 5;
  FAILS(CREATE(2), MMC_E_ARG, "index_bytes");
  bad = good;
  bad.cols = INT64_C(1) << 31;
  FAILS(CREATE(2), MMC_E_UNSUPPORTED, "2147483647");
  bad.cols = -1;
  FAILS(CREATE(2), MMC_E_ARG, "rows and cols");
  bad = good;
  factors[1].dense = &dense;
  FAILS(CREATE(2), MMC_E_ARG, "one of csr and dense");
  factors[1].csr = NULL;
  dense.rows = 3;
  FAILS(CREATE(2), MMC_E_ARG, "factors[1]");
  dense.rows = 2;
  dense.ld = 1;
  FAILS(CREATE(2), MMC_E_ARG, "factors[1]");
  dense.ld = 0;
  factors[1].op = (mmc_op)9;
  FAILS(CREATE(2), MMC_E_ARG, "op");
  factors[1].op = MMC_OP_T;
  options.objective = "energy";
  FAILS(CREATE(2), MMC_E_ARG, "objective");
  options.objective = NULL;
  options.solver = "brute";
  FAILS(CREATE(2), MMC_E_ARG, "solver");
  options.solver = NULL;
  options.device = "nowhere";
  FAILS(CREATE(2), MMC_E_ARG, "nowhere");
  options.device = NULL;
  FAILS(CREATE(0), MMC_E_ARG, "n: ");
  FAILS(CREATE(65), MMC_E_UNSUPPORTED, "64");
  FAILS(mmc_sparse_chain_create(context, MMC_I64, 2, factors, NULL, &chain), MMC_E_UNSUPPORTED,
        "dtype");
  FAILS(mmc_sparse_chain_create(context, MMC_F64, 2, NULL, NULL, &chain), MMC_E_ARG, "factors");
  assert_int_equal(mmc_sparse_chain_create(NULL, MMC_F64, 2, factors, NULL, &chain), MMC_E_ARG);
  assert_int_equal(mmc_sparse_chain_create(context, MMC_F64, 2, factors, NULL, NULL), MMC_E_ARG);
  assert_int_equal(CREATE(2), MMC_OK);
  FAILS(mmc_sparse_chain_explain(chain, MMC_SVG, drop, NULL), MMC_E_ARG, "format");
  FAILS(mmc_sparse_chain_explain(chain, MMC_TEXT, NULL, NULL), MMC_E_ARG, "write");
  FAILS(mmc_sparse_chain_execute(chain, factors, NULL, NULL), MMC_E_ARG, "sparse");
  FAILS(mmc_sparse_chain_execute(chain, factors, &dense, &sparse), MMC_E_ARG, "sparse");
  FAILS(mmc_sparse_chain_execute(chain, NULL, NULL, &sparse), MMC_E_ARG, "factors");
  factors[1] = (mmc_sparse_factor){.csr = &good};
  FAILS(mmc_sparse_chain_execute(chain, factors, NULL, &sparse), MMC_E_ARG, "factors[1]");
  mmc_sparse_chain_destroy(chain);
  options.dense_result = true;
  assert_int_equal(CREATE(2), MMC_OK);
  FAILS(mmc_sparse_chain_execute(chain, factors, NULL, &sparse), MMC_E_ARG, "dense");
  dense.cols = 1;
  FAILS(mmc_sparse_chain_execute(chain, factors, &dense, NULL), MMC_E_ARG, "dense: expected 2 x 2");
  mmc_sparse_chain_destroy(chain);
  /* The result lies on a factor. */
  double room[6] = {1, 2, 3, 4, 5, 6}, some[2] = {1, 2};
  bad.values = some;
  const mmc_matrix read = {.data = room, .rows = 2, .cols = 2};
  factors[0] = (mmc_sparse_factor){.csr = &bad};
  factors[1] = (mmc_sparse_factor){.dense = &read};
  assert_int_equal(CREATE(2), MMC_OK);
  mmc_matrix result = {.data = room + 2, .rows = 2, .cols = 2};
  FAILS(mmc_sparse_chain_execute(chain, factors, &result, NULL), MMC_E_ARG,
        "factors[1]: overlaps the result");
  bad.values = room + 5;
  result.data = elements;
  const mmc_matrix apart = {.data = elements, .rows = 2, .cols = 2};
  factors[1].dense = &apart;
  result.data = room + 2;
  FAILS(mmc_sparse_chain_execute(chain, factors, &result, NULL), MMC_E_ARG,
        "factors[0]: overlaps the result");
  bad.values = room;
  assert_int_equal(mmc_sparse_chain_execute(chain, factors, &result, NULL), MMC_OK);
  assert_true(room[2] == 1 && room[3] == 2 && room[4] == 6 && room[5] == 8);
  mmc_sparse_chain_destroy(chain);
  /* What has no elements lies on nothing. */
  const int32_t zeros[3] = {0};
  const mmc_csr nothing = {2, 2, 4, zeros, room + 3, room + 3};
  factors[0].csr = &nothing;
  assert_int_equal(CREATE(2), MMC_OK);
  assert_int_equal(mmc_sparse_chain_execute(chain, factors, &result, NULL), MMC_OK);
  assert_true(room[2] == 0 && room[3] == 0 && room[4] == 0 && room[5] == 0);
  mmc_sparse_chain_destroy(chain);
  FAILS(mmc_sparse_open(context, "there_is_no_such_file.mtx", &sparse), MMC_E_ARG, "no sparse");
  FAILS(mmc_sparse_write(context, "x.npy", MMC_F64, &good), MMC_E_ARG, ".npz or .mtx");
  FAILS(mmc_sparse_write(context, "x.mtx", MMC_I32, &good), MMC_E_ARG, "dtype");
  FAILS(mmc_sparse_write(context, "x.mtx", MMC_F64, NULL), MMC_E_ARG, "matrix");
  FAILS(mmc_sparse_open(context, NULL, &sparse), MMC_E_ARG, "name");
  assert_int_equal(mmc_sparse_chain_explain(NULL, MMC_TEXT, drop, NULL), MMC_E_ARG);
  assert_int_equal(mmc_sparse_chain_execute(NULL, factors, NULL, &sparse), MMC_E_ARG);
  assert_int_equal(mmc_sparse_dtype(NULL), 0);
  assert_null(mmc_sparse_csr(NULL).indptr);
  assert_true(mmc_sparse_chain_multiplications(NULL) == 0);
  mmc_sparse_destroy(NULL);
  mmc_sparse_chain_destroy(NULL);
}

static int set_up(void **state) {
  return mmc_context_create(NULL, (mmc_context **)state) != MMC_OK;
}

static int tear_down(void **state) {
  mmc_context_destroy(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(multiplies),
      cmocka_unit_test(multiplies_on_threads),
      cmocka_unit_test(solves),
      cmocka_unit_test(refuses_traits),
      cmocka_unit_test(finds_the_cheapest_order),
      cmocka_unit_test(takes_vectors_at_once),
      cmocka_unit_test(estimates_come_near),
      cmocka_unit_test(keeps_what_files_hold),
      cmocka_unit_test(tells_what_is_wrong),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
