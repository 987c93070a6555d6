/* entrance.h: a function of Python's with a shorter way in. */
#ifndef MMCP_ENTRANCE_H
#define MMCP_ENTRANCE_H

#include "state.h"

/* What entrance() returns. */
extern PyTypeObject mmcp_entrance_type;

/* entrance(otherwise, function): is called and looked at as the function is. Called with nothing
 * but arrays, out and objective it has execute() multiply by default options, and where that is not
 * possible otherwise(None, arrays, out, objective, None, "native"). */
PyObject *mmcp_entrance(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
