#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

static void flush(mmci_text *text) {
  if (text->used != 0 && !text->failed)
    text->failed = text->write(text->user, text->buffer, text->used) != 0;
  text->used = 0;
}

void mmci_text_start(mmci_text *text, mmc_write_fn write, void *user) {
  text->write = write;
  text->user = user;
  text->used = 0;
  text->failed = false;
}

void mmci_text_bytes(mmci_text *text, const void *bytes, size_t size) {
  if (size > sizeof text->buffer - text->used) flush(text);
  if (size > sizeof text->buffer) {
    if (!text->failed) text->failed = text->write(text->user, bytes, size) != 0;
    return;
  }
  memcpy(text->buffer + text->used, bytes, size);
  text->used += size;
}

void mmci_text_printf(mmci_text *text, const char *format, ...) {
  char line[1001];
  va_list args;
  va_start(args, format);
  int length = mmci_vprint(line, sizeof line, format, args);
  va_end(args);
  if (length < 0) {
    text->failed = true;
    return;
  }
  size_t size = (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
  mmci_text_bytes(text, line, size);
}

void mmci_text_json_string(mmci_text *text, const char *string) {
  mmci_text_bytes(text, "\"", 1);
  for (const unsigned char *c = (const unsigned char *)string; *c != '\0'; c++) {
    if (*c == '"' || *c == '\\')
      mmci_text_printf(text, "\\%c", *c);
    else if (*c < 0x20)
      mmci_text_printf(text, "\\u%04x", *c);
    else
      mmci_text_bytes(text, c, 1);
  }
  mmci_text_bytes(text, "\"", 1);
}

void mmci_text_xml(mmci_text *text, const char *string) {
  for (const unsigned char *c = (const unsigned char *)string; *c != '\0'; c++) {
    if (*c == '&')
      mmci_text_bytes(text, "&amp;", 5);
    else if (*c == '<')
      mmci_text_bytes(text, "&lt;", 4);
    else if (*c == '>')
      mmci_text_bytes(text, "&gt;", 4);
    else if (*c == '"')
      mmci_text_bytes(text, "&quot;", 6);
    else
      mmci_text_bytes(text, *c < 0x20 || *c == 0x7f ? "?" : (const char *)c, 1);
  }
}

mmc_status mmci_text_finish(mmci_text *text, mmci_error *error) {
  flush(text);
  if (text->failed) return mmci_fail(error, MMC_E_IO, "the write callback failed");
  return MMC_OK;
}
