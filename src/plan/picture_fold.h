/* picture_fold.h: what a picture of a plan shows, so that it stays within a page however long the
 * chain is.
 *
 * A result is drawn under the first step that reads it; where later steps read it again, its name
 * stands there alone. That makes a tree of the steps. The steps that cost most are shown, and what
 * lies between them is folded: a run of steps on the way from one shown step up to another is one
 * box, with the operands that join on either side of it, and so is a tree of which nothing is
 * shown. */
#ifndef MMCI_PICTURE_FOLD_H
#define MMCI_PICTURE_FOLD_H

#include "plan/plan.h"

/* Returns the left (0) or right (1) operand of a step; of factors that are the same matrix, the
 * first. */
static inline int32_t mmci_step_operand(const mmci_plan *plan, int32_t step, int side) {
  int32_t operand = side == 0 ? plan->steps[step].left : plan->steps[step].right;
  return operand < plan->chain->n ? (int32_t)mmc_chain_same(plan->chain, operand) : operand;
}

/* Says whether a step multiplies a matrix by itself. */
static inline bool mmci_step_squares(const mmci_plan *plan, int32_t step) {
  return mmci_step_operand(plan, step, 0) == mmci_step_operand(plan, step, 1);
}

typedef enum mmci_shown_kind {
  MMCI_SHOWN_FACTOR,   /* one factor */
  MMCI_SHOWN_AGAIN,    /* a result that is drawn elsewhere */
  MMCI_SHOWN_OPERANDS, /* several operands side by side, which join a run */
  MMCI_SHOWN_STEP,
  MMCI_SHOWN_RUN, /* hidden steps between a shown step and one above */
  MMCI_SHOWN_TREE /* hidden steps with all that is below them */
} mmci_shown_kind;

typedef struct mmci_shown {
  mmci_shown_kind kind;
  /* These are numbered as in mmc_step: a factor or result; of several operands, and of a hidden
   * tree, the first and the last along the row. */
  int32_t operand, last;
  int32_t step;        /* the step, or the uppermost of those that are hidden; else -1 */
  int32_t hidden;      /* how many steps a run or tree hides */
  bool alike;          /* each step of a run takes one operand of the row, or each none */
  mmci_u128 cost;      /* cost of the step, or of all that are hidden */
  int32_t group;       /* the group that all of its steps are in; -1 when none */
  int child_count;     /* how many children there are, 0 to 3 */
  int32_t children[3]; /* nodes from left to right; a step that squares has one */
} mmci_shown;

typedef struct mmci_picture_fold {
  mmci_shown *nodes; /* count nodes, children before parents, those of the row from left to right */
  int32_t count;     /* how many nodes there are; the last one is the result */
  int32_t steps;     /* how many steps are shown by themselves */
} mmci_picture_fold;

/* Chooses what to show in a row of at most columns boxes, columns >= 4. It takes O(n) time for each
 * step that is shown. Returns E_NOMEM. */
mmc_status mmci_picture_fold_create(const mmci_plan *plan, int columns, mmci_picture_fold *out,
                                    mmci_error *error);
void mmci_picture_fold_destroy(mmci_picture_fold *fold);

#endif
