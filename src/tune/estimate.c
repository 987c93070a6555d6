#include "tune/estimate.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

mmci_estimate mmci_estimate_median(double *samples, int count, double risk) {
  qsort(samples, (size_t)count, sizeof *samples, ascending);
  double chance = ldexp(1, -count), below = chance; /* of exactly j heads, and of at most j */
  int outside = 0;                                  /* samples on either side of the bounds */
  for (int j = 0; 2 * below <= risk && j < (count - 1) / 2; j++) {
    outside = j;
    chance *= (double)(count - j) / (j + 1);
    below += chance;
  }
  return (mmci_estimate){.value = (samples[(count - 1) / 2] + samples[count / 2]) / 2,
                         .low = samples[outside],
                         .high = samples[count - 1 - outside]};
}
