/* residues_kernels.h: the kernels of products by 8-bit integers, as C sees them. Each works on a
 * stream of the current device and returns once it is launched. */
#ifndef MMCI_CUDA_RESIDUES_RESIDUES_KERNELS_H
#define MMCI_CUDA_RESIDUES_RESIDUES_KERNELS_H

#ifndef MMCI_EMULATE_CUDA
#include <cuda.h>
#include <cuda_runtime_api.h>
#endif

#include "device/device.h"
#include "device/whole/moduli.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MMCI_LINE = 128,          /* k is padded with zeros to a multiple of this number */
  MMCI_PRODUCT_ROWS = 128,  /* rows of C in a tile, and of an operand in a transfer */
  MMCI_PRODUCT_COLS = 256,  /* columns of C in a tile */
  MMCI_MODULI_F64 = 16,     /* with more, a scaled double exceeds 64 bits */
  MMCI_RESIDUES_K = 1 << 15 /* the longest sum of products that is reduced by its modulus */
};

/* A row of op(A) or a column of op(B). */
typedef struct mmci_residue_row {
  double squares; /* the sum of its squares */
  double scale;   /* factor of its elements; 0 when all are zero */
  double unit[2]; /* what 1 stands for, as the sum of two doubles */
  double grain;   /* as mmci_row_grain() says */
  int64_t left;   /* the row is left to FP64 */
} mmci_residue_row;

/* What the device finds out about all rows of an operand that are not left to FP64, as floats: the
 * greatest of k times a row's squares by its square sum, of the inverse of that, and of a row's
 * length by the power of two that all its elements are multiples of. And what its residues are of;
 * planes is 0 where there are none. */
typedef struct mmci_residue_seen {
  uint32_t peak, even, grain;
  int32_t left;  /* rows that are left to FP64 */
  int32_t mixed; /* a row has numbers of both signs */
  int32_t planes;
  int32_t whole; /* scaled elements are whole numbers without rounding */
  int32_t unused;
  double reach; /* the length that rows are scaled to */
} mmci_residue_seen;

/* An operand in planes of bytes, one for each modulus or digit, each of `rows` lines of k's. In
 * every 128 k's, byte 4l + 2i + j is k 64i + 2l + j, for both operands alike; where elements are
 * bytes they keep their order. */
typedef struct mmci_residue_operand {
  int64_t rows, k, lines; /* lines of MMCI_LINE k's along a row */
  int8_t *planes;
  mmci_residue_row *row;
  mmci_residue_seen *seen;
} mmci_residue_operand;

/* What the device finds out about a product. */
typedef struct mmci_residue_state {
  int32_t planes; /* moduli; 0 when everything is left to FP64 */
  int32_t rows_left, cols_left;
  int32_t arrived;
  int32_t kept;      /* bits 0 and 1: the residues of A and of B are those that were there */
  uint64_t most[2];  /* of integers: the greatest magnitudes of A and B */
  int32_t digits[2]; /* of integers: how many digits they have */
  double spread;
  double partial[256];
} mmci_residue_state;

typedef struct mmci_residue_product {
  mmci_gemm gemm;
  mmci_residue_operand a, b;
  mmci_residue_state *state;
  const mmci_moduli *moduli;
  int8_t *residues; /* of C, a plane after the other, in the order of the tensor cores */
  int32_t planes;   /* how many there is room for */
  double tolerance; /* what an element may be off by, as in mmci_rule; 0: as much as FP64's */
  int32_t fixed;    /* so many moduli are asked for; 0: what the data or a tolerance needs */
  int32_t shared;   /* bits 0 and 1: A and B were looked at and split by an earlier product */
  bool alike;       /* B is A, and so are its residues */
  /* Each row is judged, scaled and left to FP64 by what is in it alone, as whole.h says; 0 where
   * the rows of an operand are judged together, else the greatest peak of a row. */
  double peak;
} mmci_residue_product;

/* Reads an operand whose element (r, k) is x[r * ld + k], or x[k * ld + r] when across, and writes
 * what is to be known of its rows, or of all of its integers. */
mmc_status mmci_residues_range(cudaStream_t stream, const mmci_residue_product *product,
                               const mmci_residue_operand *operand, const void *x, int64_t ld,
                               bool across, mmci_error *error);
/* Decides by how many moduli or digits the product is computed. */
mmc_status mmci_residues_choose(cudaStream_t stream, const mmci_residue_product *product,
                                const void *a, const void *b, mmci_error *error);
/* Writes an operand's residues, or the digits of integers of up to 32 bits. */
mmc_status mmci_residues_split(cudaStream_t stream, const mmci_residue_product *product,
                               const mmci_residue_operand *operand, const void *x, int64_t ld,
                               bool across, mmci_error *error);
/* Multiplies plane by plane; or digits, into C, which has 4, 2 or 1 bytes an element. It needs
 * compute capability 9.0. */
mmc_status mmci_residues_multiply(cudaStream_t stream, const mmci_residue_product *product,
                                  const CUtensorMap *a, const CUtensorMap *b, int multiprocessors,
                                  void *c, mmci_error *error);
/* Puts C together from its residues. */
mmc_status mmci_residues_combine(cudaStream_t stream, const mmci_residue_product *product, void *c,
                                 mmci_error *error);
/* Computes the rest of C in FP64, all of it where there are no moduli. */
mmc_status mmci_residues_rest(cudaStream_t stream, const mmci_residue_product *product,
                              int multiprocessors, const void *a, const void *b, void *c,
                              mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif
