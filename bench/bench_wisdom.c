/* bench_wisdom.c: what wisdom costs, one JSON line a measurement.
 *
 *     bench_wisdom [entries...]       100 10000 100000 when none is given
 *
 * For each number of entries, in a store of its own that is deleted afterwards:
 *
 *     find      a look-up of a product that is there, in random order, from the memory of one plan
 *     miss      of one that is not
 *     acquire   asking whether the file has changed, once a plan, when it has not
 *     load      when it has: reading every entry
 *     put       measuring's side: one entry written and committed
 *
 * and, in a store of a few entries, with the table of a plan at hand:
 *
 *     price measured, price array, price model
 *               the price of a product by each of its sources; the array has 20 x 20 x 20 values
 *
 * Each is timed in batches; median and the batches' extremes are told. Times are of this machine as
 * it is. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ascending.h"
#include "base/monotonic.h"
#include "cost/efficiency.h"
#include "device/device.h"
#include "inside.h"
#include "tune/journal.h"
#include "wisdom/wisdom_pricing.h"

enum { BATCHES = 11, LOOK_UPS = 1 << 18, ACQUIRES = 1000, PUTS = 20 };

static void fail(const char *what, const char *why) {
  fprintf(stderr, "bench_wisdom: %s: %s\n", what, why);
  exit(1);
}

static void print_line(const char *what, long entries, double seconds[BATCHES]) {
  qsort(seconds, BATCHES, sizeof *seconds, mmci_ascending_doubles);
  printf(
      "{\"bench\":\"wisdom\",\"what\":\"%s\",\"entries\":%ld,\"seconds_median\":%.3g,"
      "\"seconds_min\":%.3g,\"seconds_max\":%.3g,\"batches\":%d}\n",
      what, entries, seconds[BATCHES / 2], seconds[0], seconds[BATCHES - 1], BATCHES);
  fflush(stdout);
}

/* ---- a store ------------------------------------------------------------------------------- */

static uint64_t state = 12345;

static uint64_t random_bits(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

/* Product number i: sizes as tuning has them, each other than the rest. */
static mmci_wisdom_key key_of(long i) {
  return (mmci_wisdom_key){.m = 64 * (1 + i % 61),
                           .k = 64 * (1 + i / 61 % 59),
                           .n = 1 + i / (61 * 59),
                           .op_b = i % 2 != 0 ? MMC_OP_T : MMC_OP_N};
}

/* The text of a store, read by mmci_wisdom_import() piece by piece. */
typedef struct script {
  long next, entries;
} script;

static ptrdiff_t read_script(void *user, char *bytes, size_t size) {
  script *s = user;
  long i = s->next++;
  if (i == -1)
    return snprintf(
        bytes, size,
        "mmchain wisdom 1\nfingerprint \"bench\" \"m\" \"\" \"\" \"0\" \"f32\" \"n\"\n");
  if (i == s->entries) return snprintf(bytes, size, "end %ld\n", s->entries);
  if (i > s->entries) return 0;
  mmci_wisdom_key key = key_of(i);
  return snprintf(bytes, size,
                  "product %lld %lld %lld N %s time \"split m %ld\" 0.001 0.01 0.0011 - - - "
                  "\"measured\" 1700000000\n",
                  (long long)key.m, (long long)key.k, (long long)key.n,
                  key.op_b == MMC_OP_T ? "T" : "N", i);
}

static mmci_fingerprint fingerprint(void) {
  static const char *const texts[] = {"bench", "m", "", "", "0", "f32", "n"};
  mmci_fingerprint out;
  for (int f = 0; f < MMCI_FINGERPRINT_FIELDS; f++)
    mmci_fingerprint_set(&out, (mmci_fingerprint_field)f, texts[f]);
  return out;
}

/* ---- what is timed ------------------------------------------------------------------------- */

/* away: added to m, so that nothing is found. */
static void bench_find(const mmci_wisdom_table *table, long entries, int64_t away) {
  double seconds[BATCHES];
  mmci_wisdom_key *keys = malloc(LOOK_UPS * sizeof *keys);
  if (keys == NULL) fail("memory", "not enough");
  for (long i = 0; i < LOOK_UPS; i++) {
    keys[i] = key_of((long)(random_bits() % (uint64_t)entries));
    keys[i].m += away;
  }
  for (int b = 0; b < BATCHES; b++) {
    long found = 0;
    double start = mmci_now_s();
    for (long i = 0; i < LOOK_UPS; i++) found += mmci_wisdom_find(table, &keys[i]) != NULL;
    seconds[b] = (mmci_now_s() - start) / LOOK_UPS;
    if (found != (away == 0 ? LOOK_UPS : 0)) fail("find", "found others than are there");
  }
  free(keys);
  print_line(away == 0 ? "find" : "miss", entries, seconds);
}

static void bench_acquire(mmci_wisdom *wisdom, const mmci_fingerprint *wanted, long entries) {
  double seconds[BATCHES];
  mmci_error error = {0};
  mmci_wisdom_table *table;
  for (int b = 0; b < BATCHES; b++) {
    double start = mmci_now_s();
    for (int i = 0; i < ACQUIRES; i++) {
      check(mmci_wisdom_acquire(wisdom, wanted, &table, &error), &error);
      mmci_wisdom_release(table);
    }
    seconds[b] = (mmci_now_s() - start) / ACQUIRES;
  }
  print_line("acquire", entries, seconds);
}

/* A put makes the next acquire load. */
static void bench_load_and_put(mmci_wisdom *wisdom, const mmci_fingerprint *wanted, long entries) {
  double loads[BATCHES], puts[BATCHES];
  mmci_error error = {0};
  mmci_wisdom_record record = {.kind = MMCI_WISDOM_FACT,
                               .fingerprint = wanted,
                               .fact = {.name = "launch_s", .number = 1e-6, .measured_at = 1}};
  for (int b = 0; b < BATCHES; b++) {
    double start = mmci_now_s();
    for (int i = 0; i < PUTS; i++) {
      record.fact.number += 1e-6;
      check(mmci_wisdom_put(wisdom, &record, &error), &error);
    }
    puts[b] = (mmci_now_s() - start) / PUTS;
    mmci_wisdom_table *table;
    start = mmci_now_s();
    check(mmci_wisdom_acquire(wisdom, wanted, &table, &error), &error);
    loads[b] = mmci_now_s() - start;
    mmci_wisdom_release(table);
  }
  print_line("load", entries, loads);
  print_line("put", entries, puts);
}

static void bench_store(long entries) {
  char directory[] = "/tmp/bench_wisdom.XXXXXX", path[64];
  if (mkdtemp(directory) == NULL) fail(directory, "cannot be made");
  snprintf(path, sizeof path, "%s/wisdom.db", directory);
  mmci_error error = {0};
  mmci_wisdom *wisdom;
  mmci_wisdom_table *table;
  mmci_fingerprint wanted = fingerprint();
  script text = {.next = -1, .entries = entries};
  check(mmci_wisdom_create(path, &wisdom, &error), &error);
  check(mmci_wisdom_import(wisdom, read_script, &text, &error), &error);
  check(mmci_wisdom_acquire(wisdom, &wanted, &table, &error), &error);
  bench_find(table, entries, 0);
  bench_find(table, entries, 1);
  mmci_wisdom_release(table);
  bench_acquire(wisdom, &wanted, entries);
  bench_load_and_put(wisdom, &wanted, entries);
  mmci_wisdom_destroy(wisdom);
  unlink(path);
  rmdir(directory);
}

/* ---- prices -------------------------------------------------------------------------------- */

static void put_array(mmci_wisdom_journal *journal) {
  mmci_gemm like = mmci_gemm_tight(MMC_F32, MMCI_NATIVE, 1, 1, 1, MMC_OP_N, MMC_OP_N);
  mmci_grid grid[3];
  for (int d = 0; d < 3; d++) {
    grid[d] = (mmci_grid){.step = 64, .count = 20};
    for (int i = 0; i < 20; i++) grid[d].values[i] = 64 * (i + 1);
  }
  mmci_array *array;
  mmci_error error = {0};
  check(mmci_array_create(&like, grid, &array, &error), &error);
  for (int64_t at = 0; at < mmci_array_count(array); at++)
    array->seconds[at] = 1e-6 * (1 + (double)(random_bits() % 1000));
  array->trust = (mmci_trust){.margin = 1.1, .between = 1.2, .error = 0.1};
  check(mmci_journal_array(journal, array, MMC_OP_N, MMC_OP_N, &error), &error);
  mmci_array_destroy(array);
}

/* Sizes from 1 to most, with these ops; measured ones are 64 x 64 x 64. */
static void bench_price(const mmci_pricing *pricing, mmci_provenance source, int64_t most,
                        mmc_op op) {
  double seconds[BATCHES];
  mmci_gemm *gemms = malloc(LOOK_UPS * sizeof *gemms);
  if (gemms == NULL) fail("memory", "not enough");
  for (long i = 0; i < LOOK_UPS; i++) {
    int64_t sizes[3];
    for (int d = 0; d < 3; d++)
      sizes[d] = most > 0 ? 1 + (int64_t)(random_bits() % (uint64_t)most) : 64;
    gemms[i] = mmci_gemm_tight(MMC_F32, MMCI_NATIVE, sizes[0], sizes[1], sizes[2], MMC_OP_N, op);
  }
  char what[64];
  snprintf(what, sizeof what, "price %s", mmci_provenance_name(source));
  for (int b = 0; b < BATCHES; b++) {
    double start = mmci_now_s();
    for (long i = 0; i < LOOK_UPS; i++) {
      mmci_price price;
      pricing->price(pricing->user, &gemms[i], &price);
      if (price.source != source) fail(what, mmci_provenance_name(price.source));
    }
    seconds[b] = (mmci_now_s() - start) / LOOK_UPS;
  }
  free(gemms);
  print_line(what, 3, seconds);
}

static void bench_prices(void) {
  char directory[] = "/tmp/bench_wisdom.XXXXXX", path[64];
  if (mkdtemp(directory) == NULL) fail(directory, "cannot be made");
  snprintf(path, sizeof path, "%s/wisdom.db", directory);
  mmci_error error = {0};
  mmci_wisdom_journal journal = {.fingerprint = fingerprint()};
  mmci_wisdom_pricing *known;
  check(mmci_wisdom_create(path, &journal.wisdom, &error), &error);
  mmci_wisdom_record measured = {.kind = MMCI_WISDOM_PRODUCT,
                                 .fingerprint = &journal.fingerprint,
                                 .product = {.key = {.m = 64, .k = 64, .n = 64},
                                             .recipe = "n:32,32(m:32,32v1)",
                                             .seconds = 1e-6,
                                             .spread = 0.01,
                                             .plain_seconds = 1.1e-6,
                                             .joules = (double)NAN,
                                             .plain_joules = (double)NAN,
                                             .watts = (double)NAN,
                                             .source = "measured"}};
  check(mmci_wisdom_put(journal.wisdom, &measured, &error), &error);
  put_array(&journal);
  mmci_facts facts;
  mmci_device_ref.facts(NULL, MMC_F32, MMCI_NATIVE, &facts);
  check(mmci_wisdom_pricing_acquire(journal.wisdom, &journal.fingerprint, &facts, MMC_F32,
                                    MMCI_NATIVE, &known, &error),
        &error);
  mmci_pricing pricing = mmci_wisdom_pricing_of(known);
  bench_price(&pricing, MMCI_MEASURED, 0, MMC_OP_N);
  bench_price(&pricing, MMCI_ARRAY, 1280, MMC_OP_N);
  bench_price(&pricing, MMCI_ASSUMED, 1280, MMC_OP_T);
  mmci_wisdom_pricing_release(known);
  mmci_wisdom_destroy(journal.wisdom);
  unlink(path);
  rmdir(directory);
}

int main(int argc, char **argv) {
  bench_prices();
  static const long usual[] = {100, 10000, 100000};
  if (argc < 2)
    for (size_t t = 0; t < sizeof usual / sizeof usual[0]; t++) bench_store(usual[t]);
  for (int t = 1; t < argc; t++) {
    char *end;
    long entries = strtol(argv[t], &end, 10);
    if (*end != '\0' || entries < 1 || entries > 10000000)
      fail(argv[t], "expected a number of entries, from 1 to 10000000");
    bench_store(entries);
  }
  return 0;
}
