/* pricing.h: how many seconds one product takes, and the recipe by which it takes them. */
#ifndef MMCI_PRICING_H
#define MMCI_PRICING_H

#include "base/provenance.h"
#include "cost/recipe.h"

typedef struct mmci_price {
  double seconds; /* seconds of the whole batch as one call by the recipe, at least 0 */
  double plain_s; /* seconds of the plain call; equals seconds if that is the recipe */
  double error;   /* the relative error that seconds are thought to have at most */
  bool modelled;  /* a model gave them, so that errors of several products add up */
  mmci_provenance source;
  mmci_recipe recipe; /* the plain call unless something better is known */
} mmci_price;

/* Writes the price of a plain call that was measured. Of the recipe only what is read is written:
 * it has room for many pieces, and plans ask for hundreds of prices. */
static inline void mmci_price_plain(mmci_price *out, double seconds, double error) {
  out->seconds = out->plain_s = seconds;
  out->error = error;
  out->modelled = false;
  out->source = MMCI_MEASURED;
  mmci_recipe_set_whole(&out->recipe, 0);
}

/* A source of prices. It does not change once made, so threads may share it. */
typedef struct mmci_pricing {
  const void *user;
  /* Writes the price of a product, which has variant 0 and does not accumulate. */
  void (*price)(const void *user, const mmci_gemm *gemm, mmci_price *out);
} mmci_pricing;

#endif
