/* factors.c: how the factors of a call are read; see call.h. */
#include "call.h"

#include <string.h>

#include "gather.h"
#include "parts.h"

/* Broadcasts one factor's stack into the call's, aligned at the right. */
static int join_stack(mmcp_call *c, int64_t i) {
  const mmcp_view *view = &c->views[i];
  int ndim = (int)mmcp_stack_ndim(c, i);
  if (ndim > MMCP_MAX_NDIM - 2) return 0;
  while (c->stack_ndim < ndim) {
    memmove(c->stack_shape + 1, c->stack_shape, (size_t)c->stack_ndim * sizeof *c->stack_shape);
    c->stack_shape[0] = 1;
    c->stack_ndim++;
  }
  for (int d = 0; d < ndim; d++) {
    int64_t *size = &c->stack_shape[c->stack_ndim - ndim + d];
    if (view->shape[d] == 1 || view->shape[d] == *size) continue;
    if (*size != 1) return 0;
    *size = view->shape[d];
  }
  return 1;
}

bool mmcp_is_of_one_library(const mmcp_call *c, const mmcp_view *view) {
  return view->is_numpy == c->views[0].is_numpy && view->exchange == c->views[0].exchange;
}

bool mmcp_read_matrix(mmcp_call *c, int64_t i) {
  const mmcp_view *view = &c->views[i];
  const bool vector = view->ndim == 1;
  return mmcp_view_matrix(view, !vector || i > 0, !vector || i == 0, &c->matrices[i]);
}

/* Joins the dtype of factor i to the call's, which becomes one that both have room in where NumPy
 * has one for them. */
static bool join_dtype(mmcp_call *c, int64_t i) {
  const mmcp_view *view = &c->views[i];
  if (i == 0) c->dtype = view->dtype;
  if (view->dtype == c->dtype) return true;
  c->gathers = true;
  return view->is_numpy && mmcp_promote(c->dtype, view->dtype, &c->dtype);
}

/* Reads factor i: its matrix, its dims as stored, its part of the stack. */
static int read_factor(mmcp_call *c, int64_t i) {
  const mmcp_view *view = &c->views[i];
  bool vector = view->ndim == 1;
  if (view->ndim == 0 || (vector && i > 0 && i < c->n - 1) || (vector && c->n == 1)) return 0;
  if (vector && i == 0) c->row = false;
  if (vector && i > 0) c->column = false;
  if (!mmcp_read_matrix(c, i)) {
    if (view->device != MMCP_HOST && view->exchange == NULL) return 0;
    c->gathers = true;
  }
  if (i == 0) c->device = view->device;
  return join_dtype(c, i) && view->device == c->device && mmcp_is_of_one_library(c, view);
}

/* Where the search for an address begins: the upper bits of its product with 2^64 / golden ratio
 * (Knuth, The Art of Computer Programming, volume 3, section 6.4). */
static uint64_t place_of(const mmcp_call *c, const void *data) {
  return (uint64_t)(uintptr_t)data * UINT64_C(0x9E3779B97F4A7C15) >> (64 - c->seen_bits);
}

/* Says whether two factors are the same array, as the chain reads it. Tensors without elements have
 * no address that would tell. */
static bool is_same(const mmcp_call *c, int64_t i, int64_t j) {
  const mmcp_view *a = &c->views[i], *b = &c->views[j];
  const mmc_matrix *x = &c->matrices[i], *y = &c->matrices[j];
  if (a->data == NULL || a->data != b->data || a->ndim != b->ndim || x->rows != y->rows ||
      x->cols != y->cols || x->ld != y->ld || x->layout != y->layout || a->is_conj != b->is_conj)
    return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->shape[d] != b->shape[d] || mmcp_view_stride(a, d) != mmcp_view_stride(b, d))
      return false;
  return true;
}

/* Returns the time of a multiplication by that of one in FP32; 0 where twins are not sought. */
static double weight_of(mmc_dtype dtype) {
  switch (dtype) {
    case MMC_F32:
      return 1;
    case MMC_F64:
      return 2;
    case MMC_C64:
      return 4;
    case MMC_C128:
      return 8;
    default:
      return 0;
  }
}

/* Says whether factor i + 1 is factor i transposed, and so large that half of their product is
 * worth a plan of its own, which takes some 3 us more to find. */
static bool is_twin(const mmcp_call *c, int64_t i) {
  const mmc_matrix *x = &c->matrices[i], *y = &c->matrices[i + 1];
  return c->views[i].data == c->views[i + 1].data && c->views[i].ndim == 2 &&
         c->views[i + 1].ndim == 2 && x->rows == y->cols && x->cols == y->rows && x->ld == y->ld &&
         x->layout != y->layout && c->views[i].is_numpy &&
         (double)x->rows * (double)x->rows * (double)x->cols * weight_of(c->dtype) >= 2e6;
}

/* Says whether a vector is at an end, beside which the product of twins is of no use: each meets
 * the vector, or what became of it. */
static bool has_vector(const mmcp_call *c) {
  return c->views[0].ndim == 1 || c->views[c->n - 1].ndim == 1;
}

bool mmcp_has_twins(const mmcp_call *c) {
  if (c->stack_ndim > 0 || c->is_chain || c->n < 2 || has_vector(c)) return false;
  for (int64_t i = 0; i + 1 < c->n; i++)
    if (is_twin(c, i)) return true;
  return false;
}

static void find_same(mmcp_call *c) {
  const uint64_t size = UINT64_C(1) << c->seen_bits;
  for (uint64_t s = 0; s < size; s++) c->seen[s] = -1;
  c->repeats = false;
  for (int64_t i = 0; i < c->n; i++) {
    uint64_t s = place_of(c, c->views[i].data);
    while (c->seen[s] >= 0 && !is_same(c, i, c->seen[s])) s = (s + 1) & (size - 1);
    if (c->seen[s] < 0) c->seen[s] = i;
    c->same[i] = c->seen[s];
    c->repeats = c->repeats || c->same[i] != i;
  }
}

/* Reads what was made of an earlier factor, which is the same array, in place of factor i. */
static int share_factor(mmcp_call *c, int64_t i, int64_t first) {
  const mmcp_view *made = &c->views[first];
  mmcp_view *view = &c->views[i];
  view->data = made->data;
  view->strides = made->strides;
  view->stride_bytes = made->stride_bytes;
  view->dtype = made->dtype;
  view->is_conj = made->is_conj;
  view->is_swapped = made->is_swapped;
  view->is_odd = made->is_odd;
  return read_factor(c, i);
}

/* Says whether the conjugate of a matrix is the conjugated transposed of one that lies without gaps
 * between the elements of its rows. */
static bool is_adjoint(const mmc_matrix *x) {
  return x->layout == MMC_COL_MAJOR || x->rows <= 1 || (x->cols <= 1 && x->ld <= 1);
}

int mmcp_replace_factor(mmcp_call *c, int64_t i, PyObject *array, const char *method) {
  PyObject *made = PyObject_CallMethod(array, method, NULL);
  if (made == NULL) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
    return 0;
  }
  mmcp_view_release(&c->views[i]);
  const int got = mmcp_view_acquire(made, MMCP_READ, &c->views[i]);
  Py_DECREF(made);
  c->asked = NULL;
  return got == 1 ? read_factor(c, i) : got;
}

/* Has PyTorch conjugate factor i, unless that was done for an earlier one. */
static int resolve_conjugate(mmcp_call *c, int64_t i, PyObject *const *items) {
  int64_t first = 0;
  while (items[first] != items[i]) first++;
  if (first == i) return mmcp_replace_factor(c, i, items[i], "resolve_conj");
  /* A vector at both ends may have been read as it lies at the first. */
  return c->views[first].is_conj ? 0 : share_factor(c, i, first);
}

/* Writes out factor i: on a device its library does. */
static int gather_factor(mmcp_call *c, int64_t i) {
  mmcp_view *view = &c->views[i];
  if (view->device == MMCP_HOST) return mmcp_gather(view, c->dtype);
  return view->exchange != NULL ? mmcp_replace_factor(c, i, view->owner, "contiguous") : 0;
}

/* Writes out what is of another dtype than the call or of the other byte order, or cannot be read
 * as it lies; an array that occurs several times once. */
static int gather_factors(mmcp_call *c, PyObject *const *items) {
  const uint64_t size = UINT64_C(1) << c->seen_bits;
  for (uint64_t s = 0; s < size; s++) c->seen[s] = -1;
  for (int64_t i = 0; i < c->n; i++) {
    mmcp_view *view = &c->views[i];
    if (view->dtype == c->dtype && mmcp_read_matrix(c, i)) continue;
    uint64_t s = place_of(c, items[i]);
    while (c->seen[s] >= 0 && items[c->seen[s]] != items[i]) s = (s + 1) & (size - 1);
    const int64_t first = c->seen[s] < 0 ? i : c->seen[s];
    c->seen[s] = first;
    const int got = first < i ? share_factor(c, i, first) : gather_factor(c, i);
    if (got != 1) return got;
    if (!mmcp_read_matrix(c, i)) return 0;
  }
  return 1;
}

static int acquire_factor(mmcp_call *c, int64_t i, PyObject *const *items, mmcp_want want) {
  int got = mmcp_view_acquire(items[i], want, &c->views[c->acquired++]);
  if (got == 1) got = read_factor(c, i);
  if (got == 1 && c->views[i].is_conj && !(mmcp_read_matrix(c, i) && is_adjoint(&c->matrices[i])))
    got = resolve_conjugate(c, i, items);
  c->ops[i] = got == 1 && c->views[i].is_conj ? MMC_OP_H : MMC_OP_N;
  c->has_ops = c->has_ops || c->ops[i] != MMC_OP_N;
  return got;
}

bool mmcp_is_shared(const mmcp_call *c, int64_t i) {
  const mmcp_view *view = &c->views[i];
  bool is_shared = true;
  for (int d = (int)mmcp_stack_ndim(c, i) - 1; d >= 0 && is_shared; d--)
    is_shared = view->shape[d] == 1 || mmcp_view_stride(view, d) == 0;
  return is_shared;
}

/* Finds which factors all products of the stack share, where that makes some products one, or on a
 * GPU, where it says which kernels multiply them, and how fast. */
static void find_shared(mmcp_call *c) {
  const bool by_itself = c->device != MMCP_HOST;
  if (c->stack_count < 2 || (c->n < 3 && !by_itself)) return;
  for (int64_t i = 0; i < c->n; i++) {
    c->shared[i] = mmcp_is_shared(c, i);
    c->has_shared = c->has_shared || (c->shared[i] && (by_itself || (i > 0 && c->shared[i - 1])));
  }
}

/* Finds what the factors have in common: the stack, which are the same, which it shares. */
static int join_factors(mmcp_call *c) {
  c->stack_ndim = 0;
  c->stack_count = 1;
  c->has_shared = c->repeats = false;
  for (int64_t i = 0; i < c->n; i++)
    if (c->views[i].ndim > 2 && join_stack(c, i) != 1) return 0;
  for (int d = 0; d < c->stack_ndim; d++) c->stack_count *= c->stack_shape[d];
  find_same(c);
  find_shared(c);
  return 1;
}

int mmcp_acquire_factors(mmcp_call *c, PyObject *const *items, mmcp_want want) {
  c->row = c->column = true;
  for (int64_t i = 0; i < c->n; i++) {
    int got = acquire_factor(c, i, items, want);
    if (got != 1) return got;
  }
  if (c->seeks_parts) c->part_count = mmcp_find_parts(c, c->parts);
  if (c->part_count > 0) return 0;
  if (!c->gathers) return join_factors(c);
  return c->may_be_torchs && c->device != MMCP_HOST ? join_factors(c) : mmcp_write_out(c, items);
}

int mmcp_write_out(mmcp_call *c, PyObject *const *items) {
  const int got = gather_factors(c, items);
  return got == 1 ? join_factors(c) : got;
}

/* Reads the factors off one array of three dimensions and more, whose last three are the factors in
 * a row, their rows and their columns. */
int mmcp_read_chain(mmcp_call *c) {
  mmcp_view *all = &c->stack;
  mmcp_view *view = &c->views[0];
  const int ndim = all->ndim - 1, axis = ndim - 2;
  if (ndim > MMCP_MAX_NDIM - 2) return 0;
  for (int d = 0; d < ndim; d++) {
    const int from = d < axis ? d : d + 1;
    c->shape[d] = all->shape[from];
    c->strides[d] = mmcp_view_stride(all, from);
  }
  const int64_t element = (int64_t)mmc_dtype_size(all->dtype), step = mmcp_view_stride(all, axis);
  if (step % element != 0) return 0;
  c->step = step / element;
  *view = *all;
  view->buffer.obj = view->owner = NULL; /* the stack holds them */
  view->managed = NULL;
  view->made = view->copy = NULL;
  view->ndim = ndim;
  view->shape = c->shape;
  view->strides = c->strides;
  view->stride_bytes = 1;
  c->row = c->column = true;
  c->stack_count = 1;
  c->repeats = c->n > 1 && step == 0;
  for (int64_t i = 0; c->repeats && i < c->n; i++) c->same[i] = 0;
  if (read_factor(c, 0) != 1) return 0;
  if (c->gathers) {
    const int got = mmcp_gather(all, all->dtype);
    c->gathers = false;
    return got == 1 ? mmcp_read_chain(c) : got;
  }
  if (join_stack(c, 0) != 1) return 0;
  for (int d = 0; d < c->stack_ndim; d++) c->stack_count *= c->stack_shape[d];
  return 1;
}

/* Says whether factor i is a line that stands for a square matrix; it lies as its op finds it. */
static bool is_line(const mmcp_call *c, const mmc_plan *plan, int64_t i) {
  const mmc_matrix *x = &c->matrices[i];
  return plan != NULL && x->rows != x->cols && (x->rows == 1 || x->cols == 1) &&
         mmc_plan_takes_line(plan, i);
}

int mmcp_find_dims(mmcp_call *c, const mmc_plan *plan) {
  if (c->is_chain) {
    if (c->n > 1 && c->matrices[0].rows != c->matrices[0].cols) return 0;
    for (int64_t i = 0; i <= c->n; i++)
      c->dims[i] = i < c->n ? c->matrices[0].rows : c->matrices[0].cols;
    return 1;
  }
  for (int64_t i = 0; i < c->n; i++) {
    int64_t rows = c->matrices[i].rows, cols = c->matrices[i].cols;
    if (is_line(c, plan, i)) rows = cols = rows * cols;
    if (i == 0) c->dims[0] = rows;
    if (c->dims[i] != rows) return 0;
    c->dims[i + 1] = cols;
  }
  return 1;
}
