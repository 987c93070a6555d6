/* matrix_market.c: .mtx files: a line that says what follows, comments, the sizes, and the elements
 * as text: all of them, column by column (array), or those that are not zero with their places
 * (coordinate). Those are sparse matrices, which may be read as dense ones too; elements are f64 or
 * c128, as text has no dtype. (R. Boisvert, R. Pozo, K. Remington, "The Matrix Market Exchange
 * Formats: Initial Design", NISTIR 5935, 1996) */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/number.h"
#include "io/format.h"

enum { WORD_SIZE = 64, WORDS = 5 };

typedef enum symmetry { GENERAL, SYMMETRIC, SKEW_SYMMETRIC, HERMITIAN } symmetry;

/* The text, from left to right. */
typedef struct reader {
  const char *at, *end;
  int64_t line;
  const char *shown;
  mmci_error *error;
} reader;

/* What the first lines say. */
typedef struct banner {
  bool coordinate, complex_numbers, pattern, integers;
  symmetry symmetry;
  int64_t rows, cols, entries;
} banner;

/* ---- words --------------------------------------------------------------------------------- */

static mmc_status fail(const reader *r, const char *what) {
  return mmci_fail(r->error, MMC_E_FORMAT, "%s: line %" PRId64 ": %s", r->shown, r->line, what);
}

/* Reads the next word; an empty one at the end of the line or of the text. */
static mmc_status word_of_line(reader *r, char word[WORD_SIZE]) {
  size_t length = 0;
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')) r->at++;
  while (r->at < r->end && strchr(" \t\r\n", *r->at) == NULL && *r->at != '\0') {
    if (length == WORD_SIZE - 1) return fail(r, "a word is too long");
    word[length++] = *r->at++;
  }
  if (r->at < r->end && *r->at == '\0') return fail(r, "text was expected");
  word[length] = '\0';
  return MMC_OK;
}

/* Goes to the next line; false at the end of the text. */
static bool next_line(reader *r) {
  const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));
  r->at = end != NULL ? end + 1 : r->end;
  r->line++;
  return r->at < r->end;
}

/* Reads the next word of this line or of those that follow. */
static mmc_status next_word(reader *r, char word[WORD_SIZE]) {
  for (;;) {
    mmc_status status = word_of_line(r, word);
    if (status != MMC_OK || word[0] != '\0') return status;
    if (!next_line(r)) return fail(r, "it ends before the last element");
  }
}

static mmc_status next_whole(reader *r, int64_t most, int64_t *out) {
  char word[WORD_SIZE], *end;
  mmc_status status = next_word(r, word);
  if (status != MMC_OK) return status;
  errno = 0;
  long long value = strtoll(word, &end, 10);
  if (*end != '\0' || errno != 0 || value < 0 || value > most)
    return fail(r, "a whole number was expected, and none that is too large");
  *out = value;
  return MMC_OK;
}

static mmc_status next_real(reader *r, double *out) {
  char word[WORD_SIZE], *end;
  mmc_status status = next_word(r, word);
  if (status != MMC_OK) return status;
  *out = mmci_number_read(word, &end);
  return *end == '\0' ? MMC_OK : fail(r, "a number was expected");
}

/* ---- the first lines ----------------------------------------------------------------------- */

static bool is(const char *word, const char *wanted) {
  return strcasecmp(word, wanted) == 0;
}

static mmc_status read_banner(reader *r, banner *out) {
  static const char *const symmetries[] = {"general", "symmetric", "skew-symmetric", "hermitian"};
  char words[WORDS][WORD_SIZE];
  for (int w = 0; w < WORDS; w++) {
    mmc_status status = word_of_line(r, words[w]);
    if (status != MMC_OK) return status;
  }
  if (!is(words[0], "%%MatrixMarket") || !is(words[1], "matrix"))
    return fail(r, "no Matrix Market file: these begin with %%MatrixMarket matrix");
  *out = (banner){.coordinate = is(words[2], "coordinate"),
                  .complex_numbers = is(words[3], "complex"),
                  .pattern = is(words[3], "pattern"),
                  .integers = is(words[3], "integer")};
  if (!out->coordinate && !is(words[2], "array"))
    return fail(r, "the format: array or coordinate was expected");
  if (!out->complex_numbers && !out->integers && !is(words[3], "real") && !is(words[3], "double") &&
      !(out->pattern && out->coordinate))
    return fail(r, "the field: real, integer, complex or, of coordinates, pattern was expected");
  int s = 0;
  while (s < 4 && !is(words[4], symmetries[s])) s++;
  if (s == 4 || (s == HERMITIAN && !out->complex_numbers))
    return fail(
        r, "general, symmetric, skew-symmetric or, of complex numbers, hermitian was expected");
  out->symmetry = (symmetry)s;
  return MMC_OK;
}

/* Reads the sizes, behind comments. */
static mmc_status read_sizes(reader *r, banner *out) {
  const int64_t most = INT64_C(1) << 62;
  do {
    if (!next_line(r)) return fail(r, "sizes were expected");
  } while (*r->at == '%');
  mmc_status status = next_whole(r, most, &out->rows);
  if (status == MMC_OK) status = next_whole(r, most, &out->cols);
  if (status == MMC_OK && out->coordinate) status = next_whole(r, most, &out->entries);
  if (status != MMC_OK) return status;
  if (out->symmetry != GENERAL && out->rows != out->cols)
    return fail(r, "a matrix that is not square cannot be symmetric");
  return MMC_OK;
}

/* ---- the elements -------------------------------------------------------------------------- */

/* The matrix while it is filled, column-major. */
typedef struct filling {
  const banner *banner;
  double *reals;
  int64_t rows;
} filling;

/* Entries of one place are added up, to the zero that is there. */
static void store_element(const filling *f, int64_t row, int64_t col, double re, double im) {
  size_t at = (size_t)(col * f->rows + row);
  double *real = f->reals + (f->banner->complex_numbers ? 2 * at : at);
  bool adds = f->banner->coordinate;
  real[0] = adds ? real[0] + re : re;
  if (f->banner->complex_numbers) real[1] = adds ? real[1] + im : im;
}

/* Stores an element and the one that follows from the symmetry. */
static void store_both(const filling *f, int64_t row, int64_t col, double re, double im) {
  store_element(f, row, col, re, im);
  if (row == col || f->banner->symmetry == GENERAL) return;
  bool skew = f->banner->symmetry == SKEW_SYMMETRIC, conjugate = f->banner->symmetry == HERMITIAN;
  store_element(f, col, row, skew ? -re : re, skew || conjugate ? -im : im);
}

static mmc_status next_value(reader *r, const banner *b, double *re, double *im) {
  *re = 1;
  *im = 0;
  mmc_status status = b->pattern ? MMC_OK : next_real(r, re);
  if (status == MMC_OK && b->complex_numbers) status = next_real(r, im);
  return status;
}

static mmc_status read_array(reader *r, const filling *f) {
  const banner *b = f->banner;
  for (int64_t col = 0; col < b->cols; col++) {
    int64_t first = b->symmetry == GENERAL ? 0 : b->symmetry == SKEW_SYMMETRIC ? col + 1 : col;
    if (b->symmetry == SKEW_SYMMETRIC) store_element(f, col, col, 0, 0);
    for (int64_t row = first; row < b->rows; row++) {
      double re, im;
      mmc_status status = next_value(r, b, &re, &im);
      if (status != MMC_OK) return status;
      store_both(f, row, col, re, im);
    }
  }
  return MMC_OK;
}

/* Reads an entry of a sparse matrix; its row and column count from 0. */
static mmc_status next_entry(reader *r, const banner *b, int64_t *row, int64_t *col, double *re,
                             double *im) {
  mmc_status status = next_whole(r, b->rows, row);
  if (status == MMC_OK) status = next_whole(r, b->cols, col);
  if (status != MMC_OK) return status;
  if (*row == 0 || *col == 0) return fail(r, "rows and columns count from 1");
  --*row;
  --*col;
  return next_value(r, b, re, im);
}

static mmc_status read_coordinates(reader *r, const filling *f) {
  for (int64_t e = 0; e < f->banner->entries; e++) {
    int64_t row, col;
    double re, im;
    const mmc_status status = next_entry(r, f->banner, &row, &col, &re, &im);
    if (status != MMC_OK) return status;
    store_both(f, row, col, re, im);
  }
  return MMC_OK;
}

/* Checks, before anything is allocated, that the text is long enough for the elements, of which
 * none takes less than two characters; and that the zeros which are not in it fit the machine. */
static mmc_status check_sizes(const reader *r, const banner *b, uint64_t size_bytes) {
  uint64_t left = (uint64_t)(r->end - r->at) + 1;
  if (b->coordinate) {
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if ((uint64_t)b->entries > left / 4) return fail(r, "it is too short for so many entries");
    if (size_bytes > memory)
      return mmci_fail(r->error, MMC_E_FORMAT,
                       "%s: a sparse matrix of %" PRId64 "x%" PRId64
                       ", which as a dense one exceeds this machine's memory",
                       r->shown, b->rows, b->cols);
    return MMC_OK;
  }
  uint64_t elements = size_bytes / (b->complex_numbers ? 16 : 8);
  uint64_t least = elements * (b->complex_numbers ? 4 : 2);
  if ((b->symmetry == GENERAL ? least : least / 4) > left)
    return fail(r, "it is too short for so many elements");
  return MMC_OK;
}

static mmc_status read_elements(reader *r, const banner *b, mmci_file_array *array) {
  size_t size;
  array->dtype = b->complex_numbers ? MMC_C128 : MMC_F64;
  array->fortran_order = true;
  array->ndim = 2;
  array->shape[0] = b->rows;
  array->shape[1] = b->cols;
  mmc_status status = mmci_file_array_measure(array, &size, r->error);
  if (status == MMC_OK) status = check_sizes(r, b, size);
  if (status == MMC_OK && size == 0 && b->entries > 0)
    status = fail(r, "a matrix without elements has no entries");
  if (status != MMC_OK || size == 0) return status;
  array->copy = calloc(size, 1); /* zeros that are not touched take no memory */
  if (array->copy == NULL) return mmci_fail_nomem(r->error, size);
  array->matrix.data = array->copy;
  filling f = {.banner = b, .reals = array->copy, .rows = b->rows};
  return b->coordinate ? read_coordinates(r, &f) : read_array(r, &f);
}

static mmc_status read_text(mmci_file_array *array, mmci_error *error) {
  mmci_source *s = &array->source;
  mmc_status status = mmci_source_fetch(s, PTRDIFF_MAX, error);
  if (status != MMC_OK) return status;
  const char *text = s->have > 0 ? (const char *)s->bytes : "";
  reader r = {text, text + s->have, 1, s->shown, error};
  banner b;
  status = read_banner(&r, &b);
  if (status == MMC_OK) status = read_sizes(&r, &b);
  if (status == MMC_OK) status = read_elements(&r, &b, array);
  mmci_source_release(s);
  return status;
}

static mmc_status open_file(const mmci_file_name *name, mmci_file_array **out, mmci_error *error) {
  mmci_file_array *array;
  mmc_status status = mmci_file_array_create(&array, error);
  if (status != MMC_OK) return status;
  status = mmci_source_open(name->path, &array->source, error);
  if (status == MMC_OK) status = read_text(array, error);
  if (status != MMC_OK) {
    mmci_file_array_destroy(array);
    return status;
  }
  *out = array;
  return MMC_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Turns elements into lines. */
typedef struct printer {
  mmc_dtype dtype;
  mmc_write_fn write;
  void *user;
} printer;

/* Prints with as many digits as tell f64 apart, so that f32 keeps its value in what is read as f64.
 */
static int print_number(char *text, size_t size, mmc_dtype dtype, const char *bytes, size_t real) {
  double wide;
  float narrow;
  if (dtype == MMC_F64 || dtype == MMC_C128) {
    memcpy(&wide, bytes + real * sizeof wide, sizeof wide);
  } else {
    memcpy(&narrow, bytes + real * sizeof narrow, sizeof narrow);
    wide = (double)narrow;
  }
  return mmci_print(text, size, "%.17g", wide);
}

static int print_elements(void *user, const char *bytes, size_t size) {
  enum { BLOCK = 1 << 14, LINE_MAX_SIZE = 64 };
  const printer *p = user;
  size_t element = mmc_dtype_size(p->dtype), used = 0;
  char block[BLOCK];
  for (size_t e = 0; e < size / element; e++) {
    const char *at = bytes + e * element;
    used += (size_t)print_number(block + used, LINE_MAX_SIZE, p->dtype, at, 0);
    if (mmci_dtype_is_complex(p->dtype)) {
      block[used++] = ' ';
      used += (size_t)print_number(block + used, LINE_MAX_SIZE, p->dtype, at, 1);
    }
    block[used++] = '\n';
    if (used < BLOCK - 2 * LINE_MAX_SIZE && e + 1 < size / element) continue;
    if (p->write(p->user, block, used) != 0) return 1;
    used = 0;
  }
  return 0;
}

static mmc_status write_file(const mmci_file_rows *rows, const char *member, mmc_write_fn write,
                             void *user, mmci_error *error) {
  (void)member;
  if (rows->dtype >= MMC_F16)
    return mmci_fail(error, MMC_E_ARG,
                     "matrix-market has no %s: f32, f64, c64, c128 can be written",
                     mmc_dtype_name(rows->dtype));
  if (rows->ndim > 2)
    return mmci_fail(error, MMC_E_ARG, "matrix-market has no stacks: a matrix can be written");
  mmci_file_rows one;
  void *memory;
  mmc_status status = mmci_file_rows_as_matrix(rows, &one, &memory, error);
  char head[128];
  bool complex_numbers = mmci_dtype_is_complex(rows->dtype);
  int length = snprintf(head, sizeof head,
                        "%%%%MatrixMarket matrix array %s general\n%" PRId64 " %" PRId64 "\n",
                        complex_numbers ? "complex" : "real", one.matrix.rows, one.matrix.cols);
  if (status == MMC_OK && write(user, head, (size_t)length) != 0) status = MMC_E_IO;
  printer p = {.dtype = rows->dtype, .write = write, .user = user};
  mmci_file_rows columns = mmci_file_rows_turned(&one);
  if (status == MMC_OK) status = mmci_file_rows_send(&columns, print_elements, &p, error);
  free(memory);
  return status;
}

/* ---- sparse matrices ------------------------------------------------------------------------- */

static mmc_status has_coordinates(const char *path, mmci_error *error) {
  enum { HEAD = 256 };
  mmci_source s;
  banner b = {0};
  mmc_status status = mmci_source_open(path, &s, error);
  if (status == MMC_OK) status = mmci_source_fetch(&s, HEAD, error);
  if (status == MMC_OK) {
    const char *text = s.have > 0 ? (const char *)s.bytes : "";
    reader r = {text, text + s.have, 1, s.shown, error};
    status = read_banner(&r, &b);
  }
  mmci_source_release(&s);
  return status != MMC_OK || b.coordinate ? status : MMC_E_ARG;
}

/* Entries as they are read: their rows, columns and values, with both of a pair that symmetry
 * makes. */
typedef struct entries {
  int64_t count;
  int32_t *rows, *cols;
  double *reals;
} entries;

static void note_entry(const banner *b, entries *e, int64_t row, int64_t col, double re,
                       double im) {
  e->rows[e->count] = (int32_t)row;
  e->cols[e->count] = (int32_t)col;
  if (b->complex_numbers) {
    e->reals[2 * e->count] = re;
    e->reals[2 * e->count + 1] = im;
  } else {
    e->reals[e->count] = re;
  }
  e->count++;
}

static mmc_status read_entries(reader *r, const banner *b, entries *e) {
  for (int64_t t = 0; t < b->entries; t++) {
    int64_t row, col;
    double re, im;
    const mmc_status status = next_entry(r, b, &row, &col, &re, &im);
    if (status != MMC_OK) return status;
    const bool skew = b->symmetry == SKEW_SYMMETRIC, conjugate = b->symmetry == HERMITIAN;
    note_entry(b, e, row, col, re, im);
    if (row != col && b->symmetry != GENERAL)
      note_entry(b, e, col, row, skew ? -re : re, skew || conjugate ? -im : im);
  }
  return MMC_OK;
}

/* Sorts entries by their rows into a matrix. */
static mmc_status sort_entries(const banner *b, const entries *e, mmci_csr *out,
                               mmci_error *error) {
  const size_t size = b->complex_numbers ? 16 : 8;
  mmci_csr a;
  mmc_status status = mmci_csr_create(b->complex_numbers ? MMC_C128 : MMC_F64, b->rows, b->cols,
                                      e->count, &a, error);
  if (status != MMC_OK) return status;
  for (int64_t t = 0; t < e->count; t++) a.indptr[e->rows[t] + 1]++;
  for (int64_t row = 0; row < b->rows; row++) a.indptr[row + 1] += a.indptr[row];
  for (int64_t t = 0; t < e->count; t++) {
    const int64_t at = a.indptr[e->rows[t]]++;
    a.indices[at] = e->cols[t];
    memcpy((char *)a.values + (size_t)at * size, (const char *)e->reals + (size_t)t * size, size);
  }
  for (int64_t row = b->rows; row > 0; row--) a.indptr[row] = a.indptr[row - 1];
  a.indptr[0] = 0;
  status = mmci_csr_settle(&a, error);
  if (status == MMC_OK)
    *out = a;
  else
    mmci_csr_release(&a);
  return status;
}

static mmc_status read_sparse(reader *r, mmci_csr *out) {
  banner b;
  mmc_status status = read_banner(r, &b);
  if (status == MMC_OK) status = read_sizes(r, &b);
  if (status != MMC_OK) return status;
  if (b.rows > MMCI_CSR_SIDE || b.cols > MMCI_CSR_SIDE)
    return fail(r, "sides of a sparse matrix are at most 2147483647");
  const uint64_t left = (uint64_t)(r->end - r->at) + 1, least = 1000000;
  if ((uint64_t)b.entries > left / 4) return fail(r, "it is too short for so many entries");
  if (b.entries > 0 && (b.rows == 0 || b.cols == 0))
    return fail(r, "a matrix without elements has no entries");
  /* A file of a few bytes must not ask for much memory. */
  if ((uint64_t)b.rows > least + 64 * left || (uint64_t)b.cols > least + 64 * left)
    return fail(r, "sides out of all proportion to its entries");
  const size_t most = (size_t)b.entries * (b.symmetry == GENERAL ? 1 : 2);
  entries e = {.rows = mmci_alloc_array(most, sizeof *e.rows),
               .cols = mmci_alloc_array(most, sizeof *e.cols),
               .reals = mmci_alloc_array(most, b.complex_numbers ? 16 : 8)};
  if (e.rows == NULL || e.cols == NULL || e.reals == NULL) {
    status = mmci_fail_nomem(r->error, most * 16);
  } else {
    status = read_entries(r, &b, &e);
    if (status == MMC_OK) status = sort_entries(&b, &e, out, r->error);
  }
  free(e.rows);
  free(e.cols);
  free(e.reals);
  return status;
}

static mmc_status open_sparse(const char *path, mmci_csr *out, mmci_error *error) {
  mmci_source s;
  mmc_status status = mmci_source_open(path, &s, error);
  if (status == MMC_OK) status = mmci_source_fetch(&s, PTRDIFF_MAX, error);
  if (status == MMC_OK) {
    const char *text = s.have > 0 ? (const char *)s.bytes : "";
    status = read_sparse(&(reader){text, text + s.have, 1, s.shown, error}, out);
  }
  mmci_source_release(&s);
  return status;
}

static mmc_status print_entries(const mmci_csr *a, mmc_write_fn write, void *user) {
  const size_t size = mmc_dtype_size(a->dtype);
  for (int64_t row = 0; row < a->rows; row++)
    for (int64_t e = a->indptr[row]; e < a->indptr[row + 1]; e++) {
      char line[128];
      const char *value = (const char *)a->values + (size_t)e * size;
      int used =
          snprintf(line, sizeof line, "%" PRId64 " %" PRId32 " ", row + 1, a->indices[e] + 1);
      for (size_t part = 0; part <= mmci_dtype_is_complex(a->dtype); part++) {
        if (part == 1) line[used++] = ' ';
        used += print_number(line + used, sizeof line - (size_t)used, a->dtype, value, part);
      }
      line[used++] = '\n';
      if (write(user, line, (size_t)used) != 0) return MMC_E_IO;
    }
  return MMC_OK;
}

static mmc_status write_sparse(const mmci_csr *a, mmc_write_fn write, void *user,
                               mmci_error *error) {
  (void)error;
  char head[160];
  int length = snprintf(
      head, sizeof head,
      "%%%%MatrixMarket matrix coordinate %s general\n%" PRId64 " %" PRId64 " %" PRId64 "\n",
      mmci_dtype_is_complex(a->dtype) ? "complex" : "real", a->rows, a->cols, mmci_csr_nonzeros(a));
  if (write(user, head, (size_t)length) != 0) return MMC_E_IO;
  return print_entries(a, write, user);
}

const mmci_format mmci_format_matrix_market = {.open = open_file,
                                               .write = write_file,
                                               .sparse_is = has_coordinates,
                                               .sparse_open = open_sparse,
                                               .sparse_write = write_sparse};
