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
  mmci_work expected[MMCI_STAGES];
  mmci_stage stage;
  double spare_s;          /* of the budget that must be left at the end of the stage */
  double known, known_s;   /* measurements, whenever made, and the seconds they took */
  double fresh, writing_s; /* those of this session, and the seconds of writing the journal */
  double share;            /* the share done, as it was told */
};

enum { FEW = 4 }; /* fewer measurements than these say less of others than what is usual */
/* Before it is known, a measurement in turns is taken to cost so many times one that is timed
 * alone, and one of joules the seconds of its window. */
static const double turns_price = 6, joules_s = 2;
/* The seconds that a journal is taken to need for a measurement, before it has recorded one. */
static const double usual_writing_s = 5e-4;
/* No measurement takes fewer seconds, and the share done is at most this before the last one. */
static const double tick_s = 1e-9, most_share = 1 - 1e-9;

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

static mmc_status grow(mmci_tuner *tuner, mmci_error *error) {
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
  const mmci_group *group; /* NULL when it is about a recipe */
  double mkn;
  char key[MMCI_TUNE_KEY_SIZE];
} asked;

static asked ask_recipe(mmci_question question, const mmci_gemm *gemm, const mmci_recipe *recipe) {
  asked x = {.question = question, .gemm = gemm, .recipe = recipe, .mkn = mmci_gemm_mkn(gemm)};
  mmci_tune_key(question, gemm, recipe, x.key);
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
  tuner->known++;
  tuner->known_s += cost_s;
}

static mmc_status remember(mmci_tuner *tuner, const asked *x, const mmci_measured *measured,
                           mmci_error *error) {
  if (2 * (tuner->count + 1) > tuner->capacity) {
    mmc_status status = grow(tuner, error);
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

/* Recalls a measurement from the journal, a file that anything may have happened to. */
static bool recall_journal(const mmci_tuner *tuner, const asked *x, mmci_measured *out) {
  const mmci_journal *journal = &tuner->options.journal;
  mmci_measured found = {0};
  if (journal->recall == NULL || !journal->recall(journal->user, x->key, &found)) return false;
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
    return mmci_fail(error, MMC_E_ARG, "budget: expected seconds >= 0, got %g", options->budget_s);
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

static char op_letter(const mmci_form *form) {
  return "NTCH"[2 * form->conj + form->trans];
}

void mmci_tune_key(mmci_question question, const mmci_gemm *gemm, const mmci_recipe *recipe,
                   char key[MMCI_TUNE_KEY_SIZE]) {
  static const char *const questions[MMCI_QUESTIONS] = {
      "time", "compare", "confirm", "later", "latest", "call", "joules", "joules-again"};
  static const char *const precisions[] = {"native", "faithful", "fast"};
  char text[MMCI_RECIPE_TEXT_SIZE], batch[24] = "";
  mmci_recipe_format(recipe, text);
  if (gemm->batch > 1) snprintf(batch, sizeof batch, " @%" PRId64, gemm->batch);
  snprintf(key, MMCI_TUNE_KEY_SIZE,
           "%s %s %s %c%c %" PRId64 "x%" PRId64 "x%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
           "%s%s %s",
           questions[question], mmc_dtype_name(gemm->dtype), precisions[gemm->precision],
           op_letter(&gemm->a), op_letter(&gemm->b), gemm->m, gemm->k, gemm->n, gemm->a.ld,
           gemm->b.ld, gemm->ldc, gemm->accumulate ? " add" : "", batch, text);
}

/* ---- what is to come ----------------------------------------------------------------------- */

void mmci_work_add(mmci_work *work, mmci_question question, double count, double mkn_each) {
  work->count[question] = fmax(0, work->count[question] + count);
  work->mkn[question] = fmax(0, work->mkn[question] + count * mkn_each);
}

void mmci_work_join(mmci_work *work, const mmci_work *other, double times) {
  for (int q = 0; q < MMCI_QUESTIONS; q++) {
    work->count[q] = fmax(0, work->count[q] + times * other->count[q]);
    work->mkn[q] = fmax(0, work->mkn[q] + times * other->mkn[q]);
  }
}

void mmci_tuner_begin(mmci_tuner *tuner, mmci_stage stage, double spare_s) {
  tuner->stage = stage;
  tuner->spare_s = spare_s;
  memset(tuner->expected, 0, ((size_t)stage + 1) * sizeof tuner->expected[0]);
}

mmci_work *mmci_tuner_expected(mmci_tuner *tuner, mmci_stage stage) {
  return &tuner->expected[stage];
}

static void expect(mmci_tuner *tuner, mmci_stage stage, const asked *x) {
  mmci_measured known;
  mmci_error ignored;
  if (recall_here(tuner, x->key, &known)) return;
  if (recall_journal(tuner, x, &known))
    remember(tuner, x, &known, &ignored);
  else
    mmci_work_add(&tuner->expected[stage], x->question, 1, x->mkn);
}

void mmci_tuner_expect(mmci_tuner *tuner, mmci_stage stage, mmci_question question,
                       const mmci_gemm *gemm, const mmci_recipe *recipe) {
  asked x = ask_recipe(question, gemm, recipe);
  expect(tuner, stage, &x);
}

void mmci_tuner_expect_group(mmci_tuner *tuner, mmci_stage stage, const mmci_group *group) {
  asked x = ask_group(group);
  expect(tuner, stage, &x);
}

/* Returns the seconds that so many measurements are expected to take: each the least that one took,
 * and the rest in proportion to m k n. */
static double price_alone_s(const pace *p, double count, double mkn) {
  double beyond_s = p->all_s - p->count * p->least_s;
  return count * p->least_s + (p->mkn > 0 ? mkn * beyond_s / p->mkn : 0);
}

/* Returns the seconds of measurements for a question. Those in turns go by what is timed alone, so
 * do calls until one was measured, and those of joules go by the window. */
static double price_s(const mmci_tuner *tuner, mmci_question question, double count, double mkn) {
  const pace *p = &tuner->paces[question], *alone = &tuner->paces[MMCI_ASK_TIME];
  while (question > MMCI_ASK_COMPARE && question <= MMCI_ASK_LATEST && p->count == 0)
    p = &tuner->paces[--question];
  if (question == MMCI_ASK_JOULES_AGAIN && p->count == 0) p = &tuner->paces[MMCI_ASK_JOULES];
  double alone_s = price_alone_s(alone, count, mkn);
  if (question == MMCI_ASK_TIME) return alone_s;
  if (question >= MMCI_ASK_GROUP)
    return p->count > 0                 ? price_alone_s(p, count, mkn)
           : question == MMCI_ASK_GROUP ? alone_s
                                        : joules_s * count + alone_s;
  double same_s = price_alone_s(alone, p->count, p->mkn), few_s = FEW * alone_s / fmax(count, 1);
  return few_s > 0 ? alone_s * (p->all_s + turns_price * few_s) / (same_s + few_s) : 0;
}

double mmci_tuner_writing_s(const mmci_tuner *tuner) {
  if (tuner->options.journal.record == NULL) return 0;
  return tuner->fresh > 0 ? tuner->writing_s / tuner->fresh : usual_writing_s;
}

double mmci_tuner_done_s(const mmci_tuner *tuner) {
  return tuner->known_s + tuner->known * mmci_tuner_writing_s(tuner);
}

double mmci_tuner_work_s(const mmci_tuner *tuner, const mmci_work *work) {
  double seconds = 0, writing_s = mmci_tuner_writing_s(tuner);
  for (int q = 0; q < MMCI_QUESTIONS; q++)
    seconds +=
        price_s(tuner, (mmci_question)q, work->count[q], work->mkn[q]) + writing_s * work->count[q];
  return seconds;
}

/* Returns the seconds of all stages that are ahead, where so much of the budget is left. */
static double ahead_s(const mmci_tuner *tuner, double budget_left_s) {
  double ahead = 0;
  for (int stage = 0; stage < MMCI_STAGES; stage++) {
    double seconds = mmci_tuner_work_s(tuner, &tuner->expected[stage]);
    double most_s = budget_left_s - ahead - (stage == (int)tuner->stage ? tuner->spare_s : 0);
    ahead += stage >= MMCI_STAGE_TRIALS ? fmin(seconds, fmax(0, most_s)) : seconds;
  }
  return ahead;
}

/* Reports progress before the answer to a question. What was expected may turn out to be too
 * little, but the share done never falls. */
static mmc_status report(mmci_tuner *tuner, const asked *x, mmci_error *error) {
  double budget_left = mmci_tuner_left_s(tuner), left = budget_left;
  if (tuner->options.progress != NULL) {
    if (tuner->known > 0) {
      double done_s = mmci_tuner_done_s(tuner);
      double this_s = fmax(tick_s, price_s(tuner, x->question, 1, x->mkn));
      left = fmax(this_s, ahead_s(tuner, budget_left));
      double share = fmin(done_s / (done_s + left), most_share);
      tuner->share = fmax(tuner->share, share);
    }
    if (tuner->options.progress(tuner->options.progress_user, tuner->share,
                                fmin(left, budget_left)) != 0)
      return mmci_fail(error, MMC_E_INTERRUPTED, "tuning: stopped by the progress callback");
  }
  if (budget_left > 0) return MMC_OK;
  return mmci_fail(error, MMC_E_INTERRUPTED, "tuning: the budget of %g s is spent",
                   tuner->options.budget_s);
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

static mmc_status measure(mmci_tuner *tuner, const asked *x, mmci_measured *out,
                          mmci_error *error) {
  mmc_status status = report(tuner, x, error);
  if (status != MMC_OK) return status;
  mmci_measured measured = {0};
  double start_s = elapsed_s(tuner);
  status = ask_machine(&tuner->machine, x, &measured, error);
  mmci_work_add(&tuner->expected[tuner->stage], x->question, -1, x->mkn);
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

static mmc_status answer(mmci_tuner *tuner, const asked *x, mmci_measured *out, mmci_error *error) {
  if (!recall_here(tuner, x->key, out)) {
    mmci_measured answer;
    mmc_status status = MMC_OK;
    if (!recall_journal(tuner, x, &answer)) status = measure(tuner, x, &answer, error);
    if (status == MMC_OK) status = remember(tuner, x, &answer, error);
    if (status != MMC_OK) return status;
    *out = answer;
  }
  return MMC_OK;
}

mmc_status mmci_tuner_ask(mmci_tuner *tuner, mmci_question question, const mmci_gemm *gemm,
                          const mmci_recipe *recipe, mmci_measured *out, mmci_error *error) {
  asked x = ask_recipe(question, gemm, recipe);
  return answer(tuner, &x, out, error);
}

mmc_status mmci_tuner_ask_group(mmci_tuner *tuner, const mmci_group *group, mmci_measured *out,
                                mmci_error *error) {
  asked x = ask_group(group);
  return answer(tuner, &x, out, error);
}
