/* test_saved.c: plans that are saved as JSON and planned again: the same steps, or what no longer
 * fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../comma_locale.h"
#include "../random.h"
#include "mmchain.h"

typedef struct text {
  char bytes[1 << 18];
  size_t size;
} text;

static int collect(void *user, const char *bytes, size_t size) {
  text *x = user;
  if (x->size + size >= sizeof x->bytes) return 1;
  memcpy(x->bytes + x->size, bytes, size);
  x->bytes[x->size += size] = '\0';
  return 0;
}

static mmc_context *context;
static text saved, again;

static int set_up(void **state) {
  (void)state;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "";
  return mmc_context_create(&options, &context) != MMC_OK;
}

static int tear_down(void **state) {
  (void)state;
  mmc_context_destroy(context);
  return 0;
}

static mmc_chain *parse(const char *chain_text) {
  mmc_chain *chain;
  assert_int_equal(mmc_chain_parse(context, chain_text, &chain), MMC_OK);
  return chain;
}

static void explain(const mmc_plan *plan, text *out) {
  out->size = 0;
  assert_int_equal(mmc_plan_explain(plan, MMC_JSON, collect, out), MMC_OK);
}

static void save(const char *chain_text, const mmc_plan_options *options) {
  mmc_chain *chain = parse(chain_text);
  mmc_plan *plan;
  assert_int_equal(mmc_plan_create(context, chain, options, &plan), MMC_OK);
  explain(plan, &saved);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
}

/* Returns the text from the first step on. */
static const char *steps_of(const text *x) {
  const char *steps = strstr(x->bytes, "\"steps\": [");
  assert_non_null(steps);
  return steps;
}

static void reads_the_same(const char *chain_text, const mmc_plan_options *options) {
  mmc_plan *plan;
  save(chain_text, options);
  assert_int_equal(mmc_plan_read(context, saved.bytes, saved.size, NULL, NULL, &plan), MMC_OK);
  explain(plan, &again);
  mmc_plan_destroy(plan);
  assert_string_equal(steps_of(&again), steps_of(&saved));
  mmc_chain *chain = parse(chain_text);
  assert_int_equal(mmc_plan_read(context, saved.bytes, saved.size, chain, NULL, &plan), MMC_OK);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
}

/* A plan is read for a chain that shares what it counts on, or more, and for no other. */
static void plans_of_shared_factors(void **state) {
  (void)state;
  static const char *const texts[] = {"f64:60x90x7x8@40",       "f64:60x90x7x8@40:NNn",
                                      "f64:60x90x7x8@40:nNn",   "f64:60x90x7x8@40:nnN",
                                      "f64:60x90x7x8@40:nnn",   "f64:60x90x7x8@41:nnn",
                                      "f64:60x90x7x8x9@40:nnnN"};
  static const bool goes[7][7] = {
      {1, 1, 1, 1, 1, 0, 0}, {0, 1, 1, 0, 1, 0, 0}, {0, 0, 1, 0, 1, 0, 0}, {0, 0, 0, 1, 1, 0, 0},
      {0, 0, 0, 0, 1, 0, 0}, {0, 0, 0, 0, 0, 1, 0}, {0, 0, 0, 0, 0, 0, 1}};
  for (int t = 0; t < 7; t++) {
    save(texts[t], NULL);
    for (int c = 0; c < 7; c++) {
      mmc_plan *plan;
      mmc_chain *chain = parse(texts[c]);
      const mmc_status status = mmc_plan_read(context, saved.bytes, saved.size, chain, NULL, &plan);
      assert_int_equal(status, goes[t][c] ? MMC_OK : MMC_E_ARG);
      if (status == MMC_OK) {
        explain(plan, &again);
        assert_string_equal(again.bytes, saved.bytes);
        mmc_plan_destroy(plan);
      }
      mmc_chain_destroy(chain);
    }
  }
}

static void same_steps(void **state) {
  (void)state;
  static const char *const chains[] = {
      "f64:30x35x15x5x10x20x25", "f32:7x8",      "c64:8x9x7:NH",
      "f32:16x16x16x16x16@100",  "f64:9x9^40",   "f64:300x0x5x6",
      "f64:8x9x8x9x8=1,2,1,2",   "bf16:3x4x5x6", "f64:60x90x7x8x9@40:nnNn"};
  static const char *const objectives[] = {"flops", "time", "energy", "traffic"};
  static const char *const devices[] = {"ref", "cpu"};
  for (size_t c = 0; c < sizeof chains / sizeof *chains; c++)
    for (int o = 0; o < 4; o++)
      for (int d = 0; d < 2; d++) {
        mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
        options.objective = objectives[o];
        options.device = devices[d];
        reads_the_same(chains[c], &options);
        options.solver = "left-to-right";
        if (strchr(chains[c], '=') == NULL && strchr(chains[c], '^') == NULL)
          reads_the_same(chains[c], &options);
      }
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.order = "((A1 (A2 (A3 A4))) (A5 A6))";
  reads_the_same("f64:30x35x15x5x10x20x25", &options);
  options = (mmc_plan_options)MMC_PLAN_OPTIONS_INIT;
  options.memory_limit_bytes = 100000;
  reads_the_same("f64:10x50x4000x100", &options);
}

/* A solver that knows nothing of the structure of factors makes plans without it. */
static void structure_that_a_solver_ignores(void **state) {
  (void)state;
  static const char *const solvers[] = {"auto", "hu-shing", "table", "brute", "left-to-right"};
  for (int s = 0; s < 5; s++)
    for (int time = 0; time < 2; time++) {
      mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
      options.solver = solvers[s];
      if (time != 0) options.objective = "time";
      reads_the_same("f32:2x48x48x48x48:N,orthogonal.H,lower.unit,lower.unit", &options);
      reads_the_same("f64:40x40x40:banded(1,1),N", &options);
      reads_the_same("f64:40x40x40:zero,N", &options);
    }
}

/* What was asked of a plan for traffic or for energy is asked again. */
static void same_requests(void **state) {
  (void)state;
  static const char *const rules[] = {NULL, "none", "exact", "poster", "joint"};
  static const char chain[] = "f64:936x1008x552x368x1016x616x616";
  for (int r = 0; r < 5; r++)
    for (int t = 0; t < 3; t++) {
      mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
      options.objective = "traffic";
      options.device = "ref";
      options.fuse = rules[r];
      if (t == 1) options.on_chip_words = 5000;
      if (t == 2 && r == 4) continue;
      if (t == 2) options.tile[0] = 300, options.tile[1] = 100;
      reads_the_same(chain, &options);
      assert_string_equal(again.bytes, saved.bytes);
      if (r == 4) continue;
      options.order = "(A1 (A2 (A3 ((A4 A5) A6))))";
      reads_the_same(chain, &options);
    }
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = "energy";
  options.max_slowdown = 1.25;
  reads_the_same(chain, &options);
  assert_non_null(strstr(again.bytes, "\"max_slowdown\": 1.25"));
}

/* Puts other words in place of some in the saved text, and reads that. */
static void fails_with(const char *from, const char *to, mmc_status status, const char *message) {
  static text changed;
  char said[480];
  mmc_plan *plan = NULL;
  const char *at = strstr(saved.bytes, from);
  assert_non_null(at);
  changed.size = 0;
  collect(&changed, saved.bytes, (size_t)(at - saved.bytes));
  collect(&changed, to, strlen(to));
  collect(&changed, at + strlen(from), strlen(at + strlen(from)));
  assert_int_equal(mmc_plan_read(context, changed.bytes, changed.size, NULL, NULL, &plan), status);
  assert_null(plan);
  mmc_context_message(context, said, sizeof said);
  if (strstr(said, message) == NULL) fail_msg("expected '%s' in: %s", message, said);
}

static void what_no_longer_fits(void **state) {
  (void)state;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = "ref";
  save("f64:30x35x15x5x10", &options);
  fails_with("\"device\": \"ref\"", "\"device\": \"abacus\"", MMC_E_ARG, "device: ");
  fails_with("null, \"kernel\": ", "null, \"kernel\": \"slide rule\", \"was\": ", MMC_E_UNSUPPORTED,
             "had the kernel 'slide rule'");
  fails_with("T1 = A2 A3", "T1 = A3 A2", MMC_E_UNSUPPORTED,
             "plan: step 'T1 = A3 A2' had the product");
  fails_with("\"split\": null", "\"split\": \"m 16\"", MMC_E_UNSUPPORTED, "had the split 'm 16'");
  fails_with("\"objective\": \"flops\"", "\"objective\": \"fame\"", MMC_E_ARG, "objective");
  fails_with("f64:30x35", "f64:30x-5", MMC_E_ARG, "expected");
  fails_with("\"order\": ", "\"oder\": ", MMC_E_FORMAT, "plan: expected chain, objective");
  fails_with("\"levels\": ", "\"on_chip_words\": 1e99, \"was\": ", MMC_E_FORMAT, "a whole number");
  fails_with("\"levels\": ", "\"max_slowdown\": 1-2, \"was\": ", MMC_E_FORMAT, "a number");
  fails_with("\"levels\": ", "\"given_tile\": [1, \"x\"], \"was\": ", MMC_E_FORMAT, "a number");
  fails_with("{\"chain\"", "[\"chain\"", MMC_E_FORMAT, "plan: expected an object at byte 0");
  mmc_chain *other = parse("f32:30x35x15x5x10");
  mmc_plan *plan;
  char said[480];
  assert_int_equal(mmc_plan_read(context, saved.bytes, saved.size, other, NULL, &plan), MMC_E_ARG);
  assert_string_equal(mmc_context_message(context, said, sizeof said),
                      "plan: it is for f64:30x35x15x5x10, and the chain is f32:30x35x15x5x10");
  options.order = "A1";
  assert_int_equal(mmc_plan_read(context, saved.bytes, saved.size, NULL, &options, &plan),
                   MMC_E_ARG);
  mmc_chain_destroy(other);
}

/* Bytes from anywhere are an error, or a plan. */
static void any_bytes(void **state) {
  (void)state;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = "ref";
  save("f64:3x4x5x6", &options);
  uint64_t random = 20261123;
  for (size_t end = 0; end < saved.size - 2; end++) {
    mmc_plan *plan;
    char *cut = malloc(end + 1); /* so that the sanitizers see what is read behind it */
    assert_non_null(cut);
    memcpy(cut, saved.bytes, end);
    assert_int_equal(mmc_plan_read(context, cut, end, NULL, NULL, &plan), MMC_E_FORMAT);
    free(cut);
  }
  for (int t = 0; t < 3000; t++) {
    mmc_plan *plan = NULL;
    char *changed = malloc(saved.size);
    assert_non_null(changed);
    memcpy(changed, saved.bytes, saved.size);
    for (int c = 0; c < 3; c++)
      changed[random_below(&random, (int64_t)saved.size)] = (char)random_below(&random, 256);
    if (mmc_plan_read(context, changed, saved.size, NULL, NULL, &plan) == MMC_OK)
      mmc_plan_destroy(plan);
    free(changed);
  }
}

/* Of a program that has set its user's locale. */
static void numbers_have_a_point_in_any_locale(void **state) {
  (void)state;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = "time";
  options.precision = "0.0015";
  if (!set_comma_locale()) skip();
  mmc_chain *chain = parse("f32:300x400x500x600");
  mmc_plan *plan;
  assert_int_equal(mmc_plan_create(context, chain, &options, &plan), MMC_OK);
  explain(plan, &saved);
  mmc_plan_destroy(plan);
  assert_int_equal(mmc_plan_read(context, saved.bytes, saved.size, chain, NULL, &plan), MMC_OK);
  explain(plan, &again);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  leave_comma_locale();
  assert_non_null(strstr(saved.bytes, "\"precision\": \"0.0015\""));
  assert_string_equal(steps_of(&again), steps_of(&saved));
  for (const char *comma = saved.bytes; (comma = strchr(comma, ',')) != NULL; comma++)
    assert_true(comma[1] == ' ' || comma[1] == '\n');
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_steps),
                                     cmocka_unit_test(plans_of_shared_factors),
                                     cmocka_unit_test(structure_that_a_solver_ignores),
                                     cmocka_unit_test(same_requests),
                                     cmocka_unit_test(what_no_longer_fits),
                                     cmocka_unit_test(any_bytes),
                                     cmocka_unit_test(numbers_have_a_point_in_any_locale)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
