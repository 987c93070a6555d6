/* residues.h: products by 8-bit integers on Hopper's tensor cores: of FP64 with no more error than
 * cuBLAS's FP64, and of integers, exactly; docs/faithful.md and docs/integers.md say how and when.
 *
 * Doubles are scaled to integers row by row, and their product is computed modulo some 14 numbers
 * of a byte each. How many the data needs, and which rows are left to FP64, is decided on the
 * device: nothing waits, and work can be captured in a graph. */
#ifndef MMCI_CUDA_RESIDUES_RESIDUES_H
#define MMCI_CUDA_RESIDUES_RESIDUES_H

#include <cuda_runtime_api.h>

#include "device/cuda/residues/residues_kernels.h"

/* A prepared product. It holds the residues, so its executions must follow each other: on one
 * stream, or on streams that wait for each other. */
typedef struct mmci_residues mmci_residues;

/* Returns the kernel's name, as plans and explain show it. */
const char *mmci_residues_name(mmc_dtype dtype);

/* Says whether there are kernels for it: products of FP64 matrices, with a tolerance that there are
 * enough moduli for, or of integers that wrap around, compute capability 9.0, no size 0. */
bool mmci_residues_supports(const struct cudaDeviceProp *device, const mmci_gemm *gemm);
/* Says whether it was measured to be faster than FP64, or than loops (docs/faithful.md). */
bool mmci_residues_pays(const mmci_gemm *gemm);
/* Returns what an element of such a product of FP64, with a tolerance, is off by at most, of so
 * many moduli as the data need. */
double mmci_residues_error_bound(const mmci_gemm *gemm);
/* Returns about how long FP64 products take on an H200. */
double mmci_residues_seconds(const mmci_gemm *gemm);

/* Says whether such a product of integers looks for the greatest magnitudes of its operands: bytes
 * have none, and numbers without a sign are looked at as if they had one. */
bool mmci_residues_ranges(const mmci_gemm *gemm);
/* Returns where a product of integers that looks for them keeps them, in memory of the device: of A
 * and of B of what was enqueued last. */
const uint64_t *mmci_residues_most(const mmci_residues *residues);

/* Returns the bytes of device memory that a prepared product holds. */
uint64_t mmci_residues_bytes(const mmci_gemm *gemm);

/* Prepares a product for the current device, which has so many multiprocessors. With planes > 0 it
 * is computed by so many moduli, whatever the data. Returns E_NOMEM, E_DEVICE, E_UNSUPPORTED (the
 * driver has no tensor maps). */
mmc_status mmci_residues_prepare(const mmci_gemm *gemm, int planes, int multiprocessors,
                                 mmci_residues **out, mmci_error *error);
void mmci_residues_release(mmci_residues *residues);

/* Lets a product of FP64 use the residues that another one makes of its operand `of`, 0 for A and 1
 * for B, or it makes of A itself, for operand `which`, as mmci_device_ops says of share. How many
 * moduli they are of is seen on the device, which makes them anew where they are not enough. */
bool mmci_residues_share(mmci_residues *residues, int which, const mmci_residues *from, int of);

/* Enqueues C = A B or C += A B, as prepared; addresses are in device memory, aligned to an
 * element. */
mmc_status mmci_residues_enqueue(cudaStream_t stream, const mmci_residues *residues, const void *a,
                                 const void *b, void *c, mmci_error *error);

#endif
