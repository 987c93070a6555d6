/* lint.h: what clang-tidy, which reads one file at a time, cannot see: a failure is never MMC_OK,
 * nor what a team agrees on where one of its ranks has failed, so that what is set on success only
 * is set where it is used. scripts/lint puts this before each file. */
#if __has_include("base/status.h")
#include "base/status.h"
#define mmci_fail(error, status, ...) (mmci_fail(error, status, __VA_ARGS__), (status))
#define mmci_fail_argument(error, status, ...) \
  (mmci_fail_argument(error, status, __VA_ARGS__), (status))
#define mmci_fail_nomem(error, size_bytes) (mmci_fail_nomem(error, size_bytes), MMC_E_NOMEM)
#endif
#if __has_include("ranks/agree.h")
#include "ranks/agree.h"
static inline mmc_status mmci_lint_agree(const mmci_team_ops *ops, mmci_team *team,
                                         mmc_status status, mmci_error *error) {
  const mmc_status agreed = mmci_team_agree(ops, team, status, error);
  return status != MMC_OK ? status : agreed;
}
#define mmci_team_agree mmci_lint_agree
#endif
