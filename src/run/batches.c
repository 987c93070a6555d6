/* batches.c: multiplies a batch in chunks of chains, in turns: while one chunk is multiplied, the
 * factors of the next are uploaded and the results of the last downloaded. What all chains share is
 * uploaded once. */
#include "run/batches.h"

#include "base/alloc.h"
#include "run/matrices.h"
#include "run/stacks.h"

/* Room on the device for what a chunk uploads and downloads. */
typedef struct half {
  char *room;
  mmci_event *filled, *multiplied, *fetched;
  bool in_use; /* the events multiplied, and fetched where results go to the host, were recorded */
} half;

/* Where a factor is on the device. */
typedef struct place {
  enum { AS_IT_LIES, SHARED, STACK, TABLE } kind;
  uint64_t offset_bytes; /* bytes from the beginning of the shared room, or of a half */
  int32_t same;          /* the first factor that is the same matrix */
} place;

struct mmci_batches {
  mmci_actions *whole, *rest;
  const mmci_device_ops *ops;
  const mmci_device_async *async;
  mmci_queue *compute, *uploads, *downloads;
  char *workspace, *room; /* the room holds what is shared, then the halves */
  uint64_t room_bytes;
  half halves[2];
  char *shared;
  place *places; /* n */
  uint64_t result_offset_bytes;
  mmci_operand *operands; /* n */
};

/* ---- creation -------------------------------------------------------------------------------- */

static mmc_status open_all(mmci_batches *x, mmci_error *error) {
  mmci_device *device = x->whole->device;
  mmci_queue **queues[] = {&x->compute, &x->uploads, &x->downloads};
  mmc_status status = MMC_OK;
  for (int q = 0; q < 3 && status == MMC_OK; q++)
    status = x->ops->queue_open(device, queues[q], error);
  for (int h = 0; h < 2; h++) {
    mmci_event **events[] = {&x->halves[h].filled, &x->halves[h].multiplied, &x->halves[h].fetched};
    for (int e = 0; e < 3 && status == MMC_OK; e++)
      status = x->async->event_create(device, events[e], error);
  }
  uint64_t bytes = x->whole->plan->workspace_bytes;
  if (status != MMC_OK || bytes == 0) return status;
  void *workspace;
  status = x->ops->alloc(device, (size_t)bytes, &workspace, error);
  if (status == MMC_OK) x->workspace = workspace;
  return status;
}

mmc_status mmci_batches_create(mmci_actions *whole, mmci_actions *rest, mmci_batches **out,
                               mmci_error *error) {
  mmci_batches *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  size_t n = (size_t)whole->plan->chain->n;
  *x = (mmci_batches){.whole = whole,
                      .rest = rest,
                      .ops = whole->ops,
                      .async = whole->ops->async,
                      .places = mmci_alloc_zeroed(n, sizeof *x->places),
                      .operands = mmci_alloc_zeroed(n, sizeof *x->operands)};
  mmc_status status = MMC_OK;
  if (x->places == NULL || x->operands == NULL)
    status = mmci_fail_nomem(error, n * (sizeof *x->places + sizeof *x->operands));
  if (status == MMC_OK) status = open_all(x, error);
  if (status == MMC_OK) status = mmci_actions_expect(whole, x->operands, x->workspace, error);
  if (status == MMC_OK && rest != NULL)
    status = mmci_actions_expect(rest, x->operands, x->workspace, error);
  if (status != MMC_OK) {
    mmci_batches_destroy(x);
    return status;
  }
  *out = x;
  return MMC_OK;
}

void mmci_batches_destroy(mmci_batches *x) {
  if (x == NULL) return;
  mmci_queue *queues[] = {x->uploads, x->compute, x->downloads};
  for (int q = 0; q < 3; q++)
    if (queues[q] != NULL) x->ops->queue_close(queues[q]);
  for (int h = 0; h < 2; h++) {
    mmci_event *events[] = {x->halves[h].filled, x->halves[h].multiplied, x->halves[h].fetched};
    for (int e = 0; e < 3; e++)
      if (events[e] != NULL) x->async->event_destroy(events[e]);
  }
  if (x->workspace != NULL) x->ops->dealloc(x->whole->device, x->workspace);
  if (x->room != NULL) x->ops->dealloc(x->whole->device, x->room);
  free(x->places);
  free(x->operands);
  free(x);
}

/* ---- places ---------------------------------------------------------------------------------- */

static size_t element_bytes(const mmci_batches *x) {
  return mmc_dtype_size(x->whole->plan->chain->dtype);
}

/* Takes the next bytes for count matrices. */
static uint64_t take_matrices(uint64_t *bytes, int64_t rows, int64_t cols, int64_t count,
                              size_t size) {
  uint64_t offset = *bytes;
  *bytes = mmci_bytes_add(offset, mmci_result_bytes(rows, cols, (size_t)count * size));
  return offset;
}

/* Gives everything that is on the host, and tables, a place, and counts the bytes that these
 * take. */
static void arrange_halves(mmci_batches *x, const mmc_matrix *factors, const mmc_matrix *out,
                           uint64_t *shared_bytes, uint64_t *half_bytes) {
  size_t size = element_bytes(x);
  int64_t chunk = x->whole->batch;
  *shared_bytes = *half_bytes = 0;
  for (int32_t i = 0; i < x->whole->plan->chain->n; i++) {
    const mmc_matrix *m = &factors[i];
    place *p = &x->places[i];
    bool shared = m->addresses == NULL && m->stride == 0, on_host = m->location == MMC_HOST;
    *p = (place){.kind = on_host ? (shared ? SHARED : STACK) : AS_IT_LIES, .same = i};
    if (!on_host && m->addresses != NULL) p->kind = TABLE;
    if (p->kind == SHARED || p->kind == STACK)
      p->same = mmci_factor_first_same(x->whole->plan->chain, factors, i);
    if (p->same != i)
      p->offset_bytes = x->places[p->same].offset_bytes;
    else if (p->kind == SHARED)
      p->offset_bytes = take_matrices(shared_bytes, m->rows, m->cols, 1, size);
    else if (p->kind == STACK)
      p->offset_bytes = take_matrices(half_bytes, m->rows, m->cols, chunk, size);
    else if (p->kind == TABLE)
      p->offset_bytes = take_matrices(half_bytes, 1, 1, chunk, sizeof(void *));
  }
  x->result_offset_bytes = *half_bytes;
  if (out->location == MMC_HOST) (void)take_matrices(half_bytes, out->rows, out->cols, chunk, size);
}

static mmc_status take_room(mmci_batches *x, uint64_t shared_bytes, uint64_t half_bytes,
                            mmci_error *error) {
  uint64_t bytes = mmci_bytes_add(shared_bytes, mmci_bytes_add(half_bytes, half_bytes));
  if (bytes > x->room_bytes) {
    if (x->room != NULL) x->ops->dealloc(x->whole->device, x->room);
    x->room = NULL;
    x->room_bytes = 0;
    void *room;
    mmc_status status = x->ops->alloc(x->whole->device, (size_t)bytes, &room, error);
    if (status != MMC_OK) return status;
    x->room = room;
    x->room_bytes = bytes;
  }
  x->shared = x->room;
  for (int h = 0; h < 2; h++) {
    x->halves[h].room = bytes > 0 ? x->room + shared_bytes + (uint64_t)h * half_bytes : NULL;
    x->halves[h].in_use = false;
  }
  return MMC_OK;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static mmc_status upload_shared(mmci_batches *x, const mmc_matrix *factors, mmci_error *error) {
  const mmc_chain *chain = x->whole->plan->chain;
  mmc_status status = MMC_OK;
  for (int32_t i = 0; i < chain->n && status == MMC_OK; i++)
    if (x->places[i].kind == SHARED && x->places[i].same == i)
      status = mmci_stack_upload(x->ops, x->uploads, chain->dtype, &factors[i], 0, 1,
                                 x->shared + x->places[i].offset_bytes, error);
  return status;
}

static mmc_status upload_table(mmci_batches *x, const mmc_matrix *factor, int64_t begin,
                               int64_t end, char *to, mmci_error *error) {
  int64_t bytes = (end - begin) * (int64_t)sizeof(void *);
  mmci_transfer t = {.to = to,
                     .from = factor->addresses + begin,
                     .to_pitch = bytes,
                     .from_pitch = bytes,
                     .lines = 1,
                     .line_bytes = bytes};
  return x->async->upload(x->uploads, &t, error);
}

/* Uploads what chains begin to end need, once the half is no longer read. */
static mmc_status fill_half(mmci_batches *x, half *h, const mmc_matrix *factors, int64_t begin,
                            int64_t end, mmci_error *error) {
  const mmc_chain *chain = x->whole->plan->chain;
  mmc_status status = MMC_OK;
  if (h->in_use) status = x->async->event_wait(x->uploads, h->multiplied, error);
  for (int32_t i = 0; i < chain->n && status == MMC_OK; i++) {
    const place *p = &x->places[i];
    if (p->same != i) continue;
    if (p->kind == STACK)
      status = mmci_stack_upload(x->ops, x->uploads, chain->dtype, &factors[i], begin, end,
                                 h->room + p->offset_bytes, error);
    else if (p->kind == TABLE)
      status = upload_table(x, &factors[i], begin, end, h->room + p->offset_bytes, error);
  }
  if (status == MMC_OK) status = x->async->event_record(x->uploads, h->filled, error);
  return status == MMC_OK ? x->async->event_wait(x->compute, h->filled, error) : status;
}

static mmci_operand operand_in(const mmci_batches *x, const half *h, const mmc_matrix *factors,
                               int32_t i, int64_t begin) {
  const mmc_chain *chain = x->whole->plan->chain;
  const place *p = &x->places[i];
  const mmc_matrix *m = &factors[i];
  mmci_operand operand = mmci_operand_of(chain, i, m, begin);
  if (p->kind == AS_IT_LIES) return operand;
  operand.data = (p->kind == SHARED ? x->shared : h->room) + p->offset_bytes;
  if (p->kind == TABLE) return operand;
  int64_t length = mmci_matrix_line_length(m);
  operand.addresses = NULL;
  operand.form = mmci_factor_form(chain, i, m, length > 0 ? length : 1,
                                  p->kind == STACK ? mmci_stack_stride(m) : 0);
  return operand;
}

static mmci_target target_in(const mmci_batches *x, const half *h, const mmc_matrix *out,
                             int64_t begin) {
  mmci_target target = mmci_target_of(x->whole->plan->chain, out, begin);
  if (out->location != MMC_HOST) return target;
  int64_t length = mmci_matrix_line_length(out);
  return (mmci_target){.data = h->room + x->result_offset_bytes,
                       .ld = length > 0 ? length : 1,
                       .by_columns = target.by_columns,
                       .stride = mmci_stack_stride(out)};
}

/* Downloads the results of chains begin to end to the host. */
static mmc_status fetch_results(mmci_batches *x, half *h, const mmc_matrix *out, int64_t begin,
                                int64_t end, mmci_error *error) {
  mmc_status status = x->async->event_wait(x->downloads, h->multiplied, error);
  if (status == MMC_OK)
    status = mmci_stack_download(x->ops, x->downloads, x->whole->plan->chain->dtype, out, begin,
                                 end, h->room + x->result_offset_bytes, error);
  return status == MMC_OK ? x->async->event_record(x->downloads, h->fetched, error) : status;
}

static mmc_status multiply_chunk(mmci_batches *x, half *h, const mmc_matrix *factors,
                                 const mmc_matrix *out, int64_t begin, int64_t end,
                                 mmci_error *error) {
  mmci_actions *actions = end - begin == x->whole->batch ? x->whole : x->rest;
  bool goes = out->location == MMC_HOST;
  mmc_status status = fill_half(x, h, factors, begin, end, error);
  if (status == MMC_OK && h->in_use && goes)
    status = x->async->event_wait(x->compute, h->fetched, error);
  for (int32_t i = 0; i < actions->plan->chain->n; i++)
    x->operands[i] = operand_in(x, h, factors, i, begin);
  mmci_target target = target_in(x, h, out, begin);
  if (status == MMC_OK)
    status = mmci_actions_bind(actions, x->operands, x->workspace, &target, error);
  if (status == MMC_OK) status = mmci_actions_enqueue(actions, x->compute, error);
  if (status == MMC_OK) status = x->async->event_record(x->compute, h->multiplied, error);
  if (status == MMC_OK && goes) status = fetch_results(x, h, out, begin, end, error);
  h->in_use = true;
  return status;
}

/* ---- execution ------------------------------------------------------------------------------- */

static mmc_status multiply_part(mmci_batches *x, const mmc_matrix *factors, const mmc_matrix *out,
                                mmci_error *error) {
  int64_t batch = x->whole->plan->chain->batch, chunk = x->whole->batch;
  mmc_status status = upload_shared(x, factors, error);
  int turn = 0;
  for (int64_t begin = 0; begin < batch && status == MMC_OK; turn = 1 - turn) {
    int64_t end = batch - begin < chunk ? batch : begin + chunk;
    status = multiply_chunk(x, &x->halves[turn], factors, out, begin, end, error);
    begin = end;
  }
  mmci_queue *queues[] = {x->uploads, x->compute, x->downloads};
  for (int q = 0; q < 3 && status == MMC_OK; q++) status = x->ops->sync(queues[q], error);
  mmci_error ignored; /* nothing is left under way, whatever failed */
  for (int q = 0; q < 3 && status != MMC_OK; q++) (void)x->ops->sync(queues[q], &ignored);
  return status;
}

mmc_status mmci_batches_execute(mmci_batches *x, const mmc_matrix *factors, const mmc_matrix *out,
                                mmci_error *error) {
  mmc_status status = mmci_matrices_check(x->whole->plan->chain, factors, out, error);
  if (status != MMC_OK) return status;
  uint64_t shared_bytes, half_bytes;
  arrange_halves(x, factors, out, &shared_bytes, &half_bytes);
  status = take_room(x, shared_bytes, half_bytes, error);
  return status == MMC_OK ? multiply_part(x, factors, out, error) : status;
}

mmc_status mmci_batches_enqueue(mmci_batches *x, void *stream, const mmc_matrix *factors,
                                const mmc_matrix *out, mmci_error *error) {
  if (x->async->is_capturing(x->whole->device, stream))
    return mmci_fail(error, MMC_E_ARG,
                     "stream: a stream that is being captured cannot take a batch of which some "
                     "chains are multiplied at a time");
  x->async->queue_attach(x->compute, stream);
  mmc_status status = x->ops->sync(x->compute, error);
  x->async->queue_detach(x->compute);
  return status == MMC_OK ? mmci_batches_execute(x, factors, out, error) : status;
}
