/* fake_structured.h: products with structure, as device.h asks devices with memory of their own for
 * them, by loops in double precision. */
#ifndef MMC_TEST_FAKE_STRUCTURED_H
#define MMC_TEST_FAKE_STRUCTURED_H

#include "device/device.h"

/* Computes; pivot may be NULL where mmci_structured_has_pivot() does not hold. */
void fake_structured(const mmci_structured *product, char *z, char *s, const char *b,
                     int32_t *pivot);

#endif
