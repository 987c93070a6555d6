#include "device/blas/whole_gemm.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/sizes.h"
#include "device/blas/cblas_table.h"
#include "device/blas/workers.h"
#include "device/whole/whole.h"

enum { SIDE = 1024, LINES = 8 /* lines that are read at a time */, FLOATS = 6, LOW_BITS = 30 };
/* The prime 2^61 - 1. */
static const uint64_t PRIME = (UINT64_C(1) << 61) - 1;
/* Primes below 2^20, so that DGEMM adds up 2^15 products of residues exactly, and whose product
 * exceeds twice any sum. */
static const int64_t PRIMES[FLOATS] = {1048573, 1048571, 1048559, 1048549, 1048517, 1048507};

/* Lines of an operand: rows of op(A) or columns of op(B). */
typedef struct side {
  const void *data;
  int64_t first, count;
  mmci_whole_row *rows;
  int64_t *numbers;     /* line by line; NULL where they go by floats, */
  double *highs, *lows; /* which are of them above 30 bits, as whole numbers, and these bits */
  bool any_left;
} side;

/* A block of C. */
typedef struct block {
  const mmci_whole *whole;
  int workers;
  bool by_floats;
  side sides[2];
  int64_t *sums;      /* modulo 2^64 */
  uint64_t *residues; /* modulo 2^61 - 1; NULL where the sums fit 64 bits, or go by floats */
  /* Residues of both sides by one of the primes, and of the sums by all of them, as doubles; NULL
   * where words are multiplied. */
  double *floats[2], *float_sums;
  int64_t inverses[FLOATS][FLOATS]; /* [p][q]: of prime q by prime p */
  double *lines;                    /* LINES for each worker */
  void *c;
} block;

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct conversion {
  const block *block;
  int which;
} conversion;

/* Finds out about lines, and makes whole numbers of them. */
static void convert_piece(void *user, int worker, int64_t piece) {
  const conversion *x = user;
  const mmci_whole *whole = x->block->whole;
  const side *s = &x->block->sides[x->which];
  const int64_t from = piece * LINES, left = s->count - from, count = left < LINES ? left : LINES;
  double *lines = x->block->lines + worker * LINES * whole->k;
  mmci_whole_read(whole, x->which, s->data, s->first + from, count, lines);
  for (int64_t l = 0; l < count; l++) {
    const double *line = lines + l * whole->k;
    mmci_whole_row *row = &s->rows[from + l];
    const int64_t at = (from + l) * whole->k;
    *row = mmci_whole_judge(whole, line);
    for (int64_t k = 0; k < whole->k; k++) {
      const int64_t number = row->left ? 0 : mmci_whole_number(line[k], row);
      if (!x->block->by_floats) {
        s->numbers[at + k] = number;
        continue;
      }
      s->highs[at + k] = (double)(number >> LOW_BITS);
      s->lows[at + k] = (double)(number & ((1 << LOW_BITS) - 1));
    }
  }
}

static void convert(block *x, int which, int64_t first, int64_t count) {
  side *s = &x->sides[which];
  conversion job = {x, which};
  s->first = first;
  s->count = count;
  mmci_share(x->workers, (count + LINES - 1) / LINES, convert_piece, &job);
  s->any_left = false;
  for (int64_t r = 0; r < count; r++) s->any_left = s->any_left || s->rows[r].left;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Returns how many of the block's workers share a product. */
static int threads_for(const block *x, const mmci_gemm *gemm) {
  const int threads = mmci_ordered_threads(gemm);
  return threads < x->workers ? threads : x->workers;
}

/* Multiplies the numbers of the block, modulo 2^64 or another modulus. */
static mmc_status multiply(const block *x, uint64_t modulus, void *to, mmci_integer_room *room,
                           mmci_error *error) {
  const mmci_gemm gemm = {.dtype = MMC_I64,
                          .rule = {.modulus = modulus},
                          .m = x->sides[0].count,
                          .k = x->whole->k,
                          .n = x->sides[1].count,
                          .a = {.ld = x->whole->k},
                          .b = {.ld = x->whole->k, .trans = true},
                          .ldc = x->sides[1].count};
  const int64_t *a = x->sides[0].numbers, *b = x->sides[1].numbers;
  /* Progress is that of the whole product, not of one of these. */
  mmci_interrupt nobody = {0}, *before = mmci_interrupt_begin(&nobody);
  mmc_status status =
      mmci_integer_is_words(&gemm)
          ? mmci_ordered_gemm(&gemm, threads_for(x, &gemm), a, b, to, &room->ordered, error)
          : mmci_integer_gemm(&gemm, a, b, to, room, error);
  mmci_interrupt_end(before);
  return status;
}

/* Returns the number that is nearest to 0 of those with the residue modulo the prime, and these
 * lowest 64 bits. 2^64 is 8 modulo the prime, and dividing by 8 there turns 61 bits by three. */
static mmci_i128 sum_of(int64_t low, uint64_t residue) {
  const int64_t below = low % (int64_t)PRIME;
  const uint64_t of_low = below < 0 ? (uint64_t)(below + (int64_t)PRIME) : (uint64_t)below;
  const uint64_t apart = residue >= of_low ? residue - of_low : residue + PRIME - of_low;
  const uint64_t high = apart >> 3 | (apart & 7) << 58;
  const int64_t times = high > PRIME / 2 ? (int64_t)high - (int64_t)PRIME : (int64_t)high;
  return (mmci_i128)low + (mmci_i128)times * ((mmci_i128)1 << 64);
}

/* ---- sums by floats -------------------------------------------------------------------------- */

/* Returns the residue of least magnitude of a number below 2^60. */
static int64_t residue_of(int64_t x, int64_t prime) {
  const int64_t r = x - llrint((double)x / (double)prime) * prime;
  return 2 * r > prime ? r - prime : 2 * r < -prime ? r + prime : r;
}

typedef struct reduction {
  const block *block;
  int which, prime;
} reduction;

/* Writes residues of least magnitude, or 1 more. All of it is exact but the quotient, which the
 * addition of 1.5 2^52 rounds. */
static void reduce_line(void *user, int worker, int64_t line) {
  static const double ROUND = 0x1.8p52;
  const reduction *x = user;
  const side *s = &x->block->sides[x->which];
  const int64_t k = x->block->whole->k;
  const double prime = (double)PRIMES[x->prime], inverse = 1 / prime,
               weight = (double)((INT64_C(1) << LOW_BITS) % PRIMES[x->prime]);
  const double *high = s->highs + line * k, *low = s->lows + line * k;
  double *to = x->block->floats[x->which] + line * k;
  (void)worker;
  for (int64_t i = 0; i < k; i++) {
    const double sum = high[i] * weight + low[i];
    to[i] = sum - ((sum * inverse + ROUND) - ROUND) * prime;
  }
}

static void multiply_floats(const block *x) {
  const int64_t m = x->sides[0].count, n = x->sides[1].count, k = x->whole->k;
  for (int p = 0; p < FLOATS; p++) {
    for (int w = 0; w < 2; w++) {
      reduction job = {x, w, p};
      mmci_share(x->workers, x->sides[w].count, reduce_line, &job);
    }
    mmci_blas.dgemm(MMCI_CBLAS_ROW_MAJOR, MMCI_CBLAS_N, MMCI_CBLAS_T, m, n, k, 1, x->floats[0], k,
                    x->floats[1], k, 0, x->float_sums + p * m * n, n);
  }
}

static int64_t inverse_of(int64_t x, int64_t prime) {
  int64_t result = 1, power = x % prime;
  for (int64_t e = prime - 2; e > 0; e /= 2) {
    if (e % 2 == 1) result = result * power % prime;
    power = power * power % prime;
  }
  return residue_of(result, prime);
}

static void fill_inverses(block *x) {
  for (int p = 0; p < FLOATS; p++)
    for (int q = 0; q < p; q++) x->inverses[p][q] = inverse_of(PRIMES[q], PRIMES[p]);
}

/* Returns the number nearest to 0 with these residues, by its digits: of the first prime, of the
 * next one, which counts as much as the first, and so on. */
static mmci_i128 sum_of_floats(const block *x, int64_t at, int64_t each) {
  int64_t digits[FLOATS];
  for (int p = 0; p < FLOATS; p++) {
    int64_t digit = residue_of((int64_t)x->float_sums[p * each + at], PRIMES[p]);
    for (int q = 0; q < p; q++)
      digit = residue_of((digit - digits[q]) * x->inverses[p][q], PRIMES[p]);
    digits[p] = digit;
  }
  mmci_i128 sum = digits[FLOATS - 1];
  for (int p = FLOATS - 2; p >= 0; p--) sum = sum * PRIMES[p] + digits[p];
  return sum;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Writes a row of the block. */
static void write_row(void *user, int worker, int64_t row) {
  const block *x = user;
  const side *down = &x->sides[0], *across = &x->sides[1];
  (void)worker;
  if (down->rows[row].left) return;
  for (int64_t j = 0; j < across->count; j++) {
    if (across->rows[j].left) continue;
    const int64_t at = row * across->count + j;
    const mmci_i128 sum = x->by_floats          ? sum_of_floats(x, at, down->count * across->count)
                          : x->residues != NULL ? sum_of(x->sums[at], x->residues[at])
                                                : (mmci_i128)x->sums[at];
    mmci_whole_write(x->whole, x->c, down->first + row, across->first + j,
                     mmci_whole_result(x->whole, &down->rows[row], &across->rows[j], sum));
  }
}

/* ---- what is left to FP64 -------------------------------------------------------------------- */

/* Room for what is left of a block. */
typedef struct rest {
  double *lines; /* the lines of a side that are left, one after the other */
  double *other; /* all lines of the other side */
  double *sums;
} rest;

/* Returns how many lines of a side are left, which it reads. */
static int64_t read_left(const block *x, int which, double *lines) {
  const side *s = &x->sides[which];
  int64_t count = 0;
  for (int64_t r = 0; r < s->count; r++)
    if (s->rows[r].left)
      mmci_whole_read(x->whole, which, s->data, s->first + r, 1, lines + count++ * x->whole->k);
  return count;
}

/* Multiplies the lines of a side that are left by all of the other one. */
static mmc_status multiply_left(const block *x, int which, const rest *at, mmci_integer_room *room,
                                mmci_error *error) {
  const mmci_whole *whole = x->whole;
  const side *mine = &x->sides[which], *other = &x->sides[1 - which];
  if (!mine->any_left) return MMC_OK;
  const int64_t count = read_left(x, which, at->lines);
  mmci_whole_read(whole, 1 - which, other->data, other->first, other->count, at->other);
  const mmci_gemm gemm = {.dtype = MMC_F64,
                          .precision = MMCI_REPRODUCIBLE,
                          .m = count,
                          .k = whole->k,
                          .n = other->count,
                          .a = {.ld = whole->k},
                          .b = {.ld = whole->k, .trans = true},
                          .ldc = other->count};
  mmci_interrupt nobody = {0}, *before = mmci_interrupt_begin(&nobody);
  mmc_status status = mmci_ordered_gemm(&gemm, threads_for(x, &gemm), at->lines, at->other,
                                        at->sums, &room->ordered, error);
  mmci_interrupt_end(before);
  const double *sums = at->sums;
  for (int64_t r = 0; status == MMC_OK && r < mine->count; r++) {
    if (!mine->rows[r].left) continue;
    for (int64_t o = 0; o < other->count; o++) {
      if (which == 1 && other->rows[o].left) continue; /* written with its row */
      const int64_t i = which == 0 ? r : o, j = which == 0 ? o : r;
      mmci_whole_write(whole, x->c, x->sides[0].first + i, x->sides[1].first + j, sums[o]);
    }
    sums += other->count;
  }
  return status;
}

static mmc_status multiply_rest(const block *x, mmci_integer_room *room, mmci_error *error) {
  const int64_t down = x->sides[0].count, across = x->sides[1].count,
                longer = down > across ? down : across;
  const size_t each = (size_t)longer * (size_t)x->whole->k,
               count = 2 * each + (size_t)down * (size_t)across;
  double *memory = mmci_alloc_array(count, sizeof *memory);
  if (memory == NULL) return mmci_fail_nomem(error, count * sizeof *memory);
  const rest at = {memory, memory + each, memory + 2 * each};
  mmc_status status = multiply_left(x, 0, &at, room, error);
  if (status == MMC_OK) status = multiply_left(x, 1, &at, room, error);
  free(memory);
  return status;
}

/* ---- the product ----------------------------------------------------------------------------- */

static char *part_of(char **at, int64_t elements, size_t size) {
  char *part = *at;
  *at += mmci_aligned_size((size_t)elements * size);
  return part;
}

/* Gives the parts of a block of at most m x n places from at on; returns the end. */
static char *place(block *x, char *at, int64_t m, int64_t n) {
  const int64_t k = x->whole->k, counts[2] = {m, n};
  for (int w = 0; w < 2; w++) {
    x->sides[w].rows = (mmci_whole_row *)(void *)part_of(&at, counts[w], sizeof *x->sides[w].rows);
    if (x->by_floats) {
      x->sides[w].highs = (double *)(void *)part_of(&at, counts[w] * k, sizeof(double));
      x->sides[w].lows = (double *)(void *)part_of(&at, counts[w] * k, sizeof(double));
    } else {
      x->sides[w].numbers = (int64_t *)(void *)part_of(&at, counts[w] * k, sizeof(int64_t));
    }
  }
  if (x->by_floats) {
    for (int w = 0; w < 2; w++)
      x->floats[w] = (double *)(void *)part_of(&at, counts[w] * k, sizeof *x->floats[w]);
    x->float_sums = (double *)(void *)part_of(&at, FLOATS * m * n, sizeof *x->float_sums);
  } else {
    x->sums = (int64_t *)(void *)part_of(&at, m * n, sizeof *x->sums);
    if (!x->whole->is_single)
      x->residues = (uint64_t *)(void *)part_of(&at, m * n, sizeof *x->residues);
  }
  x->lines = (double *)(void *)part_of(&at, x->workers * LINES * k, sizeof *x->lines);
  return at;
}

static mmc_status compute_block(block *x, mmci_integer_room *room, mmci_error *error) {
  mmc_status status = MMC_OK;
  if (x->by_floats)
    multiply_floats(x);
  else
    status = multiply(x, 0, x->sums, room, error);
  if (status == MMC_OK && x->residues != NULL)
    status = multiply(x, PRIME, x->residues, room, error);
  if (status != MMC_OK) return status;
  mmci_share(x->workers, x->sides[0].count, write_row, x);
  return x->sides[0].any_left || x->sides[1].any_left ? multiply_rest(x, room, error) : MMC_OK;
}

/* Returns the size of blocks of about the same size, at most SIDE. */
static int64_t even(int64_t size) {
  const int64_t blocks = (size + SIDE - 1) / SIDE;
  return (size + blocks - 1) / blocks;
}

static mmc_status compute(block *x, mmci_integer_room *room, mmci_error *error) {
  const mmci_whole *whole = x->whole;
  const double all = (double)whole->m * (double)whole->n;
  const int64_t m = even(whole->m), n = even(whole->n);
  double done = 0;
  for (int64_t j = 0; j < whole->n; j += n) {
    convert(x, 1, j, mmci_smaller(whole->n - j, n));
    for (int64_t i = 0; i < whole->m; i += m) {
      convert(x, 0, i, mmci_smaller(whole->m - i, m));
      mmc_status status = compute_block(x, room, error);
      if (status != MMC_OK) return status;
      done += (double)x->sides[0].count * (double)x->sides[1].count;
      mmci_interrupt_done(done / all);
      if (mmci_interrupted())
        return mmci_fail(error, MMC_E_INTERRUPTED, "stopped within a product");
    }
  }
  return MMC_OK;
}

mmc_status mmci_whole_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                           mmci_whole_room *room, mmci_integer_room *integers, mmci_error *error) {
  if (!mmci_whole_supports(gemm))
    return mmci_fail(error, MMC_E_UNSUPPORTED, "sums of whole numbers: expected k up to %d",
                     MMCI_WHOLE_K);
  mmci_whole *whole = mmci_alloc_zeroed(1, sizeof *whole);
  if (whole == NULL) return mmci_fail_nomem(error, sizeof *whole);
  mmci_whole_open(whole, gemm);
  const mmci_gemm words = {.dtype = MMC_I64};
  block x = {.whole = whole,
             .workers = mmci_ordered_threads(gemm),
             .c = c,
             .by_floats = !whole->is_single && !mmci_integer_is_words(&words)};
  if (x.by_floats) fill_inverses(&x);
  x.sides[0].data = whole->turned ? b : a;
  x.sides[1].data = whole->turned ? a : b;
  const int64_t m = even(whole->m), n = even(whole->n);
  static _Alignas(64) char origin[64]; /* sizes are counted from here, before there is memory */
  const size_t bytes = (size_t)(place(&x, origin, m, n) - origin);
  mmc_status status = MMC_OK;
  if (bytes > room->bytes) {
    free(room->memory);
    *room = (mmci_whole_room){0};
    room->memory = mmci_alloc_aligned(bytes, 1);
    if (room->memory == NULL)
      status = mmci_fail_nomem(error, bytes);
    else
      room->bytes = bytes;
  }
  if (status == MMC_OK) {
    place(&x, room->memory, m, n);
    status = compute(&x, integers, error);
  }
  free(whole);
  return status;
}
