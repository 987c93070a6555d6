/* fuzz_chain.c: the text form of a chain. What is read is written so that it reads as the same. */
#include "fuzz.h"
#include "mmchain.h"

static void must_equal(const mmc_chain *a, const mmc_chain *b) {
  int64_t n = mmc_chain_length(a);
  MUST(mmc_chain_length(b) == n && mmc_chain_dtype(a) == mmc_chain_dtype(b));
  MUST(mmc_chain_batch(a) == mmc_chain_batch(b));
  for (int64_t i = 0; i <= n; i++) MUST(mmc_chain_dims(a)[i] == mmc_chain_dims(b)[i]);
  for (int64_t i = 0; i < n; i++)
    MUST(mmc_chain_ops(a)[i] == mmc_chain_ops(b)[i] &&
         mmc_chain_same(a, i) == mmc_chain_same(b, i));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char *text = fuzz_text(bytes, size);
  mmc_chain *chain, *again;
  if (mmc_chain_parse(NULL, text, &chain) == MMC_OK) {
    fuzz_sink written = {0};
    MUST(mmc_chain_write(chain, fuzz_write, &written) == MMC_OK);
    MUST(mmc_chain_parse(NULL, written.bytes, &again) == MMC_OK);
    must_equal(chain, again);
    mmc_chain_destroy(again);
    mmc_chain_destroy(chain);
    free(written.bytes);
  }
  free(text);
  return 0;
}
