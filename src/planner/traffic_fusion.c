#include "planner/traffic_fusion.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/explain.h"

/* Checks a tile that is given, against the words that the chip holds. */
static mmc_status check_tile(const mmc_plan_options *options, const mmci_traffic_request *request,
                             mmci_error *error) {
  int64_t x = options->tile[0], y = options->tile[1], words = request->chip.words;
  if (x == 0 && y == 0) return MMC_OK;
  if (x < 1 || y < 1)
    return mmci_fail_argument(
        error, MMC_E_ARG, "tile",
        "expected rows and columns of 1 at least, or 0 for both, got %" PRId64 "x%" PRId64, x, y);
  if (x > words / y)
    return mmci_fail_argument(error, MMC_E_ARG, "tile",
                              "expected one that fits the %" PRId64 " words on chip, got %" PRId64
                              "x%" PRId64,
                              words, x, y);
  if (request->joint)
    return mmci_fail_argument(error, MMC_E_ARG, "tile",
                              "expected fuse none, poster or exact with it, got 'joint'");
  return MMC_OK;
}

mmc_status mmci_traffic_request_read(const mmc_plan_options *options, mmci_traffic_request *out,
                                     mmci_error *error) {
  const char *fuse = options->fuse;
  int64_t on_chip_words = options->on_chip_words;
  static const mmci_traffic_request kinds[] = {
      {.fuse = "exact", .rule = MMCI_FUSE_EXACT},
      {.fuse = "none", .rule = MMCI_FUSE_NONE},
      {.fuse = "poster", .rule = MMCI_FUSE_POSTER},
      {.fuse = "joint", .rule = MMCI_FUSE_EXACT, .joint = true},
  };
  const mmci_traffic_request *kind = fuse == NULL ? kinds : NULL;
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0] && kind == NULL; k++)
    if (strcmp(fuse, kinds[k].fuse) == 0) kind = &kinds[k];
  if (kind == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "fuse",
                              "expected none, poster, exact or joint, got '%s'", fuse);
  if (on_chip_words < 0 || on_chip_words > MMCI_MAX_DIM)
    return mmci_fail_argument(error, MMC_E_ARG, "on_chip_words",
                              "expected 1 to 2^62 words, or 0 for %d, got %" PRId64,
                              MMC_ON_CHIP_WORDS, on_chip_words);
  *out = *kind;
  out->chip = (mmci_chip){.words = on_chip_words != 0 ? on_chip_words : MMC_ON_CHIP_WORDS,
                          .x = options->tile[0],
                          .y = options->tile[1]};
  return check_tile(options, out, error);
}

/* ---- fusions ------------------------------------------------------------------------------- */

/* step_of[t] is the step that computes product t of the tree. */
static void number_steps(const mmci_plan *plan, int32_t *step_of) {
  int32_t n = plan->tree.n;
  step_of[n - 2] = n - 2;
  for (int32_t t = n - 2; t >= 0; t--) { /* parents have greater numbers than their children */
    mmci_product p = plan->tree.products[t];
    const mmci_plan_step *step = &plan->steps[step_of[t]];
    if (p.left >= n) step_of[p.left - n] = step->left - n;
    if (p.right >= n) step_of[p.right - n] = step->right - n;
  }
}

static mmci_u128 result_words(const mmci_plan_step *step) {
  return (mmci_u128)step->m * (mmci_u128)step->n;
}

/* Turns the fusions of one product after another into those of one step after another. */
static void take_fusions(const mmci_plan *plan, const mmci_fusion *fusions, const int32_t *step_of,
                         mmci_plan_traffic *traffic) {
  for (int32_t t = plan->tree.n - 2; t >= 0; t--) { /* the later partner comes first */
    mmci_fusion choice = fusions[t];
    mmci_step_traffic *out = &traffic->steps[step_of[t]];
    if (choice.partner > t) {
      const mmci_step_traffic *partner = &traffic->steps[step_of[choice.partner]];
      out->fusion = partner->fusion;
      out->kernel = (mmci_traffic){.x = partner->kernel.x, .y = partner->kernel.y};
    } else {
      out->fusion = choice.chosen;
      out->kernel = choice.kernel;
      out->kernel.words = mmci_u128_add(out->kernel.words, result_words(&plan->steps[step_of[t]]));
      if (choice.partner >= 0) traffic->pairs++;
    }
    if (choice.partner >= 0) choice.partner = step_of[choice.partner];
    out->choice = choice;
    traffic->words = mmci_u128_add(traffic->words, out->kernel.words);
  }
}

static void fuse(const mmci_plan *plan, mmci_range *ranges, mmci_fusion *fusions, int32_t *step_of,
                 mmci_plan_traffic *traffic) {
  const mmci_tree *tree = &plan->tree;
  const int64_t *dims = plan->chain->dims;
  const mmci_traffic_request *request = &traffic->request;
  int32_t last = tree->n - 2;
  mmci_tree_ranges(tree, ranges);
  mmci_fuse(tree, ranges, dims, MMCI_FUSE_NONE, request->chip, fusions);
  traffic->unfused_words =
      mmci_u128_add(mmci_fusion_words(&fusions[last]), result_words(&plan->steps[last]));
  mmci_fuse(tree, ranges, dims, request->rule, request->chip, fusions);
  number_steps(plan, step_of);
  take_fusions(plan, fusions, step_of, traffic);
}

mmc_status mmci_plan_fuse(mmci_plan *plan, const mmci_traffic_request *request, mmci_error *error) {
  size_t count = (size_t)plan->tree.n - 1;
  size_t size = sizeof *plan->traffic + count * sizeof plan->traffic->steps[0];
  mmci_plan_traffic *traffic = mmci_alloc_zeroed(1, size);
  if (traffic == NULL) return mmci_fail_nomem(error, size);
  traffic->request = *request;
  if (count > 0) {
    size = sizeof(mmci_fusion) + sizeof(mmci_range) + sizeof(int32_t);
    mmci_fusion *fusions = mmci_alloc_array(count, size);
    if (fusions == NULL) {
      free(traffic);
      return mmci_fail_nomem(error, count * size);
    }
    mmci_range *ranges = (mmci_range *)(fusions + count);
    fuse(plan, ranges, fusions, (int32_t *)(ranges + count), traffic);
    free(fusions);
  }
  if (traffic->words == MMCI_U128_MAX || traffic->unfused_words == MMCI_U128_MAX) {
    free(traffic);
    return mmci_fail(error, MMC_E_OVERFLOW, "dims: the words moved do not fit 128 bits");
  }
  free(plan->traffic);
  plan->traffic = traffic;
  plan->explainer = &mmci_explain_traffic;
  return MMC_OK;
}

/* ---- order and fusion at once -------------------------------------------------------------- */

static mmc_status check_joint(const mmci_plan *plan, uint64_t limit_bytes, mmci_error *error) {
  if (plan->multiplications == MMCI_U128_MAX)
    return mmci_fail(error, MMC_E_OVERFLOW,
                     "dims: the number of multiplications does not fit 128 bits");
  if (plan->workspace_bytes > limit_bytes)
    return mmci_fail_argument(error, MMC_E_MEMORY_LIMIT, "memory limit",
                              "the order of least traffic needs %" PRIu64
                              " bytes of workspace, got %" PRIu64
                              "; fuse 'exact' looks for orders that fit",
                              plan->workspace_bytes, limit_bytes);
  if (plan->workspace_bytes == UINT64_MAX)
    return mmci_fail(error, MMC_E_OVERFLOW, "dims: the intermediates exceed the address space");
  return MMC_OK;
}

mmc_status mmci_plan_create_joint(const mmc_chain *chain, int64_t on_chip_words, mmci_bounds bounds,
                                  mmci_plan *out, mmci_error *error) {
  if (chain->n > MMCI_JOINT_MOST_FACTORS)
    return mmci_fail_argument(error, MMC_E_ARG, "fuse",
                              "'joint' takes at most %d factors, got %" PRId32,
                              MMCI_JOINT_MOST_FACTORS, chain->n);
  mmci_tree tree;
  mmci_u128 words;
  mmc_status status =
      mmci_order_joint(chain->n, chain->dims, on_chip_words, &bounds, &tree, &words, error);
  if (status != MMC_OK) return status;
  mmci_plan plan;
  status = mmci_plan_from_tree(chain, &tree, &plan, error);
  if (status != MMC_OK) return status;
  status = mmci_plan_shrink(&plan, bounds.limit_bytes, error);
  if (status == MMC_OK) status = check_joint(&plan, bounds.limit_bytes, error);
  if (status != MMC_OK) {
    mmci_plan_destroy(&plan);
    return status;
  }
  plan.solver = "joint";
  *out = plan;
  return MMC_OK;
}
