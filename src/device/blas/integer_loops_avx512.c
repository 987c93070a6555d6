/* integer_loops_avx512.c: what is done with integers element by element, by AVX512. */
#if defined(__x86_64__)

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/wide.h"
#include "device/blas/integer_loops.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl")
#endif

#define LOOPS mmci_integer_loops_avx512
#include "device/blas/integer_loops_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
