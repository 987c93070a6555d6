/* number.h: doubles as text that reads back exactly, whatever the locale. */
#ifndef MMCI_NUMBER_H
#define MMCI_NUMBER_H

#include <stdbool.h>

enum { MMCI_NUMBER_SIZE = 32 };

/* The fewest of 15 to 17 digits that give value back; a point in every locale. Finite only. Returns
 * text. */
char *mmci_number_format(double value, char text[MMCI_NUMBER_SIZE]);
/* A decimal number, all of word; false when it is anything else or not finite. */
bool mmci_number_parse(const char *word, double *out);

#endif
