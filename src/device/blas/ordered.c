#include "device/blas/ordered.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/interrupt.h"
#include "base/sizes.h"
#include "device/blas/half_loops.h"
#include "device/blas/ordered_dots.h"
#include "device/blas/ordered_tiles.h"
#include "device/blas/vector_loops.h"
#include "device/blas/workers.h"

enum { LINE_BYTES = 64 };

/* Returns where element (r, c) of a matrix lies, in elements: r * down + c * along. */
typedef struct lattice {
  int64_t down, along;
} lattice;

static lattice lattice_of(const mmci_form *form) {
  return form->trans ? (lattice){1, form->ld} : (lattice){form->ld, 1};
}

/* A product as it is computed: C lies anyhow, and may have changed places with its transposed. */
typedef struct work {
  mmc_dtype dtype;
  int64_t m, k, n;
  const char *a, *b;
  char *c;
  lattice of_a, of_b, of_c;
  bool a_conj, b_conj, turned, accumulate, in_pieces;
  mmci_ordered_tile tile;
  size_t element, real;      /* bytes of an element as it lies, and of a real number of the sums */
  int parts;                 /* real numbers of an element: 1 or 2 */
  int64_t rows, cols, depth; /* of a block of C, and of what is packed of k at a time */
} work;

static mmci_ordered_tile tile_of(mmc_dtype dtype) {
  const mmci_ordered_tiles *tiles = mmci_ordered_tiles_here();
  if (mmci_dtype_is_integer(dtype)) return mmc_dtype_size(dtype) == 8 ? tiles->u64 : tiles->u32;
  return dtype == MMC_F64    ? tiles->f64
         : dtype == MMC_C64  ? tiles->c64
         : dtype == MMC_C128 ? tiles->c128
                             : tiles->f32;
}

static int most_cols(const work *x) {
  return x->tile.width * x->tile.vectors;
}

/* Returns how many vectors a tile with so many more columns in its block has. */
static int vectors_of(const work *x, int64_t rest) {
  return (int)mmci_smaller(x->tile.vectors, (rest + x->tile.width - 1) / x->tile.width);
}

/* Lets vectors run along the longer side of C: with few columns, C is computed transposed. */
static void turn(work *x) {
  const work was = *x;
  const lattice transposed[] = {{was.of_b.along, was.of_b.down},
                                {was.of_a.along, was.of_a.down},
                                {was.of_c.along, was.of_c.down}};
  x->m = was.n;
  x->n = was.m;
  x->a = was.b;
  x->b = was.a;
  x->of_a = transposed[0];
  x->of_b = transposed[1];
  x->of_c = transposed[2];
  x->a_conj = was.b_conj;
  x->b_conj = was.a_conj;
  x->turned = !was.turned;
}

/* Returns the length of equal pieces of `all`, none above `most`, in whole tiles. */
static int64_t piece_length(int64_t all, int64_t most, int64_t tile) {
  return mmci_multiple_up(mmci_quotient_up(all, mmci_quotient_up(all, most)), tile);
}

static work work_of(const mmci_gemm *gemm, int64_t rows, int64_t cols, int64_t depth) {
  work x = {.dtype = gemm->dtype,
            .m = gemm->m,
            .k = gemm->k,
            .n = gemm->n,
            .of_a = lattice_of(&gemm->a),
            .of_b = lattice_of(&gemm->b),
            .of_c = {gemm->ldc, 1},
            .turned = gemm->turned,
            .accumulate = gemm->accumulate,
            .in_pieces = gemm->sums == MMCI_SUMS_PIECES,
            .tile = tile_of(gemm->dtype),
            .element = mmc_dtype_size(gemm->dtype),
            .parts = mmci_dtype_is_complex(gemm->dtype) ? 2 : 1};
  x.real = x.element / (size_t)x.parts == sizeof(double) ? sizeof(double) : sizeof(float);
  x.a_conj = x.parts == 2 && gemm->a.conj;
  x.b_conj = x.parts == 2 && gemm->b.conj;
  if (x.n < most_cols(&x) && x.m > x.n) turn(&x);
  x.rows = piece_length(x.m, rows, x.tile.rows);
  x.cols = piece_length(x.n, cols, most_cols(&x));
  x.depth = mmci_smaller(x.k, depth);
  return x;
}

static void place(work *x, const void *a, const void *b, void *c, bool swapped) {
  x->a = swapped ? b : a;
  x->b = swapped ? a : b;
  x->c = c;
}

/* ---- packing --------------------------------------------------------------------------------- */

static size_t aligned(size_t bytes) {
  return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

static size_t a_bytes(const work *x) {
  return aligned((size_t)(x->rows * x->depth * x->parts) * x->real);
}
static size_t b_bytes(const work *x) {
  return aligned((size_t)(x->cols * x->depth * x->parts) * x->real);
}
static size_t sums_bytes(const work *x) {
  return aligned((size_t)(x->rows * x->cols * x->parts) * x->real);
}
/* Of long products a block has the sums of a piece, and those of all before. */
static size_t block_bytes(const work *x) {
  return a_bytes(x) + b_bytes(x) + sums_bytes(x) * (x->in_pieces ? 2 : 1);
}

static float same_f32(float x) {
  return x;
}
static double same_f64(double x) {
  return x;
}
#define WORD(x) ((uint32_t)(x))
#define WIDE_WORD(x) (x)

/* Lines that lie far apart are asked for so many columns before they are packed. */
enum { AHEAD = 8 };

/* Defines how lines of an operand are packed: `depth` columns of `width` elements, of which the
 * first `count` are there and the others zeros. Element (i, p) is from[i * step + p * next]. */
#define PACK(name, stored, type, widen)                                                \
  static void name(const void *of, int64_t step, int64_t next, int count, int width,   \
                   int64_t depth, bool conj, void *to_memory) {                        \
    const stored *from = of;                                                           \
    type *to = to_memory;                                                              \
    (void)conj;                                                                        \
    if (step == 1 && count == width) {                                                 \
      for (int64_t p = 0; p < depth; p++) {                                            \
        for (int i = 0; i < width; i += LINE_BYTES / (int)sizeof(stored))              \
          __builtin_prefetch(from + mmci_smaller(p + AHEAD, depth - 1) * next + i);    \
        for (int i = 0; i < width; i++) to[p * width + i] = widen(from[p * next + i]); \
      }                                                                                \
      return;                                                                          \
    }                                                                                  \
    for (int64_t p = 0; p < depth; p++, to += width) {                                 \
      int i = 0;                                                                       \
      for (; i < count; i++) to[i] = widen(from[i * step + p * next]);                 \
      for (; i < width; i++) to[i] = 0;                                                \
    }                                                                                  \
  }

/* Elements are read as they lie: side by side, or line by line. */
#define PACK_COMPLEX(name, type)                                                     \
  static void name(const void *of, int64_t step, int64_t next, int count, int width, \
                   int64_t depth, bool conj, void *to_memory) {                      \
    const type *from = of, sign = conj ? -1 : 1;                                     \
    type *to = to_memory;                                                            \
    if (count < width) memset(to, 0, (size_t)(2 * width * depth) * sizeof *to);      \
    if (step == 1) {                                                                 \
      for (int64_t p = 0; p < depth; p++, from += 2 * next, to += 2 * width)         \
        for (int i = 0; i < count; i++) {                                            \
          to[i] = from[2 * i];                                                       \
          to[width + i] = sign * from[2 * i + 1];                                    \
        }                                                                            \
      return;                                                                        \
    }                                                                                \
    for (int i = 0; i < count; i++)                                                  \
      for (int64_t p = 0; p < depth; p++) {                                          \
        const type *z = from + 2 * (i * step + p * next);                            \
        to[2 * p * width + i] = z[0];                                                \
        to[(2 * p + 1) * width + i] = sign * z[1];                                   \
      }                                                                              \
  }

PACK(pack_f32, float, float, same_f32)
PACK(pack_f64, double, double, same_f64)
PACK(pack_8, uint8_t, uint32_t, WORD)
PACK(pack_16, uint16_t, uint32_t, WORD)
PACK(pack_32, uint32_t, uint32_t, WORD)
PACK(pack_64, uint64_t, uint64_t, WIDE_WORD)
PACK_COMPLEX(pack_c64, float)
PACK_COMPLEX(pack_c128, double)

/* Blocks have at most so many terms of k at a time. */
enum { DEPTH = 256 };

typedef void (*widen_fn)(const uint16_t *from, int64_t count, float *to);

/* Elements of 16 bits are made floats as they lie, many at once: one of the steps is 1. */
static void pack_half(widen_fn widen, const uint16_t *from, int64_t step, int64_t next, int count,
                      int width, int64_t depth, float *to) {
  if (count < width) memset(to, 0, (size_t)(width * depth) * sizeof *to);
  if (step == 1) {
    for (int64_t p = 0; p < depth; p++) widen(from + p * next, count, to + p * width);
    return;
  }
  float line[DEPTH];
  for (int i = 0; i < count; i++) {
    widen(from + i * step, depth, line);
    for (int64_t p = 0; p < depth; p++) to[p * width + i] = line[p];
  }
}

static void pack_f16(const void *of, int64_t step, int64_t next, int count, int width,
                     int64_t depth, bool conj, void *to) {
  (void)conj;
  pack_half(mmci_half_loops_here()->widen_f16, of, step, next, count, width, depth, to);
}
static void pack_bf16(const void *of, int64_t step, int64_t next, int count, int width,
                      int64_t depth, bool conj, void *to) {
  (void)conj;
  pack_half(mmci_half_loops_here()->widen_bf16, of, step, next, count, width, depth, to);
}

typedef void (*pack_fn)(const void *from, int64_t step, int64_t next, int count, int width,
                        int64_t depth, bool conj, void *to);

/* Integers of one size, signed or not, have sums of the same lowest bits. */
static const pack_fn packs[MMCI_DTYPES] = {
    [MMC_F32] = pack_f32, [MMC_F64] = pack_f64,   [MMC_C64] = pack_c64, [MMC_C128] = pack_c128,
    [MMC_F16] = pack_f16, [MMC_BF16] = pack_bf16, [MMC_I8] = pack_8,    [MMC_U8] = pack_8,
    [MMC_I16] = pack_16,  [MMC_U16] = pack_16,    [MMC_I32] = pack_32,  [MMC_U32] = pack_32,
    [MMC_I64] = pack_64,  [MMC_U64] = pack_64};

/* Packs `lines` lines from `first` on and `depth` terms from `begin` on, `width` lines together. */
static void pack_lines(const work *x, const char *data, int64_t step, int64_t next, bool conj,
                       int64_t first, int64_t lines, int64_t begin, int64_t depth, bool columns,
                       char *to) {
  for (int64_t i = 0, width; i < lines; i += width) {
    width = columns ? vectors_of(x, lines - i) * x->tile.width : x->tile.rows;
    packs[x->dtype](data + ((first + i) * step + begin * next) * (int64_t)x->element, step, next,
                    (int)mmci_smaller(width, lines - i), (int)width, depth, conj, to);
    to += (size_t)(width * depth * x->parts) * x->real;
  }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* These let zeros be +0 and NaN the one without a payload. */
static inline float settled_f32(float x) {
  return x == x ? x + 0.0F : NAN;
}
static inline double settled_f64(double x) {
  return x == x ? x + 0.0 : (double)NAN;
}
/* Define how a tile of sums is read from C, rows x cols of it, and written there. */
#define READ_SUMS(name, stored, type, widen)                                                     \
  static void read_##name(const void *of, lattice at, int rows, int cols, int width, int height, \
                          void *to) {                                                            \
    type *sums = to;                                                                             \
    const stored *c = of;                                                                        \
    (void)height;                                                                                \
    for (int r = 0; r < rows; r++)                                                               \
      for (int q = 0; q < cols; q++) sums[r * width + q] = widen(c[r * at.down + q * at.along]); \
  }

#define SUMS(name, stored, type, widen, settled)                                            \
  READ_SUMS(name, stored, type, widen)                                                      \
  static void write_##name(void *of, lattice at, int rows, int cols, int width, int height, \
                           const void *from) {                                              \
    const type *sums = from;                                                                \
    stored *c = of;                                                                         \
    (void)height;                                                                           \
    for (int r = 0; r < rows; r++)                                                          \
      if (at.along == 1)                                                                    \
        for (int q = 0; q < cols; q++) c[r * at.down + q] = settled(sums[r * width + q]);   \
      else                                                                                  \
        for (int q = 0; q < cols; q++)                                                      \
          c[r * at.down + q * at.along] = settled(sums[r * width + q]);                     \
  }

#define COMPLEX_SUMS(name, type, settled)                                                        \
  static void read_##name(const void *of, lattice at, int rows, int cols, int width, int height, \
                          void *to) {                                                            \
    type *sums = to, *im = sums + height * width;                                                \
    const type *c = of;                                                                          \
    for (int r = 0; r < rows; r++)                                                               \
      for (int q = 0; q < cols; q++) {                                                           \
        sums[r * width + q] = c[2 * (r * at.down + q * at.along)];                               \
        im[r * width + q] = c[2 * (r * at.down + q * at.along) + 1];                             \
      }                                                                                          \
  }                                                                                              \
  static void write_##name(void *of, lattice at, int rows, int cols, int width, int height,      \
                           const void *from) {                                                   \
    const type *sums = from, *im = sums + height * width;                                        \
    type *c = of;                                                                                \
    for (int r = 0; r < rows; r++)                                                               \
      for (int q = 0; q < cols; q++) {                                                           \
        c[2 * (r * at.down + q * at.along)] = settled(sums[r * width + q]);                      \
        c[2 * (r * at.down + q * at.along) + 1] = settled(im[r * width + q]);                    \
      }                                                                                          \
  }

SUMS(f32, float, float, same_f32, settled_f32)
SUMS(f64, double, double, same_f64, settled_f64)
READ_SUMS(f16, uint16_t, float, mmci_f16_to_f32)
READ_SUMS(bf16, uint16_t, float, mmci_bf16_to_f32)

/* Rounds a tile of sums to elements of 16 bits, line by line as C lies. */
static void round_tile(void (*round_off)(const float *from, int64_t count, uint16_t *to),
                       uint16_t *c, lattice at, int rows, int cols, int width, const float *sums) {
  enum { MOST = 64 };
  const bool along = at.along == 1;
  const int lines = along ? rows : cols, length = along ? cols : rows;
  const int64_t step = along ? at.down : at.along;
  for (int l = 0; l < lines; l++) {
    float line[MOST];
    for (int i = 0; i < length; i++) line[i] = along ? sums[l * width + i] : sums[i * width + l];
    mmci_ordered_tiles_here()->settle_f32(line, length);
    round_off(line, length, c + l * step);
  }
}

static void write_f16(void *c, lattice at, int rows, int cols, int width, int height,
                      const void *sums) {
  (void)height;
  round_tile(mmci_half_loops_here()->round_f16, c, at, rows, cols, width, sums);
}
static void write_bf16(void *c, lattice at, int rows, int cols, int width, int height,
                       const void *sums) {
  (void)height;
  round_tile(mmci_half_loops_here()->round_bf16, c, at, rows, cols, width, sums);
}

SUMS(8, uint8_t, uint32_t, WORD, (uint8_t))
SUMS(16, uint16_t, uint32_t, WORD, (uint16_t))
SUMS(32, uint32_t, uint32_t, WORD, (uint32_t))
SUMS(64, uint64_t, uint64_t, WIDE_WORD, (uint64_t))
COMPLEX_SUMS(c64, float, settled_f32)
COMPLEX_SUMS(c128, double, settled_f64)

typedef void (*read_fn)(const void *c, lattice at, int rows, int cols, int width, int height,
                        void *sums);
typedef void (*write_fn)(void *c, lattice at, int rows, int cols, int width, int height,
                         const void *sums);

static const read_fn reads[MMCI_DTYPES] = {
    [MMC_F32] = read_f32, [MMC_F64] = read_f64,   [MMC_C64] = read_c64, [MMC_C128] = read_c128,
    [MMC_F16] = read_f16, [MMC_BF16] = read_bf16, [MMC_I8] = read_8,    [MMC_U8] = read_8,
    [MMC_I16] = read_16,  [MMC_U16] = read_16,    [MMC_I32] = read_32,  [MMC_U32] = read_32,
    [MMC_I64] = read_64,  [MMC_U64] = read_64};
static const write_fn writes[MMCI_DTYPES] = {
    [MMC_F32] = write_f32, [MMC_F64] = write_f64,   [MMC_C64] = write_c64, [MMC_C128] = write_c128,
    [MMC_F16] = write_f16, [MMC_BF16] = write_bf16, [MMC_I8] = write_8,    [MMC_U8] = write_8,
    [MMC_I16] = write_16,  [MMC_U16] = write_16,    [MMC_I32] = write_32,  [MMC_U32] = write_32,
    [MMC_I64] = write_64,  [MMC_U64] = write_64};

static void settle_lines(mmc_dtype dtype, int64_t m, int64_t n, int64_t ld, void *c) {
  const mmci_ordered_tiles *tiles = mmci_ordered_tiles_here();
  const int64_t parts = mmci_dtype_is_complex(dtype) ? 2 : 1;
  const bool is_wide = dtype == MMC_F64 || dtype == MMC_C128;
  if (n == ld) { /* lines that follow each other are one */
    n *= m;
    m = 1;
  }
  for (int64_t r = 0; r < m; r++)
    if (is_wide)
      tiles->settle_f64((double *)c + r * ld * parts, n * parts);
    else
      tiles->settle_f32((float *)c + r * ld * parts, n * parts);
}

void mmci_ordered_settle(const mmci_gemm *gemm, void *c) {
  settle_lines(gemm->dtype, gemm->m, gemm->n, gemm->ldc, c);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct block {
  int64_t row, col, rows, cols;
} block;

/* A tile of a block: where it begins, what there is of it, and its columns as they are computed. */
typedef struct corner {
  int64_t i, j;
  int rows, cols, vectors;
  size_t sums; /* bytes before its sums; tiles lie one after the other */
} corner;

/* Returns the bytes of the sums of a tile. */
static size_t tile_bytes(const work *x, const corner *tile) {
  const size_t cols = (size_t)tile->vectors * (size_t)x->tile.width;
  return (size_t)x->tile.rows * cols * (size_t)x->parts * x->real;
}

/* Goes to the next tile of a block, along its rows; returns false behind the last one. A corner of
 * zeros is before the first. */
static bool next_tile(const work *x, block at, corner *tile) {
  if (tile->vectors > 0) {
    tile->sums += tile_bytes(x, tile);
    tile->j += tile->vectors * x->tile.width;
    if (tile->j >= at.cols) {
      tile->j = 0;
      tile->i += x->tile.rows;
    }
  }
  if (tile->i >= at.rows) return false;
  tile->vectors = vectors_of(x, at.cols - tile->j);
  tile->rows = (int)mmci_smaller(x->tile.rows, at.rows - tile->i);
  tile->cols = (int)mmci_smaller(tile->vectors * x->tile.width, at.cols - tile->j);
  return true;
}

static void multiply_tiles(const work *x, block at, int64_t depth, const char *a, const char *b,
                           char *sums) {
  const size_t line_bytes = (size_t)(depth * x->parts) * x->real;
  for (corner tile = {0}; next_tile(x, at, &tile);)
    x->tile.multiply[tile.vectors - 1](depth, a + (size_t)tile.i * line_bytes,
                                       b + (size_t)tile.j * line_bytes, sums + tile.sums,
                                       x->turned);
}

static char *place_of(const work *x, block at, const corner *tile) {
  const int64_t index = (at.row + tile->i) * x->of_c.down + (at.col + tile->j) * x->of_c.along;
  return x->c + index * (int64_t)x->element;
}

static void read_sums(const work *x, block at, bool from_c, char *sums) {
  for (corner tile = {0}; next_tile(x, at, &tile);) {
    memset(sums + tile.sums, 0, tile_bytes(x, &tile));
    if (from_c)
      reads[x->dtype](place_of(x, at, &tile), x->of_c, tile.rows, tile.cols,
                      tile.vectors * x->tile.width, x->tile.rows, sums + tile.sums);
  }
}

static void write_sums(const work *x, block at, const char *sums) {
  for (corner tile = {0}; next_tile(x, at, &tile);)
    writes[x->dtype](place_of(x, at, &tile), x->of_c, tile.rows, tile.cols,
                     tile.vectors * x->tile.width, x->tile.rows, sums + tile.sums);
}

/* Adds terms begin to end to the sums of a block, in room for what is packed. */
static void add_terms(const work *x, block at, int64_t begin, int64_t end, char *room, char *sums) {
  char *a = room, *b = a + a_bytes(x);
  for (int64_t p = begin; p < end; p += x->depth) {
    const int64_t depth = mmci_smaller(x->depth, end - p);
    pack_lines(x, x->a, x->of_a.down, x->of_a.along, x->a_conj, at.row, at.rows, p, depth, false,
               a);
    pack_lines(x, x->b, x->of_b.along, x->of_b.down, x->b_conj, at.col, at.cols, p, depth, true, b);
    multiply_tiles(x, at, depth, a, b, sums);
  }
}

/* ---- a row times a matrix -------------------------------------------------------------------- */

static bool is_row(const work *x) {
  return x->m == 1 && mmc_dtype_size(x->dtype) > 2 && !mmci_dtype_is_integer(x->dtype);
}

/* Continue the chains of a row one by one, where there are no loops for it. */
#define PLAIN_ROW(name, type, fuse)                                                      \
  static void name(const mmci_ordered_row *row, int parts) {                             \
    for (int64_t j = 0; j < row->n; j++) {                                               \
      type *c = (type *)row->c + j * row->c_step * parts;                                \
      for (int64_t p = 0; p < row->k; p++) {                                             \
        const type *x = (const type *)row->x + p * row->x_step * parts,                  \
                   *b = (const type *)row->b + (p * row->down + j * row->along) * parts; \
        c[0] = fuse(x[0], b[0], c[0]);                                                   \
        if (parts == 1) continue;                                                        \
        const type xi = (type)row->x_sign * x[1], bi = (type)row->b_sign * b[1];         \
        c[0] = fuse(-xi, bi, c[0]);                                                      \
        c[1] = row->turned ? fuse(x[0], bi, fuse(xi, b[0], c[1]))                        \
                           : fuse(xi, b[0], fuse(x[0], bi, c[1]));                       \
      }                                                                                  \
    }                                                                                    \
  }

PLAIN_ROW(plain_row_f32, float, fmaf)
PLAIN_ROW(plain_row_f64, double, fma)

/* Rows of fewer elements are not added line by line. */
enum { LEAST_LINE = 8 };

/* Goes on with the chains of columns of a product for which is_row(), from term `begin` on to
 * `end`; they lie in c, c_step elements apart. */
static void add_row_terms(const work *x, int64_t first, int64_t n, int64_t begin, int64_t end,
                          char *c, int64_t c_step) {
  const mmci_ordered_tiles *tiles = mmci_ordered_tiles_here();
  const int64_t element = (int64_t)x->element, place = begin * x->of_b.down + first * x->of_b.along;
  const mmci_ordered_row row = {.k = end - begin,
                                .n = n,
                                .x = x->a + begin * x->of_a.along * element,
                                .b = x->b + place * element,
                                .c = c,
                                .x_step = x->of_a.along,
                                .down = x->of_b.down,
                                .along = x->of_b.along,
                                .c_step = c_step,
                                .x_sign = x->a_conj ? -1 : 1,
                                .b_sign = x->b_conj ? -1 : 1,
                                .turned = x->turned};
  if (x->parts == 1 && row.along == 1 && c_step == 1 && n >= LEAST_LINE)
    (x->real == sizeof(double) ? tiles->row_f64 : tiles->row_f32)(&row);
  else if (!mmci_ordered_row_by_loops(x->dtype, &row))
    (x->real == sizeof(double) ? plain_row_f64 : plain_row_f32)(&row, x->parts);
}

/* Computes columns first to first + n of a product for which is_row(). */
static void multiply_row(const work *x, int64_t first, int64_t n) {
  const int64_t step = x->of_c.along * (int64_t)x->element;
  char *c = x->c + first * step;
  for (int64_t j = 0; j < n && !x->accumulate; j++) memset(c + j * step, 0, x->element);
  add_row_terms(x, first, n, 0, x->k, c, x->of_c.along);
  settle_lines(x->dtype, n, 1, x->of_c.along, c);
}

/* ---- long products --------------------------------------------------------------------------- */

/* Computes piece number `piece` of the sums of a block, in room for what is packed. */
static void compute_part(const work *x, block at, int64_t piece, char *room, char *sums) {
  const int64_t begin = piece * MMCI_PIECE_TERMS,
                end = mmci_smaller(begin + MMCI_PIECE_TERMS, x->k);
  memset(sums, 0, sums_bytes(x));
  if (is_row(x))
    add_row_terms(x, at.col, at.cols, begin, end, sums, 1);
  else
    add_terms(x, at, begin, end, room, sums);
}

/* Adds what is in `more` to sums of a block, as their right operand. */
static void add_sums(const work *x, char *sums, const char *more) {
  const size_t reals = sums_bytes(x) / x->real;
  if (x->real == sizeof(double))
    for (size_t r = 0; r < reals; r++)
      ((double *)(void *)sums)[r] += ((const double *)(const void *)more)[r];
  else
    for (size_t r = 0; r < reals; r++)
      ((float *)(void *)sums)[r] += ((const float *)(const void *)more)[r];
}

/* Writes the sums of a block, which are added to what is in C where the product accumulates; room
 * is for as many. */
static void write_whole_sums(const work *x, block at, char *sums, char *room) {
  const int64_t step = x->of_c.along * (int64_t)x->element;
  char *c = x->c + at.col * step;
  if (!is_row(x)) {
    if (x->accumulate) {
      read_sums(x, at, true, room);
      add_sums(x, sums, room);
    }
    write_sums(x, at, sums);
    return;
  }
  for (int64_t j = 0; j < at.cols; j++) {
    if (x->accumulate) memcpy(room + (size_t)j * x->element, c + j * step, x->element);
  }
  if (x->accumulate) add_sums(x, sums, room);
  for (int64_t j = 0; j < at.cols; j++)
    memcpy(c + j * step, sums + (size_t)j * x->element, x->element);
  settle_lines(x->dtype, at.cols, 1, x->of_c.along, c);
}

static int64_t pieces_of(const work *x) {
  return (x->k + MMCI_PIECE_TERMS - 1) / MMCI_PIECE_TERMS;
}

/* Computes a block of C, in room for block_bytes(). */
static void multiply_block(const work *x, int64_t row, int64_t col, char *room) {
  const block at = {row, col, mmci_smaller(x->rows, x->m - row), mmci_smaller(x->cols, x->n - col)};
  char *sums = room + a_bytes(x) + b_bytes(x), *part = sums + sums_bytes(x);
  if (!x->in_pieces && is_row(x)) {
    multiply_row(x, col, at.cols);
  } else if (!x->in_pieces) {
    read_sums(x, at, x->accumulate, sums);
    add_terms(x, at, 0, x->k, room, sums);
    write_sums(x, at, sums);
  } else {
    compute_part(x, at, 0, room, sums);
    for (int64_t p = 1; p < pieces_of(x); p++) {
      compute_part(x, at, p, room, part);
      add_sums(x, sums, part);
    }
    write_whole_sums(x, at, sums, part);
  }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Blocks that fit on a stack: two times 48 by 32 elements and two times 48 by 48 sums. */
enum { SMALL_ROWS = 48, SMALL_COLS = 48, SMALL_DEPTH = 32, STACK_BYTES = 132 << 10 };

void mmci_ordered_small(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  work x = work_of(gemm, SMALL_ROWS, SMALL_COLS, SMALL_DEPTH);
  _Alignas(LINE_BYTES) char room[STACK_BYTES];
  if (mmci_ordered_dots_pay(gemm)) {
    mmci_ordered_dots_small(gemm, a, b, c);
    return;
  }
  place(&x, a, b, c, x.turned != gemm->turned);
  if (is_row(&x) && !x.in_pieces) {
    multiply_row(&x, 0, x.n);
    return;
  }
  for (int64_t row = 0; row < x.m; row += x.rows)
    for (int64_t col = 0; col < x.n; col += x.cols) multiply_block(&x, row, col, room);
}

/* Blocks whose rows of A stay in the second cache, and whose columns of B stay in the third. */
enum { ROWS = 384, COLS = 768 };

static work large_work(const mmci_gemm *gemm) {
  return work_of(gemm, ROWS, COLS, DEPTH);
}

static int64_t blocks_down(const work *x) {
  return (x->m + x->rows - 1) / x->rows;
}
static int64_t blocks_of(const work *x) {
  return blocks_down(x) * ((x->n + x->cols - 1) / x->cols);
}

/* Cuts blocks smaller where there are few for so many threads. */
static void share_evenly(work *x, int threads) {
  while (threads > 1 && blocks_of(x) % threads != 0 && blocks_of(x) < 4 * (int64_t)threads) {
    const int64_t rows = piece_length(x->rows, (x->rows + 1) / 2, x->tile.rows),
                  cols = piece_length(x->cols, (x->cols + 1) / 2, most_cols(x));
    const bool can_rows = rows < x->rows, can_cols = cols < x->cols;
    if (!can_rows && !can_cols) return;
    if (can_rows && (x->rows >= x->cols || !can_cols))
      x->rows = rows;
    else
      x->cols = cols;
  }
}

/* What a thread computes of products by dots; and the terms of a product that is not shared. */
static const double DOTS_FLOPS_PER_S = 1e10, SHORT_TERMS = 1 << 15;

int mmci_ordered_threads(const mmci_gemm *gemm) {
  const double flops = mmci_flops(gemm->dtype, gemm->m, gemm->k, gemm->n);
  if (mmci_ordered_dots_pay(gemm))
    return mmci_workers(flops / DOTS_FLOPS_PER_S, mmci_ordered_dots_units(gemm));
  const work x = large_work(gemm);
  const int64_t tiles =
      (x.m + x.tile.rows - 1) / x.tile.rows * ((x.n + x.tile.width - 1) / x.tile.width);
  return mmci_workers(flops / 3e10, x.in_pieces ? tiles * pieces_of(&x) : tiles);
}

bool mmci_ordered_is_short(const mmci_gemm *gemm) {
  return mmci_gemm_mkn(gemm) <= SHORT_TERMS;
}

/* One product that threads share. */
typedef struct sharing {
  const work *work;
  char *room;
  size_t bytes;         /* bytes of a thread's room */
  char *sums, *parts;   /* of long products: sums of blocks, and of the pieces of a round */
  int64_t round, first; /* pieces of a round, and its first one */
  int64_t units;        /* what is to be done: blocks, or pieces of blocks */
  atomic_llong done;
  atomic_bool stopped;
} sharing;

/* Says whether the work goes on, which the caller, worker 0, may stop. */
static bool goes_on(sharing *s, int worker) {
  if (worker == 0 && mmci_interrupted()) atomic_store(&s->stopped, true);
  return !atomic_load_explicit(&s->stopped, memory_order_relaxed);
}

static void note_done(sharing *s, int worker) {
  const long long done = atomic_fetch_add(&s->done, 1) + 1;
  if (worker == 0) mmci_interrupt_done((double)done / (double)s->units);
}

static block block_at(const work *x, int64_t number) {
  const int64_t down = blocks_down(x), row = number % down * x->rows, col = number / down * x->cols;
  return (block){row, col, mmci_smaller(x->rows, x->m - row), mmci_smaller(x->cols, x->n - col)};
}

static void multiply_shared(void *user, int worker, int64_t number) {
  sharing *s = user;
  if (!goes_on(s, worker)) return;
  const block at = block_at(s->work, number);
  multiply_block(s->work, at.row, at.col, s->room + (size_t)worker * s->bytes);
  note_done(s, worker);
}

/* Computes one part of a block: a piece of the round. */
static void compute_shared(void *user, int worker, int64_t number) {
  sharing *s = user;
  const work *x = s->work;
  if (!goes_on(s, worker)) return;
  const int64_t block = number / s->round, piece = s->first + number % s->round;
  if (piece >= pieces_of(x)) return;
  compute_part(x, block_at(x, block), piece, s->room + (size_t)worker * s->bytes,
               s->parts + (size_t)number * sums_bytes(x));
  note_done(s, worker);
}

/* Adds the pieces of a round to the sums of a block, and writes it after the last one. */
static void add_shared(void *user, int worker, int64_t number) {
  sharing *s = user;
  const work *x = s->work;
  if (!goes_on(s, worker)) return;
  const size_t bytes = sums_bytes(x);
  char *sums = s->sums + (size_t)number * bytes, *part = s->parts;
  part += (size_t)(number * s->round) * bytes;
  const int64_t end = mmci_smaller(s->first + s->round, pieces_of(x));
  for (int64_t p = s->first; p < end; p++, part += bytes)
    if (p == 0)
      memcpy(sums, part, bytes);
    else
      add_sums(x, sums, part);
  if (end == pieces_of(x)) write_whole_sums(x, block_at(x, number), sums, part - bytes);
}

static mmc_status take_room(mmci_ordered_room *room, size_t bytes, mmci_error *error) {
  if (bytes <= room->bytes) return MMC_OK;
  free(room->memory);
  *room = (mmci_ordered_room){0};
  room->memory = mmci_alloc_aligned(bytes, 1);
  if (room->memory == NULL) return mmci_fail_nomem(error, bytes);
  room->bytes = bytes;
  return MMC_OK;
}

/* Long products whose C is less than some tiles a thread are shared out by pieces, as many at a
 * time as this memory holds. */
enum { LEAST_OF_C = 64 * 64, MOST_PART_BYTES = 16 << 20 };

static bool goes_by_pieces(const work *x, int threads) {
  return x->in_pieces && threads > 1 && x->m * x->n < threads * (int64_t)LEAST_OF_C;
}

/* Shares out a product by pieces, round by round. */
static void share_pieces(sharing *s, int threads) {
  const work *x = s->work;
  const int64_t blocks = blocks_of(x);
  s->units = blocks * pieces_of(x);
  for (s->first = 0; s->first < pieces_of(x); s->first += s->round) {
    mmci_share(threads, blocks * s->round, compute_shared, s);
    mmci_share(threads, blocks, add_shared, s);
  }
}

static mmc_status multiply_dots(const mmci_gemm *gemm, int threads, const void *a, const void *b,
                                void *c, mmci_ordered_room *room, mmci_error *error) {
  mmc_status status = take_room(room, mmci_ordered_dots_bytes(gemm, threads), error);
  if (status != MMC_OK) return status;
  if (mmci_ordered_dots(gemm, threads, a, b, c, room->memory)) return MMC_OK;
  return mmci_fail(error, MMC_E_INTERRUPTED, "stopped within a product");
}

mmc_status mmci_ordered_gemm(const mmci_gemm *gemm, int threads, const void *a, const void *b,
                             void *c, mmci_ordered_room *room, mmci_error *error) {
  if (mmci_ordered_dots_pay(gemm)) return multiply_dots(gemm, threads, a, b, c, room, error);
  work x = large_work(gemm);
  place(&x, a, b, c, x.turned != gemm->turned);
  const bool by_pieces = goes_by_pieces(&x, threads);
  if (!by_pieces) share_evenly(&x, threads);
  sharing s = {.work = &x, .bytes = block_bytes(&x), .units = blocks_of(&x)};
  size_t bytes = s.bytes * (size_t)threads;
  if (by_pieces) {
    const size_t round_bytes = sums_bytes(&x) * (size_t)blocks_of(&x);
    s.round = mmci_smaller(pieces_of(&x), (int64_t)(MOST_PART_BYTES / round_bytes) + 1);
    bytes += round_bytes * (size_t)(s.round + 1);
  }
  mmc_status status = take_room(room, bytes, error);
  if (status != MMC_OK) return status;
  s.room = room->memory;
  s.sums = s.room + s.bytes * (size_t)threads;
  s.parts = s.sums + (by_pieces ? sums_bytes(&x) * (size_t)blocks_of(&x) : 0);
  if (by_pieces)
    share_pieces(&s, threads);
  else
    mmci_share(threads, s.units, multiply_shared, &s);
  if (atomic_load(&s.stopped))
    return mmci_fail(error, MMC_E_INTERRUPTED, "stopped within a product");
  return MMC_OK;
}
