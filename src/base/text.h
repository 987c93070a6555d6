/* text.h: text that is buffered on its way to a caller's write function. */
#ifndef MMCI_TEXT_H
#define MMCI_TEXT_H

#include "base/status.h"

/* Collects what is written and hands it on in pieces. After the first failure it drops the rest;
 * mmci_text_finish() tells whether there was one. */
typedef struct mmci_text {
  mmc_write_fn write;
  void *user;
  size_t used;
  bool failed;
  char buffer[1024];
} mmci_text;

void mmci_text_start(mmci_text *text, mmc_write_fn write, void *user);
void mmci_text_bytes(mmci_text *text, const void *bytes, size_t size);
/* Writes at most 1000 characters a call. */
void mmci_text_printf(mmci_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Writes a JSON string with its quotes. */
void mmci_text_json_string(mmci_text *text, const char *string);
/* Writes text of an XML document, in which characters that mean something are escaped and those
 * that may not stand there become "?". */
void mmci_text_xml(mmci_text *text, const char *string);
/* Hands on what is left. Returns E_IO when the write function failed at any time. */
mmc_status mmci_text_finish(mmci_text *text, mmci_error *error);

#endif
