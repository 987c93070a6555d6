#include "xml.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void cli_print_xml(cli_stream *out, const char *text) {
  for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
    const char *escaped = *c == '&'    ? "&amp;"
                          : *c == '<'  ? "&lt;"
                          : *c == '>'  ? "&gt;"
                          : *c == '"'  ? "&quot;"
                          : *c == '\'' ? "&#39;"
                                       : NULL;
    bool fine = *c >= 0x20 || *c == '\n' || *c == '\t';
    if (escaped != NULL)
      cli_print(out, "%s", escaped);
    else
      cli_print(out, "%c", fine && *c != 0x7f ? *c : '?');
  }
}

cli_quantity cli_in_units(double value, const char *unit) {
  static const struct {
    const char *prefix;
    double size;
  } prefixes[] = {{"T", 1e12}, {"G", 1e9},       {"M", 1e6},  {"k", 1e3},  {"", 1},
                  {"m", 1e-3}, {"\u00b5", 1e-6}, {"n", 1e-9}, {"p", 1e-12}};
  enum { COUNT = sizeof prefixes / sizeof prefixes[0], PLAIN = 4 };
  cli_quantity q;
  if (!isfinite(value)) {
    snprintf(q.text, sizeof q.text, "-");
    return q;
  }
  size_t p = PLAIN;
  /* A number that would be rounded to 1000 gets the next prefix, but nobody counts in kiloseconds.
   */
  if (unit[0] != '\0' && value != 0)
    for (p = strcmp(unit, "s") == 0 ? PLAIN : 0;
         p + 1 < COUNT && fabs(value) < 0.9995 * prefixes[p].size;)
      p++;
  const double shown = value / prefixes[p].size;
  const bool is_long = unit[0] != '\0' && fabs(shown) >= 999.5 && fabs(shown) < 1e9;
  snprintf(q.text, sizeof q.text, is_long ? "%.0f%s%s%s" : "%.3g%s%s%s", shown,
           unit[0] != '\0' ? " " : "", prefixes[p].prefix, unit);
  return q;
}
