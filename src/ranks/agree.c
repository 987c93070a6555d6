/* agree.c: what all ranks of a team get to know of each other: whether one has failed, and what
 * each has. */
#include "ranks/agree.h"

#include <stdio.h>

#include "base/alloc.h"

typedef struct verdict {
  int32_t status;
  char text[300];
} verdict;

/* A rank that has no memory to hear why another failed says so by this status, and none is told. */
enum { CANNOT_LISTEN = -1, STATUSES = 1024, VERDICTS = 64 };

mmc_status mmci_team_agree(const mmci_team_ops *ops, mmci_team *team, mmc_status status,
                           mmci_error *error) {
  const int32_t count = ops->count(team);
  int32_t few[STATUSES], *all = few, mine = (int32_t)status;
  verdict few_verdicts[VERDICTS], *verdicts = few_verdicts, own = {.status = mine};
  mmci_error trouble = {0};
  if (count == 1) return status;
  if (status != MMC_OK && error != NULL) snprintf(own.text, sizeof own.text, "%.299s", error->text);
  /* All that is needed is taken before anything is sent: a rank that left later would be waited
   * for. */
  if (count > STATUSES) all = mmci_alloc_zeroed((size_t)count, sizeof *all);
  if (all == NULL) return mmci_fail_nomem(error, (uint64_t)count * sizeof *all);
  if (count > VERDICTS) verdicts = mmci_alloc_zeroed((size_t)count, sizeof *verdicts);
  if (verdicts == NULL) mine = CANNOT_LISTEN;
  int32_t first = 0;
  bool all_listen = true;
  mmc_status result = ops->gather(team, &mine, sizeof mine, all, &trouble);
  while (result == MMC_OK && first < count && all[first] == (int32_t)MMC_OK) first++;
  for (int32_t r = 0; result == MMC_OK && r < count; r++)
    all_listen = all_listen && all[r] != CANNOT_LISTEN;
  if (result != MMC_OK) {
    mmci_fail(error, result, "%s", trouble.text);
  } else if (first < count && !all_listen) {
    result = all[first] == CANNOT_LISTEN ? MMC_E_NOMEM : (mmc_status)all[first];
    mmci_fail(error, result, "rank %d failed", (int)first);
  } else if (first < count) {
    result = ops->gather(team, &own, sizeof own, verdicts, &trouble);
    result = result == MMC_OK ? mmci_fail(error, (mmc_status)all[first], "rank %d: %s", (int)first,
                                          verdicts[first].text)
                              : mmci_fail(error, result, "%s", trouble.text);
  }
  if (all != few) free(all);
  if (verdicts != few_verdicts) free(verdicts);
  return result;
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
