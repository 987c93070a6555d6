#include "chain/traits.h"

#include <string.h>

enum { DIAGONAL = MMC_LOWER | MMC_UPPER, MIRRORED = MMC_SYMMETRIC | MMC_HERMITIAN };

/* ---- what follows from what ----------------------------------------------------------------- */

uint32_t mmci_traits_close(uint32_t traits, bool is_complex) {
  uint32_t t = traits;
  if ((t & MMC_IDENTITY) != 0) t |= DIAGONAL | MMC_UNIT | MIRRORED | MMC_POSITIVE_DEFINITE;
  if ((t & MMC_ZERO) != 0) t |= DIAGONAL | MIRRORED;
  if ((t & MMC_POSITIVE_DEFINITE) != 0) t |= MMC_HERMITIAN;
  if (!is_complex && (t & MIRRORED) != 0) t |= MIRRORED;
  if ((t & MIRRORED) != 0 && (t & DIAGONAL) != 0) t |= DIAGONAL;
  if (mmci_traits_have(t, DIAGONAL)) t |= is_complex ? MMC_SYMMETRIC : MIRRORED;
  if (mmci_traits_have(t, DIAGONAL | MMC_UNIT))
    t |= MMC_IDENTITY | MIRRORED | MMC_POSITIVE_DEFINITE;
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
  return traits == 0 ? 0 : mmci_traits_close(traits, is_complex);
}

const char *mmci_traits_wrong(uint32_t traits, int64_t rows, int64_t cols) {
  const uint32_t all = MMCI_TRAITS_OF_MATRIX | MMC_INVERSE;
  if ((traits & ~all) != 0) return "expected a set of mmc_trait";
  if ((traits & ~(uint32_t)MMC_ZERO) != 0 && rows != cols)
    return "expected a square matrix for all traits but zero";
  if (mmci_traits_have(traits, MMC_ZERO | MMC_INVERSE)) return "a zero matrix has no inverse";
  if ((traits & MMC_ZERO) != 0 && (traits & (MMC_UNIT | MMC_IDENTITY | MMC_POSITIVE_DEFINITE)) != 0)
    return "expected nothing beside zero that a zero matrix is not";
  if ((traits & MMC_UNIT) != 0 && (traits & (DIAGONAL | MMC_IDENTITY)) == 0)
    return "expected unit beside lower, upper or diagonal";
  return NULL;
}

/* ---- words ---------------------------------------------------------------------------------- */

static const struct {
  const char *word;
  uint32_t traits;
} words[] = {{"identity", MMC_IDENTITY},     {"zero", MMC_ZERO},
             {"diagonal", DIAGONAL},         {"lower", MMC_LOWER},
             {"upper", MMC_UPPER},           {"unit", MMC_UNIT},
             {"spd", MMC_POSITIVE_DEFINITE}, {"symmetric", MMC_SYMMETRIC},
             {"hermitian", MMC_HERMITIAN},   {"inv", MMC_INVERSE}};

enum { WORDS = sizeof words / sizeof words[0] };

uint32_t mmci_trait_read(const char *word, size_t length) {
  for (size_t w = 0; w < WORDS; w++)
    if (strlen(words[w].word) == length && memcmp(words[w].word, word, length) == 0)
      return words[w].traits;
  return 0;
}

bool mmci_traits_write(uint32_t traits, bool is_complex, mmci_text *text) {
  bool any = false;
  for (size_t w = 0; w < WORDS; w++) {
    if (!mmci_traits_have(traits, words[w].traits)) continue;
    mmci_text_printf(text, "%s%s", any ? "." : "", words[w].word);
    any = true;
    traits &= ~mmci_traits_close(words[w].traits, is_complex);
  }
  return any;
}
