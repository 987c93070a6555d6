/* explain.c: writes a plan in words, as JSON and as a graph. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/number.h"
#include "plan/explain.h"
#include "plan/picture.h"

/* Text for people shows at most so many steps, and writes out orders of so many factors. */
enum { TEXT_STEPS = 100 };

const mmci_explainer mmci_explain_flops = {.objective = "flops"};

/* ---- words --------------------------------------------------------------------------------- */

mmci_decimal_text mmci_decimal(mmci_u128 value) {
  mmci_decimal_text n;
  mmc_count_format(mmci_count(value), n.text);
  return n;
}

mmci_decimal_text mmci_operand_name(const mmci_plan *plan, int32_t operand) {
  mmci_decimal_text name;
  int32_t n = plan->chain->n;
  if (operand < n)
    snprintf(name.text, sizeof name.text, "A%" PRId32, operand + 1);
  else if (operand == n + plan->step_count - 1)
    snprintf(name.text, sizeof name.text, "R");
  else
    snprintf(name.text, sizeof name.text, "T%" PRId32, operand - n + 1);
  return name;
}

mmci_quantity mmci_in_units(double value, const char *unit) {
  static const struct {
    const char *prefix;
    double size;
  } prefixes[] = {{"", 1}, {"m", 1e-3}, {"u", 1e-6}};
  size_t p = 0;
  while (p < 2 && value < prefixes[p].size) p++;
  mmci_quantity q;
  mmci_print(q.text, sizeof q.text, "%.4g %s%s", value / prefixes[p].size, prefixes[p].prefix,
             unit);
  return q;
}

int mmci_write_to_text(void *text, const char *bytes, size_t size) {
  mmci_text_bytes(text, bytes, size);
  return 0;
}

void mmci_put_json_count(mmci_text *text, mmci_u128 value) {
  mmci_text_printf(text, "%s", mmci_decimal(value).text);
}

int32_t mmci_plan_levels(const mmci_plan *plan) {
  return plan->step_count > 0 ? plan->steps[plan->step_count - 1].level : 0;
}

const char *mmci_fusion_name(mmc_fusion fusion) {
  return fusion == MMC_FUSION_LEFT ? "left" : "right";
}

const mmci_step_traffic *mmci_fused_step(const mmci_plan *plan, int32_t s) {
  if (plan->traffic == NULL || plan->traffic->steps[s].fusion == MMC_FUSION_NONE) return NULL;
  return &plan->traffic->steps[s];
}

mmci_u128 mmci_plan_step_cost(const mmci_plan *plan, int32_t s) {
  return plan->explainer->step_cost != NULL ? plan->explainer->step_cost(plan, s)
                                            : mmci_plan_step_multiplications(plan, &plan->steps[s]);
}

mmci_u128 mmci_plan_cost(const mmci_plan *plan) {
  return plan->explainer->plan_cost != NULL ? plan->explainer->plan_cost(plan)
                                            : plan->multiplications;
}

/* Returns a text of the explainer, which may be NULL. */
static const char *words(const char *text, const char *otherwise) {
  return text != NULL ? text : otherwise;
}

static mmc_status put_order(const mmci_plan *plan, mmci_text *text, mmci_error *error) {
  const int32_t *factors = plan->structure != NULL ? plan->structure->factors : NULL;
  return mmci_tree_write_named(&plan->tree, factors, text, error);
}

/* ---- text ---------------------------------------------------------------------------------- */

void mmci_put_comparison(const mmci_plan *plan, mmci_text *text) {
  mmci_u128 left = mmci_plan_left_to_right(plan);
  if (plan->structure != NULL && left == 0) return;
  if (left == MMCI_U128_MAX) {
    mmci_text_printf(text, " (left to right: more than 2^128)");
  } else if (left == plan->multiplications) {
    mmci_text_printf(text, " (as many as left to right)");
  } else {
    mmci_text_printf(text, " (%sleft to right: %s", plan->structure != NULL ? "dense, " : "",
                     mmci_decimal(left).text);
    if (plan->multiplications != 0)
      mmci_text_printf(text, ", %.3g times", (double)left / (double)plan->multiplications);
    mmci_text_printf(text, ")");
  }
}

/* Writes "power by squaring: A1^1000 in 14 products". */
static void put_shared(const mmci_plan *plan, mmci_text *text) {
  const mmc_chain *chain = plan->chain;
  int32_t count = plan->step_count;
  bool power = true;
  for (int32_t i = 0; i < chain->n; i++) power = power && mmc_chain_same(chain, i) == 0;
  if (power)
    mmci_text_printf(text, "power by squaring: A1^%" PRId32 " in", chain->n);
  else
    mmci_text_printf(text, "what repeats is computed once:");
  mmci_text_printf(text, " %" PRId32 " product%s; the best order has %" PRId32, count,
                   count > 1 ? "s" : "", chain->n - 1);
  mmci_text_printf(text, " with %s multiplications", mmci_decimal(plan->tree_multiplications).text);
}

/* Writes why the plan has its order, where the objective does not say it. */
static void put_plain_reason(const mmci_plan *plan, mmci_text *text) {
  if (!mmci_plan_is_tree(plan))
    put_shared(plan, text);
  else if (plan->limited)
    mmci_text_printf(text,
                     "the fewest within %" PRIu64
                     " bytes of workspace; the fewest of all, %s, "
                     "need %" PRIu64 " bytes",
                     plan->limit_bytes, mmci_decimal(plan->unlimited_multiplications).text,
                     plan->unlimited_bytes);
  else if (strcmp(plan->solver, "left-to-right") == 0)
    mmci_text_printf(text, "left to right, as asked");
  else if (strcmp(plan->solver, "given") == 0)
    mmci_text_printf(text, "as given");
  else
    mmci_text_printf(text, "the fewest multiplications of all orders%s",
                     mmci_chain_has_once(plan->chain) && strcmp(plan->solver, "hu-shing") == 0
                         ? ", were nothing computed once"
                         : "");
}

static void put_reason(const mmci_plan *plan, mmci_text *text) {
  const mmci_explainer *x = plan->explainer;
  if (x->put_reason == NULL || !x->put_reason(plan, text)) put_plain_reason(plan, text);
  if (plan->shared_bytes > 0)
    mmci_text_printf(text, "; computing once what repeats needs %" PRIu64 " bytes",
                     plan->shared_bytes);
  if (x->put_afterword != NULL) x->put_afterword(plan, text);
}

/* Writes how many chains there are; the multiplications are those of all. */
static void put_batch(const mmci_plan *plan, mmci_text *text) {
  int64_t batch = plan->chain->batch;
  if (batch == 1) return;
  mmci_text_printf(text, "\nbatch            %" PRId64 " chains, multiplications are of all",
                   batch);
  if (plan->chunk < batch) mmci_text_printf(text, "; %" PRId64 " at a time", plan->chunk);
  mmci_text_printf(text, "%s", words(plan->explainer->batch_note, ""));
}

static bool is_shared_factor(const mmci_plan *plan, int32_t operand) {
  return mmc_chain_shared(plan->chain, operand);
}

static bool is_computed_once(const mmci_plan *plan, int32_t operand) {
  const mmci_plan_step *step = &plan->steps[operand - plan->chain->n];
  return mmci_plan_step_batch(plan, step) < plan->chain->batch;
}

/* Writes the names of operands begin to end-1 that are such, of many only the first and the last.
 */
static void put_names(const mmci_plan *plan, int32_t begin, int32_t end,
                      bool (*is_such)(const mmci_plan *plan, int32_t operand), mmci_text *text) {
  enum { FEW = 8 };
  int32_t count = 0, last = begin;
  for (int32_t i = begin; i < end; i++)
    if (is_such(plan, i)) {
      count++;
      last = i;
    }
  int32_t at = 0;
  for (int32_t i = begin; i < end; i++) {
    if (!is_such(plan, i) || (count > FEW && at > 0 && i < last)) continue;
    mmci_text_printf(text, "%s%s",
                     at == 0       ? ""
                     : count > FEW ? " ... "
                                   : " ",
                     mmci_operand_name(plan, i).text);
    at++;
  }
}

/* Writes which factors all chains share, and what is computed once therefore. */
static void put_common(const mmci_plan *plan, mmci_text *text) {
  const int32_t n = plan->chain->n;
  if (plan->chain->shared == NULL) return;
  mmci_text_printf(text, "\nshared           ");
  put_names(plan, 0, n, is_shared_factor, text);
  mmci_text_printf(text, ": one matrix each for all chains");
  bool has_once = false;
  for (int32_t s = 0; s < plan->step_count; s++)
    has_once = has_once || is_computed_once(plan, n + s);
  if (!has_once) return;
  mmci_text_printf(text, "; computed once");
  if (plan->chunk < plan->chain->batch)
    mmci_text_printf(text, " for %" PRId64 " chains", plan->chunk);
  mmci_text_printf(text, ": ");
  put_names(plan, n, n + plan->step_count, is_computed_once, text);
}

/* Returns how large the elements of the result may be when those of the factors are 1, by its inner
 * dims, as a power of ten; and that of the largest number of the dtype. */
static double largest_exponent(const mmc_chain *chain) {
  double exponent = 0;
  for (int32_t i = 1; i < chain->n; i++) exponent += log10((double)chain->dims[i]);
  return exponent;
}

static double largest_number(mmc_dtype dtype) {
  if (mmci_dtype_is_integer(dtype)) return DBL_MAX; /* these are told to wrap around, or checked */
  static const double numbers[] = {
      [MMC_F32] = FLT_MAX,  [MMC_F64] = DBL_MAX, [MMC_C64] = FLT_MAX,
      [MMC_C128] = DBL_MAX, [MMC_F16] = 65504,   [MMC_BF16] = 3.3895e38};
  return numbers[dtype];
}

/* A dim of 0 makes the exponent minus infinity. */
static bool may_overflow(const mmc_chain *chain) {
  return largest_exponent(chain) > log10(largest_number(chain->dtype));
}

static void put_overflow(const mmc_chain *chain, mmci_text *text) {
  if (may_overflow(chain))
    mmci_text_printf(text,
                     "\nrange            elements of size 1 may grow to 1e%.0f, and %s holds %.2g "
                     "at most: scale the factors",
                     floor(largest_exponent(chain)), mmc_dtype_name(chain->dtype),
                     largest_number(chain->dtype));
}

/* Writes where the matrices are, for a device with memory of its own. */
static void put_residence(const mmci_plan *plan, mmci_text *text) {
  if (plan->device_bytes == 0) return;
  if (plan->streamed || plan->chunk < plan->chain->batch)
    mmci_text_printf(text,
                     "device memory    %s: all at once would take "
                     "%" PRIu64 " bytes, %" PRIu64 " may be used\n",
                     plan->streamed ? "products are streamed in panels"
                                    : "chains pass through it, some at a time",
                     plan->resident_bytes, plan->device_bytes);
  else
    mmci_text_printf(text, "device memory    %" PRIu64 " bytes%s\n", plan->resident_bytes,
                     plan->parallel ? ", sub-trees side by side" : "");
}

/* Writes which steps run as one call: "T1 T2 R" or, of many, "T1 ... R". */
static void put_group_steps(const mmci_plan *plan, const mmci_plan_group *group, mmci_text *text) {
  int32_t n = plan->chain->n, count = group->step_count;
  for (int32_t i = 0; i < count; i++) {
    if (count > 8 && i == 1) {
      mmci_text_printf(text, " ...");
      i = count - 1;
    }
    mmci_text_printf(text, " %s", mmci_operand_name(plan, n + group->steps[i]).text);
  }
}

/* Writes what runs as one call, and why: what the call takes, and what the steps take one by
 * one. */
static void put_groups(const mmci_plan *plan, mmci_text *text) {
  for (int32_t g = 0; g < plan->group_count && g < TEXT_STEPS; g++) {
    const mmci_plan_group *group = &plan->groups[g];
    bool all = group->step_count == plan->step_count;
    mmci_text_printf(text, g > 0 ? "                 " : "calls            ");
    if (all)
      mmci_text_printf(text, "one call");
    else
      mmci_text_printf(text, "group %" PRId32, g + 1);
    mmci_text_printf(text, " of %" PRId32 " steps:", group->step_count);
    put_group_steps(plan, group, text);
    bool measured = group->source == MMCI_MEASURED;
    mmci_text_printf(text, "; %s %s", measured ? "measured" : "predicted",
                     mmci_in_units(group->predicted_s, "s").text);
    if (plan->explainer->put_group != NULL) plan->explainer->put_group(plan, group, text);
    mmci_text_printf(text, ", one by one %s\n", mmci_in_units(group->separate_s, "s").text);
  }
  if (plan->group_count > TEXT_STEPS)
    mmci_text_printf(text, "                 ... and %" PRId32 " more groups\n",
                     plan->group_count - TEXT_STEPS);
}

static void put_steps(const mmci_plan *plan, mmci_text *text) {
  int32_t count = plan->step_count;
  if (count == 0) return;
  const mmci_explainer *x = plan->explainer;
  mmci_u128 total = mmci_plan_cost(plan);
  mmci_text_printf(text, "\n%-24s %10s %10s %10s %8s %16s %7s%s\n", "step", "m", "k", "n", "kernel",
                   words(x->cost, "multiplications"), "share", words(x->columns, ""));
  for (int32_t s = 0; s < count && s < TEXT_STEPS; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    char product[128];
    snprintf(product, sizeof product, "%s = %s %s",
             mmci_operand_name(plan, plan->chain->n + s).text,
             mmci_operand_name(plan, step->left).text, mmci_operand_name(plan, step->right).text);
    mmci_u128 cost = mmci_plan_step_cost(plan, s);
    double share = total != 0 ? 100 * (double)cost / (double)total : 0;
    mmci_text_printf(text, "%-24s %10" PRId64 " %10" PRId64 " %10" PRId64 " %8s %16s %5.1f %%",
                     product, step->m, step->k, step->n, step->kernel, mmci_decimal(cost).text,
                     share);
    if (x->put_step != NULL) x->put_step(plan, s, text);
    mmci_text_printf(text, "\n");
  }
  if (count > TEXT_STEPS)
    mmci_text_printf(text, "... and %" PRId32 " more steps\n", count - TEXT_STEPS);
}

/* Writes what the result is off by at most, where a tolerance was given. */
static void put_tolerance(const mmci_plan *plan, mmci_text *text) {
  if (plan->tolerance == 0) return;
  mmci_text_printf(text, "tolerance        %g asked; ", plan->tolerance);
  if (plan->error_bound == 0)
    mmci_text_printf(text, "the result is exact\n");
  else if (plan->error_bound <= plan->tolerance)
    mmci_text_printf(text, "off by at most %.2g of the product of the factors' lengths\n",
                     plan->error_bound);
  else
    mmci_text_printf(text,
                     "not sure of it, with no arithmetic of %s here: off by at most %.2g of the "
                     "product of the factors' lengths\n",
                     mmc_dtype_name(plan->chain->dtype), plan->error_bound);
}

static mmc_status explain_text(const mmci_plan *plan, mmci_text *text, mmci_error *error) {
  mmci_text_printf(text, "chain            ");
  mmc_chain_write(plan->chain, mmci_write_to_text, text);
  put_batch(plan, text);
  put_common(plan, text);
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
                   mmci_decimal(plan->multiplications).text);
  mmci_put_comparison(plan, text);
  put_overflow(plan->chain, text);
  if (plan->explainer->put_summary != NULL) plan->explainer->put_summary(plan, text);
  mmci_text_printf(text, "\nworkspace        %" PRIu64 " bytes\ndevice           %s\n",
                   plan->workspace_bytes, plan->device);
  if (strcmp(plan->precision, "native") != 0)
    mmci_text_printf(text, "precision        %s\n", plan->precision);
  put_tolerance(plan, text);
  put_residence(plan, text);
  put_groups(plan, text);
  put_steps(plan, text);
  if (plan->note.put_text != NULL) plan->note.put_text(plan->note.user, plan, text);
  if (plan->explainer->put_choices == NULL) return MMC_OK;
  return plan->explainer->put_choices(plan, plan->chain->n <= TEXT_STEPS, text, error);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static mmci_u128 flops(const mmc_chain *chain, mmci_u128 multiplications) {
  /* A complex multiplication and addition take eight real flops. */
  return mmci_u128_mul(multiplications, mmci_dtype_is_complex(chain->dtype) ? 8 : 2);
}

static void put_json_split(const mmci_plan *plan, const mmci_plan_step *step, mmci_text *text) {
  char recipe[MMCI_RECIPE_TEXT_SIZE];
  if (mmci_plan_recipe(step) != NULL && mmci_recipe_format(step->recipe, &plan->variants, recipe))
    mmci_text_printf(text, ", \"split\": \"%s\"", recipe);
  else
    mmci_text_printf(text, ", \"split\": null");
  if (plan->explainer->put_json_step != NULL) plan->explainer->put_json_step(plan, step, text);
}

static void put_json_fusion(const mmci_plan *plan, int32_t s, mmci_text *text) {
  const mmci_step_traffic *fused = mmci_fused_step(plan, s);
  if (fused == NULL)
    mmci_text_printf(text, "\"fusion\": null");
  else
    mmci_text_printf(text, "\"fusion\": \"%s\", \"partner\": \"%s\"",
                     mmci_fusion_name(fused->fusion),
                     mmci_operand_name(plan, plan->chain->n + fused->choice.partner).text);
  mmci_traffic kernel = plan->traffic != NULL ? plan->traffic->steps[s].kernel : (mmci_traffic){0};
  if (kernel.x == 0)
    mmci_text_printf(text, ", \"tile\": null");
  else
    mmci_text_printf(text, ", \"tile\": [%" PRId64 ", %" PRId64 "]", kernel.x, kernel.y);
}

static void put_json_groups(const mmci_plan *plan, mmci_text *text) {
  mmci_text_printf(text, ", \"levels\": %" PRId32 ", \"groups\": [", mmci_plan_levels(plan));
  for (int32_t g = 0; g < plan->group_count; g++) {
    const mmci_plan_group *group = &plan->groups[g];
    mmci_text_printf(
        text, "%s\n  {\"steps\": %" PRId32 ", \"result\": \"%s\", \"kernel\": ", g > 0 ? "," : "",
        group->step_count,
        mmci_operand_name(plan, plan->chain->n + group->steps[group->step_count - 1]).text);
    mmci_text_json_string(text, group->kernel);
    mmci_text_printf(text, ", \"predicted_s\": %.6g, \"separate_s\": %.6g", group->predicted_s,
                     group->separate_s);
    mmci_text_printf(text, ", \"source\": \"%s\"", mmci_provenance_name(group->source));
    if (plan->explainer->put_json_group != NULL) plan->explainer->put_json_group(group, text);
    mmci_text_printf(text, "}");
  }
  mmci_text_printf(text, "]");
}

static void put_json_counts(const mmci_plan *plan, mmci_text *text) {
  const mmc_chain *chain = plan->chain;
  mmci_text_printf(text, ", \"multiplications\": ");
  mmci_put_json_count(text, plan->multiplications);
  mmci_text_printf(text, ", \"flops\": ");
  mmci_put_json_count(text, flops(chain, plan->multiplications));
  mmci_text_printf(text, ", \"left_to_right_multiplications\": ");
  mmci_u128 left = mmci_plan_left_to_right(plan);
  if (left == MMCI_U128_MAX)
    mmci_text_printf(text, "null");
  else
    mmci_put_json_count(text, left);
  if (!mmci_plan_is_tree(plan)) {
    mmci_text_printf(text, ", \"best_order_multiplications\": ");
    mmci_put_json_count(text, plan->tree_multiplications);
  }
  if (may_overflow(chain))
    mmci_text_printf(text, ", \"overflow_exponent\": %.0f", floor(largest_exponent(chain)));
}

static void put_json_memory(const mmci_plan *plan, mmci_text *text) {
  mmci_text_printf(text, ", \"peak_workspace_bytes\": %" PRIu64 ", \"memory_limit_bytes\": ",
                   plan->workspace_bytes);
  if (plan->limited)
    mmci_text_printf(text, "%" PRIu64, plan->limit_bytes);
  else
    mmci_text_printf(text, "null");
  mmci_text_printf(text, ", \"device_memory_bytes\": ");
  if (plan->device_bytes > 0)
    mmci_text_printf(text, "%" PRIu64,
                     plan->streamed || plan->chunk < plan->chain->batch ? plan->device_bytes
                                                                        : plan->resident_bytes);
  else
    mmci_text_printf(text, "null");
  mmci_text_printf(text, ", \"streamed\": %s", plan->streamed ? "true" : "false");
}

static void put_json_steps(const mmci_plan *plan, mmci_text *text) {
  mmci_text_printf(text, ", \"steps\": [");
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    mmci_text_printf(text, "%s\n  {\"product\": \"%s = %s %s\", ", s > 0 ? "," : "",
                     mmci_operand_name(plan, plan->chain->n + s).text,
                     mmci_operand_name(plan, step->left).text,
                     mmci_operand_name(plan, step->right).text);
    mmci_text_printf(text, "\"m\": %" PRId64 ", \"k\": %" PRId64 ", \"n\": %" PRId64 ", ", step->m,
                     step->k, step->n);
    put_json_fusion(plan, s, text);
    put_json_split(plan, step, text);
    mmci_text_printf(text, ", \"kernel\": ");
    mmci_text_json_string(text, step->kernel);
    if (step->group >= 0)
      mmci_text_printf(text, ", \"group\": %" PRId32, step->group);
    else
      mmci_text_printf(text, ", \"group\": null");
    if (is_computed_once(plan, plan->chain->n + s)) mmci_text_printf(text, ", \"once\": true");
    mmci_text_printf(text, ", \"cost\": ");
    mmci_put_json_count(text, mmci_plan_step_cost(plan, s));
    mmci_text_printf(text, "}");
  }
  mmci_text_printf(text, "%s]", plan->step_count > 0 ? "\n" : "");
}

static void put_json_shared(const mmc_chain *chain, mmci_text *text) {
  if (chain->shared == NULL) return;
  const char *before = ", \"shared\": [";
  for (int32_t i = 0; i < chain->n; i++) {
    if (!mmc_chain_shared(chain, i)) continue;
    mmci_text_printf(text, "%s%" PRId32, before, i + 1);
    before = ", ";
  }
  mmci_text_printf(text, "]");
}

static mmc_status explain_json(const mmci_plan *plan, mmci_text *text, mmci_error *error) {
  const mmc_chain *chain = plan->chain;
  mmci_text_printf(text, "{\"chain\": \"");
  mmc_chain_write(chain, mmci_write_to_text, text);
  mmci_text_printf(text, "\", \"batch\": %" PRId64 ", \"chains_at_a_time\": %" PRId64, chain->batch,
                   plan->chunk);
  put_json_shared(chain, text);
  mmci_text_printf(text, ", \"objective\": \"%s\", \"solver\": \"%s\", \"device\": ",
                   plan->explainer->objective, plan->solver);
  mmci_text_json_string(text, plan->device);
  if (plan->tolerance > 0)
    mmci_text_printf(text, ", \"precision\": \"%.15g\", \"error_bound\": %.6g, \"order\": \"",
                     plan->tolerance, plan->error_bound);
  else
    mmci_text_printf(text, ", \"precision\": \"%s\", \"order\": \"", plan->precision);
  mmc_status status = put_order(plan, text, error);
  if (status != MMC_OK) return status;
  mmci_text_printf(text, "\"");
  put_json_counts(plan, text);
  put_json_memory(plan, text);
  if (plan->explainer->put_json != NULL) status = plan->explainer->put_json(plan, text, error);
  if (status != MMC_OK) return status;
  put_json_groups(plan, text);
  if (plan->note.put_json != NULL) plan->note.put_json(plan->note.user, plan, text);
  put_json_steps(plan, text);
  mmci_text_printf(text, "}\n");
  return MMC_OK;
}

/* ---- dot ----------------------------------------------------------------------------------- */

static void explain_dot(const mmci_plan *plan, mmci_text *text) {
  static const char *const op_marks[] = {[MMC_OP_N] = "", [MMC_OP_T] = "'", [MMC_OP_H] = "*"};
  const mmc_chain *chain = plan->chain;
  mmci_text_printf(text, "digraph plan {\n  rankdir=BT;\n  node [fontname=\"sans-serif\"];\n");
  for (int32_t i = 0; i < chain->n; i++)
    if (mmci_plan_is_tree(plan) || mmc_chain_same(chain, i) == i)
      mmci_text_printf(text,
                       "  A%" PRId32 " [shape=box, label=\"A%" PRId32 "%s\\n%" PRId64 " x %" PRId64
                       "\"];\n",
                       i + 1, i + 1, op_marks[chain->ops[i]], chain->dims[i], chain->dims[i + 1]);
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    mmci_decimal_text name = mmci_operand_name(plan, chain->n + s);
    const mmci_step_traffic *fused = mmci_fused_step(plan, s);
    bool inside = mmci_plan_is_inside(plan, s) || (fused != NULL && fused->choice.partner > s);
    mmci_text_printf(text, "  %s [label=\"%s\\n%" PRId64 " x %" PRId64 "\\n%s%s\"%s];\n", name.text,
                     name.text, step->m, step->n, mmci_decimal(mmci_plan_step_cost(plan, s)).text,
                     words(plan->explainer->cost_mark, ""), inside ? ", style=dashed" : "");
    for (int side = 0; side < 2; side++) {
      int32_t operand = side == 0 ? step->left : step->right;
      bool shared = fused != NULL && operand == chain->n + fused->choice.partner;
      mmci_text_printf(text, "  %s -> %s", mmci_operand_name(plan, operand).text, name.text);
      if (shared)
        mmci_text_printf(text, " [style=bold, label=\"%s fuse\"]", mmci_fusion_name(fused->fusion));
      else if (step->group >= 0 && operand >= chain->n &&
               plan->steps[operand - chain->n].group == step->group)
        mmci_text_printf(text, " [style=bold]");
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
    case MMC_SVG:
      status = mmci_plan_draw(plan, &text, error);
      break;
    default:
      return mmci_fail(error, MMC_E_ARG, "format: expected MMC_TEXT, MMC_JSON, MMC_DOT or MMC_SVG");
  }
  return status != MMC_OK ? status : mmci_text_finish(&text, error);
}
