#include "order/fusion.h"

typedef struct fusing {
  const mmci_tree *tree;
  const mmci_range *ranges;
  const int64_t *dims;
  mmci_fusion *fusions;
} fusing;

/* Returns the words that an operand costs until it lies in off-chip memory, where factors are
 * already. */
static mmci_u128 stored(const fusing *f, int32_t operand) {
  int32_t n = f->tree->n;
  if (operand < n) return 0;
  mmci_range range = f->ranges[operand - n];
  return mmci_u128_add(mmci_fusion_words(&f->fusions[operand - n]),
                       (mmci_u128)f->dims[range.first] * (mmci_u128)f->dims[range.last]);
}

/* Returns the traffic of product t as one kernel with the child that choice means: its operands are
 * the child's two and its own other one. */
static mmci_traffic fuse_with_child(const fusing *f, int32_t t, mmc_fusion choice,
                                    mmci_fuse_rule rule, mmci_chip chip, mmci_u128 *operands) {
  mmci_range range = f->ranges[t];
  mmci_product p = f->tree->products[t];
  bool left = choice == MMC_FUSION_LEFT;
  int32_t child = (left ? p.left : p.right) - f->tree->n;
  mmci_product inner = f->tree->products[child];
  *operands = mmci_u128_add(mmci_u128_add(stored(f, inner.left), stored(f, inner.right)),
                            stored(f, left ? p.right : p.left));
  int64_t inner_dim = f->dims[f->ranges[child].split], outer_dim = f->dims[range.split];
  const int64_t dims[4] = {f->dims[range.first], left ? inner_dim : outer_dim,
                           left ? outer_dim : inner_dim, f->dims[range.last]};
  if (chip.x > 0 && left) return mmci_traffic_left_by(dims, chip.x, chip.y);
  if (chip.x > 0)
    return rule == MMCI_FUSE_POSTER ? mmci_traffic_right_as_printed_by(dims, chip.x, chip.y)
                                    : mmci_traffic_right_by(dims, chip.x, chip.y);
  if (left) return mmci_traffic_left(dims, chip.words);
  return rule == MMCI_FUSE_POSTER ? mmci_traffic_right_as_printed(dims, chip.words)
                                  : mmci_traffic_right(dims, chip.words);
}

static void choose_fusion(const fusing *f, int32_t t, mmci_fuse_rule rule, mmci_chip chip) {
  mmci_range range = f->ranges[t];
  mmci_product p = f->tree->products[t];
  int64_t p0 = f->dims[range.first], p1 = f->dims[range.split], p2 = f->dims[range.last];
  mmci_traffic plain = chip.x > 0 ? mmci_traffic_product_by(p0, p1, p2, chip.x, chip.y)
                                  : mmci_traffic_product(p0, p1, p2, chip.words);
  mmci_fusion fusion = {
      .words = {mmci_u128_add(mmci_u128_add(stored(f, p.left), stored(f, p.right)), plain.words),
                MMCI_U128_MAX, MMCI_U128_MAX},
      .chosen = MMC_FUSION_NONE,
      .kernel = plain,
      .partner = -1,
  };
  for (mmc_fusion choice = MMC_FUSION_LEFT; choice <= MMC_FUSION_RIGHT; choice++) {
    int32_t child = choice == MMC_FUSION_LEFT ? p.left : p.right;
    if (rule == MMCI_FUSE_NONE || child < f->tree->n) continue;
    mmci_u128 operands;
    mmci_traffic fused = fuse_with_child(f, t, choice, rule, chip, &operands);
    fusion.words[choice] = mmci_u128_add(operands, fused.words);
    if (fusion.words[choice] >= mmci_fusion_words(&fusion)) continue;
    fusion.chosen = choice;
    fusion.kernel = fused;
  }
  f->fusions[t] = fusion;
}

void mmci_fuse(const mmci_tree *tree, const mmci_range *ranges, const int64_t *dims,
               mmci_fuse_rule rule, mmci_chip chip, mmci_fusion *fusions) {
  fusing f = {.tree = tree, .ranges = ranges, .dims = dims, .fusions = fusions};
  int32_t n = tree->n;
  for (int32_t t = 0; t < n - 1; t++) choose_fusion(&f, t, rule, chip);
  for (int32_t t = n - 2; t >= 0; t--) { /* parents have greater numbers than their children */
    mmci_fusion *fusion = &fusions[t];
    if (fusion->partner >= 0 || fusion->chosen == MMC_FUSION_NONE) continue;
    mmci_product p = tree->products[t];
    fusion->partner = (fusion->chosen == MMC_FUSION_LEFT ? p.left : p.right) - n;
    fusions[fusion->partner].partner = t;
  }
}
