/* scan.h: running products of an array, in one call from Python. */
#ifndef MMCP_SCAN_H
#define MMCP_SCAN_H

#include "state.h"

/* scan(factors, initial, addend, out, recurrence, reverse, exclusive, device, stream, bf16): fills
 * out, and returns it; NotImplemented when an array cannot be read where it lies.
 *
 * factors, addend and out have the same stack before their last three dimensions, initial before
 * its last two; initial and addend may be None. Arrays are what execute() takes, and so are device,
 * stream and bf16. */
PyObject *mmcp_scan(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* scan_plan(dtype, n, length, batch, columns, initial, addend, reverse, exclusive, device): the
 * text of how it is computed. */
PyObject *mmcp_scan_plan(PyObject *module, PyObject *args);

/* Forgets what is kept for the next call; what a fork has left behind is not touched. */
void mmcp_scan_clear(bool forked);

#endif
