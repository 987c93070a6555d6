/* residual.c: multiplies the chain with a vector, from the right, in double precision.
 *
 * The difference d = R t - A1(...(An t)) is measured against the right-hand side y, in the maximum
 * norm. Where the chain cancels, y may be small although rounding in the products was not. So along
 * with x = A_j(...(An t)) goes a random vector of the size that rounding has on the way,
 *     noise_j = A_j noise_(j+1) + s |A_j| |x_(j+1)| / sqrt(k),   s normal,
 * and d is measured against the greater of y and noise_1; for normal factors the two are alike. The
 * tolerance is 4 eps (the sum of all k, and 1 a factor), twice that for complex numbers. f16 and
 * bf16 are summed in f32, so eps is that of f32, and 4 of their own eps a factor go to the rounding
 * of what the products give; so do 4 of the eps of TF32 to that of what fast products take, and 4
 * sqrt(k) of a tolerance to what that allows a product.
 *
 * Where a factor, or a group, is an inverse, y = A^-1 x comes from the library, as a chain of that
 * factor and a vector. It is refined with x - A y in double precision, and the backward error
 * max |x - A y| / max(|A||y| + |x|) of the first y is told. Rounding in a solve is as that in A y,
 * so noise becomes A^-1 (noise + s |A||y| / sqrt(k)). */
#include "residual.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "elements.h"
#include "half.h"
#include "progress.h"
#include "random.h"
#include "solves.h"

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

static double tolerance_of(const mmc_chain *chain, bool is_fast, double bound) {
  const double tf32_epsilon = 0x1p-10;
  mmc_dtype dtype = mmc_chain_dtype(chain);
  const int64_t *dims = mmc_chain_dims(chain);
  int64_t n = mmc_chain_length(chain);
  double sum = (double)n;
  for (int64_t i = 1; i < n; i++) sum += (double)dims[i];
  int64_t count; /* a solve counts as a sum of its side */
  const mmc_inverse *groups = mmc_chain_inverses(chain, &count);
  for (int64_t g = 0; g < count; g++) sum += (double)dims[groups[g].first];
  for (int64_t i = 0; i < n; i++)
    if ((mmc_chain_traits(chain, i) & MMC_INVERSE) != 0) sum += (double)dims[i];
  bool is_double = dtype == MMC_F64 || dtype == MMC_C128;
  double rounding = (is_double ? DBL_EPSILON : (double)FLT_EPSILON) * sum;
  if (cli_is_half(dtype)) rounding += cli_half_epsilon(dtype) * (double)n;
  if (is_fast && (dtype == MMC_F32 || dtype == MMC_C64)) rounding += tf32_epsilon * (double)n;
  const double tolerance = (dtype == MMC_C64 || dtype == MMC_C128 ? 8 : 4) * rounding;
  double longest = 1; /* the noise of a sum of k terms is the lengths over sqrt(k) */
  for (int64_t i = 1; i < n; i++) longest = fmax(longest, (double)dims[i]);
  return bound > tolerance ? tolerance + 4 * bound * sqrt(longest) : tolerance;
}

/* What checking one chain needs. */
typedef struct checking {
  const cli_factors *factors;
  int64_t chain; /* of the batch */
  int64_t longest;
  entry *spare; /* a vector of the longest */
  cli_random random;
  tally *read;
  cli_residual *residual;
  int64_t exponent; /* of the vector, which so neither overflows nor vanishes where products do */
  bool finite;
  int status; /* of the solves */
} checking;

/* Returns the first factor of the group that is inverted and ends at factor i, within factors from
 * to i and not all of these where they are a group being applied; i itself where it is an inverse
 * by itself; -1 when neither. */
static int64_t inverse_that_ends(const mmc_chain *chain, int64_t from, int64_t last, int64_t i,
                                 bool inside) {
  int64_t count, first = (mmc_chain_traits(chain, i) & MMC_INVERSE) != 0 ? i : -1;
  const mmc_inverse *groups = mmc_chain_inverses(chain, &count);
  for (int64_t g = 0; g < count; g++) {
    const bool itself = inside && groups[g].first == from && groups[g].last == last;
    if (groups[g].last == i && groups[g].first >= from && !itself &&
        (first < 0 || groups[g].first < first))
      first = groups[g].first;
  }
  return first;
}

static void apply_factors(checking *c, int64_t first, int64_t last, bool inside, entry *vector);

/* Computes y = A x of what is to be inverted, factors first to last. */
static void apply_held(checking *c, int64_t first, int64_t last, entry *vector) {
  const mmc_chain *chain = c->factors->chain;
  const int64_t *dims = mmc_chain_dims(chain);
  if (first < last) {
    apply_factors(c, first, last, true, vector);
    return;
  }
  entry *x = c->spare;
  for (int64_t i = 0; i < dims[first + 1]; i++) x[i] = vector[i];
  mmc_matrix factor =
      cli_matrix_of_batch(&c->factors->matrices[first], mmc_chain_dtype(chain), c->chain);
  if (!multiply_vector(mmc_chain_dtype(chain), &factor, mmc_chain_ops(chain)[first], x, vector,
                       c->read))
    c->finite = false;
  add_noise(vector, dims[first], dims[first + 1], &c->random);
}

/* Solves for the values, or for the noise, of x in place. Its sizes are those of the values. */
static void solve(checking *c, const cli_solve *s, bool noise, entry *x, int64_t m) {
  double *pairs = calloc((size_t)(m > 0 ? m : 1), 2 * sizeof *pairs);
  for (int64_t i = 0; i < m && pairs != NULL; i++) {
    pairs[2 * i] = noise ? x[i].noise_re : x[i].re;
    pairs[2 * i + 1] = noise ? x[i].noise_im : x[i].im;
  }
  if (pairs == NULL)
    c->status = cli_fail_memory(s->call, "a vector to check with takes", 16.0 * (double)m);
  else if (c->status == CLI_DONE)
    c->status = cli_solve_run(s, pairs);
  for (int64_t i = 0; i < m && pairs != NULL; i++) {
    *(noise ? &x[i].noise_re : &x[i].re) = pairs[2 * i];
    *(noise ? &x[i].noise_im : &x[i].im) = pairs[2 * i + 1];
  }
  free(pairs);
}

static double largest(const entry *x, int64_t m) {
  double most = 0;
  for (int64_t i = 0; i < m; i++) most = greater(most, fabs(x[i].re) + fabs(x[i].im));
  return most;
}

/* Estimates the norm of A from below, by a vector of random signs. */
static double estimate_norm(checking *c, const cli_solve *s, entry *u, int64_t m) {
  for (int64_t i = 0; i < m; i++)
    u[i] = (entry){.re = cli_random_normal(&c->random) < 0 ? -1 : 1, .size = 1};
  apply_held(c, s->first, s->last, u);
  return largest(u, m);
}

/* Computes r = x - A y and returns the backward error of y; noise of r is that of A y. */
static double subtract(checking *c, const cli_solve *s, double norm, const entry *x, const entry *y,
                       entry *r, int64_t m) {
  for (int64_t i = 0; i < m; i++)
    r[i] = (entry){.re = y[i].re, .im = y[i].im, .size = fabs(y[i].re) + fabs(y[i].im)};
  apply_held(c, s->first, s->last, r);
  for (int64_t i = 0; i < m; i++) {
    r[i].re = x[i].re - r[i].re;
    r[i].im = x[i].im - r[i].im;
  }
  double most = largest(r, m);
  return most == 0 ? 0 : most / (norm * largest(y, m) + largest(x, m));
}

/* Computes y = A^-1 x in place of x, where A are factors first to last. */
static void apply_inverse(checking *c, int64_t first, int64_t last, entry *x) {
  enum { REFINEMENTS = 3 };
  const int64_t m = mmc_chain_dims(c->factors->chain)[first];
  const cli_solve s = {c->read->call, c->factors, c->chain, first, last};
  entry *y = calloc((size_t)c->longest, 2 * sizeof *y);
  if (y == NULL) {
    c->status =
        cli_fail_memory(s.call, "two vectors to check with take", 2.0 * sizeof *y * (double)m);
    return;
  }
  entry *r = y + c->longest;
  const double norm = estimate_norm(c, &s, r, m);
  for (int64_t i = 0; i < m; i++) y[i] = x[i];
  solve(c, &s, false, y, m);
  for (int round = 0; round < REFINEMENTS && c->status == CLI_DONE; round++) {
    double error = subtract(c, &s, norm, x, y, r, m);
    if (round == 0) c->residual->backward_error = greater(c->residual->backward_error, error);
    solve(c, &s, false, r, m);
    for (int64_t i = 0; i < m; i++) {
      y[i].re += r[i].re;
      y[i].im += r[i].im;
    }
  }
  if (c->status == CLI_DONE) {
    subtract(c, &s, norm, x, y, r, m);
    for (int64_t i = 0; i < m; i++) {
      y[i].noise_re = x[i].noise_re + r[i].noise_re;
      y[i].noise_im = x[i].noise_im + r[i].noise_im;
    }
    solve(c, &s, true, y, m);
    for (int64_t i = 0; i < m; i++) {
      y[i].size = fabs(y[i].re) + fabs(y[i].im);
      x[i] = y[i];
    }
  }
  c->residual->solves++;
  free(y);
}

/* Multiplies a vector by 2^by. */
static void scale(entry *x, int64_t m, int by) {
  for (int64_t i = 0; i < m; i++) {
    x[i].re = ldexp(x[i].re, by);
    x[i].im = ldexp(x[i].im, by);
    x[i].noise_re = ldexp(x[i].noise_re, by);
    x[i].noise_im = ldexp(x[i].noise_im, by);
    x[i].size = ldexp(x[i].size, by);
  }
}

/* Brings the vector to the size of 1, and remembers by which power of two. */
static void normalise(checking *c, entry *x, int64_t m) {
  int exponent;
  const double most = largest(x, m);
  if (!isfinite(most) || most == 0) return;
  frexp(most, &exponent);
  scale(x, m, -exponent);
  c->exponent += exponent;
}

/* Computes A_first (... (A_last x)) in place of x, with an exponent; inside says that they are a
 * group whose inverse is not to be applied, of which there is none. */
static void apply_factors(checking *c, int64_t first, int64_t last, bool inside, entry *vector) {
  for (int64_t i = last; i >= first && c->status == CLI_DONE; i--) {
    int64_t from = inverse_that_ends(c->factors->chain, first, last, i, inside);
    if (from < 0) {
      apply_held(c, i, i, vector);
    } else {
      apply_inverse(c, from, i, vector);
      i = from;
    }
    if (!inside) normalise(c, vector, mmc_chain_dims(c->factors->chain)[i]);
  }
}

/* Computes the residual of a chain; returns false when a factor is not finite. t and y have room
 * for the longest vector. */
static bool check_chain(checking *c, const mmc_matrix *result, const int64_t *exponents,
                        uint64_t seed, entry *t, entry *y, double *value) {
  const mmc_chain *chain = c->factors->chain;
  mmc_dtype dtype = mmc_chain_dtype(chain);
  const int64_t *dims = mmc_chain_dims(chain);
  int64_t n = c->factors->n;
  c->random = cli_random_start(seed, (uint64_t)c->chain);
  c->finite = true;
  c->exponent = 0;
  bool is_complex = dtype == MMC_C64 || dtype == MMC_C128;
  for (int64_t i = 0; i < dims[n]; i++) {
    t[i].re = cli_random_normal(&c->random);
    t[i].im = is_complex ? cli_random_normal(&c->random) : 0;
    t[i].size = fabs(t[i].re) + fabs(t[i].im);
    y[i] = t[i];
  }
  apply_factors(c, 0, n - 1, false, y);
  mmc_matrix product = cli_matrix_of_batch(result, dtype, c->chain);
  if (!multiply_vector(dtype, &product, MMC_OP_N, t, c->spare, c->read) && c->finite)
    c->residual->overflows = true;
  const int64_t most = 4096, by = (exponents != NULL ? exponents[c->chain] : 0) - c->exponent;
  scale(c->spare, dims[0], (int)(by > most ? most : by < -most ? -most : by));
  *value = relative(c->spare, y, dims[0]);
  return c->finite;
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
                         const int64_t *exponents, bool is_fast, double bound, uint64_t seed,
                         cli_residual *out) {
  const mmc_chain *chain = factors->chain;
  const int64_t *dims = mmc_chain_dims(chain);
  int64_t longest = 1, batch = chains_with_elements(chain, result);
  for (int64_t i = 0; i <= factors->n; i++)
    if (dims[i] > longest) longest = dims[i];
  entry *memory = calloc((size_t)longest, 3 * sizeof *memory);
  if (memory == NULL)
    return cli_fail_memory(call, "three vectors to check with take",
                           3 * sizeof(entry) * (double)longest);
  cli_residual residual = {.tolerance = tolerance_of(chain, is_fast, bound), .chains = batch};
  tally read = {.call = call, .total = elements_of(chain)};
  checking c = {.factors = factors,
                .longest = longest,
                .spare = memory + 2 * longest,
                .read = &read,
                .residual = &residual,
                .status = CLI_DONE};
  for (int64_t b = 0; b < batch && c.status == CLI_DONE; b++) {
    double value;
    c.chain = b;
    if (check_chain(&c, result, exponents, seed, memory, memory + longest, &value))
      residual.value = greater(residual.value, value);
    else
      residual.skipped++;
  }
  residual.meaningful = residual.skipped < batch || batch == 0;
  free(memory);
  *out = residual;
  return c.status;
}

/* ---- what is said of it ---------------------------------------------------------------------- */

/* Returns the logarithm to base 2 of the size that the elements of a matrix have in the mean, 0 of
 * one that is zero. */
static double mean_size(mmc_dtype dtype, const mmc_matrix *matrix) {
  const bool by_rows = matrix->layout == MMC_ROW_MAJOR;
  const int64_t lines = by_rows ? matrix->rows : matrix->cols;
  const int64_t length = by_rows ? matrix->cols : matrix->rows;
  const int64_t ld = matrix->ld != 0 ? matrix->ld : length;
  double sum = 0;
  cli_piece p;
  for (int64_t l = 0; l < lines; l++)
    for (int64_t begin = 0; begin < length; begin += CLI_PIECE) {
      const int64_t taken = length - begin < CLI_PIECE ? length - begin : CLI_PIECE;
      cli_elements_load(dtype, false, matrix->data, l * ld + begin, taken, &p);
      for (int64_t e = 0; e < taken; e++) sum += hypot(p.re[e], p.im[e]);
    }
  return sum > 0 ? log2(sum / ((double)lines * (double)length)) : 0;
}

/* Says whether a product of neighbours in the chain is likely to have elements that are too small
 * for the digits of the dtype. Of inverses that is not known. */
static bool loses_digits(const cli_factors *factors, int64_t b) {
  const mmc_chain *chain = factors->chain;
  const mmc_dtype dtype = mmc_chain_dtype(chain);
  const double least = log2(cli_dtype_least(dtype));
  double smallest = 0; /* the logarithm for the smallest product that ends at the factor before */
  for (int64_t i = 0; i < factors->n; i++) {
    const mmc_matrix factor = cli_matrix_of_batch(&factors->matrices[i], dtype, b);
    const double own = mean_size(dtype, &factor);
    const double joined = smallest + own + log2((double)mmc_chain_dims(chain)[i]) / 2;
    if (i > 0 && joined < least) return true;
    smallest = i > 0 && joined < own ? joined : own;
  }
  return false;
}

static bool any_loses_digits(const cli_factors *factors) {
  int64_t inverses;
  mmc_chain_inverses(factors->chain, &inverses);
  for (int64_t i = 0; i < factors->n; i++)
    inverses += (mmc_chain_traits(factors->chain, i) & MMC_INVERSE) != 0;
  bool any = false;
  for (int64_t b = 0; b < mmc_chain_batch(factors->chain) && inverses == 0 && !any; b++)
    any = loses_digits(factors, b);
  return any;
}

/* Says why a result is not to be written. */
static int judge(const cli_call *call, const cli_factors *factors, const cli_residual *r,
                 bool can_scale) {
  const mmc_dtype dtype = mmc_chain_dtype(factors->chain);
  const char *advice =
      can_scale && !cli_is_half(dtype) ? ": --scaled keeps a product within it" : "";
  if (r->overflows || isnan(r->value))
    return cli_fail(call, CLI_FAILED,
                    "--check: the result exceeds the range of %s: nothing is written%s",
                    mmc_dtype_name(dtype), advice);
  const bool is_small = any_loses_digits(factors);
  return cli_fail(call, CLI_FAILED,
                  "--check: the relative residual %.2e exceeds the tolerance %.2e%s%s: nothing is "
                  "written%s",
                  r->value, r->tolerance, is_small ? ", and a product is below the range of " : "",
                  is_small ? mmc_dtype_name(dtype) : "", is_small ? advice : "");
}

int cli_residual_tell(const cli_call *call, const cli_factors *factors, const cli_residual *r,
                      bool can_scale) {
  if (!r->meaningful) {
    fprintf(stderr, "relative residual: not meaningful, as the factors hold NaN or infinity\n");
    return CLI_DONE;
  }
  if (!(r->value <= r->tolerance)) return judge(call, factors, r, can_scale);
  fprintf(stderr, "relative residual: %.2e (tolerance %.2e, seed %d", r->value, r->tolerance,
          CLI_CHECK_SEED);
  if (mmc_chain_batch(factors->chain) != 1)
    fprintf(stderr, ", the worst of %" PRId64 " chains", r->chains - r->skipped);
  if (r->skipped > 0)
    fprintf(stderr, ", %" PRId64 " more left out for NaN or infinity", r->skipped);
  fprintf(stderr, ")\n");
  if (r->solves > 0)
    fprintf(stderr, "backward error of solves: %.2e (the worst of %" PRId64 ")\n",
            r->backward_error, r->solves);
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
  if (cli_dtype_is_integer(dtype)) return 0;
  for (int64_t b = 0; b < batch; b++) {
    mmc_matrix product = cli_matrix_of_batch(result, dtype, b);
    bool overflow = !is_finite(dtype, &product);
    for (int64_t i = 0; i < factors->n && overflow; i++) {
      mmc_matrix factor = cli_matrix_of_batch(&factors->matrices[i], dtype, b);
      if (mmc_chain_same(chain, i) == i) overflow = is_finite(dtype, &factor);
    }
    overflows += overflow;
  }
  return overflows;
}
