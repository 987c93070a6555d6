/* test_traffic.c: the words that one kernel moves: against loops that count them, against all
 * tiles, at the edges. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "../tiled_loops.h"
#include "cost/traffic.h"

static const uint64_t seed = 65536;

typedef mmci_traffic (*fuse_fn)(const int64_t p[4], int64_t on_chip_words);
typedef int64_t (*loops_fn)(const int64_t p[4], int64_t x, int64_t y);

static void expect(mmci_traffic got, uint64_t words, int64_t x, int64_t y) {
  if (got.words == words && got.x == x && got.y == y) return;
  char text[MMC_COUNT_TEXT_SIZE];
  fail_msg("expected %llu words, tile %lld x %lld; got %s, %lld x %lld", (unsigned long long)words,
           (long long)x, (long long)y, mmc_count_format(mmci_count(got.words), text),
           (long long)got.x, (long long)got.y);
}

/* ---- known values -------------------------------------------------------------------------- */

/* The TEE-ACM2 poster (SC22), fusion decision table, M = 65,536: no-fuse and fused values less what
 * their operands cost. The right fuse of the true mirror image follows from the same formula with
 * the four sizes reversed. */
static void the_posters_kernels(void **state) {
  (void)state;
  const int64_t m = 65536;
  expect(mmci_traffic_product(1008, 552, 368, m), 1599696, 256, 256);
  expect(mmci_traffic_product(368, 1016, 616, m), 1799336, 256, 256);
  const int64_t t2[4] = {936, 1008, 552, 368}, t4[4] = {368, 1016, 616, 616};
  expect(mmci_traffic_right_as_printed(t2, m), 3072693, 311, 210);
  expect(mmci_traffic_left(t4, m), 2942313, 218, 300);
  expect(mmci_traffic_right(t2, m), 4829112, 326, 200);
}

static void the_theorem(void **state) {
  (void)state;
  uint64_t random = seed;
  for (int round = 0; round < 1000; round++) {
    int64_t side = 1 + random_below(&random, 300), p[3];
    for (int d = 0; d < 3; d++) p[d] = side + random_below(&random, 5000);
    mmci_traffic got = mmci_traffic_product(p[0], p[1], p[2], side * side);
    expect(got, (uint64_t)(2 * p[0] * p[1] * p[2] / side), side, side);
  }
}

/* ---- loops --------------------------------------------------------------------------------- */

static void products_move_what_the_loops_move(void **state) {
  (void)state;
  uint64_t random = seed + 1;
  for (int round = 0; round < 3000; round++) {
    int64_t m = 1 + random_below(&random, 60), p[3];
    for (int d = 0; d < 3; d++) p[d] = random_below(&random, 40);
    mmci_traffic got = mmci_traffic_product(p[0], p[1], p[2], m);
    if (got.x == 0) {
      assert_true(p[0] * p[1] * p[2] == 0 && got.words == 0);
      continue;
    }
    int64_t words = (int64_t)got.words, loops = product_loops(p[0], p[1], p[2], got.x, got.y);
    bool divides = p[0] % got.x == 0 && p[2] % got.y == 0;
    /* Edge tiles cost at most one more round of each operand. */
    assert_true(divides ? words == loops : words <= loops);
    assert_true(loops <= words + 1 + p[0] * p[1] + p[1] * p[2]);
  }
}

static void fuses_move_what_the_loops_move(void **state) {
  (void)state;
  static const fuse_fn fuse[] = {mmci_traffic_left, mmci_traffic_right};
  static const loops_fn count[] = {left_fuse_loops, right_fuse_loops};
  uint64_t random = seed + 2;
  int divided = 0;
  for (int round = 0; round < 20000; round++) {
    int right = round % 2;
    int64_t m = 1 + random_below(&random, 60), p[4];
    for (int d = 0; d < 4; d++) p[d] = 1 + random_below(&random, 24);
    mmci_traffic got = fuse[right](p, m);
    int64_t words = (int64_t)got.words, loops = count[right](p, got.x, got.y);
    bool divides = p[right] % got.x == 0 && p[2 + right] % got.y == 0;
    divided += divides;
    int64_t round_words = p[0] * p[1] + p[1] * p[2] + p[2] * p[3] + 2 * p[0] * p[3];
    if (!(divides ? words == loops : words <= loops) || loops > words + 1 + round_words)
      fail_msg("%s fuse of %lld %lld %lld %lld, M = %lld: %lld words, the loops %lld",
               right ? "right" : "left", (long long)p[0], (long long)p[1], (long long)p[2],
               (long long)p[3], (long long)m, (long long)words, (long long)loops);
  }
  assert_true(divided > 1000);
}

/* ---- all tiles ----------------------------------------------------------------------------- */

/* a/x + b/y of the best tile of whole sides. */
static double best_of_all_tiles(double a, double b, int64_t m, int64_t x_most, int64_t y_most) {
  double best = INFINITY;
  for (int64_t x = 1; x <= x_most; x++)
    for (int64_t y = 1; y <= y_most && x * y <= m; y++)
      best = fmin(best, a / (double)x + b / (double)y);
  return best;
}

/* The tile fits, the words are its words, and rounding both sides down costs no more than it can:
 * a side of x is at least x/(x+1) of the best real one. */
static void check_tile(double a, double b, int64_t m, int64_t x_most, int64_t y_most,
                       int64_t first_and_last, mmci_traffic got) {
  assert_true(got.x >= 1 && got.x <= x_most && got.y >= 1 && got.y <= y_most);
  assert_true(got.x * got.y <= m);
  double rounds = a / (double)got.x + b / (double)got.y;
  double words = (double)((int64_t)got.words + first_and_last);
  assert_true(fabs(words - floor(rounds + 1e-9)) < 0.5);
  double best = best_of_all_tiles(a, b, m, x_most, y_most);
  double side = (double)least_of(got.x, got.y);
  if (!(rounds <= best * (1 + 1 / side) + 1e-9))
    fail_msg("tile %lld x %lld: %g, the best of all %g", (long long)got.x, (long long)got.y, rounds,
             best);
  if (m >= x_most * y_most) assert_true(fabs(rounds - best) < 1e-9);
}

static void no_tile_is_much_better(void **state) {
  (void)state;
  uint64_t random = seed + 3;
  for (int round = 0; round < 5000; round++) {
    int64_t m = 1 + random_below(&random, round % 2 != 0 ? 60 : 500), p[4];
    for (int d = 0; d < 4; d++) p[d] = 1 + random_below(&random, 24);
    double mkn = (double)(p[0] * p[1] * p[2]);
    mmci_traffic product = mmci_traffic_product(p[0], p[1], p[2], m);
    check_tile(mkn, mkn, m, p[0], p[2], 0, product);
    int64_t side = (int64_t)sqrt((double)m);
    if (side * side == m && side <= p[0] && side <= p[2])
      assert_true(2 * mkn / (double)side <= best_of_all_tiles(mkn, mkn, m, p[0], p[2]) + 1e-9);

    double second = (double)(p[0] * p[2] * p[3]);
    check_tile(mkn + second, mkn + 2 * second, m, p[0], p[2], 2 * p[0] * p[3],
               mmci_traffic_left(p, m));
    double first = (double)(p[1] * p[2] * p[3]);
    second = (double)(p[0] * p[1] * p[3]);
    check_tile(first + 2 * second, first + second, m, p[1], p[3], 2 * p[0] * p[3],
               mmci_traffic_right(p, m));
  }
}

/* ---- edges --------------------------------------------------------------------------------- */

static void a_large_chip_reads_everything_once(void **state) {
  (void)state;
  const int64_t p[4] = {10, 30, 5, 60}, large = (int64_t)1 << 62;
  expect(mmci_traffic_product(10, 30, 5, 50), 450, 10, 5);
  expect(mmci_traffic_product(10, 30, 5, large), 450, 10, 5);
  expect(mmci_traffic_left(p, large), 300 + 150 + 300, 10, 5);
  expect(mmci_traffic_right(p, large), 300 + 150 + 300, 30, 60);
  /* One side cut short leaves its room to the other. */
  expect(mmci_traffic_product(2, 7, 1000, 100), 2 * 7 * 20 + 7 * 1000, 2, 50);
  expect(mmci_traffic_product(1000, 7, 2, 100), 2 * 7 * 20 + 7 * 1000, 50, 2);
}

static void empty_matrices_move_nothing(void **state) {
  (void)state;
  for (int bits = 0; bits < 16; bits++) {
    int64_t p[4];
    for (int d = 0; d < 4; d++) p[d] = (bits >> d & 1) != 0 ? 7 : 0;
    mmci_traffic product = mmci_traffic_product(p[0], p[1], p[2], 16);
    assert_true((product.words != 0) == (p[0] * p[1] * p[2] != 0));
    bool nothing = p[0] * p[2] == 0 || p[1] + p[3] == 0;
    mmci_traffic left = mmci_traffic_left(p, 16);
    assert_true(nothing == (left.x == 0) && (!nothing || left.words == 0));
    nothing = p[1] * p[3] == 0 || p[0] + p[2] == 0;
    mmci_traffic right = mmci_traffic_right(p, 16);
    assert_true(nothing == (right.x == 0) && (!nothing || right.words == 0));
  }
  const int64_t no_second[4] = {8, 7, 4, 0};
  expect(mmci_traffic_left(no_second, 16), (uint64_t)product_loops(8, 7, 4, 4, 4), 4, 4);
}

static void one_word_on_chip(void **state) {
  (void)state;
  const int64_t p[4] = {3, 4, 5, 6};
  expect(mmci_traffic_product(3, 4, 5, 1), 2 * 60, 1, 1);
  expect(mmci_traffic_left(p, 1), (uint64_t)left_fuse_loops(p, 1, 1), 1, 1);
  expect(mmci_traffic_right(p, 1), (uint64_t)right_fuse_loops(p, 1, 1), 1, 1);
  const int64_t ones[4] = {1, 1, 1, 1};
  expect(mmci_traffic_product(1, 1, 1, 65536), 2, 1, 1);
  expect(mmci_traffic_left(ones, 65536), 3, 1, 1);
}

static void large_counts_are_exact_or_too_large(void **state) {
  (void)state;
  const int64_t big = (int64_t)1 << 40, most = (int64_t)1 << 62;
  assert_true(mmci_traffic_product(big, big, big, most).words == (mmci_u128)1 << 90);
  assert_true(mmci_traffic_product(most, most, most, most).words == MMCI_U128_MAX);
  const int64_t huge[4] = {most, most, most, most}, bigs[4] = {big, big, big, big};
  assert_true(mmci_traffic_left(huge, 1).words == MMCI_U128_MAX);
  assert_true(mmci_traffic_right(huge, most).words == MMCI_U128_MAX);
  /* 2^121 / x + 3 2^120 / y - 2^81 at x = floor(2^31 sqrt(2/3)), y = floor(2^31 sqrt(3/2)), by
   * rational arithmetic. */
  mmci_traffic left = mmci_traffic_left(bigs, most);
  assert_true(left.x == 1753413056 && left.y == 2630119584);
  assert_true(left.words == ((mmci_u128)0x9ca470a << 64 | 0x9212e7d054201ae));
  const int64_t wide[4] = {1, most, 1, most};
  assert_true(mmci_traffic_left(wide, most).words == 3 * (mmci_u128)most);
}

static void more_room_never_costs_more(void **state) {
  (void)state;
  uint64_t random = seed + 4;
  static const fuse_fn fuse[] = {mmci_traffic_left, mmci_traffic_right,
                                 mmci_traffic_right_as_printed};
  for (int round = 0; round < 300; round++) {
    int64_t p[4];
    for (int d = 0; d < 4; d++) p[d] = 1 + random_below(&random, round % 2 != 0 ? 40 : 3000);
    mmci_u128 before[4] = {MMCI_U128_MAX, MMCI_U128_MAX, MMCI_U128_MAX, MMCI_U128_MAX};
    for (int64_t m = 1; m < 1 << 24; m += 1 + m / 40) {
      mmci_u128 now[4] = {mmci_traffic_product(p[0], p[1], p[2], m).words};
      for (int f = 0; f < 3; f++) now[1 + f] = fuse[f](p, m).words;
      for (int f = 0; f < 4; f++) {
        if (now[f] > before[f])
          fail_msg("kernel %d, M = %lld, seed %llu", f, (long long)m,
                   (unsigned long long)(seed + 4));
        before[f] = now[f];
      }
    }
  }
}

/* A tile that is given moves what the loops move where it divides the matrix, and never less than
 * the best tile of as many words, but for the rounding of that to whole sides. */
static void given_tiles_move_what_the_loops_move(void **state) {
  (void)state;
  uint64_t random = seed + 5;
  for (int round = 0; round < 3000; round++) {
    int64_t x = 1 + random_below(&random, 9), y = 1 + random_below(&random, 9);
    int64_t p[4] = {x * (1 + random_below(&random, 5)), 1 + random_below(&random, 30),
                    y * (1 + random_below(&random, 5)), 1 + random_below(&random, 30)};
    expect(mmci_traffic_product_by(p[0], p[1], p[2], x, y),
           (uint64_t)product_loops(p[0], p[1], p[2], x, y), x, y);
    expect(mmci_traffic_left_by(p, x, y), (uint64_t)left_fuse_loops(p, x, y), x, y);
    const int64_t q[4] = {p[1], p[0], p[3], p[2]}; /* T = A2 A3 is P1 x P3 */
    expect(mmci_traffic_right_by(q, x, y), (uint64_t)right_fuse_loops(q, x, y), x, y);
    mmci_traffic best = mmci_traffic_product(p[0], p[1], p[2], x * y);
    expect(mmci_traffic_product_by(p[0], p[1], p[2], best.x, best.y), (uint64_t)best.words, best.x,
           best.y);
    best = mmci_traffic_right_as_printed(p, x * y);
    expect(mmci_traffic_right_as_printed_by(p, best.x, best.y), (uint64_t)best.words, best.x,
           best.y);
  }
  expect(mmci_traffic_product_by(10, 30, 5, 64, 64), 450, 10, 5); /* cut to the matrix */
  expect(mmci_traffic_product_by(0, 30, 5, 64, 64), 0, 0, 0);
  /* The sides of the poster's T4 as printed, (216, 296). */
  const int64_t t4[4] = {368, 1016, 616, 616};
  expect(mmci_traffic_left_by(t4, 216, 296), 2980981, 216, 296);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_posters_kernels),
      cmocka_unit_test(the_theorem),
      cmocka_unit_test(products_move_what_the_loops_move),
      cmocka_unit_test(fuses_move_what_the_loops_move),
      cmocka_unit_test(no_tile_is_much_better),
      cmocka_unit_test(a_large_chip_reads_everything_once),
      cmocka_unit_test(empty_matrices_move_nothing),
      cmocka_unit_test(one_word_on_chip),
      cmocka_unit_test(large_counts_are_exact_or_too_large),
      cmocka_unit_test(more_room_never_costs_more),
      cmocka_unit_test(given_tiles_move_what_the_loops_move),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
