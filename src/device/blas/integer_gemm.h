/* integer_gemm.h: exact products of integers by a CBLAS that has floats only.
 *
 * A float holds 24 bits of an integer and a double 53, and so do sums of products below that. A
 * look at all elements says how large they are; where products of whole elements may be too large,
 * the elements are split into digits, as FFLAS-FFPACK and others do (Dumas, Giorgi and Pernet
 * 2008), and pairs of digits are multiplied: as few of them as the magnitudes seen and the bits
 * that are asked for allow. Digits of blocks are made in turn, so that the room for them is
 * bounded. */
#ifndef MMCI_INTEGER_GEMM_H
#define MMCI_INTEGER_GEMM_H

#include "device/device.h"

/* Room for the digits of one block, which grows when a product needs more; zeros at first. */
typedef struct mmci_integer_room {
  char *memory;
  size_t bytes;
} mmci_integer_room;

/* Says whether the product is better done by the loops of integer_loops.h: it has no rule, and is
 * small or a vector. */
bool mmci_integer_is_direct(const mmci_gemm *gemm);

/* Does such a product. */
void mmci_integer_direct(const mmci_gemm *gemm, const void *a, const void *b, void *c);

/* Multiplies by the CBLAS, for any sizes above 0. Returns: E_OVERFLOW (where the rule is checked),
 * E_NOMEM, E_INTERRUPTED. */
mmc_status mmci_integer_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                             mmci_integer_room *room, mmci_error *error);

/* Returns how many products of doubles stand for one of the dtype where its integers are as large
 * as they can be; 0.5 for one of floats. */
double mmci_integer_products(mmc_dtype dtype);

#endif
