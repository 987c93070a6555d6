/* api_memory.c: the public calls about memory of a device. */
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"

struct mmc_memory {
  mmc_context *context;
  mmci_opened on;
  mmci_queue *queue;
  char *address;
  size_t size_bytes;
};

static mmc_status create_memory(mmc_memory *memory, const char *device, mmci_error *error) {
  const mmci_gang *gang;
  if (device == NULL) device = "cpu";
  mmc_status status;
  if (mmci_device_names_several(device)) {
    status = mmci_context_open_gang(memory->context, device, 0, &gang, error);
    if (status == MMC_OK) memory->on = gang->cards.opened[0];
  } else {
    status = mmci_context_open_device(memory->context, device, &memory->on, error);
  }
  if (status != MMC_OK) return status;
  if (memory->on.ops->alloc == NULL)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device", "'%s' has no memory for matrices",
                              memory->on.name);
  status = memory->on.ops->queue_open(memory->on.device, &memory->queue, error);
  if (status != MMC_OK || memory->size_bytes == 0) return status;
  void *address = NULL;
  status = memory->on.ops->alloc(memory->on.device, memory->size_bytes, &address, error);
  memory->address = address;
  return status;
}

mmc_status mmc_memory_create(mmc_context *context, const char *device, size_t size_bytes,
                             mmc_memory **out) {
  if (context == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(context, "out");
  mmci_error error = {0};
  mmc_memory *memory = mmci_alloc_zeroed(1, sizeof *memory);
  if (memory == NULL) return mmci_report(context, mmci_fail_nomem(&error, sizeof *memory), &error);
  memory->context = context;
  memory->size_bytes = size_bytes;
  mmc_status status = create_memory(memory, device, &error);
  if (status == MMC_OK)
    *out = memory;
  else
    mmc_memory_destroy(memory);
  return mmci_report(context, status, &error);
}

void mmc_memory_destroy(mmc_memory *memory) {
  if (memory == NULL) return;
  if (memory->queue != NULL) memory->on.ops->queue_close(memory->queue);
  if (memory->address != NULL) memory->on.ops->dealloc(memory->on.device, memory->address);
  free(memory);
}

void *mmc_memory_address(const mmc_memory *memory) {
  return memory != NULL ? memory->address : NULL;
}

/* ---- copies -------------------------------------------------------------------------------- */

/* name is that of the argument host. */
static mmc_status check_range(const mmc_memory *memory, size_t offset, const char *name,
                              const void *host, size_t size, mmci_error *error) {
  if (offset > memory->size_bytes)
    return mmci_fail(error, MMC_E_ARG, "offset: expected at most %zu, got %zu", memory->size_bytes,
                     offset);
  if (size > memory->size_bytes - offset)
    return mmci_fail(error, MMC_E_ARG, "size: expected at most %zu bytes from offset %zu, got %zu",
                     memory->size_bytes - offset, offset, size);
  if (host == NULL && size > 0)
    return mmci_fail(error, MMC_E_ARG, "%s: expected host memory, got NULL", name);
  return MMC_OK;
}

mmc_status mmc_memory_write(mmc_memory *memory, size_t offset, const void *from, size_t size) {
  if (memory == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  const mmci_device_async *async = memory->on.ops->async;
  mmc_status status = check_range(memory, offset, "from", from, size, &error);
  if (status == MMC_OK && size > 0 && async == NULL) memcpy(memory->address + offset, from, size);
  if (status == MMC_OK && size > 0 && async != NULL) {
    mmci_transfer all = {
        .to = memory->address + offset, .from = from, .lines = 1, .line_bytes = (int64_t)size};
    status = async->upload(memory->queue, &all, &error);
    if (status == MMC_OK) status = memory->on.ops->sync(memory->queue, &error);
  }
  return mmci_report(memory->context, status, &error);
}

mmc_status mmc_memory_read(mmc_memory *memory, size_t offset, void *to, size_t size) {
  if (memory == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  const mmci_device_async *async = memory->on.ops->async;
  mmc_status status = check_range(memory, offset, "to", to, size, &error);
  if (status == MMC_OK && size > 0 && async == NULL) memcpy(to, memory->address + offset, size);
  if (status == MMC_OK && size > 0 && async != NULL) {
    mmci_transfer all = {
        .to = to, .from = memory->address + offset, .lines = 1, .line_bytes = (int64_t)size};
    status = async->download(memory->queue, &all, &error);
    if (status == MMC_OK) status = memory->on.ops->sync(memory->queue, &error);
  }
  return mmci_report(memory->context, status, &error);
}
