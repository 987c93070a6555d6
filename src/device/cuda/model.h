/* model.h: how long products of cuBLAS and the kernels of groups take on a kind of GPU, by formulas
 * whose constants were fitted to measurements there (kinds/): bench/bench_facts.c gathers them, and
 * bench/fit_facts.py fits. All times are microseconds here. */
#ifndef MMCI_CUDA_MODEL_H
#define MMCI_CUDA_MODEL_H

#include "device/cuda/group/group.h"
#include "device/cuda/group/vector_chains.h"

enum {
  MMCI_MODEL_TILES = 4,
  MMCI_MODEL_MANY = 1 << 21, /* multiplications of a batch at least */
  MMCI_MODEL_MANY_EACH = 32, /* and of each of its products */
  MMCI_MODEL_FEW_ROWS = 4,   /* rows at most of a product of few rows */
  MMCI_MODEL_FEW_COLS = 128, /* and columns */
  MMCI_MODEL_LONG = 2048, /* elements at least of a matrix that meets a vector in a long product */
};

/* A product takes launch + term k + the square root of (tiles^2 + traffic^2). traffic is one
 * passage over its matrices at so many bytes; tiles is, for the cheapest of several sizes of tiles,
 * fixed + N (tile + term k) with the N tiles of the whole batch. A vector has tiles of 64 elements,
 * a matrix of 16, 32, 64 and 128 squared. */
typedef struct mmci_model_products {
  double bytes, launch, term;
  struct {
    double fixed, tile, term;
  } tiles[MMCI_MODEL_TILES];
} mmci_model_products;

/* A chain by general.cu, or by packs.cu, tensor.cu, tiles.cu, rings.cu, sides.cu, lanes.cu and
 * vector_chains.cu, whose counts model.c lists. Its delay from the first load to the last store
 * grows with the chain, the product, the row of a thread's tiles, the steps of tall and flat tiles
 * along k, and the load; the time that a multiprocessor is busy grows with the warp, the warp and
 * product, the row, the tall and flat steps of warps, and the load. more_waves is the share of its
 * delay for every further chain on the same threads. error is the share that nine of ten times are
 * off by at most, 0 where that of all groups of the dtype stands for it. */
typedef struct mmci_model_general {
  double error;
  double bytes, launch, more_waves;
  double delay[6], busy[6];
} mmci_model_general;

/* Equal squares from left to right, by squares.cu. flops are those of all multiprocessors
 * together. */
typedef struct mmci_model_squares {
  double bytes, launch, product, element, flops;
} mmci_model_squares;

/* Single products of a few tiles of rows x cols, of more than 16 rows as they lie, take alone +
 * shared / tiles microseconds at least, where cuBLAS shares every tile among all multiprocessors,
 * however few terms there are; with `odd`, those alone whose right operand is transposed and whose
 * lines are no multiples of 16 bytes. Measured on them, and not by bench/fit_facts.py; most is 0
 * where cuBLAS does not do so. */
typedef struct mmci_model_shared_tiles {
  int rows, cols, most; /* most: tiles */
  bool odd;
  double alone, shared;
} mmci_model_shared_tiles;

typedef struct mmci_model_dtype {
  double flops; /* the peak, of large products */
  /* Nine of ten modelled times of products, and of groups, are off by at most these shares; 0 means
   * that this is not known. */
  double product_error, group_error;
  /* vector is for one row or column, long_vector for one that meets a matrix of MMCI_MODEL_LONG
   * elements or more, vectors_along for batches of either whose matrices are stored by lines that
   * are summed, vectors_across for those summed across their lines, whole_words for matrices whose
   * lines are multiples of 16 bytes, pairs for elements of two bytes whose lines are multiples of
   * four, many for batches of MMCI_MODEL_MANY multiplications and more, for which cuBLAS has other
   * kernels in double precision, few_rows for such batches of products of few rows, for which it
   * has others in f32. A launch of 0 means as vector or as matrix. */
  mmci_model_products vector, long_vector, vectors_along, vectors_across, matrix, whole_words,
      pairs, many, few_rows;
  mmci_model_shared_tiles shared_tiles;
  mmci_model_general general, packs, tensor; /* tensor: f16 and bf16 */
  mmci_model_general tiled;                  /* groups by tiles.cu, f32 */
  mmci_model_general rings;                  /* f32 */
  mmci_model_general sides;                  /* groups by sides.cu, f32, f64 and c64 */
  mmci_model_general panels;                 /* f32 */
  mmci_model_general by_lane;                /* groups by lanes.cu */
  mmci_model_general by_strip;  /* groups by strips.cu and strips_double.cu: all but f32 and c64 */
  mmci_model_general by_vector; /* groups by vector_chains.cu */
  mmci_model_squares squares;   /* f32 */
  double single[5];             /* f32 and f64: launch, round, step, row, load */
  /* For f32 and f64: launch, hand-over, product for every 32 of side with whole words where all are
   * squares of 32 or 64, 32 terms, product without whole words, 1000 elements. */
  double spines[7];
} mmci_model_dtype;

typedef struct mmci_cuda_model {
  const char *kind;   /* the driver's name of the device, or the beginning of it */
  const char *source; /* static text, for people */
  mmci_model_dtype dtypes[MMC_BF16 + 1];
} mmci_cuda_model;

/* Returns the model of the kind, or of the kind that is nearest. */
const mmci_cuda_model *mmci_cuda_model_of(const char *kind);

/* What a chain by general.cu does, as often as it does it: its time is these counts by the
 * constants of mmci_model_general. */
typedef struct mmci_model_counts {
  double delay[6], busy[6];
  double at_once; /* chains of the batch that the device works on together */
  double bytes;   /* bytes of all operands and results of the batch, each counted once */
} mmci_model_counts;

mmci_model_counts mmci_cuda_model_general_counts(const mmci_group_limits *limits,
                                                 const mmci_group *chain,
                                                 const mmci_general *general);
mmci_model_counts mmci_cuda_model_packs_counts(const mmci_group_limits *limits,
                                               const mmci_group *chain, const mmci_packs *packs);
mmci_model_counts mmci_cuda_model_tensor_counts(const mmci_group_limits *limits,
                                                const mmci_group *chain, const mmci_tensor *tensor);
mmci_model_counts mmci_cuda_model_tiles_counts(const mmci_group_limits *limits,
                                               const mmci_group *chain, const mmci_tiles *tiles);
mmci_model_counts mmci_cuda_model_rings_counts(const mmci_group_limits *limits,
                                               const mmci_group *chain, const mmci_rings *rings);
mmci_model_counts mmci_cuda_model_sides_counts(const mmci_group_limits *limits,
                                               const mmci_group *chain, const mmci_sides *sides);
mmci_model_counts mmci_cuda_model_vectors_counts(const mmci_group_limits *limits,
                                                 const mmci_group *chain,
                                                 const mmci_vector_chain *vectors);
/* Writes the counts of a chain by single.cu, one for each constant of mmci_model_dtype's single. */
void mmci_cuda_model_single_counts(const mmci_group *chain, const mmci_single *single,
                                   double counts[5]);

/* Return by which share nine of ten modelled times of products, and of groups, are off at most. */
double mmci_cuda_model_product_error(const mmci_cuda_model *model, mmc_dtype dtype);
double mmci_cuda_model_group_error(const mmci_cuda_model *model, mmc_dtype dtype);

double mmci_cuda_model_product_us(const mmci_cuda_model *model, const mmci_gemm *gemm);
double mmci_cuda_model_general_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                  const mmci_group *chain, const mmci_general *general);
double mmci_cuda_model_packs_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                const mmci_group *chain, const mmci_packs *packs);
double mmci_cuda_model_tensor_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                 const mmci_group *chain, const mmci_tensor *tensor);
double mmci_cuda_model_tiles_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                const mmci_group *chain, const mmci_tiles *tiles);
double mmci_cuda_model_rings_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                const mmci_group *chain, const mmci_rings *rings);
/* Lays the chain out for rings.cu, by words of at most so many elements, so that the least time is
 * predicted; returns false when the kernel does not take it. */
bool mmci_cuda_model_plan_rings(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                const mmci_group *chain, int word, mmci_rings *out);
double mmci_cuda_model_sides_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                const mmci_group *chain, const mmci_sides *sides);
/* Returns the constants of a kernel of sides.cu or lanes.cu. */
const mmci_model_general *mmci_cuda_model_sides(const mmci_cuda_model *model,
                                                const mmci_sides *sides);
mmci_model_counts mmci_cuda_model_panels_counts(const mmci_group_limits *limits,
                                                const mmci_group *chain, const mmci_panels *panels);
double mmci_cuda_model_panels_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                 const mmci_group *chain, const mmci_panels *panels);
/* Lays a chain out for panels.cu by the tile that is predicted to be the fastest; returns false
 * when none takes it. */
bool mmci_cuda_model_plan_panels(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                 const mmci_group *chain, mmci_panels *out);
double mmci_cuda_model_vectors_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                  const mmci_group *chain, const mmci_vector_chain *vectors);
double mmci_cuda_model_single_us(const mmci_cuda_model *model, const mmci_group *chain,
                                 const mmci_single *single);
double mmci_cuda_model_squares_us(const mmci_cuda_model *model, const mmci_group *chain);
/* Returns the microseconds of spines; done has room for as many numbers as the chain has operands
 * and products. */
double mmci_cuda_model_spines_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                 const mmci_group *chain, double *done);

#endif
