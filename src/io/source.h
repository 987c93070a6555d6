/* source.h: the bytes of a file, from its start or from where an array begins in it.
 *
 * A regular file is mapped. What cannot be mapped (a pipe, /dev/stdin), and what is not in a file
 * as it is (a compressed member), is read into memory, no further than it is asked for. */
#ifndef MMCI_SOURCE_H
#define MMCI_SOURCE_H

#include "base/path_text.h"
#include "base/status.h"

/* Where bytes come from. */
typedef union mmci_origin {
  int descriptor;
  void *state;
} mmci_origin;

/* Puts at most size bytes into bytes and returns how many, 0 at the end; less than 0 on failure,
 * with the reason in error. */
typedef ptrdiff_t (*mmci_more_fn)(mmci_origin origin, unsigned char *bytes, size_t size,
                                  mmci_error *error);

typedef struct mmci_source {
  unsigned char *bytes; /* the file's bytes: all when it is mapped, else as many as were fetched */
  size_t have;
  size_t capacity; /* how many bytes are allocated; 0 when the file is mapped */
  void *mapping;   /* the mapping; NULL when the file is not mapped */
  size_t mapping_size;
  mmci_more_fn more; /* more bytes come from there; NULL when there are no more */
  void (*more_close)(mmci_origin origin);
  mmci_origin origin;
  char shown[MMCI_PATH_TEXT_SIZE]; /* name of the file in messages */
} mmci_source;

/* Opens a file and maps it where that is possible. On failure *out is to be released too.
 * Returns: E_IO, E_NOMEM. */
mmc_status mmci_source_open(const char *path, mmci_source *out, mmci_error *error);
/* Fails with E_FORMAT and what is wrong with the file, after its name. */
static inline mmc_status mmci_source_refuse(const mmci_source *s, const char *what,
                                            mmci_error *error) {
  return mmci_fail(error, MMC_E_FORMAT, "%s: %s", s->shown, what);
}
/* Fetches until size bytes are there, or the source ends: s->have says which. Memory grows with
 * what comes, not with what is asked for. Returns: E_IO, E_FORMAT, E_NOMEM. */
mmc_status mmci_source_fetch(mmci_source *s, size_t size, mmci_error *error);
/* Closes what more bytes would come from. */
void mmci_source_finish(mmci_source *s);
/* Releases all. */
void mmci_source_release(mmci_source *s);

#endif
