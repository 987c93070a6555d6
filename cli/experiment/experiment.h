/* experiment.h: `mmchain bench --experiment NAME` measures again, on the machine at hand, what a
 * publication measured, and writes a page of what came of it.
 *
 * An experiment defines a cli_experiment; experiment.c tables them. Its run writes lines of
 * results; its source says how they are shown (exhibits.h). What cannot be run here says why;
 * nothing is left out. */
#ifndef MMC_CLI_EXPERIMENT_H
#define MMC_CLI_EXPERIMENT_H

#include "exhibits.h"
#include "laboratory.h"

enum { CLI_EXPERIMENT_PARTS = 8, CLI_EXPERIMENT_SIZES = 16 };

/* Options that every experiment takes. */
typedef struct cli_experiment_options {
  const char *device;    /* name of the device; NULL means "cpu" */
  const char *meter;     /* NULL means the device's */
  const char *directory; /* the folder for results.jsonl, the page and pictures; NULL means none */
  const char *part;      /* the part of the experiment to run; NULL means all */
  const char *kernel;    /* only trials by this kernel family or kernel; NULL means all */
  double window_s;       /* seconds of a sample; negative means as the experiment says */
  double budget_s;       /* seconds of searches; negative means as the experiment says */
  int repeats;           /* samples; 0 means as the experiment says */
  int64_t sizes[CLI_EXPERIMENT_SIZES];
  int size_count; /* how many sizes; 0 means as the device and quick say */
  bool quick, json;
} cli_experiment_options;

typedef struct cli_experiment {
  const char *name;                              /* "tee-acm2" */
  const char *summary;                           /* lines of `--experiment help` */
  const char *const parts[CLI_EXPERIMENT_PARTS]; /* values of --only; NULL ends them */
  bool has_joules;                               /* whether joules are measured too */
  double window_s[2]; /* seconds of a sample when not said, and when quick */
  double budget_s[2]; /* the same of searches; 0 where there are none */
  int repeats[2];     /* samples when not said, and when quick */
  /* Measures, and writes lines. Returns an exit status. */
  int (*run)(cli_laboratory *laboratory, const cli_experiment_options *options);
  const cli_source *source;
} cli_experiment;

extern const cli_experiment cli_experiment_tee_acm2, cli_experiment_us9836434,
    cli_experiment_nishida_2011;

/* Says whether the arguments of `mmchain bench` ask for an experiment. */
bool cli_experiment_is_asked(int argc, char **argv);
/* Reads the arguments and runs the experiment. Returns an exit status. */
int cli_experiment_run(cli_call *call, int argc, char **argv);
/* Draws the page and the pictures of DIR/results.jsonl again, into that directory or, unless it is
 * NULL, another. Returns an exit status. */
int cli_experiment_redraw(cli_call *call, const char *directory, const char *into);

/* Says whether an option's value, NULL for all, asks for this. */
bool cli_experiment_wants(const char *asked, const char *name);

#endif
