/* bench_scan_device.c: prefixes of f32 matrices that are on a device, in the sizes of
 * docs/benchmarks.md.
 *
 *     bench_scan_device [DEVICE]
 *
 * Prints, of nine measurements, the median of the seconds that one scan takes when many are left to
 * the default stream, and the least. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mmchain.h"

enum { MEASUREMENTS = 9 };

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Returns the seconds of one of `count` scans; below 0 when one fails. */
static double time_scans(mmc_scan *scan, const mmc_scan_operands *operands, int count) {
  const double start = now_s();
  for (int i = 0; i < count; i++)
    if (mmc_scan_enqueue(scan, NULL, operands) != MMC_OK) return -1;
  return mmc_scan_wait(scan) == MMC_OK ? (now_s() - start) / count : -1;
}

static int measure(mmc_context *context, const char *device, int64_t n, int64_t length,
                   int64_t batch) {
  const size_t bytes = (size_t)(n * n * length * batch) * sizeof(float);
  mmc_scan_options options = MMC_SCAN_OPTIONS_INIT;
  mmc_scan_operands operands = MMC_SCAN_OPERANDS_INIT;
  mmc_memory *factors = NULL, *out = NULL;
  mmc_scan *scan = NULL;
  float *random = malloc(bytes);
  double seconds[MEASUREMENTS];
  options.device = device;
  options.batch = batch;
  bool fine = random != NULL && mmc_memory_create(context, device, bytes, &factors) == MMC_OK &&
              mmc_memory_create(context, device, bytes, &out) == MMC_OK &&
              mmc_scan_create(context, MMC_F32, n, length, &options, &scan) == MMC_OK;
  for (size_t i = 0; fine && i < bytes / sizeof *random; i++)
    random[i] = 2 * (float)rand() / (float)RAND_MAX / (float)n;
  fine = fine && mmc_memory_write(factors, 0, random, bytes) == MMC_OK;
  if (fine) {
    const mmc_matrix matrix = {
        .rows = n, .cols = n, .location = MMC_DEVICE, .stride = n * n * length};
    operands.factors = operands.out = matrix;
    operands.factors.data = mmc_memory_address(factors);
    operands.out.data = mmc_memory_address(out);
    operands.factors_step = operands.out_step = n * n;
    const double once = time_scans(scan, &operands, 3);
    const int count = once < 1e-4 ? 200 : once < 1e-2 ? 20 : 2;
    for (int i = 0; i < MEASUREMENTS; i++) seconds[i] = time_scans(scan, &operands, count);
    qsort(seconds, MEASUREMENTS, sizeof *seconds, compare);
    fine = seconds[0] > 0;
    printf("%8lld x %2lldx%-2lld @%-4lld %9.2f us, least %9.2f us\n", (long long)length,
           (long long)n, (long long)n, (long long)batch, 1e6 * seconds[MEASUREMENTS / 2],
           1e6 * seconds[0]);
  }
  char text[512];
  if (!fine) printf("failed: %s\n", mmc_context_message(context, text, sizeof text));
  mmc_scan_destroy(scan);
  mmc_memory_destroy(factors);
  mmc_memory_destroy(out);
  free(random);
  return fine ? 0 : 1;
}

int main(int argc, char **argv) {
  static const int64_t cases[][3] = {{16, 1000000, 1}, {16, 10000, 1}, {64, 1000, 1},
                                     {4, 1000000, 1},  {8, 100000, 1}, {16, 512, 256},
                                     {16, 1000, 1},    {8, 1000000, 1}};
  const char *device = argc > 1 ? argv[1] : "cuda";
  mmc_context *context;
  int status = 0;
  if (mmc_context_create(NULL, &context) != MMC_OK) return 1;
  for (size_t i = 0; i < sizeof cases / sizeof *cases && status == 0; i++)
    status = measure(context, device, cases[i][0], cases[i][1], cases[i][2]);
  mmc_context_destroy(context);
  return status;
}
