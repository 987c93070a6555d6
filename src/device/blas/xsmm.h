/* xsmm.h: small real products by LIBXSMM, which writes machine code for given sizes, leading
 * dimensions and accumulation (Heinecke, Henry, Hutchinson and Pabst 2016). That takes some 0.1 ms
 * once in a process, in which the code stays. Any thread. */
#ifndef MMCI_XSMM_H
#define MMCI_XSMM_H

#include "chain/gemm.h"

/* One product. LIBXSMM counts by columns, so it computes C^T = B^T A^T, right operand first. Reads
 * C only to accumulate. */
typedef void (*mmci_xsmm_fn)(const void *b, const void *a, void *c);

/* Whether there may be code for one such product, whatever its batch: f32 and f64, none of the
 * sizes 0, B not transposed. */
bool mmci_xsmm_can(const mmci_gemm *gemm);

/* The code, for which mmci_xsmm_can(); NULL when there is none on this machine, or no room for it.
 */
mmci_xsmm_fn mmci_xsmm_code(const mmci_gemm *gemm);

/* Whether its code has been written, as far as is remembered: what was written lately. */
bool mmci_xsmm_has(const mmci_gemm *gemm);

/* After such code and before other: it leaves the upper parts of vector registers in use, and as
 * long as they are, every instruction that writes a lower part alone waits for the whole. */
void mmci_xsmm_leave(void);

#endif
