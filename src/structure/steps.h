/* steps.h: the steps of a plan whose factors have structure. */
#ifndef MMCI_STRUCTURE_STEPS_H
#define MMCI_STRUCTURE_STEPS_H

#include "structure/table.h"

/* What a step does beside what mmci_plan_step says. Its operands hold what they hold: a factor that
 * is an inverse, and a product that is held by its inverse, are the matrix that is to be inverted.
 */
typedef struct mmci_structure_step {
  mmci_structure_kernel kernel;
  bool right;                /* the operand with structure, or solved with, is the right one */
  bool inverse[2];           /* the left, the right operand is held by its inverse */
  bool formed[2];            /* the inverse of that factor is formed before the product */
  bool reversed;             /* both are held by inverses: the right times the left is computed */
  bool mirrored, conjugated; /* the right operand is the left one, transposed */
  bool inverts;              /* at the end the inverse of the result is formed */
  uint32_t traits[3];        /* of what the left, the right operand and the result are */
  mmc_band bands[3];         /* of what these hold, where the table is banded */
  bool banded;
  mmci_u128 multiplications; /* with what is formed before and at the end */
  double predicted_s;
} mmci_structure_step;

typedef struct mmci_structure_steps {
  int32_t count;
  mmci_structure_step *steps; /* count; NULL when there are none */
  int32_t (*operands)[2];     /* count: numbered as in mmc_step */
  int32_t (*ranges)[3];       /* count: first, split, last of the factors, in vertex numbers */
  bool inverts;               /* a chain of one factor, whose inverse is formed */
  uint32_t traits;            /* of the whole product, with MMC_BANDED where it has a band */
  mmc_band band;
  mmci_structure_cost cost; /* of all */
} mmci_structure_steps;

/* Lists the steps of the cheapest way to compute the chain, in the order in which they run. Returns
 * E_NOMEM, E_OVERFLOW (multiplications do not fit 128 bits). */
mmc_status mmci_structure_list(const mmci_structure_table *table,
                               const mmci_structure_prices *prices, mmci_structure_steps *out,
                               mmci_error *error);
void mmci_structure_steps_destroy(mmci_structure_steps *steps);

/* Returns where the best order splits factors i to j-1; of a half that is not computed, as its twin
 * is split. */
int32_t mmci_structure_split(const mmci_structure_table *table, int32_t i, int32_t j);

/* Returns the bytes that a step of an m x k by k x n product takes besides its result, on a device
 * with memory of its own or on the host; 0 for those that need none. */
uint64_t mmci_structure_scratch(const mmci_structure_step *step, mmc_dtype dtype, bool on_device,
                                int64_t m, int64_t k, int64_t n);

#endif
