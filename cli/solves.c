#include "solves.h"

#include <stdlib.h>

mmc_matrix cli_matrix_of_batch(const mmc_matrix *matrix, mmc_dtype dtype, int64_t i) {
  mmc_matrix one = *matrix;
  if (matrix->addresses != NULL)
    one.data = matrix->addresses[i];
  else if (i > 0 && matrix->data != NULL)
    one.data = (char *)matrix->data + i * matrix->stride * (int64_t)mmc_dtype_size(dtype);
  one.addresses = NULL;
  one.stride = 0;
  return one;
}

/* What a solve is as a chain: its factors, and a column. */
typedef struct column_chain {
  int64_t n; /* with the column */
  int64_t *dims;
  mmc_op *ops;
  uint32_t *traits;
  mmc_band *bands;
  mmc_inverse *inverses;
  int64_t inverse_count;
  mmc_matrix *matrices;
  mmc_chain *chain;
} column_chain;

static void free_column_chain(column_chain *x) {
  mmc_chain_destroy(x->chain);
  free(x->dims);
  free(x->ops);
  free(x->traits);
  free(x->bands);
  free(x->inverses);
  free(x->matrices);
}

static int make_column_chain(const cli_solve *s, column_chain *x) {
  const mmc_chain *whole = s->factors->chain;
  int64_t count;
  const mmc_inverse *groups = mmc_chain_inverses(whole, &count);
  x->n = s->last - s->first + 2;
  size_t n = (size_t)x->n + 1;
  x->dims = calloc(n, sizeof *x->dims);
  x->ops = calloc(n, sizeof *x->ops);
  x->traits = calloc(n, sizeof *x->traits);
  x->bands = calloc(n, sizeof *x->bands);
  x->inverses = calloc((size_t)count + 1, sizeof *x->inverses);
  x->matrices = calloc(n, sizeof *x->matrices);
  if (x->dims == NULL || x->ops == NULL || x->traits == NULL || x->bands == NULL ||
      x->inverses == NULL || x->matrices == NULL)
    return cli_fail_memory(s->call, "a solve to check with takes", (double)n * 64);
  for (int64_t i = s->first; i <= s->last; i++) {
    int64_t at = i - s->first;
    x->dims[at] = mmc_chain_dims(whole)[i];
    x->dims[at + 1] = mmc_chain_dims(whole)[i + 1];
    x->ops[at] = mmc_chain_ops(whole)[i];
    x->traits[at] = mmc_chain_traits(whole, i);
    x->bands[at] = mmc_chain_band(whole, i);
    x->matrices[at] =
        cli_matrix_of_batch(&s->factors->matrices[i], mmc_chain_dtype(whole), s->chain);
  }
  x->dims[x->n] = 1;
  if (s->first == s->last) x->traits[0] |= MMC_INVERSE;
  for (int64_t g = 0; g < count; g++)
    if (groups[g].first >= s->first && groups[g].last <= s->last)
      x->inverses[x->inverse_count++] =
          (mmc_inverse){groups[g].first - s->first, groups[g].last - s->first};
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  options.traits = x->traits;
  options.bands = x->bands;
  options.inverses = x->inverses;
  options.inverse_count = x->inverse_count;
  mmc_chain *chain = NULL;
  mmc_status status = mmc_chain_create_batch(s->call->context, mmc_chain_dtype(whole), x->n,
                                             x->dims, x->ops, &options, &chain);
  x->chain = chain;
  return status == MMC_OK ? CLI_DONE : cli_fail_status(s->call, status, "--check: ");
}

/* Copies a vector of pairs to elements, or back. */
static void convert(mmc_dtype dtype, int64_t m, double *pairs, void *elements, bool back) {
  const bool is_complex = dtype == MMC_C64 || dtype == MMC_C128;
  float *singles = elements;
  double *doubles = elements;
  for (int64_t i = 0; i < m; i++)
    for (int part = 0; part < 2; part++) {
      double *pair = &pairs[2 * i + part];
      const int64_t at = is_complex ? 2 * i + part : i;
      if (!is_complex && part == 1) {
        *pair = back ? 0 : *pair;
      } else if (dtype == MMC_F32 || dtype == MMC_C64) {
        if (back)
          *pair = (double)singles[at];
        else
          singles[at] = (float)*pair;
      } else if (back) {
        *pair = doubles[at];
      } else {
        doubles[at] = *pair;
      }
    }
}

static mmc_status execute(const cli_solve *s, const column_chain *x, const mmc_matrix *out) {
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  mmc_status status = mmc_plan_create(s->call->context, x->chain, NULL, &plan);
  if (status == MMC_OK) status = mmc_run_create(plan, &run);
  if (status == MMC_OK) status = mmc_execute(run, x->matrices, out);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  return status;
}

int cli_solve_run(const cli_solve *solve, double *pairs) {
  const mmc_dtype dtype = mmc_chain_dtype(solve->factors->chain);
  const int64_t m = mmc_chain_dims(solve->factors->chain)[solve->first];
  column_chain x = {0};
  char *elements = calloc(2 * (size_t)m + 1, mmc_dtype_size(dtype));
  if (elements == NULL)
    return cli_fail_memory(solve->call, "a solve to check with takes",
                           2.0 * (double)m * (double)mmc_dtype_size(dtype));
  int result = make_column_chain(solve, &x);
  if (result == CLI_DONE && x.matrices != NULL) {
    char *solved = elements + (size_t)m * mmc_dtype_size(dtype);
    x.matrices[x.n - 1] = (mmc_matrix){.data = elements, .rows = m, .cols = 1, .ld = 1};
    const mmc_matrix out = {.data = solved, .rows = m, .cols = 1, .ld = 1};
    convert(dtype, m, pairs, elements, false);
    mmc_status status = execute(solve, &x, &out);
    if (status == MMC_OK)
      convert(dtype, m, pairs, solved, true);
    else
      result = cli_fail_status(solve->call, status, "--check: ");
  }
  free_column_chain(&x);
  free(elements);
  return result;
}
