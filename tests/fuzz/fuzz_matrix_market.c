/* fuzz_matrix_market.c: .mtx files. */
#include "fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char path[FUZZ_PATH_SIZE];
  int descriptor = fuzz_file(bytes, size, path);
  fuzz_format(&mmci_format_matrix_market, path);
  close(descriptor);
  return 0;
}
