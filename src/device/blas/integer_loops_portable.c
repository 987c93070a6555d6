/* integer_loops_portable.c: what is done with integers element by element, on any processor. */
#define LOOPS mmci_integer_loops_portable
#include "device/blas/integer_loops_body.h"

const mmci_integer_loops *mmci_integer_loops_here(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return &mmci_integer_loops_avx512;
  if (__builtin_cpu_supports("avx2")) return &mmci_integer_loops_avx2;
#endif
  return &mmci_integer_loops_portable;
}
