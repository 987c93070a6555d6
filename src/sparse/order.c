#include "sparse/order.h"

#include "base/alloc.h"
#include "base/dtype.h"

const char *mmci_sparse_kernel_name(mmci_sparse_kernel kernel) {
  static const char *const names[MMCI_SPARSE_KERNELS] = {
      "csr csr", "csr csr to dense", "csr dense", "dense csr", "gemm", "solve", "solve"};
  return names[kernel];
}

/* ---- prices ---------------------------------------------------------------------------------- */

/* A product, held in these forms. */
typedef struct product {
  double m, k, n, left_nonzeros, right_nonzeros, nonzeros;
  double met; /* multiplications where both are sparse */
} product;

/* Returns the seconds of a passage over so many elements. */
static double pass_s(const mmci_sparse_prices *p, double elements) {
  return elements * (double)mmc_dtype_size(p->dtype) / p->bytes_per_s;
}

static double count_of(mmci_sparse_kernel kernel, const product *x) {
  switch (kernel) {
    case MMCI_CSR_CSR:
    case MMCI_CSR_CSR_DENSE:
      return x->met;
    case MMCI_CSR_DENSE:
      return x->left_nonzeros * x->n;
    case MMCI_DENSE_CSR:
      return x->m * x->right_nonzeros;
    default:
      return x->m * x->k * x->n;
  }
}

/* Nanoseconds of a multiplication, of an element of a sparse result, and of a row that is begun; on
 * two cores of an AMD EPYC with AVX-512, f64 (bench/bench_sparse.py). Elements of a dense result
 * are written once. Complex numbers take twice as long. */
static double seconds_of(const mmci_sparse_prices *p, mmci_sparse_kernel kernel, const product *x) {
  const double ns = mmci_dtype_is_complex(p->dtype) ? 2e-9 : 1e-9;
  const double count = count_of(kernel, x), result = x->m * x->n;
  const double flops = mmci_dtype_is_complex(p->dtype) ? 8 : 2;
  switch (kernel) {
    case MMCI_CSR_CSR:
      return p->launch_s + ns * (1.0 * count + 4.0 * x->nonzeros + 20 * x->m);
    case MMCI_CSR_CSR_DENSE:
      return p->launch_s + ns * 0.7 * count + pass_s(p, 2 * result);
    case MMCI_CSR_DENSE:
      return p->launch_s + pass_s(p, 2 * result) +
             ns * (x->n > 1 ? 0.25 * count + 1.5 * x->left_nonzeros : 1.0 * count);
    case MMCI_DENSE_CSR:
      return p->launch_s + ns * 0.5 * count + pass_s(p, 2 * result);
    default:
      return p->launch_s + flops * count / p->flops_per_s + pass_s(p, result);
  }
}

/* Solves and inverses take twice as long as so many multiplications of GEMM. */
static mmci_sparse_cost cost_of_solve(const mmci_sparse_prices *p, double count, double elements) {
  const double flops = mmci_dtype_is_complex(p->dtype) ? 8 : 2;
  const double seconds = 2 * flops * count / p->flops_per_s + pass_s(p, 2 * elements);
  return (mmci_sparse_cost){count, p->launch_s + seconds};
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The cheapest way to have a sub-chain in a form. */
typedef struct way {
  bool possible, converts; /* the other form is computed and then brought into this one */
  int32_t split;           /* the last factor of the left operand; -1 for a factor */
  uint8_t left, right, kernel;
  mmci_sparse_cost cost;
} way;

typedef struct table {
  int32_t n;
  const mmci_sparse_shape *factors;
  const mmci_sparse_prices *prices;
  mmci_sparse_request request;
  mmci_sparse_estimate estimate;
  double *nonzeros; /* n * n */
  way *ways;        /* n * n * MMCI_SPARSE_FORMS */
} table;

static way *way_at(const table *t, int32_t i, int32_t j, int form) {
  return &t->ways[(i * t->n + j) * MMCI_SPARSE_FORMS + form];
}

static mmci_sparse_cost add(mmci_sparse_cost a, mmci_sparse_cost b) {
  return (mmci_sparse_cost){a.multiplications + b.multiplications, a.seconds + b.seconds};
}

static bool is_less(const table *t, mmci_sparse_cost a, mmci_sparse_cost b) {
  if (t->request.by_time) return a.seconds < b.seconds;
  if (a.multiplications != b.multiplications) return a.multiplications < b.multiplications;
  return a.seconds < b.seconds;
}

static void take_better(const table *t, const way *w, way *best) {
  if (!best->possible || is_less(t, w->cost, best->cost)) *best = *w;
}

/* Brings what is in one form into the other, where that is cheaper than to have it so. */
static void convert(const table *t, int32_t i, int32_t j) {
  const double elements = (double)t->factors[i].rows * (double)t->factors[j].cols;
  const double nonzeros = t->nonzeros[i * t->n + j];
  const way before[MMCI_SPARSE_FORMS] = {*way_at(t, i, j, 0), *way_at(t, i, j, 1)};
  for (int form = 0; form < MMCI_SPARSE_FORMS; form++) {
    const way *other = &before[!form];
    if (!other->possible || other->converts) continue;
    way w = {.possible = true, .converts = true, .split = -1, .cost = other->cost};
    w.cost.seconds += t->prices->launch_s + pass_s(t->prices, 2 * elements) + 4e-9 * nonzeros;
    take_better(t, &w, way_at(t, i, j, form));
  }
}

static mmci_sparse_kernel kernel_of(int left, int right, int result) {
  if (left == MMCI_SPARSE && right == MMCI_SPARSE)
    return result == MMCI_SPARSE ? MMCI_CSR_CSR : MMCI_CSR_CSR_DENSE;
  if (left == MMCI_SPARSE) return MMCI_CSR_DENSE;
  return right == MMCI_SPARSE ? MMCI_DENSE_CSR : MMCI_DENSE_DENSE;
}

static product product_of(const table *t, int32_t i, int32_t k, int32_t j) {
  return (product){.m = (double)t->factors[i].rows,
                   .k = (double)t->factors[k].cols,
                   .n = (double)t->factors[j].cols,
                   .left_nonzeros = t->nonzeros[i * t->n + k],
                   .right_nonzeros = t->nonzeros[(k + 1) * t->n + j],
                   .nonzeros = t->nonzeros[i * t->n + j],
                   .met = mmci_sparse_count(&t->estimate, t->factors, i, k, j)};
}

static void try_split(const table *t, int32_t i, int32_t k, int32_t j) {
  const product x = product_of(t, i, k, j);
  for (int left = 0; left < MMCI_SPARSE_FORMS; left++)
    for (int right = 0; right < MMCI_SPARSE_FORMS; right++)
      for (int result = 0; result < MMCI_SPARSE_FORMS; result++) {
        const way *a = way_at(t, i, k, left), *b = way_at(t, k + 1, j, right);
        if (!a->possible || !b->possible) continue;
        if (result == MMCI_SPARSE && (left == MMCI_DENSE || right == MMCI_DENSE)) continue;
        /* No multiplications are saved by holding densely what can be held sparsely. */
        const bool whole = i == 0 && j == t->n - 1, both_sparse = left == 0 && right == 0;
        if (!t->request.by_time &&
            (a->converts || b->converts || (both_sparse && result == MMCI_DENSE && !whole)))
          continue;
        const mmci_sparse_kernel kernel = kernel_of(left, right, result);
        way w = {.possible = true,
                 .split = k,
                 .left = (uint8_t)left,
                 .right = (uint8_t)right,
                 .kernel = (uint8_t)kernel,
                 .cost = {count_of(kernel, &x), seconds_of(t->prices, kernel, &x)}};
        w.cost = add(w.cost, add(a->cost, b->cost));
        take_better(t, &w, way_at(t, i, j, result));
      }
}

static bool is_inverse(const table *t, int32_t i) {
  return t->factors[i].inverse.solver != MMCI_STRUCTURE_GEMM;
}

/* What it costs to form the inverse of factor i; nothing where it is not used by its inverse. */
static mmci_sparse_cost forming(const table *t, int32_t i) {
  const double n = (double)t->factors[i].rows;
  if (!is_inverse(t, i)) return (mmci_sparse_cost){0};
  const double count = mmci_sparse_invert_count(t->factors[i].inverse.solver, n);
  return cost_of_solve(t->prices, count, n * n);
}

static mmci_sparse_cost solving(const table *t, int32_t i, int32_t j, bool right) {
  const mmci_sparse_shape *s = &t->factors[right ? j : i];
  const double n = (double)s->rows,
               lines = (double)(right ? t->factors[i].rows : t->factors[j].cols);
  const double count = mmci_sparse_solve_count(s->inverse.solver, n, lines);
  return cost_of_solve(t->prices, count, n * n + n * lines);
}

/* Solves with a factor that is used by its inverse; what it meets is held densely. */
static void try_solve(const table *t, int32_t i, int32_t k, int32_t j, bool right) {
  if (right ? k + 1 != j || !is_inverse(t, j) : i != k || !is_inverse(t, i)) return;
  const way *other = right ? way_at(t, i, k, MMCI_DENSE) : way_at(t, k + 1, j, MMCI_DENSE);
  if (!other->possible) return;
  way w = {.possible = true,
           .split = k,
           .left = MMCI_DENSE,
           .right = MMCI_DENSE,
           .kernel = (uint8_t)(right ? MMCI_SOLVE_RIGHT : MMCI_SOLVE_LEFT),
           .cost = add(other->cost, solving(t, i, j, right))};
  take_better(t, &w, way_at(t, i, j, MMCI_DENSE));
}

static void fill(table *t) {
  for (int32_t i = 0; i < t->n; i++) {
    const int own = t->factors[i].csr != NULL ? MMCI_SPARSE : MMCI_DENSE;
    *way_at(t, i, i, own) = (way){.possible = true, .split = -1, .cost = forming(t, i)};
    convert(t, i, i);
  }
  for (int32_t length = 2; length <= t->n; length++)
    for (int32_t i = 0, j = length - 1; j < t->n; i++, j++) {
      const int32_t first = t->request.left_to_right ? j - 1 : i;
      for (int32_t k = first; k < j; k++) {
        try_split(t, i, k, j);
        try_solve(t, i, k, j, false);
        try_solve(t, i, k, j, true);
      }
      convert(t, i, j);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Lists what makes factors i to j in a form; returns its number as an operand. *converts says
 * whether it is in the other form. */
static int32_t list(const table *t, int32_t i, int32_t j, int form, mmci_sparse_order *out,
                    bool *converts) {
  const way *w = way_at(t, i, j, form);
  *converts = w->converts;
  if (i == j) return i;
  if (w->converts) w = way_at(t, i, j, !form);
  const product x = product_of(t, i, w->split, j);
  mmci_sparse_step step = {.m = t->factors[i].rows,
                           .k = t->factors[w->split].cols,
                           .n = t->factors[j].cols,
                           .first = i,
                           .last = j,
                           .kernel = (mmci_sparse_kernel)w->kernel,
                           .nonzeros = x.nonzeros};
  step.left = list(t, i, w->split, w->left, out, &step.converts[0]);
  step.right = list(t, w->split + 1, j, w->right, out, &step.converts[1]);
  const bool solves[2] = {step.kernel == MMCI_SOLVE_LEFT, step.kernel == MMCI_SOLVE_RIGHT};
  if (solves[0] || solves[1])
    step.cost = solving(t, i, j, solves[1]);
  else
    step.cost =
        (mmci_sparse_cost){count_of(step.kernel, &x), seconds_of(t->prices, step.kernel, &x)};
  for (int side = 0; side < 2; side++) {
    const int32_t operand = side == 0 ? step.left : step.right;
    step.inverts[side] = operand < t->n && is_inverse(t, operand) && !solves[side];
    if (step.inverts[side]) step.cost = add(step.cost, forming(t, operand));
  }
  out->steps[out->count] = step;
  return t->n + out->count++;
}

/* Finds what the factors cost in turn, each product as it is cheapest. */
static mmc_status in_turn(const table *t, mmci_sparse_cost *out, mmci_error *error) {
  table turned = *t;
  const size_t count = (size_t)t->n * (size_t)t->n * MMCI_SPARSE_FORMS;
  turned.request.left_to_right = true;
  turned.ways = mmci_alloc_zeroed(count, sizeof *turned.ways);
  if (turned.ways == NULL) return mmci_fail_nomem(error, count * sizeof *turned.ways);
  fill(&turned);
  *out = way_at(&turned, 0, t->n - 1, (int)t->request.result)->cost;
  free(turned.ways);
  return MMC_OK;
}

static mmc_status solve(table *t, mmci_sparse_order *out, mmci_error *error) {
  const size_t n = (size_t)t->n;
  for (int32_t i = 0; i < t->n; i++)
    for (int32_t j = i; j < t->n; j++)
      t->nonzeros[i * t->n + j] = mmci_sparse_nonzeros(&t->estimate, t->factors, i, j);
  fill(t);
  *out = (mmci_sparse_order){.cost = way_at(t, 0, t->n - 1, (int)t->request.result)->cost};
  mmc_status status = in_turn(t, &out->left_to_right, error);
  if (status != MMC_OK) return status;
  out->steps = mmci_alloc_array(n, sizeof *out->steps);
  if (out->steps == NULL) return mmci_fail_nomem(error, n * sizeof *out->steps);
  list(t, 0, t->n - 1, (int)t->request.result, out, &out->converts);
  out->inverts = t->n == 1 && is_inverse(t, 0);
  return MMC_OK;
}

/* ---- an order that is not looked for --------------------------------------------------------- */

/* Lists the steps from one end, whose products are all dense. */
static void list_from(int32_t n, const mmci_sparse_shape *factors, const mmci_sparse_prices *prices,
                      bool right, mmci_sparse_order *out) {
  const int64_t lines = right ? factors[n - 1].cols : factors[0].rows;
  for (int32_t s = 0; s < n - 1; s++) {
    const int32_t i = right ? n - 2 - s : s + 1, before = s > 0 ? n + s - 1 : right ? n - 1 : 0;
    const mmci_sparse_shape *f = &factors[i];
    const bool dense = f->csr == NULL;
    mmci_sparse_step step = {.m = right ? f->rows : lines,
                             .k = right ? f->cols : f->rows,
                             .n = right ? lines : f->cols,
                             .left = right ? i : before,
                             .right = right ? before : i,
                             .first = right ? i : 0,
                             .last = right ? n - 1 : i,
                             .kernel = dense   ? MMCI_DENSE_DENSE
                                       : right ? MMCI_CSR_DENSE
                                               : MMCI_DENSE_CSR};
    step.nonzeros = (double)step.m * (double)step.n;
    const double own =
        dense ? (double)f->rows * (double)f->cols : (double)mmci_csr_nonzeros(f->csr);
    const product x = {.m = (double)step.m,
                       .k = (double)step.k,
                       .n = (double)step.n,
                       .left_nonzeros = own,
                       .right_nonzeros = own,
                       .nonzeros = step.nonzeros};
    step.cost = (mmci_sparse_cost){count_of(step.kernel, &x), seconds_of(prices, step.kernel, &x)};
    out->cost = add(out->cost, step.cost);
    out->steps[out->count++] = step;
  }
}

mmc_status mmci_sparse_order_at_once(int32_t n, const mmci_sparse_shape *factors,
                                     const mmci_sparse_prices *prices, mmci_sparse_request request,
                                     mmci_sparse_order *out, mmci_error *error) {
  int64_t least = factors[0].rows;
  bool inverts = false;
  for (int32_t i = 0; i < n; i++) {
    if (factors[i].cols < least) least = factors[i].cols;
    inverts = inverts || factors[i].inverse.solver != MMCI_STRUCTURE_GEMM;
  }
  const bool right = factors[n - 1].csr == NULL && factors[n - 1].cols == least,
             left = factors[0].csr == NULL && factors[0].rows == least;
  *out = (mmci_sparse_order){0};
  if (n < 2 || inverts || !request.by_time || request.left_to_right ||
      request.result != MMCI_DENSE || (!right && !left))
    return MMC_OK;
  mmci_sparse_order order = {.steps = mmci_alloc_array((size_t)n, sizeof *order.steps),
                             .is_at_once = true};
  if (order.steps == NULL) return mmci_fail_nomem(error, (size_t)n * sizeof *order.steps);
  list_from(n, factors, prices, right, &order);
  if (order.cost.seconds < mmci_sparse_estimate_s(n, factors, order.cost.multiplications))
    *out = order;
  else
    free(order.steps);
  return MMC_OK;
}

mmc_status mmci_sparse_order_create(int32_t n, const mmci_sparse_shape *factors,
                                    const mmci_sparse_prices *prices, mmci_sparse_request request,
                                    mmci_sparse_order *out, mmci_error *error) {
  const size_t pairs = (size_t)n * (size_t)n;
  table t = {.n = n, .factors = factors, .prices = prices, .request = request};
  mmc_status status = mmci_sparse_estimate_create(n, factors, &t.estimate, error);
  if (status != MMC_OK) return status;
  t.nonzeros = mmci_alloc_zeroed(pairs, sizeof *t.nonzeros);
  t.ways = mmci_alloc_zeroed(pairs * MMCI_SPARSE_FORMS, sizeof *t.ways);
  status = t.nonzeros != NULL && t.ways != NULL ? solve(&t, out, error)
                                                : mmci_fail_nomem(error, pairs * sizeof *t.ways);
  free(t.nonzeros);
  free(t.ways);
  mmci_sparse_estimate_destroy(&t.estimate);
  return status;
}

void mmci_sparse_order_destroy(mmci_sparse_order *order) {
  free(order->steps);
  *order = (mmci_sparse_order){0};
}
