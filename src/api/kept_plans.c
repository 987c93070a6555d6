/* kept_plans.c: see kept_plans.h. */
#include "api/kept_plans.h"

#include <string.h>

#include "base/alloc.h"
#include "device/free_memory.h"
#include "planner/objective.h"
#include "planner/offers.h"

enum { MOST_FACTORS = 32 };

/* ---- what is compared ------------------------------------------------------------------------ */

static bool is_keepable(const mmci_plan_asked *x) {
  const mmc_plan_options *o = x->options;
  const mmc_chain *chain = x->chain;
  return x->gang == NULL && chain->n <= MOST_FACTORS && chain->traits == NULL &&
         chain->inverse_count == 0 &&
         (x->objective == &mmci_objective_time || x->objective == &mmci_objective_flops) &&
         (o->solver == NULL || strcmp(o->solver, "auto") == 0) && o->order == NULL &&
         o->kernel == NULL && o->fuse == NULL && !o->scaled;
}

static uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ hash >> 32;
}

static uint64_t hash_of(const mmci_plan_asked *x) {
  const mmc_chain *chain = x->chain;
  uint64_t hash = mix(0, (uintptr_t)x->on.device);
  hash = mix(hash, (uintptr_t)x->objective);
  hash = mix(hash, (uint64_t)x->precision << 32 | (uint64_t)x->options->location << 8 |
                       (uint64_t)chain->dtype);
  hash = mix(hash, (uint64_t)chain->batch);
  for (int32_t i = 0; i <= chain->n; i++) hash = mix(hash, (uint64_t)chain->dims[i]);
  for (int32_t i = 0; i < chain->n && chain->shared != NULL; i++)
    hash = mix(hash, (uint64_t)chain->shared[i]);
  return hash;
}

/* Says whether both arrays of n numbers are the same, or neither is there. */
static bool is_same_array(const int32_t *a, const int32_t *b, size_t n) {
  return (a == NULL) == (b == NULL) && (a == NULL || memcmp(a, b, n * sizeof *a) == 0);
}

/* Says whether two chains without structure are the same but for what a product may be off by. */
static bool is_same_chain(const mmc_chain *a, const mmc_chain *b) {
  const size_t n = (size_t)a->n;
  return a->dtype == b->dtype && a->n == b->n && a->batch == b->batch &&
         a->rule.modulus == b->rule.modulus && a->rule.checked == b->rule.checked &&
         a->rule.semiring == b->rule.semiring &&
         memcmp(a->dims, b->dims, (n + 1) * sizeof *a->dims) == 0 &&
         memcmp(a->ops, b->ops, n * sizeof *a->ops) == 0 && is_same_array(a->same, b->same, n) &&
         is_same_array(a->shared, b->shared, n);
}

/* Facts that differ between their members only would be planned for again, nothing worse. */
static bool is_same_facts(const mmci_facts *a, const mmci_facts *b) {
  return memcmp((const char *)a, (const char *)b, sizeof *a) == 0;
}

static bool is_same_source(const mmci_plan_source *a, const mmci_plan_source *b) {
  return a->hash == b->hash && a->objective == b->objective && a->precision == b->precision &&
         a->tolerance == b->tolerance && a->memory_limit_bytes == b->memory_limit_bytes &&
         a->device_memory_bytes == b->device_memory_bytes && a->location == b->location &&
         a->pricing == b->pricing && is_same_facts(&a->facts, &b->facts);
}

static bool is_for(const mmc_plan *plan, const mmci_plan_asked *x) {
  return is_same_source(&plan->source, &x->source) && plan->on.device == x->on.device &&
         plan->on.ops == x->on.ops && is_same_chain(plan->plan.chain, x->chain);
}

/* Says whether the plan fits into what is free for sure of its device's memory, whatever that was
 * when it was made. */
static bool has_room(const mmc_plan *plan) {
  const mmci_plan *p = &plan->plan;
  uint64_t free_bytes;
  mmci_error error;
  if (plan->on.ops->async == NULL) return true;
  if (p->streamed || p->crowded || p->chunk < p->chain->batch) return false;
  if (p->resident_bytes <= mmci_free_memory_for_sure(&plan->on, &free_bytes)) return true;
  return mmci_free_memory_ask(&plan->on, &free_bytes, &error) == MMC_OK &&
         p->resident_bytes <= mmci_free_memory_for_sure(&plan->on, &free_bytes);
}

/* ---- the table ------------------------------------------------------------------------------- */

void mmci_kept_plans_destroy(mmci_kept_plans *plans) {
  for (int p = 0; p < MMCI_KEPT_PLANS; p++) mmc_plan_destroy(plans->at[p]);
}

static size_t place_of(const mmci_plan_asked *asked) {
  return asked->source.hash % MMCI_KEPT_PLANS;
}

/* Fills in what the plan is asked for by, and returns whether the same was asked for before. */
static bool came_again(mmc_context *context, mmci_plan_asked *asked) {
  asked->source = (mmci_plan_source){.hash = hash_of(asked),
                                     .objective = asked->objective,
                                     .precision = asked->precision,
                                     .tolerance = asked->tolerance,
                                     .memory_limit_bytes = asked->options->memory_limit_bytes,
                                     .device_memory_bytes = asked->options->device_memory_bytes,
                                     .location = asked->options->location};
  uint64_t *came = &context->kept.came[place_of(asked)];
  pthread_mutex_lock(&context->lock);
  const bool again = *came == asked->source.hash;
  *came = asked->source.hash;
  pthread_mutex_unlock(&context->lock);
  return again;
}

/* Finds out what the plan is made of. */
static mmc_status find_source(mmc_context *context, mmci_plan_asked *asked, mmci_error *error) {
  mmci_plan_source *source = &asked->source;
  const mmc_dtype dtype = asked->chain->dtype;
  return asked->objective == &mmci_objective_time
             ? mmci_offers_pricing(&asked->on, context->wisdom, dtype, asked->precision,
                                   &source->pricing, error)
             : mmci_offers_facts(&asked->on, dtype, asked->precision, &source->facts, error);
}

/* Returns the plan that is kept, with one more reference, or NULL. */
static mmc_plan *take(mmc_context *context, const mmci_plan_asked *asked) {
  pthread_mutex_lock(&context->lock);
  mmc_plan *plan = context->kept.at[place_of(asked)];
  if (plan != NULL && is_for(plan, asked))
    atomic_fetch_add(&plan->references, 1);
  else
    plan = NULL;
  pthread_mutex_unlock(&context->lock);
  return plan;
}

mmc_status mmci_kept_plans_look(mmc_context *context, mmci_plan_asked *asked, mmc_plan **out,
                                mmci_error *error) {
  *out = NULL;
  asked->may_keep = is_keepable(asked) && came_again(context, asked);
  if (!asked->may_keep) return MMC_OK;
  mmc_status status = find_source(context, asked, error);
  asked->may_keep = status == MMC_OK;
  if (status == MMC_E_NOMEM) return status;
  /* Any other failure is told by the planner, which finds the same. */
  if (status != MMC_OK) return MMC_OK;
  mmc_plan *plan = take(context, asked);
  if (plan == NULL || has_room(plan))
    *out = plan;
  else
    mmc_plan_destroy(plan);
  return MMC_OK;
}

void mmci_kept_plans_end(mmc_context *context, mmci_plan_asked *asked, mmc_plan *made) {
  if (!asked->may_keep) return;
  /* A plan of another precision than was asked for had no room for that one. */
  if (made == NULL || made->precision != asked->precision || !has_room(made)) {
    mmci_wisdom_pricing_release(asked->source.pricing);
    return;
  }
  memcpy(&made->source, &asked->source, sizeof made->source);
  atomic_fetch_add(&made->references, 1);
  pthread_mutex_lock(&context->lock);
  mmc_plan **at = &context->kept.at[place_of(asked)], *before = *at;
  *at = made;
  pthread_mutex_unlock(&context->lock);
  mmc_plan_destroy(before);
}
