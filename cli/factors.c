#include "factors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "options.h"
#include "promote.h"
#include "random.h"
#include "signals.h"
#include "structure.h"

static const char each_word[] = ":each";

/* ---- arguments ------------------------------------------------------------------------------- */

/* Returns the length of an argument without the op, the traits and the word each, that may end its
 * first length characters. */
static size_t without_op(const char *argument, size_t length, cli_factor_spec *s) {
  const size_t each_length = sizeof each_word - 1;
  s->each =
      length > each_length && memcmp(argument + length - each_length, each_word, each_length) == 0;
  if (s->each) length -= each_length;
  if (argument[0] != '-' || length > 1)
    length = cli_without_traits(argument, length, &s->traits, &s->band);
  const char *end = argument + length;
  if (length < 2 || end[-2] != ':' || strchr("NTH", end[-1]) == NULL) return length;
  s->op = end[-1] == 'T' ? MMC_OP_T : end[-1] == 'H' ? MMC_OP_H : MMC_OP_N;
  return cli_without_traits(argument, length - 2, &s->traits, &s->band);
}

/* Says whether so many characters are the name of a file, by their ending; "-" is none. */
static bool is_name(const char *argument, size_t length) {
  char *name = strndup(argument, length);
  bool known = name != NULL && mmc_file_format(name, NULL) != NULL;
  free(name);
  return known;
}

/* Returns the ^ before a power; NULL when there is none. */
static const char *power_of(const char *argument) {
  const char *power = strrchr(argument, '^');
  cli_factor_spec unused = {0};
  size_t path_length = 0;
  if (power == NULL || argument[0] == '-') return power;
  /* A ^ in the name of a member, which an op ends, is none. */
  mmc_file_format(argument, &path_length);
  if (argument[path_length] == ':' && strchr(power, ':') != NULL) return NULL;
  size_t length = without_op(argument, (size_t)(power - argument), &unused);
  return is_name(argument, length) ? power : NULL;
}

/* Returns what follows ".npy:" where something does. */
static const char *op_of_npy(const char *argument) {
  static const char extension[] = ".npy:";
  const char *found = strcasestr(argument, extension);
  return found != NULL ? found + sizeof extension - 1 : NULL;
}

bool cli_factor_is_file(const char *argument) {
  if (cli_is_group(argument)) return true;
  const char *power = power_of(argument);
  cli_factor_spec unused = {0};
  size_t length = power != NULL ? (size_t)(power - argument) : strlen(argument);
  return is_name(argument, without_op(argument, length, &unused)) || op_of_npy(argument) != NULL;
}

/* There are at most so many factors, as in a chain's text with ^: see mmc_chain_parse(). */
enum { FACTORS_MAX = 1 << 17 };

static bool opens(const cli_call *call, const char *argument, size_t length) {
  mmc_file *file = NULL;
  char *name = strndup(argument, length);
  const bool fine = name != NULL && mmc_file_open(call->context, name, &file) == MMC_OK;
  mmc_file_destroy(file);
  free(name);
  return fine;
}

/* An op that stands where the name of an array may is the array where one is called so, as T of
 * v7.mat:T; of a file's only array, it might as well be the op. */
static int take_member(const cli_call *call, const char *argument, cli_factor_spec *s) {
  size_t path_length = 0;
  const int named = (int)s->name_length + 2;
  const char *op = argument + s->name_length + 1;
  if (mmc_file_format(argument, &path_length) == NULL || path_length != s->name_length ||
      op[-1] != ':' || strchr("NTH", *op) == NULL || !opens(call, argument, (size_t)named))
    return CLI_DONE;
  if (*op != 'N' && opens(call, argument, s->name_length))
    return cli_fail(call, CLI_BAD,
                    "%s: expected %.*s:N for the file's only array %c, or %.*s:%c for op %c of it",
                    argument, named, argument, *op, named, argument, *op, *op);
  s->name_length += 2;
  s->op = MMC_OP_N;
  return CLI_DONE;
}

/* Reads op and power off the end. A text that is no op stays in the name. */
int cli_factor_read(cli_call *call, const char *argument, cli_factor_spec *out) {
  size_t length = strlen(argument);
  const char *power = power_of(argument);
  cli_factor_spec s = {.times = 1};
  if (power != NULL) {
    uint64_t times;
    const char *at = power + 1;
    const cli_digits digits = cli_digits_read(&at, INT32_MAX, &times);
    if (digits == CLI_DIGITS_FINE && *at == ':')
      return cli_fail(call, CLI_BAD,
                      "%s: expected the power last, as in A.npy:T^8, got '%s' behind it", argument,
                      at);
    if (digits != CLI_DIGITS_FINE || *at != '\0' || times == 0)
      return cli_fail(call, CLI_BAD, "%s: expected how many times after ^, as in A.npy^8, got '%s'",
                      argument, power + 1);
    s.times = (int64_t)times;
    length = (size_t)(power - argument);
  }
  s.name_length = without_op(argument, length, &s);
  if (power != NULL && s.each)
    return cli_fail(call, CLI_BAD, "%s: expected no power of a stack that is taken apart",
                    argument);
  const int result = take_member(call, argument, &s);
  *out = s;
  return result;
}

static bool is_standard_input(const char *path) {
  return strcmp(path, "-") == 0;
}

/* Says why a file cannot be read. The message begins with the name of the file. */
static int fail_reading(cli_call *call, const char *path) {
  char message[512], hint[CLI_HINT_SIZE];
  mmc_context_message(call->context, message, sizeof message);
  return cli_fail(call, CLI_BAD, "%s%s", message, cli_file_hint(path, hint));
}

int cli_array_open(cli_call *call, const char *what, const char *shown, const char *name,
                   char **path, cli_stamp *stamp, mmc_file **out) {
  if (is_standard_input(name)) name = "/dev/stdin";
  *path = cli_file_part(name);
  if (*path == NULL) return cli_fail_memory(call, "a file name takes", 1.0);
  cli_stamp_take(*path, stamp);
  int result = cli_note_input(call, what, shown, *path);
  if (result != CLI_DONE) return result;
  mmc_status status = mmc_file_open(call->context, name, out);
  if (status == MMC_E_IO) return fail_reading(call, *path);
  return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, "");
}

static int open_one(cli_call *call, int i, const char *argument, const cli_factor_spec *s,
                    cli_factors *factors) {
  factors->paths[i] = strndup(argument, s->name_length);
  if (factors->paths[i] == NULL) return cli_fail_memory(call, "a file name takes", 1.0);
  const char *name = factors->paths[i], *wrong_op = op_of_npy(name);
  char hint[CLI_HINT_SIZE];
  if (wrong_op != NULL && mmc_file_format(name, NULL) == NULL)
    return cli_fail(
        call, CLI_BAD,
        "%s: expected N, T, H, each or what the matrix is, as lower, after the colon, got '%s'%s",
        argument, wrong_op, cli_traits_hint(wrong_op, hint));
  int result = cli_array_open(call, "the factor ", name, name, &factors->file_paths[i],
                              &factors->stamps[i], &factors->files[i]);
  if (result != CLI_DONE) return result;
  const mmc_file *file = factors->files[i];
  double bytes = (double)mmc_dtype_size(mmc_file_dtype(file));
  for (int d = 0; d < mmc_file_ndim(file); d++) bytes *= (double)mmc_file_shape(file)[d];
  cli_mapped_remember(mmc_file_matrix(file).data, (size_t)bytes, factors->paths[i]);
  return CLI_DONE;
}

int cli_factors_unchanged(cli_call *call, const cli_factors *factors) {
  for (int64_t i = 0; i < factors->count; i++)
    if (cli_stamp_changed(factors->file_paths[i], &factors->stamps[i]))
      return cli_fail(call, CLI_BAD, "%s: changed while being read", factors->paths[i]);
  return CLI_DONE;
}

/* ---- dtypes ---------------------------------------------------------------------------------- */

static bool is_tight(const mmc_matrix *x) {
  return x->ld == 0 || x->ld == (x->layout == MMC_COL_MAJOR ? x->rows : x->cols);
}

/* Converts the elements of a file, which lie one after the other. */
static int promote_one(cli_call *call, const char *argument, int i, cli_factors *factors) {
  const mmc_file *file = factors->files[i];
  const mmc_dtype from = mmc_file_dtype(file);
  const mmc_matrix matrix = mmc_file_matrix(file);
  size_t count = 1, bytes;
  for (int d = 0; d < mmc_file_ndim(file); d++) count *= (size_t)mmc_file_shape(file)[d];
  if (count == 0) return CLI_DONE;
  if (!is_tight(&matrix))
    return cli_fail(call, CLI_BAD, "%s: expected %s, as the others, got %s", argument,
                    mmc_dtype_name(factors->dtype), mmc_dtype_name(from));
  if (__builtin_mul_overflow(count, mmc_dtype_size(factors->dtype), &bytes) ||
      (factors->promoted[i] = malloc(bytes)) == NULL)
    return cli_fail_memory(call, "a factor in another dtype takes",
                           (double)count * (double)mmc_dtype_size(factors->dtype));
  cli_promote(from, matrix.data, count, factors->dtype, factors->promoted[i]);
  return CLI_DONE;
}

/* Of integers that are taken modulo a number, all become i64, which has all residues, but where all
 * are u64. */
static int promote_residues(cli_call *call, const char *argument, mmc_dtype own, bool is_first,
                            cli_factors *factors) {
  if (!cli_dtype_is_integer(own) || own == MMC_BOOL)
    return cli_fail(call, CLI_BAD, "%s: expected integers modulo %" PRIu64 ", got %s", argument,
                    factors->rule.modulus, mmc_dtype_name(own));
  if (!is_first && (own == MMC_U64) != (factors->dtype == MMC_U64))
    return cli_fail(call, CLI_BAD, "%s: expected u64 in all files or in none, got %s", argument,
                    mmc_dtype_name(own));
  factors->dtype = own == MMC_U64 ? MMC_U64 : MMC_I64;
  return CLI_DONE;
}

static int promote(cli_call *call, int count, char **arguments, bool promotes,
                   cli_factors *factors) {
  int result = CLI_DONE;
  factors->dtype = mmc_file_dtype(factors->files[0]);
  for (int i = 0; i < count && result == CLI_DONE; i++) {
    const mmc_dtype own = mmc_file_dtype(factors->files[i]), before = factors->dtype;
    if (factors->rule.modulus != 0)
      result = promote_residues(call, arguments[i], own, i == 0, factors);
    else if (!cli_promoted(before, own, &factors->dtype))
      result = cli_fail(call, CLI_BAD, "%s: expected %s, which go with those before, got %s",
                        arguments[i],
                        !cli_dtype_is_integer(before) ? "floating-point numbers"
                        : cli_dtype_is_integer(own)   ? "integers of one sign"
                                                      : "integers",
                        mmc_dtype_name(own));
  }
  for (int i = 0; promotes && i < count && result == CLI_DONE; i++)
    if (mmc_file_dtype(factors->files[i]) != factors->dtype)
      result = promote_one(call, arguments[i], i, factors);
  return result;
}

/* Returns a file's matrix in the dtype of all. */
static mmc_matrix stored_matrix(const cli_factors *factors, int64_t f) {
  mmc_matrix matrix = mmc_file_matrix(factors->files[f]);
  if (factors->promoted[f] != NULL) matrix.data = factors->promoted[f];
  return matrix;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* The axes of a batch. */
typedef struct stack {
  int ndim;
  int64_t shape[CLI_NDIM_MAX];
} stack;

static int stack_ndim(const mmc_file *file, bool each) {
  const int ndim = mmc_file_ndim(file) - (each ? 3 : 2);
  return ndim > 0 ? ndim : 0;
}

/* Broadcasts a file's stack with that of all, aligned at the last axis. */
static int join_stack(cli_call *call, const char *argument, const mmc_file *file, bool each,
                      stack *all) {
  int ndim = stack_ndim(file, each), added = ndim - all->ndim;
  if (added > 0) {
    memmove(all->shape + added, all->shape, (size_t)all->ndim * sizeof *all->shape);
    for (int d = 0; d < added; d++) all->shape[d] = 1;
    all->ndim = ndim;
  }
  for (int d = 0; d < ndim; d++) {
    int64_t size = mmc_file_shape(file)[d], *joined = &all->shape[all->ndim - ndim + d];
    if (size == 1 || size == *joined) continue;
    if (*joined != 1)
      return cli_fail(call, CLI_BAD,
                      "%s: a stack with %" PRId64
                      " in dimension %d does not broadcast with %" PRId64 " of the factors before",
                      argument, size, d + 1, *joined);
    *joined = size;
  }
  return CLI_DONE;
}

static bool count_batch(const stack *all, int64_t *out) {
  int64_t batch = 1;
  bool none = false, fits = true;
  for (int d = 0; d < all->ndim; d++) {
    none = none || all->shape[d] == 0;
    fits = fits && !__builtin_mul_overflow(batch, all->shape[d], &batch);
  }
  *out = none ? 0 : batch;
  return none || fits;
}

/* Makes the file's matrix stand for the batch: for :each, matrix number t of the chain's axis. The
 * matrix is the file's own at first. */
static int spread_factor(cli_call *call, int i, const cli_factor_spec *s, int64_t t,
                         const stack *all, int64_t batch, mmc_matrix *matrix,
                         cli_factors *factors) {
  const mmc_file *file = factors->files[i];
  const mmc_dtype dtype = factors->dtype;
  int ndim = stack_ndim(file, s->each);
  int64_t strides[CLI_NDIM_MAX] = {0}, step = matrix->stride;
  if (s->each) {
    if (matrix->data != NULL)
      matrix->data = (char *)matrix->data + t * step * (int64_t)mmc_dtype_size(dtype);
    step *= s->times;
  }
  for (int d = ndim - 1; d >= 0; d--) {
    int64_t size = mmc_file_shape(file)[d];
    strides[all->ndim - ndim + d] = size == 1 ? 0 : step;
    step *= size;
  }
  if (mmc_matrix_stack(matrix, dtype, all->ndim, all->shape, strides, NULL)) return CLI_DONE;
  const int64_t tables = s->each ? s->times : 1;
  if (factors->addresses[i] == NULL)
    factors->addresses[i] =
        calloc((size_t)batch * (size_t)tables + 1, sizeof *factors->addresses[i]);
  if (factors->addresses[i] == NULL)
    return cli_fail_memory(call, "a table of addresses takes", 8 * (double)batch * (double)tables);
  mmc_matrix_stack(matrix, dtype, all->ndim, all->shape, strides,
                   factors->addresses[i] + t * batch);
  return CLI_DONE;
}

/* ---- the chain ------------------------------------------------------------------------------- */

/* The place of one factor in the chain. */
typedef struct place {
  mmc_op op;
  int64_t rows, cols; /* rows and columns of op(A) */
} place;

/* Turns a vector as its place in the chain asks: it is stored as 1 x k, and its elements are also
 * those of k x 1. */
static place place_vector(bool first, mmc_op op, mmc_matrix *matrix) {
  int64_t k = matrix->cols;
  if (!first) return (place){.op = op == MMC_OP_H ? MMC_OP_H : MMC_OP_T, .rows = k, .cols = 1};
  if (op == MMC_OP_H)
    *matrix =
        (mmc_matrix){.data = matrix->data, .rows = k, .cols = 1, .ld = 1, .layout = MMC_ROW_MAJOR};
  return (place){.op = op == MMC_OP_H ? MMC_OP_H : MMC_OP_N, .rows = 1, .cols = k};
}

static place place_matrix(mmc_op op, const mmc_matrix *matrix) {
  bool turned = op != MMC_OP_N;
  return (place){.op = op,
                 .rows = turned ? matrix->cols : matrix->rows,
                 .cols = turned ? matrix->rows : matrix->cols};
}

/* The factors while they are put together, one after the other. */
typedef struct assembly {
  cli_factor_spec *specs; /* count specs */
  int64_t *from;          /* the argument that each of n factors comes from */
  mmc_op *ops;            /* n ops */
  int64_t *dims;          /* n + 1 dims */
  int64_t *same;          /* for each of n factors, the first that is the same */
  int64_t *stored;        /* for each of n factors, the first that is stored in its matrix */
  uint32_t *traits;       /* n sets of traits */
  mmc_band *bands;        /* n */
  bool *shared;           /* for each of n factors, whether all chains of the batch share it */
  bool repeats;
  bool structured; /* anything is said of any factor, or one has another op than one before */
  int vectors;
} assembly;

/* Returns the first factor that comes from the same file, also with another op where any_op; every
 * vector, and every matrix of :each, stands for itself. */
static int64_t first_same(const cli_factors *factors, const assembly *a, int64_t i, bool any_op) {
  const char *path = factors->paths[a->from[i]];
  if (a->specs[a->from[i]].each) return i;
  for (int64_t j = 0; j < i; j++) {
    const bool alike = a->ops[j] == a->ops[i] && a->traits[j] == a->traits[i] &&
                       a->bands[j].below == a->bands[i].below &&
                       a->bands[j].above == a->bands[i].above && a->same[j] == j;
    if ((any_op ? a->stored[j] == j : alike) && !a->specs[a->from[j]].each &&
        mmc_file_ndim(factors->files[a->from[j]]) > 1 &&
        strcmp(factors->paths[a->from[j]], path) == 0)
      return j;
  }
  return i;
}

/* Notes what is said of factor i, which is square where it must be. */
static int add_traits(cli_call *call, const char *argument, int64_t i, assembly *a) {
  a->traits[i] = a->specs[a->from[i]].traits;
  a->bands[i] = a->specs[a->from[i]].band;
  a->structured = a->structured || a->traits[i] != 0;
  if ((a->traits[i] & ~(uint32_t)MMC_ZERO) == 0 || a->dims[i] == a->dims[i + 1]) return CLI_DONE;
  return cli_fail(call, CLI_BAD,
                  "%s: expected a square matrix for what is said of it, got %" PRId64 "x%" PRId64,
                  argument, a->dims[i], a->dims[i + 1]);
}

static int add_factor(cli_call *call, char **arguments, int64_t i, const mmc_matrix *stored,
                      cli_factors *factors, assembly *a) {
  const char *argument = arguments[a->from[i]];
  mmc_matrix *matrix = &factors->matrices[i];
  factors->names[i] = factors->paths[a->from[i]];
  *matrix = *stored;
  bool vector = mmc_file_ndim(factors->files[a->from[i]]) == 1;
  if (vector && i > 0 && i < factors->n - 1)
    return cli_fail(call, CLI_BAD,
                    "%s: a 1-D array of %" PRId64
                    " inside the chain: expected a matrix, vectors go at the ends",
                    argument, matrix->cols);
  a->vectors += vector;
  mmc_op op = a->specs[a->from[i]].op;
  place p = vector ? place_vector(i == 0, op, matrix) : place_matrix(op, matrix);
  if (i > 0 && a->dims[i] != p.rows)
    return cli_fail(call, CLI_BAD,
                    "%s is %" PRId64 "x%" PRId64 " and %s is %" PRId64 "x%" PRId64
                    ": expected %" PRId64 " rows in the second, got %" PRId64,
                    arguments[a->from[i - 1]], a->dims[i - 1], a->dims[i], argument, p.rows, p.cols,
                    a->dims[i], p.rows);
  a->dims[i] = p.rows;
  a->dims[i + 1] = p.cols;
  a->ops[i] = p.op;
  int result = add_traits(call, argument, i, a);
  if (result != CLI_DONE) return result;
  a->same[i] = vector ? i : first_same(factors, a, i, false);
  a->stored[i] = vector ? i : first_same(factors, a, i, true);
  if (a->stored[i] != i) *matrix = factors->matrices[a->stored[i]];
  a->repeats = a->repeats || a->same[i] != i;
  a->structured = a->structured || a->stored[i] != a->same[i];
  a->shared[i] = matrix->stride == 0 && matrix->addresses == NULL;
  return CLI_DONE;
}

static void shape_result(cli_factors *factors, const assembly *a, const stack *all) {
  int ndim = all->ndim;
  int64_t last = factors->n - 1;
  bool row = mmc_file_ndim(factors->files[0]) > 1;
  bool column = mmc_file_ndim(factors->files[a->from[last]]) > 1;
  if (last == 0 && !row) column = true; /* a vector alone stays a vector */
  memcpy(factors->result_shape, all->shape, (size_t)ndim * sizeof *all->shape);
  if (row) factors->result_shape[ndim++] = a->dims[0];
  if (column) factors->result_shape[ndim++] = a->dims[last + 1];
  factors->result_ndim = ndim;
}

/* Numbers the groups by factors instead of arguments. A group of one factor is one of its traits.
 */
static void number_groups(const cli_factors *factors, assembly *a, cli_groups *groups) {
  int kept = 0;
  for (int g = 0; g < groups->inverse_count; g++) {
    mmc_inverse of = groups->inverses[g], to = {.first = factors->n, .last = -1};
    for (int64_t i = 0; i < factors->n; i++) {
      if (a->from[i] < of.first || a->from[i] > of.last) continue;
      if (i < to.first) to.first = i;
      to.last = i;
    }
    if (to.first == to.last)
      a->traits[to.first] ^= MMC_INVERSE;
    else
      groups->inverses[kept++] = to;
  }
  groups->inverse_count = kept;
}

/* Says why there is no chain, and of which file where it is about what is said of one. */
static int fail_chain(const cli_call *call, mmc_status status, char **arguments,
                      const cli_factors *factors, const assembly *a) {
  char about[16], where[512] = "";
  mmc_context_argument(call->context, about, sizeof about);
  const bool ops = strcmp(about, "ops") == 0, traits = strcmp(about, "traits") == 0;
  for (int64_t i = factors->n - 1; i >= 0; i--)
    if ((ops && a->ops[i] == MMC_OP_H) || (traits && a->traits[i] != 0))
      snprintf(where, sizeof where, "%s: ", arguments[a->from[i]]);
  return cli_fail_status(call, status, where);
}

static int assemble(cli_call *call, char **arguments, cli_groups *groups, cli_factors *factors,
                    assembly *a) {
  stack all = {0};
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  int result = CLI_DONE;
  for (int f = 0; f < factors->count && result == CLI_DONE; f++)
    result = join_stack(call, arguments[f], factors->files[f], a->specs[f].each, &all);
  if (result == CLI_DONE && !count_batch(&all, &options.batch))
    result = cli_fail(call, CLI_BAD, "%s: more chains than can be counted", arguments[0]);
  for (int64_t i = 0, f = 0; f < factors->count && result == CLI_DONE; f++) {
    mmc_matrix stored = stored_matrix(factors, f);
    for (int64_t t = 0; t < a->specs[f].times && result == CLI_DONE; t++, i++) {
      if (t == 0 || a->specs[f].each) {
        stored = stored_matrix(factors, f);
        result =
            spread_factor(call, (int)f, &a->specs[f], t, &all, options.batch, &stored, factors);
      }
      a->from[i] = f;
      if (result == CLI_DONE) result = add_factor(call, arguments, i, &stored, factors, a);
    }
  }
  if (result != CLI_DONE) return result;
  shape_result(factors, a, &all);
  if (a->repeats) options.same = a->same;
  options.shared = a->shared;
  if (a->structured || groups->inverse_count > 0) {
    number_groups(factors, a, groups);
    options.traits = a->traits;
    options.bands = a->bands;
    options.stored = a->stored;
    options.inverses = groups->inverses;
    options.inverse_count = groups->inverse_count;
  }
  options.modulus = factors->rule.modulus;
  options.checked = factors->rule.checked;
  options.semiring = factors->rule.semiring;
  mmc_status status = mmc_chain_create_batch(call->context, factors->dtype, factors->n, a->dims,
                                             a->ops, &options, &factors->chain);
  return status == MMC_OK ? CLI_DONE : fail_chain(call, status, arguments, factors, a);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void free_assembly(assembly *a) {
  free(a->specs);
  free(a->from);
  free(a->ops);
  free(a->dims);
  free(a->same);
  free(a->stored);
  free(a->traits);
  free(a->bands);
  free(a->shared);
}

/* Makes room for so many files. */
static bool allocate_files(int count, cli_factors *factors) {
  size_t f = (size_t)count;
  *factors = (cli_factors){.count = count,
                           .files = calloc(f, sizeof *factors->files),
                           .paths = calloc(f, sizeof *factors->paths),
                           .file_paths = calloc(f, sizeof *factors->file_paths),
                           .stamps = calloc(f, sizeof *factors->stamps),
                           .addresses = calloc(f, sizeof *factors->addresses),
                           .promoted = calloc(f, sizeof *factors->promoted)};
  if (factors->files != NULL && factors->paths != NULL && factors->file_paths != NULL &&
      factors->stamps != NULL && factors->addresses != NULL && factors->promoted != NULL)
    return true;
  factors->count = 0;
  return false;
}

/* Makes room for so many factors. */
static bool allocate_chain(int64_t n, cli_factors *factors, assembly *a) {
  size_t i = (size_t)n + 1;
  factors->n = n;
  factors->matrices = calloc(i, sizeof *factors->matrices);
  factors->names = calloc(i, sizeof *factors->names);
  a->from = calloc(i, sizeof *a->from);
  a->ops = calloc(i, sizeof *a->ops);
  a->dims = calloc(i, sizeof *a->dims);
  a->same = calloc(i, sizeof *a->same);
  a->stored = calloc(i, sizeof *a->stored);
  a->traits = calloc(i, sizeof *a->traits);
  a->bands = calloc(i, sizeof *a->bands);
  a->shared = calloc(i, sizeof *a->shared);
  return factors->matrices != NULL && factors->names != NULL && a->from != NULL && a->ops != NULL &&
         a->dims != NULL && a->same != NULL && a->stored != NULL && a->traits != NULL &&
         a->bands != NULL && a->shared != NULL;
}

/* Finds how many factors :each makes of a file. */
static int count_each(cli_call *call, const char *argument, const mmc_file *file,
                      cli_factor_spec *s) {
  const int ndim = mmc_file_ndim(file);
  if (!s->each) return CLI_DONE;
  if (ndim < 3)
    return cli_fail(call, CLI_BAD,
                    "%s: expected a stack, of three dimensions or more, whose matrices are the "
                    "factors, got %d",
                    argument, ndim);
  s->times = mmc_file_shape(file)[ndim - 3];
  if (s->times > 0) return CLI_DONE;
  return cli_fail(call, CLI_BAD, "%s: expected at least one matrix in the stack, got 0", argument);
}

/* Opens factors that stand in no parentheses. */
static int open_factors(cli_call *call, cli_groups *groups, bool promotes, cli_rule rule,
                        cli_factors *out) {
  const int count = groups->count;
  char **arguments = groups->arguments;
  assembly a = {.specs = calloc((size_t)count + 1, sizeof *a.specs)};
  if (a.specs == NULL) return cli_fail_memory(call, "the list of factors takes", (double)count);
  cli_factors factors = {0};
  int64_t n = 0;
  int status = CLI_DONE;
  for (int i = 0; i < count && status == CLI_DONE; i++)
    status = cli_factor_read(call, arguments[i], &a.specs[i]);
  if (status == CLI_DONE && !allocate_files(count, &factors))
    status = cli_fail_memory(call, "the list of files takes", (double)count);
  factors.rule = rule;
  for (int i = 0; i < count && status == CLI_DONE; i++) {
    if (n + a.specs[i].times <= FACTORS_MAX)
      status = open_one(call, i, arguments[i], &a.specs[i], &factors);
    if (status == CLI_DONE && factors.files[i] != NULL)
      status = count_each(call, arguments[i], factors.files[i], &a.specs[i]);
    n += a.specs[i].times;
    if (status == CLI_DONE && n > FACTORS_MAX)
      status = cli_fail(call, CLI_BAD, "%s: expected at most %d factors in all, got %" PRId64,
                        arguments[i], FACTORS_MAX, n);
  }
  if (status == CLI_DONE) status = promote(call, count, arguments, promotes, &factors);
  if (status == CLI_DONE && !allocate_chain(n, &factors, &a))
    status = cli_fail_memory(call, "the list of factors takes", (double)n * sizeof(mmc_matrix));
  if (status == CLI_DONE) status = assemble(call, arguments, groups, &factors, &a);
  free_assembly(&a);
  if (status == CLI_DONE)
    *out = factors;
  else
    cli_factors_close(&factors);
  return status;
}

int cli_factors_open(cli_call *call, int count, char **arguments, bool promotes, cli_rule rule,
                     cli_factors *out) {
  cli_groups groups;
  int status = cli_groups_open(call, count, arguments, &groups);
  if (status != CLI_DONE) return status;
  status = open_factors(call, &groups, promotes, rule, out);
  cli_groups_free(&groups);
  return status;
}

void cli_factors_close(cli_factors *factors) {
  mmc_chain_destroy(factors->chain);
  for (int64_t i = 0; i < factors->count; i++) {
    cli_mapped_forget(mmc_file_matrix(factors->files[i]).data);
    mmc_file_destroy(factors->files[i]);
    free(factors->paths[i]);
    free(factors->file_paths[i]);
    free(factors->addresses[i]);
    free(factors->promoted[i]);
  }
  free(factors->files);
  free(factors->stamps);
  free(factors->paths);
  free(factors->file_paths);
  free(factors->addresses);
  free(factors->promoted);
  free(factors->matrices);
  free(factors->names);
  *factors = (cli_factors){0};
}
