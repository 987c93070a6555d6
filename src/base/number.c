#include "base/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t c_locale; /* it is never freed */

static void find_c_locale(void) {
  c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Returns the C locale; in want of memory 0, and then the program's locale is used. */
static locale_t get_c_locale(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_c_locale);
  return c_locale;
}

int mmci_vprint(char *text, size_t size, const char *format, va_list args) {
  const locale_t before = uselocale(get_c_locale());
  const int length = vsnprintf(text, size, format, args);
  uselocale(before);
  return length;
}

int mmci_print(char *text, size_t size, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const int length = mmci_vprint(text, size, format, args);
  va_end(args);
  return length;
}

double mmci_number_read(const char *text, char **end) {
  const locale_t c = get_c_locale();
  return c != (locale_t)0 ? strtod_l(text, end, c) : strtod(text, end);
}

char *mmci_number_format(double value, char text[MMCI_NUMBER_SIZE]) {
  for (int digits = 15; digits <= 17; digits++) {
    mmci_print(text, MMCI_NUMBER_SIZE, "%.*g", digits, value);
    if (mmci_number_read(text, NULL) == value) break;
  }
  return text;
}

bool mmci_number_parse(const char *word, double *out) {
  if (word[0] == '\0' || word[strspn(word, "0123456789+-.e")] != '\0') return false;
  char *end;
  const double value = mmci_number_read(word, &end);
  if (*end != '\0' || !isfinite(value)) return false;
  *out = value + 0.0;
  return true;
}
