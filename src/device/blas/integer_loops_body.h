/* integer_loops_body.h: integer_loops.h once more for every kind of vectors; the file that includes
 * it says which, and names LOOPS. The compiler finds the vectors. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "base/wide.h"
#include "device/blas/integer_loops.h"

#define INLINE static inline __attribute__((always_inline))

/* So many elements at a time go through 64 bits. */
enum { CHUNK = 256 };

/* ---- reading ------------------------------------------------------------------------------- */

#define READ(type)                                                                      \
  for (int64_t i = 0; i < count; i++) out[i] = (int64_t)((const type *)data)[from + i]; \
  break

/* Reads elements as 64 bits; those of u64 keep their bits. */
static void read_elements(mmc_dtype dtype, const void *data, int64_t from, int64_t count,
                          int64_t *out) {
  switch (dtype) {
    case MMC_I8:
      READ(int8_t);
    case MMC_I16:
      READ(int16_t);
    case MMC_I32:
      READ(int32_t);
    case MMC_U8:
      READ(uint8_t);
    case MMC_U16:
      READ(uint16_t);
    case MMC_U32:
      READ(uint32_t);
    case MMC_BOOL:
      for (int64_t i = 0; i < count; i++) out[i] = ((const uint8_t *)data)[from + i] != 0;
      break;
    default:
      READ(int64_t);
  }
}

static uint64_t magnitude(mmc_dtype dtype, const void *data, int64_t count) {
  int64_t chunk[CHUNK];
  uint64_t most = 0;
  if (dtype == MMC_BOOL) return 1;
  for (int64_t from = 0; from < count; from += CHUNK) {
    int64_t n = mmci_smaller(count - from, CHUNK);
    read_elements(dtype, data, from, n, chunk);
    for (int64_t i = 0; i < n; i++) {
      uint64_t x = (uint64_t)chunk[i];
      if (dtype != MMC_U64 && chunk[i] < 0) x = 0 - x;
      most = x > most ? x : most;
    }
  }
  return most;
}

/* ---- digits -------------------------------------------------------------------------------- */

/* Returns x less the multiple of p that its quotient in double precision is nearest to: what is
 * left is little more than half of p where the quotient is below 2^48. */
static inline int64_t left_of(int64_t x, double as_double, int64_t p) {
  const double quotient = as_double * (1.0 / (double)p);
  const int64_t multiple = (int64_t)(quotient + (quotient < 0 ? -0.5 : 0.5));
  return (int64_t)((uint64_t)x - (uint64_t)multiple * (uint64_t)p);
}

static inline int64_t residue_of(int64_t x, double as_double) {
  return left_of(x, as_double, MMCI_WORD_PRIME);
}

/* Replaces integers by residues of at most half the modulus. */
static void reduce(mmc_dtype dtype, uint64_t modulus, int64_t *x, int64_t count) {
  const int64_t p = (int64_t)modulus, half = p / 2;
  const bool is_small = modulus < 1 << 16;
  if (modulus == 1)
    for (int64_t i = 0; i < count; i++) x[i] = 0;
  else if (dtype == MMC_U64 && is_small)
    for (int64_t i = 0; i < count; i++) x[i] = (int64_t)((uint64_t)x[i] % modulus);
  else if (dtype == MMC_U64)
    for (int64_t i = 0; i < count; i++) x[i] = left_of(x[i], (double)(uint64_t)x[i], p);
  else
    for (int64_t i = 0; i < count; i++) x[i] = left_of(x[i], (double)x[i], p);
  if (is_small)
    for (int64_t i = 0; i < count; i++) x[i] = left_of(x[i], (double)x[i], p);
  for (int64_t i = 0; i < count; i++) {
    const int64_t r = x[i] > half ? x[i] - p : x[i];
    x[i] = r < -half ? r + p : r;
  }
}

static void write_digit(bool single, const int64_t *x, int64_t count, void *out, int64_t at) {
  float *singles = (float *)out + (single ? at : 0);
  double *doubles = (double *)out + (single ? 0 : at);
  if (single)
    for (int64_t i = 0; i < count; i++) singles[i] = (float)x[i];
  else
    for (int64_t i = 0; i < count; i++) doubles[i] = (double)x[i];
}

static void split(const mmci_integer_split *how, const void *from, int64_t count,
                  void *const *digits) {
  const bool is_unsigned = how->is_unsigned;
  const int64_t half = how->count > 1 ? (int64_t)1 << (how->bits - 1) : 0;
  int64_t chunk[CHUNK], digit[CHUNK];
  for (int64_t at = 0; at < count; at += CHUNK) {
    int64_t n = mmci_smaller(count - at, CHUNK);
    read_elements(how->dtype, from, at, n, chunk);
    if (how->modulus != 0) reduce(how->dtype, how->modulus, chunk, n);
    for (int d = 0; d < how->count - 1; d++) {
      const int64_t mask = 2 * half - 1;
      if (is_unsigned)
        for (int64_t i = 0; i < n; i++) {
          digit[i] = chunk[i] & mask;
          chunk[i] = (int64_t)((uint64_t)chunk[i] >> how->bits);
        }
      else
        for (int64_t i = 0; i < n; i++) {
          /* The sum wraps around in the last half of a digit before 2^63, which its carry, the sign
           * of the other way, makes good for. */
          uint64_t x = (uint64_t)chunk[i];
          digit[i] = (int64_t)((x + (uint64_t)half) & (uint64_t)mask) - half;
          chunk[i] = (chunk[i] >> how->bits) + ((chunk[i] & mask) >= half);
        }
      write_digit(how->single, digit, n, digits[d], at);
    }
    write_digit(how->single, chunk, n, digits[how->count - 1], at);
  }
}

static void widen(const mmci_integer_split *how, const void *from, int64_t count,
                  void *const *out) {
  const bool is_unsigned = how->is_unsigned;
  int64_t chunk[CHUNK];
  double doubles[CHUNK];
  for (int64_t at = 0; at < count; at += CHUNK) {
    int64_t n = mmci_smaller(count - at, CHUNK);
    read_elements(how->dtype, from, at, n, chunk);
    if (how->modulus != 0) reduce(how->dtype, how->modulus, chunk, n);
    memcpy((int64_t *)out[0] + at, chunk, (size_t)n * sizeof *chunk);
    if (how->words == 1) continue;
    if (is_unsigned)
      for (int64_t i = 0; i < n; i++) doubles[i] = (double)(uint64_t)chunk[i];
    else
      for (int64_t i = 0; i < n; i++) doubles[i] = (double)chunk[i];
    memcpy((double *)out[1] + at, doubles, (size_t)n * sizeof *doubles);
    if (how->words == 2) continue;
    int64_t *residues = (int64_t *)out[2] + at;
    for (int64_t i = 0; i < n; i++) residues[i] = residue_of(chunk[i], doubles[i]);
  }
}

static void gather(bool single, const void *products, int64_t count, bool is_first, int64_t *sums) {
  const float *singles = products;
  const double *doubles = products;
  if (single && is_first)
    for (int64_t i = 0; i < count; i++) sums[i] = (int64_t)singles[i];
  else if (single)
    for (int64_t i = 0; i < count; i++) sums[i] += (int64_t)singles[i];
  else if (is_first)
    for (int64_t i = 0; i < count; i++) sums[i] = (int64_t)doubles[i];
  else
    for (int64_t i = 0; i < count; i++) sums[i] += (int64_t)doubles[i];
}

static void add_to(int64_t *restrict sums, const int64_t *restrict more, int64_t count,
                   bool is_first) {
  if (is_first)
    memcpy(sums, more, (size_t)count * sizeof *sums);
  else
    for (int64_t i = 0; i < count; i++) sums[i] = (int64_t)((uint64_t)sums[i] + (uint64_t)more[i]);
}

/* Finds the h of count sums, which are word + 2^64 h. What is nearly the sum says h but for an
 * error below half of the prime, which the residues of both say. */
static inline void find_upper(const int64_t *restrict word, const double *restrict nearly,
                              const int64_t *restrict residue, int64_t count,
                              int64_t *restrict lowest, int64_t *restrict low,
                              int64_t *restrict lower, int64_t *restrict upper) {
  enum { OF_2_TO_32 = 1248, OF_2_TO_MINUS_64 = 131649592 };
  for (int64_t i = 0; i < count; i++) {
    const double h = (nearly[i] - (double)word[i]) * 0x1p-64;
    upper[i] = (int64_t)(h * 0x1p-32);
    const double rest = h - (double)upper[i] * 0x1p32;
    lower[i] = (int64_t)(rest + (rest < 0 ? -0.5 : 0.5));
    lowest[i] = word[i] & UINT32_MAX;
    low[i] = word[i] >> 32;
  }
  for (int64_t i = 0; i < count && residue != NULL; i++) {
    const int64_t of_sum = residue_of(residue[i], (double)residue[i]),
                  of_word = residue_of(word[i], (double)word[i]),
                  of_upper = residue_of(upper[i], (double)upper[i]),
                  h = (of_sum - of_word) * OF_2_TO_MINUS_64,
                  guess = of_upper * OF_2_TO_32 + lower[i],
                  error = residue_of(h, (double)h) - residue_of(guess, (double)guess);
    lower[i] += residue_of(error, (double)error);
  }
}

static void gather_words(int words, const void *const *products, int64_t count, bool is_first,
                         int64_t *const *sums) {
  int64_t digits[4][CHUNK];
  const int64_t *word = products[0];
  if (words == 1) {
    add_to(sums[0], word, count, is_first);
    return;
  }
  for (int64_t at = 0; at < count; at += CHUNK) {
    const int64_t n = mmci_smaller(count - at, CHUNK);
    const int64_t *residue = words == 3 ? (const int64_t *)products[2] + at : NULL;
    find_upper(word + at, (const double *)products[1] + at, residue, n, digits[0], digits[1],
               digits[2], digits[3]);
    for (int t = 0; t < 4; t++) add_to(sums[t] + at, digits[t], n, is_first);
  }
}

/* ---- results ------------------------------------------------------------------------------- */

#define WRITE(type)                                                             \
  for (int64_t i = 0; i < count; i++) {                                         \
    type *x = (type *)out + at + i;                                             \
    *x = (type)((uint64_t)from[i] + (accumulate ? (uint64_t)*x : (uint64_t)0)); \
  }                                                                             \
  break

/* Writes the lowest bits of integers, and adds them to those that are there. */
static void write_elements(mmc_dtype dtype, bool accumulate, const int64_t *from, int64_t count,
                           void *out, int64_t at) {
  switch (mmc_dtype_size(dtype)) {
    case 1:
      if (dtype == MMC_BOOL) {
        uint8_t *x = (uint8_t *)out + at;
        for (int64_t i = 0; i < count; i++) x[i] = from[i] != 0 || (accumulate && x[i] != 0);
        break;
      }
      WRITE(uint8_t);
    case 2:
      WRITE(uint16_t);
    case 4:
      WRITE(uint32_t);
    default:
      WRITE(uint64_t);
  }
}

/* Computes the lowest 64 bits of the sums. */
static void join_bits(const mmci_integer_join *how, int64_t index, int64_t count, int64_t *out) {
  for (int64_t i = 0; i < count; i++) out[i] = how->sums[0][index + i];
  for (int t = 1; t < how->classes && t * how->bits < 64; t++) {
    const int64_t *sums = how->sums[t] + index;
    for (int64_t i = 0; i < count; i++)
      out[i] = (int64_t)((uint64_t)out[i] + ((uint64_t)sums[i] << (t * how->bits)));
  }
}

/* Computes residues, 0 to p - 1, from the highest sum on: r becomes r * 2^bits + sum less a
 * multiple of p, which a quotient in double precision says well enough to leave hardly more than
 * half of p. Where there are several sums, p exceeds 2^20 and the quotient stays below 2^44. */
static void join_residues(const mmci_integer_join *how, int64_t index, int64_t count,
                          int64_t *out) {
  const int64_t p = (int64_t)how->rule.modulus;
  const double of_sum = 1 / (double)p, of_rest = (double)((int64_t)1 << how->bits) / (double)p;
  if (how->classes == 1) {
    memcpy(out, how->sums[0] + index, (size_t)count * sizeof *out);
    reduce(MMC_I64, how->rule.modulus, out, count);
  } else {
    memset(out, 0, (size_t)count * sizeof *out);
  }
  for (int t = how->classes > 1 ? how->classes - 1 : -1; t >= 0; t--) {
    const int64_t *sums = how->sums[t] + index;
    for (int64_t i = 0; i < count; i++) {
      double quotient = (double)out[i] * of_rest + (double)sums[i] * of_sum;
      uint64_t multiple = (uint64_t)(int64_t)(quotient + (quotient < 0 ? -0.5 : 0.5)) * (uint64_t)p;
      out[i] = (int64_t)(((uint64_t)out[i] << how->bits) + (uint64_t)sums[i] - multiple);
    }
  }
  for (int64_t i = 0; i < count; i++) out[i] += out[i] < 0 ? p : 0;
}

/* Adds what is there, any integers, to residues. */
static void add_residues(const mmci_integer_join *how, const void *out, int64_t at, int64_t count,
                         int64_t *residues) {
  const uint64_t p = how->rule.modulus;
  int64_t before[CHUNK];
  read_elements(how->dtype, out, at, count, before);
  reduce(how->dtype, p, before, count);
  for (int64_t i = 0; i < count; i++) {
    int64_t b = before[i] < 0 ? before[i] + (int64_t)p : before[i];
    uint64_t sum = (uint64_t)b + (uint64_t)residues[i];
    residues[i] = (int64_t)(sum >= p ? sum - p : sum);
  }
}

/* Says whether the dtype holds the sums whose lowest 64 bits are given. The sums are that integer
 * when they agree with it above bit t * bits too, for a t * bits of at most 64. */
static bool fits(const mmci_integer_join *how, int64_t index, int64_t count, const int64_t *bits) {
  const unsigned unused = 64 - 8 * (unsigned)mmc_dtype_size(how->dtype);
  const bool is_signed = mmci_dtype_is_signed(how->dtype);
  bool fit = true;
  for (int64_t i = 0; i < count; i++) {
    mmci_i128 above = how->sums[0][index + i];
    int t = 1, seen = 0;
    for (; t < how->classes && t * how->bits <= 64; t++, seen += how->bits)
      above = (above >> how->bits) + how->sums[t][index + i];
    mmci_u128 rest = 0;
    for (int h = how->classes - 1; h >= t; h--)
      rest = (rest + (mmci_u128)(mmci_i128)how->sums[h][index + i]) << how->bits;
    above = (mmci_i128)((mmci_u128)above + rest);
    uint64_t low = (uint64_t)bits[i] << unused;
    mmci_i128 value = is_signed ? (mmci_i128)((int64_t)low >> unused) : (mmci_i128)(low >> unused);
    fit &= (uint64_t)value == (uint64_t)bits[i] && value >> seen == above;
  }
  return fit;
}

static bool join(const mmci_integer_join *how, int64_t index, int64_t count, void *out) {
  int64_t chunk[CHUNK];
  bool fit = true;
  for (int64_t at = 0; at < count; at += CHUNK) {
    int64_t n = mmci_smaller(count - at, CHUNK);
    bool accumulate = how->accumulate;
    if (how->rule.modulus != 0) {
      join_residues(how, index + at, n, chunk);
      if (accumulate) add_residues(how, out, at, n, chunk);
      accumulate = false;
    } else {
      join_bits(how, index + at, n, chunk);
      if (how->rule.checked) fit &= fits(how, index + at, n, chunk);
    }
    write_elements(how->dtype, accumulate, chunk, n, out, at);
  }
  return fit;
}

/* ---- few elements -------------------------------------------------------------------------- */

/* Defines products of elements of a type, unsigned so that they wrap around. Four rows of B are
 * added to a row of C at a time, or written as the first ones: a row that is filled with zeros and
 * read at once waits for these. A transposed B is turned, unless its lines are long: then these are
 * multiplied by rows of A, which are gathered where they lie apart. */
enum { MOST_TURNED = 64 * 64, LEAST_TURNED_ROWS = 4, LEAST_DOT = 48, MOST_LINE = 512 };
#define PRODUCT(suffix, type, wide)                                                             \
  INLINE void four_##suffix(bool adds, int64_t n, const type *a, int64_t along, const type *b,  \
                            int64_t ld, type *restrict c) {                                     \
    const type *b0 = b, *b1 = b0 + ld, *b2 = b1 + ld, *b3 = b2 + ld;                            \
    const wide a0 = a[0], a1 = a[along], a2 = a[2 * along], a3 = a[3 * along];                  \
    for (int64_t j = 0; j < n; j++)                                                             \
      c[j] = (type)((adds ? c[j] : 0) + (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j])); \
  }                                                                                             \
  INLINE void one_##suffix(bool adds, int64_t n, wide a, const type *b, type *restrict c) {     \
    for (int64_t j = 0; j < n; j++) c[j] = (type)((adds ? c[j] : 0) + a * b[j]);                \
  }                                                                                             \
  static void row_##suffix(const mmci_gemm *x, const type *a, int64_t along, const type *b,     \
                           type *restrict c) {                                                  \
    const int64_t n = x->n, k = x->k, ld = x->b.ld;                                             \
    int64_t l = 0;                                                                              \
    if (!x->accumulate && k >= 4) {                                                             \
      four_##suffix(false, n, a, along, b, ld, c);                                              \
      l = 4;                                                                                    \
    } else if (!x->accumulate) {                                                                \
      one_##suffix(false, n, k > 0 ? a[0] : 0, k > 0 ? b : c, c);                               \
      l = 1;                                                                                    \
    }                                                                                           \
    for (; l + 4 <= k; l += 4) four_##suffix(true, n, a + l * along, along, b + l * ld, ld, c); \
    for (; l < k; l++) one_##suffix(true, n, a[l * along], b + l * ld, c);                      \
  }                                                                                             \
  static type dot_##suffix(int64_t k, const type *a, int64_t along, const type *b) {            \
    wide sum = 0;                                                                               \
    if (along == 1)                                                                             \
      for (int64_t l = 0; l < k; l++) sum += (wide)a[l] * b[l];                                 \
    else                                                                                        \
      for (int64_t l = 0; l < k; l++) sum += (wide)a[l * along] * b[l];                         \
    return (type)sum;                                                                           \
  }                                                                                             \
  static void multiply_##suffix(const mmci_gemm *x, const void *a, const void *b, void *c);     \
  static __attribute__((noinline)) void turned_##suffix(const mmci_gemm *x, const void *a,      \
                                                        const type *b, void *c) {               \
    type upright[MOST_TURNED];                                                                  \
    mmci_gemm y = *x;                                                                           \
    y.b = (mmci_form){.ld = x->n};                                                              \
    for (int64_t j = 0; j < x->n; j++)                                                          \
      for (int64_t l = 0; l < x->k; l++) upright[l * x->n + j] = b[j * x->b.ld + l];            \
    multiply_##suffix(&y, a, upright, c);                                                       \
  }                                                                                             \
  static void dots_##suffix(const mmci_gemm *x, const type *a, const type *b, type *c) {        \
    const int64_t down = x->a.trans ? 1 : x->a.ld, along = x->a.trans ? x->a.ld : 1;            \
    type line[MOST_LINE];                                                                       \
    const bool gathers = along != 1 && x->k <= MOST_LINE;                                       \
    for (int64_t i = 0; i < x->m; i++, c += x->ldc) {                                           \
      const type *row = gathers ? line : a + i * down;                                          \
      for (int64_t l = 0; gathers && l < x->k; l++) line[l] = a[i * down + l * along];          \
      for (int64_t j = 0; j < x->n; j++)                                                        \
        c[j] = (type)((x->accumulate ? (wide)c[j] : 0) +                                        \
                      dot_##suffix(x->k, row, gathers ? 1 : along, b + j * x->b.ld));           \
    }                                                                                           \
  }                                                                                             \
  static void multiply_##suffix(const mmci_gemm *x, const void *a, const void *b, void *c) {    \
    const int64_t down = x->a.trans ? 1 : x->a.ld, along = x->a.trans ? x->a.ld : 1;            \
    if (x->b.trans && x->m >= LEAST_TURNED_ROWS && x->k < LEAST_DOT &&                          \
        x->k * x->n <= MOST_TURNED) {                                                           \
      turned_##suffix(x, a, b, c);                                                              \
      return;                                                                                   \
    }                                                                                           \
    if (x->b.trans) {                                                                           \
      dots_##suffix(x, a, b, c);                                                                \
      return;                                                                                   \
    }                                                                                           \
    for (int64_t i = 0; i < x->m; i++)                                                          \
      row_##suffix(x, (const type *)a + i * down, along, b, (type *)c + i * x->ldc);            \
  }

PRODUCT(u8, uint8_t, unsigned)
PRODUCT(u16, uint16_t, unsigned)
PRODUCT(u32, uint32_t, uint32_t)
PRODUCT(u64, uint64_t, uint64_t)

/* Products by a column of so many terms and more are those of a row by the transposed A, whose sums
 * are of vectors. Of elements of 32 and 64 bits fewer pay. */
enum { COLUMN_TERMS = 16, COLUMN_TERMS_OF_WORDS = 8 };

static mmci_gemm row_of_column(const mmci_gemm *x) {
  mmci_gemm row = *x;
  row.m = 1;
  row.n = x->m;
  row.a = (mmci_form){.trans = true, .ld = x->b.trans ? 1 : x->b.ld};
  row.b = (mmci_form){.trans = !x->a.trans, .ld = x->a.ld};
  return row;
}

#define COLUMNS(suffix)                                                                            \
  static void columns_##suffix(const mmci_gemm *x, const mmci_integer_steps *steps, int64_t count, \
                               const char *a, const char *b, char *c) {                            \
    const mmci_gemm row = row_of_column(x);                                                        \
    for (int64_t p = 0; p < count; p++, a += steps->a, b += steps->b, c += steps->c)               \
      multiply_##suffix(&row, b, a, c);                                                            \
  }

COLUMNS(u8)
COLUMNS(u16)
COLUMNS(u32)
COLUMNS(u64)

/* In a product of truths, a line of B is a word of bits, WORD columns at a time. FIRST_PACKED of
 * its terms are packed first, as these may make all of C true, then twice as many, and at most
 * PACKED. */
enum { WORD = 64, FIRST_PACKED = 8, PACKED = 256, BYTES = 8 };

/* Returns eight truths, of which any byte but 0 is one, as the upper bits of bytes. */
INLINE uint64_t truths_of(const uint8_t *from) {
  const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
  uint64_t x;
  memcpy(&x, from, sizeof x);
  return (((x & low) + low) | x) & ~low;
}

#ifndef PACKS_BYTES
/* Returns the bits of eight truths. */
INLINE uint64_t bits_of(const uint8_t *from) {
  return (truths_of(from) >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

/* Returns the bits of 1 to WORD truths side by side. */
static uint64_t pack_bytes(const uint8_t *from, int64_t count) {
  uint64_t bits = 0;
  if (count < BYTES) {
    for (int64_t j = 0; j < count; j++) bits |= (uint64_t)(from[j] != 0) << j;
    return bits;
  }
  for (int64_t j = 0; j + BYTES <= count; j += BYTES) bits |= bits_of(from + j) << j;
  return bits | bits_of(from + count - BYTES) << (count - BYTES);
}

/* Writes 1 to WORD truths by their bits. */
static void unpack_bytes(uint64_t bits, int64_t count, uint8_t *to) {
  for (int64_t j = 0; j < count; j++) to[j] = bits >> j & 1;
}
#endif

static uint64_t pack_line(const uint8_t *from, int64_t beside, int64_t count) {
  uint64_t bits = 0;
  if (beside == 1) return pack_bytes(from, count);
  for (int64_t j = 0; j < count; j++) bits |= (uint64_t)(from[j * beside] != 0) << j;
  return bits;
}

/* Returns the line where so says a truth, without a branch, which would be foreseen half the time.
 */
INLINE uint64_t line_if(uint8_t truth, uint64_t line) {
  return (0 - (uint64_t)(truth != 0)) & line;
}

/* Adds so many terms to as many columns of C; returns whether all of these are true. */
INLINE bool add_truths(const mmci_gemm *x, int64_t terms, int64_t columns, bool is_first,
                       const uint8_t *a, const uint64_t *lines, uint8_t *c) {
  const int64_t down = x->a.trans ? 1 : x->a.ld, along = x->a.trans ? x->a.ld : 1;
  const uint64_t all = ~UINT64_C(0) >> (WORD - columns);
  uint64_t common = all;
  for (int64_t i = 0; i < x->m; i++, a += down, c += x->ldc) {
    uint64_t bits = is_first ? 0 : pack_bytes(c, columns);
    int64_t l = 0;
    for (; l + FIRST_PACKED <= terms && bits != all; l += FIRST_PACKED)
      for (int64_t t = l; t < l + FIRST_PACKED; t++) bits |= line_if(a[t * along], lines[t]);
    for (; l < terms && bits != all; l++) bits |= line_if(a[l * along], lines[l]);
    unpack_bytes(bits, columns, c);
    common &= bits;
  }
  return common == all;
}

/* Computes up to WORD columns of C. */
INLINE void multiply_truth_columns(const mmci_gemm *x, int64_t columns, const uint8_t *a,
                                   const uint8_t *b, uint8_t *c) {
  const int64_t along = x->a.trans ? x->a.ld : 1;
  const int64_t below = x->b.trans ? 1 : x->b.ld, beside = x->b.trans ? x->b.ld : 1;
  uint64_t lines[PACKED];
  bool is_first = !x->accumulate, all = false;
  int64_t terms = FIRST_PACKED;
  for (int64_t l = 0; (l < x->k && !all) || is_first; l += terms) {
    if (l > 0) terms = mmci_smaller(2 * terms, PACKED);
    terms = mmci_smaller(x->k - l, terms);
    for (int64_t t = 0; t < terms; t++) lines[t] = pack_line(b + (l + t) * below, beside, columns);
    all = add_truths(x, terms, columns, is_first, a + l * along, lines, c);
    is_first = false;
  }
}

static void multiply_truths(const mmci_gemm *given, const mmci_integer_steps *steps, int64_t count,
                            const void *left, const void *right, void *result) {
  const mmci_gemm x = *given; /* stores of bytes cannot change it */
  const uint8_t *a = left, *b = right;
  uint8_t *c = result;
  const int64_t beside = x.b.trans ? x.b.ld : 1;
  for (int64_t p = 0; p < count; p++, a += steps->a, b += steps->b, c += steps->c)
    for (int64_t j = 0; j < x.n; j += WORD)
      multiply_truth_columns(&x, mmci_smaller(x.n - j, WORD), a, b + j * beside, c + j);
}

/* Says whether one of so many terms is true in both lines. */
INLINE bool any_meets(const uint8_t *a, const uint8_t *b, int64_t terms) {
  uint8_t any = 0;
  for (int64_t t = 0; t < terms; t++) any |= (uint8_t)((a[t] != 0) & (b[t] != 0));
  return any != 0;
}

/* Says so of lines without gaps of COLUMN_TERMS terms and more: the first mostly tell. */
INLINE bool do_meet(const uint8_t *a, const uint8_t *b, int64_t k) {
  enum { AT_ONCE = 256 };
  int64_t l = 0;
  for (; l < COLUMN_TERMS; l += BYTES)
    if ((truths_of(a + l) & truths_of(b + l)) != 0) return true;
  for (; l + AT_ONCE <= k; l += AT_ONCE)
    if (any_meets(a + l, b + l, AT_ONCE)) return true;
  return any_meets(a + l, b + l, k - l);
}

/* Multiplies by a column: rows of A without gaps meet it, lines of a transposed A are added. */
static void multiply_truth_column(const mmci_gemm *x, const void *left, const void *right,
                                  void *result) {
  if (x->a.trans) {
    const mmci_gemm row = row_of_column(x);
    const mmci_integer_steps none = {0};
    multiply_truths(&row, &none, 1, right, left, result);
    return;
  }
  const uint8_t *a = left;
  uint8_t *c = result;
  for (int64_t i = 0; i < x->m; i++)
    c[i] = (x->accumulate && c[i] != 0) || do_meet(a + i * x->a.ld, right, x->k);
}

/* Defines products with few columns, whose sums stay in registers. */
enum { FEW = 8 };
#define FEW_COLUMNS(suffix, type, wide)                                                            \
  INLINE void few_##suffix(const int n, const mmci_gemm *x, const mmci_integer_steps *steps,       \
                           int64_t count, const char *a, const char *b, char *c) {                 \
    const int64_t down = x->a.trans ? 1 : x->a.ld, along = x->a.trans ? x->a.ld : 1;               \
    const int64_t below = x->b.trans ? 1 : x->b.ld, beside = x->b.trans ? x->b.ld : 1;             \
    for (int64_t p = 0; p < count; p++, a += steps->a, b += steps->b, c += steps->c)               \
      for (int64_t i = 0; i < x->m; i++) {                                                         \
        const type *row = (const type *)(const void *)a + i * down;                                \
        const type *right = (const type *)(const void *)b;                                         \
        type *to = (type *)(void *)c + i * x->ldc;                                                 \
        wide sums[FEW];                                                                            \
        for (int j = 0; j < n; j++) sums[j] = x->accumulate ? to[j] : 0;                           \
        for (int64_t l = 0; l < x->k; l++, right += below) {                                       \
          const wide left = row[l * along];                                                        \
          for (int j = 0; j < n; j++) sums[j] += left * right[j * beside];                         \
        }                                                                                          \
        for (int j = 0; j < n; j++) to[j] = (type)sums[j];                                         \
      }                                                                                            \
  }                                                                                                \
  static void several_##suffix(const mmci_gemm *x, const mmci_integer_steps *steps, int64_t count, \
                               const char *a, const char *b, char *c) {                            \
    switch (x->n) {                                                                                \
      case 1:                                                                                      \
        few_##suffix(1, x, steps, count, a, b, c);                                                 \
        return;                                                                                    \
      case 2:                                                                                      \
        few_##suffix(2, x, steps, count, a, b, c);                                                 \
        return;                                                                                    \
      case 3:                                                                                      \
        few_##suffix(3, x, steps, count, a, b, c);                                                 \
        return;                                                                                    \
      case 4:                                                                                      \
        few_##suffix(4, x, steps, count, a, b, c);                                                 \
        return;                                                                                    \
      case 5:                                                                                      \
        few_##suffix(5, x, steps, count, a, b, c);                                                 \
        return;                                                                                    \
      case 6:                                                                                      \
        few_##suffix(6, x, steps, count, a, b, c);                                                 \
        return;                                                                                    \
      case 7:                                                                                      \
        few_##suffix(7, x, steps, count, a, b, c);                                                 \
        return;                                                                                    \
      case FEW:                                                                                    \
        few_##suffix(FEW, x, steps, count, a, b, c);                                               \
        return;                                                                                    \
      default:                                                                                     \
        for (int64_t p = 0; p < count; p++, a += steps->a, b += steps->b, c += steps->c)           \
          multiply_##suffix(x, a, b, c);                                                           \
    }                                                                                              \
  }

FEW_COLUMNS(u8, uint8_t, unsigned)
FEW_COLUMNS(u16, uint16_t, unsigned)
FEW_COLUMNS(u32, uint32_t, uint32_t)
FEW_COLUMNS(u64, uint64_t, uint64_t)

/* Parts of the operands as residues, and of the sums, high * 2^64 + low. */
enum { RESIDUES = 32, RESIDUE_ROWS = 8 };
typedef uint64_t residues[RESIDUES];

/* Reads rows x cols elements from (row, col) on, as residues from 0 on. */
static void read_residues(const mmci_gemm *x, const mmci_form *form, const void *data, int64_t row,
                          int64_t col, int64_t rows, int64_t cols, residues *out) {
  const int64_t lines = form->trans ? cols : rows, length = form->trans ? rows : cols;
  const int64_t first = mmci_form_place(form, row, col);
  int64_t line[RESIDUES];
  for (int64_t l = 0; l < lines; l++) {
    read_elements(x->dtype, data, first + l * form->ld, length, line);
    reduce(x->dtype, x->rule.modulus, line, length);
    for (int64_t i = 0; i < length; i++) {
      const uint64_t residue = (uint64_t)line[i] + (line[i] < 0 ? x->rule.modulus : 0);
      out[form->trans ? i : l][form->trans ? l : i] = residue;
    }
  }
}

/* Adds products of a row of residues by as many rows of them. The upper words of sums stay below
 * the modulus, since those of products are below half of it. */
static void add_products(uint64_t modulus, int64_t k, int64_t n, const uint64_t *a,
                         const residues *b, uint64_t *restrict high, uint64_t *restrict low) {
  for (int64_t l = 0; l < k; l++)
    for (int64_t j = 0; j < n; j++) {
      const mmci_u128 sum = (mmci_u128)a[l] * b[l][j] + low[j];
      const uint64_t above = high[j] + (uint64_t)(sum >> 64);
      low[j] = (uint64_t)sum;
      high[j] = above >= modulus ? above - modulus : above;
    }
}

/* Multiplies modulo a number, rows of C by RESIDUE_ROWS from (i, j) on. */
static void multiply_part(const mmci_gemm *x, int64_t i, int64_t j, const void *a, const void *b,
                          void *c) {
  const uint64_t modulus = x->rule.modulus;
  const int64_t m = mmci_smaller(x->m - i, RESIDUE_ROWS), n = mmci_smaller(x->n - j, RESIDUES);
  residues left[RESIDUE_ROWS > RESIDUES ? RESIDUE_ROWS : RESIDUES], right[RESIDUES],
      high[RESIDUE_ROWS] = {{0}}, low[RESIDUE_ROWS] = {{0}};
  for (int64_t l = 0; l < x->k; l += RESIDUES) {
    const int64_t k = mmci_smaller(x->k - l, RESIDUES);
    read_residues(x, &x->a, a, i, l, m, k, left);
    read_residues(x, &x->b, b, l, j, k, n, right);
    for (int64_t r = 0; r < m; r++)
      add_products(modulus, k, n, left[r], (const residues *)right, high[r], low[r]);
  }
  for (int64_t r = 0; r < m; r++) {
    int64_t line[RESIDUES];
    for (int64_t q = 0; q < n; q++)
      line[q] = (int64_t)(uint64_t)((((mmci_u128)high[r][q] << 64) + low[r][q]) % modulus);
    const mmci_integer_join how = {.dtype = x->dtype, .rule = x->rule};
    const int64_t at = (i + r) * x->ldc + j;
    if (x->accumulate) add_residues(&how, c, at, n, line);
    write_elements(x->dtype, false, line, n, c, at);
  }
}

static void multiply_by_residues(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  for (int64_t j = 0; j < gemm->n; j += RESIDUES)
    for (int64_t i = 0; i < gemm->m; i += RESIDUE_ROWS) multiply_part(gemm, i, j, a, b, c);
}

static void multiply(const mmci_gemm *gemm, const mmci_integer_steps *steps, int64_t count,
                     const void *left, const void *right, void *result) {
  const char *a = left, *b = right;
  char *c = result;
  const bool has_modulus = gemm->rule.modulus != 0, is_bool = gemm->dtype == MMC_BOOL;
  const bool is_word = mmc_dtype_size(gemm->dtype) >= sizeof(uint32_t);
  const bool is_column =
      gemm->n == 1 && gemm->ldc == 1 && gemm->k >= (is_word ? COLUMN_TERMS_OF_WORDS : COLUMN_TERMS);
  const bool is_truths = is_column && is_bool && (gemm->b.trans || gemm->b.ld == 1);
  if (has_modulus || is_truths) {
    for (int64_t p = 0; p < count; p++, a += steps->a, b += steps->b, c += steps->c)
      (has_modulus ? multiply_by_residues : multiply_truth_column)(gemm, a, b, c);
    return;
  }
  if (is_bool) {
    multiply_truths(gemm, steps, count, a, b, c);
    return;
  }
  switch (mmc_dtype_size(gemm->dtype)) {
    case 1:
      (is_column ? columns_u8 : several_u8)(gemm, steps, count, a, b, c);
      break;
    case 2:
      (is_column ? columns_u16 : several_u16)(gemm, steps, count, a, b, c);
      break;
    case 4:
      (is_column ? columns_u32 : several_u32)(gemm, steps, count, a, b, c);
      break;
    default:
      (is_column ? columns_u64 : several_u64)(gemm, steps, count, a, b, c);
      break;
  }
}

const mmci_integer_loops LOOPS = {.magnitude = magnitude,
                                  .split = split,
                                  .widen = widen,
                                  .gather = gather,
                                  .gather_words = gather_words,
                                  .join = join,
                                  .multiply = multiply};
