/* bench_plans.c: what planning for time takes for shapes that were never planned, one JSON line a
 * number of factors.
 *
 *     bench_plans [--wisdom FILE] [--sides MOST] [factors...]     3 4 5 6 8 10 20 100, 8 to 128
 *
 * Chains of f64 have sides of 8 to MOST, drawn at random by their logarithms, each chain other than
 * the ones before. The same chains are planned and destroyed without wisdom and, where there is a
 * FILE, with the one of `mmchain tune --range MOST`, in turns; in a turn by as many chains as take
 * a millisecond or so. Told are microseconds a plan: the median of all turns, the least and the
 * most. Times are of this machine as it is. */
#include <math.h>
#include <mmchain.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timing.h"

enum { TURNS = 101, MOST_FACTORS = 4096, MOST_CHAINS = 400 };

/* A context, and what its plans took in each turn. */
typedef struct store {
  const char *name;
  mmc_context *context;
  double seconds[TURNS];
} store;

static void open_store(store *out, const char *name, const char *path) {
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = path;
  out->name = name;
  check(mmc_context_create(&options, &out->context), "context");
}

static mmc_chain *random_chain(int64_t n, double most, uint64_t *state) {
  int64_t dims[MOST_FACTORS + 1];
  for (int64_t i = 0; i <= n; i++) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    const double share = (double)(*state >> 11) * 0x1p-53;
    dims[i] = (int64_t)(8 * pow((most + 1) / 8, share));
  }
  mmc_chain *chain;
  check(mmc_chain_create(NULL, MMC_F64, n, dims, NULL, &chain), "chain");
  return chain;
}

static void plan_all(store *x, mmc_chain *const *chains, int count, int turn) {
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = "time";
  const double start = now_s();
  for (int c = 0; c < count; c++) {
    mmc_plan *plan;
    check(mmc_plan_create(x->context, chains[c], &options, &plan), "plan");
    mmc_plan_destroy(plan);
  }
  x->seconds[turn] = (now_s() - start) / count;
}

static void bench(store *stores, int count, int64_t n, double most) {
  mmc_chain *chains[MOST_CHAINS];
  uint64_t state = 7;
  const int of_turn = n <= 6 ? MOST_CHAINS : n <= 20 ? MOST_CHAINS / 5 : 4;
  for (int turn = 0; turn < TURNS; turn++) {
    for (int c = 0; c < of_turn; c++) chains[c] = random_chain(n, most, &state);
    for (int s = 0; s < count; s++) plan_all(&stores[s], chains, of_turn, turn);
    for (int c = 0; c < of_turn; c++) mmc_chain_destroy(chains[c]);
  }
  printf("{\"bench\": \"plans\", \"factors\": %lld, \"sides\": %g", (long long)n, most);
  for (int s = 0; s < count; s++) {
    double *us = stores[s].seconds;
    for (int turn = 0; turn < TURNS; turn++) us[turn] *= 1e6;
    qsort(us, TURNS, sizeof *us, ascending);
    printf(", \"%s_us\": %.3g, \"%s_spread_us\": [%.3g, %.3g]", stores[s].name, us[TURNS / 2],
           stores[s].name, us[0], us[TURNS - 1]);
  }
  printf("}\n");
  fflush(stdout);
}

int main(int count, char **arguments) {
  store stores[2];
  int opened = 1, at = 1;
  double most = 128;
  open_store(&stores[0], "untuned", "");
  for (; at + 1 < count && arguments[at][0] == '-'; at += 2) {
    if (strcmp(arguments[at], "--wisdom") == 0 && opened == 1)
      open_store(&stores[opened++], "tuned", arguments[at + 1]);
    else if (strcmp(arguments[at], "--sides") == 0)
      most = atof(arguments[at + 1]);
    else
      check(MMC_E_ARG, arguments[at]);
  }
  static const int64_t usual[] = {3, 4, 5, 6, 8, 10, 20, 100};
  if (at == count)
    for (size_t u = 0; u < sizeof usual / sizeof usual[0]; u++)
      bench(stores, opened, usual[u], most);
  for (; at < count; at++) {
    const long n = atol(arguments[at]);
    check(n >= 1 && n <= MOST_FACTORS ? MMC_OK : MMC_E_ARG, arguments[at]);
    bench(stores, opened, n, most);
  }
  for (int s = 0; s < opened; s++) mmc_context_destroy(stores[s].context);
  return 0;
}
