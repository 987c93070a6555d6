/* test_threads.c: chains on a device by two threads at once, and by two contexts. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../how_many.h"
#include "chain_problem.h"

static const uint64_t seed = 20261121;

/* ---- threads, contexts, devices -------------------------------------------------------------- */

typedef struct worker {
  const setting *on;
  const mmc_plan *plan;
  problem *problem;
  double share;
  int rounds;
  bool right;
} worker;

static void *work(void *user) {
  worker *me = user;
  mmc_run *run = NULL;
  bool right = succeeded(me->on, mmc_run_create(me->plan, &run), "a thread's run");
  for (int t = 0; t < me->rounds && right; t++)
    right = execute_with(me->problem, run, me->share, t % 3 == 2, (poisoned){-1, -1});
  mmc_run_destroy(run);
  me->right = right;
  return NULL;
}

/* Two threads, each with a run and matrices of its own; of one plan where the settings are one. */
static void test_two(const setting *first, const setting *second, const char *what,
                     uint64_t *random) {
  const setting *ons[] = {first, second};
  problem p[2];
  job jobs[2] = {{0}, {0}};
  worker workers[2];
  pthread_t threads[2];
  const bool is_cuda = strncmp(first->device, "cuda", 4) == 0;
  const int rounds = first->small ? 4 : is_cuda ? 40 : how_many(15, 40);
  bool right = true;
  for (int t = 0; t < 2; t++) {
    shape s = {.dtype = first->dtypes[MMC_C64] ? MMC_C64 : MMC_F64,
               .n = 4,
               .dims = {90, 140, 60, 133, 99},
               .values = REAL};
    s.where = t == 0 ? ON_DEVICE : ANYWHERE;
    s.seed = random_bits(random);
    const mmc_plan_options options = options_for(ons[t]);
    right = problem_create(ons[t], &s, &p[t]) && problem_know(&p[t]) && right;
    right = right && job_create(&p[t], &options, &jobs[t]);
    const job *of = first == second ? &jobs[0] : &jobs[t];
    workers[t] = (worker){ons[t], of->plan, &p[t], of->share, rounds, false};
  }
  int started = 0;
  while (right && started < 2 &&
         pthread_create(&threads[started], NULL, work, &workers[started]) == 0)
    started++;
  for (int t = 0; t < started; t++) pthread_join(threads[t], NULL);
  right = right && started == 2 && workers[0].right && workers[1].right;
  /* One thread in turns, so that the current device must change. */
  for (int t = 0; t < 6 && right; t++) right = execute(&p[t % 2], &jobs[t % 2]);
  expect(right, what);
  for (int t = 0; t < 2; t++) {
    job_destroy(&jobs[t]);
    problem_destroy(&p[t]);
  }
}

/* A second context works beside the first, which outlives it; and so once more. */
static void test_contexts(const setting *on, uint64_t *random) {
  for (int t = 0; t < 2; t++) {
    setting second = *on;
    if (!expect(context_create(on->module_dir, &second.context) == MMC_OK, "a second context"))
      return;
    test_two(on, &second, "two contexts", random);
    mmc_context_destroy(second.context);
    test_random_chains(on, 2, 60, random);
  }
}

/* Says whether a device is there; what stands in for it in the list says why not. */
static bool find_device(mmc_context *context, const char *name, char *why, size_t size) {
  mmc_device_info info;
  const size_t kind = strcspn(name, ":");
  snprintf(why, size, "there is no such device");
  for (int d = 0; mmc_device_describe(context, d, &info) == MMC_OK; d++) {
    bool same = strcmp(info.name, name) == 0;
    if (same || (!info.available && strncmp(info.name, name, kind) == 0))
      snprintf(why, size, "%s", info.description);
    if (same) return info.available;
  }
  return false;
}

/* Two GPUs, where there are two. */
static void test_devices(const setting *on, uint64_t *random) {
  char why[512];
  setting second = *on;
  second.device = "cuda:1";
  if (strncmp(on->device, "cuda", 4) != 0) return;
  if (!find_device(on->context, second.device, why, sizeof why)) {
    printf("no second GPU: two are not tested (%s)\n", why);
    return;
  }
  test_two(on, &second, "two devices", random);
  test_random_chains(&second, on->small ? 2 : 20, 150, random);
}

static void one_plan_in(const setting *on) {
  uint64_t random = seed;
  printf("seed %" PRIu64 "\n", seed);
  test_two(on, on, "two threads, one plan", &random);
}
static void one_plan(const subject *on) {
  if (on->is_fake) return; /* it is for one thread */
  with_setting(on, one_plan_in);
}

static void contexts_in(const setting *on) {
  uint64_t random = seed;
  test_contexts(on, &random);
}
static void contexts(const subject *on) {
  if (on->is_fake) return; /* it is for one thread */
  with_setting(on, contexts_in);
}

static void devices_in(const setting *on) {
  uint64_t random = seed;
  test_devices(on, &random);
}
static void devices(const subject *on) {
  with_setting(on, devices_in);
}

int main(int argc, char **argv) {
  static const conformance_test tests[] = {
      {"two threads, one plan", one_plan, false},
      {"two contexts", contexts, false},
      {"two devices", devices, false},
      {.name = NULL},
  };
  return conformance_main(argc, argv, tests);
}
