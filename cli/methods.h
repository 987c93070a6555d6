/* methods.h: the three ways to multiply a chain that the commands compare: left to right, in the
 * order of fewest multiplications, and as mmchain knows best. */
#ifndef MMC_CLI_METHODS_H
#define MMC_CLI_METHODS_H

#include "energy.h"

enum { CLI_LEFT_TO_RIGHT, CLI_FLOP_OPTIMAL, CLI_OURS, CLI_METHODS };

/* "left-to-right", "flop-optimal", "ours" */
extern const char *const cli_method_names[CLI_METHODS];

/* A measured peak, and the square product that gave it; both are 0 before it is measured. */
typedef struct cli_peak {
  double flops_per_s;
  int n;
} cli_peak;

/* How to measure. It starts as {.seconds = 1, .objective = "time", .plan_options =
 * MMC_PLAN_OPTIONS_INIT}. */
typedef struct cli_contest {
  mmc_plan_options plan_options; /* options of our plans, but for solver and objective */
  const char *objective;         /* "time" or "energy" */
  double max_slowdown;
  double seconds; /* how long to measure a chain */
  cli_energy energy;
  cli_peak peaks[MMC_BOOL + 1];
} cli_contest;

/* One method on one chain; it starts as {0}. */
typedef struct cli_measurement {
  mmc_plan *plan;
  mmc_run *run;
  double plan_s;
  double predicted_s; /* NaN when the plan is for neither time nor energy */
  double predicted_j; /* NaN when the plan is not for energy */
  double *samples_s;  /* count samples in seconds, rising */
  size_t count, capacity;
  int runs_a_sample;
  mmc_energy energy;
} cli_measurement;

/* Plans and times all methods on a chain of two factors at least, and the peak of its dtype where
 * that is not known yet. all starts as zeros, or with plans that are to be timed, and is freed by
 * cli_contest_free(), after a failure too. Returns CLI_DONE, or the exit status after saying what
 * is wrong. */
int cli_contest_run(cli_call *call, cli_contest *contest, const mmc_chain *chain,
                    cli_measurement all[CLI_METHODS]);
/* Measures the shortest seconds of a batch of products of m x k by k x n matrices, for so many
 * seconds and 5 runs at least. */
int cli_contest_product(cli_call *call, const cli_contest *contest, mmc_dtype dtype, int64_t batch,
                        const int64_t sizes[3], double search_s, double *best_s);
void cli_contest_free(cli_measurement all[CLI_METHODS]);

double cli_measurement_median(const cli_measurement *m);
/* Returns the real flops of a plan: 2mkn a product, 8mkn of complex numbers. */
double cli_plan_flops(mmc_dtype dtype, const mmc_plan *plan);
/* Says whether two plans multiply the same by the same kernels in the same order. */
bool cli_plan_same(const mmc_plan *a, const mmc_plan *b);
/* Returns the chain's text form, a string to free, or NULL when memory is short. */
char *cli_chain_text(const mmc_chain *chain);
/* Says whether plans for time are made of the chain: of sums and products, and of bool's. */
bool cli_chain_is_timed(const mmc_chain *chain);

#endif
