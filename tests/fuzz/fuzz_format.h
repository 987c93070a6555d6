/* fuzz_format.h: files of a format with members or without. Every member that is told is opened;
 * one that opens has all the elements that its shape says. What may be a sparse matrix is read as
 * one, and has its elements in its columns. */
#ifndef FUZZ_FORMAT_H
#define FUZZ_FORMAT_H

#include "fuzz.h"
#include "io/format.h"

enum { FUZZ_MEMBERS = 4 };

typedef struct fuzz_members {
  char *names[FUZZ_MEMBERS];
  int count;
} fuzz_members;

static inline bool fuzz_note(void *user, const char *member) {
  fuzz_members *m = user;
  m->names[m->count] = strdup(member);
  MUST(m->names[m->count] != NULL);
  return ++m->count < FUZZ_MEMBERS;
}

static inline void fuzz_member(const mmci_format *format, const char *path, const char *member) {
  const mmci_file_name name = {.path = path, .member = member};
  mmci_error error = {0};
  mmci_file_array *array;
  if (format->open(&name, &array, &error) != MMC_OK) return;
  size_t size;
  mmc_matrix matrix = array->matrix;
  MUST(mmci_file_array_measure(array, &size, &error) == MMC_OK);
  const volatile unsigned char *data = matrix.data;
  MUST(size == 0 || data != NULL);
  unsigned sum = 0;
  for (size_t i = 0; i < size; i++) sum += data[i];
  (void)sum;
  mmci_file_array_destroy(array);
}

static inline void fuzz_sparse(const mmci_format *format, const char *path) {
  mmci_csr matrix;
  mmci_error error = {0};
  if (format->sparse_is == NULL || format->sparse_is(path, &error) != MMC_OK) return;
  if (format->sparse_open(path, &matrix, &error) != MMC_OK) return;
  MUST(matrix.rows >= 0 && matrix.cols >= 0 && matrix.indptr[0] == 0);
  for (int64_t r = 0; r < matrix.rows; r++) MUST(matrix.indptr[r] <= matrix.indptr[r + 1]);
  const size_t size = mmc_dtype_size(matrix.dtype);
  const volatile unsigned char *values = matrix.values;
  unsigned sum = 0;
  for (int64_t e = 0; e < mmci_csr_nonzeros(&matrix); e++) {
    MUST(matrix.indices[e] >= 0 && matrix.indices[e] < matrix.cols);
    for (size_t b = 0; b < size; b++) sum += values[(size_t)e * size + b];
  }
  (void)sum;
  mmci_csr_release(&matrix);
}

static inline void fuzz_format(const mmci_format *format, const char *path) {
  fuzz_members members = {.count = 0};
  mmci_error error = {0};
  fuzz_sparse(format, path);
  if (format->list == NULL) {
    fuzz_member(format, path, NULL);
    return;
  }
  (void)format->list(path, fuzz_note, &members, &error);
  for (int m = 0; m < members.count; m++) {
    fuzz_member(format, path, members.names[m]);
    free(members.names[m]);
  }
}

#endif
