/* picture.c: lays a folded plan out and writes it as SVG.
 *
 * The factors stand in a row in their order. A step stands in the middle above its operands, in the
 * level above the higher of them. A line rises from an operand to just below the step, so that no
 * line crosses a box: what is above an operand, up to the step that reads it, is empty. All lengths
 * are in pixels.
 *
 * Hues are those of Okabe and Ito (2008), which colour-blind people tell apart; shares of the cost
 * are also written as numbers. */
#include "plan/picture.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "chain/traits.h"
#include "plan/explain.h"
#include "plan/picture_fold.h"

enum {
  COLUMNS = 20,      /* boxes in the row at most */
  COLUMN = 96,       /* pixels from box to box in the row */
  BOX_WIDTH = 84,    /* pixels */
  LINE = 15,         /* pixels from line to line in a box */
  GAP = 28,          /* pixels between the boxes of two levels */
  MARGIN = 24,       /* pixels around everything */
  LEAST_WIDTH = 700, /* pixels, so that the heading has room */
  HUES = 5,          /* colours of groups */
  LEGEND_GROUPS = 6, /* groups that the legend tells about */
  HALO = 6,          /* pixels from a group's boxes to its outline */
  PORT = 9 /* pixels from a box's middle to where lines from the left and the right meet it */
};

/* A line of text of bounded length. */
typedef struct words {
  char text[200];
  size_t used;
} words;

typedef struct picture {
  const mmci_plan *plan;
  mmci_text *out;
  mmci_picture_fold fold;
  int *x, *level;             /* for each node: its middle in pixels, and its level above the row */
  int columns, levels, lines; /* lines of text in a box */
  int left, top;              /* where the row and the uppermost level begin */
  int width, height;
  bool kernels_differ;
  bool single;          /* whether all factors are one matrix */
  struct power *powers; /* the power that each step is; NULL when no factor repeats */
  words heading[3];
} picture;

/* ---- words ---------------------------------------------------------------------------------- */

/* Adds to a line; one that does not hold all of it ends in three dots. */
static int append(void *user, const char *bytes, size_t size) {
  words *w = user;
  const size_t room = sizeof w->text - 1 - w->used, added = size < room ? size : room;
  memcpy(w->text + w->used, bytes, added);
  w->used += added;
  if (size > room) memcpy(w->text + w->used - 3, "...", 3);
  w->text[w->used] = '\0';
  return 0;
}

static words collect(const picture *p, void (*put)(const mmci_plan *plan, mmci_text *text)) {
  words w = {0};
  mmci_text text;
  mmci_error unused;
  mmci_text_start(&text, append, &w);
  put(p->plan, &text);
  (void)mmci_text_finish(&text, &unused);
  return w;
}

/* Cuts a line that is wider than width; its characters are some so many tenths of a pixel wide. */
static void fit(words *w, int width, int tenths) {
  size_t most = (size_t)(width * 10 / tenths);
  if (w->used <= most || most < 4) return;
  memcpy(w->text + most - 3, "...", 4);
  w->used = most;
}

/* Returns a number in at most 7 characters. */
static mmci_quantity brief(int64_t number) {
  mmci_quantity q;
  mmci_print(q.text, sizeof q.text, number < 1000000 ? "%.0f" : "%.1e", (double)number);
  return q;
}

static double share_of(const picture *p, mmci_u128 cost) {
  mmci_u128 total = mmci_plan_cost(p->plan);
  return total != 0 ? (double)cost / (double)total : 0;
}

/* A result that is a power of a factor or of another result; others are the first power of
 * themselves. */
typedef struct power {
  int32_t base; /* an operand */
  int64_t exponent;
} power;

static power power_of(const picture *p, int32_t operand) {
  int32_t n = p->plan->chain->n;
  return operand < n || p->powers == NULL ? (power){operand, 1} : p->powers[operand - n];
}

/* Finds what is a power, in a chain whose factors repeat. */
static mmc_status find_powers(picture *p, mmci_error *error) {
  const mmci_plan *plan = p->plan;
  size_t count = (size_t)plan->step_count;
  if (plan->chain->same == NULL) return MMC_OK;
  power *powers = mmci_alloc_array(count, sizeof *powers);
  if (powers == NULL) return mmci_fail_nomem(error, count * sizeof *powers);
  p->powers = powers;
  for (size_t s = 0; s < count; s++) {
    power left = power_of(p, mmci_step_operand(plan, (int32_t)s, 0));
    power right = power_of(p, mmci_step_operand(plan, (int32_t)s, 1));
    powers[s] = left.base == right.base ? (power){left.base, left.exponent + right.exponent}
                                        : (power){plan->chain->n + (int32_t)s, 1};
  }
  p->single = true;
  for (int32_t i = 1; i < plan->chain->n; i++)
    p->single = p->single && mmc_chain_same(plan->chain, i) == 0;
  return MMC_OK;
}

/* Writes a factor's or a result's name: A1, T3, R; A where there is one factor many times. */
static void put_name(const picture *p, int32_t operand) {
  if (p->single && operand < p->plan->chain->n)
    mmci_text_printf(p->out, "A");
  else
    mmci_text_printf(p->out, "%s", mmci_operand_name(p->plan, operand).text);
}

/* Writes " = A1" with the exponent raised, of a result that is a power. */
static void put_power(const picture *p, int32_t operand) {
  static const char *const digits[] = {"\u2070", "\u00b9", "\u00b2", "\u00b3", "\u2074",
                                       "\u2075", "\u2076", "\u2077", "\u2078", "\u2079"};
  power of = power_of(p, operand);
  if (of.base == operand) return;
  char decimal[24];
  snprintf(decimal, sizeof decimal, "%" PRId64, of.exponent);
  mmci_text_printf(p->out, " = ");
  put_name(p, of.base);
  for (const char *c = decimal; *c != '\0'; c++) mmci_text_printf(p->out, "%s", digits[*c - '0']);
}

/* ---- layout --------------------------------------------------------------------------------- */

static int box_height(const picture *p) {
  return p->lines * LINE + 9;
}

static int box_top(const picture *p, int level) {
  return p->top + (p->levels - level) * (box_height(p) + GAP);
}

static bool kernels_differ(const mmci_plan *plan) {
  for (int32_t s = 1; s < plan->step_count; s++)
    if (strcmp(plan->steps[s].kernel, plan->steps[0].kernel) != 0) return true;
  return false;
}

/* Gives every node its place; children come before parents, the row from left to right. */
static mmc_status place_nodes(picture *p, mmci_error *error) {
  size_t count = (size_t)p->fold.count;
  p->x = mmci_alloc_zeroed(2 * count, sizeof *p->x);
  if (p->x == NULL) return mmci_fail_nomem(error, 2 * count * sizeof *p->x);
  p->level = p->x + count;
  for (int32_t i = 0; i < p->fold.count; i++) {
    const mmci_shown *node = &p->fold.nodes[i];
    if (node->child_count == 0) {
      p->x[i] = COLUMN / 2 + COLUMN * p->columns++;
      continue;
    }
    int32_t first = node->children[0], last = node->children[node->child_count - 1];
    p->x[i] = (p->x[first] + p->x[last]) / 2;
    for (int c = 0; c < node->child_count; c++)
      if (p->level[i] <= p->level[node->children[c]]) p->level[i] = p->level[node->children[c]] + 1;
    if (p->level[i] > p->levels) p->levels = p->level[i];
  }
  int row = p->columns * COLUMN + 2 * MARGIN;
  p->width = row > LEAST_WIDTH ? row : LEAST_WIDTH;
  p->left = (p->width - p->columns * COLUMN) / 2;
  for (size_t i = 0; i < count; i++) p->x[i] += p->left;
  p->kernels_differ = kernels_differ(p->plan);
  p->lines = p->plan->step_count == 0 ? 2 : p->kernels_differ ? 4 : 3;
  return MMC_OK;
}

/* ---- the heading ---------------------------------------------------------------------------- */

static void put_chain(const mmci_plan *plan, mmci_text *text) {
  (void)mmc_chain_write(plan->chain, mmci_write_to_text, text);
}

static void put_cost(const mmci_plan *plan, mmci_text *text) {
  mmci_text_printf(text, "%s multiplications", mmci_decimal(plan->multiplications).text);
  mmci_put_comparison(plan, text);
}

static void put_machine(const mmci_plan *plan, mmci_text *text) {
  mmci_text_printf(text, "planned for %s on %s", plan->explainer->objective, plan->device);
  if (strcmp(plan->precision, "native") != 0) mmci_text_printf(text, ", %s", plan->precision);
  if (plan->step_count > 0 && !kernels_differ(plan) && plan->steps[0].kernel[0] != '\0')
    mmci_text_printf(text, ", by %s", plan->steps[0].kernel);
  if (plan->time != NULL)
    mmci_text_printf(text, "; predicted %s", mmci_in_units(plan->time->predicted_s, "s").text);
  if (plan->explainer->cost != NULL)
    mmci_text_printf(text, "; %s %s", mmci_decimal(mmci_plan_cost(plan)).text,
                     plan->explainer->cost);
  if (plan->energy != NULL)
    mmci_text_printf(text, "%s %s", plan->time != NULL ? " and" : "; predicted",
                     mmci_in_units(plan->energy->joules, "J").text);
  mmci_text_printf(text, "; workspace %" PRIu64 " bytes", plan->workspace_bytes);
  if (plan->streamed) mmci_text_printf(text, "; streamed through the device in panels");
}

static void head(picture *p) {
  p->heading[0] = collect(p, put_chain);
  p->heading[1] = collect(p, put_cost);
  p->heading[2] = collect(p, put_machine);
  for (int i = 0; i < 3; i++) fit(&p->heading[i], p->width - 2 * MARGIN, i == 0 ? 88 : 76);
  p->top = MARGIN + 3 * 20 + 12;
}

/* ---- boxes ---------------------------------------------------------------------------------- */

/* Begins line number l of a box's text. */
static void begin_line(const picture *p, int32_t node, int l, const char *class) {
  int y = box_top(p, p->level[node]) + 3 + LINE * (l + 1) - 3;
  mmci_text_printf(p->out, "<text%s%s%s x=\"%d\" y=\"%d\">", class[0] != '\0' ? " class=\"" : "",
                   class, class[0] != '\0' ? "\"" : "", p->x[node], y);
}

static void end_line(const picture *p) {
  mmci_text_printf(p->out, "</text>");
}

/* Writes a size on a line of a box, in smaller letters and closer where it has many digits. */
static void put_size(const picture *p, int32_t i, int line, int64_t rows, int64_t cols) {
  const mmci_quantity r = brief(rows), c = brief(cols);
  const size_t digits = strlen(r.text) + strlen(c.text);
  begin_line(p, i, line, digits > 7 ? "small" : "");
  mmci_text_printf(p->out, digits > 10 ? "%s\u00d7%s" : "%s \u00d7 %s", r.text, c.text);
  end_line(p);
}

/* Writes the size of an operand after its op. */
static void put_operand_size(const picture *p, int32_t i, int line, int32_t operand) {
  int32_t n = p->plan->chain->n;
  const int64_t *dims = p->plan->chain->dims;
  if (operand < n)
    put_size(p, i, line, dims[operand], dims[operand + 1]);
  else
    put_size(p, i, line, p->plan->steps[operand - n].m, p->plan->steps[operand - n].n);
}

static void put_op(const picture *p, int32_t factor) {
  static const char *const marks[] = {
      [MMC_OP_N] = "", [MMC_OP_T] = "\u1d40", [MMC_OP_H] = "\u1d34"};
  if (factor < p->plan->chain->n)
    mmci_text_printf(p->out, "%s", marks[p->plan->chain->ops[factor]]);
}

static void put_inverse(const picture *p, int32_t factor) {
  const mmc_chain *chain = p->plan->chain;
  if (factor < chain->n && chain->traits != NULL && (chain->traits[factor] & MMC_INVERSE) != 0)
    mmci_text_printf(p->out, "\u207b\u00b9");
}

/* Writes what a box says when it is pointed at. */
static void put_title(const picture *p, const mmci_shown *node) {
  const mmci_plan *plan = p->plan;
  mmci_text_printf(p->out, "<title>");
  if (node->kind == MMCI_SHOWN_STEP) {
    const mmci_plan_step *step = &plan->steps[node->step];
    put_name(p, node->operand);
    mmci_text_printf(p->out, " = ");
    put_name(p, mmci_step_operand(plan, node->step, 0));
    mmci_text_printf(p->out, " ");
    put_name(p, mmci_step_operand(plan, node->step, 1));
    mmci_text_printf(p->out, ": %" PRId64 "x%" PRId64 " by %" PRId64 "x%" PRId64 ", %s %s", step->m,
                     step->k, step->k, step->n, mmci_decimal(node->cost).text,
                     plan->explainer->cost != NULL ? plan->explainer->cost : "multiplications");
    if (step->kernel[0] != '\0') {
      mmci_text_printf(p->out, ", ");
      mmci_text_xml(p->out, step->kernel);
    }
    if (plan->time != NULL && step->group < 0)
      mmci_text_printf(p->out, ", predicted %s", mmci_in_units(step->predicted_s, "s").text);
  } else {
    put_name(p, node->operand);
    if (node->operand != node->last) {
      mmci_text_printf(p->out, " to ");
      put_name(p, node->last);
    }
    if (node->step >= 0)
      mmci_text_printf(p->out, ": %" PRId32 " step%s, %s %s", node->hidden,
                       node->hidden > 1 ? "s" : "", mmci_decimal(node->cost).text,
                       plan->explainer->cost != NULL ? plan->explainer->cost : "multiplications");
  }
  mmci_text_printf(p->out, "</title>");
}

/* Writes the box itself, darker for a greater share of the cost. */
static void put_rectangle(const picture *p, int32_t i, int inset, const mmci_shown *shaded) {
  mmci_text_printf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"",
                   p->x[i] - BOX_WIDTH / 2 + inset, box_top(p, p->level[i]) - inset, BOX_WIDTH,
                   box_height(p));
  if (shaded != NULL)
    mmci_text_printf(p->out,
                     "/><rect class=\"share\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                     "rx=\"5\" style=\"fill-opacity:%d%%\"",
                     p->x[i] - BOX_WIDTH / 2, box_top(p, p->level[i]), BOX_WIDTH, box_height(p),
                     (int)lround(60 * sqrt(share_of(p, shaded->cost))));
  mmci_text_printf(p->out, "/>");
}

static void put_share(const picture *p, int32_t i, int line) {
  begin_line(p, i, line, "small");
  mmci_text_printf(p->out, "%.1f %%", 100 * share_of(p, p->fold.nodes[i].cost));
  end_line(p);
}

/* Writes what is known of a factor, as its chain's text has it: lower.unit. */
static void put_traits(const picture *p, int32_t i, int line) {
  const mmc_chain *chain = p->plan->chain;
  const int32_t operand = p->fold.nodes[i].operand;
  if (operand >= chain->n || chain->traits == NULL) return;
  words w = {0};
  mmci_text text;
  mmci_error unused;
  mmci_text_start(&text, append, &w);
  const bool is_complex = chain->dtype == MMC_C64 || chain->dtype == MMC_C128;
  mmci_traits_write(chain->traits[operand] & MMCI_TRAITS_OF_MATRIX, chain->bands[operand],
                    is_complex, &text);
  (void)mmci_text_finish(&text, &unused);
  if (w.used == 0) return;
  fit(&w, BOX_WIDTH, 62);
  begin_line(p, i, line, "small");
  mmci_text_xml(p->out, w.text);
  end_line(p);
}

static void put_operand_box(const picture *p, int32_t i) {
  const mmci_shown *node = &p->fold.nodes[i];
  put_rectangle(p, i, 0, NULL);
  begin_line(p, i, 0, "name");
  put_name(p, node->operand);
  put_op(p, node->operand);
  put_inverse(p, node->operand);
  if (node->kind == MMCI_SHOWN_AGAIN) put_power(p, node->operand);
  end_line(p);
  put_operand_size(p, i, 1, node->operand);
  if (node->kind != MMCI_SHOWN_AGAIN) {
    put_traits(p, i, 2);
    return;
  }
  begin_line(p, i, 2, "small");
  mmci_text_printf(p->out, "again");
  end_line(p);
}

static void put_span(const picture *p, int32_t i) {
  const mmci_shown *node = &p->fold.nodes[i];
  begin_line(p, i, 0, "name");
  put_name(p, node->operand);
  mmci_text_printf(p->out, " \u2026");
  end_line(p);
  begin_line(p, i, 1, "name");
  put_name(p, node->last);
  end_line(p);
}

static void put_count(const picture *p, int32_t i, int line, const char *what) {
  int32_t hidden = p->fold.nodes[i].hidden;
  begin_line(p, i, line, "small");
  mmci_text_printf(p->out, "%s %s%s", brief(hidden).text, what, hidden > 1 ? "s" : "");
  end_line(p);
}

static void put_step_box(const picture *p, int32_t i) {
  const mmci_shown *node = &p->fold.nodes[i];
  const mmci_plan_step *step = &p->plan->steps[node->step];
  put_rectangle(p, i, 0, node);
  begin_line(p, i, 0, "name");
  put_name(p, node->operand);
  put_power(p, node->operand);
  end_line(p);
  put_size(p, i, 1, step->m, step->n);
  put_share(p, i, 2);
  if (!p->kernels_differ) return;
  begin_line(p, i, 3, "small");
  char kernel[15];
  snprintf(kernel, sizeof kernel, "%s", step->kernel);
  mmci_text_xml(p->out, kernel);
  end_line(p);
}

static void put_run_box(const picture *p, int32_t i) {
  const mmci_shown *node = &p->fold.nodes[i];
  put_rectangle(p, i, 4, NULL);
  put_rectangle(p, i, 0, node);
  begin_line(p, i, 0, "name");
  if (node->hidden < 100) mmci_text_printf(p->out, "\u2026 ");
  mmci_text_printf(p->out, "%s step%s", brief(node->hidden).text, node->hidden > 1 ? "s" : "");
  end_line(p);
  begin_line(p, i, 1, "");
  mmci_text_printf(p->out, node->alike ? "like this" : "more");
  end_line(p);
  put_share(p, i, 2);
}

static void put_box(const picture *p, int32_t i) {
  static const char *const classes[] = {
      [MMCI_SHOWN_FACTOR] = "factor",     [MMCI_SHOWN_AGAIN] = "again",
      [MMCI_SHOWN_OPERANDS] = "operands", [MMCI_SHOWN_STEP] = "step",
      [MMCI_SHOWN_RUN] = "run",           [MMCI_SHOWN_TREE] = "tree"};
  const mmci_shown *node = &p->fold.nodes[i];
  mmci_text_printf(p->out, "<g class=\"%s\">", classes[node->kind]);
  put_title(p, node);
  switch (node->kind) {
    case MMCI_SHOWN_FACTOR:
    case MMCI_SHOWN_AGAIN:
      put_operand_box(p, i);
      break;
    case MMCI_SHOWN_OPERANDS:
      put_rectangle(p, i, 4, NULL);
      put_rectangle(p, i, 0, NULL);
      put_span(p, i);
      put_count(p, i, 2, mmci_plan_is_tree(p->plan) ? "factor" : "operand");
      break;
    case MMCI_SHOWN_STEP:
      put_step_box(p, i);
      break;
    case MMCI_SHOWN_RUN:
      put_run_box(p, i);
      break;
    case MMCI_SHOWN_TREE:
      put_rectangle(p, i, 4, NULL);
      put_rectangle(p, i, 0, node);
      put_span(p, i);
      begin_line(p, i, 2, "small");
      mmci_text_printf(p->out, "%" PRId32 " step%s, %.1f %%", node->hidden,
                       node->hidden > 1 ? "s" : "", 100 * share_of(p, node->cost));
      end_line(p);
      break;
  }
  mmci_text_printf(p->out, "</g>\n");
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Writes the line from child number c of a node up to it. */
static void put_line(const picture *p, int32_t parent, int c) {
  const mmci_shown *node = &p->fold.nodes[parent];
  int32_t child = node->children[c];
  int from = p->x[child], to = p->x[parent];
  if (from != to) to += from < to ? -PORT : PORT;
  int below = box_top(p, p->level[parent]) + box_height(p);
  mmci_text_printf(p->out, "<path d=\"M%d %dV%dH%dV%d\"/>", from, box_top(p, p->level[child]),
                   below + GAP / 2, to, below);
}

static void put_lines(const picture *p) {
  mmci_text_printf(p->out, "<g class=\"lines\">");
  for (int32_t i = 0; i < p->fold.count; i++) {
    const mmci_shown *node = &p->fold.nodes[i];
    for (int c = 0; c < node->child_count; c++) {
      if (node->kind == MMCI_SHOWN_STEP &&
          mmci_step_squares(p->plan, node->step)) { /* a square reads its operand twice */
        int below = box_top(p, p->level[i]) + box_height(p);
        for (int side = -1; side <= 1; side += 2)
          mmci_text_printf(p->out, "<path d=\"M%d %dV%d\"/>", p->x[i] + side * PORT,
                           box_top(p, p->level[node->children[c]]), below);
      } else {
        put_line(p, i, c);
      }
    }
  }
  mmci_text_printf(p->out, "</g>\n");
}

/* ---- groups and fusions --------------------------------------------------------------------- */

/* Returns the partner of a step in a fusion that is not executed as one call; -1 when none. */
static int32_t fused_with(const picture *p, int32_t s) {
  const mmci_step_traffic *fused = s >= 0 ? mmci_fused_step(p->plan, s) : NULL;
  if (fused == NULL || p->plan->steps[s].group >= 0) return -1;
  return fused->choice.partner;
}

/* Says whether two boxes belong together: by the group, or, for a group of -1, by a fusion. */
static bool together(const picture *p, const mmci_shown *a, const mmci_shown *b, int32_t group) {
  if (group >= 0) return a->group == group && b->group == group;
  return a->kind == MMCI_SHOWN_STEP && b->kind == MMCI_SHOWN_STEP &&
         fused_with(p, a->step) == b->step;
}

/* Writes one layer of an outline: the boxes that belong together, enlarged, and the lines between
 * them. */
static void put_layer(const picture *p, int32_t group, const char *layer, int grown) {
  char class[16] = "fused";
  if (group >= 0) snprintf(class, sizeof class, "hue%" PRId32, group % HUES);
  mmci_text_printf(p->out, "<g class=\"%s %s\" style=\"stroke-width:%d\">", layer, class,
                   2 * grown);
  for (int32_t i = 0; i < p->fold.count; i++) {
    const mmci_shown *node = &p->fold.nodes[i];
    if (group >= 0 ? node->group == group && node->step >= 0 : fused_with(p, node->step) >= 0)
      mmci_text_printf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\"/>",
                       p->x[i] - BOX_WIDTH / 2 - grown, box_top(p, p->level[i]) - grown,
                       BOX_WIDTH + 2 * grown, box_height(p) + 2 * grown, 4 + grown);
    for (int c = 0; c < node->child_count; c++)
      if (together(p, node, &p->fold.nodes[node->children[c]], group)) put_line(p, i, c);
  }
  mmci_text_printf(p->out, "</g>\n");
}

static bool is_group_shown(const picture *p, int32_t group) {
  for (int32_t i = 0; i < p->fold.count; i++)
    if (p->fold.nodes[i].group == group && p->fold.nodes[i].step >= 0) return true;
  return false;
}

static bool is_fused(const picture *p) {
  for (int32_t i = 0; i < p->fold.count; i++)
    if (fused_with(p, p->fold.nodes[i].step) >= 0) return true;
  return false;
}

static void put_outline(const picture *p, int32_t group) {
  put_layer(p, group, "rim", HALO);
  put_layer(p, group, "ground", HALO - 2);
}

/* Calls a function for every group of which something is shown; at most those that the boxes
 * have. */
static int each_group(const picture *p, void (*act)(const picture *p, int32_t group)) {
  int count = 0;
  int32_t before = -1;
  for (;;) {
    int32_t next = INT32_MAX;
    for (int32_t i = 0; i < p->fold.count; i++) {
      int32_t group = p->fold.nodes[i].group;
      if (p->fold.nodes[i].step >= 0 && group > before && group < next) next = group;
    }
    if (next == INT32_MAX) return count;
    if (act != NULL) act(p, next);
    before = next;
    count++;
  }
}

/* ---- the legend ----------------------------------------------------------------------------- */

typedef struct legend {
  int lines, y;
  bool fused, folded;
  int groups;
} legend;

static legend plan_legend(const picture *p) {
  legend l = {.fused = is_fused(p),
              .folded = p->fold.steps < p->plan->step_count,
              .groups = each_group(p, NULL)};
  int told = l.groups < LEGEND_GROUPS ? l.groups : LEGEND_GROUPS;
  l.lines = (p->plan->step_count > 0) + told + (l.groups > told) + l.fused + l.folded;
  return l;
}

static void put_legend_words(const picture *p, int y, words w) {
  fit(&w, p->width - 2 * MARGIN - 36, 66);
  mmci_text_printf(p->out, "<text class=\"left\" x=\"%d\" y=\"%d\">", MARGIN + 36, y + 4);
  mmci_text_xml(p->out, w.text);
  mmci_text_printf(p->out, "</text>\n");
}

static void put_swatch(const picture *p, int y, const char *class) {
  for (int layer = 0; layer < 2; layer++)
    mmci_text_printf(
        p->out,
        "<g class=\"%s %s\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/></g>",
        layer == 0 ? "rim" : "ground", class, MARGIN + 2 * layer, y - 7 + 2 * layer, 28 - 4 * layer,
        14 - 4 * layer);
}

static void put_scale(const picture *p, int y) {
  static const int percents[] = {0, 5, 20, 50, 100};
  mmci_text_printf(p->out, "<g class=\"step\">");
  for (int i = 0; i < 5; i++) {
    int x = MARGIN + 110 + i * 62;
    mmci_text_printf(p->out,
                     "<rect x=\"%d\" y=\"%d\" width=\"58\" height=\"16\" rx=\"4\"/><rect "
                     "class=\"share\" x=\"%d\" y=\"%d\" width=\"58\" height=\"16\" rx=\"4\" "
                     "style=\"fill-opacity:%d%%\"/><text class=\"small\" x=\"%d\" y=\"%d\">%d "
                     "%%</text>",
                     x, y - 8, x, y - 8, (int)lround(60 * sqrt(percents[i] / 100.0)), x + 29, y + 4,
                     percents[i]);
  }
  mmci_text_printf(p->out, "</g><text class=\"left\" x=\"%d\" y=\"%d\">share of the cost</text>\n",
                   MARGIN, y + 4);
}

static void put_legend_group(const picture *p, int32_t g, int y) {
  const mmci_plan_group *group = &p->plan->groups[g];
  words w = {0};
  int length = snprintf(
      w.text, sizeof w.text, "%" PRId32 " steps in one call, up to %s; %s %s, one by one %s",
      group->step_count,
      mmci_operand_name(p->plan, p->plan->chain->n + group->steps[group->step_count - 1]).text,
      group->source == MMCI_MEASURED ? "measured" : "predicted",
      mmci_in_units(group->predicted_s, "s").text, mmci_in_units(group->separate_s, "s").text);
  w.used = length > 0 ? strlen(w.text) : 0;
  char class[16];
  snprintf(class, sizeof class, "hue%" PRId32, g % HUES);
  put_swatch(p, y, class);
  put_legend_words(p, y, w);
}

static void put_legend_groups(const picture *p, legend *l) {
  int told = 0;
  int32_t before = -1;
  for (int32_t i = 0; i < p->plan->group_count && told < LEGEND_GROUPS; i++) {
    if (i <= before || !is_group_shown(p, i)) continue;
    put_legend_group(p, i, l->y);
    l->y += 20;
    told++;
    before = i;
  }
  if (l->groups <= told) return;
  words w = {0};
  snprintf(w.text, sizeof w.text, "and %d calls more, outlined likewise", l->groups - told);
  w.used = strlen(w.text);
  put_legend_words(p, l->y, w);
  l->y += 20;
}

static void put_legend(const picture *p, legend *l) {
  if (p->plan->step_count > 0) {
    put_scale(p, l->y);
    l->y += 20;
  }
  put_legend_groups(p, l);
  if (l->fused) {
    put_swatch(p, l->y, "fused");
    words w = {.text = "two steps that are fused in the cost only; they are executed one by one"};
    w.used = strlen(w.text);
    put_legend_words(p, l->y, w);
    l->y += 20;
  }
  if (l->folded) {
    mmci_u128 cost = 0;
    for (int32_t i = 0; i < p->fold.count; i++)
      if (p->fold.nodes[i].kind == MMCI_SHOWN_STEP) cost += p->fold.nodes[i].cost;
    words w = {0};
    snprintf(w.text, sizeof w.text,
             "%" PRId32 " of %" PRId32
             " steps are shown, %.1f %% of the cost; a shadow means several",
             p->fold.steps, p->plan->step_count, 100 * share_of(p, cost));
    w.used = strlen(w.text);
    mmci_text_printf(
        p->out,
        "<g class=\"run\"><rect x=\"%d\" y=\"%d\" width=\"24\" height=\"12\" rx=\"4\"/>"
        "<rect x=\"%d\" y=\"%d\" width=\"24\" height=\"12\" rx=\"4\"/></g>",
        MARGIN + 3, l->y - 8, MARGIN, l->y - 5);
    put_legend_words(p, l->y, w);
  }
}

/* ---- the document --------------------------------------------------------------------------- */

/* The rules name the class of the picture, because within HTML they hold for the whole page. */
static const char style[] =
    "<style>"
    ".mmchain-plan text{font:12px system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif;"
    "fill:#16191d;text-anchor:middle}"
    ".mmchain-plan .left,.mmchain-plan .head{text-anchor:start}"
    ".mmchain-plan .head{font-size:13px}"
    ".mmchain-plan .first,.mmchain-plan .name{font-weight:600}"
    ".mmchain-plan .small{font-size:11px}"
    ".mmchain-plan .page{fill:#fff}"
    ".mmchain-plan rect{fill:#fff;stroke:#5a6472}"
    ".mmchain-plan rect.page{fill:#fff;stroke:none}"
    ".mmchain-plan .factor rect,.mmchain-plan .operands rect{fill:#f1f3f5}"
    ".mmchain-plan .again rect{fill:#f1f3f5;stroke-dasharray:4 3}"
    ".mmchain-plan rect.share{fill:#0072b2;stroke:none}"
    ".mmchain-plan .lines path{fill:none;stroke:#5a6472;stroke-width:1.5}"
    ".mmchain-plan .rim path,.mmchain-plan .ground path{fill:none}"
    ".mmchain-plan .rim rect,.mmchain-plan .ground rect{stroke:none}"
    ".mmchain-plan .rim.hue0 rect{fill:#e69f00}.mmchain-plan .rim.hue0 path{stroke:#e69f00}"
    ".mmchain-plan .rim.hue1 rect{fill:#009e73}.mmchain-plan .rim.hue1 path{stroke:#009e73}"
    ".mmchain-plan .rim.hue2 rect{fill:#cc79a7}.mmchain-plan .rim.hue2 path{stroke:#cc79a7}"
    ".mmchain-plan .rim.hue3 rect{fill:#d55e00}.mmchain-plan .rim.hue3 path{stroke:#d55e00}"
    ".mmchain-plan .rim.hue4 rect{fill:#8f7f00}.mmchain-plan .rim.hue4 path{stroke:#8f7f00}"
    ".mmchain-plan .rim.fused rect{fill:#5a6472}.mmchain-plan .rim.fused path{stroke:#5a6472}"
    ".mmchain-plan .ground.hue0 rect{fill:#fdf0d3}.mmchain-plan .ground.hue0 path{stroke:#fdf0d3}"
    ".mmchain-plan .ground.hue1 rect{fill:#d5f0e7}.mmchain-plan .ground.hue1 path{stroke:#d5f0e7}"
    ".mmchain-plan .ground.hue2 rect{fill:#f7e6ef}.mmchain-plan .ground.hue2 path{stroke:#f7e6ef}"
    ".mmchain-plan .ground.hue3 rect{fill:#f9e1d1}.mmchain-plan .ground.hue3 path{stroke:#f9e1d1}"
    ".mmchain-plan .ground.hue4 rect{fill:#f6f2cf}.mmchain-plan .ground.hue4 path{stroke:#f6f2cf}"
    ".mmchain-plan .ground.fused rect{fill:#e4e7eb}.mmchain-plan .ground.fused path{stroke:#e4e7eb}"
    "@media (prefers-color-scheme:dark){"
    ".mmchain-plan text{fill:#eceff3}"
    ".mmchain-plan rect{fill:#14181d;stroke:#9aa5b1}"
    ".mmchain-plan rect.page{fill:#14181d}"
    ".mmchain-plan .factor rect,.mmchain-plan .operands rect,.mmchain-plan .again "
    "rect{fill:#232a32}"
    ".mmchain-plan rect.share{fill:#56b4e9}"
    ".mmchain-plan .lines path{stroke:#9aa5b1}"
    ".mmchain-plan .rim.hue4 rect{fill:#f0e442}.mmchain-plan .rim.hue4 path{stroke:#f0e442}"
    ".mmchain-plan .rim.fused rect{fill:#9aa5b1}.mmchain-plan .rim.fused path{stroke:#9aa5b1}"
    ".mmchain-plan .ground.hue0 rect{fill:#3f2e08}.mmchain-plan .ground.hue0 path{stroke:#3f2e08}"
    ".mmchain-plan .ground.hue1 rect{fill:#0b3a2d}.mmchain-plan .ground.hue1 path{stroke:#0b3a2d}"
    ".mmchain-plan .ground.hue2 rect{fill:#40253a}.mmchain-plan .ground.hue2 path{stroke:#40253a}"
    ".mmchain-plan .ground.hue3 rect{fill:#462310}.mmchain-plan .ground.hue3 path{stroke:#462310}"
    ".mmchain-plan .ground.hue4 rect{fill:#37340c}.mmchain-plan .ground.hue4 path{stroke:#37340c}"
    ".mmchain-plan .ground.fused rect{fill:#343c46}.mmchain-plan .ground.fused path{stroke:#343c46}"
    "}</style>\n";

static void put_document(picture *p) {
  legend l = plan_legend(p);
  int below = box_top(p, 0) + box_height(p);
  l.y = below + 28;
  p->height = below + (l.lines > 0 ? 12 + 20 * l.lines : 0) + MARGIN;
  mmci_text_printf(p->out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"mmchain-plan\" role=\"img\" "
                   "width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n<title>",
                   p->width, p->height, p->width, p->height);
  mmci_text_printf(p->out, "The plan of ");
  mmci_text_xml(p->out, p->heading[0].text);
  mmci_text_printf(p->out, "</title>\n");
  mmci_text_bytes(p->out, style, sizeof style - 1);
  mmci_text_printf(p->out, "<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n", p->width,
                   p->height);
  for (int i = 0; i < 3; i++) {
    mmci_text_printf(p->out, "<text class=\"head%s\" x=\"%d\" y=\"%d\">", i == 0 ? " first" : "",
                     MARGIN, MARGIN + 12 + 20 * i);
    mmci_text_xml(p->out, p->heading[i].text);
    mmci_text_printf(p->out, "</text>\n");
  }
  if (is_fused(p)) put_outline(p, -1);
  each_group(p, put_outline);
  put_lines(p);
  for (int32_t i = 0; i < p->fold.count; i++) put_box(p, i);
  put_legend(p, &l);
  mmci_text_printf(p->out, "</svg>\n");
}

mmc_status mmci_plan_draw(const mmci_plan *plan, mmci_text *text, mmci_error *error) {
  picture p = {.plan = plan, .out = text};
  mmc_status status = mmci_picture_fold_create(plan, COLUMNS, &p.fold, error);
  if (status == MMC_OK) status = place_nodes(&p, error);
  if (status == MMC_OK) status = find_powers(&p, error);
  if (status == MMC_OK) {
    head(&p);
    put_document(&p);
  }
  free(p.x);
  free(p.powers);
  mmci_picture_fold_destroy(&p.fold);
  return status;
}
