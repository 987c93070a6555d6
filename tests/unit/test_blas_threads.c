/* test_blas_threads.c: products with fewer threads, from many threads at once: all are right, and
 * afterwards OpenBLAS has as many threads as before. Which products have threads of their own. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "device/blas/blas.h"
#include "device/blas/cblas_table.h"
#include "device/blas/threads.h"
#include "device/blas/xsmm.h"
#include "device/device.h"
#include "mmchain.h"

enum { SIZE = 96, CALLERS = 4, CALLS = 200 };

static const mmci_device_ops *const ops = &mmci_device_blas;
static mmci_device *device;

static mmci_gemm product(int variant) {
  mmci_gemm gemm = mmci_gemm_tight(MMC_F64, MMCI_NATIVE, SIZE, SIZE, SIZE, MMC_OP_N, MMC_OP_N);
  gemm.variant = variant;
  return gemm;
}

/* What a caller computes; a batch is of so many products of the same factors. */
typedef struct caller {
  int variant;
  int64_t batch;
} caller;

/* C = A B of ones is SIZE everywhere. Returns whether it is, every time. */
static void *multiply(void *argument) {
  const caller *x = argument;
  mmci_gemm gemm = product(x->variant);
  gemm.batch = x->batch;
  gemm.c_stride = SIZE * SIZE;
  mmci_kernel *kernel;
  mmci_queue *queue;
  bool right = ops->prepare(device, &gemm, &kernel, NULL) == MMC_OK &&
               ops->queue_open(device, &queue, NULL) == MMC_OK;
  const size_t numbers = (size_t)x->batch * SIZE * SIZE;
  double *c = malloc(numbers * sizeof(double)), *a = malloc(SIZE * SIZE * sizeof(double));
  for (int i = 0; i < SIZE * SIZE; i++) a[i] = 1;
  for (int64_t call = 0; right && call < CALLS / x->batch; call++) {
    memset(c, 0xFF, numbers * sizeof(double));
    right = ops->enqueue(queue, kernel, a, a, c, NULL) == MMC_OK;
    for (size_t i = 0; i < numbers; i++) right = right && c[i] == SIZE;
  }
  ops->queue_close(queue);
  ops->release(kernel);
  free(a);
  free(c);
  return right ? argument : NULL;
}

static void call_at_once(caller *callers) {
  const int threads = mmci_blas_threads();
  pthread_t running[CALLERS];
  for (int i = 0; i < CALLERS; i++)
    assert_int_equal(pthread_create(&running[i], NULL, multiply, &callers[i]), 0);
  for (int i = 0; i < CALLERS; i++) {
    void *right = NULL;
    assert_int_equal(pthread_join(running[i], &right), 0);
    assert_non_null(right);
  }
  assert_int_equal(mmci_blas_threads(), threads);
}

static void many_callers(void **state) {
  (void)state;
  mmci_gemm plain = product(0);
  const int count = ops->variants(device, &plain);
  printf("%d threads, %d variants\n", mmci_blas_threads(), count);
  caller callers[CALLERS];
  for (int i = 0; i < CALLERS; i++) callers[i] = (caller){i % (count + 1), 1};
  call_at_once(callers);
}

/* Some of these are shared among threads, others are computed one after the other. */
static void batches_of_many_callers(void **state) {
  (void)state;
  caller callers[CALLERS];
  for (int i = 0; i < CALLERS; i++) callers[i] = (caller){0, i % 2 == 0 ? 12 : 3};
  call_at_once(callers);
}

/* Threads of their own compute batches of products for which OpenBLAS would have threads, where
 * each has nearly as many. */
static void even_batches_are_shared(void **state) {
  (void)state;
  const mmci_gemm gemm = product(0);
  const int64_t threads = mmci_blas_threads();
  assert_false(mmci_blas_is_serial(&gemm));
  assert_false(mmci_blas_is_shared(&gemm, 1));
  assert_int_equal(mmci_blas_is_shared(&gemm, threads + 1), mmci_blas.is_openblas && threads == 1);
  for (int64_t rounds = threads == 1 ? 2 : 1; rounds < 5; rounds++)
    assert_int_equal(mmci_blas_is_shared(&gemm, rounds * threads), mmci_blas.is_openblas);
  const mmci_gemm half = mmci_gemm_tight(MMC_F16, MMCI_NATIVE, 600, 600, 600, MMC_OP_N, MMC_OP_N);
  assert_false(mmci_blas_is_shared(&half, 4 * threads)); /* the queue has one room for it */
  const mmci_gemm small = mmci_gemm_tight(MMC_F64, MMCI_NATIVE, 8, 8, 8, MMC_OP_N, MMC_OP_N);
  assert_true(mmci_blas_is_shared(&small, 3));
}

/* Each has fewer threads than OpenBLAS, one goes by blocks, and there is none behind the last. */
static void variants_there_are(void **state) {
  (void)state;
  mmci_gemm gemm = product(0);
  int count = ops->variants(device, &gemm), threads = mmci_blas_threads();
  const int fewer = count - mmci_xsmm_can(&gemm);
  assert_int_equal(fewer > 0, threads > 1);
  if (fewer > 0) assert_true(1 << (fewer - 1) < threads);
  gemm.variant = fewer + 1;
  if (fewer < count) assert_string_equal(ops->kernel_name(device, &gemm), "blocks");
  const int bad[] = {-1, count + 1};
  for (int i = 0; i < 2; i++) {
    mmci_kernel *kernel = NULL;
    mmci_error error;
    gemm.variant = bad[i];
    assert_int_equal(ops->prepare(device, &gemm, &kernel, &error), MMC_E_UNSUPPORTED);
    assert_null(kernel);
  }
  gemm = product(0);
  gemm.k = 0;
  assert_int_equal(ops->variants(device, &gemm), 0);
}

/* Behind these, where a CBLAS would pack the larger operand for a few rows. */
static void few_rows_go_by_libxsmm(void **state) {
  (void)state;
  mmci_gemm gemm = {.dtype = MMC_F64, .m = 4, .k = 4096, .n = 40, .ldc = 40};
  gemm.a.ld = 4096;
  gemm.b.ld = 40;
  int fewer = 0, last = ops->variants(device, &gemm);
  while (fewer < 8 && 1 << fewer < mmci_blas_threads()) fewer++;
  assert_int_equal(last, fewer + 2 * mmci_xsmm_can(&gemm));
  gemm.variant = last;
  if (mmci_xsmm_can(&gemm)) assert_string_equal(ops->kernel_name(device, &gemm), "libxsmm");
  gemm.m = 65;
  assert_int_equal(ops->variants(device, &gemm), fewer + mmci_xsmm_can(&gemm));
}

static int open_device(void **state) {
  (void)state;
  return ops->open(0, &device, NULL) != MMC_OK;
}

static int close_device(void **state) {
  (void)state;
  ops->close(device);
  return 0;
}

static int keep_text(void *user, const char *bytes, size_t size) {
  strncat(user, bytes, size);
  return 0;
}

/* Vectors of large recurrences are multiplied by xGEMV, also where that has threads of its own. */
static void recurrences_of_vectors_are_gemv(void **state) {
  (void)state;
  mmc_context *context;
  assert_int_equal(mmc_context_create(NULL, &context), MMC_OK);
  for (int t = 0; t < 6; t++) {
    const bool square = t > 3;
    char text[2000] = "";
    mmc_scan_options options = MMC_SCAN_OPTIONS_INIT;
    mmc_scan *scan;
    options.device = "blas";
    options.batch = t % 2 == 0 ? 1 : 5;
    options.columns = square ? 0 : 1;
    options.initial = true;
    options.addend = t == 2 || t == 3;
    mmc_status status = mmc_scan_create(context, MMC_F64, 120, 10, &options, &scan);
    if (status == MMC_E_UNSUPPORTED) break; /* built without a BLAS */
    assert_int_equal(status, MMC_OK);
    assert_int_equal(mmc_scan_explain(scan, MMC_TEXT, keep_text, text), MMC_OK);
    if ((strstr(text, "gemv") == NULL) != square) fail_msg("%s", text);
    mmc_scan_destroy(scan);
  }
  mmc_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_callers),
      cmocka_unit_test(batches_of_many_callers),
      cmocka_unit_test(even_batches_are_shared),
      cmocka_unit_test(variants_there_are),
      cmocka_unit_test(few_rows_go_by_libxsmm),
      cmocka_unit_test(recurrences_of_vectors_are_gemv),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}
