#include "api/team_fingerprint.h"

#include "api/api.h"
#include "planner/offers.h"

/* The rates of ranks are those of the host's processor and of this engine. */
mmc_status mmci_team_fingerprint(mmc_context *context, const char *engine, mmc_dtype dtype,
                                 mmci_fingerprint *out, mmci_error *error) {
  mmci_opened on;
  mmc_status status = mmci_context_open_device(context, "cpu", &on, error);
  if (status != MMC_OK) return status;
  mmci_offers_fingerprint(&on, dtype, mmci_precision_name(MMCI_NATIVE), out);
  mmci_fingerprint_set(out, MMCI_FINGERPRINT_DEVICE, engine);
  mmci_fingerprint_set(out, MMCI_FINGERPRINT_BLAS, ""); /* its threads are those of a rank */
  return MMC_OK;
}
