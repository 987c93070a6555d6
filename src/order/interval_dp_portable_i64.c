/* interval_dp_portable_i64.c: tiles of 64-bit integers, in plain C. */

#include "base/alloc.h"
#include "order/interval_dp.h"

typedef int64_t cell;
#define INFINITE ((int64_t)1 << 62)

static inline cell cell_from(mmci_u128 x) {
  return (cell)x;
}

#include "order/interval_dp_scalar.h"

#define KERNEL mmci_dp_portable_i64
#define KERNEL_NAME "portable i64"
#include "order/interval_dp_body.h"
