/* test_chains.c: chains on a device, through the public interface alone: random ones, sets of
 * matrices in turns, executions that wait for each other, precisions, wrong arguments. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chain_problem.h"

static const uint64_t seed = 20261121;

/* f32, or what the device has instead. */
static mmc_dtype some_dtype(const setting *on) {
  return on->dtypes[MMC_F32] ? MMC_F32 : MMC_F64;
}

static bool is_cuda(const setting *on) {
  return strncmp(on->device, "cuda", 4) == 0;
}

/* Six sets of matrices of one plan, more than are kept as graphs, in any order, and values that
 * change between. */
static void test_sets(const setting *on, int rounds, uint64_t *random) {
  enum { SETS = 6 };
  problem sets[SETS];
  job j = {0};
  shape s = {
      .dtype = some_dtype(on), .n = 5, .dims = {60, 90, 33, 70, 121, 64}, .where = ON_DEVICE};
  mmc_plan_options options = options_for(on);
  options.location = MMC_DEVICE;
  bool right = true;
  for (int t = 0; t < SETS; t++) {
    s.seed = random_bits(random);
    s.values = (values)(t % 2);
    right = problem_create(on, &s, &sets[t]) && problem_know(&sets[t]) && right;
  }
  right = right && job_create(&sets[0], &options, &j);
  for (int t = 0; t < rounds && right; t++) {
    problem *p = &sets[t < 2 * SETS ? t % SETS : (int)random_below(random, SETS)];
    if (random_below(random, 4) == 0) right = problem_fill(p, random) && problem_know(p);
    right = right && execute(p, &j);
  }
  expect(right, "sets of matrices in turns");
  job_destroy(&j);
  for (int t = 0; t < SETS; t++) problem_destroy(&sets[t]);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Many executions on CUDA's default stream before anybody waits; then two runs on it, of which the
 * second reads what the first writes. */
static void test_enqueue(const setting *on, uint64_t *random) {
  const int64_t d = on->small || !is_cuda(on) ? 70 : 700;
  const shape s = {.dtype = some_dtype(on),
                   .n = 3,
                   .dims = {d, d + 3, d - 5, d + 1},
                   .ops = {MMC_OP_T, MMC_OP_N, MMC_OP_T},
                   .where = ON_DEVICE,
                   .seed = random_bits(random)};
  problem p;
  job j = {0};
  mmc_plan_options options = options_for(on);
  bool right = problem_create(on, &s, &p) && job_create(&p, &options, &j) &&
               held_write(on, &p.held[s.n]) && succeeded(on, mmc_wait(j.run), "mmc_wait before");
  for (int t = 0; t < 7 && right; t++) right = succeeded(on, start(&p, j.run, true), "mmc_enqueue");
  right = right && succeeded(on, mmc_wait(j.run), "mmc_wait") &&
          problem_check(&p, 0, (poisoned){-1, -1});
  expect(right && execute(&p, &j), "executions on the default stream");

  mmc_memory *memory = NULL;
  mmc_chain *chains[2] = {NULL, NULL};
  mmc_plan *plans[2] = {NULL, NULL};
  mmc_run *runs[2] = {NULL, NULL};
  const int64_t dims[] = {d, d - 5, d + 1};
  const size_t bytes = (size_t)(dims[0] * dims[1]) * mmc_dtype_size(s.dtype);
  right = right && held_write(on, &p.held[s.n]) &&
          succeeded(on, mmc_memory_create(on->context, on->device, bytes, &memory), "memory") &&
          succeeded(on, mmc_chain_create(on->context, s.dtype, 2, s.dims, s.ops, &chains[0]),
                    "a chain") &&
          succeeded(on,
                    mmc_chain_create(on->context, s.dtype, 2, dims, (mmc_op[]){MMC_OP_N, s.ops[2]},
                                     &chains[1]),
                    "a chain");
  for (int t = 0; t < 2 && right; t++)
    right = succeeded(on, mmc_plan_create(on->context, chains[t], &options, &plans[t]), "a plan") &&
            succeeded(on, mmc_run_create(plans[t], &runs[t]), "a run");
  if (right) {
    const mmc_matrix between = {.data = mmc_memory_address(memory),
                                .rows = dims[0],
                                .cols = dims[1],
                                .location = MMC_DEVICE};
    const mmc_matrix second[] = {between, p.factors[2]};
    for (int t = 0; t < 3 && right; t++)
      right = succeeded(on, mmc_enqueue(runs[0], NULL, p.factors, &between), "the first run") &&
              succeeded(on, mmc_enqueue(runs[1], NULL, second, &p.out), "the second run");
    right = right && succeeded(on, mmc_wait(runs[1]), "mmc_wait") &&
            problem_check(&p, 0, (poisoned){-1, -1}) &&
            succeeded(on, mmc_wait(runs[0]), "mmc_wait");
  }
  expect(right, "two runs on the default stream");
  for (int t = 0; t < 2; t++) {
    mmc_run_destroy(runs[t]);
    mmc_plan_destroy(plans[t]);
    mmc_chain_destroy(chains[t]);
  }
  mmc_memory_destroy(memory);
  job_destroy(&j);
  problem_destroy(&p);
}

/* ---- precision ------------------------------------------------------------------------------- */

static void test_precision(const setting *on, uint64_t *random) {
  static const char *const NAMES[] = {"native", "faithful", "fast"};
  for (int t = 0; t < 3 * DTYPES; t++) {
    problem p;
    job j = {0};
    shape s = {.dtype = (mmc_dtype)(t / 3), .n = 3, .values = REAL, .where = ANYWHERE};
    if (!on->dtypes[s.dtype]) continue;
    const int64_t d = on->small || !is_cuda(on) ? 40 : 250;
    for (int i = 0; i <= s.n; i++) s.dims[i] = d + random_below(random, d);
    s.seed = random_bits(random);
    mmc_plan_options options = options_for(on);
    options.precision = NAMES[t % 3];
    expect(problem_create(on, &s, &p) && problem_know(&p) && job_create(&p, &options, &j) &&
               execute(&p, &j),
           NAMES[t % 3]);
    job_destroy(&j);
    problem_destroy(&p);
  }
}

/* ---- wrong arguments ------------------------------------------------------------------------- */

/* Spoils the matrices as one of several cases does, and says what the message must name; NULL past
 * the last. */
static const char *spoil(int which, const problem *p, mmc_matrix *factors, mmc_matrix *out) {
  switch (which) {
    case 0:
      factors[1].rows++;
      return "factors[1]";
    case 1:
      factors[2].cols--;
      return "factors[2]";
    case 2:
      out->rows++;
      return "out";
    case 3:
      factors[0].ld = 1;
      return "factors[0]";
    case 4:
      out->ld = -1;
      return "out";
    case 5:
      factors[1].data = NULL;
      return "factors[1]";
    case 6:
      factors[1].data = (char *)factors[1].data + 1;
      return "factors[1]";
    case 7:
      out->layout = (mmc_layout)2;
      return "out";
    case 8:
      factors[2].location = (mmc_location)2;
      return "factors[2]";
    case 9:
      out->data = factors[0].data;
      return "factors[0]";
    case 10:
      factors[1].data = (char *)out->data + mmc_dtype_size(p->shape.dtype) * 3;
      return "factors[1]";
    case 11:
      factors[0].ld = INT64_MAX / 2;
      return "factors[0]";
    default:
      return NULL;
  }
}

/* Refused, with a message; what came before and comes after is right. */
static void test_wrong_matrices(const setting *on, where where, uint64_t *random) {
  const shape s = {.dtype = MMC_F64,
                   .n = 3,
                   .dims = {31, 47, 52, 44},
                   .values = REAL,
                   .where = where,
                   .seed = random_bits(random)};
  problem p;
  job j = {0};
  mmc_plan_options options = options_for(on);
  bool right = problem_create(on, &s, &p) && problem_know(&p) && job_create(&p, &options, &j);
  for (int which = 0; right; which++) {
    mmc_matrix factors[FACTORS_MAX], out = p.out;
    char message[512] = "";
    memcpy(factors, p.factors, sizeof factors);
    const char *name = spoil(which, &p, factors, &out);
    if (name == NULL) break;
    for (int enqueue = 0; enqueue < 2; enqueue++) {
      mmc_status status = enqueue == 1 ? mmc_enqueue(j.run, NULL, factors, &out)
                                       : mmc_execute(j.run, factors, &out);
      mmc_context_message(on->context, message, sizeof message);
      if (expect(status == MMC_E_ARG && strstr(message, name) != NULL, "wrong matrices are E_ARG"))
        continue;
      printf("  case %d, status %d: %s\n", which, (int)status, message);
    }
    right = execute(&p, &j);
  }
  if (right)
    expect(mmc_execute(j.run, NULL, &p.out) == MMC_E_ARG &&
               mmc_execute(j.run, p.factors, NULL) == MMC_E_ARG &&
               mmc_enqueue(j.run, NULL, NULL, &p.out) == MMC_E_ARG &&
               mmc_enqueue(j.run, NULL, p.factors, NULL) == MMC_E_ARG &&
               mmc_execute(NULL, p.factors, &p.out) == MMC_E_ARG && mmc_wait(NULL) == MMC_E_ARG,
           "NULL is E_ARG");
  expect(right && execute(&p, &j) && execute(&p, &j), "wrong matrices leave a run as it was");
  job_destroy(&j);
  problem_destroy(&p);
}

static void test_wrong_options(const setting *on) {
  static const struct {
    const char *device, *precision, *solver;
    int location;
    mmc_status status;
    const char *named;
  } CASES[] = {{"cuda:x", NULL, NULL, 0, MMC_E_ARG, "device"},
               {"cuda:", NULL, NULL, 0, MMC_E_ARG, "device"},
               {"cuda:9999", NULL, NULL, 0, MMC_E_UNSUPPORTED, "cuda:9999"},
               {NULL, "exact", NULL, 0, MMC_E_ARG, "precision"},
               {NULL, NULL, "best", 0, MMC_E_ARG, "solver"},
               {NULL, NULL, NULL, 7, MMC_E_ARG, "location"}};
  mmc_chain *chain = NULL;
  if (!expect(mmc_chain_parse(on->context, "f64:3x4x5", &chain) == MMC_OK, "a chain")) return;
  for (size_t t = 0; t < sizeof CASES / sizeof *CASES; t++) {
    char message[512];
    mmc_plan *plan = NULL;
    mmc_plan_options options = options_for(on);
    if (CASES[t].device != NULL) options.device = CASES[t].device;
    options.precision = CASES[t].precision;
    options.solver = CASES[t].solver;
    options.location = (mmc_location)CASES[t].location;
    mmc_status status = mmc_plan_create(on->context, chain, &options, &plan);
    mmc_context_message(on->context, message, sizeof message);
    if (!expect(
            status == CASES[t].status && plan == NULL && strstr(message, CASES[t].named) != NULL,
            "wrong options are refused"))
      printf("  case %zu, status %d: %s\n", t, (int)status, message);
    mmc_plan_destroy(plan);
  }
  mmc_memory *memory = NULL;
  expect(mmc_memory_create(on->context, "cuda:9999", 8, &memory) == MMC_E_UNSUPPORTED &&
             mmc_memory_create(on->context, "gpu", 8, &memory) == MMC_E_ARG &&
             mmc_memory_create(on->context, on->device, 8, NULL) == MMC_E_ARG && memory == NULL,
         "memory of no device is refused");
  mmc_chain_destroy(chain);
  mmc_memory_destroy(NULL);
  mmc_run_destroy(NULL);
  mmc_plan_destroy(NULL);
}

static void random_chains_in(const setting *on) {
  uint64_t random = seed;
  printf("seed %" PRIu64 "\n", seed);
  test_random_chains(on,
                     on->race      ? 3
                     : on->small   ? 10
                     : is_cuda(on) ? 250
                                   : 300,
                     on->race      ? 40
                     : on->small   ? 80
                     : is_cuda(on) ? 200
                                   : 14,
                     &random);
  if (!on->small && !is_cuda(on)) test_random_chains(on, 10, 80, &random);
}
static void random_chains(const subject *on) {
  with_setting(on, random_chains_in);
}

static void sets_and_streams_in(const setting *on) {
  uint64_t random = seed;
  test_sets(on, on->race ? 8 : on->small ? 16 : is_cuda(on) ? 80 : 24, &random);
  test_enqueue(on, &random);
}
static void sets_and_streams(const subject *on) {
  with_setting(on, sets_and_streams_in);
}

static void precisions_in(const setting *on) {
  uint64_t random = seed;
  test_precision(on, &random);
}
static void precisions(const subject *on) {
  with_setting(on, precisions_in);
}

static void arguments_in(const setting *on) {
  uint64_t random = seed;
  test_wrong_matrices(on, ON_HOST, &random);
  test_wrong_matrices(on, ON_DEVICE, &random);
  test_wrong_options(on);
}
static void arguments(const subject *on) {
  with_setting(on, arguments_in);
}

int main(int argc, char **argv) {
  static const conformance_test tests[] = {
      {"random chains", random_chains, true},
      {"sets, streams", sets_and_streams, true},
      {"precision", precisions, false},
      {"arguments", arguments, false},
      {.name = NULL},
  };
  return conformance_main(argc, argv, tests);
}
