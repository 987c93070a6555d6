#include "reference.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "random.h"
#include "solves.h"

/* Integers up to so much have sums that every order agrees about. */
static const double safe_sum = 0x1p60;

/* ---- elements ----------------------------------------------------------------------------------
 */

/* The greatest size of an element of i64 that does not stand for infinity. */
static double greatest_integer(const int64_t *x, int64_t count) {
  double most = 0;
  for (int64_t e = 0; e < count; e++)
    if (x[e] != INT64_MIN && x[e] != INT64_MAX) most = fmax(most, fabs((double)x[e]));
  return most;
}

/* The greatest size of a finite element of a matrix; of integers other than i64, which differences
 * are not relative to, 0. */
static double greatest(mmc_dtype dtype, const mmc_matrix *m) {
  const bool by_rows = m->layout == MMC_ROW_MAJOR;
  const int64_t lines = by_rows ? m->rows : m->cols, length = by_rows ? m->cols : m->rows;
  const int64_t ld = m->ld != 0 ? m->ld : length;
  double most = 0;
  cli_piece p;
  for (int64_t l = 0; l < lines; l++) {
    if (dtype == MMC_I64) {
      most = fmax(most, greatest_integer((const int64_t *)m->data + l * ld, length));
      continue;
    }
    for (int64_t begin = 0; begin < length; begin += CLI_PIECE) {
      const int64_t count = length - begin < CLI_PIECE ? length - begin : CLI_PIECE;
      cli_elements_load(dtype, false, m->data, l * ld + begin, count, &p);
      for (int64_t e = 0; e < count; e++)
        if (isfinite(p.re[e])) most = fmax(most, fabs(p.re[e]));
    }
  }
  return most;
}

/* How far an element is from another: infinitely far where one alone is NaN, or infinite. */
static double distance(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) return 0;
  const double apart = fabs(a - b);
  return isnan(apart) ? (double)INFINITY : apart;
}

/* The greatest distance of two matrices of one shape and layout. */
static double apart(mmc_dtype dtype, const mmc_matrix *a, const mmc_matrix *b) {
  const bool by_rows = a->layout == MMC_ROW_MAJOR;
  const int64_t lines = by_rows ? a->rows : a->cols, length = by_rows ? a->cols : a->rows;
  const int64_t a_ld = a->ld != 0 ? a->ld : length, b_ld = b->ld != 0 ? b->ld : length;
  const int64_t element = (int64_t)mmc_dtype_size(dtype);
  double most = 0;
  cli_piece x, y;
  for (int64_t l = 0; l < lines; l++) {
    const char *from = (const char *)a->data + l * a_ld * element;
    const char *to = (const char *)b->data + l * b_ld * element;
    if (cli_dtype_is_integer(dtype)) {
      if (memcmp(from, to, (size_t)(length * element)) != 0) return INFINITY;
      continue;
    }
    for (int64_t begin = 0; begin < length; begin += CLI_PIECE) {
      const int64_t count = length - begin < CLI_PIECE ? length - begin : CLI_PIECE;
      cli_elements_load(dtype, false, a->data, l * a_ld + begin, count, &x);
      cli_elements_load(dtype, false, b->data, l * b_ld + begin, count, &y);
      for (int64_t e = 0; e < count; e++) most = fmax(most, distance(x.re[e], y.re[e]));
    }
  }
  return most;
}

/* ---- what rounding accounts for ------------------------------------------------------------ */

/* A sum over so many factors is rounded once each, on both sides. Logarithms are a few roundings of
 * the greatest sum, and of the number of terms. */
static double tolerance_of(mmc_dtype dtype, mmc_semiring semiring, int64_t factors) {
  if (cli_dtype_is_integer(dtype)) return 0;
  const double eps = dtype == MMC_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
  return (semiring == MMC_LOG_SUM_EXP ? 8 : 2) * eps * (double)(factors + 1);
}

static void judge(mmc_dtype dtype, mmc_semiring semiring, double difference, double sums,
                  cli_residual *out) {
  out->value = difference == 0 ? 0 : difference / sums;
  /* Integers that agree do, whatever their order. */
  out->meaningful =
      difference == 0 || semiring == MMC_PLUS_TIMES || dtype != MMC_I64 || sums < safe_sum;
}

/* ---- chains -------------------------------------------------------------------------------- */

static int compute_chain(cli_call *call, const cli_factors *factors, mmc_matrix *reference) {
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  mmc_plan *plan;
  mmc_run *run = NULL;
  options.device = "ref";
  options.solver = "left-to-right";
  mmc_status status = mmc_plan_create(call->context, factors->chain, &options, &plan);
  if (status != MMC_OK) return cli_fail_status(call, status, "--check: ");
  status = mmc_run_create(plan, &run);
  if (status == MMC_OK) status = mmc_execute(run, factors->matrices, reference);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, "--check: ");
}

/* Adds up the greatest elements of a chain's factors, and what logarithms of sums of so many terms
 * come to. */
static double sums_of(const cli_factors *factors, int64_t chain) {
  const mmc_dtype dtype = mmc_chain_dtype(factors->chain);
  const bool logs = mmc_chain_semiring(factors->chain) == MMC_LOG_SUM_EXP;
  double *most = malloc((size_t)factors->n * sizeof *most), sums = 0;
  for (int64_t i = 0; i < factors->n && most != NULL; i++) {
    const int64_t same = mmc_chain_same(factors->chain, i);
    const mmc_matrix one = cli_matrix_of_batch(&factors->matrices[i], dtype, chain);
    most[i] = same < i ? most[same] : greatest(dtype, &one);
    sums += most[i] + (logs ? 1 + (double)mmc_chain_dims(factors->chain)[i] : 0);
  }
  free(most);
  return sums;
}

int cli_reference_chain(cli_call *call, const cli_factors *factors, const mmc_matrix *result,
                        cli_residual *out) {
  const mmc_chain *chain = factors->chain;
  const mmc_dtype dtype = mmc_chain_dtype(chain);
  const mmc_semiring semiring = mmc_chain_semiring(chain);
  const int64_t batch = mmc_chain_batch(chain);
  mmc_matrix reference = {.rows = result->rows, .cols = result->cols};
  reference.stride = reference.rows * reference.cols;
  *out = (cli_residual){
      .tolerance = tolerance_of(dtype, semiring, factors->n), .meaningful = true, .chains = batch};
  if (!cli_matrix_allocate(dtype, batch, &reference))
    return cli_fail_memory(call, "what products are checked with takes",
                           cli_matrix_bytes(dtype, batch, reference.rows, reference.cols));
  int done = compute_chain(call, factors, &reference);
  for (int64_t b = 0; b < batch && done == CLI_DONE; b++) {
    const mmc_matrix x = cli_matrix_of_batch(result, dtype, b);
    const mmc_matrix y = cli_matrix_of_batch(&reference, dtype, b);
    cli_residual one;
    judge(dtype, semiring, apart(dtype, &x, &y), sums_of(factors, b), &one);
    out->value = fmax(out->value, one.value);
    out->meaningful = out->meaningful && one.meaningful;
  }
  free(reference.data);
  return done;
}

/* ---- running products ---------------------------------------------------------------------- */

/* Returns matrix t of scan b of an operand. */
static mmc_matrix matrix_at(mmc_dtype dtype, const mmc_matrix *first, int64_t step, int64_t b,
                            int64_t t) {
  mmc_matrix m = *first;
  if (m.data != NULL)
    m.data = (char *)m.data + (b * m.stride + t * step) * (int64_t)mmc_dtype_size(dtype);
  return m;
}

static int compute_scan(cli_call *call, mmc_dtype dtype, int64_t n, int64_t length,
                        const mmc_scan_options *given, const mmc_scan_operands *operands) {
  mmc_scan_options options = *given;
  mmc_scan *scan;
  options.device = "ref";
  mmc_status status = mmc_scan_create(call->context, dtype, n, length, &options, &scan);
  if (status != MMC_OK) return cli_fail_status(call, status, "--check: ");
  status = mmc_scan_execute(scan, operands);
  mmc_scan_destroy(scan);
  return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, "--check: ");
}

int cli_reference_scan(cli_call *call, mmc_dtype dtype, int64_t n, int64_t length,
                       const mmc_scan_options *options, const mmc_scan_operands *operands,
                       cli_residual *out) {
  const bool logs = options->semiring == MMC_LOG_SUM_EXP;
  mmc_scan_operands expected = *operands;
  expected.out = (mmc_matrix){.rows = n, .cols = n};
  *out = (cli_residual){.tolerance = tolerance_of(dtype, options->semiring, length + 1),
                        .meaningful = true,
                        .chains = options->batch * length};
  /* Of matrices without elements there may be more than anybody counts. */
  if (n == 0) return CLI_DONE;
  if (!cli_matrix_allocate(dtype, options->batch * length, &expected.out))
    return cli_fail_memory(call, "what products are checked with takes",
                           cli_matrix_bytes(dtype, options->batch * length, n, n));
  expected.out_step = expected.out.stride;
  expected.out.stride *= length;
  int done = compute_scan(call, dtype, n, length, options, &expected);
  for (int64_t b = 0; b < options->batch && done == CLI_DONE; b++) {
    double sums = 0, difference = 0;
    const mmc_matrix initial = matrix_at(dtype, &operands->initial, 0, b, 0);
    if (options->initial) sums = greatest(dtype, &initial) + (logs ? 1 + (double)n : 0);
    for (int64_t t = 0; t < length; t++) {
      const mmc_matrix factor = matrix_at(dtype, &operands->factors, operands->factors_step, b, t);
      const mmc_matrix x = matrix_at(dtype, &operands->out, operands->out_step, b, t);
      const mmc_matrix y = matrix_at(dtype, &expected.out, expected.out_step, b, t);
      sums += greatest(dtype, &factor) + (logs ? 1 + (double)n : 0);
      difference = fmax(difference, apart(dtype, &x, &y));
    }
    cli_residual one;
    judge(dtype, options->semiring, difference, sums, &one);
    out->value = fmax(out->value, one.value);
    out->meaningful = out->meaningful && one.meaningful;
  }
  free(expected.out.data);
  return done;
}

int cli_reference_tell(cli_call *call, const cli_residual *residual) {
  if (!residual->meaningful) {
    fprintf(stderr,
            "relative difference: not meaningful, as sums may exceed the integers' range\n");
    return CLI_DONE;
  }
  fprintf(stderr,
          "relative difference from ref, left to right: %.2e (tolerance %.2e, the worst of %" PRId64
          " product%s)\n",
          residual->value, residual->tolerance, residual->chains, residual->chains == 1 ? "" : "s");
  if (residual->value <= residual->tolerance) return CLI_DONE;
  return cli_fail(call, CLI_FAILED,
                  "--check: the relative difference %.2e exceeds the tolerance %.2e: nothing is "
                  "written",
                  residual->value, residual->tolerance);
}
