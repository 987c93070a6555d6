/* parts.c: see parts.h. */
#include "parts.h"

#include <math.h>
#include <string.h>

enum { MOST_FACTORS = 16, MOST_AXES = 6 };

/* Every number that is read or written counts as so many multiplications. */
static const double a_number = 8;

/* Multiplications that take about as long as a call more. */
static const double least_on_host = 4e5, least_on_gpu = 1e9;

typedef struct problem {
  int n, axes;
  int64_t sizes[MOST_AXES];   /* of the stack, from the last axis on */
  unsigned has[MOST_FACTORS]; /* the axes along which a factor has several matrices, a bit each */
  int64_t dims[MOST_FACTORS + 1];
} problem;

/* An order of the products, and what it takes. */
typedef struct order {
  double price;
  uint8_t splits[MOST_FACTORS][MOST_FACTORS]; /* by first and last factor: the last of the left */
} order;

static bool read_problem(const mmcp_call *c, problem *x) {
  *x = (problem){.n = (int)c->n};
  for (int a = 0; a < MOST_AXES; a++) x->sizes[a] = 1;
  for (int i = 0; i < x->n; i++) {
    const mmcp_view *view = &c->views[i];
    const int axes = view->ndim - 2;
    if (axes < 0 || axes > MOST_AXES || view->dtype != c->views[0].dtype) return false;
    if (axes > x->axes) x->axes = axes;
    const int64_t rows = view->shape[axes], cols = view->shape[axes + 1];
    if (i > 0 && rows != x->dims[i]) return false;
    x->dims[i] = rows;
    x->dims[i + 1] = cols;
    for (int a = 0; a < axes; a++) {
      const int64_t size = view->shape[axes - 1 - a];
      if (size == 1) continue;
      if (x->sizes[a] != 1 && x->sizes[a] != size) return false;
      x->sizes[a] = size;
      x->has[i] |= 1U << a;
    }
  }
  return true;
}

static double count_of(const problem *x, unsigned has) {
  double count = 1;
  for (int a = 0; a < x->axes; a++)
    if ((has >> a & 1) != 0) count *= (double)x->sizes[a];
  return count;
}

static unsigned axes_of(const problem *x, int first, int last) {
  unsigned has = 0;
  for (int i = first; i <= last; i++) has |= x->has[i];
  return has;
}

/* Finds the cheapest order where products are of as many matrices as their axes say, or else of the
 * whole stack unless all of it shares them. */
static void find_order(const problem *x, bool by_axes, order *out) {
  double least[MOST_FACTORS][MOST_FACTORS];
  const double all = count_of(x, ~0U);
  for (int last = 0; last < x->n; last++) {
    least[last][last] = 0;
    for (int first = last - 1; first >= 0; first--) {
      const unsigned has = axes_of(x, first, last);
      const double count = by_axes || has == 0 ? count_of(x, has) : all;
      const double m = (double)x->dims[first], n = (double)x->dims[last + 1];
      least[first][last] = INFINITY;
      for (int split = first; split < last; split++) {
        const double k = (double)x->dims[split + 1];
        const double price = least[first][split] + least[split + 1][last] +
                             count * (m * k * n + a_number * (m * k + k * n + m * n));
        if (!(price < least[first][last])) continue;
        least[first][last] = price;
        out->splits[first][last] = (uint8_t)split;
      }
    }
  }
  out->price = least[0][x->n - 1];
}

/* Lists the largest products of the order that lack axes, but those that the whole stack shares,
 * which plans know. */
static int list_parts(const problem *x, const order *by, int first, int last, int count,
                      mmcp_part *parts) {
  if (first == last || count < 0) return count;
  const unsigned has = axes_of(x, first, last), all = axes_of(x, 0, x->n - 1);
  if (has == 0) return count;
  if (has != all) {
    if (count == MMCP_MOST_PARTS) return -1;
    parts[count] = (mmcp_part){first, last};
    return count + 1;
  }
  const int split = by->splits[first][last];
  count = list_parts(x, by, first, split, count, parts);
  return list_parts(x, by, split + 1, last, count, parts);
}

/* Says whether the caller's plan, if any, is for these matrices, one chain of them or all. */
static bool is_planned(const mmcp_call *c, const problem *x) {
  const mmc_chain *chain = c->planned;
  if (chain == NULL) return true;
  const double batch = (double)mmc_chain_batch(chain);
  return mmc_chain_length(chain) == c->n && mmc_chain_dtype(chain) == c->views[0].dtype &&
         memcmp(mmc_chain_dims(chain), x->dims, (size_t)(c->n + 1) * sizeof *x->dims) == 0 &&
         (batch == 1 || batch == count_of(x, ~0U));
}

int mmcp_find_parts(const mmcp_call *c, mmcp_part parts[MMCP_MOST_PARTS]) {
  problem x;
  order plain = {0}, by_axes = {0};
  if (c->n < 3 || c->n > MOST_FACTORS || c->is_chain || !read_problem(c, &x) || x.axes < 2 ||
      !is_planned(c, &x))
    return 0;
  find_order(&x, false, &plain);
  find_order(&x, true, &by_axes);
  const mmc_dtype dtype = c->views[0].dtype;
  const double each = dtype == MMC_C64 || dtype == MMC_C128 ? 4 : 1;
  const double least = c->views[0].device == MMCP_HOST ? least_on_host : least_on_gpu;
  if (!((plain.price - by_axes.price) * each > least) || by_axes.price > 0.9 * plain.price)
    return 0;
  const int count = list_parts(&x, &by_axes, 0, x.n - 1, 0, parts);
  return count > 0 ? count : 0;
}
