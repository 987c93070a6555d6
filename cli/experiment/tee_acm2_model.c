/* tee_acm2_model.c: what needs no measurement: the example, the table of fusion decisions, words of
 * chains, and Figures 1 to 8 of the TEE-ACM2 poster. */
#include <math.h>
#include <string.h>

#include "../chart.h"
#include "../page.h"
#include "tee_acm2_figures.h"

/* ---- the model ------------------------------------------------------------------------------- */

/* The poster's table as it is printed: no fuse, left, right, chosen; 0 for a dash. The numbers need
 * the two fuse values of T5 to stand in each other's columns. */
static const struct {
  const char *node;
  double words[3], chosen_words;
  const char *chosen;
  int tile_rows, tile_cols;
  bool exchanged;
} printed[] = {{"T1", {1599696, 0, 0}, 1599696, "no_fuse", 256, 256, false},
               {"T2", {4683168, 0, 3072693}, 3072693, "right_fuse", 304, 208, false},
               {"T3", {1799336, 0, 0}, 1799336, "no_fuse", 256, 256, false},
               {"T4", {3116960, 2942313, 0}, 2942313, "left_fuse", 216, 296, false},
               {"T5", {8243798, 9364761, 9136171}, 8243798, "no_fuse", 256, 256, true}};
static const char *const fusions[] = {"no_fuse", "left_fuse", "right_fuse"};

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
    const int left = printed[row].exchanged ? 2 : 1;
    cells += 6;
    same += same_cell(r, fusions[0], printed[row].words[0]) +
            same_cell(r, fusions[1], printed[row].words[left]) +
            same_cell(r, fusions[2], printed[row].words[3 - left]) +
            same_cell(r, cli_record_text(r, "chosen"), printed[row].chosen_words) +
            cli_record_has(r, "chosen", printed[row].chosen) +
            (cli_record_number(r, "tile_rows") == printed[row].tile_rows &&
             cli_record_number(r, "tile_cols") == printed[row].tile_cols);
  }
  if (cells == 0) return;
  cli_answer_set(a, same == cells ? CLI_HOLDS : CLI_FAILS,
                 "%d of %d cells come out, with three slips of the poster put right or followed",
                 same, cells);
}

static void put_words(cli_stream *out, double words) {
  char text[32] = "-";
  if (isfinite(words)) snprintf(text, sizeof text, "%.0f", words);
  cli_page_cell_number(out, text, words);
}

/* Writes a row of the table; values are no fuse, left, right and chosen. */
static void put_decision(cli_stream *out, const char *node, const char *priced,
                         const double values[4], const char *chosen, double rows, double cols) {
  char text[48];
  cli_page_row_begin(out, strcmp(priced, "printed") == 0);
  cli_page_cell(out, node);
  cli_page_cell(out, priced);
  for (int v = 0; v < 4; v++) put_words(out, values[v] > 0 ? values[v] : (double)NAN);
  snprintf(text, sizeof text, "%.*s fuse", (int)strcspn(chosen, "_"), chosen);
  cli_page_cell(out, text);
  snprintf(text, sizeof text, "(%.0f, %.0f)", rows, cols);
  cli_page_cell(out, text);
  cli_page_row_end(out);
}

static void tell_decisions(cli_stream *out, const cli_records *all) {
  static const cli_column columns[] = {{"node", false},     {"priced", false},    {"no fuse", true},
                                       {"left fuse", true}, {"right fuse", true}, {"chosen", true},
                                       {"choice", false},   {"tile", false}};
  static const char *const fuses[][2] = {{"poster", "as the poster does"}, {"exact", "exactly"}};
  if (decision(all, "poster", "T1") == NULL) return;
  cli_page_table_begin(out, columns, sizeof columns / sizeof columns[0]);
  for (size_t row = 0; row < sizeof printed / sizeof printed[0]; row++) {
    const char *node = printed[row].node;
    double values[4] = {printed[row].words[0], printed[row].words[1], printed[row].words[2],
                        printed[row].chosen_words};
    put_decision(out, node, "printed", values, printed[row].chosen, printed[row].tile_rows,
                 printed[row].tile_cols);
    for (int f = 0; f < 2; f++) {
      const cli_record *r = decision(all, fuses[f][0], node);
      if (r == NULL) continue;
      for (int v = 0; v < 3; v++) values[v] = cli_record_number(r, fusions[v]);
      values[3] = cli_record_number(r, cli_record_text(r, "chosen"));
      put_decision(out, node, fuses[f][1], values, cli_record_text(r, "chosen"),
                   cli_record_number(r, "tile_rows"), cli_record_number(r, "tile_cols"));
    }
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
  cli_answer_orders(all, a, 4500, 27000);
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
  size_t from = 0;
  if (cli_records_next(all, "words", &from) == NULL) return;
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
    rows[count] = cli_tee_sample(r, "rows", count);
    words[count] = cli_tee_sample(r, "words", count);
    if (!isfinite(rows[count])) break;
  }
  return count;
}

static bool draw_3(cli_stream *out, const cli_records *all, int width, bool alone) {
  static double rows[SHAPES_MOST], words[SHAPES_MOST];
  int count = read_tilings(all, rows, words);
  if (count == 0) return false;
  cli_series line = {.name = "words, x rows by M / x columns",
                     .hue = CLI_TEE_HUE_TEE,
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

/* ---- the exhibits ---------------------------------------------------------------------------- */

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
     tell_words}};

const cli_exhibits cli_tee_acm2_model = {exhibits, sizeof exhibits / sizeof exhibits[0]};
