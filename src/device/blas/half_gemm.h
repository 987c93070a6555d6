/* half_gemm.h: products of f16 and bf16 by a CBLAS that has neither. */
#ifndef MMCI_HALF_GEMM_H
#define MMCI_HALF_GEMM_H

#include "device/device.h"

/* A panel has so many rows and columns, which makes enough multiplications for each conversion. */
enum { MMCI_HALF_PANEL = 512 };

/* A panel of each matrix in f32. Pages that no product needs are never touched. */
typedef struct mmci_half_panels {
  float a[MMCI_HALF_PANEL * MMCI_HALF_PANEL];
  float b[MMCI_HALF_PANEL * MMCI_HALF_PANEL];
  float c[MMCI_HALF_PANEL * MMCI_HALF_PANEL];
} mmci_half_panels;

/* Multiplies with sums in f32 that are rounded once, for any shape. */
void mmci_half_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                    mmci_half_panels *panels);

#endif
