/* rewrite.h: inverses of products as products of inverses. */
#ifndef MMCI_STRUCTURE_REWRITE_H
#define MMCI_STRUCTURE_REWRITE_H

#include "chain/chain.h"

/* A chain whose groups are taken apart: (A B)^-1 is B^-1 A^-1, so that each meets what stands
 * beside the group. */
typedef struct mmci_structure_rewritten {
  mmc_chain *chain;       /* NULL where there is nothing to take apart */
  const int32_t *factors; /* n: which factor of the chain that was given stands at each place */
  mmc_inverse *inverses;  /* the groups of the chain, and what holds factors */
} mmci_structure_rewritten;

/* Takes every group apart where its product is one of square matrices; those of several factors
 * stay groups. Returns E_NOMEM. */
mmc_status mmci_structure_rewrite(const mmc_chain *chain, mmci_structure_rewritten *out,
                                  mmci_error *error);
void mmci_structure_rewritten_destroy(mmci_structure_rewritten *rewritten);

#endif
