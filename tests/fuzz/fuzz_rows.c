/* fuzz_rows.c: rows of a store that somebody has written with the right checksum: sizes, texts and
 * figures that are out of range, recipes that do not fit, arrays with holes. They are passed over,
 * or give prices that can be used. */
#include <math.h>

#include "cost/recipe.h"
#include "fuzz.h"
#include "wisdom/rows.h"
#include "wisdom/store.h"
#include "wisdom/wisdom_pricing.h"

enum { SIZES = 4, RECORDS = 6 };

static const int64_t sizes[SIZES] = {1, 32, 64, 1000};

/* A size or date: one that is asked for, or anything. */
static int64_t take_size(fuzz_input *input) {
  uint8_t which = fuzz_byte(input);
  return which < 240 ? sizes[which % SIZES] : fuzz_number(input);
}

/* A figure: one that is likely, or any bits. */
static double take_figure(fuzz_input *input) {
  uint8_t which = fuzz_byte(input);
  if (which < 200) return (which + 1) * 1e-6;
  double figure;
  fuzz_take(input, &figure, sizeof figure);
  return figure;
}

/* A text that lives in room, up to its first NUL. */
static const char *take_text(fuzz_input *input, char room[MMCI_WISDOM_TEXT_MAX + 1]) {
  size_t length = fuzz_byte(input);
  memset(room, 0, MMCI_WISDOM_TEXT_MAX + 1);
  fuzz_take(input, room, length < MMCI_WISDOM_TEXT_MAX ? length : MMCI_WISDOM_TEXT_MAX);
  return room;
}

typedef struct memory {
  char texts[2][MMCI_WISDOM_TEXT_MAX + 1];
  int64_t axes[3][3];
  double values[27];
} memory;

static mmci_wisdom_record take_record(fuzz_input *input, const mmci_fingerprint *fingerprint,
                                      memory *m) {
  mmci_wisdom_record record = {.fingerprint = fingerprint};
  record.kind = (mmci_wisdom_kind)(fuzz_byte(input) % 3);
  if (record.kind == MMCI_WISDOM_PRODUCT) {
    mmci_wisdom_product *p = &record.product;
    p->key = (mmci_wisdom_key){.m = take_size(input), .k = take_size(input), .n = take_size(input)};
    p->key.objective = (mmci_wisdom_objective)(fuzz_byte(input) % 2);
    p->recipe = take_text(input, m->texts[0]);
    p->source = "measured";
    double *figures[] = {&p->seconds, &p->spread,       &p->plain_seconds,
                         &p->joules,  &p->plain_joules, &p->watts};
    for (int f = 0; f < 6; f++) *figures[f] = take_figure(input);
  } else if (record.kind == MMCI_WISDOM_FACT) {
    record.fact.name = take_text(input, m->texts[0]);
    record.fact.number = take_figure(input);
    record.fact.spread = take_figure(input);
  } else {
    mmci_wisdom_grid *grid = &record.array.grid;
    for (int d = 0; d < 3; d++) {
      grid->count[d] = 1 + fuzz_byte(input) % 3;
      grid->axis[d] = m->axes[d];
      for (int p = 0; p < 3; p++) m->axes[d][p] = take_size(input);
    }
    for (int v = 0; v < 27; v++) m->values[v] = take_figure(input) * 1e12;
    grid->values = m->values;
  }
  return record;
}

/* Writes the row as it is, past all checks. */
static mmc_status put_row(mmci_wisdom *wisdom, void *user, mmci_error *error) {
  const mmci_wisdom_record *record = user;
  sqlite3_stmt *add = mmci_database_statement(wisdom, MMCI_STATEMENT_FINGERPRINT_INSERT, error);
  MUST(add != NULL && mmci_fingerprint_bind(add, record->fingerprint) == SQLITE_OK);
  (void)sqlite3_step(add); /* it is there already */
  sqlite3_reset(add);
  sqlite3_stmt *insert =
      mmci_database_statement(wisdom, MMCI_STATEMENT_OF(record->kind, MMCI_QUERY_INSERT), error);
  MUST(insert != NULL && mmci_row_bind_all(insert, 1, record) == SQLITE_OK);
  MUST(sqlite3_step(insert) == SQLITE_DONE);
  return MMC_OK;
}

static void ask_prices(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint) {
  mmci_wisdom_pricing *known;
  mmci_error error;
  const mmci_facts facts = {0};
  MUST(mmci_wisdom_pricing_acquire(wisdom, fingerprint, &facts, MMC_F32, MMCI_NATIVE, &known,
                                   &error) == MMC_OK);
  mmci_pricing pricing = mmci_wisdom_pricing_of(known);
  for (int i = 0; i < SIZES * SIZES * SIZES; i++) {
    int64_t m = sizes[i % SIZES], k = sizes[i / SIZES % SIZES], n = sizes[i / SIZES / SIZES];
    mmci_gemm gemm = mmci_gemm_tight(MMC_F32, MMCI_NATIVE, m, k, n, MMC_OP_N, MMC_OP_N);
    mmci_price price;
    mmci_recipe_piece pieces[MMCI_RECIPE_PIECES];
    pricing.price(pricing.user, &gemm, &price);
    MUST(price.seconds >= 0 && price.error >= 0);
    int count = mmci_recipe_pieces(&price.recipe, &gemm, pieces);
    mmci_gemm padded = mmci_recipe_padded(&price.recipe, &gemm);
    int64_t sum = 0;
    for (int p = 0; p < count; p++) sum += pieces[p].gemm.m * pieces[p].gemm.k * pieces[p].gemm.n;
    MUST(sum == (price.recipe.pad == 0 ? m * k * n : sum) && padded.m >= m);
  }
  mmci_wisdom_pricing_release(known);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const char *const texts[MMCI_FINGERPRINT_FIELDS] = {"blas",  "m",   "",      "b",
                                                             "0.1.0", "f32", "native"};
  fuzz_input input = {bytes, size};
  mmci_fingerprint fingerprint;
  for (int f = 0; f < MMCI_FINGERPRINT_FIELDS; f++)
    mmci_fingerprint_set(&fingerprint, (mmci_fingerprint_field)f, texts[f]);
  mmci_wisdom *wisdom;
  mmci_error error;
  MUST(mmci_store_create_in_memory(&wisdom, &error) == MMC_OK);
  for (int r = 0; r < RECORDS && input.size > 0; r++) {
    memory m;
    mmci_wisdom_record record = take_record(&input, &fingerprint, &m);
    MUST(mmci_database_write(wisdom, put_row, &record, &error) == MMC_OK);
  }
  ask_prices(wisdom, &fingerprint);
  fuzz_sink text = {0};
  MUST(mmci_wisdom_export(wisdom, fuzz_write, &text, &error) == MMC_OK);
  free(text.bytes);
  mmci_wisdom_destroy(wisdom);
  return 0;
}
