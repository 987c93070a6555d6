/* model.h: how long products of cuBLAS and the kernels of groups take on a kind of GPU, by formulas
 * whose constants were fitted to measurements there (kinds/, bench/bench_facts.c). All times are
 * microseconds here. */
#ifndef MMCI_CUDA_MODEL_H
#define MMCI_CUDA_MODEL_H

#include "device/cuda/group/group.h"

enum { MMCI_MODEL_TILES = 4 };

/* That nine of ten times are off by at most, relative. */
#define MMCI_CUDA_MODEL_ERROR 0.35

/* A product takes launch + term k + the square root of (tiles^2 + traffic^2): one passage over its
 * matrices at so many bytes, and by the cheapest of several sizes of tiles fixed + N (tile + term
 * k) for the N tiles of the whole batch. A vector has tiles of 64 elements, a matrix of 16, 32, 64
 * and 128 squared. */
typedef struct mmci_model_products {
  double bytes, launch, term;
  struct {
    double fixed, tile, term;
  } tiles[MMCI_MODEL_TILES];
} mmci_model_products;

/* A chain by general.cu: what delays one of them from its first load to its last store, by the
 * chain, product, row of a thread's tiles, steps of tall and flat tiles along k, and load; what
 * keeps a multiprocessor busy, by the warp, warp and product, row, tall and flat steps of warps,
 * and load. more_waves: of its delay, for every further chain on the same threads. */
typedef struct mmci_model_general {
  double bytes, launch, more_waves;
  double delay[6], busy[6];
} mmci_model_general;

/* Equal squares from left to right, by squares.cu. flops: at once of all multiprocessors. */
typedef struct mmci_model_squares {
  double bytes, launch, product, element, flops;
} mmci_model_squares;

typedef struct mmci_model_dtype {
  double flops; /* the peak, of large products */
  /* vector: one row or column; whole_words: elements of two bytes whose lines are multiples of 16
   * bytes. launch 0: as matrix. */
  mmci_model_products vector, matrix, whole_words;
  mmci_model_general general;
  mmci_model_squares squares; /* f32 */
  double single[5];           /* f32 and f64: launch, round, step, row, load */
  /* f32 and f64: launch, hand-over, product for every 32 of side with whole words, where all are
   * squares of 32 or 64, 32 terms, product without whole words, 1000 elements */
  double spines[7];
} mmci_model_dtype;

typedef struct mmci_cuda_model {
  const char *kind;   /* as the driver spells it, or begins to */
  const char *source; /* static text, for people */
  mmci_model_dtype dtypes[MMC_BF16 + 1];
} mmci_cuda_model;

/* That of the kind, or of the kind that is nearest. */
const mmci_cuda_model *mmci_cuda_model_of(const char *kind);

double mmci_cuda_model_product_us(const mmci_cuda_model *model, const mmci_gemm *gemm);
double mmci_cuda_model_general_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                  const mmci_group *chain, const mmci_general *general);
double mmci_cuda_model_single_us(const mmci_cuda_model *model, const mmci_group *chain,
                                 const mmci_single *single);
double mmci_cuda_model_squares_us(const mmci_cuda_model *model, const mmci_group *chain);
/* done: room for as many numbers as the chain has operands and products. */
double mmci_cuda_model_spines_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                 const mmci_group *chain, double *done);

#endif
