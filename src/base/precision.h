/* precision.h: the arithmetic that a product may be computed in. */
#ifndef MMCI_PRECISION_H
#define MMCI_PRECISION_H

#include "base/status.h"

typedef enum mmci_precision {
  MMCI_NATIVE,   /* the arithmetic of the dtype */
  MMCI_FAITHFUL, /* other arithmetic is allowed where it is no less accurate */
  MMCI_FAST      /* less accurate arithmetic is allowed: TF32 for f32 and c64 */
} mmci_precision;

/* Returns "native" ...; NULL for other values. */
const char *mmci_precision_name(mmci_precision precision);
/* Reads the option; NULL stands for native. Returns: E_ARG. */
mmc_status mmci_precision_read(const char *name, mmci_precision *out, mmci_error *error);

#endif
