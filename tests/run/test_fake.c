/* test_fake.c: the fake device finds what the tests beside this one rely on it to find. Each test
 * breaks one rule of device.h, beside its like that breaks none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "fake_device.h"

enum { SIDE = 4, BYTES = SIDE * SIDE * (int)sizeof(double) };

/* Two queues, an event, and three square matrices on the device. */
typedef struct bench {
  mmci_device *device;
  const mmci_device_ops *ops;
  const mmci_device_async *async;
  mmci_queue *first, *second;
  mmci_event *event;
  mmci_kernel *kernel;
  void *a, *b, *c;
  double host[SIDE * SIDE];
} bench;

static void open_bench(bench *b, uint64_t seed) {
  memset(b, 0, sizeof *b);
  mmci_gemm gemm = {.dtype = MMC_F64,
                    .m = SIDE,
                    .k = SIDE,
                    .n = SIDE,
                    .a = {.ld = SIDE},
                    .b = {.ld = SIDE},
                    .ldc = SIDE};
  b->device = fake_open(&(fake_options){.seed = seed, .queues = 2});
  b->ops = fake_ops(b->device);
  b->async = b->ops->async;
  assert_int_equal(b->ops->queue_open(b->device, &b->first, NULL), MMC_OK);
  assert_int_equal(b->ops->queue_open(b->device, &b->second, NULL), MMC_OK);
  assert_int_equal(b->async->event_create(b->device, &b->event, NULL), MMC_OK);
  assert_int_equal(b->ops->prepare(b->device, &gemm, &b->kernel, NULL), MMC_OK);
  void **matrices[] = {&b->a, &b->b, &b->c};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(b->ops->alloc(b->device, BYTES, matrices[i], NULL), MMC_OK);
    memset(fake_bytes(b->device, *matrices[i], BYTES), 0, BYTES);
  }
}

/* The fault that is found must contain the text; "" stands for none. */
static void close_bench(bench *b, const char *text) {
  b->ops->queue_close(b->first);
  b->ops->queue_close(b->second);
  b->async->event_destroy(b->event);
  b->ops->release(b->kernel);
  void *matrices[] = {b->a, b->b, b->c};
  for (int i = 0; i < 3; i++)
    if (matrices[i] != NULL) b->ops->dealloc(b->device, matrices[i]);
  const char *fault = fake_close(b->device);
  if (text[0] == '\0' ? fault[0] != '\0' : strstr(fault, text) == NULL)
    fail_msg("expected '%s', found '%s'", text, fault);
}

static void multiply(bench *b, mmci_queue *queue, const void *x, const void *y, void *z) {
  (void)b->ops->enqueue(queue, b->kernel, x, y, z, NULL);
}

static void record(bench *b, mmci_queue *queue) {
  assert_int_equal(b->async->event_record(queue, b->event, NULL), MMC_OK);
}

static mmc_status wait_for(bench *b, mmci_queue *queue) {
  return b->async->event_wait(queue, b->event, NULL);
}

static mmci_transfer transfer(void *to, const void *from) {
  return (mmci_transfer){to, from, BYTES, BYTES, 1, BYTES};
}

/* ---- races ----------------------------------------------------------------------------------- */

/* Every kind of clash between two queues, with the second waiting for the first or not. */
static void unordered_work_is_a_race(void **state) {
  (void)state;
  for (uint64_t round = 0; round < 32; round++) {
    bench b;
    bool waits = round & 1;
    int clash = (int)(round / 2) % 4;
    open_bench(&b, round);
    multiply(&b, b.first, b.a, b.a, b.b); /* reads a, writes b */
    record(&b, b.first);
    if (waits) assert_int_equal(wait_for(&b, b.second), MMC_OK);
    if (clash == 0) multiply(&b, b.second, b.b, b.b, b.c); /* reads what is written */
    if (clash == 1) multiply(&b, b.second, b.c, b.c, b.a); /* writes what is read */
    if (clash == 2) multiply(&b, b.second, b.c, b.c, b.b); /* both write */
    if (clash == 3) multiply(&b, b.second, b.a, b.a, b.c); /* both read */
    close_bench(&b, waits || clash == 3 ? "" : "race");
  }
}

static void a_wait_is_for_the_latest_record_before_it(void **state) {
  (void)state;
  for (int late = 0; late < 3; late++) {
    bench b;
    open_bench(&b, 1);
    if (late == 0) assert_int_equal(wait_for(&b, b.second), MMC_OK); /* for nothing */
    if (late == 1) record(&b, b.first);
    multiply(&b, b.first, b.a, b.a, b.b);
    if (late != 1) record(&b, b.first);
    if (late != 0) assert_int_equal(wait_for(&b, b.second), MMC_OK);
    multiply(&b, b.second, b.b, b.b, b.c);
    close_bench(&b, late == 2 ? "" : "race");
  }
}

static void the_host_orders_what_it_waited_for(void **state) {
  (void)state;
  for (int synced = 0; synced < 2; synced++) {
    bench b;
    open_bench(&b, 2);
    multiply(&b, b.first, b.a, b.a, b.b);
    if (synced) assert_int_equal(b.ops->sync(b.first, NULL), MMC_OK);
    multiply(&b, b.second, b.b, b.b, b.c);
    close_bench(&b, synced ? "" : "race");
  }
}

/* Columns beside each other share no byte; columns that meet do. */
static void lines_are_told_apart(void **state) {
  (void)state;
  for (int meet = 0; meet < 2; meet++) {
    bench b;
    open_bench(&b, 3);
    mmci_transfer left = {b.a, b.host, 32, 32, 4, 16}, right = left;
    right.to = (char *)b.a + (meet ? 8 : 16);
    assert_int_equal(b.async->upload(b.first, &left, NULL), MMC_OK);
    assert_int_equal(b.async->upload(b.second, &right, NULL), MMC_OK);
    close_bench(&b, meet ? "race" : "");
  }
}

/* An upload may read at once what its queue has still to download; a download lands with its own
 * queue. */
static void host_memory_is_apart(void **state) {
  (void)state;
  for (int synced = 0; synced < 3; synced++) {
    bench b;
    open_bench(&b, 4);
    mmci_transfer down = transfer(b.host, b.a), up = transfer(b.b, b.host);
    assert_int_equal(b.async->download(b.first, &down, NULL), MMC_OK);
    record(&b, b.first);
    assert_int_equal(wait_for(&b, b.second), MMC_OK);
    if (synced > 0) assert_int_equal(b.ops->sync(synced == 1 ? b.second : b.first, NULL), MMC_OK);
    assert_int_equal(b.async->upload(b.second, &up, NULL), MMC_OK);
    close_bench(&b, synced == 2 ? "" : "race");
  }
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void addresses_are_checked(void **state) {
  (void)state;
  static const char *const faults[] = {
      "",
      "expected memory of the device",
      "outside any block",
      "overlaps C",
      "overlaps C",
      "not aligned",
      "outside any block",
      "expected memory of the host",
  };
  for (int which = 0; which < 8; which++) {
    bench b;
    open_bench(&b, 5);
    char *a = b.a, *c = b.c;
    if (which == 0) multiply(&b, b.first, a, b.b, c);
    if (which == 1) multiply(&b, b.first, b.host, b.b, c);
    if (which == 2) multiply(&b, b.first, a + 8, b.b, c);
    if (which == 3) multiply(&b, b.first, c, b.b, c);
    if (which == 4) multiply(&b, b.first, a, c, c);
    if (which == 5) multiply(&b, b.first, a, b.b, c + 4);
    if (which == 6) multiply(&b, b.first, a, b.b, c + BYTES);
    mmci_transfer t = transfer(b.a, b.b);
    if (which == 7) assert_int_equal(b.async->upload(b.first, &t, NULL), MMC_OK);
    close_bench(&b, faults[which]);
  }
}

static void freed_memory_is_not_used(void **state) {
  (void)state;
  for (int which = 0; which < 3; which++) {
    bench b;
    open_bench(&b, 6);
    void *a = b.a;
    b.a = NULL;
    if (which == 1) multiply(&b, b.first, a, b.b, b.c);
    b.ops->dealloc(b.device, a);
    if (which == 2) multiply(&b, b.first, a, b.b, b.c);
    close_bench(&b, which == 0 ? "" : which == 1 ? "in use" : "was freed");
  }
}

static void what_is_left_is_found(void **state) {
  (void)state;
  bench b;
  open_bench(&b, 7);
  b.a = NULL;
  close_bench(&b, "left behind: 128 bytes");
}

/* ---- captures -------------------------------------------------------------------------------- */

/* A product on both queues, captured. */
static mmc_status capture(bench *b, bool joined, mmci_graph **graph) {
  assert_int_equal(b->async->capture_begin(b->first, NULL), MMC_OK);
  record(b, b->first);
  assert_int_equal(wait_for(b, b->second), MMC_OK);
  multiply(b, b->second, b->a, b->a, b->b);
  record(b, b->second);
  if (joined) assert_int_equal(wait_for(b, b->first), MMC_OK);
  return b->async->capture_end(b->first, graph, NULL);
}

/* Nothing of it is done before it is launched. Launches of one graph follow each other. */
static void captures_are_replayed(void **state) {
  (void)state;
  bench b;
  mmci_graph *graph;
  open_bench(&b, 8);
  assert_int_equal(capture(&b, true, &graph), MMC_OK);
  assert_int_equal(b.ops->sync(b.first, NULL), MMC_OK);
  double *a = (double *)fake_bytes(b.device, b.a, BYTES);
  for (int i = 0; i < SIDE; i++) a[i * SIDE + i] = 3;
  assert_true(*(double *)fake_bytes(b.device, b.b, BYTES) == 0);
  assert_int_equal(b.async->graph_launch(b.first, graph, NULL), MMC_OK);
  assert_int_equal(b.async->graph_launch(b.second, graph, NULL), MMC_OK);
  assert_int_equal(b.ops->sync(b.second, NULL), MMC_OK);
  assert_true(*(double *)fake_bytes(b.device, b.b, BYTES) == 9);
  b.async->graph_destroy(graph);
  close_bench(&b, "");
}

static void captures_are_joined(void **state) {
  (void)state;
  bench b;
  mmci_graph *graph;
  open_bench(&b, 9);
  assert_int_equal(capture(&b, false, &graph), MMC_E_DEVICE);
  close_bench(&b, "not joined");
}

static void captures_forbid(void **state) {
  (void)state;
  static const char *const faults[] = {"",         "sync in",    "upload in", "download in",
                                       "alloc in", "dealloc in", "a wait for"};
  for (int which = 0; which < 7; which++) {
    bench b;
    mmci_graph *graph;
    void *memory;
    open_bench(&b, 10);
    mmci_transfer up = transfer(b.a, b.host), down = transfer(b.host, b.a);
    record(&b, b.second);
    assert_int_equal(b.async->capture_begin(b.first, NULL), MMC_OK);
    mmc_status status = MMC_OK;
    if (which == 1) status = b.ops->sync(b.first, NULL);
    if (which == 2) status = b.async->upload(b.first, &up, NULL);
    if (which == 3) status = b.async->download(b.first, &down, NULL);
    if (which == 4) status = b.ops->alloc(b.device, 8, &memory, NULL);
    if (which == 5) b.ops->dealloc(b.device, b.a);
    if (which == 5) b.a = NULL;
    if (which == 6) status = wait_for(&b, b.first);
    assert_int_equal(status, which == 0 || which == 5 ? MMC_OK : MMC_E_DEVICE);
    status = b.async->capture_end(b.first, &graph, NULL);
    assert_int_equal(status, which == 0 ? MMC_OK : MMC_E_DEVICE);
    if (which == 0) b.async->graph_destroy(graph);
    close_bench(&b, faults[which]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unordered_work_is_a_race),
      cmocka_unit_test(a_wait_is_for_the_latest_record_before_it),
      cmocka_unit_test(the_host_orders_what_it_waited_for),
      cmocka_unit_test(lines_are_told_apart),
      cmocka_unit_test(host_memory_is_apart),
      cmocka_unit_test(addresses_are_checked),
      cmocka_unit_test(freed_memory_is_not_used),
      cmocka_unit_test(what_is_left_is_found),
      cmocka_unit_test(captures_are_replayed),
      cmocka_unit_test(captures_are_joined),
      cmocka_unit_test(captures_forbid),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
