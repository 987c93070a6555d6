/* cusolver.h: cuSOLVER, found at run time, so that the module serves all but solves without it. */
#ifndef MMCI_CUSOLVER_H
#define MMCI_CUSOLVER_H

#include <cusolverDn.h>

#include "base/status.h"

/* What is called of cuSOLVER 11.1 or later: the one that CUDA 12 brings, and its successors. */
#define MMCI_CUSOLVER_FUNCTIONS(X) \
  X(cusolverDnCreate)              \
  X(cusolverDnDestroy)             \
  X(cusolverDnSetStream)           \
  X(cusolverDnCreateParams)        \
  X(cusolverDnDestroyParams)       \
  X(cusolverDnXpotrf_bufferSize)   \
  X(cusolverDnXpotrf)              \
  X(cusolverDnXgetrf_bufferSize)   \
  X(cusolverDnXgetrf)              \
  X(cusolverDnXgetrs)

typedef struct mmci_cusolver {
  void *library;
#define MMCI_CUSOLVER_FIELD(name) __typeof__(&(name)) name;
  MMCI_CUSOLVER_FUNCTIONS(MMCI_CUSOLVER_FIELD)
#undef MMCI_CUSOLVER_FIELD
} mmci_cusolver;

/* Loads the library. Returns E_UNSUPPORTED (it is not here; the error says what to install),
 * E_NOMEM. */
mmc_status mmci_cusolver_load(mmci_cusolver **out, mmci_error *error);
void mmci_cusolver_unload(mmci_cusolver *cusolver);

/* Turns a code of cuSOLVER into a status. */
mmc_status mmci_cusolver_check(cusolverStatus_t code, const char *call, mmci_error *error);

/* All calls of cuSOLVER that can fail go through this; a test puts failures in their place. */
#ifndef MMCI_CUSOLVER_CALL
#define MMCI_CUSOLVER_CALL(call) (call)
#endif

/* MMCI_CUSOLVER_TRY(cusolver, cusolverDnCreate, (&handle)): leaves the calling function, which
 * returns mmc_status and has an error in scope, when the call fails. */
#define MMCI_CUSOLVER_TRY(cusolver, name, arguments)                                       \
  do {                                                                                     \
    mmc_status status_of_call =                                                            \
        mmci_cusolver_check(MMCI_CUSOLVER_CALL((cusolver)->name arguments), #name, error); \
    if (status_of_call != MMC_OK) return status_of_call;                                   \
  } while (0)

#endif
