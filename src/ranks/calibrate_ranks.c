/* calibrate_ranks.c: times products, copies and messages. */
#include "ranks/calibrate_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ascending.h"
#include "base/monotonic.h"
#include "ranks/agree.h"

enum { RUNS = 7, SIDE = 384, LONG_BYTES = 1 << 22, ROUNDS = 50 };

const char *const mmci_ranks_fact_names[MMCI_RANKS_FACTS] = {
    "ranks_flops_per_s", "ranks_byte_s", "ranks_message_s", "ranks_memory_byte_s"};

static double *field(mmci_ranks_rates *rates, int fact) {
  double *const fields[] = {&rates->flops_per_s, &rates->word_bytes_s, &rates->message_s,
                            &rates->memory_bytes_s};
  return fields[fact];
}

double mmci_ranks_fact(const mmci_ranks_rates *rates, int fact) {
  mmci_ranks_rates copy = *rates;
  return *field(&copy, fact);
}

void mmci_ranks_set_fact(mmci_ranks_rates *rates, int fact, double number) {
  *field(rates, fact) = number;
}

/* What is timed, with two arrays of LONG_BYTES. */
typedef struct bench {
  const mmci_products *products;
  const mmci_team_ops *ops;
  mmci_team *team;
  mmci_how how;
  char *from, *to;
} bench;

static mmc_status multiply(const bench *b, mmci_error *error) {
  const mmci_local operand = {b->from, SIDE, false};
  return mmci_products_multiply(b->products, &b->how, SIDE, SIDE, SIDE, &operand, &operand, b->to,
                                error);
}

static mmc_status copy(const bench *b, mmci_error *error) {
  (void)error;
  memcpy(b->to, b->from, LONG_BYTES);
  return MMC_OK;
}

/* Sends to the next rank, and receives from the one before. */
static mmc_status pass(const bench *b, size_t size, int rounds, mmci_error *error) {
  const int32_t rank = b->ops->rank(b->team), count = b->ops->count(b->team);
  const mmci_message sent = {b->from, size, (rank + 1) % count};
  const mmci_message received = {b->to, size, (rank + count - 1) % count};
  mmc_status status = MMC_OK;
  for (int r = 0; r < rounds && status == MMC_OK; r++)
    status = b->ops->exchange(b->team, &sent, 1, &received, 1, error);
  return status;
}

static mmc_status pass_short(const bench *b, mmci_error *error) {
  return pass(b, 8, ROUNDS, error);
}

static mmc_status pass_long(const bench *b, mmci_error *error) {
  return pass(b, LONG_BYTES, 1, error);
}

/* Times a job on all ranks at once: the median of its runs, each as long as on the slowest rank. */
static mmc_status time_job(const bench *b, mmc_status (*job)(const bench *, mmci_error *),
                           double *out, mmci_error *error) {
  const int32_t count = b->ops->count(b->team);
  double runs[RUNS];
  mmc_status status = MMC_OK;
  for (int r = -1; r < RUNS && status == MMC_OK; r++) { /* the first run warms up */
    const double start = mmci_now_s();
    status = job(b, error);
    double seconds = mmci_now_s() - start;
    double *all = mmci_team_gather(b->ops, b->team, &status, &seconds, sizeof seconds, error);
    for (int32_t i = 0; i < count && all != NULL; i++)
      if (all[i] > seconds) seconds = all[i];
    free(all);
    if (r >= 0) runs[r] = seconds;
  }
  if (status != MMC_OK) return status;
  qsort(runs, RUNS, sizeof *runs, mmci_ascending_doubles);
  *out = runs[RUNS / 2];
  return MMC_OK;
}

static mmc_status measure(const bench *b, mmci_ranks_rates *rates, mmci_error *error) {
  const bool is_complex = b->how.dtype == MMC_C64 || b->how.dtype == MMC_C128;
  double product_s, copy_s, short_s = 0, long_s = 0;
  mmc_status status = time_job(b, multiply, &product_s, error);
  if (status == MMC_OK) status = time_job(b, copy, &copy_s, error);
  if (status == MMC_OK && b->ops->count(b->team) > 1) {
    status = time_job(b, pass_short, &short_s, error);
    if (status == MMC_OK) status = time_job(b, pass_long, &long_s, error);
  }
  if (status != MMC_OK) return status;
  rates->flops_per_s = (is_complex ? 8.0 : 2.0) * SIDE * SIDE * SIDE / product_s;
  rates->memory_bytes_s = copy_s / (2.0 * LONG_BYTES);
  if (short_s > 0) {
    rates->message_s = short_s / ROUNDS;
    /* A long message that is no slower than a short one says that nothing is measurable. */
    const double rest = long_s - rates->message_s;
    rates->word_bytes_s = (rest > 0 ? rest : long_s) / LONG_BYTES;
  }
  rates->calibrated = true;
  return MMC_OK;
}

mmc_status mmci_ranks_calibrate(const mmci_products *products, mmc_dtype dtype,
                                mmci_ranks_rates *rates, mmci_error *error) {
  const mmci_team_ops *ops = products->ops;
  mmci_team *team = products->team;
  bench b = {.products = products,
             .ops = ops,
             .team = team,
             .how = {dtype, MMCI_NATIVE, rates->replaces, MMCI_SUMS_CHAIN},
             .from = mmci_alloc_zeroed(LONG_BYTES, 1),
             .to = mmci_alloc_zeroed(LONG_BYTES, 1)};
  mmc_status status = MMC_OK;
  if (b.from == NULL || b.to == NULL)
    status = mmci_fail_nomem(error, LONG_BYTES);
  else /* Ones of any dtype, more or less: small numbers that are not zero. */
    memset(b.from, 0x3A, LONG_BYTES);
  status = mmci_team_agree(ops, team, status, error);
  if (status == MMC_OK) status = measure(&b, rates, error);
  free(b.from);
  free(b.to);
  return status;
}
