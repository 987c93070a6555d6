/* vectors.c: see vectors.h. */
#include "device/cuda/product/vectors.h"

#include <math.h>

#include "device/cuda/element_bytes.h"

enum {
  THREADS = MMCI_VECTORS_THREADS,
  WARP = 32,
  TERMS_OF_LANE = 4,  /* terms of a line that a lane has, where lanes are not all there are */
  LINE_BYTES = 128,   /* what threads of a product read together, at least */
  ACROSS_MOST = 128,  /* threads side by side */
  WIDE = 64,          /* sums from which on a thread may have several */
  TERMS_LEAST = 8,    /* terms of a thread, before more threads share a sum */
  ENOUGH = 132 * 1024 /* threads that keep a card busy */
};

/* Says whether the terms of a sum are less than 2^31 elements apart. */
static bool is_near(const mmci_form *form, int64_t terms) {
  return form->ld <= INT32_MAX / terms;
}

bool mmci_vectors_supports(const mmci_gemm *gemm) {
  const bool is_vector = gemm->m == 1 || gemm->n == 1;
  if ((unsigned)gemm->dtype > MMC_C128 || !is_vector || gemm->m < 1 || gemm->k < 1 || gemm->n < 1)
    return false;
  if (gemm->accumulate || gemm->a.gathered || gemm->b.gathered) return false;
  const int64_t batch = gemm->batch > 1 ? gemm->batch : 1;
  return batch <= INT32_MAX && gemm->m * gemm->n <= INT32_MAX / batch &&
         is_near(&gemm->a, gemm->k) && is_near(&gemm->b, gemm->k);
}

/* Along lines, lanes that share a sum read neighbours. */
static void share_along(mmci_vectors_cut *x, int bytes) {
  const int64_t all = x->outs * x->products, each = mmci_vectors_each(bytes);
  x->lanes = 1;
  while (x->lanes < WARP && x->lanes * TERMS_OF_LANE < x->terms) x->lanes *= 2;
  x->each = (int32_t)(all * x->lanes >= ENOUGH * each ? each : 1);
  const int64_t sums = THREADS / x->lanes * x->each;
  x->blocks = (all + sums - 1) / sums;
}

/* Across lines, threads that share a sum read every so-manieth line: so many that together they
 * read whole lines of memory, and more where a card is not busy. */
static void share_across(mmci_vectors_cut *x, int bytes) {
  x->each = x->outs >= WIDE && x->outs * x->products >= ENOUGH ? mmci_vectors_each(bytes) : 1;
  const int64_t needed = (x->outs + x->each - 1) / x->each,
                tiles = (needed + ACROSS_MOST - 1) / ACROSS_MOST;
  x->across = (int32_t)((needed + tiles - 1) / tiles);
  const int64_t threads = needed * x->products, deep = (x->terms + TERMS_LEAST - 1) / TERMS_LEAST,
                whole = (LINE_BYTES + x->across * bytes - 1) / (x->across * bytes);
  int64_t shares = (ENOUGH + threads - 1) / threads;
  if (shares > deep) shares = deep;
  if (shares < whole) shares = whole;
  if (shares > x->terms) shares = x->terms;
  if (shares > THREADS / x->across) shares = THREADS / x->across;
  x->shares = (int32_t)shares;
  const int64_t together = THREADS / (x->across * shares);
  x->blocks = (x->products + together - 1) / together * tiles;
}

mmci_vectors_cut mmci_vectors_cut_of(const mmci_gemm *gemm) {
  const bool left = gemm->n == 1;
  const mmci_form *matrix = left ? &gemm->a : &gemm->b, *vector = left ? &gemm->b : &gemm->a;
  const bool along = matrix->trans != left, only = gemm->m == 1 && gemm->n == 1;
  mmci_vectors_cut x = {.outs = left ? gemm->m : gemm->n,
                        .terms = gemm->k,
                        .products = gemm->batch > 1 ? gemm->batch : 1,
                        .ld = matrix->ld,
                        .step = 1,
                        .x_step = vector->trans != left ? vector->ld : 1,
                        .y_step = left ? gemm->ldc : 1,
                        .stride = matrix->stride,
                        .x_stride = vector->stride,
                        .y_stride = gemm->c_stride,
                        .matrix_is_left = left,
                        .along = along || only,
                        .conj = matrix->conj,
                        .x_conj = vector->conj};
  if (only && !along) x.step = matrix->ld; /* the terms of the one sum lie across */
  const int bytes = (int)mmci_cuda_element_bytes(gemm->dtype);
  if (x.along)
    share_along(&x, bytes);
  else
    share_across(&x, bytes);
  return x;
}

/* A thread reads up to 64 bytes of its sums together, and what is left four terms at a time. */
static double rounds_of(const mmci_vectors_cut *x, int bytes) {
  enum { FEW = 4, TOGETHER = 64 };
  const int64_t most = TOGETHER / bytes / x->each, many = most > FEW ? most : FEW,
                threads = x->along ? x->lanes : x->shares,
                terms = (x->terms + threads - 1) / threads,
                rounds = terms / many + (terms % many + FEW - 1) / FEW;
  return (double)rounds;
}

/* A batch takes launch + the cube root of the sum of cubes of what one sum waits for, round (reads
 * one after the other) + share (threads whose parts are added up), and of what keeps the device
 * busy: element (elements of the matrix) + sum (sums) + block (blocks), or the bytes of all
 * matrices, in microseconds. Fitted to 5337 batches on an H200, of which nine of ten take 0.8
 * to 1.4 of that. */
typedef struct shape {
  double launch, round, share, element, sum, block, bytes_per_us;
} shape;

static const shape ALONG[] = {[MMC_F32] = {1, 0.578, 0, 1.56e-6, 7.39e-7, 1.55e-3, 4e6},
                              [MMC_F64] = {1, 0.515, 0, 2.51e-6, 0, 1.14e-3, 3.32e6},
                              [MMC_C64] = {1, 0.666, 0, 2.49e-6, 0, 1.56e-3, 3.02e6},
                              [MMC_C128] = {1.12, 0.586, 0, 3.01e-7, 1e-6, 1e-4, 3e6}},
                   ACROSS[] = {[MMC_F32] = {1.19, 0.433, 0.006, 9.88e-7, 1.19e-7, 1.97e-3, 3.23e6},
                               [MMC_F64] = {1.19, 0.504, 0.0524, 1.5e-6, 0, 1.6e-3, 3.63e6},
                               [MMC_C64] = {1.17, 0.585, 0.0407, 1.4e-6, 0, 2.2e-3, 3.54e6},
                               [MMC_C128] = {1.22, 0.793, 0.0304, 0, 0, 1e-4, 3e6}};

double mmci_vectors_us(const mmci_gemm *gemm) {
  if (!mmci_vectors_supports(gemm)) return (double)NAN;
  const mmci_vectors_cut x = mmci_vectors_cut_of(gemm);
  const shape *s = x.along ? &ALONG[gemm->dtype] : &ACROSS[gemm->dtype];
  const int bytes = (int)mmci_cuda_element_bytes(gemm->dtype);
  const double sums = (double)x.outs * (double)x.products, elements = sums * (double)x.terms,
               alone = s->round * rounds_of(&x, bytes) + s->share * (x.along ? 0 : x.shares - 1),
               busy = fmax(s->element * elements + s->sum * sums + s->block * (double)x.blocks,
                           elements * bytes / s->bytes_per_us);
  return s->launch + cbrt(alone * alone * alone + busy * busy * busy);
}
