/* tee_acm2_figures.h: the figures of the TEE-ACM2 poster. */
#ifndef MMC_CLI_TEE_ACM2_FIGURES_H
#define MMC_CLI_TEE_ACM2_FIGURES_H

#include "trials.h"

/* Draws the figures for which something was measured into the directory, as figure-NN.svg with the
 * poster's numbers, and says on standard error for which figures there is nothing. Returns an exit
 * status. */
int cli_tee_acm2_draw(cli_call *call, const char *directory, const cli_trials *trials);

#endif
