/* every.c: numbers the trees of a short chain. The split of each interval is read off the
 * interval's number, which is that of its parent divided by the trees of its sibling. */
#include "order/order.h"

static const int32_t trees_of[MMCI_EVERY_MOST + 1] = {0, 1, 1, 2, 5, 14}; /* Catalan numbers */

typedef struct numbered {
  /* The number of the tree of each interval (i, j). */
  int32_t number[MMCI_EVERY_MOST + 1][MMCI_EVERY_MOST + 1];
} numbered;

static int32_t split(void *user, int32_t i, int32_t j) {
  numbered *x = user;
  int32_t number = x->number[i][j], k = i + 1;
  for (; number >= trees_of[k - i] * trees_of[j - k]; k++)
    number -= trees_of[k - i] * trees_of[j - k];
  x->number[i][k] = number / trees_of[j - k];
  x->number[k][j] = number % trees_of[j - k];
  return k;
}

static int32_t split_last(void *user, int32_t i, int32_t j) {
  (void)user, (void)i;
  return j - 1;
}

static int32_t split_first(void *user, int32_t i, int32_t j) {
  (void)user, (void)j;
  return i + 1;
}

mmc_status mmci_order_every(int32_t n, int32_t number, mmci_tree *out, bool *found,
                            mmci_error *error) {
  bool is_short = n <= MMCI_EVERY_MOST;
  *found = number < (is_short ? trees_of[n] : 2);
  if (!*found) return MMC_OK;
  numbered x = {0};
  if (is_short) x.number[0][n] = number;
  mmci_tree tree;
  mmc_status status = mmci_tree_create(n, &tree, error);
  if (status != MMC_OK) return status;
  status = mmci_tree_from_splits(&tree,
                                 is_short      ? split
                                 : number == 0 ? split_last
                                               : split_first,
                                 &x, error);
  if (status == MMC_OK)
    *out = tree;
  else
    mmci_tree_destroy(&tree);
  return status;
}
