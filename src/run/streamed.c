/* streamed.c: multiplies in panels. Two panels of each matrix are on the device, so that the next
 * ones are uploaded and the last one is downloaded while one is multiplied. */
#include "run/streamed.h"

#include <string.h>

#include "base/alloc.h"
#include "base/sizes.h"
#include "plan/panels.h"
#include "run/matrices.h"

/* A matrix of a step, as the panels are cut from it. */
typedef struct side {
  char *data;
  mmci_form form;
  bool on_host;
} side;

/* Room for one panel on the device. */
typedef struct slot {
  char *memory;
  mmci_event *filled, *used; /* events: one recorded after a transfer, one after a product */
  bool in_use;               /* the event used was recorded */
  const char *holds; /* the address that the slot's panel came from; NULL when the slot is empty */
} slot;

/* Panels take turns between two slots. */
typedef struct slots {
  slot pair[2];
  int next;
} slots;

/* A step has so many kernels at most: whole and rest of m, k and n, the first and the further
 * summands. */
enum { MOST_KERNELS = 16 };

typedef struct prepared {
  mmci_gemm gemm;
  mmci_kernel *kernel; /* the kernel; NULL when the entry is free */
} prepared;

struct mmci_streamed {
  mmci_actions *actions;
  const mmci_device_ops *ops;
  const mmci_device_async *async;
  mmci_queue *compute, *uploads, *downloads;
  char *panels; /* panels on the device, of the size that the largest step needs */
  uint64_t panels_bytes;
  slots a, b, c;
  char *workspace; /* the plan's workspace, on the host */
  mmci_operand *operands;
  const mmc_matrix *factors, *out; /* the caller's matrices, during an execution */
  prepared *kernels;               /* MOST_KERNELS kernels for each step, the oldest first */
};

/* ---- creation -------------------------------------------------------------------------------- */

static mmc_status choose_panels(const mmci_streamed *x, int64_t m, int64_t k, int64_t n,
                                mmci_panels *out, mmci_error *error) {
  const mmci_plan *plan = x->actions->plan;
  if (mmci_panels_choose(m, k, n, mmc_dtype_size(plan->chain->dtype),
                         mmci_plan_keeps_k(plan, m, k, n), plan->device_bytes, out))
    return MMC_OK;
  return mmci_fail_argument(error, MMC_E_MEMORY_LIMIT, "device memory",
                            "no panel of a product fits");
}

static mmc_status take_panels(mmci_streamed *x, mmci_error *error) {
  const mmci_plan *plan = x->actions->plan;
  for (int32_t s = 0; s < x->actions->count; s++) {
    const mmci_plan_step *step = &plan->steps[s];
    mmci_panels panels;
    mmc_status status = choose_panels(x, step->m, step->k, step->n, &panels, error);
    if (status != MMC_OK) return status;
    uint64_t bytes = mmci_panels_bytes(&panels, mmc_dtype_size(plan->chain->dtype));
    if (bytes > x->panels_bytes) x->panels_bytes = bytes;
  }
  void *memory;
  mmc_status status = x->ops->alloc(x->actions->device, (size_t)x->panels_bytes, &memory, error);
  if (status == MMC_OK) x->panels = memory;
  return status;
}

static mmc_status create_slots(mmci_streamed *x, slots *pair, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int i = 0; i < 2 && status == MMC_OK; i++) {
    status = x->async->event_create(x->actions->device, &pair->pair[i].filled, error);
    if (status == MMC_OK)
      status = x->async->event_create(x->actions->device, &pair->pair[i].used, error);
  }
  return status;
}

static void destroy_slots(mmci_streamed *x, slots *pair) {
  for (int i = 0; i < 2; i++) {
    if (pair->pair[i].filled != NULL) x->async->event_destroy(pair->pair[i].filled);
    if (pair->pair[i].used != NULL) x->async->event_destroy(pair->pair[i].used);
  }
}

mmc_status mmci_streamed_create(mmci_actions *actions, mmci_streamed **out, mmci_error *error) {
  mmci_streamed *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  const mmci_plan *plan = actions->plan;
  size_t n = (size_t)plan->chain->n;
  *x = (mmci_streamed){.actions = actions, .ops = actions->ops, .async = actions->ops->async};
  x->operands = mmci_alloc_array(n, sizeof *x->operands);
  x->kernels = mmci_alloc_zeroed((size_t)plan->step_count * MOST_KERNELS, sizeof *x->kernels);
  if (plan->workspace_bytes <= SIZE_MAX)
    x->workspace = mmci_alloc_aligned((size_t)plan->workspace_bytes, 1);
  mmc_status status = MMC_OK;
  if (x->operands == NULL || x->kernels == NULL || x->workspace == NULL)
    status = mmci_fail_nomem(error, plan->workspace_bytes);
  mmci_queue **queues[] = {&x->compute, &x->uploads, &x->downloads};
  for (int q = 0; q < 3 && status == MMC_OK; q++)
    status = x->ops->queue_open(actions->device, queues[q], error);
  slots *pairs[] = {&x->a, &x->b, &x->c};
  for (int p = 0; p < 3 && status == MMC_OK; p++) status = create_slots(x, pairs[p], error);
  if (status == MMC_OK) status = take_panels(x, error);
  if (status != MMC_OK) {
    mmci_streamed_destroy(x);
    return status;
  }
  *out = x;
  return MMC_OK;
}

void mmci_streamed_destroy(mmci_streamed *x) {
  if (x == NULL) return;
  mmci_queue *queues[] = {x->uploads, x->compute, x->downloads};
  for (int q = 0; q < 3; q++)
    if (queues[q] != NULL) x->ops->queue_close(queues[q]);
  for (size_t k = 0; x->kernels != NULL && k < (size_t)x->actions->count * MOST_KERNELS; k++)
    if (x->kernels[k].kernel != NULL) x->ops->release(x->kernels[k].kernel);
  destroy_slots(x, &x->a);
  destroy_slots(x, &x->b);
  destroy_slots(x, &x->c);
  if (x->panels != NULL) x->ops->dealloc(x->actions->device, x->panels);
  free(x->workspace);
  free(x->operands);
  free(x->kernels);
  free(x);
}

/* ---- panels ---------------------------------------------------------------------------------- */

static int64_t element_bytes(const mmci_streamed *x) {
  return (int64_t)mmc_dtype_size(x->actions->plan->chain->dtype);
}

/* Returns the address of element (row, column). */
static char *address_of(const mmci_streamed *x, const side *s, int64_t row, int64_t column) {
  int64_t at = mmci_form_place(&s->form, row, column);
  return s->data + at * element_bytes(x);
}

/* Describes the transfer of a panel of rows x cols elements between host and device, where it lies
 * without gaps. */
static mmci_transfer transfer(const mmci_streamed *x, const side *s, int64_t rows, int64_t cols,
                              bool to_device, char *host, char *device) {
  int64_t size = element_bytes(x), length = s->form.trans ? rows : cols;
  mmci_transfer t = {.lines = s->form.trans ? cols : rows, .line_bytes = length * size};
  t.to = to_device ? device : host;
  t.from = to_device ? host : device;
  t.to_pitch = to_device ? length * size : s->form.ld * size;
  t.from_pitch = to_device ? s->form.ld * size : length * size;
  return t;
}

/* Fetches the panel of an operand from (row, column) on, as the product is to read it. */
static mmc_status fetch_panel(mmci_streamed *x, slots *pair, const side *s, int64_t row,
                              int64_t column, int64_t rows, int64_t cols, const void **data,
                              mmci_form *form, slot **taken, mmci_error *error) {
  char *from = address_of(x, s, row, column);
  *data = from;
  *form = s->form;
  *taken = NULL;
  if (!s->on_host || rows == 0 || cols == 0) return MMC_OK;
  form->ld = s->form.trans ? rows : cols;
  for (int i = 0; i < 2; i++)
    if (pair->pair[i].holds == from) *taken = &pair->pair[i];
  mmc_status status = MMC_OK;
  if (*taken == NULL) {
    slot *free_slot = &pair->pair[pair->next];
    pair->next = 1 - pair->next;
    free_slot->holds = NULL;
    if (free_slot->in_use) status = x->async->event_wait(x->uploads, free_slot->used, error);
    mmci_transfer t = transfer(x, s, rows, cols, true, from, free_slot->memory);
    if (status == MMC_OK) status = x->async->upload(x->uploads, &t, error);
    if (status == MMC_OK) status = x->async->event_record(x->uploads, free_slot->filled, error);
    if (status != MMC_OK) return status;
    free_slot->holds = from;
    *taken = free_slot;
  }
  *data = (*taken)->memory;
  return x->async->event_wait(x->compute, (*taken)->filled, error);
}

/* Marks the slot as read last by what the compute queue was given so far. */
static mmc_status leave(mmci_streamed *x, slot *taken, mmci_error *error) {
  if (taken == NULL) return MMC_OK;
  taken->in_use = true;
  return x->async->event_record(x->compute, taken->used, error);
}

/* Returns a prepared product, from among those of the step if it is there. */
static mmc_status prepare_product(mmci_streamed *x, int32_t step, const mmci_gemm *gemm,
                                  mmci_kernel **out, mmci_error *error) {
  prepared *kernels = x->kernels + (size_t)step * MOST_KERNELS, *taken = NULL;
  for (int k = 0; k < MOST_KERNELS && taken == NULL; k++)
    if (kernels[k].kernel == NULL || mmci_gemm_same(&kernels[k].gemm, gemm)) taken = &kernels[k];
  if (taken == NULL) {
    x->ops->release(kernels[0].kernel);
    memmove(kernels, kernels + 1, (MOST_KERNELS - 1) * sizeof *kernels);
    taken = &kernels[MOST_KERNELS - 1];
    taken->kernel = NULL;
  }
  mmc_status status = mmci_actions_prepare(x->actions, gemm, &taken->gemm, &taken->kernel, error);
  *out = taken->kernel;
  return status;
}

/* A step on its way through the device. */
typedef struct passage {
  int32_t step;
  const mmci_gemm *gemm; /* the whole product */
  side a, b, c;
  mmci_panels panels;
} passage;

/* Adds the product of panels (i, l) and (l, j) to panel (i, j) at c, or begins it with that. */
static mmc_status add_panels(mmci_streamed *x, const passage *p, int64_t i, int64_t l, int64_t j,
                             char *c, int64_t ldc, mmci_error *error) {
  int64_t m = mmci_smaller(p->panels.m, p->gemm->m - i),
          k = mmci_smaller(p->panels.k, p->gemm->k - l);
  int64_t n = mmci_smaller(p->panels.n, p->gemm->n - j);
  mmci_gemm gemm = *p->gemm;
  gemm.m = m;
  gemm.k = k;
  gemm.n = n;
  gemm.ldc = ldc;
  gemm.accumulate = l > 0;
  const void *a, *b;
  slot *a_slot, *b_slot;
  mmci_kernel *kernel;
  mmc_status status = fetch_panel(x, &x->a, &p->a, i, l, m, k, &a, &gemm.a, &a_slot, error);
  if (status == MMC_OK)
    status = fetch_panel(x, &x->b, &p->b, l, j, k, n, &b, &gemm.b, &b_slot, error);
  if (status == MMC_OK) status = prepare_product(x, p->step, &gemm, &kernel, error);
  if (status == MMC_OK) status = x->ops->enqueue(x->compute, kernel, a, b, c, error);
  if (status == MMC_OK) status = leave(x, a_slot, error);
  if (status == MMC_OK) status = leave(x, b_slot, error);
  return status;
}

/* Computes panel (i, j) of the result. */
static mmc_status compute_panel(mmci_streamed *x, const passage *p, int64_t i, int64_t j,
                                mmci_error *error) {
  int64_t m = mmci_smaller(p->panels.m, p->gemm->m - i),
          n = mmci_smaller(p->panels.n, p->gemm->n - j);
  char *home = address_of(x, &p->c, i, j), *c = home;
  int64_t ldc = p->c.form.ld;
  slot *taken = NULL;
  mmc_status status = MMC_OK;
  if (p->c.on_host) {
    taken = &x->c.pair[x->c.next];
    x->c.next = 1 - x->c.next;
    c = taken->memory;
    ldc = n;
    if (taken->in_use) status = x->async->event_wait(x->compute, taken->used, error);
  }
  int64_t l = 0;
  do {
    if (status == MMC_OK) status = add_panels(x, p, i, l, j, c, ldc, error);
    l += p->panels.k;
  } while (l < p->gemm->k);
  if (status != MMC_OK || taken == NULL) return status;
  status = x->async->event_record(x->compute, taken->filled, error);
  if (status == MMC_OK) status = x->async->event_wait(x->downloads, taken->filled, error);
  mmci_transfer t = transfer(x, &p->c, m, n, false, home, taken->memory);
  if (status == MMC_OK) status = x->async->download(x->downloads, &t, error);
  taken->in_use = true;
  return status == MMC_OK ? x->async->event_record(x->downloads, taken->used, error) : status;
}

/* Gives the slots their places for panels of this size. */
static void place_slots(mmci_streamed *x, const mmci_panels *panels) {
  size_t size = (size_t)element_bytes(x);
  uint64_t bytes[] = {mmci_result_bytes(panels->m, panels->k, size),
                      mmci_result_bytes(panels->k, panels->n, size),
                      mmci_result_bytes(panels->m, panels->n, size)};
  slots *pairs[] = {&x->a, &x->b, &x->c};
  char *at = x->panels;
  for (int p = 0; p < 3; p++)
    for (int i = 0; i < 2; i++) {
      slot *s = &pairs[p]->pair[i];
      s->memory = at;
      s->holds = NULL;
      s->in_use = false;
      at += bytes[p];
    }
}

static mmc_status compute_step(mmci_streamed *x, passage *p, mmci_error *error) {
  const mmci_gemm *g = p->gemm;
  if (g->m == 0 || g->n == 0) return MMC_OK;
  mmc_status status = choose_panels(x, g->m, g->k, g->n, &p->panels, error);
  if (status != MMC_OK) return status;
  place_slots(x, &p->panels);
  for (int64_t i = 0; i < g->m && status == MMC_OK; i += p->panels.m)
    for (int64_t j = 0; j < g->n && status == MMC_OK; j += p->panels.n)
      status = compute_panel(x, p, i, j, error);
  /* The next step reads what this one writes, and uses its memory. */
  if (status == MMC_OK) status = x->ops->sync(x->compute, error);
  return status == MMC_OK ? x->ops->sync(x->downloads, error) : status;
}

/* ---- execution ------------------------------------------------------------------------------- */

static side operand_side(const mmci_streamed *x, int32_t number, const void *data,
                         const mmci_form *form) {
  bool factor = number < x->actions->plan->chain->n;
  return (side){.data = (char *)data,
                .form = *form,
                .on_host = !factor || x->factors[number].location == MMC_HOST};
}

static mmc_status compute_steps(mmci_streamed *x, mmci_error *error) {
  mmci_actions *actions = x->actions;
  mmc_status status = MMC_OK;
  for (int32_t s = 0; s < actions->count && status == MMC_OK; s++) {
    const mmci_action *action = &actions->actions[s];
    bool last = s == actions->count - 1;
    passage p = {
        .step = s,
        .gemm = &action->gemm,
        .a = operand_side(x, action->a_number, action->a, &action->gemm.a),
        .b = operand_side(x, action->b_number, action->b, &action->gemm.b),
        .c = {.data = action->c,
              .form = {.ld = action->gemm.ldc},
              .on_host = !last || x->out->location == MMC_HOST},
    };
    status = compute_step(x, &p, error);
  }
  return status;
}

/* Multiplies one chain of a batch. */
static mmc_status multiply_chain(mmci_streamed *x, int64_t chain_number, mmci_error *error) {
  const mmc_chain *chain = x->actions->plan->chain;
  for (int32_t i = 0; i < chain->n; i++)
    x->operands[i] = mmci_operand_of(chain, i, &x->factors[i], chain_number);
  mmci_target target = mmci_target_of(chain, x->out, chain_number);
  mmc_status status = mmci_actions_bind(x->actions, x->operands, x->workspace, &target, error);
  return status == MMC_OK ? compute_steps(x, error) : status;
}

mmc_status mmci_streamed_execute(mmci_streamed *x, const mmc_matrix *factors, const mmc_matrix *out,
                                 mmci_error *error) {
  const mmc_chain *chain = x->actions->plan->chain;
  mmc_status status = mmci_matrices_check(chain, factors, out, error);
  if (status != MMC_OK) return status;
  x->factors = factors;
  x->out = out;
  for (int64_t i = 0; i < chain->batch && status == MMC_OK; i++)
    status = multiply_chain(x, i, error);
  if (status == MMC_OK) return status;
  mmci_error ignored;
  (void)x->ops->sync(x->uploads, &ignored);
  (void)x->ops->sync(x->compute, &ignored);
  (void)x->ops->sync(x->downloads, &ignored);
  return status;
}

mmc_status mmci_streamed_enqueue(mmci_streamed *x, void *stream, const mmc_matrix *factors,
                                 const mmc_matrix *out, mmci_error *error) {
  if (x->async->is_capturing(x->actions->device, stream))
    return mmci_fail(error, MMC_E_ARG,
                     "stream: a stream that is being captured cannot take a chain that is streamed "
                     "through the device");
  x->async->queue_attach(x->compute, stream);
  mmc_status status = x->ops->sync(x->compute, error);
  x->async->queue_detach(x->compute);
  return status == MMC_OK ? mmci_streamed_execute(x, factors, out, error) : status;
}
