/* entrance.h: a function of Python's with a shorter way in. */
#ifndef MMCP_ENTRANCE_H
#define MMCP_ENTRANCE_H

#include "state.h"

/* What entrance() returns. */
extern PyTypeObject mmcp_entrance_type;

/* entrance(function): is called and looked at as the function is. Called with one argument alone it
 * has execute() multiply by default options, and calls the function where that is not possible. */
PyObject *mmcp_entrance(PyObject *module, PyObject *function);

#endif
