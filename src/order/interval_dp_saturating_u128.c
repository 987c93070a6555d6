/* interval_dp_saturating_u128.c: tiles of 128-bit counts that saturate, for costs near 2^128. */
#include "base/alloc.h"
#include "order/interval_dp.h"

typedef mmci_u128 cell;
enum { BOUNDED = 0 };
#define INFINITE MMCI_U128_MAX

static inline cell cell_multiply(cell x, cell y) {
  return mmci_u128_mul(x, y);
}
static inline cell cell_add(cell x, cell y) {
  return mmci_u128_add(x, y);
}
static inline cell cell_multiply_add(cell x, cell y, cell z) {
  return mmci_u128_add(mmci_u128_mul(x, y), z);
}
static inline cell cell_from(mmci_u128 x) {
  return x;
}
static inline mmci_u128 cell_to_u128(cell x) {
  return x;
}

#include "order/interval_dp_scalar.h"

#define KERNEL mmci_dp_saturating_u128
#define KERNEL_SET "portable"
#define KERNEL_NAME "portable saturating u128"
#include "order/interval_dp_body.h"
