/* experiment.h: `mmchain bench --experiment tee-acm2`: the figures of the TEE-ACM2 poster (SC22) on
 * the machine at hand.
 *
 * A trial is one chain, multiplied in one order and one way. Trials that cannot be run here say
 * why; nothing is left out. */
#ifndef MMC_CLI_EXPERIMENT_H
#define MMC_CLI_EXPERIMENT_H

#include "command.h"

enum { CLI_EXPERIMENT_SIZES = 16, CLI_TRIAL_TEXT = 160 };

/* What was asked for. Starts as {0} but for window_s. */
typedef struct cli_experiment_options {
  const char *name;                    /* "tee-acm2" */
  const char *device;                  /* NULL: "cpu" */
  const char *meter;                   /* NULL: the device's */
  const char *directory;               /* for figures and results.jsonl; NULL: none */
  const char *part;                    /* NULL: all */
  const char *way;                     /* NULL: all */
  double window_s;                     /* of a measurement; less than 0: 2, or 0.5 when quick */
  int64_t sizes[CLI_EXPERIMENT_SIZES]; /* n of single products */
  int size_count;                      /* 0: as the device and quick say */
  bool quick, json;
} cli_experiment_options;

int cli_experiment_run(cli_call *call, const cli_experiment_options *options);

/* ---- trials ---------------------------------------------------------------------------------- */

typedef struct cli_trial {
  const char *part;           /* "single", "tiles", "fused", "chains" */
  char name[40];              /* "n=8192", "best-6" */
  char chain[CLI_TRIAL_TEXT]; /* text form */
  const char *order;          /* "in-order", "OP_Count", "OP_DM_Fuse" */
  char way[40];               /* "plain", "tee", "faithful", "fused", or the name of a kernel */
  const char *kernel;         /* what to ask for; NULL: the plan's own choice */
  const char *precision;
  bool tells_kernel; /* the kernel's registers and on-chip memory are of interest */

  /* Answers. What is not known is NaN, 0 or "". */
  bool measured;
  char reason[480]; /* why it was not */
  char kernel_name[64];
  const char *measured_as; /* the order of an earlier trial whose plan is the same; NULL: itself */
  mmc_plan *plan;
  mmc_kernel_info info;
  int64_t tile[2]; /* of C that the kernel keeps on chip, as its name says */
  double words;    /* that it loads, by the tile and the theorem */
  int64_t pairs;   /* of products that OP_DM_Fuse puts in one kernel */
  double plan_s;   /* shortest of several */
  double create_s; /* of a run: workspace, kernels */
  double seconds;  /* of one execution */
  mmc_energy energy;
} cli_trial;

typedef struct cli_trials {
  cli_trial *trials;
  size_t count, capacity;
  char machine[128]; /* "NVIDIA H200" */
} cli_trials;

/* Draws the figures for which something was measured into the directory, as figure-NN.svg with the
 * poster's numbers, and says on standard error which there are none of. */
int cli_experiment_draw(cli_call *call, const char *directory, const cli_trials *trials);

#endif
