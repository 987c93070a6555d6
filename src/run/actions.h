/* actions.h: the products of a plan with their operands, prepared on the device. */
#ifndef MMCI_ACTIONS_H
#define MMCI_ACTIONS_H

#include "cost/recipe.h"
#include "device/device.h"
#include "plan/plan.h"
#include "run/padding.h"

/* Where a factor is read from. */
typedef struct mmci_operand {
  const void *data;
  mmci_form form;
} mmci_operand;

/* Where the result goes: element (r, c) at r * ld + c, or c * ld + r when by_columns. */
typedef struct mmci_target {
  void *data;
  int64_t ld;
  bool by_columns;
} mmci_target;

/* One call of the device: offsets of its operands from the action's, in bytes. */
typedef struct mmci_call {
  mmci_gemm gemm;
  mmci_kernel *kernel; /* for gemm; NULL before it is prepared */
  int64_t a, b, c;
  int lane; /* calls of one lane follow each other, others need not */
} mmci_call;

/* One product as it is executed: by one call, or by those of the step's recipe. A column-major
 * result is the transposed product of the transposed operands: then a and b have changed places. */
typedef struct mmci_action {
  mmci_gemm gemm;   /* of the whole */
  mmci_call *calls; /* call_count; one of them is in the action itself */
  int call_count, lanes;
  mmci_call whole;
  mmci_padding padding;
  const void *a, *b;
  void *c;
  int32_t a_number, b_number; /* as operands of a step */
} mmci_action;

typedef struct mmci_actions {
  const mmci_plan *plan;
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_precision precision;
  int32_t count;
  mmci_action *actions;
  void *padding_room; /* in the device's memory; NULL: none */
} mmci_actions;

mmc_status mmci_actions_create(const mmci_plan *plan, const mmci_device_ops *ops,
                               mmci_device *device, mmci_precision precision, mmci_actions *out,
                               mmci_error *error);
void mmci_actions_destroy(mmci_actions *actions);

/* The most lanes that an action has. */
int mmci_actions_lanes(const mmci_actions *actions);

/* Points the actions at n operands, the workspace and the result, and prepares those that have
 * changed. Returns E_UNSUPPORTED and what the device's prepare does. */
mmc_status mmci_actions_bind(mmci_actions *actions, const mmci_operand *operands, char *workspace,
                             const mmci_target *target, mmci_error *error);

/* The same for what most callers give: matrices that are row-major without gaps. Fills n operands,
 * without addresses. */
mmc_status mmci_actions_expect(mmci_actions *actions, mmci_operand *operands, char *workspace,
                               mmci_error *error);

bool mmci_gemm_same(const mmci_gemm *x, const mmci_gemm *y);

/* Prepares gemm as *kernel unless that was for the same as before; releases what was there. A
 * variant that these operands do not have is the device's own choice instead. */
mmc_status mmci_actions_prepare(const mmci_actions *actions, const mmci_gemm *gemm,
                                mmci_gemm *before, mmci_kernel **kernel, mmci_error *error);

#endif
