/* explain_structure.c: what plans say whose factors have structure. */
#include "base/dtype.h"
#include "plan/explain.h"

static const mmci_structure_step *step_of(const mmci_plan *plan, int32_t s) {
  return &plan->structure->steps.steps[s];
}

static bool put_reason(const mmci_plan *plan, mmci_text *text) {
  const bool free_order = plan->solver[0] == 's'; /* and not "left-to-right" or "given" */
  mmci_text_printf(
      text, "%s of all %skernels",
      plan->structure->by_time ? "the least predicted time" : "the fewest multiplications",
      free_order ? "orders and " : "");
  if (plan->structure->factors != NULL)
    mmci_text_printf(text, "; inverses of products are products of inverses");
  if (!free_order) mmci_text_printf(text, "; the order is %s", plan->solver);
  return true;
}

/* Writes what is known of the result, where anything is. */
static void put_summary(const mmci_plan *plan, mmci_text *text) {
  const bool is_complex = mmci_dtype_is_complex(plan->chain->dtype);
  const uint32_t traits = plan->structure->steps.traits;
  if (traits != 0) {
    mmci_text_printf(text, "\nresult           ");
    mmci_traits_write(traits, plan->structure->steps.band, is_complex, text);
  }
  if (plan->structure->steps.inverts) mmci_text_printf(text, "\nkernel           inverse");
  if (plan->time != NULL)
    mmci_text_printf(text, "\npredicted        %s",
                     mmci_in_units(plan->time->predicted_s, "s").text);
}

/* Writes how operands are used: which are solved with, and which inverses are formed. */
static void put_notes(const mmci_plan *plan, int32_t s, mmci_text *text) {
  const mmci_structure_step *step = step_of(plan, s);
  const int32_t operands[2] = {plan->steps[s].left, plan->steps[s].right};
  for (int side = 0; side < 2; side++) {
    const char *name = mmci_operand_name(plan, operands[side]).text;
    if (step->formed[side] && (step->traits[side] & (MMC_ORTHOGONAL | MMC_LOWER)) == MMC_ORTHOGONAL)
      mmci_text_printf(text, "  inverse of %s: its H", name);
    else if (step->formed[side])
      mmci_text_printf(text, "  inverse of %s formed", name);
    else if (step->inverse[side] && !step->reversed)
      mmci_text_printf(text, "  solves with %s", name);
  }
  if (step->mirrored) mmci_text_printf(text, "  with its own %s", step->conjugated ? "H" : "T");
  if (step->reversed) mmci_text_printf(text, "  right by left, held as inverse");
  if (step->inverts) mmci_text_printf(text, "  then inverted");
}

static void put_step_time(const mmci_plan *plan, int32_t s, mmci_text *text) {
  mmci_text_printf(text, " %12s", mmci_in_units(plan->steps[s].predicted_s, "s").text);
  put_notes(plan, s, text);
}

static mmc_status put_json(const mmci_plan *plan, mmci_text *text, mmci_error *error) {
  (void)error;
  mmci_text_printf(text, ", \"result_traits\": \"");
  mmci_traits_write(plan->structure->steps.traits, plan->structure->steps.band,
                    mmci_dtype_is_complex(plan->chain->dtype), text);
  mmci_text_printf(text, "\"");
  if (plan->time != NULL)
    mmci_text_printf(text, ", \"predicted_seconds\": %.6g", plan->time->predicted_s);
  return MMC_OK;
}

static const char *yes_no(bool value) {
  return value ? "true" : "false";
}

static void put_json_step(const mmci_plan *plan, const mmci_plan_step *step, mmci_text *text) {
  const mmci_structure_step *x = step_of(plan, (int32_t)(step - plan->steps));
  mmci_text_printf(text, ", \"solves_left\": %s, \"solves_right\": %s",
                   yes_no(x->inverse[0] && !x->reversed && !x->formed[0]),
                   yes_no(x->inverse[1] && !x->reversed && !x->formed[1]));
  mmci_text_printf(text, ", \"forms_left\": %s, \"forms_right\": %s, \"inverts\": %s",
                   yes_no(x->formed[0]), yes_no(x->formed[1]), yes_no(x->inverts));
  if (plan->structure->by_time)
    mmci_text_printf(text, ", \"predicted_s\": %.6g", step->predicted_s);
}

const mmci_explainer mmci_explain_structure = {.objective = "flops",
                                               .put_reason = put_reason,
                                               .put_summary = put_summary,
                                               .put_step = put_notes,
                                               .put_json = put_json,
                                               .put_json_step = put_json_step};

const mmci_explainer mmci_explain_structure_time = {.objective = "time",
                                                    .columns = "    predicted",
                                                    .put_reason = put_reason,
                                                    .put_summary = put_summary,
                                                    .put_step = put_step_time,
                                                    .put_json = put_json,
                                                    .put_json_step = put_json_step};
