#include "chain/structured_text.h"

#include <string.h>

#include "base/dtype.h"
#include "chain/traits.h"

static const char op_letters[] = "NTH"; /* by the numbers of mmc_op, as in MMCI_SHARED_OPS */

/* ---- reading -------------------------------------------------------------------------------- */

bool mmci_op_read(char letter, mmc_chain *chain, int32_t i) {
  const char *shared = letter != '\0' ? strchr(MMCI_SHARED_OPS, letter) : NULL,
             *own = letter != '\0' ? strchr(op_letters, letter) : NULL;
  if (shared == NULL && own == NULL) return false;
  chain->ops[i] = (mmc_op)(shared != NULL ? shared - MMCI_SHARED_OPS : own - op_letters);
  if (shared != NULL) chain->shared[i] = 1;
  return true;
}

static const char any_word[] =
    "N, T, H, n, t, h, inv, lower, upper, unit, diagonal, symmetric, hermitian, spd, identity, "
    "zero, "
    "orthogonal, permutation, tridiagonal or banded(1,2)";

/* Reads words with dots between them, of factor i. */
static bool read_item(const char **at, mmc_chain *chain, int32_t i, const char **expected) {
  bool has_op = false;
  for (;;) {
    uint32_t trait = 0;
    mmc_band *band = &chain->bands[i];
    const char *end = mmci_trait_read(*at, &trait, band);
    *expected = any_word;
    if (end == NULL) {
      if (has_op || strcspn(*at, ".,()=") != 1 || !mmci_op_read(**at, chain, i)) return false;
      has_op = true;
      end = *at + 1;
    } else if (mmci_traits_have(chain->traits[i], trait)) {
      return false;
    }
    chain->traits[i] |= trait;
    *at = end;
    if (**at != '.') return true;
    ++*at;
  }
}

/* Takes what closes groups behind factor i, ").inv". */
static bool close_groups(const char **at, mmc_chain *chain, int32_t i, const char **expected) {
  static const char closing[] = ").inv";
  while (**at == ')') {
    *expected = "').inv', which ends a group";
    if (strncmp(*at, closing, sizeof closing - 1) != 0) return false;
    int32_t open = chain->inverse_count - 1;
    while (open >= 0 && chain->inverses[open].last >= 0) open--;
    *expected = "no ')' without a '(' before";
    if (open < 0) return false;
    chain->inverses[open].last = i;
    *at += sizeof closing - 1;
  }
  return true;
}

static bool is_continued(const mmc_chain *chain, int32_t i) {
  return i > 0 && chain->same != NULL && chain->same[i] == chain->same[i - 1];
}

bool mmci_structure_read(const char **at, mmc_chain *chain, const char **expected) {
  for (int32_t i = 0, end; i < chain->n; i = end) {
    for (end = i + 1; end < chain->n && is_continued(chain, end);) end++;
    *expected = "',' and the words of the next factor";
    if (i > 0 && **at != ',') return false;
    *at += i > 0;
    for (; **at == '('; ++*at)
      chain->inverses[chain->inverse_count++] = (mmc_inverse){.first = i, .last = -1};
    if (!read_item(at, chain, i, expected)) return false;
    for (int32_t t = i + 1; t < end; t++) {
      chain->traits[t] = chain->traits[i];
      chain->bands[t] = chain->bands[i];
      chain->ops[t] = chain->ops[i];
      chain->stored[t] = i;
      if (chain->shared != NULL) chain->shared[t] = chain->shared[i];
    }
    if (!close_groups(at, chain, end - 1, expected)) return false;
  }
  *expected = "').inv', which ends a group";
  for (int32_t g = 0; g < chain->inverse_count; g++)
    if (chain->inverses[g].last < 0) return false;
  return true;
}

/* ---- writing -------------------------------------------------------------------------------- */

char mmci_op_letter(const mmc_chain *chain, int32_t i) {
  return (mmc_chain_shared(chain, i) ? MMCI_SHARED_OPS : op_letters)[chain->ops[i]];
}

static int32_t count_at(const mmc_chain *chain, int64_t i, bool last) {
  int32_t count = 0;
  for (int32_t g = 0; g < chain->inverse_count; g++)
    count += (last ? chain->inverses[g].last : chain->inverses[g].first) == i;
  return count;
}

void mmci_structure_write(const mmc_chain *chain, mmci_text *text) {
  bool is_complex = mmci_dtype_is_complex(chain->dtype);
  for (int32_t i = 0; i < chain->n; i++) {
    mmci_text_bytes(text, i == 0 ? ":" : ",", 1);
    for (int32_t c = count_at(chain, i, false); c > 0; c--) mmci_text_bytes(text, "(", 1);
    const uint32_t traits = chain->traits[i];
    bool any = mmci_traits_write(traits & MMCI_TRAITS_OF_MATRIX, chain->bands[i], is_complex, text);
    if (!any || chain->ops[i] != MMC_OP_N || mmc_chain_shared(chain, i))
      mmci_text_printf(text, "%s%c", any ? "." : "", mmci_op_letter(chain, i));
    if ((traits & MMC_INVERSE) != 0) mmci_text_printf(text, ".inv");
    for (int32_t c = count_at(chain, i, true); c > 0; c--) mmci_text_printf(text, ").inv");
  }
}
