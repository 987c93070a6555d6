/* emulated_kernels.h: the kernels of emulated products, as C sees them. Each works on a stream of
 * the current device and returns once it is launched. */
#ifndef MMCI_CUDA_EMULATED_EMULATED_KERNELS_H
#define MMCI_CUDA_EMULATED_EMULATED_KERNELS_H

#ifndef MMCI_EMULATE_CUDA
#include <cuda.h>
#include <cuda_runtime_api.h>
#endif

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MMCI_LINE_ROWS = 32,  /* rows whose lines lie side by side */
  MMCI_DEPTH = 64,      /* k is padded with zeros to a multiple of this number */
  MMCI_TILE_ROWS = 128, /* rows of C in a block */
  MMCI_TILE_COLS = 128, /* columns of C in a block */
  MMCI_BOX_COLS = 64,   /* columns of B whose parts one transfer brings */
};

/* A row of op(A) or a column of op(B). It is all zeros before it is split. */
typedef struct mmci_emulated_row {
  uint32_t most; /* magnitude of its largest element */
  float squares;
  int32_t poor;
  int32_t exponent; /* exponent of its scale, or MMCI_PARTS_LEFT */
  double unit;      /* what 1 stands for in parts of bytes */
} mmci_emulated_row;

/* An operand in parts. They lie in blocks of MMCI_LINE_ROWS rows x MMCI_DEPTH k's, those of the
 * same rows one after the other. A block of FP16 parts has, for each half of the k's, the rows'
 * lines of 128 bytes: 32 hi, 32 lo. A block of bytes has, for each digit, the rows' lines of 64
 * bytes. Rows are padded with zeros. */
typedef struct mmci_emulated_operand {
  int64_t rows, k, blocks; /* blocks along k */
  uint32_t *parts;         /* FP16 parts replace bytes when those are not enough */
  mmci_emulated_row *row;  /* one for each row, then what follows, zeroed with them */
  uint64_t *rough;         /* the roughness of the rows, added up */
  int32_t *arrived;        /* blocks of threads that are done, when there are few rows */
  int32_t *left;           /* how many rows are left to rest.cu */
} mmci_emulated_operand;

typedef struct mmci_emulated_product {
  mmci_gemm gemm;
  mmci_emulated_operand a, b;
  bool bytes; /* bytes are tried first */
} mmci_emulated_product;

/* Splits an operand of the product, whose element (r, k) is x[r * ld + k], or x[k * ld + r] when
 * across, into bytes; or into FP16 parts, which does nothing when bytes are enough for both
 * operands. */
mmc_status mmci_emulated_split(cudaStream_t stream, const mmci_emulated_product *product,
                               const mmci_emulated_operand *operand, bool bytes, const float *x,
                               int64_t ld, bool across, mmci_error *error);

/* How the tensor cores are used. */
typedef enum mmci_emulated_kind {
  MMCI_HALVES,    /* FP16 parts; products of lo parts have sums of their own */
  MMCI_INT8,      /* bytes, where those are enough; else FP16 parts */
  MMCI_HALVES_MMA /* FP16 parts, by instructions that Ampere has, too */
} mmci_emulated_kind;

/* Multiplies all of C by bytes, if they are enough; if not, by FP16 parts, C where neither the row
 * nor the column is left. The maps are of a's parts in boxes of MMCI_TILE_ROWS rows and of b's in
 * boxes of MMCI_BOX_COLS columns. It needs compute capability 9.0. */
mmc_status mmci_emulated_multiply(cudaStream_t stream, const mmci_emulated_product *product,
                                  mmci_emulated_kind kind, const CUtensorMap *a,
                                  const CUtensorMap *b, int multiprocessors, float *c,
                                  mmci_error *error);

/* Multiplies C by FP16 parts where neither the row nor the column is left. It needs compute
 * capability 8.0. */
mmc_status mmci_emulated_multiply_ampere(cudaStream_t stream, const mmci_emulated_product *product,
                                         float *c, mmci_error *error);

/* Computes the rest of C in FP64, rounded once. It needs compute capability 8.0. */
mmc_status mmci_emulated_rest(cudaStream_t stream, const mmci_emulated_product *product,
                              int multiprocessors, const float *a, const float *b, float *c,
                              mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif
