/* trials.h: the trials of an experiment: one chain, multiplied in one order by one family of
 * kernels, planned, executed and measured. */
#ifndef MMC_CLI_TRIALS_H
#define MMC_CLI_TRIALS_H

#include "laboratory.h"

enum { CLI_TRIAL_TEXT = 160 };

/* What was measured of a trial, one after the other. */
typedef struct cli_trial_samples {
  double seconds[CLI_REPEATS_MOST], create_s[CLI_REPEATS_MOST];
  double joules[CLI_REPEATS_MOST], watts[CLI_REPEATS_MOST]; /* NaN where there is no meter */
  double tick_error[CLI_REPEATS_MOST];                      /* as mmc_energy has it */
  double sampled_watts[CLI_REPEATS_MOST]; /* power as the meter samples it, not by its counter */
  double until_s[CLI_REPEATS_MOST];       /* when the window ended, in seconds since 1970 */
  int count;
  int64_t
      executions; /* all that were made for the samples, but for those within a meter's windows */
} cli_trial_samples;

typedef struct cli_trial {
  const char *part;           /* "single", "tiles", "fused", "chains" */
  char name[40];              /* "n=8192", "best-6" */
  char chain[CLI_TRIAL_TEXT]; /* text form of the chain */
  const char *order;          /* "in-order", "OP_Count", "OP_DM_Fuse" */
  char family[40];            /* "plain", "tee", "faithful", "fused", or the name of a kernel */
  const char *solver;         /* solver of the plan; NULL means the planner's choice */
  const char *objective;      /* objective of the plan; NULL means multiplications */
  const char *fuse;   /* how "traffic" prices fusion; then some steps must run as one call */
  const char *kernel; /* the kernel to ask for; NULL means the plan's own choice */
  const char *precision;
  bool tells_kernel; /* whether the experiment shows the kernel's registers and on-chip memory */
  bool may_copy;     /* whether an earlier trial of the same plan is enough */

  /* The trial answers with these. What is not known is NaN, 0 or "". */
  bool prepared; /* it has a plan, and is measured with the others of its chain */
  bool measured;
  char reason[480]; /* why the trial was not measured */
  char kernel_name[64];
  const char *measured_as; /* the order of an earlier trial whose plan is the same, and which was
                              measured in this one's place; NULL when measured itself */
  mmc_plan *plan;
  mmc_kernel_info info;
  int64_t tile[2]; /* rows and columns of C that the kernel keeps on chip, as its name says */
  double words;    /* words that the kernel loads, by the tile and the theorem */
  int64_t pairs;   /* how many pairs of products OP_DM_Fuse puts in one kernel */
  double plan_s;   /* seconds of planning, the shortest of several */
  cli_trial_samples samples;
  mmc_energy energy; /* of the last sample */
} cli_trial;

/* Trials, and what they are measured with. It starts as {.lab = ...}. */
typedef struct cli_trials {
  cli_laboratory *lab;
  cli_trial *trials;
  size_t count, capacity;
  float *pool; /* seeded normal numbers that fill the operands */
  /* The operands of the trial before. */
  char chain[CLI_TRIAL_TEXT];
  mmc_memory *memory;
  mmc_matrix *matrices; /* factors, then the result */
} cli_trials;

/* Draws the pool of numbers. Returns an exit status. */
int cli_trials_open(cli_trials *all);
void cli_trials_close(cli_trials *all);

/* Adds a trial of the chain of these dims, in f32 and native precision, by the device's own
 * kernels. Returns NULL when memory is short, after saying so. */
cli_trial *cli_trial_add(cli_trials *all, const char *part, const char *order, const char *family,
                         const int64_t *dims, int count);
/* Plans and measures all trials, and writes a line of results for each. Those of one part and chain
 * take turns, sample by sample. What the machine cannot run has a reason; anything else that fails
 * returns an exit status. */
int cli_trials_run(cli_trials *all);

/* Write the line of results of a trial, and its line of text with the heading of these. */
void cli_trial_tell(cli_trials *all, const cli_trial *trial);
void cli_trial_heading(cli_laboratory *laboratory);

#endif
