/* fuzz_npy.c: .npy files. One that opens has all the elements that its shape says. */
#include "fuzz.h"
#include "io/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char path[FUZZ_PATH_SIZE];
  int descriptor = fuzz_file(bytes, size, path);
  mmci_file_array *npy;
  mmci_error error;
  if (mmci_npy_open(path, &npy, &error) == MMC_OK) {
    const int64_t *shape = npy->shape;
    size_t count = 1;
    for (int d = 0; d < npy->ndim; d++) count *= (size_t)shape[d];
    size_t all = count * mmc_dtype_size(npy->dtype);
    const volatile unsigned char *data = npy->matrix.data;
    unsigned sum = 0;
    for (size_t i = 0; i < all; i++) sum += data[i];
    MUST(all == 0 || data != NULL);
    (void)sum;
    mmci_file_array_destroy(npy);
  } else {
    MUST(error.text[0] != '\0');
  }
  close(descriptor);
  return 0;
}
