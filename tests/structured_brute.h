/* structured_brute.h: the fewest multiplications of a chain with structure, by trying every order,
 * form and kernel; what products are is taken from the table, whose costs are not looked at. */
#ifndef MMC_TEST_STRUCTURED_BRUTE_H
#define MMC_TEST_STRUCTURED_BRUTE_H

#include "structure/table.h"

/* Finds the fewest multiplications of factors i to j-1 in a form by trying every split, pair of
 * forms and kernel; MMCI_U128_MAX where there is no such way. outer says that a group of just these
 * factors has been inverted. */
static inline mmci_u128 brute(const mmci_structure_table *table,
                              const mmci_structure_prices *prices, int32_t i, int32_t j, int form,
                              bool outer);

static inline bool is_inverted_group(const mmc_chain *chain, int32_t i, int32_t j) {
  for (int32_t g = 0; g < chain->inverse_count; g++)
    if (chain->inverses[g].first == i && chain->inverses[g].last == j - 1) return true;
  return false;
}

static inline mmci_u128 brute_split(const mmci_structure_table *table,
                                    const mmci_structure_prices *prices, int32_t i, int32_t k,
                                    int32_t j, int form, bool twins) {
  const mmci_structure_entry *l = mmci_structure_at(table, i, k),
                             *r = mmci_structure_at(table, k, j);
  const int64_t *dims = table->chain->dims;
  mmci_u128 best = MMCI_U128_MAX;
  if (!l->whole || !r->whole) return best;
  for (int a = 0; a < 2; a++)
    for (int b = 0; b < 2; b++) {
      bool reversed = a != 0 && b != 0;
      if (reversed != (form == MMCI_INVERTED)) continue;
      mmci_u128 left = brute(table, prices, i, k, a, true),
                right = brute(table, prices, k, j, b, true);
      mmci_structure_product product = {.m = dims[i],
                                        .k = dims[k],
                                        .n = dims[j],
                                        .left = reversed ? r->traits : l->traits,
                                        .right = reversed ? l->traits : r->traits,
                                        .left_inverse = a != 0 && !reversed,
                                        .right_inverse = b != 0 && !reversed,
                                        .mirrored = twins && a == b,
                                        .banded = table->banded,
                                        .left_band = reversed ? r->bands[b] : l->bands[a],
                                        .right_band = reversed ? l->bands[a] : r->bands[b]};
      mmci_structure_choice choices[MMCI_STRUCTURE_CHOICES];
      int count = mmci_structure_choices(&product, prices, choices);
      for (int c = 0; c < count; c++) {
        mmci_u128 cost = mmci_u128_add(choices[c].cost.count, left);
        if (choices[c].kernel != MMCI_STRUCTURE_SYRK) cost = mmci_u128_add(cost, right);
        if (cost < best) best = cost;
      }
    }
  return best;
}

static inline mmci_u128 brute(const mmci_structure_table *table,
                              const mmci_structure_prices *prices, int32_t i, int32_t j, int form,
                              bool outer) {
  const mmc_chain *chain = table->chain;
  const mmci_structure_entry *entry = mmci_structure_at(table, i, j);
  mmci_u128 best = MMCI_U128_MAX,
            convert = mmci_structure_invert(entry->traits, chain->dims[i], false, prices).count;
  if (outer && is_inverted_group(chain, i, j)) {
    best = brute(table, prices, i, j, !form, false);
  } else if (j == i + 1) {
    bool inverse = (chain->traits[i] & MMC_INVERSE) != 0;
    if (inverse == (form == MMCI_INVERTED)) best = 0;
  } else {
    bool twins = (j - i) % 2 == 0;
    for (int conjugated = 0; conjugated < 2 && twins; conjugated++) {
      twins = true;
      for (int32_t t = i; t < j && twins; t++)
        twins = mmci_chain_transposes(chain, t, i + j - 1 - t, conjugated != 0);
      for (int32_t g = 0; g < chain->inverse_count && twins; g++)
        twins = chain->inverses[g].last < i || chain->inverses[g].first >= j ||
                (chain->inverses[g].first <= i && chain->inverses[g].last >= j - 1);
      if (twins) break;
      twins = conjugated == 0;
    }
    for (int32_t k = i + 1; k < j; k++) {
      mmci_u128 cost = brute_split(table, prices, i, k, j, form, twins && 2 * k == i + j);
      if (cost < best) best = cost;
    }
  }
  if (form == MMCI_PLAIN) {
    mmci_u128 held = brute(table, prices, i, j, MMCI_INVERTED, outer);
    if (held != MMCI_U128_MAX && mmci_u128_add(held, convert) < best) best = held + convert;
  }
  return best;
}

#endif
