/* fuzz.h: what the fuzz targets share. A target is one function of bytes that come from anywhere;
 * it ends the process where anything but an answer or an error comes of them. libFuzzer calls it
 * (-DMMC_FUZZ=ON, clang), or replay.c, which goes through a corpus by any compiler. */
#ifndef MMC_FUZZ_H
#define MMC_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Ends the process where what must hold does not. */
#define MUST(holds)                                                        \
  do {                                                                     \
    if (!(holds)) {                                                        \
      fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #holds); \
      abort();                                                             \
    }                                                                      \
  } while (0)

enum { FUZZ_PATH_SIZE = 32 };

/* Returns the bytes as a string, to be freed. */
static inline char *fuzz_text(const uint8_t *bytes, size_t size) {
  char *text = malloc(size + 1);
  MUST(text != NULL);
  if (size > 0) memcpy(text, bytes, size);
  text[size] = '\0';
  return text;
}

/* The bytes as a file in memory; returns its descriptor, and the name by which it can be opened. */
static inline int fuzz_file(const uint8_t *bytes, size_t size, char path[FUZZ_PATH_SIZE]) {
  int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  MUST(descriptor >= 0);
  MUST(write(descriptor, bytes, size) == (ssize_t)size);
  snprintf(path, FUZZ_PATH_SIZE, "/proc/self/fd/%d", descriptor);
  return descriptor;
}

/* Numbers off the front of an input; zeros past its end. */
typedef struct fuzz_input {
  const uint8_t *bytes;
  size_t size;
} fuzz_input;

static inline void fuzz_take(fuzz_input *input, void *out, size_t size) {
  size_t there = size < input->size ? size : input->size;
  memset(out, 0, size);
  if (there > 0) memcpy(out, input->bytes, there);
  input->bytes += there;
  input->size -= there;
}

static inline uint8_t fuzz_byte(fuzz_input *input) {
  uint8_t byte;
  fuzz_take(input, &byte, sizeof byte);
  return byte;
}

static inline int64_t fuzz_number(fuzz_input *input) {
  int64_t number;
  fuzz_take(input, &number, sizeof number);
  return number;
}

/* Takes what the library and the command write. user is a fuzz_sink. */
typedef struct fuzz_sink {
  char *bytes; /* with a final NUL, to be freed */
  size_t size;
} fuzz_sink;

static inline int fuzz_write(void *user, const char *bytes, size_t size) {
  fuzz_sink *sink = user;
  char *grown = realloc(sink->bytes, sink->size + size + 1);
  MUST(grown != NULL);
  memcpy(grown + sink->size, bytes, size);
  sink->bytes = grown;
  sink->size += size;
  grown[sink->size] = '\0';
  return 0;
}

/* What the command says of bad input goes nowhere; reports of sanitizers do not go through here. */
static inline void fuzz_hush(void) {
  static bool hushed = false;
  if (hushed) return;
  FILE *nowhere = fopen("/dev/null", "w");
  MUST(nowhere != NULL);
  stderr = nowhere;
  hushed = true;
}

#endif
