/* better.h: recipes of one call that surely take less time than cuBLAS's plain call of a product,
 * on kinds of GPU where both were measured.
 *
 * A plain call is not predicted but bounded: no product was seen to run faster than at some rate,
 * which is lower where lines of f16, bf16 or TF32 are no multiples of 16 bytes. What is predicted
 * are the recipes: the product with zeros around its operands (cost/recipe.h's pad), or a kernel of
 * large_tile.h, whose time follows from its rounds and steps. So a recipe is only offered where it
 * takes less time than the plain call can, whatever algorithm cuBLAS chooses. */
#ifndef MMCI_CUDA_BETTER_H
#define MMCI_CUDA_BETTER_H

#include "chain/facts.h"

/* Finds the best such recipe of a product without a batch, by cuBLAS's native or TF32 arithmetic,
 * on a device of this kind (the driver's name) and of so many multiprocessors. least_s is what the
 * plain call takes at least, where more is known of it, else 0. Returns false where there is none,
 * or nothing was measured on the kind. first_large_tile is the variant of large_tile.h's shape
 * 0. */
bool mmci_cuda_better(const char *kind, int multiprocessors, int first_large_tile,
                      const mmci_gemm *gemm, double least_s, mmci_better *out);

/* Predicts the microseconds of the plain call of a product of f32 as TF32; NAN where nothing was
 * measured on the kind, and for batches. And by which share nine of ten of these are off at most;
 * 0 where nothing was measured. */
double mmci_cuda_tf32_us(const char *kind, int multiprocessors, const mmci_gemm *gemm);
double mmci_cuda_tf32_error(const char *kind);

#endif
