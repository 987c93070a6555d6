/* fuzz_matlab.c: .mat files, which are opened by name. */
#include "fuzz_format.h"

extern const mmci_format mmci_format_matlab;

/* matio leaks what it has read of a damaged variable. */
MMC_API const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
  return "leak:libmatio\n";
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char path[] = "/dev/shm/mmchain-fuzz-XXXXXX";
  int descriptor = mkstemp(path);
  MUST(descriptor >= 0 && write(descriptor, bytes, size) == (ssize_t)size);
  close(descriptor);
  fuzz_format(&mmci_format_matlab, path);
  unlink(path);
  return 0;
}
