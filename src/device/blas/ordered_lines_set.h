/* ordered_lines_set.h: defines SET, the loops in order for an instruction set whose operations the
 * file that includes this one has named. */
#include <stdbool.h>

#define INLINE static inline __attribute__((always_inline))

#define NUMBER float
#define NAME(x) x##_f32
#define FMA_NUMBER __builtin_fmaf
#define VECTOR VECTOR_F32
#define MASK MASK_F32
#define WIDTH ((int)(sizeof(VECTOR) / sizeof(NUMBER)))
#define FIRST FIRST_F32
#define LOAD LOAD_F32
#define LOAD_FIRST LOAD_FIRST_F32
#define STORE STORE_F32
#define STORE_FIRST STORE_FIRST_F32
#define SPREAD SPREAD_F32
#define PAIR PAIR_F32
#define FMA FMA_F32
#define TIMES TIMES_F32
#define SIGNS SIGNS_F32
#define SWAP SWAP_F32
#define EVEN EVEN_F32
#define ODD ODD_F32
#define SETTLE SETTLE_F32
#include "device/blas/ordered_lines_body.h"

#define NUMBER double
#define NAME(x) x##_f64
#define FMA_NUMBER __builtin_fma
#define VECTOR VECTOR_F64
#define MASK MASK_F64
#define WIDTH ((int)(sizeof(VECTOR) / sizeof(NUMBER)))
#define FIRST FIRST_F64
#define LOAD LOAD_F64
#define LOAD_FIRST LOAD_FIRST_F64
#define STORE STORE_F64
#define STORE_FIRST STORE_FIRST_F64
#define SPREAD SPREAD_F64
#define PAIR PAIR_F64
#define FMA FMA_F64
#define TIMES TIMES_F64
#define SIGNS SIGNS_F64
#define SWAP SWAP_F64
#define EVEN EVEN_F64
#define ODD ODD_F64
#define SETTLE SETTLE_F64
#include "device/blas/ordered_lines_body.h"

const mmci_vectors_fn SET[4] = {real_f32, real_f64, complex_f32, complex_f64};
