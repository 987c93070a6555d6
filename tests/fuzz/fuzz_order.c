/* fuzz_order.c: orders as text. The first byte is the number of factors; what is read is a tree of
 * all of them, and is read again as it is written. */
#include "fuzz.h"
#include "order/order.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  fuzz_input input = {bytes, size};
  int32_t n = 1 + fuzz_byte(&input);
  char *text = fuzz_text(input.bytes, input.size);
  mmci_tree tree, again;
  mmci_error error;
  if (mmci_tree_read(text, n, &tree, &error) == MMC_OK) {
    fuzz_sink sink = {0};
    MUST(mmci_tree_write(&tree, MMC_ORDER_TEXT, fuzz_write, &sink, &error) == MMC_OK);
    MUST(mmci_tree_read(sink.bytes, n, &again, &error) == MMC_OK);
    for (int32_t t = 0; t < n - 1; t++) {
      MUST(tree.products[t].left == again.products[t].left);
      MUST(tree.products[t].right == again.products[t].right);
    }
    mmci_tree_destroy(&again);
    mmci_tree_destroy(&tree);
    free(sink.bytes);
  }
  free(text);
  return 0;
}
