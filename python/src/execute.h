/* execute.h: a chain of arrays to its product, in one call from Python. */
#ifndef MMCP_EXECUTE_H
#define MMCP_EXECUTE_H

#include "state.h"

/* execute(plan, arrays, out, objective, device, precision, stream, bf16): the product of arrays
 * that can be read where they lie; NotImplemented when they cannot, or do not fit together: the
 * caller then finds out why, and what to do about it.
 *
 * plan
 *     a Plan, or None for the cached one of these shapes and options
 * arrays
 *     a sequence of numpy.ndarray, capsules of DLPack or objects of a type with its exchange
 *     functions; the last two dimensions are the matrix, the others a stack and broadcast; the
 *     first and the last may have one dimension
 * out
 *     likewise, of the result's shape; None: a new array of the first one's kind (no capsule)
 * objective
 *     "stored" beside a Plan that has ops: arrays are matrices whose conjugates an H takes, and not
 *     the factors themselves, with which such a Plan is NotImplemented
 * stream
 *     where the work goes for capsules on CUDA, an int; None: it is done on return. Exchange
 *     functions name the current stream themselves
 * bf16
 *     take NumPy's uint16 for bf16 */
PyObject *mmcp_execute(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
