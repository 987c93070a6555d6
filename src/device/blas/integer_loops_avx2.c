/* integer_loops_avx2.c: what is done with integers element by element, by AVX2. */
#if defined(__x86_64__)

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/wide.h"
#include "device/blas/integer_loops.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#define LOOPS mmci_integer_loops_avx2
#include "device/blas/integer_loops_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
