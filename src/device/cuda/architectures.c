/* architectures.c: tells which cards a build of the kernels runs on. */
#include "device/cuda/architectures.h"

#include <stdlib.h>
#include <string.h>

static bool runs_on(const char *word, size_t length, int capability) {
  char *rest;
  const long number = strtol(word, &rest, 10);
  const size_t digits = (size_t)(rest - word);
  if (digits == 0) return true;
  if (digits < length && *rest == 'a') return capability == number;
  const bool is_ptx = digits == length || strncmp(rest, "-virtual", length - digits) == 0;
  return capability >= number && (is_ptx || capability / 10 == number / 10);
}

bool mmci_cuda_has_code(const char *architectures, int major, int minor) {
  for (const char *word = architectures; *word != '\0'; word += strspn(word, " ")) {
    const size_t length = strcspn(word, " ");
    if (runs_on(word, length, 10 * major + minor)) return true;
    word += length;
  }
  return false;
}
