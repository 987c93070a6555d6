/* options.h: structs of options from callers that were built with another version of mmchain.h.
 *
 * Such a struct begins with its size, and a version adds fields at the end alone, whose default is
 * zero. So a caller that knows fewer fields has the defaults of the others, and one that knows more
 * is understood as long as it leaves those at zero. */
#ifndef MMCI_OPTIONS_H
#define MMCI_OPTIONS_H

#include "base/status.h"

/* Larger sizes are no options: the caller has not begun with an _INIT. */
enum { MMCI_OPTIONS_MOST_BYTES = 4096 };

/* Copies the fields that given has to out, a struct of size bytes that holds its defaults, and
 * keeps out's size. given may be NULL: all defaults. name is the argument's, for messages. Returns
 * E_ARG when given has no size of options, or a field that is not known here is set. */
mmc_status mmci_options_read(const char *name, const void *given, void *out, size_t size,
                             mmci_error *error);

#endif
