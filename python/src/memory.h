/* memory.h: an array in memory of the library's own, for libraries whose arrays cannot be written.
 */
#ifndef MMCP_MEMORY_H
#define MMCP_MEMORY_H

#include "state.h"

/* Array(device, dtype, shape): uninitialised, C-contiguous; read and written through DLPack. */
extern PyTypeObject mmcp_array_type;

#endif
