/* explain_time.c: explains plans for least time. */
#include <inttypes.h>
#include <string.h>

#include "cost/recipe.h"
#include "plan/explain.h"

/* Writes "balanced tree, 10 levels". */
static void put_shape(const mmci_plan *plan, mmci_text *text) {
  int32_t segments = plan->time->segments;
  if (segments == INT32_MAX)
    mmci_text_printf(text, "balanced tree");
  else
    mmci_text_printf(text, "%" PRId32 " segments at a time, combined in a tree", segments);
  mmci_text_printf(text, ", %" PRId32 " levels", mmci_plan_levels(plan));
}

bool mmci_put_time_reason(const mmci_plan *plan, mmci_text *text) {
  if (plan->time->segments > 0) {
    put_shape(plan, text);
    mmci_text_printf(text, ": the least predicted time of the orders that were tried");
  } else if (strcmp(plan->solver, "calls") == 0) {
    mmci_text_printf(text, "the least time of the orders whose calls were measured");
  } else if (plan->time->by_time) {
    mmci_text_printf(text, "the least predicted time of all orders%s",
                     plan->limited ? " within the memory limit" : "");
  } else {
    return false;
  }
  return true;
}

void mmci_put_time_afterword(const mmci_plan *plan, mmci_text *text) {
  if (plan->time->kept[0] != '\0') mmci_text_printf(text, "; %s", plan->time->kept);
}

/* Returns what the formulas were fitted to that some price of the plan is from; NULL when none is.
 */
static const char *shipped_facts(const mmci_plan *plan) {
  bool shipped = false;
  for (int32_t s = 0; s < plan->step_count; s++)
    shipped = shipped || plan->steps[s].source == MMCI_SHIPPED;
  for (int32_t g = 0; g < plan->group_count; g++)
    shipped = shipped || plan->groups[g].source == MMCI_SHIPPED;
  return shipped ? plan->time->facts : NULL;
}

void mmci_put_sources(const mmci_plan *plan, mmci_text *text) {
  const char *notice = plan->time->notice, *facts = shipped_facts(plan);
  if (facts != NULL) mmci_text_printf(text, "\nprices           %s", facts);
  if (notice[0] != '\0') mmci_text_printf(text, "\nwisdom           none: %s", notice);
}

static void put_summary(const mmci_plan *plan, mmci_text *text) {
  const mmci_plan_time *time = plan->time;
  mmci_text_printf(text, "\npredicted        %s", mmci_in_units(time->predicted_s, "s").text);
  if (time->by_time)
    mmci_text_printf(text, " (the order of fewest multiplications: %s)",
                     mmci_in_units(time->predicted_s + time->gain_s, "s").text);
  mmci_put_sources(plan, text);
}

void mmci_put_step_time(const mmci_plan *plan, const mmci_plan_step *step, mmci_text *text) {
  char recipe[MMCI_RECIPE_TEXT_SIZE] = "";
  if (mmci_plan_recipe(step) != NULL) mmci_recipe_format(step->recipe, &plan->variants, recipe);
  mmci_text_printf(text, " %12s  %s%s%s", mmci_in_units(step->predicted_s, "s").text,
                   mmci_provenance_name(step->source), mmci_plan_recipe(step) != NULL ? "  " : "",
                   recipe);
}

static void put_step(const mmci_plan *plan, int32_t s, mmci_text *text) {
  const mmci_plan_step *step = &plan->steps[s];
  mmci_put_step_time(plan, step, text);
  if (mmci_plan_recipe(step) != NULL && step->plain_s > 0)
    mmci_text_printf(text, ", gain %.4g", step->plain_s / step->predicted_s);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

void mmci_put_json_sources(const mmci_plan *plan, mmci_text *text) {
  const char *facts = shipped_facts(plan);
  mmci_text_printf(text, ", \"shipped_facts\": ");
  if (facts != NULL)
    mmci_text_json_string(text, facts);
  else
    mmci_text_printf(text, "null");
  mmci_text_printf(text, ", \"wisdom_notice\": ");
  if (plan->time->notice[0] != '\0')
    mmci_text_json_string(text, plan->time->notice);
  else
    mmci_text_printf(text, "null");
}

static mmc_status put_json(const mmci_plan *plan, mmci_text *text, mmci_error *error) {
  const mmci_plan_time *time = plan->time;
  (void)error;
  mmci_text_printf(text, ", \"predicted_seconds\": %.6g, \"fewest_multiplications_seconds\": %.6g",
                   time->predicted_s, time->predicted_s + (time->by_time ? time->gain_s : 0));
  mmci_put_json_sources(plan, text);
  return MMC_OK;
}

void mmci_put_json_step_time(const mmci_plan_step *step, mmci_text *text) {
  mmci_text_printf(text, ", \"predicted_s\": %.6g, \"source\": \"%s\"", step->predicted_s,
                   mmci_provenance_name(step->source));
}

static void put_json_step(const mmci_plan *plan, const mmci_plan_step *step, mmci_text *text) {
  (void)plan;
  mmci_put_json_step_time(step, text);
  if (mmci_plan_recipe(step) != NULL && step->plain_s > 0)
    mmci_text_printf(text, ", \"plain_s\": %.6g", step->plain_s);
}

const mmci_explainer mmci_explain_time = {.objective = "time",
                                          .columns = "    predicted  source  split",
                                          .put_reason = mmci_put_time_reason,
                                          .put_afterword = mmci_put_time_afterword,
                                          .put_summary = put_summary,
                                          .put_step = put_step,
                                          .put_json = put_json,
                                          .put_json_step = put_json_step};
