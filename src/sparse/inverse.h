/* inverse.h: dense factors of a sparse chain that are used by their inverse. */
#ifndef MMCI_SPARSE_INVERSE_H
#define MMCI_SPARSE_INVERSE_H

#include "device/device.h"

/* What is used by its inverse: a dense matrix after its op. */
typedef struct mmci_sparse_inverse {
  mmci_structure_kernel solver; /* TRSM, POSV or GESV; GEMM where there is no inverse */
  uint32_t traits;              /* of the matrix after its op, as far as the solver asks for them */
} mmci_sparse_inverse;

/* Reads what is said of factor i, rows x cols as it is stored, with its op. Returns E_ARG, and
 * E_UNSUPPORTED where it is used by its inverse and the device has no solver; the error names the
 * factor. */
mmc_status mmci_sparse_inverse_read(const mmci_opened *on, mmc_dtype dtype, int64_t i,
                                    const mmc_sparse_factor *factor, uint32_t traits,
                                    mmci_sparse_inverse *out, mmci_error *error);

/* Multiplications of a solve with an n x n matrix for so many other lines, and of its inverse. */
double mmci_sparse_solve_count(mmci_structure_kernel solver, double n, double lines);
double mmci_sparse_invert_count(mmci_structure_kernel solver, double n);

/* Z := S^-1 Z, or Z S^-1 where right holds; all are row-major, and S is overwritten unless the
 * solver is TRSM. *pivot becomes that which is missing, from 1 on, or 0. Return E_NOMEM, E_DEVICE.
 */
typedef struct mmci_sparse_solve {
  mmci_sparse_inverse inverse;
  mmc_dtype dtype;
  int64_t rows, cols; /* of Z */
  bool right;
  void *s, *z;
  int64_t lds, ldz;
} mmci_sparse_solve;
mmc_status mmci_sparse_solve_with(const mmci_opened *on, const mmci_sparse_solve *solve,
                                  int64_t *pivot, mmci_error *error);
/* Replaces a square row-major matrix by its inverse, in the same way. */
mmc_status mmci_sparse_invert(const mmci_opened *on, mmc_dtype dtype,
                              const mmci_sparse_inverse *inverse, int64_t n, void *z, int64_t ldz,
                              int64_t *pivot, mmci_error *error);

#endif
