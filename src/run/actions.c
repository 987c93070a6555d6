#include "run/actions.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "run/matrices.h"

/* A run has no room for padded copies: what was to be padded is computed by one plain call. */
static const mmci_recipe *recipe_of(const mmci_plan_step *step) {
  return step->recipe != NULL && step->recipe->pad == 0 ? step->recipe : NULL;
}

static void destroy_group(mmci_group_action *group, const mmci_device_ops *ops) {
  if (group == NULL) return;
  if (group->kernel != NULL) ops->chain_release(group->kernel);
  mmci_group_call_destroy(&group->call);
  free(group);
}

static mmc_status create_group(const mmci_actions *actions, const mmci_plan_group *group,
                               mmci_group_action **out, mmci_error *error) {
  size_t size = sizeof(mmci_group_action) + (size_t)group->operand_count * sizeof(mmci_form);
  mmci_group_action *x = mmci_alloc_zeroed(1, size);
  if (x == NULL) return mmci_fail_nomem(error, size);
  x->forms = (mmci_form *)(x + 1);
  mmc_status status =
      mmci_group_call_create(actions->plan, group, actions->precision, &x->call, error);
  if (status != MMC_OK) {
    free(x);
    return status;
  }
  *out = x;
  return MMC_OK;
}

/* Room for the calls of the action of a step. */
static mmc_status create_action(const mmci_actions *actions, mmci_action *x, mmci_error *error) {
  const mmci_plan_step *step = &actions->plan->steps[x->step];
  x->lanes = 1;
  if (step->group >= 0)
    return create_group(actions, &actions->plan->groups[step->group], &x->group, error);
  const mmci_recipe *recipe = recipe_of(step);
  int count = recipe != NULL ? mmci_recipe_count(recipe) : 1;
  x->calls = count == 1 ? &x->whole : mmci_alloc_zeroed((size_t)count, sizeof *x->calls);
  if (x->calls == NULL) return mmci_fail_nomem(error, (size_t)count * sizeof *x->calls);
  x->call_count = count;
  x->lanes = recipe != NULL ? recipe->lanes : 1;
  return MMC_OK;
}

mmc_status mmci_actions_create(const mmci_plan *plan, const mmci_device_ops *ops,
                               mmci_device *device, mmci_precision precision, mmci_actions *out,
                               mmci_error *error) {
  size_t count = (size_t)plan->step_count;
  mmci_actions made = {.plan = plan,
                       .ops = ops,
                       .device = device,
                       .precision = precision,
                       .actions = mmci_alloc_zeroed(count, sizeof *made.actions)};
  if (made.actions == NULL) return mmci_fail_nomem(error, count * sizeof *made.actions);
  mmc_status status = MMC_OK;
  for (int32_t s = 0; s < plan->step_count && status == MMC_OK; s++) {
    if (mmci_plan_is_inside(plan, s)) continue;
    mmci_action *x = &made.actions[made.count++];
    x->step = s;
    status = create_action(&made, x, error);
  }
  if (status == MMC_OK)
    *out = made;
  else
    mmci_actions_destroy(&made);
  return status;
}

void mmci_actions_destroy(mmci_actions *actions) {
  for (int32_t s = 0; s < actions->count; s++) {
    mmci_action *x = &actions->actions[s];
    for (int c = 0; c < x->call_count; c++)
      if (x->calls[c].kernel != NULL) actions->ops->release(x->calls[c].kernel);
    if (x->calls != &x->whole) free(x->calls);
    destroy_group(x->group, actions->ops);
  }
  free(actions->actions);
}

int mmci_actions_lanes(const mmci_actions *actions) {
  int most = 1;
  for (int32_t s = 0; s < actions->count; s++)
    if (actions->actions[s].lanes > most) most = actions->actions[s].lanes;
  return most;
}

/* ---- preparing ------------------------------------------------------------------------------- */

static bool same_form(const mmci_form *x, const mmci_form *y) {
  return x->ld == y->ld && x->trans == y->trans && x->conj == y->conj &&
         x->gathered == y->gathered && x->stride == y->stride;
}

bool mmci_gemm_same(const mmci_gemm *x, const mmci_gemm *y) {
  return x->dtype == y->dtype && x->precision == y->precision && x->m == y->m && x->k == y->k &&
         x->n == y->n && same_form(&x->a, &y->a) && same_form(&x->b, &y->b) && x->ldc == y->ldc &&
         x->c_stride == y->c_stride && x->batch == y->batch && x->accumulate == y->accumulate &&
         x->variant == y->variant;
}

mmc_status mmci_actions_prepare(const mmci_actions *actions, const mmci_gemm *gemm,
                                mmci_gemm *before, mmci_kernel **kernel, mmci_error *error) {
  if (*kernel != NULL && mmci_gemm_same(gemm, before)) return MMC_OK;
  if (!actions->ops->supports(actions->device, gemm))
    return mmci_fail(
        error, MMC_E_UNSUPPORTED,
        "device '%s' cannot multiply %s %" PRId64 "x%" PRId64 " by %" PRId64 "x%" PRId64,
        actions->ops->name, mmc_dtype_name(gemm->dtype), gemm->m, gemm->k, gemm->k, gemm->n);
  mmci_kernel *prepared;
  mmc_status status = actions->ops->prepare(actions->device, gemm, &prepared, error);
  if (status == MMC_E_UNSUPPORTED && gemm->variant != 0) {
    mmci_gemm own_choice = *gemm;
    own_choice.variant = 0;
    status = actions->ops->prepare(actions->device, &own_choice, &prepared, error);
  }
  if (status != MMC_OK) return status;
  if (*kernel != NULL) actions->ops->release(*kernel);
  *kernel = prepared;
  *before = *gemm;
  return MMC_OK;
}

/* Prepares the calls of an action: the whole, or the pieces of its recipe, which was made for the
 * product as it is and is turned with a product that is computed transposed. */
static mmc_status prepare_calls(const mmci_actions *actions, mmci_action *x,
                                const mmci_recipe *recipe, bool transposed, const mmci_gemm *gemm,
                                mmci_error *error) {
  x->gemm = *gemm;
  if (recipe == NULL)
    return mmci_actions_prepare(actions, gemm, &x->whole.gemm, &x->whole.kernel, error);
  mmci_recipe turned = transposed ? mmci_recipe_transposed(recipe) : *recipe;
  mmci_piece pieces[MMCI_RECIPE_PIECES];
  int count = mmci_recipe_pieces(&turned, gemm, pieces);
  int64_t size = (int64_t)mmc_dtype_size(gemm->dtype);
  mmc_status status = MMC_OK;
  for (int c = 0; c < count && status == MMC_OK; c++) {
    mmci_call *call = &x->calls[c];
    call->a = pieces[c].a * size;
    call->b = pieces[c].b * size;
    call->c = pieces[c].c * size;
    call->lane = pieces[c].lane;
    status = mmci_actions_prepare(actions, &pieces[c].gemm, &call->gemm, &call->kernel, error);
  }
  return status;
}

/* Prepares the call of a group unless that is done. */
static mmc_status prepare_group(const mmci_actions *actions, mmci_group_action *x,
                                mmci_error *error) {
  const mmci_device_chain *chain = &x->call.chain;
  bool same = x->kernel != NULL && x->ldc == chain->ldc && x->transposed == x->call.transposed;
  for (int32_t o = 0; o < chain->n && same; o++) same = same_form(&x->forms[o], &chain->forms[o]);
  if (same) return MMC_OK;
  mmci_chain_kernel *prepared;
  mmc_status status = actions->ops->chain_prepare(actions->device, chain, &prepared, error);
  if (status != MMC_OK) return status;
  if (x->kernel != NULL) actions->ops->chain_release(x->kernel);
  x->kernel = prepared;
  memcpy(x->forms, chain->forms, (size_t)chain->n * sizeof *x->forms);
  x->ldc = chain->ldc;
  x->transposed = x->call.transposed;
  return MMC_OK;
}

mmc_status mmci_actions_enqueue_group(const mmci_actions *actions, const mmci_action *action,
                                      mmci_queue *queue, mmci_error *error) {
  const mmci_group_action *x = action->group;
  return actions->ops->chain_enqueue(queue, x->kernel, x->call.data, action->c, error);
}

/* ---- binding --------------------------------------------------------------------------------- */

/* Operand `number` of a step: a factor or an intermediate. */
static mmci_operand operand(const mmci_plan *plan, const mmci_operand *operands,
                            const char *workspace, int32_t number) {
  int32_t n = plan->chain->n;
  if (number < n) return operands[number];
  const mmci_plan_step *step = &plan->steps[number - n];
  return (mmci_operand){.data = workspace + step->offset_bytes,
                        .form = {.ld = step->n > 0 ? step->n : 1}};
}

static mmci_form transposed(mmci_form form) {
  form.trans = !form.trans;
  return form;
}

/* Where the result of a step goes, and how far apart its rows are. */
typedef struct place {
  void *data;
  int64_t ld;
  bool by_columns;
} place;

static place place_of(const mmci_plan *plan, int32_t s, char *workspace,
                      const mmci_target *target) {
  const mmci_plan_step *step = &plan->steps[s];
  if (s == plan->step_count - 1) return (place){target->data, target->ld, target->by_columns};
  return (place){workspace + step->offset_bytes, step->n > 0 ? step->n : 1, false};
}

static mmc_status bind_group(const mmci_actions *actions, mmci_action *x,
                             const mmci_operand *operands, const char *workspace, const place *c,
                             mmci_error *error) {
  const mmci_plan *plan = actions->plan;
  const mmci_plan_group *group = &plan->groups[plan->steps[x->step].group];
  mmci_group_call *call = &x->group->call;
  if (call->transposed != c->by_columns) mmci_group_call_turn(call, plan, group, c->by_columns);
  call->chain.ldc = c->ld;
  x->c = c->data;
  for (int32_t o = 0; o < group->operand_count; o++) {
    mmci_operand y = operand(plan, operands, workspace, group->operands[o]);
    int32_t at = mmci_group_call_place(call, o);
    call->forms[at] = c->by_columns ? transposed(y.form) : y.form;
    call->data[at] = y.data;
  }
  return prepare_group(actions, x->group, error);
}

static mmc_status bind_product(const mmci_actions *actions, mmci_action *x,
                               const mmci_operand *operands, const char *workspace, const place *c,
                               mmci_error *error) {
  const mmci_plan *plan = actions->plan;
  const mmci_plan_step *step = &plan->steps[x->step];
  mmci_operand a = operand(plan, operands, workspace, step->left);
  mmci_operand b = operand(plan, operands, workspace, step->right);
  mmci_gemm gemm = {.dtype = plan->chain->dtype,
                    .precision = actions->precision,
                    .m = step->m,
                    .k = step->k,
                    .n = step->n,
                    .a = a.form,
                    .b = b.form,
                    .ldc = c->ld};
  x->a_number = step->left;
  x->b_number = step->right;
  x->a = a.data;
  x->b = b.data;
  x->c = c->data;
  if (c->by_columns) {
    gemm.m = step->n;
    gemm.n = step->m;
    gemm.a = transposed(b.form);
    gemm.b = transposed(a.form);
    x->a_number = step->right;
    x->b_number = step->left;
    x->a = b.data;
    x->b = a.data;
  }
  if (plan->streamed) { /* its panels are prepared, not the whole */
    x->gemm = gemm;
    return MMC_OK;
  }
  return prepare_calls(actions, x, recipe_of(step), c->by_columns, &gemm, error);
}

mmc_status mmci_actions_bind(mmci_actions *actions, const mmci_operand *operands, char *workspace,
                             const mmci_target *target, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int32_t s = 0; s < actions->count && status == MMC_OK; s++) {
    mmci_action *x = &actions->actions[s];
    place c = place_of(actions->plan, x->step, workspace, target);
    status =
        (x->group != NULL ? bind_group : bind_product)(actions, x, operands, workspace, &c, error);
  }
  return status;
}

mmc_status mmci_actions_expect(mmci_actions *actions, mmci_operand *operands, char *workspace,
                               mmci_error *error) {
  const mmc_chain *chain = actions->plan->chain;
  for (int32_t i = 0; i < chain->n; i++) {
    int64_t ld = chain->dims[chain->ops[i] == MMC_OP_N ? i + 1 : i];
    operands[i] = (mmci_operand){
        .form = mmci_factor_form(chain, i, &(mmc_matrix){.layout = MMC_ROW_MAJOR}, ld > 0 ? ld : 1),
    };
  }
  int64_t ld = chain->dims[chain->n];
  mmci_target target = {.ld = ld > 0 ? ld : 1};
  return mmci_actions_bind(actions, operands, workspace, &target, error);
}
