/* half_gemm.h: products of f16 and bf16, whose sums are f32 and are rounded once. */
#ifndef MMCI_HALF_GEMM_H
#define MMCI_HALF_GEMM_H

#include "device/device.h"

/* A panel has so many rows and columns, which makes enough multiplications for each conversion.
 * Small products have sides of at most MMCI_HALF_SMALL. */
enum { MMCI_HALF_PANEL = 512, MMCI_HALF_SMALL = 128 };

/* A panel of each matrix in f32. Pages that no product needs are never touched. */
typedef struct mmci_half_panels {
  float a[MMCI_HALF_PANEL * MMCI_HALF_PANEL];
  float b[MMCI_HALF_PANEL * MMCI_HALF_PANEL];
  float c[MMCI_HALF_PANEL * MMCI_HALF_PANEL];
} mmci_half_panels;

/* Multiplies by a CBLAS, which has neither, for any shape. Returns: E_INTERRUPTED. */
mmc_status mmci_half_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                          mmci_half_panels *panels, mmci_error *error);

/* Small products, which loops of our own compute, whose operands are so many bytes apart. */
typedef struct mmci_halves {
  mmci_gemm gemm;
  int64_t a_step, b_step, c_step;
} mmci_halves;

bool mmci_half_is_small(const mmci_gemm *gemm);
/* Says whether the loops for small products compute a reproducible one, each element of which is
 * one chain of fused multiply-adds in f32: with AVX2. */
bool mmci_half_is_in_order(const mmci_gemm *gemm);
void mmci_halves_multiply(const mmci_halves *x, int64_t count, const void *a, const void *b,
                          void *c);
void mmci_half_small(const mmci_gemm *gemm, const void *a, const void *b, void *c);

#endif
