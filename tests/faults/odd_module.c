/* odd_module.c: a module of a format that is not of this version: of another ABI number, of another
 * size, or without the function that a module has. */
#include "io/format.h"

#ifdef ODD_ABI
static const mmci_format odd = {.abi = ODD_ABI, .size = ODD_SIZE};

MMC_API const mmci_format *mmci_module_entry(void);

const mmci_format *mmci_module_entry(void) {
  return &odd;
}
#else
MMC_API int mmci_nothing(void);

int mmci_nothing(void) {
  return 0;
}
#endif
