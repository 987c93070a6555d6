/* steps.h: a scan made of a device's products, state after state, those of a batch together. */
#ifndef MMCI_STEPS_H
#define MMCI_STEPS_H

#include "device/device.h"

typedef struct mmci_steps mmci_steps;

mmc_status mmci_steps_create(const mmci_opened *on, const mmci_scan *scan, mmci_steps **out,
                             mmci_error *error);
void mmci_steps_destroy(mmci_steps *steps);
void mmci_steps_facts(const mmci_steps *steps, mmci_scan_facts *out);
mmc_status mmci_steps_enqueue(const mmci_steps *steps, mmci_queue *queue,
                              const mmci_scan_places *places, mmci_error *error);

#endif
