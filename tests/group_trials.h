/* group_trials.h: groups of small products at random, and what a device must make of them: products
 * in f64 on the host with a bound of their rounding errors. */
#ifndef MMC_TEST_GROUP_TRIALS_H
#define MMC_TEST_GROUP_TRIALS_H

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chain/group.h"
#include "stacks.h"

enum { OPERANDS = 200, PRODUCTS = 400, NODES = OPERANDS + PRODUCTS };

/* ---- a group ----------------------------------------------------------------------------------
 */

typedef struct trial {
  mmci_group group;
  mmci_form forms[OPERANDS];
  mmci_group_product products[PRODUCTS];
  int64_t rows[NODES], cols[NODES];
  int shift[OPERANDS + 1]; /* reals from where an allocation is aligned; the last is C's */
  uint64_t seed;           /* of the elements */
  bool positive;
} trial;

static inline void describe_trial(const trial *t) {
  const mmci_group *c = &t->group;
  printf("  %s, batch %" PRId64 ", %d operands, variant %d, ldc %" PRId64 "%s, seed %" PRIu64 "\n",
         dtype_facts[c->dtype].name, c->batch, c->n, c->variant, c->ldc,
         c->c_gathered ? ", C gathered" : "", t->seed);
  for (int i = 0; i < c->n && i < 20; i++) {
    const mmci_form *f = &t->forms[i];
    printf("  operand %d: %" PRId64 " x %" PRId64 "%s%s ld %" PRId64 " stride %" PRId64 "%s\n", i,
           t->rows[i], t->cols[i], f->trans ? " trans" : "", f->conj ? " conj" : "", f->ld,
           f->stride, f->gathered ? " gathered" : "");
  }
  for (int s = 0; s < c->count && s < 20; s++)
    printf("  product %d: %d * %d\n", s + c->n, c->products[s].left, c->products[s].right);
}

static inline void begin(trial *t, mmc_dtype dtype, int32_t n, int64_t batch, uint64_t seed) {
  memset(t, 0, sizeof *t);
  t->group.dtype = dtype;
  t->group.batch = batch;
  t->group.n = n;
  t->group.forms = t->forms;
  t->group.products = t->products;
  t->seed = seed;
}

static inline int32_t add_product(trial *t, int32_t left, int32_t right) {
  const int32_t s = t->group.count++, node = t->group.n + s;
  t->products[s] = (mmci_group_product){t->rows[left], t->cols[left], t->cols[right], left, right};
  t->rows[node] = t->rows[left];
  t->cols[node] = t->cols[right];
  return node;
}

/* The products of operands first to last, split by kind: 0 from left to right, 1 from right to
 * left, 2 balanced, 3 at random. */
static inline int32_t add_tree(trial *t, int32_t first, int32_t last, int kind, uint64_t *random) {
  if (first == last) return first;
  const int32_t length = last - first;
  const int32_t split = kind == 0   ? last - 1
                        : kind == 1 ? first
                        : kind == 2 ? first + length / 2
                                    : first + (int32_t)random_below(random, length);
  const int32_t left = add_tree(t, first, split, kind, random);
  return add_product(t, left, add_tree(t, split + 1, last, kind, random));
}

static inline void set_shapes(trial *t, const int64_t *dims) {
  for (int i = 0; i < t->group.n; i++) {
    t->rows[i] = dims[i];
    t->cols[i] = dims[i + 1];
  }
}

/* Tight forms; after the products. */
static inline void finish_tight(trial *t) {
  for (int i = 0; i < t->group.n; i++) {
    t->forms[i].ld = t->cols[i] > 0 ? t->cols[i] : 1;
    t->forms[i].stride = t->rows[i] * t->cols[i];
  }
  const int last = t->group.n + t->group.count - 1;
  t->group.ldc = t->cols[last] > 0 ? t->cols[last] : 1;
  t->group.c_stride = t->rows[last] * t->cols[last];
}

static inline void finish_random(trial *t, uint64_t *random) {
  finish_tight(t);
  for (int i = 0; i < t->group.n; i++) {
    mmci_form *f = &t->forms[i];
    f->trans = random_below(random, 2) == 0;
    f->conj = random_below(random, 3) == 0;
    const int64_t lines = f->trans ? t->cols[i] : t->rows[i],
                  length = f->trans ? t->rows[i] : t->cols[i];
    f->ld = (length > 0 ? length : 1) + random_below(random, 2) * random_below(random, 9);
    f->stride = lines * f->ld + random_below(random, 2) * random_below(random, 50);
    const int64_t kind = t->group.batch > 1 ? random_below(random, 6) : 2;
    f->gathered = kind == 0;
    if (kind == 1) f->stride = 0;
    t->shift[i] = random_below(random, 3) == 0 ? (int)random_below(random, 5) : 0;
  }
  const int last = t->group.n + t->group.count - 1;
  t->group.ldc += random_below(random, 2) * random_below(random, 9);
  t->group.c_stride = t->rows[last] * t->group.ldc + random_below(random, 2) * 3;
  t->group.c_gathered = t->group.batch > 1 && random_below(random, 6) == 0;
  t->shift[OPERANDS] = random_below(random, 3) == 0 ? (int)random_below(random, 5) : 0;
}

/* Draws a batch of two to four squares of a side in f32 from left to right: strides and addresses
 * that are whole words or not, and operands that all chains share. */
static inline void draw_squares(trial *t, int64_t side, int64_t batch, uint64_t *random) {
  const int64_t dims[] = {side, side, side, side, side};
  const int32_t n = 2 + (int32_t)random_below(random, 3);
  begin(t, MMC_F32, n, batch, random_bits(random));
  set_shapes(t, dims);
  add_tree(t, 0, n - 1, 0, random);
  finish_tight(t);
  const int64_t unit = random_below(random, 2) == 0 ? 4 : 1;
  for (int32_t i = 0; i < n; i++) {
    const int64_t kind = random_below(random, 4);
    if (kind == 0) t->forms[i].stride += unit * random_below(random, 5);
    if (kind == 1) t->forms[i].stride = 0;
    if (unit == 1) t->shift[i] = (int)random_below(random, 4);
  }
  t->group.c_stride += unit * random_below(random, 5);
  if (unit == 1) t->shift[OPERANDS] = (int)random_below(random, 4);
}

/* Begins a row by matrices, or matrices by a column, without gaps; sides are overwritten. */
static inline void begin_vectors(trial *t, const int64_t *sides, int32_t n, int64_t batch,
                                 bool is_row, mmc_dtype dtype, uint64_t *random) {
  begin(t, dtype, n, batch, random_bits(random));
  set_shapes(t, sides);
  if (is_row)
    t->rows[0] = 1;
  else
    t->cols[n - 1] = 1;
  add_tree(t, 0, n - 1, is_row ? 0 : 1, random);
  finish_tight(t);
}

/* Draws such a chain of sides to most or so, of which some are 1 and many multiples of the same
 * power of two, with matrices stored either way, conjugates, a vector that all chains may share,
 * strides and addresses that are whole words or not. */
static inline void draw_vectors(trial *t, mmc_dtype dtype, int64_t most, int64_t least_batch,
                                int64_t most_batch, uint64_t *random) {
  enum { FACTORS = 9 };
  const int64_t unit = (int64_t)1 << random_below(random, 4);
  const int32_t n = 2 + (int32_t)random_below(random, most > 60 ? 2 : FACTORS - 1);
  int64_t sides[FACTORS + 1];
  for (int i = 0; i <= n; i++)
    sides[i] = random_below(random, 8) == 0 ? 1 : (random_below(random, most) + unit) / unit * unit;
  /* What is long is narrow, for the reference's sake. */
  if (most > 300) sides[1 + random_below(random, n - 1)] = 1 + random_below(random, 40);
  const bool is_row = random_below(random, 2) == 0;
  const int64_t batch = least_batch + random_below(random, most_batch - least_batch + 1);
  begin_vectors(t, sides, n, batch, is_row, dtype, random);
  for (int i = 0; i < n; i++) {
    mmci_form *f = &t->forms[i];
    f->trans = random_below(random, 3) == 0;
    if (f->trans) f->ld = t->rows[i];
    f->conj = random_below(random, 4) == 0;
    if (random_below(random, 4) == 0) f->stride += unit * random_below(random, 5);
    if (random_below(random, 6) == 0) t->shift[i] = 1 + (int)random_below(random, 3);
  }
  if (random_below(random, 4) == 0) t->forms[is_row ? 0 : n - 1].stride = 0;
  if (random_below(random, 4) == 0) t->group.c_stride += random_below(random, 9);
  if (random_below(random, 4) == 0) t->shift[OPERANDS] = 1 + (int)random_below(random, 3);
}

/* ---- the reference ----------------------------------------------------------------------------
 */

/* A matrix in f64 and how far off a kernel's may be. */
typedef struct exact {
  element *value;
  double *off;
} exact;

static inline double size_of(element x) {
  return fabs(x.re) + fabs(x.im);
}

static inline void exact_product(exact a, exact b, const mmci_group_product *p,
                                 const mmci_group *group, exact c) {
  const struct dtype_facts *facts = &dtype_facts[group->dtype];
  const double of_tf32 = group->precision == MMCI_FAST ? 0x1p-10 : 0; /* both operands rounded */
  const double epsilon = facts->sum_epsilon * ((double)p->k + 8) * 2 + of_tf32;
  for (int64_t r = 0; r < p->m; r++)
    for (int64_t q = 0; q < p->n; q++) {
      element sum = {0, 0};
      double off = 0;
      for (int64_t d = 0; d < p->k; d++) {
        const element x = a.value[r * p->k + d], y = b.value[d * p->n + q];
        const double e = a.off[r * p->k + d], f = b.off[d * p->n + q];
        sum.re += x.re * y.re - x.im * y.im;
        sum.im += x.re * y.im + x.im * y.re;
        off += e * size_of(y) + size_of(x) * f + e * f + epsilon * size_of(x) * size_of(y);
      }
      const double all_off = off + 2 * facts->epsilon * size_of(sum) + facts->least;
      const bool is_beyond = group->dtype == MMC_F16 && !(size_of(sum) + all_off < 65504);
      c.value[r * p->n + q] = sum;
      c.off[r * p->n + q] = is_beyond ? (double)INFINITY : all_off;
    }
}

/* Compares number i of the batch in x, whose matrices lie in value and off. */
static inline bool compare_group(const trial *t, const stack *operands, const stack *c, int64_t i,
                                 element *value, double *off) {
  const mmci_group *group = &t->group;
  int64_t first[NODES];
  const int nodes = group->n + group->count;
  for (int64_t node = 0, at = 0; node < nodes; node++) {
    first[node] = at;
    at += t->rows[node] * t->cols[node];
  }
#define AT(node)                           \
  (exact) {                                \
    value + first[node], off + first[node] \
  }
  for (int node = 0; node < nodes; node++) {
    const int64_t cols = t->cols[node], size = t->rows[node] * cols;
    if (node >= group->n) {
      const mmci_group_product *p = &group->products[node - group->n];
      exact_product(AT(p->left), AT(p->right), p, group, AT(node));
      continue;
    }
    for (int64_t at = 0; at < size; at++)
      value[first[node] + at] = stack_read(&operands[node], i, at / cols, at % cols);
  }
  const exact result = AT(nodes - 1);
#undef AT
  for (int64_t at = 0; at < c->rows * c->cols; at++) {
    const int64_t r = at / c->cols, q = at % c->cols;
    const element want = result.value[at], got = stack_read(c, i, r, q);
    const double most = result.off[at];
    /* What may be beyond the numbers of 16 bits may be anything. */
    if (group->dtype == MMC_F16 && !(most < (double)INFINITY)) continue;
    if (fabs(got.re - want.re) <= most && fabs(got.im - want.im) <= most) continue;
    printf("  chain %" PRId64 ": C(%" PRId64 ", %" PRId64
           ") is (%.9g, %.9g), not (%.9g, %.9g), off by more than %g\n",
           i, r, q, got.re, got.im, want.re, want.im, most);
    return false;
  }
  return true;
}

static inline bool group_is_right(const trial *t, const stack *operands, const stack *c,
                                  int64_t i) {
  size_t size = 1;
  for (int node = 0; node < t->group.n + t->group.count; node++)
    size += (size_t)(t->rows[node] * t->cols[node]);
  element *value = (element *)calloc(size, sizeof *value);
  double *off = (double *)calloc(size, sizeof *off);
  const bool right = value != NULL && off != NULL && compare_group(t, operands, c, i, value, off);
  free(value);
  free(off);
  return right;
}

#endif
