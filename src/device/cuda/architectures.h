/* architectures.h: tells which cards a build of the kernels runs on. */
#ifndef MMCI_CUDA_ARCHITECTURES_H
#define MMCI_CUDA_ARCHITECTURES_H

#include <stdbool.h>

/* Says whether code for these architectures, words as CMAKE_CUDA_ARCHITECTURES has them ("90a-real
 * 80-virtual"), runs on a card of this compute capability. Machine code runs on later cards of the
 * same major number, PTX on every later card; "100f" on those of its major number either way, "90a"
 * on that very card. A word that is no number ("native", "all") may be any, so the answer is
 * true. */
bool mmci_cuda_has_code(const char *architectures, int major, int minor);

#endif
