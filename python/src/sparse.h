/* sparse.h: the function that multiplies chains with sparse factors. */
#ifndef MMCP_SPARSE_H
#define MMCP_SPARSE_H

#include "state.h"

/* The memory of one array of a result, which the result's owner keeps. */
extern PyTypeObject mmcp_memory_type;

PyObject *mmcp_sparse(PyObject *module, PyObject *args);

#endif
