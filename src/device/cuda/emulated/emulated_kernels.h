/* emulated_kernels.h: the kernels of emulated products, as C sees them. Each works on a stream of
 * the current device and returns once it is launched. */
#ifndef MMCI_CUDA_EMULATED_EMULATED_KERNELS_H
#define MMCI_CUDA_EMULATED_EMULATED_KERNELS_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MMCI_LINE_ROWS = 32,  /* lines of so many rows lie side by side */
  MMCI_DEPTH = 64,      /* k is padded to a multiple, with zeros */
  MMCI_TILE_ROWS = 128, /* of C, a block */
};

/* A row of op(A) or a column of op(B). All zeros before it is split. */
typedef struct mmci_emulated_row {
  uint32_t most; /* magnitude of its largest element */
  float squares;
  int32_t poor;
  int32_t exponent; /* of its scale, or MMCI_PARTS_LEFT */
  double unit;      /* in bytes, what 1 stands for */
} mmci_emulated_row;

/* An operand in parts. They lie in blocks of MMCI_LINE_ROWS rows x MMCI_DEPTH k's, those of the
 * same rows one after the other. In a block of FP16 parts, for each half of the k's the rows' lines
 * of 128 bytes: 32 hi, 32 lo. In one of bytes, for each digit the rows' lines of 64 bytes. Rows are
 * padded with zeros. */
typedef struct mmci_emulated_operand {
  int64_t rows, k, blocks; /* blocks along k */
  uint32_t *parts;         /* FP16 take the place of bytes when those are not enough */
  mmci_emulated_row *row;  /* rows of them, then what follows, zeroed with them */
  uint64_t *rough;         /* how badly bytes hold the rows, added up */
  int32_t *arrived;        /* of a few rows: how many blocks of threads are done with them */
  int32_t *left;           /* rows that are left to rest.cu */
} mmci_emulated_operand;

typedef struct mmci_emulated_product {
  mmci_gemm gemm;
  mmci_emulated_operand a, b;
  bool bytes; /* are tried first */
} mmci_emulated_product;

/* Element (r, k) of one of the product's operands at x[r * ld + k], or x[k * ld + r] when across,
 * into bytes; or into FP16 parts, which does nothing when bytes are enough for both operands. */
mmc_status mmci_emulated_split(cudaStream_t stream, const mmci_emulated_product *product,
                               const mmci_emulated_operand *operand, bool bytes, const float *x,
                               int64_t ld, bool across, mmci_error *error);

/* How the tensor cores are used. */
typedef enum mmci_emulated_kind {
  MMCI_TURNS,  /* 128 x 192 tiles: products of lo parts and of hi parts take turns in the sums */
  MMCI_OWN_LO, /* 128 x 128 tiles: products of lo parts have sums of their own */
  MMCI_INT8,   /* 128 x 128 tiles of bytes, where those are enough; else one of the others */
} mmci_emulated_kind;

/* Columns of a tile, and how many rows of B's parts one transfer brings. */
int mmci_emulated_tile_cols(mmci_emulated_kind kind);
int mmci_emulated_box_rows(mmci_emulated_kind kind);

/* By bytes, all of C, if they are enough; by FP16 parts, if not, C where neither the row nor the
 * column is left. The maps are of a's parts in boxes of MMCI_TILE_ROWS rows and of b's in boxes of
 * mmci_emulated_box_rows(). Compute capability 9.0. */
mmc_status mmci_emulated_multiply(cudaStream_t stream, const mmci_emulated_product *product,
                                  mmci_emulated_kind kind, const CUtensorMap *a,
                                  const CUtensorMap *b, int multiprocessors, float *c,
                                  mmci_error *error);

/* The rest of C, in FP64, rounded once. Compute capability 9.0. */
mmc_status mmci_emulated_rest(cudaStream_t stream, const mmci_emulated_product *product,
                              int multiprocessors, const float *a, const float *b, float *c,
                              mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif
