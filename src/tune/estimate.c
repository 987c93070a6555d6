#include "tune/estimate.h"

#include <math.h>
#include <stdlib.h>

#include "base/ascending.h"

mmci_estimate mmci_estimate_median(double *samples, int count, double risk) {
  qsort(samples, (size_t)count, sizeof *samples, mmci_ascending_doubles);
  /* The chances of exactly j heads and of at most j among count tosses. */
  double chance = ldexp(1, -count), below = chance;
  int outside = 0; /* how many samples are outside on either side of the bounds */
  for (int j = 0; 2 * below <= risk && j < (count - 1) / 2; j++) {
    outside = j;
    chance *= (double)(count - j) / (j + 1);
    below += chance;
  }
  return (mmci_estimate){.value = (samples[(count - 1) / 2] + samples[count / 2]) / 2,
                         .low = samples[outside],
                         .high = samples[count - 1 - outside]};
}

double mmci_estimate_spread(const mmci_estimate *x) {
  return fmax(x->high - x->value, x->value - x->low) / x->value;
}
