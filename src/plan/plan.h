/* plan.h: an order turned into steps, each with a place for its result. */
#ifndef MMCI_PLAN_H
#define MMCI_PLAN_H

#include "chain/chain.h"
#include "order/order.h"

/* One product. Operands are numbered as in mmc_step. */
typedef struct mmci_plan_step {
  int64_t m, k, n;
  int32_t left, right;
  int32_t first, last;   /* the factors it covers, counted from 0 */
  uint64_t offset_bytes; /* of the result in the workspace; unused by the last step */
  const char *kernel;    /* static text: what the device will run; "" when not asked */
} mmci_plan_step;

/* One way to multiply a chain: n-1 products in the order in which they run. Every sub-tree is
 * finished before another begins, the child first that makes the workspace smaller. A result lies
 * in the workspace, row-major without gaps, from its step to the one that reads it; the last one is
 * the caller's. Results alternate between the two ends of the workspace, so that what is free is
 * always one piece and the workspace is no larger than the most that lives at once. Nothing changes
 * after mmci_plan_create(), so threads may share it. */
typedef struct mmci_plan {
  mmc_chain *chain; /* its own copy */
  mmci_tree tree;
  mmci_plan_step *steps; /* n-1 */
  mmci_u128 multiplications;
  uint64_t workspace_bytes;
  const char *solver; /* static text: who found the order */
  const char *device; /* outlives the plan */
  /* Set when a memory limit turned the cheapest order down. */
  bool limited;
  mmci_u128 unlimited_multiplications;
  uint64_t unlimited_bytes, limit_bytes;
  struct mmci_plan_traffic *traffic; /* see plan_traffic.h; NULL: the objective is flops */
} mmci_plan;

/* Plans the chain with the solver of that name. Returns what mmc_plan_create() does. */
mmc_status mmci_plan_create(const mmc_chain *chain, const char *solver, uint64_t limit_bytes,
                            mmci_plan *out, mmci_error *error);
/* Plans this tree, which it takes over, on failure too. solver and device are left "". */
mmc_status mmci_plan_from_tree(const mmc_chain *chain, mmci_tree *tree, mmci_plan *out,
                               mmci_error *error);
void mmci_plan_destroy(mmci_plan *plan);

/* Multiplications of the chain left to right; MMCI_U128_MAX when they do not fit. */
mmci_u128 mmci_plan_left_to_right(const mmci_plan *plan);

mmc_status mmci_plan_explain(const mmci_plan *plan, mmc_format format, mmc_write_fn write,
                             void *user, mmci_error *error);

#endif
