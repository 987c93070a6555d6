#include "energy.h"

#include <math.h>
#include <string.h>

#include "progress.h"

/* ---- measuring ------------------------------------------------------------------------------- */

/* Messages about the name say that they are about the meter, those about its file do not. */
static int fail_meter(cli_call *call, mmc_status status) {
  char argument[8];
  mmc_context_argument(call->context, argument, sizeof argument);
  return cli_fail_status(call, status, argument[0] != '\0' ? "" : "--meter: ");
}

int cli_energy_open(cli_call *call, cli_energy *energy, const char *device) {
  if (!energy->wanted || energy->meter != NULL) return CLI_DONE;
  const char *name = energy->meter_name != NULL ? energy->meter_name : device;
  mmc_status status = mmc_meter_open(call->context, name, &energy->meter);
  if (status != MMC_OK) return fail_meter(call, status);
  mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
  status = mmc_meter_measure(energy->meter, &options, &energy->idle);
  return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, "");
}

void cli_energy_close(cli_energy *energy) {
  mmc_meter_destroy(energy->meter);
}

/* One execution. */
typedef struct execution {
  mmc_run *run;
  const mmc_matrix *factors, *result;
  mmc_status status;
} execution;

static int execute_once(void *user) {
  execution *e = user;
  if (cli_interrupted()) return 1;
  e->status = mmc_enqueue(e->run, NULL, e->factors, e->result);
  return e->status != MMC_OK;
}

static int await_execution(void *user) {
  execution *e = user;
  e->status = mmc_wait(e->run);
  return e->status != MMC_OK;
}

int cli_energy_measure(cli_call *call, const cli_energy *energy, double window_s, mmc_run *run,
                       const mmc_matrix *factors, const mmc_matrix *result, mmc_energy *out) {
  if (energy->meter == NULL) {
    *out = (mmc_energy){
        .joules = NAN, .watts = NAN, .idle_watts = NAN, .reason = "not asked for: see --energy"};
    return CLI_DONE;
  }
  if (!energy->idle.measured) {
    *out = energy->idle;
    return CLI_DONE;
  }
  execution e = {.run = run, .factors = factors, .result = result};
  mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
  options.min_s = window_s;
  options.warm_s = window_s / 4;
  options.idle_s = 0;
  options.work = execute_once;
  options.wait = await_execution;
  options.user = &e;
  mmc_status status = mmc_meter_measure(energy->meter, &options, out);
  if (status == MMC_E_INTERRUPTED && cli_interrupted())
    return cli_fail(call, CLI_INTERRUPTED, "interrupted");
  if (status != MMC_OK) return cli_fail_status(call, e.status != MMC_OK ? e.status : status, "");
  out->idle_watts = energy->idle.idle_watts;
  out->idle_watts_min = energy->idle.idle_watts_min;
  out->idle_watts_max = energy->idle.idle_watts_max;
  return CLI_DONE;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void print_number(cli_stream *out, const char *name, double value) {
  if (isfinite(value))
    cli_print(out, "\"%s\": %.6g, ", name, value);
  else
    cli_print(out, "\"%s\": null, ", name);
}

void cli_energy_print_json(cli_stream *out, const mmc_energy *energy) {
  print_number(out, "joules", energy->joules);
  print_number(out, "watts", energy->watts);
  print_number(out, "idle_watts", energy->idle_watts);
  if (!energy->measured) {
    cli_print(out, "\"joules_reason\": ");
    cli_print_json_string(out, energy->reason);
    cli_print(out, ", \"energy\": null");
    return;
  }
  cli_print(out, "\"joules_reason\": null, \"energy\": {\"meter\": \"%s\", ", energy->meter);
  const struct {
    const char *name;
    double value;
  } numbers[] = {
      {"seconds", energy->seconds},
      {"runs", energy->runs},
      {"window_s", energy->window_s},
      {"tick_error", energy->tick_error},
      {"crosscheck", energy->crosscheck},
      {"watts_min", energy->watts_min},
      {"watts_max", energy->watts_max},
      {"idle_watts_min", energy->idle_watts_min},
      {"idle_watts_max", energy->idle_watts_max},
      {"sm_mhz_min", energy->sm_mhz_min},
      {"sm_mhz_median", energy->sm_mhz_median},
      {"sm_mhz_max", energy->sm_mhz_max},
      {"memory_mhz_min", energy->memory_mhz_min},
      {"memory_mhz_median", energy->memory_mhz_median},
      {"memory_mhz_max", energy->memory_mhz_max},
      {"celsius_max", energy->celsius_max},
  };
  for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
    print_number(out, numbers[n].name, numbers[n].value);
  cli_print(out, "\"ticks\": %lld, \"throttle\": ", (long long)energy->ticks);
  cli_print_json_string(out, energy->throttle);
  cli_print(out, "}");
}
