#include "sparse/estimate.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "sparse/share.h"

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
    out[r] = sum < most_paths ? sum : most_paths;
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
  for (int64_t c = 0; c < a->cols; c++) out[c] = out[c] < most_paths ? out[c] : most_paths;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* A sample is of pieces of at most 64 lines, a bit each, that stand for as many; so many pieces are
 * passed through the factors at once. */
enum { PIECE = 64, AT_ONCE = 4, PIECES = 32 };
#define LOOP __attribute__((always_inline))
typedef struct lanes {
  uint64_t piece[AT_ONCE];
} lanes;

typedef struct sample {
  int pieces; /* a multiple of AT_ONCE */
  int32_t lines[PIECES][PIECE];
  int count[PIECES]; /* of the lines of a piece */
  double weight[PIECES];
} sample;

/* Weights of lines, at most 1, are sorted into four bins an octave by the leading bits of a double.
 */
enum { BIN_SHIFT = 50, BINS = 512 };

static int bin_of(double weight) {
  const double one = 1;
  uint64_t bits, most;
  memcpy(&bits, &weight, sizeof bits);
  memcpy(&most, &one, sizeof most);
  const int64_t bin = (int64_t)(most >> BIN_SHIFT) - (int64_t)(bits >> BIN_SHIFT);
  return bin < 0 ? 0 : bin < BINS - 1 ? (int)bin : BINS - 1;
}

/* Writes the lines that have a weight, the heaviest bins first; returns how many they are. */
static int64_t sort_lines(const double *weights, int64_t lines, int64_t *out) {
  int64_t begin[BINS + 1] = {0};
  for (int64_t i = 0; i < lines; i++)
    if (weights[i] > 0) begin[bin_of(weights[i]) + 1]++;
  for (int b = 0; b < BINS; b++) begin[b + 1] += begin[b];
  for (int64_t i = 0; i < lines; i++)
    if (weights[i] > 0) out[begin[bin_of(weights[i])]++] = i;
  return begin[BINS - 1];
}

/* Draws a sample: the lines, the heaviest first, are cut into pieces of the same weight, of each of
 * which every so manieth is taken; heavy lines so are all taken, each for itself. */
static void draw_sample(const double *weights, const int64_t *sorted, int64_t count,
                        uint64_t *random, sample *out) {
  double left = 0;
  int64_t at = 0;
  for (int64_t i = 0; i < count; i++) left += weights[sorted[i]];
  for (int p = 0; p < out->pieces; p++) {
    const double part = left / (out->pieces - p);
    const int64_t begin = at;
    const bool all = count - begin <= (int64_t)PIECE * (out->pieces - p); /* may be taken */
    const bool last = p == out->pieces - 1;
    double taken = 0;
    while (at < count && (at - begin < PIECE || (!all && (taken < part || last))))
      taken += weights[sorted[at++]];
    left -= taken;
    const int64_t lines = at - begin;
    const int drawn = lines < PIECE ? (int)lines : PIECE;
    const double offset = (double)(mmci_random_bits(random) >> 11) * 0x1p-53;
    out->count[p] = drawn;
    out->weight[p] = drawn > 0 ? (double)lines / drawn : 0;
    for (int s = 0; s < drawn; s++)
      out->lines[p][s] = (int32_t)sorted[begin + (int64_t)((s + offset) * out->weight[p])];
  }
}

static void begin_backward(const sample *from, int first, int64_t lines, lanes *out) {
  memset(out, 0, (size_t)lines * sizeof *out);
  for (int p = 0; p < AT_ONCE; p++)
    for (int s = 0; s < from->count[first + p]; s++)
      out[from->lines[first + p][s]].piece[p] |= UINT64_C(1) << s;
}

/* Finds out which of a sample of rows of A reach its columns. */
static void begin_forward(const mmci_sparse_shape *a, const sample *from, int first, lanes *out) {
  lanes all = {{0}};
  for (int p = 0; a->csr == NULL && p < AT_ONCE; p++)
    for (int s = 0; s < from->count[first + p]; s++) all.piece[p] |= UINT64_C(1) << s;
  for (int64_t c = 0; c < a->cols; c++) out[c] = all;
  for (int p = 0; a->csr != NULL && p < AT_ONCE; p++)
    for (int s = 0; s < from->count[first + p]; s++) {
      const int64_t r = from->lines[first + p][s];
      for (int64_t e = a->csr->indptr[r]; e < a->csr->indptr[r + 1]; e++)
        out[a->csr->indices[e]].piece[p] |= UINT64_C(1) << s;
    }
}

static inline LOOP void meet(lanes *to, const lanes *from) {
  for (int p = 0; p < AT_ONCE; p++) to->piece[p] |= from->piece[p];
}

/* Finds out which of a sample of rows reach the columns of A, from those that reach its rows. */
static inline LOOP void forward(const mmci_sparse_shape *a, const lanes *in, lanes *out) {
  lanes all = {{0}};
  for (int64_t r = 0; a->csr == NULL && r < a->rows; r++) meet(&all, &in[r]);
  for (int64_t c = 0; c < a->cols; c++) out[c] = all;
  for (int64_t r = 0; a->csr != NULL && r < a->rows; r++)
    for (int64_t e = a->csr->indptr[r]; e < a->csr->indptr[r + 1]; e++)
      meet(&out[a->csr->indices[e]], &in[r]);
}

/* Finds out which of a sample of columns reach the rows of A, from those that reach its columns. */
static inline LOOP void backward(const mmci_sparse_shape *a, const lanes *in, lanes *out) {
  lanes all = {{0}};
  for (int64_t c = 0; a->csr == NULL && c < a->cols; c++) meet(&all, &in[c]);
  for (int64_t r = 0; r < a->rows; r++) {
    lanes sum = all;
    for (int64_t e = a->csr != NULL ? a->csr->indptr[r] : 0;
         a->csr != NULL && e < a->csr->indptr[r + 1]; e++)
      meet(&sum, &in[a->csr->indices[e]]);
    out[r] = sum;
  }
}

/* Adds up how many lines of the other end meet each line, those that the sample stands for. */
static inline LOOP void count(const sample *from, int first, const lanes *in, int64_t lines,
                              double *out) {
  for (int64_t i = 0; i < lines; i++) {
    double sum = first > 0 ? out[i] : 0;
    for (int p = 0; p < AT_ONCE; p++)
      sum += from->weight[first + p] * (double)__builtin_popcountll(in[i].piece[p]);
    out[i] = sum;
  }
}

/* The loops for a set of instructions. */
typedef struct loops {
  void (*forward)(const mmci_sparse_shape *a, const lanes *in, lanes *out);
  void (*backward)(const mmci_sparse_shape *a, const lanes *in, lanes *out);
  void (*count)(const sample *from, int first, const lanes *in, int64_t lines, double *out);
} loops;

#define LOOPS(name, isa)                                                                      \
  isa static void forward_##name(const mmci_sparse_shape *a, const lanes *in, lanes *out) {   \
    forward(a, in, out);                                                                      \
  }                                                                                           \
  isa static void backward_##name(const mmci_sparse_shape *a, const lanes *in, lanes *out) {  \
    backward(a, in, out);                                                                     \
  }                                                                                           \
  isa static void count_##name(const sample *from, int first, const lanes *in, int64_t lines, \
                               double *out) {                                                 \
    count(from, first, in, lines, out);                                                       \
  }                                                                                           \
  static const loops loops_##name = {forward_##name, backward_##name, count_##name};

LOOPS(portable, )
#if defined(__x86_64__)
LOOPS(avx2, __attribute__((target("avx2,popcnt"))))
#endif

static const loops *loops_of_machine(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt")) return &loops_avx2;
#endif
  return &loops_portable;
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

/* What estimates are made with. */
typedef struct sampling {
  int32_t n;
  const mmci_sparse_shape *factors;
  mmci_sparse_estimate *x;
  const loops *loops;
  sample *rows, *cols; /* n each: of every factor's */
  double *weights;     /* of the lines of a factor */
  int64_t *sorted;
  lanes *lanes[2][2]; /* for each direction */
} sampling;

/* Counts the paths from every row to the end of the chain, and from its beginning to every column.
 * Returns how many multiplications the chain takes at most, from one of its ends: those of an
 * element are the paths behind it, and no more than what lies at the end has lines. */
static double count_paths(sampling *s) {
  const int32_t n = s->n;
  const mmci_sparse_shape *f = s->factors;
  double **rows = s->x->rows, **cols = s->x->cols, from_left = 0, from_right = 0;
  const double first = (double)f[0].rows, last = (double)f[n - 1].cols;
  for (int32_t i = 0; i < n; i++) factor_lines(&f[i], rows[i * n + i], cols[i * n + i]);
  for (int32_t i = n - 2; i >= 0; i--) {
    paths_from_rows(&f[i], rows[(i + 1) * n + n - 1], rows[i * n + n - 1]);
    const double *behind = rows[i * n + n - 1], *own = rows[i * n + i];
    for (int64_t r = 0; r < f[i].rows; r++) from_right += fmin(behind[r], own[r] * last);
  }
  for (int32_t j = 1; j < n; j++) {
    paths_to_columns(&f[j], cols[j - 1], cols[j]);
    const double *before = cols[j], *own = cols[j * n + j];
    for (int64_t c = 0; c < f[j].cols; c++) from_left += fmin(before[c], own[c] * first);
  }
  return fmin(from_left, from_right);
}

/* Adds to the weight of every line a share of a scale: what it reaches, at most so many lines, by
 * what all reach. */
static void add_weights(const double *reached, int64_t lines, int64_t ends, double scale,
                        double *weights) {
  const double most = (double)ends;
  double all = 0;
  for (int64_t i = 0; i < lines; i++) all += reached[i] < most ? reached[i] : most;
  const double share = all > 0 ? scale / all : 0;
  for (int64_t i = 0; i < lines; i++) weights[i] += share * (reached[i] < most ? reached[i] : most);
}

/* Draws lines of a factor by their paths to an end of the chain, which has so many lines, and by
 * their nonzeros: what leads nowhere counts too. */
static void draw(sampling *s, const double *paths, const double *nonzeros, int64_t lines,
                 int64_t ends, uint64_t *random, sample *out) {
  memset(s->weights, 0, (size_t)lines * sizeof *s->weights);
  add_weights(paths, lines, ends, 0.9, s->weights);
  add_weights(nonzeros, lines, INT64_MAX, 0.1, s->weights);
  draw_sample(s->weights, s->sorted, sort_lines(s->weights, lines, s->sorted), random, out);
}

static void draw_all(sampling *s, int pieces) {
  const int32_t n = s->n;
  const mmci_sparse_shape *f = s->factors;
  double **rows = s->x->rows, **cols = s->x->cols;
  uint64_t random = 0;
  for (int32_t i = 0; i < n; i++) {
    s->rows[i].pieces = s->cols[i].pieces = pieces;
    draw(s, rows[i * n + n - 1], rows[i * n + i], f[i].rows, f[n - 1].cols, &random, &s->rows[i]);
    draw(s, cols[i], cols[i * n + i], f[i].cols, f[0].rows, &random, &s->cols[i]);
  }
}

static void exchange(lanes **of) {
  lanes *kept = of[0];
  of[0] = of[1];
  of[1] = kept;
}

/* Counts the nonzeros of columns of all products that begin with factor i, by a sample of its rows.
 * Products that end with the last factor are left operands of none; of the whole chain alone the
 * count is told. */
static void count_columns_from(sampling *s, int32_t i) {
  const int32_t n = s->n, end = i == 0 ? n : n - 1;
  const mmci_sparse_shape *f = s->factors;
  lanes **reached = s->lanes[0];
  for (int first = 0; i + 1 < end && first < s->rows[i].pieces; first += AT_ONCE) {
    begin_forward(&f[i], &s->rows[i], first, reached[0]);
    for (int32_t j = i + 1; j < end; j++) {
      s->loops->forward(&f[j], reached[0], reached[1]);
      s->loops->count(&s->rows[i], first, reached[1], f[j].cols, s->x->cols[i * n + j]);
      exchange(reached);
    }
  }
}

/* Does what the function above does for the rows of all products that end with factor j, by a
 * sample of its columns. */
static void count_rows_to(sampling *s, int32_t j) {
  const int32_t n = s->n;
  const mmci_sparse_shape *f = s->factors;
  lanes **reached = s->lanes[1];
  for (int first = 0; j > 1 && first < s->cols[j].pieces; first += AT_ONCE) {
    begin_backward(&s->cols[j], first, f[j].cols, reached[1]);
    s->loops->backward(&f[j], reached[1], reached[0]);
    for (int32_t i = j - 1; i > 0; i--) {
      s->loops->backward(&f[i], reached[0], reached[1]);
      s->loops->count(&s->cols[j], first, reached[1], f[i].rows, s->x->rows[i * n + j]);
      exchange(reached);
    }
  }
}

/* Estimates in one of both directions. */
static void estimate(void *user, int worker, int64_t direction) {
  sampling *s = user;
  (void)worker;
  for (int32_t i = 0; i < s->n; i++)
    if (direction == 0)
      count_columns_from(s, i);
    else
      count_rows_to(s, i);
}

/* Returns how often lines are passed through the factors. What a sample takes grows with its lines,
 * and so does what it saves with the multiplications. */
static int passes_for(double multiplications, double nonzeros) {
  const double passes = sqrt(multiplications / (1.5 * nonzeros));
  const int most = PIECES / AT_ONCE;
  return passes < 1 ? 1 : passes < most ? (int)passes : most;
}

static double nonzeros_of(int32_t n, const mmci_sparse_shape *factors) {
  double nonzeros = 1;
  for (int32_t i = 0; i < n; i++)
    if (factors[i].csr != NULL) nonzeros += (double)mmci_csr_nonzeros(factors[i].csr);
  return nonzeros;
}

double mmci_sparse_estimate_s(int32_t n, const mmci_sparse_shape *factors, double multiplications) {
  const double nonzeros = nonzeros_of(n, factors);
  return 2e-9 * n * nonzeros * passes_for(multiplications, nonzeros);
}

static void make(sampling *s) {
  const double nonzeros = nonzeros_of(s->n, s->factors);
  const int pieces = AT_ONCE * passes_for(count_paths(s), nonzeros);
  draw_all(s, pieces);
  mmci_sparse_share(mmci_sparse_threads(nonzeros * s->n * pieces / AT_ONCE), 2, estimate, s);
}

/* ---- chains of one factor between diagonal ones ------------------------------------------------
 */

static bool is_diagonal(const mmci_sparse_shape *f) {
  const mmci_csr *x = f->csr;
  bool is = x != NULL && f->inverse.solver == MMCI_STRUCTURE_GEMM && x->rows == x->cols;
  for (int64_t r = 0; is && r < x->rows; r++) is = x->indptr[r + 1] == r + 1 && x->indices[r] == r;
  return is;
}

/* Returns the factor beside which all are diagonal, or any where all are; -1 where others are not.
 */
static int32_t find_only(int32_t n, const mmci_sparse_shape *factors) {
  int32_t only = -1;
  for (int32_t i = 0; i < n; i++) {
    if (is_diagonal(&factors[i])) continue;
    if (only >= 0) return -1;
    only = i;
  }
  return only >= 0 ? only : 0;
}

/* Gives every product the lines of that factor, which diagonal ones leave as they are. */
static void copy_lines(const mmci_sparse_shape *factors, int32_t only, mmci_sparse_estimate *x) {
  const int32_t n = x->n;
  for (int32_t i = 0; i < n; i++) factor_lines(&factors[i], x->rows[i * n + i], x->cols[i * n + i]);
  for (int32_t i = 0; i < n; i++)
    for (int32_t j = i + 1; j < n; j++) {
      const int32_t of = i <= only && only <= j ? only : i;
      memcpy(x->rows[i * n + j], x->rows[of * n + of],
             (size_t)factors[i].rows * sizeof *x->rows[0]);
      memcpy(x->cols[i * n + j], x->cols[of * n + of],
             (size_t)factors[j].cols * sizeof *x->cols[0]);
    }
}

mmc_status mmci_sparse_estimate_create(int32_t n, const mmci_sparse_shape *factors,
                                       mmci_sparse_estimate *out, mmci_error *error) {
  sampling s = {.n = n, .factors = factors, .x = out, .loops = loops_of_machine()};
  mmc_status status = allocate(n, factors, out, error);
  if (status != MMC_OK) return status;
  const int32_t only = find_only(n, factors);
  if (only >= 0) {
    copy_lines(factors, only, out);
    return MMC_OK;
  }
  int64_t most = 0;
  for (int32_t i = 0; i < n; i++) {
    if (factors[i].rows > most) most = factors[i].rows;
    if (factors[i].cols > most) most = factors[i].cols;
  }
  const size_t lines = (size_t)most + 1;
  lanes *reached = mmci_alloc_array(4 * lines, sizeof *reached);
  s.rows = mmci_alloc_array(2 * (size_t)n, sizeof *s.rows);
  s.weights = mmci_alloc_array(lines, sizeof *s.weights);
  s.sorted = mmci_alloc_array(lines, sizeof *s.sorted);
  if (reached != NULL && s.rows != NULL && s.weights != NULL && s.sorted != NULL) {
    s.cols = s.rows + n;
    for (int d = 0; d < 4; d++) s.lanes[d / 2][d % 2] = reached + (size_t)d * lines;
    make(&s);
  } else {
    status = mmci_fail_nomem(error, 4 * lines * sizeof *reached);
    mmci_sparse_estimate_destroy(out);
  }
  free(reached);
  free(s.rows);
  free(s.weights);
  free(s.sorted);
  return status;
}

void mmci_sparse_estimate_destroy(mmci_sparse_estimate *estimate) {
  free(estimate->memory);
  free(estimate->rows);
  *estimate = (mmci_sparse_estimate){0};
}

double mmci_sparse_nonzeros(const mmci_sparse_estimate *x, const mmci_sparse_shape *factors,
                            int32_t i, int32_t j) {
  const double *of = i == 0 ? x->cols[j] : x->rows[i * x->n + j];
  const int64_t lines = i == 0 ? factors[j].cols : factors[i].rows;
  double sum = 0;
  for (int64_t k = 0; k < lines; k++) sum += of[k];
  return sum;
}

double mmci_sparse_count(const mmci_sparse_estimate *x, const mmci_sparse_shape *factors, int32_t i,
                         int32_t k, int32_t j) {
  const double *left = x->cols[i * x->n + k], *right = x->rows[(k + 1) * x->n + j];
  double sum = 0;
  for (int64_t c = 0; c < factors[k].cols; c++) sum += left[c] * right[c];
  return sum;
}
