/* call.c: see call.h: how a call begins and ends. */
#include "call.h"

#include <stdlib.h>

/* Gives the call room for n factors, in `room` or in *block, which mmcp_call_close() frees. Returns
 * false when there is no memory. */
static bool make_room(mmcp_call *c, Py_ssize_t n, bool is_chain, mmcp_few *room, char **block) {
  c->n = n;
  c->is_chain = is_chain;
  c->acquired = c->stack_ndim = 0;
  c->together = 1;
  c->on_stream = c->checked = c->has_ops = c->has_shared = c->gathers = c->is_finished =
      c->seeks_parts = c->may_be_torchs = false;
  c->part_count = 0;
  c->modulus = 0;
  c->semiring = MMC_PLUS_TIMES;
  c->exponents = NULL;
  c->errors = 0;
  c->views = room->views;
  c->matrices = room->matrices;
  c->dims = room->dims;
  c->same = room->same;
  c->seen = room->seen;
  c->ops = room->ops;
  c->shared = room->shared;
  c->seen_bits = MMCP_FEW_BITS;
  c->result = &c->views[is_chain ? 1 : n];
  *block = NULL;
  if (n <= MMCP_FEW_FACTORS) return true;
  size_t count = (size_t)n + 1;
  while ((size_t)n > (size_t)1 << (c->seen_bits - 1)) c->seen_bits++;
  const size_t views = is_chain ? 2 : count, seen = is_chain ? 0 : (size_t)1 << c->seen_bits;
  *block = malloc(views * sizeof *c->views + count * (sizeof *c->matrices + 2 * sizeof *c->dims) +
                  seen * sizeof *c->seen + (size_t)n * (sizeof *c->ops + sizeof *c->shared));
  if (*block == NULL) return false;
  c->views = (mmcp_view *)(void *)*block;
  c->result = &c->views[views - 1];
  c->matrices = (mmc_matrix *)(c->views + views);
  c->dims = (int64_t *)(c->matrices + count);
  c->same = c->dims + count;
  c->seen = c->same + count;
  c->ops = (mmc_op *)(c->seen + seen);
  c->shared = (bool *)(c->ops + n);
  return true;
}

bool mmcp_call_open(mmcp_call *c, Py_ssize_t n, mmcp_view *stack, mmcp_few *room, char **block) {
  if (!make_room(c, n, stack != NULL, room, block)) {
    if (stack != NULL) mmcp_view_release(stack);
    PyErr_NoMemory();
    return false;
  }
  if (stack != NULL) c->stack = *stack;
  return true;
}

void mmcp_call_close(mmcp_call *c, char *block) {
  /* When a stack is the chain, views begin with what the stack holds. */
  if (c->is_chain) mmcp_view_release(&c->stack);
  for (int v = 0; v < c->acquired; v++) mmcp_view_release(&c->views[c->is_chain ? v + 1 : v]);
  free(block);
}

Py_ssize_t mmcp_acquire_chain(PyObject *array, mmcp_want want, mmcp_view *out) {
  int got = mmcp_view_acquire(array, want, out);
  const int64_t n = got == 1 && out->ndim > 2 ? out->shape[out->ndim - 3] : 0;
  if (n < 1) mmcp_view_release(out);
  return got < 0 ? -1 : (Py_ssize_t)n;
}
