/* test_cuda_architectures.c: which cards a build of the CUDA kernels runs on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "device/cuda/architectures.h"

static void machine_code_is_for_one_major(void **state) {
  (void)state;
  assert_true(mmci_cuda_has_code("80-real", 8, 0));
  assert_true(mmci_cuda_has_code("80-real", 8, 6));
  assert_false(mmci_cuda_has_code("86-real", 8, 0));
  assert_false(mmci_cuda_has_code("80-real", 9, 0));
  assert_false(mmci_cuda_has_code("80-real", 7, 5));
  assert_false(mmci_cuda_has_code("100-real", 9, 0));
  assert_true(mmci_cuda_has_code("100-real", 10, 3));
}

static void ptx_is_for_what_is_later(void **state) {
  (void)state;
  assert_true(mmci_cuda_has_code("80-virtual", 8, 0));
  assert_true(mmci_cuda_has_code("80-virtual", 12, 1));
  assert_false(mmci_cuda_has_code("90-virtual", 8, 9));
  assert_true(mmci_cuda_has_code("80", 12, 0));
  assert_false(mmci_cuda_has_code("90", 8, 0));
}

static void letters_bind_code_to_cards(void **state) {
  (void)state;
  assert_true(mmci_cuda_has_code("90a-real", 9, 0));
  assert_true(mmci_cuda_has_code("90a", 9, 0));
  assert_false(mmci_cuda_has_code("90a-real", 10, 0));
  assert_false(mmci_cuda_has_code("90a-virtual", 10, 0));
  assert_false(mmci_cuda_has_code("100f-real", 9, 0));
  assert_false(mmci_cuda_has_code("100f-real", 12, 0));
  assert_true(mmci_cuda_has_code("100f-real", 10, 3));
}

static void any_word_is_enough(void **state) {
  (void)state;
  assert_true(mmci_cuda_has_code("90a-real 80-virtual", 8, 6));
  assert_true(mmci_cuda_has_code("80-real 90a-real 90-virtual", 9, 0));
  assert_true(mmci_cuda_has_code("80-real 90a-real 90-virtual", 12, 0));
  assert_false(mmci_cuda_has_code("80-real 90a-real", 12, 0));
  assert_false(mmci_cuda_has_code("", 9, 0));
  assert_true(mmci_cuda_has_code("native", 7, 5));
  assert_true(mmci_cuda_has_code("75-real all-major", 9, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(machine_code_is_for_one_major),
      cmocka_unit_test(ptx_is_for_what_is_later),
      cmocka_unit_test(letters_bind_code_to_cards),
      cmocka_unit_test(any_word_is_enough),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
