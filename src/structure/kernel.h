/* kernel.h: the kernels that compute a product whose operands have structure, and what they cost.
 *
 * A product is L R, S^-1 B or B S^-1; an operand that is to be inverted is solved with. What it
 * costs is counted in multiplications, divisions among them, and in seconds as GEMM of the same
 * sizes times a ratio. */
#ifndef MMCI_STRUCTURE_KERNEL_H
#define MMCI_STRUCTURE_KERNEL_H

#include "base/wide.h"
#include "chain/structured.h"

/* What a product costs. Of two the cheaper has fewer seconds, where seconds are asked for, and else
 * fewer multiplications. */
typedef struct mmci_structure_cost {
  mmci_u128 count;
  double seconds; /* 0 where only multiplications are asked for */
} mmci_structure_cost;

extern const mmci_structure_share mmci_structure_shares[MMCI_STRUCTURE_PIECES]; /* of no machine */
/* The shares of a device with memory of its own. */
extern const mmci_structure_share mmci_structure_device_shares[MMCI_STRUCTURE_PIECES];

/* Prices products for seconds; gemm_s is NULL where only multiplications are asked for. */
typedef struct mmci_structure_prices {
  const void *user;
  /* Returns the seconds of one GEMM. */
  double (*gemm_s)(const void *user, int64_t m, int64_t k, int64_t n);
  const mmci_structure_share *shares; /* MMCI_STRUCTURE_PIECES */
  uint32_t lacks;                     /* 1 << kernel for each one that is not there */
  double bytes_per_s, launch_s;       /* of copies, and of every call */
  int64_t element_bytes;
  bool is_complex;
} mmci_structure_prices;

/* A product of m x k by k x n, whose operands have these traits; at most one of left_inverse and
 * right_inverse holds, and says that the product is with the inverse of what the operand holds. */
typedef struct mmci_structure_product {
  int64_t m, k, n;
  uint32_t left, right;
  bool left_inverse, right_inverse;
  bool mirrored; /* the right operand is the transposed left one */
  bool banded;   /* bands are read, of what the operands hold; else only traits tell of them */
  mmc_band left_band, right_band;
} mmci_structure_product;

/* The kernel that was chosen. */
typedef struct mmci_structure_choice {
  mmci_structure_kernel kernel;
  bool right; /* the operand with structure, or that is solved with, is the right one */
  mmci_structure_cost cost;
} mmci_structure_choice;

/* Chooses the cheapest kernel. */
mmci_structure_choice mmci_structure_choose(const mmci_structure_product *product,
                                            const mmci_structure_prices *prices);
/* Writes every kernel that computes the product, the cheapest or not, and returns how many. */
enum { MMCI_STRUCTURE_CHOICES = 12 };
int mmci_structure_choices(const mmci_structure_product *product,
                           const mmci_structure_prices *prices,
                           mmci_structure_choice out[MMCI_STRUCTURE_CHOICES]);

/* Returns what SYRK costs for a product whose right operand is the left one, transposed. */
mmci_structure_cost mmci_structure_mirror(const mmci_structure_product *product,
                                          const mmci_structure_prices *prices);

/* Returns what forming the inverse of an n x n matrix costs; of a factor, which is not overwritten,
 * or of a product where it lies. */
mmci_structure_cost mmci_structure_invert(uint32_t traits, int64_t n, bool is_factor,
                                          const mmci_structure_prices *prices);

static inline mmci_structure_cost mmci_structure_add(mmci_structure_cost a, mmci_structure_cost b) {
  return (mmci_structure_cost){mmci_u128_add(a.count, b.count), a.seconds + b.seconds};
}

static inline bool mmci_structure_less(mmci_structure_cost a, mmci_structure_cost b, bool by_time) {
  return by_time ? a.seconds < b.seconds : a.count < b.count;
}

#endif
