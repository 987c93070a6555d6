#include "run/actions.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "run/matrices.h"

/* A run has no room for padded copies: what was to be padded is computed by one plain call. */
static const mmci_recipe *recipe_of(const mmci_plan_step *step) {
  return step->recipe != NULL && step->recipe->pad == 0 ? step->recipe : NULL;
}

/* The arrays of the first count actions. */
static void free_calls(const mmci_action *actions, size_t count) {
  for (size_t s = 0; s < count; s++)
    if (actions[s].calls != &actions[s].whole) free(actions[s].calls);
}

mmc_status mmci_actions_create(const mmci_plan *plan, const mmci_device_ops *ops,
                               mmci_device *device, mmci_precision precision, int64_t batch,
                               mmci_actions *out, mmci_error *error) {
  size_t count = (size_t)plan->chain->n - 1;
  mmci_action *actions = mmci_alloc_zeroed(count, sizeof *actions);
  if (actions == NULL) return mmci_fail_nomem(error, count * sizeof *actions);
  for (size_t s = 0; s < count; s++) {
    const mmci_recipe *recipe = recipe_of(&plan->steps[s]);
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
  *out = (mmci_actions){.plan = plan,
                        .ops = ops,
                        .device = device,
                        .precision = precision,
                        .batch = batch,
                        .count = (int32_t)count,
                        .actions = actions};
  return MMC_OK;
}

void mmci_actions_destroy(mmci_actions *actions) {
  for (int32_t s = 0; s < actions->count; s++)
    for (int c = 0; c < actions->actions[s].call_count; c++)
      if (actions->actions[s].calls[c].kernel != NULL)
        actions->ops->release(actions->actions[s].calls[c].kernel);
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

/* One of a batch of products. */
static mmci_gemm single(const mmci_gemm *gemm) {
  mmci_gemm one = *gemm;
  one.batch = 1;
  one.a.stride = one.b.stride = one.c_stride = 0;
  one.a.gathered = one.b.gathered = false;
  return one;
}

/* Prepares a call for all chains where the device can, else for one. In pieces, and to results at
 * addresses, gathered matrices are multiplied one by one: a table knows no offsets. */
static mmc_status prepare_call(const mmci_actions *actions, const mmci_action *x, bool in_pieces,
                               const mmci_gemm *gemm, mmci_call *call, mmci_error *error) {
  bool gathered = gemm->a.gathered || gemm->b.gathered;
  mmci_gemm one = single(gemm);
  call->looped = gemm->batch > 1 && (x->c_addresses != NULL || (in_pieces && gathered) ||
                                     !actions->ops->supports(actions->device, gemm));
  return mmci_actions_prepare(actions, call->looped ? &one : gemm, &call->gemm, &call->kernel,
                              error);
}

/* Prepares the calls of an action: the whole, or the pieces of its recipe, which was made for the
 * product as it is and is turned with a product that is computed transposed. */
static mmc_status prepare_calls(const mmci_actions *actions, mmci_action *x,
                                const mmci_recipe *recipe, bool transposed, const mmci_gemm *gemm,
                                mmci_error *error) {
  x->gemm = *gemm;
  if (recipe == NULL) return prepare_call(actions, x, false, gemm, &x->whole, error);
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
    status = prepare_call(actions, x, true, &pieces[c].gemm, call, error);
  }
  return status;
}

/* ---- enqueueing ------------------------------------------------------------------------------ */

/* Where chain i has its matrix. */
static const char *place(const void *data, int64_t stride_bytes, void *const *addresses,
                         int64_t i) {
  return addresses != NULL ? addresses[i] : (const char *)data + i * stride_bytes;
}

mmc_status mmci_call_enqueue(const mmci_actions *actions, mmci_queue *queue, const mmci_action *x,
                             const mmci_call *call, mmci_error *error) {
  if (!call->looped)
    return actions->ops->enqueue(queue, call->kernel, (const char *)x->a + call->a,
                                 (const char *)x->b + call->b, (char *)x->c + call->c, error);
  const mmci_gemm *g = &x->gemm;
  int64_t size = (int64_t)mmc_dtype_size(g->dtype);
  mmc_status status = MMC_OK;
  for (int64_t i = 0; i < g->batch && status == MMC_OK; i++)
    status = actions->ops->enqueue(
        queue, call->kernel, place(x->a, g->a.stride * size, x->a_addresses, i) + call->a,
        place(x->b, g->b.stride * size, x->b_addresses, i) + call->b,
        (char *)place(x->c, g->c_stride * size, x->c_addresses, i) + call->c, error);
  return status;
}

mmc_status mmci_actions_enqueue(const mmci_actions *actions, mmci_queue *queue, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int32_t s = 0; s < actions->count; s++) {
    const mmci_action *x = &actions->actions[s];
    for (int c = 0; c < x->call_count && status == MMC_OK; c++)
      status = mmci_call_enqueue(actions, queue, x, &x->calls[c], error);
  }
  return status;
}

/* ---- binding --------------------------------------------------------------------------------- */

mmci_operand mmci_operand_of(const mmc_chain *chain, int32_t i, const mmc_matrix *matrix,
                             int64_t begin) {
  int64_t ld = mmci_matrix_ld(matrix), size = (int64_t)mmc_dtype_size(chain->dtype);
  if (matrix->addresses != NULL) {
    mmci_operand x = {.form = mmci_factor_form(chain, i, matrix, ld, 0),
                      .addresses = matrix->addresses + begin};
    x.form.gathered = true;
    x.data = x.addresses; /* where the device works on host memory */
    return x;
  }
  int64_t stride = chain->batch > 1 ? matrix->stride : 0;
  return (mmci_operand){
      .data = begin > 0 ? (char *)matrix->data + begin * stride * size : matrix->data,
      .form = mmci_factor_form(chain, i, matrix, ld, stride)};
}

mmci_target mmci_target_of(const mmc_chain *chain, const mmc_matrix *out, int64_t begin) {
  int64_t size = (int64_t)mmc_dtype_size(chain->dtype);
  int64_t stride = chain->batch > 1 ? out->stride : 0;
  mmci_target x = {.ld = mmci_matrix_ld(out), .by_columns = out->layout == MMC_COL_MAJOR};
  if (out->addresses != NULL) {
    x.addresses = out->addresses + begin;
  } else {
    x.data = begin > 0 ? (char *)out->data + begin * stride * size : out->data;
    x.stride = stride;
  }
  return x;
}

/* An operand of one chain needs neither table nor stride. */
static mmci_operand alone(mmci_operand x) {
  if (x.form.gathered) x.data = x.addresses[0];
  x.form.gathered = false;
  x.form.stride = 0;
  x.addresses = NULL;
  return x;
}

/* Operand `number` of a step: a factor or an intermediate. */
static mmci_operand operand(const mmci_actions *actions, const mmci_operand *operands,
                            const char *workspace, int32_t number) {
  const mmci_plan *plan = actions->plan;
  int32_t n = plan->chain->n;
  if (number < n) return actions->batch > 1 ? operands[number] : alone(operands[number]);
  const mmci_plan_step *step = &plan->steps[number - n];
  return (mmci_operand){
      .data = workspace + step->offset_bytes,
      .form = {.ld = step->n > 0 ? step->n : 1,
               .stride = actions->batch > 1 ? mmci_elements(step->m, step->n) : 0}};
}

static mmci_form transposed(mmci_form form) {
  form.trans = !form.trans;
  return form;
}

/* Where a step's result goes. */
static mmci_target target_of(const mmci_actions *actions, int32_t s, char *workspace,
                             const mmci_target *target) {
  const mmci_plan_step *step = &actions->plan->steps[s];
  bool batch = actions->batch > 1;
  if (s < actions->count - 1)
    return (mmci_target){.data = workspace + step->offset_bytes,
                         .ld = step->n > 0 ? step->n : 1,
                         .stride = batch ? mmci_elements(step->m, step->n) : 0};
  mmci_target x = *target;
  if (!batch && x.addresses != NULL) x.data = x.addresses[0];
  if (!batch) x.addresses = NULL;
  if (!batch) x.stride = 0;
  return x;
}

mmc_status mmci_actions_bind(mmci_actions *actions, const mmci_operand *operands, char *workspace,
                             const mmci_target *target, mmci_error *error) {
  const mmci_plan *plan = actions->plan;
  for (int32_t s = 0; s < actions->count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    mmci_action *x = &actions->actions[s];
    mmci_target to = target_of(actions, s, workspace, target);
    /* A column-major result is the transposed product of the transposed operands. */
    x->a_number = to.by_columns ? step->right : step->left;
    x->b_number = to.by_columns ? step->left : step->right;
    mmci_operand a = operand(actions, operands, workspace, x->a_number);
    mmci_operand b = operand(actions, operands, workspace, x->b_number);
    mmci_gemm gemm = {.dtype = plan->chain->dtype,
                      .precision = actions->precision,
                      .m = to.by_columns ? step->n : step->m,
                      .k = step->k,
                      .n = to.by_columns ? step->m : step->n,
                      .a = to.by_columns ? transposed(a.form) : a.form,
                      .b = to.by_columns ? transposed(b.form) : b.form,
                      .ldc = to.ld,
                      .c_stride = to.stride,
                      .batch = actions->batch};
    x->a = a.data;
    x->b = b.data;
    x->c = to.data;
    x->a_addresses = a.addresses;
    x->b_addresses = b.addresses;
    x->c_addresses = to.addresses;
    if (plan->streamed) { /* its panels are prepared, not the whole */
      x->gemm = gemm;
      continue;
    }
    mmc_status status = prepare_calls(actions, x, recipe_of(step), to.by_columns, &gemm, error);
    if (status != MMC_OK) return status;
  }
  return MMC_OK;
}

mmc_status mmci_actions_expect(mmci_actions *actions, mmci_operand *operands, char *workspace,
                               mmci_error *error) {
  const mmc_chain *chain = actions->plan->chain;
  const int64_t *dims = chain->dims;
  for (int32_t i = 0; i < chain->n; i++) {
    int64_t ld = dims[chain->ops[i] == MMC_OP_N ? i + 1 : i];
    operands[i] = (mmci_operand){
        .form = mmci_factor_form(chain, i, &(mmc_matrix){.layout = MMC_ROW_MAJOR}, ld > 0 ? ld : 1,
                                 actions->batch > 1 ? mmci_elements(dims[i], dims[i + 1]) : 0),
    };
  }
  int64_t ld = dims[chain->n];
  mmci_target target = {.ld = ld > 0 ? ld : 1,
                        .stride = actions->batch > 1 ? mmci_elements(dims[0], dims[chain->n]) : 0};
  return mmci_actions_bind(actions, operands, workspace, &target, error);
}
