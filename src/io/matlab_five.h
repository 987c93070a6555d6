/* matlab_five.h: MATLAB's .mat files of version 5, which are read without matio: it allocates what
 * a file says of sizes before it looks whether they can be. */
#ifndef MMCI_MATLAB_FIVE_H
#define MMCI_MATLAB_FIVE_H

#include "io/format.h"

enum { MMCI_MATLAB_HEADER_SIZE = 128 };

/* Reads the first variable of that name in array->source, whose bytes are past their header.
 * Returns: E_ARG (there is none, without a message), E_FORMAT, E_NOMEM. */
mmc_status mmci_matlab_five_read(mmci_file_array *array, bool is_little, const char *name,
                                 mmci_error *error);
/* Tells the variables that have names. Returns: E_FORMAT, E_NOMEM. */
mmc_status mmci_matlab_five_list(const mmci_source *source, bool is_little, mmci_member_fn tell,
                                 void *user, mmci_error *error);

#endif
