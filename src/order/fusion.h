/* fusion.h: decides which products of a tree share a kernel, so that least traffic is moved.
 *
 * Two products share a kernel, and the first one's result never leaves the chip, when one is the
 * left (left fuse) or the right operand (right fuse) of the other. A product is in one kernel only.
 * A tree costs the sum over its kernels, as cost/traffic.h says, and the write of the result. */
#ifndef MMCI_FUSION_H
#define MMCI_FUSION_H

#include "cost/traffic.h"
#include "order/order.h"

typedef enum mmci_fuse_rule {
  MMCI_FUSE_NONE,   /* every product has its own kernel */
  MMCI_FUSE_POSTER, /* right fuse priced as the TEE-ACM2 poster printed it */
  MMCI_FUSE_EXACT   /* right fuse as the mirror image of left fuse */
} mmci_fuse_rule;

/* One product of a tree: what its sub-chain costs with each choice for its kernel, and what was
 * chosen in the whole tree. */
typedef struct mmci_fusion {
  /* For each mmc_fusion, the words of the sub-chain without the write of its result. MMCI_U128_MAX
   * means that there is no such choice, as the operand is a factor, or too many words. */
  mmci_u128 words[3];
  mmc_fusion chosen;   /* the choice of fewest words; of equals the first */
  mmci_traffic kernel; /* the kernel of the choice */
  /* The product that it shares a kernel with; -1 when there is none. Where the partner is the
   * greater number, this product is computed inside the partner's kernel and its own choice means
   * nothing. */
  int32_t partner;
} mmci_fusion;

static inline mmci_u128 mmci_fusion_words(const mmci_fusion *fusion) {
  return fusion->words[fusion->chosen];
}

/* What a kernel keeps on chip: the best tile of so many words or, where x > 0, one of at most x
 * rows and y columns. */
typedef struct mmci_chip {
  int64_t words, x, y;
} mmci_chip;

/* Chooses by OP_DM_Fuse of the poster: the choice of least traffic for every product, children
 * first, then, from the root, those that hold. No other choices for the tree move less. fusions
 * holds n-1 entries, in the order of the tree's products; ranges are those of mmci_tree_ranges().
 * O(n) time. */
void mmci_fuse(const mmci_tree *tree, const mmci_range *ranges, const int64_t *dims,
               mmci_fuse_rule rule, mmci_chip chip, mmci_fusion *fusions);

enum { MMCI_JOINT_MOST_FACTORS = 200 };

/* Finds the tree of least traffic when fused by MMCI_FUSE_EXACT, of all trees. Of equals it is the
 * first found: not fused before fused, small splits first. n <= MMCI_JOINT_MOST_FACTORS; O(n^4)
 * time, O(n^2) memory. *words is without the write of the result. The callback of bounds is asked
 * every few milliseconds; their limit does not count. Returns E_NOMEM, E_INTERRUPTED. */
mmc_status mmci_order_joint(int32_t n, const int64_t *dims, int64_t on_chip_words,
                            const mmci_bounds *bounds, mmci_tree *out, mmci_u128 *words,
                            mmci_error *error);

#endif
