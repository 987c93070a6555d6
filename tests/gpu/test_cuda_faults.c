/* test_cuda_faults.c: every call of CUDA and cuBLAS, and every allocation, fails once in the course
 * of a scenario that uses all of the CUDA module's products and chains. Each time a status says so,
 * or all is well; nothing crashes, nothing waits for ever, and the scenario succeeds afterwards.
 *
 *     test_cuda_faults MODULE
 *
 * MODULE is built with cuda_faults.h. */
#include <stdlib.h>
#include <unistd.h>

#include "gpu_test.h"

/* Matrices that take more than one slot of what transfers go through. */
enum { SIZE = 1500, DEPTH = 8, CHAINS = 3, KERNELS = 5, BYTES = SIZE * SIZE * 4, LONGEST_S = 500 };

typedef int (*fault_at_fn)(int call);

/* What the scenario holds; NULL: not yet, or no longer. */
typedef struct scene {
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_queue *queue, *other;
  mmci_kernel *kernels[KERNELS];
  mmci_group_kernel *chains[CHAINS];
  void *a, *b, *c, *pinned;
  mmci_event *event, *timers[2];
  mmci_graph *graph;
  float *ones, *result;
} scene;

/* Leaves the calling function when a step fails. */
#define STEP(call)                       \
  do {                                   \
    mmc_status status = (call);          \
    if (status != MMC_OK) return status; \
  } while (0)

/* Three squares of DEPTH: a batch as the module likes it, one chain in steps and one in spines. */
static mmc_status prepare_chains(scene *s, mmci_error *error) {
  enum { WORDS = DEPTH * DEPTH };
  const mmci_form form = {.ld = DEPTH, .stride = WORDS}, forms[] = {form, form, form};
  const mmci_group_product products[] = {{DEPTH, DEPTH, DEPTH, 0, 1}, {DEPTH, DEPTH, DEPTH, 3, 2}};
  for (int t = 0; t < CHAINS; t++) {
    const mmci_group chain = {.dtype = MMC_F32,
                              .batch = t == 0 ? 2 : 1,
                              .n = 3,
                              .count = 2,
                              .forms = forms,
                              .products = products,
                              .ldc = DEPTH,
                              .c_stride = WORDS,
                              .variant = t};
    STEP(s->ops->group_prepare(s->device, &chain, &s->chains[t], error));
  }
  return MMC_OK;
}

/* The product by the first of the variants whose name begins so. */
static mmc_status prepare_named(const scene *s, mmci_gemm gemm, const char *name, mmci_kernel **out,
                                mmci_error *error) {
  for (gemm.variant = 1; gemm.variant < 100; gemm.variant++)
    if (strncmp(s->ops->kernel_name(s->device, &gemm), name, strlen(name)) == 0)
      return s->ops->prepare(s->device, &gemm, out, error);
  return mmci_fail(error, MMC_E_UNSUPPORTED, "expected a product by %s", name);
}

static mmc_status prepare(scene *s, mmci_error *error) {
  mmci_gemm gemm = {.dtype = MMC_F32, .m = SIZE, .k = DEPTH, .n = SIZE, .ldc = SIZE};
  char text[256];
  uint64_t free_bytes, total_bytes;
  gemm.a.ld = gemm.b.ld = SIZE;
  STEP(s->ops->open(0, &s->device, error));
  s->ops->describe(s->device, text, sizeof text);
  STEP(s->ops->queue_open(s->device, &s->queue, error));
  STEP(s->ops->queue_open(s->device, &s->other, error));
  STEP(s->ops->prepare(s->device, &gemm, &s->kernels[0], error));
  if (s->ops->variants(s->device, &gemm) > 0) {
    gemm.variant = 1;
    STEP(s->ops->prepare(s->device, &gemm, &s->kernels[1], error));
  }
  /* By large tiles it copies A and adds shares of a tile. */
  STEP(prepare_named(s, gemm, "large_tile", &s->kernels[3], error));
  STEP(prepare_named(s, gemm, "sliced_k", &s->kernels[4], error));
  /* A product of the plain kernel: C += conj(A) B, 100 x 100. */
  gemm = (mmci_gemm){.dtype = MMC_C64, .m = 100, .k = 100, .n = 100, .ldc = 100};
  gemm.a = (mmci_form){.ld = 100, .conj = true};
  gemm.b.ld = 100;
  STEP(s->ops->prepare(s->device, &gemm, &s->kernels[2], error));
  STEP(prepare_chains(s, error));
  STEP(s->ops->async->memory(s->device, &free_bytes, &total_bytes, error));
  STEP(s->ops->alloc(s->device, BYTES, &s->a, error));
  STEP(s->ops->alloc(s->device, BYTES, &s->b, error));
  STEP(s->ops->alloc(s->device, BYTES, &s->c, error));
  STEP(s->ops->async->alloc_pinned(s->device, BYTES, &s->pinned, error));
  for (int t = 0; t < 2; t++) STEP(s->ops->async->timer_create(s->device, &s->timers[t], error));
  return s->ops->async->event_create(s->device, &s->event, error);
}

/* c = a a of DEPTH columns and rows, b = c^T, then c = a b by a graph: every element is DEPTH^2. */
static mmc_status multiply(scene *s, mmci_error *error) {
  const mmci_device_async *async = s->ops->async;
  const mmci_transfer there = {s->a, s->ones, BYTES, BYTES, 1, BYTES};
  const mmci_transfer pinned = {s->b, s->pinned, 4000, 4000, 100, 400};
  const mmci_transfer here = {s->result, s->c, SIZE * 4, SIZE * 4, SIZE, SIZE * 4};
  const mmci_form form = {.ld = SIZE, .trans = true};
  STEP(async->upload(s->queue, &there, error));
  STEP(async->upload(s->queue, &pinned, error));
  if (s->kernels[1] != NULL)
    STEP(s->ops->enqueue(s->queue, s->kernels[1], s->a, s->a, s->c, error));
  STEP(s->ops->enqueue(s->queue, s->kernels[3], s->a, s->a, s->c, error));
  STEP(s->ops->enqueue(s->queue, s->kernels[4], s->a, s->a, s->c, error));
  STEP(s->ops->enqueue(s->queue, s->kernels[2], s->a, s->a, s->b, error));
  STEP(s->ops->enqueue(s->queue, s->kernels[0], s->a, s->a, s->c, error));
  const void *chain[] = {s->a, s->a, s->a};
  for (int t = 0; t < CHAINS; t++)
    STEP(s->ops->group_enqueue(s->queue, s->chains[t], chain, s->b, error));
  STEP(async->event_record(s->queue, s->event, error));
  STEP(async->event_wait(s->other, s->event, error));
  const mmci_resizing resized = {s->c, s->b, SIZE, SIZE, SIZE, SIZE - 1, SIZE - 1, SIZE};
  STEP(async->resize(s->other, MMC_F32, &resized, 1, error));
  STEP(async->copy(s->other, MMC_F32, SIZE, SIZE, s->c, &form, s->b, SIZE, false, error));
  STEP(s->ops->sync(s->other, error));
  (void)async->is_capturing(s->device, NULL);
  STEP(async->capture_begin(s->queue, error));
  mmc_status captured = s->ops->enqueue(s->queue, s->kernels[0], s->a, s->b, s->c, error);
  STEP(async->capture_end(s->queue, &s->graph, captured == MMC_OK ? error : NULL));
  STEP(captured);
  STEP(async->event_record(s->queue, s->timers[0], error));
  STEP(async->graph_launch(s->queue, s->graph, error));
  STEP(async->event_record(s->queue, s->timers[1], error));
  STEP(async->download(s->queue, &here, error));
  STEP(s->ops->sync(s->queue, error));
  double seconds = 0;
  STEP(async->seconds_between(s->timers[0], s->timers[1], &seconds, error));
  return seconds > 0 && seconds < 1 ? MMC_OK : mmci_fail(error, MMC_E_DEVICE, "%g s", seconds);
}

static void take_apart(scene *s) {
  if (s->device == NULL) return;
  s->ops->async->graph_destroy(s->graph);
  s->ops->async->event_destroy(s->event);
  for (int t = 0; t < 2; t++) s->ops->async->event_destroy(s->timers[t]);
  for (int t = 0; t < KERNELS; t++) s->ops->release(s->kernels[t]);
  for (int t = 0; t < CHAINS; t++) s->ops->group_release(s->chains[t]);
  s->ops->queue_close(s->other);
  s->ops->queue_close(s->queue);
  s->ops->async->dealloc_pinned(s->device, s->pinned);
  s->ops->dealloc(s->device, s->c);
  s->ops->dealloc(s->device, s->b);
  s->ops->dealloc(s->device, s->a);
  s->ops->close(s->device);
}

/* Returns the status; right is whether what it should compute is there. */
static mmc_status play(const mmci_device_ops *ops, float *ones, float *result, bool *right,
                       mmci_error *error) {
  scene s = {.ops = ops, .ones = ones, .result = result};
  memset(result, 0, BYTES);
  mmc_status status = prepare(&s, error);
  if (status == MMC_OK) status = multiply(&s, error);
  take_apart(&s);
  *right = true;
  for (int t = 0; t < SIZE * SIZE; t++) *right = *right && result[t] == (float)(DEPTH * DEPTH);
  return status;
}

static void test_all(const target *on) {
  fault_at_fn fault_at;
  *(void **)&fault_at = dlsym(on->module, "mmci_fault_at");
  float *ones = malloc(BYTES), *result = malloc(BYTES);
  if (fault_at == NULL || ones == NULL || result == NULL) {
    expect(false, "the module has its faults, and there is memory");
    free(ones);
    free(result);
    return;
  }
  for (int t = 0; t < SIZE * SIZE; t++) ones[t] = 1;
  mmci_error error = {0};
  bool right = false;
  int seen = 0, total = 0;
  (void)fault_at(0);
  if (expect_ok(play(on->ops, ones, result, &right, &error), &error, "all is well at first"))
    expect(right, "the result is right at first");
  total = fault_at(0);
  /* A hang ends here. */
  alarm(LONGEST_S);
  /* Until a scenario is over before its call that was to fail. */
  for (int call = 1, counted = 1; counted >= call - 1 && failures == 0; call++) {
    error.text[0] = '\0';
    (void)fault_at(call);
    mmc_status status = play(on->ops, ones, result, &right, &error);
    counted = fault_at(0);
    seen += status != MMC_OK;
    bool held = status == MMC_OK ? right : error.text[0] != '\0';
    if (!expect(held, "a failure is told, or does no harm"))
      printf("  call %d, status %d: %s\n", call, (int)status, error.text);
  }
  printf("%d calls, %d of the failures told\n", total, seen);
  expect(seen * 2 > total, "most failures are told");
  if (expect_ok(play(on->ops, ones, result, &right, &error), &error, "all is well in the end"))
    expect(right, "the result is right in the end");
  free(ones);
  free(result);
}

int main(int argc, char **argv) {
  return gpu_test_main(argc, argv, test_all);
}
