/* products.h: one product computed in several ways, by calls for its parts in place, or as a plan
 * says, and what each takes. */
#ifndef MMC_CLI_PRODUCTS_H
#define MMC_CLI_PRODUCTS_H

#include "laboratory.h"

enum { CLI_PIECES_MOST = 16, CLI_WAYS_MOST = 4, CLI_CUT_TEXT = 256 };

/* A rectangle of the result. */
typedef struct cli_piece {
  int64_t row, col, m, n;
} cli_piece;

/* A product in parts, each of them one call of the device. */
typedef struct cli_cut {
  cli_piece pieces[CLI_PIECES_MOST];
  int count;
} cli_cut;

/* The operands of products of one dtype, up to some sizes; it starts as {.lab = ..., .dtype = ...}.
 */
typedef struct cli_operands {
  cli_laboratory *lab;
  mmc_dtype dtype;
  double sample_s; /* a sample takes so long at least, and one execution */
  mmc_memory *memory;
  char *operands[3]; /* A, B and C */
} cli_operands;

/* Takes memory for products up to m x k by k x n, and fills A and B with normal numbers. Returns an
 * exit status. */
int cli_operands_open(cli_operands *bench, int64_t m, int64_t k, int64_t n);
void cli_operands_close(cli_operands *bench);

/* One way to compute m x k by k x n; it starts as {0}. */
typedef struct cli_way {
  mmc_plan *plans[CLI_PIECES_MOST];
  mmc_run *runs[CLI_PIECES_MOST];
  mmc_matrix operands[CLI_PIECES_MOST][3];
  int count;
} cli_way;

/* Makes the way that computes a product by one plain call for each piece. */
mmc_status cli_way_of_cut(const cli_operands *bench, int64_t k, int64_t ld_n, const cli_cut *cut,
                          cli_way *out);
/* Makes the way that a plan for time of another context takes, for that context's wisdom; *plan_s
 * becomes the seconds of planning. */
mmc_status cli_way_of_plan(const cli_operands *bench, mmc_context *context, int64_t m, int64_t k,
                           int64_t n, cli_way *out, double *plan_s);
void cli_way_free(cli_way *way);

/* Measures the seconds of one execution, the least of `times` samples. */
mmc_status cli_way_time(const cli_operands *bench, const cli_way *way, int times, double *seconds);
/* Measures those of CLI_WAYS_MOST ways that are asked for in turns, as often as the laboratory
 * repeats: samples[w][r]. */
mmc_status cli_ways_compare(const cli_operands *bench, const cli_way *ways, const bool *asked,
                            double samples[][CLI_REPEATS_MOST]);

/* Returns the cut of one piece. */
cli_cut cli_cut_whole(int64_t m, int64_t n);
/* Writes "whole", or the pieces: "256x1920 + 256x128". */
void cli_cut_format(const cli_cut *cut, char text[CLI_CUT_TEXT]);

#endif
