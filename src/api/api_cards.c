/* api_cards.c: the public calls about plans for several devices. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "ranks/cards_paper.h"
#include "run/matrices.h"

/* ---- devices --------------------------------------------------------------------------------- */

void mmci_gangs_destroy(mmci_gang *gangs) {
  while (gangs != NULL) {
    mmci_gang *next = gangs->next;
    free(gangs->name);
    free(gangs);
    gangs = next;
  }
}

/* Fills a gang with as many devices as are asked for, where fewer are here. */
static void pretend(mmci_gang *gang, int64_t ranks, bool any) {
  static const mmci_device_ops *const paper = &mmci_device_paper;
  mmci_cards *cards = &gang->cards;
  mmci_opened card = {.ops = paper, .name = "cuda, not here"};
  mmci_error ignored;
  if (any) card = cards->opened[0];
  if (!any) (void)paper->open(0, &card.device, &ignored);
  gang->absent = true;
  cards->count = (int32_t)ranks;
  for (int64_t i = 0; i < ranks; i++) cards->opened[i] = card;
  cards->link_bytes_per_s = MMCI_PAPER_LINK_BYTES_PER_S;
}

static mmc_status fill_gang(mmc_context *context, mmci_gang *gang, int64_t ranks,
                            mmci_error *error) {
  mmci_cards *cards = &gang->cards;
  mmc_status status = mmci_registry_open_several(context->registry, gang->name, cards->opened,
                                                 MMCI_CARDS_MAX, &cards->count, error);
  if (ranks > 0 && (status == MMC_OK || status == MMC_E_UNSUPPORTED)) {
    if (status != MMC_OK || cards->count < ranks) {
      pretend(gang, ranks, status == MMC_OK);
      return MMC_OK;
    }
    cards->count = (int32_t)ranks;
  }
  return status == MMC_OK ? mmci_cards_join(cards, error) : status;
}

/* Makes a gang, under the context's lock. */
static mmc_status create_gang(mmc_context *context, const char *name, int64_t ranks,
                              const mmci_gang **out, mmci_error *error) {
  mmci_gang *gang = mmci_alloc_zeroed(1, sizeof *gang);
  if (gang == NULL) return mmci_fail_nomem(error, sizeof *gang);
  gang->name = strdup(name);
  gang->ranks = ranks;
  mmc_status status = gang->name != NULL ? fill_gang(context, gang, ranks, error)
                                         : mmci_fail_nomem(error, strlen(name) + 1);
  if (status != MMC_OK) {
    mmci_gangs_destroy(gang);
    return status;
  }
  gang->next = context->gangs;
  context->gangs = gang;
  *out = gang;
  return MMC_OK;
}

/* Returns how many devices a name lists, as two of "cuda:0,1"; 0 when it lists none. */
static int64_t count_listed(const char *name) {
  int64_t count = strchr(name, ',') != NULL;
  for (const char *c = name; (c = strchr(c, ',')) != NULL; c++) count++;
  return count;
}

mmc_status mmci_context_open_gang(mmc_context *context, const char *name, int64_t ranks,
                                  const mmci_gang **out, mmci_error *error) {
  if (ranks < 0 || ranks > MMCI_CARDS_MAX)
    return mmci_fail_argument(error, MMC_E_ARG, "ranks", "expected 1 to %d, got %lld",
                              (int)MMCI_CARDS_MAX, (long long)ranks);
  const int64_t listed = count_listed(name);
  if (ranks > 0 && listed > 0 && ranks != listed)
    return mmci_fail_argument(error, MMC_E_ARG, "ranks",
                              "expected %lld, as device '%s' names, got %lld", (long long)listed,
                              name, (long long)ranks);
  pthread_mutex_lock(&context->lock);
  mmci_gang *gang = context->gangs;
  while (gang != NULL && (strcmp(gang->name, name) != 0 || gang->ranks != ranks)) gang = gang->next;
  mmc_status status = MMC_OK;
  if (gang != NULL)
    *out = gang;
  else
    status = create_gang(context, name, ranks, out, error);
  pthread_mutex_unlock(&context->lock);
  return status;
}

int64_t mmc_plan_device_count(const mmc_plan *plan) {
  if (plan == NULL) return 0;
  return plan->gang != NULL ? plan->gang->cards.count : 1;
}

const char *mmc_plan_device_name(const mmc_plan *plan, int64_t index) {
  if (plan == NULL || index < 0 || index >= mmc_plan_device_count(plan)) return "";
  return plan->gang != NULL ? plan->gang->cards.opened[index].name : plan->on.name;
}

mmc_cut mmc_plan_cut(const mmc_plan *plan, int64_t index) {
  if (plan == NULL || plan->gang == NULL || plan->cards_plan.alone != NULL) return MMC_CUT_NONE;
  const mmc_chain *chain = plan->plan.chain;
  if (index < 0 || index > chain->n) return MMC_CUT_NONE;
  const bool turned = index < chain->n && chain->ops[index] != MMC_OP_N;
  const mmci_layout *layout = &plan->cards_plan.factors[index].layout;
  if (layout->kind == MMCI_WHOLE && layout->ranks > 1) return MMC_CUT_WHOLE;
  return (layout->kind == MMCI_COLS) != turned ? MMC_CUT_COLS : MMC_CUT_ROWS;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static mmc_status create_alone(mmc_run *run, mmci_error *error) {
  const mmc_plan *plan = run->plan;
  if (run->run != NULL) return MMC_OK;
  return mmci_run_create(&plan->plan, plan->on.ops, plan->on.device, plan->precision, &run->run,
                         error);
}

mmc_status mmci_cards_of_run(mmc_run *run, mmci_error *error) {
  const mmc_plan *plan = run->plan;
  const mmci_cards *cards = &plan->gang->cards;
  if (plan->gang->absent)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device",
                              "the plan is for %d devices, which are not all here",
                              (int)cards->count);
  const size_t matrices = (size_t)plan->plan.chain->n + 1;
  run->given = mmci_alloc_zeroed(matrices, sizeof *run->given);
  run->pieces = mmci_alloc_zeroed(matrices * (size_t)cards->count, sizeof *run->pieces);
  if (run->given == NULL || run->pieces == NULL)
    return mmci_fail_nomem(error, matrices * (size_t)cards->count * sizeof *run->pieces);
  if (plan->cards_plan.alone != NULL) {
    mmc_status status = create_alone(run, error);
    if (status != MMC_OK) return status;
  }
  return mmci_cards_run_create(cards, &plan->plan, plan->precision, plan->device_memory_bytes, NULL,
                               &run->cards, error);
}

void mmci_cards_of_run_destroy(mmc_run *run) {
  mmci_cards_run_destroy(run->cards);
  free(run->given);
  free(run->pieces);
}

/* Describes one matrix, on the host or in the memory of the first device. */
static void give_one(const mmc_run *run, int32_t number, const mmc_matrix *matrix) {
  const int32_t count = run->plan->gang->cards.count;
  mmci_given *g = &run->given[number];
  *g = (mmci_given){.on_host = matrix->location == MMC_HOST, .matrix = matrix};
  if (g->on_host) return;
  mmc_matrix *pieces = run->pieces + (int64_t)number * count;
  pieces[0] = *matrix;
  g->pieces = pieces;
  g->site = (mmci_site){mmci_layout_rows(1), 0};
}

static bool has_elements(const mmc_chain *chain) {
  return chain->batch != 0 && chain->dims[0] != 0 && chain->dims[chain->n] != 0;
}

mmc_status mmci_cards_execute(mmc_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                              mmci_error *error) {
  const mmc_chain *chain = run->plan->plan.chain;
  bool alone = run->plan->cards_plan.alone != NULL;
  if (!alone) {
    mmc_status status = mmci_matrices_check(chain, factors, out, error);
    if (status != MMC_OK || !has_elements(chain)) return status;
    for (int32_t i = 0; i < chain->n; i++) give_one(run, i, &factors[i]);
    give_one(run, chain->n, out);
    status = mmci_cards_run_execute(run->cards, run->given, &run->given[chain->n], &alone, error);
    if (status != MMC_OK || !alone) return status;
  }
  mmc_status status = create_alone(run, error);
  return status == MMC_OK ? mmci_run_execute(run->run, factors, out, error) : status;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Returns the layout of op(A) on the devices. */
static mmci_layout layout_of(mmc_cut cut, bool turned, int32_t count) {
  if (cut == MMC_CUT_WHOLE) return mmci_layout_whole(count);
  const bool rows = (cut == MMC_CUT_ROWS) != turned;
  return rows ? mmci_layout_rows(count) : mmci_layout_cols(count);
}

static mmc_status check_piece(const mmc_matrix *piece, const char *name, int64_t number,
                              int32_t device, int64_t rows, int64_t cols, mmci_error *error) {
  if (piece->rows != rows || piece->cols != cols)
    return mmci_fail(error, MMC_E_ARG, "%s %lld: piece %d: expected %lld x %lld, got %lld x %lld",
                     name, (long long)number, (int)device, (long long)rows, (long long)cols,
                     (long long)piece->rows, (long long)piece->cols);
  if (piece->layout != MMC_ROW_MAJOR && piece->layout != MMC_COL_MAJOR)
    return mmci_fail(error, MMC_E_ARG, "%s %lld: piece %d: layout: expected row- or column-major",
                     name, (long long)number, (int)device);
  if (piece->data == NULL || piece->location != MMC_DEVICE || piece->addresses != NULL)
    return mmci_fail(error, MMC_E_ARG,
                     "%s %lld: piece %d: expected an address of the device's memory", name,
                     (long long)number, (int)device);
  if (piece->ld != 0 && piece->ld < mmci_matrix_line_length(piece))
    return mmci_fail(error, MMC_E_ARG, "%s %lld: piece %d: ld: expected at least %lld, got %lld",
                     name, (long long)number, (int)device,
                     (long long)mmci_matrix_line_length(piece), (long long)piece->ld);
  return MMC_OK;
}

/* Checks and describes the pieces of a matrix of rows x cols after its op. */
static mmc_status give_pieces(const mmc_run *run, int32_t number, const mmc_pieces *x, bool turned,
                              int64_t rows, int64_t cols, mmci_error *error) {
  const mmc_chain *chain = run->plan->plan.chain;
  const char *name = number == chain->n ? "out" : "factor";
  const int32_t count = run->plan->gang->cards.count;
  if (x->pieces == NULL || x->cut < MMC_CUT_NONE || x->cut > MMC_CUT_WHOLE)
    return mmci_fail(error, MMC_E_ARG, "%s %d: expected pieces and a known cut", name,
                     (int)number + 1);
  if (x->cut == MMC_CUT_NONE) {
    give_one(run, number, x->pieces);
    return mmci_matrix_check(chain, name, x->pieces, turned ? cols : rows, turned ? rows : cols,
                             error);
  }
  mmci_given *g = &run->given[number];
  *g = (mmci_given){.site = {layout_of(x->cut, turned, count), 0}, .pieces = x->pieces};
  for (int32_t d = 0; d < count; d++) {
    const mmci_piece p = mmci_site_piece(&g->site, rows, cols, d);
    if (p.rows == 0 || p.cols == 0) continue;
    mmc_status status = check_piece(&x->pieces[d], name, (int64_t)number + 1, d,
                                    turned ? p.cols : p.rows, turned ? p.rows : p.cols, error);
    if (status != MMC_OK) return status;
  }
  return MMC_OK;
}

/* Executes with matrices of which none is in pieces. */
static mmc_status execute_whole(mmc_run *run, const mmc_pieces *factors, const mmc_pieces *out,
                                mmci_error *error) {
  const int32_t n = run->plan->plan.chain->n;
  mmc_matrix *matrices = mmci_alloc_array((size_t)n, sizeof *matrices);
  if (matrices == NULL) return mmci_fail_nomem(error, (uint64_t)n * sizeof *matrices);
  for (int32_t i = 0; i < n; i++) matrices[i] = factors[i].pieces[0];
  mmc_status status = mmci_cards_execute(run, matrices, out->pieces, error);
  free(matrices);
  return status;
}

static mmc_status execute_pieces(mmc_run *run, const mmc_pieces *factors, const mmc_pieces *out,
                                 mmci_error *error) {
  const mmc_chain *chain = run->plan->plan.chain;
  if (run->cards == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "run",
                              "expected one of a plan for several devices");
  if (factors == NULL || out == NULL)
    return mmci_fail(error, MMC_E_ARG, "%s: expected pieces, got NULL",
                     factors == NULL ? "factors" : "out");
  for (int32_t i = 0; i < chain->n; i++) {
    mmc_status status = give_pieces(run, i, &factors[i], chain->ops[i] != MMC_OP_N, chain->dims[i],
                                    chain->dims[i + 1], error);
    if (status != MMC_OK) return status;
  }
  mmc_status status =
      give_pieces(run, chain->n, out, false, chain->dims[0], chain->dims[chain->n], error);
  if (status != MMC_OK || !has_elements(chain)) return status;
  bool alone;
  status = mmci_cards_run_execute(run->cards, run->given, &run->given[chain->n], &alone, error);
  if (status != MMC_OK || !alone) return status;
  for (int32_t i = 0; i < chain->n; i++)
    if (factors[i].cut != MMC_CUT_NONE || out->cut != MMC_CUT_NONE)
      return mmci_fail(error, MMC_E_UNSUPPORTED, "run: %s: expected whole matrices",
                       run->plan->cards_plan.alone != NULL ? run->plan->cards_plan.alone
                                                           : "this chain is for one device");
  return execute_whole(run, factors, out, error);
}

mmc_status mmc_execute_pieces(mmc_run *run, const mmc_pieces *factors, const mmc_pieces *out) {
  if (run == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(run->plan->context, execute_pieces(run, factors, out, &error), &error);
}
