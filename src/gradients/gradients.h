/* gradients.h: the gradients of a chain's factors, from the cotangent of its product.
 *
 * The products go backwards through the tree of the chain: where C = A B, and dC is known,
 * dA = dC B^H and dB = A^H dC. So n factors take 2 (n - 1) products besides the n - 1 of the chain
 * itself, whose results are kept in between.
 *
 * All of it takes little more memory than the gradients themselves, which the caller gets in it. On
 * the way forward it holds the results; on the way back a cotangent takes the place of what nobody
 * reads any more, dB that of B. */
#ifndef MMCI_GRADIENTS_H
#define MMCI_GRADIENTS_H

#include "device/device.h"
#include "plan/plan.h"

typedef struct mmci_gradients mmci_gradients;

/* Prepares the gradients of those factors that wanted, n of them, says; NULL: of all. The plan says
 * the chain and its order; where another of as many multiplications has products that do not wait
 * for one another, and the plan's order was not given, that is taken. Of the plan, the chain must
 * stay. limit_bytes is for the memory; MMC_NO_LIMIT: none. */
mmc_status mmci_gradients_create(const mmci_plan *plan, const bool *wanted, uint64_t limit_bytes,
                                 const mmci_device_ops *ops, mmci_device *device,
                                 mmci_gradients **out, mmci_error *error);
void mmci_gradients_destroy(mmci_gradients *gradients);

uint64_t mmci_gradients_bytes(const mmci_gradients *gradients);
/* Returns where in the memory gradient i begins, in bytes; UINT64_MAX where it is not wanted. */
uint64_t mmci_gradients_offset(const mmci_gradients *gradients, int64_t i);

/* Does what mmc_gradients_on_stream() says. */
void mmci_gradients_on_stream(mmci_gradients *gradients, void *stream);

/* These do what the functions of mmchain.h do whose names they have. */
mmc_status mmci_gradients_forward(mmci_gradients *gradients, const mmc_matrix *factors,
                                  void *memory, const mmc_matrix *out, mmci_error *error);
mmc_status mmci_gradients_backward(mmci_gradients *gradients, const mmc_matrix *factors,
                                   void *memory, const mmc_matrix *cotangent,
                                   const mmc_matrix *copies, mmci_error *error);

#endif
