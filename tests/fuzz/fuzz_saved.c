/* fuzz_saved.c: plans as JSON that somebody says were saved. One that is planned again has the
 * steps that it says, and is saved so that it is planned again. */
#include "fuzz.h"
#include "mmchain.h"

enum { FACTORS_MOST = 12 }; /* of the chains that are planned; longer ones are read alone */

/* Says whether the text's chain is planned in a moment. */
static bool is_short(const char *text) {
  static const char mark[] = "\"chain\": \"";
  const char *chain = strstr(text, mark),
             *end = chain != NULL ? strchr(chain + sizeof mark - 1, '"') : NULL;
  if (end == NULL) return false;
  char *copy =
      fuzz_text((const uint8_t *)chain + sizeof mark - 1, (size_t)(end - chain) - sizeof mark + 1);
  mmc_chain *parsed;
  bool is = mmc_chain_parse(NULL, copy, &parsed) == MMC_OK;
  if (is) {
    is = mmc_chain_length(parsed) <= FACTORS_MOST;
    mmc_chain_destroy(parsed);
  }
  free(copy);
  return is;
}

static mmc_context *open_context(void) {
  static mmc_context *context;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = "";
  if (context == NULL) MUST(mmc_context_create(&options, &context) == MMC_OK);
  return context;
}

static char *explain(const mmc_plan *plan) {
  fuzz_sink sink = {0};
  MUST(mmc_plan_explain(plan, MMC_JSON, fuzz_write, &sink) == MMC_OK);
  return sink.bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  mmc_context *context = open_context();
  char *text = fuzz_text(bytes, size);
  mmc_plan *plan, *again;
  mmc_chain *other;
  MUST(mmc_chain_parse(NULL, "3x5x7", &other) == MMC_OK);
  /* Without the final NUL, so that a read past the end is seen. */
  mmc_status status = mmc_plan_read(context, (const char *)bytes, size, other, NULL, &plan);
  if (status == MMC_OK) mmc_plan_destroy(plan);
  if (is_short(text) &&
      mmc_plan_read(context, (const char *)bytes, size, NULL, NULL, &plan) == MMC_OK) {
    char *saved = explain(plan);
    MUST(mmc_plan_read(context, saved, strlen(saved), NULL, NULL, &again) == MMC_OK);
    char *saved_again = explain(again);
    MUST(strcmp(strstr(saved, "\"steps\""), strstr(saved_again, "\"steps\"")) == 0);
    free(saved);
    free(saved_again);
    mmc_plan_destroy(again);
    mmc_plan_destroy(plan);
  }
  mmc_chain_destroy(other);
  free(text);
  return 0;
}
