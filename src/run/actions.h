/* actions.h: the products of a plan with their operands, prepared on the device. */
#ifndef MMCI_ACTIONS_H
#define MMCI_ACTIONS_H

#include "cost/recipe.h"
#include "device/device.h"
#include "device/padding.h"
#include "plan/group_problem.h"
#include "plan/plan.h"

/* Where a factor is read from. For a form that is gathered, data is the device's table of
 * addresses, and addresses the host's. */
typedef struct mmci_operand {
  const void *data;
  mmci_form form;
  void *const *addresses;
} mmci_operand;

/* Where the result goes: element (r, c) lies at r * ld + c, or at c * ld + r when by_columns.
 * Results of a batch lie at the stride, or at addresses unless that is NULL. */
typedef struct mmci_target {
  void *data;
  int64_t ld;
  bool by_columns;
  int64_t stride;
  void *const *addresses;
} mmci_target;

/* One call of the device; the offsets of its operands from those of the action are in bytes. */
typedef struct mmci_call {
  mmci_gemm gemm;
  /* The device does not do all chains at once: gemm is of some, and called so many times, each from
   * a chain that is so many after the last. */
  bool looped;
  int64_t times, step;
  mmci_kernel *kernel; /* the kernel of gemm; NULL before it is prepared */
  int64_t a, b, c;
  int queue; /* calls of one queue follow each other; others need not */
} mmci_call;

/* Several products that are executed by one call. */
typedef struct mmci_group_action {
  mmci_group_problem problem;
  mmci_group_kernel *kernel; /* prepared for these forms: */
  mmci_form *forms;
  int64_t ldc, c_stride;
  bool transposed;
  double expected_s; /* as the device predicts it without gaps; NAN where it does not */
} mmci_group_action;

/* One product as it is executed: by one call, by the calls of the step's recipe, or as part of a
 * group of products. Of a group, there are no calls, and only group, c and step mean anything. A
 * column-major result is the transposed product of the transposed operands: then a and b have
 * changed places. */
typedef struct mmci_action {
  int32_t step;             /* step of the plan; the last one of a group */
  mmci_group_action *group; /* NULL when it is one product */
  mmci_gemm gemm;           /* the whole product */
  mmci_call *calls;         /* call_count calls; one of them lies in the action itself */
  int call_count, queues;
  int queue; /* where its one call goes; -1 where it is computed otherwise */
  mmci_call whole;
  mmci_padding padding;
  const void *a, *b;
  void *c;
  /* Addresses of the matrices of a batch; NULL when they lie at strides. */
  void *const *a_addresses, *const *b_addresses, *const *c_addresses;
  int32_t a_number, b_number; /* numbers of the operands, as operands of a step */
} mmci_action;

typedef struct mmci_actions {
  const mmci_plan *plan;
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_precision precision;
  int64_t batch; /* chains that the actions multiply */
  int32_t count; /* how many groups there are, and steps outside groups */
  mmci_action *actions;
  /* For each step of the plan, whether its result is one matrix for all chains, as its factors. */
  bool *is_common;
  void *padding_room; /* padding in the device's memory; NULL when there is none */
  /* Groups that are slow as their matrices lie are refused, unless all is to be taken; is_slow says
   * that one was. */
  bool takes_all, is_slow;
  uint64_t replaced; /* how many kernels with memory of their own made way for others; graphs
                        captured before that must not be launched */
} mmci_actions;

mmc_status mmci_actions_create(const mmci_plan *plan, const mmci_device_ops *ops,
                               mmci_device *device, mmci_precision precision, int64_t batch,
                               mmci_actions *out, mmci_error *error);
void mmci_actions_destroy(mmci_actions *actions);

/* Returns the largest number of queues that an action has. */
int mmci_actions_queues(const mmci_actions *actions);

/* Points the actions at n operands, the workspace and the result, and prepares those that have
 * changed. Returns E_UNSUPPORTED, for groups when the plan has such, also where the device predicts
 * that their products one by one take less as the matrices lie, and what prepare does. */
mmc_status mmci_actions_bind(mmci_actions *actions, const mmci_operand *operands, char *workspace,
                             const mmci_target *target, mmci_error *error);

/* Lets products use what others make of the same operands, where the device has such. Every
 * action's queue is known, and actions go to their queues in their order. Said again after every
 * bind. */
void mmci_actions_share(mmci_actions *actions);

/* Points the actions at the matrices that most callers give, row-major without gaps, and
 * prepares those that have changed. It fills n operands, without addresses. */
mmc_status mmci_actions_expect(mmci_actions *actions, mmci_operand *operands, char *workspace,
                               mmci_error *error);

/* Return factor i, and the result, where they lie, from chain number `begin` on. */
mmci_operand mmci_operand_of(const mmc_chain *chain, int32_t i, const mmc_matrix *matrix,
                             int64_t begin);
mmci_target mmci_target_of(const mmc_chain *chain, const mmc_matrix *out, int64_t begin);

/* Give the queue the one call of a group; a call of an action; all calls of all actions, one after
 * the other. */
mmc_status mmci_actions_enqueue_group(const mmci_actions *actions, const mmci_action *action,
                                      mmci_queue *queue, mmci_error *error);
mmc_status mmci_call_enqueue(const mmci_actions *actions, mmci_queue *queue, const mmci_action *x,
                             const mmci_call *call, mmci_error *error);
mmc_status mmci_actions_enqueue(const mmci_actions *actions, mmci_queue *queue, mmci_error *error);
/* Lets an error say which product has exceeded its dtype; its factors are counted from 1. */
void mmci_actions_name_overflow(const mmci_actions *actions, const mmci_action *action,
                                mmci_error *error);

bool mmci_gemm_same(const mmci_gemm *x, const mmci_gemm *y);

/* Prepares gemm as *kernel unless that was prepared for the same product, `before`. What was there
 * is released first, and on failure too, so that no more memory is held than was planned. Where
 * these operands do not have the variant, the device's own choice takes its place. */
mmc_status mmci_actions_prepare(mmci_actions *actions, const mmci_gemm *gemm, mmci_gemm *before,
                                mmci_kernel **kernel, mmci_error *error);

#endif
