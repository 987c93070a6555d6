/* kinds_fill.h: makes random matrices what a chain says of them: triangular, symmetric, orthogonal
 * and so on. */
#ifndef MMC_CLI_KINDS_FILL_H
#define MMC_CLI_KINDS_FILL_H

#include "random.h"

/* Changes factor i of all chains of a batch, which is filled with normal numbers, into matrices of
 * the kind that its traits say. Triangular and diagonal ones have 1 more on their diagonals, so
 * that they can be solved with, and positive definite ones 8 more: their other elements have
 * eigenvalues of some 2 at most. Orthogonal ones are reflections. */
void cli_kinds_fill(const mmc_chain *chain, int64_t i, cli_random *random, void *data);

#endif
