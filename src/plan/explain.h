/* explain.h: how the plans of an objective are explained. explain.c writes what every plan has, and
 * asks the table of the plan for the rest. */
#ifndef MMCI_EXPLAIN_H
#define MMCI_EXPLAIN_H

#include "base/text.h"
#include "plan/predictions.h"

/* What an objective adds to an explanation. */
typedef struct mmci_explainer {
  const char *objective;  /* its name */
  const char *cost;       /* what the cost of a step counts: "multiplications", "words" */
  const char *cost_mark;  /* behind a cost in a picture: " words" */
  const char *batch_note; /* of plans for a batch, behind its size */
  const char *columns;    /* the head of what put_step writes */
  mmci_u128 (*plan_cost)(const mmci_plan *plan);
  mmci_u128 (*step_cost)(const mmci_plan *plan, int32_t step);
  /* Why the plan has this order; false, and nothing written, when it is that of fewest
   * multiplications, or what else explain.c can tell by itself. */
  bool (*put_reason)(const mmci_plan *plan, mmci_text *text);
  void (*put_afterword)(const mmci_plan *plan, mmci_text *text); /* behind the reason */
  void (*put_summary)(const mmci_plan *plan, mmci_text *text);   /* lines about the whole plan */
  void (*put_step)(const mmci_plan *plan, int32_t step, mmci_text *text);
  void (*put_group)(const mmci_plan *plan, const mmci_plan_group *group, mmci_text *text);
  mmc_status (*put_choices)(const mmci_plan *plan, bool with_orders, mmci_text *text,
                            mmci_error *error);
  /* The same in JSON: members with a comma before each. */
  mmc_status (*put_json)(const mmci_plan *plan, mmci_text *text, mmci_error *error);
  void (*put_json_step)(const mmci_plan *plan, const mmci_plan_step *step, mmci_text *text);
  void (*put_json_group)(const mmci_plan_group *group, mmci_text *text);
} mmci_explainer;

extern const mmci_explainer mmci_explain_flops;
extern const mmci_explainer mmci_explain_traffic;
extern const mmci_explainer mmci_explain_time;
extern const mmci_explainer mmci_explain_energy;

/* ---- words that several of them use -------------------------------------------------------- */

typedef struct mmci_decimal_text {
  char text[MMC_COUNT_TEXT_SIZE];
} mmci_decimal_text;

mmci_decimal_text mmci_decimal(mmci_u128 value);
/* A1, or T3 for the result of step 3; the name of the last step's result is R. */
mmci_decimal_text mmci_operand_name(const mmci_plan *plan, int32_t operand);

typedef struct mmci_quantity {
  char text[24];
} mmci_quantity;

/* "1.5 ms". */
mmci_quantity mmci_in_units(double value, const char *unit);

/* A write function for an mmci_text. */
int mmci_write_to_text(void *text, const char *bytes, size_t size);
/* A number, or a string where not every JSON reader is exact. */
void mmci_put_json_count(mmci_text *text, mmci_u128 value);
/* Products on the longest way from a factor to the result. */
int32_t mmci_plan_levels(const mmci_plan *plan);
const char *mmci_fusion_name(mmc_fusion fusion);
/* The traffic of a step that shares a kernel; NULL for others, and in other plans. */
const mmci_step_traffic *mmci_fused_step(const mmci_plan *plan, int32_t step);
/* What plans for time and for energy say of their order, of the whole, and of a step. */
bool mmci_put_time_reason(const mmci_plan *plan, mmci_text *text);
void mmci_put_time_afterword(const mmci_plan *plan, mmci_text *text);
void mmci_put_wisdom_notice(const mmci_plan *plan, mmci_text *text);
void mmci_put_json_notice(const mmci_plan *plan, mmci_text *text);
/* "  1.2 ms  measured  n:96,32". */
void mmci_put_step_time(const mmci_plan_step *step, mmci_text *text);
void mmci_put_json_step_time(const mmci_plan_step *step, mmci_text *text);

#endif
