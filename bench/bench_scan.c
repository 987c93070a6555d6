/* bench_scan.c: prefixes of small matrices on the CPU, against the same products in a loop of calls
 * of the same BLAS, in turns.
 *
 *     bench_scan [N LENGTH [SECONDS]]
 *
 * Prints the median seconds of each and their ratio, for f64. The loop writes where the scan does,
 * in memory that was written before. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timing.h"

enum { MOST_TURNS = 1001 };

static double median(double *seconds, int count) {
  qsort(seconds, (size_t)count, sizeof *seconds, ascending);
  return seconds[count / 2];
}

static void loop(int n, long length, const double *a, double *out) {
  const long size = (long)n * n;
  memcpy(out, a, (size_t)size * sizeof *out);
  for (long t = 1; t < length; t++)
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, out + (t - 1) * size, n,
                a + t * size, n, 0, out + t * size, n);
}

static int measure(mmc_scan *scan, int n, long length, double *a, double *out, double budget_s) {
  static double ours[MOST_TURNS], theirs[MOST_TURNS];
  mmc_scan_operands operands = MMC_SCAN_OPERANDS_INIT;
  operands.factors = (mmc_matrix){.data = a, .rows = n, .cols = n};
  operands.out = (mmc_matrix){.data = out, .rows = n, .cols = n};
  operands.factors_step = operands.out_step = (int64_t)n * n;
  int turns = 0;
  loop(n, length, a, out);
  for (double begin = now_s(); turns < MOST_TURNS && now_s() < begin + budget_s; turns++) {
    double start = now_s();
    if (mmc_scan_execute(scan, &operands) != MMC_OK) return 1;
    ours[turns] = now_s() - start;
    start = now_s();
    loop(n, length, a, out);
    theirs[turns] = now_s() - start;
  }
  const double x = median(ours, turns), y = median(theirs, turns);
  printf(
      "%ld prefixes of %d x %d f64: scan %.3f ms, loop of cblas_dgemm %.3f ms, %.2f times, %d "
      "turns\n",
      length, n, n, 1e3 * x, 1e3 * y, y / x, turns);
  return 0;
}

int main(int argc, char **argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 8;
  const long length = argc > 2 ? atol(argv[2]) : 100000;
  const double budget_s = argc > 3 ? atof(argv[3]) : 3;
  const size_t elements = (size_t)n * (size_t)n * (size_t)length;
  double *a = malloc(elements * sizeof *a), *out = malloc(elements * sizeof *out);
  mmc_context *context;
  mmc_scan *scan;
  if (a == NULL || out == NULL || mmc_context_create(NULL, &context) != MMC_OK) return 1;
  srand(1);
  for (size_t i = 0; i < elements; i++) a[i] = 2.0 * rand() / RAND_MAX / n;
  if (mmc_scan_create(context, MMC_F64, n, length, NULL, &scan) != MMC_OK) return 1;
  const int status = measure(scan, n, length, a, out, budget_s);
  mmc_scan_destroy(scan);
  mmc_context_destroy(context);
  free(a);
  free(out);
  return status;
}
