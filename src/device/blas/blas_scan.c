/* blas_scan.c: see blas_scan.h. */
#include "device/blas/blas_scan.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/interrupt.h"
#include "chain/copy.h"
#include "device/blas/methods.h"
#include "device/blas/semiring.h"
#include "device/blas/small.h"
#include "device/blas/threads.h"
#include "device/blas/workers.h"
#include "device/ref/ref.h"

/* One kind of product: which operands it has decides how they lie. */
typedef struct product {
  mmci_gemm gemm;
  mmci_small small;      /* where it can be used */
  mmci_blas_fn multiply; /* NULL where it is over a semiring */
} product;

/* Dense matrices lie in memory of the kernel, without gaps. */
enum {
  FIRST,  /* a dense state and a factor make a state */
  NEXT,   /* a state and a factor make a state */
  PAIR,   /* two factors make a dense matrix */
  REDUCE, /* a dense matrix and a factor make a dense matrix */
  CARRY,  /* two dense matrices make one */
  KINDS
};

struct mmci_scan_kernel {
  mmci_scan scan;
  size_t element, state_bytes, room_bytes;
  product products[KINDS];
  int threads;
  int64_t blocks;  /* of each scan */
  bool calls_blas; /* OpenBLAS must not have threads of its own beside these */
  const char *why;
  /* For each scan and block the product of its factors, then the state before it; at first the
   * initial state. Then for each thread a second matrix and the room in which operands are
   * packed. */
  char *memory;
  char *rooms;
};

/* Scans of f16 and bf16 are made of the device's products where these have a better way than plain
 * loops. */
enum { HALF_SIDE = 16 };

bool mmci_blas_scan_supports(const mmci_device *device, const mmci_scan *scan) {
  (void)device;
  bool half = scan->dtype == MMC_F16 || scan->dtype == MMC_BF16;
  if (half) return scan->n <= HALF_SIDE;
  /* Products over semirings that are worth several threads are the device's, and those that it
   * computes in pieces. */
  const mmci_form tight = {.ld = scan->n};
  mmci_gemm gemm = mmci_scan_gemm(scan, &tight, &tight, scan->n);
  return scan->rule.semiring == MMC_PLUS_TIMES ? !mmci_blas_is_in_pieces(&gemm)
                                               : mmci_semiring_workers(&gemm) == 1;
}

/* ---- preparing ------------------------------------------------------------------------------- */

static bool is_semiring(const product *x) {
  return x->gemm.rule.semiring != MMC_PLUS_TIMES;
}

/* Says whether a product is one of xGEMV, which reads a factor in less time than LIBXSMM does. */
static bool is_gemv(const mmci_gemm *gemm) {
  const mmci_method method = mmci_blas_method(gemm);
  return method == MMCI_METHOD_MATRIX_VECTOR || method == MMCI_METHOD_VECTOR_MATRIX;
}

static void choose_call(product *x, const mmci_gemm *gemm, int64_t times) {
  x->gemm = *gemm;
  const bool by_threads = !mmci_blas_is_serial(gemm) && !is_gemv(gemm);
  if (mmci_small_can(gemm) && (mmci_small_pays(gemm) || by_threads)) {
    x->small = mmci_small_make(gemm);
    if (x->small.can) mmci_small_prepare(&x->small, times);
  }
  x->multiply = mmci_blas_call(&x->gemm);
  if (x->multiply == NULL && !is_semiring(x)) x->multiply = mmci_ref_gemm;
}

static bool is_serial(const product *x) {
  return x->small.can || x->multiply == mmci_ref_gemm || mmci_blas_is_serial(&x->gemm);
}

static void choose_calls(mmci_scan_kernel *kernel) {
  const mmci_scan *scan = &kernel->scan;
  const mmci_form dense = mmci_scan_state(scan), state = {.ld = scan->ldc};
  const struct {
    const mmci_form *s, *a;
    int64_t ldc;
  } forms[KINDS] = {
      [FIRST] = {&dense, &scan->a, scan->ldc}, [NEXT] = {&state, &scan->a, scan->ldc},
      [PAIR] = {&scan->a, &scan->a, dense.ld}, [REDUCE] = {&dense, &scan->a, dense.ld},
      [CARRY] = {&dense, &dense, dense.ld},
  };
  const int64_t kinds = scan->width == scan->n ? KINDS : PAIR; /* blocks have square states */
  for (int64_t i = 0; i < kinds; i++) {
    mmci_gemm gemm = mmci_scan_gemm(scan, forms[i].s, forms[i].a, forms[i].ldc);
    choose_call(&kernel->products[i], &gemm, scan->length * scan->batch);
    const product *x = &kernel->products[i];
    size_t room = x->small.can     ? mmci_small_room_bytes(&x->small)
                  : is_semiring(x) ? (size_t)mmci_semiring_room(&x->gemm, 1)
                                   : 0;
    if (room > kernel->room_bytes) kernel->room_bytes = room;
    kernel->calls_blas = kernel->calls_blas || !kernel->products[i].small.can;
  }
  kernel->room_bytes = mmci_aligned_size(kernel->room_bytes);
}

/* A block has at least so many factors. */
enum { LEAST_BLOCK = 8 };

/* Decides how many threads there are and in how many blocks each scan is cut. */
static void share_out(mmci_scan_kernel *kernel) {
  const mmci_scan *scan = &kernel->scan;
  kernel->blocks = 1;
  kernel->threads = 1;
  kernel->why = "each product needs the one before, and its own threads are the CPU's";
  /* Vectors of several scans are followed side by side, by xGEMV on one thread each. */
  const product *next = &kernel->products[NEXT];
  if (!is_serial(next) && (scan->batch == 1 || !is_gemv(&next->gemm))) return;
  const double serial_s =
      (double)scan->batch * (double)scan->length * mmci_blas_serial_s(&next->gemm);
  const int most = mmci_workers(serial_s, scan->batch * scan->length);
  kernel->threads = most > scan->batch ? (int)scan->batch : most;
  kernel->why = most > 1                  ? "the scans of the batch are shared out"
                : mmci_workers_most() > 1 ? "waking a second thread would take longer"
                                          : "there is one thread";
  const int64_t helpers = most / scan->batch; /* threads for each scan */
  if (helpers < 2) return;
  if (scan->has_addend || scan->width != scan->n) {
    kernel->why = "states are narrow, and products of factors would cost more than they save";
    return;
  }
  if (scan->length < (helpers + 1) * LEAST_BLOCK) return;
  kernel->blocks = helpers + 1;
  kernel->threads = (int)(helpers * scan->batch);
  kernel->why = "one block is walked through while others are multiplied, then these";
}

static mmc_status take_memory(mmci_scan_kernel *kernel, mmci_error *error) {
  const mmci_scan *scan = &kernel->scan;
  kernel->state_bytes = mmci_aligned_size((size_t)scan->n * (size_t)scan->width * kernel->element);
  const size_t matrices = (size_t)(scan->batch * kernel->blocks);
  const size_t room = kernel->state_bytes + kernel->room_bytes;
  kernel->memory = mmci_alloc_aligned(matrices, kernel->state_bytes);
  kernel->rooms = mmci_alloc_aligned((size_t)kernel->threads, room);
  if (kernel->memory == NULL || kernel->rooms == NULL)
    return mmci_fail_nomem(error, matrices * kernel->state_bytes + room);
  return mmci_workers_provide(kernel->threads, error);
}

mmc_status mmci_blas_scan_prepare(mmci_device *device, const mmci_scan *scan,
                                  mmci_scan_kernel **out, mmci_error *error) {
  (void)device;
  mmci_scan_kernel *kernel = mmci_alloc_zeroed(1, sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  kernel->scan = *scan;
  kernel->element = mmc_dtype_size(scan->dtype);
  choose_calls(kernel);
  share_out(kernel);
  mmc_status status = take_memory(kernel, error);
  if (status != MMC_OK) {
    mmci_blas_scan_release(kernel);
    return status;
  }
  *out = kernel;
  return MMC_OK;
}

void mmci_blas_scan_release(mmci_scan_kernel *kernel) {
  if (kernel == NULL) return;
  free(kernel->memory);
  free(kernel->rooms);
  free(kernel);
}

/* Returns the first factor of a block. */
static int64_t block_begin(const mmci_scan_kernel *kernel, int64_t block) {
  return (int64_t)((mmci_u128)kernel->scan.length * (mmci_u128)block / (mmci_u128)kernel->blocks);
}

void mmci_blas_scan_facts(const mmci_scan_kernel *kernel, mmci_scan_facts *out) {
  const mmci_scan *scan = &kernel->scan;
  const product *next = &kernel->products[NEXT];
  int64_t products = scan->length - !scan->has_initial;
  if (kernel->blocks > 1)
    products += block_begin(kernel, kernel->blocks - 1) - block_begin(kernel, 1);
  *out =
      (mmci_scan_facts){.method = kernel->blocks > 1 ? "blocked" : "sequential",
                        .kernel = next->small.can     ? "libxsmm"
                                  : is_semiring(next) ? mmc_semiring_name(next->gemm.rule.semiring)
                                  : next->multiply == mmci_ref_gemm ? "loops"
                                  : is_gemv(&next->gemm)            ? "gemv"
                                                                    : "gemm",
                        .why = kernel->why,
                        .blocks = kernel->blocks,
                        .products = products * scan->batch,
                        .workers = kernel->threads};
}

/* ---- multiplying ----------------------------------------------------------------------------- */

/* One execution that threads share. */
typedef struct execution {
  const mmci_scan_kernel *kernel;
  const mmci_scan_places *places;
  int64_t from, to;  /* the states that are made of every scan, where there is one block */
  int64_t ask_every; /* products of a thread after which it asks whether to stop */
  double all, done;  /* products of the caller's share, and those that are done of it */
  atomic_bool stopped;
} execution;

/* Says whether to stop after so many more products. Only the caller, worker 0, can be stopped. */
static bool must_stop(execution *x, int worker, int64_t products) {
  if (worker == 0) {
    x->done += (double)products;
    mmci_interrupt_done(fmin(x->done / x->all, 1));
    if (mmci_interrupted()) atomic_store(&x->stopped, true);
  }
  return atomic_load_explicit(&x->stopped, memory_order_relaxed);
}

/* Multiplies a state by a factor, or one matrix by a later one. */
static inline void multiply(const mmci_scan_kernel *kernel, int kind, const void *s, const void *a,
                            void *c, void *room) {
  const product *x = &kernel->products[kind];
  const void *left = kernel->scan.left ? a : s, *right = kernel->scan.left ? s : a;
  if (x->small.can)
    mmci_small_multiply(&x->small, left, right, c, room);
  else if (is_semiring(x))
    mmci_semiring_multiply(&x->gemm, left, right, c, 1, room);
  else
    x->multiply(&x->gemm, left, right, c);
}

static char *room_of(const mmci_scan_kernel *kernel, int worker) {
  return kernel->rooms + (size_t)worker * (kernel->state_bytes + kernel->room_bytes);
}

static char *matrix_of(const mmci_scan_kernel *kernel, int64_t scan, int64_t block) {
  return kernel->memory + (size_t)(scan * kernel->blocks + block) * kernel->state_bytes;
}

static const void *factor(const execution *x, int64_t b, int64_t t) {
  const mmci_scan *scan = &x->kernel->scan;
  return mmci_address(x->places->a,
                      (b * scan->a.stride + t * scan->a_step) * (int64_t)x->kernel->element);
}

static void *state(const execution *x, int64_t b, int64_t t) {
  const mmci_scan *scan = &x->kernel->scan;
  return mmci_address(x->places->c,
                      (b * scan->c_stride + t * scan->c_step) * (int64_t)x->kernel->element);
}

static void copy_dense(const mmci_scan_kernel *kernel, const void *from, const mmci_form *form,
                       void *to, int64_t ld) {
  const mmci_scan *scan = &kernel->scan;
  mmci_copy(scan->dtype, mmci_scan_rows(scan), mmci_scan_cols(scan), from, form, to, ld, false);
}

/* Copies the addend of a step to its state, to which the product is then added. */
static void copy_addend(const execution *x, int64_t b, int64_t t) {
  const mmci_scan *scan = &x->kernel->scan;
  const void *from =
      mmci_address(x->places->addend,
                   (b * scan->addend.stride + t * scan->addend_step) * (int64_t)x->kernel->element);
  copy_dense(x->kernel, from, &scan->addend, state(x, b, t), scan->ldc);
}

/* Writes the states from..to-1 of a scan; before is the dense state before them, or NULL: then it
 * is the state from-1, or there is none. */
static void walk(execution *x, int worker, int64_t b, int64_t from, int64_t to, const void *before,
                 char *room) {
  const mmci_scan_kernel *kernel = x->kernel;
  const mmci_scan *scan = &kernel->scan;
  const int64_t a_step = scan->a_step * (int64_t)kernel->element;
  const int64_t c_step = scan->c_step * (int64_t)kernel->element;
  const void *a = factor(x, b, from);
  void *c = state(x, b, from);
  if (scan->has_addend) copy_addend(x, b, from);
  if (before != NULL)
    multiply(kernel, FIRST, before, a, c, room);
  else if (from > 0)
    multiply(kernel, NEXT, state(x, b, from - 1), a, c, room);
  else
    copy_dense(kernel, a, &scan->a, c, scan->ldc);
  int64_t left = x->ask_every;
  for (int64_t t = from + 1; t < to; t++) {
    const void *last = c;
    if (--left == 0) {
      if (must_stop(x, worker, x->ask_every)) return;
      left = x->ask_every;
    }
    a = mmci_address(a, a_step);
    c = mmci_address(c, c_step);
    if (scan->has_addend) copy_addend(x, b, t);
    multiply(kernel, NEXT, last, a, c, room);
  }
}

/* Multiplies the factors from..to-1 of a scan. Two dense matrices take turns, so that the last
 * product is in `out`. */
static void reduce(execution *x, int worker, int64_t b, int64_t from, int64_t to, char *out,
                   char *other, char *room) {
  const mmci_scan_kernel *kernel = x->kernel;
  char *c = (to - from) % 2 == 0 ? out : other, *last = c == out ? other : out;
  multiply(kernel, PAIR, factor(x, b, from), factor(x, b, from + 1), c, room);
  int64_t left = x->ask_every;
  for (int64_t t = from + 2; t < to; t++) {
    char *next = last;
    if (--left == 0) {
      if (must_stop(x, worker, x->ask_every)) return;
      left = x->ask_every;
    }
    multiply(kernel, REDUCE, c, factor(x, b, t), next, room);
    last = c;
    c = next;
  }
}

/* Returns the dense initial state of a scan; NULL when there is none. */
static const void *initial_of(const execution *x, int64_t b, char *dense) {
  const mmci_scan *scan = &x->kernel->scan;
  if (!scan->has_initial) return NULL;
  const void *from =
      mmci_address(x->places->initial, b * scan->initial.stride * (int64_t)x->kernel->element);
  copy_dense(x->kernel, from, &scan->initial, dense, mmci_scan_state(scan).ld);
  return dense;
}

/* Computes states of a scan by one thread. */
static void compute_scan(void *user, int worker, int64_t b) {
  execution *x = user;
  const mmci_scan_kernel *kernel = x->kernel;
  walk(x, worker, b, x->from, x->to,
       x->from == 0 ? initial_of(x, b, matrix_of(kernel, b, 0)) : NULL,
       room_of(kernel, worker) + kernel->state_bytes);
  mmci_xsmm_leave();
}

/* Walks through the first block of a scan, or multiplies the factors of another but the last. */
static void begin_block(void *user, int worker, int64_t piece) {
  execution *x = user;
  const mmci_scan_kernel *kernel = x->kernel;
  const int64_t b = piece / (kernel->blocks - 1), block = piece % (kernel->blocks - 1);
  const int64_t from = block_begin(kernel, block), to = block_begin(kernel, block + 1);
  char *own = room_of(kernel, worker), *room = own + kernel->state_bytes;
  char *matrix = matrix_of(kernel, b, block);
  if (block == 0)
    walk(x, worker, b, from, to, initial_of(x, b, matrix), room);
  else
    reduce(x, worker, b, from, to, matrix, own, room);
  mmci_xsmm_leave();
}

/* Finds the states before all blocks of a scan but the first. */
static void carry(const execution *x, int64_t b) {
  const mmci_scan_kernel *kernel = x->kernel;
  const mmci_form form = {.ld = kernel->scan.ldc};
  char *own = room_of(kernel, 0);
  const void *before = state(x, b, block_begin(kernel, 1) - 1);
  copy_dense(kernel, before, &form, matrix_of(kernel, b, 0), mmci_scan_state(&kernel->scan).ld);
  /* The state before a block takes the place of the product of the block before it. */
  for (int64_t block = 1; block < kernel->blocks - 1; block++) {
    multiply(kernel, CARRY, matrix_of(kernel, b, block - 1), matrix_of(kernel, b, block), own,
             own + kernel->state_bytes);
    memcpy(matrix_of(kernel, b, block), own, kernel->state_bytes);
  }
  mmci_xsmm_leave();
}

/* Walks through a block of a scan that is not the first. */
static void end_block(void *user, int worker, int64_t piece) {
  execution *x = user;
  const mmci_scan_kernel *kernel = x->kernel;
  const int64_t b = piece / (kernel->blocks - 1), block = 1 + piece % (kernel->blocks - 1);
  walk(x, worker, b, block_begin(kernel, block), block_begin(kernel, block + 1),
       matrix_of(kernel, b, block - 1), room_of(kernel, worker) + kernel->state_bytes);
  mmci_xsmm_leave();
}

/* Seconds of one thread after which it asks whether to stop, and after which all threads come
 * together, so that the caller does not wait for long ones of others when its own are done. */
static const double ask_s = 2e-3, together_s = 5e-2;

/* Returns how many products of a thread take so long, at least 1. */
static int64_t products_of(const mmci_scan_kernel *kernel, double seconds) {
  const double each = mmci_blas_serial_s(&kernel->products[NEXT].gemm);
  return each < seconds ? (int64_t)(seconds / each) : 1;
}

static void begin_asking(execution *x) {
  const mmci_scan_kernel *kernel = x->kernel;
  const mmci_scan *scan = &kernel->scan;
  const int64_t reduced =
      kernel->blocks > 1 ? block_begin(kernel, kernel->blocks - 1) - block_begin(kernel, 1) : 0;
  atomic_init(&x->stopped, false);
  x->all = (double)(scan->length + reduced) * (double)scan->batch / kernel->threads;
  x->ask_every = mmci_interrupt_asks() ? products_of(kernel, ask_s) : scan->length;
}

/* Computes scans that are not cut into blocks. */
static void compute_scans(execution *x) {
  const mmci_scan_kernel *kernel = x->kernel;
  const int64_t length = kernel->scan.length;
  const bool cuts = kernel->threads > 1 && mmci_interrupt_asks();
  const int64_t most = cuts ? products_of(kernel, together_s) : length;
  for (; x->to < length && !atomic_load(&x->stopped); x->from = x->to) {
    x->to = length - x->from > most ? x->from + most : length;
    mmci_share(kernel->threads, kernel->scan.batch, compute_scan, x);
  }
}

mmc_status mmci_blas_scan_enqueue(mmci_queue *queue, const mmci_scan_kernel *kernel,
                                  const mmci_scan_places *places, mmci_error *error) {
  (void)queue;
  execution x = {.kernel = kernel, .places = places};
  const int64_t batch = kernel->scan.batch, pieces = batch * (kernel->blocks - 1);
  bool limits = kernel->threads > 1 && kernel->calls_blas;
  begin_asking(&x);
  if (limits) mmci_blas_threads_limit(1);
  if (kernel->blocks == 1) {
    compute_scans(&x);
  } else {
    mmci_share(kernel->threads, pieces, begin_block, &x);
    for (int64_t b = 0; b < batch && !must_stop(&x, 0, 0); b++) carry(&x, b);
    if (!must_stop(&x, 0, 0)) mmci_share(kernel->threads, pieces, end_block, &x);
  }
  if (limits) mmci_blas_threads_restore();
  if (!must_stop(&x, 0, 0)) return MMC_OK;
  return mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the progress callback");
}
