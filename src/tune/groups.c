#include "tune/groups.h"

#include <math.h>

static mmc_status ask_group(mmci_tuner *tuner, const mmci_group *group, mmci_measured *out,
                            mmci_error *error) {
  if (group->count > 1) return mmci_tuner_ask_group(tuner, group, out, error);
  mmci_gemm gemm = mmci_group_gemm(group);
  mmci_recipe plain = mmci_recipe_whole(0);
  return mmci_tuner_ask(tuner, MMCI_ASK_TIME, &gemm, &plain, out, error);
}

mmc_status mmci_tune_groups(mmci_tuner *tuner, const mmci_group *const *groups, int count,
                            mmci_error *error) {
  const mmci_journal *journal = &mmci_tuner_options(tuner)->journal;
  const double spare_s = mmci_tuner_left_s(tuner) / 2;
  mmc_status status = MMC_OK;
  for (int g = 0; status == MMC_OK && g < count; g++) {
    if (isfinite(spare_s) && mmci_tuner_left_s(tuner) < spare_s) break;
    mmci_measured measured;
    mmci_tuner_reached(tuner, "calls", g, count);
    status = ask_group(tuner, groups[g], &measured, error);
    if (status == MMC_OK && isfinite(measured.seconds.value) && journal->time != NULL)
      status = journal->time(journal->user, groups[g], &measured.seconds, error);
  }
  return status;
}
