/* integer_loops.h: what is done with integers element by element, in the vectors that the processor
 * has: products of few of them, and what comes before and after products of their digits.
 *
 * An integer is the sum of its digits times powers of 2^bits. All digits but the last are
 * -2^(bits-1) to 2^(bits-1) - 1, or 0 to 2^bits - 1 where integers are unsigned; the last is what
 * is left.
 *
 * Or a sum of products is known by up to three others, MMCI_WORDS of them: modulo 2^64, nearly, in
 * doubles, and modulo MMCI_WORD_PRIME. An integer becomes a word of 64 bits, a double, and a
 * residue around 0. */
#ifndef MMCI_INTEGER_LOOPS_H
#define MMCI_INTEGER_LOOPS_H

#include "device/device.h"

enum { MMCI_DIGITS = 4, MMCI_DIGIT_CLASSES = 2 * MMCI_DIGITS - 1 };

/* The prime is so small that the sum of 2^11 products of residues is below 2^63. */
enum { MMCI_WORDS = 3, MMCI_WORD_PRIME = (1 << 27) - 39 };

/* How integers become digits. */
typedef struct mmci_integer_split {
  mmc_dtype dtype;  /* as which elements are read */
  int words;        /* 0, or so many of MMCI_WORDS are made instead of digits */
  uint64_t modulus; /* 0, or elements are reduced to residues around 0 first */
  bool is_unsigned; /* digits are 0 to 2^bits - 1; integers that are not may be as large as 2^63 */
  int count, bits;
  bool single; /* digits are floats, else doubles */
} mmci_integer_split;

/* Sums of products of digits, those of 2^(t * bits) in sums[t], and what becomes of them. */
typedef struct mmci_integer_join {
  mmc_dtype dtype;
  mmci_rule rule;
  bool accumulate;
  int classes, bits;
  const int64_t *sums[MMCI_DIGIT_CLASSES];
} mmci_integer_join;

/* Bytes from one product's matrix to the next one's. */
typedef struct mmci_integer_steps {
  int64_t a, b, c;
} mmci_integer_steps;

typedef struct mmci_integer_loops {
  /* Returns the greatest absolute value of count elements. */
  uint64_t (*magnitude)(mmc_dtype dtype, const void *data, int64_t count);
  /* Writes digit d of count elements to digits[d], floats or doubles. */
  void (*split)(const mmci_integer_split *how, const void *from, int64_t count,
                void *const *digits);
  /* Writes words, doubles and residues of count elements to out, as many of these as are asked
   * for. */
  void (*widen)(const mmci_integer_split *how, const void *from, int64_t count, void *const *out);
  /* Adds count sums of products, which are integers, to as many; replaces them when is_first. */
  void (*gather)(bool single, const void *products, int64_t count, bool is_first, int64_t *sums);
  /* Adds the integers that are known by so many products of words, as four digits of 32 bits each
   * in sums[0] to sums[3]; those that one product knows, to sums[0], which wraps around. */
  void (*gather_words)(int words, const void *const *products, int64_t count, bool is_first,
                       int64_t *const *sums);
  /* Writes count elements from index on of the sums. Returns false when one exceeds the dtype that
   * the rule has checked. */
  bool (*join)(const mmci_integer_join *how, int64_t index, int64_t count, void *out);
  /* Computes count products, without a rule or modulo a number. */
  void (*multiply)(const mmci_gemm *gemm, const mmci_integer_steps *steps, int64_t count,
                   const void *a, const void *b, void *c);
} mmci_integer_loops;

/* Returns the fastest loops that this processor runs. */
const mmci_integer_loops *mmci_integer_loops_here(void);

extern const mmci_integer_loops mmci_integer_loops_portable;
#if defined(__x86_64__)
extern const mmci_integer_loops mmci_integer_loops_avx2, mmci_integer_loops_avx512;
#endif

#endif
