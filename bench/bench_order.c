/* bench_order.c: what solving the ordering problem costs, one JSON line a measurement.
 *
 *     bench_order [n...]        1024 4096 8192 16384 when none is given
 *
 * For each n, random dims from 1 to 1000: the textbook's loop (n <= 4096: it takes minutes beyond),
 * then the solver "table" on one thread and on all, and its other kernels on one. At the end
 * "hu-shing" for 10^6 factors. cells_per_second counts the (n^3 - n)/6 candidates that the problem
 * has, looked at or not. Times are of this machine as it is; quote ratios. */
#include <mmchain.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "timing.h"

enum { MAX_RUNS = 5, TEXTBOOK_MAX = 4096, HU_SHING_N = 1000000 };

static void fail(const char *what, const char *why) {
  fprintf(stderr, "bench_order: %s: %s\n", what, why);
  exit(1);
}

static void *need(void *memory) {
  if (memory == NULL) fail("memory", "not enough");
  return memory;
}

static int64_t *random_dims(int64_t n) {
  int64_t *dims = need(malloc(((size_t)n + 1) * sizeof *dims));
  uint64_t state = 12345;
  for (int64_t t = 0; t <= n; t++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    dims[t] = 1 + (int64_t)((state >> 33) % 1000);
  }
  return dims;
}

/* ---- one line ------------------------------------------------------------------------------ */

typedef struct line {
  int64_t n;
  const char *solver, *kernel;
  int threads, runs;
  double seconds[MAX_RUNS];
  double textbook_s; /* 0: not measured */
} line;

/* The least seconds. Sorts them. */
static double print_line(line *x) {
  qsort(x->seconds, (size_t)x->runs, sizeof x->seconds[0], ascending);
  double median = x->seconds[x->runs / 2], n = (double)x->n;
  printf("{\"bench\":\"order\",\"n\":%lld,\"solver\":\"%s\",\"kernel\":\"%s\",\"threads\":%d,",
         (long long)x->n, x->solver, x->kernel, x->threads);
  printf("\"seconds_median\":%.6g,\"seconds_min\":%.6g,\"seconds_max\":%.6g,\"runs\":%d,", median,
         x->seconds[0], x->seconds[x->runs - 1], x->runs);
  if (strcmp(x->solver, "hu-shing") == 0)
    printf("\"cells_per_second\":null,");
  else
    printf("\"cells_per_second\":%.4g,", (n * n * n - n) / 6 / median);
  if (x->textbook_s > 0)
    printf("\"ratio_to_textbook\":%.4g,", x->textbook_s / median);
  else
    printf("\"ratio_to_textbook\":null,");
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("\"peak_bytes\":%lld}\n", (long long)usage.ru_maxrss * 1024);
  fflush(stdout);
  return x->seconds[0];
}

/* ---- the textbook -------------------------------------------------------------------------- */

/* MATRIX-CHAIN-ORDER of Cormen, Leiserson, Rivest and Stein: tables m and s by rows. */
static uint64_t textbook(int64_t n, const int64_t *p, uint64_t *m, int32_t *s) {
  int64_t width = n + 1;
  for (int64_t i = 1; i <= n; i++) m[i * width + i] = 0;
  for (int64_t l = 2; l <= n; l++)
    for (int64_t i = 1; i <= n - l + 1; i++) {
      int64_t j = i + l - 1;
      m[i * width + j] = UINT64_MAX;
      for (int64_t k = i; k < j; k++) {
        uint64_t q = m[i * width + k] + m[(k + 1) * width + j] + (uint64_t)(p[i - 1] * p[k] * p[j]);
        if (q < m[i * width + j]) {
          m[i * width + j] = q;
          s[i * width + j] = (int32_t)k;
        }
      }
    }
  return m[width + n];
}

static double bench_textbook(int64_t n, const int64_t *dims, uint64_t *cost) {
  size_t entries = ((size_t)n + 1) * ((size_t)n + 1);
  uint64_t *m = need(calloc(entries, sizeof *m));
  int32_t *s = need(calloc(entries, sizeof *s));
  line x = {.n = n, .solver = "textbook", .kernel = "", .threads = 1, .runs = 1};
  double start = now_s();
  *cost = textbook(n, dims, m, s);
  x.seconds[0] = now_s() - start;
  free(m);
  free(s);
  return print_line(&x);
}

/* ---- the library --------------------------------------------------------------------------- */

/* Returns the cost. kernel NULL: the best. Prints nothing when this CPU cannot run the kernel. */
static mmc_count bench_solver(mmc_context *context, int64_t n, const int64_t *dims,
                              const char *solver, const char *kernel, int threads,
                              double textbook_s) {
  line x = {.n = n, .solver = solver, .threads = threads, .textbook_s = textbook_s};
  char kernel_used[64] = "";
  mmc_count cost = {0, 0};
  for (int runs = n > 8192 && n < HU_SHING_N ? 3 : MAX_RUNS; x.runs < runs; x.runs++) {
    mmc_order_options options = MMC_ORDER_OPTIONS_INIT;
    options.solver = solver;
    options.kernel = kernel;
    options.threads = threads;
    mmc_order *order;
    double start = now_s();
    mmc_status status = mmc_order_create(context, n, dims, &options, &order);
    x.seconds[x.runs] = now_s() - start;
    if (status == MMC_E_ARG && kernel != NULL) return cost;
    char message[512];
    if (status != MMC_OK) fail(solver, mmc_context_message(context, message, sizeof message));
    cost = mmc_order_multiplications(order);
    snprintf(kernel_used, sizeof kernel_used, "%s", mmc_order_kernel(order));
    mmc_order_destroy(order);
  }
  x.kernel = kernel_used;
  print_line(&x);
  return cost;
}

static void bench_table(mmc_context *context, int64_t n) {
  int64_t *dims = random_dims(n);
  uint64_t expected = 0;
  double textbook_s = n <= TEXTBOOK_MAX ? bench_textbook(n, dims, &expected) : 0;
  int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
  mmc_count cost = bench_solver(context, n, dims, "table", NULL, 1, textbook_s);
  if (textbook_s > 0 && (cost.lo != expected || cost.hi != 0))
    fail("table", "costs other than the textbook's");
  if (cores > 2) bench_solver(context, n, dims, "table", NULL, 2, textbook_s);
  if (cores > 1) bench_solver(context, n, dims, "table", NULL, cores, textbook_s);
  if (n <= TEXTBOOK_MAX) {
    bench_solver(context, n, dims, "table", "avx2", 1, textbook_s);
    bench_solver(context, n, dims, "table", "portable", 1, textbook_s);
  }
  free(dims);
}

int main(int argc, char **argv) {
  static const int64_t usual[] = {1024, 4096, 8192, 16384};
  mmc_context *context;
  if (mmc_context_create(NULL, &context) != MMC_OK) fail("context", "not created");
  if (argc < 2)
    for (size_t t = 0; t < sizeof usual / sizeof usual[0]; t++) bench_table(context, usual[t]);
  for (int t = 1; t < argc; t++) {
    char *end;
    long long n = strtoll(argv[t], &end, 10);
    if (*end != '\0' || n < 2 || n > 1000000) fail(argv[t], "expected n, from 2 to 1000000");
    bench_table(context, n);
  }
  int64_t *dims = random_dims(HU_SHING_N);
  bench_solver(context, HU_SHING_N, dims, "hu-shing", NULL, 1, 0);
  free(dims);
  mmc_context_destroy(context);
  return 0;
}
