/* wisdom_text.h: imports wisdom from a text in memory. */
#ifndef MMC_TESTS_WISDOM_TEXT_H
#define MMC_TESTS_WISDOM_TEXT_H

#include <stddef.h>
#include <string.h>

#include "mmchain.h"

typedef struct wisdom_text {
  const char *bytes;
  size_t left;
} wisdom_text;

static inline ptrdiff_t read_wisdom_text(void *user, char *bytes, size_t size) {
  wisdom_text *text = (wisdom_text *)user;
  if (size > text->left) size = text->left;
  memcpy(bytes, text->bytes, size);
  text->bytes += size;
  text->left -= size;
  return (ptrdiff_t)size;
}

static inline mmc_status import_wisdom_text(mmc_context *context, const char *of) {
  wisdom_text text = {.bytes = of, .left = strlen(of)};
  return mmc_wisdom_import(context, read_wisdom_text, &text);
}

#endif
