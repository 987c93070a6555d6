/* salvage.h: puts what can still be read of a store that was set aside as corrupt into the new
 * one. */
#ifndef MMCI_SALVAGE_H
#define MMCI_SALVAGE_H

#include "wisdom/database.h"

/* Puts every sound record of wisdom->aside that can be read into wisdom, in the transaction that is
 * under way; of two with one key the later measured stays. user is an int64_t, which counts the
 * records found. It is a mmci_database_work; whatever is wrong with the file that was set aside is
 * no failure. */
mmc_status mmci_salvage(mmci_wisdom *wisdom, void *user, mmci_error *error);

#endif
