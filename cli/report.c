/* report.c: `mmchain report` writes a page about a chain: how it is multiplied, what that takes,
 * what else was considered, and why not. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "chains.h"
#include "chart.h"
#include "experiment/experiment.h"
#include "methods.h"
#include "options.h"
#include "page.h"
#include "xml.h"

static const char help[] =
    "usage: mmchain report CHAIN -o report.html [options]\n"
    "       mmchain report DIR [-o DIR2]\n"
    "\n"
    "Writes a page about a chain, for a browser; it needs no network. It shows the tree; left to\n"
    "right, the fewest multiplications and the plan against each other; the steps in a table and\n"
    "under the roofline of the machine; and what else was considered, and why not.\n"
    "\n"
    "With the directory of an experiment (see mmchain bench --experiment help) it draws its page\n"
    "and pictures again from DIR/results.jsonl, on any machine, there or in DIR2.\n"
    "\n"
    "  CHAIN                f32:10x30x5x60, 10x30 30x5 5x60, A.npy B.npy:T (their shapes), or - "
    "for\n"
    "                       a line of standard input; see mmchain --help\n"
    "  -o FILE              where the page goes; - is standard output\n"
    "  --for OBJECTIVE      time (when left out) or energy\n"
    "  --max-slowdown X     with --for energy, at most so many times the time of the plan for "
    "time\n"
    "  --on DEVICE          cpu (the best there is), blas, ref, cuda or cuda:N; see mmchain info\n"
    "  --precision NAME     native, faithful (as accurate) or fast (TF32 for f32 on a GPU)\n"
    "  --memory-limit BYTES workspace that the intermediates may take; 64M, 2GiB\n"
    "  --measure            time the three ways, and the products that cost most, on random\n"
    "                       matrices; else times are predicted, and the page says so\n"
    "  --seconds S          how long to measure; 1 when left out\n"
    "  --energy             measure the joules too, or say why not\n"
    "  --meter NAME         --energy by another meter than the device's; see mmchain info\n"
    "  --no-sync            do not wait until the page has reached the disk\n"
    "  -h, --help           this text\n";

enum { OPTION_MEASURE = CLI_OPTION_OWN, OPTION_SECONDS };

static const struct option options[] = {
    {"output", required_argument, NULL, CLI_OPTION_OUT},
    {"for", required_argument, NULL, CLI_OPTION_FOR},
    {"max-slowdown", required_argument, NULL, CLI_OPTION_MAX_SLOWDOWN},
    {"on", required_argument, NULL, CLI_OPTION_ON},
    {"precision", required_argument, NULL, CLI_OPTION_PRECISION},
    {"memory-limit", required_argument, NULL, CLI_OPTION_MEMORY_LIMIT},
    {"measure", no_argument, NULL, OPTION_MEASURE},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"energy", no_argument, NULL, CLI_OPTION_ENERGY},
    {"meter", required_argument, NULL, CLI_OPTION_METER},
    {"no-sync", no_argument, NULL, CLI_OPTION_NO_SYNC},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

enum {
  ROWS_MOST = 300,    /* rows of the table of steps at most */
  PRODUCTS_MOST = 16, /* products that are measured by themselves at most */
  MARKED_MOST = 8,    /* points of the roofline that have names */
  ORDER_MOST = 20,    /* factors of an order that is written out */
  DATA_MOST = 300000, /* bytes of the plan as data in the page */
  CHART_WIDTH = 370,
  TRIED_MOST = 10000, /* factors of a chain for which all ways are tried */
  LINE_MOST = 300     /* characters of a line of the plan in words */
};

/* The ways that are considered; the first three are compared as bars. */
enum { LEFT, FEWEST, FOR_TIME, FOR_ENERGY, FOR_TRAFFIC, FAITHFUL, FAST, WAYS };

static const struct {
  const char *name, *solver, *objective, *precision;
} ways[WAYS] = {[LEFT] = {"left to right", "left-to-right", "time", NULL},
                [FEWEST] = {"fewest multiplications", "hu-shing", "time", NULL},
                [FOR_TIME] = {"least time", NULL, "time", NULL},
                [FOR_ENERGY] = {"fewest joules", NULL, "energy", NULL},
                [FOR_TRAFFIC] = {"least traffic", NULL, "traffic", NULL},
                [FAITHFUL] = {"least time, faithful precision", NULL, "time", "faithful"},
                [FAST] = {"least time, fast precision", NULL, "time", "fast"}};

/* One step of our plan. */
typedef struct report_step {
  mmc_step step;
  double flops, bytes, share;
  double predicted_s, measured_s; /* NaN when not known */
  const char *source;
  bool dense; /* a plain product, which can be timed by itself */
  bool listed;
} report_step;

typedef struct report {
  mmc_plan_options plan_options;
  const char *objective; /* "time" or "energy" */
  double max_slowdown;
  bool measured;
  cli_contest contest;
  mmc_chain *chain;
  char *text; /* text form of the chain */
  mmc_plan *plans[WAYS];
  char failures[WAYS][256];         /* why there is no such plan */
  int ours;                         /* number of a way */
  cli_measurement all[CLI_METHODS]; /* their plans are among those above */
  mmc_roofline roofline;
  bool split;         /* some step is cut into parts */
  report_step *steps; /* step_count entries */
  int64_t step_count;
  char title[128];
} report;

static const int compared[CLI_METHODS] = {LEFT, FEWEST, -1}; /* -1 stands for ours */

/* ---- planning -------------------------------------------------------------------------------- */

static bool is_asked(const report *r, int way) {
  mmc_dtype dtype = mmc_chain_dtype(r->chain);
  if (mmc_chain_length(r->chain) > TRIED_MOST && way != LEFT && way != FEWEST && way != r->ours)
    return false;
  bool native =
      r->plan_options.precision == NULL || strcmp(r->plan_options.precision, "native") == 0;
  if (ways[way].precision != NULL) return native && (dtype == MMC_F32 || dtype == MMC_C64);
  return true;
}

/* Says whether some factors are inverses, have structure or are the same, of which no solver of
 * orders knows: the fewest multiplications are found by the planner, which predicts no seconds for
 * them.
 */
static bool is_special(const mmc_chain *chain) {
  for (int64_t i = 0; i < mmc_chain_length(chain); i++)
    if (mmc_chain_traits(chain, i) != 0 || mmc_chain_stored(chain, i) != i) return true;
  int64_t inverses;
  mmc_chain_inverses(chain, &inverses);
  return inverses > 0;
}

static int make_plans(cli_call *call, report *r) {
  const mmc_semiring semiring = mmc_chain_semiring(r->chain);
  if (!cli_chain_is_timed(r->chain))
    return cli_fail(call, CLI_BAD,
                    "CHAIN: expected sums and products, of which times are predicted, got %s; "
                    "mmchain plan --svg draws it",
                    mmc_semiring_name(semiring));
  r->ours = strcmp(r->objective, "energy") == 0 ? FOR_ENERGY : FOR_TIME;
  /* The last first: planning what repeats takes most memory, and its plan keeps least. */
  for (int w = WAYS - 1; w >= 0; w--) {
    mmc_plan_options plan_options = r->plan_options;
    plan_options.solver = ways[w].solver;
    plan_options.objective = ways[w].objective;
    if (w == FEWEST && is_special(r->chain)) {
      plan_options.solver = NULL;
      plan_options.objective = "flops";
    }
    if (ways[w].precision != NULL) plan_options.precision = ways[w].precision;
    if (w == FOR_ENERGY) plan_options.max_slowdown = r->max_slowdown;
    if (!is_asked(r, w)) continue;
    mmc_status status = mmc_plan_create(call->context, r->chain, &plan_options, &r->plans[w]);
    if (status == MMC_OK) continue;
    if (w == r->ours || status == MMC_E_INTERRUPTED) return cli_fail_status(call, status, "");
    mmc_context_message(call->context, r->failures[w], sizeof r->failures[w]);
  }
  if (mmc_plan_roofline(r->plans[r->ours], &r->roofline) != MMC_OK) r->roofline = (mmc_roofline){0};
  return CLI_DONE;
}

static int way_of(const report *r, int method) {
  return compared[method] >= 0 ? compared[method] : r->ours;
}

static double flops_each(const report *r) {
  mmc_dtype dtype = mmc_chain_dtype(r->chain);
  return dtype == MMC_C64 || dtype == MMC_C128 ? 8 : 2;
}

/* The name of step index. */
typedef struct step_name {
  char text[24];
} step_name;

static step_name name_step(const report *r, int64_t index) {
  step_name name = {"R"};
  if (index < r->step_count - 1) snprintf(name.text, sizeof name.text, "T%" PRId64, index + 1);
  return name;
}

static int list_steps(cli_call *call, report *r) {
  const mmc_plan *plan = r->plans[r->ours];
  double batch = (double)mmc_chain_batch(r->chain),
         size = (double)mmc_dtype_size(mmc_chain_dtype(r->chain));
  double total = cli_plan_flops(mmc_chain_dtype(r->chain), plan);
  r->step_count = mmc_plan_step_count(plan);
  r->steps = calloc((size_t)r->step_count, sizeof *r->steps);
  if (r->steps == NULL)
    return cli_fail_memory(call, "the steps take", (double)r->step_count * sizeof *r->steps);
  for (int64_t i = 0; i < r->step_count; i++) {
    report_step *s = &r->steps[i];
    mmc_step_time time;
    if (mmc_plan_step(plan, i, &s->step) != MMC_OK) continue;
    double m = (double)s->step.m, k = (double)s->step.k, n = (double)s->step.n;
    s->flops = flops_each(r) * mmc_count_to_double(mmc_plan_step_multiplications(plan, i));
    const double one = flops_each(r) * m * k * n, times = s->flops == one ? 1 : batch;
    s->dense = s->flops == one * times;
    s->bytes = size * (m * k + k * n + m * n) * times;
    s->share = total > 0 ? s->flops / total : 0;
    s->predicted_s = s->measured_s = NAN;
    s->source = "";
    if (mmc_plan_step_time(plan, i, &time) != MMC_OK) continue;
    s->predicted_s = time.predicted_s;
    s->source = time.source;
    r->split = r->split || time.split[0] != '\0';
  }
  return CLI_DONE;
}

static const report_step *sorted_steps;

static int by_cost(const void *a, const void *b) {
  const report_step *x = &sorted_steps[*(const int64_t *)a],
                    *y = &sorted_steps[*(const int64_t *)b];
  if (x->flops != y->flops) return x->flops < y->flops ? 1 : -1;
  return *(const int64_t *)a < *(const int64_t *)b ? -1 : 1;
}

/* Returns the numbers of the steps, the costliest first, to be freed; NULL when memory is short. */
static int64_t *sort_steps(const report *r) {
  int64_t *order = malloc((size_t)r->step_count * sizeof *order);
  if (order == NULL) return NULL;
  for (int64_t i = 0; i < r->step_count; i++) order[i] = i;
  sorted_steps = r->steps;
  qsort(order, (size_t)r->step_count, sizeof *order, by_cost);
  return order;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Gives the seconds of a product to all steps of its sizes. */
static void tell_steps(report *r, const mmc_step *product, double seconds) {
  for (int64_t i = 0; i < r->step_count; i++) {
    const mmc_step *step = &r->steps[i].step;
    if (r->steps[i].dense && step->m == product->m && step->k == product->k &&
        step->n == product->n)
      r->steps[i].measured_s = seconds;
  }
}

/* Times the products that cost most, each by itself. */
static int measure_products(cli_call *call, report *r, const int64_t *order) {
  int result = CLI_DONE;
  for (int64_t i = 0, done = 0; i < r->step_count && done < PRODUCTS_MOST; i++) {
    const report_step *s = &r->steps[order[i]];
    if (!isnan(s->measured_s) || s->flops == 0 || !s->dense) continue;
    const int64_t sizes[] = {s->step.m, s->step.k, s->step.n};
    double seconds;
    result =
        cli_contest_product(call, &r->contest, mmc_chain_dtype(r->chain), mmc_chain_batch(r->chain),
                            sizes, r->contest.seconds / PRODUCTS_MOST, &seconds);
    if (result != CLI_DONE) return result;
    tell_steps(r, &s->step, seconds);
    done++;
  }
  return result;
}

static int measure_all(cli_call *call, report *r, const int64_t *order) {
  for (int m = 0; m < CLI_METHODS; m++) {
    r->all[m].plan = r->plans[way_of(r, m)];
    if (r->all[m].plan == NULL) return cli_fail(call, CLI_FAILED, "%s", r->failures[way_of(r, m)]);
    r->all[m].predicted_s = mmc_plan_predicted_seconds(r->all[m].plan);
    r->all[m].predicted_j = mmc_plan_predicted_joules(r->all[m].plan);
  }
  r->contest.plan_options = r->plan_options;
  r->contest.plan_options.location = MMC_DEVICE;
  int result = cli_contest_run(call, &r->contest, r->chain, r->all);
  return result == CLI_DONE ? measure_products(call, r, order) : result;
}

/* Returns the seconds of a method, measured or else predicted; NaN when not known. */
static double seconds_of(const report *r, int method) {
  const mmc_plan *plan = r->plans[way_of(r, method)];
  if (r->measured) return cli_measurement_median(&r->all[method]);
  return plan != NULL ? mmc_plan_predicted_seconds(plan) : (double)NAN;
}

static double multiplications_of(const mmc_plan *plan) {
  return plan != NULL ? mmc_count_to_double(mmc_plan_multiplications(plan)) : (double)NAN;
}

/* Writes the multiplications of a plan, of large ones three digits. */
static const char *brief_count(const mmc_plan *plan, char out[24]) {
  char digits[MMC_COUNT_TEXT_SIZE];
  mmc_count_format(mmc_plan_multiplications(plan), digits);
  if (strlen(digits) <= 12)
    snprintf(out, 24, "%.12s", digits);
  else
    snprintf(out, 24, "%.3g", multiplications_of(plan));
  return out;
}

/* ---- words of the plan ----------------------------------------------------------------------- */

/* Returns what mmc_plan_explain() says, a string to free; NULL when memory is short, which is then
 * an error of the page. */
static char *explained(cli_stream *out, const mmc_plan *plan, mmc_format format) {
  cli_buffer buffer = {0};
  if (mmc_plan_explain(plan, format, cli_buffer_write, &buffer) == MMC_OK) return buffer.bytes;
  cli_buffer_free(&buffer);
  if (out->error == 0) out->error = ENOMEM;
  return NULL;
}

/* Copies what stands between two marks; "" when they are not there. */
static void copy_between(const char *text, const char *begin, const char *end, char *out,
                         size_t size) {
  const char *from = text != NULL ? strstr(text, begin) : NULL;
  out[0] = '\0';
  if (from == NULL) return;
  from += strlen(begin);
  const char *to = strstr(from, end);
  size_t length = to != NULL ? (size_t)(to - from) : strlen(from);
  if (length >= size) length = size - 1;
  memcpy(out, from, length);
  out[length] = '\0';
}

/* Says why the plan has its order. */
static void reason_of(cli_stream *out, const mmc_plan *plan, char *reason, size_t size) {
  char *text = explained(out, plan, MMC_TEXT);
  copy_between(text, "\nwhy              ", "\n", reason, size);
  free(text);
}

static void order_of(cli_stream *out, const report *r, const mmc_plan *plan, char *order,
                     size_t size) {
  snprintf(order, size, "of %" PRId64 " factors", mmc_chain_length(r->chain));
  if (mmc_chain_length(r->chain) > ORDER_MOST) return;
  char *text = explained(out, plan, MMC_JSON);
  copy_between(text, "\"order\": \"", "\"", order, size);
  free(text);
}

/* Cuts every line of a text that is too long for a page. */
static void cut_lines(char *text) {
  char *to = text;
  size_t length = 0;
  for (const char *from = text; *from != '\0'; from++) {
    length = *from == '\n' ? 0 : length + 1;
    if (length <= LINE_MOST) *to++ = *from;
    if (length == LINE_MOST) memcpy(to - 3, "...", 3);
  }
  *to = '\0';
}

/* ---- the page: figures and bars -------------------------------------------------------------- */

static void put_figures(cli_stream *out, const report *r) {
  const mmc_plan *plan = r->plans[r->ours];
  double ours_s = seconds_of(r, CLI_OURS), left_s = seconds_of(r, CLI_LEFT_TO_RIGHT);
  double flops = cli_plan_flops(mmc_chain_dtype(r->chain), plan);
  char value[64], what[160];
  cli_page_figures_begin(out);
  double fewer = multiplications_of(r->plans[LEFT]) / multiplications_of(plan);
  if (isfinite(fewer)) {
    snprintf(value, sizeof value, "%.3g \u00d7", fewer);
    cli_page_figure(out, value, "fewer multiplications than left to right");
  }
  snprintf(what, sizeof what, r->measured ? "measured, median of %zu" : "predicted",
           r->all[CLI_OURS].count);
  cli_page_figure(out, cli_in_units(ours_s, "s").text, what);
  if (isfinite(left_s / ours_s)) {
    snprintf(value, sizeof value, "%.3g \u00d7", left_s / ours_s);
    cli_page_figure(
        out, value,
        r->measured ? "as fast as left to right" : "as fast as left to right, predicted");
  }
  if (isfinite(flops / ours_s)) {
    const cli_peak *peak = &r->contest.peaks[mmc_chain_dtype(r->chain)];
    double most = peak->n > 0 ? peak->flops_per_s : r->roofline.flops_per_s;
    snprintf(what, sizeof what, "%.3g %% of the %s peak", 100 * flops / ours_s / most,
             peak->n > 0              ? "measured"
             : r->roofline.calibrated ? "calibrated"
                                      : "assumed");
    cli_page_figure(out, cli_in_units(flops / ours_s, "FLOP/s").text, what);
  }
  const mmc_energy *energy = &r->all[CLI_OURS].energy;
  if (energy->measured)
    cli_page_figure(out, cli_in_units(energy->joules, "J").text, "measured");
  else if (isfinite(mmc_plan_predicted_joules(plan)))
    cli_page_figure(out, cli_in_units(mmc_plan_predicted_joules(plan), "J").text, "predicted");
  cli_page_figure(out, cli_in_units((double)mmc_plan_workspace_bytes(plan), "B").text, "workspace");
  cli_page_figures_end(out);
}

static void put_bars(cli_stream *out, const char *title, const char *unit,
                     const cli_bar bars[CLI_METHODS]) {
  cli_bars chart = {.title = title,
                    .subtitle = "",
                    .unit = unit,
                    .bars = bars,
                    .count = CLI_METHODS,
                    .width = CHART_WIDTH};
  cli_page_picture_begin(out);
  cli_chart_bars(out, &chart, false);
  cli_page_picture_end(out);
}

static const char *const method_names[CLI_METHODS] = {"left to right", "fewest multiplications",
                                                      "ours"};

static cli_bar plain_bar(int method, double value) {
  return (cli_bar){.group = "",
                   .name = method_names[method],
                   .note = "",
                   .hue = method == CLI_OURS ? 0 : 6,
                   .value = value,
                   .more = NAN,
                   .low = NAN,
                   .high = NAN};
}

static void put_comparison(cli_stream *out, const report *r) {
  cli_bar bars[CLI_METHODS];
  cli_page_section(out, "Three ways");
  cli_page_words(out, r->measured
                          ? "Seconds are medians of runs that took turns, with the least and the "
                            "most of them."
                          : "Seconds are predicted: --measure times them here.");
  cli_page_pictures_begin(out);
  for (int m = 0; m < CLI_METHODS; m++) {
    bars[m] = plain_bar(m, seconds_of(r, m));
    bars[m].faint = !r->measured;
    if (!r->measured) continue;
    bars[m].low = r->all[m].samples_s[0];
    /* A tenth of the runs may have been disturbed: their times say nothing of the method. */
    bars[m].high = r->all[m].samples_s[r->all[m].count - 1 - r->all[m].count / 10];
  }
  put_bars(out, r->measured ? "seconds, measured" : "seconds, predicted", "s", bars);
  char counts[CLI_METHODS][24];
  for (int m = 0; m < CLI_METHODS; m++) {
    const mmc_plan *plan = r->plans[way_of(r, m)];
    bars[m] = plain_bar(m, multiplications_of(plan));
    bars[m].text = plan != NULL ? brief_count(plan, counts[m]) : "-";
  }
  put_bars(out, "multiplications", "", bars);
  for (int m = 0; m < CLI_METHODS; m++) bars[m] = plain_bar(m, r->all[m].energy.joules);
  if (r->all[CLI_OURS].energy.measured) put_bars(out, "joules, measured", "J", bars);
  cli_page_pictures_end(out);
  const mmc_plan *fewest = r->plans[FEWEST], *ours = r->plans[r->ours];
  if (fewest != NULL && mmc_plan_step_count(fewest) == mmc_plan_step_count(ours) &&
      cli_plan_same(fewest, ours))
    cli_page_words(out, "Ours has the steps of the fewest multiplications here.");
  const char *reason = r->all[CLI_OURS].energy.reason;
  if (!r->all[CLI_OURS].energy.measured)
    cli_page_words(out, "No joules: %s.", r->measured ? reason : "not measured: see --energy");
}

/* ---- the page: the tree and the roofline ----------------------------------------------------- */

static int put_tree(cli_call *call, cli_stream *out, const report *r) {
  char reason[400];
  reason_of(out, r->plans[r->ours], reason, sizeof reason);
  cli_page_section(out, "The order");
  cli_page_words(out, "Why: %s.", reason);
  cli_page_picture_begin(out);
  mmc_status status = mmc_plan_explain(r->plans[r->ours], MMC_SVG, cli_stream_write, out);
  cli_page_picture_end(out);
  /* Who closes the page says why it cannot be written. */
  return status == MMC_OK || out->error != 0 ? CLI_DONE : cli_fail_write(call, status, "");
}

static int put_roofline(cli_call *call, cli_stream *out, const report *r, const int64_t *order) {
  int count = r->step_count < ROWS_MOST ? (int)r->step_count : ROWS_MOST, used = 0;
  cli_point *points = calloc((size_t)count, sizeof *points);
  char(*labels)[200] = calloc((size_t)count, sizeof *labels);
  step_name marks[MARKED_MOST];
  if (points == NULL || labels == NULL) {
    free(points);
    free(labels);
    return cli_fail_memory(call, "the roofline takes", 300.0 * count);
  }
  for (int i = 0; i < count; i++) {
    const report_step *s = &r->steps[order[i]];
    bool measured = !isnan(s->measured_s);
    double seconds = measured ? s->measured_s : s->predicted_s;
    if (!(s->flops > 0) || !(seconds > 0)) continue;
    if (i < MARKED_MOST) marks[i] = name_step(r, order[i]);
    snprintf(labels[used], sizeof *labels,
             "%s: %" PRId64 "x%" PRId64 " by %" PRId64 "x%" PRId64 ", %s %s, %s, %.3g flops a byte",
             name_step(r, order[i]).text, s->step.m, s->step.k, s->step.k, s->step.n,
             measured ? "measured" : "predicted", cli_in_units(seconds, "s").text,
             cli_in_units(s->flops / seconds, "FLOP/s").text, s->flops / s->bytes);
    points[used] = (cli_point){.label = labels[used],
                               .mark = i < MARKED_MOST ? marks[i].text : "",
                               .x = s->flops / s->bytes,
                               .y = s->flops / seconds,
                               .share = s->share,
                               .hue = measured ? 3 : 0,
                               .faint = !measured};
    used++;
  }
  const cli_peak *peak = &r->contest.peaks[mmc_chain_dtype(r->chain)];
  const char *known = r->roofline.calibrated ? "calibrated here" : "assumed, not calibrated";
  char flat[80], slope[80];
  double most = peak->n > 0 ? peak->flops_per_s : r->roofline.flops_per_s;
  snprintf(flat, sizeof flat, "%s %s", cli_in_units(most, "FLOP/s").text,
           peak->n > 0 ? "measured" : known);
  snprintf(slope, sizeof slope, "%s %s", cli_in_units(r->roofline.bytes_per_s, "B/s").text, known);
  cli_plane plane = {.title = "every step under the roofline",
                     .x_name = "flops a byte of operands and result",
                     .y_name = "flops a second",
                     .x_unit = "",
                     .y_unit = "FLOP/s",
                     .roof = {.slope = r->roofline.bytes_per_s,
                              .flat = most,
                              .slope_name = slope,
                              .flat_name = flat},
                     .points = points,
                     .count = used,
                     .width = 720,
                     .height = 420};
  cli_page_section(out, "Roofline");
  cli_page_words(out, "A larger dot has a larger share of the cost. %s",
                 r->measured
                     ? "Orange dots are products that were timed by themselves; faint ones are "
                       "predicted. What fits a cache may lie above the roof of the memory."
                     : "All are predicted, each product by itself.");
  cli_page_picture_begin(out);
  cli_chart_plane(out, &plane);
  cli_page_picture_end(out);
  free(points);
  free(labels);
  return CLI_DONE;
}

/* ---- the page: tables ------------------------------------------------------------------------ */

static void name_operand(const report *r, int64_t operand, char *out, size_t size) {
  int64_t n = mmc_chain_length(r->chain);
  if (operand < n)
    snprintf(out, size, "A%" PRId64, operand + 1);
  else
    snprintf(out, size, "%s", name_step(r, operand - n).text);
}

static void put_number(cli_stream *out, int64_t number) {
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, number);
  cli_page_cell_number(out, text, (double)number);
}

static void put_quantity(cli_stream *out, double value, const char *unit) {
  cli_page_cell_number(out, cli_in_units(value, unit).text, value);
}

static void put_step_row(cli_stream *out, const report *r, int64_t index) {
  const report_step *s = &r->steps[index];
  char left[24], right[24], product[80], share[24];
  name_operand(r, s->step.left, left, sizeof left);
  name_operand(r, s->step.right, right, sizeof right);
  snprintf(product, sizeof product, "%s = %s %s", name_step(r, index).text, left, right);
  snprintf(share, sizeof share, "%.1f %%", 100 * s->share);
  double seconds = !isnan(s->measured_s) ? s->measured_s : s->predicted_s;
  cli_page_row_begin(out, false);
  put_number(out, index + 1);
  cli_page_cell(out, product);
  put_number(out, s->step.m);
  put_number(out, s->step.k);
  put_number(out, s->step.n);
  cli_page_cell(out, mmc_plan_step_kernel(r->plans[r->ours], index));
  put_quantity(out, s->flops, "FLOP");
  cli_page_cell_number(out, share, s->share);
  put_quantity(out, s->flops / s->bytes, "");
  put_quantity(out, s->predicted_s, "s");
  cli_page_cell(out, s->source);
  if (r->measured) put_quantity(out, s->measured_s, "s");
  put_quantity(out, s->flops / seconds, "FLOP/s");
  mmc_step_time time;
  bool timed = mmc_plan_step_time(r->plans[r->ours], index, &time) == MMC_OK;
  if (r->split) cli_page_cell(out, timed ? time.split : "");
  cli_page_row_end(out);
}

static void put_steps(cli_stream *out, report *r, const int64_t *order) {
  static const cli_column with[] = {{"#", true},         {"step", false}, {"m", true},
                                    {"k", true},         {"n", true},     {"kernel", false},
                                    {"work", true},      {"share", true}, {"flops a byte", true},
                                    {"predicted", true}, {"by", false},   {"measured", true},
                                    {"rate", true},      {"split", false}};
  enum { COUNT = sizeof with / sizeof with[0], MEASURED = 11, SPLIT = 13 };
  cli_column columns[COUNT];
  int count = 0;
  for (int c = 0; c < COUNT; c++)
    if ((c != MEASURED || r->measured) && (c != SPLIT || r->split)) columns[count++] = with[c];
  cli_page_section(out, "Steps");
  int64_t listed = r->step_count < ROWS_MOST ? r->step_count : ROWS_MOST;
  if (listed < r->step_count)
    cli_page_words(out, "The %" PRId64 " of %" PRId64 " steps that cost most.", listed,
                   r->step_count);
  cli_page_words(
      out,
      "Times are of each product by itself; several that are one call of the device take "
      "less together. A click on a column's name sorts by it.");
  for (int64_t i = 0; i < listed; i++) r->steps[order[i]].listed = true;
  cli_page_table_begin(out, columns, count);
  for (int64_t i = 0; i < r->step_count; i++)
    if (r->steps[i].listed) put_step_row(out, r, i);
  cli_page_table_end(out);
}

/* Says why a way was not taken. */
static void verdict_of(cli_stream *out, const report *r, int way, char *verdict, size_t size) {
  const mmc_plan *plan = r->plans[way], *ours = r->plans[r->ours];
  double seconds = mmc_plan_predicted_seconds(plan) / mmc_plan_predicted_seconds(ours);
  double joules = mmc_plan_predicted_joules(plan) / mmc_plan_predicted_joules(ours);
  double fewer = multiplications_of(plan) / multiplications_of(ours);
  if (way == r->ours) {
    reason_of(out, plan, verdict, size);
    return;
  }
  bool same = mmc_plan_step_count(plan) == mmc_plan_step_count(ours) && cli_plan_same(plan, ours);
  if (way == FAST && seconds < 1)
    snprintf(verdict, size, "predicted %.3g of the time, and less exact: --precision fast takes it",
             seconds);
  else if (way == FAITHFUL && seconds < 1)
    snprintf(verdict, size, "predicted %.3g of the time: --precision faithful takes it", seconds);
  else if (same)
    snprintf(verdict, size, "the same steps as ours");
  else if (seconds > 1.0005)
    snprintf(verdict, size, "predicted %.3g times as long", seconds);
  else if (seconds < 0.9995 && r->ours == FOR_ENERGY)
    snprintf(verdict, size, "predicted %.3g of the time; ours takes fewer joules", seconds);
  else if (seconds < 0.9995)
    snprintf(verdict, size,
             "predicted %.3g of the time, less of a gain than predictions are off by", seconds);
  else if (joules > 1.0005)
    snprintf(verdict, size, "predicted %.3g times the joules", joules);
  else if (fewer > 1)
    snprintf(verdict, size, "%.3g times the multiplications", fewer);
  else
    snprintf(verdict, size, "as good as ours by what is known of it");
}

static void put_way(cli_stream *out, const report *r, int way) {
  const mmc_plan *plan = r->plans[way];
  char order[512] = "", verdict[512], count[MMC_COUNT_TEXT_SIZE] = "-",
       words[MMC_COUNT_TEXT_SIZE] = "-";
  if (plan == NULL && r->failures[way][0] == '\0') return;
  double moved = (double)NAN;
  if (plan != NULL) {
    order_of(out, r, plan, order, sizeof order);
    verdict_of(out, r, way, verdict, sizeof verdict);
    mmc_count_format(mmc_plan_multiplications(plan), count);
    if (way == FOR_TRAFFIC) {
      moved = mmc_count_to_double(mmc_plan_traffic_words(plan));
      mmc_count_format(mmc_plan_traffic_words(plan), words);
    }
  } else {
    snprintf(verdict, sizeof verdict, "not possible: %s", r->failures[way]);
  }
  cli_page_row_begin(out, way == r->ours);
  cli_page_cell(out, ways[way].name);
  cli_page_cell(out, order);
  cli_page_cell_number(out, count, multiplications_of(plan));
  put_quantity(out, plan != NULL ? mmc_plan_predicted_seconds(plan) : (double)NAN, "s");
  put_quantity(out, plan != NULL ? mmc_plan_predicted_joules(plan) : (double)NAN, "J");
  cli_page_cell_number(out, words, moved);
  put_quantity(out, plan != NULL ? (double)mmc_plan_workspace_bytes(plan) : (double)NAN, "B");
  cli_page_cell(out, verdict);
  cli_page_row_end(out);
}

static void put_considered(cli_stream *out, const report *r) {
  static const cli_column columns[] = {{"way", false},
                                       {"order", false},
                                       {"multiplications", true},
                                       {"predicted", true},
                                       {"joules, predicted", true},
                                       {"words moved", true},
                                       {"workspace", true},
                                       {"why, or why not", false}};
  cli_page_section(out, "What was considered");
  cli_page_table_begin(out, columns, sizeof columns / sizeof columns[0]);
  for (int w = 0; w < WAYS; w++) put_way(out, r, w);
  cli_page_table_end(out);
  if (mmc_chain_length(r->chain) > TRIED_MOST)
    cli_page_words(out, "Other objectives are not tried for more than %d factors.", TRIED_MOST);
}

/* ---- the page: all of it --------------------------------------------------------------------- */

/* Writes the plan as data: "<" cannot end the element that holds it. */
static void put_data(cli_stream *out, const char *json) {
  cli_print(out, "<script type=\"application/json\" id=\"plan\">");
  for (const char *c = json; *c != '\0'; c++) cli_print(out, *c == '<' ? "\\u003c" : "%c", *c);
  cli_print(out, "</script>\n");
}

static void put_origin(cli_call *call, cli_stream *out, const report *r) {
  const char *name = mmc_plan_device(r->plans[r->ours]);
  mmc_device_info info;
  char found[400] = "";
  for (int d = 0; mmc_device_describe(call->context, d, &info) == MMC_OK; d++)
    if (strcmp(info.name, name) == 0) snprintf(found, sizeof found, ": %s", info.description);
  cli_page_words(out, "%s%s. mmchain %s, planned for %s.", name, found, mmc_version(),
                 r->objective);
}

static int put_page(cli_call *call, cli_stream *out, report *r, const int64_t *order) {
  cli_page_begin(out, r->title);
  put_origin(call, out, r);
  put_figures(out, r);
  int result = put_tree(call, out, r);
  put_comparison(out, r);
  if (result == CLI_DONE) result = put_roofline(call, out, r, order);
  put_steps(out, r, order);
  put_considered(out, r);
  char *words = explained(out, r->plans[r->ours], MMC_TEXT),
       *json = explained(out, r->plans[r->ours], MMC_JSON);
  if (words != NULL) {
    cut_lines(words);
    cli_page_fold(out, "The plan in words", words);
  }
  if (json != NULL && strlen(json) <= DATA_MOST) put_data(out, json);
  free(words);
  free(json);
  cli_page_end(out);
  return result;
}

static int write_page(cli_call *call, const char *path, report *r, const int64_t *order) {
  if (strcmp(path, "-") == 0) return put_page(call, &call->out, r, order);
  cli_file file;
  if (cli_file_create(path, &file)) {
    int result = put_page(call, &file.stream, r, order);
    if (result != CLI_DONE) {
      cli_file_discard(&file);
      return result;
    }
    if (cli_file_commit(&file)) return CLI_DONE;
  }
  return cli_fail(call, CLI_BAD, "-o: %s: cannot write: %s", path, strerror(errno));
}

static void make_title(report *r) {
  size_t length = strlen(r->text);
  if (length <= 90)
    snprintf(r->title, sizeof r->title, "%s", r->text);
  else
    snprintf(r->title, sizeof r->title, "%.60s... (%" PRId64 " factors)", r->text,
             mmc_chain_length(r->chain));
}

static int work(cli_call *call, report *r, const char *path) {
  int64_t n = mmc_chain_length(r->chain);
  r->text = cli_chain_text(r->chain);
  if (r->text == NULL) return cli_fail_memory(call, "the chain's text takes", 8 * (double)n);
  make_title(r);
  if (n < 2)
    return cli_fail(call, CLI_BAD, "%s: expected a chain of two factors at least", r->text);
  int result = make_plans(call, r);
  if (result == CLI_DONE) result = list_steps(call, r);
  if (result != CLI_DONE) return result;
  int64_t *order = sort_steps(r);
  if (order == NULL) return cli_fail_memory(call, "the steps take", 8 * (double)n);
  if (r->measured) result = measure_all(call, r, order);
  if (result == CLI_DONE) result = write_page(call, path, r, order);
  free(order);
  return result;
}

static void clear(report *r) {
  for (int m = 0; m < CLI_METHODS; m++) free(r->all[m].samples_s);
  for (int w = 0; w < WAYS; w++) mmc_plan_destroy(r->plans[w]);
  cli_energy_close(&r->contest.energy);
  mmc_chain_destroy(r->chain);
  free(r->steps);
  free(r->text);
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool is_directory(const char *path) {
  struct stat found;
  return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static int check_report(cli_call *call, const report *r, const char *path) {
  if (strcmp(r->objective, "time") != 0 && strcmp(r->objective, "energy") != 0)
    return cli_fail(call, CLI_BAD, "--for: expected time or energy, got '%s'", r->objective);
  if (r->max_slowdown > 0 && strcmp(r->objective, "energy") != 0)
    return cli_fail(call, CLI_BAD, "--max-slowdown: expected --for energy with it");
  return strcmp(path, "-") == 0 ? CLI_DONE : cli_check_output(call, "-o", path);
}

static int run(cli_call *call, int argc, char **argv) {
  report r = {
      .objective = "time",
      .plan_options = MMC_PLAN_OPTIONS_INIT,
      .contest = {.seconds = 1, .objective = "time", .plan_options = MMC_PLAN_OPTIONS_INIT}};
  cli_planning planning = {.options = &r.plan_options};
  const char *path = NULL;
  int count = 0; /* of options, but for -o */
  for (int code; (code = cli_option_next(call, argc, argv, options)) != CLI_OPTION_END;) {
    count += code != CLI_OPTION_OUT;
    switch (code) {
      case CLI_OPTION_OUT:
        path = optarg;
        break;
      case CLI_OPTION_FOR:
        r.objective = optarg;
        break;
      case CLI_OPTION_MAX_SLOWDOWN:
        if (!cli_slowdown(call, optarg, &r.max_slowdown)) return CLI_BAD;
        break;
      case OPTION_MEASURE:
        r.measured = true;
        break;
      case OPTION_SECONDS:
        if (!cli_seconds(call, "--seconds", optarg, &r.contest.seconds)) return CLI_BAD;
        break;
      case CLI_OPTION_METER:
        r.contest.energy.meter_name = optarg;
        r.contest.energy.wanted = r.measured = true;
        break;
      case CLI_OPTION_ENERGY:
        r.contest.energy.wanted = r.measured = true;
        break;
      case CLI_OPTION_HELP:
        return cli_help(call);
      default:
        if (!cli_planning_option(call, code, &planning)) return CLI_BAD;
    }
  }
  if (optind + 1 == argc && is_directory(argv[optind])) {
    if (count == 0) return cli_experiment_redraw(call, argv[optind], path);
    return cli_fail(call, CLI_BAD,
                    "%s: expected no options but -o with the directory of an experiment",
                    argv[optind]);
  }
  if (path == NULL)
    return cli_fail(call, CLI_BAD, "-o: expected where the page goes, as in -o report.html");
  int result = check_report(call, &r, path);
  if (result == CLI_DONE)
    result = cli_chain_of_arguments(call, argc - optind, argv + optind, &r.chain);
  if (result == CLI_DONE) result = work(call, &r, path);
  clear(&r);
  return result;
}

const cli_command cli_report = {
    .name = "report",
    .summary = "a page about a chain: the tree, what it takes, what was considered",
    .help = help,
    .run = run,
};
