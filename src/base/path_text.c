#include "base/path_text.h"

#include <string.h>

char *mmci_path_text(const char *path, char text[MMCI_PATH_TEXT_SIZE]) {
  static const char ellipsis[] = "...";
  size_t length = strlen(path), used = 0;
  if (length >= MMCI_PATH_TEXT_SIZE) {
    used = sizeof ellipsis - 1;
    memcpy(text, ellipsis, used);
    path += length - (MMCI_PATH_TEXT_SIZE - 1 - used);
    /* The cut must not lie in the middle of a UTF-8 character. */
    while (((unsigned char)*path & 0xC0) == 0x80) path++;
  }
  for (; *path != '\0'; path++) {
    unsigned char c = (unsigned char)*path;
    text[used++] = c < 0x20 || c == 0x7F ? '?' : *path;
  }
  text[used] = '\0';
  return text;
}
