/* test_interval_dp.c: the table solver against a textbook loop in 128-bit numbers: every entry, the
 * cost of the order found, and the order itself, for every kernel this CPU runs. Prices against a
 * textbook loop in doubles. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../chains.h"
#include "../how_many.h"
#include "../random.h"
#include "chain/chain.h"
#include "order/order.h"

enum { MAX_N = 300 };
static const uint64_t seed = 19731102;
static const char *const sets[] = {"avx512", "avx2", "portable"};
enum { SETS = sizeof sets / sizeof sets[0] };

/* ---- the textbook -------------------------------------------------------------------------- */

typedef struct textbook {
  int32_t n;
  mmci_u128 cost[MAX_N + 1][MAX_N + 1];
  double price[MAX_N + 1][MAX_N + 1];
  int32_t split[MAX_N + 1][MAX_N + 1];
} textbook;

static textbook book;

static void fill_counts(int32_t n, const int64_t *dims) {
  book.n = n;
  for (int32_t i = 0; i < n; i++) book.cost[i][i + 1] = 0;
  for (int32_t length = 2; length <= n; length++)
    for (int32_t i = 0; i + length <= n; i++) {
      int32_t j = i + length, best = 0;
      mmci_u128 least = MMCI_U128_MAX;
      for (int32_t k = i + 1; k < j; k++) {
        mmci_u128 cost = mmci_u128_add(mmci_u128_add(book.cost[i][k], book.cost[k][j]),
                                       mmci_multiplications(dims[i], dims[k], dims[j]));
        if (best == 0 || cost < least ||
            (cost == least && mmci_tie_goes_before(dims, i, j, k, best))) {
          best = k;
          least = cost;
        }
      }
      book.cost[i][j] = least;
      book.split[i][j] = best;
    }
}

static void fill_prices(const mmci_order_problem *problem) {
  int32_t n = book.n = problem->n;
  for (int32_t i = 0; i < n; i++) book.price[i][i + 1] = 0;
  for (int32_t length = 2; length <= n; length++)
    for (int32_t i = 0; i + length <= n; i++) {
      int32_t j = i + length, best = 0;
      double least = 0;
      for (int32_t k = i + 1; k < j; k++) {
        double price =
            book.price[i][k] + book.price[k][j] + problem->price(problem->price_user, i, k, j);
        if (best == 0 || price < least ||
            (price == least && mmci_tie_goes_before(problem->dims, i, j, k, best))) {
          best = k;
          least = price;
        }
      }
      book.price[i][j] = least;
      book.split[i][j] = best;
    }
}

static int32_t book_split(void *user, int32_t i, int32_t j) {
  (void)user;
  return book.split[i][j];
}

static bool same_tree(const mmci_tree *tree) {
  mmci_tree expected;
  assert_int_equal(mmci_tree_create(book.n, &expected, NULL), MMC_OK);
  assert_int_equal(mmci_tree_from_splits(&expected, book_split, NULL, NULL), MMC_OK);
  bool same = memcmp(tree->products, expected.products,
                     (size_t)(book.n - 1) * sizeof *expected.products) == 0;
  mmci_tree_destroy(&expected);
  return same;
}

/* ---- the kernels against it ---------------------------------------------------------------- */

/* Names of kernels that have run. */
static char seen[512];

static void note(const char *kernel) {
  if (strstr(seen, kernel) == NULL) strcat(strcat(seen, kernel), ";");
}

static bool runs_here(const char *set) {
  const int64_t dims[] = {1, 1};
  mmci_order_problem problem = {.n = 1, .dims = dims, .kernel = set};
  mmci_order_answer answer;
  mmci_error error;
  mmc_status status = mmci_solver_interval_dp.solve(&problem, false, &answer, &error);
  if (status == MMC_OK) mmci_tree_destroy(&answer.tree);
  return status == MMC_OK;
}

static void check(const char *set, int threads, int32_t n, const int64_t *dims, const char *what) {
  mmci_order_problem problem = {.n = n, .dims = dims, .kernel = set, .threads = threads};
  mmci_order_answer answer;
  mmci_error error = {0};
  if (mmci_solver_interval_dp.solve(&problem, true, &answer, &error) != MMC_OK)
    fail_msg("%s, n = %d, %s: %s", what, n, set, error.text);
  note(answer.kernel);
  mmci_u128 of_tree = 0;
  const char *wrong = NULL;
  if (answer.multiplications != book.cost[0][n]) wrong = "cost";
  if (mmci_tree_multiplications(&answer.tree, dims, &of_tree, NULL) != MMC_OK ||
      of_tree != book.cost[0][n])
    wrong = "cost of the order";
  if (!same_tree(&answer.tree)) wrong = "order";
  for (int32_t i = 0; i < n; i++)
    for (int32_t j = i + 1; j <= n; j++)
      if (answer.table->entry(answer.table, i, j) != book.cost[i][j]) wrong = "table";
  if (wrong != NULL)
    fail_msg("%s differs: %s, n = %d, %s, %d threads, seed %llu", wrong, what, n, answer.kernel,
             threads, (unsigned long long)seed);
  mmci_tree_destroy(&answer.tree);
  answer.table->destroy(answer.table);
}

static void check_all(int32_t n, const int64_t *dims, const char *what) {
  fill_counts(n, dims);
  for (int s = 0; s < SETS; s++) {
    if (!runs_here(sets[s])) continue;
    check(sets[s], 1, n, dims, what);
    check(sets[s], 3, n, dims, what);
  }
}

/* Beyond the families of random.h: costs on either side of what the types of number hold. */
enum { EXTREMES = 6, FAMILIES = DIMS_FAMILIES + EXTREMES };

static void extreme_dims(uint64_t *random, int extreme, int32_t n, int64_t *dims) {
  static const double bits[EXTREMES] = {51, 53, 62, 64, 125, 129};
  double scale = cbrt(exp2(bits[extreme]) / n);
  for (int32_t i = 0; i <= n; i++)
    dims[i] = (int64_t)(scale * (0.25 + 0.75 * fabs(random_unit(random))));
}

static void family_dims(uint64_t *random, int family, int32_t n, int64_t *dims) {
  if (family < DIMS_FAMILIES)
    random_dims(random, family, n, dims);
  else
    extreme_dims(random, family - DIMS_FAMILIES, n, dims);
}

static void tables_are_the_textbooks(void **state) {
  (void)state;
  uint64_t random = seed;
  int64_t dims[MAX_N + 1];
  for (int32_t n = 1; n <= 257; n++) {
    int32_t edge = n % 64;
    bool all = n <= 12 || edge <= 1 || edge == 63;
    if (n > 200 && !all) continue;
    for (int family = 0; family < FAMILIES; family++) {
      const int share = how_many(24, 8);
      if (!all && family % share != n % share) continue;
      char what[32];
      snprintf(what, sizeof what, "family %d", family);
      family_dims(&random, family, n, dims);
      check_all(n, dims, what);
    }
  }
}

/* A few outliers among small dims: zeros that isolate huge ones, one huge dim, a light vertex
 * somewhere in a heavy chain. */
static void outliers(void **state) {
  (void)state;
  uint64_t random = seed + 1;
  int64_t dims[MAX_N + 1];
  for (int round = 0; round < how_many(10, 45); round++) {
    int32_t n = 2 + (int32_t)random_below(&random, MAX_N - 1);
    random_dims(&random, round % DIMS_FAMILIES, n, dims);
    int count = 1 + round % 3;
    for (int t = 0; t < count; t++) {
      int32_t at = (int32_t)random_below(&random, n + 1);
      dims[at] = round % 4 == 0 ? 0 : round % 4 == 1 ? 1 : INT64_C(1) << random_below(&random, 63);
      if (round % 5 == 0 && at > 0) dims[at - 1] = 0;
      if (round % 5 == 0 && at < n) dims[at + 1] = 0;
    }
    check_all(n, dims, "outliers");
  }
}

/* Long enough for strips of several columns and for bounds that are renewed on the way up. Both
 * tables of the textbook are by rows, so that its loop runs along them. */
static void a_long_chain(void **state) {
  (void)state;
  enum { MOST = 1300 };
  static const int families[] = {0, 6, 7, -1};
  const int32_t n = how_many(MOST / 2, MOST);
  uint64_t random = seed + 6, *rows = test_malloc(sizeof(uint64_t[MOST + 1][MOST + 1]));
  uint64_t *columns = test_malloc(sizeof(uint64_t[MOST + 1][MOST + 1]));
  int64_t *dims = test_malloc((MOST + 1) * sizeof *dims);
  for (size_t t = 0; t < sizeof families / sizeof families[0]; t++) {
    if (families[t] >= 0)
      random_dims(&random, families[t], n, dims);
    else /* light on the left, heavy on the right */
      for (int32_t i = 0; i <= n; i++)
        dims[i] = i < n / 2 ? 1 + random_below(&random, 40) : 100 + random_below(&random, 900);
    for (int32_t j = 1; j <= n; j++)
      for (int32_t i = j - 1; i >= 0; i--) {
        uint64_t *row = rows + i * (n + 1), *column = columns + j * (n + 1);
        uint64_t least = j == i + 1 ? 0 : UINT64_MAX, ends = (uint64_t)(dims[i] * dims[j]);
        for (int32_t k = i + 1; k < j; k++) {
          uint64_t cost = row[k] + column[k] + ends * (uint64_t)dims[k];
          if (cost < least) least = cost;
        }
        row[j] = column[i] = least;
      }
    for (int s = 0; s < SETS; s++) {
      if (!runs_here(sets[s])) continue;
      mmci_order_problem problem = {.n = n, .dims = dims, .kernel = sets[s], .threads = 1 + s % 2};
      mmci_order_answer answer;
      assert_int_equal(mmci_solver_interval_dp.solve(&problem, true, &answer, NULL), MMC_OK);
      int wrong = 0;
      for (int32_t i = 0; i < n; i++)
        for (int32_t j = i + 1; j <= n; j++)
          wrong += answer.table->entry(answer.table, i, j) != rows[i * (n + 1) + j];
      mmci_u128 of_tree;
      assert_int_equal(mmci_tree_multiplications(&answer.tree, dims, &of_tree, NULL), MMC_OK);
      if (wrong != 0 || of_tree != rows[n])
        fail_msg("%d entries differ: family %d, %s, seed %llu", wrong, families[t], answer.kernel,
                 (unsigned long long)seed);
      mmci_tree_destroy(&answer.tree);
      answer.table->destroy(answer.table);
    }
  }
  test_free(dims);
  test_free(columns);
  test_free(rows);
}

static void every_kernel_has_run(void **state) {
  (void)state;
  for (int s = 0; s < SETS; s++) {
    if (!runs_here(sets[s])) continue;
    char name[32];
    snprintf(name, sizeof name, "%s f64", sets[s]);
    if (strstr(seen, name) == NULL) fail_msg("%s has not run: %s", name, seen);
    snprintf(name, sizeof name, "%s i64", sets[s]);
    if (strstr(seen, name) == NULL) fail_msg("%s has not run: %s", name, seen);
  }
  assert_non_null(strstr(seen, "portable i128"));
  assert_non_null(strstr(seen, "portable saturating u128"));
}

static void known_chains_on_every_kernel(void **state) {
  (void)state;
  for (size_t t = 0; t < sizeof known_chains / sizeof known_chains[0]; t++) {
    mmc_chain *chain;
    assert_int_equal(mmci_chain_parse(known_chains[t].dims, &chain, NULL), MMC_OK);
    check_all(chain->n, chain->dims, known_chains[t].name);
    assert_true(book.cost[0][chain->n] == known_chains[t].multiplications);
    mmc_chain_destroy(chain);
  }
}

/* More threads than tiles, and than cores. */
static void many_threads(void **state) {
  (void)state;
  uint64_t random = seed + 2;
  int64_t dims[MAX_N + 1];
  random_dims(&random, 0, MAX_N, dims);
  fill_counts(MAX_N, dims);
  for (int threads = 0; threads <= 40; threads += 5) check(NULL, threads, MAX_N, dims, "threads");
  check("auto", 100000, MAX_N, dims, "threads");
}

/* A child process waits for no thread that its parent has. */
static void a_child_fills_tables_too(void **state) {
  (void)state;
#ifdef __SANITIZE_THREAD__
  skip(); /* its children cannot start threads */
#endif
  uint64_t random = seed + 3;
  int64_t dims[MAX_N + 1];
  random_dims(&random, 0, MAX_N, dims);
  fill_counts(MAX_N, dims);
  check(NULL, 4, MAX_N, dims, "before a fork");
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    const mmci_order_problem problem = {.n = MAX_N, .dims = dims, .threads = 4};
    mmci_order_answer answer;
    mmci_error error = {0};
    alarm(60);
    const mmc_status status = mmci_solver_interval_dp.solve(&problem, false, &answer, &error);
    _exit(status == MMC_OK && answer.multiplications == book.cost[0][MAX_N] ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

/* ---- prices -------------------------------------------------------------------------------- */

/* user is the kind: whole numbers with ties; fractions; mostly forbidden; all forbidden. */
static double hashed(void *user, int64_t i, int64_t k, int64_t j) {
  const int *kind = user;
  uint64_t state = (uint64_t)i * 1000003 + (uint64_t)k * 10007 + (uint64_t)j;
  uint64_t bits = random_bits(&state);
  switch (*kind) {
    case 0:
      return (double)(bits % 5);
    case 1:
      return (double)(bits >> 11) / 7;
    case 2:
      return bits % 3 != 0 ? INFINITY : (double)(bits % 1000);
    default:
      return INFINITY;
  }
}

static mmci_order_answer solve_price(const mmci_order_problem *problem) {
  mmci_order_answer answer;
  mmci_error error = {0};
  if (mmci_solver_interval_dp.solve(problem, false, &answer, &error) != MMC_OK)
    fail_msg("price, n = %d: %s", problem->n, error.text);
  return answer;
}

static void prices_are_the_textbooks(void **state) {
  (void)state;
  static const int32_t sizes[] = {1, 2, 3, 4, 5, 9, 17, 40, 63, 64, 65, 66, 100, 127, 128, 129};
  uint64_t random = seed + 3;
  int64_t dims[MAX_N + 1];
  for (size_t t = 0; t < sizeof sizes / sizeof sizes[0]; t++)
    for (int kind = 0; kind < 4; kind++) {
      random_dims(&random, 11, sizes[t], dims);
      mmci_order_problem problem = {
          .n = sizes[t], .dims = dims, .price = hashed, .price_user = &kind};
      fill_prices(&problem);
      double expected = book.price[0][problem.n];
      for (int way = 0; way < 4; way++) {
        problem.threads = way & 1 ? 3 : 1;
        problem.is_price_trusted = way & 2;
        mmci_order_answer answer = solve_price(&problem);
        if (!(answer.price == expected) || !same_tree(&answer.tree))
          fail_msg("price %.17g, expected %.17g: n = %d, kind %d, seed %llu", answer.price,
                   expected, problem.n, kind, (unsigned long long)seed);
        assert_string_equal(answer.kernel, "price");
        mmci_tree_destroy(&answer.tree);
      }
      if (problem.n <= 9 && kind != 1) { /* sums of whole numbers are exact in any order */
        mmci_order_answer brute;
        assert_int_equal(mmci_solver_brute.solve(&problem, false, &brute, NULL), MMC_OK);
        assert_true(brute.price == expected);
        mmci_tree_destroy(&brute.tree);
      }
    }
}

/* The price of multiplications gives the order of multiplications. */
static double volume(void *user, int64_t i, int64_t k, int64_t j) {
  const int64_t *dims = user;
  return (double)(dims[i] * dims[k] * dims[j]);
}

static void multiplications_as_a_price(void **state) {
  (void)state;
  uint64_t random = seed + 4;
  int64_t dims[MAX_N + 1];
  for (int family = 0; family < 12; family++) {
    int32_t n = 150;
    random_dims(&random, family, n, dims);
    fill_counts(n, dims);
    mmci_order_problem problem = {.n = n, .dims = dims, .price = volume, .price_user = dims};
    mmci_order_answer answer = solve_price(&problem);
    assert_true(answer.price == (double)book.cost[0][n]);
    assert_true(same_tree(&answer.tree));
    mmci_tree_destroy(&answer.tree);
  }
}

typedef struct bad_price {
  int64_t i, k, j;
  double price;
} bad_price;

static double one_bad(void *user, int64_t i, int64_t k, int64_t j) {
  const bad_price *bad = user;
  return i == bad->i && k == bad->k && j == bad->j ? bad->price : 1;
}

static void bad_prices_are_named(void **state) {
  (void)state;
  static const bad_price cases[] = {{0, 1, 2, NAN},       {3, 4, 9, -1},
                                    {10, 64, 150, -0.5},  {0, 120, 200, -1e9},
                                    {130, 191, 192, NAN}, {63, 64, 65, -INFINITY}};
  int64_t dims[201];
  for (int t = 0; t <= 200; t++) dims[t] = 1 + t % 3;
  for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++)
    for (int threads = 1; threads <= 3; threads += 2) {
      bad_price bad = cases[t];
      mmci_order_problem problem = {
          .n = 200, .dims = dims, .price = one_bad, .price_user = &bad, .threads = threads};
      mmci_order_answer answer;
      mmci_error error = {0};
      assert_int_equal(mmci_solver_interval_dp.solve(&problem, false, &answer, &error), MMC_E_ARG);
      char named[64];
      snprintf(named, sizeof named, "i = %d, k = %d, j = %d", (int)bad.i, (int)bad.k, (int)bad.j);
      if (strstr(error.text, named) == NULL) fail_msg("%s: not in: %s", named, error.text);
    }
}

/* ---- progress ------------------------------------------------------------------------------ */

typedef struct listener {
  pthread_t caller;
  int calls, stop_at; /* 0: never */
  double last;
  bool wrong;
} listener;

static int listen(void *user, double done) {
  listener *l = user;
  if (!pthread_equal(l->caller, pthread_self())) l->wrong = true;
  if (!(done >= l->last && done <= 1)) l->wrong = true;
  l->last = done;
  return ++l->calls == l->stop_at;
}

static double slow(void *user, int64_t i, int64_t k, int64_t j) {
  (void)user, (void)i, (void)k, (void)j;
  usleep(500);
  return 1;
}

static void a_callback_stops_the_work(void **state) {
  (void)state;
  uint64_t random = seed + 5;
  int64_t dims[MAX_N + 1];
  random_dims(&random, 0, MAX_N, dims);
  for (int threads = 1; threads <= 3; threads += 2)
    for (int32_t n = 2; n <= MAX_N; n += 149)
      for (int stop_at = 0; stop_at <= 1; stop_at++) {
        listener l = {.caller = pthread_self(), .stop_at = stop_at};
        mmci_order_problem problem = {
            .n = n, .dims = dims, .threads = threads, .progress = listen, .progress_user = &l};
        mmci_order_answer answer;
        mmc_status status = mmci_solver_interval_dp.solve(&problem, false, &answer, NULL);
        assert_int_equal(status, stop_at != 0 ? MMC_E_INTERRUPTED : MMC_OK);
        assert_true(l.calls >= 1 && !l.wrong);
        if (stop_at != 0) assert_int_equal(l.calls, 1);
        if (status == MMC_OK) mmci_tree_destroy(&answer.tree);
      }

  /* In the middle: whole, this would take half an hour. */
  listener l = {.caller = pthread_self(), .stop_at = 3};
  mmci_order_problem problem = {.n = MAX_N,
                                .dims = dims,
                                .threads = 3,
                                .price = slow,
                                .progress = listen,
                                .progress_user = &l};
  mmci_order_answer answer;
  assert_int_equal(mmci_solver_interval_dp.solve(&problem, false, &answer, NULL),
                   MMC_E_INTERRUPTED);
  assert_true(l.calls == 3 && !l.wrong);
}

/* ---- what cannot be done ------------------------------------------------------------------- */

static void kernels_that_are_not_there(void **state) {
  (void)state;
  const int64_t dims[] = {2, 3, 4};
  mmci_order_problem problem = {.n = 2, .dims = dims, .kernel = "mmx"};
  mmci_order_answer answer;
  mmci_error error = {0};
  assert_int_equal(mmci_solver_interval_dp.solve(&problem, false, &answer, &error), MMC_E_ARG);
  assert_non_null(strstr(error.text, "mmx"));
  assert_non_null(strstr(error.text, "portable"));
  for (int s = 0; s < SETS; s++) {
    problem.kernel = sets[s];
    bool here = runs_here(sets[s]);
    mmc_status status = mmci_solver_interval_dp.solve(&problem, false, &answer, &error);
    assert_int_equal(status, here ? MMC_OK : MMC_E_ARG);
    if (!here) continue;
    assert_true(strncmp(answer.kernel, sets[s], strlen(sets[s])) == 0);
    mmci_tree_destroy(&answer.tree);
  }
}

/* 2 TB of table: no machine that runs tests has it, or it is not promised. */
static void a_table_that_does_not_fit(void **state) {
  (void)state;
  enum { N = 700000 };
  int64_t *dims = test_malloc((N + 1) * sizeof *dims);
  for (int t = 0; t <= N; t++) dims[t] = 1 + t % 7;
  mmci_order_problem problem = {.n = N, .dims = dims};
  mmci_order_answer answer;
  mmci_error error = {0};
  assert_int_equal(mmci_solver_interval_dp.solve(&problem, false, &answer, &error), MMC_E_NOMEM);
  assert_non_null(strstr(error.text, "memory"));
  const char *reason = NULL;
  problem.n = INT32_C(1) << 29;
  assert_false(mmci_solver_interval_dp.applicable(&problem, &reason));
  assert_non_null(reason);
  test_free(dims);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_are_the_textbooks),
      cmocka_unit_test(outliers),
      cmocka_unit_test(a_long_chain),
      cmocka_unit_test(every_kernel_has_run),
      cmocka_unit_test(known_chains_on_every_kernel),
      cmocka_unit_test(many_threads),
      cmocka_unit_test(a_child_fills_tables_too),
      cmocka_unit_test(prices_are_the_textbooks),
      cmocka_unit_test(multiplications_as_a_price),
      cmocka_unit_test(bad_prices_are_named),
      cmocka_unit_test(a_callback_stops_the_work),
      cmocka_unit_test(kernels_that_are_not_there),
      cmocka_unit_test(a_table_that_does_not_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
