/* cublas.c: finds cuBLAS and the functions that are called. */
#include "device/cuda/cublas.h"

#include <dlfcn.h>
#include <string.h>

#include "base/alloc.h"

static const char *const LIBRARIES[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};

static void *open_library(void) {
  void *library = NULL;
  for (size_t t = 0; library == NULL && t < sizeof LIBRARIES / sizeof *LIBRARIES; t++)
    /* The library stays in the process, because it is not made to be unloaded. */
    library = dlopen(LIBRARIES[t], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  return library;
}

/* Returns the name of a function that is missing, or NULL. */
static const char *find_functions(mmci_cublas *cublas) {
  void *symbol;
#define MMCI_CUBLAS_FIND(name)            \
  symbol = dlsym(cublas->library, #name); \
  if (symbol == NULL) return #name;       \
  memcpy(&cublas->name, &symbol, sizeof symbol);
  MMCI_CUBLAS_FUNCTIONS(MMCI_CUBLAS_FIND)
#undef MMCI_CUBLAS_FIND
  return NULL;
}

static mmc_status open_cublas(mmci_cublas *cublas, mmci_error *error) {
  cublas->library = open_library();
  if (cublas->library == NULL)
    return mmci_fail(
        error, MMC_E_UNSUPPORTED,
        "no cuBLAS: %s is not found; install libcublas of the CUDA toolkit, or name its "
        "folder in LD_LIBRARY_PATH",
        LIBRARIES[0]);
  const char *missing = find_functions(cublas);
  if (missing != NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "cuBLAS has no %s: version 12 or later is needed, of the CUDA toolkit",
                     missing);
  MMCI_CUBLAS_TRY(cublas, cublasLtCreate, (&cublas->lt));
  return MMC_OK;
}

mmc_status mmci_cublas_load(mmci_cublas **out, mmci_error *error) {
  mmci_cublas *cublas = mmci_alloc_zeroed(1, sizeof *cublas);
  if (cublas == NULL) return mmci_fail_nomem(error, sizeof *cublas);
  mmc_status status = open_cublas(cublas, error);
  if (status == MMC_OK)
    *out = cublas;
  else
    mmci_cublas_unload(cublas);
  return status;
}

void mmci_cublas_unload(mmci_cublas *cublas) {
  if (cublas == NULL) return;
  if (cublas->lt != NULL) (void)cublas->cublasLtDestroy(cublas->lt);
  if (cublas->library != NULL) dlclose(cublas->library);
  free(cublas);
}

bool mmci_cublas_version(int version[3]) {
  mmci_cublas cublas = {.library = open_library()};
  if (cublas.library == NULL) return false;
  bool known = find_functions(&cublas) == NULL;
  static const libraryPropertyType PARTS[] = {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL};
  for (int t = 0; known && t < 3; t++)
    known = cublas.cublasGetProperty(PARTS[t], &version[t]) == CUBLAS_STATUS_SUCCESS;
  dlclose(cublas.library);
  return known;
}

mmc_status mmci_cublas_check(const mmci_cublas *cublas, cublasStatus_t code, const char *call,
                             mmci_error *error) {
  if (code == CUBLAS_STATUS_SUCCESS) return MMC_OK;
  return mmci_fail(error, code == CUBLAS_STATUS_ALLOC_FAILED ? MMC_E_NOMEM : MMC_E_DEVICE, "%s: %s",
                   call, cublas->cublasGetStatusString(code));
}
