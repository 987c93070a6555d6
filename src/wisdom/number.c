#include "wisdom/number.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *mmci_number_format(double value, char text[MMCI_NUMBER_SIZE]) {
  char number[MMCI_NUMBER_SIZE];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(number, sizeof number, "%.*g", digits, value);
    if (strtod(number, NULL) == value) break;
  }
  /* Whatever is not part of a number is the locale's point, which has one byte or more. */
  char *point = number + strspn(number, "0123456789+-e");
  size_t size = strcspn(point, "0123456789+-e");
  if (size > 0) {
    *point = '.';
    memmove(point + 1, point + size, strlen(point + size) + 1);
  }
  return strcpy(text, number);
}

bool mmci_number_parse(const char *word, double *out) {
  if (word[0] == '\0' || word[strspn(word, "0123456789+-.e")] != '\0') return false;
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (c == (locale_t)0) return false;
  char *end;
  double value = strtod_l(word, &end, c);
  freelocale(c);
  if (*end != '\0' || !isfinite(value)) return false;
  *out = value + 0.0;
  return true;
}
