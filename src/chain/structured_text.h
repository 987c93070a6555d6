/* structured_text.h: the words of a chain's text form that tell the structure of factors. */
#ifndef MMCI_STRUCTURED_TEXT_H
#define MMCI_STRUCTURED_TEXT_H

#include "base/text.h"
#include "chain/chain.h"

/* Reads one item for every factor that is written, "lower.T.inv,(N,T).inv", into ops, traits and
 * inverses of a chain that has room for them, and whose dims and powers are there. *at moves to the
 * end of what was read, or of what is wrong; then *expected says what was expected there. */
bool mmci_structure_read(const char **at, mmc_chain *chain, const char **expected);

/* Writes a colon and such items, one for every factor. */
void mmci_structure_write(const mmc_chain *chain, mmci_text *text);

#endif
