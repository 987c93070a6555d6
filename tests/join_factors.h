/* join_factors.h: random orders in which plans over ranks multiply. */
#ifndef MMC_TEST_JOIN_FACTORS_H
#define MMC_TEST_JOIN_FACTORS_H

#include "random.h"
#include "ranks/choose.h"

/* Joins factors first..last of n in a random tree, whose products are appended; returns the
 * number of the operand that it becomes. */
static inline int64_t join_factors(uint64_t *state, const int64_t *dims, int64_t n, int64_t first,
                                   int64_t last, mmci_ranks_product *products, int64_t *steps) {
  if (first == last) return first;
  const int64_t split = first + random_below(state, last - first);
  const int64_t left = join_factors(state, dims, n, first, split, products, steps);
  const int64_t right = join_factors(state, dims, n, split + 1, last, products, steps);
  products[*steps] =
      (mmci_ranks_product){dims[first], dims[split + 1], dims[last + 1], left, right};
  return n + (*steps)++;
}

/* Draws rates of a network and of cores that are anything from fast to slow beside it. */
static inline mmci_ranks_rates random_rates(uint64_t *state) {
  mmci_ranks_rates rates = mmci_ranks_assumed();
  rates.flops_per_s = pow(10, 10 + random_unit(state));
  rates.word_bytes_s = pow(10, -9 + random_unit(state));
  rates.message_s = pow(10, -5 + random_unit(state));
  return rates;
}

#endif
