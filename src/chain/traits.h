/* traits.h: what is known of a factor, and what follows from it for products.
 *
 * A set of mmc_trait is closed when it holds all that its members imply: a diagonal matrix is lower
 * and upper triangular and symmetric, a real symmetric one is Hermitian. The functions here take
 * closed sets and return closed ones. */
#ifndef MMCI_TRAITS_H
#define MMCI_TRAITS_H

#include "base/text.h"

/* All traits that say what a matrix is; MMC_INVERSE says how it is used. */
#define MMCI_TRAITS_OF_MATRIX \
  ((uint32_t)(MMC_INVERSE - 1) | (uint32_t)(MMC_ORTHOGONAL | MMC_PERMUTATION | MMC_BANDED))

static inline bool mmci_traits_have(uint32_t traits, uint32_t all) {
  return (traits & all) == all;
}

/* Says whether a matrix is its own transposed, or its own conjugated transposed. */
static inline bool mmci_traits_mirrored(uint32_t traits) {
  return (traits & (MMC_SYMMETRIC | MMC_HERMITIAN)) != 0;
}

/* Says whether a row of its diagonal, or of its index, tells all of a square matrix. */
static inline bool mmci_traits_take_line(uint32_t traits) {
  return mmci_traits_have(traits, MMC_DIAGONAL) || (traits & MMC_PERMUTATION) != 0;
}

/* Returns the closed set of a square matrix with these traits. */
uint32_t mmci_traits_close(uint32_t traits, bool is_complex);
/* Returns the traits of the transposed matrix, conjugated or not. */
uint32_t mmci_traits_transpose(uint32_t traits);
/* Returns what is known of the product of two matrices with these traits, of whatever shapes. */
uint32_t mmci_traits_product(uint32_t left, uint32_t right, bool is_complex);

/* ---- bands ---------------------------------------------------------------------------------- */

/* Returns the band of an n x n matrix of which nothing is known. */
static inline mmc_band mmci_band_full(int64_t n) {
  const int64_t most = n > 0 ? n - 1 : 0;
  return (mmc_band){most, most};
}
/* Returns the narrowest band of an n x n matrix that follows from its closed traits and, where
 * MMC_BANDED is one of these, from the band that is claimed. */
mmc_band mmci_band_of(uint32_t traits, mmc_band band, int64_t n);
/* Says whether that band tells more of an n x n matrix than its other traits do. */
bool mmci_band_tells(uint32_t traits, mmc_band band, int64_t n);
static inline mmc_band mmci_band_transpose(mmc_band band) {
  return (mmc_band){band.above, band.below};
}
/* Returns the band of the product of two n x n matrices: that of the sums. */
mmc_band mmci_band_product(mmc_band left, mmc_band right, int64_t n);
/* Returns the band of a matrix with these traits that lies in both bands. */
mmc_band mmci_band_meet(uint32_t traits, mmc_band a, mmc_band b);
/* Makes a claim the shortest that says as much: closes the traits, narrows the band, and drops it
 * where it tells nothing. */
void mmci_traits_settle(uint32_t *traits, mmc_band *band, int64_t n, bool is_complex);

/* ---- claims --------------------------------------------------------------------------------- */

/* Checks the traits that a caller claims of a matrix. Returns NULL when they go together, else
 * static text that says what was expected. */
const char *mmci_traits_wrong(uint32_t traits, int64_t rows, int64_t cols);

/* Reads a word of the text form, "lower", "spd", "inv" or "banded(1,2)", that ends before one of
 * ".,()=" or at the end. Returns its end, or NULL when there is no such word; *band is written
 * where the trait is MMC_BANDED. */
const char *mmci_trait_read(const char *at, uint32_t *traits, mmc_band *band);
/* Writes the words from which a closed set follows, with a dot between two, "lower.unit"; nothing
 * for an empty set. Returns whether there were any. */
bool mmci_traits_write(uint32_t traits, mmc_band band, bool is_complex, mmci_text *text);

#endif
