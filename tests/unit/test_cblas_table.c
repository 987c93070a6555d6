/* test_cblas_table.c: a CBLAS that is loaded at run time. Each case is a process of its own,
 * because a process has one CBLAS for good: main() calls itself with the number of a case and the
 * value of MMCHAIN_BLAS. argv[1] is a library of plain loops by the names of NumPy's OpenBLAS,
 * argv[2] the same without one of its functions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "device/blas/cblas_table.h"

static const char *loops, *incomplete, *self;

/* ---- in a process of its own ----------------------------------------------------------------- */

enum { M = 70, K = 80, N = 90 };

/* Multiplies two matrices of ones, too large for LIBXSMM; returns whether every element is K. */
static bool multiplies_on(const char *device) {
  static double a[M * K], b[K * N], c[M * N];
  for (int i = 0; i < M * K; i++) a[i] = 1;
  for (int i = 0; i < K * N; i++) b[i] = 1;
  for (int i = 0; i < M * N; i++) c[i] = NAN;
  mmc_context *context = NULL;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "";
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_plan_options plan_options = MMC_PLAN_OPTIONS_INIT;
  plan_options.device = device;
  mmc_run *run = NULL;
  bool fine = mmc_context_create(&options, &context) == MMC_OK &&
              mmc_chain_parse(context, "f64:70x80x90", &chain) == MMC_OK &&
              mmc_plan_create(context, chain, &plan_options, &plan) == MMC_OK &&
              mmc_run_create(plan, &run) == MMC_OK;
  const mmc_matrix factors[] = {{.data = a, .rows = M, .cols = K},
                                {.data = b, .rows = K, .cols = N}};
  const mmc_matrix out = {.data = c, .rows = M, .cols = N};
  fine = fine && mmc_execute(run, factors, &out) == MMC_OK;
  for (int i = 0; fine && i < M * N; i++) fine = c[i] == K;
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return fine;
}

static bool multiplies(void) {
  return multiplies_on("blas");
}

/* Creates a context that names a library; returns the status. */
static mmc_status created_with(const char *library) {
  mmc_context *context = NULL;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "";
  options.blas_library = library;
  mmc_status status = mmc_context_create(&options, &context);
  mmc_context_destroy(context);
  return status;
}

static bool is_loops(void) {
  return mmci_blas.is_openblas && strstr(mmci_blas.get_config(), "plain loops") != NULL;
}

enum { BY_ENVIRONMENT, BY_OPTION, SECOND_CHOICE, AFTER_A_FAILURE, NONE, REFUSED, CASES };

static bool passes(int number) {
  mmci_error error = {.text = ""};
  switch (number) {
    case BY_ENVIRONMENT:
      return multiplies() && is_loops();
    case BY_OPTION:
      return created_with(loops) == MMC_OK && multiplies() && is_loops();
    case SECOND_CHOICE: /* the first one stays */
      return created_with("own") == MMC_OK && created_with(loops) == MMC_OK && multiplies() &&
             !is_loops();
    case AFTER_A_FAILURE:
      return created_with("/nowhere/libopenblas.so") == MMC_E_UNSUPPORTED &&
             created_with(incomplete) == MMC_E_UNSUPPORTED && created_with(loops) == MMC_OK &&
             multiplies() && is_loops();
    case NONE: /* plain loops, which were asked for */
      return mmci_cblas_find(&error) == MMC_E_UNSUPPORTED && !multiplies() && multiplies_on("cpu");
    case REFUSED: /* and no plain loops in its place */
      if (mmci_cblas_find(&error) != MMC_E_ARG || multiplies() || multiplies_on("cpu"))
        return false;
      printf("%s\n", error.text);
      return strncmp(error.text, "MMCHAIN_BLAS: ", strlen("MMCHAIN_BLAS: ")) == 0;
    default:
      return false;
  }
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void run_case(int number, const char *variable) {
  char text[16];
  snprintf(text, sizeof text, "%d", number);
  pid_t child = fork();
  if (child == 0) {
    if (variable != NULL)
      setenv("MMCHAIN_BLAS", variable, 1);
    else
      unsetenv("MMCHAIN_BLAS");
    execl(self, self, loops, incomplete, text, (char *)NULL);
    _exit(9);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail_msg("case %d with %s: %d", number, variable != NULL ? variable : "nothing", status);
}

static void chosen_by_the_environment(void **state) {
  (void)state;
  run_case(BY_ENVIRONMENT, loops);
}

static void chosen_by_an_option(void **state) {
  (void)state;
  run_case(BY_OPTION, NULL);
  run_case(BY_OPTION, "none"); /* the option comes first */
  run_case(AFTER_A_FAILURE, NULL);
}

static void the_first_stays(void **state) {
  (void)state;
  run_case(SECOND_CHOICE, NULL);
}

static void refused(void **state) {
  (void)state;
  char open[] = "/tmp/mmchain-blas-XXXXXX";
  run_case(NONE, "none");
  run_case(REFUSED, "libopenblas.so");
  run_case(REFUSED, "/nowhere/libopenblas.so");
  run_case(REFUSED, incomplete);
  int file = mkstemp(open);
  assert_true(file >= 0);
  close(file);
  assert_int_equal(chmod(open, 0666), 0);
  run_case(REFUSED, open);
  unlink(open);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  self = argv[0];
  loops = argv[1];
  incomplete = argv[2];
  if (argc > 3) return passes(atoi(argv[3])) ? 0 : 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chosen_by_the_environment),
      cmocka_unit_test(chosen_by_an_option),
      cmocka_unit_test(the_first_stays),
      cmocka_unit_test(refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
