/* explain.h: how plans are explained. explain.c writes what every plan has, and asks the table of
 * the objective for the rest. */
#ifndef MMCI_EXPLAIN_H
#define MMCI_EXPLAIN_H

#include "base/text.h"
#include "plan/predictions.h"

/* What an objective adds to an explanation. */
typedef struct mmci_explainer {
  const char *objective;  /* name of the objective */
  const char *cost;       /* what the cost of a step counts: "multiplications", "words" */
  const char *cost_mark;  /* stands behind a cost in a picture: " words" */
  const char *batch_note; /* text that stands behind the size of a batch */
  const char *columns;    /* the head of the columns that put_step writes */
  mmci_u128 (*plan_cost)(const mmci_plan *plan);
  mmci_u128 (*step_cost)(const mmci_plan *plan, int32_t step);
  /* Writes why the plan has this order; returns false, with nothing written, when it is that of
   * fewest multiplications, or when explain.c can tell it by itself. */
  bool (*put_reason)(const mmci_plan *plan, mmci_text *text);
  /* Writes what follows the reason. */
  void (*put_afterword)(const mmci_plan *plan, mmci_text *text);
  /* Writes lines about the whole plan. */
  void (*put_summary)(const mmci_plan *plan, mmci_text *text);
  void (*put_step)(const mmci_plan *plan, int32_t step, mmci_text *text);
  void (*put_group)(const mmci_plan *plan, const mmci_plan_group *group, mmci_text *text);
  mmc_status (*put_choices)(const mmci_plan *plan, bool with_orders, mmci_text *text,
                            mmci_error *error);
  /* Writes the same in JSON: members with a comma before each. */
  mmc_status (*put_json)(const mmci_plan *plan, mmci_text *text, mmci_error *error);
  void (*put_json_step)(const mmci_plan *plan, const mmci_plan_step *step, mmci_text *text);
  void (*put_json_group)(const mmci_plan_group *group, mmci_text *text);
} mmci_explainer;

extern const mmci_explainer mmci_explain_flops;
extern const mmci_explainer mmci_explain_traffic;
extern const mmci_explainer mmci_explain_time;
extern const mmci_explainer mmci_explain_energy;
/* This is of plans by multiplications whose steps have seconds by the device's model. */
extern const mmci_explainer mmci_explain_modelled;
/* These are of plans whose factors have structure. */
extern const mmci_explainer mmci_explain_structure;
extern const mmci_explainer mmci_explain_structure_time;

/* ---- words that several of them use -------------------------------------------------------- */

typedef struct mmci_decimal_text {
  char text[MMC_COUNT_TEXT_SIZE];
} mmci_decimal_text;

mmci_decimal_text mmci_decimal(mmci_u128 value);
/* Returns A1, or T3 for the result of step 3; the last step's result is called R. */
mmci_decimal_text mmci_operand_name(const mmci_plan *plan, int32_t operand);

typedef struct mmci_quantity {
  char text[24];
} mmci_quantity;

/* Returns "1.5 ms". */
mmci_quantity mmci_in_units(double value, const char *unit);

/* Returns the cost of a step, and of all, in what the objective counts, or in multiplications. */
mmci_u128 mmci_plan_step_cost(const mmci_plan *plan, int32_t step);
mmci_u128 mmci_plan_cost(const mmci_plan *plan);
/* Returns the seconds of all steps in a plan of mmci_explain_modelled; NaN for others. */
double mmci_plan_modelled_s(const mmci_plan *plan);
/* Writes how the order compares with multiplying from left to right, " (left to right: 40500, 2.68
 * times)". */
void mmci_put_comparison(const mmci_plan *plan, mmci_text *text);

/* This is a write function for an mmci_text. */
int mmci_write_to_text(void *text, const char *bytes, size_t size);
/* Writes a JSON number with all of its digits. */
void mmci_put_json_count(mmci_text *text, mmci_u128 value);
/* Counts the products on the longest path from a factor to the result. */
int32_t mmci_plan_levels(const mmci_plan *plan);
const char *mmci_fusion_name(mmc_fusion fusion);
/* Returns the traffic of a step that shares a kernel; NULL for others, and in other plans. */
const mmci_step_traffic *mmci_fused_step(const mmci_plan *plan, int32_t step);
/* These write what plans for time and for energy say about their order, about the whole, and about
 * a step. */
bool mmci_put_time_reason(const mmci_plan *plan, mmci_text *text);
void mmci_put_time_afterword(const mmci_plan *plan, mmci_text *text);
void mmci_put_sources(const mmci_plan *plan, mmci_text *text);
void mmci_put_json_sources(const mmci_plan *plan, mmci_text *text);
/* Writes " 1.2 ms measured n:96,32". */
void mmci_put_step_time(const mmci_plan *plan, const mmci_plan_step *step, mmci_text *text);
void mmci_put_json_step_time(const mmci_plan_step *step, mmci_text *text);

#endif
