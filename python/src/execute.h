/* execute.h: a chain of arrays to its product, in one call from Python. */
#ifndef MMCP_EXECUTE_H
#define MMCP_EXECUTE_H

#include "state.h"

/* execute(plan, arrays, out, objective, device, precision, stream, bf16): the product of arrays
 * that can be read where they lie; NotImplemented when they cannot, or do not fit together: the
 * caller then finds out why, and what to do about it.
 *
 * plan        a Plan, or None for the cached one of these shapes and options
 * objective   "stored" beside a Plan that has ops: arrays are matrices whose conjugates an H takes,
 *             and not the factors themselves, with which such a Plan is NotImplemented
 * arrays      a sequence of numpy.ndarray, capsules of DLPack or objects of a type with its
 * exchange functions; the last two dimensions are the matrix, the others a stack and broadcast; the
 *             first and the last may have one dimension
 * out         likewise, of the result's shape; None: a new array of the first one's kind (no
 * capsule) stream      where the work goes for capsules on CUDA, an int; None: it is done on
 * return. Exchange functions name the current stream themselves bf16        take NumPy's uint16 for
 * bf16 */
PyObject *mmcp_execute(PyObject *module, PyObject *const *args, Py_ssize_t count);

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
