/* energy.h: the joules of executing a plan, for the commands that have --energy. */
#ifndef MMC_CLI_ENERGY_H
#define MMC_CLI_ENERGY_H

#include "command.h"

/* It starts as {0}; wanted and meter_name come from the options. */
typedef struct cli_energy {
  bool wanted;
  const char *meter_name; /* name of the meter; NULL means the device's */
  mmc_meter *meter;
  mmc_energy idle; /* the device's idle power */
} cli_energy;

/* Opens the meter, if joules are wanted and it is not open yet, and measures the idle power of the
 * device. Returns CLI_DONE, or the exit status after saying what is wrong. */
int cli_energy_open(cli_call *call, cli_energy *energy, const char *device);
void cli_energy_close(cli_energy *energy);

/* The window of a measurement has so many seconds unless an option says otherwise. */
#define CLI_ENERGY_WINDOW_S 2.0

/* Executes again and again for a quarter of window_s seconds and then for all of it, and tells what
 * one execution takes. When that cannot be measured, or is not wanted, out says why. */
int cli_energy_measure(cli_call *call, const cli_energy *energy, double window_s, mmc_run *run,
                       const mmc_matrix *factors, const mmc_matrix *result, mmc_energy *out);

/* Prints "joules": 1.5, "watts": ..., "idle_watts": ..., "joules_reason": null, "energy": {...} */
void cli_energy_print_json(cli_stream *out, const mmc_energy *energy);

#endif
