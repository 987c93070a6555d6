#ifndef MMCI_REF_WHOLE_H
#define MMCI_REF_WHOLE_H

#include "base/status.h"
#include "chain/gemm.h"

/* Multiplies as whole.h says, by plain loops; not for a batch. Returns: E_NOMEM, E_UNSUPPORTED. */
mmc_status mmci_ref_whole(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                          mmci_error *error);

#endif
