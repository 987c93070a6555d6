/* test_memory.c: how much memory chains take, through the public interface: streamed in panels, in
 * the least that a message names, within a limit, and given back when plans and runs have gone. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../how_many.h"
#include "chain_problem.h"

static const uint64_t seed = 20261121;

static bool is_cuda(const setting *on) {
  return strncmp(on->device, "cuda", 4) == 0;
}

/* f32, or what the device has instead. */
static mmc_dtype some_dtype(const setting *on) {
  return on->dtypes[MMC_F32] ? MMC_F32 : MMC_F64;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Two panels of 64 x 64 of each kind: enough for any product. */
static uint64_t least_panels_bytes(mmc_dtype dtype) {
  return 6 * 64 * 64 * (uint64_t)mmc_dtype_size(dtype);
}

/* The same matrices with all memory, and with so little that every product passes in panels. */
static bool streamed_is_right(problem *p, uint64_t bytes, uint64_t *random) {
  mmc_plan_options options = options_for(p->on);
  job free_job = {0}, j = {0};
  bool right = problem_know(p) && job_create(p, &options, &free_job) && execute(p, &free_job);
  job_destroy(&free_job);
  options.device_memory_bytes = bytes;
  right = right && job_create(p, &options, &j);
  if (right && p->on->own_memory) right = expect(j.streamed, "little memory is streamed");
  right = right && try_thoroughly(p, &j, random);
  job_destroy(&j);
  return right;
}

static void test_streamed(const setting *on, int count, uint64_t *random) {
  for (int t = 0; t < count; t++) {
    problem p;
    shape s = random_shape(on, random_bits(random), 10);
    s.n = 2 + (int)random_below(random, on->small || !is_cuda(on) ? 2 : 3);
    s.dtype = (mmc_dtype)(t % DTYPES);
    if (!on->dtypes[s.dtype]) s.dtype = MMC_F64;
    for (int i = 0; i <= s.n; i++)
      s.dims[i] = 150 + random_below(random, on->small || !is_cuda(on) ? 20 : 150);
    const uint64_t least = least_panels_bytes(s.dtype);
    expect(
        problem_create(on, &s, &p) &&
            streamed_is_right(&p, least + (uint64_t)random_below(random, (int64_t)least), random),
        "a streamed chain");
    problem_destroy(&p);
  }
}

/* The numbers that the message names must be true: with so much it fits, with a byte less not. */
static void test_too_little(const setting *on, uint64_t *random) {
  const shape s = {
      .dtype = MMC_F64, .n = 3, .dims = {300, 40, 250, 100}, .seed = random_bits(random)};
  problem p;
  mmc_plan *plan = NULL;
  mmc_plan_options options = options_for(on);
  options.device_memory_bytes = 0;
  mmc_status status = MMC_E_MEMORY_LIMIT;
  expect(problem_create(on, &s, &p), "a chain");
  for (int t = 0; t < 6 && status == MMC_E_MEMORY_LIMIT; t++) {
    char message[512];
    uint64_t given = options.device_memory_bytes;
    status = mmc_plan_create(on->context, p.chain, &options, &plan);
    if (status == MMC_OK) break;
    mmc_context_message(on->context, message, sizeof message);
    const char *need = strstr(message, "need "), *used = strstr(message, " bytes; ");
    const char *missing = strstr(message, "used, ");
    bool right = status == MMC_E_MEMORY_LIMIT && need != NULL && used != NULL && missing != NULL;
    if (right) {
      options.device_memory_bytes = strtoull(need + 5, NULL, 10);
      right = strtoull(used + 8, NULL, 10) == given &&
              strtoull(missing + 6, NULL, 10) == options.device_memory_bytes - given &&
              options.device_memory_bytes > given;
    }
    if (!expect(right, "how much memory is missing is said")) {
      printf("  status %d, given %" PRIu64 ": %s\n", (int)status, given, message);
      break;
    }
  }
  job j = {0};
  expect(status == MMC_OK && options.device_memory_bytes > 0, "as much as asked for is enough");
  if (status == MMC_OK)
    expect(job_create(&p, &options, &j) && j.streamed && execute(&p, &j),
           "a chain in the least memory");
  mmc_plan_destroy(plan);
  options.device_memory_bytes--;
  plan = NULL;
  expect(
      mmc_plan_create(on->context, p.chain, &options, &plan) == MMC_E_MEMORY_LIMIT && plan == NULL,
      "a byte less is not enough");
  job_destroy(&j);
  problem_destroy(&p);
}

/* Less and less workspace, until no order fits, or none is needed as groups keep the results. */
static void test_workspace_limit(const setting *on, uint64_t *random) {
  const shape s = {.dtype = MMC_F64,
                   .n = 6,
                   .dims = {160, 150, 200, 140, 210, 130, 190}, /* too large for one call */
                   .where = ANYWHERE,
                   .seed = random_bits(random)};
  problem p;
  mmc_plan_options options = options_for(on);
  mmc_status status = MMC_OK;
  int limits = 0;
  uint64_t bytes = 1;
  bool right = problem_create(on, &s, &p);
  for (; right && status == MMC_OK && bytes > 0 && limits < 100; limits++) {
    job j = {0};
    mmc_plan *plan = NULL;
    status = mmc_plan_create(on->context, p.chain, &options, &plan);
    if (plan != NULL) bytes = mmc_plan_workspace_bytes(plan);
    mmc_plan_destroy(plan);
    if (status != MMC_OK) break;
    right = bytes <= options.memory_limit_bytes && job_create(&p, &options, &j) && execute(&p, &j);
    job_destroy(&j);
    options.memory_limit_bytes = bytes - 1;
  }
  char message[512];
  mmc_context_message(on->context, message, sizeof message);
  /* ref takes the chain as one group, which needs none. */
  const int least = strcmp(on->device, "ref") == 0 ? 1 : 2;
  bool told = status == MMC_E_MEMORY_LIMIT && message[0] != '\0';
  expect(right && limits >= least && (told || (status == MMC_OK && bytes == 0)),
         "less and less workspace");
  problem_destroy(&p);
}

static void test_memory(const setting *on, uint64_t *random) {
  enum { BYTES = 3000017 };
  mmc_memory *memory = NULL, *empty = NULL;
  unsigned char *content = allocate(BYTES), *copy = allocate(BYTES);
  for (int t = 0; t < BYTES; t++) content[t] = (unsigned char)(t * 31 + t / 251);
  bool right =
      succeeded(on, mmc_memory_create(on->context, on->device, BYTES, &memory), "memory") &&
      succeeded(on, mmc_memory_create(on->context, on->device, 0, &empty), "no memory") &&
      succeeded(on, mmc_memory_write(memory, 0, content, BYTES), "mmc_memory_write");
  if (right) right = (uintptr_t)mmc_memory_address(memory) % 64 == 0;
  for (int t = 0; right && t < 40; t++) {
    size_t at = (size_t)random_below(random, BYTES);
    size_t size = (size_t)random_below(random, (int64_t)(t % 2 == 0 ? 100 : BYTES - at) + 1);
    if (size > BYTES - at) size = BYTES - at;
    for (size_t b = at; b < at + size; b += 1 + b % 7) content[b] = (unsigned char)(b + (size_t)t);
    right = succeeded(on, mmc_memory_write(memory, at, content + at, size), "mmc_memory_write");
    if (t % 8 != 7 || !right) continue;
    right = succeeded(on, mmc_memory_read(memory, 0, copy, BYTES), "mmc_memory_read") &&
            memcmp(copy, content, BYTES) == 0;
    memset(copy, 0, BYTES);
    right = right && succeeded(on, mmc_memory_read(memory, at, copy, size), "mmc_memory_read") &&
            memcmp(copy, content + at, size) == 0;
  }
  expect(right, "memory holds what is written");
  if (right)
    expect(mmc_memory_write(memory, 1, content, BYTES) == MMC_E_ARG &&
               mmc_memory_read(memory, BYTES + 1, copy, 0) == MMC_E_ARG &&
               mmc_memory_read(memory, SIZE_MAX, copy, 2) == MMC_E_ARG &&
               mmc_memory_write(memory, 0, NULL, 1) == MMC_E_ARG &&
               mmc_memory_write(empty, 0, content, 1) == MMC_E_ARG &&
               mmc_memory_write(empty, 0, NULL, 0) == MMC_OK &&
               mmc_memory_read(memory, BYTES, copy, 0) == MMC_OK,
           "what is beyond memory is E_ARG");
  mmc_memory_destroy(memory);
  mmc_memory_destroy(empty);
  /* Tools that check every call take a refusal for an error. */
  memory = NULL;
  if (on->own_memory && !on->small)
    expect(mmc_memory_create(on->context, on->device, (size_t)1 << 50, &memory) == MMC_E_NOMEM &&
               memory == NULL,
           "a pebibyte is E_NOMEM");
  free(content);
  free(copy);
}

/* ---- many ------------------------------------------------------------------------------------ */

/* How much memory a plan may use, a share of what is free; 0 where the device has none of its own.
 * The plan of a chain that fits nowhere tells. */
static uint64_t usable_bytes(const setting *on) {
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  const mmc_plan_options options = options_for(on);
  uint64_t bytes = 0;
  if (succeeded(on, mmc_chain_parse(on->context, "f64:1000000x1000000x1000000", &chain),
                "a huge chain") &&
      succeeded(on, mmc_plan_create(on->context, chain, &options, &plan), "a huge plan")) {
    char *told = explained(on, plan, MMC_TEXT, "all at once would take ");
    const char *at = strstr(told, "bytes, ");
    if (at != NULL) bytes = strtoull(at + 7, NULL, 10);
    free(told);
  }
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  return bytes;
}

/* Plans and runs come and go, and leave no memory taken. */
static void test_many(const setting *on, int count, uint64_t *random) {
  enum { WARM = 12, LOST = 64 << 20 };
  problem p[2];
  uint64_t before = 0;
  bool right = true;
  for (int t = 0; t < 2; t++) {
    shape s = {
        .dtype = some_dtype(on), .n = 3, .dims = {130, 140, 150, 131}, .seed = random_bits(random)};
    s.where = t == 0 ? ON_DEVICE : ON_HOST;
    right = problem_create(on, &s, &p[t]) && right;
  }
  for (int t = 0; t < WARM + count && right; t++) {
    const problem *one = &p[t / 4 % 2];
    job j = {0};
    mmc_plan_options options = options_for(on);
    if (t == WARM) before = usable_bytes(on);
    if (t % 4 == 3) options.device_memory_bytes = least_panels_bytes(some_dtype(on));
    right = job_create(one, &options, &j) && execute(one, &j);
    job_destroy(&j);
  }
  const uint64_t after = usable_bytes(on);
  expect(right, "many plans and runs");
  if (!expect(after + LOST >= before && (after > 0) == on->own_memory,
              "many plans and runs leave no memory taken"))
    printf("  %" PRIu64 " bytes before, %" PRIu64 " after\n", before, after);
  for (int t = 0; t < 2; t++) problem_destroy(&p[t]);
}

static void streamed_in(const setting *on) {
  uint64_t random = seed;
  printf("seed %" PRIu64 "\n", seed);
  test_streamed(on, on->small ? 3 : is_cuda(on) ? 48 : 6, &random);
}
static void streamed(const subject *on) {
  with_setting(on, streamed_in);
}

static void limits_in(const setting *on) {
  uint64_t random = seed;
  if (on->own_memory) test_too_little(on, &random);
  test_workspace_limit(on, &random);
}
static void limits(const subject *on) {
  with_setting(on, limits_in);
}

static void memory_in(const setting *on) {
  uint64_t random = seed;
  test_memory(on, &random);
}
static void memory(const subject *on) {
  with_setting(on, memory_in);
}

static void many_plans_in(const setting *on) {
  uint64_t random = seed;
  test_many(on, on->small ? 100 : is_cuda(on) ? 1000 : how_many(16, 100), &random);
}
static void many_plans(const subject *on) {
  with_setting(on, many_plans_in);
}

int main(int argc, char **argv) {
  static const conformance_test tests[] = {
      {"streamed", streamed, false},
      {"limits", limits, false},
      {"memory", memory, false},
      {"many plans", many_plans, false},
      {.name = NULL},
  };
  return conformance_main(argc, argv, tests);
}
