/* store.h: what the rest of the room needs of the store beyond wisdom.h. */
#ifndef MMCI_STORE_H
#define MMCI_STORE_H

#include "wisdom/wisdom.h"

/* In memory, empty, writable. */
mmc_status mmci_store_create_in_memory(mmci_wisdom **out, mmci_error *error);

/* As mmci_wisdom_put(), but E_ARG when the key is there already. */
mmc_status mmci_store_put_new(mmci_wisdom *wisdom, const mmci_wisdom_record *record,
                              mmci_error *error);

/* Puts a record where a transaction that writes is under way; of two with one key the later
 * measured stays, of equals this one. user is the store. A mmci_wisdom_visit_fn. */
mmc_status mmci_store_put_later(void *user, const mmci_wisdom_record *record, mmci_error *error);

/* Puts every record of from into wisdom, all or none; the later measured stays, of equals from's.
 */
mmc_status mmci_store_merge(mmci_wisdom *wisdom, mmci_wisdom *from, mmci_error *error);

#endif
