/* address.h: addresses of matrices that may have no elements, and then may be NULL. */
#ifndef MMCI_ADDRESS_H
#define MMCI_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

/* Returns the address so many bytes behind data; NULL stays NULL, to which C adds nothing, not even
 * 0. */
static inline void *mmci_address(const void *data, int64_t bytes) {
  return data != NULL ? (char *)data + bytes : NULL;
}

#endif
