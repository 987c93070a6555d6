/* place.h: where the store lies among files. */
#ifndef MMCI_PLACE_H
#define MMCI_PLACE_H

#include "base/status.h"

typedef struct mmci_place {
  char *path;     /* absolute; "" when there is no store */
  bool usual;     /* under the cache directory, which is mmchain's own */
  const char *no; /* why there is no store; static text */
} mmci_place;

/* path as in mmci_wisdom_create(). Returns: E_NOMEM. */
mmc_status mmci_place_find(const char *path, mmci_place *out, mmci_error *error);

/* *there: whether a regular file is at path. Returns: E_IO (something else is, or cannot tell). */
mmc_status mmci_place_look(const char *path, bool *there, mmci_error *error);

/* Makes the directories above path that are missing. Returns: E_IO. */
mmc_status mmci_place_prepare(const char *path, mmci_error *error);

/* For one process at a time: others that set aside a file beside path wait. A descriptor for
 * mmci_place_unlock(), or -1, which it takes too, when the directory cannot be locked. */
int mmci_place_lock(const char *path);
void mmci_place_unlock(int lock);

/* Renames path, and the log that SQLite keeps beside it, to the first free of path.corrupt-1,
 * path.corrupt-2 ... *number: which. Returns: E_IO. */
mmc_status mmci_place_set_aside(const char *path, int *number, mmci_error *error);

#endif
