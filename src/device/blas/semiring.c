#include "device/blas/semiring.h"

#include <limits.h>
#include <math.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/interrupt.h"
#include "base/sizes.h"
#include "device/blas/cblas_table.h"
#include "device/blas/semiring_tiles.h"
#include "device/blas/workers.h"
#include "device/ref/ref_semiring.h"

/* Returns where element (r, c) of a matrix lies, in elements: r * down + c * along. */
typedef struct lattice {
  int64_t down, along;
} lattice;

static lattice lattice_of(const mmci_form *form) {
  return form->trans ? (lattice){1, form->ld} : (lattice){form->ld, 1};
}

/* ---- the greatest of sums: blocks ------------------------------------------------------------ */

/* A block of C has at most so many rows, and columns of so many bytes; so many of k are packed at a
 * time. */
enum { BLOCK_ROWS = 192, BLOCK_BYTES = 2048, DEPTH = 128 };

/* A product as it is computed; C may have changed places with its transposed. */
typedef struct work {
  const mmci_gemm *gemm;
  int64_t m, k, n;
  const void *a, *b;
  void *c;
  lattice of_a, of_b, of_c;
  bool least, turned;
  mmci_semiring_tile tile;
  size_t element;
  int64_t rows, cols, depth; /* of a block of C, in whole tiles, and of what is packed of k */
} work;

static mmci_semiring_tile tile_of(mmc_dtype dtype) {
  const mmci_semiring_tiles *tiles = mmci_semiring_tiles_here();
  return dtype == MMC_F32 ? tiles->f32 : dtype == MMC_F64 ? tiles->f64 : tiles->i64;
}

/* Returns the length of equal pieces of `all`, none above `most`, in whole tiles. */
static int64_t piece_length(int64_t all, int64_t most, int64_t tile) {
  const int64_t pieces = (all + most - 1) / most, length = (all + pieces - 1) / pieces;
  return (length + tile - 1) / tile * tile;
}

static work work_of(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  work x = {.gemm = gemm,
            .m = gemm->m,
            .k = gemm->k,
            .n = gemm->n,
            .a = a,
            .b = b,
            .c = c,
            .of_a = lattice_of(&gemm->a),
            .of_b = lattice_of(&gemm->b),
            .of_c = {gemm->ldc, 1},
            .least = gemm->rule.semiring == MMC_MIN_PLUS,
            .tile = tile_of(gemm->dtype),
            .element = mmc_dtype_size(gemm->dtype)};
  x.turned = x.n < x.tile.width && x.m > x.n;
  if (x.turned) { /* vectors run along the longer side of C */
    x.m = gemm->n;
    x.n = gemm->m;
    x.a = b;
    x.b = a;
    x.of_a = (lattice){lattice_of(&gemm->b).along, lattice_of(&gemm->b).down};
    x.of_b = (lattice){lattice_of(&gemm->a).along, lattice_of(&gemm->a).down};
    x.of_c = (lattice){1, gemm->ldc};
  }
  x.rows = piece_length(x.m, BLOCK_ROWS, x.tile.rows);
  x.cols = piece_length(x.n, BLOCK_BYTES / (int64_t)x.element, x.tile.width);
  x.depth = mmci_smaller(x.k, DEPTH);
  return x;
}

static size_t a_bytes(const work *x) {
  return mmci_aligned_size((size_t)(x->rows * x->depth) * x->element);
}
static size_t b_bytes(const work *x) {
  return mmci_aligned_size((size_t)(x->cols * x->depth) * x->element);
}
static size_t block_bytes(const work *x) {
  return a_bytes(x) + b_bytes(x) + mmci_aligned_size((size_t)(x->rows * x->cols) * x->element);
}

/* Integers up to these are added fast. Packed zeros are so far below all sums of others that sums
 * with a zero are known, and sums of two zeros do not overflow. */
static const int64_t most_i64 = INT64_C(1) << 60, zero_i64 = -(INT64_C(1) << 62);

/* Define how an element is packed: what is `bad` needs the loops of ref. */
#define REAL_PACKED(type)             \
  const type packed = least ? -x : x; \
  bad |= !(packed < (type)INFINITY);  \
  to[i] = packed;
#define INTEGER_PACKED(type)                                 \
  const bool is_zero = x == (least ? INT64_MAX : INT64_MIN); \
  bad |= !is_zero && (x > most_i64 || x < -most_i64);        \
  to[i] = is_zero ? zero_i64 : least ? (type)(0 - (uint64_t)x) : x;

/* Defines how lines of an operand are packed: `depth` columns of `width` elements, of which the
 * first `count` are there and the others zeros of the semiring. Element (i, p) is
 * from[i * step + p * next]. Says whether the fast loops may go on. */
#define PACK(suffix, type, packed_zero, PACKED)                                          \
  static bool pack_##suffix(const type *from, int64_t step, int64_t next, int64_t count, \
                            int64_t width, int64_t depth, bool least, type *to) {        \
    int bad = 0;                                                                         \
    for (int64_t p = 0; p < depth; p++, from += next, to += width) {                     \
      if (step == 1)                                                                     \
        for (int64_t i = 0; i < count; i++) {                                            \
          const type x = from[i];                                                        \
          PACKED(type)                                                                   \
        }                                                                                \
      else                                                                               \
        for (int64_t i = 0; i < count; i++) {                                            \
          const type x = from[i * step];                                                 \
          PACKED(type)                                                                   \
        }                                                                                \
      for (int64_t i = count; i < width; i++) to[i] = packed_zero;                       \
    }                                                                                    \
    return !bad;                                                                         \
  }

PACK(f32, float, -(float)INFINITY, REAL_PACKED)
PACK(f64, double, -(double)INFINITY, REAL_PACKED)
PACK(i64, int64_t, zero_i64, INTEGER_PACKED)

static bool pack(const work *x, const void *from, int64_t step, int64_t next, int64_t count,
                 int64_t width, int64_t depth, void *to) {
  if (x->gemm->dtype == MMC_F32)
    return pack_f32(from, step, next, count, width, depth, x->least, to);
  if (x->gemm->dtype == MMC_F64)
    return pack_f64(from, step, next, count, width, depth, x->least, to);
  return pack_i64(from, step, next, count, width, depth, x->least, to);
}

/* Defines how an element of a tile becomes one of C; zeros are positive. */
#define REAL_UNPACKED(type, x)                \
  type best = (least ? -(x) : (x)) + (type)0; \
  if (accumulate && !((least ? best < *c : best > *c))) best = *c + (type)0;
#define INTEGER_UNPACKED(type, x)                                                        \
  type best = (x) < zero_i64 / 2 ? (least ? INT64_MAX : INT64_MIN) : least ? -(x) : (x); \
  if (accumulate && (least ? *c < best : *c > best)) best = *c;

#define UNPACK(suffix, type, UNPACKED)                                                     \
  static void unpack_##suffix(const type *tile, int64_t rows, int64_t cols, int64_t width, \
                              lattice of, bool least, bool accumulate, type *to) {         \
    for (int64_t i = 0; i < rows; i++)                                                     \
      for (int64_t j = 0; j < cols; j++) {                                                 \
        type *c = to + i * of.down + j * of.along;                                         \
        UNPACKED(type, tile[i * width + j])                                                \
        *c = best;                                                                         \
      }                                                                                    \
  }

UNPACK(f32, float, REAL_UNPACKED)
UNPACK(f64, double, REAL_UNPACKED)
UNPACK(i64, int64_t, INTEGER_UNPACKED)

static void unpack(const work *x, const void *tile, int64_t rows, int64_t cols, int64_t width,
                   void *to) {
  const bool accumulate = x->gemm->accumulate;
  if (x->gemm->dtype == MMC_F32)
    unpack_f32(tile, rows, cols, width, x->of_c, x->least, accumulate, to);
  else if (x->gemm->dtype == MMC_F64)
    unpack_f64(tile, rows, cols, width, x->of_c, x->least, accumulate, to);
  else
    unpack_i64(tile, rows, cols, width, x->of_c, x->least, accumulate, to);
}

static void clear(const work *x, int64_t elements, void *sums) {
  for (int64_t i = 0; i < elements; i++) {
    if (x->gemm->dtype == MMC_F32) ((float *)sums)[i] = -(float)INFINITY;
    if (x->gemm->dtype == MMC_F64) ((double *)sums)[i] = -(double)INFINITY;
    if (x->gemm->dtype == MMC_I64) ((int64_t *)sums)[i] = INT64_MIN;
  }
}

/* A block: rows x cols of C from (row, col) on, and the room it works in. */
typedef struct block {
  int64_t row, col, rows, cols;
  char *a, *b, *sums;
} block;

static const char *at(const work *x, const void *data, lattice of, int64_t row, int64_t col) {
  return (const char *)data + (row * of.down + col * of.along) * (int64_t)x->element;
}

/* Returns how many columns a tile with so many more in its block has. */
static int64_t tile_cols(const work *x, int64_t rest) {
  const int64_t vectors = (rest + x->tile.width - 1) / x->tile.width;
  return mmci_smaller(vectors, x->tile.vectors) * x->tile.width;
}

static bool pack_block(const work *x, const block *y, int64_t p, int64_t depth) {
  const int64_t rows = x->tile.rows, size = (int64_t)x->element;
  bool fast = true;
  for (int64_t i = 0; i < y->rows; i += rows)
    fast &= pack(x, at(x, x->a, x->of_a, y->row + i, p), x->of_a.down, x->of_a.along,
                 mmci_smaller(rows, y->rows - i), rows, depth, y->a + i * depth * size);
  for (int64_t j = 0, cols; j < y->cols; j += cols) {
    cols = tile_cols(x, y->cols - j);
    fast &= pack(x, at(x, x->b, x->of_b, p, y->col + j), x->of_b.along, x->of_b.down,
                 mmci_smaller(cols, y->cols - j), cols, depth, y->b + j * depth * size);
  }
  return fast;
}

/* Does what is to be done with every tile of a block, whose sums lie in sums. */
static void add_depth(const work *x, const block *y, int64_t depth) {
  const int64_t rows = x->tile.rows, size = (int64_t)x->element;
  for (int64_t j = 0, cols; j < y->cols; j += cols) {
    cols = tile_cols(x, y->cols - j);
    const mmci_semiring_fn greatest = x->tile.greatest[cols / x->tile.width - 1];
    for (int64_t i = 0; i < y->rows; i += rows)
      greatest(depth, y->a + i * depth * size, y->b + j * depth * size,
               y->sums + (j * x->rows + i * cols) * size);
  }
}

static void unpack_block(const work *x, const block *y) {
  const int64_t rows = x->tile.rows, size = (int64_t)x->element;
  for (int64_t j = 0, cols; j < y->cols; j += cols) {
    cols = tile_cols(x, y->cols - j);
    for (int64_t i = 0; i < y->rows; i += rows)
      unpack(x, y->sums + (j * x->rows + i * cols) * size, mmci_smaller(rows, y->rows - i),
             mmci_smaller(cols, y->cols - j), cols,
             (char *)x->c + ((y->row + i) * x->of_c.down + (y->col + j) * x->of_c.along) * size);
  }
}

/* Computes a block by the loops of ref. */
static void compute_slowly(const work *x, const block *y) {
  mmci_gemm gemm = *x->gemm;
  const int64_t row = x->turned ? y->col : y->row, col = x->turned ? y->row : y->col;
  gemm.m = x->turned ? y->cols : y->rows;
  gemm.n = x->turned ? y->rows : y->cols;
  const void *a = x->turned ? x->b : x->a, *b = x->turned ? x->a : x->b;
  mmci_ref_semiring_gemm(&gemm, at(x, a, lattice_of(&gemm.a), row, 0),
                         at(x, b, lattice_of(&gemm.b), 0, col),
                         (char *)x->c + (row * gemm.ldc + col) * (int64_t)x->element);
}

/* Says whether a row of C is computed from B as it lies, which is read once. */
static bool is_row(const work *x) {
  return x->m == 1 && x->tile.vector != NULL && (x->of_b.down == 1 || x->of_b.along == 1);
}

static bool is_below_infinity(const work *x, const void *sums, int64_t n) {
  bool below = true;
  for (int64_t j = 0; j < n; j++)
    below &= x->gemm->dtype == MMC_F32 ? ((const float *)sums)[j] < (float)INFINITY
                                       : ((const double *)sums)[j] < (double)INFINITY;
  return below;
}

/* Finds the sums of a block of a row; false where the loops of ref are needed. */
static bool add_row(const work *x, const block *y) {
  const int64_t room = x->rows * x->depth; /* elements of A at a time */
  for (int64_t p = 0, depth; p < x->k; p += depth) {
    depth = mmci_smaller(room, x->k - p);
    if (!pack(x, at(x, x->a, x->of_a, 0, p), x->of_a.along, 0, depth, depth, 1, y->a) ||
        !x->tile.vector(depth, y->cols, y->a, at(x, x->b, x->of_b, p, y->col), x->of_b.down,
                        x->of_b.along, x->least, y->sums))
      return false;
  }
  return is_below_infinity(x, y->sums, y->cols);
}

static void compute_row(const work *x, const block *y) {
  clear(x, y->cols, y->sums);
  if (add_row(x, y))
    unpack(x, y->sums, 1, y->cols, y->cols,
           (char *)x->c + y->col * x->of_c.along * (int64_t)x->element);
  else
    compute_slowly(x, y);
}

static void compute_block(const work *x, int64_t row, int64_t col, char *room) {
  const block y = {.row = row,
                   .col = col,
                   .rows = mmci_smaller(x->rows, x->m - row),
                   .cols = mmci_smaller(x->cols, x->n - col),
                   .a = room,
                   .b = room + a_bytes(x),
                   .sums = room + a_bytes(x) + b_bytes(x)};
  if (is_row(x)) {
    compute_row(x, &y);
    return;
  }
  clear(x, x->rows * x->cols, y.sums);
  for (int64_t p = 0, depth; p < x->k; p += depth) {
    depth = mmci_smaller(x->depth, x->k - p);
    if (!pack_block(x, &y, p, depth)) {
      compute_slowly(x, &y);
      return;
    }
    add_depth(x, &y, depth);
  }
  unpack_block(x, &y);
}

/* ---- sharing out ----------------------------------------------------------------------------- */

/* Work that threads share, and whether it was stopped. */
typedef struct sharing {
  const work *work;
  const struct logarithms *logarithms;
  char *room;
  size_t room_bytes; /* of one worker */
  atomic_bool stopped;
} sharing;

/* Only the caller, worker 0, can be stopped. */
static bool goes_on(sharing *x, int worker) {
  if (worker == 0 && mmci_interrupted()) atomic_store(&x->stopped, true);
  return !atomic_load_explicit(&x->stopped, memory_order_relaxed);
}

static void compute_piece(void *user, int worker, int64_t piece) {
  sharing *x = user;
  const work *w = x->work;
  const int64_t across = (w->n + w->cols - 1) / w->cols;
  if (goes_on(x, worker))
    compute_block(w, piece / across * w->rows, piece % across * w->cols,
                  x->room + (size_t)worker * x->room_bytes);
}

static int64_t pieces_of(const work *x) {
  return ((x->m + x->rows - 1) / x->rows) * ((x->n + x->cols - 1) / x->cols);
}

static bool find_greatest(const mmci_gemm *gemm, const void *a, const void *b, void *c, int workers,
                          void *room) {
  const work w = work_of(gemm, a, b, c);
  sharing x = {.work = &w, .room = room, .room_bytes = block_bytes(&w)};
  atomic_init(&x.stopped, false);
  if (workers > 1)
    mmci_share(workers, pieces_of(&w), compute_piece, &x);
  else
    for (int64_t i = 0, pieces = pieces_of(&w); i < pieces; i++) compute_piece(&x, 0, i);
  return !atomic_load(&x.stopped);
}

/* ---- logarithms of sums of exponentials ------------------------------------------------------ */

/* Exponentials of A's rows and B's columns less the greatest of each, in rows without gaps, their
 * product, and these greatest. */
typedef struct logarithms {
  const mmci_gemm *gemm;
  const void *a, *b;
  void *c;
  double *of_a, *of_b, *sums, *most_a, *most_b;
} logarithms;

enum { LINES = 16 }; /* rows of A or of C, or columns of B, that are one piece of work */

static double load(const mmci_gemm *gemm, const void *data, int64_t i) {
  return gemm->dtype == MMC_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

/* Exponentiates lines of an operand, whose elements are `next` apart: of line i and element p to
 * to[i * to_step + p * to_next]. A line without a finite greatest is left to the loops of ref. */
static void exponentiate(const mmci_gemm *gemm, const void *data, int64_t first, int64_t next,
                         int64_t count, double *most, double *to, int64_t to_next) {
  double greatest = -(double)INFINITY;
  for (int64_t p = 0; p < count; p++) {
    const double x = load(gemm, data, first + p * next);
    greatest = x != x || x > greatest ? x : greatest;
    if (x != x) break;
  }
  *most = greatest;
  for (int64_t p = 0; p < count; p++)
    to[p * to_next] = isfinite(greatest) ? exp(load(gemm, data, first + p * next) - greatest) : 0.0;
}

static void exponentiate_piece(void *user, int worker, int64_t piece) {
  sharing *s = user;
  const logarithms *x = s->logarithms;
  const mmci_gemm *gemm = x->gemm;
  const lattice of_a = lattice_of(&gemm->a), of_b = lattice_of(&gemm->b);
  const int64_t begin = piece * LINES, all = gemm->m + gemm->n;
  if (!goes_on(s, worker)) return;
  for (int64_t line = begin; line < mmci_smaller(begin + LINES, all); line++) {
    const int64_t j = line - gemm->m;
    if (j < 0)
      exponentiate(gemm, x->a, line * of_a.down, of_a.along, gemm->k, &x->most_a[line],
                   x->of_a + line * gemm->k, 1);
    else
      exponentiate(gemm, x->b, j * of_b.along, of_b.down, gemm->k, &x->most_b[j], x->of_b + j,
                   gemm->n);
  }
}

/* Computes element (i, j) of C by the loops of ref. */
static void sum_slowly(const logarithms *x, int64_t i, int64_t j) {
  mmci_gemm gemm = *x->gemm;
  const int64_t size = (int64_t)mmc_dtype_size(gemm.dtype);
  gemm.m = gemm.n = 1;
  mmci_ref_semiring_gemm(&gemm, (const char *)x->a + i * lattice_of(&gemm.a).down * size,
                         (const char *)x->b + j * lattice_of(&gemm.b).along * size,
                         (char *)x->c + (i * gemm.ldc + j) * size);
}

static void take_logarithms(void *user, int worker, int64_t piece) {
  sharing *s = user;
  const logarithms *x = s->logarithms;
  const mmci_gemm *gemm = x->gemm;
  /* What has vanished of k terms is less than a rounding of sums above this. */
  const double least = (double)gemm->k * 0x1p-1018;
  if (!goes_on(s, worker)) return;
  for (int64_t i = piece * LINES; i < mmci_smaller((piece + 1) * LINES, gemm->m); i++)
    for (int64_t j = 0; j < gemm->n; j++) {
      const double sum = x->sums[i * gemm->n + j];
      if (!(sum > least) || gemm->accumulate) {
        sum_slowly(x, i, j);
        continue;
      }
      const double value = x->most_a[i] + x->most_b[j] + log(sum);
      const int64_t to = i * gemm->ldc + j;
      if (gemm->dtype == MMC_F32)
        ((float *)x->c)[to] = (float)value;
      else
        ((double *)x->c)[to] = value;
    }
}

static void share_lines(sharing *x, int64_t lines, int workers, mmci_work_fn work) {
  const int64_t pieces = (lines + LINES - 1) / LINES;
  if (workers > 1)
    mmci_share(workers, pieces, work, x);
  else
    for (int64_t i = 0; i < pieces; i++) work(x, 0, i);
}

static bool sum_exponentials(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                             int workers, void *room) {
  const int64_t m = gemm->m, k = gemm->k, n = gemm->n;
  logarithms x = {.gemm = gemm, .a = a, .b = b, .c = c, .of_a = room};
  x.of_b = x.of_a + m * k;
  x.sums = x.of_b + k * n;
  x.most_a = x.sums + m * n;
  x.most_b = x.most_a + m;
  sharing s = {.logarithms = &x};
  atomic_init(&s.stopped, false);
  share_lines(&s, m + n, workers, exponentiate_piece);
  if (atomic_load(&s.stopped)) return false;
  mmci_blas.dgemm(MMCI_CBLAS_ROW_MAJOR, MMCI_CBLAS_N, MMCI_CBLAS_N, m, n, k, 1, x.of_a, k, x.of_b,
                  n, 0, x.sums, n);
  share_lines(&s, m, workers, take_logarithms);
  return !atomic_load(&s.stopped);
}

/* ---- the product ----------------------------------------------------------------------------- */

/* Says whether a CBLAS takes the sizes, and its sums are worth it. */
static bool is_by_blas(const mmci_gemm *gemm) {
  return gemm->rule.semiring == MMC_LOG_SUM_EXP && !gemm->accumulate &&
         (gemm->m | gemm->k | gemm->n) <= INT_MAX;
}

double mmci_semiring_serial_s(const mmci_gemm *gemm) {
  const double mkn = mmci_gemm_mkn(gemm);
  const double lines = (double)gemm->m * (double)gemm->k + (double)gemm->k * (double)gemm->n +
                       (double)gemm->m * (double)gemm->n;
  if (gemm->rule.semiring != MMC_LOG_SUM_EXP) return 1e-7 + mkn / 3e10;
  return 2e-7 + (is_by_blas(gemm) ? mkn / 2e10 + lines * 1e-8 : mkn * 2e-8);
}

int mmci_semiring_workers(const mmci_gemm *gemm) {
  if (gemm->rule.semiring == MMC_LOG_SUM_EXP)
    return mmci_workers(mmci_semiring_serial_s(gemm), (gemm->m + gemm->n) / LINES + 1);
  const work w = work_of(gemm, NULL, NULL, NULL);
  return mmci_workers(mmci_semiring_serial_s(gemm), pieces_of(&w));
}

uint64_t mmci_semiring_room(const mmci_gemm *gemm, int workers) {
  if (gemm->rule.semiring != MMC_LOG_SUM_EXP) {
    const work w = work_of(gemm, NULL, NULL, NULL);
    return (uint64_t)block_bytes(&w) * (uint64_t)workers;
  }
  if (!is_by_blas(gemm)) return 0;
  uint64_t bytes = mmci_result_bytes(gemm->m, gemm->k, sizeof(double));
  bytes = mmci_bytes_add(bytes, mmci_result_bytes(gemm->k, gemm->n, sizeof(double)));
  bytes = mmci_bytes_add(bytes, mmci_result_bytes(gemm->m, gemm->n, sizeof(double)));
  return mmci_bytes_add(bytes, mmci_result_bytes(gemm->m + gemm->n, 1, sizeof(double)));
}

mmc_status mmci_semiring_memory_make(mmci_semiring_memory *room, uint64_t bytes,
                                     mmci_error *error) {
  if (bytes <= room->bytes) return MMC_OK;
  free(room->memory);
  room->bytes = 0;
  room->memory = bytes <= SIZE_MAX ? mmci_alloc_aligned(bytes, 1) : NULL;
  if (room->memory == NULL) return mmci_fail_nomem(error, bytes);
  room->bytes = bytes;
  return MMC_OK;
}

bool mmci_semiring_multiply(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                            int workers, void *room) {
  if (gemm->m == 0 || gemm->n == 0) return true;
  if (gemm->k == 0 || (gemm->rule.semiring == MMC_LOG_SUM_EXP && !is_by_blas(gemm))) {
    mmci_ref_semiring_gemm(gemm, a, b, c);
    return true;
  }
  if (gemm->rule.semiring == MMC_LOG_SUM_EXP) return sum_exponentials(gemm, a, b, c, workers, room);
  return find_greatest(gemm, a, b, c, workers, room);
}
