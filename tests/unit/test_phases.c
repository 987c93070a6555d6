/* test_phases.c: groups of products that threads share. Whatever the tree, every product has one
 * place after those that it reads; others read of a group its last product, in a later phase. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "device/blas/phases.h"

static const uint64_t seed = 77177;
enum { MOST = 400 };

/* A tree over n factors, or with repeats, in which later products read any earlier ones. */
typedef struct problem {
  mmci_group_product products[MOST];
  double seconds[MOST];
  mmci_group chain;
} problem;

static void add(problem *p, int32_t left, int32_t right, double seconds) {
  p->seconds[p->chain.count] = seconds;
  p->products[p->chain.count++] = (mmci_group_product){.left = left, .right = right};
}

/* Products of neighbours at random, or of the two smallest, until one is left. */
static void make_tree(problem *p, int32_t n, bool balanced, uint64_t *random) {
  int32_t open[MOST + 1], count = n;
  *p = (problem){.chain = {.n = n, .batch = 1}};
  p->chain.products = p->products;
  for (int32_t i = 0; i < n; i++) open[i] = i;
  while (count > 1) {
    int32_t kept = 0;
    if (balanced) {
      for (int32_t i = 0; i < count; i += 2) {
        if (i + 1 < count) add(p, open[i], open[i + 1], 1);
        open[kept++] = i + 1 < count ? n + p->chain.count - 1 : open[i];
      }
      count = kept;
    } else {
      int64_t i = random_below(random, count - 1);
      add(p, open[i], open[i + 1], 1 + (double)random_below(random, 9));
      open[i] = n + p->chain.count - 1;
      for (int64_t j = i + 1; j < count - 1; j++) open[j] = open[j + 1];
      count--;
    }
  }
}

static void make_repeats(problem *p, int32_t count, uint64_t *random) {
  *p = (problem){.chain = {.n = 2, .batch = 1}};
  p->chain.products = p->products;
  for (int32_t s = 0; s < count; s++) {
    int32_t newest = s > 0 ? 2 + s - 1 : 0; /* so that none is left unread */
    add(p, newest, (int32_t)random_below(random, 2 + s), 1 + (double)random_below(random, 9));
  }
}

/* Where product s is: its place, group and phase. */
typedef struct where {
  int32_t place, group, phase;
} where;

static void check_groups(const problem *p, const mmci_phases *groups) {
  int32_t n = p->chain.n, count = p->chain.count;
  where at[MOST];
  for (int32_t s = 0; s < MOST; s++) at[s] = (where){-1, -1, -1};
  assert_int_equal(groups->phases[0], 0);
  assert_int_equal(groups->groups[0], 0);
  assert_int_equal(groups->phases[groups->phase_count], groups->group_count);
  assert_int_equal(groups->groups[groups->group_count], count);
  for (int32_t phase = 0; phase < groups->phase_count; phase++)
    for (int32_t g = groups->phases[phase]; g < groups->phases[phase + 1]; g++) {
      assert_true(groups->groups[g] < groups->groups[g + 1]);
      for (int32_t t = groups->groups[g]; t < groups->groups[g + 1]; t++) {
        int32_t s = groups->order[t];
        assert_true(s >= 0 && s < count && at[s].place == -1);
        at[s] = (where){t, g, phase};
      }
    }
  assert_int_equal(at[count - 1].place, count - 1);
  for (int32_t s = 0; s < count; s++)
    for (int side = 0; side < 2; side++) {
      int32_t read = (side == 0 ? p->products[s].left : p->products[s].right) - n;
      if (read < 0) continue;
      if (at[read].group == at[s].group) {
        assert_true(at[read].place < at[s].place);
      } else {
        assert_true(at[read].phase < at[s].phase);
        assert_int_equal(at[read].place, groups->groups[at[read].group + 1] - 1);
      }
    }
}

/* What the phases take when a thread takes the next group as soon as it can. */
static double phases_s(const problem *p, const mmci_phases *groups, int threads) {
  double all_s = 0;
  for (int32_t phase = 0; phase < groups->phase_count; phase++) {
    double busy[64] = {0}, longest = 0;
    for (int32_t g = groups->phases[phase]; g < groups->phases[phase + 1]; g++) {
      int first = 0;
      for (int t = 1; t < threads; t++)
        if (busy[t] < busy[first]) first = t;
      for (int32_t t = groups->groups[g]; t < groups->groups[g + 1]; t++)
        busy[first] += p->seconds[groups->order[t]];
    }
    for (int t = 0; t < threads; t++)
      if (busy[t] > longest) longest = busy[t];
    all_s += longest;
  }
  return all_s;
}

static void any_tree(void **state) {
  (void)state;
  print_message("seed %llu\n", (unsigned long long)seed);
  uint64_t random = seed;
  problem *p = malloc(sizeof *p);
  int shared = 0;
  for (int round = 0; round < 3000; round++) {
    int32_t size = 2 + (int32_t)random_below(&random, round % 10 == 0 ? MOST - 2 : 30);
    if (round % 3 == 0)
      make_repeats(p, size, &random);
    else
      make_tree(p, size, round % 3 == 1, &random);
    mmci_phases groups;
    mmci_error error;
    int threads = 1 + (int)random_below(&random, 64);
    assert_int_equal(mmci_phases_create(&p->chain, p->seconds, threads, &groups, &error), MMC_OK);
    check_groups(p, &groups);
    if (threads == 1) assert_int_equal(groups.group_count, 1);
    shared += groups.group_count > 1;
    mmci_phases_destroy(&groups);
  }
  assert_true(shared > 500);
  free(p);
}

/* A balanced tree is shared out evenly; from left to right there is nothing to share. */
static void what_threads_gain(void **state) {
  (void)state;
  problem *p = malloc(sizeof *p);
  mmci_phases groups;
  mmci_error error;
  make_tree(p, 256, true, NULL);
  static const struct {
    int threads;
    double least_gain;
  } expected[] = {{2, 1.9}, {3, 2.3}, {8, 5}};
  for (size_t t = 0; t < sizeof expected / sizeof expected[0]; t++) {
    int threads = expected[t].threads;
    assert_int_equal(mmci_phases_create(&p->chain, p->seconds, threads, &groups, &error), MMC_OK);
    assert_true(255 / phases_s(p, &groups, threads) >= expected[t].least_gain);
    mmci_phases_destroy(&groups);
  }
  *p = (problem){.chain = {.n = 100, .batch = 1}};
  p->chain.products = p->products;
  for (int32_t s = 0; s < 99; s++) add(p, s == 0 ? 0 : 100 + s - 1, s + 1, 1);
  assert_int_equal(mmci_phases_create(&p->chain, p->seconds, 2, &groups, &error), MMC_OK);
  assert_int_equal(groups.group_count, 1);
  check_groups(p, &groups);
  mmci_phases_destroy(&groups);
  free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(any_tree),
                                     cmocka_unit_test(what_threads_gain)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
