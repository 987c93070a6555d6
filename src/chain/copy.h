/* copy.h: copies a matrix in host memory, however it lies. */
#ifndef MMCI_COPY_H
#define MMCI_COPY_H

#include "chain/gemm.h"

/* Writes the rows x cols operand, in host memory, to out: element (r, c) at r * ld + c, or at c *
 * ld + r when by_columns. Truths become 0 or 1. */
void mmci_copy(mmc_dtype dtype, int64_t rows, int64_t cols, const void *from, const mmci_form *form,
               void *out, int64_t ld, bool by_columns);

/* Replaces integers by their residues, 0 to modulus - 1: lines of length elements, ld apart. */
void mmci_reduce(mmc_dtype dtype, uint64_t modulus, int64_t lines, int64_t length, void *data,
                 int64_t ld);

#endif
