/* group_call.h: a group of a plan's steps as the device's contract has it. */
#ifndef MMCI_GROUP_CALL_H
#define MMCI_GROUP_CALL_H

#include "device/device.h"
#include "plan/plan.h"

/* chain points at forms and products, which are in one allocation with data. */
typedef struct mmci_group_call {
  mmci_device_chain chain;
  mmci_form *forms;
  mmci_chain_step *products;
  const void **data; /* room for the addresses of the operands */
  bool transposed;   /* the transposed operands in reverse, for a result by columns */
} mmci_group_call;

/* The group with its operands and result row-major, without gaps. Returns E_NOMEM. */
mmc_status mmci_group_call_create(const mmci_plan *plan, const mmci_plan_group *group,
                                  mmci_precision precision, mmci_group_call *out,
                                  mmci_error *error);
void mmci_group_call_destroy(mmci_group_call *call);

/* Fills the products for the group or for its transpose. */
void mmci_group_call_turn(mmci_group_call *call, const mmci_plan *plan,
                          const mmci_plan_group *group, bool transposed);
/* Where operand o of the group stands among those of the call. */
static inline int32_t mmci_group_call_place(const mmci_group_call *call, int32_t o) {
  return call->transposed ? call->chain.n - 1 - o : o;
}

#endif
