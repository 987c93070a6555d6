/* table.h: the cheapest way to compute a chain whose factors have structure.
 *
 * A table over sub-chains, as for dense chains, of which each entry knows what its product is and
 * what it costs to have it in either of two forms: itself, or a matrix whose inverse it is. What is
 * held by its inverse costs nothing for a factor that is an inverse; it is solved with where it
 * meets a product, and multiplied in the other order, (Y X)^-1, where it meets another. What a
 * product is follows from its factors and not from the order, so the table is exact over all
 * orders, forms and kernels. O(n^3) time. */
#ifndef MMCI_STRUCTURE_TABLE_H
#define MMCI_STRUCTURE_TABLE_H

#include "chain/chain.h"
#include "structure/kernel.h"

/* How a product is held. */
typedef enum mmci_structure_form { MMCI_PLAIN, MMCI_INVERTED } mmci_structure_form;

/* One way to have a sub-chain in one form. */
typedef struct mmci_structure_way {
  mmci_structure_cost cost;
  bool possible;
  int32_t split;       /* of its last product; -1 for a factor */
  uint8_t left, right; /* forms of the operands */
  uint8_t kernel;      /* mmci_structure_kernel */
  bool kernel_right;   /* see mmci_structure_choice */
  bool mirrors;        /* only the left operand is computed; the right one is it, transposed */
  bool conjugated;     /* and conjugated */
  bool converts;       /* the other form is computed and then inverted */
} mmci_structure_way;

typedef struct mmci_structure_entry {
  uint32_t traits;   /* of the product, and of its inverse; MMC_BANDED is never among these */
  mmc_band bands[2]; /* by form, of the matrix that is held, where the table is banded */
  bool whole;        /* no group lies across its ends */
  bool turned;       /* it is a group that is inverted: ways were exchanged */
  bool twin[2];      /* its halves are each other's transposed; conjugated */
  mmci_structure_way ways[2];
} mmci_structure_entry;

typedef struct mmci_structure_table {
  const mmc_chain *chain;
  bool banded;                   /* some factor has a band */
  mmci_structure_entry *entries; /* n(n+1)/2 */
} mmci_structure_table;

/* The table is cubic in time: so many factors take a sixth of a second, twice as many fifteen times
 * as long. */
enum { MMCI_STRUCTURE_FACTORS = 256 };

/* Fills the table. The order, when it is not NULL, holds the first, the split and the last vertex
 * of the n-1 products of a tree: only these are allowed. The chain must stay. The thread's callback
 * is asked now and then (base/interrupt.h). Returns E_NOMEM, E_INTERRUPTED, E_UNSUPPORTED for more
 * than MMCI_STRUCTURE_FACTORS factors; *out is to be destroyed then too. */
mmc_status mmci_structure_solve(const mmc_chain *chain, const mmci_structure_prices *prices,
                                const int32_t (*order)[3], mmci_structure_table *out,
                                mmci_error *error);
void mmci_structure_destroy(mmci_structure_table *table);

/* Returns the entry of factors i to j-1. */
static inline mmci_structure_entry *mmci_structure_at(const mmci_structure_table *table, int32_t i,
                                                      int32_t j) {
  size_t n = (size_t)table->chain->n, row = (size_t)i;
  return &table->entries[row * n - row * (row - 1) / 2 + (size_t)(j - i - 1)];
}

/* Returns what the chain costs. */
static inline mmci_structure_cost mmci_structure_cost_of(const mmci_structure_table *table) {
  return mmci_structure_at(table, 0, table->chain->n)->ways[MMCI_PLAIN].cost;
}

#endif
