/* tee_acm2_chains.c: the six chains: Figures 18 to 21 of the TEE-ACM2 poster, and its claims about
 * the tree. */
#include <math.h>
#include <string.h>

#include "../chart.h"
#include "../page.h"
#include "../xml.h"
#include "tee_acm2_figures.h"

/* ---- chains ---------------------------------------------------------------------------------- */

#define CHAIN_FIGURES(matrices, end)                                                     \
  static const cli_tee_figure figure_time_##matrices = {                                 \
      .part = "chains",                                                                  \
      .suffix = end,                                                                     \
      .title = "Time of creation and computation, " #matrices " matrices",               \
      .unit = "s",                                                                       \
      .field = "seconds_samples",                                                        \
      .creation = true};                                                                 \
  static const cli_tee_figure figure_joules_##matrices = {                               \
      .part = "chains",                                                                  \
      .suffix = end,                                                                     \
      .title = "Energy of computation, " #matrices " matrices",                          \
      .unit = "J",                                                                       \
      .field = "joules_samples"};                                                        \
  static bool draw_time_##matrices(cli_stream *out, const cli_records *all, int width,   \
                                   bool alone) {                                         \
    return cli_tee_draw(out, all, &figure_time_##matrices, width, alone);                \
  }                                                                                      \
  static bool draw_joules_##matrices(cli_stream *out, const cli_records *all, int width, \
                                     bool alone) {                                       \
    return cli_tee_draw(out, all, &figure_joules_##matrices, width, alone);              \
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

/* By what the poster's sizes were divided; NaN when no chain was tried. */
static double divided_by(const cli_records *all) {
  const cli_record *t = cli_records_find(all, "chains", "name", "best-6");
  double first = (double)NAN;
  return sscanf(cli_record_text(t, "chain"), "f32:%lf", &first) == 1 ? 8000 / first : (double)NAN;
}

/* Says so at the end of an answer about chains. */
static void add_sizes(const cli_records *all, cli_answer *a) {
  if (divided_by(all) > 1)
    cli_answer_add(a, "; at the poster's sizes divided by %.0f", divided_by(all));
}

/* A table of what is too short to be seen in the picture: planning and creation. */
static void tell_creation(cli_stream *out, const cli_records *all, const char *suffix) {
  static const cli_column columns[] = {{"chain", false},   {"order", false},
                                       {"kernels", false}, {"planning", true},
                                       {"creation", true}, {"computation", true}};
  const cli_record *t;
  size_t from = 0;
  if (cli_records_next(all, "chains", &from) == NULL) return;
  cli_page_table_begin(out, columns, sizeof columns / sizeof columns[0]);
  for (size_t at = 0; (t = cli_records_next(all, "chains", &at)) != NULL;) {
    if (!cli_tee_ends_with(cli_record_text(t, "name"), suffix) || !cli_record_is(t, "measured") ||
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
  cli_tee_tell_reasons(out, all, "chains", suffix);
}

/* A run that was stopped has not come to these chains. */
static void add_random(cli_answer *a, cli_spread random) {
  if (random.count > 0) cli_answer_add(a, ", %.3f at random", random.median);
}

static void answer_chain_time(const cli_records *all, cli_answer *a, const char *end) {
  cli_spread worst = cli_tee_tree_ratios(all, "worst", end, "seconds_samples"),
             best = cli_tee_tree_ratios(all, "best", end, "seconds_samples"),
             random = cli_tee_tree_ratios(all, "random", end, "seconds_samples");
  if (worst.count == 0) {
    cli_answer_set(a, CLI_OPEN, "no chain was measured");
    return;
  }
  cli_answer_set(a, worst.median < 1 ? CLI_HOLDS : CLI_FAILS,
                 "with the tree the computation takes %.3f of the time in the worst case",
                 worst.median);
  add_random(a, random);
  if (best.count > 0)
    cli_answer_add(a, ", %.3f (%.3f to %.3f) in the best", best.median, best.low, best.high);
  add_sizes(all, a);
}

/* The bytes of workspace of a chain in this order, by the plain kernels; NaN when not told. */
static double workspace(const cli_records *all, const char *name, const char *order) {
  const cli_record *t;
  for (size_t at = 0; (t = cli_records_next(all, "chains", &at)) != NULL;)
    if (cli_record_has(t, "name", name) && cli_record_has(t, "order", order) &&
        cli_record_has(t, "family", "plain"))
      return cli_record_number(t, "workspace_bytes");
  return (double)NAN;
}

static void answer_creation(const cli_records *all, cli_answer *a) {
  cli_spread worst = cli_tee_tree_ratios(all, "worst", "", "create_samples");
  if (worst.count == 0) {
    cli_answer_set(a, CLI_OPEN, "no chain was measured");
    return;
  }
  cli_answer_set(a,
                 worst.high < 1  ? CLI_HOLDS
                 : worst.low > 1 ? CLI_FAILS
                                 : CLI_OPEN,
                 "with the tree creation, of workspace and kernels, takes %.3f (%.3f to %.3f) of "
                 "the time in the worst case%s",
                 worst.median, worst.low, worst.high,
                 worst.low <= 1 && worst.high >= 1 ? ", which decides nothing" : "");
  static const char *const names[] = {"worst-6", "worst-12"};
  for (int n = 0; n < 2; n++) {
    double tree = workspace(all, names[n], "OP_Count"), none = workspace(all, names[n], "in-order");
    if (isfinite(tree) && isfinite(none))
      cli_answer_add(a, "; workspace of %s %s for %s", names[n], cli_in_units(tree, "B").text,
                     cli_in_units(none, "B").text);
  }
  add_sizes(all, a);
}

static void answer_half(const cli_records *all, cli_answer *a) {
  cli_spread tee = cli_tee_ratios(all, "chains", "", "OP_Count", "tee", "seconds_samples");
  if (cli_tee_cannot(all, a, tee, false)) return;
  cli_answer_set(a,
                 tee.median < 1.9   ? CLI_BEATEN
                 : tee.median < 2.1 ? CLI_HOLDS
                                    : CLI_FAILS,
                 "tee takes %.3f (%.3f to %.3f) of cuBLAS's time in the same order", tee.median,
                 tee.low, tee.high);
  add_sizes(all, a);
}

static void answer_chain_joules(const cli_records *all, cli_answer *a, const char *end) {
  cli_spread worst = cli_tee_tree_ratios(all, "worst", end, "joules_samples"),
             random = cli_tee_tree_ratios(all, "random", end, "joules_samples"),
             tee = cli_tee_ratios(all, "chains", end, "OP_Count", "tee", "joules_samples");
  if (worst.count == 0) {
    cli_tee_answer_without_joules(all, a, "no chain was measured");
    return;
  }
  cli_answer_set(a,
                 worst.median < 0.5    ? CLI_BEATEN
                 : worst.median < 0.55 ? CLI_HOLDS
                                       : CLI_FAILS,
                 "with the tree %.3f of the joules in the worst case", worst.median);
  add_random(a, random);
  if (tee.count > 0)
    cli_answer_add(a, "; tee takes %.3f (%.3f to %.3f) of plain's", tee.median, tee.low, tee.high);
  else
    cli_answer_add(a, "; no kernel of large tiles runs here");
  add_sizes(all, a);
}

CHAIN_FIGURES(6, "-6")
CHAIN_FIGURES(12, "-12")

static void answer_tree(const cli_records *all, cli_answer *a) {
  cli_spread seconds = cli_tee_tree_ratios(all, "best", "", "seconds_samples"),
             joules = cli_tee_tree_ratios(all, "best", "", "joules_samples");
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
  /* Small chains, for which planning is long, say nothing about the poster's. */
  cli_answer_set(a,
                 planning < 0.019       ? CLI_BEATEN
                 : divided_by(all) != 1 ? CLI_OPEN
                 : planning < 0.025     ? CLI_HOLDS
                                        : CLI_FAILS,
                 "planning takes %.2g %% of the time at most; measured again, the same plan takes "
                 "%.4f (%.4f to %.4f) of the time",
                 100 * planning, seconds.median, seconds.low, seconds.high);
  if (joules.count > 0)
    cli_answer_add(a, " and %.4f (%.4f to %.4f) of the joules", joules.median, joules.low,
                   joules.high);
  else
    cli_answer_add(a, "; joules are not measured here");
  add_sizes(all, a);
}

static void answer_tee_chains(const cli_records *all, cli_answer *a) {
  cli_spread tee = cli_tee_ratios(all, "chains", "", "OP_Count", "tee", "joules_samples"),
             faithful = cli_tee_ratios(all, "chains", "", "OP_Count", "faithful", "joules_samples");
  if (cli_tee_cannot(all, a, tee, true)) return;
  cli_answer_set(a,
                 tee.median < 0.9     ? CLI_BEATEN
                 : tee.median <= 0.95 ? CLI_HOLDS
                                      : CLI_FAILS,
                 "%.1f %% less at the median (%.1f to %.1f)", 100 * (1 - tee.median),
                 100 * (1 - tee.high), 100 * (1 - tee.low));
  if (faithful.count > 0) cli_answer_add(a, "; faithful %.1f %% less", 100 * (1 - faithful.median));
  add_sizes(all, a);
}

static void answer_fusion(const cli_records *all, cli_answer *a) {
  cli_spread seconds =
                 cli_tee_order_ratios(all, "OP_DM_Fuse", "OP_Count", "", "", "seconds_samples"),
             joules = cli_tee_order_ratios(all, "OP_DM_Fuse", "OP_Count", "", "", "joules_samples");
  int chains = 0, other = 0;
  const cli_record *t;
  for (size_t at = 0; (t = cli_records_next(all, "chains", &at)) != NULL;) {
    if (!cli_record_has(t, "order", "OP_DM_Fuse") || !cli_record_is(t, "measured")) continue;
    chains++;
    other += cli_record_text(t, "measured_as")[0] == '\0';
  }
  if (chains == 0)
    cli_answer_set(a, CLI_OPEN, "no chain was measured");
  else if (other == 0)
    cli_answer_set(a, CLI_OPEN, "fusion changes the plan of none of %d chains", chains);
  else
    cli_answer_set(a, seconds.median < 1 || joules.median < 1 ? CLI_HOLDS : CLI_FAILS,
                   "fusion changes the plan of %d of %d chains, which then take %.3f (%.3f to "
                   "%.3f) of the time",
                   other, chains, seconds.median, seconds.low, seconds.high);
  if (joules.count > 0)
    cli_answer_add(a, " and %.3f (%.3f to %.3f) of the joules", joules.median, joules.low,
                   joules.high);
  add_sizes(all, a);
}

/* ---- the exhibits ---------------------------------------------------------------------------- */

static const cli_exhibit exhibits[] = {
    {"Figure 18", "time of creation and computation, 6 matrices",
     "the tree saves time in the worst case.", answer_time_6, draw_time_6, tell_time_6},
    {"Figure 19", "time of creation and computation, 12 matrices",
     "the tree saves time in the worst case.", answer_time_12, draw_time_12, tell_time_12},
    {"Creation", "time of creation in the worst case",
     "without the tree creation takes longer, because temporary matrices are larger.",
     answer_creation, NULL, NULL},
    {"cuBLAS on chains", "time against TEE-ACM2 in the same order",
     "cuBLAS takes half the time of TEE-ACM2.", answer_half, NULL, NULL},
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
    {"Fusion tree", "the poster's future work",
     "time and energy with the fusion tree and without are to be compared.", answer_fusion, NULL,
     NULL},
    {"TEE-ACM2 on chains", "energy against cuBLAS in the same order",
     "5 to 10 % less energy, up to 10 %, with the optimal tiles of 224.", answer_tee_chains, NULL,
     NULL}};

const cli_exhibits cli_tee_acm2_chains = {exhibits, sizeof exhibits / sizeof exhibits[0]};
