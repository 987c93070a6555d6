/* by_numpy.h: matrices that NumPy multiplies, in the cheapest order: of dtypes that the library
 * lacks, of several dtypes some of which are integers, and numpy.matrix. */
#ifndef MMCP_BY_NUMPY_H
#define MMCP_BY_NUMPY_H

#include "state.h"

/* Finds NumPy's functions. Returns 0, or -1 with an exception set. */
int mmcp_by_numpy_learn(PyObject *numpy);

/* Multiplies n arrays, into an array unless that is NULL. Returns 1 with a new reference in *out; 0
 * where they are not such arrays that fit together, or NumPy has found a mistake; -1 with an
 * exception set. */
int mmcp_by_numpy(PyObject *const *items, Py_ssize_t n, PyObject *into, PyObject **out);

/* The same items in a new tuple, with arrays in place of lists and files; NULL where there are
 * none, or no arrays of them, or with an exception set. */
PyObject *mmcp_as_arrays(PyObject *const *items, Py_ssize_t n);

#endif
