/* parts.h: parts of a chain that depend on some axes of its stack only. */
#ifndef MMCP_PARTS_H
#define MMCP_PARTS_H

#include "call.h"

/* Finds the parts that are to be multiplied by themselves, from the first factor on, as the other
 * axes would have them multiplied again for every element: of a chain of matrices of one dtype that
 * have been acquired, where that saves more time than calls take. Returns how many there are. */
int mmcp_find_parts(const mmcp_call *c, mmcp_part parts[MMCP_MOST_PARTS]);

#endif
