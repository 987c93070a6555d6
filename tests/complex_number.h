/* complex_number.h: <complex.h> with CMPLX(), which glibc's leaves out for clang. */
#ifndef MMC_TEST_COMPLEX_NUMBER_H
#define MMC_TEST_COMPLEX_NUMBER_H

#include <complex.h>

#ifndef CMPLX
#define CMPLX(re, im) __builtin_complex((double)(re), (double)(im))
#endif

#endif
