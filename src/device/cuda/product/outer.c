/* outer.c: see outer.h. Its numbers are of 2026 products and batches of up to 6e8 elements and 32
 * terms, with and without ops, on an H200 beside cuBLAS 13.1: nine of ten predictions are within
 * 0.77 and 1.25 of what was measured. */
#include "device/cuda/product/outer.h"

#include <math.h>

#include "base/sizes.h"

enum {
  WORD = 8,   /* elements in 16 bytes */
  STRIP = 16, /* rows that a warp multiplies at a time */
  TERMS = 16, /* terms that it multiplies at a time */
  GROUP = 64, /* columns that it multiplies at a time */
};

bool mmci_outer_supports(const mmci_gemm *gemm) {
  enum { MOST_TERMS = 32, MOST_SIDE = 1 << 30 };
  const bool is_plain = gemm->rule.semiring == MMC_PLUS_TIMES && !gemm->accumulate &&
                        !gemm->a.gathered && !gemm->b.gathered && gemm->variant == 0;
  if (!is_plain || (gemm->dtype != MMC_F16 && gemm->dtype != MMC_BF16)) return false;
  if (gemm->k < 1 || gemm->k > MOST_TERMS || gemm->m < 1 || gemm->m > MOST_SIDE || gemm->n < 1 ||
      gemm->n > MOST_SIDE)
    return false;
  const double batch = gemm->batch > 1 ? (double)gemm->batch : 1;
  return (double)mmci_outer_cut_of(gemm).tiles * batch < (double)INT32_MAX;
}

mmci_outer_cut mmci_outer_cut_of(const mmci_gemm *gemm) {
  enum {
    ELEMENTS = 8192,
    MOST_COLS = 128,
    MOST_PACKED = 256,
    MOST_ROWS = 256,
    MOST_BANDS = 4,
    ENOUGH = 264, /* tiles that keep a device busy */
    PLENTY = 2000,
    WARPS = 4,
    WARP = 32
  };
  const int64_t m = gemm->m, n = gemm->n, batch = gemm->batch > 1 ? gemm->batch : 1;
  const bool packed = gemm->ldc == n && n % WORD != 0 && n <= MOST_PACKED;
  const int64_t pieces = packed ? 1 : (n + MOST_COLS - 1) / MOST_COLS,
                cols = packed ? n : mmci_multiple_up((n + pieces - 1) / pieces, WORD),
                across = (n + cols - 1) / cols;
  const uint32_t room = (uint32_t)cols + (gemm->ldc % WORD == 0 ? 0 : WORD);
  const int64_t pitch = packed ? n : mmci_outer_pitch(room);
  int64_t rows = ELEMENTS / cols / STRIP * STRIP, bands = 1;
  if (rows > MOST_ROWS) rows = MOST_ROWS;
  if (rows > mmci_multiple_up(m, STRIP)) rows = mmci_multiple_up(m, STRIP);
  if (rows < STRIP) rows = STRIP;
  while (rows > STRIP && ((m + rows - 1) / rows) * across * batch < ENOUGH)
    rows = mmci_multiple_up(rows / 2, STRIP);
  while (bands < MOST_BANDS && bands * rows < m &&
         (m + 2 * bands * rows - 1) / (2 * bands * rows) * across * batch >= PLENTY)
    bands *= 2;
  const uint32_t terms = gemm->k <= TERMS ? TERMS : 2 * TERMS;
  const int64_t units = rows / STRIP * ((cols + GROUP - 1) / GROUP),
                warps = units < WARPS ? units : WARPS,
                lines = mmci_outer_lines((uint32_t)rows, terms) +
                        mmci_outer_lines((uint32_t)cols, terms);
  return (mmci_outer_cut){.bands = (int32_t)bands,
                          .rows = (int32_t)rows,
                          .cols = (int32_t)cols,
                          .pitch = (int32_t)pitch,
                          .shared_bytes = (int32_t)(2 * (lines + rows * pitch + 2 * WORD)),
                          .threads = (int32_t)(warps * WARP),
                          .tiles = (m + bands * rows - 1) / (bands * rows) * across,
                          .packed = packed};
}

/* Returns by how much less work a line of an operand is that is read several elements at a time. */
static double ease_of(bool terms_follow, int64_t k, int64_t lines) {
  if (!terms_follow) return lines % WORD == 0 ? 0.2 : 1;
  return k % WORD == 0 ? 0.25 : k % 2 == 0 ? 0.6 : 1;
}

static double tiles_of(double length, double side) {
  return ceil(length / side);
}

double mmci_outer_us(const mmci_gemm *gemm) {
  static const double LAUNCH = 2.8, MORE_STEPS = 0.8, BYTES_PER_US = 2.7e6, PROCESSORS = 132;
  if (!mmci_outer_supports(gemm)) return (double)NAN;
  /* What a processor is busy with, in microseconds: tiles, lines of A and of B, strips of rows by
   * groups of columns, and words that are written. */
  static const double TILE = 0.0684, A_LINE = 6.5e-4, B_LINE = 1.13e-3, UNIT = 0.0179,
                      ODD_UNIT = 0.0081, WORD_OUT = 3.2e-4;
  const mmci_outer_cut cut = mmci_outer_cut_of(gemm);
  const double m = (double)gemm->m, k = (double)gemm->k, n = (double)gemm->n,
               batch = gemm->batch > 1 ? (double)gemm->batch : 1, steps = tiles_of(k, TERMS);
  const double across = tiles_of(n, cut.cols), bands = tiles_of(m, cut.rows), rows = m / bands,
               cols = n / across, tiles = (double)cut.tiles * batch,
               all_bands = bands * across * batch;
  const double units =
                   tiles_of(ceil(rows), STRIP) * tiles_of(ceil(cols), GROUP) * (0.5 + steps / 2),
               words = rows * (cols / WORD + (cut.packed || gemm->n % WORD == 0 ? 0 : 1));
  const double a_lines = rows * steps * ease_of(!gemm->a.trans, gemm->k, gemm->m),
               b_lines = cols * steps * ease_of(gemm->b.trans, gemm->k, gemm->n);
  const double busy = (tiles * (TILE + B_LINE * b_lines) +
                       all_bands * (A_LINE * a_lines + WORD_OUT * words +
                                    units * (UNIT + (gemm->n % 2 != 0 ? ODD_UNIT : 0)))) /
                      PROCESSORS,
               moved = mmci_gemm_bytes(gemm) / BYTES_PER_US;
  return LAUNCH + MORE_STEPS * (steps - 1) + cbrt(busy * busy * busy + moved * moved * moved);
}
