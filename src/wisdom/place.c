#include "wisdom/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path_text.h"

enum { MOST_ASIDE = 1000 };

/* ---- finding ------------------------------------------------------------------------------- */

/* Returns a new string, directory/name, or NULL when memory is short. */
static char *join_path(const char *directory, const char *name) {
  char *path;
  return asprintf(&path, "%s/%s", directory, name) >= 0 ? path : NULL;
}

/* Returns an absolute path of the environment; any other value, and "", count as not set. */
static const char *directory_from(const char *variable) {
  const char *value = getenv(variable);
  return value != NULL && value[0] == '/' ? value : NULL;
}

/* Returns the path in the cache directory (XDG Base Directory Specification); "" when there is
 * none. */
static char *usual_path(void) {
  const char *cache = directory_from("XDG_CACHE_HOME"), *home = directory_from("HOME");
  if (cache != NULL) return join_path(cache, "mmchain/wisdom.db");
  return home != NULL ? join_path(home, ".cache/mmchain/wisdom.db") : strdup("");
}

static char *absolute(const char *path) {
  if (path[0] == '/' || path[0] == '\0') return strdup(path);
  char here[PATH_MAX];
  return join_path(getcwd(here, sizeof here) != NULL ? here : ".", path);
}

mmc_status mmci_place_find(const char *path, mmci_place *out, mmci_error *error) {
  if (path == NULL) path = getenv("MMCHAIN_WISDOM");
  mmci_place place = {.usual = path == NULL, .no = "the path given is empty"};
  place.path = place.usual ? usual_path() : absolute(path);
  if (place.path == NULL) return mmci_fail_nomem(error, PATH_MAX);
  if (place.usual)
    place.no = "expected MMCHAIN_WISDOM to be set, or XDG_CACHE_HOME or HOME to an absolute path";
  *out = place;
  return MMC_OK;
}

mmc_status mmci_place_look(const char *path, bool *there, mmci_error *error) {
  struct stat status;
  char shown[MMCI_PATH_TEXT_SIZE];
  *there = stat(path, &status) == 0;
  if (!*there && errno != ENOENT)
    return mmci_fail(error, MMC_E_IO, "%s: %s", mmci_path_text(path, shown), strerror(errno));
  if (*there && !S_ISREG(status.st_mode))
    return mmci_fail(error, MMC_E_IO, "%s: expected a file, got %s", mmci_path_text(path, shown),
                     S_ISDIR(status.st_mode) ? "a directory" : "something else");
  return MMC_OK;
}

/* ---- making -------------------------------------------------------------------------------- */

mmc_status mmci_place_prepare(const char *path, mmci_error *error) {
  char *part = strdup(path);
  if (part == NULL) return mmci_fail_nomem(error, strlen(path) + 1);
  mmc_status status = MMC_OK;
  for (char *slash = strchr(part + 1, '/'); slash != NULL && status == MMC_OK;
       slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    /* A read-only file system may answer EROFS for a directory that is there. */
    if (mkdir(part, 0700) != 0 && errno != EEXIST) {
      int code = errno;
      char shown[MMCI_PATH_TEXT_SIZE];
      if (access(part, F_OK) != 0)
        status = mmci_fail(error, MMC_E_IO, "%s: cannot make the directory: %s",
                           mmci_path_text(part, shown), strerror(code));
    }
    *slash = '/';
  }
  /* Of a file that can neither be made nor read, SQLite tells the latter. */
  if (status == MMC_OK && access(path, F_OK) != 0 && errno == ENOENT) {
    char shown[MMCI_PATH_TEXT_SIZE];
    strrchr(part, '/')[1] = '\0';
    if (access(part, W_OK | X_OK) != 0)
      status = mmci_fail(error, MMC_E_IO, "%s: cannot make the file: %s",
                         mmci_path_text(path, shown), strerror(errno));
  }
  free(part);
  return status;
}

/* ---- setting aside ------------------------------------------------------------------------- */

int mmci_place_lock(const char *path) {
  char *directory = strndup(path, (size_t)(strrchr(path, '/') - path) + 1);
  if (directory == NULL) return -1;
  int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  free(directory);
  while (lock >= 0 && flock(lock, LOCK_EX) != 0 && errno == EINTR) {
  }
  return lock;
}

void mmci_place_unlock(int lock) {
  if (lock >= 0) close(lock);
}

mmc_status mmci_place_set_aside(const char *path, int *number, mmci_error *error) {
  /* The log goes first, because one left beside a new file would be played back into it. */
  static const char *const endings[] = {"-wal", "-journal", "-shm", ""};
  char from[PATH_MAX], to[PATH_MAX], shown[MMCI_PATH_TEXT_SIZE];
  for (int n = 1; n <= MOST_ASIDE; n++) {
    int length = snprintf(to, sizeof to, "%s.corrupt-%d", path, n);
    if (length < 0 || (size_t)length + sizeof "-journal" > sizeof to) break;
    if (access(to, F_OK) == 0) continue;
    for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
      snprintf(from, sizeof from, "%s%s", path, endings[e]);
      snprintf(to + length, sizeof to - (size_t)length, "%s", endings[e]);
      if (rename(from, to) != 0 && (errno != ENOENT || endings[e][0] == '\0'))
        return mmci_fail(error, MMC_E_IO, "%s: corrupt, and cannot be renamed: %s",
                         mmci_path_text(path, shown), strerror(errno));
    }
    *number = n;
    return MMC_OK;
  }
  return mmci_fail(error, MMC_E_IO, "%s: corrupt, and no name is left for setting it aside",
                   mmci_path_text(path, shown));
}
