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
  /* How the device is to compute it; NULL: by one plain call. The plan's. */
  const struct mmci_recipe *recipe;
  uint64_t padding_offset_bytes; /* of the copies that the recipe wants, in the room for padding */
  double predicted_s;            /* NaN when the objective is not time */
  double plain_s;                /* the same of the plain call, where there is a recipe */
  const char *source; /* static text, of recipe and prediction: "measured", "array", "model"; "" */
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
  /* For a device with memory of its own, see mmci_plan_fit(). */
  bool parallel;           /* sub-trees share no memory and may be computed at the same time */
  bool streamed;           /* intermediates are on the host, products pass the device in panels */
  uint64_t resident_bytes; /* that everything would take there at once; 0: memory is the host's */
  uint64_t device_bytes;   /* that the plan may take there */
  uint64_t padding_bytes;  /* of resident_bytes: room for operands that recipes pad */
  const char *precision;   /* static text */
  /* What the objective asks for; both NULL when it is flops. */
  struct mmci_plan_traffic *traffic; /* see plan_traffic.h */
  struct mmci_plan_time *time;       /* see plan_time.h */
} mmci_plan;

/* What the planner has to know of a device with memory of its own. */
typedef struct mmci_plan_machine {
  int queues;            /* products that may run side by side */
  uint64_t memory_bytes; /* that the plan may take there */
  bool staged;           /* factors and result are on the host and need room there as well */
} mmci_plan_machine;

/* Plans the chain with the solver of that name. Returns what mmc_plan_create() does. */
mmc_status mmci_plan_create(const mmc_chain *chain, const char *solver, uint64_t limit_bytes,
                            mmci_plan *out, mmci_error *error);
/* Plans this tree, which it takes over, on failure too. solver and device are left "". */
mmc_status mmci_plan_from_tree(const mmc_chain *chain, mmci_tree *tree, mmci_plan *out,
                               mmci_error *error);
void mmci_plan_destroy(mmci_plan *plan);

/* Fits a plan to a device with memory of its own: sub-trees side by side when there is room for
 * that within limit_bytes of workspace, one after the other when not, and when even that does not
 * fit, products streamed in panels. Returns E_MEMORY_LIMIT when the smallest panels do not fit: how
 * much is missing. */
mmc_status mmci_plan_fit(mmci_plan *plan, const mmci_plan_machine *machine, uint64_t limit_bytes,
                         mmci_error *error);

/* Gives the copies of a step whose recipe pads their places, where the plan's share of the device's
 * memory has room for them after mmci_plan_fit(). Elsewhere, and on the host, the step becomes one
 * plain call. */
void mmci_plan_place_padding(mmci_plan *plan, mmci_plan_step *step);

/* Multiplications of the chain left to right; MMCI_U128_MAX when they do not fit. */
mmci_u128 mmci_plan_left_to_right(const mmci_plan *plan);

mmc_status mmci_plan_explain(const mmci_plan *plan, mmc_format format, mmc_write_fn write,
                             void *user, mmci_error *error);

#endif
