/* toy_objective.h: an objective that is not in the planner's table. */
#ifndef TOY_OBJECTIVE_H
#define TOY_OBJECTIVE_H

#include "planner/planner.h"

extern const mmci_objective toy_objective;

#endif
