/* team.h: multiplying on the ranks of a team, and plans for it. */
#ifndef MMC_CLI_TEAM_H
#define MMC_CLI_TEAM_H

#include "factors.h"

/* Says whether --on names an engine over ranks. */
bool cli_on_team(const char *device);

/* What is asked for. */
typedef struct cli_team_job {
  mmc_team_options options;
  const char *engine, *output;
  bool explain, check, json;
} cli_team_job;

/* Multiplies the files of the arguments on the ranks that were started together, of which this
 * process is one. Every rank says what went wrong on which. Returns the exit status. */
int cli_team_multiply(cli_call *call, cli_team_job *job, int count, char **arguments);

/* Measures what ranks take for products of a dtype, and keeps it. Returns the exit status. */
int cli_team_calibrate(cli_call *call, const char *engine, mmc_dtype dtype);

/* Shows the plan of a chain for so many ranks, without any. Returns the exit status. */
int cli_team_plan(cli_call *call, const mmc_team_options *options, const mmc_chain *chain,
                  bool json);

#endif
