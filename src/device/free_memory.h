/* free_memory.h: how much of a device's memory is free, without asking the device every time.
 *
 * To ask takes a GPU's driver several microseconds, longer than a plan of few factors. So what a
 * device said is remembered, and stands for a plan that takes so little that it fits even if most
 * of that was taken since. */
#ifndef MMCI_FREE_MEMORY_H
#define MMCI_FREE_MEMORY_H

#include <stdatomic.h>

#include "device/device.h"

/* What a device said last, and when; zeros before it was asked. Threads may share it. */
struct mmci_free_memory {
  _Atomic uint64_t said;
};

/* Asks how many bytes of the memory of a device with async are free now. Returns E_DEVICE. */
mmc_status mmci_free_memory_ask(const mmci_opened *on, uint64_t *free_bytes, mmci_error *error);

/* Returns how many bytes are free for sure, which may be 0, without asking the device: a 64th part
 * of what was free less than 10 ms ago, and, on a device that ever had a GiB free, 1 MiB, without
 * which it runs no kernels either. *free_bytes is what was free when it was asked last. */
uint64_t mmci_free_memory_for_sure(const mmci_opened *on, uint64_t *free_bytes);

#endif
