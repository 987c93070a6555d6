/* xml.h: text of pictures and pages. Chains, paths and names of devices come from elsewhere, so
 * that everything but fixed text goes through these. */
#ifndef MMC_CLI_XML_H
#define MMC_CLI_XML_H

#include "output.h"

/* Prints text in which characters that mean something in XML and HTML are escaped, and those that
 * may not stand there become "?". */
void cli_print_xml(cli_stream *out, const char *text);

typedef struct cli_quantity {
  char text[32];
} cli_quantity;

/* Returns "1.23 ms", with the prefix that makes the number at least 1 and less than 1000 where
 * there is one; "-" for NaN. A unit of "" is a ratio, without prefixes. */
cli_quantity cli_in_units(double value, const char *unit);

#endif
