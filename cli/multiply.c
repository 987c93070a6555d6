/* multiply.c: `mmchain multiply` multiplies .npy files in the cheapest order.
 *
 * Everything is computed and, with --check, verified before the result is written, in one piece. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "energy.h"
#include "exact.h"
#include "factors.h"
#include "options.h"
#include "progress.h"
#include "random.h"
#include "reference.h"
#include "solves.h"
#include "sparse.h"
#include "structure.h"
#include "team.h"
#include "timing.h"

static const char help[] =
    "usage: mmchain multiply A.npy B.npy:T C.npy^8 L.npy:lower:inv ... -o R.npy [options]\n"
    "\n"
    "Multiplies matrices in the cheapest order. A file's name may be followed by an op: :T for "
    "the\n"
    "transposed matrix, :H for the conjugate transposed; ^8, last, repeats it. Before an op may\n"
    "stand what the matrix is, :lower, :upper, :unit, :diagonal, :symmetric, :hermitian, :spd,\n"
    ":tridiagonal, ':banded(1,2)', :orthogonal, :permutation, :identity or :zero, and behind all\n"
    ":inv, its inverse; '(X.npy:T X.npy):inv' is the inverse of a product. Inverses are solved\n"
    "with, of the dtypes f32, f64, c64 and c128. A 1-D array is a\n"
    "row at the beginning, a column at the end. Arrays of more dimensions are stacks of matrices,\n"
    "multiplied together and broadcast as numpy.matmul does; of a stack A.npy:each the matrices "
    "are\n"
    "the factors, one after the other. Elements are float16, float32, float64, complex64,\n"
    "complex128, integers or bool; of several, all are promoted as by\n"
    "numpy.result_type(), but integers go with integers alone. Integers wrap around as "
    "NumPy's\n"
    "do, unless --checked or --mod says otherwise. - is standard input; with one factor the "
    "result\n"
    "is a copy.\n"
    "\n"
    "Where a file holds a sparse matrix (.mtx of coordinates, .npz of scipy.sparse.save_npz), the\n"
    "order goes by the nonzeros, and -o R.npz or R.mtx is sparse when all factors are. With\n"
    "options that go with dense matrices alone, as --memory-limit, it is read as a dense one.\n"
    "\n"
    "Files may be of other formats, see mmchain info: .npz, "
    ".safetensors,\n"
    ".h5 or .hdf5, .mat, .mtx. Of a file with several arrays a colon and a name say which, as in\n"
    "w.npz:w1 and data.h5:/layer/w:T. A name that ends with :N, :T or :H ends with an op; but "
    "where\n"
    "an array is called T, w.npz:T is that one among several, and w.npz:T:N in any case.\n"
    "\n";

static const char options_help[] =
    "  -o FILE              where the result goes, in the format of its name; - is standard "
    "output,\n"
    "                       as .npy\n"
    "  --for OBJECTIVE      time (the default), flops (that of --reproducible, --semiring and\n"
    "                       --scaled), traffic or energy; see mmchain plan --help\n"
    "  --max-slowdown X     with --for energy, at most so many times the time of the plan for "
    "time\n"
    "  --on DEVICE          cpu (the best there is), blas, ref, cuda or cuda:N; see mmchain info;\n"
    "                       cuda:all or cuda:0,1, several GPUs together;\n"
    "                       scalapack, on all ranks that mpirun or srun has started\n"
    "  --precision NAME     native, faithful (as accurate) or fast (TF32 for f32 on a GPU)\n"
    "  --reproducible       the same bits on every device (of 16-bit floats: on every one of a "
    "kind),\n"
    "                       by any number of threads, in any batch and memory; with --precision\n"
    "                       faithful large products by whole numbers, for GPUs:\n"
    "                       see docs/reproducible.md\n"
    "  --tolerance X        as little work as surely keeps the result within X of the product of\n"
    "                       the factors' lengths: docs/faithful.md\n"
    "  --solver NAME        auto, hu-shing, table, brute (at most 12 factors) or left-to-right\n"
    "  --order ORDER        the order itself, as plan prints it: '((A1 A2) (A3 A4))'\n"
    "  --mod P              integers modulo P, 1 to 2^63 - 1: i64 unless all files are u64\n"
    "  --checked            fail where an integer of a product exceeds its dtype, and name the "
    "product\n"
    "  --semiring NAME      max-plus, min-plus, log or or-and for sums and products\n"
    "  --scaled FILE        exponents of 2 go to FILE: nothing overflows or vanishes\n"
    "  --plan FILE          the steps that plan --json has written, or an error that says what no\n"
    "                       longer fits; --mod, --checked and --semiring are the plan's; - is\n"
    "                       standard input\n"
    "  --memory-limit BYTES workspace that the intermediates may take; 64M, 2GiB; with --on "
    "scalapack\n"
    "                       all that a rank holds\n"
    "  --device-memory BYTES\n"
    "                       what the chain may take of a GPU's memory; what does not fit is\n"
    "                       streamed\n"
    "  --explain            tell the plan first, on standard error\n"
    "  --check              verify R t = A1 (A2 (... (An t))) for a random t before writing, of\n"
    "                       every chain; and what is said of factors\n"
    "  --energy             measure the joules too, for two seconds\n"
    "  --meter NAME         --energy by another meter than the device's; see mmchain info\n"
    "  --json               the plan, the time, the joules and the residual\n"
    "  --no-sync            do not wait for the disk; a power failure may leave neither the\n"
    "                       result nor the file of before\n"
    "  -h, --help           this text\n";

enum {
  OPTION_EXPLAIN = CLI_OPTION_OWN,
  OPTION_CHECK,
  OPTION_CHECKED,
  OPTION_MOD,
  OPTION_PLAN,
  OPTION_SCALED,
  OPTION_SEMIRING
};

static const struct option options[] = {
    {"output", required_argument, NULL, CLI_OPTION_OUT},
    {"for", required_argument, NULL, CLI_OPTION_FOR},
    {"on", required_argument, NULL, CLI_OPTION_ON},
    {"solver", required_argument, NULL, CLI_OPTION_SOLVER},
    {"order", required_argument, NULL, CLI_OPTION_ORDER},
    {"plan", required_argument, NULL, OPTION_PLAN},
    {"memory-limit", required_argument, NULL, CLI_OPTION_MEMORY_LIMIT},
    {"device-memory", required_argument, NULL, CLI_OPTION_DEVICE_MEMORY},
    {"precision", required_argument, NULL, CLI_OPTION_PRECISION},
    {"reproducible", no_argument, NULL, CLI_OPTION_REPRODUCIBLE},
    {"tolerance", required_argument, NULL, CLI_OPTION_TOLERANCE},
    {"max-slowdown", required_argument, NULL, CLI_OPTION_MAX_SLOWDOWN},
    {"explain", no_argument, NULL, OPTION_EXPLAIN},
    {"check", no_argument, NULL, OPTION_CHECK},
    {"checked", no_argument, NULL, OPTION_CHECKED},
    {"mod", required_argument, NULL, OPTION_MOD},
    {"semiring", required_argument, NULL, OPTION_SEMIRING},
    {"scaled", required_argument, NULL, OPTION_SCALED},
    {"energy", no_argument, NULL, CLI_OPTION_ENERGY},
    {"meter", required_argument, NULL, CLI_OPTION_METER},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"no-sync", no_argument, NULL, CLI_OPTION_NO_SYNC},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* What is asked for, and what comes of it. */
typedef struct multiplication {
  mmc_plan_options plan_options;
  const char *output;
  const char *plan_path;      /* of a saved plan, or NULL */
  cli_buffer saved;           /* the text of it */
  const char *exponents_name; /* where exponents go, or NULL */
  int64_t *exponents;         /* one for each chain */
  bool explain, check, json;
  cli_rule rule;
  cli_factors factors;
  mmc_plan *plan;
  mmc_matrix result;
  double seconds;
  cli_energy energy;
  mmc_energy joules;
  cli_residual residual;
  cli_stage stage;
} multiplication;

/* ---- before ---------------------------------------------------------------------------------- */

static int check_output(cli_call *call, const multiplication *job) {
  if (job->output == NULL)
    return cli_fail(call, CLI_BAD, "-o: expected where the result goes, as in -o R.npy or -o -");
  if (strcmp(job->output, "-") == 0) {
    if (job->json)
      return cli_fail(call, CLI_BAD, "-o: expected a file, as standard output takes --json");
    return CLI_DONE;
  }
  return cli_check_matrix_output(call, "-o", job->output, mmc_chain_dtype(job->factors.chain),
                                 job->factors.result_ndim);
}

/* ---- the work -------------------------------------------------------------------------------- */

/* Plans what the saved plan says, for a chain, or for its own where chain is NULL. */
static int plan_saved(cli_call *call, const multiplication *job, const mmc_chain *chain,
                      mmc_plan **out) {
  const cli_buffer *text = &job->saved;
  mmc_status status = mmc_plan_read(call->context, text->bytes != NULL ? text->bytes : "",
                                    text->size, chain, &job->plan_options, out);
  return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, "");
}

/* Takes the arithmetic of the saved plan where none is asked for: the files do not tell it. */
static int take_rule(cli_call *call, multiplication *job) {
  cli_rule *rule = &job->rule;
  if (rule->checked || rule->modulus != 0 || rule->semiring != MMC_PLUS_TIMES) return CLI_DONE;
  mmc_plan *plan;
  int result = plan_saved(call, job, NULL, &plan);
  if (result != CLI_DONE) return result;
  const mmc_chain *chain = mmc_plan_chain(plan);
  *rule = (cli_rule){.modulus = mmc_chain_modulus(chain),
                     .checked = mmc_chain_checked(chain),
                     .semiring = mmc_chain_semiring(chain)};
  mmc_plan_destroy(plan);
  return CLI_DONE;
}

/* Says whether a factor is standard input, as in "-:T". */
static bool reads_standard_input(int count, char **arguments) {
  for (int i = 0; i < count; i++)
    if (arguments[i][0] == '-' && strchr(":^", arguments[i][1]) != NULL) return true;
  return false;
}

/* Reads the saved plan, if one is asked for. */
static int read_plan(cli_call *call, multiplication *job, int count, char **arguments) {
  enum { PIECE = 65536 };
  const mmc_plan_options *given = &job->plan_options;
  if (job->plan_path == NULL) return CLI_DONE;
  if (given->objective != NULL || given->device != NULL || given->solver != NULL ||
      given->order != NULL || given->precision != NULL)
    return cli_fail(
        call, CLI_BAD,
        "--plan: expected no --for, --on, --solver, --order, --precision, --reproducible and "
        "--tolerance, which the plan says");
  const bool standard = strcmp(job->plan_path, "-") == 0;
  if (standard && reads_standard_input(count, arguments))
    return cli_fail(call, CLI_BAD, "--plan: expected a file, as standard input is the factor -");
  int result = cli_note_input(call, "", "--plan", standard ? "/dev/stdin" : job->plan_path);
  if (result != CLI_DONE) return result;
  FILE *file = standard ? stdin : fopen(job->plan_path, "rb");
  if (file == NULL)
    return cli_fail(call, CLI_BAD, "--plan: %s: cannot read: %s", job->plan_path, strerror(errno));
  char piece[PIECE];
  for (size_t got; result == CLI_DONE && (got = fread(piece, 1, sizeof piece, file)) > 0;)
    if (cli_buffer_write(&job->saved, piece, got) != 0)
      result = cli_fail_memory(call, "the plan takes", (double)got);
  if (result == CLI_DONE && ferror(file))
    result =
        cli_fail(call, CLI_BAD, "--plan: %s: cannot read: %s", job->plan_path, strerror(errno));
  if (!standard) fclose(file);
  return result == CLI_DONE ? take_rule(call, job) : result;
}

static int make_plan(cli_call *call, multiplication *job) {
  if (job->plan_path != NULL) {
    int result = plan_saved(call, job, job->factors.chain, &job->plan);
    if (result != CLI_DONE) return result;
  } else {
    mmc_status status =
        mmc_plan_create(call->context, job->factors.chain, &job->plan_options, &job->plan);
    if (status != MMC_OK) return cli_fail_status(call, status, "");
  }
  if (!job->explain) return CLI_DONE;
  cli_stream diagnostics = {.file = stderr};
  mmc_status status = mmc_plan_explain(job->plan, MMC_TEXT, cli_stream_write, &diagnostics);
  return status == MMC_OK ? CLI_DONE : cli_fail_write(call, status, "");
}

static int allocate_result(cli_call *call, multiplication *job) {
  const mmc_chain *chain = job->factors.chain;
  mmc_dtype dtype = mmc_chain_dtype(chain);
  int64_t rows = mmc_chain_dims(chain)[0], cols = mmc_chain_dims(chain)[job->factors.n];
  int64_t batch = mmc_chain_batch(chain);
  if (job->exponents_name != NULL) {
    job->exponents = malloc((size_t)(batch > 0 ? batch : 1) * sizeof *job->exponents);
    if (job->exponents == NULL) return cli_fail_memory(call, "exponents take", 8.0 * (double)batch);
  }
  job->result = (mmc_matrix){.rows = rows, .cols = cols, .layout = MMC_ROW_MAJOR};
  return cli_matrix_allocate(dtype, batch, &job->result)
             ? CLI_DONE
             : cli_fail_memory(call, "the result takes",
                               cli_matrix_bytes(dtype, batch, rows, cols));
}

/* Returns the seconds that executing is predicted to take; NaN when there is little to do, or when
 * it cannot be said. */
static double predict(cli_call *call, const multiplication *job) {
  const double much = 1e9; /* multiplications */
  double predicted_s = mmc_plan_predicted_seconds(job->plan);
  if (!isnan(predicted_s) || mmc_count_to_double(mmc_plan_multiplications(job->plan)) < much)
    return predicted_s;
  mmc_plan_options options_for_time = job->plan_options;
  options_for_time.objective = "time";
  options_for_time.fuse = NULL;
  options_for_time.on_chip_words = 0;
  mmc_plan *plan;
  if (mmc_plan_create(call->context, job->factors.chain, &options_for_time, &plan) == MMC_OK) {
    predicted_s = mmc_plan_predicted_seconds(plan);
    mmc_plan_destroy(plan);
  }
  return predicted_s;
}

/* Says how the predicted seconds compare with the measured ones. */
static void tell_prediction(const multiplication *job) {
  double predicted_s = mmc_plan_predicted_seconds(job->plan);
  if (job->explain && !isnan(predicted_s))
    fprintf(stderr, "predicted %.4g s, took %.4g s\n", predicted_s, job->seconds);
}

/* Says what went wrong; of a factor that has no inverse, in which file it is. */
static int fail_execution(cli_call *call, const multiplication *job, mmc_status status) {
  char message[512];
  int64_t factor;
  mmc_context_message(call->context, message, sizeof message);
  if (status != MMC_E_ARG || sscanf(message, "factor %" SCNd64 " is", &factor) != 1 || factor < 1 ||
      factor > job->factors.n)
    return cli_fail_status(call, status, "");
  return cli_fail(call, CLI_BAD, "%s: %s", job->factors.names[factor - 1], message);
}

static int execute_job(cli_call *call, multiplication *job) {
  mmc_run *run;
  int result = cli_energy_open(call, &job->energy, mmc_plan_device(job->plan));
  if (result != CLI_DONE) return result;
  mmc_status status = mmc_run_create(job->plan, &run);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  double predicted_s = predict(call, job);
  cli_stage_begin(call, &job->stage, 0, 1, "executed");
  cli_watch *watch = cli_watch_begin(call, predicted_s);
  if (watch != NULL) mmc_run_progress(run, cli_watch_tell, watch);
  double start = cli_now_s();
  if (job->exponents != NULL)
    status = mmc_execute_scaled(run, job->factors.matrices, &job->result, job->exponents);
  else
    status = mmc_execute(run, job->factors.matrices, &job->result);
  job->seconds = cli_now_s() - start;
  mmc_run_progress(run, NULL, NULL);
  cli_watch_end(watch);
  cli_stage_end(call);
  tell_prediction(job);
  result = status == MMC_OK ? cli_energy_measure(call, &job->energy, CLI_ENERGY_WINDOW_S, run,
                                                 job->factors.matrices, &job->result, &job->joules)
                            : fail_execution(call, job, status);
  mmc_run_destroy(run);
  return result;
}

static void tell_energy(const multiplication *job) {
  const mmc_energy *joules = &job->joules;
  double predicted_j = mmc_plan_predicted_joules(job->plan);
  if (job->explain && joules->measured && !isnan(predicted_j))
    fprintf(stderr, "predicted %.4g J, took %.4g J\n", predicted_j, joules->joules);
  if (joules->measured)
    fprintf(stderr, "energy: %.4g J at %.4g W, idle %.4g W (%s)\n", joules->joules, joules->watts,
            joules->idle_watts, joules->meter);
  else
    fprintf(stderr, "energy: not measured: %s\n", joules->reason);
}

static void tell_overflow(const multiplication *job) {
  int64_t count = cli_count_overflows(&job->factors, &job->result);
  if (count == 0) return;
  fprintf(stderr, "the result");
  if (mmc_chain_batch(job->factors.chain) != 1)
    fprintf(stderr, " of %" PRId64 " chain%s", count, count > 1 ? "s" : "");
  fprintf(stderr, " holds NaN or infinity, and the factors do not: it exceeds the range of %s\n",
          mmc_dtype_name(mmc_chain_dtype(job->factors.chain)));
}

/* Checks what is said of the factors, each matrix once. */
static int check_claims(cli_call *call, const multiplication *job) {
  const cli_factors *factors = &job->factors;
  const mmc_chain *chain = factors->chain;
  int result = CLI_DONE;
  for (int64_t i = 0; i < factors->n && result == CLI_DONE; i++) {
    if (mmc_chain_traits(chain, i) == 0 || mmc_chain_same(chain, i) != i) continue;
    for (int64_t b = 0; b < mmc_chain_batch(chain) && result == CLI_DONE; b++) {
      mmc_matrix one = cli_matrix_of_batch(&factors->matrices[i], mmc_chain_dtype(chain), b);
      result = cli_claims_check(call, factors->names[i], mmc_chain_dtype(chain), &one,
                                mmc_chain_traits(chain, i), mmc_chain_band(chain, i));
    }
  }
  return result;
}

static int check_integers(cli_call *call, multiplication *job) {
  bool agrees;
  cli_stage_begin(call, &job->stage, 0, 1, "checked");
  int result = cli_exact_check(call, &job->factors, &job->result, &agrees);
  cli_stage_end(call);
  if (result != CLI_DONE) return result;
  if (!agrees)
    return cli_fail(call, CLI_FAILED,
                    "--check: R t is not A1 (A2 (... (An t))) for a random t: nothing is written");
  job->residual = (cli_residual){.meaningful = true};
  fprintf(stderr, "exact for %d random vectors (seed %d)\n", CLI_EXACT_VECTORS, CLI_CHECK_SEED);
  return CLI_DONE;
}

/* Says whether the product is compared with one that is computed otherwise. */
static bool has_reference(const multiplication *job) {
  const mmc_semiring semiring = mmc_chain_semiring(job->factors.chain);
  return semiring != MMC_PLUS_TIMES && semiring != MMC_OR_AND;
}

static int check_semiring(cli_call *call, multiplication *job) {
  cli_residual *residual = &job->residual;
  cli_stage_begin(call, &job->stage, 0, 1, "checked");
  int result = cli_reference_chain(call, &job->factors, &job->result, residual);
  cli_stage_end(call);
  return result == CLI_DONE ? cli_reference_tell(call, residual) : result;
}

static int check_result(cli_call *call, multiplication *job) {
  if (has_reference(job)) return check_semiring(call, job);
  if (cli_dtype_is_integer(mmc_chain_dtype(job->factors.chain))) return check_integers(call, job);
  cli_stage_begin(call, &job->stage, 0, 1, "checked");
  const char *precision = job->plan_options.precision;
  const bool is_fast = precision != NULL && strcmp(precision, "fast") == 0;
  int result =
      cli_residual_compute(call, &job->factors, &job->result, job->exponents, is_fast,
                           mmc_plan_error_bound(job->plan), CLI_CHECK_SEED, &job->residual);
  cli_stage_end(call);
  if (result != CLI_DONE) return result;
  return cli_residual_tell(call, &job->factors, &job->residual, job->exponents == NULL);
}

/* ---- after ----------------------------------------------------------------------------------- */

/* Returns how many dimensions the exponents have: those of the stack, none for one chain. */
static int exponents_ndim(const cli_factors *factors) {
  const int64_t last = factors->count - 1;
  const int vectors =
      (mmc_file_ndim(factors->files[0]) == 1) + (mmc_file_ndim(factors->files[last]) == 1);
  return factors->result_ndim - (2 - vectors);
}

static int check_exponents(cli_call *call, const multiplication *job) {
  if (job->exponents_name == NULL) return CLI_DONE;
  return cli_check_matrix_output(call, "--scaled", job->exponents_name, MMC_I64,
                                 exponents_ndim(&job->factors));
}

/* Writes the exponents in the shape of the stack, of one chain as a number. It comes after the
 * result: where that cannot be written, those of the result of before stay. */
static int write_exponents(cli_call *call, const multiplication *job) {
  const cli_factors *factors = &job->factors;
  if (job->exponents_name == NULL) return CLI_DONE;
  const int ndim = exponents_ndim(factors);
  const mmc_matrix matrix = {.data = job->exponents, .rows = 1, .cols = 1, .stride = 1};
  return cli_matrix_save(call, "--scaled", job->exponents_name, MMC_I64, &matrix,
                         mmc_chain_batch(factors->chain), ndim, factors->result_shape);
}

/* Says which options do not go together. */
static int check_options(cli_call *call, const multiplication *job) {
  if (job->exponents_name == NULL) return CLI_DONE;
  if (job->energy.wanted)
    return cli_fail(call, CLI_BAD, "--scaled: expected no --energy and --meter with it");
  if (strcmp(job->exponents_name, "-") == 0)
    return cli_fail(call, CLI_BAD, "--scaled: expected a file of its own for the exponents");
  return CLI_DONE;
}

static int write_result(cli_call *call, multiplication *job) {
  mmc_dtype dtype = mmc_chain_dtype(job->factors.chain);
  int64_t batch = mmc_chain_batch(job->factors.chain);
  int ndim = job->factors.result_ndim;
  const int64_t *shape = job->factors.result_shape;
  if (strcmp(job->output, "-") != 0) {
    cli_stage_begin(call, &job->stage, 0, 1, "written");
    int result = cli_matrix_save(call, "-o", job->output, dtype, &job->result, batch, ndim, shape);
    cli_stage_end(call);
    return result;
  }
  mmc_status status = mmc_file_stream_stack(call->context, dtype, &job->result, batch, ndim, shape,
                                            cli_stream_write, &call->out);
  if (call->out.error != 0) return CLI_DONE; /* main() says why */
  return status == MMC_OK ? CLI_DONE : cli_fail_write(call, status, "-o: ");
}

/* Prints the plan's object, with what was measured added at its end. */
static int print_multiply_json(cli_call *call, const multiplication *job) {
  cli_buffer plan = {0};
  mmc_status status = mmc_plan_explain(job->plan, MMC_JSON, cli_buffer_write, &plan);
  char *brace = status == MMC_OK ? strrchr(plan.bytes, '}') : NULL;
  if (brace == NULL) {
    cli_buffer_free(&plan);
    return status == MMC_OK ? cli_fail(call, CLI_FAILED, "the plan is no JSON object")
                            : cli_buffer_fail(call, status);
  }
  cli_stream_write(&call->out, plan.bytes, (size_t)(brace - plan.bytes));
  cli_buffer_free(&plan);
  cli_print(&call->out, ", \"seconds\": %.6g, ", job->seconds);
  cli_energy_print_json(&call->out, &job->joules);
  cli_print(&call->out, ", \"residual\": ");
  if (job->check && job->residual.meaningful)
    cli_print(&call->out, "%.6g}\n", job->residual.value);
  else
    cli_print(&call->out, "null}\n");
  return CLI_DONE;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Says whether nothing is asked for that sparse chains lack; with it, sparse factors are read as
 * dense ones. */
static bool may_be_sparse(const multiplication *job) {
  const mmc_plan_options *o = &job->plan_options;
  const bool objective = o->objective == NULL || strcmp(o->objective, "flops") == 0 ||
                         strcmp(o->objective, "time") == 0;
  const bool solver = o->solver == NULL || strcmp(o->solver, "auto") == 0 ||
                      strcmp(o->solver, "left-to-right") == 0;
  const bool device = o->device == NULL || strncmp(o->device, "cuda", 4) != 0;
  const bool precision = o->precision == NULL || strcmp(o->precision, "native") == 0;
  return objective && solver && device && precision && o->order == NULL && job->plan_path == NULL &&
         o->max_slowdown == 0 && o->memory_limit_bytes == MMC_NO_LIMIT && !job->energy.wanted &&
         !job->rule.checked && job->rule.modulus == 0 && job->rule.semiring == MMC_PLUS_TIMES &&
         !o->scaled;
}

static int multiply_sparse(cli_call *call, const multiplication *job, int count, char **arguments) {
  cli_sparse_job sparse = {.options = MMC_SPARSE_OPTIONS_INIT,
                           .output = job->output,
                           .explain = job->explain,
                           .check = job->check,
                           .json = job->json};
  sparse.options.device = job->plan_options.device;
  sparse.options.objective = job->plan_options.objective;
  sparse.options.solver = job->plan_options.solver;
  return cli_sparse_multiply(call, &sparse, count, arguments);
}

static int multiply_files(cli_call *call, multiplication *job, int count, char **arguments) {
  if (count == 0) return cli_fail(call, CLI_BAD, "expected factors, as in A.npy B.npy:T");
  bool is_sparse = false;
  int result = CLI_DONE;
  if (may_be_sparse(job))
    result = cli_sparse_is_meant(call, job->check, count, arguments, &is_sparse);
  if (result == CLI_DONE && is_sparse) return multiply_sparse(call, job, count, arguments);
  if (result == CLI_DONE) result = check_options(call, job);
  if (result == CLI_DONE) result = read_plan(call, job, count, arguments);
  if (result != CLI_DONE) return result;
  result = cli_factors_open(call, count, arguments, true, job->rule, &job->factors);
  if (result == CLI_DONE) result = check_output(call, job);
  if (result == CLI_DONE) result = check_exponents(call, job);
  if (result == CLI_DONE && job->check) result = check_claims(call, job);
  if (result == CLI_DONE) result = make_plan(call, job);
  if (result == CLI_DONE) result = allocate_result(call, job);
  if (result == CLI_DONE) result = execute_job(call, job);
  if (result == CLI_DONE && job->energy.wanted) tell_energy(job);
  if (result == CLI_DONE && job->check) result = check_result(call, job);
  if (result == CLI_DONE) tell_overflow(job);
  if (result == CLI_DONE) result = cli_factors_unchanged(call, &job->factors);
  if (result == CLI_DONE) result = write_result(call, job);
  if (result == CLI_DONE) result = write_exponents(call, job);
  if (result == CLI_DONE && job->json) result = print_multiply_json(call, job);
  return result;
}

/* Multiplies on the ranks of a team, which take fewer options. */
static int multiply_on_team(cli_call *call, const multiplication *job, int count,
                            char **arguments) {
  const mmc_plan_options *given = &job->plan_options;
  if (job->plan_path != NULL || job->energy.wanted || job->rule.checked || job->rule.modulus != 0 ||
      job->rule.semiring != MMC_PLUS_TIMES || given->scaled || given->max_slowdown != 0 ||
      given->device_memory_bytes != MMC_NO_LIMIT)
    return cli_fail(call, CLI_BAD,
                    "--on: %s takes no --plan, --energy, --meter, --checked, --mod, --semiring, "
                    "--scaled, --max-slowdown and --device-memory",
                    given->device);
  cli_team_job team = {.options = MMC_TEAM_OPTIONS_INIT,
                       .engine = given->device,
                       .output = job->output,
                       .explain = job->explain,
                       .check = job->check,
                       .json = job->json};
  team.options.rank_bytes = given->memory_limit_bytes;
  team.options.objective = given->objective;
  team.options.solver = given->solver;
  team.options.order = given->order;
  team.options.precision = given->precision;
  return cli_team_multiply(call, &team, count, arguments);
}

/* Returns what is made least when nothing is said: seconds, as in Python. Reproducible bits need an
 * order that the sizes alone choose, whatever was measured on this machine. */
static const char *default_objective(const mmc_plan_options *options, mmc_semiring semiring) {
  if (options->scaled || semiring != MMC_PLUS_TIMES) return "flops";
  const bool reproducible =
      options->precision != NULL && strncmp(options->precision, "reproducible", 12) == 0;
  return reproducible ? "flops" : "time";
}

static int run(cli_call *call, int argc, char **argv) {
  multiplication job = {.plan_options = MMC_PLAN_OPTIONS_INIT};
  cli_planning planning = {.options = &job.plan_options};
  for (int code; (code = cli_option_next(call, argc, argv, options)) != CLI_OPTION_END;) {
    switch (code) {
      case CLI_OPTION_OUT:
        job.output = optarg;
        break;
      case OPTION_PLAN:
        job.plan_path = optarg;
        break;
      case OPTION_EXPLAIN:
        job.explain = true;
        break;
      case OPTION_CHECK:
        job.check = true;
        break;
      case OPTION_CHECKED:
        job.rule.checked = true;
        break;
      case OPTION_MOD: {
        int64_t modulus;
        if (!cli_number(call, "--mod", optarg, 1, INT64_MAX, &modulus)) return CLI_BAD;
        job.rule.modulus = (uint64_t)modulus;
        break;
      }
      case OPTION_SEMIRING:
        if (!cli_semiring(call, optarg, &job.rule.semiring)) return CLI_BAD;
        break;
      case OPTION_SCALED:
        job.exponents_name = optarg;
        job.plan_options.scaled = true;
        break;
      case CLI_OPTION_METER:
        job.energy.meter_name = optarg;
        job.energy.wanted = true;
        break;
      case CLI_OPTION_ENERGY:
        job.energy.wanted = true;
        break;
      case CLI_OPTION_JSON:
        job.json = true;
        break;
      case CLI_OPTION_HELP:
        return cli_help(call);
      default:
        if (!cli_planning_option(call, code, &planning)) return CLI_BAD;
    }
  }
  if (!cli_planning_arithmetic(call, &planning)) return CLI_BAD;
  if (cli_on_team(job.plan_options.device))
    return multiply_on_team(call, &job, argc - optind, argv + optind);
  if (job.plan_options.objective == NULL && job.plan_path == NULL)
    job.plan_options.objective = default_objective(&job.plan_options, job.rule.semiring);
  int result = multiply_files(call, &job, argc - optind, argv + optind);
  call->stage = NULL;
  free(job.result.data);
  free(job.exponents);
  cli_buffer_free(&job.saved);
  cli_energy_close(&job.energy);
  mmc_plan_destroy(job.plan);
  cli_factors_close(&job.factors);
  return result;
}

const cli_command cli_multiply = {
    .name = "multiply",
    .summary = "multiply files of matrices in the cheapest order",
    .help = help,
    .options_help = options_help,
    .run = run,
};
