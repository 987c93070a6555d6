/* gradients.c: executes the steps of gradient_steps.h on a device whose memory is the host's, and
 * leaves other devices to gradient_nodes.h.
 *
 * Steps that may be done at the same time and are alike are one call. Calls are prepared for the
 * layout that the caller's matrices have, and again when that changes. */
#include "gradients/gradients.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/interrupt.h"
#include "chain/copy.h"
#include "gradients/gradient_nodes.h"
#include "gradients/gradient_steps.h"
#include "run/matrices.h"

/* What a product is prepared as. Without gathered, it is one product at its addresses. */
typedef struct prepared {
  mmci_gemm gemm; /* of batch 1 */
  int64_t count;  /* matrices that are multiplied */
  mmci_kernel *one;
  mmci_group_kernel *many; /* of all of them, at addresses */
  int32_t next;            /* of the same hash; -1 */
} prepared;

typedef struct call {
  int32_t first, count; /* steps */
  int32_t prepared;
} call;

enum { HASHES = 1024 };

struct mmci_gradients {
  mmci_gradient_nodes *nodes; /* where the device has memory of its own; then only chain is set */
  const mmc_chain *chain;
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_queue *queue;
  size_t element;
  mmci_gradient_steps steps;
  /* How the caller's matrices lay when the calls were prepared: the factors, the product and the
   * cotangent. */
  mmci_form *forms;
  bool are_prepared;
  call *calls;
  int32_t forward_calls, call_count;
  prepared *prepared;
  int32_t prepared_count;
  int32_t hashes[HASHES];
  const void **tables; /* three of as many addresses as the largest call needs */
  int64_t entries;
};

/* ---- how a step is a product ----------------------------------------------------------------- */

static bool is_complex(const mmci_gradients *x) {
  return mmci_dtype_is_complex(x->chain->dtype);
}

/* The form of an operand in which it is transposed, and conjugated with conj. */
static mmci_form turned(const mmci_gradients *x, mmci_form form, bool conj) {
  form.trans = !form.trans;
  form.conj = form.conj != (conj && is_complex(x));
  return form;
}

static mmci_form form_of(const mmci_gradients *x, const mmci_gradient_operand *o) {
  const int32_t n = x->chain->n;
  switch (o->place) {
    case MMCI_AT_FACTOR:
      return x->forms[o->factor];
    case MMCI_AT_PRODUCT:
      return x->forms[n];
    case MMCI_AT_COTANGENT:
      return x->forms[n + 1];
    case MMCI_AT_MEMORY:
      break;
  }
  return (mmci_form){.ld = o->cols > 0 ? o->cols : 1};
}

/* The product of a step, of the first of its operands or of the second; *swapped says that it is
 * the transposed one, whose left operand is the step's b. */
static mmci_gemm gemm_of(const mmci_gradients *x, const mmci_gradient_step *step, bool *swapped) {
  mmci_form a = form_of(x, &step->a), b = form_of(x, &step->b), c = form_of(x, &step->c);
  int64_t m = step->a.rows, k = step->a.cols, n = step->b.cols;
  if (step->kind == MMCI_GRADIENT_OF_LEFT) {
    b = turned(x, b, true);
    n = step->b.rows;
  } else if (step->kind == MMCI_GRADIENT_OF_RIGHT) {
    a = turned(x, a, true);
    m = step->a.cols;
    k = step->a.rows;
  }
  const mmc_op op = step->of_factor >= 0 ? x->chain->ops[step->of_factor] : MMC_OP_N;
  *swapped = step->of_factor >= 0 ? op != MMC_OP_N : c.trans;
  if (*swapped) {
    const mmci_form left = turned(x, b, op == MMC_OP_H);
    b = turned(x, a, op == MMC_OP_H);
    a = left;
    const int64_t rows = m;
    m = n;
    n = rows;
  }
  const int64_t ld = step->of_factor >= 0 ? (n > 0 ? n : 1) : c.ld;
  a.stride = b.stride = 0;
  return (mmci_gemm){.dtype = x->chain->dtype,
                     .rule = x->chain->rule,
                     .precision = MMCI_NATIVE,
                     .m = m,
                     .k = k,
                     .n = n,
                     .a = a,
                     .b = b,
                     .ldc = ld,
                     .batch = 1};
}

/* ---- preparing ----------------------------------------------------------------------------- */

static bool same_form(const mmci_form *a, const mmci_form *b) {
  return a->ld == b->ld && a->trans == b->trans && a->conj == b->conj;
}

static bool same_gemm(const mmci_gemm *a, const mmci_gemm *b) {
  return a->m == b->m && a->k == b->k && a->n == b->n && a->ldc == b->ldc &&
         same_form(&a->a, &b->a) && same_form(&a->b, &b->b);
}

static mmc_status prepare_call(mmci_gradients *x, prepared *out, mmci_error *error) {
  const mmci_gemm *gemm = &out->gemm;
  if (out->count > 1 && x->ops->group_supports != NULL) {
    mmci_form forms[] = {gemm->a, gemm->b};
    forms[0].gathered = forms[1].gathered = true;
    const mmci_group_product product = {gemm->m, gemm->k, gemm->n, 0, 1};
    const mmci_group group = {.dtype = gemm->dtype,
                              .rule = gemm->rule,
                              .precision = gemm->precision,
                              .batch = out->count,
                              .n = 2,
                              .count = 1,
                              .forms = forms,
                              .products = &product,
                              .ldc = gemm->ldc,
                              .c_gathered = true};
    if (x->ops->group_supports(x->device, &group))
      return x->ops->group_prepare(x->device, &group, &out->many, error);
  }
  if (!x->ops->supports(x->device, gemm))
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device", "'%s' has no such product",
                              x->ops->name);
  return x->ops->prepare(x->device, gemm, &out->one, error);
}

static void forget_calls(mmci_gradients *x) {
  if (x->prepared == NULL) return;
  for (int32_t p = 0; p < x->prepared_count; p++) {
    if (x->prepared[p].one != NULL) x->ops->release(x->prepared[p].one);
    if (x->prepared[p].many != NULL) x->ops->group_release(x->prepared[p].many);
  }
  for (int h = 0; h < HASHES; h++) x->hashes[h] = -1;
  x->prepared_count = x->call_count = 0;
  x->are_prepared = false;
}

/* Finds what a call of so many matrices is prepared as, or prepares it. */
static mmc_status find_prepared(mmci_gradients *x, const mmci_gemm *gemm, int64_t count,
                                int32_t *out, mmci_error *error) {
  const uint64_t mixed = ((uint64_t)gemm->m * 31 + (uint64_t)gemm->k) * 31 + (uint64_t)gemm->n +
                         (uint64_t)count * 7919;
  int32_t *hash = &x->hashes[mixed * UINT64_C(0x9E3779B97F4A7C15) >> 54];
  for (*out = *hash; *out >= 0; *out = x->prepared[*out].next)
    if (x->prepared[*out].count == count && same_gemm(&x->prepared[*out].gemm, gemm)) return MMC_OK;
  prepared *p = &x->prepared[x->prepared_count];
  *p = (prepared){.gemm = *gemm, .count = count, .next = *hash};
  mmc_status status = prepare_call(x, p, error);
  if (status == MMC_OK) *hash = *out = x->prepared_count++;
  return status;
}

static mmc_status add_call(mmci_gradients *x, int32_t first, int32_t count, const mmci_gemm *gemm,
                           mmci_error *error) {
  const int64_t matrices = count * x->chain->batch;
  if (first < x->steps.forward) x->forward_calls = x->call_count + 1;
  if (matrices > x->entries) {
    const void **tables = mmci_alloc_array((size_t)matrices, 3 * sizeof *tables);
    if (tables == NULL) return mmci_fail_nomem(error, (uint64_t)matrices * 3 * sizeof *tables);
    free((void *)x->tables);
    x->tables = tables;
    x->entries = matrices;
  }
  call *c = &x->calls[x->call_count];
  *c = (call){.first = first, .count = count};
  mmc_status status = find_prepared(x, gemm, matrices, &c->prepared, error);
  if (status == MMC_OK) x->call_count++;
  return status;
}

/* Prepares the calls of all steps for the forms that are set. */
static mmc_status prepare_calls(mmci_gradients *x, mmci_error *error) {
  const mmci_gradient_step *steps = x->steps.steps;
  mmc_status status = MMC_OK;
  forget_calls(x);
  x->forward_calls = 0;
  for (int32_t s = 0; s < x->steps.count && status == MMC_OK;) {
    bool swapped;
    const mmci_gemm gemm = gemm_of(x, &steps[s], &swapped);
    int32_t end = s + 1;
    for (; end < x->steps.count && steps[end].batch == steps[s].batch; end++) {
      bool next_swapped;
      const mmci_gemm next = gemm_of(x, &steps[end], &next_swapped);
      if (next_swapped != swapped || !same_gemm(&gemm, &next)) break;
    }
    status = add_call(x, s, end - s, &gemm, error);
    s = end;
  }
  x->are_prepared = status == MMC_OK;
  return status;
}

/* Sees whether the caller's matrices lie as before, and else prepares the calls again. One of
 * product and cotangent may be NULL: it then is as it was. */
static mmc_status prepare(mmci_gradients *x, const mmc_matrix *factors, const mmc_matrix *product,
                          const mmc_matrix *cotangent, mmci_error *error) {
  const int32_t n = x->chain->n;
  const mmc_matrix *ends[] = {product, cotangent};
  for (int32_t i = 0; i < n + 2; i++) {
    const mmc_matrix *matrix = i < n ? &factors[i] : ends[i - n];
    if (matrix == NULL) continue;
    mmci_form form = {.ld = mmci_matrix_ld(matrix), .trans = matrix->layout == MMC_COL_MAJOR};
    if (i < n) form = mmci_factor_form(x->chain, i, matrix, form.ld, 0);
    if (same_form(&form, &x->forms[i])) continue;
    x->forms[i] = form;
    x->are_prepared = false;
  }
  return x->are_prepared ? MMC_OK : prepare_calls(x, error);
}

/* ---- executing ----------------------------------------------------------------------------- */

/* The matrices of an execution. */
typedef struct given {
  const mmc_matrix *factors, *product, *cotangent;
  char *memory;
} given;

static void *address_of(const mmci_gradients *x, const given *with, const mmci_gradient_operand *o,
                        int64_t t) {
  const mmc_matrix *matrix = o->place == MMCI_AT_FACTOR    ? &with->factors[o->factor]
                             : o->place == MMCI_AT_PRODUCT ? with->product
                                                           : with->cotangent;
  if (o->place == MMCI_AT_MEMORY)
    return with->memory + o->offset + (size_t)(t * o->rows * o->cols) * x->element;
  return mmci_matrix_of_batch(matrix, x->chain->dtype, t).data;
}

static mmc_status execute_call(mmci_gradients *x, const call *c, const given *with,
                               mmci_error *error) {
  const prepared *p = &x->prepared[c->prepared];
  const void **a = x->tables, **b = a + x->entries;
  void **to = (void **)(b + x->entries);
  int64_t at = 0;
  for (int32_t s = c->first; s < c->first + c->count; s++) {
    const mmci_gradient_step *step = &x->steps.steps[s];
    bool swapped = step->of_factor >= 0
                       ? x->chain->ops[step->of_factor] != MMC_OP_N
                       : step->c.place == MMCI_AT_PRODUCT && x->forms[x->steps.n].trans;
    for (int64_t t = 0; t < x->chain->batch; t++, at++) {
      a[at] = address_of(x, with, swapped ? &step->b : &step->a, t);
      b[at] = address_of(x, with, swapped ? &step->a : &step->b, t);
      to[at] = address_of(x, with, &step->c, t);
    }
  }
  if (p->many != NULL) {
    const void *operands[] = {a, b};
    return x->ops->group_enqueue(x->queue, p->many, operands, to, error);
  }
  mmc_status status = MMC_OK;
  for (int64_t i = 0; i < at && status == MMC_OK; i++)
    status = x->ops->enqueue(x->queue, p->one, a[i], b[i], to[i], error);
  return status;
}

static mmc_status execute_calls(mmci_gradients *x, int32_t first, int32_t end, const given *with,
                                mmci_error *error) {
  mmc_status status = MMC_OK;
  if (x->chain->batch == 0) return MMC_OK;
  for (int32_t c = first; c < end && status == MMC_OK; c++) {
    mmci_interrupt_span((double)(c - first) / (end - first),
                        (double)(c - first + 1) / (end - first));
    status = execute_call(x, &x->calls[c], with, error);
    if (status == MMC_OK && mmci_interrupted())
      status = mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the progress callback");
  }
  return status == MMC_OK ? x->ops->sync(x->queue, error) : status;
}

/* Copies op(A) of every matrix of a batch to rows without gaps, or to a matrix of the caller's. */
static void copy_batch(const mmci_gradients *x, const mmc_matrix *from, mmci_form form,
                       int64_t rows, int64_t cols, const mmc_matrix *to) {
  for (int64_t t = 0; t < x->chain->batch; t++) {
    const mmc_matrix source = mmci_matrix_of_batch(from, x->chain->dtype, t);
    const mmc_matrix target = mmci_matrix_of_batch(to, x->chain->dtype, t);
    mmci_copy(x->chain->dtype, rows, cols, source.data, &form, target.data, mmci_matrix_ld(&target),
              target.layout == MMC_COL_MAJOR);
  }
}

/* Checks a matrix that lies as factor i does. */
static mmc_status check_like(const mmci_gradients *x, const char *name, int32_t i,
                             const mmc_matrix *matrix, mmci_error *error) {
  const bool turned = x->chain->ops[i] != MMC_OP_N;
  mmci_error found = {0};
  mmc_status status = mmci_matrix_check(x->chain, "", matrix, x->chain->dims[i + turned],
                                        x->chain->dims[i + !turned], &found);
  if (status == MMC_OK) return MMC_OK;
  return mmci_fail_argument(error, status, name, "number %" PRId32 "%s", i, found.text);
}

static mmc_status check(const mmci_gradients *x, const mmc_matrix *factors, const void *memory,
                        mmci_error *error) {
  if (factors == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "factors", "expected an array, got NULL");
  if (memory == NULL && mmci_gradients_bytes(x) > 0)
    return mmci_fail_argument(error, MMC_E_ARG, "memory", "expected memory, got NULL");
  mmc_status status = MMC_OK;
  for (int32_t i = 0; i < x->steps.n && status == MMC_OK; i++)
    status = check_like(x, "factors", i, &factors[i], error);
  return status;
}

/* The factor's gradient in the memory, as the factor is stored. */
static mmc_matrix gradient_of(const mmci_gradients *x, int32_t i, char *memory) {
  const bool turned = x->chain->ops[i] != MMC_OP_N;
  const int64_t rows = x->chain->dims[i], cols = x->chain->dims[i + 1];
  return (mmc_matrix){.data = memory + x->steps.offsets[i],
                      .rows = turned ? cols : rows,
                      .cols = turned ? rows : cols,
                      .stride = rows * cols};
}

mmc_status mmci_gradients_forward(mmci_gradients *x, const mmc_matrix *factors, void *memory,
                                  const mmc_matrix *out, mmci_error *error) {
  mmc_status status = check(x, factors, memory, error);
  if (status == MMC_OK) status = mmci_matrices_check(x->chain, factors, out, error);
  if (status == MMC_OK && x->nodes != NULL)
    return mmci_gradient_nodes_forward(x->nodes, factors, memory, out, error);
  if (status == MMC_OK) status = prepare(x, factors, out, NULL, error);
  if (status != MMC_OK) return status;
  const given with = {.factors = factors, .product = out, .cotangent = out, .memory = memory};
  if (x->steps.n == 1)
    copy_batch(x, factors, x->forms[0], x->chain->dims[0], x->chain->dims[1], out);
  return execute_calls(x, 0, x->forward_calls, &with, error);
}

static void copy_gradients(const mmci_gradients *x, char *memory, const mmc_matrix *copies) {
  for (int32_t i = 0; i < x->chain->n; i++) {
    if (x->steps.offsets[i] == UINT64_MAX) continue;
    const mmc_matrix from = gradient_of(x, i, memory);
    const mmci_form form = {.ld = mmci_matrix_ld(&from)};
    copy_batch(x, &from, form, from.rows, from.cols, &copies[i]);
  }
}

static mmc_status check_copies(const mmci_gradients *x, const mmc_matrix *copies,
                               mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int32_t i = 0; i < x->steps.n && status == MMC_OK; i++)
    if (mmci_gradients_offset(x, i) != UINT64_MAX)
      status = check_like(x, "gradients", i, &copies[i], error);
  return status;
}

mmc_status mmci_gradients_backward(mmci_gradients *x, const mmc_matrix *factors, void *memory,
                                   const mmc_matrix *cotangent, const mmc_matrix *copies,
                                   mmci_error *error) {
  mmc_status status = check(x, factors, memory, error);
  if (status == MMC_OK)
    status = mmci_matrix_check(x->chain, "cotangent", cotangent, x->chain->dims[0],
                               x->chain->dims[x->chain->n], error);
  if (status == MMC_OK && copies != NULL) status = check_copies(x, copies, error);
  if (status == MMC_OK && x->nodes != NULL)
    return mmci_gradient_nodes_backward(x->nodes, factors, memory, cotangent, copies, error);
  if (status == MMC_OK) status = prepare(x, factors, NULL, cotangent, error);
  if (status != MMC_OK) return status;
  const given with = {
      .factors = factors, .product = cotangent, .cotangent = cotangent, .memory = memory};
  if (x->steps.n == 1 && x->steps.offsets[0] != UINT64_MAX) {
    mmc_matrix to = gradient_of(x, 0, memory);
    mmci_form form = x->forms[2];
    if (x->chain->ops[0] != MMC_OP_N) form = turned(x, form, x->chain->ops[0] == MMC_OP_H);
    copy_batch(x, cotangent, form, to.rows, to.cols, &to);
  }
  status = execute_calls(x, x->forward_calls, x->call_count, &with, error);
  if (status == MMC_OK && copies != NULL) copy_gradients(x, memory, copies);
  return status;
}

/* ---- making -------------------------------------------------------------------------------- */

mmc_status mmci_gradients_create(const mmci_plan *plan, const bool *wanted, uint64_t limit_bytes,
                                 const mmci_device_ops *ops, mmci_device *device,
                                 mmci_gradients **out, mmci_error *error) {
  if (ops->enqueue == NULL || (ops->async != NULL && ops->nodes_enqueue == NULL))
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "plan",
                              "expected one for a device that computes gradients, got one for '%s'",
                              ops->name);
  if (plan->chain->rule.semiring != MMC_PLUS_TIMES)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "plan",
                              "expected a chain of sums and products, got one over semiring %s, "
                              "which has no gradients here",
                              mmc_semiring_name(plan->chain->rule.semiring));
  mmci_gradients *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  x->chain = plan->chain;
  if (ops->async != NULL) {
    mmc_status made = mmci_gradient_nodes_create(plan, wanted, ops, device, &x->nodes, error);
    const uint64_t bytes = made == MMC_OK ? mmci_gradient_nodes_bytes(x->nodes) : 0;
    if (bytes > limit_bytes)
      made = mmci_fail_argument(error, MMC_E_MEMORY_LIMIT, "memory limit",
                                "expected at least %llu bytes for these gradients, got %llu",
                                (unsigned long long)bytes, (unsigned long long)limit_bytes);
    if (made == MMC_OK)
      *out = x;
    else
      mmci_gradients_destroy(x);
    return made;
  }
  x->ops = ops;
  x->device = device;
  x->element = mmc_dtype_size(plan->chain->dtype);
  const size_t n = (size_t)plan->chain->n;
  mmc_status status = mmci_gradient_steps_make(plan, wanted, limit_bytes, &x->steps, error);
  if (status == MMC_OK) {
    x->forms = mmci_alloc_zeroed(n + 2, sizeof *x->forms);
    const size_t most = (size_t)x->steps.count + 1;
    x->calls = mmci_alloc_array(most, sizeof *x->calls);
    x->prepared = mmci_alloc_array(most, sizeof *x->prepared);
    if (x->forms == NULL || x->calls == NULL || x->prepared == NULL)
      status = mmci_fail_nomem(error, most * sizeof *x->prepared);
  }
  if (status == MMC_OK) {
    const int64_t cols = plan->chain->dims[n];
    for (size_t i = 0; i < n + 2; i++) x->forms[i].ld = i < n ? 0 : cols > 0 ? cols : 1;
    forget_calls(x);
    status = ops->queue_open(device, &x->queue, error);
  }
  if (status == MMC_OK)
    *out = x;
  else
    mmci_gradients_destroy(x);
  return status;
}

void mmci_gradients_destroy(mmci_gradients *x) {
  if (x == NULL) return;
  mmci_gradient_nodes_destroy(x->nodes);
  forget_calls(x);
  if (x->queue != NULL) x->ops->queue_close(x->queue);
  mmci_gradient_steps_free(&x->steps);
  free(x->forms);
  free(x->calls);
  free(x->prepared);
  free((void *)x->tables);
  free(x);
}

uint64_t mmci_gradients_bytes(const mmci_gradients *x) {
  return x->nodes != NULL ? mmci_gradient_nodes_bytes(x->nodes) : x->steps.bytes;
}

void mmci_gradients_on_stream(mmci_gradients *x, void *stream) {
  if (x->nodes != NULL) mmci_gradient_nodes_on_stream(x->nodes, stream);
}

uint64_t mmci_gradients_offset(const mmci_gradients *x, int64_t i) {
  if (x->nodes != NULL) return mmci_gradient_nodes_offset(x->nodes, i);
  return i >= 0 && i < x->steps.n ? x->steps.offsets[i] : UINT64_MAX;
}
