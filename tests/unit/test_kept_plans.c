/* test_kept_plans.c: which plans are given again, and when a GPU's memory is asked for. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../wisdom_text.h"
#include "mmchain.h"

static mmc_context *context_of(const char *wisdom_path, const char *module_dir) {
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  mmc_context *context;
  options.wisdom_path = wisdom_path;
  options.module_dir = module_dir;
  assert_int_equal(mmc_context_create(&options, &context), MMC_OK);
  return context;
}

static mmc_plan *plan_of(mmc_context *context, const char *text, const mmc_plan_options *options) {
  mmc_chain *chain;
  mmc_plan *plan;
  char message[256];
  assert_int_equal(mmc_chain_parse(context, text, &chain), MMC_OK);
  const mmc_status status = mmc_plan_create(context, chain, options, &plan);
  if (status != MMC_OK)
    fail_msg("%s: %s", text, mmc_context_message(context, message, sizeof message));
  mmc_chain_destroy(chain);
  return plan;
}

static mmc_plan_options options_of(const char *objective, const char *device) {
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = objective;
  options.device = device;
  return options;
}

/* Asks for the plan often enough for it to be kept; returns it. */
static mmc_plan *kept_plan_of(mmc_context *context, const char *text,
                              const mmc_plan_options *options) {
  mmc_plan_destroy(plan_of(context, text, options));
  return plan_of(context, text, options);
}

static bool is_given_again(mmc_context *context, const mmc_plan *plan, const char *text,
                           const mmc_plan_options *options) {
  mmc_plan *again = plan_of(context, text, options);
  const bool is = again == plan;
  mmc_plan_destroy(again);
  return is;
}

/* ---- the same plan --------------------------------------------------------------------------- */

static void a_plan_is_given_again(void **state) {
  (void)state;
  mmc_context *context = context_of("", NULL);
  const mmc_plan_options time = options_of("time", "ref"), flops = options_of("flops", "ref");
  /* The second may be kept in the first one's place: where that is, addresses say. */
  mmc_plan *by_time = kept_plan_of(context, "f32:10x30x5x60", &time);
  assert_true(is_given_again(context, by_time, "f32:10x30x5x60", &time));
  mmc_plan *by_flops = kept_plan_of(context, "f32:10x30x5x60", &flops);
  assert_ptr_not_equal(by_time, by_flops);
  assert_true(is_given_again(context, by_flops, "f32:10x30x5x60", &flops));
  /* Whoever was given it may keep it when others have long given it back. */
  for (int d = 1; d < 400; d++) {
    char text[32];
    snprintf(text, sizeof text, "f32:%dx30x5x60", d);
    mmc_plan_destroy(kept_plan_of(context, text, &time));
  }
  assert_int_equal(mmc_plan_step_count(by_time), 2);
  mmc_step step;
  assert_int_equal(mmc_plan_step(by_time, 0, &step), MMC_OK);
  assert_int_equal(step.m, 10);
  mmc_plan_destroy(by_time);
  mmc_plan_destroy(by_flops);
  mmc_context_destroy(context);
}

static void whatever_differs_makes_another_plan(void **state) {
  (void)state;
  mmc_context *context = context_of("", NULL);
  const mmc_plan_options options = options_of("time", "ref");
  const char *const chain = "f32:10x30x5x60";
  static const char *const others[] = {"f64:10x30x5x60", "f32:10x30x5x61", "f32:10x30x5x60@2",
                                       "f32:10x30x5", "f32:10x30x5x60:TNN"};
  mmc_plan *plan = kept_plan_of(context, chain, &options);
  for (size_t o = 0; o < sizeof others / sizeof *others; o++) {
    mmc_plan *other = kept_plan_of(context, others[o], &options);
    assert_ptr_not_equal(plan, other);
    mmc_plan_destroy(other);
  }
  mmc_plan *batch = kept_plan_of(context, "f32:10x30x5x60@2", &options),
           *shared = kept_plan_of(context, "f32:10x30x5x60@2:nnN", &options);
  assert_ptr_not_equal(batch, shared);
  assert_true(is_given_again(context, shared, "f32:10x30x5x60@2:nnN", &options));
  mmc_plan_destroy(batch);
  mmc_plan_destroy(shared);
  mmc_plan *power = kept_plan_of(context, "f32:16x16^4", &options);
  assert_false(is_given_again(context, power, "f32:16x16x16x16x16", &options));
  mmc_plan_destroy(power);
  mmc_plan_options changed[8];
  for (int c = 0; c < 8; c++) changed[c] = options;
  changed[0].memory_limit_bytes = 5000;
  changed[1].device_memory_bytes = 1 << 20;
  changed[2].location = MMC_DEVICE;
  changed[3].precision = "reproducible";
  changed[4].precision = "1e-3";
  changed[5].order = "(A1 (A2 A3))";
  changed[6].solver = "left-to-right";
  changed[7].objective = "energy";
  for (int c = 0; c < 8; c++) {
    mmc_plan *other = kept_plan_of(context, chain, &changed[c]);
    assert_ptr_not_equal(plan, other);
    mmc_plan_destroy(other);
    mmc_plan_destroy(kept_plan_of(context, chain, &options));
  }
  mmc_plan_options precise = options;
  precise.precision = "1e-3";
  mmc_plan *near = kept_plan_of(context, chain, &precise);
  precise.precision = "1e-4";
  mmc_plan *nearer = kept_plan_of(context, chain, &precise);
  assert_true(mmc_plan_error_bound(near) > 0 && near != nearer);
  mmc_plan_destroy(near);
  mmc_plan_destroy(nearer);
  mmc_plan_destroy(plan);
  mmc_context_destroy(context);
}

static void wisdom_makes_another_plan(void **state) {
  (void)state;
  static const char path[] = "test_kept_plans.db";
  static const char form[] =
      "mmchain wisdom 1\n"
      "fingerprint \"ref\" \"m\" \"\" \"\" \"0.1.0\" \"f32\" \"native\"\n"
      "product 1 2 3 N N time \"r\" 1 0 1 - - - \"measured\" 1\n"
      "end 1\n";
  unlink(path);
  mmc_context *context = context_of(path, NULL);
  const mmc_plan_options options = options_of("time", "ref");
  mmc_plan *plan = kept_plan_of(context, "f32:10x30x5x60", &options);
  const mmc_status status = import_wisdom_text(context, form);
  assert_true(is_given_again(context, plan, "f32:10x30x5x60", &options) == (status != MMC_OK));
  mmc_plan_destroy(plan);
  mmc_context_destroy(context);
  unlink(path);
}

enum { THREADS = 4, ROUNDS = 300 };

static void *plan_often(void *user) {
  const mmc_plan_options options = options_of("time", "ref");
  for (int r = 0; r < ROUNDS; r++) {
    char name[32];
    snprintf(name, sizeof name, "f32:10x30x5x%d", 1 + r / 3 % 7);
    mmc_plan *plan = plan_of(user, name, &options);
    if (mmc_plan_step_count(plan) != 2) abort();
    mmc_plan_destroy(plan);
  }
  return NULL;
}

static void threads_share_plans(void **state) {
  (void)state;
  mmc_context *context = context_of("", NULL);
  pthread_t threads[THREADS];
  for (int t = 0; t < THREADS; t++)
    assert_int_equal(pthread_create(&threads[t], NULL, plan_often, context), 0);
  for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_join(threads[t], NULL), 0);
  mmc_context_destroy(context);
}

/* ---- a device's memory ----------------------------------------------------------------------- */

#ifdef GOLDEN_MODULES

static int collect(void *user, const char *bytes, size_t size) {
  char *all = user;
  strncat(all, bytes, size);
  return 0;
}

static bool is_streamed(const mmc_plan *plan) {
  char all[1 << 14] = "";
  assert_int_equal(mmc_plan_explain(plan, MMC_JSON, collect, all), MMC_OK);
  return strstr(all, "\"streamed\": true") != NULL;
}

/* Says whether a plan made now is streamed. */
static bool streams(mmc_context *context, const char *chain) {
  const mmc_plan_options options = options_of("time", "cuda:0");
  mmc_plan *plan = plan_of(context, chain, &options);
  const bool is = is_streamed(plan);
  mmc_plan_destroy(plan);
  return is;
}

/* Lets the device say that so many bytes are free, and what it said before be long ago. */
static void let_be_free(const char *bytes) {
  assert_int_equal(setenv("GOLDEN_FREE_BYTES", bytes, 1), 0);
  usleep(20000);
}

static void memory_is_asked_for_where_it_may_be_short(void **state) {
  (void)state;
  mmc_context *context = context_of("", GOLDEN_MODULES);
  assert_int_equal(unsetenv("GOLDEN_FREE_BYTES"), 0);
  assert_false(streams(context, "f32:1000x1000x1000x1000"));
  let_be_free("3000000");
  /* This takes 12 MB, and is asked for; 20 KB are there in any case. */
  assert_false(streams(context, "f32:10x30x5x60"));
  assert_true(streams(context, "f32:1000x1000x1000x1001"));
  /* A device that has little is asked for everything. */
  let_be_free("9000");
  const mmc_plan_options options = options_of("time", "cuda:0");
  mmc_chain *chain;
  mmc_plan *plan;
  assert_int_equal(mmc_chain_parse(context, "f32:20x30x50x60", &chain), MMC_OK);
  assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_E_MEMORY_LIMIT);
  mmc_chain_destroy(chain);
  let_be_free("60000000000");
  assert_false(streams(context, "f32:20x30x50x61"));
  assert_false(streams(context, "f32:1000x1000x1000x1002"));
  mmc_context_destroy(context);
}

static void a_kept_plan_fits(void **state) {
  (void)state;
  mmc_context *context = context_of("", GOLDEN_MODULES);
  const mmc_plan_options options = options_of("time", "cuda:0");
  const char *const small = "f32:10x30x5x60", *const large = "f32:1000x1000x1000x1000";
  assert_int_equal(unsetenv("GOLDEN_FREE_BYTES"), 0);
  mmc_plan *plan = kept_plan_of(context, large, &options),
           *few = kept_plan_of(context, small, &options);
  assert_true(is_given_again(context, plan, large, &options));
  assert_true(is_given_again(context, few, small, &options));
  let_be_free("3000000");
  assert_true(is_given_again(context, few, small, &options));
  assert_true(streams(context, large));
  assert_false(is_streamed(plan));
  let_be_free("60000000000");
  mmc_plan_destroy(kept_plan_of(context, large, &options));
  assert_false(streams(context, large));
  mmc_plan_destroy(plan);
  mmc_plan_destroy(few);
  mmc_context_destroy(context);
  assert_int_equal(unsetenv("GOLDEN_FREE_BYTES"), 0);
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_plan_is_given_again),
      cmocka_unit_test(whatever_differs_makes_another_plan),
      cmocka_unit_test(wisdom_makes_another_plan),
      cmocka_unit_test(threads_share_plans),
#ifdef GOLDEN_MODULES
      cmocka_unit_test(memory_is_asked_for_where_it_may_be_short),
      cmocka_unit_test(a_kept_plan_fits),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
