/* failing_allocations.h: the allocator of a copy of the library whose calls of malloc() and so on
 * have other names (tests/CMakeLists.txt): it fails once, when the test says. */
#ifndef MMC_TEST_FAILING_ALLOCATIONS_H
#define MMC_TEST_FAILING_ALLOCATIONS_H

#include <stddef.h>

#include "mmchain.h"

/* So many allocations go well before one fails; none does while this is negative. */
extern long allocations_left;
/* How many have failed; the test sets it to 0. */
extern long allocation_failures;

void *failing_malloc(size_t size);

/* Runs a scenario with its first, its second, ... allocation failing until none does. One that
 * fails returns MMC_E_NOMEM. Returns how many there are. */
long fail_each_allocation(mmc_status (*scenario)(void));

#endif
