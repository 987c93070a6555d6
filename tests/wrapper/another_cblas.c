/* another_cblas.c: a program that is linked with mmchain and with a CBLAS of its own, which comes
 * before that of mmchain: mmchain's products are then that one's, and ask it for nothing that only
 * OpenBLAS has. */
#include <complex.h>
#include <math.h>
#include <stdio.h>

#include "mmchain.h"

enum { M = 40, K = 70, N = 60 };

static double complex a[M * K], b[K * N], c[M * N];

/* The element (row, col) of op(X), where X is stored in rows or in columns. */
static double complex at(const mmc_matrix *x, mmc_op op, int64_t row, int64_t col) {
  const double complex *data = x->data;
  const int64_t i = op == MMC_OP_N ? row : col, j = op == MMC_OP_N ? col : row;
  const double complex value = data[x->layout == MMC_ROW_MAJOR ? i * x->cols + j : j * x->rows + i];
  return op == MMC_OP_H ? conj(value) : value;
}

/* Multiplies by a plan; returns whether the product is right. */
static bool multiplies(mmc_context *context, const mmc_op *ops, const mmc_matrix *factors) {
  const int64_t dims[] = {M, K, N};
  const mmc_matrix out = {.data = c, .rows = M, .cols = N};
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  for (int i = 0; i < M * N; i++) c[i] = NAN;
  bool fine = mmc_chain_create(context, MMC_C128, 2, dims, ops, &chain) == MMC_OK &&
              mmc_plan_create(context, chain, NULL, &plan) == MMC_OK &&
              mmc_run_create(plan, &run) == MMC_OK && mmc_execute(run, factors, &out) == MMC_OK;
  for (int64_t i = 0; fine && i < M; i++)
    for (int64_t j = 0; fine && j < N; j++) {
      double complex sum = 0;
      for (int64_t l = 0; l < K; l++)
        sum += at(&factors[0], ops[0], i, l) * at(&factors[1], ops[1], l, j);
      fine = cabs(c[i * N + j] - sum) == 0; /* of small integers */
    }
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  return fine;
}

int main(void) {
  static const mmc_op all[] = {MMC_OP_N, MMC_OP_T, MMC_OP_H};
  mmc_context *context = NULL;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  int wrong = 0;
  options.wisdom_path = "";
  if (mmc_context_create(&options, &context) != MMC_OK) return 1;
  for (int i = 0; i < M * K; i++) a[i] = CMPLX(i % 17, -(i % 5));
  for (int i = 0; i < K * N; i++) b[i] = CMPLX(i % 7, i % 13);
  for (int w = 0; w < 36; w++) { /* every op of both, in rows and in columns */
    const mmc_op ops[] = {all[w % 3], all[w / 3 % 3]};
    const bool straight[] = {ops[0] == MMC_OP_N, ops[1] == MMC_OP_N};
    const mmc_matrix factors[] = {{.data = a,
                                   .rows = straight[0] ? M : K,
                                   .cols = straight[0] ? K : M,
                                   .layout = w / 9 % 2 ? MMC_COL_MAJOR : MMC_ROW_MAJOR},
                                  {.data = b,
                                   .rows = straight[1] ? K : N,
                                   .cols = straight[1] ? N : K,
                                   .layout = w / 18 ? MMC_COL_MAJOR : MMC_ROW_MAJOR}};
    if (multiplies(context, ops, factors)) continue;
    char text[300];
    fprintf(stderr, "another_cblas: case %d is wrong: %s\n", w,
            mmc_context_message(context, text, sizeof text));
    wrong++;
  }
  mmc_context_destroy(context);
  return wrong > 0;
}
