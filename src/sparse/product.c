#include "sparse/product.h"

#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/interrupt.h"
#include "sparse/share.h"

enum { DENSE_PIECE = 1024, ROWS_AT_ONCE = 4, FEW = 256, EIGHT = 8, MOST_BY_EIGHT = 64 };

/* What a thread gathers a row in; all of it is 0 between two rows. */
typedef struct gathering {
  void *row;          /* an element for every column */
  uint64_t *bits;     /* a bit for every column that was met */
  uint64_t *words;    /* a bit for every word of bits that is not 0 */
  int64_t word_count; /* words of the second level */
} gathering;

/* A product with a dense result, with the operands that it has. */
typedef struct dense_product {
  const mmci_csr *a, *b;
  const void *left, *right;
  int64_t lda, ldb;
  void *c;
  int64_t n, ldc; /* columns of c */
} dense_product;

typedef void (*rows_fn)(const dense_product *p, int64_t first, int64_t last);

typedef struct loops {
  /* Row r of A B, of so many multiplications; returns its nonzeros. */
  int64_t (*sparse_row)(const mmci_csr *a, const mmci_csr *b, int64_t r, int64_t most, gathering *g,
                        int32_t *indices, void *values);
  rows_fn dense_rows, sparse_dense_rows, dense_sparse_rows;
} loops;

static int order_of(const void *x, const void *y) {
  const int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
  return (a > b) - (a < b);
}

static void sort_columns(int32_t *columns, int64_t count) {
  const int64_t short_list = 48;
  if (count > short_list) {
    qsort(columns, (size_t)count, sizeof *columns, order_of);
    return;
  }
  for (int64_t i = 1; i < count; i++) {
    const int32_t c = columns[i];
    int64_t at = i;
    for (; at > 0 && columns[at - 1] > c; at--) columns[at] = columns[at - 1];
    columns[at] = c;
  }
}

/* ---- loops for every dtype ------------------------------------------------------------------- */

typedef struct complex_float {
  float re, im;
} complex_float;
typedef struct complex_double {
  double re, im;
} complex_double;

#define ADD_REAL(c, a, b) ((c) += (a) * (b))
#define ADD_COMPLEX(c, a, b)                     \
  do {                                           \
    (c).re += (a).re * (b).re - (a).im * (b).im; \
    (c).im += (a).re * (b).im + (a).im * (b).re; \
  } while (0)

#define ELEMENT float
#define NAME(x) x##_f32
#define ADD ADD_REAL
#include "sparse/product_body.h"

#define ELEMENT double
#define NAME(x) x##_f64
#define ADD ADD_REAL
#include "sparse/product_body.h"

#define ELEMENT complex_float
#define NAME(x) x##_c64
#define ADD ADD_COMPLEX
#include "sparse/product_body.h"

#define ELEMENT complex_double
#define NAME(x) x##_c128
#define ADD ADD_COMPLEX
#include "sparse/product_body.h"

static const loops *loops_of(mmc_dtype dtype) {
  if (dtype == MMC_F32) return &loops_f32;
  if (dtype == MMC_F64) return &loops_f64;
  return dtype == MMC_C64 ? &loops_c64 : &loops_c128;
}

/* ---- pieces of rows -------------------------------------------------------------------------- */

static int64_t multiplications_of_row(const mmci_csr *a, const mmci_csr *b, int64_t r) {
  int64_t count = 0;
  for (int64_t e = a->indptr[r]; e < a->indptr[r + 1]; e++)
    count += b->indptr[a->indices[e] + 1] - b->indptr[a->indices[e]];
  return count;
}

/* Pieces of consecutive rows with about as many multiplications each. */
enum { PIECES = 256 };

/* Says whether a product is cut into pieces: for several threads, and where the work is so long
 * that it should ask in between whether to go on. */
static bool is_cut(int threads, double multiplications) {
  return threads > 1 || (multiplications > 5e7 && mmci_interrupt_asks());
}

typedef struct cut {
  int64_t count, first[PIECES + 1];
} cut;

/* Cuts rows; weight is that of the rows before a row, for rows + 1 of them. */
static void cut_rows(int64_t rows, int64_t most, const int64_t *before, cut *out) {
  const int64_t total = before[rows] + rows;
  out->count = 0;
  out->first[0] = 0;
  for (int64_t r = 1; r <= rows && out->count < most; r++) {
    const int64_t weight = before[r] + r;
    if (r < rows && (double)weight < (double)total * (double)(out->count + 1) / (double)most)
      continue;
    out->first[++out->count] = r;
  }
  if (out->count > 0) out->first[out->count] = rows;
}

/* ---- a sparse result ------------------------------------------------------------------------- */

/* The rows of a piece, one after the other. */
typedef struct piece {
  int32_t *indices;
  char *values;
  int64_t count, capacity;
  bool failed;
} piece;

typedef struct sparse_product {
  const mmci_csr *a, *b;
  const loops *loops;
  size_t size;
  cut cut;
  int64_t *before;  /* rows + 1: multiplications of the rows before */
  int64_t *lengths; /* a->rows: the nonzeros of a row */
  gathering gatherings[MMCI_SPARSE_THREADS];
  piece pieces[PIECES];
  mmci_csr *out;
} sparse_product;

static bool make_room(sparse_product *x, piece *p, int64_t more) {
  if (p->capacity - p->count >= more) return true;
  int64_t capacity = p->count + p->count / 2 + more;
  int32_t *indices = realloc(p->indices, (size_t)capacity * sizeof *indices);
  if (indices == NULL) return false;
  p->indices = indices;
  char *values = realloc(p->values, (size_t)capacity * x->size);
  if (values == NULL) return false;
  p->values = values;
  p->capacity = capacity;
  return true;
}

static bool prepare_gathering(const sparse_product *x, gathering *g) {
  if (g->row != NULL) return true;
  const size_t cols = (size_t)x->b->cols, words = cols / 64 + 1, tops = words / 64 + 1;
  *g = (gathering){.word_count = (int64_t)tops};
  g->row = mmci_alloc_zeroed(cols, x->size);
  g->bits = mmci_alloc_zeroed(words, sizeof *g->bits);
  g->words = mmci_alloc_zeroed(tops, sizeof *g->words);
  return g->row != NULL && g->bits != NULL && g->words != NULL;
}

static void multiply_piece(void *user, int worker, int64_t number) {
  sparse_product *x = user;
  piece *p = &x->pieces[number];
  gathering *g = &x->gatherings[worker];
  if (!prepare_gathering(x, g)) {
    p->failed = true;
    return;
  }
  for (int64_t r = x->cut.first[number]; r < x->cut.first[number + 1]; r++) {
    const int64_t most = x->before[r + 1] - x->before[r];
    const int64_t room = most < x->b->cols ? most : x->b->cols;
    if (!make_room(x, p, room)) {
      p->failed = true;
      return;
    }
    if (room == 0) continue;
    x->lengths[r] = x->loops->sparse_row(x->a, x->b, r, most, g, p->indices + p->count,
                                         p->values + (size_t)p->count * x->size);
    p->count += x->lengths[r];
  }
}

/* Copies a piece to where it lies in the result. */
static void place_piece(void *user, int worker, int64_t number) {
  sparse_product *x = user;
  const piece *p = &x->pieces[number];
  const int64_t at = x->out->indptr[x->cut.first[number]];
  (void)worker;
  if (p->count == 0) return;
  memcpy(x->out->indices + at, p->indices, (size_t)p->count * sizeof *p->indices);
  memcpy((char *)x->out->values + (size_t)at * x->size, p->values, (size_t)p->count * x->size);
}

static mmc_status collect(sparse_product *x, int threads, mmci_csr *out, mmci_error *error) {
  int64_t total = 0;
  for (int64_t i = 0; i < x->cut.count; i++) {
    if (x->pieces[i].failed)
      return mmci_fail(error, MMC_E_NOMEM, "out of memory for a sparse product");
    total += x->pieces[i].count;
  }
  mmc_status status = mmci_csr_create(x->a->dtype, x->a->rows, x->b->cols, total, out, error);
  if (status != MMC_OK) return status;
  for (int64_t r = 0; r < x->a->rows; r++) out->indptr[r + 1] = out->indptr[r] + x->lengths[r];
  x->out = out;
  mmci_sparse_share(threads, x->cut.count, place_piece, x);
  return MMC_OK;
}

mmc_status mmci_csr_multiply(const mmci_csr *a, const mmci_csr *b, mmci_csr *out,
                             mmci_error *error) {
  const size_t rows = (size_t)a->rows;
  sparse_product *x = mmci_alloc_zeroed(1, sizeof *x);
  int64_t *numbers = mmci_alloc_zeroed(2 * rows + 1, sizeof *numbers);
  if (x == NULL || numbers == NULL) {
    free(x);
    free(numbers);
    return mmci_fail_nomem(error, sizeof *x + (2 * rows + 1) * sizeof *numbers);
  }
  x->a = a;
  x->b = b;
  x->loops = loops_of(a->dtype);
  x->size = mmc_dtype_size(a->dtype);
  x->before = numbers;
  x->lengths = numbers + rows + 1;
  for (int64_t r = 0; r < a->rows; r++)
    x->before[r + 1] = x->before[r] + multiplications_of_row(a, b, r);
  const int threads = mmci_sparse_threads((double)x->before[rows]);
  cut_rows(a->rows, is_cut(threads, (double)x->before[rows]) ? PIECES : 1, x->before, &x->cut);
  mmci_sparse_share(threads, x->cut.count, multiply_piece, x);
  mmc_status status = mmci_interrupted()
                          ? mmci_fail(error, MMC_E_INTERRUPTED, "stopped within a product")
                          : collect(x, threads, out, error);
  for (int i = 0; i < MMCI_SPARSE_THREADS; i++) {
    free(x->gatherings[i].row);
    free(x->gatherings[i].bits);
    free(x->gatherings[i].words);
  }
  for (int i = 0; i < PIECES; i++) {
    free(x->pieces[i].indices);
    free(x->pieces[i].values);
  }
  free(numbers);
  free(x);
  return status;
}

/* ---- a dense result -------------------------------------------------------------------------- */

typedef struct dense_work {
  const dense_product *product;
  rows_fn rows;
  int64_t count, at_once; /* rows of the result, and of a piece */
} dense_work;

static void do_rows(void *user, int worker, int64_t piece) {
  const dense_work *x = user;
  const int64_t first = piece * x->at_once, end = first + x->at_once;
  (void)worker;
  x->rows(x->product, first, end < x->count ? end : x->count);
}

static void share_rows(const dense_product *p, rows_fn rows, int64_t count, double work) {
  const int threads = mmci_sparse_threads(work);
  int64_t at_once = is_cut(threads, work) ? count / PIECES / ROWS_AT_ONCE * ROWS_AT_ONCE : count;
  if (at_once < ROWS_AT_ONCE) at_once = ROWS_AT_ONCE;
  dense_work x = {.product = p, .rows = rows, .count = count, .at_once = at_once};
  mmci_sparse_share(threads, (count + at_once - 1) / at_once, do_rows, &x);
}

void mmci_csr_multiply_to_dense(const mmci_csr *a, const mmci_csr *b, void *c, int64_t ldc) {
  const dense_product p = {.a = a, .b = b, .c = c, .n = b->cols, .ldc = ldc};
  double work = (double)a->rows * (double)b->cols;
  for (int64_t r = 0; r < a->rows; r++) work += (double)multiplications_of_row(a, b, r);
  share_rows(&p, loops_of(a->dtype)->dense_rows, a->rows, work);
}

void mmci_csr_multiply_dense(const mmci_csr *a, const void *b, int64_t n, int64_t ldb, void *c,
                             int64_t ldc) {
  const dense_product p = {.a = a, .right = b, .ldb = ldb, .c = c, .n = n, .ldc = ldc};
  share_rows(&p, loops_of(a->dtype)->sparse_dense_rows, a->rows,
             (double)mmci_csr_nonzeros(a) * (double)n);
}

void mmci_dense_multiply_csr(int64_t m, const void *a, int64_t lda, const mmci_csr *b, void *c,
                             int64_t ldc) {
  const dense_product p = {.b = b, .left = a, .lda = lda, .c = c, .n = b->cols, .ldc = ldc};
  share_rows(&p, loops_of(b->dtype)->dense_sparse_rows, m,
             (double)mmci_csr_nonzeros(b) * (double)m);
}
