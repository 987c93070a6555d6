/* gradients.h: the type _mmchain.Gradients, the gradients of a planned chain's factors. */
#ifndef MMCP_GRADIENTS_H
#define MMCP_GRADIENTS_H

#include "state.h"

extern PyTypeObject mmcp_gradients_type;

#endif
