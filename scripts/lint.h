/* lint.h: what clang-tidy, which reads one file at a time, cannot see: a failure is never MMC_OK,
 * so that what is set on success only is set where it is used. scripts/lint puts this before each
 * file. */
#if __has_include("base/status.h")
#include "base/status.h"
#define mmci_fail(error, status, ...) (mmci_fail(error, status, __VA_ARGS__), (status))
#define mmci_fail_nomem(error, size_bytes) (mmci_fail_nomem(error, size_bytes), MMC_E_NOMEM)
#endif
