/* sparse_explain.c: says in words and as JSON how a sparse chain is computed, and why. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "sparse/sparse_parts.h"

static char letter_of(const mmci_sparse_chain *x, int32_t operand) {
  return operand < x->n ? 'A' : 'T';
}

static int32_t number_of(const mmci_sparse_chain *x, int32_t operand) {
  return operand < x->n ? operand + 1 : operand - x->n + 1;
}

static void put_operand(const mmci_sparse_chain *x, int32_t operand, mmci_text *text) {
  mmci_text_printf(text, "%c%" PRId32, letter_of(x, operand), number_of(x, operand));
}

/* Writes the order below an operand, "((A1 A2) A3)". */
static void put_order(const mmci_sparse_chain *x, int32_t operand, mmci_text *text) {
  if (operand < x->n) {
    put_operand(x, operand, text);
    return;
  }
  const mmci_sparse_step *step = &x->order.steps[operand - x->n];
  mmci_text_printf(text, "(");
  put_order(x, step->left, text);
  mmci_text_printf(text, " ");
  put_order(x, step->right, text);
  mmci_text_printf(text, ")");
}

static const char *solver_of(const mmci_sparse_chain *x) {
  if (x->order.is_at_once) return "at-once";
  return x->request.left_to_right ? "left-to-right" : "sparse";
}

static void put_dims(const mmci_sparse_chain *x, const char *between, mmci_text *text) {
  mmci_text_printf(text, "%" PRId64, x->kinds[0].rows);
  for (int32_t i = 0; i < x->n; i++)
    mmci_text_printf(text, "%s%" PRId64, between, x->kinds[i].cols);
}

static double share_of(const mmci_sparse_chain *x, const mmci_sparse_step *step) {
  const double all = x->order.cost.multiplications;
  return all > 0 ? step->cost.multiplications / all : 0;
}

static double density_of(const mmci_sparse_step *step) {
  const double all = (double)step->m * (double)step->n;
  return all > 0 ? step->nonzeros / all : 0;
}

static void put_notes(const mmci_sparse_chain *x, const mmci_sparse_step *step, mmci_text *text) {
  const bool both = step->kernel >= MMCI_DENSE_DENSE; /* solves among these */
  const bool dense[2] = {both || step->kernel == MMCI_DENSE_CSR,
                         both || step->kernel == MMCI_CSR_DENSE};
  for (int side = 0; side < 2; side++) {
    if (step->inverts[side]) {
      mmci_text_printf(text, "  ");
      put_operand(x, side == 0 ? step->left : step->right, text);
      mmci_text_printf(text, " inverted");
    }
    if (!step->converts[side]) continue;
    mmci_text_printf(text, "  ");
    put_operand(x, side == 0 ? step->left : step->right, text);
    mmci_text_printf(text, dense[side] ? " made dense" : " made sparse");
  }
}

static const char *name_kernel(const mmci_sparse_chain *x, const mmci_sparse_step *step) {
  if (step->kernel != MMCI_SOLVE_LEFT && step->kernel != MMCI_SOLVE_RIGHT)
    return mmci_sparse_kernel_name(step->kernel);
  const int32_t factor = step->kernel == MMCI_SOLVE_LEFT ? step->left : step->right;
  return mmci_structure_kernel_name(x->kinds[factor].inverse.solver);
}

static void explain_text(const mmci_sparse_chain *x, mmci_text *text) {
  const mmci_sparse_order *o = &x->order;
  mmci_text_printf(text, "chain            %s:", mmc_dtype_name(x->dtype));
  put_dims(x, "x", text);
  mmci_text_printf(text, ", sparse:");
  for (int32_t i = 0; i < x->n; i++)
    if (!x->kinds[i].is_dense) mmci_text_printf(text, " A%" PRId32, i + 1);
  bool any = false;
  for (int32_t i = 0; i < x->n; i++) {
    if (x->kinds[i].inverse.solver == MMCI_STRUCTURE_GEMM) continue;
    mmci_text_printf(text, "%s A%" PRId32, any ? "" : ", inverted:", i + 1);
    any = true;
  }
  mmci_text_printf(text, "\norder            ");
  put_order(x, o->count > 0 ? x->n + o->count - 1 : 0, text);
  if (o->is_at_once)
    mmci_text_printf(text,
                     "\nwhy              from the end with the fewest lines, in less time than "
                     "estimating nonzeros takes\nsolver           %s\n",
                     solver_of(x));
  else
    mmci_text_printf(text,
                     "\nwhy              the %s%s, by estimated nonzeros\nsolver           %s\n",
                     x->request.by_time ? "least predicted time" : "fewest multiplications",
                     x->request.left_to_right ? " in turn" : " of all orders", solver_of(x));
  mmci_text_printf(text, "multiplications  %.6g%s", o->cost.multiplications,
                   o->is_at_once ? "" : " estimated");
  if (o->cost.multiplications > 0 && !o->is_at_once)
    mmci_text_printf(text, " (left to right: %.6g, %.3g times)", o->left_to_right.multiplications,
                     o->left_to_right.multiplications / o->cost.multiplications);
  mmci_text_printf(text, "\nresult           %s%s\npredicted        %.4g s\ndevice           %s\n",
                   x->request.result == MMCI_SPARSE ? "sparse" : "dense",
                   o->converts ? ", from the other form" : "", o->cost.seconds, x->on.name);
  if (o->count == 0) return;
  mmci_text_printf(text, "\n%-20s %10s %10s %10s  %-16s %15s %7s %13s %9s\n", "step", "m", "k", "n",
                   "kernel", "multiplications", "share", "nonzeros", "density");
  for (int32_t s = 0; s < o->count; s++) {
    const mmci_sparse_step *step = &o->steps[s];
    char name[16], whole[64];
    snprintf(name, sizeof name, "T%" PRId32, s + 1);
    snprintf(whole, sizeof whole, "%s = %c%" PRId32 " %c%" PRId32, s == o->count - 1 ? "R" : name,
             letter_of(x, step->left), number_of(x, step->left), letter_of(x, step->right),
             number_of(x, step->right));
    mmci_text_printf(
        text, "%-20s %10" PRId64 " %10" PRId64 " %10" PRId64 "  %-16s %15.6g %5.1f %% %13.6g %9.2g",
        whole, step->m, step->k, step->n, name_kernel(x, step), step->cost.multiplications,
        100 * share_of(x, step), step->nonzeros, density_of(step));
    put_notes(x, step, text);
    mmci_text_printf(text, "\n");
  }
}

static void explain_json(const mmci_sparse_chain *x, mmci_text *text) {
  const mmci_sparse_order *o = &x->order;
  mmci_text_printf(text, "{\"dtype\": \"%s\", \"dims\": [", mmc_dtype_name(x->dtype));
  put_dims(x, ", ", text);
  mmci_text_printf(text, "], \"sparse\": [");
  for (int32_t i = 0; i < x->n; i++)
    mmci_text_printf(text, "%s%s", i > 0 ? ", " : "", x->kinds[i].is_dense ? "false" : "true");
  mmci_text_printf(text, "], \"order\": \"");
  put_order(x, o->count > 0 ? x->n + o->count - 1 : 0, text);
  mmci_text_printf(text,
                   "\", \"objective\": \"%s\", \"solver\": \"%s\", \"device\": \"%s\", "
                   "\"result\": \"%s\", \"multiplications\": %.17g, \"left_to_right\": ",
                   x->request.by_time ? "time" : "flops", solver_of(x), x->on.name,
                   x->request.result == MMCI_SPARSE ? "sparse" : "dense", o->cost.multiplications);
  if (o->is_at_once)
    mmci_text_printf(text, "null");
  else
    mmci_text_printf(text, "%.17g", o->left_to_right.multiplications);
  mmci_text_printf(text, ", \"predicted_seconds\": %.6g, \"steps\": [", o->cost.seconds);
  for (int32_t s = 0; s < o->count; s++) {
    const mmci_sparse_step *step = &o->steps[s];
    mmci_text_printf(text,
                     "%s{\"m\": %" PRId64 ", \"k\": %" PRId64 ", \"n\": %" PRId64
                     ", \"left\": %" PRId32 ", \"right\": %" PRId32 ", \"first\": %" PRId32
                     ", \"last\": %" PRId32
                     ", \"kernel\": \"%s\", \"multiplications\": %.17g, "
                     "\"nonzeros\": %.17g, \"predicted_s\": %.6g}",
                     s > 0 ? ", " : "", step->m, step->k, step->n, step->left, step->right,
                     step->first, step->last, name_kernel(x, step), step->cost.multiplications,
                     step->nonzeros, step->cost.seconds);
  }
  mmci_text_printf(text, "]}\n");
}

mmc_status mmci_sparse_chain_explain(const mmci_sparse_chain *chain, mmc_format format,
                                     mmc_write_fn write, void *user, mmci_error *error) {
  if (format != MMC_TEXT && format != MMC_JSON)
    return mmci_fail_argument(error, MMC_E_ARG, "format",
                              "expected MMC_TEXT or MMC_JSON, got number %d", (int)format);
  mmci_text text;
  mmci_text_start(&text, write, user);
  (format == MMC_TEXT ? explain_text : explain_json)(chain, &text);
  return mmci_text_finish(&text, error);
}
