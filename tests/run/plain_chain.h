/* plain_chain.h: the chain slots of a device, product by product with the loops of ref. */
#ifndef MMC_TEST_PLAIN_CHAIN_H
#define MMC_TEST_PLAIN_CHAIN_H

#include "device/device.h"

/* Returns a copy of a chain with its arrays behind it, in one allocation, to be freed. */
mmci_group *plain_chain_copy(const mmci_group *chain);
/* Says what is wrong with a chain that has been handed to a device; NULL: nothing. */
const char *plain_chain_fault(const mmci_group *chain);
/* Multiplies one chain, not a batch. */
void plain_chain_multiply(const mmci_group *chain, const void *const *operands, void *c);

/* ref with chains: a device that works on the host's memory. */
typedef struct plain_host {
  mmci_device_ops ops;
  mmci_device *device;
} plain_host;
plain_host plain_host_open(void);
void plain_host_close(plain_host *host);
/* The number of the next preparations that are refused, and that of the calls enqueued so far. */
extern int plain_host_refusals, plain_host_enqueued;

#endif
