/* bench_flint.c: a chain modulo a prime, by mmchain and by FLINT's nmod_mat_mul() in the same
 * order, in turns. Exits 1 where the results differ.
 *
 *     bench_flint [PRIME [DIM ...]]       2^61 - 1 and six factors of 500 to 2000, when left out
 *
 * Prints the least seconds of ROUNDS, by as many threads as each has by itself; FLINT is told as
 * many as there are processors. */
#include <flint/flint.h>
#include <flint/nmod_mat.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "timing.h"

enum { MOST = 32, ROUNDS = 3 };

/* Multiplies the steps of the plan by FLINT; steps[count - 1] becomes the result. */
static double by_flint(const mmc_plan *plan, int64_t n, nmod_mat_t *factors, nmod_mat_t *steps) {
  const double start = now_s();
  for (int64_t s = 0; s < mmc_plan_step_count(plan); s++) {
    mmc_step step;
    if (mmc_plan_step(plan, s, &step) != MMC_OK) return -1;
    nmod_mat_mul(steps[s], step.left < n ? factors[step.left] : steps[step.left - n],
                 step.right < n ? factors[step.right] : steps[step.right - n]);
  }
  return now_s() - start;
}

static double by_mmchain(mmc_run *run, const mmc_matrix *factors, mmc_matrix *out) {
  const double start = now_s();
  return mmc_execute(run, factors, out) == MMC_OK ? now_s() - start : -1;
}

static bool is_same(const mmc_matrix *out, const nmod_mat_t theirs) {
  const uint64_t *ours = out->data;
  for (int64_t r = 0; r < out->rows; r++)
    for (int64_t c = 0; c < out->cols; c++)
      if (ours[r * out->cols + c] != nmod_mat_get_entry(theirs, r, c)) return false;
  return true;
}

static mmc_matrix take(int64_t rows, int64_t cols) {
  mmc_matrix x = {.rows = rows, .cols = cols};
  x.data = malloc((size_t)(rows * cols) * sizeof(uint64_t));
  if (x.data == NULL) abort();
  return x;
}

int main(int argc, char **argv) {
  int64_t dims[MOST + 1] = {1200, 500, 1700, 900, 2000, 700, 1400};
  const uint64_t prime = argc > 1 ? strtoull(argv[1], NULL, 10) : (UINT64_C(1) << 61) - 1;
  const int64_t n = argc > 2 ? argc - 3 : 6;
  if (n < 2 || n > MOST) return 2;
  for (int64_t i = 0; argc > 2 && i <= n; i++) dims[i] = strtoll(argv[i + 2], NULL, 10);
  mmc_context *context;
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_run *run;
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  options.modulus = prime;
  char message[512];
  if (mmc_context_create(NULL, &context) != MMC_OK) return 1;
  if (mmc_chain_create_batch(context, MMC_U64, n, dims, NULL, &options, &chain) != MMC_OK ||
      mmc_plan_create(context, chain, NULL, &plan) != MMC_OK ||
      mmc_run_create(plan, &run) != MMC_OK) {
    printf("%s\n", mmc_context_message(context, message, sizeof message));
    return 1;
  }
  flint_set_num_threads((int)sysconf(_SC_NPROCESSORS_ONLN));
  flint_rand_t random;
  flint_randinit(random);
  mmc_matrix factors[MOST], out = take(dims[0], dims[n]);
  nmod_mat_t theirs[MOST], steps[MOST];
  for (int64_t i = 0; i < n; i++) {
    factors[i] = take(dims[i], dims[i + 1]);
    nmod_mat_init(theirs[i], dims[i], dims[i + 1], prime);
    nmod_mat_randfull(theirs[i], random);
    for (int64_t r = 0; r < dims[i]; r++)
      for (int64_t c = 0; c < dims[i + 1]; c++)
        ((uint64_t *)factors[i].data)[r * dims[i + 1] + c] = nmod_mat_get_entry(theirs[i], r, c);
  }
  for (int64_t s = 0; s < mmc_plan_step_count(plan); s++) {
    mmc_step step;
    if (mmc_plan_step(plan, s, &step) != MMC_OK) return 1;
    nmod_mat_init(steps[s], step.m, step.n, prime);
  }
  double ours = 1e30, flint = 1e30;
  for (int round = 0; round < ROUNDS; round++) {
    const double x = by_mmchain(run, factors, &out), y = by_flint(plan, n, theirs, steps);
    if (x < 0 || y < 0) return 1;
    if (x < ours) ours = x;
    if (y < flint) flint = y;
  }
  const bool same = is_same(&out, steps[mmc_plan_step_count(plan) - 1]);
  printf("mmchain %.3f s, FLINT %.3f s: %.2f, %s\n", ours, flint, flint / ours,
         same ? "equal" : "NOT EQUAL");
  return same ? 0 : 1;
}
