/* failing_malloc.h: a program that has failing_malloc.c in it decides which allocation fails, of
 * all that is done in its process: its own, those of libraries, and those of the C library for
 * them. */
#ifndef MMC_TEST_FAILING_MALLOC_H
#define MMC_TEST_FAILING_MALLOC_H

#include <stdbool.h>

/* So many allocations go well from now on, and the next one fails; all that follow fail too when it
 * is for good. */
void malloc_fails_after(long count, bool for_good);
/* No more fail. Returns how many have failed; *seen, unless NULL, becomes how many there were. */
long malloc_fails_no_more(long *seen);

#endif
