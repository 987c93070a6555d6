/* tuner.h: measures within a budget, and nothing twice.
 *
 * A search asks a tuner for times. The tuner knows what was measured in this session or, through
 * the journal, in an earlier one; else it asks the machine, and hands the answer to the journal
 * before anyone sees it. So a search that is stopped, however that happens, and begun again goes on
 * where it was. */
#ifndef MMCI_TUNER_H
#define MMCI_TUNER_H

#include "device/device.h"
#include "tune/estimate.h"

/* One measurement: of a recipe alone, or of a recipe against the plain call, the two in turns. */
typedef struct mmci_measured {
  mmci_estimate seconds;
  mmci_estimate gain; /* plain seconds divided by the recipe's, in each turn; 0 when not compared */
  mmci_estimate joules; /* joules of one run; 0 when not measured */
  double plain_s;       /* seconds of the plain call; 0 when not compared */
  double cost_s;        /* the seconds of measuring, which the tuner fills in */
} mmci_measured;

/* What is measured on: a device (measure.h), or a formula in tests. */
typedef struct mmci_machine {
  void *user;
  int queues; /* more pieces at work together than these gain nothing; at least 1 */
  int pad;    /* lines of operands may be better at a multiple of so many elements; 0 means none */
  double least_s; /* the seconds that a recipe must gain; less depends on where operands lie */
  double (*now_s)(void *user);
  /* Returns how many variants there are besides the first. */
  int (*variants)(void *user, const mmci_gemm *gemm);
  mmci_variant_name_fn variant_name; /* names of the variants, as in mmci_facts */
  /* These functions measure. They return E_UNSUPPORTED where the machine cannot do it; other
   * failures end the search. */
  mmc_status (*measure)(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                        mmci_measured *out, mmci_error *error);
  mmc_status (*compare)(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                        mmci_measured *out, mmci_error *error);
  /* (optional) Measures several products as one call, with matrices as their forms say. */
  mmc_status (*measure_group)(void *user, const mmci_group *group, mmci_measured *out,
                              mmci_error *error);
  /* Compares again in other circumstances, in which what is chosen must gain as well. */
  mmc_status (*confirm)(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                        mmci_measured *out, mmci_error *error);
  /* (optional) Measures joules, and the seconds of the same runs; it takes seconds. */
  mmc_status (*joules)(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                       mmci_measured *out, mmci_error *error);
} mmci_machine;

/* A key is printable text, the same for the same measurement in every session, and names all but
 * the machine: "time f64 native NT 4x4096x64 4096 4096 64 n:32,32". */
enum { MMCI_TUNE_KEY_SIZE = 512 };

/* Keeps measurements beyond the session. All slots may be NULL. */
typedef struct mmci_journal {
  void *user;
  /* Says whether it was measured before, and recalls how. What is no measurement (a NaN) is
   * measured again. */
  bool (*recall)(void *user, const char *key, mmci_measured *out);
  mmc_status (*record)(void *user, const char *key, const mmci_measured *measured,
                       mmci_error *error);
  /* Keeps what was chosen for a product, and again when that has changed. */
  mmc_status (*choose)(void *user, const mmci_gemm *gemm, const mmci_choice *choice,
                       mmci_error *error);
  /* Says whether a choice is kept; a search that knows fewer candidates leaves it. */
  bool (*known)(void *user, const mmci_gemm *gemm);
  /* Takes note that a product is decided for good. */
  mmc_status (*decided)(void *user, const mmci_gemm *gemm, const mmci_choice *choice,
                        mmci_error *error);
  /* Takes note of the seconds of a group. */
  mmc_status (*time)(void *user, const mmci_group *group, const mmci_estimate *seconds,
                     mmci_error *error);
} mmci_journal;

/* Is told before every measurement how many units of what is under way are decided, of how many;
 * there are always fewer than count. Returns 0, or anything else to stop with E_INTERRUPTED. */
typedef int (*mmci_tune_progress_fn)(void *user, const char *unit, int64_t decided, int64_t count);

enum { MMCI_TUNE_POINTS = 64 };

typedef struct mmci_tune_options {
  double budget_s; /* seconds to measure; INFINITY means as long as it takes */
  /* The share that a choice must gain besides being surely faster, and a cut to be followed;
   * 0.01. */
  double least_gain;
  /* The natural grid: cuts are at multiples of these, by axis m, k, n, thinned to most_points. They
   * may be an array's steps; 0 means not known, so that the grid is thinned from 1. */
  int64_t grid[3];
  int most_points; /* sizes tried along an axis, at most MMCI_TUNE_POINTS; 32 */
  int finalists;   /* recipes of a product that are compared with the plain call; 8 */
  mmci_tune_progress_fn progress;
  void *progress_user;
  mmci_journal journal;
} mmci_tune_options;

mmci_tune_options mmci_tune_defaults(void);

typedef struct mmci_tuner mmci_tuner;

/* Makes a tuner, which belongs to one thread. Machine and options are copied; what they point to
 * stays the caller's. The budget begins here. Returns: E_ARG, E_NOMEM. */
mmc_status mmci_tuner_create(const mmci_machine *machine, const mmci_tune_options *options,
                             mmci_tuner **out, mmci_error *error);
void mmci_tuner_destroy(mmci_tuner *tuner);

const mmci_machine *mmci_tuner_machine(const mmci_tuner *tuner);
const mmci_tune_options *mmci_tuner_options(const mmci_tuner *tuner);
/* Says whether the budget is spent: then E_INTERRUPTED was not caused by the caller. */
bool mmci_tuner_spent(const mmci_tuner *tuner);
/* Returns the seconds of the budget that are left. */
double mmci_tuner_left_s(const mmci_tuner *tuner);
/* Counts the measurements by the machine so far, without those that were recalled. */
int64_t mmci_tuner_measurements(const mmci_tuner *tuner);

typedef enum mmci_question {
  MMCI_ASK_TIME,    /* seconds of the recipe alone */
  MMCI_ASK_COMPARE, /* the recipe against the plain call */
  MMCI_ASK_CONFIRM, /* the recipe against the plain call in the machine's other circumstances */
  MMCI_ASK_LATER,   /* the recipe against the plain call when time has passed */
  MMCI_ASK_LATEST,  /* the recipe against the plain call when more time has passed */
  MMCI_ASK_GROUP,   /* seconds of several products as one call */
  MMCI_ASK_JOULES,  /* joules of the recipe alone */
  MMCI_ASK_JOULES_AGAIN, /* joules of the recipe alone, measured afresh */
  MMCI_QUESTIONS
} mmci_question;

/* Answers from memory, the journal or the machine. What the machine does not support takes
 * infinitely long. Returns: E_INTERRUPTED (progress, or the budget is spent), E_NOMEM, what machine
 * and journal return. */
mmc_status mmci_tuner_ask(mmci_tuner *tuner, mmci_question question, const mmci_gemm *gemm,
                          const mmci_recipe *recipe, mmci_measured *out, mmci_error *error);
/* Answers MMCI_ASK_GROUP as mmci_tuner_ask() answers the other questions. */
mmc_status mmci_tuner_ask_group(mmci_tuner *tuner, const mmci_group *group, mmci_measured *out,
                                mmci_error *error);

/* Sets the progress that is reported from here on: so many units of count are decided, fewer than
 * all. The text of unit outlives the tuner. */
void mmci_tuner_reached(mmci_tuner *tuner, const char *unit, int64_t decided, int64_t count);

/* Estimates the seconds of count comparisons by a question from MMCI_ASK_COMPARE to
 * MMCI_ASK_LATEST, with the journal's; mkn is the sum of their m k n. */
double mmci_tuner_turns_s(const mmci_tuner *tuner, mmci_question question, double count,
                          double mkn);
/* Returns the seconds that the journal takes for a measurement. */
double mmci_tuner_writing_s(const mmci_tuner *tuner);

/* Writes the key of a question. recipe is the recipe's text. */
void mmci_tune_key(mmci_question question, const mmci_gemm *gemm, const char *recipe,
                   char key[MMCI_TUNE_KEY_SIZE]);

#endif
