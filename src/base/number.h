/* number.h: numbers as text with a point, whatever locale the program has set: where it is a comma,
 * printf() writes one, and strtod() ends at a point. */
#ifndef MMCI_NUMBER_H
#define MMCI_NUMBER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

enum { MMCI_NUMBER_SIZE = 32 };

/* Do what snprintf(), vsnprintf() and strtod() do in the C locale. */
int mmci_print(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int mmci_vprint(char *text, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
double mmci_number_read(const char *text, char **end);

/* Writes the fewest of 15 to 17 digits that give value back, which must be finite. Returns text. */
char *mmci_number_format(double value, char text[MMCI_NUMBER_SIZE]);
/* Reads a decimal number that is all of word; returns false for anything else and for what is not
 * finite. */
bool mmci_number_parse(const char *word, double *out);

#endif
