/* better.c: see better.h. Times are microseconds, rates are per microsecond. */
#include "device/cuda/better.h"

#include <math.h>
#include <string.h>

#include "device/cuda/element_bytes.h"

enum {
  LINE_BYTES = 16,
  SHAPES = 6,       /* shapes of large_tile.h in FP32 */
  STEP = 32,        /* terms that large_tile takes at a time */
  LEAST_SHARE = 4,  /* steps of a worker that shares a tile */
  CLUSTER = 2,      /* multiprocessors that work on a tile of large_tile */
  TENSOR_TILE = 128 /* rows and columns of the tiles by which aligned products are predicted */
};

/* The plain call of a product takes at least launch + flops / rate. */
typedef struct bound {
  double launch, rate;
} bound;

/* A product all of whose lines are multiples of 16 bytes takes launch + waves (k + terms) term +
 * bytes / rate, with waves of 128 x 128 tiles over the multiprocessors, and its flops / most at
 * least; most_across is that where both operands lie across what tensor cores of TF32 read. */
typedef struct aligned {
  double launch, terms, term, rate, most, most_across;
} aligned;

/* TF32 whose lines are multiples of four bytes takes launch + k term + flops / rate (1 + half_mn/m)
 * (1 + half_mn/n) (1 + half_k/k). */
typedef struct pieces {
  double launch, term, rate, half_mn, half_k;
} pieces;

/* What was measured on a kind of GPU. */
typedef struct kind {
  const char *name;
  bound odd, even; /* f16 and bf16 whose lines are multiples of two bytes and of four bytes */
  bound tf32;      /* TF32 whose lines are multiples of four bytes */
  bound f32;       /* FP32 in whatever form */
  pieces tf32_pieces;
  double tf32_error; /* relative error of nine of ten predictions of TF32 */
  aligned half, single;
  double copy, copy_rate; /* a copy of an operand takes so long, and moves so many bytes */
  struct {
    double step[SHAPES]; /* of each shape */
    double tile;         /* a tile of 49152 elements that is written */
    double copy, copy_rate, slot_rate;
  } large;
} kind;

/* The bounds are below the fastest of 1750 products of 16-bit types and TF32, and of 129 of FP32
 * with six shapes of large_tile each, on one H200 with cuBLAS 13.1. */
static const kind KINDS[] = {
    {.name = "NVIDIA H200",
     .odd = {4, 1.4e8},
     .even = {4, 2.45e8},
     .tf32 = {4, 1.32e8},
     .f32 = {0, 5.3e7},
     .tf32_pieces = {6, 2e-3, 1.1e8, 64, 128},
     .tf32_error = 0.45,
     .half = {2.71, 382, 1.126e-3, 2.086e6, 7.5e8, 7.5e8},
     .single = {4.04, 144, 1.553e-3, 1.343e6, 3.6e8, 2.5e8},
     .copy = 1.9,
     .copy_rate = 2.5e6,
     .large = {.step = {7.32, 7.4, 5.23, 2.93, 7.41, 7.35},
               .tile = 4.72,
               .copy = 12.4,
               .copy_rate = 2.94e6,
               .slot_rate = 2.74e6}},
};

/* Recipes must be predicted to take so much less than the bound: nine of ten predictions of padded
 * products are within a quarter, of large tiles within 4 %, most of it by clocks that fall for the
 * plain call too. */
static const double PAD_GAIN = 1.1, LARGE_GAIN = 1.02;

/* Rows and columns of a cluster's tile, by shape. */
static const int TILE[SHAPES][2] = {{256, 384}, {384, 256}, {256, 256},
                                    {128, 256}, {512, 192}, {192, 512}};

static double quotient_up(double x, double y) {
  return ceil(x / y);
}

/* ---- padded ---------------------------------------------------------------------------------- */

/* Returns the bits of the leading dimensions, of which the low ones tell what all are multiples
 * of. */
static int64_t lines_of(const mmci_gemm *gemm) {
  return gemm->a.ld | gemm->b.ld | gemm->ldc;
}

static double aligned_us(const kind *x, int multiprocessors, const mmci_gemm *padded) {
  const bool is_half = mmci_cuda_element_bytes(padded->dtype) == 2;
  const aligned *a = is_half ? &x->half : &x->single;
  const double waves = fmax(quotient_up((double)padded->m, TENSOR_TILE) *
                                quotient_up((double)padded->n, TENSOR_TILE) / multiprocessors,
                            1);
  const double product_us = waves * ((double)padded->k + a->terms) * a->term +
                            mmci_gemm_bytes(padded) / a->rate,
               most = padded->a.trans && !padded->b.trans ? a->most_across : a->most;
  return a->launch + fmax(product_us, mmci_gemm_flops(padded) / most);
}

static double padded_us(const kind *x, int multiprocessors, const mmci_gemm *gemm,
                        const mmci_gemm *padded) {
  const double size = (double)mmci_cuda_element_bytes(gemm->dtype);
  const bool m = padded->m != gemm->m, k = padded->k != gemm->k, n = padded->n != gemm->n,
             copies_a = m || k || padded->a.ld != gemm->a.ld,
             copies_b = k || n || padded->b.ld != gemm->b.ld,
             copies_c = m || n || padded->ldc != gemm->ldc;
  const double copied = copies_a * (double)gemm->m * (double)gemm->k +
                        copies_b * (double)gemm->k * (double)gemm->n +
                        copies_c * (double)gemm->m * (double)gemm->n;
  return aligned_us(x, multiprocessors, padded) + (copies_a + copies_b + copies_c) * x->copy +
         2 * copied * size / x->copy_rate;
}

static bool find_padded(const kind *x, int multiprocessors, const mmci_gemm *gemm, double least_us,
                        mmci_better *out) {
  const int64_t size = (int64_t)mmci_cuda_element_bytes(gemm->dtype), lines = lines_of(gemm) * size;
  const int pad = LINE_BYTES / (int)size;
  if (lines % LINE_BYTES == 0) return false;
  const bound *b = size == 4 ? &x->tf32 : lines % 4 != 0 ? &x->odd : &x->even;
  const double bound_us = fmax(b->launch + mmci_gemm_flops(gemm) / b->rate, least_us);
  const mmci_gemm padded = mmci_gemm_padded(pad, gemm);
  const double us = padded_us(x, multiprocessors, gemm, &padded);
  if (us * PAD_GAIN >= bound_us) return false;
  *out = (mmci_better){.pad = pad, .seconds = us * 1e-6, .plain_s = bound_us * 1e-6};
  return true;
}

/* ---- large tiles ----------------------------------------------------------------------------- */

/* Returns the microseconds of copying an operand that does not lie as large_tile reads it. */
static double copy_us(const kind *x, int64_t lines, int64_t length, const mmci_form *form,
                      bool lies_so) {
  if (lies_so && form->ld % (LINE_BYTES / 4) == 0) return 0;
  return x->large.copy + 2 * (double)lines * (double)length * 4 / x->large.copy_rate;
}

static double large_us(const kind *x, int multiprocessors, const mmci_gemm *gemm, int shape) {
  const double rows = TILE[shape][0], cols = TILE[shape][1],
               workers = floor((double)multiprocessors / CLUSTER),
               tiles = quotient_up((double)gemm->m, rows) * quotient_up((double)gemm->n, cols),
               steps = quotient_up((double)gemm->k, STEP), rounds = floor(tiles / workers),
               left = tiles - rounds * workers, elements = rows * cols / CLUSTER;
  const double sharers = fmin(fmax(floor(left * steps / LEAST_SHARE), left), workers),
               shared = left > 0 ? left * steps / sharers : 0;
  double us = x->large.step[shape] * (rounds * steps + shared) +
              x->large.tile * (rounds + (left > 0)) * elements / 49152;
  if (sharers > left) us += x->large.copy + sharers * elements * CLUSTER * 8 / x->large.slot_rate;
  return us + copy_us(x, gemm->k, gemm->m, &gemm->a, gemm->a.trans) +
         copy_us(x, gemm->k, gemm->n, &gemm->b, !gemm->b.trans);
}

static bool find_large(const kind *x, int multiprocessors, int first, const mmci_gemm *gemm,
                       double least_us, mmci_better *out) {
  const double bound_us = fmax(x->f32.launch + mmci_gemm_flops(gemm) / x->f32.rate, least_us);
  /* A cluster has a tile and a half or more to do, and so has each of its steps. */
  if (quotient_up((double)gemm->m, TILE[2][0]) * quotient_up((double)gemm->n, TILE[2][1]) <
      multiprocessors / (double)CLUSTER)
    return false;
  int best = 0;
  double least = INFINITY;
  for (int shape = 0; shape < SHAPES; shape++) {
    const double us = large_us(x, multiprocessors, gemm, shape);
    if (us < least) {
      least = us;
      best = shape;
    }
  }
  if (least * LARGE_GAIN >= bound_us) return false;
  *out =
      (mmci_better){.variant = first + best, .seconds = least * 1e-6, .plain_s = bound_us * 1e-6};
  return true;
}

/* ---- either ---------------------------------------------------------------------------------- */

static const kind *find_kind(const char *name) {
  for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
    if (strncmp(name, KINDS[i].name, strlen(KINDS[i].name)) == 0) return &KINDS[i];
  return NULL;
}

double mmci_cuda_tf32_us(const char *name, int multiprocessors, const mmci_gemm *gemm) {
  const kind *x = find_kind(name);
  if (x == NULL || gemm->batch > 1) return (double)NAN;
  if (lines_of(gemm) % (LINE_BYTES / 4) == 0) return aligned_us(x, multiprocessors, gemm);
  const pieces *p = &x->tf32_pieces;
  const double m = (double)gemm->m, k = (double)gemm->k, n = (double)gemm->n;
  /* Half sizes as summands, so that sizes of 0 take no time. */
  return p->launch + k * p->term +
         2 * (m + p->half_mn) * (n + p->half_mn) * (k + p->half_k) / p->rate;
}

double mmci_cuda_tf32_error(const char *name) {
  const kind *x = find_kind(name);
  return x != NULL ? x->tf32_error : 0;
}

bool mmci_cuda_better(const char *name, int multiprocessors, int first_large_tile,
                      const mmci_gemm *gemm, double least_s, mmci_better *out) {
  const bool fast = gemm->precision == MMCI_FAST, native = gemm->precision == MMCI_NATIVE,
             half = (fast || native) && (gemm->dtype == MMC_F16 || gemm->dtype == MMC_BF16),
             tf32 = fast && gemm->dtype == MMC_F32, f32 = native && gemm->dtype == MMC_F32;
  if ((!half && !tf32 && !f32) || gemm->batch > 1) return false;
  /* What is smaller than this gains nothing in any way. */
  if (mmci_gemm_flops(gemm) < (f32 ? 4e9 : 2e8)) return false;
  const kind *x = find_kind(name);
  if (x == NULL) return false;
  return f32 ? find_large(x, multiprocessors, first_large_tile, gemm, least_s * 1e6, out)
             : find_padded(x, multiprocessors, gemm, least_s * 1e6, out);
}
