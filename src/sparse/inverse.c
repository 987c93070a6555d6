#include "sparse/inverse.h"

#include <inttypes.h>

#include "base/dtype.h"
#include "chain/traits.h"

/* ---- what is said ---------------------------------------------------------------------------- */

/* Returns how a matrix with these traits is solved with, and leaves of them what that asks for. */
static mmci_structure_kernel choose_solver(uint32_t *traits) {
  const uint32_t triangle = *traits & (MMC_LOWER | MMC_UPPER);
  if (triangle != 0) { /* of a diagonal matrix one half is as good as the other */
    *traits = ((triangle & MMC_LOWER) != 0 ? MMC_LOWER : MMC_UPPER) | (*traits & MMC_UNIT);
    return MMCI_STRUCTURE_TRSM;
  }
  if ((*traits & MMC_POSITIVE_DEFINITE) != 0) {
    *traits &= MMC_POSITIVE_DEFINITE | MMC_HERMITIAN | MMC_SYMMETRIC;
    return MMCI_STRUCTURE_POSV;
  }
  *traits = 0;
  return MMCI_STRUCTURE_GESV;
}

mmc_status mmci_sparse_inverse_read(const mmci_opened *on, mmc_dtype dtype, int64_t i,
                                    const mmc_sparse_factor *factor, uint32_t traits,
                                    mmci_sparse_inverse *out, mmci_error *error) {
  *out = (mmci_sparse_inverse){.solver = MMCI_STRUCTURE_GEMM};
  if (traits == 0) return MMC_OK;
  if (factor->dense == NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "factors[%" PRId64
                     "]: expected no traits of a sparse matrix: one that is inverted is given "
                     "densely",
                     i);
  const char *wrong = mmci_traits_wrong(traits, factor->dense->rows, factor->dense->cols);
  if (wrong != NULL) return mmci_fail(error, MMC_E_ARG, "factors[%" PRId64 "]: %s", i, wrong);
  if ((traits & MMC_INVERSE) == 0) return MMC_OK;
  out->traits = mmci_traits_close(traits & ~(uint32_t)MMC_INVERSE, mmci_dtype_is_complex(dtype));
  if (factor->op != MMC_OP_N) out->traits = mmci_traits_transpose(out->traits);
  out->solver = choose_solver(&out->traits);
  if (on->ops->structured == NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "factors[%" PRId64 "]: device '%s' solves with no matrices: use device cpu", i,
                     on->name);
  mmci_structured ask = {.kernel = out->solver, .dtype = dtype};
  if (on->ops->structured_check == NULL) return MMC_OK;
  mmc_status status = on->ops->structured_check(on->device, &ask, error);
  ask.inverts = true;
  return status == MMC_OK ? on->ops->structured_check(on->device, &ask, error) : status;
}

/* ---- prices ---------------------------------------------------------------------------------- */

double mmci_sparse_solve_count(mmci_structure_kernel solver, double n, double lines) {
  if (solver == MMCI_STRUCTURE_TRSM) return n * (n + 1) / 2 * lines;
  if (solver == MMCI_STRUCTURE_POSV) return n * n * n / 6 + n * (n + 1) * lines;
  return n * n * n / 3 + n * n * lines;
}

double mmci_sparse_invert_count(mmci_structure_kernel solver, double n) {
  const double cube = n * n * n;
  return solver == MMCI_STRUCTURE_TRSM ? cube / 6 : solver == MMCI_STRUCTURE_POSV ? cube / 2 : cube;
}

/* ---- work ------------------------------------------------------------------------------------ */

/* Row-major matrices are, column-major, their own transposed, and so is S. */
mmc_status mmci_sparse_solve_with(const mmci_opened *on, const mmci_sparse_solve *solve,
                                  int64_t *pivot, mmci_error *error) {
  const uint32_t traits = mmci_traits_transpose(solve->inverse.traits);
  const mmci_structured product = {.kernel = solve->inverse.solver,
                                   .dtype = solve->dtype,
                                   .rows = solve->cols,
                                   .cols = solve->rows,
                                   .ldz = solve->ldz,
                                   .lds = solve->lds,
                                   .right = !solve->right,
                                   .op = MMC_OP_N,
                                   .traits = traits,
                                   .hermitian = (traits & MMC_HERMITIAN) != 0};
  *pivot = 0;
  if (solve->rows == 0 || solve->cols == 0) return MMC_OK;
  return on->ops->structured(on->device, &product, solve->z, solve->s, pivot, error);
}

mmc_status mmci_sparse_invert(const mmci_opened *on, mmc_dtype dtype,
                              const mmci_sparse_inverse *inverse, int64_t n, void *z, int64_t ldz,
                              int64_t *pivot, mmci_error *error) {
  const mmci_structured product = {.dtype = dtype,
                                   .rows = n,
                                   .cols = n,
                                   .ldz = ldz,
                                   .lds = ldz,
                                   .inverts = true,
                                   .traits = mmci_traits_transpose(inverse->traits)};
  *pivot = 0;
  return n == 0 ? MMC_OK : on->ops->structured(on->device, &product, z, z, pivot, error);
}
