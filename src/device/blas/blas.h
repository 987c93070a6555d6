/* blas.h: one product by one call of the CBLAS, for those who make many. */
#ifndef MMCI_BLAS_H
#define MMCI_BLAS_H

#include "device/blas/several.h"
#include "device/device.h"

typedef void (*mmci_blas_fn)(const mmci_gemm *gemm, const void *a, const void *b, void *c);

/* Returns the call for one such product (not for its batch), which takes gemm as this function
 * leaves it; NULL for f16, bf16 and most integers, unless there is nothing to multiply. */
mmci_blas_fn mmci_blas_call(mmci_gemm *gemm);

/* Estimates the seconds that such a product takes on one thread, to decide how many threads are
 * worth it. */
double mmci_blas_serial_s(const mmci_gemm *gemm);

/* Says whether that call stays on the thread that makes it, so that several threads may make
 * one. */
bool mmci_blas_is_serial(const mmci_gemm *gemm);

/* Says whether the CBLAS would compute such a product with several threads. */
bool mmci_blas_has_threads(const mmci_gemm *gemm);

/* Says whether threads that compute products of their own, with a CBLAS that is limited to one
 * thread, are faster with so many such products than its threads with one after the other. */
bool mmci_blas_is_shared(const mmci_gemm *gemm, int64_t batch);

/* Says whether the device computes such a product in pieces, between which it can be stopped. */
bool mmci_blas_is_in_pieces(const mmci_gemm *gemm);

/* Says whether such a product is to have the bits of MMCI_REPRODUCIBLE; integers have one result
 * anyway. */
bool mmci_blas_is_reproducible(const mmci_gemm *gemm);

/* Returns the loops that compute several such products. */
mmci_several_kind mmci_blas_several(const mmci_gemm *gemm);

/* Says whether a product of two matrices is one call of a CBLAS where it is alone. */
bool mmci_blas_is_call(const mmci_gemm *gemm);

/* Says whether a product within a group is better done by small.h than by mmci_blas_call(). */
bool mmci_blas_is_small(const mmci_gemm *gemm);

#endif
