/* bench_scan_device.c: prefixes and a recurrence of f32 matrices on a device, in the sizes of
 * docs/benchmarks.md.
 *
 *     bench_scan_device [DEVICE]
 *
 * Prints, of nine measurements, the median of the seconds that one scan takes when many are left to
 * the default stream, and the least. */
#include <stdio.h>
#include <stdlib.h>

#include "timing.h"

enum { MEASUREMENTS = 9 };

/* Returns the seconds of one of `count` scans; below 0 when one fails. */
static double time_scans(mmc_scan *scan, const mmc_scan_operands *operands, int count) {
  const double start = now_s();
  for (int i = 0; i < count; i++)
    if (mmc_scan_enqueue(scan, NULL, operands) != MMC_OK) return -1;
  return mmc_scan_wait(scan) == MMC_OK ? (now_s() - start) / count : -1;
}

enum { BLOCK = 1 << 24 }; /* elements that are drawn; more are these again */

static bool fill(mmc_memory *memory, size_t elements, int64_t n) {
  float *random = malloc(BLOCK * sizeof *random);
  bool fine = random != NULL;
  for (size_t i = 0; fine && i < BLOCK && i < elements; i++)
    random[i] = 2 * (float)rand() / (float)RAND_MAX / (float)n;
  for (size_t at = 0; fine && at < elements; at += BLOCK) {
    const size_t count = elements - at < BLOCK ? elements - at : BLOCK;
    fine = mmc_memory_write(memory, at * sizeof *random, random, count * sizeof *random) == MMC_OK;
  }
  free(random);
  return fine;
}

/* n x n factors, `length` of them in each of `batch` scans; of a recurrence, so many columns. */
typedef struct problem {
  int64_t n, length, batch, columns;
} problem;

static int measure(mmc_context *context, const char *device, const problem *p) {
  const int64_t n = p->n, m = p->columns > 0 ? p->columns : n;
  const size_t elements = (size_t)(n * n * p->length * p->batch);
  mmc_scan_options options = MMC_SCAN_OPTIONS_INIT;
  mmc_scan_operands operands = MMC_SCAN_OPERANDS_INIT;
  mmc_memory *factors = NULL, *out = NULL;
  mmc_scan *scan = NULL;
  double seconds[MEASUREMENTS];
  options.device = device;
  options.batch = p->batch;
  options.columns = p->columns;
  options.initial = p->columns > 0;
  bool fine = mmc_memory_create(context, device, elements * sizeof(float), &factors) == MMC_OK &&
              mmc_memory_create(context, device, elements * sizeof(float), &out) == MMC_OK &&
              mmc_scan_create(context, MMC_F32, n, p->length, &options, &scan) == MMC_OK &&
              fill(factors, elements, n);
  if (fine) {
    operands.factors = (mmc_matrix){.data = mmc_memory_address(factors),
                                    .rows = n,
                                    .cols = n,
                                    .location = MMC_DEVICE,
                                    .stride = n * n * p->length};
    operands.initial = operands.out = operands.factors;
    operands.initial.cols = operands.out.cols = m;
    operands.out.data = mmc_memory_address(out);
    operands.out.stride = n * m * p->length;
    operands.factors_step = n * n;
    operands.out_step = n * m;
    const double once = time_scans(scan, &operands, 3);
    const int count = once < 1e-4 ? 200 : once < 1e-2 ? 20 : 2;
    for (int i = 0; i < MEASUREMENTS; i++) seconds[i] = time_scans(scan, &operands, count);
    qsort(seconds, MEASUREMENTS, sizeof *seconds, ascending);
    fine = seconds[0] > 0;
    printf("%8lld x %2lldx%-2lld @%-4lld columns %lld %9.2f us, least %9.2f us\n",
           (long long)p->length, (long long)n, (long long)n, (long long)p->batch,
           (long long)p->columns, 1e6 * seconds[MEASUREMENTS / 2], 1e6 * seconds[0]);
  }
  char text[512];
  if (!fine) printf("failed: %s\n", mmc_context_message(context, text, sizeof text));
  mmc_scan_destroy(scan);
  mmc_memory_destroy(factors);
  mmc_memory_destroy(out);
  return fine ? 0 : 1;
}

int main(int argc, char **argv) {
  static const problem cases[] = {{16, 1000000, 1, 0}, {16, 10000, 1, 0}, {64, 1000, 1, 0},
                                  {4, 1000000, 1, 0},  {8, 100000, 1, 0}, {16, 512, 256, 0},
                                  {16, 65536, 64, 1}};
  const char *device = argc > 1 ? argv[1] : "cuda";
  mmc_context *context;
  int status = 0;
  if (mmc_context_create(NULL, &context) != MMC_OK) return 1;
  for (size_t i = 0; i < sizeof cases / sizeof *cases && status == 0; i++)
    status = measure(context, device, &cases[i]);
  mmc_context_destroy(context);
  return status;
}
