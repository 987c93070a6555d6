#include "run/actions.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "run/matrices.h"

/* The arrays of the first count actions. */
static void free_calls(const mmci_action *actions, size_t count) {
  for (size_t s = 0; s < count; s++)
    if (actions[s].calls != &actions[s].whole) free(actions[s].calls);
}

mmc_status mmci_actions_create(const mmci_plan *plan, const mmci_device_ops *ops,
                               mmci_device *device, mmci_precision precision, mmci_actions *out,
                               mmci_error *error) {
  size_t count = (size_t)plan->chain->n - 1;
  mmci_action *actions = mmci_alloc_zeroed(count, sizeof *actions);
  if (actions == NULL) return mmci_fail_nomem(error, count * sizeof *actions);
  for (size_t s = 0; s < count; s++) {
    const mmci_recipe *recipe = plan->steps[s].recipe;
    mmci_action *x = &actions[s];
    x->calls = &x->whole;
    x->call_count = recipe != NULL ? mmci_recipe_count(recipe) : 1;
    x->lanes = recipe != NULL ? recipe->lanes : 1;
    if (x->call_count == 1) continue;
    x->calls = mmci_alloc_zeroed((size_t)x->call_count, sizeof *x->calls);
    if (x->calls == NULL) {
      x->call_count = 0;
      free_calls(actions, s);
      free(actions);
      return mmci_fail_nomem(error, MMCI_RECIPE_PIECES * sizeof *x->calls);
    }
  }
  void *room = NULL;
  if (plan->padding_bytes > 0) {
    mmc_status status = ops->alloc(device, (size_t)plan->padding_bytes, &room, error);
    if (status != MMC_OK) {
      free_calls(actions, count);
      free(actions);
      return status;
    }
  }
  for (size_t s = 0; room != NULL && s < count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    if (step->recipe == NULL || step->recipe->pad == 0) continue;
    actions[s].padding = (mmci_padding){.multiple = step->recipe->pad,
                                        .room = (char *)room + step->padding_offset_bytes};
  }
  *out = (mmci_actions){.plan = plan,
                        .ops = ops,
                        .device = device,
                        .precision = precision,
                        .count = (int32_t)count,
                        .actions = actions,
                        .padding_room = room};
  return MMC_OK;
}

void mmci_actions_destroy(mmci_actions *actions) {
  for (int32_t s = 0; s < actions->count; s++)
    for (int c = 0; c < actions->actions[s].call_count; c++)
      if (actions->actions[s].calls[c].kernel != NULL)
        actions->ops->release(actions->actions[s].calls[c].kernel);
  if (actions->padding_room != NULL) actions->ops->dealloc(actions->device, actions->padding_room);
  free_calls(actions->actions, (size_t)actions->count);
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
  return x->ld == y->ld && x->trans == y->trans && x->conj == y->conj;
}

bool mmci_gemm_same(const mmci_gemm *x, const mmci_gemm *y) {
  return x->dtype == y->dtype && x->precision == y->precision && x->m == y->m && x->k == y->k &&
         x->n == y->n && same_form(&x->a, &y->a) && same_form(&x->b, &y->b) && x->ldc == y->ldc &&
         x->accumulate == y->accumulate && x->variant == y->variant;
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
  turned.pad = 0; /* as the padding has it, for its copies */
  if (x->padding.multiple != 0) {
    mmci_padding_bind(&x->padding, gemm);
    gemm = &x->padding.padded;
  }
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

mmc_status mmci_actions_bind(mmci_actions *actions, const mmci_operand *operands, char *workspace,
                             const mmci_target *target, mmci_error *error) {
  const mmci_plan *plan = actions->plan;
  for (int32_t s = 0; s < actions->count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    mmci_action *x = &actions->actions[s];
    mmci_operand a = operand(plan, operands, workspace, step->left);
    mmci_operand b = operand(plan, operands, workspace, step->right);
    bool last = s == actions->count - 1;
    mmci_gemm gemm = {.dtype = plan->chain->dtype,
                      .precision = actions->precision,
                      .m = step->m,
                      .k = step->k,
                      .n = step->n,
                      .a = a.form,
                      .b = b.form,
                      .ldc = last          ? target->ld
                             : step->n > 0 ? step->n
                                           : 1};
    x->a_number = step->left;
    x->b_number = step->right;
    x->c = last ? target->data : workspace + step->offset_bytes;
    if (last && target->by_columns) {
      gemm.m = step->n;
      gemm.n = step->m;
      gemm.a = transposed(b.form);
      gemm.b = transposed(a.form);
      x->a_number = step->right;
      x->b_number = step->left;
      x->a = b.data;
      x->b = a.data;
    } else {
      x->a = a.data;
      x->b = b.data;
    }
    if (plan->streamed) { /* its panels are prepared, not the whole */
      x->gemm = gemm;
      continue;
    }
    mmc_status status =
        prepare_calls(actions, x, step->recipe, last && target->by_columns, &gemm, error);
    if (status != MMC_OK) return status;
  }
  return MMC_OK;
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
