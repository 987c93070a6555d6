/* experiment.h: `mmchain bench --experiment NAME` measures again, on the machine at hand, what a
 * publication measured.
 *
 * An experiment is one file that defines a cli_experiment; experiment.c tables them. It lists
 * trials, and may draw figures of what they measured. A trial that cannot be run here says why;
 * nothing is left out. */
#ifndef MMC_CLI_EXPERIMENT_H
#define MMC_CLI_EXPERIMENT_H

#include "trials.h"

enum { CLI_EXPERIMENT_PARTS = 8 };

/* Options that every experiment takes. */
typedef struct cli_experiment_options {
  const char *device;    /* name of the device; NULL means "cpu" */
  const char *meter;     /* NULL means the device's */
  const char *directory; /* the folder for figures and results.jsonl; NULL means none */
  const char *part;      /* the part of the experiment to run; NULL means all */
  const char *kernel;    /* only trials by this kernel family or kernel; NULL means all */
  double window_s;       /* seconds of a measurement; negative means 2, or 0.5 when quick */
  int64_t sizes[CLI_EXPERIMENT_SIZES]; /* n of single products */
  int size_count;                      /* how many sizes; 0 means as the device and quick say */
  bool quick, json;
} cli_experiment_options;

typedef struct cli_experiment {
  const char *name;                              /* "tee-acm2" */
  const char *summary;                           /* lines of `--experiment help` */
  const char *const parts[CLI_EXPERIMENT_PARTS]; /* values of --only; NULL ends them */
  /* Adds the trials that the options ask for. Returns false after saying what failed. */
  bool (*list)(cli_laboratory *laboratory, const cli_experiment_options *options);
  /* Draws the figures for which something was measured into the directory and says on standard
   * error for which figures there is nothing. Returns an exit status. */
  int (*draw)(cli_call *call, const char *directory, const cli_trials *trials);
} cli_experiment;

extern const cli_experiment cli_experiment_tee_acm2;

/* Says whether the arguments of `mmchain bench` ask for an experiment. */
bool cli_experiment_is_asked(int argc, char **argv);
/* Reads the arguments and runs the experiment. Returns an exit status. */
int cli_experiment_run(cli_call *call, int argc, char **argv);

/* Says whether an option's value, NULL for all, asks for this. */
bool cli_experiment_wants(const char *asked, const char *name);

#endif
