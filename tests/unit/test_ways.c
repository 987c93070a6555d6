/* test_ways.c: in a crowd every way is tried, the fastest taken, the others again after a while,
 * and a CBLAS left alone for a while when nobody else calls it. Times are made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "device/blas/ways.h"

enum { PIECES = 40 };

/* Goes `calls` times through a crowd in which pieces take so many seconds by each way, and others
 * call for as long after each; counts how often each way is gone. */
static void go(mmci_ways *ways, const double *seconds, int calls, double others_s, double *now_s,
               int *gone) {
  for (int i = 0; i < calls; i++) {
    const mmci_way way = mmci_ways_choose(ways, true, *now_s);
    const double end_s = *now_s + seconds[way];
    mmci_ways_note(ways, way, 1, *now_s, end_s);
    *now_s = end_s + others_s;
    gone[way]++;
  }
}

static void without_a_crowd_helpers_share(void **state) {
  (void)state;
  const mmci_ways ways = {.has_library = true, .seconds = {3, 2, 1}};
  assert_int_equal(mmci_ways_choose(&ways, false, 0), MMCI_SHARED);
  assert_int_equal(mmci_ways_choose(&ways, true, 0), MMCI_LIBRARY);
}

static void the_fastest_is_taken(void **state) {
  (void)state;
  for (int fastest = 0; fastest < MMCI_WAY_COUNT; fastest++) {
    mmci_ways ways = {.has_library = true};
    double seconds[] = {2e-3, 2e-3, 2e-3}, now_s = 100;
    int gone[MMCI_WAY_COUNT] = {0};
    seconds[fastest] = 1e-3;
    go(&ways, seconds, 1000, 1, &now_s, gone);
    for (int w = 0; w < MMCI_WAY_COUNT; w++) {
      if (w == fastest) continue;
      assert_in_range(gone[w], 2, 12); /* it is tried again, but seldom */
    }
  }
}

static void what_changes_is_found(void **state) {
  (void)state;
  mmci_ways ways = {.has_library = true};
  const double before[] = {1e-3, 3e-3, 2e-3}, after[] = {4e-3, 3e-3, 2e-3};
  double now_s = 100;
  int gone[MMCI_WAY_COUNT] = {0};
  go(&ways, before, 100, 1, &now_s, gone);
  assert_true(gone[MMCI_SHARED] >= 95);
  gone[MMCI_SHARED] = gone[MMCI_LIBRARY] = 0;
  go(&ways, after, 100, 1, &now_s, gone);
  assert_true(gone[MMCI_SHARED] <= 6);
  assert_true(gone[MMCI_LIBRARY] >= 90);
  gone[MMCI_SHARED] = 0;
  go(&ways, before, 400, 1, &now_s, gone);
  assert_true(gone[MMCI_SHARED] >= 200);
}

/* One that something else made slow once is taken on. */
static void an_outlier_changes_little(void **state) {
  (void)state;
  mmci_ways ways = {.has_library = true};
  const double usual[] = {2e-3, 2e-3, 1e-3}, slow[] = {1, 1, 1};
  double now_s = 100;
  int gone[MMCI_WAY_COUNT] = {0};
  go(&ways, usual, 20, 1, &now_s, gone);
  go(&ways, slow, 1, 1, &now_s, gone);
  gone[MMCI_LIBRARY] = 0;
  go(&ways, usual, 20, 1, &now_s, gone);
  assert_int_equal(gone[MMCI_LIBRARY], 20);
}

static void no_library_is_asked(void **state) {
  (void)state;
  mmci_ways ways = {0};
  const double seconds[] = {2e-3, 3e-3, 1e-9};
  double now_s = 100;
  int gone[MMCI_WAY_COUNT] = {0};
  go(&ways, seconds, 500, 1, &now_s, gone);
  assert_int_equal(gone[MMCI_LIBRARY], 0);
}

/* Calls that follow each other keep the library's threads awake, so they end after a while; those
 * between which others call go on. */
static void the_library_rests(void **state) {
  (void)state;
  const double seconds[] = {2e-3, 2e-3, 1e-3};
  for (int others = 0; others < 2; others++) {
    mmci_ways ways = {.has_library = true};
    double now_s = 100;
    int gone[MMCI_WAY_COUNT] = {0};
    go(&ways, seconds, 100, others ? 1e-3 : 0, &now_s, gone);
    if (others)
      assert_true(gone[MMCI_LIBRARY] >= 90);
    else
      assert_in_range(gone[MMCI_LIBRARY], 40, 60);
  }
}

typedef struct record {
  int done[PIECES];
  bool in_order;
  int64_t next;
} record;

static void note_pieces(void *user, mmci_way way, int64_t begin, int64_t end) {
  record *x = user;
  (void)way;
  x->in_order = x->in_order && begin == x->next && begin < end && end <= PIECES;
  for (int64_t p = begin; p < end && p < PIECES; p++) x->done[p]++;
  x->next = end;
}

static void every_piece_once(void **state) {
  (void)state;
  for (int crowd = 0; crowd < 2; crowd++) {
    mmci_ways *ways = NULL;
    assert_int_equal(mmci_ways_create(true, &ways, NULL), MMC_OK);
    for (int call = 0; call < 50; call++) {
      record x = {.in_order = true};
      const mmci_ways_job job = {
          .threads = crowd ? 1 << 20 : 1, .pieces = PIECES, .compute = note_pieces, .user = &x};
      mmci_ways_compute(call == 0 ? NULL : ways, &job);
      assert_true(x.in_order);
      for (int p = 0; p < PIECES; p++) assert_int_equal(x.done[p], 1);
    }
    free(ways);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_a_crowd_helpers_share),
      cmocka_unit_test(the_fastest_is_taken),
      cmocka_unit_test(what_changes_is_found),
      cmocka_unit_test(an_outlier_changes_little),
      cmocka_unit_test(no_library_is_asked),
      cmocka_unit_test(the_library_rests),
      cmocka_unit_test(every_piece_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
