/* host.h: what devices that compute on the host's memory share. There is always one of them, which
 * supports every product and has one variant; products are done when enqueue returns; memory is the
 * process's. */
#ifndef MMCI_HOST_H
#define MMCI_HOST_H

#include "base/address.h"
#include "device/device.h"

/* Returns where matrix i of a batch begins. */
static inline const void *mmci_batch_at(const void *data, const mmci_form *form, size_t element,
                                        int64_t i) {
  if (form->gathered) return ((const void *const *)data)[i];
  return mmci_address(data, i * form->stride * (int64_t)element);
}
static inline void *mmci_batch_result_at(void *c, bool gathered, int64_t stride, size_t element,
                                         int64_t i) {
  return gathered ? ((void **)c)[i] : mmci_address(c, i * stride * (int64_t)element);
}

mmc_status mmci_host_probe(int *count, mmci_error *error);
mmc_status mmci_host_open(int index, mmci_device **out, mmci_error *error);
void mmci_host_close(mmci_device *device);
bool mmci_host_supports(const mmci_device *device, const mmci_gemm *gemm);
int mmci_host_variants(mmci_device *device, const mmci_gemm *gemm);
/* Writes the processor's model, as the system names it, and how many cores are online. */
void mmci_host_model(char *text, size_t size);
mmc_status mmci_host_queue_open(mmci_device *device, mmci_queue **out, mmci_error *error);
void mmci_host_queue_close(mmci_queue *queue);
mmc_status mmci_host_sync(mmci_queue *queue, mmci_error *error);
mmc_status mmci_host_alloc(mmci_device *device, size_t size_bytes, void **out, mmci_error *error);
void mmci_host_dealloc(mmci_device *device, void *memory);

#endif
