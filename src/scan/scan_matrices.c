/* scan_matrices.c: reads and checks the caller's matrices, and makes one scan of them. */
#include <inttypes.h>
#include <string.h>

#include "base/address.h"
#include "base/dtype.h"
#include "base/options.h"
#include "scan/running_parts.h"

bool mmci_running_has(const mmci_running_problem *problem, int operand) {
  if (operand == MMCI_INITIAL) return problem->initial;
  return operand != MMCI_ADDEND || problem->addend;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static mmc_status check_shape(const mmci_operand *x, int64_t rows, int64_t cols,
                              mmci_error *error) {
  const mmc_matrix *m = &x->matrix;
  if (m->rows != rows || m->cols != cols)
    return mmci_fail_argument(error, MMC_E_ARG, x->name,
                              "expected %" PRId64 " x %" PRId64 " matrices, got %" PRId64
                              " x %" PRId64,
                              rows, cols, m->rows, m->cols);
  if (m->layout != MMC_ROW_MAJOR && m->layout != MMC_COL_MAJOR)
    return mmci_fail_argument(error, MMC_E_ARG, x->name,
                              "expected layout MMC_ROW_MAJOR or MMC_COL_MAJOR");
  if (m->location != MMC_HOST && m->location != MMC_DEVICE)
    return mmci_fail_argument(error, MMC_E_ARG, x->name,
                              "expected location MMC_HOST or MMC_DEVICE");
  if (m->addresses != NULL)
    return mmci_fail_argument(error, MMC_E_ARG, x->name,
                              "expected steps and strides, got a table of addresses");
  const int64_t length = m->layout == MMC_ROW_MAJOR ? cols : rows;
  if (m->ld != 0 && m->ld < length)
    return mmci_fail_argument(error, MMC_E_ARG, x->name,
                              "expected ld 0 or at least %" PRId64 ", got %" PRId64, length, m->ld);
  return MMC_OK;
}

/* Returns how many bytes data must be aligned to: those of the real type. */
static size_t alignment_of(mmc_dtype dtype) {
  return mmc_dtype_size(dtype) / (mmci_dtype_is_complex(dtype) ? 2 : 1);
}

/* Sums of products of two numbers fit. */
__extension__ typedef __int128 wide;

static wide magnitude(int64_t x) {
  return x < 0 ? -(wide)x : x;
}

/* The bytes of all matrices of an operand, and the elements that one extends over. */
typedef struct extent {
  uintptr_t start, end;
  int64_t one;
} extent;

static mmc_status measure(const mmci_operand *x, mmc_dtype dtype, int64_t batch, extent *out,
                          mmci_error *error) {
  const mmc_matrix *m = &x->matrix;
  const bool by_rows = m->layout == MMC_ROW_MAJOR;
  const int64_t lines = by_rows ? m->rows : m->cols, length = by_rows ? m->cols : m->rows;
  const wide one = (wide)(lines - 1) * m->ld + length;
  const wide step = (wide)(x->count - 1) * x->step, stride = (wide)(batch - 1) * m->stride;
  const wide low = (step < 0 ? step : 0) + (stride < 0 ? stride : 0);
  const wide high = (step > 0 ? step : 0) + (stride > 0 ? stride : 0) + one;
  const wide element = (wide)mmc_dtype_size(dtype), data = (wide)(uintptr_t)m->data;
  if (m->data == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, x->name, "expected an address of data, got NULL");
  if ((uintptr_t)m->data % alignment_of(dtype) != 0)
    return mmci_fail_argument(error, MMC_E_ARG, x->name, "expected data aligned to its real type");
  const wide most = INTPTR_MAX;
  if (low < -most || high > most || data + low * element <= 0 || data + high * element > most)
    return mmci_fail_argument(error, MMC_E_ARG, x->name,
                              "expected steps and strides within the address space");
  *out = (extent){.start = (uintptr_t)(data + low * element),
                  .end = (uintptr_t)(data + high * element),
                  .one = (int64_t)one};
  return MMC_OK;
}

/* Checks that the results lie apart: one axis of steps is nested within the other. */
static mmc_status check_apart(const mmci_operand *out, int64_t batch, int64_t one,
                              mmci_error *error) {
  const wide step = magnitude(out->step), stride = magnitude(out->matrix.stride);
  const wide along = (wide)(out->count - 1) * step + one;
  const wide across = (wide)(batch - 1) * stride + one;
  const bool apart = out->count == 1 ? batch == 1 || stride >= one
                     : batch == 1
                         ? step >= one
                         : (step >= one && stride >= along) || (stride >= one && step >= across);
  if (apart) return MMC_OK;
  return mmci_fail_argument(error, MMC_E_ARG, "out",
                            "expected results apart from each other, got steps of %" PRId64
                            " and strides of %" PRId64 " elements for %" PRId64,
                            out->step, out->matrix.stride, one);
}

static mmc_status check_places(const mmci_running_problem *problem,
                               const mmci_operand operands[MMCI_OPERANDS], mmci_error *error) {
  extent out = {0}, read = {0};
  mmc_status status = measure(&operands[MMCI_OUT], problem->dtype, problem->batch, &out, error);
  if (status == MMC_OK) status = check_apart(&operands[MMCI_OUT], problem->batch, out.one, error);
  for (int i = 0; i < MMCI_OUT && status == MMC_OK; i++) {
    if (!mmci_running_has(problem, i)) continue;
    status = measure(&operands[i], problem->dtype, problem->batch, &read, error);
    if (status == MMC_OK && read.start < out.end && out.start < read.end)
      status = mmci_fail_argument(error, MMC_E_ARG, operands[i].name,
                                  "expected memory apart from the results'");
  }
  return status;
}

static mmc_status check_locations(const mmci_running_problem *problem,
                                  const mmci_operand operands[MMCI_OPERANDS], bool *on_host,
                                  mmci_error *error) {
  *on_host = operands[MMCI_OUT].matrix.location == MMC_HOST;
  for (int i = 0; i < MMCI_OUT; i++)
    if (mmci_running_has(problem, i) &&
        operands[i].matrix.location != operands[MMCI_OUT].matrix.location)
      return mmci_fail_argument(error, MMC_E_ARG, operands[i].name,
                                "expected the location of out, got another");
  return MMC_OK;
}

static void fill_ld(mmc_matrix *m) {
  if (m->ld == 0) m->ld = m->layout == MMC_ROW_MAJOR ? m->cols : m->rows;
}

/* The step of one matrix and the stride of one stack, which lead nowhere and may be anything,
 * become those without gaps, so that what counts with them does not overflow. */
static void fill_steps(mmci_operand *x, int64_t batch, bool empty) {
  const int64_t elements = empty ? 0 : x->matrix.rows * x->matrix.cols;
  if (empty || x->count == 1) x->step = elements;
  if (empty || batch == 1) x->matrix.stride = elements * x->count;
}

mmc_status mmci_operands_read(const mmci_running_problem *problem, const mmc_scan_operands *given,
                              mmci_operand operands[MMCI_OPERANDS], bool *on_host,
                              mmci_error *error) {
  mmc_scan_operands read = MMC_SCAN_OPERANDS_INIT;
  if (given == NULL) return mmci_fail(error, MMC_E_ARG, "operands: expected operands, got NULL");
  mmc_status status = mmci_options_read("operands", given, &read, sizeof read, error);
  if (status != MMC_OK) return status;
  const int64_t n = problem->n, cols = problem->columns > 0 ? problem->columns : n;
  operands[MMCI_FACTORS] =
      (mmci_operand){"factors", read.factors, read.factors_step, problem->length};
  operands[MMCI_INITIAL] = (mmci_operand){"initial", read.initial, 0, 1};
  operands[MMCI_ADDEND] = (mmci_operand){"addend", read.addend, read.addend_step, problem->length};
  operands[MMCI_OUT] = (mmci_operand){"out", read.out, read.out_step, problem->length};
  for (int i = 0; i < MMCI_OPERANDS && status == MMC_OK; i++) {
    if (!mmci_running_has(problem, i)) continue;
    status = check_shape(&operands[i], n, i == MMCI_FACTORS ? n : cols, error);
    fill_ld(&operands[i].matrix);
  }
  if (status == MMC_OK) status = check_locations(problem, operands, on_host, error);
  const bool empty = n == 0 || problem->length == 0 || problem->batch == 0;
  if (status == MMC_OK && !empty) status = check_places(problem, operands, error);
  for (int i = 0; i < MMCI_OPERANDS && status == MMC_OK; i++)
    if (mmci_running_has(problem, i)) fill_steps(&operands[i], problem->batch, empty);
  return status;
}

mmc_status mmci_exponents_read(const mmci_running_problem *problem, const mmc_scan_operands *given,
                               int64_t **out, mmci_error *error) {
  mmc_scan_operands read = MMC_SCAN_OPERANDS_INIT;
  mmc_status status = mmci_options_read("operands", given, &read, sizeof read, error);
  *out = problem->scaled ? read.exponents : NULL;
  const bool empty = problem->length == 0 || problem->batch == 0;
  if (status != MMC_OK || !problem->scaled || empty || read.exponents != NULL) return status;
  return mmci_fail_argument(error, MMC_E_ARG, "exponents", "expected an address, got NULL");
}

void mmci_operands_tight(const mmci_running_problem *problem,
                         mmci_operand operands[MMCI_OPERANDS]) {
  const int64_t n = problem->n, m = problem->columns > 0 ? problem->columns : n;
  for (int i = 0; i < MMCI_OPERANDS; i++) {
    const int64_t cols = i == MMCI_FACTORS ? n : m, count = i == MMCI_INITIAL ? 1 : problem->length;
    operands[i] =
        (mmci_operand){.matrix = {.rows = n, .cols = cols, .ld = cols, .stride = n * cols * count},
                       .step = n * cols,
                       .count = count};
  }
}

/* ---- one scan of all problems ---------------------------------------------------------------- */

static mmci_form form_of(const mmci_operand *x, bool transposed) {
  return (mmci_form){.ld = x->matrix.ld,
                     .trans = (x->matrix.layout == MMC_COL_MAJOR) != transposed,
                     .stride = x->matrix.stride};
}

/* Returns where matrix i of an operand lies. */
static void *matrix_at(const mmci_running_problem *problem, const mmci_operand *x, int64_t i) {
  return mmci_address(x->matrix.data, i * x->step * (int64_t)mmc_dtype_size(problem->dtype));
}

mmci_scan mmci_running_scan(const mmci_running_problem *problem,
                            const mmci_operand operands[MMCI_OPERANDS], mmci_scan_places *places,
                            void **first) {
  const mmci_operand *a = &operands[MMCI_FACTORS], *b = &operands[MMCI_ADDEND],
                     *out = &operands[MMCI_OUT];
  const bool back = problem->reverse, skip = problem->exclusive;
  const bool transposed = out->matrix.layout == MMC_COL_MAJOR;
  const int64_t sign = back ? -1 : 1, begin = back ? problem->length - 1 : 0;
  mmci_scan scan;
  memset(&scan, 0, sizeof scan);
  scan.dtype = problem->dtype;
  scan.precision = MMCI_NATIVE;
  if (problem->semiring != MMC_OR_AND) scan.rule.semiring = problem->semiring;
  scan.n = problem->n;
  scan.width = problem->columns > 0 ? problem->columns : problem->n;
  scan.length = problem->length - skip;
  scan.batch = problem->batch;
  scan.left = (back || problem->columns > 0) != transposed;
  scan.has_initial = problem->initial;
  scan.has_addend = problem->addend;
  scan.a = form_of(a, transposed);
  scan.a_step = sign * a->step;
  if (problem->initial) scan.initial = form_of(&operands[MMCI_INITIAL], transposed);
  if (problem->addend) scan.addend = form_of(b, transposed);
  if (problem->addend) scan.addend_step = sign * b->step;
  scan.ldc = out->matrix.ld;
  scan.c_step = sign * out->step;
  scan.c_stride = out->matrix.stride;
  if (places != NULL)
    *places =
        (mmci_scan_places){.a = matrix_at(problem, a, begin),
                           .initial = problem->initial ? operands[MMCI_INITIAL].matrix.data : NULL,
                           .addend = problem->addend ? matrix_at(problem, b, begin) : NULL,
                           .c = matrix_at(problem, out, begin + sign * skip)};
  if (first != NULL) *first = matrix_at(problem, out, begin);
  return scan;
}
