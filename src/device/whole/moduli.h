/* moduli.h: the moduli of residues that are a byte each, and their tables. */
#ifndef MMCI_WHOLE_MODULI_H
#define MMCI_WHOLE_MODULI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MMCI_MODULI = 20 /* how many there are */ };

/* One modulus. Byte i of `weights` is 256^i by it; of all residues that with the least magnitude is
 * meant. */
typedef struct mmci_modulus {
  uint32_t weights[2];
  int32_t modulus;
  int32_t reciprocal; /* 2^38 / modulus */
  float inverse;
} mmci_modulus;

/* What a residue counts in a sum of a number of moduli whose product is M: x is the sum of the
 * residues times `whole`, modulo M, and x / M the sum of them times the fraction, modulo 1. */
typedef struct mmci_modulus_share {
  uint64_t fraction; /* the first 64 bits behind the point */
  uint32_t beyond;   /* the next 16 */
  uint32_t unused;
  uint64_t whole;   /* modulo 2^64, or the modulus of sums */
  int64_t turns;    /* the fraction from -1/2 to 1/2, of 2^48 */
  int64_t quotient; /* whole by the modulus of sums, of 2^48; 0 without one */
} mmci_modulus_share;

/* The tables, in memory of the device. Those of `count` moduli have the index count. */
typedef struct mmci_moduli {
  mmci_modulus modulus[MMCI_MODULI];
  mmci_modulus_share share[MMCI_MODULI + 1][MMCI_MODULI];
  uint64_t product[MMCI_MODULI + 1]; /* modulo 2^64, or the modulus of sums */
  int64_t product_quotient[MMCI_MODULI + 1];
  uint64_t sums; /* what sums are taken modulo, up to 2^63 - 1; 0: 2^64 */
  double product_parts[MMCI_MODULI + 1][2]; /* as the sum of two doubles */
  double reach[MMCI_MODULI + 1]; /* two rows of this length have a product that is known */
} mmci_moduli;

/* Returns the length of two rows whose product is known by so many moduli, 1 to MMCI_MODULI. */
double mmci_moduli_reach(int count);
/* Fills the tables. */
void mmci_moduli_fill(mmci_moduli *out);
/* Lets sums be taken modulo a number, 1 to 2^63 - 1, where they were taken modulo 2^64. */
void mmci_moduli_take_sums(mmci_moduli *moduli, uint64_t modulus);

#ifdef __cplusplus
}
#endif

#endif
