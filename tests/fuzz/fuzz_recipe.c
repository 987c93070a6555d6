/* fuzz_recipe.c: recipes. The first three bytes are sizes; one that is read is written as it was,
 * and its pieces are in the product. */
#include "cost/recipe.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  fuzz_input input = {bytes, size};
  int64_t m = fuzz_byte(&input), k = fuzz_byte(&input), n = fuzz_byte(&input);
  char *text = fuzz_text(input.bytes, input.size), again[MMCI_RECIPE_TEXT_SIZE];
  mmci_recipe recipe, second;
  mmci_error error;
  if (m > 0 && k > 0 && n > 0 && mmci_recipe_parse(text, m, k, n, &recipe, &error) == MMC_OK) {
    MUST(mmci_recipe_format(&recipe, again));
    MUST(mmci_recipe_parse(again, m, k, n, &second, &error) == MMC_OK);
    mmci_gemm gemm = mmci_gemm_tight(MMC_F64, MMCI_NATIVE, m, k, n, MMC_OP_N, MMC_OP_T);
    mmci_gemm padded = mmci_recipe_padded(&recipe, &gemm);
    mmci_piece pieces[MMCI_RECIPE_PIECES];
    int count = mmci_recipe_pieces(&recipe, &gemm, pieces);
    MUST(count == mmci_recipe_count(&recipe) && count >= 1);
    for (int p = 0; p < count; p++) {
      MUST(pieces[p].gemm.m >= 1 && pieces[p].gemm.m <= padded.m);
      MUST(pieces[p].gemm.k >= 1 && pieces[p].gemm.k <= padded.k);
      MUST(pieces[p].gemm.n >= 1 && pieces[p].gemm.n <= padded.n);
      MUST(pieces[p].lane >= 0 && pieces[p].lane < recipe.lanes);
    }
  }
  free(text);
  return 0;
}
