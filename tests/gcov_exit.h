/* gcov_exit.h: what scripts/coverage includes before everything, so that children of tests that end
 * by _exit() have their branches counted. */
#ifndef MMC_GCOV_EXIT_H
#define MMC_GCOV_EXIT_H

/* The system's header is left to those who include it: it has names that others use. */
_Noreturn void mmc_exit_at_once(int status) __asm__("_exit");
void __gcov_dump(void);

static inline _Noreturn void gcov_exit(int status) {
  __gcov_dump();
  mmc_exit_at_once(status);
}

#define _exit gcov_exit

#endif
