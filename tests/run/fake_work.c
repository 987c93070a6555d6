#include "fake_work.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../random.h"
#include "device/ref/ref.h"
#include "fake_structured.h"
#include "plain_chain.h"

void fake_blame(fake_work *work, const char *format, ...) {
  if (work->fault[0] != '\0') return;
  va_list args;
  va_start(args, format);
  vsnprintf(work->fault, sizeof work->fault, format, args);
  va_end(args);
}

const char *fake_node_name(const fake_node *node, char text[64]) {
  static const char *const names[] = {
      [FAKE_NOTHING] = "nothing", [FAKE_PRODUCT] = "product",   [FAKE_CHAIN] = "chain",
      [FAKE_COPY] = "copy",       [FAKE_RESIZE] = "resize",     [FAKE_STRUCTURED] = "structured",
      [FAKE_UPLOAD] = "upload",   [FAKE_DOWNLOAD] = "download", [FAKE_WRITE] = "write"};
  snprintf(text, 64, "%s %" PRIu64, names[node->kind], node->id);
  return text;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void drop_node(fake_node *node) {
  free(node->after);
  free(node->bytes);
  free(node->chain);
}

void fake_list_clear(fake_list *list) {
  for (size_t i = 0; i < list->count; i++) drop_node(&list->nodes[i]);
  free(list->nodes);
  *list = (fake_list){0};
}

/* Returns node id, or NULL. Few ids are missing between the first and the last, which leaves few
 * places to look at. */
static fake_node *find(const fake_list *list, uint64_t id) {
  const size_t count = list->count;
  if (count == 0 || id < list->nodes[0].id || id > list->nodes[count - 1].id) return NULL;
  const size_t before = (size_t)(id - list->nodes[0].id),
               behind = (size_t)(list->nodes[count - 1].id - id);
  size_t low = behind < count ? count - 1 - behind : 0, high = before < count ? before + 1 : count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (list->nodes[middle].id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low < list->count && list->nodes[low].id == id ? &list->nodes[low] : NULL;
}

static void comes_after(fake_node *node, uint64_t id) {
  if (id == 0) return;
  node->after = realloc(node->after, (node->after_count + 1) * sizeof *node->after);
  if (node->after == NULL) abort();
  node->after[node->after_count++] = id;
}

static fake_node *append(fake_list *list, const fake_node *what) {
  if (list->count == list->room) {
    list->room = 2 * list->room + 16;
    list->nodes = realloc(list->nodes, list->room * sizeof *list->nodes);
    if (list->nodes == NULL) abort();
  }
  fake_node *node = &list->nodes[list->count++];
  *node = *what;
  node->id = ++list->last_id;
  node->after = NULL;
  node->after_count = 0;
  return node;
}

uint64_t fake_list_add(fake_list *list, const fake_node *what, uint64_t after, uint64_t and_after) {
  fake_node *node = append(list, what);
  comes_after(node, after);
  if (and_after != after) comes_after(node, and_after);
  return node->id;
}

/* Ids rise along the order, so one pass from the last to the first reaches all. */
void fake_list_mark(fake_list *list, uint64_t id, uint64_t mark) {
  fake_node *first = find(list, id);
  if (first == NULL) return;
  first->mark = mark;
  for (size_t i = (size_t)(first - list->nodes) + 1; i-- > 0;) {
    const fake_node *x = &list->nodes[i];
    for (size_t a = 0; x->mark == mark && a < x->after_count; a++) {
      fake_node *earlier = find(list, x->after[a]);
      if (earlier != NULL) earlier->mark = mark;
    }
  }
}

/* ---- races ----------------------------------------------------------------------------------- */

static bool clash(const fake_node *x, const fake_node *y, bool uploads_only) {
  for (int i = 0; i < x->access_count; i++)
    for (int j = 0; j < y->access_count; j++) {
      const fake_access *a = &x->accesses[i], *b = &y->accesses[j];
      if (uploads_only && !(x->kind == FAKE_UPLOAD && a->on_host && b->writes)) continue;
      if ((a->writes || b->writes) && fake_spans_meet(&a->span, &b->span)) return true;
    }
  return false;
}

/* An upload may read the host's memory when it is enqueued: what it comes after, and is not known
 * to be done, is no earlier than that. */
static void check_races(fake_work *work, uint64_t id) {
  uint64_t mark = ++work->marks;
  fake_list_mark(&work->list, id, mark);
  const fake_node *x = find(&work->list, id);
  for (const fake_node *y = work->list.nodes; y < x; y++) {
    bool ordered = y->mark == mark;
    if (ordered && x->kind != FAKE_UPLOAD) continue;
    if (x->access_count == 0 || y->access_count == 0 || !clash(x, y, ordered)) continue;
    char first[64], second[64];
    fake_blame(work, "race: %s and %s touch the same bytes%s", fake_node_name(y, first),
               fake_node_name(x, second), ordered ? " of the host" : ", neither waits");
  }
}

/* ---- doing it -------------------------------------------------------------------------------- */

/* The bytes of an access: the host's own, or those that the device's stand for. */
static char *bytes_of(fake_work *work, const fake_node *node, int access) {
  const fake_access *x = &node->accesses[access];
  if (x->on_host || fake_span_is_empty(&x->span)) return x->span.start;
  char *bytes = fake_memory_bytes(work->memory, &x->span), name[64];
  if (bytes == NULL) fake_blame(work, "%s uses memory that was freed", fake_node_name(node, name));
  return bytes;
}

static void move_lines(char *to, int64_t to_pitch, const char *from, int64_t from_pitch,
                       const fake_span *shape) {
  for (int64_t i = 0; i < shape->lines; i++)
    memcpy(to + i * to_pitch, from + i * from_pitch, (size_t)shape->line_bytes);
}

/* Lines without gaps. */
static char *pack(const char *from, const fake_span *span) {
  char *packed = malloc((size_t)(span->lines * span->line_bytes) + 1);
  if (packed == NULL) abort();
  move_lines(packed, span->line_bytes, from, span->pitch, span);
  return packed;
}

static void do_transfer(fake_work *work, fake_node *node) {
  const fake_span *from = &node->accesses[0].span, *to = &node->accesses[1].span;
  char *source = bytes_of(work, node, 0), *target = bytes_of(work, node, 1);
  if (source == NULL || target == NULL) return;
  if (node->bytes != NULL)
    move_lines(target, to->pitch, node->bytes, to->line_bytes, to);
  else if (node->lands_with != NULL && random_below(&work->random, 2) == 0)
    node->bytes = pack(source, from);
  else
    move_lines(target, to->pitch, source, from->pitch, to);
}

static void do_copy(fake_work *work, const fake_node *node) {
  const fake_copy *x = &node->copy;
  size_t size = mmc_dtype_size(x->dtype);
  const char *source = bytes_of(work, node, 0);
  char *target = bytes_of(work, node, 1);
  if (source == NULL || target == NULL) return;
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++) {
      int64_t from = x->form.trans ? c * x->form.ld + r : r * x->form.ld + c;
      char *to = target + (size_t)(x->to_trans ? c * x->to_ld + r : r * x->to_ld + c) * size;
      memcpy(to, source + (size_t)from * size, size);
      /* The sign is the last bit of a little-endian number. */
      if (x->form.conj) to[size - 1] = (char)(to[size - 1] ^ 0x80);
    }
}

static void do_resize(fake_work *work, const fake_node *node) {
  const mmci_resizing *x = &node->resize.matrix;
  const size_t size = node->resize.size;
  const char *source = bytes_of(work, node, 0);
  char *target = bytes_of(work, node, 1);
  if ((source == NULL && !fake_span_is_empty(&node->accesses[0].span)) || target == NULL) return;
  for (int64_t r = 0; r < x->to_lines; r++)
    for (int64_t c = 0; c < x->to_length; c++) {
      char *to = target + (size_t)(r * x->to_ld + c) * size;
      if (r < x->lines && c < x->length)
        memcpy(to, source + (size_t)(r * x->ld + c) * size, size);
      else
        memset(to, 0, size);
    }
}

static void do_chain(fake_work *work, const fake_node *node) {
  const void *operands[FAKE_ACCESSES];
  int32_t n = node->chain->n;
  for (int32_t o = 0; o < n; o++) {
    operands[o] = bytes_of(work, node, o);
    if (operands[o] == NULL && !fake_span_is_empty(&node->accesses[o].span)) return;
  }
  char *c = bytes_of(work, node, n);
  if (c != NULL) plain_chain_multiply(node->chain, operands, c);
}

/* The matrix that an entry of a table points to. */
static char *gathered(fake_work *work, const fake_node *node, const char *entry, int64_t rows,
                      int64_t cols, const mmci_form *form) {
  char *start, name[64];
  memcpy(&start, entry, sizeof start);
  int64_t lines = form->trans ? cols : rows, length = form->trans ? rows : cols;
  int64_t size = (int64_t)mmc_dtype_size(node->gemm.dtype);
  fake_span span = {start, form->ld * size, lines, length * size};
  char *bytes = fake_memory_bytes(work->memory, &span);
  if (bytes == NULL)
    fake_blame(work, "%s: an address lies outside any block", fake_node_name(node, name));
  return bytes;
}

static void do_product(fake_work *work, fake_node *node) {
  const mmci_gemm *g = &node->gemm;
  char *a = bytes_of(work, node, 0), *b = bytes_of(work, node, 1), *c = bytes_of(work, node, 2);
  bool reads_a = !fake_span_is_empty(&node->accesses[0].span);
  bool reads_b = !fake_span_is_empty(&node->accesses[1].span);
  if (a != NULL && reads_a && g->a.gathered) a = gathered(work, node, a, g->m, g->k, &g->a);
  if (b != NULL && reads_b && g->b.gathered) b = gathered(work, node, b, g->k, g->n, &g->b);
  if (c == NULL || (a == NULL && reads_a) || (b == NULL && reads_b)) return;
  if (node->access_count > 3 && bytes_of(work, node, 3) == NULL) return;
  mmci_gemm one = *g; /* the node is one of a batch */
  one.batch = 1;
  if (!fake_span_is_empty(&node->accesses[2].span)) mmci_ref_gemm(&one, a, b, c);
}

/* After a fault nothing is touched any more: it may be what must not be. */
static void do_node(fake_work *work, fake_node *node) {
  node->done = true;
  if (work->fault[0] != '\0') return;
  switch (node->kind) {
    case FAKE_NOTHING:
      break;
    case FAKE_PRODUCT:
      do_product(work, node);
      break;
    case FAKE_CHAIN:
      do_chain(work, node);
      break;
    case FAKE_COPY:
      do_copy(work, node);
      break;
    case FAKE_RESIZE:
      do_resize(work, node);
      break;
    case FAKE_STRUCTURED:
      fake_structured(&node->structured, bytes_of(work, node, 0), bytes_of(work, node, 1),
                      bytes_of(work, node, 2), (int32_t *)(void *)bytes_of(work, node, 3));
      break;
    case FAKE_UPLOAD:
    case FAKE_DOWNLOAD:
      do_transfer(work, node);
      break;
    case FAKE_WRITE: {
      const fake_span *to = &node->accesses[0].span;
      char *target = bytes_of(work, node, 0);
      if (target != NULL) memcpy(target, node->bytes, (size_t)to->line_bytes);
      break;
    }
  }
}

static bool is_ready(const fake_work *work, const fake_node *node) {
  if (node->done) return false;
  for (size_t a = 0; a < node->after_count; a++) {
    const fake_node *earlier = find(&work->list, node->after[a]);
    if (earlier != NULL && !earlier->done) return false;
  }
  return true;
}

/* Does one that may be done now. */
static bool do_any(fake_work *work) {
  size_t count = work->list.count;
  if (count == 0) return false;
  size_t start = (size_t)random_below(&work->random, (int64_t)count);
  for (size_t i = 0; i < count; i++) {
    fake_node *node = &work->list.nodes[(start + i) % count];
    if (!is_ready(work, node)) continue;
    do_node(work, node);
    return true;
  }
  return false;
}

/* Does some of the work, at a moment that nobody chose. */
static void progress(fake_work *work) {
  if (random_below(&work->random, 4) != 0) return;
  for (int64_t left = random_below(&work->random, 4); left > 0 && do_any(work);) left--;
}

/* ---- from the host --------------------------------------------------------------------------- */

uint64_t fake_work_put(fake_work *work, const fake_node *what, uint64_t after, uint64_t and_after) {
  uint64_t id = fake_list_add(&work->list, what, after, and_after);
  fake_node *node = find(&work->list, id);
  bool at_once = work->fault[0] == '\0' && random_below(&work->random, 2) == 0;
  if (node->kind == FAKE_UPLOAD && at_once)
    node->bytes = pack(node->accesses[0].span.start, &node->accesses[0].span);
  check_races(work, id);
  progress(work);
  return id;
}

uint64_t fake_work_put_all(fake_work *work, const fake_list *graph, uint64_t after,
                           uint64_t and_after) {
  uint64_t base = work->list.last_id;
  for (size_t i = 0; i < graph->count; i++) {
    const fake_node *x = &graph->nodes[i];
    fake_node *node = append(&work->list, x);
    if (x->bytes != NULL) node->bytes = pack(x->bytes, &x->accesses[0].span);
    if (x->chain != NULL) node->chain = plain_chain_copy(x->chain);
    for (size_t a = 0; a < x->after_count; a++) comes_after(node, base + x->after[a]);
    if (x->after_count == 0) {
      comes_after(node, after);
      comes_after(node, and_after);
    }
    check_races(work, node->id);
  }
  fake_node *end = append(&work->list, &(fake_node){.kind = FAKE_NOTHING});
  for (size_t i = 0; i < graph->count; i++) comes_after(end, base + graph->nodes[i].id);
  comes_after(end, after);
  uint64_t id = end->id;
  progress(work);
  return id;
}

/* The host knows that the node is done; false when the host's memory does not show it yet. */
static bool becomes_known(fake_node *node, const void *queue) {
  if (node->lands_with == NULL) return true;
  if (node->lands_with == queue) {
    const fake_span *to = &node->accesses[node->access_count - 1].span;
    if (node->bytes != NULL) move_lines(to->start, to->pitch, node->bytes, to->line_bytes, to);
    return true;
  }
  /* What it read on the device is free; what it writes on the host is not. */
  if (node->access_count == 2) {
    node->accesses[0] = node->accesses[1];
    node->access_count = 1;
  }
  return false;
}

void fake_work_await(fake_work *work, uint64_t id, const void *queue) {
  fake_list *list = &work->list;
  uint64_t mark = ++work->marks;
  fake_list_mark(list, id, mark);
  for (size_t i = 0; i < list->count; i++)
    if (queue != NULL && list->nodes[i].lands_with == queue)
      fake_list_mark(list, list->nodes[i].id, mark);
  for (size_t i = 0; i < list->count; i++)
    while (list->nodes[i].mark == mark && !list->nodes[i].done)
      if (!do_any(work)) abort();
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++) {
    fake_node *node = &list->nodes[i];
    if (node->mark == mark && becomes_known(node, queue))
      drop_node(node);
    else
      list->nodes[kept++] = *node;
  }
  list->count = kept;
}
