/* nishida_2011_page.c: the figures and tables of Nishida, Ito and Nakano (ICNC 2011), beside what
 * was measured here. */
#include "nishida_2011_page.h"

#include <math.h>
#include <string.h>

#include "../chart.h"
#include "../page.h"
#include "../xml.h"

enum { POINTS_MOST = 256, LINES_MOST = 8, TALL = 330 };

static const double paper_n = 16384, paper_gpu_s = 701.6, paper_cpu_s = 29282;

/* Says why there is nothing of a GPU; the details in brackets stand in Table III. */
static const char *without_gpu(const cli_records *all) {
  static char reason[200];
  const cli_record *r;
  for (size_t at = 0; (r = cli_records_next(all, "solved", &at)) != NULL;)
    if (strncmp(cli_record_text(r, "on"), "cuda", 4) == 0) {
      const char *text = cli_record_is(r, "measured") ? "" : cli_record_text(r, "reason");
      size_t length = strcspn(text, "(");
      while (length > 0 && text[length - 1] == ' ') length--;
      snprintf(reason, sizeof reason, "%.*s", (int)length, text);
      return reason;
    }
  return "the experiment was not run on a GPU: --on cuda";
}

/* The record of the largest n that a way solved; on NULL means any device. */
static const cli_record *largest(const cli_records *all, const char *way, const char *on) {
  const cli_record *r, *best = NULL;
  for (size_t at = 0; (r = cli_records_next(all, "solved", &at)) != NULL;) {
    if (!cli_record_is(r, "measured") || !cli_record_has(r, "way", way)) continue;
    if (on != NULL && strncmp(cli_record_text(r, "on"), on, strlen(on)) != 0) continue;
    if (best == NULL || cli_record_number(r, "n") >= cli_record_number(best, "n")) best = r;
  }
  return best;
}

static const cli_record *solved(const cli_records *all, const char *way, const char *on, double n,
                                double threads) {
  const cli_record *r;
  for (size_t at = 0; (r = cli_records_next(all, "solved", &at)) != NULL;)
    if (cli_record_is(r, "measured") && cli_record_has(r, "way", way) &&
        strncmp(cli_record_text(r, "on"), on, strlen(on)) == 0 && cli_record_number(r, "n") == n &&
        (threads < 0 || cli_record_number(r, "threads") == threads))
      return r;
  return NULL;
}

static double seconds_of(const cli_record *r) {
  return cli_record_spread(r, "seconds_samples").median;
}

/* ---- Figure 1 -------------------------------------------------------------------------------- */

static const double figure_1_m[] = {0, 54, 45, 53,  111, 154, 0,  27, 63,  170, 171,
                                    0, 12, 77, 114, 0,   44,  99, 0,  220, 0};
static const double figure_1_s[] = {0, 2, 2, 4, 4, 4, 0, 3, 4, 4, 4, 0, 4, 4, 4, 0, 5, 6, 0, 6, 0};
enum { ENTRIES = sizeof figure_1_m / sizeof figure_1_m[0] };

static double element(const cli_record *r, const char *name, int i) {
  char field[32];
  snprintf(field, sizeof field, "%s.%d", name, i);
  return cli_record_number(r, field);
}

static void answer_example(const cli_records *all, cli_answer *a) {
  cli_answer_orders(all, a, 50, 10);
}

static void answer_1(const cli_records *all, cli_answer *a) {
  size_t at = 0;
  const cli_record *r = cli_records_next(all, "tables", &at);
  int same = 0;
  if (r == NULL) return;
  for (int i = 0; i < ENTRIES; i++)
    same += (element(r, "m", i) == figure_1_m[i]) + (element(r, "s", i) == figure_1_s[i]);
  cli_answer_set(a, same == 2 * ENTRIES ? CLI_HOLDS : CLI_FAILS,
                 "%d of %d entries of m and s are the same; the order is %s", same, 2 * ENTRIES,
                 cli_record_text(r, "order"));
}

/* ---- lines from records ---------------------------------------------------------------------- */

/* Points of one line, as arrays of a record have them. */
typedef struct points {
  double x[POINTS_MOST], y[POINTS_MOST];
  int count;
} points;

static void read_points(const cli_record *r, const char *y, points *out) {
  out->count = 0;
  for (int i = 0; i < POINTS_MOST; i++) {
    double at = element(r, "l", i), value = element(r, y, i);
    if (!isfinite(at) || !isfinite(value)) break;
    out->x[out->count] = at;
    out->y[out->count++] = value;
  }
}

/* The counts of the largest n. */
static const cli_record *counts_of(const cli_records *all) {
  const cli_record *r, *best = NULL;
  for (size_t at = 0; (r = cli_records_next(all, "counts", &at)) != NULL;) best = r;
  return best;
}

static bool draw_counts(cli_stream *out, const cli_records *all, const char *field,
                        const char *title, const char *y_name, int width, bool alone) {
  const cli_record *r = counts_of(all);
  points p;
  if (r == NULL) return false;
  read_points(r, field, &p);
  cli_series line = {
      .name = "counted in the textbook's loop", .x = p.x, .y = p.y, .count = p.count};
  cli_lines chart = {.title = title,
                     .untitled = !alone,
                     .x_name = "l, matrices of a sub-chain",
                     .y_name = y_name,
                     .x_unit = "",
                     .y_unit = "",
                     .from_zero = true,
                     .series = &line,
                     .count = 1,
                     .width = width,
                     .height = TALL - 60};
  cli_chart_lines(out, &chart, alone);
  return true;
}

static bool draw_3(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_counts(out, all, "entries", "Figure 3: entries of each diagonal", "entries", width,
                     alone);
}
static bool draw_4(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_counts(out, all, "candidates", "Figure 4: candidates of each entry", "candidates",
                     width, alone);
}
static bool draw_5(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_counts(out, all, "products", "Figure 5: candidates of each diagonal", "candidates",
                     width, alone);
}

/* Says whether the counted numbers are those that the algorithm has on each diagonal. */
static void answer_counts(const cli_records *all, cli_answer *a, const char *field) {
  const cli_record *r = counts_of(all);
  points p;
  if (r == NULL) return;
  double n = cli_record_number(r, "n"), sum = cli_record_number(r, "sum");
  bool same = sum == (n * n * n - n) / 6;
  read_points(r, field, &p);
  for (int i = 0; i < p.count; i++) {
    double rows = n - p.x[i] + 1, inner = p.x[i] - 1;
    double expected = strcmp(field, "entries") == 0      ? rows
                      : strcmp(field, "candidates") == 0 ? inner
                                                         : rows * inner;
    same = same && p.y[i] == expected;
  }
  double mid = floor(n / 2) + 1, peak = (n - mid + 1) * (mid - 1);
  if (strcmp(field, "products") == 0)
    cli_answer_set(a, same ? CLI_HOLDS : CLI_FAILS,
                   "counted at n = %.0f: it rises to %.0f at l = %.0f and falls again; %.0f in all",
                   n, peak, mid, sum);
  else
    cli_answer_set(a, same ? CLI_HOLDS : CLI_FAILS, "counted at n = %.0f: %s", n,
                   strcmp(field, "entries") == 0 ? "n - l + 1, from n - 1 down to 1"
                                                 : "l - 1, from 1 up to n - 1");
}

static void answer_3(const cli_records *all, cli_answer *a) {
  answer_counts(all, a, "entries");
}
static void answer_4(const cli_records *all, cli_answer *a) {
  answer_counts(all, a, "candidates");
}
static void answer_5(const cli_records *all, cli_answer *a) {
  answer_counts(all, a, "products");
}

/* ---- Figure 7 -------------------------------------------------------------------------------- */

static const struct {
  const char *kernel, *name;
} kernels[] = {{"thread", "(a) OneThreadPerOneEntry"},
               {"block", "(b) OneBlockPerOneEntry"},
               {"blocks", "(c) BlocksPerOneEntry"},
               {"paper", "(d) the fastest of each diagonal"}};

/* The profile of a kernel with the largest n. */
static const cli_record *profile_of(const cli_records *all, const char *kernel) {
  const cli_record *r, *best = NULL;
  for (size_t at = 0; (r = cli_records_next(all, "profile", &at)) != NULL;)
    if (cli_record_has(r, "kernel", kernel) &&
        (best == NULL || cli_record_number(r, "n") >= cli_record_number(best, "n")))
      best = r;
  return best;
}

static bool draw_7(cli_stream *out, const cli_records *all, int width, bool alone) {
  static points p[LINES_MOST];
  static char names[LINES_MOST][64];
  cli_series lines[LINES_MOST];
  int count = 0;
  for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
    const cli_record *r = profile_of(all, kernels[k].kernel);
    if (r == NULL) continue;
    read_points(r, "seconds", &p[count]);
    snprintf(names[count], sizeof names[count], "%s, n = %.0f", kernels[k].name,
             cli_record_number(r, "n"));
    lines[count] = (cli_series){.name = names[count],
                                .hue = (int)k,
                                .x = p[count].x,
                                .y = p[count].y,
                                .count = p[count].count};
    count++;
  }
  if (count == 0) {
    const cli_record *r = profile_of(all, "textbook");
    if (r == NULL) return false;
    read_points(r, "seconds", &p[0]);
    snprintf(names[0], sizeof names[0], "the textbook's loop on one core, n = %.0f",
             cli_record_number(r, "n"));
    lines[0] =
        (cli_series){.name = names[0], .hue = 6, .x = p[0].x, .y = p[0].y, .count = p[0].count};
    count = 1;
  }
  cli_lines chart = {.title = "Figure 7: time of each diagonal",
                     .untitled = !alone,
                     .x_name = "l, matrices of a sub-chain",
                     .y_name = "time of the diagonal",
                     .x_unit = "",
                     .y_unit = "s",
                     .from_zero = true,
                     .series = lines,
                     .count = count,
                     .width = width,
                     .height = TALL};
  cli_chart_lines(out, &chart, alone);
  return true;
}

/* Figure 5 rises to the middle of the diagonals and falls again. */
static void answer_7(const cli_records *all, cli_answer *a) {
  int count = 0, alike = 0;
  points p;
  cli_answer_set(a, CLI_OPEN, "the slowest diagonal of ");
  for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
    const cli_record *r = profile_of(all, kernels[k].kernel);
    if (r == NULL) continue;
    read_points(r, "seconds", &p);
    int at = 0;
    for (int i = 0; i < p.count; i++)
      if (p.y[i] > p.y[at]) at = i;
    if (p.count == 0) continue;
    double n = cli_record_number(r, "n");
    cli_answer_add(a, "%s%.3s, n = %.0f, is near l = %.0f (%s)", count > 0 ? "; of " : "",
                   kernels[k].name, n, p.x[at], cli_in_units(p.y[at], "s").text);
    count++;
    alike += p.x[at] > 0.2 * n && p.x[at] < 0.8 * n;
  }
  if (count > 0)
    a->verdict = alike == count ? CLI_HOLDS : CLI_FAILS;
  else
    cli_answer_set(a, CLI_OPEN, "the kernels need a GPU: %s. The picture is of the processor",
                   without_gpu(all));
}

/* ---- Table I --------------------------------------------------------------------------------- */

/* Milliseconds of the paper's Table I at n = 16384; threads 32, 64, 128, 256. */
static const double thread_ms[] = {729428, 977575, 1017610, 1112098},
                    block_ms[] = {912642, 1111794, 1137166, 1056523};
static const double blocks_ms[4][4] = {{1571230, 1561411, 1493823, 1338796},
                                       {1251733, 1221975, 1115941, 1001370},
                                       {1215875, 1059025, 970862, 1038715},
                                       {1128318, 989715, 1095406, 1447205}};

static double table_1_ms(const char *kernel, int threads, int blocks) {
  int row = threads == 32 ? 0 : threads == 64 ? 1 : threads == 128 ? 2 : 3;
  int column = blocks == 2 ? 0 : blocks == 4 ? 1 : blocks == 8 ? 2 : 3;
  if (strcmp(kernel, "thread") == 0) return thread_ms[row];
  return strcmp(kernel, "block") == 0 ? block_ms[row] : blocks_ms[row][column];
}

/* How many settings of a kernel were measured at n. */
static int settings_at(const cli_records *all, const char *kernel, double n) {
  const cli_record *r;
  int count = 0;
  for (size_t at = 0; (r = cli_records_next(all, "table_1", &at)) != NULL;)
    count += cli_record_has(r, "way", kernel) && cli_record_is(r, "measured") &&
             cli_record_number(r, "n") == n;
  return count;
}

static bool has_settings(const cli_records *all, const char *kernel, double n) {
  return settings_at(all, kernel, n) >= (strcmp(kernel, "blocks") == 0 ? 16 : 4);
}

/* The largest n for which all settings of a kernel were measured, or of all of them for NULL; 0
 * when there is none. */
static double settings_n(const cli_records *all, const char *kernel) {
  const cli_record *r;
  double most = 0;
  for (size_t at = 0; (r = cli_records_next(all, "table_1", &at)) != NULL;) {
    double n = cli_record_number(r, "n");
    bool has = n > most;
    for (int k = 0; k < 3 && has; k++)
      if (kernel == NULL || strcmp(kernel, kernels[k].kernel) == 0)
        has = has_settings(all, kernels[k].kernel, n);
    if (has) most = n;
  }
  return most;
}

/* Answers that settings were not measured, and why. */
static void answer_no_settings(const cli_records *all, cli_answer *a) {
  size_t from = 0;
  if (cli_records_next(all, "table_1", &from) != NULL)
    cli_answer_set(a, CLI_OPEN, "not all settings were measured for one n");
  else
    cli_answer_set(a, CLI_OPEN, "the kernels need a GPU: %s", without_gpu(all));
}

static void answer_table_1(const cli_records *all, cli_answer *a) {
  double n = settings_n(all, NULL);
  const cli_record *r, *best = NULL;
  if (n == 0) {
    answer_no_settings(all, a);
    return;
  }
  for (size_t at = 0; (r = cli_records_next(all, "table_1", &at)) != NULL;)
    if (cli_record_number(r, "n") == n && (best == NULL || seconds_of(r) < seconds_of(best)))
      best = r;
  const char *kernel = cli_record_text(best, "way");
  double threads = cli_record_number(best, "threads_per_block");
  cli_answer_set(a, strcmp(kernel, "thread") == 0 && threads == 32 ? CLI_HOLDS : CLI_FAILS,
                 "at n = %.0f %s with %.0f threads is the fastest, %s", n, kernel, threads,
                 cli_in_units(seconds_of(best), "s").text);
}

static void answer_settings(const cli_records *all, cli_answer *a, const char *kernel) {
  double n = settings_n(all, kernel), least = INFINITY, most = 0, best_theirs = INFINITY,
         most_theirs = 0;
  const cli_record *r, *best = NULL, *theirs = NULL;
  if (n == 0) {
    answer_no_settings(all, a);
    return;
  }
  for (size_t at = 0; (r = cli_records_next(all, "table_1", &at)) != NULL;) {
    if (!cli_record_has(r, "way", kernel) || cli_record_number(r, "n") != n) continue;
    double s = seconds_of(r),
           their_s = 1e-3 * table_1_ms(kernel, (int)cli_record_number(r, "threads_per_block"),
                                       (int)cli_record_number(r, "blocks_per_entry"));
    if (s < least) {
      least = s;
      best = r;
    }
    if (their_s < best_theirs) {
      best_theirs = their_s;
      theirs = r;
    }
    most = fmax(most, s);
    most_theirs = fmax(most_theirs, their_s);
  }
  char blocks[32] = "";
  if (strcmp(kernel, "blocks") == 0)
    snprintf(blocks, sizeof blocks, ", %.0f blocks", cli_record_number(best, "blocks_per_entry"));
  bool whole = n == paper_n && least < best_theirs;
  cli_answer_set(
      a,
      whole            ? CLI_BEATEN
      : best == theirs ? CLI_HOLDS
                       : CLI_FAILS,
      "at n = %.0f it takes %s to %s, least with %.0f threads%s, %s. The slowest setting "
      "takes %.2f times as long as the fastest, there %.2f times",
      n, cli_in_units(least, "s").text, cli_in_units(most, "s").text,
      cli_record_number(best, "threads_per_block"), blocks,
      best == theirs ? "as there" : "another setting than there", most / least,
      most_theirs / best_theirs);
}

static void tell_settings(cli_stream *out, const cli_records *all, const char *kernel) {
  static const cli_column columns[] = {{"n", true},
                                       {"threads per block", true},
                                       {"blocks per entry", true},
                                       {"here", true},
                                       {"paper, n = 16384", true}};
  const cli_record *r;
  if (settings_n(all, kernel) == 0) return;
  cli_page_table_begin(out, columns, sizeof columns / sizeof columns[0]);
  for (size_t at = 0; (r = cli_records_next(all, "table_1", &at)) != NULL;) {
    if (!cli_record_has(r, "way", kernel) || !cli_record_is(r, "measured")) continue;
    double threads = cli_record_number(r, "threads_per_block"),
           blocks = cli_record_number(r, "blocks_per_entry"), n = cli_record_number(r, "n");
    double theirs = 1e-3 * table_1_ms(kernel, (int)threads, (int)blocks);
    cli_spread s = cli_record_spread(r, "seconds_samples");
    char number[32];
    cli_page_row_begin(out, false);
    snprintf(number, sizeof number, "%.0f", n);
    cli_page_cell_number(out, number, n);
    snprintf(number, sizeof number, "%.0f", threads);
    cli_page_cell_number(out, number, threads);
    snprintf(number, sizeof number, "%.0f", fmax(blocks, 1));
    cli_page_cell_number(out, number, blocks);
    cli_page_cell_number(out, cli_with_spread(s, "s").text, s.median);
    cli_page_cell_number(out, cli_in_units(theirs, "s").text, theirs);
    cli_page_row_end(out);
  }
  cli_page_table_end(out);
}

#define SETTINGS(kernel)                                                        \
  static void answer_settings_##kernel(const cli_records *all, cli_answer *a) { \
    answer_settings(all, a, #kernel);                                           \
  }                                                                             \
  static void tell_settings_##kernel(cli_stream *out, const cli_records *all) { \
    tell_settings(out, all, #kernel);                                           \
  }
SETTINGS(thread)
SETTINGS(block)
SETTINGS(blocks)

/* ---- Tables II and III ----------------------------------------------------------------------- */

static double ranges_n(const cli_records *all) {
  const cli_record *r;
  double n = 0;
  for (size_t at = 0; (r = cli_records_next(all, "range", &at)) != NULL;)
    n = fmax(n, cli_record_number(r, "n"));
  return n;
}

static void answer_table_2(const cli_records *all, cli_answer *a) {
  double n = ranges_n(all);
  int count = 0;
  const cli_record *r;
  if (n == 0) {
    cli_answer_set(a, CLI_OPEN, "the kernels need a GPU: %s", without_gpu(all));
    return;
  }
  for (size_t at = 0; (r = cli_records_next(all, "range", &at)) != NULL;)
    count += cli_record_number(r, "n") == n;
  if (count > 1)
    cli_answer_set(a, CLI_HOLDS,
                   "at n = %.0f %d ranges of diagonals have different fastest kernels", n, count);
  else
    cli_answer_set(a, CLI_FAILS, "at n = %.0f one kernel is the fastest on every diagonal", n);
}

static void tell_table_2(cli_stream *out, const cli_records *all) {
  static const cli_column columns[] = {{"l from", true}, {"to", true}, {"fastest here", false}};
  const cli_record *r;
  double n = ranges_n(all);
  if (n == 0) return;
  cli_page_table_begin(out, columns, sizeof columns / sizeof columns[0]);
  for (size_t at = 0; (r = cli_records_next(all, "range", &at)) != NULL;) {
    char number[32];
    if (cli_record_number(r, "n") != n) continue;
    cli_page_row_begin(out, false);
    snprintf(number, sizeof number, "%.0f", cli_record_number(r, "first"));
    cli_page_cell_number(out, number, cli_record_number(r, "first"));
    snprintf(number, sizeof number, "%.0f", cli_record_number(r, "last"));
    cli_page_cell_number(out, number, cli_record_number(r, "last"));
    cli_page_cell(out, cli_record_text(r, "kernel"));
    cli_page_row_end(out);
  }
  cli_page_table_end(out);
}

static void answer_table_3(const cli_records *all, cli_answer *a) {
  const cli_record *gpu = largest(all, "paper", "cuda"), *cpu = largest(all, "textbook", "cpu");
  if (gpu == NULL) {
    if (cpu == NULL) return;
    cli_answer_set(
        a, CLI_OPEN,
        "no GPU: %s. The loop takes %s on one core at n = %.0f; at 16384, if it grew "
        "with the cube, %s",
        without_gpu(all), cli_in_units(seconds_of(cpu), "s").text, cli_record_number(cpu, "n"),
        cli_in_units(seconds_of(cpu) * pow(paper_n / cli_record_number(cpu, "n"), 3), "s").text);
    return;
  }
  double n = cli_record_number(gpu, "n"), cpu_n = cpu != NULL ? cli_record_number(cpu, "n") : 0;
  double grown = cpu != NULL ? seconds_of(cpu) * pow(n / cpu_n, 3) : (double)NAN;
  double speedup = grown / seconds_of(gpu);
  cli_answer_set(a,
                 speedup > 41.7 ? CLI_BEATEN
                 : speedup > 40 ? CLI_HOLDS
                                : CLI_FAILS,
                 "their combination takes %s on this GPU at n = %.0f; the loop %s on one core at n "
                 "= %.0f%s: %.0f times",
                 cli_in_units(seconds_of(gpu), "s").text, n,
                 cpu != NULL ? cli_in_units(seconds_of(cpu), "s").text : "-", cpu_n,
                 cpu_n < n ? ", taken to grow with the cube" : "", speedup);
}

/* The combination against the best of its kernels, for the largest n that all of them solved. */
static void answer_combination(const cli_records *all, cli_answer *a) {
  const cli_record *r, *paper = NULL, *best = NULL;
  for (size_t at = 0; (r = cli_records_next(all, "solved", &at)) != NULL;) {
    const cli_record *alone = NULL;
    if (!cli_record_has(r, "way", "paper") || !cli_record_is(r, "measured")) continue;
    for (int k = 0; k < 3; k++) {
      const cli_record *one = solved(all, kernels[k].kernel, "cuda", cli_record_number(r, "n"), -1);
      if (one == NULL || (k > 0 && alone == NULL)) {
        alone = NULL;
        break;
      }
      if (alone == NULL || seconds_of(one) < seconds_of(alone)) alone = one;
    }
    if (alone != NULL) {
      paper = r;
      best = alone;
    }
  }
  if (paper == NULL) {
    cli_answer_set(a, CLI_OPEN, "not all kernels solved one n: %s", without_gpu(all));
    return;
  }
  double share = seconds_of(paper) / seconds_of(best);
  cli_answer_set(a,
                 share < 0.955 ? CLI_BEATEN
                 : share < 1   ? CLI_HOLDS
                               : CLI_FAILS,
                 "at n = %.0f %s against %s by %s, the best alone: %.3f of the time",
                 cli_record_number(paper, "n"), cli_in_units(seconds_of(paper), "s").text,
                 cli_in_units(seconds_of(best), "s").text, cli_record_text(best, "way"), share);
}

/* Writes a row; a reason that is that of the row before is not told again. */
static void put_way(cli_stream *out, const cli_record *r, const cli_record *before) {
  cli_spread s = cli_record_spread(r, "seconds_samples");
  char number[32];
  cli_page_row_begin(out, false);
  snprintf(number, sizeof number, "%.0f", cli_record_number(r, "n"));
  cli_page_cell_number(out, number, cli_record_number(r, "n"));
  cli_page_cell(out, cli_record_text(r, "solver"));
  cli_page_cell(out, cli_record_has(r, "kernel", "") ? cli_record_text(r, "way")
                                                     : cli_record_text(r, "kernel"));
  cli_page_cell(out, strncmp(cli_record_text(r, "on"), "cuda", 4) == 0 ? "GPU"
                     : cli_record_number(r, "threads") == 0            ? "processor, all cores"
                                                                       : "processor, one core");
  if (cli_record_is(r, "measured"))
    cli_page_cell_number(out, cli_with_spread(s, "s").text, s.median);
  else if (cli_record_has(before, "reason", cli_record_text(r, "reason")))
    cli_page_cell(out, "as above");
  else
    cli_page_cell(out, cli_record_text(r, "reason"));
  cli_page_row_end(out);
}

static void tell_table_3(cli_stream *out, const cli_records *all) {
  static const cli_column columns[] = {
      {"n", true}, {"solver", false}, {"kernel", false}, {"on", false}, {"seconds", true}};
  const cli_record *r, *before = NULL;
  size_t from = 0;
  if (cli_records_next(all, "solved", &from) == NULL) return;
  cli_page_table_begin(out, columns, sizeof columns / sizeof columns[0]);
  for (size_t at = 0; (r = cli_records_next(all, "solved", &at)) != NULL; before = r)
    put_way(out, r, before);
  cli_page_table_end(out);
  cli_page_words(out,
                 "The paper: %.1f s on a GTX 480, %.0f s on one core of a Core i7 870, 41.7 times. "
                 "Every solver's count of multiplications is compared with that of Hu and Shing's "
                 "algorithm. Dims are random from 1 to 1000. The loop is measured once for each n.",
                 paper_gpu_s, paper_cpu_s);
}

/* Seconds of every way against n. */
static bool draw_ways(cli_stream *out, const cli_records *all, int width, bool alone) {
  static const struct {
    const char *way, *on, *name;
    double threads;
    int hue;
  } shown[] = {{"textbook", "cpu", "textbook's loop, one core", -1, 6},
               {"thread", "cuda", "thread", -1, 0},
               {"block", "cuda", "block", -1, 1},
               {"blocks", "cuda", "blocks", -1, 2},
               {"paper", "cuda", "the paper's combination", -1, 3},
               {"table", "cpu", "our table, all cores", 0, 5},
               {"tiled", "cuda", "our table on the GPU", -1, 4}};
  static points p[LINES_MOST];
  cli_series lines[LINES_MOST];
  int count = 0;
  for (size_t w = 0; w < sizeof shown / sizeof shown[0]; w++) {
    const cli_record *r;
    p[count].count = 0;
    for (size_t at = 0; (r = cli_records_next(all, "solved", &at)) != NULL;) {
      double n = cli_record_number(r, "n");
      if (r != solved(all, shown[w].way, shown[w].on, n, shown[w].threads)) continue;
      p[count].x[p[count].count] = n;
      p[count].y[p[count].count++] = seconds_of(r);
    }
    if (p[count].count == 0) continue;
    lines[count] = (cli_series){.name = shown[w].name,
                                .hue = shown[w].hue,
                                .dotted = true,
                                .x = p[count].x,
                                .y = p[count].y,
                                .count = p[count].count};
    count++;
  }
  if (count == 0) return false;
  cli_lines chart = {.title = "Table III: time to solve, against n",
                     .untitled = !alone,
                     .x_name = "n, matrices",
                     .y_name = "time",
                     .x_unit = "",
                     .y_unit = "s",
                     .x_log = true,
                     .y_log = true,
                     .series = lines,
                     .count = count,
                     .width = width,
                     .height = TALL};
  cli_chart_lines(out, &chart, alone);
  return true;
}

static void answer_beyond(const cli_records *all, cli_answer *a) {
  const cli_record *r, *paper = NULL, *tiled = NULL;
  for (size_t at = 0; (r = cli_records_next(all, "solved", &at)) != NULL;) {
    const cli_record *other = solved(all, "tiled", "cuda", cli_record_number(r, "n"), -1);
    if (cli_record_has(r, "way", "paper") && cli_record_is(r, "measured") && other != NULL) {
      paper = r;
      tiled = other;
    }
  }
  if (paper != NULL) {
    cli_answer_set(a, seconds_of(tiled) < seconds_of(paper) ? CLI_BEATEN : CLI_FAILS,
                   "at n = %.0f the tiled table takes %s, %.3g times less than the paper's kernels "
                   "on the same GPU",
                   cli_record_number(paper, "n"),
                   cli_with_spread(cli_record_spread(tiled, "seconds_samples"), "s").text,
                   seconds_of(paper) / seconds_of(tiled));
    return;
  }
  const cli_record *loop = largest(all, "textbook", "cpu");
  const cli_record *ours =
      loop == NULL ? NULL : solved(all, "table", "cpu", cli_record_number(loop, "n"), 1);
  if (ours == NULL) return;
  cli_answer_set(a, seconds_of(ours) < seconds_of(loop) ? CLI_BEATEN : CLI_FAILS,
                 "on one core at n = %.0f the tiled table takes %s, %.3g times less than the loop",
                 cli_record_number(loop, "n"), cli_in_units(seconds_of(ours), "s").text,
                 seconds_of(loop) / seconds_of(ours));
  const cli_record *other = solved(all, "hu-shing", "cpu", cli_record_number(loop, "n"), -1);
  if (other != NULL)
    cli_answer_add(a, ", Hu and Shing's algorithm, which the paper names and leaves aside, %s",
                   cli_in_units(seconds_of(other), "s").text);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void answer_drawings(const cli_records *all, cli_answer *a) {
  (void)all;
  cli_answer_set(a, CLI_OPEN,
                 "drawings of the CUDA architecture and of the memory mapping: nothing to measure. "
                 "The kernels store m and s by diagonals, as Figure 6 (c) has it");
}

static const cli_exhibit exhibits[] = {
    {"Example", "the order of three matrices",
     "(A B) C of 5x1, 1x5 and 5x1 takes 50 multiplications, A (B C) 10.", answer_example, NULL,
     NULL},
    {"Figure 1", "tables m and s of six matrices",
     "2x9, 9x3, 3x1, 1x4, 4x11, 11x5: 154 multiplications, (A1 (A2 A3)) ((A4 A5) A6).", answer_1,
     NULL, NULL},
    {"Figures 2, 6", "drawings", "the hardware, and how tables lie in memory.", answer_drawings,
     NULL, NULL},
    {"Figure 3", "entries that a diagonal has",
     "the first of two kinds of parallelism falls with "
     "l.",
     answer_3, draw_3, NULL},
    {"Figure 4", "candidates that an entry has", "the second kind rises with l.", answer_4, draw_4,
     NULL},
    {"Figure 5", "candidates that a diagonal has", "the work rises and falls with l.", answer_5,
     draw_5, NULL},
    {"Table I", "all kernels and settings",
     "OneThreadPerOneEntry with 32 threads per block is the fastest of all.", answer_table_1, NULL,
     NULL},
    {"Table I (a)", "OneThreadPerOneEntry", "729 s to 1112 s at n = 16384, least with 32 threads.",
     answer_settings_thread, NULL, tell_settings_thread},
    {"Table I (b)", "OneBlockPerOneEntry", "913 s to 1137 s at n = 16384, least with 32 threads.",
     answer_settings_block, NULL, tell_settings_block},
    {"Table I (c)", "BlocksPerOneEntry",
     "971 s to 1571 s at n = 16384, least with 128 threads and 8 blocks.", answer_settings_blocks,
     NULL, tell_settings_blocks},
    {"Figure 7", "time of every diagonal",
     "the three kernels and their combination have the shape of Figure 5.", answer_7, draw_7, NULL},
    {"Table II", "the fastest kernel of each diagonal",
     "block for 2..3668, thread for 3669..15406, block for 15407..15662, blocks for 15663..16384.",
     answer_table_2, NULL, tell_table_2},
    {"Combination", "the fastest kernel of each diagonal against one for all",
     "701.6 s against 729.4 s by the best kernel alone: 4 % less.", answer_combination, NULL, NULL},
    {"Table III", "GPU against CPU at n = 16384", "701.6 s against 29,282 s: 41.7 times.",
     answer_table_3, draw_ways, tell_table_3},
    {"Beyond", "what mmchain has in its place",
     "concludes that the fastest kernel is to be chosen for each diagonal.", answer_beyond, NULL,
     NULL}};

static const cli_exhibits parts = {exhibits, sizeof exhibits / sizeof exhibits[0]};

const cli_source cli_nishida_2011_source = {
    .experiment = "nishida-2011",
    .title = "The matrix chain product's table on a GPU, measured again",
    .citation =
        "K. Nishida, Y. Ito and K. Nakano, Accelerating the dynamic programming for the "
        "matrix chain product on the GPU, ICNC 2011; measured there on a GTX 480 and a "
        "Core i7 870.",
    .words =
        "Ways that are predicted to take longer than --budget seconds are left out, and say so. "
        "Slips of the paper: n matrices have Catalan number n - 1 of orders, not n; table s of "
        "Figure 1 has the first matrix of the right part, where the algorithm stores the last of "
        "the left; and the product of matrices k + 1 to j is written as beginning with k.",
    .parts = {&parts}};
