/* scan.c: `mmchain scan` writes all running products of the matrices in a file.
 *
 * Everything is computed and, with --check, verified before the result is written, in one piece. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "factors.h"
#include "options.h"
#include "random.h"
#include "reference.h"
#include "running.h"

static const char help[] =
    "usage: mmchain scan T.npy -o P.npy [options]\n"
    "\n"
    "Writes all running products A1, A1 A2, ..., A1...AT of a stack of T square matrices, as a\n"
    "stack. Of an array of more than three dimensions every stack in the last three is a chain of\n"
    "its own. Elements are float16, float32, float64, complex64, complex128, integers or bool; -\n"
    "is standard input or output. Files are in the formats that mmchain multiply takes.\n"
    "\n"
    "  -o FILE          where the products go, in the format of its name\n"
    "  --reverse        from the end: A1...AT, A2...AT, ..., AT\n"
    "  --exclusive      each without its own factor: the identity, A1, A1 A2, ...\n"
    "  --initial I.npy  a matrix that goes before the first factor, or after the last with\n"
    "                   --reverse; of several stacks, one for all of them or one for each\n"
    "  --semiring NAME  max-plus, min-plus (f32, f64, i64), log (f32, f64: log-sum-exp) or or-and\n"
    "                   (bool) in place of sums and products\n"
    "  --scaled FILE    every product is that of -o times a power of two, whose exponent goes to\n"
    "                   FILE, so that products neither overflow nor vanish\n"
    "  --on DEVICE      cpu (the best there is), blas, ref, cuda or cuda:N; see mmchain info\n"
    "  --explain        tell first, on standard error, how it is computed and why\n"
    "  --check          verify every product P_t from the one before, P_t x = P_(t-1) (A_t x) for\n"
    "                   a random x, before writing; over a semiring and of integers they are\n"
    "                   computed anew from left to right\n"
    "  --json           how it is computed and the residual, as an object on standard output\n"
    "  --no-sync        do not wait until the result has reached the disk; a power failure may\n"
    "                   then leave neither it nor the file of before\n"
    "  -h, --help       this text\n";

enum {
  OPTION_REVERSE = CLI_OPTION_OWN,
  OPTION_EXCLUSIVE,
  OPTION_INITIAL,
  OPTION_EXPLAIN,
  OPTION_CHECK,
  OPTION_SEMIRING,
  OPTION_SCALED
};

static const struct option options[] = {
    {"output", required_argument, NULL, CLI_OPTION_OUT},
    {"reverse", no_argument, NULL, OPTION_REVERSE},
    {"exclusive", no_argument, NULL, OPTION_EXCLUSIVE},
    {"initial", required_argument, NULL, OPTION_INITIAL},
    {"semiring", required_argument, NULL, OPTION_SEMIRING},
    {"scaled", required_argument, NULL, OPTION_SCALED},
    {"on", required_argument, NULL, CLI_OPTION_ON},
    {"explain", no_argument, NULL, OPTION_EXPLAIN},
    {"check", no_argument, NULL, OPTION_CHECK},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"no-sync", no_argument, NULL, CLI_OPTION_NO_SYNC},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* What is asked for, and what comes of it. */
typedef struct scanning {
  mmc_scan_options scan_options;
  const char *input, *output, *initial_name, *exponents_name;
  bool explain, check, json;
  mmc_file *file, *initial;
  char *paths[2]; /* of the two files */
  cli_stamp stamps[2];
  mmc_dtype dtype;
  int64_t n, length;
  mmc_scan *scan;
  mmc_scan_operands operands;
  cli_running_residual residual;
} scanning;

/* ---- the files ------------------------------------------------------------------------------- */

static int read_stack(cli_call *call, scanning *job) {
  int result = cli_array_open(call, "the stack ", job->input, job->input, &job->paths[0],
                              &job->stamps[0], &job->file);
  if (result != CLI_DONE) return result;
  const int ndim = mmc_file_ndim(job->file);
  const int64_t *shape = mmc_file_shape(job->file);
  if (ndim < 3 || shape[ndim - 1] != shape[ndim - 2])
    return cli_fail(call, CLI_BAD,
                    "%s: expected a stack of square matrices, of three dimensions or more",
                    job->input);
  job->dtype = mmc_file_dtype(job->file);
  job->n = shape[ndim - 1];
  job->length = shape[ndim - 3];
  job->scan_options.batch = 1;
  for (int d = 0; d < ndim - 3; d++) job->scan_options.batch *= shape[d];
  job->operands.factors = mmc_file_matrix(job->file);
  job->operands.factors_step = job->operands.factors.stride;
  job->operands.factors.stride *= job->length;
  return CLI_DONE;
}

static int read_initial(cli_call *call, scanning *job) {
  if (job->initial_name == NULL) return CLI_DONE;
  int result = cli_array_open(call, "", "--initial", job->initial_name, &job->paths[1],
                              &job->stamps[1], &job->initial);
  if (result != CLI_DONE) return result;
  const int ndim = mmc_file_ndim(job->initial), stacks = mmc_file_ndim(job->file) - 3;
  const int64_t *shape = mmc_file_shape(job->initial), *all = mmc_file_shape(job->file);
  bool fits = ndim == 2 || ndim == stacks + 2;
  for (int d = 0; fits && ndim > 2 && d < stacks; d++) fits = shape[d] == all[d];
  if (!fits || ndim < 2 || shape[ndim - 1] != job->n || shape[ndim - 2] != job->n)
    return cli_fail(call, CLI_BAD,
                    "--initial: expected a matrix of %" PRId64 "x%" PRId64
                    ", or one for each stack of %s",
                    job->n, job->n, job->input);
  if (mmc_file_dtype(job->initial) != job->dtype)
    return cli_fail(call, CLI_BAD, "--initial: expected elements of %s, as in %s, got %s",
                    mmc_dtype_name(job->dtype), job->input,
                    mmc_dtype_name(mmc_file_dtype(job->initial)));
  job->scan_options.initial = true;
  job->operands.initial = mmc_file_matrix(job->initial);
  if (ndim == 2) job->operands.initial.stride = 0;
  return CLI_DONE;
}

static int check_output(cli_call *call, const scanning *job) {
  if (job->output == NULL)
    return cli_fail(call, CLI_BAD, "-o: expected where the products go, as in -o P.npy or -o -");
  if (strcmp(job->output, "-") == 0)
    return job->json
               ? cli_fail(call, CLI_BAD, "-o: expected a file, as standard output takes --json")
               : CLI_DONE;
  return cli_check_matrix_output(call, "-o", job->output, job->dtype, mmc_file_ndim(job->file));
}

/* ---- the work -------------------------------------------------------------------------------- */

static int prepare(cli_call *call, scanning *job) {
  mmc_status status = mmc_scan_create(call->context, job->dtype, job->n, job->length,
                                      &job->scan_options, &job->scan);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  mmc_matrix *out = &job->operands.out;
  const int64_t all = job->scan_options.batch * job->length;
  *out = (mmc_matrix){.rows = job->n, .cols = job->n};
  if (!cli_matrix_allocate(job->dtype, all, out))
    return cli_fail_memory(call, "the products take",
                           cli_matrix_bytes(job->dtype, all, job->n, job->n));
  if (job->exponents_name != NULL) {
    job->operands.exponents = malloc((size_t)(all > 0 ? all : 1) * sizeof *job->operands.exponents);
    if (job->operands.exponents == NULL)
      return cli_fail_memory(call, "the exponents take", 8.0 * (double)all);
  }
  job->operands.out_step = job->n * job->n;
  out->stride = job->operands.out_step * job->length;
  if (!job->explain) return CLI_DONE;
  cli_stream diagnostics = {.file = stderr};
  status = mmc_scan_explain(job->scan, MMC_TEXT, cli_stream_write, &diagnostics);
  return status == MMC_OK ? CLI_DONE : cli_fail_write(call, status, "");
}

/* Compares products with others that are computed otherwise. */
static int compare_products(cli_call *call, scanning *job) {
  cli_residual residual;
  int result = cli_reference_scan(call, job->dtype, job->n, job->length, &job->scan_options,
                                  &job->operands, &residual);
  job->residual.value = residual.value;
  job->residual.checked = residual.chains;
  return result == CLI_DONE ? cli_reference_tell(call, &residual) : result;
}

static int check_products(cli_call *call, scanning *job) {
  if (job->scan_options.semiring != MMC_PLUS_TIMES || cli_dtype_is_integer(job->dtype))
    return compare_products(call, job);
  const cli_running running = {.dtype = job->dtype,
                               .n = job->n,
                               .length = job->length,
                               .batch = job->scan_options.batch,
                               .reverse = job->scan_options.reverse,
                               .exclusive = job->scan_options.exclusive,
                               .initial = job->scan_options.initial,
                               .operands = &job->operands};
  if (!cli_running_check(&running, &job->residual))
    return cli_fail_memory(call, "the check takes", 64.0 * (double)job->n);
  const cli_running_residual *r = &job->residual;
  fprintf(stderr,
          "relative residual: %.2e (tolerance %.2e, seed %d, the worst of %" PRId64 " products",
          r->value, r->tolerance, CLI_CHECK_SEED, r->checked);
  if (r->skipped > 0)
    fprintf(stderr, ", %" PRId64 " more left out for NaN or infinity", r->skipped);
  if (r->vanished > 0)
    fprintf(stderr, ", %" PRId64 " more left out as too small for %s", r->vanished,
            mmc_dtype_name(job->dtype));
  fprintf(stderr, ")\n");
  if (r->value <= r->tolerance) return CLI_DONE;
  return cli_fail(call, CLI_FAILED,
                  "--check: the relative residual %.2e exceeds the tolerance %.2e: nothing is "
                  "written",
                  r->value, r->tolerance);
}

static int compute(cli_call *call, scanning *job) {
  mmc_status status = mmc_scan_execute(job->scan, &job->operands);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  int result = job->check ? check_products(call, job) : CLI_DONE;
  const char *names[] = {job->input, job->initial_name};
  for (int i = 0; i < 2 && result == CLI_DONE; i++)
    if (names[i] != NULL && cli_stamp_changed(job->paths[i], &job->stamps[i]))
      result = cli_fail(call, CLI_BAD, "%s: changed while being read", names[i]);
  return result;
}

/* ---- after ----------------------------------------------------------------------------------- */

static int write_products(cli_call *call, const scanning *job) {
  const int ndim = mmc_file_ndim(job->file);
  const int64_t *shape = mmc_file_shape(job->file), all = job->scan_options.batch * job->length;
  mmc_matrix stack = job->operands.out;
  stack.stride = job->operands.out_step;
  if (strcmp(job->output, "-") != 0)
    return cli_matrix_save(call, "-o", job->output, job->dtype, &stack, all, ndim, shape);
  mmc_status status = mmc_file_stream_stack(call->context, job->dtype, &stack, all, ndim, shape,
                                            cli_stream_write, &call->out);
  if (call->out.error != 0) return CLI_DONE; /* main() says why */
  return status == MMC_OK ? CLI_DONE : cli_fail_write(call, status, "-o: ");
}

/* Prints the object that explains, with the residual added at its end. */
static int print_json(cli_call *call, const scanning *job) {
  cli_buffer text = {0};
  mmc_status status = mmc_scan_explain(job->scan, MMC_JSON, cli_buffer_write, &text);
  char *brace = status == MMC_OK ? strrchr(text.bytes, '}') : NULL;
  if (brace != NULL) {
    cli_stream_write(&call->out, text.bytes, (size_t)(brace - text.bytes));
    if (job->check)
      cli_print(&call->out, ", \"residual\": %.6g, \"checked\": %" PRId64 "}\n",
                job->residual.value, job->residual.checked);
    else
      cli_print(&call->out, ", \"residual\": null, \"checked\": null}\n");
  }
  cli_buffer_free(&text);
  return status == MMC_OK ? CLI_DONE : cli_buffer_fail(call, status);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Says which options do not go together. */
static int check_options(cli_call *call, const scanning *job) {
  if (job->exponents_name == NULL) return CLI_DONE;
  if (strcmp(job->exponents_name, "-") == 0)
    return cli_fail(call, CLI_BAD, "--scaled: expected a file of its own for the exponents");
  return CLI_DONE;
}

static int check_exponents(cli_call *call, const scanning *job) {
  if (job->exponents_name == NULL) return CLI_DONE;
  return cli_check_matrix_output(call, "--scaled", job->exponents_name, MMC_I64,
                                 mmc_file_ndim(job->file) - 2);
}

/* Writes the exponents in the shape of the products. It comes after these: where they cannot be
 * written, the exponents of before stay. */
static int write_exponents(cli_call *call, const scanning *job) {
  if (job->exponents_name == NULL) return CLI_DONE;
  const mmc_matrix matrix = {.data = job->operands.exponents, .rows = 1, .cols = 1, .stride = 1};
  return cli_matrix_save(call, "--scaled", job->exponents_name, MMC_I64, &matrix,
                         job->scan_options.batch * job->length, mmc_file_ndim(job->file) - 2,
                         mmc_file_shape(job->file));
}

static int scan_file(cli_call *call, scanning *job, int count, char **arguments) {
  if (count != 1)
    return cli_fail(call, CLI_BAD, "expected one file of a stack of matrices, got %d", count);
  job->input = arguments[0];
  int result = check_options(call, job);
  if (result == CLI_DONE) result = read_stack(call, job);
  if (result == CLI_DONE) result = read_initial(call, job);
  if (result == CLI_DONE) result = check_output(call, job);
  if (result == CLI_DONE) result = check_exponents(call, job);
  if (result == CLI_DONE) result = prepare(call, job);
  if (result == CLI_DONE) result = compute(call, job);
  if (result == CLI_DONE) result = write_products(call, job);
  if (result == CLI_DONE) result = write_exponents(call, job);
  if (result == CLI_DONE && job->json) result = print_json(call, job);
  return result;
}

static int run(cli_call *call, int argc, char **argv) {
  scanning job = {.scan_options = MMC_SCAN_OPTIONS_INIT, .operands = MMC_SCAN_OPERANDS_INIT};
  for (int code; (code = cli_option_next(call, argc, argv, options)) != CLI_OPTION_END;) {
    switch (code) {
      case CLI_OPTION_OUT:
        job.output = optarg;
        break;
      case OPTION_REVERSE:
        job.scan_options.reverse = true;
        break;
      case OPTION_EXCLUSIVE:
        job.scan_options.exclusive = true;
        break;
      case OPTION_INITIAL:
        job.initial_name = optarg;
        break;
      case CLI_OPTION_ON:
        job.scan_options.device = optarg;
        break;
      case OPTION_SEMIRING:
        if (!cli_semiring(call, optarg, &job.scan_options.semiring)) return CLI_BAD;
        break;
      case OPTION_SCALED:
        job.exponents_name = optarg;
        job.scan_options.scaled = true;
        break;
      case OPTION_EXPLAIN:
        job.explain = true;
        break;
      case OPTION_CHECK:
        job.check = true;
        break;
      case CLI_OPTION_JSON:
        job.json = true;
        break;
      case CLI_OPTION_HELP:
        return cli_help(call);
      default:
        return CLI_BAD;
    }
  }
  int result = scan_file(call, &job, argc - optind, argv + optind);
  mmc_scan_destroy(job.scan);
  free(job.operands.out.data);
  free(job.operands.exponents);
  free(job.paths[0]);
  free(job.paths[1]);
  mmc_file_destroy(job.initial);
  mmc_file_destroy(job.file);
  return result;
}

const cli_command cli_scan = {
    .name = "scan",
    .summary = "write all running products of a stack of matrices",
    .help = help,
    .run = run,
};
