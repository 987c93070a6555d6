/* scalapack.h: the ScaLAPACK and the BLAS under it, found when they are first needed. */
#ifndef MMCI_RANKS_SCALAPACK_H
#define MMCI_RANKS_SCALAPACK_H

#include <mpi.h>

#include "base/status.h"

/* Symbols of ScaLAPACK 2, whose integers have 32 bits. Tables are in the order of mmc_dtype: f32,
 * f64, c64, c128. */
typedef struct mmci_scalapack {
  void *handle; /* the last library of those that were opened */
  char name[200];
  bool is_named; /* by MMCHAIN_SCALAPACK */
  int (*sys2blacs_handle)(MPI_Comm communicator);
  void (*gridmap)(int *context, int *map, int lead, int rows, int cols);
  void (*gridexit)(int context);
  void (*free_handle)(int handle);
  void (*set_threads)(int count); /* of the BLAS; NULL where it has no such call */
  void (*gemm[4])(const char *, const char *, const int *, const int *, const int *, const void *,
                  const void *, const int *, const void *, const int *, const void *, void *,
                  const int *);
  void (*pgemm[4])(const char *, const char *, const int *, const int *, const int *, const void *,
                   const void *, const int *, const int *, const int *, const void *, const int *,
                   const int *, const int *, const void *, void *, const int *, const int *,
                   const int *);
} mmci_scalapack;

/* Opens what MMCHAIN_SCALAPACK names, a library or several with colons between them, of which each
 * is seen by the next; without it, or where it is empty, the ScaLAPACK of the system. Returns:
 * E_UNSUPPORTED. */
mmc_status mmci_scalapack_open(mmci_scalapack *out, mmci_error *error);

#endif
