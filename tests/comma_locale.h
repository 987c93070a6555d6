/* comma_locale.h: a locale whose numbers have a comma, which a test sets and leaves. */
#ifndef MMC_TEST_COMMA_LOCALE_H
#define MMC_TEST_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Sets one that the machine has, or one that localedef makes. Returns false where there is none. */
static inline bool set_comma_locale(void) {
  static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "de_DE"};
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
    if (setlocale(LC_ALL, names[n]) != NULL) return true;
  char folder[] = "/tmp/mmchain-locale-XXXXXX", line[256];
  if (mkdtemp(folder) == NULL) return false;
  snprintf(line, sizeof line, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s/said 2>&1", folder,
           folder);
  const bool made = system(line) == 0 && setenv("LOCPATH", folder, 1) == 0 &&
                    setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
  snprintf(line, sizeof line, "rm -r %s", folder);
  return system(line) == 0 && made;
}

static inline void leave_comma_locale(void) {
  setlocale(LC_ALL, "C");
}

#endif
