/* how_many.h: how many cases a test runs. scripts/check has minutes for all tests and asks for few;
 * MMCHAIN_TEST_LONG=1, which scripts/check-long sets, asks for all. */
#ifndef MMC_TEST_HOW_MANY_H
#define MMC_TEST_HOW_MANY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline bool is_in_full(void) {
  return getenv("MMCHAIN_TEST_LONG") != NULL;
}

static inline int how_many(int few, int all) {
  return is_in_full() ? all : few;
}

/* What a test draws its cases from: MMCHAIN_TEST_SEED, or the usual seed. Of what a short run takes
 * only a part of, the seed says which. */
static inline uint64_t seed_or(uint64_t usual) {
  const char *asked = getenv("MMCHAIN_TEST_SEED");
  return asked != NULL ? strtoull(asked, NULL, 10) : usual;
}

#endif
