/* modes.h: what PyTorch is in the middle of, so that products must be its own. */
#ifndef MMCP_MODES_H
#define MMCP_MODES_H

#include "state.h"

/* Questions answer 1 or 0, 0 where nobody has loaded PyTorch, or -1 with an exception set; an
 * answer takes a few nanoseconds. */

/* Says whether torch.autocast may have products in other dtypes. */
int mmcp_is_autocast(void);
/* Says whether torch.autocast has products on the CPU in 16 bits, and in which dtype; false where
 * PyTorch cannot be asked at once. */
bool mmcp_autocast(mmc_dtype *out);
/* Says whether PyTorch itself must multiply ordinary tensors, because its operations are watched,
 * because tensors may have tangents, or because of autocast. Autocast does not matter to a call
 * that has a plan, since the plan says what dtype its products have. */
int mmcp_is_torchs(bool has_plan);

/* Returns a function of a library that PyTorch has loaded, or NULL. */
void *mmcp_torch_function(const char *library, const char *name);

/* is_watched() of the module _mmchain: says whether operations are watched, by a TorchDispatchMode
 * or a trace, which see PyTorch's own operations alone. */
PyObject *mmcp_watched(PyObject *module, PyObject *unused);

#endif
