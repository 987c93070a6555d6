#include "device/blas/ordered_dots.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "base/interrupt.h"
#include "device/blas/ordered_tiles.h"
#include "device/blas/workers.h"

enum {
  LINES = 4,         /* of the shorter side, at most */
  ELEMENTS = 64,     /* of C, at most, unless it is a row */
  COLS = 16,         /* that are computed together */
  LEAST_ROW = 8,     /* columns from which on a row goes along them where they lie side by side */
  LEAST_PIECES = 16, /* of a row with more columns than are computed together */
  LANES = MMCI_ORDERED_LANES,
  PACKED_BYTES = 16 << 10, /* of lines that are packed, if that is a chunk at all */
  DOT_CHUNK = 256,         /* terms of pieces that are not packed, which spares have room for */
  LEAST_CHUNK = 16,        /* terms that are packed at a time; MMCI_PIECE_TERMS is a multiple */
  LINE_BYTES = 64
};

/* An operand, as it is read: line i and term p are at data[i * line + p * term]. */
typedef struct operand {
  const char *data;
  int64_t line, term;
  bool conj;
} operand;

/* A product that has no more rows than columns. */
typedef struct dots {
  mmc_dtype dtype;
  int64_t m, k, n, pieces;
  operand a, b;
  char *c;
  int64_t c_down, c_along;
  bool turned, accumulate;
  int parts, lanes;
  size_t element, real;
  const mmci_ordered_lanes *by;
} dots;

/* How packed lines lie, in vectors of lanes from one term, line or part of an element to the next.
 */
typedef mmci_ordered_lattice lattice;

static operand operand_of(const mmci_form *form, const void *data, bool lines_are_rows) {
  const bool along = form->trans != lines_are_rows; /* terms lie side by side */
  return (operand){data, along ? form->ld : 1, along ? 1 : form->ld, form->conj};
}

static dots dots_of(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  const bool swaps = gemm->m > gemm->n;
  const operand left = operand_of(&gemm->a, a, true), right = operand_of(&gemm->b, b, false);
  const mmci_ordered_tiles *tiles = mmci_ordered_tiles_here();
  dots x = {.dtype = gemm->dtype,
            .m = swaps ? gemm->n : gemm->m,
            .k = gemm->k,
            .n = swaps ? gemm->m : gemm->n,
            .pieces = (gemm->k + MMCI_PIECE_TERMS - 1) / MMCI_PIECE_TERMS,
            .a = swaps ? right : left,
            .b = swaps ? left : right,
            .c = c,
            .c_down = swaps ? 1 : gemm->ldc,
            .c_along = swaps ? gemm->ldc : 1,
            .turned = gemm->turned != swaps,
            .accumulate = gemm->accumulate,
            .parts = mmci_dtype_is_complex(gemm->dtype) ? 2 : 1,
            .element = mmc_dtype_size(gemm->dtype)};
  const bool is_wide = x.element / (size_t)x.parts == sizeof(double);
  x.real = is_wide ? sizeof(double) : sizeof(float);
  x.by = is_wide ? &tiles->lanes_f64 : &tiles->lanes_f32;
  x.lanes = x.by->count;
  return x;
}

bool mmci_ordered_dots_pay(const mmci_gemm *gemm) {
  if (gemm->sums != MMCI_SUMS_PIECES) return false;
  const dots x = dots_of(gemm, NULL, NULL, NULL);
  const bool is_half = x.element == 2;
  if (x.m == 1 && x.n >= LEAST_ROW && x.b.line == 1 && !is_half) return false;
  if (x.m == 1 && x.n > COLS) return x.b.term == 1 && x.pieces >= LEAST_PIECES && !is_half;
  return x.m <= LINES && x.n <= ELEMENTS / x.m && x.n <= COLS;
}

/* ---- packing --------------------------------------------------------------------------------- */

static int64_t least(int64_t x, int64_t y) {
  return x < y ? x : y;
}

static int64_t cols_of(const dots *x) {
  return least(x->n, COLS);
}

/* Returns the terms that are packed at a time. */
static int64_t chunk_of(const dots *x) {
  const size_t bytes = (size_t)((x->m + cols_of(x)) * x->parts * x->lanes) * x->real;
  int64_t chunk = MMCI_PIECE_TERMS;
  while (chunk > LEAST_CHUNK && bytes * (size_t)chunk > PACKED_BYTES) chunk /= 2;
  return chunk;
}

/* Returns how many of `count` terms from `begin` on a piece has. */
static int64_t terms_there(const dots *x, int64_t piece, int64_t begin, int64_t count) {
  const int64_t rest = x->k - piece * MMCI_PIECE_TERMS - begin;
  return rest <= 0 || piece >= x->pieces ? 0 : least(rest, count);
}

static char *place_of(const dots *x, const operand *from, int64_t line, int64_t piece,
                      int64_t begin) {
  const int64_t term = least(piece, x->pieces - 1) * MMCI_PIECE_TERMS + begin;
  return (char *)from->data + (line * from->line + term * from->term) * (int64_t)x->element;
}

/* Widens so many numbers of 16 bits. */
static void widen(mmc_dtype dtype, const void *of, int64_t count, float *to) {
  const uint16_t *from = of;
  if (dtype == MMC_F16)
    for (int64_t e = 0; e < count; e++) to[e] = mmci_f16_to_f32(from[e]);
  else
    for (int64_t e = 0; e < count; e++) to[e] = mmci_bf16_to_f32(from[e]);
}

/* Finds `terms` terms of `each` neighbouring reals of every lane's piece from `first` on. What is
 * not there is zeros, in spare, which has room for twice as many terms, or for those of all lanes
 * where they are widened. */
static void find_lanes(const dots *x, const operand *from, int64_t line, int64_t first,
                       int64_t begin, int64_t terms, int64_t each, char *spare,
                       const void *lanes[LANES]) {
  const size_t bytes = (size_t)(terms * each) * x->real;
  const bool is_half = x->element == 2;
  const char *zeros = NULL;
  char *free_place = spare;
  for (int l = 0; l < x->lanes; l++) {
    const int64_t there = terms_there(x, first + l, begin, terms);
    const size_t part = (size_t)(there * each) * x->real;
    const char *own = place_of(x, from, line, first + l, begin);
    if (there == terms && !is_half) {
      lanes[l] = own;
    } else if (there == 0 && zeros != NULL) {
      lanes[l] = zeros;
    } else {
      memset(free_place + part, 0, bytes - part);
      if (there > 0 && is_half)
        widen(x->dtype, own, there * each, (float *)(void *)free_place);
      else if (there > 0)
        memcpy(free_place, own, part);
      lanes[l] = free_place;
      if (there == 0) zeros = free_place;
      free_place += bytes;
    }
  }
}

/* Packs such terms; step is between packed vectors. */
static void pack_flat(const dots *x, const operand *from, int64_t line, int64_t first,
                      int64_t begin, int64_t terms, int64_t each, int64_t step, char *to,
                      char *spare) {
  const void *lanes[LANES];
  find_lanes(x, from, line, first, begin, terms, each, spare, lanes);
  x->by->turn(lanes, terms * each, to, step);
}

#define PACK_ANY(name, stored, type, widen)                                                        \
  static void name(const dots *x, const operand *from, int64_t line, int64_t lines, int64_t first, \
                   int64_t begin, int64_t terms, void *to_memory) {                                \
    type *to = to_memory;                                                                          \
    const int parts = x->parts;                                                                    \
    for (int l = 0; l < x->lanes; l++) {                                                           \
      const int64_t there = terms_there(x, first + l, begin, terms);                               \
      for (int64_t i = 0; i < lines; i++) {                                                        \
        const void *place = place_of(x, from, line + i, first + l, begin);                         \
        const stored *z = place;                                                                   \
        for (int64_t t = 0; t < terms; t++, z += parts * from->term)                               \
          for (int q = 0; q < parts; q++)                                                          \
            to[((t * parts + q) * lines + i) * x->lanes + l] = t < there ? widen(z[q]) : 0;        \
      }                                                                                            \
    }                                                                                              \
  }

PACK_ANY(pack_any_f32, float, float, )
PACK_ANY(pack_any_f64, double, double, )
PACK_ANY(pack_any_f16, uint16_t, float, mmci_f16_to_f32)
PACK_ANY(pack_any_bf16, uint16_t, float, mmci_bf16_to_f32)

static void negate(const dots *x, char *to, int64_t count) {
  if (x->real == sizeof(double))
    for (int64_t l = 0; l < count; l++) ((double *)(void *)to)[l] = -((double *)(void *)to)[l];
  else
    for (int64_t l = 0; l < count; l++) ((float *)(void *)to)[l] = -((float *)(void *)to)[l];
}

/* Packs some terms of lines of an operand, those of so many pieces side by side. spare is for what
 * a piece of fewer terms has, and for zeros. */
static lattice pack(const dots *x, const operand *from, int64_t line, int64_t lines, int64_t first,
                    int64_t begin, int64_t terms, char *to, char *spare) {
  const int parts = x->parts;
  lattice at = {lines * parts, 1, lines};
  const size_t vector = (size_t)x->lanes * x->real;
  if (from->term == 1) {
    for (int64_t i = 0; i < lines; i++)
      pack_flat(x, from, line + i, first, begin, terms, parts, lines, to + (size_t)i * vector,
                spare);
  } else if (from->line == 1 && from->term == lines) {
    at = (lattice){lines * parts, parts, 1};
    pack_flat(x, from, line, first, begin, terms, lines * parts, 1, to, spare);
  } else {
    const bool is_f16 = x->dtype == MMC_F16, is_half = x->element == 2;
    (is_half                     ? is_f16 ? pack_any_f16 : pack_any_bf16
     : x->real == sizeof(double) ? pack_any_f64
                                 : pack_any_f32)(x, from, line, lines, first, begin, terms, to);
  }
  if (parts == 2 && from->conj)
    for (int64_t t = 0; t < terms; t++)
      for (int64_t i = 0; i < lines; i++)
        negate(x, to + (size_t)(t * at.term + i * at.line + at.part) * vector, x->lanes);
  return at;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static size_t aligned(size_t bytes) {
  return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

static size_t lines_bytes(const dots *x, int64_t lines) {
  return (size_t)(lines * x->parts * x->lanes * chunk_of(x)) * x->real;
}
/* Returns the bytes of the sums of all lanes. */
static size_t sums_bytes(const dots *x) {
  return (size_t)(x->m * cols_of(x) * x->parts * x->lanes) * x->real;
}
/* A line or, where lines lie side by side, all of them are spared for every lane. */
static size_t room_bytes(const dots *x) {
  const int64_t longer = cols_of(x) > x->m ? cols_of(x) : x->m;
  return lines_bytes(x, x->m) + lines_bytes(x, cols_of(x)) + sums_bytes(x) + lines_bytes(x, longer);
}

/* Says whether the product is one element, of lines whose terms lie side by side: then its pieces
 * are not packed. */
static bool is_dot(const dots *x) {
  return x->m == 1 && x->n == 1 && x->a.term == 1 && x->b.term == 1 &&
         (x->parts == 2 ? x->by->complex_dot : x->by->real_dot) != NULL;
}

/* Computes so many terms of pieces of such a product, where spares are for their own. */
static void add_dots(const dots *x, int64_t first, int64_t begin, int64_t terms, char *spares[2],
                     char *sums) {
  const void *a[LANES], *b[LANES];
  find_lanes(x, &x->a, 0, first, begin, terms, x->parts, spares[0], a);
  find_lanes(x, &x->b, 0, first, begin, terms, x->parts, spares[1], b);
  const mmci_ordered_dot dot = {.lanes = x->lanes,
                                .count = (int)least(x->pieces - first, x->lanes),
                                .terms = terms,
                                .a = a,
                                .b = b,
                                .sums = sums,
                                .a_sign = x->a.conj ? -1 : 1,
                                .b_sign = x->b.conj ? -1 : 1,
                                .turned = x->turned};
  (x->parts == 2 ? x->by->complex_dot : x->by->real_dot)(&dot);
}

/* Computes the pieces from `first` on, one a lane, of columns col to col + cols. Returns their
 * sums, by rows, columns, parts and lanes. */
static const char *compute(const dots *x, int64_t first, int64_t col, int64_t cols, char *room) {
  char *a = room, *b = a + lines_bytes(x, x->m), *sums = b + lines_bytes(x, cols_of(x)),
       *spare = sums + sums_bytes(x);
  const size_t vector = (size_t)x->lanes * x->real;
  const int64_t chunk = is_dot(x) && x->element != 2 ? DOT_CHUNK : chunk_of(x),
                end = terms_there(x, first, 0, MMCI_PIECE_TERMS);
  memset(sums, 0, sums_bytes(x));
  for (int64_t begin = 0; begin < end; begin += chunk) {
    if (is_dot(x)) {
      add_dots(x, first, begin, chunk, (char *[2]){a, b}, sums);
      continue;
    }
    const lattice of_a = pack(x, &x->a, 0, x->m, first, begin, chunk, a, spare),
                  of_b = pack(x, &x->b, col, cols, first, begin, chunk, b, spare);
    for (int64_t i = 0; i < x->m; i += MMCI_ORDERED_LANE_LINES)
      for (int64_t j = 0; j < cols; j += MMCI_ORDERED_LANE_LINES) {
        const int64_t rows = least(x->m - i, MMCI_ORDERED_LANE_LINES),
                      columns = least(cols - j, MMCI_ORDERED_LANE_LINES);
        const mmci_ordered_lanes_fn multiply =
            (x->parts == 2 ? x->by->complex : x->by->real)[rows - 1][columns - 1];
        const mmci_ordered_lane_sums at = {a + (size_t)(i * of_a.line) * vector,
                                           b + (size_t)(j * of_b.line) * vector,
                                           sums + (size_t)((i * cols + j) * x->parts) * vector,
                                           of_a,
                                           of_b,
                                           cols * x->parts,
                                           x->turned};
        multiply(chunk, &at);
      }
  }
  return sums;
}

/* Defines how sums of so many lanes are added, lane by lane, to the sums of all pieces before, and
 * how a sum is stored. */
#define SUMS(suffix, type)                                                        \
  static void add_##suffix(int64_t elements, int lanes, int count, bool is_first, \
                           const void *of_sums, void *of_all) {                   \
    const type *sums = of_sums;                                                   \
    type *all = of_all;                                                           \
    for (int64_t e = 0; e < elements; e++) {                                      \
      type sum = is_first ? sums[e * lanes] : all[e];                             \
      for (int l = is_first; l < count; l++) sum += sums[e * lanes + l];          \
      all[e] = sum;                                                               \
    }                                                                             \
  }
SUMS(f32, float)
SUMS(f64, double)

static float settled_f32(float x) {
  return x == x ? x + 0.0F : NAN;
}
static double settled_f64(double x) {
  return x == x ? x + 0.0 : (double)NAN;
}

static void store_real(const dots *x, int64_t at, const void *sum) {
  const bool adds = x->accumulate;
  if (x->real == sizeof(double)) {
    double *to = (double *)(void *)x->c + at;
    *to = settled_f64(adds ? *to + *(const double *)sum : *(const double *)sum);
    return;
  }
  const float own = *(const float *)sum;
  if (x->element != 2) {
    float *to = (float *)(void *)x->c + at;
    *to = settled_f32(adds ? *to + own : own);
    return;
  }
  const bool is_f16 = x->dtype == MMC_F16;
  uint16_t *to = (uint16_t *)(void *)x->c + at;
  const float before = is_f16 ? mmci_f16_to_f32(*to) : mmci_bf16_to_f32(*to),
              all = settled_f32(adds ? before + own : own);
  *to = is_f16 ? mmci_f16_round(all) : mmci_bf16_round(all);
}

/* Adds the sums of a group of pieces to those before it, and writes them after the last. */
static void add_group(const dots *x, int64_t first, int64_t col, int64_t cols, const void *sums,
                      char *all) {
  const int count = (int)least(x->pieces - first, x->lanes);
  const int64_t elements = x->m * cols * x->parts;
  (x->real == sizeof(double) ? add_f64 : add_f32)(elements, x->lanes, count, first == 0, sums, all);
  if (first + count < x->pieces) return;
  for (int64_t i = 0; i < x->m; i++)
    for (int64_t j = 0; j < cols; j++)
      for (int q = 0; q < x->parts; q++)
        store_real(x, (i * x->c_down + (col + j) * x->c_along) * x->parts + q,
                   all + (size_t)((i * cols + j) * x->parts + q) * x->real);
}

/* ---- products -------------------------------------------------------------------------------- */

static int64_t groups_of(const dots *x) {
  return (x->pieces + x->lanes - 1) / x->lanes;
}
static int64_t blocks_of(const dots *x) {
  return (x->n + COLS - 1) / COLS;
}

void mmci_ordered_dots_small(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  /* Chunks of the fewest terms may take more than PACKED_BYTES. */
  enum {
    VECTOR_BYTES = LANES * sizeof(float),
    ALL_LINES = LINES + 2 * COLS,
    ROOM = (PACKED_BYTES > ALL_LINES * 2 * LEAST_CHUNK * VECTOR_BYTES
                ? 2 * PACKED_BYTES
                : ALL_LINES * 2 * LEAST_CHUNK * VECTOR_BYTES) +
           ELEMENTS * 2 * VECTOR_BYTES
  };
  _Alignas(LINE_BYTES) char room[ROOM];
  _Alignas(LINE_BYTES) char all[ELEMENTS * 2 * sizeof(double)] = {0};
  const dots x = dots_of(gemm, a, b, c);
  for (int64_t col = 0; col < x.n; col += COLS) {
    const int64_t cols = least(COLS, x.n - col);
    for (int64_t first = 0; first < x.pieces; first += x.lanes)
      add_group(&x, first, col, cols, compute(&x, first, col, cols, room), all);
  }
}

int64_t mmci_ordered_dots_units(const mmci_gemm *gemm) {
  const dots x = dots_of(gemm, NULL, NULL, NULL);
  return groups_of(&x) * blocks_of(&x);
}

size_t mmci_ordered_dots_bytes(const mmci_gemm *gemm, int threads) {
  const dots x = dots_of(gemm, NULL, NULL, NULL);
  return aligned(room_bytes(&x)) * (size_t)threads +
         sums_bytes(&x) * (size_t)(groups_of(&x) * blocks_of(&x));
}

/* A product that threads share. */
typedef struct sharing {
  const dots *dots;
  char *room, *sums; /* sums of every unit */
  atomic_bool stopped;
  atomic_llong done;
} sharing;

static void compute_shared(void *user, int worker, int64_t unit) {
  sharing *s = user;
  const dots *x = s->dots;
  /* The caller is worker 0, whose work can be stopped. */
  if (worker == 0 && mmci_interrupted()) atomic_store(&s->stopped, true);
  if (atomic_load_explicit(&s->stopped, memory_order_relaxed)) return;
  const int64_t col = unit / groups_of(x) * COLS, first = unit % groups_of(x) * x->lanes;
  char *room = s->room + aligned(room_bytes(x)) * (size_t)worker;
  const char *sums = compute(x, first, col, least(COLS, x->n - col), room);
  memcpy(s->sums + (size_t)unit * sums_bytes(x), sums, sums_bytes(x));
  const long long done = atomic_fetch_add(&s->done, 1) + 1;
  if (worker == 0) mmci_interrupt_done((double)done / (double)(groups_of(x) * blocks_of(x)));
}

bool mmci_ordered_dots(const mmci_gemm *gemm, int threads, const void *a, const void *b, void *c,
                       void *room) {
  const dots x = dots_of(gemm, a, b, c);
  const int64_t groups = groups_of(&x), units = groups * blocks_of(&x);
  sharing s = {.dots = &x, .room = room};
  _Alignas(LINE_BYTES) char all[ELEMENTS * 2 * sizeof(double)] = {0};
  s.sums = s.room + aligned(room_bytes(&x)) * (size_t)threads;
  mmci_share(threads, units, compute_shared, &s);
  if (atomic_load(&s.stopped)) return false;
  for (int64_t unit = 0; unit < units; unit++) {
    const int64_t col = unit / groups * COLS;
    add_group(&x, unit % groups * x.lanes, col, least(COLS, x.n - col),
              s.sums + (size_t)unit * sums_bytes(&x), all);
  }
  return true;
}
