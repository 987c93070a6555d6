/* structured.h: a product whose operands have structure, or that is a solve, and how its operands
 * lie. */
#ifndef MMCI_STRUCTURED_H
#define MMCI_STRUCTURED_H

#include "chain/gemm.h"
#include "chain/traits.h"

typedef enum mmci_structure_kernel {
  MMCI_STRUCTURE_GEMM,
  MMCI_STRUCTURE_ZERO,  /* an operand is zero, and so is the result */
  MMCI_STRUCTURE_COPY,  /* an operand is the identity */
  MMCI_STRUCTURE_SCALE, /* an operand is diagonal, or the inverse of such */
  MMCI_STRUCTURE_SYRK,  /* A A^T, or A A^H */
  MMCI_STRUCTURE_TRMM,
  MMCI_STRUCTURE_TRSM,
  MMCI_STRUCTURE_POSV, /* solves by Cholesky's factors */
  MMCI_STRUCTURE_SYSV, /* solves by L D L^T of a symmetric or Hermitian matrix */
  MMCI_STRUCTURE_GESV, /* solves by LU with pivots */
  MMCI_STRUCTURE_KERNELS
} mmci_structure_kernel;

/* Returns static text: "trsm". */
const char *mmci_structure_kernel_name(mmci_structure_kernel kernel);

/* Z := op(S) Z or Z op(S), with the inverse of op(S) where the kernel solves; or Z := op(S)
 * op(S)^T; or Z := S^-1. Z and S are column-major, and Z is rows x cols; S is square, but for SYRK,
 * where op(S) is rows x depth. */
typedef struct mmci_structured {
  mmci_structure_kernel kernel;
  mmc_dtype dtype;
  int64_t rows, cols, depth;
  int64_t ldz, lds;
  bool right;      /* op(S) stands on the right of Z */
  bool inverts;    /* the inverse itself is asked for; S is Z */
  mmc_op op;       /* of S; N where the kernel factorises, which overwrites S */
  uint32_t traits; /* of S, as it lies: MMC_LOWER or MMC_UPPER, MMC_UNIT, MMC_SYMMETRIC ... */
  bool hermitian;  /* A A^H and not A A^T; S is Hermitian and not symmetric */
} mmci_structured;

#endif
