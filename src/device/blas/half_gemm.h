/* half_gemm.h: products of f16 and bf16 by a CBLAS that knows neither. */
#ifndef MMCI_HALF_GEMM_H
#define MMCI_HALF_GEMM_H

#include "device/device.h"

/* Rows and columns of a panel: enough multiplications for each conversion. */
enum { MMCI_HALF_PANEL = 512 };

/* A piece of each matrix in f32. Pages that no product needs are never touched. */
typedef struct mmci_half_panels {
  float a[MMCI_HALF_PANEL * MMCI_HALF_PANEL];
  float b[MMCI_HALF_PANEL * MMCI_HALF_PANEL];
  float c[MMCI_HALF_PANEL * MMCI_HALF_PANEL];
} mmci_half_panels;

/* The product, sums in f32, rounded once. Any shape. */
void mmci_half_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                    mmci_half_panels *panels);

#endif
