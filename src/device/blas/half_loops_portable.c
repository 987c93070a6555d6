/* half_loops_portable.c: what is done with f16 and bf16 element by element, on any processor, and
 * the choice among the loops. */
#include <stdbool.h>

#include "base/half.h"
#include "device/blas/half_loops.h"

#define LOOPS mmci_half_loops_portable
#define VECTOR 4
#define ROWS 4
#define WIDEN(from, to) \
  for (int lane = 0; lane < VECTOR; lane++) (to)[lane] = mmci_f16_to_f32((from)[lane])
#define ROUND(from, to) \
  for (int lane = 0; lane < VECTOR; lane++) (to)[lane] = mmci_f16_round((double)(from)[lane])
#include "device/blas/half_loops_body.h"

const mmci_half_loops *mmci_half_loops_here(void) {
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("f16c");
  if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return &mmci_half_loops_avx512;
  if (has_avx2) return &mmci_half_loops_avx2;
#endif
  return &mmci_half_loops_portable;
}
