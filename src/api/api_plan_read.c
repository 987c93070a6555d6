/* api_plan_read.c: the public call that plans again what was saved. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/options.h"
#include "plan/saved.h"

/* Text in memory. */
typedef struct collected {
  char *bytes;
  size_t size, capacity;
} collected;

static int collect(void *user, const char *bytes, size_t size) {
  collected *x = user;
  if (size > x->capacity - x->size) {
    const size_t capacity = 2 * (x->capacity + size);
    char *grown = realloc(x->bytes, capacity);
    if (grown == NULL) return 1;
    x->bytes = grown;
    x->capacity = capacity;
  }
  memcpy(x->bytes + x->size, bytes, size);
  x->size += size;
  return 0;
}

/* Finds what a plan would be saved as. */
static mmc_status save(const mmc_plan *plan, mmci_saved *out, mmci_error *error) {
  collected text = {0};
  mmc_status status = mmc_plan_explain(plan, MMC_JSON, collect, &text);
  if (status == MMC_E_IO) status = mmci_fail_nomem(error, text.size);
  if (status == MMC_OK) status = mmci_saved_read(text.bytes, text.size, out, error);
  free(text.bytes);
  return status;
}

static mmc_status differ(mmci_error *error, const char *step, const char *what, const char *was,
                         const char *is) {
  return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "plan",
                            "step '%.80s' had the %s '%.120s', and would have '%.120s' now", step,
                            what, was, is);
}

/* Compares the steps of the saved plan with those of one made now. */
static mmc_status compare(const mmci_saved *was, const mmci_saved *is, mmci_error *error) {
  if (strcmp(was->device, is->device) != 0)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "plan",
                              "the device was '%.40s', and would be '%.40s' now", was->device,
                              is->device);
  if (was->step_count != is->step_count)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "plan",
                              "there were %" PRId64 " steps, and would be %" PRId64 " now",
                              was->step_count, is->step_count);
  for (int64_t s = 0; s < was->step_count; s++) {
    const mmci_saved_step *a = &was->steps[s], *b = &is->steps[s];
    if (strcmp(a->product, b->product) != 0)
      return differ(error, a->product, "product", a->product, b->product);
    if (strcmp(a->split, b->split) != 0)
      return differ(error, a->product, "split", a->split, b->split);
    if (strcmp(a->kernel, b->kernel) != 0)
      return differ(error, a->product, "kernel", a->kernel, b->kernel);
  }
  return MMC_OK;
}

/* Plans with these options and sees whether the steps are the same. */
static mmc_status plan_same(mmc_context *context, const mmc_chain *chain,
                            const mmc_plan_options *options, const mmci_saved *saved,
                            mmc_plan **out, mmci_error *error) {
  mmc_plan *plan;
  mmci_saved now = {0};
  mmc_status status = mmc_plan_create(context, chain, options, &plan);
  if (status != MMC_OK) {
    /* The message is the context's already, and is kept. */
    mmc_context_message(context, error->text, sizeof error->text);
    static const char *const names[] = {"device",        "order",        "objective",
                                        "precision",     "memory limit", "fuse",
                                        "on_chip_words", "tile",         "max_slowdown"};
    char argument[32];
    mmc_context_argument(context, argument, sizeof argument);
    for (size_t a = 0; a < sizeof names / sizeof *names; a++)
      if (strcmp(names[a], argument) == 0) error->argument = names[a];
    return status;
  }
  status = save(plan, &now, error);
  if (status == MMC_OK) status = compare(saved, &now, error);
  mmci_saved_free(&now);
  if (status == MMC_OK)
    *out = plan;
  else
    mmc_plan_destroy(plan);
  return status;
}

/* Sees that the saved plan is for this chain. */
static mmc_status check_chain(const mmc_chain *chain, const mmci_saved *saved, mmci_error *error) {
  collected text = {0};
  mmc_status status = mmc_chain_write(chain, collect, &text);
  if (status != MMC_OK || collect(&text, "", 1) != 0)
    status = mmci_fail_nomem(error, text.size);
  else if (strcmp(text.bytes, saved->chain) != 0)
    status =
        mmci_fail_argument(error, MMC_E_ARG, "plan", "it is for %.160s, and the chain is %.160s",
                           saved->chain, text.bytes);
  free(text.bytes);
  return status;
}

/* Says whether the chain is the saved one but that more of its factors are known to be shared. */
static bool shares_more(const mmc_chain *chain, const mmc_chain *own, const mmci_saved *saved) {
  mmci_error ignored;
  if (chain->n != own->n) return false;
  for (int32_t i = 0; i < own->n; i++)
    if (mmc_chain_shared(own, i) && !mmc_chain_shared(chain, i)) return false;
  mmc_chain like = *chain;
  like.shared = own->shared;
  return check_chain(&like, saved, &ignored) == MMC_OK;
}

/* Finds the chain that is planned for a caller who has this one, or none; *own is to be destroyed.
 * A plan for matrices of every chain's own goes for shared ones, too. */
static mmc_status find_chain(const mmc_chain *given, const mmci_saved *saved, mmc_chain **own,
                             const mmc_chain **out, mmci_error *error) {
  mmci_error ignored;
  *out = given;
  const mmc_status status = given != NULL ? check_chain(given, saved, error) : MMC_E_ARG;
  if (status != MMC_E_ARG) return status;
  const mmc_status read = mmci_chain_parse(saved->chain, own, given != NULL ? &ignored : error);
  if (given != NULL && (read != MMC_OK || !shares_more(given, *own, saved))) return status;
  *out = *own;
  return read;
}

/* Says whether the plan's solver knows nothing of the structure that factors have. */
static bool ignores_structure(const mmc_chain *chain, const mmci_saved *saved) {
  return chain->traits != NULL && saved->solver != NULL &&
         (strcmp(saved->solver, "hu-shing") == 0 || strcmp(saved->solver, "table") == 0 ||
          strcmp(saved->solver, "brute") == 0);
}

static mmc_status plan_again(mmc_context *context, const mmci_saved *saved, const mmc_chain *given,
                             const mmc_plan_options *options, mmc_plan **out, mmci_error *error) {
  mmc_chain *own = NULL;
  const mmc_chain *chain = NULL;
  mmc_status status = find_chain(given, saved, &own, &chain, error);
  if (status != MMC_OK) {
    mmc_chain_destroy(own);
    return status;
  }
  mmc_plan_options with = *options;
  with.objective = saved->objective;
  with.device = saved->device;
  with.precision = saved->precision;
  const bool for_traffic = strcmp(saved->objective, "traffic") == 0;
  const char *rule = for_traffic && options->fuse == NULL ? saved->fuse : options->fuse;
  if (for_traffic && options->on_chip_words == 0) with.on_chip_words = saved->on_chip_words;
  if (for_traffic && options->tile[0] == 0 && options->tile[1] == 0)
    memcpy(with.tile, saved->tile, sizeof with.tile);
  if (strcmp(saved->objective, "energy") == 0 && options->max_slowdown == 0)
    with.max_slowdown = saved->max_slowdown;
  /* What is planned by itself may share results, which an order that is given does not; and in an
   * order that is given the structure of factors is used, which a solver that was given may not
   * know. The rule "exact" is saved whether it was given, so that devices fuse more, or not. */
  enum { BY_ITSELF, IN_ITS_ORDER, BY_ITS_SOLVER, WAYS };
  const bool may_be_default = rule != NULL && options->fuse == NULL && strcmp(rule, "exact") == 0,
             keeps_order = rule == NULL || strcmp(rule, "joint") != 0;
  const bool is_tried[WAYS] = {true, keeps_order, ignores_structure(chain, saved)};
  bool goes_on = true;
  for (int way = BY_ITSELF; way < WAYS && goes_on; way++)
    for (int rules = may_be_default ? 0 : 1; rules < 2 && goes_on && is_tried[way]; rules++) {
      with.fuse = rules == 0 ? NULL : rule;
      with.order = way == IN_ITS_ORDER ? saved->order : NULL;
      with.solver = way == BY_ITS_SOLVER ? saved->solver : NULL;
      status = plan_same(context, chain, &with, saved, out, error);
      goes_on = status == MMC_E_UNSUPPORTED || status == MMC_E_MEMORY_LIMIT;
    }
  mmc_chain_destroy(own);
  return status;
}

static mmc_status read_plan(mmc_context *context, const char *text, size_t size,
                            const mmc_chain *chain, const mmc_plan_options *options, mmc_plan **out,
                            mmci_error *error) {
  if (text == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "text", "expected a plan, got NULL");
  if (out == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "out", "expected an address, got NULL");
  mmc_plan_options read = MMC_PLAN_OPTIONS_INIT;
  mmc_status status = mmci_options_read("options", options, &read, sizeof read, error);
  if (status != MMC_OK) return status;
  if (read.solver != NULL || read.device != NULL || read.objective != NULL ||
      read.precision != NULL || read.order != NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "options",
                              "expected no solver, device, objective, precision and order, which "
                              "the plan says");
  mmci_saved saved;
  status = mmci_saved_read(text, size, &saved, error);
  if (status == MMC_OK) status = plan_again(context, &saved, chain, &read, out, error);
  mmci_saved_free(&saved);
  return status;
}

mmc_status mmc_plan_read(mmc_context *context, const char *text, size_t size,
                         const mmc_chain *chain, const mmc_plan_options *options, mmc_plan **out) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(context, read_plan(context, text, size, chain, options, out, &error), &error);
}
