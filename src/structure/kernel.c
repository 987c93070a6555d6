#include "structure/kernel.h"

enum { DIAGONAL = MMC_LOWER | MMC_UPPER, TRIANGULAR = DIAGONAL };

/* Bands of so many diagonals are gone along one by one; others are multiplied as blocks. */
enum { NARROW = 24 };

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

/* Returns how many elements of an n x n matrix lie in a band. */
static mmci_u128 elements_of(mmc_band band, int64_t n) {
  if (n < 1) return 0;
  return wide(n) * wide(n) - triangle(n - 1 - band.below) - triangle(n - 1 - band.above);
}

/* The numbers of a line first + slope * t, from t = 0 on. */
typedef struct line {
  int64_t first, slope;
} line;

/* Returns how many elements of column k of an n x n matrix lie in a band, and how that grows to the
 * next column. */
static line line_of_column(mmc_band band, int64_t n, int64_t k) {
  const bool at_bottom = k + band.below >= n - 1, at_top = k < band.above;
  const int64_t last = at_bottom ? n - 1 : k + band.below, first = at_top ? 0 : k - band.above;
  return (line){last - first + 1, (at_bottom ? 0 : 1) - (at_top ? 0 : 1)};
}

/* Returns the multiplications of two n x n matrices of which only the elements in bands are looked
 * at: column k of the left one meets row k of the right one. n(n+1)(n+2)/6 of two lower triangles.
 */
static mmci_u128 pairs_of(mmc_band left, mmc_band right, int64_t n) {
  if (n > (int64_t)1 << 40)
    return mmci_u128_mul(elements_of(left, n), wide(right.below + right.above + 1));
  const mmc_band turned = mmci_band_transpose(right); /* row k is a column of this */
  const int64_t turns[] = {n - 1 - left.below, left.above, n - 1 - turned.below, turned.above, n};
  mmci_u128 sum = 0; /* what is negative wraps around, and back */
  for (int64_t k = 0, end; k < n; k = end) {
    end = n;
    for (size_t t = 0; t < sizeof turns / sizeof turns[0]; t++)
      if (turns[t] > k && turns[t] < end) end = turns[t];
    const line a = line_of_column(left, n, k), b = line_of_column(turned, n, k);
    const mmci_u128 length = wide(end - k), ones = length * (length - 1) / 2,
                    squares = ones * (2 * length - 1) / 3;
    sum += length * wide(a.first) * wide(b.first) +
           (mmci_u128)(a.first * b.slope + a.slope * b.first) * ones +
           (mmci_u128)(a.slope * b.slope) * squares;
  }
  return sum;
}

/* Returns the multiplications of factors and solves with them, of a banded matrix. */
static mmci_u128 band_count(mmci_structure_kernel kernel, mmc_band band, int64_t side,
                            int64_t others) {
  const mmci_u128 below = wide(band.below), above = wide(band.above), n = wide(side);
  const mmc_band half = {band.below, 0};
  switch (kernel) {
    case MMCI_STRUCTURE_PBSV:
      return mmci_u128_add(mmci_u128_mul(n, (below + 1) * (below + 2) / 2),
                           mmci_u128_mul(2 * elements_of(half, side), wide(others)));
    case MMCI_STRUCTURE_GTSV:
    case MMCI_STRUCTURE_GBSV: /* exchanges of rows widen U by as much as lies below */
      return mmci_u128_add(mmci_u128_mul(n, mmci_u128_mul(below, below + above + 1)),
                           mmci_u128_mul(mmci_u128_mul(n, 2 * below + above + 1), wide(others)));
    default:
      return mmci_u128_mul(elements_of(band, side), wide(others));
  }
}

static mmci_u128 count_of(mmci_structure_kernel kernel, int64_t side, int64_t others, int64_t k) {
  const mmci_u128 count = wide(others);
  switch (kernel) {
    case MMCI_STRUCTURE_SCALE:
      return wide(side) * count;
    case MMCI_STRUCTURE_SYMV:
    case MMCI_STRUCTURE_SYMM:
      return mmci_u128_mul(mmci_u128_mul(wide(side), wide(side)), count);
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

/* Shares were measured with OpenBLAS 0.3.21 in f64, sides 50 to 1000 times 1 to 2000 columns
 * (docs/structure.md). */
const mmci_structure_share mmci_structure_shares[MMCI_STRUCTURE_PIECES] = {
    [MMCI_PIECE_SYMV] = {0.6, 40},    [MMCI_PIECE_SYRK] = {0.5, 10},
    [MMCI_PIECE_TRMM] = {0.5, 12},    [MMCI_PIECE_TRTRMM] = {0.22, 20},
    [MMCI_PIECE_TRSM] = {0.5, 25},    [MMCI_PIECE_POTRF] = {0.2, 45},
    [MMCI_PIECE_GETRF] = {0.35, 100}, [MMCI_PIECE_SYTRF] = {0.4, 70},
    [MMCI_PIECE_SYTRS] = {1.2, 60},   [MMCI_PIECE_TRTRI] = {0.22, 100},
    [MMCI_PIECE_POTRI] = {0.7, 120},  [MMCI_PIECE_GETRI] = {1.1, 180},
    [MMCI_PIECE_SYTRI] = {0.8, 90},   [MMCI_PIECE_SYMM] = {1.05, 20},
};

/* The shares of a device were measured on an H200 with cuBLAS 13 and cuSOLVER 12, in f32 and f64,
 * sides 512 to 8192 times as many columns. Inverses are solved for there, with the identity. */
const mmci_structure_share mmci_structure_device_shares[MMCI_STRUCTURE_PIECES] = {
    [MMCI_PIECE_SYRK] = {0.45, 500},    [MMCI_PIECE_TRMM] = {0.45, 700},
    [MMCI_PIECE_TRTRMM] = {0.12, 1400}, [MMCI_PIECE_TRSM] = {0.4, 3600},
    [MMCI_PIECE_POTRF] = {0.1, 4500},   [MMCI_PIECE_GETRF] = {0.5, 26000},
    [MMCI_PIECE_TRTRI] = {0.4, 3600},   [MMCI_PIECE_POTRI] = {0.9, 11700},
    [MMCI_PIECE_GETRI] = {1.3, 33200},  [MMCI_PIECE_SYTRI] = {1.3, 33200},
    [MMCI_PIECE_SYMM] = {1.02, 700},
};

/* Returns the seconds of a piece of work with a matrix of this side and so many other lines. Small
 * triangles are slow: what lies beside the diagonal is a product, and blocks of the diagonal are
 * not. */
static double piece_s(const mmci_structure_prices *prices, mmci_structure_piece piece, int64_t side,
                      double gemm_s) {
  if (prices->gemm_s == NULL) return 0;
  const mmci_structure_share *share = &prices->shares[piece];
  return gemm_s * (share->large + share->small / (double)(side > 0 ? side : 1));
}

/* A copy of what is computed in place is a passage over it. */
static double seconds_of(const mmci_structure_prices *prices, mmci_structure_kernel kernel,
                         int64_t side, int64_t others, int64_t k) {
  if (prices->gemm_s == NULL) return 0;
  const double result = (double)side * (double)others;
  const double copies = pass_s(prices, 2 * result);
  double factors_s = 0, gemm_s = 0;
  mmci_structure_piece factors = MMCI_PIECE_POTRF;
  switch (kernel) {
    case MMCI_STRUCTURE_ZERO:
      return pass_s(prices, result);
    case MMCI_STRUCTURE_COPY:
    case MMCI_STRUCTURE_SCALE:
      return copies;
    case MMCI_STRUCTURE_PERMUTE: /* where the ones are is found in half of the matrix */
      return copies + pass_s(prices, (double)side * (double)side / 2);
    case MMCI_STRUCTURE_SYRK:
      gemm_s = prices->gemm_s(prices->user, side, k, side);
      return piece_s(prices, MMCI_PIECE_SYRK, side, gemm_s) +
             pass_s(prices, (double)side * (double)side);
    case MMCI_STRUCTURE_GESV:
      factors = MMCI_PIECE_GETRF;
      break;
    case MMCI_STRUCTURE_SYSV:
      factors = MMCI_PIECE_SYTRF;
      break;
    default:
      break;
  }
  gemm_s = prices->gemm_s(prices->user, side, side, others);
  switch (kernel) {
    case MMCI_STRUCTURE_SYMV:
      return piece_s(prices, MMCI_PIECE_SYMV, side, gemm_s);
    case MMCI_STRUCTURE_SYMM:
      return piece_s(prices, MMCI_PIECE_SYMM, side, gemm_s);
    case MMCI_STRUCTURE_TRMM:
      return piece_s(prices, MMCI_PIECE_TRMM, side, gemm_s) + copies;
    case MMCI_STRUCTURE_TRTRMM:
      return piece_s(prices, MMCI_PIECE_TRTRMM, side, gemm_s) + copies;
    case MMCI_STRUCTURE_TRSM:
      return piece_s(prices, MMCI_PIECE_TRSM, side, gemm_s) + copies;
    case MMCI_STRUCTURE_SYSV:
      factors_s = prices->gemm_s(prices->user, side, side, side);
      return piece_s(prices, factors, side, factors_s) +
             piece_s(prices, MMCI_PIECE_SYTRS, side, gemm_s) + 2 * copies;
    case MMCI_STRUCTURE_POSV:
    case MMCI_STRUCTURE_GESV:
      factors_s = prices->gemm_s(prices->user, side, side, side);
      return piece_s(prices, factors, side, factors_s) +
             2 * piece_s(prices, MMCI_PIECE_TRSM, side, gemm_s) + copies;
    default:
      return 0;
  }
}

/* Returns the seconds of a solve with a banded matrix, with its factors. */
static double band_solve_s(const mmci_structure_prices *prices, mmci_structure_kernel kernel,
                           mmc_band band, int64_t side, int64_t others) {
  if (prices->gemm_s == NULL) return 0;
  const double diagonals = (double)(band.below + band.above + 1), n = (double)side;
  const bool at_once = !prices->is_complex && others >= MMCI_BAND_LINES;
  const double all = n * (double)others; /* elements of the result; and then rows */
  switch (kernel) {
    case MMCI_STRUCTURE_TBSV:
      return pass_s(prices, (at_once ? 5 + diagonals * 1.1 : 26 + diagonals / 2) * all);
    case MMCI_STRUCTURE_PBSV:
      return pass_s(prices, (at_once ? 11 + diagonals : 55 + diagonals) * all + 100 * n);
    case MMCI_STRUCTURE_GTSV:
      return pass_s(prices, (at_once ? 13 : 27) * all + 80 * n);
    default:
      return pass_s(prices,
                    (at_once ? 11 + diagonals * 1.5 : 45 + diagonals) * all + 15 * diagonals * n);
  }
}

/* ---- the choice ----------------------------------------------------------------------------- */

typedef struct choices {
  const mmci_structure_product *product;
  const mmci_structure_prices *prices;
  mmci_structure_choice *out;
  int count;
} choices;

static void put(choices *c, mmci_structure_kernel kernel, bool right, mmci_u128 count,
                double seconds) {
  if ((c->prices->lacks >> kernel & 1) != 0) return;
  if (c->prices->gemm_s == NULL) seconds = 0;
  c->out[c->count++] = (mmci_structure_choice){kernel, right, {count, seconds}};
}

/* From this side on, real symmetric matrices times vectors take less time by SYMV than by GEMV:
 * 0.6 to 1.05 times f32's, 0.6 f64's, with OpenBLAS 0.3.21; complex ones more, up to 2000. */
enum { SYMV_SIDE = 512 };

static double gemm_of(const choices *c, int64_t m, int64_t k, int64_t n) {
  return c->prices->gemm_s != NULL ? c->prices->gemm_s(c->prices->user, m, k, n) : 0;
}

static void offer(choices *c, mmci_structure_kernel kernel, bool right) {
  const mmci_structure_product *p = c->product;
  if (kernel == MMCI_STRUCTURE_GEMM) {
    put(c, kernel, right, mmci_multiplications(p->m, p->k, p->n), gemm_of(c, p->m, p->k, p->n));
    return;
  }
  const int64_t side = right ? p->n : p->m, others = right ? p->m : p->n;
  put(c, kernel, right, count_of(kernel, side, others, p->k),
      seconds_of(c->prices, kernel, side, others, p->k));
}

/* Offers what multiplies with an operand of these traits. */
static void offer_operand(choices *c, uint32_t traits, bool right) {
  if ((traits & MMC_IDENTITY) != 0) offer(c, MMCI_STRUCTURE_COPY, right);
  if (mmci_traits_have(traits, DIAGONAL))
    offer(c, MMCI_STRUCTURE_SCALE, right);
  else if ((traits & TRIANGULAR) != 0)
    offer(c, MMCI_STRUCTURE_TRMM, right);
  if ((traits & MMC_PERMUTATION) != 0) offer(c, MMCI_STRUCTURE_PERMUTE, right);
  /* These take as many multiplications as GEMM, and read half. SYMM is the faster one only where it
   * was found to be. */
  const uint32_t half = c->prices->is_complex ? MMC_HERMITIAN : MMC_SYMMETRIC;
  const mmci_structure_product *p = c->product;
  const bool is_vector = (right ? p->m : p->n) == 1, is_priced = c->prices->gemm_s != NULL;
  if ((traits & half) == 0) return;
  if (is_vector && (is_priced || (!c->prices->is_complex && p->k >= SYMV_SIDE)))
    offer(c, MMCI_STRUCTURE_SYMV, right);
  else if (!is_vector && is_priced && c->prices->shares[MMCI_PIECE_SYMM].large < 1)
    offer(c, MMCI_STRUCTURE_SYMM, right);
}

static mmc_band band_of(const choices *c, bool right) {
  const mmci_structure_product *p = c->product;
  if (p->banded) return right ? p->right_band : p->left_band;
  return mmci_band_of(right ? p->right : p->left, (mmc_band){0, 0}, right ? p->n : p->m);
}

/* Says whether an operand has a band beside what its other traits tell. */
static bool is_banded(const choices *c, bool right) {
  const mmci_structure_product *p = c->product;
  const int64_t side = right ? p->n : p->m;
  const uint32_t traits = right ? p->right : p->left;
  return p->banded && p->k == side && !mmci_traits_have(traits, DIAGONAL) &&
         mmci_band_tells(traits & ~(uint32_t)MMC_BANDED, right ? p->right_band : p->left_band,
                         side);
}

static mmc_band triangle_band(uint32_t traits, int64_t side) {
  return mmci_band_of(traits, (mmc_band){0, 0}, side);
}

static bool is_triangle(uint32_t traits) {
  return (traits & TRIANGULAR) != 0 && !mmci_traits_have(traits, DIAGONAL);
}

/* Returns the seconds of products of blocks: of each block of rows by all columns, or by the blocks
 * of columns of a second banded operand, as many as there are. */
static double blocks_s(const choices *c, mmc_band band, int64_t side, int64_t others, bool both,
                       mmci_u128 count) {
  if (c->prices->gemm_s == NULL || side < 1) return 0;
  const int64_t rows = mmci_structure_block(side, band.below + band.above + 1);
  const int64_t first = rows < side ? rows : side;
  const int64_t widths = band.below + band.above;
  int64_t depth = widths < side - first ? first + widths : side, columns = others;
  double calls = (double)side / (double)first;
  if (both) {
    columns = first;
    calls *= (double)side / (double)first;
    depth = (int64_t)(mmci_u128_to_double(count) / ((double)side * (double)side)) + first / 2 + 1;
  }
  return calls * gemm_of(c, first, depth, columns) +
         (both ? pass_s(c->prices, (double)side * (double)others) : 0);
}

/* Offers to multiply two triangles of one side. Where one is lower and the other upper, twice as
 * many elements meet as where they are alike, and what is more are products of GEMM. */
static void offer_triangles(choices *c) {
  const mmci_structure_product *p = c->product;
  const int64_t side = p->m;
  const bool alike = (p->left & p->right & TRIANGULAR) != 0;
  if (p->m != p->k || p->k != p->n || !is_triangle(p->left) || !is_triangle(p->right)) return;
  put(c, MMCI_STRUCTURE_TRTRMM, false,
      pairs_of(triangle_band(p->left, side), triangle_band(p->right, side), side),
      seconds_of(c->prices, MMCI_STRUCTURE_TRTRMM, side, side, side) +
          (alike ? 0 : gemm_of(c, side, side, side) / 6));
}

/* Offers to multiply what lies in bands only, where the operand on this side has one. */
static void offer_bands(choices *c, bool right) {
  const mmci_structure_product *p = c->product;
  const int64_t side = right ? p->n : p->m, others = right ? p->m : p->n;
  if (!is_banded(c, right)) return;
  const bool both = p->m == p->k && p->k == p->n &&
                    (is_banded(c, !right) || (is_triangle(p->left) && is_triangle(p->right)));
  const mmc_band band = band_of(c, right);
  const double diagonals = (double)(band.below + band.above + 1);
  const mmci_u128 count = both ? pairs_of(band_of(c, false), band_of(c, true), side)
                               : mmci_u128_mul(elements_of(band, side), wide(others));
  if (diagonals <= NARROW)
    put(c, MMCI_STRUCTURE_BAND, right, count,
        pass_s(c->prices, (1 + diagonals / 4) * (double)side * (double)others));
  put(c, MMCI_STRUCTURE_BLOCKS, right, count, blocks_s(c, band, side, others, both, count));
}

static void offer_banded_solves(choices *c, uint32_t traits, bool right) {
  const mmci_structure_product *p = c->product;
  const int64_t side = right ? p->n : p->m, others = right ? p->m : p->n;
  const mmc_band band = band_of(c, right);
  mmci_structure_kernel kernel = MMCI_STRUCTURE_GBSV;
  if ((traits & TRIANGULAR) != 0)
    kernel = MMCI_STRUCTURE_TBSV;
  else if ((traits & MMC_POSITIVE_DEFINITE) != 0)
    kernel = MMCI_STRUCTURE_PBSV;
  else if (band.below <= 1 && band.above <= 1)
    kernel = MMCI_STRUCTURE_GTSV;
  const mmci_u128 count = band_count(kernel, band, side, others);
  put(c, kernel, right, count, band_solve_s(c->prices, kernel, band, side, others));
}

static void offer_solves(choices *c, uint32_t traits, bool right) {
  if ((traits & MMC_IDENTITY) != 0) offer(c, MMCI_STRUCTURE_COPY, right);
  if (mmci_traits_have(traits, DIAGONAL)) {
    offer(c, MMCI_STRUCTURE_SCALE, right);
    return;
  }
  if (c->product->banded && is_banded(c, right)) offer_banded_solves(c, traits, right);
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
    offer_triangles(&c);
    if (product->banded) {
      offer_bands(&c, false);
      offer_bands(&c, true);
    }
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

mmci_structure_cost mmci_structure_invert(uint32_t traits, int64_t n, bool is_factor,
                                          const mmci_structure_prices *prices) {
  mmci_structure_cost cost = {0};
  double gemm_s = prices->gemm_s != NULL ? prices->gemm_s(prices->user, n, n, n) : 0;
  if ((traits & MMC_IDENTITY) != 0) return cost;
  if ((traits & MMC_ORTHOGONAL) != 0) {
    /* A factor is read as it lies, transposed. */
    if (!is_factor && prices->gemm_s != NULL) cost.seconds = pass_s(prices, (double)n * (double)n);
    return cost;
  }
  if (mmci_traits_have(traits, DIAGONAL)) {
    cost.count = wide(n);
    if (prices->gemm_s != NULL)
      cost.seconds = pass_s(prices, (is_factor ? 2 : 1) * (double)n * (double)n);
  } else if ((traits & TRIANGULAR) != 0) {
    cost = (mmci_structure_cost){pyramid(n), piece_s(prices, MMCI_PIECE_TRTRI, n, gemm_s)};
  } else if (mmci_traits_mirrored(traits)) {
    const mmci_structure_piece piece =
        (traits & MMC_POSITIVE_DEFINITE) != 0 ? MMCI_PIECE_POTRI : MMCI_PIECE_SYTRI;
    cost = (mmci_structure_cost){mmci_u128_mul(pyramid(n), 3), piece_s(prices, piece, n, gemm_s)};
  } else {
    mmci_u128 square = wide(n) * wide(n);
    cost = (mmci_structure_cost){mmci_u128_mul(square, wide(n)),
                                 piece_s(prices, MMCI_PIECE_GETRI, n, gemm_s)};
  }
  return cost;
}
