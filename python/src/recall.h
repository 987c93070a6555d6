/* recall.h: calls that come again: the same tensors of a GPU, with nothing about them changed.
 *
 * A short chain takes a GPU less time than the host takes to find out what it is asked for. So a
 * call that came twice is kept, with the matrices that were read off its tensors; when it comes
 * again, it is only asked whether the tensors are what they were. A kept call holds neither tensors
 * nor plan: a weak reference tells whether an address is still the same tensor's. */
#ifndef MMCP_RECALL_H
#define MMCP_RECALL_H

#include "plan.h"
#include "view.h"

/* What a call was given: a plan, or NULL where one is to be found. */
typedef struct mmcp_asked {
  mmcp_plan *plan;
  bool for_flops; /* without a plan: the objective, which is time otherwise */
  bool is_chain;  /* the one tensor is a stack, whose matrices are the chain */
  PyObject *const *tensors;
  Py_ssize_t count;
  PyObject *out; /* NULL: a new tensor is asked for */
} mmcp_asked;

/* Executes the call when it is kept and its tensors are as they were: 1, with a new reference in
 * *result. Returns 0 when it is not, and -1 with an exception set. */
int mmcp_recall(const mmcp_asked *asked, PyObject **result);

/* Keeps a call when it came before, with the plan that executed it and matrices without tables of
 * addresses: those of the n factors of the plan, and the result. views are those of the tensors,
 * then the result's. */
void mmcp_recall_keep(const mmcp_asked *asked, mmcp_plan *plan, const mmcp_view *views,
                      const mmcp_view *result, const mmc_matrix *matrices);

/* Forgets the calls that this plan is for. */
void mmcp_recall_forget(mmcp_plan *plan);

#endif
