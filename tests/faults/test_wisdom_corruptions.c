/* test_wisdom_corruptions.c: stores that were damaged at random. The next call that reads or writes
 * mends the store; no record in it is another than the one that was put, and few are lost.
 *
 *     MMCHAIN_TEST_LONG=1    1000 corruptions; 100 without
 *     MMCHAIN_TEST_SEED=N    that one only, to find out what a seed does */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../how_many.h"
#include "../wisdom_store.h"

enum { PRODUCTS = 540, PAGE = 4096 };

typedef struct fixture {
  char directory[64], path[96];
  mmci_fingerprint here, there;
  unsigned char *good; /* the bytes of a sound store */
  size_t size;
} fixture;

static mmci_wisdom *store(fixture *f) {
  mmci_wisdom *wisdom = NULL;
  assert_int_equal(mmci_wisdom_create(f->path, &wisdom, NULL), MMC_OK);
  return wisdom;
}

static void make_store(fixture *f) {
  mmci_wisdom *wisdom = store(f);
  for (int64_t m = 1; m <= PRODUCTS; m++) {
    mmci_wisdom_record record = test_product(m % 3 != 0 ? &f->here : &f->there, m);
    assert_int_equal(mmci_wisdom_put(wisdom, &record, NULL), MMC_OK);
  }
  mmci_wisdom_record array = test_array(&f->here), fact = test_fact(&f->here, "launch_s", 1e-6);
  assert_int_equal(mmci_wisdom_put(wisdom, &array, NULL), MMC_OK);
  assert_int_equal(mmci_wisdom_put(wisdom, &fact, NULL), MMC_OK);
  mmci_wisdom_destroy(wisdom);
}

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  if (f == NULL || make_directory(f->directory) != 0) return 1;
  snprintf(f->path, sizeof f->path, "%s/wisdom.db", f->directory);
  f->here = test_fingerprint("this one");
  f->there = test_fingerprint("another");
  make_store(f);
  FILE *file = fopen(f->path, "rb");
  struct stat status;
  if (file == NULL || fstat(fileno(file), &status) != 0) return 1;
  f->size = (size_t)status.st_size;
  f->good = malloc(f->size);
  bool whole = f->good != NULL && fread(f->good, 1, f->size, file) == f->size;
  fclose(file);
  return whole ? 0 : 1;
}

static int tear_down(void **state) {
  fixture *f = *state;
  remove_directory(f->directory);
  free(f->good);
  free(f);
  return 0;
}

/* ---- damage -------------------------------------------------------------------------------- */

/* Changes bytes as disks, careless programs and hands do; returns the size that is left. */
static size_t damage(unsigned char *bytes, size_t size, uint64_t *random) {
  int64_t pages = (int64_t)size / PAGE;
  unsigned char *page = bytes + PAGE * random_below(random, pages);
  size_t at = (size_t)random_below(random, (int64_t)size);
  switch (random_below(random, 8)) {
    case 0: /* one byte */
      bytes[at] = (unsigned char)random_below(random, 256);
      break;
    case 1: /* the head of a page, which says what it is */
      page[random_below(random, 12)] = (unsigned char)random_below(random, 256);
      break;
    case 2: /* a sector that reads as zeros */
      memset(bytes + at / 512 * 512, 0, 512);
      break;
    case 3: /* a page that was never written */
      memset(page, 0, PAGE);
      break;
    case 4: /* a page that was written to the wrong place */
      memmove(page, bytes + PAGE * random_below(random, pages), PAGE);
      break;
    case 5: /* a bit in a hundred places */
      for (int b = 0; b < 100; b++)
        bytes[random_below(random, (int64_t)size)] ^= (unsigned char)(1 << random_below(random, 8));
      break;
    case 6: /* cut off */
      return at;
    default: /* the first byte of a page */
      page[page == bytes ? 100 : 0] = 0;
  }
  return size;
}

/* Writes the store anew, damaged at random or, unless zeroed is below 0, with that page all zeros.
 */
static void write_damaged(fixture *f, uint64_t *random, int64_t zeroed) {
  unsigned char *bytes = malloc(f->size);
  assert_non_null(bytes);
  memcpy(bytes, f->good, f->size);
  size_t left = f->size;
  if (zeroed < 0)
    left = damage(bytes, f->size, random);
  else
    memset(bytes + PAGE * zeroed, 0, PAGE);
  FILE *file = fopen(f->path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, left, file), left);
  fclose(file);
  free(bytes);
}

/* ---- what is asked of a damaged store ------------------------------------------------------ */

/* The first call: what a plan, an import, a tuning run and an export begin with. */
static mmc_status first_call(fixture *f, mmci_wisdom *wisdom, int64_t which, mmci_error *error) {
  mmci_wisdom_record record = test_product(&f->here, 1);
  text_input text = text_of("mmchain wisdom 1\nend 0\n");
  mmci_wisdom_table *table = NULL;
  bool found;
  char result[MMCI_WISDOM_TEXT_MAX + 1];
  switch (which) {
    case 0:
      return mmci_wisdom_put(wisdom, &record, error);
    case 1:
      return mmci_wisdom_import(wisdom, text_read, &text, error);
    case 2:
      return mmci_wisdom_find_progress(wisdom, &f->here, "j", "u", &found, result, error);
    default:
      if (mmci_wisdom_acquire(wisdom, &f->here, &table, error) != MMC_OK) return error->status;
      mmci_wisdom_release(table);
      return MMC_OK;
  }
}

/* How many products are found, each as it was put. */
static int64_t expect_no_other(mmci_wisdom *wisdom, const mmci_fingerprint *of, uint64_t seed) {
  mmci_wisdom_table *table;
  mmci_error error;
  if (mmci_wisdom_acquire(wisdom, of, &table, &error) != MMC_OK)
    fail_msg("seed %d: %s", (int)seed, error.text);
  int64_t found = 0;
  for (int64_t m = 1; m <= PRODUCTS; m++) {
    mmci_wisdom_record wanted = test_product(of, m);
    const mmci_wisdom_product *product = mmci_wisdom_find(table, &wanted.product.key);
    if (product == NULL) continue;
    found++;
    if (strcmp(product->recipe, wanted.product.recipe) != 0 ||
        product->seconds != wanted.product.seconds ||
        product->plain_seconds != wanted.product.plain_seconds || !isnan(product->joules))
      fail_msg("seed %d: product %d is another", (int)seed, (int)m);
  }
  const mmci_wisdom_array *array =
      mmci_wisdom_find_array(table, MMC_OP_N, MMC_OP_T, MMCI_WISDOM_ENERGY);
  if (array != NULL) assert_memory_equal(array->grid.values, test_values, sizeof test_values);
  mmci_wisdom_release(table);
  return found;
}

/* Writing and reading all of it works, and is the same for another process. */
static void expect_mended(fixture *f, uint64_t seed) {
  mmci_wisdom *wisdom = store(f);
  mmci_error error;
  mmci_wisdom_record record = test_fact(&f->here, "after", 1);
  if (mmci_wisdom_put(wisdom, &record, &error) != MMC_OK)
    fail_msg("seed %d: putting: %s", (int)seed, error.text);
  char *text = export_text(wisdom);
  if (text == NULL) fail_msg("seed %d: the store cannot be exported", (int)seed);
  if (strstr(text, "\"after\"") == NULL) fail_msg("seed %d: what was put is lost", (int)seed);
  free(text);
  mmci_wisdom_destroy(wisdom);
}

static void remove_all(fixture *f) {
  remove_directory(f->directory);
  assert_int_equal(mkdir(f->directory, 0700), 0);
}

static int64_t one_corruption(fixture *f, uint64_t seed) {
  uint64_t random = seed;
  remove_all(f);
  write_damaged(f, &random, -1);
  mmci_wisdom *wisdom = store(f);
  mmci_error error;
  mmc_status status = first_call(f, wisdom, random_below(&random, 4), &error);
  /* A header without our mark may be anybody's file: that one is left alone. */
  if (status != MMC_OK && access(f->path, F_OK) == 0 &&
      (strstr(error.text, "left as it is") != NULL || strstr(error.text, "corrupt") != NULL ||
       strstr(error.text, "newer") != NULL)) {
    char aside[128];
    snprintf(aside, sizeof aside, "%s.corrupt-1", f->path);
    if (access(aside, F_OK) == 0) fail_msg("seed %d: set aside, and %s", (int)seed, error.text);
    mmci_wisdom_destroy(wisdom);
    return -1;
  }
  if (status != MMC_OK) fail_msg("seed %d: %s", (int)seed, error.text);
  int64_t found = expect_no_other(wisdom, &f->here, seed);
  found += expect_no_other(wisdom, &f->there, seed);
  mmci_wisdom_destroy(wisdom);
  expect_mended(f, seed);
  return found;
}

static void corrupt_stores_are_mended(void **state) {
  fixture *f = *state;
  const char *asked = getenv("MMCHAIN_TEST_SEED");
  uint64_t first = asked != NULL ? strtoull(asked, NULL, 10) : 1;
  uint64_t count = asked != NULL ? 1 : (uint64_t)how_many(100, 1000);
  int64_t found = 0, whole = 0, left_alone = 0;
  for (uint64_t seed = first; seed < first + count; seed++) {
    int64_t here = one_corruption(f, seed);
    left_alone += here < 0;
    whole += here == PRODUCTS;
    found += here < 0 ? 0 : here;
  }
  int64_t possible = ((int64_t)count - left_alone) * PRODUCTS;
  print_message(
      "%d corruptions from seed %d: %d stores kept all, %d left alone; %.1f %% of records "
      "kept\n",
      (int)count, (int)first, (int)whole, (int)left_alone,
      100.0 * (double)found / (double)(possible > 0 ? possible : 1));
  if (count > 1) {
    assert_true(left_alone <= (int64_t)count / 20);
    assert_true(found >= possible / 2);
  }
}

/* No page that reads as zeros keeps a store from being mended, the first one and the roots of
 * tables among them, by whatever call comes first. */
static void zeroed_pages_are_mended(void **state) {
  fixture *f = *state;
  const int64_t pages = (int64_t)f->size / PAGE;
  int64_t least = PRODUCTS;
  for (int64_t page = 0; page < pages; page++)
    for (int64_t which = 0; which < 4; which++) {
      remove_all(f);
      write_damaged(f, NULL, page);
      mmci_wisdom *wisdom = store(f);
      mmci_error error;
      if (first_call(f, wisdom, which, &error) != MMC_OK)
        fail_msg("page %d, call %d: %s", (int)page + 1, (int)which, error.text);
      char aside[128];
      snprintf(aside, sizeof aside, "%s.corrupt-1", f->path);
      if (access(aside, F_OK) != 0) fail_msg("page %d: nothing was set aside", (int)page + 1);
      int64_t found = expect_no_other(wisdom, &f->here, (uint64_t)page) +
                      expect_no_other(wisdom, &f->there, (uint64_t)page);
      /* Without the first page or a root nothing may be found; other pages hold few records. */
      if (found < least) least = found;
      mmci_wisdom_destroy(wisdom);
      expect_mended(f, (uint64_t)page);
    }
  print_message("%d pages, each all zeros: at least %d of %d records kept\n", (int)pages,
                (int)least, PRODUCTS);
}

/* Writes size bytes of the good store as the whole file, lets the first call mend it, and returns
 * how many products were kept. */
static int64_t kept_of(fixture *f, size_t size) {
  remove_all(f);
  FILE *file = fopen(f->path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(f->good, 1, size, file), size);
  fclose(file);
  mmci_wisdom *wisdom = store(f);
  mmci_error error;
  if (first_call(f, wisdom, 3, &error) != MMC_OK) fail_msg("%d bytes: %s", (int)size, error.text);
  int64_t found =
      expect_no_other(wisdom, &f->here, size) + expect_no_other(wisdom, &f->there, size);
  mmci_wisdom_destroy(wisdom);
  expect_mended(f, size);
  return found;
}

/* Of a file that was cut off, as by a disk that was full when it was copied, what is in the pages
 * that are left is kept. */
static void what_is_left_of_a_file_is_kept(void **state) {
  fixture *f = *state;
  const int64_t most = kept_of(f, f->size - PAGE), half = kept_of(f, f->size / 2);
  print_message("%d of %d records kept without the last page, %d of half a file\n", (int)most,
                PRODUCTS, (int)half);
  assert_true(most > PRODUCTS / 2 && half > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(corrupt_stores_are_mended, set_up, tear_down),
      cmocka_unit_test_setup_teardown(zeroed_pages_are_mended, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_is_left_of_a_file_is_kept, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
