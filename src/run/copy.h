/* copy.h: a chain of one factor: op(A) into the result. */
#ifndef MMCI_COPY_H
#define MMCI_COPY_H

#include "device/device.h"

/* Writes the shape->m x shape->n operand to out, element (r, c) at r * ld + c, or at c * ld + r
 * when by_columns. Host memory. */
void mmci_copy(const mmci_gemm *shape, const mmci_operand *from, void *out, int64_t ld,
               bool by_columns);

#endif
