/* fuzz_dims.c: lists of dims, as `mmchain order --dims` reads them. */
#include "dims.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  fuzz_hush();
  char *text = fuzz_text(bytes, size);
  cli_call call = {.out = {.file = stderr}};
  cli_dims dims = {0};
  if (cli_dims_append(&call, "input", text, &dims) == CLI_DONE)
    for (int64_t i = 0; i < dims.count; i++) MUST(dims.dims[i] >= 0);
  free(dims.dims);
  free(text);
  return 0;
}
