/* gradient_steps.h: which products the gradients of a chain take, in which order, and where their
 * results lie. */
#ifndef MMCI_GRADIENT_STEPS_H
#define MMCI_GRADIENT_STEPS_H

#include "order/order.h"
#include "plan/plan.h"

/* Where a matrix is: a factor of the caller's, the chain's product or its cotangent, or in the
 * memory. */
typedef enum mmci_gradient_place {
  MMCI_AT_FACTOR,
  MMCI_AT_PRODUCT,
  MMCI_AT_COTANGENT,
  MMCI_AT_MEMORY
} mmci_gradient_place;

typedef struct mmci_gradient_operand {
  mmci_gradient_place place;
  int32_t factor;
  uint64_t offset;    /* in the memory, in bytes */
  int64_t rows, cols; /* after the factor's op */
} mmci_gradient_operand;

/* One product: c = a b on the way forward, c = a b^H of a left operand's cotangent, c = a^H b of a
 * right one's. Where c is the gradient of a factor, it is that of the factor as stored. */
typedef enum mmci_gradient_kind {
  MMCI_GRADIENT_FORWARD,
  MMCI_GRADIENT_OF_LEFT,
  MMCI_GRADIENT_OF_RIGHT
} mmci_gradient_kind;

typedef struct mmci_gradient_step {
  mmci_gradient_kind kind;
  mmci_gradient_operand a, b, c;
  int32_t of_factor; /* whose gradient c is; -1 */
  int32_t batch;     /* steps of the same number may be done at the same time */
} mmci_gradient_step;

typedef struct mmci_gradient_steps {
  int32_t n;
  mmci_gradient_step *steps;
  int32_t forward, count; /* so many steps go forward; how many there are */
  uint64_t *offsets;      /* of the gradients, n; UINT64_MAX for those that are not wanted */
  uint64_t bytes;         /* of the memory */
} mmci_gradient_steps;

/* Finds the steps. wanted may be NULL, for all. Where the memory would exceed the limit, in bytes,
 * results that are cheap for their size are not kept but computed again on the way back. Returns
 * E_NOMEM, E_OVERFLOW, E_UNSUPPORTED (the plan is no tree), E_MEMORY_LIMIT. */
mmc_status mmci_gradient_steps_make(const mmci_plan *plan, const bool *wanted, uint64_t limit,
                                    mmci_gradient_steps *out, mmci_error *error);
void mmci_gradient_steps_free(mmci_gradient_steps *steps);

#endif
