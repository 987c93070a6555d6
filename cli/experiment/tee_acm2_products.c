/* tee_acm2_products.c: single products, two instruments, tiles and fused products: Figures 9 to 17
 * of the TEE-ACM2 poster. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../chart.h"
#include "../page.h"
#include "../xml.h"
#include "laboratory.h"
#include "tee_acm2_figures.h"

/* ---- single products ------------------------------------------------------------------------- */

static const cli_tee_figure figure_10 = {.part = "single",
                                         .suffix = "",
                                         .title = "Figure 10: power of one product",
                                         .unit = "",
                                         .mark_name = "plain = 1",
                                         .field = "watts_samples",
                                         .ratio = true,
                                         .theirs = 0.70};
static const cli_tee_figure figure_11 = {.part = "single",
                                         .suffix = "",
                                         .title = "Figure 11: energy of one product",
                                         .unit = "",
                                         .mark_name = "plain = 1",
                                         .field = "joules_samples",
                                         .ratio = true,
                                         .theirs = 0.92};
static const cli_tee_figure figure_time = {.part = "single",
                                           .suffix = "",
                                           .title = "Time of one product",
                                           .unit = "",
                                           .mark_name = "plain = 1",
                                           .field = "seconds_samples",
                                           .ratio = true,
                                           .theirs = 1.20};

static bool draw_10(cli_stream *out, const cli_records *all, int width, bool alone) {
  return cli_tee_draw(out, all, &figure_10, width, alone);
}
static bool draw_11(cli_stream *out, const cli_records *all, int width, bool alone) {
  return cli_tee_draw(out, all, &figure_11, width, alone);
}
static bool draw_time(cli_stream *out, const cli_records *all, int width, bool alone) {
  return cli_tee_draw(out, all, &figure_time, width, alone);
}

static void tell_single(cli_stream *out, const cli_records *all) {
  cli_page_words(out,
                 "plain is the device's own kernel (FP32 of cuBLAS on a GPU), tee the large tiles, "
                 "faithful FP32 by three bytes on tensor cores. Each family has one colour in all "
                 "figures.");
  cli_tee_tell_reasons(out, all, "single", "");
}

static void answer_10(const cli_records *all, cli_answer *a) {
  cli_spread found = cli_tee_ratios(all, "single", "", NULL, "tee", "watts_samples");
  if (cli_tee_cannot(all, a, found, true)) return;
  cli_answer_set(a,
                 found.median <= 0.70   ? CLI_BEATEN
                 : found.median <= 0.71 ? CLI_HOLDS
                                        : CLI_FAILS,
                 "tee takes %.3f (%.3f to %.3f) of cuBLAS's power", found.median, found.low,
                 found.high);
}

static void answer_11(const cli_records *all, cli_answer *a) {
  cli_spread tee = cli_tee_ratios(all, "single", "", NULL, "tee", "joules_samples"),
             faithful = cli_tee_ratios(all, "single", "", NULL, "faithful", "joules_samples");
  if (cli_tee_cannot(all, a, tee, true)) return;
  cli_answer_set(a,
                 tee.median < 0.915   ? CLI_BEATEN
                 : tee.median < 0.925 ? CLI_HOLDS
                                      : CLI_FAILS,
                 "tee takes %.3f (%.3f to %.3f) of cuBLAS's joules", tee.median, tee.low, tee.high);
  if (faithful.count > 0) cli_answer_add(a, ", faithful %.3f", faithful.median);
}

static void answer_time(const cli_records *all, cli_answer *a) {
  cli_spread tee = cli_tee_ratios(all, "single", "", NULL, "tee", "seconds_samples");
  if (cli_tee_cannot(all, a, tee, false)) return;
  cli_answer_set(a,
                 tee.median < 1.19   ? CLI_BEATEN
                 : tee.median < 1.21 ? CLI_HOLDS
                                     : CLI_FAILS,
                 "tee takes %.3f (%.3f to %.3f) of cuBLAS's time", tee.median, tee.low, tee.high);
}

/* ---- Figure 9: two instruments --------------------------------------------------------------- */

/* Mean watts of the other instrument's log while a sample was taken; NaN where it has none. */
static double logged_watts(const cli_records *all, const cli_record *t, int i) {
  double until = cli_tee_sample(t, "until_s", i),
         from = until - cli_record_number(t, "energy.window_s");
  double sum = 0;
  int count = 0;
  const cli_record *line;
  for (size_t at = 0; (line = cli_records_next(all, "power_log", &at)) != NULL;) {
    double s = cli_record_number(line, "s");
    if (s < from || s > until) continue;
    sum += cli_record_number(line, "watts");
    count++;
  }
  return count > 1 ? sum / count : (double)NAN;
}

/* Differences in percent of one product's samples between the counter's power and the meter's own
 * samples or the log. */
static cli_spread differences_of(const cli_records *all, const cli_record *t, bool logged) {
  double values[CLI_REPEATS_MOST];
  int count = 0;
  for (int i = 0; i < CLI_REPEATS_MOST; i++) {
    double watts = cli_tee_sample(t, "watts_samples", i), other = (double)NAN;
    if (isfinite(watts))
      other = logged ? logged_watts(all, t, i) : cli_tee_sample(t, "sampled_watts_samples", i);
    double difference = 100 * fabs(other / watts - 1);
    if (isfinite(difference)) values[count++] = difference;
  }
  return cli_spread_of(values, count);
}

/* The same of all products: the median of each. */
static cli_spread differences(const cli_records *all, bool logged) {
  double values[CLI_TEE_RATIOS_MOST];
  int count = 0;
  const cli_record *t;
  for (size_t at = 0; (t = cli_records_next(all, "single", &at)) != NULL;) {
    cli_spread found = differences_of(all, t, logged);
    if (found.count > 0 && count < CLI_TEE_RATIOS_MOST) values[count++] = found.median;
  }
  return cli_spread_of(values, count);
}

/* Says why a log of which nothing was taken is of no use; false where there is no log. */
static bool answer_unused_log(const cli_records *all, cli_answer *a) {
  double least = INFINITY, most = -INFINITY, first = INFINITY, last = -INFINITY;
  const cli_record *r;
  for (size_t at = 0; (r = cli_records_next(all, "power_log", &at)) != NULL;) {
    least = fmin(least, cli_record_number(r, "s"));
    most = fmax(most, cli_record_number(r, "s"));
  }
  for (size_t at = 0; (r = cli_records_next(all, "single", &at)) != NULL;) {
    cli_spread until = cli_record_spread(r, "until_s");
    first = fmin(first, until.low - cli_record_number(r, "energy.window_s"));
    last = fmax(last, until.high);
  }
  if (!isfinite(least) || !isfinite(first)) return false;
  cli_answer_set(a, CLI_OPEN,
                 "no two lines of the power meter's log are within one sample: they go from %.0f "
                 "to %.0f s, samples from %.0f to %.0f",
                 least, most, first, last);
  return true;
}

static void answer_9(const cli_records *all, cli_answer *a) {
  cli_spread logged = differences(all, true), sampled = differences(all, false);
  if (logged.count > 0)
    cli_answer_set(a, logged.median < 3 ? CLI_HOLDS : CLI_FAILS,
                   "the power meter's log and the counter differ by %.2g %% (%.2g to %.2g)",
                   logged.median, logged.low, logged.high);
  else if (sampled.count == 0)
    cli_tee_answer_without_joules(all, a, "no product was measured");
  else if (!answer_unused_log(all, a))
    cli_answer_set(a, CLI_OPEN,
                   "there is no second instrument here. The meter's own samples and its energy "
                   "counter, which are one instrument, differ by %.2g %% (%.2g to %.2g)",
                   sampled.median, sampled.low, sampled.high);
}

/* Draws, of every product, how far the samples and, where there is one, the log are from the
 * counter. */
static bool draw_9(cli_stream *out, const cli_records *all, int width, bool alone) {
  enum { BARS_MOST = 96 };
  static char groups[BARS_MOST][96], texts[BARS_MOST][32];
  cli_bar bars[BARS_MOST];
  int count = 0;
  const cli_record *t;
  for (size_t at = 0; (t = cli_records_next(all, "single", &at)) != NULL;)
    for (int logged = 0; logged < 2 && count < BARS_MOST; logged++) {
      cli_spread found = differences_of(all, t, logged == 1);
      if (found.count == 0) continue;
      snprintf(groups[count], sizeof groups[count], "%s, %s", cli_record_text(t, "name"),
               cli_record_text(t, "family"));
      snprintf(texts[count], sizeof texts[count], "%.2g %%", found.median);
      bars[count] = (cli_bar){.group = groups[count],
                              .text = texts[count],
                              .name = logged ? "the log" : "own samples",
                              .note = "",
                              .hue = logged ? CLI_TEE_HUE_FUSED + 1 : CLI_TEE_HUE_OTHER,
                              .value = found.median,
                              .more = NAN,
                              .low = found.count > 1 ? found.low : (double)NAN,
                              .high = found.count > 1 ? found.high : (double)NAN};
      count++;
    }
  if (count == 0) return false;
  size_t at = 0;
  cli_bars chart = {
      .title = "Figure 9: difference from the energy counter's power",
      .subtitle = alone ? cli_record_text(cli_records_next(all, "about", &at), "machine") : "",
      .untitled = !alone,
      .unit = "%",
      .bars = bars,
      .count = count,
      .width = width,
      .mark = 3,
      .mark_name = "the poster: less than 3 %"};
  cli_chart_bars(out, &chart, alone);
  return true;
}

static void tell_9(cli_stream *out, const cli_records *all) {
  (void)all;
  cli_page_words(out,
                 "A log of a power meter in DIR/power.csv, lines of seconds since 1970 and watts, "
                 "is taken as the second instrument by mmchain report DIR.");
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static double shared_kib(const cli_record *t) {
  return cli_record_number(t, "shared_bytes_per_block") / 1024;
}
static double registers(const cli_record *t) {
  return cli_record_number(t, "registers_per_thread");
}
static double modelled_gb(const cli_record *t) {
  return 4e-9 * cli_record_number(t, "model_load_words");
}
static double loads_gb(const cli_record *t) {
  return 1e-9 * cli_record_number(t, "global_load_bytes");
}

static double l2_gb(const cli_record *t) {
  return 32e-9 * cli_record_number(t, "l2_read_sectors");
}

static const cli_tee_figure figure_12 = {.part = "tiles",
                                         .suffix = "",
                                         .title = "Figure 12: shared memory of a block",
                                         .unit = "KiB",
                                         .value = shared_kib,
                                         .sorted = true};
static const cli_tee_figure figure_13 = {.part = "tiles",
                                         .suffix = "",
                                         .title = "Figure 13: registers of a thread",
                                         .unit = "",
                                         .value = registers,
                                         .sorted = true};
static const cli_tee_figure figure_14_model = {
    .part = "tiles",
    .suffix = "",
    .title = "Figure 14: loads for each tile, by the theorem",
    .unit = "GB",
    .value = modelled_gb,
    .sorted = true};
static const cli_tee_figure figure_15 = {.part = "counters",
                                         .suffix = "",
                                         .title = "Figures 14 and 15: loads by the counters",
                                         .unit = "GB",
                                         .value = loads_gb,
                                         .sorted = true};
static const cli_tee_figure figure_15_l2 = {.part = "counters",
                                            .suffix = "",
                                            .title = "Figure 15: bytes read from L2",
                                            .unit = "GB",
                                            .value = l2_gb,
                                            .sorted = true};

static bool draw_12(cli_stream *out, const cli_records *all, int width, bool alone) {
  return cli_tee_draw(out, all, &figure_12, width, alone);
}
static bool draw_13(cli_stream *out, const cli_records *all, int width, bool alone) {
  return cli_tee_draw(out, all, &figure_13, width, alone);
}
static bool draw_14(cli_stream *out, const cli_records *all, int width, bool alone) {
  return cli_tee_draw(out, all, &figure_14_model, width, alone);
}
static bool draw_15(cli_stream *out, const cli_records *all, int width, bool alone) {
  return cli_tee_draw(out, all, &figure_15, width, alone);
}
static bool draw_15_l2(cli_stream *out, const cli_records *all, int width, bool alone) {
  return cli_tee_draw(out, all, &figure_15_l2, width, alone);
}
static void tell_tiles(cli_stream *out, const cli_records *all) {
  cli_tee_tell_reasons(out, all, "tiles", "");
}

/* The loads of each tile by the theorem beside those that were counted for the same product. */
static void tell_14(cli_stream *out, const cli_records *all) {
  static const cli_column columns[] = {{"kernel", false},
                                       {"by the theorem", true},
                                       {"sent to multiprocessors", true},
                                       {"read from L2", true}};
  bool begun = false;
  const cli_record *t, *c;
  for (size_t at = 0; (t = cli_records_next(all, "tiles", &at)) != NULL;)
    for (size_t from = 0; (c = cli_records_next(all, "counters", &from)) != NULL;) {
      if (!cli_record_has(c, "family", cli_record_text(t, "family")) ||
          !cli_record_has(c, "chain", cli_record_text(t, "chain")))
        continue;
      if (!begun) cli_page_table_begin(out, columns, sizeof columns / sizeof columns[0]);
      begun = true;
      cli_page_row_begin(out, false);
      cli_page_cell(out, cli_record_text(t, "family"));
      double gb[] = {modelled_gb(t), loads_gb(c), l2_gb(c)};
      for (int g = 0; g < 3; g++)
        cli_page_cell_number(out, cli_in_units(1e9 * gb[g], "B").text, gb[g]);
      cli_page_row_end(out);
    }
  if (begun) cli_page_table_end(out);
}

/* The value of the device's own kernel, and the most of those with large tiles. */
static bool against_plain(const cli_records *all, const char *part,
                          double (*value)(const cli_record *), double *plain, cli_spread *tees) {
  double values[CLI_TEE_RATIOS_MOST];
  int count = 0;
  const cli_record *t;
  *plain = NAN;
  for (size_t at = 0; (t = cli_records_next(all, part, &at)) != NULL;) {
    double one = value(t);
    const char *family = cli_record_text(t, "family");
    if (!isfinite(one)) continue;
    if (cli_tee_hue(family) == CLI_TEE_HUE_TEE && count < CLI_TEE_RATIOS_MOST)
      values[count++] = one;
    if (cli_tee_hue(family) == CLI_TEE_HUE_OTHER && !isfinite(*plain)) *plain = one;
  }
  *tees = cli_spread_of(values, count);
  return count > 0 && isfinite(*plain);
}

static void answer_12(const cli_records *all, cli_answer *a) {
  double plain;
  cli_spread tee;
  if (!against_plain(all, "tiles", shared_kib, &plain, &tee)) {
    cli_tee_cannot(all, a, (cli_spread){0}, false);
    return;
  }
  cli_answer_set(a, tee.median > 2 * plain ? CLI_HOLDS : CLI_FAILS,
                 "%.3g times cuBLAS's at the median (%.3g to %.3g KiB against %.3g)",
                 tee.median / plain, tee.low, tee.high, plain);
}

static void answer_13(const cli_records *all, cli_answer *a) {
  double plain;
  cli_spread tee;
  if (!against_plain(all, "tiles", registers, &plain, &tee)) {
    cli_tee_cannot(all, a, (cli_spread){0}, false);
    return;
  }
  cli_answer_set(a, tee.median > 2 * plain ? CLI_HOLDS : CLI_FAILS,
                 "%.3g registers at the median (%.3g to %.3g) against cuBLAS's %.3g; a thread has "
                 "at most 255",
                 tee.median, tee.low, tee.high, plain);
}

static const char no_counters[] =
    "counters were not read: scripts/check-gpu-counters MMCHAIN DIR reads them by ncu into "
    "DIR/counters.jsonl, which mmchain report DIR shows";

/* Returns the elements of a kernel's tile, as its name has them: "large_tile 256x128"; NaN where it
 * has none. */
static double tile_of(const cli_record *t) {
  const char *family = cli_record_text(t, "family"), *sides = strchr(family, ' ');
  int rows, cols;
  if (cli_tee_hue(family) != CLI_TEE_HUE_TEE || sides == NULL ||
      sscanf(sides, "%dx%d", &rows, &cols) != 2)
    return (double)NAN;
  return (double)rows * cols;
}

static void answer_14(const cli_records *all, cli_answer *a) {
  const cli_record *t, *small = NULL, *large = NULL;
  for (size_t at = 0; (t = cli_records_next(all, "counters", &at)) != NULL;) {
    if (!isfinite(tile_of(t)) || !isfinite(loads_gb(t))) continue;
    if (small == NULL || tile_of(t) < tile_of(small)) small = t;
    if (large == NULL || tile_of(t) > tile_of(large)) large = t;
  }
  if (small == NULL || tile_of(small) == tile_of(large)) {
    cli_answer_set(a, CLI_OPEN, "the picture is the theorem, no measurement; %s", no_counters);
    return;
  }
  cli_answer_set(a, loads_gb(large) < loads_gb(small) ? CLI_HOLDS : CLI_FAILS,
                 "%.3g GB by the smallest tile, %.3g GB by the largest", loads_gb(small),
                 loads_gb(large));
}

/* The poster's card sends what it reads from L2 to one multiprocessor. Where blocks share by
 * multicast there are two numbers, and the claim is judged by both. */
static void answer_loads(const cli_records *all, cli_answer *a, double (*bytes)(const cli_record *),
                         const char *how) {
  double plain;
  cli_spread tee;
  if (!against_plain(all, "counters", bytes, &plain, &tee)) {
    cli_answer_set(a, CLI_OPEN, "%s", no_counters);
    return;
  }
  cli_answer_set(a, tee.low <= 0.34 * plain ? CLI_HOLDS : CLI_FAILS,
                 "%.3g GB %s with the best tile, %.3g by cuBLAS: %.0f %% fewer", tee.low, how,
                 plain, 100 * (1 - tee.low / plain));
}

static void answer_15(const cli_records *all, cli_answer *a) {
  answer_loads(all, a, loads_gb, "are sent to multiprocessors");
}

static void answer_15_l2(const cli_records *all, cli_answer *a) {
  answer_loads(all, a, l2_gb, "are read from L2, once for all blocks of a cluster,");
}

/* ---- fused products -------------------------------------------------------------------------- */

static const cli_tee_figure figure_16 = {.part = "fused",
                                         .suffix = "",
                                         .title = "Figure 16: power of two products in one kernel",
                                         .unit = "",
                                         .mark_name = "two kernels = 1",
                                         .field = "watts_samples",
                                         .ratio = true};
static const cli_tee_figure figure_17 = {.part = "fused",
                                         .suffix = "",
                                         .title = "Figure 17: energy of two products in one kernel",
                                         .unit = "",
                                         .mark_name = "two kernels = 1",
                                         .field = "joules_samples",
                                         .ratio = true};
static bool draw_16(cli_stream *out, const cli_records *all, int width, bool alone) {
  return cli_tee_draw(out, all, &figure_16, width, alone);
}
static bool draw_17(cli_stream *out, const cli_records *all, int width, bool alone) {
  return cli_tee_draw(out, all, &figure_17, width, alone);
}
static void tell_fused(cli_stream *out, const cli_records *all) {
  cli_page_words(out,
                 "The poster does not print the sizes of its fused products. These are two "
                 "products around a narrow intermediate, 2^20 rows long on a GPU, and the chain of "
                 "the poster's table with the pairs that its prices, or exact ones, fuse.");
  cli_tee_tell_reasons(out, all, "fused", "");
}
static void answer_16(const cli_records *all, cli_answer *a) {
  cli_spread found = cli_tee_ratios(all, "fused", "", NULL, "fused", "watts_samples");
  if (cli_tee_cannot(all, a, found, true)) return;
  cli_answer_set(a, found.median < 1 ? CLI_HOLDS : CLI_FAILS,
                 "the fused kernel takes %.3f of the power (%d trials run fused)", found.median,
                 found.count);
}
static void answer_17(const cli_records *all, cli_answer *a) {
  cli_spread found = cli_tee_ratios(all, "fused", "", NULL, "fused", "joules_samples"),
             seconds = cli_tee_ratios(all, "fused", "", NULL, "fused", "seconds_samples");
  if (cli_tee_cannot(all, a, found, true)) return;
  cli_answer_set(a, found.median < 1 ? CLI_BEATEN : CLI_HOLDS,
                 "the fused kernel takes %.3f of the joules in %.3f of the time (%d trials run "
                 "fused), without atomics",
                 found.median, seconds.median, found.count);
}

/* ---- the exhibits ---------------------------------------------------------------------------- */

static const cli_exhibit exhibits[] = {
    {"Figure 9", "two instruments",
     "less than 3 % difference between the power meter (PCAT) and NVML on average.", answer_9,
     draw_9, tell_9},
    {"Figure 10", "power of one product", "30 % less power than cuBLAS on average.", answer_10,
     draw_10, tell_single},
    {"Figure 11", "energy of one product", "8 % less energy than cuBLAS on average, at most 21 %.",
     answer_11, draw_11, tell_single},
    {"Time", "time of one product", "20 % more time than cuBLAS on average.", answer_time,
     draw_time, NULL},
    {"Figure 12", "shared memory", "more than twice the on-chip memory of cuBLAS.", answer_12,
     draw_12, tell_tiles},
    {"Figure 13", "registers", "more than twice the on-chip memory of cuBLAS.", answer_13, draw_13,
     NULL},
    {"Figure 14", "tile size", "larger tiles load significantly less.", answer_14, draw_14,
     tell_14},
    {"Figure 15", "global loads", "66 % fewer global loads than cuBLAS.", answer_15, draw_15, NULL},
    {"Figure 15, L2", "global loads, as L2 reads them", "66 % fewer global loads than cuBLAS.",
     answer_15_l2, draw_15_l2, NULL},
    {"Figure 16", "power of two products in one kernel", "the fused kernel takes less power.",
     answer_16, draw_16, tell_fused},
    {"Figure 17", "energy of two products in one kernel",
     "the fused kernel takes more energy: its time decides, which atomic additions prolong.",
     answer_17, draw_17, tell_fused}};

const cli_exhibits cli_tee_acm2_products = {exhibits, sizeof exhibits / sizeof exhibits[0]};
