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
         mmc_chain_same(a, i) == mmc_chain_same(b, i) &&
         mmc_chain_shared(a, i) == mmc_chain_shared(b, i) &&
         mmc_chain_traits(a, i) == mmc_chain_traits(b, i) &&
         mmc_chain_band(a, i).below == mmc_chain_band(b, i).below &&
         mmc_chain_band(a, i).above == mmc_chain_band(b, i).above);
  MUST(mmc_chain_modulus(a) == mmc_chain_modulus(b) &&
       mmc_chain_checked(a) == mmc_chain_checked(b));
  int64_t count, other;
  const mmc_inverse *x = mmc_chain_inverses(a, &count), *y = mmc_chain_inverses(b, &other);
  MUST(count == other);
  for (int64_t g = 0; g < count; g++) MUST(x[g].first == y[g].first && x[g].last == y[g].last);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char *text = fuzz_text(bytes, size);
  mmc_chain *chain, *again;
  if (mmc_chain_parse(NULL, text, &chain) == MMC_OK) {
    fuzz_sink written = {0};
    MUST(mmc_chain_write(chain, fuzz_write, &written) == MMC_OK);
    MUST(mmc_chain_parse(NULL, written.bytes, &again) == MMC_OK);
    must_equal(chain, again);
    fuzz_sink twice = {0};
    MUST(mmc_chain_write(again, fuzz_write, &twice) == MMC_OK);
    MUST(strcmp(written.bytes, twice.bytes) == 0);
    free(twice.bytes);
    mmc_chain_destroy(again);
    mmc_chain_destroy(chain);
    free(written.bytes);
  }
  free(text);
  return 0;
}
