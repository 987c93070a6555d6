/* test_pricing.c: where prices come from: what was measured, else an array, else the model; and
 * nothing of another fingerprint or that does not make sense. */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../facts.h"
#include "../random.h"
#include "../wisdom_store.h"
#include "base/monotonic.h"
#include "cost/efficiency.h"
#include "cost/roofline.h"
#include "planner/time_order.h"
#include "tune/journal.h"
#include "wisdom/wisdom_pricing.h"

typedef struct fixture {
  char directory[64], path[96];
  mmci_wisdom_journal journal; /* of this machine's store */
  mmci_fingerprint there;
  mmci_error error;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  if (f == NULL || make_directory(f->directory) != 0) return 1;
  snprintf(f->path, sizeof f->path, "%s/wisdom.db", f->directory);
  f->journal.fingerprint = test_fingerprint("this one");
  f->there = test_fingerprint("that one");
  return mmci_wisdom_create(f->path, &f->journal.wisdom, NULL) != MMC_OK;
}

static int tear_down(void **state) {
  fixture *f = *state;
  mmci_wisdom_destroy(f->journal.wisdom);
  remove_directory(f->directory);
  free(f);
  return 0;
}

static mmci_gemm product(int64_t m, int64_t k, int64_t n, mmc_op op_a, mmc_op op_b) {
  return mmci_gemm_tight(MMC_F32, MMCI_NATIVE, m, k, n, op_a, op_b);
}

static mmci_price price_of(fixture *f, const mmci_gemm *gemm) {
  mmci_wisdom_pricing *known;
  if (mmci_wisdom_pricing_acquire(f->journal.wisdom, &f->journal.fingerprint, &test_facts, MMC_F32,
                                  MMCI_NATIVE, &known, &f->error) != MMC_OK)
    fail_msg("%s", f->error.text);
  mmci_pricing pricing = mmci_wisdom_pricing_of(known);
  mmci_price price;
  pricing.price(pricing.user, gemm, &price);
  mmci_wisdom_pricing_release(known);
  return price;
}

static void expect_source(fixture *f, const mmci_gemm *gemm, const char *source,
                          const char *recipe) {
  mmci_price price = price_of(f, gemm);
  char text[MMCI_RECIPE_TEXT_SIZE];
  mmci_recipe_format(&price.recipe, NULL, text);
  assert_string_equal(mmci_provenance_name(price.source), source);
  assert_string_equal(text, recipe);
  assert_true(price.seconds > 0 && isfinite(price.seconds) && price.error >= 0);
}

static void put_product(fixture *f, const mmci_fingerprint *fingerprint, const mmci_gemm *gemm,
                        const char *recipe) {
  mmci_wisdom_record record = test_product(fingerprint, gemm->m);
  record.product.key.k = gemm->k;
  record.product.key.n = gemm->n;
  assert_true(mmci_form_op(&gemm->a, &record.product.key.op_a));
  assert_true(mmci_form_op(&gemm->b, &record.product.key.op_b));
  record.product.recipe = recipe;
  assert_int_equal(mmci_wisdom_put(f->journal.wisdom, &record, &f->error), MMC_OK);
}

/* An array to 64 whose columns beyond 32 are bad: 1 s a multiplication and 3 above. */
static void put_array(fixture *f, mmci_wisdom_journal *journal) {
  mmci_gemm like = product(1, 1, 1, MMC_OP_N, MMC_OP_T);
  mmci_grid grid[3];
  for (int d = 0; d < 3; d++) grid[d] = (mmci_grid){.step = 32, .count = 2, .values = {32, 64}};
  mmci_array *array;
  assert_int_equal(mmci_array_create(&like, grid, &array, &f->error), MMC_OK);
  for (int i = 0; i < 8; i++) array->seconds[i] = i % 2 == 0 ? 1 : 3;
  array->trust = (mmci_trust){0.25, 0.25, 0.25};
  assert_int_equal(mmci_journal_array(journal, array, MMC_OP_N, MMC_OP_T, &f->error), MMC_OK);
  mmci_array_destroy(array);
}

static void put_roofline(fixture *f, mmci_wisdom_journal *journal) {
  mmci_roofline r = {.flops_per_s = 1e12,
                     .bytes_per_s = 2e11,
                     .launch_s = 3e-6,
                     .half_mn = 4,
                     .half_k = 5,
                     .overlap = 1,
                     .error = 0.125,
                     .calibrated = true};
  assert_int_equal(mmci_journal_roofline(journal, &r, &f->error), MMC_OK);
}

/* ---- the order of sources ------------------------------------------------------------------ */

static void measured_goes_before_array_before_model(void **state) {
  fixture *f = *state;
  mmci_gemm gemm = product(64, 64, 64, MMC_OP_N, MMC_OP_T);
  expect_source(f, &gemm, "model, not calibrated", "whole");
  put_roofline(f, &f->journal);
  expect_source(f, &gemm, "model", "whole");
  mmci_price price = price_of(f, &gemm);
  assert_true(price.modelled && price.error == 0.125);
  put_array(f, &f->journal);
  expect_source(f, &gemm, "array", "n:32,32");
  price = price_of(f, &gemm);
  assert_true(fabs(price.seconds - 2) < 1e-9 && price.error == 0.25 && !price.modelled);
  put_product(f, &f->journal.fingerprint, &gemm, "m:16,48");
  expect_source(f, &gemm, "measured", "m:16,48");
  price = price_of(f, &gemm);
  assert_true(price.seconds == 64e-6 && price.error == 0.01 && !price.modelled);
}

static void keys_are_sizes_and_ops(void **state) {
  fixture *f = *state;
  mmci_gemm gemm = product(64, 64, 64, MMC_OP_N, MMC_OP_T);
  put_product(f, &f->journal.fingerprint, &gemm, "m:16,48");
  put_array(f, &f->journal);
  gemm = product(64, 64, 64, MMC_OP_N, MMC_OP_N);
  expect_source(f, &gemm, "model, not calibrated", "whole");
  gemm = product(64, 64, 63, MMC_OP_N, MMC_OP_T);
  expect_source(f, &gemm, "array", "n:32,31");
  gemm = product(64, 64, 65, MMC_OP_N, MMC_OP_T);
  expect_source(f, &gemm, "model, not calibrated", "whole");
  gemm = product(0, 64, 64, MMC_OP_N, MMC_OP_T);
  expect_source(f, &gemm, "model, not calibrated", "whole");
  /* Conjugated without being transposed is no op, so nothing measured is about it. */
  gemm = product(64, 64, 64, MMC_OP_N, MMC_OP_T);
  gemm.a.conj = true;
  expect_source(f, &gemm, "model, not calibrated", "whole");
}

static void another_fingerprint_is_never_used(void **state) {
  fixture *f = *state;
  mmci_gemm gemm = product(64, 64, 64, MMC_OP_N, MMC_OP_T);
  mmci_wisdom_journal other = f->journal;
  other.fingerprint = f->there;
  put_product(f, &f->there, &gemm, "m:16,48");
  put_array(f, &other);
  put_roofline(f, &other);
  expect_source(f, &gemm, "model, not calibrated", "whole");
  for (int field = 0; field < MMCI_FINGERPRINT_FIELDS; field++) {
    other.fingerprint = f->journal.fingerprint;
    mmci_fingerprint_set(&other.fingerprint, (mmci_fingerprint_field)field, "another");
    put_product(f, &other.fingerprint, &gemm, "m:16,48");
    put_array(f, &other);
    put_roofline(f, &other);
    expect_source(f, &gemm, "model, not calibrated", "whole");
  }
}

/* ---- what does not make sense -------------------------------------------------------------- */

static void recipes_that_are_none_are_not_used(void **state) {
  fixture *f = *state;
  static const char *const bad[] = {"split m 2",    "m:16,47", "m:0,64", "n:32,32 ",
                                    "lanes9/whole", "k:64",    "V1",     "v99999"};
  mmci_gemm gemm = product(64, 64, 64, MMC_OP_N, MMC_OP_T);
  for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
    put_product(f, &f->journal.fingerprint, &gemm, bad[b]);
    expect_source(f, &gemm, "model, not calibrated", "whole");
  }
  put_array(f, &f->journal);
  expect_source(f, &gemm, "array", "n:32,32");
}

static const char *first_names(mmc_dtype dtype, int variant) {
  static const char *const names[] = {"1 thread", "big_tile 16x32"};
  (void)dtype;
  return variant <= 2 ? names[variant - 1] : NULL;
}

/* A later version has a variant more, and a variant less. */
static const char *later_names(mmc_dtype dtype, int variant) {
  static const char *const names[] = {"another", "", "big_tile 16x32"};
  (void)dtype;
  return variant <= 3 ? names[variant - 1] : NULL;
}

static mmci_price price_with_facts(fixture *f, const mmci_gemm *gemm, const mmci_facts *facts) {
  mmci_wisdom_pricing *known;
  mmci_price price;
  assert_int_equal(mmci_wisdom_pricing_acquire(f->journal.wisdom, &f->journal.fingerprint, facts,
                                               MMC_F32, MMCI_NATIVE, &known, &f->error),
                   MMC_OK);
  mmci_pricing pricing = mmci_wisdom_pricing_of(known);
  pricing.price(pricing.user, gemm, &price);
  mmci_wisdom_pricing_release(known);
  return price;
}

static mmci_price price_with_names(fixture *f, const mmci_gemm *gemm, mmci_variant_name_fn name) {
  mmci_facts facts = test_facts;
  facts.variant_name = name;
  return price_with_facts(f, gemm, &facts);
}

/* A device whose own choice takes a third of the time where it may be off by something. */
static double told_loose(const void *user, const mmci_gemm *gemm) {
  (void)user;
  return gemm->rule.tolerance > 0 ? 1 : 3;
}

/* What was measured without a tolerance is worth the device's share with one, unless a recipe,
 * whose arithmetic is another, takes less still. */
static void tolerances_have_prices_of_their_own(void **state) {
  fixture *f = *state;
  static const struct {
    const char *recipe; /* takes 64 us, or the plain call's */
    double plain_s, loose_s;
    const char *loose;
  } cases[] = {{"whole", 64e-6, 64e-6 / 3, "whole"},
               {"m:16,48", 120e-6, 40e-6, "whole"},
               {"m:16,48", 300e-6, 64e-6, "m:16,48"}};
  mmci_facts facts = test_facts;
  facts.model = (mmci_model){.seconds = told_loose, .error = 0.1};
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    mmci_gemm gemm = product(64, 64, 64, MMC_OP_N, MMC_OP_T);
    mmci_wisdom_record record = test_product(&f->journal.fingerprint, 64);
    record.product.key = (mmci_wisdom_key){64, 64, 64, MMC_OP_N, MMC_OP_T, MMCI_WISDOM_TIME};
    record.product.recipe = cases[c].recipe;
    record.product.plain_seconds = cases[c].plain_s;
    assert_int_equal(mmci_wisdom_put(f->journal.wisdom, &record, &f->error), MMC_OK);
    mmci_price tight = price_with_facts(f, &gemm, &facts);
    gemm.rule.tolerance = 1e-9;
    mmci_price loose = price_with_facts(f, &gemm, &facts);
    char text[MMCI_RECIPE_TEXT_SIZE];
    mmci_recipe_format(&loose.recipe, NULL, text);
    assert_true(tight.seconds == 64e-6 && tight.plain_s == cases[c].plain_s);
    assert_true(fabs(loose.seconds / cases[c].loose_s - 1) < 1e-9);
    assert_true(fabs(loose.plain_s / cases[c].plain_s * 3 - 1) < 1e-9);
    assert_string_equal(text, cases[c].loose);
  }
}

/* A device that pads products of more than 40 rows by 8, and takes kernel 2 for others of more than
 * 20; the plain call takes 9 ns at least, or what is known of it. */
static bool told_better(const void *user, const mmci_gemm *gemm, double least_s, mmci_better *out) {
  (void)user;
  if (gemm->m <= 20) return false;
  *out = (mmci_better){.pad = gemm->m > 40 ? 8 : 0,
                       .variant = gemm->m > 40 ? 0 : 2,
                       .seconds = 1.25e-9,
                       .plain_s = fmax(9e-9, least_s)};
  return true;
}

/* What the device knows to be faster than the plain call is taken in its place, unless the very
 * product was tuned, or an array has a better recipe than the plain call. */
static void devices_may_know_what_is_better(void **state) {
  fixture *f = *state;
  mmci_facts facts = test_facts;
  facts.model = (mmci_model){.better = told_better, .error = 0.1};
  const mmci_gemm padded = product(64, 16, 31, MMC_OP_N, MMC_OP_T),
                  large = product(32, 31, 16, MMC_OP_N, MMC_OP_T),
                  small = product(16, 16, 16, MMC_OP_N, MMC_OP_T),
                  tuned = product(32, 32, 32, MMC_OP_N, MMC_OP_T),
                  cut = product(64, 64, 64, MMC_OP_N, MMC_OP_T);
  mmci_price price = price_with_facts(f, &padded, &facts);
  assert_int_equal(price.source, MMCI_SHIPPED);
  assert_true(price.recipe.pad == 8 && mmci_recipe_count(&price.recipe) == 1);
  assert_int_equal(price.recipe.nodes[0].variant, 0);
  assert_true(price.seconds == 1.25e-9 && price.modelled && price.error == 0.1);
  assert_true(price.plain_s >= 9e-9);
  price = price_with_facts(f, &large, &facts);
  assert_true(price.recipe.pad == 0 && price.recipe.nodes[0].variant == 2);
  price = price_with_facts(f, &small, &facts);
  assert_int_equal(price.source, MMCI_ASSUMED);
  assert_true(mmci_recipe_is_plain(&price.recipe));
  mmci_gemm batch = padded;
  mmci_gemm_spread(&batch, 3);
  price = price_with_facts(f, &batch, &facts);
  assert_true(mmci_recipe_is_plain(&price.recipe));
  /* An array's plain call takes a second, of which a quarter may be wrong. */
  put_array(f, &f->journal);
  price = price_with_facts(f, &tuned, &facts);
  assert_int_equal(price.source, MMCI_SHIPPED);
  assert_true(price.recipe.nodes[0].variant == 2 && price.plain_s == 1);
  price = price_with_facts(f, &cut, &facts);
  assert_int_equal(price.source, MMCI_ARRAY);
  assert_int_equal(price.recipe.pad, 0);
  put_product(f, &f->journal.fingerprint, &tuned, "whole");
  price = price_with_facts(f, &tuned, &facts);
  assert_int_equal(price.source, MMCI_MEASURED);
  assert_true(mmci_recipe_is_plain(&price.recipe));
}

/* Stored recipes name variants, and are found under whatever number these have now; those that an
 * earlier version stored have numbers. */
static void variants_are_found_by_name(void **state) {
  fixture *f = *state;
  static const struct {
    const char *stored, *first, *later; /* as read, with numbers; NULL means not used */
  } recipes[] = {
      {"v2", "v2", "v2"},
      {"whole@big_tile-16x32", "v2", "v3"},
      {"whole@1-thread", "v1", NULL},
      {"lanes2/n:32v1,32", "queues2/n:32v1,32", "queues2/n:32v1,32"},
      {"queues2/n:32@big_tile-16x32,32", "queues2/n:32v2,32", "queues2/n:32v3,32"},
      {"pad8/whole@another", NULL, "pad8/v1"},
  };
  mmci_gemm gemm = product(64, 64, 64, MMC_OP_N, MMC_OP_T);
  for (size_t r = 0; r < sizeof recipes / sizeof recipes[0]; r++) {
    put_product(f, &f->journal.fingerprint, &gemm, recipes[r].stored);
    for (int later = 0; later < 2; later++) {
      const char *expected = later ? recipes[r].later : recipes[r].first;
      mmci_price price = price_with_names(f, &gemm, later ? later_names : first_names);
      char text[MMCI_RECIPE_TEXT_SIZE];
      mmci_recipe_format(&price.recipe, NULL, text);
      assert_int_equal(price.source, expected != NULL ? MMCI_MEASURED : MMCI_ASSUMED);
      assert_string_equal(text, expected != NULL ? expected : "whole");
    }
  }
}

/* An array of the store, changed. */
static void put_grid(fixture *f, const int64_t *axis, int32_t count, double first_value) {
  static double values[8 * 100];
  for (int i = 0; i < 800; i++) values[i] = 1e6;
  values[0] = first_value;
  static const int64_t others[] = {32, 64};
  mmci_wisdom_record record = test_array(&f->journal.fingerprint);
  record.array.objective = MMCI_WISDOM_TIME;
  record.array.grid =
      (mmci_wisdom_grid){.count = {count, 2, 2}, .axis = {axis, others, others}, .values = values};
  if (mmci_wisdom_put(f->journal.wisdom, &record, &f->error) != MMC_OK)
    fail_msg("%s", f->error.text);
}

static void arrays_that_are_none_are_not_used(void **state) {
  fixture *f = *state;
  mmci_gemm gemm = product(64, 64, 64, MMC_OP_N, MMC_OP_T);
  int64_t uneven[] = {32, 65}, even[] = {32, 64}, many[100];
  for (int i = 0; i < 100; i++) many[i] = i + 1;
  put_grid(f, even, 2, 1e6); /* without a margin */
  expect_source(f, &gemm, "model, not calibrated", "whole");
  put_array(f, &f->journal); /* brings the margin */
  put_grid(f, uneven, 2, 1e6);
  expect_source(f, &gemm, "model, not calibrated", "whole");
  put_grid(f, many, 100, 1e6);
  expect_source(f, &gemm, "model, not calibrated", "whole");
  put_grid(f, even, 2, 0); /* a hole */
  expect_source(f, &gemm, "model, not calibrated", "whole");
  put_grid(f, even, 2, 1e6);
  expect_source(f, &gemm, "array", "whole");
  mmci_wisdom_record margin = test_fact(&f->journal.fingerprint, "array NT margin", -1);
  assert_int_equal(mmci_wisdom_put(f->journal.wisdom, &margin, &f->error), MMC_OK);
  expect_source(f, &gemm, "model, not calibrated", "whole");
}

static void facts_that_are_none_are_not_used(void **state) {
  fixture *f = *state;
  mmci_gemm gemm = product(64, 64, 64, MMC_OP_N, MMC_OP_T);
  for (int n = 0; n < MMCI_ROOFLINE_FACTS; n++) {
    put_roofline(f, &f->journal);
    expect_source(f, &gemm, "model", "whole");
    mmci_wisdom_record fact =
        test_fact(&f->journal.fingerprint, mmci_roofline_names[n], n == 5 ? 2 : -1);
    assert_int_equal(mmci_wisdom_put(f->journal.wisdom, &fact, &f->error), MMC_OK);
    expect_source(f, &gemm, "model, not calibrated", "whole");
  }
}

static void a_store_that_cannot_be_read_leaves_the_model(void **state) {
  fixture *f = *state;
  FILE *file = fopen(f->path, "w");
  assert_non_null(file);
  for (int i = 0; i < 3000; i++) fputc('a' + i % 26, file);
  fclose(file);
  mmci_wisdom_pricing *known;
  assert_int_equal(
      mmci_wisdom_pricing_acquire(f->journal.wisdom, &f->journal.fingerprint, &test_facts, MMC_F32,
                                  MMCI_NATIVE, &known, &f->error),
      MMC_OK);
  assert_non_null(strstr(mmci_wisdom_pricing_notice(known), "wisdom.db"));
  assert_false(mmci_wisdom_pricing_calibrated(known));
  mmci_pricing pricing = mmci_wisdom_pricing_of(known);
  mmci_gemm gemm = product(64, 64, 64, MMC_OP_N, MMC_OP_T);
  mmci_price price;
  pricing.price(pricing.user, &gemm, &price);
  assert_int_equal(price.source, MMCI_ASSUMED);
  mmci_wisdom_pricing_release(known);
}

/* ---- kept for the next plan ---------------------------------------------------------------- */

static mmci_wisdom_pricing *acquire(fixture *f, const mmci_facts *facts) {
  mmci_wisdom_pricing *known;
  if (mmci_wisdom_pricing_acquire(f->journal.wisdom, &f->journal.fingerprint, facts, MMC_F32,
                                  MMCI_NATIVE, &known, &f->error) != MMC_OK)
    fail_msg("%s", f->error.text);
  return known;
}

static bool knows(const mmci_wisdom_pricing *known, const mmci_gemm *gemm) {
  mmci_pricing pricing = mmci_wisdom_pricing_of(known);
  mmci_price price;
  pricing.price(pricing.user, gemm, &price);
  return price.source == MMCI_MEASURED;
}

/* Says whether a new pricing knows the product, which another store has written, in time. */
static bool is_seen_soon(fixture *f, const mmci_gemm *gemm) {
  const double begin = mmci_now_s();
  double now;
  do {
    now = mmci_now_s();
    mmci_wisdom_pricing *known = acquire(f, &test_facts);
    bool seen = knows(known, gemm);
    mmci_wisdom_pricing_release(known);
    if (seen) return true;
  } while (now - begin <= MMCI_PRICING_FRESH_S);
  return false;
}

/* The same pricing is returned until something is written: by this store, which is seen at once, or
 * by another. Those who hold the old one keep it, even when the store is gone. */
static void pricings_are_kept_until_the_file_changes(void **state) {
  fixture *f = *state;
  mmci_gemm mine = product(64, 8, 8, MMC_OP_N, MMC_OP_N),
            others = product(65, 8, 8, MMC_OP_N, MMC_OP_N);
  put_product(f, &f->there, &others, "whole"); /* makes the file */
  mmci_wisdom_pricing_release(acquire(f, &test_facts));
  mmci_wisdom_pricing *a = acquire(f, &test_facts), *b = acquire(f, &test_facts);
  assert_ptr_equal(a, b);
  assert_false(knows(a, &mine));
  mmci_wisdom_pricing_release(b);

  put_product(f, &f->journal.fingerprint, &mine, "whole");
  b = acquire(f, &test_facts);
  assert_ptr_not_equal(a, b);
  assert_true(knows(b, &mine) && !knows(a, &mine));
  mmci_wisdom_pricing_release(a);

  mmci_wisdom *wisdom = f->journal.wisdom;
  assert_int_equal(mmci_wisdom_create(f->path, &f->journal.wisdom, NULL), MMC_OK);
  put_product(f, &f->journal.fingerprint, &others, "whole");
  mmci_wisdom_destroy(f->journal.wisdom);
  f->journal.wisdom = wisdom;
  assert_true(is_seen_soon(f, &others));
  assert_false(knows(b, &others));

  assert_int_equal(mmci_wisdom_forget(wisdom, NULL, NULL, &f->error), MMC_OK);
  a = acquire(f, &test_facts);
  assert_false(knows(a, &mine));
  mmci_wisdom_destroy(wisdom);
  f->journal.wisdom = NULL;
  assert_true(knows(b, &mine));
  mmci_wisdom_pricing_release(a);
  mmci_wisdom_pricing_release(b);
}

/* A device that tells other facts has other prices. */
static void pricings_follow_the_facts(void **state) {
  fixture *f = *state;
  mmci_facts twice = test_facts;
  twice.flops_per_s *= 2;
  mmci_wisdom_pricing *a = acquire(f, &test_facts), *b = acquire(f, &twice);
  assert_true(mmci_wisdom_pricing_roofline(b)->flops_per_s == twice.flops_per_s);
  assert_true(mmci_wisdom_pricing_roofline(a)->flops_per_s == test_facts.flops_per_s);
  mmci_wisdom_pricing_release(a);
  mmci_wisdom_pricing_release(b);
}

typedef struct thread_work {
  fixture *f;
  int number;
  bool failed;
} thread_work;

enum { THREADS = 4, ROUNDS = 25 };

/* Puts products of its own, and asks each time for prices, which must know the last one. */
static void *put_and_price(void *user) {
  thread_work *work = user;
  fixture *f = work->f;
  for (int64_t r = 1; r <= ROUNDS && !work->failed; r++) {
    mmci_wisdom_record record = test_product(&f->journal.fingerprint, work->number * ROUNDS + r);
    record.product.recipe = "whole";
    const mmci_wisdom_key *key = &record.product.key;
    mmci_gemm gemm = product(key->m, key->k, key->n, key->op_a, key->op_b);
    mmci_wisdom_pricing *known;
    work->failed =
        (r % 5 == 0 && mmci_wisdom_put(f->journal.wisdom, &record, NULL) != MMC_OK) ||
        mmci_wisdom_pricing_acquire(f->journal.wisdom, &f->journal.fingerprint, &test_facts,
                                    MMC_F32, MMCI_NATIVE, &known, NULL) != MMC_OK;
    if (work->failed) break;
    work->failed = knows(known, &gemm) != (r % 5 == 0);
    mmci_wisdom_pricing_release(known);
  }
  return NULL;
}

static void threads_share_pricings(void **state) {
  thread_work works[THREADS];
  pthread_t threads[THREADS];
  for (int t = 0; t < THREADS; t++) {
    works[t] = (thread_work){.f = *state, .number = t};
    assert_int_equal(pthread_create(&threads[t], NULL, put_and_price, &works[t]), 0);
  }
  for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_join(threads[t], NULL), 0);
  for (int t = 0; t < THREADS; t++) assert_false(works[t].failed);
}

/* ---- the journal --------------------------------------------------------------------------- */

/* Doubles come back as they were, of all magnitudes; the longest recipe fits. */
static void measurements_come_back_exactly(void **state) {
  fixture *f = *state;
  mmci_journal journal = mmci_journal_of(&f->journal);
  for (uint64_t seed = 1; seed <= 200; seed++) {
    uint64_t random = seed;
    double x[8];
    for (int i = 0; i < 8; i++) x[i] = exp(600 * random_unit(&random));
    mmci_measured put = {.seconds = {x[0], x[1], x[2]}, .cost_s = x[3]}, got = {0};
    if (seed % 2 != 0) put.plain_s = x[4], put.gain = (mmci_estimate){x[5], x[6], x[7]};
    char key[MMCI_TUNE_KEY_SIZE];
    mmci_gemm gemm =
        product(INT64_C(1) << 62, INT64_C(1) << 62, INT64_C(1) << 62, MMC_OP_N, MMC_OP_N);
    gemm.m -= (int64_t)seed;
    gemm.accumulate = true;
    mmci_tune_key(MMCI_ASK_COMPARE, &gemm, "whole", key);
    assert_false(journal.recall(journal.user, key, &got));
    assert_int_equal(journal.record(journal.user, key, &put, &f->error), MMC_OK);
    assert_true(journal.recall(journal.user, key, &got));
    assert_memory_equal(&put, &got, sizeof put);
    mmci_tune_key(MMCI_ASK_TIME, &gemm, "whole", key);
    assert_false(journal.recall(journal.user, key, &got));
  }
}

/* What calls take comes back from the journal under their names, and is told; the batch of a
 * product has its own price, and no other batch. */
static int told;
static mmc_status hear(void *user, const char *name, const mmci_estimate *seconds,
                       mmci_error *error) {
  (void)error;
  assert_string_equal(name, user);
  told += seconds->value == 5e-6;
  return MMC_OK;
}

/* Expects the shares of pieces, which are 7 and 8 before, as far as both numbers of one are known.
 */
static void expect_shares(fixture *f, bool known, mmci_structure_piece piece, double large,
                          double small) {
  mmci_wisdom_pricing *pricing;
  mmci_structure_share shares[MMCI_STRUCTURE_PIECES];
  for (int p = 0; p < MMCI_STRUCTURE_PIECES; p++) shares[p] = (mmci_structure_share){7, 8};
  assert_int_equal(
      mmci_wisdom_pricing_acquire(f->journal.wisdom, &f->journal.fingerprint, &test_facts, MMC_F32,
                                  MMCI_NATIVE, &pricing, &f->error),
      MMC_OK);
  assert_int_equal(mmci_wisdom_pricing_shares(pricing, shares), known);
  mmci_wisdom_pricing_release(pricing);
  for (int p = 0; p < MMCI_STRUCTURE_PIECES; p++) {
    assert_true(shares[p].large == (p == (int)piece ? large : 7));
    assert_true(shares[p].small == (p == (int)piece ? small : 8));
  }
}

static void put_share(fixture *f, const mmci_fingerprint *of, mmci_structure_piece piece,
                      bool small, double number) {
  char name[MMCI_PIECE_NAME_SIZE];
  mmci_structure_piece_name(piece, small, name);
  mmci_wisdom_record fact = test_fact(of, name, number);
  assert_int_equal(mmci_wisdom_put(f->journal.wisdom, &fact, &f->error), MMC_OK);
}

static void shares_of_structure_are_used_where_both_numbers_are_known(void **state) {
  fixture *f = *state;
  const mmci_structure_piece piece = MMCI_PIECE_TRSM;
  expect_shares(f, false, piece, 7, 8);
  put_share(f, &f->there, piece, false, 0.5);
  put_share(f, &f->there, piece, true, 9);
  expect_shares(f, false, piece, 7, 8);
  put_share(f, &f->journal.fingerprint, piece, false, 0.5);
  expect_shares(f, true, piece, 7, 8);
  put_share(f, &f->journal.fingerprint, piece, true, -1);
  expect_shares(f, true, piece, 7, 8);
  put_share(f, &f->journal.fingerprint, piece, true, 9);
  expect_shares(f, true, piece, 0.5, 9);
  put_share(f, &f->journal.fingerprint, piece, false, -1);
  expect_shares(f, true, piece, 7, 8);
}

static void calls_have_their_prices(void **state) {
  fixture *f = *state;
  mmci_journal journal = mmci_journal_of(&f->journal);
  mmci_form forms[] = {{.ld = 30}, {.ld = 30, .trans = true}, {.ld = 60}};
  mmci_group_product products[] = {{10, 30, 5, 0, 1}, {10, 5, 60, 3, 2}};
  mmci_group call = {
      .dtype = MMC_F32, .batch = 7, .n = 3, .count = 2, .forms = forms, .products = products};
  static char name[] = "call NTN 10x30x5:0*1 10x5x60:3*2 @7", batch[] = "batch NT 10x30x5 @7";
  const mmci_estimate seconds = {5e-6, 4e-6, 5.5e-6};
  mmci_gemm gemm = product(10, 30, 5, MMC_OP_N, MMC_OP_T);
  gemm.batch = 7;
  mmc_chain *its, *others, *longer;
  assert_int_equal(mmci_chain_parse("f32:9x10x30x5x60x7", &its, &f->error), MMC_OK);
  assert_int_equal(mmci_chain_parse("f32:9x10x30x5x61x7", &others, &f->error), MMC_OK);
  assert_int_equal(mmci_chain_parse("f32:9x9^70", &longer, &f->error), MMC_OK);
  for (int after = 0; after < 2; after++) {
    mmci_wisdom_pricing *known;
    assert_int_equal(
        mmci_wisdom_pricing_acquire(f->journal.wisdom, &f->journal.fingerprint, &test_facts,
                                    MMC_F32, MMCI_NATIVE, &known, &f->error),
        MMC_OK);
    double found_s = 0, error = 0;
    assert_int_equal(mmci_wisdom_pricing_knows_groups(known, its), after);
    assert_int_equal(mmci_wisdom_pricing_knows_groups(known, longer), after); /* not looked at */
    assert_false(mmci_wisdom_pricing_knows_groups(known, others));
    call.n = 3;
    call.count = 2;
    assert_int_equal(mmci_wisdom_pricing_group(known, &call, &found_s, &error), after);
    if (after) assert_true(found_s == 5e-6 && fabs(error - 0.2) < 1e-12);
    products[1].k = 6; /* the result is of the same shape */
    assert_false(mmci_wisdom_pricing_group(known, &call, &found_s, &error));
    products[1].k = 5;
    mmci_wisdom_pricing_release(known);
    mmci_price price = price_of(f, &gemm);
    assert_int_equal(price.source, after ? MMCI_MEASURED : MMCI_ASSUMED);
    if (after) {
      assert_true(price.seconds == 5e-6 && price.plain_s == 5e-6 && !price.modelled);
      assert_true(mmci_recipe_is_plain(&price.recipe));
      gemm.batch = 8;
      assert_true(price_of(f, &gemm).modelled);
      gemm.batch = 1;
      assert_true(price_of(f, &gemm).modelled);
      mmc_chain_destroy(its);
      mmc_chain_destroy(longer);
      mmc_chain_destroy(others);
      return;
    }
    f->journal.timed = hear;
    f->journal.user = name;
    assert_int_equal(journal.time(journal.user, &call, &seconds, &f->error), MMC_OK);
    f->journal.user = batch;
    call.n = 2;
    call.count = 1;
    assert_int_equal(journal.time(journal.user, &call, &seconds, &f->error), MMC_OK);
    assert_int_equal(told, 2);
  }
}

static void units_that_are_none_are_measured_again(void **state) {
  fixture *f = *state;
  static const char *const bad[] = {"1",         "1 2 3",   "1 2 3 x",           "1 2 3 4 5",
                                    "nan 1 1 1", "1 2 3 ,", "1 2 3 4 5 6 7 8 9", "hello"};
  mmci_journal journal = mmci_journal_of(&f->journal);
  for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
    mmci_wisdom_record unit = test_progress(&f->journal.fingerprint, "time this", "whole");
    unit.progress.result = bad[b];
    assert_int_equal(mmci_wisdom_put(f->journal.wisdom, &unit, &f->error), MMC_OK);
    mmci_measured got;
    if (journal.recall(journal.user, "time this whole", &got)) fail_msg("'%s'", bad[b]);
  }
}

/* A device that is asked again is known by its address, until its facts change or the store does.
 */
static void prices_are_kept_for_a_device(void **state) {
  fixture *f = *state;
  mmci_wisdom *wisdom = f->journal.wisdom;
  mmci_facts facts = test_facts;
  const mmci_pricing_owner owner = {&facts, f, MMC_F32, MMCI_NATIVE},
                           other = {&facts, &owner, MMC_F32, MMCI_NATIVE};
  mmci_wisdom_pricing *first, *again;
  assert_false(mmci_wisdom_pricing_kept(wisdom, &owner, &facts, &again));
  assert_int_equal(mmci_wisdom_pricing_acquire(wisdom, &f->journal.fingerprint, &facts, MMC_F32,
                                               MMCI_NATIVE, &first, &f->error),
                   MMC_OK);
  mmci_wisdom_pricing_keep(wisdom, first, &owner);
  assert_true(mmci_wisdom_pricing_kept(wisdom, &owner, &facts, &again));
  assert_ptr_equal(again, first);
  mmci_wisdom_pricing_release(again);
  assert_false(mmci_wisdom_pricing_kept(wisdom, &other, &facts, &again));
  facts.threads++;
  assert_false(mmci_wisdom_pricing_kept(wisdom, &owner, &facts, &again));
  facts.threads--;
  mmci_wisdom_record unit = test_progress(&f->journal.fingerprint, "time this", "whole");
  assert_int_equal(mmci_wisdom_put(wisdom, &unit, &f->error), MMC_OK);
  assert_false(mmci_wisdom_pricing_kept(wisdom, &owner, &facts, &again));
  mmci_wisdom_pricing_release(first);
}

/* An array of f32 along all axes, whose products take so many seconds a multiplication. */
static void put_range(fixture *f, int64_t step, int count, double rate, double margin) {
  mmci_gemm like = product(1, 1, 1, MMC_OP_N, MMC_OP_N);
  mmci_grid axis = {.step = step, .count = count}, grid[3];
  for (int i = 0; i < count; i++) axis.values[i] = step * (i + 1);
  for (int d = 0; d < 3; d++) grid[d] = axis;
  mmci_array *array;
  assert_int_equal(mmci_array_create(&like, grid, &array, &f->error), MMC_OK);
  int64_t at = 0;
  for (int i = 0; i < count; i++)
    for (int j = 0; j < count; j++)
      for (int l = 0; l < count; l++)
        array->seconds[at++] =
            rate * (double)axis.values[i] * (double)axis.values[j] * (double)axis.values[l];
  array->trust = (mmci_trust){margin, margin, margin};
  assert_int_equal(mmci_journal_array(&f->journal, array, MMC_OP_N, MMC_OP_N, &f->error), MMC_OK);
  mmci_array_destroy(array);
}

static double rate_of(fixture *f, int64_t m, int64_t k, int64_t n) {
  mmci_gemm gemm = product(m, k, n, MMC_OP_N, MMC_OP_N);
  mmci_price price = price_of(f, &gemm);
  assert_int_equal(price.source, MMCI_ARRAY);
  return price.plain_s / ((double)m * (double)k * (double)n);
}

static bool is_near(double x, double y) {
  return fabs(x - y) < 1e-9 * fabs(y);
}

/* A smaller range after a larger one, and the other way around, and one of them again: both stay,
 * and what was measured last holds on its lines. */
static void ranges_stay(void **state) {
  fixture *f = *state;
  put_range(f, 64, 8, 1e-9, 1); /* to 512 */
  put_range(f, 8, 8, 2e-9, 2);  /* to 64 */
  assert_true(is_near(rate_of(f, 8, 24, 64), 2e-9));
  assert_true(is_near(rate_of(f, 64, 64, 64), 2e-9));
  assert_true(is_near(rate_of(f, 512, 448, 128), 1e-9));
  assert_true(is_near(rate_of(f, 128, 64, 64), 1e-9));
  mmci_gemm gemm = product(512, 512, 512, MMC_OP_N, MMC_OP_N);
  assert_true(price_of(f, &gemm).error == 2); /* the less certain of both */
  put_range(f, 64, 8, 3e-9, 1);               /* to 512 again */
  assert_true(is_near(rate_of(f, 512, 448, 128), 3e-9));
  assert_true(is_near(rate_of(f, 8, 24, 64), 2e-9));
  put_range(f, 8, 8, 4e-9, 1);
  assert_true(is_near(rate_of(f, 8, 24, 64), 4e-9));
  assert_true(is_near(rate_of(f, 512, 448, 128), 3e-9));
  put_range(f, 1, 56, 6e-9, 1); /* with many lines: those of the larger range that lie behind */
  assert_true(is_near(rate_of(f, 8, 23, 56), 6e-9));
  assert_true(is_near(rate_of(f, 512, 448, 128), 3e-9));
  put_range(f, 1, 64, 5e-9, 1); /* with too many lines for one array: the last stays alone */
  assert_true(is_near(rate_of(f, 7, 33, 64), 5e-9));
}

/* ---- what tuning changes ------------------------------------------------------------------- */

enum { SIDE = 40, CHAINS = 120 };

static double told_product(const void *user, const mmci_gemm *gemm) {
  (void)user;
  return 3e-6 + mmci_gemm_flops(gemm) / 1e11;
}

static mmc_status takes_all(const void *user, const mmci_group *group, bool *out, double *seconds,
                            double *doubt, mmci_error *error) {
  (void)user, (void)group, (void)doubt, (void)error;
  *seconds = (double)NAN;
  *out = true;
  return MMC_OK;
}

/* A launch, and each product at a rate that makes some groups faster and others slower. */
static mmc_status tells_all(const void *user, const mmci_group *group, bool *out, double *seconds,
                            double *doubt, mmci_error *error) {
  (void)user, (void)doubt, (void)error;
  *out = true;
  *seconds = 3e-6;
  for (int32_t i = 0; i < group->count; i++) {
    const mmci_group_product *x = &group->products[i];
    *seconds += mmci_flops(MMC_F32, x->m, x->k, x->n) * (double)group->batch / 4e10;
  }
  return MMC_OK;
}

/* The chain as the planner plans it by what the store holds now; facts: with a model or without. */
static mmci_plan plan_of(fixture *f, const mmc_chain *chain, const mmci_facts *facts) {
  mmci_wisdom_pricing *known;
  assert_int_equal(mmci_wisdom_pricing_acquire(f->journal.wisdom, &f->journal.fingerprint, facts,
                                               MMC_F32, MMCI_NATIVE, &known, &f->error),
                   MMC_OK);
  const mmci_pricing pricing = mmci_wisdom_pricing_of(known);
  const mmci_roofline *roofline = mmci_wisdom_pricing_roofline(known);
  const mmci_group_machine machine = {
      .supports = facts->model.seconds != NULL ? tells_all : takes_all,
      .doubt = 0.3,
      .facts = mmci_group_facts_of(facts, roofline),
      .pricing = &pricing,
      .roofline = roofline};
  const mmci_time_request request = {
      .pricing = &pricing, .notice = "", .facts = roofline->model.source, .machine = &machine};
  mmci_plan plan;
  if (mmci_plan_create_timed(chain, "auto", mmci_within(UINT64_MAX), &request, &plan, &f->error) !=
          MMC_OK ||
      mmci_plan_choose_groups(&plan, &machine, UINT64_MAX, &f->error) != MMC_OK ||
      mmci_plan_price(&plan, &request, &f->error) != MMC_OK)
    fail_msg("%s", f->error.text);
  mmci_wisdom_pricing_release(known);
  return plan;
}

/* A plan says whose measurements its shipped prices were fitted to, and others say nothing. */
static void plans_name_shipped_facts(void **state) {
  fixture *f = *state;
  mmc_chain *chain;
  assert_int_equal(mmci_chain_parse("f32:68x76x94x8", &chain, &f->error), MMC_OK);
  for (int shipped = 0; shipped < 2; shipped++) {
    mmci_facts facts = test_facts;
    if (shipped)
      facts.model = (mmci_model){
          .seconds = told_product, .error = 0.3, .source = "shipped: a card, a library"};
    mmci_plan plan = plan_of(f, chain, &facts);
    text_buffer text = {0}, json = {0};
    assert_int_equal(mmci_plan_explain(&plan, MMC_TEXT, text_write, &text, &f->error), MMC_OK);
    assert_int_equal(mmci_plan_explain(&plan, MMC_JSON, text_write, &json, &f->error), MMC_OK);
    assert_int_equal(strstr(text.bytes, "\nprices           shipped: a card, a library\n") != NULL,
                     shipped);
    assert_non_null(strstr(json.bytes, shipped ? "\"shipped_facts\": \"shipped: a card, a library\""
                                               : "\"shipped_facts\": null"));
    free(text.bytes);
    free(json.bytes);
    mmci_plan_destroy(&plan);
  }
  mmc_chain_destroy(chain);
}

static void expect_same(const mmci_plan *a, const mmci_plan *b) {
  assert_int_equal(a->step_count, b->step_count);
  assert_int_equal(a->group_count, b->group_count);
  for (int32_t s = 0; s < a->step_count; s++) {
    assert_int_equal(a->steps[s].left, b->steps[s].left);
    assert_int_equal(a->steps[s].right, b->steps[s].right);
    assert_int_equal(a->steps[s].group, b->steps[s].group);
  }
  assert_true(fabs(a->time->predicted_s - b->time->predicted_s) <= 1e-12 * a->time->predicted_s);
}

/* Between two plans of a chain products are tuned: larger ones than any of the chain's and, of a
 * batch, single ones of the chain's own sizes. Neither says anything of it. */
static void tuning_others_changes_no_plan(void **state) {
  fixture *f = *state;
  uint64_t random = 20261122;
  int64_t groups = 0, separate = 0;
  for (int c = 0; c < CHAINS; c++) {
    mmci_facts facts = test_facts;
    if (c % 2 == 0) facts.model = (mmci_model){.seconds = told_product, .error = 0.3, .source = ""};
    static const int64_t batches[] = {1, 7, 1000};
    const int32_t n = 2 + (int32_t)random_below(&random, 5);
    int64_t dims[8];
    for (int32_t i = 0; i <= n; i++) dims[i] = 1 + random_below(&random, SIDE);
    mmc_chain *chain;
    assert_int_equal(
        mmci_chain_create_batch(MMC_F32, n, dims, NULL, batches[c % 3], NULL, &chain, &f->error),
        MMC_OK);
    mmci_plan before = plan_of(f, chain, &facts);
    for (int t = 0; t < 3; t++) {
      mmci_gemm other =
          product(SIDE + 1 + random_below(&random, 500), 1 + random_below(&random, 500),
                  1 + random_below(&random, 500), MMC_OP_N, MMC_OP_N);
      put_product(f, &f->journal.fingerprint, &other, "whole");
    }
    for (int32_t i = 0; i + 2 <= n && chain->batch > 1; i++) {
      mmci_gemm own = product(dims[i], dims[i + 1], dims[i + 2], MMC_OP_N, MMC_OP_N);
      put_product(f, &f->journal.fingerprint, &own, "whole");
    }
    if (c == CHAINS / 2) put_roofline(f, &f->journal);
    mmci_plan after = plan_of(f, chain, &facts);
    expect_same(&before, &after);
    groups += after.group_count > 0;
    separate += after.group_count == 0 && after.step_count > 1;
    mmci_plan_destroy(&before);
    mmci_plan_destroy(&after);
    mmc_chain_destroy(chain);
  }
  printf("%" PRId64 " plans with groups, %" PRId64 " without\n", groups, separate);
  assert_true(groups > 10 && separate > 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(measured_goes_before_array_before_model),
      TEST(keys_are_sizes_and_ops),
      TEST(another_fingerprint_is_never_used),
      TEST(recipes_that_are_none_are_not_used),
      TEST(tolerances_have_prices_of_their_own),
      TEST(devices_may_know_what_is_better),
      TEST(variants_are_found_by_name),
      TEST(arrays_that_are_none_are_not_used),
      TEST(facts_that_are_none_are_not_used),
      TEST(a_store_that_cannot_be_read_leaves_the_model),
      TEST(pricings_are_kept_until_the_file_changes),
      TEST(pricings_follow_the_facts),
      TEST(threads_share_pricings),
      TEST(measurements_come_back_exactly),
      TEST(shares_of_structure_are_used_where_both_numbers_are_known),
      TEST(calls_have_their_prices),
      TEST(prices_are_kept_for_a_device),
      TEST(ranges_stay),
      TEST(plans_name_shipped_facts),
      TEST(tuning_others_changes_no_plan),
      TEST(units_that_are_none_are_measured_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
