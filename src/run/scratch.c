#include "run/scratch.h"

#include "base/alloc.h"
#include "cost/recipe.h"
#include "run/resident.h"

/* Returns the bytes of the calls that compute so many products. */
static uint64_t calls_bytes(const mmci_scratch_user *x, const mmci_recipe *recipe,
                            const mmci_gemm *one, int64_t batch) {
  mmci_recipe_piece pieces[MMCI_RECIPE_PIECES];
  mmci_gemm gemm = *one;
  mmci_gemm_spread(&gemm, batch);
  if (!x->ops->supports(x->device, &gemm)) gemm = *one;
  pieces[0].gemm = gemm;
  int count = recipe != NULL ? mmci_recipe_pieces(recipe, &gemm, pieces) : 1;
  uint64_t bytes = 0;
  for (int p = 0; p < count; p++)
    bytes = mmci_bytes_add(bytes, x->ops->scratch_bytes(x->device, &pieces[p].gemm));
  return bytes;
}

uint64_t mmci_step_scratch_bytes(const void *user, const mmci_plan *plan, int32_t step) {
  const mmci_scratch_user *x = user;
  const mmci_plan_step *s = &plan->steps[step];
  const mmc_chain *chain = plan->chain;
  if (x->ops->scratch_bytes == NULL || chain->batch == 0) return 0;
  mmci_range r = mmci_plan_range(plan, s);
  mmci_gemm gemm;
  mmci_chain_product(chain, x->precision, r.first, r.split, r.last, &gemm);
  int64_t rest = chain->batch % plan->chunk;
  const bool is_once = mmci_plan_step_batch(plan, s) < chain->batch;
  uint64_t bytes = calls_bytes(x, s->recipe, &gemm, is_once ? 1 : plan->chunk);
  if (rest > 0) bytes = mmci_bytes_add(bytes, calls_bytes(x, s->recipe, &gemm, is_once ? 1 : rest));
  bool crosses = s->left < chain->n || s->right < chain->n || step == plan->step_count - 1;
  if (!x->staged || !crosses || plan->chunk > 1) return bytes;
  return mmci_bytes_add(bytes, mmci_resident_cut_bytes(x->ops, x->device, &gemm));
}
