/* test_large.c: CUDA's own of chains through the public interface: matrices so large that transfers
 * are cut. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../conformance/chain_problem.h"

static const uint64_t seed = 20261121;

/* ---- large matrices -------------------------------------------------------------------------- */

/* Factors and results of more than 32 MiB that come from the host or go there: a product is cut
 * along m, or along k when both factors come for it alone and the result stays. */
static void test_cut(const setting *on, shape s, uint64_t *random) {
  problem p;
  job j = {0};
  mmc_plan_options options = options_for(on);
  s.where = PICKED;
  s.seed = random_bits(random);
  for (int i = 0; i < s.n; i++) s.ops[i] = s.shared ? MMC_OP_T : (mmc_op)random_below(random, 3);
  expect(problem_create(on, &s, &p) && job_create(&p, &options, &j) && execute(&p, &j) &&
             execute(&p, &j),
         "large matrices");
  job_destroy(&j);
  problem_destroy(&p);
}

static void test_cuts(const setting *on, uint64_t *random) {
  static const shape THIN[] = {{.dtype = MMC_F32, .n = 2, .dims = {1100, 8200, 2}},
                               {.dtype = MMC_F32, .n = 2, .dims = {2, 4200100, 2}},
                               {.dtype = MMC_C64, .n = 3, .dims = {1, 4200100, 1, 2}}};
  static const shape WIDE[] = {{.dtype = MMC_F64, .n = 2, .dims = {2500, 2100, 2300}},
                               {.dtype = MMC_F32, .n = 3, .dims = {3000, 3100, 2900, 3200}},
                               {.dtype = MMC_F16, .n = 2, .dims = {4100, 4200, 4300}}};
  shape square = {.dtype = MMC_F32, .n = 2, .dims = {4096, 4096, 4096}};
  for (int t = 0; t < 3; t++)
    for (unsigned result = 0; result < 2; result++) {
      shape s = THIN[t];
      s.on_device = result << s.n;
      test_cut(on, s, random);
      if (on->small) continue;
      s = WIDE[t];
      s.on_device = result << s.n;
      test_cut(on, s, random);
    }
  if (on->small) return;
  for (square.on_device = 0; square.on_device < 8; square.on_device++) test_cut(on, square, random);
  square.shared = true;
  for (square.on_device = 0; square.on_device < 8; square.on_device += 4)
    test_cut(on, square, random);
}

static void test_large(const setting *on, uint64_t *random) {
  static const int64_t DIMS[][4] = {{1500, 700, 1900, 1100}, {513, 2049, 1025, 257}};
  for (int t = 0; t < 2 * DTYPES; t++) {
    problem p;
    job j = {0};
    shape s = {.dtype = (mmc_dtype)(t % DTYPES), .n = 3, .where = ANYWHERE};
    s.seed = random_bits(random);
    memcpy(s.dims, DIMS[t / DTYPES], sizeof DIMS[0]);
    for (int i = 0; i < s.n; i++) s.ops[i] = (mmc_op)random_below(random, 3);
    mmc_plan_options options = options_for(on);
    expect(problem_create(on, &s, &p) && job_create(&p, &options, &j) && execute(&p, &j) &&
               execute(&p, &j),
           "a large chain");
    /* The same in an eighth of the memory that the factors take. */
    job_destroy(&j);
    options.device_memory_bytes = (uint64_t)(1100 * 1900) / 4 * mmc_dtype_size(s.dtype);
    expect(job_create(&p, &options, &j) && (j.streamed || !on->own_memory) && execute(&p, &j),
           "a large chain, streamed");
    job_destroy(&j);
    problem_destroy(&p);
  }
}

static void cuts_in(const setting *on) {
  uint64_t random = seed;
  printf("seed %" PRIu64 "\n", seed);
  test_cuts(on, &random);
}
static void cuts(const subject *on) {
  with_setting(on, cuts_in);
}

static void large_chains_in(const setting *on) {
  uint64_t random = seed;
  if (!on->small) test_large(on, &random);
}
static void large_chains(const subject *on) {
  with_setting(on, large_chains_in);
}

int main(int argc, char **argv) {
  static const conformance_test tests[] = {
      {"cuts", cuts, false},
      {"large chains", large_chains, false},
      {.name = NULL},
  };
  return conformance_main(argc, argv, tests);
}
