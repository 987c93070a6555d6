/* resident.c: runs a plan with all matrices in the device's memory. Products are on several queues,
 * copies to and from the host beside them, and all of it is replayed as one graph when no copies
 * are needed.
 *
 * Work is enqueued in the order of the plan's steps. A factor on the host is uploaded when the
 * first step that reads it is enqueued, so that products begin as soon as their factors are there.
 * Where a step would have to wait for a large factor, or the host for a large result, the step is
 * cut into rows, each of which is multiplied when it has arrived and goes back when it is done. */
#include "run/resident.h"

#include "base/alloc.h"
#include "chain/copy.h"
#include "run/graphs.h"
#include "run/matrices.h"
#include "run/schedule.h"
#include "run/staging.h"

/* A step is cut when it moves at least so many bytes over the bus, into at most CUT_PIECES pieces
 * of at least CUT_LEAST_LENGTH rows or summands: shorter ones would leave a GPU's tiles idle. */
static const int64_t cut_least_bytes = 32 << 20;
enum { CUT_PIECES = 8, CUT_LEAST_LENGTH = 512, CUT_ALIGNMENT = 128 };

/* Up to so many bytes in all, copies are on the queue of the products: letting queues wait for each
 * other takes longer than copying beside products saves. */
static const int64_t together_most_bytes = 8 << 20;

/* A prepared product, as mmci_actions_prepare() keeps it. */
typedef struct prepared {
  mmci_gemm gemm;
  mmci_kernel *kernel;
} prepared;

/* An action is cut into pieces along m, so that its left operand comes and its result goes in rows;
 * or along k, so that both operands come in pieces. */
typedef enum piece { FIRST, NEXT, REST, PIECES } piece;
typedef struct cut {
  mmci_axis axis;          /* MMCI_PIECE when it is not cut */
  int64_t length;          /* rows or summands of a piece */
  prepared pieces[PIECES]; /* the rest is shorter; along m the first serves for the next ones too */
} cut;

struct mmci_resident {
  mmci_actions *actions;
  const mmci_device_ops *ops;
  const mmci_device_async *async;
  mmci_device *device;

  mmci_schedule schedule;
  mmci_queue **queues;       /* schedule.queues */
  mmci_queue **piece_queues; /* piece_queue_count queues for products in pieces */
  int piece_queue_count;
  mmci_queue *copies[2]; /* queues for uploads and downloads; NULL until they are needed */
  /* The queues that take uploads and downloads: these, or that of the products; NULL until matrices
   * are on the host. */
  mmci_queue *uploads, *downloads;
  mmci_event *start, *done, *copied; /* copied is for waits that follow at once */
  mmci_event **step_done;            /* one for each step; NULL where nobody waits */

  char *workspace;
  mmci_staging staging;
  mmci_operand *operands;
  mmci_target target;
  bool bound; /* everything here points at the staging's matrices */
  cut *cuts;  /* as many entries as actions */

  mmci_graphs graphs;
  /* The last execution was left to a stream and may be under way; done says when it ends, once it
   * is recorded. */
  bool pending, recorded;
  void *stream;
};

/* ---- creation -------------------------------------------------------------------------------- */

static mmc_status open_queues(mmci_resident *r, mmci_error *error) {
  r->queues = mmci_alloc_zeroed((size_t)r->schedule.queues, sizeof *r->queues);
  if (r->queues == NULL) return mmci_fail_nomem(error, sizeof *r->queues);
  int count = mmci_actions_queues(r->actions) - 1;
  r->piece_queues = mmci_alloc_zeroed((size_t)count, sizeof *r->piece_queues);
  if (r->piece_queues == NULL) return mmci_fail_nomem(error, sizeof *r->piece_queues);
  r->piece_queue_count = count;
  mmc_status status = MMC_OK;
  for (int q = 0; q < r->schedule.queues && status == MMC_OK; q++)
    status = r->ops->queue_open(r->device, &r->queues[q], error);
  for (int l = 0; l < count && status == MMC_OK; l++)
    status = r->ops->queue_open(r->device, &r->piece_queues[l], error);
  if (status == MMC_OK) status = r->async->event_create(r->device, &r->start, error);
  if (status == MMC_OK) status = r->async->event_create(r->device, &r->done, error);
  if (status == MMC_OK) status = r->async->event_create(r->device, &r->copied, error);
  for (int32_t s = 0; s < r->actions->plan->step_count && status == MMC_OK; s++)
    if (r->schedule.is_waited_for[s])
      status = r->async->event_create(r->device, &r->step_done[s], error);
  return status;
}

mmc_status mmci_resident_create(mmci_actions *actions, mmci_resident **out, mmci_error *error) {
  const mmci_plan *plan = actions->plan;
  size_t n = (size_t)plan->chain->n, steps = (size_t)plan->step_count;
  if (plan->workspace_bytes > SIZE_MAX) return mmci_fail_nomem(error, plan->workspace_bytes);
  mmci_resident *r = mmci_alloc_zeroed(1, sizeof *r);
  if (r == NULL) return mmci_fail_nomem(error, sizeof *r);
  *r = (mmci_resident){.actions = actions,
                       .ops = actions->ops,
                       .async = actions->ops->async,
                       .device = actions->device,
                       .graphs = {.async = actions->ops->async, .n = plan->chain->n},
                       .step_done = mmci_alloc_zeroed(steps, sizeof *r->step_done),
                       .operands = mmci_alloc_array(n, sizeof *r->operands),
                       .cuts = mmci_alloc_zeroed(steps, sizeof *r->cuts)};
  mmc_status status = MMC_OK;
  if (r->step_done == NULL || r->operands == NULL || r->cuts == NULL)
    status = mmci_fail_nomem(error, n * (sizeof *r->operands + sizeof *r->cuts));
  if (status == MMC_OK) status = mmci_schedule_create(plan, r->async->queues, &r->schedule, error);
  if (status == MMC_OK) status = open_queues(r, error);
  if (status == MMC_OK && plan->workspace_bytes > 0) {
    void *workspace = NULL;
    status = r->ops->alloc(r->device, (size_t)plan->workspace_bytes, &workspace, error);
    r->workspace = workspace;
  }
  if (status == MMC_OK) status = mmci_actions_expect(r->actions, r->operands, r->workspace, error);
  if (status != MMC_OK) {
    mmci_resident_destroy(r);
    return status;
  }
  *out = r;
  return MMC_OK;
}

void mmci_resident_destroy(mmci_resident *r) {
  if (r == NULL) return;
  for (int c = 0; c < 2; c++)
    if (r->copies[c] != NULL) r->ops->queue_close(r->copies[c]);
  for (int q = 0; r->queues != NULL && q < r->schedule.queues; q++)
    if (r->queues[q] != NULL) r->ops->queue_close(r->queues[q]);
  for (int l = 0; l < r->piece_queue_count; l++)
    if (r->piece_queues[l] != NULL) r->ops->queue_close(r->piece_queues[l]);
  mmci_graphs_clear(&r->graphs);
  mmci_event *events[] = {r->start, r->done, r->copied};
  for (int e = 0; e < 3; e++)
    if (events[e] != NULL) r->async->event_destroy(events[e]);
  for (int32_t s = 0; s < r->actions->plan->step_count; s++)
    if (r->step_done != NULL && r->step_done[s] != NULL) r->async->event_destroy(r->step_done[s]);
  for (int32_t s = 0; r->cuts != NULL && s < r->actions->count; s++)
    for (int p = 0; p < PIECES; p++)
      if (r->cuts[s].pieces[p].kernel != NULL) r->ops->release(r->cuts[s].pieces[p].kernel);
  mmci_staging_destroy(&r->staging, r->actions);
  if (r->workspace != NULL) r->ops->dealloc(r->device, r->workspace);
  mmci_schedule_destroy(&r->schedule);
  free(r->queues);
  free(r->piece_queues);
  free(r->step_done);
  free(r->operands);
  free(r->cuts);
  free(r);
}

/* ---- binding --------------------------------------------------------------------------------- */

/* Returns how many bytes of an operand come from the host. */
static int64_t bytes_from_host(const mmci_resident *r, int32_t number) {
  const mmc_chain *chain = r->actions->plan->chain;
  if (number >= chain->n || !r->staging.factors[number].on_host) return 0;
  return chain->dims[number] * chain->dims[number + 1] * (int64_t)mmc_dtype_size(chain->dtype);
}

/* Chooses k when both operands come for this step alone, because then it can begin soonest. */
static mmci_axis choose_cut(const mmci_resident *r, int32_t s) {
  const mmci_action *x = &r->actions->actions[s];
  const mmci_gemm *g = &x->gemm;
  if (x->group != NULL || r->actions->batch > 1) return MMCI_PIECE;
  bool goes = s == r->actions->count - 1 && r->staging.result_on_host;
  int64_t a = bytes_from_host(r, x->a_number), b = bytes_from_host(r, x->b_number);
  int64_t c = goes ? g->m * g->n * (int64_t)mmc_dtype_size(g->dtype) : 0;
  if (!goes && a >= cut_least_bytes && b >= cut_least_bytes && !mmci_gemm_keeps_k(g) &&
      mmci_plan_is_tree(r->actions->plan) && !r->staging.factors[x->a_number].shared &&
      !r->staging.factors[x->b_number].shared && g->k >= 2 * CUT_LEAST_LENGTH)
    return MMCI_AXIS_K;
  if ((a >= cut_least_bytes || c >= cut_least_bytes) && g->m >= 2 * CUT_LEAST_LENGTH)
    return MMCI_AXIS_M;
  return MMCI_PIECE;
}

static int64_t piece_length(const mmci_gemm *g, mmci_axis axis) {
  int64_t length = (mmci_gemm_size(g, axis) + CUT_PIECES - 1) / CUT_PIECES;
  if (length < CUT_LEAST_LENGTH) length = CUT_LEAST_LENGTH;
  return (length + CUT_ALIGNMENT - 1) / CUT_ALIGNMENT * CUT_ALIGNMENT;
}

/* Makes one piece of a product; returns false when there is no such piece, or it is like
 * another. */
static bool piece_of(const mmci_gemm *g, mmci_axis axis, piece which, mmci_gemm *out) {
  int64_t length = piece_length(g, axis), rest = mmci_gemm_size(g, axis) % length;
  if ((which == NEXT && axis != MMCI_AXIS_K) || (which == REST && rest == 0)) return false;
  *out = mmci_gemm_resized(g, axis, which == REST ? rest : length);
  out->accumulate = which != FIRST && axis == MMCI_AXIS_K;
  return true;
}

/* Decides whether a step is cut, and prepares its pieces. */
static mmc_status bind_cut(mmci_resident *r, int32_t s, mmci_error *error) {
  const mmci_gemm *g = &r->actions->actions[s].gemm;
  cut *c = &r->cuts[s];
  c->axis = choose_cut(r, s);
  if (c->axis == MMCI_PIECE) return MMC_OK;
  c->length = piece_length(g, c->axis);
  mmc_status status = MMC_OK;
  mmci_gemm gemm;
  for (int p = 0; p < PIECES && status == MMC_OK; p++)
    if (piece_of(g, c->axis, (piece)p, &gemm))
      status =
          mmci_actions_prepare(r->actions, &gemm, &c->pieces[p].gemm, &c->pieces[p].kernel, error);
  return status;
}

/* Takes the largest over all cuts, since which one is made depends on where matrices are and how
 * they lie. */
uint64_t mmci_resident_cut_bytes(const mmci_device_ops *ops, const mmci_device *device,
                                 const mmci_gemm *g) {
  const double m = (double)g->m, k = (double)g->k, n = (double)g->n;
  const double least = (double)cut_least_bytes / (double)mmc_dtype_size(g->dtype);
  if (m * k < least && k * n < least && m * n < least) return 0;
  uint64_t most = 0;
  for (mmci_axis axis = MMCI_AXIS_M; axis <= MMCI_AXIS_N; axis++) {
    uint64_t bytes = 0;
    mmci_gemm gemm;
    for (int p = 0; p < PIECES && mmci_gemm_size(g, axis) >= 2 * CUT_LEAST_LENGTH; p++)
      if (piece_of(g, axis, (piece)p, &gemm))
        bytes = mmci_bytes_add(bytes, ops->scratch_bytes(device, &gemm));
    if (bytes > most) most = bytes;
  }
  return most;
}

static bool has_tables(const mmci_resident *r) {
  for (int32_t i = 0; i < r->actions->plan->chain->n; i++)
    if (r->staging.factors[i].has_table) return true;
  return false;
}

/* Opens a queue for copies unless that is done. */
static mmc_status open_copies(mmci_resident *r, int which, mmci_queue **out, mmci_error *error) {
  mmc_status status = MMC_OK;
  if (r->copies[which] == NULL) status = r->ops->queue_open(r->device, &r->copies[which], error);
  *out = r->copies[which];
  return status;
}

/* Sends the tables; on return they are on the device and no longer the caller's. */
static mmc_status send_tables(mmci_resident *r, mmci_error *error) {
  mmci_queue *queue;
  mmc_status status = open_copies(r, 0, &queue, error);
  if (status == MMC_OK) status = mmci_staging_upload_tables(&r->staging, r->actions, queue, error);
  return status == MMC_OK ? r->ops->sync(queue, error) : status;
}

/* Returns how many bytes are copied from and to the host. */
static int64_t bytes_copied(const mmci_resident *r) {
  const mmc_chain *chain = r->actions->plan->chain;
  double elements = 0;
  for (int32_t i = 0; i < chain->n; i++) {
    const mmci_staged *x = &r->staging.factors[i];
    if (x->on_host && x->same == i)
      elements += (double)x->count * (double)chain->dims[i] * (double)chain->dims[i + 1];
  }
  if (r->staging.result_on_host)
    elements += (double)r->staging.results * (double)chain->dims[0] * (double)chain->dims[chain->n];
  const double bytes = elements * (double)mmc_dtype_size(chain->dtype);
  return bytes < (double)INT64_MAX / 2 ? (int64_t)bytes : INT64_MAX;
}

/* Chooses the queues of uploads and downloads. */
static mmc_status choose_copies(mmci_resident *r, mmci_error *error) {
  mmc_status status = MMC_OK;
  r->uploads = r->downloads = r->queues[0];
  if (bytes_copied(r) <= together_most_bytes) return MMC_OK;
  if (r->staging.factors_on_host > 0) status = open_copies(r, 0, &r->uploads, error);
  if (status == MMC_OK && r->staging.result_on_host)
    status = open_copies(r, 1, &r->downloads, error);
  return status;
}

static void share_operands(mmci_resident *r) {
  for (int32_t s = 0; s < r->actions->count; s++) {
    mmci_action *x = &r->actions->actions[s];
    x->queue = r->cuts[s].axis == MMCI_PIECE ? r->schedule.queue[x->step] : -1;
  }
  mmci_actions_share(r->actions);
}

/* Points everything at the matrices. Where tables are staged, nothing may be under way that reads
 * the old ones. */
static mmc_status bind_matrices(mmci_resident *r, const mmc_matrix *factors, const mmc_matrix *out,
                                mmci_error *error) {
  r->bound = false;
  const uint64_t replaced = r->actions->replaced;
  mmc_status status = MMC_OK;
  if (mmci_matrices_have_addresses(r->actions->plan->chain->n, factors, out))
    status = mmci_resident_wait(r, error);
  if (status == MMC_OK)
    status =
        mmci_staging_bind(&r->staging, r->actions, factors, out, r->operands, &r->target, error);
  if (status == MMC_OK)
    status = mmci_actions_bind(r->actions, r->operands, r->workspace, &r->target, error);
  for (int32_t s = 0; s < r->actions->count && status == MMC_OK; s++)
    status = bind_cut(r, s, error);
  if (status == MMC_OK) share_operands(r);
  if (r->actions->replaced != replaced) mmci_graphs_drop(&r->graphs);
  if (status == MMC_OK) status = choose_copies(r, error);
  if (status == MMC_OK && has_tables(r)) status = send_tables(r, error);
  r->bound = status == MMC_OK;
  return status;
}

/* ---- enqueueing ------------------------------------------------------------------------------ */

/* Lets the work that `later` is given from here on wait for what `earlier` has been given so
 * far. */
static mmc_status order(mmci_resident *r, mmci_queue *earlier, mmci_queue *later,
                        mmci_error *error) {
  if (earlier == later) return MMC_OK;
  mmc_status status = r->async->event_record(earlier, r->copied, error);
  return status == MMC_OK ? r->async->event_wait(later, r->copied, error) : status;
}

/* Lists the operands that an action reads from outside. */
static const int32_t *reads_of(const mmci_resident *r, int32_t s, int32_t *count) {
  const mmci_plan *plan = r->actions->plan;
  return mmci_plan_reads(plan, &plan->steps[r->actions->actions[s].step], count);
}

static mmci_queue *queue_of(const mmci_resident *r, int32_t s) {
  return r->queues[r->schedule.queue[r->actions->actions[s].step]];
}

/* Uploads a step's factor unless that is done. */
static mmc_status upload(mmci_resident *r, int32_t number, mmci_error *error) {
  if (number >= r->actions->plan->chain->n) return MMC_OK;
  mmci_staged *x = &r->staging.factors[number];
  if (!x->on_host) return MMC_OK;
  mmci_staged *first = &r->staging.factors[x->same];
  if (first->uploaded) return MMC_OK;
  first->uploaded = true;
  return mmci_staging_upload_all(first, r->actions, r->uploads, error);
}

static bool is_on_host(const mmci_resident *r, int32_t number) {
  return number < r->actions->plan->chain->n && r->staging.factors[number].on_host;
}

/* Lets the action's queue wait until the operands of the action are there. */
static mmc_status await_operands(mmci_resident *r, int32_t s, mmci_error *error) {
  int32_t n = r->actions->plan->chain->n, count;
  const int32_t *reads = reads_of(r, s, &count);
  mmc_status status = MMC_OK;
  for (int32_t o = 0; o < count && status == MMC_OK; o++) {
    int32_t step = reads[o] - n;
    if (step >= 0 && r->step_done[step] != NULL)
      status = r->async->event_wait(queue_of(r, s), r->step_done[step], error);
  }
  return status;
}

/* Uploads the step's factors that are on the host, and lets the queue wait for them. */
static mmc_status upload_operands(mmci_resident *r, int32_t s, mmci_error *error) {
  int32_t count;
  const int32_t *reads = reads_of(r, s, &count);
  bool any = false;
  mmc_status status = MMC_OK;
  for (int32_t o = 0; o < count && status == MMC_OK; o++) {
    any = any || is_on_host(r, reads[o]);
    status = upload(r, reads[o], error);
  }
  return status == MMC_OK && any ? order(r, r->uploads, queue_of(r, s), error) : status;
}

/* Enqueues the calls of a product, those of all queues but the first beside the queue. */
static mmc_status enqueue_calls(mmci_resident *r, mmci_queue *queue, const mmci_action *x,
                                mmci_error *error) {
  if (x->group != NULL) return mmci_actions_enqueue_group(r->actions, x, queue, error);
  const void *a = x->a, *b = x->b;
  void *result = x->c;
  mmc_status status = mmci_padding_begin(&x->padding, r->ops, queue, &a, &b, &result, error);
  for (int l = 1; l < x->queues && status == MMC_OK; l++)
    status = order(r, queue, r->piece_queues[l - 1], error);
  for (int c = 0; c < x->call_count && status == MMC_OK; c++) {
    const mmci_call *call = &x->calls[c];
    mmci_queue *queue_of_call = call->queue == 0 ? queue : r->piece_queues[call->queue - 1];
    /* Batches are not padded. */
    status = x->padding.multiple == 0
                 ? mmci_call_enqueue(r->actions, queue_of_call, x, call, error)
                 : r->ops->enqueue(queue_of_call, call->kernel, (const char *)a + call->a,
                                   (const char *)b + call->b, (char *)result + call->c, error);
  }
  for (int l = 1; l < x->queues && status == MMC_OK; l++)
    status = order(r, r->piece_queues[l - 1], queue, error);
  return status == MMC_OK ? mmci_padding_end(&x->padding, r->ops, queue, x->c, error) : status;
}

static mmc_status multiply_whole(mmci_resident *r, int32_t s, const mmc_matrix *out,
                                 mmci_error *error) {
  const mmci_action *x = &r->actions->actions[s];
  mmci_queue *queue = queue_of(r, s);
  mmc_status status = upload_operands(r, s, error);
  if (status == MMC_OK) status = enqueue_calls(r, queue, x, error);
  if (status != MMC_OK || s != r->actions->count - 1 || !r->staging.result_on_host) return status;
  status = order(r, queue, r->downloads, error);
  if (status != MMC_OK) return status;
  return mmci_staging_download_all(&r->staging, r->actions, r->downloads, out, error);
}

/* Returns how many elements lie between the first of an operand and the one `along` rows, or
 * columns, further. */
static int64_t row_offset(const mmci_form *form, int64_t along) {
  return along * (form->trans ? 1 : form->ld);
}
static int64_t column_offset(const mmci_form *form, int64_t along) {
  return along * (form->trans ? form->ld : 1);
}

/* Multiplies rows or summands begin to end of a step: its uploads, product and download. */
static mmc_status multiply_piece(mmci_resident *r, int32_t s, const mmc_matrix *out, bool uploads,
                                 int64_t begin, int64_t end, mmci_error *error) {
  const mmci_action *x = &r->actions->actions[s];
  const mmci_gemm *g = &x->gemm;
  const cut *c = &r->cuts[s];
  bool along_k = c->axis == MMCI_AXIS_K;
  mmci_queue *queue = queue_of(r, s);
  int64_t size = (int64_t)mmc_dtype_size(g->dtype);
  mmc_status status = MMC_OK;
  if (uploads)
    status = mmci_staging_upload(&r->staging.factors[x->a_number], r->actions, r->uploads,
                                 g->a.trans != along_k, begin, end, error);
  if (uploads && along_k && status == MMC_OK)
    status = mmci_staging_upload(&r->staging.factors[x->b_number], r->actions, r->uploads,
                                 g->b.trans, begin, end, error);
  if (status == MMC_OK && (is_on_host(r, x->a_number) || is_on_host(r, x->b_number)))
    status = order(r, r->uploads, queue, error);
  if (status != MMC_OK) return status;

  const char *a = x->a, *b = x->b;
  char *result = x->c;
  if (along_k) {
    a += column_offset(&g->a, begin) * size;
    b += row_offset(&g->b, begin) * size;
  } else {
    a += row_offset(&g->a, begin) * size;
    result += begin * g->ldc * size;
  }
  piece which = end - begin < c->length ? REST : begin == 0 || !along_k ? FIRST : NEXT;
  status = r->ops->enqueue(queue, c->pieces[which].kernel, a, b, result, error);
  if (status != MMC_OK || along_k || s != r->actions->count - 1 || !r->staging.result_on_host)
    return status;
  status = order(r, queue, r->downloads, error);
  if (status != MMC_OK) return status;
  /* The product's rows are the result's lines, because a column-major result is computed
   * transposed. */
  return mmci_staging_download(&r->staging, r->actions, r->downloads, out, begin, end, error);
}

static mmc_status multiply_cut(mmci_resident *r, int32_t s, const mmc_matrix *out,
                               mmci_error *error) {
  const mmci_action *x = &r->actions->actions[s];
  const cut *c = &r->cuts[s];
  mmc_status status = c->axis == MMCI_AXIS_M ? upload(r, x->b_number, error) : MMC_OK;
  bool uploads = false;
  if (is_on_host(r, x->a_number)) {
    mmci_staged *first = &r->staging.factors[r->staging.factors[x->a_number].same];
    uploads = !first->uploaded;
    first->uploaded = true;
  }
  int64_t size = mmci_gemm_size(&x->gemm, c->axis);
  for (int64_t begin = 0; begin < size && status == MMC_OK; begin += c->length) {
    int64_t end = begin + c->length < size ? begin + c->length : size;
    status = multiply_piece(r, s, out, uploads, begin, end, error);
  }
  return status;
}

static mmc_status copy_each(mmci_resident *r, mmci_error *error) {
  const mmc_chain *chain = r->actions->plan->chain;
  const mmci_operand *from = &r->operands[0];
  const mmci_target *to = &r->target;
  int64_t size = (int64_t)mmc_dtype_size(chain->dtype);
  mmc_status status = MMC_OK;
  for (int64_t i = 0; i < r->actions->batch && status == MMC_OK; i++)
    status = r->async->copy(
        r->queues[0], chain->dtype, chain->dims[0], chain->dims[1],
        from->addresses != NULL ? from->addresses[i]
                                : (const char *)from->data + i * from->form.stride * size,
        &from->form,
        to->addresses != NULL ? to->addresses[i] : (char *)to->data + i * to->stride * size, to->ld,
        to->by_columns, error);
  return status;
}

/* Enqueues a chain of one factor. */
static mmc_status enqueue_copy(mmci_resident *r, const mmc_matrix *out, mmci_error *error) {
  const mmc_chain *chain = r->actions->plan->chain;
  mmc_status status = upload(r, 0, error);
  if (status == MMC_OK && is_on_host(r, 0)) status = order(r, r->uploads, r->queues[0], error);
  if (status == MMC_OK && chain->dims[0] > 0 && chain->dims[1] > 0) status = copy_each(r, error);
  if (status != MMC_OK || !r->staging.result_on_host) return status;
  status = order(r, r->queues[0], r->downloads, error);
  if (status != MMC_OK) return status;
  return mmci_staging_download_all(&r->staging, r->actions, r->downloads, out, error);
}

static mmc_status enqueue_all(mmci_resident *r, const mmc_matrix *out, mmci_error *error) {
  const mmci_actions *actions = r->actions;
  for (int32_t i = 0; i < actions->plan->chain->n; i++) r->staging.factors[i].uploaded = false;
  if (actions->count == 0) return enqueue_copy(r, out, error);
  mmc_status status = MMC_OK;
  if (r->schedule.queues > 1) status = r->async->event_record(r->queues[0], r->start, error);
  for (int q = 1; q < r->schedule.queues && status == MMC_OK; q++)
    status = r->async->event_wait(r->queues[q], r->start, error);
  for (int32_t s = 0; s < actions->count && status == MMC_OK; s++) {
    status = await_operands(r, s, error);
    if (status == MMC_OK)
      status = (r->cuts[s].axis != MMCI_PIECE ? multiply_cut : multiply_whole)(r, s, out, error);
    if (status == MMC_E_OVERFLOW) mmci_actions_name_overflow(actions, &actions->actions[s], error);
    mmci_event *step_done = r->step_done[actions->actions[s].step];
    if (status == MMC_OK && step_done != NULL)
      status = r->async->event_record(queue_of(r, s), step_done, error);
  }
  return status;
}

/* ---- execution ------------------------------------------------------------------------------- */

/* Waits for everything, whatever failed. */
static void wait_for_all(mmci_resident *r) {
  mmci_error ignored;
  for (int q = 0; q < r->schedule.queues; q++) (void)r->ops->sync(r->queues[q], &ignored);
  for (int l = 0; l < r->piece_queue_count; l++) (void)r->ops->sync(r->piece_queues[l], &ignored);
  for (int c = 0; c < 2; c++)
    if (r->copies[c] != NULL) (void)r->ops->sync(r->copies[c], &ignored);
}

static mmc_status await_all(mmci_resident *r, mmci_error *error) {
  mmc_status status = r->ops->sync(r->queues[0], error);
  const bool uploads = r->staging.factors_on_host > 0, downloads = r->staging.result_on_host;
  if (status == MMC_OK && uploads && r->uploads != r->queues[0])
    status = r->ops->sync(r->uploads, error);
  if (status == MMC_OK && downloads && r->downloads != r->queues[0])
    status = r->ops->sync(r->downloads, error);
  return status;
}

/* Captures what the first execution enqueued; during that, the queues stand for their own
 * streams. */
static mmc_status capture_chain(mmci_resident *r, mmci_captured *entry, const mmc_matrix *out,
                                mmci_error *error) {
  mmc_status status = r->async->capture_begin(r->queues[0], error);
  if (status != MMC_OK) return status;
  mmc_status enqueued = enqueue_all(r, out, error);
  mmci_error second;
  status = r->async->capture_end(r->queues[0], &entry->graph, enqueued == MMC_OK ? error : &second);
  if (enqueued == MMC_OK) return status;
  if (status == MMC_OK) {
    r->async->graph_destroy(entry->graph);
    entry->graph = NULL;
  }
  return enqueued;
}

/* How an execution is to be done. */
typedef struct manner {
  bool on_stream; /* work goes on the caller's stream */
  void *stream;
  bool capturing; /* the caller captures that stream */
  bool waits;     /* the host waits for the end */
} manner;

/* Matrices on the host are read and written from here, so all that the stream was given before must
 * be done. */
mmc_status mmci_resident_await_stream(mmci_resident *resident, void *stream, mmci_error *error) {
  const mmci_device_async *async = resident->async;
  if (async->is_capturing(resident->device, stream))
    return mmci_fail(error, MMC_E_ARG,
                     "stream: a stream that is being captured cannot take matrices on the host");
  async->queue_attach(resident->queues[0], stream);
  mmc_status status = resident->ops->sync(resident->queues[0], error);
  async->queue_detach(resident->queues[0]);
  return status;
}

static bool is_bound_to(const mmci_resident *r, const mmc_matrix *factors, const mmc_matrix *out) {
  if (!r->bound || factors == NULL || out == NULL || !mmci_matrix_same(&r->staging.result, out))
    return false;
  for (int32_t i = 0; i < r->actions->plan->chain->n; i++)
    if (!mmci_matrix_same(&r->staging.factors[i].matrix, &factors[i])) return false;
  return true;
}

/* Points everything at the matrices, unless a graph serves. */
static mmc_status prepare_for(mmci_resident *r, manner *how, const mmc_matrix *factors,
                              const mmc_matrix *out, mmci_error *error) {
  const mmc_chain *chain = r->actions->plan->chain;
  bool bound = is_bound_to(r, factors, out);
  mmc_status status = bound ? MMC_OK : mmci_matrices_check(chain, factors, out, error);
  if (status != MMC_OK) return status;
  bool on_host = mmci_matrices_on_host(chain->n, factors, out);
  if (how->capturing && mmci_matrices_have_addresses(chain->n, factors, out))
    return mmci_fail(error, MMC_E_ARG,
                     "stream: a stream that is being captured cannot take matrices at addresses");
  if (on_host && how->on_stream) status = mmci_resident_await_stream(r, how->stream, error);
  how->waits = how->waits || on_host;
  return status == MMC_OK && !bound ? bind_matrices(r, factors, out, error) : status;
}

/* Records the end of what was left to a stream, unless that is done. */
static mmc_status record_end(mmci_resident *r, mmci_error *error) {
  if (r->recorded) return MMC_OK;
  r->async->queue_attach(r->queues[0], r->stream);
  mmc_status status = r->async->event_record(r->queues[0], r->done, error);
  r->async->queue_detach(r->queues[0]);
  r->recorded = status == MMC_OK;
  return status;
}

/* Enqueues the chain, from the second time on as a graph. */
static mmc_status start_chain(mmci_resident *r, manner *how, const mmc_matrix *factors,
                              const mmc_matrix *out, mmci_error *error) {
  mmci_captured *entry = NULL;
  if (factors != NULL && out != NULL && !how->capturing)
    entry = mmci_graphs_find(&r->graphs, factors, out);
  mmc_status status = MMC_OK;
  if (entry == NULL || entry->graph == NULL) status = prepare_for(r, how, factors, out, error);
  if (status == MMC_OK && entry != NULL && entry->graph == NULL)
    status = capture_chain(r, entry, out, error);
  if (status != MMC_OK) return status;

  bool follows = how->on_stream && how->stream == r->stream;
  if (r->pending && !how->capturing && !follows) status = record_end(r, error);
  if (status != MMC_OK) return status;
  if (how->on_stream) r->async->queue_attach(r->queues[0], how->stream);
  if (r->pending && !how->capturing && !follows && status == MMC_OK)
    status = r->async->event_wait(r->queues[0], r->done, error);
  if (status != MMC_OK) return status;
  if (entry != NULL) return r->async->graph_launch(r->queues[0], entry->graph, error);
  status = enqueue_all(r, out, error);
  bool repeatable = r->actions->count > 0 && r->staging.factors_on_host == 0 &&
                    !r->staging.result_on_host && !how->capturing &&
                    !r->actions->plan->chain->rule.checked &&
                    !mmci_matrices_have_addresses(r->actions->plan->chain->n, factors, out);
  if (status == MMC_OK && repeatable) status = mmci_graphs_add(&r->graphs, factors, out, error);
  return status;
}

/* Leaves the work to the stream, or waits for it. The default stream is there as long as the
 * device, so its end is recorded only when somebody waits for it: that takes a tenth of a short
 * call. Another stream may be gone by then. */
static mmc_status finish_chain(mmci_resident *r, const manner *how, mmci_error *error) {
  if (how->waits) {
    r->pending = false;
    return await_all(r, error);
  }
  if (how->capturing) return MMC_OK;
  r->pending = true;
  r->stream = how->stream;
  r->recorded = how->stream != NULL;
  return r->recorded ? r->async->event_record(r->queues[0], r->done, error) : MMC_OK;
}

static mmc_status execute_chain(mmci_resident *r, manner *how, const mmc_matrix *factors,
                                const mmc_matrix *out, mmci_error *error) {
  mmc_status status = start_chain(r, how, factors, out, error);
  if (status == MMC_OK) status = finish_chain(r, how, error);
  if (status != MMC_OK && status != MMC_E_ARG) {
    /* What was captured is not under way, and the capture belongs to the caller. */
    if (!how->capturing) wait_for_all(r);
    mmci_graphs_clear(&r->graphs);
  }
  if (how->on_stream) r->async->queue_detach(r->queues[0]);
  return status;
}

mmc_status mmci_resident_execute(mmci_resident *resident, const mmc_matrix *factors,
                                 const mmc_matrix *out, mmci_error *error) {
  manner how = {.waits = true};
  return execute_chain(resident, &how, factors, out, error);
}

mmc_status mmci_resident_enqueue(mmci_resident *resident, void *stream, const mmc_matrix *factors,
                                 const mmc_matrix *out, mmci_error *error) {
  manner how = {.on_stream = true,
                .stream = stream,
                .capturing = resident->async->is_capturing(resident->device, stream)};
  return execute_chain(resident, &how, factors, out, error);
}

mmc_status mmci_resident_wait(mmci_resident *resident, mmci_error *error) {
  if (!resident->pending) return MMC_OK;
  mmc_status status = record_end(resident, error);
  if (status == MMC_OK)
    status = resident->async->event_wait(resident->queues[0], resident->done, error);
  if (status == MMC_OK) status = resident->ops->sync(resident->queues[0], error);
  if (status == MMC_OK) resident->pending = false;
  return status;
}
