/* trials.h: the trials of an experiment: one chain, multiplied in one order by one family of
 * kernels, planned, executed and measured. */
#ifndef MMC_CLI_TRIALS_H
#define MMC_CLI_TRIALS_H

#include <stdio.h>

#include "../command.h"
#include "../energy.h"

enum { CLI_EXPERIMENT_SIZES = 16, CLI_TRIAL_TEXT = 160 };

typedef struct cli_trial {
  const char *part;           /* "single", "tiles", "fused", "chains" */
  char name[40];              /* "n=8192", "best-6" */
  char chain[CLI_TRIAL_TEXT]; /* text form of the chain */
  const char *order;          /* "in-order", "OP_Count", "OP_DM_Fuse" */
  char family[40];            /* "plain", "tee", "faithful", "fused", or the name of a kernel */
  const char *solver;         /* solver of the plan; NULL means the planner's choice */
  const char *objective;      /* objective of the plan; NULL means multiplications */
  const char *kernel;         /* the kernel to ask for; NULL means the plan's own choice */
  const char *precision;
  bool tells_kernel; /* whether the experiment shows the kernel's registers and on-chip memory */

  /* The trial answers with these. What is not known is NaN, 0 or "". */
  bool measured;
  char reason[480]; /* why the trial was not measured */
  char kernel_name[64];
  const char *measured_as; /* the order of an earlier trial whose plan is the same; NULL when
                              measured itself */
  mmc_plan *plan;
  mmc_kernel_info info;
  int64_t tile[2]; /* rows and columns of C that the kernel keeps on chip, as its name says */
  double words;    /* words that the kernel loads, by the tile and the theorem */
  int64_t pairs;   /* how many pairs of products OP_DM_Fuse puts in one kernel */
  double plan_s;   /* seconds of planning, the shortest of several */
  double create_s; /* seconds of making a run: workspace and kernels */
  double seconds;  /* seconds of one execution */
  mmc_energy energy;
} cli_trial;

typedef struct cli_trials {
  cli_trial *trials;
  size_t count, capacity;
  char machine[128]; /* "NVIDIA H200" */
} cli_trials;

/* What trials are measured with. It starts as {0} but for call, device, window_s and energy. */
typedef struct cli_laboratory {
  cli_call *call;
  const char *device;
  bool is_gpu;
  double window_s; /* seconds of a measurement */
  cli_energy energy;
  cli_trials all;
  float *pool; /* seeded normal numbers that fill the operands */
  /* The operands of the trial before. */
  char chain[CLI_TRIAL_TEXT];
  mmc_memory *memory;
  mmc_matrix *matrices; /* factors, then the result */
} cli_laboratory;

/* Draws the pool of numbers. Returns an exit status. */
int cli_laboratory_open(cli_laboratory *laboratory);
void cli_laboratory_close(cli_laboratory *laboratory);

/* Adds a trial of the chain of these dims, in f32 and native precision, by the device's own
 * kernels. Returns NULL when memory is short, after saying so. */
cli_trial *cli_trial_add(cli_laboratory *laboratory, const char *part, const char *order,
                         const char *family, const int64_t *dims, int count);
/* Plans, executes and measures. A trial that the machine cannot run has a reason afterwards;
 * anything else that fails returns an exit status. */
int cli_trial_run(cli_laboratory *laboratory, cli_trial *trial);
/* Estimates the seconds that the trial will take: what a plan for time predicts, for any order and
 * kernel. */
double cli_trial_estimate(const cli_laboratory *laboratory, const cli_trial *trial);

/* Print the trial as a line of JSON, and as a line of text. */
void cli_trial_print_json(cli_stream *out, const cli_laboratory *laboratory, const char *experiment,
                          const cli_trial *trial);
void cli_trial_print_heading(cli_stream *out, const cli_laboratory *laboratory,
                             const char *experiment);
void cli_trial_print_text(cli_stream *out, const cli_trial *trial);

#endif
