/* toy_device.c: the device "toy" of docs/howto-device.md: it multiplies f64 on the host, in plain
 * loops, and tells facts of its own. */
#include <stdio.h>

#include "base/alloc.h"
#include "device/host.h"
#include "device/ref/ref.h"
#include "howto/toy_device.h"

struct mmci_kernel {
  mmci_gemm gemm;
};

static void describe(const mmci_device *device, char *text, size_t size) {
  (void)device;
  snprintf(text, size, "loops that are slow to start");
}

/* Sums of few terms reach little of the peak: those of 10^6 terms reach half of it. */
static void facts(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                  mmci_facts *out) {
  (void)device, (void)precision;
  *out = (mmci_facts){.flops_per_s = dtype == MMC_F64 ? 1e9 : 0,
                      .bytes_per_s = 1e12,
                      .launch_s = 1e-6,
                      .half_k = 1e6,
                      .overlap = 1,
                      .static_w = 60,
                      .joules_per_flop = 1e-9,
                      .workers = 1,
                      .tile = 1};
}

static bool supports(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device;
  return gemm->dtype == MMC_F64 && gemm->batch <= 1 && gemm->sums == MMCI_SUMS_CHAIN;
}

static const char *kernel_name(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device, (void)gemm;
  return "toy loops";
}

static mmc_status prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                          mmci_error *error) {
  if (!supports(device, gemm) || gemm->variant != 0)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "product: expected f64 and variant 0");
  mmci_kernel *kernel = malloc(sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  kernel->gemm = *gemm;
  *out = kernel;
  return MMC_OK;
}

static void release(mmci_kernel *kernel) {
  free(kernel);
}

static mmc_status enqueue(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                          const void *b, void *c, mmci_error *error) {
  (void)queue, (void)error;
  mmci_ref_gemm(&kernel->gemm, a, b, c);
  return MMC_OK;
}

const mmci_device_ops toy_device = {
    .abi = MMCI_DEVICE_ABI,
    .size = sizeof(mmci_device_ops),
    .name = "toy",
    .probe = mmci_host_probe,
    .open = mmci_host_open,
    .close = mmci_host_close,
    .describe = describe,
    .facts = facts,
    .supports = supports,
    .variants = mmci_host_variants,
    .kernel_name = kernel_name,
    .prepare = prepare,
    .release = release,
    .queue_open = mmci_host_queue_open,
    .queue_close = mmci_host_queue_close,
    .enqueue = enqueue,
    .sync = mmci_host_sync,
    .alloc = mmci_host_alloc,
    .dealloc = mmci_host_dealloc,
};
