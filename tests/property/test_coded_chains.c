/* test_coded_chains.c: chains of seven factors of the artifact of "Compilation of Generalized
 * Matrix Chains with Symbolic Sizes" (CGO 2026, github.com/HPAC/gmc_code_gen, its description): its
 * 13 inputs, and chains that are drawn as its 8806 coded ones are: a factor is general with
 * probability 1/2, else one of nine kinds, at least one is general, and no chain comes twice. Sides
 * are drawn from 50 to 1000, those of square factors are equal. The table costs what trying every
 * order, form and kernel costs.
 *
 * test_coded_chains [COUNT [SEED]] draws so many; MMCHAIN_TEST_LONG draws 8806. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../how_many.h"
#include "../random.h"
#include "../structured_brute.h"
#include "structure/steps.h"

enum { LENGTH = 7, CODED = 8806, SHORT = 150, INPUTS = 13, DRAWS = 4 };

/* The inputs: words of each factor, as a chain's text has them. */
static const char *const inputs[INPUTS] = {
    "N,N,N,N,N,N,N",
    "N,inv,lower.inv,lower,N,N,N",
    "N,N,upper,inv,lower,N,N",
    "N,N,lower,lower.inv,upper,inv,N",
    "symmetric,N,N,symmetric.inv,diagonal,lower.inv,N",
    "symmetric,inv,diagonal,N,N,inv,N",
    "N,spd.inv,symmetric,diagonal.inv,lower,N,N",
    "N,N,inv,spd.inv,diagonal,upper,N",
    "N,N,diagonal,lower.inv,lower.inv,N,N",
    "N,N,lower,symmetric.inv,N,N,N",
    "lower,lower,upper,upper,lower,lower,upper",
    "lower.inv,lower,upper.inv,upper,lower.inv,lower,upper",
    "N,N,lower.inv,N,upper.inv,N,N",
};

/* What the digits of a code mean. Of full rank or not, a triangular matrix is the same here. */
static const char *const digits[10] = {"N",     "inv",   "spd",   "spd.inv",   "upper",
                                       "lower", "upper", "lower", "upper.inv", "lower.inv"};

static int failures;

static void check_chain(const char *words, uint64_t *state) {
  char text[400] = "f64:", copy[200];
  mmci_error error = {0};
  mmc_chain *chain;
  mmci_structure_table table;
  mmci_structure_steps steps;
  const mmci_structure_prices prices = {.element_bytes = 8};
  int64_t side = 50 + random_below(state, 951);
  snprintf(copy, sizeof copy, "%s", words);
  snprintf(text, sizeof text, "f64:%lld", (long long)side);
  char *rest = copy;
  for (int i = 0; i < LENGTH; i++) {
    const char *word = strsep(&rest, ",");
    if (strcmp(word, "N") == 0) side = 50 + random_below(state, 951);
    snprintf(text + strlen(text), sizeof text - strlen(text), "x%lld", (long long)side);
  }
  snprintf(text + strlen(text), sizeof text - strlen(text), ":%s", words);
  if (mmci_chain_parse(text, &chain, &error) != MMC_OK) {
    printf("%s: %s\n", text, error.text);
    failures++;
    return;
  }
  if (chain->traits != NULL) {
    if (mmci_structure_solve(chain, &prices, NULL, &table, &error) != MMC_OK ||
        mmci_structure_list(&table, &prices, &steps, &error) != MMC_OK) {
      printf("%s: %s\n", text, error.text);
      failures++;
    } else {
      const mmci_u128 cost = brute(&table, &prices, 0, LENGTH, MMCI_PLAIN, true);
      if (cost != steps.cost.count) {
        printf("%s: %.0f multiplications, and the fewest are %.0f\n", text,
               (double)steps.cost.count, (double)cost);
        failures++;
      }
      mmci_structure_steps_destroy(&steps);
    }
    mmci_structure_destroy(&table);
  }
  mmc_chain_destroy(chain);
}

/* Draws a code that is not among those before. */
static int32_t draw_code(uint64_t *state, const int32_t *before, int64_t count) {
  for (;;) {
    int32_t code = 0;
    bool general = false, known = false;
    for (int i = 0; i < LENGTH; i++) {
      const int64_t digit = random_below(state, 2) == 0 ? 0 : 1 + random_below(state, 9);
      general = general || digit == 0;
      code = code * 10 + (int32_t)digit;
    }
    for (int64_t i = 0; i < count && !known; i++) known = before[i] == code;
    if (general && !known) return code;
  }
}

int main(int argc, char **argv) {
  const int64_t usual = how_many(SHORT, CODED);
  const int64_t count = argc > 1 ? atoll(argv[1]) : usual;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, state = seed;
  int32_t *codes = calloc((size_t)count + 1, sizeof *codes);
  if (codes == NULL) return 1;
  for (int i = 0; i < INPUTS; i++)
    for (int t = 0; t < DRAWS; t++) check_chain(inputs[i], &state);
  for (int64_t i = 0; i < count && failures < 20; i++) {
    char words[200] = "";
    codes[i] = draw_code(&state, codes, i);
    int32_t power = 1000000;
    for (int f = 0; f < LENGTH; f++, power /= 10) {
      if (f > 0) strcat(words, ",");
      strcat(words, digits[codes[i] / power % 10]);
    }
    check_chain(words, &state);
  }
  free(codes);
  printf("seed %llu: %d inputs, %lld coded chains, %d failures\n", (unsigned long long)seed, INPUTS,
         (long long)count, failures);
  return failures != 0;
}
