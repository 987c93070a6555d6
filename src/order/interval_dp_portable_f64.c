/* interval_dp_portable_f64.c: tiles of doubles, in plain C. */
#include <math.h>

#include "base/alloc.h"
#include "order/interval_dp.h"

typedef double cell;
#define INFINITE ((double)INFINITY)

static inline cell cell_from(mmci_u128 x) {
  return mmci_u128_to_double(x);
}

#include "order/interval_dp_scalar.h"

#define KERNEL mmci_dp_portable_f64
#define KERNEL_NAME "portable f64"
#include "order/interval_dp_body.h"
