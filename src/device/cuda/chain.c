/* chain.c: chains of small factors on a CUDA device: which of the kernels of chain.h does one. */
#include "device/cuda/chain.h"

#include <stdint.h>

#include "base/alloc.h"
#include "device/cuda/cuda_device.h"

enum { VECTOR_BYTES = 16, HOPPER = 9, EQUAL_BATCH = 2, STATIC_SHARED_BYTES = 4096 };

typedef enum way { NOTHING, EQUAL, STEPS, SPINES, NO_WAY } way;

/* Variants that name a way; 0 takes the first that does the chain. */
enum { VARIANT_STEPS = 1, VARIANT_SPINES = 2, VARIANTS };

struct mmci_chain_kernel {
  mmci_device *device;
  mmci_chain_limits limits;
  mmc_dtype dtype;
  way way;
  int32_t n;
  int64_t side; /* EQUAL */
  mmci_equal equal;
  mmci_steps steps;    /* EQUAL and STEPS */
  mmci_spines *spines; /* SPINES */
};

static mmci_chain_limits limits_of(const mmci_device *device) {
  return (mmci_chain_limits){
      .multiprocessors = device->properties.multiProcessorCount,
      .shared_bytes = device->properties.sharedMemPerBlockOptin - STATIC_SHARED_BYTES,
      .overlap = device->properties.major >= HOPPER};
}

/* ---- what is asked --------------------------------------------------------------------------- */

static bool is_small(const mmci_device_chain *chain) {
  if (chain->n < 1 || chain->count < 1 || chain->batch < 1 || chain->ldc < 1 ||
      (unsigned)chain->dtype > MMC_BF16 || chain->variant < 0 || chain->variant >= VARIANTS)
    return false;
  for (int i = 0; i < chain->n; i++)
    if (chain->forms[i].ld < 1) return false;
  for (int s = 0; s < chain->count; s++) {
    const mmci_chain_step *step = &chain->products[s];
    const int64_t sizes[] = {step->m, step->k, step->n};
    for (int t = 0; t < 3; t++)
      if (sizes[t] < 0 || sizes[t] > MMCI_CHAIN_SIDE) return false;
    if (step->left < 0 || step->right < 0 || step->left >= chain->n + s ||
        step->right >= chain->n + s)
      return false;
  }
  return true;
}

/* The side of equal squares that chain_equal.cu takes, or 0. */
static int64_t equal_side(const mmci_device_chain *chain) {
  const int64_t side = chain->products[0].m, words = VECTOR_BYTES / (int64_t)sizeof(float);
  if (chain->dtype != MMC_F32 || chain->n > MMCI_EQUAL_FACTORS || chain->count != chain->n - 1 ||
      chain->batch < EQUAL_BATCH || chain->batch > INT32_MAX || !mmci_equal_has(side) ||
      chain->ldc != side || chain->c_gathered || chain->c_stride % words != 0)
    return 0;
  for (int i = 0; i < chain->n; i++) {
    const mmci_form *form = &chain->forms[i];
    if (form->trans || form->gathered || form->ld != side || form->stride % words != 0) return 0;
  }
  for (int s = 0; s < chain->count; s++) {
    const mmci_chain_step *step = &chain->products[s];
    if (step->m != side || step->k != side || step->n != side ||
        step->left != (s == 0 ? 0 : chain->n + s - 1) || step->right != s + 1)
      return 0;
  }
  return side;
}

/* Fills in the way, and steps where it is used. */
static void choose_way(const mmci_device_chain *chain, mmci_chain_kernel *kernel) {
  const mmci_chain_step *last = &chain->products[chain->count - 1];
  kernel->dtype = chain->dtype;
  kernel->n = chain->n;
  if (last->m == 0 || last->n == 0) {
    kernel->way = NOTHING;
    return;
  }
  const bool alone = chain->batch == 1 && mmci_spines_suit(&kernel->limits, chain);
  if (chain->variant == VARIANT_SPINES || (chain->variant == 0 && alone)) {
    kernel->way = mmci_spines_can(chain) ? SPINES : NO_WAY;
  } else if (mmci_steps_plan(&kernel->limits, chain, &kernel->steps)) {
    kernel->side = chain->variant == 0 ? equal_side(chain) : 0;
    kernel->way = kernel->side != 0 ? EQUAL : STEPS;
  } else {
    kernel->way = chain->variant == 0 && mmci_spines_can(chain) ? SPINES : NO_WAY;
  }
}

static way way_of(const mmci_device *device, const mmci_device_chain *chain) {
  mmci_chain_kernel kernel = {.limits = limits_of(device)};
  if (!is_small(chain)) return NO_WAY;
  choose_way(chain, &kernel);
  return kernel.way;
}

bool mmci_cuda_chain_supports(const mmci_device *device, const mmci_device_chain *chain) {
  return way_of(device, chain) != NO_WAY;
}

const char *mmci_cuda_chain_name(const mmci_device *device, const mmci_device_chain *chain) {
  static const char *const NAMES[] = {[NOTHING] = "nothing",
                                      [EQUAL] = "chain of equal squares",
                                      [STEPS] = "chain in steps",
                                      [SPINES] = "chain in spines",
                                      [NO_WAY] = "none"};
  return NAMES[way_of(device, chain)];
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void fill_equal(const mmci_device_chain *chain, mmci_equal *equal) {
  *equal = (mmci_equal){.c_stride = chain->c_stride, .batch = chain->batch, .n = chain->n};
  for (int i = 0; i < chain->n; i++) equal->stride[i] = chain->forms[i].stride;
}

static mmc_status fill(mmci_chain_kernel *kernel, const mmci_device_chain *chain,
                       mmci_error *error) {
  mmc_status status = MMC_OK;
  if (!is_small(chain)) {
    kernel->way = NO_WAY;
  } else {
    choose_way(chain, kernel);
  }
  switch (kernel->way) {
    case NOTHING:
      break;
    case EQUAL:
      fill_equal(chain, &kernel->equal);
      status = mmci_equal_prepare(kernel->side, error);
      if (status != MMC_OK) break;
      /* Addresses that are not aligned go there. */
      status = mmci_steps_prepare(kernel->dtype, &kernel->steps, error);
      break;
    case STEPS:
      status = mmci_steps_prepare(kernel->dtype, &kernel->steps, error);
      break;
    case SPINES:
      status = mmci_spines_create(&kernel->limits, chain, &kernel->spines, error);
      break;
    case NO_WAY:
      status = mmci_fail(error, MMC_E_UNSUPPORTED,
                         "chain: expected factors of at most %d x %d that fit in the memory of a "
                         "multiprocessor, and variant 0 to %d, got others",
                         MMCI_CHAIN_SIDE, MMCI_CHAIN_SIDE, VARIANTS - 1);
      break;
  }
  return status;
}

mmc_status mmci_cuda_chain_prepare(mmci_device *device, const mmci_device_chain *chain,
                                   mmci_chain_kernel **out, mmci_error *error) {
  MMCI_CUDA_ON(device);
  mmci_chain_kernel *kernel = mmci_alloc_zeroed(1, sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  kernel->device = device;
  kernel->limits = limits_of(device);
  mmc_status status = fill(kernel, chain, error);
  if (status == MMC_OK)
    *out = kernel;
  else
    mmci_cuda_chain_release(kernel);
  return status;
}

void mmci_cuda_chain_release(mmci_chain_kernel *kernel) {
  if (kernel == NULL) return;
  MMCI_CUDA_ON_ANYHOW(kernel->device);
  mmci_spines_destroy(kernel->spines);
  free(kernel);
}

static bool is_aligned(const void *address) {
  return (uintptr_t)address % VECTOR_BYTES == 0;
}

static bool all_aligned(const mmci_chain_kernel *kernel, const void *const *operands,
                        const void *c) {
  bool aligned = is_aligned(c);
  for (int i = 0; i < kernel->n; i++) aligned = aligned && is_aligned(operands[i]);
  return aligned;
}

static mmc_status enqueue_equal(mmci_queue *queue, const mmci_chain_kernel *kernel,
                                const void *const *operands, void *c, mmci_error *error) {
  mmci_equal equal = kernel->equal;
  for (int i = 0; i < kernel->n; i++) equal.data[i] = operands[i];
  equal.c = c;
  return mmci_equal_launch(queue->stream, &kernel->limits, kernel->side, &equal, error);
}

static mmc_status enqueue_steps(mmci_queue *queue, const mmci_chain_kernel *kernel,
                                const void *const *operands, void *c, mmci_error *error) {
  mmci_steps steps = kernel->steps;
  for (int l = 0; l < steps.loads; l++) {
    mmci_steps_load *load = &steps.load[l];
    load->data = operands[load->operand];
    load->wide = load->wide && is_aligned(load->data);
  }
  steps.c = c;
  return mmci_steps_launch(queue->stream, &kernel->limits, kernel->dtype, &steps, error);
}

mmc_status mmci_cuda_chain_enqueue(mmci_queue *queue, const mmci_chain_kernel *kernel,
                                   const void *const *operands, void *c, mmci_error *error) {
  MMCI_CUDA_ON(queue->device);
  switch (kernel->way) {
    case EQUAL:
      if (all_aligned(kernel, operands, c)) return enqueue_equal(queue, kernel, operands, c, error);
      return enqueue_steps(queue, kernel, operands, c, error);
    case STEPS:
      return enqueue_steps(queue, kernel, operands, c, error);
    case SPINES:
      return mmci_spines_launch(queue->stream, &kernel->limits, kernel->spines, operands, c, error);
    case NOTHING:
    case NO_WAY:
      break;
  }
  return MMC_OK;
}
