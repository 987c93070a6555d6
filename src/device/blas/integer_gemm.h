/* integer_gemm.h: exact products of integers, by words or by a CBLAS that has floats only.
 *
 * Words are integers of 32 or 64 bits that wrap around. Where processors multiply vectors of them
 * about as fast as doubles, products that wrap around are products of words (ordered.h), and
 * longer sums are known by two or three such products: modulo 2^64, nearly, by doubles, and modulo
 * a prime. What the first two leave open is a multiple of 2^64 that the third decides.
 *
 * Else a float holds 24 bits of an integer and a double 53, and so do sums of products below that.
 * A look at all elements says how large they are; where products of whole elements may be too
 * large, the elements are split into digits, as FFLAS-FFPACK and others do (Dumas, Giorgi and
 * Pernet 2008), and pairs of digits are multiplied: as few of them as the magnitudes seen and the
 * bits that are asked for allow. Digits of blocks are made in turn, so that the room for them is
 * bounded. */
#ifndef MMCI_INTEGER_GEMM_H
#define MMCI_INTEGER_GEMM_H

#include "device/blas/ordered.h"
#include "device/device.h"

/* What a multiplication of words of 32 bits, of 64, and of doubles takes in ordered.h, in
 * multiplications of doubles by the CBLAS; INFINITY where words are not to be multiplied. */
typedef struct mmci_word_prices {
  double narrow, wide, doubles;
} mmci_word_prices;

/* The prices that a test sets in place of this processor's; NULL outside of tests. */
extern const mmci_word_prices *mmci_integer_prices_of_test;

/* Says whether the product has no rule and is best done by words, which is what ordered.h does with
 * integers. */
bool mmci_integer_is_words(const mmci_gemm *gemm);

/* Room for the digits of one block, which grows when a product needs more; zeros at first. */
typedef struct mmci_integer_room {
  char *memory;
  size_t bytes;
  mmci_ordered_room ordered;
} mmci_integer_room;

/* Says whether the product is better done by the loops of integer_loops.h: it is small or,
 * without a rule, has a vector; it is not checked. */
bool mmci_integer_is_direct(const mmci_gemm *gemm);

/* Several products that are direct, whose matrices are so many bytes apart. */
typedef struct mmci_integers {
  mmci_gemm gemm;
  int64_t a_step, b_step, c_step;
} mmci_integers;

/* Does so many of them, or one. */
void mmci_integers_multiply(const mmci_integers *x, int64_t count, const void *a, const void *b,
                            void *c);
void mmci_integer_direct(const mmci_gemm *gemm, const void *a, const void *b, void *c);

/* Multiplies by several products of words or by the CBLAS, for any sizes above 0. Threads are those
 * that mmci_workers_provide() has made. Returns: E_OVERFLOW (where the rule is checked),
 * E_NOMEM, E_INTERRUPTED. */
mmc_status mmci_integer_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                             mmci_integer_room *room, mmci_error *error);

/* Returns how many products of doubles stand for one of the dtype, without a rule, where its
 * integers are as large as they can be; 0.5 for one of floats. */
double mmci_integer_products(mmc_dtype dtype);

#endif
