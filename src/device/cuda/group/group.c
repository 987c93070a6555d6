/* group.c: several products as one launch on a CUDA device: which of the kernels of group.h and
 * fused.h does them. */
#include "device/cuda/group/group.h"

#include <stdint.h>

#include "base/alloc.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/group/fused.h"

enum { VECTOR_BYTES = 16, HOPPER = 9, EQUAL_BATCH = 2, STATIC_SHARED_BYTES = 4096 };

typedef enum way { NOTHING, EQUAL, STEPS, SPINES, ALONE, FUSED, NO_WAY } way;

/* Variants that name a way; 0 takes the first that does the chain. */
enum { VARIANT_STEPS = 1, VARIANT_SPINES = 2, VARIANT_FUSED = 3, VARIANTS };

struct mmci_chain_kernel {
  mmci_device *device;
  mmci_group_limits limits;
  mmc_dtype dtype;
  way way;
  int32_t n;
  int64_t side; /* EQUAL */
  mmci_squares equal;
  mmci_general steps;  /* EQUAL and STEPS */
  mmci_single alone;   /* ALONE */
  mmci_spines *spines; /* SPINES */
  mmci_fused fused;    /* FUSED */
};

static mmci_group_limits limits_of(const mmci_device *device) {
  return (mmci_group_limits){
      .multiprocessors = device->properties.multiProcessorCount,
      .shared_bytes = device->properties.sharedMemPerBlockOptin - STATIC_SHARED_BYTES,
      .overlap = device->properties.major >= HOPPER};
}

/* ---- what is asked --------------------------------------------------------------------------- */

static bool is_sound(const mmci_device_chain *chain) {
  if (chain->n < 1 || chain->count < 1 || chain->batch < 1 || chain->ldc < 1 ||
      (unsigned)chain->dtype > MMC_BF16 || chain->variant < 0 || chain->variant >= VARIANTS)
    return false;
  for (int i = 0; i < chain->n; i++)
    if (chain->forms[i].ld < 1) return false;
  for (int s = 0; s < chain->count; s++) {
    const mmci_chain_step *step = &chain->products[s];
    if (step->m < 0 || step->k < 0 || step->n < 0 || step->left < 0 || step->right < 0 ||
        step->left >= chain->n + s || step->right >= chain->n + s)
      return false;
  }
  return true;
}

static bool is_small(const mmci_device_chain *chain) {
  for (int s = 0; s < chain->count; s++) {
    const mmci_chain_step *step = &chain->products[s];
    if (step->m > MMCI_GROUP_SIDE || step->k > MMCI_GROUP_SIDE || step->n > MMCI_GROUP_SIDE)
      return false;
  }
  return true;
}

/* The side of equal squares that squares.cu takes, or 0. */
static int64_t equal_side(const mmci_device_chain *chain) {
  const int64_t side = chain->products[0].m, words = VECTOR_BYTES / (int64_t)sizeof(float);
  if (chain->dtype != MMC_F32 || chain->n > MMCI_SQUARES_FACTORS || chain->count != chain->n - 1 ||
      chain->batch < EQUAL_BATCH || chain->batch > INT32_MAX || !mmci_squares_has(side) ||
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
  if (chain->variant == VARIANT_FUSED || !is_small(chain)) {
    const bool asked = chain->variant == VARIANT_FUSED || chain->variant == 0;
    kernel->way =
        asked && mmci_fused_describe(chain, kernel->limits.multiprocessors, &kernel->fused)
            ? FUSED
            : NO_WAY;
    return;
  }
  const bool alone = chain->batch == 1 && mmci_spines_suit(&kernel->limits, chain);
  if (chain->variant == VARIANT_SPINES || (chain->variant == 0 && alone)) {
    kernel->way = mmci_spines_can(chain) ? SPINES : NO_WAY;
  } else if (chain->variant == 0 && mmci_single_plan(&kernel->limits, chain, &kernel->alone)) {
    kernel->way = ALONE;
  } else if (mmci_general_plan(&kernel->limits, chain, &kernel->steps)) {
    kernel->side = chain->variant == 0 ? equal_side(chain) : 0;
    kernel->way = kernel->side != 0 ? EQUAL : STEPS;
  } else {
    kernel->way = chain->variant == 0 && mmci_spines_can(chain) ? SPINES : NO_WAY;
  }
}

static way way_of(const mmci_device *device, const mmci_device_chain *chain) {
  mmci_chain_kernel kernel = {.limits = limits_of(device)};
  if (!is_sound(chain)) return NO_WAY;
  choose_way(chain, &kernel);
  return kernel.way;
}

bool mmci_cuda_chain_supports(const mmci_device *device, const mmci_device_chain *chain) {
  return way_of(device, chain) != NO_WAY;
}

const char *mmci_cuda_chain_name(const mmci_device *device, const mmci_device_chain *chain) {
  static const char *const NAMES[] = {
      [NOTHING] = "nothing",      [EQUAL] = "chain of equal squares",
      [STEPS] = "chain in steps", [SPINES] = "chain in spines",
      [ALONE] = "chain alone",    [FUSED] = "fused",
      [NO_WAY] = "none"};
  mmci_fused fused;
  const way way = way_of(device, chain);
  if (way == FUSED && mmci_fused_describe(chain, device->properties.multiProcessorCount, &fused))
    return mmci_fused_name(&fused);
  return NAMES[way];
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void fill_equal(const mmci_device_chain *chain, mmci_squares *equal) {
  *equal = (mmci_squares){.c_stride = chain->c_stride, .batch = chain->batch, .n = chain->n};
  for (int i = 0; i < chain->n; i++) equal->stride[i] = chain->forms[i].stride;
}

static mmc_status fill(mmci_chain_kernel *kernel, const mmci_device_chain *chain,
                       mmci_error *error) {
  mmc_status status = MMC_OK;
  kernel->way = NO_WAY;
  if (is_sound(chain)) choose_way(chain, kernel);
  switch (kernel->way) {
    case NOTHING:
      break;
    case EQUAL:
      fill_equal(chain, &kernel->equal);
      status = mmci_squares_prepare(kernel->side, error);
      if (status != MMC_OK) break;
      /* Addresses that are not aligned go there. */
      status = mmci_general_prepare(kernel->dtype, &kernel->steps, error);
      break;
    case STEPS:
      status = mmci_general_prepare(kernel->dtype, &kernel->steps, error);
      break;
    case SPINES:
      status = mmci_spines_create(&kernel->limits, chain, &kernel->spines, error);
      break;
    case FUSED:
      status = mmci_fused_prepare(&kernel->fused, error);
      break;
    case ALONE:
      status = mmci_single_prepare(kernel->dtype, &kernel->alone, error);
      break;
    case NO_WAY:
      status = mmci_fail(error, MMC_E_UNSUPPORTED,
                         "chain: expected factors of at most %d x %d that fit in the memory of a "
                         "multiprocessor, or two products of f32 or f64 with an intermediate "
                         "of at most %d columns or rows, and variant 0 to %d, got others",
                         MMCI_GROUP_SIDE, MMCI_GROUP_SIDE, MMCI_FUSED_WIDTH, VARIANTS - 1);
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
  mmci_squares equal = kernel->equal;
  for (int i = 0; i < kernel->n; i++) equal.data[i] = operands[i];
  equal.c = c;
  return mmci_squares_launch(queue->stream, &kernel->limits, kernel->side, &equal, error);
}

static mmc_status enqueue_steps(mmci_queue *queue, const mmci_chain_kernel *kernel,
                                const void *const *operands, void *c, mmci_error *error) {
  mmci_general steps = kernel->steps;
  for (int l = 0; l < steps.loads; l++) {
    mmci_general_load *load = &steps.load[l];
    load->data = operands[load->operand];
    load->wide = load->wide && is_aligned(load->data);
  }
  steps.c = c;
  return mmci_general_launch(queue->stream, &kernel->limits, kernel->dtype, &steps, error);
}

static mmc_status enqueue_alone(mmci_queue *queue, const mmci_chain_kernel *kernel,
                                const void *const *operands, void *c, mmci_error *error) {
  mmci_single alone = kernel->alone;
  for (int l = 0; l < MMCI_SINGLE_WARPS; l++) {
    mmci_single_load *load = &alone.loads[l];
    load->data = operands[load->operand];
    load->wide = load->wide && is_aligned(load->data);
  }
  alone.c = c;
  return mmci_single_launch(queue->stream, &kernel->limits, kernel->dtype, &alone, error);
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
    case ALONE:
      return enqueue_alone(queue, kernel, operands, c, error);
    case SPINES:
      return mmci_spines_launch(queue->stream, &kernel->limits, kernel->spines, operands, c, error);
    case FUSED:
      return mmci_fused_enqueue(queue->stream, &kernel->fused, operands, c, error);
    case NOTHING:
    case NO_WAY:
      break;
  }
  return MMC_OK;
}
