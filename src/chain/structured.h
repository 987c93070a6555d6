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
  MMCI_STRUCTURE_TRTRMM, /* a triangle by a triangle, by TRMM of strips and GEMM */
  MMCI_STRUCTURE_TRSM,
  MMCI_STRUCTURE_POSV,    /* solves by Cholesky's factors */
  MMCI_STRUCTURE_SYSV,    /* solves by L D L^T of a symmetric or Hermitian matrix */
  MMCI_STRUCTURE_GESV,    /* solves by LU with pivots */
  MMCI_STRUCTURE_SYMV,    /* a vector by a symmetric or Hermitian operand, of which half is read */
  MMCI_STRUCTURE_SYMM,    /* a matrix by such an operand */
  MMCI_STRUCTURE_PERMUTE, /* copies rows or columns */
  MMCI_STRUCTURE_BAND,    /* goes along the diagonals of a narrow band */
  MMCI_STRUCTURE_BLOCKS,  /* multiplies the blocks that lie in bands */
  MMCI_STRUCTURE_TBSV,    /* solves with a banded triangular matrix */
  MMCI_STRUCTURE_PBSV,    /* solves by Cholesky's factors of a banded matrix */
  MMCI_STRUCTURE_GTSV,    /* solves by elimination of a tridiagonal matrix */
  MMCI_STRUCTURE_GBSV,    /* solves by LU with pivots of a banded matrix */
  MMCI_STRUCTURE_KERNELS
} mmci_structure_kernel;

/* Returns static text: "trsm". */
const char *mmci_structure_kernel_name(mmci_structure_kernel kernel);

/* What seconds are known of, as a share of those of GEMM of the same sides: work with the matrix
 * that has structure and the other lines, its factors, and its inverse with the factors. */
typedef enum mmci_structure_piece {
  MMCI_PIECE_SYMV,
  MMCI_PIECE_SYMM,
  MMCI_PIECE_SYRK,
  MMCI_PIECE_TRMM,
  MMCI_PIECE_TRTRMM, /* of two triangles that are both lower, or both upper */
  MMCI_PIECE_TRSM,
  MMCI_PIECE_POTRF,
  MMCI_PIECE_GETRF,
  MMCI_PIECE_SYTRF,
  MMCI_PIECE_SYTRS,
  MMCI_PIECE_TRTRI,
  MMCI_PIECE_POTRI,
  MMCI_PIECE_GETRI,
  MMCI_PIECE_SYTRI,
  MMCI_STRUCTURE_PIECES
} mmci_structure_piece;

/* The share large + small / side. */
typedef struct mmci_structure_share {
  double large, small;
} mmci_structure_share;

/* Writes the name of the fact that is one of a share's two numbers: "structure trsm large". */
enum { MMCI_PIECE_NAME_SIZE = 32 };
void mmci_structure_piece_name(mmci_structure_piece piece, bool small,
                               char name[MMCI_PIECE_NAME_SIZE]);

/* Says whether a kernel solves with Cholesky's factors, so that it tells what is not definite. */
static inline bool mmci_structure_is_cholesky(mmci_structure_kernel kernel) {
  return kernel == MMCI_STRUCTURE_POSV || kernel == MMCI_STRUCTURE_PBSV;
}

/* Blocks have so many rows, of a matrix with n rows and a band of so many diagonals: many enough
 * for a fast product, few enough that little of them lies beside the band. */
static inline int64_t mmci_structure_block(int64_t n, int64_t diagonals) {
  int64_t rows = diagonals / 2;
  if (rows > n / 12) rows = n / 12;
  return rows < 48 ? 48 : rows;
}

/* Says whether a device with memory of its own solves with triangles from the left, where they take
 * the less time even with two copies that are transposed. */
static inline bool mmci_structure_solves_left(mmc_dtype dtype) {
  return dtype == MMC_F32;
}

/* So many lines of real numbers are solved for at once by banded kernels; of fewer, one by one. */
enum { MMCI_BAND_LINES = 10 };

/* Z := op(S) Z or Z op(S), with the inverse of op(S) where the kernel solves; or Z := op(S)
 * op(S)^T; or Z := S^-1. Z and S are column-major, and Z is rows x cols; S is square, but for SYRK,
 * where op(S) is rows x depth. Of TRTRMM what is multiplied is a triangle, too. SYMV, SYMM and
 * BLOCKS compute Z := op(S) op(B) or op(B) op(S). Banded matrices that are factorised lie
 * as LAPACK has them, with lds from one column to the next; those of GTSV as the diagonal below,
 * the main and that above, each with room for lds elements, and room for as many more. */
typedef struct mmci_structured {
  mmci_structure_kernel kernel;
  mmc_dtype dtype;
  int64_t rows, cols, depth;
  int64_t ldz, lds;
  bool right;      /* op(S) stands on the right of Z */
  bool inverts;    /* the inverse itself is asked for; S is Z */
  bool divides;    /* SCALE is with the inverse of the diagonal of S */
  mmc_op op;       /* of S; N where the kernel factorises, which overwrites S */
  uint32_t traits; /* of S, as it lies: MMC_LOWER or MMC_UPPER, MMC_UNIT, MMC_SYMMETRIC ... */
  bool hermitian;  /* A A^H and not A A^T; S is Hermitian and not symmetric */
  mmc_band band;   /* of op(S) where it matters */
  const void *b;   /* what SYMV, SYMM, BLOCKS and whatever computes apart multiply with */
  int64_t ldb;
  mmc_op b_op;
  mmc_band b_band; /* of op(B), where it is square, or of Z that is multiplied in place */
} mmci_structured;

/* Says whether a product may find that a matrix is not to be inverted. */
static inline bool mmci_structured_has_pivot(const mmci_structured *p) {
  if (p->inverts)
    return (p->traits & MMC_ORTHOGONAL) == 0 || mmci_traits_have(p->traits, MMC_DIAGONAL);
  if (p->kernel == MMCI_STRUCTURE_SCALE) return p->divides;
  return p->kernel >= MMCI_STRUCTURE_TRSM && p->kernel <= MMCI_STRUCTURE_GESV;
}

#endif
