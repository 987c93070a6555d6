/* plain_chain.h: the chain slots of a device, product by product with the loops of ref. */
#ifndef MMC_TEST_PLAIN_CHAIN_H
#define MMC_TEST_PLAIN_CHAIN_H

#include "device/device.h"

/* A chain with its arrays behind it, in one allocation; free() it. */
mmci_group *plain_chain_copy(const mmci_group *chain);
/* Says what is wrong with a chain that has been handed to a device; NULL: nothing. */
const char *plain_chain_fault(const mmci_group *chain);
/* One chain, not a batch. */
void plain_chain_multiply(const mmci_group *chain, const void *const *operands, void *c);

/* ref with chains: a device that works on the host's memory. */
typedef struct plain_host {
  mmci_device_ops ops;
  mmci_device *device;
} plain_host;
plain_host plain_host_open(void);
void plain_host_close(plain_host *host);
/* So many of the next preparations are not supported; calls enqueued so far. */
extern int plain_host_refusals, plain_host_enqueued;

#endif
