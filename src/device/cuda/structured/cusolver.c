/* cusolver.c: finds cuSOLVER and the functions that are called. */
#include "device/cuda/structured/cusolver.h"

#include <dlfcn.h>
#include <string.h>

#include "base/alloc.h"

/* CUDA 13 has number 12, and CUDA 12 number 11. */
static const char *const LIBRARIES[] = {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"};

static mmc_status open_cusolver(mmci_cusolver *cusolver, mmci_error *error) {
  for (size_t t = 0; cusolver->library == NULL && t < sizeof LIBRARIES / sizeof *LIBRARIES; t++)
    /* The library stays in the process, because it is not made to be unloaded. */
    cusolver->library = dlopen(LIBRARIES[t], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (cusolver->library == NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "no cuSOLVER to solve with a factor: %s is not found; install libcusolver of "
                     "the CUDA toolkit, or name its folder in LD_LIBRARY_PATH",
                     LIBRARIES[0]);
  void *symbol;
#define MMCI_CUSOLVER_FIND(name)                                                               \
  symbol = dlsym(cusolver->library, #name);                                                    \
  if (symbol == NULL)                                                                          \
    return mmci_fail(error, MMC_E_UNSUPPORTED,                                                 \
                     "cuSOLVER has no %s: that of CUDA 12 or later is needed, of the toolkit", \
                     #name);                                                                   \
  memcpy(&cusolver->name, &symbol, sizeof symbol);
  MMCI_CUSOLVER_FUNCTIONS(MMCI_CUSOLVER_FIND)
#undef MMCI_CUSOLVER_FIND
  return MMC_OK;
}

mmc_status mmci_cusolver_load(mmci_cusolver **out, mmci_error *error) {
  mmci_cusolver *cusolver = mmci_alloc_zeroed(1, sizeof *cusolver);
  if (cusolver == NULL) return mmci_fail_nomem(error, sizeof *cusolver);
  mmc_status status = open_cusolver(cusolver, error);
  if (status == MMC_OK)
    *out = cusolver;
  else
    mmci_cusolver_unload(cusolver);
  return status;
}

void mmci_cusolver_unload(mmci_cusolver *cusolver) {
  if (cusolver == NULL) return;
  if (cusolver->library != NULL) dlclose(cusolver->library);
  free(cusolver);
}

mmc_status mmci_cusolver_check(cusolverStatus_t code, const char *call, mmci_error *error) {
  if (code == CUSOLVER_STATUS_SUCCESS) return MMC_OK;
  return mmci_fail(error, code == CUSOLVER_STATUS_ALLOC_FAILED ? MMC_E_NOMEM : MMC_E_DEVICE,
                   "%s: error %d of cuSOLVER", call, (int)code);
}
