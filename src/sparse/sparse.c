
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/interrupt.h"
#include "chain/copy.h"
#include "chain/span.h"
#include "run/matrices.h"
#include "sparse/product.h"
#include "sparse/sparse_parts.h"

/* A matrix that is sparse, or dense and row-major. */
typedef struct operand {
  bool is_dense;
  bool is_turned; /* csr is the transposed matrix, as it was given */
  mmci_csr csr;
  int64_t rows, cols, ld;
  void *data;   /* of a dense one */
  void *memory; /* what data lies in, NULL where it is borrowed */
} operand;

static void release(operand *x) {
  mmci_csr_release(&x->csr);
  free(x->memory);
  *x = (operand){0};
}

/* ---- factors --------------------------------------------------------------------------------- */

typedef char label[48];

static const char *name_factor(int64_t i, label out) {
  snprintf(out, sizeof(label), "factors[%" PRId64 "]", i);
  return out;
}

static mmc_status check_factor(const mmc_sparse_factor *f, const char *name, mmci_error *error) {
  if ((f->csr == NULL) == (f->dense == NULL))
    return mmci_fail(error, MMC_E_ARG, "%s: expected one of csr and dense, and NULL for the other",
                     name);
  if (f->op != MMC_OP_N && f->op != MMC_OP_T && f->op != MMC_OP_H)
    return mmci_fail(error, MMC_E_ARG, "%s: expected op MMC_OP_N, _T or _H, got number %d", name,
                     (int)f->op);
  return MMC_OK;
}

static mmc_status check_dense(mmc_dtype dtype, const mmc_matrix *matrix, const char *name,
                              mmci_error *error) {
  const mmc_chain one = {.dtype = dtype, .n = 1, .batch = 1};
  if (matrix->rows < 0 || matrix->cols < 0 || matrix->rows > MMCI_CSR_SIDE ||
      matrix->cols > MMCI_CSR_SIDE)
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "%s: expected sides of 0 to %" PRId64 " in a sparse chain", name,
                     MMCI_CSR_SIDE);
  if (matrix->location != MMC_HOST)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "%s: expected location MMC_HOST in a sparse chain",
                     name);
  if (matrix->addresses != NULL)
    return mmci_fail(error, MMC_E_ARG, "%s: expected data, got a table of addresses", name);
  mmci_error found = {0};
  static const char part[] = "matrix";
  mmc_status status = mmci_matrix_check(&one, part, matrix, matrix->rows, matrix->cols, &found);
  if (status == MMC_OK) return MMC_OK;
  return mmci_fail(error, status, "%s: %s", name, found.text + sizeof part + 1);
}

/* Reads a sparse factor after its op; where `elements` are not asked for, as it was given. */
static mmc_status take_sparse(mmc_dtype dtype, const mmc_sparse_factor *f, const char *name,
                              bool elements, operand *out, mmci_error *error) {
  mmci_csr stored, turned;
  mmc_status status = mmci_csr_read(dtype, f->csr, name, &stored, error);
  if (status != MMC_OK) return status;
  if (f->op == MMC_OP_T && !elements) {
    *out = (operand){.is_turned = true, .csr = stored, .rows = stored.cols, .cols = stored.rows};
    return MMC_OK;
  }
  if (f->op != MMC_OP_N) {
    status = mmci_csr_transpose(&stored, f->op == MMC_OP_H, &turned, error);
    mmci_csr_release(&stored);
    if (status != MMC_OK) return status;
    stored = turned;
  }
  *out = (operand){.csr = stored, .rows = stored.rows, .cols = stored.cols};
  return MMC_OK;
}

/* Brings a factor that was taken as it was given into the form that its op says. */
static mmc_status turn(operand *x, mmci_error *error) {
  mmci_csr turned;
  if (!x->is_turned) return MMC_OK;
  mmc_status status = mmci_csr_transpose(&x->csr, false, &turned, error);
  if (status != MMC_OK) return status;
  mmci_csr_release(&x->csr);
  x->csr = turned;
  x->is_turned = false;
  return MMC_OK;
}

static mmc_status allocate_dense(mmc_dtype dtype, int64_t rows, int64_t cols, operand *out,
                                 mmci_error *error) {
  const uint64_t bytes = mmci_result_bytes(rows, cols, mmc_dtype_size(dtype));
  *out = (operand){.is_dense = true, .rows = rows, .cols = cols, .ld = cols > 0 ? cols : 1};
  if (bytes <= SIZE_MAX / 2) out->memory = mmci_alloc_aligned((size_t)bytes + 1, 1);
  out->data = out->memory;
  return out->memory != NULL ? MMC_OK : mmci_fail_nomem(error, bytes);
}

/* Reads a dense factor after its op: where it lies when it is row-major, else as a copy. */
static mmc_status take_dense(mmc_dtype dtype, const mmc_sparse_factor *f, const char *name,
                             operand *out, mmci_error *error) {
  mmc_status status = check_dense(dtype, f->dense, name, error);
  if (status != MMC_OK) return status;
  const mmc_matrix *x = f->dense;
  const bool turned = f->op != MMC_OP_N, by_columns = x->layout == MMC_COL_MAJOR;
  const int64_t rows = turned ? x->cols : x->rows, cols = turned ? x->rows : x->cols,
                ld = mmci_matrix_ld(x);
  const bool conj = f->op == MMC_OP_H && mmci_dtype_is_complex(dtype);
  if (turned == by_columns && !conj) {
    *out = (operand){.is_dense = true, .rows = rows, .cols = cols, .ld = ld, .data = x->data};
    return MMC_OK;
  }
  status = allocate_dense(dtype, rows, cols, out, error);
  if (status != MMC_OK) return status;
  const mmci_form form = {.ld = ld, .trans = turned != by_columns, .conj = conj};
  mmci_copy(dtype, rows, cols, x->data, &form, out->data, out->ld, false);
  return MMC_OK;
}

/* Takes a sparse factor that has been taken before from there; what it lies in becomes kept, which
 * is released after all factors. */
static bool take_again(const mmc_sparse_factor *factors, int64_t i, operand *out, mmci_csr *kept) {
  const mmc_csr *x = factors[i].csr;
  for (int64_t j = i - 1; x != NULL && j >= 0; j--) {
    const mmc_csr *y = factors[j].csr;
    if (y == NULL || factors[i].op != factors[j].op || x->rows != y->rows || x->cols != y->cols ||
        x->index_bytes != y->index_bytes || x->indptr != y->indptr || x->indices != y->indices ||
        x->values != y->values)
      continue;
    for (int m = 0; m < 3; m++) {
      if (out[j].csr.memory[m] == NULL) continue;
      kept[j].memory[m] = out[j].csr.memory[m];
      out[j].csr.memory[m] = NULL;
    }
    out[i] = out[j];
    return true;
  }
  return false;
}

static void release_factors(int64_t n, operand *factors, mmci_csr *kept) {
  for (int64_t i = 0; i < n; i++) {
    release(&factors[i]);
    mmci_csr_release(&kept[i]);
  }
}

/* Reads all factors, transposed ones as they were given unless it turns them; on failure none is
 * left. */
static mmc_status take_factors(mmc_dtype dtype, int64_t n, const mmc_sparse_factor *factors,
                               bool elements, bool turns, operand *out, mmci_csr *kept,
                               mmci_error *error) {
  mmc_status status = MMC_OK;
  int64_t taken = 0;
  for (; taken < n && status == MMC_OK; taken++) {
    label name;
    const mmc_sparse_factor *f = &factors[taken];
    out[taken] = (operand){0};
    kept[taken] = (mmci_csr){0};
    status = check_factor(f, name_factor(taken, name), error);
    if (status != MMC_OK) break;
    if (take_again(factors, taken, out, kept)) {
      /* Nothing is read. */
    } else if (f->csr != NULL) {
      status = take_sparse(dtype, f, name, turns, &out[taken], error);
    } else if (elements) {
      status = take_dense(dtype, f, name, &out[taken], error);
    } else {
      const bool turned = f->op != MMC_OP_N;
      status = check_dense(dtype, f->dense, name, error);
      out[taken].is_dense = true;
      out[taken].rows = turned ? f->dense->cols : f->dense->rows;
      out[taken].cols = turned ? f->dense->rows : f->dense->cols;
    }
    if (status == MMC_OK && taken > 0 && out[taken].rows != out[taken - 1].cols)
      status = mmci_fail(error, MMC_E_ARG,
                         "%s: expected %" PRId64
                         " rows, as many as the factor before has columns, "
                         "got %" PRId64,
                         name, out[taken - 1].cols, out[taken].rows);
  }
  if (status != MMC_OK) release_factors(taken, out, kept);
  return status;
}

/* ---- planning -------------------------------------------------------------------------------- */

static mmc_status plan(mmci_sparse_chain *x, operand *factors, mmci_error *error) {
  mmci_sparse_shape shapes[MMCI_SPARSE_FACTORS];
  mmci_facts facts;
  mmc_status status = mmci_opened_facts(&x->on, x->dtype, MMCI_NATIVE, &facts, error);
  if (status != MMC_OK) return status;
  for (int32_t i = 0; i < x->n; i++) {
    const operand *f = &factors[i];
    shapes[i] =
        (mmci_sparse_shape){f->rows, f->cols, f->is_dense ? NULL : &f->csr, x->kinds[i].inverse};
  }
  const mmci_sparse_prices prices = {.flops_per_s = facts.flops_per_s,
                                     .bytes_per_s = facts.bytes_per_s,
                                     .launch_s = facts.launch_s,
                                     .dtype = x->dtype};
  status = mmci_sparse_order_at_once(x->n, shapes, &prices, x->request, &x->order, error);
  if (status != MMC_OK || x->order.count > 0) return status;
  for (int32_t i = 0; i < x->n && status == MMC_OK; i++) status = turn(&factors[i], error);
  if (status != MMC_OK) return status;
  return mmci_sparse_order_create(x->n, shapes, &prices, x->request, &x->order, error);
}

static mmc_status check_request(mmc_dtype dtype, int64_t n, const mmc_sparse_factor *factors,
                                mmci_error *error) {
  if (dtype != MMC_F32 && dtype != MMC_F64 && dtype != MMC_C64 && dtype != MMC_C128)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "dtype",
                              "expected f32, f64, c64 or c128 in a sparse chain");
  if (n < 1 || n > MMCI_SPARSE_FACTORS)
    return mmci_fail_argument(error, n < 1 ? MMC_E_ARG : MMC_E_UNSUPPORTED, "n",
                              "expected 1 to %d factors in a sparse chain, got %" PRId64,
                              (int)MMCI_SPARSE_FACTORS, n);
  if (factors == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "factors", "expected factors, got NULL");
  return MMC_OK;
}

mmc_status mmci_sparse_chain_create(const mmci_opened *on, mmc_dtype dtype, int64_t n,
                                    const mmc_sparse_factor *factors, const uint32_t *traits,
                                    mmci_sparse_request request, mmci_sparse_chain **out,
                                    mmci_error *error) {
  operand operands[MMCI_SPARSE_FACTORS];
  mmci_csr kept[MMCI_SPARSE_FACTORS];
  mmc_status status = check_request(dtype, n, factors, error);
  if (status != MMC_OK) return status;
  const size_t bytes = sizeof(mmci_sparse_chain) + (size_t)n * sizeof(mmci_sparse_kind);
  mmci_sparse_chain *x = mmci_alloc_zeroed(1, bytes);
  if (x == NULL) return mmci_fail_nomem(error, bytes);
  x->on = *on;
  x->dtype = dtype;
  x->request = request;
  x->n = (int32_t)n;
  status = take_factors(dtype, n, factors, false, false, operands, kept, error);
  if (status == MMC_OK) {
    for (int32_t i = 0; i < x->n && status == MMC_OK; i++) {
      mmci_sparse_kind *kind = &x->kinds[i];
      *kind = (mmci_sparse_kind){.rows = operands[i].rows,
                                 .cols = operands[i].cols,
                                 .op = factors[i].op,
                                 .is_dense = operands[i].is_dense};
      status = mmci_sparse_inverse_read(on, dtype, i, &factors[i], traits != NULL ? traits[i] : 0,
                                        &kind->inverse, error);
    }
    if (status == MMC_OK) status = plan(x, operands, error);
    release_factors(x->n, operands, kept);
  }
  if (status == MMC_OK)
    *out = x;
  else
    mmci_sparse_chain_destroy(x);
  return status;
}

void mmci_sparse_chain_destroy(mmci_sparse_chain *chain) {
  if (chain == NULL) return;
  mmci_sparse_order_destroy(&chain->order);
  free(chain);
}

const mmci_sparse_order *mmci_sparse_chain_order(const mmci_sparse_chain *chain) {
  return &chain->order;
}

/* ---- execution ------------------------------------------------------------------------------- */

/* Brings a matrix into the other form. */
static mmc_status convert(mmc_dtype dtype, operand *x, mmci_error *error) {
  operand other = {0};
  mmc_status status;
  if (x->is_dense) {
    other.rows = x->rows;
    other.cols = x->cols;
    status = mmci_csr_from_dense(dtype, x->rows, x->cols, x->data, x->ld, &other.csr, error);
  } else {
    status = allocate_dense(dtype, x->rows, x->cols, &other, error);
    if (status == MMC_OK) mmci_csr_to_dense(&x->csr, other.data, other.ld);
  }
  if (status != MMC_OK) return status;
  release(x);
  *x = other;
  return MMC_OK;
}

static mmc_status multiply_dense(const mmci_opened *on, mmc_dtype dtype, const operand *a,
                                 const operand *b, operand *c, mmci_error *error) {
  mmci_kernel *kernel = NULL;
  mmci_queue *queue = NULL;
  const mmci_gemm gemm = {.dtype = dtype,
                          .m = a->rows,
                          .k = a->cols,
                          .n = b->cols,
                          .a = {.ld = a->ld},
                          .b = {.ld = b->ld},
                          .ldc = c->ld,
                          .batch = 1};
  mmc_status status = on->ops->queue_open(on->device, &queue, error);
  if (status != MMC_OK) return status;
  status = on->ops->prepare(on->device, &gemm, &kernel, error);
  if (status == MMC_OK) status = on->ops->enqueue(queue, kernel, a->data, b->data, c->data, error);
  if (status == MMC_OK) status = on->ops->sync(queue, error);
  if (kernel != NULL) on->ops->release(kernel);
  on->ops->queue_close(queue);
  return status;
}

/* Makes a dense operand the chain's own, without gaps. */
static mmc_status own(mmc_dtype dtype, operand *x, mmci_error *error) {
  operand copy;
  if (x->memory != NULL) return MMC_OK;
  mmc_status status = allocate_dense(dtype, x->rows, x->cols, &copy, error);
  if (status != MMC_OK) return status;
  const mmci_form form = {.ld = x->ld};
  mmci_copy(dtype, x->rows, x->cols, x->data, &form, copy.data, copy.ld, false);
  *x = copy;
  return MMC_OK;
}

static mmc_status see_pivot(const mmci_sparse_chain *x, int32_t factor, int64_t pivot,
                            mmci_error *error) {
  const bool definite = x->kinds[factor].inverse.solver == MMCI_STRUCTURE_POSV;
  if (pivot == 0) return MMC_OK;
  return mmci_fail(error, MMC_E_ARG, "factor %" PRId32 " is %s: pivot %" PRId64 " is %s",
                   factor + 1, definite ? "not positive definite" : "singular", pivot,
                   definite ? "not positive" : "zero");
}

/* Replaces a factor by its inverse. */
static mmc_status form_inverse(const mmci_sparse_chain *x, int32_t factor, operand *s,
                               mmci_error *error) {
  int64_t pivot = 0;
  mmc_status status = own(x->dtype, s, error);
  if (status == MMC_OK)
    status = mmci_sparse_invert(&x->on, x->dtype, &x->kinds[factor].inverse, s->rows, s->data,
                                s->ld, &pivot, error);
  return status == MMC_OK ? see_pivot(x, factor, pivot, error) : status;
}

/* Solves with one operand for the other, which is copied to the result first. */
static mmc_status solve(const mmci_sparse_chain *x, const mmci_sparse_step *step, operand *a,
                        operand *b, operand *c, mmci_error *error) {
  const bool right = step->kernel == MMCI_SOLVE_RIGHT;
  operand *s = right ? b : a;
  const operand *other = right ? a : b;
  const int32_t factor = right ? step->right : step->left;
  const mmci_sparse_inverse *inverse = &x->kinds[factor].inverse;
  mmc_status status = MMC_OK;
  if (c->data == NULL && c->rows == 0)
    status = allocate_dense(x->dtype, other->rows, other->cols, c, error);
  if (status == MMC_OK && inverse->solver != MMCI_STRUCTURE_TRSM) status = own(x->dtype, s, error);
  if (status != MMC_OK) return status;
  const mmci_form form = {.ld = other->ld};
  mmci_copy(x->dtype, other->rows, other->cols, other->data, &form, c->data, c->ld, false);
  const mmci_sparse_solve ask = {.inverse = *inverse,
                                 .dtype = x->dtype,
                                 .rows = other->rows,
                                 .cols = other->cols,
                                 .right = right,
                                 .s = s->data,
                                 .lds = s->ld,
                                 .z = c->data,
                                 .ldz = c->ld};
  int64_t pivot = 0;
  status = mmci_sparse_solve_with(&x->on, &ask, &pivot, error);
  return status == MMC_OK ? see_pivot(x, factor, pivot, error) : status;
}

/* Multiplies a vector by the transposed of a factor as it was given: (A^T b)^T is b^T A. */
static void multiply_turned(mmci_sparse_kernel kernel, const operand *a, const operand *b,
                            operand *c) {
  if (kernel == MMCI_CSR_DENSE)
    mmci_dense_multiply_csr(1, b->data, b->rows, &a->csr, c->data, c->rows);
  else
    mmci_csr_multiply_dense(&b->csr, a->data, 1, 1, c->data, 1);
}

/* Multiplies. A dense result that has memory already is written there. */
static mmc_status multiply(const mmci_sparse_chain *x, mmci_sparse_kernel kernel, const operand *a,
                           const operand *b, operand *c, mmci_error *error) {
  if (kernel == MMCI_CSR_CSR) {
    *c = (operand){.rows = a->rows, .cols = b->cols};
    return mmci_csr_multiply(&a->csr, &b->csr, &c->csr, error);
  }
  if (c->data == NULL && c->rows == 0) {
    mmc_status status = allocate_dense(x->dtype, a->rows, b->cols, c, error);
    if (status != MMC_OK) return status;
  }
  if (a->rows == 0 || b->cols == 0) return MMC_OK;
  if (a->is_turned || b->is_turned) {
    multiply_turned(kernel, a, b, c);
    return MMC_OK;
  }
  if (kernel == MMCI_DENSE_DENSE) return multiply_dense(&x->on, x->dtype, a, b, c, error);
  if (kernel == MMCI_CSR_CSR_DENSE)
    mmci_csr_multiply_to_dense(&a->csr, &b->csr, c->data, c->ld);
  else if (kernel == MMCI_CSR_DENSE)
    mmci_csr_multiply_dense(&a->csr, b->data, b->cols, b->ld, c->data, c->ld);
  else
    mmci_dense_multiply_csr(a->rows, a->data, a->ld, &b->csr, c->data, c->ld);
  return MMC_OK;
}

static mmc_status check_same(const mmci_sparse_chain *x, const mmc_sparse_factor *factors,
                             const operand *operands, mmci_error *error) {
  for (int32_t i = 0; i < x->n; i++) {
    const mmci_sparse_kind *k = &x->kinds[i];
    label name;
    if (operands[i].rows != k->rows || operands[i].cols != k->cols || factors[i].op != k->op ||
        operands[i].is_dense != k->is_dense)
      return mmci_fail(error, MMC_E_ARG,
                       "%s: expected a %s matrix, %" PRId64 " x %" PRId64
                       " after the op that was planned for",
                       name_factor(i, name), k->is_dense ? "dense" : "sparse", k->rows, k->cols);
  }
  return MMC_OK;
}

static mmc_status check_out(const mmci_sparse_chain *x, const mmc_matrix *dense,
                            const mmci_csr *sparse, mmci_error *error) {
  const int64_t rows = x->kinds[0].rows, cols = x->kinds[x->n - 1].cols;
  if (x->request.result == MMCI_SPARSE)
    return sparse != NULL && dense == NULL
               ? MMC_OK
               : mmci_fail(error, MMC_E_ARG,
                           "sparse: expected an address, and NULL for dense, as "
                           "the result was planned to be sparse");
  if (dense == NULL || sparse != NULL)
    return mmci_fail(error, MMC_E_ARG,
                     "dense: expected a matrix, and NULL for sparse, as the result was planned to "
                     "be dense");
  mmc_status status = check_dense(x->dtype, dense, "dense", error);
  if (status != MMC_OK) return status;
  if (dense->rows != rows || dense->cols != cols)
    return mmci_fail(error, MMC_E_ARG,
                     "dense: expected %" PRId64 " x %" PRId64 ", got %" PRId64 " x %" PRId64, rows,
                     cols, dense->rows, dense->cols);
  return MMC_OK;
}

/* Writes a result where the caller wants it. */
static mmc_status hand_over(const mmci_sparse_chain *x, operand *result, bool in_place,
                            const mmc_matrix *dense, mmci_csr *sparse, mmci_error *error) {
  mmc_status status = MMC_OK;
  if (result->is_dense != (x->request.result == MMCI_DENSE))
    status = convert(x->dtype, result, error);
  if (status != MMC_OK || in_place) return status;
  if (dense != NULL) {
    const mmci_form form = {.ld = result->ld};
    mmci_copy(x->dtype, result->rows, result->cols, result->data, &form, dense->data,
              mmci_matrix_ld(dense), dense->layout == MMC_COL_MAJOR);
    return MMC_OK;
  }
  /* What a single factor is may be the caller's memory, in any order. */
  if (x->order.count == 0) status = mmci_csr_settle(&result->csr, error);
  if (status != MMC_OK) return status;
  *sparse = result->csr;
  result->csr = (mmci_csr){0};
  return MMC_OK;
}

/* Says whether each step is a vector by a factor, which is read by its rows or by its columns. */
static bool walks(const mmci_sparse_chain *x) {
  return x->order.is_at_once && (x->kinds[0].rows == 1 || x->kinds[x->n - 1].cols == 1);
}

/* Says whether a step can read a turned factor: the vectors beside it must have no gaps, and rows
 * have none. */
static bool can_be_turned(const operand *a, const operand *b, const operand *c) {
  return a->is_turned ? b->cols == 1 && b->ld == 1 && (c->data == NULL || c->ld == 1)
                      : b->is_turned && a->rows == 1;
}

static mmc_status run_steps(const mmci_sparse_chain *x, operand *operands, const mmc_matrix *dense,
                            mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int32_t s = 0; s < x->order.count && status == MMC_OK; s++) {
    const mmci_sparse_step *step = &x->order.steps[s];
    mmci_interrupt_span((double)s / x->order.count, (double)(s + 1) / x->order.count);
    operand *a = &operands[step->left], *b = &operands[step->right], *c = &operands[x->n + s];
    if (step->inverts[0]) status = form_inverse(x, step->left, a, error);
    if (status == MMC_OK && step->inverts[1]) status = form_inverse(x, step->right, b, error);
    if (status == MMC_OK && step->converts[0]) status = convert(x->dtype, a, error);
    if (status == MMC_OK && step->converts[1]) status = convert(x->dtype, b, error);
    if (s == x->order.count - 1 && dense != NULL && step->kernel != MMCI_CSR_CSR)
      *c = (operand){.is_dense = true,
                     .rows = dense->rows,
                     .cols = dense->cols,
                     .ld = mmci_matrix_ld(dense),
                     .data = dense->data};
    if (status == MMC_OK && !can_be_turned(a, b, c)) status = turn(a, error);
    if (status == MMC_OK && !can_be_turned(a, b, c)) status = turn(b, error);
    const bool solves = step->kernel == MMCI_SOLVE_LEFT || step->kernel == MMCI_SOLVE_RIGHT;
    if (status == MMC_OK)
      status = solves ? solve(x, step, a, b, c, error) : multiply(x, step->kernel, a, b, c, error);
    if (status == MMC_OK && mmci_interrupted())
      status = mmci_fail(error, MMC_E_INTERRUPTED, "stopped within a product");
    release(a);
    release(b);
  }
  return status;
}

static bool meets_sparse(mmc_dtype dtype, const mmc_csr *a, mmci_span result) {
  const uint64_t each = (uint64_t)a->index_bytes;
  const uint64_t count = a->index_bytes == 8 ? (uint64_t)((const int64_t *)a->indptr)[a->rows]
                                             : (uint64_t)((const int32_t *)a->indptr)[a->rows];
  return mmci_spans_meet(result, mmci_span_of(a->indptr, ((uint64_t)a->rows + 1) * each)) ||
         mmci_spans_meet(result, mmci_span_of(a->indices, count * each)) ||
         mmci_spans_meet(result, mmci_span_of(a->values, count * mmc_dtype_size(dtype)));
}

/* Checks that the result is apart from all factors, which are known to be sound. */
static mmc_status check_apart(const mmci_sparse_chain *x, const mmc_sparse_factor *factors,
                              const mmc_matrix *dense, mmci_error *error) {
  const mmci_span result = mmci_span_of_matrix(x->dtype, dense);
  for (int32_t i = 0; i < x->n; i++) {
    const mmc_sparse_factor *f = &factors[i];
    label name;
    if (f->csr != NULL ? meets_sparse(x->dtype, f->csr, result)
                       : mmci_spans_meet(result, mmci_span_of_matrix(x->dtype, f->dense)))
      return mmci_fail(error, MMC_E_ARG, "%s: overlaps the result", name_factor(i, name));
  }
  return MMC_OK;
}

mmc_status mmci_sparse_chain_execute(mmci_sparse_chain *chain, const mmc_sparse_factor *factors,
                                     const mmc_matrix *dense, mmci_csr *sparse, mmci_error *error) {
  const mmci_sparse_chain *x = chain;
  operand operands[2 * MMCI_SPARSE_FACTORS];
  mmci_csr kept[MMCI_SPARSE_FACTORS];
  if (factors == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "factors", "expected factors, got NULL");
  mmc_status status = check_out(x, dense, sparse, error);
  if (status == MMC_OK)
    status = take_factors(x->dtype, x->n, factors, true, !walks(x), operands, kept, error);
  if (status != MMC_OK) return status;
  for (int32_t i = x->n; i < 2 * x->n; i++) operands[i] = (operand){0};
  /* The last product may go where the result does when that is row-major. */
  const bool by_rows = dense != NULL && dense->layout == MMC_ROW_MAJOR && x->order.count > 0;
  status = check_same(x, factors, operands, error);
  if (status == MMC_OK && dense != NULL) status = check_apart(x, factors, dense, error);
  if (status == MMC_OK && x->order.inverts) status = form_inverse(x, 0, &operands[0], error);
  if (status == MMC_OK) status = run_steps(x, operands, by_rows ? dense : NULL, error);
  if (status == MMC_OK) {
    operand *result = &operands[x->order.count > 0 ? x->n + x->order.count - 1 : 0];
    const bool in_place = by_rows && x->order.steps[x->order.count - 1].kernel != MMCI_CSR_CSR;
    status = hand_over(x, result, in_place, dense, sparse, error);
  }
  release_factors(x->n, operands, kept);
  for (int32_t i = x->n; i < 2 * x->n; i++) release(&operands[i]);
  return status;
}
