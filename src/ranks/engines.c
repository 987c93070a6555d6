/* engines.c: loads modules of teams. */
#include "ranks/engines.h"

#include <dlfcn.h>
#include <string.h>

#include "base/module_dir.h"

const char *mmci_engine_name(int index) {
  return index == 0 ? "scalapack" : NULL;
}

bool mmci_engine_is_known(const char *name) {
  return strcmp(name, mmci_engine_name(0)) == 0;
}

mmc_status mmci_engine_load(const char *name, const char *module_dir, const mmci_team_ops **out,
                            mmci_error *error) {
  char path[MMCI_MODULE_PATH_SIZE];
  if (!mmci_engine_is_known(name))
    return mmci_fail_argument(error, MMC_E_ARG, "engine", "expected scalapack, got '%.100s'", name);
  mmc_status status = mmci_module_path(module_dir, "mpi", path, error);
  if (status != MMC_OK) return status;
  /* An MPI finds its own parts by symbols that all see, and cannot be unloaded. */
  void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (module == NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "needs the module mmchain-mpi.so: build by CMake, not pip, with an MPI "
                     "installed and MMC_WITH_MPI not OFF (%.200s)",
                     dlerror());
  mmci_team_entry_fn entry;
  void *symbol = dlsym(module, "mmci_module_entry");
  memcpy(&entry, &symbol, sizeof entry);
  const mmci_team_ops *ops = symbol != NULL ? entry() : NULL;
  if (ops == NULL || ops->abi != MMCI_TEAM_ABI || ops->size != sizeof *ops)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "%.200s is of another version of mmchain", path);
  *out = ops;
  return MMC_OK;
}
