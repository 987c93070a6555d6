/* vector_loops_portable.c: the loops of vector_loops.h on any processor, and the choice among
 * them. */
#include "device/blas/vector_loops.h"

#include "base/dtype.h"

#define SPREAD_F32(x, y, sum) (*(x) * (y) + (sum))
#define SPREAD_F64 SPREAD_F32
#define SPREAD_HALF_F32 SPREAD_F32
#define SPREAD_HALF_F64 SPREAD_F32
#define MADD_F32(x, y, sum) ((x) * (y) + (sum))
#define MADD_F64 MADD_F32
#define MADD_HALF_F32 MADD_F32
#define MADD_HALF_F64 MADD_F32
#define SET mmci_vectors_portable
#include "device/blas/vector_loops_set.h"
