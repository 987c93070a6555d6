/* plan_traffic.h: plans for least traffic: which steps share a kernel, and the words they move.
 *
 * A fusion is in the cost only, and steps and workspace are those of the same order without it,
 * until mmci_plan_choose_groups() makes one call of a pair. */
#ifndef MMCI_PLAN_TRAFFIC_H
#define MMCI_PLAN_TRAFFIC_H

#include "order/fusion.h"
#include "plan/plan.h"

/* What is asked of a plan for traffic. */
typedef struct mmci_traffic_request {
  const char *fuse; /* static text: as the option spells it */
  mmci_fuse_rule rule;
  bool joint; /* the order too is chosen for least traffic */
  int64_t on_chip_words;
} mmci_traffic_request;

/* Reads the options fuse and on_chip_words of mmc_plan_options. Returns E_ARG. */
mmc_status mmci_traffic_request_read(const char *fuse, int64_t on_chip_words,
                                     mmci_traffic_request *out, mmci_error *error);

typedef struct mmci_step_traffic {
  mmci_fusion choice; /* partner is a step, not a product of the tree */
  mmc_fusion fusion;  /* of the kernel that the step is in */
  /* Of that kernel, with the write of its result; the earlier of two partners moves 0 words. */
  mmci_traffic kernel;
} mmci_step_traffic;

typedef struct mmci_plan_traffic {
  mmci_traffic_request request;
  mmci_u128 words, unfused_words; /* of the plan, and of its order with a kernel for each step */
  int32_t pairs;                  /* of steps that share a kernel */
  mmci_step_traffic steps[];      /* n-1 */
} mmci_plan_traffic;

/* Chooses the fusions of a plan whose steps are final. Returns E_NOMEM, E_OVERFLOW. */
mmc_status mmci_plan_fuse(mmci_plan *plan, const mmci_traffic_request *request, mmci_error *error);

/* Plans the chain in the order of least traffic; mmci_plan_fuse() is still to come. Returns E_ARG
 * (too many factors), E_NOMEM, E_OVERFLOW, E_MEMORY_LIMIT. */
mmc_status mmci_plan_create_joint(const mmc_chain *chain, int64_t on_chip_words,
                                  uint64_t limit_bytes, mmci_plan *out, mmci_error *error);

#endif
