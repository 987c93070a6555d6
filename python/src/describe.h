/* describe.h: what execute() would make of arrays, without multiplying them. */
#ifndef MMCP_DESCRIBE_H
#define MMCP_DESCRIBE_H

#include "state.h"

/* chain_of(arrays, bf16): the chain that execute() makes of arrays, as text with their batch and
 * what repeats, the number of their CUDA device, or None, and the text of one product of as many
 * rows, where the stack is that, or None; NotImplemented as execute(). */
PyObject *mmcp_chain_of(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* readable(array, first): whether execute() can read an array where it lies; one dimension makes it
 * the first of a chain, or the last. */
PyObject *mmcp_readable(PyObject *module, PyObject *const *args, Py_ssize_t count);
/* places(arrays): the dtypes, shapes and strides of NumPy's arrays, and which begin at the same
 * address, as bytes; None where an array is not to be read as it lies. */
PyObject *mmcp_places(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
