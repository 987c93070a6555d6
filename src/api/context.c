/* context.c: the public calls about contexts, devices and chains. */
#include <stdio.h>
#include <string.h>

#include "api/kept_plans.h"
#include "base/alloc.h"
#include "base/options.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *mmc_version(void) {
  return TEXT(MMC_VERSION_MAJOR) "." TEXT(MMC_VERSION_MINOR) "." TEXT(MMC_VERSION_PATCH);
}

mmc_status mmci_report(mmc_context *context, mmc_status status, const mmci_error *error) {
  if (status == MMC_OK || context == NULL) return status;
  pthread_mutex_lock(&context->lock);
  snprintf(context->message, sizeof context->message, "%s", error->text);
  snprintf(context->argument, sizeof context->argument, "%s",
           error->argument != NULL ? error->argument : "");
  pthread_mutex_unlock(&context->lock);
  return status;
}

mmc_status mmci_report_null(mmc_context *context, const char *argument) {
  mmci_error error;
  return mmci_report(
      context, mmci_fail(&error, MMC_E_ARG, "%s: expected an address, got NULL", argument), &error);
}

mmc_status mmc_context_create(const mmc_context_options *options, mmc_context **out) {
  if (out == NULL) return MMC_E_ARG;
  mmc_context_options read = MMC_CONTEXT_OPTIONS_INIT;
  mmci_error error;
  mmc_status status = mmci_options_read("options", options, &read, sizeof read, &error);
  if (status != MMC_OK) return status;

  mmc_context *context = mmci_alloc_zeroed(1, sizeof *context);
  if (context == NULL) return MMC_E_NOMEM;
  if (read.blas_library != NULL) status = mmci_devices_choose_blas(read.blas_library, &error);
  if (status == MMC_OK) status = mmci_registry_create(read.module_dir, &context->registry, &error);
  if (status == MMC_OK) status = mmci_wisdom_create(read.wisdom_path, &context->wisdom, &error);
  if (status == MMC_OK && pthread_mutex_init(&context->lock, NULL) != 0) status = MMC_E_NOMEM;
  if (status != MMC_OK) {
    mmci_wisdom_destroy(context->wisdom);
    mmci_registry_destroy(context->registry);
    free(context);
    return status;
  }
  *out = context;
  return MMC_OK;
}

void mmc_context_destroy(mmc_context *context) {
  if (context == NULL) return;
  mmci_kept_plans_destroy(&context->kept);
  mmci_wisdom_destroy(context->wisdom);
  mmci_gangs_destroy(context->gangs);
  mmci_registry_destroy(context->registry);
  pthread_mutex_destroy(&context->lock);
  free(context);
}

/* Copies a text of the context. */
static char *copy_text(mmc_context *context, const char *kept, char *text, size_t size) {
  if (text == NULL || size == 0) return text;
  text[0] = '\0';
  if (context == NULL) return text;
  pthread_mutex_lock(&context->lock);
  snprintf(text, size, "%s", kept);
  pthread_mutex_unlock(&context->lock);
  return text;
}

char *mmc_context_message(mmc_context *context, char *text, size_t size) {
  return copy_text(context, context != NULL ? context->message : NULL, text, size);
}

char *mmc_context_argument(mmc_context *context, char *text, size_t size) {
  return copy_text(context, context != NULL ? context->argument : NULL, text, size);
}

const char *mmci_context_module_dir(const mmc_context *context) {
  return context != NULL ? mmci_registry_module_dir(context->registry) : NULL;
}

mmc_status mmci_context_open_device(mmc_context *context, const char *name, mmci_opened *out,
                                    mmci_error *error) {
  pthread_mutex_lock(&context->lock);
  mmc_status status = mmci_registry_open(context->registry, name, out, error);
  pthread_mutex_unlock(&context->lock);
  return status;
}

mmc_status mmc_device_describe(mmc_context *context, int index, mmc_device_info *out) {
  if (context == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(context, "out");
  mmci_error error = {0};
  pthread_mutex_lock(&context->lock);
  mmc_status status = mmci_registry_describe(context->registry, index, out, &error);
  pthread_mutex_unlock(&context->lock);
  return mmci_report(context, status, &error);
}

/* ---- chains -------------------------------------------------------------------------------- */

mmc_status mmc_chain_create(mmc_context *context, mmc_dtype dtype, int64_t n, const int64_t *dims,
                            const mmc_op *ops, mmc_chain **out) {
  mmci_error error = {0};
  mmc_status status = out == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "out: expected an address, got NULL")
                          : mmci_chain_create(dtype, n, dims, ops, out, &error);
  return mmci_report(context, status, &error);
}

static mmc_status create_batch(mmc_dtype dtype, int64_t n, const int64_t *dims, const mmc_op *ops,
                               const mmc_chain_options *options, mmc_chain **out,
                               mmci_error *error) {
  mmc_chain_options read = MMC_CHAIN_OPTIONS_INIT;
  if (out == NULL) return mmci_fail(error, MMC_E_ARG, "out: expected an address, got NULL");
  mmc_status status = mmci_options_read("options", options, &read, sizeof read, error);
  if (status != MMC_OK) return status;
  mmc_chain *chain;
  status = mmci_chain_create_as(dtype, n, dims, ops, &read, &chain, error);
  if (status != MMC_OK) return status;
  mmci_rule rule = {.modulus = read.modulus, .checked = read.checked, .semiring = read.semiring};
  status = mmci_chain_set_rule(chain, rule, error);
  if (status == MMC_OK)
    *out = chain;
  else
    mmc_chain_destroy(chain);
  return status;
}

mmc_status mmc_chain_create_batch(mmc_context *context, mmc_dtype dtype, int64_t n,
                                  const int64_t *dims, const mmc_op *ops,
                                  const mmc_chain_options *options, mmc_chain **out) {
  mmci_error error = {0};
  return mmci_report(context, create_batch(dtype, n, dims, ops, options, out, &error), &error);
}

mmc_status mmc_chain_parse(mmc_context *context, const char *text, mmc_chain **out) {
  mmci_error error = {0};
  mmc_status status = out == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "out: expected an address, got NULL")
                          : mmci_chain_parse(text, out, &error);
  return mmci_report(context, status, &error);
}
