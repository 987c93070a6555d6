/* interval_dp_portable_i128.c: tiles of 128-bit integers, for costs below 2^124. */

#include "base/alloc.h"
#include "order/interval_dp.h"

__extension__ typedef __int128 cell;
#define INFINITE ((cell)1 << 126)

static inline cell cell_multiply(cell x, cell y) {
  return x * y;
}
static inline cell cell_add(cell x, cell y) {
  return x + y;
}
static inline cell cell_multiply_add(cell x, cell y, cell z) {
  return x * y + z;
}
static inline cell cell_from(mmci_u128 x) {
  return (cell)x;
}
static inline mmci_u128 cell_to_u128(cell x) {
  return (mmci_u128)x;
}

#include "order/interval_dp_scalar.h"

#define KERNEL mmci_dp_portable_i128
#define KERNEL_SET "portable"
#define KERNEL_NAME "portable i128"
#include "order/interval_dp_body.h"
