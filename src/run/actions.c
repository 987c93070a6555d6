#include "run/actions.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/interrupt.h"
#include "run/matrices.h"

static void destroy_group(mmci_group_action *group, const mmci_device_ops *ops) {
  if (group == NULL) return;
  if (group->kernel != NULL) ops->group_release(group->kernel);
  mmci_group_problem_destroy(&group->problem);
  free(group);
}

/* Returns the seconds of a group by one call as the device predicts it; NAN where it does not. */
static double seconds_together(const mmci_actions *actions, const mmci_group *group) {
  double error;
  return actions->ops->group_seconds != NULL
             ? actions->ops->group_seconds(actions->device, group, &error)
             : (double)NAN;
}

static mmc_status create_group(const mmci_actions *actions, const mmci_plan_group *group,
                               mmci_group_action **out, mmci_error *error) {
  size_t size = sizeof(mmci_group_action) + (size_t)group->operand_count * sizeof(mmci_form);
  mmci_group_action *x = mmci_alloc_zeroed(1, size);
  if (x == NULL) return mmci_fail_nomem(error, size);
  x->forms = (mmci_form *)(x + 1);
  mmc_status status =
      mmci_group_problem_create(actions->plan, group, actions->precision, &x->problem, error);
  if (status != MMC_OK) {
    free(x);
    return status;
  }
  x->problem.group.batch = actions->batch;
  x->expected_s = seconds_together(actions, &x->problem.group);
  *out = x;
  return MMC_OK;
}

/* Makes room for the calls of the action of a step. */
static mmc_status create_action(const mmci_actions *actions, mmci_action *x, mmci_error *error) {
  const mmci_plan_step *step = &actions->plan->steps[x->step];
  x->queues = 1;
  if (step->group >= 0)
    return create_group(actions, &actions->plan->groups[step->group], &x->group, error);
  const mmci_recipe *recipe = step->recipe;
  int count = recipe != NULL ? mmci_recipe_count(recipe) : 1;
  x->calls = count == 1 ? &x->whole : mmci_alloc_zeroed((size_t)count, sizeof *x->calls);
  if (x->calls == NULL) return mmci_fail_nomem(error, (size_t)count * sizeof *x->calls);
  x->call_count = count;
  x->queues = recipe != NULL ? recipe->queues : 1;
  return MMC_OK;
}

mmc_status mmci_actions_create(const mmci_plan *plan, const mmci_device_ops *ops,
                               mmci_device *device, mmci_precision precision, int64_t batch,
                               mmci_actions *out, mmci_error *error) {
  size_t count = (size_t)plan->step_count;
  mmci_actions made = {.plan = plan,
                       .ops = ops,
                       .device = device,
                       .precision = precision,
                       .batch = batch,
                       .actions = mmci_alloc_zeroed(count, sizeof *made.actions)};
  made.is_common = mmci_alloc_zeroed(count, sizeof *made.is_common);
  if (made.actions == NULL || made.is_common == NULL) {
    free(made.actions);
    free(made.is_common);
    return mmci_fail_nomem(error, count * (sizeof *made.actions + sizeof *made.is_common));
  }
  mmc_status status = MMC_OK;
  for (int32_t s = 0; s < plan->step_count && status == MMC_OK; s++) {
    if (mmci_plan_is_inside(plan, s)) continue;
    mmci_action *x = &made.actions[made.count++];
    x->step = s;
    status = create_action(&made, x, error);
  }
  if (status == MMC_OK && plan->padding_bytes > 0)
    status = ops->alloc(device, (size_t)plan->padding_bytes, &made.padding_room, error);
  for (int32_t t = 0; t < made.count && made.padding_room != NULL; t++) {
    mmci_action *x = &made.actions[t];
    const mmci_plan_step *step = &plan->steps[x->step];
    if (x->group != NULL || step->recipe == NULL) continue;
    x->padding = (mmci_padding){.multiple = step->recipe->pad,
                                .room = (char *)made.padding_room + step->padding_offset_bytes};
  }
  if (status == MMC_OK)
    *out = made;
  else
    mmci_actions_destroy(&made);
  return status;
}

void mmci_actions_destroy(mmci_actions *actions) {
  if (actions->padding_room != NULL) actions->ops->dealloc(actions->device, actions->padding_room);
  for (int32_t s = 0; s < actions->count; s++) {
    mmci_action *x = &actions->actions[s];
    for (int c = 0; c < x->call_count; c++)
      if (x->calls[c].kernel != NULL) actions->ops->release(x->calls[c].kernel);
    if (x->calls != &x->whole) free(x->calls);
    destroy_group(x->group, actions->ops);
  }
  free(actions->actions);
  free(actions->is_common);
}

int mmci_actions_queues(const mmci_actions *actions) {
  int most = 1;
  for (int32_t s = 0; s < actions->count; s++)
    if (actions->actions[s].queues > most) most = actions->actions[s].queues;
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
         x->turned == y->turned && x->sums == y->sums && x->variant == y->variant &&
         x->rule.modulus == y->rule.modulus && x->rule.checked == y->rule.checked &&
         x->rule.semiring == y->rule.semiring && x->rule.tolerance == y->rule.tolerance;
}

/* Releases what was prepared for `before`, if anything was. */
static void release_kernel(mmci_actions *actions, const mmci_gemm *before, mmci_kernel **kernel) {
  const mmci_device_ops *ops = actions->ops;
  if (*kernel == NULL) return;
  actions->replaced +=
      ops->scratch_bytes != NULL && ops->scratch_bytes(actions->device, before) > 0;
  ops->release(*kernel);
  *kernel = NULL;
}

mmc_status mmci_actions_prepare(mmci_actions *actions, const mmci_gemm *gemm, mmci_gemm *before,
                                mmci_kernel **kernel, mmci_error *error) {
  if (*kernel != NULL && mmci_gemm_same(gemm, before)) return MMC_OK;
  if (!actions->ops->supports(actions->device, gemm))
    return mmci_fail_argument(
        error, MMC_E_UNSUPPORTED, "device",
        "'%s' cannot multiply %s %" PRId64 "x%" PRId64 " by %" PRId64 "x%" PRId64,
        actions->ops->name, mmc_dtype_name(gemm->dtype), gemm->m, gemm->k, gemm->k, gemm->n);
  release_kernel(actions, before, kernel);
  mmci_kernel *prepared;
  mmc_status status = actions->ops->prepare(actions->device, gemm, &prepared, error);
  if (status == MMC_E_UNSUPPORTED && gemm->variant != 0) {
    mmci_gemm own_choice = *gemm;
    own_choice.variant = 0;
    status = actions->ops->prepare(actions->device, &own_choice, &prepared, error);
  }
  if (status != MMC_OK) return status;
  *kernel = prepared;
  *before = *gemm;
  return MMC_OK;
}

/* Returns one product of a batch. */
static mmci_gemm single(const mmci_gemm *gemm) {
  mmci_gemm one = *gemm;
  one.batch = 1;
  one.a.stride = one.b.stride = one.c_stride = 0;
  one.a.gathered = one.b.gathered = false;
  return one;
}

/* Addresses of a batch that are those of a stack of two axes: chain i * inner + j has its matrix
 * i * outer_stride + j * stride elements after the first one. */
typedef struct axes {
  int64_t inner, stride, outer_stride;
} axes;

/* Returns for how many chains from the first on the addresses follow each other at one stride, or
 * how many have strides anyway. */
static int64_t first_run(const mmci_form *form, void *const *addresses, int64_t batch) {
  if (!form->gathered) return batch;
  const intptr_t step = (intptr_t)addresses[1] - (intptr_t)addresses[0];
  int64_t length = 2;
  while (length < batch && (intptr_t)addresses[length] - (intptr_t)addresses[length - 1] == step)
    length++;
  return length;
}

/* Finds the strides of two axes, of which the inner one has so many chains; returns whether all
 * addresses are such. */
static bool find_axes(const mmci_form *form, void *const *addresses, int64_t size, int64_t batch,
                      int64_t inner, axes *out) {
  *out = (axes){inner, form->stride, inner * form->stride};
  if (!form->gathered) return true;
  const intptr_t first = (intptr_t)addresses[0], step = (intptr_t)addresses[1] - first,
                 outer = (intptr_t)addresses[inner] - first;
  if (step < 0 || outer < 0 || step % size != 0 || outer % size != 0) return false;
  for (int64_t i = 0; i < batch; i++)
    if ((intptr_t)addresses[i] != first + i / inner * outer + i % inner * step) return false;
  *out = (axes){inner, step / size, outer / size};
  return true;
}

static mmci_gemm with_strides(const mmci_gemm *gemm, int64_t batch, int64_t a, int64_t b,
                              int64_t c) {
  mmci_gemm out = *gemm;
  out.batch = batch;
  out.a.gathered = out.b.gathered = false;
  out.a.stride = batch > 1 ? a : 0;
  out.b.stride = batch > 1 ? b : 0;
  out.c_stride = batch > 1 ? c : 0;
  return out;
}

/* Finds how a batch of matrices at addresses, as stacks that are broadcast along one of several
 * axes have, is computed by batches with strides: along the one axis or the other, or with the rows
 * of the inner one as those of one product. Returns whether the device predicts that one of these
 * takes less than matrices at addresses; else the call and *out are left as they were. */
static bool find_strides(const mmci_actions *actions, const mmci_action *x, const mmci_gemm *gemm,
                         mmci_call *call, mmci_gemm *out) {
  const int64_t size = (int64_t)mmc_dtype_size(gemm->dtype), batch = gemm->batch;
  mmci_facts facts;
  actions->ops->facts(actions->device, gemm->dtype, gemm->precision, &facts);
  /* What defines the bits of reproducible products are their own sizes. */
  if (facts.model.seconds == NULL || mmci_precision_is_reproducible(gemm->precision)) return false;
  const int64_t of_a = first_run(&gemm->a, x->a_addresses, batch),
                of_b = first_run(&gemm->b, x->b_addresses, batch),
                inner = of_a < of_b ? of_a : of_b, outer = batch / inner;
  axes a, b;
  if (batch % inner != 0 || outer < 2 ||
      !find_axes(&gemm->a, x->a_addresses, size, batch, inner, &a) ||
      !find_axes(&gemm->b, x->b_addresses, size, batch, inner, &b))
    return false;
  struct {
    mmci_gemm gemm;
    int64_t times, step;
  } ways[3] = {{with_strides(gemm, inner, a.stride, b.stride, gemm->c_stride), outer, inner},
               {with_strides(gemm, outer, a.outer_stride, b.outer_stride, inner * gemm->c_stride),
                inner, 1}};
  int count = 2;
  if (b.stride == 0 && !gemm->a.trans && a.stride == gemm->m * gemm->a.ld &&
      gemm->c_stride == gemm->m * gemm->ldc) {
    ways[count] = ways[1];
    ways[count].gemm.m *= inner;
    ways[count++].times = 1;
  }
  double least_s = facts.model.seconds(facts.model.user, gemm);
  bool found = false;
  for (int w = 0; w < count; w++) {
    const double seconds =
        (double)ways[w].times * facts.model.seconds(facts.model.user, &ways[w].gemm);
    if (!(seconds < least_s)) continue;
    least_s = seconds;
    found = true;
    *out = ways[w].gemm;
    call->times = ways[w].times;
    call->step = ways[w].step;
  }
  return found;
}

/* Prepares a call for all chains where the device can do that, else for some of them, or one.
 * Gathered matrices are multiplied one by one when the product is in pieces or its result goes to
 * addresses, since a table knows no offsets. */
static mmc_status prepare_call(mmci_actions *actions, const mmci_action *x, bool in_pieces,
                               const mmci_gemm *gemm, mmci_call *call, mmci_error *error) {
  bool gathered = gemm->a.gathered || gemm->b.gathered;
  mmci_gemm some = single(gemm);
  call->looped = gemm->batch > 1 && (x->c_addresses != NULL || (in_pieces && gathered) ||
                                     !actions->ops->supports(actions->device, gemm));
  call->times = gemm->batch;
  call->step = 1;
  call->looped = call->looped || (gathered && !in_pieces && gemm->batch > 1 &&
                                  find_strides(actions, x, gemm, call, &some));
  return mmci_actions_prepare(actions, call->looped ? &some : gemm, &call->gemm, &call->kernel,
                              error);
}

/* Prepares the calls of an action: the whole product, or the pieces of its recipe. The recipe was
 * made for the product as it is, so it is turned with a product that is computed transposed. */
static mmc_status prepare_calls(mmci_actions *actions, mmci_action *x, const mmci_recipe *recipe,
                                bool transposed, const mmci_gemm *gemm, mmci_error *error) {
  x->gemm = *gemm;
  if (recipe == NULL) return prepare_call(actions, x, false, gemm, &x->whole, error);
  mmci_recipe turned = transposed ? mmci_recipe_transposed(recipe) : *recipe;
  turned.pad = 0; /* padding is undone by its own copies */
  if (x->padding.multiple != 0) {
    mmci_padding_bind(&x->padding, gemm);
    gemm = &x->padding.padded;
  }
  mmci_recipe_piece pieces[MMCI_RECIPE_PIECES];
  int count = mmci_recipe_pieces(&turned, gemm, pieces);
  int64_t size = (int64_t)mmc_dtype_size(gemm->dtype);
  mmc_status status = MMC_OK;
  for (int c = 0; c < count && status == MMC_OK; c++) {
    mmci_call *call = &x->calls[c];
    call->a = pieces[c].a * size;
    call->b = pieces[c].b * size;
    call->c = pieces[c].c * size;
    call->queue = pieces[c].queue;
    status = prepare_call(actions, x, true, &pieces[c].gemm, call, error);
  }
  return status;
}

/* Says whether all chains have the same matrix there. */
static bool is_one_matrix(const mmci_form *form) {
  return form->stride == 0 && !form->gathered;
}

/* Products of a group, and which results are the same for all chains, of the first ones. */
enum { KNOWN = 64 };
typedef struct apart {
  const mmci_group *chain;
  bool without_gaps; /* factors are thought to lie so, each chain with its own */
  bool is_common[KNOWN], has_common;
} apart;

static mmci_form form_of_part(const apart *x, int32_t number, int64_t rows, int64_t cols) {
  const int32_t n = x->chain->n, i = number - n;
  if (i < 0 && !x->without_gaps) return x->chain->forms[number];
  const bool is_one = x->chain->batch <= 1 || (i >= 0 && i < KNOWN && x->is_common[i]);
  return (mmci_form){.ld = cols > 0 ? cols : 1, .stride = is_one ? 0 : rows * cols};
}

static mmci_gemm product_apart(apart *x, int32_t i) {
  const mmci_group *chain = x->chain;
  const mmci_group_product *p = &chain->products[i];
  const bool is_last = i == chain->count - 1;
  mmci_gemm gemm = {.dtype = chain->dtype,
                    .precision = chain->precision,
                    .rule = chain->rule,
                    .m = p->m,
                    .k = p->k,
                    .n = p->n,
                    .a = form_of_part(x, p->left, p->m, p->k),
                    .b = form_of_part(x, p->right, p->k, p->n),
                    .ldc = is_last ? chain->ldc : p->n,
                    .c_stride = is_last ? chain->c_stride : p->m * p->n,
                    .batch = chain->batch};
  const bool is_common =
      chain->batch > 1 && i < KNOWN && !is_last && is_one_matrix(&gemm.a) && is_one_matrix(&gemm.b);
  if (i < KNOWN) x->is_common[i] = is_common;
  x->has_common = x->has_common || is_common;
  if (is_common) gemm.batch = 1;
  if (gemm.batch <= 1) gemm.c_stride = 0;
  mmci_gemm_choose_sums(&gemm);
  return gemm;
}

/* Returns the seconds of a group's products one by one as the device predicts them; NAN where it
 * does not. */
static double seconds_apart(const mmci_actions *actions, apart *x) {
  const mmci_group *chain = x->chain;
  mmci_facts facts;
  actions->ops->facts(actions->device, chain->dtype, chain->precision, &facts);
  if (facts.model.seconds == NULL) return (double)NAN;
  double sum = 0;
  for (int32_t i = 0; i < chain->count; i++) {
    const mmci_gemm gemm = product_apart(x, i);
    sum += facts.model.seconds(facts.model.user, &gemm);
  }
  return sum;
}

/* Says whether a group's products take less one by one than the group, which was taken for matrices
 * without gaps: because these have a slower kernel, or some products are the same for all chains,
 * or take less where chains share a factor. */
static bool is_slow_so(const mmci_actions *actions, const mmci_group_action *x) {
  static const double MORE = 1.1;
  if (actions->takes_all || !(x->expected_s > 0)) return false;
  apart parts = {.chain = &x->problem.group};
  const double together_s = seconds_together(actions, parts.chain),
               apart_s = seconds_apart(actions, &parts);
  if (!(together_s > apart_s)) return false;
  if (parts.has_common || together_s > MORE * x->expected_s) return true;
  apart planned = {.chain = parts.chain, .without_gaps = true};
  return together_s > MORE * apart_s && seconds_apart(actions, &planned) > MORE * apart_s;
}

/* Prepares the call of a group unless that is done. */
static mmc_status prepare_group(mmci_actions *actions, mmci_group_action *x, mmci_error *error) {
  const mmci_group *chain = &x->problem.group;
  bool same = x->kernel != NULL && x->ldc == chain->ldc && x->c_stride == chain->c_stride &&
              x->transposed == x->problem.transposed;
  for (int32_t o = 0; o < chain->n && same; o++) same = same_form(&x->forms[o], &chain->forms[o]);
  if (same) return MMC_OK;
  if (is_slow_so(actions, x)) {
    actions->is_slow = true;
    return mmci_fail(error, MMC_E_UNSUPPORTED, "factors: products one by one take less");
  }
  mmci_group_kernel *prepared;
  mmc_status status = actions->ops->group_prepare(actions->device, chain, &prepared, error);
  if (status != MMC_OK) return status;
  actions->replaced += x->kernel != NULL;
  if (x->kernel != NULL) actions->ops->group_release(x->kernel);
  x->kernel = prepared;
  memcpy(x->forms, chain->forms, (size_t)chain->n * sizeof *x->forms);
  x->ldc = chain->ldc;
  x->c_stride = chain->c_stride;
  x->transposed = x->problem.transposed;
  return MMC_OK;
}

/* ---- enqueueing ------------------------------------------------------------------------------ */

/* Returns where chain i has its matrix. */
static const char *address_of(const void *data, int64_t stride_bytes, void *const *addresses,
                              int64_t i) {
  return addresses != NULL ? addresses[i] : mmci_address(data, i * stride_bytes);
}

mmc_status mmci_call_enqueue(const mmci_actions *actions, mmci_queue *queue, const mmci_action *x,
                             const mmci_call *call, mmci_error *error) {
  if (!call->looped)
    return actions->ops->enqueue(queue, call->kernel, mmci_address(x->a, call->a),
                                 mmci_address(x->b, call->b), mmci_address(x->c, call->c), error);
  const mmci_gemm *g = &x->gemm;
  int64_t size = (int64_t)mmc_dtype_size(g->dtype);
  mmc_status status = MMC_OK;
  for (int64_t t = 0, i = 0; t < call->times && status == MMC_OK; t++, i += call->step)
    status = actions->ops->enqueue(
        queue, call->kernel,
        mmci_address(address_of(x->a, g->a.stride * size, x->a_addresses, i), call->a),
        mmci_address(address_of(x->b, g->b.stride * size, x->b_addresses, i), call->b),
        mmci_address(address_of(x->c, g->c_stride * size, x->c_addresses, i), call->c), error);
  return status;
}

mmc_status mmci_actions_enqueue_group(const mmci_actions *actions, const mmci_action *action,
                                      mmci_queue *queue, mmci_error *error) {
  const mmci_group_action *x = action->group;
  return actions->ops->group_enqueue(queue, x->kernel, x->problem.data, action->c, error);
}

/* Returns the multiplications of an action. */
static double multiplications_of(const mmci_actions *actions, const mmci_action *x) {
  const mmci_plan *plan = actions->plan;
  if (x->group == NULL) return (double)x->gemm.m * (double)x->gemm.k * (double)x->gemm.n;
  const mmci_plan_group *group = &plan->groups[plan->steps[x->step].group];
  double sum = 0;
  for (int32_t i = 0; i < group->step_count; i++) {
    const mmci_plan_step *step = &plan->steps[group->steps[i]];
    sum += (double)step->m * (double)step->k * (double)step->n;
  }
  return sum;
}

/* Notes, for who is asked meanwhile, between which shares of all multiplications action s lies;
 * *done and *all are kept from one action to the next. */
static void note_span(const mmci_actions *actions, int32_t s, double *done, double *all) {
  for (int32_t t = 0; s == 0 && t < actions->count; t++)
    *all += multiplications_of(actions, &actions->actions[t]);
  const double own = multiplications_of(actions, &actions->actions[s]);
  if (*all > 0) mmci_interrupt_span(*done / *all, (*done + own) / *all);
  *done += own;
}

void mmci_actions_name_overflow(const mmci_actions *actions, const mmci_action *action,
                                mmci_error *error) {
  const mmci_plan_step *step = &actions->plan->steps[action->step];
  const mmci_error inner = *error;
  mmci_fail_argument(error, inner.status, "checked",
                     "the product of factors %" PRId32 " to %" PRId32 ", %s", step->first + 1,
                     step->last + 1, inner.text);
}

mmc_status mmci_actions_enqueue(const mmci_actions *actions, mmci_queue *queue, mmci_error *error) {
  mmc_status status = MMC_OK;
  const bool asks = mmci_interrupt_asks();
  double done = 0, all = 0;
  for (int32_t s = 0; s < actions->count && status == MMC_OK; s++) {
    const mmci_action *x = &actions->actions[s];
    if (asks) note_span(actions, s, &done, &all);
    if (x->group != NULL) status = mmci_actions_enqueue_group(actions, x, queue, error);
    for (int c = 0; c < x->call_count && status == MMC_OK; c++)
      status = mmci_call_enqueue(actions, queue, x, &x->calls[c], error);
    if (status == MMC_E_OVERFLOW) mmci_actions_name_overflow(actions, x, error);
    if (status == MMC_OK && mmci_interrupted())
      status = mmci_fail(error, MMC_E_INTERRUPTED, "stopped between products");
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

/* Returns the operand of one chain, which needs neither table nor stride. */
static mmci_operand alone(mmci_operand x) {
  if (x.form.gathered) x.data = x.addresses[0];
  x.form.gathered = false;
  x.form.stride = 0;
  x.addresses = NULL;
  return x;
}

/* Returns the place in the workspace, which a plan without intermediates does not have. */
static char *place_in(char *workspace, uint64_t offset_bytes) {
  return workspace != NULL ? workspace + offset_bytes : NULL;
}

/* Returns operand `number` of a step, a factor or an intermediate. */
static mmci_operand operand(const mmci_actions *actions, const mmci_operand *operands,
                            char *workspace, int32_t number) {
  const mmci_plan *plan = actions->plan;
  int32_t n = plan->chain->n;
  if (number < n) return actions->batch > 1 ? operands[number] : alone(operands[number]);
  const mmci_plan_step *step = &plan->steps[number - n];
  const bool is_one = actions->batch <= 1 || actions->is_common[number - n];
  return (mmci_operand){.data = place_in(workspace, step->offset_bytes),
                        .form = {.ld = step->n > 0 ? step->n : 1,
                                 .stride = is_one ? 0 : mmci_elements(step->m, step->n)}};
}

/* Returns where a step's result goes. */
static mmci_target target_of(const mmci_actions *actions, int32_t s, char *workspace,
                             const mmci_target *target) {
  const mmci_plan_step *step = &actions->plan->steps[s];
  bool batch = actions->batch > 1;
  if (s < actions->plan->step_count - 1)
    return (mmci_target){.data = place_in(workspace, step->offset_bytes),
                         .ld = step->n > 0 ? step->n : 1,
                         .stride = batch ? mmci_elements(step->m, step->n) : 0};
  mmci_target x = *target;
  if (!batch && x.addresses != NULL) x.data = x.addresses[0];
  if (!batch) x.addresses = NULL;
  if (!batch) x.stride = 0;
  return x;
}

static mmc_status bind_group(mmci_actions *actions, mmci_action *x, const mmci_operand *operands,
                             char *workspace, const mmci_target *c, mmci_error *error) {
  const mmci_plan *plan = actions->plan;
  const mmci_plan_group *group = &plan->groups[plan->steps[x->step].group];
  mmci_group_problem *problem = &x->group->problem;
  if (problem->transposed != c->by_columns)
    mmci_group_problem_turn(problem, plan, group, c->by_columns);
  if (c->addresses != NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "out: results of one call need a stride");
  problem->group.ldc = c->ld;
  problem->group.turned = c->by_columns;
  problem->group.c_stride = c->stride;
  x->c = c->data;
  for (int32_t o = 0; o < group->operand_count; o++) {
    mmci_operand y = operand(actions, operands, workspace, group->operands[o]);
    int32_t at = mmci_group_problem_place(problem, o);
    problem->forms[at] = c->by_columns ? mmci_form_transposed(y.form) : y.form;
    problem->data[at] = y.data;
  }
  return prepare_group(actions, x->group, error);
}

static mmc_status bind_product(mmci_actions *actions, mmci_action *x, const mmci_operand *operands,
                               char *workspace, const mmci_target *c, mmci_error *error) {
  const mmci_plan *plan = actions->plan;
  const mmci_plan_step *step = &plan->steps[x->step];
  mmci_operand a = operand(actions, operands, workspace, step->left);
  mmci_operand b = operand(actions, operands, workspace, step->right);
  mmci_gemm gemm = {.dtype = plan->chain->dtype,
                    .precision = actions->precision,
                    .rule = plan->chain->rule,
                    .m = step->m,
                    .k = step->k,
                    .n = step->n,
                    .a = a.form,
                    .b = b.form,
                    .ldc = c->ld,
                    .c_stride = c->stride,
                    .batch = actions->batch};
  const bool is_last = x->step == plan->step_count - 1;
  actions->is_common[x->step] = actions->batch > 1 && !is_last && !plan->streamed &&
                                is_one_matrix(&a.form) && is_one_matrix(&b.form);
  if (actions->is_common[x->step]) {
    gemm.batch = 1;
    gemm.c_stride = 0;
  }
  mmci_gemm_choose_sums(&gemm);
  x->a_number = step->left;
  x->b_number = step->right;
  x->a = a.data;
  x->b = b.data;
  x->c = c->data;
  x->a_addresses = a.addresses;
  x->b_addresses = b.addresses;
  x->c_addresses = c->addresses;
  if (c->by_columns) {
    gemm.m = step->n;
    gemm.n = step->m;
    gemm.a = mmci_form_transposed(b.form);
    gemm.b = mmci_form_transposed(a.form);
    gemm.turned = true;
    x->a_number = step->right;
    x->b_number = step->left;
    x->a = b.data;
    x->b = a.data;
    x->a_addresses = b.addresses;
    x->b_addresses = a.addresses;
  }
  if (plan->streamed) { /* its panels are prepared instead of the whole */
    x->gemm = gemm;
    return MMC_OK;
  }
  return prepare_calls(actions, x, step->recipe, c->by_columns, &gemm, error);
}

mmc_status mmci_actions_bind(mmci_actions *actions, const mmci_operand *operands, char *workspace,
                             const mmci_target *target, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int32_t s = 0; s < actions->count && status == MMC_OK; s++) {
    mmci_action *x = &actions->actions[s];
    mmci_target c = target_of(actions, x->step, workspace, target);
    status =
        (x->group != NULL ? bind_group : bind_product)(actions, x, operands, workspace, &c, error);
  }
  return status;
}

/* ---- what products share ----------------------------------------------------------------------
 */

/* Memory that is read or written: so many bytes from an address on. */
typedef struct extent {
  uintptr_t first, end;
} extent;

static extent extent_of(const void *data, mmc_dtype dtype, int64_t lines, int64_t ld) {
  const uintptr_t first = (uintptr_t)data;
  return (extent){first, first + (uintptr_t)(lines * ld) * mmc_dtype_size(dtype)};
}

static const mmci_form *form_of(const mmci_action *x, int which) {
  return which == 0 ? &x->gemm.a : &x->gemm.b;
}

static const void *data_of(const mmci_action *x, int which) {
  return which == 0 ? x->a : x->b;
}

/* Returns the rows of A, or the columns of B. */
static int64_t rows_of(const mmci_action *x, int which) {
  return which == 0 ? x->gemm.m : x->gemm.n;
}

/* Says whether the k's of a row of A, or of a column of B, lie side by side. */
static bool lies_along(const mmci_action *x, int which) {
  return form_of(x, which)->trans == (which == 1);
}

static bool is_read_as(const mmci_action *x, int which, const mmci_action *y, int of) {
  const mmci_form *f = form_of(x, which), *g = form_of(y, of);
  return data_of(x, which) == data_of(y, of) && f->ld == g->ld && f->conj == g->conj &&
         x->gemm.k == y->gemm.k && rows_of(x, which) == rows_of(y, of) &&
         lies_along(x, which) == lies_along(y, of);
}

/* Says whether an action is one call of one product on its queue, with whole elements. */
static bool is_one_call(const mmci_action *x) {
  const uintptr_t bits = (uintptr_t)x->a | (uintptr_t)x->b | (uintptr_t)x->c;
  return x->group == NULL && x->queue >= 0 && x->call_count == 1 && x->padding.multiple == 0 &&
         !x->calls[0].looped && x->calls[0].kernel != NULL && x->gemm.batch <= 1 &&
         x->a_addresses == NULL && x->b_addresses == NULL && x->c_addresses == NULL &&
         bits % mmc_dtype_size(x->gemm.dtype) == 0;
}

/* Says whether what action s reads is written by one of the actions from t on. */
static bool is_written(const mmci_actions *actions, int32_t t, int32_t s, int which) {
  const mmci_action *x = &actions->actions[s];
  const int64_t lines = lies_along(x, which) ? rows_of(x, which) : x->gemm.k;
  const extent read = extent_of(data_of(x, which), x->gemm.dtype, lines, form_of(x, which)->ld);
  for (; t < s; t++) {
    const mmci_action *y = &actions->actions[t];
    const mmci_plan_step *step = &actions->plan->steps[y->step];
    const int64_t rows = y->group != NULL ? step->m : y->gemm.m,
                  ld = y->group != NULL ? step->n : y->gemm.ldc;
    const extent written =
        extent_of(y->c, x->gemm.dtype, rows * (actions->batch > 1 ? actions->batch : 1), ld);
    if (written.first < read.end && read.first < written.end) return true;
  }
  return false;
}

/* Finds the last action before s that makes the same of an operand, or s itself. */
static void share_operand(const mmci_actions *actions, int32_t s, int which) {
  const mmci_action *x = &actions->actions[s];
  for (int32_t t = which == 1 ? s : s - 1; t >= 0; t--) {
    const mmci_action *y = &actions->actions[t];
    if (y->queue != x->queue || !is_one_call(y)) continue;
    for (int of = 0; of < (t == s ? 1 : 2); of++) {
      if (!is_read_as(x, which, y, of) || is_written(actions, t, s, which)) continue;
      if (actions->ops->share(x->calls[0].kernel, which, y->calls[0].kernel, of)) return;
    }
  }
}

void mmci_actions_share(mmci_actions *actions) {
  enum { MOST = 256 }; /* actions, as each is held against all before it */
  if (actions->ops->share == NULL) return;
  for (int32_t s = 0; s < actions->count; s++) {
    const mmci_action *x = &actions->actions[s];
    if (x->group != NULL || actions->count > MOST) continue;
    for (int c = 0; c < x->call_count; c++)
      for (int which = 0; which < 2 && x->calls[c].kernel != NULL; which++)
        (void)actions->ops->share(x->calls[c].kernel, which, NULL, 0);
    for (int which = 0; which < 2 && is_one_call(x); which++) share_operand(actions, s, which);
  }
}

mmc_status mmci_actions_expect(mmci_actions *actions, mmci_operand *operands, char *workspace,
                               mmci_error *error) {
  const mmc_chain *chain = actions->plan->chain;
  const int64_t *dims = chain->dims;
  for (int32_t i = 0; i < chain->n; i++) {
    int64_t ld = dims[chain->ops[i] == MMC_OP_N ? i + 1 : i];
    operands[i] = (mmci_operand){
        .form = mmci_factor_form(chain, i, &(mmc_matrix){.layout = MMC_ROW_MAJOR}, ld > 0 ? ld : 1,
                                 actions->batch > 1 && !mmc_chain_shared(chain, i)
                                     ? mmci_elements(dims[i], dims[i + 1])
                                     : 0),
    };
  }
  int64_t ld = dims[chain->n];
  mmci_target target = {.ld = ld > 0 ? ld : 1,
                        .stride = actions->batch > 1 ? mmci_elements(dims[0], dims[chain->n]) : 0};
  actions->takes_all = true;
  const mmc_status status = mmci_actions_bind(actions, operands, workspace, &target, error);
  actions->takes_all = false;
  return status;
}
