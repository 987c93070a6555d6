#include "chain/traits.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"

enum { DIAGONAL = MMC_LOWER | MMC_UPPER, MIRRORED = MMC_SYMMETRIC | MMC_HERMITIAN };

/* ---- what follows from what ----------------------------------------------------------------- */

uint32_t mmci_traits_close(uint32_t traits, bool is_complex) {
  uint32_t t = traits;
  if ((t & MMC_IDENTITY) != 0)
    t |= DIAGONAL | MMC_UNIT | MIRRORED | MMC_POSITIVE_DEFINITE | MMC_PERMUTATION;
  if ((t & MMC_ZERO) != 0) t |= DIAGONAL | MIRRORED;
  if ((t & MMC_POSITIVE_DEFINITE) != 0) t |= MMC_HERMITIAN;
  if (!is_complex && (t & MIRRORED) != 0) t |= MIRRORED;
  if ((t & MIRRORED) != 0 && (t & DIAGONAL) != 0) t |= DIAGONAL;
  if (mmci_traits_have(t, DIAGONAL)) t |= is_complex ? MMC_SYMMETRIC : MIRRORED;
  if (mmci_traits_have(t, DIAGONAL | MMC_UNIT))
    t |= MMC_IDENTITY | MIRRORED | MMC_POSITIVE_DEFINITE | MMC_PERMUTATION;
  if ((t & MMC_PERMUTATION) != 0) t |= MMC_ORTHOGONAL;
  if (mmci_traits_have(t, DIAGONAL)) t &= ~(uint32_t)MMC_BANDED;
  return t;
}

uint32_t mmci_traits_transpose(uint32_t traits) {
  uint32_t kept = traits & ~(uint32_t)DIAGONAL;
  if ((traits & MMC_LOWER) != 0) kept |= MMC_UPPER;
  if ((traits & MMC_UPPER) != 0) kept |= MMC_LOWER;
  return kept;
}

uint32_t mmci_traits_product(uint32_t left, uint32_t right, bool is_complex) {
  if ((left & MMC_IDENTITY) != 0) return right;
  if ((right & MMC_IDENTITY) != 0) return left;
  if (((left | right) & MMC_ZERO) != 0) return MMC_ZERO;
  uint32_t both = left & right, traits = both & DIAGONAL;
  if (traits != 0) traits |= both & MMC_UNIT;
  if (mmci_traits_have(both, DIAGONAL)) /* diagonal matrices commute */
    traits |= both & (MMC_HERMITIAN | MMC_POSITIVE_DEFINITE);
  traits |= both & (MMC_ORTHOGONAL | MMC_PERMUTATION);
  return traits == 0 ? 0 : mmci_traits_close(traits, is_complex);
}

const char *mmci_traits_wrong(uint32_t traits, int64_t rows, int64_t cols) {
  const uint32_t all = MMCI_TRAITS_OF_MATRIX | MMC_INVERSE;
  if ((traits & ~all) != 0) return "expected a set of mmc_trait";
  if ((traits & ~(uint32_t)MMC_ZERO) != 0 && rows != cols)
    return "expected a square matrix for all traits but zero";
  if (mmci_traits_have(traits, MMC_ZERO | MMC_INVERSE)) return "a zero matrix has no inverse";
  const uint32_t never_zero =
      MMC_UNIT | MMC_IDENTITY | MMC_POSITIVE_DEFINITE | MMC_ORTHOGONAL | MMC_PERMUTATION;
  if ((traits & MMC_ZERO) != 0 && (traits & never_zero) != 0)
    return "expected nothing beside zero that a zero matrix is not";
  if ((traits & MMC_UNIT) != 0 && (traits & (DIAGONAL | MMC_IDENTITY)) == 0)
    return "expected unit beside lower, upper or diagonal";
  return NULL;
}

/* ---- bands ---------------------------------------------------------------------------------- */

mmc_band mmci_band_of(uint32_t traits, mmc_band band, int64_t n) {
  mmc_band b = mmci_band_full(n);
  if ((traits & MMC_BANDED) != 0)
    b = (mmc_band){mmci_smaller(b.below, band.below), mmci_smaller(b.above, band.above)};
  if ((traits & MMC_LOWER) != 0) b.above = 0;
  if ((traits & MMC_UPPER) != 0) b.below = 0;
  if (mmci_traits_mirrored(traits)) b.below = b.above = mmci_smaller(b.below, b.above);
  return b;
}

bool mmci_band_tells(uint32_t traits, mmc_band band, int64_t n) {
  const mmc_band known = mmci_band_of(traits & ~(uint32_t)MMC_BANDED, band, n);
  return band.below < known.below || band.above < known.above;
}

mmc_band mmci_band_product(mmc_band left, mmc_band right, int64_t n) {
  const int64_t most = mmci_band_full(n).below;
  /* Neither exceeds 2^62, so that sums do not overflow. */
  return (mmc_band){mmci_smaller(left.below + right.below, most),
                    mmci_smaller(left.above + right.above, most)};
}

mmc_band mmci_band_meet(uint32_t traits, mmc_band a, mmc_band b) {
  mmc_band both = {mmci_smaller(a.below, b.below), mmci_smaller(a.above, b.above)};
  if (mmci_traits_mirrored(traits)) both.below = both.above = mmci_smaller(both.below, both.above);
  return both;
}

void mmci_traits_settle(uint32_t *traits, mmc_band *band, int64_t n, bool is_complex) {
  uint32_t t = mmci_traits_close(*traits, is_complex);
  if ((t & MMC_BANDED) != 0) {
    *band = mmci_band_of(t, *band, n);
    if (band->above == 0) t |= MMC_LOWER;
    if (band->below == 0) t |= MMC_UPPER;
    t = mmci_traits_close(t, is_complex);
    if (!mmci_band_tells(t, *band, n)) t &= ~(uint32_t)MMC_BANDED;
  }
  if ((t & MMC_BANDED) == 0) *band = (mmc_band){0, 0};
  *traits = t;
}

/* ---- words ---------------------------------------------------------------------------------- */

static const struct {
  const char *word;
  uint32_t traits;
} words[] = {{"identity", MMC_IDENTITY},     {"zero", MMC_ZERO},
             {"diagonal", DIAGONAL},         {"lower", MMC_LOWER},
             {"upper", MMC_UPPER},           {"unit", MMC_UNIT},
             {"spd", MMC_POSITIVE_DEFINITE}, {"symmetric", MMC_SYMMETRIC},
             {"hermitian", MMC_HERMITIAN},   {"permutation", MMC_PERMUTATION},
             {"orthogonal", MMC_ORTHOGONAL}, {"tridiagonal", MMC_BANDED},
             {"banded", MMC_BANDED},         {"inv", MMC_INVERSE}};

enum { WORDS = sizeof words / sizeof words[0] };

static const char tridiagonal[] = "tridiagonal";

/* Reads digits and what follows them. */
static const char *read_width(const char *at, char behind, int64_t *out) {
  const char *digits = at;
  int64_t value = 0;
  for (; *at >= '0' && *at <= '9'; at++)
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, *at - '0', &value))
      return NULL;
  if (at == digits || *at != behind) return NULL;
  *out = value;
  return at + 1;
}

const char *mmci_trait_read(const char *at, uint32_t *traits, mmc_band *band) {
  const size_t length = strcspn(at, ".,()=");
  size_t w = 0;
  while (w < WORDS && (strlen(words[w].word) != length || memcmp(words[w].word, at, length) != 0))
    w++;
  if (w == WORDS) return NULL;
  *traits = words[w].traits;
  at += length;
  if (*traits != MMC_BANDED) return at;
  *band = (mmc_band){1, 1};
  if (words[w].word[0] == tridiagonal[0]) return at;
  if (*at != '(') return NULL;
  at = read_width(at + 1, ',', &band->below);
  return at != NULL ? read_width(at, ')', &band->above) : NULL;
}

bool mmci_traits_write(uint32_t traits, mmc_band band, bool is_complex, mmci_text *text) {
  bool any = false;
  for (size_t w = 0; w < WORDS; w++) {
    if (!mmci_traits_have(traits, words[w].traits)) continue;
    mmci_text_printf(text, "%s", any ? "." : "");
    if (words[w].traits != MMC_BANDED)
      mmci_text_printf(text, "%s", words[w].word);
    else if (band.below == 1 && band.above == 1)
      mmci_text_printf(text, "%s", tridiagonal);
    else
      mmci_text_printf(text, "banded(%" PRId64 ",%" PRId64 ")", band.below, band.above);
    any = true;
    traits &= ~mmci_traits_close(words[w].traits, is_complex);
  }
  return any;
}
