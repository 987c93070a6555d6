/* team_fingerprint.h: under what the rates of ranks are kept. */
#ifndef MMCI_API_TEAM_FINGERPRINT_H
#define MMCI_API_TEAM_FINGERPRINT_H

#include "base/status.h"
#include "wisdom/wisdom.h"

/* Writes the fingerprint of an engine's ranks on hosts like this one. Returns E_NOMEM. */
mmc_status mmci_team_fingerprint(mmc_context *context, const char *engine, mmc_dtype dtype,
                                 mmci_fingerprint *out, mmci_error *error);

#endif
