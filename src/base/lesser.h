/* lesser.h: the lesser and the greater of two numbers, neither of which is NaN. fmin() and fmax()
 * are calls, and plans ask for hundreds. */
#ifndef MMCI_LESSER_H
#define MMCI_LESSER_H

static inline double mmci_lesser(double a, double b) {
  return a < b ? a : b;
}

static inline double mmci_greater(double a, double b) {
  return a > b ? a : b;
}

#endif
