#include "kinds_fill.h"

#include <string.h>

#include "half.h"

/* ---- elements -------------------------------------------------------------------------------- */

/* A square matrix, row by row. */
typedef struct square {
  mmc_dtype dtype;
  int64_t side;
  void *data;
} square;

typedef struct number {
  double re, im;
} number;

static number get(const square *x, int64_t r, int64_t c) {
  const int64_t at = r * x->side + c;
  switch (x->dtype) {
    case MMC_F32:
      return (number){(double)((float *)x->data)[at], 0};
    case MMC_F64:
      return (number){((double *)x->data)[at], 0};
    case MMC_C64:
      return (number){(double)((float *)x->data)[2 * at], (double)((float *)x->data)[2 * at + 1]};
    case MMC_C128:
      return (number){((double *)x->data)[2 * at], ((double *)x->data)[2 * at + 1]};
    default:
      return (number){cli_half_load(x->dtype, ((uint16_t *)x->data)[at]), 0};
  }
}

static void put(const square *x, int64_t r, int64_t c, double re, double im) {
  const int64_t at = r * x->side + c;
  switch (x->dtype) {
    case MMC_F32:
      ((float *)x->data)[at] = (float)re;
      break;
    case MMC_F64:
      ((double *)x->data)[at] = re;
      break;
    case MMC_C64:
      ((float *)x->data)[2 * at] = (float)re;
      ((float *)x->data)[2 * at + 1] = (float)im;
      break;
    case MMC_C128:
      ((double *)x->data)[2 * at] = re;
      ((double *)x->data)[2 * at + 1] = im;
      break;
    default:
      ((uint16_t *)x->data)[at] = cli_half_round(x->dtype, re);
      break;
  }
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static void make_identity(const square *x) {
  for (int64_t r = 0; r < x->side; r++)
    for (int64_t c = 0; c < x->side; c++) put(x, r, c, r == c, 0);
}

static void make_permutation(const square *x, cli_random *random) {
  make_identity(x);
  for (int64_t r = x->side - 1; r > 0; r--) {
    const int64_t other = (int64_t)(cli_random_bits(random) % (uint64_t)(r + 1));
    for (int64_t c = 0; c < x->side; c++) {
      const double one = get(x, r, c).re;
      put(x, r, c, get(x, other, c).re, 0);
      put(x, other, c, one, 0);
    }
  }
}

/* Makes the reflection 1 - 2 v v^H / v^H v, where v is the first row, which is overwritten last. */
static void make_reflection(const square *x) {
  double length = 0;
  for (int64_t i = 0; i < x->side; i++) {
    const number v = get(x, 0, i);
    length += v.re * v.re + v.im * v.im;
  }
  const double by = length > 0 ? 2 / length : 0;
  for (int64_t r = x->side - 1; r >= 0; r--) {
    const number v = get(x, 0, r);
    for (int64_t c = 0; c < x->side; c++) {
      const number w = get(x, 0, c);
      put(x, r, c, (r == c) - by * (v.re * w.re + v.im * w.im), -by * (v.im * w.re - v.re * w.im));
    }
  }
}

static bool is_outside(uint32_t traits, mmc_band band, int64_t r, int64_t c) {
  return ((traits & MMC_LOWER) != 0 && c > r) || ((traits & MMC_UPPER) != 0 && c < r) ||
         ((traits & MMC_BANDED) != 0 && (r - c > band.below || c - r > band.above));
}

/* Makes an element, and its mirror image, what is said of them. */
static void make_element(const square *x, uint32_t traits, mmc_band band, int64_t r, int64_t c) {
  const bool is_hermitian = (traits & (MMC_HERMITIAN | MMC_POSITIVE_DEFINITE)) != 0;
  const bool is_symmetric = (traits & MMC_SYMMETRIC) != 0;
  const bool is_mirrored = is_hermitian || is_symmetric;
  number value = get(x, r, c);
  if (is_outside(traits, band, r, c) || (is_mirrored && is_outside(traits, band, c, r)))
    value = (number){0, 0};
  if (is_hermitian && (is_symmetric || r == c)) value.im = 0;
  if (r == c && (traits & MMC_POSITIVE_DEFINITE) != 0)
    value.re += 8;
  else if (r == c && (traits & MMC_UNIT) != 0)
    value = (number){1, 0};
  else if (r == c && (traits & MMC_DIAGONAL) != 0)
    value.re += 1;
  put(x, r, c, value.re, value.im);
  if (is_mirrored && r != c) put(x, c, r, value.re, is_hermitian ? -value.im : value.im);
}

/* Makes one matrix what is said of it. What moves elements, and is said to be more than that, is
 * the identity. */
static void make_kind(const square *x, uint32_t traits, mmc_band band, cli_random *random) {
  const uint32_t moves = MMC_ORTHOGONAL | MMC_PERMUTATION;
  const uint32_t mirrored = MMC_SYMMETRIC | MMC_HERMITIAN | MMC_POSITIVE_DEFINITE;
  if ((traits & MMC_IDENTITY) != 0 || ((traits & moves) != 0 && (traits & ~moves) != 0)) {
    make_identity(x);
  } else if ((traits & MMC_PERMUTATION) != 0) {
    make_permutation(x, random);
  } else if ((traits & MMC_ORTHOGONAL) != 0) {
    make_reflection(x);
  } else {
    for (int64_t r = 0; r < x->side; r++)
      for (int64_t c = (traits & mirrored) != 0 ? r : 0; c < x->side; c++)
        make_element(x, traits, band, r, c);
  }
}

void cli_kinds_fill(const mmc_chain *chain, int64_t i, cli_random *random, void *data) {
  const uint32_t traits = mmc_chain_traits(chain, i) & ~(uint32_t)MMC_INVERSE;
  const mmc_dtype dtype = mmc_chain_dtype(chain);
  const int64_t *dims = mmc_chain_dims(chain), count = cli_factor_count(chain, i);
  const size_t bytes = (size_t)dims[i] * (size_t)dims[i + 1] * mmc_dtype_size(dtype);
  for (int64_t b = 0; b < count && traits != 0 && bytes > 0; b++) {
    const square x = {.dtype = dtype, .side = dims[i], .data = (char *)data + (size_t)b * bytes};
    if ((traits & MMC_ZERO) != 0)
      memset(x.data, 0, bytes);
    else
      make_kind(&x, traits, mmc_chain_band(chain, i), random);
  }
}
