/* ranges.h: the type _mmchain.Ranges, a row of factors and products of its parts. */
#ifndef MMCP_RANGES_H
#define MMCP_RANGES_H

#include "state.h"

extern PyTypeObject mmcp_ranges_type;

#endif
