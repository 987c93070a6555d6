/* interval_dp.c: finds every sub-chain's least cost, in O(n^3) time (Godbole 1973), for any price
 * that adds up over products. It is the solver "table".
 *
 * Which numbers hold the costs is decided here, from a bound E that no entry of the table exceeds:
 * for a sub-chain (a, b) whose least dim is p[w], the fan of triangles from w costs at most
 *
 *     p[w] (sum of p[t] p[t+1] over a <= t < b  +  p[a] p[b]),
 *
 * and all sub-chains with that w lie between the nearest lighter vertices on either side. So E is
 * the greatest, over w, of p[w] (sum of p[t] p[t+1] in that range + product of its two greatest
 * dims). It also bounds m p[a] p[b] for any m that is at most the dims of a range that a and b lie
 * in.
 *
 * Doubles hold the costs when E <= 2^51 and every dim <= 2^51. Entries are then exact. A candidate
 * is a sum of three non-negative integers, one of them a product, built by roundings that are
 * monotone: as long as no partial result reaches 2^53 each is exact, and once one does the result
 * is at least 2^53 > E. So an inexact candidate never is the least. Pruning compares L = c + p gain
 * + rest with top. An element of base is an entry less m p p, so within E of 0, hence -E <= rest <=
 * 2 E and |top| <= 2 E, or rest is infinite: L is exact or at least 2^53 - E > 2 E, and the
 * comparison is right either way.
 *
 * 64-bit integers hold them when 3 E + (greatest dim)^3 < 2^62. The infinite cell is 2^62: it
 * exceeds every candidate and every top, by more than rest may take off, and no sum that holds one
 * reaches 2^63. 128-bit integers hold them by the same argument with 2^126. Beyond that, unsigned
 * 128-bit numbers that saturate are used, without pruning. */
#include <string.h>

#include "base/alloc.h"
#include "order/interval_dp.h"

#if defined(__x86_64__)
static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}
static bool has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

static bool has_plain_c(void) {
  return true;
}

/* The instruction sets, best first. */
static const struct {
  const char *name;
  bool (*supported)(void); /* says whether this CPU has the instructions */
  const mmci_dp_kernel *f64, *i64;
} sets[] = {
#if defined(__x86_64__)
    {"avx512", has_avx512, &mmci_dp_avx512_f64, &mmci_dp_avx512_i64},
    {"avx2", has_avx2, &mmci_dp_avx2_f64, &mmci_dp_avx2_i64},
#endif
    {"portable", has_plain_c, &mmci_dp_portable_f64, &mmci_dp_portable_i64},
};
enum { SETS = sizeof sets / sizeof sets[0] };

/* ---- the bound ------------------------------------------------------------------------------ */

/* A run of vertices whose first one's left neighbour is lighter than all of them. */
typedef struct run_of_vertices {
  int64_t weight; /* the least weight in the run */
  int64_t greatest, second;
  mmci_u128 sides; /* sum of dim times next dim inside the run */
  int32_t first;
} run_of_vertices;

static run_of_vertices join_runs(const int64_t *dims, run_of_vertices left, run_of_vertices right) {
  mmci_u128 side = mmci_multiplications(dims[right.first - 1], dims[right.first], 1);
  run_of_vertices both = left;
  both.sides = mmci_u128_add(mmci_u128_add(left.sides, right.sides), side);
  if (right.greatest > left.greatest) {
    both.greatest = right.greatest;
    both.second = right.second > left.greatest ? right.second : left.greatest;
  } else if (right.greatest > left.second) {
    both.second = right.greatest;
  }
  return both;
}

static mmci_u128 fan(run_of_vertices r) {
  mmci_u128 area = mmci_u128_add(r.sides, mmci_multiplications(r.greatest, r.second, 1));
  return mmci_u128_mul(area, (mmci_u128)(uint64_t)r.weight);
}

/* The stack holds runs of increasing weight that make up the vertices so far. */
static mmc_status bound_entries(const mmci_order_problem *problem, mmci_u128 *out,
                                mmci_error *error) {
  size_t vertices = (size_t)problem->n + 1;
  run_of_vertices *stack = mmci_alloc_array(vertices, sizeof *stack);
  if (stack == NULL) return mmci_fail_nomem(error, vertices * sizeof *stack);
  mmci_u128 greatest = 0;
  size_t top = 0;
  for (int32_t t = 0; t <= problem->n; t++) {
    int64_t weight = problem->dims[t];
    run_of_vertices next = {.weight = weight, .greatest = weight, .first = t};
    if (top > 0 && stack[top - 1].weight >= weight) {
      run_of_vertices heavier = stack[--top];
      for (;;) {
        mmci_u128 cost = fan(heavier);
        if (cost > greatest) greatest = cost;
        if (top == 0 || stack[top - 1].weight < weight) break;
        heavier = join_runs(problem->dims, stack[--top], heavier);
      }
      next = join_runs(problem->dims, heavier, next);
      next.weight = weight;
    }
    stack[top++] = next;
  }
  while (top > 0) {
    mmci_u128 cost = fan(stack[top - 1]);
    if (cost > greatest) greatest = cost;
    if (top >= 2) stack[top - 2] = join_runs(problem->dims, stack[top - 2], stack[top - 1]);
    top--;
  }
  free(stack);
  *out = greatest;
  return MMC_OK;
}

/* ---- the kernel ----------------------------------------------------------------------------- */

static mmc_status find_set(const char *name, int *out, mmci_error *error) {
  int found = -1;
  bool known = name == NULL || strcmp(name, "auto") == 0, any = known;
  for (int s = 0; s < SETS && found < 0; s++) {
    bool named = !any && strcmp(name, sets[s].name) == 0;
    known = known || named;
    if ((any || named) && sets[s].supported()) found = s;
  }
  *out = found;
  if (found >= 0) return MMC_OK;
  char there[128] = "auto";
  for (int s = 0; s < SETS; s++)
    if (sets[s].supported()) strcat(strcat(there, ", "), sets[s].name);
  return mmci_fail_argument(error, MMC_E_ARG, "kernel", "%s '%s'; there are %s",
                            known ? "this CPU cannot run" : "no such kernel:", name, there);
}

static mmc_status choose_kernel(mmci_dp_run *run, mmci_error *error) {
  const mmci_order_problem *problem = run->problem;
  int set = 0;
  mmc_status status = find_set(problem->kernel, &set, error);
  if (status != MMC_OK) return status;
  if (problem->price != NULL) {
    run->kernel = &mmci_dp_price;
    return MMC_OK;
  }
  status = bound_entries(problem, &run->ceiling, error);
  if (status != MMC_OK) return status;

  int64_t greatest = 0;
  for (int32_t t = 0; t <= problem->n; t++)
    if (problem->dims[t] > greatest) greatest = problem->dims[t];
  mmci_u128 cube = mmci_multiplications(greatest, greatest, greatest);
  mmci_u128 room = mmci_u128_add(mmci_u128_mul(run->ceiling, 3), cube);
  const int64_t exact = (int64_t)1 << 51;
  if (run->ceiling <= (mmci_u128)exact && greatest <= exact)
    run->kernel = sets[set].f64;
  else if (room < (mmci_u128)1 << 62)
    run->kernel = sets[set].i64;
  else if (room < (mmci_u128)1 << 126)
    run->kernel = &mmci_dp_portable_i128;
  else
    run->kernel = &mmci_dp_saturating_u128;
  return MMC_OK;
}

/* ---- the solver ----------------------------------------------------------------------------- */

static bool applicable(const mmci_order_problem *problem, const char **reason) {
  *reason = "its table, of n^2/2 entries, exceeds the address space";
  return problem->n < (int32_t)1 << 22;
}

static void find_lightest(mmci_dp_run *run) {
  const int64_t *dims = run->problem->dims;
  for (int32_t I = 0; I < run->table->tiles; I++) {
    int32_t v = I * MMCI_DP_TILE;
    for (int32_t t = v + 1; t < (I + 1) * MMCI_DP_TILE && t <= run->table->n; t++)
      if (dims[t] < dims[v]) v = t;
    run->lightest[I] = v;
  }
}

static mmc_status fill_table(mmci_dp_run *run, mmci_error *error) {
  const mmci_dp_kernel *kernel = run->kernel;
  size_t chain_bytes = kernel->chain_bytes != NULL ? kernel->chain_bytes(run->table->tiles) : 0;
  run->lightest = mmci_alloc_array((size_t)run->table->tiles, sizeof *run->lightest);
  run->chain = mmci_alloc_aligned(chain_bytes, 1);
  if (run->lightest == NULL || run->chain == NULL) return mmci_fail_nomem(error, chain_bytes);
  find_lightest(run);
  if (kernel->prepare != NULL) kernel->prepare(run);
  return mmci_dp_sweep(run, error);
}

static mmc_status solve(const mmci_order_problem *problem, bool keep_table, mmci_order_answer *out,
                        mmci_error *error) {
  mmci_dp_run run = {.problem = problem, .bad_price = ATOMIC_FLAG_INIT};
  mmci_tree tree;
  mmc_status status = choose_kernel(&run, error);
  if (status == MMC_OK && problem->price != NULL && problem->n <= MMCI_DP_SMALL)
    return mmci_dp_solve_small(problem, out, error);
  if (status == MMC_OK) status = mmci_dp_table_create(problem->n, run.kernel, &run.table, error);
  if (status == MMC_OK) status = fill_table(&run, error);
  if (status == MMC_OK) status = mmci_dp_trace(&run, &tree, error);
  if (status == MMC_OK) {
    *out = (mmci_order_answer){.tree = tree, .kernel = run.kernel->name};
    if (problem->price != NULL) {
      out->price = mmci_dp_price_of(&run);
    } else {
      out->multiplications = run.kernel->entry(run.table, 0, problem->n);
      if (keep_table) {
        out->table = &run.table->base;
        run.table = NULL;
      }
    }
  }
  mmci_dp_table_destroy(run.table);
  free(run.lightest);
  free(run.chain);
  return status;
}

const mmci_solver mmci_solver_interval_dp = {
    .name = "table",
    .applicable = applicable,
    .solve = solve,
};
