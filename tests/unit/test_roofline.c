/* test_roofline.c: the model's times, and fitting it to those of a machine that follows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "cost/energy.h"
#include "cost/roofline.h"
#include "device/cuda/facts.h"
#include "device/device.h"

static mmci_gemm product(mmc_dtype dtype, int64_t m, int64_t k, int64_t n) {
  return mmci_gemm_tight(dtype, MMCI_NATIVE, m, k, n, MMC_OP_N, MMC_OP_N);
}

static bool near(double a, double b, double tolerance) {
  return fabs(a - b) <= tolerance * fabs(b);
}

static void times_are_those_of_the_formula(void **state) {
  (void)state;
  mmci_roofline r = {.flops_per_s = 1e9, .bytes_per_s = 1e8, .launch_s = 1e-6, .overlap = 1};
  mmci_gemm gemm = product(MMC_F64, 100, 100, 100);
  /* 2e6 flops in 2 ms, 240 kB in 2.4 ms. */
  assert_true(near(mmci_roofline_seconds(&r, &gemm), 1e-6 + 2.4e-3, 1e-12));
  r.overlap = 0;
  assert_true(near(mmci_roofline_seconds(&r, &gemm), 1e-6 + 4.4e-3, 1e-12));
  r = (mmci_roofline){
      .flops_per_s = 1e9, .bytes_per_s = 1e12, .half_mn = 100, .half_k = 50, .overlap = 1};
  assert_true(near(mmci_roofline_seconds(&r, &gemm), 2e-3 * 2 * 2 * 1.5, 1e-12));
  gemm.dtype = MMC_C64;
  assert_true(near(mmci_roofline_seconds(&r, &gemm), 8e-3 * 2 * 2 * 1.5, 1e-12));
  gemm.k = 0; /* no arithmetic, and C is written */
  r.launch_s = 1e-6;
  assert_true(near(mmci_roofline_seconds(&r, &gemm), 1e-6 + 8e4 / 1e12, 1e-12));
  gemm.m = 0;
  assert_true(near(mmci_roofline_seconds(&r, &gemm), 1e-6, 1e-12));
}

/* Machines drawn at random that follow the model, with and without each of its parts: predictions
 * of sizes that were not samples are right. */
static void a_machine_that_follows_the_model_is_found(void **state) {
  (void)state;
  enum { SAMPLES = 40 };
  int exact = 0;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    uint64_t random = seed;
    mmci_roofline truth = {.flops_per_s = 1e9 * exp(8 * fabs(random_unit(&random))),
                           .bytes_per_s = 1e9 * exp(5 * fabs(random_unit(&random))),
                           .launch_s = 1e-8 * exp(6 * fabs(random_unit(&random))),
                           .half_mn = seed % 2 != 0 ? 1 + 60 * fabs(random_unit(&random)) : 0,
                           .half_k = seed % 3 != 0 ? 1 + 60 * fabs(random_unit(&random)) : 0,
                           .overlap = seed % 5 != 0 ? 1 : 0};
    mmci_sample samples[SAMPLES];
    for (int s = 0; s < SAMPLES; s++) {
      mmci_gemm gemm =
          product(MMC_F32, INT64_C(1) << random_below(&random, 13),
                  INT64_C(1) << random_below(&random, 13), INT64_C(1) << random_below(&random, 13));
      samples[s] = (mmci_sample){.gemm = gemm, .seconds = mmci_roofline_seconds(&truth, &gemm)};
    }
    mmci_roofline found = mmci_roofline_fit(samples, SAMPLES);
    assert_true(found.calibrated);
    double off = 0;
    for (int t = 0; t < 100; t++) {
      mmci_gemm gemm = product(MMC_F32, 1 + random_below(&random, 4096),
                               1 + random_below(&random, 4096), 1 + random_below(&random, 4096));
      off +=
          fabs(log(mmci_roofline_seconds(&found, &gemm) / mmci_roofline_seconds(&truth, &gemm))) /
          100;
    }
    exact += off <= 0.02;
    if (!(off <= 0.2) || !(found.error <= 0.25))
      fail_msg("seed %llu: off by %g on average, said %g", (unsigned long long)seed, off,
               found.error);
  }
  assert_true(exact >= 30);
}

/* The error that is told covers nine of ten of the samples it was fitted to. */
static void the_error_told_covers_the_samples(void **state) {
  (void)state;
  enum { SAMPLES = 30 };
  for (uint64_t seed = 1; seed <= 20; seed++) {
    uint64_t random = seed;
    mmci_sample samples[SAMPLES];
    for (int s = 0; s < SAMPLES; s++)
      samples[s] = (mmci_sample){
          .gemm = product(MMC_F64, 1 + random_below(&random, 999), 1 + random_below(&random, 999),
                          1 + random_below(&random, 999)),
          .seconds = 1e-6 * exp(4 * random_unit(&random))};
    mmci_roofline found = mmci_roofline_fit(samples, SAMPLES);
    int covered = 0;
    for (int s = 0; s < SAMPLES; s++) {
      double ratio = mmci_roofline_seconds(&found, &samples[s].gemm) / samples[s].seconds;
      covered += fmax(ratio, 1 / ratio) <= (1 + found.error) * (1 + 1e-12);
    }
    if (covered < 27) fail_msg("seed %llu: %d of 30", (unsigned long long)seed, covered);
  }
}

static void one_sample_is_enough(void **state) {
  (void)state;
  mmci_sample one = {.gemm = product(MMC_F64, 64, 64, 64), .seconds = 1e-5};
  mmci_roofline found = mmci_roofline_fit(&one, 1);
  assert_true(near(mmci_roofline_seconds(&found, &one.gemm), 1e-5, 0.01));
}

static void facts_are_kept_and_checked(void **state) {
  (void)state;
  mmci_roofline r = {.flops_per_s = 1e12,
                     .bytes_per_s = 2e11,
                     .launch_s = 3e-6,
                     .half_mn = 4,
                     .half_k = 5,
                     .overlap = 1,
                     .error = 0.25,
                     .calibrated = true},
                out;
  double facts[MMCI_ROOFLINE_FACTS], bad[MMCI_ROOFLINE_FACTS];
  mmci_roofline_facts(&r, facts);
  assert_true(mmci_roofline_of_facts(facts, &out));
  assert_memory_equal(&r.flops_per_s, &out.flops_per_s, offsetof(mmci_roofline, calibrated));
  assert_true(out.calibrated);
  for (int f = 0; f < MMCI_ROOFLINE_FACTS; f++)
    for (int wrong = 0; wrong < 3; wrong++) {
      memcpy(bad, facts, sizeof bad);
      bad[f] = wrong == 0 ? NAN : wrong == 1 ? -1 : INFINITY;
      assert_false(mmci_roofline_of_facts(bad, &out));
    }
  facts[0] = 0;
  assert_false(mmci_roofline_of_facts(facts, &out));
}

/* A GPU's facts do not need the GPU. */
static void tell_of_gpu(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                        mmci_facts *out) {
  (void)device;
  *out = mmci_cuda_facts_of(132, dtype, precision);
}

static void check_facts(const mmci_opened *on, mmc_dtype dtype, mmci_precision precision) {
  mmci_facts told;
  mmci_error error;
  assert_int_equal(mmci_opened_facts(on, dtype, precision, &told, &error), MMC_OK);
  mmci_roofline r = mmci_roofline_assumed(&told);
  double facts[MMCI_ROOFLINE_FACTS], joules[MMCI_ENERGY_FACTS];
  mmci_roofline_facts(&r, facts);
  assert_false(r.calibrated);
  assert_true(mmci_roofline_of_facts(facts, &r));
  mmci_energy_model e = mmci_energy_assumed(&told);
  mmci_energy_facts(&e, joules);
  assert_false(e.calibrated);
  assert_true(mmci_energy_of_facts(joules, &e));
  assert_true(told.static_w > 0 && told.joules_per_flop > 0 && told.joules_per_byte > 0);
  assert_true(told.workers >= 1 && told.tile >= 1);
  assert_true(told.group_share > 0 && told.group_share <= 1);
}

static void every_device_tells_facts_of_every_dtype(void **state) {
  (void)state;
  const mmci_device_ops gpu = {.facts = tell_of_gpu};
  mmci_registry *registry;
  mmci_error error;
  mmci_opened opened[3] = {{.ops = &gpu, .name = "a GPU"}};
  assert_int_equal(mmci_registry_create("", &registry, &error), MMC_OK);
  assert_int_equal(mmci_registry_open(registry, "ref", &opened[1], &error), MMC_OK);
  assert_int_equal(mmci_registry_open(registry, "cpu", &opened[2], &error), MMC_OK);
  for (int d = 0; d < 3; d++)
    for (mmc_dtype dtype = MMC_F32; mmc_dtype_name(dtype) != NULL; dtype = (mmc_dtype)(dtype + 1))
      for (mmci_precision p = MMCI_NATIVE; p <= MMCI_FAST; p = (mmci_precision)(p + 1))
        check_facts(&opened[d], dtype, p);
  mmci_registry_destroy(registry);
}

static void a_gpu_has_its_own_width(void **state) {
  (void)state;
  assert_int_equal(mmci_cuda_facts_of(108, MMC_F32, MMCI_NATIVE).workers, 108);
  assert_int_equal(mmci_cuda_facts_of(132, MMC_F64, MMCI_FAST).workers, 132);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(times_are_those_of_the_formula),
      cmocka_unit_test(a_machine_that_follows_the_model_is_found),
      cmocka_unit_test(the_error_told_covers_the_samples),
      cmocka_unit_test(one_sample_is_enough),
      cmocka_unit_test(facts_are_kept_and_checked),
      cmocka_unit_test(every_device_tells_facts_of_every_dtype),
      cmocka_unit_test(a_gpu_has_its_own_width),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
