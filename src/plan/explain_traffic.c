/* explain_traffic.c: explains plans for least traffic. */
#include <inttypes.h>
#include <stdio.h>

#include "plan/explain.h"

static mmci_u128 plan_cost(const mmci_plan *plan) {
  return plan->traffic->words;
}

static mmci_u128 step_cost(const mmci_plan *plan, int32_t s) {
  return plan->traffic->steps[s].kernel.words;
}

static bool put_reason(const mmci_plan *plan, mmci_text *text) {
  if (!plan->traffic->request.joint) return false;
  mmci_text_printf(text, "the least traffic of all orders and fusions");
  return true;
}

static void put_afterword(const mmci_plan *plan, mmci_text *text) {
  const mmci_traffic_request *request = &plan->traffic->request;
  if (!request->joint && request->rule != MMCI_FUSE_NONE)
    mmci_text_printf(text, "; in that order the fusions of least traffic");
}

/* Says why pairs are executed one by one. */
static void put_why_apart(const mmci_plan *plan, mmci_text *text) {
  const mmci_plan_traffic *traffic = plan->traffic;
  const int32_t apart = traffic->pairs - traffic->executed, offered = traffic->offered;
  if (plan->streamed)
    mmci_text_printf(text, "the plan is streamed");
  else if (offered == 0)
    mmci_text_printf(text, "device %s takes %s as one call", plan->device,
                     apart > 1 ? "none of them" : "no such pair");
  else if (offered == apart)
    mmci_text_printf(text, "not predicted to be faster as one call");
  else
    mmci_text_printf(text,
                     "device %s takes %" PRId32 " of them as one call, not predicted to be faster",
                     plan->device, offered);
}

/* Says how many pairs of steps share a kernel in the cost, and which of them one call executes. */
static void put_pairs(const mmci_plan *plan, mmci_text *text) {
  const mmci_plan_traffic *traffic = plan->traffic;
  const int32_t apart = traffic->pairs - traffic->executed;
  mmci_text_printf(text, "%" PRId32 " pair%s of steps, ", traffic->pairs,
                   traffic->pairs > 1 ? "s" : "");
  if (apart == 0) {
    mmci_text_printf(text, "%sexecuted in one call", traffic->pairs > 1 ? "each " : "");
    return;
  }
  if (traffic->executed > 0)
    mmci_text_printf(text, "%" PRId32 " executed in one call, %" PRId32 " ", traffic->executed,
                     apart);
  mmci_text_printf(text, "fused in the cost only: ");
  put_why_apart(plan, text);
}

static void put_traffic(const mmci_plan *plan, mmci_text *text) {
  const mmci_plan_traffic *traffic = plan->traffic;
  int32_t last = plan->step_count - 1;
  mmci_text_printf(text, "\ntraffic          %s words", mmci_decimal(traffic->words).text);
  if (last >= 0)
    mmci_text_printf(
        text, ", %s of them to write the result",
        mmci_decimal((mmci_u128)plan->steps[last].m * (mmci_u128)plan->steps[last].n).text);
  if (traffic->pairs > 0)
    mmci_text_printf(text, " (not fused: %s)", mmci_decimal(traffic->unfused_words).text);
  const mmci_chip *chip = &traffic->request.chip;
  mmci_text_printf(text, "\non chip          %" PRId64 " words", chip->words);
  if (chip->x > 0)
    mmci_text_printf(text, ", a tile of %" PRId64 "x%" PRId64 " as given", chip->x, chip->y);
  mmci_text_printf(text, "\nfusion           %s: ", traffic->request.fuse);
  if (traffic->pairs == 0)
    mmci_text_printf(text, traffic->request.rule == MMCI_FUSE_NONE ? "as asked" : "none pays");
  else
    put_pairs(plan, text);
}

/* Writes "218x300 left, with T3". */
static void put_tile(const mmci_plan *plan, int32_t s, mmci_text *text) {
  const mmci_step_traffic *step = &plan->traffic->steps[s];
  char tile[64];
  snprintf(tile, sizeof tile, "%" PRId64 "x%" PRId64, step->kernel.x, step->kernel.y);
  mmci_text_printf(text, step->fusion != MMC_FUSION_NONE ? "  %-11s" : "  %s",
                   step->kernel.x > 0 ? tile : "-");
  if (step->fusion == MMC_FUSION_NONE) return;
  int32_t partner = step->choice.partner;
  mmci_text_printf(text, " %s, %s %s", mmci_fusion_name(step->fusion), partner > s ? "in" : "with",
                   mmci_operand_name(plan, plan->chain->n + partner).text);
}

static mmc_status put_json(const mmci_plan *plan, mmci_text *text, mmci_error *error) {
  const mmci_plan_traffic *traffic = plan->traffic;
  (void)error;
  mmci_text_printf(text, ", \"traffic_words\": ");
  mmci_put_json_count(text, traffic->words);
  mmci_text_printf(text, ", \"unfused_traffic_words\": ");
  mmci_put_json_count(text, traffic->unfused_words);
  mmci_text_printf(text, ", \"fuse\": \"%s\", \"on_chip_words\": ", traffic->request.fuse);
  const mmci_chip *chip = &traffic->request.chip;
  mmci_put_json_count(text, (mmci_u128)chip->words);
  if (chip->x > 0)
    mmci_text_printf(text, ", \"given_tile\": [%" PRId64 ", %" PRId64 "]", chip->x, chip->y);
  return MMC_OK;
}

const mmci_explainer mmci_explain_traffic = {.objective = "traffic",
                                             .cost = "words",
                                             .cost_mark = " words",
                                             .batch_note = "; words are of each",
                                             .columns = "  tile        fusion",
                                             .plan_cost = plan_cost,
                                             .step_cost = step_cost,
                                             .put_reason = put_reason,
                                             .put_afterword = put_afterword,
                                             .put_summary = put_traffic,
                                             .put_step = put_tile,
                                             .put_json = put_json};
