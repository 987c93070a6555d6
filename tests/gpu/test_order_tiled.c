/* test_order_tiled.c: the CUDA module's kernel tiled on a device.
 *
 *     test_order_tiled MODULE [small]
 *
 * MODULE is mmchain-cuda.so. Whole tables, costs and orders are compared with the textbook's, up
 * to 1024 factors, for every number type; longer chains with a second solve, with the order they
 * print and, where the answer is known, with it. small is for tools that check every access. Exit
 * status 77: there is no device. */
#include "gpu_test.h"
#include "order_textbook.h"

static mmc_status solve(void *user, mmci_device_order *order, mmci_error *error) {
  const target *on = user;
  return on->ops->order(on->device, order, error);
}

/* ---- whole tables ---------------------------------------------------------------------------- */

/* kernel: the number type that must have been used; NULL for any. */
static void compare(const target *on, int32_t n, const int64_t *dims, const char *kernel,
                    const char *what) {
  textbook book;
  if (!textbook_solve(n, dims, &book)) {
    expect(false, "out of memory");
    return;
  }
  mmci_device_order order = {.kernel = "tiled"};
  checks++;
  if (!textbook_compare(&book, dims, solve, (void *)on, &order, what))
    failures++;
  else if (kernel != NULL)
    expect(strcmp(order.kernel_used, kernel) == 0, kernel);
  textbook_destroy(&book);
}

static void test_answers(const target *on, bool small) {
  static const int32_t LENGTHS[] = {1,   2,   3,   5,   62,  63,  64,  65,  66,  127, 128,
                                    129, 191, 192, 200, 255, 257, 320, 513, 700, 1024};
  enum { LONGEST = 1024 };
  static int64_t dims[LONGEST + 1];
  uint64_t seed = 20110411;
  for (size_t t = 0; t < sizeof LENGTHS / sizeof *LENGTHS; t++)
    for (int family = 0; family < TEXTBOOK_FAMILIES; family++) {
      int32_t n = LENGTHS[t];
      /* The longest take the host a second each: a third of the families. */
      if (small ? n > 200 || (family + (int)t) % 6 != 0 : n > 320 && (family + (int)t) % 3 != 0)
        continue;
      char what[96];
      snprintf(what, sizeof what, "n = %d, %s, seed %" PRIu64, n, textbook_families[family], seed);
      textbook_fill(dims, n, family, seed++);
      compare(on, n, dims, NULL, what);
    }
  /* Every number type, on dims without a common factor; and ties that bounds cannot see. */
  static const struct {
    int64_t least, spread;
    const char *kernel;
  } TYPES[] = {{1, 50, "tiled u32"},
               {1, 1000, "tiled f64"},
               {10000, 9000, "tiled f64"},
               {150000, 65537, "tiled u64"},
               {999, 2, NULL}};
  int32_t n = small ? 150 : 500;
  for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
    for (int32_t i = 0; i <= n; i++)
      dims[i] = TYPES[t].least + (int64_t)(textbook_random(&seed) % (uint64_t)TYPES[t].spread);
    dims[0] = TYPES[t].least;
    dims[1] = TYPES[t].least + 1;
    compare(on, n, dims, TYPES[t].kernel, TYPES[t].kernel != NULL ? TYPES[t].kernel : "near ties");
  }
}

/* ---- long chains ------------------------------------------------------------------------------
 */

/* The multiplications of the tree that the splits describe; false when they describe none. */
static bool add_up(int32_t n, const int64_t *dims, const int32_t *splits, int32_t *stack,
                   uint64_t *multiplications) {
  int32_t top = 0, done = 0;
  *multiplications = 0;
  stack[top++] = 0;
  stack[top++] = n;
  while (top > 0) {
    int32_t j = stack[--top], i = stack[--top];
    if (j - i < 2) continue;
    int32_t k = splits[done++];
    if (k <= i || k >= j) return false;
    *multiplications += (uint64_t)dims[i] * (uint64_t)dims[k] * (uint64_t)dims[j];
    stack[top++] = i;
    stack[top++] = k;
    stack[top++] = k;
    stack[top++] = j;
  }
  return done == n - 1;
}

static void test_long(const target *on, int32_t n, int family, uint64_t seed) {
  int64_t *dims = malloc(((size_t)n + 1) * sizeof *dims);
  int32_t *splits = malloc((size_t)n * sizeof *splits), *again = malloc((size_t)n * sizeof *again);
  int32_t *stack = malloc(((size_t)n + 1) * 2 * sizeof *stack);
  char what[96];
  snprintf(what, sizeof what, "n = %d, %s, seed %" PRIu64, n, textbook_families[family], seed);
  if (dims == NULL || splits == NULL || again == NULL || stack == NULL) {
    expect(false, "out of memory");
  } else {
    textbook_fill(dims, n, family, seed);
    mmci_error error = {0};
    mmci_device_order order = {.n = n, .dims = dims, .kernel = "tiled", .splits = splits};
    bool right = solve((void *)on, &order, &error) == MMC_OK;
    uint64_t sum = 0;
    right = right && add_up(n, dims, splits, stack, &sum) && order.multiplications.hi == 0 &&
            order.multiplications.lo == sum;
    expect(right, what);
    if (!right) printf("  %s\n", error.text);
    /* Equal dims: every order costs the same, and left to right is printed. */
    if (right && family == 2) {
      bool fan = sum == (uint64_t)(n - 1) * 343;
      for (int32_t t = 0; t < n - 1; t++) fan = fan && splits[t] == n - 1 - t;
      expect(fan, "equal dims are multiplied left to right");
    }
    order.splits = again;
    right = right && solve((void *)on, &order, &error) == MMC_OK;
    expect(right && memcmp(splits, again, (size_t)(n - 1) * sizeof *splits) == 0, what);
    if (right) printf("%s: %.3f ms, %s\n", what, 1e3 * order.seconds, order.kernel_used);
  }
  free(dims);
  free(splits);
  free(again);
  free(stack);
}

/* Entries of a long chain's table, where diagonals of tiles overlap on the device's two streams,
 * are the textbook's of their sub-chains, and every solve's table is the same. */
static void test_overlaps(const target *on) {
  enum { N = 4095, SOLVES = 6, SUB_CHAINS = 40, LEAST_LENGTH = 130, LENGTHS = 250 };
  static int64_t dims[N + 1];
  static int32_t splits[N];
  const size_t entries = (size_t)N * (N + 1) / 2, bytes = entries * sizeof(mmc_count);
  mmc_count *first = malloc(bytes), *table = malloc(bytes);
  uint64_t seed = 20260;
  textbook_fill(dims, N, 0, seed);
  expect(first != NULL && table != NULL, "memory for two tables");
  for (int t = 0; first != NULL && table != NULL && t < SOLVES; t++) {
    mmci_error error = {0};
    mmci_device_order order = {.n = N, .dims = dims, .kernel = "tiled", .splits = splits};
    order.table = t == 0 ? first : table;
    expect(solve((void *)on, &order, &error) == MMC_OK, "a long chain is solved");
    if (t > 0) expect(memcmp(first, table, bytes) == 0, "every solve fills the same table");
  }
  for (int t = 0; first != NULL && table != NULL && t < SUB_CHAINS; t++) {
    const int64_t length = LEAST_LENGTH + (int64_t)(textbook_random(&seed) % LENGTHS);
    const int64_t i = (int64_t)(textbook_random(&seed) % (uint64_t)(N - length)), j = i + length;
    textbook book;
    if (!textbook_solve((int32_t)length, dims + i, &book)) {
      expect(false, "out of memory");
      break;
    }
    const mmc_count entry = first[textbook_entry(N, (int32_t)i, (int32_t)j)];
    expect(entry.hi == 0 && entry.lo == book.m[length - 1],
           "an entry is the textbook's of its sub-chain");
    textbook_destroy(&book);
  }
  free(first);
  free(table);
}

/* ---- refusals ---------------------------------------------------------------------------------
 */

static int stop(void *user, double done) {
  (void)done;
  ++*(int *)user;
  return 1;
}

static void test_refusals(const target *on) {
  enum { N = 300 };
  static int64_t dims[N + 1];
  static int32_t splits[N];
  mmci_error error = {0};
  textbook_fill(dims, N, 0, 11);
  const mmci_device_order plain = {.n = N, .dims = dims, .kernel = "tiled", .splits = splits};
  mmci_device_order order = plain;
  int calls = 0;
  order.progress = stop;
  order.progress_user = &calls;
  expect(solve((void *)on, &order, &error) == MMC_E_INTERRUPTED && calls == 1,
         "the progress callback stops the work");
  order = plain;
  dims[1] = dims[2] = dims[3] = ((int64_t)1 << 30) + 1;
  for (int32_t i = 0; i <= N; i++) dims[i] += dims[1];
  expect(solve((void *)on, &order, &error) == MMC_E_UNSUPPORTED &&
             strstr(error.text, "hu-shing") != NULL,
         "costs that may pass 2^63 are E_UNSUPPORTED with what to use");
  /* Much more than any device has. */
  const int32_t huge = 4000000;
  int64_t *many = calloc((size_t)huge + 1, sizeof *many);
  if (many != NULL) {
    order.n = huge;
    order.dims = many;
    expect(solve((void *)on, &order, &error) == MMC_E_NOMEM && strstr(error.text, "GB") != NULL,
           "too long a chain is E_NOMEM with the bytes needed");
    free(many);
  }
}

static void test_all(const target *on) {
  static const int LONG_FAMILIES[] = {0, 1, 2, 6, 9};
  test_answers(on, on->small);
  for (size_t t = 0; !on->small && t < sizeof LONG_FAMILIES / sizeof *LONG_FAMILIES; t++) {
    test_long(on, 4096, LONG_FAMILIES[t], 100 + t);
    test_long(on, 12345, LONG_FAMILIES[t], 200 + t);
  }
  if (!on->small) test_overlaps(on);
  test_refusals(on);
}

int main(int argc, char **argv) {
  return gpu_test_main(argc, argv, test_all);
}
