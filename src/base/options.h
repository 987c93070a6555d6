/* options.h: reads structs of options from callers that were built with another version of
 * mmchain.h.
 *
 * Such a struct begins with its size, and a new version adds fields only at the end, whose default
 * is zero. So a caller that has fewer fields gets the defaults of the others, and one that has more
 * is understood as long as it leaves those at zero. */
#ifndef MMCI_OPTIONS_H
#define MMCI_OPTIONS_H

#include "base/status.h"

/* A larger size is not one of options: the caller has not begun with an _INIT. */
enum { MMCI_OPTIONS_MOST_BYTES = 4096 };

/* Copies the fields that given has to out, a struct of size bytes that holds its defaults, and
 * keeps out's size. given may be NULL, which means all defaults. name is the argument's, for
 * messages. Returns E_ARG when given has no size of options, or sets a field that is not known
 * here. */
mmc_status mmci_options_read(const char *name, const void *given, void *out, size_t size,
                             mmci_error *error);

#endif
