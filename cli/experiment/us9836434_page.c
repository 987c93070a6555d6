/* us9836434_page.c: the figures, the example and the claims of US patent 9,836,434 B2, beside what
 * was measured here. */
#include "us9836434_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../chart.h"
#include "../page.h"
#include "../xml.h"
#include "laboratory.h"

enum { POINTS_MOST = 256, TALL = 320, HUE_PLAIN = 0, HUE_PATENT = 1, HUE_OURS = 2 };

static double element(const cli_record *r, const char *name, int i) {
  char field[48];
  snprintf(field, sizeof field, "%s.%d", name, i);
  return cli_record_number(r, field);
}

/* Returns plain time divided by that of another way, sample by sample, as they took turns. A way
 * that is the plain call was not measured again and is exactly as fast. */
static cli_spread gain_of(const cli_record *r, const char *samples) {
  double values[CLI_REPEATS_MOST];
  int count = 0;
  const char *cut = strcmp(samples, "tuned_samples") == 0 ? "recipe" : "cut";
  if (cli_record_has(r, cut, "whole") && strcmp(samples, "given_samples") != 0)
    return (cli_spread){.median = 1, .low = 1, .high = 1, .count = 1};
  for (int i = 0; i < CLI_REPEATS_MOST && r != NULL; i++) {
    double gain = element(r, "plain_samples", i) / element(r, samples, i);
    if (isfinite(gain)) values[count++] = gain;
  }
  return cli_spread_of(values, count);
}

/* What a way gains over all products of a part. */
typedef struct tally {
  cli_spread gain;     /* of the medians */
  double mean;         /* their geometric mean */
  int won, lost, same; /* products faster in every turn, slower in every turn, by the plain call */
} tally;

static tally tally_of(const cli_records *all, const char *part, const char *samples) {
  double values[POINTS_MOST], logs = 0;
  int count = 0;
  tally t = {.won = 0};
  const cli_record *r;
  for (size_t at = 0; (r = cli_records_next(all, part, &at)) != NULL && count < POINTS_MOST;) {
    cli_spread gain = gain_of(r, samples);
    if (gain.count == 0) continue;
    t.won += gain.low > 1.01;
    t.lost += gain.high < 0.99;
    t.same += !isfinite(element(r, samples, 0));
    logs += log(gain.median);
    values[count++] = gain.median;
  }
  t.gain = cli_spread_of(values, count);
  t.mean = exp(logs / count);
  return t;
}

/* The method holds where it makes more products surely faster than slower; mmchain beats it by a
 * better mean and no more that are slower. */
static cli_verdict verdict_of(const tally *patent, const tally *ours) {
  if (ours->won > 0 && ours->lost <= patent->lost && ours->mean > patent->mean) return CLI_BEATEN;
  return patent->won > patent->lost ? CLI_HOLDS : CLI_FAILS;
}

static double flops(const cli_record *r) {
  return 2 * cli_record_number(r, "m") * cli_record_number(r, "k") * cli_record_number(r, "n");
}

/* ---- the example ----------------------------------------------------------------------------- */

static bool draw_example(cli_stream *out, const cli_records *all, int width, bool alone) {
  static const struct {
    const char *samples, *name;
    int hue;
  } ways[] = {{"plain_samples", "one call", HUE_PLAIN},
              {"given_samples", "the patent's cut", HUE_PATENT},
              {"patent_samples", "method 300", HUE_PATENT},
              {"tuned_samples", "mmchain, tuned", HUE_OURS}};
  cli_bar bars[4];
  size_t at = 0;
  const cli_record *r = cli_records_next(all, "example", &at);
  if (r == NULL) return false;
  for (int w = 0; w < 4; w++) {
    cli_spread s = cli_record_spread(r, ways[w].samples);
    bool copied = s.count == 0; /* the way is the plain call, and was not measured again */
    if (copied) s = cli_record_spread(r, ways[0].samples);
    bars[w] = (cli_bar){.group = "",
                        .name = ways[w].name,
                        .note = copied ? "is the one call" : "",
                        .faint = copied,
                        .hue = ways[w].hue,
                        .value = s.median,
                        .more = NAN,
                        .low = s.low,
                        .high = s.high};
  }
  cli_bars chart = {.title = "The patent's example: time",
                    .subtitle = alone ? cli_record_text(r, "machine") : "",
                    .untitled = !alone,
                    .unit = "s",
                    .bars = bars,
                    .count = 4,
                    .width = width};
  cli_chart_bars(out, &chart, alone);
  return true;
}

static void answer_example(const cli_records *all, cli_answer *a) {
  size_t at = 0;
  const cli_record *r = cli_records_next(all, "example", &at);
  if (r == NULL) return;
  cli_spread given = gain_of(r, "given_samples"), ours = gain_of(r, "tuned_samples");
  cli_answer_set(a,
                 ours.median > 1.17    ? CLI_BEATEN
                 : given.median > 1.15 ? CLI_HOLDS
                                       : CLI_FAILS,
                 "%.0f x %.0f x %.0f: the patent's cut makes it %.3f (%.3f to %.3f) times as fast, "
                 "mmchain's choice (%s) %.3f (%.3f to %.3f)",
                 cli_record_number(r, "m"), cli_record_number(r, "k"), cli_record_number(r, "n"),
                 given.median, given.low, given.high, cli_record_text(r, "recipe"), ours.median,
                 ours.low, ours.high);
}

static void tell_example(cli_stream *out, const cli_records *all) {
  size_t at = 0;
  const cli_record *r = cli_records_next(all, "example", &at);
  if (r == NULL) return;
  cli_page_words(out,
                 "Method 300 as described chose %s; mmchain's tuning chose %s. The patent names no "
                 "GPU and no version of CUBLAS; libraries have changed since 2015.",
                 cli_record_text(r, "cut"), cli_record_text(r, "recipe"));
}

/* ---- ladders --------------------------------------------------------------------------------- */

/* Draws E against n of one series: plain, by method 300, and by mmchain. */
static bool draw_ladder(cli_stream *out, const cli_records *all, int number, int width,
                        bool alone) {
  static double x[POINTS_MOST], y[3][POINTS_MOST], low[3][POINTS_MOST], high[3][POINTS_MOST];
  static const char *const samples[] = {"plain_samples", "patent_samples", "tuned_samples"};
  static const char *const names[] = {"one call", "method 300 as described", "mmchain, tuned"};
  char series[96] = "", title[160];
  int count = 0, seen = -1;
  const cli_record *r;
  for (size_t at = 0; (r = cli_records_next(all, "ladder", &at)) != NULL && count < POINTS_MOST;) {
    if (strcmp(series, cli_record_text(r, "series")) != 0) {
      if (++seen > number) break;
      snprintf(series, sizeof series, "%s", cli_record_text(r, "series"));
    }
    if (seen != number) continue;
    x[count] = cli_record_number(r, "n");
    for (int w = 0; w < 3; w++) {
      cli_spread s = cli_record_spread(r, samples[w]);
      if (s.count == 0) s = cli_record_spread(r, samples[0]); /* it is the plain call */
      y[w][count] = flops(r) / s.median;
      low[w][count] = flops(r) / s.high;
      high[w][count] = flops(r) / s.low;
    }
    count++;
  }
  if (count == 0) return false;
  cli_series lines[3];
  for (int w = 0; w < 3; w++)
    lines[w] = (cli_series){.name = names[w],
                            .hue = w,
                            .dotted = true,
                            .x = x,
                            .y = y[w],
                            .low = low[w],
                            .high = high[w],
                            .count = count};
  snprintf(title, sizeof title, "E against n: %s by n", series);
  cli_lines chart = {.title = title,
                     .untitled = false,
                     .x_name = "n, columns of B",
                     .y_name = "E = 2mnk / time",
                     .x_unit = "",
                     .y_unit = "FLOP/s",
                     .from_zero = true,
                     .series = lines,
                     .count = 3,
                     .width = width,
                     .height = TALL};
  cli_chart_lines(out, &chart, alone);
  return true;
}

static bool draw_ladder_1(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_ladder(out, all, 0, width, alone);
}
static bool draw_ladder_2(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_ladder(out, all, 1, width, alone);
}

static void answer_ladder(const cli_records *all, cli_answer *a) {
  tally patent = tally_of(all, "ladder", "patent_samples"),
        ours = tally_of(all, "ladder", "tuned_samples");
  if (patent.gain.count == 0) return;
  cli_answer_set(
      a, verdict_of(&patent, &ours),
      "of %d sizes method 300 makes the best %.3f times as fast, %d faster and %d slower "
      "in every turn (geometric mean %.3f); mmchain the best %.3f, %d faster, %d slower "
      "(%.3f)",
      patent.gain.count, patent.gain.high, patent.won, patent.lost, patent.mean, ours.gain.high,
      ours.won, ours.lost, ours.mean);
}

static void tell_ladder(cli_stream *out, const cli_records *all) {
  tally patent = tally_of(all, "ladder", "patent_samples"),
        ours = tally_of(all, "ladder", "tuned_samples");
  if (patent.gain.count == 0) return;
  cli_page_words(out,
                 "At %d of %d sizes method 300 finds no cut, at %d mmchain's choice is the plain "
                 "call: there the lines lie on that of one call, and nothing else was measured.",
                 patent.same, patent.gain.count, ours.same);
}

/* Counts the sizes of all series at which E is surely lower than at the size before. */
static void answer_monotone(const cli_records *all, cli_answer *a) {
  int falls = 0, sizes = 0;
  char series[96] = "";
  double before = 0, least_before = 0, deepest = 1;
  const cli_record *r;
  for (size_t at = 0; (r = cli_records_next(all, "ladder", &at)) != NULL;) {
    cli_spread s = cli_record_spread(r, "plain_samples");
    if (strcmp(series, cli_record_text(r, "series")) == 0) {
      double now = flops(r) / s.low, drop = flops(r) / s.median / before;
      sizes++;
      falls += now < least_before;
      if (now < least_before) deepest = fmin(deepest, drop);
    }
    snprintf(series, sizeof series, "%s", cli_record_text(r, "series"));
    least_before = flops(r) / s.high;
    before = flops(r) / s.median;
  }
  if (sizes == 0) return;
  cli_answer_set(a, falls > 0 ? CLI_HOLDS : CLI_FAILS,
                 "at %d of %d steps to a larger n the best sample's E is below the worst of the "
                 "size before",
                 falls, sizes);
  if (falls > 0) cli_answer_add(a, ", by medians down to %.2f of it", deepest);
}

/* ---- the set --------------------------------------------------------------------------------- */

static void answer_set(const cli_records *all, cli_answer *a) {
  tally patent = tally_of(all, "set", "patent_samples"),
        ours = tally_of(all, "set", "tuned_samples");
  if (patent.gain.count == 0) return;
  cli_answer_set(a, verdict_of(&patent, &ours),
                 "of %d random sizes the patent's cuts gain %.3f to %.3f (%d faster, %d slower in "
                 "every turn; geometric mean %.3f), mmchain's choices %.3f to %.3f (%d faster, %d "
                 "slower; %.3f)",
                 patent.gain.count, patent.gain.low, patent.gain.high, patent.won, patent.lost,
                 patent.mean, ours.gain.low, ours.gain.high, ours.won, ours.lost, ours.mean);
}

static void tell_set(cli_stream *out, const cli_records *all) {
  static const cli_column columns[] = {{"m", true},
                                       {"k", true},
                                       {"n", true},
                                       {"one call", true},
                                       {"cut of method 300", false},
                                       {"gain", true},
                                       {"mmchain's recipe", false},
                                       {"gain", true}};
  const cli_record *r;
  size_t from = 0;
  if (cli_records_next(all, "set", &from) == NULL) return;
  cli_page_table_begin(out, columns, sizeof columns / sizeof columns[0]);
  for (size_t at = 0; (r = cli_records_next(all, "set", &at)) != NULL;) {
    static const char *const dims[] = {"m", "k", "n"};
    char text[64];
    cli_page_row_begin(out, false);
    for (int d = 0; d < 3; d++) {
      snprintf(text, sizeof text, "%.0f", cli_record_number(r, dims[d]));
      cli_page_cell_number(out, text, cli_record_number(r, dims[d]));
    }
    cli_spread plain = cli_record_spread(r, "plain_samples");
    cli_page_cell_number(out, cli_in_units(plain.median, "s").text, plain.median);
    cli_page_cell(out, cli_record_text(r, "cut"));
    cli_spread gain = gain_of(r, "patent_samples");
    cli_page_cell_number(out, cli_with_spread(gain, "").text, gain.median);
    cli_page_cell(out, cli_record_text(r, "recipe"));
    gain = gain_of(r, "tuned_samples");
    cli_page_cell_number(out, cli_with_spread(gain, "").text, gain.median);
    cli_page_row_end(out);
  }
  cli_page_table_end(out);
  cli_page_words(out,
                 "A gain is the time of one call divided by that of the other way, in turns; "
                 "brackets have the least and the most.");
}

/* ---- the array ------------------------------------------------------------------------------- */

static bool draw_axes(cli_stream *out, const cli_records *all, int width, bool alone) {
  static double x[3][POINTS_MOST], y[3][POINTS_MOST];
  static char names[3][48];
  cli_series lines[3];
  int count = 0;
  const cli_record *r;
  for (size_t at = 0; (r = cli_records_next(all, "axis", &at)) != NULL && count < 3; count++) {
    int points = 0;
    for (; points < POINTS_MOST; points++) {
      x[count][points] = element(r, "sizes", points);
      y[count][points] = element(r, "seconds", points);
      if (!isfinite(x[count][points]) || !isfinite(y[count][points])) break;
    }
    snprintf(names[count], sizeof names[count], "along %s", cli_record_text(r, "axis"));
    lines[count] = (cli_series){
        .name = names[count], .hue = count + 3, .x = x[count], .y = y[count], .count = points};
  }
  if (count == 0) return false;
  cli_lines chart = {.title = "Figure 6: time along each axis",
                     .untitled = !alone,
                     .x_name = "size along one axis, the others held",
                     .y_name = "time",
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

static void answer_array(const cli_records *all, cli_answer *a) {
  int tried = 0, cuts = 0, won = 0, lost = 0;
  double choice_s = 0;
  const cli_record *r;
  for (size_t at = 0; (r = cli_records_next(all, "choice", &at)) != NULL;) {
    choice_s = fmax(choice_s, cli_record_number(r, "choice_s"));
    tried++;
    if (cli_record_has(r, "cut", "whole")) continue;
    cli_spread gain = gain_of(r, "patent_samples");
    cuts++;
    won += gain.low > 1.01;
    lost += gain.high < 0.99;
  }
  if (choice_s == 0) return;
  cli_answer_set(a, won > lost ? CLI_HOLDS : CLI_FAILS,
                 "as described the array cuts %d of the %d sizes that were tried: %d are faster in "
                 "every turn, %d slower. mmchain cuts only where its array was proven on sizes "
                 "beside it",
                 cuts, tried, won, lost);
}

static void tell_array(cli_stream *out, const cli_records *all) {
  static const cli_column columns[] = {{"m", true},    {"k", true},         {"n", true},
                                       {"cut", false}, {"predicted", true}, {"measured", true}};
  size_t from = 0;
  const cli_record *r = cli_records_next(all, "array", &from);
  if (r == NULL) return;
  static const char *const axes[][2] = {{"m", "step_m"}, {"n", "step_n"}, {"k", "step_k"}};
  char steps[96] = "";
  for (int a = 0; a < 3; a++) {
    const cli_record *axis = cli_records_find(all, "axis", "axis", axes[a][0]);
    const size_t used = strlen(steps);
    double step = cli_record_number(r, axes[a][1]);
    snprintf(steps + used, sizeof steps - used, "%s along %s %.0f%s", a > 0 ? "," : "", axes[a][0],
             step, cli_record_number(axis, "step") == step ? "" : " (taken)");
  }
  cli_page_words(out,
                 "Steps%s; the array holds their first %.0f multiples along each axis. Steps that "
                 "were taken are those of common kernels, where the time shows no ladder.",
                 steps, cli_record_number(r, "multiples"));
  bool begun = false;
  for (size_t at = 0; (r = cli_records_next(all, "choice", &at)) != NULL;) {
    static const char *const dims[] = {"m", "k", "n"};
    char text[64];
    if (cli_record_has(r, "cut", "whole")) continue;
    if (!begun) cli_page_table_begin(out, columns, sizeof columns / sizeof columns[0]);
    begun = true;
    cli_page_row_begin(out, false);
    for (int d = 0; d < 3; d++) {
      snprintf(text, sizeof text, "%.0f", cli_record_number(r, dims[d]));
      cli_page_cell_number(out, text, cli_record_number(r, dims[d]));
    }
    cli_page_cell(out, cli_record_text(r, "cut"));
    snprintf(text, sizeof text, "%.3f", cli_record_number(r, "predicted"));
    cli_page_cell_number(out, text, cli_record_number(r, "predicted"));
    cli_spread gain = gain_of(r, "patent_samples");
    cli_page_cell_number(out, cli_with_spread(gain, "").text, gain.median);
    cli_page_row_end(out);
  }
  if (begun) cli_page_table_end(out);
}

static void answer_lookup(const cli_records *all, cli_answer *a) {
  double values[POINTS_MOST], choices[POINTS_MOST];
  int count = 0, choice_count = 0;
  const cli_record *r;
  for (size_t at = 0; (r = cli_records_next(all, "set", &at)) != NULL && count < POINTS_MOST;)
    values[count++] = cli_record_number(r, "plan_s");
  for (size_t at = 0;
       (r = cli_records_next(all, "choice", &at)) != NULL && choice_count < POINTS_MOST;)
    choices[choice_count++] = cli_record_number(r, "choice_s");
  if (count == 0 || choice_count == 0) return;
  double plan = cli_spread_of(values, count).median,
         choice = cli_spread_of(choices, choice_count).median;
  cli_answer_set(
      a, choice < 1e-6 ? CLI_HOLDS : CLI_FAILS,
      "a choice by method 600's array, which looks at every cut, takes %s; a whole plan, made "
      "once for a size, %s",
      cli_in_units(choice, "s").text, cli_in_units(plan, "s").text);
}

/* ---- the claims ------------------------------------------------------------------------------ */

static const struct {
  const char *number, *claim, *runs;
  const char *part; /* whose lines show that it ran; NULL where this experiment does not run it */
} claims[] = {
    {"1", "offline runs of partitions, recursion until no gain, online calls by the best",
     "method 300, part \"ladder\" and \"example\"; mmchain tune --product", "ladder"},
    {"2", "horizontal and vertical partitions", "cuts along m and n; mmchain also along k",
     "ladder"},
    {"3", "all vertical and all horizontal partitions",
     "all of an axis of up to 64 (16 by --quick), at most 32 (8) of a longer one; mmchain tries 4 "
     "to 32",
     "ladder"},
    {"4", "recursion for both parts of a split",
     "three levels, each along n or m, in ladders along n; mmchain until no gain", "ladder"},
    {"5", "the best by performance numbers", "the sum of the parts' times", "ladder"},
    {"6", "the number is the runtime", "seconds; mmchain tune --for energy also joules", "ladder"},
    {"7", "a program that does so", "this experiment; mmchain tune and multiply", "ladder"},
    {"8", "a set of sizes, stored, selected online",
     "method 400, part \"set\"; mmchain tune "
     "--chain, the wisdom store",
     "set"},
    {"9", "the structure is a lookup table", "the store's table of products", "set"},
    {"10", "several partitionings for every triplet of sizes", "recipes of up to 16 pieces", "set"},
    {"11", "other sizes call the library directly", "the plain call", "set"},
    {"12", "all vertical and all horizontal partitions of the set", "as 3", "set"},
    {"13", "recursion for the set", "as 4", "set"},
    {"14", "searching for a triplet of sizes", "a look into the wisdom store", "set"},
    {"15", "a wrapping layer around an existing library",
     "libmmchain-blas.so, preloaded (docs/tuning.md)", NULL},
    {"16", "a program that does so", "as 7", "set"},
    {"17", "an efficiency array in steps, the best two-way cut of rows and of columns",
     "method 600, part \"array\"; mmchain tune --range", "choice"},
    {"18", "steps by the type of GPU", "steps found by measuring, part \"array\"", "choice"},
    {"19", "a wrapping layer", "as 15", NULL},
    {"20", "a program that does so", "as 7", "choice"}};

enum { CLAIMS = sizeof claims / sizeof claims[0] };

/* Says whether lines of the results show that a claim ran. */
static bool ran(const cli_records *all, int claim) {
  size_t at = 0;
  return claims[claim].part != NULL && cli_records_next(all, claims[claim].part, &at) != NULL;
}

static void answer_claims(const cli_records *all, cli_answer *a) {
  int count = 0, here = 0;
  for (int c = 0; c < CLAIMS; c++) {
    count += ran(all, c);
    here += claims[c].part != NULL;
  }
  cli_answer_set(a, count == here ? CLI_HOLDS : CLI_OPEN,
                 "%d of %d claims ran here; %d are run by what the table names, not by this "
                 "experiment",
                 count, CLAIMS, CLAIMS - here);
}

static void tell_claims(cli_stream *out, const cli_records *all) {
  static const cli_column columns[] = {{"claim", true},
                                       {"what it says, in short", false},
                                       {"what runs", false},
                                       {"ran here", false}};
  cli_page_table_begin(out, columns, sizeof columns / sizeof columns[0]);
  for (int c = 0; c < CLAIMS; c++) {
    cli_page_row_begin(out, false);
    cli_page_cell_number(out, claims[c].number, strtod(claims[c].number, NULL));
    cli_page_cell(out, claims[c].claim);
    cli_page_cell(out, claims[c].runs);
    cli_page_cell(out, ran(all, c)              ? "yes"
                       : claims[c].part == NULL ? "not by this experiment"
                                                : "no");
    cli_page_row_end(out);
  }
  cli_page_table_end(out);
}

static void answer_drawings(const cli_records *all, cli_answer *a) {
  (void)all;
  cli_answer_set(a, CLI_OPEN,
                 "diagrams of a computer and of a GPU with a partitioner, an evaluator and a "
                 "selector: nothing to measure");
}

static const cli_exhibit exhibits[] = {
    {"Figures 1, 2", "the system", "a processing system and a GPU for the method.", answer_drawings,
     NULL, NULL},
    {"Example", "256 x 3072 by 3072 x 2048 in 1920 and 128 columns",
     "215 ms become 185 ms: sixteen percent faster.", answer_example, draw_example, tell_example},
    {"Monotonicity", "why cuts can gain",
     "the efficiency E(m, n, k) of the library does not rise monotonically with n.",
     answer_monotone, draw_ladder_1, tell_ladder},
    {"Figure 3", "method 300: one product of known sizes",
     "cut for as long as the best cut is faster, then call by the best partition.", answer_ladder,
     draw_ladder_2, tell_ladder},
    {"Figures 4, 5", "method 400: a set of sizes",
     "a table of the best partitions of every triplet of the set, searched online.", answer_set,
     NULL, tell_set},
    {"Figure 6", "method 600: any size by an efficiency array",
     "E climbs in steps along m, n and k; the best cut in two is read from an array of multiples "
     "of the steps.",
     answer_array, draw_axes, tell_array},
    {"Lookup", "the time of a choice",
     "a look into method 400's table takes less than a microsecond of CPU time, negligible beside "
     "milliseconds of products.",
     answer_lookup, NULL, NULL},
    {"Claims 1 to 20", "what runs of each", "twenty claims.", answer_claims, NULL, tell_claims}};

static const cli_exhibits parts = {exhibits, sizeof exhibits / sizeof exhibits[0]};

const cli_source cli_us9836434_source = {
    .experiment = "us9836434",
    .title = "Products in pieces (US 9,836,434 B2), measured again",
    .citation =
        "A. Y. Lvov, J. Xiong and V. Zolotov, Runtime of CUBLAS matrix multiplication on "
        "GPU, US patent 9,836,434 B2, 2017.",
    .words =
        "The patent was granted in 2017 and may be in force: check your own position before you "
        "use what it claims. Its "
        "drawings 3 to 6 are flowcharts; here stands what running them gives. A cut is "
        "executed by calls in place, as the patent does, in turns with the plain call.",
    .parts = {&parts}};
