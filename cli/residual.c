/* residual.c: multiplies the chain with a vector, from the right, in double precision.
 *
 * The difference d = R t - A1(...(An t)) is measured against the right-hand side y, in the maximum
 * norm. Where the chain cancels, y may be small although rounding in the products was not. So along
 * with x = A_j(...(An t)) goes a random vector of the size that rounding has on the way,
 *     noise_j = A_j noise_(j+1) + s |A_j| |x_(j+1)| / sqrt(k),   s normal,
 * and d is measured against the greater of y and noise_1; for normal factors the two are alike. The
 * tolerance is 4 eps (the sum of all k, and 1 a factor), twice that for complex numbers. f16 and
 * bf16 are summed in f32, so eps is that of f32, and 4 of their own eps a factor go to the rounding
 * of what the products give. */
#include "residual.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "elements.h"
#include "half.h"
#include "progress.h"
#include "random.h"

/* One entry of a vector; size is |re| + |im|. */
typedef struct entry {
  double re, im, noise_re, noise_im, size;
} entry;

/* Computes y += a x, for values, noise and sizes; y.size gathers |a| |x|. */
static inline void accumulate(double re, double im, const entry *x, entry *y) {
  y->re += re * x->re - im * x->im;
  y->im += re * x->im + im * x->re;
  y->noise_re += re * x->noise_re - im * x->noise_im;
  y->noise_im += re * x->noise_im + im * x->noise_re;
  y->size += (fabs(re) + fabs(im)) * x->size;
}

/* How many elements were read, of how many. */
typedef struct tally {
  cli_call *call;
  double read, total, told;
} tally;

static void count(tally *t, int64_t elements) {
  const double step = 0x1p20;
  t->read += (double)elements;
  if (t->read < t->told + step) return;
  t->told = t->read;
  cli_stage_show(t->call, t->read / t->total);
}

/* Computes y = op(A) x. It passes over A as it lies: a line is a row of op(A), or a column. Returns
 * whether all of A is finite. */
static bool multiply_vector(mmc_dtype dtype, const mmc_matrix *a, mmc_op op, const entry *x,
                            entry *y, tally *t) {
  bool by_rows = a->layout == MMC_ROW_MAJOR;
  int64_t lines = by_rows ? a->rows : a->cols, length = by_rows ? a->cols : a->rows;
  int64_t ld = a->ld != 0 ? a->ld : length;
  bool line_is_row = by_rows == (op == MMC_OP_N);
  int64_t m = line_is_row ? lines : length;
  bool finite = true;
  for (int64_t i = 0; i < m; i++) y[i] = (entry){0};
  cli_piece p;
  for (int64_t l = 0; l < lines; l++, count(t, length))
    for (int64_t begin = 0; begin < length; begin += CLI_PIECE) {
      int64_t taken = length - begin < CLI_PIECE ? length - begin : CLI_PIECE;
      if (!cli_elements_load(dtype, op == MMC_OP_H, a->data, l * ld + begin, taken, &p))
        finite = false;
      for (int64_t e = 0; e < taken; e++)
        if (line_is_row)
          accumulate(p.re[e], p.im[e], &x[begin + e], &y[l]);
        else
          accumulate(p.re[e], p.im[e], &x[l], &y[begin + e]);
    }
  return finite;
}

/* Turns what multiply_vector() has gathered in size into noise. */
static void add_noise(entry *y, int64_t m, int64_t k, cli_random *random) {
  double scale = k > 0 ? 1 / sqrt((double)k) : 0;
  for (int64_t i = 0; i < m; i++) {
    y[i].noise_re += scale * y[i].size * cli_random_normal(random);
    y[i].noise_im += scale * y[i].size * cli_random_normal(random);
    y[i].size = fabs(y[i].re) + fabs(y[i].im);
  }
}

/* Returns the greater, or NaN when either is: fmax() would lose it. */
static double greater(double a, double b) {
  return a > b || isnan(a) ? a : b;
}

static double relative(const entry *product, const entry *y, int64_t m) {
  double difference = 0, scale = 0;
  for (int64_t i = 0; i < m; i++) {
    difference = greater(difference, hypot(product[i].re - y[i].re, product[i].im - y[i].im));
    scale = greater(scale, hypot(y[i].re, y[i].im));
    scale = greater(scale, hypot(y[i].noise_re, y[i].noise_im));
  }
  return difference == 0 ? 0 : difference / scale;
}

static double tolerance_of(const mmc_chain *chain) {
  mmc_dtype dtype = mmc_chain_dtype(chain);
  const int64_t *dims = mmc_chain_dims(chain);
  int64_t n = mmc_chain_length(chain);
  double sum = (double)n;
  for (int64_t i = 1; i < n; i++) sum += (double)dims[i];
  bool is_double = dtype == MMC_F64 || dtype == MMC_C128;
  double rounding = (is_double ? DBL_EPSILON : (double)FLT_EPSILON) * sum;
  if (cli_is_half(dtype)) rounding += cli_half_epsilon(dtype) * (double)n;
  return (dtype == MMC_C64 || dtype == MMC_C128 ? 8 : 4) * rounding;
}

/* Returns matrix b of a batch. */
static mmc_matrix matrix_of(const mmc_matrix *matrix, mmc_dtype dtype, int64_t b) {
  mmc_matrix one = *matrix;
  if (matrix->addresses != NULL)
    one.data = matrix->addresses[b];
  else if (b > 0 && matrix->data != NULL)
    one.data = (char *)matrix->data + b * matrix->stride * (int64_t)mmc_dtype_size(dtype);
  return one;
}

/* Computes the residual of chain b; returns false when a factor is not finite. vectors holds three
 * of the longest. */
static bool check_chain(const cli_factors *factors, const mmc_matrix *result, uint64_t seed,
                        int64_t b, entry *vectors[3], double *value, tally *read) {
  const mmc_chain *chain = factors->chain;
  mmc_dtype dtype = mmc_chain_dtype(chain);
  const int64_t *dims = mmc_chain_dims(chain);
  int64_t n = factors->n;
  entry *t = vectors[0], *x = vectors[1], *y = vectors[2];
  cli_random random = cli_random_start(seed, (uint64_t)b);
  bool is_complex = dtype == MMC_C64 || dtype == MMC_C128;
  for (int64_t i = 0; i < dims[n]; i++) {
    t[i].re = cli_random_normal(&random);
    t[i].im = is_complex ? cli_random_normal(&random) : 0;
    t[i].size = fabs(t[i].re) + fabs(t[i].im);
    y[i] = t[i];
  }
  bool finite = true;
  for (int64_t i = n; i-- > 0;) {
    entry *before = y;
    y = x;
    x = before;
    mmc_matrix factor = matrix_of(&factors->matrices[i], dtype, b);
    if (!multiply_vector(dtype, &factor, mmc_chain_ops(chain)[i], x, y, read)) finite = false;
    add_noise(y, dims[i], dims[i + 1], &random);
  }
  mmc_matrix product = matrix_of(result, dtype, b);
  multiply_vector(dtype, &product, MMC_OP_N, t, x, read);
  *value = relative(x, y, dims[0]);
  return finite;
}

/* Counts the chains that have results to check: none where results are without elements, however
 * many chains there are. */
static int64_t chains_with_elements(const mmc_chain *chain, const mmc_matrix *result) {
  return result->rows == 0 || result->cols == 0 ? 0 : mmc_chain_batch(chain);
}

/* Returns how many elements the factors and the results have. */
static double elements_of(const mmc_chain *chain) {
  const int64_t *dims = mmc_chain_dims(chain), n = mmc_chain_length(chain);
  double elements = (double)dims[0] * (double)dims[n];
  for (int64_t i = 0; i < n; i++) elements += (double)dims[i] * (double)dims[i + 1];
  return elements * (double)mmc_chain_batch(chain);
}

int cli_residual_compute(cli_call *call, const cli_factors *factors, const mmc_matrix *result,
                         uint64_t seed, cli_residual *out) {
  const mmc_chain *chain = factors->chain;
  const int64_t *dims = mmc_chain_dims(chain);
  int64_t longest = 1, batch = chains_with_elements(chain, result);
  for (int64_t i = 0; i <= factors->n; i++)
    if (dims[i] > longest) longest = dims[i];
  entry *memory = calloc((size_t)longest, 3 * sizeof *memory);
  if (memory == NULL)
    return cli_fail_memory(call, "three vectors to check with take",
                           3 * sizeof(entry) * (double)longest);
  entry *vectors[] = {memory, memory + longest, memory + 2 * longest};
  cli_residual residual = {.tolerance = tolerance_of(chain), .chains = batch};
  tally read = {.call = call, .total = elements_of(chain)};
  for (int64_t b = 0; b < batch; b++) {
    double value;
    if (check_chain(factors, result, seed, b, vectors, &value, &read))
      residual.value = greater(residual.value, value);
    else
      residual.skipped++;
  }
  residual.meaningful = residual.skipped < batch || batch == 0;
  free(memory);
  *out = residual;
  return CLI_DONE;
}

/* ---- overflow -------------------------------------------------------------------------------- */

static bool is_finite(mmc_dtype dtype, const mmc_matrix *matrix) {
  bool by_rows = matrix->layout == MMC_ROW_MAJOR;
  int64_t lines = by_rows ? matrix->rows : matrix->cols;
  int64_t length = by_rows ? matrix->cols : matrix->rows;
  int64_t ld = matrix->ld != 0 ? matrix->ld : length;
  cli_piece p;
  for (int64_t l = 0; l < lines; l++)
    for (int64_t begin = 0; begin < length; begin += CLI_PIECE) {
      int64_t count = length - begin < CLI_PIECE ? length - begin : CLI_PIECE;
      if (!cli_elements_load(dtype, false, matrix->data, l * ld + begin, count, &p)) return false;
    }
  return true;
}

int64_t cli_count_overflows(const cli_factors *factors, const mmc_matrix *result) {
  const mmc_chain *chain = factors->chain;
  mmc_dtype dtype = mmc_chain_dtype(chain);
  int64_t overflows = 0, batch = chains_with_elements(chain, result);
  for (int64_t b = 0; b < batch; b++) {
    mmc_matrix product = matrix_of(result, dtype, b);
    bool overflow = !is_finite(dtype, &product);
    for (int64_t i = 0; i < factors->n && overflow; i++) {
      mmc_matrix factor = matrix_of(&factors->matrices[i], dtype, b);
      if (mmc_chain_same(chain, i) == i) overflow = is_finite(dtype, &factor);
    }
    overflows += overflow;
  }
  return overflows;
}
