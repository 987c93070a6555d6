#include "plan/plan.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "order/workspace.h"

/* Trees up to this many factors are laid out without allocating. */
enum { SHORT = 32 };

/* Where a product may work: bytes lo to hi of the workspace, its result at one end of them. */
typedef struct region {
  uint64_t lo, hi;
  bool result_high;
} region;

/* Which step computes a product, and what is known of it while steps are laid out. */
typedef struct layout {
  mmci_range range;
  mmci_need need;
  region where;
  int32_t step;
} layout;

static uint64_t product_bytes(const mmc_chain *chain, const layout *x) {
  return mmci_result_bytes(chain->dims[x->range.first], chain->dims[x->range.last],
                           mmc_dtype_size(chain->dtype));
}

/* Gives a child its step and its region, which the result of the child before it has shrunk. */
static void place_child(const mmc_chain *chain, layout *child, int32_t step, bool result_high,
                        region *free_region) {
  child->step = step;
  child->where = *free_region;
  child->where.result_high = result_high;
  uint64_t bytes = product_bytes(chain, child);
  if (result_high)
    free_region->hi -= bytes;
  else
    free_region->lo += bytes;
}

/* Fills the steps from the last to the first: a sub-tree of c products takes c steps in a row, its
 * root the last of them. */
static void lay_out(const mmc_chain *chain, const mmci_tree *tree, uint64_t workspace_bytes,
                    layout *layouts, mmci_plan_step *steps) {
  int32_t n = tree->n;
  layouts[n - 2].step = n - 2;
  layouts[n - 2].where = (region){.lo = 0, .hi = workspace_bytes};
  for (int32_t t = n - 2; t >= 0; t--) { /* parents have greater numbers than their children */
    layout *x = &layouts[t];
    mmci_product p = tree->products[t];
    layout *left = p.left < n ? NULL : &layouts[p.left - n];
    layout *right = p.right < n ? NULL : &layouts[p.right - n];
    layout *first = x->need.right_first ? right : left,
           *second = x->need.right_first ? left : right;
    region free_region = x->where;
    bool child_high = !x->where.result_high;
    if (first != NULL) {
      int32_t second_products = second != NULL ? second->range.last - second->range.first - 1 : 0;
      place_child(chain, first, x->step - 1 - second_products, child_high, &free_region);
    }
    if (second != NULL) place_child(chain, second, x->step - 1, child_high, &free_region);

    uint64_t offset = 0;
    if (t != n - 2)
      offset = x->where.result_high ? x->where.hi - product_bytes(chain, x) : x->where.lo;
    steps[x->step] = (mmci_plan_step){
        .m = chain->dims[x->range.first],
        .k = chain->dims[x->range.split],
        .n = chain->dims[x->range.last],
        .left = left != NULL ? n + left->step : p.left,
        .right = right != NULL ? n + right->step : p.right,
        .first = x->range.first,
        .last = x->range.last - 1,
        .offset_bytes = offset,
        .kernel = "",
    };
  }
}

/* Fills the plan's steps and workspace from its chain and tree. */
static mmc_status arrange(mmci_plan *plan, mmci_error *error) {
  const mmc_chain *chain = plan->chain;
  size_t count = (size_t)chain->n - 1;
  plan->steps = mmci_alloc_array(count, sizeof *plan->steps);
  if (plan->steps == NULL) return mmci_fail_nomem(error, count * sizeof *plan->steps);
  if (count == 0) return MMC_OK;

  struct {
    layout layouts[SHORT];
    mmci_range ranges[SHORT];
    mmci_need needs[SHORT];
  } small;
  layout *layouts = small.layouts;
  mmci_range *ranges = small.ranges;
  mmci_need *needs = small.needs;
  void *memory = NULL;
  if (count > SHORT) {
    size_t size = sizeof *layouts + sizeof *ranges + sizeof *needs;
    memory = mmci_alloc_array(count, size);
    if (memory == NULL) return mmci_fail_nomem(error, count * size);
    layouts = memory;
    needs = (mmci_need *)(layouts + count);
    ranges = (mmci_range *)(needs + count);
  }
  mmci_tree_ranges(&plan->tree, ranges);
  mmci_tree_needs(&plan->tree, ranges, chain->dims, mmc_dtype_size(chain->dtype), needs);
  for (size_t t = 0; t < count; t++) layouts[t] = (layout){.range = ranges[t], .need = needs[t]};
  plan->workspace_bytes = needs[count - 1].bytes;
  lay_out(chain, &plan->tree, plan->workspace_bytes, layouts, plan->steps);
  free(memory);
  return MMC_OK;
}

mmc_status mmci_plan_from_tree(const mmc_chain *chain, mmci_tree *tree, mmci_plan *out,
                               mmci_error *error) {
  mmci_plan plan = {.tree = *tree, .solver = "", .device = ""};
  *tree = (mmci_tree){0};
  mmc_status status =
      mmci_chain_create(chain->dtype, chain->n, chain->dims, chain->ops, &plan.chain, error);
  if (status == MMC_OK)
    status = mmci_tree_multiplications(&plan.tree, chain->dims, &plan.multiplications, error);
  if (status == MMC_OK) status = arrange(&plan, error);
  if (status != MMC_OK) {
    mmci_plan_destroy(&plan);
    return status;
  }
  *out = plan;
  return MMC_OK;
}

/* The best order is too large: the cheapest that fits instead. */
static mmc_status replace_within(const mmc_chain *chain, const mmci_order_problem *problem,
                                 uint64_t limit_bytes, mmci_plan *plan, mmci_error *error) {
  mmci_order_answer answer;
  uint64_t leanest_bytes = 0;
  mmc_status status = mmci_order_within(problem, mmc_dtype_size(chain->dtype), limit_bytes,
                                        &leanest_bytes, &answer, error);
  if (status == MMC_E_MEMORY_LIMIT)
    return mmci_fail(error, status,
                     "memory limit: no order fits in %" PRIu64
                     " bytes of workspace; the leanest needs %" PRIu64 ", the cheapest %" PRIu64,
                     limit_bytes, leanest_bytes, plan->workspace_bytes);
  if (status != MMC_OK) return status;
  mmci_plan smaller;
  status = mmci_plan_from_tree(chain, &answer.tree, &smaller, error);
  if (status != MMC_OK) return status;
  smaller.limited = true;
  smaller.limit_bytes = limit_bytes;
  smaller.unlimited_multiplications = plan->multiplications;
  smaller.unlimited_bytes = plan->workspace_bytes;
  mmci_plan_destroy(plan);
  *plan = smaller;
  return MMC_OK;
}

mmc_status mmci_plan_create(const mmc_chain *chain, const char *solver, uint64_t limit_bytes,
                            mmci_plan *out, mmci_error *error) {
  mmci_order_problem problem = {.n = chain->n, .dims = chain->dims};
  mmci_order_answer answer;
  const mmci_solver *used;
  mmc_status status = mmci_order_solve(solver, &problem, false, &used, &answer, error);
  if (status != MMC_OK) return status;

  mmci_plan plan;
  status = mmci_plan_from_tree(chain, &answer.tree, &plan, error);
  if (status != MMC_OK) return status;
  if (plan.workspace_bytes > limit_bytes)
    status = replace_within(chain, &problem, limit_bytes, &plan, error);
  if (status == MMC_OK && plan.workspace_bytes == UINT64_MAX)
    status = mmci_fail(error, MMC_E_OVERFLOW, "dims: the intermediates exceed the address space");
  if (status != MMC_OK) {
    mmci_plan_destroy(&plan);
    return status;
  }
  plan.solver = used->name;
  *out = plan;
  return MMC_OK;
}

void mmci_plan_destroy(mmci_plan *plan) {
  mmc_chain_destroy(plan->chain);
  mmci_tree_destroy(&plan->tree);
  free(plan->steps);
  free(plan->traffic);
}

mmci_u128 mmci_plan_left_to_right(const mmci_plan *plan) {
  const mmc_chain *chain = plan->chain;
  mmci_u128 total = 0;
  for (int32_t k = 1; k < chain->n; k++)
    total = mmci_u128_add(total,
                          mmci_multiplications(chain->dims[0], chain->dims[k], chain->dims[k + 1]));
  return total;
}
