/* tune.h: measuring how products run best. */
#ifndef MMCP_TUNE_H
#define MMCP_TUNE_H

#include "state.h"

/* tune(chains, like, range, device, precision, objective, budget, progress): measures, as
 * _mmchain.pyi says. */
PyObject *mmcp_tune(PyObject *module, PyObject *args);

#endif
