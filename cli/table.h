/* table.h: `mmchain plan --table` prints the fusion decisions of chains as the TEE-ACM2 poster
 * tables them. */
#ifndef MMC_CLI_TABLE_H
#define MMC_CLI_TABLE_H

#include "command.h"

/* Prints the table of each chain that the arguments make, or one JSON object a line. options must
 * be for objective "traffic". Returns the exit status. */
int cli_table_show(cli_call *call, int count, char **arguments, const mmc_plan_options *options,
                   bool json);

#endif
