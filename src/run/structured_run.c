#include "run/structured_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "base/interrupt.h"
#include "chain/copy.h"
#include "run/matrices.h"
#include "run/scale_lines.h"
#include "run/stepwise.h"
#include "run/structured_loops.h"
#include "run/structured_place.h"

struct mmci_structured_run {
  mmci_stepwise steps;
  mmci_structured_place place;
  mmci_event *done; /* on a device: the end of what was left to a stream */
  bool is_pending;
};

/* ---- creation -------------------------------------------------------------------------------- */

mmc_status mmci_structured_run_create(const mmci_plan *plan, const mmci_device_ops *ops,
                                      mmci_device *device, mmci_structured_run **out,
                                      mmci_error *error) {
  mmci_structured_run *run = mmci_alloc_zeroed(1, sizeof *run);
  if (run == NULL) return mmci_fail_nomem(error, sizeof *run);
  mmc_status status = mmci_stepwise_open(plan, ops, device, &run->steps, error);
  if (status == MMC_OK)
    status = mmci_place_create(plan, ops, device, run->steps.queue, &run->place, error);
  if (status == MMC_OK && ops->async != NULL)
    status = ops->async->event_create(device, &run->done, error);
  if (status == MMC_OK)
    *out = run;
  else
    mmci_structured_run_destroy(run);
  return status;
}

mmc_status mmci_structured_run_wait(mmci_structured_run *run, mmci_error *error) {
  if (!run->is_pending || run->steps.ops->async == NULL) return MMC_OK;
  run->is_pending = false;
  mmc_status status = run->steps.ops->async->event_wait(run->steps.queue, run->done, error);
  return status == MMC_OK ? run->steps.ops->sync(run->steps.queue, error) : status;
}

void mmci_structured_run_destroy(mmci_structured_run *run) {
  if (run == NULL) return;
  (void)mmci_structured_run_wait(run, NULL);
  mmci_place_destroy(&run->place);
  if (run->done != NULL) run->steps.ops->async->event_destroy(run->done);
  mmci_stepwise_close(&run->steps);
  free(run);
}

/* ---- operands -------------------------------------------------------------------------------- */

/* A matrix that is read: rows x cols after its op. */
typedef struct view {
  const void *data;
  mmci_form form;
  int64_t rows, cols;
  uint32_t traits;
  mmc_band band;
  int64_t line_step; /* from element to element of a line that stands for the matrix; else 0 */
} view;

/* A matrix that is written: element (r, c) at r * ld + c, or at c * ld + r when by_columns. */
typedef struct target {
  void *data;
  int64_t rows, cols, ld;
  bool by_columns;
} target;

/* One chain of the batch while it is executed. */
typedef struct execution {
  mmci_structured_run *run;
  const mmc_matrix *factors;
  target out;
  int64_t number;    /* of the chain */
  int64_t first;     /* of the chain, where its matrices are those of the batch; else 0 */
  char *scratch;     /* what is left of it */
  int32_t product;   /* number of the product that comes next */
  mmc_status status; /* of copies that were made on the way; the first that failed told why */
  mmci_error *error;
} execution;

static view view_factor(const execution *e, int32_t i) {
  const mmc_chain *chain = e->run->steps.plan->chain;
  mmc_matrix matrix = mmci_matrix_of_batch(&e->factors[i], chain->dtype, e->first);
  const int64_t ld = mmci_matrix_ld(&matrix);
  int64_t line_step = 0;
  if (mmci_matrix_is_line(chain, i, &matrix)) {
    line_step = matrix.layout == MMC_ROW_MAJOR ? 1 : ld;
    matrix.layout = MMC_ROW_MAJOR;
  }
  return (view){.data = matrix.data,
                .form = mmci_factor_form(chain, i, &matrix, ld, 0),
                .rows = chain->dims[i],
                .cols = chain->dims[i + 1],
                .line_step = line_step};
}

static view view_operand(const execution *e, int32_t operand) {
  const mmci_plan *plan = e->run->steps.plan;
  if (operand < plan->chain->n) return view_factor(e, operand);
  const mmci_plan_step *step = &plan->steps[operand - plan->chain->n];
  return (view){.data = mmci_address(e->run->steps.workspace, (int64_t)step->offset_bytes),
                .form = {.ld = step->n > 0 ? step->n : 1},
                .rows = step->m,
                .cols = step->n};
}

static view view_transposed(const mmc_chain *chain, view x, bool conjugated) {
  view turned = {
      .data = x.data, .form = x.form, .rows = x.cols, .cols = x.rows, .line_step = x.line_step};
  turned.form.trans = !x.form.trans;
  if (conjugated && mmci_dtype_is_complex(chain->dtype)) turned.form.conj = !x.form.conj;
  turned.traits = mmci_traits_transpose(x.traits);
  turned.band = mmci_band_transpose(x.band);
  return turned;
}

static void copy_to(execution *e, const view *x, const target *to) {
  if (e->status == MMC_OK)
    e->status = mmci_place_copy(&e->run->place, x->rows, x->cols, x->data, &x->form, to->data,
                                to->ld, to->by_columns, e->error);
}

/* Computes a product with structure, the next one of the step. */
static mmc_status compute(execution *e, const mmci_structured *p, void *z, void *s, int64_t *pivot,
                          mmci_error *error) {
  if (e->status != MMC_OK) return e->status;
  return mmci_place_compute(&e->run->place, e->product++, p, z, s, pivot, error);
}

/* Takes room for a matrix without gaps from the scratch. */
static target take_scratch(execution *e, int64_t rows, int64_t cols, bool by_columns) {
  const int64_t length = by_columns ? rows : cols;
  target t = {e->scratch, rows, cols, length > 0 ? length : 1, by_columns};
  size_t bytes = (size_t)rows * (size_t)cols * mmc_dtype_size(e->run->steps.plan->chain->dtype);
  e->scratch = mmci_address(e->scratch, (int64_t)((bytes + 63) & ~(size_t)63));
  return t;
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Says that factors first to last, counted from 0, are not to be inverted. */
static mmc_status fail_pivot(const execution *e, int32_t first, int32_t last, bool definite,
                             int64_t pivot, mmci_error *error) {
  char what[80], which[48] = "";
  if (first == last)
    snprintf(what, sizeof what, "factor %" PRId32, first + 1);
  else
    snprintf(what, sizeof what, "the product of factors %" PRId32 " to %" PRId32, first + 1,
             last + 1);
  if (e->run->steps.plan->chain->batch > 1)
    snprintf(which, sizeof which, ", in chain %" PRId64, e->number + 1);
  return mmci_fail(error, MMC_E_ARG, "%s is %s: pivot %" PRId64 " is %s%s", what,
                   definite ? "not positive definite" : "singular", pivot,
                   definite ? "not positive" : "zero", which);
}

/* Fails where the last product found a pivot of factors first to last, or leaves that to be seen
 * at the end. */
static mmc_status see_pivot(const execution *e, int32_t first, int32_t last, bool definite,
                            int64_t pivot, mmci_error *error) {
  mmci_place_blame(&e->run->place, first, last, definite);
  return pivot == 0 ? MMC_OK : fail_pivot(e, first, last, definite, pivot, error);
}

static mmc_status see_operand(const execution *e, const mmci_plan_step *step, bool right,
                              bool definite, int64_t pivot, mmci_error *error) {
  const mmci_plan *plan = e->run->steps.plan;
  const int32_t operand = right ? step->right : step->left, n = plan->chain->n;
  if (operand < n) return see_pivot(e, operand, operand, definite, pivot, error);
  const mmci_plan_step *made = &plan->steps[operand - n];
  return see_pivot(e, made->first, made->last, definite, pivot, error);
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Forms the inverse of a diagonal matrix where it lies; returns the row that has none, or 0. */
static int64_t invert_diagonal(mmc_dtype dtype, const target *z) {
  const size_t size = mmc_dtype_size(dtype);
  if (z->data == NULL) return 0; /* it has no elements */
  for (int64_t i = 0; i < z->rows; i++) {
    const double one[2] = {1, 0};
    const float one_single[2] = {1, 0};
    char *at = (char *)z->data + (size_t)(i * (z->ld + 1)) * size;
    if (mmci_element_is_zero(dtype, at)) return i + 1;
    const bool single = dtype == MMC_F32 || dtype == MMC_C64;
    double inverse[2];
    mmci_scale_line_for(dtype, true)(inverse, single ? (const void *)one_single : one, at, 1, 0,
                                     false);
    memcpy(at, inverse, size);
  }
  return 0;
}

/* Forms the inverse of a square matrix where it lies. */
static mmc_status invert(execution *e, uint32_t traits, const target *z, int64_t *pivot,
                         mmci_error *error) {
  const mmc_dtype dtype = e->run->steps.plan->chain->dtype;
  mmci_structured p = {.dtype = dtype,
                       .rows = z->rows,
                       .cols = z->cols,
                       .ldz = z->ld,
                       .lds = z->ld,
                       .inverts = true,
                       .traits = z->by_columns ? traits : mmci_traits_transpose(traits)};
  *pivot = 0;
  if (e->run->place.on_device) return compute(e, &p, z->data, z->data, pivot, error);
  if (mmci_traits_have(traits, MMC_DIAGONAL)) {
    *pivot = invert_diagonal(dtype, z);
    return MMC_OK;
  }
  if ((traits & MMC_ORTHOGONAL) != 0) {
    mmci_transpose_square(dtype, z->data, z->rows, z->ld);
    return MMC_OK;
  }
  return compute(e, &p, z->data, z->data, pivot, error);
}

/* Returns an operand, or its inverse where that is formed first. */
static mmc_status take_operand(execution *e, int32_t s, int side, view *out, mmci_error *error) {
  const mmci_plan_step *step = &e->run->steps.plan->steps[s];
  const mmci_structure_step *x = &e->run->steps.plan->structure->steps.steps[s];
  *out = view_operand(e, side == 0 ? step->left : step->right);
  out->traits = x->traits[side];
  out->band = x->banded                ? x->bands[side]
              : out->rows == out->cols ? mmci_band_of(out->traits, (mmc_band){0, 0}, out->rows)
                                       : (mmc_band){0, 0};
  if (!x->formed[side]) return MMC_OK;
  if ((out->traits & MMC_ORTHOGONAL) != 0 && !mmci_traits_have(out->traits, MMC_DIAGONAL)) {
    *out = view_transposed(e->run->steps.plan->chain, *out, true);
    out->traits = x->traits[side];
    out->band = x->banded ? x->bands[side] : mmci_band_full(out->rows);
    return MMC_OK;
  }
  target formed = take_scratch(e, out->rows, out->cols, false);
  int64_t pivot;
  copy_to(e, out, &formed);
  mmc_status status = invert(e, out->traits, &formed, &pivot, error);
  if (status == MMC_OK)
    status =
        see_operand(e, step, side == 1, (out->traits & MMC_POSITIVE_DEFINITE) != 0, pivot, error);
  out->data = formed.data;
  out->form = (mmci_form){.ld = formed.ld};
  return status;
}

static mmc_status multiply_dense(const execution *e, int32_t s, const view *a, const view *b,
                                 const target *c, mmci_error *error) {
  mmci_structured_run *run = e->run;
  view left = *a, right = *b;
  if (c->by_columns) { /* C^T = B^T A^T */
    left = view_transposed(run->steps.plan->chain, *b, false);
    right = view_transposed(run->steps.plan->chain, *a, false);
  }
  mmci_gemm gemm = {.dtype = run->steps.plan->chain->dtype,
                    .m = left.rows,
                    .k = left.cols,
                    .n = right.cols,
                    .a = left.form,
                    .b = right.form,
                    .ldc = c->ld,
                    .batch = 1};
  if (run->place.on_device)
    return mmci_stepwise_enqueue(&run->steps, s, &gemm, left.data, right.data, c->data, error);
  return mmci_stepwise_multiply(&run->steps, s, &gemm, left.data, right.data, c->data, error);
}

static mmc_status write_zeros(const execution *e, const target *c, mmci_error *error) {
  const int64_t lines = c->by_columns ? c->cols : c->rows,
                length = c->by_columns ? c->rows : c->cols;
  return mmci_place_zeros(&e->run->place, c->data, lines, length, c->ld, error);
}

enum {
  PACKED_BYTES = 1 << 15, /* of a diagonal at a time */
  BLOCK_BYTES = 1 << 16,  /* of lines that are copied and then found in the cache */
  BLOCK_LINES = 32        /* at least, so that a transposed copy reads whole cache lines */
};

/* Computes D X, or X D when right, or those with the inverse of D when it divides, of the diagonal
 * D: the lines of X, or what is along them, times its elements. */
static void scale(const execution *e, const view *d, const view *x, bool right, bool divides,
                  const target *c, int64_t *pivot) {
  const mmc_dtype dtype = e->run->steps.plan->chain->dtype;
  const int64_t size = (int64_t)mmc_dtype_size(dtype),
                step = d->line_step > 0 ? d->line_step : d->form.ld + 1,
                lines = c->by_columns ? c->cols : c->rows,
                length = c->by_columns ? c->rows : c->cols;
  const bool by_line = right == c->by_columns, /* a line has one number */
      same_way = x->form.trans == c->by_columns, reads = same_way && !x->form.conj;
  mmci_scale_line *const scale_line = mmci_scale_line_for(dtype, divides);
  _Alignas(64) char packed[PACKED_BYTES];
  *pivot = 0;
  if (d->data == NULL) return; /* it has no elements */
  for (int64_t i = 0; i < d->rows && divides; i++)
    if (mmci_element_is_zero(dtype, mmci_address(d->data, i * step * size))) {
      *pivot = i + 1;
      return;
    }
  const int64_t piece = by_line ? length : PACKED_BYTES / size;
  for (int64_t from = 0; from < length && lines > 0; from += piece) {
    const int64_t count = length - from < piece ? length - from : piece;
    for (int64_t i = 0; i < count && !by_line; i++)
      memcpy(packed + i * size, mmci_address(d->data, (from + i) * step * size), (size_t)size);
    int64_t block = BLOCK_BYTES / (count * size);
    if (block < BLOCK_LINES) block = BLOCK_LINES;
    for (int64_t first = 0; first < lines; first += block) {
      const int64_t end = lines - first < block ? lines : first + block;
      const void *source = mmci_address(
          x->data, (same_way ? first * x->form.ld + from : from * x->form.ld + first) * size);
      void *to = mmci_address(c->data, (first * c->ld + from) * size);
      if (!reads)
        mmci_copy(dtype, c->by_columns ? count : end - first, c->by_columns ? end - first : count,
                  source, &x->form, to, c->ld, c->by_columns);
      for (int64_t l = 0; l < end - first; l++) {
        void *line = mmci_address(to, l * c->ld * size);
        scale_line(line, reads ? mmci_address(source, l * x->form.ld * size) : line,
                   by_line ? mmci_address(d->data, (first + l) * step * size) : packed, count,
                   by_line ? 0 : 1, d->form.conj);
      }
    }
  }
}

/* An operand of a kernel that works in place, as it lies: column-major. */
typedef struct placed {
  void *data;
  int64_t ld;
  mmc_op op;
  uint32_t traits;
} placed;

/* Makes op(S) of a column-major S the matrix x, or x transposed. It is copied where it is to be
 * overwritten, and where there is no such op. */
static placed place_operand(execution *e, const view *x, bool transposed, bool overwritten) {
  const bool turns = x->form.trans == transposed;
  const uint32_t wanted = transposed ? mmci_traits_transpose(x->traits) : x->traits;
  if (overwritten || (x->form.conj && !turns)) {
    target copy = take_scratch(e, x->rows, x->cols, !transposed);
    copy_to(e, x, &copy);
    return (placed){copy.data, copy.ld, MMC_OP_N, wanted};
  }
  return (placed){.data = (void *)x->data,
                  .ld = x->form.ld,
                  .op = !turns         ? MMC_OP_N
                        : x->form.conj ? MMC_OP_H
                                       : MMC_OP_T,
                  .traits = turns ? mmci_traits_transpose(wanted) : wanted};
}

/* Computes C := A A^T, or A A^H. */
static mmc_status multiply_mirrored(execution *e, const view *a, bool conjugated, const target *c,
                                    mmci_error *error) {
  const mmc_dtype dtype = e->run->steps.plan->chain->dtype;
  view x = *a;
  int64_t pivot;
  /* Of a Hermitian C that lies by rows, the column-major matrix is conj(C) = conj(A) conj(A)^H. */
  if (conjugated && !c->by_columns && mmci_dtype_is_complex(dtype)) x.form.conj = !x.form.conj;
  /* HERK takes S and S^H, SYRK takes S and S^T. */
  const bool turns = !x.form.trans, fits = x.form.conj == (conjugated && turns);
  placed s = place_operand(e, &x, false, mmci_dtype_is_complex(dtype) && !fits);
  mmci_structured p = {.kernel = MMCI_STRUCTURE_SYRK,
                       .dtype = dtype,
                       .rows = c->rows,
                       .cols = c->cols,
                       .depth = a->cols,
                       .ldz = c->ld,
                       .lds = s.ld,
                       .op = s.op,
                       .hermitian = conjugated};
  if (a->cols == 0) return write_zeros(e, c, error);
  return compute(e, &p, c->data, s.data, &pivot, error);
}

/* Returns a band of the product as kernels see it: they take a C that lies by rows as its
 * transposed, which lies by columns, so that the bands of both operands are transposed too. */
static mmc_band band_for(const target *c, mmc_band band) {
  return c->by_columns ? band : mmci_band_transpose(band);
}

/* Returns what all kernels are told of a product: A, which is placed at s, and C. */
static mmci_structured problem_of(const execution *e, mmci_structure_kernel kernel, const view *a,
                                  const placed *s, bool right, const target *c) {
  return (mmci_structured){.kernel = kernel,
                           .dtype = e->run->steps.plan->chain->dtype,
                           .rows = c->by_columns ? c->rows : c->cols,
                           .cols = c->by_columns ? c->cols : c->rows,
                           .ldz = c->ld,
                           .lds = s->ld,
                           .right = right == c->by_columns,
                           .op = s->op,
                           .traits = s->traits,
                           .band = band_for(c, a->band)};
}

/* Computes C := op(A) B or B op(A), with the inverse where the kernel solves, where C has B. */
static mmc_status apply(execution *e, mmci_structure_kernel kernel, const view *a, const view *b,
                        bool right, const target *c, int64_t *pivot, mmci_error *error) {
  const bool factorises = kernel == MMCI_STRUCTURE_POSV || kernel == MMCI_STRUCTURE_SYSV ||
                          kernel == MMCI_STRUCTURE_GESV;
  placed s = place_operand(e, a, !c->by_columns, factorises);
  mmci_structured p = problem_of(e, kernel, a, &s, right, c);
  p.hermitian = (s.traits & MMC_HERMITIAN) != 0;
  if (b->rows == b->cols) p.b_band = band_for(c, b->band);
  return compute(e, &p, c->data, s.data, pivot, error);
}

/* Lays a banded matrix, which is to be factorised, as kernels take it, and applies its inverse to
 * C, which lies so that it stands on the left: by columns, or else C and it are transposed. */
static mmc_status apply_banded(execution *e, mmci_structure_kernel kernel, const view *a,
                               const target *c, int64_t *pivot, mmci_error *error) {
  const mmc_dtype dtype = e->run->steps.plan->chain->dtype;
  const size_t size = mmc_dtype_size(dtype);
  view s = c->by_columns ? *a : view_transposed(e->run->steps.plan->chain, *a, false);
  const int64_t n = s.rows, below = s.band.below, above = s.band.above;
  const bool is_tridiagonal = kernel == MMCI_STRUCTURE_GTSV;
  const bool is_half = kernel == MMCI_STRUCTURE_PBSV; /* of which the lower one is given */
  const int64_t over = is_half ? 0 : above, rows = is_half ? below + 1 : 2 * below + above + 1;
  target packed = take_scratch(e, is_tridiagonal ? n : rows, is_tridiagonal ? 4 : n, true);
  mmci_structured p = {.kernel = kernel,
                       .dtype = dtype,
                       .rows = n,
                       .cols = c->by_columns ? c->cols : c->rows,
                       .ldz = c->ld,
                       .lds = packed.ld,
                       .op = MMC_OP_N,
                       .traits = s.traits,
                       .band = s.band};
  if (n == 0 || p.cols == 0) return MMC_OK;
  memset(packed.data, 0, (size_t)packed.rows * (size_t)packed.cols * size);
  for (int64_t j = 0; j < n; j++) {
    const int64_t first = j > over ? j - over : 0, last = j + below < n - 1 ? j + below : n - 1;
    view column = s;
    column.data = mmci_address(
        s.data, (s.form.trans ? j * s.form.ld + first : first * s.form.ld + j) * (int64_t)size);
    column.rows = last - first + 1;
    column.cols = 1;
    const int64_t place = is_tridiagonal ? 0 : j * rows + (is_half ? 0 : below + above + first - j);
    target to = {mmci_address(packed.data, place * (int64_t)size), column.rows, 1, column.rows,
                 true};
    if (!is_tridiagonal) copy_to(e, &column, &to);
    for (int64_t i = first; i <= last && is_tridiagonal; i++) {
      const int64_t diagonal = i > j ? 0 : i == j ? 1 : 2;
      view element = column;
      element.rows = 1;
      element.data = mmci_address(
          s.data, (s.form.trans ? j * s.form.ld + i : i * s.form.ld + j) * (int64_t)size);
      to = (target){mmci_address(packed.data, (diagonal * n + (i < j ? i : j)) * (int64_t)size), 1,
                    1, 1, true};
      copy_to(e, &element, &to);
    }
  }
  return compute(e, &p, c->data, packed.data, pivot, error);
}

/* These kernels take the matrix on the left only, so C is solved for as it then lies. */
static mmc_status apply_left(execution *e, mmci_structure_kernel kernel, const view *a,
                             const view *b, bool right, const target *c, int64_t *pivot,
                             mmci_error *error) {
  const bool by_columns = !right;
  target z = *c;
  if (c->by_columns != by_columns) z = take_scratch(e, c->rows, c->cols, by_columns);
  copy_to(e, b, &z);
  const bool is_packed = kernel == MMCI_STRUCTURE_PBSV || kernel == MMCI_STRUCTURE_GTSV ||
                         kernel == MMCI_STRUCTURE_GBSV;
  mmc_status status = is_packed ? apply_banded(e, kernel, a, &z, pivot, error)
                                : apply(e, kernel, a, b, right, &z, pivot, error);
  if (status != MMC_OK || *pivot != 0 || z.data == c->data) return status;
  view solved = {
      .data = z.data, .form = {.ld = z.ld, .trans = by_columns}, .rows = c->rows, .cols = c->cols};
  copy_to(e, &solved, c);
  return MMC_OK;
}

/* Returns a matrix that lies as C does: x itself, or a copy. */
static view lay_as(execution *e, const view *x, bool by_columns) {
  if (x->form.trans == by_columns && !x->form.conj) return *x;
  target copy = take_scratch(e, x->rows, x->cols, by_columns);
  view laid = *x;
  copy_to(e, x, &copy);
  laid.data = copy.data;
  laid.form = (mmci_form){.ld = copy.ld, .trans = by_columns};
  return laid;
}

/* Multiplies lines of B by a band, or permutes them. */
static void multiply_lines(execution *e, mmci_structure_kernel kernel, const view *a, const view *b,
                           bool right, const target *c) {
  const mmc_dtype dtype = e->run->steps.plan->chain->dtype;
  const view other = lay_as(e, b, c->by_columns);
  const bool turned = a->form.trans != right; /* what multiplies is the transposed one of A */
  const mmci_line_matrix m = {.data = a->data,
                              .side = a->rows,
                              .row_step = turned ? 1 : a->form.ld,
                              .column_step = turned ? a->form.ld : 1,
                              .conj = a->form.conj,
                              .band = right ? mmci_band_transpose(a->band) : a->band,
                              .index_step = a->line_step,
                              .turned = turned};
  const bool is_square = b->rows == b->cols && kernel == MMCI_STRUCTURE_BAND;
  const int64_t all = mmci_band_full(b->rows > b->cols ? b->rows : b->cols).below;
  mmc_band rest = is_square ? b->band : (mmc_band){all, all};
  if (c->by_columns) rest = mmci_band_transpose(rest);
  const mmci_lines lines = {.b = other.data,
                            .c = c->data,
                            .ldb = other.form.ld,
                            .ldc = c->ld,
                            .count = c->by_columns ? c->cols : c->rows,
                            .length = c->by_columns ? c->rows : c->cols,
                            .along = right != c->by_columns,
                            .b_band = rest};
  const int64_t taken = kernel == MMCI_STRUCTURE_BAND ? mmci_band_scratch(m.band, m.side) : 0;
  if (kernel == MMCI_STRUCTURE_BAND)
    mmci_band_lines(dtype, &m, &lines, take_scratch(e, taken, 1, true).data);
  else
    mmci_permute_lines(dtype, &m, &lines, (int64_t *)(void *)e->scratch);
}

/* Computes C := A B or B A apart from its operands, for kernels that take both. SYMV and SYMM take
 * B without an op, and a symmetric A as it lies; SYMV multiplies the vector with it from the left.
 */
static mmc_status multiply_apart(execution *e, mmci_structure_kernel kernel, const view *a,
                                 const view *b, bool right, const target *c, int64_t *pivot,
                                 mmci_error *error) {
  const bool by_columns = c->by_columns, is_symv = kernel == MMCI_STRUCTURE_SYMV,
             reads_half = is_symv || kernel == MMCI_STRUCTURE_SYMM;
  const bool hermitian = mmci_dtype_is_complex(e->run->steps.plan->chain->dtype);
  const bool stands_right = right == by_columns; /* in columns, of C or its transposed */
  const bool transposed = by_columns == (is_symv && stands_right);
  placed s = place_operand(e, a, transposed, false);
  if (reads_half && hermitian && s.op == MMC_OP_T) s = place_operand(e, a, transposed, true);
  const view laid = reads_half ? lay_as(e, b, by_columns) : *b;
  placed other = place_operand(e, &laid, !by_columns, false);
  const mmc_band rest = b->rows == b->cols ? b->band : (mmc_band){0, 0};
  mmci_structured p = problem_of(e, kernel, a, &s, right, c);
  p.hermitian = hermitian;
  p.b = other.data;
  p.ldb = other.ld;
  p.b_op = other.op;
  p.b_band = band_for(c, rest);
  return compute(e, &p, c->data, s.data, pivot, error);
}

/* Does the same on a device, for kernels that take C and B as they lie alike; B may be C where
 * these work on one element at a time. */
static mmc_status multiply_alike(execution *e, mmci_structure_kernel kernel, const view *a,
                                 const view *b, bool right, bool divides, const target *c,
                                 int64_t *pivot, mmci_error *error) {
  const bool by_columns = c->by_columns, is_scale = kernel == MMCI_STRUCTURE_SCALE;
  view other = *b;
  if (is_scale && (b->form.trans != by_columns || b->form.conj)) {
    copy_to(e, b, c);
    other.data = c->data;
    other.form = (mmci_form){.ld = c->ld, .trans = by_columns};
  } else if (!is_scale) {
    other = lay_as(e, b, by_columns);
  }
  /* A permutation is real. A diagonal is its own transposed, so that it is conjugated by an op. */
  view matrix = *a;
  if (kernel == MMCI_STRUCTURE_PERMUTE) matrix.form.conj = false;
  const placed s = is_scale ? (placed){.data = (void *)a->data,
                                       .ld = a->form.ld,
                                       .op = a->form.conj ? MMC_OP_H : MMC_OP_N,
                                       .traits = a->traits}
                            : place_operand(e, &matrix, !by_columns, false);
  mmci_structured p = problem_of(e, kernel, a, &s, right, c);
  p.divides = divides;
  p.b = other.data;
  p.ldb = other.form.ld;
  if (b->rows == b->cols) p.b_band = band_for(c, b->band);
  return compute(e, &p, c->data, s.data, pivot, error);
}

static mmc_status multiply_on_device(execution *e, int32_t s, const view *special,
                                     const view *other, const target *c, int64_t *pivot,
                                     mmci_error *error) {
  const mmci_structure_step *x = &e->run->steps.plan->structure->steps.steps[s];
  const bool divides = x->kernel == MMCI_STRUCTURE_SCALE && !x->reversed && x->inverse[x->right] &&
                       !x->formed[x->right];
  switch (x->kernel) {
    case MMCI_STRUCTURE_SCALE:
    case MMCI_STRUCTURE_TRMM:
    case MMCI_STRUCTURE_TRTRMM:
    case MMCI_STRUCTURE_PERMUTE:
    case MMCI_STRUCTURE_BAND:
      return multiply_alike(e, x->kernel, special, other, x->right, divides, c, pivot, error);
    case MMCI_STRUCTURE_SYMM:
      return multiply_apart(e, x->kernel, special, other, x->right, c, pivot, error);
    case MMCI_STRUCTURE_GESV:
      return apply_left(e, x->kernel, special, other, x->right, c, pivot, error);
    default:
      if (x->kernel == MMCI_STRUCTURE_TRSM &&
          mmci_structure_solves_left(e->run->steps.plan->chain->dtype))
        return apply_left(e, x->kernel, special, other, x->right, c, pivot, error);
      copy_to(e, other, c);
      if (x->kernel == MMCI_STRUCTURE_COPY) return MMC_OK;
      return apply(e, x->kernel, special, other, x->right, c, pivot, error);
  }
}

/* Runs the kernel of a step on its operands, in the order in which they are multiplied. */
static mmc_status multiply(execution *e, int32_t s, const view *a, const view *b, const target *c,
                           int64_t *pivot, mmci_error *error) {
  const mmci_structure_step *x = &e->run->steps.plan->structure->steps.steps[s];
  const view *special = x->right ? b : a, *other = x->right ? a : b;
  *pivot = 0;
  switch (x->kernel) {
    case MMCI_STRUCTURE_GEMM:
      return multiply_dense(e, s, a, b, c, error);
    case MMCI_STRUCTURE_ZERO:
      return write_zeros(e, c, error);
    case MMCI_STRUCTURE_SYRK:
      return multiply_mirrored(e, a, x->conjugated, c, error);
    default:
      break;
  }
  if (e->run->place.on_device) return multiply_on_device(e, s, special, other, c, pivot, error);
  switch (x->kernel) {
    case MMCI_STRUCTURE_SYSV:
    case MMCI_STRUCTURE_TBSV:
    case MMCI_STRUCTURE_PBSV:
    case MMCI_STRUCTURE_GTSV:
    case MMCI_STRUCTURE_GBSV:
      return apply_left(e, x->kernel, special, other, x->right, c, pivot, error);
    case MMCI_STRUCTURE_SYMV:
    case MMCI_STRUCTURE_SYMM:
    case MMCI_STRUCTURE_BLOCKS:
      return multiply_apart(e, x->kernel, special, other, x->right, c, pivot, error);
    case MMCI_STRUCTURE_BAND:
    case MMCI_STRUCTURE_PERMUTE:
      multiply_lines(e, x->kernel, special, other, x->right, c);
      return MMC_OK;
    default:
      break;
  }
  if (x->kernel == MMCI_STRUCTURE_SCALE) {
    const bool divides = !x->reversed && x->inverse[x->right] && !x->formed[x->right];
    scale(e, special, other, x->right, divides, c, pivot);
    return MMC_OK;
  }
  copy_to(e, other, c);
  if (x->kernel == MMCI_STRUCTURE_COPY) return MMC_OK;
  return apply(e, x->kernel, special, other, x->right, c, pivot, error);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static target target_of(const execution *e, int32_t s) {
  const mmci_plan_step *step = &e->run->steps.plan->steps[s];
  if (s == e->run->steps.plan->step_count - 1) return e->out;
  return (target){mmci_address(e->run->steps.workspace, (int64_t)step->offset_bytes), step->m,
                  step->n, step->n > 0 ? step->n : 1, false};
}

static mmc_status run_step(execution *e, int32_t s, mmci_error *error) {
  const mmci_plan *plan = e->run->steps.plan;
  const mmci_plan_step *step = &plan->steps[s];
  const mmci_structure_step *x = &plan->structure->steps.steps[s];
  const target c = target_of(e, s);
  view left, right;
  int64_t pivot;
  e->product = s * MMCI_STEP_PRODUCTS;
  e->scratch =
      mmci_address(e->run->steps.workspace, (int64_t)plan->structure->scratch_offset_bytes);
  mmc_status status = take_operand(e, s, 0, &left, error);
  if (status != MMC_OK) return status;
  if (x->mirrored)
    right = view_transposed(plan->chain, left, x->conjugated);
  else
    status = take_operand(e, s, 1, &right, error);
  if (status != MMC_OK) return status;
  const view *a = x->reversed ? &right : &left, *b = x->reversed ? &left : &right;
  status = multiply(e, s, a, b, &c, &pivot, error);
  if (status == MMC_OK) status = e->status;
  if (status == MMC_OK)
    status = see_operand(e, step, x->right, mmci_structure_is_cholesky(x->kernel), pivot, error);
  if (status != MMC_OK || !x->inverts) return status;
  status = invert(e, x->traits[2], &c, &pivot, error);
  if (status != MMC_OK) return status;
  return see_pivot(e, step->first, step->last, (x->traits[2] & MMC_POSITIVE_DEFINITE) != 0, pivot,
                   error);
}

/* Copies a chain's only factor, or forms its inverse. */
static mmc_status run_alone(execution *e, mmci_error *error) {
  const mmci_structure_steps *list = &e->run->steps.plan->structure->steps;
  view only = view_factor(e, 0);
  int64_t pivot = 0;
  copy_to(e, &only, &e->out);
  if (e->status != MMC_OK || !list->inverts) return e->status;
  mmc_status status = invert(e, list->traits, &e->out, &pivot, error);
  if (status != MMC_OK) return status;
  return see_pivot(e, 0, 0, (list->traits & MMC_POSITIVE_DEFINITE) != 0, pivot, error);
}

/* Executes chain number i of the batch. */
static mmc_status run_chain(mmci_structured_run *run, const mmc_matrix *factors,
                            const mmc_matrix *out, int64_t i, mmci_error *error) {
  const mmc_chain *chain = run->steps.plan->chain;
  mmci_structured_place *place = &run->place;
  const mmc_matrix *here = factors;
  mmc_matrix result = mmci_matrix_of_batch(out, chain->dtype, i);
  mmc_status status = MMC_OK;
  if (place->on_device) {
    status = mmci_place_bring(place, factors, out, i, &here, error);
    result = here[chain->n];
  }
  execution e = {.run = run,
                 .factors = here,
                 .out = {result.data, result.rows, result.cols, mmci_matrix_ld(&result),
                         result.layout == MMC_COL_MAJOR},
                 .number = i,
                 .first = place->on_device ? 0 : i,
                 .error = error};
  if (status == MMC_OK && chain->n == 1) status = run_alone(&e, error);
  for (int32_t s = 0; s < run->steps.plan->step_count && status == MMC_OK; s++) {
    status = run_step(&e, s, error);
    mmci_interrupt_done((double)s / run->steps.plan->step_count);
    if (status == MMC_OK && mmci_interrupted())
      status = mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the progress callback");
  }
  if (status != MMC_OK || !place->on_device) return status;
  int64_t pivot;
  mmci_structured_blame blame = {0};
  status = mmci_place_settle(place, out, i, &pivot, &blame, error);
  if (status != MMC_OK || pivot == 0) return status;
  return fail_pivot(&e, blame.first, blame.last, blame.definite, pivot, error);
}

static mmc_status run_chains(mmci_structured_run *run, const mmc_matrix *factors,
                             const mmc_matrix *out, mmci_error *error) {
  const mmc_chain *chain = run->steps.plan->chain;
  mmc_status status = mmci_place_begin(&run->place, factors, out, error);
  for (int64_t i = 0; i < chain->batch && status == MMC_OK; i++)
    status = run_chain(run, factors, out, i, error);
  return status;
}

static mmc_status check_matrices(const mmci_structured_run *run, const mmc_matrix *factors,
                                 const mmc_matrix *out, mmci_error *error) {
  const mmci_plan *plan = run->steps.plan;
  for (int32_t i = 0; i < plan->chain->n && factors != NULL; i++)
    if (mmci_matrix_is_line(plan->chain, i, &factors[i]) && !mmci_plan_takes_line(plan, i))
      return mmci_fail(error, MMC_E_ARG,
                       "factors[%" PRId32
                       "]: expected a square matrix, as it is not only scaled or "
                       "permuted with (mmc_plan_takes_line), got a line",
                       i);
  return mmci_matrices_check_lines(plan->chain, factors, out, error);
}

mmc_status mmci_structured_run_execute(mmci_structured_run *run, const mmc_matrix *factors,
                                       const mmc_matrix *out, mmci_error *error) {
  mmc_status status = check_matrices(run, factors, out, error);
  if (status == MMC_OK) status = mmci_structured_run_wait(run, error);
  if (status != MMC_OK) return status;
  status = run_chains(run, factors, out, error);
  if (!run->place.on_device) return status;
  /* What was enqueued before a failure is done before the caller's matrices go. */
  const mmc_status done = run->steps.ops->sync(run->steps.queue, status == MMC_OK ? error : NULL);
  return status == MMC_OK ? done : status;
}

mmc_status mmci_structured_run_enqueue(mmci_structured_run *run, void *stream,
                                       const mmc_matrix *factors, const mmc_matrix *out,
                                       mmci_error *error) {
  const mmci_device_async *async = run->steps.ops->async;
  const int32_t n = run->steps.plan->chain->n;
  if (async == NULL) return mmci_structured_run_execute(run, factors, out, error);
  mmc_status status = check_matrices(run, factors, out, error);
  if (status != MMC_OK) return status;
  if (async->is_capturing(run->steps.device, stream))
    return mmci_fail_argument(error, MMC_E_ARG, "stream",
                              "expected one that is not being captured, as factors have structure");
  async->queue_attach(run->steps.queue, stream);
  if (run->is_pending) status = async->event_wait(run->steps.queue, run->done, error);
  if (status == MMC_OK) status = run_chains(run, factors, out, error);
  mmc_status done = MMC_OK;
  run->is_pending = status == MMC_OK && !mmci_matrices_on_host(n, factors, out);
  if (run->is_pending)
    done = async->event_record(run->steps.queue, run->done, error);
  else
    done = run->steps.ops->sync(run->steps.queue, status == MMC_OK ? error : NULL);
  async->queue_detach(run->steps.queue);
  return status == MMC_OK ? done : status;
}
