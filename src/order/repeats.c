#include "order/repeats.h"

#include <string.h>

#include "base/alloc.h"

/* At most so many pairs are merged, so many are tried for each of them, and so many symbols are
 * looked at. */
enum { ROUNDS = 64, TRIALS = 4, WORK = 1 << 22 };

/* A matrix that a program knows: a number below n is a factor, any other the product of two
 * symbols. */
typedef struct symbol {
  int32_t left, right;
  int64_t rows, cols;
  int32_t length; /* factors in the symbol */
} symbol;

/* The symbols so far, and which product of two of them there is already. */
typedef struct grammar {
  int32_t n, count;
  symbol *symbols;
  int32_t *table; /* size entries; linear probing, -1 means free */
  uint32_t size;
  mmci_u128 multiplications; /* multiplications of all products among the symbols */
} grammar;

typedef struct sequence {
  int32_t *symbols;
  int32_t length;
} sequence;

/* Two neighbours, and the multiplications saved by computing their product only once. */
typedef struct digram {
  int32_t left, right;
  mmci_u128 saving;
} digram;

typedef struct search {
  const mmci_bounds *bounds;
  grammar grammar;
  sequence now, trial, best;
  int32_t best_count; /* how many symbols the best program had before the rest was ordered */
  mmci_u128 best_multiplications;
  int64_t work;
  int64_t *dims;    /* scratch of n+1 entries */
  int32_t *numbers; /* scratch of 2n + ROUNDS entries */
  struct tally *tallies;
} search;

/* How often two neighbours stand side by side; a hash table of them, rebuilt every round. */
typedef struct tally {
  int32_t left, right, times, end; /* end is that of the last one, as those in a row may overlap */
} tally;

/* ---- products that are known ----------------------------------------------------------------- */

static uint32_t hash(int32_t left, int32_t right) {
  uint64_t x = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
  x = (x ^ (x >> 31)) * UINT64_C(0x9E3779B97F4A7C15);
  return (uint32_t)(x >> 32);
}

/* Returns where in the table the product is, or would be. */
static uint32_t slot_of(const grammar *g, int32_t left, int32_t right) {
  uint32_t slot = hash(left, right) & (g->size - 1);
  for (; g->table[slot] >= 0; slot = (slot + 1) & (g->size - 1)) {
    const symbol *s = &g->symbols[g->table[slot]];
    if (s->left == left && s->right == right) break;
  }
  return slot;
}

static mmci_u128 cost_of(const grammar *g, int32_t left, int32_t right) {
  const symbol *a = &g->symbols[left], *b = &g->symbols[right];
  return mmci_multiplications(a->rows, a->cols, b->cols);
}

/* Returns the symbol of a product, a new one unless it is known. */
static int32_t symbol_of_product(grammar *g, int32_t left, int32_t right) {
  uint32_t slot = slot_of(g, left, right);
  if (g->table[slot] >= 0) return g->table[slot];
  const symbol *a = &g->symbols[left], *b = &g->symbols[right];
  g->symbols[g->count] = (symbol){.left = left,
                                  .right = right,
                                  .rows = a->rows,
                                  .cols = b->cols,
                                  .length = a->length + b->length};
  g->multiplications = mmci_u128_add(g->multiplications, cost_of(g, left, right));
  g->table[slot] = g->count;
  return g->count++;
}

/* Forgets the symbols from count on. The last one goes first, so that no probe breaks. */
static void forget_symbols(grammar *g, int32_t count, mmci_u128 multiplications) {
  while (g->count > count) {
    const symbol *s = &g->symbols[g->count - 1];
    g->table[slot_of(g, s->left, s->right)] = -1;
    g->count--;
  }
  g->multiplications = multiplications;
}

/* ---- what is left, in the best order -----------------------------------------------------------
 */

/* Adds the products of the best order of a sequence; root is the symbol of the whole. */
static mmc_status add_order(search *s, const sequence *x, int32_t *root, mmci_error *error) {
  grammar *g = &s->grammar;
  s->work += x->length;
  if (x->length == 1) {
    *root = x->symbols[0];
    return MMC_OK;
  }
  for (int32_t i = 0; i < x->length; i++) s->dims[i] = g->symbols[x->symbols[i]].rows;
  s->dims[x->length] = g->symbols[x->symbols[x->length - 1]].cols;
  mmci_order_problem problem = {.n = x->length, .dims = s->dims, .threads = 1};
  mmci_order_answer answer;
  const mmci_solver *used;
  mmc_status status = mmci_order_solve("auto", &problem, false, &used, &answer, error);
  if (status != MMC_OK) return status;
  for (int32_t i = 0; i < x->length; i++) s->numbers[i] = x->symbols[i];
  for (int32_t t = 0; t < x->length - 1; t++) {
    mmci_product p = answer.tree.products[t];
    s->numbers[x->length + t] = symbol_of_product(g, s->numbers[p.left], s->numbers[p.right]);
  }
  *root = s->numbers[2 * x->length - 2];
  mmci_tree_destroy(&answer.tree);
  return MMC_OK;
}

/* Counts the multiplications of a program that orders this sequence. */
static mmc_status price_sequence(search *s, const sequence *x, mmci_u128 *out, mmci_error *error) {
  grammar *g = &s->grammar;
  int32_t count = g->count, root;
  mmci_u128 multiplications = g->multiplications;
  mmc_status status = mmci_ask_progress(s->bounds->progress, s->bounds->progress_user,
                                        s->work < WORK ? (double)s->work / WORK : 1, error);
  if (status == MMC_OK) status = add_order(s, x, &root, error);
  *out = g->multiplications;
  forget_symbols(g, count, multiplications);
  return status;
}

/* ---- merging ----------------------------------------------------------------------------------
 */

/* Counts neighbours; equal pairs that overlap (A A A) count once. */
static void count_digrams(search *s) {
  const sequence *x = &s->now;
  uint32_t size = s->grammar.size;
  for (uint32_t t = 0; t < size; t++) s->tallies[t].times = 0;
  for (int32_t i = 0; i + 1 < x->length; i++) {
    int32_t left = x->symbols[i], right = x->symbols[i + 1];
    uint32_t slot = hash(left, right) & (size - 1);
    while (s->tallies[slot].times > 0 &&
           (s->tallies[slot].left != left || s->tallies[slot].right != right))
      slot = (slot + 1) & (size - 1);
    tally *y = &s->tallies[slot];
    if (y->times == 0) *y = (tally){.left = left, .right = right, .end = -1};
    if (y->end == i && left == right) continue;
    y->times++;
    y->end = i + 1;
  }
  s->work += x->length;
}

/* Chooses the pairs that save most among those that occur again, at most TRIALS; returns how many.
 * Of equal ones those of older symbols go first, so that the answer does not depend on the
 * table. */
static int choose_digrams(search *s, digram best[TRIALS]) {
  int found = 0;
  count_digrams(s);
  for (uint32_t t = 0; t < s->grammar.size; t++) {
    const tally *y = &s->tallies[t];
    if (y->times < 2) continue;
    digram d = {y->left, y->right,
                mmci_u128_mul(cost_of(&s->grammar, y->left, y->right), (unsigned)y->times - 1)};
    int at = found < TRIALS ? found++ : TRIALS;
    while (at > 0 && (d.saving > best[at - 1].saving ||
                      (d.saving == best[at - 1].saving &&
                       (d.left < best[at - 1].left ||
                        (d.left == best[at - 1].left && d.right < best[at - 1].right))))) {
      if (at < TRIALS) best[at] = best[at - 1];
      at--;
    }
    if (at < TRIALS) best[at] = d;
  }
  return found;
}

static void merge(const sequence *x, const digram *d, int32_t merged, sequence *out) {
  out->length = 0;
  for (int32_t i = 0; i < x->length; i++) {
    bool here = i + 1 < x->length && x->symbols[i] == d->left && x->symbols[i + 1] == d->right;
    out->symbols[out->length++] = here ? merged : x->symbols[i];
    if (here) i++;
  }
}

static void copy_sequence(const sequence *from, sequence *to) {
  memcpy(to->symbols, from->symbols, (size_t)from->length * sizeof *from->symbols);
  to->length = from->length;
}

/* Merges the pair that leaves the cheapest program; found is false when no pair occurs again. */
static mmc_status merge_best(search *s, bool *found, mmci_error *error) {
  grammar *g = &s->grammar;
  digram digrams[TRIALS];
  int count = choose_digrams(s, digrams), chosen = 0;
  *found = count > 0;
  mmci_u128 least = MMCI_U128_MAX;
  for (int d = 0; d < count && s->work < WORK; d++) {
    int32_t symbols = g->count;
    mmci_u128 multiplications = g->multiplications, whole;
    merge(&s->now, &digrams[d], symbol_of_product(g, digrams[d].left, digrams[d].right), &s->trial);
    mmc_status status = price_sequence(s, &s->trial, &whole, error);
    forget_symbols(g, symbols, multiplications);
    if (status != MMC_OK) return status;
    if (whole < least) chosen = d;
    if (whole < least) least = whole;
  }
  if (least == MMCI_U128_MAX) *found = false;
  if (!*found) return MMC_OK;
  merge(&s->now, &digrams[chosen],
        symbol_of_product(g, digrams[chosen].left, digrams[chosen].right), &s->trial);
  copy_sequence(&s->trial, &s->now);
  if (least >= s->best_multiplications) return MMC_OK;
  copy_sequence(&s->now, &s->best);
  s->best_count = g->count;
  s->best_multiplications = least;
  return MMC_OK;
}

/* ---- the program ------------------------------------------------------------------------------
 */

/* Lists what root needs, children before parents, left before right, each once. number holds the
 * product of every symbol, -1 when it is not listed yet. */
static void list_products(const grammar *g, int32_t root, int32_t *number, int32_t *stack,
                          mmci_program *out) {
  int32_t top = 0, position = 0; /* position is that of the next factor */
  for (int32_t s = 0; s < g->count; s++) number[s] = -1;
  out->count = 0;
  stack[top++] = root;
  while (top > 0) {
    int32_t x = stack[--top];
    if (x < 0) { /* both operands are listed */
      const symbol *s = &g->symbols[~x];
      int32_t left = s->left, right = s->right;
      number[~x] = out->count;
      out->products[out->count++] = (mmci_program_product){
          .left = left < g->n ? left : g->n + number[left],
          .right = right < g->n ? right : g->n + number[right],
          .m = s->rows,
          .k = g->symbols[left].cols,
          .n = s->cols,
          .first = position - s->length,
          .last = position - 1,
      };
    } else if (x < g->n || number[x] >= 0) {
      position += g->symbols[x].length;
    } else {
      stack[top++] = ~x;
      stack[top++] = g->symbols[x].right;
      stack[top++] = g->symbols[x].left;
    }
  }
}

static mmc_status write_program(search *s, mmci_program *out, mmci_error *error) {
  grammar *g = &s->grammar;
  int32_t root;
  /* What was merged after the best program is no part of it. */
  mmci_u128 multiplications = 0;
  for (int32_t t = g->n; t < s->best_count; t++)
    multiplications =
        mmci_u128_add(multiplications, cost_of(g, g->symbols[t].left, g->symbols[t].right));
  forget_symbols(g, s->best_count, multiplications);
  mmc_status status = add_order(s, &s->best, &root, error);
  if (status != MMC_OK) return status;
  size_t count = (size_t)(g->count - g->n);
  mmci_program program = {.n = g->n,
                          .products = mmci_alloc_array(count, sizeof *program.products),
                          .multiplications = g->multiplications};
  int32_t *number = mmci_alloc_array((size_t)g->count, sizeof *number);
  int32_t *stack = mmci_alloc_array(3 * (size_t)g->count, sizeof *stack);
  if (program.products == NULL || number == NULL || stack == NULL)
    status = mmci_fail_nomem(error, count * sizeof *program.products);
  else
    list_products(g, root, number, stack, &program);
  free(number);
  free(stack);
  if (status != MMC_OK)
    free(program.products);
  else
    *out = program;
  return status;
}

/* ---- the search -------------------------------------------------------------------------------
 */

static void search_destroy(search *s) {
  free(s->grammar.symbols);
  free(s->grammar.table);
  free(s->now.symbols);
  free(s->trial.symbols);
  free(s->best.symbols);
  free(s->dims);
  free(s->numbers);
  free(s->tallies);
}

static mmc_status search_create(int32_t n, const int64_t *dims, const int32_t *labels, search *out,
                                mmci_error *error) {
  size_t symbols = 2 * (size_t)n + ROUNDS;
  uint32_t size = 64;
  while (size < 2 * symbols) size *= 2;
  search s = {
      .grammar = {.n = n,
                  .count = n,
                  .symbols = mmci_alloc_array(symbols, sizeof *s.grammar.symbols),
                  .table = mmci_alloc_array(size, sizeof *s.grammar.table),
                  .size = size},
      .now = {mmci_alloc_array((size_t)n, sizeof *s.now.symbols), n},
      .trial = {mmci_alloc_array((size_t)n, sizeof *s.trial.symbols), 0},
      .best = {mmci_alloc_array((size_t)n, sizeof *s.best.symbols), 0},
      .best_count = n,
      .dims = mmci_alloc_array((size_t)n + 1, sizeof *s.dims),
      .numbers = mmci_alloc_array(symbols, sizeof *s.numbers),
      .tallies = mmci_alloc_array(size, sizeof *s.tallies),
  };
  if (s.grammar.symbols == NULL || s.grammar.table == NULL || s.now.symbols == NULL ||
      s.trial.symbols == NULL || s.best.symbols == NULL || s.dims == NULL || s.numbers == NULL ||
      s.tallies == NULL) {
    search_destroy(&s);
    return mmci_fail_nomem(error, size * sizeof *s.tallies);
  }
  for (uint32_t t = 0; t < size; t++) s.grammar.table[t] = -1;
  for (int32_t i = 0; i < n; i++) {
    s.grammar.symbols[i] =
        (symbol){.left = -1, .right = -1, .rows = dims[i], .cols = dims[i + 1], .length = 1};
    s.now.symbols[i] = labels[i];
  }
  copy_sequence(&s.now, &s.best);
  *out = s;
  return MMC_OK;
}

mmc_status mmci_repeats_solve(int32_t n, const int64_t *dims, const int32_t *labels,
                              const mmci_bounds *bounds, mmci_program *out, mmci_error *error) {
  search s;
  mmc_status status = search_create(n, dims, labels, &s, error);
  if (status != MMC_OK) return status;
  s.bounds = bounds;
  status = price_sequence(&s, &s.now, &s.best_multiplications, error);
  bool found = true;
  for (int round = 0; round < ROUNDS && found && s.work < WORK && status == MMC_OK; round++)
    status = merge_best(&s, &found, error);
  if (status == MMC_OK) status = write_program(&s, out, error);
  search_destroy(&s);
  return status;
}

void mmci_program_destroy(mmci_program *program) {
  free(program->products);
  *program = (mmci_program){0};
}

mmc_status mmci_program_tree(const mmci_program *program, mmci_tree *out, mmci_error *error) {
  int32_t n = program->n, top = 0, whole = 0, leaf = 0, product = 0;
  mmci_tree tree;
  mmc_status status = mmci_tree_create(n, &tree, error);
  if (status != MMC_OK) return status;
  /* At each level at most three numbers wait, and no more sub-trees are whole than there are
   * leaves. */
  int32_t *stack = mmci_alloc_array(4 * (size_t)n, sizeof *stack);
  if (stack == NULL) {
    mmci_tree_destroy(&tree);
    return mmci_fail_nomem(error, 4 * (size_t)n * sizeof *stack);
  }
  int32_t *done = stack + 3 * (size_t)n;
  stack[top++] = n + program->count - 1;
  while (top > 0) {
    int32_t x = stack[--top];
    if (x < 0) { /* both operands are whole */
      whole -= 2;
      tree.products[product] = (mmci_product){.left = done[whole], .right = done[whole + 1]};
      done[whole++] = n + product++;
    } else if (x < n) {
      done[whole++] = leaf++;
    } else {
      stack[top++] = -1;
      stack[top++] = program->products[x - n].right;
      stack[top++] = program->products[x - n].left;
    }
  }
  free(stack);
  *out = tree;
  return MMC_OK;
}
