/* scalapack.c: finds the libraries. */
#include "ranks/mpi/scalapack.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By POSIX a pointer from dlsym() may be a function's; ISO C has no cast for that. */
static bool find(void *handle, const char *name, void *function) {
  void *symbol = dlsym(handle, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void *open_any(char name[200]) {
  static const char *const names[] = {"libscalapack-openmpi.so.2.2", "libscalapack-openmpi.so",
                                      "libscalapack.so.2.2", "libscalapack.so"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) continue;
    snprintf(name, 200, "%s", names[i]);
    return handle;
  }
  return NULL;
}

/* Opens a list of libraries; all but the last serve the others. Returns NULL after saying which
 * cannot be opened. */
static void *open_list(const char *list, char name[200], mmci_error *error) {
  char path[4096];
  void *handle = NULL;
  while (*list != '\0') {
    const size_t length = strcspn(list, ":");
    const bool is_last = list[length] == '\0';
    if (length == 0 || length >= sizeof path) {
      mmci_fail(error, MMC_E_UNSUPPORTED,
                "MMCHAIN_SCALAPACK: expected libraries with colons between them, got '%.100s'",
                list);
      return NULL;
    }
    memcpy(path, list, length);
    path[length] = '\0';
    handle = dlopen(path, RTLD_NOW | (is_last ? RTLD_LOCAL : RTLD_GLOBAL));
    if (handle == NULL) {
      mmci_fail(error, MMC_E_UNSUPPORTED, "MMCHAIN_SCALAPACK: cannot open '%.100s': %.200s", path,
                dlerror());
      return NULL;
    }
    snprintf(name, 200, "%.199s", path);
    list += length + !is_last;
  }
  return handle;
}

/* Finds a call of the library, or one that an earlier library of the list has. */
static bool find_anywhere(void *handle, const char *name, void *function) {
  return find(handle, name, function) || find(RTLD_DEFAULT, name, function);
}

mmc_status mmci_scalapack_open(mmci_scalapack *out, mmci_error *error) {
  static const char letters[] = "sdcz";
  const char *given = secure_getenv("MMCHAIN_SCALAPACK");
  char name[16];
  if (given != NULL && given[0] == '\0') given = NULL;
  *out = (mmci_scalapack){.is_named = given != NULL};
  out->handle = given != NULL ? open_list(given, out->name, error) : open_any(out->name);
  if (out->handle == NULL && given != NULL) return MMC_E_UNSUPPORTED;
  if (out->handle == NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "needs a ScaLAPACK (Debian: libscalapack-openmpi2.2), or one that "
                     "MMCHAIN_SCALAPACK names");
  void *theirs = NULL;
  if (find(out->handle, "MPI_Init", &theirs)) {
    int (*own)(int *, char ***) = MPI_Init;
    void *ours;
    memcpy(&ours, &own, sizeof ours);
    if (theirs != ours && dlsym(RTLD_DEFAULT, "MPI_Init") != theirs)
      return mmci_fail(error, MMC_E_UNSUPPORTED,
                       "%.150s is for another MPI than the one that mmchain was built with",
                       out->name);
  }
  bool is_whole = find_anywhere(out->handle, "Csys2blacs_handle", &out->sys2blacs_handle) &&
                  find_anywhere(out->handle, "Cblacs_gridmap", &out->gridmap) &&
                  find_anywhere(out->handle, "Cblacs_gridexit", &out->gridexit) &&
                  find_anywhere(out->handle, "Cfree_blacs_system_handle", &out->free_handle);
  for (int d = 0; d < 4; d++) {
    snprintf(name, sizeof name, "%cgemm_", letters[d]);
    is_whole = is_whole && find_anywhere(out->handle, name, &out->gemm[d]);
    snprintf(name, sizeof name, "p%cgemm_", letters[d]);
    is_whole = is_whole && find_anywhere(out->handle, name, &out->pgemm[d]);
  }
  find(out->handle, "openblas_set_num_threads", &out->set_threads);
  if (is_whole) return MMC_OK;
  return mmci_fail(error, MMC_E_UNSUPPORTED, "%.150s lacks calls of BLACS, BLAS or PBLAS",
                   out->name);
}
