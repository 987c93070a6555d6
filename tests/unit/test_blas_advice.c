/* test_blas_advice.c: when a BLAS is said to be slower than it need be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "device/blas/advice.h"

static void older_cores_are_told(void **state) {
  (void)state;
  static const struct {
    const char *config;
    mmci_simd processor;
    const char *advice;
  } cases[] = {
      {"OpenBLAS 0.3.21 DYNAMIC_ARCH NO_AFFINITY Prescott MAX_THREADS=64", MMCI_AVX512,
       "; slow: Prescott's kernels, and the processor has AVX-512: set OPENBLAS_CORETYPE=SkylakeX"},
      {"OpenBLAS 0.3.21 DYNAMIC_ARCH NO_AFFINITY Prescott MAX_THREADS=64", MMCI_AVX2,
       "; slow: Prescott's kernels, and the processor has AVX2: set OPENBLAS_CORETYPE=Haswell"},
      {"OpenBLAS 0.3.21 DYNAMIC_ARCH Sandybridge", MMCI_AVX2,
       "; slow: Sandybridge's kernels, and the processor has AVX2: set OPENBLAS_CORETYPE=Haswell"},
      {"OpenBLAS 0.3.21 Nehalem MAX_THREADS=4", MMCI_AVX,
       "; slow: built for Nehalem, and the processor has AVX: install an OpenBLAS with "
       "DYNAMIC_ARCH"},
      {"OpenBLAS 0.3.21 DYNAMIC_ARCH Haswell MAX_THREADS=64", MMCI_AVX2, ""},
      {"OpenBLAS 0.3.21 DYNAMIC_ARCH Zen MAX_THREADS=64", MMCI_AVX512, ""},
      {"OpenBLAS 0.3.21 DYNAMIC_ARCH Prescott MAX_THREADS=64", MMCI_SSE, ""},
      {"OpenBLAS 0.3.99 DYNAMIC_ARCH PrescottLake MAX_THREADS=64", MMCI_AVX512, ""},
      {"OpenBLAS 0.3.21 NEOVERSEN1", MMCI_SSE, ""},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    char text[256] = "what was there before";
    mmci_openblas_advice(cases[c].config, cases[c].processor, text, sizeof text);
    assert_string_equal(text, cases[c].advice);
  }
}

static void advice_is_cut_to_its_room(void **state) {
  (void)state;
  char text[16];
  memset(text, '#', sizeof text);
  mmci_openblas_advice("OpenBLAS DYNAMIC_ARCH Prescott", MMCI_AVX512, text, 8);
  assert_string_equal(text, "; slow:");
  assert_int_equal(text[8], '#');
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(older_cores_are_told),
      cmocka_unit_test(advice_is_cut_to_its_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
