/* blas_scan.h: running products on the CPU's cores.
 *
 * One thread walks from state to state. So a batch is shared out by its scans. Where there are
 * fewer scans than p threads, each is cut into p + 1 blocks: while one thread walks through the
 * first, others multiply the factors of one block each, and then all blocks but the first are
 * walked through side by side from the states before them. That takes 2/(p + 1) of the time of one
 * thread, which is the least that p threads can do (Snir 1986), with fewer than two products a
 * factor. */
#ifndef MMCI_BLAS_SCAN_H
#define MMCI_BLAS_SCAN_H

#include "device/device.h"

bool mmci_blas_scan_supports(const mmci_device *device, const mmci_scan *scan);
mmc_status mmci_blas_scan_prepare(mmci_device *device, const mmci_scan *scan,
                                  mmci_scan_kernel **out, mmci_error *error);
void mmci_blas_scan_release(mmci_scan_kernel *kernel);
void mmci_blas_scan_facts(const mmci_scan_kernel *kernel, mmci_scan_facts *out);
mmc_status mmci_blas_scan_enqueue(mmci_queue *queue, const mmci_scan_kernel *kernel,
                                  const mmci_scan_places *places, mmci_error *error);

#endif
