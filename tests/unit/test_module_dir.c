/* test_module_dir.c: which places the environment may name for modules, and which are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/module_dir.h"

static char path[MMCI_MODULE_PATH_SIZE];
static char folder[64];

static mmc_status find(const char *given, const char *environment, mmci_error *error) {
  *error = (mmci_error){0};
  if (environment == NULL)
    unsetenv("MMCHAIN_MODULE_DIR");
  else
    setenv("MMCHAIN_MODULE_DIR", environment, 1);
  return mmci_module_path(given, "toy", path, error);
}

static void expect_refused(const char *environment, const char *why) {
  mmci_error error;
  assert_int_equal(find(NULL, environment, &error), MMC_E_ARG);
  assert_non_null(strstr(error.text, "MMCHAIN_MODULE_DIR: expected"));
  assert_non_null(strstr(error.text, why));
}

static void expect_found(const char *given, const char *environment, const char *wanted) {
  mmci_error error;
  assert_int_equal(find(given, environment, &error), MMC_OK);
  assert_string_equal(path, wanted);
}

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/mmchain-modules-XXXXXX");
  return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
  (void)state;
  char module[128];
  snprintf(module, sizeof module, "%s/mmchain-toy.so", folder);
  unlink(module);
  return rmdir(folder);
}

static void the_given_comes_first(void **state) {
  (void)state;
  expect_found("/nowhere", NULL, "/nowhere/mmchain-toy.so");
  expect_found("/nowhere", "/elsewhere", "/nowhere/mmchain-toy.so");
  expect_found("/nowhere", "relative", "/nowhere/mmchain-toy.so");
}

static void absolute_places_are_taken(void **state) {
  (void)state;
  char wanted[128];
  snprintf(wanted, sizeof wanted, "%s/mmchain-toy.so", folder);
  expect_found(NULL, folder, wanted);
  expect_found(NULL, "/no/such/folder", "/no/such/folder/mmchain-toy.so");
}

static void relative_places_are_refused(void **state) {
  (void)state;
  expect_refused("", "absolute path, got ''");
  expect_refused(".", "absolute path, got '.'");
  expect_refused("lib/mmchain", "absolute path, got 'lib/mmchain'");
}

static void places_of_others_are_refused(void **state) {
  (void)state;
  assert_int_equal(chmod(folder, 0777), 0);
  expect_refused(folder, "not all may write");
  assert_int_equal(chmod(folder, 0755), 0);

  char module[128];
  snprintf(module, sizeof module, "%s/mmchain-toy.so", folder);
  FILE *file = fopen(module, "w");
  assert_non_null(file);
  fclose(file);
  assert_int_equal(chmod(module, 0644), 0);
  expect_found(NULL, folder, module);
  assert_int_equal(chmod(module, 0666), 0);
  expect_refused(folder, "not all may write");
  assert_int_equal(chmod(module, 0644), 0);

  if (geteuid() != 0) return; /* only root gives files away */
  assert_int_equal(chown(folder, 12345, 12345), 0);
  expect_refused(folder, "belongs to you or root");
  assert_int_equal(chown(folder, 0, 0), 0);
  assert_int_equal(chown(module, 12345, 12345), 0);
  expect_refused(folder, "belongs to you or root");
}

static void long_names_are_refused(void **state) {
  (void)state;
  static char name[2 * MMCI_MODULE_PATH_SIZE];
  memset(name, 'a', sizeof name - 1);
  name[0] = '/';
  mmci_error error;
  assert_int_equal(find(NULL, name, &error), MMC_E_ARG);
  assert_int_equal(find(name, NULL, &error), MMC_E_ARG);
}

/* This program has the library inside: what lies beside it in mmchain/ is found, wherever it is. */
static void what_lies_beside_is_found(void **state) {
  (void)state;
  char program[2048], beside[2100], module[2200];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  assert_true(length > 0);
  program[length] = '\0';
  *strrchr(program, '/') = '\0';
  snprintf(beside, sizeof beside, "%s/mmchain", program);
  snprintf(module, sizeof module, "%s/mmchain-toy.so", beside);
  assert_true(mkdir(beside, 0755) == 0 || access(beside, W_OK) == 0);
  FILE *file = fopen(module, "w");
  assert_non_null(file);
  fclose(file);
  expect_found(NULL, NULL, module);
  unlink(module);
  mmci_error error;
  assert_int_equal(find(NULL, NULL, &error), MMC_OK);
  assert_string_not_equal(path, module);
  assert_true(path[0] == '/');
  rmdir(beside);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_given_comes_first),
      cmocka_unit_test_setup_teardown(absolute_places_are_taken, make_folder, remove_folder),
      cmocka_unit_test(relative_places_are_refused),
      cmocka_unit_test_setup_teardown(places_of_others_are_refused, make_folder, remove_folder),
      cmocka_unit_test(long_names_are_refused),
      cmocka_unit_test(what_lies_beside_is_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
