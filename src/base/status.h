/* status.h: how a failure travels inside the library.
 *
 * A fallible function returns mmc_status and takes an mmci_error, which may be NULL, for the
 * message. The api room copies the message to the context; nothing else keeps one. */
#ifndef MMCI_STATUS_H
#define MMCI_STATUS_H

#include "mmchain.h"

typedef struct mmci_error {
  mmc_status status;
  char text[480];
  const char *argument; /* static text: what the message is about and begins with; or NULL */
} mmci_error;

/* Formats the message into error, when there is one, and returns status. */
mmc_status mmci_fail(mmci_error *error, mmc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails with a message about an argument or an option, whose name, a static text, and ": " go
 * before it. Returns status. */
mmc_status mmci_fail_argument(mmci_error *error, mmc_status status, const char *argument,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Writes the message that every failed allocation gives. */
mmc_status mmci_fail_nomem(mmci_error *error, uint64_t size_bytes);

#endif
