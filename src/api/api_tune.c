/* api_tune.c: the public call that measures how products run best, for the wisdom store. */
#include <string.h>

#include "api/api.h"
#include "base/dtype.h"
#include "base/options.h"
#include "tune/array.h"
#include "tune/session.h"

static mmc_status check_product(const mmc_tune_product *p, int64_t index, mmci_error *error) {
  if (mmc_dtype_name(p->dtype) == NULL || (unsigned)p->op_a > MMC_OP_H ||
      (unsigned)p->op_b > MMC_OP_H)
    return mmci_fail(error, MMC_E_ARG, "products[%lld]: expected a dtype and two ops",
                     (long long)index);
  const int64_t sizes[3] = {p->m, p->k, p->n};
  for (int d = 0; d < 3; d++)
    if (sizes[d] < 1 || sizes[d] > MMCI_MAX_DIM)
      return mmci_fail(error, MMC_E_ARG, "products[%lld]: expected %c from 1 to 2^62, got %lld",
                       (long long)index, "mkn"[d], (long long)sizes[d]);
  return MMC_OK;
}

/* Products of integers run one way only, which the magnitudes of their elements choose. */
static mmc_status check_dtypes(const mmc_tune_options *o, mmci_error *error) {
  bool is_integer = (o->range > 0 || o->calibrate) && mmci_dtype_is_integer(o->dtype);
  for (int64_t p = 0; p < o->product_count; p++)
    is_integer = is_integer || mmci_dtype_is_integer(o->products[p].dtype);
  for (int64_t c = 0; c < o->chain_count; c++)
    is_integer = is_integer || (o->chains[c] != NULL && mmci_dtype_is_integer(o->chains[c]->dtype));
  for (int64_t c = 0; c < o->chain_count; c++)
    if (o->chains[c] != NULL && o->chains[c]->rule.semiring != MMC_PLUS_TIMES)
      return mmci_fail_argument(error, MMC_E_ARG, "chains",
                                "expected semiring plus-times, got %s: there is nothing to choose",
                                mmc_semiring_name(o->chains[c]->rule.semiring));
  if (!is_integer) return MMC_OK;
  return mmci_fail_argument(error, MMC_E_ARG, "dtype",
                            "expected one of floating-point numbers: integers need no tuning");
}

/* Reproducible products are computed one way only. */
static mmc_status read_precision(const char *name, mmci_precision *out, mmci_error *error) {
  mmc_status status = mmci_precision_read(name, out, error);
  if (status != MMC_OK || !mmci_precision_is_reproducible(*out)) return status;
  return mmci_fail_argument(error, MMC_E_ARG, "precision",
                            "expected native, faithful or fast: reproducible products need no "
                            "tuning");
}

static mmc_status check_tune_options(const mmc_tune_options *o, mmci_error *error) {
  bool for_energy = o->objective != NULL && strcmp(o->objective, "energy") == 0;
  if (o->objective != NULL && !for_energy && strcmp(o->objective, "time") != 0)
    return mmci_fail_argument(error, MMC_E_ARG, "objective", "expected time or energy, got '%s'",
                              o->objective);
  if (o->meter != NULL && !for_energy)
    return mmci_fail_argument(error, MMC_E_ARG, "meter", "expected objective energy with it");
  if (o->range > 0 && for_energy)
    return mmci_fail_argument(
        error, MMC_E_ARG, "range",
        "expected objective time with it; of other sizes than those of chains "
        "and products a model gives the joules");
  if (!(o->budget_s >= 0))
    return mmci_fail_argument(error, MMC_E_ARG, "budget",
                              "expected seconds, or 0 for no end, got %g", o->budget_s);
  if (o->chain_count < 0 || (o->chain_count > 0 && o->chains == NULL) || o->product_count < 0 ||
      (o->product_count > 0 && o->products == NULL))
    return mmci_fail(error, MMC_E_ARG, "chains and products: expected as many as are counted");
  if (o->range < 0 || o->range > MMCI_ARRAY_MOST)
    return mmci_fail_argument(error, MMC_E_ARG, "range", "expected sizes from 1 to %lld, got %lld",
                              (long long)MMCI_ARRAY_MOST, (long long)o->range);
  if (mmc_dtype_name(o->dtype) == NULL || (unsigned)o->op_a > MMC_OP_H ||
      (unsigned)o->op_b > MMC_OP_H)
    return mmci_fail(error, MMC_E_ARG, "dtype and ops: expected those of mmc_dtype and mmc_op");
  if (o->chain_count == 0 && o->product_count == 0 && o->range == 0 && !o->calibrate)
    return mmci_fail(error, MMC_E_ARG, "options: expected chains, products, range or calibrate");
  mmc_status status = MMC_OK;
  for (int64_t p = 0; status == MMC_OK && p < o->product_count; p++)
    status = check_product(&o->products[p], p, error);
  return status == MMC_OK ? check_dtypes(o, error) : status;
}

/* Opens the meter of energy. One that is not here, which mmc_meter_open() allows, is a failure. */
static mmc_status open_meter(mmc_context *context, const char *name, mmc_meter **out,
                             mmci_error *error) {
  mmc_status status = mmci_meter_open(context, name, out, error);
  if (status != MMC_OK || (*out)->ops != &mmci_meter_none) return status;
  char reason[sizeof error->text];
  (*out)->ops->describe((*out)->meter, reason, sizeof reason);
  return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "meter", "nothing measures joules here: %s",
                            reason);
}

static mmc_status tune_device(mmc_context *context, const mmc_tune_options *options,
                              mmc_tune_report *report, mmci_error *error) {
  mmci_opened on;
  mmc_meter *meter = NULL;
  mmci_tune_request request = {
      .options = options,
      .on = &on,
      .for_energy = options->objective != NULL && strcmp(options->objective, "energy") == 0,
      .wisdom = context->wisdom};
  mmc_status status = read_precision(options->precision, &request.precision, error);
  if (status == MMC_OK)
    status = mmci_context_open_device(context, options->device != NULL ? options->device : "cpu",
                                      &on, error);
  if (status == MMC_OK && request.for_energy) {
    status = open_meter(context, options->meter != NULL ? options->meter : on.name, &meter, error);
    if (meter != NULL) {
      request.meter_ops = meter->ops;
      request.meter = meter->meter;
    }
  }
  if (status == MMC_OK) status = mmci_tune_session(&request, report, error);
  mmc_meter_destroy(meter);
  return status;
}

mmc_status mmc_tune(mmc_context *context, const mmc_tune_options *options,
                    mmc_tune_report *report) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_tune_report made = {0};
  mmc_tune_options read = MMC_TUNE_OPTIONS_INIT;
  mmc_status status = options == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "options: expected some, got NULL")
                          : mmci_options_read("options", options, &read, sizeof read, &error);
  if (status == MMC_OK) status = check_tune_options(&read, &error);
  if (status == MMC_OK) status = tune_device(context, &read, &made, &error);
  if (report != NULL && (status == MMC_OK || status == MMC_E_INTERRUPTED)) *report = made;
  return mmci_report(context, status, &error);
}
