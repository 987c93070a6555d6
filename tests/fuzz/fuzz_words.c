/* fuzz_words.c: chains as the command line spells them: words of a line, dims, factors, files. */
#include "chains.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  fuzz_hush();
  char *line = fuzz_text(bytes, size);
  static cli_call call;
  if (call.context == NULL) MUST(mmc_context_create(NULL, &call.context) == MMC_OK);
  call.out.file = stderr;
  cli_words words;
  MUST(cli_words_split(line, &words));
  mmc_chain *chain;
  /* "-" would wait for standard input. */
  bool waits = false;
  for (int w = 0; w < words.count; w++) waits = waits || words.words[w][0] == '-';
  if (!waits && cli_chain_of_words(&call, "", words.count, words.words, &chain) == CLI_DONE) {
    MUST(mmc_chain_length(chain) >= 1);
    mmc_chain_destroy(chain);
  }
  cli_guard_free(&call.guard);
  cli_words_free(&words);
  free(line);
  return 0;
}
