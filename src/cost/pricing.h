/* pricing.h: what one product takes, and how it is best computed. */
#ifndef MMCI_PRICING_H
#define MMCI_PRICING_H

#include "base/provenance.h"
#include "cost/recipe.h"

typedef struct mmci_price {
  double seconds; /* >= 0; as the recipe says */
  double plain_s; /* of the plain call; what seconds are where the recipe is that */
  double error;   /* that seconds are thought to be off by at most, relative */
  bool of_batch;  /* seconds are of all of gemm's batch, measured as one call; else of one */
  bool modelled;  /* errors are of one kind: those of several products add up */
  mmci_provenance source;
  mmci_recipe recipe; /* plain unless something better is known */
} mmci_price;

/* Where prices come from. Immutable, so threads may share it. */
typedef struct mmci_pricing {
  const void *user;
  /* gemm: variant 0, not accumulating. */
  void (*price)(const void *user, const mmci_gemm *gemm, mmci_price *out);
} mmci_pricing;

#endif
