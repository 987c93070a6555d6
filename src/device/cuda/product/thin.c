/* thin.c: see thin.h. Its numbers are of 6775 products of up to 200,000 elements and 8192 terms,
 * whatever their ops, of 900 more with vectors of up to 5000 elements, and of 3790 batches of 2 to
 * 60,000 products of up to 128 x 128 elements and 3000 terms, on an H200 beside cuBLAS 13.1. */
#include "device/cuda/product/thin.h"

#include <math.h>

#include "device/cuda/element_bytes.h"

enum { FEW_TILES = 16 };

/* Products of more than over terms and up to most are thin, if they have no more tiles than tiles,
 * and all of them no more terms than work; those of up to FEW_TILES have more than over_few. Such a
 * product takes launch + round (terms of a thread) + load (terms of all tiles) + tile (tiles)
 * microseconds. */
typedef struct shape {
  double over, over_few, most, tiles, work;
  double launch, round, load, tile;
} shape;

/* A vector's matrix may have its lines along k, or across. */
typedef struct thin {
  shape matrix, across, along;
  double most_of_one; /* terms of a product of one element */
  double over_words;  /* over, of matrices whose lines are multiples of 16 bytes */
  /* Matrices of more rows than slow_rows are slow by cuBLAS, whatever their terms; 0 for none. Of
   * c128 it has one kernel for up to 16 rows and 39 terms, which takes 1.4 to 3.3 us; others it
   * splits along their terms into as many parts as multiprocessors are free, however few terms
   * there are, and takes 2.9 to 25 us where thin.cu takes 1.9 to 5.4: of 6858 products of up to 128
   * columns, with any ops, one was not faster by thin.cu, and it was 4.6 times as fast in the
   * geomean. Wider ones it does not split; up to work_of_wide terms thin.cu is 1.2 times as fast.
   */
  double slow_rows, slow_cols, work_of_wide;
} thin;

static const thin THIN[] = {
    [MMC_F32] = {{0, 0, 4096, 1024, 256e3, 1.51, 0.395, 9.79e-6, 2.93e-4},
                 {0, 0, 1024, 1024, 64e3, 1.64, 0.0954, 2.07e-5, 3.51e-4},
                 {0, 0, 4096, 1024, 600e3, 1.9, 0.2, 5e-7, 0},
                 8192,
                 0,
                 0,
                 0,
                 0},
    [MMC_F64] = {{1, 1, 4096, 1024, 34e3, 1.42, 0.48, 2.03e-5, 1.42e-4},
                 {0, 0, 1024, 1024, 64e3, 1.68, 0.106, 1.99e-5, 9.22e-5},
                 {0, 0, 3000, 1200, 650e3, 2, 0.2, 2e-6, 0},
                 8192,
                 0,
                 0,
                 0,
                 0},
    [MMC_C64] = {{1, 1, 8192, 1400, 90e3, 1.25, 0.711, 2.25e-5, 4.65e-4},
                 {0, 0, 512, 1024, 64e3, 1.75, 0.117, 2.45e-5, 2.7e-4},
                 {0, 0, 1600, 1024, 650e3, 2, 0.25, 2e-6, 0},
                 8192,
                 0,
                 0,
                 0,
                 0},
    [MMC_C128] = {{39, 39, 4096, 1024, 64e3, 0, 1.61, 3.97e-5, 0},
                  {0, 0, 512, 1024, 64e3, 1.63, 0.272, 2.47e-5, 2e-4},
                  {0, 0, 4096, 1024, 400e3, 1.6, 0.6, 1e-6, 0},
                  4096,
                  0,
                  16,
                  128,
                  16e3},
    [MMC_F16] = {{128, 128, 4096, 1024, 60e3, 1.53, 0.436, 1.26e-5, 3.06e-4},
                 {8, 8, 600, 1024, 30e3, 2.2, 0.15, 1e-5, 0},
                 {0, 0, 0, 0, 0, 1.68, 0.16, 3.07e-4, 0},
                 2048,
                 1024,
                 0,
                 0,
                 0},
    [MMC_BF16] = {{0, 0, 4096, 1024, 60e3, 1.52, 0.453, 1.25e-5, 3.41e-4},
                  {8, 8, 600, 1024, 30e3, 2.2, 0.15, 1e-5, 0},
                  {0, 0, 0, 0, 0, 1.66, 0.175, 2.87e-4, 0},
                  2048,
                  1024,
                  0,
                  0,
                  0},
};

static const thin *thin_of(mmc_dtype dtype) {
  return (size_t)dtype < sizeof THIN / sizeof *THIN && THIN[dtype].most_of_one > 0 ? &THIN[dtype]
                                                                                   : NULL;
}

static double tiles_of(const mmci_gemm *gemm) {
  return (double)mmci_thin_tiles(gemm->m) * (double)mmci_thin_tiles(gemm->n);
}

static bool has_whole_words(const mmci_gemm *gemm) {
  enum { WORD_BYTES = 16 };
  const int64_t lines = gemm->a.ld | gemm->b.ld | gemm->ldc;
  return lines * (int64_t)mmci_cuda_element_bytes(gemm->dtype) % WORD_BYTES == 0;
}

static const shape *shape_of(const thin *x, const mmci_gemm *gemm) {
  if (gemm->m != 1 && gemm->n != 1) return &x->matrix;
  return mmci_gemm_sums_lines(gemm) ? &x->along : &x->across;
}

bool mmci_thin_pays(const mmci_gemm *gemm) {
  const thin *x = thin_of(gemm->dtype);
  const double k = (double)gemm->k, tiles = tiles_of(gemm);
  if (x == NULL) return false;
  if (gemm->m == 1 && gemm->n == 1) return k <= x->most_of_one;
  const shape *s = shape_of(x, gemm);
  const bool is_slow = x->slow_rows > 0 && (double)gemm->m > x->slow_rows && gemm->n > 1,
             is_wide = is_slow && (double)gemm->n > x->slow_cols;
  const double over = is_slow ? 1 : tiles <= FEW_TILES ? s->over_few : s->over;
  return k > (has_whole_words(gemm) ? fmax(over, x->over_words) : over) && k <= s->most &&
         tiles <= s->tiles && tiles * k <= (is_wide ? x->work_of_wide : s->work);
}

double mmci_thin_us(const mmci_gemm *gemm) {
  const thin *x = thin_of(gemm->dtype);
  if (x == NULL) return (double)NAN;
  const shape *s = shape_of(x, gemm);
  const double k = (double)gemm->k, tiles = tiles_of(gemm);
  const double threads = MMCI_THIN_WARP * (double)mmci_thin_warps(gemm->k, (int64_t)tiles);
  return s->launch + s->round * ceil(k / threads) + s->load * tiles * k + s->tile * tiles;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* A block of a batch takes launch + the cube root of the sum of cubes of round (terms of a thread)
 * and of what keeps the device busy: warp (warps) + block (blocks) + term (terms of blocks) + step
 * (terms of warps), or the bytes, in microseconds. */
typedef struct batch_shape {
  double launch, round, warp, block, term, step;
} batch_shape;

typedef struct batch_thin {
  batch_shape matrix, vector;
} batch_thin;

static const batch_thin BATCHES[] = {
    [MMC_F32] = {{1.71, 0.0992, 3.3e-4, 1.39e-4, 4.03e-7, 1.42e-4},
                 {1.49, 0.207, 3.15e-4, 3.08e-4, 0, 0}},
    [MMC_F64] = {{1.76, 0.11, 2.55e-4, 1.46e-4, 1.24e-6, 2.12e-4},
                 {1.57, 0.111, 2.93e-4, 3.26e-4, 0, 0}},
    [MMC_C64] = {{1.7, 0.238, 4.55e-4, 1.03e-4, 2.95e-6, 2.58e-4},
                 {1.58, 0.226, 5.44e-4, 0, 7.83e-7, 8.63e-5}},
    [MMC_C128] = {{1.66, 0.402, 4.37e-4, 0, 8.96e-6, 4.38e-4},
                  {1.73, 0, 2.77e-4, 1.95e-4, 5.04e-6, 1.37e-4}},
    [MMC_F16] = {{1.74, 0.176, 2.99e-4, 1.17e-4, 3.85e-7, 2e-4},
                 {1.64, 0.207, 1.6e-4, 3.82e-4, 0, 7.8e-5}},
    [MMC_BF16] = {{1.74, 0.187, 2.9e-4, 1.28e-4, 2.42e-7, 1.99e-4},
                  {1.7, 0.148, 1.32e-4, 3.93e-4, 0, 9.03e-5}},
};

/* Says whether a vector is multiplied by a matrix whose lines lie across its sums, of which there
 * are more than a few, or more than a sector of the caches: such batches take 1.5 to 3 times what
 * the others do. */
static bool is_wide_across(const mmci_gemm *gemm) {
  enum { FEW_SUMS = 12, SECTOR_BYTES = 32 };
  const int64_t sums = gemm->m * gemm->n;
  return (gemm->m == 1 || gemm->n == 1) &&
         (sums > FEW_SUMS || sums * (int64_t)mmci_cuda_element_bytes(gemm->dtype) > SECTOR_BYTES) &&
         !mmci_gemm_sums_lines(gemm);
}

/* Says whether the threads of a warp read lines that are a multiple of 256 bytes apart, a few
 * elements of each: they meet in few sets of the caches. Of 149 such batches half took 1.3 times
 * what is counted, and one in ten 1.75 times; of the others 1.14 and 1.25. */
static bool has_crowded_lines(const mmci_gemm *gemm) {
  enum { CROWDED_BYTES = 256 };
  const int64_t bytes = (int64_t)mmci_cuda_element_bytes(gemm->dtype);
  const bool a = gemm->a.trans && gemm->m > MMCI_THIN_SIDE,
             b = !gemm->b.trans && gemm->n > MMCI_THIN_SIDE;
  return (a && gemm->a.ld * bytes % CROWDED_BYTES == 0) ||
         (b && gemm->b.ld * bytes % CROWDED_BYTES == 0);
}

double mmci_thin_batch_us(const mmci_gemm *gemm) {
  enum { MOST_SIDE = 128, MOST_TERMS = 3000, MOST_BATCH = 65535 };
  static const double MOST_WORK = 2e7, BYTES_PER_US = 4e6, CROWDED = 1.35;
  const bool is_known = (size_t)gemm->dtype < sizeof BATCHES / sizeof *BATCHES &&
                        gemm->m <= MOST_SIDE && gemm->n <= MOST_SIDE && gemm->k <= MOST_TERMS &&
                        gemm->batch <= MOST_BATCH && !is_wide_across(gemm);
  const double k = (double)gemm->k, batch = (double)gemm->batch, blocks = tiles_of(gemm) * batch;
  if (!is_known || blocks * k > MOST_WORK) return (double)NAN;
  const batch_shape *s =
      gemm->m == 1 || gemm->n == 1 ? &BATCHES[gemm->dtype].vector : &BATCHES[gemm->dtype].matrix;
  const double warps = (double)mmci_thin_warps(gemm->k, (int64_t)blocks),
               rounds = ceil(k / (MMCI_THIN_WARP * warps)),
               elements =
                   (double)gemm->m * k + k * (double)gemm->n + (double)gemm->m * (double)gemm->n,
               bytes = elements * batch * (double)mmci_cuda_element_bytes(gemm->dtype),
               busy = fmax(s->warp * blocks * warps + s->block * blocks + s->term * blocks * k +
                               s->step * blocks * rounds * warps,
                           bytes / BYTES_PER_US),
               alone = s->round * rounds;
  return s->launch +
         (has_crowded_lines(gemm) ? CROWDED : 1) * cbrt(alone * alone * alone + busy * busy * busy);
}
