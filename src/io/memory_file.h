/* memory_file.h: a file in memory, for libraries that write files by their names. */
#ifndef MMCI_MEMORY_FILE_H
#define MMCI_MEMORY_FILE_H

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"

enum { MMCI_MEMORY_FILE_PATH_SIZE = 32 };

/* Makes an empty file that may become size bytes large, and writes the name that it has while it is
 * open. Whether it may is asked here, as libraries that cannot write do not tell, or crash when the
 * process ends. Returns its descriptor, or -1 after saying why there is none. */
static inline int mmci_memory_file_create(uint64_t size, char path[MMCI_MEMORY_FILE_PATH_SIZE],
                                          mmci_error *error) {
  const int descriptor = memfd_create("mmchain", MFD_CLOEXEC);
  if (descriptor >= 0 && ftruncate(descriptor, (off_t)size) == 0 && ftruncate(descriptor, 0) == 0) {
    snprintf(path, MMCI_MEMORY_FILE_PATH_SIZE, "/proc/self/fd/%d", descriptor);
    return descriptor;
  }
  mmci_fail(error, MMC_E_NOMEM, "a file of %" PRIu64 " bytes cannot be made in memory: %s", size,
            strerror(errno));
  if (descriptor >= 0) close(descriptor);
  return -1;
}

#endif
