/* generate.c: `mmchain generate` makes .npy factors to play with. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chains.h"
#include "options.h"
#include "progress.h"
#include "random.h"

static const char help[] =
    "usage: mmchain generate CHAIN -o DIR [--seed N]\n"
    "\n"
    "Writes the factors of a chain as A1.npy, A2.npy ... (A01.npy ... when there are more than 9)\n"
    "and prints their paths. The numbers are normal, the same for the same seed, and scaled by\n"
    "1/sqrt(columns), so that the product of a long chain neither overflows nor vanishes. Factors\n"
    "with an op T or H are stored so that the op turns them into the chain's. Of a batch, as in\n"
    "f32:4x4x4@100, every factor is a stack. A matrix that repeats, as in f64:8x8^9, is written\n"
    "once. Factors of which more is said, as in f64:8x8x8:spd,lower, are of that kind; for an\n"
    "inverse the matrix itself is written.\n"
    "\n"
    "  CHAIN       f32:10x30x5x60, 10x30 30x5 5x60, A.npy B.npy:T, or - for a line of standard\n"
    "              input; see mmchain --help\n"
    "  -o DIR      the directory, which is made when it is missing\n"
    "  --seed N    where the random numbers start: 0 to 2^62; 1 when left out\n"
    "  --no-sync   do not wait until the files have reached the disk\n"
    "  -h, --help  this text\n";

enum { OPTION_SEED = CLI_OPTION_OWN };

static const struct option options[] = {
    {"output", required_argument, NULL, CLI_OPTION_OUT},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"no-sync", no_argument, NULL, CLI_OPTION_NO_SYNC},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* Sets *made to whether there was no such directory before. */
static int make_directory(cli_call *call, const char *path, bool *made) {
  struct stat found;
  *made = mkdir(path, 0777) == 0;
  if (*made) return CLI_DONE;
  int code = errno;
  if (code == EEXIST && stat(path, &found) == 0) {
    if (S_ISDIR(found.st_mode)) return CLI_DONE;
    return cli_fail(call, CLI_BAD, "-o: %s: expected a directory", path);
  }
  return cli_fail(call, CLI_BAD, "-o: %s: cannot make this directory: %s", path, strerror(code));
}

static int discard(void *user, const char *bytes, size_t size) {
  (void)user, (void)bytes, (void)size;
  return 0;
}

/* Checks that .npy files can hold the dtype, before anything is made for them. */
static int check_dtype(cli_call *call, mmc_dtype dtype) {
  mmc_matrix none = {0};
  mmc_status status = mmc_file_stream(call->context, dtype, &none, 2, discard, NULL);
  return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, "chain: ");
}

/* Allocates one buffer, which holds every factor in turn. */
static int allocate_buffer(cli_call *call, const mmc_chain *chain, void **out) {
  mmc_dtype dtype = mmc_chain_dtype(chain);
  mmc_matrix largest = {0};
  double most = 0;
  int64_t most_count = 0;
  for (int64_t i = 0; i < mmc_chain_length(chain); i++) {
    mmc_matrix matrix = cli_stored_factor(chain, i);
    const int64_t count = cli_factor_count(chain, i);
    double bytes = cli_matrix_bytes(dtype, count, matrix.rows, matrix.cols);
    if (bytes <= most) continue;
    most = bytes;
    most_count = count;
    largest = matrix;
  }
  if (!cli_matrix_allocate(dtype, most_count, &largest))
    return cli_fail_memory(call, "the largest factor takes", most);
  *out = largest.data;
  return CLI_DONE;
}

/* Returns the bytes of factor i of all chains; 0 when it is the same as an earlier one. */
static double factor_bytes(const mmc_chain *chain, int64_t i) {
  const int64_t *dims = mmc_chain_dims(chain);
  return mmc_chain_same(chain, i) != i
             ? 0
             : cli_matrix_bytes(mmc_chain_dtype(chain), cli_factor_count(chain, i), dims[i],
                                dims[i + 1]);
}

/* Fills a factor and writes it; from and to say which share of the work that is. */
static int write_factor(cli_call *call, const mmc_chain *chain, int64_t i, const char *path,
                        uint64_t seed, void *data, cli_stage *stage, double from, double to) {
  int64_t count = cli_factor_count(chain, i);
  mmc_matrix matrix = cli_stored_factor(chain, i);
  matrix.data = data;
  matrix.stride = count > 1 ? matrix.rows * matrix.cols : 0;
  char words[40];
  snprintf(words, sizeof words, "A%" PRId64 " made", i + 1);
  cli_stage_begin(call, stage, from, (from + to) / 2, words);
  cli_random_fill_factor(chain, i, seed, data, cli_stage_show, call);
  snprintf(words, sizeof words, "A%" PRId64 " written", i + 1);
  cli_stage_begin(call, stage, (from + to) / 2, to, words);
  int64_t shape[] = {count, matrix.rows, matrix.cols};
  int result = cli_matrix_save(call, "-o", path, mmc_chain_dtype(chain), &matrix, count,
                               count != 1 ? 3 : 2, count != 1 ? shape : shape + 1);
  cli_stage_end(call);
  return result;
}

/* Writes the path of factor i into path, of size characters. */
static void name_factor(const mmc_chain *chain, const char *directory, int64_t i, char *path,
                        size_t size) {
  const char *slash = directory[strlen(directory) - 1] == '/' ? "" : "/";
  int width = snprintf(NULL, 0, "%" PRId64, mmc_chain_length(chain));
  snprintf(path, size, "%s%sA%0*" PRId64 ".npy", directory, slash, width, i + 1);
}

static int write_factors(cli_call *call, const mmc_chain *chain, const char *directory,
                         uint64_t seed, void *data) {
  int64_t n = mmc_chain_length(chain);
  double total = 0, done = 0;
  for (int64_t i = 0; i < n; i++) total += factor_bytes(chain, i);
  cli_stage stage = {0};
  size_t size = strlen(directory) + 64;
  char *path = malloc(size);
  if (path == NULL) return cli_fail_memory(call, "a path takes", (double)size);
  int result = CLI_DONE;
  /* A factor that repeats is written once. None is, where one of them was read. */
  for (int64_t i = 0; i < n && result == CLI_DONE; i++) {
    if (mmc_chain_same(chain, i) != i) continue;
    name_factor(chain, directory, i, path, size);
    result = cli_check_apart(call, "-o", path, path);
  }
  for (int64_t i = 0; i < n && result == CLI_DONE && call->out.error == 0; i++) {
    if (mmc_chain_same(chain, i) != i) continue;
    double after = done + factor_bytes(chain, i);
    name_factor(chain, directory, i, path, size);
    result = write_factor(call, chain, i, path, seed, data, &stage, total > 0 ? done / total : 0,
                          total > 0 ? after / total : 1);
    done = after;
    if (result == CLI_DONE) cli_print(&call->out, "%s\n", path);
  }
  call->stage = NULL;
  free(path);
  return result;
}

static int run(cli_call *call, int argc, char **argv) {
  const char *directory = NULL;
  int64_t seed = 1;
  for (int code; (code = cli_option_next(call, argc, argv, options)) != CLI_OPTION_END;) {
    switch (code) {
      case CLI_OPTION_OUT:
        directory = optarg;
        break;
      case OPTION_SEED:
        if (!cli_number(call, "--seed", optarg, 0, CLI_DIM_MAX, &seed)) return CLI_BAD;
        break;
      case CLI_OPTION_HELP:
        return cli_help(call);
      default:
        return CLI_BAD;
    }
  }
  if (directory == NULL || directory[0] == '\0')
    return cli_fail(call, CLI_BAD, "-o: expected a directory, as in -o factors");
  if (strcmp(directory, "-") == 0)
    return cli_fail(call, CLI_BAD, "-o: expected a directory, not standard output");
  mmc_chain *chain;
  int result = cli_chain_of_arguments(call, argc - optind, argv + optind, &chain);
  if (result != CLI_DONE) return result;
  void *data = NULL;
  bool made = false;
  result = check_dtype(call, mmc_chain_dtype(chain));
  if (result == CLI_DONE) result = allocate_buffer(call, chain, &data);
  if (result == CLI_DONE) result = make_directory(call, directory, &made);
  if (result == CLI_DONE) result = write_factors(call, chain, directory, (uint64_t)seed, data);
  if (result != CLI_DONE && made) rmdir(directory); /* fails where a factor is in it */
  free(data);
  mmc_chain_destroy(chain);
  return result;
}

const cli_command cli_generate = {
    .name = "generate",
    .summary = "write .npy factors of a chain, random and reproducible",
    .help = help,
    .run = run,
};
