/* products.c: see products.h. */
#include "products.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../random.h"
#include "../timing.h"

enum { ALIGNMENT = 256, POOL = (1 << 16) - 3, SEED = 9836434 };

static size_t size_of(mmc_dtype dtype) {
  return (size_t)cli_matrix_bytes(dtype, 1, 1, 1);
}

static size_t aligned(size_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int cli_operands_open(cli_operands *b, int64_t m, int64_t k, int64_t n) {
  size_t one = size_of(b->dtype);
  size_t bytes[3] = {aligned((size_t)(m * k) * one), aligned((size_t)(k * n) * one),
                     aligned((size_t)(m * n) * one)};
  cli_call *call = b->lab->call;
  char *pool = malloc(POOL * one);
  if (pool == NULL) return cli_fail_memory(call, "the numbers take", (double)(POOL * one));
  cli_random random = cli_random_start(SEED, 0);
  cli_random_fill(&random, b->dtype, POOL, 0x1p-5, pool);
  mmc_status status =
      mmc_memory_create(call->context, b->lab->device, bytes[0] + bytes[1] + bytes[2], &b->memory);
  size_t filled = bytes[0] + bytes[1];
  for (size_t at = 0; at < filled && status == MMC_OK; at += POOL * one) {
    size_t size = filled - at < POOL * one ? filled - at : POOL * one;
    status = mmc_memory_write(b->memory, at, pool, size);
  }
  free(pool);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  char *address = mmc_memory_address(b->memory);
  for (int o = 0; o < 3; o++) {
    b->operands[o] = address;
    address += bytes[o];
  }
  return CLI_DONE;
}

void cli_operands_close(cli_operands *b) {
  mmc_memory_destroy(b->memory);
  b->memory = NULL;
}

/* ---- ways ------------------------------------------------------------------------------------ */

static mmc_matrix view(const cli_operands *b, int operand, int64_t offset, int64_t rows,
                       int64_t cols, int64_t ld) {
  return (mmc_matrix){.data = b->operands[operand] + (size_t)offset * size_of(b->dtype),
                      .rows = rows,
                      .cols = cols,
                      .ld = ld,
                      .layout = MMC_ROW_MAJOR,
                      .location = MMC_DEVICE};
}

static mmc_status plan_product(const cli_operands *b, mmc_context *context, const char *objective,
                               int64_t m, int64_t k, int64_t n, mmc_plan **plan, mmc_run **run) {
  mmc_chain *chain;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = b->lab->device;
  options.location = MMC_DEVICE;
  options.objective = objective;
  options.kernel = objective == NULL ? "" : NULL;
  mmc_status status =
      mmc_chain_create(context, b->dtype, 2, (const int64_t[]){m, k, n}, NULL, &chain);
  if (status != MMC_OK) return status;
  status = mmc_plan_create(context, chain, &options, plan);
  mmc_chain_destroy(chain);
  return status == MMC_OK ? mmc_run_create(*plan, run) : status;
}

mmc_status cli_way_of_cut(const cli_operands *b, int64_t k, int64_t ld_n, const cli_cut *cut,
                          cli_way *out) {
  *out = (cli_way){.count = cut->count};
  mmc_status status = MMC_OK;
  for (int p = 0; p < cut->count && status == MMC_OK; p++) {
    const cli_piece *piece = &cut->pieces[p];
    out->operands[p][0] = view(b, 0, piece->row * k, piece->m, k, k);
    out->operands[p][1] = view(b, 1, piece->col, k, piece->n, ld_n);
    out->operands[p][2] = view(b, 2, piece->row * ld_n + piece->col, piece->m, piece->n, ld_n);
    status = plan_product(b, b->lab->call->context, NULL, piece->m, k, piece->n, &out->plans[p],
                          &out->runs[p]);
  }
  if (status != MMC_OK) cli_way_free(out);
  return status;
}

mmc_status cli_way_of_plan(const cli_operands *b, mmc_context *context, int64_t m, int64_t k,
                           int64_t n, cli_way *out, double *plan_s) {
  *out = (cli_way){.count = 1};
  out->operands[0][0] = view(b, 0, 0, m, k, k);
  out->operands[0][1] = view(b, 1, 0, k, n, n);
  out->operands[0][2] = view(b, 2, 0, m, n, n);
  double start = cli_now_s();
  mmc_status status = plan_product(b, context, "time", m, k, n, &out->plans[0], &out->runs[0]);
  *plan_s = cli_now_s() - start;
  if (status != MMC_OK) cli_way_free(out);
  return status;
}

void cli_way_free(cli_way *way) {
  for (int p = 0; p < CLI_PIECES_MOST; p++) {
    mmc_run_destroy(way->runs[p]);
    mmc_plan_destroy(way->plans[p]);
  }
  *way = (cli_way){0};
}

/* ---- times ----------------------------------------------------------------------------------- */

static mmc_status execute(const cli_way *way, int64_t runs, double *seconds) {
  mmc_status status = MMC_OK;
  double start = cli_now_s();
  for (int64_t r = 0; r < runs && status == MMC_OK; r++)
    for (int p = 0; p < way->count && status == MMC_OK; p++)
      status = mmc_enqueue(way->runs[p], NULL, way->operands[p], &way->operands[p][2]);
  for (int p = 0; p < way->count && status == MMC_OK; p++) status = mmc_wait(way->runs[p]);
  *seconds = (cli_now_s() - start) / (double)runs;
  return status;
}

/* How many executions make a sample. */
static mmc_status count_runs(const cli_operands *b, const cli_way *way, int64_t *runs) {
  double once_s;
  mmc_status status = execute(way, 1, &once_s);
  if (status == MMC_OK) status = execute(way, 2, &once_s);
  *runs = (int64_t)fmin(fmax(ceil(b->sample_s / fmax(once_s, 1e-7)), 1), 1e6);
  return status;
}

mmc_status cli_way_time(const cli_operands *b, const cli_way *way, int times, double *seconds) {
  int64_t runs;
  mmc_status status = count_runs(b, way, &runs);
  *seconds = INFINITY;
  for (int t = 0; t < times && status == MMC_OK; t++) {
    double sample;
    status = execute(way, runs, &sample);
    *seconds = fmin(*seconds, sample);
  }
  return status;
}

mmc_status cli_ways_compare(const cli_operands *b, const cli_way *ways, const bool *asked,
                            double samples[][CLI_REPEATS_MOST]) {
  int64_t runs[CLI_WAYS_MOST] = {0};
  mmc_status status = MMC_OK;
  for (int w = 0; w < CLI_WAYS_MOST && status == MMC_OK; w++)
    if (asked[w]) status = count_runs(b, &ways[w], &runs[w]);
  for (int r = 0; r < b->lab->repeats && status == MMC_OK; r++)
    for (int w = 0; w < CLI_WAYS_MOST && status == MMC_OK; w++)
      if (asked[w]) status = execute(&ways[w], runs[w], &samples[w][r]);
  return status;
}

/* ---- cuts ------------------------------------------------------------------------------------ */

cli_cut cli_cut_whole(int64_t m, int64_t n) {
  return (cli_cut){.pieces = {{.m = m, .n = n}}, .count = 1};
}

void cli_cut_format(const cli_cut *cut, char text[CLI_CUT_TEXT]) {
  int length = 0;
  if (cut->count == 1) {
    snprintf(text, CLI_CUT_TEXT, "whole");
    return;
  }
  for (int p = 0; p < cut->count && length < CLI_CUT_TEXT; p++)
    length += snprintf(text + length, (size_t)(CLI_CUT_TEXT - length), "%s%" PRId64 "x%" PRId64,
                       p > 0 ? " + " : "", cut->pieces[p].m, cut->pieces[p].n);
}
