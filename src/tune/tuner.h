/* tuner.h: measuring within a budget, nothing twice.
 *
 * A search asks a tuner for times. The tuner knows what was measured in this session or, through
 * the journal, in an earlier one; else it asks the machine, and hands the answer to the journal
 * before anyone sees it. So a search that is stopped, in whatever way, and begun again goes on
 * where it was. */
#ifndef MMCI_TUNER_H
#define MMCI_TUNER_H

#include "device/device.h"
#include "tune/estimate.h"

/* One measurement: of a recipe, or of a recipe against the plain call, the two in turns. */
typedef struct mmci_measured {
  mmci_estimate seconds;
  mmci_estimate gain;   /* plain seconds by the recipe's, of each turn; 0 when not compared */
  mmci_estimate joules; /* of one run; 0 when not measured */
  double plain_s;       /* 0 when not compared */
  double cost_s;        /* what measuring took, which the tuner fills in */
} mmci_measured;

/* What is measured on: a device (measure.h), or a formula in tests. */
typedef struct mmci_machine {
  void *user;
  int lanes;      /* more pieces than this at work together gain nothing; at least 1 */
  int pad;        /* a multiple of elements that lines of operands may be better at; 0: none */
  double least_s; /* that a recipe must gain in seconds: less depends on where operands lie */
  double (*now_s)(void *user);
  /* How many ways but the first there are. */
  int (*variants)(void *user, const mmci_gemm *gemm);
  /* These return E_UNSUPPORTED where the machine cannot do it; other failures end the search. */
  mmc_status (*measure)(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                        mmci_measured *out, mmci_error *error);
  mmc_status (*compare)(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                        mmci_measured *out, mmci_error *error);
  /* (optional) Several products as one call, with matrices as their forms say. */
  mmc_status (*measure_group)(void *user, const mmci_group *group, mmci_measured *out,
                              mmci_error *error);
  /* The same in other circumstances, in which what is chosen must gain as well. */
  mmc_status (*confirm)(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                        mmci_measured *out, mmci_error *error);
  /* (optional) Joules, and the seconds of the same runs; takes seconds. */
  mmc_status (*joules)(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                       mmci_measured *out, mmci_error *error);
} mmci_machine;

/* A key is printable text, the same for the same measurement in every session, and names all but
 * the machine: "time f64 native NT 4x4096x64 4096 4096 64 n:32,32". */
enum { MMCI_TUNE_KEY_SIZE = 512 };

/* Where measurements outlive the session. All slots may be NULL. */
typedef struct mmci_journal {
  void *user;
  /* Whether it was measured before, and how. What is no measurement (a NaN) is measured again. */
  bool (*recall)(void *user, const char *key, mmci_measured *out);
  mmc_status (*record)(void *user, const char *key, const mmci_measured *measured,
                       mmci_error *error);
  /* Keeps what was chosen for a product, once more when that has changed. */
  mmc_status (*choose)(void *user, const mmci_gemm *gemm, const mmci_choice *choice,
                       mmci_error *error);
  /* Whether a choice is kept: what knows fewer candidates leaves it. */
  bool (*known)(void *user, const mmci_gemm *gemm);
  /* A product is decided for good. */
  mmc_status (*decided)(void *user, const mmci_gemm *gemm, const mmci_choice *choice,
                        mmci_error *error);
  /* What a call takes is known. */
  mmc_status (*time)(void *user, const mmci_group *group, const mmci_estimate *seconds,
                     mmci_error *error);
} mmci_journal;

/* Told the share done, which does not fall, and the seconds that are left as far as is known, which
 * are no more than the budget's, before every measurement: so neither ever says that nothing is
 * left. What earlier sessions did is done. Returns 0, or anything else to stop with E_INTERRUPTED.
 */
typedef int (*mmci_tune_progress_fn)(void *user, double done, double left_s);

enum { MMCI_TUNE_POINTS = 64 };

typedef struct mmci_tune_options {
  double budget_s; /* INFINITY: as long as it takes */
  /* What a choice must gain besides being surely faster, and a cut to be followed: 0.01. */
  double least_gain;
  /* The natural grid: cuts are at multiples of these, by axis m, k, n, thinned to most_points; 0:
   * not known, so thinned from 1. An array's steps, for one. */
  int64_t grid[3];
  int most_points; /* sizes tried along an axis, at most MMCI_TUNE_POINTS: 32 */
  int finalists;   /* recipes of a product that are compared with the plain call: 8 */
  mmci_tune_progress_fn progress;
  void *progress_user;
  mmci_journal journal;
} mmci_tune_options;

mmci_tune_options mmci_tune_defaults(void);

typedef struct mmci_tuner mmci_tuner;

/* Machine and options are copied; what they point to stays the caller's. The budget begins here.
 * Returns: E_ARG, E_NOMEM. A tuner belongs to one thread. */
mmc_status mmci_tuner_create(const mmci_machine *machine, const mmci_tune_options *options,
                             mmci_tuner **out, mmci_error *error);
void mmci_tuner_destroy(mmci_tuner *tuner);

const mmci_machine *mmci_tuner_machine(const mmci_tuner *tuner);
const mmci_tune_options *mmci_tuner_options(const mmci_tuner *tuner);
/* Whether the budget is spent: what failed with E_INTERRUPTED then was not stopped by the caller.
 */
bool mmci_tuner_spent(const mmci_tuner *tuner);
/* Seconds of the budget that are left. */
double mmci_tuner_left_s(const mmci_tuner *tuner);
/* Measurements by the machine so far: those recalled are not among them. */
int64_t mmci_tuner_measurements(const mmci_tuner *tuner);

typedef enum mmci_question {
  MMCI_ASK_TIME,         /* seconds of the recipe alone */
  MMCI_ASK_COMPARE,      /* against the plain call */
  MMCI_ASK_CONFIRM,      /* the same, in the machine's other circumstances */
  MMCI_ASK_LATER,        /* the same, when time has passed */
  MMCI_ASK_LATEST,       /* and once more */
  MMCI_ASK_GROUP,        /* seconds of several products as one call */
  MMCI_ASK_JOULES,       /* joules of the recipe alone */
  MMCI_ASK_JOULES_AGAIN, /* the same, afresh */
  MMCI_QUESTIONS
} mmci_question;

/* Answers from memory, the journal or the machine. What the machine does not support takes
 * infinitely long. Returns: E_INTERRUPTED (progress, or the budget is spent), E_NOMEM, what machine
 * and journal return. */
mmc_status mmci_tuner_ask(mmci_tuner *tuner, mmci_question question, const mmci_gemm *gemm,
                          const mmci_recipe *recipe, mmci_measured *out, mmci_error *error);
/* MMCI_ASK_GROUP. What there is no memory for is not supported. */
mmc_status mmci_tuner_ask_group(mmci_tuner *tuner, const mmci_group *group, mmci_measured *out,
                                mmci_error *error);

/* ---- what is to come ----------------------------------------------------------------------- */

/* Measurements by question: how many, and the sum of their m k n. What they take is estimated from
 * what those before took. */
typedef struct mmci_work {
  double count[MMCI_QUESTIONS], mkn[MMCI_QUESTIONS];
} mmci_work;

void mmci_work_add(mmci_work *work, mmci_question question, double count, double mkn_each);
/* Adds so many times other. */
void mmci_work_join(mmci_work *work, const mmci_work *other, double times);

/* The parts of tuning, in their order. Those from the trials on do as much as the budget allows. */
typedef enum mmci_stage {
  MMCI_STAGE_FACTS,
  MMCI_STAGE_GROUPS,
  MMCI_STAGE_STEPS,
  MMCI_STAGE_GRID,
  MMCI_STAGE_TRIALS,         /* of grid values */
  MMCI_STAGE_TRIALS_BETWEEN, /* of any sizes */
  MMCI_STAGE_PRODUCT,        /* what is under way of the one that is being decided */
  MMCI_STAGE_PRODUCT_REST,   /* what is left of it then */
  MMCI_STAGE_PRODUCTS,       /* those after it */
  MMCI_STAGE_LATER,          /* what was chosen, again */
  MMCI_STAGE_CUTS,           /* what an array predicts for its sizes */
  MMCI_STAGES
} mmci_stage;

/* From here on all measurements are of that stage, which ends when spare_s of the budget are left,
 * if not before. Nothing is expected of it any more, nor of those before it. */
void mmci_tuner_begin(mmci_tuner *tuner, mmci_stage stage, double spare_s);
/* What is expected of a stage, to be changed as more is known; what is measured is taken off. */
mmci_work *mmci_tuner_expected(mmci_tuner *tuner, mmci_stage stage);
/* Adds a question to what is expected, unless its answer is known. */
void mmci_tuner_expect(mmci_tuner *tuner, mmci_stage stage, mmci_question question,
                       const mmci_gemm *gemm, const mmci_recipe *recipe);
void mmci_tuner_expect_group(mmci_tuner *tuner, mmci_stage stage, const mmci_group *group);
/* Seconds that the work is thought to take; 0 before anything is known. */
double mmci_tuner_work_s(const mmci_tuner *tuner, const mmci_work *work);
/* What all measurements that are known took, whenever they were made. */
double mmci_tuner_done_s(const mmci_tuner *tuner);
/* Seconds of each that the journal takes. */
double mmci_tuner_writing_s(const mmci_tuner *tuner);

/* The key of a question. */
void mmci_tune_key(mmci_question question, const mmci_gemm *gemm, const mmci_recipe *recipe,
                   char key[MMCI_TUNE_KEY_SIZE]);

#endif
