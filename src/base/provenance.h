/* provenance.h: where a predicted number comes from. */
#ifndef MMCI_PROVENANCE_H
#define MMCI_PROVENANCE_H

#include "mmchain.h"

/* Ordered from the surest to the least sure. */
typedef enum mmci_provenance {
  MMCI_UNKNOWN,  /* nobody has predicted the number yet */
  MMCI_MEASURED, /* the very thing was measured on this machine */
  MMCI_ARRAY,    /* an efficiency array that was measured here holds its neighbours */
  MMCI_MODELLED, /* a model whose parameters were fitted to measurements made here */
  MMCI_SHIPPED,  /* formulas that the device brings, fitted to measurements on its kind */
  MMCI_ASSUMED   /* a model whose parameters are those of a kind of device */
} mmci_provenance;

/* Returns static text, as explain shows it: "", "measured", "array", "model", "shipped", "model,
 * not calibrated". */
const char *mmci_provenance_name(mmci_provenance provenance);

/* Returns the provenance of what a model predicts. */
static inline mmci_provenance mmci_provenance_of_model(bool calibrated) {
  return calibrated ? MMCI_MODELLED : MMCI_ASSUMED;
}

static inline bool mmci_provenance_is_model(mmci_provenance provenance) {
  return provenance >= MMCI_MODELLED;
}

#endif
