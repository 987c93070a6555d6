#include "device_stacks.h"

/* Memory of the device in which the test has put the bytes of the host's, or that memory itself. */
static mmc_status place_bytes(const subject *on, void *host, size_t bytes, void **out,
                              mmci_error *error) {
  *out = host;
  if (!has_own_memory(on)) return MMC_OK;
  *out = NULL;
  return on->ops->alloc(on->device, bytes, out, error);
}

static mmc_status move(const subject *on, mmci_queue *queue, void *host, void *device, size_t bytes,
                       bool up, mmci_error *error) {
  const int64_t size = (int64_t)bytes;
  const mmci_transfer whole = {up ? device : host, up ? host : device, size, size, 1, size};
  return up ? on->ops->async->upload(queue, &whole, error)
            : on->ops->async->download(queue, &whole, error);
}

/* Fills the table of a gathered stack's addresses, and waits until the device has it. */
static mmc_status make_table(stack *x, const subject *on, mmci_error *error) {
  const size_t bytes = (size_t)x->batch * sizeof(void *);
  x->host_table = (void **)malloc(bytes);
  if (x->host_table == NULL) return mmci_fail_nomem(error, bytes);
  for (int64_t i = 0; i < x->batch; i++) x->host_table[i] = address(x, i);
  mmc_status status = place_bytes(on, (void *)x->host_table, bytes, &x->table, error);
  if (status != MMC_OK || !has_own_memory(on)) return status;
  status = move(on, on->queue, (void *)x->host_table, x->table, bytes, true, error);
  return status == MMC_OK ? on->ops->sync(on->queue, error) : status;
}

bool device_stack_create(stack *x, const subject *on, mmc_dtype dtype, int64_t rows, int64_t cols,
                         int64_t batch, mmci_form form, int shift) {
  mmci_error error = {0};
  if (!stack_lay_out(x, dtype, rows, cols, batch, form, shift))
    return expect(false, "the test is out of memory");
  mmc_status status = place_bytes(on, x->host, x->bytes, &x->device, &error);
  if (status == MMC_OK && form.gathered) status = make_table(x, on, &error);
  return expect_ok(status, &error, "a stack of matrices");
}

void device_stack_destroy(stack *x, const subject *on) {
  if (has_own_memory(on)) {
    on->ops->dealloc(on->device, x->device);
    on->ops->dealloc(on->device, x->table);
  }
  free(x->host);
  free((void *)x->host_table);
  *x = (stack){.host = NULL};
}

mmc_status device_stack_upload(const stack *x, const subject *on, mmci_queue *queue,
                               mmci_error *error) {
  if (!has_own_memory(on)) return MMC_OK;
  return move(on, queue, x->host, x->device, x->bytes, true, error);
}

mmc_status device_stack_download(const stack *x, const subject *on, mmci_queue *queue,
                                 mmci_error *error) {
  mmc_status status = MMC_OK;
  if (has_own_memory(on)) status = move(on, queue, x->host, x->device, x->bytes, false, error);
  return status == MMC_OK ? on->ops->sync(queue, error) : status;
}

void *device_stack_argument(const stack *x) {
  return x->form.gathered ? x->table : (void *)((unsigned char *)x->device + x->first);
}
