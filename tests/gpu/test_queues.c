/* test_queues.c: the CUDA module's transfers, copies, events, graphs and queues on a device.
 *
 *     test_queues MODULE [small | race | speed]
 *
 * speed prints what transfers reach beside those of page-locked memory. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "../elements.h"
#include "../random.h"
#include "base/monotonic.h"
#include "gpu_test.h"

static const int64_t MIB = (int64_t)1 << 20;

static mmci_transfer lines_of(void *to, const void *from, int64_t bytes) {
  return (mmci_transfer){to, from, bytes, bytes, 1, bytes};
}

static mmc_status up(const target *on, mmci_queue *queue, void *to, const void *from, int64_t bytes,
                     mmci_error *error) {
  mmci_transfer t = lines_of(to, from, bytes);
  return on->ops->async->upload(queue, &t, error);
}

static mmc_status down(const target *on, mmci_queue *queue, void *to, const void *from,
                       int64_t bytes, mmci_error *error) {
  mmci_transfer t = lines_of(to, from, bytes);
  return on->ops->async->download(queue, &t, error);
}

/* ---- transfers ------------------------------------------------------------------------------- */

typedef struct region {
  int64_t lines, line_bytes, host_gap, device_gap;
} region;

static void *host_alloc(const target *on, bool pinned, int64_t bytes) {
  void *memory = NULL;
  mmci_error error = {0};
  if (!pinned) return malloc((size_t)bytes);
  expect_ok(on->ops->async->alloc_pinned(on->device, (size_t)bytes, &memory, &error), &error,
            "alloc_pinned");
  return memory;
}

static void host_free(const target *on, bool pinned, void *memory) {
  if (pinned)
    on->ops->async->dealloc_pinned(on->device, memory);
  else
    free(memory);
}

/* Lines from the host to the device and back to other memory: what is between them is left alone,
 * there and here. */
static void try_transfer(const target *on, mmci_queue *queue, const region *x, bool pinned,
                         uint64_t seed) {
  const int64_t host_pitch = x->line_bytes + x->host_gap;
  const int64_t device_pitch = x->line_bytes + x->device_gap;
  const int64_t host_bytes = x->lines * host_pitch + 1, device_bytes = x->lines * device_pitch + 1;
  unsigned char *from = host_alloc(on, pinned, host_bytes);
  unsigned char *back = host_alloc(on, pinned, host_bytes), *whole = malloc((size_t)device_bytes);
  void *device = NULL;
  uint64_t random = seed;
  mmci_error error = {0};
  if (from == NULL || back == NULL || whole == NULL) {
    expect(false, "out of memory");
  } else {
    mmc_status status = on->ops->alloc(on->device, (size_t)device_bytes, &device, &error);
    for (int64_t t = 0; t < host_bytes; t++)
      from[t] = (unsigned char)(t % 8 == 0 ? random_bits(&random) : from[t - 1] * 5u + 1u);
    memset(whole, 0x5a, (size_t)device_bytes);
    memset(back, 0xa5, (size_t)host_bytes);
    if (status == MMC_OK) status = up(on, queue, device, whole, device_bytes, &error);
    mmci_transfer there = {device, from, device_pitch, host_pitch, x->lines, x->line_bytes};
    mmci_transfer here = {back, device, host_pitch, device_pitch, x->lines, x->line_bytes};
    if (status == MMC_OK) status = on->ops->async->upload(queue, &there, &error);
    if (status == MMC_OK) status = on->ops->async->download(queue, &here, &error);
    if (status == MMC_OK) status = down(on, queue, whole, device, device_bytes, &error);
    if (status == MMC_OK) status = on->ops->sync(queue, &error);
    bool right = expect_ok(status, &error, "a transfer");
    for (int64_t line = 0; right && line < x->lines; line++) {
      right =
          memcmp(back + line * host_pitch, from + line * host_pitch, (size_t)x->line_bytes) == 0;
      for (int64_t t = x->line_bytes; right && t < host_pitch; t++)
        right = back[line * host_pitch + t] == 0xa5;
      for (int64_t t = x->line_bytes; right && t < device_pitch; t++)
        right = whole[line * device_pitch + t] == 0x5a;
    }
    right = right && back[host_bytes - 1] == 0xa5 && whole[device_bytes - 1] == 0x5a;
    if (!expect(right, "lines are where they belong, and nothing else is written"))
      printf("  %" PRId64 " lines of %" PRId64 " bytes, gaps %" PRId64 " and %" PRId64
             ", pinned %d, seed %" PRIu64 "\n",
             x->lines, x->line_bytes, x->host_gap, x->device_gap, pinned, seed);
  }
  host_free(on, pinned, from);
  host_free(on, pinned, back);
  free(whole);
  on->ops->dealloc(on->device, device);
}

static void test_transfers(const target *on, mmci_queue *queue) {
  static const region REGIONS[] = {{0, 5, 0, 0},    {5, 0, 3, 3},     {1, 1, 0, 0},
                                   {1, 4, 7, 9},    {1000, 4, 0, 0},  {1000, 4, 12, 0},
                                   {3000, 4, 0, 4}, {77, 4095, 1, 5}, {3, 100000, 17, 64}};
  static const region LONG[] = {{200000, 4, 4, 12},   {3, 5000003, 11, 0},    {1, 90000001, 0, 0},
                                {5000, 20000, 64, 0}, {5000, 20000, 0, 4096}, {2, 4 << 20, 4, 4},
                                {1000000, 8, 0, 0},   {17, 4194304, 0, 0}};
  uint64_t seed = 77;
  for (int pinned = 0; pinned < 2; pinned++) {
    for (size_t t = 0; t < sizeof REGIONS / sizeof *REGIONS; t++)
      try_transfer(on, queue, &REGIONS[t], pinned, seed++);
    for (size_t t = 0; !on->small && t < sizeof LONG / sizeof *LONG; t++)
      try_transfer(on, queue, &LONG[t], pinned, seed++);
    for (int t = 0; t < (on->small ? 5 : 60); t++) {
      uint64_t random = seed;
      region x = {random_below(&random, 300), random_below(&random, 30000),
                  random_below(&random, 2) * random_below(&random, 100),
                  random_below(&random, 2) * random_below(&random, 100)};
      try_transfer(on, queue, &x, pinned, seed++);
    }
  }
}

/* More downloads than the ring has slots, and uploads between them, before anybody waits. */
static void test_outstanding(const target *on, mmci_queue *queue) {
  enum { COUNT = 50, BYTES = 10000 };
  static unsigned char from[COUNT][BYTES], to[COUNT][BYTES];
  void *device = NULL;
  mmci_error error = {0};
  mmc_status status = on->ops->alloc(on->device, (size_t)COUNT * BYTES, &device, &error);
  memset(to, 0, sizeof to);
  for (int t = 0; t < COUNT; t++) memset(from[t], t + 1, BYTES);
  for (int t = 0; t < COUNT && status == MMC_OK; t++) {
    unsigned char *there = (unsigned char *)device + (size_t)t * BYTES;
    status = up(on, queue, there, from[t], BYTES, &error);
    if (status == MMC_OK) status = down(on, queue, to[t], there, BYTES, &error);
  }
  if (status == MMC_OK) status = on->ops->sync(queue, &error);
  if (expect_ok(status, &error, "many transfers at once"))
    expect(memcmp(from, to, sizeof to) == 0, "many transfers at once are right");
  on->ops->dealloc(on->device, device);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void try_copy(const target *on, mmci_queue *queue, mmc_dtype dtype, int64_t rows,
                     int64_t cols, int kind, uint64_t seed) {
  const bool to_trans = kind / 4 == 1;
  const int64_t gap = kind % 3, to_gap = (int64_t)(seed % 4);
  const mmci_form form = {(kind % 2 == 1 ? rows : cols) + 1 + gap, kind % 2 == 1, kind / 2 % 2 == 1,
                          false, 0};
  const int64_t to_ld = (to_trans ? rows : cols) + 1 + to_gap;
  const size_t size = dtype_facts[dtype].size;
  /* One real off what allocations are aligned to. */
  const size_t shift = dtype_facts[dtype].real_size;
  const int64_t from_bytes = (int64_t)size * (rows + cols + 1) * form.ld + (int64_t)shift;
  const int64_t to_bytes = (int64_t)size * (rows + cols + 1) * to_ld + (int64_t)shift;
  unsigned char *from = malloc((size_t)from_bytes), *to = malloc((size_t)to_bytes);
  unsigned char *expected = malloc((size_t)to_bytes);
  void *device_from = NULL, *device_to = NULL;
  uint64_t random = seed;
  mmci_error error = {0};
  if (from == NULL || to == NULL || expected == NULL) {
    expect(false, "out of memory");
  } else {
    memset(expected, 0xa5, (size_t)to_bytes);
    /* Any bits at all: a copy knows no NaN. */
    for (int64_t t = 0; t < from_bytes; t++) from[t] = (unsigned char)random_bits(&random);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < cols; c++) {
        unsigned char *x =
            expected + shift + (size_t)(to_trans ? c * to_ld + r : r * to_ld + c) * size;
        memcpy(x, from + shift + (size_t)(form.trans ? c * form.ld + r : r * form.ld + c) * size,
               size);
        if (form.conj && mmci_dtype_is_complex(dtype)) x[size - 1] ^= 0x80;
      }
    memset(to, 0xa5, (size_t)to_bytes);
    mmc_status status = on->ops->alloc(on->device, (size_t)from_bytes, &device_from, &error);
    if (status == MMC_OK) status = on->ops->alloc(on->device, (size_t)to_bytes, &device_to, &error);
    if (status == MMC_OK) status = up(on, queue, device_from, from, from_bytes, &error);
    if (status == MMC_OK) status = up(on, queue, device_to, to, to_bytes, &error);
    if (status == MMC_OK)
      status =
          on->ops->async->copy(queue, dtype, rows, cols, (unsigned char *)device_from + shift,
                               &form, (unsigned char *)device_to + shift, to_ld, to_trans, &error);
    if (status == MMC_OK) status = down(on, queue, to, device_to, to_bytes, &error);
    if (status == MMC_OK) status = on->ops->sync(queue, &error);
    bool right = expect_ok(status, &error, "a copy");
    if (!right || !expect(memcmp(to, expected, (size_t)to_bytes) == 0, "a copy is right"))
      printf("  %s %" PRId64 " x %" PRId64 ", kind %d, seed %" PRIu64 "\n", dtype_facts[dtype].name,
             rows, cols, kind, seed);
  }
  free(from);
  free(to);
  free(expected);
  on->ops->dealloc(on->device, device_from);
  on->ops->dealloc(on->device, device_to);
}

static void test_copies(const target *on, mmci_queue *queue) {
  static const int64_t SHAPES[][2] = {{0, 3},   {3, 0},   {1, 1},   {1, 200}, {200, 1},  {31, 33},
                                      {32, 32}, {65, 97}, {300, 7}, {5, 400}, {129, 257}};
  uint64_t seed = 500;
  for (int dtype = 0; dtype < DTYPES; dtype++)
    for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++)
      for (int kind = 0; kind < 8; kind++, seed++)
        if (!on->small || seed % 7 == 0)
          try_copy(on, queue, (mmc_dtype)dtype, SHAPES[s][0], SHAPES[s][1], kind, seed);
}

/* One of the matrices of a resize: its memory, here and on the device. */
typedef struct resized {
  mmci_resizing x;
  size_t from_bytes, to_bytes;
  unsigned char *from, *to, *expected;
  void *device_from, *device_to;
} resized;

/* Any bits at all, lines that begin anywhere, and what lies beside them. */
static bool make_resized(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t *random,
                         resized *r, mmci_error *error) {
  static const int64_t SIZES[] = {0, 1, 3, 31, 33, 64, 129, 300};
  enum { CHOICES = sizeof SIZES / sizeof *SIZES };
  const size_t size = dtype_facts[dtype].size, real = dtype_facts[dtype].real_size;
  mmci_resizing *x = &r->x;
  x->lines = SIZES[random_below(random, CHOICES)], x->length = SIZES[random_below(random, CHOICES)];
  x->to_lines = SIZES[random_below(random, CHOICES)];
  x->to_length = SIZES[random_below(random, CHOICES)];
  x->ld = x->length + 1 + random_below(random, 4),
  x->to_ld = x->to_length + 1 + random_below(random, 4);
  const size_t shift = real * (size_t)random_below(random, 5);
  r->from_bytes = (size_t)(x->lines * x->ld) * size + shift + 16;
  r->to_bytes = (size_t)(x->to_lines * x->to_ld) * size + shift + 16;
  r->from = malloc(r->from_bytes), r->to = malloc(r->to_bytes), r->expected = malloc(r->to_bytes);
  if (r->from == NULL || r->to == NULL || r->expected == NULL)
    return expect(false, "out of memory");
  for (size_t t = 0; t < r->from_bytes; t++) r->from[t] = (unsigned char)random_bits(random);
  memset(r->to, 0xa5, r->to_bytes);
  memset(r->expected, 0xa5, r->to_bytes);
  for (int64_t line = 0; line < x->to_lines; line++)
    for (int64_t c = 0; c < x->to_length; c++) {
      unsigned char *to = r->expected + shift + (size_t)(line * x->to_ld + c) * size;
      if (line < x->lines && c < x->length)
        memcpy(to, r->from + shift + (size_t)(line * x->ld + c) * size, size);
      else
        memset(to, 0, size);
    }
  mmc_status status = on->ops->alloc(on->device, r->from_bytes, &r->device_from, error);
  if (status == MMC_OK) status = on->ops->alloc(on->device, r->to_bytes, &r->device_to, error);
  if (status == MMC_OK)
    status = up(on, queue, r->device_from, r->from, (int64_t)r->from_bytes, error);
  if (status == MMC_OK) status = up(on, queue, r->device_to, r->to, (int64_t)r->to_bytes, error);
  x->from = (unsigned char *)r->device_from + shift;
  x->to = (unsigned char *)r->device_to + shift;
  return expect_ok(status, error, "memory to resize");
}

static void try_resize(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t seed) {
  resized all[MMCI_RESIZED] = {0};
  mmci_resizing matrices[MMCI_RESIZED];
  uint64_t random = seed;
  mmci_error error = {0};
  const int count = 1 + (int)random_below(&random, MMCI_RESIZED);
  bool made = true;
  for (int i = 0; i < count && made; i++) {
    made = make_resized(on, queue, dtype, &random, &all[i], &error);
    matrices[i] = all[i].x;
  }
  mmc_status status = MMC_OK;
  if (made) status = on->ops->async->resize(queue, dtype, matrices, count, &error);
  for (int i = 0; made && status == MMC_OK && i < count; i++)
    status = down(on, queue, all[i].to, all[i].device_to, (int64_t)all[i].to_bytes, &error);
  if (made && status == MMC_OK) status = on->ops->sync(queue, &error);
  bool right = made && expect_ok(status, &error, "a resize");
  for (int i = 0; i < count; i++) {
    resized *r = &all[i];
    if (right && !expect(memcmp(r->to, r->expected, r->to_bytes) == 0, "a resized matrix is right"))
      printf("  %s %" PRId64 " x %" PRId64 " to %" PRId64 " x %" PRId64 ", seed %" PRIu64 "\n",
             dtype_facts[dtype].name, r->x.lines, r->x.length, r->x.to_lines, r->x.to_length, seed);
    free(r->from);
    free(r->to);
    free(r->expected);
    on->ops->dealloc(on->device, r->device_from);
    on->ops->dealloc(on->device, r->device_to);
  }
}

static void test_resizes(const target *on, mmci_queue *queue) {
  for (int t = 0; t < (on->small ? 24 : 300); t++)
    try_resize(on, queue, (mmc_dtype)(t % DTYPES), 900 + (uint64_t)t);
}

/* Lines more than 2^31 elements apart, so that no 32-bit index reaches the last. */
static void test_far(const target *on, mmci_queue *queue) {
  const mmci_form far_apart = {((int64_t)1 << 30) + 7, false, true, false, 0};
  const int64_t m = 3, k = 40, n = 3;
  const size_t size = dtype_facts[MMC_C64].size;
  const int64_t a_bytes = ((m - 1) * far_apart.ld + k) * (int64_t)size;
  unsigned char from[3 * 40 * 8], ones[40 * 3 * 8], back[3 * 40 * 8], c[3 * 3 * 8];
  void *a = NULL, *b = NULL, *near = NULL, *result = NULL;
  uint64_t free_bytes = 0, total_bytes = 0, random = 9;
  mmci_kernel *kernel = NULL;
  mmci_error error = {0};
  mmc_status status = on->ops->async->memory(on->device, &free_bytes, &total_bytes, &error);
  if (status == MMC_OK && free_bytes < (uint64_t)a_bytes + (uint64_t)(100 * MIB)) {
    printf("skipped: lines far apart need %" PRId64 " MiB\n", a_bytes / MIB);
    return;
  }
  for (int64_t t = 0; t < m * k; t++)
    element_write(
        MMC_C64, from + (size_t)t * size,
        (element){(double)random_below(&random, 9) - 4, (double)random_below(&random, 9) - 4});
  for (int64_t t = 0; t < k * n; t++)
    element_write(MMC_C64, ones + (size_t)t * size, (element){1, 0});
  const mmci_gemm gemm = {
      .dtype = MMC_C64, .m = m, .k = k, .n = n, .a = far_apart, .b = {.ld = n}, .ldc = n};
  const int64_t line = k * (int64_t)size, pitch = far_apart.ld * (int64_t)size;
  if (status == MMC_OK) status = on->ops->alloc(on->device, (size_t)a_bytes, &a, &error);
  if (status == MMC_OK) status = on->ops->alloc(on->device, sizeof ones, &b, &error);
  if (status == MMC_OK) status = on->ops->alloc(on->device, sizeof back, &near, &error);
  if (status == MMC_OK) status = on->ops->alloc(on->device, sizeof c, &result, &error);
  if (status == MMC_OK) status = on->ops->prepare(on->device, &gemm, &kernel, &error);
  mmci_transfer there = {a, from, pitch, line, m, line};
  if (status == MMC_OK) status = on->ops->async->upload(queue, &there, &error);
  if (status == MMC_OK) status = up(on, queue, b, ones, sizeof ones, &error);
  if (status == MMC_OK) status = on->ops->enqueue(queue, kernel, a, b, result, &error);
  const mmci_form plain = {far_apart.ld, false, false, false, 0};
  if (status == MMC_OK)
    status = on->ops->async->copy(queue, MMC_C64, m, k, a, &plain, near, m, true, &error);
  if (status == MMC_OK) status = down(on, queue, c, result, sizeof c, &error);
  if (status == MMC_OK) status = down(on, queue, back, near, sizeof back, &error);
  if (status == MMC_OK) status = on->ops->sync(queue, &error);
  if (expect_ok(status, &error, "lines far apart")) {
    bool right = strcmp(on->ops->kernel_name(on->device, &gemm), "plain") == 0;
    for (int64_t r = 0; r < m; r++) {
      element sum = {0, 0};
      for (int64_t q = 0; q < k; q++) {
        element x = element_read(MMC_C64, from + (size_t)(r * k + q) * size);
        element y = element_read(MMC_C64, back + (size_t)(q * m + r) * size);
        right = right && x.re == y.re && x.im == y.im;
        sum.re += x.re;
        sum.im -= x.im;
      }
      for (int64_t q = 0; q < n; q++) {
        element got = element_read(MMC_C64, c + (size_t)(r * n + q) * size);
        right = right && got.re == sum.re && got.im == sum.im;
      }
    }
    expect(right, "lines far apart are multiplied and copied");
  }
  on->ops->release(kernel);
  on->ops->dealloc(on->device, a);
  on->ops->dealloc(on->device, b);
  on->ops->dealloc(on->device, near);
  on->ops->dealloc(on->device, result);
}

/* ---- events, graphs, streams ----------------------------------------------------------------- */

/* Work whose answer is known: x <- w x with w = 2 I, rows x rows, every element of x doubled. */
typedef struct doubling {
  int64_t rows;
  mmci_gemm gemm;
  mmci_kernel *kernel;
  void *w, *x, *y; /* doubled from x to y and back */
  float *host;
} doubling;

static mmc_status doubling_create(doubling *d, const target *on, mmci_queue *queue, int64_t rows,
                                  mmci_error *error) {
  const int64_t bytes = rows * rows * (int64_t)sizeof(float);
  *d = (doubling){.rows = rows};
  d->gemm = (mmci_gemm){.dtype = MMC_F32, .m = rows, .k = rows, .n = rows};
  d->gemm.a.ld = d->gemm.b.ld = d->gemm.ldc = rows;
  d->host = calloc((size_t)(rows * rows), sizeof *d->host);
  if (d->host == NULL) return MMC_E_NOMEM;
  for (int64_t t = 0; t < rows; t++) d->host[t * rows + t] = 2;
  mmc_status status = on->ops->prepare(on->device, &d->gemm, &d->kernel, error);
  if (status == MMC_OK) status = on->ops->alloc(on->device, (size_t)bytes, &d->w, error);
  if (status == MMC_OK) status = on->ops->alloc(on->device, (size_t)bytes, &d->x, error);
  if (status == MMC_OK) status = on->ops->alloc(on->device, (size_t)bytes, &d->y, error);
  if (status == MMC_OK) status = up(on, queue, d->w, d->host, bytes, error);
  for (int64_t t = 0; t < rows * rows; t++) d->host[t] = 1;
  if (status == MMC_OK) status = up(on, queue, d->x, d->host, bytes, error);
  if (status == MMC_OK) status = on->ops->sync(queue, error);
  return status;
}

static void doubling_destroy(doubling *d, const target *on) {
  on->ops->release(d->kernel);
  on->ops->dealloc(on->device, d->w);
  on->ops->dealloc(on->device, d->x);
  on->ops->dealloc(on->device, d->y);
  free(d->host);
}

/* x is doubled twice. */
static mmc_status double_twice(const doubling *d, const target *on, mmci_queue *queue,
                               mmci_error *error) {
  mmc_status status = on->ops->enqueue(queue, d->kernel, d->w, d->x, d->y, error);
  if (status == MMC_OK) status = on->ops->enqueue(queue, d->kernel, d->w, d->y, d->x, error);
  return status;
}

static mmc_status read_back(const doubling *d, const target *on, mmci_queue *queue,
                            const void *from, mmci_error *error) {
  const int64_t bytes = d->rows * d->rows * (int64_t)sizeof(float);
  memset(d->host, 0xff, (size_t)bytes);
  mmc_status status = down(on, queue, d->host, from, bytes, error);
  return status == MMC_OK ? on->ops->sync(queue, error) : status;
}

static bool all_are(const doubling *d, float value) {
  for (int64_t t = 0; t < d->rows * d->rows; t++)
    if (!(d->host[t] == value)) return false;
  return true;
}

/* What one queue computes, another copies away after the event, and the first goes on after the
 * second's. */
static void test_events(const target *on, mmci_queue *queue, mmci_queue *other) {
  const mmci_device_async *async = on->ops->async;
  doubling d;
  mmci_event *computed = NULL, *copied = NULL;
  void *away = NULL;
  mmci_error error = {0};
  const int64_t rows = on->small ? 128 : 2048;
  const mmci_form form = {.ld = rows, .trans = true};
  mmc_status status = doubling_create(&d, on, queue, rows, &error);
  if (status == MMC_OK)
    status = on->ops->alloc(on->device, (size_t)(rows * rows) * sizeof(float), &away, &error);
  if (status == MMC_OK) status = async->event_create(on->device, &computed, &error);
  if (status == MMC_OK) status = async->event_create(on->device, &copied, &error);
  for (int t = 0; t < 10 && status == MMC_OK; t++) status = double_twice(&d, on, queue, &error);
  if (status == MMC_OK) status = async->event_record(queue, computed, &error);
  if (status == MMC_OK) status = async->event_wait(other, computed, &error);
  if (status == MMC_OK)
    status = async->copy(other, MMC_F32, rows, rows, d.x, &form, away, rows, false, &error);
  if (status == MMC_OK) status = async->event_record(other, copied, &error);
  if (status == MMC_OK) status = async->event_wait(queue, copied, &error);
  for (int t = 0; t < 10 && status == MMC_OK; t++) status = double_twice(&d, on, queue, &error);
  if (status == MMC_OK) status = read_back(&d, on, other, away, &error);
  bool right = expect_ok(status, &error, "events") && all_are(&d, 0x1p20F);
  if (status == MMC_OK) status = read_back(&d, on, queue, d.x, &error);
  expect(right && status == MMC_OK && all_are(&d, 0x1p40F), "queues wait for each other's events");
  async->event_destroy(computed);
  async->event_destroy(copied);
  async->event_destroy(NULL);
  on->ops->dealloc(on->device, away);
  doubling_destroy(&d, on);
}

/* A graph that forks to another queue and joins again: x doubled twice, and copied away between. */
static mmc_status capture(const target *on, mmci_queue *queue, mmci_queue *other, const doubling *d,
                          mmci_event *events[2], void *away, mmci_graph **out, mmci_error *error) {
  const mmci_device_async *async = on->ops->async;
  const mmci_form form = {.ld = d->rows};
  mmci_graph *graph = NULL;
  mmc_status status = async->capture_begin(queue, error);
  if (status != MMC_OK) return status;
  status = on->ops->enqueue(queue, d->kernel, d->w, d->x, d->y, error);
  if (status == MMC_OK) status = async->event_record(queue, events[0], error);
  if (status == MMC_OK) status = async->event_wait(other, events[0], error);
  if (status == MMC_OK)
    status =
        async->copy(other, MMC_F32, d->rows, d->rows, d->y, &form, away, d->rows, false, error);
  if (status == MMC_OK) status = async->event_record(other, events[1], error);
  if (status == MMC_OK) status = on->ops->enqueue(queue, d->kernel, d->w, d->y, d->x, error);
  if (status == MMC_OK) status = async->event_wait(queue, events[1], error);
  mmc_status ended = async->capture_end(queue, &graph, status == MMC_OK ? error : NULL);
  if (status == MMC_OK) status = ended;
  if (status == MMC_OK)
    *out = graph;
  else
    async->graph_destroy(graph);
  return status;
}

static void test_graphs(const target *on, mmci_queue *queue, mmci_queue *other) {
  const mmci_device_async *async = on->ops->async;
  doubling d;
  mmci_event *events[2] = {NULL, NULL};
  mmci_graph *graph = NULL, *none = NULL;
  void *away = NULL;
  mmci_error error = {0};
  const int64_t rows = on->small ? 64 : 600;
  mmc_status status = doubling_create(&d, on, queue, rows, &error);
  if (status == MMC_OK)
    status = on->ops->alloc(on->device, (size_t)(rows * rows) * sizeof(float), &away, &error);
  for (int t = 0; t < 2 && status == MMC_OK; t++)
    status = async->event_create(on->device, &events[t], &error);
  if (status == MMC_OK) status = capture(on, queue, other, &d, events, away, &graph, &error);
  if (status == MMC_OK) status = read_back(&d, on, queue, d.x, &error);
  bool right = expect_ok(status, &error, "a capture");
  expect(right && all_are(&d, 1), "what is captured is not done");
  for (int t = 0; t < 3 && status == MMC_OK; t++)
    status = async->graph_launch(t == 1 ? other : queue, graph, &error);
  if (status == MMC_OK) status = on->ops->sync(other, &error);
  if (status == MMC_OK) status = read_back(&d, on, queue, d.x, &error);
  expect(expect_ok(status, &error, "a graph's launch") && all_are(&d, 64),
         "launches of a graph follow each other, on whatever queues");
  async->graph_destroy(graph);
  async->graph_destroy(NULL);
  graph = NULL;

  /* In order, counted. */
  doubling_destroy(&d, on);
  status = doubling_create(&d, on, queue, rows, &error);
  if (status == MMC_OK) status = capture(on, queue, other, &d, events, away, &graph, &error);
  for (int t = 0; t < 5 && status == MMC_OK; t++)
    status = async->graph_launch(queue, graph, &error);
  if (status == MMC_OK) status = read_back(&d, on, queue, d.x, &error);
  right = expect_ok(status, &error, "a graph, launched again") && all_are(&d, 0x1p10F);
  if (status == MMC_OK) status = read_back(&d, on, queue, away, &error);
  expect(right && status == MMC_OK && all_are(&d, 0x1p9F), "a graph does what was captured");

  /* Waiting is not for captures: this one comes to nothing, and the queue goes on. Tools that
   * report every failed call are spared. */
  if (!on->small) {
    status = async->capture_begin(queue, &error);
    expect_ok(status, &error, "capture_begin");
    expect(on->ops->sync(queue, &error) != MMC_OK, "sync fails in a capture");
    expect(async->capture_end(queue, &none, &error) != MMC_OK && none == NULL,
           "a spoilt capture makes no graph");
    status = double_twice(&d, on, queue, &error);
    if (status == MMC_OK) status = read_back(&d, on, queue, d.x, &error);
    expect(status == MMC_OK && all_are(&d, 0x1p12F), "the queue goes on after it");
  }
  async->graph_destroy(graph);
  for (int t = 0; t < 2; t++) async->event_destroy(events[t]);
  on->ops->dealloc(on->device, away);
  doubling_destroy(&d, on);
}

/* The caller's streams, of the driver's API. */
static void test_streams(const target *on, mmci_queue *queue) {
  const mmci_device_async *async = on->ops->async;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  int (*stream_create)(void **, unsigned) = NULL, (*stream_destroy)(void *) = NULL;
  int (*stream_query)(void *) = NULL;
  if (!expect(driver != NULL, "the driver is there")) return;
  *(void **)&stream_create = dlsym(driver, "cuStreamCreate");
  *(void **)&stream_destroy = dlsym(driver, "cuStreamDestroy_v2");
  *(void **)&stream_query = dlsym(driver, "cuStreamQuery");
  doubling d;
  void *stream = NULL;
  mmci_graph *graph = NULL;
  mmci_error error = {0};
  mmc_status status = doubling_create(&d, on, queue, on->small ? 64 : 1500, &error);
  expect_ok(status, &error, "work for a stream");
  if (status == MMC_OK && expect(stream_create(&stream, 1) == 0, "cuStreamCreate")) {
    async->queue_attach(queue, stream);
    for (int t = 0; t < 4 && status == MMC_OK; t++) status = double_twice(&d, on, queue, &error);
    if (!on->small) expect(stream_query(stream) == 600, "the work is on the caller's stream");
    if (status == MMC_OK) status = on->ops->sync(queue, &error);
    expect(stream_query(stream) == 0, "sync waits for the caller's stream");
    expect(!async->is_capturing(on->device, stream), "nobody captures");
    if (status == MMC_OK) status = async->capture_begin(queue, &error);
    expect(async->is_capturing(on->device, stream), "somebody captures");
    if (status == MMC_OK) status = double_twice(&d, on, queue, &error);
    if (status == MMC_OK) status = async->capture_end(queue, &graph, &error);
    expect(!async->is_capturing(on->device, stream), "nobody captures any more");
    if (status == MMC_OK) status = async->graph_launch(queue, graph, &error);
    if (status == MMC_OK) status = on->ops->sync(queue, &error);
    async->queue_attach(queue, NULL);
    expect(!async->is_capturing(on->device, NULL), "nobody captures the default stream");
    if (status == MMC_OK) status = double_twice(&d, on, queue, &error);
    if (status == MMC_OK) status = on->ops->sync(queue, &error);
    async->queue_detach(queue);
    if (status == MMC_OK) status = double_twice(&d, on, queue, &error);
    if (status == MMC_OK) status = read_back(&d, on, queue, d.x, &error);
    expect(expect_ok(status, &error, "streams") && all_are(&d, 0x1p14F),
           "work on any stream is done");
    stream_destroy(stream);
  }
  async->graph_destroy(graph);
  doubling_destroy(&d, on);
  dlclose(driver);
}

/* ---- threads and devices --------------------------------------------------------------------- */

typedef struct worker {
  target on;
  bool right;
} worker;

static void *work(void *user) {
  enum { BYTES = 9 << 20 };
  worker *me = user;
  const target *on = &me->on;
  mmci_queue *queue = NULL;
  void *device = NULL;
  doubling d = {0};
  unsigned char *from = malloc(BYTES), *to = malloc(BYTES);
  mmci_error error = {0};
  mmc_status status = on->ops->queue_open(on->device, &queue, &error);
  if (status == MMC_OK) status = on->ops->alloc(on->device, BYTES, &device, &error);
  if (status == MMC_OK) status = doubling_create(&d, on, queue, 200, &error);
  me->right = status == MMC_OK && from != NULL && to != NULL;
  for (int round = 0; me->right && round < (on->small ? 2 : 20); round++) {
    for (int64_t t = 0; t < BYTES; t++) from[t] = (unsigned char)(t * 7 + round);
    status = up(on, queue, device, from, BYTES, &error);
    if (status == MMC_OK) status = double_twice(&d, on, queue, &error);
    if (status == MMC_OK) status = down(on, queue, to, device, BYTES, &error);
    if (status == MMC_OK) status = read_back(&d, on, queue, d.x, &error);
    me->right = status == MMC_OK && memcmp(from, to, BYTES) == 0 &&
                all_are(&d, (float)((int64_t)1 << 2 * (round + 1)));
  }
  if (status != MMC_OK) printf("  %s\n", error.text);
  doubling_destroy(&d, on);
  on->ops->dealloc(on->device, device);
  if (queue != NULL) on->ops->queue_close(queue);
  free(from);
  free(to);
  return NULL;
}

/* Two threads, each with a queue, on devices first and second. */
static void test_two(const target *first, const target *second, const char *what) {
  worker workers[2] = {{.on = *first}, {.on = *second}};
  pthread_t threads[2];
  int started = 0;
  while (started < 2 && pthread_create(&threads[started], NULL, work, &workers[started]) == 0)
    started++;
  for (int t = 0; t < started; t++) pthread_join(threads[t], NULL);
  expect(started == 2 && workers[0].right && workers[1].right, what);
}

static void test_devices(const target *on) {
  target second = *on;
  mmci_error error = {0};
  if (on->count < 2) {
    printf("one device: two are not tested\n");
    return;
  }
  if (!expect_ok(on->ops->open(1, &second.device, &error), &error, "the second device opens"))
    return;
  test_two(on, &second, "two threads on two devices");
  /* One thread in turn, so that the current device must change. */
  worker one = {.on = second}, other = {.on = *on};
  work(&one);
  work(&other);
  expect(one.right && other.right, "one thread on two devices");
  on->ops->close(second.device);
}

/* ---- leaks ----------------------------------------------------------------------------------- */

static void test_many(const target *on, mmci_queue *queue, mmci_queue *other, int queues,
                      int graphs) {
  const mmci_device_async *async = on->ops->async;
  uint64_t before = 0, after = 0, total = 0;
  mmci_error error = {0};
  doubling d;
  void *away = NULL;
  mmc_status status = doubling_create(&d, on, queue, 64, &error);
  if (status == MMC_OK) status = on->ops->alloc(on->device, 64 * 64 * sizeof(float), &away, &error);
  for (int t = -10; t < queues && status == MMC_OK; t++) {
    mmci_queue *one = NULL;
    if (t == 0) status = async->memory(on->device, &before, &total, &error);
    if (status == MMC_OK) status = on->ops->queue_open(on->device, &one, &error);
    if (status == MMC_OK && t % 4 == 0) status = double_twice(&d, on, one, &error);
    if (one != NULL) on->ops->queue_close(one);
  }
  for (int t = 0; t < graphs && status == MMC_OK; t++) {
    mmci_event *events[2] = {NULL, NULL};
    mmci_graph *graph = NULL;
    status = async->event_create(on->device, &events[0], &error);
    if (status == MMC_OK) status = async->event_create(on->device, &events[1], &error);
    if (status == MMC_OK) status = capture(on, queue, other, &d, events, away, &graph, &error);
    if (status == MMC_OK) status = async->graph_launch(queue, graph, &error);
    async->graph_destroy(graph);
    for (int e = 0; e < 2; e++) async->event_destroy(events[e]);
  }
  if (status == MMC_OK) status = on->ops->sync(queue, &error);
  if (status == MMC_OK) status = async->memory(on->device, &after, &total, &error);
  /* Small shapes are run beside other tests, by a tool that sees what is left itself. */
  if (expect_ok(status, &error, "many queues and graphs") && !on->small)
    expect(after + (uint64_t)(64 * MIB) > before, "many queues and graphs leave no memory taken");
  on->ops->dealloc(on->device, away);
  doubling_destroy(&d, on);
  on->ops->queue_close(NULL);
}

/* ---- speed ----------------------------------------------------------------------------------- */

static void print_speed(const target *on, mmci_queue *queue, bool pinned, int64_t lines,
                        int64_t line_bytes, int64_t gap) {
  const int64_t pitch = line_bytes + gap, bytes = lines * line_bytes;
  unsigned char *host = host_alloc(on, pinned, lines * pitch);
  void *device = NULL;
  mmci_error error = {0};
  mmc_status status = on->ops->alloc(on->device, (size_t)bytes, &device, &error);
  if (host != NULL) memset(host, 1, (size_t)(lines * pitch));
  double best[2] = {1e9, 1e9};
  for (int t = 0; host != NULL && t < 6 && status == MMC_OK; t++) {
    mmci_transfer there = {device, host, line_bytes, pitch, lines, line_bytes};
    mmci_transfer here = {host, device, pitch, line_bytes, lines, line_bytes};
    double start = mmci_now_s();
    status = on->ops->async->upload(queue, &there, &error);
    if (status == MMC_OK) status = on->ops->sync(queue, &error);
    double middle = mmci_now_s();
    if (status == MMC_OK) status = on->ops->async->download(queue, &here, &error);
    if (status == MMC_OK) status = on->ops->sync(queue, &error);
    double end = mmci_now_s();
    if (middle - start < best[0]) best[0] = middle - start;
    if (end - middle < best[1]) best[1] = end - middle;
  }
  if (expect_ok(status, &error, "speed"))
    printf("%-8s %8" PRId64 " lines of %10" PRId64 " bytes, gap %3" PRId64
           ": up %6.2f GB/s, down %6.2f GB/s (%.1f us, %.1f us)\n",
           pinned ? "pinned" : "pageable", lines, line_bytes, gap, 1e-9 * (double)bytes / best[0],
           1e-9 * (double)bytes / best[1], 1e6 * best[0], 1e6 * best[1]);
  host_free(on, pinned, host);
  on->ops->dealloc(on->device, device);
}

static void test_speed(const target *on, mmci_queue *queue) {
  static const region SIZES[] = {
      {1, (int64_t)1 << 30, 0, 0}, {1, 256 << 20, 0, 0}, {1, 32 << 20, 0, 0},
      {1, 4 << 20, 0, 0},          {1, 64 << 10, 0, 0},  {1, 4 << 10, 0, 0},
      {8000, 32000, 64, 0},        {2000000, 64, 64, 0}, {500000, 4, 4, 0}};
  for (size_t t = 0; t < sizeof SIZES / sizeof *SIZES; t++)
    for (int pinned = 0; pinned < 2; pinned++)
      print_speed(on, queue, pinned, SIZES[t].lines, SIZES[t].line_bytes, SIZES[t].host_gap);
}

static void test_all(const target *on) {
  mmci_error error = {0};
  mmci_queue *queue = NULL, *other = NULL;
  if (!expect_ok(on->ops->queue_open(on->device, &queue, &error), &error, "queue_open")) return;
  if (!expect_ok(on->ops->queue_open(on->device, &other, &error), &error, "queue_open")) return;
  if (strcmp(on->mode, "speed") == 0) {
    test_speed(on, queue);
  } else {
    test_copies(on, queue);
    test_resizes(on, queue);
    test_graphs(on, queue, other);
    if (!on->race) {
      test_transfers(on, queue);
      test_outstanding(on, queue);
      test_events(on, queue, other);
      test_streams(on, queue);
      test_two(on, on, "two threads on one device");
      test_devices(on);
      test_many(on, queue, other, on->small ? 30 : 200, 1000);
    }
    if (!on->small) test_far(on, queue);
  }
  on->ops->queue_close(other);
  on->ops->queue_close(queue);
}

int main(int argc, char **argv) {
  return gpu_test_main(argc, argv, test_all);
}
