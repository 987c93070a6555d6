#include "sparse.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "factors.h"
#include "promote.h"
#include "random.h"
#include "signals.h"
#include "structure.h"
#include "timing.h"

enum { FACTORS_MAX = 64 };

/* A file. */
typedef struct source {
  char *name;      /* without op and power */
  char *file_path; /* without a member */
  cli_stamp stamp;
  mmc_sparse *sparse; /* or else */
  mmc_file *file;
  void *promoted; /* elements of another dtype, or NULL */
  mmc_csr csr;
  mmc_matrix matrix;
} source;

/* A chain: all factors, or those of a group, which is multiplied before what it stands in. */
typedef struct product {
  int64_t n;
  mmc_sparse_factor factors[FACTORS_MAX];
  uint32_t traits[FACTORS_MAX];
  const char *names[FACTORS_MAX];
  int64_t rows[FACTORS_MAX], cols[FACTORS_MAX]; /* sides after the op */
  bool row, column;                             /* the result keeps its rows, its columns */
  mmc_sparse_chain *chain;
  bool dense; /* what the result is */
  mmc_matrix result;
  mmc_sparse *sparse_result;
  char *name;           /* of a group */
  struct product *next; /* of the groups */
} product;

typedef struct work {
  const cli_sparse_job *job;
  cli_groups groups; /* its arguments are those of sources */
  int count;
  source *sources;
  cli_factor_spec *specs;
  mmc_dtype dtype;
  product all, *inner; /* the groups that were multiplied */
  double seconds, residual;
} work;

/* ---- which chains are sparse ----------------------------------------------------------------- */

static char *name_of(const char *argument, const cli_factor_spec *spec) {
  return strndup(argument, spec->name_length);
}

/* Says whether the ending of a file in the argument is that of a format with sparse matrices. */
static bool names_sparse(const char *argument) {
  return strcasestr(argument, ".npz") != NULL || strcasestr(argument, ".mtx") != NULL;
}

static int is_meant(cli_call *call, bool check, const cli_groups *groups, bool *meant) {
  bool any = false, said = groups->inverse_count > 0;
  for (int i = 0; i < groups->count; i++) {
    const char *argument = groups->arguments[i];
    cli_factor_spec spec;
    int result = cli_factor_read(call, argument, &spec);
    if (result != CLI_DONE) return result;
    if (spec.each || (argument[0] == '-' && spec.name_length == 1)) return CLI_DONE;
    said = said || spec.traits != 0;
    if (!names_sparse(argument)) continue;
    char *name = name_of(argument, &spec);
    const bool is_sparse = name != NULL && mmc_sparse_is_file(call->context, name);
    free(name);
    if (is_sparse && spec.traits != 0) return CLI_DONE;
    any = any || is_sparse;
  }
  *meant = any && !(said && check);
  return CLI_DONE;
}

int cli_sparse_is_meant(cli_call *call, bool check, int count, char **arguments, bool *meant) {
  bool may_be = false;
  cli_groups groups;
  *meant = false;
  for (int i = 0; i < count; i++) may_be = may_be || names_sparse(arguments[i]);
  if (!may_be) return CLI_DONE;
  int result = cli_groups_open(call, count, arguments, &groups);
  if (result != CLI_DONE) return result;
  result = is_meant(call, check, &groups, meant);
  cli_groups_free(&groups);
  return result;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_source(cli_call *call, const char *argument, const cli_factor_spec *spec,
                       source *s) {
  s->name = name_of(argument, spec);
  if (s->name == NULL || (s->file_path = cli_file_part(s->name)) == NULL)
    return cli_fail_memory(call, "a file name takes", 1.0);
  if (spec->each)
    return cli_fail(call, CLI_BAD, "%s: expected no stack of factors beside sparse ones", argument);
  cli_stamp_take(s->file_path, &s->stamp);
  int result = cli_note_input(call, "the factor ", s->name, s->file_path);
  if (result != CLI_DONE) return result;
  if (mmc_sparse_is_file(call->context, s->name)) {
    mmc_status status = mmc_sparse_open(call->context, s->name, &s->sparse);
    return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, "");
  }
  mmc_status status = mmc_file_open(call->context, s->name, &s->file);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  if (mmc_file_ndim(s->file) > 2)
    return cli_fail(call, CLI_BAD,
                    "%s: expected a matrix or a vector beside sparse factors, got "
                    "an array of %d dimensions",
                    argument, mmc_file_ndim(s->file));
  s->matrix = mmc_file_matrix(s->file);
  cli_mapped_remember(
      s->matrix.data,
      mmc_dtype_size(mmc_file_dtype(s->file)) * (size_t)s->matrix.rows * (size_t)s->matrix.cols,
      s->name);
  return CLI_DONE;
}

static mmc_dtype dtype_of(const source *s) {
  return s->sparse != NULL ? mmc_sparse_dtype(s->sparse) : mmc_file_dtype(s->file);
}

/* Finds the dtype that holds those of all files: at least f32, and f64 beside integers. */
static int find_dtype(cli_call *call, work *w) {
  w->dtype = MMC_F32;
  for (int i = 0; i < w->count; i++) {
    mmc_dtype own = dtype_of(&w->sources[i]);
    if (!cli_promoted(w->dtype, own, &w->dtype))
      return cli_fail(call, CLI_BAD,
                      "%s: expected floating-point numbers beside sparse factors, got %s",
                      w->groups.arguments[i], mmc_dtype_name(own));
  }
  return CLI_DONE;
}

static int promote_source(cli_call *call, const work *w, source *s) {
  const mmc_dtype own = dtype_of(s);
  size_t count = (size_t)s->matrix.rows * (size_t)s->matrix.cols;
  const void *from = s->matrix.data;
  if (s->sparse != NULL) {
    s->csr = mmc_sparse_csr(s->sparse);
    from = s->csr.values;
    count = s->csr.index_bytes == 4 ? (size_t)((const int32_t *)s->csr.indptr)[s->csr.rows]
                                    : (size_t)((const int64_t *)s->csr.indptr)[s->csr.rows];
  }
  if (own == w->dtype || count == 0) return CLI_DONE;
  s->promoted = malloc(count * mmc_dtype_size(w->dtype));
  if (s->promoted == NULL)
    return cli_fail_memory(call, "a factor in another dtype takes",
                           (double)count * (double)mmc_dtype_size(w->dtype));
  cli_promote(own, from, count, w->dtype, s->promoted);
  if (s->sparse != NULL)
    s->csr.values = s->promoted;
  else
    s->matrix.data = s->promoted;
  return CLI_DONE;
}

/* A vector is a row at the beginning of n factors and a column at the end. */
static int place_vector(cli_call *call, const char *argument, int64_t i, int64_t n, mmc_op op,
                        product *p) {
  if (p->name != NULL)
    return cli_fail(call, CLI_BAD, "%s: expected a matrix in a group, got a 1-D array", argument);
  if (i > 0 && i < n - 1)
    return cli_fail(call, CLI_BAD,
                    "%s: a 1-D array inside the chain: expected a matrix, vectors go at the ends",
                    argument);
  if (op == MMC_OP_H)
    return cli_fail(call, CLI_BAD, "%s: expected no :H of a vector beside sparse factors",
                    argument);
  p->factors[i].op = i == 0 ? MMC_OP_N : MMC_OP_T;
  if (i == 0) p->row = false;
  if (i > 0) p->column = false;
  return CLI_DONE;
}

/* Returns the end of the widest group that begins with argument i and lies within first to end-1,
 * but is not all of it where that is a group; i where there is none. *inverts says how often it is
 * inverted: once, or twice, which is not at all. */
static int group_end(const work *w, int i, int first, int end, bool is_group, bool *inverts) {
  int widest = i;
  for (int g = 0; g < w->groups.inverse_count; g++) {
    const int begin = (int)w->groups.inverses[g].first, stop = (int)w->groups.inverses[g].last + 1;
    if (begin != i || stop > end || stop < widest || (is_group && begin == first && stop == end))
      continue;
    *inverts = stop == widest ? !*inverts : true;
    widest = stop;
  }
  return widest;
}

/* Returns how many factors arguments first to end-1 are, groups being one each. */
static int64_t count_factors(const work *w, int first, int end, bool is_group) {
  int64_t n = 0;
  for (int i = first, next; i < end; i = next) {
    bool inverts = false;
    next = group_end(w, i, first, end, is_group, &inverts);
    n += next > i ? 1 : w->specs[i].times;
    if (next == i) next++;
  }
  return n;
}

static void place_factor(product *p, const mmc_sparse_factor *factor, uint32_t traits,
                         const char *name) {
  const int64_t at = p->n++;
  const bool turned = factor->op != MMC_OP_N;
  const int64_t rows = factor->csr != NULL ? factor->csr->rows : factor->dense->rows,
                cols = factor->csr != NULL ? factor->csr->cols : factor->dense->cols;
  p->factors[at] = *factor;
  p->traits[at] = traits;
  p->names[at] = name;
  p->rows[at] = turned ? cols : rows;
  p->cols[at] = turned ? rows : cols;
  p->dense = p->dense || factor->csr == NULL;
}

/* Places the factors of argument i, n of which are in all. */
static int place_argument(cli_call *call, const work *w, int i, int64_t n, product *p) {
  const source *s = &w->sources[i];
  for (int64_t t = 0; t < w->specs[i].times; t++) {
    mmc_sparse_factor factor = {.csr = s->sparse != NULL ? &s->csr : NULL,
                                .dense = s->sparse != NULL ? NULL : &s->matrix,
                                .op = w->specs[i].op};
    if (s->sparse == NULL && mmc_file_ndim(s->file) < 2) {
      int result = place_vector(call, w->groups.arguments[i], p->n, n, w->specs[i].op, p);
      if (result != CLI_DONE) return result;
      factor.op = p->factors[p->n].op;
    }
    place_factor(p, &factor, w->specs[i].traits, s->name);
  }
  return CLI_DONE;
}

static product *multiply_group(cli_call *call, work *w, int first, int end, int *result);

static int place_factors(cli_call *call, work *w, int first, int end, product *p) {
  const bool is_group = p->name != NULL;
  const int64_t n = count_factors(w, first, end, is_group);
  if (n > FACTORS_MAX)
    return cli_fail(call, CLI_BAD,
                    "expected at most %d factors where some are sparse, got %" PRId64,
                    (int)FACTORS_MAX, n);
  p->row = p->column = true;
  int result = CLI_DONE;
  for (int i = first, next; i < end && result == CLI_DONE; i = next) {
    bool inverts = false;
    next = group_end(w, i, first, end, is_group, &inverts);
    if (next > i) {
      product *group = multiply_group(call, w, i, next, &result);
      if (group == NULL) return result;
      const mmc_sparse_factor factor = {.dense = &group->result};
      place_factor(p, &factor, inverts ? (uint32_t)MMC_INVERSE : 0, group->name);
    } else {
      result = place_argument(call, w, i, n, p);
      next++;
    }
  }
  return result;
}

/* Says whether the result is held densely because of the output's format. */
static bool writes_dense(const char *output) {
  const char *format = mmc_file_format(output, NULL);
  size_t length = 0;
  const bool whole =
      format != NULL && mmc_file_format(output, &length) != NULL && output[length] == '\0';
  return !whole || (strcmp(format, "npz") != 0 && strcmp(format, "matrix-market") != 0);
}

static int open_sources(cli_call *call, work *w) {
  char **arguments = w->groups.arguments;
  int result = CLI_DONE;
  for (int i = 0; i < w->count && result == CLI_DONE; i++)
    result = cli_factor_read(call, arguments[i], &w->specs[i]);
  for (int i = 0; i < w->count && result == CLI_DONE; i++)
    result = open_source(call, arguments[i], &w->specs[i], &w->sources[i]);
  if (result == CLI_DONE) result = find_dtype(call, w);
  for (int i = 0; i < w->count && result == CLI_DONE; i++)
    result = promote_source(call, w, &w->sources[i]);
  return result;
}

static void close_product(product *p) {
  mmc_sparse_chain_destroy(p->chain);
  mmc_sparse_destroy(p->sparse_result);
  free(p->result.data);
  free(p->name);
}

static void close_work(work *w) {
  for (int i = 0; i < w->count && w->sources != NULL; i++) {
    source *s = &w->sources[i];
    if (s->file != NULL) cli_mapped_forget(mmc_file_matrix(s->file).data);
    mmc_sparse_destroy(s->sparse);
    mmc_file_destroy(s->file);
    free(s->promoted);
    free(s->name);
    free(s->file_path);
  }
  for (product *p = w->inner, *next; p != NULL; p = next) {
    next = p->next;
    close_product(p);
    free(p);
  }
  close_product(&w->all);
  free(w->sources);
  free(w->specs);
  cli_groups_free(&w->groups);
}

/* ---- the work -------------------------------------------------------------------------------- */

static int check_shapes(cli_call *call, const product *p) {
  for (int64_t i = 1; i < p->n; i++) {
    if (p->cols[i - 1] != p->rows[i])
      return cli_fail(call, CLI_BAD,
                      "%s is %" PRId64 "x%" PRId64 " and %s is %" PRId64 "x%" PRId64
                      ": expected %" PRId64 " rows in the second, got %" PRId64,
                      p->names[i - 1], p->rows[i - 1], p->cols[i - 1], p->names[i], p->rows[i],
                      p->cols[i], p->cols[i - 1], p->rows[i]);
  }
  return CLI_DONE;
}

static int check_output(cli_call *call, const work *w) {
  const char *output = w->job->output;
  if (strcmp(output, "-") == 0)
    return w->job->json
               ? cli_fail(call, CLI_BAD, "-o: expected a file, as standard output takes --json")
               : CLI_DONE;
  if (!w->all.dense) return cli_check_matrix_path(call, "-o", output);
  return cli_check_matrix_output(call, "-o", output, w->dtype, w->all.row + w->all.column);
}

static int make_plan(cli_call *call, const work *w, product *p) {
  mmc_sparse_options options = w->job->options;
  options.dense_result = p->dense;
  options.traits = p->traits;
  mmc_status status =
      mmc_sparse_chain_create(call->context, w->dtype, p->n, p->factors, &options, &p->chain);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  if (!w->job->explain) return CLI_DONE;
  cli_stream diagnostics = {.file = stderr};
  if (p->name != NULL) fprintf(stderr, "%s, which is multiplied first:\n", p->name);
  status = mmc_sparse_chain_explain(p->chain, MMC_TEXT, cli_stream_write, &diagnostics);
  if (p->name != NULL) fputc('\n', stderr);
  return status == MMC_OK ? CLI_DONE : cli_fail_write(call, status, "");
}

/* Says which file or group has no inverse, where one has none. */
static int fail_execution(cli_call *call, mmc_status status, const product *p) {
  char message[512], prefix[512];
  int64_t factor = 0;
  mmc_context_message(call->context, message, sizeof message);
  if (status != MMC_E_ARG || sscanf(message, "factor %" SCNd64 " is", &factor) != 1 || factor < 1 ||
      factor > p->n)
    return cli_fail_status(call, status, "");
  snprintf(prefix, sizeof prefix, "%.500s: ", p->names[factor - 1]);
  return cli_fail_status(call, status, prefix);
}

static int execute(cli_call *call, work *w, product *p) {
  p->result = (mmc_matrix){.rows = p->rows[0], .cols = p->cols[p->n - 1]};
  if (p->dense && !cli_matrix_allocate(w->dtype, 1, &p->result))
    return cli_fail_memory(call, "the result takes",
                           cli_matrix_bytes(w->dtype, 1, p->result.rows, p->result.cols));
  const double start = cli_now_s();
  mmc_status status = mmc_sparse_chain_execute(p->chain, p->factors, p->dense ? &p->result : NULL,
                                               p->dense ? NULL : &p->sparse_result);
  w->seconds += cli_now_s() - start;
  return status == MMC_OK ? CLI_DONE : fail_execution(call, status, p);
}

/* Returns "(A.npy B.npy:T)"; NULL when there is no memory. */
static char *group_name(const work *w, int first, int end) {
  size_t length = 3;
  for (int i = first; i < end; i++) length += strlen(w->groups.arguments[i]) + 1;
  char *name = calloc(length, 1), *at = name;
  for (int i = first; i < end && name != NULL; i++)
    at += snprintf(at, length - (size_t)(at - name), "%s%s", i == first ? "(" : " ",
                   w->groups.arguments[i]);
  if (name != NULL) *at = ')';
  return name;
}

/* Multiplies the factors of a group of arguments, which become its own. */
static int multiply_arguments(cli_call *call, work *w, int first, int end, product *p) {
  p->name = group_name(w, first, end);
  if (p->name == NULL) return cli_fail_memory(call, "a group takes", 1.0);
  int result = place_factors(call, w, first, end, p);
  p->dense = true;
  if (result == CLI_DONE) result = check_shapes(call, p);
  if (result == CLI_DONE && p->rows[0] != p->cols[p->n - 1])
    result =
        cli_fail(call, CLI_BAD, "%s is %" PRId64 "x%" PRId64 ": expected a square group to invert",
                 p->name, p->rows[0], p->cols[p->n - 1]);
  if (result == CLI_DONE) result = make_plan(call, w, p);
  if (result == CLI_DONE) result = execute(call, w, p);
  return result;
}

/* Multiplies a group of arguments first to end-1 to a dense matrix, which the work owns. Returns
 * NULL, and in *result the exit status, where something is wrong. */
static product *multiply_group(cli_call *call, work *w, int first, int end, int *result) {
  product *p = calloc(1, sizeof *p);
  if (p == NULL) {
    *result = cli_fail_memory(call, "a group takes", sizeof *p);
    return NULL;
  }
  p->next = w->inner;
  w->inner = p;
  *result = multiply_arguments(call, w, first, end, p);
  return *result == CLI_DONE ? p : NULL;
}

/* ---- checking -------------------------------------------------------------------------------- */

/* One entry of a vector; size gathers the absolute values of all that was added. */
typedef struct entry {
  double re, im, size;
} entry;

static void accumulate(double re, double im, const entry *x, entry *y) {
  y->re += re * x->re - im * x->im;
  y->im += re * x->im + im * x->re;
  y->size += (fabs(re) + fabs(im)) * x->size;
}

static int64_t whole_at(const void *numbers, int bytes, int64_t i) {
  return bytes == 4 ? ((const int32_t *)numbers)[i] : ((const int64_t *)numbers)[i];
}

/* These add op(A) x to y. They return whether all of A is finite. */
static bool multiply_sparse(mmc_dtype dtype, const mmc_csr *a, mmc_op op, const entry *x,
                            entry *y) {
  bool finite = true;
  cli_piece piece;
  for (int64_t r = 0; r < a->rows; r++) {
    const int64_t end = whole_at(a->indptr, a->index_bytes, r + 1);
    for (int64_t e = whole_at(a->indptr, a->index_bytes, r); e < end; e++) {
      const int64_t c = whole_at(a->indices, a->index_bytes, e);
      finite = cli_elements_load(dtype, op == MMC_OP_H, a->values, e, 1, &piece) && finite;
      accumulate(piece.re[0], piece.im[0], op == MMC_OP_N ? &x[c] : &x[r],
                 op == MMC_OP_N ? &y[r] : &y[c]);
    }
  }
  return finite;
}

static bool multiply_dense(mmc_dtype dtype, const mmc_matrix *a, mmc_op op, const entry *x,
                           entry *y) {
  const bool by_rows = a->layout == MMC_ROW_MAJOR, straight = by_rows == (op == MMC_OP_N);
  const int64_t lines = by_rows ? a->rows : a->cols, length = by_rows ? a->cols : a->rows;
  const int64_t ld = a->ld != 0 ? a->ld : length;
  bool finite = true;
  cli_piece piece;
  for (int64_t l = 0; l < lines; l++)
    for (int64_t e = 0; e < length; e++) {
      finite = cli_elements_load(dtype, op == MMC_OP_H, a->data, l * ld + e, 1, &piece) && finite;
      accumulate(piece.re[0], piece.im[0], straight ? &x[e] : &x[l], straight ? &y[l] : &y[e]);
    }
  return finite;
}

static bool multiply_factor(mmc_dtype dtype, const mmc_sparse_factor *f, const entry *x, entry *y) {
  return f->csr != NULL ? multiply_sparse(dtype, f->csr, f->op, x, y)
                        : multiply_dense(dtype, f->dense, f->op, x, y);
}

static void scale(entry *x, int64_t m, int64_t by) {
  const int64_t most = 4096;
  const int power = (int)(by > most ? most : by < -most ? -most : by);
  for (int64_t i = 0; i < m; i++)
    x[i] = (entry){ldexp(x[i].re, power), ldexp(x[i].im, power), ldexp(x[i].size, power)};
}

static double largest_size(const entry *x, int64_t m) {
  double most = 0;
  for (int64_t i = 0; i < m; i++) most = x[i].size > most ? x[i].size : most;
  return most;
}

/* Brings the vector to the size of 1, and returns by which power of two. */
static int64_t normalise(entry *x, int64_t m) {
  int exponent = 0;
  const double most = largest_size(x, m);
  if (!isfinite(most)) return 0;
  frexp(most, &exponent);
  scale(x, m, -exponent);
  return exponent;
}

/* Compares R t with A1 (A2 (... (An t))), against |A1| (|A2| (... (|An| |t|))), of which rounding
 * leaves at most a share of n + the sum of all k in eps, four times for both sides. The vector has
 * an exponent. Rows that are too small for the digits of the dtype are compared with the least that
 * has all of them, unless all rows are. */
static int check_result(cli_call *call, work *w) {
  const product *p = &w->all;
  int64_t longest = p->rows[0];
  double sum = (double)p->n;
  for (int64_t i = 0; i < p->n; i++) {
    const int64_t cols = p->cols[i];
    if (cols > longest) longest = cols;
    sum += (double)cols;
  }
  const size_t length = (size_t)longest + 1;
  entry *vectors = calloc(4 * length, sizeof *vectors);
  if (vectors == NULL)
    return cli_fail_memory(call, "checking takes", 4.0 * (double)length * sizeof *vectors);
  entry *t = vectors, *x = t + length, *y = x + length, *product = y + length;
  cli_random random = cli_random_start(CLI_CHECK_SEED, 0);
  for (int64_t i = 0; i < p->cols[p->n - 1]; i++) {
    t[i].re = cli_random_normal(&random);
    t[i].size = fabs(t[i].re);
    x[i] = t[i];
  }
  bool finite = true;
  int64_t exponent = 0;
  for (int64_t i = p->n - 1; i >= 0; i--) {
    memset(y, 0, length * sizeof *y);
    finite = multiply_factor(w->dtype, &p->factors[i], x, y) && finite;
    exponent += normalise(y, p->rows[i]);
    entry *before = x;
    x = y;
    y = before;
  }
  const mmc_csr csr = mmc_sparse_csr(p->sparse_result);
  const mmc_sparse_factor result = {.csr = p->dense ? NULL : &csr,
                                    .dense = p->dense ? &p->result : NULL};
  const bool overflows = !multiply_factor(w->dtype, &result, t, product);
  scale(product, p->rows[0], -exponent);
  const bool is_double = w->dtype == MMC_F64 || w->dtype == MMC_C128;
  const double tolerance = 4 * sum * (is_double ? DBL_EPSILON : (double)FLT_EPSILON);
  entry least = {.size = cli_dtype_least(w->dtype) * sum / tolerance};
  scale(&least, 1, -exponent);
  const bool is_small = largest_size(x, p->rows[0]) < least.size;
  w->residual = 0;
  for (int64_t i = 0; i < p->rows[0]; i++) {
    const double apart = hypot(product[i].re - x[i].re, product[i].im - x[i].im);
    const double size = is_small ? x[i].size : fmax(x[i].size, least.size);
    if (apart > w->residual * size || isnan(apart)) w->residual = apart / size;
  }
  free(vectors);
  if (!finite) {
    w->residual = (double)NAN;
    fprintf(stderr, "relative residual: not meaningful, as the factors hold NaN or infinity\n");
    return CLI_DONE;
  }
  if (overflows)
    return cli_fail(call, CLI_FAILED,
                    "--check: the result exceeds the range of %s: nothing is written",
                    mmc_dtype_name(w->dtype));
  if (!(w->residual <= tolerance))
    return cli_fail(call, CLI_FAILED,
                    "--check: the relative residual %.2e exceeds the tolerance %.2e%s%s: nothing "
                    "is written",
                    w->residual, tolerance,
                    is_small ? ", and a product is below the range of " : "",
                    is_small ? mmc_dtype_name(w->dtype) : "");
  fprintf(stderr, "relative residual: %.2e (tolerance %.2e, seed %d)\n", w->residual, tolerance,
          CLI_CHECK_SEED);
  return CLI_DONE;
}

/* ---- after ----------------------------------------------------------------------------------- */

static int write_result(cli_call *call, work *w) {
  const char *output = w->job->output;
  const int ndim = w->all.row + w->all.column;
  int64_t shape[2];
  int d = 0;
  if (w->all.row) shape[d++] = w->all.result.rows;
  if (w->all.column) shape[d++] = w->all.result.cols;
  if (!w->all.dense) {
    const mmc_csr csr = mmc_sparse_csr(w->all.sparse_result);
    mmc_status status = mmc_sparse_write(call->context, output, w->dtype, &csr);
    return status == MMC_OK ? CLI_DONE : cli_fail_write(call, status, "-o: ");
  }
  if (strcmp(output, "-") != 0)
    return cli_matrix_save(call, "-o", output, w->dtype, &w->all.result, 1, ndim, shape);
  mmc_status status = mmc_file_stream_stack(call->context, w->dtype, &w->all.result, 1, ndim, shape,
                                            cli_stream_write, &call->out);
  if (call->out.error != 0) return CLI_DONE; /* main() says why */
  return status == MMC_OK ? CLI_DONE : cli_fail_write(call, status, "-o: ");
}

static int print_json(cli_call *call, const work *w) {
  cli_buffer plan = {0};
  mmc_status status = mmc_sparse_chain_explain(w->all.chain, MMC_JSON, cli_buffer_write, &plan);
  char *brace = status == MMC_OK ? strrchr(plan.bytes, '}') : NULL;
  if (brace != NULL) {
    cli_stream_write(&call->out, plan.bytes, (size_t)(brace - plan.bytes));
    cli_print(&call->out, ", \"seconds\": %.6g, \"residual\": ", w->seconds);
    if (w->job->check && !isnan(w->residual))
      cli_print(&call->out, "%.6g}\n", w->residual);
    else
      cli_print(&call->out, "null}\n");
  }
  cli_buffer_free(&plan);
  return status == MMC_OK ? CLI_DONE : cli_buffer_fail(call, status);
}

static int check_unchanged(cli_call *call, const work *w) {
  for (int i = 0; i < w->count; i++)
    if (cli_stamp_changed(w->sources[i].file_path, &w->sources[i].stamp))
      return cli_fail(call, CLI_BAD, "%s: changed while being read", w->sources[i].name);
  return CLI_DONE;
}

int cli_sparse_multiply(cli_call *call, const cli_sparse_job *job, int count, char **arguments) {
  if (job->output == NULL)
    return cli_fail(call, CLI_BAD, "-o: expected where the result goes, as in -o R.npy or -o -");
  work *w = calloc(1, sizeof *w);
  if (w == NULL) return cli_fail_memory(call, "the list of factors takes", sizeof *w);
  w->job = job;
  int result = cli_groups_open(call, count, arguments, &w->groups);
  if (result == CLI_DONE) {
    w->count = w->groups.count;
    w->sources = calloc((size_t)w->count + 1, sizeof *w->sources);
    w->specs = calloc((size_t)w->count + 1, sizeof *w->specs);
    if (w->sources == NULL || w->specs == NULL)
      result = cli_fail_memory(call, "the list of files takes", (double)w->count);
  }
  if (result == CLI_DONE) result = open_sources(call, w);
  if (result == CLI_DONE) result = place_factors(call, w, 0, w->count, &w->all);
  w->all.dense = w->all.dense || writes_dense(job->output);
  if (result == CLI_DONE) result = check_shapes(call, &w->all);
  if (result == CLI_DONE) result = check_output(call, w);
  if (result == CLI_DONE) result = make_plan(call, w, &w->all);
  if (result == CLI_DONE) result = execute(call, w, &w->all);
  if (result == CLI_DONE && job->check) result = check_result(call, w);
  if (result == CLI_DONE) result = check_unchanged(call, w);
  if (result == CLI_DONE) result = write_result(call, w);
  if (result == CLI_DONE && job->json) result = print_json(call, w);
  close_work(w);
  free(w);
  return result;
}
