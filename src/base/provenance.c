#include "base/provenance.h"

const char *mmci_provenance_name(mmci_provenance provenance) {
  static const char *const names[] = {
      [MMCI_UNKNOWN] = "",        [MMCI_MEASURED] = "measured",
      [MMCI_ARRAY] = "array",     [MMCI_MODELLED] = "model",
      [MMCI_SHIPPED] = "shipped", [MMCI_ASSUMED] = "model, not calibrated"};
  return names[provenance];
}
