/* agree.c: what all ranks of a team get to know of each other: whether one has failed, and what
 * each has. */
#include "ranks/agree.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* What the first rank that failed tells the others. */
typedef struct verdict {
  int32_t status;
  char text[300];
} verdict;

mmc_status mmci_team_agree(const mmci_team_ops *ops, mmci_team *team, mmc_status status,
                           mmci_error *error) {
  const int32_t count = ops->count(team);
  verdict told = {.status = (int32_t)status};
  mmci_error trouble = {0};
  int32_t first;
  if (count == 1) return status;
  if (status != MMC_OK && error != NULL)
    snprintf(told.text, sizeof told.text, "%.299s", error->text);
  const verdict mine = told;
  int32_t alike = 0; /* whether all ranks failed, and for one reason */
  mmc_status result =
      ops->least(team, status != MMC_OK ? ops->rank(team) : count, &first, &trouble);
  if (result == MMC_OK && first == count) return MMC_OK;
  if (result == MMC_OK) result = ops->share(team, first, &told, sizeof told, &trouble);
  if (result == MMC_OK)
    result = ops->least(team, mine.status == told.status && strcmp(mine.text, told.text) == 0,
                        &alike, &trouble);
  if (result != MMC_OK) return mmci_fail(error, result, "%s", trouble.text);
  if (alike != 0) return status;
  return mmci_fail(error, (mmc_status)told.status, "rank %d: %s", (int)first, told.text);
}

void *mmci_team_gather(const mmci_team_ops *ops, mmci_team *team, mmc_status *status,
                       const void *mine, size_t size, mmci_error *error) {
  const size_t count = (size_t)ops->count(team);
  void *all = mmci_alloc_zeroed(count, size);
  if (*status == MMC_OK && all == NULL) *status = mmci_fail_nomem(error, count * size);
  *status = mmci_team_agree(ops, team, *status, error);
  if (*status == MMC_OK) *status = ops->gather(team, mine, size, all, error);
  if (*status == MMC_OK) return all;
  free(all);
  return NULL;
}
