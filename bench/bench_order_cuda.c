/* bench_order_cuda.c: how long a CUDA device takes for the ordering problem, one JSON line.
 *
 *     bench_order_cuda FAMILY N KERNEL RUNS [THREADS_PER_BLOCK [BLOCKS_PER_ENTRY]]
 *
 * FAMILY: random (1 to 1000), large (1 to 200,000), equal (7), two (1 or 2), rising, falling,
 * valley. The first run, which opens the device, counts only when it takes over a second; no run
 * begins after 20 s.
 * Seconds are the device's own, from the first kernel to the finished table. Every run's count must
 * be Hu and Shing's. */
#include <mmchain.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timing.h"

static const double SLOW_S = 1, LONG_S = 20;

static mmc_context *context;

static void require(mmc_status status, const char *what) {
  if (status == MMC_OK) return;
  char message[512];
  fprintf(stderr, "bench_order_cuda: %s: %s: %s\n", what, mmc_status_string(status),
          mmc_context_message(context, message, sizeof message));
  exit(1);
}

/* Fills dims[0..n]; false when there is no such family. */
static bool fill(const char *family, int64_t n, int64_t *dims) {
  uint64_t state = (uint64_t)n;
  for (int64_t i = 0; i <= n; i++) {
    int64_t away = i < n / 2 ? n / 2 - i : i - n / 2;
    state = state * 16807 % 2147483647; /* Park and Miller 1988 */
    if (strcmp(family, "random") == 0)
      dims[i] = 1 + (int64_t)(state % 1000);
    else if (strcmp(family, "large") == 0)
      dims[i] = 1 + (int64_t)(state % 200000);
    else if (strcmp(family, "equal") == 0)
      dims[i] = 7;
    else if (strcmp(family, "two") == 0)
      dims[i] = 1 + (int64_t)(state / 1000 % 2);
    else if (strcmp(family, "rising") == 0)
      dims[i] = 1 + i % 1000;
    else if (strcmp(family, "falling") == 0)
      dims[i] = 1 + (n - i) % 1000;
    else if (strcmp(family, "valley") == 0)
      dims[i] = 1 + away % 1000;
    else
      return false;
  }
  return true;
}

int main(int count, char **arguments) {
  long n = count > 2 ? strtol(arguments[2], NULL, 10) : 0;
  int runs = count > 4 ? (int)strtol(arguments[4], NULL, 10) : 0;
  if (count < 5 || n < 1 || runs < 1) {
    fprintf(stderr, "usage: bench_order_cuda FAMILY N KERNEL RUNS [THREADS [BLOCKS]]\n");
    return 2;
  }
  int64_t *dims = malloc(((size_t)n + 1) * sizeof *dims);
  double *seconds = malloc((size_t)runs * sizeof *seconds);
  if (dims == NULL || seconds == NULL) require(MMC_E_NOMEM, "dims");
  if (!fill(arguments[1], n, dims)) {
    fprintf(stderr, "bench_order_cuda: no family '%s'\n", arguments[1]);
    return 2;
  }
  mmc_order_options options = MMC_ORDER_OPTIONS_INIT;
  options.solver = "table";
  options.device = "cuda";
  options.kernel = arguments[3];
  options.threads_per_block = count > 5 ? (int)strtol(arguments[5], NULL, 10) : 0;
  options.blocks_per_entry = count > 6 ? (int)strtol(arguments[6], NULL, 10) : 0;

  require(mmc_context_create(NULL, &context), "context");
  mmc_order *order;
  require(mmc_order_create(context, n, dims, NULL, &order), "hu-shing");
  mmc_count least = mmc_order_multiplications(order);
  mmc_order_destroy(order);
  char kernel[64] = "";
  int counted = 0;
  double total = 0;
  for (int r = 0; counted < runs && total < LONG_S; r++) {
    require(mmc_order_create(context, n, dims, &options, &order), "table on cuda");
    mmc_count got = mmc_order_multiplications(order);
    if (got.lo != least.lo || got.hi != least.hi) {
      fprintf(stderr, "bench_order_cuda: not the least number of multiplications\n");
      return 1;
    }
    double took = mmc_order_seconds(order);
    total += took;
    if (r > 0 || took > SLOW_S) seconds[counted++] = took;
    snprintf(kernel, sizeof kernel, "%s", mmc_order_kernel(order));
    mmc_order_destroy(order);
  }
  qsort(seconds, (size_t)counted, sizeof *seconds, ascending);
  double median = seconds[counted / 2], cells = ((double)n * (double)n * (double)n - (double)n) / 6;
  char digits[MMC_COUNT_TEXT_SIZE];
  printf(
      "{\"bench\": \"order\", \"family\": \"%s\", \"n\": %ld, \"kernel\": \"%s\", "
      "\"kernel_used\": \"%s\", \"threads_per_block\": %d, \"blocks_per_entry\": %d, "
      "\"median_s\": %.6g, \"min_s\": %.6g, \"max_s\": %.6g, \"spread\": %.4f, \"runs\": %d, "
      "\"cells_per_s\": %.4g, \"multiplications\": \"%s\"}\n",
      arguments[1], n, options.kernel, kernel, options.threads_per_block, options.blocks_per_entry,
      median, seconds[0], seconds[counted - 1],
      median > 0 ? (seconds[counted - 1] - seconds[0]) / median : 0, counted,
      median > 0 ? cells / median : 0, mmc_count_format(least, digits));
  mmc_context_destroy(context);
  free(seconds);
  free(dims);
  return 0;
}
