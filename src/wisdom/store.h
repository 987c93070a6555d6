/* store.h: functions of the store that the rest of the room needs beyond wisdom.h. */
#ifndef MMCI_STORE_H
#define MMCI_STORE_H

#include "wisdom/wisdom.h"

/* Makes an empty, writable store in memory. */
mmc_status mmci_store_create_in_memory(mmci_wisdom **out, mmci_error *error);

/* Puts a record as mmci_wisdom_put() does, but returns E_ARG when the key is there already. */
mmc_status mmci_store_put_new(mmci_wisdom *wisdom, const mmci_wisdom_record *record,
                              mmci_error *error);

/* Puts a record in the transaction that is under way; of two with one key the later measured stays,
 * and of two as old this one. user is the store. It is a mmci_wisdom_visit_fn. */
mmc_status mmci_store_put_later(void *user, const mmci_wisdom_record *record, mmci_error *error);

/* Puts every record of from into wisdom, all or none; of two with one key the later measured stays,
 * and of two as old that of from. */
mmc_status mmci_store_merge(mmci_wisdom *wisdom, mmci_wisdom *from, mmci_error *error);

#endif
