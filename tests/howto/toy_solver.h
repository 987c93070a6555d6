/* toy_solver.h: a solver that is not in the library's table. */
#ifndef TOY_SOLVER_H
#define TOY_SOLVER_H

#include "order/order.h"

extern const mmci_solver toy_solver;

#endif
