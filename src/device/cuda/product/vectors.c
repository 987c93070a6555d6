/* vectors.c: see vectors.h. */
#include "device/cuda/product/vectors.h"

#include <math.h>

#include "base/sizes.h"
#include "device/cuda/element_bytes.h"

enum {
  THREADS = MMCI_VECTORS_THREADS,
  WARP = 32,
  WORD_BYTES = 16,
  LINE_BYTES = 128, /* what threads of a product read together, at least */
  SECTOR_BYTES = 32,
  ACROSS_MOST = 128, /* threads side by side */
  MULTIPROCESSORS = 132,
  BLOCKS_LEAST = 8 * MULTIPROCESSORS, /* blocks, before tiles are narrower than they could be */
  ENOUGH = 1024 * MULTIPROCESSORS     /* threads that keep a card busy */
};

/* Says whether the terms of a sum are less than 2^32 bytes apart. */
static bool is_near(const mmci_gemm *gemm, const mmci_form *form) {
  return form->ld <= UINT32_MAX / (int64_t)mmci_cuda_element_bytes(gemm->dtype) / gemm->k;
}

bool mmci_vectors_supports(const mmci_gemm *gemm) {
  const bool is_vector = gemm->m == 1 || gemm->n == 1;
  if ((unsigned)gemm->dtype > MMC_BF16 || !is_vector || gemm->m < 1 || gemm->k < 1 || gemm->n < 1)
    return false;
  if (gemm->accumulate || gemm->a.gathered || gemm->b.gathered) return false;
  const int64_t batch = gemm->batch > 1 ? gemm->batch : 1;
  return batch <= INT32_MAX && gemm->m * gemm->n <= INT32_MAX / batch && is_near(gemm, &gemm->a) &&
         is_near(gemm, &gemm->b);
}

/* Along lines, so many lanes share a sum that its terms are read together, and more of them where
 * the card would not be busy: a warp's, and then those of a block as far as they find terms. */
static void share_along(mmci_vectors_cut *x, int bytes) {
  const int64_t all = x->outs * x->products, words = x->terms / x->word,
                many = mmci_vectors_many(x->word * bytes);
  int64_t lanes = 1;
  while (lanes < WARP && lanes * many < words) lanes *= 2;
  while (lanes < WARP && lanes < words && 2 * lanes * all <= ENOUGH) lanes *= 2;
  while (lanes < THREADS && lanes * many < words && 2 * lanes * all <= ENOUGH) lanes *= 2;
  x->lanes = (int32_t)lanes;
  x->blocks = mmci_quotient_up(all, THREADS / lanes);
}

/* Across lines, threads that share a sum read every so-manieth line: so many that together they
 * read whole lines of memory, and more where the card is not busy. Tiles are narrower where there
 * are few blocks, so that more threads can share a sum: down to a line of memory, and where most
 * multiprocessors would have nothing to do, to a sector. */
static void share_across(mmci_vectors_cut *x, int bytes) {
  const int64_t words = x->outs / x->word, line = LINE_BYTES / (x->word * bytes),
                sector = mmci_larger(1, SECTOR_BYTES / (x->word * bytes)),
                rounds = mmci_quotient_up(x->terms, mmci_vectors_many(x->word * bytes));
  int64_t width = mmci_smaller(ACROSS_MOST, words);
  while (width > sector && THREADS / width < rounds) {
    const int64_t shares = mmci_larger(1, mmci_smaller(rounds, THREADS / width)),
                  together = THREADS / (width * shares),
                  blocks = mmci_quotient_up(x->products, together) * mmci_quotient_up(words, width);
    if (blocks >= (width > line ? BLOCKS_LEAST : MULTIPROCESSORS)) break;
    width = mmci_larger(width > line ? line : sector, width / 2);
  }
  const int64_t tiles = mmci_quotient_up(words, width);
  x->across = (int32_t)mmci_quotient_up(words, tiles);
  const int64_t threads = x->across * tiles * x->products,
                whole = mmci_quotient_up(line, x->across);
  int64_t shares = mmci_larger(mmci_smaller(mmci_quotient_up(ENOUGH, threads), rounds), whole);
  shares = mmci_smaller(mmci_smaller(shares, x->terms), THREADS / x->across);
  x->shares = (int32_t)shares;
  x->blocks = mmci_quotient_up(x->products, THREADS / (x->across * shares)) * tiles;
}

/* Returns so many elements, a power of 2, that they are at most 16 bytes and divide lines, what is
 * between them, and addresses; along, those of the vector too. */
static int32_t word_of(const mmci_vectors_cut *x, int bytes, const void *matrix,
                       const void *vector) {
  const int64_t line = x->along ? x->terms : x->outs, lines = x->along ? x->outs : x->terms;
  int64_t multiple = line | (lines > 1 ? x->ld : 0) | (x->products > 1 ? x->stride : 0);
  uintptr_t address = (uintptr_t)matrix;
  bool has_words = x->step == 1;
  if (x->along) {
    multiple |= x->products > 1 ? x->x_stride : 0;
    address |= (uintptr_t)vector;
    has_words = has_words && x->x_step == 1;
  }
  int32_t word = has_words ? WORD_BYTES / bytes : 1;
  while (word > 1 && (multiple % word != 0 || address % (uintptr_t)(word * bytes) != 0)) word /= 2;
  return word;
}

mmci_vectors_cut mmci_vectors_cut_of(const mmci_gemm *gemm, const void *a, const void *b) {
  const bool left = gemm->n == 1;
  const mmci_form *matrix = left ? &gemm->a : &gemm->b, *vector = left ? &gemm->b : &gemm->a;
  const bool along = mmci_gemm_sums_lines(gemm), only = gemm->m == 1 && gemm->n == 1;
  mmci_vectors_cut x = {.outs = left ? gemm->m : gemm->n,
                        .terms = gemm->k,
                        .products = gemm->batch > 1 ? gemm->batch : 1,
                        .ld = matrix->ld,
                        .step = only && !along ? matrix->ld : 1,
                        .x_step = vector->trans != left ? vector->ld : 1,
                        .y_step = left ? gemm->ldc : 1,
                        .stride = matrix->stride,
                        .x_stride = vector->stride,
                        .y_stride = gemm->c_stride,
                        .matrix_is_left = left,
                        .along = along || only,
                        .conj = matrix->conj,
                        .x_conj = vector->conj};
  const int bytes = (int)mmci_cuda_element_bytes(gemm->dtype);
  x.word = word_of(&x, bytes, left ? a : b, left ? b : a);
  if (x.along)
    share_along(&x, bytes);
  else
    share_across(&x, bytes);
  return x;
}

/* What a batch is made of, as it takes time. */
typedef struct counts {
  double rounds;   /* times that a thread waits for memory, one after the other */
  double halvings; /* of the threads that share a sum, until one is left */
  double words, elements, blocks;
  double bytes; /* that come from memory: of all matrices, or of one that all share and what else
                   there is */
} counts;

static bool is_shared(const mmci_vectors_cut *x) {
  return x->stride == 0 && x->products > 1;
}

static counts counts_of(const mmci_vectors_cut *x, int bytes) {
  const int64_t many = mmci_vectors_many(x->word * bytes),
                words = x->along ? x->terms / x->word : x->terms,
                threads = x->along ? x->lanes : x->shares, each = mmci_quotient_up(words, threads);
  const double outs = (double)x->outs, terms = (double)x->terms, products = (double)x->products,
               elements = outs * terms * products;
  return (counts){
      .rounds = (double)mmci_quotient_up(each, many),
      .halvings = ceil(log2((double)threads)),
      .words = elements / x->word,
      .elements = elements,
      .blocks = (double)x->blocks,
      .bytes = bytes * (is_shared(x) ? outs * terms + (outs + terms) * products : elements)};
}

/* A batch takes launch + the cube root of the sum of cubes of what one sum waits for, round times
 * rounds and halving times halvings, and of what keeps the device busy: word times words, element
 * times elements and block times blocks, or the bytes that come from memory; in microseconds.
 * Fitted to 7589 batches on an H200, of which nine of ten take 0.8 to 1.25 of that. */
typedef struct shape {
  double launch, round, halving, word, element, block, bytes_per_us;
} shape;

static const shape SHAPES[][2] = {
    /* across, and along */
    [MMC_F32] = {{1.32, 0.0687, 0.139, 4.3e-7, 3.66e-7, 0.00168, 3.82e6},
                 {1.25, 0.01, 0.0405, 5.98e-7, 3.18e-7, 0.0013, 4.33e6}},
    [MMC_F64] = {{1.38, 0.0112, 0.122, 0, 9.47e-7, 0.00155, 3.95e6},
                 {1.25, 0.0186, 0.0492, 4.47e-7, 7.08e-7, 0.00123, 4.22e6}},
    [MMC_C64] = {{1.12, 0.315, 0.143, 0, 1.35e-6, 0.00163, 3.94e6},
                 {1.32, 0.0532, 0.0465, 4.91e-7, 7.1e-7, 0.00145, 4.21e6}},
    [MMC_C128] = {{1.19, 0.326, 0.117, 1.78e-6, 1.78e-6, 0.0013, 3.82e6},
                  {1.03, 0.203, 0.0724, 1.28e-6, 1.28e-6, 0.00186, 3.75e6}},
    [MMC_F16] = {{1.39, 0.01, 0.123, 3.73e-7, 3.96e-7, 0.00175, 3.83e6},
                 {1.24, 0.01, 0.0442, 7.79e-7, 1.62e-7, 0.00119, 4.26e6}},
    [MMC_BF16] = {{1.46, 0.0208, 0.111, 2.75e-7, 4.52e-7, 0.00174, 3.85e6},
                  {1.28, 0.01, 0.042, 7.64e-7, 2.38e-7, 0.00116, 4.52e6}},
};

/* The share of what words and elements take that is left where all products read one matrix that
 * stays in the first cache: of 5950 batches with one matrix on an H200 nine of ten take 0.75 to 1.3
 * of what is predicted then. */
static const double SHARED[][2] = {
    [MMC_F32] = {0.6, 0.7},  [MMC_F64] = {0.6, 0.7},   [MMC_C64] = {0.45, 0.7},
    [MMC_C128] = {0.4, 0.5}, [MMC_F16] = {0.75, 0.95}, [MMC_BF16] = {0.8, 0.8},
};

static double share_of_reading(const mmci_vectors_cut *x, mmc_dtype dtype) {
  enum { FIRST_CACHE = 1 << 16 }; /* bytes */
  const int64_t bytes = x->outs * x->terms * (int64_t)mmci_cuda_element_bytes(dtype);
  return is_shared(x) && bytes <= FIRST_CACHE ? SHARED[dtype][x->along] : 1;
}

double mmci_vectors_us(const mmci_gemm *gemm) {
  if (!mmci_vectors_supports(gemm)) return (double)NAN;
  const mmci_vectors_cut x = mmci_vectors_cut_of(gemm, NULL, NULL);
  const int bytes = (int)mmci_cuda_element_bytes(gemm->dtype);
  const shape *s = &SHAPES[gemm->dtype][x.along];
  const counts c = counts_of(&x, bytes);
  const double read = share_of_reading(&x, gemm->dtype),
               alone = s->round * c.rounds + s->halving * c.halvings,
               busy =
                   fmax(read * (s->word * c.words + s->element * c.elements) + s->block * c.blocks,
                        c.bytes / s->bytes_per_us);
  return s->launch + cbrt(alone * alone * alone + busy * busy * busy);
}
