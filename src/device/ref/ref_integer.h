/* ref_integer.h: products of integers by plain loops, with sums that lose nothing. */
#ifndef MMCI_REF_INTEGER_H
#define MMCI_REF_INTEGER_H

#include "device/device.h"

/* Multiplies by three loops, for any shape and any operand; gemm is of an integer dtype. Returns
 * false where a checked element exceeds the dtype. */
bool mmci_ref_integer_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c);

/* Fails for a product in which mmci_ref_integer_gemm(), or another, has returned false. */
mmc_status mmci_integer_overflow(const mmci_gemm *gemm, mmci_error *error);

#endif
