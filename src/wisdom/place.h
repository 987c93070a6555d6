/* place.h: where the store lies among files. */
#ifndef MMCI_PLACE_H
#define MMCI_PLACE_H

#include "base/status.h"

typedef struct mmci_place {
  char *path;     /* absolute; "" when there is no store */
  bool usual;     /* the path is under the cache directory and named by mmchain itself */
  const char *no; /* why there is no store; static text */
} mmci_place;

/* Finds the path, given as in mmci_wisdom_create(). Returns: E_NOMEM. */
mmc_status mmci_place_find(const char *path, mmci_place *out, mmci_error *error);

/* *there says whether a regular file is at path. Returns: E_IO when something else is, or when it
 * cannot tell. */
mmc_status mmci_place_look(const char *path, bool *there, mmci_error *error);

/* Makes the directories above path that are missing. Returns: E_IO, also where a file cannot be
 * made there. */
mmc_status mmci_place_prepare(const char *path, mmci_error *error);

/* Locks the directory of path, so that one process at a time sets files aside there. Returns a
 * descriptor for mmci_place_unlock(), or -1 when the directory cannot be locked; that call takes
 * both. */
int mmci_place_lock(const char *path);
void mmci_place_unlock(int lock);

/* Renames path, and the log that SQLite keeps beside it, to the first free of path.corrupt-1,
 * path.corrupt-2 ...; *number says which it was. Returns: E_IO. */
mmc_status mmci_place_set_aside(const char *path, int *number, mmci_error *error);

#endif
