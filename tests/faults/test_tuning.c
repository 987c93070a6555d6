/* test_tuning.c: a search, an array and a bench, once with each of their allocations failing. What
 * fails must say MMC_E_NOMEM and lose nothing (the sanitizers look for leaks).
 *
 * Linked with --wrap for every function that allocates, see tests/CMakeLists.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../synthetic.h"
#include "tune/array.h"
#include "tune/cuts.h"
#include "tune/joules.h"
#include "tune/measure.h"
#include "tune/search.h"

/* ---- the allocator that fails -------------------------------------------------------------- */

static long allocations_left = -1; /* until one fails; negative: none does */
static bool has_failed;

static bool fails(void) {
  if (allocations_left < 0 || allocations_left-- > 0) return false;
  return has_failed = true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *string);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *string);

void *__wrap_malloc(size_t size) {
  return fails() ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
  return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  return fails() ? NULL : __real_aligned_alloc(alignment, size);
}
char *__wrap_strdup(const char *string) {
  return fails() ? NULL : __real_strdup(string);
}

/* ---- what allocates ------------------------------------------------------------------------ */

static double seconds_of(const synthetic *s, const mmci_gemm *gemm) {
  (void)s;
  return 1e-9 * (double)(gemm->m * gemm->k * gemm->n) * (gemm->n > 4 ? 1.5 : 1);
}

static mmc_status search(mmci_error *error) {
  synthetic s = {.seconds = seconds_of};
  mmci_machine machine = synthetic_machine(&s);
  mmci_tune_options options = mmci_tune_defaults();
  mmci_tuner *tuner = NULL;
  mmci_choice choice;
  int64_t decided;
  mmci_gemm gemm = synthetic_gemm(4, 4, 8);
  mmc_status status = mmci_tuner_create(&machine, &options, &tuner, error);
  if (status == MMC_OK) status = mmci_tune_set(tuner, &gemm, 1, &choice, &decided, error);
  mmci_tuner_destroy(tuner);
  return status;
}

static mmc_status array(mmci_error *error) {
  synthetic s = {.seconds = seconds_of};
  mmci_machine machine = synthetic_machine(&s);
  mmci_tune_options tune = mmci_tune_defaults();
  mmci_array_options options = mmci_array_defaults(4);
  mmci_tuner *tuner = NULL;
  mmci_array *made = NULL, *restored = NULL;
  mmci_gemm like = synthetic_gemm(1, 1, 1);
  mmc_status status = mmci_tuner_create(&machine, &tune, &tuner, error);
  if (status == MMC_OK) status = mmci_tune_array(tuner, &like, &options, &made, error);
  if (status == MMC_OK)
    status = mmci_array_restore(&like, made->grid, made->seconds, &made->trust, &restored, error);
  int64_t cut;
  if (status == MMC_OK) status = mmci_tune_cuts(tuner, made, &cut, error);
  mmci_array_destroy(restored);
  mmci_array_destroy(made);
  mmci_tuner_destroy(tuner);
  return status;
}

/* Joules go by the seconds; variant 1 takes half of them. */
static mmc_status half_joules(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                              mmci_measured *out, mmci_error *error) {
  (void)error;
  double seconds = synthetic_truth(user, gemm, recipe);
  double joules = seconds * (recipe->nodes[0].variant == 1 ? 50 : 100);
  *out = (mmci_measured){.seconds = {seconds, seconds, seconds},
                         .joules = {joules, 0.99 * joules, 1.01 * joules}};
  return MMC_OK;
}

static mmc_status saving(mmci_error *error) {
  synthetic s = {.seconds = seconds_of, .variants = 3};
  mmci_machine machine = synthetic_machine(&s);
  machine.joules = half_joules;
  mmci_tune_options options = mmci_tune_defaults();
  mmci_tuner *tuner = NULL;
  mmci_saving decided;
  mmci_gemm gemm = synthetic_gemm(4, 4, 8);
  mmc_status status = mmci_tuner_create(&machine, &options, &tuner, error);
  if (status == MMC_OK) status = mmci_tune_joules(tuner, &gemm, NULL, &decided, error);
  if (status == MMC_OK) assert_int_equal(decided.recipe.nodes[0].variant, 1);
  mmci_tuner_destroy(tuner);
  return status;
}

/* A clock that does not ask how fast this machine is: a look at it takes a millisecond. */
static double now_s(void *user) {
  return *(double *)user += 1e-3;
}

static mmc_status bench(mmci_error *error) {
  mmci_device *device = NULL;
  mmci_bench *made = NULL;
  double clock_s = 0;
  mmci_measure_options options = mmci_measure_defaults();
  options.now_s = now_s;
  options.clock_user = &clock_s;
  mmc_status status = mmci_device_ref.open(0, &device, error);
  if (status == MMC_OK) status = mmci_bench_open(&mmci_device_ref, device, &options, &made, error);
  mmci_gemm gemm = synthetic_gemm(4, 4, 9);
  static const char *const recipes[] = {"n:4,5", "k:1,3"};
  for (int i = 0; status == MMC_OK && i < 2; i++) {
    mmci_machine machine = mmci_bench_machine(made);
    mmci_recipe recipe;
    mmci_measured measured;
    status = mmci_recipe_parse(recipes[i], 4, 4, 9, NULL, &recipe, error);
    if (status == MMC_OK) status = machine.measure(machine.user, &gemm, &recipe, &measured, error);
    if (status == MMC_OK) status = machine.compare(machine.user, &gemm, &recipe, &measured, error);
  }
  mmci_form forms[] = {{.ld = 3}, {.ld = 4}, {.ld = 5}};
  const mmci_group_product products[] = {{2, 3, 4, 0, 1}, {2, 4, 5, 3, 2}};
  const mmci_group call = {.dtype = MMC_F32,
                           .batch = 1,
                           .n = 3,
                           .count = 2,
                           .forms = forms,
                           .products = products,
                           .ldc = 5};
  if (status == MMC_OK) {
    mmci_machine machine = mmci_bench_machine(made);
    mmci_measured measured;
    status = machine.measure_group(machine.user, &call, &measured, error);
  }
  mmci_bench_close(made);
  if (device != NULL) mmci_device_ref.close(device);
  return status;
}

/* ---- the test ------------------------------------------------------------------------------ */

static void each_allocation(mmc_status (*work)(mmci_error *), long least) {
  long k = 0;
  for (has_failed = true; has_failed; k++) {
    mmci_error error = {0};
    has_failed = false;
    allocations_left = k;
    mmc_status status = work(&error);
    allocations_left = -1;
    assert_int_equal(status, has_failed ? MMC_E_NOMEM : MMC_OK);
    if (has_failed) assert_non_null(strstr(error.text, "out of memory"));
  }
  assert_true(k > least);
}

static void searches(void **state) {
  (void)state;
  each_allocation(search, 30);
}
static void arrays(void **state) {
  (void)state;
  each_allocation(array, 30);
}
static void savings(void **state) {
  (void)state;
  each_allocation(saving, 8);
}
static void benches(void **state) {
  (void)state;
  each_allocation(bench, 15);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(searches),
      cmocka_unit_test(arrays),
      cmocka_unit_test(savings),
      cmocka_unit_test(benches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
