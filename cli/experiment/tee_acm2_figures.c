/* tee_acm2_figures.c: ratios to the plain kernels and pictures of bars, for all figures of the
 * TEE-ACM2 poster. */
#include "tee_acm2_figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../chart.h"
#include "../page.h"
#include "laboratory.h"

enum { BARS_MOST = 96 };

int cli_tee_hue(const char *family) {
  if (strcmp(family, "plain") == 0) return CLI_TEE_HUE_PLAIN;
  if (strcmp(family, "tee") == 0 || strncmp(family, "large_tile", 10) == 0) return CLI_TEE_HUE_TEE;
  if (strcmp(family, "faithful") == 0) return CLI_TEE_HUE_FAITHFUL;
  return strcmp(family, "fused") == 0 ? CLI_TEE_HUE_FUSED : CLI_TEE_HUE_OTHER;
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

void cli_tee_answer_without_joules(const cli_records *all, cli_answer *out, const char *missing) {
  const char *reason = without_joules(all);
  if (reason[0] != '\0')
    cli_answer_set(out, CLI_OPEN, "no joules: %s", reason);
  else
    cli_answer_set(out, CLI_OPEN, "%s", missing);
}

bool cli_tee_ends_with(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* ---- ratios to the plain kernels ------------------------------------------------------------- */

double cli_tee_sample(const cli_record *r, const char *field, int i) {
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
    double ratio = cli_tee_sample(over, field, i) / cli_tee_sample(under, field, i);
    if (isfinite(ratio)) values[count++] = ratio;
  }
  return cli_spread_of(values, count);
}

cli_spread cli_tee_ratios(const cli_records *all, const char *part, const char *suffix,
                          const char *order, const char *family, const char *field) {
  double values[CLI_TEE_RATIOS_MOST];
  int count = 0;
  const cli_record *t;
  for (size_t at = 0; (t = cli_records_next(all, part, &at)) != NULL;) {
    if (!cli_record_has(t, "family", family) ||
        !cli_tee_ends_with(cli_record_text(t, "name"), suffix) ||
        (order != NULL && !cli_record_has(t, "order", order)) ||
        cli_record_text(t, "measured_as")[0] != '\0')
      continue;
    cli_spread ratio = ratio_of(t, plain_of(all, t), field);
    if (ratio.count > 0 && count < CLI_TEE_RATIOS_MOST) values[count++] = ratio.median;
  }
  return cli_spread_of(values, count);
}

cli_spread cli_tee_order_ratios(const cli_records *all, const char *over, const char *under,
                                const char *begin, const char *end, const char *field) {
  double values[CLI_TEE_RATIOS_MOST];
  int count = 0;
  const cli_record *t, *u;
  for (size_t at = 0; (t = cli_records_next(all, "chains", &at)) != NULL;) {
    const char *name = cli_record_text(t, "name");
    if (!cli_record_has(t, "order", over) || !cli_record_has(t, "family", "plain") ||
        strncmp(name, begin, strlen(begin)) != 0 || !cli_tee_ends_with(name, end) ||
        cli_record_text(t, "measured_as")[0] != '\0')
      continue;
    for (size_t from = 0; (u = cli_records_next(all, "chains", &from)) != NULL;) {
      if (!cli_record_has(u, "name", name) || !cli_record_has(u, "order", under) ||
          !cli_record_has(u, "family", "plain"))
        continue;
      cli_spread ratio = ratio_of(t, u, field);
      for (int i = 0; i < CLI_REPEATS_MOST && ratio.count > 0; i++) {
        double one = cli_tee_sample(t, field, i) / cli_tee_sample(u, field, i);
        if (isfinite(one) && count < CLI_TEE_RATIOS_MOST) values[count++] = one;
      }
    }
  }
  return cli_spread_of(values, count);
}

cli_spread cli_tee_tree_ratios(const cli_records *all, const char *begin, const char *end,
                               const char *field) {
  return cli_tee_order_ratios(all, "OP_Count", "in-order", begin, end, field);
}

bool cli_tee_cannot(const cli_records *all, cli_answer *out, cli_spread found, bool of_joules) {
  if (found.count > 0 && is_gpu(all)) return false;
  if (!is_gpu(all))
    cli_answer_set(out, CLI_OPEN,
                   "the claim is about a GPU's kernels, and this was measured on a processor: --on "
                   "cuda runs it");
  else if (of_joules)
    cli_tee_answer_without_joules(all, out, "no trial of it was measured");
  else
    cli_answer_set(out, CLI_OPEN, "no trial of it was measured");
  return true;
}

/* ---- bars ------------------------------------------------------------------------------------ */

typedef struct bar_words {
  char group[96], note[64], text[48];
} bar_words;

static cli_bar bar_of(const cli_records *all, const cli_tee_figure *f, const cli_record *t,
                      bar_words *words) {
  const char *as = cli_record_text(t, "measured_as");
  bool chains = strcmp(f->part, "chains") == 0;
  cli_bar bar = {.group = words->group,
                 .name = cli_record_text(t, "family"),
                 .note = words->note,
                 .hue = cli_tee_hue(cli_record_text(t, "family")),
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
  if (as[0] != '\0') snprintf(words->note, sizeof words->note, "plan of %s", as);
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

/* Adds the percentages that the poster prints beside its bars of joules, where nothing else is
 * said. */
static void add_percentages(const cli_records *all, const cli_record *t, bar_words *words) {
  cli_spread ratio = {.count = 0};
  if (words->note[0] != '\0') return;
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

bool cli_tee_draw(cli_stream *out, const cli_records *all, const cli_tee_figure *f, int width,
                  bool alone) {
  cli_bar bars[BARS_MOST];
  static bar_words words[BARS_MOST];
  int count = 0, known = 0;
  const cli_record *t;
  memset(words, 0, sizeof words);
  for (size_t at = 0; (t = cli_records_next(all, f->part, &at)) != NULL && count < BARS_MOST;) {
    if (!cli_tee_ends_with(cli_record_text(t, "name"), f->suffix)) continue;
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
      .mark_name = f->mark_name,
      .second_mark = f->theirs,
      .second_mark_name = "the poster's average"};
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
    if (cli_record_has(t, "reason", reason) &&
        cli_tee_ends_with(cli_record_text(t, "name"), suffix))
      return true;
  return false;
}

void cli_tee_tell_reasons(cli_stream *out, const cli_records *all, const char *part,
                          const char *suffix) {
  const cli_record *t;
  for (size_t at = 0; (t = cli_records_next(all, part, &at)) != NULL;) {
    const char *reason = cli_record_text(t, "reason");
    if (reason[0] == '\0' || !cli_tee_ends_with(cli_record_text(t, "name"), suffix)) continue;
    if (is_told(all, part, suffix, t)) continue;
    cli_page_words(out, "%s, %s did not run: %s.", cli_record_text(t, "name"),
                   cli_record_text(t, "family"), reason);
  }
}
