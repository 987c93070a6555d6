#include "tune/journal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "wisdom/number.h"
#include "wisdom/wisdom_pricing.h"

static int64_t now(void) {
  time_t seconds = time(NULL);
  return seconds > 0 ? (int64_t)seconds : 0;
}

/* ---- measurements -------------------------------------------------------------------------- */

/* A measurement as numbers: what was not compared has the first NUMBERS_ALONE of them only. */
enum { NUMBERS = 8, NUMBERS_ALONE = 4 };

static int to_numbers(const mmci_measured *measured, double numbers[NUMBERS]) {
  const mmci_estimate *seconds = &measured->seconds, *gain = &measured->gain;
  const double all[NUMBERS] = {seconds->value,    seconds->low, seconds->high, measured->cost_s,
                               measured->plain_s, gain->value,  gain->low,     gain->high};
  memcpy(numbers, all, sizeof all);
  return measured->plain_s > 0 ? NUMBERS : NUMBERS_ALONE;
}

static void from_numbers(const double numbers[NUMBERS], mmci_measured *out) {
  *out = (mmci_measured){.seconds = {numbers[0], numbers[1], numbers[2]},
                         .cost_s = numbers[3],
                         .plain_s = numbers[4],
                         .gain = {numbers[5], numbers[6], numbers[7]}};
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
static bool read_numbers(char *text, double numbers[NUMBERS]) {
  int count = 0;
  char *rest, *word = strtok_r(text, " ", &rest);
  for (; word != NULL; word = strtok_r(NULL, " ", &rest))
    if (count == NUMBERS || !mmci_number_parse(word, &numbers[count++])) return false;
  return count == NUMBERS || count == NUMBERS_ALONE;
}

/* The job of a key is what is measured, the unit the recipe, its last word. */
typedef struct place {
  char job[MMCI_TUNE_KEY_SIZE];
  const char *unit;
} place;

static void find_place(const char *key, place *out) {
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
  find_place(key, &at);
  mmc_status status = mmci_wisdom_find_progress(journal->wisdom, &journal->fingerprint, at.job,
                                                at.unit, &found, result, NULL);
  if (status != MMC_OK || !found || !read_numbers(result, numbers)) return false;
  from_numbers(numbers, out);
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
  find_place(key, &at);
  mmci_wisdom_record unit = {
      .kind = MMCI_WISDOM_PROGRESS,
      .fingerprint = &journal->fingerprint,
      .progress = {.job = at.job, .unit = at.unit, .result = result, .measured_at = now()}};
  return mmci_wisdom_put(journal->wisdom, &unit, error);
}

/* ---- what comes of them -------------------------------------------------------------------- */

static mmc_status choose(void *user, const mmci_gemm *gemm, const mmci_choice *choice,
                         mmci_error *error) {
  const mmci_wisdom_journal *journal = user;
  mmc_op op_a, op_b;
  if (!mmci_form_op(&gemm->a, &op_a) || !mmci_form_op(&gemm->b, &op_b)) return MMC_OK;
  char recipe[MMCI_RECIPE_TEXT_SIZE];
  mmci_recipe_format(&choice->recipe, recipe);
  mmci_wisdom_record product = {.kind = MMCI_WISDOM_PRODUCT,
                                .fingerprint = &journal->fingerprint,
                                .product = {.key = {.m = gemm->m,
                                                    .k = gemm->k,
                                                    .n = gemm->n,
                                                    .op_a = op_a,
                                                    .op_b = op_b,
                                                    .objective = MMCI_WISDOM_TIME},
                                            .recipe = recipe,
                                            .seconds = choice->seconds,
                                            .spread = choice->spread,
                                            .plain_seconds = choice->plain_s,
                                            .joules = (double)NAN,
                                            .plain_joules = (double)NAN,
                                            .watts = (double)NAN,
                                            .source = "measured",
                                            .measured_at = now()}};
  mmc_status status = mmci_wisdom_put(journal->wisdom, &product, error);
  if (status != MMC_OK || journal->chosen == NULL) return status;
  return journal->chosen(journal->user, gemm, choice, error);
}

mmci_journal mmci_journal_of(mmci_wisdom_journal *journal) {
  return (mmci_journal){.user = journal, .recall = recall, .record = record, .choose = choose};
}

static mmc_status put_fact(mmci_wisdom_journal *journal, const char *name, double number,
                           double spread, mmci_error *error) {
  mmci_wisdom_record fact = {
      .kind = MMCI_WISDOM_FACT,
      .fingerprint = &journal->fingerprint,
      .fact = {.name = name, .number = number, .spread = spread, .measured_at = now()}};
  return mmci_wisdom_put(journal->wisdom, &fact, error);
}

/* The margins go first: without them an array is not used. */
mmc_status mmci_journal_array(mmci_wisdom_journal *journal, const mmci_array *array, mmc_op op_a,
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
                .measured_at = now()}};
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

mmc_status mmci_journal_roofline(mmci_wisdom_journal *journal, const mmci_roofline *roofline,
                                 mmci_error *error) {
  double facts[MMCI_ROOFLINE_FACTS];
  mmci_roofline_facts(roofline, facts);
  mmc_status status = MMC_OK;
  for (int f = 0; status == MMC_OK && f < MMCI_ROOFLINE_FACTS; f++)
    status = put_fact(journal, mmci_roofline_names[f], facts[f], 0, error);
  return status;
}
