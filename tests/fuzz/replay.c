/* replay.c: runs a fuzz target over a corpus where libFuzzer is not there.
 *
 *     fuzz_NAME DIRECTORY [CHANGES]
 *
 * Every file of the directory once, then changed at random so often. MMCHAIN_TEST_LONG=1 changes a
 * hundred times as often; MMCHAIN_TEST_SEED=N begins with another seed. */
#include <dirent.h>
#include <signal.h>

#include "../how_many.h"
#include "base/random.h"
#include "fuzz.h"

enum { MOST_BYTES = 1 << 16 };

static uint64_t seed = 1;

/* What the target is given, as text for whom it ends: a handler of signals may not format it. */
static char given[400];
static size_t given_length;

static void on_abort(int number) {
  ssize_t written = write(STDERR_FILENO, given, given_length);
  (void)written;
  signal(number, SIG_DFL);
  raise(number);
}

static size_t below(uint64_t *random, size_t limit) {
  return (size_t)(mmci_random_bits(random) % limit);
}

/* Changes one to four places; returns the size then. */
static size_t change(uint64_t *random, uint8_t *bytes, size_t size) {
  for (size_t places = 1 + below(random, 4); places > 0 && size > 0; places--) {
    size_t at = below(random, size), length = 1 + below(random, 8);
    if (length > size - at) length = size - at;
    switch (below(random, 5)) {
      case 0:
        bytes[at] ^= (uint8_t)(1u << below(random, 8));
        break;
      case 1:
        bytes[at] = (uint8_t)below(random, 256);
        break;
      case 2: /* cut out */
        memmove(bytes + at, bytes + at + length, size - at - length);
        size -= length;
        break;
      case 3: /* doubled */
        if (size + length > MOST_BYTES) break;
        memmove(bytes + at + length, bytes + at, size - at);
        size += length;
        break;
      default: /* copied from elsewhere */
        memmove(bytes + at, bytes + below(random, size - length + 1), length);
    }
  }
  return size;
}

/* Inputs of their very size, so that a read past the end is seen. */
static void run(const uint8_t *bytes, size_t size) {
  uint8_t *exact = malloc(size > 0 ? size : 1);
  MUST(exact != NULL);
  memcpy(exact, bytes, size);
  LLVMFuzzerTestOneInput(exact, size);
  free(exact);
}

static void run_file(const char *directory, const char *name, int changes) {
  static uint8_t bytes[MOST_BYTES], changed[MOST_BYTES];
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "rb");
  MUST(file != NULL);
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  uint64_t random = seed;
  for (int c = 0; c <= changes; c++) {
    int length = snprintf(given, sizeof given, "input %.300s, change %d of seed %llu\n", name, c,
                          (unsigned long long)seed);
    given_length = (size_t)length;
    memcpy(changed, bytes, size);
    run(changed, c == 0 ? size : change(&random, changed, size));
  }
}

static int is_entry(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

int main(int argc, char **argv) {
  struct dirent **entries;
  if (argc < 2) return 2;
  int changes = argc > 2 ? atoi(argv[2]) : 0;
  if (is_in_full()) changes *= 100;
  const char *asked = getenv("MMCHAIN_TEST_SEED");
  if (asked != NULL) seed = strtoull(asked, NULL, 10);
  signal(SIGABRT, on_abort);
  signal(SIGSEGV, on_abort);
  int count = scandir(argv[1], &entries, is_entry, alphasort);
  if (count < 1) {
    printf("%s: no corpus\n", argv[1]);
    return 1;
  }
  for (int e = 0; e < count; e++) {
    run_file(argv[1], entries[e]->d_name, changes);
    free(entries[e]);
  }
  free(entries);
  printf("%d inputs, each changed %d times, seed %llu\n", count, changes, (unsigned long long)seed);
  return 0;
}
