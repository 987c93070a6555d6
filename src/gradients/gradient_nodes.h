/* gradient_nodes.h: gradients of chains of small matrices on a device with memory of its own, a
 * level of the tree at a time (chain/tree_node.h).
 *
 * Going back, a node's cotangents take the places of its operands, or of its own cotangent, so that
 * the memory holds as many matrices as there are factors, and a level is one call. */
#ifndef MMCI_GRADIENT_NODES_H
#define MMCI_GRADIENT_NODES_H

#include "device/device.h"
#include "plan/plan.h"

typedef struct mmci_gradient_nodes mmci_gradient_nodes;

/* These do what those of gradients.h do. The plan's device has nodes_enqueue and async. Returns
 * also E_UNSUPPORTED for larger sides. */
mmc_status mmci_gradient_nodes_create(const mmci_plan *plan, const bool *wanted,
                                      const mmci_device_ops *ops, mmci_device *device,
                                      mmci_gradient_nodes **out, mmci_error *error);
void mmci_gradient_nodes_destroy(mmci_gradient_nodes *x);
uint64_t mmci_gradient_nodes_bytes(const mmci_gradient_nodes *x);
uint64_t mmci_gradient_nodes_offset(const mmci_gradient_nodes *x, int64_t i);
void mmci_gradient_nodes_on_stream(mmci_gradient_nodes *x, void *stream);

/* Matrices were checked, as far as their sizes go. `end` is the product or its cotangent. copies
 * may be NULL. */
mmc_status mmci_gradient_nodes_forward(mmci_gradient_nodes *x, const mmc_matrix *factors,
                                       void *memory, const mmc_matrix *end, mmci_error *error);
mmc_status mmci_gradient_nodes_backward(mmci_gradient_nodes *x, const mmc_matrix *factors,
                                        void *memory, const mmc_matrix *end,
                                        const mmc_matrix *copies, mmci_error *error);

#endif
