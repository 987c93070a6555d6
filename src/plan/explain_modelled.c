/* explain_modelled.c: what plans for the fewest multiplications say where the device tells how long
 * its products take, though nothing of them is measured: those over semirings. */
#include <math.h>

#include "plan/explain.h"

static void put_summary(const mmci_plan *plan, mmci_text *text) {
  mmci_text_printf(text, "\npredicted        %s, by the device's model",
                   mmci_in_units(mmci_plan_modelled_s(plan), "s").text);
}

static void put_step(const mmci_plan *plan, int32_t s, mmci_text *text) {
  mmci_text_printf(text, " %12s", mmci_in_units(plan->steps[s].predicted_s, "s").text);
}

static mmc_status put_json(const mmci_plan *plan, mmci_text *text, mmci_error *error) {
  (void)error;
  mmci_text_printf(text, ", \"predicted_seconds\": %.6g", mmci_plan_modelled_s(plan));
  return MMC_OK;
}

static void put_json_step(const mmci_plan *plan, const mmci_plan_step *step, mmci_text *text) {
  (void)plan;
  mmci_text_printf(text, ", \"predicted_s\": %.6g", step->predicted_s);
}

const mmci_explainer mmci_explain_modelled = {.objective = "flops",
                                              .columns = "    predicted",
                                              .put_summary = put_summary,
                                              .put_step = put_step,
                                              .put_json = put_json,
                                              .put_json_step = put_json_step};

double mmci_plan_modelled_s(const mmci_plan *plan) {
  double seconds = 0;
  if (plan->explainer != &mmci_explain_modelled) return (double)NAN;
  for (int32_t s = 0; s < plan->step_count; s++) seconds += plan->steps[s].predicted_s;
  return seconds;
}
