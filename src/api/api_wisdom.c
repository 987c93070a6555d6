/* api_wisdom.c: the public calls about the wisdom store, which know what of it is this
 * machine's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/team_fingerprint.h"
#include "base/options.h"
#include "planner/offers.h"
#include "ranks/engines.h"

/* ---- fingerprints -------------------------------------------------------------------------- */

static mmc_status fingerprint_of(mmc_context *context, const char *device, mmc_dtype dtype,
                                 const char *precision, mmci_fingerprint *out, mmci_error *error) {
  mmci_opened on;
  mmc_status status = mmci_context_open_device(context, device, &on, error);
  if (status == MMC_OK) mmci_offers_fingerprint(&on, dtype, precision, out);
  return status;
}

/* Says whether a device that is here, of that name, has that identity; several of a kind may
 * differ. A device that is here and does not open is a failure, as it does not make entries
 * foreign. */
static mmc_status is_fingerprint_here(void *user, const mmci_fingerprint *fingerprint, bool *here,
                                      mmci_error *error) {
  mmc_context *context = user;
  mmc_dtype dtype = MMC_F32;
  const char *wanted = fingerprint->fields[MMCI_FINGERPRINT_DTYPE], *name;
  while ((name = mmc_dtype_name(dtype)) != NULL && strcmp(name, wanted) != 0)
    dtype = (mmc_dtype)(dtype + 1);
  *here = false;
  if (name == NULL) return MMC_OK;
  const char *device = fingerprint->fields[MMCI_FINGERPRINT_DEVICE];
  if (mmci_engine_is_known(device)) {
    mmci_fingerprint mine;
    mmc_status status = mmci_team_fingerprint(context, device, dtype, &mine, error);
    if (status == MMC_OK) *here = mmci_fingerprint_equal(&mine, fingerprint);
    return status;
  }
  for (int index = 0; !*here; index++) {
    char text[MMCI_FINGERPRINT_SIZE + 16];
    snprintf(text, sizeof text, index == 0 ? "%s" : "%s:%d", device, index);
    mmci_fingerprint mine;
    const char *precision = fingerprint->fields[MMCI_FINGERPRINT_PRECISION];
    mmc_status status = fingerprint_of(context, text, dtype, precision, &mine, error);
    if (status == MMC_E_ARG || status == MMC_E_UNSUPPORTED)
      return MMC_OK; /* there are no more devices */
    if (status != MMC_OK) return status;
    *here = mmci_fingerprint_equal(&mine, fingerprint);
  }
  return MMC_OK;
}

/* ---- showing ------------------------------------------------------------------------------- */

typedef struct count_work {
  mmc_context *context;
  mmc_wisdom_info *info;
  mmci_fingerprint last;
  bool here; /* last is one of this machine's */
} count_work;

static mmc_status count_record(void *user, const mmci_wisdom_record *record, mmci_error *error) {
  count_work *work = user;
  if (!mmci_fingerprint_equal(&work->last, record->fingerprint)) {
    mmc_status status = is_fingerprint_here(work->context, record->fingerprint, &work->here, error);
    if (status != MMC_OK) return status;
    work->last = *record->fingerprint;
  }
  if (work->here)
    work->info->entries++;
  else
    work->info->foreign++;
  return MMC_OK;
}

static void describe_store(mmc_wisdom_info *info) {
  char *text = info->description;
  size_t size = sizeof info->description;
  int length = snprintf(text, size, "%" PRId64 " %s", info->entries,
                        info->entries == 1 ? "entry" : "entries");
  if (info->foreign > 0)
    length += snprintf(text + length, size - (size_t)length, ", %" PRId64 " of other machines",
                       info->foreign);
  if (info->damaged > 0)
    snprintf(text + length, size - (size_t)length, ", %" PRId64 " damaged and passed over",
             info->damaged);
}

mmc_status mmc_wisdom_describe(mmc_context *context, mmc_wisdom_info *out) {
  if (context == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(context, "out");
  mmci_error error = {0};
  mmc_wisdom_info info = {.path = mmci_wisdom_path(context->wisdom)};
  count_work work = {.context = context, .info = &info};
  mmc_status status =
      mmci_wisdom_walk(context->wisdom, NULL, count_record, &work, &info.damaged, &error);
  if (status == MMC_E_NOMEM) return mmci_report(context, status, &error);
  info.available = status == MMC_OK;
  if (info.available)
    describe_store(&info);
  else
    snprintf(info.description, sizeof info.description, "%s", error.text);
  mmci_wisdom_notice(context->wisdom, info.notice, sizeof info.notice);
  *out = info;
  return MMC_OK;
}

char *mmc_wisdom_notice(mmc_context *context, char *text, size_t size) {
  if (text == NULL || size == 0) return text;
  text[0] = '\0';
  return context != NULL ? mmci_wisdom_notice(context->wisdom, text, size) : text;
}

mmc_status mmc_wisdom_write(mmc_context *context, mmc_format format, mmc_write_fn write,
                            void *user) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_status status = write == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "write: expected a function, got NULL")
                          : mmci_wisdom_write(context->wisdom, format, is_fingerprint_here, context,
                                              write, user, &error);
  return mmci_report(context, status, &error);
}

/* ---- moving -------------------------------------------------------------------------------- */

mmc_status mmc_wisdom_export(mmc_context *context, mmc_write_fn write, void *user) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_status status = write == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "write: expected a function, got NULL")
                          : mmci_wisdom_export(context->wisdom, write, user, &error);
  return mmci_report(context, status, &error);
}

mmc_status mmc_wisdom_import(mmc_context *context, mmc_read_fn read, void *user) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_status status = read == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "read: expected a function, got NULL")
                          : mmci_wisdom_import(context->wisdom, read, user, &error);
  return mmci_report(context, status, &error);
}

/* ---- forgetting ---------------------------------------------------------------------------- */

typedef struct forget_work {
  mmc_context *context;
  const mmc_wisdom_filter *filter;
} forget_work;

static mmc_status fits(void *user, const mmci_fingerprint *fingerprint, bool *meant,
                       mmci_error *error) {
  const forget_work *work = user;
  const mmc_wisdom_filter *filter = work->filter;
  const char *device = fingerprint->fields[MMCI_FINGERPRINT_DEVICE];
  const char *dtype = fingerprint->fields[MMCI_FINGERPRINT_DTYPE];
  *meant = (filter->device == NULL || strcmp(filter->device, device) == 0) &&
           (filter->dtype == NULL || strcmp(filter->dtype, dtype) == 0);
  if (!*meant || !filter->foreign) return MMC_OK;
  bool here = false;
  mmc_status status = is_fingerprint_here(work->context, fingerprint, &here, error);
  *meant = !here;
  return status;
}

mmc_status mmc_wisdom_forget(mmc_context *context, const mmc_wisdom_filter *filter,
                             int64_t *count) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_wisdom_filter read = MMC_WISDOM_FILTER_INIT;
  mmc_status status = mmci_options_read("filter", filter, &read, sizeof read, &error);
  if (status != MMC_OK) return mmci_report(context, status, &error);
  forget_work work = {.context = context, .filter = &read};
  mmci_wisdom_filter inner = {0};
  if (read.progress) inner.kinds = 1u << MMCI_WISDOM_PROGRESS;
  if (read.device != NULL || read.dtype != NULL || read.foreign) {
    inner.matches = fits;
    inner.user = &work;
  }
  status = mmci_wisdom_forget(context->wisdom, &inner, count, &error);
  return mmci_report(context, status, &error);
}
