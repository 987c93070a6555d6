/* stacks.c: how a call's products make a stack, or are rows of one; see call.h. */
#include "call.h"

#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* ---- one product of many rows ---------------------------------------------------------------- */

/* Returns the elements from one row to the next where the rows of the first factor's stack are
 * those of one matrix, else 0. */
static int64_t stride_of_rows(const mmcp_call *c) {
  const mmcp_view *view = &c->views[0];
  const mmc_matrix *first = &c->matrices[0];
  const int64_t element = (int64_t)mmc_dtype_size(c->dtype);
  int64_t rows = 1, stride = 0; /* bytes */
  if (first->cols > 1 && mmcp_view_stride(view, view->ndim - 1) != element) return 0;
  for (int d = view->ndim - 2; d >= 0; d--) {
    if (view->shape[d] == 1) continue;
    const int64_t step = mmcp_view_stride(view, d);
    if (rows == 1)
      stride = step;
    else if (step != rows * stride)
      return 0;
    rows *= view->shape[d];
  }
  return stride % element == 0 && stride >= first->cols * element ? stride / element : 0;
}

static bool has_conjugated(const mmcp_call *c) {
  bool has = false;
  for (int64_t i = 0; c->has_ops && i < c->n; i++) has = has || c->ops[i] == MMC_OP_H;
  return has;
}

bool mmcp_may_be_rows(const mmcp_call *c, PyObject *precision) {
  if (c->is_chain || c->n < 2 || c->stack_count < 2 || c->exponents != NULL || !c->row ||
      has_conjugated(c) || c->matrices[0].rows == 0 || mmcp_stack_ndim(c, 0) != c->stack_ndim ||
      memcmp(c->views[0].shape, c->stack_shape, (size_t)c->stack_ndim * sizeof *c->stack_shape) !=
          0)
    return false;
  for (int64_t i = 1; i < c->n; i++)
    for (int d = (int)mmcp_stack_ndim(c, i) - 1; d >= 0; d--)
      if (c->views[i].shape[d] != 1) return false;
  if (c->matrices[0].rows > INT64_MAX / 2 / c->stack_count) return false;
  return !mmcp_is_reproducible(precision) && stride_of_rows(c) > 0;
}

void mmcp_make_rows(mmcp_call *c) {
  mmc_matrix *first = &c->matrices[0];
  first->ld = stride_of_rows(c);
  first->layout = MMC_ROW_MAJOR;
  first->rows *= c->stack_count;
  c->dims[0] = first->rows;
  c->together = c->stack_count;
  c->stack_count = 1;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* Points matrix i at the element of the stack at index. Returns the bytes from one element to the
 * next along the last axis. */
static int64_t seek(mmcp_call *c, int64_t i, const int64_t *index) {
  const mmcp_view *view = mmcp_view_of(c, i);
  int ndim = (int)mmcp_stack_ndim(c, i);
  int64_t offset = 0, step = 0;
  for (int d = 0; d < ndim; d++) {
    step = view->shape[d] > 1 ? mmcp_view_stride(view, d) : 0;
    offset += index[c->stack_ndim - ndim + d] * step;
  }
  c->matrices[i].data = view->data != NULL ? view->data + offset : NULL;
  return step;
}

/* Moves on to the next line of the last axis. */
static void advance(const mmcp_call *c, int64_t *index) {
  for (int d = c->stack_ndim - 2; d >= 0 && ++index[d] == c->stack_shape[d]; d--) index[d] = 0;
}

/* The shape of factor i as a matrix for every product of the stack; NULL with an exception set. */
static PyObject *whole_shape(const mmcp_call *c, int64_t i) {
  const mmcp_view *view = &c->views[i];
  const int core = view->ndim - (int)mmcp_stack_ndim(c, i), ndim = c->stack_ndim + core;
  PyObject *shape = PyTuple_New(ndim);
  for (int d = 0; shape != NULL && d < ndim; d++) {
    const int64_t size =
        d < c->stack_ndim ? c->stack_shape[d] : view->shape[view->ndim - (ndim - d)];
    PyObject *number = PyLong_FromLongLong(size);
    if (number == NULL)
      Py_CLEAR(shape);
    else
      PyTuple_SET_ITEM(shape, d, number);
  }
  return shape;
}

/* Has PyTorch write out a factor on a GPU, whose stack has no stride, once for every product: up to
 * so many bytes, where to hand over a table of addresses and to multiply by it takes longer.
 * Returns 1; 0 where that is not so, or there is no memory for it; -1 with an exception set. */
static int expand_factor(mmcp_call *c, int64_t i) {
  const int64_t most_bytes = (int64_t)64 << 20;
  const mmc_matrix before = c->matrices[i];
  if (i == c->n || c->is_chain || c->device == MMCP_HOST || c->views[i].exchange == NULL ||
      c->ops[i] == MMC_OP_H || before.rows == 0 || before.cols == 0)
    return 0;
  const double elements = (double)before.rows * (double)before.cols * (double)c->stack_count;
  if (elements * (double)mmc_dtype_size(c->dtype) > (double)most_bytes || !mmcp_read_matrix(c, i)) {
    c->matrices[i] = before;
    return 0;
  }
  PyObject *shape = whole_shape(c, i), *expanded = NULL;
  if (shape != NULL) expanded = PyObject_CallMethod(c->views[i].owner, "expand", "(O)", shape);
  int got = expanded != NULL ? mmcp_replace_factor(c, i, expanded, "contiguous") : -1;
  Py_XDECREF(shape);
  Py_XDECREF(expanded);
  if (got < 0 && PyErr_ExceptionMatches(PyExc_RuntimeError)) {
    PyErr_Clear();
    got = 0;
  }
  return got;
}

/* Says whether one stride says where the matrices of a stack lie, which it then is for matrix i. */
static bool has_stride(mmcp_call *c, int64_t i) {
  const mmcp_view *view = mmcp_view_of(c, i);
  int ndim = (int)mmcp_stack_ndim(c, i);
  int64_t strides[MMCP_MAX_NDIM] = {0}, element = (int64_t)mmc_dtype_size(c->dtype);
  for (int d = 0; d < ndim; d++) {
    int64_t bytes = view->shape[d] > 1 ? mmcp_view_stride(view, d) : 0;
    if (bytes % element != 0) return false;
    strides[c->stack_ndim - ndim + d] = bytes / element;
  }
  return mmc_matrix_stack(&c->matrices[i], c->dtype, c->stack_ndim, c->stack_shape, strides, NULL);
}

bool mmcp_spread(mmcp_call *c, int64_t i) {
  if (has_stride(c, i)) return true;
  const int expanded = expand_factor(c, i);
  if (expanded < 0) return false;
  if (expanded == 1 && has_stride(c, i)) return true;
  mmc_matrix *matrix = &c->matrices[i];
  void **addresses = malloc((size_t)c->stack_count * sizeof *addresses);
  if (addresses == NULL) return false;
  int64_t index[MMCP_MAX_NDIM] = {0};
  const int64_t line = c->stack_shape[c->stack_ndim - 1];
  for (int64_t t = 0; t < c->stack_count; t += line, advance(c, index)) {
    const int64_t step = seek(c, i, index);
    for (int64_t l = 0; l < line; l++)
      addresses[t + l] = matrix->data != NULL ? (char *)matrix->data + l * step : NULL;
  }
  matrix->addresses = addresses;
  return true;
}

bool mmcp_spread_all(mmcp_call *c) {
  for (int64_t i = 0; i <= c->n; i++) {
    if (i < c->n && c->same[i] != i)
      c->matrices[i] = c->matrices[c->same[i]];
    else if (!mmcp_spread(c, i))
      return false;
  }
  return true;
}

void mmcp_free_addresses(mmcp_call *c) {
  for (int64_t i = 0; i <= c->n; i++)
    if (i == c->n || c->same[i] == i) free((void *)c->matrices[i].addresses);
}
