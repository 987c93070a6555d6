/* test_meter_rapl.c: the processor's meter, on trees like /sys/class/powercap. */
#include <math.h>
#include <sys/stat.h>

#include "meter/meter.h"
#include "npy_scratch.h"

static const mmci_meter_ops *const ops = &mmci_meter_rapl;

/* ---- a tree ---------------------------------------------------------------------------------- */

/* Overwrites in place, as the counters change under an open file. */
static void set(const char *domain, const char *file, const char *text) {
  char path[SCRATCH_PATH_SIZE];
  snprintf(path, sizeof path, "%s/%s", scratch(domain), file);
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  assert_true(fputs(text, out) >= 0);
  assert_int_equal(fclose(out), 0);
}

static void add_domain(const char *domain, const char *name, const char *energy_uj,
                       const char *range_uj) {
  assert_int_equal(mkdir(scratch(domain), 0755), 0);
  set(domain, "name", name);
  if (energy_uj != NULL) set(domain, "energy_uj", energy_uj);
  if (range_uj != NULL) set(domain, "max_energy_range_uj", range_uj);
}

static int clear(void **state) {
  (void)state;
  static const char *const files[] = {"name", "energy_uj", "max_energy_range_uj"};
  DIR *directory = opendir(scratch_directory);
  if (directory == NULL) return -1;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    for (int f = 0; f < 3; f++) {
      char path[SCRATCH_PATH_SIZE + 32];
      snprintf(path, sizeof path, "%s/%s", scratch(entry->d_name), files[f]);
      remove(path);
    }
    remove(scratch(entry->d_name));
  }
  closedir(directory);
  return 0;
}

static mmc_status open_meter(mmci_meter **out, mmci_error *error) {
  return ops->open(&(mmci_meter_source){.powercap = scratch_directory}, out, error);
}

static double read_joules(mmci_meter *meter) {
  double joules = NAN;
  mmci_error error = {.text = ""};
  if (ops->joules(meter, 0, &joules, &error) != MMC_OK) fail_msg("%s", error.text);
  return joules;
}

static void assert_near(double got, double expected) {
  if (!(fabs(got - expected) <= 1e-9 * fmax(1, fabs(expected))))
    fail_msg("got %.17g, expected %.17g", got, expected);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void packages_are_summed(void **state) {
  (void)state;
  mmci_error error;
  mmci_meter *meter;
  add_domain("intel-rapl:0", "package-0\n", "1000000\n", "262143328850\n");
  add_domain("intel-rapl:0:0", "core\n", "500\n", "262143328850\n");
  add_domain("intel-rapl:0:1", "package-0\n", "500\n", "262143328850\n"); /* no domain of its own */
  add_domain("intel-rapl:1", "package-1\n", "7\n", "65532610987\n");
  add_domain("intel-rapl:2", "psys\n", "5\n", "65532610987\n");
  add_domain("intel-rapl-mmio:0", "package-0\n", "5\n", "65532610987\n"); /* the same once more */
  add_domain("intel-rapl:x", "package-9\n", "5\n", "65532610987\n");
  assert_int_equal(open_meter(&meter, &error), MMC_OK);
  double start = read_joules(meter);
  set("intel-rapl:0", "energy_uj", "3500000\n");
  set("intel-rapl:0:0", "energy_uj", "99999999\n");
  assert_near(read_joules(meter) - start, 2.5);
  set("intel-rapl:1", "energy_uj", "1000007\n");
  set("intel-rapl:2", "energy_uj", "99999999\n");
  assert_near(read_joules(meter) - start, 3.5);
  assert_near(read_joules(meter) - start, 3.5);
  char text[128];
  ops->describe(meter, text, sizeof text);
  assert_holds(text, "package-0");
  assert_holds(text, " + ");
  assert_holds(text, "package-1");
  assert_null(strstr(text, "psys"));
  char cut[9];
  ops->describe(meter, cut, sizeof cut);
  assert_string_equal(cut, "processo");
  ops->close(meter);
}

/* The counter starts over at its range, in each domain by itself, again and again. */
static void wrap_around_is_undone(void **state) {
  (void)state;
  mmci_error error;
  mmci_meter *meter;
  add_domain("intel-rapl:0", "package-0", "90000000", "100000000");
  add_domain("intel-rapl:1", "package-1", "0", "100000000");
  assert_int_equal(open_meter(&meter, &error), MMC_OK);
  double start = read_joules(meter), expected = 0;
  char text[32];
  uint64_t counter = 90000000;
  for (int i = 0; i < 50; i++) {
    uint64_t step = 7000000 + (uint64_t)i * 1000001;
    counter = (counter + step) % 100000000;
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)counter);
    set("intel-rapl:0", "energy_uj", text);
    expected += (double)step * 1e-6;
    assert_near(read_joules(meter) - start, expected);
  }
  ops->close(meter);
}

static void a_counter_that_breaks_is_a_failure(void **state) {
  (void)state;
  static const char *const broken[] = {
      "", "\n", "x\n", "12x\n", "-5\n", " 7\n", "99999999999999999999999\n"};
  mmci_error error;
  mmci_meter *meter;
  add_domain("intel-rapl:0", "package-0\n", "100\n", "1000\n");
  assert_int_equal(open_meter(&meter, &error), MMC_OK);
  for (size_t b = 0; b < sizeof broken / sizeof broken[0]; b++) {
    double joules = 7;
    set("intel-rapl:0", "energy_uj", broken[b]);
    assert_int_equal(ops->joules(meter, 0, &joules, &error), MMC_E_DEVICE);
    assert_true(joules == 7);
    assert_holds(error.text, "package-0");
  }
  /* Above its own range the counter cannot have come around. */
  set("intel-rapl:0", "energy_uj", "5000\n");
  read_joules(meter);
  set("intel-rapl:0", "energy_uj", "1\n");
  double joules = 7;
  assert_int_equal(ops->joules(meter, 0, &joules, &error), MMC_E_DEVICE);
  assert_holds(error.text, "fell from 5000, above its range of 1000");
  ops->close(meter);
}

/* ---- what may be missing --------------------------------------------------------------------- */

static void expect_missing(const char *why, const char *how) {
  mmci_error error;
  mmci_meter *meter = NULL;
  assert_int_equal(open_meter(&meter, &error), MMC_E_UNSUPPORTED);
  assert_null(meter);
  assert_holds(error.text, why);
  assert_holds(error.text, how);
}

static void what_is_missing_is_told(void **state) {
  (void)state;
  mmci_error error;
  mmci_meter *meter = NULL;
  mmci_meter_source nowhere = {.powercap = "/no/such/folder"};
  assert_int_equal(ops->open(&nowhere, &meter, &error), MMC_E_UNSUPPORTED);
  assert_holds(error.text, "/no/such/folder: No such file or directory");
  assert_holds(error.text, "modprobe intel_rapl_msr");
  expect_missing("no package is there", "virtual machines");
  add_domain("intel-rapl:0", "psys\n", "5\n", "10\n");
  expect_missing("no package is there", "modprobe");
  add_domain("intel-rapl:1", "package-0\n", NULL, "10\n");
  expect_missing("intel-rapl:1/energy_uj: No such file", "");
  set("intel-rapl:1", "energy_uj", "many\n");
  expect_missing("intel-rapl:1/energy_uj: expected a whole number", "");
  set("intel-rapl:1", "energy_uj", "5\n");
  set("intel-rapl:1", "max_energy_range_uj", "\n");
  expect_missing("intel-rapl:1/max_energy_range_uj: expected a whole number", "");
}

static void a_counter_for_root_alone_is_told(void **state) {
  (void)state;
  char path[SCRATCH_PATH_SIZE];
  add_domain("intel-rapl:0", "package-0\n", "5\n", "10\n");
  snprintf(path, sizeof path, "%s/energy_uj", scratch("intel-rapl:0"));
  assert_int_equal(chmod(path, 0400), 0);
  assert_int_equal(chmod(scratch_directory, 0755), 0);
  if (geteuid() != 0 && chmod(path, 0) != 0) skip();
  if (!drop_privileges()) skip();
  mmci_error error = {.text = ""};
  mmci_meter *meter = NULL;
  mmc_status status = open_meter(&meter, &error);
  restore_privileges();
  assert_int_equal(status, MMC_E_UNSUPPORTED);
  assert_null(meter);
  assert_holds(error.text, "energy_uj is for root alone");
  assert_holds(error.text, "sudo chmod a+r");
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, clear)
  const struct CMUnitTest tests[] = {
      TEST(packages_are_summed),
      TEST(wrap_around_is_undone),
      TEST(a_counter_that_breaks_is_a_failure),
      TEST(what_is_missing_is_told),
      TEST(a_counter_for_root_alone_is_told),
      TEST(test_nothing_left),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
