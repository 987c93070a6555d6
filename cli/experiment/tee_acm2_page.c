/* tee_acm2_page.c: the figures, the table and the claims of the TEE-ACM2 poster, beside what was
 * measured here. */
#include "tee_acm2_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../chart.h"
#include "../page.h"
#include "../xml.h"
#include "laboratory.h"

/* A family of kernels has one hue in all figures. */
enum { HUE_PLAIN = 0, HUE_TEE = 1, HUE_FAITHFUL = 2, HUE_FUSED = 3, HUE_OTHER = 6 };
enum { BARS_MOST = 96, RATIOS_MOST = 96 };

static int hue_of(const char *family) {
  if (strcmp(family, "plain") == 0) return HUE_PLAIN;
  if (strcmp(family, "tee") == 0 || strncmp(family, "large_tile", 10) == 0) return HUE_TEE;
  if (strcmp(family, "faithful") == 0) return HUE_FAITHFUL;
  return strcmp(family, "fused") == 0 ? HUE_FUSED : HUE_OTHER;
}

static bool is_gpu(const cli_records *all) {
  size_t at = 0;
  return strncmp(cli_record_text(cli_records_next(all, "about", &at), "device"), "cuda", 4) == 0;
}

/* Says why there are no joules; "" when there are. */
static const char *without_joules(const cli_records *all) {
  size_t at = 0;
  return cli_record_text(cli_records_next(all, "about", &at), "joules_reason");
}

/* Answers that there are no joules, and why, or else what was not measured. */
static void answer_without_joules(const cli_records *all, cli_answer *out, const char *missing) {
  const char *reason = without_joules(all);
  if (reason[0] != '\0')
    cli_answer_set(out, CLI_OPEN, "no joules: %s", reason);
  else
    cli_answer_set(out, CLI_OPEN, "%s", missing);
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* ---- ratios to the plain kernels ------------------------------------------------------------- */

static double sample(const cli_record *r, const char *field, int i) {
  char name[64];
  snprintf(name, sizeof name, "%s.%d", field, i);
  return cli_record_number(r, name);
}

/* Returns the trial of the same part, name, order and chain by the plain kernels. */
static const cli_record *plain_of(const cli_records *all, const cli_record *t) {
  const cli_record *p;
  for (size_t at = 0; (p = cli_records_next(all, cli_record_text(t, "part"), &at)) != NULL;)
    if (cli_record_has(p, "name", cli_record_text(t, "name")) &&
        cli_record_has(p, "order", cli_record_text(t, "order")) &&
        cli_record_has(p, "family", "plain"))
      return p;
  return NULL;
}

/* Returns the quotients of samples that were taken one after the other. */
static cli_spread ratio_of(const cli_record *over, const cli_record *under, const char *field) {
  double values[CLI_REPEATS_MOST];
  int count = 0;
  for (int i = 0; i < CLI_REPEATS_MOST && over != NULL && under != NULL; i++) {
    double ratio = sample(over, field, i) / sample(under, field, i);
    if (isfinite(ratio)) values[count++] = ratio;
  }
  return cli_spread_of(values, count);
}

/* The ratios of a family's trials of a part to the plain ones, of those that were measured
 * themselves. order NULL means any. */
static cli_spread ratios(const cli_records *all, const char *part, const char *suffix,
                         const char *order, const char *family, const char *field) {
  double values[RATIOS_MOST];
  int count = 0;
  const cli_record *t;
  for (size_t at = 0; (t = cli_records_next(all, part, &at)) != NULL;) {
    if (!cli_record_has(t, "family", family) || !ends_with(cli_record_text(t, "name"), suffix) ||
        (order != NULL && !cli_record_has(t, "order", order)) ||
        cli_record_text(t, "measured_as")[0] != '\0')
      continue;
    cli_spread ratio = ratio_of(t, plain_of(all, t), field);
    if (ratio.count > 0 && count < RATIOS_MOST) values[count++] = ratio.median;
  }
  return cli_spread_of(values, count);
}

/* The ratios of OP_Count to in-order by the plain kernels, of chains whose names begin so. */
static cli_spread tree_ratios(const cli_records *all, const char *begin, const char *end,
                              const char *field) {
  double values[RATIOS_MOST];
  int count = 0;
  const cli_record *t, *u;
  for (size_t at = 0; (t = cli_records_next(all, "chains", &at)) != NULL;) {
    const char *name = cli_record_text(t, "name");
    if (!cli_record_has(t, "order", "OP_Count") || !cli_record_has(t, "family", "plain") ||
        strncmp(name, begin, strlen(begin)) != 0 || !ends_with(name, end))
      continue;
    for (size_t from = 0; (u = cli_records_next(all, "chains", &from)) != NULL;) {
      if (!cli_record_has(u, "name", name) || !cli_record_has(u, "order", "in-order") ||
          !cli_record_has(u, "family", "plain"))
        continue;
      cli_spread ratio = ratio_of(t, u, field);
      for (int i = 0; i < CLI_REPEATS_MOST && ratio.count > 0; i++) {
        double one = sample(t, field, i) / sample(u, field, i);
        if (isfinite(one) && count < RATIOS_MOST) values[count++] = one;
      }
    }
  }
  return cli_spread_of(values, count);
}

/* Answers for a claim about a GPU's kernels, where there is none. Returns whether it did. */
static bool cannot(const cli_records *all, cli_answer *out, cli_spread found, bool of_joules) {
  if (found.count > 0 && is_gpu(all)) return false;
  if (!is_gpu(all))
    cli_answer_set(out, CLI_OPEN,
                   "the claim is about a GPU's kernels, and this was measured on a processor: --on "
                   "cuda runs it");
  else if (of_joules)
    answer_without_joules(all, out, "no trial of it was measured");
  else
    cli_answer_set(out, CLI_OPEN, "no trial of it was measured");
  return true;
}

/* ---- bars ------------------------------------------------------------------------------------ */

typedef struct bar_words {
  char group[96], note[64], text[48];
} bar_words;

/* What a figure shows of each trial. */
typedef struct figure {
  const char *part, *suffix, *title, *unit, *mark_name;
  const char *field; /* of samples; NULL where value is asked */
  double (*value)(const cli_record *t);
  bool ratio;  /* to the plain kernels, which then have no bars; else as it is */
  bool sorted; /* by value, as there is no other order */
  bool creation;
} figure;

static cli_bar bar_of(const cli_records *all, const figure *f, const cli_record *t,
                      bar_words *words) {
  const char *as = cli_record_text(t, "measured_as");
  bool chains = strcmp(f->part, "chains") == 0;
  cli_bar bar = {.group = words->group,
                 .name = cli_record_text(t, "family"),
                 .note = words->note,
                 .hue = hue_of(cli_record_text(t, "family")),
                 .value = NAN,
                 .more = NAN,
                 .low = NAN,
                 .high = NAN,
                 .faint = as[0] != '\0'};
  snprintf(words->group, sizeof words->group, "%s%s%s", cli_record_text(t, "name"),
           chains ? ", " : "", chains ? cli_record_text(t, "order") : "");
  if (f->field != NULL) {
    cli_spread spread =
        f->ratio ? ratio_of(t, plain_of(all, t), f->field) : cli_record_spread(t, f->field);
    bar.value = spread.median;
    if (spread.count > 1) bar.low = spread.low, bar.high = spread.high;
  } else {
    bar.value = f->value(t);
  }
  if (f->creation) {
    bar.more = bar.value;
    bar.value = cli_record_number(t, "plan_s") + cli_record_number(t, "create_s");
    if (isfinite(bar.low)) bar.low += bar.value, bar.high += bar.value;
  }
  if (as[0] != '\0') snprintf(words->note, sizeof words->note, "the same plan as %s", as);
  if (!cli_record_is(t, "measured"))
    snprintf(words->note, sizeof words->note, "did not run: below");
  if (!isfinite(bar.value)) {
    bar.text = "";
    if (words->note[0] == '\0') snprintf(words->note, sizeof words->note, "not known");
  }
  return bar;
}

static int by_value(const void *a, const void *b) {
  double x = ((const cli_bar *)a)->value, y = ((const cli_bar *)b)->value;
  return (x < y) - (x > y);
}

/* Adds the percentages that the poster prints beside its bars of joules. */
static void add_percentages(const cli_records *all, const cli_record *t, bar_words *words) {
  cli_spread ratio = {.count = 0};
  if (strcmp(cli_record_text(t, "measured_as"), "") != 0) return;
  if (!cli_record_has(t, "family", "plain")) {
    ratio = ratio_of(t, plain_of(all, t), "joules_samples");
    if (ratio.count > 0)
      snprintf(words->note, sizeof words->note, "%.1f %% of plain", 100 * ratio.median);
  } else if (!cli_record_has(t, "order", "in-order")) {
    char name[64];
    snprintf(name, sizeof name, "%s", cli_record_text(t, "name"));
    const cli_record *u;
    for (size_t at = 0; (u = cli_records_next(all, "chains", &at)) != NULL;)
      if (cli_record_has(u, "name", name) && cli_record_has(u, "order", "in-order") &&
          cli_record_has(u, "family", "plain"))
        ratio = ratio_of(t, u, "joules_samples");
    if (ratio.count > 0)
      snprintf(words->note, sizeof words->note, "%.1f %% of in-order", 100 * ratio.median);
  }
}

static bool draw_figure(cli_stream *out, const cli_records *all, const figure *f, int width,
                        bool alone) {
  cli_bar bars[BARS_MOST];
  static bar_words words[BARS_MOST];
  int count = 0, known = 0;
  const cli_record *t;
  memset(words, 0, sizeof words);
  for (size_t at = 0; (t = cli_records_next(all, f->part, &at)) != NULL && count < BARS_MOST;) {
    if (!ends_with(cli_record_text(t, "name"), f->suffix)) continue;
    if (f->ratio && cli_record_has(t, "family", "plain")) continue;
    bars[count] = bar_of(all, f, t, &words[count]);
    if (strcmp(f->unit, "J") == 0) add_percentages(all, t, &words[count]);
    known += isfinite(bars[count].value);
    count++;
  }
  if (known == 0) return false;
  if (f->sorted) qsort(bars, (size_t)count, sizeof bars[0], by_value);
  size_t at = 0;
  cli_bars chart = {
      .title = f->title,
      .subtitle = alone ? cli_record_text(cli_records_next(all, "about", &at), "machine") : "",
      .untitled = !alone,
      .unit = f->ratio ? "" : f->unit,
      .bars = bars,
      .count = count,
      .width = width,
      .mark = f->ratio ? 1 : 0,
      .mark_name = f->mark_name};
  if (f->creation) {
    chart.parts[0] = "planning and creation";
    chart.parts[1] = "computation";
  }
  cli_chart_bars(out, &chart, alone);
  return true;
}

/* Says whether an earlier trial of the part whose name ends so did not run for the same reason. */
static bool is_told(const cli_records *all, const char *part, const char *suffix,
                    const cli_record *until) {
  const cli_record *t;
  const char *reason = cli_record_text(until, "reason");
  for (size_t at = 0; (t = cli_records_next(all, part, &at)) != NULL && t != until;)
    if (cli_record_has(t, "reason", reason) && ends_with(cli_record_text(t, "name"), suffix))
      return true;
  return false;
}

/* Tells every reason for which trials did not run, once. */
static void tell_reasons(cli_stream *out, const cli_records *all, const char *part,
                         const char *suffix) {
  const cli_record *t;
  for (size_t at = 0; (t = cli_records_next(all, part, &at)) != NULL;) {
    const char *reason = cli_record_text(t, "reason");
    if (reason[0] == '\0' || !ends_with(cli_record_text(t, "name"), suffix)) continue;
    if (is_told(all, part, suffix, t)) continue;
    cli_page_words(out, "%s, %s did not run: %s.", cli_record_text(t, "name"),
                   cli_record_text(t, "family"), reason);
  }
}

/* ---- single products ------------------------------------------------------------------------- */

static const figure figure_10 = {.part = "single",
                                 .suffix = "",
                                 .title = "Figure 10: power of one product",
                                 .unit = "",
                                 .mark_name = "plain = 1",
                                 .field = "watts_samples",
                                 .ratio = true};
static const figure figure_11 = {.part = "single",
                                 .suffix = "",
                                 .title = "Figure 11: energy of one product",
                                 .unit = "",
                                 .mark_name = "plain = 1",
                                 .field = "joules_samples",
                                 .ratio = true};
static const figure figure_time = {.part = "single",
                                   .suffix = "",
                                   .title = "Time of one product",
                                   .unit = "",
                                   .mark_name = "plain = 1",
                                   .field = "seconds_samples",
                                   .ratio = true};

static bool draw_10(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_figure(out, all, &figure_10, width, alone);
}
static bool draw_11(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_figure(out, all, &figure_11, width, alone);
}
static bool draw_time(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_figure(out, all, &figure_time, width, alone);
}

static void tell_single(cli_stream *out, const cli_records *all) {
  cli_page_words(out,
                 "plain is the device's own kernel (FP32 of cuBLAS on a GPU), tee the large tiles, "
                 "faithful FP32 by three bytes on tensor cores. Each family has one colour in all "
                 "figures.");
  tell_reasons(out, all, "single", "");
}

static void answer_10(const cli_records *all, cli_answer *a) {
  cli_spread found = ratios(all, "single", "", NULL, "tee", "watts_samples");
  if (cannot(all, a, found, true)) return;
  cli_answer_set(a,
                 found.median <= 0.70   ? CLI_BEATEN
                 : found.median <= 0.71 ? CLI_HOLDS
                                        : CLI_FAILS,
                 "tee takes %.3f (%.3f to %.3f) of cuBLAS's power", found.median, found.low,
                 found.high);
}

static void answer_11(const cli_records *all, cli_answer *a) {
  cli_spread tee = ratios(all, "single", "", NULL, "tee", "joules_samples"),
             faithful = ratios(all, "single", "", NULL, "faithful", "joules_samples");
  if (cannot(all, a, tee, true)) return;
  cli_answer_set(a,
                 tee.median < 0.915   ? CLI_BEATEN
                 : tee.median < 0.925 ? CLI_HOLDS
                                      : CLI_FAILS,
                 "tee takes %.3f (%.3f to %.3f) of cuBLAS's joules, faithful %.3f", tee.median,
                 tee.low, tee.high, faithful.median);
}

static void answer_time(const cli_records *all, cli_answer *a) {
  cli_spread tee = ratios(all, "single", "", NULL, "tee", "seconds_samples");
  if (cannot(all, a, tee, false)) return;
  cli_answer_set(a,
                 tee.median < 1.19   ? CLI_BEATEN
                 : tee.median < 1.21 ? CLI_HOLDS
                                     : CLI_FAILS,
                 "tee takes %.3f (%.3f to %.3f) of cuBLAS's time", tee.median, tee.low, tee.high);
}

/* ---- Figure 9: two instruments --------------------------------------------------------------- */

/* Mean watts of the other instrument's log while a sample was taken; NaN where it has none. */
static double logged_watts(const cli_records *all, const cli_record *t, int i) {
  double until = sample(t, "until_s", i), from = until - cli_record_number(t, "energy.window_s");
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

/* Differences in percent between two powers of every sample of single products. */
static cli_spread differences(const cli_records *all, bool logged) {
  double values[RATIOS_MOST];
  int count = 0;
  const cli_record *t;
  for (size_t at = 0; (t = cli_records_next(all, "single", &at)) != NULL;)
    for (int i = 0; i < CLI_REPEATS_MOST && count < RATIOS_MOST; i++) {
      double other = logged ? logged_watts(all, t, i) : sample(t, "sampled_watts_samples", i);
      double difference = 100 * fabs(other / sample(t, "watts_samples", i) - 1);
      if (isfinite(difference)) values[count++] = difference;
    }
  return cli_spread_of(values, count);
}

static void answer_9(const cli_records *all, cli_answer *a) {
  cli_spread logged = differences(all, true), sampled = differences(all, false);
  if (logged.count > 0)
    cli_answer_set(a, logged.median < 3 ? CLI_HOLDS : CLI_FAILS,
                   "the power meter's log and the counter differ by %.2g %% (%.2g to %.2g)",
                   logged.median, logged.low, logged.high);
  else if (sampled.count > 0)
    cli_answer_set(a, CLI_OPEN,
                   "there is no second instrument here. The meter's own samples and its energy "
                   "counter, which are one instrument, differ by %.2g %% (%.2g to %.2g)",
                   sampled.median, sampled.low, sampled.high);
  else
    answer_without_joules(all, a, "no product was measured");
}

static double crosscheck(const cli_record *t) {
  return 100 * fabs(cli_record_spread(t, "sampled_watts_samples").median /
                        cli_record_spread(t, "watts_samples").median -
                    1);
}
static const figure figure_9 = {.part = "single",
                                .suffix = "",
                                .title = "Figure 9: power as sampled against the counter",
                                .unit = "%",
                                .value = crosscheck};
static bool draw_9(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_figure(out, all, &figure_9, width, alone);
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

static const figure figure_12 = {.part = "tiles",
                                 .suffix = "",
                                 .title = "Figure 12: shared memory of a block",
                                 .unit = "KiB",
                                 .value = shared_kib,
                                 .sorted = true};
static const figure figure_13 = {.part = "tiles",
                                 .suffix = "",
                                 .title = "Figure 13: registers of a thread",
                                 .unit = "",
                                 .value = registers,
                                 .sorted = true};
static const figure figure_14_model = {.part = "tiles",
                                       .suffix = "",
                                       .title = "Figure 14: loads for each tile, by the theorem",
                                       .unit = "GB",
                                       .value = modelled_gb,
                                       .sorted = true};
static const figure figure_15 = {.part = "counters",
                                 .suffix = "",
                                 .title = "Figures 14 and 15: loads by the counters",
                                 .unit = "GB",
                                 .value = loads_gb,
                                 .sorted = true};

static bool draw_12(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_figure(out, all, &figure_12, width, alone);
}
static bool draw_13(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_figure(out, all, &figure_13, width, alone);
}
static bool draw_14(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_figure(out, all, &figure_14_model, width, alone);
}
static bool draw_15(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_figure(out, all, &figure_15, width, alone);
}
static void tell_tiles(cli_stream *out, const cli_records *all) {
  tell_reasons(out, all, "tiles", "");
}

/* The value of the device's own kernel, and the most of those with large tiles. */
static bool against_plain(const cli_records *all, const char *part,
                          double (*value)(const cli_record *), double *plain, cli_spread *tees) {
  double values[RATIOS_MOST];
  int count = 0;
  const cli_record *t;
  *plain = NAN;
  for (size_t at = 0; (t = cli_records_next(all, part, &at)) != NULL;) {
    double one = value(t);
    const char *family = cli_record_text(t, "family");
    if (!isfinite(one)) continue;
    if (hue_of(family) == HUE_TEE && count < RATIOS_MOST) values[count++] = one;
    if (hue_of(family) == HUE_OTHER && !isfinite(*plain)) *plain = one;
  }
  *tees = cli_spread_of(values, count);
  return count > 0 && isfinite(*plain);
}

static void answer_12(const cli_records *all, cli_answer *a) {
  double plain;
  cli_spread tee;
  if (!against_plain(all, "tiles", shared_kib, &plain, &tee)) {
    cannot(all, a, (cli_spread){0}, false);
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
    cannot(all, a, (cli_spread){0}, false);
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

static void answer_14(const cli_records *all, cli_answer *a) {
  double plain;
  cli_spread tee;
  if (!against_plain(all, "counters", loads_gb, &plain, &tee)) {
    cli_answer_set(a, CLI_OPEN, "the picture is the theorem, no measurement; %s", no_counters);
    return;
  }
  cli_answer_set(a, tee.low < tee.high ? CLI_HOLDS : CLI_FAILS,
                 "%.3g GB by the smallest tile, %.3g GB by the largest", tee.high, tee.low);
}

static void answer_15(const cli_records *all, cli_answer *a) {
  double plain;
  cli_spread tee;
  if (!against_plain(all, "counters", loads_gb, &plain, &tee)) {
    cli_answer_set(a, CLI_OPEN, "%s", no_counters);
    return;
  }
  cli_answer_set(a, tee.low <= 0.34 * plain ? CLI_HOLDS : CLI_FAILS,
                 "the best tile loads %.3g GB, cuBLAS %.3g: %.0f %% fewer", tee.low, plain,
                 100 * (1 - tee.low / plain));
}

/* ---- fused products -------------------------------------------------------------------------- */

static const figure figure_16 = {.part = "fused",
                                 .suffix = "",
                                 .title = "Figure 16: power of two products in one kernel",
                                 .unit = "",
                                 .mark_name = "two kernels = 1",
                                 .field = "watts_samples",
                                 .ratio = true};
static const figure figure_17 = {.part = "fused",
                                 .suffix = "",
                                 .title = "Figure 17: energy of two products in one kernel",
                                 .unit = "",
                                 .mark_name = "two kernels = 1",
                                 .field = "joules_samples",
                                 .ratio = true};
static bool draw_16(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_figure(out, all, &figure_16, width, alone);
}
static bool draw_17(cli_stream *out, const cli_records *all, int width, bool alone) {
  return draw_figure(out, all, &figure_17, width, alone);
}
static void tell_fused(cli_stream *out, const cli_records *all) {
  cli_page_words(out,
                 "The poster does not print the sizes of its fused products. These are two "
                 "products around a narrow intermediate, 2^20 rows long on a GPU.");
  tell_reasons(out, all, "fused", "");
}
static void answer_16(const cli_records *all, cli_answer *a) {
  cli_spread found = ratios(all, "fused", "", NULL, "fused", "watts_samples");
  if (cannot(all, a, found, true)) return;
  cli_answer_set(a, found.median < 1 ? CLI_HOLDS : CLI_FAILS,
                 "the fused kernel takes %.3f of the power (%d of the pairs run fused)",
                 found.median, found.count);
}
static void answer_17(const cli_records *all, cli_answer *a) {
  cli_spread found = ratios(all, "fused", "", NULL, "fused", "joules_samples");
  if (cannot(all, a, found, true)) return;
  cli_answer_set(a, found.median < 1 ? CLI_BEATEN : CLI_HOLDS,
                 "the fused kernel takes %.3f of the joules (%d of the pairs run fused), without "
                 "atomics",
                 found.median, found.count);
}

/* ---- chains ---------------------------------------------------------------------------------- */

#define CHAIN_FIGURES(number, matrices, end)                                             \
  static const figure figure_time_##matrices = {                                         \
      .part = "chains",                                                                  \
      .suffix = end,                                                                     \
      .title = "Time of creation and computation, " #matrices " matrices",               \
      .unit = "s",                                                                       \
      .field = "seconds_samples",                                                        \
      .creation = true};                                                                 \
  static const figure figure_joules_##matrices = {                                       \
      .part = "chains",                                                                  \
      .suffix = end,                                                                     \
      .title = "Energy of computation, " #matrices " matrices",                          \
      .unit = "J",                                                                       \
      .field = "joules_samples"};                                                        \
  static bool draw_time_##matrices(cli_stream *out, const cli_records *all, int width,   \
                                   bool alone) {                                         \
    return draw_figure(out, all, &figure_time_##matrices, width, alone);                 \
  }                                                                                      \
  static bool draw_joules_##matrices(cli_stream *out, const cli_records *all, int width, \
                                     bool alone) {                                       \
    return draw_figure(out, all, &figure_joules_##matrices, width, alone);               \
  }                                                                                      \
  static void tell_time_##matrices(cli_stream *out, const cli_records *all) {            \
    tell_creation(out, all, end);                                                        \
  }                                                                                      \
  static void answer_time_##matrices(const cli_records *all, cli_answer *a) {            \
    answer_chain_time(all, a, end);                                                      \
  }                                                                                      \
  static void answer_joules_##matrices(const cli_records *all, cli_answer *a) {          \
    answer_chain_joules(all, a, end);                                                    \
  }

/* A table of what is too short to be seen in the picture: planning and creation. */
static void tell_creation(cli_stream *out, const cli_records *all, const char *suffix) {
  static const cli_column columns[] = {{"chain", false},   {"order", false},
                                       {"kernels", false}, {"planning", true},
                                       {"creation", true}, {"computation", true}};
  const cli_record *t;
  cli_page_table_begin(out, columns, sizeof columns / sizeof columns[0]);
  for (size_t at = 0; (t = cli_records_next(all, "chains", &at)) != NULL;) {
    if (!ends_with(cli_record_text(t, "name"), suffix) || !cli_record_is(t, "measured") ||
        cli_record_text(t, "measured_as")[0] != '\0')
      continue;
    cli_page_row_begin(out, false);
    cli_page_cell(out, cli_record_text(t, "name"));
    cli_page_cell(out, cli_record_text(t, "order"));
    cli_page_cell(out, cli_record_text(t, "family"));
    double plan_s = cli_record_number(t, "plan_s");
    cli_page_cell_number(out, cli_in_units(plan_s, "s").text, plan_s);
    cli_spread create = cli_record_spread(t, "create_samples");
    cli_page_cell_number(out, cli_with_spread(create, "s").text, create.median);
    cli_spread seconds = cli_record_spread(t, "seconds_samples");
    cli_page_cell_number(out, cli_with_spread(seconds, "s").text, seconds.median);
    cli_page_row_end(out);
  }
  cli_page_table_end(out);
  cli_page_words(out,
                 "Planning is the shortest of five; creation is that of workspace and kernels, "
                 "sample by sample, after a first one that counts for none. Faint bars were not "
                 "measured: their plan is that of another order.");
  tell_reasons(out, all, "chains", suffix);
}

static void answer_chain_time(const cli_records *all, cli_answer *a, const char *end) {
  cli_spread worst = tree_ratios(all, "worst", end, "seconds_samples"),
             best = tree_ratios(all, "best", end, "seconds_samples"),
             random = tree_ratios(all, "random", end, "seconds_samples");
  if (worst.count == 0) {
    cli_answer_set(a, CLI_OPEN, "no chain was measured");
    return;
  }
  cli_answer_set(a, worst.median < 1 ? CLI_HOLDS : CLI_FAILS,
                 "with the tree the computation takes %.3f of the time in the worst case, %.3f at "
                 "random, %.3f (%.3f to %.3f) in the best",
                 worst.median, random.median, best.median, best.low, best.high);
}

static void answer_chain_joules(const cli_records *all, cli_answer *a, const char *end) {
  cli_spread worst = tree_ratios(all, "worst", end, "joules_samples"),
             random = tree_ratios(all, "random", end, "joules_samples"),
             tee = ratios(all, "chains", end, "OP_Count", "tee", "joules_samples");
  if (worst.count == 0) {
    answer_without_joules(all, a, "no chain was measured");
    return;
  }
  cli_answer_set(a,
                 worst.median < 0.5    ? CLI_BEATEN
                 : worst.median < 0.55 ? CLI_HOLDS
                                       : CLI_FAILS,
                 "with the tree %.3f of the joules in the worst case, %.3f at random", worst.median,
                 random.median);
  size_t used = strlen(a->ours);
  if (tee.count > 0)
    snprintf(a->ours + used, sizeof a->ours - used, "; tee takes %.3f (%.3f to %.3f) of plain's",
             tee.median, tee.low, tee.high);
  else
    snprintf(a->ours + used, sizeof a->ours - used, "; no kernel of large tiles runs here");
}

CHAIN_FIGURES(18, 6, "-6")
CHAIN_FIGURES(19, 12, "-12")

static void answer_tree(const cli_records *all, cli_answer *a) {
  cli_spread seconds = tree_ratios(all, "best", "", "seconds_samples"),
             joules = tree_ratios(all, "best", "", "joules_samples");
  double planning = 0;
  const cli_record *t;
  for (size_t at = 0; (t = cli_records_next(all, "chains", &at)) != NULL;)
    if (cli_record_has(t, "order", "OP_Count") && cli_record_has(t, "family", "plain") &&
        strncmp(cli_record_text(t, "name"), "best", 4) == 0)
      planning = fmax(planning, cli_record_number(t, "plan_s") / cli_record_number(t, "seconds"));
  if (seconds.count == 0) {
    cli_answer_set(a, CLI_OPEN, "no chain was measured");
    return;
  }
  bool cheap = planning < 0.02;
  cli_answer_set(a, cheap ? CLI_BEATEN : CLI_HOLDS,
                 "planning takes %.2g %% of the time at most; measured again, the same plan takes "
                 "%+.2f %% of the time (%+.2f to %+.2f)%s",
                 100 * planning, 100 * (seconds.median - 1), 100 * (seconds.low - 1),
                 100 * (seconds.high - 1),
                 joules.count > 0 ? "" : "; joules are not measured here");
  if (joules.count > 0) {
    size_t used = strlen(a->ours);
    snprintf(a->ours + used, sizeof a->ours - used, " and %+.2f %% of the joules (%+.2f to %+.2f)",
             100 * (joules.median - 1), 100 * (joules.low - 1), 100 * (joules.high - 1));
  }
}

static void answer_tee_chains(const cli_records *all, cli_answer *a) {
  cli_spread tee = ratios(all, "chains", "", "OP_Count", "tee", "joules_samples"),
             faithful = ratios(all, "chains", "", "OP_Count", "faithful", "joules_samples");
  if (cannot(all, a, tee, true)) return;
  cli_answer_set(a,
                 tee.median < 0.9     ? CLI_BEATEN
                 : tee.median <= 0.95 ? CLI_HOLDS
                                      : CLI_FAILS,
                 "%.1f %% less at the median (%.1f to %.1f); faithful %.1f %% less",
                 100 * (1 - tee.median), 100 * (1 - tee.high), 100 * (1 - tee.low),
                 100 * (1 - faithful.median));
}

/* ---- the model ------------------------------------------------------------------------------- */

/* The poster's table: no fuse, left, right; 0 for a dash. The two fuse values of T5 stand in each
 * other's columns there, as far as its text shows. */
static const struct {
  const char *node;
  double no_fuse, left_fuse, right_fuse;
  const char *chosen;
  int tile_rows, tile_cols;
} printed[] = {{"T1", 1599696, 0, 0, "no_fuse", 256, 256},
               {"T2", 4683168, 0, 3072693, "right_fuse", 304, 208},
               {"T3", 1799336, 0, 0, "no_fuse", 256, 256},
               {"T4", 3116960, 2942313, 0, "left_fuse", 216, 296},
               {"T5", 8243798, 9136171, 9364761, "no_fuse", 256, 256}};

static const cli_record *decision(const cli_records *all, const char *fuse, const char *node) {
  const cli_record *r;
  for (size_t at = 0; (r = cli_records_next(all, "decision", &at)) != NULL;)
    if (cli_record_has(r, "fuse", fuse) && cli_record_has(r, "node", node)) return r;
  return NULL;
}

static bool same_cell(const cli_record *r, const char *name, double value) {
  double got = cli_record_number(r, name);
  return value == 0 ? !isfinite(got) : got == value;
}

static void answer_decisions(const cli_records *all, cli_answer *a) {
  int same = 0, cells = 0;
  for (size_t row = 0; row < sizeof printed / sizeof printed[0]; row++) {
    const cli_record *r = decision(all, "poster", printed[row].node);
    if (r == NULL) continue;
    cells += 6;
    same += same_cell(r, "no_fuse", printed[row].no_fuse) +
            same_cell(r, "left_fuse", printed[row].left_fuse) +
            same_cell(r, "right_fuse", printed[row].right_fuse) +
            cli_record_has(r, "chosen", printed[row].chosen) +
            (cli_record_number(r, "tile_rows") == printed[row].tile_rows) +
            (cli_record_number(r, "tile_cols") == printed[row].tile_cols);
  }
  if (cells == 0) return;
  cli_answer_set(a, same == cells ? CLI_HOLDS : CLI_FAILS,
                 "%d of %d numbers, dashes and sides of tiles come out, with three slips of the "
                 "poster put right or followed",
                 same, cells);
}

static void put_words(cli_stream *out, double words) {
  char text[32] = "-";
  if (isfinite(words)) snprintf(text, sizeof text, "%.0f", words);
  cli_page_cell_number(out, text, words);
}

static void tell_decisions(cli_stream *out, const cli_records *all) {
  static const cli_column columns[] = {{"node", false},     {"priced", false},    {"no fuse", true},
                                       {"left fuse", true}, {"right fuse", true}, {"chosen", false},
                                       {"tile", false}};
  static const char *const fuses[] = {"poster", "exact"};
  cli_page_table_begin(out, columns, sizeof columns / sizeof columns[0]);
  for (size_t row = 0; row < sizeof printed / sizeof printed[0]; row++)
    for (int f = 0; f < 2; f++) {
      const cli_record *r = decision(all, fuses[f], printed[row].node);
      char tile[32];
      snprintf(tile, sizeof tile, "(%.0f, %.0f)", cli_record_number(r, "tile_rows"),
               cli_record_number(r, "tile_cols"));
      cli_page_row_begin(out, f == 1);
      cli_page_cell(out, printed[row].node);
      cli_page_cell(out, f == 0 ? "as the poster does" : "exactly");
      put_words(out, cli_record_number(r, "no_fuse"));
      put_words(out, cli_record_number(r, "left_fuse"));
      put_words(out, cli_record_number(r, "right_fuse"));
      cli_page_cell(out, cli_record_text(r, "chosen"));
      cli_page_cell(out, tile);
      cli_page_row_end(out);
    }
  cli_page_table_end(out);
  cli_page_words(
      out,
      "Slips: the last size is 616, where 544 is printed; \"5 matrices\" are six, of "
      "seven sizes; right fuse is priced with P0 P2 P3 multiplications for its second "
      "product, which has P0 P1 P3; the two fuse values of T5 stand in each other's "
      "columns; the formula of data transfers has P1 P2 where the theorem has P0 P2; and "
      "the theorem calls M shared memory, while its 65536 words are the registers of a "
      "multiprocessor.");
}

static void answer_example(const cli_records *all, cli_answer *a) {
  const cli_record *left = cli_records_find(all, "example", "order", "((A1 A2) A3)"),
                   *right = cli_records_find(all, "example", "order", "(A1 (A2 A3))");
  if (left == NULL || right == NULL) return;
  double l = cli_record_number(left, "multiplications"),
         r = cli_record_number(right, "multiplications");
  cli_answer_set(a, l == 4500 && r == 27000 ? CLI_HOLDS : CLI_FAILS, "%.0f and %.0f", l, r);
}

static void answer_words(const cli_records *all, cli_answer *a) {
  int chains = 0, exact = 0, poster = 0, more = 0;
  const cli_record *r;
  for (size_t at = 0; (r = cli_records_next(all, "words", &at)) != NULL; chains++) {
    double none = cli_record_number(r, "none");
    exact += cli_record_number(r, "exact") < none;
    poster += cli_record_number(r, "poster") < none;
    more += cli_record_number(r, "exact") > none;
  }
  if (chains == 0) return;
  cli_answer_set(a, more == 0 ? CLI_HOLDS : CLI_FAILS,
                 "it never moves more words. At M = 65536 an exact price fuses in %d of the %d "
                 "chains, the poster's own price in %d",
                 exact, chains, poster);
}

static void tell_words(cli_stream *out, const cli_records *all) {
  static const cli_column columns[] = {{"chain", false},
                                       {"OP_Count", true},
                                       {"OP_DM_Fuse, exact", true},
                                       {"OP_DM_Fuse, as the poster prices", true},
                                       {"any order and fusion", true}};
  const cli_record *r;
  cli_page_table_begin(out, columns, sizeof columns / sizeof columns[0]);
  for (size_t at = 0; (r = cli_records_next(all, "words", &at)) != NULL;) {
    cli_page_row_begin(out, false);
    cli_page_cell(out, cli_record_text(r, "name"));
    put_words(out, cli_record_number(r, "none"));
    put_words(out, cli_record_number(r, "exact"));
    put_words(out, cli_record_number(r, "poster"));
    put_words(out, cli_record_number(r, "joint"));
    cli_page_row_end(out);
  }
  cli_page_table_end(out);
  cli_page_words(out, "Words moved at M = 65536, with the write of the result.");
}

/* ---- Figures 2 and 3 ------------------------------------------------------------------------- */

enum { SHAPES_MOST = 64 };

static int read_tilings(const cli_records *all, double *rows, double *words) {
  size_t at = 0;
  const cli_record *r = cli_records_next(all, "tiling", &at);
  int count = 0;
  for (; count < SHAPES_MOST && r != NULL; count++) {
    rows[count] = sample(r, "rows", count);
    words[count] = sample(r, "words", count);
    if (!isfinite(rows[count])) break;
  }
  return count;
}

static bool draw_3(cli_stream *out, const cli_records *all, int width, bool alone) {
  static double rows[SHAPES_MOST], words[SHAPES_MOST];
  int count = read_tilings(all, rows, words);
  if (count == 0) return false;
  cli_series line = {.name = "words, x rows by M / x columns",
                     .hue = HUE_TEE,
                     .dotted = true,
                     .x = rows,
                     .y = words,
                     .count = count};
  cli_lines chart = {.title = "Figure 3: words moved against the tile's shape",
                     .untitled = !alone,
                     .x_name = "x, rows of the tile",
                     .y_name = "words",
                     .x_unit = "",
                     .y_unit = "words",
                     .x_log = true,
                     .from_zero = true,
                     .series = &line,
                     .count = 1,
                     .width = width,
                     .height = 280};
  cli_chart_lines(out, &chart, alone);
  return true;
}

static void answer_3(const cli_records *all, cli_answer *a) {
  static double rows[SHAPES_MOST], words[SHAPES_MOST];
  int count = read_tilings(all, rows, words), least = 0;
  if (count == 0) return;
  for (int i = 1; i < count; i++)
    if (words[i] < words[least]) least = i;
  /* The write of the result is in both. */
  size_t at = 0;
  double n = cli_record_number(cli_records_next(all, "tiling", &at), "n"),
         theorem = 2 * n * n * n / 256 + n * n;
  cli_answer_set(
      a, rows[least] == 256 && words[least] == theorem ? CLI_HOLDS : CLI_FAILS,
      "at n = %.0f, M = 65536 the least is %.0f words at x = %.0f; the theorem says %.0f", n,
      words[least], rows[least], theorem);
}

static void answer_drawings(const cli_records *all, cli_answer *a) {
  (void)all;
  cli_answer_set(a, CLI_OPEN,
                 "drawings, a quoted figure and a photograph: there is nothing to measure. Double "
                 "buffering (4) is in the large-tile kernel, fusion (5 to 7) in the fused one");
}

/* ---- the page -------------------------------------------------------------------------------- */

static const cli_exhibit exhibits[] = {
    {"Figures 2, 3", "the tile of one product",
     "a tile of x by y, xy = M, moves least for x = y: 2 P0 P1 P2 / sqrt(M) + P0 P2 words.",
     answer_3, draw_3, NULL},
    {"Figures 1, 4 to 8", "drawings",
     "transfers against arithmetic (after Dally), double buffering, fusion, the power meter.",
     answer_drawings, NULL, NULL},
    {"Example", "the order of three matrices",
     "(A1 A2) A3 of 10x30x5x60 takes 4,500 multiplications, A1 (A2 A3) 27,000.", answer_example,
     NULL, NULL},
    {"Table", "fusion decisions",
     "five nodes of a chain of six matrices at M = 65,536: words without fusion, with left and "
     "right fuse, the choice and its tile.",
     answer_decisions, NULL, tell_decisions},
    {"OP_DM_Fuse", "fusion in the six chains",
     "the tree of fewest multiplications, with fusion, makes transfers least.", answer_words, NULL,
     tell_words},
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
    {"Figure 14", "tile size", "larger tiles load significantly less.", answer_14, draw_14, NULL},
    {"Figure 15", "global loads", "66 % fewer global loads than cuBLAS.", answer_15, draw_15, NULL},
    {"Figure 16", "power of two products in one kernel", "the fused kernel takes less power.",
     answer_16, draw_16, tell_fused},
    {"Figure 17", "energy of two products in one kernel",
     "the fused kernel takes more energy, because of atomic additions.", answer_17, draw_17,
     tell_fused},
    {"Figure 18", "time of creation and computation, 6 matrices",
     "the tree saves time in the worst case; without it creation takes longer too.", answer_time_6,
     draw_time_6, tell_time_6},
    {"Figure 19", "time of creation and computation, 12 matrices",
     "the tree saves time in the worst case; without it creation takes longer too.", answer_time_12,
     draw_time_12, tell_time_12},
    {"Tree", "what the tree costs in the best case",
     "cuBLAS without the tree is 2 % faster and takes 1.5 % less energy, because building and "
     "walking the tree takes time.",
     answer_tree, NULL, NULL},
    {"Figure 20", "energy of computation, 6 matrices",
     "the tree saves up to 50 % in the worst case (orange percentages); TEE-ACM2 5 to 10 % more "
     "(blue percentages).",
     answer_joules_6, draw_joules_6, NULL},
    {"Figure 21", "energy of computation, 12 matrices",
     "the tree saves up to 50 % in the worst case (orange percentages); TEE-ACM2 5 to 10 % more "
     "(blue percentages).",
     answer_joules_12, draw_joules_12, NULL},
    {"TEE-ACM2 on chains", "energy against cuBLAS in the same order",
     "5 to 10 % less energy, up to 10 %, with the optimal tiles of 224.", answer_tee_chains, NULL,
     NULL}};

const cli_source cli_tee_acm2_source = {
    .experiment = "tee-acm2",
    .title = "TEE-ACM2, measured again",
    .citation =
        "TEE-ACM2: energy-efficient matrix chain multiplication on GPUs, poster at SC22; "
        "measured there on a V100, averages of ten samples of ten runs.",
    .words =
        "Numbers in the poster's bars are not in its text, so its claims in words stand "
        "beside the figures. Samples of the kernels that are compared take turns.",
    .exhibits = exhibits,
    .count = sizeof exhibits / sizeof exhibits[0]};
