/* faithful_data.h: the kinds of data on which faithful products are compared with cuBLAS's FP32, by
 * bench_faithful and by tests of the arithmetic. */
#ifndef MMC_BENCH_FAITHFUL_DATA_H
#define MMC_BENCH_FAITHFUL_DATA_H

#include <math.h>

#include "base/random.h"

typedef enum faithful_data {
  FAITHFUL_UNIFORM,     /* in (-1, 1) */
  FAITHFUL_UNIFORM_01,  /* in (0, 1) */
  FAITHFUL_EXPONENTIAL, /* of mean 1 */
  FAITHFUL_ABS_NORMAL,  /* |N|, N standard normal */
  FAITHFUL_POISSON,     /* of mean 3 */
  FAITHFUL_NORMAL,
  FAITHFUL_EXP1,        /* exp(N), of both signs */
  FAITHFUL_LOGNORMAL,   /* exp(N) */
  FAITHFUL_EXP4,        /* exp(4N), of both signs */
  FAITHFUL_OUTLIERS,    /* N, one in a thousand 1000 times as large */
  FAITHFUL_GRADED_ROWS, /* in (0, 1), rows of op(A) and columns of op(B) from 1 to 1e12 */
  FAITHFUL_GRADED_K,    /* in (0, 1), grows along k, to 1000 times as much */
  FAITHFUL_ONES,
  FAITHFUL_DATA
} faithful_data;

static inline const char *faithful_data_name(faithful_data data) {
  static const char *const names[FAITHFUL_DATA] = {
      "uniform", "uniform01", "exponential", "absnormal",  "poisson", "normal", "exp1",
      "exp1pos", "exp4",      "outliers",    "gradedrows", "gradedk", "ones"};
  return names[data];
}

/* Returns a number in (0, 1). */
static inline double faithful_unit(uint64_t *random) {
  return ((double)(mmci_random_bits(random) >> 11) + 0.5) * 0x1p-53;
}

static inline double faithful_normal(uint64_t *random) { /* Box and Muller 1958 */
  const double radius = sqrt(-2 * log(faithful_unit(random)));
  return radius * cos(6.283185307179586 * faithful_unit(random));
}

static inline double faithful_poisson(double mean, uint64_t *random) {
  double count = 0;
  for (double p = faithful_unit(random); p > exp(-mean); p *= faithful_unit(random)) count++;
  return count;
}

/* Returns an element, before it is graded. */
static inline double faithful_draw(faithful_data data, uint64_t *random) {
  const double sign = mmci_random_bits(random) % 2 == 0 ? 1 : -1;
  switch (data) {
    case FAITHFUL_UNIFORM:
      return sign * faithful_unit(random);
    case FAITHFUL_EXPONENTIAL:
      return -log(faithful_unit(random));
    case FAITHFUL_ABS_NORMAL:
      return fabs(faithful_normal(random));
    case FAITHFUL_POISSON:
      return faithful_poisson(3, random);
    case FAITHFUL_NORMAL:
      return faithful_normal(random);
    case FAITHFUL_EXP1:
      return sign * exp(faithful_normal(random));
    case FAITHFUL_LOGNORMAL:
      return exp(faithful_normal(random));
    case FAITHFUL_EXP4:
      return sign * exp(4 * faithful_normal(random));
    case FAITHFUL_OUTLIERS:
      return faithful_normal(random) * (mmci_random_bits(random) % 1000 == 0 ? 1000 : 1);
    case FAITHFUL_ONES:
      return 1;
    default:
      return faithful_unit(random);
  }
}

/* Returns the factor of all elements of a row of op(A) or column of op(B), which lies at `across`
 * of them, from 0 to 1. */
static inline double faithful_grade_row(faithful_data data, double across) {
  return data == FAITHFUL_GRADED_ROWS ? pow(1e12, across) : 1;
}

/* Returns the factor of all elements at `along` of k, from 0 to 1. */
static inline double faithful_grade_k(faithful_data data, double along) {
  return data == FAITHFUL_GRADED_K ? pow(1000, along) : 1;
}

#endif
