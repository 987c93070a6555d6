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
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "base/interrupt.h"
#include "base/sizes.h"
#include "device/blas/advice.h"
#include "device/blas/blas.h"
#include "device/blas/blas_group.h"
#include "device/blas/blas_scan.h"
#include "device/blas/blocks.h"
#include "device/blas/cblas_table.h"
#include "device/blas/half_gemm.h"
#include "device/blas/integer_gemm.h"
#include "device/blas/methods.h"
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
  const mmci_method how = mmci_blas_method(gemm);
  const int64_t threads = mmci_blas_threads(), rounds = (batch + threads - 1) / threads;
  return mmci_blas.is_openblas &&
         (how == MMCI_METHOD_MATRIX_MATRIX || how == MMCI_METHOD_MATRIX_VECTOR ||
          how == MMCI_METHOD_VECTOR_MATRIX) &&
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
    return mmci_half_gemm(&kernel->gemm, a, b, c, queue->panels, error);
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
  return mmci_blas_method(gemm) == MMCI_METHOD_MATRIX_MATRIX && mmci_blocks_can(gemm);
}

/* Says whether a few rows are multiplied by a matrix: a CBLAS packs the matrix before it reads it
 * once, LIBXSMM does not. */
static bool may_skip_packing(const mmci_gemm *gemm) {
  return may_go_by_blocks(gemm) && gemm->m <= MOST_ROWS && mmci_xsmm_can(gemm);
}

static int variants(mmci_device *device, const mmci_gemm *gemm) {
  (void)device;
  mmci_method how = mmci_blas_method(gemm);
  if (how == MMCI_METHOD_NOTHING || how == MMCI_METHOD_ZEROS || how == MMCI_METHOD_ORDERED ||
      how == MMCI_METHOD_LOOPS || how == MMCI_METHOD_DIRECT || how == MMCI_METHOD_DIGITS ||
      how == MMCI_METHOD_WHOLE || how == MMCI_METHOD_SEMIRING || how == MMCI_METHOD_VECTORS ||
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
    const mmci_gemm *gemm = &kernel->gemm;
    if (gemm->a.gathered || gemm->b.gathered)
      mmci_several_gathered(several->kind, gemm, begin, end, x->a, x->b, x->c);
    else
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
  return mmci_blas_method(gemm) == MMCI_METHOD_MATRIX_MATRIX &&
         choose_pieces(gemm, mmci_blas_threads()).any;
}

/* Returns where element (row, col) of an operand lies, which is stored transposed or not. */
static const char *element(const void *data, const mmci_form *form, int64_t row, int64_t col,
                           size_t size) {
  int64_t index = mmci_form_place(form, row, col);
  return (const char *)data + index * (int64_t)size;
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
    piece.m = mmci_smaller(size.m, whole->m - row);
    for (int64_t column = 0; column < whole->n; column += size.n) {
      piece.n = mmci_smaller(size.n, whole->n - column);
      for (int64_t term = 0; term < whole->k; term += size.k) {
        piece.k = mmci_smaller(size.k, whole->k - term);
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
static bool goes_to_loops(const mmci_gemm *gemm, mmci_method how) {
  return how == MMCI_METHOD_SMALL && mmci_small_loops_can() && gemm->variant <= fewer();
}

/* Whatever writes code, packs into a queue's room or cuts is left to prepare(), and of batches what
 * threads would share. Threads that compute a chain's products side by side compute those by
 * LIBXSMM which alone are OpenBLAS's. */
static bool takes_at_once(const mmci_device *device, const mmci_gemm *gemm, bool beside) {
  (void)device;
  if (gemm->precision != MMCI_NATIVE) return false;
  const mmci_method how = mmci_blas_method(gemm);
  if (goes_to_loops(gemm, how)) return true;
  if (gemm->variant != 0 || (gemm->batch > 1 && !mmci_blas_is_serial(gemm)) ||
      (beside && !mmci_blas_is_serial(gemm) && mmci_small_can(gemm)))
    return false;
  switch (how) {
    case MMCI_METHOD_MATRIX_MATRIX:
      return !choose_pieces(gemm, mmci_blas_threads()).any;
    case MMCI_METHOD_VECTORS:
    case MMCI_METHOD_WIDENED:
    case MMCI_METHOD_DIRECT:
    case MMCI_METHOD_DOT:
    case MMCI_METHOD_MATRIX_VECTOR:
    case MMCI_METHOD_VECTOR_MATRIX:
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
  const mmci_method how = mmci_blas_method(given);
  const int64_t size = (int64_t)mmc_dtype_size(given->dtype);
  mmci_gemm gemm = *given;
  if (!mmci_dtype_is_complex(gemm.dtype)) gemm.a.conj = gemm.b.conj = false;
  if (goes_to_loops(given, how)) {
    const mmci_small small = mmci_small_make(&gemm);
    multiply_each(&gemm, &small, NULL, a, b, c);
    return;
  }
  const mmci_several_kind kind = gemm.batch > 1 ? mmci_blas_several(given) : MMCI_ONE_BY_ONE;
  if (kind == MMCI_ONE_BY_ONE) {
    multiply_each(&gemm, NULL, mmci_blas_call(&gemm), a, b, c);
    return;
  }
  if (gemm.a.gathered || gemm.b.gathered) {
    mmci_several_gathered(kind, &gemm, 0, gemm.batch, a, b, c);
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
  switch (mmci_blas_method(gemm)) {
    case MMCI_METHOD_NOTHING:
      return "nothing";
    case MMCI_METHOD_ZEROS:
      return "zeros";
    case MMCI_METHOD_PANELS:
      return "panels";
    case MMCI_METHOD_WIDENED:
      return mmci_blas_is_reproducible(gemm) ? "widened in order" : "widened";
    case MMCI_METHOD_SEMIRING:
      return mmc_semiring_name(gemm->rule.semiring);
    case MMCI_METHOD_DIGITS:
      return "digits";
    case MMCI_METHOD_WHOLE:
      return "whole numbers";
    case MMCI_METHOD_DOT:
      return "dot";
    case MMCI_METHOD_VECTORS:
      return mmci_blas_is_reproducible(gemm) ? "lines in order"
             : mmci_vectors_pay(gemm)        ? "vectors"
                                             : "lines";
    case MMCI_METHOD_MATRIX_VECTOR:
    case MMCI_METHOD_VECTOR_MATRIX:
      return "gemv";
    case MMCI_METHOD_MATRIX_MATRIX:
      return "gemm";
    case MMCI_METHOD_SMALL:
      return mmci_blas_is_reproducible(gemm) ? "small in order" : "libxsmm";
    case MMCI_METHOD_ORDERED:
      return mmci_dtype_is_integer(gemm->dtype) ? "words"
             : gemm->sums == MMCI_SUMS_PIECES   ? "in pieces"
                                                : "in order";
    case MMCI_METHOD_DIRECT:
    case MMCI_METHOD_LOOPS:
    case MMCI_METHODS:
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
  if (mmci_blas_method(gemm) == MMCI_METHOD_SMALL || gemm->variant > fewer() + 1)
    status = prepare_small(kernel, error);
  else if (gemm->variant == fewer() + 1)
    status = prepare_blocks(kernel, error);
  const bool is_gathered = gemm->a.gathered || gemm->b.gathered;
  kernel->is_single = kernel->gemm.batch == 1 && !is_gathered;
  if (gemm->variant == 0) {
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
      mmci_blas_method(gemm) == MMCI_METHOD_MATRIX_MATRIX)
    kernel->pieces = choose_pieces(gemm, kernel->limit > 0 ? kernel->limit : mmci_blas_threads());
  /* OpenBLAS must not start threads of its own beside these. */
  if (kernel->threads > 1 && kernel->small == NULL) kernel->limit = 1;
  if (mmci_blas_method(gemm) == MMCI_METHOD_ORDERED && !mmci_blas_is_serial(gemm)) {
    kernel->ordered_threads = mmci_ordered_threads(gemm);
    if (status == MMC_OK) status = mmci_workers_provide(kernel->ordered_threads, error);
  }
  if ((mmci_blas_method(gemm) == MMCI_METHOD_DIGITS ||
       mmci_blas_method(gemm) == MMCI_METHOD_WHOLE) &&
      status == MMC_OK)
    status = mmci_workers_provide(mmci_ordered_threads(gemm), error);
  if (mmci_blas_method(gemm) == MMCI_METHOD_SEMIRING) {
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
  *out = queue;
  return MMC_OK;
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
