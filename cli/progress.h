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
/* Does the same with words behind the percents, as in "done". */
int cli_progress_show_words(cli_progress *progress, double done, const char *words);
/* Does the same, with the seconds that are left, which are not finite when unknown. */
int cli_progress_show_left(cli_progress *progress, double done, double left_s);
/* Wipes the bar. */
void cli_progress_end(cli_progress *progress);

#endif
