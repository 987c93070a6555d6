/* advice.h: says what makes a BLAS slower than this processor allows, and what to do about it. */
#ifndef MMCI_BLAS_ADVICE_H
#define MMCI_BLAS_ADVICE_H

#include <stdbool.h>
#include <stddef.h>

/* The widest instructions for floating-point numbers that kernels are written for. */
typedef enum mmci_simd { MMCI_SSE, MMCI_AVX, MMCI_AVX2, MMCI_AVX512 } mmci_simd;

/* Returns the widest instructions that this processor has and whose registers the operating system
 * keeps. */
mmci_simd mmci_simd_of_processor(void);

/* Says whether the core that OpenBLAS names in its configuration is older than the instructions of
 * the processor; false for cores that are not known here. */
bool mmci_openblas_is_slow(const char *config, mmci_simd processor);

/* Writes "; slow: ..." when that is so; else "". text has size bytes, with the final NUL. */
void mmci_openblas_advice(const char *config, mmci_simd processor, char *text, size_t size);

/* Writes the same for a BLAS that its functions do not identify; "" when one of the fast ones is
 * loaded. */
void mmci_other_blas_advice(char *text, size_t size);

#endif
