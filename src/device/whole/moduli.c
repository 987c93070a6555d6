/* moduli.c: the tables of residues, computed exactly. */
#include "device/whole/moduli.h"

#include <math.h>
#include <string.h>

/* The greatest numbers up to 256 of which no two have a common divisor. */
static const int32_t MODULI[MMCI_MODULI] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227,
                                            223, 217, 211, 199, 197, 193, 191, 181, 179, 173};

/* Returns x modulo p, the residue of least magnitude; of an even p -p/2, not p/2. */
static int32_t residue_of(int64_t x, int32_t p) {
  int64_t r = x % p;
  if (r < 0) r += p;
  return (int32_t)(2 * r >= p ? r - p : r);
}

static int32_t inverse_of(int64_t x, int32_t p) {
  for (int32_t y = 1; y < p; y++)
    if ((x * y - 1) % p == 0) return residue_of(y, p);
  return 0;
}

static void fill_modulus(int32_t p, mmci_modulus *out) {
  int64_t power = 1;
  *out = (mmci_modulus){{0, 0}, p, (int32_t)(((INT64_C(1) << 38) + p / 2) / p), 1 / (float)p};
  for (int i = 0; i < 8; i++) {
    out->weights[i / 4] |= (uint32_t)(uint8_t)residue_of(power, p) << 8 * (i % 4);
    power = residue_of(power * 256, p);
  }
}

/* Writes q / p, modulo 1, with 80 bits behind the point, rounded. */
static void fill_share(int32_t q, int32_t p, mmci_modulus_share *out) {
  const uint64_t numerator = (uint64_t)(q < 0 ? q + p : q) << 40, by = (uint64_t)p;
  const uint64_t high = numerator / by, low = ((numerator % by << 40) + by / 2) / by;
  out->fraction = high << 24 | low >> 16;
  out->beyond = (uint32_t)(low & 0xffff);
  out->turns = (int64_t)llround((double)q / p * 0x1p48);
}

/* Doubles hold 53 bits of a product of 155: it is a number of four words of 40 bits. */
typedef struct wide {
  uint64_t word[4];
} wide;

static wide wide_times(wide x, uint32_t by) {
  uint64_t carry = 0;
  for (int w = 0; w < 4; w++) {
    const uint64_t all = x.word[w] * by + carry;
    x.word[w] = all & ((UINT64_C(1) << 40) - 1);
    carry = all >> 40;
  }
  return x;
}

static void wide_parts(wide x, double out[2]) {
  double high = 0, low = 0;
  for (int w = 3; w >= 0; w--) {
    const double part = ldexp((double)x.word[w], 40 * w), sum = high + part;
    low += part - (sum - high); /* high is 0 or the greater one */
    high = sum;
  }
  out[0] = high + low;
  out[1] = low - (out[0] - high);
}

/* Two rows of this length have a product below M / 2, with room for what bounds are off by. */
static double reach_of(double product) {
  return sqrt(product * 0.499);
}

double mmci_moduli_reach(int count) {
  double product = 1;
  for (int m = 0; m < count; m++) product *= MODULI[m];
  return reach_of(product);
}

void mmci_moduli_fill(mmci_moduli *out) {
  memset(out, 0, sizeof *out);
  for (int m = 0; m < MMCI_MODULI; m++) fill_modulus(MODULI[m], &out->modulus[m]);
  wide product = {{1, 0, 0, 0}};
  for (int count = 1; count <= MMCI_MODULI; count++) {
    product = wide_times(product, (uint32_t)MODULI[count - 1]);
    out->product[count] = product.word[0] + (product.word[1] << 40);
    wide_parts(product, out->product_parts[count]);
    out->reach[count] = reach_of(out->product_parts[count][0]);
    for (int m = 0; m < count; m++) {
      const int32_t p = MODULI[m];
      int64_t others = 1;
      uint64_t whole = 1;
      for (int o = 0; o < count; o++)
        if (o != m) {
          others = residue_of(others * MODULI[o], p);
          whole *= (uint64_t)MODULI[o];
        }
      const int32_t q = inverse_of(others, p);
      fill_share(q, p, &out->share[count][m]);
      out->share[count][m].whole = whole * (uint64_t)(int64_t)q;
    }
  }
}

/* ---- sums modulo a number -------------------------------------------------------------------- */

/* Returns x by modulo p, where x is below p and by is small. */
static uint64_t times_modulo(uint64_t x, uint32_t by, uint64_t p) {
  uint64_t sum = 0;
  for (int bit = 8; bit >= 0; bit--) {
    sum = 2 * sum >= p ? 2 * sum - p : 2 * sum;
    if ((by >> bit & 1) != 0) sum = sum + x >= p ? sum + x - p : sum + x;
  }
  return sum;
}

static int64_t quotient_of(uint64_t x, uint64_t p) {
  return (int64_t)llround((double)x / (double)p * 0x1p48);
}

void mmci_moduli_take_sums(mmci_moduli *moduli, uint64_t modulus) {
  moduli->sums = modulus;
  for (int count = 1; count <= MMCI_MODULI; count++) {
    uint64_t product = 1 % modulus;
    for (int m = 0; m < count; m++) product = times_modulo(product, (uint32_t)MODULI[m], modulus);
    moduli->product[count] = product;
    moduli->product_quotient[count] = quotient_of(product, modulus);
    for (int m = 0; m < count; m++) {
      const int32_t p = MODULI[m];
      int64_t others = 1;
      uint64_t whole = 1 % modulus;
      for (int o = 0; o < count; o++)
        if (o != m) {
          others = residue_of(others * MODULI[o], p);
          whole = times_modulo(whole, (uint32_t)MODULI[o], modulus);
        }
      const int32_t q = inverse_of(others, p);
      whole = times_modulo(whole, (uint32_t)(q < 0 ? -q : q), modulus);
      if (q < 0 && whole != 0) whole = modulus - whole;
      moduli->share[count][m].whole = whole;
      moduli->share[count][m].quotient = quotient_of(whole, modulus);
    }
  }
}
