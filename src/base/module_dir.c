#include "base/module_dir.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool mmci_path_trusted(const char *path) {
  struct stat facts;
  if (stat(path, &facts) != 0) return true;
  return (facts.st_uid == 0 || facts.st_uid == geteuid()) && (facts.st_mode & S_IWOTH) == 0;
}

/* Writes the path of DIR/mmchain-NAME.so; returns whether it fits. */
static bool join_module(const char *dir, const char *name, char path[MMCI_MODULE_PATH_SIZE]) {
  int length = snprintf(path, MMCI_MODULE_PATH_SIZE, "%s/mmchain-%s.so", dir, name);
  return length >= 0 && length < MMCI_MODULE_PATH_SIZE;
}

/* Writes the folder of the file that this function is in: the shared library, or the program or
 * extension module that has the static one inside. The main program may be known only by a relative
 * name. */
static bool own_folder(char folder[PATH_MAX]) {
  static const char here;
  Dl_info info;
  if (dladdr(&here, &info) == 0 || info.dli_fname == NULL) return false;
  const char *file = info.dli_fname[0] == '/' ? info.dli_fname : "/proc/self/exe";
  if (realpath(file, folder) == NULL) return false;
  *strrchr(folder, '/') = '\0';
  return true;
}

/* Looks into the folder that was configured, which a package that lies anywhere has none of: by the
 * time, somebody else may have made it. */
static bool find_configured(const char *name, char path[MMCI_MODULE_PATH_SIZE]) {
  static const char configured[] = MMCI_MODULE_DIR;
  return configured[0] == '/' && join_module(configured, name, path) && access(path, F_OK) == 0 &&
         mmci_path_trusted(configured) && mmci_path_trusted(path);
}

/* Looks in three folders, because an installed tree may be moved: the one beside the library, the
 * one that lies to a program as it does when both are installed, and the one that was configured.
 * Where it is in none of them, path is where it would lie beside what is running, or, where that
 * cannot be told, where nothing is. */
static bool find_module(const char *name, char path[MMCI_MODULE_PATH_SIZE]) {
  static const char *const beside[] = {"mmchain", MMCI_MODULE_FROM_BIN};
  char folder[PATH_MAX], dir[PATH_MAX + 64];
  bool known = own_folder(folder);
  for (int i = 0; known && i < 2; i++) {
    snprintf(dir, sizeof dir, "%s/%s", folder, beside[i]);
    if (join_module(dir, name, path) && access(path, F_OK) == 0) return true;
  }
  if (find_configured(name, path)) return true;
  if (!known) return join_module("/nowhere", name, path);
  const char *last = strrchr(folder, '/');
  const bool in_bin = last != NULL && strcmp(last, "/bin") == 0;
  snprintf(dir, sizeof dir, "%s/%s", folder, beside[in_bin ? 1 : 0]);
  return join_module(dir, name, path);
}

mmc_status mmci_module_path(const char *given, const char *name, char path[MMCI_MODULE_PATH_SIZE],
                            mmci_error *error) {
  static const char variable[] = "MMCHAIN_MODULE_DIR";
  const char *dir = given;
  if (dir == NULL) dir = secure_getenv(variable);
  bool fits = dir != NULL ? join_module(dir, name, path) : find_module(name, path);
  if (!fits) return mmci_fail(error, MMC_E_ARG, "the module directory's name is too long");
  if (given != NULL || dir == NULL) return MMC_OK;
  if (dir[0] != '/')
    return mmci_fail(error, MMC_E_ARG, "%s: expected an absolute path, got '%.100s'", variable,
                     dir);
  if (!mmci_path_trusted(dir) || !mmci_path_trusted(path))
    return mmci_fail(error, MMC_E_ARG,
                     "%s: expected what belongs to you or root and not all may write to, got "
                     "'%.100s'",
                     variable, dir);
  return MMC_OK;
}
