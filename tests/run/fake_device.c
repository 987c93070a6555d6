#include "fake_device.h"
#include "base/address.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../facts.h"
#include "../random.h"
#include "fake_work.h"
#include "plain_chain.h"

enum { STREAMS_MAX = 128 };

typedef struct fake_stream {
  bool is_free;      /* its queue was closed */
  uint64_t last;     /* node that the next one comes after */
  bool capturing;    /* part of the device's capture */
  uint64_t recorded; /* last, in the capture */
} fake_stream;

typedef struct fake_capture {
  uint64_t number; /* counted from 1; of the last one when none is active */
  bool active, spoilt;
  const fake_stream *origin;
  fake_list list;
} fake_capture;

struct mmci_device {
  mmci_device_ops ops;
  mmci_device_async async;
  mmci_device *first; /* the card that has the memory and the work of all that are joined */
  fake_work own_work, *work;
  fake_memory own_memory, *memory;
  int others_open; /* of the first: further cards */
  uint64_t limit_bytes;
  int batches;
  fake_stream streams[STREAMS_MAX]; /* [0] is the default stream */
  int stream_count;
  fake_capture capture;
  fake_counts counts;
  int64_t kernels_alive, queues_alive, events_alive, graphs_alive, pinned_alive;
  int64_t refusals;   /* of chains, to come */
  int64_t calls_left; /* until one fails; 0: none does */
  bool fails_for_good, fails_late, has_failed;
  bool joined, reads_others; /* what is put now may read the memory of another card */
};

struct mmci_queue {
  mmci_device *device;
  fake_stream *own, *stream;
};

struct mmci_kernel {
  mmci_device *device;
  mmci_gemm gemm;
  void *scratch; /* NULL: none */
};

struct mmci_group_kernel {
  mmci_device *device;
  mmci_group *chain;
};

struct mmci_structured_kernel {
  mmci_device *device;
  mmci_structured product;
};

struct mmci_event {
  mmci_device *device;
  bool is_recorded;
  uint64_t node, capture; /* of the latest record; capture 0: none */
};

struct mmci_graph {
  mmci_device *device;
  fake_list list;
  uint64_t last_launch;
};

/* ---- failures -------------------------------------------------------------------------------- */

void fake_fail_at(mmci_device *device, int64_t call, bool for_good, bool late) {
  device->calls_left = call;
  device->fails_for_good = for_good;
  device->fails_late = late;
  device->has_failed = false;
}

void fake_refuse_chains(mmci_device *device, int64_t count) {
  device->refusals = count;
}

bool fake_has_failed(const mmci_device *device) {
  return device->has_failed;
}

/* Counts a call; whether it is one that is to fail. */
static bool is_to_fail(mmci_device *device) {
  device->counts.calls++;
  if (device->has_failed && device->fails_for_good) return true;
  if (device->calls_left == 0 || --device->calls_left > 0) return false;
  device->has_failed = true;
  return true;
}

static mmc_status fail(mmci_error *error, mmc_status status, const char *slot) {
  return mmci_fail(error, status, "%s: failed as it was told to", slot);
}

/* What is given is done, unless the call fails at once; then says so, or that it failed late. */
#define FAILING(device, slot, error, work)                                        \
  do {                                                                            \
    bool to_fail = is_to_fail(device);                                            \
    if (to_fail && !(device)->fails_late) return fail(error, MMC_E_DEVICE, slot); \
    mmc_status done = (work);                                                     \
    return to_fail && done == MMC_OK ? fail(error, MMC_E_DEVICE, slot) : done;    \
  } while (0)

/* ---- captures -------------------------------------------------------------------------------- */

/* What a capture does not allow: cudaErrorStreamCaptureUnsupported and its like. */
static mmc_status spoil(mmci_device *device, const char *what, mmci_error *error) {
  device->capture.spoilt = true;
  fake_blame(device->work, "%s in a capture", what);
  return mmci_fail(error, MMC_E_DEVICE, "%s in a capture", what);
}

static uint64_t put(mmci_device *device, fake_stream *stream, const fake_node *node,
                    uint64_t and_after) {
  uint64_t *last = stream->capturing ? &stream->recorded : &stream->last;
  *last = stream->capturing ? fake_list_add(&device->capture.list, node, *last, and_after)
                            : fake_work_put(device->work, node, *last, and_after);
  return *last;
}

static mmc_status begin_capture(mmci_device *device, fake_stream *stream, mmci_error *error) {
  if (device->capture.active) return spoil(device, "capture_begin", error);
  if (stream == &device->streams[0]) return spoil(device, "the default stream", error);
  device->capture =
      (fake_capture){.number = device->capture.number + 1, .active = true, .origin = stream};
  stream->capturing = true;
  stream->recorded = 0;
  return MMC_OK;
}

/* Every node must lead to the last one of the stream that began. */
static bool is_joined(fake_capture *capture) {
  fake_list *list = &capture->list;
  fake_list_mark(list, capture->origin->recorded, 1);
  for (size_t i = 0; i < list->count; i++)
    if (list->nodes[i].kind != FAKE_NOTHING && list->nodes[i].mark != 1) return false;
  return true;
}

static mmc_status end_capture(mmci_device *device, const fake_stream *stream, mmci_graph **out,
                              mmci_error *error) {
  fake_capture *capture = &device->capture;
  if (!capture->active || stream != capture->origin) {
    fake_blame(device->work, "capture_end on a stream that did not begin it");
    return mmci_fail(error, MMC_E_DEVICE, "capture_end: not begun here");
  }
  if (!capture->spoilt && !is_joined(capture)) {
    capture->spoilt = true;
    /* A capture that broke off because a call failed is nobody's fault. */
    if (!device->has_failed) fake_blame(device->work, "a capture with work that is not joined");
  }
  for (int s = 0; s < STREAMS_MAX; s++) device->streams[s].capturing = false;
  fake_list list = capture->list;
  bool spoilt = capture->spoilt;
  *capture = (fake_capture){.number = capture->number};
  if (spoilt) {
    fake_list_clear(&list);
    return mmci_fail(error, MMC_E_DEVICE, "capture_end: the capture was spoilt");
  }
  mmci_graph *graph = malloc(sizeof *graph);
  if (graph == NULL) abort();
  *graph = (mmci_graph){.device = device, .list = list};
  device->graphs_alive++;
  *out = graph;
  return MMC_OK;
}

/* Launches of one graph follow each other. */
static void launch(fake_stream *stream, mmci_graph *graph) {
  mmci_device *device = graph->device;
  graph->last_launch =
      fake_work_put_all(device->work, &graph->list, stream->last, graph->last_launch);
  stream->last = graph->last_launch;
}

static void destroy_graph(mmci_graph *graph) {
  graph->device->graphs_alive--;
  fake_list_clear(&graph->list);
  free(graph);
}

/* ---- spans ----------------------------------------------------------------------------------- */

/* A matrix of lines lines, length elements each. */
static fake_span span_of(const void *data, int64_t lines, int64_t length, int64_t ld, size_t size) {
  bool empty = lines == 0 || length == 0;
  return (fake_span){.start = (char *)data,
                     .pitch = ld * (int64_t)size,
                     .lines = empty ? 0 : lines,
                     .line_bytes = empty ? 0 : length * (int64_t)size};
}

static fake_span span_of_form(const void *data, int64_t rows, int64_t cols, const mmci_form *form,
                              size_t size) {
  return form->trans ? span_of(data, cols, rows, form->ld, size)
                     : span_of(data, rows, cols, form->ld, size);
}

static size_t alignment_of(mmc_dtype dtype) {
  size_t size = mmc_dtype_size(dtype);
  return dtype == MMC_C64 || dtype == MMC_C128 ? size / 2 : size;
}

/* An access as the contract allows it, or a fault. */
static fake_access access_to(mmci_device *device, fake_span span, bool writes, bool on_host,
                             size_t alignment, const char *what) {
  fake_access x = {.span = span, .writes = writes, .on_host = on_host};
  if (fake_span_is_empty(&span)) return x;
  if (span.pitch < span.line_bytes && span.lines > 1)
    fake_blame(device->work, "%s: lines overlap", what);
  if ((uintptr_t)span.start % alignment != 0) fake_blame(device->work, "%s is not aligned", what);
  bool owned = fake_memory_owns(device->memory, span.start);
  if (on_host && owned) fake_blame(device->work, "%s: expected memory of the host", what);
  if (!on_host && !owned) fake_blame(device->work, "%s: expected memory of the device", what);
  if (!on_host && owned && fake_memory_bytes(device->memory, &span) == NULL)
    fake_blame(device->work, "%s lies outside any block, or was freed", what);
  const fake_block *block = !on_host && owned ? fake_memory_find(device->memory, &span) : NULL;
  if (block != NULL && block->owner != device && !device->reads_others)
    fake_blame(device->work, "%s is memory of another device", what);
  return x;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static mmc_status device_memory(mmci_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                                mmci_error *error) {
  if (is_to_fail(device)) return fail(error, MMC_E_DEVICE, "memory");
  *total_bytes = device->limit_bytes;
  *free_bytes = device->limit_bytes - device->memory->live_bytes;
  return MMC_OK;
}

static mmc_status device_alloc(mmci_device *device, size_t size_bytes, void **out,
                               mmci_error *error) {
  if (device->capture.active) return spoil(device, "alloc", error);
  if (is_to_fail(device)) return fail(error, MMC_E_NOMEM, "alloc");
  if (size_bytes > device->limit_bytes - device->memory->live_bytes)
    return mmci_fail_nomem(error, size_bytes);
  device->counts.allocs++;
  *out = fake_memory_take(device->memory, size_bytes, false, device);
  return MMC_OK;
}

static bool is_in_use(const mmci_device *device, const fake_span *span) {
  const fake_list *list = &device->work->list;
  for (size_t i = 0; i < list->count; i++)
    for (int a = 0; a < list->nodes[i].access_count; a++)
      if (fake_spans_meet(span, &list->nodes[i].accesses[a].span)) return true;
  return false;
}

static void drop(mmci_device *device, void *memory, bool of_test) {
  fake_span start = {.start = memory};
  fake_block *block = fake_memory_find(device->memory, &start);
  if (block == NULL || block->start != start.start || block->bytes == NULL ||
      block->of_test != of_test) {
    fake_blame(device->work, "dealloc of what was not allocated");
    return;
  }
  fake_span whole = {.start = block->start, .lines = 1, .line_bytes = (int64_t)block->size};
  if (is_in_use(device, &whole)) fake_blame(device->work, "dealloc of memory that is in use");
  fake_memory_drop(device->memory, block);
}

static void device_dealloc(mmci_device *device, void *memory) {
  if (memory == NULL) return;
  if (device->capture.active) (void)spoil(device, "dealloc", NULL);
  drop(device, memory, false);
}

static mmc_status alloc_pinned(mmci_device *device, size_t size_bytes, void **out,
                               mmci_error *error) {
  if (is_to_fail(device)) return fail(error, MMC_E_NOMEM, "alloc_pinned");
  void *memory = malloc(size_bytes > 0 ? size_bytes : 1);
  if (memory == NULL) abort();
  device->pinned_alive++;
  *out = memory;
  return MMC_OK;
}

static void dealloc_pinned(mmci_device *device, void *memory) {
  if (memory != NULL) device->pinned_alive--;
  free(memory);
}

/* ---- queues ---------------------------------------------------------------------------------- */

static fake_stream *take_stream(mmci_device *device) {
  for (int s = 1; s < device->stream_count; s++)
    if (device->streams[s].is_free) {
      device->streams[s] = (fake_stream){.is_free = false};
      return &device->streams[s];
    }
  if (device->stream_count == STREAMS_MAX) abort();
  return &device->streams[device->stream_count++];
}

static mmc_status queue_open(mmci_device *device, mmci_queue **out, mmci_error *error) {
  if (device->capture.active) return spoil(device, "queue_open", error);
  if (is_to_fail(device)) return fail(error, MMC_E_DEVICE, "queue_open");
  mmci_queue *queue = malloc(sizeof *queue);
  if (queue == NULL) abort();
  fake_stream *own = take_stream(device);
  *queue = (mmci_queue){.device = device, .own = own, .stream = own};
  device->counts.queues++;
  device->queues_alive++;
  *out = queue;
  return MMC_OK;
}

static void queue_close(mmci_queue *queue) {
  mmci_device *device = queue->device;
  if (queue->stream != queue->own) fake_blame(device->work, "queue_close of an attached queue");
  if (queue->own->capturing) (void)spoil(device, "queue_close", NULL);
  fake_work_await(device->work, queue->own->last, queue);
  queue->own->is_free = true;
  device->queues_alive--;
  free(queue);
}

static fake_stream *stream_of(mmci_device *device, void *stream) {
  return stream == NULL ? &device->streams[0] : stream;
}

static void queue_attach(mmci_queue *queue, void *stream) {
  queue->stream = stream_of(queue->device, stream);
}

static void queue_detach(mmci_queue *queue) {
  queue->stream = queue->own;
}

static mmc_status wait_for(mmci_queue *queue, mmci_error *error) {
  if (queue->stream->capturing) return spoil(queue->device, "sync", error);
  fake_work_await(queue->device->work, queue->stream->last, queue);
  return MMC_OK;
}

/* On a device that is broken for good nothing is under way any more. */
static mmc_status queue_sync(mmci_queue *queue, mmci_error *error) {
  mmci_device *device = queue->device;
  if (device->has_failed && device->fails_for_good) (void)wait_for(queue, NULL);
  FAILING(queue->device, "sync", error, wait_for(queue, error));
}

/* ---- transfers ------------------------------------------------------------------------------- */

static mmc_status transfer(mmci_queue *queue, const mmci_transfer *t, bool up, mmci_error *error) {
  mmci_device *device = queue->device;
  const char *what = up ? "upload" : "download";
  if (queue->stream->capturing) return spoil(device, what, error);
  fake_span from = {(char *)t->from, t->from_pitch, t->lines, t->line_bytes};
  fake_span to = {t->to, t->to_pitch, t->lines, t->line_bytes};
  fake_node node = {
      .kind = up ? FAKE_UPLOAD : FAKE_DOWNLOAD,
      .accesses = {access_to(device, from, false, up, 1, what),
                   access_to(device, to, true, !up, 1, what)},
      .access_count = 2,
      .lands_with = up ? NULL : queue,
  };
  if (up)
    device->counts.uploads++;
  else
    device->counts.downloads++;
  put(device, queue->stream, &node, 0);
  return MMC_OK;
}

static mmc_status upload(mmci_queue *queue, const mmci_transfer *t, mmci_error *error) {
  FAILING(queue->device, "upload", error, transfer(queue, t, true, error));
}

static mmc_status download(mmci_queue *queue, const mmci_transfer *t, mmci_error *error) {
  FAILING(queue->device, "download", error, transfer(queue, t, false, error));
}

static mmc_status put_copy(mmci_queue *queue, const fake_copy *x, const void *from, void *to) {
  mmci_device *device = queue->device;
  size_t size = mmc_dtype_size(x->dtype), alignment = alignment_of(x->dtype);
  mmci_form to_form = {.ld = x->to_ld, .trans = x->to_trans};
  fake_span source = span_of_form(from, x->rows, x->cols, &x->form, size);
  fake_span target = span_of_form(to, x->rows, x->cols, &to_form, size);
  if (fake_spans_meet(&source, &target)) fake_blame(device->work, "copy: operands overlap");
  device->reads_others = device->joined;
  const fake_access reads = access_to(device, source, false, false, alignment, "copy: from");
  device->reads_others = false;
  fake_node node = {
      .kind = FAKE_COPY,
      .copy = *x,
      .accesses = {reads, access_to(device, target, true, false, alignment, "copy: to")},
      .access_count = 2};
  device->counts.copies++;
  const fake_block *block = fake_memory_find(device->memory, &source);
  if (block != NULL && block->owner != device)
    device->counts.words_from_others += x->rows * x->cols;
  put(device, queue->stream, &node, 0);
  return MMC_OK;
}

static mmc_status copy(mmci_queue *queue, mmc_dtype dtype, int64_t rows, int64_t cols,
                       const void *from, const mmci_form *form, void *to, int64_t to_ld,
                       bool to_trans, mmci_error *error) {
  fake_copy x = {dtype, rows, cols, *form, to_ld, to_trans};
  FAILING(queue->device, "copy", error, put_copy(queue, &x, from, to));
}

/* What is read of a matrix that becomes smaller is what is kept of it. */
static mmc_status put_resizes(mmci_queue *queue, mmc_dtype dtype, const mmci_resizing *matrices,
                              int count) {
  mmci_device *device = queue->device;
  size_t size = mmc_dtype_size(dtype), alignment = alignment_of(dtype);
  if (count < 1 || count > MMCI_RESIZED) fake_blame(device->work, "resize: %d matrices", count);
  for (int i = 0; i < count; i++) {
    const mmci_resizing *x = &matrices[i];
    int64_t bytes = (int64_t)size, lines = x->lines < x->to_lines ? x->lines : x->to_lines;
    int64_t length = x->length < x->to_length ? x->length : x->to_length;
    fake_span source = {(char *)x->from, x->ld * bytes, lines, length * bytes};
    fake_span target = {x->to, x->to_ld * bytes, x->to_lines, x->to_length * bytes};
    if (fake_spans_meet(&source, &target)) fake_blame(device->work, "resize: operands overlap");
    fake_node node = {
        .kind = FAKE_RESIZE,
        .resize = {*x, size},
        .accesses = {access_to(device, source, false, false, alignment, "resize: from"),
                     access_to(device, target, true, false, alignment, "resize: to")},
        .access_count = 2};
    put(device, queue->stream, &node, 0);
  }
  device->counts.copies++;
  return MMC_OK;
}

static mmc_status resize(mmci_queue *queue, mmc_dtype dtype, const mmci_resizing *matrices,
                         int count, mmci_error *error) {
  FAILING(queue->device, "resize", error, put_resizes(queue, dtype, matrices, count));
}

/* ---- products -------------------------------------------------------------------------------- */

static bool supports(const mmci_device *device, const mmci_gemm *gemm) {
  if (gemm->batch <= 1 || device->batches == FAKE_ALL_BATCHES) return true;
  return device->batches == FAKE_STRIDED_BATCHES && !gemm->a.gathered && !gemm->b.gathered;
}

static int variants(mmci_device *device, const mmci_gemm *gemm) {
  (void)device, (void)gemm;
  return 0;
}

static const char *kernel_name(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device, (void)gemm;
  return "fake";
}

/* For both operands, as the faithful products of CUDA: more for a shape than for its parts. */
static uint64_t scratch_bytes(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device;
  if (gemm->batch > 1 || gemm->m == 0 || gemm->k == 0 || gemm->n == 0) return 0;
  return 4 * (uint64_t)((gemm->m + gemm->n) * gemm->k) + 24 * (uint64_t)(gemm->m + gemm->n);
}

static void *take_scratch(mmci_device *device, const mmci_gemm *gemm) {
  const uint64_t bytes = device->ops.scratch_bytes != NULL ? scratch_bytes(device, gemm) : 0;
  if (bytes == 0) return NULL;
  if (bytes <= device->limit_bytes - device->memory->live_bytes)
    return fake_memory_take(device->memory, bytes, false, device);
  device->counts.without_scratch++;
  return NULL;
}

static mmc_status prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                          mmci_error *error) {
  if (is_to_fail(device)) return fail(error, MMC_E_DEVICE, "prepare");
  bool fine = gemm->m >= 0 && gemm->k >= 0 && gemm->n >= 0 && gemm->a.ld >= 1 && gemm->b.ld >= 1 &&
              gemm->ldc >= 1 && gemm->batch >= 0;
  /* A long product stays as long as it is. */
  fine = fine && (gemm->sums == MMCI_SUMS_CHAIN || gemm->k >= MMCI_LONG_TERMS);
  if (gemm->batch <= 1)
    fine = fine && gemm->a.stride == 0 && gemm->b.stride == 0 && gemm->c_stride == 0 &&
           !gemm->a.gathered && !gemm->b.gathered;
  if (!fine || !supports(device, gemm))
    fake_blame(device->work, "prepare: a product out of bounds");
  if (gemm->variant != 0)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "variant: expected 0, got %d", gemm->variant);
  mmci_kernel *kernel = malloc(sizeof *kernel);
  if (kernel == NULL) abort();
  *kernel = (mmci_kernel){.device = device, .gemm = *gemm, .scratch = take_scratch(device, gemm)};
  device->counts.prepares++;
  device->kernels_alive++;
  *out = kernel;
  return MMC_OK;
}

/* Freeing its memory waits for all, as cudaFree() does. */
static void release(mmci_kernel *kernel) {
  mmci_device *device = kernel->device;
  device->kernels_alive--;
  for (int s = 0; kernel->scratch != NULL && s < device->stream_count; s++)
    fake_work_await(device->work, device->streams[s].last, NULL);
  if (kernel->scratch != NULL) device_dealloc(device, kernel->scratch);
  free(kernel);
}

/* The bytes of operand i of a batch, or of its place in the table. */
static fake_span span_of_operand(const void *data, int64_t rows, int64_t cols,
                                 const mmci_form *form, int64_t i, size_t size) {
  if (form->gathered)
    return span_of(mmci_address(data, i * (int64_t)sizeof(void *)), rows > 0 && cols > 0, 1, 1,
                   sizeof(void *));
  return span_of_form(mmci_address(data, i * form->stride * (int64_t)size), rows, cols, form, size);
}

/* Product i of a batch. */
static void put_one(mmci_queue *queue, const mmci_kernel *kernel, const void *a, const void *b,
                    void *c, int64_t i) {
  const mmci_gemm *g = &kernel->gemm;
  mmci_device *device = queue->device;
  size_t size = mmc_dtype_size(g->dtype), alignment = alignment_of(g->dtype);
  /* Nothing is read when nothing is written. */
  bool empty = g->m == 0 || g->n == 0;
  fake_span spans[] = {
      span_of_operand(a, empty ? 0 : g->m, g->k, &g->a, i, size),
      span_of_operand(b, g->k, empty ? 0 : g->n, &g->b, i, size),
      span_of(mmci_address(c, i * g->c_stride * (int64_t)size), g->m, g->n, g->ldc, size)};
  for (int o = 0; o < 2; o++)
    if (fake_spans_meet(&spans[o], &spans[2]))
      fake_blame(device->work, "product: operand %d overlaps C", o);
  fake_node node = {.kind = FAKE_PRODUCT,
                    .gemm = *g,
                    .accesses = {access_to(device, spans[0], false, false, alignment, "product: A"),
                                 access_to(device, spans[1], false, false, alignment, "product: B"),
                                 access_to(device, spans[2], true, false, alignment, "product: C")},
                    .access_count = 3};
  if (kernel->scratch != NULL) {
    const int64_t bytes = (int64_t)scratch_bytes(device, g);
    node.accesses[node.access_count++] =
        access_to(device, span_of(kernel->scratch, 1, bytes, bytes, 1), true, false, 1, "scratch");
  }
  put(device, queue->stream, &node, 0);
}

static mmc_status put_product(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                              const void *b, void *c) {
  queue->device->counts.products++;
  for (int64_t i = 0; i < kernel->gemm.batch || i == 0; i++) put_one(queue, kernel, a, b, c, i);
  return MMC_OK;
}

static mmc_status enqueue(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                          const void *b, void *c, mmci_error *error) {
  FAILING(queue->device, "enqueue", error, put_product(queue, kernel, a, b, c));
}

/* ---- structure ------------------------------------------------------------------------------- */

/* It lacks what the CUDA device lacks. */
static uint32_t structured_lacks(const mmci_device *device, mmc_dtype dtype) {
  (void)device, (void)dtype;
  return 1u << MMCI_STRUCTURE_SYSV | 1u << MMCI_STRUCTURE_SYMV | 1u << MMCI_STRUCTURE_BLOCKS |
         1u << MMCI_STRUCTURE_TBSV | 1u << MMCI_STRUCTURE_PBSV | 1u << MMCI_STRUCTURE_GTSV |
         1u << MMCI_STRUCTURE_GBSV;
}

static mmc_status structured_check(mmci_device *device, const mmci_structured *ask,
                                   mmci_error *error) {
  if ((structured_lacks(device, ask->dtype) >> ask->kernel & 1) == 0) return MMC_OK;
  return mmci_fail(error, MMC_E_UNSUPPORTED, "the fake device has no such kernel");
}

static mmc_status structured_prepare(mmci_device *device, const mmci_structured *product,
                                     mmci_structured_kernel **out, mmci_error *error) {
  if (is_to_fail(device)) return fail(error, MMC_E_DEVICE, "structured_prepare");
  mmci_structured_kernel *kernel = malloc(sizeof *kernel);
  if (kernel == NULL) abort();
  *kernel = (mmci_structured_kernel){.device = device, .product = *product};
  device->kernels_alive++;
  *out = kernel;
  return MMC_OK;
}

static void structured_release(mmci_structured_kernel *kernel) {
  kernel->device->kernels_alive--;
  free(kernel);
}

static mmc_status put_structured(mmci_queue *queue, const mmci_structured_kernel *kernel, void *z,
                                 void *s, const void *b, int32_t *pivot) {
  const mmci_structured *p = &kernel->product;
  mmci_device *device = queue->device;
  const size_t size = mmc_dtype_size(p->dtype), alignment = alignment_of(p->dtype);
  const bool is_mirrored = p->kernel == MMCI_STRUCTURE_SYRK && !p->inverts;
  const bool is_apart = !p->inverts && p->kernel != MMCI_STRUCTURE_SYRK &&
                        (p->kernel < MMCI_STRUCTURE_TRSM || p->kernel > MMCI_STRUCTURE_GESV);
  const bool overwrites = p->kernel == MMCI_STRUCTURE_POSV || p->kernel == MMCI_STRUCTURE_GESV;
  const int64_t side = p->right ? p->cols : p->rows, turned = p->op != MMC_OP_N;
  fake_span spans[] = {span_of(z, p->cols, p->rows, p->ldz, size),
                       is_mirrored ? span_of(s, turned ? p->rows : p->depth,
                                             turned ? p->depth : p->rows, p->lds, size)
                                   : span_of(s, p->inverts ? 0 : side, side, p->lds, size),
                       span_of(b, is_apart ? p->cols : 0, p->rows, p->ldb, size),
                       span_of(pivot, mmci_structured_has_pivot(p) ? 1 : 0, 1, 1, sizeof *pivot)};
  const bool in_place = p->kernel == MMCI_STRUCTURE_SCALE && b == z;
  if (fake_spans_meet(&spans[0], &spans[1]) || (!in_place && fake_spans_meet(&spans[0], &spans[2])))
    fake_blame(device->work, "structured: an operand overlaps Z");
  fake_node node = {
      .kind = FAKE_STRUCTURED,
      .structured = *p,
      .accesses = {access_to(device, spans[0], true, false, alignment, "structured: Z"),
                   access_to(device, spans[1], overwrites, false, alignment, "structured: S"),
                   access_to(device, spans[2], false, false, alignment, "structured: B"),
                   access_to(device, spans[3], true, false, sizeof *pivot, "structured: pivot")},
      .access_count = 4};
  device->counts.products++;
  put(device, queue->stream, &node, 0);
  return MMC_OK;
}

static mmc_status event_record(mmci_queue *queue, mmci_event *event, mmci_error *error);

static mmc_status put_and_tell(mmci_queue *queue, const mmci_structured_kernel *kernel, void *z,
                               void *s, const void *b, int32_t *pivot, mmci_event *known,
                               mmci_error *error) {
  mmc_status status = put_structured(queue, kernel, z, s, b, pivot);
  return status == MMC_OK && known != NULL ? event_record(queue, known, error) : status;
}

static mmc_status structured_enqueue(mmci_queue *queue, const mmci_structured_kernel *kernel,
                                     void *z, void *s, const void *b, int32_t *pivot,
                                     mmci_event *known, mmci_error *error) {
  FAILING(queue->device, "structured_enqueue", error,
          put_and_tell(queue, kernel, z, s, b, pivot, known, error));
}

/* ---- chains ---------------------------------------------------------------------------------- */

static bool group_supports(const mmci_device *device, const mmci_group *chain) {
  (void)device;
  return chain->n < FAKE_ACCESSES && plain_chain_fault(chain) == NULL;
}

static const char *group_name(const mmci_device *device, const mmci_group *chain) {
  (void)device, (void)chain;
  return "fake chain";
}

static mmc_status group_prepare(mmci_device *device, const mmci_group *chain,
                                mmci_group_kernel **out, mmci_error *error) {
  if (is_to_fail(device)) return fail(error, MMC_E_DEVICE, "group_prepare");
  const char *fault = plain_chain_fault(chain);
  if (fault != NULL) fake_blame(device->work, "group_prepare: %s", fault);
  if (device->refusals > 0 && device->refusals-- > 0)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "group_prepare: refused as it was told to");
  mmci_group_kernel *kernel = malloc(sizeof *kernel);
  if (kernel == NULL) abort();
  *kernel = (mmci_group_kernel){.device = device, .chain = plain_chain_copy(chain)};
  device->counts.prepares++;
  device->kernels_alive++;
  *out = kernel;
  return MMC_OK;
}

static void group_release(mmci_group_kernel *kernel) {
  kernel->device->kernels_alive--;
  free(kernel->chain);
  free(kernel);
}

/* The access to operand o, as the products that read it have it. */
static fake_access access_to_operand(mmci_device *device, const mmci_group *x, int32_t o,
                                     const void *data, bool empty) {
  int64_t rows = 0, cols = 0;
  for (int32_t p = 0; p < x->count && !empty; p++) {
    const mmci_group_product *s = &x->products[p];
    if (s->left != o && s->right != o) continue;
    rows = s->left == o ? s->m : s->k;
    cols = s->left == o ? s->k : s->n;
  }
  size_t size = mmc_dtype_size(x->dtype);
  return access_to(device, span_of_form(data, rows, cols, &x->forms[o], size), false, false,
                   alignment_of(x->dtype), "chain: an operand");
}

static mmc_status put_chain(mmci_queue *queue, const mmci_group *x, const void *const *operands,
                            void *c) {
  mmci_device *device = queue->device;
  const mmci_group_product *last = &x->products[x->count - 1];
  bool empty = last->m == 0 || last->n == 0;
  fake_node node = {.kind = FAKE_CHAIN, .chain = plain_chain_copy(x), .access_count = x->n + 1};
  node.accesses[x->n] =
      access_to(device, span_of(c, last->m, last->n, x->ldc, mmc_dtype_size(x->dtype)), true, false,
                alignment_of(x->dtype), "chain: C");
  for (int32_t o = 0; o < x->n; o++) {
    node.accesses[o] = access_to_operand(device, x, o, operands[o], empty);
    if (fake_spans_meet(&node.accesses[o].span, &node.accesses[x->n].span))
      fake_blame(device->work, "chain: operand %d overlaps C", o);
  }
  if (empty) node.kind = FAKE_NOTHING;
  device->counts.chains++;
  put(device, queue->stream, &node, 0);
  return MMC_OK;
}

static mmc_status group_enqueue(mmci_queue *queue, const mmci_group_kernel *kernel,
                                const void *const *operands, void *c, mmci_error *error) {
  FAILING(queue->device, "group_enqueue", error, put_chain(queue, kernel->chain, operands, c));
}

/* ---- events ---------------------------------------------------------------------------------- */

static mmc_status event_create(mmci_device *device, mmci_event **out, mmci_error *error) {
  if (is_to_fail(device)) return fail(error, MMC_E_DEVICE, "event_create");
  mmci_event *event = malloc(sizeof *event);
  if (event == NULL) abort();
  *event = (mmci_event){.device = device};
  device->counts.events++;
  device->events_alive++;
  *out = event;
  return MMC_OK;
}

static void event_destroy(mmci_event *event) {
  event->device->events_alive--;
  free(event);
}

static mmc_status record(const fake_stream *stream, mmci_event *event) {
  event->is_recorded = true;
  event->node = stream->capturing ? stream->recorded : stream->last;
  event->capture = stream->capturing ? event->device->capture.number : 0;
  return MMC_OK;
}

static mmc_status wait_on(fake_stream *stream, const mmci_event *event, mmci_error *error) {
  mmci_device *device = event->device;
  if (!event->is_recorded) return MMC_OK;
  bool inside = device->capture.active && event->capture == device->capture.number;
  if (stream->capturing && !inside) return spoil(device, "a wait for what lies outside", error);
  if (event->capture != 0 && !inside) {
    fake_blame(device->work, "a wait for an event of a capture that has ended");
    return mmci_fail(error, MMC_E_DEVICE, "event_wait: the event was captured");
  }
  if (inside && !stream->capturing) { /* the stream joins */
    stream->capturing = true;
    stream->recorded = 0;
  }
  put(device, stream, &(fake_node){.kind = FAKE_NOTHING}, event->node);
  return MMC_OK;
}

static mmc_status event_record(mmci_queue *queue, mmci_event *event, mmci_error *error) {
  FAILING(queue->device, "event_record", error, record(queue->stream, event));
}

static mmc_status event_wait(mmci_queue *queue, mmci_event *event, mmci_error *error) {
  FAILING(queue->device, "event_wait", error, wait_on(queue->stream, event, error));
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static mmc_status capture_begin(mmci_queue *queue, mmci_error *error) {
  if (is_to_fail(queue->device)) return fail(error, MMC_E_DEVICE, "capture_begin");
  queue->device->counts.captures++;
  return begin_capture(queue->device, queue->stream, error);
}

static mmc_status capture_end(mmci_queue *queue, mmci_graph **out, mmci_error *error) {
  mmci_device *device = queue->device;
  bool to_fail = is_to_fail(device);
  mmci_graph *graph;
  mmc_status status = end_capture(device, queue->stream, &graph, error);
  if (status != MMC_OK) return status;
  if (to_fail) {
    destroy_graph(graph);
    return fail(error, MMC_E_DEVICE, "capture_end");
  }
  *out = graph;
  return MMC_OK;
}

static mmc_status put_graph(mmci_queue *queue, mmci_graph *graph, mmci_error *error) {
  if (queue->stream->capturing) return spoil(queue->device, "graph_launch", error);
  queue->device->counts.launches++;
  launch(queue->stream, graph);
  return MMC_OK;
}

static mmc_status graph_launch(mmci_queue *queue, mmci_graph *graph, mmci_error *error) {
  FAILING(queue->device, "graph_launch", error, put_graph(queue, graph, error));
}

static bool is_capturing(mmci_device *device, void *stream) {
  return stream_of(device, stream)->capturing;
}

static mmc_status join(mmci_device *device, mmci_device *other, double *bytes_per_s,
                       mmci_error *error) {
  if (is_to_fail(device)) return fail(error, MMC_E_DEVICE, "join");
  if (device->work != other->work) fake_blame(device->work, "join of cards of different machines");
  device->joined = true;
  *bytes_per_s = 1e11;
  return MMC_OK;
}

/* ---- the device ------------------------------------------------------------------------------ */

static mmc_status probe(int *count, mmci_error *error) {
  (void)error;
  *count = 1;
  return MMC_OK;
}

enum { QUEUES_OF_KIND = 3 };

static mmc_status open_default(int index, mmci_device **out, mmci_error *error) {
  (void)index, (void)error;
  *out = fake_open(&(fake_options){
      .seed = 1, .queues = QUEUES_OF_KIND, .memory_bytes = UINT64_C(1) << 34, .scratch = true});
  return MMC_OK;
}

/* Nobody is left to be told of a fault. */
static void device_close(mmci_device *device) {
  const char *fault = fake_close(device);
  if (fault[0] == '\0') return;
  fprintf(stderr, "the fake device was closed with a fault: %s\n", fault);
  abort();
}

static void describe(const mmci_device *device, char *text, size_t size) {
  (void)device;
  snprintf(text, size, "plain loops, late and in any order");
}

static const mmci_device_async fake_async = {
    .queues = QUEUES_OF_KIND,
    .memory = device_memory,
    .alloc_pinned = alloc_pinned,
    .dealloc_pinned = dealloc_pinned,
    .queue_attach = queue_attach,
    .queue_detach = queue_detach,
    .upload = upload,
    .download = download,
    .copy = copy,
    .resize = resize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .graph_destroy = destroy_graph,
    .graph_launch = graph_launch,
    .is_capturing = is_capturing,
    .join = join,
};

static void facts(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                  mmci_facts *out) {
  (void)device, (void)dtype, (void)precision;
  *out = test_facts;
}

const mmci_device_ops mmci_device_fake = {
    .abi = MMCI_DEVICE_ABI,
    .size = sizeof(mmci_device_ops),
    .name = "fake",
    .probe = probe,
    .open = open_default,
    .close = device_close,
    .describe = describe,
    .facts = facts,
    .supports = supports,
    .variants = variants,
    .kernel_name = kernel_name,
    .prepare = prepare,
    .release = release,
    .scratch_bytes = scratch_bytes,
    .queue_open = queue_open,
    .queue_close = queue_close,
    .enqueue = enqueue,
    .sync = queue_sync,
    .structured_lacks = structured_lacks,
    .structured_check = structured_check,
    .structured_prepare = structured_prepare,
    .structured_enqueue = structured_enqueue,
    .structured_release = structured_release,
    .group_supports = group_supports,
    .group_name = group_name,
    .group_prepare = group_prepare,
    .group_release = group_release,
    .group_enqueue = group_enqueue,
    .alloc = device_alloc,
    .dealloc = device_dealloc,
    .async = &fake_async,
};

static mmci_device *open_card(const fake_options *options, mmci_device *first) {
  mmci_device *device = calloc(1, sizeof *device);
  if (device == NULL) abort();
  device->ops = mmci_device_fake;
  device->async = fake_async;
  device->async.queues = options->queues > 0 ? options->queues : 1;
  device->ops.async = &device->async;
  device->batches = options->batches;
  device->ops.scratch_bytes = options->scratch ? scratch_bytes : NULL;
  device->limit_bytes = options->memory_bytes > 0 ? options->memory_bytes : UINT64_MAX;
  device->stream_count = 1;
  device->first = first != NULL ? first : device;
  device->memory = &device->first->own_memory;
  device->work = &device->first->own_work;
  if (first != NULL) {
    first->others_open++;
    return device;
  }
  fake_memory_open(device->memory);
  *device->work = (fake_work){.memory = device->memory, .random = options->seed};
  return device;
}

mmci_device *fake_open(const fake_options *options) {
  return open_card(options, NULL);
}

mmci_device *fake_open_beside(mmci_device *first, const fake_options *options) {
  return open_card(options, first->first);
}

static void blame_what_is_left(mmci_device *device) {
  const struct {
    const char *what;
    int64_t alive;
  } kinds[] = {{"kernels", device->kernels_alive},
               {"queues", device->queues_alive},
               {"events", device->events_alive},
               {"graphs", device->graphs_alive},
               {"pinned", device->pinned_alive},
               {"bytes", device->first == device ? (int64_t)device->memory->live_bytes : 0},
               {"cards", device->others_open}};
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
    if (kinds[k].alive != 0)
      fake_blame(device->work, "left behind: %" PRId64 " %s", kinds[k].alive, kinds[k].what);
  if (device->capture.active) fake_blame(device->work, "left behind: a capture");
}

const char *fake_close(mmci_device *device) {
  static char text[sizeof((fake_work *)NULL)->fault];
  for (int s = 0; s < device->stream_count; s++)
    fake_work_await(device->work, device->streams[s].last, NULL);
  blame_what_is_left(device);
  memcpy(text, device->work->fault, sizeof text);
  fake_list_clear(&device->capture.list);
  if (device->first != device) {
    device->first->others_open--;
    free(device);
    return text;
  }
  fake_list_clear(&device->work->list);
  fake_memory_close(device->memory);
  free(device);
  return text;
}

const mmci_device_ops *fake_ops(mmci_device *device) {
  return &device->ops;
}

const char *fake_fault(const mmci_device *device) {
  return device->work->fault;
}

fake_counts fake_count(const mmci_device *device) {
  return device->counts;
}

uint64_t fake_most_bytes(const mmci_device *device) {
  return device->memory->most_bytes;
}

/* ---- the caller's side ----------------------------------------------------------------------- */

void *fake_alloc(mmci_device *device, size_t size_bytes) {
  return fake_memory_take(device->memory, size_bytes, true, device);
}

void fake_free(mmci_device *device, void *memory) {
  drop(device, memory, true);
}

char *fake_bytes(mmci_device *device, const void *address, size_t size_bytes) {
  fake_span span = {(char *)address, (int64_t)size_bytes, 1, (int64_t)size_bytes};
  if (is_in_use(device, &span)) fake_blame(device->work, "the test looks at memory in use");
  char *bytes = fake_memory_bytes(device->memory, &span);
  if (bytes == NULL) abort();
  return bytes;
}

void fake_expect_done(mmci_device *device) {
  const fake_list *list = &device->work->list;
  char name[64];
  for (size_t i = 0; i < list->count; i++)
    if (list->nodes[i].kind != FAKE_NOTHING)
      fake_blame(device->work, "%s is under way still", fake_node_name(&list->nodes[i], name));
}

void *fake_stream_create(mmci_device *device) {
  return take_stream(device);
}

void fake_stream_write(mmci_device *device, void *stream, void *to, const void *bytes,
                       size_t size_bytes) {
  fake_span span = {to, (int64_t)size_bytes, 1, (int64_t)size_bytes};
  bool on_host = !fake_memory_owns(device->memory, span.start);
  fake_node node = {.kind = FAKE_WRITE,
                    .accesses = {access_to(device, span, true, on_host, 1, "the test's write")},
                    .access_count = 1,
                    .bytes = malloc(size_bytes + 1)};
  if (node.bytes == NULL) abort();
  memcpy(node.bytes, bytes, size_bytes);
  put(device, stream_of(device, stream), &node, 0);
}

void fake_stream_read(mmci_device *device, void *stream, const void *from, void *to,
                      size_t size_bytes) {
  fake_span source = {(char *)from, (int64_t)size_bytes, 1, (int64_t)size_bytes};
  fake_span target = {to, (int64_t)size_bytes, 1, (int64_t)size_bytes};
  fake_node node = {.kind = FAKE_DOWNLOAD,
                    .accesses = {access_to(device, source, false, false, 1, "the test's read"),
                                 access_to(device, target, true, true, 1, "the test's read")},
                    .access_count = 2};
  put(device, stream_of(device, stream), &node, 0);
}

void fake_stream_sync(mmci_device *device, void *stream) {
  fake_work_await(device->work, stream_of(device, stream)->last, NULL);
}

void fake_stream_order(mmci_device *device, void *earlier, void *later) {
  mmci_event event = {.device = device};
  (void)record(stream_of(device, earlier), &event);
  (void)wait_on(stream_of(device, later), &event, NULL);
}

void fake_stream_capture_begin(mmci_device *device, void *stream) {
  (void)begin_capture(device, stream_of(device, stream), NULL);
}

mmci_graph *fake_stream_capture_end(mmci_device *device, void *stream) {
  mmci_graph *graph;
  if (end_capture(device, stream_of(device, stream), &graph, NULL) != MMC_OK) return NULL;
  return graph;
}

void fake_stream_launch(mmci_device *device, void *stream, mmci_graph *graph) {
  launch(stream_of(device, stream), graph);
}

void fake_graph_destroy(mmci_graph *graph) {
  destroy_graph(graph);
}
