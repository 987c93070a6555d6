/* ref_integer.h: products of integers by plain loops, with sums that lose nothing. */
#ifndef MMCI_REF_INTEGER_H
#define MMCI_REF_INTEGER_H

#include "base/wide.h"
#include "device/device.h"

/* An exact sum of products of 64-bit integers: high * 2^64 + low. Either part takes 2^63 products.
 */
typedef struct mmci_integer_sum {
  mmci_i128 high, low;
} mmci_integer_sum;

/* Writes a sum as the dtype and its rule have it, the element at index i of out. Returns false, and
 * writes what is left of the sum, where a checked element exceeds the dtype. */
bool mmci_integer_store(mmc_dtype dtype, const mmci_rule *rule, mmci_integer_sum sum, void *out,
                        int64_t i);

/* Multiplies by three loops, for any shape and any operand; gemm is of an integer dtype. Returns
 * false where a checked element exceeds the dtype. */
bool mmci_ref_integer_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c);

/* Fails for a product in which mmci_ref_integer_gemm(), or another, has returned false. */
mmc_status mmci_integer_overflow(const mmci_gemm *gemm, mmci_error *error);

#endif
