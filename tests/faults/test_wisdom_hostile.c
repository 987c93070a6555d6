/* test_wisdom_hostile.c: rows that somebody has written with right checksums: figures that are NaN,
 * infinite, negative or absurd, recipes of other products and of none, sizes to 10^18, arrays with
 * holes and steps of any kind. Plans that are made with them multiply rightly, and one import or
 * one call of tune later the store can be read by everybody.
 *
 *     MMCHAIN_TEST_LONG=1    1000 rows; 100 without
 *     MMCHAIN_TEST_SEED=N    that row only */
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
#include "mmchain.h"
#include "wisdom/rows.h"

/* The chain that is planned, whose products the rows are about. */
enum { FACTORS = 4 };
/* Sums of more than 128 terms, so that a CPU has no call of several products. */
static const int64_t dims[FACTORS + 1] = {60, 140, 130, 145, 80};
static const char chain_text[] = "f32:60x140x130x145x80";

typedef struct fixture {
  char directory[64], path[96], good[96];
  mmci_fingerprint fingerprints[8]; /* of this machine, for f32 */
  int count;
} fixture;

/* ---- what this machine is called ------------------------------------------------------------- */

static mmc_context *context_of(fixture *f) {
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  mmc_context *context;
  options.wisdom_path = f->path;
  assert_int_equal(mmc_context_create(&options, &context), MMC_OK);
  return context;
}

static int stop_soon(void *user, const mmc_tune_progress *now) {
  (void)now;
  return ++*(int *)user > 6;
}

/* Tunes a product a little; another process could have done so. */
static mmc_status tune_a_little(mmc_context *context, const char *device) {
  const mmc_tune_product product = {.dtype = MMC_F32, .m = 2, .k = 2, .n = 2};
  mmc_tune_options options = MMC_TUNE_OPTIONS_INIT;
  int reports = 0;
  options.device = device;
  options.products = &product;
  options.product_count = 1;
  options.progress = stop_soon;
  options.user = &reports;
  mmc_status status = mmc_tune(context, &options, NULL);
  return status == MMC_E_INTERRUPTED ? MMC_OK : status;
}

static mmc_status keep_fingerprint(void *user, const mmci_wisdom_record *record,
                                   mmci_error *error) {
  fixture *f = user;
  (void)error;
  for (int i = 0; i < f->count; i++)
    if (mmci_fingerprint_equal(&f->fingerprints[i], record->fingerprint)) return MMC_OK;
  assert_true(f->count < 8);
  f->fingerprints[f->count++] = *record->fingerprint;
  return MMC_OK;
}

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  if (f == NULL || make_directory(f->directory) != 0) return 1;
  snprintf(f->path, sizeof f->path, "%s/wisdom.db", f->directory);
  mmc_context *context = context_of(f);
  assert_int_equal(tune_a_little(context, "ref"), MMC_OK);
  assert_int_equal(tune_a_little(context, "cpu"), MMC_OK);
  mmc_context_destroy(context);
  mmci_wisdom *wisdom;
  assert_int_equal(mmci_wisdom_create(f->path, &wisdom, NULL), MMC_OK);
  assert_int_equal(mmci_wisdom_walk(wisdom, NULL, keep_fingerprint, f, NULL, NULL), MMC_OK);
  mmci_wisdom_destroy(wisdom);
  assert_true(f->count >= 1);
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  remove_directory(f->directory);
  free(f);
  return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int64_t any_size(uint64_t *random) {
  static const int64_t odd[] = {0, -1, 1, 7, 1000000000000000000, (int64_t)1 << 62, INT64_MAX};
  return random_below(random, 4) != 0 ? dims[random_below(random, FACTORS + 1)]
                                      : odd[random_below(random, sizeof odd / sizeof odd[0])];
}

/* A product that some order of the chain needs, or any sizes. */
static mmci_wisdom_key any_key(uint64_t *random) {
  if (random_below(random, 4) == 0)
    return (mmci_wisdom_key){.m = any_size(random), .k = any_size(random), .n = any_size(random)};
  int64_t i = random_below(random, FACTORS - 1), k = i + 1 + random_below(random, FACTORS - i - 1);
  int64_t j = k + 1 + random_below(random, FACTORS - k);
  return (mmci_wisdom_key){.m = dims[i], .k = dims[k], .n = dims[j]};
}

static double any_figure(uint64_t *random) {
  static const double odd[] = {NAN, INFINITY, -INFINITY, -1, 0, 1e308, 5e-324, 1e-9, 1e30, 1};
  return random_below(random, 8) != 0 ? 1e-9 * (double)(1 + random_below(random, 1000))
                                      : odd[random_below(random, sizeof odd / sizeof odd[0])];
}

/* Recipes of products of the chain, of other products, and of nothing. */
static const char *any_recipe(uint64_t *random) {
  static const char *const recipes[] = {
      "whole",
      "n:40,40",
      "n:65,65",
      "m:30,30",
      "k:20,20",
      "k:65,65",
      "m:20,40(n:40,40)",
      "n:1000000000000000000,1",
      "n:-4,134",
      "n:0,130",
      "pad64/m:30,30",
      "queues2/n:65,65",
      "queues9999/n:50,50",
      "pad9999/whole",
      "whole@none",
      "v9999",
      "v77",
      "n:65v1,65v2",
      "n:5,5(n:5,5)",
      "((((((((((",
      "n:10,10(n:5,5(n:2,3(n:1,1)))",
      "whole@libxsmm",
      "k:1,39(k:1,38(k:1,37(k:1,36)))",
      " ",
      "n:9999999999999999999999,1",
      "m:6,6/pad2",
  };
  return recipes[random_below(random, 3) == 0
                     ? random_below(random, 7)
                     : random_below(random, sizeof recipes / sizeof recipes[0])];
}

typedef struct memory {
  int64_t axes[3][8];
  double values[8 * 8 * 8];
  char name[MMCI_WISDOM_TEXT_MAX + 1];
} memory;

static const char *any_fact(uint64_t *random, memory *m) {
  static const char *const names[] = {
      "flops_per_s",
      "bytes_per_s",
      "launch_s",
      "half_mn",
      "half_k",
      "overlap",
      "model_error",
      "array NN margin",
      "array NN between",
      "call NN 60x140x130:0*1 @1",
      "call NN 140x130x145:0*1 @1",
      "call NNNN 60x140x130:0*1 60x130x145:4*2 60x145x80:5*3 @1",
      "call NNNN 1000000000000000000x140x130:0*1 @1",
      "batch NN 60x140x130 @7",
      "static_watts",
      "joules_per_flop",
  };
  const char *name = names[random_below(random, sizeof names / sizeof names[0])];
  snprintf(m->name, sizeof m->name, "%s", name);
  if (random_below(random, 8) == 0) memset(m->name, '(', 200);
  return m->name;
}

static void any_grid(uint64_t *random, memory *m, mmci_wisdom_grid *out) {
  for (int d = 0; d < 3; d++) {
    out->count[d] = 1 + (int32_t)random_below(random, 8);
    out->axis[d] = m->axes[d];
    int64_t step = 1 + random_below(random, 12);
    for (int p = 0; p < 8; p++)
      m->axes[d][p] = random_below(random, 16) == 0 ? any_size(random) : step * (p + 1);
  }
  for (int v = 0; v < 8 * 8 * 8; v++)
    m->values[v] = random_below(random, 16) == 0 ? any_figure(random)
                                                 : 1e9 * (double)(1 + random_below(random, 99));
  out->values = m->values;
}

static mmci_wisdom_record any_record(uint64_t *random, const mmci_fingerprint *fingerprint,
                                     memory *m) {
  mmci_wisdom_record record = {.fingerprint = fingerprint};
  static const int64_t dates[] = {1, 1000, 1000, 1000, 1000, INT64_MAX, -5, (int64_t)1 << 53};
  int64_t date = dates[random_below(random, 8)];
  switch (random_below(random, 8)) {
    case 0:
    case 1:
      record.kind = MMCI_WISDOM_FACT;
      record.fact =
          (mmci_wisdom_fact){any_fact(random, m), any_figure(random), any_figure(random), date};
      break;
    case 2:
      record.kind = MMCI_WISDOM_ARRAY;
      any_grid(random, m, &record.array.grid);
      record.array.measured_at = date;
      break;
    case 3:
      record.kind = MMCI_WISDOM_PROGRESS;
      record.progress =
          (mmci_wisdom_progress){any_recipe(random), any_recipe(random), any_recipe(random), date};
      break;
    default:
      record.kind = MMCI_WISDOM_PRODUCT;
      record.product = (mmci_wisdom_product){
          .key = any_key(random),
          .recipe = any_recipe(random),
          .seconds = any_figure(random),
          .spread = any_figure(random),
          .plain_seconds = any_figure(random),
          .joules = any_figure(random),
          .plain_joules = any_figure(random),
          .watts = any_figure(random),
          .source = random_below(random, 4) != 0 ? "measured" : any_recipe(random),
          .measured_at = date};
      record.product.key.objective = (mmci_wisdom_objective)random_below(random, 2);
  }
  return record;
}

/* Writes the row as it is, past all checks, with its checksum. */
static mmc_status put_row(mmci_wisdom *wisdom, void *user, mmci_error *error) {
  const mmci_wisdom_record *record = user;
  sqlite3_stmt *find = mmci_database_statement(wisdom, MMCI_STATEMENT_FINGERPRINT_FIND, error);
  assert_non_null(find);
  assert_int_equal(mmci_fingerprint_bind(find, record->fingerprint), SQLITE_OK);
  assert_int_equal(sqlite3_step(find), SQLITE_ROW);
  int64_t id = sqlite3_column_int64(find, 0);
  sqlite3_stmt *insert =
      mmci_database_statement(wisdom, MMCI_STATEMENT_OF(record->kind, MMCI_QUERY_INSERT), error);
  assert_non_null(insert);
  assert_int_equal(mmci_row_bind_all(insert, id, record), SQLITE_OK);
  assert_int_equal(sqlite3_step(insert), SQLITE_DONE);
  return MMC_OK;
}

static void put_hostile(fixture *f, uint64_t *random, int rows) {
  mmci_wisdom *wisdom;
  mmci_error error;
  assert_int_equal(mmci_wisdom_create(f->path, &wisdom, NULL), MMC_OK);
  for (int r = 0; r < rows; r++) {
    static memory m;
    const mmci_fingerprint *of = &f->fingerprints[random_below(random, f->count)];
    mmci_wisdom_record record = any_record(random, of, &m);
    assert_int_equal(mmci_database_write(wisdom, put_row, &record, &error), MMC_OK);
  }
  mmci_wisdom_destroy(wisdom);
}

/* ---- what is made of them -------------------------------------------------------------------- */

static float numbers[FACTORS][145 * 145];
static double product[145 * 145], most[145 * 145]; /* of the absolute values */
static int64_t inner;                              /* how many terms are summed on the way */

/* Draws the factors, and multiplies them from left to right. */
static void draw_factors(uint64_t seed) {
  static double next[145 * 145], next_most[145 * 145];
  uint64_t random = seed;
  for (int f = 0; f < FACTORS; f++)
    for (int64_t e = 0; e < dims[f] * dims[f + 1]; e++)
      numbers[f][e] = (float)random_below(&random, 2001) / 1000 - 1;
  inner = 1;
  for (int64_t e = 0; e < dims[0] * dims[1]; e++)
    most[e] = fabs(product[e] = (double)numbers[0][e]);
  for (int f = 1; f < FACTORS; f++) {
    inner += dims[f];
    for (int64_t i = 0; i < dims[0]; i++)
      for (int64_t j = 0; j < dims[f + 1]; j++) {
        double sum = 0, sum_most = 0;
        for (int64_t k = 0; k < dims[f]; k++) {
          double b = (double)numbers[f][k * dims[f + 1] + j];
          sum += product[i * dims[f] + k] * b;
          sum_most += most[i * dims[f] + k] * fabs(b);
        }
        next[i * dims[f + 1] + j] = sum;
        next_most[i * dims[f + 1] + j] = sum_most;
      }
    memcpy(product, next, sizeof next);
    memcpy(most, next_most, sizeof most);
  }
}

/* Multiplies by the plan; no element may be further off than rounding puts it. */
static void expect_right(const mmc_plan *plan, uint64_t seed) {
  static float result[60 * 80];
  mmc_matrix factors[FACTORS], out = {.data = result, .rows = dims[0], .cols = dims[FACTORS]};
  for (int f = 0; f < FACTORS; f++)
    factors[f] = (mmc_matrix){.data = numbers[f], .rows = dims[f], .cols = dims[f + 1]};
  for (int e = 0; e < 60 * 80; e++) result[e] = NAN;
  mmc_run *run;
  assert_int_equal(mmc_run_create(plan, &run), MMC_OK);
  assert_int_equal(mmc_execute(run, factors, &out), MMC_OK);
  mmc_run_destroy(run);
  for (int e = 0; e < 60 * 80; e++) {
    double error = fabs((double)result[e] - product[e]);
    if (!(error <= 0x1p-22 * (double)inner * most[e]))
      fail_msg("seed %d: element %d is off by %g", (int)seed, e, error);
  }
}

static int ignore(void *user, const char *bytes, size_t size) {
  (void)user, (void)bytes, (void)size;
  return 0;
}

/* How many steps of a plan are priced by a row, or split as one says. */
static int64_t steps_by_rows(const mmc_plan *plan) {
  int64_t count = 0;
  mmc_step_time step;
  for (int64_t s = 0; mmc_plan_step_time(plan, s, &step) == MMC_OK; s++)
    count += strcmp(step.source, "measured") == 0 || strcmp(step.source, "array") == 0 ||
             step.split[0] != '\0';
  return count;
}

/* Returns how many steps of these plans go by rows. */
static int64_t expect_plans(mmc_context *context, uint64_t seed) {
  int64_t by_rows = 0;
  static const char *const objectives[] = {"time", "energy"}, *const devices[] = {"cpu", "ref"};
  mmc_chain *chain;
  assert_int_equal(mmc_chain_parse(context, chain_text, &chain), MMC_OK);
  draw_factors(seed);
  for (int o = 0; o < 2; o++)
    for (int d = 0; d < 2; d++) {
      mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
      options.objective = objectives[o];
      options.device = devices[d];
      mmc_plan *plan;
      mmc_status status = mmc_plan_create(context, chain, &options, &plan);
      if (status != MMC_OK) {
        char text[512];
        fail_msg("seed %d: a plan for %s on %s: %s", (int)seed, objectives[o], devices[d],
                 mmc_context_message(context, text, sizeof text));
      }
      if (!(mmc_plan_predicted_seconds(plan) >= 0))
        fail_msg("seed %d: %g s are predicted", (int)seed, mmc_plan_predicted_seconds(plan));
      assert_int_equal(mmc_plan_explain(plan, MMC_JSON, ignore, NULL), MMC_OK);
      expect_right(plan, seed);
      by_rows += steps_by_rows(plan);
      mmc_plan_destroy(plan);
    }
  mmc_chain_destroy(chain);
  return by_rows;
}

/* One import or one call of tune, after which everything can be asked of the store. */
static void expect_usable(fixture *f, mmc_context *context, uint64_t seed) {
  text_input text = text_of("mmchain wisdom 1\nend 0\n");
  mmc_status status =
      seed % 8 == 0 ? tune_a_little(context, "ref") : mmc_wisdom_import(context, text_read, &text);
  if (status != MMC_OK) fail_msg("seed %d: %s", (int)seed, mmc_status_string(status));
  mmc_wisdom_info info;
  assert_int_equal(mmc_wisdom_describe(context, &info), MMC_OK);
  if (!info.available) fail_msg("seed %d: %s", (int)seed, info.description);
  assert_int_equal(mmc_wisdom_write(context, MMC_JSON, ignore, NULL), MMC_OK);
  /* What is exported can be imported elsewhere. */
  text_buffer all = {0};
  assert_int_equal(mmc_wisdom_export(context, text_write, &all), MMC_OK);
  char elsewhere[128];
  snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere.db", f->directory);
  unlink(elsewhere);
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = elsewhere;
  mmc_context *other;
  assert_int_equal(mmc_context_create(&options, &other), MMC_OK);
  text_input again = text_of(all.bytes);
  status = mmc_wisdom_import(other, text_read, &again);
  if (status != MMC_OK) {
    char message[512];
    fail_msg("seed %d: the export cannot be imported: %s", (int)seed,
             mmc_context_message(other, message, sizeof message));
  }
  mmc_context_destroy(other);
  free(all.bytes);
}

static void hostile_rows_make_no_wrong_product(void **state) {
  fixture *f = *state;
  const char *asked = getenv("MMCHAIN_TEST_SEED");
  uint64_t first = asked != NULL ? strtoull(asked, NULL, 10) : 1;
  uint64_t count = asked != NULL ? 1 : (uint64_t)how_many(100, 1000);
  int64_t by_rows = 0;
  for (uint64_t seed = first; seed < first + count; seed++) {
    uint64_t random = seed;
    /* Alone, and among those that were written before. */
    put_hostile(f, &random, 1 + (int)random_below(&random, 3));
    mmc_context *context = context_of(f);
    by_rows += expect_plans(context, seed);
    expect_usable(f, context, seed);
    if (seed % 16 == 0) assert_int_equal(mmc_wisdom_forget(context, NULL, NULL), MMC_OK);
    if (seed % 16 == 0) {
      assert_int_equal(tune_a_little(context, "ref"), MMC_OK);
      assert_int_equal(tune_a_little(context, "cpu"), MMC_OK);
    }
    mmc_context_destroy(context);
  }
  print_message("%d rows or more from seed %d; %d steps went by them\n", (int)count, (int)first,
                (int)by_rows);
  if (count > 1) assert_true(by_rows > (int64_t)count / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(hostile_rows_make_no_wrong_product, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
