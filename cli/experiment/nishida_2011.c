/* nishida_2011.c: what Nishida, Ito and Nakano (ICNC 2011) measured: the table of the ordering
 * problem on a GPU, one thread, one block or several blocks for each entry, and the loop on the
 * processor beside it. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../profile.h"
#include "../random.h"
#include "../timing.h"
#include "experiment.h"
#include "nishida_2011_page.h"
#include "records.h"

enum { DIM_MOST = 1000, SEED = 2011, PROFILE_POINTS = 200, SMALL = 4096 };

/* What is solved, and how. */
typedef struct way {
  const char *part, *device, *kernel; /* kernel "" means the solver's own choice */
  const char *solver;
  int threads, threads_per_block, blocks_per_entry;
  int64_t n;
} way;

static bool fill_dims(int64_t n, int64_t **out) {
  cli_random random = cli_random_start(SEED, (uint64_t)n);
  *out = malloc(((size_t)n + 1) * sizeof **out);
  for (int64_t i = 0; i <= n && *out != NULL; i++)
    (*out)[i] = 1 + (int64_t)(cli_random_bits(&random) % DIM_MOST);
  return *out != NULL;
}

/* ---- the paper's example --------------------------------------------------------------------- */

/* Writes the tables m and s of Figure 1, row after row. */
static int tell_example(cli_laboratory *x) {
  static const int64_t dims[] = {2, 9, 3, 1, 4, 11, 5};
  mmc_order_options options = MMC_ORDER_OPTIONS_INIT;
  options.solver = "table";
  options.keep_table = true;
  mmc_order *order;
  mmc_status status = mmc_order_create(x->call->context, 6, dims, &options, &order);
  if (status != MMC_OK) return cli_fail_status(x->call, status, "");
  double m[36], s[36];
  int count = 0;
  char text[128] = "";
  cli_buffer written = {0};
  for (int64_t i = 1; i <= 6; i++)
    for (int64_t j = i; j <= 6; j++) {
      mmc_count entry;
      int64_t split;
      if (mmc_order_entry(order, i, j, &entry, &split) != MMC_OK) continue;
      m[count] = mmc_count_to_double(entry);
      s[count++] = (double)split;
    }
  if (mmc_order_write(order, MMC_ORDER_TEXT, cli_buffer_write, &written) == MMC_OK)
    snprintf(text, sizeof text, "%s", written.bytes);
  cli_buffer_free(&written);
  mmc_order_destroy(order);
  cli_line_begin(x, "tables");
  cli_line_text(x, "order", text);
  cli_line_numbers(x, "m", m, count);
  cli_line_numbers(x, "s", s, count);
  cli_line_end(x);
  return CLI_DONE;
}

/* ---- the textbook's loop --------------------------------------------------------------------- */

/* MATRIX-CHAIN-ORDER of Cormen, Leiserson, Rivest and Stein on one thread, tables m and s by rows.
 * Tells the seconds, entries and iterations of every diagonal. Returns the least count of
 * multiplications; 0 when it was interrupted. */
static uint64_t textbook(cli_laboratory *x, int64_t n, const int64_t *p, uint64_t *m, int32_t *s,
                         double *diagonal_s, double *entries, double *iterations) {
  int64_t width = n + 1;
  for (int64_t i = 1; i <= n; i++) m[i * width + i] = 0;
  for (int64_t l = 2; l <= n; l++) {
    double start = cli_now_s();
    int64_t entries_here = 0, looked_at = 0;
    for (int64_t i = 1; i <= n - l + 1; i++) {
      int64_t j = i + l - 1;
      uint64_t least = UINT64_MAX;
      int64_t k = i;
      for (; k < j; k++) {
        uint64_t q = m[i * width + k] + m[(k + 1) * width + j] + (uint64_t)(p[i - 1] * p[k] * p[j]);
        if (q < least) {
          least = q;
          s[i * width + j] = (int32_t)k;
        }
      }
      m[i * width + j] = least;
      looked_at += k - i;
      entries_here++;
    }
    diagonal_s[l] = cli_now_s() - start;
    entries[l] = (double)entries_here;
    iterations[l] = (double)looked_at;
    if (cli_laboratory_show(x, (double)l / (double)n, "textbook loop") != CLI_DONE) return 0;
  }
  return m[width + n];
}

/* Writes points of a profile: the time of one kernel on some PROFILE_POINTS diagonals, each the
 * mean of its neighbours. */
static void tell_profile(cli_laboratory *x, const char *kernel, int64_t n, const double *seconds) {
  int64_t step = (n + PROFILE_POINTS - 1) / PROFILE_POINTS;
  double l[PROFILE_POINTS + 2], mean[PROFILE_POINTS + 2];
  int count = 0;
  if (seconds == NULL) return;
  for (int64_t first = 2; first <= n && count < PROFILE_POINTS + 2; first += step) {
    double sum = 0;
    int known = 0;
    for (int64_t d = first; d < first + step && d <= n; d++)
      if (isfinite(seconds[d])) sum += seconds[d], known++;
    if (known == 0) continue;
    l[count] = (double)first + (double)(known - 1) / 2;
    mean[count++] = sum / known;
  }
  cli_line_begin(x, "profile");
  cli_line_text(x, "kernel", kernel);
  cli_line_count(x, "n", n);
  cli_line_numbers(x, "l", l, count);
  cli_line_numbers(x, "seconds", mean, count);
  cli_line_end(x);
}

/* Says how many products the loop counted on diagonals from the first to the last. */
static void tell_counts(cli_laboratory *x, int64_t n, const double *entries,
                        const double *iterations) {
  int64_t step = (n + PROFILE_POINTS - 1) / PROFILE_POINTS;
  double l[PROFILE_POINTS + 2], rows[PROFILE_POINTS + 2], inner[PROFILE_POINTS + 2],
      all[PROFILE_POINTS + 2], sum = 0;
  int count = 0;
  for (int64_t d = 2; d <= n; d++) {
    sum += iterations[d];
    if ((d - 2) % step != 0 || count == PROFILE_POINTS + 2) continue;
    l[count] = (double)d;
    rows[count] = entries[d];
    inner[count] = iterations[d] / entries[d];
    all[count++] = iterations[d];
  }
  cli_line_begin(x, "counts");
  cli_line_count(x, "n", n);
  cli_line_number(x, "sum", sum);
  cli_line_numbers(x, "l", l, count);
  cli_line_numbers(x, "entries", rows, count);
  cli_line_numbers(x, "candidates", inner, count);
  cli_line_numbers(x, "products", all, count);
  cli_line_end(x);
}

/* Runs the loop for one n, and tells its seconds, which become *seconds. */
static int run_textbook(cli_laboratory *x, int64_t n, double *seconds) {
  size_t entries = ((size_t)n + 1) * ((size_t)n + 1), row = (size_t)n + 1;
  int64_t *dims = NULL;
  uint64_t *m = calloc(entries, sizeof *m);
  int32_t *s = calloc(entries, sizeof *s);
  double *times = calloc(3 * row, sizeof *times);
  int result = CLI_DONE;
  if (m == NULL || s == NULL || times == NULL || !fill_dims(n, &dims)) {
    result = cli_fail_memory(x->call, "the tables take", 12.0 * (double)entries);
  } else {
    double start = cli_now_s();
    uint64_t least = textbook(x, n, dims, m, s, times, times + row, times + 2 * row);
    *seconds = cli_now_s() - start;
    mmc_order *order = NULL;
    mmc_status status = mmc_order_create(x->call->context, n, dims, NULL, &order);
    if (status != MMC_OK) result = cli_fail_status(x->call, status, "");
    bool same = status == MMC_OK && mmc_order_multiplications(order).lo == least;
    mmc_order_destroy(order);
    if (cli_interrupted()) result = CLI_INTERRUPTED;
    if (result == CLI_DONE && !same)
      result = cli_fail(x->call, CLI_FAILED, "the textbook's loop found another count");
  }
  if (result == CLI_DONE && times != NULL) {
    cli_line_begin(x, "solved");
    cli_line_text(x, "way", "textbook");
    cli_line_text(x, "kernel", "textbook loop");
    cli_line_text(x, "solver", "textbook");
    cli_line_text(x, "on", "cpu");
    cli_line_count(x, "n", n);
    cli_line_truth(x, "measured", true);
    cli_line_numbers(x, "seconds_samples", seconds, 1);
    cli_line_end(x);
    cli_say(x, "%-10s %-8s %-14s n = %-6" PRId64 " %.4g s", "textbook", "cpu", "one thread", n,
            *seconds);
    tell_profile(x, "textbook", n, times);
    tell_counts(x, n, times + row, times + 2 * row);
  }
  free(dims);
  free(m);
  free(s);
  free(times);
  return result;
}

/* Doubles n as long as the next loop is predicted to take no more than the budget. Its memory is
 * read by columns, so that twice the factors take more than eight times as long. */
static int run_textbooks(cli_laboratory *x, const int64_t *sizes, int count) {
  double seconds = 0;
  int result = CLI_DONE;
  int64_t most = sizes[count - 1];
  for (int64_t n = most < 256 ? most : 256; n <= most && result == CLI_DONE; n *= 2) {
    if (10 * seconds > x->budget_s) break;
    result = run_textbook(x, n, &seconds);
  }
  return result;
}

/* ---- solvers of the library ------------------------------------------------------------------ */

/* The seconds of each diagonal, of one kernel or, for kernel "paper", of the fastest. */
static double *read_profile(const char *csv, int64_t n) {
  double *seconds = malloc(((size_t)n + 1) * sizeof *seconds);
  for (int64_t l = 0; l <= n && seconds != NULL; l++) seconds[l] = NAN;
  cli_profile_line line;
  for (const char *at = csv; seconds != NULL && cli_profile_next(&at, &line);)
    if (!line.is_range && line.first >= 2 && line.first <= n &&
        !(seconds[line.first] <= line.seconds))
      seconds[line.first] = line.seconds;
  return seconds;
}

/* Writes a line for every range of diagonals and its kernel, as Table II has them. */
static void tell_ranges(cli_laboratory *x, const char *csv, int64_t n) {
  cli_profile_line line;
  for (const char *at = csv; cli_profile_next(&at, &line);) {
    if (!line.is_range) continue;
    cli_line_begin(x, "range");
    cli_line_count(x, "n", n);
    cli_line_count(x, "first", line.first);
    cli_line_count(x, "last", line.last);
    cli_line_text(x, "kernel", line.kernel);
    cli_line_end(x);
  }
}

static bool has_profile(const way *w) {
  return strcmp(w->device, "cpu") != 0 &&
         (strcmp(w->kernel, "thread") == 0 || strcmp(w->kernel, "block") == 0 ||
          strcmp(w->kernel, "blocks") == 0 || strcmp(w->kernel, "paper") == 0);
}

static void tell_solved(cli_laboratory *x, const way *w, const char *kernel, const char *reason,
                        const double *samples, int count) {
  cli_line_begin(x, w->part);
  cli_line_text(x, "way", w->kernel[0] != '\0' ? w->kernel : w->solver);
  cli_line_text(x, "kernel", kernel);
  cli_line_text(x, "solver", w->solver);
  cli_line_text(x, "on", w->device);
  cli_line_count(x, "n", w->n);
  cli_line_count(x, "threads", w->threads);
  cli_line_count(x, "threads_per_block", w->threads_per_block);
  cli_line_count(x, "blocks_per_entry", w->blocks_per_entry);
  cli_line_truth(x, "measured", count > 0);
  cli_line_text(x, "reason", reason);
  cli_line_numbers(x, "seconds_samples", samples, count);
  cli_line_end(x);
  double copy[CLI_REPEATS_MOST];
  for (int i = 0; i < count; i++) copy[i] = samples[i];
  if (count > 0)
    cli_say(x, "%-10s %-8s %-14s n = %-6" PRId64 " %.4g s", w->solver, w->device, kernel, w->n,
            cli_spread_of(copy, count).median);
  else
    cli_say(x, "%-10s %-8s %-14s not measured: %s", w->solver, w->device, w->kernel, reason);
}

/* Solves by one way, as often as asked, but no more often than the budget allows after the first
 * time. *seconds becomes the least; NaN when it is not possible here. */
static int solve(cli_laboratory *x, const way *w, const int64_t *dims, mmc_count least,
                 double *seconds) {
  double samples[CLI_REPEATS_MOST], total = 0;
  char kernel[64] = "", reason[480] = "";
  cli_buffer csv = {0};
  int count = 0, result = CLI_DONE;
  *seconds = NAN;
  for (int r = 0; r <= x->repeats && result == CLI_DONE; r++) {
    mmc_order_options options = MMC_ORDER_OPTIONS_INIT;
    options.solver = w->solver;
    options.device = w->device;
    options.kernel = w->kernel[0] != '\0' ? w->kernel : NULL;
    options.threads = w->threads;
    options.threads_per_block = w->threads_per_block;
    options.blocks_per_entry = w->blocks_per_entry;
    if (has_profile(w) && csv.size == 0) {
      options.profile = cli_buffer_write;
      options.profile_user = &csv;
    }
    mmc_order *order;
    mmc_status status = mmc_order_create(x->call->context, w->n, dims, &options, &order);
    if (status == MMC_E_UNSUPPORTED || status == MMC_E_NOMEM || status == MMC_E_ARG) {
      mmc_context_message(x->call->context, reason, sizeof reason);
      break;
    }
    if (status != MMC_OK) return cli_fail_status(x->call, status, "");
    mmc_count got = mmc_order_multiplications(order);
    double taken = mmc_order_seconds(order);
    snprintf(kernel, sizeof kernel, "%s", mmc_order_kernel(order));
    mmc_order_destroy(order);
    if (got.lo != least.lo || got.hi != least.hi)
      result = cli_fail(x->call, CLI_FAILED, "%s %s: not the fewest multiplications", w->solver,
                        w->kernel);
    total += taken;
    /* The first opens what the others find open, and counts only where there is no time for more.
     */
    bool last = r == x->repeats || total * (r + 2) / (r + 1) > x->budget_s;
    if (r > 0 || last) samples[count++] = taken;
    if (count == CLI_REPEATS_MOST || last) break;
    if (cli_laboratory_show(x, (double)r / (x->repeats + 1), w->solver) != CLI_DONE)
      result = CLI_INTERRUPTED;
  }
  if (result == CLI_DONE) {
    tell_solved(x, w, kernel, reason, samples, count);
    for (int i = 0; i < count; i++)
      if (!(*seconds <= samples[i])) *seconds = samples[i];
    double *profile = csv.size > 0 && count > 0 ? read_profile(csv.bytes, w->n) : NULL;
    if (profile != NULL && strcmp(w->part, "solved") == 0) {
      tell_profile(x, w->kernel, w->n, profile);
      tell_ranges(x, csv.bytes, w->n);
    }
    free(profile);
  }
  cli_buffer_free(&csv);
  return result;
}

/* Draws the dims of a chain of n factors, which the caller frees whatever is returned, and finds
 * its least count by Hu and Shing's algorithm. */
static int make_problem(cli_laboratory *x, int64_t n, int64_t **dims, mmc_count *least) {
  if (!fill_dims(n, dims)) return cli_fail_memory(x->call, "the dims take", 8.0 * (double)n);
  mmc_order *order;
  mmc_status status = mmc_order_create(x->call->context, n, *dims, NULL, &order);
  if (status != MMC_OK) return cli_fail_status(x->call, status, "");
  *least = mmc_order_multiplications(order);
  mmc_order_destroy(order);
  return CLI_DONE;
}

/* Table I: every setting of the three kernels, for the largest n of which one takes no more than
 * the budget, beginning with a small one. */
static int run_table_1(cli_laboratory *x, int64_t most) {
  static const int threads[] = {32, 64, 128, 256}, blocks[] = {2, 4, 8, 16};
  static const char *const kernels[] = {"thread", "block", "blocks"};
  int result = CLI_DONE;
  for (int kernel = 0; kernel < 3 && result == CLI_DONE; kernel++) {
    double seconds = 0;
    for (int64_t n = x->quick ? most : SMALL < most ? SMALL : most; n <= most; n *= 4) {
      int64_t *dims;
      mmc_count least;
      if (100 * seconds > x->budget_s) break; /* cubes grow 64 times, and caches end */
      result = make_problem(x, n, &dims, &least);
      for (int t = 0; t < 4 && result == CLI_DONE; t++)
        for (int b = 0; b < (kernel == 2 ? 4 : 1) && result == CLI_DONE; b++) {
          way w = {.part = "table_1",
                   .device = x->device,
                   .kernel = kernels[kernel],
                   .solver = "table",
                   .threads_per_block = threads[t],
                   .blocks_per_entry = kernel == 2 ? blocks[b] : 0,
                   .n = n};
          result = solve(x, &w, dims, least, &seconds);
        }
      free(dims);
      if (result != CLI_DONE || !isfinite(seconds)) break;
    }
  }
  return result;
}

/* All ways for one n; those that are predicted to take more than the budget are left out, and say
 * so. last_s holds the seconds of the size before, of each way. */
static int run_size(cli_laboratory *x, int64_t n, int64_t before, double *last_s) {
  const way ways[] = {
      {"solved", "cpu", "", "table", 1, 0, 0, n},
      {"solved", "cpu", "", "table", 0, 0, 0, n},
      {"solved", "cpu", "", "hu-shing", 1, 0, 0, n},
      {"solved", x->is_gpu ? x->device : "cuda", "thread", "table", 0, 0, 0, n},
      {"solved", x->is_gpu ? x->device : "cuda", "block", "table", 0, 0, 0, n},
      {"solved", x->is_gpu ? x->device : "cuda", "blocks", "table", 0, 0, 0, n},
      {"solved", x->is_gpu ? x->device : "cuda", "paper", "table", 0, 0, 0, n},
      {"solved", x->is_gpu ? x->device : "cuda", "tiled", "table", 0, 0, 0, n},
  };
  int64_t *dims;
  mmc_count least;
  int result = make_problem(x, n, &dims, &least);
  double growth = before > 0 ? pow((double)n / (double)before, 3.1) : 0;
  for (size_t w = 0; w < sizeof ways / sizeof ways[0] && result == CLI_DONE; w++) {
    double predicted = growth * last_s[w];
    if (predicted > x->budget_s && strcmp(ways[w].solver, "hu-shing") != 0) {
      char reason[160];
      snprintf(reason, sizeof reason, "predicted to take %.0f s, more than --budget %.0f",
               predicted, x->budget_s);
      tell_solved(x, &ways[w], "", reason, NULL, 0);
      continue;
    }
    double seconds;
    result = solve(x, &ways[w], dims, least, &seconds);
    last_s[w] = isfinite(seconds) ? seconds : 0;
  }
  free(dims);
  return result;
}

static int run(cli_laboratory *x, const cli_experiment_options *o) {
  static const int64_t sizes[2][4] = {{1024, 4096, 16384, 0}, {256, 512, 0}};
  const int64_t *n = o->size_count > 0 ? o->sizes : sizes[x->quick];
  int count = o->size_count, result = CLI_DONE;
  double last_s[8] = {0};
  if (count == 0)
    while (n[count] > 0) count++;
  for (int i = 1; i < count; i++)
    if (n[i] <= n[i - 1]) return cli_fail(x->call, CLI_BAD, "--sizes: expected rising numbers");
  if (cli_experiment_wants(o->part, "example")) result = cli_tell_orders(x, "f64:5x1x5x1");
  if (result == CLI_DONE && cli_experiment_wants(o->part, "example")) result = tell_example(x);
  if (result == CLI_DONE && cli_experiment_wants(o->part, "loop"))
    result = run_textbooks(x, n, count);
  for (int i = 0; i < count && result == CLI_DONE && cli_experiment_wants(o->part, "solved"); i++)
    result = run_size(x, n[i], i > 0 ? n[i - 1] : 0, last_s);
  if (result == CLI_DONE && x->is_gpu && cli_experiment_wants(o->part, "settings"))
    result = run_table_1(x, n[count - 1]);
  return result;
}

const cli_experiment cli_experiment_nishida_2011 = {
    .name = "nishida-2011",
    .summary =
        "what Nishida, Ito and Nakano (ICNC 2011) measured: the ordering problem's table on\n"
        "               a GPU with one thread, one block or several blocks for each entry, in all\n"
        "               settings, diagonal by diagonal; the textbook's loop on one core; and the\n"
        "               solvers of mmchain; --only example, loop, solved or settings",
    .parts = {"example", "loop", "solved", "settings"},
    .budget_s = {60, 2},
    .repeats = {3, 2},
    .run = run,
    .source = &cli_nishida_2011_source,
};
