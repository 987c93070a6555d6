/* resident.h: runs a plan whose matrices are all in the device's own memory at once. */
#ifndef MMCI_RESIDENT_H
#define MMCI_RESIDENT_H

#include "run/actions.h"

typedef struct mmci_resident mmci_resident;

/* Makes one; actions must outlive it. */
mmc_status mmci_resident_create(mmci_actions *actions, mmci_resident **out, mmci_error *error);
void mmci_resident_destroy(mmci_resident *resident);

/* Returns how many bytes of the device's memory the pieces of a product hold at most, besides the
 * whole: a product whose matrices cross the bus is multiplied piece by piece. */
uint64_t mmci_resident_cut_bytes(const mmci_device_ops *ops, const mmci_device *device,
                                 const mmci_gemm *gemm);

/* Do what mmc_execute(), mmc_enqueue() and mmc_wait() say. */
mmc_status mmci_resident_execute(mmci_resident *resident, const mmc_matrix *factors,
                                 const mmc_matrix *out, mmci_error *error);
mmc_status mmci_resident_enqueue(mmci_resident *resident, void *stream, const mmc_matrix *factors,
                                 const mmc_matrix *out, mmci_error *error);
mmc_status mmci_resident_wait(mmci_resident *resident, mmci_error *error);
/* Waits for what the caller's stream was given so far. Returns E_ARG when the stream is being
 * captured. */
mmc_status mmci_resident_await_stream(mmci_resident *resident, void *stream, mmci_error *error);

#endif
