/* results.c: prints a trial as a line of JSON and as a line of text. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "trials.h"

static double flops_of(const cli_trial *t) {
  return t->plan == NULL ? NAN : 2 * mmc_count_to_double(mmc_plan_multiplications(t->plan));
}

static void print_number(cli_stream *out, const char *name, double value) {
  if (isfinite(value))
    cli_print(out, ", \"%s\": %.6g", name, value);
  else
    cli_print(out, ", \"%s\": null", name);
}

static void print_known(cli_stream *out, const char *name, int64_t value) {
  if (value > 0)
    cli_print(out, ", \"%s\": %" PRId64, name, value);
  else
    cli_print(out, ", \"%s\": null", name);
}

static void print_text_field(cli_stream *out, const char *name, const char *text) {
  cli_print(out, ", \"%s\": ", name);
  if (text != NULL && text[0] != '\0')
    cli_print_json_string(out, text);
  else
    cli_print(out, "null");
}

void cli_trial_print_json(cli_stream *out, const cli_laboratory *x, const char *experiment,
                          const cli_trial *t) {
  cli_print(out, "{\"experiment\": \"%s\", \"part\": \"%s\"", experiment, t->part);
  print_text_field(out, "machine", x->all.machine);
  print_text_field(out, "device", x->device);
  print_text_field(out, "name", t->name);
  print_text_field(out, "chain", t->chain);
  print_text_field(out, "order", t->order);
  print_text_field(out, "family", t->family);
  print_text_field(out, "kernel", t->kernel_name);
  print_text_field(out, "precision", t->precision);
  cli_print(out, ", \"measured\": %s", t->measured ? "true" : "false");
  print_text_field(out, "reason", t->reason);
  print_text_field(out, "measured_as", t->measured_as);
  cli_print(out, ", \"multiplications\": ");
  if (t->plan != NULL)
    cli_print_json_count(out, mmc_plan_multiplications(t->plan));
  else
    cli_print(out, "null");
  if (t->objective != NULL)
    cli_print(out, ", \"fused_pairs\": %" PRId64, t->pairs);
  else
    cli_print(out, ", \"fused_pairs\": null");
  print_number(out, "plan_s", t->plan_s);
  print_number(out, "create_s", t->create_s);
  print_number(out, "seconds", t->seconds);
  print_number(out, "gflops", 1e-9 * flops_of(t) / t->seconds);
  print_known(out, "tile_rows", t->tile[0]);
  print_known(out, "tile_cols", t->tile[1]);
  print_number(out, "model_load_words", t->words);
  cli_print(out,
            ", \"global_load_bytes\": null, \"global_load_reason\": \"hardware counters are "
            "not readable here: see scripts/check-gpu counters\"");
  print_known(out, "registers_per_thread", t->info.registers_per_thread);
  print_known(out, "threads_per_block", t->info.threads_per_block);
  print_known(out, "shared_bytes_per_block", t->info.shared_bytes_per_block);
  cli_print(out, ", ");
  cli_energy_print_json(out, &t->energy);
  cli_print(out, "}\n");
}

void cli_trial_print_heading(cli_stream *out, const cli_laboratory *x, const char *experiment) {
  cli_print(out, "%s on %s (%s)\n", experiment, x->device, x->all.machine);
  if (x->energy.idle.measured)
    cli_print(out, "joules by %s, %.4g W when idle\n", x->energy.idle.meter,
              x->energy.idle.idle_watts);
  else
    cli_print(out, "no joules: %s\n", x->energy.idle.reason);
  cli_print(out, "global loads: hardware counters are not readable here\n\n");
  cli_print(out, "%-7s %-12s %-11s %-16s %-18s %10s %10s %10s %9s %10s %8s\n", "part", "name",
            "order", "family", "kernel", "planned s", "created s", "seconds", "GFLOP/s", "J", "W");
}

void cli_trial_print_text(cli_stream *out, const cli_trial *t) {
  cli_print(out, "%-7s %-12s %-11s %-16s ", t->part, t->name, t->order, t->family);
  if (!t->measured) {
    cli_print(out, "not measured: %s\n", t->reason);
    return;
  }
  cli_print(out, "%-18s %10.3g %10.3g %10.4g %9.4g", t->kernel_name, t->plan_s, t->create_s,
            t->seconds, 1e-9 * flops_of(t) / t->seconds);
  if (t->energy.measured)
    cli_print(out, " %10.4g %8.4g", t->energy.joules, t->energy.watts);
  else
    cli_print(out, " %10s %8s", "-", "-");
  cli_print(out, t->measured_as != NULL ? "  as %s\n" : "%s\n",
            t->measured_as != NULL ? t->measured_as : "");
}
