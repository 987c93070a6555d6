/* fuzz_recipe.c: recipes. The first three bytes are sizes; one that is read is written as it was,
 * and its pieces are in the product. */
#include "cost/recipe.h"
#include "fuzz.h"

static const char *variant_name(mmc_dtype dtype, int variant) {
  static const char *const names[] = {"1 thread", "tile 16x32 k8", "", "x"};
  (void)dtype;
  return variant <= 4 ? names[variant - 1] : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  fuzz_input input = {bytes, size};
  int64_t m = fuzz_byte(&input), k = fuzz_byte(&input), n = fuzz_byte(&input);
  char *text = fuzz_text(input.bytes, input.size), again[MMCI_RECIPE_TEXT_SIZE];
  mmci_recipe recipe, second;
  mmci_error error;
  const mmci_variants variants = {.name = variant_name, .dtype = MMC_F64};
  if (m > 0 && k > 0 && n > 0 &&
      mmci_recipe_parse(text, m, k, n, &variants, &recipe, &error) == MMC_OK) {
    MUST(mmci_recipe_format(&recipe, &variants, again));
    MUST(mmci_recipe_parse(again, m, k, n, &variants, &second, &error) == MMC_OK);
    MUST(mmci_recipe_equal(&recipe, &second));
    mmci_gemm gemm = mmci_gemm_tight(MMC_F64, MMCI_NATIVE, m, k, n, MMC_OP_N, MMC_OP_T);
    mmci_gemm padded = mmci_recipe_padded(&recipe, &gemm);
    mmci_recipe_piece pieces[MMCI_RECIPE_PIECES];
    int count = mmci_recipe_pieces(&recipe, &gemm, pieces);
    MUST(count == mmci_recipe_count(&recipe) && count >= 1);
    for (int p = 0; p < count; p++) {
      MUST(pieces[p].gemm.m >= 1 && pieces[p].gemm.m <= padded.m);
      MUST(pieces[p].gemm.k >= 1 && pieces[p].gemm.k <= padded.k);
      MUST(pieces[p].gemm.n >= 1 && pieces[p].gemm.n <= padded.n);
      MUST(pieces[p].queue >= 0 && pieces[p].queue < recipe.queues);
    }
  }
  free(text);
  return 0;
}
