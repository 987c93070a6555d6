/* xsmm.h: small real products by LIBXSMM, which writes machine code for given sizes, leading
 * dimensions and accumulation (Heinecke, Henry, Hutchinson and Pabst 2016). Writing takes some 0.1
 * ms once in a process, in which the code stays. Any thread may call these functions. */
#ifndef MMCI_XSMM_H
#define MMCI_XSMM_H

#include "chain/gemm.h"

/* Computes one product. LIBXSMM counts by columns, so it computes C^T = B^T A^T, right operand
 * first. It reads C only to accumulate. */
typedef void (*mmci_xsmm_fn)(const void *b, const void *a, void *c);

/* Says whether there may be code for one such product, whatever its batch: f32 and f64, no size 0,
 * B not transposed. */
bool mmci_xsmm_can(const mmci_gemm *gemm);

/* Returns the code of a product for which mmci_xsmm_can(); NULL when there is none on this machine,
 * or no room for it. */
mmci_xsmm_fn mmci_xsmm_code(const mmci_gemm *gemm);

/* Says whether that code sums every element from the first term to the last in one accumulator. On
 * a processor with AVX-512, LIBXSMM 1.17 keeps several sums of an element where its last block of
 * columns is one vector wide, which hides the latency of an FMA and changes the bits. */
bool mmci_xsmm_in_order(const mmci_gemm *gemm);

/* Returns how many of the first columns are to be multiplied apart from the others, so that every
 * element is summed in order by either code; all of them where they are so anyway, or where no cut
 * helps. */
int64_t mmci_xsmm_cut(const mmci_gemm *gemm);

/* Says whether the code of a product has been written, as far as is remembered, which is what was
 * written lately. */
bool mmci_xsmm_has(const mmci_gemm *gemm);

/* Must be called after such code and before other code: it leaves the upper parts of vector
 * registers in use, and as long as they are, every instruction that writes a lower part alone waits
 * for the whole. */
void mmci_xsmm_leave(void);

#endif
