/* api_ranges.c: the public calls about ranges. */
#include "api/api.h"
#include "base/alloc.h"
#include "base/options.h"
#include "ranges/ranges.h"

struct mmc_ranges {
  mmc_context *context;
  mmci_ranges *ranges;
  mmci_interrupt interrupt;
  bool scaled;
};

static mmc_status create_ranges(mmc_context *context, mmc_dtype dtype, int64_t n,
                                const mmc_ranges_options *options, mmc_ranges **out,
                                mmci_error *error) {
  if (out == NULL) return mmci_fail(error, MMC_E_ARG, "out: expected an address, got NULL");
  mmc_ranges_options read = MMC_RANGES_OPTIONS_INIT;
  mmc_status status = mmci_options_read("options", options, &read, sizeof read, error);
  if (status != MMC_OK) return status;
  mmci_opened on;
  status = mmci_context_open_device(context, read.device != NULL ? read.device : "cpu", &on, error);
  if (status != MMC_OK) return status;
  mmc_ranges *ranges = mmci_alloc_zeroed(1, sizeof *ranges);
  if (ranges == NULL) return mmci_fail_nomem(error, sizeof *ranges);
  ranges->context = context;
  ranges->scaled = read.scaled;
  const mmci_ranges_problem problem = {
      dtype, n, read.batch, read.memory_limit_bytes, read.scaled, read.semiring};
  status = mmci_ranges_create(&problem, on.ops, on.device, &ranges->ranges, error);
  if (status == MMC_OK)
    *out = ranges;
  else
    free(ranges);
  return status;
}

mmc_status mmc_ranges_create(mmc_context *context, mmc_dtype dtype, int64_t n,
                             const mmc_ranges_options *options, mmc_ranges **out) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(context, create_ranges(context, dtype, n, options, out, &error), &error);
}

void mmc_ranges_destroy(mmc_ranges *ranges) {
  if (ranges == NULL) return;
  mmci_ranges_destroy(ranges->ranges);
  free(ranges);
}

void mmc_ranges_on_stream(mmc_ranges *ranges, void *stream) {
  if (ranges != NULL) mmci_ranges_on_stream(ranges->ranges, stream);
}

void mmc_ranges_progress(mmc_ranges *ranges, mmc_progress_fn progress, void *user) {
  if (ranges == NULL) return;
  ranges->interrupt.ask = progress;
  ranges->interrupt.user = user;
}

mmc_status mmc_ranges_append(mmc_ranges *ranges, int64_t count, const mmc_matrix *factors) {
  if (ranges == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(ranges->context, mmci_ranges_append(ranges->ranges, count, factors, &error),
                     &error);
}

mmc_status mmc_ranges_update(mmc_ranges *ranges, int64_t count, const int64_t *indices,
                             const mmc_matrix *factors) {
  if (ranges == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(ranges->context,
                     mmci_ranges_update(ranges->ranges, count, indices, factors, &error), &error);
}

mmc_status mmc_ranges_pop_front(mmc_ranges *ranges, int64_t count) {
  if (ranges == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(ranges->context, mmci_ranges_pop_front(ranges->ranges, count, &error), &error);
}

static mmc_status multiply(mmc_ranges *ranges, bool scaled, int64_t first, int64_t end,
                           const mmc_matrix *out, int64_t *exponents) {
  mmci_error error = {0};
  mmci_interrupt *before = mmci_interrupt_begin(&ranges->interrupt);
  mmci_interrupt_span(0, 0); /* how much is left to multiply is not known */
  mmc_status status = ranges->scaled == scaled
                          ? mmci_ranges_product(ranges->ranges, first, end, out, exponents, &error)
                          : mmci_fail(&error, MMC_E_ARG, "ranges: expected a row %s exponents",
                                      scaled ? "with" : "without");
  mmci_interrupt_end(before);
  return mmci_report(ranges->context, status, &error);
}

mmc_status mmc_ranges_product(mmc_ranges *ranges, int64_t first, int64_t end,
                              const mmc_matrix *out) {
  return ranges != NULL ? multiply(ranges, false, first, end, out, NULL) : MMC_E_ARG;
}

mmc_status mmc_ranges_product_scaled(mmc_ranges *ranges, int64_t first, int64_t end,
                                     const mmc_matrix *out, int64_t *exponents) {
  if (ranges == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  if (exponents == NULL)
    return mmci_report(
        ranges->context,
        mmci_fail_argument(&error, MMC_E_ARG, "exponents", "expected an address, got NULL"),
        &error);
  return multiply(ranges, true, first, end, out, exponents);
}

mmc_status mmc_ranges_describe(const mmc_ranges *ranges, mmc_ranges_info *out) {
  if (ranges == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(ranges->context, "out");
  mmci_ranges_describe(ranges->ranges, out);
  return MMC_OK;
}
