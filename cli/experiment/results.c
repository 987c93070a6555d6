/* results.c: tells of a trial, as a line of results and as a line of text. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "records.h"
#include "trials.h"

static double median_of(const double *values, int count) {
  double copy[CLI_REPEATS_MOST];
  int known = 0;
  for (int i = 0; i < count; i++)
    if (isfinite(values[i])) copy[known++] = values[i];
  return cli_spread_of(copy, known).median;
}

static void tell_known(cli_laboratory *x, const char *name, int64_t value) {
  cli_line_number(x, name, value > 0 ? (double)value : (double)NAN);
}

/* Says why global loads are not among the results of this command. */
static const char *loads_reason(const cli_laboratory *x) {
  return x->is_gpu ? "this command does not read counters: scripts/check-gpu-counters does, by ncu"
                   : "counters of global loads belong to GPUs: --on cuda";
}

static void tell_samples(cli_laboratory *x, const cli_trial *t) {
  const cli_trial_samples *s = &t->samples;
  bool metered = t->energy.measured;
  cli_line_numbers(x, "seconds_samples", s->seconds, s->count);
  cli_line_numbers(x, "create_samples", s->create_s, s->count);
  cli_line_numbers(x, "joules_samples", s->joules, metered ? s->count : 0);
  cli_line_numbers(x, "watts_samples", s->watts, metered ? s->count : 0);
  cli_line_numbers(x, "sampled_watts_samples", s->sampled_watts, metered ? s->count : 0);
  cli_line_numbers(x, "tick_error_samples", s->tick_error, metered ? s->count : 0);
  cli_print(&x->line, ", \"until_s\": [");
  for (int i = 0; i < s->count; i++)
    cli_print(&x->line, "%s%.3f", i > 0 ? ", " : "", s->until_s[i]);
  cli_print(&x->line, "]");
}

static void tell_text(cli_laboratory *x, const cli_trial *t, double seconds, double flops) {
  if (!t->measured) {
    cli_say(x, "%-7s %-12s %-11s %-16s not measured: %s", t->part, t->name, t->order, t->family,
            t->reason);
    return;
  }
  char joules[64] = "         -        -";
  if (t->energy.measured)
    snprintf(joules, sizeof joules, "%10.4g %8.4g", median_of(t->samples.joules, t->samples.count),
             median_of(t->samples.watts, t->samples.count));
  cli_say(x, "%-7s %-12s %-11s %-16s %-18s %10.3g %10.3g %10.4g %9.4g %s%s%s", t->part, t->name,
          t->order, t->family, t->kernel_name, t->plan_s,
          median_of(t->samples.create_s, t->samples.count), seconds, 1e-9 * flops / seconds, joules,
          t->measured_as != NULL ? "  as " : "", t->measured_as != NULL ? t->measured_as : "");
}

void cli_trial_heading(cli_laboratory *x) {
  cli_say(x, "%s on %s (%s)", x->experiment, x->device, x->machine);
  if (x->energy.idle.measured)
    cli_say(x, "joules by %s, %.4g W when idle", x->energy.idle.meter, x->energy.idle.idle_watts);
  else
    cli_say(x, "no joules: %s", x->energy.idle.reason);
  cli_say(x, "\n%-7s %-12s %-11s %-16s %-18s %10s %10s %10s %9s %10s %8s", "part", "name", "order",
          "family", "kernel", "planned s", "created s", "seconds", "GFLOP/s", "J", "W");
}

void cli_trial_tell(cli_trials *all, const cli_trial *t) {
  cli_laboratory *x = all->lab;
  const cli_trial_samples *s = &t->samples;
  double flops = t->plan == NULL ? NAN : 2 * mmc_count_to_double(mmc_plan_multiplications(t->plan));
  double seconds = median_of(s->seconds, s->count);
  mmc_energy energy = t->energy;
  energy.joules = median_of(s->joules, s->count);
  energy.watts = median_of(s->watts, s->count);
  cli_line_begin(x, t->part);
  cli_line_text(x, "name", t->name);
  cli_line_text(x, "chain", t->chain);
  cli_line_text(x, "order", t->order);
  cli_line_text(x, "family", t->family);
  cli_line_text(x, "kernel", t->kernel_name);
  cli_line_text(x, "precision", t->precision);
  cli_line_truth(x, "measured", t->measured);
  cli_line_text(x, "reason", t->reason);
  cli_line_text(x, "measured_as", t->measured_as);
  if (t->plan != NULL)
    cli_line_exact(x, "multiplications", mmc_plan_multiplications(t->plan));
  else
    cli_line_number(x, "multiplications", NAN);
  cli_line_number(x, "fused_pairs", t->objective != NULL ? (double)t->pairs : (double)NAN);
  cli_line_number(x, "workspace_bytes",
                  t->plan == NULL ? (double)NAN : (double)mmc_plan_workspace_bytes(t->plan));
  cli_line_number(x, "plan_s", t->plan_s);
  cli_line_number(x, "create_s", median_of(s->create_s, s->count));
  cli_line_number(x, "seconds", seconds);
  cli_line_number(x, "gflops", 1e-9 * flops / seconds);
  tell_samples(x, t);
  tell_known(x, "executions", t->energy.measured ? 0 : s->executions);
  tell_known(x, "tile_rows", t->tile[0]);
  tell_known(x, "tile_cols", t->tile[1]);
  cli_line_number(x, "model_load_words", t->words);
  cli_line_number(x, "global_load_bytes", NAN);
  cli_line_text(x, "global_load_reason", loads_reason(x));
  tell_known(x, "registers_per_thread", t->info.registers_per_thread);
  tell_known(x, "threads_per_block", t->info.threads_per_block);
  tell_known(x, "shared_bytes_per_block", t->info.shared_bytes_per_block);
  cli_print(&x->line, ", ");
  cli_energy_print_json(&x->line, &energy);
  cli_line_end(x);
  tell_text(x, t, seconds, flops);
}
