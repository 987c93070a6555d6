/* test_fusions.c: fusions are the best there are: against every choice of fusions for every order
 * of a short chain, and in the inequalities that must hold for any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "order/fusion.h"

enum { CHAINS = 10000, SHORT_CHAINS = 2000, MOST_FACTORS = 24, SHORT = 7 };
static const uint64_t seed = 2022;
static const mmci_bounds no_bounds = {.limit_bytes = UINT64_MAX};

static int64_t random_words(uint64_t *random) {
  return 1 + random_below(random, (int64_t)1 << (1 + random_below(random, 24)));
}

static void fail_chain(const char *what, int32_t n, const int64_t *dims, int64_t m) {
  print_error("%s, M = %lld:", what, (long long)m);
  for (int32_t i = 0; i <= n; i++) print_error(" %lld", (long long)dims[i]);
  fail_msg("(seed %llu)", (unsigned long long)seed);
}

/* What OP_DM_Fuse makes of a tree, the write of the result not counted. */
static mmci_u128 fuse_tree(const mmci_tree *tree, const int64_t *dims, mmci_fuse_rule rule,
                           int64_t m) {
  mmci_range ranges[MOST_FACTORS];
  mmci_fusion fusions[MOST_FACTORS];
  if (tree->n < 2) return 0;
  mmci_tree_ranges(tree, ranges);
  mmci_fuse(tree, ranges, dims, rule, (mmci_chip){.words = m}, fusions);
  return mmci_fusion_words(&fusions[tree->n - 2]);
}

static mmci_tree op_count_tree(int32_t n, const int64_t *dims) {
  mmci_order_problem problem = {.n = n, .dims = dims, .threads = 1};
  mmci_order_answer answer;
  const mmci_solver *used;
  assert_int_equal(mmci_order_solve("auto", &problem, false, &used, &answer, NULL), MMC_OK);
  return answer.tree;
}

/* ---- every choice --------------------------------------------------------------------------- */

/* The words of each choice for sub-chain (i, j), the write of its result included: every order,
 * or that of the tree, with every set of pairs that share a kernel. Nothing is left out because
 * something else is better. */
typedef struct choices {
  int count;
  mmci_u128 words[2000]; /* 1608 for 7 factors */
} choices;

typedef struct problem {
  const int64_t *dims;
  int64_t m;
  int8_t (*splits)[SHORT + 1]; /* of the tree; NULL: any order */
} problem;

static bool may_split(const problem *p, int i, int k, int j) {
  return p->splits == NULL || p->splits[i][j] == k;
}

static void cross(choices *out, const choices *a, const choices *b, const choices *c,
                  mmci_u128 kernel) {
  for (int x = 0; x < a->count; x++)
    for (int y = 0; y < b->count; y++)
      for (int z = 0; z < c->count; z++) {
        assert_true(out->count < 2000);
        out->words[out->count++] = a->words[x] + b->words[y] + c->words[z] + kernel;
      }
}

static void list_choices(const problem *p, choices (*table)[SHORT + 1], int i, int j) {
  static const choices nothing = {.count = 1};
  const int64_t *dims = p->dims;
  choices *out = &table[i][j];
  out->count = 0;
  if (j - i == 1) *out = nothing;
  mmci_u128 result = (mmci_u128)dims[i] * (mmci_u128)dims[j];
  for (int k = i + 1; k < j; k++) {
    mmci_u128 product = mmci_traffic_product(dims[i], dims[k], dims[j], p->m).words;
    if (may_split(p, i, k, j)) cross(out, &table[i][k], &table[k][j], &nothing, product + result);
    for (int h = i + 1; h < k; h++) {
      const int64_t d[4] = {dims[i], dims[h], dims[k], dims[j]};
      if (may_split(p, i, k, j) && may_split(p, i, h, k))
        cross(out, &table[i][h], &table[h][k], &table[k][j],
              mmci_traffic_left(d, p->m).words + result);
      if (may_split(p, i, h, j) && may_split(p, h, k, j))
        cross(out, &table[i][h], &table[h][k], &table[k][j],
              mmci_traffic_right(d, p->m).words + result);
    }
  }
}

/* The least of all choices, the write of the result not counted. */
static mmci_u128 least_choice(const problem *p, int n, int *count) {
  static choices table[SHORT + 1][SHORT + 1];
  for (int length = 1; length <= n; length++)
    for (int i = 0; i + length <= n; i++) list_choices(p, table, i, i + length);
  mmci_u128 least = MMCI_U128_MAX;
  for (int w = 0; w < table[0][n].count; w++)
    if (table[0][n].words[w] < least) least = table[0][n].words[w];
  *count = table[0][n].count;
  return n == 1 ? 0 : least - (mmci_u128)p->dims[0] * (mmci_u128)p->dims[n];
}

static void read_splits(const mmci_tree *tree, int8_t splits[SHORT + 1][SHORT + 1]) {
  mmci_range ranges[SHORT];
  mmci_tree_ranges(tree, ranges);
  for (int32_t t = 0; t < tree->n - 1; t++)
    splits[ranges[t].first][ranges[t].last] = (int8_t)ranges[t].split;
}

static void nothing_beats_them(void **state) {
  (void)state;
  static const int all_choices[] = {0, 1, 1, 4, 15, 68, 322, 1608};
  uint64_t random = seed;
  for (int round = 0; round < SHORT_CHAINS; round++) {
    int32_t n = 1 + (int32_t)random_below(&random, SHORT);
    int64_t dims[SHORT + 1], m = random_words(&random);
    random_dims(&random, round % DIMS_FAMILIES, n, dims);
    problem p = {.dims = dims, .m = m};
    int count;
    mmci_u128 least = least_choice(&p, n, &count), words;
    assert_int_equal(count, all_choices[n]);
    mmci_tree tree;
    assert_int_equal(mmci_order_joint(n, dims, m, &no_bounds, &tree, &words, NULL), MMC_OK);
    if (words != least || fuse_tree(&tree, dims, MMCI_FUSE_EXACT, m) != least)
      fail_chain("joint is not the least of all choices", n, dims, m);
    mmci_tree_destroy(&tree);

    /* Any tree: that of other dims. */
    int64_t other[SHORT + 1];
    random_dims(&random, 0, n, other);
    tree = op_count_tree(n, other);
    int8_t splits[SHORT + 1][SHORT + 1] = {{0}};
    read_splits(&tree, splits);
    p.splits = splits;
    if (fuse_tree(&tree, dims, MMCI_FUSE_EXACT, m) != least_choice(&p, n, &count))
      fail_chain("exact is not the least of all fusions of the order", n, dims, m);
    mmci_tree_destroy(&tree);
  }
}

/* ---- inequalities -------------------------------------------------------------------------- */

static void joint_is_never_above_exact_nor_exact_above_none(void **state) {
  (void)state;
  uint64_t random = seed + 1;
  int joint_better = 0, exact_better = 0;
  for (int round = 0; round < CHAINS; round++) {
    int32_t n = 1 + (int32_t)random_below(&random, MOST_FACTORS);
    int64_t dims[MOST_FACTORS + 1], m = random_words(&random);
    random_dims(&random, round % DIMS_FAMILIES, n, dims);
    mmci_tree tree = op_count_tree(n, dims), joint;
    mmci_u128 none = fuse_tree(&tree, dims, MMCI_FUSE_NONE, m);
    mmci_u128 exact = fuse_tree(&tree, dims, MMCI_FUSE_EXACT, m);
    mmci_u128 poster = fuse_tree(&tree, dims, MMCI_FUSE_POSTER, m), words;
    assert_int_equal(mmci_order_joint(n, dims, m, &no_bounds, &joint, &words, NULL), MMC_OK);
    if (words != fuse_tree(&joint, dims, MMCI_FUSE_EXACT, m))
      fail_chain("joint's words are not its tree's", n, dims, m);
    if (!(words <= exact && exact <= none && poster <= none))
      fail_chain("joint <= exact <= none does not hold", n, dims, m);
    joint_better += words < exact;
    exact_better += exact < none;
    mmci_tree_destroy(&tree);
    mmci_tree_destroy(&joint);
  }
  assert_true(joint_better > CHAINS / 20 && exact_better > CHAINS / 20);
}

static void more_room_never_costs_more(void **state) {
  (void)state;
  uint64_t random = seed + 2;
  for (int round = 0; round < 500; round++) {
    int32_t n = 2 + (int32_t)random_below(&random, 11);
    int64_t dims[MOST_FACTORS + 1];
    random_dims(&random, round % DIMS_FAMILIES, n, dims);
    mmci_tree tree = op_count_tree(n, dims);
    mmci_u128 before[4] = {MMCI_U128_MAX, MMCI_U128_MAX, MMCI_U128_MAX, MMCI_U128_MAX};
    for (int64_t m = 1; m < (int64_t)1 << 40; m += 1 + random_below(&random, m)) {
      mmci_tree joint;
      mmci_u128 now[4];
      for (int rule = MMCI_FUSE_NONE; rule <= MMCI_FUSE_EXACT; rule++)
        now[rule] = fuse_tree(&tree, dims, (mmci_fuse_rule)rule, m);
      assert_int_equal(mmci_order_joint(n, dims, m, &no_bounds, &joint, &now[3], NULL), MMC_OK);
      mmci_tree_destroy(&joint);
      for (int r = 0; r < 4; r++)
        if (now[r] > before[r]) fail_chain("more room costs more", n, dims, m);
      memcpy(before, now, sizeof before);
    }
    mmci_tree_destroy(&tree);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_beats_them),
      cmocka_unit_test(joint_is_never_above_exact_nor_exact_above_none),
      cmocka_unit_test(more_room_never_costs_more),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
