#include "structure/kernel.h"

enum { DIAGONAL = MMC_LOWER | MMC_UPPER, TRIANGULAR = DIAGONAL };

/* ---- multiplications ------------------------------------------------------------------------ */

/* These count exactly, with dims of at most 2^62. */
static mmci_u128 wide(int64_t n) {
  return (mmci_u128)(uint64_t)n;
}

static mmci_u128 triangle(int64_t n) {
  return wide(n) * (wide(n) + 1) / 2;
}

/* n (n + 1) (n + 2) / 6: Cholesky's factors, L D L^T, and the inverse of a triangular matrix. */
static mmci_u128 pyramid(int64_t n) {
  if (n > (int64_t)1 << 40) return mmci_u128_mul(triangle(n), wide(n) / 3 + 1);
  return triangle(n) * (wide(n) + 2) / 3;
}

/* n (n^2 - 1) / 3 + n (n - 1) / 2: the factors L and U. */
static mmci_u128 lu_factors(int64_t n) {
  if (n < 1) return 0;
  if (n > (int64_t)1 << 40) return mmci_u128_mul(mmci_u128_mul(wide(n), wide(n)), wide(n) / 3 + 1);
  return wide(n) * (wide(n) * wide(n) - 1) / 3 + triangle(n - 1);
}

static mmci_u128 count_of(mmci_structure_kernel kernel, int64_t side, int64_t others, int64_t k) {
  const mmci_u128 count = wide(others);
  switch (kernel) {
    case MMCI_STRUCTURE_SCALE:
      return wide(side) * count;
    case MMCI_STRUCTURE_SYRK:
      return mmci_u128_mul(triangle(side), wide(k));
    case MMCI_STRUCTURE_TRMM:
    case MMCI_STRUCTURE_TRSM:
      return mmci_u128_mul(triangle(side), count);
    case MMCI_STRUCTURE_POSV:
    case MMCI_STRUCTURE_SYSV:
      return mmci_u128_add(pyramid(side), mmci_u128_mul(2 * triangle(side), count));
    case MMCI_STRUCTURE_GESV:
      return mmci_u128_add(lu_factors(side), mmci_u128_mul(wide(side) * wide(side), count));
    default:
      return 0;
  }
}

/* ---- seconds -------------------------------------------------------------------------------- */

static double pass_s(const mmci_structure_prices *prices, double elements) {
  return prices->launch_s + elements * (double)prices->element_bytes / prices->bytes_per_s;
}

/* Returns the time of a kernel as a share of GEMM's for the same sides. Small triangles are slow:
 * what lies beside the diagonal is a product, and blocks of the diagonal are not. */
static double share(double large, double small, int64_t side) {
  return large + small / (double)(side > 0 ? side : 1);
}

/* Shares were measured with OpenBLAS 0.3.21 in f64 on two cores, sides 100 to 1600 times 1 to 1600
 * columns (docs/structure.md). A copy of what is computed in place is a passage over it. */
static double seconds_of(const mmci_structure_prices *prices, mmci_structure_kernel kernel,
                         int64_t side, int64_t others, int64_t k) {
  if (prices->gemm_s == NULL) return 0;
  const double result = (double)side * (double)others;
  const double copies = pass_s(prices, 2 * result);
  switch (kernel) {
    case MMCI_STRUCTURE_ZERO:
      return pass_s(prices, result);
    case MMCI_STRUCTURE_COPY:
    case MMCI_STRUCTURE_SCALE:
      return copies;
    case MMCI_STRUCTURE_SYRK:
      return prices->gemm_s(prices->user, side, k, side) * share(0.5, 50, side) +
             pass_s(prices, (double)side * (double)side);
    case MMCI_STRUCTURE_TRMM:
      return prices->gemm_s(prices->user, side, side, others) * share(0.5, 20, side) + copies;
    case MMCI_STRUCTURE_TRSM:
      return prices->gemm_s(prices->user, side, side, others) * share(0.6, 230, side) + copies;
    case MMCI_STRUCTURE_POSV:
      return prices->gemm_s(prices->user, side, side, side) * share(0.2, 190, side) +
             prices->gemm_s(prices->user, side, side, others) * share(1.2, 460, side) + copies;
    case MMCI_STRUCTURE_SYSV:
      return prices->gemm_s(prices->user, side, side, side) * share(0.4, 260, side) +
             prices->gemm_s(prices->user, side, side, others) * share(1.2, 460, side) + 2 * copies;
    case MMCI_STRUCTURE_GESV:
      return prices->gemm_s(prices->user, side, side, side) * share(0.4, 350, side) +
             prices->gemm_s(prices->user, side, side, others) * share(1.2, 460, side) + copies;
    default:
      return 0;
  }
}

/* ---- the choice ----------------------------------------------------------------------------- */

typedef struct choices {
  const mmci_structure_product *product;
  const mmci_structure_prices *prices;
  mmci_structure_choice *out;
  int count;
} choices;

static void offer(choices *c, mmci_structure_kernel kernel, bool right) {
  const mmci_structure_product *p = c->product;
  mmci_structure_cost cost;
  if (kernel == MMCI_STRUCTURE_GEMM) {
    cost.count = mmci_multiplications(p->m, p->k, p->n);
    cost.seconds =
        c->prices->gemm_s != NULL ? c->prices->gemm_s(c->prices->user, p->m, p->k, p->n) : 0;
  } else {
    int64_t side = right ? p->n : p->m, others = right ? p->m : p->n;
    cost.count = count_of(kernel, side, others, p->k);
    cost.seconds = seconds_of(c->prices, kernel, side, others, p->k);
  }
  c->out[c->count++] = (mmci_structure_choice){kernel, right, cost};
}

/* Offers what multiplies with an operand of these traits. */
static void offer_operand(choices *c, uint32_t traits, bool right) {
  if ((traits & MMC_IDENTITY) != 0) offer(c, MMCI_STRUCTURE_COPY, right);
  if (mmci_traits_have(traits, DIAGONAL))
    offer(c, MMCI_STRUCTURE_SCALE, right);
  else if ((traits & TRIANGULAR) != 0)
    offer(c, MMCI_STRUCTURE_TRMM, right);
}

static void offer_solves(choices *c, uint32_t traits, bool right) {
  if ((traits & MMC_IDENTITY) != 0) offer(c, MMCI_STRUCTURE_COPY, right);
  if (mmci_traits_have(traits, DIAGONAL)) {
    offer(c, MMCI_STRUCTURE_SCALE, right);
    return;
  }
  if ((traits & TRIANGULAR) != 0) {
    offer(c, MMCI_STRUCTURE_TRSM, right);
    return;
  }
  /* A definite matrix is known to be so that an indefinite one is told. */
  if ((traits & MMC_POSITIVE_DEFINITE) != 0) {
    offer(c, MMCI_STRUCTURE_POSV, right);
    return;
  }
  if (mmci_traits_mirrored(traits)) offer(c, MMCI_STRUCTURE_SYSV, right);
  offer(c, MMCI_STRUCTURE_GESV, right);
}

int mmci_structure_choices(const mmci_structure_product *product,
                           const mmci_structure_prices *prices,
                           mmci_structure_choice out[MMCI_STRUCTURE_CHOICES]) {
  choices c = {product, prices, out, 0};
  const uint32_t left = product->left, right = product->right;
  const bool solves = product->left_inverse || product->right_inverse;
  const uint32_t plain = (product->left_inverse ? 0 : left) | (product->right_inverse ? 0 : right);
  if ((plain & MMC_ZERO) != 0) {
    offer(&c, MMCI_STRUCTURE_ZERO, false);
    return c.count;
  }
  if (product->left_inverse) {
    offer_solves(&c, left, false);
  } else if (product->right_inverse) {
    offer_solves(&c, right, true);
  } else {
    offer_operand(&c, left, false);
    offer_operand(&c, right, true);
    if (product->mirrored) offer(&c, MMCI_STRUCTURE_SYRK, false);
  }
  if (!solves) offer(&c, MMCI_STRUCTURE_GEMM, false);
  return c.count;
}

mmci_structure_choice mmci_structure_choose(const mmci_structure_product *product,
                                            const mmci_structure_prices *prices) {
  mmci_structure_choice all[MMCI_STRUCTURE_CHOICES];
  int count = mmci_structure_choices(product, prices, all), best = 0;
  for (int c = 1; c < count; c++)
    if (mmci_structure_less(all[c].cost, all[best].cost, prices->gemm_s != NULL)) best = c;
  return all[best];
}

mmci_structure_cost mmci_structure_mirror(const mmci_structure_product *product,
                                          const mmci_structure_prices *prices) {
  const mmci_structure_kernel kernel = MMCI_STRUCTURE_SYRK;
  return (mmci_structure_cost){count_of(kernel, product->m, product->n, product->k),
                               seconds_of(prices, kernel, product->m, product->n, product->k)};
}

mmci_structure_cost mmci_structure_invert(uint32_t traits, int64_t n,
                                          const mmci_structure_prices *prices) {
  mmci_structure_cost cost = {0};
  double gemm_s = prices->gemm_s != NULL ? prices->gemm_s(prices->user, n, n, n) : 0;
  if ((traits & MMC_IDENTITY) != 0) return cost;
  if (mmci_traits_have(traits, DIAGONAL)) {
    cost.count = wide(n);
  } else if ((traits & TRIANGULAR) != 0) {
    cost = (mmci_structure_cost){pyramid(n), gemm_s * 0.3};
  } else if (mmci_traits_mirrored(traits)) {
    cost = (mmci_structure_cost){mmci_u128_mul(pyramid(n), 3), gemm_s * 0.9};
    if ((traits & MMC_POSITIVE_DEFINITE) == 0) cost.seconds *= 2;
  } else {
    mmci_u128 square = wide(n) * wide(n);
    cost = (mmci_structure_cost){mmci_u128_mul(square, wide(n)), gemm_s * 1.6};
  }
  return cost;
}
