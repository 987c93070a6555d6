/* gradient_nodes.c: see gradient_nodes.h. */
#include "gradients/gradient_nodes.h"

#include <inttypes.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "gradients/gradient_tree.h"
#include "run/matrices.h"

/* Tables of a way that are kept on the device: whoever asks again with matrices at the same places
 * finds its own there. */
enum { FORWARD, BACK, WAYS, TABLES = 3 };

/* Nodes have no padding, so that they can be compared byte by byte. */
_Static_assert(sizeof(mmci_tree_node) == 3 * sizeof(int64_t) + 5 * sizeof(mmci_node_matrix) &&
                   sizeof(mmci_node_matrix) == 4 * sizeof(int64_t),
               "no padding");

typedef struct table {
  mmci_tree_node *nodes; /* as they are, or are about to be, on the device */
  void *on_device;
  mmci_event *done; /* what was enqueued with it last */
  bool pending, filled;
} table;

/* Nodes in the order in which they are computed, by levels. */
typedef struct way {
  int32_t *order;  /* products */
  int32_t *starts; /* of levels, and the end */
  int32_t levels, count;
  table tables[TABLES];
  int next; /* the table that is overwritten next */
} way;

/* Where cotangents of a product's operands go. */
typedef struct targets {
  uint64_t left, right;
} targets;

struct mmci_gradient_nodes {
  const mmc_chain *chain;
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_queue *queue;
  bool on_stream;
  void *stream;
  int32_t n;
  int side;
  mmci_gradient_node *nodes; /* offsets are those on the way forward */
  targets *targets;          /* n - 1, by product */
  uint64_t *offsets;         /* of gradients */
  uint64_t bytes;
  way ways[WAYS];
  mmci_tree_node *made; /* n - 1 */
};

/* ---- places -------------------------------------------------------------------------------- */

static bool is_inner(const mmci_gradient_nodes *x, int32_t i) {
  return i >= x->n && i != 2 * x->n - 2;
}

/* Sorts products by level: by counting. */
static mmc_status sort(const mmci_gradient_nodes *x, bool back, way *out, mmci_error *error) {
  const int32_t n = x->n;
  int32_t most = 0;
  for (int32_t i = n; i < 2 * n - 1; i++)
    if (x->nodes[i].height > most) most = x->nodes[i].height;
  out->order = mmci_alloc_array((size_t)n, sizeof *out->order);
  out->starts = mmci_alloc_zeroed((size_t)most + 2, sizeof *out->starts);
  if (out->order == NULL || out->starts == NULL)
    return mmci_fail_nomem(error, (size_t)n * sizeof *out->order);
  /* Heights begin at 1, depths at 0; no depth is as large as the greatest height. */
  for (int level = 0; level < most; level++) {
    for (int32_t i = n; i < 2 * n - 1; i++) {
      const mmci_gradient_node *v = &x->nodes[i];
      if ((back ? v->depth : v->height - 1) == level && (!back || v->wanted))
        out->order[out->count++] = i;
    }
    out->starts[++out->levels] = out->count;
  }
  return MMC_OK;
}

/* Where the cotangent of a product's operand goes, which may take that of the product's
 * own, once: *reuses says whether it is taken. */
static uint64_t place(mmci_gradient_nodes *x, mmci_places *places, int32_t child, int32_t parent,
                      bool *reuses) {
  const mmci_gradient_node *v = &x->nodes[child];
  if (!v->wanted) return UINT64_MAX;
  if (child >= x->n) return v->offset;
  const mmci_gradient_node *own = &x->nodes[parent];
  /* It has as many elements, so that chain t of the batch reads and writes the same bytes. */
  const bool takes_own =
      is_inner(x, parent) && !*reuses && v->bytes > 0 && own->rows * own->cols == v->rows * v->cols;
  x->offsets[child] = takes_own ? x->nodes[parent].offset : mmci_places_take(places, v->bytes);
  *reuses = *reuses || takes_own;
  return x->offsets[child];
}

static void let_go(const mmci_gradient_nodes *x, mmci_places *places, int32_t i) {
  if (is_inner(x, i)) mmci_places_give(places, x->nodes[i].offset, x->nodes[i].bytes);
}

static void find_places(mmci_gradient_nodes *x, mmci_places *places) {
  const int32_t n = x->n;
  for (int32_t i = 0; i < n; i++) x->offsets[i] = UINT64_MAX;
  if (n == 1 && x->nodes[0].wanted) x->offsets[0] = mmci_places_take(places, x->nodes[0].bytes);
  for (int32_t i = n; i < 2 * n - 1; i++)
    if (is_inner(x, i)) x->nodes[i].offset = mmci_places_take(places, x->nodes[i].bytes);
  /* What is below a product without gradients is not read on the way back. */
  for (int32_t i = n; i < 2 * n - 1; i++) {
    if (x->nodes[i].wanted) continue;
    let_go(x, places, x->nodes[i].left);
    let_go(x, places, x->nodes[i].right);
  }
  const way *back = &x->ways[BACK];
  for (int32_t level = 0; level < back->levels; level++) {
    const int32_t end = back->starts[level + 1];
    for (int32_t s = back->starts[level]; s < end; s++) {
      const int32_t i = back->order[s];
      const mmci_gradient_node *v = &x->nodes[i];
      bool reuses = false;
      x->targets[i - n].left = place(x, places, v->left, i, &reuses);
      x->targets[i - n].right = place(x, places, v->right, i, &reuses);
    }
    /* Blocks of a level run beside each other, so that places are free once all of it is done. */
    for (int32_t s = back->starts[level]; s < end; s++) {
      const int32_t i = back->order[s];
      const mmci_gradient_node *v = &x->nodes[i];
      const targets *to = &x->targets[i - n];
      const bool is_kept =
          is_inner(x, i) && v->bytes > 0 && (to->left == v->offset || to->right == v->offset);
      if (!is_kept) let_go(x, places, i);
      if (!x->nodes[v->left].wanted) let_go(x, places, v->left);
      if (!x->nodes[v->right].wanted) let_go(x, places, v->right);
    }
  }
  x->bytes = places->end;
}

/* ---- making -------------------------------------------------------------------------------- */

static mmc_status make_tables(mmci_gradient_nodes *x, way *w, mmci_error *error) {
  const size_t count = w->count > 0 ? (size_t)w->count : 1;
  mmc_status status = MMC_OK;
  for (int t = 0; t < TABLES && status == MMC_OK; t++) {
    table *table = &w->tables[t];
    table->nodes = mmci_alloc_zeroed(count, sizeof *table->nodes);
    if (table->nodes == NULL) return mmci_fail_nomem(error, count * sizeof *table->nodes);
    status = x->ops->alloc(x->device, count * sizeof *table->nodes, &table->on_device, error);
    if (status == MMC_OK) status = x->ops->async->event_create(x->device, &table->done, error);
  }
  return status;
}

static mmc_status prepare(mmci_gradient_nodes *x, const mmci_plan *plan, const bool *wanted,
                          mmci_error *error) {
  const size_t n = (size_t)x->n;
  mmci_places places = {.holes = mmci_alloc_array(3 * n, sizeof *places.holes)};
  x->nodes = mmci_alloc_zeroed(2 * n, sizeof *x->nodes);
  x->targets = mmci_alloc_zeroed(n, sizeof *x->targets);
  x->offsets = mmci_alloc_array(n, sizeof *x->offsets);
  x->made = mmci_alloc_zeroed(n, sizeof *x->made);
  mmc_status status = MMC_OK;
  if (places.holes == NULL || x->nodes == NULL || x->targets == NULL || x->offsets == NULL ||
      x->made == NULL)
    status = mmci_fail_nomem(error, n * sizeof *x->made);
  if (status == MMC_OK) status = mmci_gradient_tree_read(plan, wanted, x->nodes, error);
  if (status == MMC_OK) status = sort(x, false, &x->ways[FORWARD], error);
  if (status == MMC_OK) status = sort(x, true, &x->ways[BACK], error);
  if (status == MMC_OK) find_places(x, &places);
  free(places.holes);
  if (status == MMC_OK) status = x->ops->queue_open(x->device, &x->queue, error);
  for (int w = 0; w < WAYS && status == MMC_OK; w++) status = make_tables(x, &x->ways[w], error);
  return status;
}

mmc_status mmci_gradient_nodes_create(const mmci_plan *plan, const bool *wanted,
                                      const mmci_device_ops *ops, mmci_device *device,
                                      mmci_gradient_nodes **out, mmci_error *error) {
  const mmc_chain *chain = plan->chain;
  int64_t side = 0;
  for (int32_t i = 0; i <= chain->n; i++)
    if (chain->dims[i] > side) side = chain->dims[i];
  if (side > MMCI_NODE_SIDE || mmci_dtype_is_integer(chain->dtype))
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "plan",
                              "expected, on '%s', floating-point matrices of at most %d rows and "
                              "columns, got %s and %" PRId64,
                              ops->name, MMCI_NODE_SIDE, mmc_dtype_name(chain->dtype), side);
  mmci_gradient_nodes *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  x->chain = chain;
  x->ops = ops;
  x->device = device;
  x->n = (int32_t)chain->n;
  x->side = (int)side;
  mmc_status status = prepare(x, plan, wanted, error);
  if (status == MMC_OK)
    *out = x;
  else
    mmci_gradient_nodes_destroy(x);
  return status;
}

/* Waits until nothing that was enqueued reads the table any more. */
static mmc_status await(mmci_gradient_nodes *x, table *table, mmci_error *error) {
  if (!table->pending) return MMC_OK;
  x->ops->async->queue_detach(x->queue);
  mmc_status status = x->ops->async->event_wait(x->queue, table->done, error);
  if (status == MMC_OK) status = x->ops->sync(x->queue, error);
  if (status == MMC_OK) table->pending = false;
  return status;
}

void mmci_gradient_nodes_destroy(mmci_gradient_nodes *x) {
  if (x == NULL) return;
  for (int w = 0; w < WAYS; w++) {
    for (int t = 0; t < TABLES; t++) {
      table *table = &x->ways[w].tables[t];
      (void)await(x, table, NULL);
      if (table->done != NULL) x->ops->async->event_destroy(table->done);
      if (table->on_device != NULL) x->ops->dealloc(x->device, table->on_device);
      free(table->nodes);
    }
    free(x->ways[w].order);
    free(x->ways[w].starts);
  }
  if (x->queue != NULL) x->ops->queue_close(x->queue);
  free(x->nodes);
  free(x->targets);
  free(x->offsets);
  free(x->made);
  free(x);
}

uint64_t mmci_gradient_nodes_bytes(const mmci_gradient_nodes *x) {
  return x->bytes;
}

uint64_t mmci_gradient_nodes_offset(const mmci_gradient_nodes *x, int64_t i) {
  return i >= 0 && i < x->n ? x->offsets[i] : UINT64_MAX;
}

void mmci_gradient_nodes_on_stream(mmci_gradient_nodes *x, void *stream) {
  x->on_stream = true;
  x->stream = stream;
}

/* ---- nodes --------------------------------------------------------------------------------- */

/* The matrices of an execution. */
typedef struct given {
  const mmc_matrix *factors, *end;
  char *memory;
} given;

static mmci_node_matrix in_memory(const mmci_gradient_nodes *x, const given *with, int32_t i,
                                  uint64_t offset) {
  const mmci_gradient_node *v = &x->nodes[i];
  return (mmci_node_matrix){
      .data = with->memory + offset, .ld = v->cols > 0 ? v->cols : 1, .stride = v->rows * v->cols};
}

/* A product, as it is or where its cotangent is. */
static mmci_node_matrix matrix_of(const mmci_gradient_nodes *x, const given *with, int32_t i) {
  if (i >= x->n && i < 2 * x->n - 2) return in_memory(x, with, i, x->nodes[i].offset);
  const mmc_matrix *m = i < x->n ? &with->factors[i] : with->end;
  mmci_form form = {.ld = mmci_matrix_ld(m), .trans = m->layout == MMC_COL_MAJOR};
  if (i < x->n) form = mmci_factor_form(x->chain, i, m, form.ld, 0);
  return (mmci_node_matrix){m->data, form.ld, m->stride, form.trans, form.conj};
}

/* Where the cotangent of an operand goes; that of a factor lies as the factor is stored. */
static mmci_node_matrix cotangent_of(const mmci_gradient_nodes *x, const given *with, int32_t i,
                                     uint64_t offset) {
  if (offset == UINT64_MAX) return (mmci_node_matrix){0};
  mmci_node_matrix to = in_memory(x, with, i, offset);
  const mmc_op op = i < x->n ? x->chain->ops[i] : MMC_OP_N;
  if (op == MMC_OP_N) return to;
  to.trans = true;
  to.conj = op == MMC_OP_H && mmci_dtype_is_complex(x->chain->dtype);
  to.ld = x->nodes[i].rows > 0 ? x->nodes[i].rows : 1;
  return to;
}

static mmci_tree_node node_of(const mmci_gradient_nodes *x, const given *with, int32_t i,
                              bool back) {
  const mmci_gradient_node *v = &x->nodes[i];
  mmci_tree_node node = {0};
  node.m = v->rows;
  node.k = x->nodes[v->left].cols;
  node.n = v->cols;
  node.a = matrix_of(x, with, v->left);
  node.b = matrix_of(x, with, v->right);
  node.c = matrix_of(x, with, i);
  if (!back) return node;
  const targets *to = &x->targets[i - x->n];
  node.da = cotangent_of(x, with, v->left, to->left);
  node.db = cotangent_of(x, with, v->right, to->right);
  return node;
}

/* Finds the table that holds the nodes of these matrices, or puts them into one. */
static mmc_status find_table(mmci_gradient_nodes *x, way *w, const given *with, table **out,
                             mmci_error *error) {
  const size_t bytes = (size_t)w->count * sizeof *x->made;
  for (int32_t s = 0; s < w->count; s++)
    x->made[s] = node_of(x, with, w->order[s], w == &x->ways[BACK]);
  for (int t = 0; t < TABLES; t++) {
    *out = &w->tables[t];
    if ((*out)->filled && memcmp((*out)->nodes, x->made, bytes) == 0) return MMC_OK;
  }
  *out = &w->tables[w->next];
  w->next = (w->next + 1) % TABLES;
  (*out)->filled = false;
  mmc_status status = await(x, *out, error);
  if (status != MMC_OK) return status;
  memcpy((*out)->nodes, x->made, bytes);
  return MMC_OK;
}

static mmc_status upload(mmci_gradient_nodes *x, const way *w, table *table, mmci_error *error) {
  const int64_t bytes = (int64_t)((size_t)w->count * sizeof *x->made);
  const mmci_transfer transfer = {.to = table->on_device,
                                  .from = table->nodes,
                                  .to_pitch = bytes,
                                  .from_pitch = bytes,
                                  .lines = 1,
                                  .line_bytes = bytes};
  mmc_status status = x->ops->async->upload(x->queue, &transfer, error);
  table->filled = status == MMC_OK;
  return status;
}

static mmc_status enqueue(mmci_gradient_nodes *x, way *w, const given *with, mmci_error *error) {
  const mmci_device_async *async = x->ops->async;
  if (w->count == 0 || x->chain->batch == 0) return MMC_OK;
  table *table;
  mmc_status status = find_table(x, w, with, &table, error);
  if (status != MMC_OK) return status;
  if (x->on_stream) async->queue_attach(x->queue, x->stream);
  /* Where it was filled on another stream, that must be done. */
  if (table->pending) status = async->event_wait(x->queue, table->done, error);
  if (status == MMC_OK && !table->filled) status = upload(x, w, table, error);
  const mmci_tree_node *nodes = table->on_device;
  for (int32_t l = 0; l < w->levels && status == MMC_OK; l++)
    status = x->ops->nodes_enqueue(x->queue, x->chain->dtype, x->side, nodes + w->starts[l],
                                   w->starts[l + 1] - w->starts[l], x->chain->batch,
                                   w == &x->ways[BACK], error);
  const mmc_status recorded =
      async->event_record(x->queue, table->done, status == MMC_OK ? error : NULL);
  table->pending = recorded == MMC_OK;
  return status == MMC_OK ? recorded : status;
}

/* ---- executing ----------------------------------------------------------------------------- */

/* Checks that a matrix is where the device finds it. */
static mmc_status check_place(const char *name, int32_t i, const mmc_matrix *matrix,
                              mmci_error *error) {
  if (matrix->location == MMC_DEVICE && matrix->addresses == NULL) return MMC_OK;
  return mmci_fail_argument(
      error, MMC_E_UNSUPPORTED, name,
      "number %" PRId32 ": expected a matrix in the device's memory, of a batch with a stride", i);
}

static mmc_status check(mmci_gradient_nodes *x, const mmc_matrix *factors, const mmc_matrix *end,
                        mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int32_t i = 0; i <= x->n && status == MMC_OK; i++)
    status = check_place(i < x->n ? "factors" : "matrix", i < x->n ? i : 0,
                         i < x->n ? &factors[i] : end, error);
  if (status == MMC_OK && x->on_stream && x->ops->async->is_capturing(x->device, x->stream))
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "stream: a stream that is being captured cannot take gradients");
  return status;
}

/* Ends an execution: waits, unless it is left to the stream. */
static mmc_status end(mmci_gradient_nodes *x, mmc_status status, mmci_error *error) {
  mmc_status waited = MMC_OK;
  if (!x->on_stream) waited = x->ops->sync(x->queue, status == MMC_OK ? error : NULL);
  x->ops->async->queue_detach(x->queue);
  return status == MMC_OK ? waited : status;
}

/* Copies op(A) of every matrix of a batch, rows x cols. */
static mmc_status copy(mmci_gradient_nodes *x, const mmci_node_matrix *from, int64_t rows,
                       int64_t cols, const mmci_node_matrix *to, mmci_error *error) {
  const int64_t element = (int64_t)mmc_dtype_size(x->chain->dtype);
  const mmci_form form = {
      .ld = from->ld, .trans = from->trans != 0, .conj = from->conj != to->conj};
  mmc_status status = MMC_OK;
  if (x->on_stream) x->ops->async->queue_attach(x->queue, x->stream);
  for (int64_t t = 0; t < x->chain->batch && rows > 0 && cols > 0 && status == MMC_OK; t++)
    status = x->ops->async->copy(
        x->queue, x->chain->dtype, rows, cols, mmci_address(from->data, t * from->stride * element),
        &form, mmci_address(to->data, t * to->stride * element), to->ld, to->trans != 0, error);
  return status;
}

/* The product of one factor is the factor. */
static mmc_status copy_single(mmci_gradient_nodes *x, const given *with, bool back,
                              mmci_error *error) {
  const mmci_gradient_node *v = &x->nodes[0];
  const mmc_matrix *m = with->end;
  const mmci_node_matrix end = {m->data, mmci_matrix_ld(m), m->stride, m->layout == MMC_COL_MAJOR,
                                false};
  const mmci_node_matrix factor = matrix_of(x, with, 0),
                         gradient = cotangent_of(x, with, 0, x->offsets[0]);
  if (!back) return copy(x, &factor, v->rows, v->cols, &end, error);
  return x->offsets[0] != UINT64_MAX ? copy(x, &end, v->rows, v->cols, &gradient, error) : MMC_OK;
}

mmc_status mmci_gradient_nodes_forward(mmci_gradient_nodes *x, const mmc_matrix *factors,
                                       void *memory, const mmc_matrix *out, mmci_error *error) {
  const given with = {factors, out, memory};
  mmc_status status = check(x, factors, out, error);
  if (status != MMC_OK) return status;
  status =
      x->n == 1 ? copy_single(x, &with, false, error) : enqueue(x, &x->ways[FORWARD], &with, error);
  return end(x, status, error);
}

mmc_status mmci_gradient_nodes_backward(mmci_gradient_nodes *x, const mmc_matrix *factors,
                                        void *memory, const mmc_matrix *cotangent,
                                        const mmc_matrix *copies, mmci_error *error) {
  const given with = {factors, cotangent, memory};
  mmc_status status = check(x, factors, cotangent, error);
  for (int32_t i = 0; i < x->n && copies != NULL && status == MMC_OK; i++)
    if (x->offsets[i] != UINT64_MAX) status = check_place("gradients", i, &copies[i], error);
  if (status != MMC_OK) return status;
  status =
      x->n == 1 ? copy_single(x, &with, true, error) : enqueue(x, &x->ways[BACK], &with, error);
  for (int32_t i = 0; i < x->n && copies != NULL && status == MMC_OK; i++) {
    if (x->offsets[i] == UINT64_MAX) continue;
    const bool turned = x->chain->ops[i] != MMC_OP_N;
    const int64_t rows = turned ? x->nodes[i].cols : x->nodes[i].rows,
                  cols = turned ? x->nodes[i].rows : x->nodes[i].cols;
    const mmc_matrix *m = &copies[i];
    const mmci_node_matrix to = {m->data, mmci_matrix_ld(m), m->stride, m->layout == MMC_COL_MAJOR,
                                 false};
    const mmci_node_matrix from = {with.memory + x->offsets[i], cols > 0 ? cols : 1, rows * cols,
                                   false, false};
    status = copy(x, &from, rows, cols, &to, error);
  }
  return end(x, status, error);
}
