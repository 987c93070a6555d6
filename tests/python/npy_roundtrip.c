/* npy_roundtrip.c: what test_npy_numpy.py drives: reads .npy files as the library does, writes them
 * again from another place in memory, and says what it saw.
 *
 * Standard input has one job a line, tab-separated:
 *     LAYOUT  GAP  NDIM  IN  OUT
 * The matrix in IN is laid out anew, LAYOUT row or column, GAP elements between its lines, and
 * written to OUT with NDIM dimensions; the matrices of a stack, GAP elements between them as well.
 * Standard output has one line a job: DTYPE  NDIM  ROWS  COLS  LAYOUT  CHECKSUM       or ERROR
 * STATUS  MESSAGE CHECKSUM is Adler-32 over the bytes of the matrix as it lies in memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../npy_output.h"
#include "io/npy.h"
#include "io/npy_header.h"

static uint32_t checksum(const unsigned char *bytes, size_t size) {
  const uint32_t modulus = 65521;
  uint32_t low = 1, high = 0;
  for (size_t i = 0; i < size; i++) {
    low = (low + bytes[i]) % modulus;
    high = (high + low) % modulus;
  }
  return high << 16 | low;
}

/* Where element (r, c) of matrix b lies. */
static unsigned char *element(const mmc_matrix *m, int64_t b, int64_t r, int64_t c, size_t size) {
  int64_t at = m->layout == MMC_ROW_MAJOR ? r * m->ld + c : c * m->ld + r;
  return (unsigned char *)m->data + (size_t)(at + b * m->stride) * size;
}

/* A copy of m, or a batch of it, in another layout; NULL data when memory is short. */
static mmc_matrix lay_out(const mmc_matrix *m, int64_t batch, mmc_layout layout, int64_t gap,
                          size_t size) {
  int64_t line = layout == MMC_ROW_MAJOR ? m->cols : m->rows;
  int64_t lines = layout == MMC_ROW_MAJOR ? m->rows : m->cols;
  mmc_matrix out = {.rows = m->rows, .cols = m->cols, .ld = line + gap, .layout = layout};
  out.stride = out.ld * lines + gap;
  out.data = calloc((size_t)batch * (size_t)out.stride + 1, size);
  if (out.data == NULL) return out;
  for (int64_t b = 0; b < batch; b++)
    for (int64_t r = 0; r < m->rows; r++)
      for (int64_t c = 0; c < m->cols; c++)
        memcpy(element(&out, b, r, c, size), element(m, b, r, c, size), size);
  return out;
}

static mmc_status run(mmc_layout layout, int64_t gap, int ndim, const char *in, const char *out,
                      mmci_error *error) {
  mmci_file_array *npy = NULL;
  mmc_status status = mmci_npy_open(in, &npy, error);
  if (status != MMC_OK) return status;
  mmc_dtype dtype = npy->dtype;
  mmc_matrix m = npy->matrix;
  size_t size = mmc_dtype_size(dtype);
  int64_t batch = 1;
  for (int d = 0; d < npy->ndim - 2; d++) batch *= npy->shape[d];
  uint32_t sum = checksum(m.data, (size_t)batch * (size_t)m.rows * (size_t)m.cols * size);

  mmc_matrix copy = lay_out(&m, batch, layout, gap, size);
  if (copy.data == NULL)
    status = mmci_fail(error, MMC_E_NOMEM, "out of memory");
  else if (ndim > 2)
    status = npy_write_stack(out, dtype, &copy, batch, ndim, npy->shape, error);
  else
    status = npy_write(out, dtype, &copy, ndim, error);
  if (status == MMC_OK)
    printf("%s\t%d\t%" PRId64 "\t%" PRId64 "\t%s\t%" PRIu32 "\n", mmci_npy_type_of(dtype)->name,
           npy->ndim, m.rows, m.cols, m.layout == MMC_ROW_MAJOR ? "row" : "column", sum);
  free(copy.data);
  mmci_file_array_destroy(npy);
  return status;
}

int main(void) {
  char line[8192];
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    const char *fields[5];
    int count = 0;
    for (char *rest = line; rest != NULL && count < 5;) {
      fields[count++] = rest;
      rest = strchr(rest, '\t');
      if (rest != NULL) *rest++ = '\0';
    }
    if (count != 5) {
      fprintf(stderr, "npy_roundtrip: five fields expected\n");
      return 2;
    }
    mmci_error error = {.text = ""};
    mmc_layout layout = strcmp(fields[0], "row") == 0 ? MMC_ROW_MAJOR : MMC_COL_MAJOR;
    mmc_status status =
        run(layout, strtoll(fields[1], NULL, 10), atoi(fields[2]), fields[3], fields[4], &error);
    if (status != MMC_OK) printf("ERROR\t%d\t%s\n", (int)status, error.text);
    if (fflush(stdout) != 0) return 1;
  }
  return 0;
}
