/* main.c: the command `mmchain`: finds the command that is asked for and runs it. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "nearest.h"
#include "options.h"
#include "signals.h"

static const cli_command *const commands[] = {
    &cli_plan, &cli_multiply, &cli_scan,   &cli_generate, &cli_bench,
    &cli_info, &cli_order,    &cli_report, &cli_tune,     &cli_wisdom,
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_help(cli_call *call) {
  cli_print(&call->out,
            "usage: mmchain COMMAND ...\n\n"
            "Multiplies a chain of matrices in the cheapest order, and says why.\n\n");
  for (int c = 0; c < COMMAND_COUNT; c++)
    cli_print(&call->out, "  %-10s %s\n", commands[c]->name, commands[c]->summary);
  cli_print(&call->out,
            "\nmmchain COMMAND --help or mmchain help COMMAND tells more, mmchain --version the "
            "version.\n\n"
            "A chain is written\n"
            "  f32:10x30x5x60     the dims, after a dtype: f32, f64 (the default), c64, c128,\n"
            "                     f16, bf16, i8 to i64, u8 to u64, bool\n"
            "  f32:10x30x5x60:NTN and an op for every factor: N as it is stored, T transposed,\n"
            "                     H conjugate transposed; the dims are those after the op\n"
            "  f32:16x16x16@1000  and how many such chains are multiplied together\n"
            "  f32:64x64^1000     and how often a square matrix stands there; 8x9x8x9x8=1,2,1,2\n"
            "                     says of each factor which is the first that is the same matrix\n"
            "  8x8x8x3:lower.inv,N,T\n"
            "                     and what a factor is: lower, upper, unit, diagonal, symmetric,\n"
            "                     hermitian, spd, tridiagonal, banded(1,2), orthogonal,\n"
            "                     permutation, identity or zero, and inv for its inverse\n"
            "  10x30 30x5 5x60    factor by factor\n"
            "  A.npy B.npy:T      as the shapes of files, with an op after any; A.npy^8 is A.npy\n"
            "                     eight times, L.npy:lower:inv an inverse\n"
            "and - is standard input or output.\n\n"
            "Exit status: 0 done, 1 the work failed, 2 bad usage or bad input, 130 interrupted.\n"
            "\nEnvironment\n"
            "  MMCHAIN_WISDOM     the file of what was measured, and empty for none; else it is\n"
            "                     mmchain/wisdom.db under XDG_CACHE_HOME or ~/.cache\n"
            "  MMCHAIN_BLAS       the CBLAS to multiply by: its absolute path, own for what\n"
            "                     mmchain was built with, or none for plain loops\n"
            "  MMCHAIN_MODULE_DIR the folder of mmchain-cuda.so and other modules, if another\n"
            "  MMCHAIN_SCALAPACK  the libraries of --on scalapack, with colons between them\n"
            "  OMP_NUM_THREADS    how many threads multiply, as the CBLAS reads it\n");
}

/* Says what has become of a corrupt wisdom store, on standard error. */
static void tell_notice(cli_call *call) {
  char notice[512];
  mmc_wisdom_notice(call->context, notice, sizeof notice);
  if (notice[0] != '\0') cli_fail(call, CLI_DONE, "%s", notice);
}

static const char expected[] =
    "plan, multiply, scan, generate, bench, info, order, report, tune or wisdom";

/* Returns the command of that name; NULL after saying that there is none. */
static const cli_command *find_command(const cli_call *call, const char *name) {
  char hint[CLI_HINT_SIZE];
  cli_nearest search = cli_nearest_start(name);
  for (int c = 0; c < COMMAND_COUNT; c++) {
    if (strcmp(name, commands[c]->name) == 0) return commands[c];
    cli_nearest_consider(&search, commands[c]->name);
  }
  cli_nearest_consider(&search, "help");
  cli_fail(call, CLI_BAD, "command: expected %s, got '%s'%s", expected, name,
           cli_nearest_hint(&search, hint));
  return NULL;
}

static int help(cli_call *call, int argc, char **argv) {
  if (argc < 3) {
    print_help(call);
    return CLI_DONE;
  }
  call->self = find_command(call, argv[2]);
  return call->self != NULL ? cli_help(call) : CLI_BAD;
}

/* Runs what the arguments ask for. */
static int run_command(cli_call *call, int argc, char **argv) {
  if (argc < 2) return cli_fail(call, CLI_BAD, "expected a command: %s (see --help)", expected);
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
    return help(call, strcmp(name, "help") == 0 ? argc : 1, argv);
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
    if (argc > 2) return cli_fail(call, CLI_BAD, "%s: expected no argument here", argv[2]);
    cli_print(&call->out, "mmchain %s\n", mmc_version());
    return CLI_DONE;
  }
  call->self = find_command(call, name);
  if (call->self == NULL) return CLI_BAD;

  mmc_status status = mmc_context_create(NULL, &call->context);
  if (status != MMC_OK) return cli_fail(call, CLI_FAILED, "%s", mmc_status_string(status));
  int result = call->self->run(call, argc - 1, argv + 1);
  tell_notice(call);
  mmc_context_destroy(call->context);
  call->context = NULL;
  return result;
}

/* Has arrays above 1 MiB go back to the system as soon as they are freed; else glibc keeps those of
 * up to 32 MiB once one of their size was freed, which is a fifth of what planning 10^5 factors
 * takes. */
static void keep_memory_small(void) {
#if defined(__GLIBC__)
  (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

/* Opens what is closed of standard input, output and error, as something that can neither be read
 * nor written. Else the next file that is opened would have its number, and what is told would go
 * into a result. */
static void keep_standard_streams_apart(void) {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
    if (fcntl(stream, F_GETFD) < 0) (void)open("/", O_PATH);
}

int main(int argc, char **argv) {
  cli_call call = {.out = {.file = stdout}};
  keep_standard_streams_apart();
  keep_memory_small();
  cli_signals_catch();
  int status = run_command(&call, argc, argv);
  cli_guard_free(&call.guard);
  cli_stream_close(&call.out);
  if (call.out.error == 0) return status;
  /* A reader that closed the pipe, as in `mmchain ... | head`, has what it wants. */
  if (call.out.error != EPIPE)
    cli_fail(&call, CLI_FAILED, "cannot write standard output: %s", strerror(call.out.error));
  return status == CLI_DONE ? CLI_FAILED : status;
}
