/* call_plan.h: the plan by which the arrays of a call are multiplied. */
#ifndef MMCP_CALL_PLAN_H
#define MMCP_CALL_PLAN_H

#include "cache.h"
#include "call.h"

/* What a plan depends on; it points into the call. */
mmcp_problem mmcp_problem_of(const mmcp_call *c);

/* Finds the plan as a new reference in *out, NULL where the chain is to be multiplied without one:
 * the given one, unless that is None, or the cached one for the objective, device and precision in
 * strings. Returns 1; 0 when the arrays cannot be multiplied here; -1 with an exception set. */
int mmcp_find_plan(mmcp_call *c, PyObject *given, PyObject *const *strings, mmcp_plan **out);

/* Makes of each factor the matrix of which the plan's chain has the op, or the call's where there
 * is no plan. */
void mmcp_turn_factors(mmcp_call *c, const mmcp_plan *plan);

#endif
