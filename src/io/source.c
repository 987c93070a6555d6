#include "io/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static mmc_status fail(const mmci_source *s, int code, mmci_error *error) {
  return mmci_fail(error, MMC_E_IO, "%s: cannot read: %s", s->shown, strerror(code));
}

/* ---- a descriptor -------------------------------------------------------------------------- */

static ptrdiff_t more_of_descriptor(mmci_origin origin, unsigned char *bytes, size_t size,
                                    mmci_error *error) {
  for (;;) {
    ssize_t got = read(origin.descriptor, bytes, size);
    if (got >= 0) return got;
    if (errno == EINTR) continue;
    mmci_fail(error, MMC_E_IO, "cannot read: %s", strerror(errno));
    return -1;
  }
}

static void close_descriptor(mmci_origin origin) {
  close(origin.descriptor);
}

/* ---- the source ---------------------------------------------------------------------------- */

void mmci_source_finish(mmci_source *s) {
  if (s->more != NULL) s->more_close(s->origin);
  s->more = NULL;
}

void mmci_source_release(mmci_source *s) {
  mmci_source_finish(s);
  if (s->mapping != NULL)
    munmap(s->mapping, s->mapping_size);
  else
    free(s->bytes);
  s->bytes = NULL;
  s->mapping = NULL;
  s->have = s->capacity = 0;
}

mmc_status mmci_source_open(const char *path, mmci_source *out, mmci_error *error) {
  const bool is_standard = strcmp(path, "/dev/stdin") == 0;
  *out = (mmci_source){0};
  mmci_path_text(is_standard ? "standard input" : path, out->shown);
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  /* A socket, or a file of another user, cannot be opened by name although it is open already. */
  if (descriptor < 0 && is_standard) descriptor = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return fail(out, errno, error);
  out->more = more_of_descriptor;
  out->more_close = close_descriptor;
  out->origin.descriptor = descriptor;

  struct stat status;
  if (fstat(descriptor, &status) != 0) return fail(out, errno, error);
  /* Reading a directory fails later. A file of size 0 may be one that the kernel makes up while it
   * is read. */
  if (!S_ISREG(status.st_mode) || status.st_size <= 0) return MMC_OK;
  if ((uintmax_t)status.st_size > PTRDIFF_MAX) return fail(out, EFBIG, error);

  size_t size = (size_t)status.st_size;
  void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (bytes == MAP_FAILED)
    return errno == ENOMEM ? mmci_fail_nomem(error, size)
                           : MMC_OK; /* a file that cannot be mapped is read */
  mmci_source_finish(out);
  out->bytes = out->mapping = bytes;
  out->have = out->mapping_size = size;
  return MMC_OK;
}

mmc_status mmci_source_fetch(mmci_source *s, size_t size, mmci_error *error) {
  const size_t least = 1 << 16;
  while (s->have < size && s->more != NULL) {
    if (s->have == s->capacity) {
      size_t capacity = s->capacity < least ? least : s->capacity;
      if (s->capacity >= least) capacity = capacity > size / 2 ? size : 2 * capacity;
      unsigned char *bytes = realloc(s->bytes, capacity);
      if (bytes == NULL) return mmci_fail_nomem(error, capacity);
      s->bytes = bytes;
      s->capacity = capacity;
    }
    size_t end = size < s->capacity ? size : s->capacity;
    mmci_error reason = {0};
    ptrdiff_t got = s->more(s->origin, s->bytes + s->have, end - s->have, &reason);
    if (got < 0) return mmci_fail(error, reason.status, "%s: %.200s", s->shown, reason.text);
    if (got == 0) mmci_source_finish(s);
    s->have += (size_t)got;
  }
  return MMC_OK;
}
