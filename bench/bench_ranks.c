/* bench_ranks.c: chains on several ranks against the same engine used product by product.
 *
 *     bench_ranks words [CHAINS] [SEED]                 by counting, on 4, 16 and 64 ranks
 *     bench_ranks halves [CHAINS] [SEED]                by prices, on 4, 16 and 64 ranks
 *     mpirun -np 2 bench_ranks seconds [CHAINS] [SEED]  measured, with the ScaLAPACK of the module
 *
 * words: random chains of 4 to 10 factors with sides of 32 to 8192, evenly spread by their
 * logarithm; the plan of fewest words against the words of p?gemm with every matrix on the square
 * grid. halves: the predicted seconds of plans in which all ranks work on one product after the
 * other, or fewer on all products, by those of plans in which two operands may be computed at the
 * same time. seconds: random chains, and tall ones, whose factors lie in memory; the plan for time
 * against p?gemm product by product, in the same order, with every matrix on 1 x P ranks and on P x
 * 1 and blocks of 64, whichever is faster. Runs are paired, and their medians compared. Prints a
 * line of JSON each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascending.h"
#include "base/monotonic.h"
#include "base/random.h"
#include "ranks/choose.h"
#ifdef MMCI_WITH_MPI
#include "ranks/mpi/scalapack.h"
#endif

enum { MOST = 10, LEAST_SIDE = 32, MOST_SIDE = 8192 };

static uint64_t state;

static double uniform(void) {
  return (double)(mmci_random_bits(&state) >> 11) * 0x1p-53;
}

static int64_t random_side(double least, double most) {
  return (int64_t)floor(least * pow(most / least, uniform()) + 0.5);
}

/* A chain in the order of fewest multiplications. */
typedef struct sample {
  int64_t n, dims[MOST + 1];
  mmci_ranks_product products[MOST];
} sample;

static bool find_order(mmc_context *context, sample *s) {
  mmc_chain *chain;
  mmc_plan *plan;
  if (mmc_chain_create(context, MMC_F64, s->n, s->dims, NULL, &chain) != MMC_OK) return false;
  bool found = mmc_plan_create(context, chain, NULL, &plan) == MMC_OK;
  for (int64_t i = 0; found && i < s->n - 1; i++) {
    mmc_step step;
    found = mmc_plan_step(plan, i, &step) == MMC_OK;
    s->products[i] = (mmci_ranks_product){step.m, step.k, step.n, step.left, step.right};
  }
  if (found) mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  return found;
}

static mmci_ranks_problem problem_of(const sample *s, int32_t ranks) {
  return (mmci_ranks_problem){.factor_count = s->n,
                              .step_count = s->n - 1,
                              .dims = s->dims,
                              .products = s->products,
                              .dtype = MMC_F64,
                              .ranks = ranks,
                              .all_ranks = true,
                              .limit_bytes = UINT64_MAX,
                              .goal = MMCI_RANKS_WORDS,
                              .rates = mmci_ranks_assumed()};
}

static int count_words(mmc_context *context, int chains, uint64_t seed) {
  for (int32_t side = 2; side <= 8; side *= 2) {
    double logs = 0, least = INFINITY, most = 0, plan_s = 0;
    int worse = 0;
    state = seed;
    for (int c = 0; c < chains; c++) {
      sample s = {.n = 4 + (int64_t)(mmci_random_bits(&state) % 7)};
      for (int64_t i = 0; i <= s.n; i++) s.dims[i] = random_side(LEAST_SIDE, MOST_SIDE);
      if (!find_order(context, &s)) return 1;
      const mmci_ranks_problem p = problem_of(&s, side * side);
      mmci_ranks_plan plan;
      const double start = mmci_now_s();
      if (mmci_ranks_choose(&p, &plan, NULL) != MMC_OK) return 1;
      plan_s += mmci_now_s() - start;
      const double ratio = mmci_u128_to_double(mmci_ranks_fixed_grid_words(&p, side, side)) /
                           mmci_u128_to_double(plan.words);
      mmci_ranks_plan_destroy(&plan);
      logs += log(ratio);
      worse += ratio < 1;
      if (ratio < least) least = ratio;
      if (ratio > most) most = ratio;
    }
    printf(
        "{\"bench\": \"ranks_words\", \"ranks\": %d, \"chains\": %d, \"seed\": %llu, "
        "\"fewer_geomean\": %.4g, \"least\": %.4g, \"most\": %.4g, \"worse\": %d, "
        "\"plan_us\": %.4g}\n",
        (int)(side * side), chains, (unsigned long long)seed, exp(logs / chains), least, most,
        worse, 1e6 * plan_s / chains);
  }
  return 0;
}

static int compare_halves(mmc_context *context, int chains, uint64_t seed) {
  static const double sides[3][2] = {{8, 256}, {32, 1024}, {32, 8192}};
  for (int r = 0; r < 3; r++) {
    for (int32_t ranks = 4; ranks <= 64; ranks *= 4) {
      double logs = 0, most = 0, together_s = 0, plan_s = 0;
      int apart = 0;
      state = seed;
      for (int c = 0; c < chains; c++) {
        sample s = {.n = 4 + (int64_t)(mmci_random_bits(&state) % 7)};
        for (int64_t i = 0; i <= s.n; i++) s.dims[i] = random_side(sides[r][0], sides[r][1]);
        if (!find_order(context, &s)) return 1;
        mmci_ranks_problem p = problem_of(&s, ranks);
        mmci_ranks_plan together, plan;
        p.all_ranks = false;
        p.goal = MMCI_RANKS_SECONDS;
        const double start = mmci_now_s();
        if (mmci_ranks_choose(&p, &together, NULL) != MMC_OK) return 1;
        const double middle = mmci_now_s();
        p.halves = true;
        if (mmci_ranks_choose(&p, &plan, NULL) != MMC_OK) return 1;
        plan_s += mmci_now_s() - middle;
        together_s += middle - start;
        const double ratio = together.predicted_s / plan.predicted_s;
        bool has_apart = false;
        for (int64_t i = 0; i < p.step_count; i++) has_apart = has_apart || plan.steps[i].apart;
        apart += has_apart;
        logs += log(ratio);
        if (ratio > most) most = ratio;
        mmci_ranks_plan_destroy(&plan);
        mmci_ranks_plan_destroy(&together);
      }
      printf(
          "{\"bench\": \"ranks_halves\", \"sides\": [%g, %g], \"ranks\": %d, \"chains\": %d, "
          "\"seed\": %llu, \"apart\": %d, \"faster_geomean\": %.4g, \"most\": %.4g, "
          "\"plan_us\": %.4g, \"plan_together_us\": %.4g}\n",
          sides[r][0], sides[r][1], (int)ranks, chains, (unsigned long long)seed, apart,
          exp(logs / chains), most, 1e6 * plan_s / chains, 1e6 * together_s / chains);
    }
  }
  return 0;
}

#ifdef MMCI_WITH_MPI

enum { RUNS = 7, BLOCK = 64 };

/* What the peer has: a grid of BLACS, and every matrix on it, column-major. */
typedef struct peer {
  const mmci_scalapack *library;
  int context, rows, cols, row, col;
} peer;

static int local_size(int64_t size, int at, int parts) {
  int64_t own = 0;
  for (int64_t first = (int64_t)at * BLOCK; first < size; first += (int64_t)parts * BLOCK)
    own += size - first < BLOCK ? size - first : BLOCK;
  return (int)own;
}

typedef struct spread {
  double *data;
  int descriptor[9];
} spread;

static spread make_spread(const peer *p, int64_t rows, int64_t cols) {
  const int high = local_size(rows, p->row, p->rows), wide = local_size(cols, p->col, p->cols);
  const size_t count = (size_t)high * (size_t)wide;
  spread s = {
      .data = malloc((count + 1) * sizeof(double)),
      .descriptor = {1, p->context, (int)rows, (int)cols, BLOCK, BLOCK, 0, 0, high > 0 ? high : 1}};
  for (size_t e = 0; e < count; e++) s.data[e] = uniform() - 0.5;
  return s;
}

/* Multiplies product by product; returns the seconds. */
static double run_peer(const peer *p, const sample *s, spread *factors, spread *results) {
  const double one = 1, zero = 0;
  const int first = 1;
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = mmci_now_s();
  for (int64_t i = 0; i < s->n - 1; i++) {
    const mmci_ranks_product *x = &s->products[i];
    const spread *a = x->left < s->n ? &factors[x->left] : &results[x->left - s->n];
    const spread *b = x->right < s->n ? &factors[x->right] : &results[x->right - s->n];
    const int m = (int)x->m, k = (int)x->k, n = (int)x->n;
    p->library->pgemm[MMC_F64]("N", "N", &m, &n, &k, &one, a->data, &first, &first, a->descriptor,
                               b->data, &first, &first, b->descriptor, &zero, results[i].data,
                               &first, &first, results[i].descriptor);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return mmci_now_s() - start;
}

/* Returns the median, and leaves the least in front. */
static double median(double *values) {
  qsort(values, RUNS, sizeof *values, mmci_ascending_doubles);
  return values[RUNS / 2];
}

/* One chain, by ours and by both peers in turn. Returns the ratio of medians, and writes that of
 * the least seconds to *of_least. */
static double measure(mmc_context *context, mmc_team *team, const peer peers[2], const sample *s,
                      double seconds[3], double *of_least) {
  mmc_chain *chain;
  mmc_team_plan *plan;
  mmc_piece piece;
  double times[3][RUNS];
  spread factors[2][MOST], results[2][MOST];
  mmc_matrix whole[MOST];
  if (mmc_chain_create(context, MMC_F64, s->n, s->dims, NULL, &chain) != MMC_OK ||
      mmc_team_plan_create(context, team, chain, NULL, &plan) != MMC_OK)
    return NAN;
  for (int64_t i = 0; i < s->n; i++) {
    whole[i] = (mmc_matrix){.rows = s->dims[i], .cols = s->dims[i + 1]};
    const size_t count = (size_t)(s->dims[i] * s->dims[i + 1]);
    double *data = malloc(count * sizeof *data);
    for (size_t e = 0; e < count; e++) data[e] = uniform() - 0.5;
    whole[i].data = data;
    for (int p = 0; p < 2; p++) factors[p][i] = make_spread(&peers[p], s->dims[i], s->dims[i + 1]);
  }
  for (int64_t i = 0; i < s->n - 1; i++)
    for (int p = 0; p < 2; p++)
      results[p][i] = make_spread(&peers[p], s->products[i].m, s->products[i].n);
  mmc_team_plan_piece(plan, -1, mmc_team_rank(team), &piece);
  mmc_matrix out = {.rows = piece.rows, .cols = piece.cols};
  out.data = malloc((size_t)(piece.rows * piece.cols + 1) * sizeof(double));
  for (int r = -1; r < RUNS; r++) { /* the first run warms up */
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = mmci_now_s();
    if (mmc_team_execute(plan, whole, &out) != MMC_OK) return NAN;
    MPI_Barrier(MPI_COMM_WORLD);
    const double taken = mmci_now_s() - start;
    if (r >= 0) times[0][r] = taken;
    for (int p = 0; p < 2; p++) {
      const double peer_s = run_peer(&peers[p], s, factors[p], results[p]);
      if (r >= 0) times[1 + p][r] = peer_s;
    }
  }
  for (int t = 0; t < 3; t++) seconds[t] = median(times[t]);
  *of_least = fmin(times[1][0], times[2][0]) / times[0][0];
  for (int64_t i = 0; i < s->n; i++) {
    free(whole[i].data);
    for (int p = 0; p < 2; p++) free(factors[p][i].data);
  }
  for (int64_t i = 0; i < s->n - 1; i++)
    for (int p = 0; p < 2; p++) free(results[p][i].data);
  free(out.data);
  mmc_team_plan_destroy(plan);
  mmc_chain_destroy(chain);
  return fmin(seconds[1], seconds[2]) / seconds[0];
}

static int measure_all(mmc_context *context, int chains, uint64_t seed) {
  mmc_team *team;
  mmci_scalapack library;
  if (mmc_team_open(context, "scalapack", NULL, &team) != MMC_OK ||
      mmci_scalapack_open(&library, NULL) != MMC_OK) {
    char message[480];
    fprintf(stderr, "bench_ranks: %s\n", mmc_context_message(context, message, sizeof message));
    return 1;
  }
  const int rank = mmc_team_rank(team), count = mmc_team_count(team);
  peer peers[2];
  int *map = calloc((size_t)count, sizeof *map);
  for (int r = 0; r < count; r++) map[r] = r;
  for (int p = 0; p < 2; p++) {
    peers[p] = (peer){.library = &library,
                      .rows = p == 0 ? 1 : count,
                      .cols = p == 0 ? count : 1,
                      .row = p == 0 ? 0 : rank,
                      .col = p == 0 ? rank : 0};
    peers[p].context = library.sys2blacs_handle(MPI_COMM_WORLD);
    library.gridmap(&peers[p].context, map, peers[p].rows, peers[p].rows, peers[p].cols);
  }
  double logs = 0, tall_logs = 0, least_logs = 0, least = INFINITY;
  int tall_count = 0, below = 0;
  for (int c = 0; c < chains; c++) {
    state = seed + (uint64_t)c * UINT64_C(1000003); /* the same chain on every rank */
    const bool is_tall = c % 3 == 0;
    sample s = {.n = 3 + (int64_t)(mmci_random_bits(&state) % 4)};
    for (int64_t i = 0; i <= s.n; i++)
      s.dims[i] = is_tall && i == 0 ? random_side(20000, 60000)
                  : is_tall         ? random_side(32, 256)
                                    : random_side(64, 1500);
    double seconds[3] = {0}, of_least = NAN;
    if (!find_order(context, &s)) return 1;
    const double ratio = measure(context, team, peers, &s, seconds, &of_least);
    logs += log(ratio);
    least_logs += log(of_least);
    below += ratio < 1;
    if (is_tall) tall_logs += log(ratio);
    tall_count += is_tall;
    if (ratio < least) least = ratio;
    if (rank != 0) continue;
    printf("{\"bench\": \"ranks_seconds\", \"ranks\": %d, \"tall\": %s, \"dims\": [", count,
           is_tall ? "true" : "false");
    for (int64_t i = 0; i <= s.n; i++) printf("%s%lld", i > 0 ? ", " : "", (long long)s.dims[i]);
    printf(
        "], \"ours_s\": %.4g, \"peer_1xP_s\": %.4g, \"peer_Px1_s\": %.4g, \"ratio\": %.4g, "
        "\"ratio_of_least\": %.4g}\n",
        seconds[0], seconds[1], seconds[2], ratio, of_least);
    fflush(stdout);
  }
  if (rank == 0)
    printf(
        "{\"bench\": \"ranks_seconds\", \"ranks\": %d, \"chains\": %d, \"seed\": %llu, "
        "\"geomean\": %.4g, \"tall_geomean\": %.4g, \"least\": %.4g, \"below_1\": %d, "
        "\"geomean_of_least\": %.4g}\n",
        count, chains, (unsigned long long)seed, exp(logs / chains),
        exp(tall_logs / (tall_count > 0 ? tall_count : 1)), least, below, exp(least_logs / chains));
  free(map);
  mmc_team_close(team);
  return 0;
}

#else

static int measure_all(mmc_context *context, int chains, uint64_t seed) {
  (void)context;
  (void)chains;
  (void)seed;
  fprintf(stderr, "bench_ranks: built without an MPI\n");
  return 1;
}

#endif

int main(int argc, char **argv) {
  mmc_context *context;
  const int chains = argc > 2 ? atoi(argv[2]) : 150;
  const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
  if (argc < 2 || chains < 1 || mmc_context_create(NULL, &context) != MMC_OK) {
    fprintf(stderr, "usage: bench_ranks words|halves|seconds [CHAINS] [SEED]\n");
    return 2;
  }
  const int result = strcmp(argv[1], "words") == 0    ? count_words(context, chains, seed)
                     : strcmp(argv[1], "halves") == 0 ? compare_halves(context, chains, seed)
                                                      : measure_all(context, chains, seed);
  mmc_context_destroy(context);
  return result;
}
