#include "device/ref/ref_integer.h"

#include <inttypes.h>

#include "base/dtype.h"
#include "base/wide.h"

/* An exact sum of products of 64-bit integers: high * 2^64 + low. Either part takes 2^63 products.
 */
typedef struct integer_sum {
  mmci_i128 high, low;
} integer_sum;

/* Reads an element as 64 bits, which two's complement has for negative ones; bool is 0 or 1. */
static uint64_t load(mmc_dtype dtype, const void *data, int64_t i) {
  switch (dtype) {
    case MMC_I8:
      return (uint64_t)(int64_t)((const int8_t *)data)[i];
    case MMC_I16:
      return (uint64_t)(int64_t)((const int16_t *)data)[i];
    case MMC_I32:
      return (uint64_t)(int64_t)((const int32_t *)data)[i];
    case MMC_U8:
      return ((const uint8_t *)data)[i];
    case MMC_U16:
      return ((const uint16_t *)data)[i];
    case MMC_U32:
      return ((const uint32_t *)data)[i];
    case MMC_BOOL:
      return ((const uint8_t *)data)[i] != 0;
    default:
      return ((const uint64_t *)data)[i];
  }
}

static void store(mmc_dtype dtype, uint64_t value, void *data, int64_t i) {
  switch (mmc_dtype_size(dtype)) {
    case 1:
      ((uint8_t *)data)[i] = (uint8_t)value;
      break;
    case 2:
      ((uint16_t *)data)[i] = (uint16_t)value;
      break;
    case 4:
      ((uint32_t *)data)[i] = (uint32_t)value;
      break;
    default:
      ((uint64_t *)data)[i] = value;
      break;
  }
}

/* Returns x modulo p, 0 to p - 1. */
static uint64_t residue(mmci_i128 x, uint64_t p) {
  mmci_i128 r = x % (mmci_i128)p;
  return (uint64_t)(r < 0 ? r + (mmci_i128)p : r);
}

static uint64_t residue_of_sum(integer_sum sum, uint64_t p) {
  const uint64_t two_to_64 = residue((mmci_i128)1 << 64, p);
  mmci_u128 high = (mmci_u128)residue(sum.high, p) * two_to_64;
  return (uint64_t)((high + residue(sum.low, p)) % p);
}

/* Says whether the sum is an integer of the dtype. */
static bool fits(mmc_dtype dtype, integer_sum sum) {
  mmci_i128 above = sum.high + (sum.low >> 64), low = sum.low & UINT64_MAX;
  mmci_i128 most = mmci_dtype_most(dtype);
  if (!mmci_dtype_is_signed(dtype)) return above == 0 && low <= most;
  return above == 0 ? low <= most : above == -1 && low >= ((mmci_i128)1 << 64) - most - 1;
}

/* Writes a sum as the dtype and its rule have it, the element at index i of out. Returns false, and
 * writes what is left of the sum, where a checked element exceeds the dtype. */
static bool store_sum(mmc_dtype dtype, const mmci_rule *rule, integer_sum sum, void *out,
                      int64_t i) {
  if (dtype == MMC_BOOL)
    store(dtype, sum.high != 0 || sum.low != 0, out, i);
  else if (rule->modulus != 0)
    store(dtype, residue_of_sum(sum, rule->modulus), out, i);
  else
    store(dtype, (uint64_t)sum.low, out, i);
  return !rule->checked || fits(dtype, sum);
}

/* Returns the sum of row i of A by column j of B, and of what is there already. */
static integer_sum sum_of(const mmci_gemm *gemm, const void *a, const void *b, const void *c,
                          int64_t i, int64_t j) {
  const mmc_dtype dtype = gemm->dtype;
  const bool is_signed = mmci_dtype_is_signed(dtype);
  integer_sum sum = {0, 0};
  if (gemm->accumulate) {
    uint64_t before = load(dtype, c, i * gemm->ldc + j);
    sum.low = is_signed ? (mmci_i128)(int64_t)before : (mmci_i128)before;
  }
  for (int64_t l = 0; l < gemm->k; l++) {
    uint64_t x = load(dtype, a, mmci_form_place(&gemm->a, i, l));
    uint64_t y = load(dtype, b, mmci_form_place(&gemm->b, l, j));
    if (is_signed) {
      mmci_i128 product = (mmci_i128)(int64_t)x * (int64_t)y;
      sum.high += product >> 64;
      sum.low += (uint64_t)product;
    } else {
      mmci_u128 product = (mmci_u128)x * y;
      sum.high += (uint64_t)(product >> 64);
      sum.low += (uint64_t)product;
    }
  }
  return sum;
}

bool mmci_ref_integer_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  bool fit = true;
  for (int64_t i = 0; i < gemm->m; i++)
    for (int64_t j = 0; j < gemm->n; j++)
      fit &= store_sum(gemm->dtype, &gemm->rule, sum_of(gemm, a, b, c, i, j), c, i * gemm->ldc + j);
  return fit;
}

mmc_status mmci_integer_overflow(const mmci_gemm *gemm, mmci_error *error) {
  return mmci_fail(error, MMC_E_OVERFLOW,
                   "%" PRId64 "x%" PRId64 " by %" PRId64 "x%" PRId64
                   " has elements that %s does not hold",
                   gemm->m, gemm->k, gemm->k, gemm->n, mmc_dtype_name(gemm->dtype));
}
