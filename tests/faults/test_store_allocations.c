/* test_store_allocations.c: the wisdom store, what is priced by it and tuning, which fills it, once
 * with each allocation failing (failing.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../wisdom_text.h"
#include "failing.h"
#include "mmchain.h"
#ifdef MMCI_SQLITE
#include "wisdom/table.h"
#include "wisdom/wisdom_pricing.h"
#endif

static mmc_status wisdom(void) {
  mmc_status status;
  mmc_context *context = NULL;
  static const char form[] =
      "mmchain wisdom 1\n"
      "fingerprint \"ref\" \"m\" \"\" \"\" \"0.1.0\" \"f32\" \"native\"\n"
      "product 1 2 3 N N time \"r\" 1 0 1 - - - \"measured\" 1\n"
      "array N N time 1 1 2 5\n m 1\n k 1\n n 1 2\n E 1 2\n"
      "end 2\n";
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "test_store_allocations.db";
  TRY(mmc_context_create(&options, &context), context, mmc_context);
  mmc_wisdom_info info = {0};
  int64_t count = 0;
  status = import_wisdom_text(context, form);
  if (status == MMC_E_UNSUPPORTED) status = MMC_OK; /* built without SQLite */
  if (status == MMC_OK) status = mmc_wisdom_export(context, ignore, NULL);
  if (status == MMC_OK) status = mmc_wisdom_write(context, MMC_JSON, ignore, NULL);
  if (status == MMC_OK) status = mmc_wisdom_describe(context, &info);
  if (status == MMC_OK) status = mmc_wisdom_forget(context, NULL, &count);
  if (status == MMC_E_UNSUPPORTED) status = MMC_OK;
  if (status == MMC_OK && info.available) assert_int_equal(count, 2);
end:
  mmc_context_destroy(context);
  unlink("test_store_allocations.db");
  return status;
}

#ifdef MMCI_SQLITE
/* A table in memory whose texts and grids fill a block each, so that any of them may be the one
 * that there is no memory for; more products than the first hash table has room for. */
static mmc_status table_of_records(void) {
  enum { LONG = 1 << 16, PRODUCTS = 20 };
  static char texts[3][LONG + 1];
  static double values[LONG / 8];
  static int64_t points[LONG / 8];
  for (int t = 0; t < 3; t++) memset(texts[t], 'a' + t, LONG);
  for (int p = 0; p < LONG / 8; p++) points[p] = p + 1;
  mmci_error error;
  mmci_fingerprint here;
  for (int f = 0; f < MMCI_FINGERPRINT_FIELDS; f++)
    mmci_fingerprint_set(&here, (mmci_fingerprint_field)f, "x");
  mmci_wisdom_table *table = NULL;
  mmc_status status = mmci_table_create(&here, (mmci_table_stamp){0}, &table, &error);
  mmci_wisdom_record record = {.kind = MMCI_WISDOM_FACT, .fact = {.name = texts[0], .number = 1}};
  if (status == MMC_OK) status = mmci_table_add(table, &record, &error);
  record = (mmci_wisdom_record){
      .kind = MMCI_WISDOM_ARRAY,
      .array.grid = {
          .count = {1, 1, LONG / 8}, .axis = {points, points, points}, .values = values}};
  if (status == MMC_OK) status = mmci_table_add(table, &record, &error);
  record = (mmci_wisdom_record){.kind = MMCI_WISDOM_PROGRESS}; /* tables have none */
  if (status == MMC_OK) status = mmci_table_add(table, &record, &error);
  for (int m = 1; m <= PRODUCTS && status == MMC_OK; m++) {
    record = (mmci_wisdom_record){
        .kind = MMCI_WISDOM_PRODUCT,
        .product = {.key = {.m = m}, .recipe = m == 3 ? texts[1] : "r", .source = texts[2]}};
    status = mmci_table_add(table, &record, &error);
  }
  for (int m = 0; m <= PRODUCTS + 1 && status == MMC_OK; m++) {
    const mmci_wisdom_product *found = mmci_wisdom_find(table, &(mmci_wisdom_key){.m = m});
    assert_true((found != NULL) == (m >= 1 && m <= PRODUCTS));
  }
  mmci_wisdom_release(table);
  return status;
}

/* What is priced by records: calls of groups, batches, and arrays with what is needed to trust
 * them. */
static mmc_status pricing(void) {
  static const int64_t points[] = {64, 128, 192, 256};
  static double values[64];
  static const char *const facts[] = {"call f32:3x4x5",  "array NN margin",  "array NN between",
                                      "array NT margin", "array NT between", "batch x"};
  for (int v = 0; v < 64; v++) values[v] = 1e9;
  mmci_error error;
  mmci_fingerprint here;
  mmci_wisdom *store = NULL;
  mmci_wisdom_pricing *known = NULL;
  for (int f = 0; f < MMCI_FINGERPRINT_FIELDS; f++)
    mmci_fingerprint_set(&here, (mmci_fingerprint_field)f, "x");
  mmc_status status = mmci_wisdom_create("test_store_allocations.db", &store, &error);
  for (size_t f = 0; f < sizeof facts / sizeof facts[0] && status == MMC_OK; f++) {
    mmci_wisdom_record record = {.kind = MMCI_WISDOM_FACT,
                                 .fingerprint = &here,
                                 .fact = {.name = facts[f], .number = 0.5, .spread = 0.1}};
    status = mmci_wisdom_put(store, &record, &error);
  }
  for (int op = 0; op < 2 && status == MMC_OK; op++) {
    mmci_wisdom_record record = {
        .kind = MMCI_WISDOM_ARRAY,
        .fingerprint = &here,
        .array = {
            .op_b = (mmc_op)op,
            .grid = {.count = {4, 4, 4}, .axis = {points, points, points}, .values = values}}};
    status = mmci_wisdom_put(store, &record, &error);
  }
  const mmci_facts of_device = {0};
  if (status == MMC_OK)
    status =
        mmci_wisdom_pricing_acquire(store, &here, &of_device, MMC_F32, MMCI_NATIVE, &known, &error);
  mmci_wisdom_pricing_release(known);
  mmci_wisdom_destroy(store);
  unlink("test_store_allocations.db");
  return status;
}
#endif

enum { SALVAGED = 200, STORE_PAGE = 4096 };

/* Makes a store of many records and of every kind, and damages one of its pages. */
static void make_corrupt_store(const char *path) {
  static char form[40000];
  size_t used =
      (size_t)snprintf(form, sizeof form,
                       "mmchain wisdom 1\n"
                       "fingerprint \"ref\" \"m\" \"\" \"\" \"0.1.0\" \"f32\" \"native\"\n"
                       "array N N time 1 1 2 5\n m 1\n k 1\n n 1 2\n E 1 2\n"
                       "fact \"launch_s\" 1e-6 0.5 1\n");
  for (int m = 1; m <= SALVAGED; m++)
    used += (size_t)snprintf(form + used, sizeof form - used,
                             "product %d 2 3 N N time \"r\" 1 0 1 - - - \"measured\" 1\n", m);
  snprintf(form + used, sizeof form - used, "end %d\n", SALVAGED + 2);
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  mmc_context *context;
  options.wisdom_path = path;
  assert_int_equal(mmc_context_create(&options, &context), MMC_OK);
  mmc_status status = import_wisdom_text(context, form);
  assert_true(status == MMC_OK || status == MMC_E_UNSUPPORTED);
  mmc_context_destroy(context);
  FILE *file = fopen(path, "r+b");
  if (file == NULL) return; /* built without SQLite */
  assert_int_equal(fseek(file, -2 * STORE_PAGE, SEEK_END), 0);
  assert_int_equal(fputc(0, file), 0);
  fclose(file);
}

static void remove_stores(void) {
  static const char *const endings[] = {"", "-wal", "-shm"};
  char name[64];
  for (int n = 0; n <= 3; n++)
    for (int e = 0; e < 3; e++) {
      snprintf(name, sizeof name,
               n > 0 ? "test_store_allocations.db.corrupt-%d%s" : "test_store_allocations.db", n,
               endings[e]);
      unlink(name);
    }
}

static int count_products(void *user, const char *bytes, size_t size) {
  for (size_t b = 0; b + 8 <= size; b++) *(int *)user += memcmp(bytes + b, "product ", 8) == 0;
  return 0;
}

/* Exports a store, and once more with no allocation failing when that fails; says how many products
 * there are in the end. Returns what the first attempt did. */
static mmc_status export_store(int *products) {
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  mmc_context *context = NULL;
  options.wisdom_path = "test_store_allocations.db";
  mmc_status status = mmc_context_create(&options, &context);
  *products = 0;
  if (status == MMC_OK) status = mmc_wisdom_export(context, count_products, products);
  allocations_left = -1;
  if (status != MMC_OK && context == NULL)
    assert_int_equal(mmc_context_create(&options, &context), MMC_OK);
  if (status != MMC_OK) {
    *products = 0;
    mmc_status again = mmc_wisdom_export(context, count_products, products);
    char text[512];
    if (again == MMC_E_UNSUPPORTED)
      status = again;
    else if (again != MMC_OK)
      fail_msg("after %s, the second time: %s", mmc_status_string(status),
               mmc_context_message(context, text, sizeof text));
  }
  mmc_context_destroy(context);
  return status;
}

/* A corrupt store is set aside and read from both ends, with each allocation failing once. Where
 * memory is short, that is said, and done by the next call. */
static void fail_salvage(void **state) {
  (void)state;
  int expected = 0, products;
  make_corrupt_store("test_store_allocations.db");
  mmc_status status = export_store(&expected);
  remove_stores();
  if (status == MMC_E_UNSUPPORTED) return; /* built without SQLite */
  assert_int_equal(status, MMC_OK);
  assert_true(expected > SALVAGED / 4 && expected < SALVAGED);
  long k = 0;
  for (allocation_failures = 1; allocation_failures > 0; k++) {
    make_corrupt_store("test_store_allocations.db");
    allocation_failures = 0;
    allocations_left = k;
    status = export_store(&products);
    assert_true(status == MMC_OK || status == MMC_E_NOMEM || status == MMC_E_FORMAT);
    if (allocation_failures == 0) assert_int_equal(status, MMC_OK);
    if (products != expected)
      fail_msg("allocation %ld: %s, %d products", k, mmc_status_string(status), products);
    remove_stores();
  }
  assert_true(k > 5);
}

/* Stops after a few measurements. */
static int few(void *user, const mmc_tune_progress *now) {
  (void)now;
  return ++*(int *)user > 4;
}

static mmc_status tuning(void) {
  mmc_status status;
  mmc_context *context = NULL;
  mmc_chain *chain = NULL;
  mmc_context_options context_options = MMC_CONTEXT_OPTIONS_INIT;
  context_options.wisdom_path = "test_store_allocations.db";
  TRY(mmc_context_create(&context_options, &context), context, mmc_context);
  TRY(mmc_chain_parse(context, "f32:3x4x5x6", &chain), chain, mmc_chain);
  mmc_tune_options options = MMC_TUNE_OPTIONS_INIT;
  const mmc_chain *chains[] = {chain};
  int reports = 0;
  options.device = "ref";
  options.chains = chains;
  options.chain_count = 1;
  options.progress = few;
  options.user = &reports;
  status = mmc_tune(context, &options, NULL);
  if (status == MMC_E_INTERRUPTED || status == MMC_E_UNSUPPORTED) status = MMC_OK;
end:
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  unlink("test_store_allocations.db");
  return status;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      FAILING(wisdom),
#ifdef MMCI_SQLITE
      FAILING(table_of_records),
      FAILING(pricing),
#endif
      cmocka_unit_test(fail_salvage),
      FAILING(tuning),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
