/* test_tune.c: mmc_tune() from end to end, on the device "ref": what it finds is in plans, a second
 * call measures nothing, and what can go wrong does so in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../wisdom_store.h"
#include "mmchain.h"
#include "tune/structure.h"

typedef struct fixture {
  char directory[64], path[96];
  mmc_context *context;
  mmc_chain *chain;
  mmc_tune_options options;
  int64_t decided, reported;
  int64_t stop_after; /* progress reports; 0: never */
  bool stop_decided, stop_timed;
  mmc_tuned last;
  int64_t timed;
} fixture;

static int progress(void *user, const mmc_tune_progress *now) {
  fixture *f = user;
  assert_true(now->decided >= 0 && now->decided < now->count && now->unit[0] != '\0');
  if (f->options.budget_s > 0)
    assert_true(now->spent >= 0 && now->spent <= 1);
  else
    assert_true(isnan(now->spent));
  return ++f->reported == f->stop_after;
}

static int decided(void *user, const mmc_tuned *tuned) {
  fixture *f = user;
  f->decided++;
  f->last = *tuned;
  assert_true(tuned->seconds > 0 && tuned->plain_s > 0);
  assert_true(tuned->gain_low <= tuned->gain && tuned->gain <= tuned->gain_high);
  assert_true(tuned->gain >= 1 && tuned->gain_low >= 1);
  assert_true((strcmp(tuned->recipe, "whole") == 0) == (tuned->gain == 1));
  return f->stop_decided;
}

static int timed(void *user, const mmc_timed *call) {
  fixture *f = user;
  f->timed++;
  assert_true(strncmp(call->call, "call ", 5) == 0 || strncmp(call->call, "batch ", 6) == 0);
  assert_int_equal(call->dtype, mmc_chain_dtype(f->chain));
  assert_true(call->low > 0 && call->low <= call->seconds && call->seconds <= call->high);
  return f->stop_timed;
}

static int open_context(fixture *f) {
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = f->path;
  return mmc_context_create(&options, &f->context) != MMC_OK ||
         mmc_chain_parse(f->context, "f64:6x4x5x3:NTN", &f->chain) != MMC_OK;
}

static void close_context(fixture *f) {
  mmc_chain_destroy(f->chain);
  mmc_context_destroy(f->context);
}

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  if (f == NULL || make_directory(f->directory) != 0) return 1;
  snprintf(f->path, sizeof f->path, "%s/wisdom.db", f->directory);
  f->options = (mmc_tune_options)MMC_TUNE_OPTIONS_INIT;
  f->options.device = "ref";
  f->options.progress = progress;
  f->options.decided = decided;
  f->options.timed = timed;
  f->options.user = f;
  return open_context(f);
}

static int tear_down(void **state) {
  fixture *f = *state;
  close_context(f);
  remove_directory(f->directory);
  free(f);
  return 0;
}

static mmc_tune_report tune(fixture *f, mmc_status expected) {
  mmc_tune_report report = {.measurements = -1};
  const mmc_chain *chains[] = {f->chain};
  f->options.chains = chains;
  f->options.chain_count = 1;
  f->decided = f->reported = f->timed = 0;
  mmc_status status = mmc_tune(f->context, &f->options, &report);
  char text[512];
  if (status != expected)
    fail_msg("%d: %s", (int)status, mmc_context_message(f->context, text, sizeof text));
  f->options.chains = NULL;
  f->options.chain_count = 0;
  return report;
}

static mmc_plan *plan(fixture *f) {
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = "ref";
  options.objective = "time";
  mmc_plan *out;
  char text[512];
  if (mmc_plan_create(f->context, f->chain, &options, &out) != MMC_OK)
    fail_msg("%s", mmc_context_message(f->context, text, sizeof text));
  return out;
}

/* Of single products: the steps of more may be taken as one call. */
static void expect_sources(fixture *f, const char *source, int count, const char *const *products) {
  mmc_chain *whole = f->chain;
  for (int i = 0; i < count; i++) {
    assert_int_equal(mmc_chain_parse(f->context, products[i], &f->chain), MMC_OK);
    mmc_plan *p = plan(f);
    assert_int_equal(mmc_plan_step_count(p), 1);
    mmc_step_time step;
    assert_int_equal(mmc_plan_step_time(p, 0, &step), MMC_OK);
    assert_string_equal(step.source, source);
    assert_true(step.predicted_s == mmc_plan_predicted_seconds(p));
    mmc_roofline roofline;
    assert_int_equal(mmc_plan_roofline(p, &roofline), MMC_OK);
    assert_true(roofline.flops_per_s > 0 && roofline.bytes_per_s > 0 && roofline.launch_s > 0);
    if (strncmp(source, "model", 5) == 0)
      assert_int_equal(roofline.calibrated, strcmp(source, "model") == 0);
    mmc_plan_destroy(p);
    mmc_chain_destroy(f->chain);
  }
  f->chain = whole;
}

/* The products of f64:6x4x5x3:NTN, in every order. */
static const char *const products[] = {"f64:6x4x5:NT", "f64:6x5x3", "f64:4x5x3:TN", "f64:6x4x3"};

static int write_text(void *user, const char *bytes, size_t size) {
  return text_write(user, bytes, size);
}

/* ---- in order ------------------------------------------------------------------------------ */

/* Every step and every call. */
static void expect_measured_plan(fixture *f) {
  mmc_plan *p = plan(f);
  double sum = 0;
  for (int64_t s = 0; s < mmc_plan_step_count(p); s++) {
    mmc_step_time step;
    assert_int_equal(mmc_plan_step_time(p, s, &step), MMC_OK);
    assert_string_equal(step.source, "measured");
    sum += step.predicted_s;
  }
  assert_true(fabs(sum - mmc_plan_predicted_seconds(p)) <= 1e-9 * sum);
  mmc_plan_destroy(p);
}

/* A batch, whose products are measured together; what was found can be exported and imported. */
static void a_batch_is_tuned_as_it_runs(void **state) {
  fixture *f = *state;
  mmc_chain_destroy(f->chain);
  assert_int_equal(mmc_chain_parse(f->context, "f32:3x3x3x3x3@50", &f->chain), MMC_OK);
  mmc_tune_report report = tune(f, MMC_OK);
  assert_int_equal(report.products, 1);
  assert_int_equal(report.calls, 8); /* five orders, two pairs, a product */
  expect_measured_plan(f);
  text_buffer text = {0};
  assert_int_equal(mmc_wisdom_export(f->context, write_text, &text), MMC_OK);
  assert_non_null(strstr(text.bytes, "fact \"batch NN 3x3x3 @50\" "));
  assert_non_null(strstr(text.bytes, "fact \"call NNN 3x3x3:0*1 3x3x3:3*2 @50\" "));
  free(text.bytes);
  report = tune(f, MMC_OK);
  assert_true(report.measurements == 0 && report.calls == 8);
  mmc_wisdom_filter filter = MMC_WISDOM_FILTER_INIT;
  assert_int_equal(mmc_wisdom_forget(f->context, &filter, NULL), MMC_OK);
  mmc_plan *p = plan(f);
  mmc_step_time step;
  assert_int_equal(mmc_plan_step_time(p, 0, &step), MMC_OK);
  assert_string_equal(step.source, "model, not calibrated");
  mmc_plan_destroy(p);
}

static void what_is_tuned_is_in_plans(void **state) {
  fixture *f = *state;
  expect_sources(f, "model, not calibrated", 4, products);
  mmc_tune_report report = tune(f, MMC_OK);
  /* (1 2) (12 3) (2 3) (1 23) */
  assert_int_equal(report.products, 4);
  assert_int_equal(report.decided, 4);
  assert_int_equal(f->decided, 4);
  assert_true(report.complete && report.measurements > 4 && f->reported >= report.measurements);
  assert_true(report.calls == 2 && f->timed == 2); /* ((1 2) 3) and (1 (2 3)) */
  expect_sources(f, "measured", 4, products);
  expect_measured_plan(f);
  assert_int_equal(mmc_chain_dtype(f->chain), f->last.product.dtype);
}

static void a_second_call_measures_nothing(void **state) {
  fixture *f = *state;
  /* An array, too, and the model's facts; of so few sizes that one call tries all cuts (64). */
  f->options.range = 4;
  mmc_tune_report first = tune(f, MMC_OK);
  mmc_tuned before = f->last;
  assert_true(first.measurements > 0);
  close_context(f);
  assert_int_equal(open_context(f), 0);
  mmc_tune_report second = tune(f, MMC_OK);
  assert_int_equal(second.measurements, 0);
  assert_int_equal(second.decided, 4);
  assert_true(second.complete);
  assert_true(before.seconds == f->last.seconds && before.plain_s == f->last.plain_s &&
              before.gain == f->last.gain && before.product.m == f->last.product.m);
}

/* Budgets of a few milliseconds: each call goes on where the one before ended. */
static void a_spent_budget_is_no_failure(void **state) {
  fixture *f = *state;
  mmc_tune_report all = tune(f, MMC_OK);
  mmc_chain_destroy(f->chain);
  assert_int_equal(mmc_chain_parse(f->context, "f64:7x4x5x3:NTN", &f->chain), MMC_OK);
  f->options.budget_s = 0.003;
  int calls = 0;
  mmc_tune_report report;
  do {
    report = tune(f, MMC_OK);
    assert_true(report.complete == (report.decided == 4));
    calls++;
  } while (!report.complete && calls < 10000);
  assert_true(report.complete && calls > 1);
  const char *const spent[] = {"f64:7x4x5:NT", "f64:7x5x3", "f64:4x5x3:TN", "f64:7x4x3"};
  expect_sources(f, "measured", 4, spent);
  assert_true(all.complete);
}

static void callbacks_stop_it_and_nothing_is_lost(void **state) {
  fixture *f = *state;
  f->stop_after = 20;
  mmc_tune_report report = tune(f, MMC_E_INTERRUPTED);
  const int64_t first = report.measurements;
  assert_int_equal(f->reported, 20);
  /* What the device cannot do is reported, too, and no measurement. */
  assert_true(first > 0 && first <= 19 && !report.complete);
  f->stop_after = 0;
  f->stop_decided = true;
  report = tune(f, MMC_E_INTERRUPTED);
  assert_int_equal(f->decided, 1);
  f->stop_decided = false;
  f->stop_timed = true;
  tune(f, MMC_E_INTERRUPTED);
  assert_int_equal(f->timed, 1);
  f->stop_timed = false;
  int64_t measured = report.measurements;
  report = tune(f, MMC_OK); /* what is decided is told when all is measured */
  assert_true(report.complete && report.measurements == 0 && report.decided == 4);
  mmc_wisdom_filter filter = MMC_WISDOM_FILTER_INIT;
  filter.progress = true;
  int64_t units;
  assert_int_equal(mmc_wisdom_forget(f->context, &filter, &units), MMC_OK);
  assert_int_equal(units, first + measured + report.measurements);
}

static void products_are_decided_once(void **state) {
  fixture *f = *state;
  const mmc_tune_product some[] = {{MMC_F64, 4, 5, 6, MMC_OP_N, MMC_OP_H},
                                   {MMC_F64, 4, 5, 6, MMC_OP_N, MMC_OP_T},
                                   {MMC_F32, 4, 5, 6, MMC_OP_N, MMC_OP_T},
                                   {MMC_C64, 4, 5, 6, MMC_OP_N, MMC_OP_T},
                                   {MMC_C64, 4, 5, 6, MMC_OP_N, MMC_OP_H}};
  f->options.products = some;
  f->options.product_count = 5;
  mmc_tune_report report;
  assert_int_equal(mmc_tune(f->context, &f->options, &report), MMC_OK);
  assert_int_equal(report.products, 4);
  assert_int_equal(report.decided, 4);
  f->options.products = NULL;
  f->options.product_count = 0;
  f->options.calibrate = true;
  f->options.dtype = MMC_C64;
  assert_int_equal(mmc_tune(f->context, &f->options, &report), MMC_OK);
  assert_int_equal(report.measurements, 0); /* the facts are known since */
}

/* Chains of more than six factors have the products of the fewest multiplications. */
static void long_chains_are_tuned_in_part(void **state) {
  fixture *f = *state;
  mmc_chain_destroy(f->chain);
  assert_int_equal(mmc_chain_parse(f->context, "f64:2x3x4x5x6x7x8x9", &f->chain), MMC_OK);
  mmc_tune_report report = tune(f, MMC_OK);
  assert_int_equal(report.products, 6);
  const char *const left_to_right[] = {"f64:2x3x4", "f64:2x4x5", "f64:2x5x6",
                                       "f64:2x6x7", "f64:2x7x8", "f64:2x8x9"};
  expect_sources(f, "measured", 6, left_to_right);
}

static void an_array_is_in_plans(void **state) {
  fixture *f = *state;
  f->options.range = 12;
  f->options.op_b = MMC_OP_T;
  mmc_tune_report report;
  assert_int_equal(mmc_tune(f->context, &f->options, &report), MMC_OK);
  assert_in_range(report.cut, 0, 64);
  /* 11 lies between the array's values, whose own sizes may have been measured. */
  expect_sources(f, "array", 1, (const char *[]){"f64:11x11x11:NT"});
  expect_sources(f, "model", 1, (const char *[]){"f64:11x11x11:NN"});
  expect_sources(f, "model", 1, (const char *[]){"f64:11x11x13:NT"});
}

/* ---- not in order -------------------------------------------------------------------------- */

static void a_corrupt_store_leaves_the_model_and_says_so(void **state) {
  fixture *f = *state;
  tune(f, MMC_OK);
  expect_sources(f, "measured", 4, products);
  close_context(f);
  FILE *file = fopen(f->path, "r+");
  assert_non_null(file);
  for (int i = 0; i < 4096; i++) fputc(i < 80 ? 0 : 'x', file);
  fclose(file);
  assert_int_equal(open_context(f), 0);
  expect_sources(f, "model, not calibrated", 4, products);
  mmc_plan *p = plan(f);
  text_buffer text = {0};
  assert_int_equal(mmc_plan_explain(p, MMC_TEXT, write_text, &text), MMC_OK);
  assert_non_null(strstr(text.bytes, "\nwisdom           none: "));
  free(text.bytes);
  text = (text_buffer){0};
  assert_int_equal(mmc_plan_explain(p, MMC_JSON, write_text, &text), MMC_OK);
  assert_null(strstr(text.bytes, "\"wisdom_notice\": null"));
  assert_non_null(strstr(text.bytes, "\"objective\": \"time\""));
  free(text.bytes);
  mmc_plan_destroy(p);
}

static void expect(fixture *f, mmc_status status, const char *message) {
  char text[512];
  assert_int_equal(mmc_tune(f->context, &f->options, NULL), status);
  assert_string_equal(mmc_context_message(f->context, text, sizeof text), message);
}

static void bad_options_are_named(void **state) {
  fixture *f = *state;
  mmc_tune_options good = f->options;
  expect(f, MMC_E_ARG, "options: expected chains, products, range or calibrate");
  f->options.size--;
  assert_int_equal(mmc_tune(f->context, &f->options, NULL), MMC_E_ARG);
  f->options = good;
  f->options.calibrate = true;
  good = f->options;
  f->options.objective = "joules";
  expect(f, MMC_E_ARG, "objective: expected time or energy, got 'joules'");
  f->options = good;
  f->options.meter = "none";
  expect(f, MMC_E_ARG, "meter: expected objective energy with it");
  f->options.objective = "energy";
  expect(f, MMC_E_UNSUPPORTED, "meter: nothing measures joules here: no meter is asked for");
  f->options.meter = "gauge";
  expect(f, MMC_E_ARG,
         "meter: expected cpu, blas, ref, cuda, cuda:N, rapl, nvml:N, replay:FILE or none, got "
         "'gauge'");
  f->options.meter = NULL;
  f->options.range = 8;
  expect(f, MMC_E_ARG,
         "range: expected objective time with it; of other sizes than those of chains and products "
         "a model gives the joules");
  f->options = good;
  f->options.precision = "rough";
  expect(f, MMC_E_ARG,
         "precision: expected native, faithful, fast, reproducible or reproducible+faithful, got "
         "'rough'");
  f->options = good;
  f->options.budget_s = NAN;
  expect(f, MMC_E_ARG, "budget: expected seconds, or 0 for no end, got nan");
  f->options = good;
  f->options.range = -1;
  expect(f, MMC_E_ARG, "range: expected sizes from 1 to 1099511627776, got -1");
  f->options = good;
  f->options.dtype = (mmc_dtype)17;
  expect(f, MMC_E_ARG, "dtype and ops: expected those of mmc_dtype and mmc_op");
  f->options = good;
  f->options.chain_count = 1;
  expect(f, MMC_E_ARG, "chains and products: expected as many as are counted");
  f->options = good;
  const mmc_tune_product product = {MMC_F64, 1, 0, 1, MMC_OP_N, MMC_OP_N};
  f->options.products = &product;
  f->options.product_count = 1;
  expect(f, MMC_E_ARG, "products[0]: expected k from 1 to 2^62, got 0");
  assert_int_equal(mmc_tune(f->context, NULL, NULL), MMC_E_ARG);
  assert_int_equal(mmc_tune(NULL, &good, NULL), MMC_E_ARG);
}

static void without_a_store_nothing_is_tuned(void **state) {
  fixture *f = *state;
  close_context(f);
  f->path[0] = '\0';
  assert_int_equal(open_context(f), 0);
  f->options.calibrate = true;
  expect(f, MMC_E_UNSUPPORTED, "no wisdom store: the path given is empty");
}

/* ---- shares of kernels with structure ---------------------------------------------------------
 */

static void shares_are_fitted(void **state) {
  static const int64_t sides[] = {48, 192, 640};
  (void)state;
  double shares[3];
  for (int i = 0; i < 3; i++) shares[i] = 0.5 + 30 / (double)sides[i];
  mmci_structure_share fit = mmci_fit_share(3, sides, shares);
  assert_true(fabs(fit.large - 0.5) < 1e-12 && fabs(fit.small - 30) < 1e-9);
  fit = mmci_fit_share(1, sides, (const double[]){0.7});
  assert_true(fit.large == 0.7 && fit.small == 0);
  fit = mmci_fit_share(3, sides, (const double[]){0.5, 0.6, 0.9}); /* larger with the side */
  assert_true(fit.large > 0.5 && fit.large < 0.9 && fit.small == 0);
  fit = mmci_fit_share(3, sides, (const double[]){20, 3, 0.2});
  assert_true(fabs(fit.large - 0.15) < 1e-12 && fit.small > 0);
  fit = mmci_fit_share(0, sides, shares);
  assert_true(isnan(fit.large) && isnan(fit.small));
}

static double still(void *user) {
  (void)user;
  return 0;
}

/* Every product takes a second, so that only the smallest matrices are timed. */
static mmc_status a_second(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                           mmci_measured *out, mmci_error *error) {
  (void)user;
  (void)gemm;
  (void)recipe;
  (void)error;
  *out = (mmci_measured){.seconds = {1, 1, 1}};
  return MMC_OK;
}

static void kernels_with_structure_are_timed(void **state) {
#ifdef MMCI_WITH_BLAS
  const mmci_device_ops *ops = &mmci_device_blas;
  const mmci_machine machine = {.queues = 1, .now_s = still, .measure = a_second};
  mmci_tune_options options = mmci_tune_defaults();
  mmci_error error = {0};
  mmci_device *device;
  mmci_tuner *tuner;
  int devices = 0;
  (void)state;
  if (ops->probe(&devices, &error) != MMC_OK || devices == 0 ||
      ops->open(0, &device, &error) != MMC_OK)
    skip();
  const mmci_structured ask = {.kernel = MMCI_STRUCTURE_SYSV, .dtype = MMC_F64};
  if (ops->structured_check(device, &ask, &error) != MMC_OK) skip();
  assert_int_equal(mmci_tuner_create(&machine, &options, &tuner, &error), MMC_OK);
  for (int dtype = MMC_F32; dtype <= MMC_C128; dtype += MMC_C128 - MMC_F32) {
    mmci_structure_share shares[MMCI_STRUCTURE_PIECES];
    assert_int_equal(mmci_calibrate_structure(tuner, ops, device, (mmc_dtype)dtype, shares, &error),
                     MMC_OK);
    for (int p = 0; p < MMCI_STRUCTURE_PIECES; p++)
      assert_true(shares[p].large > 0 && shares[p].large < 1e5 && shares[p].small == 0);
  }
  mmci_tuner_destroy(tuner);
  /* Nothing is measured when the budget is spent. */
  options.budget_s = 0;
  assert_int_equal(mmci_tuner_create(&machine, &options, &tuner, &error), MMC_OK);
  mmci_structure_share shares[MMCI_STRUCTURE_PIECES];
  assert_int_equal(mmci_calibrate_structure(tuner, ops, device, MMC_F64, shares, &error),
                   MMC_E_INTERRUPTED);
  mmci_tuner_destroy(tuner);
  ops->close(device);
#else
  (void)state;
  (void)a_second;
  (void)still;
  skip();
#endif
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(what_is_tuned_is_in_plans),
      TEST(a_second_call_measures_nothing),
      TEST(a_spent_budget_is_no_failure),
      TEST(callbacks_stop_it_and_nothing_is_lost),
      TEST(products_are_decided_once),
      TEST(long_chains_are_tuned_in_part),
      TEST(a_batch_is_tuned_as_it_runs),
      TEST(an_array_is_in_plans),
      TEST(a_corrupt_store_leaves_the_model_and_says_so),
      TEST(bad_options_are_named),
      TEST(without_a_store_nothing_is_tuned),
      cmocka_unit_test(shares_are_fitted),
      cmocka_unit_test(kernels_with_structure_are_timed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
