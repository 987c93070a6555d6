/* test_structure.c: what is known of products holds for their matrices; the table of orders costs
 * as little as every order, form and kernel tried one after the other; and the text form is read
 * back.
 *
 * test_structure [COUNT [SEED]] draws so many chains; MMCHAIN_TEST_LONG draws 100000. */
#include "structure/rewrite.h"
#include "structure/steps.h"

#include "../how_many.h"
#include "../structured_brute.h"
#include "../structured_chains.h"

/* ---- what products are ----------------------------------------------------------------------- */

static bool is_definite(const dense *x) {
  int64_t n = x->rows;
  dense l = dense_op(x, MMC_OP_N);
  bool definite = true;
  for (int64_t p = 0; p < n && definite; p++) {
    definite = creal(l.at[p * n + p]) > 0;
    for (int64_t r = p + 1; r < n; r++) {
      double complex f = l.at[r * n + p] / l.at[p * n + p];
      for (int64_t c = p; c < n; c++) l.at[r * n + c] -= f * l.at[p * n + c];
    }
  }
  free(l.at);
  return definite;
}

static bool is_orthogonal(const dense *x, double tolerance) {
  dense adjoint = dense_op(x, MMC_OP_H), product = dense_multiply(&adjoint, x);
  bool is = true;
  for (int64_t i = 0; i < x->rows * x->rows; i++)
    is = is && cabs(product.at[i] - (i % (x->rows + 1) == 0)) <= tolerance;
  free(adjoint.at);
  free(product.at);
  return is;
}

/* Says whether every row and column has one 1 and zeros. */
static bool is_permutation(const dense *x, double tolerance) {
  for (int64_t i = 0; i < x->rows * x->cols; i++)
    if (cabs(x->at[i]) > tolerance && cabs(x->at[i] - 1) > tolerance) return false;
  return is_orthogonal(x, tolerance);
}

/* Returns the traits that the matrix has not, of those that are said of it. */
static uint32_t untrue(const dense *x, uint32_t traits, double tolerance) {
  uint32_t wrong = 0;
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++) {
      double complex value = x->at[r * x->cols + c];
      double complex one = r == c ? 1 : 0;
      if (cabs(value) > tolerance) {
        wrong |= MMC_ZERO;
        if (c > r) wrong |= MMC_LOWER;
        if (c < r) wrong |= MMC_UPPER;
      }
      if (cabs(value - one) > tolerance) wrong |= MMC_IDENTITY;
      if (r == c && cabs(value - 1) > tolerance) wrong |= MMC_UNIT;
      if (x->rows != x->cols) continue;
      double complex other = x->at[c * x->cols + r];
      if (cabs(value - other) > tolerance) wrong |= MMC_SYMMETRIC;
      if (cabs(value - conj(other)) > tolerance) wrong |= MMC_HERMITIAN;
    }
  if ((traits & MMC_POSITIVE_DEFINITE) != 0 && !is_definite(x)) wrong |= MMC_POSITIVE_DEFINITE;
  if ((traits & MMC_ORTHOGONAL) != 0 && !is_orthogonal(x, tolerance)) wrong |= MMC_ORTHOGONAL;
  if ((traits & MMC_PERMUTATION) != 0 && !is_permutation(x, tolerance)) wrong |= MMC_PERMUTATION;
  if ((traits & MMC_BANDED) != 0) wrong |= MMC_BANDED; /* a band is told apart */
  return wrong & traits;
}

/* Says whether elements lie beside a band. */
static bool has_more(const dense *x, mmc_band band, double tolerance) {
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++)
      if ((r - c > band.below || c - r > band.above) && cabs(x->at[r * x->cols + c]) > tolerance)
        return true;
  return false;
}

static int64_t looked_at, said, bands;

/* Looks at the band of a product, and at that of its inverse. */
static void check_bands(const structured_chain *x, const mmci_structure_entry *entry,
                        const dense *value, double tolerance, uint64_t seed) {
  dense inverse = dense_invert(value);
  bands += mmci_band_tells(entry->traits, entry->bands[0], value->rows);
  if (has_more(value, entry->bands[0], tolerance)) fail(x, seed, "a product leaves its band");
  if (inverse.at != NULL &&
      has_more(&inverse, entry->bands[1], tolerance * (1 + dense_norm(&inverse))))
    fail(x, seed, "an inverse leaves its band");
  free(inverse.at);
}

static void check_traits(const structured_chain *x, const mmci_structure_table *table,
                         uint64_t seed) {
  for (int32_t i = 0; i < x->n; i++)
    for (int32_t j = i + 1; j <= x->n; j++) {
      const mmci_structure_entry *entry = mmci_structure_at(table, i, j);
      if (!entry->whole) continue;
      double growth = 1;
      bool singular = false;
      dense value = structured_product(x, i, j, false, &growth, &singular);
      looked_at++;
      said += entry->traits != 0;
      uint32_t wrong = singular ? 0 : untrue(&value, entry->traits, 1e-11 * growth);
      /* Of full rank is what A A^T is said to be; random ones may hardly be. */
      if (wrong == MMC_POSITIVE_DEFINITE && growth > 1e4) wrong = 0;
      if (wrong != 0) {
        char text[160];
        snprintf(text, sizeof text,
                 "factors %d to %d are not what they are said to be: 0x%x of 0x%x", (int)i + 1,
                 (int)j, wrong, entry->traits);
        fail(x, seed, text);
      }
      if (table->banded && !singular && value.rows == value.cols && growth < 1e4)
        check_bands(x, entry, &value, 1e-11 * growth, seed);
      free(value.at);
    }
}

/* ---- one chain ------------------------------------------------------------------------------- */

static void check_text(const structured_chain *x, uint64_t seed) {
  char text[2000] = "", again[2000] = "";
  mmci_error error = {0};
  mmc_chain *chain;
  mmc_chain_write(x->chain, append_text, text);
  if (mmci_chain_parse(text, &chain, &error) != MMC_OK) {
    fail(x, seed, text);
    fail(x, seed, error.text);
    return;
  }
  mmc_chain_write(chain, append_text, again);
  if (strcmp(text, again) != 0) fail(x, seed, again);
  for (int64_t i = 0; i < x->n; i++)
    if (mmc_chain_traits(chain, i) != mmc_chain_traits(x->chain, i) ||
        mmc_chain_ops(chain)[i] != mmc_chain_ops(x->chain)[i] ||
        mmc_chain_band(chain, i).below != mmc_chain_band(x->chain, i).below ||
        mmc_chain_band(chain, i).above != mmc_chain_band(x->chain, i).above)
      fail(x, seed, text);
  mmc_chain_destroy(chain);
}

static int64_t apart;

/* Looks at a chain whose groups are taken apart: it is the same product, and its table is exact. */
static void check_rewritten(const structured_chain *x, const mmci_structure_prices *prices,
                            uint64_t seed) {
  mmci_structure_rewritten rewritten;
  mmci_structure_table table;
  mmci_error error = {0};
  if (mmci_structure_rewrite(x->chain, &rewritten, &error) != MMC_OK) {
    fail(x, seed, error.text);
    return;
  }
  if (rewritten.chain == NULL) return;
  apart++;
  const mmc_chain *chain = rewritten.chain;
  structured_chain y = {.dtype = x->dtype, .n = x->n, .chain = rewritten.chain};
  bool seen[CHAIN_MOST] = {false};
  for (int32_t i = 0; i < chain->n; i++) {
    const int32_t f = rewritten.factors[i];
    if (seen[f]) fail(x, seed, "a factor stands there twice");
    seen[f] = true;
    y.dims[i] = chain->dims[i];
    y.stored[i] = i;
    y.ops[i] = chain->ops[i];
    y.traits[i] = chain->traits[i];
    y.values[i] = x->values[x->stored[f]];
    if (x->stored[f] != x->stored[rewritten.factors[chain->stored[i]]])
      fail(x, seed, "factors are stored elsewhere");
  }
  y.dims[x->n] = chain->dims[chain->n];
  y.inverse_count = chain->inverse_count;
  for (int32_t g = 0; g < chain->inverse_count; g++) y.inverses[g] = chain->inverses[g];
  double growth = 1;
  bool singular = false;
  dense was = structured_product(x, 0, x->n, false, &growth, &singular),
        is = structured_product(&y, 0, y.n, false, &growth, &singular);
  for (int64_t i = 0; i < was.rows * was.cols && !singular; i++)
    if (!(cabs(was.at[i] - is.at[i]) <= 1e-11 * growth)) {
      fail(x, seed, "it is another product with its groups taken apart");
      break;
    }
  free(was.at);
  free(is.at);
  if (mmci_structure_solve(chain, prices, NULL, &table, &error) == MMC_OK) {
    check_traits(&y, &table, seed);
    if (brute(&table, prices, 0, chain->n, MMCI_PLAIN, true) !=
        mmci_structure_cost_of(&table).count)
      fail(&y, seed, "a cheaper order, form or kernel with groups taken apart");
    mmci_structure_destroy(&table);
  } else {
    fail(x, seed, error.text);
  }
  mmci_structure_rewritten_destroy(&rewritten);
}

static void check_chain(uint64_t seed) {
  uint64_t state = seed;
  structured_chain x;
  mmci_error error = {0};
  const int64_t sides[2] = {1 + random_below(&state, 5), 1 + random_below(&state, 5)};
  bool made = structured_chain_make(&state, (mmc_dtype)(1 + 2 * random_below(&state, 2)),
                                    CHAIN_MOST, sides, &x);
  if (!made) {
    fail(&x, seed, "no chain");
    return;
  }
  check_text(&x, seed);
  const mmci_structure_prices prices = {.element_bytes = 8,
                                        .is_complex = mmci_dtype_is_complex(x.dtype)};
  mmci_structure_table table;
  mmci_structure_steps steps;
  if (x.chain->traits != NULL) {
    if (mmci_structure_solve(x.chain, &prices, NULL, &table, &error) != MMC_OK ||
        mmci_structure_list(&table, &prices, &steps, &error) != MMC_OK) {
      fail(&x, seed, error.text);
    } else {
      check_traits(&x, &table, seed);
      check_rewritten(&x, &prices, seed);
      mmci_u128 sum = 0, cost = brute(&table, &prices, 0, (int32_t)x.n, MMCI_PLAIN, true);
      if (cost != steps.cost.count) fail(&x, seed, "a cheaper order, form or kernel");
      for (int32_t s = 0; s < steps.count; s++) sum += steps.steps[s].multiplications;
      if (!steps.inverts && sum != steps.cost.count) fail(&x, seed, "the steps cost not the whole");
      mmci_structure_steps_destroy(&steps);
    }
    mmci_structure_destroy(&table);
  }
  structured_chain_free(&x);
}

int main(int argc, char **argv) {
  const int64_t usual = how_many(3000, 100000);
  const int64_t count = argc > 1 ? atoll(argv[1]) : usual;
  const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  for (int64_t i = 0; i < count && failures < 20; i++) check_chain(seed + (uint64_t)i);
  printf(
      "%lld chains, of %lld groups were taken apart, %lld products looked at, something is known "
      "of "
      "%lld, a band of %lld, %d failures\n",
      (long long)count, (long long)apart, (long long)looked_at, (long long)said, (long long)bands,
      failures);
  if (count >= 100 && (looked_at < count || said == 0 || bands == 0 || apart == 0)) failures++;
  return failures != 0;
}
