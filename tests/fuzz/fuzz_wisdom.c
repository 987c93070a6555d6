/* fuzz_wisdom.c: the text form of wisdom. What is imported is exported so that it imports as the
 * same. */
#include "fuzz.h"
#include "wisdom/store.h"

static ptrdiff_t read_input(void *user, char *bytes, size_t size) {
  fuzz_input *input = user;
  size_t piece = size < input->size ? size : input->size;
  fuzz_take(input, bytes, piece);
  return (ptrdiff_t)piece;
}

/* What a new store that has imported the bytes exports; NULL where they are no wisdom. */
static char *import(const void *bytes, size_t size) {
  fuzz_input input = {bytes, size};
  fuzz_sink text = {0};
  mmci_error error;
  mmci_wisdom *wisdom;
  MUST(mmci_store_create_in_memory(&wisdom, &error) == MMC_OK);
  if (mmci_wisdom_import(wisdom, read_input, &input, &error) == MMC_OK)
    MUST(mmci_wisdom_export(wisdom, fuzz_write, &text, &error) == MMC_OK);
  mmci_wisdom_destroy(wisdom);
  return text.bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char *first = import(bytes, size);
  if (first == NULL) return 0;
  char *second = import(first, strlen(first));
  MUST(second != NULL && strcmp(first, second) == 0);
  free(first);
  free(second);
  return 0;
}
