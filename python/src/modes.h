/* modes.h: what PyTorch is in the middle of, so that products must be its own. */
#ifndef MMCP_MODES_H
#define MMCP_MODES_H

#include "state.h"

/* Each returns 1 or 0, 0 where nobody has loaded PyTorch, or -1 with an exception set; an answer
 * takes a few nanoseconds. */

/* Whether torch.autocast may have products in other dtypes. */
int mmcp_is_autocast(void);
/* Whether operations are watched, by a TorchDispatchMode or a trace, which see PyTorch's alone. */
int mmcp_is_watched(void);
/* Whether a level of forward-mode differentiation is open, so that tensors may have tangents, which
 * are not in their memory. */
int mmcp_has_tangents(void);

/* Whether PyTorch must see a product of ordinary tensors, for one of these: of autocast it is asked
 * where the call has no plan, which says itself what dtype its products have. */
int mmcp_is_torchs(bool has_plan);

/* A function of a library that PyTorch has loaded, or NULL. */
void *mmcp_torch_function(const char *library, const char *name);

/* is_watched(): the second, for Python. */
PyObject *mmcp_watched(PyObject *module, PyObject *unused);

#endif
