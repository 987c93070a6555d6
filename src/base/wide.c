#include "base/wide.h"

typedef struct wide256 {
  mmci_u128 hi, lo;
} wide256;

static wide256 multiply_wide(mmci_u128 a, mmci_u128 b) {
  const mmci_u128 mask = UINT64_MAX;
  mmci_u128 low = (a & mask) * (b & mask);
  mmci_u128 mid1 = (a >> 64) * (b & mask);
  mmci_u128 mid2 = (a & mask) * (b >> 64);
  mmci_u128 carry = (low >> 64) + (mid1 & mask) + (mid2 & mask);
  return (wide256){.hi = (a >> 64) * (b >> 64) + (mid1 >> 64) + (mid2 >> 64) + (carry >> 64),
                   .lo = (carry << 64) | (low & mask)};
}

int mmci_ratio_compare(mmci_u128 a, mmci_u128 b, mmci_u128 c, mmci_u128 d) {
  wide256 x = multiply_wide(a, d), y = multiply_wide(c, b);
  if (x.hi != y.hi) return x.hi < y.hi ? -1 : 1;
  return x.lo == y.lo ? 0 : x.lo < y.lo ? -1 : 1;
}

char *mmc_count_format(mmc_count count, char text[MMC_COUNT_TEXT_SIZE]) {
  if (text == NULL) return NULL;
  char digits[MMC_COUNT_TEXT_SIZE];
  int length = 0;
  mmci_u128 value = mmci_count_value(count);
  do {
    digits[length++] = (char)('0' + (int)(value % 10));
    value /= 10;
  } while (value != 0);
  for (int i = 0; i < length; i++) text[i] = digits[length - 1 - i];
  text[length] = '\0';
  return text;
}

double mmc_count_to_double(mmc_count count) {
  return (double)mmci_count_value(count);
}
