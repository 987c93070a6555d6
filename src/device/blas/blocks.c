#include "device/blas/blocks.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/sizes.h"
#include "device/blas/workers.h"

/* A panel of A, of so many rows and bytes in a row, stays in the second level of a cache while it
 * is multiplied by the blocks of B, each of so many bytes in a row. The blocks of B that are packed
 * at once stay in the third. */
enum { HIGH = 48, WIDE_BYTES = 1024, DEEP_BYTES = 2048, PACKED_BYTES = 4 << 20, LINE = 64 };

/* Where it pays: writing the code takes as long as a product of some so many multiplications. */
enum { ENOUGH = 1 << 22, NARROW = 256, SHALLOW = 512 };

bool mmci_blocks_can(const mmci_gemm *gemm) {
  mmci_gemm packed = *gemm;
  packed.a.trans = packed.b.trans = false;
  return mmci_xsmm_can(&packed);
}

bool mmci_blocks_pays(const mmci_gemm *gemm, bool blas_is_old) {
  if (!mmci_blocks_can(gemm) || mmci_gemm_mkn(gemm) < ENOUGH) return false;
  if (gemm->m < 8 || gemm->n < 8 || gemm->k < 8) return false;
  return blas_is_old || (gemm->n <= NARROW && gemm->k <= SHALLOW && gemm->m >= 4 * (int64_t)HIGH);
}

int64_t mmci_blocks_panels(const mmci_gemm *gemm) {
  return (gemm->m + HIGH - 1) / HIGH;
}

/* Cuts size into the fewest parts of at most `most`, as even as multiples of `step` allow, and
 * returns the size of all but the last. */
static int64_t even_part(int64_t size, int64_t most, int64_t step) {
  const int64_t parts = (size + most - 1) / most;
  const int64_t part = ((size + parts - 1) / parts + step - 1) / step * step;
  return part < size ? part : size;
}

bool mmci_blocks_make(const mmci_gemm *gemm, int threads, mmci_blocks *out) {
  const int64_t size = (int64_t)mmc_dtype_size(gemm->dtype);
  mmci_blocks x = {.gemm = *gemm,
                   .deep = even_part(gemm->k, DEEP_BYTES / size, 8),
                   .wide = even_part(gemm->n, WIDE_BYTES / size, LINE / size),
                   .threads = threads};
  const int64_t high = gemm->m < HIGH ? gemm->m : HIGH;
  const int64_t rows[2] = {high, gemm->m % high};
  const int64_t cols[2] = {x.wide, gemm->n % x.wide};
  const int64_t terms[2] = {x.deep, gemm->k % x.deep};
  for (int r = 0; r < 2; r++)
    for (int c = 0; c < 2; c++)
      for (int t = 0; t < 2; t++)
        for (int later = 0; later < 2; later++) {
          const bool is_there = rows[r] > 0 && cols[c] > 0 && terms[t] > 0;
          /* The first block along k is a whole one. */
          const bool is_met = later == 0 ? t == 0 : t == 1 || gemm->k >= 2 * x.deep;
          if (!is_there || !is_met) continue;
          const mmci_gemm block = {.dtype = gemm->dtype,
                                   .m = rows[r],
                                   .k = terms[t],
                                   .n = cols[c],
                                   .a = {.ld = terms[t]},
                                   .b = {.ld = cols[c]},
                                   .ldc = gemm->ldc,
                                   .accumulate = later != 0 || gemm->accumulate};
          x.code[r][c][t][later] = mmci_xsmm_can(&block) ? mmci_xsmm_code(&block) : NULL;
          if (x.code[r][c][t][later] == NULL) return false;
        }
  *out = x;
  return true;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Copies rows x cols elements out of an operand, from (row, col) on, to rows that follow each
 * other. A transposed one is read along its lines, a few of them at a time. */
#define PACK(name, type)                                                              \
  static void name(const mmci_form *form, const void *from, int64_t row, int64_t col, \
                   int64_t rows, int64_t cols, void *to) {                            \
    enum { TILE = 16 };                                                               \
    type *y = to;                                                                     \
    if (!form->trans) {                                                               \
      const type *x = (const type *)from + row * form->ld + col;                      \
      for (int64_t r = 0; r < rows; r++)                                              \
        memcpy(y + r * cols, x + r * form->ld, (size_t)cols * sizeof(type));          \
      return;                                                                         \
    }                                                                                 \
    const type *x = (const type *)from + col * form->ld + row;                        \
    for (int64_t r0 = 0; r0 < rows; r0 += TILE)                                       \
      for (int64_t c = 0; c < cols; c++)                                              \
        for (int64_t r = r0; r < rows && r < r0 + TILE; r++)                          \
          y[r * cols + c] = x[c * form->ld + r];                                      \
  }
PACK(pack_f32, float)
PACK(pack_f64, double)

static void pack(const mmci_gemm *gemm, const mmci_form *form, const void *from, int64_t row,
                 int64_t col, int64_t rows, int64_t cols, void *to) {
  if (gemm->dtype == MMC_F32)
    pack_f32(form, from, row, col, rows, cols, to);
  else
    pack_f64(form, from, row, col, rows, cols, to);
}

/* ---- multiplying ----------------------------------------------------------------------------- */

static size_t in_lines(int64_t elements, size_t size) {
  return ((size_t)elements * size + LINE - 1) / LINE * LINE;
}

/* The panels of A times what is packed of B: columns first_col on, terms first_term on. */
typedef struct pass {
  const mmci_blocks *blocks;
  const void *a;
  char *c, *packed, *rooms; /* a room for a panel of A for each thread */
  size_t size, panel_bytes, block_bytes;
  int64_t first_col, cols, first_term, terms;
  atomic_bool stopped;
} pass;

static void multiply_panel(void *user, int worker, int64_t panel) {
  pass *p = user;
  const mmci_blocks *x = p->blocks;
  const mmci_gemm *gemm = &x->gemm;
  /* The caller is worker 0, whose work can be stopped. */
  if (worker == 0 && mmci_interrupted()) atomic_store(&p->stopped, true);
  if (atomic_load_explicit(&p->stopped, memory_order_relaxed)) return;
  const int64_t first = panel * HIGH, left = gemm->m - first, rows = left < HIGH ? left : HIGH;
  const bool is_low = gemm->m > HIGH && rows < HIGH;
  char *a = p->rooms + (size_t)worker * p->panel_bytes;
  pack(gemm, &gemm->a, p->a, first, p->first_term, rows, p->terms, a);
  for (int64_t col = 0; col < p->cols; col += x->wide) {
    const bool is_thin = p->cols - col < x->wide, is_shallow = p->terms < x->deep;
    const char *b = p->packed + (size_t)(col / x->wide) * p->block_bytes;
    char *c = p->c + (size_t)(first * gemm->ldc + p->first_col + col) * p->size;
    x->code[is_low][is_thin][is_shallow][p->first_term > 0](b, a, c);
  }
  mmci_xsmm_leave();
}

/* Makes room for the panels of all threads, and for so many blocks of B. */
static mmc_status provide(mmci_blocks_room *room, size_t bytes, mmci_error *error) {
  if (bytes <= room->bytes) return MMC_OK;
  free(room->memory);
  *room = (mmci_blocks_room){.memory = mmci_alloc_aligned(bytes, 1)};
  if (room->memory == NULL) return mmci_fail_nomem(error, bytes);
  room->bytes = bytes;
  return MMC_OK;
}

mmc_status mmci_blocks_multiply(const mmci_blocks *x, const void *a, const void *b, void *c,
                                mmci_blocks_room *room, mmci_error *error) {
  const mmci_gemm *gemm = &x->gemm;
  const size_t size = mmc_dtype_size(gemm->dtype);
  pass p = {.blocks = x,
            .a = a,
            .c = c,
            .size = size,
            .panel_bytes = in_lines(HIGH * x->deep, size),
            .block_bytes = in_lines(x->deep * x->wide, size)};
  int64_t at_once = PACKED_BYTES / (int64_t)p.block_bytes;
  if (at_once < 1) at_once = 1;
  at_once = mmci_smaller(at_once, (gemm->n + x->wide - 1) / x->wide);
  const size_t rooms = p.panel_bytes * (size_t)x->threads;
  mmc_status status = provide(room, rooms + p.block_bytes * (size_t)at_once, error);
  if (status != MMC_OK) return status;
  p.rooms = room->memory;
  p.packed = room->memory + rooms;
  const int64_t most_cols = at_once * x->wide, panels = mmci_blocks_panels(gemm);
  for (p.first_col = 0; p.first_col < gemm->n; p.first_col += most_cols) {
    p.cols = mmci_smaller(most_cols, gemm->n - p.first_col);
    for (p.first_term = 0; p.first_term < gemm->k; p.first_term += x->deep) {
      p.terms = mmci_smaller(x->deep, gemm->k - p.first_term);
      for (int64_t col = 0; col < p.cols; col += x->wide)
        pack(gemm, &gemm->b, b, p.first_term, p.first_col + col, p.terms,
             mmci_smaller(x->wide, p.cols - col),
             p.packed + (size_t)(col / x->wide) * p.block_bytes);
      mmci_share(x->threads, panels, multiply_panel, &p);
      if (atomic_load(&p.stopped))
        return mmci_fail(error, MMC_E_INTERRUPTED, "stopped within a product");
    }
  }
  return MMC_OK;
}
