/* structure.h: measures what kernels with structure take, as shares of GEMM's time. */
#ifndef MMCI_TUNE_STRUCTURE_H
#define MMCI_TUNE_STRUCTURE_H

#include "device/device.h"
#include "tune/tuner.h"

/* Times every kernel that the device has of square matrices of up to three sides, and GEMM of the
 * same, and fits a share of each; of what the device lacks shares are NaN. Returns what
 * mmci_tuner_ask() does, and what the device returns. */
mmc_status mmci_calibrate_structure(mmci_tuner *tuner, const mmci_device_ops *ops,
                                    mmci_device *device, mmc_dtype dtype,
                                    mmci_structure_share out[MMCI_STRUCTURE_PIECES],
                                    mmci_error *error);

/* Fits large + small / side to shares of these sides, by the least squares of relative errors, with
 * neither below 0. NaN where count is 0. */
mmci_structure_share mmci_fit_share(int count, const int64_t *sides, const double *shares);

#endif
