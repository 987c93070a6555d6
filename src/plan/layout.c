/* layout.c: finds the sequence of a tree's products, and a place in the workspace for every
 * result. */
#include "plan/layout.h"

#include <math.h>

#include "base/alloc.h"
#include "order/workspace.h"

/* Trees up to this many factors are laid out without allocating. */
enum { SHORT = 32 };

/* The region in which a product may work: bytes lo to hi of the workspace, with its result at one
 * end. */
typedef struct region {
  uint64_t lo, hi;
  bool result_high;
} region;

/* Which step computes a product, and what is known of it while steps are laid out. */
typedef struct layout {
  mmci_range range;
  mmci_need need;
  uint64_t bytes; /* of the result */
  region where;
  int32_t step;
} layout;

size_t mmci_plan_element_bytes(const mmci_plan *plan) {
  int64_t bytes, size = (int64_t)mmc_dtype_size(plan->chain->dtype);
  return __builtin_mul_overflow(plan->chunk, size, &bytes) ? INT64_MAX : (size_t)bytes;
}

static uint64_t product_bytes(const mmci_plan *plan, mmci_range range) {
  const mmc_chain *chain = plan->chain;
  const bool is_common = mmci_chain_product_batch(chain, range.first, range.last) < chain->batch;
  return mmci_result_bytes(chain->dims[range.first], chain->dims[range.last],
                           mmci_plan_matrix_element_bytes(plan, is_common));
}

/* Gives a child its step and its region, which the result of the child before it has shrunk. */
static void place_child(layout *child, int32_t step, bool result_high, region *free_region) {
  child->step = step;
  child->where = *free_region;
  child->where.result_high = result_high;
  if (result_high)
    free_region->hi -= child->bytes;
  else
    free_region->lo += child->bytes;
}

/* Gives two children that may be computed at the same time regions of their own. */
static void place_apart(const layout *x, layout *left, layout *right, bool root) {
  /* The product's own result is at the other end of its region, or before them. */
  uint64_t begin = x->where.lo;
  if (!root && !x->where.result_high) begin += x->bytes;
  left->step = x->step - 1 - (right->range.last - right->range.first - 1);
  right->step = x->step - 1;
  left->where = (region){.lo = begin, .hi = begin + left->need.bytes};
  right->where = (region){.lo = left->where.hi, .hi = left->where.hi + right->need.bytes};
}

/* Fills the steps from the last to the first: a sub-tree of c products takes c steps in a row, its
 * root the last of them. */
static void lay_out_steps(const mmci_plan *plan, layout *layouts) {
  const mmci_tree *tree = &plan->tree;
  const int64_t *dims = plan->chain->dims;
  int32_t n = tree->n;
  layouts[n - 2].step = n - 2;
  layouts[n - 2].where = (region){.lo = 0, .hi = plan->workspace_bytes};
  for (int32_t t = n - 2; t >= 0; t--) { /* parents have greater numbers than their children */
    layout *x = &layouts[t];
    mmci_product p = tree->products[t];
    layout *left = p.left < n ? NULL : &layouts[p.left - n];
    layout *right = p.right < n ? NULL : &layouts[p.right - n];
    layout *first = x->need.right_first ? right : left,
           *second = x->need.right_first ? left : right;
    region free_region = x->where;
    bool child_high = !x->where.result_high;
    if (plan->parallel && left != NULL && right != NULL) {
      place_apart(x, left, right, t == n - 2);
      first = second = NULL;
    }
    if (first != NULL) {
      int32_t second_products = second != NULL ? second->range.last - second->range.first - 1 : 0;
      place_child(first, x->step - 1 - second_products, child_high, &free_region);
    }
    if (second != NULL) place_child(second, x->step - 1, child_high, &free_region);

    uint64_t offset = 0;
    if (t != n - 2) offset = x->where.result_high ? x->where.hi - x->bytes : x->where.lo;
    plan->steps[x->step] = (mmci_plan_step){
        .m = dims[x->range.first],
        .k = dims[x->range.split],
        .n = dims[x->range.last],
        .left = left != NULL ? n + left->step : p.left,
        .right = right != NULL ? n + right->step : p.right,
        .first = x->range.first,
        .last = x->range.last - 1,
        .offset_bytes = offset,
        .kernel = "",
        .predicted_s = NAN,
        .group = -1,
    };
  }
}

/* Computes the needs when children that are both products may be computed at the same time. */
static void parallel_needs(const mmci_plan *plan, layout *layouts) {
  const mmci_tree *tree = &plan->tree;
  int32_t n = tree->n;
  for (int32_t t = 0; t < n - 1; t++) {
    layout *x = &layouts[t];
    mmci_product p = tree->products[t];
    const layout *left = p.left < n ? NULL : &layouts[p.left - n];
    const layout *right = p.right < n ? NULL : &layouts[p.right - n];
    uint64_t own = t == n - 2 ? 0 : x->bytes;
    if (left != NULL && right != NULL) {
      x->need.bytes = mmci_bytes_add(own, mmci_bytes_add(left->need.bytes, right->need.bytes));
    } else {
      const layout *child = left != NULL ? left : right;
      uint64_t both = child != NULL ? mmci_bytes_add(child->bytes, own) : own;
      x->need.bytes = child != NULL && child->need.bytes > both ? child->need.bytes : both;
    }
  }
}

void mmci_plan_count_levels(mmci_plan *plan) {
  int32_t n = plan->chain->n;
  for (int32_t s = 0; s < plan->step_count; s++) {
    mmci_plan_step *step = &plan->steps[s];
    int32_t left = step->left < n ? 0 : plan->steps[step->left - n].level;
    int32_t right = step->right < n ? 0 : plan->steps[step->right - n].level;
    step->level = 1 + (left > right ? left : right);
  }
}

/* Says whether an operand, of a step that has only shared factors, is one matrix for all chains. A
 * group computes its results for every chain. */
static bool is_common_operand(const mmci_plan *plan, int32_t operand) {
  const int32_t step = operand - plan->chain->n;
  return step < 0 || plan->steps[step].is_common;
}

void mmci_plan_find_common(mmci_plan *plan) {
  const mmc_chain *chain = plan->chain;
  for (int32_t s = 0; s < plan->step_count; s++) {
    mmci_plan_step *step = &plan->steps[s];
    step->is_common = plan->structure == NULL && step->group < 0 &&
                      mmci_chain_product_batch(chain, step->first, step->last + 1) < chain->batch &&
                      is_common_operand(plan, step->left) && is_common_operand(plan, step->right);
  }
}

mmc_status mmci_plan_lay_out(mmci_plan *plan, bool parallel, mmci_error *error) {
  const mmc_chain *chain = plan->chain;
  size_t count = (size_t)chain->n - 1;
  if (plan->steps != NULL && !mmci_plan_is_tree(plan)) {
    plan->parallel = parallel;
    return mmci_plan_place(plan, error);
  }
  if (plan->steps == NULL) plan->steps = mmci_alloc_array(count, sizeof *plan->steps);
  if (plan->steps == NULL) return mmci_fail_nomem(error, count * sizeof *plan->steps);
  plan->step_count = (int32_t)count;
  plan->parallel = parallel;
  if (count == 0) return MMC_OK;

  struct {
    layout layouts[SHORT];
    mmci_range ranges[SHORT];
    mmci_need needs[SHORT];
    uint64_t bytes[SHORT];
  } small;
  layout *layouts = small.layouts;
  mmci_range *ranges = small.ranges;
  mmci_need *needs = small.needs;
  uint64_t *bytes = small.bytes;
  void *memory = NULL;
  if (count > SHORT) {
    size_t size = sizeof *layouts + sizeof *ranges + sizeof *needs + sizeof *bytes;
    memory = mmci_alloc_array(count, size);
    if (memory == NULL) return mmci_fail_nomem(error, count * size);
    layouts = memory;
    needs = (mmci_need *)(layouts + count);
    bytes = (uint64_t *)(needs + count);
    ranges = (mmci_range *)(bytes + count);
  }
  mmci_tree_ranges(&plan->tree, ranges);
  for (size_t t = 0; t < count; t++) bytes[t] = product_bytes(plan, ranges[t]);
  mmci_tree_needs(&plan->tree, bytes, needs);
  for (size_t t = 0; t < count; t++)
    layouts[t] = (layout){.range = ranges[t], .need = needs[t], .bytes = bytes[t]};
  if (parallel) parallel_needs(plan, layouts);
  plan->workspace_bytes = layouts[count - 1].need.bytes;
  lay_out_steps(plan, layouts);
  mmci_plan_count_levels(plan);
  mmci_plan_find_common(plan);
  free(memory);
  return MMC_OK;
}
