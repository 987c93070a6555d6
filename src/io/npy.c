/* npy.c: opens an .npy file: maps or reads it, parses the header, finds the data, and copies them
 * only when the machine cannot use them as they lie. */
#include "io/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/path_text.h"
#include "io/npy_header.h"

/* The bytes of a file from its start: all of them when the file is mapped, else as many as were
 * wanted so far. */
typedef struct source {
  unsigned char *bytes;
  size_t have;
  size_t capacity; /* of bytes, when they were allocated */
  bool mapped;
  int descriptor; /* more bytes come from there; -1 when there are no more */
} source;

struct mmci_npy {
  source source;
  void *copy; /* of the data, when they had to be copied */
  mmci_npy_header header;
  mmc_matrix matrix;
};

/* ---- source -------------------------------------------------------------------------------- */

static void release(source *s) {
  if (s->mapped)
    munmap(s->bytes, s->have);
  else
    free(s->bytes);
  if (s->descriptor >= 0) close(s->descriptor);
  *s = (source){.descriptor = -1};
}

static mmc_status fail(const char *shown, int code, mmci_error *error) {
  return mmci_fail(error, MMC_E_IO, "%s: cannot read: %s", shown, strerror(code));
}

/* Opens path and maps it where that is possible. */
static mmc_status open_source(const char *path, const char *shown, source *s, mmci_error *error) {
  s->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  /* A socket, or a file of another user, cannot be opened by name although it is open already. */
  if (s->descriptor < 0 && strcmp(path, "/dev/stdin") == 0)
    s->descriptor = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
  if (s->descriptor < 0) return fail(shown, errno, error);

  struct stat status;
  if (fstat(s->descriptor, &status) != 0) return fail(shown, errno, error);
  /* Reading a directory fails later. A file of size 0 may be one that the kernel makes up while it
   * is read. */
  if (!S_ISREG(status.st_mode) || status.st_size <= 0) return MMC_OK;
  if ((uintmax_t)status.st_size > PTRDIFF_MAX) return fail(shown, EFBIG, error);

  size_t size = (size_t)status.st_size;
  void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, s->descriptor, 0);
  if (bytes == MAP_FAILED)
    return errno == ENOMEM ? mmci_fail_nomem(error, size)
                           : MMC_OK; /* a file that cannot be mapped is read */
  close(s->descriptor);
  *s = (source){.bytes = bytes, .have = size, .mapped = true, .descriptor = -1};
  return MMC_OK;
}

/* Reads until size bytes are there, or the file ends. Memory grows with what comes, not with what a
 * header promises. */
static mmc_status fetch(source *s, size_t size, const char *shown, mmci_error *error) {
  const size_t least = 1 << 16;
  while (s->have < size && s->descriptor >= 0) {
    if (s->have == s->capacity) {
      size_t capacity = s->capacity < least ? least : s->capacity;
      if (s->capacity >= least) capacity = capacity > size / 2 ? size : 2 * capacity;
      unsigned char *bytes = realloc(s->bytes, capacity);
      if (bytes == NULL) return mmci_fail_nomem(error, capacity);
      s->bytes = bytes;
      s->capacity = capacity;
    }
    size_t end = size < s->capacity ? size : s->capacity;
    ssize_t got = read(s->descriptor, s->bytes + s->have, end - s->have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(shown, errno, error);
    if (got == 0) {
      close(s->descriptor);
      s->descriptor = -1;
    }
    s->have += (size_t)got;
  }
  return MMC_OK;
}

/* ---- data ---------------------------------------------------------------------------------- */

/* Copies count real numbers of real_size bytes, and reverses their bytes when they are foreign. */
static void copy_reals(void *to, const unsigned char *from, size_t count, size_t real_size,
                       bool foreign) {
  if (!foreign) {
    memcpy(to, from, count * real_size);
  } else if (real_size == sizeof(uint16_t)) {
    uint16_t *out = to;
    for (size_t i = 0; i < count; i++) {
      uint16_t x;
      memcpy(&x, from + i * sizeof x, sizeof x);
      out[i] = __builtin_bswap16(x);
    }
  } else if (real_size == sizeof(uint32_t)) {
    uint32_t *out = to;
    for (size_t i = 0; i < count; i++) {
      uint32_t x;
      memcpy(&x, from + i * sizeof x, sizeof x);
      out[i] = __builtin_bswap32(x);
    }
  } else {
    uint64_t *out = to;
    for (size_t i = 0; i < count; i++) {
      uint64_t x;
      memcpy(&x, from + i * sizeof x, sizeof x);
      out[i] = __builtin_bswap64(x);
    }
  }
}

static mmc_matrix matrix_of(const mmci_npy_header *header) {
  const int64_t *core = header->shape + header->ndim - 2; /* with two dimensions or more */
  if (header->ndim == 1)
    return (mmc_matrix){
        .rows = 1, .cols = header->shape[0], .ld = header->shape[0], .layout = MMC_ROW_MAJOR};
  bool by_columns = header->fortran_order && header->ndim == 2;
  mmc_matrix matrix = {.rows = core[0],
                       .cols = core[1],
                       .ld = by_columns ? core[0] : core[1],
                       .layout = by_columns ? MMC_COL_MAJOR : MMC_ROW_MAJOR};
  return matrix;
}

/* Counts all elements; returns false when they are more than the machine counts. */
static bool count_elements(const mmci_npy_header *header, size_t *out) {
  size_t count = 1;
  bool none = false, fits = true;
  for (int d = 0; d < header->ndim; d++) {
    none = none || header->shape[d] == 0;
    fits = fits && !__builtin_mul_overflow(count, (uint64_t)header->shape[d], &count);
  }
  *out = none ? 0 : count;
  return none || fits;
}

/* Reverses the order of the dimensions: the first runs fastest in from, the last in to. */
static void to_c_order(const mmci_npy_header *header, const unsigned char *from, size_t count,
                       unsigned char *to) {
  size_t size = header->type->size, steps[MMCI_NPY_NDIM_MAX], step = 1, place = 0;
  int64_t index[MMCI_NPY_NDIM_MAX] = {0};
  for (int d = 0; d < header->ndim; d++) {
    steps[d] = step;
    step *= (size_t)header->shape[d];
  }
  for (size_t i = 0; i < count; i++) {
    memcpy(to + i * size, from + place * size, size);
    for (int d = header->ndim - 1; d >= 0; d--) {
      place += steps[d];
      if (++index[d] < header->shape[d]) break;
      place -= steps[d] * (size_t)header->shape[d];
      index[d] = 0;
    }
  }
}

/* Points npy->matrix to the data, which begin at offset bytes. */
static mmc_status find_data(mmci_npy *npy, size_t offset, const char *shown, mmci_error *error) {
  const mmci_npy_type *type = npy->header.type;
  source *s = &npy->source;
  npy->matrix = matrix_of(&npy->header);
  const mmci_npy_header *header = &npy->header;
  size_t count, size, end;
  if (!count_elements(header, &count) || __builtin_mul_overflow(count, type->size, &size) ||
      __builtin_add_overflow(size, offset, &end) || end > PTRDIFF_MAX) {
    int64_t cols = header->shape[header->ndim - 1];
    return mmci_fail(error, MMC_E_FORMAT,
                     "%s: %s%" PRId64 "x%" PRId64 " elements of %s are more than a file can hold",
                     shown, header->ndim > 2 ? "a stack of " : "", npy->matrix.rows, cols,
                     type->name);
  }
  if (size == 0) {
    release(s);
    return MMC_OK;
  }
  if (header->ndim > 2) npy->matrix.stride = npy->matrix.rows * npy->matrix.cols;

  mmc_status status = fetch(s, end, shown, error);
  if (status != MMC_OK) return status;
  if (s->have < end)
    return mmci_fail(error, MMC_E_FORMAT, "%s: truncated: %zu bytes are there, %zu are needed",
                     shown, s->have, end);

  unsigned char *data = s->bytes + offset;
  bool turned = header->fortran_order && header->ndim > 2;
  if (!turned && !npy->header.foreign && (uintptr_t)data % type->real_size == 0) {
    npy->matrix.data = data;
    return MMC_OK;
  }
  npy->copy = mmci_alloc_aligned(count, type->size);
  if (npy->copy == NULL) return mmci_fail_nomem(error, size);
  if (turned) {
    to_c_order(header, data, count, npy->copy);
    if (header->foreign)
      copy_reals(npy->copy, npy->copy, size / type->real_size, type->real_size, true);
  } else {
    copy_reals(npy->copy, data, size / type->real_size, type->real_size, header->foreign);
  }
  npy->matrix.data = npy->copy;
  release(s);
  return MMC_OK;
}

/* ---- file ---------------------------------------------------------------------------------- */

/* Puts the name of the file before a message about the header. */
static mmc_status with_name(const char *shown, const mmci_error *inner, mmci_error *error) {
  return mmci_fail(error, inner->status, "%s: %s", shown, inner->text);
}

static mmc_status load(mmci_npy *npy, const char *path, mmci_error *error) {
  char shown[MMCI_PATH_TEXT_SIZE];
  mmci_path_text(path, shown);
  source *s = &npy->source;
  mmci_error inner;

  mmc_status status = open_source(path, shown, s, error);
  if (status == MMC_OK) status = fetch(s, MMCI_NPY_PRELUDE_MAX, shown, error);
  if (status != MMC_OK) return status;

  size_t prelude_size, dictionary_size;
  if (mmci_npy_prelude_parse(s->bytes, s->have, &prelude_size, &dictionary_size, &inner) != MMC_OK)
    return with_name(shown, &inner, error);
  size_t offset = prelude_size + dictionary_size;
  status = fetch(s, offset, shown, error);
  if (status != MMC_OK) return status;
  if (s->have < offset)
    return mmci_fail(error, MMC_E_FORMAT,
                     "%s: truncated: %zu bytes are there, the .npy header alone needs %zu", shown,
                     s->have, offset);
  if (mmci_npy_dictionary_parse((const char *)s->bytes + prelude_size, dictionary_size,
                                &npy->header, &inner) != MMC_OK)
    return with_name(shown, &inner, error);

  status = find_data(npy, offset, shown, error);
  if (status == MMC_OK && s->descriptor >= 0) {
    close(s->descriptor);
    s->descriptor = -1;
  }
  return status;
}

mmc_status mmci_npy_open(const char *path, mmci_npy **out, mmci_error *error) {
  mmci_npy *npy = mmci_alloc_zeroed(1, sizeof *npy);
  if (npy == NULL) return mmci_fail_nomem(error, sizeof *npy);
  npy->source.descriptor = -1;
  mmc_status status = load(npy, path, error);
  if (status != MMC_OK) {
    mmci_npy_close(npy);
    return status;
  }
  *out = npy;
  return MMC_OK;
}

void mmci_npy_close(mmci_npy *npy) {
  if (npy == NULL) return;
  release(&npy->source);
  free(npy->copy);
  free(npy);
}

mmc_dtype mmci_npy_dtype(const mmci_npy *npy) {
  return npy->header.type->dtype;
}

int mmci_npy_ndim(const mmci_npy *npy) {
  return npy->header.ndim;
}

const int64_t *mmci_npy_shape(const mmci_npy *npy) {
  return npy->header.shape;
}

mmc_matrix mmci_npy_matrix(const mmci_npy *npy) {
  return npy->matrix;
}
