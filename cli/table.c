/* table.c: prints, for every product of an order, the words of its sub-chain without fusion, with
 * left fuse and with right fuse, the choice, and its tile; then what the chain costs in order, in
 * the order of fewest multiplications (OP_Count), and with fusion (OP_DM_Fuse). As on the poster,
 * the write of a result is counted where it is used, so the last one is not, and the sides of tiles
 * are rounded down to multiples of 8. */
#include "table.h"

#include <inttypes.h>
#include <string.h>

#include "chains.h"
#include "suite.h"

typedef struct cell {
  char text[MMC_COUNT_TEXT_SIZE];
} cell;

static const char *const decisions[] = {
    [MMC_FUSION_NONE] = "no fuse",
    [MMC_FUSION_LEFT] = "left fuse",
    [MMC_FUSION_RIGHT] = "right fuse",
};

/* The plan of one chain, and what the chain costs in other orders. */
typedef struct table {
  const mmc_chain *chain;
  mmc_plan *plan;
  const char *fuse;
  int64_t on_chip_words;
  mmc_count in_order, op_count, op_dm_fuse;
} table;

static int64_t printed_side(int64_t side) {
  return side < 8 ? side : side / 8 * 8;
}

/* Writes "A2", or "T1" for the result of a step. */
static cell operand_name(const table *t, int64_t operand) {
  cell name;
  int64_t n = mmc_chain_length(t->chain);
  snprintf(name.text, sizeof name.text, "%c%" PRId64, operand < n ? 'A' : 'T',
           operand < n ? operand + 1 : operand - n + 1);
  return name;
}

/* Writes the operands of a step as it was chosen, "(A4 A5) A6", into a buffer of that size. */
static void name_operands(const table *t, const mmc_step *step, mmc_fusion chosen, char *text,
                          size_t size) {
  cell left = operand_name(t, step->left), right = operand_name(t, step->right);
  if (chosen == MMC_FUSION_NONE) {
    snprintf(text, size, "%s %s", left.text, right.text);
    return;
  }
  mmc_step inner;
  int64_t n = mmc_chain_length(t->chain);
  bool fused_left = chosen == MMC_FUSION_LEFT;
  mmc_plan_step(t->plan, (fused_left ? step->left : step->right) - n, &inner);
  cell first = operand_name(t, inner.left), second = operand_name(t, inner.right);
  if (fused_left)
    snprintf(text, size, "(%s %s) %s", first.text, second.text, right.text);
  else
    snprintf(text, size, "%s (%s %s)", left.text, first.text, second.text);
}

/* ---- text ------------------------------------------------------------------------------------ */

static cell choice_cell(const mmc_step_traffic *traffic, mmc_fusion fusion) {
  cell out = {"-"};
  if (traffic->possible[fusion]) mmc_count_format(traffic->choices[fusion], out.text);
  return out;
}

static void print_row(cli_call *call, const table *t, int64_t s) {
  mmc_step step;
  mmc_step_traffic traffic;
  mmc_plan_step(t->plan, s, &step);
  mmc_plan_step_traffic(t->plan, s, &traffic);
  char node[96], decision[192], operands[160];
  snprintf(node, sizeof node, "T%" PRId64 " (%" PRId64 ",%" PRId64 ")", s + 1, step.first + 1,
           step.last + 1);
  name_operands(t, &step, traffic.chosen, operands, sizeof operands);
  snprintf(decision, sizeof decision, "%s %s", decisions[traffic.chosen], operands);
  cli_print(
      &call->out, "%-12s %14s %14s %14s %14s  %-26s (%" PRId64 ",%" PRId64 ")\n", node,
      choice_cell(&traffic, MMC_FUSION_NONE).text, choice_cell(&traffic, MMC_FUSION_LEFT).text,
      choice_cell(&traffic, MMC_FUSION_RIGHT).text, choice_cell(&traffic, traffic.chosen).text,
      decision, printed_side(traffic.chosen_tile[0]), printed_side(traffic.chosen_tile[1]));
}

static void print_table_text(cli_call *call, const table *t) {
  cell text;
  cli_print(&call->out, "chain       ");
  mmc_chain_write(t->chain, cli_stream_write, &call->out);
  cli_print(&call->out, "\non chip     %" PRId64 " words\nfuse        %s\n\n", t->on_chip_words,
            t->fuse);
  cli_print(&call->out, "%-12s %14s %14s %14s %14s  %-26s %s\n", "node", "no fuse", "left fuse",
            "right fuse", "chosen", "decision", "tile");
  for (int64_t s = 0; s < mmc_plan_step_count(t->plan); s++) print_row(call, t, s);
  cli_print(&call->out, "\nin order    %s\n", mmc_count_format(t->in_order, text.text));
  cli_print(&call->out, "OP_Count    %s\n", mmc_count_format(t->op_count, text.text));
  cli_print(&call->out, "OP_DM_Fuse  %s\n", mmc_count_format(t->op_dm_fuse, text.text));
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void print_json_row(cli_call *call, const table *t, int64_t s) {
  static const char *const names[] = {
      [MMC_FUSION_NONE] = "no_fuse",
      [MMC_FUSION_LEFT] = "left_fuse",
      [MMC_FUSION_RIGHT] = "right_fuse",
  };
  mmc_step step;
  mmc_step_traffic traffic;
  mmc_plan_step(t->plan, s, &step);
  mmc_plan_step_traffic(t->plan, s, &traffic);
  char operands[160];
  name_operands(t, &step, traffic.chosen, operands, sizeof operands);
  cli_print(&call->out, "%s{\"node\": \"T%" PRId64 "\", \"first\": %" PRId64 ", \"last\": %" PRId64,
            s > 0 ? ", " : "", s + 1, step.first + 1, step.last + 1);
  for (int c = 0; c < 3; c++) {
    cli_print(&call->out, ", \"%s\": ", names[c]);
    if (traffic.possible[c])
      cli_print_json_count(&call->out, traffic.choices[c]);
    else
      cli_print(&call->out, "null");
  }
  cli_print(&call->out, ", \"chosen\": ");
  cli_print_json_count(&call->out, traffic.choices[traffic.chosen]);
  cli_print(&call->out,
            ", \"decision\": \"%s\", \"operands\": \"%s\", \"tile\": [%" PRId64 ", %" PRId64 "]}",
            decisions[traffic.chosen], operands, printed_side(traffic.chosen_tile[0]),
            printed_side(traffic.chosen_tile[1]));
}

static void print_table_json(cli_call *call, const table *t) {
  cli_print(&call->out, "{\"chain\": \"");
  mmc_chain_write(t->chain, cli_stream_write, &call->out);
  cli_print(&call->out,
            "\", \"on_chip_words\": %" PRId64 ", \"fuse\": \"%s\", \"in_order_words\": ",
            t->on_chip_words, t->fuse);
  cli_print_json_count(&call->out, t->in_order);
  cli_print(&call->out, ", \"op_count_words\": ");
  cli_print_json_count(&call->out, t->op_count);
  cli_print(&call->out, ", \"op_dm_fuse_words\": ");
  cli_print_json_count(&call->out, t->op_dm_fuse);
  cli_print(&call->out, ", \"nodes\": [");
  for (int64_t s = 0; s < mmc_plan_step_count(t->plan); s++) print_json_row(call, t, s);
  cli_print(&call->out, "]}\n");
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Plans the chain; words are those of its last node. */
static int make_plan(cli_call *call, const mmc_chain *chain, const mmc_plan_options *options,
                     mmc_plan **out, mmc_count *words) {
  mmc_status status = mmc_plan_create(call->context, chain, options, out);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  mmc_step_traffic last;
  *words = (mmc_count){0};
  if (mmc_plan_step_traffic(*out, mmc_plan_step_count(*out) - 1, &last) == MMC_OK)
    *words = last.choices[last.chosen];
  return CLI_DONE;
}

/* Counts what an order costs without fusion. */
static int price_order(cli_call *call, const mmc_chain *chain, const mmc_plan_options *options,
                       const char *solver, mmc_count *words) {
  mmc_plan_options unfused = *options;
  unfused.solver = solver;
  unfused.fuse = "none";
  unfused.memory_limit_bytes = MMC_NO_LIMIT;
  mmc_plan *plan;
  int result = make_plan(call, chain, &unfused, &plan, words);
  if (result == CLI_DONE) mmc_plan_destroy(plan);
  return result;
}

static int show_chain(cli_call *call, const mmc_chain *chain, const mmc_plan_options *options,
                      bool json) {
  table t = {
      .chain = chain,
      .fuse = options->fuse != NULL ? options->fuse : "exact",
      .on_chip_words = options->on_chip_words != 0 ? options->on_chip_words : MMC_ON_CHIP_WORDS,
  };
  int result = price_order(call, chain, options, "left-to-right", &t.in_order);
  if (result == CLI_DONE) result = price_order(call, chain, options, "auto", &t.op_count);
  if (result == CLI_DONE) result = make_plan(call, chain, options, &t.plan, &t.op_dm_fuse);
  if (result != CLI_DONE) return result;
  if (json)
    print_table_json(call, &t);
  else
    print_table_text(call, &t);
  mmc_plan_destroy(t.plan);
  return CLI_DONE;
}

static bool is_dim(const char *word) {
  return word[strspn(word, "0123456789")] == '\0';
}

int cli_table_show(cli_call *call, int count, char **arguments, const mmc_plan_options *options,
                   bool json) {
  if (count == 0 || is_dim(arguments[0])) { /* dims apart make one chain */
    mmc_chain *chain;
    int result = cli_chain_of_arguments(call, count, arguments, &chain);
    if (result != CLI_DONE) return result;
    result = show_chain(call, chain, options, json);
    mmc_chain_destroy(chain);
    return result;
  }
  cli_suite suite = {0};
  int result = cli_suite_of_arguments(call, count, arguments, &suite);
  for (int c = 0; c < suite.count && result == CLI_DONE; c++) {
    if (c > 0 && !json) cli_print(&call->out, "\n");
    result = show_chain(call, suite.entries[c].chain, options, json);
  }
  cli_suite_free(&suite);
  return result;
}
