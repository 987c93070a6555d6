#include "factors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char extension[] = ".npy";

/* Where the op of "A.npy:T" begins, at its colon; the end when there is none. */
static const char *op_of(const char *argument) {
  size_t length = strlen(argument);
  if (length >= 2 && argument[length - 2] == ':' && strchr("NTH", argument[length - 1]) != NULL)
    return argument + length - 2;
  return argument + length;
}

bool cli_factor_is_file(const char *argument) {
  const char *found = NULL;
  for (const char *at = argument; (at = strstr(at, extension)) != NULL; at++) found = at;
  if (found == NULL) return false;
  char after = found[sizeof extension - 1];
  return after == '\0' || after == ':';
}

static bool is_standard_input(const char *argument) {
  return argument[0] == '-' && op_of(argument) == argument + 1;
}

/* What one factor brings to the chain. */
typedef struct place {
  mmc_op op;
  int64_t rows, cols; /* of op(A) */
} place;

/* Turns a vector the way that its place in the chain asks for: as it is stored, it is 1 x k, and
 * its elements may as well be taken for k x 1. */
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

static int open_one(cli_call *call, int i, const char *argument, cli_factors *factors) {
  const char *op = op_of(argument);
  factors->paths[i] = strndup(argument, (size_t)(op - argument));
  if (factors->paths[i] == NULL) return cli_fail_memory(call, "a file name takes", 1.0);
  const char *path = factors->paths[i];
  const char *wrong_op = strstr(path, ".npy:");
  if (wrong_op != NULL && cli_factor_is_file(argument))
    return cli_fail(call, CLI_BAD, "%s: expected N, T or H after the colon, got '%s'", argument,
                    wrong_op + sizeof extension);
  if (is_standard_input(argument)) path = "/dev/stdin";
  mmc_status status = mmc_file_open(call->context, path, &factors->files[i]);
  return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, "");
}

static int check_standard_input(cli_call *call, int count, char **arguments) {
  int times = 0;
  for (int i = 0; i < count; i++) times += is_standard_input(arguments[i]);
  if (times <= 1) return CLI_DONE;
  return cli_fail(call, CLI_BAD, "-: standard input can be only one of the factors");
}

static int check_dtypes(cli_call *call, int count, char **arguments, const cli_factors *factors) {
  mmc_dtype dtype = mmc_file_dtype(factors->files[0]);
  for (int i = 1; i < count; i++)
    if (mmc_file_dtype(factors->files[i]) != dtype)
      return cli_fail(call, CLI_BAD, "%s is %s and %s is %s: expected the same dtype everywhere",
                      arguments[0], mmc_dtype_name(dtype), arguments[i],
                      mmc_dtype_name(mmc_file_dtype(factors->files[i])));
  return CLI_DONE;
}

static int assemble(cli_call *call, int count, char **arguments, cli_factors *factors, mmc_op *ops,
                    int64_t *dims) {
  int vectors = 0;
  for (int i = 0; i < count; i++) {
    const mmc_file *file = factors->files[i];
    const char *op_text = op_of(arguments[i]);
    mmc_op op = *op_text == '\0' || op_text[1] == 'N' ? MMC_OP_N
                : op_text[1] == 'T'                   ? MMC_OP_T
                                                      : MMC_OP_H;
    factors->matrices[i] = mmc_file_matrix(file);
    bool vector = mmc_file_ndim(file) == 1, end = i == 0 || i == count - 1;
    if (vector && !end)
      return cli_fail(call, CLI_BAD,
                      "%s: a 1-D array of %" PRId64
                      " inside the chain: expected a matrix, vectors go at the ends",
                      arguments[i], factors->matrices[i].cols);
    vectors += vector;
    place p = vector ? place_vector(i == 0, op, &factors->matrices[i])
                     : place_matrix(op, &factors->matrices[i]);
    if (i > 0 && dims[i] != p.rows)
      return cli_fail(call, CLI_BAD,
                      "%s is %" PRId64 "x%" PRId64 " and %s is %" PRId64 "x%" PRId64
                      ": expected %" PRId64 " rows in the second, got %" PRId64,
                      arguments[i - 1], dims[i - 1], dims[i], arguments[i], p.rows, p.cols, dims[i],
                      p.rows);
    dims[i] = p.rows;
    dims[i + 1] = p.cols;
    ops[i] = p.op;
  }
  factors->result_ndim = count == 1 && vectors == 1 ? 1 : 2 - vectors;
  mmc_status status = mmc_chain_create(call->context, mmc_file_dtype(factors->files[0]), count,
                                       dims, ops, &factors->chain);
  return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, "");
}

int cli_factors_open(cli_call *call, int count, char **arguments, cli_factors *out) {
  size_t n = (size_t)count;
  cli_factors factors = {
      .n = count,
      .files = calloc(n, sizeof *factors.files),
      .paths = calloc(n, sizeof *factors.paths),
      .matrices = calloc(n, sizeof *factors.matrices),
  };
  mmc_op *ops = calloc(n, sizeof *ops);
  int64_t *dims = calloc(n + 1, sizeof *dims);
  if (factors.files == NULL || factors.paths == NULL || factors.matrices == NULL || ops == NULL ||
      dims == NULL) {
    factors.n = 0;
    cli_factors_close(&factors);
    free(ops);
    free(dims);
    return cli_fail_memory(call, "the list of factors takes", (double)n * sizeof(mmc_matrix));
  }
  int status = check_standard_input(call, count, arguments);
  for (int i = 0; i < count && status == CLI_DONE; i++)
    status = open_one(call, i, arguments[i], &factors);
  if (status == CLI_DONE) status = check_dtypes(call, count, arguments, &factors);
  if (status == CLI_DONE) status = assemble(call, count, arguments, &factors, ops, dims);
  free(ops);
  free(dims);
  if (status == CLI_DONE)
    *out = factors;
  else
    cli_factors_close(&factors);
  return status;
}

void cli_factors_close(cli_factors *factors) {
  mmc_chain_destroy(factors->chain);
  for (int64_t i = 0; i < factors->n; i++) {
    mmc_file_destroy(factors->files[i]);
    free(factors->paths[i]);
  }
  free(factors->files);
  free(factors->paths);
  free(factors->matrices);
  *factors = (cli_factors){0};
}
