#include "tune/structure.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/monotonic.h"

enum { SIDES = 3, SAMPLES = 9, MOST_RUNS = 256 };

/* The sides of the matrices, on the host and on a device with memory of its own. */
static const int64_t host_sides[SIDES] = {48, 192, 640}, device_sides[SIDES] = {512, 2048, 4096};

/* A sample takes so long at least, and a side is left out whose product takes longer than the
 * other. */
static const double sample_s = 5e-4, longest_s = 0.1;
/* No work takes a smaller share; where a difference says so, it was noise. */
static const double least_share = 0.01;

/* What is timed: a kernel with a matrix of some side, and how many columns beside it. */
typedef struct timed {
  mmci_structure_kernel kernel;
  uint32_t traits;
  bool inverts, one_column;
} timed;

/* POTRF, GETRF and SYTRF are timed with a solve of one column behind them, which takes little. */
static const timed pieces[MMCI_STRUCTURE_PIECES] = {
    [MMCI_PIECE_SYMV] = {MMCI_STRUCTURE_SYMV, MMC_SYMMETRIC | MMC_HERMITIAN, false, true},
    [MMCI_PIECE_SYMM] = {MMCI_STRUCTURE_SYMM, MMC_SYMMETRIC | MMC_HERMITIAN, false, false},
    [MMCI_PIECE_SYRK] = {MMCI_STRUCTURE_SYRK, 0, false, false},
    [MMCI_PIECE_TRMM] = {MMCI_STRUCTURE_TRMM, MMC_LOWER, false, false},
    [MMCI_PIECE_TRTRMM] = {MMCI_STRUCTURE_TRTRMM, MMC_LOWER, false, false},
    [MMCI_PIECE_TRSM] = {MMCI_STRUCTURE_TRSM, MMC_LOWER, false, false},
    [MMCI_PIECE_POTRF] = {MMCI_STRUCTURE_POSV, MMC_POSITIVE_DEFINITE | MMC_HERMITIAN, false, true},
    [MMCI_PIECE_GETRF] = {MMCI_STRUCTURE_GESV, 0, false, true},
    [MMCI_PIECE_SYTRF] = {MMCI_STRUCTURE_SYSV, MMC_SYMMETRIC | MMC_HERMITIAN, false, true},
    [MMCI_PIECE_SYTRS] = {MMCI_STRUCTURE_SYSV, MMC_SYMMETRIC | MMC_HERMITIAN, false, false},
    [MMCI_PIECE_TRTRI] = {MMCI_STRUCTURE_GEMM, MMC_LOWER, true, false},
    [MMCI_PIECE_POTRI] = {MMCI_STRUCTURE_GEMM, MMC_POSITIVE_DEFINITE | MMC_HERMITIAN, true, false},
    [MMCI_PIECE_GETRI] = {MMCI_STRUCTURE_GEMM, 0, true, false},
    [MMCI_PIECE_SYTRI] = {MMCI_STRUCTURE_GEMM, MMC_SYMMETRIC | MMC_HERMITIAN, true, false},
};

/* Three matrices on a device: Z, S and B, and where a pivot goes. */
typedef struct bench {
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_queue *queue;
  mmc_dtype dtype;
  void *room, *pivot;
  void *matrices[3];
} bench;

/* ---- matrices -------------------------------------------------------------------------------- */

/* Writes the identity with small elements everywhere, which is symmetric, definite and nearly its
 * own inverse and its own factors, so that kernels may work on what they left again and again. */
static void write_matrix(mmc_dtype dtype, int64_t side, char *out) {
  const size_t size = mmc_dtype_size(dtype);
  const bool single = dtype == MMC_F32 || dtype == MMC_C64;
  memset(out, 0, (size_t)(side * side) * size);
  for (int64_t c = 0; c < side; c++)
    for (int64_t r = 0; r < side; r++) {
      const double value = r == c ? 1 : (double)((r ^ c) % 7 - 3) / (64 * (double)side);
      const float narrow = (float)value;
      memcpy(out + (size_t)(c * side + r) * size,
             single ? (const void *)&narrow : (const void *)&value,
             single ? sizeof narrow : sizeof value);
    }
}

static mmc_status fill(const bench *b, int64_t side, mmci_error *error) {
  const int64_t bytes = side * side * (int64_t)mmc_dtype_size(b->dtype);
  if (b->ops->async == NULL) {
    for (int i = 0; i < 3; i++) write_matrix(b->dtype, side, b->matrices[i]);
    return MMC_OK;
  }
  void *host;
  mmc_status status = b->ops->async->alloc_pinned(b->device, (size_t)bytes, &host, error);
  if (status != MMC_OK) return status;
  write_matrix(b->dtype, side, host);
  for (int i = 0; i < 3 && status == MMC_OK; i++) {
    const mmci_transfer transfer = {.to = b->matrices[i],
                                    .from = host,
                                    .to_pitch = bytes,
                                    .from_pitch = bytes,
                                    .lines = 1,
                                    .line_bytes = bytes};
    status = b->ops->async->upload(b->queue, &transfer, error);
  }
  if (status == MMC_OK) status = b->ops->sync(b->queue, error);
  b->ops->async->dealloc_pinned(b->device, host);
  return status;
}

/* ---- times ----------------------------------------------------------------------------------- */

/* What is run: a product with structure, or GEMM; kernel and gemm are NULL where nothing was
 * prepared. */
typedef struct task {
  mmci_structured product;
  mmci_structured_kernel *kernel;
  mmci_kernel *gemm;
  int runs;       /* in a sample */
  double least_s; /* of a run, of all samples */
} task;

static mmc_status run_once(const bench *b, const task *t, mmci_error *error) {
  void *z = b->matrices[0], *s = t->product.inverts ? z : b->matrices[1];
  if (t->gemm != NULL) return b->ops->enqueue(b->queue, t->gemm, s, b->matrices[2], z, error);
  if (t->kernel != NULL)
    return b->ops->structured_enqueue(b->queue, t->kernel, z, s, b->matrices[2], b->pivot, NULL,
                                      error);
  int64_t pivot;
  return b->ops->structured(b->device, &t->product, z, s, &pivot, error);
}

static mmc_status run_sample(const bench *b, task *t, mmci_error *error) {
  const double begin_s = mmci_now_s();
  mmc_status status = MMC_OK;
  for (int r = 0; r < t->runs && status == MMC_OK; r++) status = run_once(b, t, error);
  if (status == MMC_OK) status = b->ops->sync(b->queue, error);
  const double seconds = (mmci_now_s() - begin_s) / t->runs;
  if (status == MMC_OK) t->least_s = fmin(t->least_s, seconds);
  return status;
}

/* Finds the least seconds of both, which take turns, so that what else the machine does hits both
 * alike. */
static mmc_status run_in_turns(const bench *b, task *t, task *gemm, mmci_error *error) {
  task *const both[] = {gemm, t};
  mmc_status status = MMC_OK;
  for (int sample = 0; sample <= SAMPLES && status == MMC_OK; sample++)
    for (int i = 0; i < 2 && status == MMC_OK; i++) {
      status = run_sample(b, both[i], error);
      if (sample > 0 || status != MMC_OK) continue; /* the first says how many runs take so long */
      const double runs = sample_s / fmax(both[i]->least_s, 1e-9);
      both[i]->runs = runs < 1 ? 1 : runs > MOST_RUNS ? MOST_RUNS : (int)runs;
      both[i]->least_s = (double)INFINITY;
    }
  return status;
}

static mmci_structured product_of(const timed *what, const bench *b, int64_t side) {
  const bool is_complex = mmci_dtype_is_complex(b->dtype);
  return (mmci_structured){.kernel = what->kernel,
                           .dtype = b->dtype,
                           .rows = side,
                           .cols = what->one_column ? 1 : side,
                           .depth = side,
                           .ldz = side,
                           .lds = side,
                           .inverts = what->inverts,
                           .op = MMC_OP_N,
                           .traits = mmci_traits_close(what->traits, is_complex) &
                                     (is_complex ? ~(uint32_t)MMC_SYMMETRIC : UINT32_MAX),
                           .hermitian = is_complex,
                           .b = b->matrices[2],
                           .ldb = side,
                           .b_op = MMC_OP_N,
                           .b_band = {side - 1, 0}};
}

static bool is_there(const bench *b, const timed *what) {
  const mmci_structured ask = {.kernel = what->kernel, .dtype = b->dtype, .inverts = what->inverts};
  mmci_error ignored;
  const uint32_t lacks =
      b->ops->structured_lacks != NULL ? b->ops->structured_lacks(b->device, b->dtype) : 0;
  return (lacks >> what->kernel & 1) == 0 &&
         b->ops->structured_check(b->device, &ask, &ignored) == MMC_OK;
}

/* Times a piece, and GEMM beside it. */
static mmc_status time_piece(const bench *b, const timed *what, int64_t side, double *seconds,
                             double *gemm_s, mmci_error *error) {
  const mmci_gemm like =
      mmci_gemm_tight(b->dtype, MMCI_NATIVE, side, side,
                      what->kernel == MMCI_STRUCTURE_SYMV ? 1 : side, MMC_OP_N, MMC_OP_N);
  task gemm = {.runs = 1, .least_s = (double)INFINITY},
       piece = {.product = product_of(what, b, side), .runs = 1, .least_s = (double)INFINITY};
  mmc_status status = fill(b, side, error);
  if (status == MMC_OK) status = b->ops->prepare(b->device, &like, &gemm.gemm, error);
  if (status == MMC_OK && b->ops->structured_prepare != NULL)
    status = b->ops->structured_prepare(b->device, &piece.product, &piece.kernel, error);
  if (status == MMC_OK) status = run_in_turns(b, &piece, &gemm, error);
  if (piece.kernel != NULL) b->ops->structured_release(piece.kernel);
  if (gemm.gemm != NULL) b->ops->release(gemm.gemm);
  *seconds = piece.least_s;
  *gemm_s = gemm.least_s;
  return status;
}

/* Times all pieces of one side, as shares; NaN for those that are not there. */
static mmc_status time_side(mmci_tuner *tuner, const bench *b, int64_t side,
                            double shares[MMCI_STRUCTURE_PIECES], mmci_error *error) {
  double factors = 0;
  mmc_status status = MMC_OK;
  for (int p = 0; p < MMCI_STRUCTURE_PIECES; p++) shares[p] = (double)NAN;
  for (int p = 0; p < MMCI_STRUCTURE_PIECES && status == MMC_OK; p++) {
    double seconds, gemm_s;
    if (!is_there(b, &pieces[p])) continue;
    if (mmci_tuner_spent(tuner))
      return mmci_fail(error, MMC_E_INTERRUPTED, "tuning: the budget is spent");
    status = time_piece(b, &pieces[p], side, &seconds, &gemm_s, error);
    if (status != MMC_OK) break;
    shares[p] = seconds / gemm_s;
    if (p == MMCI_PIECE_SYTRF) factors = shares[p];
    if (p == MMCI_PIECE_SYTRS) shares[p] = fmax(shares[p] - factors, least_share);
  }
  return status;
}

/* ---- shares ---------------------------------------------------------------------------------- */

mmci_structure_share mmci_fit_share(int count, const int64_t *sides, const double *shares) {
  /* Divided by the share, (large + small / side) / share is to be 1. */
  double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
  for (int i = 0; i < count; i++) {
    const double a = 1 / shares[i], b = a / (double)sides[i];
    aa += a * a, ab += a * b, bb += b * b, a1 += a, b1 += b;
  }
  if (count == 0) return (mmci_structure_share){(double)NAN, (double)NAN};
  const double determinant = aa * bb - ab * ab;
  mmci_structure_share fit = {a1 / aa, 0};
  if (count > 1 && determinant > 0)
    fit = (mmci_structure_share){(a1 * bb - b1 * ab) / determinant,
                                 (b1 * aa - a1 * ab) / determinant};
  /* Three quarters of what the largest took are taken to be left of larger ones, at least. */
  const double most = shares[count - 1] * 0.75;
  if (fit.large < most) fit = (mmci_structure_share){most, (b1 - most * ab) / bb};
  if (fit.small < 0) fit = (mmci_structure_share){a1 / aa, 0};
  return fit;
}

static mmc_status open_bench(bench *b, int64_t side, mmci_error *error) {
  const size_t bytes = ((size_t)(side * side) * mmc_dtype_size(b->dtype) + 255) & ~(size_t)255;
  mmc_status status = b->ops->queue_open(b->device, &b->queue, error);
  if (status == MMC_OK) status = b->ops->alloc(b->device, 3 * bytes + 256, &b->room, error);
  if (status != MMC_OK) return status;
  for (int i = 0; i < 3; i++) b->matrices[i] = (char *)b->room + (size_t)i * bytes;
  b->pivot = (char *)b->room + 3 * bytes;
  return MMC_OK;
}

static void close_bench(bench *b) {
  if (b->room != NULL) b->ops->dealloc(b->device, b->room);
  if (b->queue != NULL) b->ops->queue_close(b->queue);
}

mmc_status mmci_calibrate_structure(mmci_tuner *tuner, const mmci_device_ops *ops,
                                    mmci_device *device, mmc_dtype dtype,
                                    mmci_structure_share out[MMCI_STRUCTURE_PIECES],
                                    mmci_error *error) {
  const int64_t *sides = ops->async != NULL ? device_sides : host_sides;
  double shares[SIDES][MMCI_STRUCTURE_PIECES];
  bench b = {.ops = ops, .device = device, .dtype = dtype};
  int count = 0;
  mmc_status status = open_bench(&b, sides[SIDES - 1], error);
  for (; count < SIDES && status == MMC_OK; count++) {
    const mmci_gemm gemm = mmci_gemm_tight(dtype, MMCI_NATIVE, sides[count], sides[count],
                                           sides[count], MMC_OP_N, MMC_OP_N);
    const mmci_recipe plain = mmci_recipe_whole(0);
    mmci_measured measured;
    mmci_tuner_reached(tuner, "kernels with structure", count, SIDES);
    status = mmci_tuner_ask(tuner, MMCI_ASK_TIME, &gemm, &plain, &measured, error);
    if (status != MMC_OK || (count > 0 && !(measured.seconds.value <= longest_s))) break;
    status = time_side(tuner, &b, sides[count], shares[count], error);
  }
  close_bench(&b);
  for (int p = 0; p < MMCI_STRUCTURE_PIECES && status == MMC_OK; p++) {
    double known[SIDES];
    for (int i = 0; i < count; i++) known[i] = shares[i][p];
    out[p] = mmci_fit_share(count > 0 && known[0] > 0 ? count : 0, sides, known);
  }
  return status;
}
