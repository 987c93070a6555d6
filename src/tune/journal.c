#include "tune/journal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/number.h"
#include "tune/estimate.h"
#include "tune/groups.h"
#include "wisdom/wisdom_pricing.h"

static int64_t date_now(void) {
  time_t seconds = time(NULL);
  return seconds > 0 ? (int64_t)seconds : 0;
}

/* ---- measurements -------------------------------------------------------------------------- */

/* A measurement is kept as numbers: one that was not compared has only the first NUMBERS_ALONE of
 * them, or behind these its joules. */
enum { NUMBERS = 8, NUMBERS_ALONE = 4, NUMBERS_JOULES = 7 };

static int to_numbers(const mmci_measured *measured, double numbers[NUMBERS]) {
  const mmci_estimate *seconds = &measured->seconds, *gain = &measured->gain;
  const mmci_estimate *joules = &measured->joules;
  const double all[NUMBERS] = {seconds->value,    seconds->low, seconds->high, measured->cost_s,
                               measured->plain_s, gain->value,  gain->low,     gain->high};
  memcpy(numbers, all, sizeof all);
  if (!(joules->value > 0)) return measured->plain_s > 0 ? NUMBERS : NUMBERS_ALONE;
  numbers[4] = joules->value;
  numbers[5] = joules->low;
  numbers[6] = joules->high;
  return NUMBERS_JOULES;
}

static void from_numbers(const double numbers[NUMBERS], int count, mmci_measured *out) {
  *out = (mmci_measured){.seconds = {numbers[0], numbers[1], numbers[2]}, .cost_s = numbers[3]};
  if (count == NUMBERS_JOULES) {
    out->joules = (mmci_estimate){numbers[4], numbers[5], numbers[6]};
  } else {
    out->plain_s = numbers[4];
    out->gain = (mmci_estimate){numbers[5], numbers[6], numbers[7]};
  }
}

static void write_numbers(const double *numbers, int count, char *text, size_t size) {
  size_t used = 0;
  for (int i = 0; i < count; i++) {
    char word[MMCI_NUMBER_SIZE];
    used += (size_t)snprintf(text + used, size - used, i > 0 ? " %s" : "%s",
                             mmci_number_format(numbers[i], word));
  }
}
static_assert(NUMBERS * 25 < MMCI_WISDOM_TEXT_MAX, "17 digits, sign, point, exponent and a space");

/* Reads as many numbers as there are; the tuner checks whether they make sense. */
static bool read_numbers(char *text, double numbers[NUMBERS], int *count) {
  char *rest, *word = strtok_r(text, " ", &rest);
  for (*count = 0; word != NULL; word = strtok_r(NULL, " ", &rest))
    if (*count == NUMBERS || !mmci_number_parse(word, &numbers[(*count)++])) return false;
  return *count == NUMBERS || *count == NUMBERS_ALONE || *count == NUMBERS_JOULES;
}

/* The job of a key is what is measured; the unit is the recipe, its last word. */
typedef struct place {
  char job[MMCI_TUNE_KEY_SIZE];
  const char *unit;
} place;

static void split_key(const char *key, place *out) {
  snprintf(out->job, sizeof out->job, "%s", key);
  char *space = strrchr(out->job, ' ');
  *space = '\0';
  out->unit = space + 1;
}

static bool recall(void *user, const char *key, mmci_measured *out) {
  const mmci_wisdom_journal *journal = user;
  char result[MMCI_WISDOM_TEXT_MAX + 1];
  double numbers[NUMBERS] = {0};
  bool found = false;
  place at;
  split_key(key, &at);
  mmc_status status = mmci_wisdom_find_progress(journal->wisdom, &journal->fingerprint, at.job,
                                                at.unit, &found, result, NULL);
  int count;
  if (status != MMC_OK || !found || !read_numbers(result, numbers, &count)) return false;
  from_numbers(numbers, count, out);
  return true;
}

static mmc_status record(void *user, const char *key, const mmci_measured *measured,
                         mmci_error *error) {
  const mmci_wisdom_journal *journal = user;
  double numbers[NUMBERS];
  char result[MMCI_WISDOM_TEXT_MAX + 1] = "";
  int count = to_numbers(measured, numbers);
  write_numbers(numbers, count, result, sizeof result);
  place at;
  split_key(key, &at);
  mmci_wisdom_record unit = {
      .kind = MMCI_WISDOM_PROGRESS,
      .fingerprint = &journal->fingerprint,
      .progress = {.job = at.job, .unit = at.unit, .result = result, .measured_at = date_now()}};
  return mmci_wisdom_put(journal->wisdom, &unit, error);
}

/* ---- what comes of them -------------------------------------------------------------------- */

static bool key_of(const mmci_gemm *gemm, mmci_wisdom_objective objective, mmci_wisdom_key *key) {
  *key = (mmci_wisdom_key){.m = gemm->m, .k = gemm->k, .n = gemm->n, .objective = objective};
  return mmci_form_op(&gemm->a, &key->op_a) && mmci_form_op(&gemm->b, &key->op_b);
}

/* Finds a product and copies it; its texts live as long as the table, which the caller releases. */
static mmc_status find_product(const mmci_wisdom_journal *journal, const mmci_wisdom_key *key,
                               mmci_wisdom_table **table, bool *found, mmci_wisdom_product *out,
                               mmci_error *error) {
  mmc_status status = mmci_wisdom_acquire(journal->wisdom, &journal->fingerprint, table, error);
  if (status != MMC_OK) return status;
  const mmci_wisdom_product *product = mmci_wisdom_find(*table, key);
  *found = product != NULL;
  if (*found) *out = *product;
  return MMC_OK;
}

static mmc_status put_product(const mmci_wisdom_journal *journal,
                              const mmci_wisdom_product *product, mmci_error *error) {
  mmci_wisdom_record record = {
      .kind = MMCI_WISDOM_PRODUCT, .fingerprint = &journal->fingerprint, .product = *product};
  return mmci_wisdom_put(journal->wisdom, &record, error);
}

/* Says whether the text of a product, which may be spelled as by earlier versions, is this
 * recipe. */
static bool has_recipe(const mmci_wisdom_journal *journal, const mmci_wisdom_product *product,
                       const mmci_recipe *recipe) {
  const mmci_wisdom_key *key = &product->key;
  mmci_recipe kept;
  mmci_error none;
  return mmci_recipe_parse(product->recipe, key->m, key->k, key->n, &journal->variants, &kept,
                           &none) == MMC_OK &&
         mmci_recipe_equal(&kept, recipe);
}

/* Keeps the measured joules of a recipe while the recipe stays the same. */
static mmc_status keep_joules(const mmci_wisdom_journal *journal, const mmci_recipe *recipe,
                              mmci_wisdom_product *product, mmci_error *error) {
  mmci_wisdom_table *table;
  mmci_wisdom_product before;
  bool found;
  mmc_status status = find_product(journal, &product->key, &table, &found, &before, error);
  if (status != MMC_OK) return status;
  if (found && has_recipe(journal, &before, recipe)) {
    product->joules = before.joules;
    product->plain_joules = before.plain_joules;
    product->watts = before.watts;
  }
  mmci_wisdom_release(table);
  return MMC_OK;
}

static mmc_status choose(void *user, const mmci_gemm *gemm, const mmci_choice *choice,
                         mmci_error *error) {
  const mmci_wisdom_journal *journal = user;
  mmci_wisdom_key key;
  if (!key_of(gemm, MMCI_WISDOM_TIME, &key)) return MMC_OK;
  char recipe[MMCI_RECIPE_TEXT_SIZE];
  mmci_recipe_format(&choice->recipe, &journal->variants, recipe);
  mmci_wisdom_product product = {.key = key,
                                 .recipe = recipe,
                                 .seconds = choice->seconds,
                                 .spread = choice->spread,
                                 .plain_seconds = choice->plain_s,
                                 .joules = (double)NAN,
                                 .plain_joules = (double)NAN,
                                 .watts = (double)NAN,
                                 .source = mmci_provenance_name(MMCI_MEASURED),
                                 .measured_at = date_now()};
  mmc_status status = keep_joules(journal, &choice->recipe, &product, error);
  return status == MMC_OK ? put_product(journal, &product, error) : status;
}

static mmc_status decided(void *user, const mmci_gemm *gemm, const mmci_choice *choice,
                          mmci_error *error) {
  const mmci_wisdom_journal *journal = user;
  return journal->chosen != NULL ? journal->chosen(journal->user, gemm, choice, error) : MMC_OK;
}

mmc_status mmci_journal_fastest(mmci_wisdom_journal *journal, const mmci_gemm *gemm, bool *found,
                                mmci_recipe *recipe, mmci_error *error) {
  mmci_wisdom_key key;
  mmci_wisdom_table *table;
  mmci_wisdom_product product;
  *found = false;
  if (!key_of(gemm, MMCI_WISDOM_TIME, &key)) return MMC_OK;
  mmc_status status = find_product(journal, &key, &table, found, &product, error);
  if (status != MMC_OK) return status;
  mmci_error none;
  *found = *found && mmci_recipe_parse(product.recipe, gemm->m, gemm->k, gemm->n,
                                       &journal->variants, recipe, &none) == MMC_OK;
  mmci_wisdom_release(table);
  return MMC_OK;
}

/* Writes the joules of the fastest recipe to the record for time. */
static mmc_status put_fastest(const mmci_wisdom_journal *journal, const mmci_wisdom_key *key,
                              const mmci_saving *saving, mmci_error *error) {
  mmci_wisdom_table *table;
  mmci_wisdom_product product;
  bool found;
  mmc_status status = find_product(journal, key, &table, &found, &product, error);
  if (status != MMC_OK) return status;
  if (found) {
    product.joules = saving->fastest_joules;
    product.plain_joules = saving->plain_joules.value;
    product.watts = product.joules / product.seconds;
    product.measured_at = date_now();
    status = put_product(journal, &product, error);
  }
  mmci_wisdom_release(table);
  return status;
}

mmc_status mmci_journal_saving(mmci_wisdom_journal *journal, const mmci_gemm *gemm,
                               const mmci_saving *saving, mmci_error *error) {
  mmci_wisdom_key key, time;
  if (!key_of(gemm, MMCI_WISDOM_ENERGY, &key)) return MMC_OK;
  char recipe[MMCI_RECIPE_TEXT_SIZE];
  mmci_recipe_format(&saving->recipe, &journal->variants, recipe);
  const mmci_estimate *joules = &saving->joules, *plain = &saving->plain_joules;
  mmci_wisdom_product product = {
      .key = key,
      .recipe = recipe,
      .seconds = saving->seconds,
      .spread = fmax(mmci_estimate_spread(joules), mmci_estimate_spread(plain)),
      .plain_seconds = saving->plain_s,
      .joules = joules->value,
      .plain_joules = plain->value,
      .watts = joules->value / saving->seconds,
      .source = mmci_provenance_name(MMCI_MEASURED),
      .measured_at = date_now()};
  mmc_status status = put_product(journal, &product, error);
  if (status != MMC_OK || !isfinite(saving->fastest_joules)) return status;
  key_of(gemm, MMCI_WISDOM_TIME, &time);
  return put_fastest(journal, &time, saving, error);
}

static mmc_status put_fact(const mmci_wisdom_journal *journal, const char *name, double number,
                           double spread, mmci_error *error) {
  mmci_wisdom_record fact = {
      .kind = MMCI_WISDOM_FACT,
      .fingerprint = &journal->fingerprint,
      .fact = {.name = name, .number = number, .spread = spread, .measured_at = date_now()}};
  return mmci_wisdom_put(journal->wisdom, &fact, error);
}

static mmc_status keep_time(void *user, const mmci_group *group, const mmci_estimate *seconds,
                            mmci_error *error) {
  const mmci_wisdom_journal *journal = user;
  char name[MMCI_GROUP_NAME_SIZE];
  mmci_group_name(group, name);
  mmc_status status = put_fact(journal, name, seconds->value, mmci_estimate_spread(seconds), error);
  if (status != MMC_OK || journal->timed == NULL) return status;
  return journal->timed(journal->user, name, seconds, error);
}

static bool known(void *user, const mmci_gemm *gemm) {
  mmci_recipe recipe;
  mmci_error ignored;
  bool found;
  return mmci_journal_fastest(user, gemm, &found, &recipe, &ignored) == MMC_OK && found;
}

mmci_journal mmci_journal_of(mmci_wisdom_journal *journal) {
  return (mmci_journal){.user = journal,
                        .recall = recall,
                        .record = record,
                        .choose = choose,
                        .known = known,
                        .decided = decided,
                        .time = keep_time};
}

/* The margins are written first, because without them an array is not used. */
static mmc_status put_array(mmci_wisdom_journal *journal, const mmci_array *array, mmc_op op_a,
                            mmc_op op_b, mmci_error *error) {
  const mmci_grid *grid = array->grid;
  size_t count = (size_t)mmci_array_count(array);
  double *values = mmci_alloc_array(count, sizeof *values);
  if (values == NULL) return mmci_fail_nomem(error, count * sizeof *values);
  size_t at = 0;
  for (int i = 0; i < grid[0].count; i++)
    for (int j = 0; j < grid[1].count; j++)
      for (int l = 0; l < grid[2].count; l++, at++)
        values[at] =
            mmci_flops(array->like.dtype, grid[0].values[i], grid[1].values[j], grid[2].values[l]) /
            array->seconds[at];
  mmci_wisdom_record record = {
      .kind = MMCI_WISDOM_ARRAY,
      .fingerprint = &journal->fingerprint,
      .array = {.op_a = op_a,
                .op_b = op_b,
                .objective = MMCI_WISDOM_TIME,
                .grid = {.count = {grid[0].count, grid[1].count, grid[2].count},
                         .axis = {grid[0].values, grid[1].values, grid[2].values},
                         .values = values},
                .measured_at = date_now()}};
  const mmci_trust *trust = &array->trust;
  mmc_status status = MMC_OK;
  for (int between = 0; status == MMC_OK && between < 2; between++) {
    char name[MMCI_MARGIN_NAME_SIZE];
    mmci_array_margin_name(op_a, op_b, between, name);
    status = put_fact(journal, name, between ? trust->between : trust->margin,
                      between ? trust->error : 0, error);
  }
  if (status == MMC_OK) status = mmci_wisdom_put(journal->wisdom, &record, error);
  free(values);
  return status;
}

/* Joins the array with the one that is kept, so that neither range is lost. */
mmc_status mmci_journal_array(mmci_wisdom_journal *journal, const mmci_array *array, mmc_op op_a,
                              mmc_op op_b, mmci_error *error) {
  mmci_wisdom_table *table;
  mmci_array *kept = NULL, *joined = NULL;
  mmc_status status = mmci_wisdom_acquire(journal->wisdom, &journal->fingerprint, &table, error);
  if (status != MMC_OK) return status;
  status = mmci_wisdom_array_restore(table, &array->like, op_a, op_b, &kept, error);
  mmci_wisdom_release(table);
  if (status == MMC_OK && kept != NULL) status = mmci_array_join(kept, array, &joined, error);
  if (status == MMC_OK)
    status = put_array(journal, joined != NULL ? joined : array, op_a, op_b, error);
  mmci_array_destroy(kept);
  mmci_array_destroy(joined);
  return status;
}

mmc_status mmci_journal_roofline(mmci_wisdom_journal *journal, const mmci_roofline *roofline,
                                 mmci_error *error) {
  double facts[MMCI_ROOFLINE_FACTS];
  mmci_roofline_facts(roofline, facts);
  mmc_status status = MMC_OK;
  for (int f = 0; status == MMC_OK && f < MMCI_ROOFLINE_FACTS; f++)
    status = put_fact(journal, mmci_roofline_names[f], facts[f], 0, error);
  return status;
}

mmc_status mmci_journal_energy(mmci_wisdom_journal *journal, const mmci_energy_model *model,
                               mmci_error *error) {
  double facts[MMCI_ENERGY_FACTS];
  mmci_energy_facts(model, facts);
  mmc_status status = MMC_OK;
  for (int f = 0; status == MMC_OK && f < MMCI_ENERGY_FACTS; f++)
    status = put_fact(journal, mmci_energy_names[f], facts[f], 0, error);
  return status;
}

mmc_status mmci_journal_shares(mmci_wisdom_journal *journal,
                               const mmci_structure_share shares[MMCI_STRUCTURE_PIECES],
                               mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int piece = 0; piece < MMCI_STRUCTURE_PIECES; piece++)
    for (int small = 0; small < 2 && status == MMC_OK; small++) {
      const double number = small ? shares[piece].small : shares[piece].large;
      char name[MMCI_PIECE_NAME_SIZE];
      mmci_structure_piece_name((mmci_structure_piece)piece, small != 0, name);
      if (number >= 0) status = put_fact(journal, name, number, 0, error);
    }
  return status;
}
