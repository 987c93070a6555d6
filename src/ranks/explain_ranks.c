/* explain_ranks.c: a plan over ranks in words and as JSON. */
#include "ranks/explain_ranks.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/number.h"

typedef struct label {
  char text[48];
} label;

static label count_label(mmci_u128 value) {
  label l;
  mmc_count_format(mmci_count(value), l.text);
  return l;
}

static label operand_label(const mmci_ranks_problem *p, int64_t operand) {
  label l;
  if (operand < p->factor_count)
    snprintf(l.text, sizeof l.text, "A%" PRId64, operand + 1);
  else if (operand == p->factor_count + p->step_count - 1)
    snprintf(l.text, sizeof l.text, "R");
  else
    snprintf(l.text, sizeof l.text, "T%" PRId64, operand - p->factor_count + 1);
  return l;
}

static label seconds_label(double seconds) {
  static const char *const units[] = {"s", "ms", "us"};
  label l;
  int u = 0;
  for (; u < 2 && seconds < 1; u++) seconds *= 1e3;
  mmci_print(l.text, sizeof l.text, "%.4g %s", seconds, units[u]);
  return l;
}

static label bytes_label(uint64_t bytes) {
  static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
  label l;
  double value = (double)bytes;
  int u = 0;
  for (; u < 4 && value >= 1e4; u++) value /= 1e3;
  mmci_print(l.text, sizeof l.text, "%.4g %s", value, units[u]);
  return l;
}

/* Returns "0-3". */
static label ranks_label(const mmci_layout *layout) {
  label l;
  if (layout->ranks == 1)
    snprintf(l.text, sizeof l.text, "%d", (int)layout->first);
  else
    snprintf(l.text, sizeof l.text, "%d-%d", (int)layout->first,
             (int)(layout->first + layout->ranks - 1));
  return l;
}

/* Returns "rows", "rows > whole" for a change, or "rows of 2-3 > whole" where fewer ranks had it.
 */
static label change_label(const mmci_layout *from, const mmci_layout *to) {
  char before[MMCI_LAYOUT_TEXT_SIZE], after[MMCI_LAYOUT_TEXT_SIZE];
  const bool same_ranks = from->first == to->first && from->ranks == to->ranks;
  label l;
  mmci_layout_text(from, before);
  mmci_layout_text(to, after);
  if (mmci_layout_same(from, to))
    snprintf(l.text, sizeof l.text, "%.20s", before);
  else
    snprintf(l.text, sizeof l.text, "%.14s%s%.12s > %.14s", before, same_ranks ? "" : " of ",
             same_ranks ? "" : ranks_label(from).text, after);
  return l;
}

static double share(const mmci_ranks_plan *plan) {
  return plan->predicted_s > 0 ? 100 * plan->communication_s / plan->predicted_s : 0;
}

void mmci_ranks_put_text(const mmci_ranks_account *account, mmci_text *text) {
  const mmci_ranks_problem *p = account->problem;
  const mmci_ranks_plan *plan = account->plan;
  static const char *const reasons[] = {"the least predicted seconds", "the least predicted joules",
                                        "the fewest words"};
  mmci_text_printf(text, "chain            %.900s\n", account->chain);
  mmci_text_printf(text, "order            ");
  for (const char *at = account->order; *at != '\0'; at++) mmci_text_bytes(text, at, 1);
  mmci_text_printf(text, "\nmultiplications  %s\n", count_label(account->multiplications).text);
  mmci_text_printf(text, "engine           %s, %d of %d ranks\n", account->engine, (int)plan->ranks,
                   (int)p->ranks);
  mmci_text_printf(text, "why              %s of all layouts\n", reasons[p->goal]);
  if (p->reproducible)
    mmci_text_printf(text, "precision        reproducible: no sums of partial products\n");
  mmci_text_printf(text, "words            %s sent by all ranks\n", count_label(plan->words).text);
  mmci_text_printf(text, "predicted        %s, communication %.1f %% of it (%s)\n",
                   seconds_label(plan->predicted_s).text, share(plan),
                   p->rates.calibrated ? "model" : "model, not calibrated");
  mmci_text_printf(text, "memory           %s at most a rank\n",
                   bytes_label(plan->rank_bytes).text);
  mmci_text_printf(text, "\n%-18s %10s %10s %10s   %-7s %-7s %-26s %-26s %-10s %14s %7s %12s\n",
                   "step", "m", "k", "n", "ranks", "way", "left", "right", "result", "words",
                   "comm.", "memory");
  for (int64_t s = 0; s < p->step_count; s++) {
    const mmci_ranks_product *x = &p->products[s];
    const mmci_ranks_step *step = &plan->steps[s];
    label name;
    char result[MMCI_LAYOUT_TEXT_SIZE];
    snprintf(name.text, sizeof name.text, "%.14s = %.14s %.14s",
             operand_label(p, p->factor_count + s).text, operand_label(p, x->left).text,
             operand_label(p, x->right).text);
    mmci_text_printf(text,
                     "%-18s %10" PRId64 " %10" PRId64 " %10" PRId64
                     "   %-7s %-7s %-26s %-26s %-10s %14s %5.1f %% %12s\n",
                     name.text, x->m, x->k, x->n, ranks_label(&step->way.result).text,
                     mmci_algorithm_name(step->way.algorithm),
                     change_label(&step->left.from, &step->way.left).text,
                     change_label(&step->right.from, &step->way.right).text,
                     mmci_layout_text(&step->way.result, result), count_label(step->words).text,
                     step->predicted_s > 0 ? 100 * step->communication_s / step->predicted_s : 0,
                     bytes_label(step->rank_bytes).text);
  }
  mmci_text_printf(text, "\nresult           %s",
                   change_label(&plan->last.from, &plan->result).text);
  if (plan->last.words > 0)
    mmci_text_printf(text, ", %s words", count_label(plan->last.words).text);
  mmci_text_printf(text, "\n");
}

static void put_operand(const mmci_ranks_operand *operand, const mmci_layout *to, mmci_text *text) {
  char from[MMCI_LAYOUT_TEXT_SIZE], after[MMCI_LAYOUT_TEXT_SIZE];
  mmci_text_printf(text, "{\"from\": \"%s\", \"to\": \"%s\", \"words\": %s}",
                   mmci_layout_text(&operand->from, from), mmci_layout_text(to, after),
                   count_label(operand->words).text);
}

void mmci_ranks_put_json(const mmci_ranks_account *account, mmci_text *text) {
  const mmci_ranks_problem *p = account->problem;
  const mmci_ranks_plan *plan = account->plan;
  static const char *const goals[] = {"time", "energy", "words"};
  mmci_text_printf(text, "{\"chain\": ");
  mmci_text_json_string(text, account->chain);
  mmci_text_printf(text, ", \"order\": ");
  mmci_text_json_string(text, account->order);
  mmci_text_printf(text,
                   ", \"engine\": \"%s\", \"ranks\": %d, \"ranks_used\": %d, \"objective\": "
                   "\"%s\", \"multiplications\": %s, \"words\": %s, \"predicted_s\": %.9g, "
                   "\"communication_s\": %.9g, \"predicted_j\": %.9g, \"rank_bytes\": %" PRIu64
                   ", \"calibrated\": %s, \"precision\": \"%s\", \"steps\": [",
                   account->engine, (int)p->ranks, (int)plan->ranks, goals[p->goal],
                   count_label(account->multiplications).text, count_label(plan->words).text,
                   plan->predicted_s, plan->communication_s, plan->predicted_j, plan->rank_bytes,
                   p->rates.calibrated ? "true" : "false",
                   p->reproducible ? "reproducible" : "native");
  for (int64_t s = 0; s < p->step_count; s++) {
    const mmci_ranks_product *x = &p->products[s];
    const mmci_ranks_step *step = &plan->steps[s];
    char result[MMCI_LAYOUT_TEXT_SIZE];
    mmci_text_printf(text,
                     "%s{\"m\": %" PRId64 ", \"k\": %" PRId64 ", \"n\": %" PRId64
                     ", \"operands\": [\"%s\", \"%s\"], \"ranks\": [%d, %d], \"way\": \"%s\", "
                     "\"left\": ",
                     s > 0 ? ", " : "", x->m, x->k, x->n, operand_label(p, x->left).text,
                     operand_label(p, x->right).text, (int)step->way.result.first,
                     (int)(step->way.result.first + step->way.result.ranks - 1),
                     mmci_algorithm_name(step->way.algorithm));
    put_operand(&step->left, &step->way.left, text);
    mmci_text_printf(text, ", \"right\": ");
    put_operand(&step->right, &step->way.right, text);
    mmci_text_printf(text,
                     ", \"result\": \"%s\", \"words\": %s, \"predicted_s\": %.9g, "
                     "\"communication_s\": %.9g, \"rank_bytes\": %" PRIu64 "}",
                     mmci_layout_text(&step->way.result, result), count_label(step->words).text,
                     step->predicted_s, step->communication_s, step->rank_bytes);
  }
  mmci_text_printf(text, "], \"result\": ");
  put_operand(&plan->last, &plan->result, text);
  mmci_text_printf(text, "}\n");
}
