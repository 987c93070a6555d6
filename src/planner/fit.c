#include "planner/fit.h"

#include <inttypes.h>

#include "cost/recipe.h"
#include "order/workspace.h"
#include "plan/layout.h"
#include "plan/panels.h"
#include "plan/predictions.h"

/* Returns the bytes of all factors, each matrix once, and of the results of the chains that are
 * multiplied together. */
static uint64_t staged_bytes(const mmci_plan *plan) {
  const mmc_chain *chain = plan->chain;
  size_t size = mmci_plan_element_bytes(plan);
  uint64_t bytes = mmci_result_bytes(chain->dims[0], chain->dims[chain->n], size);
  for (int32_t i = 0; i < chain->n; i++) {
    if (chain->same != NULL && chain->same[i] != i) continue;
    const size_t element_bytes = mmci_plan_matrix_element_bytes(plan, mmc_chain_shared(chain, i));
    bytes =
        mmci_bytes_add(bytes, mmci_result_bytes(chain->dims[i], chain->dims[i + 1], element_bytes));
  }
  return bytes;
}

/* ---- recipes that are given up -------------------------------------------------------------- */

/* Makes the step one plain call. In a group it is none, whatever its recipe is. */
static void make_plain(mmci_plan *plan, mmci_plan_step *step) {
  step->recipe = NULL;
  if (plan->time == NULL || step->group >= 0) return;
  plan->time->predicted_s += step->plain_s - step->predicted_s;
  step->predicted_s = step->plain_s;
  if (plan->energy == NULL) return;
  mmci_energy_choice *choice = &plan->energy->choices[plan->energy->chosen];
  plan->energy->joules += step->plain_j - step->predicted_j;
  step->predicted_j = step->plain_j;
  choice->seconds = plan->time->predicted_s;
  choice->joules = plan->energy->joules;
  choice->recipes--;
}

/* ---- what steps hold ----------------------------------------------------------------------- */

static uint64_t step_scratch(const mmci_plan *plan, const mmci_plan_machine *machine, int32_t s) {
  return machine->scratch_bytes != NULL ? machine->scratch_bytes(machine->user, plan, s) : 0;
}

/* Counts the scratch of all steps, those of groups too, because a device may refuse a group
 * later. */
static uint64_t scratch_of(const mmci_plan *plan, const mmci_plan_machine *machine) {
  uint64_t bytes = 0;
  for (int32_t s = 0; s < plan->step_count; s++)
    bytes = mmci_bytes_add(bytes, step_scratch(plan, machine, s));
  return bytes;
}

/* Says whether so much scratch fits, with all else that is there. */
static bool has_room(const mmci_plan *plan, uint64_t scratch_bytes, uint64_t limit_bytes) {
  uint64_t others = plan->resident_bytes - plan->scratch_bytes;
  return scratch_bytes == 0 ||
         (mmci_bytes_add(plan->workspace_bytes, scratch_bytes) <= limit_bytes &&
          mmci_bytes_add(others, scratch_bytes) <= plan->device_bytes);
}

static void hold(mmci_plan *plan, uint64_t scratch_bytes) {
  plan->resident_bytes = mmci_bytes_add(plan->resident_bytes - plan->scratch_bytes, scratch_bytes);
  plan->scratch_bytes = scratch_bytes;
}

void mmci_plan_fit_recipes(mmci_plan *plan, const mmci_plan_machine *machine,
                           uint64_t limit_bytes) {
  if (plan->streamed || plan->crowded || plan->resident_bytes > plan->device_bytes) return;
  uint64_t scratch = scratch_of(plan, machine);
  for (int32_t s = 0; s < plan->step_count && !has_room(plan, scratch, limit_bytes); s++) {
    const mmci_recipe *recipe = plan->steps[s].recipe;
    uint64_t held = recipe != NULL ? step_scratch(plan, machine, s) : 0;
    plan->steps[s].recipe = NULL;
    uint64_t plain = step_scratch(plan, machine, s);
    plan->steps[s].recipe = recipe;
    if (plain >= held) continue;
    scratch -= held - plain;
    make_plain(plan, &plan->steps[s]);
  }
  hold(plan, scratch);
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* Checks that every product can pass in panels. */
static mmc_status check_panels(const mmci_plan *plan, uint64_t memory_bytes, mmci_error *error) {
  size_t size = mmc_dtype_size(plan->chain->dtype);
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    mmci_panels panels;
    if (mmci_panels_choose(step->m, step->k, step->n, size,
                           mmci_plan_keeps_k(plan, step->m, step->k, step->n), memory_bytes,
                           &panels))
      continue;
    uint64_t least = mmci_panels_bytes(&panels, size);
    return mmci_fail_argument(
        error, MMC_E_MEMORY_LIMIT, "device memory",
        "the smallest panels of a %" PRId64 "x%" PRId64 " by %" PRId64 "x%" PRId64
        " product need %" PRIu64 " bytes; %" PRIu64 " may be used, %" PRIu64 " are missing",
        step->m, step->k, step->k, step->n, least, memory_bytes, least - memory_bytes);
  }
  return MMC_OK;
}

/* Finds how many chains are in memory at once, when not all are: those at work, and the factors and
 * results of those that come and go meanwhile. 0 means not even one. */
static mmc_status most_chains(mmci_plan *plan, const mmci_plan_machine *machine, int64_t *out,
                              mmci_error *error) {
  int64_t chunk = plan->chunk;
  plan->chunk = 1;
  mmc_status status = mmci_plan_lay_out(plan, false, error);
  if (status != MMC_OK) return status;
  uint64_t staged = machine->staged ? staged_bytes(plan) : 0;
  uint64_t bytes = mmci_bytes_add(plan->workspace_bytes, mmci_bytes_add(staged, staged));
  uint64_t most = bytes > 0 ? machine->memory_bytes / bytes : (uint64_t)chunk;
  *out = most < (uint64_t)chunk ? (int64_t)most : chunk;
  return MMC_OK;
}

/* Cuts up what does not fit at once: into fewer chains at a time or, where there is only one, into
 * panels. */
static mmc_status cut_up(mmci_plan *plan, const mmci_plan_machine *machine, mmci_error *error) {
  if (plan->chain->batch > 1) {
    int64_t most;
    mmc_status status = most_chains(plan, machine, &most, error);
    if (status != MMC_OK) return status;
    if (most > 0) return mmci_plan_set_chunk(plan, most, error);
  }
  plan->streamed = true;
  return check_panels(plan, machine->memory_bytes, error);
}

/* Fits the plan where there is room for the sub-trees side by side, with so much scratch. */
static mmc_status fit_beside(mmci_plan *plan, const mmci_plan_machine *machine,
                             uint64_t limit_bytes, uint64_t staged, uint64_t scratch, bool *fits,
                             mmci_error *error) {
  *fits = false;
  plan->device_bytes = machine->memory_bytes;
  plan->streamed = plan->crowded = false;
  plan->scratch_bytes = 0;
  if (machine->queues <= 1) return MMC_OK;
  mmc_status status = mmci_plan_lay_out(plan, true, error);
  if (status != MMC_OK) return status;
  plan->resident_bytes = mmci_bytes_add(staged, plan->workspace_bytes);
  *fits = plan->workspace_bytes <= limit_bytes && plan->resident_bytes <= machine->memory_bytes &&
          has_room(plan, scratch, limit_bytes);
  if (*fits) hold(plan, scratch);
  return MMC_OK;
}

mmc_status mmci_plan_fit_beside(mmci_plan *plan, const mmci_plan_machine *machine,
                                uint64_t limit_bytes, bool *fits, mmci_error *error) {
  const uint64_t staged = machine->staged ? staged_bytes(plan) : 0;
  return fit_beside(plan, machine, limit_bytes, staged, scratch_of(plan, machine), fits, error);
}

mmc_status mmci_plan_fit(mmci_plan *plan, const mmci_plan_machine *machine, uint64_t limit_bytes,
                         mmci_error *error) {
  const uint64_t staged = machine->staged ? staged_bytes(plan) : 0;
  const uint64_t scratch = scratch_of(plan, machine);
  bool fits;
  mmc_status status = fit_beside(plan, machine, limit_bytes, staged, scratch, &fits, error);
  if (status != MMC_OK || fits) return status;
  if (machine->queues > 1) status = mmci_plan_lay_out(plan, false, error);
  if (status != MMC_OK) return status;
  plan->resident_bytes = mmci_bytes_add(staged, plan->workspace_bytes);
  /* A single factor is copied, with the host's help where it has to be. */
  if (plan->resident_bytes <= machine->memory_bytes || plan->chain->n == 1) {
    plan->crowded = !has_room(plan, scratch, limit_bytes);
    if (!plan->crowded) hold(plan, scratch);
    return MMC_OK;
  }
  status = cut_up(plan, machine, error);
  plan->crowded = scratch_of(plan, machine) > 0;
  return status;
}

void mmci_plan_place_padding(mmci_plan *plan, mmci_plan_step *step) {
  mmc_dtype dtype = plan->chain->dtype;
  int pad = step->recipe->pad;
  if (pad == 0) return;
  uint64_t bytes = mmci_padding_bytes(pad, dtype, step->m, step->k, step->n);
  uint64_t all = mmci_bytes_add(plan->resident_bytes, bytes);
  if (plan->streamed || plan->chain->batch > 1 || plan->device_bytes == 0 ||
      all > plan->device_bytes) {
    make_plain(plan, step);
    return;
  }
  step->padding_offset_bytes = plan->padding_bytes;
  plan->padding_bytes += bytes;
  plan->resident_bytes = all;
}
