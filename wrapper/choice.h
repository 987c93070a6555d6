/* choice.h: how a product of a program that knows nothing of mmchain is best computed, as wisdom
 * has it.
 *
 * A choice is made once for each shape and kept; looking it up takes no lock. Without wisdom
 * nothing is looked up. Calls that come from mmchain itself are left alone, so that no call is ever
 * cut twice. */
#ifndef MMCW_CHOICE_H
#define MMCW_CHOICE_H

#include "mmchain.h"

enum { MMCW_PIECES = 16 };

/* A box of the product: rows, columns and part of the sum. */
typedef struct mmcw_piece {
  int64_t row, col, depth, m, n, k;
} mmcw_piece;

/* How C = op(A) op(B), row-major, m x k by k x n, is computed. Exactly one of the two is there. */
typedef struct mmcw_choice {
  mmcw_piece pieces[MMCW_PIECES]; /* one after the other; those with depth > 0 add to C */
  int count;
  mmc_run *run; /* a plan's run, for recipes with kernels of mmchain; NULL where there are pieces */
} mmcw_choice;

/* What a call asks for, in row-major terms. op is a mmc_op. */
typedef struct mmcw_call {
  mmc_dtype dtype;
  mmc_op op_a, op_b;
  int64_t m, k, n;
  int device; /* -1 for the processor, else the number of the GPU */
} mmcw_call;

/* Says whether a return address is mmchain's own. */
bool mmcw_is_own(const void *caller);

/* Returns the choice for a call that is not mmchain's own; NULL for the plain call. may_plan is
 * false where nothing new may be looked up, as while a stream is captured. Any thread may call it.
 */
const mmcw_choice *mmcw_choose(const mmcw_call *call, bool may_plan);

/* Says whether it is known that nothing will ever be looked up in this process. */
bool mmcw_is_off(void);

/* Executes the run of a choice; false when it did not, as when another thread is at it. */
bool mmcw_execute(const mmcw_choice *choice, const mmc_matrix *factors, const mmc_matrix *out);

/* Returns the function of this name that `caller`, an address in its code, would call without the
 * wrapper, whose own function is `own`; NULL when there is none. */
void *mmcw_next(const char *name, const void *own, const void *caller);

#endif
