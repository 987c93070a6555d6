/* vector_loops_set.h: defines SET, the loops for an instruction set whose operations the file that
 * includes this one has named. */
#include <stdbool.h>

#define INLINE static inline __attribute__((always_inline))

typedef float vector_f32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float half_f32 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double vector_f64 __attribute__((vector_size(32), aligned(8), may_alias));
typedef double half_f64 __attribute__((vector_size(16), aligned(8), may_alias));

/* Pairs change places; x is a variable, here and below. */
#define SWAP_F32(x) ((vector_f32){x[1], x[0], x[3], x[2], x[5], x[4], x[7], x[6]})
#define SWAP_HALF_F32(x) ((half_f32){x[1], x[0], x[3], x[2]})
#define SWAP_F64(x) ((vector_f64){x[1], x[0], x[3], x[2]})
#define SWAP_HALF_F64(x) ((half_f64){x[1], x[0]})
/* The two halves of x are added. Then the even elements of x are added up, and the odd ones of it,
 * and those of y: sums of pairs, as those of complex numbers are. */
#define FOLD_F32(x) ((half_f32){x[0], x[1], x[2], x[3]} + (half_f32){x[4], x[5], x[6], x[7]})
#define FOLD_F64(x) ((half_f64){x[0], x[1]} + (half_f64){x[2], x[3]})
#define PAIRS_F32(x, y) ((half_f32){x[0], y[0], x[2], y[2]} + (half_f32){x[1], y[1], x[3], y[3]})
#define PAIRS_F64(x, y) ((half_f64){x[0], y[0]} + (half_f64){x[1], y[1]})
#define SUM_F32(x) ((x[0] + x[2]) + (x[1] + x[3]))
#define SUM_F64(x) (x[0] + x[1])
#define FIRST_F32(x) (x[0] + x[2])
#define FIRST_F64(x) (x[0])
#define SECOND_F32(x) (x[1] + x[3])
#define SECOND_F64(x) (x[1])

#define NUMBER float
#define NAME(x) x##_f32
#define MADD SPREAD_F32
#define MADD_HALF SPREAD_HALF_F32
#define MADD_VECTORS MADD_F32
#define SIGNS(x, y) ((vector_f32){x, y, x, y, x, y, x, y})
#define SIGNS_HALF(x, y) ((half_f32){x, y, x, y})
#define SWAP SWAP_F32
#define SWAP_HALF SWAP_HALF_F32
#define FOLD FOLD_F32
#define PAIRS PAIRS_F32
#define SUM SUM_F32
#define FIRST FIRST_F32
#define SECOND SECOND_F32
#define MADD_HALVES MADD_HALF_F32
#include "device/blas/vector_loops_body.h"
#undef NUMBER
#undef NAME
#undef MADD
#undef MADD_HALF
#undef MADD_VECTORS
#undef SIGNS
#undef SIGNS_HALF
#undef SWAP
#undef SWAP_HALF
#undef FOLD
#undef PAIRS
#undef SUM
#undef FIRST
#undef SECOND
#undef MADD_HALVES

#define NUMBER double
#define NAME(x) x##_f64
#define MADD SPREAD_F64
#define MADD_HALF SPREAD_HALF_F64
#define MADD_VECTORS MADD_F64
#define SIGNS(x, y) ((vector_f64){x, y, x, y})
#define SIGNS_HALF(x, y) ((half_f64){x, y})
#define SWAP SWAP_F64
#define SWAP_HALF SWAP_HALF_F64
#define FOLD FOLD_F64
#define PAIRS PAIRS_F64
#define SUM SUM_F64
#define FIRST FIRST_F64
#define SECOND SECOND_F64
#define MADD_HALVES MADD_HALF_F64
#include "device/blas/vector_loops_body.h"

const mmci_vectors_set SET = {
    .lines = {real_lines_f32, real_lines_f64, complex_lines_f32, complex_lines_f64},
    .sums = {real_sums_f32, real_sums_f64, complex_sums_f32, complex_sums_f64}};
