/* ranges_device.c: see ranges_device.h. */
#include "ranges/ranges_device.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "chain/identity.h"
#include "run/matrices.h"

mmc_status mmci_ranges_device_check(const mmci_ranges *x, mmci_error *error) {
  const mmci_ranges_problem *p = &x->problem;
  if (x->ops->nodes_enqueue == NULL)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device", "'%s' keeps no rows",
                              x->ops->name);
  if (p->semiring != MMC_PLUS_TIMES)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "semiring",
                              "expected plus-times on '%s', got %s", x->ops->name,
                              mmc_semiring_name(p->semiring));
  if (p->scaled)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "scaled", "'%s' keeps no exponents",
                              x->ops->name);
  if (mmci_dtype_is_integer(p->dtype))
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "dtype",
                              "'%s' keeps rows of floating-point or complex elements, got %s",
                              x->ops->name, mmc_dtype_name(p->dtype));
  if (p->side < 1 || p->side > MMCI_NODE_SIDE)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "n",
                              "expected 1 to %d on '%s', got %" PRId64, MMCI_NODE_SIDE,
                              x->ops->name, p->side);
  return MMC_OK;
}

mmc_status mmci_ranges_device_open(mmci_ranges *x, mmci_error *error) {
  x->climbs = x->ops->climb_supports != NULL &&
              x->ops->climb_supports(x->device, x->problem.dtype, x->problem.side);
  return x->ops->async->event_create(x->device, &x->done, error);
}

/* Lets the stream that the queue stands for now wait for what was enqueued before. */
static mmc_status follow(mmci_ranges *x, mmci_error *error) {
  const mmci_device_async *async = x->ops->async;
  if (!x->pending) return MMC_OK;
  if (!x->recorded) {
    async->queue_attach(x->queue, NULL);
    const mmc_status status = async->event_record(x->queue, x->done, error);
    async->queue_detach(x->queue);
    if (x->on_stream) async->queue_attach(x->queue, x->stream);
    if (status != MMC_OK) return status;
    x->recorded = true;
  }
  return async->event_wait(x->queue, x->done, error);
}

/* Waits for all that was enqueued, on whichever stream. */
static mmc_status await(mmci_ranges *x, mmci_error *error) {
  const mmc_status status = follow(x, error);
  return status == MMC_OK ? x->ops->sync(x->queue, error) : status;
}

/* Says whether work goes to CUDA's default stream. That is there as long as the device, so that
 * what follows there on what is there need not wait, and the end is recorded only when another
 * stream is to wait for it. The address of any other stream may be that of a new one by the next
 * call. */
static bool is_on_default(const mmci_ranges *x) {
  return x->on_stream && x->stream == NULL;
}

void mmci_ranges_device_close(mmci_ranges *x) {
  if (x->done == NULL) return;
  x->on_stream = false;
  x->ops->async->queue_detach(x->queue);
  (void)await(x, NULL);
  x->ops->async->event_destroy(x->done);
}

mmc_status mmci_ranges_device_begin(mmci_ranges *x, mmci_error *error) {
  const mmci_device_async *async = x->ops->async;
  if (x->on_stream) {
    if (async->is_capturing(x->device, x->stream))
      return mmci_fail(error, MMC_E_UNSUPPORTED,
                       "stream: a stream that is being captured cannot take ranges");
    async->queue_attach(x->queue, x->stream);
  }
  return is_on_default(x) && !x->recorded ? MMC_OK : follow(x, error);
}

mmc_status mmci_ranges_device_end(mmci_ranges *x, mmc_status status, mmci_error *error) {
  const mmci_device_async *async = x->ops->async;
  mmci_error *told = status == MMC_OK ? error : NULL;
  mmc_status ended = MMC_OK;
  if (is_on_default(x)) {
    x->pending = true;
    x->recorded = false;
  } else {
    ended = async->event_record(x->queue, x->done, told);
    if (ended == MMC_OK) x->pending = x->recorded = true;
  }
  if (ended == MMC_OK && !x->on_stream) ended = x->ops->sync(x->queue, told);
  async->queue_detach(x->queue);
  return status == MMC_OK ? ended : status;
}

/* ---- copies -------------------------------------------------------------------------------- */

/* Copies runs of so many elements that begin from_step and to_step elements apart. */
static mmc_status copy_runs(mmci_ranges *x, int64_t count, int64_t length, const void *from,
                            int64_t from_step, void *to, int64_t to_step, mmci_error *error) {
  const mmci_form form = {.ld = count > 1 ? from_step : length};
  return x->ops->async->copy(x->queue, x->problem.dtype, count, length, from, &form, to,
                             count > 1 ? to_step : length, false, error);
}

static int64_t one_of(const mmci_ranges *x) {
  return x->problem.side * x->problem.side;
}

static int64_t step_of(const mmci_ranges *x) {
  return (int64_t)(x->value_bytes / x->element);
}

static bool has_no_gaps(const mmci_ranges *x, const mmc_matrix *m) {
  return m->layout == MMC_ROW_MAJOR && mmci_matrix_ld(m) == x->problem.side;
}

/* Copies a matrix of each chain of the batch to a node, or from one. */
static mmc_status copy_batch(mmci_ranges *x, const mmc_matrix *m, char *node, bool reads_node,
                             mmci_error *error) {
  const mmci_ranges_problem *p = &x->problem;
  const int64_t one = one_of(x), ld = mmci_matrix_ld(m);
  if (has_no_gaps(x, m) && (p->batch == 1 || m->stride >= one))
    return reads_node ? copy_runs(x, p->batch, one, node, one, m->data, m->stride, error)
                      : copy_runs(x, p->batch, one, m->data, m->stride, node, one, error);
  const bool trans = m->layout == MMC_COL_MAJOR;
  const mmci_form from = {.ld = reads_node ? p->side : ld, .trans = !reads_node && trans};
  mmc_status status = MMC_OK;
  for (int64_t t = 0; t < p->batch && status == MMC_OK; t++) {
    void *theirs = mmci_matrix_of_batch(m, p->dtype, t).data;
    char *ours = node + (size_t)(t * one) * x->element;
    status = x->ops->async->copy(x->queue, p->dtype, p->side, p->side, reads_node ? ours : theirs,
                                 &from, reads_node ? theirs : ours, reads_node ? ld : p->side,
                                 reads_node && trans, error);
  }
  return status;
}

/* How many factors from the first on lie in rows without gaps, *step elements apart, and go to
 * slots that follow each other. */
static int64_t count_even(const mmci_ranges *x, int64_t position, int64_t count,
                          const mmc_matrix *factors, int64_t *step) {
  const int64_t slots = x->tree.levels[0].slots, left = slots - position % slots;
  const int64_t element = (int64_t)x->element;
  int64_t even = 1, apart = 0;
  for (; even < count && even < left; even++) {
    const mmc_matrix *before = &factors[even - 1], *m = &factors[even];
    const int64_t now = (int64_t)((intptr_t)m->data - (intptr_t)before->data);
    if (!has_no_gaps(x, before) || !has_no_gaps(x, m) || m->stride != before->stride) break;
    if (now % element != 0 || now / element < one_of(x) || (even > 1 && now != apart)) break;
    apart = now;
  }
  *step = apart / element;
  return even;
}

mmc_status mmci_ranges_device_write(mmci_ranges *x, int64_t position, int64_t count,
                                    const mmc_matrix *factors, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int64_t i = 0; i < count && status == MMC_OK;) {
    int64_t step;
    const int64_t even = count_even(x, position + i, count - i, factors + i, &step);
    char *to = mmci_ranges_value(x, 0, position + i);
    if (even == 1) status = copy_batch(x, &factors[i], to, false, error);
    for (int64_t t = 0; even > 1 && t < x->problem.batch && status == MMC_OK; t++)
      status =
          copy_runs(x, even, one_of(x), mmci_matrix_of_batch(&factors[i], x->problem.dtype, t).data,
                    step, to + (size_t)(t * one_of(x)) * x->element, step_of(x), error);
    i += even;
  }
  return status;
}

mmc_status mmci_ranges_device_read(mmci_ranges *x, const char *from, const mmc_matrix *out,
                                   mmci_error *error) {
  return copy_batch(x, out, (char *)from, true, error);
}

mmc_status mmci_ranges_device_move(mmci_ranges *x, const char *from, char *to, int64_t count,
                                   mmci_error *error) {
  return copy_runs(x, count, step_of(x), from, step_of(x), to, step_of(x), error);
}

mmc_status mmci_ranges_device_identity(mmci_ranges *x, char *to, mmci_error *error) {
  const int64_t bytes = (int64_t)x->value_bytes;
  char *made = mmci_alloc_zeroed(1, x->value_bytes);
  if (made == NULL) return mmci_fail_nomem(error, x->value_bytes);
  for (int64_t t = 0; t < x->problem.batch; t++)
    mmci_write_identity(x->problem.dtype, x->problem.semiring, x->problem.side,
                        made + (size_t)(t * one_of(x)) * x->element);
  const mmci_transfer transfer = {.to = to,
                                  .from = made,
                                  .to_pitch = bytes,
                                  .from_pitch = bytes,
                                  .lines = 1,
                                  .line_bytes = bytes};
  mmc_status status = x->ops->async->upload(x->queue, &transfer, error);
  const mmc_status waited = x->ops->sync(x->queue, status == MMC_OK ? error : NULL);
  free(made);
  return status == MMC_OK ? waited : status;
}

/* ---- products ------------------------------------------------------------------------------ */

static mmc_status multiply_nodes(mmci_ranges *x, int64_t count, const char *const *a,
                                 const char *const *b, char *const *c, mmci_error *error) {
  mmci_ranges_tree *tree = &x->tree;
  const int64_t side = x->problem.side;
  mmc_status status = MMC_OK;
  /* Tables that were enqueued before are read until then. */
  if (tree->nodes_used + count > tree->nodes_room) {
    status = x->ops->sync(x->queue, error);
    tree->nodes_used = 0;
  }
  if (status != MMC_OK) return status;
  mmci_tree_node *nodes = tree->nodes + tree->nodes_used;
  mmci_tree_node *there = (mmci_tree_node *)tree->device_nodes + tree->nodes_used;
  const mmci_node_matrix one = {.ld = side, .stride = side * side};
  for (int64_t i = 0; i < count; i++) {
    nodes[i] = (mmci_tree_node){.m = side, .k = side, .n = side, .a = one, .b = one, .c = one};
    nodes[i].a.data = (char *)a[i];
    nodes[i].b.data = (char *)b[i];
    nodes[i].c.data = c[i];
  }
  const int64_t bytes = count * (int64_t)sizeof *nodes;
  const mmci_transfer transfer = {.to = there,
                                  .from = nodes,
                                  .to_pitch = bytes,
                                  .from_pitch = bytes,
                                  .lines = 1,
                                  .line_bytes = bytes};
  tree->nodes_used += count;
  status = x->ops->async->upload(x->queue, &transfer, error);
  if (status != MMC_OK) return status;
  return x->ops->nodes_enqueue(x->queue, x->problem.dtype, (int)side, there, count,
                               x->problem.batch, false, error);
}

mmc_status mmci_ranges_device_climb(mmci_ranges *x, mmci_climb *climb, mmci_error *error) {
  climb->side = x->problem.side;
  climb->result = x->out;
  mmc_status status =
      x->ops->climb_enqueue(x->queue, x->problem.dtype, climb, x->problem.batch, error);
  if (status != MMC_OK) return status;
  if (x->out != NULL) x->out_is = climb->steps[climb->count - 1].out;
  x->products += climb->count;
  return MMC_OK;
}

mmc_status mmci_ranges_device_multiply(mmci_ranges *x, int64_t count, const char *const *a,
                                       const char *const *b, char *const *c, mmci_error *error) {
  if (count == 1 && x->climbs) {
    mmci_climb climb = {.first = a[0], .count = 1, .steps = {{b[0], c[0], 0}}};
    return mmci_ranges_device_climb(x, &climb, error);
  }
  mmc_status status = MMC_OK;
  for (int64_t i = 0; i < count && status == MMC_OK;) {
    const int64_t now = count - i < x->tree.nodes_room ? count - i : x->tree.nodes_room;
    status = multiply_nodes(x, now, a + i, b + i, c + i, error);
    i += now;
  }
  if (status == MMC_OK) x->products += count;
  return status;
}
