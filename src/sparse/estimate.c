#include "sparse/estimate.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

static void factor_lines(const mmci_sparse_shape *a, double *rows, double *cols) {
  for (int64_t c = 0; c < a->cols; c++) cols[c] = a->csr == NULL ? (double)a->rows : 0;
  for (int64_t r = 0; r < a->rows; r++) {
    rows[r] =
        a->csr == NULL ? (double)a->cols : (double)(a->csr->indptr[r + 1] - a->csr->indptr[r]);
    for (int64_t e = a->csr != NULL ? a->csr->indptr[r] : 0;
         a->csr != NULL && e < a->csr->indptr[r + 1]; e++)
      cols[a->csr->indices[e]]++;
  }
}

/* More paths than this are not counted, so that no sum of them overflows. */
static const double most_paths = 1e150;

/* ---- paths ----------------------------------------------------------------------------------- */

/* Counts the paths through A and what is behind it, of which those from each of its columns are
 * known. */
static void paths_from_rows(const mmci_sparse_shape *a, const double *behind, double *out) {
  double all = 0;
  for (int64_t k = 0; a->csr == NULL && k < a->cols; k++) all += behind[k];
  for (int64_t r = 0; r < a->rows; r++) {
    double sum = all;
    for (int64_t e = a->csr != NULL ? a->csr->indptr[r] : 0;
         a->csr != NULL && e < a->csr->indptr[r + 1]; e++)
      sum += behind[a->csr->indices[e]];
    out[r] = fmin(sum, most_paths);
  }
}

/* Counts the paths that end in the columns of A, of which those to each of its rows are known. */
static void paths_to_columns(const mmci_sparse_shape *a, const double *before, double *out) {
  double all = 0;
  for (int64_t k = 0; a->csr == NULL && k < a->rows; k++) all += before[k];
  for (int64_t c = 0; c < a->cols; c++) out[c] = all;
  for (int64_t k = 0; a->csr != NULL && k < a->rows; k++)
    for (int64_t e = a->csr->indptr[k]; e < a->csr->indptr[k + 1]; e++)
      out[a->csr->indices[e]] += before[k];
  for (int64_t c = 0; c < a->cols; c++) out[c] = fmin(out[c], most_paths);
}

/* ---- nonzeros of many paths ------------------------------------------------------------------ */

/* Numbers of paths are sorted into two bins an octave by the leading bits of a double, from which
 * the least is that of one path. */
enum { BIN_SHIFT = 51, BINS = 512 };

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static double double_of(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static int64_t bin_of(double paths) {
  const int64_t bin = (int64_t)(bits_of(paths) >> BIN_SHIFT) - (int64_t)(bits_of(1) >> BIN_SHIFT);
  return bin < 0 ? 0 : bin < BINS - 1 ? bin : BINS - 1;
}

/* Lines, of which the paths fall into bins. */
typedef struct histogram {
  double count[BINS], paths[BINS], total;
  int64_t most; /* the last bin that is not empty */
} histogram;

static void sort_paths(const double *paths, int64_t lines, histogram *out) {
  memset(out, 0, sizeof *out);
  for (int64_t i = 0; i < lines; i++) {
    if (!(paths[i] > 0)) continue;
    const int64_t b = bin_of(paths[i]);
    out->count[b]++;
    out->paths[b] += paths[i];
    out->total += paths[i];
    if (b > out->most) out->most = b;
  }
}

/* Returns how many lines so many paths reach. */
static double lines_reached(const histogram *ends, double paths) {
  double sum = 0;
  for (int64_t b = 0; b <= ends->most; b++)
    if (ends->count[b] > 0)
      sum -= ends->count[b] * expm1(-paths / ends->total * (ends->paths[b] / ends->count[b]));
  return sum;
}

/* Replaces numbers of paths by those of the lines that they reach, interpolated within bins. */
static void paths_to_nonzeros(const histogram *ends, int64_t lines, double *paths) {
  double reached[BINS + 1];
  for (int b = 0; b <= BINS; b++) reached[b] = -1;
  for (int64_t i = 0; i < lines; i++) {
    if (!(paths[i] > 0)) continue;
    const int64_t b = bin_of(paths[i]);
    const uint64_t low = (uint64_t)(b + (int64_t)(bits_of(1) >> BIN_SHIFT)) << BIN_SHIFT,
                   width = UINT64_C(1) << BIN_SHIFT;
    const double from = double_of(low), to = double_of(low + width);
    for (int64_t edge = b; edge <= b + 1; edge++)
      if (reached[edge] < 0) reached[edge] = lines_reached(ends, edge == b ? from : to);
    const double share = fmin((paths[i] - from) / (to - from), 1);
    paths[i] = reached[b] + share * (reached[b + 1] - reached[b]);
  }
}

/* ---- all sub-chains -------------------------------------------------------------------------- */

static mmc_status allocate(int32_t n, const mmci_sparse_shape *factors, mmci_sparse_estimate *out,
                           mmci_error *error) {
  const size_t pairs = (size_t)n * (size_t)n;
  size_t numbers = 0;
  for (int32_t i = 0; i < n; i++) {
    numbers +=
        (size_t)factors[i].rows * (size_t)(n - i) + (size_t)factors[i].cols * (size_t)(i + 1);
  }
  *out = (mmci_sparse_estimate){.n = n};
  out->rows = mmci_alloc_zeroed(2 * pairs, sizeof *out->rows);
  out->memory = mmci_alloc_array(numbers, sizeof *out->memory);
  if (out->rows == NULL || out->memory == NULL) {
    mmci_sparse_estimate_destroy(out);
    return mmci_fail_nomem(error, numbers * sizeof *out->memory);
  }
  out->cols = out->rows + pairs;
  double *at = out->memory;
  for (int32_t i = 0; i < n; i++)
    for (int32_t j = i; j < n; j++) {
      out->rows[i * n + j] = at;
      at += factors[i].rows;
      out->cols[i * n + j] = at;
      at += factors[j].cols;
    }
  return MMC_OK;
}

mmc_status mmci_sparse_estimate_create(int32_t n, const mmci_sparse_shape *factors,
                                       mmci_sparse_estimate *out, mmci_error *error) {
  mmc_status status = allocate(n, factors, out, error);
  if (status != MMC_OK) return status;
  histogram starts, ends;
  for (int32_t i = 0; i < n; i++)
    factor_lines(&factors[i], out->rows[i * n + i], out->cols[i * n + i]);
  for (int32_t length = 2; length <= n; length++)
    for (int32_t i = 0, j = length - 1; j < n; i++, j++) {
      paths_from_rows(&factors[i], out->rows[(i + 1) * n + j], out->rows[i * n + j]);
      paths_to_columns(&factors[j], out->cols[i * n + j - 1], out->cols[i * n + j]);
    }
  for (int32_t i = 0; i < n; i++)
    for (int32_t j = i + 1; j < n; j++) {
      sort_paths(out->rows[i * n + j], factors[i].rows, &starts);
      sort_paths(out->cols[i * n + j], factors[j].cols, &ends);
      paths_to_nonzeros(&ends, factors[i].rows, out->rows[i * n + j]);
      paths_to_nonzeros(&starts, factors[j].cols, out->cols[i * n + j]);
    }
  return MMC_OK;
}

void mmci_sparse_estimate_destroy(mmci_sparse_estimate *estimate) {
  free(estimate->memory);
  free(estimate->rows);
  *estimate = (mmci_sparse_estimate){0};
}

double mmci_sparse_nonzeros(const mmci_sparse_estimate *x, const mmci_sparse_shape *factors,
                            int32_t i, int32_t j) {
  const double *rows = x->rows[i * x->n + j];
  double sum = 0;
  for (int64_t r = 0; r < factors[i].rows; r++) sum += rows[r];
  return sum;
}

double mmci_sparse_count(const mmci_sparse_estimate *x, const mmci_sparse_shape *factors, int32_t i,
                         int32_t k, int32_t j) {
  const double *left = x->cols[i * x->n + k], *right = x->rows[(k + 1) * x->n + j];
  double sum = 0;
  for (int64_t c = 0; c < factors[k].cols; c++) sum += left[c] * right[c];
  return sum;
}
