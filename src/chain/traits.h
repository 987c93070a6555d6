/* traits.h: what is known of a factor, and what follows from it for products.
 *
 * A set of mmc_trait is closed when it holds all that its members imply: a diagonal matrix is lower
 * and upper triangular and symmetric, a real symmetric one is Hermitian. The functions here take
 * closed sets and return closed ones. */
#ifndef MMCI_TRAITS_H
#define MMCI_TRAITS_H

#include "base/text.h"

/* All traits that say what a matrix is; MMC_INVERSE says how it is used. */
#define MMCI_TRAITS_OF_MATRIX ((uint32_t)MMC_INVERSE - 1)

static inline bool mmci_traits_have(uint32_t traits, uint32_t all) {
  return (traits & all) == all;
}

/* Says whether a matrix is its own transposed, or its own conjugated transposed. */
static inline bool mmci_traits_mirrored(uint32_t traits) {
  return (traits & (MMC_SYMMETRIC | MMC_HERMITIAN)) != 0;
}

/* Returns the closed set of a square matrix with these traits. */
uint32_t mmci_traits_close(uint32_t traits, bool is_complex);
/* Returns the traits of the transposed matrix, conjugated or not. */
uint32_t mmci_traits_transpose(uint32_t traits);
/* Returns what is known of the product of two matrices with these traits, of whatever shapes. */
uint32_t mmci_traits_product(uint32_t left, uint32_t right, bool is_complex);
/* Returns the traits of the inverse: those of the matrix. */
static inline uint32_t mmci_traits_invert(uint32_t traits) {
  return traits;
}

/* Checks the traits that a caller claims of a matrix. Returns NULL when they go together, else
 * static text that says what was expected. */
const char *mmci_traits_wrong(uint32_t traits, int64_t rows, int64_t cols);

/* Finds the trait of a word of the text form: "lower", "spd", "inv". Returns 0 for none. */
uint32_t mmci_trait_read(const char *word, size_t length);
/* Writes the words from which a closed set follows, with a dot between two, "lower.unit"; nothing
 * for an empty set. Returns whether there were any. */
bool mmci_traits_write(uint32_t traits, bool is_complex, mmci_text *text);

#endif
