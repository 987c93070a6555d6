/* expect.h: what a test that prints what failed counts. */
#ifndef MMC_TEST_EXPECT_H
#define MMC_TEST_EXPECT_H

#include <stdbool.h>

#include "base/status.h"

enum { TEST_SKIPPED = 77 };

extern int failures, checks;

/* Counts a check, and says what did not hold. Returns held. */
bool expect(bool held, const char *what);
bool expect_ok(mmc_status status, const mmci_error *error, const char *what);

/* Ends the context of CUDA's device 0, which is when tools count what is left in it. */
void expect_context_ends(void);

/* Says how many checks there were, and returns what main returns. */
int expect_summary(void);

#endif
