/* golden_device.c: a module, mmchain-cuda.so, whose devices exist for planners alone: they have the
 * facts of a GPU on every machine, answer what a planner asks, and multiply nothing.
 *
 *     cuda:0   64 GiB, takes groups
 *     cuda:1   1 MiB, takes groups
 *     cuda:2   64 MiB, takes no groups
 *
 * GOLDEN_FREE_BYTES in the environment says how many bytes are free, where not all are.
 *
 * A group of dims up to 128 is taken whatever its tree, and so are two f32 products of larger dims
 * up to 4096. f32 products have three kernels, and the emulated one holds memory while prepared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/facts.h"
#include "device/device.h"

struct mmci_device {
  uint64_t memory_bytes;
  bool takes_groups;
};

struct mmci_kernel {
  char unused;
};

enum { DEVICES = 3, SMALL_SIDE = 128, PAIR_SIDE = 4096, EMULATED_SIDE = 256 };

/* ---- memory ---------------------------------------------------------------------------------- */

static mmc_status memory(mmci_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                         mmci_error *error) {
  (void)error;
  const char *others = getenv("GOLDEN_FREE_BYTES");
  *total_bytes = device->memory_bytes;
  *free_bytes = others != NULL ? strtoull(others, NULL, 10) : device->memory_bytes;
  return MMC_OK;
}

static mmci_device devices[DEVICES] = {
    {UINT64_C(1) << 36, true},
    {UINT64_C(1) << 20, true},
    {UINT64_C(1) << 26, false},
};

static const mmci_device_async async = {.queues = 4, .memory = memory};

/* ---- products ----------------------------------------------------------------------------------
 */

static bool supports(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device, (void)gemm;
  return true;
}

static int variants(mmci_device *device, const mmci_gemm *gemm) {
  (void)device;
  return gemm->dtype == MMC_F32 && gemm->batch <= 1 ? 2 : 0;
}

static bool is_emulated(const mmci_gemm *gemm) {
  return gemm->dtype == MMC_F32 && gemm->precision == MMCI_FAITHFUL && gemm->batch <= 1 &&
         gemm->m >= EMULATED_SIDE && gemm->k >= EMULATED_SIDE && gemm->n >= EMULATED_SIDE;
}

static const char *variant_name(mmc_dtype dtype, int variant) {
  static const char *const names[] = {"golden tile", "golden slices"};
  return dtype == MMC_F32 && variant <= 2 ? names[variant - 1] : NULL;
}

static const char *kernel_name(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device;
  if (gemm->variant == 0 && is_emulated(gemm)) return "golden emulated";
  if (gemm->variant == 0 && gemm->precision == MMCI_FAST) return "golden tf32";
  return gemm->variant > 0 ? variant_name(gemm->dtype, gemm->variant) : "golden gemm";
}

static uint64_t scratch_bytes(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device;
  return is_emulated(gemm) ? 4 * (uint64_t)((gemm->m + gemm->n) * gemm->k) : 0;
}

static mmc_status prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                          mmci_error *error) {
  static mmci_kernel kernel;
  (void)device, (void)gemm, (void)error;
  *out = &kernel;
  return MMC_OK;
}

static void release(mmci_kernel *kernel) {
  (void)kernel;
}

static mmc_status enqueue(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                          const void *b, void *c, mmci_error *error) {
  (void)queue, (void)kernel, (void)a, (void)b, (void)c;
  return mmci_fail(error, MMC_E_DEVICE, "enqueue: this device is for planners alone");
}

/* ---- groups ---------------------------------------------------------------------------------- */

static int64_t side_of(const mmci_group *group) {
  int64_t side = 0;
  for (int32_t p = 0; p < group->count; p++) {
    const int64_t dims[] = {group->products[p].m, group->products[p].k, group->products[p].n};
    for (int d = 0; d < 3; d++) side = dims[d] > side ? dims[d] : side;
  }
  return side;
}

static bool is_small(const mmci_group *group) {
  return side_of(group) <= SMALL_SIDE;
}

static bool group_supports(const mmci_device *device, const mmci_group *group) {
  if (!device->takes_groups || group->variant != 0) return false;
  return is_small(group) ||
         (group->dtype == MMC_F32 && group->count == 2 && side_of(group) <= PAIR_SIDE);
}

static const char *group_name(const mmci_device *device, const mmci_group *group) {
  (void)device;
  return is_small(group) ? "golden group" : "golden pair";
}

static mmc_status group_prepare(mmci_device *device, const mmci_group *group,
                                mmci_group_kernel **out, mmci_error *error) {
  (void)device, (void)group, (void)out;
  return mmci_fail(error, MMC_E_DEVICE, "group_prepare: this device is for planners alone");
}

/* ---- the device --------------------------------------------------------------------------------
 */

static mmc_status probe(int *count, mmci_error *error) {
  (void)error;
  *count = DEVICES;
  return MMC_OK;
}

static void describe(const mmci_device *device, char *text, size_t size) {
  (void)device;
  snprintf(text, size, "facts of a GPU, for planners");
}

static void identify(const mmci_device *device, mmci_identity *out) {
  (void)device;
  *out = (mmci_identity){.model = "golden card", .driver = "golden driver"};
}

/* Of groups of any side the model says what they take. */
static void facts(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                  mmci_facts *out) {
  (void)device;
  *out = mmci_cuda_facts_of(132, dtype, precision);
  out->modelled_side = 0;
  out->variant_name = variant_name;
}

static void shut(mmci_device *device) {
  (void)device;
}

static mmc_status open_device(int index, mmci_device **out, mmci_error *error) {
  (void)error;
  *out = &devices[index];
  return MMC_OK;
}

static const mmci_device_ops ops = {
    .abi = MMCI_DEVICE_ABI,
    .size = sizeof(mmci_device_ops),
    .name = "cuda",
    .probe = probe,
    .open = open_device,
    .close = shut,
    .describe = describe,
    .identify = identify,
    .facts = facts,
    .supports = supports,
    .variants = variants,
    .kernel_name = kernel_name,
    .prepare = prepare,
    .release = release,
    .scratch_bytes = scratch_bytes,
    .enqueue = enqueue,
    .group_supports = group_supports,
    .group_name = group_name,
    .group_prepare = group_prepare,
    .async = &async,
};

MMC_API const mmci_device_ops *mmci_module_entry(void);
const mmci_device_ops *mmci_module_entry(void) {
  return &ops;
}
