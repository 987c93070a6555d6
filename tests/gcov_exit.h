/* gcov_exit.h: what scripts/coverage includes before everything, so that children of tests that end
 * by _exit() have their branches counted. */
#ifndef MMC_GCOV_EXIT_H
#define MMC_GCOV_EXIT_H

#include <unistd.h>

void __gcov_dump(void);

static inline _Noreturn void gcov_exit(int status) {
  __gcov_dump();
  _exit(status);
}

#define _exit gcov_exit

#endif
