#include "tune/cuts.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tune/search.h"

enum { MOST_CUTS = 4096, MOST_UNHURRIED = 64 };
/* The share of compared cuts that are worth asking about again: 2354 of 3737 on an H200. */
static const double usually_hold = 0.6;
/* So much of the budget that is left is planned for, because estimates may be wrong. */
static const double planned_share = 0.9;

/* One of the array's sizes, and the predicted gain of its best cut. */
typedef struct predicted_cut {
  int64_t size[3];
  double gain;
} predicted_cut;

static int by_gain(const void *a, const void *b) {
  const predicted_cut *x = a, *y = b;
  if (x->gain != y->gain) return (x->gain < y->gain) - (x->gain > y->gain);
  for (int i = 0; i < 3; i++)
    if (x->size[i] != y->size[i]) return (x->size[i] > y->size[i]) - (x->size[i] < y->size[i]);
  return 0;
}

/* Returns a copy of the array that predicts cuts whatever their margin. */
static mmci_array trusting(const mmci_tuner *tuner, const mmci_array *array) {
  double least_gain = mmci_tuner_options(tuner)->least_gain;
  mmci_array open = *array;
  open.trust = (mmci_trust){.margin = least_gain, .between = least_gain};
  open.is_whole = NULL; /* by the margins of the array */
  return open;
}

/* Lists all sizes with a cut, the largest predicted gain first. */
static int64_t list_cuts(const mmci_array *open, predicted_cut *out) {
  const mmci_grid *grid = open->grid;
  int64_t count = 0;
  for (int i = 0; i < grid[0].count; i++)
    for (int j = 0; j < grid[1].count; j++)
      for (int l = 0; l < grid[2].count; l++) {
        predicted_cut *p = &out[count];
        mmci_choice choice;
        *p = (predicted_cut){.size = {grid[0].values[i], grid[1].values[j], grid[2].values[l]}};
        if (!mmci_array_choose(open, p->size[0], p->size[1], p->size[2], &choice) ||
            choice.recipe.count == 1)
          continue;
        p->gain = choice.gain.value;
        count++;
      }
  qsort(out, (size_t)count, sizeof *out, by_gain);
  return count;
}

/* Estimates the seconds of proving so many cuts, where mkn is the sum of their m k n. */
static double proving_s(const mmci_tuner *tuner, double count, double mkn) {
  double seconds = mmci_tuner_turns_s(tuner, MMCI_ASK_COMPARE, count, mkn);
  for (int q = MMCI_ASK_CONFIRM; q <= MMCI_ASK_LATEST; q++)
    seconds +=
        mmci_tuner_turns_s(tuner, (mmci_question)q, usually_hold * count, usually_hold * mkn);
  return seconds;
}

static double mkn_of(const predicted_cut *p) {
  return mmci_mkn(p->size[0], p->size[1], p->size[2]);
}

static mmci_gemm gemm_of_cut(const mmci_array *array, const predicted_cut *p) {
  const mmci_gemm *like = &array->like;
  mmc_op op_a, op_b;
  mmci_form_op(&like->a, &op_a);
  mmci_form_op(&like->b, &op_b);
  return mmci_gemm_tight(like->dtype, like->precision, p->size[0], p->size[1], p->size[2], op_a,
                         op_b);
}

static bool is_known(const mmci_tuner *tuner, const mmci_array *array, const predicted_cut *p) {
  const mmci_journal *journal = &mmci_tuner_options(tuner)->journal;
  const mmci_gemm gemm = gemm_of_cut(array, p);
  return journal->known != NULL && journal->known(journal->user, &gemm);
}

/* Keeps the first cuts that are not known yet, as many as there is time for, and counts them. */
static int64_t fitting(const mmci_tuner *tuner, const mmci_array *array, predicted_cut *cuts,
                       int64_t count) {
  double left_s = mmci_tuner_left_s(tuner), mkn = 0;
  int64_t most = isfinite(left_s) ? MOST_CUTS : MOST_UNHURRIED, fit = 0;
  for (int64_t p = 0; p < count && fit < most; p++) {
    if (is_known(tuner, array, &cuts[p])) continue;
    mkn += mkn_of(&cuts[p]);
    if (proving_s(tuner, (double)fit + 1, mkn) > planned_share * left_s) break;
    cuts[fit++] = cuts[p];
  }
  return fit;
}

/* Lists in out, which the caller frees, what is worth trying. */
static mmc_status find_cuts(const mmci_tuner *tuner, const mmci_array *array, predicted_cut **out,
                            int64_t *count, mmci_error *error) {
  const mmci_array open = trusting(tuner, array);
  const size_t all = (size_t)mmci_array_count(array);
  predicted_cut *cuts = mmci_alloc_array(all, sizeof *cuts);
  if (cuts == NULL) return mmci_fail_nomem(error, all * sizeof *cuts);
  *count = fitting(tuner, array, cuts, list_cuts(&open, cuts));
  *out = cuts;
  return MMC_OK;
}

mmc_status mmci_tune_cuts(mmci_tuner *tuner, const mmci_array *array, int64_t *cut,
                          mmci_error *error) {
  predicted_cut *cuts;
  int64_t count, decided = 0;
  *cut = 0;
  mmc_status status = find_cuts(tuner, array, &cuts, &count, error);
  if (status != MMC_OK) return status;
  const size_t room = (size_t)count + 1;
  mmci_gemm *gemms = mmci_alloc_array(room, sizeof *gemms);
  mmci_recipe *recipes = mmci_alloc_array(room, sizeof *recipes);
  mmci_choice *choices = mmci_alloc_array(room, sizeof *choices);
  if (gemms == NULL || recipes == NULL || choices == NULL)
    status = mmci_fail_nomem(error, room * (sizeof *gemms + sizeof *recipes + sizeof *choices));
  const mmci_array open = trusting(tuner, array);
  for (int64_t p = 0; status == MMC_OK && p < count; p++) {
    const int64_t *size = cuts[p].size;
    mmci_choice choice;
    (void)mmci_array_choose(&open, size[0], size[1], size[2], &choice);
    gemms[p] = gemm_of_cut(array, &cuts[p]);
    recipes[p] = choice.recipe;
  }
  if (status == MMC_OK)
    status = mmci_tune_given(tuner, gemms, recipes, count, choices, &decided, error);
  for (int64_t p = 0; p < decided; p++) *cut += choices[p].recipe.count > 1;
  free(cuts);
  free(gemms);
  free(recipes);
  free(choices);
  return status == MMC_E_INTERRUPTED && mmci_tuner_spent(tuner) ? MMC_OK : status;
}
