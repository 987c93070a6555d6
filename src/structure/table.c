#include "structure/table.h"

#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/interrupt.h"

/* What was chosen for a product. */
typedef struct chosen {
  mmci_structure_product product; /* of no rows while nothing was chosen */
  mmci_structure_choice choice;
} chosen;

/* A table while it is filled. */
typedef struct filling {
  mmci_structure_table *table;
  const mmci_structure_prices *prices;
  bool by_time, is_complex;
  chosen last[2]
             [2]; /* by the forms of left and right: splits of a power ask for the same products */
} filling;

/* ---- what a product is ----------------------------------------------------------------------- */

/* Says whether no group within factors i to j-1 has one of their ends and not both. */
static bool has_free_ends(const filling *f, int32_t i, int32_t j) {
  return j - i == 2 || (mmci_structure_at(f->table, i + 1, j)->whole &&
                        mmci_structure_at(f->table, i, j - 1)->whole &&
                        mmci_structure_at(f->table, i + 1, j - 1)->whole);
}

static bool is_across(const mmc_chain *chain, int32_t i, int32_t j) {
  for (int32_t g = 0; g < chain->inverse_count; g++) {
    const int64_t first = chain->inverses[g].first, end = chain->inverses[g].last + 1;
    bool apart = end <= i || first >= j, within = first >= i && end <= j,
         around = first <= i && end >= j;
    if (!apart && !within && !around) return true;
  }
  return false;
}

/* Returns what follows for factors i to j-1 from their ends being each other's transposed:
 * A S A^T is symmetric where S is, and definite where S is and A has no more rows than columns. */
static uint32_t mirrored_traits(const filling *f, int32_t i, int32_t j, bool conjugated) {
  const mmc_chain *chain = f->table->chain;
  const uint32_t trait = conjugated ? MMC_HERMITIAN : MMC_SYMMETRIC;
  uint32_t inner = MMC_HERMITIAN | MMC_SYMMETRIC | MMC_POSITIVE_DEFINITE;
  if (!mmci_chain_transposes(chain, i, j - 1, conjugated) || !has_free_ends(f, i, j)) return 0;
  if (j - i > 2) inner = mmci_structure_at(f->table, i + 1, j - 1)->traits;
  if ((inner & trait) == 0) return 0;
  bool definite = (conjugated || !f->is_complex) && (inner & MMC_POSITIVE_DEFINITE) != 0 &&
                  chain->dims[i] <= chain->dims[i + 1] && (chain->traits[i] & MMC_ZERO) == 0;
  return mmci_traits_close(trait | (definite ? MMC_POSITIVE_DEFINITE : 0), f->is_complex);
}

static bool is_twin(const filling *f, int32_t i, int32_t j, bool conjugated) {
  if ((j - i) % 2 != 0 || !mmci_chain_transposes(f->table->chain, i, j - 1, conjugated))
    return false;
  if (j - i == 2) return true;
  return has_free_ends(f, i, j) && mmci_structure_at(f->table, i + 1, j - 1)->twin[conjugated];
}

/* Finds the bands of the product of factors i to j-1 and, where it is held by its inverse, of
 * that: the narrowest that any split tells. */
static void describe_bands(const filling *f, int32_t i, int32_t j, mmci_structure_entry *entry) {
  const int64_t *dims = f->table->chain->dims;
  for (int form = MMCI_PLAIN; form <= MMCI_INVERTED; form++)
    entry->bands[form] =
        mmci_band_of(entry->traits, (mmc_band){0, 0}, dims[i] > dims[j] ? dims[i] : dims[j]);
  for (int32_t k = i + 1; k < j; k++) {
    const mmci_structure_entry *left = mmci_structure_at(f->table, i, k),
                               *right = mmci_structure_at(f->table, k, j);
    if (!left->whole || !right->whole || dims[i] != dims[k] || dims[k] != dims[j]) continue;
    for (int form = MMCI_PLAIN; form <= MMCI_INVERTED; form++)
      entry->bands[form] =
          mmci_band_meet(entry->traits, entry->bands[form],
                         mmci_band_product(left->bands[form], right->bands[form], dims[i]));
  }
}

/* Finds out what the product of factors i to j-1 is. */
static void describe_product(filling *f, int32_t i, int32_t j, mmci_structure_entry *entry) {
  uint32_t traits = 0;
  for (int32_t k = i + 1; k < j; k++) {
    const mmci_structure_entry *left = mmci_structure_at(f->table, i, k),
                               *right = mmci_structure_at(f->table, k, j);
    if (left->whole && right->whole)
      traits |= mmci_traits_product(left->traits, right->traits, f->is_complex);
  }
  for (int c = 0; c < 2; c++) {
    traits |= mirrored_traits(f, i, j, c != 0);
    entry->twin[c] = is_twin(f, i, j, c != 0);
  }
  const int64_t *dims = f->table->chain->dims;
  if (dims[i] == dims[j] && traits != 0) traits = mmci_traits_close(traits, f->is_complex);
  entry->traits = traits;
  if (f->table->banded) describe_bands(f, i, j, entry);
}

/* ---- the cheapest ways ----------------------------------------------------------------------- */

static void take_better(const filling *f, const mmci_structure_way *way,
                        mmci_structure_entry *entry, mmci_structure_form form) {
  mmci_structure_way *best = &entry->ways[form];
  if (!best->possible || mmci_structure_less(way->cost, best->cost, f->by_time)) *best = *way;
}

static bool has_bands(const mmci_structure_product *p, const mmci_structure_product *of) {
  return p->left_band.below == of->left_band.below && p->left_band.above == of->left_band.above &&
         p->right_band.below == of->right_band.below && p->right_band.above == of->right_band.above;
}

static mmci_structure_choice choose(const filling *f, const mmci_structure_product *product,
                                    chosen *last) {
  const mmci_structure_product *p = &last->product;
  if (p->m != product->m || p->k != product->k || p->n != product->n || p->left != product->left ||
      p->right != product->right || p->m == 0 || (p->banded && !has_bands(p, product)))
    *last = (chosen){*product, mmci_structure_choose(product, f->prices)};
  return last->choice;
}

/* Tries a last product behind factor k-1 with its operands in these forms. */
static void try_forms(filling *f, int32_t i, int32_t k, int32_t j, int left, int right,
                      mmci_structure_entry *entry) {
  const mmci_structure_entry *l = mmci_structure_at(f->table, i, k),
                             *r = mmci_structure_at(f->table, k, j);
  const mmci_structure_way *a = &l->ways[left], *b = &r->ways[right];
  if (!a->possible || !b->possible) return;
  const int64_t *dims = f->table->chain->dims;
  const bool reversed = left == MMCI_INVERTED && right == MMCI_INVERTED;
  mmci_structure_product product = {.m = dims[i],
                                    .k = dims[k],
                                    .n = dims[j],
                                    .left = reversed ? r->traits : l->traits,
                                    .right = reversed ? l->traits : r->traits,
                                    .left_inverse = left == MMCI_INVERTED && !reversed,
                                    .right_inverse = right == MMCI_INVERTED && !reversed,
                                    .banded = f->table->banded};
  if (product.banded) {
    product.left_band = reversed ? r->bands[right] : l->bands[left];
    product.right_band = reversed ? l->bands[left] : r->bands[right];
  }
  mmci_structure_choice choice = choose(f, &product, &f->last[left][right]);
  mmci_structure_way way = {.possible = true,
                            .split = k,
                            .left = (uint8_t)left,
                            .right = (uint8_t)right,
                            .kernel = (uint8_t)choice.kernel,
                            .kernel_right = choice.right};
  way.cost = mmci_structure_add(choice.cost, mmci_structure_add(a->cost, b->cost));
  const mmci_structure_form form = reversed ? MMCI_INVERTED : MMCI_PLAIN;
  take_better(f, &way, entry, form);
  if (2 * k != i + j || left != right || !(entry->twin[0] || entry->twin[1])) return;
  way.kernel = MMCI_STRUCTURE_SYRK;
  way.kernel_right = false;
  way.mirrors = true;
  way.conjugated = !entry->twin[0];
  way.cost = mmci_structure_add(mmci_structure_mirror(&product, f->prices), a->cost);
  take_better(f, &way, entry, form);
}

static void try_split(filling *f, int32_t i, int32_t k, int32_t j, mmci_structure_entry *entry) {
  if (!mmci_structure_at(f->table, i, k)->whole || !mmci_structure_at(f->table, k, j)->whole)
    return;
  for (int left = MMCI_PLAIN; left <= MMCI_INVERTED; left++)
    for (int right = MMCI_PLAIN; right <= MMCI_INVERTED; right++)
      try_forms(f, i, k, j, left, right, entry);
}

/* Forms the inverse of what is held in the other form, where that is cheaper. */
static void try_conversion(const filling *f, int64_t side, mmci_structure_form form,
                           mmci_structure_entry *entry) {
  const mmci_structure_way *other = &entry->ways[!form];
  if (!other->possible || other->converts) return;
  mmci_structure_way way = {.possible = true, .split = -1, .converts = true};
  way.cost = mmci_structure_add(
      other->cost, mmci_structure_invert(entry->traits, side, other->split < 0, f->prices));
  take_better(f, &way, entry, form);
}

static bool is_group(const mmc_chain *chain, int32_t i, int32_t j) {
  for (int32_t g = 0; g < chain->inverse_count; g++)
    if (chain->inverses[g].first == i && chain->inverses[g].last == j - 1) return true;
  return false;
}

/* Makes of the ways to have a product those to have its inverse. */
static void turn(mmci_structure_entry *entry) {
  mmci_structure_way plain = entry->ways[MMCI_PLAIN];
  entry->ways[MMCI_PLAIN] = entry->ways[MMCI_INVERTED];
  entry->ways[MMCI_INVERTED] = plain;
  const mmc_band band = entry->bands[MMCI_PLAIN];
  entry->bands[MMCI_PLAIN] = entry->bands[MMCI_INVERTED];
  entry->bands[MMCI_INVERTED] = band;
  entry->turned = true;
  entry->twin[0] = entry->twin[1] = false;
}

static void fill_factor(const filling *f, int32_t i) {
  const mmc_chain *chain = f->table->chain;
  mmci_structure_entry *entry = mmci_structure_at(f->table, i, i + 1);
  const uint32_t traits = chain->traits[i];
  const bool inverse = (traits & MMC_INVERSE) != 0;
  *entry = (mmci_structure_entry){.whole = true};
  entry->traits = traits & MMCI_TRAITS_OF_MATRIX & ~(uint32_t)MMC_BANDED;
  if (f->table->banded) {
    const mmc_band band = mmci_band_of(traits, chain->bands[i], chain->dims[i]);
    entry->bands[!inverse] = mmci_band_of(entry->traits, band, chain->dims[i]);
    entry->bands[inverse] = band;
    if (chain->ops[i] != MMC_OP_N)
      for (int form = MMCI_PLAIN; form <= MMCI_INVERTED; form++)
        entry->bands[form] = mmci_band_transpose(entry->bands[form]);
  }
  if (chain->ops[i] != MMC_OP_N) entry->traits = mmci_traits_transpose(entry->traits);
  entry->ways[inverse ? MMCI_INVERTED : MMCI_PLAIN] =
      (mmci_structure_way){.possible = true, .split = -1};
  try_conversion(f, chain->dims[i], MMCI_PLAIN, entry);
}

static void fill_entry(filling *f, int32_t i, int32_t j, int32_t only) {
  const mmc_chain *chain = f->table->chain;
  mmci_structure_entry *entry = mmci_structure_at(f->table, i, j);
  *entry = (mmci_structure_entry){.whole = !is_across(chain, i, j)};
  if (!entry->whole) return;
  describe_product(f, i, j, entry);
  for (int32_t k = i + 1; k < j; k++)
    if (only < 0 || only == k) try_split(f, i, k, j, entry);
  if (is_group(chain, i, j)) {
    turn(entry);
    try_conversion(f, chain->dims[i], MMCI_INVERTED, entry);
  }
  try_conversion(f, chain->dims[i], MMCI_PLAIN, entry);
}

/* Returns where an order splits factors i to j-1; -1 when it does not have their product. */
static int32_t split_of(const int32_t (*order)[3], int32_t n, int32_t i, int32_t j) {
  for (int32_t t = 0; t < n - 1; t++)
    if (order[t][0] == i && order[t][2] == j) return order[t][1];
  return -1;
}

mmc_status mmci_structure_solve(const mmc_chain *chain, const mmci_structure_prices *prices,
                                const int32_t (*order)[3], mmci_structure_table *out,
                                mmci_error *error) {
  const int32_t n = chain->n;
  if (n > MMCI_STRUCTURE_FACTORS)
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "chain: expected at most %d factors where some have structure, got %d",
                     (int)MMCI_STRUCTURE_FACTORS, (int)n);
  size_t count = (size_t)n * ((size_t)n + 1) / 2;
  *out = (mmci_structure_table){.chain = chain};
  for (int32_t i = 0; i < n; i++) out->banded = out->banded || (chain->traits[i] & MMC_BANDED) != 0;
  out->entries = mmci_alloc_array(count, sizeof *out->entries);
  if (out->entries == NULL) return mmci_fail_nomem(error, count * sizeof *out->entries);
  filling f = {.table = out,
               .prices = prices,
               .by_time = prices->gemm_s != NULL,
               .is_complex = mmci_dtype_is_complex(chain->dtype)};
  for (int32_t i = 0; i < n; i++) fill_factor(&f, i);
  for (int32_t length = 2; length <= n; length++) {
    for (int32_t i = 0; i + length <= n; i++) {
      int32_t only = order != NULL ? split_of(order, n, i, i + length) : -1;
      fill_entry(&f, i, i + length, only);
      if (order == NULL || only >= 0) continue;
      mmci_structure_entry *entry = mmci_structure_at(out, i, i + length);
      entry->ways[0].possible = entry->ways[1].possible = false;
    }
    const double done = (double)length / n;
    mmci_interrupt_done(done * done * (3 - 2 * done));
    if (length < n && mmci_interrupted())
      return mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the progress callback");
  }
  return MMC_OK;
}

void mmci_structure_destroy(mmci_structure_table *table) {
  free(table->entries);
  *table = (mmci_structure_table){0};
}
