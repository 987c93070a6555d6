/* bench_reproducible.c: the seconds of chains by each precision, reproducible beside the others, in
 * turns.
 *
 *     bench_reproducible DEVICE CHAIN ...          bench_reproducible cpu f64:1500x1500x1500
 *
 * Matrices lie in the device's memory. Prints the least of the times of a chain, and those of
 * reproducible, and of reproducible and faithful, by those of native and faithful. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timing.h"

enum { PRECISIONS = 4, LEAST_ROUNDS = 5, MOST_FACTORS = 64 };
static const double SECONDS = 2, LEAST_S = 2e-4; /* of a chain, and of one measurement */
static const char *const PRECISION[PRECISIONS] = {"native", "faithful", "reproducible",
                                                  "reproducible+faithful"};

/* Fills memory with numbers in (-1, 1), of 16 bits in [1/8, 1/4). */
static bool fill(mmc_memory *memory, mmc_dtype dtype, size_t bytes) {
  unsigned char *values = malloc(bytes);
  if (values == NULL) return false;
  const bool is_wide = dtype == MMC_F64 || dtype == MMC_C128;
  if (mmc_dtype_size(dtype) == 2)
    for (size_t i = 0; i < bytes / 2; i++)
      ((uint16_t *)(void *)values)[i] =
          (uint16_t)((dtype == MMC_F16 ? 0x3000 : 0x3e00) + rand() % 128);
  else if (is_wide)
    for (size_t i = 0; i < bytes / 8; i++)
      ((double *)(void *)values)[i] = 2.0 * rand() / RAND_MAX - 1;
  else
    for (size_t i = 0; i < bytes / 4; i++)
      ((float *)(void *)values)[i] = (float)(2.0 * rand() / RAND_MAX - 1);
  const bool fine = mmc_memory_write(memory, 0, values, bytes) == MMC_OK;
  free(values);
  return fine;
}

static mmc_status take(mmc_context *context, const char *device, const mmc_chain *chain, int64_t i,
                       int64_t j, mmc_memory **memory, mmc_matrix *out) {
  const int64_t rows = mmc_chain_dims(chain)[i], cols = mmc_chain_dims(chain)[j];
  const mmc_dtype dtype = mmc_chain_dtype(chain);
  const size_t bytes = (size_t)(rows * cols * mmc_chain_batch(chain)) * mmc_dtype_size(dtype);
  mmc_status status = mmc_memory_create(context, device, bytes, memory);
  if (status != MMC_OK) return status;
  *out = (mmc_matrix){.data = mmc_memory_address(*memory),
                      .rows = rows,
                      .cols = cols,
                      .location = MMC_DEVICE,
                      .stride = rows * cols};
  return fill(*memory, dtype, bytes) ? MMC_OK : MMC_E_NOMEM;
}

/* Returns the seconds of one execution of many; below 0 when one fails. */
static double time_run(mmc_run *run, const mmc_matrix *factors, mmc_matrix *out) {
  const double start = now_s();
  int count = 0;
  do {
    if (mmc_execute(run, factors, out) != MMC_OK) return -1;
    count++;
  } while (now_s() - start < LEAST_S);
  return (now_s() - start) / count;
}

static bool measure(mmc_run *const *runs, const mmc_matrix *factors, mmc_matrix *out,
                    double best[PRECISIONS]) {
  const double start = now_s();
  for (int round = 0; round < LEAST_ROUNDS || now_s() - start < SECONDS; round++)
    for (int p = 0; p < PRECISIONS; p++) {
      const double seconds = time_run(runs[p], factors, out);
      if (seconds < 0) return false;
      if (round == 1 || seconds < best[p]) best[p] = seconds; /* the first round warms up */
    }
  return true;
}

static bool bench(mmc_context *context, const char *device, const char *text) {
  mmc_chain *chain = NULL;
  mmc_plan *plans[PRECISIONS] = {NULL};
  mmc_run *runs[PRECISIONS] = {NULL};
  mmc_memory *memory[MOST_FACTORS + 1] = {NULL};
  mmc_matrix matrices[MOST_FACTORS + 1];
  double best[PRECISIONS] = {0};
  bool fine =
      mmc_chain_parse(context, text, &chain) == MMC_OK && mmc_chain_length(chain) <= MOST_FACTORS;
  const int64_t n = fine ? mmc_chain_length(chain) : 0;
  for (int p = 0; p < PRECISIONS && fine; p++) {
    mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
    options.device = device;
    options.precision = PRECISION[p];
    options.location = MMC_DEVICE;
    fine = mmc_plan_create(context, chain, &options, &plans[p]) == MMC_OK &&
           mmc_run_create(plans[p], &runs[p]) == MMC_OK;
  }
  for (int64_t i = 0; i <= n && fine; i++)
    fine = take(context, device, chain, i < n ? i : 0, i < n ? i + 1 : n, &memory[i],
                &matrices[i]) == MMC_OK;
  if (fine) fine = measure(runs, matrices, &matrices[n], best);
  if (fine)
    printf(
        "%-28s native %11.2f us, faithful %11.2f us, reproducible %11.2f us: %.3f, %.3f, "
        "and faithful %11.2f us: %.3f, %.3f\n",
        text, 1e6 * best[0], 1e6 * best[1], 1e6 * best[2], best[2] / best[0], best[2] / best[1],
        1e6 * best[3], best[3] / best[0], best[3] / best[1]);
  char message[512];
  if (!fine) printf("%s: %s\n", text, mmc_context_message(context, message, sizeof message));
  for (int p = 0; p < PRECISIONS; p++) {
    mmc_run_destroy(runs[p]);
    mmc_plan_destroy(plans[p]);
  }
  for (int i = 0; i <= MOST_FACTORS; i++) mmc_memory_destroy(memory[i]);
  mmc_chain_destroy(chain);
  return fine;
}

int main(int argc, char **argv) {
  mmc_context *context;
  if (argc < 3) {
    printf("usage: bench_reproducible DEVICE CHAIN ...\n");
    return 2;
  }
  bool fine = mmc_context_create(NULL, &context) == MMC_OK;
  if (!fine) return 1;
  for (int i = 2; i < argc; i++) fine = bench(context, argv[1], argv[i]) && fine;
  mmc_context_destroy(context);
  return fine ? 0 : 1;
}
