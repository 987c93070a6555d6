/* by_numpy.c: see by_numpy.h. */
#include "by_numpy.h"

#include <math.h>
#include <string.h>

#include "view.h"

enum { MOST_FACTORS = 32 };

/* What a dtype is as far as it matters here who multiplies. */
typedef enum sort { OTHER, INTEGERS, HALVES, FLOATS, WIDE } sort;

static PyObject *matrix, *asarray, *dot, *matmul;
static PyObject *wide[3]; /* dtypes that the library lacks */

int mmcp_by_numpy_learn(PyObject *numpy) {
  const struct {
    const char *name;
    PyObject **function;
  } functions[] = {{"matrix", &matrix}, {"asarray", &asarray}, {"dot", &dot}, {"matmul", &matmul}};
  for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++)
    if ((*functions[f].function = PyObject_GetAttrString(numpy, functions[f].name)) == NULL)
      return -1;
  static const char *const names[] = {"longdouble", "clongdouble", "object"};
  for (size_t d = 0; d < sizeof names / sizeof names[0]; d++)
    if ((wide[d] = PyObject_CallMethod(numpy, "dtype", "s", names[d])) == NULL) return -1;
  return 0;
}

enum { WIDE_NUMBER = MMC_BOOL + 1 }; /* of the first of wide; the library's have their own */

/* Returns a number of a dtype whose object is not the usual one, as those of the other byte order
 * and "long long" have, by NumPy's own number; -1 for others. */
static int number_of_unusual(PyObject *dtype) {
  static const int numbers[] = {
      MMC_BOOL,        MMC_I8,          MMC_U8,  MMC_I16, MMC_U16, MMC_I32,     MMC_U32, MMC_I64,
      MMC_U64,         MMC_I64,         MMC_U64, MMC_F32, MMC_F64, WIDE_NUMBER, MMC_C64, MMC_C128,
      WIDE_NUMBER + 1, WIDE_NUMBER + 2, -1,      -1,      -1,      -1,          -1,      MMC_F16};
  PyObject *found = PyObject_GetAttrString(dtype, "num");
  const long num = found != NULL ? PyLong_AsLong(found) : -1;
  Py_XDECREF(found);
  if (num == -1) PyErr_Clear();
  const bool is_known = sizeof(long) == sizeof(int64_t) && num >= 0 &&
                        num < (long)(sizeof numbers / sizeof numbers[0]);
  return is_known ? numbers[num] : -1;
}

static int number_of(PyObject *dtype) {
  mmc_dtype known;
  if (mmcp_dtype_of_numpy(dtype, &known)) return (int)known;
  for (int d = 0; d < 3; d++)
    if (dtype == wide[d]) return WIDE_NUMBER + d;
  return number_of_unusual(dtype);
}

static sort sort_of(int number) {
  if (number < 0) return OTHER;
  if (number >= WIDE_NUMBER) return WIDE;
  if (number >= MMC_I8) return INTEGERS;
  return number == MMC_F16 ? HALVES : FLOATS;
}

/* A chain of matrices, the first and the last of which may be vectors, or two stacks. */
typedef struct chain {
  PyObject *const *items;
  Py_ssize_t n;
  int dtype;                                                  /* the number of the first one's */
  bool has_stack, has_vector, has_matrix, is_mixed, is_power; /* is_power: all are one array */
  bool has[WIDE + 1];                                         /* by sort */
  int64_t dims[MOST_FACTORS + 1];
  uint8_t splits[MOST_FACTORS][MOST_FACTORS]; /* by first and last factor: the last of the left */
} chain;

/* Reads an array; false where it is none of NumPy's own, or does not fit the one before. */
static bool read_item(chain *c, Py_ssize_t i) {
  const PyObject *type = (PyObject *)Py_TYPE(c->items[i]);
  PyObject *object;
  const Py_ssize_t *shape;
  int ndim;
  if ((type != mmcp.ndarray && type != matrix) ||
      !mmcp_numpy_shape(c->items[i], &object, &ndim, &shape))
    return false;
  const int dtype = number_of(object);
  const sort sort = sort_of(dtype);
  const bool is_row = ndim == 1 && i == 0, is_column = ndim == 1 && i > 0 && i == c->n - 1;
  if (sort == OTHER || ndim == 0 || (ndim == 1 && !is_row && !is_column)) return false;
  if (i == 0) c->dtype = dtype;
  c->has[sort] = true;
  c->is_mixed = c->is_mixed || dtype != c->dtype;
  c->is_power = c->is_power && c->items[i] == c->items[0];
  c->has_matrix = c->has_matrix || type == matrix;
  c->has_stack = c->has_stack || ndim > 2;
  c->has_vector = c->has_vector || ndim == 1;
  const int64_t rows = is_row ? 1 : shape[ndim > 1 ? ndim - 2 : 0];
  if (i == 0) c->dims[0] = rows;
  c->dims[i + 1] = is_column ? 1 : shape[ndim - 1];
  return rows == c->dims[i];
}

/* Finds the order of fewest multiplications, and of several the one that NumPy's multi_dot takes,
 * since products of integers beside others are NumPy's pair by pair. */
static void find_order(chain *c) {
  double least[MOST_FACTORS][MOST_FACTORS] = {{0}};
  for (Py_ssize_t length = 1; length < c->n; length++)
    for (Py_ssize_t first = 0, last = length; last < c->n; first++, last++) {
      least[first][last] = (double)INFINITY;
      c->splits[first][last] = (uint8_t)first;
      for (Py_ssize_t split = first; split < last; split++) {
        const double price =
            least[first][split] + least[split + 1][last] +
            (double)c->dims[first] * (double)c->dims[split + 1] * (double)c->dims[last + 1];
        if (price >= least[first][last]) continue;
        least[first][last] = price;
        c->splits[first][last] = (uint8_t)split;
      }
    }
}

/* The product of two, which this takes, as a new reference; NULL with an exception set. It goes to
 * out, unless that is NULL. */
static PyObject *product_of(const chain *c, PyObject *left, PyObject *right, PyObject *out) {
  PyObject *arguments[] = {left, right, out}, *product = NULL;
  if (left != NULL && right != NULL)
    product =
        PyObject_Vectorcall(c->has_stack ? matmul : dot, arguments, out != NULL ? 3 : 2, NULL);
  Py_XDECREF(left);
  Py_XDECREF(right);
  return product;
}

/* The product of the factors from the first to the last. */
static PyObject *multiply_in_order(const chain *c, Py_ssize_t first, Py_ssize_t last,
                                   PyObject *out) {
  if (first == last) return Py_NewRef(c->items[first]);
  const Py_ssize_t split = c->splits[first][last];
  PyObject *left = multiply_in_order(c, first, split, NULL);
  PyObject *right = left != NULL ? multiply_in_order(c, split + 1, last, NULL) : NULL;
  return product_of(c, left, right, out);
}

/* The power of the first factor. */
static PyObject *power_of(const chain *c, Py_ssize_t exponent, PyObject *out) {
  if (exponent == 1) return Py_NewRef(c->items[0]);
  const bool is_odd = exponent % 2 != 0;
  PyObject *root = power_of(c, exponent / 2, NULL);
  PyObject *square = product_of(c, Py_XNewRef(root), root, is_odd ? NULL : out);
  return is_odd ? product_of(c, square, Py_NewRef(c->items[0]), out) : square;
}

static PyObject *multiply(chain *c, PyObject *out) {
  if (c->is_power) return power_of(c, c->n, out);
  find_order(c);
  return multiply_in_order(c, 0, c->n - 1, out);
}

/* Says whether the arrays are such as NumPy multiplies. A matrix makes a row or a column of a
 * vector, NumPy's multi_dot matrices of vectors, stacks have other ends, and of integers and floats
 * they are multiplied as floats. */
static bool is_numpys(const chain *c, bool has_out) {
  const bool is_whole = c->is_mixed && c->has[INTEGERS], is_chain = c->n > 2;
  if (!c->has_matrix && !c->has[WIDE] && !is_whole) return false;
  if (c->has_stack)
    return !c->has_matrix && !c->has_vector && !has_out && !c->has[HALVES] &&
           (c->has[WIDE] || !c->has[FLOATS]);
  return !(c->has_vector && (c->has_matrix || (is_chain && (is_whole || has_out))));
}

int mmcp_by_numpy(PyObject *const *items, Py_ssize_t n, PyObject *into, PyObject **out) {
  chain c;
  if (n < 2 || n > MOST_FACTORS || (into != NULL && (PyObject *)Py_TYPE(into) != mmcp.ndarray))
    return 0;
  c.items = items;
  c.n = n;
  c.has_stack = c.has_vector = c.has_matrix = c.is_mixed = false;
  c.is_power = true;
  memset(c.has, 0, sizeof c.has);
  for (Py_ssize_t i = 0; i < n; i++)
    if (!read_item(&c, i)) return 0;
  if (!is_numpys(&c, into != NULL)) return 0;
  *out = multiply(&c, into);
  if (*out != NULL) return 1;
  if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError))
    return -1;
  PyErr_Clear(); /* the exception is raised again, in the words of multi_dot */
  return 0;
}

static bool becomes_array(PyObject *item) {
  return PyList_CheckExact(item) || (PyObject *)Py_TYPE(item) == mmcp.memmap;
}

PyObject *mmcp_as_arrays(PyObject *const *items, Py_ssize_t n) {
  Py_ssize_t others = 0;
  for (Py_ssize_t i = 0; i < n; i++) others += becomes_array(items[i]);
  PyObject *made = others > 0 ? PyTuple_New(n) : NULL;
  for (Py_ssize_t i = 0; made != NULL && i < n; i++) {
    PyObject *item =
        becomes_array(items[i]) ? PyObject_CallOneArg(asarray, items[i]) : Py_NewRef(items[i]);
    if (item == NULL)
      Py_CLEAR(made);
    else
      PyTuple_SET_ITEM(made, i, item);
  }
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
  return made;
}
