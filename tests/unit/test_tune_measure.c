/* test_tune_measure.c: measuring on the host's devices, and on one with queues that only watches.
 *
 * The watching device multiplies nothing. It follows which work is ordered behind which through
 * queues and events, and finds pieces that touch the same part of C without order, work that the
 * end of a capture does not wait for, what is never released; and it fails at any call that it is
 * told to. With timers it has a clock of its own, on which a product takes as long as the test
 * says, and launches are seen to be waited for only when the clock is read. The host's devices do
 * multiply, by a clock of the test's too: what else runs on the machine changes no time of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "tune/measure.h"
#include "tune/search.h"

/* ---- the watching device ------------------------------------------------------------------- */

enum { CALL_OPERANDS = 3 };
enum { WATCHED = 64, QUEUES = 4 }; /* only the first work of a capture is watched: a bit each */

struct mmci_device {
  char nothing;
};
struct mmci_queue {
  uint64_t behind; /* the work that it has waited for, its own included */
  int capture;     /* in which that was */
};
struct mmci_event {
  uint64_t behind;
  bool is_timer;
  double at_s;
  int64_t syncs; /* that were, when it was recorded */
};
struct mmci_kernel {
  mmci_gemm gemm;
  mmci_kernel *of_host;
};
struct mmci_group_kernel {
  mmci_group_product last; /* product */
  mmci_form forms[CALL_OPERANDS];
  int64_t batch, c_bytes;
  mmci_group_kernel *of_host;
};
struct mmci_graph {
  int works;
  double seconds;
};

typedef struct work {
  bool is_copy; /* which touches everything */
  mmci_gemm gemm;
  const char *c;
  uint64_t behind;
} work;

static struct {
  int64_t calls, fail_at; /* 0: never */
  int queues, events, kernels, graphs, memories;
  bool capturing;
  mmci_queue *first; /* the one that captures */
  work works[WATCHED];
  int count, used_queues, captures, copies;
  mmci_queue *used[QUEUES];
  /* The clock, and what calls of variant 0 and of others add to it, give or take jitter. */
  double now_s, plain_s, variant_s, jitter;
  uint64_t random;
  double captured_s;
  int64_t syncs, launches;
} watch;

static mmc_status call(mmci_error *error) {
  if (++watch.calls == watch.fail_at) return mmci_fail(error, MMC_E_DEVICE, "told to fail");
  return MMC_OK;
}

static bool supports(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device;
  return gemm->variant <= 1;
}
static int variants(mmci_device *device, const mmci_gemm *gemm) {
  (void)device, (void)gemm;
  return 2;
}
static mmc_status prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                          mmci_error *error) {
  (void)device;
  mmc_status status = call(error);
  if (status != MMC_OK) return status;
  *out = malloc(sizeof **out);
  (*out)->gemm = *gemm;
  watch.kernels++;
  return MMC_OK;
}
static void release(mmci_kernel *kernel) {
  watch.kernels--;
  free(kernel);
}
static mmc_status queue_open(mmci_device *device, mmci_queue **out, mmci_error *error) {
  (void)device;
  mmc_status status = call(error);
  if (status != MMC_OK) return status;
  *out = calloc(1, sizeof **out);
  watch.queues++;
  return MMC_OK;
}
static void queue_close(mmci_queue *queue) {
  watch.queues--;
  free(queue);
}

static bool overlap(const work *x, const work *y) {
  if (x->is_copy || y->is_copy) return true;
  int64_t size = (int64_t)mmc_dtype_size(x->gemm.dtype), ld = x->gemm.ldc;
  const char *base = x->c < y->c ? x->c : y->c;
  for (int i = 0; i < watch.count; i++)
    if (!watch.works[i].is_copy && watch.works[i].c < base) base = watch.works[i].c;
  int64_t p = (x->c - base) / size, q = (y->c - base) / size;
  return p / ld < q / ld + y->gemm.m && q / ld < p / ld + x->gemm.m &&
         p % ld < q % ld + y->gemm.n && q % ld < p % ld + x->gemm.n;
}

/* What was before this capture is done. */
static uint64_t *behind_of(mmci_queue *queue) {
  if (queue->capture != watch.captures) *queue = (mmci_queue){.capture = watch.captures};
  return &queue->behind;
}

static void add_work(mmci_queue *queue, const mmci_gemm *gemm, const char *c) {
  bool seen = false;
  for (int i = 0; i < watch.used_queues; i++) seen |= watch.used[i] == queue;
  if (!seen) watch.used[watch.used_queues++] = queue;
  if (!watch.capturing || watch.count == WATCHED) return;
  work *w = &watch.works[watch.count];
  *w = (work){.is_copy = gemm == NULL, .c = c, .behind = *behind_of(queue)};
  if (gemm != NULL) w->gemm = *gemm;
  *behind_of(queue) |= UINT64_C(1) << watch.count++;
}

static mmc_status enqueue(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                          const void *b, void *c, mmci_error *error) {
  (void)a, (void)b;
  *(watch.capturing ? &watch.captured_s : &watch.now_s) +=
      kernel->gemm.variant == 0 ? watch.plain_s : watch.variant_s;
  add_work(queue, &kernel->gemm, c);
  return call(error);
}
static bool group_supports(const mmci_device *device, const mmci_group *chain) {
  (void)device;
  return chain->variant == 0;
}
static mmc_status group_prepare(mmci_device *device, const mmci_group *chain,
                                mmci_group_kernel **out, mmci_error *error) {
  (void)device, (void)chain;
  mmc_status status = call(error);
  if (status != MMC_OK) return status;
  *out = calloc(1, sizeof **out);
  watch.kernels++;
  return MMC_OK;
}
static void group_release(mmci_group_kernel *kernel) {
  watch.kernels--;
  free(kernel);
}
/* Takes as long as a call of variant 0. */
static mmc_status group_enqueue(mmci_queue *queue, const mmci_group_kernel *kernel,
                                const void *const *operands, void *c, mmci_error *error) {
  (void)kernel;
  for (int o = 0; o < CALL_OPERANDS; o++) assert_true(operands[o] != NULL && operands[o] != c);
  *(watch.capturing ? &watch.captured_s : &watch.now_s) += watch.plain_s;
  add_work(queue, NULL, c);
  return call(error);
}
static mmc_status sync_queue(mmci_queue *queue, mmci_error *error) {
  (void)queue;
  assert_false(watch.capturing);
  watch.syncs++;
  return call(error);
}
static mmc_status alloc_memory(mmci_device *device, size_t size, void **out, mmci_error *error) {
  (void)device;
  mmc_status status = call(error);
  if (status != MMC_OK) return status;
  *out = malloc(size);
  watch.memories++;
  return MMC_OK;
}
static void dealloc_memory(mmci_device *device, void *memory) {
  (void)device;
  watch.memories--;
  free(memory);
}

enum { FREE_BYTES = 1 << 24 };

static mmc_status memory(mmci_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                         mmci_error *error) {
  (void)device;
  *free_bytes = *total_bytes = FREE_BYTES;
  return call(error);
}

static mmc_status upload(mmci_queue *queue, const mmci_transfer *t, mmci_error *error) {
  (void)queue;
  assert_false(watch.capturing);
  for (int64_t i = 0; i < t->lines; i++)
    memcpy((char *)t->to + i * t->to_pitch, (const char *)t->from + i * t->from_pitch,
           (size_t)t->line_bytes);
  return call(error);
}
static mmc_status copy(mmci_queue *queue, mmc_dtype dtype, int64_t rows, int64_t cols,
                       const void *from, const mmci_form *form, void *to, int64_t to_ld,
                       bool to_trans, mmci_error *error) {
  assert_true(!form->trans && !to_trans && form->ld >= cols && to_ld >= cols && rows > 0);
  size_t size = mmc_dtype_size(dtype); /* out of bounds is for the sanitizer to see */
  for (int64_t i = 0; i < rows; i++)
    memcpy((char *)to + (size_t)(i * to_ld) * size,
           (const char *)from + (size_t)(i * form->ld) * size, (size_t)cols * size);
  watch.copies++;
  add_work(queue, NULL, to);
  return call(error);
}
static mmc_status resize(mmci_queue *queue, mmc_dtype dtype, const mmci_resizing *matrices,
                         int count, mmci_error *error) {
  assert_in_range(count, 1, MMCI_RESIZED);
  size_t size = mmc_dtype_size(dtype); /* out of bounds is for the sanitizer to see */
  for (int i = 0; i < count; i++) {
    const mmci_resizing *x = &matrices[i];
    for (int64_t r = 0; r < x->to_lines; r++)
      for (int64_t c = 0; c < x->to_length; c++) {
        char *to = (char *)x->to + (size_t)(r * x->to_ld + c) * size;
        if (r < x->lines && c < x->length)
          memcpy(to, (const char *)x->from + (size_t)(r * x->ld + c) * size, size);
        else
          memset(to, 0, size);
      }
    add_work(queue, NULL, x->to);
  }
  watch.copies++;
  return call(error);
}
static mmc_status event_create(mmci_device *device, mmci_event **out, mmci_error *error) {
  (void)device;
  mmc_status status = call(error);
  if (status != MMC_OK) return status;
  *out = calloc(1, sizeof **out);
  watch.events++;
  return MMC_OK;
}
static mmc_status timed_event_create(mmci_device *device, mmci_event **out, mmci_error *error) {
  mmc_status status = event_create(device, out, error);
  if (status == MMC_OK) (*out)->is_timer = true;
  return status;
}
static mmc_status seconds_between(mmci_event *from, mmci_event *to, double *seconds,
                                  mmci_error *error) {
  assert_true(from->is_timer && to->is_timer && to->syncs < watch.syncs);
  *seconds = to->at_s - from->at_s;
  return call(error);
}
static void event_destroy(mmci_event *event) {
  watch.events--;
  free(event);
}
static mmc_status event_record(mmci_queue *queue, mmci_event *event, mmci_error *error) {
  event->behind = *behind_of(queue);
  event->at_s = watch.now_s;
  event->syncs = watch.syncs;
  return call(error);
}
static mmc_status event_wait(mmci_queue *queue, mmci_event *event, mmci_error *error) {
  *behind_of(queue) |= event->behind;
  return call(error);
}
static mmc_status capture_begin(mmci_queue *queue, mmci_error *error) {
  mmc_status status = call(error);
  if (status != MMC_OK) return status;
  assert_false(watch.capturing);
  watch.capturing = true;
  watch.first = queue;
  watch.count = watch.used_queues = 0;
  watch.captures++;
  watch.captured_s = 0;
  return MMC_OK;
}
static mmc_status capture_end(mmci_queue *queue, mmci_graph **out, mmci_error *error) {
  assert_true(watch.capturing && queue == watch.first);
  watch.capturing = false;
  mmc_status status = call(error);
  if (status != MMC_OK) return status;
  uint64_t all = watch.count == WATCHED ? ~UINT64_C(0) : (UINT64_C(1) << watch.count) - 1;
  if (watch.fail_at == 0) assert_true(*behind_of(queue) == all);
  for (int j = 0; j < watch.count && watch.fail_at == 0; j++)
    for (int i = 0; i < j; i++)
      if (overlap(&watch.works[i], &watch.works[j])) assert_true(watch.works[j].behind >> i & 1);
  *out = malloc(sizeof **out);
  (*out)->works = watch.count;
  (*out)->seconds = watch.captured_s;
  watch.graphs++;
  return MMC_OK;
}
static void graph_destroy(mmci_graph *graph) {
  watch.graphs--;
  free(graph);
}
static mmc_status graph_launch(mmci_queue *queue, mmci_graph *graph, mmci_error *error) {
  (void)queue;
  assert_true(graph->works > 0);
  watch.now_s += graph->seconds * (1 + watch.jitter * random_unit(&watch.random));
  watch.launches++;
  return call(error);
}

#define SLOTS                                                                                 \
  .queues = QUEUES, .memory = memory, .upload = upload, .copy = copy, .resize = resize,       \
  .event_create = event_create, .event_destroy = event_destroy, .event_record = event_record, \
  .event_wait = event_wait, .capture_begin = capture_begin, .capture_end = capture_end,       \
  .graph_destroy = graph_destroy, .graph_launch = graph_launch
static const mmci_device_async watching_async = {SLOTS};
static const mmci_device_async timing_async = {SLOTS, .timer_create = timed_event_create,
                                               .seconds_between = seconds_between};
static mmci_device_ops watching(bool with_timers) {
  return (mmci_device_ops){.abi = MMCI_DEVICE_ABI,
                           .size = sizeof(mmci_device_ops),
                           .name = "watching",
                           .supports = supports,
                           .variants = variants,
                           .prepare = prepare,
                           .release = release,
                           .queue_open = queue_open,
                           .queue_close = queue_close,
                           .enqueue = enqueue,
                           .sync = sync_queue,
                           .group_supports = group_supports,
                           .group_prepare = group_prepare,
                           .group_release = group_release,
                           .group_enqueue = group_enqueue,
                           .alloc = alloc_memory,
                           .dealloc = dealloc_memory,
                           .async = with_timers ? &timing_async : &watching_async};
}

/* All anew; a call takes 30 us. */
static void watch_anew(void) {
  memset(&watch, 0, sizeof watch);
  watch.plain_s = watch.variant_s = 3e-5;
}

static void all_is_released(void) {
  assert_int_equal(watch.queues, 0);
  assert_int_equal(watch.events, 0);
  assert_int_equal(watch.kernels, 0);
  assert_int_equal(watch.graphs, 0);
  assert_int_equal(watch.memories, 0);
  assert_false(watch.capturing);
}

static mmci_gemm product(mmc_dtype dtype, int64_t m, int64_t k, int64_t n) {
  return (mmci_gemm){
      .dtype = dtype, .m = m, .k = k, .n = n, .a = {.ld = k}, .b = {.ld = n}, .ldc = n};
}

/* A B C of so many chains, with B transposed: A (B C). */
static const mmci_group_product right_to_left[] = {{4, 3, 6, 1, 2}, {5, 4, 6, 0, 3}};
static mmci_group call_of(mmc_dtype dtype, int64_t batch, mmci_form forms[CALL_OPERANDS]) {
  forms[0] = (mmci_form){.ld = 4, .stride = 20};
  forms[1] = (mmci_form){.ld = 4, .trans = true, .stride = 12};
  forms[2] = (mmci_form){.ld = 6, .stride = 18};
  return (mmci_group){.dtype = dtype,
                      .batch = batch,
                      .n = CALL_OPERANDS,
                      .count = 2,
                      .forms = forms,
                      .products = right_to_left,
                      .ldc = 6,
                      .c_stride = 30};
}

static mmci_measure_options quick(void) {
  mmci_measure_options options = mmci_measure_defaults();
  options.sample_least_s = 1e-6;
  return options;
}

static const char *const recipes[] = {
    "whole",
    "n:3,4",
    "queues2/n:3,4",
    "queues3/n:3(m:2,3),4(k:1,5)",
    "queues2/k:2(n:1,6),4",
    "pad8/whole",
    "pad8/queues2/m:2,3",
    "queues5/m:1,4(m:1,3(m:1,2(m:1,1)))",
    "k:2(m:1v1,4),4",
};

static void work_is_ordered(void **state) {
  (void)state;
  mmci_error error = {0};
  for (size_t r = 0; r < sizeof recipes / sizeof recipes[0]; r++)
    for (int turn = 0; turn < 4; turn++) {
      bool adding = turn % 2 != 0;
      mmci_device_ops ops = watching(turn / 2 != 0);
      watch_anew();
      struct mmci_device device;
      mmci_measure_options options = quick();
      mmci_bench *bench;
      mmci_gemm gemm = product(MMC_F32, 5, 6, 7);
      gemm.accumulate = adding;
      mmci_recipe recipe;
      assert_int_equal(mmci_recipe_parse(recipes[r], 5, 6, 7, NULL, &recipe, &error), MMC_OK);
      assert_int_equal(mmci_bench_open(&ops, &device, &options, &bench, &error), MMC_OK);
      mmci_machine machine = mmci_bench_machine(bench);
      assert_int_equal(machine.queues, QUEUES);
      mmci_measured measured;
      assert_int_equal(machine.measure(machine.user, &gemm, &recipe, &measured, &error), MMC_OK);
      assert_true(measured.seconds.value > 0 && measured.seconds.low <= measured.seconds.high);
      assert_true(watch.captures > 0);
      /* All but "queues2/k:...", whose parts follow each other, have use for their queues. */
      int queues = recipe.nodes[0].axis == MMCI_AXIS_K ? 1 : recipe.queues;
      assert_int_equal(watch.used_queues, queues < QUEUES ? queues : QUEUES);
      /* 6 and 7 are no multiples of 8: A, B and C are copied, C before only when it is added to. */
      assert_int_equal(watch.copies > 0, recipe.pad != 0);
      assert_int_equal(machine.compare(machine.user, &gemm, &recipe, &measured, &error), MMC_OK);
      assert_true(measured.gain.low > 0 && measured.plain_s > 0 && measured.seconds.value > 0);
      mmci_bench_close(bench);
      all_is_released();
    }
}

/* Device call number k fails, for every k: its error comes back, and nothing is left behind. */
static void every_call_may_fail(void **state) {
  (void)state;
  static const int with_queues_and_pad[] = {3, 6};
  for (int i = 0; i < 4; i++) {
    int r = with_queues_and_pad[i % 2];
    mmci_device_ops ops = watching(i >= 2);
    bool failed = true;
    for (int64_t fail_at = 1; failed && fail_at < 400; fail_at++) {
      watch_anew();
      watch.fail_at = fail_at;
      struct mmci_device device;
      mmci_measure_options options = quick();
      options.samples = options.turns = 2;
      mmci_bench *bench = NULL;
      mmci_gemm gemm = product(MMC_F32, 5, 6, 7);
      mmci_recipe recipe;
      mmci_measured measured;
      mmci_error error = {0};
      mmci_recipe_parse(recipes[r], 5, 6, 7, NULL, &recipe, &error);
      mmc_status status = mmci_bench_open(&ops, &device, &options, &bench, &error);
      assert_int_equal(status == MMC_OK, bench != NULL);
      if (status == MMC_OK) {
        mmci_machine machine = mmci_bench_machine(bench);
        status = machine.compare(machine.user, &gemm, &recipe, &measured, &error);
      }
      failed = watch.calls >= fail_at;
      if (failed) {
        assert_int_equal(status, MMC_E_DEVICE);
        assert_string_equal(error.text, "told to fail");
      } else {
        assert_int_equal(status, MMC_OK);
      }
      mmci_bench_close(bench);
      all_is_released();
    }
  }
}

/* The same of calls of several products; what is measured is what they take. */
static void calls_are_timed_and_may_fail(void **state) {
  (void)state;
  for (int timed = 0; timed < 2; timed++) {
    mmci_device_ops ops = watching(timed);
    bool failed = true;
    for (int64_t fail_at = 1; failed && fail_at < 400; fail_at++) {
      watch_anew();
      watch.fail_at = fail_at;
      struct mmci_device device;
      mmci_measure_options options = quick();
      options.samples = 2;
      mmci_bench *bench = NULL;
      mmci_form forms[CALL_OPERANDS];
      mmci_group chain = call_of(MMC_F32, 3, forms);
      mmci_measured measured;
      mmci_error error = {0};
      mmc_status status = mmci_bench_open(&ops, &device, &options, &bench, &error);
      if (status == MMC_OK) {
        mmci_machine machine = mmci_bench_machine(bench);
        status = machine.measure_group(machine.user, &chain, &measured, &error);
      }
      failed = watch.calls >= fail_at;
      assert_int_equal(status, failed ? MMC_E_DEVICE : MMC_OK);
      if (!failed && timed) assert_true(fabs(measured.seconds.value - watch.plain_s) <= 1e-12);
      if (!failed) {
        mmci_machine machine = mmci_bench_machine(bench);
        assert_true(watch.captures > 0 && watch.used_queues == 1);
        chain.variant = 1;
        status = machine.measure_group(machine.user, &chain, &measured, &error);
        assert_int_equal(status, MMC_E_UNSUPPORTED);
        chain.variant = 0;
        watch.fail_at = 0;
        const int64_t too_many[] = {INT64_MAX / 8, FREE_BYTES / 4 / (20 + 12 + 18 + 30) + 1};
        for (int b = 0; b < 2; b++) {
          chain.batch = too_many[b];
          status = machine.measure_group(machine.user, &chain, &measured, &error);
          assert_int_equal(status, MMC_E_UNSUPPORTED);
          mmci_gemm gemm = product(MMC_F32, 4, 5, 6);
          gemm.batch = too_many[b] * 2;
          mmci_recipe whole = mmci_recipe_whole(0);
          status = machine.measure(machine.user, &gemm, &whole, &measured, &error);
          assert_int_equal(status, MMC_E_UNSUPPORTED);
        }
      }
      mmci_bench_close(bench);
      all_is_released();
    }
  }
}

static void unsupported_variants(void **state) {
  (void)state;
  watch_anew();
  struct mmci_device device;
  mmci_device_ops ops = watching(false);
  mmci_measure_options options = quick();
  mmci_bench *bench;
  mmci_error error = {0};
  assert_int_equal(mmci_bench_open(&ops, &device, &options, &bench, &error), MMC_OK);
  mmci_machine machine = mmci_bench_machine(bench);
  mmci_gemm gemm = product(MMC_F32, 5, 6, 7);
  mmci_recipe recipe = mmci_recipe_whole(2);
  mmci_measured measured;
  assert_int_equal(machine.variants(machine.user, &gemm), 2);
  assert_int_equal(machine.measure(machine.user, &gemm, &recipe, &measured, &error),
                   MMC_E_UNSUPPORTED);
  gemm.a.ld = INT64_MAX / 2; /* more bytes than there are numbers for */
  assert_int_equal(machine.measure(machine.user, &gemm, &recipe, &measured, &error), MMC_E_NOMEM);
  mmci_bench_close(bench);
  all_is_released();
}

/* ---- the device's clock -------------------------------------------------------------------- */

static mmci_measured compared(double variant_s, double jitter) {
  watch_anew();
  watch.variant_s = variant_s;
  watch.jitter = jitter;
  struct mmci_device device;
  mmci_device_ops ops = watching(true);
  mmci_measure_options options = mmci_measure_defaults();
  mmci_bench *bench;
  mmci_error error = {0};
  mmci_gemm gemm = product(MMC_F32, 5, 6, 7);
  mmci_recipe recipe = mmci_recipe_whole(1);
  mmci_measured out;
  assert_int_equal(mmci_bench_open(&ops, &device, &options, &bench, &error), MMC_OK);
  mmci_machine machine = mmci_bench_machine(bench);
  watch.launches = 0;
  assert_int_equal(machine.compare(machine.user, &gemm, &recipe, &out, &error), MMC_OK);
  mmci_bench_close(bench);
  all_is_released();
  return out;
}

/* Launches: two samples a turn, and one that is not timed for every wait. */
static void comparisons_end_early(void **state) {
  (void)state;
  mmci_measured lost = compared(3.3e-5, 0);
  assert_true(fabs(lost.gain.value - 1 / 1.1) <= 1e-9 && fabs(lost.plain_s - 3e-5) <= 1e-12);
  assert_int_equal(watch.launches, 2 * 5 + 1);
  mmci_measured won = compared(2.7e-5, 0);
  assert_true(fabs(won.gain.value - 1 / 0.9) <= 1e-9);
  assert_true(fabs(won.seconds.value - 2.7e-5) <= 1e-12);
  assert_int_equal(watch.launches, 2 * 11 + 2);
  mmci_measured blurred = compared(2.7e-5, 0.05);
  assert_int_equal(watch.launches, 2 * 31 + 4);
  assert_true(blurred.gain.low <= 1 / 0.9 && 1 / 0.9 <= blurred.gain.high);
  assert_true(blurred.gain.low > 1);
}

static void steady_times_take_few_samples(void **state) {
  (void)state;
  for (int blurred = 0; blurred < 2; blurred++) {
    watch_anew();
    watch.jitter = blurred ? 0.05 : 0;
    struct mmci_device device;
    mmci_device_ops ops = watching(true);
    mmci_measure_options options = mmci_measure_defaults();
    mmci_bench *bench;
    mmci_error error = {0};
    mmci_gemm gemm = product(MMC_F32, 5, 6, 7);
    mmci_recipe whole = mmci_recipe_whole(0);
    mmci_measured measured;
    assert_int_equal(mmci_bench_open(&ops, &device, &options, &bench, &error), MMC_OK);
    mmci_machine machine = mmci_bench_machine(bench);
    assert_int_equal(machine.measure(machine.user, &gemm, &whole, &measured, &error), MMC_OK);
    assert_true(fabs(measured.seconds.value - 3e-5) <= (blurred ? 0.05 : 1e-7) * 3e-5);
    assert_int_equal(watch.launches, blurred ? 9 + 2 : 3 + 1);
    mmci_bench_close(bench);
    all_is_released();
  }
}

/* ---- the host ------------------------------------------------------------------------------ */

/* One of the host's devices, itself and on a clock on which its calls take what law_s() says. */
static struct {
  const mmci_device_ops *ops;
  mmci_device_ops timed;
  double now_s;
} host;

static double law_s(const mmci_gemm *gemm) {
  double seconds = 1e-6 + 1e-9 * (double)(gemm->m * gemm->k * gemm->n);
  return gemm->n > 24 ? 1.5 * seconds : seconds;
}

static mmc_status host_prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                               mmci_error *error) {
  mmci_kernel *kernel = malloc(sizeof *kernel);
  kernel->gemm = *gemm;
  mmc_status status = host.ops->prepare(device, gemm, &kernel->of_host, error);
  if (status == MMC_OK)
    *out = kernel;
  else
    free(kernel);
  return status;
}
static void host_release(mmci_kernel *kernel) {
  host.ops->release(kernel->of_host);
  free(kernel);
}
static mmc_status host_enqueue(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                               const void *b, void *c, mmci_error *error) {
  host.now_s += law_s(&kernel->gemm);
  return host.ops->enqueue(queue, kernel->of_host, a, b, c, error);
}
/* Of a call of several products: 7 us for each of the batch. */
static const double call_s = 7e-6;
static mmc_status host_chain_prepare(mmci_device *device, const mmci_group *chain,
                                     mmci_group_kernel **out, mmci_error *error) {
  mmci_group_kernel *kernel = calloc(1, sizeof *kernel);
  kernel->last = chain->products[chain->count - 1];
  memcpy(kernel->forms, chain->forms, sizeof kernel->forms);
  kernel->batch = chain->batch;
  kernel->c_bytes = (int64_t)mmc_dtype_size(chain->dtype) *
                    ((chain->batch - 1) * chain->c_stride + kernel->last.m * kernel->last.n);
  mmc_status status = host.ops->group_prepare(device, chain, &kernel->of_host, error);
  if (status == MMC_OK)
    *out = kernel;
  else
    free(kernel);
  return status;
}
static void host_chain_release(mmci_group_kernel *kernel) {
  host.ops->group_release(kernel->of_host);
  free(kernel);
}
/* Writes all of the result and none of the operands, which lie apart. */
static mmc_status host_chain_enqueue(mmci_queue *queue, const mmci_group_kernel *kernel,
                                     const void *const *operands, void *c, mmci_error *error) {
  host.now_s += call_s * (double)kernel->batch;
  for (int o = 0; o < CALL_OPERANDS; o++) {
    assert_int_equal((uintptr_t)operands[o] % 64, 0);
    assert_true(o == 0 || (const char *)operands[o] - (const char *)operands[o - 1] >=
                              kernel->forms[o - 1].stride * kernel->batch);
  }
  memset(c, 0xFF, (size_t)kernel->c_bytes);
  mmc_status status = host.ops->group_enqueue(queue, kernel->of_host, operands, c, error);
  unsigned char *bytes = c;
  assert_false(bytes[0] == 0xFF && bytes[1] == 0xFF && bytes[kernel->c_bytes - 1] == 0xFF);
  return status;
}

static double host_now(void *user) {
  (void)user;
  return host.now_s;
}

/* The bench of a device by name, with that clock or the machine's. */
static mmci_bench *open_host(mmci_registry *registry, const char *name, bool timed,
                             uint64_t cold_bytes) {
  mmci_opened opened;
  mmci_error error = {0};
  if (mmci_registry_open(registry, name, &opened, &error) != MMC_OK) fail_msg("%s", error.text);
  mmci_measure_options options = mmci_measure_defaults();
  options.cold_bytes = cold_bytes;
  host.ops = opened.ops;
  host.now_s = 0;
  host.timed = *opened.ops;
  host.timed.prepare = host_prepare;
  host.timed.release = host_release;
  host.timed.enqueue = host_enqueue;
  host.timed.group_prepare = host_chain_prepare;
  host.timed.group_release = host_chain_release;
  host.timed.group_enqueue = host_chain_enqueue;
  if (timed) options.now_s = host_now;
  mmci_bench *bench;
  if (mmci_bench_open(timed ? &host.timed : host.ops, opened.device, &options, &bench, &error) !=
      MMC_OK)
    fail_msg("%s", error.text);
  return bench;
}

static bool is_near(double x, double truth) {
  return fabs(x - truth) <= 1e-9 * truth;
}

/* Returns the seconds of a recipe by law_s(), one piece after the other. */
static double law_of(const mmci_recipe *recipe, const mmci_gemm *gemm) {
  mmci_recipe_piece pieces[MMCI_RECIPE_PIECES];
  double seconds = 0;
  int count = mmci_recipe_pieces(recipe, gemm, pieces);
  for (int i = 0; i < count; i++) seconds += law_s(&pieces[i].gemm);
  return seconds;
}

static void host_devices(void **state) {
  (void)state;
  static const char *const names[] = {"ref", "cpu"};
  mmci_registry *registry;
  mmci_error error = {0};
  assert_int_equal(mmci_registry_create("", &registry, &error), MMC_OK);
  for (int d = 0; d < 2; d++)
    for (mmc_dtype dtype = MMC_F32; dtype <= MMC_BF16; dtype++) {
      mmci_bench *bench = open_host(registry, names[d], true, dtype % 2 == 0 ? 0 : 1 << 16);
      mmci_machine machine = mmci_bench_machine(bench);
      assert_int_equal(machine.queues, 1);
      mmci_recipe whole = mmci_recipe_whole(0);
      mmci_gemm gemms[] = {product(dtype, 4, 4, 4), product(dtype, 96, 96, 96)};
      for (int g = 0; g < 2; g++) {
        mmci_measured measured;
        double truth = law_s(&gemms[g]);
        assert_int_equal(machine.measure(machine.user, &gemms[g], &whole, &measured, &error),
                         MMC_OK);
        const mmci_estimate *seconds = &measured.seconds;
        assert_true(is_near(seconds->low, truth) && is_near(seconds->value, truth) &&
                    is_near(seconds->high, truth));
      }
      for (size_t r = 0; r < sizeof recipes / sizeof recipes[0]; r++) {
        mmci_gemm gemm = product(dtype, 5, 6, 7);
        mmci_recipe recipe;
        mmci_measured measured;
        if (strchr(recipes[r], 'v') != NULL) continue;
        assert_int_equal(mmci_recipe_parse(recipes[r], 5, 6, 7, NULL, &recipe, &error), MMC_OK);
        mmc_status status = machine.compare(machine.user, &gemm, &recipe, &measured, &error);
        if (recipe.pad != 0) {
          assert_int_equal(status, MMC_E_UNSUPPORTED);
          continue;
        }
        if (status != MMC_OK) fail_msg("%s on %s: %s", recipes[r], names[d], error.text);
        double plain_s = law_s(&gemm), seconds = law_of(&recipe, &gemm);
        assert_true(is_near(measured.plain_s, plain_s));
        assert_true(is_near(measured.seconds.value, seconds));
        assert_true(is_near(measured.gain.low, plain_s / seconds) &&
                    is_near(measured.gain.high, plain_s / seconds));
      }
      mmci_bench_close(bench);
    }
  mmci_registry_destroy(registry);
}

/* A device that does not take a call says so. */
static void calls_on_the_host(void **state) {
  (void)state;
  static const char *const names[] = {"ref", "cpu"};
  mmci_registry *registry;
  mmci_error error = {0};
  int taken = 0;
  assert_int_equal(mmci_registry_create("", &registry, &error), MMC_OK);
  for (int d = 0; d < 2; d++)
    for (mmc_dtype dtype = MMC_F32; dtype <= MMC_BF16; dtype++)
      for (int64_t batch = 1; batch < 100; batch += 33) {
        mmci_bench *bench = open_host(registry, names[d], true, dtype % 2 == 0 ? 0 : 1 << 16);
        mmci_machine machine = mmci_bench_machine(bench);
        mmci_form forms[CALL_OPERANDS];
        mmci_group chain = call_of(dtype, batch, forms);
        mmci_measured measured;
        mmc_status status = machine.measure_group(machine.user, &chain, &measured, &error);
        taken += status == MMC_OK;
        if (status != MMC_OK) assert_int_equal(status, MMC_E_UNSUPPORTED);
        if (status == MMC_OK) assert_true(is_near(measured.seconds.value, call_s * (double)batch));
        /* A batch of one product. */
        mmci_gemm gemm = product(dtype, 4, 4, 4);
        mmci_gemm_spread(&gemm, batch);
        mmci_recipe whole = mmci_recipe_whole(0);
        status = machine.measure(machine.user, &gemm, &whole, &measured, &error);
        if (status != MMC_E_UNSUPPORTED) assert_true(is_near(measured.seconds.value, law_s(&gemm)));
        mmci_bench_close(bench);
      }
  mmci_registry_destroy(registry);
  assert_true(taken >= 18);
}

/* By the machine's clock, which goes on while something is multiplied: 2 10^6 flops take more than
 * 10 ns on anything. */
static void the_clock_of_the_machine(void **state) {
  (void)state;
  mmci_registry *registry;
  mmci_error error = {0};
  assert_int_equal(mmci_registry_create("", &registry, &error), MMC_OK);
  mmci_bench *bench = open_host(registry, "ref", false, 0);
  mmci_machine machine = mmci_bench_machine(bench);
  mmci_recipe whole = mmci_recipe_whole(0);
  mmci_gemm gemm = product(MMC_F64, 96, 96, 96);
  mmci_measured measured;
  double start_s = machine.now_s(machine.user);
  assert_int_equal(machine.measure(machine.user, &gemm, &whole, &measured, &error), MMC_OK);
  double took_s = machine.now_s(machine.user) - start_s;
  const mmci_estimate *seconds = &measured.seconds;
  assert_true(seconds->low > 1e-8 && seconds->low <= seconds->value);
  assert_true(seconds->value <= seconds->high && seconds->high < took_s);
  mmci_bench_close(bench);
  mmci_registry_destroy(registry);
}

/* The whole way, on the oracle: where times are proportional to the work nothing is to be gained,
 * and where more than 24 columns take half as long again cuts are. */
static void a_search_on_the_host(void **state) {
  (void)state;
  mmci_registry *registry;
  mmci_error error = {0};
  assert_int_equal(mmci_registry_create("", &registry, &error), MMC_OK);
  mmci_bench *bench = open_host(registry, "ref", true, 0);
  mmci_machine machine = mmci_bench_machine(bench);
  mmci_tune_options tune = mmci_tune_defaults();
  tune.most_points = 4;
  for (int64_t n = 6; n <= 48; n += 42) {
    mmci_tuner *tuner;
    mmci_choice choice;
    int64_t decided;
    mmci_gemm gemm = product(MMC_F64, 64, 64, n);
    assert_int_equal(mmci_tuner_create(&machine, &tune, &tuner, &error), MMC_OK);
    if (mmci_tune_set(tuner, &gemm, 1, &choice, &decided, &error) != MMC_OK)
      fail_msg("%s", error.text);
    assert_true(is_near(choice.plain_s, law_s(&gemm)));
    assert_int_equal(mmci_recipe_is_plain(&choice.recipe), n == 6);
    assert_true(is_near(choice.gain.value, law_s(&gemm) / law_of(&choice.recipe, &gemm)));
    assert_true(mmci_tuner_measurements(tuner) > 10);
    mmci_tuner_destroy(tuner);
  }
  mmci_bench_close(bench);
  mmci_bench_close(NULL);
  mmci_registry_destroy(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(work_is_ordered),
      cmocka_unit_test(every_call_may_fail),
      cmocka_unit_test(calls_are_timed_and_may_fail),
      cmocka_unit_test(unsupported_variants),
      cmocka_unit_test(comparisons_end_early),
      cmocka_unit_test(steady_times_take_few_samples),
      cmocka_unit_test(host_devices),
      cmocka_unit_test(calls_on_the_host),
      cmocka_unit_test(the_clock_of_the_machine),
      cmocka_unit_test(a_search_on_the_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
