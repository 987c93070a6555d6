#include "tune/tuner.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/wide.h"

/* The measurements that were made or recalled in this session, by key: open addressing, at most
 * half full. */
typedef struct entry {
  char *key;
  mmci_measured measured;
} entry;

/* The seconds of the measurements for a question: the least, and all together. */
typedef struct pace {
  double count, mkn, least_s, all_s;
} pace;

struct mmci_tuner {
  mmci_machine machine;
  mmci_tune_options options;
  entry *entries;
  size_t capacity, count; /* capacity is a power of two */
  double start_s;
  int64_t measurements;
  pace paces[MMCI_QUESTIONS];
  double fresh, writing_s; /* measurements of this session, and what the journal took for them */
  const char *unit;        /* the work that is under way, and how much of it is decided */
  int64_t decided, unit_count;
};

enum { FEW = 4 }; /* fewer measurements than these say less of others than what is usual */
/* What is measured in turns takes so many times what is timed alone, before any turns were. */
static const double turns_price = 6;
/* The seconds that a journal is taken to need for a measurement, before it has recorded one. */
static const double usual_writing_s = 5e-4;
mmci_tune_options mmci_tune_defaults(void) {
  return (mmci_tune_options){
      .budget_s = (double)INFINITY, .least_gain = 0.01, .most_points = 32, .finalists = 8};
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Returns where key is, or would go. */
static entry *slot_of(entry *entries, size_t capacity, const char *key) {
  size_t at = (size_t)mmci_hash_text(MMCI_HASH_START, key) & (capacity - 1);
  while (entries[at].key != NULL && strcmp(entries[at].key, key) != 0)
    at = (at + 1) & (capacity - 1);
  return &entries[at];
}

static mmc_status grow_entries(mmci_tuner *tuner, mmci_error *error) {
  size_t capacity = tuner->capacity != 0 ? 2 * tuner->capacity : 1024;
  entry *entries = mmci_alloc_zeroed(capacity, sizeof *entries);
  if (entries == NULL) return mmci_fail_nomem(error, capacity * sizeof *entries);
  for (size_t t = 0; t < tuner->capacity; t++)
    if (tuner->entries[t].key != NULL)
      *slot_of(entries, capacity, tuner->entries[t].key) = tuner->entries[t];
  free(tuner->entries);
  tuner->entries = entries;
  tuner->capacity = capacity;
  return MMC_OK;
}

/* A question about a recipe, or about a call. */
typedef struct asked {
  mmci_question question;
  const mmci_gemm *gemm;
  const mmci_recipe *recipe;
  const mmci_group *group; /* the group; NULL when the question is about a recipe */
  double mkn;
  char key[MMCI_TUNE_KEY_SIZE];
} asked;

static asked ask_recipe(const mmci_tuner *tuner, mmci_question question, const mmci_gemm *gemm,
                        const mmci_recipe *recipe) {
  asked x = {.question = question, .gemm = gemm, .recipe = recipe, .mkn = mmci_gemm_mkn(gemm)};
  const mmci_variants variants = {.name = tuner->machine.variant_name, .dtype = gemm->dtype};
  char text[MMCI_RECIPE_TEXT_SIZE];
  mmci_recipe_format(recipe, &variants, text);
  mmci_tune_key(question, gemm, text, x.key);
  return x;
}

static asked ask_group(const mmci_group *group) {
  asked x = {.question = MMCI_ASK_GROUP, .group = group, .mkn = mmci_group_mkn(group)};
  mmci_group_key(group, x.key);
  return x;
}

static void add_pace(mmci_tuner *tuner, mmci_question question, double mkn, double cost_s) {
  pace *p = &tuner->paces[question];
  p->least_s = p->count > 0 ? fmin(p->least_s, cost_s) : cost_s;
  p->count++;
  p->mkn += mkn;
  p->all_s += cost_s;
}

static mmc_status remember_answer(mmci_tuner *tuner, const asked *x, const mmci_measured *measured,
                                  mmci_error *error) {
  if (2 * (tuner->count + 1) > tuner->capacity) {
    mmc_status status = grow_entries(tuner, error);
    if (status != MMC_OK) return status;
  }
  char *copy = strdup(x->key);
  if (copy == NULL) return mmci_fail_nomem(error, strlen(x->key) + 1);
  *slot_of(tuner->entries, tuner->capacity, copy) = (entry){.key = copy, .measured = *measured};
  tuner->count++;
  if (isfinite(measured->seconds.value)) add_pace(tuner, x->question, x->mkn, measured->cost_s);
  return MMC_OK;
}

static bool recall_here(const mmci_tuner *tuner, const char *key, mmci_measured *out) {
  if (tuner->capacity == 0) return false;
  const entry *found = slot_of(tuner->entries, tuner->capacity, key);
  if (found->key == NULL) return false;
  *out = found->measured;
  return true;
}

static bool is_estimate(const mmci_estimate *x) {
  return x->low > 0 && x->low <= x->value && x->value <= x->high && isfinite(x->high);
}

/* Asks the journal, and asks it again for the key that earlier versions wrote. */
static bool ask_journal(const mmci_journal *journal, const asked *x, mmci_measured *out) {
  if (journal->recall(journal->user, x->key, out)) return true;
  if (x->recipe == NULL) return false;
  char text[MMCI_RECIPE_TEXT_SIZE], key[MMCI_TUNE_KEY_SIZE];
  mmci_recipe_format_old(x->recipe, text);
  mmci_tune_key(x->question, x->gemm, text, key);
  return strcmp(key, x->key) != 0 && journal->recall(journal->user, key, out);
}

/* Recalls a measurement from the journal, a file that anything may have happened to. */
static bool recall_journal(const mmci_tuner *tuner, const asked *x, mmci_measured *out) {
  const mmci_journal *journal = &tuner->options.journal;
  mmci_measured found = {0};
  if (journal->recall == NULL || !ask_journal(journal, x, &found)) return false;
  if (!is_estimate(&found.seconds) || !(found.cost_s >= 0) || !isfinite(found.cost_s)) return false;
  if (x->question >= MMCI_ASK_JOULES && !is_estimate(&found.joules)) return false;
  if (x->question >= MMCI_ASK_COMPARE && x->question <= MMCI_ASK_LATEST &&
      !(is_estimate(&found.gain) && found.plain_s > 0 && isfinite(found.plain_s)))
    return false;
  *out = found;
  return true;
}

/* ---- life ---------------------------------------------------------------------------------- */

mmc_status mmci_tuner_create(const mmci_machine *machine, const mmci_tune_options *options,
                             mmci_tuner **out, mmci_error *error) {
  if (!(options->budget_s >= 0))
    return mmci_fail_argument(error, MMC_E_ARG, "budget", "expected seconds >= 0, got %g",
                              options->budget_s);
  if (!(options->least_gain >= 0))
    return mmci_fail(error, MMC_E_ARG, "least gain: expected a share >= 0, got %g",
                     options->least_gain);
  for (int i = 0; i < 3; i++)
    if (options->grid[i] < 0)
      return mmci_fail(error, MMC_E_ARG, "grid: expected steps >= 0, got %" PRId64,
                       options->grid[i]);
  if (options->most_points < 1 || options->most_points > MMCI_TUNE_POINTS)
    return mmci_fail(error, MMC_E_ARG, "points: expected 1 to %d, got %d", MMCI_TUNE_POINTS,
                     options->most_points);
  if (options->finalists < 1)
    return mmci_fail(error, MMC_E_ARG, "finalists: expected at least 1, got %d",
                     options->finalists);
  mmci_tuner *tuner = mmci_alloc_zeroed(1, sizeof *tuner);
  if (tuner == NULL) return mmci_fail_nomem(error, sizeof *tuner);
  tuner->machine = *machine;
  tuner->options = *options;
  mmci_tuner_reached(tuner, "measurements", 0, 1);
  tuner->start_s = machine->now_s(machine->user);
  *out = tuner;
  return MMC_OK;
}

void mmci_tuner_destroy(mmci_tuner *tuner) {
  if (tuner == NULL) return;
  for (size_t t = 0; t < tuner->capacity; t++) free(tuner->entries[t].key);
  free(tuner->entries);
  free(tuner);
}

const mmci_machine *mmci_tuner_machine(const mmci_tuner *tuner) {
  return &tuner->machine;
}

const mmci_tune_options *mmci_tuner_options(const mmci_tuner *tuner) {
  return &tuner->options;
}

static double elapsed_s(const mmci_tuner *tuner) {
  return tuner->machine.now_s(tuner->machine.user) - tuner->start_s;
}

double mmci_tuner_left_s(const mmci_tuner *tuner) {
  return fmax(0, tuner->options.budget_s - elapsed_s(tuner));
}

bool mmci_tuner_spent(const mmci_tuner *tuner) {
  return !(mmci_tuner_left_s(tuner) > 0);
}

int64_t mmci_tuner_measurements(const mmci_tuner *tuner) {
  return tuner->measurements;
}

/* ---- questions ----------------------------------------------------------------------------- */

void mmci_tune_key(mmci_question question, const mmci_gemm *gemm, const char *recipe,
                   char key[MMCI_TUNE_KEY_SIZE]) {
  static const char *const questions[MMCI_QUESTIONS] = {
      "time", "compare", "confirm", "later", "latest", "call", "joules", "joules-again"};
  static const char *const precisions[] = {"native", "faithful", "fast"};
  char batch[24] = "";
  if (gemm->batch > 1) snprintf(batch, sizeof batch, " @%" PRId64, gemm->batch);
  snprintf(key, MMCI_TUNE_KEY_SIZE,
           "%s %s %s %c%c %" PRId64 "x%" PRId64 "x%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
           "%s%s %s",
           questions[question], mmc_dtype_name(gemm->dtype), precisions[gemm->precision],
           mmci_form_letter(&gemm->a), mmci_form_letter(&gemm->b), gemm->m, gemm->k, gemm->n,
           gemm->a.ld, gemm->b.ld, gemm->ldc, gemm->accumulate ? " add" : "", batch, recipe);
}

/* ---- what is to come ----------------------------------------------------------------------- */

void mmci_tuner_reached(mmci_tuner *tuner, const char *unit, int64_t decided, int64_t count) {
  tuner->unit = unit;
  tuner->decided = decided;
  tuner->unit_count = count;
}

/* Every measurement takes the least that one took, and what is beyond goes by m k n. */
static double price_alone_s(const pace *p, double count, double mkn) {
  double beyond_s = p->all_s - p->count * p->least_s;
  return count * p->least_s + (p->mkn > 0 ? mkn * beyond_s / p->mkn : 0);
}

double mmci_tuner_writing_s(const mmci_tuner *tuner) {
  if (tuner->options.journal.record == NULL) return 0;
  return tuner->fresh > 0 ? tuner->writing_s / tuner->fresh : usual_writing_s;
}

/* The estimate goes by what is timed alone, in the ratio that measurements by this question had,
 * or by the one before it where it was not asked yet. */
double mmci_tuner_turns_s(const mmci_tuner *tuner, mmci_question question, double count,
                          double mkn) {
  const pace *p = &tuner->paces[question], *alone = &tuner->paces[MMCI_ASK_TIME];
  while (question > MMCI_ASK_COMPARE && p->count == 0) p = &tuner->paces[--question];
  double alone_s = price_alone_s(alone, count, mkn), few_s = FEW * alone_s / fmax(count, 1);
  double same_s = price_alone_s(alone, p->count, p->mkn);
  double turns_s = few_s > 0 ? alone_s * (p->all_s + turns_price * few_s) / (same_s + few_s) : 0;
  return turns_s + count * mmci_tuner_writing_s(tuner);
}

/* Reports progress before the machine is asked, and ends what the caller or the budget ends. */
static mmc_status report_progress(const mmci_tuner *tuner, mmci_error *error) {
  const mmci_tune_options *options = &tuner->options;
  if (options->progress != NULL && options->progress(options->progress_user, tuner->unit,
                                                     tuner->decided, tuner->unit_count) != 0)
    return mmci_fail(error, MMC_E_INTERRUPTED, "tuning: stopped by the progress callback");
  if (!mmci_tuner_spent(tuner)) return MMC_OK;
  return mmci_fail(error, MMC_E_INTERRUPTED, "tuning: the budget of %g s is spent",
                   options->budget_s);
}

/* ---- answers ------------------------------------------------------------------------------- */

static mmc_status ask_machine(const mmci_machine *machine, const asked *x, mmci_measured *out,
                              mmci_error *error) {
  if (x->group != NULL && machine->measure_group == NULL) return MMC_E_UNSUPPORTED;
  if (x->group != NULL) return machine->measure_group(machine->user, x->group, out, error);
  return (x->question == MMCI_ASK_TIME      ? machine->measure
          : x->question == MMCI_ASK_COMPARE ? machine->compare
          : x->question <= MMCI_ASK_LATEST
              ? machine->confirm
              : machine->joules)(machine->user, x->gemm, x->recipe, out, error);
}

static mmc_status measure_asked(mmci_tuner *tuner, const asked *x, mmci_measured *out,
                                mmci_error *error) {
  mmc_status status = report_progress(tuner, error);
  if (status != MMC_OK) return status;
  mmci_measured measured = {0};
  double start_s = elapsed_s(tuner);
  status = ask_machine(&tuner->machine, x, &measured, error);
  if (status == MMC_E_UNSUPPORTED) {
    double never = (double)INFINITY;
    *out = (mmci_measured){.seconds = {never, never, never}};
    return MMC_OK;
  }
  tuner->measurements++;
  if (status != MMC_OK) return status;
  measured.cost_s = elapsed_s(tuner) - start_s;
  const mmci_journal *journal = &tuner->options.journal;
  if (journal->record != NULL) status = journal->record(journal->user, x->key, &measured, error);
  tuner->fresh++;
  tuner->writing_s += elapsed_s(tuner) - start_s - measured.cost_s;
  if (status == MMC_OK) *out = measured;
  return status;
}

static mmc_status answer_asked(mmci_tuner *tuner, const asked *x, mmci_measured *out,
                               mmci_error *error) {
  if (!recall_here(tuner, x->key, out)) {
    mmci_measured answer;
    mmc_status status = MMC_OK;
    if (!recall_journal(tuner, x, &answer)) status = measure_asked(tuner, x, &answer, error);
    if (status == MMC_OK) status = remember_answer(tuner, x, &answer, error);
    if (status != MMC_OK) return status;
    *out = answer;
  }
  return MMC_OK;
}

mmc_status mmci_tuner_ask(mmci_tuner *tuner, mmci_question question, const mmci_gemm *gemm,
                          const mmci_recipe *recipe, mmci_measured *out, mmci_error *error) {
  asked x = ask_recipe(tuner, question, gemm, recipe);
  return answer_asked(tuner, &x, out, error);
}

mmc_status mmci_tuner_ask_group(mmci_tuner *tuner, const mmci_group *group, mmci_measured *out,
                                mmci_error *error) {
  asked x = ask_group(group);
  return answer_asked(tuner, &x, out, error);
}
