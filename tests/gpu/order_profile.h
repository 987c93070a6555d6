/* order_profile.h: whether a profile of the paper's kernels says what it promises: the time of
 * every kernel on every diagonal, then ranges that cover the diagonals. */
#ifndef ORDER_PROFILE_H
#define ORDER_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct profile_text {
  char *bytes;
  size_t size, capacity;
  int writes, fail_at; /* fail_at: the write that fails, from 1; 0: none */
} profile_text;

static inline int profile_write(void *user, const char *bytes, size_t size) {
  profile_text *text = (profile_text *)user;
  if (++text->writes == text->fail_at) return 1;
  if (text->size + size + 1 > text->capacity) {
    size_t capacity = (text->size + size + 1) * 2;
    char *grown = (char *)realloc(text->bytes, capacity);
    if (grown == NULL) return 1;
    text->bytes = grown;
    text->capacity = capacity;
  }
  memcpy(text->bytes + text->size, bytes, size);
  text->size += size;
  text->bytes[text->size] = '\0';
  return 0;
}

/* paper: the profile is of kernel paper, else of that kernel. */
static inline bool profile_is_right(const profile_text *text, int32_t n, const char *kernel) {
  bool paper = strcmp(kernel, "paper") == 0;
  const char *expected[] = {"thread", "block", "blocks", kernel};
  int first_kernel = paper ? 0 : 3, next_kernel = first_kernel;
  int32_t next_l = 2, next_range = 2, next_setting = 2;
  int sweeps = 0;
  const char *line = text->bytes == NULL ? "" : text->bytes;
  for (; *line != '\0'; line = strchr(line, '\n') + 1) {
    char name[16], tail[8];
    int l = 0, last = 0, threads = 0, blocks = 0;
    double seconds = -1;
    if (strchr(line, '\n') == NULL) return false;
    if (sscanf(line, "%d,%15[a-z],%lf%1[\n]", &l, name, &seconds, tail) == 4) {
      if (next_range != 2 || l != next_l || !(seconds >= 0)) return false;
      if (strcmp(name, expected[next_kernel]) != 0) return false;
      if (++next_kernel == 4) {
        next_kernel = first_kernel;
        next_l++;
      }
    } else if (sscanf(line, "# range,%d,%d,%15[a-z]%1[\n]", &l, &last, name, tail) == 4) {
      if (l != next_range || last < l || last > n) return false;
      if (!paper && strcmp(name, kernel) != 0) return false;
      next_range = last + 1;
    } else if (sscanf(line, "# setting,%d,%d,%15[a-z],%d,%d%1[\n]", &l, &last, name, &threads,
                      &blocks, tail) == 6) {
      if (l != next_setting || last < l || last > n || threads < 32 || threads > 256) return false;
      if ((strcmp(name, "blocks") == 0) != (blocks > 0)) return false;
      next_setting = last + 1;
    } else if (sscanf(line, "# sweep,%15[a-z],%d,%d,%lf%1[\n]", name, &threads, &blocks, &seconds,
                      tail) == 5) {
      if (!(seconds >= 0)) return false;
      sweeps++;
    } else if (sscanf(line, "# selection,%lf%1[\n]", &seconds, tail) != 2 || !(seconds >= 0)) {
      return false;
    }
  }
  if (n < 2) return text->size == 0;
  return next_l == n + 1 && next_range == n + 1 && next_setting == n + 1 &&
         (!paper || sweeps == 24);
}

#endif
