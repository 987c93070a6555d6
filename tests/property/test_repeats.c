/* test_repeats.c: what comes again is computed once, rightly: programs give the chain that they
 * were made for, cost what they say, are never dearer than the best tree and seldom dearer than the
 * best program there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "order/repeats.h"

enum { CHAINS = 20000, SHORT_CHAINS = 3000, MOST_FACTORS = 40, SHORT = 7 };
static const uint64_t seed = 1893;
static const mmci_bounds no_bounds = {.limit_bytes = UINT64_MAX};

typedef struct chain {
  int32_t n;
  int64_t dims[MOST_FACTORS + 1];
  int32_t labels[MOST_FACTORS];
} chain;

/* A few matrices that fit to each other in any way the dims allow: factors are drawn from them,
 * with parts of what came before repeated. */
static void random_chain(uint64_t *random, int32_t most, chain *out) {
  int64_t sizes[3], kinds = 1 + random_below(random, 3);
  for (int i = 0; i < 3; i++) sizes[i] = 1 + random_below(random, 40);
  int32_t ends[MOST_FACTORS + 1];
  out->n = 2 + (int32_t)random_below(random, most - 1);
  for (int32_t i = 0; i <= out->n; i++) ends[i] = (int32_t)random_below(random, kinds);
  int32_t period = 1 + (int32_t)random_below(random, 4);
  if (random_below(random, 2) == 0)
    for (int32_t i = period; i <= out->n; i++) ends[i] = ends[i - period];
  int64_t varieties = 1 + random_below(random, 3);
  int32_t variety[MOST_FACTORS];
  for (int32_t i = 0; i < out->n; i++) {
    variety[i] = (int32_t)random_below(random, varieties);
    if (i >= period && random_below(random, 4) != 0) variety[i] = variety[i - period];
    out->labels[i] = i;
    for (int32_t j = 0; j < i && out->labels[i] == i; j++)
      if (ends[j] == ends[i] && ends[j + 1] == ends[i + 1] && variety[j] == variety[i])
        out->labels[i] = j;
  }
  for (int32_t i = 0; i <= out->n; i++) out->dims[i] = sizes[ends[i]];
}

static void fail_chain(const char *what, const chain *c) {
  print_error("%s:", what);
  for (int32_t i = 0; i <= c->n; i++) print_error(" %lld", (long long)c->dims[i]);
  print_error(" labels");
  for (int32_t i = 0; i < c->n; i++) print_error(" %d", c->labels[i]);
  fail_msg("(seed %llu)", (unsigned long long)seed);
}

/* The labels of all factors of an operand, in order. Returns how many. */
static int32_t expand(const mmci_program *p, int32_t x, int32_t *labels) {
  if (x < p->n) {
    labels[0] = x;
    return 1;
  }
  int32_t count = expand(p, p->products[x - p->n].left, labels);
  return count + expand(p, p->products[x - p->n].right, labels + count);
}

static void check_program(const chain *c, const mmci_program *p) {
  mmci_u128 multiplications = 0;
  bool read[2 * MOST_FACTORS] = {false};
  if (p->n != c->n || p->count < 1 || p->count > c->n - 1) fail_chain("wrong count", c);
  for (int32_t t = 0; t < p->count; t++) {
    const mmci_program_product *x = &p->products[t];
    int32_t labels[MOST_FACTORS], length;
    if (x->left >= c->n + t || x->right >= c->n + t || x->left < 0 || x->right < 0)
      fail_chain("parents before children", c);
    read[x->left] = read[x->right] = true;
    length = expand(p, c->n + t, labels);
    if (length != x->last - x->first + 1 || x->first < 0 || x->last >= c->n)
      fail_chain("wrong range", c);
    for (int32_t i = 0; i < length; i++)
      if (labels[i] != c->labels[x->first + i]) fail_chain("other factors", c);
    int32_t middle = x->first + expand(p, x->left, labels);
    if (x->m != c->dims[x->first] || x->k != c->dims[middle] || x->n != c->dims[x->last + 1])
      fail_chain("wrong sizes", c);
    multiplications += mmci_multiplications(x->m, x->k, x->n);
  }
  if (p->products[p->count - 1].first != 0 || p->products[p->count - 1].last != c->n - 1)
    fail_chain("not the whole chain", c);
  for (int32_t t = 0; t < p->count - 1; t++)
    if (!read[c->n + t]) fail_chain("a product that nobody reads", c);
  if (multiplications != p->multiplications) fail_chain("wrong multiplications", c);
}

static mmci_program solve(const chain *c) {
  mmci_program p;
  assert_int_equal(mmci_repeats_solve(c->n, c->dims, c->labels, &no_bounds, &p, NULL), MMC_OK);
  check_program(c, &p);
  return p;
}

/* ---- every program ----------------------------------------------------------------------------
 */

/* A program read as a tree, with what it shares written out, is a tree: so the best program is the
 * best tree when equal sub-chains that are split alike are counted once. */
typedef struct enumeration {
  const chain *c;
  int32_t stack[2 * SHORT][2]; /* sub-chains that are still to be split */
  int8_t splits[SHORT + 1][SHORT + 1];
  mmci_u128 least;
} enumeration;

/* Says whether two sub-chains have the same labels and are split alike. */
static bool is_same(const enumeration *e, int32_t i, int32_t j, int32_t length) {
  if (length == 1) return e->c->labels[i] == e->c->labels[j];
  int32_t left = e->splits[i][i + length] - i;
  return left == e->splits[j][j + length] - j && is_same(e, i, j, left) &&
         is_same(e, i + left, j + left, length - left);
}

static void count_tree(enumeration *e, int32_t (*parts)[2], int32_t count) {
  mmci_u128 sum = 0;
  for (int32_t p = 0; p < count; p++) {
    int32_t i = parts[p][0], j = parts[p][1];
    bool again = false;
    for (int32_t q = 0; q < p && !again; q++)
      again = parts[q][1] - parts[q][0] == j - i && is_same(e, i, parts[q][0], j - i);
    if (!again)
      sum += mmci_multiplications(e->c->dims[i], e->c->dims[e->splits[i][j]], e->c->dims[j]);
  }
  if (sum < e->least) e->least = sum;
}

static void enumerate(enumeration *e, int32_t (*parts)[2], int32_t done, int32_t count) {
  while (done < count && parts[done][1] - parts[done][0] == 1) {
    memmove(&parts[done], &parts[done + 1], (size_t)(count - done - 1) * sizeof *parts);
    count--;
  }
  if (done == count) {
    count_tree(e, parts, count);
    return;
  }
  int32_t i = parts[done][0], j = parts[done][1];
  for (int32_t k = i + 1; k < j; k++) {
    int32_t next[2 * SHORT][2];
    memcpy(next, parts, (size_t)count * sizeof *next);
    next[count][0] = i;
    next[count][1] = next[count + 1][0] = k;
    next[count + 1][1] = j;
    e->splits[i][j] = (int8_t)k;
    enumerate(e, next, done + 1, count + 2);
  }
}

static mmci_u128 least_of_all(const chain *c) {
  enumeration e = {.c = c, .least = MMCI_U128_MAX};
  int32_t parts[2 * SHORT][2] = {{0, c->n}};
  enumerate(&e, parts, 0, 1);
  return e.least;
}

/* ---- tests ------------------------------------------------------------------------------------
 */

static void programs_are_right_and_no_dearer_than_trees(void **state) {
  (void)state;
  uint64_t random = seed;
  for (int t = 0; t < CHAINS; t++) {
    chain c;
    random_chain(&random, MOST_FACTORS, &c);
    mmci_order_problem problem = {.n = c.n, .dims = c.dims, .threads = 1};
    mmci_order_answer answer;
    const mmci_solver *used;
    assert_int_equal(mmci_order_solve("auto", &problem, false, &used, &answer, NULL), MMC_OK);
    mmci_program p = solve(&c);
    if (p.multiplications > answer.multiplications) fail_chain("dearer than a tree", &c);
    mmci_tree_destroy(&answer.tree);
    mmci_program_destroy(&p);
  }
}

static void short_programs_are_nearly_the_best(void **state) {
  (void)state;
  uint64_t random = seed;
  int best = 0;
  double worst = 1;
  for (int t = 0; t < SHORT_CHAINS; t++) {
    chain c;
    random_chain(&random, SHORT, &c);
    mmci_program p = solve(&c);
    mmci_u128 least = least_of_all(&c);
    if (p.multiplications < least) fail_chain("cheaper than the best", &c);
    best += p.multiplications == least;
    double ratio = (double)p.multiplications / (double)least;
    if (ratio > worst) worst = ratio;
    mmci_program_destroy(&p);
  }
  print_message("%d of %d are the best there are, the worst is %.3f of it\n", best, SHORT_CHAINS,
                worst);
  assert_true(best >= SHORT_CHAINS * 97 / 100 && worst < 1.5);
}

static void powers_take_as_many_products_as_squaring(void **state) {
  (void)state;
  enum { MOST = 1100 };
  static int64_t dims[MOST + 1];
  static int32_t labels[MOST];
  for (int i = 0; i <= MOST; i++) dims[i] = 64;
  for (int32_t p = 2; p <= MOST; p++) {
    mmci_program program;
    assert_int_equal(mmci_repeats_solve(p, dims, labels, &no_bounds, &program, NULL), MMC_OK);
    int32_t squarings = 31 - __builtin_clz((unsigned)p), ones = __builtin_popcount((unsigned)p);
    if (program.count > squarings + ones - 1)
      fail_msg("A^%d takes %d products, squaring %d", p, program.count, squarings + ones - 1);
    mmci_program_destroy(&program);
  }
}

static void a_vector_goes_through_a_power_when_that_is_cheaper(void **state) {
  (void)state;
  /* v A^3: three products of a vector are cheaper than A^3. v A^1000 with A 4 x 4: not. */
  const int64_t few[] = {1, 64, 64, 64, 64};
  const int32_t few_labels[] = {0, 1, 1, 1};
  mmci_program p;
  assert_int_equal(mmci_repeats_solve(4, few, few_labels, &no_bounds, &p, NULL), MMC_OK);
  assert_int_equal(p.count, 3);
  assert_true(p.multiplications == 3 * 64 * 64);
  mmci_program_destroy(&p);

  static int64_t dims[1002];
  static int32_t labels[1001];
  for (int i = 0; i <= 1001; i++) dims[i] = i == 0 ? 1 : 4;
  for (int i = 0; i <= 1000; i++) labels[i] = i > 0;
  assert_int_equal(mmci_repeats_solve(1001, dims, labels, &no_bounds, &p, NULL), MMC_OK);
  assert_true(p.multiplications < 1000 && p.count < 20);
  mmci_program_destroy(&p);
}

static void chains_without_repeats_are_trees(void **state) {
  (void)state;
  const int64_t dims[] = {30, 35, 15, 5, 10, 20, 25};
  const int32_t labels[] = {0, 1, 2, 3, 4, 5};
  mmci_program p;
  assert_int_equal(mmci_repeats_solve(6, dims, labels, &no_bounds, &p, NULL), MMC_OK);
  assert_int_equal(p.count, 5);
  assert_true(p.multiplications == 15125);
  mmci_program_destroy(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(programs_are_right_and_no_dearer_than_trees),
      cmocka_unit_test(short_programs_are_nearly_the_best),
      cmocka_unit_test(powers_take_as_many_products_as_squaring),
      cmocka_unit_test(a_vector_goes_through_a_power_when_that_is_cheaper),
      cmocka_unit_test(chains_without_repeats_are_trees),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
