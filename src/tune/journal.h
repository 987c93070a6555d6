/* journal.h: keeps tuning's journal in the wisdom store: measurements as units of progress, choices
 * as products, arrays and rooflines as records of their own, seconds of calls as facts. */
#ifndef MMCI_JOURNAL_H
#define MMCI_JOURNAL_H

#include "cost/efficiency.h"
#include "cost/roofline.h"
#include "tune/joules.h"
#include "wisdom/wisdom.h"

/* A journal under one fingerprint. */
typedef struct mmci_wisdom_journal {
  mmci_wisdom *wisdom;
  mmci_fingerprint fingerprint;
  mmci_variants variants; /* names of the variants in texts of recipes */
  /* Is told every choice that was kept; any status but MMC_OK ends the search. It may be NULL. */
  mmc_status (*chosen)(void *user, const mmci_gemm *gemm, const mmci_choice *choice,
                       mmci_error *error);
  /* Is told every call whose seconds were kept, under this name, in the same way. */
  mmc_status (*timed)(void *user, const char *name, const mmci_estimate *seconds,
                      mmci_error *error);
  void *user;
} mmci_wisdom_journal;

/* The journal must stay. Its slots return what mmci_wisdom_put() does. */
mmci_journal mmci_journal_of(mmci_wisdom_journal *journal);

/* Keeps an array of these ops, which mmci_wisdom_pricing will find, together with the one that is
 * kept already (mmci_array_join()). */
mmc_status mmci_journal_array(mmci_wisdom_journal *journal, const mmci_array *array, mmc_op op_a,
                              mmc_op op_b, mmci_error *error);
/* Keeps the joules of a product: in the record for energy and, where that still has the same
 * recipe, in the one for time. The journal's chosen() is not told. */
mmc_status mmci_journal_saving(mmci_wisdom_journal *journal, const mmci_gemm *gemm,
                               const mmci_saving *saving, mmci_error *error);
mmc_status mmci_journal_energy(mmci_wisdom_journal *journal, const mmci_energy_model *model,
                               mmci_error *error);
/* Puts the shares of kernels with structure into the store; not those that are NaN. */
mmc_status mmci_journal_shares(mmci_wisdom_journal *journal,
                               const mmci_structure_share shares[MMCI_STRUCTURE_PIECES],
                               mmci_error *error);
/* Finds the recipe that is known to be fastest; *found is false when none is. Returns what
 * mmci_wisdom_acquire() does. */
mmc_status mmci_journal_fastest(mmci_wisdom_journal *journal, const mmci_gemm *gemm, bool *found,
                                mmci_recipe *recipe, mmci_error *error);
mmc_status mmci_journal_roofline(mmci_wisdom_journal *journal, const mmci_roofline *roofline,
                                 mmci_error *error);

#endif
