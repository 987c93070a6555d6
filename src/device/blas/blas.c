/* blas.c: the device "blas": products by any CBLAS, in the caller's process and threads.
 *
 * Matrices go to xGEMM or, small, to LIBXSMM, vectors to xGEMV and xDOT, f16 and bf16 to SGEMM in
 * panels, integers to products of words, to SGEMM and DGEMM in digits, or to loops. The products of
 * a batch that take one thread each are shared out among several. What this CBLAS cannot express
 * goes to the plain loops of ref: sizes beyond its 32-bit integers, and conjugation without
 * transposition where it lacks OpenBLAS's extension for that.
 *
 * Products over semirings go to semiring.h. Reproducible products go to ordered.h, as words do, and
 * small ones to the kernels of small.h that add up in its order; those of whole numbers to
 * whole_gemm.h.
 *
 * Variant 0 has as many threads as OpenBLAS takes, the others 1, 2, 4 ... below; then come
 * blocks.h, and LIBXSMM for a few rows. */
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "base/interrupt.h"
#include "device/blas/advice.h"
#include "device/blas/blas.h"
#include "device/blas/blas_group.h"
#include "device/blas/blas_scan.h"
#include "device/blas/blocks.h"
#include "device/blas/cblas_table.h"
#include "device/blas/half_gemm.h"
#include "device/blas/integer_gemm.h"
#include "device/blas/ordered.h"
#include "device/blas/semiring.h"
#include "device/blas/small.h"
#include "device/blas/structured.h"
#include "device/blas/threads.h"
#include "device/blas/vector_loops.h"
#include "device/blas/ways.h"
#include "device/blas/whole_gemm.h"
#include "device/blas/workers.h"
#include "device/host.h"
#include "device/ref/ref.h"
#include "device/ref/ref_integer.h"

/* How a product is computed, which its shape and the layout of its operands decide. */
typedef enum method {
  NOTHING,       /* C has no elements, or nothing is added to them */
  ZEROS,         /* k = 0: C is a sum of no terms */
  SEMIRING,      /* neither sums nor products, see semiring.h */
  ORDERED,       /* reproducible sums, and words that wrap around, see ordered.h */
  LOOPS,         /* what this CBLAS cannot express */
  PANELS,        /* f16 and bf16, widened panel by panel */
  WIDENED,       /* small ones of f16 and bf16 */
  DIRECT,        /* few integers, by loops */
  DIGITS,        /* integers, split into digits, or words of which a rule has several */
  WHOLE,         /* sums of whole numbers, see whole_gemm.h */
  VECTORS,       /* a few numbers, see vector_loops.h */
  DOT,           /* a row times a column */
  MATRIX_VECTOR, /* a product with n = 1 */
  VECTOR_MATRIX, /* a product with m = 1 */
  SMALL,         /* a product of small matrices, see small.h */
  MATRIX_MATRIX,
  METHOD_COUNT
} method;

struct mmci_queue {
  mmci_half_panels *panels; /* NULL until a product needs them */
  mmci_integer_room room;   /* grows when a product needs more */
  mmci_ordered_room ordered_room;
  mmci_blocks_room blocks_room;
  mmci_semiring_memory semiring_room; /* for all workers */
  mmci_whole_room whole_room;
};

/* How a product is cut, so that it can be stopped in between: rows, columns and terms of sums of a
 * piece, the last ones of which may be smaller. */
typedef struct pieces {
  bool any;
  int64_t m, n, k;
} pieces;

/* Whether some product by panels was prepared: queues opened from then on bring panels, so that
 * executing allocates nothing. */
static atomic_bool has_panels;

struct mmci_kernel {
  mmci_gemm gemm;
  pieces pieces;
  mmci_small *small;     /* what small.h computes, or NULL */
  mmci_several several;  /* what loops compute for several products of a batch at once */
  mmci_blocks *blocks;   /* what blocks.h computes, or NULL */
  mmci_blas_fn multiply; /* multiplies a piece; NULL when the product is done in panels or digits */
  bool is_single;        /* one product whose operands are given by their addresses */
  int threads;           /* threads that share a batch */
  int64_t chunk;         /* products that a thread takes at a time */
  mmci_ways *ways;       /* what was learned in crowds; NULL where a job is too short */
  int ordered_threads;   /* threads that share one large reproducible product; 0 for others */
  int limit;             /* threads of OpenBLAS; 0 means as many as it takes */
  int semiring_threads;  /* threads that share one product over a semiring; 0 for others */
  uint64_t room_bytes;   /* of the queue's semiring_room that one product needs */
};

static bool is_real(mmc_dtype dtype) {
  return dtype != MMC_C64 && dtype != MMC_C128;
}

bool mmci_blas_is_reproducible(const mmci_gemm *gemm) {
  return mmci_precision_is_reproducible(gemm->precision) && !mmci_gemm_is_whole(gemm) &&
         !mmci_dtype_is_integer(gemm->dtype) && gemm->rule.semiring == MMC_PLUS_TIMES;
}

static bool has_op(bool trans, bool conj) {
  return trans || !conj || mmci_blas.is_openblas;
}

/* Small kernels take their terms in the order of an upright product. */
static method choose_ordered(const mmci_gemm *gemm) {
  const bool in_order = (is_real(gemm->dtype) || !gemm->turned) && gemm->sums == MMCI_SUMS_CHAIN;
  return in_order && mmci_small_loops_can() && mmci_small_pays(gemm) ? SMALL : ORDERED;
}

/* Says whether one small product is faster by OpenBLAS's threads: two of them compute complex ones
 * of 60x60 in .8 of the time that small.h takes, of 50x50 in as much. */
static bool is_worth_threads(const mmci_gemm *gemm) {
  enum { LEAST = 55 * 55 * 55 };
  return !is_real(gemm->dtype) && gemm->batch <= 1 && gemm->m * gemm->k * gemm->n >= LEAST &&
         mmci_blas_threads() > 1;
}

static method choose_method(const mmci_gemm *gemm) {
  int64_t m = gemm->m, k = gemm->k, n = gemm->n;
  bool real = is_real(gemm->dtype), a_conj = !real && gemm->a.conj, b_conj = !real && gemm->b.conj;
  if (m == 0 || n == 0 || (k == 0 && gemm->accumulate)) return NOTHING;
  if (gemm->rule.semiring != MMC_PLUS_TIMES) return SEMIRING;
  if (k == 0) return ZEROS;
  if (mmci_gemm_is_whole(gemm)) return WHOLE;
  if (mmci_blas_is_reproducible(gemm)) return choose_ordered(gemm);
  if (gemm->dtype == MMC_F16 || gemm->dtype == MMC_BF16)
    return mmci_half_is_small(gemm) ? WIDENED : PANELS;
  if (mmci_dtype_is_integer(gemm->dtype))
    return mmci_integer_is_direct(gemm) ? DIRECT : mmci_integer_is_words(gemm) ? ORDERED : DIGITS;
  if ((m | k | n | gemm->a.ld | gemm->b.ld | gemm->ldc) > INT_MAX) return LOOPS;
  if (mmci_vectors_pay(gemm)) return VECTORS;
  /* Complex dot products return through conventions that differ among CBLAS builds. */
  if (m == 1 && n == 1 && real) return DOT;
  /* xGEMV cannot conjugate the vector. */
  if (n == 1 && !b_conj && has_op(gemm->a.trans, a_conj)) return MATRIX_VECTOR;
  if (m == 1 && !a_conj && has_op(!gemm->b.trans, b_conj)) return VECTOR_MATRIX;
  const bool has_ops = has_op(gemm->a.trans, a_conj) && has_op(gemm->b.trans, b_conj);
  if (mmci_small_pays(gemm) && !(has_ops && is_worth_threads(gemm))) return SMALL;
  return has_ops ? MATRIX_MATRIX : LOOPS;
}

mmci_several_kind mmci_blas_several(const mmci_gemm *gemm) {
  switch (choose_method(gemm)) {
    case VECTORS:
      return MMCI_BY_VECTORS;
    case WIDENED:
      return MMCI_BY_HALVES;
    case DIRECT:
      return MMCI_BY_INTEGERS;
    default:
      return MMCI_ONE_BY_ONE;
  }
}

bool mmci_blas_is_call(const mmci_gemm *gemm) {
  return choose_method(gemm) == MATRIX_MATRIX;
}

bool mmci_blas_is_small(const mmci_gemm *gemm) {
  if (mmci_blas_is_reproducible(gemm)) return choose_method(gemm) == SMALL;
  const method how = choose_method(gemm);
  const bool is_by_threads = (how == SMALL || how == MATRIX_MATRIX) && !mmci_blas_is_serial(gemm);
  return (how == SMALL || is_by_threads) && mmci_small_can(gemm);
}

/* ---- calls --------------------------------------------------------------------------------- */

static int blas_op(bool trans, bool conj) {
  if (trans) return conj ? MMCI_CBLAS_H : MMCI_CBLAS_T;
  return conj ? MMCI_CBLAS_CONJ_N : MMCI_CBLAS_N;
}

/* Return the steps along an operand that is one column, and along one that is one row. */
static int64_t column_step(const mmci_form *x) {
  return x->trans ? 1 : x->ld;
}
static int64_t row_step(const mmci_form *x) {
  return x->trans ? x->ld : 1;
}

#define PARAMETERS const mmci_gemm *gemm, const void *a, const void *b, void *c

/* Defines xGEMM, for any operands. one and beta are pointers for complex types. */
#define GEMM(suffix, letter, one, beta)                                                          \
  static void gemm_##suffix(PARAMETERS) {                                                        \
    mmci_blas.letter##gemm(MMCI_CBLAS_ROW_MAJOR, blas_op(gemm->a.trans, gemm->a.conj),           \
                           blas_op(gemm->b.trans, gemm->b.conj), gemm->m, gemm->n, gemm->k, one, \
                           a, gemm->a.ld, b, gemm->b.ld, beta, c, gemm->ldc);                    \
  }

/* Defines xGEMV; for a vector times a matrix, it takes the transposed matrix first. */
#define GEMV(suffix, letter, one, beta)                                                         \
  static void matrix_vector_##suffix(PARAMETERS) {                                              \
    const mmci_form *x = &gemm->a;                                                              \
    int64_t m = gemm->m, k = gemm->k;                                                           \
    mmci_blas.letter##gemv(MMCI_CBLAS_ROW_MAJOR, blas_op(x->trans, x->conj), x->trans ? k : m,  \
                           x->trans ? m : k, one, a, x->ld, b, column_step(&gemm->b), beta, c,  \
                           gemm->ldc);                                                          \
  }                                                                                             \
  static void vector_matrix_##suffix(PARAMETERS) {                                              \
    const mmci_form *x = &gemm->b;                                                              \
    int64_t n = gemm->n, k = gemm->k;                                                           \
    mmci_blas.letter##gemv(MMCI_CBLAS_ROW_MAJOR, blas_op(!x->trans, x->conj), x->trans ? n : k, \
                           x->trans ? k : n, one, b, x->ld, a, row_step(&gemm->a), beta, c, 1); \
  }

#define DOT_PRODUCT(suffix, letter, type)                                                \
  static void dot_##suffix(PARAMETERS) {                                                 \
    type product =                                                                       \
        mmci_blas.letter##dot(gemm->k, a, row_step(&gemm->a), b, column_step(&gemm->b)); \
    *(type *)c = gemm->accumulate ? *(type *)c + product : product;                      \
  }

static const float c64[][2] = {{0, 0}, {1, 0}};
static const double c128[][2] = {{0, 0}, {1, 0}};

GEMM(f32, s, 1, gemm->accumulate)
GEMM(f64, d, 1, gemm->accumulate)
GEMM(c64, c, c64[1], c64[gemm->accumulate])
GEMM(c128, z, c128[1], c128[gemm->accumulate])
GEMV(f32, s, 1, gemm->accumulate)
GEMV(f64, d, 1, gemm->accumulate)
GEMV(c64, c, c64[1], c64[gemm->accumulate])
GEMV(c128, z, c128[1], c128[gemm->accumulate])
DOT_PRODUCT(f32, s, float)
DOT_PRODUCT(f64, d, double)

static void multiply_vectors(PARAMETERS) {
  const mmci_vectors x = mmci_vectors_make(gemm, 0, 0, 0);
  mmci_vectors_multiply(&x, 1, a, b, c);
}

static void write_nothing(PARAMETERS) {
  (void)gemm, (void)a, (void)b, (void)c;
}

static void write_zeros(PARAMETERS) {
  (void)a, (void)b;
  size_t size = mmc_dtype_size(gemm->dtype);
  for (int64_t i = 0; i < gemm->m; i++)
    memset((char *)c + (size_t)i * (size_t)gemm->ldc * size, 0, (size_t)gemm->n * size);
}

#define ANY_DTYPE [NOTHING] = write_nothing, [ZEROS] = write_zeros, [LOOPS] = mmci_ref_gemm
#define MATRICES(suffix)                                                  \
  [VECTORS] = multiply_vectors, [MATRIX_VECTOR] = matrix_vector_##suffix, \
  [VECTOR_MATRIX] = vector_matrix_##suffix, [MATRIX_MATRIX] = gemm_##suffix

static const mmci_blas_fn calls[MMCI_DTYPES][METHOD_COUNT] = {
    [MMC_F32] = {ANY_DTYPE, [DOT] = dot_f32, MATRICES(f32)},
    [MMC_F64] = {ANY_DTYPE, [DOT] = dot_f64, MATRICES(f64)},
    [MMC_C64] = {ANY_DTYPE, MATRICES(c64)},
    [MMC_C128] = {ANY_DTYPE, MATRICES(c128)},
    [MMC_F16] = {ANY_DTYPE, [WIDENED] = mmci_half_small},
    [MMC_BF16] = {ANY_DTYPE, [WIDENED] = mmci_half_small},
};
static const mmci_blas_fn integer_calls[METHOD_COUNT] = {
    ANY_DTYPE, [DIRECT] = mmci_integer_direct, [ORDERED] = mmci_ordered_small};

mmci_blas_fn mmci_blas_call(mmci_gemm *gemm) {
  method method = choose_method(gemm);
  if (method == SEMIRING || method == WHOLE) return NULL;
  if (mmci_dtype_is_integer(gemm->dtype)) return integer_calls[method];
  if (method == ORDERED || (method == SMALL && mmci_blas_is_reproducible(gemm)))
    return mmci_ordered_small;
  /* CBLAS has no conjugate of real numbers. */
  if (is_real(gemm->dtype)) gemm->a.conj = gemm->b.conj = false;
  return calls[gemm->dtype][method == SMALL ? MATRIX_MATRIX : method];
}

double mmci_blas_serial_s(const mmci_gemm *gemm) {
  method method = choose_method(gemm);
  if (method == SEMIRING) return mmci_semiring_serial_s(gemm);
  if (method == VECTORS) return 4e-9 + mmci_flops(gemm->dtype, gemm->m, gemm->k, gemm->n) / 2e10;
  const double rate = method == LOOPS     ? 1e9
                      : method == DIRECT  ? 1e10
                      : method == WIDENED ? 7e10
                      : method == PANELS  ? 9e10
                                          : 4e10;
  return 2e-8 + mmci_flops(gemm->dtype, gemm->m, gemm->k, gemm->n) / rate;
}

/* OpenBLAS gives a product of a matrix and a vector to one thread below so many terms, and one of
 * two matrices up to so many, of complex ones an eighth. */
enum { SERIAL_GEMV = 9216, SERIAL_GEMM = 64 * 64 * 64, SERIAL_COMPLEX_GEMM = SERIAL_GEMM / 8 };

static bool is_serial_gemm(const mmci_gemm *gemm) {
  const double terms = (double)gemm->m * (double)gemm->k * (double)gemm->n;
  return terms <= (is_real(gemm->dtype) ? SERIAL_GEMM : SERIAL_COMPLEX_GEMM);
}

bool mmci_blas_has_threads(const mmci_gemm *gemm) {
  if (!mmci_blas.is_openblas || mmci_blas_threads() == 1 || mmci_blas_is_reproducible(gemm))
    return false;
  switch (choose_method(gemm)) {
    case MATRIX_VECTOR:
    case VECTOR_MATRIX:
      return !mmci_blas_is_serial(gemm);
    case SMALL:
    case MATRIX_MATRIX:
      return !is_serial_gemm(gemm);
    default:
      return false;
  }
}

bool mmci_blas_is_serial(const mmci_gemm *gemm) {
  double terms = (double)gemm->m * (double)gemm->k * (double)gemm->n;
  switch (choose_method(gemm)) {
    case PANELS:
    case DIGITS:
    case WHOLE:
      return false; /* their room belongs to the queue */
    case SEMIRING:
      return mmci_semiring_workers(gemm) == 1;
    case DOT:
    case MATRIX_VECTOR:
    case VECTOR_MATRIX:
      return terms < SERIAL_GEMV;
    case MATRIX_MATRIX:
      return is_serial_gemm(gemm);
    case ORDERED:
      return gemm->sums == MMCI_SUMS_PIECES ? mmci_ordered_is_short(gemm) : terms <= SERIAL_GEMM;
    default:
      return true;
  }
}

/* A thread takes some 0.2 s for so many operations in 64 bits, and for twice as many in 32 bits. */
static const double piece_flops = 8e9;

static bool is_single_precision(mmc_dtype dtype) {
  return dtype == MMC_F32 || dtype == MMC_C64;
}

/* Two of OpenBLAS's threads compute a product of 70 to 200 rows, columns and terms 1.3 to 1.8 times
 * as fast as one. So the threads are to have nearly the same number of products, and a product is
 * to be no longer than what is not stopped. */
bool mmci_blas_is_shared(const mmci_gemm *gemm, int64_t batch) {
  if (batch <= 1 || mmci_blas_is_serial(gemm)) return batch > 1;
  const method how = choose_method(gemm);
  const int64_t threads = mmci_blas_threads(), rounds = (batch + threads - 1) / threads;
  return mmci_blas.is_openblas &&
         (how == MATRIX_MATRIX || how == MATRIX_VECTOR || how == VECTOR_MATRIX) &&
         (double)(rounds * threads) <= 1.2 * (double)batch &&
         mmci_flops(gemm->dtype, gemm->m, gemm->k, gemm->n) <=
             piece_flops * (is_single_precision(gemm->dtype) ? 2 : 1);
}

static void multiply_small(const mmci_small *small, const void *a, const void *b, void *c) {
  double room[MMCI_SMALL_ROOM / sizeof(double)];
  mmci_small_multiply(small, a, b, c, room);
  mmci_xsmm_leave();
  if (mmci_blas_is_reproducible(&small->gemm)) mmci_ordered_settle(&small->gemm, c);
}

static mmc_status multiply_one(mmci_queue *queue, const mmci_kernel *kernel, int worker,
                               const void *a, const void *b, void *c, mmci_error *error) {
  if (kernel->semiring_threads > 0) {
    char *room = queue->semiring_room.memory + (uint64_t)worker * kernel->room_bytes;
    if (!mmci_semiring_multiply(&kernel->gemm, a, b, c, kernel->semiring_threads, room))
      return mmci_fail(error, MMC_E_INTERRUPTED, "stopped within a product");
    return MMC_OK;
  }
  if (kernel->small != NULL)
    multiply_small(kernel->small, a, b, c);
  else if (kernel->blocks != NULL)
    return mmci_blocks_multiply(kernel->blocks, a, b, c, &queue->blocks_room, error);
  else if (kernel->ordered_threads > 0)
    return mmci_ordered_gemm(&kernel->gemm, kernel->ordered_threads, a, b, c, &queue->ordered_room,
                             error);
  else if (kernel->multiply != NULL)
    kernel->multiply(&kernel->gemm, a, b, c);
  else if (mmci_gemm_is_whole(&kernel->gemm))
    return mmci_whole_gemm(&kernel->gemm, a, b, c, &queue->whole_room, &queue->room, error);
  else if (mmci_dtype_is_integer(kernel->gemm.dtype))
    return mmci_integer_gemm(&kernel->gemm, a, b, c, &queue->room, error);
  else
    mmci_half_gemm(&kernel->gemm, a, b, c, queue->panels);
  return MMC_OK;
}

/* ---- variants ------------------------------------------------------------------------------ */

static const char *const fewer_threads[] = {"1 thread",   "2 threads",  "4 threads",
                                            "8 threads",  "16 threads", "32 threads",
                                            "64 threads", "128 threads"};
enum { MOST_FEWER = sizeof fewer_threads / sizeof fewer_threads[0], MOST_ROWS = 64 };

/* Counts the entries of fewer_threads that are below the number of threads. */
static int fewer(void) {
  int threads = mmci_blas_threads(), count = 0;
  while (count < MOST_FEWER && 1 << count < threads) count++;
  return count;
}

static const char *variant_name(mmc_dtype dtype, int variant) {
  (void)dtype;
  const int fewer_count = fewer();
  if (variant <= fewer_count) return fewer_threads[variant - 1];
  if (variant == fewer_count + 1) return "blocks";
  return variant == fewer_count + 2 ? "libxsmm" : NULL;
}

static bool may_go_by_blocks(const mmci_gemm *gemm) {
  return choose_method(gemm) == MATRIX_MATRIX && mmci_blocks_can(gemm);
}

/* Says whether a few rows are multiplied by a matrix: a CBLAS packs the matrix before it reads it
 * once, LIBXSMM does not. */
static bool may_skip_packing(const mmci_gemm *gemm) {
  return may_go_by_blocks(gemm) && gemm->m <= MOST_ROWS && mmci_xsmm_can(gemm);
}

static int variants(mmci_device *device, const mmci_gemm *gemm) {
  (void)device;
  method how = choose_method(gemm);
  if (how == NOTHING || how == ZEROS || how == ORDERED || how == LOOPS || how == DIRECT ||
      how == DIGITS || how == WHOLE || how == SEMIRING || how == VECTORS ||
      mmci_blas_is_reproducible(gemm))
    return 0;
  return fewer() + may_go_by_blocks(gemm) + may_skip_packing(gemm);
}

static int advised(const mmci_device *device, const mmci_gemm *gemm) {
  char slow[200] = "";
  (void)device;
  if (mmci_blas_is_reproducible(gemm) || !may_go_by_blocks(gemm)) return 0;
  if (mmci_blas.is_openblas)
    mmci_openblas_advice(mmci_blas.get_config(), mmci_simd_of_processor(), slow, sizeof slow);
  return mmci_blocks_pays(gemm, slow[0] != '\0') ? fewer() + 1 : 0;
}

/* A batch that threads share. */
typedef struct batch {
  mmci_queue *queue;
  const mmci_kernel *kernel;
  const void *a, *b;
  void *c;
  mmci_error *error; /* of the caller, who is the only one to do what can fail */
  mmc_status status;
  atomic_bool stopped;
  int64_t first;   /* the chunk that is piece 0 of what is shared */
  bool by_library; /* whether the CBLAS computes what it has threads for */
} batch;

static mmc_status multiply_entry(const batch *x, int worker, int64_t i, mmci_error *error) {
  const mmci_gemm *gemm = &x->kernel->gemm;
  const size_t size = mmc_dtype_size(gemm->dtype);
  const void *a = mmci_batch_at(x->a, &gemm->a, size, i),
             *b = mmci_batch_at(x->b, &gemm->b, size, i);
  void *c = mmci_batch_result_at(x->c, false, gemm->c_stride, size, i);
  if (!x->by_library) return multiply_one(x->queue, x->kernel, worker, a, b, c, error);
  x->kernel->multiply(gemm, a, b, c);
  return MMC_OK;
}

static void multiply_chunk(void *user, int worker, int64_t piece) {
  batch *x = user;
  const mmci_kernel *kernel = x->kernel;
  /* The caller is worker 0, whose work can be stopped. */
  if (worker == 0 && x->status == MMC_OK && mmci_interrupted()) {
    x->status = mmci_fail(x->error, MMC_E_INTERRUPTED, "stopped within a product");
    atomic_store(&x->stopped, true);
  }
  if (atomic_load_explicit(&x->stopped, memory_order_relaxed)) return;
  int64_t begin = (x->first + piece) * kernel->chunk, left = kernel->gemm.batch - begin;
  int64_t end = left < kernel->chunk ? kernel->gemm.batch : begin + kernel->chunk;
  mmci_error error;
  if (kernel->several.kind != MMCI_ONE_BY_ONE) {
    const mmci_several *several = &kernel->several;
    mmci_several_multiply(several, end - begin, mmci_address(x->a, begin * several->a_step),
                          mmci_address(x->b, begin * several->b_step),
                          mmci_address(x->c, begin * several->c_step));
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    mmc_status status = multiply_entry(x, worker, i, &error);
    if (status == MMC_OK) continue;
    x->status = status; /* only products of one worker, this one, fail */
    *x->error = error;
    atomic_store(&x->stopped, true);
    return;
  }
}

static void multiply_chunks(void *user, mmci_way way, int64_t begin, int64_t end) {
  batch *x = user;
  x->by_library = way == MMCI_LIBRARY;
  const int limit = x->by_library ? 0 : x->kernel->limit;
  x->first = begin;
  if (limit > 0) mmci_blas_threads_limit(limit);
  mmci_share(way == MMCI_SHARED ? x->kernel->threads : 1, end - begin, multiply_chunk, x);
  if (limit > 0) mmci_blas_threads_restore();
}

/* ---- in pieces ----------------------------------------------------------------------------- */

/* A product that takes longer than a piece and a half is cut by its shape and number of threads
 * alone, also where nobody would stop it: how a CBLAS rounds depends on where its operands begin
 * and end, and every entrance is to give the same bits. */

/* For each piece operands are packed again, which takes as long as a few of these rows or columns,
 * or is the result read again, as are few of these terms. Multiples of 96 are multiples of
 * OpenBLAS's tiles. */
enum { LEAST_ROWS = 384, LEAST_COLUMNS = 1536, LEAST_TERMS = 1536, PIECE_UNIT = 96 };

/* Cuts a dimension into up to so many pieces, none below `least`; returns into how many. */
static double cut(int64_t *dim, int64_t least, double count) {
  const int64_t all = *dim;
  if (count < 1.5 || all < 2 * least) return 1;
  int64_t size = (int64_t)((double)all / round(count));
  if (size < least) size = least;
  *dim = (size + PIECE_UNIT - 1) / PIECE_UNIT * PIECE_UNIT;
  return (double)all / (double)*dim;
}

static pieces choose_pieces(const mmci_gemm *gemm, int threads) {
  pieces out = {.m = gemm->m, .n = gemm->n, .k = gemm->k};
  double count = mmci_flops(gemm->dtype, gemm->m, gemm->k, gemm->n) /
                 (piece_flops * threads * (is_single_precision(gemm->dtype) ? 2 : 1));
  count /= cut(&out.m, LEAST_ROWS, count);
  count /= cut(&out.n, LEAST_COLUMNS, count);
  cut(&out.k, LEAST_TERMS, count);
  out.any = out.m < gemm->m || out.n < gemm->n || out.k < gemm->k;
  return out;
}

bool mmci_blas_is_in_pieces(const mmci_gemm *gemm) {
  return choose_method(gemm) == MATRIX_MATRIX && choose_pieces(gemm, mmci_blas_threads()).any;
}

/* Returns where element (row, col) of an operand lies, which is stored transposed or not. */
static const char *element(const void *data, const mmci_form *form, int64_t row, int64_t col,
                           size_t size) {
  int64_t index = form->trans ? col * form->ld + row : row * form->ld + col;
  return (const char *)data + index * (int64_t)size;
}

static int64_t least_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Multiplies piece by piece. Returns false when it was stopped. */
static bool multiply_in_pieces(const mmci_kernel *kernel, const void *a, const void *b, void *c) {
  const mmci_gemm *whole = &kernel->gemm;
  const pieces size = kernel->pieces;
  const size_t bytes = mmc_dtype_size(whole->dtype);
  const double all = (double)whole->m * (double)whole->k * (double)whole->n;
  mmci_gemm piece = *whole;
  double done = 0;
  for (int64_t row = 0; row < whole->m; row += size.m) {
    piece.m = least_of(size.m, whole->m - row);
    for (int64_t column = 0; column < whole->n; column += size.n) {
      piece.n = least_of(size.n, whole->n - column);
      for (int64_t term = 0; term < whole->k; term += size.k) {
        piece.k = least_of(size.k, whole->k - term);
        piece.accumulate = whole->accumulate || term > 0;
        kernel->multiply(&piece, element(a, &whole->a, row, term, bytes),
                         element(b, &whole->b, term, column, bytes),
                         (char *)c + (row * whole->ldc + column) * (int64_t)bytes);
        done += (double)piece.m * (double)piece.k * (double)piece.n;
        mmci_interrupt_done(done < all ? done / all : 1);
        if (mmci_interrupted()) return false;
      }
    }
  }
  return true;
}

static mmc_status provide_panels(mmci_queue *queue, mmci_error *error) {
  if (queue->panels == NULL) queue->panels = mmci_alloc_array(1, sizeof *queue->panels);
  return queue->panels != NULL ? MMC_OK : mmci_fail_nomem(error, sizeof *queue->panels);
}

static bool is_by_panels(const mmci_kernel *kernel) {
  return kernel->multiply == NULL && kernel->small == NULL && kernel->semiring_threads == 0 &&
         !mmci_gemm_is_whole(&kernel->gemm) && !mmci_dtype_is_integer(kernel->gemm.dtype);
}

static mmc_status enqueue(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                          const void *b, void *c, mmci_error *error) {
  mmc_status status = is_by_panels(kernel) ? provide_panels(queue, error) : MMC_OK;
  if (kernel->semiring_threads > 0)
    status = mmci_semiring_memory_make(&queue->semiring_room,
                                       kernel->room_bytes * (uint64_t)kernel->threads, error);
  if (status != MMC_OK) return status;
  if (kernel->small != NULL) mmci_small_execute(kernel->small, kernel->gemm.batch);
  if (!kernel->is_single) {
    batch x = {queue, kernel, a, b, c, error, MMC_OK, false, 0, false};
    const mmci_ways_job job = {.threads = kernel->threads,
                               .pieces = (kernel->gemm.batch + kernel->chunk - 1) / kernel->chunk,
                               .compute = multiply_chunks,
                               .user = &x};
    mmci_ways_compute(kernel->ways, &job);
    return x.status;
  }
  if (kernel->limit > 0) mmci_blas_threads_limit(kernel->limit);
  if (!kernel->pieces.any)
    status = multiply_one(queue, kernel, 0, a, b, c, error);
  else if (!multiply_in_pieces(kernel, a, b, c))
    status = mmci_fail(error, MMC_E_INTERRUPTED, "stopped within a product");
  if (kernel->limit > 0) mmci_blas_threads_restore();
  return status;
}

/* Says whether loops compute the product at once; to these the number of threads is nothing. */
static bool goes_to_loops(const mmci_gemm *gemm, method how) {
  return how == SMALL && mmci_small_loops_can() && gemm->variant <= fewer();
}

/* Whatever writes code, packs into a queue's room or cuts is left to prepare(), and of batches what
 * threads would share. Threads that compute a chain's products side by side compute those by
 * LIBXSMM which alone are OpenBLAS's. */
static bool takes_at_once(const mmci_device *device, const mmci_gemm *gemm, bool beside) {
  (void)device;
  if (gemm->precision != MMCI_NATIVE) return false;
  const method how = choose_method(gemm);
  if (goes_to_loops(gemm, how)) return true;
  if (gemm->variant != 0 || (gemm->batch > 1 && !mmci_blas_is_serial(gemm)) ||
      (beside && !mmci_blas_is_serial(gemm) && mmci_small_can(gemm)))
    return false;
  switch (how) {
    case MATRIX_MATRIX:
      return !choose_pieces(gemm, mmci_blas_threads()).any;
    case VECTORS:
    case WIDENED:
    case DIRECT:
    case DOT:
    case MATRIX_VECTOR:
    case VECTOR_MATRIX:
      return true;
    default:
      return false;
  }
}

static void multiply_each(const mmci_gemm *gemm, const mmci_small *small, mmci_blas_fn multiply,
                          const void *a, const void *b, void *c) {
  const int64_t size = (int64_t)mmc_dtype_size(gemm->dtype);
  for (int64_t i = 0; i < gemm->batch; i++) {
    const void *of_a = mmci_batch_at(a, &gemm->a, (size_t)size, i),
               *of_b = mmci_batch_at(b, &gemm->b, (size_t)size, i);
    void *of_c = mmci_address(c, i * gemm->c_stride * size);
    if (small != NULL)
      multiply_small(small, of_a, of_b, of_c);
    else
      multiply(gemm, of_a, of_b, of_c);
  }
}

static void multiply_at_once(mmci_device *device, const mmci_gemm *given, const void *a,
                             const void *b, void *c) {
  (void)device;
  const method how = choose_method(given);
  const int64_t size = (int64_t)mmc_dtype_size(given->dtype);
  mmci_gemm gemm = *given;
  if (is_real(gemm.dtype)) gemm.a.conj = gemm.b.conj = false;
  if (goes_to_loops(given, how)) {
    const mmci_small small = mmci_small_make(&gemm);
    multiply_each(&gemm, &small, NULL, a, b, c);
    return;
  }
  const bool is_even = gemm.batch > 1 && !gemm.a.gathered && !gemm.b.gathered;
  const mmci_several_kind kind = is_even ? mmci_blas_several(given) : MMCI_ONE_BY_ONE;
  if (kind == MMCI_ONE_BY_ONE) {
    multiply_each(&gemm, NULL, mmci_blas_call(&gemm), a, b, c);
    return;
  }
  const mmci_several several = mmci_several_make(kind, &gemm, gemm.a.stride * size,
                                                 gemm.b.stride * size, gemm.c_stride * size);
  mmci_several_multiply(&several, gemm.batch, a, b, c);
}

/* ---- the device ---------------------------------------------------------------------------- */

/* Which BLAS this is, as wisdom keeps it. */
static void name_blas(char *text, size_t size) {
  if (mmci_blas.is_openblas)
    snprintf(text, size, "%s, %d threads", mmci_blas.get_config(), mmci_blas_threads());
  else
    snprintf(text, size, "a CBLAS that does not say which");
}

static void describe(const mmci_device *device, char *text, size_t size) {
  (void)device;
  name_blas(text, size);
  size_t used = strlen(text);
  if (mmci_blas.is_openblas)
    mmci_openblas_advice(mmci_blas.get_config(), mmci_simd_of_processor(), text + used,
                         size - used);
  else
    mmci_other_blas_advice(text + used, size - used);
}

static void identify(const mmci_device *device, mmci_identity *out) {
  *out = (mmci_identity){0};
  mmci_host_model(out->model, sizeof out->model);
  (void)device;
  name_blas(out->blas, sizeof out->blas);
}

/* The facts are for each thread, as measured on a processor of two cores with AVX-512. Integers are
 * priced as products of doubles, as many as they take when they are as large as they can be. */
static void facts(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                  mmci_facts *out) {
  static const double peaks[] = {[MMC_F32] = 1.2e11,  [MMC_F64] = 6e10,   [MMC_C64] = 1.05e11,
                                 [MMC_C128] = 5.5e10, [MMC_F16] = 9.5e10, [MMC_BF16] = 9.5e10};
  static const double joules[] = {[MMC_F32] = 1e-10,  [MMC_F64] = 2e-10,   [MMC_C64] = 1e-10,
                                  [MMC_C128] = 2e-10, [MMC_F16] = 1.3e-10, [MMC_BF16] = 1.3e-10};
  const int threads = mmci_workers_most();
  const bool is_integer = mmci_dtype_is_integer(dtype);
  const mmc_dtype as = is_integer ? MMC_F64 : dtype;
  const bool is_complex = as == MMC_C64 || as == MMC_C128;
  const double products = is_integer ? mmci_integer_products(dtype) : 1;
  (void)device, (void)precision;
  *out = (mmci_facts){.flops_per_s = peaks[as] / products * threads,
                      .bytes_per_s = 3.7e10,
                      .launch_s = 1.2e-7,
                      .half_k = is_complex ? 8 : 2, /* operands are packed */
                      .each_s = 6e-9,
                      .share_s = 3e-5,
                      .cache_bytes = 640e3,
                      .cached_bytes_per_s = 6.5e10,
                      .static_w = 15,
                      .joules_per_flop = joules[as] * products,
                      .joules_per_byte = 5e-10,
                      .group_share = is_complex ? 0.6 : 1,
                      .keeps_common = 1,
                      .product_s = 1.2e-8,
                      .handover_s = 1e-6,
                      .workers = threads,
                      .tile = INT16_MAX, /* one thread computes a product of a group */
                      .variant_name = variant_name,
                      .threads = mmci_blas_threads()};
}

static const char *kernel_name(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device;
  if (gemm->variant > 0) return variant_name(gemm->dtype, gemm->variant);
  switch (choose_method(gemm)) {
    case NOTHING:
      return "nothing";
    case ZEROS:
      return "zeros";
    case PANELS:
      return "panels";
    case WIDENED:
      return "widened";
    case SEMIRING:
      return mmc_semiring_name(gemm->rule.semiring);
    case DIGITS:
      return "digits";
    case WHOLE:
      return "whole numbers";
    case DOT:
      return "dot";
    case VECTORS:
      return "vectors";
    case MATRIX_VECTOR:
    case VECTOR_MATRIX:
      return "gemv";
    case MATRIX_MATRIX:
      return "gemm";
    case SMALL:
      return mmci_blas_is_reproducible(gemm) ? "small in order" : "libxsmm";
    case ORDERED:
      return mmci_dtype_is_integer(gemm->dtype) ? "words"
             : gemm->sums == MMCI_SUMS_PIECES   ? "in pieces"
                                                : "in order";
    case DIRECT:
    case LOOPS:
    case METHOD_COUNT:
      break;
  }
  return "loops";
}

static mmc_status prepare_small(mmci_kernel *kernel, mmci_error *error) {
  mmci_small small = mmci_small_make(&kernel->gemm);
  if (!small.can) return MMC_OK;
  mmci_small_prepare(&small, kernel->gemm.batch);
  kernel->small = malloc(sizeof small);
  if (kernel->small == NULL) return mmci_fail_nomem(error, sizeof small);
  *kernel->small = small;
  return MMC_OK;
}

/* Where there is no code, a CBLAS computes the product. */
static mmc_status prepare_blocks(mmci_kernel *kernel, mmci_error *error) {
  const mmci_gemm *gemm = &kernel->gemm;
  const int most = mmci_blas_threads();
  int threads = mmci_workers(mmci_blas_serial_s(gemm), mmci_blocks_panels(gemm));
  if (threads > most) threads = most;
  kernel->blocks = malloc(sizeof *kernel->blocks);
  if (kernel->blocks == NULL) return mmci_fail_nomem(error, sizeof *kernel->blocks);
  if (mmci_blocks_make(gemm, threads, kernel->blocks)) return mmci_workers_provide(threads, error);
  free(kernel->blocks);
  kernel->blocks = NULL;
  return MMC_OK;
}

static void release(mmci_kernel *kernel) {
  if (kernel == NULL) return;
  free(kernel->small);
  free(kernel->blocks);
  free(kernel->ways);
  free(kernel);
}

static mmc_status prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                          mmci_error *error) {
  int count = gemm->variant != 0 ? variants(device, gemm) : 0;
  if (gemm->variant < 0 || gemm->variant > count)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "variant: expected 0 to %d, got %d", count,
                     gemm->variant);
  mmci_kernel *kernel = malloc(sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  const bool is_fewer = gemm->variant > 0 && gemm->variant <= fewer();
  *kernel =
      (mmci_kernel){.gemm = *gemm, .threads = 1, .limit = is_fewer ? 1 << (gemm->variant - 1) : 0};
  kernel->multiply = mmci_blas_call(&kernel->gemm);
  if (gemm->batch == 0) kernel->gemm.batch = 1;
  mmc_status status = MMC_OK;
  if (choose_method(gemm) == SMALL || gemm->variant > fewer() + 1)
    status = prepare_small(kernel, error);
  else if (gemm->variant == fewer() + 1)
    status = prepare_blocks(kernel, error);
  const bool is_gathered = gemm->a.gathered || gemm->b.gathered;
  kernel->is_single = kernel->gemm.batch == 1 && !is_gathered;
  if (gemm->variant == 0 && !is_gathered) {
    const int64_t size = (int64_t)mmc_dtype_size(gemm->dtype);
    kernel->several =
        mmci_several_make(mmci_blas_several(gemm), &kernel->gemm, gemm->a.stride * size,
                          gemm->b.stride * size, gemm->c_stride * size);
  }
  const bool is_serial = mmci_blas_is_serial(gemm);
  const bool is_shared =
      gemm->variant == 0 ? mmci_blas_is_shared(gemm, gemm->batch) : is_serial && gemm->batch > 1;
  if (is_shared && kernel->blocks == NULL)
    kernel->threads = mmci_workers((double)gemm->batch * mmci_blas_serial_s(gemm), gemm->batch);
  if (kernel->is_single && kernel->small == NULL && kernel->blocks == NULL &&
      choose_method(gemm) == MATRIX_MATRIX)
    kernel->pieces = choose_pieces(gemm, kernel->limit > 0 ? kernel->limit : mmci_blas_threads());
  /* OpenBLAS must not start threads of its own beside these. */
  if (kernel->threads > 1 && kernel->small == NULL) kernel->limit = 1;
  if (choose_method(gemm) == ORDERED && !mmci_blas_is_serial(gemm)) {
    kernel->ordered_threads = mmci_ordered_threads(gemm);
    if (status == MMC_OK) status = mmci_workers_provide(kernel->ordered_threads, error);
  }
  if ((choose_method(gemm) == DIGITS || choose_method(gemm) == WHOLE) && status == MMC_OK)
    status = mmci_workers_provide(mmci_ordered_threads(gemm), error);
  if (choose_method(gemm) == SEMIRING) {
    kernel->semiring_threads = mmci_semiring_workers(gemm);
    kernel->room_bytes = mmci_semiring_room(gemm, kernel->semiring_threads);
    if (status == MMC_OK) status = mmci_workers_provide(kernel->semiring_threads, error);
  }
  kernel->chunk = kernel->gemm.batch / (16 * (int64_t)kernel->threads) + 1;
  if (status == MMC_OK) status = mmci_workers_provide(kernel->threads, error);
  const double serial_s = (double)gemm->batch * mmci_blas_serial_s(gemm);
  const bool has_library = gemm->variant == 0 && mmci_blas_has_threads(gemm);
  if (status == MMC_OK && kernel->threads > 1 && mmci_ways_pay(serial_s))
    status = mmci_ways_create(has_library, &kernel->ways, error);
  if (status == MMC_OK && is_by_panels(kernel)) atomic_store(&has_panels, true);
  if (status == MMC_OK)
    *out = kernel;
  else
    release(kernel);
  return status;
}

static mmc_status probe(int *count, mmci_error *error) {
  *count = 0;
  mmc_status status = mmci_cblas_find(error);
  return status == MMC_OK ? mmci_host_probe(count, error) : status;
}

static mmc_status open_device(int index, mmci_device **out, mmci_error *error) {
  mmc_status status = mmci_cblas_find(error);
  return status == MMC_OK ? mmci_host_open(index, out, error) : status;
}

static mmc_status queue_open(mmci_device *device, mmci_queue **out, mmci_error *error) {
  (void)device;
  mmci_queue *queue = mmci_alloc_zeroed(1, sizeof *queue);
  if (queue == NULL) return mmci_fail_nomem(error, sizeof *queue);
  mmc_status status = atomic_load(&has_panels) ? provide_panels(queue, error) : MMC_OK;
  if (status == MMC_OK)
    *out = queue;
  else
    free(queue);
  return status;
}

static void queue_close(mmci_queue *queue) {
  free(queue->room.memory);
  free(queue->room.ordered.memory);
  free(queue->ordered_room.memory);
  free(queue->blocks_room.memory);
  free(queue->semiring_room.memory);
  free(queue->whole_room.memory);
  free(queue->panels);
  free(queue);
}

const mmci_device_ops mmci_device_blas = {
    .abi = MMCI_DEVICE_ABI,
    .size = sizeof(mmci_device_ops),
    .name = "blas",
    .probe = probe,
    .open = open_device,
    .close = mmci_host_close,
    .describe = describe,
    .identify = identify,
    .facts = facts,
    .supports = mmci_host_supports,
    .variants = variants,
    .advised = advised,
    .kernel_name = kernel_name,
    .prepare = prepare,
    .release = release,
    .queue_open = queue_open,
    .queue_close = queue_close,
    .enqueue = enqueue,
    .sync = mmci_host_sync,
    .group_supports = mmci_blas_group_supports,
    .group_side = MMCI_GROUP_SIDE,
    .group_name = mmci_blas_group_name,
    .group_prepare = mmci_blas_group_prepare,
    .group_release = mmci_blas_group_release,
    .group_enqueue = mmci_blas_group_enqueue,
    .structured_check = mmci_blas_structured_check,
    .structured = mmci_blas_structured,
    .alloc = mmci_host_alloc,
    .dealloc = mmci_host_dealloc,
    .scan_supports = mmci_blas_scan_supports,
    .scan_prepare = mmci_blas_scan_prepare,
    .scan_release = mmci_blas_scan_release,
    .scan_facts = mmci_blas_scan_facts,
    .scan_enqueue = mmci_blas_scan_enqueue,
    .takes_at_once = takes_at_once,
    .at_once = multiply_at_once,
};
