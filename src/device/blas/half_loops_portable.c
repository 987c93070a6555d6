/* half_loops_portable.c: what is done with f16 and bf16 element by element, on any processor, and
 * the choice among the loops. */
#include <stdatomic.h>
#include <stdbool.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/half.h"
#include "device/blas/half_loops.h"

#define LOOPS mmci_half_loops_portable
#define VECTOR 4
#define ROWS 4
#define WIDEN(from, to) \
  for (int lane = 0; lane < VECTOR; lane++) (to)[lane] = mmci_f16_to_f32((from)[lane])
#define ROUND(from, to) \
  for (int lane = 0; lane < VECTOR; lane++) (to)[lane] = mmci_f16_round((double)(from)[lane])
#define MADD(x, y, sum) ((x) * (y) + (sum))
#define MADD_NUMBER MADD
#include "device/blas/half_loops_body.h"

#if defined(__x86_64__)
/* Says whether the processor has F16C, of which not every compiler can ask by its name. */
static bool has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
#endif

static const mmci_half_loops *find_loops(void) {
#if defined(__x86_64__)
  const bool has_avx2 =
      has_f16c() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return &mmci_half_loops_avx512;
  if (has_avx2) return &mmci_half_loops_avx2;
#endif
  return &mmci_half_loops_portable;
}

const mmci_half_loops *mmci_half_loops_here(void) {
  /* Threads that find them at the same time find the same. */
  static _Atomic(const mmci_half_loops *) known;
  const mmci_half_loops *loops = atomic_load_explicit(&known, memory_order_relaxed);
  if (loops == NULL) {
    loops = find_loops();
    atomic_store_explicit(&known, loops, memory_order_relaxed);
  }
  return loops;
}
