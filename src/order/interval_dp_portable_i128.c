/* interval_dp_portable_i128.c: tiles of 128-bit integers, for costs below 2^124. */

#include "base/alloc.h"
#include "order/interval_dp.h"

__extension__ typedef __int128 cell;
#define INFINITE ((cell)1 << 126)

static inline cell cell_from(mmci_u128 x) {
  return (cell)x;
}

#include "order/interval_dp_scalar.h"

#define KERNEL mmci_dp_portable_i128
#define KERNEL_NAME "portable i128"
#include "order/interval_dp_body.h"
