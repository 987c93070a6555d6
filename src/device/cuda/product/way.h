/* way.h: by which kernel, cuBLAS's or ours, a product goes, as far as what is asked tells.
 *
 * cuBLAS multiplies, for which a row-major matrix is a transposed column-major one: it is asked for
 * C^T = B^T A^T, and nothing is ever copied. Variant 0 is what cublasGemmEx chooses; the others are
 * the algorithms that cuBLASLt proposes, 1 to 24, the shapes of large_tile.h, from 25 on, those of
 * sliced_k.h, from 31 on, and more of large_tile.h, from 36 on. A batch is one strided call,
 * without variants, or where its products are small one launch of a kernel for groups. Faithful f32
 * products that are large enough go to emulated.c as variant 0, f64 ones and integers to
 * residues.c, reproducible ones to ordered.cu and ordered_complex.cu, or where they are large to
 * whole tiles of large_tile.h, which add up in the same order, as kernels for groups do, those of
 * few elements, batches too, to thin.cu, those of 16 bits and few terms to outer.cu, and batches of
 * vectors, and small products row by row, to vectors.cu. Long reproducible products go to pieces.c.
 * Products over semirings go to semiring.cu. What cuBLAS cannot say goes to plain.cu. */
#ifndef MMCI_CUDA_PRODUCT_WAY_H
#define MMCI_CUDA_PRODUCT_WAY_H

#include "device/cuda/product/lt.h"
#include "device/device.h"

/* Those from MMCI_WAY_CUBLAS_BATCH on want elements that are aligned as a whole, and products of
 * those from MMCI_WAY_CUBLAS on may have variants. */
typedef enum mmci_way_kind {
  MMCI_WAY_NOTHING, /* C has no elements, or nothing is added to it */
  MMCI_WAY_SEMIRING,
  MMCI_WAY_ZEROS, /* k is 0 */
  MMCI_WAY_PLAIN,
  MMCI_WAY_MODULAR, /* integers modulo a number */
  MMCI_WAY_CHECKED, /* integers that must not exceed their dtype */
  MMCI_WAY_ORDERED, /* reproducible: by loops, large tiles, real products, and of 16 bits */
  MMCI_WAY_ORDERED_TILES,
  MMCI_WAY_ORDERED_COMPLEX,
  MMCI_WAY_ORDERED_HALF,
  MMCI_WAY_IN_ORDER,  /* reproducible, by cuBLASLt; what is prepared says whether */
  MMCI_WAY_IN_PIECES, /* long and reproducible */
  MMCI_WAY_GROUP,
  MMCI_WAY_CUBLAS_BATCH,
  MMCI_WAY_CUBLAS,
  MMCI_WAY_THIN,
  MMCI_WAY_OUTER,
  MMCI_WAY_VECTORS,
  MMCI_WAY_CUBLASLT, /* a variant */
  MMCI_WAY_EMULATED, /* faithful */
  MMCI_WAY_RESIDUES, /* faithful in f64, of whole numbers, and large ones of integers */
  MMCI_WAY_FAITHFUL_COMPLEX,
  MMCI_WAY_LARGE_TILE, /* a variant */
  MMCI_WAY_SLICED_K    /* a variant */
} mmci_way_kind;

/* Variants are numbers that old records keep. */
enum {
  MMCI_FIRST_LARGE_TILE = MMCI_LT_PROPOSALS + 1,
  MMCI_FIRST_SLICED_K = MMCI_FIRST_LARGE_TILE + 6
};

typedef struct mmci_way {
  mmci_way_kind kind;
  mmci_gemm gemm;                    /* the product, the one whose rows those of a batch are, or the
                                        batch of its own rows */
  bool swaps;                        /* whose left operand is then the right one of what is asked */
  const mmci_arithmetic *arithmetic; /* cuBLAS's; NULL of integers and over semirings */
  mmci_stored a, b, c;               /* as cuBLAS is told of the operands */
} mmci_way;

/* Says by which kernel a product goes whose operands lie as cuBLAS wants them. Any threads may call
 * it. */
void mmci_cuda_choose_way(const mmci_device *device, const mmci_gemm *gemm, mmci_way *out);

/* Says whether a product of numbers of f64 or integers goes to residues.c. */
bool mmci_cuda_goes_by_residues(const mmci_device *device, const mmci_gemm *gemm);
/* Says whether there are kernels for sums of whole numbers: on Hopper, but for turned complex
 * products that are added to. */
bool mmci_cuda_has_whole(const mmci_device *device, const mmci_gemm *gemm);

/* Returns the shape of large_tile.h that a variant stands for, or -1; and the variant of a shape.
 */
int mmci_large_tile_of_variant(int variant);
int mmci_variant_of_large_tile(int shape);
/* Returns the shape of large_tile.h for reproducible products: 256 x 128 of f32, 128 x 128 of f64.
 */
int mmci_ordered_shape(mmc_dtype dtype);

/* Says whether loops or tiles compute a product in order. */
static inline bool mmci_way_is_ordered(mmci_way_kind kind) {
  return kind == MMCI_WAY_ORDERED || kind == MMCI_WAY_ORDERED_TILES ||
         kind == MMCI_WAY_ORDERED_COMPLEX || kind == MMCI_WAY_ORDERED_HALF;
}

#endif
