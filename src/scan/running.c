#include "scan/running.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "chain/copy.h"
#include "chain/identity.h"
#include "chain/scale.h"
#include "scan/running_parts.h"

/* ---- preparing a scan ------------------------------------------------------------------------ */

static bool same_form(const mmci_form *x, const mmci_form *y) {
  return x->ld == y->ld && x->trans == y->trans && x->stride == y->stride;
}

/* Says whether two scans of one problem lie in the same way. */
static bool same_scan(const mmci_scan *x, const mmci_scan *y) {
  return x->left == y->left && same_form(&x->a, &y->a) && same_form(&x->initial, &y->initial) &&
         same_form(&x->addend, &y->addend) && x->a_step == y->a_step &&
         x->addend_step == y->addend_step && x->ldc == y->ldc && x->c_step == y->c_step &&
         x->c_stride == y->c_stride;
}

static bool is_prepared(const mmci_running *r) {
  return r->kernel != NULL || r->levels != NULL || r->steps != NULL || r->scaled != NULL;
}

static void let_go(mmci_running *r) {
  if (r->kernel != NULL) r->on.ops->scan_release(r->kernel);
  mmci_levels_destroy(r->levels);
  mmci_steps_destroy(r->steps);
  mmci_scaled_destroy(r->scaled);
  r->scaled = NULL;
  r->kernel = NULL;
  r->levels = NULL;
  r->steps = NULL;
}

/* Says whether a tree of products takes fewer calls of the device. */
static bool prefers_levels(const mmci_running *r, const mmci_scan *scan) {
  const bool can = scan->width == scan->n && !scan->has_addend;
  return can && r->on.ops->async != NULL && mmci_levels_calls(scan) < scan->length;
}

static mmc_status prepare(mmci_running *r, const mmci_scan *scan, mmci_error *error) {
  const mmci_device_ops *ops = r->on.ops;
  if (is_prepared(r) && same_scan(&r->scan, scan)) return MMC_OK;
  let_go(r);
  r->scan = *scan;
  if (r->problem.scaled) return mmci_scaled_create(&r->on, scan, &r->scaled, error);
  if (r->way == MMCI_RUNNING_AUTO && ops->scan_supports != NULL &&
      ops->scan_supports(r->on.device, scan))
    return ops->scan_prepare(r->on.device, scan, &r->kernel, error);
  if (r->way == MMCI_RUNNING_LEVELS || (r->way == MMCI_RUNNING_AUTO && prefers_levels(r, scan)))
    return mmci_levels_create(&r->on, scan, &r->levels, error);
  return mmci_steps_create(&r->on, scan, &r->steps, error);
}

/* ---- creating -------------------------------------------------------------------------------- */

static bool is_empty(const mmci_running_problem *problem) {
  return problem->n == 0 || problem->batch == 0 || problem->length == 0;
}

static mmc_status check_problem(const mmci_running_problem *p, mmci_error *error) {
  const int64_t most = INT64_C(1) << 62;
  const struct {
    const char *name;
    int64_t value;
  } numbers[] = {{"n", p->n}, {"length", p->length}, {"batch", p->batch}, {"columns", p->columns}};
  for (int i = 0; i < 4; i++)
    if (numbers[i].value < 0 || numbers[i].value > most)
      return mmci_fail_argument(error, MMC_E_ARG, numbers[i].name,
                                "expected 0 to 2^62, got %" PRId64, numbers[i].value);
  if (mmc_dtype_size(p->dtype) == 0)
    return mmci_fail_argument(error, MMC_E_ARG, "dtype", "expected a dtype, got number %d",
                              (int)p->dtype);
  mmc_status status = mmci_semiring_check(p->dtype, p->semiring, error);
  if (status != MMC_OK) return status;
  if (p->scaled) status = mmci_scale_check(p->dtype, error);
  if (status != MMC_OK) return status;
  if (p->scaled && p->semiring != MMC_PLUS_TIMES)
    return mmci_fail_argument(error, MMC_E_ARG, "scaled", "expected semiring plus-times with it");
  if (p->scaled && p->addend)
    return mmci_fail_argument(error, MMC_E_ARG, "scaled", "expected no addend with it");
  if (p->columns > 0 && !p->initial)
    return mmci_fail_argument(error, MMC_E_ARG, "initial", "a recurrence needs its first state");
  if (p->addend && p->columns == 0)
    return mmci_fail_argument(error, MMC_E_ARG, "addend",
                              "expected a recurrence, with columns of at least 1");
  int64_t elements = p->n, widest = p->columns > p->n ? p->columns : p->n;
  if (__builtin_mul_overflow(elements, widest, &elements) ||
      (elements > 0 && (__builtin_mul_overflow(elements, p->length, &elements) ||
                        __builtin_mul_overflow(elements, p->batch, &elements))) ||
      elements > most / 16)
    return mmci_fail(error, MMC_E_OVERFLOW, "the matrices exceed the address space");
  return MMC_OK;
}

mmc_status mmci_running_copy(const mmci_opened *on, mmci_queue *queue, mmc_dtype dtype,
                             int64_t rows, int64_t cols, const void *from, const mmci_form *form,
                             void *to, int64_t ld, mmci_error *error) {
  if (on->ops->async != NULL)
    return on->ops->async->copy(queue, dtype, rows, cols, from, form, to, ld, false, error);
  mmci_copy(dtype, rows, cols, from, form, to, ld, false);
  return MMC_OK;
}

static mmc_status upload(mmci_running *r, void *to, const void *from, size_t bytes,
                         mmci_error *error) {
  if (r->on.ops->async == NULL) {
    memcpy(to, from, bytes);
    return MMC_OK;
  }
  const mmci_transfer all = {.to = to, .from = from, .lines = 1, .line_bytes = (int64_t)bytes};
  mmc_status status = r->on.ops->async->upload(r->queue, &all, error);
  return status == MMC_OK ? r->on.ops->sync(r->queue, error) : status;
}

static mmc_status make_identity(mmci_running *r, mmci_error *error) {
  const size_t n = (size_t)r->problem.n, element = mmc_dtype_size(r->problem.dtype);
  const size_t bytes = n * n * element;
  char *host = mmci_alloc_zeroed(n * n, element);
  if (host == NULL) return mmci_fail_nomem(error, bytes);
  mmci_write_identity(r->problem.dtype, r->problem.semiring, r->problem.n, host);
  mmc_status status = r->on.ops->alloc(r->on.device, bytes, &r->identity, error);
  if (status == MMC_OK) status = upload(r, r->identity, host, bytes, error);
  free(host);
  return status;
}

static mmc_status set_up(mmci_running *r, mmci_error *error) {
  mmc_status status = r->on.ops->queue_open(r->on.device, &r->queue, error);
  if (status != MMC_OK || is_empty(&r->problem)) return status;
  mmci_operand operands[MMCI_OPERANDS];
  mmci_operands_tight(&r->problem, operands);
  if (r->problem.exclusive && !r->problem.initial) status = make_identity(r, error);
  const mmci_scan scan = mmci_running_scan(&r->problem, operands, NULL, NULL);
  return status == MMC_OK && scan.length > 0 ? prepare(r, &scan, error) : status;
}

mmc_status mmci_running_create(const mmci_running_problem *problem, const mmci_opened *on,
                               mmci_running_way way, mmci_running **out, mmci_error *error) {
  mmc_status status = check_problem(problem, error);
  const mmci_rule rule = {.semiring = problem->semiring};
  if (status == MMC_OK && problem->semiring != MMC_OR_AND)
    status = mmci_opened_check_rule(on, problem->dtype, &rule, error);
  if (status == MMC_OK && problem->scaled && on->ops->async != NULL)
    status = mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device",
                                "'%s' keeps no exponents: expected cpu, blas or ref with scaled",
                                on->name);
  if (status != MMC_OK) return status;
  mmci_running *r = mmci_alloc_zeroed(1, sizeof *r);
  if (r == NULL) return mmci_fail_nomem(error, sizeof *r);
  r->problem = *problem;
  r->on = *on;
  r->way = way;
  status = set_up(r, error);
  if (status == MMC_OK)
    *out = r;
  else
    mmci_running_destroy(r);
  return status;
}

void mmci_running_destroy(mmci_running *r) {
  if (r == NULL) return;
  const mmci_device_ops *ops = r->on.ops;
  mmci_running_wait(r, NULL);
  let_go(r);
  if (r->done != NULL) ops->async->event_destroy(r->done);
  if (r->queue != NULL) ops->queue_close(r->queue);
  if (r->identity != NULL) ops->dealloc(r->on.device, r->identity);
  for (int i = 0; i < MMCI_OPERANDS; i++)
    if (r->staged[i] != NULL) ops->dealloc(r->on.device, r->staged[i]);
  free(r);
}

/* ---- operands on the host -------------------------------------------------------------------- */

/* Points `staged` at memory of the device, where all operands keep their layout and lie without
 * gaps. */
static mmc_status stage(mmci_running *r, const mmci_operand operands[MMCI_OPERANDS],
                        mmci_operand staged[MMCI_OPERANDS], mmci_error *error) {
  const size_t element = mmc_dtype_size(r->problem.dtype);
  mmci_operands_tight(&r->problem, staged);
  mmc_status status = MMC_OK;
  for (int i = 0; i < MMCI_OPERANDS && status == MMC_OK; i++) {
    if (!mmci_running_has(&r->problem, i)) continue;
    const size_t bytes = (size_t)staged[i].matrix.stride * (size_t)r->problem.batch * element;
    if (r->staged[i] == NULL) status = r->on.ops->alloc(r->on.device, bytes, &r->staged[i], error);
    staged[i].matrix.data = r->staged[i];
    staged[i].matrix.layout = operands[i].matrix.layout;
    if (operands[i].matrix.layout == MMC_COL_MAJOR) staged[i].matrix.ld = r->problem.n;
  }
  return status;
}

/* Moves an operand's matrices to the device, or from there when `back`. */
static mmc_status move(mmci_running *r, const mmci_operand *host, const mmci_operand *staged,
                       bool back, mmci_error *error) {
  const mmci_device_async *async = r->on.ops->async;
  const int64_t element = (int64_t)mmc_dtype_size(r->problem.dtype);
  const bool by_rows = host->matrix.layout == MMC_ROW_MAJOR;
  const int64_t lines = by_rows ? host->matrix.rows : host->matrix.cols;
  const int64_t length = by_rows ? host->matrix.cols : host->matrix.rows;
  /* Matrices that follow each other without gaps go as one. */
  const bool whole = host->count == 1 || host->step == lines * host->matrix.ld;
  const int64_t pieces = whole ? 1 : host->count;
  mmc_status status = MMC_OK;
  for (int64_t p = 0; p < r->problem.batch * pieces && status == MMC_OK; p++) {
    const int64_t b = p / pieces, t = p % pieces;
    char *of_host =
        mmci_address(host->matrix.data, (b * host->matrix.stride + t * host->step) * element);
    char *of_device =
        mmci_address(staged->matrix.data, (b * staged->matrix.stride + t * staged->step) * element);
    const mmci_transfer transfer = {.to = back ? of_host : of_device,
                                    .from = back ? of_device : of_host,
                                    .to_pitch = (back ? host->matrix.ld : length) * element,
                                    .from_pitch = (back ? length : host->matrix.ld) * element,
                                    .lines = lines * (whole ? host->count : 1),
                                    .line_bytes = length * element};
    status = (back ? async->download : async->upload)(r->queue, &transfer, error);
  }
  return status;
}

/* ---- executing ------------------------------------------------------------------------------- */

/* Computes a scan with exponents; those of an exclusive one begin with its first result's. */
static mmc_status compute_scaled(mmci_running *r, const mmci_scan *scan,
                                 const mmci_scan_places *places, void *first, int64_t *exponents,
                                 mmci_error *error) {
  const mmci_running_problem *p = &r->problem;
  const int64_t step = p->reverse ? -1 : 1, begin = p->reverse ? p->length - 1 : 0;
  const int64_t element = (int64_t)mmc_dtype_size(scan->dtype);
  for (int64_t b = 0; b < p->batch && p->exclusive; b++)
    exponents[b * p->length + begin] =
        mmci_scale(scan->dtype, mmci_scan_rows(scan), mmci_scan_cols(scan),
                   mmci_address(first, b * scan->c_stride * element), scan->ldc);
  if (scan->length == 0) return MMC_OK;
  return mmci_scaled_execute(r->scaled, r->queue, places,
                             exponents + begin + (p->exclusive ? step : 0), p->length, step, error);
}

/* Writes the first result of an exclusive scan: the initial matrix, or the identity. */
static mmc_status put_first(mmci_running *r, const mmci_scan *scan, const mmci_scan_places *places,
                            void *first, mmci_error *error) {
  const mmci_form tight = {.ld = scan->n};
  const mmci_form *form = scan->has_initial ? &scan->initial : &tight;
  const int64_t element = (int64_t)mmc_dtype_size(scan->dtype);
  const void *from = scan->has_initial ? places->initial : r->identity;
  mmc_status status = MMC_OK;
  for (int64_t b = 0; b < scan->batch && status == MMC_OK; b++)
    status =
        mmci_running_copy(&r->on, r->queue, scan->dtype, mmci_scan_rows(scan), mmci_scan_cols(scan),
                          mmci_address(from, b * form->stride * element), form,
                          mmci_address(first, b * scan->c_stride * element), scan->ldc, error);
  return status;
}

/* Computes everything from operands in the device's memory. */
static mmc_status compute(mmci_running *r, const mmci_operand operands[MMCI_OPERANDS],
                          int64_t *exponents, mmci_error *error) {
  mmci_scan_places places;
  void *first;
  const mmci_scan scan = mmci_running_scan(&r->problem, operands, &places, &first);
  mmc_status status = r->problem.exclusive ? put_first(r, &scan, &places, first, error) : MMC_OK;
  if (status == MMC_OK && scan.length > 0 && r->problem.scaled) status = prepare(r, &scan, error);
  if (status == MMC_OK && exponents != NULL)
    return compute_scaled(r, &scan, &places, first, exponents, error);
  if (status != MMC_OK || scan.length == 0) return status;
  if (r->pending && !(is_prepared(r) && same_scan(&r->scan, &scan)))
    status = mmci_running_wait(r, error);
  if (status == MMC_OK) status = prepare(r, &scan, error);
  if (status != MMC_OK) return status;
  if (r->kernel != NULL) return r->on.ops->scan_enqueue(r->queue, r->kernel, &places, error);
  if (r->levels != NULL) return mmci_levels_enqueue(r->levels, r->queue, &places, error);
  return mmci_steps_enqueue(r->steps, r->queue, &places, error);
}

static mmc_status compute_staged(mmci_running *r, const mmci_operand operands[MMCI_OPERANDS],
                                 mmci_error *error) {
  mmci_operand staged[MMCI_OPERANDS];
  mmc_status status = stage(r, operands, staged, error);
  for (int i = 0; i < MMCI_OUT && status == MMC_OK; i++)
    if (mmci_running_has(&r->problem, i)) status = move(r, &operands[i], &staged[i], false, error);
  if (status == MMC_OK) status = compute(r, staged, NULL, error);
  if (status == MMC_OK) status = move(r, &operands[MMCI_OUT], &staged[MMCI_OUT], true, error);
  return status;
}

mmc_status mmci_running_execute(mmci_running *r, const mmc_scan_operands *given,
                                mmci_error *error) {
  mmci_operand operands[MMCI_OPERANDS];
  bool on_host;
  int64_t *exponents;
  mmc_status status = mmci_operands_read(&r->problem, given, operands, &on_host, error);
  if (status == MMC_OK) status = mmci_exponents_read(&r->problem, given, &exponents, error);
  if (status != MMC_OK || is_empty(&r->problem)) return status;
  status = mmci_running_wait(r, error);
  if (status != MMC_OK) return status;
  mmci_interrupt *before = mmci_interrupt_begin(&r->interrupt);
  status = on_host && r->on.ops->async != NULL ? compute_staged(r, operands, error)
                                               : compute(r, operands, exponents, error);
  mmci_interrupt_end(before);
  mmc_status done = r->on.ops->sync(r->queue, status == MMC_OK ? error : NULL);
  return status == MMC_OK ? done : status;
}

void mmci_running_progress(mmci_running *r, mmc_progress_fn progress, void *user) {
  if (r->on.ops->async != NULL) return;
  r->interrupt.ask = progress;
  r->interrupt.user = user;
}

/* Puts the work in order behind what another stream was given, on this one. */
static mmc_status enqueue_on(mmci_running *r, const mmci_operand operands[MMCI_OPERANDS],
                             bool capturing, mmci_error *error) {
  const mmci_device_async *async = r->on.ops->async;
  mmc_status status = MMC_OK;
  if (r->done == NULL) status = async->event_create(r->on.device, &r->done, error);
  if (status == MMC_OK && r->pending && !capturing)
    status = async->event_wait(r->queue, r->done, error);
  if (status == MMC_OK) status = compute(r, operands, NULL, error);
  if (status == MMC_OK && !capturing) status = async->event_record(r->queue, r->done, error);
  if (status == MMC_OK && !capturing) r->pending = true;
  return status;
}

mmc_status mmci_running_enqueue(mmci_running *r, void *stream, const mmc_scan_operands *given,
                                mmci_error *error) {
  const mmci_device_async *async = r->on.ops->async;
  if (async == NULL) return mmci_running_execute(r, given, error);
  mmci_operand operands[MMCI_OPERANDS];
  bool on_host, capturing = async->is_capturing(r->on.device, stream);
  mmc_status status = mmci_operands_read(&r->problem, given, operands, &on_host, error);
  if (status != MMC_OK || is_empty(&r->problem)) return status;
  if (on_host && capturing)
    return mmci_fail(error, MMC_E_ARG,
                     "stream: a stream that is being captured cannot take matrices on the host");
  async->queue_attach(r->queue, stream);
  if (on_host) {
    status = r->on.ops->sync(r->queue, error); /* what they are made by must be done */
    async->queue_detach(r->queue);
    return status == MMC_OK ? mmci_running_execute(r, given, error) : status;
  }
  status = enqueue_on(r, operands, capturing, error);
  async->queue_detach(r->queue);
  return status;
}

mmc_status mmci_running_wait(mmci_running *r, mmci_error *error) {
  const mmci_device_async *async = r->on.ops->async;
  if (!r->pending || async == NULL) return MMC_OK;
  mmc_status status = async->event_wait(r->queue, r->done, error);
  if (status == MMC_OK) status = r->on.ops->sync(r->queue, error);
  if (status == MMC_OK) r->pending = false;
  return status;
}
