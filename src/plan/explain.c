/* explain.c: a plan in words, as JSON and as a graph. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "plan/plan_time.h"
#include "plan/plan_traffic.h"

/* Text for people shows this many steps at most, and writes orders of this many factors out. */
enum { TEXT_STEPS = 100 };

/* The largest integer up to which every JSON reader is exact. */
#define JSON_EXACT ((mmci_u128)1 << 53)

typedef struct number {
  char text[MMC_COUNT_TEXT_SIZE];
} number;

static number decimal(mmci_u128 value) {
  number n;
  mmc_count_format(mmci_count(value), n.text);
  return n;
}

/* A1, or T3 for the result of step 3; the name of the last step's result is R. */
static number operand_name(const mmci_plan *plan, int32_t operand) {
  number name;
  int32_t n = plan->chain->n;
  if (operand < n)
    snprintf(name.text, sizeof name.text, "A%" PRId32, operand + 1);
  else if (operand == n + n - 2)
    snprintf(name.text, sizeof name.text, "R");
  else
    snprintf(name.text, sizeof name.text, "T%" PRId32, operand - n + 1);
  return name;
}

static int write_to_text(void *user, const char *bytes, size_t size) {
  mmci_text_bytes(user, bytes, size);
  return 0;
}

static mmc_status put_order(const mmci_plan *plan, mmci_text *text, mmci_error *error) {
  return mmci_tree_write(&plan->tree, MMC_ORDER_TEXT, write_to_text, text, error);
}

/* In multiplications, or in words. */
static mmci_u128 step_cost(const mmci_plan *plan, int32_t s) {
  const mmci_plan_step *step = &plan->steps[s];
  return plan->traffic != NULL ? plan->traffic->steps[s].kernel.words
                               : mmci_multiplications(step->m, step->k, step->n);
}

static mmci_u128 plan_cost(const mmci_plan *plan) {
  return plan->traffic != NULL ? plan->traffic->words : plan->multiplications;
}

static const char *fusion_name(mmc_fusion fusion) {
  return fusion == MMC_FUSION_LEFT ? "left" : "right";
}

/* The traffic of a step that shares a kernel, NULL for others. */
static const mmci_step_traffic *fused_step(const mmci_plan *plan, int32_t s) {
  if (plan->traffic == NULL || plan->traffic->steps[s].fusion == MMC_FUSION_NONE) return NULL;
  return &plan->traffic->steps[s];
}

/* ---- text ---------------------------------------------------------------------------------- */

/* "how it compares with multiplying from left to right". */
static void put_comparison(const mmci_plan *plan, mmci_text *text) {
  mmci_u128 left = mmci_plan_left_to_right(plan);
  if (left == MMCI_U128_MAX) {
    mmci_text_printf(text, " (left to right: more than 2^128)");
  } else if (left == plan->multiplications) {
    mmci_text_printf(text, " (as many as left to right)");
  } else {
    mmci_text_printf(text, " (left to right: %s", decimal(left).text);
    if (plan->multiplications != 0)
      mmci_text_printf(text, ", %.3g times", (double)left / (double)plan->multiplications);
    mmci_text_printf(text, ")");
  }
}

static void put_reason(const mmci_plan *plan, mmci_text *text) {
  if (plan->time != NULL && plan->time->by_time)
    mmci_text_printf(text, "the least predicted time of all orders%s",
                     plan->limited ? " within the memory limit" : "");
  else if (plan->limited)
    mmci_text_printf(text,
                     "the fewest within %" PRIu64
                     " bytes of workspace; the fewest of all, %s, "
                     "need %" PRIu64 " bytes",
                     plan->limit_bytes, decimal(plan->unlimited_multiplications).text,
                     plan->unlimited_bytes);
  else if (plan->traffic != NULL && plan->traffic->request.joint)
    mmci_text_printf(text, "the least traffic of all orders and fusions");
  else if (strcmp(plan->solver, "left-to-right") == 0)
    mmci_text_printf(text, "left to right, as asked");
  else
    mmci_text_printf(text, "the fewest multiplications of all orders");
  if (plan->time != NULL && plan->time->kept[0] != '\0')
    mmci_text_printf(text, "; %s", plan->time->kept);
  if (plan->traffic != NULL && !plan->traffic->request.joint &&
      plan->traffic->request.rule != MMCI_FUSE_NONE)
    mmci_text_printf(text, "; in that order the fusions of least traffic");
}

static void put_traffic(const mmci_plan *plan, mmci_text *text) {
  const mmci_plan_traffic *traffic = plan->traffic;
  int32_t last = plan->chain->n - 2;
  mmci_text_printf(text, "\ntraffic          %s words", decimal(traffic->words).text);
  if (last >= 0)
    mmci_text_printf(text, ", %s of them to write the result",
                     decimal((mmci_u128)plan->steps[last].m * (mmci_u128)plan->steps[last].n).text);
  if (traffic->pairs > 0)
    mmci_text_printf(text, " (not fused: %s)", decimal(traffic->unfused_words).text);
  mmci_text_printf(text, "\non chip          %" PRId64 " words", traffic->request.on_chip_words);
  mmci_text_printf(text, "\nfusion           %s: ", traffic->request.fuse);
  if (traffic->pairs == 0)
    mmci_text_printf(text, traffic->request.rule == MMCI_FUSE_NONE ? "as asked" : "none pays");
  else
    mmci_text_printf(text,
                     "%" PRId32 " pair%s of steps, fused in the cost only: no fused kernel here",
                     traffic->pairs, traffic->pairs > 1 ? "s" : "");
}

typedef struct duration {
  char text[24];
} duration;

static duration in_words(double seconds) {
  static const struct {
    const char *name;
    double unit_s;
  } units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}};
  size_t u = 0;
  while (u < 2 && seconds < units[u].unit_s) u++;
  duration d;
  snprintf(d.text, sizeof d.text, "%.4g %s", seconds / units[u].unit_s, units[u].name);
  return d;
}

static void put_time(const mmci_plan *plan, mmci_text *text) {
  const mmci_plan_time *time = plan->time;
  mmci_text_printf(text, "\npredicted        %s", in_words(time->predicted_s).text);
  if (time->by_time)
    mmci_text_printf(text, " (the order of fewest multiplications: %s)",
                     in_words(time->predicted_s + time->gain_s).text);
  if (time->notice[0] != '\0') mmci_text_printf(text, "\nwisdom           none: %s", time->notice);
}

/* "      1.2 ms  measured  n:96,32, gain 1.1". */
static void put_prediction(const mmci_plan_step *step, mmci_text *text) {
  char recipe[MMCI_RECIPE_TEXT_SIZE] = "";
  if (step->recipe != NULL) mmci_recipe_format(step->recipe, recipe);
  mmci_text_printf(text, " %12s  %s%s%s", in_words(step->predicted_s).text, step->source,
                   step->recipe != NULL ? "  " : "", recipe);
  if (step->recipe != NULL && step->plain_s > 0)
    mmci_text_printf(text, ", gain %.4g", step->plain_s / step->predicted_s);
}

/* "218x300  left, with T3". */
static void put_tile(const mmci_plan *plan, int32_t s, mmci_text *text) {
  const mmci_step_traffic *step = &plan->traffic->steps[s];
  char tile[64];
  snprintf(tile, sizeof tile, "%" PRId64 "x%" PRId64, step->kernel.x, step->kernel.y);
  mmci_text_printf(text, step->fusion != MMC_FUSION_NONE ? "  %-11s" : "  %s",
                   step->kernel.x > 0 ? tile : "-");
  if (step->fusion == MMC_FUSION_NONE) return;
  int32_t partner = step->choice.partner;
  mmci_text_printf(text, " %s, %s %s", fusion_name(step->fusion), partner > s ? "in" : "with",
                   operand_name(plan, plan->chain->n + partner).text);
}

/* Where the matrices are, for a device with memory of its own. */
static void put_residence(const mmci_plan *plan, mmci_text *text) {
  if (plan->device_bytes == 0) return;
  if (plan->streamed)
    mmci_text_printf(text,
                     "device memory    products are streamed in panels: all at once would take "
                     "%" PRIu64 " bytes, %" PRIu64 " may be used\n",
                     plan->resident_bytes, plan->device_bytes);
  else
    mmci_text_printf(text, "device memory    %" PRIu64 " bytes%s\n", plan->resident_bytes,
                     plan->parallel ? ", sub-trees side by side" : "");
}

static void put_steps(const mmci_plan *plan, mmci_text *text) {
  int32_t count = plan->chain->n - 1;
  if (count == 0) return;
  mmci_u128 total = plan_cost(plan);
  mmci_text_printf(text, "\n%-24s %10s %10s %10s %8s %16s %7s%s\n", "step", "m", "k", "n", "kernel",
                   plan->traffic != NULL ? "words" : "multiplications", "share",
                   plan->traffic != NULL ? "  tile        fusion"
                   : plan->time != NULL  ? "    predicted  source  split"
                                         : "");
  for (int32_t s = 0; s < count && s < TEXT_STEPS; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    char product[128];
    snprintf(product, sizeof product, "%s = %s %s", operand_name(plan, plan->chain->n + s).text,
             operand_name(plan, step->left).text, operand_name(plan, step->right).text);
    mmci_u128 cost = step_cost(plan, s);
    double share = total != 0 ? 100 * (double)cost / (double)total : 0;
    mmci_text_printf(text, "%-24s %10" PRId64 " %10" PRId64 " %10" PRId64 " %8s %16s %5.1f %%",
                     product, step->m, step->k, step->n, step->kernel, decimal(cost).text, share);
    if (plan->traffic != NULL) put_tile(plan, s, text);
    if (plan->time != NULL) put_prediction(step, text);
    mmci_text_printf(text, "\n");
  }
  if (count > TEXT_STEPS)
    mmci_text_printf(text, "... and %" PRId32 " more steps\n", count - TEXT_STEPS);
}

static mmc_status explain_text(const mmci_plan *plan, mmci_text *text, mmci_error *error) {
  mmci_text_printf(text, "chain            ");
  mmc_chain_write(plan->chain, write_to_text, text);
  mmci_text_printf(text, "\norder            ");
  if (plan->chain->n <= TEXT_STEPS) {
    mmc_status status = put_order(plan, text, error);
    if (status != MMC_OK) return status;
  } else {
    mmci_text_printf(text, "of %" PRId32 " factors", plan->chain->n);
  }
  mmci_text_printf(text, "\nwhy              ");
  put_reason(plan, text);
  mmci_text_printf(text, "\nsolver           %s\nmultiplications  %s", plan->solver,
                   decimal(plan->multiplications).text);
  put_comparison(plan, text);
  if (plan->traffic != NULL) put_traffic(plan, text);
  if (plan->time != NULL) put_time(plan, text);
  mmci_text_printf(text, "\nworkspace        %" PRIu64 " bytes\ndevice           %s\n",
                   plan->workspace_bytes, plan->device);
  if (strcmp(plan->precision, "native") != 0)
    mmci_text_printf(text, "precision        %s\n", plan->precision);
  put_residence(plan, text);
  put_steps(plan, text);
  return MMC_OK;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void put_json_count(mmci_text *text, mmci_u128 value) {
  mmci_text_printf(text, value <= JSON_EXACT ? "%s" : "\"%s\"", decimal(value).text);
}

static mmci_u128 flops(const mmc_chain *chain, mmci_u128 multiplications) {
  /* A complex multiplication and addition are four of each of the real ones. */
  bool is_complex = chain->dtype == MMC_C64 || chain->dtype == MMC_C128;
  return mmci_u128_mul(multiplications, is_complex ? 8 : 2);
}

static void put_json_traffic(const mmci_plan_traffic *traffic, mmci_text *text) {
  mmci_text_printf(text, ", \"traffic_words\": ");
  put_json_count(text, traffic->words);
  mmci_text_printf(text, ", \"unfused_traffic_words\": ");
  put_json_count(text, traffic->unfused_words);
  mmci_text_printf(text, ", \"fuse\": \"%s\", \"on_chip_words\": ", traffic->request.fuse);
  put_json_count(text, (mmci_u128)traffic->request.on_chip_words);
}

static void put_json_time(const mmci_plan_time *time, mmci_text *text) {
  mmci_text_printf(text, ", \"predicted_seconds\": %.6g, \"fewest_multiplications_seconds\": %.6g",
                   time->predicted_s, time->predicted_s + (time->by_time ? time->gain_s : 0));
  mmci_text_printf(text, ", \"wisdom_notice\": ");
  if (time->notice[0] != '\0')
    mmci_text_json_string(text, time->notice);
  else
    mmci_text_printf(text, "null");
}

/* The split of every plan; what is predicted in a plan for time. */
static void put_json_split(const mmci_plan *plan, const mmci_plan_step *step, mmci_text *text) {
  char recipe[MMCI_RECIPE_TEXT_SIZE];
  if (step->recipe != NULL && mmci_recipe_format(step->recipe, recipe))
    mmci_text_printf(text, ", \"split\": \"%s\"", recipe);
  else
    mmci_text_printf(text, ", \"split\": null");
  if (plan->time != NULL)
    mmci_text_printf(text, ", \"predicted_s\": %.6g, \"source\": \"%s\"", step->predicted_s,
                     step->source);
  if (plan->time != NULL && step->recipe != NULL && step->plain_s > 0)
    mmci_text_printf(text, ", \"plain_s\": %.6g", step->plain_s);
}

static void put_json_fusion(const mmci_plan *plan, int32_t s, mmci_text *text) {
  const mmci_step_traffic *fused = fused_step(plan, s);
  if (fused == NULL)
    mmci_text_printf(text, "\"fusion\": null");
  else
    mmci_text_printf(text, "\"fusion\": \"%s\", \"partner\": \"%s\"", fusion_name(fused->fusion),
                     operand_name(plan, plan->chain->n + fused->choice.partner).text);
  mmci_traffic kernel = plan->traffic != NULL ? plan->traffic->steps[s].kernel : (mmci_traffic){0};
  if (kernel.x == 0)
    mmci_text_printf(text, ", \"tile\": null");
  else
    mmci_text_printf(text, ", \"tile\": [%" PRId64 ", %" PRId64 "]", kernel.x, kernel.y);
}

static mmc_status explain_json(const mmci_plan *plan, mmci_text *text, mmci_error *error) {
  const mmc_chain *chain = plan->chain;
  mmci_text_printf(text, "{\"chain\": \"");
  mmc_chain_write(chain, write_to_text, text);
  mmci_text_printf(text, "\", \"objective\": \"%s\", \"solver\": \"%s\", \"device\": ",
                   plan->traffic != NULL ? "traffic"
                   : plan->time != NULL  ? "time"
                                         : "flops",
                   plan->solver);
  mmci_text_json_string(text, plan->device);
  mmci_text_printf(text, ", \"precision\": \"%s\", \"order\": \"", plan->precision);
  mmc_status status = put_order(plan, text, error);
  if (status != MMC_OK) return status;
  mmci_text_printf(text, "\", \"multiplications\": ");
  put_json_count(text, plan->multiplications);
  mmci_text_printf(text, ", \"flops\": ");
  put_json_count(text, flops(chain, plan->multiplications));
  mmci_text_printf(text, ", \"left_to_right_multiplications\": ");
  mmci_u128 left = mmci_plan_left_to_right(plan);
  if (left == MMCI_U128_MAX)
    mmci_text_printf(text, "null");
  else
    put_json_count(text, left);
  mmci_text_printf(text, ", \"peak_workspace_bytes\": %" PRIu64 ", \"memory_limit_bytes\": ",
                   plan->workspace_bytes);
  if (plan->limited)
    mmci_text_printf(text, "%" PRIu64, plan->limit_bytes);
  else
    mmci_text_printf(text, "null");
  mmci_text_printf(text, ", \"device_memory_bytes\": ");
  if (plan->device_bytes > 0)
    mmci_text_printf(text, "%" PRIu64, plan->streamed ? plan->device_bytes : plan->resident_bytes);
  else
    mmci_text_printf(text, "null");
  mmci_text_printf(text, ", \"streamed\": %s", plan->streamed ? "true" : "false");
  if (plan->traffic != NULL) put_json_traffic(plan->traffic, text);
  if (plan->time != NULL) put_json_time(plan->time, text);
  mmci_text_printf(text, ", \"steps\": [");
  for (int32_t s = 0; s < chain->n - 1; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    mmci_text_printf(text, "%s\n  {\"product\": \"%s = %s %s\", ", s > 0 ? "," : "",
                     operand_name(plan, chain->n + s).text, operand_name(plan, step->left).text,
                     operand_name(plan, step->right).text);
    mmci_text_printf(text, "\"m\": %" PRId64 ", \"k\": %" PRId64 ", \"n\": %" PRId64 ", ", step->m,
                     step->k, step->n);
    put_json_fusion(plan, s, text);
    put_json_split(plan, step, text);
    mmci_text_printf(text, ", \"kernel\": ");
    mmci_text_json_string(text, step->kernel);
    mmci_text_printf(text, ", \"cost\": ");
    put_json_count(text, step_cost(plan, s));
    mmci_text_printf(text, "}");
  }
  mmci_text_printf(text, "%s]}\n", chain->n > 1 ? "\n" : "");
  return MMC_OK;
}

/* ---- dot ----------------------------------------------------------------------------------- */

static void explain_dot(const mmci_plan *plan, mmci_text *text) {
  static const char *const op_marks[] = {[MMC_OP_N] = "", [MMC_OP_T] = "'", [MMC_OP_H] = "*"};
  const mmc_chain *chain = plan->chain;
  mmci_text_printf(text, "digraph plan {\n  rankdir=BT;\n  node [fontname=\"sans-serif\"];\n");
  for (int32_t i = 0; i < chain->n; i++)
    mmci_text_printf(
        text, "  A%" PRId32 " [shape=box, label=\"A%" PRId32 "%s\\n%" PRId64 " x %" PRId64 "\"];\n",
        i + 1, i + 1, op_marks[chain->ops[i]], chain->dims[i], chain->dims[i + 1]);
  for (int32_t s = 0; s < chain->n - 1; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    number name = operand_name(plan, chain->n + s);
    const mmci_step_traffic *fused = fused_step(plan, s);
    bool inside = fused != NULL && fused->choice.partner > s;
    mmci_text_printf(text, "  %s [label=\"%s\\n%" PRId64 " x %" PRId64 "\\n%s%s\"%s];\n", name.text,
                     name.text, step->m, step->n, decimal(step_cost(plan, s)).text,
                     plan->traffic != NULL ? " words" : "", inside ? ", style=dashed" : "");
    for (int side = 0; side < 2; side++) {
      int32_t operand = side == 0 ? step->left : step->right;
      bool shared = fused != NULL && operand == chain->n + fused->choice.partner;
      mmci_text_printf(text, "  %s -> %s", operand_name(plan, operand).text, name.text);
      if (shared)
        mmci_text_printf(text, " [style=bold, label=\"%s fuse\"]", fusion_name(fused->fusion));
      mmci_text_printf(text, ";\n");
    }
  }
  mmci_text_printf(text, "}\n");
}

mmc_status mmci_plan_explain(const mmci_plan *plan, mmc_format format, mmc_write_fn write,
                             void *user, mmci_error *error) {
  mmci_text text;
  mmci_text_start(&text, write, user);
  mmc_status status = MMC_OK;
  switch (format) {
    case MMC_TEXT:
      status = explain_text(plan, &text, error);
      break;
    case MMC_JSON:
      status = explain_json(plan, &text, error);
      break;
    case MMC_DOT:
      explain_dot(plan, &text);
      break;
    default:
      return mmci_fail(error, MMC_E_ARG, "format: expected MMC_TEXT, MMC_JSON or MMC_DOT");
  }
  return status != MMC_OK ? status : mmci_text_finish(&text, error);
}
