#include "io/file_rows.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

/* Rows of a column-major matrix are gathered in a buffer of so many bytes, several from each
 * column. */
enum { BUFFER_BYTES = 1 << 20 };

/* Checks type and matrix. */
static mmc_status check_matrix(mmc_dtype dtype, const mmc_matrix *matrix, int64_t batch,
                               mmci_file_rows *out, mmci_error *error) {
  size_t element_size = mmc_dtype_size(dtype);
  if (element_size == 0) return mmci_fail(error, MMC_E_ARG, "%d is no dtype", (int)dtype);
  if (matrix == NULL) return mmci_fail(error, MMC_E_ARG, "no matrix");
  mmc_matrix m = *matrix;
  if (m.layout != MMC_ROW_MAJOR && m.layout != MMC_COL_MAJOR)
    return mmci_fail(error, MMC_E_ARG, "%d is no layout", (int)m.layout);
  if (m.rows < 0 || m.cols < 0)
    return mmci_fail(error, MMC_E_ARG, "a matrix of %" PRId64 "x%" PRId64, m.rows, m.cols);

  int64_t line = m.layout == MMC_ROW_MAJOR ? m.cols : m.rows;
  int64_t lines = m.layout == MMC_ROW_MAJOR ? m.rows : m.cols;
  if (m.ld == 0) m.ld = line;
  if (m.ld < line)
    return mmci_fail(error, MMC_E_ARG, "leading dimension %" PRId64 " below %" PRId64, m.ld, line);
  bool empty = line == 0 || lines == 0;
  bool has_data = m.data != NULL || m.addresses != NULL;
  for (int64_t i = 0; m.addresses != NULL && !empty && i < batch && has_data; i++)
    has_data = m.addresses[i] != NULL;
  if (!has_data && !empty && batch > 0) return mmci_fail(error, MMC_E_ARG, "a matrix without data");
  if (m.location != MMC_HOST)
    return mmci_fail(error, MMC_E_ARG, "location: expected MMC_HOST, got number %d",
                     (int)m.location);
  size_t size;
  if (!empty && (__builtin_mul_overflow(m.ld, lines - 1, &size) ||
                 __builtin_add_overflow(size, line, &size) ||
                 __builtin_mul_overflow(size, element_size, &size) || size > PTRDIFF_MAX))
    return mmci_fail(error, MMC_E_ARG,
                     "a matrix of %" PRId64 "x%" PRId64 " exceeds the address space", m.rows,
                     m.cols);

  *out =
      (mmci_file_rows){.dtype = dtype, .element_size = element_size, .matrix = m, .batch = batch};
  return MMC_OK;
}

mmc_status mmci_file_rows_of_matrix(mmc_dtype dtype, const mmc_matrix *matrix, int ndim,
                                    mmci_file_rows *out, mmci_error *error) {
  mmc_status status = check_matrix(dtype, matrix, 1, out, error);
  if (status != MMC_OK) return status;
  const mmc_matrix *m = &out->matrix;
  if (ndim < 0 || ndim > 2)
    return mmci_fail(error, MMC_E_ARG, "ndim: expected 0, 1 or 2, got %d", ndim);
  if (ndim == 1 && m->rows != 1 && m->cols != 1)
    return mmci_fail(error, MMC_E_ARG, "ndim: a matrix of %" PRId64 "x%" PRId64 " is no vector",
                     m->rows, m->cols);
  if (ndim == 0 && (m->rows != 1 || m->cols != 1))
    return mmci_fail(error, MMC_E_ARG, "ndim: a matrix of %" PRId64 "x%" PRId64 " is no scalar",
                     m->rows, m->cols);
  out->ndim = ndim;
  /* A vector has one dimension that is 1, so their product is the other. */
  out->shape[0] = ndim == 1 && m->rows == 1 ? m->cols : m->rows;
  out->shape[1] = m->cols;
  return MMC_OK;
}

/* Returns the product of count numbers; a negative number when one of them is negative or the
 * product is too large. */
static int64_t product_of_numbers(int count, const int64_t *numbers) {
  int64_t product = 1;
  bool fits = true;
  for (int i = 0; i < count; i++) {
    if (numbers[i] <= 0) return numbers[i];
    fits = fits && !__builtin_mul_overflow(product, numbers[i], &product);
  }
  return fits ? product : -1;
}

mmc_status mmci_file_rows_of_stack(mmc_dtype dtype, const mmc_matrix *matrix, int64_t batch,
                                   int ndim, const int64_t *shape, mmci_file_rows *out,
                                   mmci_error *error) {
  if (batch < 0) return mmci_fail(error, MMC_E_ARG, "a batch of %" PRId64, batch);
  mmc_status status = check_matrix(dtype, matrix, batch, out, error);
  if (status != MMC_OK) return status;
  if (ndim < 0 || ndim > MMCI_NDIM_MAX)
    return mmci_fail(error, MMC_E_ARG, "%d dimensions: 0 to %d can be written", ndim,
                     MMCI_NDIM_MAX);
  const int64_t elements[] = {batch, matrix->rows, matrix->cols};
  int64_t wanted = product_of_numbers(3, elements), got = product_of_numbers(ndim, shape);
  if (wanted < 0 || got != wanted)
    return mmci_fail(error, MMC_E_ARG,
                     "shape: expected the elements of %" PRId64 " matrices of %" PRId64 "x%" PRId64,
                     batch, matrix->rows, matrix->cols);
  out->ndim = ndim;
  for (int d = 0; d < ndim; d++) out->shape[d] = shape[d];
  return MMC_OK;
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* The part of a matrix that the buffer takes; rows and columns are counted from first_row and
 * first_column. */
typedef struct block {
  size_t first_row, rows, first_col, cols;
} block;

static size_t smaller_size(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Gathers a block of a column-major matrix as rows, in tiles, so that the cache lines that a tile
 * reads and writes are used up before they go. It is inlined for each size, so that an element is
 * one load and one store. */
static inline void transpose(const mmc_matrix *m, block b, unsigned char *to, size_t size) {
  enum { TILE_ROWS = 8, TILE_COLS = 16 };
  const unsigned char *data = m->data;
  for (size_t c0 = 0; c0 < b.cols; c0 += TILE_COLS)
    for (size_t r0 = 0; r0 < b.rows; r0 += TILE_ROWS) {
      size_t c1 = smaller_size(c0 + TILE_COLS, b.cols), r1 = smaller_size(r0 + TILE_ROWS, b.rows);
      for (size_t c = c0; c < c1; c++) {
        const unsigned char *from = data + ((b.first_col + c) * (size_t)m->ld + b.first_row) * size;
        for (size_t r = r0; r < r1; r++)
          memcpy(to + (r * b.cols + c) * size, from + r * size, size);
      }
    }
}

static void gather(const mmci_file_rows *a, block b, unsigned char *to) {
  const mmc_matrix *m = &a->matrix;
  size_t size = a->element_size;
  if (m->layout == MMC_ROW_MAJOR) {
    const unsigned char *data = m->data;
    for (size_t r = 0; r < b.rows; r++)
      memcpy(to + r * b.cols * size,
             data + ((b.first_row + r) * (size_t)m->ld + b.first_col) * size, b.cols * size);
    return;
  }
  if (size == 1)
    transpose(m, b, to, 1);
  else if (size == 2)
    transpose(m, b, to, 2);
  else if (size == 4)
    transpose(m, b, to, 4);
  else if (size == 8)
    transpose(m, b, to, 8);
  else
    transpose(m, b, to, 16);
}

/* Sends as many whole rows at a time as the buffer takes; of a longer row, a part. */
static mmc_status send_blocks(const mmci_file_rows *a, mmc_write_fn write, void *user,
                              unsigned char *buffer) {
  size_t size = a->element_size, rows = (size_t)a->matrix.rows, cols = (size_t)a->matrix.cols;
  size_t block_cols = smaller_size(cols, BUFFER_BYTES / size);
  size_t block_rows = block_cols < cols ? 1 : BUFFER_BYTES / (cols * size);
  for (size_t r = 0; r < rows; r += block_rows)
    for (size_t c = 0; c < cols; c += block_cols) {
      block b = {r, smaller_size(rows - r, block_rows), c, smaller_size(cols - c, block_cols)};
      gather(a, b, buffer);
      if (write(user, (const char *)buffer, b.rows * b.cols * size) != 0) return MMC_E_IO;
    }
  return MMC_OK;
}

/* Sends a matrix of the batch; the buffer is allocated when it is first needed. */
static mmc_status send_matrix(const mmci_file_rows *a, mmc_write_fn write, void *user,
                              unsigned char **buffer, mmci_error *error) {
  const mmc_matrix *m = &a->matrix;
  bool by_rows = m->layout == MMC_ROW_MAJOR;
  int64_t line = by_rows ? m->cols : m->rows, lines = by_rows ? m->rows : m->cols;
  /* These lie in one piece: rows without gaps, and a single row or column without gaps. */
  bool one_piece =
      by_rows ? lines == 1 || m->ld == line : (lines == 1 || (line == 1 && m->ld == 1));
  if (one_piece)
    return write(user, m->data, (size_t)line * (size_t)lines * a->element_size) != 0 ? MMC_E_IO
                                                                                     : MMC_OK;
  if (*buffer == NULL) *buffer = mmci_alloc_array(BUFFER_BYTES, 1);
  if (*buffer == NULL) return mmci_fail_nomem(error, BUFFER_BYTES);
  return send_blocks(a, write, user, *buffer);
}

/* Says whether all matrices lie row by row, one behind the other: then they are one matrix of as
 * many rows. */
static bool is_one(const mmci_file_rows *a) {
  const mmc_matrix *m = &a->matrix;
  return m->layout == MMC_ROW_MAJOR && m->addresses == NULL && (m->ld == m->cols || m->rows == 1) &&
         m->stride == m->rows * m->cols;
}

mmc_status mmci_file_rows_send(const mmci_file_rows *a, mmc_write_fn write, void *user,
                               mmci_error *error) {
  if (a->matrix.rows == 0 || a->matrix.cols == 0) return MMC_OK;
  unsigned char *buffer = NULL;
  mmc_status status = MMC_OK;
  mmci_file_rows one = *a;
  bool at_once = is_one(a) && a->batch > 1;
  if (at_once) one.matrix.rows *= a->batch;
  if (at_once) one.matrix.ld = one.matrix.cols;
  for (int64_t i = 0; i < (at_once ? 1 : a->batch) && status == MMC_OK; i++) {
    one.matrix.data =
        a->matrix.addresses != NULL
            ? a->matrix.addresses[i]
            : (char *)a->matrix.data + i * a->matrix.stride * (int64_t)a->element_size;
    status = send_matrix(&one, write, user, &buffer, error);
  }
  free(buffer);
  return status;
}

uint64_t mmci_file_rows_bytes(const mmci_file_rows *a) {
  return (uint64_t)a->batch * (uint64_t)a->matrix.rows * (uint64_t)a->matrix.cols * a->element_size;
}

static int append(void *user, const char *bytes, size_t size) {
  char **end = user;
  memcpy(*end, bytes, size);
  *end += size;
  return 0;
}

mmc_status mmci_file_rows_as_matrix(const mmci_file_rows *a, mmci_file_rows *out, void **memory,
                                    mmci_error *error) {
  const mmc_matrix *m = &a->matrix;
  const int64_t rows = a->ndim > 0 ? a->shape[0] : 1, cols = a->ndim > 1 ? a->shape[1] : 1;
  *out = *a;
  *memory = NULL;
  if (a->batch == 1 && (a->ndim < 2 || (m->rows == rows && m->cols == cols))) return MMC_OK;
  const size_t size = (size_t)mmci_file_rows_bytes(a);
  out->matrix = (mmc_matrix){.rows = rows, .cols = cols, .ld = cols};
  out->batch = 1;
  if (size == 0) return MMC_OK;
  char *end = mmci_alloc_array(size, 1);
  if (end == NULL) return mmci_fail_nomem(error, size);
  out->matrix.data = *memory = end;
  return mmci_file_rows_send(a, append, &end, error);
}

mmci_file_rows mmci_file_rows_turned(const mmci_file_rows *a) {
  mmci_file_rows turned = *a;
  mmc_matrix *m = &turned.matrix;
  m->rows = a->matrix.cols;
  m->cols = a->matrix.rows;
  m->layout = a->matrix.layout == MMC_ROW_MAJOR ? MMC_COL_MAJOR : MMC_ROW_MAJOR;
  return turned;
}
