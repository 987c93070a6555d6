/* wisdom_absent.c: the store of a library built without SQLite, in which every call says that there
 * is none. The file is built instead of store.c, rows.c and database.c. */
#include <stdio.h>

#include "base/alloc.h"
#include "wisdom/store.h"
#include "wisdom/wisdom_pricing.h"

struct mmci_wisdom {
  mmci_pricing_cache pricings;
};

static mmc_status absent(mmci_error *error) {
  return mmci_fail(error, MMC_E_UNSUPPORTED,
                   "no wisdom store: built without SQLite: build with libsqlite3-dev installed and "
                   "MMC_WITH_SQLITE not OFF");
}

mmc_status mmci_wisdom_create(const char *path, mmci_wisdom **out, mmci_error *error) {
  (void)path;
  mmci_wisdom *wisdom = mmci_alloc_zeroed(1, sizeof *wisdom);
  if (wisdom == NULL || !mmci_pricing_cache_init(&wisdom->pricings)) {
    free(wisdom);
    return mmci_fail_nomem(error, sizeof *wisdom);
  }
  *out = wisdom;
  return MMC_OK;
}

void mmci_wisdom_destroy(mmci_wisdom *wisdom) {
  if (wisdom == NULL) return;
  mmci_pricing_cache_end(&wisdom->pricings);
  free(wisdom);
}

uint64_t mmci_wisdom_generation(const mmci_wisdom *wisdom) {
  (void)wisdom;
  return 0;
}

mmci_pricing_cache *mmci_wisdom_pricings(mmci_wisdom *wisdom) {
  return &wisdom->pricings;
}

const char *mmci_wisdom_path(const mmci_wisdom *wisdom) {
  (void)wisdom;
  return "";
}

char *mmci_wisdom_notice(mmci_wisdom *wisdom, char *text, size_t size) {
  (void)wisdom;
  if (size > 0) text[0] = '\0';
  return text;
}

mmc_status mmci_wisdom_put(mmci_wisdom *wisdom, const mmci_wisdom_record *record,
                           mmci_error *error) {
  (void)wisdom, (void)record;
  return absent(error);
}

mmc_status mmci_store_create_in_memory(mmci_wisdom **out, mmci_error *error) {
  (void)out;
  return absent(error);
}

mmc_status mmci_store_put_new(mmci_wisdom *wisdom, const mmci_wisdom_record *record,
                              mmci_error *error) {
  return mmci_wisdom_put(wisdom, record, error);
}

mmc_status mmci_store_merge(mmci_wisdom *wisdom, mmci_wisdom *from, mmci_error *error) {
  (void)wisdom, (void)from;
  return absent(error);
}

mmc_status mmci_wisdom_walk(mmci_wisdom *wisdom, const mmci_wisdom_filter *filter,
                            mmci_wisdom_visit_fn visit, void *user, int64_t *damaged,
                            mmci_error *error) {
  (void)wisdom, (void)filter, (void)visit, (void)user, (void)damaged;
  return absent(error);
}

mmc_status mmci_wisdom_forget(mmci_wisdom *wisdom, const mmci_wisdom_filter *filter, int64_t *count,
                              mmci_error *error) {
  (void)wisdom, (void)filter, (void)count;
  return absent(error);
}

mmc_status mmci_wisdom_find_progress(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint,
                                     const char *job, const char *unit, bool *found,
                                     char result[MMCI_WISDOM_TEXT_MAX + 1], mmci_error *error) {
  (void)wisdom, (void)fingerprint, (void)job, (void)unit, (void)found, (void)result;
  return absent(error);
}

mmc_status mmci_wisdom_acquire(mmci_wisdom *wisdom, const mmci_fingerprint *fingerprint,
                               mmci_wisdom_table **out, mmci_error *error) {
  (void)wisdom, (void)fingerprint, (void)out;
  return absent(error);
}
