/* agree.h: what all ranks of a team get to know of each other. All calls are collective. */
#ifndef MMCI_RANKS_AGREE_H
#define MMCI_RANKS_AGREE_H

#include "ranks/team.h"

/* Fails on every rank of a team where it failed on one: returns the status of the first rank that
 * did, with "rank 2: " and its message in error. error holds this rank's message, and keeps it
 * where all ranks have that one. It takes no memory. */
mmc_status mmci_team_agree(const mmci_team_ops *ops, mmci_team *team, mmc_status status,
                           mmci_error *error);

/* Returns size bytes of every rank, in the order of the ranks, for the caller to free; NULL when a
 * rank came with a *status that is not MMC_OK, or memory is short on one. Then *status says so, as
 * mmci_team_agree() does. */
void *mmci_team_gather(const mmci_team_ops *ops, mmci_team *team, mmc_status *status,
                       const void *mine, size_t size, mmci_error *error);

#endif
