/* advice.h: what makes a BLAS slower than this processor allows, and what to do about it. */
#ifndef MMCI_BLAS_ADVICE_H
#define MMCI_BLAS_ADVICE_H

#include <stddef.h>

/* The widest instructions for floating-point numbers that kernels are written for. */
typedef enum mmci_simd { MMCI_SSE, MMCI_AVX, MMCI_AVX2, MMCI_AVX512 } mmci_simd;

/* Those that this processor has, and the operating system keeps the registers of. */
mmci_simd mmci_simd_of_processor(void);

/* Writes "; slow: ..." when the core that OpenBLAS names in its configuration is older than the
 * instructions of the processor, else "": so for cores that are not known here. text has size
 * bytes, final NUL included. */
void mmci_openblas_advice(const char *config, mmci_simd processor, char *text, size_t size);

/* The same of a BLAS that is not known by its functions: "" when one of the fast ones is loaded. */
void mmci_other_blas_advice(char *text, size_t size);

#endif
