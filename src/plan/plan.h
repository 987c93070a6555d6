/* plan.h: an order turned into steps, each with a place for its result; some of them run as one
 * call of the device. */
#ifndef MMCI_PLAN_H
#define MMCI_PLAN_H

#include "base/provenance.h"
#include "chain/chain.h"
#include "cost/recipe.h"
#include "order/order.h"
#include "structure/steps.h"

struct mmci_plan;

/* One product. Operands are numbered as in mmc_step. */
typedef struct mmci_plan_step {
  int64_t m, k, n;
  int32_t left, right;
  int32_t first, last; /* the factors that the step covers, from 0, where they occur first */
  /* The result is one matrix for all chains, computed once for those of a chunk. */
  bool is_common;
  uint64_t offset_bytes; /* where the result lies in the workspace; the last step's does not */
  const char *kernel;    /* static text: what the device will run; "" when not asked for */
  /* How the device computes it; NULL means by one plain call. The plan owns it. */
  const mmci_recipe *recipe;
  /* Where the copies that the recipe needs lie in the room for padding. */
  uint64_t padding_offset_bytes;
  double predicted_s;            /* seconds; NaN when the objective is neither time nor energy */
  double plain_s;                /* seconds of the plain call, where there is a recipe */
  mmci_provenance source;        /* source of recipe and predicted_s */
  double predicted_j;            /* joules; set in a plan for energy */
  double plain_j;                /* joules of the plain call, where there is a recipe */
  mmci_provenance joules_source; /* source of predicted_j */
  int32_t group;                 /* the group that the step runs in; -1 when it is in none */
  int32_t level;                 /* products on the longest path to it from a factor, with itself */
} mmci_plan_step;

/* Steps that one call of the device executes, at the place of the last of them, whose result is the
 * group's. The results of the others never leave the device's call and take no workspace. */
typedef struct mmci_plan_group {
  int32_t step_count, operand_count;
  int32_t *steps; /* step_count steps, rising; each but the last is read only within the group */
  /* What the group reads from outside, numbered as in mmc_step, along the chain. */
  int32_t *operands;
  const char *kernel;             /* static text: what the device will run; "" when not asked for */
  double predicted_s, separate_s; /* seconds of the one call, and of a call for each step */
  double predicted_j;             /* joules of the one call, in a plan for energy */
  /* Source of predicted_s: MMCI_MEASURED, MMCI_MODELLED or MMCI_SHIPPED. */
  mmci_provenance source;
} mmci_plan_group;

struct mmci_text;

/* What those who execute a plan together add to its explanation; zeros where one device does it. */
typedef struct mmci_plan_note {
  const void *user;
  void (*put_text)(const void *user, const struct mmci_plan *plan, struct mmci_text *text);
  /* Writes members with a comma before each. */
  void (*put_json)(const void *user, const struct mmci_plan *plan, struct mmci_text *text);
} mmci_plan_note;

/* A plan multiplies a chain by products in the order in which they run. tree is that order; what
 * repeats in it may be computed once, then there are fewer steps than its products. Every sub-tree
 * is finished before another begins, the child first that makes the workspace smaller. A result
 * lies in the workspace, row-major without gaps, from its step to the last one that reads it; that
 * of the last step is the caller's. Results alternate between the two ends of the workspace, so
 * that what is free is always one piece and the workspace is no larger than the most that lives at
 * once; with groups or results that are read twice they lie where mmci_plan_place() finds room.
 * Nothing changes once a plan is made, so threads may share it. */
typedef struct mmci_plan {
  mmc_chain *chain; /* the plan's own copy */
  mmci_tree tree;
  mmci_plan_step *steps; /* step_count steps; every result but the last is read by a later step */
  int32_t step_count;    /* n-1 steps, or fewer where results are read several times */
  int32_t group_count;
  mmci_plan_group *groups;
  mmci_u128 multiplications; /* multiplications of all chains, what these share once */
  int64_t chunk;             /* chains at a time: the batch, or fewer when memory is short */
  uint64_t workspace_bytes;  /* bytes for the chains of one chunk */
  const char *solver;        /* static text: the solver that found the order */
  const char *device;        /* name of the device; it outlives the plan */
  uint64_t most_bytes; /* workspace that was allowed, the lesser limit; 0 where that is not known */
  /* These are set when a memory limit turned the cheapest order down. */
  bool limited;
  mmci_u128 unlimited_multiplications;
  uint64_t unlimited_bytes, limit_bytes;
  /* When the plan is no tree, see mmci_plan_is_tree(): the multiplications of the best tree. */
  mmci_u128 tree_multiplications;
  /* What computing once what repeats would have taken, where that is too much; else 0. */
  uint64_t shared_bytes;
  /* These are for a device with memory of its own, see mmci_plan_fit(). */
  bool parallel; /* sub-trees share no memory and may be computed at the same time */
  bool streamed; /* intermediates are on the host, products pass through the device in panels */
  /* Bytes of all that is there at once; 0 when memory is the host's. */
  uint64_t resident_bytes;
  uint64_t device_bytes;  /* bytes of the device's memory that the plan may take */
  uint64_t padding_bytes; /* part of resident_bytes: room for operands that recipes pad */
  uint64_t scratch_bytes; /* part of resident_bytes: what prepared products hold for themselves */
  bool crowded;           /* scratch_bytes do not fit and are in no other number here */
  const char *precision;  /* static text: the precision's name */
  /* What the result may be off by, as a part of the product of the factors' lengths, and what it is
   * off by at most; 0 where no tolerance was given. */
  double tolerance, error_bound;
  mmci_variants variants;      /* what the recipes' texts call the device's variants */
  mmci_recipe *kernel_recipes; /* the steps' recipes, when a kernel was asked for; else NULL */
  const struct mmci_explainer *explainer; /* what the objective explains, see explain.h */
  bool scaled; /* results have exponents, and steps are executed one by one */
  mmci_plan_note note;
  /* Predictions of the objective, see predictions.h; NULL when it is flops. */
  struct mmci_plan_traffic *traffic;     /* NULL unless the objective is traffic */
  struct mmci_plan_time *time;           /* NULL unless the objective is time or energy */
  struct mmci_plan_energy *energy;       /* NULL unless the objective is energy */
  struct mmci_plan_structure *structure; /* NULL unless factors have structure that is used */
} mmci_plan;

/* What a plan has besides where factors have structure. Its chains are multiplied one by one. */
typedef struct mmci_plan_structure {
  mmci_structure_steps steps;    /* one for every step of the plan */
  uint64_t scratch_offset_bytes; /* in the workspace: room for copies that a step works on */
  bool by_time;
  bool on_device; /* factors are read in a device's memory */
  /* Where inverses of products are taken apart: the factor at each place of the tree; else NULL. */
  int32_t *factors;
} mmci_plan_structure;

/* Multiplies fewer chains at a time where all take more workspace than limit_bytes: at least one,
 * and about the same number every time. */
mmc_status mmci_plan_shrink(mmci_plan *plan, uint64_t limit_bytes, mmci_error *error);
/* Plans this tree, which it takes over, on failure too. solver and device are left "". */
mmc_status mmci_plan_from_tree(const mmc_chain *chain, mmci_tree *tree, mmci_plan *out,
                               mmci_error *error);
void mmci_plan_destroy(mmci_plan *plan);

/* Says whether every result is read once. */
static inline bool mmci_plan_is_tree(const mmci_plan *plan) {
  return plan->step_count == plan->chain->n - 1;
}

/* Returns the factors that a step covers and where it splits them, as mmci_tree_ranges() does. A
 * factor that repeats is an operand by the number of the first that is the same. */
static inline mmci_range mmci_plan_range(const mmci_plan *plan, const mmci_plan_step *step) {
  int32_t n = plan->chain->n;
  const mmci_plan_step *left = step->left < n ? NULL : &plan->steps[step->left - n];
  int32_t length = left != NULL ? left->last - left->first + 1 : 1;
  return (mmci_range){step->first, step->first + length, step->last + 1};
}

/* Says whether a step's result never leaves the call of its group. */
static inline bool mmci_plan_is_inside(const mmci_plan *plan, int32_t step) {
  int32_t group = plan->steps[step].group;
  return group >= 0 && plan->groups[group].steps[plan->groups[group].step_count - 1] != step;
}

/* Returns which of the group's steps, which rise, a step is, or -1. */
static inline int32_t mmci_plan_group_place(const mmci_plan_group *group, int32_t step) {
  const int32_t *steps = group->steps, count = group->step_count, last = steps[count - 1];
  int32_t low = 0, high = count;
  if (step < steps[0] || step > last) return -1;
  if (last - steps[0] == count - 1) return step - steps[0]; /* the steps are in a row */
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (steps[middle] < step)
      low = middle + 1;
    else
      high = middle;
  }
  return steps[low] == step ? low : -1;
}

/* Returns the recipe of a step that is a call of its own; NULL means one plain call, or that of its
 * group. */
static inline const mmci_recipe *mmci_plan_recipe(const mmci_plan_step *step) {
  return step->group < 0 ? step->recipe : NULL;
}

/* Returns what the call of a step reads from outside: the operands of its group, or both of its own
 * (which lie in the step, so that it must stay). *count says how many. */
static inline const int32_t *mmci_plan_reads(const mmci_plan *plan, const mmci_plan_step *step,
                                             int32_t *count) {
  const mmci_plan_group *group = step->group >= 0 ? &plan->groups[step->group] : NULL;
  *count = group != NULL ? group->operand_count : 2;
  return group != NULL ? group->operands : &step->left;
}

/* Says whether sums of such a product of the plan must not be cut along k, because it is
 * reproducible and mmci_gemm_keeps_k() says so. */
bool mmci_plan_keeps_k(const mmci_plan *plan, int64_t m, int64_t k, int64_t n);

/* Says whether the matrix of factor i is only read by steps that take its line. */
bool mmci_plan_takes_line(const mmci_plan *plan, int32_t i);

/* Writes every step's mmci_plan_range() to an array that the caller frees. Returns E_NOMEM. */
mmc_status mmci_plan_ranges(const mmci_plan *plan, mmci_range **out, mmci_error *error);
/* Returns how often a step is computed for all chains together: once where its result is common,
 * but for every chain where the plan is streamed or results have exponents. */
static inline int64_t mmci_plan_step_batch(const mmci_plan *plan, const mmci_plan_step *step) {
  return step->is_common && !plan->streamed && !plan->scaled ? 1 : plan->chain->batch;
}
/* Returns the multiplications of a step, for all chains, those of products of shared factors alone
 * once; of a step with structure, those of its kernel. */
mmci_u128 mmci_plan_step_multiplications(const mmci_plan *plan, const mmci_plan_step *step);
/* Returns the multiplications of the chain left to right; MMCI_U128_MAX when they do not fit. */
mmci_u128 mmci_plan_left_to_right(const mmci_plan *plan);

mmc_status mmci_plan_explain(const mmci_plan *plan, mmc_format format, mmc_write_fn write,
                             void *user, mmci_error *error);

#endif
