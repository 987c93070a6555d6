#include "device/blas/integer_gemm.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/interrupt.h"
#include "device/blas/cblas_table.h"
#include "device/blas/integer_loops.h"
#include "device/blas/ordered.h"
#include "device/blas/ordered_tiles.h"
#include "device/blas/workers.h"
#include "device/ref/ref_integer.h"

/* The sides of a block: its digits make enough multiplications, and take 8 MiB each. */
enum { SIDE = 1024 };

/* Products with fewer multiplications, or a side of so few elements, are done directly, and with
 * still more those of so few terms, whose rows of B are added to rows of C; modulo a number, which
 * is slow, those with still fewer. */
static const double direct_mkn = 40 * 40 * 40, direct_thin_mkn = 1 << 20,
                    direct_truths_mkn = 1 << 30, direct_residues_mkn = 10 * 10 * 10;
enum { DIRECT_SIDE = 4, DIRECT_TERMS = 8 };

/* How integers of both operands are split: into digits, or into words. */
typedef struct digits {
  int words; /* so many products of words, or 0 */
  bool single;
  int a, b, bits;
  int64_t k_most; /* so many products of digits have an exact sum, or one that words know */
  int classes;
} digits;

/* What is known of a product before it is done. */
typedef struct problem {
  const mmci_gemm *gemm;
  mmc_dtype as;       /* as which elements are read */
  int bits;           /* of a result that are asked for; 0 means all */
  uint64_t most[2];   /* of the elements of A and of B, or of their residues */
  bool is_reduced[2]; /* residues are taken */
  digits digits;
  const mmci_integer_loops *loops;
  int workers;
} problem;

/* ---- how to split -------------------------------------------------------------------------- */

/* Adds of a float and of a double are exact up to these. */
static const double exact_sum[] = {[false] = 0x1p53, [true] = 0x1p24};

/* Says whether elements may exceed 2^63: those of u64 that are no residues, nor half of any. */
static bool has_unsigned_digits(const problem *x) {
  return x->as == MMC_U64 && x->gemm->rule.modulus == 0;
}

/* Returns the greatest digit of integers up to most in so many digits. */
static double greatest_digit(uint64_t most, bool is_unsigned, int count, int bits) {
  if (count == 1) return (double)most;
  int shift = bits * (count - 1);
  double last = (shift < 64 ? (double)(most >> shift) : 0) + 1;
  double other = is_unsigned ? ldexp(1, bits) : ldexp(1, bits - 1);
  return fmax(last, other);
}

/* Says whether the product of digits i and j is asked for. */
static bool is_wanted(const problem *x, const digits *d, int i, int j) {
  return x->bits == 0 || d->bits * (i + j) < x->bits;
}

/* The time of conversions and additions, in multiplications of a double product, as measured on two
 * cores of 2022. */
static const double convert_price = 60, gather_price = 60;

/* Completes a choice and prices it; INFINITY when sums would not be exact. */
static double price_of(const problem *x, digits *d) {
  const mmci_gemm *gemm = x->gemm;
  const bool is_unsigned = has_unsigned_digits(x);
  const double m = (double)gemm->m, k = (double)gemm->k, n = (double)gemm->n;
  double digit = greatest_digit(x->most[0], is_unsigned, d->a, d->bits) *
                 greatest_digit(x->most[1], is_unsigned, d->b, d->bits);
  double k_most = digit > 0 ? floor(exact_sum[d->single] / digit) : SIDE;
  d->k_most = k_most < SIDE ? (int64_t)k_most : SIDE;
  d->classes = 0;
  int pairs = 0;
  for (int i = 0; i < d->a; i++)
    for (int j = 0; j < d->b; j++) {
      if (!is_wanted(x, d, i, j)) continue;
      pairs++;
      d->classes = d->classes > i + j + 1 ? d->classes : i + j + 1;
    }
  if ((double)d->k_most < fmin(k, 32)) return (double)INFINITY;
  double panels = ceil(k / (double)d->k_most);
  if (panels * pairs > 512) return (double)INFINITY; /* the sums of all must stay below 2^63 */
  double multiply = m * n * k * pairs * (d->single ? 0.5 : 1);
  double convert = convert_price * (m * k * d->a + k * n * d->b);
  return multiply + convert + gather_price * m * n * (panels * d->classes + 1);
}

const mmci_word_prices *mmci_integer_prices_of_test = NULL;

static pthread_once_t prices_once = PTHREAD_ONCE_INIT;
static mmci_word_prices prices_here;

/* AMD's processors multiply words of 64 bits in one operation, Intel's in three; those of 32 bits
 * in one and two. AVX2 has none of 64 bits. An OpenBLAS that does not know AVX-512 takes twice the
 * operations. */
static void find_prices(void) {
  prices_here = (mmci_word_prices){(double)INFINITY, (double)INFINITY, 1};
#if defined(__x86_64__)
  const bool is_amd = __builtin_cpu_is("amd");
  if (mmci_ordered_tiles_here() == &mmci_ordered_tiles_avx512) {
    const double of_blas = mmci_blas.has_old_kernels ? 0.5 : 1;
    prices_here =
        (mmci_word_prices){of_blas * (is_amd ? 0.5 : 1), of_blas * (is_amd ? 1 : 3), of_blas};
  } else if (mmci_ordered_tiles_here() == &mmci_ordered_tiles_avx2) {
    prices_here = (mmci_word_prices){1, 8, 1};
  }
#endif
}

/* Returns the prices of this processor, or those that a test has set. */
static mmci_word_prices word_prices(void) {
  pthread_once(&prices_once, find_prices);
  return mmci_integer_prices_of_test != NULL ? *mmci_integer_prices_of_test : prices_here;
}

bool mmci_integer_is_words(const mmci_gemm *gemm) {
  if (gemm->rule.modulus != 0 || gemm->rule.checked || gemm->dtype == MMC_BOOL) return false;
  const mmci_word_prices prices = word_prices();
  const size_t size = mmc_dtype_size(gemm->dtype);
  /* One product of floats does for bytes; for more it takes one of doubles at the least. */
  return size == 8 ? prices.wide <= 1 : prices.narrow <= (size == 1 ? 0.5 : 1);
}

/* Returns what a sum of so many products can be away from that of doubles, in whatever order they
 * are added, and from the sum that both come from. */
static double error_of(const problem *x, double k) {
  const double sum = k * (double)x->most[0] * (double)x->most[1];
  return (k + 4) * sum * 0x1.02p-53 + 0x1p12;
}

/* Returns how many products of integers have a sum that so many products of words know. */
static int64_t words_reach(const problem *x, int words) {
  const uint64_t half = MMCI_WORD_PRIME / 2;
  const double most = words == 2 ? 0x1p62 : (double)(half - 16) * 0x1p64;
  int64_t k = SIDE;
  while (k > 0 && error_of(x, (double)k) > most) k /= 2;
  return k;
}

/* Completes a choice of words and prices it. */
static double price_of_words(const problem *x, digits *d) {
  const mmci_gemm *gemm = x->gemm;
  const double m = (double)gemm->m, k = (double)gemm->k, n = (double)gemm->n;
  const mmci_word_prices prices = word_prices();
  d->a = d->b = d->words;
  d->classes = d->words == 1 ? 1 : 4;
  d->bits = 32;
  d->k_most = d->words == 1 ? SIDE : words_reach(x, d->words);
  if ((double)d->k_most < fmin(k, 64)) return (double)INFINITY;
  if (d->words == 1 && x->bits == 0 && k * (double)x->most[0] * (double)x->most[1] >= 0x1.fp62)
    return (double)INFINITY;
  const double multiply =
      m * n * k * ((d->words < 3 ? 1 : 2) * prices.wide + (d->words > 1) * prices.doubles);
  const double convert = convert_price * (m * k + k * n) * d->words;
  return multiply + convert + gather_price * m * n * (ceil(k / (double)d->k_most) * d->classes + 1);
}

static int length_of(uint64_t most) {
  return most > 0 ? 64 - __builtin_clzll(most) : 1;
}

/* Finds the cheapest split. bool is no ring of words. Digits of a few more bits than are needed
 * make fewer pairs of them reach the bits that are asked for. */
static digits choose(const problem *x) {
  digits best = {.single = true, .a = 1, .b = 1}, d = best;
  double least = price_of(x, &best);
  d.single = false;
  for (d.words = 1; d.words <= MMCI_WORDS && x->gemm->dtype != MMC_BOOL; d.words++) {
    double price = price_of_words(x, &d);
    if (price < least) {
      least = price;
      best = d;
    }
  }
  d.words = 0;
  for (d.a = 1; d.a <= MMCI_DIGITS; d.a++)
    for (d.b = 1; d.b <= MMCI_DIGITS; d.b++) {
      int of_a = (length_of(x->most[0]) + d.a - 1) / d.a;
      int of_b = (length_of(x->most[1]) + d.b - 1) / d.b;
      int bits = d.a == 1 ? of_b : d.b == 1 ? of_a : of_a > of_b ? of_a : of_b;
      for (int more = 0; more < 3; more++) {
        d.bits = bits + more;
        if (d.bits > 52) continue;
        double price = price_of(x, &d);
        if (price < least) {
          least = price;
          best = d;
        }
      }
    }
  return best;
}

double mmci_integer_products(mmc_dtype dtype) {
  const mmci_gemm free = {.dtype = dtype};
  if (mmci_integer_is_words(&free))
    return mmc_dtype_size(dtype) == 8 ? word_prices().wide : word_prices().narrow;
  switch (mmc_dtype_size(dtype)) {
    case 1:
      return 0.5;
    case 2:
      return 1;
    case 4:
      return 3;
    default:
      return 6;
  }
}

/* ---- magnitudes ---------------------------------------------------------------------------- */

/* An operand as it lies: lines of elements side by side. */
typedef struct lines {
  const char *data;
  int64_t count, length, ld;
} lines;

static lines lines_of(const void *data, const mmci_form *form, int64_t rows, int64_t cols) {
  return (lines){.data = data,
                 .count = form->trans ? cols : rows,
                 .length = form->trans ? rows : cols,
                 .ld = form->ld};
}

/* So many elements are a piece of work. */
enum { PIECE = 1 << 14 };

static int64_t lines_of_piece(int64_t length) {
  return length < PIECE ? PIECE / length : 1;
}

static int64_t pieces_of(int64_t count, int64_t length) {
  int64_t lines = lines_of_piece(length);
  return (count + lines - 1) / lines;
}

/* How many of so many lines are worked through as one: all where they lie without gaps. */
static int64_t lines_at_once(const lines *of, int64_t count) {
  return of->ld == of->length ? count : 1;
}

typedef struct look {
  const problem *problem;
  lines of;
  atomic_uint_least64_t most;
} look;

static void look_at_piece(void *user, int worker, int64_t piece) {
  look *x = user;
  const int64_t size = (int64_t)mmc_dtype_size(x->problem->as), step = lines_of_piece(x->of.length);
  int64_t end = (piece + 1) * step < x->of.count ? (piece + 1) * step : x->of.count;
  const int64_t at_once = lines_at_once(&x->of, end - piece * step);
  (void)worker;
  uint64_t most = 0;
  for (int64_t l = piece * step; l < end; l += at_once) {
    uint64_t of_line = x->problem->loops->magnitude(
        x->problem->as, x->of.data + l * x->of.ld * size, at_once * x->of.length);
    most = of_line > most ? of_line : most;
  }
  uint64_t before = atomic_load(&x->most);
  while (before < most && !atomic_compare_exchange_weak(&x->most, &before, most)) {
  }
}

static uint64_t magnitude_of(const problem *x, lines of) {
  look l = {.problem = x, .of = of};
  atomic_init(&l.most, 0);
  mmci_share(x->workers, pieces_of(of.count, of.length), look_at_piece, &l);
  return atomic_load(&l.most);
}

/* Says whether every sum fits into the dtype, by the magnitudes. */
static bool surely_fits(const problem *x) {
  double most = (double)mmci_dtype_most(x->gemm->dtype) * (1 - 0x1p-50);
  return (double)x->most[0] * (double)x->most[1] * (double)x->gemm->k <= most;
}

static mmc_dtype signed_of(mmc_dtype dtype) {
  return dtype >= MMC_U8 && dtype <= MMC_U64 ? (mmc_dtype)(dtype - MMC_U8 + MMC_I8) : dtype;
}

/* Looks at the elements, and says how they are split. Without a rule, unsigned integers are read as
 * signed ones, whose sums have the same bits and are smaller. */
static void look_at(problem *x, const void *a, const void *b, mmci_rule *rule) {
  const mmci_gemm *gemm = x->gemm;
  const lines of[] = {lines_of(a, &gemm->a, gemm->m, gemm->k),
                      lines_of(b, &gemm->b, gemm->k, gemm->n)};
  bool is_free = rule->modulus == 0 && !rule->checked;
  x->as = is_free ? signed_of(gemm->dtype) : gemm->dtype;
  for (int o = 0; o < 2; o++) {
    x->most[o] = magnitude_of(x, of[o]);
    x->is_reduced[o] = rule->modulus != 0 && x->most[o] > rule->modulus / 2;
    if (x->is_reduced[o]) x->most[o] = rule->modulus / 2;
  }
  if (rule->checked && surely_fits(x)) rule->checked = false;
  is_free = rule->modulus == 0 && !rule->checked && gemm->dtype != MMC_BOOL;
  x->bits = is_free ? 8 * (int)mmc_dtype_size(gemm->dtype) : 0;
  x->digits = choose(x);
}

/* ---- blocks -------------------------------------------------------------------------------- */

/* The digits or words of blocks, their products, of which words have several, and the sums of one;
 * all lines lie without gaps. */
typedef struct block {
  const problem *problem;
  int64_t m, k, n; /* of this block */
  void *a[MMCI_DIGITS], *b[MMCI_DIGITS], *products[MMCI_WORDS];
  int64_t *sums[MMCI_DIGIT_CLASSES];
  bool is_first[MMCI_DIGIT_CLASSES];
} block;

typedef struct conversion {
  const problem *problem;
  lines of;
  int64_t size; /* of a digit, in bytes */
  mmci_integer_split how;
  void *const *digits;
} conversion;

static void convert_piece(void *user, int worker, int64_t piece) {
  const conversion *x = user;
  const int64_t size = (int64_t)mmc_dtype_size(x->how.dtype), step = lines_of_piece(x->of.length);
  int64_t end = (piece + 1) * step < x->of.count ? (piece + 1) * step : x->of.count;
  const int64_t at_once = lines_at_once(&x->of, end - piece * step);
  (void)worker;
  for (int64_t l = piece * step; l < end; l += at_once) {
    void *digits[MMCI_DIGITS];
    for (int d = 0; d < x->how.count; d++)
      digits[d] = (char *)x->digits[d] + l * x->of.length * x->size;
    (x->how.words > 0 ? x->problem->loops->widen : x->problem->loops->split)(
        &x->how, x->of.data + l * x->of.ld * size, at_once * x->of.length, digits);
  }
}

/* Makes the digits of a part of operand o, rows x cols from (row, col) on. */
static void convert(const problem *x, int o, const void *data, int64_t row, int64_t col,
                    int64_t rows, int64_t cols, void *const *digits) {
  const mmci_form *form = o == 0 ? &x->gemm->a : &x->gemm->b;
  const int64_t size = (int64_t)mmc_dtype_size(x->as);
  int64_t first = mmci_form_place(form, row, col);
  conversion c = {.problem = x,
                  .of = lines_of((const char *)data + first * size, form, rows, cols),
                  .size = x->digits.single ? sizeof(float) : sizeof(double),
                  .how = {.dtype = x->as,
                          .modulus = x->is_reduced[o] ? x->gemm->rule.modulus : 0,
                          .words = x->digits.words,
                          .is_unsigned = has_unsigned_digits(x),
                          .count = o == 0 ? x->digits.a : x->digits.b,
                          .bits = x->digits.bits,
                          .single = x->digits.single},
                  .digits = digits};
  mmci_share(x->workers, pieces_of(c.of.count, c.of.length), convert_piece, &c);
}

/* Multiplies digits i and j of k terms from l on; to replaces the products or adds to them. */
static void multiply_digits(const block *x, int i, int j, int64_t l, int64_t k, bool adds) {
  const mmci_gemm *gemm = x->problem->gemm;
  const int a_op = gemm->a.trans ? MMCI_CBLAS_T : MMCI_CBLAS_N;
  const int b_op = gemm->b.trans ? MMCI_CBLAS_T : MMCI_CBLAS_N;
  const int64_t a_ld = gemm->a.trans ? x->m : x->k, b_ld = gemm->b.trans ? x->k : x->n;
  const int64_t a_at = gemm->a.trans ? l * a_ld : l, b_at = gemm->b.trans ? l : l * b_ld;
  if (x->problem->digits.single)
    mmci_blas.sgemm(MMCI_CBLAS_ROW_MAJOR, a_op, b_op, x->m, x->n, k, 1,
                    (const float *)x->a[i] + a_at, a_ld, (const float *)x->b[j] + b_at, b_ld, adds,
                    x->products[0], x->n);
  else
    mmci_blas.dgemm(MMCI_CBLAS_ROW_MAJOR, a_op, b_op, x->m, x->n, k, 1,
                    (const double *)x->a[i] + a_at, a_ld, (const double *)x->b[j] + b_at, b_ld,
                    adds, x->products[0], x->n);
}

typedef struct gathering {
  const block *block;
  int class;
} gathering;

static void gather_piece(void *user, int worker, int64_t piece) {
  const gathering *x = user;
  const block *b = x->block;
  const bool single = b->problem->digits.single;
  int64_t from = piece * PIECE, left = b->m * b->n - from;
  const char *products =
      (const char *)b->products[0] + from * (int64_t)(single ? sizeof(float) : sizeof(double));
  (void)worker;
  b->problem->loops->gather(single, products, left < PIECE ? left : PIECE, b->is_first[x->class],
                            b->sums[x->class] + from);
}

static void gather(block *x, int class) {
  gathering g = {x, class};
  mmci_share(x->problem->workers, (x->m * x->n + PIECE - 1) / PIECE, gather_piece, &g);
  x->is_first[class] = false;
}

/* Adds the products of all digits of a block to its sums. Products of one class and several of its
 * parts along k are summed in floating point as long as that is exact. */
static void multiply_block(block *x) {
  const problem *p = x->problem;
  const digits *d = &p->digits;
  for (int class = 0; class < d->classes; class ++) {
    int64_t terms = 0;
    for (int i = 0; i < d->a; i++) {
      int j = class - i;
      if (j < 0 || j >= d->b || !is_wanted(p, d, i, j)) continue;
      for (int64_t l = 0; l < x->k; l += d->k_most) {
        int64_t k = x->k - l < d->k_most ? x->k - l : d->k_most;
        if (terms + k > d->k_most) {
          gather(x, class);
          terms = 0;
        }
        multiply_digits(x, i, j, l, k, terms > 0);
        terms += k;
      }
    }
    if (terms > 0) gather(x, class);
  }
}

static void gather_words_piece(void *user, int worker, int64_t piece) {
  const block *x = user;
  const int64_t from = piece * PIECE, left = x->m * x->n - from;
  const void *products[MMCI_WORDS];
  int64_t *sums[MMCI_DIGIT_CLASSES];
  (void)worker;
  for (int w = 0; w < x->problem->digits.words; w++)
    products[w] = (const char *)x->products[w] + from * (int64_t)sizeof(int64_t);
  for (int t = 0; t < x->problem->digits.classes; t++) sums[t] = x->sums[t] + from;
  x->problem->loops->gather_words(x->problem->digits.words, products, left < PIECE ? left : PIECE,
                                  x->is_first[0], sums);
}

/* Multiplies the words of a block, and adds to its sums what the products know. */
static mmc_status multiply_words(block *x, mmci_ordered_room *room, mmci_error *error) {
  const mmci_gemm *of = x->problem->gemm;
  mmci_gemm gemm = {.m = x->m,
                    .k = x->k,
                    .n = x->n,
                    .a = {.ld = of->a.trans ? x->m : x->k, .trans = of->a.trans},
                    .b = {.ld = of->b.trans ? x->k : x->n, .trans = of->b.trans},
                    .ldc = x->n};
  mmc_status status = MMC_OK;
  for (int w = 0; w < x->problem->digits.words && status == MMC_OK; w++) {
    gemm.dtype = w == 1 ? MMC_F64 : MMC_I64;
    status = mmci_ordered_gemm(&gemm, mmci_ordered_threads(&gemm), x->a[w], x->b[w], x->products[w],
                               room, error);
  }
  if (status != MMC_OK) return status;
  mmci_share(x->problem->workers, (x->m * x->n + PIECE - 1) / PIECE, gather_words_piece, x);
  x->is_first[0] = false;
  return MMC_OK;
}

typedef struct joining {
  const block *block;
  mmci_integer_join how;
  char *c;
  atomic_bool exceeded;
} joining;

static void join_piece(void *user, int worker, int64_t piece) {
  joining *x = user;
  const mmci_gemm *gemm = x->block->problem->gemm;
  const int64_t n = x->block->n, m = x->block->m, step = lines_of_piece(n);
  const int64_t end = (piece + 1) * step < m ? (piece + 1) * step : m;
  (void)worker;
  for (int64_t i = piece * step; i < end; i++)
    if (!x->block->problem->loops->join(
            &x->how, i * n, n, x->c + i * gemm->ldc * (int64_t)mmc_dtype_size(gemm->dtype)))
      atomic_store(&x->exceeded, true);
}

/* Writes the block of C at c. Returns false when an element exceeds a checked dtype. */
static bool join(const block *x, const mmci_rule *rule, char *c) {
  const problem *p = x->problem;
  joining j = {.block = x,
               .how = {.dtype = p->gemm->dtype,
                       .rule = *rule,
                       .accumulate = p->gemm->accumulate,
                       .classes = p->digits.classes,
                       .bits = p->digits.bits},
               .c = c};
  for (int t = 0; t < p->digits.classes; t++) j.how.sums[t] = x->sums[t];
  atomic_init(&j.exceeded, false);
  mmci_share(p->workers, pieces_of(x->m, x->n), join_piece, &j);
  return !atomic_load(&j.exceeded);
}

/* ---- the product --------------------------------------------------------------------------- */

/* Returns the size of parts of about the same size, at most so large. */
static int64_t even(int64_t size, int64_t most) {
  int64_t parts = (size + most - 1) / most;
  return (size + parts - 1) / parts;
}

static char *part_of(char **at, int64_t elements, size_t size) {
  char *part = *at;
  *at += mmci_aligned_size((size_t)elements * size);
  return part;
}

/* Gives the parts of a block places from at on, for sides of at most m, k and n; returns the
 * end. */
static char *place(block *x, char *at, int64_t m, int64_t k, int64_t n) {
  const digits *d = &x->problem->digits;
  const size_t size = d->single ? sizeof(float) : sizeof(double);
  for (int i = 0; i < d->a; i++) x->a[i] = part_of(&at, m * k, size);
  for (int j = 0; j < d->b; j++) x->b[j] = part_of(&at, k * n, size);
  for (int w = 0; w < (d->words > 0 ? d->words : 1); w++)
    x->products[w] = part_of(&at, m * n, size);
  for (int t = 0; t < d->classes; t++)
    x->sums[t] = (int64_t *)(void *)part_of(&at, m * n, sizeof(int64_t));
  return at;
}

static mmc_status make_room(mmci_integer_room *room, size_t bytes, mmci_error *error) {
  if (bytes <= room->bytes) return MMC_OK;
  free(room->memory);
  room->bytes = 0;
  room->memory = mmci_alloc_aligned(bytes, 1);
  if (room->memory == NULL) return mmci_fail_nomem(error, bytes);
  room->bytes = bytes;
  return MMC_OK;
}

/* Returns how many terms are added up in a block. */
static int64_t depth_of(const problem *x) {
  return even(x->gemm->k, x->digits.words > 0 ? x->digits.k_most : SIDE);
}

/* Computes the block of C at (i, j), of x->m rows and x->n columns. */
static mmc_status compute_block(block *x, const mmci_rule *rule, int64_t i, int64_t j,
                                const void *a, const void *b, void *c, mmci_integer_room *room,
                                mmci_error *error) {
  const mmci_gemm *gemm = x->problem->gemm;
  const int64_t k = depth_of(x->problem);
  for (int t = 0; t < MMCI_DIGIT_CLASSES; t++) x->is_first[t] = true;
  for (int64_t l = 0; l < gemm->k; l += k) {
    x->k = gemm->k - l < k ? gemm->k - l : k;
    convert(x->problem, 0, a, i, l, x->m, x->k, x->a);
    convert(x->problem, 1, b, l, j, x->k, x->n, x->b);
    if (x->problem->digits.words == 0) {
      multiply_block(x);
    } else {
      /* Progress is that of the whole product, not of one of these. */
      mmci_interrupt nobody = {0}, *before = mmci_interrupt_begin(&nobody);
      mmc_status status = multiply_words(x, &room->ordered, error);
      mmci_interrupt_end(before);
      if (status != MMC_OK) return status;
    }
    if (mmci_interrupted()) return mmci_fail(error, MMC_E_INTERRUPTED, "stopped within a product");
  }
  char *to = (char *)c + (i * gemm->ldc + j) * (int64_t)mmc_dtype_size(gemm->dtype);
  return join(x, rule, to) ? MMC_OK : mmci_integer_overflow(gemm, error);
}

mmc_status mmci_integer_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                             mmci_integer_room *room, mmci_error *error) {
  const double elements = (double)gemm->m * (double)gemm->k + (double)gemm->k * (double)gemm->n +
                          (double)gemm->m * (double)gemm->n;
  problem p = {.gemm = gemm,
               .loops = mmci_integer_loops_here(),
               .workers = mmci_workers(elements * 1e-9, (int64_t)(elements / PIECE) + 1)};
  mmci_rule rule = gemm->rule;
  look_at(&p, a, b, &rule);
  block x = {.problem = &p};
  const int64_t m = even(gemm->m, SIDE), k = depth_of(&p), n = even(gemm->n, SIDE);
  static _Alignas(64) char origin[64]; /* sizes are counted from here, before there is memory */
  size_t bytes = (size_t)(place(&x, origin, m, k, n) - origin);
  mmc_status status = make_room(room, bytes, error);
  if (status != MMC_OK) return status;
  place(&x, room->memory, m, k, n);
  for (int64_t i = 0; i < gemm->m && status == MMC_OK; i += m)
    for (int64_t j = 0; j < gemm->n && status == MMC_OK; j += n) {
      x.m = gemm->m - i < m ? gemm->m - i : m;
      x.n = gemm->n - j < n ? gemm->n - j : n;
      status = compute_block(&x, &rule, i, j, a, b, c, room, error);
    }
  return status;
}

bool mmci_integer_is_direct(const mmci_gemm *gemm) {
  if (gemm->rule.checked) return false;
  if (gemm->rule.modulus != 0) return mmci_gemm_mkn(gemm) <= direct_residues_mkn;
  if (gemm->dtype == MMC_BOOL) return mmci_gemm_mkn(gemm) <= direct_truths_mkn;
  int64_t side = gemm->m < gemm->n ? gemm->m : gemm->n;
  if (gemm->k <= DIRECT_TERMS && !gemm->b.trans && mmci_gemm_mkn(gemm) <= direct_thin_mkn)
    return true;
  return side <= DIRECT_SIDE || mmci_gemm_mkn(gemm) <= direct_mkn;
}

void mmci_integers_multiply(const mmci_integers *x, int64_t count, const void *a, const void *b,
                            void *c) {
  const mmci_integer_steps steps = {x->a_step, x->b_step, x->c_step};
  mmci_integer_loops_here()->multiply(&x->gemm, &steps, count, a, b, c);
}

void mmci_integer_direct(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  const mmci_integers one = {.gemm = *gemm};
  mmci_integers_multiply(&one, 1, a, b, c);
}
