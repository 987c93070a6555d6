/* explain_energy.c: explains plans for fewest joules. */
#include <inttypes.h>

#include "plan/explain.h"

static bool put_reason(const mmci_plan *plan, mmci_text *text) {
  if (plan->energy->kept[0] != '\0') return mmci_put_time_reason(plan, text);
  mmci_text_printf(text, "surely fewer joules than the plan for time");
  return true;
}

static void put_afterword(const mmci_plan *plan, mmci_text *text) {
  mmci_put_time_afterword(plan, text);
  if (plan->energy->kept[0] != '\0') mmci_text_printf(text, "; %s", plan->energy->kept);
}

/* Writes what the plan for time takes, and how good the model is. */
static void put_energy(const mmci_plan_energy *energy, mmci_text *text) {
  const mmci_energy_model *model = &energy->model;
  mmci_text_printf(
      text, ", %s (the plan for time: %s, %s)", mmci_in_units(energy->joules, "J").text,
      mmci_in_units(energy->time_seconds, "s").text, mmci_in_units(energy->time_joules, "J").text);
  mmci_text_printf(text, "\nenergy model     %s%.4g W static, %.4g pJ a flop, %.4g pJ a byte",
                   model->calibrated ? "" : "assumed, not calibrated: ", model->static_w,
                   1e12 * model->joules_per_flop, 1e12 * model->joules_per_byte);
  if (model->calibrated)
    mmci_text_printf(text, "; nine of ten products within %.2g %%", 100 * model->error);
}

static void put_summary(const mmci_plan *plan, mmci_text *text) {
  mmci_text_printf(text, "\npredicted        %s", mmci_in_units(plan->time->predicted_s, "s").text);
  put_energy(plan->energy, text);
  mmci_put_sources(plan, text);
}

static void put_step(const mmci_plan *plan, int32_t s, mmci_text *text) {
  const mmci_plan_step *step = &plan->steps[s];
  mmci_text_printf(text, " %12s  %-21s", mmci_in_units(step->predicted_j, "J").text,
                   mmci_provenance_name(step->joules_source));
  mmci_put_step_time(plan, step, text);
}

static void put_group(const mmci_plan *plan, const mmci_plan_group *group, mmci_text *text) {
  (void)plan;
  mmci_text_printf(text, " and %s", mmci_in_units(group->predicted_j, "J").text);
}

static mmc_status put_choices(const mmci_plan *plan, bool with_orders, mmci_text *text,
                              mmci_error *error) {
  const mmci_plan_energy *energy = plan->energy;
  mmc_status status = MMC_OK;
  mmci_text_printf(text, "\n%-10s %12s %12s  %-9s  %7s  %-21s %s\n", "choice", "time", "energy",
                   "precision", "recipes", "source", with_orders ? "order" : "");
  for (int c = 0; status == MMC_OK && c < energy->count; c++) {
    const mmci_energy_choice *choice = &energy->choices[c];
    mmci_text_printf(text, "%-10s %12s %12s  %-9s  %7" PRId32 "  %-21s ",
                     c == energy->chosen ? "chosen" : "", mmci_in_units(choice->seconds, "s").text,
                     mmci_in_units(choice->joules, "J").text, choice->precision, choice->recipes,
                     mmci_provenance_name(choice->source));
    if (with_orders)
      status = mmci_tree_write(&choice->tree, MMC_ORDER_TEXT, mmci_write_to_text, text, error);
    mmci_text_printf(text, "\n");
  }
  return status;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static mmc_status put_choices_json(const mmci_plan_energy *energy, mmci_text *text,
                                   mmci_error *error) {
  mmc_status status = MMC_OK;
  const mmci_energy_model *model = &energy->model;
  mmci_text_printf(text,
                   ", \"predicted_joules\": %.6g, \"plan_for_time_seconds\": %.6g, "
                   "\"plan_for_time_joules\": %.6g, \"max_slowdown\": ",
                   energy->joules, energy->time_seconds, energy->time_joules);
  mmci_text_printf(text, energy->max_slowdown > 0 ? "%.6g" : "null", energy->max_slowdown);
  mmci_text_printf(text,
                   ", \"energy_model\": {\"static_watts\": %.6g, \"joules_per_flop\": %.6g, "
                   "\"joules_per_byte\": %.6g, \"error\": %.6g, \"calibrated\": %s}, "
                   "\"choices\": [",
                   model->static_w, model->joules_per_flop, model->joules_per_byte, model->error,
                   model->calibrated ? "true" : "false");
  for (int c = 0; status == MMC_OK && c < energy->count; c++) {
    const mmci_energy_choice *choice = &energy->choices[c];
    mmci_text_printf(text, "%s\n  {\"order\": \"", c > 0 ? "," : "");
    status = mmci_tree_write(&choice->tree, MMC_ORDER_TEXT, mmci_write_to_text, text, error);
    mmci_text_printf(text,
                     "\", \"seconds\": %.6g, \"joules\": %.6g, \"precision\": \"%s\", "
                     "\"recipes\": %" PRId32 ", \"source\": \"%s\", \"chosen\": %s}",
                     choice->seconds, choice->joules, choice->precision, choice->recipes,
                     mmci_provenance_name(choice->source), c == energy->chosen ? "true" : "false");
  }
  mmci_text_printf(text, "]");
  return status;
}

static mmc_status put_json(const mmci_plan *plan, mmci_text *text, mmci_error *error) {
  mmci_text_printf(text, ", \"predicted_seconds\": %.6g", plan->time->predicted_s);
  mmc_status status = put_choices_json(plan->energy, text, error);
  mmci_put_json_sources(plan, text);
  return status;
}

static void put_json_step(const mmci_plan *plan, const mmci_plan_step *step, mmci_text *text) {
  (void)plan;
  mmci_put_json_step_time(step, text);
  mmci_text_printf(text, ", \"predicted_joules\": %.6g, \"joules_source\": \"%s\"",
                   step->predicted_j, mmci_provenance_name(step->joules_source));
}

static void put_json_group(const mmci_plan_group *group, mmci_text *text) {
  mmci_text_printf(text, ", \"predicted_joules\": %.6g", group->predicted_j);
}

const mmci_explainer mmci_explain_energy = {
    .objective = "energy",
    .columns = "       energy  source                   predicted  source  split",
    .put_reason = put_reason,
    .put_afterword = put_afterword,
    .put_summary = put_summary,
    .put_step = put_step,
    .put_group = put_group,
    .put_choices = put_choices,
    .put_json = put_json,
    .put_json_step = put_json_step,
    .put_json_group = put_json_group};
