/* cards_paper.c: the facts of a card, and nothing that works. */
#include "ranks/cards_paper.h"

#include <stdio.h>

#include "base/dtype.h"

struct mmci_device {
  int nothing;
};

static mmci_device PAPER;

/* Bytes of memory of an H200. */
static const uint64_t MEMORY_BYTES = UINT64_C(150) * 1000 * 1000 * 1000;

static mmc_status probe(int *count, mmci_error *error) {
  (void)error;
  *count = 1;
  return MMC_OK;
}

static mmc_status open_paper(int index, mmci_device **out, mmci_error *error) {
  (void)index, (void)error;
  *out = &PAPER;
  return MMC_OK;
}

static void close_paper(mmci_device *device) {
  (void)device;
}

static void describe(const mmci_device *device, char *text, size_t size) {
  (void)device;
  snprintf(text, size, "an NVIDIA H200 that is not here");
}

/* Measured rates of an H200's large products, of which f32 may be TF32 where precision is fast and
 * emulated where it is faithful. */
static void facts(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                  mmci_facts *out) {
  static const double flops_per_s[] = {[MMC_F32] = 5.2e13,  [MMC_F64] = 5.6e13, [MMC_C64] = 5.2e13,
                                       [MMC_C128] = 5.6e13, [MMC_F16] = 7e14,   [MMC_BF16] = 7e14};
  (void)device;
  *out = (mmci_facts){0};
  if (mmci_dtype_is_integer(dtype)) return;
  const bool single = dtype == MMC_F32 || dtype == MMC_C64;
  *out = (mmci_facts){.flops_per_s = single && precision == MMCI_FAST       ? 4.4e14
                                     : single && precision == MMCI_FAITHFUL ? 1.3e14
                                                                            : flops_per_s[dtype],
                      .bytes_per_s = 4e12,
                      .launch_s = 4e-6,
                      .half_mn = 64,
                      .half_k = 64,
                      .overlap = 1,
                      .static_w = 120,
                      .joules_per_flop = 8e-12,
                      .joules_per_byte = 4e-11,
                      .workers = 132,
                      .tile = 128};
}

static bool supports(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device;
  return !mmci_dtype_is_integer(gemm->dtype);
}

static int variants(mmci_device *device, const mmci_gemm *gemm) {
  (void)device, (void)gemm;
  return 0;
}

static const char *kernel_name(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device, (void)gemm;
  return "not here";
}

static mmc_status fail(mmci_error *error) {
  return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device", "the cards are not here");
}

static mmc_status prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                          mmci_error *error) {
  (void)device, (void)gemm, (void)out;
  return fail(error);
}

static void release(mmci_kernel *kernel) {
  (void)kernel;
}

static mmc_status queue_open(mmci_device *device, mmci_queue **out, mmci_error *error) {
  (void)device, (void)out;
  return fail(error);
}

static void queue_close(mmci_queue *queue) {
  (void)queue;
}

static mmc_status enqueue(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                          const void *b, void *c, mmci_error *error) {
  (void)queue, (void)kernel, (void)a, (void)b, (void)c;
  return fail(error);
}

static mmc_status sync(mmci_queue *queue, mmci_error *error) {
  (void)queue;
  return fail(error);
}

static mmc_status alloc_memory(mmci_device *device, size_t size_bytes, void **out,
                               mmci_error *error) {
  (void)device, (void)size_bytes, (void)out;
  return fail(error);
}

static void dealloc(mmci_device *device, void *memory) {
  (void)device, (void)memory;
}

static mmc_status memory(mmci_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                         mmci_error *error) {
  (void)device, (void)error;
  *free_bytes = *total_bytes = MEMORY_BYTES;
  return MMC_OK;
}

static const mmci_device_async ASYNC = {.queues = 1, .memory = memory};

const mmci_device_ops mmci_device_paper = {
    .abi = MMCI_DEVICE_ABI,
    .size = sizeof(mmci_device_ops),
    .name = "paper",
    .probe = probe,
    .open = open_paper,
    .close = close_paper,
    .describe = describe,
    .facts = facts,
    .supports = supports,
    .variants = variants,
    .kernel_name = kernel_name,
    .prepare = prepare,
    .release = release,
    .queue_open = queue_open,
    .queue_close = queue_close,
    .enqueue = enqueue,
    .sync = sync,
    .alloc = alloc_memory,
    .dealloc = dealloc,
    .async = &ASYNC,
};
