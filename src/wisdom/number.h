/* number.h: doubles as text that reads back exactly, whatever the locale. */
#ifndef MMCI_NUMBER_H
#define MMCI_NUMBER_H

#include <stdbool.h>

enum { MMCI_NUMBER_SIZE = 32 };

/* Writes the fewest of 15 to 17 digits that give value back, with a point in every locale. value
 * must be finite. Returns text. */
char *mmci_number_format(double value, char text[MMCI_NUMBER_SIZE]);
/* Reads a decimal number that is all of word; returns false for anything else and for what is not
 * finite. */
bool mmci_number_parse(const char *word, double *out);

#endif
