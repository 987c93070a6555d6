/* structured_text.h: the letters of a chain's text form, and the words that tell the structure of
 * factors. */
#ifndef MMCI_STRUCTURED_TEXT_H
#define MMCI_STRUCTURED_TEXT_H

#include "base/text.h"
#include "chain/chain.h"

/* The letters of ops of factors that are shared by all chains, by the numbers of mmc_op. */
#define MMCI_SHARED_OPS "nth"

/* Takes the letter of factor i. Returns false where it is none; a chain whose text has letters of
 * shared factors has room to note them. */
bool mmci_op_read(char letter, mmc_chain *chain, int32_t i);
/* Returns the letter of factor i. */
char mmci_op_letter(const mmc_chain *chain, int32_t i);

/* Reads one item for every factor that is written, "lower.T.inv,(N,T).inv", into ops, traits and
 * inverses of a chain that has room for them, and whose dims and powers are there. *at moves to the
 * end of what was read, or of what is wrong; then *expected says what was expected there. */
bool mmci_structure_read(const char **at, mmc_chain *chain, const char **expected);

/* Writes a colon and such items, one for every factor. */
void mmci_structure_write(const mmc_chain *chain, mmci_text *text);

#endif
