/* cuda_scan.c: running products of small matrices in a few launches.
 *
 * The products of tiles are a shorter scan, whose products of tiles are a shorter one still, until
 * one tile is left: each level is reduced going up and finished going down. */
#include "base/address.h"
#include "base/alloc.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/scan/scan_kernels.h"

enum { MOST_LEVELS = 8 };

/* A chain of the first level takes from LEAST_RUN to MOST_RUN factors, as many as give every
 * multiprocessor the same number of tiles; one of another level takes UPPER_RUN. Any takes up to
 * ONE_TILE where that leaves one tile, and up to ONE_EACH where the scans of the batch keep all
 * multiprocessors at work. */
enum { LEAST_RUN = 4, MOST_RUN = 32, UPPER_RUN = 8, ONE_TILE = 16, ONE_EACH = 64 };

typedef struct level {
  int64_t length, run, tiles;
  void *totals, *carries, *parts; /* of its tiles, of its tiles, of their chains */
} level;

struct mmci_scan_kernel {
  mmci_device *device;
  mmci_scan scan;
  int count;
  level levels[MOST_LEVELS];
  void *memory;
};

static int64_t ceiling(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/* Decides how the levels of a scan are cut. Returns how many there are; 0 when they are too many.
 */
static int cut_levels(const mmci_device *device, const mmci_scan *scan, level levels[MOST_LEVELS]) {
  const int64_t chains = mmci_cuda_scan_chains(scan->dtype, scan->n);
  const int64_t processors = device->properties.multiProcessorCount;
  const int64_t each = ceiling(scan->length * scan->batch, chains * processors);
  int64_t length = scan->length, run = ceiling(each, ceiling(each, MOST_RUN));
  if (run < LEAST_RUN) run = LEAST_RUN;
  for (int l = 0; l < MOST_LEVELS; l++) {
    const int64_t whole = ceiling(length, chains); /* the run that makes it one tile */
    if (l > 0) run = UPPER_RUN;
    if (whole <= ONE_TILE || (whole <= ONE_EACH && scan->batch >= processors)) run = whole;
    levels[l] = (level){.length = length, .run = run, .tiles = ceiling(length, chains * run)};
    length = levels[l].tiles;
    if (length == 1) return l + 1;
  }
  return 0;
}

/* Says whether states are followed one by one, which needs no tiles. */
static bool is_recurrence(const mmci_scan *scan) {
  return scan->has_initial && (scan->width != scan->n || scan->has_addend) &&
         mmci_cuda_recurrence_can(scan->dtype, scan->n, scan->width);
}

bool mmci_cuda_scan_supports(const mmci_device *device, const mmci_scan *scan) {
  level levels[MOST_LEVELS];
  if (is_recurrence(scan)) return scan->batch < INT32_MAX;
  if (!mmci_cuda_scan_can(scan->dtype, scan->n) || scan->width != scan->n || scan->has_addend)
    return false;
  if (cut_levels(device, scan, levels) == 0) return false;
  return (double)levels[0].tiles * (double)scan->batch < 2e9;
}

mmc_status mmci_cuda_scan_prepare(mmci_device *device, const mmci_scan *scan,
                                  mmci_scan_kernel **out, mmci_error *error) {
  mmci_scan_kernel *kernel = mmci_alloc_zeroed(1, sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  kernel->device = device;
  kernel->scan = *scan;
  if (!is_recurrence(scan)) kernel->count = cut_levels(device, scan, kernel->levels);
  const size_t matrix = (size_t)(scan->n * scan->n) * mmc_dtype_size(scan->dtype);
  const size_t chains = (size_t)mmci_cuda_scan_chains(scan->dtype, scan->n);
  size_t matrices = 0;
  for (int l = 0; l + 1 < kernel->count; l++)
    matrices += (2 + chains) * (size_t)(kernel->levels[l].tiles * scan->batch);
  mmc_status status = MMC_OK;
  if (matrices > 0) status = mmci_cuda_alloc(device, matrices * matrix, &kernel->memory, error);
  if (status != MMC_OK) {
    free(kernel);
    return status;
  }
  char *at = kernel->memory;
  for (int l = 0; l + 1 < kernel->count; l++) {
    const size_t bytes = (size_t)(kernel->levels[l].tiles * scan->batch) * matrix;
    kernel->levels[l].totals = at;
    kernel->levels[l].carries = at + bytes;
    kernel->levels[l].parts = at + 2 * bytes;
    at += (2 + chains) * bytes;
  }
  *out = kernel;
  return MMC_OK;
}

void mmci_cuda_scan_release(mmci_scan_kernel *kernel) {
  if (kernel == NULL) return;
  if (kernel->memory != NULL) mmci_cuda_dealloc(kernel->device, kernel->memory);
  free(kernel);
}

void mmci_cuda_scan_facts(const mmci_scan_kernel *kernel, mmci_scan_facts *out) {
  const mmci_scan *scan = &kernel->scan;
  if (kernel->count == 0) {
    *out =
        (mmci_scan_facts){.method = "sequential",
                          .kernel = "recurrence",
                          .why = "each state needs the one before, and a block follows each scan",
                          .blocks = 1,
                          .products = scan->length * scan->batch};
    return;
  }
  const int64_t chains = mmci_cuda_scan_chains(scan->dtype, scan->n);
  int64_t products = 0, rounds = 0;
  for (int64_t apart = 1; apart < chains; apart *= 2) rounds++;
  for (int l = 0; l < kernel->count; l++) {
    const level *x = &kernel->levels[l];
    products += 2 * x->length + ceiling(x->length, x->run) * (rounds + 1);
  }
  *out = (mmci_scan_facts){.method = "tiles",
                           .kernel = "scan_rows",
                           .why = "tiles are reduced, scanned, and gone through again",
                           .blocks = kernel->levels[0].tiles,
                           .products = products * scan->batch};
}

/* Return how operands lie, where states are multiplied from the right. */
static mmci_cuda_stack factors_of(const mmci_scan *scan, const mmci_scan_places *places) {
  return (mmci_cuda_stack){.data = places->a,
                           .ld = scan->a.ld,
                           .step = scan->a_step,
                           .stride = scan->a.stride,
                           .turned = scan->left != scan->a.trans};
}

static mmci_cuda_stack states_of(const mmci_scan *scan, const mmci_scan_places *places) {
  return (mmci_cuda_stack){.data = places->c,
                           .ld = scan->ldc,
                           .step = scan->c_step,
                           .stride = scan->c_stride,
                           .turned = scan->left};
}

static mmci_cuda_stack initial_of(const mmci_scan *scan, const mmci_scan_places *places) {
  if (!scan->has_initial) return (mmci_cuda_stack){0};
  return (mmci_cuda_stack){.data = places->initial,
                           .ld = scan->initial.ld,
                           .stride = scan->initial.stride,
                           .turned = scan->left != scan->initial.trans};
}

static mmci_cuda_stack addends_of(const mmci_scan *scan, const mmci_scan_places *places) {
  if (!scan->has_addend) return (mmci_cuda_stack){0};
  return (mmci_cuda_stack){.data = places->addend,
                           .ld = scan->addend.ld,
                           .step = scan->addend_step,
                           .stride = scan->addend.stride,
                           .turned = scan->left != scan->addend.trans};
}

/* Returns a pass over level l, whose factors and states are those of tiles below but for the first
 * level. */
static mmci_cuda_scan_pass pass_of(const mmci_scan_kernel *kernel, const mmci_scan_places *places,
                                   int l) {
  const mmci_scan *scan = &kernel->scan;
  const level *x = &kernel->levels[l];
  const int64_t n = scan->n, size = n * n;
  mmci_cuda_scan_pass pass = {.dtype = scan->dtype,
                              .n = n,
                              .length = x->length,
                              .batch = scan->batch,
                              .run = x->run,
                              .tiles = x->tiles,
                              .carries = x->carries,
                              .totals = x->totals,
                              .parts = x->parts};
  pass.initial = initial_of(scan, places);
  if (l == 0) {
    pass.factors = factors_of(scan, places);
    pass.states = states_of(scan, places);
    return pass;
  }
  const level *below = &kernel->levels[l - 1];
  pass.factors = (mmci_cuda_stack){
      .data = below->totals, .ld = n, .step = size, .stride = size * below->tiles};
  pass.states = pass.factors;
  pass.states.data = below->carries;
  return pass;
}

mmc_status mmci_cuda_scan_enqueue(mmci_queue *queue, const mmci_scan_kernel *kernel,
                                  const mmci_scan_places *places, mmci_error *error) {
  const mmci_scan *scan = &kernel->scan;
  MMCI_CUDA_ON(queue->device);
  mmc_status status = MMC_OK;
  if (kernel->count == 0) {
    const mmci_cuda_recurrence x = {.dtype = scan->dtype,
                                    .n = scan->n,
                                    .width = scan->width,
                                    .length = scan->length,
                                    .batch = scan->batch,
                                    .factors = factors_of(scan, places),
                                    .states = states_of(scan, places),
                                    .initial = initial_of(scan, places),
                                    .addends = addends_of(scan, places)};
    return mmci_cuda_recurrence_follow(queue->stream, &x, error);
  }
  for (int l = 0; l + 1 < kernel->count && status == MMC_OK; l++) {
    const mmci_cuda_scan_pass pass = pass_of(kernel, places, l);
    status = mmci_cuda_scan_reduce(queue->stream, &pass, error);
  }
  for (int l = kernel->count - 1; l >= 0 && status == MMC_OK; l--) {
    const mmci_cuda_scan_pass pass = pass_of(kernel, places, l);
    status = mmci_cuda_scan_finish(queue->stream, &pass, error);
  }
  return status;
}
