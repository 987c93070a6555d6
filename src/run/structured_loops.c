#include "run/structured_loops.h"

#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"

/* ---- elements ---------------------------------------------------------------------------------
 */

/* x[i] += d[i * step] * y[i] */
#define ADD_REAL(name, type)                                                                \
  static void name(type *restrict x, const type *restrict y, int64_t length, const type *d, \
                   int64_t step) {                                                          \
    const type one = *d;                                                                    \
    if (step == 0)                                                                          \
      for (int64_t i = 0; i < length; i++) x[i] += one * y[i];                              \
    else                                                                                    \
      for (int64_t i = 0; i < length; i++) x[i] += d[i] * y[i];                             \
  }
#define ADD_COMPLEX(name, type)                                                             \
  static void name(type *restrict x, const type *restrict y, int64_t length, const type *d, \
                   int64_t step) {                                                          \
    for (int64_t i = 0; i < length; i++) {                                                  \
      const type re = d[2 * i * step], im = d[2 * i * step + 1];                            \
      const type yr = y[2 * i], yi = y[2 * i + 1];                                          \
      x[2 * i] += yr * re - yi * im;                                                        \
      x[2 * i + 1] += yr * im + yi * re;                                                    \
    }                                                                                       \
  }
ADD_REAL(add_f32, float)
ADD_REAL(add_f64, double)
ADD_COMPLEX(add_c64, float)
ADD_COMPLEX(add_c128, double)

/* Adds length elements of y, each by its number, which lie side by side, or all by one where step
 * is 0. */
static void add_line(mmc_dtype dtype, void *x, const void *y, int64_t length, const void *d,
                     int64_t step) {
  if (length <= 0) return;
  if (dtype == MMC_F32) add_f32(x, y, length, d, step);
  if (dtype == MMC_F64) add_f64(x, y, length, d, step);
  if (dtype == MMC_C64) add_c64(x, y, length, d, step);
  if (dtype == MMC_C128) add_c128(x, y, length, d, step);
}

/* x[i] := a[0] y[i] + a[1] y[i + ld] + a[2] y[i + 2 ld] + a[3] y[i + 3 ld], or x[i] += that. */
#define ADD_FOUR(name, type)                                                                     \
  static void name(type *restrict x, const type *restrict y, int64_t ld, int64_t length,         \
                   const type *a, bool adds) {                                                   \
    const type *y1 = y + ld, *y2 = y1 + ld, *y3 = y2 + ld;                                       \
    const type p = a[0], q = a[1], r = a[2], s = a[3];                                           \
    if (adds)                                                                                    \
      for (int64_t i = 0; i < length; i++) x[i] += p * y[i] + q * y1[i] + r * y2[i] + s * y3[i]; \
    else                                                                                         \
      for (int64_t i = 0; i < length; i++) x[i] = p * y[i] + q * y1[i] + r * y2[i] + s * y3[i];  \
  }
ADD_FOUR(add_four_f32, float)
ADD_FOUR(add_four_f64, double)

/* Does the same of three lines, and writes. */
#define WRITE_THREE(name, type)                                                          \
  static void name(type *restrict x, const type *restrict y, int64_t ld, int64_t length, \
                   const type *a) {                                                      \
    const type *y1 = y + ld, *y2 = y1 + ld;                                              \
    const type p = a[0], q = a[1], r = a[2];                                             \
    for (int64_t i = 0; i < length; i++) x[i] = p * y[i] + q * y1[i] + r * y2[i];        \
  }
WRITE_THREE(write_three_f32, float)
WRITE_THREE(write_three_f64, double)

/* Copies the band of M: its element (i, i + d) to i * row + (d + below) * diagonal. */
#define PACK(name, type, parts)                                                                    \
  static void name(const mmci_line_matrix *m, type *out, int64_t row, int64_t diagonal) {          \
    const int64_t n = m->side, below = m->band.below, above = m->band.above;                       \
    for (int64_t i = 0; i < n; i++)                                                                \
      for (int64_t j = mmci_larger(0, i - below); j <= mmci_smaller(n - 1, i + above); j++) {      \
        const type *at = (const type *)m->data + (parts) * (i * m->row_step + j * m->column_step); \
        type *to = out + (parts) * (i * row + (j - i + below) * diagonal);                         \
        to[0] = at[0];                                                                             \
        if ((parts) == 2) to[(parts)-1] = m->conj ? -at[(parts)-1] : at[(parts)-1];                \
      }                                                                                            \
  }
PACK(pack_f32, float, 1)
PACK(pack_f64, double, 1)
PACK(pack_c64, float, 2)
PACK(pack_c128, double, 2)

static void pack(mmc_dtype dtype, const mmci_line_matrix *m, void *out, int64_t row,
                 int64_t diagonal) {
  if (dtype == MMC_F32) pack_f32(m, out, row, diagonal);
  if (dtype == MMC_F64) pack_f64(m, out, row, diagonal);
  if (dtype == MMC_C64) pack_c64(m, out, row, diagonal);
  if (dtype == MMC_C128) pack_c128(m, out, row, diagonal);
}

/* ---- bands ------------------------------------------------------------------------------------
 */

/* What is multiplied, and where the band is copied to. */
typedef struct banding {
  mmc_dtype dtype;
  int64_t size; /* bytes of an element */
  const mmci_line_matrix *m;
  const mmci_lines *x;
  char *packed;
} banding;

/* Begins a piece of a line of C with what several lines of B make of it, all of which are there;
 * they lie ld elements apart. Returns how many it took. */
static int64_t begin_piece(mmc_dtype dtype, void *c, const void *b, int64_t ld, int64_t length,
                           const char *row, int64_t count) {
  int64_t taken = 0;
  if (dtype != MMC_F32 && dtype != MMC_F64) return 0;
  if (count == 3) {
    if (dtype == MMC_F32) write_three_f32(c, b, ld, length, (const void *)row);
    if (dtype == MMC_F64) write_three_f64(c, b, ld, length, (const void *)row);
    return count;
  }
  for (; taken + 4 <= count; taken += 4) {
    if (dtype == MMC_F32)
      add_four_f32(c, (const float *)b + taken * ld, ld, length,
                   (const float *)(const void *)row + taken, taken > 0);
    if (dtype == MMC_F64)
      add_four_f64(c, (const double *)b + taken * ld, ld, length,
                   (const double *)(const void *)row + taken, taken > 0);
  }
  return taken;
}

/* Writes elements begin to end - 1 of line i of C, of what row i of M makes of lines of B. */
static void mix_piece(const banding *r, int64_t i, int64_t begin, int64_t end) {
  const mmci_line_matrix *m = r->m;
  const mmci_lines *x = r->x;
  const int64_t first = mmci_larger(0, i - m->band.below),
                last = mmci_smaller(m->side - 1, i + m->band.above);
  const int64_t width = m->band.below + m->band.above + 1;
  const char *row = r->packed + (i * width + first - i + m->band.below) * r->size;
  const char *b = (const char *)x->b + (first * x->ldb + begin) * r->size;
  char *c = (char *)x->c + (i * x->ldc + begin) * r->size;
  int64_t taken = 0;
  if (last - x->b_band.below <= begin && first + x->b_band.above >= end - 1)
    taken = begin_piece(r->dtype, c, b, x->ldb, end - begin, row, last - first + 1);
  if (taken == 0) memset(c, 0, (size_t)((end - begin) * r->size));
  for (int64_t j = first + taken; j <= last; j++) {
    const int64_t from = mmci_larger(begin, j - x->b_band.below),
                  to = mmci_smaller(end, j + x->b_band.above + 1), t = j - first;
    if (from < to)
      add_line(r->dtype, c + (from - begin) * r->size, b + (t * x->ldb + from - begin) * r->size,
               to - from, row + t * r->size, 0);
  }
}

/* Lines of C are sums of lines of B: pieces of lines, which stay in the cache, one after the other.
 */
static void mix_lines(const banding *r) {
  enum { PIECE = 1024 };
  pack(r->dtype, r->m, r->packed, r->m->band.below + r->m->band.above + 1, 1);
  for (int64_t begin = 0; begin < r->x->length; begin += PIECE)
    for (int64_t i = 0; i < r->m->side; i++)
      mix_piece(r, i, begin, mmci_smaller(r->x->length, begin + PIECE));
}

/* Each line of C is M times that of B. */
static void multiply_lines(const banding *r) {
  const mmci_line_matrix *m = r->m;
  const mmci_lines *x = r->x;
  pack(r->dtype, m, r->packed, 1, m->side);
  for (int64_t l = 0; l < x->count; l++) {
    char *c = (char *)x->c + l * x->ldc * r->size;
    const char *b = (const char *)x->b + l * x->ldb * r->size;
    memset(c, 0, (size_t)(m->side * r->size));
    for (int64_t d = -m->band.below; d <= m->band.above; d++) {
      /* Element i + d of the line of B lies in the band of B. */
      const int64_t from = mmci_larger(mmci_larger(0, -d), l - x->b_band.below - d),
                    to = mmci_smaller(mmci_smaller(m->side, m->side - d),
                                      l + x->b_band.above + 1 - d);
      const char *diagonal = r->packed + (d + m->band.below) * m->side * r->size;
      if (from < to)
        add_line(r->dtype, c + from * r->size, b + (from + d) * r->size, to - from,
                 diagonal + from * r->size, 1);
    }
  }
}

void mmci_band_lines(mmc_dtype dtype, const mmci_line_matrix *m, const mmci_lines *lines,
                     void *scratch) {
  const banding r = {dtype, (int64_t)mmc_dtype_size(dtype), m, lines, scratch};
  if (m->side == 0 || lines->count == 0 || lines->length == 0) return;
  (lines->along ? multiply_lines : mix_lines)(&r);
}

/* ---- transposing ------------------------------------------------------------------------------
 */

void mmci_transpose_square(mmc_dtype dtype, void *z, int64_t n, int64_t ld) {
  enum { SQUARE = 32 };
  const size_t size = mmc_dtype_size(dtype);
  char *data = z, one[16], other[16];
  for (int64_t c0 = 0; c0 < n; c0 += SQUARE)
    for (int64_t r0 = c0; r0 < n; r0 += SQUARE)
      for (int64_t c = c0; c < mmci_smaller(n, c0 + SQUARE); c++)
        for (int64_t r = mmci_larger(r0, c); r < mmci_smaller(n, r0 + SQUARE); r++) {
          char *x = data + (size_t)(r * ld + c) * size, *y = data + (size_t)(c * ld + r) * size;
          memcpy(one, x, size);
          memcpy(other, y, size);
          mmci_element_conjugate(dtype, one);
          mmci_element_conjugate(dtype, other);
          memcpy(x, other, size);
          memcpy(y, one, size);
        }
}

/* ---- permutations -----------------------------------------------------------------------------
 */

/* Returns where the first number is that is not zero; length when there is none. */
#define FIND(name, type)                                                \
  static int64_t name(const type *x, int64_t length, int64_t step) {    \
    enum { PIECE = 16 };                                                \
    int64_t i = 0;                                                      \
    for (bool any = false; step == 1 && i + PIECE <= length && !any;) { \
      int found = 0;                                                    \
      for (int t = 0; t < PIECE; t++) found |= x[i + t] != 0;           \
      any = found != 0;                                                 \
      if (!any) i += PIECE;                                             \
    }                                                                   \
    while (i < length && x[i * step] == 0) i++;                         \
    return i;                                                           \
  }
FIND(find_single, float)
FIND(find_double, double)

/* Finds, for every row of M, where its 1 is; -1 for a row that has nothing but zeros. It reads M as
 * that lies in memory. */
static void find_ones(mmc_dtype dtype, const mmci_line_matrix *m, int64_t *index) {
  const int64_t n = m->side, step = mmci_dtype_is_complex(dtype) ? 2 : 1;
  const bool by_rows = m->column_step == 1;
  for (int64_t i = 0; i < n; i++) index[i] = -1;
  for (int64_t l = 0; l < n; l++) {
    const int64_t begin = l * step * (by_rows ? m->row_step : m->column_step);
    const int64_t t = dtype == MMC_F32 || dtype == MMC_C64
                          ? find_single((const float *)m->data + begin, n, step)
                          : find_double((const double *)m->data + begin, n, step);
    if (t < n) index[by_rows ? l : t] = by_rows ? t : l;
  }
}

static double number_at(mmc_dtype dtype, const void *data, int64_t i) {
  const int64_t at = mmci_dtype_is_complex(dtype) ? 2 * i : i;
  return dtype == MMC_F32 || dtype == MMC_C64 ? (double)((const float *)data)[at]
                                              : ((const double *)data)[at];
}

/* Does the same where M is given by its index. A number that is none of a row stands for zeros. */
static void read_index(mmc_dtype dtype, const mmci_line_matrix *m, int64_t *index) {
  for (int64_t i = 0; i < m->side && m->turned; i++) index[i] = -1;
  for (int64_t i = 0; i < m->side; i++) {
    const double number = number_at(dtype, m->data, i * m->index_step);
    const int64_t at = number >= 0 && number < (double)m->side ? (int64_t)number : -1;
    if (!m->turned)
      index[i] = at;
    else if (at >= 0)
      index[at] = i;
  }
}

void mmci_permute_lines(mmc_dtype dtype, const mmci_line_matrix *m, const mmci_lines *lines,
                        int64_t *index) {
  const size_t size = mmc_dtype_size(dtype);
  if (m->side == 0 || lines->count == 0 || lines->length == 0) return;
  if (m->index_step > 0)
    read_index(dtype, m, index);
  else
    find_ones(dtype, m, index);
  for (int64_t l = 0; l < lines->count; l++) {
    char *c = (char *)lines->c + (size_t)(l * lines->ldc) * size;
    const int64_t from = lines->along ? l : index[l];
    const char *b = (const char *)lines->b + (size_t)(mmci_larger(from, 0) * lines->ldb) * size;
    if (!lines->along) {
      if (from < 0)
        memset(c, 0, (size_t)lines->length * size);
      else
        memcpy(c, b, (size_t)lines->length * size);
      continue;
    }
    memset(c, 0, (size_t)lines->length * size);
    for (int64_t i = 0; i < lines->length; i++)
      if (index[i] >= 0) memcpy(c + (size_t)i * size, b + (size_t)index[i] * size, size);
  }
}
