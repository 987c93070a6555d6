/* bench_chain.c: what planning and executing a chain cost, one JSON line a measurement.
 *
 *     bench_chain [path of the mmchain command]
 *
 * execute  mmc_execute() of a made plan against the same CBLAS calls written out, interleaved, with
 *          the median of the ratios. plan: mmc_plan_create() and destroy. process: the whole
 * command. Times are of this machine as it is; quote ratios. */
#include <cblas.h>
#include <mmchain.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "timing.h"

extern char **environ;

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, ascending);
  return values[count / 2];
}

/* Uniform in (-1, 1), seeded. */
static double *random_matrix(int64_t elements, uint64_t *state) {
  double *data = aligned_alloc(64, ((size_t)elements * sizeof *data + 63) / 64 * 64);
  if (data == NULL) check(MMC_E_NOMEM, "a factor");
  for (int64_t t = 0; t < elements; t++) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    data[t] = (double)(*state >> 11) / (double)(UINT64_C(1) << 52) - 1;
  }
  return data;
}

/* ---- execute ------------------------------------------------------------------------------- */

enum { MAX_FACTORS = 16, ROUNDS = 31 };

typedef struct call {
  const double *a, *b;
  double *c;
  int m, k, n;
} call;

/* What a careful caller would write by hand for this order: GEMV for vectors, GEMM otherwise. */
static void call_blas(const call *calls, int64_t count) {
  for (int64_t s = 0; s < count; s++) {
    const call *x = &calls[s];
    if (x->n == 1)
      cblas_dgemv(CblasRowMajor, CblasNoTrans, x->m, x->k, 1, x->a, x->k, x->b, 1, 0, x->c, 1);
    else if (x->m == 1)
      cblas_dgemv(CblasRowMajor, CblasTrans, x->k, x->n, 1, x->b, x->n, x->a, 1, 0, x->c, 1);
    else
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, x->m, x->n, x->k, 1, x->a, x->k, x->b,
                  x->n, 0, x->c, x->n);
  }
}

static void bench_execute(mmc_context *context, const char *text) {
  mmc_chain *chain;
  mmc_plan *plan;
  mmc_run *run;
  check(mmc_chain_parse(context, text, &chain), text);
  check(mmc_plan_create(context, chain, NULL, &plan), text);
  check(mmc_run_create(plan, &run), text);

  uint64_t state = 1;
  int64_t n = mmc_chain_length(chain), steps = mmc_plan_step_count(plan);
  const int64_t *dims = mmc_chain_dims(chain);
  mmc_matrix factors[MAX_FACTORS];
  call calls[MAX_FACTORS];
  for (int64_t i = 0; i < n; i++)
    factors[i] = (mmc_matrix){
        .data = random_matrix(dims[i] * dims[i + 1], &state), .rows = dims[i], .cols = dims[i + 1]};
  mmc_matrix out = {
      .data = random_matrix(dims[0] * dims[n], &state), .rows = dims[0], .cols = dims[n]};
  for (int64_t s = 0; s < steps; s++) {
    mmc_step step;
    check(mmc_plan_step(plan, s, &step), "step");
    calls[s] = (call){
        .a = step.left < n ? factors[step.left].data : calls[step.left - n].c,
        .b = step.right < n ? factors[step.right].data : calls[step.right - n].c,
        .c = s == steps - 1 ? out.data : random_matrix(step.m * step.n, &state),
        .m = (int)step.m,
        .k = (int)step.k,
        .n = (int)step.n,
    };
  }

  /* As many repeats a sample as take some 2 ms, so that the clock does not matter. */
  double start = now_s();
  int repeats = 0;
  while (now_s() - start < 2e-3) {
    call_blas(calls, steps);
    repeats++;
  }
  double ours[ROUNDS], raw[ROUNDS], ratio[ROUNDS];
  for (int r = 0; r < ROUNDS; r++) {
    for (int turn = 0; turn < 2; turn++) { /* who goes first alternates */
      start = now_s();
      if ((turn + r) % 2 == 0) {
        for (int t = 0; t < repeats; t++) check(mmc_execute(run, factors, &out), "execute");
        ours[r] = (now_s() - start) / repeats;
      } else {
        for (int t = 0; t < repeats; t++) call_blas(calls, steps);
        raw[r] = (now_s() - start) / repeats;
      }
    }
    ratio[r] = ours[r] / raw[r];
  }
  double ratio_median = median(ratio, ROUNDS);
  printf(
      "{\"bench\": \"execute\", \"chain\": \"%s\", \"seconds_median\": %.4g, "
      "\"raw_seconds_median\": %.4g, \"ratio_median\": %.4f, \"ratio_quartiles\": [%.4f, %.4f]}\n",
      text, median(ours, ROUNDS), median(raw, ROUNDS), ratio_median, ratio[ROUNDS / 4],
      ratio[3 * ROUNDS / 4]);

  for (int64_t i = 0; i < n; i++) free(factors[i].data);
  for (int64_t s = 0; s < steps - 1; s++) free(calls[s].c);
  free(out.data);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
}

/* ---- plan ---------------------------------------------------------------------------------- */

static void bench_plan(mmc_context *context, int64_t n) {
  int64_t dims[401];
  uint64_t state = 7;
  for (int64_t i = 0; i <= n; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    dims[i] = 1 + (int64_t)(state >> 33) % 1000;
  }
  mmc_chain *chain;
  check(mmc_chain_create(context, MMC_F64, n, dims, NULL, &chain), "chain");
  int repeats = n < 10 ? 2000 : 50;
  double samples[ROUNDS];
  for (int r = 0; r < ROUNDS; r++) {
    double start = now_s();
    for (int t = 0; t < repeats; t++) {
      mmc_plan *plan;
      check(mmc_plan_create(context, chain, NULL, &plan), "plan");
      mmc_plan_destroy(plan);
    }
    samples[r] = (now_s() - start) / repeats;
  }
  double middle = median(samples, ROUNDS);
  printf(
      "{\"bench\": \"plan\", \"factors\": %lld, \"seconds_median\": %.4g, \"seconds_min\": %.4g, "
      "\"seconds_max\": %.4g}\n",
      (long long)n, middle, samples[0], samples[ROUNDS - 1]);
  mmc_chain_destroy(chain);
}

/* ---- process ------------------------------------------------------------------------------- */

static void bench_process(const char *command) {
  double samples[ROUNDS];
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", 1 /* O_WRONLY */, 0);
  for (int r = 0; r < ROUNDS; r++) {
    char *arguments[] = {(char *)command, (char *)"plan", (char *)"10x30x5x60", NULL};
    pid_t pid;
    int status = -1;
    double start = now_s();
    if (posix_spawn(&pid, command, &quiet, NULL, arguments, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0)
      check(MMC_E_IO, command);
    samples[r] = now_s() - start;
  }
  posix_spawn_file_actions_destroy(&quiet);
  double middle = median(samples, ROUNDS);
  printf(
      "{\"bench\": \"process\", \"command\": \"mmchain plan 10x30x5x60\", \"seconds_median\": "
      "%.4g, \"seconds_min\": %.4g, \"seconds_max\": %.4g}\n",
      middle, samples[0], samples[ROUNDS - 1]);
}

int main(int count, char **arguments) {
  mmc_context *context;
  check(mmc_context_create(NULL, &context), "context");
  bench_execute(context, "f64:2000x100x3000x50x4000x10");
  bench_execute(context, "f64:30x35x15x5x10x20x25");
  bench_execute(context, "f64:10x30x5x60");
  for (int64_t n = 3; n <= 6; n++) bench_plan(context, n);
  bench_plan(context, 400);
  if (count > 1) bench_process(arguments[1]);
  mmc_context_destroy(context);
  return 0;
}
