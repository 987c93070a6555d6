/* products.h: what multiplies the pieces that a rank has: the engine of its team, or the device
 * "blas" where that knows a faster way. */
#ifndef MMCI_RANKS_PRODUCTS_H
#define MMCI_RANKS_PRODUCTS_H

#include "device/device.h"
#include "ranks/team.h"

typedef struct mmci_products {
  const mmci_team_ops *ops;
  mmci_team *team;
  mmci_opened blas;  /* without ops where there is none */
  mmci_queue *queue; /* of that device */
} mmci_products;

/* Opens a queue on the device, unless its ops are NULL: then the engine multiplies everything but
 * reproducible products, which it cannot. Returns: E_NOMEM, E_DEVICE. */
mmc_status mmci_products_open(const mmci_team_ops *ops, mmci_team *team, const mmci_opened *blas,
                              mmci_products *out, mmci_error *error);
void mmci_products_close(mmci_products *products);

/* Says whether the device multiplies large matrices faster than the engine. It does not where the
 * user has named the engine's libraries. */
bool mmci_products_replace(const mmci_products *products, mmc_dtype dtype);

/* How a rank multiplies. */
typedef struct mmci_how {
  mmc_dtype dtype;
  mmci_precision precision; /* MMCI_NATIVE, MMCI_REPRODUCIBLE */
  bool replaces;            /* by the device, where it knows a faster way */
  mmci_sums sums;           /* those of the product that this is a piece of */
} mmci_how;

/* Multiplies on this rank alone, as in mmci_team_ops. Returns: E_UNSUPPORTED, E_NOMEM, E_DEVICE,
 * E_INTERRUPTED. */
mmc_status mmci_products_multiply(const mmci_products *products, const mmci_how *how, int64_t m,
                                  int64_t k, int64_t n, const mmci_local *a, const mmci_local *b,
                                  void *c, mmci_error *error);

#endif
