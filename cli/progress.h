/* progress.h: long work shows how far it is, and ends when it is interrupted.
 *
 * On a terminal a bar is drawn, elsewhere a line is written every few seconds; both go to standard
 * error, and work that is done at once shows neither. */
#ifndef MMC_CLI_PROGRESS_H
#define MMC_CLI_PROGRESS_H

#include "command.h"

/* From now on Ctrl-C sets a flag, so that work ends in order. Work that has not ended a second
 * later is ended, and so it is by a second Ctrl-C; this is for work that may be ended at any
 * time. */
void cli_interrupt_catch(void);
bool cli_interrupted(void);

typedef struct cli_progress {
  const cli_call *call;
  bool terminal; /* standard error is a terminal */
  bool drawn;    /* a bar is there to be wiped */
  double next_s; /* the time at which to show something again */
} cli_progress;

cli_progress cli_progress_start(const cli_call *call);
/* Shows progress; it is an mmc_progress_fn whose user is a cli_progress, and stops the work when it
 * was interrupted. */
int cli_progress_show(void *user, double done);
/* Shows progress with words behind the percents, as in "done". Returns what cli_progress_show()
 * does. */
int cli_progress_show_words(cli_progress *progress, double done, const char *words);
/* Wipes the bar. */
void cli_progress_end(cli_progress *progress);

/* ---- work in stages -------------------------------------------------------------------------- */

/* One stage after the other of a command's work: what is read, executed, checked, written.
 * Functions that may take long tell call->stage how far they are, where there is one. */
typedef struct cli_stage {
  cli_progress progress;
  char words[64];  /* what is done: "checked" */
  double from, to; /* the shares of the work where the stage begins and ends */
} cli_stage;

/* Begins a stage, the first one with a stage of {0}. Words are cut to 63 characters. */
void cli_stage_begin(cli_call *call, cli_stage *stage, double from, double to, const char *words);
/* Tells that a share of the stage is done; it does nothing without a stage. It is an
 * mmc_progress_fn whose user is a cli_call. */
int cli_stage_show(void *call, double done);
/* Wipes the bar until the next stage. */
void cli_stage_end(cli_call *call);

/* Work that may not tell how far it is: another thread shows how long it has taken, as a share of
 * what it was predicted to take until it does. */
typedef struct cli_watch cli_watch;
/* predicted_s is NaN when it is not known. Returns NULL when there is no stage, or no thread: then
 * nothing is shown. */
cli_watch *cli_watch_begin(cli_call *call, double predicted_s);
/* Tells the share of the work that is done. It is an mmc_progress_fn whose user is a watch or NULL,
 * and stops nothing. */
int cli_watch_tell(void *watch, double done);
void cli_watch_end(cli_watch *watch);

#endif
