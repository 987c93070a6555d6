/* api_scan.c: the public calls about running products. */
#include "api/api.h"
#include "base/alloc.h"
#include "base/options.h"
#include "scan/running.h"

struct mmc_scan {
  mmc_context *context;
  mmci_opened on;
  mmci_running *running;
};

static mmc_status create_scan(mmc_scan *scan, mmc_dtype dtype, int64_t n, int64_t length,
                              const mmc_scan_options *options, mmci_error *error) {
  mmc_scan_options read = MMC_SCAN_OPTIONS_INIT;
  mmc_status status = mmci_options_read("options", options, &read, sizeof read, error);
  if (status != MMC_OK) return status;
  const char *device = read.device != NULL ? read.device : "cpu";
  status = mmci_context_open_device(scan->context, device, &scan->on, error);
  if (status == MMC_OK && scan->on.ops->enqueue == NULL)
    status = mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device", "'%s' cannot multiply", device);
  if (status != MMC_OK) return status;
  const mmci_running_problem problem = {.dtype = dtype,
                                        .n = n,
                                        .length = length,
                                        .batch = read.batch,
                                        .columns = read.columns,
                                        .reverse = read.reverse,
                                        .exclusive = read.exclusive,
                                        .initial = read.initial,
                                        .addend = read.addend,
                                        .semiring = read.semiring,
                                        .scaled = read.scaled};
  return mmci_running_create(&problem, &scan->on, MMCI_RUNNING_AUTO, &scan->running, error);
}

mmc_status mmc_scan_create(mmc_context *context, mmc_dtype dtype, int64_t n, int64_t length,
                           const mmc_scan_options *options, mmc_scan **out) {
  if (context == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(context, "out");
  mmci_error error = {0};
  mmc_scan *scan = mmci_alloc_zeroed(1, sizeof *scan);
  if (scan == NULL) return mmci_report(context, mmci_fail_nomem(&error, sizeof *scan), &error);
  scan->context = context;
  mmc_status status = create_scan(scan, dtype, n, length, options, &error);
  if (status == MMC_OK)
    *out = scan;
  else
    free(scan);
  return mmci_report(context, status, &error);
}

void mmc_scan_destroy(mmc_scan *scan) {
  if (scan == NULL) return;
  mmci_running_destroy(scan->running);
  free(scan);
}

mmc_status mmc_scan_explain(const mmc_scan *scan, mmc_format format, mmc_write_fn write,
                            void *user) {
  if (scan == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_status status = write == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "write: expected a function, got NULL")
                          : mmci_running_explain(scan->running, format, write, user, &error);
  return mmci_report(scan->context, status, &error);
}

mmc_status mmc_scan_execute(mmc_scan *scan, const mmc_scan_operands *operands) {
  if (scan == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_status status = mmci_running_execute(scan->running, operands, &error);
  return mmci_report(scan->context, status, &error);
}

mmc_status mmc_scan_enqueue(mmc_scan *scan, void *stream, const mmc_scan_operands *operands) {
  if (scan == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_status status = mmci_running_enqueue(scan->running, stream, operands, &error);
  return mmci_report(scan->context, status, &error);
}

void mmc_scan_progress(mmc_scan *scan, mmc_progress_fn progress, void *user) {
  if (scan != NULL) mmci_running_progress(scan->running, progress, user);
}

mmc_status mmc_scan_wait(mmc_scan *scan) {
  if (scan == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(scan->context, mmci_running_wait(scan->running, &error), &error);
}
